"""A Sphinx extension: on a phone each row of a table of three or four columns becomes a card,
and no meaning is out of sight.

The style (`book.css`) does it. Here each cell gets the words of its column, to be shown before it,
and its role, which a table loses in some browsers when its rows are shown as blocks.
"""

import re
from html import escape, unescape
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

FEWEST, MOST = 3, 4  # columns: two fit, and of many a card is long
TABLE = re.compile(r'<table class="docutils align-default">.*?</table>', re.S)
HEAD, ROW, CELL = (
    re.compile(rf"<{name}\b([^>]*)>(.*?)</{name}>", re.S) for name in ("th", "tr", "td")
)


def words(html: str) -> str:
    "The text in a piece of HTML."
    return " ".join(unescape(re.sub("<[^>]*>", "", html)).split())


def card(found: re.Match) -> str:
    "A table with roles, and with a label on each cell, if it has a head and few columns."
    table = found[0]
    labels = [words(inside) for _, inside in HEAD.findall(table)]
    if not FEWEST <= len(labels) <= MOST or not table.partition("<thead>")[2].partition("</thead>")[
        0
    ].count("<th") == len(labels):
        return table

    def row(found: re.Match) -> str:
        label = iter(labels)
        cells = CELL.sub(
            lambda cell: (
                f'<td{cell[1]} role="cell" data-label="{escape(next(label))}">{cell[2]}</td>'
            ),
            found[2],
        )
        return f'<tr{found[1]} role="row">{cells}</tr>'

    table = ROW.sub(row, table).replace("<th ", '<th role="columnheader" ')
    table = re.sub("<(thead|tbody)>", r'<\1 role="rowgroup">', table)
    return table.replace(
        '<table class="docutils align-default">', '<table class="docutils cards" role="table">', 1
    )


def add_cards(
    app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    "Make the tables of a page ready."
    context["body"] = TABLE.sub(card, context.get("body", ""))


def setup(app: Sphinx) -> dict[str, bool]:
    "Called by Sphinx."
    app.connect("html-page-context", add_cards)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
