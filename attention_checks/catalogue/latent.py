"""Bugs of latent attention (MLA): all heads share one rotated key, beside keys of their own."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from attention_checks.catalogue.scales_and_routes import routing
from attention_checks.pipeline import STAGES, Bug, Step, Work, unchanged

_Vectors = tuple[Tensor, Tensor, Tensor]
_Change = Callable[[Tensor, Tensor, Tensor], _Vectors]
_Share = Callable[[Tensor, int], Tensor]  # the shared key, (b, n, r), and h → (b, h, n, r)

_EXPAND = "expand it, key[:, None].expand(-1, h, -1, -1)"
_VIEWED = "the rotated key that all heads share is viewed as heads (MLA), which mixes "
_SHARES: list[tuple[str, str, _Share]] = [
    (
        "split.shared_viewed",
        _VIEWED + f"positions: {_EXPAND}",
        lambda t, h: t.repeat_interleave(h, 1).view(len(t), h, *t.shape[1:]),
    ),
    (
        "split.shared_viewed",
        _VIEWED + f"positions: {_EXPAND}",
        lambda t, h: t.repeat(1, h, 1).unflatten(1, (-1, h)).transpose(1, 2),
    ),
    (
        "split.shared_features",
        _VIEWED + f"features: {_EXPAND}",
        lambda t, h: t.repeat_interleave(h, -1).unflatten(-1, (h, -1)).transpose(1, 2),
    ),
    (
        "heads.shared_first",
        f"only the first head gets the rotated key that all heads share (MLA): {_EXPAND}",
        lambda t, h: torch.stack([t, *[torch.zeros_like(t)] * (h - 1)], 1),
    ),
]
_PARTS = (
    "rotated features of queries meet other features of keys (MLA): join the parts of both in one"
    " order, cat([nope, rope], -1)"
)


def rotated_last(
    r: int,  # how many features are rotated, which stand first
) -> Step:  # for what follows the stage `rotate`; 0: nothing is moved
    "Make a step that puts rotated features behind the others, as layers have them."
    return routing(lambda q, k, v: (q.roll(-r, -1), k.roll(-r, -1), v)) if r else unchanged


def latent_bugs(
    r: int,  # width of the rotated key that all heads share; 0: there is none
) -> list[Bug]:  # each before the rotation, where that key stands first, and after it
    "List the bugs of queries and keys that are joined of two parts."
    if not r:
        return []
    swapped: list[_Change] = [
        lambda q, k, v: (q, k.roll(r, -1), v),
        lambda q, k, v: (q.roll(r, -1), k, v),
    ]
    bugs = [Bug("route.parts_swapped", _PARTS, {"score": _scored(change)}) for change in swapped]
    for code, says, share in _SHARES:
        early, late = _shared_by(share, slice(0, r)), _shared_by(share, slice(-r, None))
        bugs += [Bug(code, says, {"route": routing(early)})]
        bugs += [Bug(code, says, {"score": _scored(late)})]
    return bugs


def _shared_by(share: _Share, part: slice) -> _Change:
    "Give heads the shared key, which stands in a part of theirs, in another way."

    def changed(q: Tensor, k: Tensor, v: Tensor) -> _Vectors:
        k = k.clone()
        k[..., part] = share(k[:, 0, :, part], k.shape[-3])
        return q, k, v

    return changed


def _scored(change: _Change) -> Step:
    "Make a step that computes scores of changed queries and keys."
    route = routing(change)

    def score(work: Work) -> Work:
        return STAGES["score"](route(work))._replace(q=work.q, k=work.k)

    return score
