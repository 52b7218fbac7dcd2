"""A real browser on the built site: Chromium, driven by Playwright. A test asks for `visit`, and opens pages with it.

    def test_title(visit):
        page = visit("index.html", width=390, scheme="dark").page
"""
import functools
import gzip
import mimetypes
import shutil
import threading
from collections.abc import Callable, Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Error, Page, Request, TimeoutError, sync_playwright

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(str(p.relative_to(DOCS)) for p in DOCS.rglob("*.html"))
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
NO_BROWSER = ("no Chromium or Chrome was found, so the built site was not tried in a browser. To get one: "
              "`apt-get install chromium` on Debian, `brew install --cask chromium` on macOS, or google.com/chrome")


@functools.cache
def packed(path: Path) -> bytes:
    "The file as a server sends it: text in gzip."
    return gzip.compress(path.read_bytes(), mtime=0)


class Handler(SimpleHTTPRequestHandler):
    "Serves files in silence, text in gzip, as a web host does."
    protocol_version = "HTTP/1.1"  # one connection for many files

    def send_head(self) -> BytesIO | None:
        path = Path(self.translate_path(self.path))
        kind = mimetypes.guess_type(path)[0] or ""
        if not (path.is_file() and (kind.startswith("text/") or kind.endswith(("javascript", "json", "xml")))):
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
    with ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=str(DOCS))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.fixture(scope="module")  # not session: while Playwright runs, no other test may call asyncio.run
def chromium() -> Iterator[Browser]:
    "The browser of this machine; Playwright would bring its own, but that is a large download."
    found = next(filter(None, map(shutil.which, NAMES)), None)
    with sync_playwright() as playwright:
        try:
            browser = playwright.chromium.launch(executable_path=found, channel=None if found else "chrome")
        except Error:
            if found:
                raise
            pytest.skip(NO_BROWSER)
        yield browser
        browser.close()


class Visit:
    "An open page, with what it said and asked for."

    def __init__(self, page: Page) -> None:
        self.page = page
        self.said: list[str] = []  # errors and warnings in the console, and exceptions that nobody caught
        self.requests: list[Request] = []
        page.on("console", lambda m: m.type in ("error", "warning") and self.said.append(f"{m.type}: {m.text}"))
        page.on("pageerror", lambda e: self.said.append(f"exception: {e}"))
        page.on("request", lambda r: self.requests.append(r))

    def see_all(self) -> "Visit":
        "Go from figure to figure, each drawn before one's eyes, and on to the end of the page."
        for figure in self.page.locator("figure.chart").all():
            figure.evaluate("figure => figure.scrollIntoView({ behavior: 'instant' })")
            try:
                figure.and_(self.page.locator(".drawn")).wait_for()
            except TimeoutError:
                said = "\n  ".join(self.said)
                why = f"{self.page.url}: {figure.get_attribute('id')} was not drawn:\n  {said}"
                raise pytest.fail.Exception(why, pytrace=False) from None
        self.page.evaluate("scrollTo({ top: document.documentElement.scrollHeight, behavior: 'instant' })")
        return self


Visitor = Callable[..., Visit]


@pytest.fixture
def visit(chromium: Browser, site: str) -> Iterator[Visitor]:
    "Opens a page of the site, in a browser that knows nothing yet; the pages are closed after the test."
    contexts = []

    def visit(path: str = "index.html", width: int = 1280, scheme: str = "light", height: int = 900,
              **options: object) -> Visit:
        "`options` are those of Playwright's new_context, such as java_script_enabled=False."
        context = chromium.new_context(viewport={"width": width, "height": height}, color_scheme=scheme, **options)
        contexts.append(context)
        context.set_default_timeout(30_000)
        visited = Visit(context.new_page())
        visited.page.goto(path if "://" in path else site + path)
        return visited

    yield visit
    for context in contexts:
        context.close()
