"""The built site as files: links, headings, descriptions and titles.

What needs a browser is in test_browser.py.

If it fails: The message names page and place. Mend the notebook, then run `make prepare`.
"""

import posixpath
import re
from collections import Counter
from urllib.parse import unquote, urlsplit

from browser import DOCS
from bs4 import BeautifulSoup, Tag
from conftest import ROOT, fail_if

# Where a host shows the site; 404.html counts from there.
BASE = re.search(
    r"(?m)^doc_baseurl *= *(\S+)", (ROOT / "settings.ini").read_text(encoding="utf-8")
)[1]
OURS = ("href", "src", "poster", "data")  # attributes that hold an address


def target(page: str, address: str) -> tuple[str, str] | None:
    "The file of the site and the anchor that an address on `page` leads to; None for another host."
    url = urlsplit(address)
    if url.scheme or url.netloc:
        return None
    place = posixpath.join(posixpath.dirname(page), unquote(url.path))
    path = posixpath.normpath(place.removeprefix(BASE) or "index.html") if url.path else page
    return (f"{path}/index.html" if (DOCS / path).is_dir() else path), unquote(url.fragment)


def addresses(soup: BeautifulSoup) -> list[str]:
    "All that a page links to or loads."
    return [tag[name] for tag in soup.find_all(True) for name in OURS if name in tag.attrs]


def test_links_lead_somewhere(soups):
    "The file is there, and the anchor is in it."
    anchors = {path: {tag["id"] for tag in soup.find_all(id=True)} for path, soup in soups.items()}
    found = []
    for page, soup in soups.items():
        for address in addresses(soup):
            path, anchor = target(page, address) or (page, "")
            if not (DOCS / path).is_file() or ".." in path:
                found.append(f"{page}: {address}: no such file")
            elif anchor and anchor not in anchors.get(path, {anchor}):
                found.append(f"{page}: {address}: no such anchor")
    for css in DOCS.rglob("*.css"):
        for url in re.findall(r"url\(['\"]?(?!data:|#)([^)'\"]+)", css.read_text(encoding="utf-8")):
            if not (css.parent / urlsplit(url).path).is_file():
                found.append(f"{css.relative_to(DOCS)}: {url}: no such file")
    fail_if(sorted(set(found)), "These links lead nowhere:")


def test_no_page_is_an_island(soups):
    "From the home page, links lead to every page."
    reached, new = {"404.html"}, {"index.html"}  # the server shows 404.html by itself
    while new:
        reached |= new
        new = {
            link[0]
            for page in new
            for address in addresses(soups[page])
            if (link := target(page, address))
        }
        new = (new & soups.keys()) - reached
    fail_if(sorted(soups.keys() - reached), "No link leads here:")


def test_ids_are_unique(soups):
    "A link to an id that is there twice leads to the wrong one."
    found = [
        f"{page}: {n} × {ident}"
        for page, soup in soups.items()
        for ident, n in Counter(tag["id"] for tag in soup.find_all(id=True)).items()
        if n > 1
    ]
    fail_if(found, "Ids that are not unique:")


def test_headings(soups):
    """One h1, the first; below it, no level is left out:
    people with a screen reader find their way by them.
    """
    found = []
    for page, soup in soups.items():
        headings = soup.find_all(re.compile(r"^h[1-6]$"))
        levels = [int(h.name[1]) for h in headings]
        if levels[:1] != [1] or levels.count(1) != 1:
            found.append(f"{page}: levels {levels[:5]} …; the first is h1, and no other")
        found += [
            f"{page}: h{b} after h{a}: {h.get_text()}"
            for a, b, h in zip(levels, levels[1:], headings[1:])
            if b > a + 1
        ]
        found += [
            f"{page}: an empty h{level}"
            for level, h in zip(levels, headings)
            if not h.get_text(strip=True)
        ]
    fail_if(found, "Headings out of order:")


def test_title_and_description(soups):
    "What a search engine shows of a page, and a browser's tab: there, and each page's own."
    found, of = [], {"title": {}, "description": {}}
    for page, soup in soups.items():
        meta = soup.find_all("meta", attrs={"name": "description"})
        said = {
            "title": soup.title.get_text(strip=True) if soup.title else "",
            "description": meta[0]["content"].strip() if len(meta) == 1 else "",
        }
        found += [f"{page}: lang is {soup.html.get('lang')}"] * (soup.html.get("lang") != "en")
        for kind, text in said.items():
            other = of[kind].setdefault(text, page)
            found += [f"{page}: no {kind}"] * (not text) or [f"{page}: same {kind} as {other}"] * (
                other != page
            )
        found += [
            f"{page}: a description of {n} characters; 170 at most"
            for n in [len(said["description"])]
            if n > 170
        ]
    fail_if(found, "Titles and descriptions:")


def described(tag: Tag) -> bool:
    "Whether a person who cannot see this picture is told what it shows, or rightly told nothing."
    hidden = tag.find_parent(attrs={"aria-hidden": "true"}) or tag.get("aria-hidden") == "true"
    control = tag.find_parent(["button", "a", "label"])  # has a name of its own; axe checks that
    own = tag.get("alt") or tag.get("aria-label") or tag.get("aria-labelledby") or tag.find("title")
    return bool(hidden or own or (tag.name == "svg" and control) or tag.find_parent("svg"))


def test_every_picture_is_described(soups):
    "Pictures by `alt` or a title, figures by a caption and a table of their data."
    found = []
    for page, soup in soups.items():
        found += [
            f"{page}: {str(tag)[:100]}"
            for tag in soup.find_all(["img", "svg"])
            if not described(tag) and "none" not in tag.get("style", "")
        ]
        for figure in soup.find_all("figure"):
            caption = figure.find("figcaption")
            found += [f"{page}#{figure.get('id')}: no caption"] * (
                not caption or not caption.get_text(strip=True)
            )
            if "chart" in figure.get("class", []):
                found += [f"{page}#{figure.get('id')}: no table"] * (not figure.select("table td"))
    fail_if(found, "Not described:")


def test_headers_of_tables(soups):
    "A screen reader says a cell's column or line with it."
    found = [
        f"{page}: {table.get_text(' ', strip=True)[:80]}"
        for page, soup in soups.items()
        for table in soup.select("table:not(.indextable)")  # the index: columns, no data
        if not table.find("th")
    ]
    fail_if(found, "Tables without a header:")
