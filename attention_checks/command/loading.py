"""Find what a command names, `package.module:name` or `file.py:name`, and make the layer."""

import argparse
import ast
import difflib
import importlib
import inspect
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch.nn as nn

from attention_checks.outcomes import first_line
from attention_checks.their_code.conventions import (
    CAUSAL,
    HEADS,
    KV_HEADS,
    LENGTHS,
    MEMORY_WIDTHS,
    WIDTHS,
    is_dropout,
)
from attention_checks.their_code.signatures import name_of, parameters_of, required_by

_TARGET = re.compile(r"(.+\.py|[^.:/\\][^:/\\]*):(.+)")
_OPTION_OF = {
    **dict.fromkeys(WIDTHS, "d_model"),
    **dict.fromkeys(MEMORY_WIDTHS, "d_memory"),
    **dict.fromkeys(HEADS, "n_heads"),
    **dict.fromkeys(KV_HEADS, "n_kv_heads"),
}
_ALWAYS = (*HEADS, *KV_HEADS, *MEMORY_WIDTHS)  # given also where the class has a default


@contextmanager
def restored_path() -> Iterator[None]:
    "Let folders be put in front of `sys.path` inside; it comes back as it was."
    before = list(sys.path)
    try:
        yield
    finally:
        sys.path[:] = before


class Unusable(Exception):
    "Raised where something that a command names cannot be checked, with the reason."


def load(
    target: str,  # package.module:name or folder/file.py:name
) -> Any:
    "Return what a target names; raise Unusable if there is none, or it cannot be called."
    parts = _TARGET.fullmatch(target)
    if not parts:
        raise Unusable(
            "expected package.module:name or folder/file.py:name, such as"
            f" mylib.layers:SelfAttention or src/layers.py:SelfAttention; got {target!r}"
        )
    module, path = parts.groups()
    thing = _import_file(Path(module)) if module.endswith(".py") else _import(module, Path.cwd())
    for part in path.split("."):
        if not hasattr(thing, part):
            raise Unusable(f"{name_of(thing)} has no {part!r}{_hint(thing, part)}")
        thing = getattr(thing, part)
    if not callable(thing):
        kind = type(thing).__name__
        raise Unusable(f"{path} of {module} is of type {kind}, and cannot be called")
    return thing


def _hint(thing: Any, name: str) -> str:
    "Return names that may have been meant, or all there are."
    if near := difflib.get_close_matches(name, dir(thing)):
        return f"; did you mean {' or '.join(near)}?"
    names = _public_names(thing)
    return f"; it has: {', '.join(names)}" if names else ""


def _public_names(thing: Any) -> list[str]:
    "Return the public names of a module or a class: those it lists, or what it defines."
    here = getattr(thing, "__name__", None)
    members = {
        name: value
        for name, value in getattr(thing, "__dict__", {}).items()
        if callable(value) and not name.startswith("_")
    }
    own = [
        name
        for name, value in members.items()
        if isinstance(value, nn.Module) or getattr(value, "__module__", here) == here
    ]
    return list(getattr(thing, "__all__", own))


def _import(name: str, folder: Path) -> Any:
    "Import a module, looked for in a folder first."
    sys.path.insert(0, str(folder))
    try:
        return importlib.import_module(name)
    except (Exception, SystemExit) as e:  # a script may end itself
        where = f"; looked in {folder} first" if isinstance(e, ModuleNotFoundError) else ""
        raise Unusable(f"cannot import {name}: {first_line(e)}{where}") from e


def _import_file(file: Path) -> Any:
    "Import the module in a file, by the name that it has in its package."
    if not file.is_file():
        raise Unusable(f"expected a file of Python; there is no {file} in {Path.cwd()}")
    folder, names = file.resolve().parent, [file.stem]
    while (folder / "__init__.py").exists():
        folder, names = folder.parent, [folder.name, *names]
    module = _import(".".join(names), folder)
    origin = getattr(module, "__file__", None) or "built in"
    if Path(origin).resolve() != file.resolve():
        raise Unusable(
            f"{file} cannot be imported as {module.__name__}, the name of another module"
            f" ({origin}): rename it"
        )
    return module


