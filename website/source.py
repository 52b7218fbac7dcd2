"""A Sphinx extension: what surrounds the pages of source code that `sphinx.ext.viewcode` writes.

Viewcode gives each described name a link to its source, and each definition a link back. Here the pages get a heading
and a description like the others, and a link to the chapter that explains the code.
"""
import re
from html import escape
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

INDEX = "_modules/index"
BACK = re.compile(r'(<a class="viewcode-back" href="[^"#]*#([^"]*))">\[docs\]</a>\n')


def title(app: Sphinx, docname: str) -> str:
    "The title of a page, as text."
    return app.env.titles[docname].astext()


def link(app: Sphinx, page: str, to: str, text: str) -> str:
    "A link from one page to another."
    return f'<a href="{app.builder.get_relative_uri(page, to)}">{escape(text)}</a>'


def index(app: Sphinx) -> dict[str, str]:
    "The list of the source pages, in the order of the book."
    shown = getattr(app.env, "_viewcode_modules", {})  # a module of tables alone has no page of source
    modules = sorted(((name, m) for name, m in app.env.domains["py"].modules.items() if shown.get(name)),
                     key=lambda item: item[1].docname)
    lines = [f"<li>{link(app, INDEX, '_modules/' + name.replace('.', '/'), name)}: {escape(title(app, m.docname))}</li>"
             for name, m in modules]
    return {"title": "Source", "about": "The source of every module of the package.",
            "body": "<h1>Source</h1>\n<p>The package, module by module, as it is installed.</p>\n"
                    f"<ul>\n{chr(10).join(lines)}\n</ul>"}


def module(app: Sphinx, page: str, body: str) -> dict[str, str]:
    "The source of one module."
    name = page.removeprefix("_modules/").replace("/", ".")
    chapter = app.env.domains["py"].modules[name].docname
    start, code, end = re.split(r"(?<=<pre>)|(?=</pre>)", body.partition("</h1>")[2])
    code = BACK.sub(r'\1" aria-label="docs of \2">docs</a>', code)
    code = code.replace("<div class=", "<span class=").replace("</div>", "</span>")  # a <pre> may hold no <div>
    return {"title": f"Source of {name}", "about": f"The source of {name}, from the chapter {title(app, chapter)}.",
            "body": f"<h1>Source of {escape(name).replace('.', '.<wbr>')}</h1>\n"
                    f"<p>What the chapter {link(app, page, chapter, title(app, chapter))} exports, as it is installed. "
                    f"{link(app, page, INDEX, 'All modules')}</p>\n{start}{code}{end}"}


def surround(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: nodes.document) -> None:
    "Give a page of viewcode's its heading, description and links."
    if pagename.startswith("_modules/"):
        context.update(index(app) if pagename == INDEX else module(app, pagename, context["body"]))


def setup(app: Sphinx) -> dict[str, bool]:
    "Called by Sphinx."
    app.connect("html-page-context", surround)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
