"""A Sphinx extension: search that leads to sections.

It writes what `static/search.js` searches, `_static/search/sections.js`.

Each section is a record, with the words of its prose: no code, no output, no large formula. So is
each name of the package. Sphinx's own search finds pages, shows code and doubled formulas as
excerpts, and fetches them, which a page from a disk may not.
"""

import json
import re
import unicodedata
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.errors import ExtensionError

from notebooks import is_chapter

NO_PROSE = (
    nodes.math_block,
    nodes.literal_block,
    nodes.raw,
    nodes.comment,
    nodes.title,
    nodes.section,
    nodes.system_message,
    addnodes.desc,
    addnodes.toctree,
    nodes.table,
)
# How a page's name begins.
KINDS = {"lookup/references": "sources", "lookup": "lookup", "checks": "checks", "index": "home"}
# They repeat what a section before them says.
LAST = {"Recap", "Exercises", "Solutions", "What comes next"}
# What people ask, by page and section, in words that do not stand there.
ASKED = Path(__file__).with_name("asked.json")
TABLES = ("chapter", "lookup")  # where one looks for what stands in a table
OWN = ("kind", "terms", "tables", "asked")  # what a record of its page may lack
Record = dict[str, str]


def kind(page: str) -> str:
    "What a page is to a reader: chapters are found before tools."
    return (
        "chapter"
        if is_chapter(page)
        else next((kind for start, kind in KINDS.items() if page.startswith(start)), "tools")
    )


SIGNS = {
    "cdot": "·",
    "times": "×",
    "sqrt": "√",
    "infty": "∞",
    "dots": "…",
    "to": "→",
    "ge": "≥",
    "partial": "∂",
    "sum": "Σ",
    "top": "ᵀ",
    "ell": "ℓ",
    "varphi": "φ",
    "ln": "ln ",
}


def sign(name: re.Match[str]) -> str:
    "What a name of TeX stands for; what only sets letters stands for nothing."
    try:
        return SIGNS.get(name[1]) or unicodedata.lookup(f"GREEK SMALL LETTER {name[1]}")
    except KeyError:
        return ""


def plain(tex: str) -> str:
    "A formula in a line, as one would type it."
    text = re.sub(r"\\([a-zA-Z]+) ?", sign, tex.replace("\\,", " ").replace("^\\top", "ᵀ"))
    return re.sub(r"[{}]", "", text).replace("-", "−")


def prose(node: nodes.Node) -> Iterator[str]:
    """The words under a node that are meant to be read.

    Of a question's answers that is the right one.
    """
    asked = wrong = False
    for child in node.children:
        if isinstance(child, nodes.raw):
            asked = 'class="predict"' in child.astext() or (
                asked and "</div>" not in child.astext()
            )
            wrong = asked and "<details>" in child.astext()
        elif isinstance(child, nodes.Text):
            yield child.astext()
        elif isinstance(child, nodes.math):
            yield plain(child.astext())
        elif not wrong and not isinstance(child, NO_PROSE):
            yield from prose(child)
            if isinstance(child, (nodes.paragraph, nodes.list_item)):
                yield " "


def said(section: nodes.section, *kinds: type[nodes.Element]) -> str:
    "The words in elements of some kinds that stand in this section and not in one below it."
    own = [child for child in section.children if not isinstance(child, nodes.section)]
    return " ".join(
        " ".join(
            found.astext() for child in own for kind in kinds for found in child.findall(kind)
        ).split()
    )


def sections(app: Sphinx, page: str, doctree: nodes.document) -> Iterator[Record]:
    "The sections of a page; the first has the page's own address."
    about = app.env.titles[page].astext()
    for i, section in enumerate(doctree.findall(nodes.section)):
        title = next(section.findall(nodes.title)).astext()
        anchor = f"#{section['ids'][0]}" if i else ""
        worth = "tools" if title in LAST else kind(page)
        yield {
            "url": app.builder.get_target_uri(page) + anchor,
            "title": title,
            "page": about,
            "kind": worth,
            "text": " ".join("".join(prose(section)).split()),
            "terms": said(section, nodes.emphasis, nodes.strong).replace("Predict.", ""),
            "tables": said(section, nodes.table) if worth in TABLES else "",
        }


