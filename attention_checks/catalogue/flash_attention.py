"""Softmax in blocks of keys whose running sums do not fit together, and wrong log-sum-exps."""

from collections.abc import Callable

import torch
from torch import Tensor

from attention_checks.catalogue.scales_and_routes import mixing
from attention_checks.explaining.pipeline import Bug, Work, bugs_of_lines, listed
from attention_nb.softmax import masked_softmax


def _finite(work: Work) -> Tensor:
    "Return scores, with a finite number for minus infinity."
    return work.scores.masked_fill(~work.allowed, -1e30)


def _running_maximum(scores: Tensor, size: int) -> Tensor:
    "Return the largest score of all blocks up to each key's own."
    n = scores.shape[-1]
    largest = [scores[..., : i + size].amax(-1) for i in range(0, n, size)]
    return torch.stack(largest, -1).repeat_interleave(size, -1)[..., :n]


def _not_rescaled(*, context: bool, total: bool) -> Callable[[Work, int], Tensor]:
    "Leave the running context, the running sum or both as they were before a larger maximum."

    def attend(work: Work, size: int) -> Tensor:
        scores = _finite(work)
        stale = (scores - _running_maximum(scores, size)).exp()
        right = (scores - scores.amax(-1, keepdim=True)).exp()
        above, below = stale if context else right, stale if total else right
        return above @ work.v / below.sum(-1, keepdim=True)

    return attend


def _own_maximum(work: Work, size: int) -> Tensor:
    "Subtract each block's own largest score."
    parts = [part - part.amax(-1, keepdim=True) for part in _finite(work).split(size, -1)]
    exponentials = torch.cat(parts, -1).exp()
    return exponentials @ work.v / exponentials.sum(-1, keepdim=True)


def _mean_of_parts(work: Work, size: int) -> Tensor:
    "Average the contexts of two parts."
    parts = zip(_finite(work).tensor_split([size], -1), work.v.tensor_split([size], -2))
    return torch.stack([scores.softmax(-1) @ values for scores, values in parts]).mean(0)


def _causal_again(work: Work, size: int) -> Tensor:
    "Count queries from 0 in each block, of which there are several."
    n_q, n_k = work.scores.shape[-2:]
    if size >= n_q:
        raise ValueError(f"one block of {n_q} queries")
    causal = torch.arange(n_k) <= torch.arange(n_q)[:, None] % size
    return masked_softmax(work.scores, work.allowed & causal) @ work.v


_IN = "softmax in blocks of {size}"
_RESCALED = "not rescaled by exp(old maximum - new maximum)"
_BLOCKS: dict[str, tuple[str, Callable[[Work, int], Tensor]]] = {
    "blocks.context_and_sum": (
        f"{_IN}: the running context and sum are {_RESCALED}",
        _not_rescaled(context=True, total=True),
    ),
    "blocks.context": (
        f"{_IN}: the running context is {_RESCALED}",
        _not_rescaled(context=True, total=False),
    ),
    "blocks.sum": (
        f"{_IN}: the running sum is {_RESCALED}",
        _not_rescaled(context=False, total=True),
    ),
    "blocks.own_maximum": (
        f"{_IN}: each subtracts its own largest score, and sums are added without rescaling",
        _own_maximum,
    ),
    "blocks.mean": (
        "keys in two parts, the first {size} and the others: their contexts are averaged; weight"
        " each part by its sum of exponentials",
        _mean_of_parts,
    ),
    "blocks.causal_anew": (
        "in blocks of {size} queries, the causal mask begins again with each block: count the"
        " queries before it",
        _causal_again,
    ),
}
_TILES = (128, 192, 256, 384, 512, 768, 1024)


def _block_bug(code: str, size: int) -> Bug:
    "Make one bug of the table for one size of blocks."
    says, attend = _BLOCKS[code]
    step = mixing(lambda _, work: attend(work, size))
    needs = "mask" if code == "blocks.causal_anew" else ""
    return Bug(code, says, {"mix": step}, needs).about(size=size)


def blocks(
    n_k: int,  # keys: below 256, every smaller size of a block is tried; above, the usual sizes
) -> list[Bug]:  # one of each kind and size
    "List what goes wrong with softmax in blocks."
    sizes = range(1, n_k) if n_k < 256 else _TILES
    return [_block_bug(code, size) for size in sizes for code in _BLOCKS]


BUGS: list[Bug] = listed(_BLOCKS) + bugs_of_lines(
    """
blocks.no_running_maximum: softmax in blocks without a running maximum: exp(old maximum - new
    maximum) overflows; use torch.maximum(old, new)
blocks.first_maximum: all blocks subtract the first one's largest score, and a later score
    overflows: keep a running maximum
blocks.cut_tail: the last of many keys are dropped: a block that is not full, or a length in the
    code
blocks.length: with {wrong} keys its numbers are wrong, with {right} they are not: blocks do not
    fit together, or a length is written into the code
blocks.mask: with many keys the mask is wrong: blocks of keys do not get their own columns of
    it, one that is all masked gives NaN (-inf - (-inf)), or it has a fixed length
lse.wrong: the log-sum-exp is wrong: it must be the largest score plus the logarithm of the sum of
    exponentials, of scaled and masked scores, to base e
lse.gradient: the gradient of the log-sum-exp is lost or wrong: the backward pass must take it
    off the sum, gradient · context - gradient of the log-sum-exp
flash.matrix: it holds something as large as the matrix of scores: a full softmax, or an n × n
    mask
flash.matrix_backward: the backward pass needs memory as large as the matrix of scores: autograd
    keeps every tile; compute tiles again in a backward pass of your own
"""
)
