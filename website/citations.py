"""The references: one entry per heading of their page, cited by a link to that heading,
which works in JupyterLab too.

An entry has the form that the error message below shows. It is the only source: of what the page
shows, of the links back to where it is cited, and of `references.bib`. (A .bib file as the source
would have to be written into this notebook, cell by cell: JupyterLab goes to headings that stand
there, and to no others.)
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from nbformat import NotebookNode

PAGE = "lookup/references.ipynb"
FORM = (
    "### Name 2017\n\n"
    "Author, Author: **Title**. *Journal or proceedings*, 2017. [label](address)\n\n"
    "What the book takes from it."
)
ENTRY = re.compile(
    r"### (?P<key>[^\n]+)\n\n"
    r"(?P<authors>[^:\n]+): \*\*(?P<title>[^*\n]+)\*\*\.? \*(?P<venue>[^*\n]+)\*"
    r"(?:, (?P<year>\d{4}))?\. \[(?P<label>[^]\n]+)]\((?P<url>\S+)\)\n\n\S.+"
)
# From any folder.
CITATION = re.compile(r"\[([^]]+)]\([./]*(?:lookup/)?references\.ipynb#([^)\s]+)\)")


class Citation(NamedTuple):
    "One link to an entry."

    page: str  # the title of the page it stands on
    address: str  # and the link to its place
    cell: str
    words: str
    target: str  # the anchor of the entry


def anchor(heading: str) -> str:
    "The anchor that JupyterLab gives to a heading."
    return heading.replace("`", "").replace(" ", "-")


def entries(nb: NotebookNode) -> dict[str, tuple[NotebookNode, re.Match]]:
    "The entries by their anchors: the cell and its parts."
    found: dict[str, tuple[NotebookNode, re.Match]] = {}
    for cell in nb.cells:
        if not cell.source.startswith("### "):
            continue
        entry = ENTRY.fullmatch(cell.source)
        if entry is None:
            raise ValueError(f"cell {cell.id}: expected the form\n\n{FORM}\n\ngot\n\n{cell.source}")
        if entry["year"] and not entry["key"].endswith(entry["year"]):
            raise ValueError(f"cell {cell.id}: “{entry['key']}” is of {entry['year']}")
        if anchor(entry["key"]) in found:
            raise ValueError(f"cell {cell.id}: a second entry “{entry['key']}”")
        found[anchor(entry["key"])] = cell, entry
    return found


def citations(nbs: list[NotebookNode]) -> Iterator[Citation]:
    "The links to entries, in the order of the book; each with the heading that it stands under."
    for nb in nbs:
        page = address = None
        for cell in nb.cells:
            if cell.cell_type != "markdown" or nb.metadata.book.name == PAGE:
                continue
            for line in cell.source.split("\n"):
                if heading := re.match(r"(#+) (.+)", line):
                    top = len(heading[1]) == 1
                    page = heading[2] if top else f"{nb.metadata.book.title}: {heading[2]}"
                    address = f"../{nb.metadata.book.name}" + (
                        "" if top else f"#{anchor(heading[2])}"
                    )
                for words, target in CITATION.findall(line):
                    yield Citation(page, address, cell.id, words, target)


def link_back(nbs: list[NotebookNode]) -> str:
    "Add to each entry where it is cited; all entries as BibTeX."
    page = next(nb for nb in nbs if nb.metadata.book.name == PAGE)
    known = entries(page)
    cited: dict[str, dict[str, str]] = {key: {} for key in known}
    for use in citations(nbs):
        if use.target not in known:
            raise ValueError(f"{use.page}, cell {use.cell}: {PAGE} has no entry “{use.target}”")
        if re.search(r"\d{4}$", use.words) and use.words != known[use.target][1]["key"]:
            raise ValueError(f"{use.page}, cell {use.cell}: “{use.words}” leads to “{use.target}”")
        cited[use.target][use.address] = use.page
    for key, (cell, _) in known.items():
        if not cited[key]:
            raise ValueError(f"{PAGE}, cell {cell.id}: never cited")
        cell.source += "\n\nCited in " + " · ".join(
            f"[{page}](<{where}>)" for where, page in cited[key].items()
        )
    return "\n".join(bibtex(cell.id, entry) for cell, entry in known.values())


def authors(names: str) -> str:
    """The authors for LaTeX: a group is one name in braces; a list that is cut short ends with
    `others`, which BibTeX knows.
    """
    if re.search(r" contributors$| Team$|-AI$", names):
        return "{" + names + "}"
    return " and ".join(
        "others" if name.startswith("and others") else name for name in names.split(", ")
    )


def bibtex(ident: str, entry: re.Match) -> str:
    "One entry for LaTeX."
    title, volume = re.fullmatch(r"(.+?)(?: (\d+))?", entry["venue"]).groups()
    kind, holder = (
        ("article", "journal")
        if "Journal" in title
        else (
            ("inproceedings", "booktitle")
            if re.match("Advances|Proceedings|International Conference|Neurocomputing", title)
            else ("misc", "howpublished")
        )
    )
    scheme, _, number = entry["label"].partition(":")
    fields = {
        "author": authors(entry["authors"]),
        "title": "{" + entry["title"].replace("_", r"\_") + "}",
        holder: title,
        "volume": volume,
        "year": entry["year"],
        **({"eprint": number, "archiveprefix": "arXiv"} if scheme == "arXiv" else {}),
        **({"doi": number} if scheme == "doi" else {}),
        "url": entry["url"],
    }
    lines = (f"  {name} = {{{value}}},\n" for name, value in fields.items() if value)
    return f"@{kind}{{{ident},\n{''.join(lines)}}}\n"
