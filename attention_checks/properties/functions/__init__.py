"""What every attention function must do, and how each property is tried."""

from __future__ import annotations

from collections.abc import Callable

from attention_checks.pipeline import Bug
from attention_checks.properties import Properties
from attention_checks.properties.functions.influence import INFLUENCE
from attention_checks.properties.functions.lengths import LENGTHS
from attention_checks.properties.functions.masking import HIDING
from attention_checks.properties.functions.naming import properties_for
from attention_checks.properties.functions.numerics import NUMBERS, TRACED
from attention_checks.properties.functions.values import VALUES
from attention_checks.subjects.facts import Subject


def attention_properties(
    a: Subject,  # the function under test, and what was said of it
) -> tuple[
    Properties, Callable[[], tuple[Bug, ...] | None]
]:  # the properties, and what names the bug if one fails
    "List what every attention function must do, in the order of trying."
    return properties_for(a, [*VALUES, *INFLUENCE, *LENGTHS, *NUMBERS, *HIDING, TRACED])
