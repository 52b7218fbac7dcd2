"""Draw the picture that a link to the book shows, and the cover of the EPUB,
from the figure on the home page.

    python website/card.py [folder]

They are committed, not made by each build:
how letters become pixels depends on the fonts of the machine.
"""

import sys
from html import escape
from pathlib import Path
from textwrap import wrap

import torch
import vl_convert

from attention_nb.figures.attend import small_world
from attention_nb.self_attention import scaled_dot_product_attention
from notebooks import settings

SITE = Path(__file__).resolve().parent
CARD, COVER = "card.png", "epub_static/cover.png"
INK, PAPER, BLUE = "#0f172a", "#f8fafc", "#08519c"
FONT = "Liberation Sans, Arial, Helvetica, sans-serif"


def weights() -> tuple[list[str], list[float]]:
    """The words of the home page's figure as it stands first, and what each takes from each,
    row by row; the largest is 1.
    """
    world, words = small_world(), "the bank of the river".split()
    x = torch.stack([world.table[word] for word in words])
    _, shares = scaled_dot_product_attention(x @ world.W_q, x @ world.W_k, x @ world.W_v)
    return words, (shares / shares.max()).flatten().tolist()


def text(x: float, y: float, size: float, content: str, more: str = "") -> str:
    "A line of text."
    return (
        f'<text x="{x}" y="{y}" font-size="{size}" font-family="{FONT}" fill="{INK}" {more}>'
        f"{escape(content)}</text>"
    )


def grid(x: float, y: float, side: float, words: list[str], shades: list[float]) -> str:
    "The weights as squares, with the word that looks beside each row."
    step = side / len(words)
    cells = "".join(
        f'<rect x="{x + step * (i % len(words)):.1f}" y="{y + step * (i // len(words)):.1f}" '
        f'width="{step - 6:.1f}" height="{step - 6:.1f}" rx="6" '
        f'fill="{BLUE}" fill-opacity="{0.06 + 0.94 * shade:.3f}"/>'
        for i, shade in enumerate(shades)
    )
    return cells + "".join(
        text(x - 16, y + step * (i + 0.5) + 5, step * 0.3, word, 'text-anchor="end"')
        for i, word in enumerate(words)
    )


def picture(width: int, height: int, *parts: str) -> bytes:
    "A PNG of shapes on paper."
    return vl_convert.svg_to_png(
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}">'
        f'<rect width="{width}" height="{height}" fill="{PAPER}"/>{"".join(parts)}</svg>',
        scale=1,
    )


def main(folder: Path = SITE) -> None:
    "Write both pictures."
    (folder / COVER).parent.mkdir(exist_ok=True)
    conf = settings(SITE.parent)
    words, shades = weights()
    bold = 'font-weight="bold"'
    lines = wrap(conf["description"], 21)
    card = (
        text(60, 190, 84, conf["title"], bold),
        *(text(60, 270 + 52 * i, 40, line) for i, line in enumerate(lines)),
        grid(740, 95, 440, words, shades),
    )
    (folder / CARD).write_bytes(picture(1200, 630, *card))
    lines = wrap(conf["description"], 33)
    cover = (
        text(120, 330, 150, conf["title"], bold),
        *(text(120, 450 + 76 * i, 60, line) for i, line in enumerate(lines)),
        grid(290, 780, 800, words, shades),
    )
    (folder / COVER).write_bytes(picture(1200, 1800, *cover))
    print(f"{folder / CARD} and {folder / COVER} written")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
