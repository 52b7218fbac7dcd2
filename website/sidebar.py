"""A Sphinx extension: the groups of the sidebar fold.

The one of the page is open, and on a page of none, all chapters are.
"""

import re
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

from notebooks import PARTS

GROUP = re.compile(
    r'<p class="caption"[^>]*>(.*?)</p>\s*<ul( class="current")?>(.*?)\n</ul>'
    r'(?=\s*(?:<p class="caption"|</div>|$))',
    re.S,
)
CHAPTERS = [name for name, pages in PARTS.items() if any(page[0] in "[01" for page in pages)]


def folded(tree: str) -> str:
    "The list of pages with a fold for each group."
    current = 'class="current"' in tree

    def fold(found: re.Match) -> str:
        name = re.sub("<[^>]*>", "", found[1])
        is_open = found[2] or not current and name in CHAPTERS
        return (
            f'<details class="group"{" open" * bool(is_open)}>'
            f'<summary class="caption">{found[1]}</summary>'
            f"<ul{found[2] or ''}>{found[3]}\n</ul></details>"
        )

    return GROUP.sub(fold, tree)


def add_groups(
    app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    "Fold the groups of a page's sidebar, which Furo has made."
    context["furo_navigation_tree"] = folded(context.get("furo_navigation_tree", ""))


def setup(app: Sphinx) -> dict[str, bool]:
    "Called by Sphinx."
    app.connect("html-page-context", add_groups, priority=800)  # after Furo
    return {"parallel_read_safe": True, "parallel_write_safe": True}
