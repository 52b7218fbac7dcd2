"""The pages around the chapters: home, notation, glossary, references;
and the links between them and the chapters.

If it fails: The message names the place. If docs/ is only stale, run `make prepare`.
"""

import io
import posixpath
import re
import sys
from collections.abc import Iterator
from operator import attrgetter
from pathlib import Path
from types import SimpleNamespace

import nbformat
import pytest
import torch
from bs4 import BeautifulSoup, Tag
from conftest import CHAPTERS as CHAPTER_NOTEBOOKS, NOTEBOOKS, ROOT, fail_if, place
from late import Late
from sphinx.application import Sphinx
from sphinx.util.docutils import docutils_namespace, patch_docutils

sys.path.insert(0, str(ROOT / "website"))
import citations
import codes as codes_of
import notebooks
import symbols
from stills import OF_THE_PAGE

transformers = Late("transformers")
DOCS = ROOT / "docs"
CHAPTERS = [place(path) for path in CHAPTER_NOTEBOOKS]
# What the glossary explains.
BOOK = [name for name in map(place, NOTEBOOKS) if name[0].isdigit() or name.startswith("checks/")]
NOTATION, GLOSSARY, REFERENCES = (
    "lookup/notation.html",
    "lookup/glossary.html",
    "lookup/references.html",
)


def landing(page: str, href: str) -> tuple[str, str]:
    "The page that a link on `page` leads to, and the anchor there."
    path, _, anchor = href.partition("#")
    return posixpath.normpath(posixpath.join(posixpath.dirname(page), path)), anchor


def links_to(soups: dict[str, BeautifulSoup], name: str, target: str) -> list[tuple[Tag, str]]:
    "The links in the text of the page `name` to places on the page `target`, with the anchor."
    return [
        (a, a["href"].partition("#")[2])
        for a in soups[name].article.find_all("a", href=True)
        if landing(name, a["href"])[0] == target
    ]


# The built site -----------------------------------------------------------------------------------


def test_the_home_page_shows_the_book(soups):
    """In its first part a figure and the way in; then every chapter, in order, under its own number
    and in its part; and the two commands.
    """
    home = soups["index.html"]
    opening = home.select_one(".opening")
    assert opening.select_one("figure.drawing")
    assert opening.select_one("p > strong:only-child > a")["href"] == f"{CHAPTERS[0]}.html"
    assert re.findall(r"^make \w+", home.select_one("#run-it .highlight-sh").get_text(), re.M) == [
        "make docs",
        "make test",
    ]
    lists = [
        (int(ol["start"]), ol.find_all("li", recursive=False)) for ol in home.select("#the-map ol")
    ]
    cards = [(start + i, card) for start, found in lists for i, card in enumerate(found)]
    assert [number for number, _ in cards] == list(range(len(cards))), (
        "the map in nbs/index.ipynb leaves no number out"
    )
    listed = [(number, card.a["href"]) for number, card in cards if card.a]
    assert listed == [(int(c[:2]), f"{c}.html") for c in CHAPTERS], (
        "the map in nbs/index.ipynb lists each chapter, in order"
    )
    shown = [
        h3.get_text().removesuffix("¶").removesuffix("#")
        for h3 in home.select("#the-map section:has(> ol) > h3")
    ]
    sidebar = [p.get_text() for p in home.select(".sidebar-tree .caption")]
    assert shown == sidebar[: len(shown)], "the parts of the map are those of website/notebooks.py"


def test_the_page_of_a_figure_begins_with_it(soups):
    "Below the title and its one sentence; what it is made of comes after it."
    late = []
    for path in (ROOT / "nbs/figures").glob("*.ipynb"):
        page = soups[f"figures/{path.stem}.html"].select_one("article")
        if path.stem not in ("drawing", "tables"):  # parts of figures
            texts = page.select("p:not(.switch)")
            lead, *later = [page.select_one("figure, .chart") in p.find_all_next() for p in texts]
            late += [path.stem] * (not lead or any(later))
    fail_if(late, "These pages do not begin with their figure:")