def names(app: Sphinx, page: str, doctree: nodes.document) -> Iterator[Record]:
    """The functions, classes and methods that a page describes,
    with the sentence that says what each is for.
    """
    for desc in doctree.findall(addnodes.desc):
        signature, about = desc.children
        if signature["ids"] and desc["objtype"] in ("function", "class", "method"):
            yield {
                "url": f"{app.builder.get_target_uri(page)}#{signature['ids'][0]}",
                "title": signature["fullname"].rpartition(".")[2],
                "page": app.env.titles[page].astext(),
                "kind": "name" if kind(page) == "chapter" else "tools",
                "text": " ".join(
                    first.astext()
                    for first in about.children[:1]
                    if isinstance(first, nodes.paragraph)
                ),
            }


def lines(app: Sphinx, page: str, doctree: nodes.document) -> Iterator[Record]:
    """The lines of tables that have an address of their own:
    the bugs of the catalogue, each by its code.
    """
    for raw in doctree.findall(nodes.raw):
        for ident, cells in re.findall(r"<tr id='([^']+)'>(.*?)</tr>", raw.astext(), re.S):
            words = re.sub("<[^>]*>", "", cells.partition("</td>")[2])
            yield {
                "url": f"{app.builder.get_target_uri(page)}#{ident}",
                "title": ident,
                "page": app.env.titles[page].astext(),
                "kind": "tools",
                "text": unescape(words),
            }


def read(app: Sphinx, doctree: nodes.document) -> None:
    "Keep what can be found on a page, as soon as it is read."
    page = app.env.docname
    kept(app.env)[page] = [
        record for found in (sections, names, lines) for record in found(app, page, doctree)
    ]


def kept(env: BuildEnvironment) -> dict[str, list[Record]]:
    "The records of all pages, which the next build finds again."
    if not hasattr(env, "book_records"):
        env.book_records = {}
    return env.book_records


def forget(app: Sphinx, env: BuildEnvironment, page: str) -> None:
    "Drop what was on a page that is read anew, or is no more."
    kept(env).pop(page, None)


def packed(records: list[Record]) -> list[Any]:
    """What all records of a page have in common, once, and then what each has of its own;
    nothing at its end that is empty.
    """
    first = records[0]
    urls = [r["url"].removeprefix(first["url"]) for r in records]
    own = [
        [url, r["title"], r["text"], *(r.get(key, "") for key in OWN)]
        for url, r in zip(urls, records)
    ]
    for record, r in zip(own, records):
        record[3] = "" if r["kind"] == first["kind"] else r["kind"]
        while not record[-1]:
            record.pop()
    return [first["url"], first["page"], first["kind"], own]


def asked(records: list[Record], phrases: dict[str, list[str]]) -> list[Record]:
    """The records of a page, each with the phrases in which people ask for it.

    Phrases without a section are a mistake.
    """
    anchors = [record["url"].partition("#")[2] for record in records]
    if lost := phrases.keys() - set(anchors):
        raise ExtensionError(
            f"{ASKED.name}: {records[0]['url']} has no section {', '.join(sorted(lost))}"
        )
    return [
        record | {"asked": "; ".join(phrases.get(anchor, []))}
        for record, anchor in zip(records, anchors)
    ]


def write(app: Sphinx, failed: Exception | None) -> None:
    "The records, a line for each page, as a script: a page from a disk may load one."
    if failed:
        return
    phrases = json.loads(ASKED.read_text(encoding="utf-8"))
    found = {
        page: kept(app.env)[page] for page in sorted(app.env.found_docs) if kept(app.env)[page]
    }
    pages = [
        packed(asked(records, phrases.get(records[0]["url"], {}))) for records in found.values()
    ]
    lines = ",\n".join(
        json.dumps(page, ensure_ascii=False, separators=(",", ":")) for page in pages
    )
    path = Path(app.outdir) / "_static/search/sections.js"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"const SECTIONS = [\n{lines}];\n", encoding="utf-8", newline="\n")


def without_index(app: Sphinx) -> None:
    "Sphinx needs no index of its own."
    app.builder.search = False


def setup(app: Sphinx) -> dict[str, Any]:
    "Called by Sphinx."
    app.connect("builder-inited", without_index)
    app.connect("doctree-read", read, priority=900)  # when its title is known
    app.connect("env-purge-doc", forget)
    app.connect("build-finished", write)
    return {"parallel_read_safe": False, "parallel_write_safe": True}
