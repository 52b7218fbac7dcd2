"""Find the bugs that give the numbers that were seen: candidates, the simpler explanation first."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations
from typing import NamedTuple

import torch
from torch import Tensor

from attention_checks.pipeline import (
    STAGES,
    Bug,
    Memo,
    Step,
    Work,
    run,
    tolerance_factor,
)


class Case(NamedTuple):
    "What went in, and what came out of the code under test."

    work: Work  # before the first stage
    seen: Tensor  # what it returned
    atol: float = 1e-4  # how close is the same
    stages: Mapping[str, Step] = STAGES  # what it should have gone through


def candidates(
    bugs: Iterable[Bug],  # all that are known
    most: int = 2,  # how many at once
) -> Iterator[tuple[Bug, ...]]:  # none, each alone, each two of different stages, …
    "List who may be it, the simpler explanation first."
    known = list(bugs)
    for n in range(most + 1):
        for some in combinations(known, n):
            stages = [stage for bug in some for stage in bug.steps]
            if len(set(stages)) == len(stages):
                yield some


def explain(
    cases: list[Case],  # at least one, the smallest first
    bugs: Iterable[Bug],  # all that are known
    most: int = 2,  # how many at once, beside a wrong scale
) -> (
    tuple[Bug, ...] | None
):  # what is wrong: nothing, one bug or more; None if that fits nothing known
    "Find the bugs that give the numbers that were seen, in every case."
    known, start = list(bugs), cases[0].work
    scales = [
        bug
        for bug in known
        if bug.factor and not math.isclose(bug.factor(start), start.scale, rel_tol=1e-3)
    ]
    others = [bug for bug in known if bug.steps and any(bug.fits(case.work) for case in cases)]
    wide, plain = _tries(cases, scales), _tries(cases, [])  # two at once have the right scale
    best = None  # with a wrong scale besides, it may have as many bugs as what is tried next
    with torch.no_grad():
        for some in candidates(others, most):
            if best is not None and len(best) <= len(some):
                return best
            for i in _agree(wide if len(some) < 2 else plain, some):
                found = (_scaled(scales[i - 1], start), *some) if i else some
                best = found if best is None or len(found) < len(best) else best
    return best


def _tries(cases: list[Case], scales: list[Bug]) -> list[tuple[Case, Memo]]:
    "The cases with several scales at once, the right one first; and room for what is made on the way."
    tries: list[tuple[Case, Memo]] = []
    for case in cases:
        factors = [float(case.work.scale), *(bug.factor(case.work) for bug in scales if bug.factor)]
        scale = torch.tensor(factors).to(case.work.q).view(-1, 1, 1, 1, 1)
        tries.append((case._replace(work=case.work._replace(scale=scale)), {}))
    return tries


def _scaled(bug: Bug, work: Work) -> Bug:
    "A wrong scale, in words."
    return bug.about(scale=_in_words(work), found=f"{bug.factor(work):.4g}" if bug.factor else "")


def _in_words(work: Work) -> str:
    "What scores should be multiplied with."
    usual = math.isclose(float(work.scale), work.q.shape[-1] ** -0.5, rel_tol=1e-3)
    return "1/√d_k once" if usual else f"{float(work.scale):.4g}, as you said"


def _agree(tries: list[tuple[Case, Memo]], bugs: tuple[Bug, ...]) -> list[int]:
    "The scales with which these bugs give what was seen in every case; those that lack what they need stay out."
    left: list[int] | None = None
    for case, kept in tries:
        made = run(case.work, [bug for bug in bugs if bug.fits(case.work)], kept, case.stages)
        same = alike(made.out, case.seen, case.atol) if made is not None else []
        left = same if left is None else [i for i in left if i in same]
        if not left:
            return []
    return left or []


def alike(
    several: Tensor,  # (s, ...), or (...) for one
    seen: Tensor,  # (...)
    atol: float = 1e-4,  # how close is the same
) -> list[int]:  # which of them
    "Tell which of several tensors have the shape of another one and nearly its values, NaN where it is NaN."
    several = several[None] if several.ndim == seen.ndim else several
    if several.shape[1:] != seen.shape or not seen.numel():
        return []
    want, flat = seen.flatten(), several.flatten(1)
    last = float(
        want[-1]
    )  # what the last word sees: the first sees only itself where the future is hidden, whatever the bug
    if math.isnan(last) and seen.isnan().all():
        return []  # NaN everywhere is nobody's fingerprint
    rtol, atol = 1e-3 * tolerance_factor(), atol * tolerance_factor()
    far = atol + rtol * abs(last)
    near = [
        i
        for i, x in enumerate(flat[:, -1].tolist())
        if abs(x - last) <= far or x == last or x != x and last != last
    ]  # one number tells most apart
    return [i for i in near if torch.allclose(flat[i].to(want), want, rtol, atol, equal_nan=True)]
