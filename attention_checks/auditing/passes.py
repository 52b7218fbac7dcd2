"""Hold one pass of a model against another, module by module: what must stay as it was?

In the second pass each module is judged alone: if what it takes is as it was and what it gives is
not, the change arises there. It is noted and undone, so that it hides nothing in later modules.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
import torch.nn as nn
from torch import Tensor

from attention_checks.numbers.tolerance import NOT_ZERO
from attention_checks.subjects.copies import tensors_in

Key = tuple[str, int]  # path of a module, and which of its calls


@dataclass(frozen=True)
class Axis:
    "Hold one sequence that a pass works on, and which of its tokens must be as they were."

    kept: Tensor  # boolean, (b, n): True = must be as it was
    columns: Tensor | None = None  # (b, n): where each token stood in the first pass; None: there
    before: int = 0  # length of the sequence in the first pass; 0: the same

    def view(
        self,
        t: Tensor,  # any tensor of a pass
        first: bool = False,  # of the first pass?
    ) -> Tensor | None:  # (b, n, …); None: it has no axis of this sequence
        "Look at a tensor by sequence and token."
        b, n = self.kept.shape
        n = self.before if first and self.before else n
        shape = tuple(t.shape)
        if shape[:2] == (b, n):
            return t
        if len(shape) == 4 and shape[0] == b and shape[2] == n:
            return t.transpose(1, 2)
        if len(shape) > 2 and shape[:2] == (n, b):
            return t.transpose(0, 1)
        if len(shape) == 2 and shape[0] == b * n and b > 1:
            return t.unflatten(0, (b, n))
        if len(shape) > 1 and shape[:2] == (1, n):
            return t.expand(b, *shape[1:])
        if shape == (n,):
            return t.expand(b, n)
        return None

    def wanted(
        self,
        first: Tensor,  # (b, n_first, …), of the first pass
    ) -> Tensor:  # (b, n, …)
        "Return what each token must be."
        if self.columns is None:
            return first
        rows = torch.arange(len(first), device=first.device)[:, None]
        return first[rows, self.columns.to(first.device)]


class Change(NamedTuple):
    "Hold what changed in a module, though all that it took was as it had been."

    path: str  # of the module
    where: Tensor  # boolean, (b, n): tokens that changed
    size: float  # of the largest change, as a part of the largest number
    nan: bool  # is there a NaN that was none?
    kind: type  # of the module

    @property
    def by(self) -> str:
        "Say by how much it changed."
        return "to NaN" if self.nan else f"by {self.size:.2g} of the largest number"


@dataclass
class Passed:
    "Hold what modules took and gave in one pass."

    tensors: dict[Key, tuple[dict[str, Tensor], dict[str, Tensor]]] = field(default_factory=dict)
    result: Any = None

    def taken(self, path: str) -> list[Tensor]:
        "Return what a module took in its first call."
        return list(self.tensors.get((path, 0), ({}, {}))[0].values())

    def given(self, path: str) -> list[Tensor]:
        "Return what a module gave in its first call."
        return list(self.tensors.get((path, 0), ({}, {}))[1].values())


Tensors = dict[str, Tensor]
Before = Callable[[Key, Tensors], None]
After = Callable[[Key, nn.Module, Tensors], None]


def _tensors_of(value: Any) -> Tensors:
    "Return the tensors in what a module takes or gives that have an axis, by where they stand."
    return {name: t for name, t in tensors_in(value, depth=3) if t.ndim}


@contextmanager
def _hooked(model: nn.Module, before: Before, after: After) -> Iterator[None]:
    "Call two functions before and after each module."
    counts: Counter[str] = Counter()
    running: dict[str, list[int]] = {}

    def enter(path: str, args: Any, kwargs: Any) -> None:
        running.setdefault(path, []).append(counts[path])
        counts[path] += 1
        before((path, counts[path] - 1), _tensors_of((args, kwargs)))

    def leave(path: str, module: nn.Module, out: Any) -> None:
        after((path, running[path].pop()), module, _tensors_of(out))

    with ExitStack() as hooks:
        for path, m in model.named_modules():
            if isinstance(m, torch.jit.ScriptModule):
                continue
            first = lambda m, args, kwargs, path=path: enter(path, args, kwargs)
            last = lambda m, args, kwargs, out, path=path: leave(path, m, out)
            hooks.enter_context(m.register_forward_pre_hook(first, with_kwargs=True))
            hooks.enter_context(m.register_forward_hook(last, with_kwargs=True))
        yield


def record(model: nn.Module, call: Callable[[], Any]) -> Passed:
    "Note what all modules take and give."
    passed = Passed()

    def before(key: Key, taken: Tensors) -> None:
        passed.tensors[key] = ({name: t.detach().clone() for name, t in taken.items()}, {})

    def after(key: Key, module: nn.Module, given: Tensors) -> None:
        passed.tensors[key][1].update({name: t.detach().clone() for name, t in given.items()})

    with _hooked(model, before, after):
        passed.result = call()
    return passed


class _Judge:
    "Judge each module of a second pass by what it took and gave in the first."

    def __init__(self, first: Passed, axes: list[Axis], tolerance: float):
        self.first, self.axes, self.tolerance = first, axes, tolerance
        self.clean: dict[Key, bool] = {}
        self.changes: list[Change] = []

    def before(self, key: Key, taken: Tensors) -> None:
        "Note whether a module takes what it took."
        found = [where for where, *_ in self._compared(key, taken, 0)]
        self.clean[key] = bool(found) and not any(where.any() for where in found)

    @torch.no_grad()
    def after(self, key: Key, module: nn.Module, given: Tensors) -> None:
        "Note what a module changed, and undo it."
        if not self.clean.pop(key, False):
            return
        for where, size, nan, undo in self._compared(key, given, 1):
            if where.any():
                self.changes.append(Change(key[0], where, size, nan, type(module)))
            undo()

    def _compared(self, key: Key, now: Tensors, which: int) -> Iterator[tuple[Any, ...]]:
        "List tokens that differ, by how much, whether by NaN, and what undoes it."
        earlier = self.first.tensors.get(key, ({}, {}))
        shared = [name for name in now if name in earlier[which]]
        for then, t in ((earlier[which][name], now[name]) for name in shared):
            for axis in self.axes:
                old, new = axis.view(then, first=True), axis.view(t)
                if old is None or new is None or old.shape[2:] != new.shape[2:]:
                    continue
                if axis.columns is not None and _by_keys(axis, new):
                    continue
                want = axis.wanted(old)
                where, size, nan = _differs(new, want, axis.kept, self.tolerance)
                yield where, size, nan, lambda: _undo(new, want, axis.kept)
                break


def _by_keys(axis: Axis, t: Tensor) -> bool:
    "Return whether a tensor has an axis of keys too, which stand elsewhere in the first pass."
    return t.ndim > 2 and t.shape[-1] in (axis.kept.shape[1], axis.before or axis.kept.shape[1])


def _differs(
    new: Tensor, want: Tensor, kept: Tensor, tolerance: float
) -> tuple[Tensor, float, bool]:
    "Return the tokens that should be as they were and are not, by how much, and whether by NaN."
    kept = kept.to(new.device)
    if torch.equal(new, want):
        return torch.zeros_like(kept), 0.0, False
    if not new.is_floating_point():
        return _by_token(new != want) & kept, 1.0, False
    new, want = new.detach().double(), want.double()
    largest = max(_largest(want.abs()), NOT_ZERO)
    close = torch.isclose(new, want, 0.0, tolerance * largest, equal_nan=True)
    where = _by_token(~close) & kept
    distance = (new - want).abs()[where]
    return where, _largest(distance) / largest, bool(distance.isnan().any())


def _by_token(apart: Tensor) -> Tensor:
    "Return whether any number of a token is apart, (b, n)."
    return apart.flatten(2).any(-1) if apart.ndim > 2 else apart


def _largest(x: Tensor) -> float:
    "Return the largest finite number; 0 if there is none."
    return float(x.nan_to_num(0, 0, 0).max()) if x.numel() else 0.0


def _undo(new: Tensor, want: Tensor, kept: Tensor) -> None:
    "Put back what should be as it was, in place."
    kept = kept.to(new.device)
    right = want[kept].to(new.dtype)
    if torch.equal(new[kept], right):
        return
    try:
        new.detach()[kept] = right
    except RuntimeError:  # one number for all sequences, or a view that may not be written to
        return


def compare(
    model: nn.Module,
    call: Callable[[], Any],  # the second pass
    first: Passed,
    axes: list[Axis],  # the sequences of this pass, the one that was changed first
    tolerance: float,  # as a part of the largest number
) -> list[Change]:  # in the order in which they arose
    "List the modules where something changes that should be as it was."
    judge = _Judge(first, axes, tolerance)
    with _hooked(model, judge.before, judge.after):
        call()
    return judge.changes
