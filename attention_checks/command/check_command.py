"""attention-nb check: the same checks from a terminal, for code in a module or a file."""

import argparse
import importlib
import inspect
import json
import os
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch.nn as nn

from attention_checks import api
from attention_checks.command.loading import (
    Unusable,
    load,
    made_as,
    parsed_settings,
    restored_path,
    written_at,
)
from attention_checks.outcomes import NeedsMore, first_line
from attention_checks.report import CheckFailed, Report
from attention_checks.their_code.signatures import name_of, parameters_of, required_by
from attention_nb_command import options, parsed

CHECKS: dict[str, Callable[..., Report]] = {  # what a function or a layer is → its check
    "layer": api.check_self_attention,
    "cross": api.check_cross_attention,
    "attention": api.check_attention,
    "flash": api.check_flash,
    "softmax": api.check_softmax,
    "masked-softmax": api.check_masked_softmax,
    "positions": api.check_positions,
    "cache": api.check_cache,
    "distributed": api.check_distributed,
}
TAKES = {  # kind → the arguments of its check, without what is checked
    kind: dict([*inspect.signature(check).parameters.items()][1:]) for kind, check in CHECKS.items()
}


class Finding(NamedTuple):
    "Hold a report, and where its subject is written."

    report: Report
    file: str = ""  # as seen from the folder where the command runs; empty if there is none
    line: int = 1  # where it begins


def _kind(thing: Any, args: argparse.Namespace) -> str:
    "Return what something is: as declared, or by the names of its parameters."
    if args.kind or isinstance(thing, nn.Module):
        kind: str = args.kind or "layer"
        return "cross" if kind == "layer" and args.d_memory is not None else kind
    name = name_of(thing)
    if parameters_of(thing) is None:
        raise Unusable(f"{name} does not tell its parameters: say what it is with --as")
    needed = required_by(thing)
    if len(needed) >= 3 or needed and needed[0].lower().startswith("q"):
        return "attention"
    if args.d_model is not None:  # a softmax has none
        raise Unusable(
            f"{name}({', '.join(needed)}): a layer, called with x? Then say --as layer;"
            f" a function that makes one? Then say --set {needed[0]}=…"
        )
    masked = any("mask" in each for each in list(parameters_of(thing) or ())[:2])
    return "masked-softmax" if masked else "softmax"


def _split_at_commas(value: Any) -> Any:
    "Return names that a comma separates as a tuple, and all else as it is."
    return tuple(value.split(",")) if isinstance(value, str) and "," in value else value


def _given(kind: str, args: argparse.Namespace, used: Collection[str]) -> dict[str, Any]:
    "Return the arguments of a check that the command line gives; Unusable for one too many."
    values = {name: getattr(args, name) for name in options()}
    given = {name: value for name, value in values.items() if value is not None}
    for name in given:
        if name not in TAKES[kind] and name not in used:
            option, kinds = name.replace("_", "-"), ", ".join(options()[name]["kinds"])
            raise Unusable(f"--{option} is for {kinds}; {args.target} is taken for {kind}")
    for name in given:
        if "Mapping" in options()[name]["type"]:
            settings = parsed_settings(given[name])
            given[name] = {key: _split_at_commas(value) for key, value in settings.items()}
    return {name: value for name, value in given.items() if name in TAKES[kind]}


def _check(args: argparse.Namespace) -> Report:
    "Load, make and check what the command line names."
    thing, used = made_as(load(args.target), args)
    kind = _kind(thing, args)
    given = _given(kind, args, used)
    _expect_required(kind, given)
    try:
        return CHECKS[kind](thing, **given)
    except CheckFailed as e:
        if kind != "layer" or not {"shape.call", "shape.arguments"} & set(e.report.codes):
            raise
    except NeedsMore:
        if kind != "layer":
            raise
    raise Unusable(
        f"{name_of(thing)} cannot be called with x alone, it needs"
        f" {', '.join(required_by(thing))}: name a function of yours that calls it,"
        " --call module:function"
    )


def _expect_required(kind: str, given: dict[str, Any]) -> None:
    "Raise Unusable unless all is given that a check cannot do without."
    for name, parameter in TAKES[kind].items():
        if parameter.default is parameter.empty and name not in given:
            option = name.replace("_", "-")
            raise Unusable(f"--as {kind} needs --{option}: {name}: {options()[name]['says']}")


