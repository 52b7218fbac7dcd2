"""Each known bug is made on purpose; the one that gives an attention function's own numbers is its name."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from attention_checks.catalogue import known
from attention_checks.catalogue.flash_attention import blocks
from attention_checks.catalogue.softmax import name_added, name_rounded
from attention_checks.examine import attempt
from attention_checks.numbers import nearly
from attention_checks.pipeline import Bug, rightly
from attention_checks.properties import Properties, Relation, listed
from attention_checks.search import Case, alike, explain
from attention_checks.subjects.facts import Subject
from attention_checks.subjects.function import CUBE, EQUAL, SQUARE, Sizes
from attention_nb.naive_attention import naive_attention
from attention_nb.self_attention import attention_scores


def used_weights(
    a: Subject,  # the function under test
    q: Tensor,  # (b, h, n_q, d_k)
    k: Tensor,  # (b, h, n_k, d_k)
    mask: Tensor | None = None,  # boolean, True = may attend
) -> Tensor:  # (b, h, n_q, n_k)
    "Find the weights in force: with the identity as values, the context is the weights."
    eye = torch.eye(k.shape[-2]).expand(*k.shape[:-1], k.shape[-2])
    return a(q, k, eye, mask)


def recognise(
    a: Subject,  # a function whose numbers are wrong
) -> tuple[Bug, ...] | None:  # None if no known bug gives them
    "Find the bugs that explain its numbers; what breaks one search need not break the next."
    for look in (_added, _rounded, _one_bug, _wrong_scale, _two_bugs):
        if found := attempt(lambda: look(a)):
            return (found,) if isinstance(found, Bug) else found
    return None if a.finite else (known("values.nan"),)


def _wrong_cases(a: Subject) -> Iterator[list[Case]]:
    "What it made of usual and of equal sizes: without a mask and with one together, then each that is wrong alone."
    for sizes in dict.fromkeys([a.usual, SQUARE, CUBE, EQUAL]):
        masks = (None, a.style.some_mask(sizes.n_q, sizes.n_k)) if a.style.takes_mask else (None,)
        cases = [case for mask in masks if (case := attempt(lambda: _case(a, sizes, mask)))]
        wrong = [case for case in cases if not alike(rightly(case.work), case.seen)]
        if wrong and len(cases) > 1:
            yield cases
        yield from ([case] for case in wrong)


def _case(a: Subject, sizes: Sizes, mask: Tensor | None) -> Case:
    "What it made of one input."
    q, k, v = sizes.draw()
    got = a(q, k, v, mask).detach()
    if got.shape != (*q.shape[:-1], v.shape[-1]):
        raise ValueError("another shape")
    return Case(a.work(q, k, v, mask), got)


def _one_bug(a: Subject) -> tuple[Bug, ...] | None:
    "The known bug that gives the same numbers as the code under test, a wrong scale besides."
    found = (
        explain(cases, [*a.bugs, *blocks(cases[0].work.k.shape[-2])], 1)
        for cases in _wrong_cases(a)
    )
    return next(filter(None, found), None)


def _two_bugs(a: Subject) -> tuple[Bug, ...] | None:
    "The two known bugs that give the same numbers together."
    cases = next(_wrong_cases(a), None)
    return explain(cases, a.bugs) if cases else None


def _added(a: Subject) -> tuple[Bug, ...] | None:
    "The number that is added to the softmax's sum, if there is one."
    q, k, _ = a.usual.draw()
    scores = attention_scores(q, k, a.right_scale(q))
    for mask in (None,) if a.no_mask else (None, a.usual_mask):
        full, w = a.allowed(q, k, mask), used_weights(a, q, k, mask)
        forbidden = (
            torch.zeros_like(scores, dtype=torch.bool)
            if full is None
            else ~full.expand(scores.shape)
        )
        if bug := name_added(w, scores.masked_fill(forbidden, -math.inf)):
            return (bug,)
        after = scores.log_softmax(-1).masked_fill(forbidden, -math.inf)
        if mask is not None and (bug := name_added(w, after)):
            return known("mask.after_normalised"), bug
    return None


def _rounded(a: Subject) -> Bug | None:
    "The narrower type that it computes in."
    q, k, _ = a.usual.draw()
    return None if a.contract.dtype else name_rounded(used_weights(a, q, k))


def _wrong_scale(a: Subject) -> Bug | None:
    "What it multiplies scores with, read from two weights of the last query, if that explains its numbers."
    q, k, v = a.usual.draw()
    got, right = a(q, k, v), a.right_scale(q)
    if nearly(got, a.oracle(q, k, v)):
        return None
    scores, logs = (q @ k.mT)[..., -1, :2], used_weights(a, q, k)[..., -1, :2].log()
    scale = float(((logs[..., 0] - logs[..., 1]) / (scores[..., 0] - scores[..., 1])).median())
    if not nearly(got, naive_attention(q, k, v, a.allowed(q, k), scale)[0]):
        return None
    negative, usual = (
        math.isclose(scale, other, rel_tol=1e-3) for other in (-right, q.shape[-1] ** -0.5)
    )
    unasked = (
        "scale.constant"
        if a.contract.scale is None
        else "scale.usual_unasked"
        if usual
        else "scale.other"
    )
    return known("scale.sign" if negative else unasked, found=f"{scale:.4g}", right=f"{right:.4g}")


def properties_for(
    a: Subject,  # the function under test
    rows: Sequence[Relation],  # what must hold of it, in the order of trying
) -> tuple[
    Properties, Callable[[], tuple[Bug, ...] | None]
]:  # the properties, and what names the bug if one fails
    "Tie relations to a function, without those that were not promised."
    return listed([row for row in rows if row.asked(a)], lambda: a.settled), lambda: recognise(
        a.settled
    )
