"""A Sphinx extension: the map of the book is a machine whose parts are the chapters;
each chapter shows it small, with its part lit.

The chapters stand in one place, the lists below "The map" in nbs/index.ipynb. On the home page
these lists are laid over a drawing (`book.css`): they stay lists of links for the keyboard, for
ears, on a phone, on paper, and in README.md. Chapters of the first two parts have their place in
the machine; those of the others fill a grid, in which a new one takes the next place.
"""

import json
import re
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from docutils import nodes
from sphinx.application import Sphinx

from notebooks import HOME, PARTS, fnmatch, is_chapter

SITE = Path(__file__).resolve().parent
WIDTH, HEIGHT = 992, 356  # of the drawing of the model, in pixels
ENTRY = re.compile(r"^(\d+)\. (?:\[([^\]]+)\]|([^\\\[]+))", re.M)
LISTS = re.compile(r'<ol class="arabic simple" start="(\d+)">(.*?)</ol>', re.S)
ITEM = re.compile(r"<li><p>(.*?)<br />\s*(.*?)</p></li>", re.S)
Box = tuple[int, int, int, int]  # left, top, width, height
# In the model; the transformer and its attention are frames, and hold others.
PLACES: dict[int, Box] = {
    0: (86, 98, 150, 84),
    1: (328, 136, 132, 86),
    2: (468, 136, 132, 86),
    3: (328, 230, 132, 86),
    4: (468, 230, 132, 86),
    5: (316, 94, 296, 234),
    6: (86, 230, 150, 84),
    7: (290, 44, 524, 296),
    8: (838, 66, 154, 84),
    9: (838, 256, 154, 84),
}
# A part below the model: its left side, the size of a cell, how many stand beside each other.
LANES = {"III As models run it": (0, 170, 100, 4), "IV In the world": (716, 143, 100, 2)}
BELOW = 400  # where the lanes begin


class Chapter(NamedTuple):
    "A line of the map."

    number: int
    title: str
    part: str


@cache
def chapters() -> tuple[Chapter, ...]:
    "The chapters that the map in nbs/index.ipynb lists, also those that are being written."
    cells = json.loads((SITE.parent / "nbs" / HOME).read_text(encoding="utf-8"))["cells"]
    text = next("".join(cell["source"]) for cell in cells if cell["id"] == "map")
    part = lambda n: next(
        name
        for name, patterns in PARTS.items()
        if any(fnmatch(f"{n:02}_", one) for one in patterns)
    )
    return tuple(
        Chapter(int(n), linked or plain, part(int(n))) for n, linked, plain in ENTRY.findall(text)
    )


def place(chapter: Chapter) -> Box:
    "Where a chapter stands in the whole picture."
    if chapter.part not in LANES:
        return PLACES[chapter.number]
    left, wide, high, beside = LANES[chapter.part]
    numbers = [one.number for one in chapters() if one.part == chapter.part]
    row, column = divmod(numbers.index(chapter.number), beside)
    alone = column == 0 and chapter.number == numbers[-1]  # then it is as wide as its lane
    return left + column * wide, BELOW + row * high, wide * (beside if alone else 1) - 10, high - 12


# The small one, at the top of a chapter -----------------------------------------------------------


def outline(box: Box) -> str:
    "A rectangle as part of a path."
    x, y, wide, high = box
    return f"M{x} {y}h{wide}v{high}h-{wide}z"


def small(number: int) -> str:
    "The map with one chapter lit, as a link to the large one."
    frames = (5, 7)
    lit = next(one for one in chapters() if one.number == number)
    boxes = {one.number: outline(place(one)) for one in chapters()}
    rest = "".join(path for n, path in boxes.items() if n not in (*frames, number))
    around = "".join(boxes[n] for n in frames if n != number)
    bottom = max(place(one)[1] + place(one)[3] for one in chapters())
    return (
        '<a class="where" href="index.html#the-map" '
        f'aria-label="The map of the book: chapter {number} is in part {lit.part}">'
        f'<svg viewBox="-8 30 1008 {bottom - 22}" aria-hidden="true">'
        f'<path class="frames" d="{around}"/><path d="{rest}"/>'
        f'<path class="lit" d="{boxes[number]}"/></svg></a>'
    )


# The large one, on the home page ------------------------------------------------------------------


def words(x: float, y: float, text: str, anchor: str = "middle") -> str:
    "A word of the drawing."
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}">{text}</text>'


