"""What a check found: the properties that hold, those that do not, an example of each, and the likely bug."""

from __future__ import annotations

import inspect
import io
import linecache
import logging
import re
import sys
import traceback
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr
from html import escape
from itertools import starmap
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from attention_checks.catalogue import known
from attention_checks.pipeline import Bug, sentence, tolerance_factor
from attention_nb.tools.testing import reset_compiler


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


def nearly(
    a: Tensor,  # any shape
    b: Tensor,  # what it should be
    atol: float = 2e-4,  # how far apart small numbers may be: float32, sums of a few dozen
    equal_nan: bool = False,  # does NaN in the same place count as the same?
) -> bool:  # True for one shape and nearly the same finite values
    "Compare two tensors."
    return a.shape == b.shape and not _apart(a, b, atol, equal_nan).any()


def _apart(a: Tensor, b: Tensor, atol: float, equal_nan: bool) -> Tensor:
    "Where two tensors of one shape differ by more than the tolerance."
    return ~torch.isclose(
        a.double(),
        b.double(),
        rtol=1e-3 * tolerance_factor(),
        atol=atol * tolerance_factor(),
        equal_nan=equal_nan,
    )


def first_difference(
    got: Tensor,  # what came out
    want: Tensor,  # what should have
    atol: float = 2e-4,  # how far apart small numbers may be, as in `nearly`
) -> str:  # place and both numbers, or both shapes
    "Say where two tensors first differ by more than the tolerance, or that their shapes do."
    if got.shape != want.shape:
        return f"it gives shape {tuple(got.shape)}, expected {tuple(want.shape)}"
    # Not where they differ most: of two places that differ about as much, rounding would choose. NaN beside NaN and
    # what differs less count only where nothing else does.
    degrees = (_apart(got, want, atol, True), _apart(got, want, atol, False), got != want)
    degree = torch.stack(degrees).sum(0)
    place = tuple((degree == degree.max()).nonzero()[0].tolist())  # the first, in reading order
    at = f"at {list(place)} " if place else ""
    return f"{at}it gives {_number(got[place])}, expected {_number(want[place])}"


def _number(x: Tensor) -> str:
    "True or False, or a number to four digits."
    return str(x.item()) if x.dtype == torch.bool else f"{x.item() + 0:.4g}"  # + 0: not -0


def sizes_of(
    **tensors: Tensor,  # name=tensor
) -> str:  # such as "q (2, 3), k (4, 3)"
    "Give names and shapes."
    return ", ".join(f"{name} {tuple(t.shape)}" for name, t in tensors.items())


def numbers_of(
    **tensors: Tensor,  # name=tensor, small ones
) -> str:  # such as "q = [0.5, 1.25]"
    "Write small tensors out."
    return ", ".join(
        f"{name} = {[round(x, 2) for x in t.flatten().tolist()]}" for name, t in tensors.items()
    )


def some_mask(
    n_q: int,  # queries
    n_k: int,  # keys
) -> Tensor:  # boolean, True = may attend, (n_q, n_k); the same for the same sizes
    "Draw a mask that leaves every query and every key something."
    mask = torch.rand(n_q, n_k, generator=torch.Generator().manual_seed(3)) < 0.6
    i = torch.arange(max(n_q, n_k))
    mask[i % n_q, i % n_k] = True
    return mask


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


def must_return(
    found: Any,  # what the code under test returned
    where: str = "",  # what it was called with, if that helps
) -> None:
    "Raise Broken for None."
    if found is None:
        raise Broken(f"{where}it returned None", known("code.returns_nothing"))


def must_be_tensor(
    found: Any,  # what the code under test returned
) -> None:
    "Raise Misused for an array of another library, and Broken for anything else that is no tensor."
    if isinstance(found, Tensor):
        return
    must_return(found)
    kind = type(found)
    if hasattr(found, "__array__"):
        raise Misused(
            f"expected code that takes and returns torch tensors; got {kind.__module__}.{kind.__name__} from it"
        )
    raise Broken(f"it returned {kind.__name__}", known("code.returns_no_tensor"))


