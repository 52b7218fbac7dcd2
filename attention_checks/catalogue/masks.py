"""Masks that are ignored, inverted, off by one, or applied too late; biases that are scaled."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from attention_checks.catalogue.softmax import weighing
from attention_checks.explaining.pipeline import Bug, Step, bugs_of_lines, bugs_of_stage, scoring
from attention_nb.softmax import masked_softmax, softmax

_Change = Callable[[Tensor], Tensor]  # the right mask → the wrong one, boolean (b, h, n_q, n_k)


def allowing(f: _Change) -> Step:  # for the stage `mask`
    "Make a step that changes the mask."
    return lambda work: work._replace(allowed=f(work.allowed))


def _all(allowed: Tensor) -> Tensor:
    "Allow everything."
    return torch.ones_like(allowed)


def _without_key(j: int) -> _Change:
    "Forbid key `j`."
    return lambda allowed: allowed & (torch.arange(allowed.shape[-1]) != j % allowed.shape[-1])


def _causal(allowed: Tensor) -> Tensor:
    "Line up the last query with the last key."
    return _all(allowed).tril(allowed.shape[-1] - allowed.shape[-2])


def _window(n: int) -> _Change:
    "Let each query attend to itself and the `n - 1` tokens before it."
    return lambda allowed: allowed & _all(allowed).tril().triu(1 - n)


UNREQUESTED_MASKS: list[Bug] = bugs_of_stage(
    "mask",
    allowing,
    {
        "mask.drops_last_key": (
            "no query attends to the last key: a slice is off by one",
            _without_key(-1),
        ),
        "mask.drops_first_key": (
            "no query attends to the first key: a slice is off by one",
            _without_key(0),
        ),
        "mask.not_itself": (
            "a token does not attend to itself: the diagonal is masked (use diagonal=0)",
            lambda allowed: allowed & ~torch.eye(allowed.shape[-1], dtype=torch.bool),
        ),
        "mask.causal_unasked": (
            "a causal mask is applied, and none was asked for | causal=True",
            lambda allowed: allowed & _causal(allowed),
        ),
    },
)


WRONG_MASKS: list[Bug] = bugs_of_stage(
    "mask",
    allowing,
    {
        "mask.ignored": ("the mask is not applied: queries attend to masked keys", _all),
        "mask.inverted": (
            "the mask is inverted: True must mean may attend",
            lambda allowed: ~allowed,
        ),
        "mask.transposed": (
            "the mask is transposed: use (n_q, n_k); a causal mask needs tril, not triu",
            lambda allowed: allowed.mT,
        ),
        "mask.lower_right": (
            "the causal mask lines up the last query with the last key (the wrong corner)",
            _causal,
        ),
        "mask.upper_left": (
            "the causal mask lines up the first query with the first key (the wrong corner)",
            lambda allowed: _all(allowed).tril(),
        ),
        "mask.last_row": (
            "every query gets the mask of the last one: (n_q, n_k) is read as (1, n_k)",
            lambda allowed: allowed[..., -1:, :].expand_as(allowed),
        ),
        "mask.first_row": (
            "every query gets the mask of the first one: (n_q, n_k) is read as (1, n_k)",
            lambda allowed: allowed[..., :1, :].expand_as(allowed),
        ),
        "mask.sees_next": (
            "the mask is off by one: a query attends to the next token, which is the future",
            lambda allowed: allowed | _all(allowed).tril(1),
        ),
        "mask.first_key_open": (
            "every query attends to the first key, whatever the mask says",
            lambda allowed: allowed | (torch.arange(allowed.shape[-1]) == 0),
        ),
    },
    needs="mask",
)


WINDOW = Bug(
    "mask.window",
    "a query attends only to the {seen} tokens that end with itself: an undeclared window",
    needs="mask",
    declare="window={seen}",
)
_beside_another = {"mask": allowing(lambda allowed: allowed & _all(allowed).tril())}
WRONG_MASKS += [
    bug._replace(steps=_beside_another) for bug in WRONG_MASKS if bug.code == "mask.upper_left"
]
WRONG_MASKS += [WINDOW.about(seen=n)._replace(steps={"mask": allowing(_window(n))}) for n in (2, 3)]


def _moved(by: int) -> Callable[[Tensor], Tensor]:
    "Move the columns of a mask by one place, and let the last one that comes in be seen."
    seen = slice(0, 1) if by > 0 else slice(-1, None)

    def moved(allowed: Tensor) -> Tensor:
        columns = allowed.roll(by, -1)
        columns[..., seen] = True
        return columns

    return moved


_SHIFTED = Bug(
    "mask.shifted",
    "keys one place {where} those that it marks are masked: where keys are added or cut off, pad or"
    " cut the mask at the same end",
    needs="mask",
)
SHIFTED_MASKS: list[Bug] = [
    _SHIFTED.about(where=where)._replace(steps={"mask": allowing(_moved(by))})
    for where, by in (("after", 1), ("before", -1))
]


def _off_diagonal(fill: float) -> Callable[[Tensor, Tensor], Tensor]:
    "Mask the diagonal too; `fill` stands for minus infinity and shows where nothing is allowed."
    return lambda scores, allowed: scores.masked_fill(~allowed.tril(-1), fill).softmax(-1)


def _off_diagonal_but_first(scores: Tensor, allowed: Tensor) -> Tensor:
    "Mask the diagonal too, but for the first query."
    strict = allowed.tril(-1).clone()
    strict[..., 0, 0] = True
    return masked_softmax(scores, strict)


_NOT_ITSELF = "the mask is off by one: a query does not attend to its own position"
MASK_APPLICATIONS: list[Bug] = bugs_of_stage(
    "weigh",
    weighing,
    {
        "mask.after_softmax": (
            "the mask comes after the softmax, and weights do not sum to 1: mask the scores first",
            lambda scores, allowed: softmax(scores) * allowed,
        ),
        "mask.multiplied": (
            "the mask is multiplied with the scores: masked scores must be -inf, not 0",
            lambda scores, allowed: softmax(scores * allowed),
        ),
        "mask.added": (
            "the mask is added to the scores as 0 and 1: add 0 and -inf",
            lambda scores, allowed: softmax(scores + allowed),
        ),
        "mask.added_inverted": (
            "the mask is added to the scores as 1 where it masks: add -inf",
            lambda scores, allowed: softmax(scores + ~allowed),
        ),
        "mask.not_itself_nan": (f"{_NOT_ITSELF}; the first gets NaN", _off_diagonal(-math.inf)),
        "mask.not_itself_mean": (
            f"{_NOT_ITSELF}; the first gets the mean of all values",
            _off_diagonal(-1e9),
        ),
        "mask.not_itself_but_first": (
            f"{_NOT_ITSELF}, but for the first query",
            _off_diagonal_but_first,
        ),
    },
    needs="mask",
)


def _added_late(fill: float) -> Callable[[Tensor, Tensor], Tensor]:
    "Add minus infinity, or what stands for it, to the weights."
    return lambda scores, allowed: softmax(scores) + torch.zeros(()).where(allowed, fill)


MASKS_AFTER_SOFTMAX: list[Bug] = [
    bug for bug in MASK_APPLICATIONS if bug.code == "mask.after_softmax"
]
MASKS_AFTER_SOFTMAX += [
    Bug(
        "mask.after_softmax",
        f"the mask is added as {fill:.4g} to the weights, after the softmax: add it to the scores",
        {"weigh": weighing(_added_late(fill))},
        "mask",
    )
    for fill in (-math.inf, -1e9, -1e4, torch.finfo(torch.float32).min)
]


BIAS: list[Bug] = [
    *bugs_of_stage(
        "score",
        scoring,
        {
            "bias.scaled": (
                "the bias is scaled too: scale the scores first, then add the bias",
                lambda scores, bias, scale: (scores + bias) * scale,
            ),
            "bias.subtracted": (
                "the bias is subtracted, not added",
                lambda scores, bias, scale: scores * scale - bias,
            ),
            "bias.transposed": (
                "the bias is transposed: its last axes are (n_q, n_k)",
                lambda scores, bias, scale: scores * scale + (bias.mT if bias.ndim else bias),
            ),
            "bias.ignored": (
                "the bias is ignored where its numbers are finite",
                lambda scores, bias, scale: scores * scale,
            ),
            "bias.multiplied": (
                "the bias is multiplied with the scores, not added",
                lambda scores, bias, scale: scores * scale * bias,
            ),
        },
    ),
    Bug(
        "bias.after_softmax",
        "the bias is added after the softmax, not to the scores",
        {
            "score": scoring(lambda scores, bias, scale: scores * scale),
            "mix": lambda work: work._replace(out=(work.weights + work.bias) @ work.v),
        },
    ),
]


BUGS: list[Bug] = [
    *UNREQUESTED_MASKS,
    *WRONG_MASKS,
    *MASK_APPLICATIONS,
    *BIAS,
    WINDOW,
    _SHIFTED,
    *bugs_of_lines(
        """
