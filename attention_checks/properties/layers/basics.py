"""What any layer must do: take any length and batch, and keep nothing between calls."""

import torch
import torch.nn as nn
from torch import Tensor

from attention_checks.catalogue import known
from attention_checks.explaining.pipeline import Bug
from attention_checks.numbers.tensors import (
    first_difference,
    must_be_near,
    must_be_tensor,
    must_run,
    nearly,
)
from attention_checks.numbers.tolerance import FLOAT32, SHORT_SUMS
from attention_checks.outcomes import Broken, Misused, attempt, broken_by, first_line
from attention_checks.properties import Property
from attention_checks.properties.equivariance import must_not_mix_along
from attention_checks.properties.layers.raising import misrouted, must_fit, why_it_raises
from attention_checks.subjects.calling import for_memory, is_torch_mha, needed_by, packing_names
from attention_checks.subjects.copies import deep_copy, zero_weights
from attention_checks.subjects.layer import BATCH, Layer, no_module
from attention_checks.their_code.conventions import MASK
from attention_checks.their_code.signatures import parameters_of


def _must_give_a_vector_per_token(layer: Layer) -> str | None:
    "It runs, and gives one vector per token: (b, n, d_out)."
    x = layer.draw()
    shape = f"x {tuple(x.shape)}"
    try:
        y, rest = layer.output_and_rest(x)
    except Exception as e:
        must_fit(layer, e)
        raise Broken(f"{shape}: it raised {first_line(e)}", why_it_raises(layer, e)) from None
    must_be_tensor(y)
    like_weights = y.shape[-1] == layer.n_k and layer.n_k != layer.d_model
    if like_weights and rest and isinstance(rest[0], Tensor) and rest[0].shape == x.shape:
        shapes = f"{tuple(y.shape)} and {tuple(rest[0].shape)}"
        raise Broken(f"{shape}: it gives shapes {shapes}", known("shape.weights_first"))
    if y.ndim != 3 or y.shape[:2] != layer.output_shape(x):
        expected = f"expected ({BATCH}, {layer.n}, d_out)"
        _must_not_pool(layer, y, expected)
        bug = misrouted(layer) or known("shape.rows")
        raise Broken(f"{shape}: it gives shape {tuple(y.shape)}, {expected}", bug)
    must_be_vectors(layer, x, y)
    return "; ".join([*_how_called(layer), *_zeros(layer)]) or None


def _must_not_pool(layer: Layer, y: Tensor, expected: str) -> None:
    "Raise Misused if it gives one vector for each sequence, or for each learned query."
    alone = layer.other_input is None and y.ndim == 3 and y.shape[1] > 1
    longer = attempt(lambda: layer(layer.draw(BATCH, layer.n + 1))) if alone else None
    if longer is not None and longer.shape == y.shape:
        raise Misused(
            f"module: {expected}, one vector for each token; got {tuple(y.shape)}, as many at any"
            " length: if its queries are learned, check it as cross-attention of these to x"
        )
    if y.shape[:-1] in ((BATCH,), (BATCH, 1)):
        raise Misused(
            f"module: {expected}, one vector for each token; got {tuple(y.shape)}, one for each"
            " sequence: if it pools on purpose, check the attention inside it; if not, a mean or"
            " an index drops the tokens"
        )


def _how_called(layer: Layer) -> list[str]:
    "Return how it is called, where that is not the plain way."
    given = layer.original
    if layer.contract.call:
        return []
    if is_torch_mha(given) and not given.batch_first:
        return [
            "batch_first=False, so it takes (n, b, d_model): x was transposed for it. "
            "Handed (b, n, d_model), it attends over the batch"
        ]
    if layer.other_input is not None:
        takers = for_memory(given)
        second = list(parameters_of(given) or takers)[1:2]
        return [] if takers == second else [f"the memory was given as {' and '.join(takers)}"]
    others = needed_by(given)[1:]
    if names := packing_names(others):
        return [f"sequences were packed into one, and {' and '.join(names)} said where they end"]
    if any(map(MASK.search, others)):
        plain = [name for name in others if name != layer.contract.mask_name]
        arguments = [f"{name}=None" if MASK.search(name) else f"{name}=x" for name in plain]
        return [f"forward was called with {', '.join(arguments)}"] if arguments else []
    return []


def _zeros(layer: Layer) -> list[str]:
    "Return what to say of a weight that is zero."
    zeros = [] if no_module(layer) else zero_weights(layer.original)
    return [
        f"{name} is all zero: the copy that was tried got small numbers" for name, _ in zeros[:1]
    ]