def must_keep_dtype(
    found: Tensor,  # what the code under test returned
    dtype: torch.dtype,  # of 16 bits: what it was given
    like: str,  # the input that has it, such as "v"
) -> None:
    "Raise Broken if 16 bits come back in another type."
    if found.dtype != dtype:
        here, there = (str(t).removeprefix("torch.") for t in (dtype, found.dtype))
        bug = known("dtype.other", found=there, like=like, given=here)
        raise Broken(f"{like} is {here}: it returns {there}", bug)


def name_of(
    thing: Any,  # a function, a class or an object
) -> str:  # its name, or that of its class
    "Give the name that something is known by."
    return str(getattr(thing, "__name__", type(thing).__name__))


@contextmanager
def fixed_chance() -> Iterator[None]:
    "Seed the random numbers and use one thread inside; the caller's come back afterwards."
    state, threads = torch.get_rng_state(), torch.get_num_threads()
    torch.manual_seed(0)
    torch.set_num_threads(1)  # the tensors are small
    try:
        yield
    finally:
        torch.set_rng_state(state)
        torch.set_num_threads(threads)


def _seeded(f: Callable[[], Tensor]) -> Tensor:
    "One call with a fixed random seed."
    torch.manual_seed(0)
    return f()


def must_repeat(
    f: Callable[[], Tensor],  # one call
    between: Callable[[], Any] = lambda: None,  # calls with other inputs
) -> None:
    "Raise Broken if the same call gives another answer, by chance or by what is kept from other calls."
    first = _seeded(f)
    _must_be_same(first, _seeded(f), "twice, with one random seed too", "state.kept")
    for call in (
        "twice",
        "once more",
    ):  # two numbers drawn at random may be nearly the same, but hardly three
        _must_be_same(first, f(), call, "state.chance")
    between()
    _must_be_same(first, _seeded(f), "again after other inputs", "state.kept")


def _must_be_same(first: Tensor, after: Tensor, call: str, code: str) -> None:
    "Raise Broken unless another call gave the same."
    if not nearly(first, after, 1e-6, equal_nan=True):
        raise Broken(
            f"called {call}: {first_difference(after, first, 1e-6)}", known(code), last=True
        )


@contextmanager
def _quiet() -> Iterator[None]:
    "No warnings: tracing warns of much that is no concern of the caller."
    level = logging.root.manager.disable
    trace_log = logging.getLogger("torch.__trace")  # it does not obey `logging.disable`
    was, trace_log.disabled = trace_log.disabled, True
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings(), redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(level)
        trace_log.disabled = was


def _exported(f: Callable[..., Tensor], inputs: tuple[Tensor, ...]) -> Callable[..., Tensor]:
    "The graph of a function, which must be a module's."

    class Module(torch.nn.Module):
        def forward(self, *inputs: Tensor) -> Tensor:
            return f(*inputs)

    return torch.export.export(Module(), inputs, strict=False).module()


_TRACERS: dict[str, Callable[..., Callable[..., Tensor]]] = {
    "torch.compile": lambda f, inputs: torch.compile(
        f, backend="eager", dynamic=False
    ),  # run eagerly, it needs no C++ compiler
    "torch.export": _exported,
}


def _traced(tracer: str, f: Callable[..., Tensor], *inputs: Tensor) -> Tensor:
    "What the traced function gives; NotChecked if it cannot be traced."
    try:
        with _quiet():
            reset_compiler()
            return _TRACERS[tracer](f, inputs)(*inputs)
    except Exception as e:
        raise NotChecked(f"{tracer} cannot trace it: {type(e).__name__}") from None


def must_trace(
    f: Callable[..., Tensor],  # what to trace
    *inputs: Tensor,  # its arguments; small ones, since a trace unrolls loops
) -> None:
    "Raise Broken if a traced function gives other numbers, NotChecked if it cannot be traced."
    reasons = []
    for name in _TRACERS:
        want = f(*inputs)
        try:
            got = _traced(name, f, *inputs)
        except NotChecked as e:
            reasons.append(str(e))
            continue
        finally:
            f(*inputs)  # what it keeps from its last call is an ordinary tensor again
        if not nearly(got, want, equal_nan=True):
            raise Broken(
                f"{name}: {first_difference(got, want)}", known("trace.other", tracer=name)
            )
    if reasons:
        raise NotChecked("; ".join(reasons))
