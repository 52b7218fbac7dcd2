"""What any layer must do at the edges: one token, large inputs, 16 bits, weights beside it."""

from typing import Any

import torch
from torch import Tensor

from attention_checks.catalogue import known
from attention_checks.numbers.tensors import must_run, nearly
from attention_checks.numbers.tolerance import LONG_SUMS, MOVED
from attention_checks.outcomes import Broken, NotChecked, attempt
from attention_checks.properties import Property
from attention_checks.properties.numerics import must_be_as_in_32, must_be_finite, run_in_half
from attention_checks.properties.state import must_only_read
from attention_checks.subjects.copies import deep_copy, softened_copy
from attention_checks.subjects.layer import BATCH, Layer, no_module

_ONE_VALUE = "Expected more than 1 value per channel"  # so norms of PyTorch refuse one token


def must_take_one(layer: Layer) -> None:
    "One token, one sequence."
    sizes = [(1, layer.n, "one sequence"), (BATCH, 1, "one token")]
    sizes += [(1, 1, "one token"), (BATCH, 2, "two tokens")]
    for b, n, what in sizes:
        if not layer.contract.takes(n):
            continue
        x = layer.draw(b, n)
        bug, shape = known("length.size", what=what), f"x {tuple(x.shape)}"
        try:
            y = must_run(lambda: layer(x), shape, lambda: bug)
        except Broken as e:
            if _ONE_VALUE in e.example:
                continue
            raise
        if y.shape[:2] != layer.output_shape(x) or y.ndim != 3:
            raise Broken(f"{shape}: it gives shape {tuple(y.shape)}", bug)


def must_stay_finite(layer: Layer) -> None:
    "Large inputs give finite values and gradients."
    code = "softmax.overflows"
    for factor in (30.0, 300.0):
        inputs = {"x": layer.draw() * factor}
        shown = f"inputs {factor:g} times as large"
        must_be_finite(layer, inputs, shown, lambda: known(code), gradient=code)


_OFF_IN_SIXTEEN_BITS = {torch.bfloat16: 0.06, torch.float16: 0.02}  # of the largest number


def must_stand_sixteen_bits(layer: Layer) -> None:
    "Float16 and bfloat16 give finite, nearly equal values."
    x = layer.draw()
    softened = softened_copy(layer.module)  # where scores are large, rounding decides
    want = layer.output_of(softened, x).detach()
    for dtype, off in _OFF_IN_SIXTEEN_BITS.items():
        got = _in_sixteen_bits(layer, softened, x, dtype)
        must_be_as_in_32(got, want, dtype, "x", off * want.abs().max().item())


def _in_sixteen_bits(layer: Layer, module: Any, x: Tensor, dtype: torch.dtype) -> Tensor:
    "Return the output in 16 bits; norms may stay in 32 bits, if those are what they compute in."

    def call(of_norms: torch.dtype = dtype) -> Tensor:
        copied = deep_copy(module).to(dtype)
        for m in list(copied.modules())[1:]:
            if not list(m.children()) and all(p.ndim == 1 for p in m.parameters()):
                m.to(of_norms)
        return layer.output_of(copied, x.to(dtype)).detach()

    try:
        return run_in_half(call, dtype)
    except Broken as e:
        kept = attempt(lambda: call(torch.float32)) if e.bugs[0].code == "dtype.widens" else None
        if kept is None:
            raise
        return kept


def _must_return_weights(layer: Layer) -> None:
    "Weights that it returns are weights."
    returned = [
        t.detach() for t in layer.output_and_rest(layer.draw())[1] if _may_be_weights(layer, t)
    ]
    if not returned:
        raise NotChecked("it returns no weights")
    trace = layer.observed.trace
    if trace is not None and "weigh" in trace.stages:
        raise NotChecked("a sink takes a part of each query's weights")
    shown, weights = "what it returns beside the output ", returned[0]
    sums = weights.sum(-1)
    positive = (weights >= -MOVED).all() and (sums > -MOVED).all()
    if not (positive and (sums < 4).all() and 0.5 < sums.mean() < 2):  # scores, or a bias
        raise NotChecked(f"{shown}is not meant as weights: rows sum to {sums.min():.4g} …")
    if not nearly(sums, torch.ones_like(sums), LONG_SUMS):
        bug = known("weights.returned_sums")
        raise Broken(f"{shown}has rows that sum to {sums.min():.4g} … {sums.max():.4g}", bug)


def _may_be_weights(layer: Layer, returned: Any) -> bool:
    "Return whether something has the shape of weights, (b, n_q, n_k) or (b, h, n_q, n_k)."
    if not isinstance(returned, Tensor) or returned.ndim not in (3, 4):
        return False
    real = returned.is_floating_point()
    return real and len(returned) == BATCH and returned.shape[-2:] == (layer.n, layer.n_k)


EDGES = (
    Property.of(must_take_one),
    Property("inputs are not modified, and need not be contiguous", must_only_read),
    Property.of(must_stay_finite, symptom_unless=("unexplained",)),
    Property.of(must_stand_sixteen_bits, no_module, sixteen_bits=True),
    Property.of(_must_return_weights),
)
