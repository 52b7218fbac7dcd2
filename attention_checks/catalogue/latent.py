"""Bugs of latent attention (MLA): all heads share one rotated key, beside keys of their own."""

from collections.abc import Callable

import torch
from torch import Tensor

from attention_checks.catalogue.scales_and_routes import changing, routing
from attention_checks.explaining.pipeline import Bug, RightStep, Step, after

_LATE = after("rotate")
_Route = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor, Tensor]]
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


BUGS: list[Bug] = [
    Bug("route.parts_swapped", _PARTS),
    *(Bug(code, says) for code, says, _ in _SHARES),
]


def latent_step(
    r: int,  # width of the rotated key that all heads share
    first: bool = True,  # does it stand before the others until it is rotated?
) -> RightStep:  # for what follows the stage `rotate`
    "Make the step that puts rotated features last, as layers join them; the bugs: before, after."
    last: Callable[[Tensor], Tensor] = lambda t: t.roll(-r if first else 0, -1)
    early, late = slice(0, r) if first else slice(-r, None), slice(-r, None)

    def then(change: _Route) -> Step:
        return routing(lambda q, k, v: change(last(q), last(k), v))

    swapped = {role: changing(role, lambda t: t.roll(r, -1)) for role in "kq"}
    bugs = [Bug("route.parts_swapped", _PARTS, {_LATE: then(f)}) for f in swapped.values()]
    for code, says, share in _SHARES:
        bugs += [Bug(code, says, {"route": routing(_shared_by(share, early))})]
        bugs += [Bug(code, says, {_LATE: then(_shared_by(share, late))})]
    return then(lambda q, k, v: (q, k, v)), bugs


def _shared_by(share: _Share, part: slice) -> _Route:
    "Give heads the shared key, which stands in a part of theirs, in another way."

    def changed(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        k = k.clone()
        k[..., part] = share(k[:, 0, :, part], k.shape[-3])
        return q, k, v

    return changed
