"""What a check found: the properties that hold, those that do not, an example of each, and the likely bug."""

from __future__ import annotations

import inspect
import linecache
import re
import sys
import traceback
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from html import escape
from itertools import starmap
from pathlib import Path
from typing import Any, NamedTuple

import torch

from attention_checks.catalogue import known
from attention_checks.pipeline import Bug, sentence


class Failure(NamedTuple):
    "One property that does not hold."

    property: str  # what should hold
    example: str  # the smallest input that shows it, and what came out
    bug: str  # the likely bug, in one sentence; empty if only another property's tells
    codes: tuple[
        str, ...
    ] = ()  # the same by its code in the catalogue; several if several bugs meet
    declare: str = ""  # the argument that declares it, if it may be a choice of the design


def _blamed(failure: Failure) -> str:
    "Say the likely bug, and what declares it if it is meant."
    code, meant = "+".join(failure.codes), failure.declare
    return (
        f"{'undeclared choice, or ' * bool(meant)}likely bug{f' [{code}]' * bool(code)}: {failure.bug}"
        + f" — if it is meant, declare {meant}" * bool(meant)
    )


class Report:
    "What a check found about one piece of code."

    def __init__(
        self,
        subject: str,  # the check and what it was called on
    ):
        self.subject = subject
        self.passed: list[str] = []  # properties that hold
        self.failed: list[Failure] = []  # and those that do not
        self.notes: list[tuple[str, str]] = []  # properties that were not decided, and why
        self.remarks: list[str] = []  # how it was called, where that is not plain
        self.compared = ""  # what its numbers were compared with; empty if with nothing
        self.comparable = False  # is there something that they could have been compared with?

    @property
    def ok(self) -> bool:  # True if nothing failed
        "Say whether all properties that were checked hold."
        return not self.failed

    @property
    def bugs(self) -> list[str]:  # sentences, each once
        "List the likely bugs."
        return list(dict.fromkeys(f.bug for f in self.failed if f.bug))

    @property
    def codes(self) -> list[str]:  # codes of the catalogue, each once
        "List the likely bugs by their codes."
        return list(dict.fromkeys(code for f in self.failed for code in f.codes))

    @property
    def choices(
        self,
    ) -> list[str]:  # arguments, each once; none if something failed that cannot be meant
        "List what would declare all that failed."
        wanted = dict.fromkeys(f.declare for f in self.failed if f.codes)
        return [] if "" in wanted else list(wanted)

    @property
    def named(
        self,
    ) -> list[tuple[str, str]]:  # codes, with a + between several that meet, and the sentence
        "List the likely bugs by code and sentence."
        return list(dict.fromkeys(("+".join(f.codes), f.bug) for f in self.failed if f.bug))

    def __str__(self) -> str:
        n, untried = len(self.passed) + len(self.failed), len(self.notes)
        lines = [
            f"{self.subject}: {len(self.passed)} of {n} properties hold"
            + f", {untried} not tried" * bool(untried)
            + self._compared()
        ]
        lines += [*self._told(), *(f"  note: {remark}" for remark in self.remarks)]
        for name, example, *_ in self.failed:
            lines += [f"  ✗ {name}", *(f"      {line}" for line in example.splitlines())]
        lines += [
            f"  · {name}: {why}" for name, why in self.notes
        ]  # before what holds, so that nobody misses them
        return "\n".join(lines + [f"  ✓ {name}" for name in self.passed])

    __repr__ = __str__

    def _told(self) -> Iterator[str]:
        "The likely bugs, each behind the exception that it explains, in its own words."
        first: dict[str, str] = {}
        for failure in self.failed:
            if failure.bug:
                first.setdefault(_blamed(failure), failure.example.partition("it raised ")[2])
        for guess, raised in first.items():
            yield from [f"  raised {raised}"] * bool(raised)
            yield f"  {guess}"

    def _compared(self) -> str:
        "Whether what holds was more than properties."
        if not self.ok or not self.comparable:
            return ""
        return (
            f"; compared with {self.compared}"
            if self.compared
            else "; not compared: properties alone"
        )

    def _repr_html_(self) -> str:
        rows = [("✗", f.property, f.example) for f in self.failed] + [
            ("·", *note) for note in self.notes
        ]
        rows += [("✓", name, "") for name in self.passed]
        left = 'style="text-align:left"'  # JupyterLab's own style puts it at the right
        lines = (
            (mark, "<br/>".join(map(escape, [name, *text.splitlines()])))
            for mark, name, text in rows
        )
        body = "".join(f"<tr><td>{mark}</td><td {left}>{said}</td></tr>" for mark, said in lines)
        bugs = "".join(
            f"<p>Likely bug <code>{code}</code>: {escape(bug)}</p>" for code, bug in self.named
        )
        bugs += "".join(
            f"<p>If it is meant, declare <code>{escape(said)}</code></p>" for said in self.choices
        )
        bugs = bugs.replace(" <code></code>", "")
        bugs += "".join(f"<p>Note: {escape(remark)}</p>" for remark in self.remarks)
        head = f'<th scope="col">holds</th><th scope="col" {left}>property, example or reason</th>'
        table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        return f"<p><b>{escape(str(self).splitlines()[0])}</b></p>{bugs}{table}"


