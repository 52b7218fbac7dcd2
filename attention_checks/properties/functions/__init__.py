"""What every attention function must do, and how each property is tried."""

from attention_checks.properties import Properties, Recognise, bound
from attention_checks.properties.functions.lengths import LENGTHS
from attention_checks.properties.functions.masking import HIDING, INFLUENCE
from attention_checks.properties.functions.numerics import NUMBERS
from attention_checks.properties.functions.recognising import recognise
from attention_checks.properties.functions.values import VALUES
from attention_checks.subjects.function_facts import ExaminedFunction

_PROPERTIES = [*VALUES, *INFLUENCE, *LENGTHS, *NUMBERS, *HIDING]


def attention_properties(subject: ExaminedFunction) -> tuple[Properties, Recognise]:
    "List what every attention function must do, and what names the bug if one property fails."
    asked = [row for row in _PROPERTIES if row.applies(subject)]
    return bound(asked, lambda: subject.with_call_style), lambda: recognise(subject.with_call_style)
