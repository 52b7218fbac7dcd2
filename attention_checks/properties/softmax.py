"""What every softmax must do, plain or masked, and how each property is tried."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor

from attention_checks.catalogue import known
from attention_checks.catalogue.masks import MASK_APPLICATIONS, UNREQUESTED_MASKS, WRONG_MASKS
from attention_checks.catalogue.softmax import WEIGHTS, softmax_bugs
from attention_checks.explaining.fitting import fitted_dtype, fitted_epsilon
from attention_checks.explaining.pipeline import STAGES, Bug, Step, Work
from attention_checks.explaining.search import Case, explain
from attention_checks.numbers.tensors import (
    first_difference,
    must_be_near,
    must_be_tensor,
    must_run,
    nearly,
    numbers_of,
    some_mask,
)
from attention_checks.numbers.tolerance import FLOAT32, LONG_SUMS, SHORT_SUMS, tolerance_factor
from attention_checks.outcomes import Broken, NotChecked, broken_by, first_line, runs
from attention_checks.properties import Properties, Property, Recognise, bound, must_agree
from attention_checks.properties.gradients import must_match_gradients
from attention_checks.properties.numerics import must_be_finite, must_hold_in_half
from attention_checks.properties.state import must_only_read, must_repeat
from attention_checks.spec import Contract
from attention_checks.their_code.signatures import POSITIONAL, parameters_of
from attention_nb.softmax import masked_softmax

_STAGES: dict[str, Step] = {
    "mask": STAGES["mask"],
    "weigh": STAGES["weigh"],
    "mix": lambda work: work._replace(out=work.weights),
}


class _Inputs(NamedTuple):
    "What a softmax is called with."

    scores: Tensor
    mask: Tensor  # boolean, True = may attend, of the shape of the scores; all True for a plain one
    dim: int = -1

    def __str__(self) -> str:
        "Return the scores if they are few, else their shape."
        if self.scores.numel() <= 4:
            return f"{numbers_of(x=self.scores)}, dim={self.dim}"
        return f"shape {tuple(self.scores.shape)}, dim={self.dim}"


def _drawn(*shape: int, seed: int = 0) -> Tensor:
    "Draw scores."
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)) * 2


def takes_dim(fn: Callable[..., Any]) -> bool:  # True: it is called as fn(x, dim)
    "Return whether the second argument of a function is a dimension."
    parameters = parameters_of(fn)
    if parameters is None:  # a built-in function, such as torch.softmax, has no signature
        return runs(lambda: fn(_drawn(2, 3), 0))
    positional = [p for p in parameters.values() if p.kind in POSITIONAL]
    if len(positional) < 2:
        return False
    second = positional[1]
    return second.name in ("dim", "axis", "dims", "d") or second.default is second.empty


@dataclass(frozen=True)
class Softmax:
    "The function under test: fn(x), fn(x, dim) or, if it is masked, fn(scores, mask)."

    fn: Callable[..., Any]
    masked: bool
    contract: Contract

    def properties(self) -> tuple[Properties, Recognise]:
        "List what every softmax must do, and what names the bug if one fails."
        rows = _MASKED if self.masked else _PLAIN
        return bound(rows, lambda: self), lambda: _likely_bugs(self)

    def __call__(self, scores: Tensor, mask: Tensor | None = None, dim: int = -1) -> Tensor:
        "Call it as its signature says; without a mask, all is allowed."
        if self.masked:
            allowed = torch.ones_like(scores, dtype=torch.bool) if mask is None else mask.clone()
            weights = self.placed(scores, allowed)
        elif self.takes_dim:
            weights = self.placed(scores, dim)
        else:
            weights = self.placed(scores)
        must_be_tensor(weights)
        if weights.shape != scores.shape:
            shown = f"shape {tuple(scores.shape)}: it gives shape {tuple(weights.shape)}"
            raise Broken(shown, known("softmax.shape"))
        return weights

    @property
    def placed(self) -> Callable[..., Any]:
        "Return the function, called in the declared type."
        return self.contract.placement.around(self.fn)

    @cached_property
    def takes_dim(self) -> bool:
        "Return whether it is called with a dimension."
        return takes_dim(self.fn)

    def drawn(self, *shape: int, dim: int = -1, seed: int = 0) -> _Inputs:
        "Draw scores, and a mask if it takes one."
        scores = _drawn(*shape, seed=seed)
        if self.masked:
            return _Inputs(scores, some_mask(*shape[-2:]).expand(shape).clone())
        return _Inputs(scores, torch.ones(shape, dtype=torch.bool), dim)

    def inputs(self, seed: int = 0) -> dict[str, Tensor]:
        "Draw scores, and a mask if it takes one; with another seed, a mask of all else."
        scores, mask, _ = self.drawn(2, 3, 5, 7, seed=seed)
        return {"scores": scores, "mask": ~mask if seed else mask} if self.masked else {"x": scores}

    raw_inputs = inputs

    def on_these(self, scores: Tensor, *mask: Tensor) -> Tensor:
        "Call it with these very tensors."
        return self.placed(scores, *mask) if self.masked else self(scores)

    def reference(self, scores: Tensor, mask: Tensor | None = None) -> Tensor:
        "Return the right weights."
        return masked_softmax(
            scores, torch.ones_like(scores, dtype=torch.bool) if mask is None else mask
        )

    @property
    def usual(self) -> _Inputs:
        "Inputs of lengths that all differ."
        return self.drawn(2, 3, 5, 7)

    @cached_property
    def trials(self) -> list[_Inputs]:
        "Shapes and dimensions to try, small ones first; square ones hide what is broadcast."
        if self.masked:
            one, usual = self.drawn(2, 3, 5, 1), self.drawn(2, 3, 5, 7)
            return [one, usual, usual._replace(mask=torch.ones_like(usual.mask))]
        shapes = [(2,), (1,), (7,), (3, 5), (2, 3, 5), (4, 4), (2, 4, 4)]
        dims: Callable[[int], range] = lambda n: range(-n, n) if self.takes_dim else range(-1, 0)
        return [self.drawn(*shape, dim=dim) for shape in shapes for dim in dims(len(shape))]

    @cached_property
    def mismatch(self) -> Broken | None:
        "How its numbers differ from the right ones."
        return broken_by(lambda: _must_be_right(self))

    @cached_property
    def sound(self) -> bool:
        "Return whether ordinary scores give right weights."
        return self.mismatch is None and broken_by(lambda: _must_sum_to_one(self)) is None

    @cached_property
    def overflow(self) -> Broken | None:
        "How large scores fail."
        return broken_by(lambda: _must_stand_shifts(self))

    def must_be_right(self, inputs: _Inputs, shown: str, code: str, atol: float = FLOAT32) -> None:
        "Raise Broken unless these weights are right; if ordinary ones are not, nothing follows."
        if not self.sound:
            return
        place = self.contract.placement
        given = inputs._replace(scores=place.back(place.to(inputs.scores)))  # rounded, in 16 bits
        must_be_near(self(*inputs), masked_softmax(*given), shown, known(code), atol)


def _must_keep_shape(subject: Softmax) -> None:
    "It runs, and keeps the shape of its input."
    for inputs in subject.trials:
        try:
            subject(*inputs)
        except RuntimeError as e:
            only_square = "must match" in str(e) and runs(lambda: subject(_drawn(4, 4)))
            if subject.masked or not only_square:
                raise
            shown = f"{inputs}: it raised {first_line(e)}"
            raise Broken(shown, known("softmax.only_square")) from None


def _must_be_right(subject: Softmax) -> None:
    "Raise Broken if ordinary scores give wrong weights."
    for inputs in subject.trials:
        got, want = subject(*inputs), masked_softmax(*inputs)
        if not got.isfinite().all():  # all else would be a guess
            shown = f"{inputs}: {first_difference(got, want, SHORT_SUMS)}"
            raise Broken(shown, known("values.nan"), symptom=True, last=True)
        unknown = known("mask.unknown" if subject.masked else "softmax.unknown")
        must_be_near(got, want, f"{inputs}", unknown, SHORT_SUMS)


def _must_sum_to_one(subject: Softmax) -> None:
    "Raise Broken unless weights are not negative, 0 where forbidden, and sum to 1."
    for inputs in subject.trials:
        weights = subject(*inputs)
        forbidden = weights[~inputs.mask]
        if (forbidden != 0).any():
            largest = f"{inputs}: the largest forbidden weight is {forbidden.abs().max():.4g}"
            raise Broken(largest, known("mask.some_weight"))
        if (weights < 0).any():
            smallest = f"{inputs}: the smallest weight is {weights.min():.4g}"
            raise Broken(smallest, known("weights.negative"))
        total = weights.sum(inputs.dim)
        # float32 gives 1e-6; an epsilon of 1e-5 shows
        rounding = torch.finfo(subject.contract.placement.dtype or torch.float32).eps
        if not (total - 1).abs().max() <= max(5e-6 * tolerance_factor(), rounding):
            shown = f"{inputs}: sums are {total.min():.6g} … {total.max():.6g}"
            raise Broken(shown, known("mask.sums" if subject.masked else "weights.sums"))


def _must_stand_shifts(subject: Softmax) -> None:
    "Raise Broken if scores around ±10⁴ are not finite, or wrong."
    overflows = known("softmax.overflows")
    few, usual = torch.tensor([1e4, 0.0, -1e4]), subject.usual
    must_be_finite(subject, {"x": few}, numbers_of(x=few), lambda: overflows)
    for shift in (1e4, -1e4):
        inputs, shown = usual._replace(scores=usual.scores + shift), f"scores around {shift:g}"
        weights = must_be_finite(
            lambda x: subject(x, usual.mask), {"scores": inputs.scores}, shown, lambda: overflows
        )
        forbidden = weights[~usual.mask]
        if (forbidden != 0).any():
            shown = f"allowed {shown}: a forbidden weight is {forbidden.max():.4g}"
            raise Broken(shown, known("mask.leaks_if_low"), symptom=not subject.sound)
        subject.must_be_right(inputs, shown, "softmax.cut")


def _must_stand_large_scores(subject: Softmax) -> None:
    "Scores of ±10⁴ give finite values and gradients."
    if subject.overflow:
        raise subject.overflow.with_traceback(None)
    for shown, scores in _one_large_score():
        allowed = torch.ones_like(scores, dtype=torch.bool)
        subject.must_be_right(_Inputs(scores, allowed), shown, "softmax.part_maximum")


def _one_large_score() -> Iterator[tuple[str, Tensor]]:
    "Yield scores of which one is large: last, in the middle, first; few, and several blocks."
    for n in (4, 131):
        for i in (n - 1, n // 2, 0):
            scores = torch.zeros(n)
            scores[i] = 1e4
            yield f"{n} numbers, all 0 but x[{i}] = 10000", scores


def _must_take_each_maximum(subject: Softmax) -> None:
    "Rows of very different size do not disturb each other."
    if subject.overflow:
        raise NotChecked("large scores already fail")
    rows = torch.tensor([[0.0, 1.0, 2.0], [-60.0, -59.0, -58.0], [60.0, 59.0, 58.0]])
    allowed = torch.ones_like(rows, dtype=torch.bool)
    trials = [_Inputs(rows, allowed)]
    if subject.takes_dim and not subject.masked:
        trials.append(_Inputs(rows.T, allowed, 0))
    for inputs in trials:
        subject.must_be_right(
            inputs, f"rows around 0, -60 and 60, dim={inputs.dim}", "softmax.whole_maximum"
        )


def _must_stand_sixteen_bits(subject: Softmax) -> None:
    "Float16 and bfloat16 give finite, nearly equal values of their type."
    for scores in (torch.full((1, 3000), 3.0), _drawn(2, 5) + 9):
        must_hold_in_half(subject, [scores], "x", {torch.float16: 2e-2})
    scores, mask, _ = subject.usual
    atols = {torch.float16: 4e-3, torch.bfloat16: 2e-2}
    must_hold_in_half(subject, [scores, mask], "scores" if subject.masked else "x", atols)


def _must_hide(subject: Softmax) -> None:
    "Masked scores do not matter."
    scores, mask, _ = subject.usual
    before = subject(scores, mask)
    for number in (100.0, 1e4, -1e4):
        got = subject(scores.masked_fill(~mask, number), mask)
        shown, bug = f"masked scores of {number:g}", known("mask.influence")
        must_be_near(got, before, shown, bug, SHORT_SUMS, symptom=not subject.sound)


def _must_broadcast(subject: Softmax) -> None:
    "A mask may differ between sequences, and broadcast."
    rng = torch.Generator().manual_seed(6)
    for shape in ((7,), (5, 7), (2, 1, 1, 7), (2, 1, 5, 7), (3, 1, 7), (5, 5), (2, 3, 5, 5)):
        scores = _drawn(2, 3, 5, shape[-1])
        mask = torch.rand(shape, generator=rng) < 0.6
        mask[..., 0] = True
        shown = f"a mask of shape {shape} for scores {tuple(scores.shape)}"
        must_run(lambda: subject(scores, mask), shown, lambda: known("mask.broadcast"))
        subject.must_be_right(_Inputs(scores, mask), shown, "mask.axis", SHORT_SUMS)


def _must_give_zero(subject: Softmax) -> None:
    "Fully masked rows are zero, with finite gradients."
    scores, mask, _ = subject.usual
    mask[:, :, 1] = False
    scores.requires_grad_()
    weights = subject(scores, mask)
    row = weights.detach()[:, :, 1]
    if not row.isfinite().all():
        raise Broken("a row with nothing allowed: NaN", known("mask.empty_nan"))
    if (row != 0).any():
        equal = nearly(row, torch.full_like(row, 1 / row.shape[-1]), LONG_SUMS)
        bug = known("mask.equal_weights" if equal else "mask.empty_something")
        numbers = [round(x, 3) for x in row[0, 0].tolist()]
        shown = f"a row with nothing allowed: weights {numbers}, expected zeros"
        raise Broken(shown, bug, symptom=not subject.sound and not equal)
    if not weights.requires_grad:
        return
    if not torch.autograd.grad(weights.square().sum(), scores)[0].isfinite().all():
        shown = "a row with nothing allowed: the gradient is NaN"
        raise Broken(shown, known("mask.empty_gradient"))


_RUNS = Property.of(_must_keep_shape)
_REPEATS = Property("the same inputs give the same result", must_repeat)
_NUMERICS = (Property.of(_must_stand_large_scores), Property.of(_must_take_each_maximum))
_LAST = (
    Property.of(_must_stand_sixteen_bits, sixteen_bits=True),
    Property("inputs are not modified, and need not be contiguous", must_only_read),
)
_PLAIN = (
    _RUNS,
    _REPEATS,
    Property("it is exp(x) / Σ exp(x), along every dim", must_agree, compares="the definition"),
    Property("weights are not negative, and sum to 1", _must_sum_to_one),
    Property("gradients are those of softmax", must_match_gradients(FLOAT32), differentiates=True),
    *_NUMERICS,
    *_LAST,
)
_MASKED = (
    _RUNS,
    _REPEATS,
    Property("it is softmax over the allowed scores", must_agree, compares="the definition"),
    Property("forbidden weights are exactly 0, the others of a row sum to 1", _must_sum_to_one),
    Property.of(_must_hide),
    *_NUMERICS,
    Property.of(_must_broadcast),
    Property.of(_must_give_zero, symptom_unless=("sound",)),
    Property(
        "gradients are those of softmax over the allowed scores",
        must_match_gradients(FLOAT32),
        differentiates=True,
    ),
    *_LAST,
)


def _likely_bugs(subject: Softmax) -> tuple[Bug, ...] | None:
    "Name the bug by its numbers, in large inputs first; most people count dimensions from the end."
    large = [inputs for inputs in reversed(subject.trials) if inputs.scores.numel() > 4]
    if subject.masked:
        large = [subject.usual]
    for inputs in sorted(large, key=lambda inputs: inputs.dim >= 0):
        scores, mask, dim = inputs
        bugs = softmax_bugs(scores.ndim, dim)
        if subject.masked:
            bugs = [*WRONG_MASKS, *MASK_APPLICATIONS, *WEIGHTS, *UNREQUESTED_MASKS]
        work = Work(
            scores=scores.movedim(dim, -1), allowed=mask.movedim(dim, -1), masked=subject.masked
        )
        weights = subject(*inputs).detach().movedim(dim, -1)
        bug = explain([Case(work, weights, SHORT_SUMS, _STAGES)], bugs, 1)
        if bug:
            return bug
    scores, mask, _ = subject.usual
    weights = subject(scores, mask)
    hidden = scores.masked_fill(~mask, -math.inf)
    measured = fitted_epsilon(weights, hidden) or fitted_dtype(weights)
    return (measured,) if measured else None