class CheckFailed(AssertionError):
    "Raised by a check; its text and its `report` say what does not hold and what the likely bug is."

    def __init__(
        self,
        report: Report,  # one with failures
    ):
        super().__init__(str(report))
        self.report = report

    def _render_traceback_(self) -> list[str]:
        return [
            f"CheckFailed: {self}"
        ]  # a notebook shows the findings, not the way through this module


class Broken(Exception):
    "Raised inside a property that does not hold."

    def __init__(
        self,
        example: str,  # what was tried and what came out
        bug: Bug | Sequence[Bug] | str,  # the likely bug, or several that meet
        symptom: bool
        | None = None,  # is it only a guess, which gives way to what the numbers tell? None: as the bug says
        last: bool = False,  # does it make no sense to look at further properties?
    ):
        super().__init__(example)
        self.example, self.bugs, self.last = example, bugs_in(bug), last
        self.symptom = any(bug.guess for bug in self.bugs) if symptom is None else symptom

    @property
    def bug(self) -> str:  # one sentence
        "Say what is wrong."
        return sentence(self.bugs)

    @property
    def unknown(self) -> bool:  # True: it gives way to any other
        "Tell whether it says only that no bug is known."
        return any(bug.code.endswith(".unknown") for bug in self.bugs)


def bugs_in(
    found: Bug | Sequence[Bug] | str,  # a bug, several, or a sentence that is in no catalogue
) -> tuple[Bug, ...]:  # the bugs
    "Make a tuple of what names a bug."
    return (
        (Bug("", found),)
        if isinstance(found, str)
        else (found,)
        if isinstance(found, Bug)
        else tuple(found)
    )


class Misused(TypeError, ValueError):
    "Raised where a check is given something that it cannot try: a mistake of the caller, not of the code under test."


class NeedsMore(Misused):
    "Raised where code cannot be called with rows alone, and the caller has not said how to call it."


class NotChecked(Exception):
    "Raised inside a property that does not apply, with the reason."


class Property(NamedTuple):
    "Something that must hold, tied to what is under test."

    name: str  # what must hold, in one sentence
    tried: Callable[[], str | None]  # raises Broken or NotChecked; may return a remark
    compares: str = ""  # what numbers are compared with, if they are


def examine(
    subject: str,  # the check and what it was called on
    properties: Iterable[tuple[Any, ...]],  # each a Property, or the beginning of one
    recognise: Callable[[], Bug | Sequence[Bug] | str | None]
    | None = None,  # names the bug by its numbers once a property failed
    strict: bool = False,  # is it a failure, too, if its numbers were compared with nothing?
    skip: Collection[str] = (),  # codes of bugs that are no failure here
) -> Report:  # if all properties hold
    "Try every property in turn, none if the first one fails; raise CheckFailed if one does not hold."
    report, broken = Report(subject), []
    for i, (name, holds, compares) in enumerate(starmap(Property, properties)):
        report.comparable |= bool(compares)
        try:
            remark = _try(holds, first=i == 0)
        except NotChecked as e:
            report.notes.append((name, str(e)))
        except Broken as e:
            broken.append((name, e))
            if i == 0 or e.last:
                break
        else:
            report.passed.append(name)
            report.compared = report.compared or compares
            report.remarks += [remark] if isinstance(remark, str) else []
    found = attempt(recognise) if recognise and any(e.symptom for _, e in broken) else None
    failed = _settled(broken, bugs_in(found or ()))
    report.failed = [f for f in failed if not f.codes or not set(f.codes) <= set(skip)]
    report.notes += [
        (f.property, f"skipped as you said: {'+'.join(f.codes)}")
        for f in failed
        if f not in report.failed
    ]
    if strict and report.ok and not report.compared:
        name, example = (
            "it was compared with numbers that are known to be right",
            "nothing to compare it with was found",
        )
        report.failed = [_failure(name, example, (known("compare.nothing"),))]
    if report.failed:
        raise CheckFailed(report)
    return report


