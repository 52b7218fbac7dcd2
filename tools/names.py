"""Fill the list of public names in nbs/lookup/api.ipynb from its imports,
so that each name is written once.

nbdev reads that list, and type checkers and editors read `__all__`, which nbdev makes of it.
"""

import ast
import json
import textwrap
from pathlib import Path

from execnb.nbio import nb2str

API = Path(__file__).resolve().parents[1] / "nbs/lookup/api.ipynb"


def source(ident: str) -> str:
    "The source of a cell of the notebook."
    cells = json.loads(API.read_text(encoding="utf-8"))["cells"]
    return next("".join(cell["source"]) for cell in cells if cell["id"] == ident)


def imported(code: str) -> list[str]:
    "The names that some code imports, in its order; also those for type checkers alone."
    froms = sorted(
        (node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.ImportFrom)),
        key=lambda node: node.lineno,
    )
    return [alias.asname or alias.name for node in froms for alias in node.names]


def listing(names: list[str]) -> str:
    "The cell that lists the names."
    lines = textwrap.fill(
        ", ".join(f'"{name}"' for name in names) + ",",
        100,
        initial_indent="    ",
        subsequent_indent="    ",
    )
    return (
        "#| export\n# `make prepare` makes this list from the imports above.\n"
        f"_all_ = [\n{lines}\n]"
    )


def fill() -> None:
    "Write the list into the notebook, unless it is right."
    new = listing(imported(source("imports")))
    if new == source("names"):
        return
    nb = json.loads(API.read_text(encoding="utf-8"))
    next(cell for cell in nb["cells"] if cell["id"] == "names")["source"] = new.splitlines(
        keepends=True
    )
    API.write_text(nb2str(nb), encoding="utf-8", newline="\n")


if __name__ == "__main__":
    fill()
