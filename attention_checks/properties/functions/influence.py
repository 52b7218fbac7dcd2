"""What may influence what: the future does not, and gradients are those of the oracle."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from attention_checks.catalogue import known
from attention_checks.examine import Broken, NotChecked
from attention_checks.properties import Relation
from attention_checks.properties.equivariance import first_leak
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
        "gradients are those of the oracle",
        _gradients,
        asked=lambda subject: subject.contract.gradients,
    ),
)
