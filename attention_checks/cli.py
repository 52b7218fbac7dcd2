"""attention-nb check: the same checks for people who have a module and no notebook."""

from __future__ import annotations

import argparse
import ast
import difflib
import importlib
import inspect
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch.nn as nn

import attention_nb
from attention_checks.api import (
    check_attention,
    check_cross_attention,
    check_masked_softmax,
    check_self_attention,
    check_softmax,
)
from attention_checks.conventions import (
    CAUSAL,
    HEADS,
    KV_HEADS,
    LENGTHS,
    MEMORY_WIDTHS,
    WIDTHS,
    is_dropout,
)
from attention_checks.formats import FORMATS, Finding, written_at
from attention_checks.report import (
    CheckFailed,
    NeedsMore,
    Report,
    first_line,
    name_of,
    parameters_of,
)
from attention_checks.spec import choices_of, contract_options

_KINDS = ("attention", "layer", "softmax", "masked-softmax")


class _Unusable(Exception):
    "Why something named on the command line cannot be checked."


def _load(target: str) -> Any:
    "The thing that `package.module:name` or `folder/file.py:name` names."
    found = re.fullmatch(r"(.+\.py|[^.:/\\][^:/\\]*):(.+)", target)
    if not found:
        likely = "such as mylib.layers:SelfAttention or src/layers.py:SelfAttention"
        raise _Unusable(
            f"expected package.module:name or folder/file.py:name, {likely}; got {target!r}"
        )
    place, path = found.groups()
    thing = _import_file(Path(place)) if place.endswith(".py") else _import(place, Path.cwd())
    for part in path.split("."):
        if not hasattr(thing, part):
            near, names = difflib.get_close_matches(part, dir(thing)), _names(thing)
            hint = (
                f"; did you mean {' or '.join(near)}?"
                if near
                else f"; it has: {', '.join(names)}"
                if names
                else ""
            )
            raise _Unusable(f"{name_of(thing)} has no {part!r}{hint}")
        thing = getattr(thing, part)
    if not callable(thing):
        raise _Unusable(
            f"{path} of {place} is of type {type(thing).__name__}, and cannot be called"
        )
    return thing


def _import(name: str, folder: Path) -> Any:
    "A module, looked for in a folder first."
    sys.path.insert(0, str(folder))
    try:
        return importlib.import_module(name)
    except (Exception, SystemExit) as e:  # a script may end itself
        where = f"; looked in {folder} first" if isinstance(e, ModuleNotFoundError) else ""
        raise _Unusable(f"cannot import {name}: {first_line(e)}{where}") from e


def _import_file(file: Path) -> Any:
    "The module in a file, by the name that it has in its package."
    if not file.is_file():
        raise _Unusable(f"expected a file of Python; there is no {file} in {Path.cwd()}")
    folder, names = file.resolve().parent, [file.stem]
    while (folder / "__init__.py").exists():
        folder, names = folder.parent, [folder.name, *names]
    module = _import(".".join(names), folder)
    origin = getattr(module, "__file__", None) or "built in"
    if Path(origin).resolve() != file.resolve():
        raise _Unusable(
            f"{file} cannot be imported as {module.__name__}, the name of another module ({origin}): rename it"
        )
    return module


def _names(thing: Any) -> list[str]:
    "What a module or a class is there for: its list of public names, or its layers and what it defines."
    here = getattr(thing, "__name__", None)
    found = {
        n: v
        for n, v in getattr(thing, "__dict__", {}).items()
        if callable(v) and not n.startswith("_")
    }
    mine = [
        n
        for n, v in found.items()
        if isinstance(v, nn.Module) or getattr(v, "__module__", here) == here
    ]
    return list(getattr(thing, "__all__", mine))


def _settings(pairs: Sequence[str]) -> dict[str, Any]:
    "name=value as Python understands the value."
    found = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals:
            raise _Unusable(f"--set: expected name=value; got {pair!r}")
        try:
            found[name] = ast.literal_eval(text)
        except (ValueError, SyntaxError):
            found[name] = text
    return found


_OPTIONS = {
    name: option
    for option, names in {
        "--d-model": WIDTHS,
        "--d-memory": MEMORY_WIDTHS,
        "--n-heads": HEADS,
        "--n-kv-heads": KV_HEADS,
    }.items()
    for name in names
}


