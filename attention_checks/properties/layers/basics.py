"""What any layer must do: take any length and batch, and keep nothing between calls."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn as nn
from torch import Tensor

from attention_checks.catalogue import known
from attention_checks.conventions import MASK
from attention_checks.outcomes import (
    Broken,
    Misused,
    NotChecked,
    attempt,
    broken_by,
    code_told_by,
    first_line,
    runs,
)
from attention_checks.pipeline import Bug
from attention_checks.properties import Property
from attention_checks.properties.equivariance import must_not_mix_along
from attention_checks.properties.numerics import must_be_finite, must_keep_dtype, run_in_half
from attention_checks.properties.state import must_only_read
from attention_checks.signatures import parameters_of
from attention_checks.subjects.calling import for_memory, is_torch_mha, needed_by, packing_names
from attention_checks.subjects.copies import deep_copy, softened_copy, zero_weights
from attention_checks.subjects.layer import BATCH, Layer, no_module
from attention_checks.tensors import (
    first_difference,
    must_be_near,
    must_be_tensor,
    must_run,
    nearly,
)
from attention_checks.tolerance import FLOAT32, LONG_SUMS, MOVED, SHORT_SUMS
from attention_checks.trace.roles import what_is_read

_FIXED_LENGTHS = (  # likely ones
    *(2, 3, 4, 6, 8, 9, 10, 12, 16, 25, 32, 36, 49, 50, 64, 77, 81, 100, 128, 144, 196, 197, 256),
)


def _must_give_a_vector_per_token(layer: Layer) -> str | None:
    "It runs, and gives one finite vector per token."
    x = layer.draw()
    shape = f"x {tuple(x.shape)}"
    try:
        y, rest = layer.output_and_rest(x)
    except Exception as e:
        _must_fit(layer, e)
        raise Broken(f"{shape}: it raised {first_line(e)}", _why_it_raises(layer, e)) from None
    must_be_tensor(y)
    like_weights = y.shape[-1] == layer.n_k and layer.n_k != layer.d_model
    if like_weights and rest and isinstance(rest[0], Tensor) and rest[0].shape == x.shape:
        shapes = f"{tuple(y.shape)} and {tuple(rest[0].shape)}"
        raise Broken(f"{shape}: it gives shapes {shapes}", known("shape.weights_and_output"))
    if y.ndim != 3 or y.shape[:2] != layer.output_shape(x):
        expected = f"expected ({BATCH}, {layer.n}, d_out)"
        _must_not_pool(y, expected)
        bug = misrouted(layer) or known("shape.rows")
        raise Broken(f"{shape}: it gives shape {tuple(y.shape)}, {expected}", bug)
    must_be_vectors(layer, x, y)
    return "; ".join([*_how_called(layer), *_zeros(layer)]) or None


def _must_not_pool(y: Tensor, expected: str) -> None:
    "Raise Misused if it gives one vector for each sequence."
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
    if layer.other is not None:
        takers = for_memory(given)
        second = list(parameters_of(given) or takers)[1:2]
        return [] if takers == second else [f"the memory was given as {' and '.join(takers)}"]
    others = needed_by(given)[1:]
    if names := packing_names(others):
        return [f"sequences were packed into one, and {' and '.join(names)} said where they end"]
    if any(map(MASK.search, others)):
        arguments = [f"{name}=None" if MASK.search(name) else f"{name}=x" for name in others]
        return [f"forward was called with {', '.join(arguments)}"]
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
    if not layer.causal:
        return "", known("values.not_finite", hint="")
    if len(finite) > 1:
        if finite[:-1].all():
            return " at the last position only", known("mask.inverted_last")
        if finite[1:].all():
            return " at the first position only", known("mask.not_itself_first")
        if finite[-1] and not finite[:-1].any():
            return " at all positions but the last", known("softmax.over_heads_or_batch")
    hint = ": is a mask multiplied by -inf? (0 · inf is NaN: masked_fill)"
    return "", known("values.not_finite", hint=hint)


def _must_fit(layer: Layer, e: Exception) -> None:
    "Raise Misused if it takes another width, or ids in the place of hidden states."
    if "'indices'" in str(e):
        raise Misused(
            "module: expected a layer over hidden states (b, n, d_model); "
            "got one that begins with an embedding of ids"
        )
    widths = [getattr(layer.module, "embed_dim", None)]
    widths += [m.in_features for m in layer.modules if isinstance(m, nn.Linear)]
    for width in dict.fromkeys(w for w in widths if isinstance(w, int) and w != layer.d_model):
        if runs(lambda: layer(torch.randn(BATCH, layer.n, width))):
            name = "d_memory" if layer.of_memory else "d_model"
            raise Misused(
                f"{name}: expected {width}, the width of the vectors that it takes; "
                f"got {layer.d_model}"
            )
    if layer.other is not None and not layer.of_memory:
        _must_fit(layer.over_memory, e)


def _why_it_raises(layer: Layer, e: Exception) -> Bug:
    "Return which sizes it silently needs."
    called = layer.module.forward if layer.modules else layer.module
    of_call = getattr(called, "__qualname__", "") in str(e) and "argument" in str(e)
    plain = layer.contract.call is None
    if code_told_by(e) == "code.devices":
        return known("code.devices")
    if plain and isinstance(e, TypeError) and of_call:
        return known("shape.call")
    if layer.other is not None and (bug := misrouted(layer) or _why_not_together(layer)):
        return bug
    if lengths := _other_lengths(layer):
        return known("shape.only_length", given=layer.n, n=lengths)
    needed = needed_by(layer.module)
    if plain and len(needed) > 1 and layer.other is None:
        return known("shape.arguments", needed=", ".join(needed))
    at_once = (AttributeError, NameError, ImportError, TypeError, NotImplementedError)
    if plain and isinstance(e, at_once):
        return known("code.error", error=type(e).__name__)
    what = "d_model" if plain else "what call= hands it, d_model"
    return known("shape.input", error=type(e).__name__, what=what)


def _other_lengths(layer: Layer) -> list[int]:
    "Return the lengths at which it runs, of likely ones at which no axes can be mixed up."
    mixed = (BATCH, layer.n_heads, layer.d_model)
    return [n for n in _FIXED_LENGTHS if n not in mixed and layer.fits(BATCH, n)]


def misrouted(
    layer: Layer,  # the layer under test
) -> Bug | None:  # None without a memory
    "Find out whether projections read the other input, or x and the memory are exchanged."
    if layer.other is None or layer.of_memory:
        return None
    reads = reads_of(layer)
    well = {name for name, _, right in reads if right}  # a layer of both ways reads both
    wrong = {name: role for name, role, right in reads if not right and name not in well}
    sides = {role == "q" for role in wrong.values()}
    given = attempt(lambda: layer(layer.draw()).shape[1])
    as_memory = given == layer.n_k and layer.n_k != layer.n
    if len(sides) == 2 or not reads and as_memory:
        return known("route.exchanged")
    if not wrong:
        return None
    code = "route.reads_memory" if True in sides else "route.reads_x"
    return known(code, names=" and ".join(wrong))


def reads_of(layer: Layer) -> list[tuple[str, str, bool]]:
    "Projections that read x or the memory, with their roles, and whether rightly."
    # where lengths are equal, the numbers must not be
    x, memory = layer.draw(), layer.over_memory.draw(seed=9)
    call, roles = layer.beside(memory).output_of, layer.contract.roles
    return attempt(lambda: what_is_read(layer.module, x, memory, call, roles)) or []


def _why_not_together(layer: Layer) -> Bug | None:
    "Return whether it takes the sequence before the batch, or equal lengths of x and memory only."
    if layer.declaring(layout=layer.contract.layout or "nbd").fits(BATCH, layer.n):
        return known("batch.axes")
    square = layer.beside(layer.over_memory.draw(1, layer.n))
    return known("shape.only_square") if square.fits(BATCH, layer.n) else None


def _must_repeat(layer: Layer) -> None:
    "The same inputs give the same answer, with gradients and without."
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
    "Raise Broken if other inputs before change what it gives."
    x = layer.draw()
    first = layer(x)
    _short_then_long(layer, x, first)
    n = layer.n
    others = layer.promised(n - 2, n, n + 1, n - 1)
    if layer.contract.lengths is not None:
        others = layer.contract.allowed_lengths[:4]
    for m in others:
        b = BATCH - 1 if m == n else BATCH
        attempt(lambda: layer(layer.draw(b, m, seed=m)))  # a layer may have a maximum
    if not nearly(layer(x), first, SHORT_SUMS):
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
    "Raise Broken if a sequence of a batch comes out other than alone."
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


_ONE_VALUE = "Expected more than 1 value per channel"  # so norms of PyTorch refuse one token


def must_take_one(layer: Layer) -> None:
    "Raise Broken if it cannot do with one token, or with one sequence."
    sizes = [(1, layer.n, "one sequence"), (BATCH, 1, "one token")]
    sizes += [(1, 1, "one token"), (BATCH, 2, "two tokens")]
    for b, n, what in sizes:
        if not layer.contract.takes(n):
            continue
        x = layer.draw(b, n)
        bug, shape = known("length.breaks", what=what), f"x {tuple(x.shape)}"
        try:
            y = must_run(lambda: layer(x), shape, lambda: bug)
        except Broken as e:
            if _ONE_VALUE in e.example:
                continue
            raise
        if y.shape[:2] != layer.output_shape(x) or y.ndim != 3:
            raise Broken(f"{shape}: it gives shape {tuple(y.shape)}", bug)


def must_stay_finite(layer: Layer) -> None:
    "Raise Broken if large inputs give values or gradients that are not finite."
    code = "softmax.overflows"
    for factor in (30.0, 300.0):
        inputs = {"x": layer.draw() * factor}
        shown = f"inputs {factor:g} times as large"
        must_be_finite(layer, inputs, shown, lambda: known(code), gradient=code)


_OFF_IN_SIXTEEN_BITS = {torch.bfloat16: 0.06, torch.float16: 0.02}  # of the largest number


def must_stand_sixteen_bits(layer: Layer) -> str | None:
    "Raise Broken unless 16 bits give finite, nearly equal values of their type."
    x = layer.draw()
    want = layer(x).detach()
    apart = [dtype for dtype in _OFF_IN_SIXTEEN_BITS if not _near_in(layer, x, want, dtype)]
    if not apart:
        return None
    return (
        f"in {' and '.join(map(str, apart))} small weights were tried: "
        "with its own, scores are so large that rounding decides"
    )


def _near_in(layer: Layer, x: Tensor, want: Tensor, dtype: torch.dtype) -> bool:
    "Return whether 16 bits give the same with its own weights; Broken unless small ones do."
    y = _in_sixteen_bits(layer, x, dtype)
    if not y.isfinite().all():
        raise Broken(
            f"{dtype}: the output is NaN or infinite", known("dtype.overflows", dtype=dtype)
        )
    must_keep_dtype(y, dtype, "x")
    tolerance = _OFF_IN_SIXTEEN_BITS[dtype]
    atol = tolerance * max(1.0, want.abs().max().item())
    near = nearly(y.float(), want, atol)
    if not near and not _close_if_softened(layer, x, dtype, tolerance):
        shown = f"{dtype}: {first_difference(y.float(), want, atol)}"
        raise Broken(shown, known("dtype.loses", dtype=dtype))
    return near


def _in_sixteen_bits(layer: Layer, x: Tensor, dtype: torch.dtype) -> Tensor:
    "Return the output in 16 bits; norms may stay in 32 bits, if those are what they compute in."

    def call(of_norms: torch.dtype = dtype) -> Tensor:
        copied = deep_copy(layer.module).to(dtype)
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


def _close_if_softened(layer: Layer, x: Tensor, dtype: torch.dtype, tolerance: float) -> bool:
    "Return whether 16 bits do with small weights: where scores are large, rounding decides."
    softened = softened_copy(layer.module)
    want = layer.output_of(softened, x).detach()
    got = layer.output_of(softened.to(dtype), x.to(dtype)).detach().float()
    return bool((got - want).abs().max() <= tolerance * want.abs().max())


def _must_return_weights(layer: Layer) -> None:
    "Weights that come with the output are those that made it."
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


def _may_be_weights(layer: Layer, found: Any) -> bool:
    "Return whether something has the shape of weights, (b, n_q, n_k) or (b, h, n_q, n_k)."
    if not isinstance(found, Tensor) or not found.is_floating_point() or found.ndim not in (3, 4):
        return False
    return len(found) == BATCH and found.shape[-2:] == (layer.n, layer.n_k)


RUNS = (
    Property(
        "it runs, and gives one vector per token: (b, n, d_out)", _must_give_a_vector_per_token
    ),
    Property("the same inputs give the same answer in evaluation", _must_repeat),
)
CALLS = (
    Property("nothing is kept from call to call", must_forget),
    Property("sequences of a batch do not mix", must_not_mix),
)
EDGES = (
    Property("one token, one sequence", must_take_one),
    Property("inputs are not modified, and need not be contiguous", must_only_read),
    Property("large inputs give finite values and gradients", must_stay_finite),
    Property(
        "float16 and bfloat16 give finite, nearly equal values",
        must_stand_sixteen_bits,
        no_module,
        applies=lambda layer: layer.contract.dtype is None,
    ),
    Property("weights that it returns are weights", _must_return_weights),
)