def test_every_chapter_has_its_part_of_the_machine(soups):
    """A light picture at its top with one part lit, which says so and leads to the map;
    no two chapters light the same.
    """
    lit = set()
    for chapter in CHAPTERS:
        [where] = soups[f"{chapter}.html"].select("a.where")
        assert (
            where["href"] == "index.html#the-map"
            and f"chapter {int(chapter[:2])} " in where["aria-label"]
        )
        assert len(str(where)) < 2000
        lit |= {path["d"] for path in where.select("path.lit")}
    assert len(lit) == len(CHAPTERS)
    parts = soups["index.html"].select("#the-map ol > li")
    assert all(part.select_one(".about") for part in parts)
    # a chapter that was just begun has none
    drawn = {int(path.stem) for path in (ROOT / "website/static/map").glob("*.svg")}
    assert {i for i, part in enumerate(parts) if "url(" in part["style"]} == {
        i for i in drawn if parts[i].a
    }


def test_the_group_of_a_page_is_open_in_the_sidebar(soups):
    "And no other; on a page of none, such as the home page, the four parts of the book are."
    for page, soup in soups.items():
        groups = soup.select(".sidebar-tree details.group")
        found = [group for group in groups if group.has_attr("open")]
        assert len(groups) >= 6, page
        if soup.select(".sidebar-tree .current"):
            assert len(found) == 1 and found[0].select(".current-page"), page
        else:
            assert [group.summary.text.split()[0] for group in found] == ["I", "II", "III", "IV"], (
                page
            )


def test_drawings_stand_still_without_scripts(soups):
    """In their place is what they show first, but of two:
    one shows what a page has of its own, one paints on a canvas.
    """
    wrong, n = [], 0
    for page, soup in soups.items():
        for figure in soup.select("figure.drawing") if "/" not in page else ():
            still, name = figure.select_one(".view > noscript > .still"), figure["data-drawing"]
            n += bool(still)
            wrong += [f"{page}: {name}"] * (
                bool(still) == (name in OF_THE_PAGE)
                or bool(still)
                and len(still.find_all(True)) < 10
            )
    assert n > 20
    fail_if(wrong, "No still picture, or an empty one:")


def test_the_readme_shows_two_figures():
    "They are files of the repository, so that GitHub shows them."
    shown = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert len(shown) == 2 and all((ROOT / path).is_file() for path in shown)


def test_every_chapter_leads_to_the_legend(soups):
    "At its end, with its notebook."
    links = {c: soups[f"{c}.html"].select(".notebook-links a") for c in CHAPTERS}
    lacking = [c for c in CHAPTERS if NOTATION not in {a["href"] for a in links[c]}]
    fail_if(lacking, f"No link to {NOTATION}:")


def test_glossary_and_chapters_lead_to_each_other(soups):
    "What a term lists is where it is linked from, place by place."
    there, back = set(), set()
    for chapter in BOOK:
        for link, anchor in links_to(soups, f"{chapter}.html", GLOSSARY):
            assert link["id"] == f"term-{anchor}", link
            assert (
                link.find_parent(["h1", "h2", "h3", "h4", "code", "pre", "table", "dl"]) is None
            ), link
            assert not link.find_parent(class_="cell"), link
            there.add((anchor, f"{chapter}.html#{link['id']}"))
    entries = soups[GLOSSARY].select("#glossary > section")
    for entry in entries:
        uses = ["#".join(landing(GLOSSARY, a["href"])) for a in entry.select(".back-links a")]
        assert uses == sorted(set(uses)), uses
        back |= {(entry["id"], use) for use in uses}
    assert there == back and len(entries) >= 140
    terms = [entry.h2.find(string=True) for entry in entries]
    assert terms == sorted(terms, key=str.lower), "not in the order of the alphabet"


NO_PROSE = set("h1 h2 h3 h4 code pre table dl blockquote script style summary".split())


def prose(tag: Tag, is_link: bool = False) -> Iterator[tuple[str, bool]]:
    """The texts below a tag in which terms are linked, each with whether it is such a link;
    the hue of a symbol is no border.
    """
    text = ""
    for child in tag.children:
        classes = set(child.get("class", [])) if isinstance(child, Tag) else set()
        if not isinstance(child, Tag) or any(one.startswith("sym-") for one in classes):
            text += child.get_text()
            continue
        yield text, is_link
        text = ""
        left_out = child.name in NO_PROSE or classes & {"cell", "katex", "notebook-links", "math"}
        other_link = child.name == "a" and "term" not in classes
        if not left_out and not other_link:
            yield from prose(child, is_link or "term" in classes)
    yield text, is_link


