"""What a callable is named, which parameters it takes, and which module it calls."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Mapping
from typing import Any

import torch.nn as nn


def parameters_of(
    fn: Any,  # a function, or a module, whose `forward` is meant
) -> Mapping[str, inspect.Parameter] | None:  # None: a built-in function that does not tell
    "Return the parameters of a function, by name."
    try:
        return inspect.signature(fn.forward if isinstance(fn, nn.Module) else fn).parameters
    except (TypeError, ValueError):
        return None


POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
BY_NAME_TOO = (*POSITIONAL, inspect.Parameter.KEYWORD_ONLY)


def required_by(
    fn: Any,  # a function or a module
    kinds: Collection[Any] = (*BY_NAME_TOO, inspect.Parameter.VAR_POSITIONAL),  # that count
) -> list[str]:
    "Return the names of the arguments that a call must give."
    parameters = (parameters_of(fn) or {}).values()
    return [p.name for p in parameters if p.default is p.empty and p.kind in kinds]


def name_of(thing: Any) -> str:
    "Return the name that something is known by: its own, or that of its class."
    return str(getattr(thing, "__name__", type(thing).__name__))


def module_in(
    f: Any,  # a module, or a function that calls one
    seen: tuple[Any, ...] = (),  # functions that refer to it, and are searched already
) -> nn.Module | None:  # None: nothing tells which
    "Find the module behind a function: what it is bound to, or it or a function of its refers to."
    if isinstance(f, nn.Module) or not inspect.isfunction(f):
        owner = getattr(f, "__self__", f)
        return owner if isinstance(owner, nn.Module) else None
    names = inspect.getclosurevars(f)
    held = [*names.nonlocals.values(), *names.globals.values()]
    for each in held:
        if isinstance(each, nn.Module):
            return each
    others = [each for each in held if inspect.isfunction(each) and each not in (*seen, f)]
    inside = (module_in(each, (*seen, f)) for each in others)
    return next((m for m in inside if m is not None), None)
