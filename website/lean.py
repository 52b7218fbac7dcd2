"""A Sphinx extension: a page holds and loads what it uses, and the site holds what a page loads."""
import re
from base64 import b64encode
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from docutils import nodes
from pygments.formatters import HtmlFormatter
from pygments.token import Name, Operator, Punctuation, Text, Whitespace
from sphinx.application import Sphinx

from symbols import SYMBOLS

NEEDED = {  # a file is left out of pages that do not contain this
    "katex.min.css": 'class="katex', "katex-math.css": 'class="katex',
    "drawing.css": 'class="drawing"', "pair.css": 'class="pair"', "copybutton.css": 'class="highlight-', "copybutton.js": 'class="highlight-', "clipboard.min.js": 'class="highlight-',
    "furo-extensions.js": None}  # it is empty
LOADERS = {".html", ".css", ".js"}
EMBEDDED = ("KaTeX_Main-Regular", "KaTeX_Math-Italic")  # no formula does without these fonts


PLAIN = {Name, Operator, Punctuation, Whitespace}  # tokens that have the colour of text; words such as `in` are none of them


class Code(HtmlFormatter):
    "Code without marks around what looks as text does: half of its weight. The names that stand for a symbol keep theirs."

    def format(self, tokens: Iterable[tuple[Any, str]], out: Any) -> None:
        "Write the tokens."
        super().format(((Text if kind in PLAIN and text not in SYMBOLS else kind, text) for kind, text in tokens), out)


def used(file: Any, body: str) -> bool:
    "Does a page with this body need this file?"
    name = Path(str(file.filename or "")).name
    mark = NEEDED.get(name, "")
    return mark is not None and mark in body


def choose(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: nodes.document | None) -> None:
    "Take from the head of a page what it does not need."
    for kind in ("css_files", "script_files"):
        context[kind] = [file for file in context[kind] if used(file, context.get("body", ""))]


def embed(path: Path, text: str) -> str:
    "The style with the fonts that every formula uses inside: if they came after it, the lines would break anew."
    def data(found: re.Match) -> str:
        return f"url(data:font/woff2;base64,{b64encode((path.parent / found[1]).read_bytes()).decode()})"
    return re.sub(rf"url\((fonts/(?:{'|'.join(EMBEDDED)})\.woff2)\)", data, text)


def trim(path: Path) -> None:
    "Take out the addresses of source maps; let text show before a font that may come late."
    text = path.read_text(encoding="utf-8")
    short = re.sub(r"\n?(?://|/\*)# sourceMappingURL=\S+(?: ?\*/)?\n?", "\n", text)
    short = re.sub(r"@font-face\s*{(?![^}]*font-display)", "@font-face{font-display:swap;", short)
    short = embed(path, short)
    if short != text:
        path.write_text(short, encoding="utf-8", newline="\n")


def prune(out: Path) -> None:
    "Remove the static files that no page asks for, directly or through a style or a script; licences stay."
    files = {path for path in (out / "_static").rglob("*") if path.is_file()}
    asking = [path.read_text(encoding="utf-8") for path in out.rglob("*.html")]
    kept: set[Path] = {path for path in files if "LICENSE" in path.name}
    while asking:
        found = {path for path in files - kept if any(path.name in text for text in asking)}
        kept |= found
        asking = [path.read_text(encoding="utf-8") for path in found if path.suffix in LOADERS]
    for path in files - kept:
        path.unlink()


def finish(app: Sphinx, failed: Exception | None) -> None:
    "After all pages are written."
    if not failed:
        out = Path(app.outdir)
        for path in [*out.rglob("_static/**/*.css"), *out.rglob("_static/**/*.js")]:
            trim(path)
        prune(out)


def setup(app: Sphinx) -> dict[str, bool]:
    "Called by Sphinx."
    app.connect("html-page-context", choose, priority=900)  # when all others have asked for their files
    app.connect("build-finished", finish, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
