"""Change one step of a declared function: a layer that gives those numbers lacks that step."""

from __future__ import annotations

import linecache
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial, wraps
from typing import Any

import torch.nn as nn
from torch import Tensor
from torch.nn.modules.module import register_module_forward_hook
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from attention_checks.catalogue import known
from attention_checks.catalogue.choices import attending
from attention_checks.catalogue.layer_rotations import declared_rotation
from attention_checks.outcomes import is_theirs
from attention_checks.pipeline import Bug, Step, after
from attention_checks.search import Case
from attention_checks.spec import Contract
from attention_checks.trace.own_stages import with_bias

_Way = tuple[str, Callable[[], Any]]  # what is changed, in words, and what it gives then
_ALONG = ("softmax", "log_softmax", "normalize", "cumsum", "flip")
_BROADCAST = ("add", "sub", "mul", "div", "truediv")
_MOST = 200  # changes that are tried


def changed_step(
    contract: Contract,  # what was declared, with functions of the heads
    case: Case,  # what was seen
) -> Bug | None:  # None: no change of one step gives it
    "Find the step of a declared function without which, or changed, it gives what was seen."
    for field, stage, made_of in _declared(contract):
        f = getattr(contract, field)
        changes = _changes(f, lambda g: _run(case, stage, made_of(g)))
        for i, (what, _) in enumerate(changes[:_MOST]):
            if case.given_by(_run(case, stage, made_of(_with_change(f, i)))):
                return known("layer.step", name=field, what=what)
    return None


def _declared(contract: Contract) -> Iterator[tuple[str, str, Callable[..., Step]]]:
    "Yield each declared function's keyword, its stage, and what makes a step of such a function."
    wrap = contract.placement.wrap
    if callable(contract.attend):
        yield "attend", "mix", lambda f: attending(wrap(f), contract.scale_of)
    if callable(contract.bias):
        yield "bias", after("route"), lambda f: partial(with_bias, replace(contract, bias=f))
    if contract.rotate:
        yield "rotate", "rotate", lambda f: declared_rotation(wrap(f))[0]


def _run(case: Case, stage: str, step: Step) -> Any:
    "Go through the stages with another step in one of them."
    return case.run(bugs=[Bug("", "", {stage: step})])


def _changes(f: Callable[..., Tensor], run: Callable[[Callable[..., Tensor]], Any]) -> list[_Way]:
    "List the changes that one run of a function allows, in their order."
    counter = _Changing(-1)
    run(_under(f, counter))
    return counter.ways


def _with_change(f: Callable[..., Tensor], i: int) -> Callable[..., Tensor]:
    "Return a function with one change."
    return _under(f, _Changing(i))


def _under(f: Callable[..., Tensor], mode: _Changing) -> Callable[..., Tensor]:
    "Return a function that runs where its steps are counted, and one is changed."

    @wraps(f)
    def called(*given: Any) -> Tensor:
        hook = register_module_forward_hook(mode.after_module)
        try:
            with mode:
                return f(*given)
        finally:
            hook.remove()

    return called


class _Changing(TorchFunctionMode):
    "Count what may be changed in all operations that run, and change one."

    def __init__(self, i: int):  # which; -1: none
        super().__init__()
        self.ways: list[_Way] = []
        self.i = i

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        made = func(*args, **kwargs)
        return self._one_of([*_other_results(func, args, kwargs, made)], made)

    def after_module(self, module: nn.Module, args: Any, made: Any) -> Any:
        "Leave out a module that is called, if it gives what it might be given."
        name = type(module).__name__
        return self._one_of([*_left_out(name, args, made)], made)

    def _one_of(self, ways: list[_Way], made: Any) -> Any:
        "Return what is given after the change, or what is given without one."
        first = len(self.ways)
        self.ways += ways
        return self.ways[self.i][1]() if first <= self.i < len(self.ways) else made


def _other_results(func: Any, args: Any, kwargs: Any, made: Any) -> Iterator[_Way]:
    "Yield what an operation gives if it is left out, or done in another way."
    name = getattr(func, "__name__", "").strip("_")
    if not args or not isinstance(made, Tensor) or not made.is_floating_point():
        return
    yield from _left_out(name, args, made)
    if name in ("cat", "concat") and len(args[0]) > 1:
        turned = [*reversed(args[0])]
        yield (
            _in_line(f"{name} joins in the other order"),
            lambda: func(turned, *args[1:], **kwargs),
        )
    if name in _ALONG:
        yield from _along_others(name, func, args, kwargs, made)


def _left_out(name: str, args: Any, made: Any) -> Iterator[_Way]:
    "Yield each tensor that an operation was given and that might stand for what it gave."
    for t in tree_leaves(args):
        if not isinstance(t, Tensor) or not isinstance(made, Tensor):
            continue
        if t.shape == made.shape or name in _BROADCAST and t.ndim == made.ndim:
            yield _in_line(f"{name} is left out"), partial(t.expand_as, made)


def _along_others(name: str, func: Any, args: Any, kwargs: Any, made: Tensor) -> Iterator[_Way]:
    "Yield what an operation gives along other dimensions."
    dim = kwargs.get("dim", args[1] if len(args) > 1 else None)
    rest = {key: value for key, value in kwargs.items() if key != "dim"}
    if not isinstance(dim, int):
        return
    for other in range(-made.ndim, 0):
        if other != dim and other + made.ndim != dim:
            what = _in_line(f"{name} is taken over dim={other}")
            yield what, partial(func, args[0], dim=other, **rest)


def _in_line(what: str) -> str:
    "Add the line of the caller's code that runs."
    frame = sys._getframe(1)
    while frame.f_back and (not is_theirs(frame.f_globals) or "torch" in frame.f_code.co_filename):
        frame = frame.f_back
    text = linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()[:80]
    return f"{what} ({text})" if text else what
