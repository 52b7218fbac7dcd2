"""How a trial ends: it holds, or raises Broken, NotChecked or Misused; what an error tells."""

import linecache
import re
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from attention_checks.explaining.pipeline import Bug, sentence


class Broken(Exception):
    "Raised inside a property that does not hold."

    def __init__(
        self,
        example: str,  # what was tried and what came out
        bug: Bug | Sequence[Bug],  # the likely bug, or several that meet
        symptom: bool | None = None,  # does it give way to what the numbers tell? None: as the bug
        last: bool = False,  # does it make no sense to try further properties?
        explains: bool = True,  # do the bugs explain all numbers that were compared?
    ):
        super().__init__(example)
        self.example, self.bugs, self.last, self.explains = example, bugs_in(bug), last, explains
        self.symptom = any(bug.symptom for bug in self.bugs) if symptom is None else symptom

    @property
    def bug(self) -> str:
        "Return what is wrong, in one sentence."
        return sentence(self.bugs)

    @property
    def unknown(self) -> bool:
        "Return whether it says only that no bug is known, and so gives way to any other."
        return any(bug.code.endswith(".unknown") for bug in self.bugs)


def bugs_in(bug: Bug | Sequence[Bug]) -> tuple[Bug, ...]:
    "Return a tuple of bugs."
    return (bug,) if isinstance(bug, Bug) else tuple(bug)


class Misused(TypeError, ValueError):
    "Raised where a check is given what it cannot try: a mistake in the call of the check."


class NeedsMore(Misused):
    "Raised where code cannot be called with its input alone, and the caller has not declared how."


class NotChecked(Exception):
    "Raised inside a property that does not apply, with the reason."

    def __init__(
        self,
        why: str,  # the reason
        undecided: bool = False,  # must it be declared before the verdict can be `sound`?
    ):
        super().__init__(why)
        self.undecided = undecided


def broken_by(holds: Callable[[], Any]) -> Broken | None:  # what does not hold, as a value
    "Try something, and return what it raises as Broken."
    try:
        holds()
    except Broken as e:
        return e
    return None


def attempt(f: Callable[[], Any]) -> Any:
    "Call something that code which is broken in another way may not be able to do."
    try:
        return f()
    except Exception as e:
        raise_own_error(e)
        return None


def runs(f: Callable[[], Any]) -> bool:
    "Return whether a call raises nothing, whatever it gives."
    return attempt(lambda: (f(),)) is not None


RAISE_OWN_ERRORS = False  # True, in the tests of the checks: their own errors are no findings
_OWN = (AttributeError, NameError, KeyError, IndexError, AssertionError, ZeroDivisionError)


class Crash(BaseException):
    "Raised where the checks themselves fail, past all that takes an error for a finding."


def raise_own_error(e: BaseException) -> None:
    "Raise Crash, if that is asked, for an error that a line of the checks raised."
    frames = [frame for frame, _ in traceback.walk_tb(e.__traceback__)]
    raised_by = frames[-1].f_globals.get("__name__", "") if frames else ""
    of_checks = raised_by.startswith(__name__.partition(".")[0])
    if RAISE_OWN_ERRORS and isinstance(e, _OWN) and of_checks:
        raise Crash(f"{type(e).__name__}: {e}") from e


_TELLING = {  # what a message of PyTorch tells
    "input.gradient": re.compile("in-place operation"),
    "state.graph": re.compile("backward through the graph a second time"),
    "code.devices": re.compile("(same|expected) device"),
}


def code_told_by(e: BaseException) -> str | None:  # its code; None: its message tells nothing
    "Return the code of the bug that a message of PyTorch tells."
    return next((code for code, says in _TELLING.items() if says.search(str(e))), None)


def first_line(
    e: BaseException,  # any error
    n: int = 160,  # at most so many letters of its message
    where: bool = True,  # with the line of the caller's code?
) -> str:
    """Return an error's class, the start of its message, and the line of the caller's code; raise
    Crash, as `raise_own_error` does.
    """
    raise_own_error(e)
    message = str(e).strip().splitlines() or [""]
    text = f": {message[0][:n]}" if message[0] or where else ""
    return f"{type(e).__name__}{text}{_where(e) if where else ''}"


def _where(e: BaseException) -> str:
    "Return the last line of the code under test on the way to an error, in brackets, or nothing."
    walked = traceback.walk_tb(e.__traceback__)
    steps = [(frame, line) for frame, line in walked if is_theirs(frame.f_globals)]
    if not steps:
        return ""
    path, line = steps[-1][0].f_code.co_filename, steps[-1][1]
    in_a_file = "ipykernel" not in path and not path.startswith("<")
    file = f"{Path(path).name}, " if in_a_file else ""
    text = linecache.getline(path, line).strip()[:80]
    return f" ({file}line {line}: {text})" if text else f" ({file}line {line})"


def is_theirs(names: Mapping[str, Any]) -> bool:
    "Return whether a module is part neither of this package, nor of torch, nor of Python."
    module = names.get("__package__") or names.get("__name__", "")  # `python -m`: __main__
    top = module.partition(".")[0]
    ours = __name__.partition(".")[0]
    return top not in (ours, "torch") and top not in sys.stdlib_module_names