def written_at(thing: Any) -> tuple[str, int]:  # ("", 1) if there is none
    "Return the file, as seen from the working folder, and the line where something is defined."
    is_source = inspect.isroutine(thing) or inspect.isclass(thing)
    source = inspect.unwrap(thing) if is_source else type(thing)
    try:
        file, line = inspect.getsourcefile(source), inspect.getsourcelines(source)[1]
    except (OSError, TypeError):
        return "", 1
    path = Path(file or "").resolve()
    shown = os.path.relpath(path) if path.is_relative_to(Path.cwd()) else str(path)
    return shown.replace(os.sep, "/"), max(line, 1)


def parsed_settings(pairs: Sequence[str]) -> dict[str, Any]:
    "Return settings name=value, each value as Python understands it, or as a string."
    settings = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals:
            raise Unusable(f"expected name=value; got {pair!r}")
        try:
            settings[name] = ast.literal_eval(text)
        except (ValueError, SyntaxError):
            settings[name] = text
    return settings


def made_as(
    thing: Any,  # a layer, a function, a class, or a function that makes a layer
    args: argparse.Namespace,  # what the command says
) -> tuple[Any, set[str]]:  # and the options that were used to make it
    "Return a layer or a function as it is, or the object that a class or a maker makes."
    if not _is_maker(thing, args):
        return thing, set()
    kwargs = _arguments_for(thing, args)
    call = f"{name_of(thing)}({', '.join(f'{k}={v!r}' for k, v in kwargs.items())})"
    try:
        result = thing(**kwargs)
    except (Exception, SystemExit) as e:
        raise Unusable(f"{call} raised {first_line(e)}") from e
    if not callable(result):
        kind = type(result).__name__
        raise Unusable(
            f"{call} gives {kind}, which cannot be called; expected a layer or a function"
        )
    return result, {"causal" if name in CAUSAL else _OPTION_OF.get(name, "") for name in kwargs}


def _is_maker(thing: Any, args: argparse.Namespace) -> bool:
    "Return whether it is a class, or a function whose first required argument is a setting."
    if inspect.isclass(thing) or isinstance(thing, nn.Module) or parameters_of(thing) is None:
        return inspect.isclass(thing)
    needed = required_by(thing)
    if args.kind == "positions" and len(needed) == 3:  # a bias of n_heads, n_q and n_k
        return False
    if not needed or needed[0] in parsed_settings(args.set):
        return True
    return needed[0] in (*_OPTION_OF, *LENGTHS) or is_dropout(needed[0])


def _guessed_argument(name: str, args: argparse.Namespace) -> Any:
    "Return what an argument of this name is given; None: nothing is known of it."
    if is_dropout(name):
        return 0.0
    if name in _OPTION_OF:
        return getattr(args, _OPTION_OF[name])
    return 64 if name in LENGTHS else None


def _arguments_for(maker: Callable[..., Any], args: argparse.Namespace) -> dict[str, Any]:
    "Return the arguments to make a layer with."
    given, kwargs = parsed_settings(args.set), {}
    required = required_by(maker)
    for name, parameter in (parameters_of(maker) or {}).items():
        guess = _guessed_argument(name, args)
        if name in given:
            kwargs[name] = given.pop(name)
        elif guess is not None and (name in required or name in _ALWAYS):
            kwargs[name] = guess
        elif name in CAUSAL and args.causal:
            kwargs[name] = True
        elif name in required and parameter.kind is not parameter.VAR_POSITIONAL:
            raise Unusable(f"{name_of(maker)} needs {name!r}: {_repair(name_of(maker), name)}")
    return kwargs | given


def _repair(maker: str, name: str) -> str:
    "Return how a command can give a required argument."
    if name in _OPTION_OF:
        return f"say it with --{_OPTION_OF[name].replace('_', '-')}"
    return (
        f"say it with --set {name}=…, or name a function that makes the layer, such as"
        f" def make_layer(): return {maker}(…)"
    )