def _finding_of(args: argparse.Namespace) -> Finding:
    "Check what the command line names; return the report, and where its subject is written."
    place = written_at(load(args.target))
    try:
        return Finding(_check(args), *place)
    except CheckFailed as e:
        return Finding(e.report, *place)


def _as_text(findings: Sequence[Finding], form: str) -> str:
    "Write findings as text, or as JSON: an object with one entry for each."
    if form == "text":
        return "\n\n".join(str(finding.report) for finding in findings)
    checks = [
        {**found.report.to_dict(), "file": found.file, "line": found.line} for found in findings
    ]
    return json.dumps({"checks": checks}, indent=2, ensure_ascii=False)


def _toml(file: Path) -> dict[str, Any]:
    "Return a file of TOML, read by Python 3.11 and later, or by the package tomli."
    for name in ("tomllib", "tomli"):
        try:
            module = importlib.import_module(name)
            parsed: dict[str, Any] = module.loads(file.read_text(encoding="utf-8"))
            return parsed
        except ImportError:
            continue
        except ValueError as e:
            raise Unusable(f"{file} cannot be read: {e}") from None
    raise Unusable(f"to read {file}, Python 3.10 needs a package: pip install tomli")


def _listed(file: Path) -> list[dict[str, Any]]:
    "Return what `pyproject.toml` lists under [[tool.attention-nb.check]]."
    if not file.is_file():
        raise Unusable(
            f"expected a target, or a {file} that lists some; there is none in {Path.cwd()}"
        )
    rows = _toml(file).get("tool", {}).get("attention-nb", {}).get("check", [])
    tables = isinstance(rows, list) and all(isinstance(row, dict) for row in rows)
    if not tables or not rows or not all("target" in row for row in rows):
        raise Unusable(
            f"{file}: expected [[tool.attention-nb.check]] with a target, once or more;"
            f" got {rows!r}"
        )
    return rows


def _words_of_table(row: dict[str, Any]) -> Iterator[str]:
    "Return a table of `pyproject.toml` as arguments of the command line."
    yield row["target"]
    for option, value in row.items():
        if option == "target":
            continue
        if isinstance(value, bool):
            yield f"--{option}" if value else f"--no-{option}"
            continue
        if isinstance(value, dict):
            value = [f"{key}={part}" for key, part in value.items()]
        for each in value if isinstance(value, list) else [value]:
            yield f"--{option}={each}"


def _command_lines(args: argparse.Namespace, words: Sequence[str]) -> list[Sequence[str]]:
    "Return the command lines to go through: the one that was given, or those of the table."
    if args.target:
        return [words]
    return [["check", *_words_of_table(row)] for row in _listed(Path("pyproject.toml"))]


def _finding_or_status(words: Sequence[str], prog: str) -> Finding | int:
    "Check what a command line names; return what was found, or the exit status of an error."
    try:
        return _finding_of(parsed(words, prog, ["check"], load))
    except SystemExit:  # argparse has said why
        return 2
    except (Unusable, TypeError, ValueError) as e:
        return unusable(prog, str(e))
    except Exception as e:
        return unusable(prog, f"{words[1]}: {first_line(e)}")


def write(text: str) -> None:
    "Print a text; a pipe that was closed, as by `| head`, is no error."
    try:
        print(text, flush=True)
    except BrokenPipeError:  # or Python prints an error at its end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@restored_path()
def main(
    argv: Sequence[str] | None = None,  # arguments; default: those of this process
    prog: str = "attention-nb",  # how it was called, for its help and its errors
) -> int:  # exit status: 0 all is sound, 1 there is a bug, 2 not compared or not checked
    "Run `attention-nb`."
    words = sys.argv[1:] if argv is None else argv
    args = parsed(words, prog, ["check"])
    try:
        asked = _command_lines(args, words)
    except Unusable as e:
        return unusable(prog, str(e))
    tried = [_finding_or_status(each, prog) for each in asked]
    findings = [each for each in tried if isinstance(each, Finding)]
    if findings:
        write(_as_text(findings, args.format))
    return max(map(_exit_status, tried))


def _exit_status(tried: Finding | int) -> int:
    "Return the exit status of what was found."
    if isinstance(tried, int):
        return tried
    if tried.report.ok:
        return 0
    return 1 if tried.report.verdict == "bug" else 2


def unusable(prog: str, why: str) -> int:
    "Say why something could not be checked; return the exit status for that."
    print(f"{prog}: {why}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(prog="python -m attention_checks.command.check_command"))