def test_a_term_is_linked_where_it_first_stands(soups):
    """Found again without Sphinx:
    no paragraph or list before the link holds one of the term's forms.
    """
    forms = {}
    for entry in soups[GLOSSARY].select("#glossary > section"):
        also = re.search(r"Also: (.+?)\.", entry.find_all("p")[-1].get_text())
        forms[entry["id"]] = [
            entry.h2.find(string=True).lower(),
            *(also[1].lower().split(", ") if also else []),
        ]
    every = sorted((form for some in forms.values() for form in some), key=len, reverse=True)
    word = re.compile(rf"(?<![\w-])(?:{'|'.join(map(re.escape, every))})(?![\w-])")
    owner = {form: anchor for anchor, some in forms.items() for form in some}
    for chapter in BOOK:
        found = [
            (owner[match[0]], is_link)
            for text, is_link in prose(soups[f"{chapter}.html"].article)
            for match in word.finditer(re.sub(r"\s+", " ", text).lower())
        ]
        first = {}
        for anchor, is_link in found:
            first.setdefault(anchor, is_link)
        assert [a for a, is_link in first.items() if not is_link] == [], chapter
        assert sum(is_link for _, is_link in found) == len(first), chapter


def test_references_and_chapters_lead_to_each_other(soups):
    "Each entry names the pages that cite it, and only those."
    there, back = set(), set()
    for name in [*(f"{c}.html" for c in BOOK), NOTATION]:
        there |= {(anchor, name) for _, anchor in links_to(soups, name, REFERENCES) if anchor}
    for entry in soups[REFERENCES].select("#references section section"):
        for a in entry.find_all("p", recursive=False)[-1].find_all("a"):
            page, anchor = landing(REFERENCES, a["href"])
            assert not anchor or soups[page].find(id=anchor), a["href"]
            back.add((entry["id"], page))
    assert there == back and len({anchor for anchor, _ in there}) >= 20


def test_the_bibtex_file_says_what_the_page_says(soups):
    "One entry per heading, in the same order, with its title and its address."
    bib = (DOCS / "references.bib").read_text(encoding="utf-8")
    entries = re.findall(r"^@(\w+)\{([\w-]+),\n((?:  \w+ = \{.*\},\n)+)\}$", bib, re.M)
    assert len(entries) == bib.count("@")
    shown = soups[REFERENCES].select("#references section section")
    assert len(entries) == len(shown)
    for (kind, key, body), entry in zip(entries, shown):
        fields = dict(re.findall(r"  (\w+) = \{(.*)\},", body))
        line = entry.p.get_text()
        assert (
            fields["title"].strip("{}").replace(r"\_", "_") in line
            and fields["url"] == entry.p.a["href"]
        ), key
        assert {"article": "journal", "inproceedings": "booktitle", "misc": "howpublished"}[
            kind
        ] in fields
        if "year" in fields:
            assert (
                fields["year"] in line
                and re.search(fields["year"] + "[a-z]?$", key)
                and fields["author"].split(" and ")[0].strip("{}") in line
            )
    years = [int(y) for y in re.findall(r"^  year = \{(\d+)\}", bib, re.M)]
    assert years == sorted(years), "not in the order of their years"


def test_bibtex_is_offered_for_download(soups):
    "On the page of the references."
    assert soups[REFERENCES].select_one('.notebook-links a[download][href="../references.bib"]')


# Mistakes that must not pass ----------------------------------------------------------------------

ENTRY = (
    "### Bee 1999\n\nAnn Bee, Cy Dee: **On Hives**. *Journal of Wax 7*, 1999. "
    "[doi:10/x](https://doi.org/10/x)\n\nWax."
)
CITE = f"See [Bee 1999]({citations.PAGE}#Bee-1999)."


