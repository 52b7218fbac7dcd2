"""Reports: how properties that hold, fail or are not tried become a verdict."""

from __future__ import annotations

import linecache

import pytest
import torch
from tests.checks.finding import report_of

from attention_checks import outcomes as own
from attention_checks.catalogue import known
from attention_checks.examine import examine
from attention_checks.outcomes import Broken, Misused, NotChecked, first_line
from attention_checks.explaining.pipeline import Bug
from attention_checks.properties import Property
from attention_checks.report import CheckFailed


def raising(error):
    "A property that raises an error."

    def holds():
        raise error

    return holds


def holds():
    "A property that holds."


def examined(properties, recognise=None, strict=True, skip=()):
    "The report of some properties."
    return report_of(examine, "check", properties, recognise, strict, skip, ["empty"])


def found(*errors, recognise=None, **settings):
    "The report of a first property that holds and others that raise."
    properties = [Property("it runs", holds)]
    properties += [Property(f"property {i}", raising(e)) for i, e in enumerate(errors)]
    return examined(properties, recognise, **settings)


GUESS = Broken("y", Bug("", "the order matters"), symptom=True)
SURE = Broken("z", Bug("", "dropout is on"))
LAST = Broken("v", Bug("", "a cache"), last=True)
UNKNOWN = Broken("x", Bug("x.unknown", "no bug known"), symptom=True)


@pytest.mark.parametrize(
    "errors, examples, bugs",
    [
        ((UNKNOWN,), ["x"], ["no bug known"]),
        ((UNKNOWN, GUESS), ["y", "x"], ["the order matters"]),
        ((UNKNOWN, GUESS, SURE), ["z", "y", "x"], ["dropout is on"]),
        ((LAST, SURE), ["v"], ["a cache"]),
    ],
)
def test_what_is_sure_comes_first_and_hides_what_is_unknown(errors, examples, bugs):
    report = found(*errors)
    assert [f.example for f in report.failed] == examples and report.bugs == bugs


MAY_BE_MEANT = Broken("x", Bug("x.unknown", "no bug known", declare="empty=…"), symptom=True)


@pytest.mark.parametrize("other, told", [(GUESS, True), (SURE, False)])
def test_what_would_declare_numbers_that_are_not_known_is_told_beside_a_symptom(other, told):
    report = found(MAY_BE_MEANT, other)
    assert ("\n      x\n      if it is meant, declare empty=…" in str(report)) == told
    assert report.codes == [] and report.bugs == [other.bug]


def test_symptoms_give_way_to_a_bug_that_the_numbers_tell():
    twice = lambda: known("softmax.twice")
    assert found(Broken("x", known("values.nan")), recognise=twice).codes == ["softmax.twice"]
    assert found(Broken("x", known("grad.none")), recognise=twice).codes == ["grad.none"]
    assert found(GUESS, recognise=lambda: 1 / 0).bugs == GUESS.bugs[0].says.split("\n")


def test_where_something_fails_nothing_is_said_to_be_missing():
    assert not found(GUESS).missing


@pytest.mark.parametrize(
    "error, codes, untried",
    [
        (KeyError(), ["code.raises"], 0),
        (RuntimeError("a leaf is used in an in-place operation."), ["input.gradient"], 0),
        (NotImplementedError("not on this device"), [], 1),
        (RuntimeError("only supported on cuda"), [], 1),
        (NotChecked("it takes no mask"), [], 1),
    ],
)
def test_an_error_of_the_code_is_a_failure_unless_it_cannot_run_here(error, codes, untried):
    report = found(error)
    assert report.codes == codes and len(report.notes) == untried


def test_a_first_property_that_fails_ends_the_check():
    never = Property("it runs", raising(NotImplementedError()))
    report = examined([never, Property("it is right", holds)])
    assert report.codes == ["code.not_implemented"] and not report.passed


def test_a_mistake_of_the_caller_is_no_bug():
    with pytest.raises(Misused):
        found(Misused("d_model: expected 24"))


