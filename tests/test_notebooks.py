"""Every notebook runs, its saved outputs are what any machine gives,
and it is stored in nbdev's clean form.
"""

import asyncio
import json
import os
import re
import shutil
import sys
import textwrap
from collections import Counter

import fresh
import outputs
import pytest
import torch
from conftest import CHAPTERS, NBS, NOTEBOOKS, differences, fail_if, place, sh, tree
from pictures import CHART, PICTURE, is_fresh

BIN = os.path.dirname(sys.executable)

# A processor with another vector unit rounds otherwise. PyTorch, MKL and oneDNN can each be told
# to use the smallest: what holds there and here hangs on no rounding.
SMALLEST = {
    "ATEN_CPU_CAPABILITY": "default",
    "MKL_ENABLE_INSTRUCTIONS": "SSE4_2",
    "ONEDNN_MAX_CPU_ISA": "SSE41",
}
OWN = torch.backends.cpu.get_cpu_capability().lower()
# On other kinds of processors none is smaller. On this machine's own unit,
# `make docs` has run them, and nbdev_test does.
UNIT, SET = ("default", SMALLEST) if OWN in ("avx2", "avx512") else (OWN, {})


def each_run(test):
    "What is no chapter need not run again once `make docs` has run it."
    once = {
        path: pytest.mark.once(
            "notebook", fresh.depends_on, **{} if path in CHAPTERS else {"way": ""}
        )
        for path in NOTEBOOKS
    }
    each = [pytest.param(path, id=f"{place(path)}-{UNIT}", marks=once[path]) for path in NOTEBOOKS]
    return pytest.mark.parametrize("notebook", each)(test)


def with_stubs(attempt):
    "`attempt`, with the stubs of the exercises run too, which must change no other cell's output."

    async def run(nb, *args, **kwargs):
        stubs = [cell for cell in nb.cells if cell.id.endswith("-stub")]
        for cell in stubs:
            cell.source = cell.source.partition("\n")[2]  # without `eval: false`
        for cell in nb.cells:
            if cell.id.endswith("-solution"):
                # whose last value is shown
                cell.source = mistakes_are_named(cell.source) + cell.source
        result = await attempt(nb, *args, **kwargs)
        for cell in stubs:
            assert_refused_in_words(cell)
            cell.outputs = []
        return result

    return run


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


def assert_refused_in_words(stub):
    """A check that lets an empty stub pass would let anything pass;
    and a learner who runs it first must read why.
    """
    said = [f"{out.ename}: {out.evalue}" for out in stub.outputs if out.output_type == "error"]
    assert len(said) == 1 and said[0].startswith("CheckFailed: "), (
        f"{stub.id}: {said or stub.outputs}"
    )
    bugs = re.findall(r"^  (?:undeclared choice, or )?likely bug(?: \[.*?\])?: (.*)", said[0], re.M)
    assert len(bugs) == 1 and bugs[0].startswith("it returns nothing: is a return missing"), (
        f"{stub.id}: {said[0]}"
    )


@each_run
def test_cells_pass_and_saved_outputs_are_fresh(notebook, monkeypatch):
    """Every cell runs without an error in a fresh kernel, and prints what is saved.
    No stub of an exercise passes its check.

    If it fails: The message names the cell. If the new output is right, run `make prepare`. If not,
    the code has changed its meaning. If it fails here and not in `make page`, the output depends on
    rounding: see tools/chapter.md, What may be printed. Skipped: the notebook passed before and
    nothing that it depends on has changed (`CI=true make test` runs all); or it needs Triton
    (`make .venv/.gpu`, on Linux).
    """
    if why := outputs.passed_over(notebook):
        pytest.skip(why)
    for name, value in SET.items():
        monkeypatch.setenv(name, value)  # kernels inherit it
    monkeypatch.setattr(outputs, "attempt", with_stubs(outputs.attempt))
    try:
        asyncio.run(outputs.check(notebook))
    except outputs.Failure as failure:
        raise pytest.fail.Exception(
            f"With the vector unit {UNIT}:\n{failure}", pytrace=False
        ) from None


def test_each_chart_has_a_picture():
    """Beside each saved chart lies its picture, which GitHub shows,
    drawn from the chart as it is saved.

    If it fails: Run `make prepare`, which draws it.
    """
    found, sizes = [], {}
    for path in NOTEBOOKS:
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        shown = [
            (cell["id"], out["data"])
            for cell in cells
            for out in cell.get("outputs", [])
            if CHART in out.get("data", {})
        ]
        found += [f"{place(path)}, cell {name}" for name, data in shown if not is_fresh(data)]
        sizes[path] = sum(len("".join(data.get(PICTURE, ""))) for _, data in shown)
    fail_if(found, "No picture, or one of other data; `make prepare` draws it:")
    assert (
        0
        < sum(sizes.values())
        < 0.6 * sum(path.stat().st_size - n for path, n in sizes.items() if n)
    ), "too heavy"


def test_notebooks_are_clean(tmp_path):
    """No notebook stores execution counts or metadata of a run:
    they make every diff and merge noisy.

    If it fails: Run `make prepare`. If you edit in `make lab`, it does not happen.
    """
    shutil.copy(NBS.parent / "settings.ini", tmp_path)
    shutil.copytree(NBS, tmp_path / "nbs", ignore=shutil.ignore_patterns(".*"))
    sh(f"{BIN}/nbdev_clean", cwd=tmp_path)
    committed = {str(p.relative_to(NBS)): p.read_bytes() for p in NOTEBOOKS}
    fail_if(
        differences(committed, tree(tmp_path / "nbs")),
        "Not as nbdev_clean writes it; run `make prepare`:",
    )


def test_each_chapter_has_its_own_number():
    """Each chapter has a number of its own, `NN_name.ipynb`;
    a notebook that is no chapter has none and lies in a folder.

    If it fails: Rename one.
    """
    top = [p.name for p in NOTEBOOKS if p.parent == NBS and p.stem != "index"]
    fail_if(
        [name for name in top if not re.fullmatch(r"\d\d_[a-z_]+\.ipynb", name)],
        "A chapter's name is two digits, `_`, and words in small letters:",
    )
    numbers = Counter(name[:2] for name in top)
    fail_if([name for name in top if numbers[name[:2]] > 1], "These chapters share a number:")
