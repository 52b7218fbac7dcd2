"""Scale one product of a declared function: a layer that gives those numbers scales it wrongly."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_flatten, tree_unflatten

from attention_checks.explaining.callers import line_of_caller, name_of_operation
from attention_checks.numbers.tolerance import ONE_NUMBER

_SCALED = (
    *("mul", "rmul", "div", "truediv", "matmul", "rmatmul", "bmm", "einsum"),
    *("softmax", "scaled_dot_product_attention"),
)
_STARTS = [0.52 * i for i in range(-6, 7)]  # logarithms of factors: up to 23, or a 23rd
_STEP = 1e-2  # of a logarithm, to take a derivative

_Output = Callable[[TorchFunctionMode], Tensor | None]  # what stages give while a mode is on


class ScaledProduct(NamedTuple):
    "One product that a declared function makes."

    what: str  # the operation and its line
    shape: torch.Size  # of what it gives


class _Scaling(TorchFunctionMode):
    "List the products that run, and scale the first tensor that one of them is given."

    def __init__(self, i: int = -1, factor: float = 1.0):  # which one; -1: none
        super().__init__()
        self.found: list[ScaledProduct] = []
        self.i, self.factor = i, factor

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        name, line = name_of_operation(func), line_of_caller()
        counted = name in _SCALED and line is not None
        if counted and len(self.found) == self.i:
            args = _with_first_scaled(args, self.factor)
        made = func(*args, **(kwargs or {}))
        if counted:
            what = f"{name}, {line}" if line else name
            self.found.append(ScaledProduct(what, getattr(made, "shape", torch.Size())))
        return made


def _with_first_scaled(args: tuple[Any, ...], factor: float) -> Any:
    "Scale the first tensor in some arguments."
    leaves, tree = tree_flatten(args)
    first = next((i for i, t in enumerate(leaves) if isinstance(t, Tensor)), None)
    scaled = [factor * t if i == first else t for i, t in enumerate(leaves)]
    return tree_unflatten(scaled, tree)


def scaled_product(
    output: _Output,
    seen: Tensor,  # what it should give
    agrees: Callable[[Tensor], bool],  # is that what was seen?
) -> tuple[ScaledProduct, float] | None:  # None: no factor of one product gives it
    "Find the product of a declared function, and the factor, that gives what was seen."
    every = _Scaling()
    if output(every) is None:
        return None
    for i, product in enumerate(every.found):
        factor = _nearest_factor(partial(_output_scaled, output, i), seen)
        if factor is None or math.isclose(factor, 1, rel_tol=ONE_NUMBER):
            continue
        made = _output_scaled(output, i, math.log(factor))
        if made is not None and agrees(made):
            return product, factor
    return None


def _output_scaled(output: _Output, i: int, log: float) -> Tensor | None:
    "Return the output with one product scaled, by the logarithm of its factor."
    return output(_Scaling(i, math.exp(log)))


def _nearest_factor(output: Callable[[float], Tensor | None], seen: Tensor) -> float | None:
    "Fit a factor by its logarithm: the best of several, and then by Gauss and Newton."

    def off(log: float) -> Tensor:
        made = output(log)
        return torch.full_like(seen, math.inf) if made is None else made - seen

    log = min(_STARTS, key=lambda log: float(off(log).norm()))
    for _ in range(6):
        error = off(log).flatten()
        slope = (off(log + _STEP).flatten() - error) / _STEP
        change = float(error @ slope / (slope @ slope))
        if not math.isfinite(change):
            return None
        log -= max(-1.0, min(1.0, change))
    return math.exp(log)