def test_a_choice_is_told_with_what_declares_it_and_may_be_skipped():
    nan = Broken("a row is NaN", known("mask.empty_nan"))
    assert found(nan).choices == ['empty="nan"']
    assert found(nan, skip=["mask.empty_nan"]).ok
    assert found(nan, Broken("z", known("grad.none"))).choices == []


FUTURE, ALONE = known("mask.narrow"), known("batch.mixes")
WRONG = Broken("x", known("values.unknown"))
TWICE = known("softmax.twice")


@pytest.mark.parametrize(
    "errors, recognised, codes",
    [
        ([WRONG, Broken("y", ALONE)], TWICE, ["batch.mixes"]),
        ([Broken("x", [TWICE, FUTURE])], None, ["mask.narrow"]),
        ([Broken("x", TWICE), UNKNOWN], None, ["x.unknown"]),
        ([Broken("x", TWICE, last=True), Broken("y", ALONE)], None, ["batch.mixes"]),
        ([WRONG], TWICE, []),
        (
            [WRONG, Broken("y", ALONE)],
            [TWICE, FUTURE],
            ["mask.narrow"],
        ),
    ],
)
def test_a_skipped_code_hides_that_finding_alone(errors, recognised, codes):
    "What else shows keeps its name, is still tried, and makes the verdict a bug."
    skipped = found(*errors, recognise=lambda: recognised, skip=["softmax.twice"])
    assert skipped.codes == codes and skipped.verdict == ("bug" if codes else "sound")


@pytest.mark.parametrize("explains, verdict", [(True, "sound"), (False, "not compared")])
def test_what_is_skipped_compares_only_if_it_explains_the_numbers(explains, verdict):
    wrong = Property(
        "it agrees", raising(Broken("x", TWICE, explains=explains)), compares="the definition"
    )
    report = examined([Property("it runs", holds), wrong], skip=["softmax.twice"])
    assert report.verdict == verdict


def test_what_was_not_compared_is_no_verdict_of_soundness():
    runs, unknown = Property("it runs", holds), raising(NotChecked("?"))
    alone = [runs, Property("it agrees", unknown, compares="the definition")]
    assert (
        examined([runs, Property("it agrees", holds, compares="the definition")]).verdict == "sound"
    )
    assert examined(alone).verdict == "not compared"
    assert not examined(alone).ok
    assert examined(alone, strict=False).ok


def test_a_notebook_shows_the_report_alone():
    report = found(SURE)
    assert CheckFailed(report)._render_traceback_() == [f"CheckFailed: {report}"]
    assert str(report) == repr(report)


def error_of(source, name="theirs", file="layers.py", package=""):
    "The first line of an error of some code, as if it stood in a file."
    linecache.cache[file] = (len(source), None, source.splitlines(True), file)
    try:
        names = {"__name__": name, "__package__": package, "torch": torch}
        exec(compile(source, file, "exec"), names)
    except Exception as e:
        return first_line(e, 20)


def test_an_error_is_told_with_the_line_of_the_code_under_test():
    wrong = "x = torch.ones(2, 3)\ny = x @ x"
    assert error_of(wrong).endswith(" (layers.py, line 2: y = x @ x)")
    assert error_of(wrong, file="<cell>").endswith(" (line 2: y = x @ x)")
    assert error_of(wrong, file="ipykernel_7/8.py").endswith(" (line 2: y = x @ x)")
    for name, package in (("torch.nn", "torch"), ("functools", ""), ("__main__", "torch")):
        assert "layers.py" not in error_of(wrong, name, package=package), name


@pytest.mark.parametrize("error", [KeyError, AttributeError, AssertionError])
def test_an_error_of_the_checks_is_no_finding(error, monkeypatch):
    """In their tests it passes; for users it is a note or a finding. Theirs is always one."""
    ours = eval("lambda e: (_ for _ in ()).throw(e)", {"__name__": "attention_checks.made_up"})
    with pytest.raises(own.Crash, match=error.__name__):
        own.attempt(lambda: ours(error()))
    assert own.attempt(lambda: {}[error]) is None  # a line of the tests
    monkeypatch.setattr(own, "RAISE_OWN_ERRORS", False)
    assert own.attempt(lambda: ours(error())) is None
