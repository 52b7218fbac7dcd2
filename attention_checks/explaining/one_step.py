"""Change one step of a declared function: a layer that gives those numbers lacks that step."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain, combinations, islice
from typing import Any

import torch
import torch.nn as nn
from torch import Tensor
from torch.nn.modules.module import register_module_forward_hook
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

from attention_checks.catalogue import known
from attention_checks.explaining.callers import line_of_caller, name_of_operation
from attention_checks.explaining.one_factor import scaled_product
from attention_checks.explaining.pipeline import Bug, Memo, Step, Work, after, run
from attention_checks.explaining.search import Case, alike
from attention_checks.spec import Contract

_Way = tuple[str, Callable[[], Any]]  # what is changed, in words, and what it gives then
_Found = tuple[str, torch.Size]  # a change in words, and the shape of what is changed
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
_MOST = 300  # changes that are tried, and pairs of them
_NAMED = {  # how a change of scores begins, in words → the code of that bug
    "softmax is left out": "softmax.missing",
    "softmax is taken over dim=-2": "softmax.over_queries",
    "softmax is taken over dim=-3": "softmax.over_heads",
    "softmax is taken over dim=-4": "softmax.over_batch",
    "masked_fill is left out": "mask.ignored",
    "add is left out": "bias.ignored",
    "sub stands for add": "bias.subtracted",
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


def declared_at(
    contract: Contract,  # what was declared
    stage: str,  # of a layer
) -> str:  # empty where there is none
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
        if bug := _scaled(case, stage, name):
            return (bug,)
        if found := _changes(case, stage, most):
            return tuple(_named(case.work, name, *each) for each in found)
    return ()


def _scaled(case: Case, stage: str, name: str) -> Bug | None:
    "Name the product of a declared function that is wrongly scaled, if one is."
    memo: Memo = {}

    def output(mode: TorchFunctionMode) -> Tensor | None:
        bug = Bug("", "", {stage: _under(case.stages[stage], mode)})
        made = run(case.work, [bug], memo, case.stages)
        return made.out if made and made.out.shape == case.seen.shape else None

    agrees = lambda out: bool(alike(out, case.seen, case.atol))
    if not (found := scaled_product(output, case.seen, agrees)):
        return None
    product, factor = found
    if _of_scores(case.work, product.shape):
        return known("scale.term", name=name, found=f"{factor:.4g}", what=product.what)
    what = f"its first tensor is multiplied by {factor:.4g} ({product.what})"
    return known("layer.step", name=name, what=what)


def _of_scores(work: Work, shape: torch.Size) -> bool:
    "Return whether something has a number for each query and key."
    return shape[-2:] == (work.q.shape[-2], work.k.shape[-2])


def _named(work: Work, name: str, what: str, shape: torch.Size) -> Bug:
    "Return the known bug that a change is, of scores or of a softmax; else say what it is."
    of_scores = _of_scores(work, shape)
    code = next((c for says, c in _NAMED.items() if of_scores and what.startswith(says)), "")
    if not code and (dims := re.match(r"softmax is taken over dim=(-\d), not dim=(-?\d)", what)):
        return known("softmax.dim", other=dims[1], dim=dims[2])
    return known(code) if code else known("layer.step", name=name, what=what)


def _changes(case: Case, stage: str, most: int) -> list[_Found]:  # []: none, or none is needed
    "Return the fewest changes of operations in a stage that give what was seen."
    memo: Memo = {}
    made, seen = _under_changes(case, stage, memo, [])
    if case.given_by(made):
        return []
    ways = _under_changes(case, stage, memo, seen.inputs)[1].ways
    alone = [i for i, (what, _) in enumerate(ways) if "another tensor" not in what]
    tried = [islice(combinations(range(len(ways)), 1), _MOST)]
    tried += [islice(combinations(alone, n), _MOST) for n in range(2, most + 1)]
    for some in chain(*tried):
        if case.given_by(_under_changes(case, stage, memo, seen.inputs, some)[0]):
            return [_told_apart(ways, i) for i in some]
    return []


def _told_apart(ways: list[_Found], i: int) -> _Found:
    "Return a change, and in which call of its line it is made, if that runs more than once."
    same = [at for at, way in enumerate(ways) if way == ways[i]]
    which = f", in call {same.index(i) + 1} of {len(same)}" if len(same) > 1 else ""
    return ways[i][0] + which, ways[i][1]


def _under_changes(
    case: Case, stage: str, memo: Memo, inputs: list[Tensor], chosen: tuple[int, ...] = ()
) -> tuple[Work | None, _Changing]:
    "Go through the stages while the changes in one of them are counted, and some are made."
    mode = _Changing(inputs, chosen)
    bug = Bug("", "", {stage: _under(case.stages[stage], mode)})
    return run(case.work, [bug], memo, case.stages), mode


def _under(step: Step, mode: TorchFunctionMode) -> Step:
    "Return a step whose operations are counted, and one is changed."

    def called(work: Work) -> Work:
        with mode:
            return step(work)

    return called


class _Changing(TorchFunctionMode):
    "Count what may be changed in all operations that run, and make some of these changes."

    def __init__(self, known_inputs: list[Tensor], chosen: tuple[int, ...]):
        super().__init__()
        self.ways: list[_Found] = []
        self.inputs: list[Tensor] = []  # what operations were given that none of them made
        self.made: list[Tensor] = []
        self.known_inputs, self.chosen = known_inputs, chosen

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
        line = line_of_caller()
        if line is None or not isinstance(made, Tensor) or not made.is_floating_point():
            return made
        ways = [*_other_results(func, args, kwargs, made), *self._other_inputs(func, args, kwargs)]
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
                    what = f"{name_of_operation(func)} is given another tensor of that shape"
                    yield what, partial(func, *changed, **kwargs)

    def after_module(self, module: nn.Module, args: Any, made: Any) -> Any:
        "Leave out a module that is called, if it gives what it might be given."
        name = type(module).__name__.strip("_")
        return self._one_of([*_left_out(name, args, made)], made, line_of_caller())

    def _one_of(self, ways: list[_Way], made: Any, line: str | None) -> Any:
        "Return what is given after the change, or what is given without one."
        for what, other in ways:
            if len(self.ways) in self.chosen:
                made = other()
            shape = getattr(made, "shape", torch.Size())
            self.ways.append((f"{what} ({line})" if line else what, shape))
        return made


def _other_results(func: Any, args: Any, kwargs: Any, made: Tensor) -> Iterator[_Way]:
    "Yield what an operation gives if it is left out, or done in another way."
    name = name_of_operation(func)
    if not args:
        return
    yield from _left_out(name, args, made)
    if name in ("cat", "concat") and len(args[0]) > 1:
        turned = [*reversed(args[0])]
        yield f"{name} joins in the other order", lambda: func(turned, *args[1:], **kwargs)
    if other := _OPPOSITE.get(name):
        yield f"{name_of_operation(other)} stands for {name}", partial(other, *args, **kwargs)
    if name in _SIGNED:
        yield f"{name} has the other sign", made.neg
    if name in _ALONG:
        yield from _along_others(name, func, args, kwargs, made)


def _left_out(name: str, args: Any, made: Any) -> Iterator[_Way]:
    "Yield each tensor that an operation was given and that might stand for what it gave."
    for t in tree_leaves(args):
        if not isinstance(t, Tensor) or not isinstance(made, Tensor):
            continue
        if t.shape == made.shape or name in _BROADCAST and t.ndim == made.ndim:
            yield f"{name} is left out", partial(t.expand_as, made)


def _along_others(name: str, func: Any, args: Any, kwargs: Any, made: Tensor) -> Iterator[_Way]:
    "Yield what an operation gives along other dimensions."
    dim = kwargs.get("dim", args[1] if len(args) > 1 else None)
    rest = {key: value for key, value in kwargs.items() if key != "dim"}
    if not isinstance(dim, int):
        return
    for other in range(-made.ndim, 0):
        if other != dim and other + made.ndim != dim:
            given = partial(func, args[0], dim=other, **rest)
            yield f"{name} is taken over dim={other}, not dim={dim}", given
