"""Wrong scales, exchanged queries, keys and values, wrong shapes, and unknown numbers."""

import math
from collections.abc import Callable

from torch import Tensor
from torch.nn import functional as F

from attention_checks.explaining.pipeline import (
    Bug,
    Step,
    Work,
    bugs_of_lines,
    bugs_of_stage,
    scoring,
)
from attention_nb.softmax import masked_softmax


def _d_k(work: Work) -> int:
    "Return the width of one head."
    return work.q.shape[-1]


def _is_usual(work: Work) -> bool:
    "Return whether scores are to be multiplied by 1/√d_k: no other scale was declared."
    return math.isclose(float(work.scale), _d_k(work) ** -0.5)


_SCALES: dict[str, tuple[str, Callable[[Work], float]]] = {
    "scale.usual": ("divided by √d_k", lambda work: _d_k(work) ** -0.5),  # beside a declared scale
    "scale.missing": ("not scaled (a factor after exp cancels) | scale={found}", lambda work: 1.0),
    "scale.by_width": (
        "divided by d_k, not √d_k (scaled twice?) | scale={found}",  # µP
        lambda work: 1 / _d_k(work),
    ),
    "scale.multiplied": ("multiplied by √d_k, not divided by it", lambda work: _d_k(work) ** 0.5),
    "scale.d_model_root": ("divided by √d_model, not √d_k", lambda work: work.d_model**-0.5),
    "scale.by_d_model": ("divided by d_model, not √d_k", lambda work: 1 / work.d_model),
    "scale.heads_root": ("divided by √h, not √d_k", lambda work: work.q.shape[-3] ** -0.5),
    "scale.value_width": ("divided by √d_v, not √d_k", lambda work: work.v.shape[-1] ** -0.5),
    "scale.keys_root": ("divided by √n_k, not √d_k", lambda work: work.k.shape[-2] ** -0.5),
    "scale.one_side": (
        "divided by d_k to the power ¼ (only q or only k is scaled?)",
        lambda work: _d_k(work) ** -0.25,
    ),
    "scale.rounded_root": (
        "divided by a constant, √d_k rounded down",
        lambda work: 1 / int(_d_k(work) ** 0.5) if _is_usual(work) else float(work.scale),
    ),
    "scale.halved": ("divided by 2 √d_k", lambda work: _d_k(work) ** -0.5 / 2),
}
SCALE: list[Bug] = [
    Bug(code, f"the scores are {how}: multiply q kᵀ by {{scale}}", factor=factor, declare=declare)
    for code, (text, factor) in _SCALES.items()
    for how, _, declare in [text.partition(" | ")]
]


def _late(of_weights: Callable[[Tensor, Work], Tensor]) -> dict[str, Step]:
    "Replace two stages: scores are not scaled, and the weights that they give are."

    def weigh(work: Work) -> Work:
        return work._replace(weights=of_weights(masked_softmax(work.scores, work.allowed), work))

    return {"score": scoring(lambda scores, bias, scale: scores + bias), "weigh": weigh}


LATE_SCALES: list[Bug] = [
    Bug(
        "softmax.scaled",
        "the weights are scaled, not the scores: multiply q kᵀ by the scale, before exp",
        _late(lambda weights, work: weights * work.scale),
    ),
    Bug(
        "softmax.scaled_sum",
        "the sum of the exponentials is scaled, not the scores: multiply q kᵀ by the scale,"
        " before exp",
        _late(lambda weights, work: weights / work.scale),
    ),
]


_Route = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor, Tensor]]


def routing(f: _Route) -> Step:  # for the stage `route`
    "Make a step that uses other tensors as queries, keys and values."

    def route(work: Work) -> Work:
        q, k, v = f(work.q, work.k, work.v)
        return work._replace(q=q, k=k, v=v)

    return route


