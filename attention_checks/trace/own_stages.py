"""What a layer does on purpose: norms, a soft cap, sinks, a gate, a bias, rotations."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn as nn
from torch import Tensor

from attention_checks.catalogue.grouped_heads import (
    AFTER_MERGE,
    AFTER_SCORE,
    AFTER_SPLIT,
    BEFORE_SHARE,
    capping,
    gating,
    norming,
    sinking,
)
from attention_checks.catalogue.masks import BIAS
from attention_checks.conventions import settings_of
from attention_checks.examine import Misused
from attention_checks.pipeline import Bug, Step
from attention_checks.spec import Contract
from attention_checks.trace.watching import OneCall, as_float, as_rows, part_of, watch
from attention_nb.multi_head_attention import merge_heads, split_heads

_NORM = re.compile(
    r"(?:^|[._])(?:(q|k|query|key)_?(?:ln|norm|layer_?norm|rms_?norm)"
    r"|(?:ln|norm|layer_?norm|rms_?norm)_?(q|k|query|key))$",
    re.I,
)
_GATE = re.compile(r"(?:^|[._])(?:(?:to_|out_|attn_)?gates?(?:_proj)?|g_proj)(?:\.\d)?$", re.I)
_Own = dict[str, tuple[Step, list[Bug]]]  # stage → its step, and its bugs


def norms_of(
    layer: nn.Module,  # any layer
) -> dict[str, nn.Module]:  # role, "q" or "k", → its norm
    "Find the norms of queries and keys by their names."
    found = [(_NORM.search(name), m) for name, m in layer.named_modules()]
    return {
        (said[1] or said[2])[0].lower(): m
        for said, m in found
        if said and not isinstance(m, nn.Identity)
    }


def own_stages(
    layer: nn.Module,  # the layer, in evaluation mode
    x: Tensor,  # its input, (b, n, d_model)
    call: OneCall,  # how it is called
    contract: Contract = Contract(),  # what was declared of it
) -> _Own:  # stage → its step, and its bugs
    "Find the stages that a layer adds on purpose: those declared, else those that its names tell."
    own: _Own = {}
    norms = _norms(layer, contract)
    if contract.norms or norms.keys() == {"q", "k"}:
        own |= _own_norms(norms, contract)
    cap = contract.softcap or _cap(layer)
    if cap:
        own[AFTER_SCORE] = capping(cap)
    sinks = _sinks(layer, contract)
    if sinks is not None:
        own["weigh"] = sinking(sinks)
    return own | _own_bias(layer, x, call, contract) | _own_gate(layer, x, call, contract)


def _norms(layer: nn.Module, contract: Contract) -> dict[str, nn.Module]:
    "Role, q or k, → its norm."
    if contract.norms is None:
        return norms_of(layer)
    return {role: part_of(layer, name, f"norms[{role!r}]") for role, name in contract.norms.items()}


def _own_norms(norms: Mapping[str, nn.Module], contract: Contract) -> _Own:
    "The stages of norms: over all heads before key heads are repeated, or over each head."
    own: _Own = {}
    for stage, over in ((BEFORE_SHARE, _over_all_heads), (AFTER_SPLIT, _over_each_head)):
        q, k = (over(norms[role], contract) if role in norms else _as_it_is for role in "qk")
        own[stage] = norming(q, k, stage)
    return own


def _as_it_is(t: Tensor) -> Tensor:
    "Vectors without a norm."
    return t


def _cap(layer: nn.Module) -> float | None:
    "The soft cap that a setting of the layer names, if exactly one does."
    caps = [
        value
        for name, value in settings_of(layer, "cap")
        if re.search("soft|logit", name) and not isinstance(value, bool)
    ]
    return caps[0] if len(caps) == 1 else None


def _sinks(layer: nn.Module, contract: Contract) -> Tensor | None:
    "One sink logit for each head: the declared parameter, or the only one named so."
    if isinstance(contract.sinks, str):
        return as_float(part_of(layer, contract.sinks, "sinks")).flatten()
    sinks = [
        p.detach()
        for name, p in layer.named_parameters()
        if name.rpartition(".")[2].startswith("sink") and p.ndim == 1
    ]
    return sinks[0] if len(sinks) == 1 else None


def _own_bias(layer: nn.Module, x: Tensor, call: OneCall, contract: Contract) -> _Own:
    "The bias of the scores: the declared part, or an embedding that is read once for all pairs."
    n = x.shape[1]
    if isinstance(contract.bias, str):
        part = part_of(layer, contract.bias, "bias")
        read = _given_once({contract.bias: part}, lambda: call(layer, x))
        if isinstance(part, Tensor):  # a table for the longest sequence
            read = part[..., :n, :n]
        bias = _per_head(read, n)
        if bias is None:
            got = getattr(read, "shape", None)
            raise Misused(f"bias: expected a part that gives (h, n, n) or (n, n, h); got {got}")
    else:
        tables = {
            name: m
            for name, m in layer.named_modules()
            if isinstance(m, nn.Embedding) and "bias" in name
        }
        bias = _per_head(_given_once(tables, lambda: call(layer, x)), n)
    if bias is None:
        return {}
    return {"route, its own": (lambda w: w._replace(bias=w.bias + bias), BIAS)}


def _per_head(read: Any, n: int) -> Tensor | None:
    "A bias as (h, n, n), of n positions; None if it has no such shape."
    if not isinstance(read, Tensor) or read.ndim < 2:
        return None
    read = as_float(read)
    if read.ndim == 3 and read.shape[:2] == (n, n):
        return read.movedim(-1, 0)
    return read.flatten(0, -3) if read.ndim > 2 and read.shape[-2:] == (n, n) else None


def _own_gate(layer: nn.Module, x: Tensor, call: OneCall, contract: Contract) -> _Own:
    "The gate of the context: the declared part, or a linear layer named so."
    gates = {
        name: m
        for name, m in layer.named_modules()
        if _GATE.search(name) and isinstance(m, nn.Linear)
    }
    if contract.gate is not None:
        gates = {contract.gate: part_of(layer, contract.gate, "gate")}
    gate = as_rows(_given_once(gates, lambda: call(layer, x)), x)
    if gate is None and contract.gate is not None:
        raise Misused(f"gate: expected a module that is called once; {contract.gate} is not")
    return {} if gate is None else {AFTER_MERGE: gating(gate)}


def _given_once(modules: Mapping[str, Any], call: Callable[[], Tensor]) -> Any:
    "The output of the only module that was called, and once; else None."
    watched = {name: m for name, m in modules.items() if isinstance(m, nn.Module)}
    given = [t for found in watch(watched, call)[2].values() for t in found] if watched else []
    return given[0] if len(given) == 1 else None


def _weights_of(norm: nn.Module) -> tuple[int, ...]:
    "The shape of a norm's weights; none without weights."
    return next((tuple(p.shape) for p in norm.parameters()), ())


def _over_all_heads(norm: nn.Module, contract: Contract) -> Callable[[Tensor], Tensor]:
    "Apply a norm that has weights for all heads, (h · d,), (h, d) or (h, 1, d); else no norm."
    shape = _weights_of(norm)

    def normed(t: Tensor) -> Tensor:  # (b, h, n, d), not yet repeated
        h, d = t.shape[-3], t.shape[-1]
        if h == 1 or math.prod(shape) <= d:
            return t
        if len(shape) == 1:
            return split_heads(_once_through(norm, contract, merge_heads(t)), h)
        if len(shape) > 2:
            return _once_through(norm, contract, t)
        return _once_through(norm, contract, t.transpose(-3, -2)).transpose(-3, -2)

    return normed


def _over_each_head(norm: nn.Module, contract: Contract) -> Callable[[Tensor], Tensor]:
    "Apply a norm to each head, unless it has weights for several."
    shape = _weights_of(norm)

    def normed(t: Tensor) -> Tensor:
        several = math.prod(shape) > t.shape[-1]
        return t if several else _once_through(norm, contract, t)

    return normed


def _once_through(norm: nn.Module, contract: Contract, t: Tensor) -> Tensor:
    "What a norm makes of a tensor, where the layer runs."
    out: Tensor = contract.here(norm(contract.there(t)))
    return out


def with_own(
    stages: Mapping[str, Step],  # in their order
    own: Mapping[str, tuple[Step, list[Bug]]],  # replaces a stage, or follows it: "route, its own"
) -> dict[str, Step]:
    "Insert the stages of a layer's own."
    found: dict[str, Step] = {}
    for name, step in stages.items():
        found[name] = own.get(name, (step,))[0]
        if (behind := f"{name}, its own") in own:
            found[behind] = own[behind][0]
    return found


def tables_of(layer: nn.Module) -> list[Tensor]:
    "List the vectors between 0 and 1 that a layer keeps, and the angles of complex tables."
    kept = [
        v
        for m in layer.modules()
        for v in [*vars(m).values(), *m._buffers.values()]
        if isinstance(v, Tensor)
    ]
    kept = [t[1].angle() if t.is_complex() and t.ndim == 2 and len(t) > 1 else t for t in kept]
    kept = [
        t.detach().float()
        for t in kept
        if t.ndim == 1 and 0 < len(t) < 1000 and t.is_floating_point()
    ]
    return [t for t in kept if ((t >= 0) & (t <= 1)).all()]


def rotations_in(seen: list[list[Tensor]]) -> list[Tensor]:
    "List complex numbers that may rotate pairs of features, also from adjacent cosines and sines."
    pairs = [
        (a, b)
        for some in seen
        for a, b in zip(some, some[1:])
        if a.shape == b.shape and a.is_floating_point() and b.is_floating_point()
    ]
    found = [torch.complex(a.float(), b.float()) for a, b in pairs] + [
        t for some in seen for t in some if t.is_complex()
    ]
    once = [_once(z.flatten(0, -3)[0] if z.ndim > 2 else z) for z in found if _rotates(z)]
    return [z for i, z in enumerate(once) if not any(torch.equal(z, other) for other in once[:i])]


def _rotates(z: Tensor) -> bool:
    "Whether complex numbers have one modulus, as cosines and sines have."
    size = z.abs()
    return bool(z.imag.any()) and float(size.min()) > 0.1 and float(size.max() - size.min()) < 1e-3


def _once(z: Tensor) -> Tensor:
    "One number for each pair: tables hold them twice, as halves or as neighbours."
    half = z.shape[-1] // 2
    if z.shape[-1] % 2 == 0 and half:
        return (
            z[:, :half]
            if z[:, :half].equal(z[:, half:])
            else z[:, ::2]
            if z[:, ::2].equal(z[:, 1::2])
            else z
        )
    return z
