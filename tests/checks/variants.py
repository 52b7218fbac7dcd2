"""Attention in a few lines, with parameters for what may go wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

import torch
import torch.nn.functional as F
from torch import Tensor

from attention_nb.masks import causal_mask

_Attention = Callable[..., Tensor]  # of q, k, v and, if it takes one, a mask


def attention(
    q: Tensor,  # (b, h, n_q, d_k)
    k: Tensor,  # (b, h, n_k, d_k)
    v: Tensor,  # (b, h, n_k, d_v)
    mask: Tensor | None = None,  # boolean, True = may attend
    scale: float | None = None,  # what scores are multiplied by; default 1 / √d_k
    dim: int = -1,  # what the softmax normalises over
    fill: float = float("-inf"),  # what forbidden scores become
    on_scores: Callable[[Tensor], Tensor] = lambda scores: scores,  # done to scaled scores
) -> Tensor:  # (b, h, n_q, d_v)
    "Attend, as most people write it."
    scores = on_scores(q @ k.mT * (q.shape[-1] ** -0.5 if scale is None else scale))
    if mask is not None:
        scores = scores.masked_fill(~mask, fill)
    return scores.softmax(dim) @ v


def causal(
    q: Tensor,  # (b, h, n_q, d_k)
    k: Tensor,  # (b, h, n_k, d_k)
    v: Tensor,  # (b, h, n_k, d_v)
    diagonal: int = 0,  # how many positions of the future are seen
) -> Tensor:  # (b, h, n_q, d_v)
    "Hide the future, from the upper left corner."
    mask = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool).tril(diagonal)
    return attention(q, k, v, mask)


def in_blocks(
    q: Tensor,  # (b, h, n_q, d_k)
    k: Tensor,  # (b, h, n_k, d_k)
    v: Tensor,  # (b, h, n_k, d_v)
    size: int,  # keys of a block
    rescale: bool = True,  # is what was summed before rescaled to the new maximum?
) -> Tensor:  # (b, h, n_q, d_v)
    "Attend to one block of keys after the other, with a running maximum."
    largest = torch.full_like(q[..., :1], float("-inf"))
    total, context = torch.zeros_like(largest), 0.0
    for part, values in zip(scores_of(q, k).split(size, -1), v.split(size, -2)):
        old, largest = largest, torch.maximum(largest, part.amax(-1, keepdim=True))
        factor = (old - largest).exp() if rescale else torch.ones_like(old)
        weights = (part - largest).exp()
        total = factor * total + weights.sum(-1, keepdim=True)
        context = factor * context + weights @ values
    return context / total


def scores_of(
    q: Tensor,  # (b, h, n_q, d_k)
    k: Tensor,  # (b, h, n_k, d_k)
) -> Tensor:  # (b, h, n_q, n_k)
    "Scale the product of queries and keys."
    return q @ k.mT * q.shape[-1] ** -0.5


def raising(
    message: str,  # of the error
) -> NoReturn:
    "Raise a TypeError."
    raise TypeError(message)


def with_mask(
    changed: Callable[[Tensor, Tensor, Tensor], Tensor],  # mask, q, k → what it is taken for
) -> _Attention:
    "Make a function that takes its mask for something else."
    return lambda q, k, v, mask=None: masked(q, k, v, None if mask is None else changed(mask, q, k))


def filled(
    fill: float,  # what forbidden scores become
) -> _Attention:
    "Make a function that fills in another number than minus infinity."
    return lambda q, k, v, mask=None: attention(q, k, v, mask, fill=fill)


def no_mask(q, k, v):
    "Take no mask."
    return attention(q, k, v)


def masked(q, k, v, mask=None):
    "Attend as PyTorch does; the mask may be a bias."
    return F.scaled_dot_product_attention(q, k, v, mask)


def needs_mask(q, k, v, *, key_padding_mask):
    "Need a mask, by its name."
    return masked(q, k, v, key_padding_mask)


def square_masks_only(q, k, v, mask=None):
    "Raise for a mask that is not square."
    if mask is not None and mask.shape[-1] != mask.shape[-2]:
        raising("not square")
    return masked(q, k, v, mask)


def refuses_masks(q, k, v, mask=None):
    "Raise for every mask."
    return attention(q, k, v) if mask is None else raising("no masks, please")


def one_minus(q, k, v, mask=None):
    "Take a mask of 1 = may attend, which cannot be boolean."
    return attention(q, k, v, None if mask is None else 1 - mask == 0, fill=-1e9)


def lower_right(q, k, v):
    "Hide the future, from the lower right corner."
    return masked(q, k, v, causal_mask(q.shape[2], k.shape[2]))
