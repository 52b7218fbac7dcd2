"""What is found out about a function once, for several properties: where its numbers are right."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from attention_checks.catalogue import known
from attention_checks.catalogue.masks import BIAS
from attention_checks.explaining.pipeline import right_output
from attention_checks.explaining.search import Case, alike, explain
from attention_checks.numbers.tensors import (
    first_difference,
    must_be_near,
    nearly,
    numbers_of,
    sizes_of,
)
from attention_checks.numbers.tolerance import LONG_SUMS, USUAL_TOLERANCE
from attention_checks.outcomes import Broken, attempt, broken_by, first_line, runs
from attention_checks.subjects.function import ONES, AttentionFunction, Sizes, find_call_style
from attention_checks.subjects.masks import other_meaning
from attention_nb.naive_attention import naive_attention
from attention_nb.tools.testing import operations


@dataclass(frozen=True)
class ExaminedFunction(AttentionFunction):
    "An attention function with what is found out about it."

    @cached_property
    def with_call_style(self) -> ExaminedFunction:
        "The function with its style of calling found out."
        return find_call_style(self)

    @cached_property
    def mismatch(self) -> Broken | None:
        "How its numbers differ from the oracle's."
        return broken_by(lambda: _must_be_right(self))

    @cached_property
    def sound(self) -> bool:
        "Return whether its numbers are right; if not, it is compared with itself."
        return self.mismatch is None

    @cached_property
    def finite(self) -> bool:
        "Return whether ordinary numbers give finite ones; if not, what else shows is a symptom."
        return attempt(lambda: bool(self(*self.usual.draw()).isfinite().all())) is not False

    @cached_property
    def right_at_near_lengths(self) -> bool:
        "Return whether its numbers are right for lengths a little above and below the usual ones."
        sizes = (*map(self.at, ONES), self.usual.longer(-2), self.usual.longer(2))
        right = (attempt(lambda: _right(self, s.draw())) is not False for s in sizes)
        return self.sound and self.contract.lengths is None and all(right)

    @cached_property
    def many(self) -> tuple[int, ...]:
        "How many keys are many: more than the usual blocks hold, and if it is quick, large ones."
        count = attempt(lambda: operations(self, *draw_many(self)))
        if count is None or count >= 200:
            return (MANY,)
        return (MANY, MORE) if runs(lambda: self(*draw_many(self, MORE))) else (MANY,)

    @cached_property
    def right_for_many_keys(self) -> bool:
        "Return whether its numbers are right for many keys."
        if not self.right_at_near_lengths:
            return False
        return attempt(lambda: all(right_for(self, n) for n in self.many)) is True

    @cached_property
    def mask_mismatch(self) -> Broken | None:
        "How its numbers under a mask differ from the oracle's."
        return broken_by(lambda: _must_be_right_masked(self))

    @cached_property
    def mask_sound(self) -> bool:
        "Return whether its numbers are right under a mask."
        return self.mask_mismatch is None

    @cached_property
    def hiding(self) -> Broken | None:
        "How what a mask forbids shows; the mismatch, if there is one."
        return self.mask_mismatch or broken_by(lambda: _must_hide(self))


MANY = 131  # keys: more than the usual blocks of 16 to 128, and prime, so no block divides it
MORE = 1103  # more than two blocks of 512, and prime, too
_SMALL = [
    Sizes(1, 1, 1, 1, 1, 1),
    Sizes(1, 1, 1, 2, 1, 1),
    Sizes(1, 1, 2, 2, 1, 1),
    Sizes(1, 1, 2, 2, 2, 1),
    Sizes(1, 1, 2, 3, 2, 2),
    Sizes(1, 2, 2, 2, 2, 2),
    Sizes(2, 1, 2, 2, 2, 2),
    Sizes(2, 2, 3, 3, 2, 2),
]


def draw_many(subject: ExaminedFunction, n_k: int = MANY) -> tuple[Tensor, Tensor, Tensor]:
    "Draw many keys of one head, which grow: the last ones matter, and a maximum changes often."
    q, k, v = subject.at(Sizes(1, 1, n_k if subject.causal else 5, n_k)).draw()
    return q, k * torch.linspace(1, 3, n_k)[:, None], v


def right_for(subject: ExaminedFunction, n_k: int) -> bool:
    "Return whether that many keys give right numbers."
    return _right(subject, draw_many(subject, n_k), LONG_SUMS)


def _right(
    subject: ExaminedFunction, qkv: tuple[Tensor, Tensor, Tensor], atol: float = USUAL_TOLERANCE
) -> bool:
    "Return whether it gives right numbers for these."
    return nearly(subject(*qkv), subject.reference(*qkv), atol)


def _must_be_right(subject: ExaminedFunction) -> None:
    "Raise Broken unless its numbers are those of the oracle."
    for sizes, seed in ((subject.usual, 0), (subject.usual, 1), (subject.near_cap, 0)):
        q, k, v = sizes.draw(seed)
        got, want = subject(q, k, v), subject.reference(q, k, v)
        if nearly(got, want):
            continue
        code = "values.rounded" if nearly(got, want, 0.03) else "values.unknown"
        if seed:  # right, and then with other inputs wrong
            code = "state.first_call"
        if not got.isfinite().all():
            code = "values.nan"
        raise Broken(_smallest(subject), known(code))


def _smallest(subject: ExaminedFunction, masked: bool = False) -> str:
    "Return the smallest sizes at which it disagrees with the oracle, with the numbers."
    for sizes in [*map(subject.at, _SMALL), subject.usual, subject.near_cap]:
        if subject.causal is True and sizes.n_q != sizes.n_k:
            continue
        q, k, v = sizes.draw()
        mask = subject.style.some_mask(sizes.n_q, sizes.n_k) if masked else None
        got = attempt(lambda: subject(q, k, v, mask))
        want = subject.reference(q, k, v, mask)
        if got is None or got.shape != want.shape or nearly(got, want):
            continue
        few = q.numel() + k.numel() + v.numel() <= 12
        shown = numbers_of(q=q, k=k, v=v) if few else sizes_of(q=q, k=k, v=v)
        if mask is not None:
            shown += f", mask = {mask.int().tolist()}"
        return f"{shown}: {first_difference(got, want)}"
    return "at the usual sizes"


def _must_be_right_masked(subject: ExaminedFunction) -> None:
    "Raise Broken unless a mask means what was said, a bias is added, and the numbers are right."
    _must_mean(subject)
    if subject.declared_meaning == "bias" and subject.sound:
        _must_add_bias(subject)
    q, k, v = subject.usual.draw()
    mask = subject.usual_mask
    want = subject.reference(q, k, v, mask)
    try:
        got = subject(q, k, v, mask)
    except Exception as e:
        bug = known("code.raises", what="the code", error=first_line(e, 80, where=False))
        raise Broken(f"it raised {first_line(e)}", bug) from None
    if subject.sound and not nearly(got, want):
        bug = known(_masked_code(subject, got))
        symptom = bug.code != "mask.ignored"
        raise Broken(_smallest(subject, masked=True), bug, symptom)


def _masked_code(subject: ExaminedFunction, got: Tensor) -> str:
    "Guess what is wrong with a mask."
    q, k, v = subject.usual.draw()
    if nearly(got, subject.reference(q, k, v)):
        return "mask.ignored"
    if got.isnan().any():
        return "mask.nan"
    alone = naive_attention(q, k, v, subject.usual_mask, subject.right_scale(q))[0]
    return "mask.replaces_causal" if subject.causal and nearly(got, alone) else "mask.wrong"


def _must_mean(subject: ExaminedFunction) -> None:
    "Raise Broken if a mask means something else than was said."
    meaning = subject.style.meaning
    either = subject.contract.mask_meaning is None and "padding" in (subject.style.parameter or "")
    if meaning == subject.declared_meaning or either:  # of padding masks people mean either
        return
    bug = other_meaning(subject.declared_meaning, meaning)
    shown = _smallest(subject.with_style(meaning=subject.declared_meaning), masked=True)
    raise Broken(f'{shown}; with mask="{meaning}" it agrees with the oracle', bug)


def _must_add_bias(subject: ExaminedFunction) -> None:
    "Raise Broken unless a bias of finite numbers is added to the scaled scores."
    for sizes in (subject.at(Sizes(1, 1, 2, 2, 2, 1)), subject.usual):
        q, k, v = sizes.draw()
        bias = torch.randn(sizes.n_q, sizes.n_k, generator=torch.Generator().manual_seed(7))
        if subject.style.of_keys:
            bias = bias[:1].expand(bias.shape)
        work = subject.work(q, k, v)
        got = subject(q, k, v, bias).detach()
        work = work._replace(bias=work.bias + bias)
        orders = {work.bias_last, work.softcap is not None}  # beside a soft cap it is a choice
        if any(alike(right_output(work._replace(bias_last=last)), got) for last in orders):
            continue
        bugs = explain([Case(work, got)], BIAS, 1)
        shown = numbers_of(q=q, k=k, v=v, bias=bias)
        if sizes.b > 1:
            shown = f"{sizes_of(q=q, k=k, v=v)}, with a bias"
        difference = first_difference(got, right_output(work))
        raise Broken(f"{shown}: {difference}", bugs or known("bias.wrong"))


def _must_hide(subject: ExaminedFunction) -> None:
    "Raise Broken if a forbidden key has influence, with large numbers or among low scores."
    q, k, v = subject.usual.draw()
    mask = torch.ones(subject.usual.n_q, subject.usual.n_k, dtype=torch.bool)
    mask[:, -1] = False
    large_k, large_v = k.clone(), v.clone()
    large_k[..., -1, :] *= 1e5  # a score beyond -1e4, which people take for minus infinity
    large_v[..., -1, :] = 1e4
    before, after = subject(q, k, v, mask), subject(q, large_k, large_v, mask)
    shown, symptom = "a forbidden key with large numbers", not subject.sound
    must_be_near(after, before, shown, known("mask.influence"), symptom=symptom)
    q[..., 0], k[..., 0] = 1, -2e4 / subject.right_scale(q)
    before, after = subject(q, k, v, mask), subject(q, k, large_v, mask)
    if before.isfinite().all():
        shown = "all scores near -2 · 10⁴, and a forbidden value changed"
        must_be_near(after, before, shown, known("mask.leaks_if_low"), symptom=symptom)
