"""Choices that nobody declared, and that names, settings or numbers of a layer suggest."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import torch.nn as nn
from torch import Tensor

from attention_checks.conventions import settings_of
from attention_checks.spec import Contract

_NORM = re.compile(
    r"(?:^|[._])(?:(q|k|query|key)_?(?:ln|norm|layer_?norm|rms_?norm)"
    r"|(?:ln|norm|layer_?norm|rms_?norm)_?(q|k|query|key))$",
    re.I,
)


def _norms(layer: nn.Module) -> dict[str, str] | None:
    "The norms of queries and keys, by their names; None unless both are found."
    found = [
        (name, match)
        for name, m in layer.named_modules()
        if (match := _NORM.search(name)) and not isinstance(m, nn.Identity)
    ]
    norms = {(match[1] or match[2])[0].lower(): name for name, match in found}
    return norms if norms.keys() == {"q", "k"} else None


def _softcap(layer: nn.Module) -> float | None:
    "The soft cap that a setting names, if exactly one does."
    caps = [value for _, value in settings_of(layer, "cap") if not isinstance(value, bool)]
    return caps[0] if len(caps) == 1 else None


def _sinks(layer: nn.Module) -> str | None:
    "The only vector of parameters that is named so."
    named = [n for n, p in layer.named_parameters() if p.ndim == 1]
    sinks = [name for name in named if name.rpartition(".")[2].startswith("sink")]
    return sinks[0] if len(sinks) == 1 else None


def _bias(layer: nn.Module) -> str | None:
    "The only embedding that is named so."
    modules = [n for n, m in layer.named_modules() if isinstance(m, nn.Embedding) and "bias" in n]
    return modules[0] if len(modules) == 1 else None


_NAMED: dict[str, Callable[[nn.Module], Any]] = {
    "norms": _norms,
    "softcap": _softcap,
    "sinks": _sinks,
    "bias": _bias,
}


def named_choices(
    layer: nn.Module,  # any layer
    contract: Contract,  # what was declared of it
) -> dict[str, Any]:  # keyword → value, of what was not declared
    "List the choices that names of parts and settings suggest; numbers must confirm them."
    found = {name: f(layer) for name, f in _NAMED.items() if not getattr(contract, name)}
    return {name: value for name, value in found.items() if value is not None}


def possible_gates(
    layer: nn.Module,  # any layer
    unrecognised: list[str],  # names of what is no projection
    n_heads: int | None,  # if known
) -> Iterator[str]:
    "List what may be a gate, whatever its name: a linear layer, or a number for each head."
    parts: dict[str, Any] = {**dict(layer.named_parameters()), **dict(layer.named_modules())}
    for name in unrecognised:
        part = parts.get(name)
        per_head = isinstance(part, Tensor) and part.numel() == n_heads
        if per_head or isinstance(part, nn.Linear):
            yield name
