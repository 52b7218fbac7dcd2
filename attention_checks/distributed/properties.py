"""What must hold of attention over ranks: all finish, and give what one rank alone would give."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from attention_checks.catalogue import known
from attention_checks.distributed.naming import (
    Compared,
    contexts_of,
    gradients_of,
    name_alone,
    name_context,
    name_gradients,
)
from attention_checks.distributed.running import Fault, Given, Seen, run_trials, takes_group
from attention_checks.distributed.shards import Sharding, Trial, trial_of, trials_of
from attention_checks.examine import Broken, NotChecked
from attention_checks.numbers import must_be_tensor
from attention_checks.pipeline import Bug
from attention_checks.properties import Properties, Relation, listed
from attention_nb.tools.ranks import Ranks

_LARGE = 400.0  # factor of the queries: scores of a thousand, whose exponentials overflow
_MORE = 1.2  # times as much is lost by partials in 16 bits (1.4 on 4 ranks); rounding alone: 1.1
_GROUPS = ((1, 3), (0, 2))  # two groups in one world: their ranks are not those of the world
_ORACLE = "attention on one rank, in float64"


@dataclass(frozen=True)
class Study:
    "The code under test with what was declared of it, and what its ranks gave."

    fn: Callable[..., Any]
    sharding: Sharding
    ranks: Ranks

    @cached_property
    def seen(self) -> list[Seen]:
        "Run the trials for each number of ranks, until one does not finish."
        found: list[Seen] = []
        for world in self.sharding.worlds:
            found.append(self.run(list(trials_of(self.sharding, world))))
            if found[-1].fault:
                break
        return found

    def run(self, trials: Sequence[Trial], **how: Any) -> Seen:
        "Run some trials."
        how.setdefault("gradients", self.sharding.contract.gradients)
        return run_trials(self.ranks, self.fn, trials, **how)

    @cached_property
    def finished(self) -> list[tuple[Trial, tuple[Given, ...]]]:
        "List the trials that all ranks finished."
        return [pair for seen in self.seen for pair in seen.pairs()]

    @cached_property
    def fault(self) -> Fault | None:
        "Give what ended the runs early."
        return next((seen.fault for seen in self.seen if seen.fault), None)

    @cached_property
    def right(self) -> list[tuple[Tensor, tuple[Tensor, ...]]]:
        "Give what should have come of the finished trials."
        return [trial.right() for trial, _ in self.finished]

    @cached_property
    def contexts(self) -> list[Compared]:
        "Compare all contexts."
        pairs = zip(self.finished, self.right)
        return [contexts_of(*pair, context) for pair, (context, _) in pairs]

    @cached_property
    def gradients(self) -> list[Compared]:
        "Compare all gradients."
        pairs = zip(self.finished, self.right)
        return [gradients_of(*pair, gradients) for pair, (_, gradients) in pairs]

    @property
    def widest(self) -> int:
        "Give the largest number of ranks."
        return max(self.sharding.worlds)

    @cached_property
    def sound(self) -> bool:
        "Tell whether everything finished, and all numbers are right."
        slopes = self.gradients if self.sharding.contract.gradients else []
        return not self.fault and not _wrong([*self.contexts, *slopes])


def _wrong(compared: Sequence[Compared]) -> list[Compared]:
    "List the trials whose numbers are wrong, small ones first."
    bad = [each for each in compared if each.off > each.trial.sharding.tolerance]
    return sorted(bad, key=lambda each: (each.trial.world, each.trial.n))


def _shown(compared: Compared) -> str:
    "Show the first rank whose numbers are wrong."
    trial, several = compared.trial, len(compared.got) > compared.trial.world
    for place, (got, right) in enumerate(zip(compared.got, compared.right)):
        if got.shape == right.shape and _near(got, right, compared.size * trial.sharding.tolerance):
            continue
        rank, which = divmod(place, 3 if several else 1)
        what = f"gradient of {'qkv'[which]}" if several else "it"
        return f"{trial.shown}: {what} on rank {rank} {_first(got, right)}"
    return trial.shown


def _near(got: Tensor, right: Tensor, most: float) -> bool:
    "Tell whether no two numbers are farther apart."
    return not got.numel() or bool((got - right).abs().max() <= most)


def _first(got: Tensor, right: Tensor) -> str:
    "Describe the largest difference."
    if got.shape != right.shape:
        return f"has shape {tuple(got.shape)}, expected {tuple(right.shape)}"
    if not got.isfinite().all():
        return "is NaN or infinite"
    at = int((got - right).abs().argmax())
    index = [int(i) for i in torch.unravel_index(torch.tensor(at), got.shape)]
    return f"at {index} is {got.flatten()[at]:.4g}, expected {right.flatten()[at]:.4g}"


# Every rank finishes ------------------------------------------------------------------------------


def _finishes(study: Study) -> str:
    "Every rank finishes, and returns a context of the right shape."
    if study.fault and not _by_lengths(study):
        raise Broken(_said(study.fault), _bug_of(study.fault), last=True)
    for trial, given in study.finished:
        for rank, each in enumerate(given):
            _must_have_shape(trial, rank, each.context)
    worlds = ", ".join(map(str, study.sharding.worlds))
    lengths = sorted({trial.n for trial, _ in study.finished})
    return f"tried on {worlds} ranks (gloo), with {', '.join(map(str, lengths))} tokens"


def _by_lengths(study: Study) -> str:
    "Give the code of a fault that equal shards do not have; empty if they have it."
    trial, sharding = study.fault.trial, study.sharding  # type: ignore[union-attr]
    if not any(done.world == trial.world for done, _ in study.finished):
        return ""
    if sharding.leaves_empty(trial.n, trial.world):
        return "shards.empty"
    return "" if sharding.shares_equally(trial.n, trial.world) else "shards.uneven"


def _takes_lengths(study: Study) -> None:
    "Ranks may hold different numbers of tokens, or none."
    if study.sharding.even:
        raise NotChecked("even=True: it takes equal shards alone")
    fault = study.fault
    if fault is None:
        return
    if _wrong(study.contexts):
        raise NotChecked("contexts of equal shards are wrong already")
    first = fault.message.splitlines()[0].partition(": ")[2]
    how = "ranks wait for each other in vain" if fault.kind == "stuck" else first
    raise Broken(_said(fault), known(_by_lengths(study), how=how))


def _must_have_shape(trial: Trial, rank: int, context: Any) -> None:
    "Raise Broken unless a rank returned a tensor as large as its queries."
    must_be_tensor(None if context == "NoneType" else context)
    want = tuple(trial.part(trial.up, rank).shape)
    if tuple(context.shape) != want:
        bug = known("ranks.shape", got=tuple(context.shape), rank=rank, want=want)
        raise Broken(trial.shown, bug, last=True)


def _said(fault: Fault) -> str:
    "Describe what ended the run."
    return f"{fault.trial.shown}, {fault.stage}:\n{fault.message}"


def _bug_of(fault: Fault) -> Bug:
    "Name what ended the run."
    first = fault.message.splitlines()[0].partition(": ")[2]
    if fault.kind == "died":
        return known("ranks.died", how=first)
    if fault.kind == "stuck":
        return known("ranks.both_send" if set(fault.waits) == {"send"} else "ranks.stuck")
    if fault.trial.world == 1 < max(fault.trial.sharding.worlds):
        return known("ranks.alone", error=first.partition(":")[0])
    if fault.raised < fault.trial.world:
        return known("ranks.one_raises", some=f"rank {fault.rank}", error=first)
    return known("code.raises", error=first.partition(":")[0])


# Numbers ------------------------------------------------------------------------------------------


def _alone(study: Study) -> None:
    "On one rank it is attention."
    one = [each for each in study.contexts if each.trial.world == 1]
    if not one:
        raise NotChecked("one rank alone was not tried")
    if wrong := _wrong(one):
        raise Broken(_shown(wrong[0]), name_alone(one))
    slopes = [each for each in study.gradients if each.trial.world == 1]
    if study.sharding.contract.gradients and (wrong := _wrong(slopes)):
        missing = _without_gradient(study, 1)
        bug = known("grad.unreached", name=missing) if missing else known("grad.wrong")
        raise Broken(_shown(wrong[0]), known("grad.none") if missing == "q, k, v" else bug)


def _without_gradient(study: Study, least: int) -> str:
    "List the inputs that get no gradient on any rank, with at least so many ranks."
    given = [each for trial, ranks in study.finished if trial.world >= least for each in ranks]
    found = [each.gradients or (None,) * 3 for each in given]
    return ", ".join(x for i, x in enumerate("qkv") if all(of[i] is None for of in found))


def _must_be_right_alone(study: Study) -> None:
    "Raise NotChecked if it is wrong on one rank already."
    one = [each for each in study.contexts if each.trial.world == 1]
    if _wrong(one):
        raise NotChecked("it is wrong on one rank already")


def _contexts(study: Study) -> None:
    "On several ranks each gets the context of its own tokens."
    _must_be_right_alone(study)
    several = [each for each in study.contexts if each.trial.world > 1]
    if not several:
        raise NotChecked("no trial on several ranks finished")
    if wrong := _wrong(several):
        raise Broken(_shown(wrong[0]), name_context(several))


def _gradients(study: Study) -> None:
    "On several ranks the gradients are right."
    several = [each for each in study.gradients if each.trial.world > 1]
    if not several or _wrong(study.contexts):
        raise NotChecked("gradients are compared when all contexts are right")
    if not (wrong := _wrong(several)):
        return
    if missing := _without_gradient(study, 2):
        raise Broken(_shown(wrong[0]), known("backward.none", names=missing))
    raise Broken(_shown(wrong[0]), name_gradients(several))


# Other trials -------------------------------------------------------------------------------------


def _must_be_sound(study: Study) -> None:
    "Raise NotChecked unless all was right so far."
    if not study.sound:
        raise NotChecked("it is tried when all numbers are right")


def _several(study: Study, **choices: Any) -> Trial:
    "Draw one trial on several ranks, with equal shards."
    world = min((w for w in study.sharding.worlds if w > 1), default=1)
    n = study.sharding.lengths(world)[0]
    return trial_of(study.sharding, world, n, **choices)


def _only(seen: Seen) -> Compared:
    "Compare the contexts of a single trial."
    trial, given = next(iter(seen.pairs()))
    return contexts_of(trial, given, trial.right()[0])


def _large(study: Study) -> None:
    "Large scores do not overflow in merging."
    _must_be_sound(study)
    seen = study.run([_several(study, times=_LARGE)], gradients=False)
    if seen.fault:
        raise Broken(_said(seen.fault), _bug_of(seen.fault))
    compared = _only(seen)
    if compared.off > max(1e-6, study.sharding.tolerance):
        raise Broken(_shown(compared), known("shares.overflow"))


def _strided(study: Study) -> None:
    "Inputs may lie in memory in any order."
    _must_be_sound(study)
    seen = study.run([_several(study)], strided=True)
    if seen.fault:
        raise Broken(_said(seen.fault), known("memory.contiguous"))
    if _only(seen).off > study.sharding.tolerance:
        raise Broken("contexts of transposed inputs are wrong", known("memory.strides"))


def _unchanged(study: Study) -> None:
    "Inputs are not modified."
    for trial, given in study.finished:
        for rank, each in enumerate(given):
            if each.changed:
                shown = f"{trial.shown}: {each.changed} changed on rank {rank}"
                raise Broken(shown, known("input.modified", name=each.changed))


def _again(study: Study) -> None:
    "A second call gives the same."
    for trial, given in study.finished:
        for rank, each in enumerate(given):
            if isinstance(each.context, Tensor) and not _same(each.context, each.again):
                raise Broken(f"{trial.shown}, rank {rank}", known("ranks.differ"))


def _same(one: Tensor, other: Any) -> bool:
    "Tell whether two contexts are the same."
    alike = isinstance(other, Tensor) and one.shape == other.shape
    return alike and torch.allclose(one, other, 1e-5, 1e-8, equal_nan=True)


def _sixteen_bits(study: Study) -> None:
    "In bfloat16, several ranks lose no more than one."
    _must_be_sound(study)
    contract = replace(study.sharding.contract, dtype="bfloat16")
    sharding = replace(study.sharding, contract=contract)
    lost = [_lost(study, sharding, world) for world in (1, study.widest)]
    if lost[1] > _MORE * lost[0]:
        times = f"{lost[1] / lost[0]:.1f}"
        raise Broken(f"{study.widest} ranks, 96 tokens", known("shares.sixteen_bits", times=times))


def _lost(study: Study, sharding: Sharding, world: int) -> float:
    "Give the mean error in bfloat16."
    seen = study.run([trial_of(sharding, world, 96)], gradients=False)
    if seen.fault:
        raise NotChecked(f"in bfloat16: {seen.fault.message.splitlines()[0]}")
    compared = _only(seen)
    errors = [(g - r).flatten() for g, r in zip(compared.got, compared.right)]
    return float(torch.cat(errors).square().mean().sqrt())


def _in_groups(study: Study) -> None:
    "In a group that is a part of the world it gives the same."
    if not takes_group(study.fn):
        raise NotChecked("it takes no group=")
    _must_be_sound(study)
    sharding = study.sharding
    trial = trial_of(sharding, 2, sharding.lengths(2)[0])
    seen = study.run([trial], groups=_GROUPS)
    if seen.fault:
        raise Broken(_said(seen.fault), known("ranks.group"))
    given = seen.given[0]
    for group in _GROUPS:
        compared = contexts_of(trial, [given[rank] for rank in group], trial.right()[0])
        if compared.off > sharding.tolerance:
            raise Broken(f"group {group} of 4 ranks: {_shown(compared)}", known("ranks.group"))


def _declared_dtype(study: Study) -> str:
    "Tell why bfloat16 is not tried."
    return "another type is declared" if study.sharding.contract.dtype else ""


def _relations() -> Iterator[Relation]:
    "List what must hold."
    yield Relation("every rank finishes, with a context for its own queries", _finishes)
    yield Relation("on one rank it is attention", _alone)
    yield Relation(
        "on several ranks each gets the context of its own tokens", _contexts, compares=_ORACLE
    )
    yield Relation(
        "on several ranks the gradients of q, k and v are right", _gradients, differentiates=True
    )
    yield Relation("ranks may hold different numbers of tokens, or none", _takes_lengths)
    yield Relation("large scores do not overflow", _large)
    yield Relation("inputs may be transposed views", _strided)
    yield Relation("inputs are not modified", _unchanged)
    yield Relation("a second call gives the same", _again)
    yield Relation("in bfloat16 ranks lose no more than one does", _sixteen_bits, _declared_dtype)
    yield Relation("in groups that are parts of the world it gives the same", _in_groups)


def distributed_properties(
    fn: Callable[..., Any],  # fn(q, k, v) → context, called on every rank with its own part
    sharding: Sharding,  # what was declared
    ranks: Ranks,  # where the ranks start from
) -> Properties:  # what raises Broken or NotChecked, by name
    "List what attention over ranks must do."
    study = Study(fn, sharding, ranks)
    return listed(list(_relations()), lambda: study)
