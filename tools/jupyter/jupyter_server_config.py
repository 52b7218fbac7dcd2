"""JupyterLab as `make lab` starts it: what it saves is what `make prepare` would,
so git sees only what a person changed.
"""

import sys
from pathlib import Path
from typing import Any

import nbformat
from nbdev.clean import clean_nb
from nbdev.config import get_config

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from outputs import agree, is_run, meaning
from pictures import CHART, add_pictures

HEADING = "jp-MarkdownHeadingCollapsed"
# By the ends of cells' ids.
SHUT = {
    "solutions": {HEADING: True},
    "users": {HEADING: True},
    "-solution": {"jupyter": {"source_hidden": True}},
}


def shut(cell: nbformat.NotebookNode) -> None:
    "Who opens a heading or a solution looks, and changes nothing."
    cell.metadata.pop(HEADING, None)
    for end, metadata in SHUT.items():
        if cell.id.endswith(end):
            cell.metadata.update(metadata)


def kept(
    cell: nbformat.NotebookNode, saved: list[nbformat.NotebookNode]
) -> list[nbformat.NotebookNode]:
    """The outputs of a cell that belong into the file: none if the book leaves it unrun;
    those saved, if they say the same.
    """
    if not is_run(cell):
        return []
    for out in cell.outputs:
        if CHART in out.get("data", {}):
            out.data.pop("image/png", None)  # JupyterLab's own picture of the chart
    if agree(meaning(saved), meaning(cell.outputs)):
        return saved
    add_pictures(cell.outputs)
    return cell.outputs


def clean(model: dict[str, Any], path: str, contents_manager: Any, **_: Any) -> None:
    "Before a notebook is saved: take off what is no one's work."
    if model["type"] != "notebook":
        return
    nb, file = nbformat.from_dict(model["content"]), Path(contents_manager.root_dir, path)
    before = nbformat.read(file, as_version=4).cells if file.is_file() else []
    saved = {cell.id: cell.outputs for cell in before if cell.cell_type == "code"}
    for cell in nb.cells:
        shut(cell)
        if cell.cell_type == "code":
            cell.outputs = kept(cell, saved.get(cell.id, []))
    clean_nb(nb, allowed_cell_metadata_keys=get_config().get("allowed_cell_metadata_keys").split())
    model["content"] = nb


c.FileContentsManager.pre_save_hook = clean  # noqa: F821 (Jupyter gives `c`)
