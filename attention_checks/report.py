"""What a check found: a verdict, the properties that hold and that do not, the likely bug."""

from dataclasses import asdict, dataclass
from typing import Any, NamedTuple


@dataclass(frozen=True)
class Failure:
    "Hold one property that does not hold."

    property: str  # what should hold
    example: str  # the smallest input that shows it, and what came out
    bug: str  # the likely bug, in one sentence; empty if only another property's tells
    codes: tuple[str, ...] = ()  # the same by its codes in the catalogue; several if bugs meet
    declare: str = ""  # the argument that declares it, if it may be a choice of the design


class Note(NamedTuple):
    "Hold one property that was not tried, or whose failure was skipped."

    property: str  # what should hold
    why: str  # the reason
    # or "not_compared", which leaves the verdict open; "skipped"; "sixteen_bits": wrong there alone
    code: str = "not_tried"


def _sentence(failure: Failure) -> str:
    "Return the likely bug with its code, and what declares it if it is meant."
    kind = "undeclared choice, or likely bug" if failure.declare else "likely bug"
    code = f" [{'+'.join(failure.codes)}]" if failure.codes else ""
    meant = f" — if it is meant, declare {failure.declare}" if failure.declare else ""
    return f"{kind}{code}: {failure.bug}{meant}"


@dataclass(frozen=True)
class Report:
    "Hold what a check found about one piece of code; its verdict is sound, not compared or bug."

    subject: str  # the check and what it was called on
    passed: tuple[str, ...] = ()  # properties that hold
    failed: tuple[Failure, ...] = ()  # and those that do not
    notes: tuple[Note, ...] = ()  # properties that were not tried, and why
    remarks: tuple[str, ...] = ()  # how it was called, where that is not plain
    compared: str = ""  # what its numbers were compared with; empty: with nothing
    missing: str = ""  # what leaves the verdict open: a comparison, or a declaration
    strict: bool = True  # is it a failure if they were compared with nothing?

    @property
    def verdict(self) -> str:
        "Return `sound`, `not compared` or `bug`."
        if self.failed:
            return "bug"
        return "not compared" if self.missing else "sound"

    @property
    def ok(self) -> bool:
        "Return whether all properties hold, and, if strict, the numbers were compared."
        accepted = ("sound",) if self.strict else ("sound", "not compared")
        return self.verdict in accepted

    @property
    def bugs(self) -> list[str]:
        "Return the likely bugs, each sentence once."
        return list(dict.fromkeys(f.bug for f in self.failed if f.bug))

    @property
    def codes(self) -> list[str]:
        "Return the codes of the likely bugs, each once."
        return list(dict.fromkeys(code for f in self.failed for code in f.codes))

    @property
    def choices(self) -> list[str]:
        "Return what would declare all that failed; nothing if something cannot be meant."
        wanted = dict.fromkeys(f.declare for f in self.failed if f.codes)
        return [] if "" in wanted else list(wanted)

    @property
    def named(self) -> list[tuple[str, str]]:
        "Return the likely bugs as pairs of codes, joined by +, and sentence."
        return list(dict.fromkeys(("+".join(f.codes), f.bug) for f in self.failed if f.bug))

    def to_dict(self) -> dict[str, Any]:
        "Return it in lists, dictionaries and strings."
        return {
            "subject": self.subject,
            "verdict": self.verdict,
            "ok": self.ok,
            "compared": self.compared,
            "codes": self.codes,
            "bugs": [{"code": code, "sentence": bug} for code, bug in self.named],
            "failed": [asdict(failure) for failure in self.failed],
            "not_tried": [note._asdict() for note in self.notes],
            "passed": list(self.passed),
            "notes": list(self.remarks),
        }

    def __str__(self) -> str:
        lines = [self._headline(), *self._reasons()]
        lines += [f"  note: {remark}" for remark in self.remarks]
        for failure in self.failed:
            example = [f"      {line}" for line in failure.example.splitlines()]
            lines += [f"  ✗ {failure.property}", *example]
            if failure.declare and not failure.bug:
                lines += [f"      if it is meant, declare {failure.declare}"]
        lines += [f"  · {note.property}: {note.why}" for note in self.notes]
        return "\n".join(lines + [f"  ✓ {name}" for name in self.passed])

    __repr__ = __str__

    def _headline(self) -> str:
        "Return the verdict, how many properties hold, and what the numbers were compared with."
        tried = len(self.passed) + len(self.failed)
        line = f"{self.subject}: {self.verdict}: {len(self.passed)} of {tried} properties hold"
        if self.notes:
            line += f", {len(self.notes)} not tried"
        if self.verdict == "sound" and self.compared:
            line += f"; compared with {self.compared}"
        if self.verdict == "sound" and any(note.code == "sixteen_bits" for note in self.notes):
            line += "; right in float32 alone"
        return line

    def _reasons(self) -> list[str]:
        "Return the likely bugs, each after its error; or why nothing was compared."
        if self.verdict == "not compared":
            accept = "; strict=False accepts it" if self.strict else ""
            return [f"  not compared: {self.missing}{accept}"]
        first: dict[str, str] = {}
        for failure in self.failed:
            if failure.bug:
                raised = failure.example.partition("it raised ")[2]
                first.setdefault(_sentence(failure), raised)
        lines = []
        for sentence, raised in first.items():
            if raised:
                lines.append(f"  raised {raised}")
            lines.append(f"  {sentence}")
        return lines


class CheckFailed(AssertionError):
    "Raised by a check; its `report` says what does not hold and what the likely bug is."

    def __init__(self, report: Report):
        super().__init__(str(report))
        self.report = report

    def _render_traceback_(self) -> list[str]:
        "Show a notebook the findings, not the way through this package."
        return [f"{type(self).__name__}: {self}"]


class NotCompared(CheckFailed):
    "Raised by a check where all properties hold and the numbers were compared with nothing."