def _guess(name: str, args: argparse.Namespace) -> Any:
    "What an argument of this name is given; None if an option should have told."
    if is_dropout(name):
        return 0.0
    option = _OPTIONS.get(name, "").removeprefix("--").replace("-", "_")  # as argparse calls it
    return getattr(args, option) if option else 64 if name in LENGTHS else None


def _is_setting(name: str) -> bool:
    "Whether an argument of this name can be guessed, or said by an option."
    return name in _OPTIONS or name in LENGTHS or is_dropout(name)


def _make(maker: Callable[..., Any], args: argparse.Namespace) -> Any:
    "An object of a class, or what a function makes, with arguments guessed from their names."
    kwargs = _arguments(maker, args)
    call = f"{name_of(maker)}({', '.join(f'{k}={v!r}' for k, v in kwargs.items())})"
    try:
        made = maker(**kwargs)
    except (Exception, SystemExit) as e:
        vague = any(map(_holds_settings, inspect.signature(maker).parameters.values()))
        raise _Unusable(
            f"{call} raised {first_line(e)}" + f"; {_write_one(maker, args)}" * vague
        ) from e
    if not callable(made):
        raise _Unusable(
            f"{call} gives {type(made).__name__}, which cannot be called; expected a layer or a function"
        )
    return made


def _arguments(maker: Callable[..., Any], args: argparse.Namespace) -> dict[str, Any]:
    "What to call it with."
    given, kwargs = _settings(args.set), {}
    for name, p in inspect.signature(maker).parameters.items():
        if name in given:
            kwargs[name] = given.pop(name)
        elif (guess := _guess(name, args)) is not None and (
            p.default is p.empty or name in (*HEADS, *KV_HEADS, *MEMORY_WIDTHS)
        ):
            kwargs[name] = guess
        elif name in CAUSAL and args.causal:
            kwargs[name] = True
        elif p.default is p.empty and p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY):
            option = f"say it with {_OPTIONS.get(name, f'--set {name}=…')}"
            raise _Unusable(
                f"{name_of(maker)} needs {name!r}: {_write_one(maker, args) if _holds_settings(p) else option}"
            )
    return kwargs | given


def _holds_settings(p: inspect.Parameter) -> bool:
    "Whether a parameter, by its name or type, is an object of settings, or takes whatever comes (**kwargs)."
    return re.search("cfg|conf|args|params|opts|options|settings", str(p).lower()) is not None


def _write_one(maker: Callable[..., Any], args: argparse.Namespace) -> str:
    "What to do if arguments cannot be said in a command."
    module, name = args.target.rpartition(":")[0], name_of(maker)
    return f"write a function that makes the layer, such as def make_layer(): return {name}(…), and check {module}:make_layer"


def _needed(thing: Any) -> list[str]:
    "The names of the arguments that something called needs."
    parameters = (parameters_of(thing) or {}).values()
    return [p.name for p in parameters if p.default is p.empty and p.kind is not p.VAR_KEYWORD]


def _makes(thing: Any, args: argparse.Namespace) -> bool:
    "Whether it is a class, or a function whose first argument is a setting."
    if inspect.isclass(thing) or isinstance(thing, nn.Module) or parameters_of(thing) is None:
        return inspect.isclass(thing)
    needed = _needed(thing)
    return not needed or _is_setting(needed[0]) or needed[0] in _settings(args.set)


def _kind(thing: Any, args: argparse.Namespace) -> str:
    "What something is, from the names of its parameters."
    if args.kind or isinstance(thing, nn.Module):
        return args.kind or "layer"
    if parameters_of(thing) is None:
        raise _Unusable(f"{name_of(thing)} does not tell its parameters: say what it is with --as")
    needed = _needed(thing)
    if len(needed) >= 3 or needed and needed[0].startswith(("q", "Q")):
        return "attention"
    if args.d_model is not None:  # a softmax has none
        maker = f"a function that makes one? Then say --set {needed[0]}=…"
        raise _Unusable(
            f"{name_of(thing)}({', '.join(needed)}): a layer, called with rows? Then say --as layer; {maker}"
        )
    return (
        "masked-softmax"
        if any("mask" in name for name in list(parameters_of(thing) or ())[:2])
        else "softmax"
    )


_KIND = {"attention": "functions of q, k and v", "layer": "layers"}  # in words
_FOR = {
    "mask": ["attention"],
    "sinks": ["attention"],
    "documents": ["attention"],
    "call": ["layer"],
    "d_memory": ["layer"],
    "window": ["attention", "layer"],
}


