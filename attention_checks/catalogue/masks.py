"""Wrong corners, masks upside down or off by one, and masks that come too late."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from attention_checks.catalogue.softmax import weighing
from attention_checks.pipeline import Bug, Step, bugs_of, signs
from attention_nb.softmax import masked_softmax, softmax


def allowing(
    f: Callable[
        [Tensor], Tensor
    ],  # what should be allowed → what is, both boolean (b, h, n_q, n_k)
) -> Step:  # for the stage `mask`
    "Make a step of a function that changes the mask."
    return lambda w: w._replace(allowed=f(w.allowed))


def _every(a: Tensor) -> Tensor:
    return torch.ones_like(a)


def _but(j: int) -> Callable[[Tensor], Tensor]:
    "All but key `j`."
    return lambda a: a & (torch.arange(a.shape[-1]) != j % a.shape[-1])


def _window(n: int) -> Callable[[Tensor], Tensor]:
    "Each query sees itself and the `n - 1` places before it."
    return lambda a: a & _every(a).tril().triu(1 - n)


UNASKED: list[Bug] = bugs_of(
    "mask",
    allowing,
    {
        "mask.drops_last_key": (
            "the last key is never attended to (off by one in a slice?)",
            _but(-1),
        ),
        "mask.drops_first_key": (
            "the first key is never attended to (off by one in a slice?)",
            _but(0),
        ),
        "mask.drops_self": (
            "a query never attends to itself: its own place (the diagonal) is masked",
            lambda a: a & ~torch.eye(a.shape[-1], dtype=torch.bool),
        ),
        "mask.causal_unasked": (
            "a causal mask is applied where none was asked for",
            lambda a: a & _every(a).tril(a.shape[-1] - a.shape[-2]),
        ),
    },
)


WRONG: list[Bug] = bugs_of(
    "mask",
    allowing,
    {
        "mask.ignored": (
            "the mask is not applied: what it forbids, such as the future, is seen",
            _every,
        ),
        "mask.inverted": (
            "the mask is inverted: it hides what it should allow (True = may attend)",
            lambda a: ~a,
        ),
        "mask.transposed": (
            "the mask is transposed: queries and keys change places in it (if causal, the future is seen: triu for tril)",
            lambda a: a.mT,
        ),
        "mask.lower_right": (
            "the mask starts in the wrong corner: it lines up the last query with the last key (lower right)",
            lambda a: _every(a).tril(a.shape[-1] - a.shape[-2]),
        ),
        "mask.upper_left": (
            "the mask starts in the wrong corner: it lines up the first query with the first key (upper left)",
            lambda a: _every(a).tril(),
        ),
        "mask.last_row": (
            "every query gets the mask of the last one: (n_q, n_k) is read as (1, n_k)",
            lambda a: a[..., -1:, :].expand_as(a),
        ),
        "mask.first_row": (
            "every query gets the mask of the first one: (n_q, n_k) is read as (1, n_k)",
            lambda a: a[..., :1, :].expand_as(a),
        ),
        "mask.not_itself": (
            "the mask is off by one: a query does not see its own place (diagonal), only what came before",
            lambda a: a.tril(-1),
        ),
        "mask.sees_next": (
            "the mask is off by one: a query sees one place too far, the next token of the future",
            lambda a: a | _every(a).tril(1),
        ),
        "mask.sees_two_ahead": (
            "the mask is off by two: a query sees two places too far into the future",
            lambda a: a | _every(a).tril(2),
        ),
        "mask.not_itself_nor_before": (
            "the mask is off by one: a query sees neither itself nor the place before it",
            lambda a: a.tril(-2),
        ),
        "mask.only_itself": ("a query sees only itself: the mask is too narrow", _window(1)),
        "mask.window_2": (
            "a query sees only itself and the place before it: a window, by accident",
            _window(2),
        ),
        "mask.window_3": (
            "a query sees only itself and two places before it: a window, by accident",
            _window(3),
        ),
        "mask.first_key_open": (
            "the first key is always seen, whatever the mask says",
            lambda a: a | (torch.arange(a.shape[-1]) == 0),
        ),
    },
    needs="mask",
)


def _filled(value: float) -> Callable[[Tensor, Tensor], Tensor]:
    "A number that stands for minus infinity and is not."
    return lambda s, a: softmax(s.masked_fill(~a, value))


def _off_diagonal(value: float) -> Callable[[Tensor, Tensor], Tensor]:
    "A mask off by one, with a number for minus infinity: it shows in the first row, which sees nothing."
    return lambda s, a: s.masked_fill(~a.tril(-1), value).softmax(-1)


def _but_the_first(s: Tensor, a: Tensor) -> Tensor:
    strict = a.tril(-1).clone()
    strict[..., 0, 0] = True
    return masked_softmax(s, strict)


_NOT_ITSELF = "the mask is off by one: a query does not see itself, its own place (diagonal)"
APPLIED: list[Bug] = bugs_of(
    "weigh",
    weighing,
    {
        "mask.after_softmax": (
            "the mask is applied after the softmax and rows are not normalised again: the forbidden scores leak through"
            " the denominator; mask before the softmax",
            lambda s, a: softmax(s) * a,
        ),
        "mask.multiplied": (
            "the mask is multiplied with the scores before the softmax: a forbidden score becomes 0, not minus infinity",
            lambda s, a: softmax(s * a),
        ),
        "mask.added": (
            "the mask is added to the scores as 0 and 1, where it should add minus infinity",
            lambda s, a: softmax(s + a),
        ),
        "mask.added_inverted": (
            "the mask is added to the scores upside down, as 1 where forbidden",
            lambda s, a: softmax(s + ~a),
        ),
        "mask.filled_tiny": (
            "forbidden scores are set to a tiny number (1e-9), not to minus infinity (-1e9 was meant?)",
            _filled(1e-9),
        ),
        "mask.filled_1": ("forbidden scores are set to 1, not to minus infinity", _filled(1.0)),
        "mask.filled_minus_1": (
            "forbidden scores are set to -1, not to minus infinity: the mask leaks",
            _filled(-1.0),
        ),
        "mask.filled_minus_10": (
            "forbidden scores are set to -10, not to minus infinity: the mask leaks",
            _filled(-10.0),
        ),
        "mask.filled_huge": (
            "forbidden scores are set to plus infinity's stand-in, a huge positive number",
            _filled(1e9),
        ),
        "mask.on_queries": (
            "the mask is applied to queries (rows) where it should be applied to keys (columns)",
            lambda s, a: softmax(s.masked_fill(~a[..., :1, :].mT, -math.inf)).nan_to_num(
                1 / s.shape[-1]
            ),
        ),
        "mask.not_itself_nan": (
            f"{_NOT_ITSELF}; the first, with nothing to see, gets NaN",
            _off_diagonal(-math.inf),
        ),
        "mask.not_itself_mean": (
            f"{_NOT_ITSELF}; the first, with nothing to see, gets the mean of all values",
            _off_diagonal(-1e9),
        ),
        "mask.not_itself_but_first": (f"{_NOT_ITSELF}, but for the first", _but_the_first),
    },
    needs="mask",
)


def scoring(
    f: Callable[[Tensor, Tensor, float | Tensor], Tensor],  # q kᵀ, bias and scale → scores
) -> Step:  # for the stage `score`
    "Make a step of a function that makes scores."
    return lambda w: w._replace(scores=f(w.q @ w.k.mT, w.bias, w.scale))


BIAS: list[Bug] = bugs_of(
    "score",
    scoring,
    {
        "bias.scaled": (
            "the bias is scaled, too: scale the scores first, and add the bias to them as it is",
            lambda s, bias, scale: (s + bias) * scale,
        ),
        "bias.subtracted": (
            "the bias is subtracted, not added",
            lambda s, bias, scale: s * scale - bias,
        ),
        "bias.ignored": (
            "the bias is ignored where its numbers are finite",
            lambda s, bias, scale: s * scale,
        ),
        "bias.scaled_subtracted": (
            "the bias is scaled, too, and subtracted, not added",
            lambda s, bias, scale: (s - bias) * scale,
        ),
        "bias.multiplied": (
            "the bias is multiplied with the scores, not added",
            lambda s, bias, scale: s * scale * bias,
        ),
    },
) + [
    Bug(
        "bias.after_softmax",
        "the bias is added after the softmax, not to the scores",
        {
            "score": scoring(lambda s, bias, scale: s * scale),
            "mix": lambda w: w._replace(out=(w.weights + w.bias) @ w.v),
        },
    )
]


MASK_SIGNS: list[Bug] = signs(
    {
        "mask.meaning": 'the mask is {how}, where {expected} is expected (if that is meant, pass mask="{found}")',
        "mask.numbers": (
            "it cannot take a boolean mask, only one of numbers, such as (1 - mask) needs: mask.to(q.dtype) makes them"
        ),
        "mask.finite": (
            "minus infinity is a finite number such as -1e4: forbidden keys with larger scores get through, and in a fully"
            " masked row all do"
        ),
        "mask.leaks_if_low": (
            "minus infinity is a number that is not small enough (such as -1e4): where scores are lower, the mask leaks"
        ),
        "mask.after_normalised": (
            "the mask comes after the softmax, whose rows are then normalised again: beside a large forbidden score the"
            " allowed weights underflow to 0; set forbidden scores to -inf before it"
        ),
        "mask.forbidden_overflows": (
            "a large forbidden score overflows, and infinity times 0 is NaN: put -inf into the scores before the"
            " exponential"
        ),
        "mask.equal_weights": (
            "a fully masked row gets equal weights: minus infinity is a finite number such as -1e9"
        ),
        "mask.cut": (
            "large scores are cut off or rounded: the largest ALLOWED score of each row must be subtracted, not another"
        ),
        "mask.transposed_if_square": "the mask is transposed: queries and keys change places in it, where it is square",
        "mask.first_sentence": "every sentence gets the mask of the first one",
        "mask.last_sentence": "every sentence gets the mask of the last one",
        "mask.first_head": "every head gets the mask of the first one",
        "mask.axis": (
            "the mask is broadcast along the wrong axis: it is applied to another sentence, head or to queries"
        ),
        "mask.broadcast": "the mask does not broadcast to the scores: its axes are taken for others",
        "mask.padding": "padding reaches the contexts although it is masked",
        "mask.empty_nan": "a fully masked row gives NaN: the softmax of -inf alone is 0 / 0",
        "mask.empty_mean": (
            "a fully masked row gives the mean of the values: minus infinity is a finite number such as -1e9, and equal"
            " scores give equal weights"
        ),
        "mask.empty_gradient": (
            "a fully masked row gives NaN gradients: NaN is replaced after it arose, and its gradient is not"
        ),
        "mask.leaks_if_large": (
            "the future leaks when its scores are large: forbidden scores need minus infinity, before the softmax"
        ),
        "mask.length": "from query {query} on the future leaks: the causal mask has a length written into it",
    }
) + signs(
    {
        "mask.wrong": "the mask is not applied as it should be",
        "mask.nan": (
            "with a mask, queries that may see something get NaN: 0 · inf is NaN (mask * -inf? masked_fill!)"
        ),
        "mask.replaces_causal": (
            "the mask takes the place of the causal one: where it is given, the future is seen; join them with &"
        ),
        "mask.influence": (
            "a forbidden key with a large score has influence: forbidden scores need minus infinity, before the softmax"
        ),
        "mask.leaks": (
            "the future leaks: a context depends on what comes after it; the causal mask is missing, wrong, or comes after"
            " the softmax"
        ),
        "mask.some_weight": (
            "forbidden places keep some weight: their score is set to a number that is not small enough, or the mask is"
            " not applied"
        ),
        "mask.empty_something": "a fully masked row gives something, not zero",
        "mask.sums": "rows do not sum to 1: masked after the softmax, or normalised along another dimension",
        "mask.unknown": "its numbers are not softmax over the allowed places, and they fit no bug known here",
        "bias.wrong": "a bias is not added to the scores as it should be",
    },
    guess=True,
)
