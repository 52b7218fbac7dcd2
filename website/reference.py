"""A Sphinx extension: the package's own way of documenting itself, read by Sphinx.

- A comment beside each parameter (docments) becomes the list of parameters.
- Inline code that is the name of something the package exports becomes a link to its description.
- Everything a module exports must have a description.
"""

import inspect
import re
import sys
from collections.abc import Iterator
from functools import cache
from typing import Any

from docutils import nodes
from fastcore.docments import docments
from nbdev_docstrings import ADDED
from sphinx.addnodes import desc, pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util import logging, rst

logger = logging.getLogger(__name__)


def slug(heading: str) -> str:
    "The anchor that JupyterLab gives to a heading, so that one link serves both."
    return heading.replace(" ", "-")


def escape(text: str) -> str:
    "Text as reStructuredText reads it back: only `code` is markup."
    return "".join(
        part if i % 2 else rst.escape(part) for i, part in enumerate(re.split("(`[^`]+`)", text))
    )


def describe(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Write the docstring that autodoc is about to read:
    the sentence, then parameters and result from docments.
    """
    if what == "module":
        lines.clear()  # the chapter has said it
        return
    lines[:] = [escape(line) for line in ADDED.sub("", "\n".join(lines)).splitlines()]
    if rows := list(parameters(obj)) if callable(obj) else []:
        lines += ["", ".. list-table::", "   :class: params", "   :stub-columns: 1", ""]
        lines += [
            f"   {'  -' if column else '* -'} {cell}"
            for row in rows
            for column, cell in enumerate(row)
        ]


def parameters(obj: Any) -> Iterator[tuple[str, str, str]]:
    "One row for each parameter and one for the result: name, type with default, meaning."
    none = inspect.Parameter.empty
    for param, about in docments(obj, full=True, returns=True).items():
        if param == "self" or (
            param == "return" and (inspect.isclass(obj) or about.anno in (none, "None"))
        ):
            continue
        default = about.get("default", none)
        kind = "" if about.anno is none else str(about.anno)
        if default is not none:
            kind += f" = {default!r}"
        yield (
            "*returns*" if param == "return" else f"`{param}`",
            kind and f"`{kind}`",
            escape(about.docment or ""),
        )


@cache
def names(env: BuildEnvironment) -> dict[str, str]:
    """What is described, by all names that a text may call it;
    asked for when all pages have been read.
    """
    objects, modules = env.domains["py"].objects, env.domains["py"].modules
    known = {full: full for full in objects}
    for full in [full for full in objects if full not in modules]:
        module = max((m for m in modules if full.startswith(f"{m}.")), key=len)
        name = full.removeprefix(f"{module}.")
        known.setdefault(name, full)
        # unless it is a module: `attention_nb.softmax`
        known.setdefault(f"{module.partition('.')[0]}.{name}", full)
    return known


class LinkNames(SphinxPostTransform):
    "Turn `softmax` in the text into a link, when the package exports that name."

    default_priority = 5  # before references are resolved

    def run(self, **kwargs: Any) -> None:
        known = names(self.env)
        for code in list(self.document.findall(nodes.literal)):
            target = known.get(code.astext().removesuffix("()"))
            around = list(ancestors(code))
            described = {
                i for node in around if isinstance(node, desc) for i in node[0].get("ids", [])
            }
            linked = any(isinstance(node, (nodes.reference, nodes.title)) for node in around)
            if target and target not in described and not linked:
                xref = pending_xref(
                    "",
                    refdomain="py",
                    reftype="obj",
                    reftarget=target,
                    refexplicit=True,
                    refdoc=self.env.docname,
                )
                code.replace_self(xref)
                xref += code


def ancestors(node: nodes.Node) -> Iterator[nodes.Node]:
    "The nodes around `node`, from the inside out."
    while node := node.parent:
        yield node


def all_described(app: Sphinx, env: BuildEnvironment) -> None:
    "Warn of exported names that autodoc passed over, such as constants without a description."
    objects = env.domains["py"].objects
    read = [
        full for full, entry in objects.items() if entry.objtype == "module" and full in sys.modules
    ]
    for module in read:  # in this build; the pages that are kept were in order when they were read
        for name in sys.modules[module].__all__:
            if f"{module}.{name}" not in objects:
                logger.warning("%s.%s is exported but has no docstring", module, name)


def setup(app: Sphinx) -> dict[str, bool]:
    "Called by Sphinx."
    app.connect("autodoc-process-docstring", describe)
    app.connect("env-check-consistency", all_described)
    app.add_post_transform(LinkNames)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
