"""What a layer does on purpose: norms, a soft cap, sinks, a gate, a bias, rotations."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn as nn
from torch import Tensor

from attention_checks.catalogue.grouped_heads import (
    AFTER_SCORE,
    AFTER_SPLIT,
    BEFORE_SHARE,
    capping,
    norming,
    sinking,
)
from attention_checks.catalogue.masks import BIAS
from attention_checks.examine import Misused
from attention_checks.numbers import gradients_of
from attention_checks.pipeline import Bug, Step
from attention_checks.spec import Contract
from attention_checks.trace.watching import OneCall, as_float, as_rows, part_of, watch
from attention_nb.multi_head_attention import merge_heads, split_heads

_Own = dict[str, tuple[Step, list[Bug]]]  # stage → its step, and its bugs


def own_stages(
    layer: nn.Module,  # the layer, in evaluation mode
    x: Tensor,  # its input, (b, n, d_model)
    call: OneCall,  # how it is called
    contract: Contract = Contract(),  # what was declared of it
) -> _Own:  # stage → its step, and its bugs
    "Make the stages that a layer adds on purpose, as declared."
    own: _Own = {}
    if contract.norms:
        own |= _own_norms(layer, contract)
    if contract.softcap:
        own[AFTER_SCORE] = capping(contract.softcap)
    if isinstance(contract.sinks, str):
        sinks = part_of(layer, contract.sinks, "sinks")
        own["weigh"] = sinking(as_float(sinks).flatten())
    return own | _own_bias(layer, x, call, contract)


def _own_norms(layer: nn.Module, contract: Contract) -> _Own:
    "The stages of norms: over all heads before key heads are repeated, or over each head."
    own: _Own = {}
    named = contract.norms or {}
    norms = {role: part_of(layer, name, f"norms[{role!r}]") for role, name in named.items()}
    for stage, over in ((BEFORE_SHARE, _over_all_heads), (AFTER_SPLIT, _over_each_head)):
        q, k = (over(norms[role], contract) if role in norms else _as_it_is for role in "qk")
        own[stage] = norming(q, k, stage)
    return own


def _as_it_is(t: Tensor) -> Tensor:
    "Vectors without a norm."
    return t


def _own_bias(layer: nn.Module, x: Tensor, call: OneCall, contract: Contract) -> _Own:
    "The bias of the scores, as its declared part gives it."
    if not isinstance(contract.bias, str):
        return {}
    part, n = part_of(layer, contract.bias, "bias"), x.shape[1]
    read = part if isinstance(part, Tensor) else _given_once(part, lambda: call(layer, x))
    if isinstance(part, Tensor) and part.ndim > 2:  # a table for the longest sequence
        read = part[..., :n, :n]
    if isinstance(part, Tensor) and part.squeeze().ndim < 2:  # slopes (ALiBi)
        at = torch.arange(n)
        read = -part.flatten().abs() * (at[:, None] - at).abs()[..., None]
    elif isinstance(part, Tensor) and part.ndim == 2:
        read = _by_distance(part, n, lambda: call(layer, x))
    bias = _per_head(read, n)
    if bias is None:
        got = getattr(part if read is None else read, "shape", None)
        wanted = "that gives (h, n, n) or (n, n, h), a table by distance (2 L - 1, h) or slopes (h)"
        raise Misused(f"bias: expected a part {wanted}; got {got}")
    return {"route, its own": (lambda w: w._replace(bias=w.bias + bias), BIAS)}


def _by_distance(table: Tensor, n: int, call: Callable[[], Tensor]) -> Tensor | None:
    "A table (2 L - 1, h) as a bias (n, n, h); the last query tells which way distances count."
    with torch.enable_grad():
        used = gradients_of(call()[:, -1].sum(), [table])[0] if table.requires_grad else None
    at = torch.arange(n)
    for apart in (at[:, None] - at, at - at[:, None]):
        rows = apart + len(table) // 2
        others = [i for i in range(len(table)) if i not in rows[-1]]
        if rows.min() >= 0 and (used is None or not used[others].any()):
            return table[rows]
    return None


def _per_head(read: Any, n: int) -> Tensor | None:
    "A bias as (h, n, n), of n positions; None if it has no such shape."
    if not isinstance(read, Tensor) or read.ndim < 2:
        return None
    read = as_float(read)
    if read.ndim == 3 and read.shape[:2] == (n, n):
        return read.movedim(-1, 0)
    return read.flatten(0, -3) if read.ndim > 2 and read.shape[-2:] == (n, n) else None


def own_gate(
    layer: nn.Module,  # the layer, in evaluation mode
    x: Tensor,  # its input, (b, n, d_model)
    call: OneCall,  # how it is called
    contract: Contract,  # what was declared of it
) -> Tensor | None:  # before its activation function, (b, n, h) or (b, n, width); None: none
    "Read the gate of the context, as declared: what a module gives, or a parameter."
    if contract.gate is None:
        return None
    part = part_of(layer, contract.gate, "gate")
    if isinstance(part, Tensor):
        return as_float(part).flatten().expand(*x.shape[:2], -1)
    gate = as_rows(_given_once(part, lambda: call(layer, x)), x)
    if gate is None:
        raise Misused(
            f"gate: expected a parameter, or a module that is called once; {contract.gate} is not"
        )
    return gate


def _given_once(module: nn.Module, call: Callable[[], Tensor]) -> Any:
    "The output of a module that was called once; else None."
    given = watch({"": module}, call)[2].get("", ())
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
