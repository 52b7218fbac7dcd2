"""What all parts of an audit share: the call, its first pass, what was found and not tried."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from attention_checks.auditing.audit_report import Fault, MeasuredReach
from attention_checks.auditing.borrowing import seed
from attention_checks.auditing.expected import Expected
from attention_checks.auditing.model_call import ModelCall, weights_dtype
from attention_checks.auditing.passes import Axis, Change, Passed, compare, record
from attention_checks.catalogue import known
from attention_checks.report import Note

RELATIVE_TOLERANCES = {torch.float64: 1e-5, torch.float32: 1e-4}  # as a part of the largest number


@dataclass
class Session:
    "Hold an audit on its way."

    call: ModelCall
    expected: Expected
    first: Passed = field(default_factory=Passed)  # of the call, in evaluation
    faults: list[Fault] = field(default_factory=list)
    passed: list[str] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    # by path, of modules that mix tokens
    reaches: dict[str, MeasuredReach] = field(default_factory=dict)
    calls: dict[str, Any] = field(default_factory=dict)  # by path, the first attention of each
    itemsize: int = 4  # bytes of a number, in the model's own type
    untrained: bool = False  # could it not be run in training mode?

    @property
    def size(self) -> tuple[int, int]:
        "Return the number of sequences and of tokens."
        return len(self.call.sequence), self.n

    @property
    def n(self) -> int:
        "Return the number of tokens."
        return self.call.sequence.shape[1]

    @property
    def all(self) -> Tensor:
        "Mark all tokens, (b, n)."
        return torch.ones(self.size, dtype=torch.bool)

    def same_class(self, path: str) -> list[str]:
        "List the layers of the same class, itself among them."
        kinds = {p: type(self.call.model.get_submodule(p)) for p in self.calls}
        return [p for p, kind in kinds.items() if kind is kinds[path]]

    @property
    def tolerance(self) -> float:
        "Return how far apart two numbers may be, as a part of the largest."
        return RELATIVE_TOLERANCES.get(weights_dtype(self.call.model), 5e-2)

    def recorded(self, call: ModelCall, **changed: Any) -> Passed:
        "Record one pass."
        seed()
        return record(call.model, lambda: call.run(**changed))

    def compared(
        self, call: ModelCall, axes: list[Axis], first: Passed | None = None, **changed: Any
    ) -> list[Change]:
        "Run a pass and hold it against the first one, or another."
        seed()
        run = lambda: call.run(**changed)
        return compare(call.model, run, first or self.first, axes, self.tolerance)

    def with_others(self, changed: Tensor) -> ModelCall:
        "Return the call with other tokens where that is marked, (b, n); placeholders stay."
        old = self.call.sequence
        drawn = self.call.drawn(self.size, 2 + int(changed.sum()), old)
        where = changed.to(old.device).view(*changed.shape, *[1] * (old.ndim - 2))
        return self.call.of(torch.where(where & ~self.call.placeholders, drawn, old))

    def axes(
        self,
        kept: Tensor,  # boolean, (b, n)
        columns: Tensor | None = None,  # as in `Axis`
    ) -> list[Axis]:
        "Return the axis of the sequence, and one of each other sequence, which is kept."
        others = [
            Axis(torch.ones(t.shape[:2], dtype=torch.bool)) for t in self.call.others.values()
        ]
        return [Axis(kept, columns), *others]

    def fault(self, code: str, layer: str, example: str, **facts: Any) -> None:
        "Note what is wrong with a layer, once."
        fault = Fault(code, layer, known(code, **facts).says, example)
        if not any((f.code, f.layer) == (code, layer) for f in self.faults):
            self.faults.append(fault)

    def note(self, what: str, why: str) -> None:
        "Note what was not tried."
        self.notes.append(Note(what, why))


Part = Callable[[Session], None]
