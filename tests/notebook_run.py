"""`nbdev_test`, by its own code; what each cell showed is kept for the tests.

    python tests/notebook_run.py FOLDER [what nbdev_test takes …]

On its way it tries what nbdev leaves out: the stubs of exercises, and before each solution the
likely mistakes, which its check must refuse by their names.
"""

import json
import re
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import nbdev.test
from execnb.nbio import NbCell
from execnb.shell import CaptureShell, format_exc
from fastcore.basics import AttrDict
from ipykernel.compiler import XCachingCompiler

CELL_SECONDS = 300  # a cell that runs longer hangs
# Before nbdev reads the arguments, and before its processes are forked.
FOLDER = Path(sys.argv.pop(1)) if __name__ == "__main__" else Path()


def file_of(notebook: Path) -> str:
    "The name of the file in which a run is kept."
    return f"{notebook.parent.name}+{notebook.stem}.json"


def mistakes_are_named(solution: str) -> str:
    """Code that hands each likely mistake of an exercise in as the answer:
    its check must refuse it, and name it.
    """
    call = re.search(r"check_agrees\((?:(?!check_agrees).)*wrong=(wrong_\d).*\Z", solution, re.S)
    if not call:
        return ""
    checked = re.sub(r"\(\s*\w+", "(mistake_tried", call[0], count=1)
    return f"""\
for name_of_it, mistake_tried in {call[1]}.items():
    try:
{textwrap.indent(checked, " " * 8)}
    except AssertionError as refused:
        assert f": {{name_of_it}}" in str(refused), f"{{name_of_it}}: it is not named\\n{{refused}}"
    else:
        raise AssertionError(f"{{name_of_it}}: the check finds nothing wrong")
"""


class Kept(CaptureShell):
    "The shell in which nbdev runs a notebook."

    compiler_class = XCachingCompiler  # by it errors tell a cell from a file, as in Jupyter

    def __init__(self, notebook: Path) -> None:
        super().__init__(notebook, timeout=CELL_SECONDS)
        self.file = FOLDER / file_of(notebook)
        self.shown: dict[str, list] = {}  # by cell
        self.now = ""  # the cell that runs, or ran last
        if altair := sys.modules.get("altair"):
            altair.Chart._counter = 0  # it counts the charts of a process, and names them so

    def _run(self, code: str, *args: object, **options: object) -> AttrDict:
        """Run code. By a semicolon at its end execnb silences what is printed, too;
        here, as in Jupyter, the value alone.
        """
        quiet = code.rstrip().endswith(";")
        ran = super()._run(code + "\n#" * quiet, *args, **options)
        ran.quiet = quiet
        return ran

    def cell(self, cell: NbCell, **options: bool) -> None:
        "Run a cell; before a solution, its mistakes."
        self.now = cell.id
        if cell.id.endswith("-solution") and (code := mistakes_are_named(cell.source)):
            self.run(code)
        if not self.exc:
            super().cell(cell, **options)
            self.shown[cell.id] = cell.get("outputs", [])

    def stub(self, cell: NbCell) -> None:
        "Run the stub of an exercise; that its check refuses it is no failure."
        self.shown[cell.id] = self.run(cell.source)
        self.exc = None

    def run_all(self, nb: NbCell, *, preproc: Callable[[NbCell], bool], **options: bool) -> None:
        "Run all cells, and write down what they showed."

        def passed_over(cell: NbCell) -> bool:
            if str(cell.get("id")).endswith("-stub"):
                self.stub(cell)
            cell.outputs = []  # the saved ones
            return preproc(cell)

        try:
            super().run_all(nb, preproc=passed_over, **options)
        finally:
            failed = f"cell {self.now}\n{''.join(format_exc(self.exc))}" if self.exc else ""
            self.file.write_text(json.dumps([failed, self.shown]), encoding="utf-8")


if __name__ == "__main__":
    nbdev.test.CaptureShell = Kept
    nbdev.test.nbdev_test()