def changing(roles: str, change: Callable[[Tensor], Tensor]) -> _Route:
    "Change some of queries, keys and values, by the letters of their roles."

    def changed(*heads: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v = (change(t) if role in roles else t for role, t in zip("qkv", heads))
        return q, k, v

    return changed


QKV_BUGS: list[Bug] = bugs_of_stage(
    "route",
    routing,
    {
        "route.queries_keys": (
            "queries and keys are exchanged: softmax(k qᵀ)",
            lambda q, k, v: (k, q, v),
        ),
        "route.keys_as_values": (
            "keys are used as values: v is ignored",
            lambda q, k, v: (q, k, k),
        ),
        "route.queries_as_keys": (
            "queries are used as keys: k is ignored",
            lambda q, k, v: (q, q, v),
        ),
        "route.keys_values": ("keys and values are exchanged", lambda q, k, v: (q, v, k)),
        "route.queries_values": ("queries and values are exchanged", lambda q, k, v: (v, k, q)),
        "route.keys_reshaped": (
            "the keys are reshaped, not transposed: use k.transpose(-2, -1)",
            lambda q, k, v: (q, k.reshape(*k.shape[:-2], k.shape[-1], k.shape[-2]).mT, v),
        ),
        "route.values_shifted": (
            "the values are shifted by one position against the keys",
            lambda q, k, v: (q, k, v.roll(1, -2)),
        ),
    },
)


UNDECLARED_NORMS: list[Bug] = bugs_of_stage(
    "route",
    routing,
    {
        "norm.queries_length": (
            "the queries are normalised to length 1",
            lambda q, k, v: (F.normalize(q, dim=-1), k, v),
        ),
        "norm.queries_and_keys_length": (
            "queries and keys are normalised to length 1",
            lambda q, k, v: (F.normalize(q, dim=-1), F.normalize(k, dim=-1), v),
        ),
    },
)


def mixing(f: Callable[[Tensor, Work], Tensor]) -> Step:  # for the stage `mix`
    "Make a step that changes the right context."
    return lambda work: work._replace(out=f(work.weights @ work.v, work))


CONTEXT_BUGS: list[Bug] = bugs_of_stage(
    "mix",
    mixing,
    {
        "mix.own_value": (
            "each query gets its own value, whatever it attends to: multiply each key's weight by"
            " that key's value (einsum: bhqk,bhkd->bhqd)",
            lambda _, work: work.weights.sum(-1, keepdim=True) * work.v,
        )
    },
)


BUGS: list[Bug] = [
    *SCALE,
    *LATE_SCALES,
    *QKV_BUGS,
    *CONTEXT_BUGS,
    *UNDECLARED_NORMS,
    *bugs_of_lines(
        """
scale.term: the scores, or a term of them, are {found} times what {name}= says ({what}): scale them
    as it does
scale.constant: the scores are multiplied by {found}, not by {right} | scale={found}
weights.returned_scores: it returns scores, not the weights that made the context
weights.returned_other: it returns other weights than those that made the context
shape.weights_first: it returns its weights first: return (output, weights)
shape.keys_wide: the output has the width of the keys: {used} are used as values, not v
shape.weights: it returns weights or scores: multiply the weights by v
shape.axes: the axes of the output are wrong: a transpose is missing, or one too many
shape.only_square: it works only when n_q = n_k: it mixes up the two lengths
    | skip=["shape.only_square"]
shape.values_as_wide: it works only when values are as wide as keys: make the output of v's width
    (zeros_like(q) has that of q) | skip=["shape.values_as_wide"]
shape.fails: it raises {error} for inputs of shape (b, h, n, d)
length.one: it works at one length only: a mask is kept from the first call, or a length is
    written into the code
~length.size: it breaks for {what}: squeeze() without a dim, a division by n - 1, or a hard-coded
    size?
state.first_call: it keeps something of its first call: later calls must not use it
~shape.only_equal: it works only when sizes are equal that may differ: axes are mixed up, as by
    .T, which reverses all four | skip=["shape.only_equal"]
~values.nan: ordinary inputs give NaN or infinity: a division by 0, or a mask multiplied by -inf
    (0 · inf is NaN: use masked_fill)
~values.rounded: its numbers are right to two digits only: it computes in float16 or bfloat16, or
    adds something small
~values.unknown: it is not softmax(q kᵀ · scale) v, and no known bug gives its numbers
    | attend=…
~order.keys: the output depends on the order of the keys: a mask, or axes mixed up
~order.queries: a context depends on other queries: the softmax runs over queries?
    | skip=["order.queries"]
"""
    ),
]
