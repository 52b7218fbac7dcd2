"""What may influence what: no future, no order of keys, no other sequence or head; gradients do."""

from __future__ import annotations

from functools import partial


import torch
from torch import Tensor

from attention_checks.catalogue import known
from attention_checks.examine import Broken, NotChecked
from attention_checks.numbers import first_difference, nearly
from attention_checks.properties import Relation
from attention_checks.properties.equivariance import first_leak, unmixed
from attention_checks.properties.gradients import right_gradients
from attention_checks.subjects.facts import Subject
from attention_checks.subjects.function import SQUARE


def _no_future(subject: Subject) -> None:
    "Change one key and value, with and without gradients: no earlier context may change."
    lengths_declared = subject.contract.lengths is not None
    sizes = subject.usual if subject.causal is True or lengths_declared else SQUARE
    q, k, v = sizes.draw()
    for grad in (False, True):
        with torch.set_grad_enabled(grad):
            run = partial(_context, subject, q)
            if leak := first_leak(run, [k, v], (1.0, 1e3), run(k, v)):
                code = "mask.leaks" if leak.factor == 1 else "mask.leaks_if_large"
                mode = "" if grad else ", under no_grad"
                how = f"changing key and value {leak.token} changes context {leak.output}"
                raise Broken(f"n = {sizes.n_q}{mode}: {how}", known(code))


def _context(subject: Subject, *qkv: Tensor) -> Tensor:
    "Give the context of tensors that want a gradient where gradients are on."
    wanted = torch.is_grad_enabled()
    return subject(*(t.clone().requires_grad_(wanted) for t in qkv)).detach()


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


def _gradients(subject: Subject) -> None:
    "Compare gradients with those of the oracle."
    reach = subject.reach
    if reach and reach.window == 1 and not reach.sinks:
        raise NotChecked("through a window of one, nothing depends on queries and keys")
    right_gradients()(subject)


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
    Relation(
        "sequences and heads do not mix",
        unmixed(sequence="batch.mixed", head="heads.mixed"),
        after=("finite",),
    ),
    Relation(
        "gradients are those of the oracle",
        _gradients,
        asked=lambda subject: subject.contract.gradients,
    ),
)
