"""Sphinx's settings for the book.

`build.py` calls Sphinx and adds what is made anew for each build.
"""

import shutil
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path

SITE = Path(__file__).resolve().parent
sys.path.insert(0, str(SITE))

import sphinxcontrib.katex as katex
from docutils import nodes
from myst_nb.sphinx_ import HideCodeCellNode
from sphinx.application import Sphinx
from sphinx.highlighting import PygmentsBridge
from sphinx.util import logging
from sphinx.writers.html5 import HTML5Translator

from heads import ShortHeads
from notebooks import settings
from source import linkcode_resolve  # noqa: F401 (sphinx.ext.linkcode calls it)
from stills import NODE

logger = logging.getLogger("book")
book = settings(SITE.parent)
package = book["lib_path"]

project = book["title"]
author = book["author"]
copyright = book["copyright"]  # written out: a year taken from the clock would change the pages
version = release = book["version"]
language = "en"

# `build.py --epub` sets the tag: one file for readers of books, or a site.
one_file = "epub" in tags  # noqa: F821 (Sphinx gives it)
extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinxcontrib.katex",
    "reference",
    "glossary",
    "aside",
]
of_a_site = [
    "sphinx.ext.linkcode",
    "sphinx_copybutton",
    "source",
    "heads",
    "head",
    "codes",
    "symbols",
    "sections",
    "cards",
    "machine",
    "sidebar",
    "lean",
    "kept",
]
extensions += ["epub"] if one_file else of_a_site
templates_path = [] if one_file else ["templates"]
smartquotes = False  # the text says what it means, also in `--option`

# The notebooks: CommonMark and dollar math, which JupyterLab shows too.
# Outputs are shown as they were saved.
nb_execution_mode = "off"
nb_render_markdown_format = "myst"  # outputs in Markdown may hold tables
nb_merge_streams = True
myst_enable_extensions = ["dollarmath"]
myst_dmath_double_inline = True
myst_heading_anchors = 4
myst_heading_slug_func = "reference.slug"

# The reference: in the order of the source; types and defaults are in the list of parameters.
autodoc_member_order = "bysource"
autodoc_typehints = "none"
autodoc_preserve_defaults = True
add_module_names = False  # one page, one module
default_role = "literal"  # docstrings use single backquotes, as Markdown does
toc_object_entries = False  # the list beside a page has its headings, and no names

# Math is turned into HTML here, and what KaTeX does not understand is an error.
# Node is a wheel like all the rest.
katex.NODEJS_BINARY = NODE
katex.KATEX_DEFAULT_OPTIONS = {"throwOnError": True, "strict": "ignore"}
# A busy machine may take longer than the usual 5 seconds.
katex.STARTUP_TIMEOUT = katex.RENDER_TIMEOUT = 60


def start_katex(rundir: Path, timeout: float) -> tuple[subprocess.Popen, socket.socket]:
    """Start what makes the HTML, and connect as soon as it listens: its file is there a moment
    before, when nobody answers yet.
    """
    path, until = rundir / "katex.sock", time.monotonic() + timeout
    process = subprocess.Popen(katex.KaTeXServer.build_command(socket=path), cwd=rundir)
    while time.monotonic() < until:
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.connect(str(path))
            return process, connection
        except OSError:
            connection.close()
            time.sleep(0.01)
    process.kill()
    raise katex.KaTeXServer.timeout_error(timeout)


# KaTeX's own way fails when nobody listens yet. Over a port, as on Windows,
# each formula waits for packets, 80 ms.
katex.KaTeXServer.start_server_process = start_katex
katex_prerender = True


def forget(app: Sphinx, exception: Exception | None) -> None:
    """Delete what KaTeX wrote; after a failure it is asked to once more,
    and must not hide the failure.
    """
    shutil.rmtree(app._katex_static_path, ignore_errors=True)


katex.builder_finished = forget


def with_place(visit: Callable) -> Callable:
    """Tell in which page and line KaTeX gave up;
    it is a warning like others then, and all are told at once.
    """

    def visit_math(self: HTML5Translator, node: nodes.Element) -> None:
        try:
            visit(self, node)
        except katex.KaTeXError as e:
            logger.warning("%s", e, location=node)
            raise nodes.SkipNode from None

    return visit_math


katex.html_visit_math, katex.html_visit_displaymath = map(
    with_place, (katex.html_visit_math, katex.html_visit_displaymath)
)
katex_css_path = "katex/katex.min.css"
if katex.katex_version not in (SITE / "static" / katex_css_path).read_text(encoding="utf-8"):
    raise RuntimeError(
        f"website/static/katex must be of the version that makes the HTML: {katex.katex_version}"
    )

html_theme = "furo"
html_title = project
html_favicon = str(SITE / "static" / "icon.svg")
html_css_files = ["book.css", "drawing.css", "pair.css"]
html_js_files = ["book.js", "catalogue.js"]
html_copy_source = html_show_sourcelink = False
html_additional_pages = {} if one_file else {"search": "search.html"}
html_domain_indices = False  # one index, of names; the modules are the chapters
html_baseurl = (
    book["doc_host"] and f"{book['doc_host']}/{book['doc_baseurl'].strip('/')}".rstrip("/") + "/"
)
html_theme_options = {"top_of_page_buttons": []}
if book["git_url"]:
    html_theme_options = {
        "source_repository": book["git_url"],
        "source_branch": book["branch"],
        "source_directory": f"{book['nbs_path']}/",
    }

epub_title = f"{project}: {book['description']}"
epub_description = book["description"]
epub_publisher = epub_contributor = author
# By it a reader knows a new edition.
epub_identifier = uuid.uuid5(uuid.NAMESPACE_DNS, book["lib_name"]).urn
epub_uid = "book"
epub_cover = ("_static/cover.png", "epub-cover.html")
epub_css_files = ["reading.css"]
epub_show_urls = "no"
epub_tocscope = "includehidden"
epub_tocdepth, epub_tocdup = 2, False
pygments_style, pygments_dark_style = "ink.Day", "ink.Night"

PygmentsBridge.html_formatter = ShortHeads
copybutton_selector = "div:not(.output) > div.highlight > pre"  # what was printed is not to be run


def fold(self: HTML5Translator, node: nodes.Element) -> None:
    """Begin folded code.

    Myst-nb's own form names every fold `Toggle hidden content`, whatever its summary says.
    """
    self.body.append(
        f'<details class="fold"><summary>{self.encode(node["prompt_show"])}</summary>\n'
    )


def unfold(self: HTML5Translator, node: nodes.Element) -> None:
    "End folded code."
    self.body.append("</details>\n")


def setup(app: Sphinx) -> None:
    "Called by Sphinx, after the extensions."
    app.add_node(HideCodeCellNode, override=True, html=(fold, unfold))
