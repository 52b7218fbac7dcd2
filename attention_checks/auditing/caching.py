"""Is a pass with a cache the pass without, token by token and in chunks?"""

from collections.abc import Callable, Iterator
from itertools import accumulate
from typing import Any, NamedTuple

import torch
import torch.nn as nn
from torch import Tensor

from attention_checks.auditing.model_call import ModelCall, parameters_of_call, weights_dtype
from attention_checks.auditing.passes import Axis, Change, compare
from attention_checks.auditing.session import Session
from attention_checks.explaining.cache_steps import code_of_step, first_calls
from attention_checks.subjects.copies import tensors_in
from attention_nb.tools.watching import watch

Cached = Callable[[nn.Module, Tensor, Any], Any]  # model, the next tokens, cache → cache


class CachedStep(NamedTuple):
    "Hold one step with a cache: what changed, and what was seen."

    start: int  # of its tokens
    end: int
    changes: list[Change]
    cache: Any  # after it
    calls: dict[str, Any]  # the first attention of each layer

    def __str__(self) -> str:
        several = self.end - self.start > 1
        chunk = f"tokens {self.start} to {self.end - 1} in one chunk"
        return f"{chunk if several else f'token {self.start} alone'}, after a cache of {self.start}"


def try_cache(session: Session, cached: Cached | None) -> None:
    "Go through the sequence in steps with a cache: each token must be as it is in one pass."
    take = cached or _step_of(session.call)
    if take is None:
        session.note("a cache", "the model takes none that is known; say how, as cached=…")
    elif not session.expected.causal or session.expected.spans or session.expected.prefix:
        session.note("a cache", "the first tokens see later ones")
    elif any(fault.code.startswith("mask.") for fault in session.faults):
        session.note("a cache", "the pass to compare with sees the future")
    else:
        wrong = [(step, change) for step in _steps(session, take) for change in step.changes]
        for step, change in wrong:
            _note_fault(session, step, change)
        if not wrong:
            session.passed.append(
                "with a cache, token by token and in chunks, all is as in one pass"
            )


def _steps(session: Session, take: Cached) -> Iterator[CachedStep]:
    "Go through the sequence: a prompt, single tokens, chunks, single tokens."
    cache = None
    sizes = [3, 1, 1, 1, 5, max(session.n - 14, 1), 1, 1, 1]
    ends = [end for end in accumulate(sizes) if end < session.n]
    for start, end in zip([0, *ends], [*ends, session.n]):
        with watch(session.call.model, keep="copies") as seen:
            changes, cache = _compared_step(session, take, start, end, cache)
        yield CachedStep(start, end, changes, cache, first_calls(seen))


def _compared_step(
    session: Session, take: Cached, start: int, end: int, cache: Any
) -> tuple[list[Change], Any]:
    "Take one step; return the changes, and the cache."
    kept = session.all[:, start:end]
    columns = torch.arange(start, end).expand(kept.shape)
    axes = [Axis(kept, columns, session.n), *session.axes(kept)[1:]]
    held: list[Any] = []
    run = lambda: held.append(take(session.call.model, session.call.sequence[:, start:end], cache))
    changes = compare(session.call.model, run, session.first, axes, session.tolerance)
    return changes, held[0]


def _note_fault(session: Session, step: CachedStep, change: Change) -> None:
    "Say what is wrong with a step, once for each module."
    if any(f.layer == change.path and f.code.startswith("cache.") for f in session.faults):
        return
    whole, part, code = session.calls.get(change.path), step.calls.get(change.path), ""
    if _holds_fewer_bits(session, step.cache):
        code = "cache.rounded"
    elif whole is not None and part is not None:
        code = code_of_step(whole, part, step.start, step.end)
    off = f"{change.size:.2g}"
    facts = {"off": off, "tolerance": "1e-2"}
    example = f"{step}: off by {off} of the largest number"
    session.fault(code or "cache.unknown", change.path, example, **facts)


def _holds_fewer_bits(session: Session, cache: Any) -> bool:
    "Return whether a cache holds fewer bits than the model."
    held = [t for _, t in tensors_in(cache, attributes=True)]
    bits = [t.dtype.itemsize for t in held if t.is_floating_point()]
    return bool(bits) and min(bits) < weights_dtype(session.call.model).itemsize


def _step_of(call: ModelCall) -> Cached | None:
    "Return how a model is called with a cache; None if that is not known."
    parameters = parameters_of_call(call.model)
    if "past_key_values" in parameters and "use_cache" in parameters:
        return lambda model, ids, cache: _step_of_transformers(call, ids, cache)
    if "caches" in parameters:
        return lambda model, ids, caches: _step_of_book(call, ids, caches)
    return None


def _step_of_transformers(call: ModelCall, ids: Tensor, cache: Any) -> Any:
    "Take a step as models of transformers do."
    out = call.of(ids).run(past_key_values=cache, use_cache=True)
    if getattr(out, "past_key_values", None) is None:
        raise NotImplementedError("it returns no past_key_values")
    return out.past_key_values


def _step_of_book(call: ModelCall, ids: Tensor, caches: Any) -> Any:
    "Take a step as the book's models do."
    from attention_nb.kv_cache import new_caches

    if caches is None:
        model: Any = call.model
        caches = new_caches(model, *call.sequence.shape[:2])
    call.of(ids).run(caches=caches)
    return caches
