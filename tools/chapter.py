"""Begin a chapter: `make chapter N=06 NAME=positions`.

The template, tools/chapter.ipynb, is a chapter that passes every test. It is copied under the new
name, and the book is told of it where it lists its chapters, its public names and their properties.
From there on its author changes it.
"""

import json
import keyword
import re
import sys
from collections.abc import Callable
from pathlib import Path

import names
from execnb.nbio import nb2str
from places import NBS, ROOT

TEMPLATE = Path(__file__).with_suffix(".ipynb")
USAGE = "Say which chapter to begin, such as: make chapter N=06 NAME=positions"

ENTRY = re.compile(r"^(\d+)\. .*\\\n +.*$", re.M)  # of the map
IMPORT = "from attention_nb.{name} import {name}_normalize\n"
CASES = '''\
"""The cases of `{name}`: how to draw each function's arguments, and what is right."""

import attention_nb as nb
import torch.nn.functional as F
from tests.properties.common import Case, args, dtypes, floats

CASES = {{
    "{name}_normalize": Case(
        nb.{name}_normalize,
        args(x=dtypes.flatmap(lambda t: floats((2, 3), t))),
        lambda x: F.normalize(x, p=1, dim=-1),
        "x",
        finite=True,
    ),
}}
'''


class Refused(Exception):
    "Why no chapter is begun."


def check(number: str, name: str) -> None:
    "Raise Refused unless this can be the next chapter."
    taken = {path.stem[:2]: path.stem for path in NBS.glob("[0-9][0-9]_*.ipynb")}
    free = f"{int(max(taken)) + 1:02}"
    public = names.imported(names.source("imports"))
    refusals = {
        USAGE: not (number and name),
        f"N: expected two digits, such as {free}; got {number!r}": not re.fullmatch(
            r"\d\d", number
        ),
        f"N: {number} is taken by {taken.get(number)}; the next free number is {free}": number
        in taken,
        (
            "NAME: expected words in small letters, such as positions or local_attention; "
            f"got {name!r}"
        ): not re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", name) or keyword.iskeyword(name),
        f"NAME: {name} is taken by another notebook or folder": name
        in {path.stem[3:] if path.suffix else path.name for path in NBS.glob("[!.]*")},
        f"NAME: {name} is taken by a public name, attention_nb.{name}": name in public,
    }
    if found := [why for why, holds in refusals.items() if holds]:
        raise Refused(found[0])


def before(mark: str, text: str) -> Callable[[str], str]:
    "An edit: put `text` in front of the one place where `mark` stands."

    def edit(source: str) -> str:
        if source.count(mark) != 1:
            raise Refused(f"expected {mark!r} once; found it {source.count(mark)} times")
        return source.replace(mark, text + mark)

    return edit


def in_cell(ident: str, edit: Callable[[str], str]) -> Callable[[str], str]:
    "The edit of one cell of a notebook, as an edit of the file."

    def edit_file(text: str) -> str:
        nb = json.loads(text)
        cell = next(cell for cell in nb["cells"] if cell["id"] == ident)
        cell["source"] = edit("".join(cell["source"])).splitlines(keepends=True)
        return nb2str(nb)

    return edit_file


def mapped(number: int, title: str, stem: str) -> Callable[[str], str]:
    """An edit: the chapter in its place among the entries of the map;
    there may be one that says that it is being written.
    """
    entry = (
        f"{number}. [{title}]({stem}.ipynb)\\\n"
        f"{' ' * (len(str(number)) + 2)}What it is about, in a line."
    )

    def edit(source: str) -> str:
        before = max(
            (m for m in ENTRY.finditer(source) if int(m[1]) <= number), key=lambda m: int(m[1])
        )
        start = before.start() if int(before[1]) == number else before.end()
        return (
            source[:start] + ("" if start < before.end() else "\n") + entry + source[before.end() :]
        )

    return edit


def begin(number: str, name: str) -> list[Path]:
    "Write the chapter and what names it, all or nothing; the files."
    check(number, name)
    stem, title = f"{number}_{name}", name.replace("_", " ").capitalize()
    edits = {
        NBS / "index.ipynb": in_cell("map", mapped(int(number), title, stem)),
        names.API: in_cell(
            "imports", before("\nif typing.TYPE_CHECKING", IMPORT.format(name=name))
        ),
    }
    chapter = (
        TEMPLATE.read_text(encoding="utf-8")
        .replace("chapter_name", name)
        .replace("Chapter name", title)
    )
    texts = {
        NBS / f"{stem}.ipynb": chapter.replace("chapter name", title.lower()),
        ROOT / f"tests/properties/cases_{name}.py": CASES.format(name=name),
    }
    texts |= {path: edit(path.read_text(encoding="utf-8")) for path, edit in edits.items()}
    for path, text in texts.items():
        path.write_text(text, encoding="utf-8", newline="\n")
    names.fill()
    return list(texts)


def main() -> int:
    "The command line."
    try:
        new, *others = (path.relative_to(ROOT) for path in begin(*(sys.argv[1:] + ["", ""])[:2]))
    except Refused as e:
        print(e, file=sys.stderr)
        return 2
    print(
        f"Wrote {new}, and added it to {', '.join(map(str, others))}.\n"
        "Next: edit it, then run `make prepare`."
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
