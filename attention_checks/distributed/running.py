"""Run the code under test on every rank, and read what each rank gave, even if some did not end."""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from attention_checks.distributed.shards import Trial
from attention_checks.subjects.calling import first_tensor
from attention_checks.their_code.signatures import parameters_of
from attention_nb.tools.ranks import RankError, Ranks

Fn = Callable[..., Any]


class RankOutput(NamedTuple):
    "What one rank gave in one trial."

    context: Any  # what the function returned, or the first of several
    gradients: tuple[Tensor | None, ...] | None = None  # of q, k and v; None: no graph
    again: Tensor | None = None  # the context of a second call
    changed: str = ""  # the name of an input that was modified


class RunFault(NamedTuple):
    "Why the ranks did not finish."

    trial: Trial  # the trial in which it happened
    stage: str  # "forward" or "backward"
    kind: str  # "died", "raised" or "stuck"
    rank: int  # the first rank to blame
    message: str  # one line for each rank
    raised: int = 0  # how many ranks raised an error


class RunResults(NamedTuple):
    "What came of some trials with one number of ranks."

    trials: tuple[Trial, ...]
    given: tuple[tuple[RankOutput, ...], ...]  # for each finished trial, what each rank gave
    fault: RunFault | None = None  # what ended the run early

    def pairs(self) -> Iterator[tuple[Trial, tuple[RankOutput, ...]]]:
        "List the finished trials with what the ranks gave."
        return zip(self.trials, self.given)


class Job(NamedTuple):
    "What is tried on ranks that stay, and how."

    fn: Fn  # the code under test
    trials: tuple[Trial, ...]  # of one number of ranks, one after the other
    gradients: bool = True  # also the backward pass
    strided: bool = False  # inputs that are not contiguous in memory
    groups: tuple[tuple[int, ...], ...] = ()  # of ranks; each tries the trials alone

    @property
    def world(self) -> int:
        "Return the number of ranks."
        return sum(map(len, self.groups)) or self.trials[0].world


def _on_rank(rank: int, job: Job, folder: Path) -> None:
    "Try all trials on this rank; write down each result, and before it what is tried."
    group, number = _own_group(rank, job.groups)
    fn = partial(job.fn, group=group) if takes_group(job.fn) else job.fn
    for i, trial in enumerate(job.trials):
        inputs = trial.inputs(number)
        if job.strided:  # heads and tokens lie in memory the other way round
            inputs = tuple(x.transpose(1, 2).contiguous().transpose(1, 2) for x in inputs)
        upstream = trial.part(trial.upstream, number) if job.gradients else None
        note = lambda stage, i=i: (folder / f"at-{rank}").write_text(f"{i} {stage}")
        given = _called(fn, inputs, upstream, note)
        torch.save(tuple(given), folder / f"{i}-{rank}.pt")


def _called(
    fn: Fn,
    inputs: Sequence[Tensor],
    upstream: Tensor | None,  # the gradient of the context; None: no backward pass
    note: Callable[[str], Any],  # writes down what is tried
) -> RankOutput:
    "Call a function forward and backward, and once more."
    note("forward")
    before = [x.clone() for x in inputs]
    leaves = [x.requires_grad_(upstream is not None) for x in inputs]
    context, _ = first_tensor(fn(*(x.view_as(x) for x in leaves)))
    note("backward")
    gradients = _gradients(context, upstream, leaves)
    note("forward")
    with torch.no_grad():
        again, _ = first_tensor(fn(*(x.detach() for x in leaves)))
    changed = [name for name, x, y in zip("qkv", leaves, before) if not torch.equal(x, y)]
    return RankOutput(_plain(context), gradients, _plain(again), "".join(changed[:1]))


def _gradients(context: Any, upstream: Tensor | None, leaves: Sequence[Tensor]) -> Any:
    "Return the gradients of q, k and v; None without a way back."
    if upstream is None or not isinstance(context, Tensor) or not context.requires_grad:
        return None
    if context.shape != upstream.shape:
        return None
    return torch.autograd.grad((context * upstream.to(context)).sum(), leaves, allow_unused=True)


def _own_group(rank: int, groups: Sequence[Sequence[int]]) -> tuple[Any, int]:
    "Make the groups, and give this rank's own with its number there."
    own: tuple[Any, int] = (None, rank)
    for ranks in groups:
        group = dist.new_group(list(ranks))  # every rank makes every group
        own = (group, ranks.index(rank)) if rank in ranks else own
    return own


def _plain(out: Any) -> Any:
    "Return a tensor without its history, and of anything else the type's name."
    return out.detach() if isinstance(out, Tensor) else type(out).__name__


def takes_group(fn: Fn) -> bool:
    "Return whether a function takes the group of its ranks by name."
    return "group" in (parameters_of(fn) or {})


def rank_starter() -> Ranks:
    "Hold a process from which ranks start at once; none is left at the end."
    return Ranks("attention_checks.distributed.running")


def run_trials(ranks: Ranks, job: Job) -> RunResults:
    "Try the trials one after the other; stop where one does not finish."
    with TemporaryDirectory(prefix="check-distributed-") as folder:
        fault = None
        try:
            timeout = job.trials[0].sharding.timeout
            ranks.run(_on_rank, job.world, job, Path(folder), timeout=timeout)
        except RankError as e:
            fault = _fault(e, job, Path(folder))
        return RunResults(job.trials, tuple(_results(job, Path(folder))), fault)


def _results(job: Job, folder: Path) -> Iterator[tuple[RankOutput, ...]]:
    "Read the trials that every rank has finished."
    for i in range(len(job.trials)):
        files = [folder / f"{i}-{rank}.pt" for rank in range(job.world)]
        if not all(file.exists() for file in files):
            return
        yield tuple(RankOutput(*torch.load(file, weights_only=False)) for file in files)


_RAISED = re.compile(r"^\(?rank \d+(?: of \d+)?: (?!it (?:died|did not|waits|returned))", re.M)
_STUCK = re.compile("it (did not|waits|returned)|.*([Tt]imed out|closed by peer)", re.S)


def _fault(e: RankError, job: Job, folder: Path) -> RunFault:
    "Describe what ended the run."
    at = folder / f"at-{e.rank}"  # none if the function did not arrive
    number, stage = (at.read_text() if at.exists() else "").split() or ["0", "forward"]
    kind = "died" if e.reason.startswith("it died") else "raised"
    kind = "stuck" if _STUCK.match(e.reason) else kind
    lines = [line for line in str(e).splitlines() if re.match(r"\(?rank \d+", line)]
    message = "\n".join(line[1:-1] if line.startswith("(") else line for line in lines)
    raised = len(_RAISED.findall(str(e)))
    return RunFault(job.trials[int(number)], stage, kind, e.rank, message, raised)
