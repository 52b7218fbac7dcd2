"""A Sphinx extension: a page holds and loads what it uses, and the site holds what a page loads."""

import re
from base64 import b64encode
from collections.abc import Iterable
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from zlib import crc32

from docutils import nodes
from fontTools.subset import main as subset
from ink import Day
from pygments.token import STANDARD_TYPES, Text
from sphinx.application import Sphinx

NEEDED = {  # a file is left out of pages that do not contain this
    "katex.min.css": 'class="katex',
    "katex-math.css": 'class="katex',
    "drawing.css": 'class="drawing"',
    "pair.css": 'class="pair"',
    "catalogue.js": 'id="find-bug"',
    "copybutton.css": 'class="highlight-',
    "copybutton.js": 'class="highlight-',
    "clipboard.min.js": 'class="highlight-',
    "furo-extensions.js": None,  # it is empty
    "sphinx_highlight.js": None,  # it marks what Sphinx's own search has found
}
LOADERS = {".html", ".css", ".js"}
# What no browser needs: indents, and comments, of scripts alone in a line or after two spaces. A
# licence begins with "!".
UNNEEDED = {
    ".css": re.compile(r"/\*(?!!).*?\*/[ ]*\n?|^[ ]+", re.S | re.M),
    ".js": re.compile(r"^[ ]*//(?!!).*\n|[ ]{2,}// .*$|^[ ]+", re.M),
}
# Of a style or a script, and what Sphinx says of its content.
ADDRESS = re.compile(r"(_static/([\w./-]+)\?v=)\w+")
# No formula does without: if they came after the style, lines would break anew.
EMBEDDED = ("KaTeX_Main-Regular", "KaTeX_Math-Italic")
VARIABLE = {"mathnormal", "boldsymbol"}  # the classes of letters in the font KaTeX_Math

LOOK = Day.style_for_token
PLAIN = "|".join(
    short for token, short in STANDARD_TYPES.items() if short and LOOK(token) == LOOK(Text)
)
# In code, what looks as if it had no class.
UNSEEN = re.compile(rf'<span class="(?:{PLAIN})">([^<]*)</span>')


def used(file: Any, body: str) -> bool:
    "Does a page with this body need this file?"
    name = Path(str(file.filename or "")).name
    mark = NEEDED.get(name, "")
    return mark is not None and mark in body


