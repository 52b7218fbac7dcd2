"""Take the pictures that links to the chapters show, from the figures on the built pages.

README.md shows two of them.

    python website/previews.py [--docs DIR] [FOLDER]

It needs a browser, and a build needs none: the pictures are committed, as website/previews/NN.png,
and `make card` takes them anew. A chapter without one gets the card of the book. Each has few
colours, so that it is small.
"""

import argparse
import base64
import shutil
import struct
import zlib
from pathlib import Path

import numpy as np
from playwright.sync_api import Page, sync_playwright

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
PIXELS = """async (png) => {
  const image = await createImageBitmap(await (await fetch(`data:image/png;base64,${png}`)).blob());
  const canvas = new OffscreenCanvas(image.width, image.height), pen = canvas.getContext("2d");
  pen.drawImage(image, 0, 0);
  const { data } = pen.getImageData(0, 0, image.width, image.height);
  let text = "";
  for (let i = 0; i < data.length; i += 30000) {
    text += String.fromCharCode(...data.subarray(i, i + 30000));
  }
  return btoa(text);
}"""


def few(pixels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    "The most frequent colours, (n, 3), and for each pixel which of them is nearest, (h, w)."
    coarse = pixels // 12  # neighbours count as one
    every = coarse.reshape(-1, 3)
    found, where, counts = np.unique(every, axis=0, return_inverse=True, return_counts=True)
    chosen = np.argsort(-counts, kind="stable")[:COLOURS]
    distance = ((found[:, None].astype(int) - found[chosen][None].astype(int)) ** 2).sum(-1)
    true = pixels.reshape(-1, 3)
    first = [true[np.argmax(where.ravel() == i)] for i in chosen]  # a true colour of each kind
    return np.array(first), distance.argmin(1)[where.ravel()].reshape(pixels.shape[:2])


def chunk(kind: bytes, data: bytes) -> bytes:
    "A part of a PNG file."
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(palette: np.ndarray, which: np.ndarray) -> bytes:
    "A PNG file of few colours."
    high, wide = which.shape
    rows = b"".join(b"\0" + row.astype(np.uint8).tobytes() for row in which)
    head = struct.pack(">IIBBBBB", wide, high, 8, 3, 0, 0, 0)
    chunks = [
        chunk(b"IHDR", head),
        chunk(b"PLTE", palette.astype(np.uint8).tobytes()),
        chunk(b"IDAT", zlib.compress(rows, 9)),
        chunk(b"IEND", b""),
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def small(page: Page, picture: bytes) -> bytes:
    "A PNG of the size of a preview in few colours; the browser reads it."
    page.goto("about:blank")
    pixels = base64.b64decode(page.evaluate(PIXELS, base64.b64encode(picture).decode()))
    return png(*few(np.frombuffer(pixels, np.uint8).reshape(HEIGHT, WIDTH, 4)[..., :3]))


def take(page: Page, path: Path) -> bytes | None:
    "The picture of a chapter; nothing if it has no figure."
    page.goto(path.resolve().as_uri())
    page.wait_for_timeout(500)
    if not page.evaluate(COMPOSE, CHOSEN.get(path.name[:2], "")):
        return None
    page.wait_for_timeout(2500)  # a chart is drawn when it comes into sight
    page.evaluate(FIT)
    return small(page, page.screenshot())


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
        page = browser.new_page(
            viewport={"width": WIDTH, "height": HEIGHT},
            color_scheme="light",
            reduced_motion="reduce",
        )
        (args.folder.parent / CARD).write_bytes(small(page, (SITE / CARD).read_bytes()))
        for path in sorted(args.docs.glob("[0-9][0-9]_*.html")):
            if picture := take(page, path):
                (args.folder / f"{path.name[:2]}.png").write_bytes(picture)
                too_large = " TOO LARGE" * (len(picture) > MOST)
                print(f"{path.name[:2]}.png {len(picture)} bytes{too_large}", flush=True)


if __name__ == "__main__":
    main()
