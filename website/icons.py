"""A Sphinx extension: Furo's icons as a style, `_static/icons.css`. Furo writes all of them into every page, 6 kB.

A page from a disk may not take them from another file as symbols; as masks of a style it may. So they still have the colour of text.
"""
import re
from pathlib import Path
from urllib.parse import quote

import furo
from sphinx.application import Sphinx

SHEET = Path(furo.__file__).with_name("theme") / "furo/partials/icons.html"
SYMBOL = re.compile(r'<symbol id="svg-([\w-]+)"[^>]*>\s*(?:<title>(.*?)</title>)?\s*<svg(?: xmlns="[^"]*")?(.*?</svg>)', re.S)
USE = re.compile(r'<svg(?: class="([\w -]+)")?><use href="#svg-([\w-]+)"></use></svg>')
FOUND = {name: (title, drawing) for name, title, drawing in SYMBOL.findall(SHEET.read_text(encoding="utf-8"))}


def icons(html: str) -> str:
    "The page with an empty picture in the place of each that it takes from Furo's sheet; what the mouse is told stays."
    def masked(found: re.Match) -> str:
        title = FOUND[found[2]][0]
        return f'<svg class="{" ".join(filter(None, (found[1], f"icon-{found[2]}")))}">{title and f"<title>{title}</title>"}</svg>'
    return USE.sub(masked, html)


def rules() -> str:
    "The style: what is not masked out has the colour of the text around it."
    boxes = ", ".join(f".icon-{name}" for name in FOUND)
    masks = (f'.icon-{name} {{ --mask: url("data:image/svg+xml,{quote(drawn(name), safe=" =:/,")}"); }}\n' for name in FOUND)
    return (f"{boxes} {{ background: currentColor; -webkit-mask: var(--mask) center / contain no-repeat; mask: var(--mask) center / contain no-repeat; }}\n"
            f"@media (forced-colors: active) {{ {boxes} {{ forced-color-adjust: none; background: CanvasText; }} }}\n{''.join(masks)}")


def drawn(name: str) -> str:
    "An icon as a file of its own, in one line."
    return " ".join(f'<svg xmlns="http://www.w3.org/2000/svg"{FOUND[name][1]}'.replace('"', "'").split())


def begin(app: Sphinx) -> None:
    "Write the style, and let templates call `icons`."
    path = Path(app.outdir) / "_static/icons.css"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(rules(), encoding="utf-8", newline="\n")
    app.builder.templates.environment.filters["icons"] = icons


def setup(app: Sphinx) -> dict[str, bool]:
    "Called by Sphinx."
    app.add_css_file("icons.css")
    app.connect("builder-inited", begin)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
