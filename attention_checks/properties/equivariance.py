"""Who may influence whom: entries of an axis are apart, and the future does not reach the past."""

import math
from collections.abc import Callable, Sequence
from itertools import product
from typing import NamedTuple

from torch import Tensor

from attention_checks.explaining.pipeline import Bug
from attention_checks.numbers.tensors import must_be_near, must_run
from attention_checks.numbers.tolerance import FLOAT32
from attention_checks.outcomes import Broken, attempt
from attention_checks.subjects import TensorFunction


def must_give(
    f: TensorFunction,  # the code under test
    inputs: Sequence[Tensor],  # its arguments
    shape: tuple[int, ...],  # what it should return
    shown: str,  # what the inputs are, in words
    bug: Callable[[], Bug],  # what is wrong if it raises, or gives another shape
) -> Tensor:  # the output
    "Raise Broken unless the output has the expected shape."
    out = must_run(lambda: f(*inputs), shown, bug)
    if tuple(out.shape) != tuple(shape):
        raise Broken(f"{shown}: it gives shape {tuple(out.shape)}, expected {shape}", bug())
    return out


def must_not_mix_along(
    f: TensorFunction,  # the code under test
    inputs: Sequence[Tensor],  # its arguments
    axis: int,  # of inputs and output, with at least two entries
    name: str,  # of one entry, such as "head"
    bug: Callable[[], Bug],  # what is wrong if entries mix
) -> None:
    "Raise Broken if an entry of an axis comes out alone as another than with the others."
    together = f(*inputs)
    for i in range(inputs[0].shape[axis]):
        got, want = f(*(t.narrow(axis, i, 1) for t in inputs)), together.narrow(axis, i, 1)
        must_be_near(got, want, f"{name} {i} alone", bug, equal_nan=True)


class Leak(NamedTuple):
    "A token that moves an earlier output."

    token: int
    output: int
    factor: float  # how much larger the changed token is
    inputs: list[Tensor]  # with that token changed


def first_leak(
    f: TensorFunction,  # the code under test
    inputs: Sequence[Tensor],  # whose tokens are changed, (..., n, d)
    factors: Sequence[float],  # by how much
    before: Tensor,  # what it gives for the inputs, (..., n, d_out)
    atol: float = FLOAT32,  # what counts as moved
) -> Leak | None:
    "Find a token that moves an earlier output, the last tokens first."
    for j, factor in product(range(inputs[0].shape[-2] - 1, 0, -1), factors):
        changed = [t.clone() for t in inputs]
        for t in changed:
            t[..., j, :] = -factor * t[..., j, :] + 1
        after = f(*changed)
        gap = (after - before).abs().masked_fill(after.isnan() & before.isnan(), 0)
        moved = gap.nan_to_num(nan=math.inf).flatten(0, -3).amax((0, 2))[:j] > atol
        if moved.any():
            return Leak(j, int(moved.nonzero()[0]), factor, changed)
    return None


def code_of_leak(
    f: TensorFunction,  # the code under test, which takes float64, too
    inputs: Sequence[Tensor],  # as in `first_leak`
    leak: Leak,  # of large inputs
) -> str:  # a code
    "Tell what a mask lets through from what is rounded: in float64 that moves nothing."
    both = ([t.double() for t in some] for some in (inputs, leak.inputs))
    before, after = (attempt(lambda: f(*some)) for some in both)
    if before is None or after is None:
        return "mask.leaks_if_large"
    moved = (after - before)[..., : leak.token, :].abs().amax()
    return "softmax.cut" if moved <= FLOAT32 else "mask.leaks_if_large"
