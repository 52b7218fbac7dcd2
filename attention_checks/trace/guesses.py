"""Choices that nobody declared, and that names, settings or numbers of a layer suggest."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import islice, product
from typing import Any

import torch.nn as nn
from torch import Tensor

from attention_checks.conventions import POSITIONS, settings_of
from attention_checks.spec import Contract

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


def named_choices(
    layer: nn.Module,  # any layer
    contract: Contract,  # what was declared of it
) -> dict[str, Any]:  # keyword → value, of what was not declared
    "List the choices that names of parts and settings suggest; numbers must confirm them."
    found = {name: f(layer) for name, f in _NAMED.items() if not getattr(contract, name)}
    return {name: value for name, value in found.items() if value is not None}


def owners_of(
    unrecognised: Iterable[str],  # names of what is no projection
    projections: Iterable[str],  # names of projections
) -> list[str]:  # each once; of a network of several parts the name of the network
    "List the largest parts of a layer that hold no projection."
    inside = {outer for name in projections for outer in ("", *_outer_names(name)[:-1])}
    owners = []
    for name in unrecognised:
        free = [outer for outer in _outer_names(name) if outer not in inside]
        owners.append(free[0] if free else name)
    return list(dict.fromkeys(owners))


def _outer_names(name: str) -> list[str]:
    "List the names of the modules around something, from outside, and its own."
    path = name.split(".")
    return [".".join(path[: i + 1]) for i in range(len(path))]


_MEMORY = re.compile(r"mem|null|bias_[kv]$|prefix|persist|learned_[kv]", re.I)
_ROLE = re.compile(r"^(q|k|v|query|key|value)(?=_|$)|_(q|k|v)$", re.I)
_ADDED = re.compile("res|skip|shortcut", re.I)
_FUNCTIONS = (nn.modules.activation.__name__,)
Choices = dict[str, Any]  # keyword → value


def possible_choices(
    layer: nn.Module,  # any layer
    name: str,  # of a part that is no projection
    h: int,  # heads; 0 if not known
    width: int,  # of the context
) -> list[Choices]:  # the likeliest first
    "List what a part of a layer may be declared as, by its shape and its name."
    part: Any = (dict(layer.named_parameters()) | dict(layer.named_modules())).get(name)
    if isinstance(part, nn.Module):
        return _choices_of_module(part, name, h, width)
    return _choices_of_parameter(part, name, h, width) if isinstance(part, Tensor) else []


def _role_at_end(name: str) -> str:
    "Return whether a name begins or ends with that of queries, keys or values: its first letter."
    match = _ROLE.search(name.rpartition(".")[2])
    return match[0].strip("_")[0].lower() if match else ""


def _choices_of_module(part: nn.Module, name: str, h: int, width: int) -> list[Choices]:
    "Return what a module may be declared as."
    kind, wide = type(part).__name__.lower(), sum(p.numel() for p in part.parameters())
    weight = getattr(part, "weight", None)
    if "norm" in kind:
        role = "q" if _NORM.search(name) else ""
        role = _role_at_end(name) or role
        if role in ("q", "k"):
            return [{"norms": {role: name}}]
        of_heads = h and 0 < wide <= 2 * width // h
        return [{"norms": {each: name}} for each in (("q", "k", "out") if of_heads else ("out",))]
    if not wide:
        return [{"activation": name}] if type(part).__module__ in _FUNCTIONS else []
    if h > 1 and isinstance(weight, Tensor) and weight.squeeze().shape == (h, h):
        return [{"mixing": {field: name}} for field in ("scores", "weights")]
    if isinstance(part, nn.Linear):
        added: list[Choices] = [{"residual": name}, {"residual": name, "activation": "relu"}]
        along: list[Choices] = (
            [{"shortened": {_role_at_end(name): name}}] if _role_at_end(name) in ("k", "v") else []
        )
        return [*along, {"gate": name}, *(added if _ADDED.search(name) else [])]
    return [{"bias": name}] if not isinstance(part, nn.Embedding) or part.embedding_dim == h else []


def _choices_of_parameter(part: Tensor, name: str, h: int, width: int) -> list[Choices]:
    "Return what a parameter may be declared as."
    last, d, role = name.rpartition(".")[2], width // h if h else 0, _role_at_end(name)
    if part.numel() == h and POSITIONS.search(name):
        return [{"bias": name}]
    if last.startswith("sink") and part.ndim == 1:
        return [{"sinks": name}]
    if part.numel() in (1, h):
        warm: list[Choices] = [{"scale": name}, {"scale": name, "norms": {"q": "l2", "k": "l2"}}]
        factor: list[Choices] = [{"value_scale": name}]
        return warm + factor if part.numel() == 1 else [*warm, {"sinks": name}, {"gate": name}]
    if _MEMORY.search(last) and part.shape[-1] in (d, width):
        return [{"prefix": {role if role in ("k", "v") else "kv": name}}]
    if role in ("q", "k") and part.numel() in (d, width):
        return [{"norms": {role: name}}]
    if h > 1 and part.squeeze().shape == (h, h):
        return [{"mixing": {field: name}} for field in ("scores", "weights")]
    if role in ("k", "v") and part.ndim > 1:
        return [{"shortened": {role: name}}]
    return [{"bias": name}] if h in part.shape else []


def as_keywords(
    choices: Choices,
) -> str:  # such as "scale='tau', norms={'q': 'l2', 'k': 'l2'}"
    "Write choices as a call of a check takes them."
    return ", ".join(f"{name}={value!r}" for name, value in choices.items())


def joined_choices(
    several: Iterable[list[Choices]],  # of each part
) -> Iterator[Choices]:
    "Every way to declare several parts at once, or some of them; nothing is declared twice."
    for chosen in islice(product(*([*some, {}] for some in several)), 24):
        together: Choices = {}
        for key, value in (pair for choices in chosen for pair in choices.items()):
            known = together.setdefault(key, value)
            if known != value and isinstance(known, dict) and not known.keys() & value.keys():
                together[key] = known | value
        if together:
            yield together
