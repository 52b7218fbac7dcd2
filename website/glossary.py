"""A Sphinx extension: links between the chapters and the glossary, both ways.

The glossary is a notebook of its own: a heading per term, a paragraph that defines it,
`*Elsewhere: …*` with the names that others give it, and `*Also: …*` with its other forms. The
chapters hold no markup for it. When a page is written, the first use of each term becomes a link to
its definition, and below each definition stand links back.
"""

import functools
import re
from collections.abc import Iterator
from typing import NamedTuple

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util import logging

logger = logging.getLogger(__name__)
PAGE = "lookup/glossary"
# The paragraphs of an entry.
ENTRY = re.compile(
    r"(?!Also: |Elsewhere: )(?P<meaning>(?:.|\n(?!\n))+)"
    r"(?:\n\nElsewhere: (?:.|\n(?!\n))+)?(?:\n\nAlso: (?P<also>.+)\.)?"
)

# Where a word is not prose, is a link already, or is only quoted.
NOT_PROSE = (
    nodes.title,
    nodes.reference,
    addnodes.pending_xref,
    nodes.literal,
    nodes.literal_block,
    nodes.math,
    nodes.math_block,
    nodes.raw,
    nodes.comment,
    nodes.table,
    nodes.block_quote,
    addnodes.desc,
)


class Term(NamedTuple):
    "One entry of the glossary."

    name: str
    forms: list[str]  # the name first; in small letters
    meaning: str
    section: nodes.section  # in the glossary's own document

    @property
    def anchor(self) -> str:
        "Its place in the glossary, and, after `term-`, the place of its first use in a chapter."
        return self.section["ids"][0]


def terms(glossary: nodes.document) -> list[Term]:
    "What the glossary defines. A mistake in its form is a warning, and so fails the build."
    found, owner = [], {}
    for section in glossary.findall(
        lambda n: isinstance(n, nodes.section) and isinstance(n.parent, nodes.section)
    ):
        name, said = (
            section[0].astext(),
            [n.astext() for n in section[1:] if isinstance(n, nodes.paragraph)],
        )
        match = ENTRY.fullmatch("\n\n".join(said))
        if not match:
            logger.warning(
                (
                    "glossary: %s: expected a paragraph, then `*Elsewhere: …*`, "
                    "then `*Also: …*`, or less"
                ),
                name,
            )
            continue
        others = match["also"].split(", ") if match["also"] else []
        found.append(
            Term(name, [form.lower() for form in (name, *others)], match["meaning"], section)
        )
        for form in found[-1].forms:
            if form in owner:
                logger.warning(
                    "glossary: “%s” stands under %s and under %s", form, owner[form], name
                )
            owner[form] = name
    return found


def prose(root: nodes.Element) -> Iterator[nodes.Text]:
    "The texts below `root` in which a term may be linked, in order."
    for text in root.findall(nodes.Text):
        node = text.parent
        while (
            node is not None
            and not isinstance(node, NOT_PROSE)
            and "cell" not in node.get("classes", [])
        ):
            node = node.parent
        if node is None:
            yield text


def first_uses(
    root: nodes.Element, known: list[Term]
) -> Iterator[tuple[nodes.Text, list[tuple[re.Match, Term]]]]:
    "The texts that use a term for the first time, each with the places and the terms."
    by_form = {form: term for term in known for form in term.forms}
    longest_first = sorted(by_form, key=len, reverse=True)
    either = "|".join(re.escape(form).replace("\\ ", r"\s+") for form in longest_first)
    # in small letters: where both kinds are the same, `re` takes three times as long
    pattern = re.compile(rf"(?<![\w-])(?:{either})(?![\w-])")
    seen = set()
    for text in prose(root) if by_form else ():
        uses = []
        for match in pattern.finditer(text.astext().lower()):
            term = by_form[re.sub(r"\s+", " ", match[0])]
            if term.name not in seen:
                seen.add(term.name)
                uses.append((match, term))
        if uses:
            yield text, uses


