"""What people write where a softmax should stand, and what weights that gives."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from attention_checks.pipeline import Bug, Step, bugs_of, signs
from attention_checks.search import alike
from attention_nb.softmax import masked_softmax, softmax

_Weigh = Callable[[Tensor, Tensor], Tensor]  # scores, allowed → weights


def weighing(
    f: Callable[[Tensor, Tensor], Tensor],  # scores, allowed → weights
) -> Step:  # for the stage `weigh`
    "Make a step of a function that weighs."
    return lambda w: w._replace(weights=f(w.scores, w.allowed))


def _over(dim: int) -> _Weigh:
    "Softmax along another dimension."
    return lambda s, a: masked_softmax(s, a, dim)


def _flat(start: int) -> _Weigh:
    "One softmax over all dimensions from `start` on."
    return lambda s, a: masked_softmax(s.flatten(start), a.expand(s.shape).flatten(start)).view_as(
        s
    )


def _normalised(f: Callable[[Tensor], Tensor]) -> _Weigh:
    "`f` on allowed places, each row divided by its sum."
    return lambda s, a: f(s) * a / (f(s) * a).sum(-1, keepdim=True)


def _largest(n: int) -> _Weigh:
    "Softmax over the `n` largest allowed scores."
    return lambda s, a: masked_softmax(
        s, a & (s >= s.masked_fill(~a, -math.inf).topk(n).values[..., -1:])
    )


def _exp(s: Tensor, a: Tensor) -> Tensor:
    return s.exp() * a


WEIGHTS: list[Bug] = bugs_of(
    "weigh",
    weighing,
    {
        "softmax.over_queries": (
            "the softmax normalises over queries (dim=-2), not keys (dim=-1): columns sum to 1, rows do not",
            _over(-2),
        ),
        "softmax.over_heads": (
            "the softmax normalises over heads (dim=1), not keys (dim=-1)",
            _over(-3),
        ),
        "softmax.over_batch": (
            "the softmax normalises over the batch (dim=0), not keys (dim=-1)",
            _over(-4),
        ),
        "softmax.over_rows_and_columns": (
            "one softmax over queries and keys together: each row must sum to 1 by itself (dim=-1)",
            _flat(-2),
        ),
        "softmax.over_heads_and_rows": (
            "one softmax over heads, queries and keys together: use dim=-1",
            _flat(-3),
        ),
        "softmax.over_all": ("one softmax over the whole tensor: use dim=-1", _flat(-4)),
        "softmax.missing": (
            "the softmax is missing: raw scores are used as weights",
            lambda s, a: s.masked_fill(~a, 0),
        ),
        "softmax.twice": (
            "the softmax is applied twice",
            lambda s, a: masked_softmax(masked_softmax(s, a), a),
        ),
        "softmax.twice_masked_once": (
            "the softmax is applied twice, and the mask only once",
            lambda s, a: softmax(masked_softmax(s, a)),
        ),
        "softmax.sigmoid": (
            "a sigmoid stands where the softmax should be",
            lambda s, a: s.sigmoid() * a,
        ),
        "softmax.relu": ("a ReLU stands where the softmax should be", lambda s, a: s.relu() * a),
        "softmax.no_exp": (
            "scores are divided by their sum, without the exponential of the softmax",
            _normalised(lambda s: s),
        ),
        "softmax.relu_shares": (
            "a ReLU, then divided by the sum, stands where the softmax should be",
            _normalised(torch.relu),
        ),
        "softmax.sigmoid_shares": (
            "a sigmoid, then divided by the sum, stands where the softmax should be",
            _normalised(torch.sigmoid),
        ),
        "softmax.absolute_shares": (
            "absolute scores divided by their sum stand where the softmax should be",
            _normalised(torch.abs),
        ),
        "softmax.no_sum": (
            "the exponentials are not divided by their sum (softmax without its denominator)",
            _exp,
        ),
        "softmax.log": (
            "log_softmax is used, not softmax",
            lambda s, a: s.masked_fill(~a, -math.inf).log_softmax(-1).masked_fill(~a, 0),
        ),
        "softmax.sign": (
            "the softmax has the wrong sign: the least similar key gets the largest weight",
            lambda s, a: masked_softmax(-s, a),
        ),
        "softmax.base_2": (
            "the softmax uses powers of 2, not of e",
            lambda s, a: masked_softmax(s * math.log(2), a),
        ),
        "softmax.uniform": (
            "all keys get the same weight: the scores are not used",
            lambda s, a: masked_softmax(s * 0, a),
        ),
        "softmax.argmax": (
            "only the largest score counts (argmax, not softmax)",
            lambda s, a: masked_softmax(s * 1e6, a),
        ),
        "batch.weights_averaged": (
            "the weights are averaged over the batch: sentences are mixed",
            lambda s, a: masked_softmax(s, a).mean(-4, keepdim=True).expand_as(s),
        ),
        "heads.weights_averaged": (
            "the weights are averaged over the heads: every head looks at the same",
            lambda s, a: masked_softmax(s, a).mean(-3, keepdim=True).expand_as(s),
        ),
        "heads.first_weights": (
            "every head uses the weights of the first head: copies of one head",
            lambda s, a: masked_softmax(s, a)[..., :1, :, :].expand_as(s),
        ),
        "batch.scores_averaged": (
            "the scores are averaged over the batch: sentences are mixed",
            lambda s, a: masked_softmax(s.mean(-4, keepdim=True).expand_as(s), a),
        ),
        "softmax.transposed": (
            "the weights are transposed: weights.T v, queries and keys change places",
            lambda s, a: masked_softmax(s, a).mT,
        ),
        "softmax.squared": ("the weights are squared", lambda s, a: masked_softmax(s, a) ** 2),
        "softmax.by_keys": (
            "the weights are divided by the number of keys after the softmax",
            lambda s, a: masked_softmax(s, a) / s.shape[-1],
        ),
        "softmax.plus_one": (
            "a 1 is added to the softmax's denominator: rows sum to less than 1",
            lambda s, a: _exp(s, a) / (1 + _exp(s, a).sum(-1, keepdim=True)),
        ),
        "softmax.keepdim": (
            "keepdim=True is missing in the softmax's sum: it is broadcast along the wrong dimension",
            lambda s, a: _exp(s, a) / _exp(s, a).sum(-1).unsqueeze(-4),
        ),
        "scale.after_softmax": (
            "the weights are scaled after the softmax, where the scores should be scaled before it",
            lambda s, a: masked_softmax(s, a) * s.shape[-1] ** -0.5,
        ),
        **{
            f"softmax.top_{n}": (f"only the {n} largest scores are kept (top-k)", _largest(n))
            for n in (2, 3, 4)
        },
    },
)


def _shifted(s: Tensor) -> Tensor:
    "Exponentials, shifted by the row's largest number."
    return (s - s.amax(-1, keepdim=True)).exp()


def _across(e: Tensor) -> Tensor:
    "Sums of rows, broadcast along the other dimension, as without keepdim."
    return e.sum(-1).unsqueeze(-2)


PLAIN: list[Bug] = bugs_of(
    "weigh",
    weighing,
    {
        "softmax.sum_over_all": (
            "the sum runs over the whole tensor, not along one dim: sum(dim, keepdim=True)",
            lambda s, a: _shifted(s) / _shifted(s).sum(),
        ),
        "softmax.no_sum_shifted": (
            "the division by the sum is missing: rows do not sum to 1",
            lambda s, a: _shifted(s),
        ),
        "softmax.by_mean": (
            "it divides by the mean, not by the sum: rows sum to n",
            lambda s, a: softmax(s) * s.shape[-1],
        ),
        "softmax.plus_one_shifted": (
            "a 1 is added to the denominator, after the shift: rows sum to less than 1",
            lambda s, a: _shifted(s) / (1 + _shifted(s).sum(-1, keepdim=True)),
        ),
        "softmax.divided_by_maximum": (
            "numbers are divided by their maximum, which should be subtracted",
            lambda s, a: softmax(s / s.amax(-1, keepdim=True)),
        ),
        "softmax.shifted_above": (
            "the maximum is subtracted above but not below: the two do not cancel",
            lambda s, a: _shifted(s) / s.exp().sum(-1, keepdim=True),
        ),
        "softmax.shifted_below": (
            "the maximum is subtracted below but not above: the two do not cancel",
            lambda s, a: s.exp() / _shifted(s).sum(-1, keepdim=True),
        ),
        "softmax.keepdim_square": (
            "keepdim is missing: the sum is broadcast along the other dimension, which only square scores allow",
            lambda s, a: s.exp() / _across(s.exp()),
        ),
        "softmax.keepdim_shifted": (
            "keepdim is missing after the shift: the sum is broadcast along the other dimension, which only square scores"
            " allow",
            lambda s, a: _shifted(s) / _across(_shifted(s)),
        ),
        "softmax.temperature": (
            "it scales the scores before the softmax (a temperature nobody asked for)",
            lambda s, a: softmax(s * s.shape[-1] ** -0.5),
        ),
        "softmax.absolute": ("absolute values are used", lambda s, a: softmax(s.abs())),
        "softmax.cut_negative": (
            "negative numbers are cut off (ReLU) before the softmax",
            lambda s, a: softmax(s.relu()),
        ),
        "softmax.squares": (
            "the squares are normalised, not the exponentials",
            lambda s, a: s**2 / (s**2).sum(-1, keepdim=True),
        ),
        "softmax.standardised": (
            "scores are normalised by their mean and deviation first",
            lambda s, a: softmax((s - s.mean(-1, keepdim=True)) / s.std(-1, keepdim=True)),
        ),
        "softmax.cumulative": ("weights are cumulative sums", lambda s, a: softmax(s).cumsum(-1)),
    },
)
OTHER_DIM = Bug(
    "softmax.dim", "it normalises over the wrong dimension: dim={other} sums to 1, not dim={dim}"
)


def _along(other: int, dim: int) -> Step:
    "Softmax along another dimension than the one that was moved to the end."
    return weighing(lambda s, a: softmax(s.movedim(-1, dim), other).movedim(dim, -1))


def softmax_bugs(
    ndim: int,  # how many dimensions the numbers have
    dim: int = -1,  # the dimension that should sum to 1; the bugs want it moved to the end
) -> list[Bug]:  # those of the stage `weigh`, another dimension first
    "List what people write for softmax along one dimension."
    others = [d for d in (range(-ndim, 0) if dim < 0 else range(ndim)) if d % ndim != dim % ndim]
    dims = [
        OTHER_DIM.about(other=d, dim=dim)._replace(steps={"weigh": _along(d, dim)}) for d in others
    ]
    whole = weighing(lambda s, a: softmax(s.flatten()).view_as(s))
    all_of_it = [
        bug._replace(steps={"weigh": whole}) for bug in WEIGHTS if bug.code == "softmax.over_all"
    ]
    return dims + all_of_it + PLAIN + WEIGHTS


EPSILON = Bug(
    "softmax.epsilon",
    "something is added to the softmax's denominator (an epsilon, about {number}): rows do not sum to 1",
)
ROUNDED = Bug(
    "dtype.narrow", "it computes in {dtype}, whatever type it is given: the weights are rounded"
)


def name_added(
    weights: Tensor,  # what should be the softmax of the scores, (..., n)
    scores: Tensor,  # -inf where nothing may be seen, (..., n)
) -> Bug | None:  # if that explains the weights
    "Find a number that is added to the sum of exponentials, such as an epsilon."
    sums, top = weights.sum(-1, keepdim=True), scores.amax(-1, keepdim=True)
    if not alike(weights, softmax(scores) * sums):
        return None
    for shift in (top, 0 * top):
        added = (scores - shift).exp().sum(-1, keepdim=True) * (1 / sums - 1)
        if added.min() > 0 and added.max() < 1.2 * added.min():
            return EPSILON.about(number=f"{added.mean():.1g}")
    return None


def name_rounded(
    weights: Tensor,  # random ones, in a type of 32 bits or more
) -> Bug | None:  # if sixteen bits are enough to hold them all
    "Find a type that is narrower than what was handed in, by what it rounds away."
    for dtype in (torch.bfloat16, torch.float16):
        if len(weights.unique()) > weights.shape[-1] and torch.equal(
            weights, weights.to(dtype).to(weights)
        ):
            return ROUNDED.about(dtype=dtype)
    return None


SOFTMAX_SIGNS: list[Bug] = signs(
    {
        "softmax.overflows": "the softmax overflows: subtract the row's largest score before the exponential",
        "softmax.underflows": (
            "the softmax underflows to 0 / 0: the largest score of the whole tensor, or of another row, is subtracted, not"
            " the row's own (amax(-1, keepdim=True))"
        ),
        "softmax.underflows_or_late_mask": (
            "the softmax underflows to 0 / 0: the largest score of the whole tensor, or of another row, is subtracted, not"
            " the row's own (amax(-1, keepdim=True)); or the mask comes after the softmax"
        ),
        "softmax.cut": (
            "large scores are cut off or rounded: a clamp, a maximum over more than the row, or a stand-in for minus"
            " infinity that is not small enough"
        ),
        "softmax.cut_or_epsilon": (
            "large numbers are cut off or rounded: a clamp, or something small added to the sum of exponentials, which"
            " underflows: subtract the row's largest number"
        ),
        "softmax.part_maximum": (
            "the maximum that is subtracted is that of a part of the row, such as its first block: where the largest"
            " number stands elsewhere, the exponential overflows"
        ),
        "softmax.whole_maximum": (
            "the maximum is that of the whole tensor (or of another dim), not of each row: other rows underflow to 0 or"
            " 0 / 0"
        ),
        "softmax.only_square": "it works on square scores only: keepdim=True is missing, in the sum or in the maximum",
        "softmax.shape": "it does not return a tensor of the shape of the scores",
        "softmax.loses": "it overflows or loses precision in {dtype}: subtract the largest number, and sum in float32",
    }
) + signs(
    {
        "softmax.infinity": "a score of minus infinity does not get the weight 0 (NaN: inf - inf, or 0 · inf)",
        "weights.negative": "weights are negative: the softmax is missing, or something is added",
        "weights.columns": "the softmax normalises over queries (dim=-2), not keys (dim=-1)",
        "weights.infinite": "the weights are not finite",
        "weights.sums": (
            "the weights of a row do not sum to 1: normalised along another dimension, before the mask, or not at all"
        ),
        "softmax.unknown": "its numbers are not exp(x) / Σ exp(x), and they fit no bug known here",
    },
    guess=True,
)
