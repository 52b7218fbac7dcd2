"""From nbdev notebooks to the notebooks that Sphinx renders, and to README.md."""

import ast
import json
import re
from configparser import ConfigParser
from copy import deepcopy
from fnmatch import fnmatch
from html import escape
from itertools import takewhile
from pathlib import Path

import nbformat
from nbconvert import MarkdownExporter
from nbdev.process import extract_directives
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell
from traitlets.config import Config

import citations
from charts import figure, first_state, text, views
from stills import OF_THE_PAGE, NotDrawn, still

CHART, DRAWING, PAIR = (
    "application/vnd.vegalite.v5+json",
    '<figure class="drawing"',
    '<figure class="pair"',
)
# Of a model that a drawing runs.
WEIGHTS = re.compile(
    r'<script type="text/plain" class="weights" data-name="(\w+)">([^<]*)</script>'
)
# What a drawing or a pair needs away from the site.
ALONE = re.compile(r"<style>.*?</style>\s*(<script>\(\(\) =>.*?</script>)?", re.S)
ROOT, HOME = Path(__file__).resolve().parents[1], "index.ipynb"
BEGIN = ROOT / "website/begin.js"
NOTATION = "lookup/notation.html"
# Shut or open folds; book.js makes it work.
DEPTH = (
    '<span class="depth" role="group" aria-label="Code">Code: <button type="button">hidden</button>'
    '<button type="button">shown</button></span>'
)
PARTS = {  # of the table of contents; a page stands in the first part that it fits
    "I Attention": ["0[0-5]_*"],
    "II A model that learns": ["0[6-9]_*"],
    "III As models run it": ["1[0-7]_*"],
    "IV In the world": ["[1-9][0-9]_*"],
    "Check yours": ["checks/index", "checks/[!i]*"],
    "Look it up": ["lookup/*", "genindex"],
    "Figures and tools": ["figures/*", "tools/*"],
}
WITHIN = {"Figures and tools": "lookup/api.ipynb"}  # below a page: not for readers
LONG = 30  # lines; what prints more is folded, and so is a check that has more
HEADING = re.compile(r"^#+ ", re.M)
GUARDS = re.compile(r"(A |Its )?[Gg]uards?\b")  # folds that a story leaves out
DIRECTIVES = {
    "default_exp",
    "needs",
    "hide",
    "export",
    "exporti",
    "exports",
    "notest",
    "fold",
    "check",
    "echo:",
    "output:",
    "eval:",
    "code-fold:",
    "code-summary:",
}


class BadNotebook(Exception):
    "What is wrong with a notebook, in words for the person who has to mend it."


def settings(root: Path) -> dict[str, str]:
    "What settings.ini says: the one place for names, versions and addresses."
    config = ConfigParser()
    config.read(root / "settings.ini", encoding="utf-8")
    return dict(config.defaults())


# One cell -----------------------------------------------------------------------------------------


def directives(cell: NotebookNode) -> dict[str, str]:
    "The `#|` lines at the top of a cell, which are taken off it."
    found = {
        name: " ".join(args).strip("\"'")
        for name, args in extract_directives(cell, remove=False).items()
    }
    if unknown := found.keys() - DIRECTIVES:
        raise BadNotebook(f"cell {cell.id}: no such directive: #| {', '.join(sorted(unknown))}")
    if "fold" in found:  # for exported cells: without a colon, nbdev keeps it out of the package
        found |= {"code-fold:": "true", "code-summary:": found.pop("fold")}
    while re.match(r"\s*#\s*\|", cell.source):
        cell.source = cell.source.partition("\n")[2]
    return found


def printed(cell: NotebookNode) -> str:
    "The plain text that a cell shows."
    outs = ((out.get("text", ""), out.get("data", {})) for out in cell.get("outputs", []))
    return "\n".join(
        said or shown.get("text/plain", "") for said, shown in outs if said or len(shown) == 1
    )


def holds(out: NotebookNode, *marks: str) -> bool:
    "Whether an output holds a figure that begins with one of these marks."
    return any(mark in "".join(out.get("data", {}).get("text/html", "")) for mark in marks)


def shows_figure(cell: NotebookNode) -> bool:
    "Whether a cell shows something to look at: then its code is not the point."
    return any(
        CHART in out.get("data", {}) or holds(out, DRAWING, PAIR) for out in cell.get("outputs", [])
    )


