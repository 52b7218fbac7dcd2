"""An attention function reads inputs however they lie, leaves them alone, stands scores of 10⁴ and sixteen bits, and can be traced."""

from __future__ import annotations

import torch
from torch import Tensor

from attention_checks.catalogue import known
from attention_checks.examine import Broken, attempt
from attention_checks.numbers import first_difference, must_trace, nearly, sizes_of
from attention_checks.pipeline import Bug
from attention_checks.properties import (
    Relation,
    must_be_finite,
    must_hold_in_half,
    must_leave_alone,
    must_not_mind_strides,
)
from attention_checks.subjects.facts import Subject, draw_many
from attention_checks.subjects.function import OF_KEYS, Sizes
from attention_nb.masks import causal_mask


def _untouched(a: Subject) -> None:
    inputs = dict(zip("qkv", a.usual.draw()))
    if not a.no_mask and attempt(lambda: a(*a.usual.draw(), a.usual_mask)) is not None:
        inputs["mask"] = a.style.as_taken(a.usual_mask, inputs["q"])
    elif a.style.needs_mask:
        inputs["mask"] = a.style.as_taken(torch.ones(a.usual[2:4], dtype=torch.bool), inputs["q"])
    must_leave_alone(lambda *t: a.bare(*t)[0], inputs)


def _large(a: Subject) -> None:
    q, k, v = a.usual.draw()
    scale = a.right_scale(q)
    q = q * (1e4 / (q @ k.mT * scale).abs().max())
    out = must_be_finite(a, dict(q=q, k=k, v=v), "scores up to ±10⁴", lambda: _maximum_bug(a))
    if a.sound and not nearly(out, want := a.oracle(q, k, v), 1e-2):
        raise Broken(
            f"scores up to ±10⁴: {first_difference(out, want, 1e-2)}", known("softmax.cut")
        )
    q, k, v = a.usual.draw()
    q[..., 0], k[..., 0] = 1, -2e4 / scale  # all scores low: softmax does not mind
    if a.sound and not nearly(got := a(q, k, v), want := a.oracle(q, k, v), 3e-2):
        bug = known("mask.leaks_if_low") if a.causal else _cut(a, got)
        raise Broken(f"all scores near -2 · 10⁴: {first_difference(got, want, 3e-2)}", bug)
    n = a.many[-1]
    for place in (n - 1, n // 2, 0) if a.long else ():
        q, k, v = _peaked(a, place)
        if not nearly(got := a(q, k, v), want := a.oracle(q, k, v), 1e-2):
            shown = f"{sizes_of(q=q, k=k, v=v)}, key {place} with a score of 10⁴: {first_difference(got, want, 1e-2)}"
            raise Broken(shown, _cut(a, got))


def _peaked(a: Subject, place: int) -> tuple[Tensor, Tensor, Tensor]:
    "Many keys; the scores of one are 10⁴."
    q, k, v = draw_many(a, a.many[-1])
    q[..., 0], k[..., 0], k[..., place, 0] = 1, 0, 1e4 / a.right_scale(q)
    return q, k, v


def _cut(a: Subject, got: Tensor) -> Bug:
    "Say what large scores do: they are cut off, or give NaN."
    return known("softmax.cut") if got.isfinite().all() else _maximum_bug(a)


def _maximum_bug(a: Subject) -> Bug:
    "Say why large scores give NaN: which largest number is it that is subtracted?"
    if a.mismatch and a.mismatch.bugs[0].code == "values.nan":
        return a.mismatch.bugs[0]
    first, last = (
        a.long and not a(*_peaked(a, at))[..., -1, :].isfinite().all() for at in (0, a.many[-1] - 1)
    )
    if first != last:
        return known("blocks.no_running_maximum" if first else "blocks.first_maximum")
    _, _, v = a.usual.draw()
    alone = torch.ones(1, 1, 1, Sizes().d_k)  # one row, one number: 10⁴
    finite = (
        a(alone * 1e4 / (alone.shape[-1] * a.right_scale(alone)), alone, v[:1, :1, :1])
        .isfinite()
        .all()
    )
    late = "_or_late_mask" if a.causal else ""
    return known(f"softmax.underflows{late}" if finite else "softmax.overflows")


def _half(a: Subject) -> None:
    atols = {torch.float16: 0.02, torch.bfloat16: 0.12}
    square = a.usual_mask if a.style.form == OF_KEYS else causal_mask(*a.usual[2:4])
    for mask in (None,) if a.no_mask else (square, None):
        must_hold_in_half(lambda q, k, v: a(q, k, v, mask), a.usual.draw(), "v", atols)


def _traced(a: Subject) -> None:
    small = Sizes(2, 1, 2, 2 if a.causal is True else 3, 4, 2)
    must_trace(lambda q, k, v: a(q, k, v), *small.draw())


NUMBERS = (
    Relation(
        "inputs need not be contiguous",
        lambda a: must_not_mind_strides(a.called(as_is=True), *a.usual.draw()),
    ),
    Relation("inputs are not modified", _untouched),
    Relation("scores of ±10⁴ give finite values and gradients", _large),
    Relation(
        "float16 and bfloat16 give finite, nearly equal values of their type",
        _half,
        asked=lambda a: a.contract.dtype is None,
    ),
)
TRACED = Relation(
    "torch.compile and torch.export change nothing", _traced, asked=lambda a: a.contract.compiles
)
