"""attention-nb check: the same checks from a terminal, for code in a module or a file."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
from argparse import BooleanOptionalAction as Switch
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch.nn as nn

import attention_nb
from attention_checks.api import (
    check_attention,
    check_cache,
    check_cross_attention,
    check_distributed,
    check_flash,
    check_masked_softmax,
    check_positions,
    check_self_attention,
    check_softmax,
)
from attention_checks.distributed.shards import ORDERS
from attention_checks.examine import NeedsMore, first_line
from attention_checks.loading import Unusable, load, made, required_by, written_at
from attention_checks.report import CheckFailed, Report
from attention_checks.signatures import name_of, parameters_of
from attention_checks.spec import choices_of, contract_options

_CHECKS: dict[str, Callable[..., Report]] = {  # what a function or a layer is → its check
    "attention": check_attention,
    "flash": check_flash,
    "softmax": check_softmax,
    "masked-softmax": check_masked_softmax,
    "positions": check_positions,
    "cache": check_cache,
    "layer": check_self_attention,
    "distributed": check_distributed,
}
_OF_RANKS = ("order", "worlds", "even", "empty_ranks")  # options for attention over ranks alone
_TAKES = {  # kind → options that its check takes, besides what a contract holds
    "attention": ("causal", "strict"),
    "flash": ("causal",),
    "cache": ("d_model",),
    "distributed": ("causal", "strict", "n_heads", "n_kv_heads", *_OF_RANKS),
}
_FOR = {"call": "layers", "d_memory": "layers", **dict.fromkeys(_OF_RANKS, "ranks")}
_ABOUT = "Say what is wrong with an attention layer or function, and what the bug probably is."
_STATUS = (
    "Exit status: 0 all is sound, 1 there is a bug, 2 something was not compared or could not be"
    " checked. Example: %(prog)s mylib.layers:CausalAttention --d-model 64 --n-heads 4 --causal"
)
_TARGET = (
    "package.module:name or folder/file.py:name of a layer, its class, a function that makes one,"
    " or a function of (q, k, v), (x, dim) or (scores, mask);"
    " default: all that pyproject.toml lists"
)


class Finding(NamedTuple):
    "Hold a report, and where its subject is written."

    report: Report
    file: str = ""  # as seen from the folder where the command runs; empty if there is none
    line: int = 1  # where it begins


_NUMBER: dict[str, Any] = {"type": int, "metavar": "NUMBER"}
_WIDTH: dict[str, Any] = {"type": int, "metavar": "WIDTH"}
_SETTING = {"action": "append", "default": [], "metavar": "NAME=VALUE"}
_STRICT = {"default": True, "help": "what could be compared with nothing is not accepted"}
_OPTIONS: dict[str, dict[str, Any]] = {  # of `check`, as argparse takes them
    "d_model": {**_WIDTH, "help": "width of a layer's input"},
    "d_memory": {**_WIDTH, "help": "width of a memory: it is called as layer(x, memory)"},
    "n_heads": {**_NUMBER, "help": "number of heads (default: what the layer says)"},
    "n_kv_heads": {**_NUMBER, "help": "number of key heads (default: what widths tell)"},
    "causal": {"action": Switch, "help": "it hides the future"},
    "positions": {"action": Switch, "help": "it knows positions (RoPE, ALiBi, …)"},
    "call": {"metavar": "TARGET", "help": "function of layer and x (and memory) to call it"},
    **contract_options(),
    "order": {"choices": list(ORDERS), "help": "over ranks: which rank holds which tokens"},
    "worlds": {**_NUMBER, "action": "append", "help": "over ranks: how many; may be repeated"},
    "even": {"action": Switch, "help": "over ranks: it takes equal shards alone"},
    "empty_ranks": {"action": Switch, "help": "a rank may hold no token (default: it may)"},
    "as": {"dest": "kind", "choices": list(_CHECKS), "help": "what it is (default: find out)"},
    "set": {**_SETTING, "help": "an argument of the class; may be repeated"},
    "strict": {"action": Switch, **_STRICT},
    "format": {"choices": ["text", "json"], "default": "text", "help": "how to write it"},
}


def _parser(prog: str) -> argparse.ArgumentParser:
    "Return the parser of the command line."
    parser = argparse.ArgumentParser(prog=prog, description=_ABOUT)
    version = f"attention-nb {attention_nb.__version__}"
    parser.add_argument("--version", action="version", version=version)
    commands = parser.add_subparsers(dest="command", required=True, metavar="check")
    check = commands.add_parser(
        "check", help="check a layer or a function", description=_ABOUT, epilog=_STATUS
    )
    check.add_argument("target", nargs="?", help=_TARGET)
    for name, option in _OPTIONS.items():
        check.add_argument(f"--{name.replace('_', '-')}", **option)
    return parser


def _kind(thing: Any, args: argparse.Namespace) -> str:
    "Return what something is: as declared, or by the names of its parameters."
    if args.kind or isinstance(thing, nn.Module):
        return args.kind or "layer"
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


def _check(args: argparse.Namespace) -> Report:
    "Load, make and check what the command line names."
    thing = made(load(args.target), args)
    kind = _kind(thing, args)
    if kind == "layer":
        return _check_layer(thing, args)
    takes = _TAKES.get(kind, ())
    for option, what in _FOR.items():
        if option not in takes and getattr(args, option) is not None:
            says = f"--{option.replace('_', '-')} is for {what}"
            raise Unusable(f"{says}; {name_of(thing)} is a {kind}")
    if "d_model" in takes:
        _width(args)
    given = {name: getattr(args, name) for name in takes}
    given = {name: value for name, value in given.items() if value is not None}
    return _CHECKS[kind](thing, **given, **choices_of(args))


def _width(args: argparse.Namespace) -> int:
    "Return the width of a layer's input."
    if args.d_model is None:
        raise Unusable("a layer needs --d-model, the width of its input")
    width: int = args.d_model
    return width


def _check_layer(layer: Any, args: argparse.Namespace) -> Report:
    "Check a layer, called with its input alone, or with `--call`."
    width = _width(args)
    call = load(args.call) if args.call else None
    heads = {"n_heads": args.n_heads, "n_kv_heads": args.n_kv_heads}
    how = {"call": call, "strict": args.strict, **heads, **choices_of(args)}
    if args.d_memory is not None:
        for option in ("causal", "positions"):
            if getattr(args, option):
                raise Unusable(
                    f"--{option} is for self-attention; --d-memory makes it cross-attention"
                )
        return check_cross_attention(layer, width, args.d_memory, **how)
    how["positions"] = args.positions
    try:
        return check_self_attention(layer, width, bool(args.causal), **how)
    except CheckFailed as e:
        if not {"shape.call", "shape.arguments"} & set(e.report.codes):
            raise
    except NeedsMore:
        pass
    raise Unusable(
        f"{name_of(layer)} cannot be called with x alone, it needs"
        f" {', '.join(required_by(layer))}: name a function of yours that calls it,"
        " --call module:function"
    )


def _find(args: argparse.Namespace) -> Finding:
    "Check what the command line names; return the report, and where its subject is written."
    place = written_at(load(args.target))
    try:
        return Finding(_check(args), *place)
    except CheckFailed as e:
        return Finding(e.report, *place)


def _written(findings: Sequence[Finding], form: str) -> str:
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


def _arguments(row: dict[str, Any]) -> Iterator[str]:
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


def _asked(args: argparse.Namespace, parser: argparse.ArgumentParser) -> list[argparse.Namespace]:
    "Return what is to be checked: what the command names, or what the table lists."
    if args.target:
        return [args]
    rows = _listed(Path("pyproject.toml"))
    return [parser.parse_args(["check", *_arguments(row)]) for row in rows]


def write(text: str) -> None:
    "Print a text; a pipe that was closed, as by `| head`, is no error."
    try:
        print(text, flush=True)
    except BrokenPipeError:  # or Python prints an error at its end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def main(
    argv: Sequence[str] | None = None,  # arguments; default: those of this process
    prog: str = "attention-nb",  # how it was called, for its help and its errors
) -> int:  # exit status: 0 all is sound, 1 there is a bug, 2 not compared or not checked
    "Run `attention-nb`."
    parser = _parser(prog)
    args = parser.parse_args(argv)
    findings, errors = [], []
    try:
        asked = _asked(args, parser)
    except Unusable as e:
        return unusable(prog, str(e))
    for one in asked:
        try:
            findings.append(_find(one))
        except (Unusable, TypeError, ValueError) as e:
            errors.append(unusable(prog, str(e)))
        except Exception as e:
            errors.append(unusable(prog, f"{one.target}: {first_line(e)}"))
    if findings:
        write(_written(findings, args.format))
    return max([*errors, *(_status(finding.report) for finding in findings)])


def _status(report: Report) -> int:
    "Return the exit status of a report."
    if report.ok:
        return 0
    return 1 if report.verdict == "bug" else 2


def unusable(prog: str, why: str) -> int:
    "Say why something could not be checked; return the exit status for that."
    print(f"{prog}: {why}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(prog="python -m attention_checks.cli"))
