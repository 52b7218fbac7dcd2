"""`python -m tests.third_party.planted PACKAGES.TXT PACKAGE EDIT…`: plant some bugs in a package's
classes, and print a line of JSON for each.
"""

from __future__ import annotations

import importlib
import json
import linecache
import sys
import types
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from tests.third_party.edits import Edit, edits
from tests.third_party.families import D
from tests.third_party.judge import row
from tests.third_party.subjects import Subject, packages


def planted(edit: Edit) -> Any:
    "The class, from its file with one line changed; the file itself stays as it is."
    name, _, cls = edit.path.partition(":")[0].rpartition(".")
    original = importlib.import_module(name)
    source = edit.apply(Path(str(original.__file__)).read_text(encoding="utf-8"))
    # packages read their own paths
    module, file = types.ModuleType(name), f"/planted/{edit.key}/{edit.file}"
    vars(module).update(__package__=original.__package__, __file__=file, __spec__=original.__spec__)
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    exec(compile(source, file, "exec"), vars(module))
    return getattr(module, cls)


def numbers(subject: Subject, thing: Any, mode: str) -> Any:
    "What a layer gives for a random input in one mode; or the name of what it raises."
    torch.manual_seed(1)
    x, call = torch.randn(2, 7, D), subject.call or (lambda m, x: m(x))
    try:
        made = subject.make(thing)
        made.load_state_dict(drawn(subject), strict=False)
        made.train(mode == "training")
        out = call(made.bfloat16(), x.bfloat16()) if mode == "bfloat16" else call(made, x)
    except Exception as error:
        return type(error).__name__
    return out[0] if isinstance(out, tuple) else out


def drawn(subject: Subject) -> dict[str, torch.Tensor]:
    "Random numbers for all parameters: gains of 1 and biases of 0 could hide an edit."
    torch.manual_seed(2)
    return {
        name: torch.randn_like(p) * 0.3
        for name, p in subject.make(subject.found()).named_parameters()
    }


def differs(subject: Subject, thing: Any) -> list[str]:
    "The modes in which the edited class gives other numbers than the published one."

    def same(a: Any, b: Any) -> bool:
        return (
            a == b
            if isinstance(a, str) or isinstance(b, str)
            else a.shape == b.shape and torch.allclose(a, b, equal_nan=True)
        )

    found = subject.found()
    return [
        mode
        for mode in ("evaluation", "training", "bfloat16")
        if not same(numbers(subject, thing, mode), numbers(subject, found, mode))
    ]


def judged(subject: Subject, edit: Edit) -> dict[str, Any]:
    "A line of the table."
    thing = planted(edit)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        modes = differs(subject, thing)
    return {
        **row(replace(subject, make=lambda _: subject.make(thing))),
        "class": edit.name,
        "differs": modes,
    }


def main(lines: Path, name: str, only: list[str]) -> None:
    "Try some edits of one package; nothing but rows goes to standard output."
    out, sys.stdout = sys.stdout, sys.stderr
    torch.set_num_threads(1)
    package = next(p for p in packages(lines) if p.name == name)
    subjects = {subject.path: subject for subject in package.subjects()}
    by_name = {edit.name: edit for edit in edits()}
    for each in only:
        print(
            json.dumps(judged(subjects[by_name[each].path], by_name[each]), ensure_ascii=False),
            file=out,
            flush=True,
        )


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:])
