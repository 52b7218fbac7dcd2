"""A real browser on the built site: Chromium, driven by Playwright.

A test asks for `visit`, and opens pages with it.

def test_title(visit):
    page = visit("index.html", width=390, scheme="dark").page
"""

import contextlib
import functools
import gzip
import mimetypes
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from pathlib import Path

import fontpkg
import psutil
import pytest
from playwright.sync_api import (
    Browser,
    Error,
    Locator,
    Page,
    Request,
    TimeoutError,
    expect,
    sync_playwright,
)

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(str(p.relative_to(DOCS)) for p in DOCS.rglob("*.html"))
WIDE, NARROW = "Montserrat", "Roboto Condensed"  # fonts that .venv brings
# The shell is the same engine without windows: the tests take a sixth less time.
NAMES = (
    "chromium-headless-shell",
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
)
NO_BROWSER = (
    "no Chromium or Chrome was found, so the built site was not tried in a browser. To get one: "
    "`apt-get install chromium` on Debian, `brew install --cask chromium` on macOS, "
    "or google.com/chrome"
)

PATIENCE = 120_000  # milliseconds: a busy machine may need them, a quiet one waits for none of them
expect.set_options(timeout=PATIENCE)
HANGS = 600  # seconds: a busy machine needs a tenth of them for a test, and a Lab half
GONE = "TargetClosedError"  # what Playwright raises when its browser has ended

LATE = (".js", ".woff2")
PAINTED = threading.Event()  # until then the server keeps back what is LATE
PAINTED.set()
# Every family is this one, and there is no other. (On macOS and Windows the browser takes
# the system's fonts all the same.)
FONTS = """<?xml version="1.0"?><!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig><dir>{folder}</dir><cachedir>{cache}</cachedir><match target="pattern">
<edit name="family" mode="assign" binding="strong"><string>{font}</string></edit></match>
</fontconfig>"""


@functools.cache
def packed(path: Path) -> bytes:
    "The file as a server sends it: text in gzip."
    return gzip.compress(path.read_bytes(), mtime=0)


class Handler(SimpleHTTPRequestHandler):
    "Serves files in silence, text in gzip, as a web host does."

    protocol_version = "HTTP/1.1"  # one connection for many files

    def send_head(self) -> BytesIO | None:
        path = Path(self.translate_path(self.path))
        if path.suffix in LATE:
            PAINTED.wait(30)
        kind = mimetypes.guess_type(path)[0] or ""
        if not (
            path.is_file()
            and (kind.startswith("text/") or kind.endswith(("javascript", "json", "xml")))
        ):
            return super().send_head()  # pictures and fonts, folders, and what is not there
        self.send_response(200)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(packed(path))))
        self.end_headers()
        return BytesIO(packed(path))

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture(scope="session")
def site() -> Iterator[str]:
    "The address of docs/, served as a web host would."
    with ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(Handler, directory=str(DOCS))
    ) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


def only(font: str, folder: Path) -> dict[str, str]:
    "The environment of a browser that has no font but this."
    file = folder / "fonts.conf"
    file.write_text(
        FONTS.format(font=font, folder=fontpkg.path(font).parent, cache=folder / "cache"),
        encoding="utf-8",
    )
    return {**os.environ, "FONTCONFIG_FILE": str(file)}


def end_browsers() -> None:
    "End all browsers of this process at once: who waits for an answer of one is told."
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            if "chrom" in process.name():
                process.kill()


@contextlib.contextmanager
def no_longer_than(seconds: float) -> Iterator[None]:
    """End the browsers if this is not over by then.

    Playwright waits for the result of a script, or for a new page, as long as the browser lives;
    and now and then a browser draws no more.
    """
    timer = threading.Timer(seconds, end_browsers)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


# Not session: while Playwright runs, no other test may call asyncio.run.
@pytest.fixture(scope="module")
def browsers(tmp_path_factory) -> Iterator[Callable[..., Browser]]:
    """The browser of this machine, with its fonts or one; Playwright would bring its own,
    but that is a large download.
    """
    found = next(filter(None, map(shutil.which, NAMES)), None)
    with sync_playwright() as playwright:
        running: dict[str, Browser] = {}

        def launch(font: str) -> Browser:
            env = only(font, tmp_path_factory.mktemp("font")) if font else None
            try:
                return playwright.chromium.launch(
                    executable_path=found, channel=None if found else "chrome", env=env
                )
            except Error:
                if found:
                    raise
                pytest.skip(NO_BROWSER)

        def browser(font: str = "") -> Browser:
            if font not in running or not running[font].is_connected():
                running[font] = launch(font)
            return running[font]

        yield browser  # leaving Playwright closes them


@pytest.fixture
def chromium(browsers) -> Browser:
    "The browser with the fonts of this machine."
    return browsers()