def link(root: nodes.Element, known: list[Term], glossary: str, place: bool) -> None:
    """Make the first use of each term below `root` a link into the page `glossary`;
    with `place`, also a target.
    """
    for text, uses in list(first_uses(root, known)):
        whole, parts, end = text.astext(), [], 0
        for match, term in uses:
            parts += [
                nodes.Text(whole[end : match.start()]),
                nodes.reference(
                    "",
                    whole[match.start() : match.end()],
                    internal=True,
                    refuri=f"{glossary}#{term.anchor}",
                    reftitle=term.meaning,
                    classes=["term"],
                    ids=[f"term-{term.anchor}"] if place else [],
                ),
            ]
            end = match.end()
        text.parent.replace(
            text, [part for part in (*parts, nodes.Text(whole[end:])) if part.astext()]
        )


SOURCES = "lookup/references"


@functools.cache  # a page is written when all have been read
def first_lines(env: BuildEnvironment) -> dict[str, str]:
    "The paragraph that each entry of the references begins with."
    sections = env.get_doctree(SOURCES).findall(nodes.section)
    return {
        i: next(section.findall(nodes.paragraph)).astext()
        for section in sections
        for i in section["ids"]
    }


@functools.cache
def defined(env: BuildEnvironment) -> list[Term]:
    "What the glossary defines, for the pages that link to it."
    return terms(env.get_doctree(PAGE))


class ExplainSources(SphinxPostTransform):
    "Give each citation the first lines of its source, as its title."

    default_priority = 11  # when links are resolved
    formats = ("html",)

    def run(self, **kwargs: object) -> None:
        if self.env.docname == SOURCES or SOURCES not in self.env.found_docs:
            return
        about, address = (
            first_lines(self.env),
            self.app.builder.get_relative_uri(self.env.docname, SOURCES),
        )
        for ref in self.document.findall(nodes.reference):
            page, _, anchor = ref.get("refuri", "").partition("#")
            if page == address and anchor:
                ref["reftitle"] = about.get(anchor, "")


def chapters(env: BuildEnvironment) -> list[str]:
    "The pages whose words the glossary explains: the chapters, and all about the checks."
    return sorted(
        name for name in env.found_docs if name[0].isdigit() or name.startswith("checks/")
    )


class LinkTerms(SphinxPostTransform):
    "Link the chapters to the glossary, and the glossary to the chapters."

    default_priority = 4  # before anything else makes links
    formats = ("html",)

    def run(self, **kwargs: object) -> None:
        here = self.env.docname
        if here == PAGE:
            self.link_back()
        elif here in chapters(self.env) and PAGE in self.env.found_docs:
            link(self.document, defined(self.env), self.uri(PAGE), place=True)

    def uri(self, page: str) -> str:
        "The way from this page to another."
        return self.app.builder.get_relative_uri(self.env.docname, page)

    def link_back(self) -> None:
        "Below each definition, the chapters that use the term."
        known = terms(self.document)
        used: dict[str, list[str]] = {term.name: [] for term in known}
        for chapter in chapters(self.env):
            for _, uses in first_uses(self.env.get_doctree(chapter), known):
                for _, term in uses:
                    used[term.name].append(chapter)
        for term in known:
            # the paragraph
            link(term.section[1], [other for other in known if other is not term], "", place=False)
            if used[term.name]:
                self.list_uses(term, used[term.name])

    def list_uses(self, term: Term, used: list[str]) -> None:
        """After the other forms of a term, as a line of its own:
        “In Softmax, Masks”, links to the first uses.
        """
        if len(term.forms) == 1:
            term.section.append(nodes.paragraph())
        line = term.section[-1]
        line["classes"].append("back-links")
        line.append(nodes.Text(" In " if len(line) else "In "))
        for i, chapter in enumerate(used):
            line.append(nodes.Text(", " if i else ""))
            line.append(
                nodes.reference(
                    "",
                    self.env.titles[chapter].astext(),
                    internal=True,
                    refuri=f"{self.uri(chapter)}#term-{term.anchor}",
                )
            )


def setup(app: Sphinx) -> dict[str, bool]:
    "Called by Sphinx."
    app.add_post_transform(LinkTerms)
    app.add_post_transform(ExplainSources)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
