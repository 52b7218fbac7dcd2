"""A Sphinx extension: in a report, the code of a bug leads to its line in the catalogue."""

import re
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

CATALOGUE = "lookup/codes"
TOLD = re.compile(r"(?<=likely bug \[)[\w.+]+|(?<=Likely bug <code>)[\w.+]+")  # as text and as HTML


def linked(body: str, address: str) -> str:
    "The page with each code in its reports a link; of several that meet, each its own."

    def links(found: re.Match) -> str:
        return "+".join(f'<a href="{address}#{code}">{code}</a>' for code in found[0].split("+"))

    return TOLD.sub(links, body)


def link(
    app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    "Link the codes on a page, if the catalogue is in this book."
    if CATALOGUE in app.env.found_docs:
        context["body"] = linked(
            context.get("body", ""), app.builder.get_relative_uri(page, CATALOGUE)
        )


def setup(app: Sphinx) -> dict[str, bool]:
    "Called by Sphinx."
    app.connect("html-page-context", link)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
