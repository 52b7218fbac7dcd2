"""Every correct attention must pass, and every planted bug must be caught and named by its code.

    make corpus                                       all of them; writes tests/checks/corpus/summary.json
    .venv/bin/python -m pytest tests/checks/corpus --only scale   those whose name holds "scale" (a regular expression)
    .venv/bin/python -m pytest tests/checks/corpus --only 'textbook: no scale' --show    with the check's whole message
"""
import pytest
from tests.checks.corpus.judge import judge


def judged(entry, record_property):
    "The verdict, told to the summary at the end."
    verdict = judge(entry)
    record_property("entry", entry.name)
    record_property("verdict", verdict.told(entry))
    assert not verdict.crashed, verdict.message
    return verdict


def test_correct_is_accepted(correct, record_property):
    verdict = judged(correct, record_property)
    assert verdict.passed, verdict.message
    assert not verdict.disturbed, f"the check changed its subject: {verdict.disturbed}"


def test_planted_is_caught_and_named(planted, record_property):
    verdict = judged(planted, record_property)
    if planted.missed and not verdict.caught:
        pytest.xfail(f"not caught: {planted.expect}")
    assert verdict.caught, "the check passed"
    if planted.unnamed:
        pytest.xfail(f"caught, and not named: {planted.expect} is expected, among {verdict.codes}")
    beside = planted.also and f" beside {planted.also}"
    assert verdict.names(planted), f"{planted.expect} is expected{beside}; named are {verdict.codes}:\n{verdict.message}"