def notebook(name: str, *cells: str) -> nbformat.NotebookNode:
    "A notebook as `load` in website/notebooks.py gives it."
    nb = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_markdown_cell(text, id=f"cell-{i}") for i, text in enumerate(cells)]
    )
    nb.metadata.book = nbformat.NotebookNode(name=name, title=cells[0][2:])
    return nb


def test_citations_are_listed_with_their_place():
    "Under the heading that stands before them, once for each heading."
    page = notebook(citations.PAGE, "# References", ENTRY)
    bib = citations.link_back(
        [
            notebook("00_a.ipynb", "# A", CITE, "## In `code`\n\nText.", CITE, CITE),
            notebook("01_b.ipynb", "# B", CITE),
            page,
        ]
    )
    assert page.cells[1].source.endswith(
        "\n\nCited in [A](<../00_a.ipynb>) · [A: In `code`](<../00_a.ipynb#In-code>) "
        "· [B](<../01_b.ipynb>)"
    )
    assert bib == (
        "@article{cell-1,\n  author = {Ann Bee and Cy Dee},\n  title = {{On Hives}},\n"
        "  journal = {Journal of Wax},\n  volume = {7},\n  year = {1999},\n  doi = {10/x},\n"
        "  url = {https://doi.org/10/x},\n}\n"
    )


@pytest.mark.parametrize(
    "names, said",
    [
        ("Ann Bee, Cy Dee, and others at a Lab", "Ann Bee and Cy Dee and others"),
        ("Ann Bee, and others", "Ann Bee and others"),
        ("Bee Team", "{Bee Team}"),
        ("Bee", "Bee"),
        ("PyTorch contributors", "{PyTorch contributors}"),
    ],
)
def test_bibtex_knows_who_wrote(names, said):
    """A list that is cut short ends with the one word that BibTeX has for it;
    a group is not cut into names.
    """
    page = notebook(citations.PAGE, "# References", ENTRY.replace("Ann Bee, Cy Dee", names))
    assert f"  author = {{{said}}},\n" in citations.link_back(
        [notebook("00_a.ipynb", "# A", CITE), page]
    )


@pytest.mark.parametrize(
    "cite, entry, complaint",
    [
        (
            CITE.replace("Bee-1999)", "Fly-1999)").replace("[Bee 1999]", "[this]"),
            ENTRY,
            "no entry “Fly-1999”",
        ),
        (CITE.replace("[Bee 1999]", "[Bee 1998]"), ENTRY, "“Bee 1998” leads to “Bee-1999”"),
        ("Nothing.", ENTRY, "never cited"),
        (CITE, ENTRY.replace("*, 1999", "*, 1998"), "“Bee 1999” is of 1998"),
        (CITE, ENTRY.replace("**On Hives**", "On Hives"), "expected the form"),
        (CITE, ENTRY.replace("\n\nWax.", ""), "expected the form"),
    ],
    ids=["no entry", "wrong words", "never cited", "wrong year", "no title", "no note"],
)
def test_a_broken_citation_fails_the_build(cite, entry, complaint):
    "With a message that says which."
    with pytest.raises(ValueError, match=re.escape(complaint)):
        citations.link_back(
            [notebook("00_a.ipynb", "# A", cite), notebook(citations.PAGE, "# References", entry)]
        )


def test_an_entry_may_stand_only_once():
    "Two would share an anchor."
    with pytest.raises(ValueError, match="a second entry"):
        citations.link_back(
            [
                notebook("00_a.ipynb", "# A", CITE),
                notebook(citations.PAGE, "# References", ENTRY, ENTRY),
            ]
        )


GOOD = {
    "index": "Home\n====\n\n.. toctree::\n\n   00_a\n   01_b\n   lookup/glossary\n",
    "00_a": "A mask\n======\n\nA ``mask``, `mask <https://x.org>`__, unmask, mask-like; "
    "then two *Masks* and one\nmask. A score\nfunction and a score.\n",
    "01_b": "B\n=\n\nThe mask.\n",
    "lookup/glossary": "Glossary\n========\n\nMask\n----\n\nIt hides a score.\n\n*Also: masks.*\n\n"
    "Metric\n------\n\nA distance.\n\n"
    "Score\n-----\n\nA number.\n\n*Elsewhere:* ``s``, *or metric.*\n\n"
    "Score function\n--------------\n\nIt scores.\n",
}


