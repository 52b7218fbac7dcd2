"""What a run depends on, as one key: while it stays the same, there is nothing to run again.

In the key of a notebook are the notebook itself, every module of the package that it imports,
through others too, the files that its code names, and the versions that everything runs on. The
keys of the last good runs lie in _build/, one for each way to run something; a clean checkout has
none, and runs everything.
"""

import hashlib
import json
import re
import sys
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path

from places import ROOT, file_of, imported, imported_by

ALWAYS = [
    ROOT / name
    for name in (
        "constraints.txt",
        "settings.ini",
        "tools/outputs.py",
        "tests/notebook_run.py",
        "tests/test_notebooks.py",
    )
]
KEYS = ROOT / "_build/outputs"
Needs = Callable[[Path], Iterable[Path]]  # what is run → the files that can change how the run ends


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
    named = {
        (notebook.parent / name).resolve()
        for name in re.findall(r"[\"']([\w./-]+\.\w+)[\"']", code)
    }
    # what draws figures in a page
    beside = (path for module in modules for path in module.parent.glob("*.[cj]s*"))
    return {notebook, *ALWAYS, *modules, *beside, *(path for path in named if path.is_file())}


def key_of(files: Iterable[Path]) -> str:
    "The key of files as they stand."
    whole = hashlib.sha256(sys.version.encode())
    for path in sorted(files):
        whole.update(str(path).encode() + b"\0" + path.read_bytes())
    return whole.hexdigest()


def slot(what: Path, way: str = "") -> Path:
    "Where the key of its last good run of this way is kept."
    return KEYS / hashlib.sha256(f"{what.resolve()}{way}".encode()).hexdigest()[:16]


def is_fresh(what: Path, way: str = "", files: Needs = depends_on) -> bool:
    "Whether nothing has changed since its last good run of this way."
    try:
        return slot(what, way).read_text() == key_of(files(what))
    except (OSError, ValueError, SyntaxError):  # never run, or no notebook
        return False


def keep(what: Path, way: str = "", files: Needs = depends_on) -> None:
    "Write down that it ran well this way as it stands."
    KEYS.mkdir(parents=True, exist_ok=True)
    slot(what, way).write_text(key_of(files(what)))
