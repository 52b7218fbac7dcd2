"""A Sphinx extension: the last section of a chapter, for users of the package,
is one line that opens.

In a notebook it is a heading like any other, collapsed in JupyterLab;
links that lead into it open it, as browsers do.
"""

from html import escape

from docutils import nodes
from sphinx.application import Sphinx

SECTION = "for-users-of-the-package"


def shut(app: Sphinx, doctree: nodes.document, page: str) -> None:
    "Put what stands below the heading behind a line that lists the headings within."
    for section in doctree.findall(nodes.section):
        if SECTION in section["ids"]:
            within = [
                part[0].astext() for part in section.children if isinstance(part, nodes.section)
            ]
            line = escape(" · ".join(within) or "Show")
            section.insert(
                1,
                nodes.raw(
                    "", f'<details class="fold users"><summary>{line}</summary>', format="html"
                ),
            )
            section.append(nodes.raw("", "</details>", format="html"))


def setup(app: Sphinx) -> dict[str, bool]:
    "Called by Sphinx."
    app.connect("doctree-resolved", shut)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
