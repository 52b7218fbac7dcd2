"""Make each known bug on purpose: the one that gives the function's own numbers is its name."""

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from attention_checks.catalogue import known
from attention_checks.catalogue.flash_attention import blocks
from attention_checks.explaining.changed_step import changed_step
from attention_checks.explaining.fitting import (
    fitted_band,
    fitted_cap,
    fitted_dtype,
    fitted_epsilon,
)
from attention_checks.explaining.pipeline import Bug, right_output
from attention_checks.explaining.search import Case, alike, explain
from attention_checks.numbers.tensors import nearly
from attention_checks.numbers.tolerance import FLOAT32, LONG_SUMS, NO_WEIGHT
from attention_checks.outcomes import attempt, bugs_in
from attention_checks.subjects.function import CUBE, EQUAL, SQUARE, Sizes
from attention_checks.subjects.function_facts import ExaminedFunction

_SOME_BIAS = 1e-2  # less may be rounding


def used_weights(
    subject: ExaminedFunction, q: Tensor, k: Tensor, mask: Tensor | None = None
) -> Tensor:
    "Find the weights in force: with the identity as values, the context is the weights."
    eye = torch.eye(k.shape[-2]).expand(*k.shape[:-1], k.shape[-2])
    return subject(q, k, eye, mask)


def recognise(subject: ExaminedFunction) -> tuple[Bug, ...] | None:
    "Find the bugs that explain its numbers; an error in one search does not stop the next."
    for search in _SEARCHES:
        if found := attempt(lambda: search(subject)):
            return bugs_in(found)
    return None if subject.finite else (known("values.nan"),)


def _changed(subject: ExaminedFunction) -> tuple[Bug, ...]:
    "Find the steps in which it differs from a declared function of the heads."
    if subject.contract.attend is None:
        return ()
    right = {"mix": subject.contract.attended}
    for sizes in (subject.usual, SQUARE):
        if case := attempt(lambda: _case(subject, sizes, None)):
            return changed_step(subject.contract, case._replace(stages=right), 2)
    return ()


def _wrong_cases(subject: ExaminedFunction) -> Iterator[list[Case]]:
    "Yield its outputs that are wrong: without and with a mask together, then each alone."
    for sizes in dict.fromkeys([subject.usual, subject.near_cap, SQUARE, CUBE, EQUAL]):
        masks: list[Tensor | None] = [None]
        if subject.style.takes_mask:
            masks.append(subject.style.some_mask(sizes.n_q, sizes.n_k))
        made = [attempt(lambda: _case(subject, sizes, mask)) for mask in masks]
        cases = [case for case in made if case]
        wrong = [case for case in cases if not alike(right_output(case.work), case.seen)]
        if wrong and len(cases) > 1:
            yield cases
        yield from ([case] for case in wrong)


def _case(subject: ExaminedFunction, sizes: Sizes, mask: Tensor | None) -> Case:
    "Return what it makes of one input."
    q, k, v = sizes.draw()
    got = subject(q, k, v, mask).detach()
    if got.shape != (*q.shape[:-1], v.shape[-1]):
        raise ValueError("another shape")
    return Case(subject.work(q, k, v, mask), got)


def _one_bug(subject: ExaminedFunction) -> tuple[Bug, ...] | None:
    "Find one bug that gives its numbers, or one beside a wrong scale."
    for cases in _wrong_cases(subject):
        bugs = [*subject.bugs, *blocks(cases[0].work.k.shape[-2])]
        if found := explain(cases, bugs, 1):
            return found
    return None


def _capped(subject: ExaminedFunction) -> Bug | None:
    "Find a soft cap that was not declared."
    case = next(_wrong_cases(subject), None)
    return fitted_cap(case[0]) if case else None


def _band(subject: ExaminedFunction) -> Bug | None:
    "Measure the window of a function that declares one."
    q, k, _ = subject.usual.draw()
    return measured_band(subject, q, k) if subject.reach and not subject.reach.documents else None


def measured_band(
    subject: ExaminedFunction,  # the function under test
    q: Tensor,  # (b, h, n_q, d_k)
    k: Tensor,  # (b, h, n_k, d_k)
) -> Bug | None:  # None: there is none, or it is the declared one
    "Name the keys that each query sees, if they are a band other than the declared one."
    weights = used_weights(subject, q, k)
    seen = (weights.abs() > NO_WEIGHT).flatten(0, -3).any(0)
    bug = fitted_band(seen, subject.sees)
    scores = subject.scores(q, k).masked_fill(~seen, -math.inf)
    return bug if bug and nearly(weights, scores.softmax(-1), FLOAT32) else None


def _added(subject: ExaminedFunction) -> tuple[Bug, ...] | Bug | None:
    "Find a number that is added to the softmax's sum."
    q, k, _ = subject.usual.draw()
    scores = subject.scores(q, k)
    for mask in (None,) if subject.no_mask else (None, subject.usual_mask):
        allowed, weights = subject.allowed(q, k, mask), used_weights(subject, q, k, mask)
        if allowed is None:
            allowed = torch.tensor(True)
        if bug := fitted_epsilon(weights, scores.masked_fill(~allowed, -math.inf)):
            return bug
        after = scores.log_softmax(-1).masked_fill(~allowed, -math.inf)
        if mask is not None and (bug := fitted_epsilon(weights, after)):
            return known("mask.after_normalised"), bug
    return None


def _rounded(subject: ExaminedFunction) -> Bug | None:
    "Find a type of fewer bits that it computes in."
    q, k, _ = subject.usual.draw()
    return None if subject.contract.placement.dtype else fitted_dtype(used_weights(subject, q, k))


def _biased(subject: ExaminedFunction) -> Bug | None:
    "Find out whether what is added to the scores is the same for other queries and keys."
    added = []
    for q, k, v in (subject.usual.draw(seed) for seed in (0, 1)):
        weights = used_weights(subject, q, k)
        if not nearly(weights @ v, subject(q, k, v)):
            return None
        gaps = (weights.log() - subject.scores(q, k)).masked_fill(weights < NO_WEIGHT, math.nan)
        added.append(gaps - gaps.nanmean(-1, keepdim=True))
    one, other = added
    adds = one.nan_to_num().abs().max() > _SOME_BIAS
    found = adds and nearly(one, other, LONG_SUMS, equal_nan=True)
    return known("bias.undeclared") if found else None


def _wrong_scale(subject: ExaminedFunction) -> Bug | None:
    "Measure what it multiplies scores by: two weights of the last query tell."
    q, k, v = subject.usual.draw()
    got, right = subject(q, k, v), subject.right_scale(q)
    if nearly(got, subject.reference(q, k, v)):
        return None
    added = subject.scores(q, k) - q @ k.mT * right
    logs = (used_weights(subject, q, k).log() - added)[..., -1, :2]
    scores = (q @ k.mT)[..., -1, :2]
    scale = float(((logs[..., 0] - logs[..., 1]) / (scores[..., 0] - scores[..., 1])).median())
    longer = [] if subject.contract.allowed_lengths else [subject.usual.longer(3).draw()]
    for some in ((q, k, v), *longer):
        if not nearly(subject(*some), right_output(subject.work(*some)._replace(scale=scale))):
            return None
    return known("scale.constant", found=f"{scale:.4g}", right=f"{right:.4g}")


_SEARCHES = (_changed, _band, _added, _rounded, _one_bug, _wrong_scale, _capped, _biased)
