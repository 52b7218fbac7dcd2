"""What an audit found: faults by layer, what each layer does beside what is promised."""

import json
from dataclasses import asdict, dataclass
from typing import Any

from attention_checks.report import Note


@dataclass(frozen=True)
class Fault:
    "Hold one thing that is wrong, and where."

    code: str  # in the catalogue, such as "mask.leaks"
    layer: str  # path of the module where it arises; empty: the model itself
    bug: str  # what is wrong, in one sentence
    example: str  # what was changed and what came out


@dataclass(frozen=True)
class MeasuredReach:
    "Hold how far a token of one layer sees, found by changing tokens."

    back: int | None  # tokens that it sees, its own among them; None: all
    ahead: bool  # does it see the future?
    first: bool = False  # does it see the first token beyond its window?

    @property
    def kind(self) -> str:
        "Return the kind of mask."
        kind = "all" if self.ahead else "causal"
        return f"{kind} and the first token" if self.first else kind


@dataclass(frozen=True)
class LayerFacts:
    "Hold what one layer does, and what is promised of it; None: not known, or nothing is said."

    path: str
    does: dict[str, Any]  # mask, window, scale, sinks, kv_heads, bytes_per_token
    promises: dict[str, Any]  # the same, as far as config or caller say it

    def __str__(self) -> str:
        parts = []
        seen = {name: value for name, value in self.does.items() if value is not None}
        for name, value in seen.items():
            promised = self.promises.get(name)
            beside = "" if promised is None else f" ({_short(promised)})"
            parts.append(f"{name} {_short(value)}{beside}")
        return f"{self.path or '(the model)'}: {', '.join(parts)}"


@dataclass(frozen=True)
class AuditReport:
    "Hold what an audit found about a model."

    subject: str
    faults: tuple[Fault, ...] = ()
    layers: tuple[LayerFacts, ...] = ()  # those where tokens see each other
    passed: tuple[str, ...] = ()  # properties that hold
    notes: tuple[Note, ...] = ()  # what was not tried, and why

    @property
    def ok(self) -> bool:
        "Return whether nothing is wrong."
        return not self.faults

    @property
    def codes(self) -> list[str]:
        "Return the codes of what is wrong, each once."
        return list(dict.fromkeys(fault.code for fault in self.faults))

    def __str__(self) -> str:
        verdict = f"{len(self.faults)} faults" if self.faults else "sound"
        if len(self.faults) == 1:
            verdict = "1 fault"
        lines = [f"{self.subject}: {verdict}; layers: {len(self.layers)}"]
        for fault in self.faults:
            lines.append(f"  ✗ {fault.layer or '(the model)'} [{fault.code}]: {fault.bug}")
            lines.append(f"      {fault.example}")
        lines += [f"  · not tried: {note.property}: {note.why}" for note in self.notes]
        lines += [f"  ✓ {name}" for name in self.passed]
        return "\n".join(lines + [f"  {layer}" for layer in self.layers])

    __repr__ = __str__

    def to_dict(self) -> dict[str, Any]:
        "Return it in lists, dictionaries, numbers and strings."
        return {
            "subject": self.subject,
            "ok": self.ok,
            "codes": self.codes,
            "faults": [asdict(fault) for fault in self.faults],
            "layers": [asdict(layer) for layer in self.layers],
            "passed": list(self.passed),
            "not_tried": [note._asdict() for note in self.notes],
        }

    def to_json(self) -> str:
        "Return it as JSON."
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False)


def _short(value: Any) -> str:
    "Write a number to four digits, anything else as it is."
    return f"{value:.4g}" if isinstance(value, float) else str(value)
