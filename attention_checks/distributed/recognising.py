"""Which known bug gives the numbers that the ranks gave?"""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

import torch
from torch import Tensor

from attention_checks.catalogue import ATTENTION, known
from attention_checks.catalogue.windows import reach_bugs
from attention_checks.distributed.bugs import BACKWARD, FORWARD, Wrong
from attention_checks.distributed.running import RankOutput
from attention_checks.distributed.shards import Trial
from attention_checks.distributed.simulated import BackwardSteps, ForwardSteps, gradients, simulated
from attention_checks.explaining.pipeline import Bug
from attention_checks.explaining.search import Case
from attention_checks.explaining.search import explain as explain_stages
from attention_checks.numbers.tolerance import SHORT_SUMS

LEAST = 1e-6  # so far apart may numbers and simulated ones be, whatever is declared
NEAR = 0.03  # of the largest number: so far apart are numbers that were rounded to 16 bits


class RankResults(NamedTuple):
    "One finished trial: what every rank gave, and what it should have given."

    trial: Trial
    got: tuple[Tensor, ...]  # for each rank one tensor, or three gradients after each other
    right: tuple[Tensor, ...]

    @property
    def size(self) -> float:
        "Return the largest right number."
        return max((t.abs().max().item() for t in self.right if t.numel()), default=0.0)

    @property
    def off(self) -> float:
        "Return how far apart the numbers are, as a share of the largest."
        if any(g.shape != r.shape for g, r in zip(self.got, self.right)):
            return float("inf")
        pairs = [(g, r) for g, r in zip(self.got, self.right) if g.numel()]
        most = max(((g - r).abs().max().item() for g, r in pairs), default=0.0)
        return float("inf") if most != most else most / max(self.size, 1e-12)

    def agrees(self, with_these: Sequence[Tensor], tolerance: float) -> bool:
        "Return whether the numbers are these."
        return self._replace(right=tuple(with_these)).off <= tolerance


def contexts_of(trial: Trial, given: Sequence[RankOutput], right: Tensor) -> RankResults:
    "Set contexts beside the right one."
    got = tuple(each.context.double() for each in given)
    return RankResults(trial, got, tuple(trial.part(right, rank) for rank in range(trial.world)))


def compared_gradients(
    trial: Trial, given: Sequence[RankOutput], right: Sequence[Tensor]
) -> RankResults:
    "Set gradients beside the right ones; what has none has gradients of zero."
    wanted = tuple(trial.part(g, rank) for rank in range(trial.world) for g in right)
    found: Iterator[Any] = (g for each in given for g in each.gradients or (None,) * 3)
    got = (torch.zeros_like(w) if g is None else g.double() for g, w in zip(found, wanted))
    return RankResults(trial, tuple(got), wanted)


def _explained(
    compared: Sequence[RankResults],  # of several ranks
    bugs: Sequence[Wrong],
    predict: Callable[[Trial, Any], Sequence[Tensor]],
) -> tuple[Bug, ...]:
    "Find the first bug that gives the numbers of every trial, and is seen in one."
    found = (wrong for wrong in bugs if _gives(predict, wrong, compared))
    return tuple(_of(wrong, compared[0].trial) for wrong in islice(found, 1))


def _gives(
    predict: Callable[[Trial, Any], Sequence[Tensor]], wrong: Wrong, compared: Sequence[RankResults]
) -> bool:
    "Return whether a bug gives the numbers of every trial, and is seen in one."
    tolerance, shows = max(LEAST, 10 * compared[0].trial.sharding.tolerance), False
    for each in compared:
        try:
            numbers = predict(each.trial, wrong.steps)
        except (RuntimeError, IndexError, ValueError):
            return False
        if not each.agrees(numbers, tolerance):
            return False
        shows = shows or not each._replace(got=tuple(numbers)).off <= tolerance
    return shows


def _of(wrong: Wrong, trial: Trial) -> Bug:
    "Return the bug with its facts."
    order = trial.sharding.order
    declared = order if isinstance(order, str) else "another"
    facts = {"declared": declared, **wrong.facts} if wrong.facts else {}
    return known(wrong.code, **facts)


def name_context(compared: Sequence[RankResults]) -> tuple[Bug, ...]:
    "Name what makes contexts wrong on several ranks."
    if any(not g.isfinite().all() for each in compared for g in each.got):
        return (known("shares.empty_nan"),)
    predict = lambda trial, steps: simulated(trial, ForwardSteps(**steps))
    found = _explained(compared, FORWARD, predict) or rounded(compared)
    return found or _only_where(compared) or (known("passing.wrong"),)


def name_gradients(compared: Sequence[RankResults]) -> tuple[Bug, ...]:
    "Name what makes gradients wrong on several ranks."

    def predict(trial: Trial, steps: Any) -> list[Tensor]:
        "Put the three gradients of every rank after each other."
        return [t for of_rank in gradients(trial, BackwardSteps(**steps)) for t in of_rank]

    found = _explained(compared, BACKWARD, predict) or rounded(compared)
    return found or _only_where(compared) or (known("backward.wrong"),)


def rounded(compared: Sequence[RankResults]) -> tuple[Bug, ...]:
    "Name numbers that are nearly right."
    off = max(each.off for each in compared)
    if off > NEAR:
        return ()
    kept = "kept in 32 bits" if off < SHORT_SUMS else "kept in 16 bits"
    return (known("shares.rounded", off=f"{off:.1g}", kept=kept, tolerance=f"{2 * off:.0e}"),)


def _only_where(compared: Sequence[RankResults]) -> tuple[Bug, ...]:
    "Name numbers that are wrong only where shards are uneven, or empty."
    wrong = [each.trial for each in compared if each.off > each.trial.sharding.tolerance]
    if all(trial.sharding.leaves_empty(trial.n, trial.world) for trial in wrong):
        return (known("shards.empty", how="its numbers are wrong"),)
    if not any(trial.sharding.shares_equally(trial.n, trial.world) for trial in wrong):
        return (known("shards.uneven", how="its numbers are wrong"),)
    return ()


def name_alone(compared: Sequence[RankResults]) -> tuple[Bug, ...]:
    "Name what makes the context wrong on one rank: a bug of any attention."
    sharding = compared[0].trial.sharding
    cases = [Case(each.trial.work(), each.got[0]) for each in compared]
    found = explain_stages(cases, [*ATTENTION, *reach_bugs(sharding.reach)], most=1)
    return found or rounded(compared) or (known("mask.unknown"),)