def _check(args: argparse.Namespace) -> Report:
    "Load, make and check what the command line names."
    thing = _load(args.target)
    if _makes(thing, args):
        thing = _make(thing, args)
    kind = _kind(thing, args)
    if unfit := next(
        (option for option, kinds in _FOR.items() if getattr(args, option) and kind not in kinds),
        None,
    ):
        said = " and ".join(_KIND[each] for each in _FOR[unfit])
        raise _Unusable(
            f"--{unfit.replace('_', '-')} is for {said}; {name_of(thing)} is {'a function' if kind == 'attention' else f'a {kind}'}"
        )
    if kind == "layer":
        return _check_layer(thing, args)
    if kind == "attention":
        return check_attention(
            thing,
            args.causal,
            args.mask,
            window=args.window,
            sinks=args.sinks,
            documents=args.documents,
            strict=args.strict,
            **choices_of(args),
        )
    if choices := choices_of(args):
        raise _Unusable(
            f"--{next(iter(choices)).replace('_', '-')} is for attention; {name_of(thing)} is a {kind}"
        )
    return {"softmax": check_softmax, "masked-softmax": check_masked_softmax}[kind](thing)


def _check_layer(layer: Any, args: argparse.Namespace) -> Report:
    "Check a layer, as far as rows are all that it needs."
    if args.d_model is None:
        raise _Unusable("a layer needs --d-model, the width of its rows")
    call = _load(args.call) if args.call else None
    if args.d_memory is not None:
        if unfit := next(
            (option for option in ("causal", "positions", "window") if getattr(args, option)), None
        ):
            raise _Unusable(f"--{unfit} is for self-attention; --d-memory makes it cross-attention")
        return check_cross_attention(
            layer,
            args.d_model,
            args.d_memory,
            args.n_heads,
            call,
            args.strict,
            args.n_kv_heads,
            **choices_of(args),
        )
    try:
        return check_self_attention(
            layer,
            args.d_model,
            args.causal,
            args.n_heads,
            args.positions or None,
            call,
            args.strict,
            args.window,
            args.n_kv_heads,
            **choices_of(args),
        )
    except CheckFailed as e:
        if not {"shape.call", "shape.arguments"} & set(e.report.codes):
            raise
    except NeedsMore:
        pass
    raise _Unusable(
        f"{name_of(layer)} cannot be called with rows alone, it needs {', '.join(_needed(layer))}: name a"
        " function of yours that calls it, --call module:function"
    )


def _find(args: argparse.Namespace) -> Finding:
    "Check what the command line names; the report, and where its subject is written."
    place = written_at(_load(args.target))
    try:
        return Finding(_check(args), *place)
    except CheckFailed as e:
        return Finding(e.report, *place)


_ABOUT = "Say what is wrong with an attention layer or function, and what the bug probably is."
_STATUS = (
    "Exit status: 0 all properties hold, 1 some do not, 2 something could not be checked. Example: "
    "%(prog)s mylib.layers:CausalAttention --d-model 64 --n-heads 4 --causal"
)
_TARGET = (
    "package.module:name or folder/file.py:name of a layer, its class, a function that makes one, "
    "or a function of (q, k, v), (x, dim) or (scores, mask); default: all that pyproject.toml lists"
)


def _number(help: str, metavar: str = "NUMBER", **more: Any) -> dict[str, Any]:
    return {"type": int, "metavar": metavar, "help": help, **more}


def _switch(help: str) -> dict[str, Any]:
    return {"action": "store_true", "help": help}


_GRAMMAR = {  # as its help lists them
    "--d-model": _number("width of the rows of a layer's input", "WIDTH"),
    "--d-memory": _number(
        "width of the rows of a memory: it is called as layer(x, memory)", "WIDTH"
    ),
    "--n-heads": _number("number of heads (default: what the layer says)"),
    "--n-kv-heads": _number("number of heads of keys and values (default: what their widths tell)"),
    "--causal": _switch("it hides the future"),
    "--positions": _switch("it knows the order of words (RoPE, ALiBi, …)"),
    "--mask": dict(
        choices=["allowed", "blocked", "bias"], help="what the mask of a function means"
    ),
    "--window": _number("how many words a word sees, itself included"),
    "--sinks": _number("of a function: first keys that are seen besides", default=0),
    "--documents": _number("of a function: words of each text in a packed row"),
    "--call": dict(
        metavar="TARGET",
        help="package.module:function of layer and rows (and memory) that calls it",
    ),
    **{f"--{name.replace('_', '-')}": option for name, option in contract_options().items()},
    "--as": dict(dest="kind", choices=_KINDS, help="what it is (default: find out)"),
    "--set": dict(
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="an argument of the class; may be repeated",
    ),
    "--strict": _switch("it fails if there is nothing to compare its numbers with"),
    "--format": dict(choices=list(FORMATS), default="text", help="how to write it (default: text)"),
}


