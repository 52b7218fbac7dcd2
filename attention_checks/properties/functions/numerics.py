"""Strides, inputs that stay as they are, scores of 10⁴, sixteen bits, and tracing."""

from functools import partial
from typing import Any

import torch
from torch import Tensor

from attention_checks.catalogue import known
from attention_checks.explaining.pipeline import Bug
from attention_checks.numbers.tensors import must_be_near, sizes_of
from attention_checks.numbers.tolerance import LARGE_SCORES
from attention_checks.properties import Property
from attention_checks.properties.numerics import must_be_finite, must_hold_in_half
from attention_checks.properties.state import must_not_modify, must_take_any_strides
from attention_checks.subjects.function import Sizes
from attention_checks.subjects.function_facts import ExaminedFunction, draw_many
from attention_nb.masks import causal_mask


def _must_stand_large_scores(subject: ExaminedFunction) -> None:
    "Scores of ±10⁴ give finite values and gradients."
    q, k, v = subject.usual.draw()
    scale = subject.right_scale(q)
    q = q * (1e4 / (q @ k.mT * scale).abs().max())
    inputs, shown = {"q": q, "k": k, "v": v}, "scores up to ±10⁴"
    out = must_be_finite(subject, inputs, shown, lambda: _maximum_bug(subject))
    want = subject.reference(q, k, v)
    if subject.sound:
        _must_be_as(out, want, shown, known("softmax.cut"))
        _must_take_low_scores(subject, scale)
    if not subject.right_for_many_keys:
        return
    n = subject.many[-1]
    for at in (n - 1, n // 2, 0):
        q, k, v = _peaked(subject, at)
        got, want = subject(q, k, v), subject.reference(q, k, v)
        shown = f"{sizes_of(q=q, k=k, v=v)}, key {at} with a score of 10⁴"
        _must_be_as(got, want, shown, partial(_cut, subject, got))


def _must_take_low_scores(subject: ExaminedFunction, scale: float) -> None:
    "Raise Broken if scores that are all low give other numbers: softmax does not mind."
    q, k, v = subject.usual.draw()
    q[..., 0], k[..., 0] = 1, -2e4 / scale
    got, want = subject(q, k, v), subject.reference(q, k, v)
    bug = lambda: known("mask.leaks_if_low") if subject.causal else _cut(subject, got)
    _must_be_as(got, want, "all scores near -2 · 10⁴", bug, 3e-2)


def _must_be_as(
    got: Tensor, want: Tensor, shown: str, bug: Any, atol: float = LARGE_SCORES
) -> None:
    "Raise Broken for other numbers than those that a reference gives, where these are finite."
    must_be_near(got, torch.where(want.isfinite(), want, got), shown, bug, atol, equal_nan=True)


def _peaked(subject: ExaminedFunction, at: int) -> tuple[Tensor, Tensor, Tensor]:
    "Draw many keys, of which one has scores of 10⁴."
    q, k, v = draw_many(subject, subject.many[-1])
    q[..., 0], k[..., 0] = 1, 0
    k[..., at, 0] = 1e4 / subject.right_scale(q)
    return q, k, v


def _cut(subject: ExaminedFunction, got: Tensor) -> Bug:
    "Say what large scores do: they are cut off, or give NaN."
    return known("softmax.cut") if got.isfinite().all() else _maximum_bug(subject)


def _maximum_bug(subject: ExaminedFunction) -> Bug:
    "Say why large scores give NaN: which largest number is it that is subtracted?"
    if subject.mismatch and subject.mismatch.bugs[0].code == "values.nan":
        return subject.mismatch.bugs[0]
    if subject.right_for_many_keys:
        ends = (0, subject.many[-1] - 1)
        contexts = [subject(*_peaked(subject, at))[..., -1, :] for at in ends]
        first, last = (bool(context.isfinite().all()) for context in contexts)
        if first != last:
            return known("blocks.first_maximum" if first else "blocks.no_running_maximum")
    # one query and one key, with a score of 10⁴
    sizes = subject.at(Sizes())
    q = torch.ones(1, 1, 1, sizes.d_k)
    k = q * 1e4 / (q.shape[-1] * subject.right_scale(q))
    alone = subject(q, k, torch.ones(1, 1, 1, sizes.d_v))
    return known("softmax.underflows" if alone.isfinite().all() else "softmax.overflows")


def _must_stand_sixteen_bits(subject: ExaminedFunction) -> None:
    "Float16 and bfloat16 give finite, nearly equal values of their type."
    atols = {torch.float16: 0.02, torch.bfloat16: 0.12}
    n_q, n_k = subject.usual.n_q, subject.usual.n_k
    mask = subject.usual_mask if subject.style.of_keys else causal_mask(n_q, n_k)
    for given in (None,) if subject.no_mask else (mask, None):
        must_hold_in_half(lambda q, k, v: subject(q, k, v, given), subject.usual.draw(), "v", atols)


NUMBERS = (
    Property("inputs need not be contiguous", must_take_any_strides),
    Property("inputs are not modified", must_not_modify),
    Property.of(_must_stand_large_scores, symptom_unless=("sound",)),
    Property.of(_must_stand_sixteen_bits, sixteen_bits=True),
)
