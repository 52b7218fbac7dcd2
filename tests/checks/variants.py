"""Attention in a few lines, with room for what may go wrong, to try the checks of functions on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NoReturn

import torch
import torch.nn.functional as F
from torch import Tensor

from attention_checks.examine import examine
from attention_checks.report import CheckFailed
from attention_nb.masks import causal_mask


def attention(
    q: Tensor,  # (b, h, n_q, d_k)
    k: Tensor,  # (b, h, n_k, d_k)
    v: Tensor,  # (b, h, n_k, d_v)
    mask: Tensor | None = None,  # boolean, True = may attend
    scale: float | None = None,  # what scores are multiplied by; default 1 / √d_k
    dim: int = -1,  # what the softmax goes over
    fill: float = float("-inf"),  # what forbidden scores become
) -> Tensor:  # (b, h, n_q, d_v)
    "Attend, as most people write it."
    scores = q @ k.mT * (q.shape[-1] ** -0.5 if scale is None else scale)
    if mask is not None:
        scores = scores.masked_fill(~mask, fill)
    return scores.softmax(dim) @ v


def causal(
    q: Tensor,  # (b, h, n_q, d_k)
    k: Tensor,  # (b, h, n_k, d_k)
    v: Tensor,  # (b, h, n_k, d_v)
    diagonal: int = 0,  # how many places beyond the diagonal are seen
    **how: Any,  # more for `attention`
) -> Tensor:  # (b, h, n_q, d_v)
    "Hide the future, from the upper left corner."
    mask = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool).tril(diagonal)
    return attention(q, k, v, mask, **how)


def in_blocks(
    q: Tensor,  # (b, h, n_q, d_k)
    k: Tensor,  # (b, h, n_k, d_k)
    v: Tensor,  # (b, h, n_k, d_v)
    size: int,  # keys of a block
    rescale: bool = True,  # is what was summed before brought to the new maximum?
    larger: Callable[
        [Tensor, Tensor], Tensor
    ] = torch.maximum,  # the new maximum, of the old one and the block's
) -> Tensor:  # (b, h, n_q, d_v)
    "Attend to one block of keys after the other, with a running maximum."
    top = torch.full_like(q[..., :1], float("-inf"))
    total, context = torch.zeros_like(top), torch.zeros(*q.shape[:-1], v.shape[-1], dtype=q.dtype)
    for part, values in zip(scores_of(q, k).split(size, -1), v.split(size, -2)):
        old, top = top, larger(top, part.amax(-1, keepdim=True))
        fix = (old - top).exp() if rescale else 1
        e = (part - top).exp()
        total, context = fix * total + e.sum(-1, keepdim=True), fix * context + e @ values
    return context / total


def if_(
    fits: Callable[[Tensor, Tensor, Tensor], bool],  # of q, k and v
    fn: Callable[..., Tensor] = attention,  # an attention function
    other: Callable[[Tensor], Tensor] = lambda context: (
        2 * context
    ),  # what becomes of the context if they fit
) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    "Make a function that gives something else for some inputs."
    return lambda q, k, v: other(fn(q, k, v)) if fits(q, k, v) else fn(q, k, v)


def raising(
    words: str,  # the message
) -> NoReturn:
    "Raise a TypeError."
    raise TypeError(words)


_Fn = Callable[
    ..., Tensor
]  # of q (b, h, n_q, d_k), k (b, h, n_k, d_k), v (b, h, n_k, d_v) and, if it takes one, a mask: True = may attend
scores_of: _Fn = lambda q, k: q @ k.mT * q.shape[-1] ** -0.5  # how well keys answer queries
normed: _Fn = lambda t: F.layer_norm(t, t.shape[-1:])  # rows with mean 0 and variance 1
lower_right: _Fn = lambda q, k, v: attention(
    q, k, v, causal_mask(q.shape[2], k.shape[2])
)  # hides the future from that corner


def hidden_after(
    q: Tensor,  # (b, h, n_q, d_k)
    k: Tensor,  # (b, h, n_k, d_k)
    v: Tensor,  # (b, h, n_k, d_v)
    mask: Tensor | None = None,  # boolean, True = may attend
) -> Tensor:  # (b, h, n_q, d_v)
    "Hide after the softmax, and normalise again."
    weights = scores_of(q, k).softmax(-1) * (1 if mask is None else mask)
    return weights @ v / weights.sum(-1, True).clamp(min=1e-30)


def with_mask(
    turn: Callable[[Tensor, Tensor, Tensor], Tensor],  # what becomes of the mask, of it, q and k
) -> Callable[..., Tensor]:  # of q, k, v and a mask
    "Make a function that takes its mask for something else."
    return lambda q, k, v, mask=None: masked(q, k, v, None if mask is None else turn(mask, q, k))


def filled(
    fill: float,  # what forbidden scores become
) -> Callable[..., Tensor]:  # of q, k, v and a mask
    "Make a function that fills in another number than minus infinity."
    return lambda q, k, v, mask=None: attention(q, k, v, mask, fill=fill)


def adds(
    number: float,  # what the softmax's sum has more
    q: Tensor,  # (b, h, n_q, d_k)
    k: Tensor,  # (b, h, n_k, d_k)
    v: Tensor,  # (b, h, n_k, d_v)
    mask: Tensor | None = None,  # boolean, True = may attend
    before: bool = True,  # does it hide before the softmax, or after it?
) -> Tensor:  # (b, h, n_q, d_v)
    "Add a number to the softmax's sum."
    e = scores_of(q, k).exp() if before else scores_of(q, k).softmax(-1)
    e = e if mask is None else e * mask
    return e @ v / (e.sum(-1, True) + number)


no_mask: _Fn = lambda q, k, v: attention(q, k, v)  # takes none
none_hidden: _Fn = lambda q, k, v, mask=None: attention(q, k, v)  # takes one and leaves it
masked: _Fn = lambda q, k, v, mask=None: F.scaled_dot_product_attention(
    q, k, v, mask
)  # as PyTorch's does; it may be a bias
needs_one: _Fn = lambda q, k, v, *, key_padding_mask: masked(
    q, k, v, key_padding_mask
)  # it must be given, and by its name
of_squares: _Fn = lambda q, k, v, mask=None: (
    masked(q, k, v, mask)
    if mask is None or mask.shape[-1] == mask.shape[-2]
    else raising("not square")
)
cannot: _Fn = lambda q, k, v, mask=None: (
    attention(q, k, v) if mask is None else raising("no masks, please")
)
one_minus: _Fn = lambda q, k, v, mask=None: attention(
    q, k, v, None if mask is None else 1 - mask == 0, fill=-1e9
)  # 1 = may attend
times_infinity: _Fn = lambda q, k, v, mask=None: (
    (scores_of(q, k) + (0 if mask is None else ~mask * -torch.inf)).softmax(-1) @ v
)  # 0 · inf is NaN


def telling(
    listing: Callable[
        ..., tuple[list[Any], Any]
    ],  # of a function and what is said of it; properties, the first of them first, and what names a bug
) -> Callable[..., None]:  # tell(name, wrong, recognise=False, **said)
    "Make the function that prints what properties whose names hold some words find in each of several functions."

    def tell(
        name: str, wrong: Mapping[str, Callable[..., Any]], recognise: bool = False, **said: Any
    ) -> None:
        print(name.upper(), *(f"{k}={v}" for k, v in said.items()))
        for what, fn in wrong.items():
            properties, named_by = listing(fn, **said)
            tried = [
                properties[0],
                *(p for p in properties[1:] if "agrees" in p.name or name in p.name),
            ]
            try:
                report = examine(what, tried, named_by if recognise else None)
            except CheckFailed as e:
                report = e.report
            failed = [f for f in report.failed if name in f.property or len(tried) == 2]
            print(f"  {what}" + ("" if failed or report.notes else ": nothing"))
            for f in failed:
                print(f"    ✗ {f.example}\n      {f.bug}")
            for _, why in report.notes:
                print(f"    · {why}")

    return tell
