"""Differentiate what code under test gives, and see what its backward pass holds."""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor


def gradients_of(
    out: Tensor,  # what was computed
    leaves: Sequence[Tensor],  # from what
    up: Tensor | None = None,  # the gradient of `out`; None: of a single number
) -> tuple[Tensor | None, ...]:  # one for each, None where nothing depends on it
    "Differentiate, also through reentrant checkpoints, which only `backward()` can."
    if up is not None:  # given to PyTorch as it is, `up` would make it import its compiler
        out = (out * up).sum()
    if not reenters(out):
        return torch.autograd.grad(out, leaves, allow_unused=True)
    kept = [t.grad for t in leaves]
    try:
        for t in leaves:
            t.grad = None
        out.backward()
        return tuple(t.grad for t in leaves)
    finally:
        for t, grad in zip(leaves, kept):
            t.grad = grad


def reenters(out: Tensor) -> bool:  # True: only `backward()` reaches what lies inside
    "Return whether a reentrant checkpoint lies in the backward pass."
    return any(step.name() == "CheckpointFunctionBackward" for step in _backward(out))


def leaves_of(out: Tensor) -> list[Tensor]:  # from which tensors that require a gradient
    "List the leaves of a backward pass."
    return [step.variable for step in _backward(out) if hasattr(step, "variable")]


def _backward(out: Tensor) -> Iterator[Any]:
    "Go through the steps of a backward pass, each once."
    seen, steps = set(), [out.grad_fn]
    while steps:
        step = steps.pop()
        if step is None or step in seen:
            continue
        yield step
        seen.add(step)
        steps += [before for before, _ in step.next_functions]
