"""`make third-party`: install released packages one by one, try their attention,
and write one table, results.json.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatch
from pathlib import Path
from statistics import median
from typing import Any

from tests.third_party.subjects import PACKAGES, Package, packages

ROOT = Path(__file__).parents[2]
RESULTS = Path(__file__).parent / "results.json"
# Ignored by git: what was installed, and every row as soon as there is one.
CACHE = ROOT / "build" / "third_party"
Row = dict[str, Any]
KEY = ("package", "version", "class")
SHOWN = (*KEY, "check", "verdict", "compared", "codes", "seconds", "why")
NO_ROW: Row = {
    "file": "",
    "line": 0,
    "check": "",
    "declared": {},
    "called": False,
    "seconds": 0.0,
    "codes": [],
    "compared": "",
    "verdict": "untried",
}


def installed(package: Package, cache: Path) -> list[Path]:
    """The folders of a package and of what it needs;
    each is installed once, without what it asks for.
    """
    folders = []
    for each in (f"{package.name}=={package.version}", *package.needs):
        folder = cache / each.replace("==", "-")
        if not folder.exists():
            part = folder.with_suffix(".part")
            subprocess.run(
                [
                    sys.executable,
                    "-m",
                    "pip",
                    "install",
                    "--quiet",
                    "--disable-pip-version-check",
                    "--no-deps",
                    "--target",
                    str(part),
                    each,
                ],
                check=True,
            )
            part.rename(folder)
        folders.append(folder)
    return folders


def checks_digest() -> str:
    "What the checks are: each row says which tried it."
    files = sorted((ROOT / "attention_checks").rglob("*.py"))
    return hashlib.sha256(b"".join(f.read_bytes() for f in files)).hexdigest()[:12]


def listed(package: Package, folders: list[Path]) -> list[str]:
    "The subjects of a package, by path; their table is read where the package is."
    code = (
        "import sys; from tests.third_party.subjects import *; "
        "[print(s.path) for p in packages(Path(sys.argv[1])) if p.name == sys.argv[2] "
        "for s in p.subjects()]"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *named(package)],
        env=environment(folders),
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise RuntimeError(
            f"the table of {package.name} cannot be read: {done.stderr.strip().splitlines()[-1]}"
        )
    return done.stdout.split()


def named(package: Package) -> tuple[str, str]:
    "Its list and its name, for another process."
    return str(package.tables.parent / PACKAGES.name), package.name


def environment(folders: list[Path]) -> dict[str, str]:
    "Where a process finds the package, before anything of that name beside us; it reaches no hub."
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, [*folders, ROOT])),
        "HF_HUB_OFFLINE": "1",
    }


def judged(
    package: Package, folders: list[Path], paths: list[str], by: str = "tests.third_party.judge"
) -> Iterator[Row]:
    """A row for each, as soon as there is one; where the process ends too soon, one for what it was
    at, and the rest in a new one.
    """
    while paths:
        with tempfile.TemporaryFile("w+") as errors:
            child = subprocess.Popen(
                [sys.executable, "-m", by, *named(package), *paths],
                env=environment(folders),
                text=True,
                stdout=subprocess.PIPE,
                stderr=errors,
            )
            for line in child.stdout or ():
                paths = paths[1:]
                yield json.loads(line)
            status = child.wait()
            errors.seek(0)
            said = (errors.read().strip().splitlines() or [""])[-1][:300]
        if paths:
            yield {
                **NO_ROW,
                "class": paths[0],
                "said": [f"the process ended with status {status}: {said}"],
            }
            paths = paths[1:]


def kept(log: Path, names: tuple[str, ...] = KEY) -> dict[tuple[str, ...], Row]:
    "Rows of earlier runs, by package, version and class, or by what is named; the last one counts."
    lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
    rows = [json.loads(line) for line in lines]
    return {key(row, names): row for row in rows}


def keep(log: Path, row: Row) -> None:
    "Add a row to those of earlier runs."
    with log.open("a", encoding="utf-8") as out:
        out.write(as_line(row))


def as_line(row: Row) -> str:
    "A row as it is kept."
    return json.dumps(row, ensure_ascii=False) + "\n"


def key(row: Row, names: tuple[str, ...] = KEY) -> tuple[str, ...]:
    "What makes a row another row."
    return tuple(row[name] for name in names)


def meant(package: str, path: str, pattern: str) -> bool:
    "Whether a subject is asked for."
    return fnmatch(f"{package}:{path}", f"*{pattern}*")


def forget(log: Path, pattern: str) -> None:
    "Drop the rows that are asked for, and no others."
    rows = [row for row in kept(log).values() if not meant(row["package"], row["class"], pattern)]
    log.write_text("".join(map(as_line, rows)), encoding="utf-8")


def tried(package: Package, pattern: str, cache: Path, digest: str) -> list[Row]:
    "The rows of one package: those that are kept, and the rest, each kept at once."
    log, about = (
        cache / "rows.jsonl",
        {"package": package.name, "version": package.version, "checks": digest},
    )
    have, folders = kept(log), installed(package, cache)
    paths = [path for path in listed(package, folders) if meant(package.name, path, pattern)]
    left = [path for path in paths if key({**about, "class": path}) not in have]
    for row in judged(package, folders, left):
        row = {**about, **row}
        keep(log, row)
        have[key(row)] = row
    rows = [have[key({**about, "class": path})] for path in paths]
    print(
        (
            f"{package.name} {package.version}: {len(rows)} tried, {count(rows, 'ok')} ok, "
            f"{count(rows, 'refused')} refused"
        ),
        file=sys.stderr,
        flush=True,
    )
    return rows


def attempted(package: Package, pattern: str, cache: Path, digest: str) -> list[Row]:
    "The same; a package that cannot be installed or read is said, and the rest goes on."
    try:
        return tried(package, pattern, cache, digest)
    except (OSError, RuntimeError, subprocess.CalledProcessError) as error:
        print(f"{package.name} {package.version}: {error}", file=sys.stderr, flush=True)
        return []


def count(rows: list[Row], verdict: str) -> int:
    "How many rows have this verdict."
    return sum(row["verdict"] == verdict for row in rows)


def summary(rows: list[Row]) -> dict[str, Any]:
    "Numbers of the table that need no reading."
    ok = [row for row in rows if row["verdict"] == "ok"]
    seconds = [row["seconds"] for row in rows if row["verdict"] in ("ok", "refused")]
    return {
        "tried": len(seconds),
        "packages": len({row["package"] for row in rows}),
        "ok": len(ok),
        "refused": count(rows, "refused"),
        "untried": len(rows) - len(ok) - count(rows, "refused"),
        "own_weights": sum(row["compared"] == "own weights" for row in ok),
        "median_seconds": round(median(seconds or [0.0]), 2),
        "most_seconds": max(seconds, default=0.0),
    }


def written(rows: list[Row], to: Path, digest: str) -> None:
    """The table, beside what it was made with; rows that were not asked for now are kept,
    if their package still is that one.
    """
    ran, now = (
        {(row["package"], row["class"]) for row in rows},
        {(row["package"], row["version"]) for row in rows},
    )
    others = {package for package, _ in now}
    old = json.loads(to.read_text(encoding="utf-8"))["rows"] if to.exists() else []
    rows = rows + [
        row
        for row in old
        if (row["package"], row["class"]) not in ran
        and (row["package"] not in others or (row["package"], row["version"]) in now)
    ]
    rows = sorted(rows, key=lambda row: (row["package"].lower(), row["class"]))
    about = {
        "date": datetime.date.today().isoformat(),
        "python": platform.python_version(),
        "checks": [digest],
        **{name: importlib.metadata.version(name) for name in ("torch", "attention_nb")},
    }
    write_table(to, about, summary(rows), [published(row) for row in rows])
    print(json.dumps(summary(rows)), file=sys.stderr)


def published(row: Row) -> Row:
    "What is kept of a row in the repository; all of it stands in the log below build/."
    kept = {name: row[name] for name in SHOWN if name in row}
    return (
        kept
        if row["verdict"] != "untried" or "why" in row
        else {**kept, "why": (row.get("said") or [""])[0][:120]}
    )


def write_table(to: Path, about: Row, figures: Row, rows: list[Row]) -> None:
    "Write a table as JSON, a line for each row."
    parts = [
        f' "{name}": {json.dumps(value, ensure_ascii=False)}'
        for name, value in (("about", about), ("summary", figures))
    ]
    lines = ",\n".join(f"  {json.dumps(row, ensure_ascii=False)}" for row in rows)
    to.write_text(
        "{\n" + ",\n".join(parts) + ',\n "rows": [\n' + lines + "\n ]\n}\n", encoding="utf-8"
    )


def main(argv: list[str] | None = None) -> None:
    "The command line."
    parser = argparse.ArgumentParser(prog="python -m tests.third_party.run", description=__doc__)
    parser.add_argument(
        "--only",
        default="",
        metavar="PATTERN",
        help="only subjects whose package:class has this in it, as in a shell",
    )
    parser.add_argument("--jobs", type=int, default=1, help="packages at a time (default: 1)")
    parser.add_argument("--fresh", action="store_true", help="try again what was tried")
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
        help="the table to write (default: tests/third_party/results.json)",
    )
    parser.add_argument(
        "--packages",
        type=Path,
        default=PACKAGES,
        metavar="FILE",
        help="what is tried; its tables lie beside it (default: tests/third_party/packages.txt)",
    )
    asked = parser.parse_args(argv)
    asked.cache.mkdir(parents=True, exist_ok=True)
    if asked.fresh:
        forget(asked.cache / "rows.jsonl", asked.only)
    digest = checks_digest()
    chosen = [
        p
        for p in packages(asked.packages)
        if ":" not in asked.only or fnmatch(f"{p.name}:", f"*{asked.only.partition(':')[0]}:")
    ]
    with ThreadPoolExecutor(asked.jobs) as pool:
        found = list(pool.map(lambda p: attempted(p, asked.only, asked.cache, digest), chosen))
    written([row for rows in found for row in rows], asked.to, digest)


if __name__ == "__main__":
    main()
