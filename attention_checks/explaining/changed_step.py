"""Change one step of a declared function: a layer that gives those numbers lacks that step."""

from __future__ import annotations

import linecache
import math
import sys
from collections.abc import Callable, Collection, Iterator
from functools import partial
from itertools import chain, combinations, islice
from types import FrameType
from typing import Any, NamedTuple

import torch
import torch.nn as nn
from torch import Tensor
from torch.nn.modules.module import register_module_forward_hook
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

from attention_checks.catalogue import known
from attention_checks.explaining.pipeline import Bug, Memo, Work, after, run
from attention_checks.explaining.search import Case
from attention_checks.numbers.tolerance import ONE_NUMBER
from attention_checks.outcomes import is_theirs
from attention_checks.spec import Contract

_OURS = __name__.partition(".")[0]
_ALONG = ("softmax", "log_softmax", "normalize", "cumsum", "flip")
_BROADCAST = ("add", "sub", "mul", "div", "truediv")
_OPPOSITE: dict[str, Callable[..., Tensor]] = {
    "add": torch.sub,
    "sub": torch.add,
    "mul": torch.div,
    "div": torch.mul,
    "truediv": torch.mul,
    "sin": torch.cos,
    "cos": torch.sin,
}
_SIGNED = ("sub", "rsub", "add", "sin", "matmul", "einsum")
_SCALED = (
    *("mul", "rmul", "div", "truediv", "matmul", "rmatmul", "bmm", "einsum"),
    *("softmax", "scaled_dot_product_attention"),
)
_FACTORS = [0.52 * i for i in range(-6, 7)]  # logarithms: up to 23, or a 23rd
_STEP = 1e-2  # of a logarithm, to take a derivative
_MOST = 300  # changes that are tried, and pairs of them
_SAYS = {  # kind of a change → what it does
    "missing": "{operation} is left out",
    "turned": "{operation} joins in the other order",
    "opposite": "{other} stands for {operation}",
    "signed": "{operation} has the other sign",
    "along": "{operation} is taken over dim={other}, not dim={dim}",
    "given": "{operation} is given another tensor of that shape",
}
_NAMED = {  # a change of scores: operation, kind, and what stands for it → the code of that bug
    ("softmax", "missing", ""): "softmax.missing",
    ("softmax", "along", "-2"): "softmax.over_queries",
    ("softmax", "along", "-3"): "softmax.over_heads",
    ("softmax", "along", "-4"): "softmax.over_batch",
    ("masked_fill", "missing", ""): "mask.ignored",
    ("add", "missing", ""): "bias.ignored",
    ("add", "opposite", "sub"): "bias.subtracted",
}
_CHOICES = {  # stage → what may be declared of it, and runs code of others
    "mix": ["attend"],
    after("route"): ["bias"],
    after("rotate"): ["shortened", "scale"],
    "rotate": ["rotate"],
    "before split": ["norms"],
    after("split"): ["norms"],
    after("mix"): ["norms", "activation", "value_scale", "gate"],
    after("merge"): ["gate"],
    after("project"): ["residual", "activation"],
}


class _Change(NamedTuple):
    "A change of one operation, and where that runs."

    operation: str
    kind: str  # one of _SAYS, or "scaled"
    other: str = ""  # what stands for what it was: an operation, or a dimension
    dim: int = -1  # the dimension that it was
    line: str = ""  # of the author's code
    shape: torch.Size = torch.Size()  # of what the operation gives

    @property
    def what(self) -> str:
        "Say what is changed, and in which line."
        says = _SAYS[self.kind].format(**self._asdict())
        return f"{says} ({self.line})" if self.line else says

    def is_of_scores(self, work: Work) -> bool:
        "Return whether the operation gives a number for each query and key."
        return self.shape[-2:] == (work.q.shape[-2], work.k.shape[-2])


_Way = tuple[_Change, Callable[[], Any]]  # a change, and what the operation gives then


def declared_at(contract: Contract, stage: str) -> str:  # empty where there is none
    "Return the choice that is declared of a stage, and runs code of others."
    names = _CHOICES.get(stage, [])
    return next((name for name in names if getattr(contract, name) is not None), "")


def changed_step(
    contract: Contract,  # what was declared
    case: Case,  # what was seen
    most: int = 1,  # how many steps at once
) -> tuple[Bug, ...]:  # (): no such change gives it
    "Find the steps of a declared choice without which, or changed, it gives what was seen."
    for stage in _CHOICES:
        name = declared_at(contract, stage)
        if not name or stage not in case.stages:
            continue
        trial = _Trial(case, stage, {})
        if bug := _scaled(trial, name):
            return (bug,)
        if found := _changes(trial, most):
            return tuple(_named(case.work, name, *each) for each in found)
    return ()


