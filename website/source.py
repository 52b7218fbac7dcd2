"""A Sphinx extension: from the description of a name to the cell of the same page that defines it.

`sphinx.ext.linkcode` makes the links; here is where they lead.
nbdev writes above each part of a module from which cell it is.
"""

import re
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx

CELL = re.compile(r"^# %% \S+ #(\S+)\n", re.M)
DEFINED = re.compile(r"^(?:class|def) (\w+)", re.M)


def anchor(cell: str) -> str:
    "The place of a cell's code on its page."
    return f"code-{cell}"


@cache
def cells(module: str) -> dict[str, str]:
    "The functions and classes of a module, each with its cell."
    _, *parts = CELL.split(Path(find_spec(module).origin).read_text(encoding="utf-8"))
    return {
        name: cell for cell, code in zip(parts[::2], parts[1::2]) for name in DEFINED.findall(code)
    }


def linkcode_resolve(domain: str, info: dict[str, str]) -> str | None:
    "The link to the source of a name; a method's is that of its class."
    cell = cells(info["module"]).get(info["fullname"].partition(".")[0])
    return cell and f"#{anchor(cell)}"


def mark(app: Sphinx, doctree: nodes.document) -> None:
    "Give the code of each exported cell its anchor: inside a fold, which browsers then open."
    for cell in doctree.findall(nodes.container):
        if exported := cell.get("cell_metadata", {}).get("exported"):
            cell[0]["ids"].append(anchor(exported))


def setup(app: Sphinx) -> dict[str, bool]:
    "Called by Sphinx."
    app.connect("doctree-read", mark)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
