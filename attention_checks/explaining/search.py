"""Find the bugs that give the numbers that were seen, the simplest explanation first."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

import torch
from torch import Tensor

from attention_checks.explaining.pipeline import STAGES, Bug, Memo, Step, Work, run
from attention_checks.numbers.tolerance import FLOAT32, ONE_NUMBER, RELATIVE, tolerance_factor


class Case(NamedTuple):
    "What went in, and what came out of the code under test."

    work: Work  # before the first stage
    seen: Tensor  # what it returned
    atol: float = FLOAT32  # how close is the same
    stages: Mapping[str, Step] = STAGES  # what it should have gone through

    def run(self, work: Work | None = None, bugs: Iterable[Bug] = ()) -> Work | None:
        "Go through its stages with bugs, or from another start; None where these do not fit."
        return run(work or self.work, bugs, stages=self.stages)

    def may_show(self, bug: Bug) -> bool:
        "Return whether a bug can show here: the stages that it replaces, and what it needs."
        return bug.steps.keys() <= self.stages.keys() and bug.fits(self.work)

    def given_by(self, made: Work | None) -> bool:
        "Return whether that gives what was seen."
        return made is not None and bool(alike(made.out, self.seen, self.atol))


_Try = tuple[Case, Memo]


def candidates(
    bugs: Iterable[Bug],  # all that are known
    most: int = 2,  # how many at once
) -> Iterator[tuple[Bug, ...]]:  # none, each alone, each two of different stages, …
    "List what may be wrong, the simplest explanation first."
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
) -> tuple[Bug, ...] | None:  # what is wrong; () for nothing, None if no known bugs fit
    "Find the bugs that give the numbers that were seen, in every case."
    known, start = list(bugs), cases[0].work
    scales = [bug for bug in known if _is_wrong_scale(bug, start)]
    others = [bug for bug in known if bug.steps and any(c.may_show(bug) for c in cases)]
    any_scale, right_scale = _tries(cases, scales), _tries(cases, [])
    scaled = 2 if _is_quick(cases[0]) else 1
    best: tuple[Bug, ...] | None = None
    with torch.no_grad():
        for some in candidates(others, most):
            if best is not None and len(best) <= len(some):
                return best
            tries = any_scale if len(some) < scaled else right_scale
            for i in _agreeing_scales(tries, some):
                scale = (_described(scales[i - 1], start),) if i else ()
                if best is None or len(scale) + len(some) < len(best):
                    best = (*scale, *some)
    return best


def _is_quick(case: Case) -> bool:
    "Return whether a bug may be tried with many scales: no function is declared, and few scores."
    q, k = case.work.q, case.work.k
    return "score" in case.stages and q.shape[:-1].numel() * k.shape[-2] <= 4096


def _is_wrong_scale(bug: Bug, work: Work) -> bool:
    "Return whether it is a scale other than the right one."
    if bug.factor is None:
        return False
    return not math.isclose(bug.factor(work), float(work.scale), rel_tol=ONE_NUMBER)


def _tries(cases: list[Case], scales: Sequence[Bug]) -> list[_Try]:
    "Give the cases several scales at once, the right one first, each with a memo of its own."
    tries: list[_Try] = []
    for case in cases:
        factors = [float(case.work.scale), *(bug.factor(case.work) for bug in scales if bug.factor)]
        scale = torch.tensor(factors).to(case.work.q).view(-1, 1, 1, 1, 1)
        tries.append((case._replace(work=case.work._replace(scale=scale)), {}))
    return tries


def _described(bug: Bug, work: Work) -> Bug:
    "Fill in the sentence of a wrong scale."
    usual = math.isclose(float(work.scale), work.q.shape[-1] ** -0.5, rel_tol=ONE_NUMBER)
    right = "1/√d_k" if usual else f"{float(work.scale):.4g}, as declared"
    return bug.about(scale=right, found=f"{bug.factor(work):.4g}" if bug.factor else "")


def _agreeing_scales(tries: list[_Try], bugs: tuple[Bug, ...]) -> list[int]:
    "Return the scales with which these bugs give what was seen in every case."
    agreeing: list[int] | None = None
    for case, memo in tries:
        fitting = [bug for bug in bugs if bug.fits(case.work)]
        made = run(case.work, fitting, memo, case.stages)
        same = alike(made.out, case.seen, case.atol) if made is not None else []
        agreeing = same if agreeing is None else [i for i in agreeing if i in same]
        if not agreeing:
            return []
    return agreeing or []


def alike(
    several: Tensor,  # (s, ...), or (...) for one
    seen: Tensor,  # (...)
    atol: float = FLOAT32,  # how close is the same
) -> list[int]:  # which of them
    "Return which of several tensors have the shape and nearly the values of another one, NaN too."
    several = several[None] if several.ndim == seen.ndim else several
    if several.shape[1:] != seen.shape or not seen.numel():
        return []
    want, flat = seen.flatten(), several.flatten(1)
    if want[-1].isnan() and want.isnan().all():
        return []  # NaN everywhere tells no bug from another
    rtol, atol = RELATIVE * tolerance_factor(), atol * tolerance_factor()
    # one number tells most apart: the last, since the first query may attend to one key only
    close = torch.isclose(flat[:, -1].to(want), want[-1], rtol, atol, equal_nan=True)
    near = close.nonzero().flatten().tolist()
    return [i for i in near if torch.allclose(flat[i].to(want), want, rtol, atol, equal_nan=True)]
