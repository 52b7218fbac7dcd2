"""Decoding with a cache, in chunks of any size, against the full causal pass over the sequence."""

import math
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import torch
import torch.nn as nn
from torch import Tensor

from attention_checks.catalogue import known
from attention_checks.explaining.cache_steps import code_of_step, first_calls
from attention_checks.explaining.pipeline import Bug
from attention_checks.numbers.tensors import first_difference, must_be_tensor, nearly
from attention_checks.numbers.tolerance import NOT_ZERO, SHORT_SUMS
from attention_checks.outcomes import (
    Broken,
    Misused,
    NotChecked,
    attempt,
    broken_by,
    first_line,
    raise_own_error,
    runs,
)
from attention_checks.properties import Properties, Property, Recognise, bound
from attention_checks.spec import Contract
from attention_checks.subjects.calling import declared_output, first_tensor
from attention_checks.subjects.copies import tensors_in
from attention_checks.their_code.signatures import module_in, name_of, parameters_of
from attention_nb.kv_cache import KVCache
from attention_nb.multi_head_attention import MultiHeadAttention
from attention_nb.tools.watching import watch

_N = 9  # tokens of a sequence
_LENGTHS = [4, 6, 5]  # of three sequences that differ
_LONGEST = max(_LENGTHS)
_ORDERS = {3: ([1, 2, 0], [2, 2, 1]), 2: ([1, 0], [1, 1])}  # sequences → how they are reordered


class CachedLayer:
    "A layer that decodes with a cache, and how each of its parts is called."

    def __init__(
        self,
        module: Any,  # the layer, or a function that takes the next tokens and the cache
        d_model: int,  # width of the hidden states
        step: Callable[[Tensor, Any], Any] | None,  # next tokens' hidden states, cache → outputs
        full: Callable[[Tensor], Any] | None,  # all hidden states at once, causal → outputs
        new_cache: Callable[[int, int], Any] | None,  # sequences, tokens → an empty cache
        grows: bool,  # may the cache grow, and be copied, at each step?
        contract: Contract,  # what else was declared
    ):
        "Keep what is called; None stands for what the layer itself tells."
        self.step = step or _step_of(module, full)
        self.full = full or _full_of(module)
        self.new_cache = new_cache or _cache_of(module)
        self.module = module_in(step or module) or module_in(module)
        self.d_model, self.grows, self.contract = d_model, grows, contract
        self.b, self.n = contract.batch(3), contract.nearest_length(_N)
        self.ones = [1] * self.n
        if self.n < _N:
            raise Misused(f"lengths: expected one of at least {_N}, to try chunks; got {self.n}")

    def draw(self, b: int = 0, n: int = 0, seed: int = 0) -> Tensor:
        "Draw hidden states, (b, n, d_model); as many as it is tried with, if that is not said."
        shape = (b or self.b, n or self.n, self.d_model)
        return torch.randn(shape, generator=torch.Generator().manual_seed(seed))

    @property
    def chunks(self) -> list[int]:
        "How many tokens are given at once."
        return [4, 3, self.n - 7]

    @property
    def lengths(self) -> list[int]:
        "Tokens of sequences that differ in length."
        return _LENGTHS[: self.b]

    @cached_property
    def x(self) -> Tensor:
        "The sequences that it is tried with."
        return self.draw()

    @cached_property
    def other(self) -> Tensor:
        "Other sequences, as many."
        return self.draw(seed=1)

    @cached_property
    def want(self) -> Tensor:
        "The full pass over them."
        return self.full_pass(self.x)

    @cached_property
    def steps_right(self) -> bool:
        "Return whether one token at a time is right; if not, all that follows is a symptom."
        return _outputs_right(self.decode(self.x, self.ones), self.want)

    @cached_property
    def chunks_right(self) -> bool:
        "Return whether chunks of several tokens are right."
        return _outputs_right(self.decode(self.x, self.chunks), self.want)

    def full_pass(self, x: Tensor) -> Tensor:
        "Run all tokens at once."
        return self._outputs(self.full(self.contract.placement.to(x)), x)

    def advance(self, x: Tensor, cache: Any) -> Tensor:
        "Run the next tokens; the cache holds those before, and is filled."
        return self._outputs(self.step(self.contract.placement.to(x), cache), x)

    def decode(self, x: Tensor, sizes: Sequence[int], cache: Any = None) -> Tensor:
        "Run sequences in chunks of these sizes, in a new cache unless one is given."
        if cache is None:
            cache = self.new_cache(len(x), self.n + 3)
        chunks = x.split(list(sizes), dim=1)
        return torch.cat([self.advance(chunk, cache) for chunk in chunks], dim=1)

    def prefilled(self, x: Tensor, n: int, cache: Any) -> None:
        "Run n tokens, at once if that is right, else one by one."
        self.decode(x, [n] if self.chunks_right else [1] * n, cache)

    def _outputs(self, result: Any, x: Tensor) -> Tensor:
        "Return the output, which may be the first of several; Broken unless it has the shape of x."
        if self.contract.returns is not None:
            result = declared_output(result, self.contract.returns)
        out = first_tensor(result)[0]
        must_be_tensor(out)
        if out.shape != x.shape:
            shown = f"x {tuple(x.shape)}: it gives shape {tuple(out.shape)}"
            raise Broken(shown, known("result.shape"))
        given: Tensor = self.contract.placement.back(out.detach())
        return given


