"""What is wrong with a step with a cache: its queries, keys and mask beside those of one pass."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def diagnosed(
    whole: Any,  # the attention of a layer in one pass, as `watch` sees it
    part: Any,  # the same in a step
    start: int,  # of the tokens of the step
    end: int,
) -> str:  # a code; empty: no known bug
    "Name what is wrong with a step: tokens are lost, vectors differ, or the mask does."
    held, new = part.n_k, end - start
    if held < end and (whole.window or end) > held:
        return _alone(new) if held == new else "cache.drops"
    k = _with_heads(part.k, whole.k.shape[1])
    if k is None:
        return ""
    first = max(end - held, 0)  # the oldest position in the cache
    kept, added = k[:, :, : start - first], k[:, :, start - first : end - first]
    before, now = whole.k[:, :, first:start], whole.k[:, :, start:end]
    if not _same(part.q, whole.q[:, :, start:end]):
        if _same(added, now):
            return "cache.query_positions"
        return "cache.chunk_positions" if new > 1 else "cache.positions"
    return _changed(kept, before, added, now) or _mask(whole, part, start, end, first)


def _alone(new: int) -> str:
    "Name a step of so many tokens that sees nothing of the cache."
    return "cache.chunk_alone" if new > 1 else "cache.forgets"


def _with_heads(k: Tensor, heads: int) -> Tensor | None:
    "Return the keys of a step with as many heads as in one pass; None if they do not fit."
    if k.shape[1] < heads and heads % k.shape[1] == 0:
        k = k.repeat_interleave(heads // k.shape[1], 1)
    return k if k.shape[1] == heads else None


def _changed(kept: Tensor, before: Tensor, added: Tensor, now: Tensor) -> str:
    "Name what is wrong with the keys that were kept, or with those that a step adds."
    if permuted := _permuted(kept, before) or _permuted(added, now):
        return permuted
    if not _same(added, now):
        return "cache.query_positions"
    return "" if _same(kept, before) else "cache.stored"


def _same(a: Tensor, b: Tensor) -> bool:
    "Return whether two tensors are the same but for rounding."
    if a.shape != b.shape or not b.numel():
        return a.shape == b.shape
    size = max(float(b.abs().max()), 1e-30)
    return bool((a - b).abs().max() <= 1e-4 * size)


def _permuted(k: Tensor, want: Tensor) -> str:
    "Name keys whose heads or sequences stand in another order."
    for code, axis in (("cache.groups", 1), ("cache.mixes_sequences", 0)):
        if _same(k, want) or k.shape != want.shape or not k.numel():
            return ""
        pairs = zip(k.unbind(axis), range(k.shape[axis]))
        found = [(i, _match(row, want.unbind(axis))) for row, i in pairs]
        if all(j is not None for _, j in found) and any(j != i for i, j in found):
            return code
    return ""


def _match(row: Tensor, rows: tuple[Tensor, ...]) -> int | None:
    "Return the number of the row that is the same."
    return next((j for j, other in enumerate(rows) if _same(row, other)), None)


def _mask(whole: Any, part: Any, start: int, end: int, first: int) -> str:
    "Name a mask that lets tokens of a step see others than in one pass."
    want = whole.allowed()[:, :, start:end, first:end]
    got = part.allowed()[..., : end - first]
    if got.shape != want.shape or bool((got == want).all()):
        return "cache.values" if got.shape == want.shape else ""
    if bool((got & ~want).any()):
        return "cache.chunk_future" if end - start > 1 else "cache.padding"
    seen = got.any(0).any(0)
    if not seen[:, : start - first].any():
        return _alone(end - start)
    own = torch.arange(end - start)
    corner = bool((seen.sum(-1) == own + 1).all()) and bool(seen[:, 0].all())
    return "cache.corner" if corner else "cache.drops"
