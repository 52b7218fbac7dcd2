"""Take the pictures that links to the chapters show, from the figures on the built pages.

README.md shows two of them in motion, as GIFs.

    python website/previews.py [--docs DIR] [FOLDER]

It needs a browser, and a build needs none: the pictures are committed, as website/previews/NN.png,
and `make card` takes them anew (it installs Pillow). A chapter without one gets the card of the
book. Each has few colours, so that it is small.
"""

import argparse
import shutil
import time
from io import BytesIO
from itertools import pairwise
from pathlib import Path

from PIL import Image
from playwright.sync_api import Locator, Page, sync_playwright

SITE = Path(__file__).resolve().parent
FOLDER = SITE / "previews"
CARD = "card.png"  # card.py draws it
NAMES = (
    "chromium-headless-shell",
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
)
WIDTH, HEIGHT, COLOURS, MOST = 1200, 630, 64, 40_000  # pixels, colours, bytes
# Where it is not the first of a chapter.
CHOSEN = {"03": "attend", "06": "rotating", "07": "adder", "18": "head_view"}

COMPOSE = """(chosen) => {
  const first = "article figure.drawing, article figure.chart";
  const figure = document.querySelector(chosen ? `figure[data-drawing=${chosen}]` : first);
  const title = document.querySelector("h1").firstChild.textContent;
  const lead = document.querySelector("h1 + blockquote").textContent.trim();
  const number = +location.pathname.match(/(\\d+)_\\w+\\.html/)[1];
  for (const veil of document.querySelectorAll("details")) {
    if (veil.contains(figure)) veil.open = true;
  }
  const style = document.createElement("style");
  const card = document.createElement("div");
  style.textContent = `html, body { overflow: hidden; scrollbar-width: none }
    .preview {
      position: fixed; inset: 0; z-index: 99; padding: 44px 60px; box-sizing: border-box;
      background: #f8fafc; color: #0f172a;
      font: 26px/1.35 "Liberation Sans", Arial, sans-serif
    }
    .preview h2 {
      margin: 0; padding: 0; border: 0;
      font-size: 60px; line-height: 1.1; color: #0f172a
    }
    .preview h2 small { color: #08519c; font-size: 60px; margin-right: 22px }
    .preview p {
      max-width: none; margin: 10px 0 0; color: #334155; overflow: hidden;
      display: -webkit-box; -webkit-line-clamp: 2; -webkit-box-orient: vertical
    }
    .preview .place {
      position: absolute; left: 60px; right: 60px; top: 205px; bottom: 30px;
      display: grid; place-items: center
    }
    .preview figure { margin: 0; --color-background-primary: #f8fafc }
    .preview figure :is(
      figcaption, .row, .yours, .said, .chart-controls,
      :scope > details, .view ~ details, summary
    ) { display: none !important }
    .preview figure .view, .preview .chart-view { min-height: 0 !important; overflow: visible }`;
  card.className = "preview";
  card.innerHTML = "<h2><small></small><span></span></h2><p></p><div class=place></div>";
  card.querySelector("small").textContent = number;
  card.querySelector("span").textContent = title;
  card.querySelector("p").textContent = lead;
  document.head.append(style);
  if (figure) {
    figure.style.width = `${Math.max(figure.offsetWidth, 600)}px`;
    card.querySelector(".place").append(figure);
  }
  document.body.append(card);
  return Boolean(figure);
}"""
FIT = """() => {
  const figure = document.querySelector(".preview figure"), own = figure.getBoundingClientRect();
  const place = document.querySelector(".place").getBoundingClientRect();
  const drawn = /^(path|rect|circle|canvas)$/;
  const told = (node) => !node.firstElementChild
    && (node.textContent.trim() || drawn.test(node.localName))
    && getComputedStyle(node).visibility === "visible";
  const nodes = [...figure.querySelectorAll(".view *, .chart-view *")].filter(told);
  const boxes = nodes.map((node) => node.getBoundingClientRect());
  const seen = boxes.filter((box) => box.width > 1 && box.height > 1);
  const left = Math.min(...seen.map((box) => box.left));
  const right = Math.max(...seen.map((box) => box.right));
  const top = Math.min(...seen.map((box) => box.top));
  const bottom = Math.max(...seen.map((box) => box.bottom));
  const wide = right - left, high = bottom - top;
  const scale = Math.min(place.width / wide, place.height / high, 1.7);
  const x = (place.width - scale * wide) / 2 - scale * (left - own.left);
  const y = (place.height - scale * high) / 2 - scale * (top - own.top);
  Object.assign(figure.style, {
    position: "absolute", margin: 0, left: 0, top: 0, transformOrigin: "0 0",
    transform: `translate(${x}px, ${y}px) scale(${scale})` });
}"""
# What README.md shows: the page, and what is pressed for each frame; nothing at first.
FILMS = {
    "attend": ("03_self_attention.html", [f".rail button:nth-child({n})" for n in range(2, 9)]),
    "adder": (
        "07_transformer.html",
        [
            "",
            "button:text-is('Attention')",
            "button:text-is('Attention')",
            "button:text-is('Feed-forward layer')",
        ],
    ),
}
MOVES, STAYS = 0.9, 1800  # seconds in which a state moves into the next; milliseconds that it stays


