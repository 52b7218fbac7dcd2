"""In an attention function the future stays hidden, order changes nothing, sentences and heads do not mix, and gradients reach every input."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from attention_checks.catalogue import known
from attention_checks.examine import Broken, NotChecked
from attention_checks.numbers import first_difference, nearly
from attention_checks.properties import Relation, must_have_gradients
from attention_checks.subjects.facts import Subject
from attention_checks.subjects.function import SQUARE

_LEAK = {1.0: "mask.leaks", 1e3: "mask.leaks_if_large"}


def _no_future(a: Subject) -> None:
    q, k, v = (a.usual if a.causal is True or a.contract.lengths is not None else SQUARE).draw()
    n = q.shape[-2]
    for grad in (False, True):
        with torch.set_grad_enabled(grad):
            before = _fresh(a, q, k, v, grad)
            for j, factor in ((j, factor) for j in range(n - 1, 0, -1) for factor in _LEAK):
                k2, v2 = k.clone(), v.clone()
                k2[..., j, :] = -k2[..., j, :] * factor + 1
                v2[..., j, :] += 3 * factor
                moved = _moved(_fresh(a, q, k2, v2, grad), before)[:j]
                if moved.any():
                    shown = f"n = {n}{'' if grad else ', under no_grad'}: changing key and value {j} moves context"
                    raise Broken(f"{shown} {int(moved.nonzero()[0])}", known(_LEAK[factor]))


def _fresh(a: Subject, q: Tensor, k: Tensor, v: Tensor, grad: bool) -> Tensor:
    "The context of tensors that want a gradient, or do not."
    return a(*(t.clone().requires_grad_(grad) for t in (q, k, v))).detach()


def _moved(after: Tensor, before: Tensor) -> Tensor:
    "Which rows differ, (n_q,)."
    gap = (after - before).abs().masked_fill(after.isnan() & before.isnan(), 0)
    return gap.amax((0, 1, -1)).nan_to_num(nan=math.inf) > 1e-4


def _equivariant(a: Subject) -> None:
    q, k, v = a.usual.draw()
    rng = torch.Generator().manual_seed(0)
    p, r = torch.randperm(k.shape[-2], generator=rng), torch.randperm(q.shape[-2], generator=rng)
    want = a(q, k, v)
    if not nearly(got := a(q, k[..., p, :], v[..., p, :]), want, equal_nan=True):
        raise Broken(
            f"keys and values reordered as {p.tolist()}: {first_difference(got, want)}",
            known("order.keys"),
        )
    if not nearly(got := a(q[..., r, :], k, v), want := want[..., r, :], equal_nan=True):
        raise Broken(
            f"queries reordered as {r.tolist()}: {first_difference(got, want)}",
            known("order.queries"),
        )


def _independent(a: Subject) -> None:
    q, k, v = a.usual.draw()
    want = a(q, k, v)
    for axis, what, code in ((0, "sentence", "batch.mixed"), (1, "head", "heads.mixed")):
        others = [t.clone() for t in (q, k, v)]
        for t in others:
            t.select(axis, 1).neg_().add_(0.5)
        before, after = (t.select(axis, 0) for t in (want, a(*others)))
        if not nearly(after, before, equal_nan=True):
            raise Broken(
                f"changing {what} 1 moves {what} 0: {first_difference(after, before)}", known(code)
            )


def _gradients(a: Subject) -> None:
    if a.reach and a.reach.window == 1 and not a.reach.sinks:
        raise NotChecked("through a window of one, nothing depends on queries and keys")
    must_have_gradients(a, a.oracle, dict(zip("qkv", a.usual.draw())), a.sound)


INFLUENCE = (
    Relation(
        "the future cannot reach the past",
        _no_future,
        after=("finite",),
        asked=lambda a: bool(a.causal),
    ),
    Relation(
        "the order of keys does not matter, and that of queries is kept",
        _equivariant,
        after=("finite",),
        asked=lambda a: not (a.causal or a.reach),
    ),
    Relation("sentences and heads do not mix", _independent, after=("finite",)),
    Relation("gradients are those of the oracle", _gradients),
)
