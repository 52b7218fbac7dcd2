"""Facts that several properties need, each found out once: whether an attention function's numbers are right, also masked, also for many keys."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from attention_checks.catalogue import known
from attention_checks.catalogue.masks import BIAS
from attention_checks.examine import Broken, attempt, first_line
from attention_checks.numbers import first_difference, nearly, numbers_of, sizes_of
from attention_checks.pipeline import rightly
from attention_checks.properties import outcome
from attention_checks.search import Case, explain
from attention_checks.subjects.function import (
    MEANINGS,
    OF_KEYS,
    ONES,
    Attention,
    Sizes,
    settle,
)
from attention_nb.naive_attention import naive_attention
from attention_nb.tools.testing import operations


@dataclass(frozen=True)
class Subject(Attention):
    "An attention function with what is found out about it."

    @cached_property
    def settled(self) -> Subject:
        "The same, with the style found out."
        return settle(self)

    @cached_property
    def mismatch(self) -> Broken | None:
        "How its numbers differ from the oracle's."
        return outcome(lambda: _agrees(self))

    @cached_property
    def sound(self) -> bool:
        "Whether its numbers are right; if not, it is compared with itself."
        return self.mismatch is None

    @cached_property
    def finite(self) -> bool:
        "Whether ordinary numbers give finite ones; if not, what else shows is a symptom."
        return attempt(lambda: bool(self(*self.usual.draw()).isfinite().all())) is not False

    @cached_property
    def lengths(self) -> bool:
        "Whether they are right for lengths a little above and below the usual ones, too."
        return self.sound and _fits_lengths(self)

    @cached_property
    def many(self) -> tuple[int, ...]:
        "How many keys are many: more than blocks hold, and than large tiles hold, where few operations do much at once."
        count = attempt(lambda: operations(self, *draw_many(self)))
        quick = (
            count is not None
            and count < 200
            and attempt(lambda: self(*draw_many(self, MORE))) is not None
        )
        return (MANY, MORE) if quick else (MANY,)

    @cached_property
    def long(self) -> bool:
        "Whether they are right for many keys, too."
        return self.lengths and attempt(lambda: all(right_for(self, n) for n in self.many)) is True

    @cached_property
    def mask_mismatch(self) -> Broken | None:
        "How its numbers under a mask differ from the oracle's."
        return outcome(lambda: _agrees_masked(self))

    @cached_property
    def mask_sound(self) -> bool:
        "Whether its numbers are right under a mask."
        return self.mask_mismatch is None

    @cached_property
    def hiding(self) -> Broken | None:
        "How what a mask hides shows; the mismatch, if there is one."
        return self.mask_mismatch or outcome(lambda: _hides(self))


_SMALL = [
    Sizes(*sizes)
    for sizes in (
        (1, 1, 1, 1, 1, 1),
        (1, 1, 1, 2, 1, 1),
        (1, 1, 2, 2, 1, 1),
        (1, 1, 2, 2, 2, 1),
        (1, 1, 2, 3, 2, 2),
        (1, 2, 2, 2, 2, 2),
        (2, 1, 2, 2, 2, 2),
        (2, 2, 3, 3, 2, 2),
    )
]


def _agrees(a: Subject) -> None:
    for seed in (0, 1):
        q, k, v = a.usual.draw(seed)
        got, want = a(q, k, v), a.oracle(q, k, v)
        if not nearly(got, want):
            close = "values.rounded" if nearly(got, want, 0.03) else "values.unknown"
            raise Broken(_smallest(a), known(close if got.isfinite().all() else "values.nan"))


def _smallest(a: Subject, masked: bool = False) -> str:
    "The smallest sizes at which it disagrees with the oracle, with the numbers."
    for sizes in [*_SMALL, a.usual]:
        if a.causal is True and sizes.n_q != sizes.n_k:
            continue
        q, k, v = sizes.draw()
        m = a.style.some_mask(sizes.n_q, sizes.n_k) if masked else None
        got, want = attempt(lambda: a(q, k, v, m)), a.oracle(q, k, v, m)
        if got is not None and got.shape == want.shape and not nearly(got, want):
            few = q.numel() + k.numel() + v.numel() <= 12
            inputs = numbers_of(q=q, k=k, v=v) if few else sizes_of(q=q, k=k, v=v)
            forbidden = "" if m is None else f", mask = {m.int().tolist()}"
            return f"{inputs}{forbidden}: {first_difference(got, want)}"
    return "at the usual sizes"


MANY = 131  # keys: more than the usual blocks of 16 to 128, and prime, so no block divides it
MORE = 1103  # more than two tiles of 512, and prime, too


def draw_many(
    a: Subject,  # the function under test
    n_k: int = MANY,  # how many
) -> tuple[Tensor, Tensor, Tensor]:  # q, k and v, of one head
    "Draw many keys. They grow: the last ones weigh, and a running maximum is exceeded again and again."
    q, k, v = Sizes(1, 1, n_k if a.causal else 5, n_k).draw()
    return q, k * torch.linspace(1, 3, n_k)[:, None], v


def right_for(
    a: Subject,  # the function under test
    n_k: int,  # how many keys
) -> bool:
    "Whether that many keys give right numbers."
    q, k, v = draw_many(a, n_k)
    return nearly(a(q, k, v), a.oracle(q, k, v), 1e-3)


def _fits_lengths(a: Subject) -> bool:
    "Whether lengths a little above and below the usual ones give right numbers."
    others = (*ONES, a.usual.longer(-2), a.usual.longer(2))
    return a.contract.lengths is None and all(
        attempt(lambda: nearly(a(*s.draw()), a.oracle(*s.draw()))) is not False for s in others
    )


def _agrees_masked(a: Subject) -> None:
    "Raise Broken unless a mask means what was said, a bias is added, and the numbers are right."
    _means(a)
    if a.said == "bias" and a.sound:
        _biased(a)
    q, k, v = a.usual.draw()
    mask = a.usual_mask
    try:
        got, want = a(q, k, v, mask), a.oracle(q, k, v, mask)
    except Exception as e:
        if attempt(lambda: bool(a.called(numbers=True)(q, k, v, mask).isfinite().all())):
            raise Broken(
                f"a boolean mask: it raised {first_line(e)}", known("mask.numbers")
            ) from None
        raise Broken(
            f"it raised {first_line(e)}", known("code.raises", error=type(e).__name__)
        ) from None
    if a.sound and not nearly(got, want):
        raise Broken(_smallest(a, True), known(_masked_code(a, got)), symptom=True)


def _masked_code(a: Subject, got: Tensor) -> str:
    "A guess at what is wrong with a mask."
    q, k, v = a.usual.draw()
    if nearly(got, a.oracle(q, k, v)):
        return "mask.ignored"
    if got.isnan().any():
        return "mask.nan"
    alone = naive_attention(q, k, v, a.usual_mask, a.right_scale(q))[0]
    return "mask.replaces_causal" if a.causal and nearly(got, alone) else "mask.wrong"


_OTHERWISE = {  # how a mask is taken that should be boolean
    "allowed": "inverted: True lets attend",
    "blocked": "inverted: True hides",
    "bias": "added to the scores",
}


def _means(a: Subject) -> None:
    "Raise Broken if a mask means something else than was said."
    found = a.style.meaning
    looked = a.mask is None and "padding" in (a.style.parameter or "")  # people mean either
    if found != a.said and not looked:
        how = f"boolean, {MEANINGS[found]}" if a.said == "bias" else _OTHERWISE[found]
        bug = known("mask.meaning", how=how, expected=MEANINGS[a.said], found=found)
        raise Broken(
            f'{_smallest(a.called(meaning=a.said), True)}; with mask="{found}" it agrees with the oracle',
            bug,
        )


def _biased(a: Subject) -> None:
    "A bias of finite numbers, as one for places is: it is added to the scores once they are scaled."
    for sizes in (Sizes(1, 1, 2, 2, 2, 1), a.usual):
        q, k, v = sizes.draw()
        bias = torch.randn(sizes.n_q, sizes.n_k, generator=torch.Generator().manual_seed(7))
        bias = bias[:1].expand(bias.shape) if a.style.form == OF_KEYS else bias
        work = a.work(q, k, v)._replace(bias=bias)
        got = a(q, k, v, bias).detach()
        if (found := explain([Case(work, got)], BIAS, 1)) != ():
            numbers = (
                numbers_of(q=q, k=k, v=v, bias=bias)
                if sizes.b == 1
                else f"{sizes_of(q=q, k=k, v=v)}, with a bias"
            )
            raise Broken(
                f"{numbers}: {first_difference(got, rightly(work))}", found or known("bias.wrong")
            )


def _hides(a: Subject) -> None:
    "Raise Broken if a forbidden key has influence when its numbers are large."
    q, k, v = a.usual.draw()
    hidden = torch.ones(a.usual[2:4], dtype=torch.bool)
    hidden[:, -1] = False
    k2, v2 = k.clone(), v.clone()
    k2[..., -1, :] *= 1e5  # beyond the stand-in for minus infinity that is too small, -1e4
    v2[..., -1, :] = 1e4
    before, after = a(q, k, v, hidden), a(q, k2, v2, hidden)
    if not nearly(after, before):
        seen = after.isfinite().all() and after.abs().max() > 1e3  # the forbidden values are there
        empty = (after.isnan() | (after.abs() < 1e-6)).all(-1).any()  # and nothing else is
        code = (
            "mask.finite"
            if seen and a.sound
            else "mask.after_normalised"
            if empty and a.sound
            else "mask.influence"
        )
        shown = f"a forbidden key with large numbers: {first_difference(after, before)}"
        raise Broken(shown, known(code), symptom=not a.sound)
