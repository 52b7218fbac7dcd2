"""Run the code under test on every rank, and read what each rank gave, even if some did not end."""

from __future__ import annotations

import inspect
import re
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from attention_checks.distributed.shards import Trial
from attention_nb.tools.ranks import RankError, Ranks

Fn = Callable[..., Any]


class Given(NamedTuple):
    "What one rank gave in one trial."

    context: Any  # what the function returned, or the first of several
    gradients: tuple[Tensor | None, ...] | None = None  # of q, k and v; None: no graph
    again: Tensor | None = None  # the context of a second call
    changed: str = ""  # the name of an input that was modified


class Fault(NamedTuple):
    "Why the ranks did not finish."

    trial: Trial  # the trial in which it happened
    stage: str  # "forward" or "backward"
    kind: str  # "died", "raised" or "stuck"
    rank: int  # the first rank to blame
    message: str  # one line for each rank
    raised: int = 0  # how many ranks raised an error
    waits: tuple[str, ...] = ()  # the operation in which each rank gave up waiting, if it did


class Seen(NamedTuple):
    "What came of some trials with one number of ranks."

    trials: tuple[Trial, ...]
    given: tuple[tuple[Given, ...], ...]  # for each finished trial, what each rank gave
    fault: Fault | None = None  # what ended the run early

    def pairs(self) -> Iterator[tuple[Trial, tuple[Given, ...]]]:
        "List the finished trials with what the ranks gave."
        return zip(self.trials, self.given)


class Job(NamedTuple):
    "How the ranks are tried."

    fn: Fn
    trials: tuple[Trial, ...]
    folder: str
    gradients: bool = True  # also the backward pass
    strided: bool = False  # inputs that are not contiguous in memory
    groups: tuple[tuple[int, ...], ...] = ()  # of ranks; each tries the trials alone


def _on_rank(rank: int, job: Job) -> None:
    "Try all trials on this rank; write down in which operation it gave up."
    try:
        _try_all(rank, job)
    except BaseException as e:
        (Path(job.folder) / f"waits-{rank}").write_text(_operation(e))
        raise


def _operation(e: BaseException) -> str:
    "Name the operation of torch.distributed in which an error arose."
    names = [
        frame.f_code.co_name
        for frame, _ in traceback.walk_tb(e.__traceback__)
        if frame.f_globals.get("__name__", "").startswith("torch.distributed")
    ]
    found = [name for name in names if name != "wrapper"]
    return found[0] if found else "send" if "send operation" in str(e) else ""


def _try_all(rank: int, job: Job) -> None:
    "Try all trials; write down each result, and before it what is tried."
    place = Path(job.folder)
    group, number = _own_group(rank, job.groups)
    keyword = {"group": group} if takes_group(job.fn) else {}
    for i, trial in enumerate(job.trials):
        at = place / f"at-{rank}"
        at.write_text(f"{i} forward")
        q, k, v = _laid_out(trial.inputs(number), job.strided)
        given = _called(lambda *qkv: job.fn(*qkv, **keyword), (q, k, v), trial, number, job, at)
        torch.save(tuple(given), place / f"{i}-{rank}.pt")


def _own_group(rank: int, groups: Sequence[Sequence[int]]) -> tuple[Any, int]:
    "Make the groups, and give this rank's own with its number there."
    own: tuple[Any, int] = (None, rank)
    for ranks in groups:
        group = dist.new_group(list(ranks))  # every rank makes every group
        own = (group, ranks.index(rank)) if rank in ranks else own
    return own


def _laid_out(inputs: tuple[Tensor, ...], strided: bool) -> tuple[Tensor, ...]:
    "Give inputs in the memory layout that is tried."
    if not strided:
        return inputs
    return tuple(x.transpose(1, 2).contiguous().transpose(1, 2) for x in inputs)