def _step_of(module: Any, full: Any) -> Callable[[Tensor, Any], Any]:
    "Return how the next tokens are given: a function as it is, a layer with its cache by name."
    if full is not None and not isinstance(module, nn.Module):
        return module
    return lambda x, cache: module(x, cache=cache)


def _full_of(module: Any) -> Callable[[Tensor], Any]:
    "Return the causal pass over all tokens."
    if "causal" in (parameters_of(module) or {}):
        return lambda x: module(x, causal=True)
    return module


def _cache_of(module: Any) -> Callable[[int, int], Any]:
    "Return what makes an empty cache for a layer."
    if callable(own := getattr(module, "new_cache", None)):
        return own
    if isinstance(module, MultiHeadAttention):
        heads, like = module.n_kv_heads, module.k_proj.weight
        width = len(like) // heads
        return lambda b, n_max: KVCache(b, heads, n_max, width, like.dtype, like.device)
    raise Misused(
        f"new_cache: expected a function of b and n_max, since {name_of(module)} has none of its"
        " own; got None"
    )


def _outputs_right(got: Tensor, want: Tensor) -> bool:
    "Return whether outputs are right, however small the layer makes them."
    size = want.abs().amax().clamp(min=NOT_ZERO)
    return nearly(got / size, want / size)


def _unmoved(got: Tensor, want: Tensor) -> bool:
    "Return whether outputs are the same but for rounding: what was changed made no difference."
    atol = SHORT_SUMS * float(want.abs().nan_to_num(0, 0, 0).max())
    return got.shape == want.shape and torch.allclose(got, want, SHORT_SUMS, atol, equal_nan=True)


def _must_be_right(got: Tensor, want: Tensor, how: str, why: Callable[[], Any]) -> None:
    "Raise Broken with the likely bug, unless the outputs are right."
    if not _outputs_right(got, want):
        raise Broken(f"{how}: {first_difference(got, want)}", why())


def _must_give_outputs(layer: CachedLayer) -> None:
    "It runs, and gives an output for each token."
    if not layer.want.isfinite().all():
        raise Broken("the full pass gives NaN or infinity", known("values.nan"), symptom=False)
    changed = torch.cat([layer.x[:, :-1], layer.other[:, -1:]], dim=1)
    if not _unmoved(layer.full_pass(changed)[:, :-1], layer.want[:, :-1]):
        shown = "in the full pass, outputs before the last token change with it"
        raise Broken(shown, known("cache.full_future"))
    layer.advance(layer.x[:, :1], layer.new_cache(layer.b, layer.n))


def _must_be_empty_when_new(layer: CachedLayer) -> None:
    "A new cache is empty."
    before = layer.decode(layer.x[:, :2], [1, 1])
    layer.decode(layer.other[:, :2], [1, 1])
    after = layer.decode(layer.x[:, :2], [1, 1])
    if not _outputs_right(after, before):
        shown = f"two tokens, two others, and the two again: {first_difference(after, before)}"
        raise Broken(shown, known("cache.not_cleared"), last=True)


