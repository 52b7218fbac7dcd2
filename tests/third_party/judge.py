"""`python -m tests.third_party.judge PACKAGES.TXT PACKAGE CLASS…`: try some subjects of a package,
and print a line of JSON for each.
"""

from __future__ import annotations

import json
import signal
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import attention_checks as checks
from attention_checks.outcomes import Misused
from attention_checks.report import CheckFailed, Report
from tests.third_party.subjects import Subject, packages

LIMIT = 60  # seconds for one subject
# What a report calls it → what stands in the table.
AGAINST = {"its own weights": "own weights", "": "nothing"}


class TimedOut(BaseException):
    "Not an Exception: the checks go on after those."


@contextmanager
def limited(seconds: int) -> Iterator[None]:
    "Raise TimedOut inside after some seconds of the processor."

    def stop(*_: object) -> None:
        raise TimedOut

    signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def found(subject: Subject) -> Report:
    "The report of the check, whether it passes or not."
    check = getattr(checks, subject.check)
    options = {**subject.declared, **({"call": subject.call} if subject.call else {})}
    torch.manual_seed(0)
    thing = subject.made()
    try:
        return check(thing, **options)
    except CheckFailed as error:
        return error.report


def verdict(subject: Subject) -> dict[str, Any]:
    "What came out, or why nothing did."
    try:
        with limited(LIMIT), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            report = found(subject)
    except TimedOut:
        return {"verdict": "untried", "said": [f"it took longer than {LIMIT} seconds"]}
    except Exception as error:
        kind = "misused" if isinstance(error, Misused) else "untried"
        return {"verdict": kind, "said": [f"{type(error).__name__}: {str(error)[:300]}"]}
    said = [f"{f.property}: {f.example}" for f in report.failed] or [
        f"{name}: {why}" for name, why, _ in report.notes
    ]
    return {
        "verdict": "refused" if report.failed else "ok",
        "codes": report.codes,
        "said": [s[:400] for s in said],
        "compared": AGAINST.get(report.compared, report.compared) if not report.failed else "",
    }


def row(subject: Subject) -> dict[str, Any]:
    "A line of the table."
    begin = time.process_time()  # of the processor: others may use it, too
    result = verdict(subject)
    seconds = round(time.process_time() - begin, 2)
    try:
        file, line = subject.written()
    except Exception:
        file, line = "", 0
    declared = {
        name: value
        for name, value in subject.declared.items()
        if isinstance(value, (str, int, float, list))
    }
    return {
        "class": subject.path,
        "file": file,
        "line": line,
        "check": subject.check,
        "declared": declared,
        "called": subject.call is not None,
        "seconds": seconds,
        "codes": [],
        "compared": "",
        **result,
    }


def main(lines: Path, name: str, only: list[str]) -> None:
    "Try some subjects of one package; nothing but rows goes to standard output."
    out, sys.stdout = sys.stdout, sys.stderr
    torch.set_num_threads(1)
    package = next(p for p in packages(lines) if p.name == name)
    subjects = {subject.path: subject for subject in package.subjects()}
    for path in only:
        print(json.dumps(row(subjects[path]), ensure_ascii=False), file=out, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:])