def _called(
    fn: Fn, inputs: tuple[Tensor, ...], trial: Trial, rank: int, job: Job, at: Path
) -> Given:
    "Call it forward and backward, and once more."
    before = [x.clone() for x in inputs]
    leaves = [x.requires_grad_(job.gradients) for x in inputs]
    context = first_of(fn(*(x.view_as(x) for x in leaves)))
    gradients = None
    up = trial.part(trial.up, rank)
    if job.gradients and _has_history(context) and context.shape == up.shape:
        at.write_text(at.read_text().replace("forward", "backward"))
        gradients = torch.autograd.grad((context * up.to(context)).sum(), leaves, allow_unused=True)
    with torch.no_grad():
        again = first_of(fn(*(x.detach() for x in leaves)))
    changed = [name for name, x, y in zip("qkv", leaves, before) if not torch.equal(x, y)]
    return Given(_plain(context), gradients, _plain(again), "".join(changed[:1]))


def _has_history(context: Any) -> bool:
    "Tell whether there is a way back."
    return isinstance(context, Tensor) and context.requires_grad


def first_of(out: Any) -> Any:
    "Give the context: what a function returns, or the first of several."
    return out[0] if isinstance(out, (tuple, list)) and out else out


def _plain(out: Any) -> Any:
    "Give a tensor without its history, and of anything else the type's name."
    return out.detach() if isinstance(out, Tensor) else type(out).__name__


def takes_group(fn: Fn) -> bool:
    "Tell whether a function takes the group of its ranks by name."
    try:
        return "group" in inspect.signature(fn).parameters
    except (TypeError, ValueError):
        return False


@contextmanager
def nursery() -> Iterator[Ranks]:
    "Hold a process from which ranks start at once; none is left at the end."
    with Ranks("attention_checks.distributed.running") as ranks:
        yield ranks


def run_trials(
    ranks: Ranks,  # where the ranks start from
    fn: Fn,  # the code under test
    trials: Sequence[Trial],  # of one number of ranks
    gradients: bool = True,  # also the backward pass
    strided: bool = False,  # inputs that are not contiguous in memory
    groups: tuple[tuple[int, ...], ...] = (),  # of ranks; each tries the trials alone
) -> Seen:
    "Try the trials one after the other on ranks that stay; stop where one does not finish."
    world = sum(map(len, groups)) or trials[0].world
    with TemporaryDirectory(prefix="check-distributed-") as folder:
        job = Job(fn, tuple(trials), folder, gradients, strided, groups)
        fault = None
        try:
            ranks.run(_on_rank, world, job, timeout=trials[0].sharding.timeout)
        except RankError as e:
            fault = _fault(e, job, world)
        return Seen(job.trials, tuple(_results(job, world)), fault)


def _results(job: Job, world: int) -> Iterator[tuple[Given, ...]]:
    "Read the trials that every rank has finished."
    for i in range(len(job.trials)):
        files = [Path(job.folder) / f"{i}-{rank}.pt" for rank in range(world)]
        if not all(file.exists() for file in files):
            return
        yield tuple(Given(*torch.load(file, weights_only=False)) for file in files)


_RAISED = re.compile(r"^\(?rank \d+(?: of \d+)?: (?!it (?:died|did not|waits|returned))", re.M)


def _fault(e: RankError, job: Job, world: int) -> Fault:
    "Describe what ended the run."
    at = (Path(job.folder) / f"at-{e.rank}").read_text().split() or ["0", "forward"]
    kinds = {"it died": "died", "it did not": "stuck", "it waits": "stuck", "it returned": "stuck"}
    kind = next((kind for says, kind in kinds.items() if e.reason.startswith(says)), "raised")
    kind = "stuck" if re.search("[Tt]imed out|closed by peer", e.reason) else kind
    lines = [line for line in str(e).splitlines() if re.match(r"\(?rank \d+", line)]
    inner = (line[1:-1] if line.startswith("(") else line for line in lines)
    message = "\n".join(inner)
    raised = len(_RAISED.findall(str(e)))
    files = [Path(job.folder) / f"waits-{rank}" for rank in range(world)]
    waits = tuple(file.read_text() if file.exists() else "" for file in files)
    return Fault(job.trials[int(at[0])], at[1], kind, e.rank, message, raised, waits)