def _must_be_as_one_pass(layer: CachedLayer, sizes: list[int], how: str) -> None:
    "Raise Broken unless steps of so many tokens give the full pass."
    got = layer.decode(layer.x, sizes)
    _must_be_right(got, layer.want, how, lambda: _bug_of_steps(layer, sizes, got))


_NEAR = 0.02  # so far apart, of the largest number, are those that were kept in few bits


def _bug_of_steps(layer: CachedLayer, sizes: list[int], got: Tensor) -> Bug:
    "Name the bug of steps of so many tokens."
    code = attempt(lambda: _code_of_steps(layer, sizes, got)) or "cache.unknown"
    off = float((got - layer.want).abs().max() / layer.want.abs().max().clamp(min=NOT_ZERO))
    if code in ("cache.stored", "cache.values", "cache.unknown") and off < _NEAR:
        digits = 1 - math.floor(math.log10(off))
        tolerance = f"{round(1.5 * off, digits):g}"
        return known("cache.rounded", off=f"{off:.1g}", tolerance=tolerance)
    return known(code)


def _code_of_steps(layer: CachedLayer, sizes: list[int], got: Tensor) -> str:
    "Return the code of the first wrong step that has one; empty: no known bug, or none is seen."
    if layer.module is None:
        return ""
    cache, start = layer.new_cache(layer.b, layer.n + 3), 0
    whole = _watched(layer.module, lambda: layer.full_pass(layer.x))
    for chunk in layer.x.split(sizes, dim=1):
        part = _watched(layer.module, lambda: layer.advance(chunk, cache))
        end = start + chunk.shape[1]
        if not _outputs_right(got[:, start:end], layer.want[:, start:end]):
            for path in whole:
                code = code_of_step(whole[path], part[path], start, end) if path in part else ""
                if code:
                    return code
        start = end
    return ""


def _watched(module: nn.Module, run: Callable[[], Any]) -> dict[str, Any]:
    "Return the first attention of each layer in a run."
    with watch(module, keep="copies") as seen:
        run()
    return first_calls(seen)


def _must_reset(layer: CachedLayer) -> None:
    "Reset() empties the cache."
    cache = layer.new_cache(layer.b, 2 * layer.n + 3)
    layer.decode(layer.other, layer.ones, cache)
    cache.reset()
    got = layer.decode(layer.x, layer.ones, cache)
    _must_be_right(got, layer.want, "after reset()", lambda: known("cache.reset"))


def _must_truncate(layer: CachedLayer) -> None:
    "Truncate() leaves no trace of later tokens."
    cache = layer.new_cache(layer.b, layer.n + 3)
    layer.decode(torch.cat([layer.x[:, :4], layer.other[:, :3]], dim=1), [1] * 7, cache)
    try:
        cache.truncate(4)
    except (ValueError, RuntimeError) as e:
        if layer.contract.window is None:
            raise
        raise NotChecked(f"what has left the window is gone: {first_line(e, 80)}") from None
    got = layer.decode(layer.x[:, 4:], [1] * (layer.n - 4), cache)
    _must_be_right(got, layer.want[:, 4:], "after truncate(4)", lambda: known("cache.truncate"))


def _after_different_lengths(
    layer: CachedLayer, x: Tensor, sizes: Sequence[int], order: list[int] | None = None
) -> Tensor:
    "Decode more tokens after three sequences of different lengths, perhaps in another order."
    cache = layer.new_cache(layer.b, layer.n + 3)
    layer.prefilled(x[:, :_LONGEST], _LONGEST, cache)
    try:
        cache.truncate(torch.tensor(layer.lengths))
    except (TypeError, ValueError, RuntimeError) as e:
        reason = f"it does not truncate each sequence to its own length: {first_line(e, 80)}"
        raise NotChecked(reason) from None
    if order:
        cache.reorder(torch.tensor(order))
    return layer.decode(x[:, _LONGEST:], sizes, cache)


