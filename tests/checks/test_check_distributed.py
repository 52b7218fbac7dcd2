"""check_distributed: right ways accepted, planted bugs refused and named."""

from __future__ import annotations

import pytest
from tests.checks.distributed_corpus import PLANTED, RIGHT, Planted
from tests.checks.finding import report_of

from attention_checks.api import check_sharding
from attention_checks.distributed.running import nursery
from attention_checks.distributed.shards import sharding_of
from attention_checks.spec import declared

OWN = ("order", "causal", "n_heads", "n_kv_heads", "worlds", "even", "empty_ranks", "rotate", "sink_logits", "timeout")
USUAL = {"order": "contiguous", "causal": False, "n_heads": 12, "worlds": (1, 2, 3, 4), "even": False, "empty_ranks": True,
         "rotate": None, "sink_logits": None, "timeout": 8.0}


@pytest.fixture(scope="module")
def ranks():
    with nursery() as started:
        yield started


def sharding(**choices):
    "What is declared, as the check makes it."
    own = {**USUAL, **{name: value for name, value in choices.items() if name in OWN}}
    own.setdefault("n_kv_heads", own["n_heads"])
    design = {name: value for name, value in choices.items() if name not in OWN}
    return sharding_of(declared("check_distributed", **design), **own)


@pytest.mark.parametrize("name", RIGHT)
def test_right_is_accepted(name, ranks):
    fn, choices = RIGHT[name]
    report = report_of(check_sharding, fn, sharding(**choices), ranks)
    assert report.verdict == "sound", str(report)
    assert report.compared


@pytest.mark.parametrize("bug", PLANTED, ids=lambda bug: bug.name)
def test_planted_is_named(bug: Planted, ranks):
    choices = {"worlds": (3,), **bug.declared}
    report = report_of(check_sharding, bug.fn, sharding(**choices), ranks)
    assert report.verdict == "bug", str(report)
    assert bug.code in report.codes, str(report)
