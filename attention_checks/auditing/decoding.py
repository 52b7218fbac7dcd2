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
    "Name what is wrong with a step."
    chunk, held = end - start > 1, part.n_k
    if held < end and (whole.window or end) > held:
        return _lost(held, end - start, chunk)
    first = max(end - held, 0)  # the oldest position in the cache
    old, new = whole.k[:, :, first:start], whole.k[:, :, start:end]
    kept, added = _keys(part.k, whole, start - first), _keys(part.k, whole, end - first)
    if kept is None or added is None:
        return ""
    added = added[:, :, start - first :]
    moved = not _same(added, new)
    if not _same(part.q, whole.q[:, :, start:end]):
        return ("cache.chunk_positions" if chunk else "cache.positions") if moved else _ASKED
    if permuted := _permuted(kept, old) or _permuted(added, new):
        return permuted
    if moved:
        return "cache.query_positions"
    if not _same(kept, old):
        return "cache.stored"
    return _mask(whole, part, start, end, first)


_ASKED = "cache.query_positions"


def _lost(held: int, new: int, chunk: bool) -> str:
    "Name the loss of cached tokens."
    if held == new:
        return "cache.chunk_alone" if chunk else "cache.forgets"
    return "cache.drops"


def _keys(k: Tensor, whole: Any, end: int) -> Tensor | None:
    "Return the keys of a step up to a position, with as many heads as in one pass."
    heads = whole.k.shape[1]
    if k.shape[1] < heads and heads % k.shape[1] == 0:
        k = k.repeat_interleave(heads // k.shape[1], 1)
    return k[:, :, :end] if k.shape[1] == heads else None


def _same(a: Tensor, b: Tensor) -> bool:
    "Return whether two tensors are the same but for rounding."
    size = max(float(b.abs().max()), 1e-30) if b.numel() else 1.0
    return a.shape == b.shape and bool((a - b).abs().max() <= 1e-4 * size) if b.numel() else True


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
        return "cache.chunk_alone" if end - start > 1 else "cache.forgets"
    own = torch.arange(end - start)
    corner = bool((seen.sum(-1) == own + 1).all()) and bool(seen[:, 0].all())
    return "cache.corner" if corner else "cache.drops"