def choose(
    app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    "Take from the head of a page what it does not need."
    for kind in ("css_files", "script_files"):
        context[kind] = [file for file in context[kind] if used(file, context.get("body", ""))]


def quiet(
    app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    """Take the marks of names and signs out of code: most of a chapter's marks,
    and they change nothing that is seen.
    """
    context["body"] = re.sub(
        r"<pre>.*?</pre>",
        lambda code: UNSEEN.sub(r"\1", code[0]),
        context.get("body", ""),
        flags=re.S,
    )


def near(
    app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    "Let the sidebar list what lies below a page on this page and on those below it, not on all."
    whole = context.get("toctree")
    context["toctree"] = lambda **options: whole(**options | {"collapse": True})


class Formulas(HTMLParser):
    """Gathers the letters that stand in formulas:
    those of variables, which have a font of their own, and all others.
    """

    def __init__(self, pages: Iterable[str]) -> None:
        super().__init__()
        # the classes of the elements that a letter stands in, within a formula
        self.around: list[str] = []
        self.variables: set[str] = set()
        self.others: set[str] = set()
        for page in pages:
            self.feed(page)
            self.reset()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        kinds = dict(attrs).get("class") or ""
        if tag == "span" and (self.around or kinds == "katex-html"):
            self.around.append(kinds)

    def handle_endtag(self, tag: str) -> None:
        if tag == "span" and self.around:
            self.around.pop()

    def handle_data(self, data: str) -> None:
        if self.around:
            (self.variables if VARIABLE & set(self.around[-1].split()) else self.others).update(
                data
            )


def embed(path: Path, css: str, formulas: Formulas) -> str:
    """A style whose fonts have the letters that some formula uses;
    those that every formula uses lie in it.
    """

    def small(found: re.Match) -> str:
        font = path.parent / found[1]
        letters = "".join(formulas.variables if "_Math-" in font.name else formulas.others)
        subset(
            [
                str(font),
                f"--text={letters}",
                "--flavor=woff2",
                "--no-hinting",
                f"--output-file={font}",
            ]
        )
        return (
            f"url(data:font/woff2;base64,{b64encode(font.read_bytes()).decode()})"
            if font.stem in EMBEDDED
            else found[0]
        )

    return re.sub(r"url\((fonts/KaTeX_[\w-]+\.woff2)\)", small, css)


def spoken(css: str, pages: list[str]) -> str:
    "A style without the fonts for kinds of letters that no page holds, such as those of Fraktur."
    rules = re.findall(
        r"([^{}]+){[^{}]*?font(?:-family)?:[^{};]*?(KaTeX_\w+)",
        re.sub(r"@font-face\s*{[^}]*}", "", css),
    )
    held = {
        font
        for kinds, font in rules
        if any(kind in page for kind in re.findall(r"\.(\w+)(?=,|$)", kinds) for page in pages)
    }
    silent = {font for _, font in rules} - held
    return re.sub(
        r"@font-face\s*{[^}]*font-family:\"?(\w+)[^}]*}",
        lambda rule: "" if rule[1] in silent else rule[0],
        css,
    )


def trim(path: Path, pages: list[str], formulas: Formulas) -> None:
    """Take out comments, fonts that no page uses and the addresses of source maps;
    let text show before a font that may come late.
    """
    text = path.read_text(encoding="utf-8")
    short = re.sub(r"\n?(?://|/\*)# sourceMappingURL=\S+(?: ?\*/)?\n?", "\n", text)
    short = UNNEEDED[path.suffix].sub("", short)
    short = spoken(short, pages) if path.suffix == ".css" else short
    short = re.sub(r"@font-face\s*{(?![^}]*font-display)", "@font-face{font-display:swap;", short)
    short = embed(path, short, formulas)
    if short != text:
        path.write_text(short, encoding="utf-8", newline="\n")


def prune(out: Path, pages: list[str]) -> None:
    """Remove the static files that no page asks for,
    directly or through a style or a script; licences stay.
    """
    files = {path for path in (out / "_static").rglob("*") if path.is_file()}
    asking = pages
    kept: set[Path] = {path for path in files if "LICENSE" in path.name}
    while asking:
        found = {path for path in files - kept if any(path.name in text for text in asking)}
        kept |= found
        asking = [path.read_text(encoding="utf-8") for path in found if path.suffix in LOADERS]
    for path in files - kept:
        path.unlink()


def stamp(out: Path, pages: dict[Path, str]) -> None:
    """Let the address of each style and script change when what is left of it does:
    a browser keeps what it has under an address.
    """

    @cache
    def sum_of(name: str) -> str:
        return f"{crc32((out / '_static' / name).read_bytes()):08x}"

    for path, page in pages.items():
        if (stamped := ADDRESS.sub(lambda found: found[1] + sum_of(found[2]), page)) != page:
            path.write_text(stamped, encoding="utf-8", newline="\n")


def finish(app: Sphinx, failed: Exception | None) -> None:
    "After all pages are written."
    if not failed:
        out = Path(app.outdir)
        written = {path: path.read_text(encoding="utf-8") for path in out.rglob("*.html")}
        pages = [*written.values()]
        formulas = Formulas(page for page in pages if "katex-html" in page)
        for path in [*out.rglob("_static/**/*.css"), *out.rglob("*.js")]:
            trim(path, pages, formulas)
        prune(out, pages)
        stamp(out, written)


def setup(app: Sphinx) -> dict[str, bool]:
    "Called by Sphinx."
    # after links and symbols, which look for names
    app.connect("html-page-context", quiet, priority=700)
    app.connect("html-page-context", near, priority=400)  # before Furo asks for the sidebar
    # when all others have asked for their files
    app.connect("html-page-context", choose, priority=900)
    app.connect("build-finished", finish, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
