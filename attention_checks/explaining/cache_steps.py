"""What is wrong with a step with a cache: its queries, keys and mask beside those of one pass."""

from collections.abc import Sequence

import torch
from torch import Tensor

from attention_checks.numbers.tolerance import FLOAT32, NOT_ZERO
from attention_nb.tools.calls import Call
from attention_nb.tools.watching import Seen


def first_calls(seen: Seen) -> dict[str, Call]:
    "Return the first attention of each layer, by its path."
    return {path: seen.of(path)[0] for path in reversed(seen.layers)}


def code_of_step(
    whole: Call,  # the attention of a layer in one pass
    part: Call,  # the same in a step
    start: int,  # of the tokens of the step
    end: int,
) -> str:  # a code; empty: no known bug
    "Name what is wrong with a step: tokens are lost, vectors differ, or the mask does."
    if whole.q is None or part.q is None:
        return ""
    right_q = whole.q[:, :, start:end]
    if part.q.numel() != right_q.numel():
        return ""
    q = part.q.reshape(right_q.shape)  # sequences, heads and queries may be folded together
    k, right = _keys(part, *q.shape[:2]), _keys(whole, *q.shape[:2])
    if _same(q, right_q) and _sees_the_right_keys(whole, part, k, right[:, :, :end], start):
        return "cache.values"
    if part.n_k < end and (whole.window or end) + end - start - 1 > part.n_k:
        return _too_few_keys(part.n_k, k, right, start, end)
    first = max(end - part.n_k, 0)  # the oldest position in the cache
    kept, added = k[:, :, : start - first], k[:, :, start - first : end - first]
    before, now = right[:, :, first:start], right[:, :, start:end]
    if not _same(q, right_q):
        return _other_queries(end - start, keys_right=_same(added, now))
    return _changed(kept, before, added, now) or _mask(whole, part, start, end, first)


def _too_few_keys(held: int, k: Tensor, right: Tensor, start: int, end: int) -> str:
    "Name what is wrong with a step that sees fewer keys than it should."
    if held == start and _same(k, right[:, :, :start]):
        return "cache.late"
    return _alone(end - start) if held == end - start else "cache.drops"


def _other_queries(new: int, keys_right: bool) -> str:
    "Name what is wrong with a step of so many tokens whose queries are others."
    if keys_right:
        return "cache.query_positions"
    return "cache.chunk_positions" if new > 1 else "cache.positions"


def _sees_the_right_keys(whole: Call, part: Call, k: Tensor, right: Tensor, start: int) -> bool:
    "Return whether a step sees the keys that it should, in whatever order a cache holds them."
    end = right.shape[-2]
    if not whole.window and k.shape[-2] <= end:
        return False
    want = whole.allowed()[:, :, start:end, :end].float()
    allowed = part.allowed().reshape(*want.shape[:3], -1).float()
    apart = (k[:, :, :, None] - right[:, :, None]).abs().amax((0, 1, 4))
    equal = apart <= FLOAT32 * right.abs().max()  # (slots, positions)
    seen = allowed.flatten(0, 2).any(0)
    if not equal[seen].any(-1).all():
        return False
    at = equal[seen].int().argmax(-1)
    return torch.equal(torch.zeros_like(want).index_add_(-1, at, allowed[..., seen]), want)


def _keys(call: Call, b: int, heads: int) -> Tensor:
    "Return the keys of a call, (b, heads, n_k, d): one head for each head of queries."
    assert call.k is not None
    k = call.k.reshape(b, -1, *call.k.shape[-2:])
    return k.repeat_interleave(heads // k.shape[1], 1)


def _alone(new: int) -> str:
    "Name a step of so many tokens that sees nothing of the cache."
    return "cache.chunk_alone" if new > 1 else "cache.forgets"


def _changed(kept: Tensor, before: Tensor, added: Tensor, now: Tensor) -> str:
    "Name what is wrong with the keys that were kept, or with those that a step adds."
    if permuted := _permuted(kept, before) or _permuted(added, now):
        return permuted
    for k, right in ((added, now), (kept, before)):
        if not _same(k, right):  # a rotation leaves the lengths of vectors as they are
            turned = _same(k.norm(dim=-1), right.norm(dim=-1))
            return "cache.positions" if turned else "cache.stored"
    return ""


def _same(a: Tensor, b: Tensor) -> bool:
    "Return whether two tensors are the same but for rounding."
    if a.shape != b.shape or not b.numel():
        return a.shape == b.shape
    size = max(float(b.abs().max()), NOT_ZERO)
    return bool((a - b).abs().max() <= FLOAT32 * size)


def _permuted(k: Tensor, want: Tensor) -> str:
    "Name keys whose heads or sequences stand in another order."
    for code, axis in (("cache.groups", 1), ("cache.mixes_sequences", 0)):
        if _same(k, want) or k.shape != want.shape:
            return ""
        order = [_index_of(t, want.unbind(axis)) for t in k.unbind(axis)]
        if -1 not in order and order != list(range(len(order))):
            return code
    return ""


def _index_of(t: Tensor, several: Sequence[Tensor]) -> int:
    "Return which of several tensors is this one; -1 if none is."
    return next((i for i, other in enumerate(several) if _same(other, t)), -1)


def _mask(whole: Call, part: Call, start: int, end: int, first: int) -> str:
    "Name a mask that lets tokens of a step see others than in one pass."
    want = whole.allowed()[:, :, start:end, first:end]
    got = part.allowed().reshape(*want.shape[:3], -1)[..., : end - first]
    if got.shape != want.shape or bool((got == want).all()):
        return "cache.values" if got.shape == want.shape else ""
    new, old = end - start, start - first
    if bool((got & ~want).any()):
        return "cache.chunk_future" if new > 1 else "cache.padding"
    if new == old == 1:  # the one old token is the corner, and all that is not the new one
        return ""
    seen, own = got.any(0).any(0).cpu(), torch.arange(new)
    if old and not seen[:, :old].any():
        return _alone(new)
    if bool((seen.sum(-1) == own + 1).all()) and bool(seen[:, 0].all()):
        return "cache.corner"
    return "cache.drops" if seen[own, old + own].any() else "cache.late"
