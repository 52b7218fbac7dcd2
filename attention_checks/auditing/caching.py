"""Is a pass with a cache the pass without, token by token and in chunks?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from typing import Any

import torch
import torch.nn as nn
from torch import Tensor

from attention_checks.auditing.calling import Call, dtype_of, parameters_of_call
from attention_checks.auditing.decoding import diagnosed
from attention_checks.auditing.session import Session
from attention_checks.auditing.tracing import Axis, Change, compare
from attention_nb.tools.watching import watch

Cached = Callable[[nn.Module, Tensor, Any], Any]  # model, the next tokens, cache → cache


def decode(s: Session, cached: Cached | None) -> None:
    "Go through the sequence in steps with a cache: each token must be as it is in one pass."
    step = cached or _step_of(s.call)
    if step is None:
        s.note("a cache", "the model takes none that is known; say how, as cached=…")
        return
    if not s.expected.causal or s.expected.spans or s.expected.prefix:
        s.note("a cache", "the first tokens see later ones")
        return
    if any(fault.code.startswith("mask.") for fault in s.faults):
        s.note("a cache", "the pass to compare with sees the future")
        return
    if not _gone(s, step, watching=False):
        s.passed.append("with a cache, token by token and in chunks, all is as in one pass")
        return
    for change, start, end, cache, calls in _gone(s, step, watching=True):
        _name(s, change, start, end, cache, calls)


def _gone(s: Session, step: Cached, watching: bool) -> list[tuple[Any, ...]]:
    "Go through all steps; list changes, each with its step, the cache and what was watched."
    found, cache = [], None
    for start, end in steps(s.n):
        with watch(s.call.model, keep="copies") if watching else nullcontext() as seen:
            changes, cache = _taken(s, step, start, end, cache)
        calls: dict[str, Any] = {}
        for call in seen.calls if seen else ():
            calls.setdefault(call.layer, call)
        found += [(change, start, end, cache, calls) for change in changes]
    return found


def steps(
    n: int,  # tokens
) -> list[tuple[int, int]]:  # (start, end) of each step
    "Cut a sequence: a prompt, single tokens, chunks, single tokens."
    sizes = [3, 1, 1, 1, 5, max(n - 14, 1), 1, 1, 1]
    ends = [min(sum(sizes[: i + 1]), n) for i in range(len(sizes))]
    return [(start, end) for start, end in zip([0, *ends], ends) if start < end]


def _taken(s: Session, step: Cached, start: int, end: int, cache: Any) -> tuple[list[Change], Any]:
    "Take one step; return the changes, and the cache."
    kept = torch.ones(s.call.sequence.shape[0], end - start, dtype=torch.bool)
    columns = torch.arange(start, end).expand(kept.shape)
    axes = [Axis(kept, columns, s.n), *s.axes(kept)[1:]]
    held: list[Any] = []
    run = lambda: held.append(step(s.call.model, s.call.sequence[:, start:end], cache))
    changes = compare(s.call.model, run, s.first, axes, s.tolerance)
    return changes, held[0]


def _name(
    s: Session, change: Change, start: int, end: int, cache: Any, calls: Mapping[str, Any]
) -> None:
    "Say what is wrong with a step."
    if any(f.layer == change.path and f.code.startswith("cache.") for f in s.faults):
        return
    chunk = end - start > 1
    which = f"tokens {start} to {end - 1} in one chunk" if chunk else f"token {start} alone"
    example = f"{which}, after a cache of {start}: off by {change.size:.2g} of the largest number"
    whole, part = s.calls.get(change.path), calls.get(change.path)
    code = ""
    if _rounded(s, cache):
        code = "cache.rounded"
    elif whole is not None and part is not None and whole.q is not None and part.q is not None:
        code = diagnosed(whole, part, start, end)
    s.fault(
        code or "cache.unknown",
        change.path,
        example,
        off=f"{change.size:.2g}",
        words="some of them",
        tolerance="1e-2",
    )


def _rounded(s: Session, cache: Any) -> bool:
    "Return whether a cache holds fewer bits than the model."
    bits = [t.dtype.itemsize for t in held_in(cache) if t.is_floating_point()]
    return bool(bits) and min(bits) < dtype_of(s.call.model).itemsize


def held_in(
    thing: Any,  # a cache of any kind
    depth: int = 4,
) -> Iterator[Tensor]:
    "List the tensors in an object."
    if isinstance(thing, Tensor):
        yield thing
    elif isinstance(thing, (list, tuple)) and depth:
        for each in thing:
            yield from held_in(each, depth - 1)
    elif isinstance(thing, dict) and depth:
        yield from held_in(list(thing.values()), depth - 1)
    elif depth and hasattr(thing, "__dict__") and not isinstance(thing, nn.Module):
        yield from held_in(list(vars(thing).values()), depth - 1)


def _step_of(call: Call) -> Cached | None:
    "Return how a model is called with a cache; None if that is not known."
    parameters = parameters_of_call(call.model)
    if "past_key_values" in parameters and "use_cache" in parameters:
        return lambda model, ids, cache: _transformers(call, ids, cache)
    if "caches" in parameters:
        return lambda model, ids, caches: _book(call, ids, caches)
    return None


def _transformers(call: Call, ids: Tensor, cache: Any) -> Any:
    "Take a step as models of transformers do."
    out = call.of(ids).run(past_key_values=cache, use_cache=True)
    if getattr(out, "past_key_values", None) is None:
        raise NotImplementedError("it returns no past_key_values")
    return out.past_key_values


def _book(call: Call, ids: Tensor, caches: Any) -> Any:
    "Take a step as the book's models do."
    from attention_nb.kv_cache import new_caches

    if caches is None:
        model: Any = call.model
        caches = new_caches(model, *call.sequence.shape[:2])
    call.of(ids).run(caches=caches)
    return caches