def render(folder: Path, sources: dict[str, str]) -> tuple[dict[str, BeautifulSoup], str]:
    "A small book with a glossary: its pages, and what Sphinx warned of."
    for name, text in sources.items():
        (folder / "src" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "src" / f"{name}.rst").write_text(text, encoding="utf-8")
    warned = io.StringIO()
    with patch_docutils(), docutils_namespace():
        Sphinx(
            folder / "src",
            None,
            folder / "out",
            folder / "tree",
            "html",
            {"extensions": ["glossary"]},
            status=None,
            warning=warned,
        ).build()
    return {
        name: BeautifulSoup(
            (folder / "out" / f"{name}.html").read_text(encoding="utf-8"), "html.parser"
        )
        for name in sources
    }, warned.getvalue()


def test_terms_are_linked_in_prose_only(tmp_path):
    """Whole words and given forms; the longest term first;
    not in code, headings or links; the first use only.
    """
    html, warned = render(tmp_path, GOOD)
    assert not warned
    links = html["00_a"].select("a.term")
    assert [(a.get_text().replace("\n", " "), a["href"], a["id"], a["title"]) for a in links] == [
        ("Masks", "lookup/glossary.html#mask", "term-mask", "It hides a score."),
        (
            "score function",
            "lookup/glossary.html#score-function",
            "term-score-function",
            "It scores.",
        ),
        ("score", "lookup/glossary.html#score", "term-score", "A number."),
    ]
    assert (
        html["00_a"]
        .p.get_text()
        .startswith("A mask, mask, unmask, mask-like; then two Masks and one\nmask. A score")
    )
    back = {
        section["id"]: [p.get_text() for p in section.find_all("p")][1:]
        for section in html["lookup/glossary"].select("section section")
    }
    assert back == {
        "mask": ["Also: masks. In A mask, B"],
        "metric": [],
        "score": ["Elsewhere: s, or metric.", "In A mask"],
        "score-function": ["In A mask"],
    }
    assert [a["href"] for a in html["lookup/glossary"].select("#mask .back-links a")] == [
        "../00_a.html#term-mask",
        "../01_b.html#term-mask",
    ]
    assert [a["href"] for a in html["lookup/glossary"].select("a.term")] == ["#score"]


@pytest.mark.parametrize(
    "old, new, complaint",
    [
        ("A number.", "", "Score: expected a paragraph"),
        ("*Also: masks.*", "*Also: masks.*\n\n*Elsewhere: m.*", "Mask: expected a paragraph"),
        ("*Also: masks.*", "*Also: score.*", "“score” stands under Mask and under Score"),
        ("*Also: masks.*", "*Or: masks.*", "Mask: expected a paragraph"),
    ],
    ids=["no definition", "wrong order", "form of two terms", "unknown line"],
)
def test_a_broken_term_fails_the_build(tmp_path, old, new, complaint):
    "Any warning does."
    glossary = GOOD["lookup/glossary"].replace(old, new, 1)
    assert glossary != GOOD["lookup/glossary"]
    assert complaint in render(tmp_path, GOOD | {"lookup/glossary": glossary})[1]


# What others call the same things -----------------------------------------------------------------

MODELS = dict(
    llama="Llama",
    mistral="Mistral",
    gpt2="GPT2",
    bert="Bert",
    t5="T5",
    bart="Bart",
    opt="OPT",
    deepseek_v3="DeepseekV3",
    deepseek_v32="DeepseekV32",
    gemma2="Gemma2",
    qwen3="Qwen3",
    gpt_oss="GptOss",
    mixtral="Mixtral",
)
OTHER_SOURCES = """transformers/training_args.py transformers/modeling_flash_attention_utils.py
    transformers/modeling_rope_utils.py transformers/tokenization_utils_base.py
    transformers/generation/*.py transformers/models/auto/*.py transformers/models/vit/*.py
    transformers/models/qwen3_next/*.py transformers/models/mamba2/*.py
    torch/nn/modules/*.py torch/nn/functional.py""".split()


