"""What may influence what: no future, no order of keys, no other sequence or head; gradients do."""

from __future__ import annotations

import math
from itertools import product

import torch
from torch import Tensor

from attention_checks.catalogue import known
from attention_checks.numbers import first_difference, nearly
from attention_checks.properties import Relation, must_have_gradients, must_not_mix_along
from attention_checks.examine import Broken, NotChecked
from attention_checks.subjects.facts import Subject
from attention_checks.subjects.function import SQUARE


def _no_future(subject: Subject) -> None:
    "Change one key and value, with and without gradients: no earlier context may change."
    lengths_declared = subject.contract.lengths is not None
    sizes = subject.usual if subject.causal is True or lengths_declared else SQUARE
    q, k, v = sizes.draw()
    for grad in (False, True):
        with torch.set_grad_enabled(grad):
            before = _context(subject, q, k, v)
            for j, factor in product(range(sizes.n_q - 1, 0, -1), (1.0, 1e3)):
                other_k, other_v = k.clone(), v.clone()
                other_k[..., j, :] = -other_k[..., j, :] * factor + 1
                other_v[..., j, :] += 3 * factor
                changed = _changed(_context(subject, q, other_k, other_v), before)[:j]
                if changed.any():
                    code = "mask.leaks" if factor == 1 else "mask.leaks_if_large"
                    mode = "" if grad else ", under no_grad"
                    i = int(changed.nonzero()[0])
                    shown = f"n = {sizes.n_q}{mode}: changing key and value {j} changes context {i}"
                    raise Broken(shown, known(code))


def _context(subject: Subject, *qkv: Tensor) -> Tensor:
    "Give the context of tensors that want a gradient where gradients are on."
    wanted = torch.is_grad_enabled()
    return subject(*(t.clone().requires_grad_(wanted) for t in qkv)).detach()


def _changed(after: Tensor, before: Tensor) -> Tensor:
    "Tell for each query whether its context has changed, (n_q,)."
    gap = (after - before).abs().masked_fill(after.isnan() & before.isnan(), 0)
    return gap.amax((0, 1, -1)).nan_to_num(nan=math.inf) > 1e-4


def _equivariant(subject: Subject) -> None:
    "Reorder keys with their values, then queries."
    q, k, v = subject.usual.draw()
    rng = torch.Generator().manual_seed(0)
    of_keys = torch.randperm(k.shape[-2], generator=rng)
    of_queries = torch.randperm(q.shape[-2], generator=rng)
    want = subject(q, k, v)
    got = subject(q, k[..., of_keys, :], v[..., of_keys, :])
    if not nearly(got, want, equal_nan=True):
        shown = f"keys and values reordered as {of_keys.tolist()}: {first_difference(got, want)}"
        raise Broken(shown, known("order.keys"))
    got, want = subject(q[..., of_queries, :], k, v), want[..., of_queries, :]
    if not nearly(got, want, equal_nan=True):
        shown = f"queries reordered as {of_queries.tolist()}: {first_difference(got, want)}"
        raise Broken(shown, known("order.queries"))


def _independent(subject: Subject) -> None:
    "Change one sequence, then one head: the others stay."
    qkv = subject.usual.draw()
    must_not_mix_along(subject, qkv, 0, "sequence", lambda: known("batch.mixed"))
    must_not_mix_along(subject, qkv, 1, "head", lambda: known("heads.mixed"))


def _gradients(subject: Subject) -> None:
    "Compare gradients with those of the oracle."
    reach = subject.reach
    if reach and reach.window == 1 and not reach.sinks:
        raise NotChecked("through a window of one, nothing depends on queries and keys")
    inputs = dict(zip("qkv", subject.usual.draw()))
    must_have_gradients(subject, subject.oracle, inputs, subject.sound)


INFLUENCE = (
    Relation(
        "the future cannot reach the past",
        _no_future,
        after=("finite",),
        asked=lambda subject: bool(subject.causal),
    ),
    Relation(
        "the order of keys does not matter, and that of queries is kept",
        _equivariant,
        after=("finite",),
        asked=lambda subject: not (subject.causal or subject.reach),
    ),
    Relation("sequences and heads do not mix", _independent, after=("finite",)),
    Relation("gradients are those of the oracle", _gradients),
)
