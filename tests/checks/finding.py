"""What a check finds, as codes: tests compare these, never sentences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attention_checks.report import CheckFailed, Report


def report_of(
    check: Callable[..., Report],  # one of attention_checks
    *args: Any,  # what it is called with
    **settings: Any,  # and by name
) -> Report:  # also if something does not hold
    "Run a check, and give its report either way."
    try:
        return check(*args, **settings)
    except CheckFailed as failed:
        return failed.report


def codes_of(
    check: Callable[..., Report],  # one of attention_checks
    *args: Any,  # what it is called with
    **settings: Any,  # and by name
) -> list[str]:  # none if all holds
    "List the codes of the likely bugs that a check finds."
    return report_of(check, *args, **settings).codes
