"""A Sphinx extension: the whole book as one EPUB file, for reading without a browser.

Nothing in it runs. Charts and drawings are pictures, in the state in which they start, and what can
be moved keeps its table if that is short; math is MathML; code is coloured as on the site. The same
notebooks give the same bytes.
"""

import json
import re
from collections.abc import Iterator
from html import escape, unescape
from pathlib import Path
from typing import Any
from xml.etree import ElementTree
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile, ZipInfo

import sphinxcontrib.katex as katex
import vl_convert
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.builders.epub3 import Epub3Builder
from sphinx.util import logging

from charts import look
from notebooks import UNVEIL, VEIL, figures, is_chapter, parts
from stills import OF_THE_PAGE, NotDrawn
from stills import still as still_of

logger = logging.getLogger("book")
XHTML = "{http://www.w3.org/1999/xhtml}"
STYLES = ("pygments.css", "reading.css", "pair.css")
FIGURE = re.compile(
    r'<figure class="chart" id="([^"]+)".*?<figcaption[^>]*>(.*?)</figcaption>(.*?)'
    r'<script type="application/json">(.*?)</script>\s*</figure>',
    re.S,
)
DRAWING = re.compile(
    r'<figure class="drawing" data-drawing="(\w+)"(?: data-library="(\w+)")?>(.*?)'
    r'<div class="view"[^>]*>(?:<p class="unscripted">[^<]*</p>)?'
    r"(?:<noscript>.*?</noscript>)?</div>(.*?)"
    r'<script type="application/json">(.*?)</script>'
    r'(?:\s*<script type="text/plain" class="weights" data-name="(\w+)")?.*?</figure>',
    re.S,
)
MOST_ROWS = 40  # of the states of one chart
SITE = Path(__file__).resolve().parent
# The name of a function, applied.
APPLIED = re.compile(r"<mi\b[^>]*>(?:(?!</?mi\b).)*</mi>\s*<mo>(?:\u2061|&#x2061;)</mo>")


# Charts -------------------------------------------------------------------------------------------


def bound(spec: Any) -> bool:
    "Has the chart a control, anywhere?"
    if isinstance(spec, dict):
        return any("bind" in signal for signal in spec.get("signals", [])) or any(
            map(bound, spec.values())
        )
    return isinstance(spec, list) and any(map(bound, spec))


def picture(spec: dict[str, Any], title: str) -> str:
    """The chart as an SVG file.

    It is on white, since a reader's night mode does not reach into pictures.
    """
    svg = vl_convert.vega_to_svg({**spec, "config": look(), "background": "white", "padding": 8})
    about = spec.get("description", title)
    more = f"<desc>{escape(about)}</desc>" if about != title else ""
    return re.sub(
        r"(<svg[^>]*)>", rf'\1 role="img"><title>{escape(title)}</title>{more}', svg, count=1
    )


def still(found: re.Match, folder: Path, up: str) -> str:
    """A figure that does not move: its picture, written into `folder`,
    in place of the spec; `up` leads there.
    """
    ident, caption, shown, source = found.groups()
    spec = json.loads(source)
    title = unescape(re.sub("<[^>]*>", "", caption)).strip()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{ident}.svg").write_text(picture(spec, title), encoding="utf-8", newline="\n")
    tables = "\n".join(re.findall(r"<table.*?</table>", shown, re.S)) if bound(spec) else ""
    if tables.count("<tr") > MOST_ROWS:
        tables = ""  # pages of numbers, where a reader opens every fold; the site has them
    fold = (
        f"<details><summary>The data, in every state</summary>\n{tables}\n</details>\n"
        if tables
        else ""
    )
    alt = escape(spec.get("description", title))
    return (
        f'<figure class="chart" id="{ident}">\n<figcaption>{caption}</figcaption>\n'
        f'<img src="{up}{folder.name}/{ident}.svg" alt="{alt}"/>\n{fold}</figure>'
    )


def drawn(found: re.Match, folder: Path, files: Path) -> str:
    """A drawing in its first state, by its own script in `folder`; its table stays.

    Nothing, where it only shows other figures.

    The weights of a model lie in `files`, which a site would serve.
    """
    name, library, caption, table, data, weights = found.groups()
    if name in OF_THE_PAGE:
        return ""
    script = (files / f"weights-{weights}.js").read_text(encoding="utf-8") if weights else ""
    try:
        picture = still_of(folder, name, data, library or "", (weights or "", script))
    except NotDrawn as e:
        logger.warning("%s", e)
        picture = ""
    return f'<figure class="drawing">{caption}<div class="view">{picture}</div>{table}</figure>'


