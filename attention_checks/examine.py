"""Try properties one by one, settle what fails into bugs, and make a report of all of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from typing import Any, NamedTuple

from attention_checks.catalogue import IN_SIXTEEN_BITS, known
from attention_checks.explaining.pipeline import Bug, sentence
from attention_checks.outcomes import (
    Broken,
    Misused,
    NotChecked,
    attempt,
    bugs_in,
    code_told_by,
    first_line,
    raise_own_error,
)
from attention_checks.properties import Property
from attention_checks.report import CheckFailed, Failure, NotCompared, Note, Report


def examine(
    subject: str,  # the check and what it was called on
    properties: Iterable[Property],  # tied to what is under test
    recognise: Callable[[], Any] | None,  # names the bug by its numbers if one failed
    strict: bool,  # is it a failure if the numbers were compared with nothing?
    skip: Collection[str],  # codes of bugs that are no failure here
    accepts: Collection[str],  # what can be declared
) -> Report:
    "Try every property, none after a first that fails; raise CheckFailed unless the report is ok."
    tried = _try_all(properties, skip)
    failed, skipped = _settled(tried, recognise, skip)
    failures = tuple(_declarable(failure, accepts) for failure in failed)
    report = replace(_report(subject, tried, skipped, skip), failed=failures, strict=strict)
    if failures:
        report = replace(report, missing="")
    if report.ok:
        return report
    raise NotCompared(report) if report.verdict == "not compared" else CheckFailed(report)


def _report(
    subject: str, tried: list[_Result], skipped: list[Note], skip: Collection[str]
) -> Report:
    "Return what is to be said of properties that hold, or were not tried."
    compared = next((t.compares for t in tried if t.compares and _agrees(t, skip)), "")
    notes = [note for each in tried if (note := _note(each))]
    return Report(
        subject,
        passed=tuple(each.name for each in tried if not each.error),
        notes=(*notes, *skipped),
        remarks=tuple(each.remark for each in tried if each.remark),
        compared=compared,
        missing=_undecided(tried) or _missing(tried, compared, bool(skipped)),
    )


class _Result(NamedTuple):
    "What came of one property."

    name: str
    compares: str
    remark: str | None = None
    error: Broken | NotChecked | None = None


def _try_all(properties: Iterable[Property], skip: Collection[str]) -> list[_Result]:
    "Try every property, none after a first that fails, or after one that makes more senseless."
    tried: list[_Result] = []
    for row in properties:
        try:
            remark = _try(row.holds, first=not tried)
            tried.append(_Result(row.name, row.compares, remark))
        except (NotChecked, Broken) as e:
            tried.append(_Result(row.name, row.compares, error=e))
            if isinstance(e, Broken) and (len(tried) == 1 or e.last and _not_skipped(e.bugs, skip)):
                break
    return tried


def _agrees(tried: _Result, skip: Collection[str]) -> bool:
    "Return whether numbers agree, or but for a bug that is no failure here and explains them."
    e = tried.error
    if not isinstance(e, Broken):
        return e is None
    return e.explains and not e.symptom and not _not_skipped(e.bugs, skip)


def _note(tried: _Result) -> Note | None:
    "Return the note of a property that does not apply."
    if not isinstance(tried.error, NotChecked):
        return None
    kind = "not_compared" if tried.compares or tried.error.undecided else "not_tried"
    return Note(tried.name, str(tried.error), kind)


def _undecided(tried: list[_Result]) -> str:
    "Return what must be declared before it is known whether the code is right; empty for nothing."
    for each in tried:
        if isinstance(each.error, NotChecked) and each.error.undecided:
            return str(each.error)
    return ""


def _missing(tried: list[_Result], compared: str, skipped: bool) -> str:
    "Return why numbers were compared with nothing; empty if they were compared."
    if compared:
        return ""
    for each in tried:
        if each.compares and each.error:
            differ = "its numbers differ, and that was skipped"
            return differ if isinstance(each.error, Broken) else str(each.error)
    return "nothing was tried after what was skipped" if skipped and len(tried) == 1 else ""


def _recognised(broken: list[Broken], recognise: Callable[[], Any] | None) -> tuple[Bug, ...]:
    "Return the bugs that the numbers tell, if some property's failure is only a symptom."
    if recognise is None or not any(e.symptom for e in broken):
        return ()
    return bugs_in(attempt(recognise) or ())


def _not_skipped(bugs: Iterable[Bug], skip: Collection[str]) -> tuple[Bug, ...]:
    "Return the bugs without those that the caller skips."
    return tuple(bug for bug in bugs if bug.code not in skip)


class _Finding(NamedTuple):
    """A property that failed, with the bugs that are to blame.

    order  when                                            blamed on        named in the report
    0      it is a symptom, and the numbers tell a bug     that bug         always
    1      it is no symptom                                its own bugs     always
    2      it is a symptom, and the numbers tell nothing   its own bugs     if none is above it
    3      the same, and its code is `….unknown`           no known bug     if none is above it

    Of what `Broken` says, only `symptom` decides this. `last` ends the trials, and `explains` says
    whether the numbers count as compared where its bugs are skipped.
    """

    name: str
    broken: Broken
    bugs: tuple[Bug, ...]
    kept: tuple[Bug, ...]  # those that are not skipped
    order: int  # as above; the first is shown first

    @property
    def skipped(self) -> bool:
        "Return whether all that is to blame is no failure here."
        return bool(self.bugs) and not self.kept


def _settled(
    tried: list[_Result], recognise: Callable[[], Any] | None, skip: Collection[str]
) -> tuple[list[Failure], list[Note]]:
    "Return what failed, the main finding first, and notes of what is skipped."
    broken = [(t, t.error) for t in tried if isinstance(t.error, Broken)]
    recognised = _recognised([e for _, e in broken], recognise)
    found = [_blamed(t, e, recognised, skip) for t, e in broken]
    counts = sorted((f for f in found if not f.skipped), key=lambda f: f.order)
    last = max(1, min((f.order for f in counts), default=1))
    failed = [_failure(f, named=f.order <= last, sure=last < 2) for f in counts]
    return failed, [_skipping(f) for f in found if f.skipped]


def _blamed(
    tried: _Result, e: Broken, recognised: tuple[Bug, ...], skip: Collection[str]
) -> _Finding:
    """Blame a failure on its own bugs; a symptom on those that are recognised. If these are
    skipped, a symptom that compares nothing keeps its own.
    """
    gives_way = bool(tried.compares) or e.unknown or bool(_not_skipped(recognised, skip))
    if recognised and e.symptom and gives_way:
        return _Finding(tried.name, e, recognised, _not_skipped(recognised, skip), 0)
    order = 3 if e.unknown else 2 if e.symptom else 1
    return _Finding(tried.name, e, e.bugs, _not_skipped(e.bugs, skip), order)


def _skipping(finding: _Finding) -> Note:
    "Return the note of a failure that is skipped."
    codes, example = "+".join(bug.code for bug in finding.bugs), finding.broken.example
    if not all(bug.code in IN_SIXTEEN_BITS for bug in finding.bugs):
        return Note(finding.name, f"skipped: {codes}", "skipped")
    asked = 'if it must be right there, declare dtype="any"'
    why = f"in 16 bits alone, {example}: {sentence(finding.bugs)} [{codes}]; {asked}"
    return Note(finding.name, why, "sixteen_bits")


def _declarable(failure: Failure, accepts: Collection[str]) -> Failure:
    "Return a failure without what declares it, where the check does not take that."
    names = re.findall(r"(\w+)=", failure.declare)
    return failure if set(names) <= set(accepts) else replace(failure, declare="")


def _failure(finding: _Finding, named: bool, sure: bool) -> Failure:
    """Return a property that failed: with its bugs if it is named, and with what would declare
    them all if it is named, or if no finding is sure.
    """
    bugs = finding.kept if named else ()
    declares = dict.fromkeys(bug.declare for bug in (bugs if sure else finding.kept))
    return Failure(
        property=finding.name,
        example=finding.broken.example,
        bug=sentence(bugs),
        codes=tuple(bug.code for bug in bugs if bug.code),
        declare="" if "" in declares else ", ".join(declares),
    )


_ELSEWHERE = re.compile(  # what kernels say that run on other machines alone
    r"not (yet )?(been )?(implemented|supported|available) (for|on)"
    r"|derivative for .* is not implemented|only .*(cuda|gpu)|requires? (a )?(cuda|gpu)",
    re.I,
)


def _try(holds: Callable[[], str | None], first: bool) -> str | None:
    "Try one property; an error of the code under test is a failure, unless it cannot run here."
    try:
        return holds()
    except (Broken, NotChecked, Misused):
        raise
    except NotImplementedError as e:
        if not first:  # FlexAttention has no gradients on a CPU, and says so
            raise NotChecked(first_line(e)) from None
        raise Broken(f"it raised {first_line(e)}", known("code.not_implemented")) from e
    except Exception as e:
        raise_own_error(e)
        if not first and _ELSEWHERE.search(str(e)):
            raise NotChecked(
                f"{first_line(e)}: it cannot do this here; declare device=… where it can"
            ) from None
        bug = known(
            code_told_by(e) or "code.raises", what="the code", error=first_line(e, 80, where=False)
        )
        raise Broken(f"it raised {first_line(e)}", bug) from e
