"""Wrong scales, queries and keys that change places, and contexts that are changed on their way out."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from attention_checks.pipeline import Bug, Step, Work, bugs_of, signs


def _d(w: Work) -> int:
    return w.q.shape[-1]


def _h(w: Work) -> int:
    return w.q.shape[-3]


_HOW: dict[str, tuple[str, Callable[[Work], float]]] = {
    "scale.usual": (
        "divided by √d_k",
        lambda w: _d(w) ** -0.5,
    ),  # wrong if another scale was asked for
    "scale.missing": ("not scaled at all", lambda w: 1.0),
    "scale.by_width": ("divided by d_k, not √d_k (scaled twice?)", lambda w: 1 / _d(w)),
    "scale.multiplied": ("multiplied by √d_k, not divided by it", lambda w: _d(w) ** 0.5),
    "scale.multiplied_by_width": ("multiplied by d_k", lambda w: float(_d(w))),
    "scale.d_model_root": (
        "divided by the root of d_model, not of one head's width d_k",
        lambda w: w.d_model**-0.5,
    ),
    "scale.by_d_model": ("divided by d_model, not √d_k", lambda w: 1 / w.d_model),
    "scale.heads_root": (
        "divided by the root of the number of heads, not √d_k",
        lambda w: _h(w) ** -0.5,
    ),
    "scale.by_heads": ("divided by the number of heads, not √d_k", lambda w: 1 / _h(w)),
    "scale.value_width": ("divided by √d_v, not √d_k", lambda w: w.v.shape[-1] ** -0.5),
    "scale.keys_root": (
        "divided by the root of the number of keys, not √d_k",
        lambda w: w.k.shape[-2] ** -0.5,
    ),
    "scale.queries_root": (
        "divided by the root of the number of queries, not √d_k",
        lambda w: w.q.shape[-2] ** -0.5,
    ),
    "scale.by_keys": ("divided by the number of keys, not √d_k", lambda w: 1 / w.k.shape[-2]),
    "scale.one_side": (
        "divided by d_k to the power ¼, not ½ (is only one of q and k scaled?)",
        lambda w: _d(w) ** -0.25,
    ),
    "scale.one_and_a_half": (
        "divided by d_k to the power ¾ (scaled one and a half times)",
        lambda w: _d(w) ** -0.75,
    ),
    "scale.thrice": (
        "divided by d_k to the power 3/2 (scaled three times?)",
        lambda w: _d(w) ** -1.5,
    ),
    "scale.half_width": ("divided by √(d_k / 2), not √d_k", lambda w: (2 / _d(w)) ** 0.5),
    "scale.double_width": ("divided by √(2 d_k), not √d_k", lambda w: (2 * _d(w)) ** -0.5),
    "scale.rounded_root": (
        "divided by a constant, √d_k rounded down",
        lambda w: 1 / int(_d(w) ** 0.5),
    ),
    "scale.halved": ("divided by 2 √d_k", lambda w: _d(w) ** -0.5 / 2),
    "scale.all_heads": (
        "divided by the root of the width of all heads together, not of one head's width d_k",
        lambda w: (_h(w) * _d(w)) ** -0.5,
    ),
}
_MEANT = ("scale.missing", "scale.by_width")  # T5 does not scale; µP divides by d
SCALE: list[Bug] = [
    Bug(
        code,
        f"the scores are {how}: wrong scale, multiply them by {{scale}}",
        factor=factor,
        declare="scale={found}" * (code in _MEANT),
    )
    for code, (how, factor) in _HOW.items()
]


_Route = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor, Tensor]]


def routing(
    f: Callable[
        [Tensor, Tensor, Tensor], tuple[Tensor, Tensor, Tensor]
    ],  # q, k, v → those that meet in their place
) -> Step:  # for the stage `route`
    "Make a step of a function that takes other tensors for queries, keys and values."

    def route(w: Work) -> Work:
        q, k, v = f(w.q, w.k, w.v)
        return w._replace(q=q, k=k, v=v)

    return route


ROUTES: list[Bug] = bugs_of(
    "route",
    routing,
    {
        "route.queries_keys": (
            "queries and keys are swapped: softmax(k qᵀ)",
            lambda q, k, v: (k, q, v),
        ),
        "route.keys_as_values": (
            "keys are used as values: v is ignored",
            lambda q, k, v: (q, k, k),
        ),
        "route.queries_as_values": (
            "queries are used as values: v is ignored",
            lambda q, k, v: (q, k, q),
        ),
        "route.queries_as_keys": (
            "queries are used as keys: k is ignored",
            lambda q, k, v: (q, q, v),
        ),
        "route.keys_as_queries": (
            "keys are used as queries: q is ignored",
            lambda q, k, v: (k, k, v),
        ),
        "route.values_as_keys": (
            "values are used as keys: k is ignored",
            lambda q, k, v: (q, v, v),
        ),
        "route.values_as_queries": (
            "values are used as queries: q is ignored",
            lambda q, k, v: (v, k, v),
        ),
        "route.keys_values": ("keys and values are swapped", lambda q, k, v: (q, v, k)),
        "route.queries_values": ("queries and values are swapped", lambda q, k, v: (v, k, q)),
        "route.keys_reshaped": (
            "the keys are reshaped where they should be transposed: their numbers are mixed up",
            lambda q, k, v: (q, k.reshape(*k.shape[:-2], k.shape[-1], k.shape[-2]).mT, v),
        ),
        "route.keys_flipped": (
            "the keys are in the wrong order along the sequence (flipped)",
            lambda q, k, v: (q, k.flip(-2), v),
        ),
        "route.values_flipped": (
            "the values are in the wrong order along the sequence (flipped)",
            lambda q, k, v: (q, k, v.flip(-2)),
        ),
        "route.values_shifted": (
            "the values are shifted by one place against the keys",
            lambda q, k, v: (q, k, v.roll(1, -2)),
        ),
        "route.values_shifted_back": (
            "the values are shifted by one place against the keys (backwards)",
            lambda q, k, v: (q, k, v.roll(-1, -2)),
        ),
    },
)


_NORMS: dict[str, tuple[str, Callable[[Tensor], Tensor]]] = {
    "length": ("normalised to length 1", lambda t: torch.nn.functional.normalize(t, dim=-1)),
    "layer_norm": (
        "normalised by layer norm",
        lambda t: torch.nn.functional.layer_norm(t, t.shape[-1:]),
    ),
    "rms_norm": ("normalised by RMS norm", lambda t: t * t.square().mean(-1, keepdim=True).rsqrt()),
}
_NORMED: dict[str, Callable[[Callable[[Tensor], Tensor]], _Route]] = {
    "queries": lambda f: lambda q, k, v: (f(q), k, v),
    "keys": lambda f: lambda q, k, v: (q, f(k), v),
    "queries and keys": lambda f: lambda q, k, v: (f(q), f(k), v),
    "values": lambda f: lambda q, k, v: (q, k, f(v)),
}
NORMS: list[Bug] = bugs_of(
    "route",
    routing,
    {
        f"norm.{what.replace(' ', '_')}_{name}": (
            f"the {what} are {how} before they are used",
            put(f),
        )
        for name, (how, f) in _NORMS.items()
        for what, put in _NORMED.items()
    },
)


def mixing(
    f: Callable[
        [Tensor, Work], Tensor
    ],  # the context as it should be, and the work → what stands in its place
) -> Step:  # for the stage `mix`
    "Make a step of a function that changes the context."
    return lambda w: w._replace(out=f(w.weights @ w.v, w))


CONTEXT: list[Bug] = bugs_of(
    "mix",
    mixing,
    {
        "context.plus_queries": (
            "a residual is added: the queries come on top of the context",
            lambda c, w: c + w.q,
        ),
        "context.plus_values": (
            "a residual is added: the values come on top of the context",
            lambda c, w: c + w.v,
        ),
        "context.mean_over_queries": (
            "the contexts are averaged over the queries",
            lambda c, w: c.mean(-2, keepdim=True).expand_as(c),
        ),
        "context.scaled": (
            "the context is divided by √d_k (the scale stands in the wrong place)",
            lambda c, w: c * _d(w) ** -0.5,
        ),
        "context.by_keys": (
            "the context is divided by the number of keys",
            lambda c, w: c / w.k.shape[-2],
        ),
        "context.by_heads": (
            "the context is divided by the number of heads",
            lambda c, w: c / _h(w),
        ),
        "context.doubled": ("the context is doubled", lambda c, w: 2 * c),
        "context.zero": ("the context is zero: nothing is returned", lambda c, w: 0 * c),
        "context.float16": (
            "the context is returned in 16 bits of precision (float16)",
            lambda c, w: c.half().to(c.dtype),
        ),
        "context.length_1": (
            "the contexts are normalised to length 1",
            lambda c, w: c / c.norm(dim=-1, keepdim=True),
        ),
    },
)


_CONSTANT = "wrong scale: the scores are multiplied by {found}"
ATTENTION_SIGNS: list[Bug] = signs(
    {
        "scale.constant": f"{_CONSTANT}, not by {{right}}, which is 1/√d_k",
        "scale.other": f"{_CONSTANT}, not by {{right}}, as you said",
        "scale.usual_unasked": f"{_CONSTANT}, which is 1/√d_k, not by {{right}}, as you said",
        "scale.sign": "the scores have the wrong sign: they are multiplied by {found}, not by {right}",
        "weights.returned_scores": "it returns scores before the softmax, not the weights that made the context",
        "weights.returned_nan": "it returns weights that are NaN or infinite, though its context is not made with them",
        "weights.returned_other": "it returns other weights, not the weights that made the context",
        "shape.weights_first": "it returns (weights, context), where (context, weights) is expected",
        "shape.keys_wide": (
            "the output is as wide as the keys (d_k), not as the values (d_v): {used} are used as values, v is not"
        ),
        "shape.weights": "it returns the weights or the scores, one number per key: their product with v is missing",
        "shape.axes": "the axes of the output are in another order: a transpose is missing, or one too many",
        "shape.other": "heads, queries or widths end up in the wrong place of the output",
        "shape.only_square": "it works only when n_q = n_k: it mixes up the lengths of queries and keys",
        "shape.fails": "it fails on inputs of shape (b, h, n, d), which raise {error}",
        "length.rectangular": (
            "with n_q ≠ n_k it gives other numbers: the causal mask lines up in the wrong corner, or lengths are mixed up"
        ),
        "length.one": (
            "it works at one length only: something, such as a mask, is kept from the first call, or a length is written"
            " into the code"
        ),
        "length.rows": "it gives another number of rows than it was given queries: a length is written into the code",
        "length.size": "it breaks for {what}: squeeze() without a dim, or a division by n - 1?",
        "state.first_call": "something is kept from the first call: later ones use its {kept} (a cache, a state)",
    }
) + signs(
    {
        "shape.only_equal_widths": "it works only when d_k = d_v: it takes the width of keys for that of values",
        "shape.only_cube": "it works only when n_q = n_k and d_k = d_v: it mixes up lengths or widths",
        "shape.only_length_width": (
            "it works only when n_q = n_k = d_k: an axis is mixed up, or .T transposes the wrong one"
        ),
        "shape.only_heads_length": "it works only when h = n: the axes of heads and sequence are mixed up",
        "shape.only_batch_heads": "it works only when b = h",
        "shape.only_equal": (
            "it works only when all sizes are equal: axes are mixed up, as by .T on four dimensions, which turns them all"
            " round"
        ),
        "values.nan": "ordinary scores already give NaN or infinity",
        "values.rounded": (
            "its numbers are right to two digits or so: precision is lost on the way (float16 or bfloat16 inside?), or"
            " something small is added"
        ),
        "values.unknown": "its numbers are not softmax(q kᵀ · scale) v, and they fit no bug known here",
        "context.outside": (
            "a context is no mixture of the values: weights do not sum to 1, or something is added or scaled after them"
        ),
        "order.keys": (
            "the answer depends on the order of the keys: a mask or positions nobody asked for, or mixed-up axes"
        ),
        "order.queries": (
            "a query's context depends on the other queries: the softmax runs over queries, or axes are mixed up"
        ),
        "batch.mixed": "sentences mix: a reshape, a mean or a softmax runs over the axis of sentences",
        "heads.mixed": "heads mix: a reshape, a mean or a softmax runs over the axis of heads",
    },
    guess=True,
)
