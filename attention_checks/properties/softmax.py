"""What every softmax must do, plain or masked, and how each property is tried."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from attention_checks.catalogue import known
from attention_checks.catalogue.masks import APPLIED, UNASKED, WRONG
from attention_checks.catalogue.softmax import (
    WEIGHTS,
    name_added,
    name_rounded,
    softmax_bugs,
)
from attention_checks.examine import Broken, NotChecked, attempt, first_line
from attention_checks.numbers import (
    first_difference,
    must_be_tensor,
    must_repeat,
    nearly,
    numbers_of,
    some_mask,
)
from attention_checks.pipeline import STAGES, Bug, Step, Work
from attention_checks.properties import (
    Properties,
    Relation,
    listed,
    must_agree,
    must_be_finite,
    must_have_gradients,
    must_hold_in_half,
    must_leave_alone,
    must_not_mind_strides,
    outcome,
)
from attention_checks.search import Case, explain
from attention_checks.signatures import parameters_of

_WEIGHED: dict[str, Step] = {
    "mask": STAGES["mask"],
    "weigh": STAGES["weigh"],
    "mix": lambda w: w._replace(out=w.weights),
}


def _must_fit(out: Any, x: Tensor) -> Tensor:
    "Raise Broken for anything but a tensor of the same shape."
    must_be_tensor(out)
    if out.shape != x.shape:
        raise Broken(
            f"shape {tuple(x.shape)}: it gives shape {tuple(out.shape)}", known("softmax.shape")
        )
    return out


def _row(*shape: int, seed: int = 0) -> Tensor:
    "Random scores."
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)) * 2


def _shown(x: Tensor) -> str:
    "Its numbers, to four digits."
    return str([float(f"{number:.4g}") for number in x.detach().flatten().tolist()])


def _peaks() -> Iterator[tuple[str, Tensor]]:
    "Rows with one large number: last, in the middle, first; short ones, and some of several blocks."
    for n in (4, 131):
        for place in (n - 1, n // 2, 0):
            x = torch.zeros(n)
            x[place] = 1e4
            yield numbers_of(x=x) if n == 4 else f"{n} numbers, all 0 but x[{place}] = 10000", x


@dataclass(frozen=True)
class _Softmax:
    "The function under test, called with or without `dim`."

    fn: Callable[..., Any]

    def __call__(self, x: Tensor, dim: int = -1) -> Tensor:
        return _must_fit(self.fn(x, dim) if self.takes_dim else self.fn(x), x)

    @cached_property
    def takes_dim(self) -> bool:
        return _takes_dim(self.fn)

    @cached_property
    def dims(self) -> list[tuple[tuple[int, ...], int]]:
        "Shapes and dimensions to try."
        shapes = [(7,), (3, 5), (2, 3, 5), (4, 4), (2, 4, 4)]  # square ones hide what is broadcast
        return [
            (s, d) for s in shapes for d in (range(-len(s), len(s)) if self.takes_dim else (-1,))
        ]

    @cached_property
    def mismatch(self) -> Broken | None:
        "How its numbers differ from exp(x) / Σ exp(x)."
        return outcome(lambda: _agrees(self))

    @cached_property
    def sound(self) -> bool:
        "Whether ordinary numbers give right weights."
        return self.mismatch is None and outcome(lambda: _sums(self)) is None

    @cached_property
    def large(self) -> Broken | None:
        "How large numbers fail."
        return outcome(lambda: _large_rows(self))


def _takes_dim(fn: Callable[..., Any]) -> bool:
    "Whether a function takes a second argument, the dimension."
    parameters = parameters_of(fn)
    if parameters is None:  # a built-in function, such as torch.softmax, does not tell
        return attempt(lambda: fn(_row(2, 3), 0)) is not None
    positional = [
        p for p in parameters.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]
    named = len(positional) > 1 and positional[1].name in ("dim", "axis", "dims", "d")
    return named or len(positional) > 1 and positional[1].default is positional[1].empty


def softmax_properties(
    fn: Callable[..., Any],  # fn(x), over the last dimension, or fn(x, dim)
) -> tuple[
    Properties, Callable[[], tuple[Bug, ...] | None]
]:  # the properties, and what names the bug if one fails
    "List what every softmax must do, in the order of trying."
    s = _Softmax(fn)
    return listed(_RELATIONS, lambda: s), lambda: _softmax_bug(s)


def _runs(s: _Softmax) -> None:
    for shape, dim in s.dims:
        try:
            s(_row(*shape), dim)
        except RuntimeError as e:
            if "must match" not in str(e) or attempt(lambda: s(_row(4, 4))) is None:
                raise
            raise Broken(
                f"x {shape}, dim={dim}: it raised {first_line(e)}", known("softmax.only_square")
            ) from None


def _agrees(s: _Softmax) -> None:
    for shape, dim in s.dims:
        if not nearly(got := s(_row(*shape), dim), torch.softmax(_row(*shape), dim), 1e-5):
            raise _wrong(got, _smallest(s, shape, dim), "softmax.unknown")


def _wrong(got: Tensor, shown: str, code: str) -> Broken:
    "Numbers that are not the expected ones, by their code; of those that are not finite only that: all else would be a guess."
    if got.isfinite().all():
        return Broken(shown, known(code))
    return Broken(shown, known("values.nan"), symptom=True, last=True)


def _smallest(s: _Softmax, shape: tuple[int, ...], dim: int) -> str:
    "A small example of numbers that differ, or the one that was found."
    sizes = [(2,), (3,)] if len(shape) == 1 else [(2, 2), (2, 3), (2, 2, 2)][: len(shape)]
    for small in (*sizes, shape):
        x, d = _row(*small), dim if -len(small) <= dim < len(small) else -1
        got, want = s(x, d), torch.softmax(x, d)
        if not nearly(got, want, 1e-5):
            break
    return (
        f"{numbers_of(x=x)}, shape {tuple(x.shape)}, dim={d}: {first_difference(got, want, 1e-5)}"
    )


def _softmax_bug(s: _Softmax) -> tuple[Bug, ...] | None:
    for shape, dim in sorted(
        reversed(s.dims), key=lambda at: at[1] >= 0
    ):  # dim=-1 is what most people write
        x = _row(*shape)
        got, allowed = s(x, dim).detach(), torch.ones_like(x, dtype=torch.bool)
        work = Work(scores=x.movedim(dim, -1), allowed=allowed.movedim(dim, -1))
        if found := explain(
            [Case(work, got.movedim(dim, -1), 1e-5, _WEIGHED)], softmax_bugs(x.ndim, dim), 1
        ):
            return found
    x = _row(3, 5)
    measured = name_added(s(x), x) or name_rounded(s(x))
    return (measured,) if measured else None


def _sums(s: _Softmax) -> None:
    for shape, dim in s.dims:
        w = s(_row(*shape), dim)
        if (w < 0).any():
            raise Broken(
                f"shape {shape}: the smallest weight is {w.min():.4g}", known("weights.negative")
            )
        total = w.sum(dim)
        if not (total - 1).abs().max() <= 5e-6:  # float32 gives 1e-6; an epsilon of 1e-5 shows
            shown = f"shape {shape}, dim={dim}: sums are {total.min():.6g} … {total.max():.6g}"
            raise Broken(shown, known("weights.sums"))


def _large_rows(s: _Softmax) -> None:
    for row in ([1e4, 0.0, -1e4], [1e4, 1e4 - 1], [-1e4, -1e4 - 1], [100.0, 101.0, 99.0]):
        x = torch.tensor(row)
        w = must_be_finite(s, {"x": x}, numbers_of(x=x), lambda: known("softmax.overflows"))
        if s.sound and not nearly(w, want := torch.softmax(x, -1), 1e-4):
            shown = f"{numbers_of(x=x)}: {first_difference(w, want, 1e-4)}"
            raise Broken(shown, known("softmax.cut_or_epsilon"))


def _large(s: _Softmax) -> None:
    if s.large:
        raise s.large
    for shown, x in _peaks():
        if s.sound and not nearly(s(x), want := torch.softmax(x, -1), 1e-4):
            raise Broken(
                f"{shown}: {first_difference(s(x), want, 1e-4)}", known("softmax.part_maximum")
            )


def _rows(s: _Softmax) -> None:
    x = torch.tensor([[0.0, 1.0, 2.0], [-60.0, -59.0, -58.0], [60.0, 59.0, 58.0]])
    for dim, rows in ((-1, x), (0, x.T)) if s.takes_dim else ((-1, x),):
        w = s(rows, dim)
        right = not (s.sound and not s.large) or nearly(w, torch.softmax(rows, dim), 1e-4)
        if not w.isfinite().all() or not right:
            shown = f"rows around 0, -60 and 60, dim={dim}: row sums are {_shown(w.sum(dim))}"
            raise Broken(shown, known("softmax.whole_maximum"))


def _infinity(s: _Softmax) -> None:
    x = torch.tensor([[0.5, -math.inf, 1.0]])
    w = s(x)
    if s(torch.tensor([[-math.inf, 1.0]])).isnan().any() and w.isfinite().all():
        raise NotChecked("a row that begins with -inf gives NaN")
    if not w.isfinite().all() or (w[x.isinf()] != 0).any():
        raise Broken(f"{numbers_of(x=x)}: it gives {_shown(w)}", known("softmax.infinity"))


def _one(s: _Softmax) -> None:
    for x in (torch.tensor([3.0]), torch.tensor([[3.0], [-2.0]]), torch.tensor([[3.0, 1.0]])):
        w = s(x)
        if s.sound and not s.large and not nearly(w, torch.softmax(x, -1), 1e-5):
            raise Broken(f"shape {tuple(x.shape)}: it gives {_shown(w)}", known("softmax.one"))


def _half(s: _Softmax) -> None:
    codes = ("softmax.loses", "softmax.loses")
    for x in (_row(3, 5), torch.full((1, 3000), 3.0), _row(2, 5) + 9):
        must_hold_in_half(s, [x], "x", {torch.float16: 2e-2}, codes)
    must_hold_in_half(s, [_row(3, 5)], "x", {torch.bfloat16: 5e-2}, codes)


def _untouched(s: _Softmax) -> None:
    must_leave_alone(s, {"x": _row(3, 5)})
    must_not_mind_strides(s, _row(3, 5))


_RELATIONS = (
    Relation("it runs, and keeps the shape of x", _runs),
    Relation(
        "the same inputs give the same answer",
        lambda s: must_repeat(lambda: s(_row(3, 5)), lambda: s(_row(3, 5, seed=1))),
    ),
    Relation(
        "it agrees with exp(x) / Σ exp(x), along every dim", must_agree, compares="the definition"
    ),
    Relation("weights are not negative, and sum to 1", _sums),
    Relation(
        "gradients are those of softmax",
        lambda s: must_have_gradients(
            s, lambda x: torch.softmax(x, -1), {"x": _row(3, 5)}, s.sound, 1e-4
        ),
    ),
    Relation("numbers of ±10⁴ give finite values and gradients", _large),
    Relation("rows of very different size do not disturb each other", _rows),
    Relation("-inf gets the weight 0", _infinity),
    Relation("one number gets the weight 1", _one),
    Relation("float16 and bfloat16 give finite, nearly equal values of their type", _half),
    Relation("x is not modified, and need not be contiguous", _untouched),
)


@dataclass(frozen=True)
class _MaskedSoftmax:
    "The function under test."

    fn: Callable[..., Any]

    def __call__(self, scores: Tensor, mask: Tensor) -> Tensor:
        return _must_fit(
            self.fn(scores, mask.clone()), scores
        )  # what one call does to a mask must not spoil the next

    @cached_property
    def mismatch(self) -> Broken | None:
        "How its numbers differ from softmax over the allowed places."
        return outcome(lambda: _agrees_masked(self))

    @cached_property
    def sound(self) -> bool:
        "Whether ordinary scores give right weights."
        return self.mismatch is None and outcome(lambda: _zero(self)) is None


def _oracle(scores: Tensor, mask: Tensor) -> Tensor:
    "Softmax over the allowed places, row by row, in loops."
    full, flat = (
        mask.expand(scores.shape).reshape(-1, scores.shape[-1]),
        scores.reshape(-1, scores.shape[-1]),
    )
    rows = []
    for row, ok in zip(flat, full):
        w = torch.zeros_like(row)
        rows.append(w.masked_scatter(ok, torch.softmax(row[ok], -1)) if ok.any() else w)
    return torch.stack(rows).view_as(scores)


def _draw(n_q: int = 5, n_k: int = 7, seed: int = 0) -> tuple[Tensor, Tensor]:
    "Scores, and a mask of their shape."
    scores = _row(2, 3, n_q, n_k, seed=seed)
    return scores, some_mask(n_q, n_k).expand(scores.shape).clone()


def masked_softmax_properties(
    fn: Callable[
        ..., Any
    ],  # fn(scores, mask), over the last dimension; mask boolean, True = may attend
) -> tuple[
    Properties, Callable[[], tuple[Bug, ...] | None]
]:  # the properties, and what names the bug if one fails
    "List what every masked softmax must do, in the order of trying."
    m = _MaskedSoftmax(fn)
    return listed(_MASKED_RELATIONS, lambda: m), lambda: _masked_bug(m)


def _runs_masked(m: _MaskedSoftmax) -> None:
    m(*_draw())


def _agrees_masked(m: _MaskedSoftmax) -> None:
    scores, mask = _draw()
    got, want = m(scores, mask), _oracle(scores, mask)
    if not nearly(got, want, 1e-5):
        small = attempt(lambda: m(torch.tensor([[1.0, 2.0]]), torch.tensor([[True, False]])))
        shown = f"scores {tuple(scores.shape)}: {first_difference(got, want, 1e-5)}"
        if small is not None:
            shown = (
                f"scores [1, 2], mask [True, False]: it gives {_shown(small[0])}, expected [1, 0]"
            )
        raise _wrong(got, shown, "mask.unknown")


def _masked_bug(m: _MaskedSoftmax) -> tuple[Bug, ...] | None:
    for n_q, n_k in ((5, 7), (5, 5)):
        scores, mask = _draw(n_q, n_k)
        mask = mask if n_q != n_k else mask.tril() | torch.eye(n_q, dtype=torch.bool)
        case = Case(
            Work(scores=scores, allowed=mask, masked=True), m(scores, mask).detach(), 1e-5, _WEIGHED
        )
        if found := explain([case], [*WRONG, *APPLIED, *WEIGHTS, *UNASKED], 1):
            return found
    scores, mask = _draw()
    measured = name_added(m(scores, mask), scores.masked_fill(~mask, -math.inf)) or name_rounded(
        m(scores, mask)
    )
    return (measured,) if measured else None


def _zero(m: _MaskedSoftmax) -> None:
    scores, mask = _draw()
    w = m(scores, mask)
    if (w[~mask] != 0).any():
        raise Broken(
            f"the largest forbidden weight is {w[~mask].abs().max():.4g}", known("mask.some_weight")
        )
    total = w.sum(-1)
    if (total - 1).abs().max() > 2e-5:
        raise Broken(f"rows sum to {total.min():.6g} … {total.max():.6g}", known("mask.sums"))


def _all_allowed(m: _MaskedSoftmax) -> None:
    scores, mask = _draw()
    got, want = m(scores, torch.ones_like(mask)), torch.softmax(scores, -1)
    if not nearly(got, want, 1e-5):
        raise Broken(f"all allowed: {first_difference(got, want, 1e-5)}", known("mask.all_allowed"))


def _hidden(m: _MaskedSoftmax) -> None:
    scores, mask = _draw()
    before = m(scores, mask)
    for number in (100.0, 1e4, -1e4):
        got, code = m(scores.masked_fill(~mask, number), mask), "mask.influence"
        if not nearly(got, before, 1e-5):
            if m.sound and number == 100 and not got.isfinite().all():
                code = "mask.forbidden_overflows"
            elif m.sound and number == 100 and got[mask].max() < 1e-6:
                code = "mask.after_normalised"
            shown = f"forbidden scores of {number:g}: {first_difference(got, before, 1e-5)}"
            raise Broken(shown, known(code), symptom=not m.sound)


def _large_masked(m: _MaskedSoftmax) -> None:
    for shift in (1e4, -1e4):
        scores, mask = _draw()
        x, shown = scores + shift, f"scores around {shift:g}"
        w = must_be_finite(
            lambda x: m(x, mask), {"scores": x}, shown, lambda: known("softmax.overflows")
        )
        if (w[~mask] != 0).any():
            shown = f"allowed {shown}: a forbidden weight is {w[~mask].max():.4g}"
            raise Broken(shown, known("mask.leaks_if_low"), symptom=not m.sound)
        if m.sound and not nearly(w, want := _oracle(x, mask), 1e-4):
            raise Broken(f"{shown}: {first_difference(w, want, 1e-4)}", known("mask.cut"))
    x = scores.masked_fill(~mask, 1e3)
    if m.sound and not nearly(m(x, mask), _oracle(x, mask), 1e-5):
        raise Broken(
            "forbidden scores of 1000: the allowed weights vanish", known("mask.forbidden_maximum")
        )
    for shown, row in _peaks():
        x = row.expand(2, 3, 5, -1).clone()
        if m.sound and not nearly(w := m(x, x > -1), want := torch.softmax(x, -1), 1e-4):
            raise Broken(
                f"{shown}, all allowed: {first_difference(w, want, 1e-4)}",
                known("softmax.part_maximum"),
            )


def _broadcast(m: _MaskedSoftmax) -> None:
    rng = torch.Generator().manual_seed(6)
    for shape in ((7,), (5, 7), (2, 1, 1, 7), (2, 1, 5, 7), (3, 1, 7), (5, 5), (2, 3, 5, 5)):
        scores = _row(2, 3, 5, shape[-1])
        mask = torch.rand(shape, generator=rng) < 0.6
        mask[..., 0] = True
        try:
            got = m(scores, mask)
        except Broken:
            raise
        except Exception as e:
            shown = f"a mask of shape {shape} for scores {tuple(scores.shape)}: it raised {first_line(e, 100)}"
            raise Broken(shown, known("mask.broadcast")) from None
        if m.sound and not nearly(got, want := _oracle(scores, mask), 1e-5):
            first = nearly(got, _oracle(scores, mask[:1]), 1e-5)
            shown = f"a mask of shape {shape}: {first_difference(got, want, 1e-5)}"
            raise Broken(shown, known("mask.first_sentence" if first else "mask.axis"))


def _empty(m: _MaskedSoftmax) -> None:
    scores, mask = _draw()
    mask[:, :, 1] = False
    x = scores.clone().requires_grad_()
    w = m(x, mask)
    row = w.detach()[:, :, 1]
    if not row.isfinite().all():
        raise Broken("a row with nothing allowed: NaN", known("mask.empty_nan"))
    if (row != 0).any():
        same = nearly(row, torch.full_like(row, 1 / row.shape[-1]), 1e-3)
        shown = f"a row with nothing allowed: weights {[round(t, 3) for t in row[0, 0].tolist()]}, expected zeros"
        bug = known("mask.equal_weights" if same else "mask.empty_something")
        raise Broken(shown, bug, symptom=not m.sound and not same)
    if w.requires_grad and not torch.autograd.grad(w.square().sum(), x)[0].isfinite().all():
        raise Broken(
            "a row with nothing allowed: the gradient is NaN", known("mask.empty_gradient")
        )


def _gradients_masked(m: _MaskedSoftmax) -> None:
    scores, mask = _draw()
    must_have_gradients(
        lambda x: m(x, mask), lambda x: _oracle(x, mask), {"scores": scores}, m.sound, 1e-4
    )


def _one_allowed(m: _MaskedSoftmax) -> None:
    got = m(torch.tensor([[2.0]]), torch.tensor([[True]]))
    if m.sound and not nearly(got, torch.ones(1, 1), 1e-5):
        raise Broken(f"one score, allowed: {_shown(got)}", known("softmax.one"))


def _untouched_masked(m: _MaskedSoftmax) -> None:
    scores, mask = _draw()
    must_leave_alone(m.fn, {"scores": scores, "mask": mask})
    must_not_mind_strides(lambda x: m(x, mask), scores)


def _repeats_masked(m: _MaskedSoftmax) -> None:
    scores, mask = _draw()
    must_repeat(lambda: m(scores.clone(), mask.clone()), lambda: m(_draw(seed=9)[0], ~mask))


_MASKED_RELATIONS = (
    Relation("it runs, and keeps the shape of the scores", _runs_masked),
    Relation("the same inputs give the same answer", _repeats_masked),
    Relation(
        "it agrees with softmax over the allowed places", must_agree, compares="the definition"
    ),
    Relation("forbidden places get exactly 0, and the others of a row sum to 1", _zero),
    Relation("a mask that allows all changes nothing", _all_allowed),
    Relation("what stands in forbidden places does not matter", _hidden),
    Relation("scores of ±10⁴ give finite values and gradients", _large_masked),
    Relation("a mask may differ between sentences, and broadcast", _broadcast),
    Relation("fully masked rows are zero, with finite gradients", _empty),
    Relation("gradients are those of softmax over the allowed places", _gradients_masked),
    Relation("one place: weight 1 if allowed", _one_allowed),
    Relation(
        "float16 and bfloat16 give finite, nearly equal values of their type",
        lambda m: must_hold_in_half(
            m, _draw(), "scores", {torch.float16: 4e-3, torch.bfloat16: 2e-2}
        ),
    ),
    Relation("scores and mask are not modified, and need not be contiguous", _untouched_masked),
)