def look_up(page: str, pattern: str) -> list[str]:
    "What the text of a page of nbs/lookup/ holds of a pattern."
    cells = nbformat.read(ROOT / f"nbs/lookup/{page}.ipynb", as_version=4).cells
    return re.findall(
        pattern, "\n\n".join(c.source for c in cells if c.cell_type == "markdown") + "\n", re.M
    )


def column(head: str, *places: int) -> list[list[str]]:
    "The code in these columns of the notation's table with this head, row by row."
    (table,) = look_up("notation", rf"^\| {re.escape(head)} \|.*\n\|[-|]+\n((?:\|.*\n)+)")
    return [
        re.findall(r"`(\w+)`", "|".join(row.split("|")[i] for i in places))
        for row in table.splitlines()
    ]


def test_keys_of_configs_exist():
    """Each is a key of a model's config;
    where transformers says that two mean the same, they stand in one row.
    """
    configs = [getattr(transformers, f"{name}Config")() for name in MODELS.values()]
    keys = {
        key
        for c in configs
        for part in (c.to_dict(), c.to_dict().get("rope_parameters", {}))
        for key in part
    }
    rows = column("here | key", 2, 3)
    row_of = {key: i for i, row in enumerate(rows) for key in row}
    assert len(row_of) == sum(map(len, rows)) >= 50
    fail_if(sorted(row_of.keys() - keys), "No config has:")
    same = {pair for c in configs for pair in c.attribute_map.items() if row_of.keys() >= set(pair)}
    assert len(same) >= 8
    fail_if(
        [pair for pair in sorted(same) if row_of[pair[0]] != row_of[pair[1]]],
        "One thing in two rows:",
    )


def test_names_in_libraries_exist():
    "What the glossary and the notation quote stands in the sources of PyTorch or transformers."
    site = Path(transformers.__file__).parent.parent
    patterns = [*OTHER_SOURCES, *(f"transformers/models/{name}/*.py" for name in MODELS)]
    sources = [
        path.read_text(encoding="utf-8") for pattern in patterns for path in site.glob(pattern)
    ]
    known = set(re.findall(r"\w+", "\n".join(sources)))
    elsewhere = "\n".join(look_up("glossary", r"^\*Elsewhere: (.*)"))
    plain = [*re.findall(r"`(\w+)`", elsewhere), *sum(column("here | `transformers`", 2), [])]
    dotted = re.findall(r"`(\w+\.[\w.]+)`", elsewhere)
    assert len(plain) > 100 and len(dotted) > 20
    fail_if(sorted(set(plain) - known), "Stands in no source:")
    for name in dotted:
        attrgetter(name)(
            SimpleNamespace(torch=torch, nn=torch.nn, F=torch.nn.functional, Tensor=torch.Tensor)
        )


# What a cell printed ------------------------------------------------------------------------------


def tags_of(
    text: str, code: str = "print(x)", ident: str = "show", **metadata: object
) -> list[str]:
    "The tags of a cell that printed this text."
    out = nbformat.v4.new_output("stream", text=text)
    cell = nbformat.v4.new_code_cell(code, id=ident, outputs=[out], metadata=metadata)
    notebooks.prepare(cell)
    return [*cell.metadata.tags, cell.metadata["mystnb"]["code_prompt_show"]]


def test_codes_in_reports_lead_to_the_catalogue(soups):
    "Each code that a page shows in a report, in text and in HTML; of two bugs that meet, each."
    gallery = "checks/gallery.html"
    told = re.findall(r"likely bug \[([\w.+]+)\]", soups[gallery].article.get_text())
    codes = [code for some in told for code in some.split("+")]
    assert (
        codes
        and [code for _, code in links_to(soups, gallery, "lookup/codes.html") if code in codes]
        == codes
    )
    both = codes_of.linked("<p>Likely bug <code>a.b+c.d</code>", "x.html")
    assert (
        both
        == '<p>Likely bug <code><a href="x.html#a.b">a.b</a>+<a href="x.html#c.d">c.d</a></code>'
    )


def test_a_long_output_is_folded():
    "Under a line that says how long it is; a shorter one is shown."
    assert tags_of("word\n" * 30) == ["Code"]
    assert tags_of("word\n" * 31) == ["hide-output", "31 lines of output"]