def _each_alone(layer: CachedLayer, order: Sequence[int] = ()) -> Tensor:
    "Return what `_uneven` should give: each sequence by itself in a full pass."
    outputs = []
    for new, old in enumerate(order or range(layer.b)):
        beginning = layer.x[old : old + 1, : _LENGTHS[old]]
        sequence = torch.cat([beginning, layer.x[new : new + 1, _LONGEST:]], dim=1)
        outputs.append(layer.full_pass(sequence)[:, _LENGTHS[old] :])
    return torch.cat(outputs)


def _must_hold_different_lengths(layer: CachedLayer) -> None:
    "Sequences of different lengths continue as if each were alone."
    if broken_by(lambda: _must_truncate(layer)):
        raise NotChecked("truncate() is wrong, which makes them")
    rest = [1] * (layer.n - _LONGEST)
    got, want = _after_different_lengths(layer, layer.x, rest), _each_alone(layer)

    def why() -> Bug:
        "Name the likely bug."
        if not got.isfinite().all():
            return known("cache.padding")
        padded = layer.x.clone()
        padded[0, _LENGTHS[0] : _LONGEST] = layer.other[0, _LENGTHS[0] : _LONGEST]
        unseen = _unmoved(_after_different_lengths(layer, padded, rest)[0], got[0])
        return known("cache.sequence_ends" if unseen else "cache.padding")

    how = f"sequences of {layer.lengths} tokens"
    _must_be_right(got, want, how, why)
    if layer.chunks_right:
        got = _after_different_lengths(layer, layer.x, [1, layer.n - _LONGEST - 1])
        _must_be_right(got, want, f"{how}, and a chunk", lambda: known("cache.chunk_future"))


def _must_reorder(layer: CachedLayer) -> None:
    "Reorder() continues the chosen sequences."

    def right(order: list[int]) -> Tensor:
        "Return the full pass over the chosen beginnings."
        return layer.full_pass(torch.cat([layer.x[order, :4], layer.x[:, 4:]], dim=1))[:, 4:]

    for order in _ORDERS[layer.b]:
        cache = layer.new_cache(layer.b, layer.n + 3)
        layer.decode(layer.x[:, :4], [1] * 4, cache)
        cache.reorder(torch.tensor(order))
        got = layer.decode(layer.x[:, 4:], [1] * (layer.n - 4), cache)
        why = lambda: known("cache.reorder")
        _must_be_right(got, right(order), f"after reorder({order})", why)


def _must_reorder_lengths(layer: CachedLayer) -> None:
    "Reorder() moves their lengths, too."
    if broken_by(lambda: _must_hold_different_lengths(layer)):
        raise NotChecked("sequences of different lengths are wrong in their own order")
    order = [layer.b - 1] * (layer.b - 1) + [0]
    how = f"sequences of {layer.lengths} tokens, after reorder({order})"
    rest = [1] * (layer.n - _LONGEST)
    got, want = _after_different_lengths(layer, layer.x, rest, order), _each_alone(layer, order)
    _must_be_right(got, want, how, lambda: known("cache.reorder"))


def _must_refuse_when_full(layer: CachedLayer) -> None:
    "A full cache refuses more, and keeps what it has."
    x = layer.x[:2]
    cache = layer.new_cache(len(x), 4)
    first = layer.decode(x[:, :3], [1] * 3, cache)
    try:
        layer.advance(x[:, 3:5], cache)
    except Broken:
        raise
    except Exception as e:
        raise_own_error(e)
        _must_keep_what_it_has(layer, cache, first)
        return
    raise Broken("a cache for 4 tokens took 5", known("cache.full_silent"))


def _must_keep_what_it_has(layer: CachedLayer, cache: Any, first: Tensor) -> None:
    "Raise Broken unless a fourth token still fits after two that did not."
    changed = known("cache.full_changed")
    x = layer.x[:2, :4]
    try:
        last = layer.advance(x[:, 3:], cache)
    except Exception as e:
        shown = f"it refused two tokens, then one that fits: {first_line(e)}"
        raise Broken(shown, changed) from None
    got = torch.cat([first, last], dim=1)
    how = "a token that fits, after two that did not"
    _must_be_right(got, layer.full_pass(x), how, lambda: changed)


def _addresses(cache: Any) -> set[int]:
    "Return the addresses of the large tensors in a cache."
    held = [t for _, t in tensors_in(cache, attributes=True)]
    return {t.untyped_storage().data_ptr() for t in held if t.numel() > 600}


