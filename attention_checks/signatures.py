"""What a callable is named, and which parameters it takes."""

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