def fold(cell: NotebookNode, said: dict[str, str], text: str) -> tuple[set[str], str]:
    """Which parts of a code cell that printed `text` are folded, as tags;
    and the line that unfolds them.
    """
    if cell.id.endswith("-solution"):
        return {"hide-cell"}, said.get("code-summary:", "Code")
    code, output = len(cell.source.splitlines()), len(text.splitlines())
    figure, checks = (
        shows_figure(cell),
        cell.id.endswith("-test") and ("check" in said or code > LONG),
    )
    asked = said.get("code-fold:") == "true"
    line = said.get("check") or said.get("code-summary:") or "The code of this figure" * figure
    hidden = {
        "hide-input": figure or checks or asked,
        "hide-output": output > LONG or bool(text) and "check" in said and not figure,
    }
    if said.get("code-fold:") == "false":
        hidden["hide-input"] = False
    tags = {tag for tag, folded in hidden.items() if folded}
    lines = [f"{code} lines of checks"] * checks + [f"{output} lines of output"] * (output > LONG)
    return {"hide-cell"} if len(tags) == 2 else tags, line or ", ".join(lines) or "Code"


def folded(cell: NotebookNode) -> bool:
    "Whether the code of a cell is folded."
    cell = deepcopy(cell)
    said = directives(cell)
    hidden = said.get("echo:") == "false" or "default_exp" in said
    return not hidden and not fold(cell, said, printed(cell))[0].isdisjoint(
        {"hide-input", "hide-cell"}
    )


def imports_alone(source: str) -> bool:
    "Whether code does nothing but import: a story leaves it out."
    try:
        return all(isinstance(line, ast.Import | ast.ImportFrom) for line in ast.parse(source).body)
    except SyntaxError:  # a line for IPython
        return False


def prepare(cell: NotebookNode) -> dict[str, str]:
    """Say a code cell's directives in the words of myst-nb and nbconvert,
    which are tags; the directives.
    """
    said = directives(cell)
    text = printed(cell)
    tucked, prompt = fold(cell, said, text)
    tags = {
        "remove-cell": "hide" in said or "default_exp" in said or not cell.source.strip(),
        "remove-input": said.get("echo:") == "false",
        "remove-output": said.get("output:") == "false",
        # by the book's custom; the style marks them
        "imports": bool(tucked) and imports_alone(cell.source),
        "check": cell.id.endswith("-test"),
        "stub": cell.id.endswith("-stub"),
        "figure": shows_figure(cell),
        "guard": bool(tucked and GUARDS.match(prompt)),
        # must not be wrapped, as sentences are
        "columns": "tensor(" in text or bool(re.search(r"\S {2,}\S", text)),
    }
    cell.metadata = NotebookNode(
        tags=[tag for tag, fits in tags.items() if fits] + sorted(tucked),
        # may be short; in an exercise they say what is to be written
        heads=not cell.id.startswith("exercise-"),
        exported=cell.id
        if "export" in said and not tags["remove-input"]
        else "",  # source.py leads there
        mystnb={"code_prompt_show": prompt, "code_prompt_hide": prompt},
    )
    return said


def figure_first(cells: list[NotebookNode]) -> list[NotebookNode]:
    "The page of a figure: below its title stands the figure, then what it is made of."

    def shows(cell: NotebookNode) -> bool:
        return shows_figure(cell) or any(holds(out, "<figure") for out in cell.get("outputs", []))

    shown = next(filter(shows, cells), None)
    others = [cell for cell in cells if cell is not shown]
    return [*others[:1], *([shown] if shown else []), *others[1:]]


def load(path: Path, name: str) -> NotebookNode:
    """The notebook at `path`, ready to be shown; `name` is its place in the book,
    such as `checks/proof.ipynb`.
    """
    nb = nbformat.read(path, as_version=4)
    nb.metadata.language_info = NotebookNode(name="python")
    if not (top := nb.cells and re.match(r"# (.+)\n+> (.+)\s*$", nb.cells[0].source)):
        raise BadNotebook("the first cell must be `# Title` and, below it, `> one sentence`")
    said = [prepare(cell) for cell in nb.cells if cell.cell_type == "code"]
    if name.startswith("figures/"):
        nb.cells = figure_first(nb.cells)
    module = next((d["default_exp"] for d in said if "default_exp" in d), None)
    nb.metadata.book = NotebookNode(name=name, title=top[1], lead=top[2], module=module)
    return nb


