"""Errors of the checks themselves are errors in their tests, never a finding or a note."""

import pytest

from attention_checks import examine


@pytest.fixture(autouse=True)
def loud(monkeypatch):
    "Let an error that a line of the checks raises pass."
    monkeypatch.setattr(examine, "LOUD", True)
