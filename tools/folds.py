"""What the site folds is collapsed in JupyterLab, which then shows a cell's first line.

Directives say it: CONTRIBUTING.md.
"""

import sys

from nbformat import NotebookNode

from places import ROOT

sys.path.insert(0, str(ROOT / "website"))
from notebooks import folded


def collapse(nb: NotebookNode) -> NotebookNode:
    "The notebook with its folded cells marked, and no others."
    for cell in (cell for cell in nb.cells if cell.cell_type == "code"):
        cell.metadata.pop("jupyter", None)
        if folded(cell):
            cell.metadata.jupyter = NotebookNode(source_hidden=True)
    return nb
