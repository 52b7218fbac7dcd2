"""Whoever exports, by whatever command, gets the docstrings that `nbdev_docstrings` makes.

nbdev 2.4 has no place for an export processor of a project's own. So
`python tools/export/nbdev_hook.py`, which the set-up of .venv runs, writes a line that Python reads
at each start there: it imports this module, which waits until nbdev is imported, and then stands at
its two doors, from notebook to module and from module to notebook.
"""

import sys
from importlib.machinery import PathFinder


def _documented(maker):
    "nbdev.maker, which writes modules."
    from nbdev_docstrings import documented

    make = maker.ModuleMaker.make

    def made(self, cells, *args, **kwargs):
        for cell in cells:
            if cell.cell_type == "code":
                cell.set_source(documented(cell.source))
        return make(self, cells, *args, **kwargs)

    maker.ModuleMaker.make = made


def _plain(doclinks):
    "nbdev.doclinks, from which nbdev_update has the cells of a module."
    from nbdev_docstrings import plain

    cells_of = doclinks._iter_py_cells

    def read(path):
        for cell in cells_of(path):
            cell.code = plain(cell.code)
            yield cell

    doclinks._iter_py_cells = read


class Hook:
    "What Python asks for modules, before it looks for them."

    doors = {"nbdev.maker": _documented, "nbdev.doclinks": _plain}

    def find_spec(self, name, path=None, target=None):
        "Let a module of nbdev's be changed once it has run."
        spec = PathFinder.find_spec(name, path) if name in self.doors else None
        if spec:
            run = spec.loader.exec_module
            spec.loader.exec_module = lambda module: (run(module), self.doors[name](module))
        return spec


def install() -> None:
    "Write the line."
    from pathlib import Path
    from sysconfig import get_path

    lines = f"{Path(__file__).resolve().parent}\nimport nbdev_hook\n"
    (Path(get_path("purelib")) / "nbdev_hook.pth").write_text(lines, encoding="utf-8")


if __name__ == "__main__":
    install()
else:
    sys.meta_path.insert(0, Hook())
