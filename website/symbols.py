"""A Sphinx extension: query, key, value and weight have one hue each, in equations, in the text and in code.

Pointing at one lights up the others (`book.js`). The hues are those of the drawings: `attention_nb/figures/drawing.css`.
"""
import re
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

from notebooks import is_chapter

SYMBOLS = {"q": "q", "k": "k", "v": "v", "w": "w", "weights": "w", "queries": "q", "keys": "k", "values": "v"}
WORD = "|".join(SYMBOLS)
# Not in a subscript: the k of d_k is no key.
MATH = re.compile(r'<span class="mord mathnormal"((?: style="[^"]*")?)>([qkvw])</span>')
CODE = re.compile(rf'<span class="(n|pre)">({WORD})</span>')


def coloured(body: str) -> str:
    "The page with a class for each symbol."
    body = MATH.sub(lambda m: f'<span class="mord mathnormal sym-{m[2]}"{m[1]}>{m[2]}</span>', body)
    return CODE.sub(lambda m: f'<span class="{m[1]} sym-{SYMBOLS[m[2]]}">{m[2]}</span>', body)


def colour(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: nodes.document | None) -> None:
    "Colour the chapters and the notation; in the first, w is a word."
    if is_chapter(page) and not page.startswith("00") or page == "lookup/notation":
        context["body"] = coloured(context.get("body", ""))


def setup(app: Sphinx) -> dict[str, bool]:
    "Called by Sphinx."
    app.connect("html-page-context", colour)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
