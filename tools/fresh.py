"""What the outputs of a notebook depend on, as one key: while it stays the same, there is nothing to run again.

In the key are the notebook itself, every module of the package that it imports, through others too, the files that its
code names, and the versions that everything runs on. The keys of the last good runs lie in _build/, one for each way
to run a notebook; a clean checkout has none, and runs everything.
"""
import hashlib
import json
import re
import sys
from functools import cache
from pathlib import Path

from places import ROOT, file_of, imported, imported_by

ALWAYS = [ROOT / name for name in ("constraints.txt", "settings.ini", "tools/outputs.py", "tests/test_notebooks.py")]
KEYS = ROOT / "_build/outputs"


@cache
def needed(module: str) -> frozenset[Path]:
    "The files of a module and of all that it imports."
    found, new = set(), {module}
    while new:
        found |= new
        files = {name: file for name in new if (file := file_of(name))}
        new = {other for file in files.values() for other in imported_by(file)} - found
    return frozenset(file for name in found if (file := file_of(name)))


def code_of(notebook: Path) -> str:
    "The code of a notebook that Python can read: without the lines that are meant for IPython."
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    sources = ("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    return "\n".join(re.sub(r"(?m)^\s*[%!].*$", "", source) for source in sources)


def depends_on(notebook: Path) -> set[Path]:
    "The files that can change what a notebook prints."
    code = code_of(notebook)
    modules = set().union(*(needed(name) for name in imported(code)))
    named = {(notebook.parent / name).resolve() for name in re.findall(r"[\"']([\w./-]+\.\w+)[\"']", code)}
    beside = (path for module in modules for path in module.parent.glob("*.[cj]s*"))  # what draws figures in a page
    return {notebook, *ALWAYS, *modules, *beside, *(path for path in named if path.is_file())}


def key_of(notebook: Path) -> str:
    "The key of a notebook as it stands."
    whole = hashlib.sha256(sys.version.encode())
    for path in sorted(depends_on(notebook)):
        whole.update(str(path).encode() + b"\0" + path.read_bytes())
    return whole.hexdigest()


def slot(notebook: Path, way: str = "") -> Path:
    "Where the key of its last good run of this way is kept."
    return KEYS / hashlib.sha256(f"{notebook.resolve()}{way}".encode()).hexdigest()[:16]


def is_fresh(notebook: Path, way: str = "") -> bool:
    "Whether nothing has changed since its last good run of this way."
    try:
        return slot(notebook, way).read_text() == key_of(notebook)
    except (OSError, ValueError, SyntaxError):  # never run, or no notebook
        return False


def keep(notebook: Path, way: str = "") -> None:
    "Write down that it ran well this way as it stands."
    KEYS.mkdir(parents=True, exist_ok=True)
    slot(notebook, way).write_text(key_of(notebook))