class _Trial(NamedTuple):
    "A stage whose operations are changed."

    case: Case
    stage: str
    memo: Memo

    def run(
        self, inputs: Collection[Tensor] = (), chosen: Collection[int] = (), factor: float = 1.0
    ) -> tuple[Work | None, _Changing]:
        "Go through the stages while the changes in this one are counted, and some are made."
        mode, step = _Changing(inputs, chosen, factor), self.case.stages[self.stage]

        def called(work: Work) -> Work:
            with mode:
                return step(work)

        bug = Bug("", "", {self.stage: called})
        return run(self.case.work, [bug], self.memo, self.case.stages), mode

    def scaled(self, i: int, log: float) -> Work | None:
        "Return what is made with one product scaled, by the logarithm of its factor."
        return self.run(chosen=(i,), factor=math.exp(log))[0]


def _scaled(trial: _Trial, name: str) -> Bug | None:
    "Name the product of a declared function that is wrongly scaled, if one is."
    for i, change in enumerate(trial.run()[1].changes):
        if change.kind != "scaled" or not (factor := _nearest_factor(trial, i)):
            continue
        wrong = not math.isclose(factor, 1, rel_tol=ONE_NUMBER)
        if not wrong or not trial.case.given_by(trial.scaled(i, math.log(factor))):
            continue
        where = f"{change.operation}, {change.line}" if change.line else change.operation
        if change.is_of_scores(trial.case.work):
            return known("scale.term", name=name, found=f"{factor:.4g}", what=where)
        what = f"its first tensor is multiplied by {factor:.4g} ({where})"
        return known("layer.step", name=name, what=what)
    return None


def _nearest_factor(trial: _Trial, i: int) -> float | None:
    "Fit a factor by its logarithm: the best of several, and then by Gauss and Newton."
    seen = trial.case.seen

    def off(log: float) -> Tensor:
        made = trial.scaled(i, log)
        fits = made is not None and made.out.shape == seen.shape
        return made.out - seen if made and fits else torch.full_like(seen, math.inf)

    log = min(_FACTORS, key=lambda log: float(off(log).norm()))
    for _ in range(6):
        error = off(log).flatten()
        slope = (off(log + _STEP).flatten() - error) / _STEP
        change = float(error @ slope / (slope @ slope))
        if not math.isfinite(change):
            return None
        log -= max(-1.0, min(1.0, change))
    return math.exp(log)


def _named(work: Work, name: str, change: _Change, which: str) -> Bug:
    "Return the known bug that a change is, of scores or of a softmax; else say what it is."
    code = _NAMED.get(change[:3], "") if change.is_of_scores(work) else ""
    if not code and change[:2] == ("softmax", "along"):
        return known("softmax.dim", other=change.other, dim=change.dim)
    return known(code) if code else known("layer.step", name=name, what=change.what + which)


def _changes(trial: _Trial, most: int) -> list[tuple[_Change, str]]:  # []: none, or none is needed
    "Return the fewest changes of operations in a stage that give what was seen."
    made, seen = trial.run()
    if trial.case.given_by(made):
        return []
    changes = trial.run(seen.inputs)[1].changes
    tried = [i for i, change in enumerate(changes) if change.kind != "scaled"]
    alone = [i for i in tried if changes[i].kind != "given"]
    several = [islice(combinations(alone, n), _MOST) for n in range(2, most + 1)]
    for some in chain(islice(combinations(tried, 1), _MOST), *several):
        if trial.case.given_by(trial.run(seen.inputs, some)[0]):
            return [(changes[i], _which(changes, i)) for i in some]
    return []


def _which(changes: list[_Change], i: int) -> str:
    "Say in which call of its line a change is made, if that runs more than once."
    same = [at for at, change in enumerate(changes) if change == changes[i]]
    return f", in call {same.index(i) + 1} of {len(same)}" if len(same) > 1 else ""


