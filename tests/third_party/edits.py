"""Bugs planted in published classes: each patch of tests/third_party/edits/ changes one line;
`python -m tests.third_party.edits` tries them all.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from itertools import groupby
from pathlib import Path

from tests.third_party.run import (
    CACHE,
    checks_digest,
    installed,
    judged,
    keep,
    kept,
    RESULTS as PUBLISHED,
    Row,
    write_table,
)
from tests.third_party.subjects import PACKAGES, Package, packages

FOLDER = Path(__file__).parent / "edits"
RESULTS = FOLDER / "results.json"
SHOWN = ("edit", "expect", "caught", "named", "codes", "differs")
HEAD = re.compile(r"Package: (\S+)==(\S+)\nClass: (\S+)\n")
EDIT = re.compile(
    r"Edit: (.+)\nExpect: (\S+)\n--- a/(\S+)\n\+\+\+ b/\3\n@@ -(\d+) .*@@\n-(.*\n)(?:\+(.*\n))?"
)


@dataclass(frozen=True)
class Edit:
    """One line of a published file, changed or (with nothing new) taken out,
    and the code that names it.
    """

    name: str  # of its patch, and what is done
    package: str
    version: str
    path: str  # of the class, as its table calls it
    expect: str  # code; several, joined by |, where they tell the same
    file: str
    line: int
    old: str
    new: str

    @property
    def key(self) -> str:
        "What makes it another edit than it was."
        return hashlib.sha256(repr(self).encode()).hexdigest()[:12]

    def apply(self, source: str) -> str:
        "The file with its line changed; it must be the line that is meant."
        lines = source.splitlines(keepends=True)
        if lines[self.line - 1] != self.old:
            raise ValueError(
                f"{self.name}: expected {self.old!r} in line {self.line} of {self.file}; "
                f"got {lines[self.line - 1]!r}"
            )
        return "".join([*lines[: self.line - 1], self.new, *lines[self.line :]])


def edits(folder: Path = FOLDER) -> list[Edit]:
    "All of them, patch by patch."
    return [edit for patch in sorted(folder.glob("*.patch")) for edit in _read(patch)]


def _read(patch: Path) -> Iterator[Edit]:
    "The edits of one class."
    text = patch.read_text(encoding="utf-8")
    package, version, path = HEAD.match(text).groups()  # type: ignore[union-attr]
    for words, expect, file, line, old, new in EDIT.findall(text):
        yield Edit(
            f"{patch.stem}: {words}", package, version, path, expect, file, int(line), old, new
        )


def judgement(edit: Edit, row: Row, before: set[str]) -> Row:
    """What is kept of an edit: whether it is caught, by more than the published class is refused
    for, and named by its code.
    """
    caught = row["verdict"] == "refused" and bool(set(row["codes"]) - before)
    named = caught and bool(set(edit.expect.split("|")) & set(row["codes"]))
    return {
        "edit": edit.name,
        "expect": edit.expect,
        "differs": row.get("differs", []),
        "caught": caught,
        "named": named,
        **{name: row[name] for name in ("verdict", "codes", "said", "seconds", "checks")},
    }


def refused() -> dict[str, set[str]]:
    "The codes that published classes are refused for as they are, by path."
    rows = json.loads(PUBLISHED.read_text(encoding="utf-8"))["rows"]
    return {row["class"]: set(row["codes"]) for row in rows if row["codes"]}


def tried(package: Package, some: list[Edit], cache: Path, digest: str) -> Iterator[Row]:
    "The rows of one package's edits: those that are kept, and the rest, each kept at once."
    log, before = cache / "edits.jsonl", refused()
    have = kept(log, ("key", "checks"))
    left = {edit.name: edit for edit in some if (edit.key, digest) not in have}
    for row in judged(
        package, installed(package, cache) if left else [], list(left), "tests.third_party.planted"
    ):
        edit = left[row["class"]]
        have[edit.key, digest] = row = {**row, "key": edit.key, "checks": digest}
        keep(log, row)
        print(said(judgement(edit, row, before.get(edit.path, set()))), file=sys.stderr, flush=True)
    yield from (
        judgement(edit, have[edit.key, digest], before.get(edit.path, set())) for edit in some
    )


def said(row: Row) -> str:
    "A line of progress."
    verdict = (
        "named"
        if row["named"]
        else f"caught, not named {row['expect']}"
        if row["caught"]
        else f"missed ({row['verdict']})"
    )
    return (
        f"{row['edit']}: {verdict}; {', '.join(row['codes']) or '; '.join(row['said'])[:200]}; "
        f"differs in {', '.join(row['differs']) or 'nothing'}"
    )


def summary(rows: list[Row]) -> dict[str, int]:
    "The figures."
    return {
        "planted": len(rows),
        "caught": sum(row["caught"] for row in rows),
        "named": sum(row["named"] for row in rows),
        "equivalent": sum(not row["differs"] for row in rows),
    }


def written(rows: list[Row], to: Path) -> None:
    "The table; rows that were not asked for now are kept."
    table = json.loads(to.read_text(encoding="utf-8")) if to.exists() else {"about": {}, "rows": []}
    old = table["rows"]
    by_name = {row["edit"]: row for row in old} | {row["edit"]: row for row in rows}
    rows = [by_name[edit.name] for edit in edits() if edit.name in by_name]
    checks = sorted({row["checks"] for row in rows if "checks" in row})
    about = {**table["about"], "date": datetime.date.today().isoformat(), "checks": checks}
    write_table(to, about, summary(rows), [{name: row[name] for name in SHOWN} for row in rows])
    print(json.dumps(summary(rows)), file=sys.stderr)


def main(argv: list[str] | None = None) -> None:
    "The command line."
    parser = argparse.ArgumentParser(prog="python -m tests.third_party.edits", description=__doc__)
    parser.add_argument(
        "--only",
        default="",
        metavar="PATTERN",
        help="only edits whose name has this in it, as in a shell",
    )
    parser.add_argument(
        "--cache",
        type=Path,
        default=CACHE,
        help="where packages are installed (default: build/third_party)",
    )
    parser.add_argument(
        "--to",
        type=Path,
        default=RESULTS,
        help="the table to write (default: tests/third_party/edits/results.json)",
    )
    asked = parser.parse_args(argv)
    asked.cache.mkdir(parents=True, exist_ok=True)
    digest, by_name = checks_digest(), {(p.name, p.version): p for p in packages(PACKAGES)}
    chosen = sorted((edit for edit in edits() if fnmatch(edit.name, f"*{asked.only}*")), key=_of)
    rows: list[Row] = []
    for each, some in groupby(chosen, _of):
        rows += tried(by_name[each], list(some), asked.cache, digest)
    written(rows, asked.to)


def _of(edit: Edit) -> tuple[str, str]:
    "Which package it changes."
    return edit.package, edit.version


if __name__ == "__main__":
    main()
