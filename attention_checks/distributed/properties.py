"""What must hold of attention over ranks: all finish, and give what one rank alone would give."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from attention_checks.catalogue import known
from attention_checks.distributed.recognising import (
    LEAST,
    RankResults,
    compared_gradients,
    contexts_of,
    name_alone,
    name_context,
    name_gradients,
)
from attention_checks.distributed.running import (
    Job,
    RankOutput,
    RunFault,
    RunResults,
    run_trials,
    takes_group,
)
from attention_checks.distributed.shards import Sharding, Trial, trial_of
from attention_checks.explaining.pipeline import Bug
from attention_checks.numbers.tensors import first_difference, must_be_tensor
from attention_checks.numbers.tolerance import SHORT_SUMS
from attention_checks.outcomes import Broken, NotChecked
from attention_checks.properties import Properties, Property, bound
from attention_nb.tools.ranks import Ranks

_LARGE = 400.0  # factor of the queries: scores of a thousand, whose exponentials overflow
_MORE = 1.2  # times as much is lost by partials in 16 bits (1.4 on 4 ranks); rounding alone: 1.1
_GROUPS = ((1, 3), (0, 2))  # two groups in one world: their ranks are not those of the world
_ORACLE = "attention on one rank, in float64"


ANY = range(1, sys.maxsize)  # numbers of ranks
ONE, SEVERAL = range(1, 2), range(2, sys.maxsize)


@dataclass(frozen=True)
class Study:
    "The code under test with what was declared of it, and what its ranks gave."

    fn: Callable[..., Any]  # fn(q, k, v) → context, called on every rank with its own part
    sharding: Sharding
    ranks: Ranks  # where the ranks start from

    def properties(self) -> tuple[Properties, None]:
        "List what attention over ranks must do; nothing names a bug by its numbers."
        return bound(_PROPERTIES, lambda: self), None

    def run(self, trials: Sequence[Trial], **how: Any) -> RunResults:
        "Run some trials, each as in `Job`."
        how = {"gradients": self.sharding.contract.gradients, **how}
        return run_trials(self.ranks, Job(self.fn, tuple(trials), **how))

    @cached_property
    def seen(self) -> list[RunResults]:
        "Run the trials for each number of ranks, until one does not finish."
        found: list[RunResults] = []
        for world in self.sharding.worlds:
            lengths = self.sharding.lengths(world)
            found.append(self.run([trial_of(self.sharding, world, n) for n in lengths]))
            if found[-1].fault:
                break
        return found

    @property
    def finished(self) -> list[tuple[Trial, tuple[RankOutput, ...]]]:
        "List the trials that all ranks finished."
        return [pair for seen in self.seen for pair in seen.pairs()]

    @property
    def fault(self) -> RunFault | None:
        "Return what ended the runs early."
        return self.seen[-1].fault

    @cached_property
    def compared(self) -> list[tuple[RankResults, RankResults]]:
        "Set contexts and gradients of the finished trials beside the right ones."
        return [_beside_right(trial, given) for trial, given in self.finished]

    def contexts(self, worlds: range = ANY) -> list[RankResults]:
        "Return the contexts, of some numbers of ranks."
        return [context for context, _ in self.compared if context.trial.world in worlds]

    def gradients(self, worlds: range = ANY) -> list[RankResults]:
        "Return the gradients, of some numbers of ranks."
        return [slopes for _, slopes in self.compared if slopes.trial.world in worlds]

    @cached_property
    def sound(self) -> bool:
        "Return whether everything finished, and all numbers are right."
        slopes = self.gradients() if self.sharding.contract.gradients else []
        return not self.fault and not _wrong_results([*self.contexts(), *slopes])


def _beside_right(trial: Trial, given: Sequence[RankOutput]) -> tuple[RankResults, RankResults]:
    "Set the context and the gradients of a trial beside the right ones."
    context, gradients = trial.right()
    return contexts_of(trial, given, context), compared_gradients(trial, given, gradients)


def _wrong_results(compared: Sequence[RankResults]) -> list[RankResults]:
    "List the trials whose numbers are wrong, small ones first."
    bad = [each for each in compared if each.off > each.trial.sharding.tolerance]
    return sorted(bad, key=lambda each: (each.trial.world, each.trial.n))


def _first_wrong_rank(compared: RankResults) -> str:
    "Show the first rank whose numbers are wrong."
    trial, several = compared.trial, len(compared.got) > compared.trial.world
    for place, (got, right) in enumerate(zip(compared.got, compared.right)):
        if got.shape == right.shape and _near(got, right, compared.size * trial.sharding.tolerance):
            continue
        rank, which = divmod(place, 3 if several else 1)
        what = f"gradient of {'qkv'[which]}" if several else "context"
        return f"{trial.shown}: {what} on rank {rank}: {first_difference(got, right)}"
    return trial.shown


def _near(got: Tensor, right: Tensor, most: float) -> bool:
    "Return whether no two numbers are farther apart."
    return not got.numel() or bool((got - right).abs().max() <= most)


# Every rank finishes ------------------------------------------------------------------------------


def _must_finish(study: Study) -> str:
    "Every rank finishes, with a context for its own queries."
    if study.fault and not _by_lengths(study):
        raise Broken(_fault_in_words(study.fault), _bug_of(study.fault), last=True)
    for trial, given in study.finished:
        for rank, each in enumerate(given):
            _must_have_shape(trial, rank, each.context)
    worlds = ", ".join(map(str, study.sharding.worlds))
    lengths = sorted({trial.n for trial, _ in study.finished})
    return f"tried on {worlds} ranks (gloo), with {', '.join(map(str, lengths))} tokens"


def _by_lengths(study: Study) -> str:
    "Return the code of a fault that equal shards do not have; empty if they have it."
    trial, sharding = study.fault.trial, study.sharding  # type: ignore[union-attr]
    if not any(done.world == trial.world for done, _ in study.finished):
        return ""
    if sharding.leaves_empty(trial.n, trial.world):
        return "shards.empty"
    return "" if sharding.shares_equally(trial.n, trial.world) else "shards.uneven"


def _must_take_lengths(study: Study) -> None:
    "Ranks may hold different numbers of tokens, or none."
    if study.sharding.even:
        raise NotChecked("even=True: it takes equal shards alone")
    fault = study.fault
    if fault is None:
        return
    if _wrong_results(study.contexts()):
        raise NotChecked("contexts of equal shards are wrong already")
    first = fault.message.splitlines()[0].partition(": ")[2]
    how = "ranks wait for each other in vain" if fault.kind == "stuck" else first
    raise Broken(_fault_in_words(fault), known(_by_lengths(study), how=how))


def _must_have_shape(trial: Trial, rank: int, context: Any) -> None:
    "Raise Broken unless a rank returned a tensor as large as its queries."
    must_be_tensor(None if context == "NoneType" else context)
    want = tuple(trial.part(trial.upstream, rank).shape)
    if tuple(context.shape) != want:
        bug = known("ranks.shape", got=tuple(context.shape), rank=rank, want=want)
        raise Broken(trial.shown, bug, last=True)


def _fault_in_words(fault: RunFault) -> str:
    "Describe what ended the run."
    return f"{fault.trial.shown}, {fault.stage}:\n{fault.message}"


def _bug_of(fault: RunFault) -> Bug:
    "Name what ended the run."
    first = fault.message.splitlines()[0].partition(": ")[2]
    if fault.kind == "died":
        return known("ranks.died", how=first)
    if fault.kind == "stuck":
        return known("ranks.stuck")
    if fault.raised < fault.trial.world:
        return known("ranks.one_raises", some=f"rank {fault.rank}", error=first)
    return known("code.raises", what="the code", error=first.partition(":")[0])


# Numbers ------------------------------------------------------------------------------------------


def _must_be_right_alone(study: Study) -> None:
    "On one rank it is attention."
    if not study.contexts(ONE):
        raise NotChecked("one rank alone was not tried")
    if wrong := _wrong_results(study.contexts(ONE)):
        raise Broken(_first_wrong_rank(wrong[0]), name_alone(study.contexts(ONE)))
    if study.sharding.contract.gradients and (wrong := _wrong_results(study.gradients(ONE))):
        missing = _without_gradient(study, 1)
        bug = known("grad.unreached", name=missing) if missing else known("grad.wrong")
        raise Broken(
            _first_wrong_rank(wrong[0]), known("grad.none") if missing == "q, k, v" else bug
        )


def _without_gradient(study: Study, least: int) -> str:
    "List the inputs that get no gradient on any rank, with at least so many ranks."
    reached: set[str] = set()
    for trial, ranks in study.finished:
        for each in ranks if trial.world >= least else ():
            gradients = zip("qkv", each.gradients or (None,) * 3)
            reached |= {name for name, gradient in gradients if gradient is not None}
    return ", ".join(name for name in "qkv" if name not in reached)


def _must_give_contexts(study: Study) -> None:
    "On several ranks each gets the context of its own tokens."
    if _wrong_results(study.contexts(ONE)):
        raise NotChecked("it is wrong on one rank already")
    several = study.contexts(SEVERAL)
    if not several:
        raise NotChecked("no trial on several ranks finished")
    if wrong := _wrong_results(several):
        raise Broken(_first_wrong_rank(wrong[0]), name_context(several))


def _must_give_gradients(study: Study) -> None:
    "On several ranks the gradients of q, k and v are right."
    several = study.gradients(SEVERAL)
    if not several or _wrong_results(study.contexts()):
        raise NotChecked("gradients are compared when all contexts are right")
    if not (wrong := _wrong_results(several)):
        return
    missing = _without_gradient(study, 2)
    named = known("backward.none", names=missing) if missing else name_gradients(several)
    raise Broken(_first_wrong_rank(wrong[0]), named)


# Other trials -------------------------------------------------------------------------------------


def _must_be_sound(study: Study) -> None:
    "Raise NotChecked unless all was right so far."
    if not study.sound:
        raise NotChecked("it is tried when all numbers are right")


def _trial_on_several(study: Study, **choices: Any) -> Trial:
    "Draw one trial on several ranks, with equal shards."
    world = min((w for w in study.sharding.worlds if w > 1), default=1)
    n = study.sharding.lengths(world)[0]
    return trial_of(study.sharding, world, n, **choices)


def _results_of(
    study: Study, trial: Trial, blamed: Bug | None = None, **how: Any
) -> tuple[RankOutput, ...]:
    "Try one more trial; raise Broken, with the bug that is to blame, if it does not finish."
    seen = study.run([trial], **how)
    if seen.fault:
        raise Broken(_fault_in_words(seen.fault), blamed or _bug_of(seen.fault))
    return seen.given[0]


def _must_stand_large_scores(study: Study) -> None:
    "Large scores do not overflow."
    _must_be_sound(study)
    trial = _trial_on_several(study, times=_LARGE)
    compared, _ = _beside_right(trial, _results_of(study, trial, gradients=False))
    if compared.off > max(LEAST, study.sharding.tolerance):
        raise Broken(_first_wrong_rank(compared), known("shares.overflow"))


def _must_take_strides(study: Study) -> None:
    "Inputs may be transposed views."
    _must_be_sound(study)
    trial = _trial_on_several(study)
    compared, _ = _beside_right(
        trial, _results_of(study, trial, known("memory.contiguous"), strided=True)
    )
    if compared.off > study.sharding.tolerance:
        raise Broken("contexts of transposed inputs are wrong", known("memory.strides"))


def _must_not_modify(study: Study) -> None:
    "Inputs are not modified."
    for trial, given in study.finished:
        for rank, each in enumerate(given):
            if each.changed:
                shown = f"{trial.shown}: {each.changed} changed on rank {rank}"
                raise Broken(shown, known("input.modified", name=each.changed))


def _must_repeat(study: Study) -> None:
    "A second call gives the same."
    for trial, given in study.finished:
        for rank, each in enumerate(given):
            if isinstance(each.context, Tensor) and not _same_context(each.context, each.again):
                raise Broken(f"{trial.shown}, rank {rank}", known("ranks.differ"))


def _same_context(one: Tensor, other: Any) -> bool:
    "Return whether two contexts are the same."
    alike = isinstance(other, Tensor) and one.shape == other.shape
    return alike and torch.allclose(one, other, SHORT_SUMS, 1e-8, equal_nan=True)


def _must_stand_sixteen_bits(study: Study) -> None:
    "In bfloat16 ranks lose no more than one does."
    _must_be_sound(study)
    widest = max(study.sharding.worlds)
    one, several = (_error_in_bfloat16(study, world) for world in (1, widest))
    if several > _MORE * one:
        bug = known("shares.sixteen_bits", times=f"{several / one:.1f}")
        raise Broken(f"{widest} ranks, 96 tokens", bug)


def _error_in_bfloat16(study: Study, world: int) -> float:
    "Return the mean error in bfloat16."
    contract = replace(study.sharding.contract, dtype="bfloat16")
    trial = trial_of(replace(study.sharding, contract=contract), world, 96)
    seen = study.run([trial], gradients=False)
    if seen.fault:
        raise NotChecked(f"in bfloat16: {seen.fault.message.splitlines()[0]}")
    compared, _ = _beside_right(trial, seen.given[0])
    errors = [(g - r).flatten() for g, r in zip(compared.got, compared.right)]
    return float(torch.cat(errors).square().mean().sqrt())


def _must_work_in_groups(study: Study) -> None:
    "In groups that are parts of the world it gives the same."
    if not takes_group(study.fn):
        raise NotChecked("it takes no group=")
    _must_be_sound(study)
    trial = trial_of(study.sharding, 2, study.sharding.lengths(2)[0])
    given = _results_of(study, trial, known("ranks.group"), groups=_GROUPS)
    for group in _GROUPS:
        compared, _ = _beside_right(trial, [given[rank] for rank in group])
        if compared.off > study.sharding.tolerance:
            raise Broken(
                f"group {group} of 4 ranks: {_first_wrong_rank(compared)}", known("ranks.group")
            )


_PROPERTIES = [
    Property.of(_must_finish),
    Property.of(_must_be_right_alone),
    Property.of(_must_give_contexts, compares=_ORACLE),
    Property.of(_must_give_gradients, differentiates=True),
    Property.of(_must_take_lengths),
    Property.of(_must_stand_large_scores),
    Property.of(_must_take_strides),
    Property.of(_must_not_modify),
    Property.of(_must_repeat),
    Property.of(_must_stand_sixteen_bits, sixteen_bits=True),
    Property.of(_must_work_in_groups),
]
