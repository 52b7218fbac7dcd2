"""What names and settings of a layer suggest, and what its other parts may be declared as."""

import re
from collections.abc import Callable
from typing import Any

import torch.nn as nn
from torch import Tensor

from attention_checks.spec import Contract
from attention_checks.their_code.conventions import settings_of

_NORM = re.compile(
    r"(?:^|[._])(?:(q|k|query|key)_?(?:ln|norm|layer_?norm|rms_?norm)"
    r"|(?:ln|norm|layer_?norm|rms_?norm)_?(q|k|query|key))$",
    re.I,
)


def _named_norms(layer: nn.Module) -> dict[str, str] | None:
    "Return the norms of queries and keys, by their names; None unless both are found."
    norms: dict[str, str] = {}
    for name, m in layer.named_modules():
        match = _NORM.search(name)
        if match and not isinstance(m, nn.Identity):
            role = (match[1] or match[2])[0].lower()
            norms[role] = name
    return norms if norms.keys() == {"q", "k"} else None


def _named_softcap(layer: nn.Module) -> float | None:
    "Return the soft cap that a setting names, if exactly one does."
    caps = [value for _, value in settings_of(layer, "cap") if not isinstance(value, bool)]
    return caps[0] if len(caps) == 1 else None


_NAMED: dict[str, Callable[[nn.Module], Any]] = {"norms": _named_norms, "softcap": _named_softcap}


def named_choices(layer: nn.Module, contract: Contract) -> dict[str, Any]:  # keyword → value
    "List undeclared choices that names of parts and settings suggest; numbers must confirm them."
    found = {name: f(layer) for name, f in _NAMED.items() if not getattr(contract, name)}
    return {name: value for name, value in found.items() if value is not None}


_OF_MODULES = (  # what the type of a module holds, in small letters → what may declare it
    ("norm", "norms={{'q': {name}}}"),
    ("embedding", "bias=lambda q, k, {word}: …"),
    ("linear", "gate={name} or residual={name}"),
    ("", "bias=lambda q, k, {word}: … or activation={name}"),
)


def hint_of(
    layer: nn.Module,  # any layer
    name: str,  # of a part that is no projection
    h: int,  # heads; 0 if not known
) -> str:  # empty if it is neither a module nor a parameter
    "Say what a part of a layer may be declared as, by its type or its shape."
    part: Any = (dict(layer.named_parameters()) | dict(layer.named_modules())).get(name)
    if part is None:
        return ""
    numbers = part if isinstance(part, Tensor) else getattr(part, "weight", None)
    if h > 1 and isinstance(numbers, Tensor) and numbers.squeeze().shape == (h, h):
        hint = "mixing={{'scores': {name}}}"
    elif isinstance(part, Tensor):
        hint = _hint_of_shape(part, h)
    else:
        kind = type(part).__name__.lower()
        hint = next(declare for known, declare in _OF_MODULES if known in kind)
    return hint.format(name=repr(name), word=name.rpartition(".")[2])


def _hint_of_shape(part: Tensor, h: int) -> str:
    "Return what may declare a parameter of this shape."
    if part.numel() == 1:
        return "scale={name}, scale=lambda {word}: … or value_scale={name} (it is one number)"
    if part.numel() == h:
        of_heads = "scale={name}, scale=lambda {word}: …, sinks={name}, gate={name}"
        return f"{of_heads} or bias=lambda q, k, {{word}}: … (it has one for each head)"
    if h in part.shape:
        return "bias=lambda q, k, {word}: …"
    return "prefix={{'kv': {name}}}, shortened={{'k': {name}}}"