# What moves after a page was loaded, or a chart drawn: a font that is swapped in,
# what is measured or drawn in the next frames.
SETTLED = """() => document.fonts.ready.then(
  () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))))"""


def unveil(figure: Locator) -> Locator:
    "A figure that is seen once the bar over it is pressed, if it stands behind a question."
    for bar in figure.locator(
        "xpath=ancestor::details[contains(@class, 'veil') and not(@open)]/summary"
    ).all():
        bar.click()
        bar.page.mouse.move(0, 0)  # over a heading it would show the link to it
    return figure


WITH_WEIGHTS = "figure.drawing:has(script.weights)"


def come_near(page: Page) -> None:
    "Go to each drawing that loads the weights of a model when one does, and back to the top."
    for figure in page.locator(WITH_WEIGHTS).all():
        unveil(figure)
        figure.evaluate("figure => figure.scrollIntoView({ behavior: 'instant' })")
        page.wait_for_function("figure => figure.state", arg=figure.element_handle())
        page.evaluate("scrollTo({ top: 0, behavior: 'instant' })")


def go_to(figure: Locator) -> Locator:
    "A chart that comes into sight, and is drawn then."
    unveil(figure)
    figure.evaluate("figure => figure.scrollIntoView({ behavior: 'instant' })")
    figure.and_(figure.page.locator(".drawn")).wait_for()
    figure.page.evaluate(SETTLED)
    return figure


class Visit:
    "An open page, with what it said and asked for."

    def __init__(self, page: Page) -> None:
        self.page = page
        # errors and warnings in the console, and exceptions that nobody caught
        self.said: list[str] = []
        self.requests: list[Request] = []
        page.on(
            "console",
            lambda m: m.type in ("error", "warning") and self.said.append(f"{m.type}: {m.text}"),
        )
        page.on("pageerror", lambda e: self.said.append(f"exception: {e.stack or e}"))
        page.on("request", lambda r: self.requests.append(r))

    def see_all(self) -> "Visit":
        "Go from figure to figure, each drawn before one's eyes, and on to the end of the page."
        for figure in self.page.locator("figure.chart").all():
            try:
                go_to(figure)
            except TimeoutError:
                said = "\n  ".join(self.said)
                why = f"{self.page.url}: {figure.get_attribute('id')} was not drawn:\n  {said}"
                raise pytest.fail.Exception(why, pytrace=False) from None
        come_near(self.page)
        self.page.evaluate(
            "scrollTo({ top: document.documentElement.scrollHeight, behavior: 'instant' })"
        )
        return self


OUT_OF_ROOM = """() => [...document.querySelectorAll("figure.drawing")].flatMap((figure) => {
  const view = figure.querySelector(".view"), kept = parseFloat(getComputedStyle(view).minHeight);
  const said = (what) => [`${figure.dataset.drawing} ${what}`];
  return [!figure.state?.() && said("is not drawn"),
          view.scrollHeight > kept + 1
            && said(`is ${view.scrollHeight} pixels high; it kept ${kept}`),
          view.scrollWidth > view.clientWidth
            && said(`is ${view.scrollWidth} pixels wide in ${view.clientWidth}`)]
    .filter(Boolean).flat();
})"""


def out_of_room(page: Page) -> list[str]:
    """The drawings of a page that are not there, wider than the page, or higher than they said:
    what is below would move.
    """
    come_near(page)
    return page.evaluate(OUT_OF_ROOM)


def open_slowly(page: Page, address: str) -> None:
    "Open a page as from a slow host: its scripts and fonts come after the first paint."
    PAINTED.clear()
    try:
        page.goto(address, wait_until="commit")
        page.wait_for_function("performance.getEntriesByName('first-contentful-paint').length")
    finally:
        PAINTED.set()
    page.wait_for_load_state()


Visitor = Callable[..., Visit]


@pytest.fixture
def visit(browsers: Callable[..., Browser], site: str) -> Iterator[Visitor]:
    """Opens a page of the site, in a browser that knows nothing yet;
    the pages are closed after the test.

    Nothing on it moves any more, and later nothing glides:
    what is measured now is there when it is clicked.
    """
    contexts = []

    def visit(
        path: str = "index.html",
        width: int = 1280,
        scheme: str = "light",
        height: int = 900,
        font: str = "",
        slowly: bool = False,
        **options: object,
    ) -> Visit:
        "`options` are those of Playwright's new_context, such as java_script_enabled=False."
        options = {
            "viewport": {"width": width, "height": height},
            "color_scheme": scheme,
            "reduced_motion": "reduce",
        } | options
        context = browsers(font).new_context(**options)
        contexts.append(context)
        context.set_default_timeout(PATIENCE)
        visited = Visit(context.new_page())
        (open_slowly if slowly else Page.goto)(visited.page, path if "://" in path else site + path)
        if options.get("java_script_enabled", True):
            visited.page.evaluate(SETTLED)
        return visited

    yield visit
    for context in contexts:
        context.close()