def _settled(broken: list[tuple[str, Broken]], found: tuple[Bug, ...]) -> list[Failure]:
    "What failed, the main finding first: guesses give way to a bug that is recognised, an unknown bug to a sure one."
    if found:
        guesses, sure = (
            [each for each in broken if each[1].symptom is symptom] for symptom in (True, False)
        )
        return [_failure(name, e.example, found) for name, e in guesses] + [
            _failure(name, e.example, e.bugs) for name, e in sure
        ]
    named, unknown = (
        [each for each in broken if each[1].unknown is flag] for flag in (False, True)
    )
    hidden = any(not e.symptom for _, e in named)
    return [_failure(name, e.example, e.bugs) for name, e in named] + [
        _failure(name, e.example, () if hidden else e.bugs) for name, e in unknown
    ]


def _failure(name: str, example: str, bugs: tuple[Bug, ...]) -> Failure:
    meant = [bug.declare for bug in bugs]
    declare = ", ".join(dict.fromkeys(meant)) if all(meant) else ""
    return Failure(
        name, example, sentence(bugs), tuple(bug.code for bug in bugs if bug.code), declare
    )


def attempt(
    f: Callable[[], Any],  # what may raise
) -> Any:  # what it gives; None if it raises
    "Try something that code which is broken in another way may not be able to do."
    try:
        return f()
    except Exception:
        return None


_ELSEWHERE = re.compile(  # what kernels say that run on other machines alone
    r"not (yet )?(been )?(implemented|supported|available) (for|on)|derivative for .* is not implemented|only .*(cuda|gpu)|requires? (a )?(cuda|gpu)",
    re.I,
)


def _try(holds: Callable[[], str | None], first: bool) -> str | None:
    "Run one property; what else the code under test raises counts as broken, unless it says that it cannot do this."
    try:
        return holds()
    except (Broken, NotChecked, Misused):
        raise
    except NotImplementedError as e:
        if not first:  # FlexAttention has no gradients on a CPU, and says so
            raise NotChecked(first_line(e)) from None
        raise Broken(f"it raised {first_line(e)}", known("code.not_implemented")) from e
    except Exception as e:
        if not first and _ELSEWHERE.search(str(e)):
            raise NotChecked(
                f"{first_line(e)}: no error of the code, it cannot do this here; say device=… where it can"
            ) from None
        in_place = "in-place operation" in str(e)
        bug = known("input.gradient") if in_place else known("code.raises", error=type(e).__name__)
        raise Broken(f"it raised {first_line(e)}", bug) from e


def first_line(
    e: BaseException,  # any error
    n: int = 160,  # at most so many letters of its message
) -> str:  # class and message
    "Give an error's class, the beginning of its message, and the line of the code under test that raised it."
    return f"{type(e).__name__}: {(str(e).strip().splitlines() or [''])[0][:n]}{_place(e)}"


def _place(e: BaseException) -> str:
    "The last line of code under test on the way to an error, in brackets; empty if there is none."
    steps = [(f, line) for f, line in traceback.walk_tb(e.__traceback__) if _is_theirs(f.f_globals)]
    if not steps:
        return ""
    code, line = steps[-1][0].f_code, steps[-1][1]
    file = (
        ""
        if "ipykernel" in code.co_filename or code.co_filename.startswith("<")
        else Path(code.co_filename).name + ", "
    )
    text = linecache.getline(code.co_filename, line).strip()
    return f" ({file}line {line}{text and ': '}{text[:80]})"


def _is_theirs(names: Mapping[str, Any]) -> bool:
    "Whether a module, by its names, is part neither of this package, nor of torch, nor of Python, which imports it."
    module = names.get("__package__") or names.get(
        "__name__", ""
    )  # the package tells what `python -m` calls __main__
    top = module.partition(".")[0]
    return top not in (__name__.partition(".")[0], "torch") and top not in sys.stdlib_module_names


def parameters_of(
    fn: Any,  # a function, or a module, whose `forward` is meant
) -> (
    Mapping[str, inspect.Parameter] | None
):  # by name; None for some built-in functions, which do not tell
    "List the parameters of a function."
    try:
        return inspect.signature(fn.forward if isinstance(fn, torch.nn.Module) else fn).parameters
    except (TypeError, ValueError):
        return None


def name_of(
    thing: Any,  # a function, a class or an object
) -> str:  # its name, or that of its class
    "Give the name that something is known by."
    return str(getattr(thing, "__name__", type(thing).__name__))


from attention_checks.numbers import (  # noqa: E402  until all that use them import them from there
    first_difference as first_difference,
    fixed_chance as fixed_chance,
    must_be_tensor as must_be_tensor,
    must_keep_dtype as must_keep_dtype,
    must_repeat as must_repeat,
    must_return as must_return,
    must_trace as must_trace,
    nearly as nearly,
    numbers_of as numbers_of,
    sizes_of as sizes_of,
    some_mask as some_mask,
)