def must_be_vectors(
    layer: Layer,  # the layer under test
    x: Tensor,  # (b, n, d_model)
    y: Tensor,  # what came out
    mode: str = "",  # in which it was called, in words
) -> None:
    "Raise Broken if the output is not finite, or has another length than the input."
    shown = f"x {tuple(x.shape)}{mode}"
    if y.shape[:2] != layer.output_shape(x):
        raise Broken(f"{shown}: it gives shape {tuple(y.shape)}", known("length.tokens"))
    if not y.isfinite().all():
        where, bug = "", known("values.nan_row")
        if y.shape[1] == layer.n:
            where, bug = _why_not_finite(layer, y)
        raise Broken(f"{shown}: NaN or infinity{where}", bug)


def _why_not_finite(layer: Layer, y: Tensor) -> tuple[str, Bug]:
    "At which positions, if not at all, and the bug."
    finite = y.isfinite().all(-1).all(0)
    if layer.causal and len(finite) > 1:
        if finite[:-1].all():
            return " at the last position only", known("mask.inverted_last")
        if finite[1:].all():
            return " at the first position only", known("mask.not_itself_first")
        if finite[-1] and not finite[:-1].any():
            return " at all positions but the last", known("softmax.over_heads_or_batch")
    return "", known("values.nan")


def _must_repeat(layer: Layer) -> None:
    "The same inputs give the same answer in evaluation."
    x = layer.draw()
    with torch.no_grad():
        first, second = layer(x), layer(x)
    if not nearly(first, second, SHORT_SUMS, equal_nan=True):
        shown = f"called twice in evaluation: {first_difference(second, first, SHORT_SUMS)}"
        raise Broken(shown, _chance_or_state(layer, x), last=True)
    must_be_vectors(layer, x, first, ", without gradients")
    y = layer(x)
    shown = "with and without gradients"
    must_be_near(y.detach(), first, shown, known("mode.no_grad"), FLOAT32)


def _chance_or_state(layer: Layer, x: Tensor) -> Bug:
    "Return why two calls differ: something kept, or chance."
    outs = [attempt(lambda: _seeded_output(layer, x)) for _ in range(2)]
    if outs[1] is None or not nearly(outs[0], outs[1], SHORT_SUMS):
        return known("state.kept")
    bare = layer.modules and not list(layer.module.parameters())
    return known("dropout.in_evaluation", anew=" (it has no parameters)" if bare else "")


def _seeded_output(layer: Layer, x: Tensor) -> Tensor:
    "Return the output, with the same random numbers each time."
    torch.manual_seed(0)
    return layer(x).detach()


def must_forget(layer: Layer) -> None:
    "Nothing is kept from call to call."
    x = layer.draw()
    first = layer(x.clone())
    _short_then_long(layer, x, first)
    n = layer.n
    others = layer.promised(n - 2, n, n + 1, n - 1)
    if layer.contract.lengths is not None:
        others = layer.contract.allowed_lengths[:4]
    for m in others:
        b = BATCH - 1 if m == n else BATCH
        attempt(lambda: layer(layer.draw(b, m, seed=m)))  # a layer may have a maximum
    if not nearly(layer(layer.draw()), first, SHORT_SUMS):
        shown = "called again after other inputs, it gives another answer"
        raise Broken(shown, known("state.kept"))


def _short_then_long(layer: Layer, x: Tensor, want: Tensor) -> None:
    "A layer that was called on a short sequence first must do as well on a longer one."
    if not isinstance(layer.uncalled, nn.Module):
        return
    short = next(iter(layer.promised(layer.n - 3) or layer.contract.allowed_lengths), layer.n)
    fresh, shown = deep_copy(layer.uncalled), f"first n = {short}, then n = {layer.n}"
    layer.call(fresh, layer.draw(BATCH, short, seed=7))
    kept = known("state.first_length")
    got = must_run(lambda: layer.output_of(fresh, x), shown, lambda: kept)
    must_be_near(got, want, shown, kept)


def must_not_mix(layer: Layer) -> None:
    "Sequences of a batch do not mix."
    x = layer.draw()
    mixed = lambda: _mixed(layer, x)
    broken = broken_by(lambda: must_not_mix_along(layer, [x], 0, "sequence", mixed))
    if broken:  # if it attends over the batch, all else of tokens is a symptom
        over_batch = broken.bugs == (known("batch.axes"),)
        symptom = broken.symptom and not over_batch
        raise Broken(broken.example, broken.bugs, symptom, last=over_batch)


def _mixed(layer: Layer, x: Tensor) -> Bug:
    "Return whether sequences mix since the axes are the other way round."
    moved = x.clone()
    moved[:, 0] = -2 * moved[:, 0] + 1  # all others attend to the first, in a causal layer too
    alone = attempt(lambda: nearly(layer(moved)[:, 1:], layer(x)[:, 1:]))
    return known("batch.axes" if alone else "batch.mixes")


RUNS = (Property.of(_must_give_a_vector_per_token), Property.of(_must_repeat))
CALLS = (Property.of(must_forget), Property.of(must_not_mix))
