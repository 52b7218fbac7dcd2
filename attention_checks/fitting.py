"""Fit a number that explains what was seen: a scale, a soft cap, what is added to a sum."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from attention_checks.catalogue import known
from attention_checks.catalogue.families import ACTIVATIONS
from attention_checks.catalogue.grouped_heads import CAPPED
from attention_checks.catalogue.self_attention import mixing, routing
from attention_checks.pipeline import Bug, Work
from attention_checks.search import Case


def nearest_number(
    case: Case,  # what was seen
    make: Callable[[Tensor], tuple[Work, tuple[Bug, ...]]],  # what stages begin with, of numbers
    centre: float,  # where the search begins
    width: float,  # how far to both sides
) -> float:
    "Fit a number: with which one the stages come nearest to the output."
    best = centre
    for step in range(40):
        numbers = best + width * torch.linspace(-1, 1, 33)
        work, bugs = make(numbers.view(-1, 1, 1, 1, 1))
        made = case.run(work, bugs)
        if made is None or made.out.shape[1:] != case.seen.shape:
            break
        off = (made.out - case.seen).flatten(1).norm(dim=1)
        best, width = float(numbers[off.argmin()]), 0.6 * width
        if step == 8 and off.min() > 0.2 * case.seen.norm():
            break  # no number comes near
    return best


def fitted_cap(
    case: Case,  # what was seen
) -> Bug | None:  # None: no soft cap gives it
    "Find the soft cap that gives the numbers that were seen, if none or another was declared."

    def capped(number: Tensor) -> tuple[Work, tuple[Bug, ...]]:
        cap = number.abs() + 1e-3  # the search may go below 0
        step = lambda work: work._replace(scores=cap * torch.tanh(work.scores / cap))
        return case.work, (CAPPED._replace(steps={"cap": step}),)

    if case.given_by(case.run()):
        return None
    number = nearest_number(case, capped, 32.0, 31.0)
    if not case.given_by(case.run(*capped(torch.tensor(number)))):
        return None
    return CAPPED.about(cap=f"{abs(number) + 1e-3:.3g}")


def fitted_factor(
    case: Case,  # what was seen
    declared: float = 1.0,  # the factor that it should have
) -> Bug | None:  # None: no factor gives it
    "Find the one factor of the context that gives the numbers that were seen."
    none, once = _with_end(case, torch.zeros_like), _with_end(case, lambda out: out)
    if none is None or once is None or once.out.shape != case.seen.shape:
        return None
    given, seen = (once.out - none.out).flatten(), (case.seen - none.out).flatten()
    factor = float(seen @ given / (given @ given).clamp(min=1e-9))
    wrong = abs(factor) > 1e-3 and not math.isclose(factor, 1, rel_tol=1e-3)
    if not wrong or not case.given_by(_with_end(case, lambda out: factor * out)):
        return None
    return known("values.scaled", found=f"{factor:.4g}", value=f"{declared * factor:.4g}")


def fitted_activation(
    case: Case,  # what was seen
) -> Bug | None:  # None: no usual function gives it
    "Find the function of the context that gives the numbers that were seen."
    for name in ACTIVATIONS:
        if case.given_by(_with_end(case, getattr(F, name))):
            return known("context.activated", name=name)
    return None


def _with_end(case: Case, f: Callable[[Tensor], Tensor]) -> Work | None:
    "Return what a context that is changed before heads are merged gives; None if it does not fit."
    return case.run(case.work, [Bug("", "", {"mix": mixing(lambda out, _: f(out))})])


def fitted_cosine(
    case: Case,  # what was seen
) -> Bug | None:  # None: no factor gives it
    "Find the factor of queries and keys of length 1 that gives the numbers that were seen."
    unit = routing(lambda q, k, v: (F.normalize(q, dim=-1), F.normalize(k, dim=-1), v))
    bug = Bug("", "", {"route": unit})

    def scaled(number: float | Tensor) -> tuple[Work, tuple[Bug, ...]]:
        return case.work._replace(scale=number), (bug,)

    number = nearest_number(case, scaled, 16.0, 16.0)
    if not case.given_by(case.run(*scaled(number))):
        return None
    return known("scores.cosine", found=f"{number:.4g}")
