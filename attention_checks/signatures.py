"""What a callable is named, which parameters it takes, and which module it calls."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
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


def name_of(thing: Any) -> str:
    "Return the name that something is known by: its own, or that of its class."
    return str(getattr(thing, "__name__", type(thing).__name__))


def module_in(
    f: Any,  # a module, or a function that calls one
) -> nn.Module | None:  # None: nothing tells which
    "Find the module behind a function: that which it is bound to, or refers to."
    if isinstance(f, nn.Module) or not inspect.isfunction(f):
        owner = getattr(f, "__self__", f)
        return owner if isinstance(owner, nn.Module) else None
    names = inspect.getclosurevars(f)
    held = [*names.nonlocals.values(), *names.globals.values()]
    return next((each for each in held if isinstance(each, nn.Module)), None)