def _parser(prog: str) -> argparse.ArgumentParser:
    "The command line's grammar."
    parser = argparse.ArgumentParser(prog=prog, description=_ABOUT)
    parser.add_argument(
        "--version", action="version", version=f"attention-nb {attention_nb.__version__}"
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="check")
    check = commands.add_parser(
        "check", help="check a layer or a function", description=_ABOUT, epilog=_STATUS
    )
    check.add_argument("target", nargs="?", help=_TARGET)
    for name, option in _GRAMMAR.items():
        check.add_argument(name, **option)
    return parser


def _toml(file: Path) -> dict[str, Any]:
    "A file of TOML, read by Python 3.11 and later, or by the package tomli."
    for name in ("tomllib", "tomli"):
        try:
            parsed: dict[str, Any] = importlib.import_module(name).loads(
                file.read_text(encoding="utf-8")
            )
            return parsed
        except ImportError:
            continue
        except ValueError as e:
            raise _Unusable(f"{file} cannot be read: {e}") from None
    raise _Unusable(f"to read {file}, Python 3.10 needs a package: pip install tomli")


def _rows(file: Path) -> list[dict[str, Any]]:
    "What `pyproject.toml` lists under [[tool.attention-nb.check]]."
    if not file.is_file():
        raise _Unusable(
            f"expected a target, or a {file} that lists some; there is none in {Path.cwd()}"
        )
    rows = _toml(file).get("tool", {}).get("attention-nb", {}).get("check", [])
    if (
        not isinstance(rows, list)
        or not rows
        or not all(isinstance(row, dict) and "target" in row for row in rows)
    ):
        raise _Unusable(
            f"{file}: expected [[tool.attention-nb.check]] with a target, once or more; got {rows!r}"
        )
    return rows


def _words(row: dict[str, Any]) -> Iterator[str]:
    "A row of the table, as words of the command line."
    yield row["target"]
    for option, value in row.items():
        values = value if isinstance(value, list) else [value]
        if isinstance(value, bool):
            yield from [f"--{option}"] * value
        elif option != "target":
            yield from (f"--{option}={one}" for one in values)


def _asked(args: argparse.Namespace, parser: argparse.ArgumentParser) -> list[argparse.Namespace]:
    "What is to be checked: what the command names, or else what the table lists."
    if args.target:
        return [args]
    return [parser.parse_args(["check", *_words(row)]) for row in _rows(Path("pyproject.toml"))]


def _say(text: str) -> None:
    "Print it, as far as somebody reads: `| head` does not."
    try:
        print(text, flush=True)
    except BrokenPipeError:
        os.dup2(
            os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno()
        )  # or Python prints an error at its end


def main(
    argv: Sequence[str]
    | None = None,  # the words of the command line; default: those it was called with
    prog: str = "attention-nb",  # how it was called, for its help and its errors
) -> int:  # exit status: 0 all properties hold, 1 some do not, 2 something could not be checked
    "Run `attention-nb`."
    parser = _parser(prog)
    args = parser.parse_args(argv)
    findings, status = [], 0
    try:
        asked = _asked(args, parser)
    except _Unusable as e:
        asked, status = [], _unusable(prog, str(e))
    for one in asked:
        try:
            findings.append(_find(one))
        except (_Unusable, TypeError, ValueError) as e:
            status = _unusable(prog, str(e))
        except Exception as e:
            status = _unusable(prog, f"{one.target}: {first_line(e)}")
    if findings:
        _say(FORMATS[args.format](findings))
    return status or int(not all(found.report.ok for found in findings))


def _unusable(prog: str, why: str) -> int:
    "Say why something could not be checked; the exit status for that."
    print(f"{prog}: {why}", file=sys.stderr)
    return 2


if __name__ == "__main__" and "__file__" in globals():  # a notebook is __main__ too, and no file
    sys.exit(main(prog="python -m attention_checks.cli"))
