"""Fit a number that explains what was seen: a scale, a soft cap, what is added to a sum."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from attention_checks.catalogue.grouped_heads import CAPPED
from attention_checks.pipeline import Bug, Work, run
from attention_checks.search import Case, alike


def nearest_number(
    case: Case,  # what was seen
    make: Callable[
        [Tensor], tuple[Work, tuple[Bug, ...]]
    ],  # what the stages begin with, of numbers
    centre: float,  # where the search begins
    width: float,  # how far to both sides
) -> tuple[float, float]:  # the number, and how far the output is then
    "Fit a number: with which one the stages come nearest to the output, and at which distance."
    best, off = centre, torch.tensor([torch.inf])
    for _ in range(40):
        numbers = best + width * torch.linspace(-1, 1, 33)
        work, bugs = make(numbers.view(-1, 1, 1, 1, 1))
        made = run(work, bugs, stages=case.stages)
        if made is None or made.out.shape[1:] != case.seen.shape:
            break
        off = (made.out - case.seen).flatten(1).norm(dim=1)
        best, width = float(numbers[off.argmin()]), 0.6 * width
    return best, float(off.min())


def fitted_cap(
    case: Case,  # what was seen
) -> Bug | None:  # None: no soft cap gives it
    "Find the soft cap that gives the numbers that were seen, if none or another was declared."

    def capped(number: Tensor) -> tuple[Work, tuple[Bug, ...]]:
        cap = number.abs() + 1e-3  # the search may go below 0
        step = lambda work: work._replace(scores=cap * torch.tanh(work.scores / cap))
        return case.work, (CAPPED._replace(steps={"cap": step}),)

    number, _ = nearest_number(case, capped, 32.0, 31.0)
    made = run(*capped(torch.tensor(number)), stages=case.stages)
    plain = run(case.work, stages=case.stages)
    if made is None or plain is None or not alike(made.out, case.seen, case.atol):
        return None
    return (
        None
        if alike(plain.out, case.seen, case.atol)
        else CAPPED.about(cap=f"{abs(number) + 1e-3:.3g}")
    )