def chip(x: float, y: float, wide: float, text: str) -> str:
    "A token."
    return (
        f'<rect class="chip" x="{x}" y="{y}" width="{wide}" height="26" rx="5"/>'
        f"{words(x + wide / 2, y + 18, text)}"
    )


def arrow(*points: tuple[float, float]) -> str:
    "A line with a head."
    return (
        '<path class="flow" marker-end="url(#head)" '
        f'd="M{"L".join(f"{x} {y}" for x, y in points)}"/>'
    )


def plus(x: float, y: float) -> str:
    "Where two vectors are added."
    return (
        f'<path class="plus" d="M{x - 9} {y}a9 9 0 1 0 18 0a9 9 0 1 0-18 0'
        f'M{x - 5} {y}h10M{x} {y - 5}v10"/>'
    )


def drawing() -> str:
    "What stands behind the parts: tokens, frames, and the way of a token through them."
    tokens = "".join(
        chip(0, 98 + 34 * i, 58, word) for i, word in enumerate(("the", "bank", "of", "the"))
    )
    sheets = "".join(
        f'<rect class="{kind}" x="{x + by}" y="{y - by}" width="{wide}" height="{high}" rx="10"/>'
        for kind, (x, y, wide, high), step in (("block", PLACES[7], 7), ("heads", PLACES[5], 5))
        for by in (2 * step, step, 0)
    )
    flows = "".join(
        [
            arrow((60, 150), (83, 150)),
            arrow((236, 140), (262, 140), (262, 197)),
            arrow((236, 272), (262, 272), (262, 217)),
            arrow((272, 207), (313, 207)),
            arrow((612, 207), (636, 207)),
            arrow((656, 207), (682, 207)),
            arrow((770, 207), (782, 207)),
            arrow((802, 207), (866, 207)),
            arrow((280, 207), (280, 334), (646, 334), (646, 219)),
            arrow((664, 207), (664, 290), (792, 290), (792, 219)),
        ]
    )
    forward = (
        '<path class="part" d="M684 165L768 178V236L684 249Z"/>'
        + words(727, 204, "feed-")
        + words(727, 220, "forward")
    )
    result = chip(870, 194, 90, "river")
    return (
        f'<svg class="machine" viewBox="0 0 {WIDTH} {HEIGHT + 30}" preserveAspectRatio="none" '
        'aria-hidden="true"><defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" '
        'markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z"/></marker></defs>'
        f"{tokens}{sheets}{forward}{flows}"
        f"{plus(262, 207)}{plus(646, 207)}{plus(792, 207)}{result}</svg>"
    )


def styled(number: int) -> str:
    "What the style must know of a part: where it stands in the model, and its picture."
    found = []
    if number in PLACES:
        x, y, wide, high = PLACES[number]
        found.append(
            f"--x:{100 * x / WIDTH:.2f}%;--y:{y}px;--w:{100 * wide / WIDTH:.2f}%;--h:{high}px"
        )
    if (SITE / f"static/map/{number}.svg").exists():
        found.append(f"background-image:url(_static/map/{number}.svg)")
    return ";".join(found)


def laid(found: re.Match) -> str:
    "A list of the map with its parts in their places."
    start = int(found[1])

    def item(number: int, title: str, about: str) -> str:
        frame = ' class="frame"' if number in (5, 7) else ""
        title = title if title.startswith("<a ") else f"<span>{title}</span>"
        return (
            f'<li{frame} style="{styled(number)}"><p>{title}<br />'
            f'<span class="about">{about}</span></p></li>'
        )

    items = [item(start + i, *one) for i, one in enumerate(ITEM.findall(found[2]))]
    return f'<ol class="arabic simple" start="{start}">\n' + "\n".join(items) + "\n</ol>"


def large(body: str) -> str:
    "The home page with the machine behind the lists of its map."
    before, mark, rest = body.partition('<section id="the-map">')
    rest, end, after = rest.partition('<section id="beside-the-chapters">')
    rest = LISTS.sub(laid, rest).replace(
        '<section id="i-attention">', drawing() + '<section id="i-attention">', 1
    )
    return before + mark + rest + end + after


def add_map(
    app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    "Put the map into a page: large on the home page, small on a chapter."
    body = context.get("body", "")
    if page == context["master_doc"]:
        context["body"] = large(body)
    elif "_" in page and is_chapter(page):  # not 404
        lead = "</blockquote>"
        context["body"] = body.replace(lead, lead + small(int(page[:2])), 1)


def setup(app: Sphinx) -> dict[str, bool]:
    "Called by Sphinx."
    app.connect("html-page-context", add_map)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
