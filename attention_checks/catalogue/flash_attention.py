"""Blocks of keys whose running sums do not fit together."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from attention_checks.catalogue.self_attention import mixing
from attention_checks.pipeline import Bug, Work, bugs_of, signs
from attention_nb.softmax import masked_softmax


def _finite(w: Work) -> Tensor:
    "The scores, with a number for minus infinity that can be subtracted from itself."
    return w.scores.masked_fill(~w.allowed, -1e30)


def _tops(s: Tensor, size: int) -> Tensor:
    "The largest score so far, when a key is added."
    n = s.shape[-1]
    tops = [s[..., : i + size].amax(-1) for i in range(0, n, size)]
    return torch.stack(tops, -1).repeat_interleave(size, -1)[..., :n]


def _rescaled(w: Work, size: int, context: bool, total: bool) -> Tensor:
    "Softmax in blocks; what is not rescaled still counts by the maximum of its time."
    s = _finite(w)
    raw, right = (s - _tops(s, size)).exp(), (s - s.amax(-1, keepdim=True)).exp()
    return (right if context else raw) @ w.v / (right if total else raw).sum(-1, keepdim=True)


def _own_maximum(w: Work, size: int) -> Tensor:
    own = torch.cat(
        [(part - part.amax(-1, keepdim=True)).exp() for part in _finite(w).split(size, -1)], -1
    )
    return own @ w.v / own.sum(-1, keepdim=True)


def _no_tail(w: Work, size: int) -> Tensor:
    n, e = w.k.shape[-2], (_finite(w) - _finite(w).amax(-1, keepdim=True)).exp()
    full = max(n - n % size, 1)
    return e[..., :full] @ w.v[..., :full, :] / e[..., :full].sum(-1, keepdim=True)


def _mean_of_parts(w: Work, size: int) -> Tensor:
    parts = zip(_finite(w).tensor_split([size], -1), w.v.tensor_split([size], -2))
    return torch.stack([part.softmax(-1) @ values for part, values in parts]).mean(0)


def _causal_anew(w: Work, size: int) -> Tensor:
    n_q, n_k = w.scores.shape[-2:]
    return (
        masked_softmax(
            w.scores, w.allowed & (torch.arange(n_k) <= torch.arange(n_q)[:, None] % size)
        )
        @ w.v
    )


_TILES = (128, 192, 256, 384, 512, 768, 1024)


_RESCALED = "not rescaled by exp(old maximum - new maximum) when a block has a larger score"
_BLOCKS: dict[str, tuple[str, Callable[[Work, int], Tensor]]] = {
    "blocks.context_and_sum": (
        f"softmax in blocks of {{size}}: the running context and sum are {_RESCALED}",
        lambda w, size: _rescaled(w, size, False, False),
    ),
    "blocks.context": (
        f"softmax in blocks of {{size}}: the running context is {_RESCALED}",
        lambda w, size: _rescaled(w, size, False, True),
    ),
    "blocks.sum": (
        f"softmax in blocks of {{size}}: the running sum is {_RESCALED}",
        lambda w, size: _rescaled(w, size, True, False),
    ),
    "blocks.own_maximum": (
        "softmax in blocks of {size}: each block subtracts its own largest score, and sums are added without rescaling",
        _own_maximum,
    ),
    "blocks.tail": (
        "softmax in blocks of {size}: the last block, which is not full, is dropped (the tail)",
        _no_tail,
    ),
    "blocks.mean": (
        "keys in two parts, the first {size} and the others: the mean of their contexts is taken, where each part must"
        " count by its sum of exponentials",
        _mean_of_parts,
    ),
}
_CAUSAL = {
    "blocks.causal_anew": (
        "in blocks of {size} queries, the causal mask begins anew with each block: its rows do not count the queries"
        " before it",
        _causal_anew,
    )
}


def blocks(
    n_k: int,  # how many keys: of few, every smaller size of a block is tried; of many, those that people take
) -> list[Bug]:  # one of each kind and size
    "List what goes wrong with softmax in blocks."
    return [
        bug
        for size in (range(1, n_k) if n_k < 256 else _TILES)
        for table, needs in ((_BLOCKS, ""), (_CAUSAL, "mask"))
        for bug in bugs_of(
            "mix",
            mixing,
            {
                code: (says.format(size=size), lambda c, w, f=f, size=size: f(w, size))
                for code, (says, f) in table.items()
            },
            needs,
        )
    ]


BLOCK_SIGNS: list[Bug] = signs(
    {
        "blocks.no_running_maximum": (
            "softmax in blocks without a running maximum: each block takes its own largest score, and exp(old maximum -"
            " new maximum) overflows where the new one is smaller: torch.maximum(old, new)"
        ),
        "blocks.first_maximum": (
            "softmax in blocks that all subtract the first one's largest score: it overflows where a later score is"
            " larger; a running maximum is missing"
        ),
        "blocks.cut_tail": (
            "the last of many keys are never seen: a block that is not full is dropped (the tail), or a length is fixed"
        ),
        "blocks.length": (
            "with {wrong} keys it gives other numbers: blocks do not fit together, or a length is written into it, with"
            " {right} it did not"
        ),
        "blocks.empty_nan": (
            "a block of keys that are all forbidden gives NaN, though others are allowed: its largest score is -inf, and"
            " -inf - (-inf) is NaN"
        ),
        "blocks.mask": (
            "with many keys the mask is wrong: blocks of keys do not get their own columns of it, or it has a fixed"
            " length"
        ),
        "blocks.mask_columns": (
            "with many keys the mask is wrong: blocks of keys do not get their own columns of it, or it has a fixed"
            " length: in blocks of {size}, each takes the mask's first columns, not its own"
        ),
    }
)


LSE: dict[
    str, tuple[str, Callable[[Tensor, float], Tensor]]
] = {  # code → sentence, and what scores and their scale give
    "lse.no_maximum": (
        "the log-sum-exp is only the logarithm of the running sum: add the running maximum, which was subtracted",
        lambda s, scale: s.logsumexp(-1) - s.amax(-1),
    ),
    "lse.maximum": (
        "in the place of the log-sum-exp it returns the largest score",
        lambda s, scale: s.amax(-1),
    ),
    "lse.total": (
        "in the place of the log-sum-exp it returns the running sum",
        lambda s, scale: (s - s.amax(-1, True)).exp().sum(-1),
    ),
    "lse.no_log": (
        "in the place of the log-sum-exp it returns the sum of exponentials: take the logarithm",
        lambda s, scale: s.exp().sum(-1),
    ),
    "lse.base_two": (
        "the log-sum-exp is a logarithm to base 2, as exp2 leaves it: multiply it by ln 2",
        lambda s, scale: s.logsumexp(-1) / 0.6931471805599453,
    ),
    "lse.unscaled": (
        "the log-sum-exp is that of scores which are not scaled",
        lambda s, scale: (s / scale).logsumexp(-1),
    ),
    "lse.sign": ("the log-sum-exp has the wrong sign", lambda s, scale: -s.logsumexp(-1)),
    "lse.mean": (
        "the logarithm is of the mean of exponentials, not of their sum",
        lambda s, scale: s.logsumexp(-1) - s.isfinite().sum(-1).log(),
    ),
}
FLASH_SIGNS: list[Bug] = signs(
    {code: says for code, (says, _) in LSE.items()}
    | {
        "lse.unknown": "the log-sum-exp that it returns is wrong, in no way that is known",
        "lse.gradient": (
            "the gradient that arrives at the log-sum-exp is lost or wrong: in the backward it is taken off the row's sum,"
            " gradient · context - gradient of the log-sum-exp"
        ),
        "flash.matrix": (
            "it holds something as large as the matrix of scores: a full softmax in disguise, or a mask of n × n"
        ),
        "flash.matrix_backward": (
            "the gradient needs memory as large as the matrix of scores: autograd keeps every tile, where a backward of"
            " its own would work tiles out again"
        ),
        "flash.not_skipped": (
            "tiles that lie wholly in the future are computed and thrown away: half of the work"
        ),
    }
)