@torch.no_grad()  # where gradients are wanted, a cache must not be overwritten
def _must_not_copy(layer: CachedLayer) -> None:
    "A step does not copy the cache."
    x, cache, moved = layer.draw(1, 274, seed=2), layer.new_cache(1, 300), []
    if not runs(lambda: layer.prefilled(x[:, :272], 272, cache)):
        raise NotChecked(f"it takes no {x.shape[1]} tokens")
    for chunk in x[:, 272:].split(1, dim=1):
        before = _addresses(cache)
        layer.advance(chunk, cache)
        moved.append(bool(before - _addresses(cache)))
    if all(moved):
        raise Broken("each step moves the cache into other memory", known("cache.copies"))


_WhyNot = Callable[[CachedLayer], str]  # why a property does not apply; empty if it does


def _first_reason(*needs: _WhyNot) -> _WhyNot:
    "Return the first of several reasons."
    return lambda layer: next(filter(None, (need(layer) for need in needs)), "")


def _lacks_lengths(*lengths: int) -> _WhyNot:
    "Return why a property does not apply to a full pass that takes other lengths."

    def other(layer: CachedLayer) -> str:
        "Name the first length that was not declared."
        lacking = [n for n in lengths if not layer.contract.takes(n)]
        return f"lengths= allows no sequence of {lacking[0]} tokens" if lacking else ""

    return other


def _one_sequence(layer: CachedLayer) -> str:
    "Return why sequences cannot be reordered."
    return "max_batch=1 was declared" if layer.b == 1 else ""


def _lacks_methods(*methods: str) -> Callable[[CachedLayer], str]:
    "Return why a property does not apply to a cache without these methods."

    def missing(layer: CachedLayer) -> str:
        "Name the first method that a cache lacks."
        cache = layer.new_cache(1, 2)
        lacking = [name for name in methods if not callable(getattr(cache, name, None))]
        return f"the cache has no {lacking[0]}()" if lacking else ""

    return missing


def _grows(layer: CachedLayer) -> str:
    "Return why a property does not apply to a cache that grows."
    return "the cache may grow" if layer.grows else ""


def _never_full(layer: CachedLayer) -> str:
    "Return why a cache cannot be full."
    rolls = layer.contract.window is not None
    return "a cache of a window is never full" if rolls else _grows(layer)


_STEPS = ("steps_right",)
_ENDS = _lacks_lengths(*(n + 3 for n in _LENGTHS))  # of sequences that differ in length
_PROPERTIES = [
    Property.of(_must_give_outputs),
    Property.of(_must_be_empty_when_new),
    Property(
        "one token at a time gives the full pass",
        lambda layer: _must_be_as_one_pass(layer, layer.ones, "one token at a time"),
        compares="the full pass",
    ),
    Property(
        "chunks give the full pass",
        lambda layer: _must_be_as_one_pass(layer, layer.chunks, f"in chunks of {layer.chunks}"),
        symptom_unless=_STEPS,
    ),
    Property.of(_must_reset, _lacks_methods("reset"), symptom_unless=_STEPS),
    Property.of(_must_truncate, _lacks_methods("truncate"), _STEPS),
    Property.of(
        _must_hold_different_lengths, _first_reason(_lacks_methods("truncate"), _ENDS), _STEPS
    ),
    Property.of(_must_reorder, _first_reason(_lacks_methods("reorder"), _one_sequence), _STEPS),
    Property.of(
        _must_reorder_lengths,
        _first_reason(_lacks_methods("truncate", "reorder"), _one_sequence, _ENDS),
        _STEPS,
    ),
    Property.of(_must_refuse_when_full, _first_reason(_never_full, _lacks_lengths(4)), _STEPS),
    Property.of(_must_not_copy, _grows),
]


def cache_properties(layer: CachedLayer) -> tuple[Properties, Recognise]:
    "List what every layer with a cache must do, in the order of trying."

    def recognise() -> tuple[Bug, ...] | None:
        "Name the bug of single steps, if they are wrong."
        if layer.steps_right:
            return None
        return (_bug_of_steps(layer, layer.ones, layer.decode(layer.x, layer.ones)),)

    return bound(_PROPERTIES, lambda: layer), recognise