class _Changing(TorchFunctionMode):
    "Count what may be changed in all operations that run, and make some of these changes."

    def __init__(self, inputs: Collection[Tensor], chosen: Collection[int], factor: float):
        super().__init__()
        self.changes: list[_Change] = []
        self.inputs: list[Tensor] = []  # what operations were given that none of them made
        self.made: list[Tensor] = []
        self.known_inputs, self.chosen, self.factor = inputs, chosen, factor

    def __enter__(self) -> _Changing:
        self.hook = register_module_forward_hook(self.after_module)
        TorchFunctionMode.__enter__(self)
        return self

    def __exit__(self, *error: Any) -> None:
        TorchFunctionMode.__exit__(self, *error)
        self.hook.remove()

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        made = func(*args, **kwargs)
        line = _line_of_caller()
        if line is None or not isinstance(made, Tensor) or not made.is_floating_point():
            return made
        ways = [*_other_results(func, args, kwargs, made), *self._other_inputs(func, args, kwargs)]
        if (name := _name_of(func)) in _SCALED:
            scaled = lambda: func(*_with_first_scaled(args, self.factor), **kwargs)
            ways.append((_Change(name, "scaled"), scaled))
        chosen = self._one_of(ways, made, line)
        self.made.append(chosen)
        return chosen

    def _other_inputs(self, func: Any, args: Any, kwargs: Any) -> Iterator[_Way]:
        "Yield what an operation gives if it is given another tensor of the same shape."
        leaves, tree = tree_flatten(args)
        for at, t in enumerate(leaves):
            if not isinstance(t, Tensor) or any(t is other for other in self.made):
                continue
            self.inputs += [] if any(t is other for other in self.inputs) else [t]
            for other in self.known_inputs:
                if other.shape == t.shape and other.dtype == t.dtype and not other.equal(t):
                    changed = tree_unflatten([*leaves[:at], other, *leaves[at + 1 :]], tree)
                    yield _Change(_name_of(func), "given"), partial(func, *changed, **kwargs)

    def after_module(self, module: nn.Module, args: Any, made: Any) -> Any:
        "Leave out a module that is called, if it gives what it might be given."
        name = type(module).__name__.strip("_")
        return self._one_of([*_left_out(name, args, made)], made, _line_of_caller())

    def _one_of(self, ways: list[_Way], made: Any, line: str | None) -> Any:
        "Return what is given after the change, or what is given without one."
        for change, other in ways:
            if len(self.changes) in self.chosen:
                made = other()
            shape = getattr(made, "shape", torch.Size())
            self.changes.append(change._replace(line=line or "", shape=shape))
        return made


def _with_first_scaled(args: tuple[Any, ...], factor: float) -> Any:
    "Scale the first tensor in some arguments."
    leaves, tree = tree_flatten(args)
    first = next((i for i, t in enumerate(leaves) if isinstance(t, Tensor)), None)
    return tree_unflatten([factor * t if i == first else t for i, t in enumerate(leaves)], tree)


def _other_results(func: Any, args: Any, kwargs: Any, made: Tensor) -> Iterator[_Way]:
    "Yield what an operation gives if it is left out, or done in another way."
    name = _name_of(func)
    if not args:
        return
    yield from _left_out(name, args, made)
    if name in ("cat", "concat") and len(args[0]) > 1:
        turned = [*reversed(args[0])]
        yield _Change(name, "turned"), lambda: func(turned, *args[1:], **kwargs)
    if other := _OPPOSITE.get(name):
        yield _Change(name, "opposite", _name_of(other)), partial(other, *args, **kwargs)
    if name in _SIGNED:
        yield _Change(name, "signed"), made.neg
    if name in _ALONG:
        yield from _along_others(name, func, args, kwargs, made)


def _left_out(name: str, args: Any, made: Any) -> Iterator[_Way]:
    "Yield each tensor that an operation was given and that might stand for what it gave."
    for t in tree_leaves(args):
        if not isinstance(t, Tensor) or not isinstance(made, Tensor):
            continue
        if t.shape == made.shape or name in _BROADCAST and t.ndim == made.ndim:
            yield _Change(name, "missing"), partial(t.expand_as, made)


def _along_others(name: str, func: Any, args: Any, kwargs: Any, made: Tensor) -> Iterator[_Way]:
    "Yield what an operation gives along other dimensions."
    dim = kwargs.get("dim", args[1] if len(args) > 1 else None)
    rest = {key: value for key, value in kwargs.items() if key != "dim"}
    if not isinstance(dim, int):
        return
    for other in range(-made.ndim, 0):
        if other != dim and other + made.ndim != dim:
            given = partial(func, args[0], dim=other, **rest)
            yield _Change(name, "along", str(other), dim), given


def _name_of(func: Any) -> str:
    "Return the name of an operation."
    return getattr(func, "__name__", "").strip("_")


def _line_of_caller() -> str | None:
    "Return the line of the caller's code that runs; None where it is a line of the checks."
    frame: FrameType | None = sys._getframe(1)
    while frame and not is_theirs(frame.f_globals):
        module = frame.f_globals.get("__name__", "")
        if module != __name__ and module.startswith(_OURS):
            return None
        frame = frame.f_back
    return linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()[:80] if frame else ""