def few(picture: Image.Image) -> Image.Image:
    "The picture in its most important colours."
    method, plain = Image.Quantize.MAXCOVERAGE, Image.Dither.NONE
    return picture.convert("RGB").quantize(COLOURS, method, dither=plain)


def small(png: bytes) -> bytes:
    "A PNG of few colours."
    out = BytesIO()
    few(Image.open(BytesIO(png))).save(out, "PNG", optimize=True)
    return out.getvalue()


def frames_of(page: Page, figure: Locator, step: str) -> list[tuple[Image.Image, int]]:
    "What is seen after a control was pressed, while it moves: each frame, and for how many ms."
    if step:
        figure.locator(step).click()
        page.mouse.move(0, 0)
    frames, times = [], [time.monotonic()]
    while times[-1] - times[0] < MOVES:
        frames.append(Image.open(BytesIO(figure.screenshot())).convert("RGB"))
        times.append(time.monotonic())
    last = [*frames[1:], frames[-1]]  # what a frame shows, it shows until the next
    spans = [int(1000 * (b - a)) for a, b in pairwise(times)]
    return [*zip(last[:-1], spans), (last[-1], STAYS)]


def film(page: Page, docs: Path, name: str) -> bytes:
    "A figure as a GIF, with one palette for all frames: only what changes is stored."
    path, steps = FILMS[name]
    page.goto((docs / path).resolve().as_uri())
    page.add_style_tag(content="figure.drawing details { display: none }")
    figure = page.locator(f"figure[data-drawing={name}]").first
    frames, times = zip(*[frame for step in steps for frame in frames_of(page, figure, step)])
    wide, high = map(max, zip(*[frame.size for frame in frames]))
    strip = Image.new("RGB", (wide, high * len(frames)), "white")
    for n, frame in enumerate(frames):
        strip.paste(frame, (0, n * high))
    strip, out = few(strip), BytesIO()
    first, *others = [strip.crop((0, n * high, wide, (n + 1) * high)) for n in range(len(frames))]
    first.save(out, "GIF", save_all=True, append_images=others, duration=times, loop=0)
    return out.getvalue()


def take(page: Page, path: Path) -> bytes | None:
    "The picture of a chapter; nothing if it has no figure."
    page.goto(path.resolve().as_uri())
    page.wait_for_timeout(500)
    if not page.evaluate(COMPOSE, CHOSEN.get(path.name[:2], "")):
        return None
    page.wait_for_timeout(2500)  # a chart is drawn when it comes into sight
    page.evaluate(FIT)
    return small(page.screenshot())


def main() -> None:
    "The command line."
    raw, docs = argparse.RawDescriptionHelpFormatter, SITE.parent / "docs"
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    add = parser.add_argument
    add("--docs", type=Path, default=docs, help="the built site (default: docs/)")
    add("folder", type=Path, nargs="?", default=FOLDER, help="where the pictures go")
    args = parser.parse_args()
    args.folder.mkdir(exist_ok=True)
    with sync_playwright() as playwright:
        found = next(filter(None, map(shutil.which, NAMES)), None)
        browser = playwright.chromium.launch(
            executable_path=found, channel=None if found else "chrome"
        )
        moving = browser.new_page(viewport={"width": 1280, "height": 900}, color_scheme="light")
        for name in FILMS:
            (args.folder / f"{name}.gif").write_bytes(film(moving, args.docs, name))
        page = browser.new_page(
            viewport={"width": WIDTH, "height": HEIGHT},
            color_scheme="light",
            reduced_motion="reduce",
        )
        (args.folder.parent / CARD).write_bytes(small((SITE / CARD).read_bytes()))
        for path in sorted(args.docs.glob("[0-9][0-9]_*.html")):
            if picture := take(page, path):
                (args.folder / f"{path.name[:2]}.png").write_bytes(picture)
                too_large = " TOO LARGE" * (len(picture) > MOST)
                print(f"{path.name[:2]}.png {len(picture)} bytes{too_large}", flush=True)


if __name__ == "__main__":
    main()