# One page -----------------------------------------------------------------------------------------


def figures(root: Path) -> Path:
    "The folder of the package where the scripts and styles of figures lie."
    return root / settings(root)["lib_path"] / "figures"


def scripts(folder: Path) -> dict[str, str]:
    "The scripts of the drawings as files of the site: each finds its figures on a page."
    start = (
        'for (const figure of document.querySelectorAll("figure[data-drawing={}]")) '
        "begin(figure, draw);"
    )
    found = {path.stem: path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.js"))}
    found["drawing"] += BEGIN.read_text(encoding="utf-8")
    return {
        name: f"(() => {{\n{text}{start.format(name)}\n}})();\n"
        if "function draw(" in text
        else text
        for name, text in found.items()
    }


def weights(nbs: list[NotebookNode]) -> dict[str, str]:
    """The weights of the models that drawings run, as files of the site:
    a script from a disk may be loaded, and data may not.
    """
    htmls = (
        "".join(out.data["text/html"])
        for nb in nbs
        for cell in nb.cells
        for out in cell.get("outputs", [])
        if holds(out, DRAWING)
    )
    return {
        f"weights-{name}": set_weights(name, text)
        for html in htmls
        for name, text in WEIGHTS.findall(html)
    }


def set_weights(name: str, text: str) -> str:
    "A script that sets the weights of a model."
    return f'(globalThis.weights ??= {{}})["{name}"] = "{text}";\n'


def stilled(html: str) -> str:
    "A drawing with a still picture in its place, for readers whose browser runs no script."
    name, library, title = re.search(
        r'data-drawing="(\w+)"(?: data-library="(\w+)")?.*?<figcaption><b>(.*?)</b>', html, re.S
    ).groups()
    if name in OF_THE_PAGE:
        return html
    data, model = (
        re.search(r'<script type="application/json">(.*?)</script>', html, re.S)[1],
        WEIGHTS.search(html),
    )
    weights = (model[1], set_weights(*model.groups())) if model else ("", "")
    picture = still(figures(ROOT), name, data, library or "", weights, ink="page")
    html = html.replace(
        "This figure is drawn by a script, and none runs here.",
        "No script runs here, so the figure stands still, as it begins.",
    )
    return html.replace(
        "</p></div>",
        (
            f'</p><noscript><div class="still" role="img" aria-label="{title}, as it begins">'
            f"{picture}</div></noscript></div>"
        ),
        1,
    )


def lighten(html: str, up: str, loaded: set[str]) -> str:
    """A figure without its style and scripts, which lie in the site; scripts not yet `loaded` are
    loaded when the page is read.
    """
    drawing = re.search(r'data-drawing="(\w+)"(?: data-library="(\w+)")?', html)
    wanted = (
        [one for one in ("drawing", drawing[2], drawing[1]) if one and one not in loaded]
        if drawing
        else []
    )
    loaded.update(wanted)
    html = html.replace(
        "is drawn by a script: run the cell to see it.", "is drawn by a script, and none runs here."
    )
    html = stilled(html) if drawing and not up else html  # pages in folders are for few
    html = WEIGHTS.sub(
        (
            r'<script type="text/plain" class="weights" data-name="\1" '
            rf'data-src="{up}drawings/weights-\1.js"></script>'
        ),
        html,
    )
    return ALONE.sub(
        lambda _: "".join(f'<script defer src="{up}drawings/{one}.js"></script>' for one in wanted),
        html,
    )


def draw(cell: NotebookNode, up: str, loaded: set[str]) -> None:
    "Put HTML figures in place of the charts among the outputs; `up` leads to the root of the site."
    for out in (o for o in cell.get("outputs", []) if holds(o, DRAWING, PAIR)):
        try:
            out.data["text/html"] = lighten(out.data["text/html"], up, loaded)
        except NotDrawn as e:
            raise BadNotebook(f"cell {cell.id}: {e}") from None
    for i, out in enumerate(o for o in cell.get("outputs", []) if CHART in o.get("data", {})):
        try:
            ident = f"fig-{cell.id}" + (f"-{i}" if i else "")
            html = figure(out.data[CHART], ident, first="chart" not in loaded)
            out.data = {"text/html": html}
            loaded.add("chart")
        except ValueError as e:
            raise BadNotebook(f"cell {cell.id}: {e}") from None


def reference(root: Path, package: str, module: str, story: bool) -> str:
    """The end of a chapter: what it exports, described from its docstrings and comments;
    of a story, behind one line.
    """
    name = f"{package}.{module}".removesuffix(".__init__")  # a folder's own page
    listed = f"```{{eval-rst}}\n.. automodule:: {name}\n   :members:\n```"
    if not story:
        return f"## Reference\n\nAll that `{name}` exports.\n\n{listed}"
    said = (root / package / f"{module.replace('.', '/')}.py").read_text(encoding="utf-8")
    names = next(
        ast.literal_eval(line.value)
        for line in ast.parse(said).body
        if ast.unparse(line).startswith("__all__ = ")
    )
    line = f"All {len(names)} names of <code>{name}</code>, with their arguments"
    return (
        f'## Reference\n\n<details class="fold reference"><summary>{line}</summary>\n\n'
        f"{listed}\n\n</details>"
    )


def folds(nb: NotebookNode) -> bool:
    "Whether something on a page is folded by the switch; solutions are opened one by one."
    return any(
        {"hide-input", "hide-output", "hide-cell"} & {*cell.metadata.get("tags", [])}
        and "remove-cell" not in cell.metadata.tags
        and not cell.id.endswith("-solution")
        for cell in nb.cells
    )


def top(nb: NotebookNode) -> str:
    "What stands under the title of a page: the switch of all folds; of the sources, their file."
    up = "../" * nb.metadata.book.name.count("/")
    switch = f'<p class="switch">{DEPTH}</p>' if folds(nb) else ""
    if nb.metadata.book.name != citations.PAGE:
        return switch
    return switch + in_a_line([f'<a href="{up}references.bib" download>Download as BibTeX</a>'])


def foot(name: str, conf: dict[str, str]) -> str:
    "The last line of a chapter: links to its notebook and to the notation, and a button to print."
    found = [
        f'<a href="notebooks/{name}" download>Download the notebook</a>',
        '<a href="index.html#read-it">How to run it</a>',
    ]
    # the notebook to download: its first cell installs the package
    if repo := repository(conf):
        url = (
            f"https://colab.research.google.com/github/{repo}/"
            f"blob/{conf['branch']}/docs/notebooks/{name}"
        )
        found.append(f'<a href="{escape(url)}">Open in Colab</a>')
    found.append(f'<a href="{NOTATION}">Notation</a>')
    found.append('<button type="button" id="print-for-class">Print for class</button>')
    return in_a_line(found)


def in_a_line(links: list[str]) -> str:
    "Links of a page, quiet, in one line."
    return f'<p class="notebook-links">{"".join(f"<span>{one}</span>" for one in links)}</p>'


def repository(conf: dict[str, str]) -> str:
    "The owner and the name of the repository on GitHub; nothing if settings.ini names none."
    return conf["git_url"].partition("github.com/")[2].strip("/")


def is_chapter(name: str) -> bool:
    "Chapters have a number; what else there is lies in folders."
    return name[0].isdigit()


def hero(nb: NotebookNode) -> None:
    """Mark the first screen of the home page: its sentence, and the figure `see`.

    The switch of folds stands above the first heading.
    """
    top = next(i for i, cell in enumerate(nb.cells) if cell.source.startswith("## "))
    nb.cells.insert(top, new_markdown_cell(f'<p class="switch">{DEPTH}</p>', id="switch"))
    end = [cell.id for cell in nb.cells].index("see") + 1
    for place, html in ((end, "</div>"), (1, '<div class="opening">')):
        nb.cells.insert(place, new_markdown_cell(html, id=f"opening-{place}"))


def beside_pages(source: str, name: str) -> str:
    """A notebook's text with links to files of the repository changed to where the site
    has them: beside the pages.
    """
    up = "../" * name.count("/")
    return source.replace(f"](../{up}", f"]({up}")


VEIL, UNVEIL = (
    '<details class="fold veil"><summary>Show what follows</summary>',
    "</details><!-- veil -->",
)


def veil_answers(cells: list[NotebookNode]) -> None:
    """Put what stands behind a question, up to the next question or heading, behind one line:
    it gives the answer away.
    """
    for i in reversed([i for i, cell in enumerate(cells) if is_question(cell)]):
        after = list(takewhile(lambda cell: not ends(cell), cells[i + 1 :]))
        end = next(iter(cells[i + 1 + len(after) :]), None)
        if (
            end
            and not is_question(end)
            and (before := HEADING.split(end.source, maxsplit=1)[0].strip())
        ):
            end.source = end.source.partition(before)[2].lstrip()
            after.append(new_markdown_cell(before, id=f"before-{end.id}"))
            cells.insert(i + len(after), after[-1])
        if any("remove-cell" not in cell.metadata.get("tags", []) for cell in after):
            veiled = [
                new_markdown_cell(VEIL, id=f"veil-{cells[i].id}"),
                *after,
                new_markdown_cell(UNVEIL, id=f"end-{cells[i].id}"),
            ]
            cells[i + 1 : i + 1 + len(after)] = veiled


def ends(cell: NotebookNode) -> bool:
    "Whether a cell is about something else than the question before it."
    return is_question(cell) or cell.cell_type == "markdown" and bool(HEADING.search(cell.source))


def is_question(cell: NotebookNode) -> bool:
    "Whether a cell asks the reader to predict something."
    return cell.cell_type == "markdown" and cell.id.startswith("predict-")


def page(root: Path, nb: NotebookNode, conf: dict[str, str], contents: dict[str, str]) -> None:
    """Make the notebook into what Sphinx reads; the home page holds the table of contents,
    two others what is for few.
    """
    about = nb.metadata.book
    loaded: set[str] = set()
    veil_answers(nb.cells)
    for cell in nb.cells:
        if cell.cell_type == "code":
            draw(cell, "../" * about.name.count("/"), loaded)
        else:
            cell.source = beside_pages(cell.source, about.name)
    if about.name == HOME:
        hero(nb)
    else:
        nb.cells[0].source += "\n\n" + top(nb)
    if about.name in contents:
        # under the title, not under its last section
        at = len(nb.cells) if about.name == HOME else 1
        nb.cells.insert(at, new_markdown_cell(contents[about.name], id="contents"))
    # the package's own face repeats names that have their home elsewhere
    if about.module not in (None, "__init__"):
        end = reference(root, conf["lib_path"], about.module, is_chapter(about.name))
        nb.cells.append(new_markdown_cell(end, id="reference"))
    if is_chapter(about.name):
        nb.cells.append(new_markdown_cell(foot(about.name, conf), id="foot"))
    # Messages name line 4203 for line 3 of cell 42. (Left alone, myst-nb counts 10,000 lines to a
    # cell, and the reference, which is padded with empty lines to its place, takes many seconds.)
    nb.metadata.source_map = [100 * (i + 1) for i in range(len(nb.cells))]
    nb.metadata.myst = {"html_meta": {"description": re.sub(r"[*`$]", "", about.lead)}}


# The book -----------------------------------------------------------------------------------------


def parts(names: list[str]) -> dict[str, list[str]]:
    """The pages of each part of the table of contents;
    a page that fits none has no place, and Sphinx says so.
    """
    found: dict[str, list[str]] = {}
    left = [*names, "genindex"]
    for part, patterns in PARTS.items():
        found[part] = [name for pattern in patterns for name in left if fnmatch(name, pattern)]
        left = [name for name in left if name not in found[part]]
    return found


def tables_of_contents(
    pages: dict[str, list[str]], project: list[str], within: dict[str, str]
) -> dict[str, str]:
    """The parts of the book, each with its pages, by the notebook that lists them: the home page,
    unless `within` has another.
    """
    found: dict[str, str] = {}
    for part, entries in {**pages, "Project": project}.items():
        home = within.get(part, HOME)
        tree = "\n".join(["```{toctree}", ":hidden:", f":caption: {part}", "", *entries, "```"])
        found[home] = found.get(home, "") + tree + "\n\n"
    return found


def neighbours(nbs: list[NotebookNode]) -> list[Path]:
    "The files of the repository that the notebooks link to, from its root."
    texts = (
        (nb.metadata.book.name, cell.source)
        for nb in nbs
        for cell in nb.cells
        if cell.cell_type == "markdown"
    )
    found = (
        link
        for name, text in texts
        for link in re.findall(rf"\]\(\.\./{'../' * name.count('/')}([^)#\s]+)", text)
    )
    return list(map(Path, dict.fromkeys(found)))


def copy_neighbour(root: Path, path: Path, src: Path, nbs_path: str) -> None:
    """Put a file of the repository beside the pages; if it is a page itself,
    its links to notebooks keep working.
    """
    if not (root / path).is_file():
        raise BadNotebook(f"a notebook links to ../{path.as_posix()}, and there is no such file")
    (src / path).parent.mkdir(parents=True, exist_ok=True)
    content = (root / path).read_bytes()
    if path.suffix == ".md":
        content = content.replace(f"]({nbs_path}/".encode(), b"](")
        content = re.sub(rb"\[([^\]]+)\]\(tools/[^)]+\)", rb"\1", content)  # no page of the site
    (src / path).write_bytes(content)


def install(conf: dict[str, str]) -> NotebookNode:
    "The cell of a notebook that lies alone, or in Colab: it installs the package, or says how."
    name = conf["lib_name"]
    if repo := repository(conf):
        do = f'%pip install --quiet "{name}[plots] @ git+https://github.com/{repo}"'
    else:
        do = (
            f'raise ModuleNotFoundError("This notebook needs the package {name}, '
            "which is not installed: "
            "run `pip install '.[plots]'` in a clone of the book, then restart the kernel.\")"
        )
    lines = f'import importlib.util\n\nif importlib.util.find_spec("{name}") is None:\n    {do}'
    return new_code_cell(lines, id="install", metadata={})


def to_download(path: Path, conf: dict[str, str]) -> str:
    """A notebook in one line, which says first what it needs.

    It lacks what running a cell makes anew: its charts, and scripts,
    which JupyterLab runs only then.
    """
    nb = json.loads(source := path.read_text(encoding="utf-8"))
    for out in (out for cell in nb["cells"] for out in cell.get("outputs", [])):
        if holds(out, DRAWING, PAIR):
            out["data"]["text/html"] = WEIGHTS.sub(
                "", ALONE.sub("", "".join(out["data"]["text/html"]))
            )
        # not everybody can run what needs more
        if (spec := out.get("data", {}).get(CHART)) and "#| needs" not in source:
            out["data"] = {
                "text/plain": (
                    "Run this cell to draw the chart: "
                    f"{text(spec.get('title')) or spec['description']}"
                )
            }
        elif spec:
            out["data"].pop("image/svg+xml", None)  # JupyterLab draws the chart itself
    nb["cells"].insert(1, install(conf))
    return json.dumps(nb, ensure_ascii=False, separators=(",", ":")) + "\n"


def load_all(folder: Path) -> list[NotebookNode]:
    "All notebooks, in the order of the book."
    nbs = []
    for path in sorted(folder.rglob("[!.]*.ipynb")):
        name = path.relative_to(folder).as_posix()
        if any(part.startswith(".") for part in name.split("/")):
            continue  # JupyterLab's checkpoints
        try:
            nbs.append(load(path, name))
        except BadNotebook as e:
            raise BadNotebook(f"{name}: {e}") from None
    return nbs


def served(root: Path, nbs: list[NotebookNode], extra: Path) -> None:
    """Write what is served beside the pages: the references, the scripts of drawings,
    the chapters as notebooks.
    """
    conf = settings(root)
    try:
        bib = citations.link_back(nbs)
    except ValueError as e:
        raise BadNotebook(str(e)) from None
    extra.mkdir(parents=True)
    (extra / "references.bib").write_text(bib, encoding="utf-8", newline="\n")
    (extra / "drawings").mkdir()
    for name, script in (scripts(figures(root)) | weights(nbs)).items():
        (extra / f"drawings/{name}.js").write_text(script, encoding="utf-8", newline="\n")
    (extra / "notebooks").mkdir()
    for name in filter(is_chapter, (nb.metadata.book.name.removesuffix(".ipynb") for nb in nbs)):
        packed = to_download(root / conf["nbs_path"] / f"{name}.ipynb", conf)
        (extra / f"notebooks/{name}.ipynb").write_text(packed, encoding="utf-8", newline="\n")


def book(root: Path, src: Path, extra: Path, within: dict[str, str]) -> list[str]:
    """Write Sphinx's sources into `src`, and what is served as it is into `extra`;
    the names of the pages.
    """
    conf = settings(root)
    nbs = load_all(root / conf["nbs_path"])
    src.mkdir(parents=True)
    beside = neighbours(nbs)
    for path in beside:
        copy_neighbour(root, path, src, conf["nbs_path"])

    served(root, nbs, extra)
    names = [nb.metadata.book.name.removesuffix(".ipynb") for nb in nbs]
    titles = {
        n: f"{int(n[:2])} · {nb.metadata.book.title} <{n}>"
        for n, nb in zip(names, nbs)
        if is_chapter(n)
    }
    project = [p.with_suffix("").as_posix() for p in beside if p.suffix == ".md"]
    listed = lambda n: titles.get(n, f"/{n}") if n != "genindex" else n
    named = {part: [listed(n) for n in pages] for part, pages in parts(names).items()}
    contents = tables_of_contents(named, project, within)
    for nb, name in zip(nbs, names):
        try:
            page(root, nb, conf, contents)
        except BadNotebook as e:
            raise BadNotebook(f"{name}.ipynb: {e}") from None
        (src / name).parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(nb, src / f"{name}.ipynb")
    return names


# README.md ----------------------------------------------------------------------------------------


def in_words(spec: dict, site: str) -> str:
    """What stands in a chart's place: where it is drawn, and the numbers of a heatmap,
    as its slider stands first.
    """
    where = f"*The chart “{text(spec.get('title'))}” is drawn in [the rendered book]({site}).*"
    for view in views(spec, spec.get("datasets", {})):
        ch = view.channels
        if {"x", "y", "color"} <= ch.keys() and ch["color"].get("type") == "quantitative":
            x, y, colour = (ch[c]["field"] for c in ("x", "y", "color"))
            records = first_state(spec, view.data)
            names = list(dict.fromkeys(record[x] for record in records))
            rows: dict[str, dict[str, float]] = {}
            for record in records:
                rows.setdefault(record[y], {})[record[x]] = record[colour]
            lines = [["", *names], ["---"] * (len(names) + 1)]
            lines += [
                [f"**{row}**", *(f"{values[name]:.2f}" for name in names)]
                for row, values in rows.items()
            ]
            return "\n".join(f"| {' | '.join(line)} |" for line in lines) + f"\n\n{where}"
    return where


def pictures(nbs_path: str) -> str:
    "Two figures of chapters in motion, made by website/previews.py, with a link to each chapter."
    step_by_step = "what one token takes from the others, step by step"
    shown = [
        ("03_self_attention", "Self-attention", step_by_step, "attend"),
        ("07_transformer", "The transformer", "attention fetches, the other half thinks", "adder"),
    ]
    return "\n\n".join(
        f"![{title}: {about}](website/previews/{figure}.gif)\n"
        f"*[{title}]({nbs_path}/{name}.ipynb): {about}.*"
        for name, title, about, figure in shown
    )


def readme(root: Path) -> str:
    "The home page in Markdown, with links that work from the root of the repository."
    conf = settings(root)
    nb = load(root / conf["nbs_path"] / HOME, HOME)
    site = f"{conf['doc_host']}{conf['doc_baseurl']}" if conf["doc_host"] else "docs/index.html"
    for cell in nb.cells:
        if cell.cell_type == "markdown":
            cell.source = re.sub(
                r"\]\((?=[\w/-]+\.ipynb)", f"]({conf['nbs_path']}/", cell.source
            ).replace("](../", "](")
            # as GitHub writes anchors
            cell.source = re.sub(r"(?<=\]\()#[^)]+", lambda m: m[0].lower(), cell.source)
        for out in cell.get("outputs", []):
            if CHART in out.get("data", {}):
                out.data = {"text/markdown": in_words(out.data[CHART], site)}
            elif holds(out, DRAWING):
                title = out.data["text/plain"].partition("\n")[0]
                out.data = {
                    "text/markdown": pictures(conf["nbs_path"])
                    + (
                        f"\n\n*In the book they respond: “{title}” opens "
                        f"[the rendered book]({site}).*"
                    )
                }
                cell.metadata.tags = [*cell.metadata.get("tags", []), "remove-input"]
    tags = {
        "remove_cell_tags": ["remove-cell"],
        "remove_input_tags": ["remove-input"],
        "remove_all_outputs_tags": ["remove-output"],
        "enabled": True,
    }
    exporter = MarkdownExporter(config=Config(TagRemovePreprocessor=tags))
    body = exporter.from_notebook_node(nb)[0]
    body = re.sub(r"\n{3,}(?=\S)", "\n\n", body).strip() + "\n"
    return (
        f"<!-- Made from {conf['nbs_path']}/{HOME} by `make docs`: "
        f"edit the notebook, not this file. -->\n\n{body}"
    )
