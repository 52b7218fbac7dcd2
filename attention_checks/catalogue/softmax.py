"""What stands where a softmax should stand, and what weights that gives."""

import math
from collections.abc import Callable

from torch import Tensor

from attention_checks.explaining.pipeline import Bug, Step, bugs_of_lines, bugs_of_stage
from attention_nb.softmax import masked_softmax, softmax

_Weigh = Callable[[Tensor, Tensor], Tensor]  # scores, allowed → weights


def weighing(f: _Weigh) -> Step:
    "Make a step that computes weights."
    return lambda work: work._replace(weights=f(work.scores, work.allowed))


def _over(dim: int) -> _Weigh:
    "Normalise along another dimension."
    return lambda scores, allowed: masked_softmax(scores, allowed, dim)


def _over_all_from(start: int) -> _Weigh:
    "Normalise over all dimensions from `start` on together."

    def weigh(scores: Tensor, allowed: Tensor) -> Tensor:
        together = masked_softmax(scores.flatten(start), allowed.expand_as(scores).flatten(start))
        return together.view_as(scores)

    return weigh


def _divided_by_sum(scores: Tensor, allowed: Tensor) -> Tensor:
    "Divide the allowed scores by their sum."
    kept = scores * allowed
    return kept / kept.sum(-1, keepdim=True)


def _largest(n: int) -> _Weigh:
    "Keep the `n` largest allowed scores only."

    def weigh(scores: Tensor, allowed: Tensor) -> Tensor:
        least = scores.masked_fill(~allowed, -math.inf).topk(n).values[..., -1:]
        return masked_softmax(scores, allowed & (scores >= least))

    return weigh


def _averaged(dim: int) -> _Weigh:
    "Average the weights along a dimension."
    return lambda scores, allowed: (
        masked_softmax(scores, allowed).mean(dim, keepdim=True).expand_as(scores)
    )


def _exp(scores: Tensor, allowed: Tensor) -> Tensor:
    "Take exponentials where that is allowed."
    return scores.exp() * allowed


WEIGHTS: list[Bug] = bugs_of_stage(
    "weigh",
    weighing,
    {
        "softmax.over_queries": (
            "the softmax normalises over queries (dim=-2): use dim=-1, the keys",
            _over(-2),
        ),
        "softmax.over_heads": (
            "the softmax normalises over heads (dim=1): use dim=-1, the keys",
            _over(-3),
        ),
        "softmax.over_batch": (
            "the softmax normalises over the batch (dim=0): use dim=-1, the keys",
            _over(-4),
        ),
        "softmax.over_rows_and_columns": (
            "one softmax over queries and keys together: use dim=-1",
            _over_all_from(-2),
        ),
        "softmax.over_all": ("one softmax over the whole tensor: use dim=-1", _over_all_from(-4)),
        "softmax.missing": (
            "the softmax is missing: scores are used as weights",
            lambda scores, allowed: scores.masked_fill(~allowed, 0),
        ),
        "softmax.twice": (
            "the softmax is applied twice",
            lambda scores, allowed: masked_softmax(masked_softmax(scores, allowed), allowed),
        ),
        "softmax.sigmoid": (
            "a sigmoid stands where the softmax should be",
            lambda scores, allowed: scores.sigmoid() * allowed,
        ),
        "softmax.relu": (
            "a ReLU stands where the softmax should be",
            lambda scores, allowed: scores.relu() * allowed,
        ),
        "softmax.no_exp": (
            "scores are divided by their sum: the exponential of the softmax is missing",
            _divided_by_sum,
        ),
        "softmax.no_sum": ("the exponentials are not divided by their sum", _exp),
        "softmax.log": (
            "log_softmax is used, not softmax",
            lambda scores, allowed: (
                scores.masked_fill(~allowed, -math.inf).log_softmax(-1).masked_fill(~allowed, 0)
            ),
        ),
        "softmax.sign": (
            "the softmax has the wrong sign: the least similar key gets the largest weight",
            lambda scores, allowed: masked_softmax(-scores, allowed),
        ),
        "softmax.base_2": (
            "the softmax uses powers of 2, not of e",
            lambda scores, allowed: masked_softmax(scores * math.log(2), allowed),
        ),
        "softmax.uniform": (
            "all keys get the same weight: the scores are not used",
            lambda scores, allowed: masked_softmax(scores * 0, allowed),
        ),
        "softmax.argmax": (
            "only the largest score counts: argmax, not softmax",
            lambda scores, allowed: masked_softmax(scores * 1e6, allowed),
        ),
        "batch.weights_averaged": ("the weights are averaged over the batch", _averaged(-4)),
        "heads.weights_averaged": (
            'the weights are averaged over the heads | skip=["heads.weights_averaged"]',
            _averaged(-3),
        ),
        "heads.first_weights": (
            "every head uses the weights of the first head",
            lambda scores, allowed: masked_softmax(scores, allowed)[..., :1, :, :].expand_as(
                scores
            ),
        ),
        "softmax.transposed": (
            "the weights are transposed: use weights @ v, not weights.T @ v",
            lambda scores, allowed: masked_softmax(scores, allowed).mT,
        ),
        "softmax.keepdim": (
            "keepdim=True is missing in the softmax's sum: it is broadcast along the wrong axis",
            lambda scores, allowed: (
                _exp(scores, allowed) / _exp(scores, allowed).sum(-1).unsqueeze(-4)
            ),
        ),
    },
)
_TOP = Bug("softmax.top_k", "only the {number} largest scores are kept (top-k)")
WEIGHTS += [
    _TOP.about(number=n)._replace(steps={"weigh": weighing(_largest(n))}) for n in (2, 3, 4)
]


