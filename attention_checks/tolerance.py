"""How far apart numbers may be that count as equal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch

USUAL_TOLERANCE = 2e-4
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
