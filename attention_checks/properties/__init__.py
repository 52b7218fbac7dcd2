"""What must hold, by idea: state, numerics, gradients, equivariance, masking, agreement."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

from attention_checks.explaining.pipeline import Bug
from attention_checks.outcomes import Broken, NotChecked


class Property(NamedTuple):
    """One thing that must hold, for a subject under test.

    It is not tried in three cases. What its author did not promise is not listed: `applies`. What
    a subject lacks is listed with the reason: `why_not`. What only a trial shows raises NotChecked.
    """

    name: str  # what must hold, in one sentence
    holds: Callable[..., str | None]  # raises Broken or NotChecked; may return a remark
    why_not: Callable[[Any], str] = lambda subject: ""  # why it does not apply; empty if it does
    symptom_unless: tuple[str, ...] = ()  # facts: where one is not true, a failure is a symptom
    compares: str = ""  # what the subject's numbers are compared with, if they are
    applies: Callable[[Any], bool] = lambda subject: True  # False: not promised, so not listed
    differentiates: bool = False  # of gradients alone, which gradients=False does not promise?
    sixteen_bits: bool = False  # of 16 bits alone, which a declared type does not promise?

    @classmethod
    def of(cls, holds: Callable[..., str | None], *more: Any, **named: Any) -> Property:
        "Return the property that is stated by the docstring of what tries it."
        says = (holds.__doc__ or holds.__name__).rstrip(".")
        return cls(says[0].lower() + says[1:], holds, *more, **named)


Properties = Iterable[Property]
Recognise = Callable[[], tuple[Bug, ...] | None]  # names the bugs by the numbers


def bound(properties: Sequence[Property], subject: Callable[[], Any]) -> list[Property]:
    "Tie properties to a subject."
    return [row._replace(holds=partial(_tried, row, subject)) for row in properties]


def _tried(row: Property, subject_of: Callable[[], Any]) -> str | None:
    "Try one property."
    subject = subject_of()
    if why := row.why_not(subject):
        raise NotChecked(why)
    try:
        return row.holds(subject)
    except Broken as e:
        if all(getattr(subject, fact) for fact in row.symptom_unless):
            raise
        raise Broken(e.example, e.bugs, symptom=True, last=e.last) from None


def must_agree(subject: Any) -> None:
    "Raise Broken if the subject's numbers are wrong, as its `mismatch` says."
    if subject.mismatch:
        raise subject.mismatch.with_traceback(None)
