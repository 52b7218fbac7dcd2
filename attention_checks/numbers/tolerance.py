"""How far apart numbers may be that count as equal."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch

SAME_CALL = 1e-6  # by the same call, made again
SHORT_SUMS = 1e-5  # by one function of a few numbers, such as a softmax
FLOAT32 = 1e-4  # by float32, where numbers are about 1
FLOAT64 = 1e-9  # by float64
USUAL_TOLERANCE = 2e-4  # by attention in float32
RELATIVE = 1e-3  # as a part of the right number, beside one of those above or below
LONG_SUMS = 1e-3  # by many keys, or a backward pass
LARGE_SCORES = 1e-2  # by scores of 10⁴, or angles of far positions
ONE_NUMBER = 1e-3  # as a part of it: a scale that is fitted, and the right one
MOVED = 1e-6  # more is no longer rounding, where nothing should have changed
NO_FACTOR = 1e-3  # a smaller one is 0
NO_WEIGHT = 1e-9  # less is none
NOT_ZERO = 1e-30  # what is divided by is at least this
TOLERANCES = {torch.float16: 1e-2, torch.bfloat16: 5e-2}  # of types with fewer bits
_TOLERANCE_FACTOR: ContextVar[float] = ContextVar("tolerance_factor", default=1.0)


def tolerance_factor() -> float:  # 1: the usual tolerances
    "Return the factor by which tolerances are multiplied."
    return _TOLERANCE_FACTOR.get()


@contextmanager
def with_tolerance(times: float) -> Iterator[None]:
    "Multiply tolerances inside, as for sixteen bits."
    token = _TOLERANCE_FACTOR.set(times)
    try:
        yield
    finally:
        _TOLERANCE_FACTOR.reset(token)
