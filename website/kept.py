"""What a build of the site leaves for the next one, which then reads and writes only
the pages that have changed.

Sphinx sees by the dates of its sources what has changed. It does not see all that a page takes from
others: the titles in the sidebar, links to names of the package, the terms of the glossary, the
sources. When any of that is new, all is built anew.
"""

import hashlib
import json
import re
import shutil
import sys
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

import glossary

SITE = Path(__file__).resolve().parent
RENDERERS = [SITE.with_name("settings.ini"), SITE.with_name("constraints.txt"), SITE]
HEADING = re.compile(r"^#+ .*", re.M)
NAME = re.compile(r"^\s*(?:class|(?:async )?def) (\w+)|^(\w+)\s*[:=]", re.M)


def files(folder: Path, kind: str = "*") -> list[Path]:
    "The files of a kind in a folder, without Python's caches; a file is its own folder."
    found = [folder] if folder.is_file() else sorted(folder.rglob(kind))
    return [path for path in found if path.is_file() and "__pycache__" not in path.parts]


def lay(new: Path, old: Path) -> None:
    "Make the files in `old` those in `new`; one that is the same keeps its date."
    for path in files(old):
        if not (new / path.relative_to(old)).exists():
            path.unlink()
    for path in files(new):
        there = old / path.relative_to(new)
        if not there.exists() or there.read_bytes() != path.read_bytes():
            there.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, there)


def headings(page: Path) -> list[str]:
    "The headings of a page: its title, and what links of other pages lead to."
    text = page.read_text(encoding="utf-8")
    if page.suffix == ".ipynb":
        text = "\n".join(
            "".join(cell["source"])
            for cell in json.loads(text)["cells"]
            if cell["cell_type"] == "markdown"
        )
    return HEADING.findall(text)


def shared(folder: Path) -> str:
    "What pages take from each other, and what renders them, as one key."
    src, package = folder / "src", folder / "package"
    taken = [
        [str(path), headings(path)] for kind in ("*.ipynb", "*.md") for path in files(src, kind)
    ]
    taken += [
        [str(path), NAME.findall(path.read_text(encoding="utf-8"))]
        for path in files(package, "*.py")
    ]
    key = hashlib.sha256(f"{sys.version}{taken}".encode())
    # their texts stand on other pages, too
    explained = [src / f"{page}.ipynb" for page in (glossary.PAGE, glossary.SOURCES)]
    for path in [*explained, *(path for one in RENDERERS for path in files(one))]:
        key.update(path.read_bytes())
    return key.hexdigest()


def begin(folder: Path) -> str:
    """Lay the new sources over the last ones, and remove what was made of these if it is of no use;
    the key of this build.
    """
    for name in ("src", "extra", "package"):
        lay(folder / "new" / name, folder / name)
    key, last = shared(folder), folder / "key"
    if not last.exists() or last.read_text() != key:
        for name in ("html", "doctrees"):
            shutil.rmtree(folder / name, ignore_errors=True)
    # they are made anew; pages tell from the first what is there, and weights have new names
    for name in ("_static", "drawings"):
        shutil.rmtree(folder / "html" / name, ignore_errors=True)
    # a build that fails leaves nothing of use: what it warned of, the next would not see
    last.unlink(missing_ok=True)
    return key


def end(folder: Path, key: str) -> None:
    "Write down that the build went well."
    (folder / "key").write_text(key)


# As a Sphinx extension ----------------------------------------------------------------------------


def glossary_too(app: Sphinx, env: BuildEnvironment, *changed: set[str]) -> list[str]:
    """Below its terms the glossary lists where they are used: it is read again each time,
    and so there is always a page.
    """
    return [glossary.PAGE]


def setup(app: Sphinx) -> dict[str, bool]:
    "Called by Sphinx."
    app.connect("env-get-outdated", glossary_too)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
