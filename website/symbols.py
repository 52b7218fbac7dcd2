"""A Sphinx extension: query, key, value and weight have one hue each,
in equations, in the text and in code.

Pointing at one lights up the others (`book.js`). The hues are those of the drawings:
`attention_nb/figures/drawing.css`.
"""

import re
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

from notebooks import is_chapter

SYMBOLS = {
    "q": "q",
    "k": "k",
    "v": "v",
    "w": "w",
    "weights": "w",
    "query": "q",
    "queries": "q",
    "keys": "k",
    "values": "v",
}
SYMBOLS |= {name.format(s): s for s in "qkv" for name in ("W_{}", "{}_proj", "{}_norm", "to_{}")}
WORD = "|".join(SYMBOLS)
# Not in a subscript: the k of d_k is no key. Only W has its own.
MATH = re.compile(r'<span class="mord mathnormal"((?: style="[^"]*")?)>([qkvw])</span>')
MATRIX = re.compile(
    r'<span class="mord mathnormal"((?: style="[^"]*")?)>W</span>'
    r'(<span class="msupsub">(?:(?!mathnormal).)*'
    r'<span class="mord mathnormal mtight)"([^>]*>([qkv])</span>)',
    re.S,
)
CODE = re.compile(rf'<span class="(n|pre)">({WORD})</span>')

# In the prose, its tables and its captions.
# A chapter on numbers (0, 2, 12) has other values and weights.
TOLD = ("01", "03", "04", "05", "06", "10", "11", "12", "13", "14", "15", "16", "20")
PROSE = {
    "query": "q",
    "queries": "q",
    "key": "k",
    "keys": "k",
    "value": "v",
    "values": "v",
    "weight": "w",
    "weights": "w",
}
OTHER = "|".join(
    [  # what these words also mean: the parameters of a layer, its numbers, what is pressed
        r"(?:random|own|old|our|learned|trained|same|loads its|with its|[’']s) weights?",
        (
            r"weights? (?:of their own|copied|come from|from|of the model|"
            r"as parameters|are trained|run with)"
        ),
        r"weight for weight",
        r"values? and (?:\w+ ){0,2}gradients?",
        r"values? (?:between|of their type|, not speed)",
        r"(?:in|compare|finite|equal|proves|to its|its) values",
        r"arrow keys",
    ]
)
PHRASE = re.compile(rf"\b(?:(?P<other>{OTHER})|(?P<word>{'|'.join(PROSE)}))\b", re.I)
# What is no prose.
PIECE = re.compile(r"(<(script|style|pre|code|svg|math|button|h\d|dt)\b.*?</\2>|<[^>]*>)", re.S)


def told(body: str) -> str:
    "The page with a class for each word of its prose that names a symbol."

    def named(found: re.Match) -> str:
        return (
            found[0]
            if found["other"]
            else f'<span class="sym-{PROSE[found[0].lower()]}">{found[0]}</span>'
        )

    parts = PIECE.split(body)  # text, then what stands between two texts, and the name of its tag
    return "".join(
        part if i % 3 == 1 else PHRASE.sub(named, part) for i, part in enumerate(parts) if i % 3 < 2
    )


def coloured(body: str, prose: bool = False) -> str:
    "The page with a class for each symbol, and for the words that name them."
    body = told(body) if prose else body
    body = MATRIX.sub(
        lambda m: (
            f'<span class="mord mathnormal sym-{m[4]}"{m[1]}>W</span>{m[2]} sym-{m[4]}"{m[3]}'
        ),
        body,
    )
    body = MATH.sub(lambda m: f'<span class="mord mathnormal sym-{m[2]}"{m[1]}>{m[2]}</span>', body)
    return CODE.sub(lambda m: f'<span class="{m[1]} sym-{SYMBOLS[m[2]]}">{m[2]}</span>', body)


def colour(
    app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    "Colour the chapters and the notation; in the first, w is a word."
    if is_chapter(page) and not page.startswith("00") or page == "lookup/notation":
        context["body"] = coloured(context.get("body", ""), page.startswith(TOLD))


def setup(app: Sphinx) -> dict[str, bool]:
    "Called by Sphinx."
    app.connect("html-page-context", colour)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