def test_a_check_is_one_line():
    """That says what holds; its output is folded with it.

    One that says nothing is folded if it is long.
    """
    lines = "\n".join(["pass"] * 31)
    assert tags_of("", lines) == ["Code"]
    assert tags_of("word", "#| check it holds\npass", "it-test") == [
        "check",
        "hide-cell",
        "it holds",
    ]
    assert tags_of("", "#| check it holds\npass", "it-test") == ["check", "hide-input", "it holds"]
    assert tags_of("", lines[:-5], "it-test") == ["check", "Code"]
    assert tags_of("word", lines, "it-test") == ["check", "hide-input", "31 lines of checks"]
    assert tags_of("word\n" * 40, lines, "it-test") == [
        "check",
        "hide-cell",
        "31 lines of checks, 40 lines of output",
    ]


def test_the_code_of_a_figure_is_folded():
    "Unless the author says that it is the point."
    drawing = nbformat.v4.new_output("display_data", {"text/html": '<figure class="drawing">'})
    for code, tags in {"show()": ["hide-input"], "#| code-fold: false\nshow()": []}.items():
        cell = nbformat.v4.new_code_cell(code, id="it-show", outputs=[drawing])
        assert notebooks.folded(cell) == bool(tags)
        notebooks.prepare(cell)
        assert cell.metadata.tags == ["figure", *tags]


def test_sentences_are_wrapped_and_columns_are_not():
    "A line that is cut off hides the likely bug; a line that is wrapped tears a matrix."
    assert "columns" not in tags_of(
        "check_attention(mine): 18 of 20 hold\n    likely bug: not scaled"
    )
    assert "columns" in tags_of("tensor([[0.1, 0.2],\n        [0.3, 0.4]])")
    assert "columns" in tags_of("scores   0.1  0.2\nweights  0.3  0.4")


def test_every_bug_shows_wrong_beside_right(soups):
    "Two tables of one size that differ, where zero has no paint."
    entries = [
        s
        for s in soups["checks/gallery.html"].select("section")
        if re.match(r"\d+\. ", s.find(["h2", "h3"]).get_text())
    ]
    assert len(entries) >= 16
    for entry in entries:
        wrong, right = (
            [(cell.get_text(), cell.get("style")) for cell in table.select("td")]
            for table in entry.select("figure.pair table")
        )
        assert len(wrong) == len(right) and wrong != right, entry["id"]
        assert not [cell for cell in wrong + right if cell[0] in ("0", "0.00", "×") and cell[1]], (
            entry["id"]
        )


@pytest.mark.parametrize("path", NOTEBOOKS, ids=place)
def test_what_is_folded_on_the_site_is_collapsed_in_jupyterlab(path):
    "By `make outputs`, so that one directive serves both."
    nb = nbformat.read(path, as_version=4)
    wrong = [
        cell.id
        for cell in nb.cells
        if cell.cell_type == "code"
        and cell.metadata.get("jupyter", {}).get("source_hidden", False) != notebooks.folded(cell)
    ]
    fail_if(wrong, f"{place(path)}: run `make outputs`; these cells are folded in one place only:")
    first = [
        (cell, cell.source.partition("\n")[0])
        for cell in nb.cells
        if cell.cell_type == "code" and notebooks.folded(cell)
    ]
    wrong = [
        f"{cell.id}: {line}"
        for cell, line in first
        if re.match(r"#\| (?!fold |code-summary:|check )", line)
    ]
    fail_if(
        wrong,
        (
            f"{place(path)}: there one sees the first line; "
            "let it be the one that says what is inside:"
        ),
    )


def test_words_name_symbols_in_the_story_alone():
    "Not in code, headings or formulas for ears, nor where they mean numbers or parameters."
    page = (
        "<h2>Keys</h2><p title='a key'>A <em>query</em> and values and gradients, "
        "random weights, weights.</p>"
        "<pre>keys</pre><code>values</code><script>value</script><td>keys</td>"
    )
    assert symbols.told(page) == page.replace("query", '<span class="sym-q">query</span>').replace(
        ", weights.", ', <span class="sym-w">weights</span>.'
    ).replace("<td>keys", '<td><span class="sym-k">keys</span>')
