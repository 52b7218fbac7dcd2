"""A plugin for pytest: one test for each property that a check of attention_nb tries.

    from attention_nb import check_multi_head

    @pytest.mark.attention(check_multi_head, MyLayer(64, 4), d_model=64, n_heads=4, causal=True)
    def test_my_layer(attention_property):
        attention_property()

It does nothing until asked for. Each test is named after its subject and the property, whatever
comes out; `-k gradients` chooses by the name, and `-k scale.missing` by the code of the bug that
was found. What was not tried is skipped, with the reason. Several marks try several layers.

The plugin stands outside of the package, since pytest loads every plugin at its start: PyTorch is
loaded only where a test asks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import pytest

MARK = "attention(check, *args, **kwargs): one test for each property that a check tries"


def pytest_configure(config: pytest.Config) -> None:
    "Tell pytest of the mark."
    config.addinivalue_line("markers", MARK)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    "Run the checks that a test's marks name; each property that they try becomes a test."
    if "attention_property" not in metafunc.fixturenames:
        return
    marks = list(metafunc.definition.iter_markers("attention"))
    if not marks or not all(mark.args and callable(mark.args[0]) for mark in marks):
        needs = "attention_property needs a mark, @pytest.mark.attention(check, layer, …)"
        raise pytest.UsageError(f"{metafunc.definition.name}: {needs}")
    cases = [case for mark in reversed(marks) for case in _cases(*mark.args, **mark.kwargs)]
    metafunc.parametrize("attention_property", cases)


def pytest_itemcollected(item: pytest.Item) -> None:
    "Let `-k` choose by the code of a bug, too, which is no part of the name."
    tried = getattr(getattr(item, "callspec", None), "params", {}).get("attention_property")
    item.extra_keyword_matches.update(getattr(tried, "codes", ()))


def _cases(check: Callable[..., Any], *args: Any, **kwargs: Any) -> Iterator[Any]:
    "List what a check found, as parameters of a test."
    from attention_nb import CheckFailed

    try:
        report = check(*args, **kwargs)
    except CheckFailed as failed:
        report = failed.report
    named = partial("{}-{}".format, report.subject)
    for f in report.failed:
        bug = f.bug and f"likely bug: {f.bug}"
        lines = [f"{report.subject}: {f.property}", f.example, bug]
        yield pytest.param(_failing(lines, f.codes), id=named(f.property))
    for name, why, code in report.notes:
        if code == "not_compared" and report.verdict == "not compared" and not report.ok:
            text = f"{report.subject}: not compared: {why}; strict=False accepts it"
            yield pytest.param(_failing([text]), id=named(name))
        else:
            yield pytest.param(None, id=named(name), marks=pytest.mark.skip(reason=why))
    for name in report.passed:
        yield pytest.param(lambda: None, id=named(name))


def _failing(lines: Sequence[str], codes: Sequence[str] = ()) -> Callable[[], Any]:
    "Return a function that fails with what a report says; it has the codes of the likely bugs."
    fail = partial(pytest.fail, "\n".join(filter(None, lines)), pytrace=False)
    fail.codes = codes  # type: ignore[attr-defined]
    return fail