def _shifted(scores: Tensor) -> Tensor:
    "Take exponentials after subtracting the largest score."
    return (scores - scores.amax(-1, keepdim=True)).exp()


UNMASKED_SOFTMAX_BUGS: list[Bug] = bugs_of_stage(
    "weigh",
    weighing,
    {
        "softmax.sum_over_all": (
            "the sum runs over the whole tensor: use sum(dim, keepdim=True)",
            lambda scores, allowed: _shifted(scores) / _shifted(scores).sum(),
        ),
        "softmax.plus_one_shifted": (
            "1 is added to the denominator after the shift: weights sum to less than 1",
            lambda scores, allowed: _shifted(scores) / (1 + _shifted(scores).sum(-1, keepdim=True)),
        ),
        "softmax.keepdim_shifted": (
            "keepdim=True is missing after the shift: the sum is broadcast along the other axis",
            lambda scores, allowed: _shifted(scores) / _shifted(scores).sum(-1).unsqueeze(-2),
        ),
        "softmax.temperature": (
            "it scales the scores before the softmax: an undeclared temperature",
            lambda scores, allowed: softmax(scores * scores.shape[-1] ** -0.5),
        ),
    },
)
OTHER_DIM = Bug("softmax.dim", "it normalises over dim={other}: use dim={dim}")


def _along(other: int, dim: int) -> Step:
    "Normalise along another dimension than the one that was moved to the end."
    return weighing(
        lambda scores, allowed: softmax(scores.movedim(-1, dim), other).movedim(dim, -1)
    )


def softmax_bugs(
    ndim: int,  # how many dimensions the numbers have
    dim: int = -1,  # the dimension that should sum to 1; the bugs want it moved to the end
) -> list[Bug]:  # those of the stage `weigh`, another dimension first
    "List wrong softmaxes along one dimension."
    every = range(-ndim, 0) if dim < 0 else range(ndim)
    wrong_dims = [
        OTHER_DIM.about(other=other, dim=dim)._replace(steps={"weigh": _along(other, dim)})
        for other in every
        if other % ndim != dim % ndim
    ]
    whole = weighing(lambda scores, allowed: softmax(scores.flatten()).view_as(scores))
    over_all = [
        bug._replace(steps={"weigh": whole}) for bug in WEIGHTS if bug.code == "softmax.over_all"
    ]
    return wrong_dims + over_all + UNMASKED_SOFTMAX_BUGS + WEIGHTS


BUGS: list[Bug] = [
    *WEIGHTS,
    _TOP,
    *UNMASKED_SOFTMAX_BUGS,
    OTHER_DIM,
    *bugs_of_lines(
        """
softmax.epsilon: about {number} is added to the softmax's denominator (an epsilon): weights do not
    sum to 1
dtype.narrow: it computes in {dtype}, whatever type it is given: weights are rounded
softmax.overflows: the softmax overflows: subtract the largest score before exp
softmax.underflows: the softmax underflows to 0 / 0: subtract each query's own largest score
    (amax(-1, keepdim=True)), not that of the whole tensor or of another query
softmax.cut: large scores are cut off or rounded: a clamp, an epsilon in the sum, a maximum over
    too much, or a number for minus infinity that is not small enough
softmax.part_maximum: the maximum of a part, such as the first block, is subtracted: where the
    largest number stands elsewhere, the exponential overflows
softmax.whole_maximum: the maximum of the whole tensor (or of another dim) is subtracted: where
    numbers are smaller, they underflow to 0 or 0 / 0
softmax.only_square: it works on square scores only: keepdim=True is missing
softmax.shape: it does not return a tensor of the shape of the scores
~weights.negative: weights are negative: the softmax is missing, or something is added
~weights.columns: the weights of each key sum to 1, not of each query: use dim=-1, the keys
~weights.sums: the weights of a query do not sum to 1: normalised along another axis, before the
    mask, or not at all
~softmax.unknown: its numbers are not exp(x) / Σ exp(x), and no known bug gives them
"""
    ),
]
