"""Which operation of a declared function runs, and in which line of its author's code."""

from __future__ import annotations

import linecache
import sys
from types import FrameType
from typing import Any

from attention_checks.outcomes import is_theirs

_OURS = __name__.partition(".")[0]
_WATCHERS = tuple(f"{__package__}.{name}" for name in ("callers", "one_step", "one_factor"))


def name_of_operation(func: Any) -> str:
    "Return the name of an operation."
    return getattr(func, "__name__", "").strip("_")


def line_of_caller() -> str | None:
    "Return the line of the caller's code that runs; None where it is a line of the checks."
    frame: FrameType | None = sys._getframe(1)
    while frame and not is_theirs(frame.f_globals):
        module = frame.f_globals.get("__name__", "")
        if module not in _WATCHERS and module.startswith(_OURS):
            return None
        frame = frame.f_back
    return linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()[:80] if frame else ""