def settle(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    "Take out of a page what needs a browser or the site."
    up = "../" * docname.count("/")
    for raw in list(doctree.findall(nodes.raw)):
        text = raw.astext()
        if 'class="notebook-links"' in text or 'class="switch"' in text:
            raw.parent.remove(raw)  # to files that are not in the book
        elif text.strip() in (VEIL, UNVEIL):
            raw.parent.remove(raw)  # a question is answered by itself, and what follows is read on
        elif 'class="fold reference"' in text:
            # no switch opens it
            raw.replace_self(
                nodes.raw("", text.replace("<details ", '<details open="open" '), format="html")
            )
        elif 'class="drawing"' in text:
            made, count = DRAWING.subn(
                lambda m: drawn(
                    m, figures(SITE.parent), Path(app.srcdir).parent / "extra/drawings"
                ),
                text,
            )
            if count != text.count('class="drawing"'):
                logger.warning("a drawing has another form than epub.py knows", location=raw)
            raw.replace_self(nodes.raw("", made, format="html"))
        elif 'class="chart"' in text:
            made, count = FIGURE.subn(lambda m: still(m, Path(app.outdir) / "charts", up), text)
            if count != text.count('class="chart"'):
                logger.warning("a chart has another form than epub.py knows", location=raw)
            raw.replace_self(nodes.raw("", made, format="html"))


# The file -----------------------------------------------------------------------------------------


def for_readers(
    app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    """Link no style but the book's; the others are for the site.

    Make MathML of what KaTeX nearly makes MathML of.
    """
    context["css_files"] = [
        css for css in context["css_files"] if Path(str(css.filename)).name in STYLES
    ]
    # In e^{\lse} the name and the sign that applies it must be one child of <msup>, which has two.
    context["body"] = APPLIED.sub(r"<mrow>\g<0></mrow>", context.get("body", ""))


def declare(line: str, folder: Path, cover: str) -> str:
    "A line of the manifest, with what it must say of a file beside its type."
    found = re.search(r'<item .*href="([^"]*)" media-type="([^"]*)" />', line)
    if not found:
        return line
    name, kind = found.groups()
    text = (folder / name).read_text(encoding="utf-8") if kind == "application/xhtml+xml" else ""
    said = (
        "cover-image"
        if name == cover
        else " ".join(what for what, tag in (("mathml", "<math"), ("svg", "<svg")) if tag in text)
    )
    return line.replace(" />", f' properties="{said}" />') if said else line


class Book(Epub3Builder):
    """Sphinx's builder, with what EPUB readers ask for beyond it,
    and a file that is the same every time.
    """

    def build_content(self) -> None:
        "Write the list of the files: those that the pages use, with their properties, each once."
        out = Path(self.outdir)
        for path in (out / "_static").rglob("*"):
            if path.is_file() and path.name not in (*STYLES, "cover.png"):
                path.unlink()
        super().build_content()
        opf = out / "content.opf"
        # the index would be there twice
        lines = dict.fromkeys(opf.read_text(encoding="utf-8").splitlines())
        opf.write_text(
            "".join(declare(line, out, self.config.epub_cover[0]) + "\n" for line in lines),
            encoding="utf-8",
            newline="\n",
        )

    def build_navigation_doc(self) -> None:
        "Write the table of contents; its chapters stand below the names of their parts."
        super().build_navigation_doc()
        nav = Path(self.outdir) / "nav.xhtml"
        tree = ElementTree.parse(nav)
        pages = tree.find(f".//{XHTML}nav/{XHTML}ol")
        by_name = {li.find(f"{XHTML}a").get("href", "").removesuffix(".xhtml"): li for li in pages}
        for part, names in parts(list(by_name)).items():
            if items := [by_name[name] for name in names if name in by_name and is_chapter(name)]:
                entry = ElementTree.Element(f"{XHTML}li")
                pages.insert(list(pages).index(items[0]), entry)
                ElementTree.SubElement(entry, f"{XHTML}span").text = part
                below = ElementTree.SubElement(entry, f"{XHTML}ol")
                for item in items:
                    pages.remove(item)
                    below.append(item)
        ElementTree.register_namespace("", XHTML.strip("{}"))
        ElementTree.register_namespace("epub", "http://www.idpf.org/2007/ops")
        tree.write(nav, encoding="utf-8", xml_declaration=True)

    def toc_metadata(self, level: int, navpoints: list[Any]) -> dict[str, Any]:
        "The table of contents for old readers names the book as the list of the files does."
        return {**super().toc_metadata(level, navpoints), "uid": self.config.epub_identifier}

    def contents(self) -> Iterator[str]:
        """The files in the order in which they are stored:
        the type first, or readers do not know it for a book.
        """
        yield from ("mimetype", "META-INF/container.xml", "content.opf", "toc.ncx")
        yield from sorted(self.files)

    def build_epub(self) -> None:
        "Put the files together, dated alike; a page that is not well-formed would not open at all."
        out = Path(self.outdir)
        with ZipFile(out / f"{self.config.epub_basename}.epub", "w") as book:
            for name in self.contents():
                data = (out / name).read_bytes()
                if name.endswith((".xhtml", ".svg", ".opf", ".ncx")):
                    try:
                        ElementTree.fromstring(data)
                    except ElementTree.ParseError as e:
                        logger.warning("%s is not well-formed XML: %s", name, e)
                info = ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
                info.external_attr = 0o644 << 16
                book.writestr(info, data, ZIP_STORED if name == "mimetype" else ZIP_DEFLATED)


def setup(app: Sphinx) -> dict[str, bool]:
    "Called by Sphinx."
    katex.KATEX_DEFAULT_OPTIONS["output"] = "mathml"
    app.add_builder(Book, override=True)
    app.connect("doctree-resolved", settle)
    app.connect("html-page-context", for_readers)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