mask.meaning: the mask is {how}, where {expected} is expected | mask="{found}"
mask.leaks_if_low: minus infinity is a number such as -1e4: where scores are lower, the mask
    leaks
mask.after_normalised: the mask comes after the softmax, and weights are normalised again:
    beside a large masked score allowed weights underflow to 0; set masked scores to -inf first
mask.equal_weights: where all keys are masked they get equal weights: minus infinity is finite,
    as -1e9
mask.axis: the mask is broadcast along the wrong axis (batch, heads or queries), or is transposed
    where it is square
mask.broadcast: the mask does not broadcast to the scores: its axes are mixed up
    | skip=["mask.broadcast"]
mask.padding: padding changes the contexts although it is masked
mask.empty_nan: a query that may attend to nothing gets NaN: the softmax of -inf alone is 0 / 0
    | empty="nan"
mask.empty_mean: a query that may attend to nothing gets the mean of the values: minus infinity
    is a finite number such as -1e9 | empty="any"
mask.empty_gradient: a query that may attend to nothing gives NaN gradients: NaN is replaced
    after the softmax, not avoided in it
mask.leaks_if_large: the future leaks when its scores are large: set them to -inf before the
    softmax
mask.length: from query {query} on the future leaks: the causal mask has a length written into
    it
~mask.wrong: the mask is not applied as it should be
~mask.nan: with a mask, queries that may attend to something get NaN: 0 · inf is NaN; masked_fill
~mask.replaces_causal: the mask replaces the causal one, and the future is seen: join them with &
~mask.influence: a masked key with a large score has influence: set it to -inf before the
    softmax; no finite number, such as -1e4, will do
~mask.leaks: a context depends on the future: the causal mask is missing, wrong or too late
~mask.some_weight: masked keys keep some weight: set their scores to -inf before the softmax
~mask.empty_something: a query that may attend to nothing gets something, not zero | empty="any"
~mask.sums: weights do not sum to 1: masked after the softmax, or normalised along the wrong axis
~mask.unknown: it is no softmax of the allowed keys, and no known bug gives its numbers
~bias.wrong: the bias is not added to the scores as it should be
~bias.undeclared: a number for each query and key is added to the scores, as ALiBi does | bias=…
"""
    ),
]


# Queries are masked, not keys: where all is masked they attend to nothing, or to all keys alike.
MASKS_ON_QUERIES: list[Bug] = [
    bug._replace(needs="mask", steps={"weigh": weighing(f)})
    for bug in BUGS
    if bug.code == "mask.axis"
    for f in (
        lambda scores, allowed: masked_softmax(scores, allowed.mT),
        lambda scores, allowed: scores.masked_fill(~allowed.mT, -math.inf).softmax(-1),
        lambda scores, allowed: scores.masked_fill(~allowed.mT, -1e9).softmax(-1),
    )
]
