"""A Sphinx extension: what the pages tell search engines, and those who make a preview of a link.

Addresses are written only when settings.ini names the host (`doc_host`, `doc_baseurl`): a guessed
one is worse than none. There are extensions for this, and each lacks something: sphinxext-opengraph
always writes an address, and nothing on pages that no notebook is the source of; sphinx-sitemap
lists index.html beside the home page's own address, and only the pages that were written anew;
sphinx-notfound-page needs to know the folder on the host.
"""

import re
import shutil
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from docutils import nodes
from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parents[1]
# Made by card.py and previews.py.
CARD, PREVIEWS = Path(__file__).with_name("card.png"), Path(__file__).with_name("previews")
NOT_FOUND = "404"
UNLISTED = {NOT_FOUND, "search"}  # pages that nobody should find through a search engine
WITHOUT_SOURCE = {  # title, description
    "genindex": (
        "Index",
        (
            "Every name that the package exports, in alphabetical order, "
            "with links to the descriptions."
        ),
    ),
    "search": ("Search", "Search the text of the book and the names of the package."),
    NOT_FOUND: ("No such page", "There is no page at this address."),
}


def shorten(text: str, most: int = 160) -> str:
    "The first words of a text, as many as a preview shows."
    text = " ".join(text.split())
    return text if len(text) <= most else text[:most].rsplit(" ", 1)[0] + " …"


def description(page: str, doctree: nodes.document | None) -> str:
    "What a page says of itself: what its source gives as description, or its first paragraph."
    for meta in doctree.findall(nodes.meta) if doctree else ():
        if meta.get("name") == "description":
            return meta["content"]
    first = next(doctree.findall(nodes.paragraph), None) if doctree else None
    return WITHOUT_SOURCE[page][1] if first is None else shorten(first.astext())


def picture(page: str) -> tuple[str, str]:
    """The picture of a page in _static, and what it shows: of a chapter its figure,
    of all others the card of the book.
    """
    own = PREVIEWS / f"{page[:2]}.png"
    if "_" in page and page[:2].isdigit() and own.exists():
        return (
            f"{PREVIEWS.name}/{own.name}",
            "The title of the chapter, and its figure as it begins",
        )
    return CARD.name, "A map of attention weights: which token attends to which"


def tags(page: str, context: dict[str, Any], about: str, host: str) -> str:
    """The description, and the card that is shown where the page is linked to;
    its address is whole where the host is known.
    """
    home = page == context["master_doc"]
    title = (
        context["project"]
        if home
        else re.sub("<[^>]*>", "", context.get("title") or WITHOUT_SOURCE[page][0])
    )
    found = [
        ("name", "description", about),
        ("property", "og:type", "website" if home else "article"),
        ("property", "og:site_name", context["project"]),
        ("property", "og:title", title),
        ("property", "og:description", about),
    ]
    if host:
        found.append(("property", "og:url", context["pageurl"]))
    if page not in UNLISTED:
        file, shown = picture(page)
        found += [
            ("property", "og:image", f"{host or '../' * page.count('/')}_static/{file}"),
            ("property", "og:image:width", "1200"),
            ("property", "og:image:height", "630"),
            ("property", "og:image:alt", shown),
        ]
    found.append(("name", "twitter:card", "summary" if page in UNLISTED else "summary_large_image"))
    return "".join(
        f'\n    <meta {kind}="{name}" content="{escape(content)}">' for kind, name, content in found
    )


def whole(doctree: nodes.document | None) -> str:
    """Let browsers wait for the first section: of a table that is shown half,
    the columns move when the rest has come.
    """
    sections = doctree.findall(nodes.section) if doctree else ()
    first = next(
        (section for section in sections if isinstance(section.parent, nodes.section)), None
    )
    return f'\n    <link rel="expect" href="#{first["ids"][0]}" blocking="render">' if first else ""


def add_tags(
    app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    """Put the tags into the head of a page, in place of those that docutils writes:
    Furo repeats the other ones.
    """
    host = app.config.html_baseurl
    if host and page == context["master_doc"]:
        context["pageurl"] = host  # not …/index.html: one page, one address
    if page in UNLISTED:
        context["pageurl"] = None
    # of "View this page"; some pages lie beside the notebooks
    folder = context.get("theme_source_directory") or ""
    if doctree and not (ROOT / folder / f"{page}{context['page_source_suffix']}").exists():
        context["theme_source_directory"] = ""
    about = context.pop("about", "") or description(page, doctree)
    context["metatags"] = tags(page, context, about, "" if page in UNLISTED else host) + whole(
        doctree
    )


def from_anywhere(html: str, root: str) -> str:
    """The page with its links counted from the root of the host,
    since it is shown at addresses of any depth.
    """
    return re.sub(
        r'((?:href|src|action|data-content_root)=")(?!#|[a-z]+:)(?:\./)?', rf"\g<1>{root}", html
    )


def finish(app: Sphinx, failed: Exception | None) -> None:
    "Write what only robots read, and make the 404 page fit for every address."
    if failed:
        return
    out, host = Path(app.outdir), app.config.html_baseurl
    shutil.copyfile(CARD, out / "_static" / CARD.name)
    shutil.copytree(PREVIEWS, out / "_static" / PREVIEWS.name, dirs_exist_ok=True)
    robots = ["User-agent: *", "Allow: /"]
    if host:
        page = out / f"{NOT_FOUND}.html"
        html = from_anywhere(page.read_text(encoding="utf-8"), urlsplit(host).path)
        page.write_text(html, encoding="utf-8", newline="\n")
        pages = sorted(
            p.relative_to(out).as_posix() for p in out.rglob("*.html") if p.stem not in UNLISTED
        )
        urls = "".join(
            f"<url><loc>{host}{'' if p == 'index.html' else p}</loc></url>\n" for p in pages
        )
        (out / "sitemap.xml").write_text(
            '<?xml version="1.0" encoding="UTF-8"?>\n'
            '<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">\n'
            f"{urls}</urlset>\n",
            encoding="utf-8",
            newline="\n",
        )
        robots += ["", f"Sitemap: {host}sitemap.xml"]
    (out / "robots.txt").write_text("\n".join(robots) + "\n", encoding="utf-8", newline="\n")


def not_found(app: Sphinx) -> list[tuple[str, dict[str, Any], str]]:
    "The page that a host shows in place of one that it does not have."
    return [(NOT_FOUND, {"title": WITHOUT_SOURCE[NOT_FOUND][0]}, "404.html")]


def setup(app: Sphinx) -> dict[str, bool]:
    "Called by Sphinx."
    app.connect("html-collect-pages", not_found)
    app.connect("html-page-context", add_tags, priority=600)
    app.connect("build-finished", finish)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
