"""check_distributed: right ways accepted, planted bugs refused and named."""

from __future__ import annotations

import importlib
import math
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch.distributed as dist
from conftest import by_day
from tests.checks.distributed_corpus import PLANTED, RIGHT, Planted
from tests.checks.finding import report_of

from attention_checks import api, check_distributed
from attention_checks.command.check_command import main
from attention_checks.distributed.running import rank_starter
from attention_checks.distributed.shards import Sharding, trial_of
from attention_checks.distributed.simulated import ForwardSteps, simulated
from attention_checks.spec import declared


@pytest.fixture(scope="module")
def started():
    with rank_starter() as ranks:
        yield ranks


@pytest.fixture
def kept_ranks(started, monkeypatch):
    "Ranks that start from one place in all tests: importing PyTorch there takes seconds."
    monkeypatch.setattr(api, "rank_starter", lambda: nullcontext(started))


@pytest.mark.parametrize("name", by_day(RIGHT, 3))
def test_right_is_accepted(name, kept_ranks):
    fn, choices = RIGHT[name]
    report = report_of(check_distributed, fn, **choices)
    assert report.verdict == "sound", str(report)
    assert report.compared


@pytest.mark.parametrize("bug", by_day(PLANTED, 5), ids=lambda bug: bug.name)
def test_planted_is_named(bug: Planted, kept_ranks):
    choices = {"worlds": (3,), **bug.declared}
    report = report_of(check_distributed, bug.fn, **choices)
    assert report.verdict == "bug", str(report)
    assert bug.code in report.codes, str(report)


def test_many_are_planted_after_public_reports():
    assert len(PLANTED) >= 80
    assert sum(bug.report is not None for bug in PLANTED) >= 30


def test_a_lambda_is_tried_in_processes_of_its_own():
    """Local attention is right on one rank; nothing is left of the processes,
    and none starts in this one.
    """
    local = lambda q, k, v: (q @ k.mT / math.sqrt(q.shape[-1])).softmax(-1) @ v
    report = report_of(check_distributed, local, worlds=[1, 2])
    assert report.codes == ["passing.own_keys"]
    assert "on one rank it is attention" in report.passed
    assert not dist.is_initialized()


def test_a_wrong_scale_is_named_on_one_rank(kept_ranks):
    "And accepted if it is declared."
    unscaled = lambda q, k, v: (q @ k.mT).softmax(-1) @ v
    assert report_of(check_distributed, unscaled, worlds=(1,)).codes == ["scale.missing"]
    assert check_distributed(unscaled, worlds=(1,), scale=1.0, strict=False)


def test_sinks_are_behind_the_cap():
    contract = declared("check_distributed", softcap=1.5)
    capped = Sharding(n_heads=2, n_kv_heads=2, sink_logits=(3.0, -2.0), contract=contract)
    trial = trial_of(capped, 2, 8)
    right, ring = trial.right()[0], simulated(trial, ForwardSteps())
    assert all(trial.part(right, rank).allclose(ring[rank]) for rank in range(2))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"order": "snake"}, "order: expected 'contiguous', 'zigzag', 'striped'"),
        ({"worlds": [0]}, "worlds: expected"),
        ({"n_kv_heads": 5}, "n_heads: expected a multiple of n_kv_heads = 5; got 12"),
        ({"sink_logits": [1.0]}, "sink_logits: expected one for each head; got 1"),
        ({"worlds": ()}, "worlds: expected one number of ranks or more"),
        ({"rotate": 3}, "rotate: expected a function"),
        ({"gate": "g"}, "gate: expected for check_self_attention"),
    ],
)
def test_what_cannot_be_declared_is_refused(wrong, message):
    with pytest.raises((TypeError, ValueError), match=message.replace("(", ".").replace("[", ".")):
        check_distributed(lambda q, k, v: v, **wrong)


def test_a_function_that_does_not_arrive_is_told(tmp_path: Path, monkeypatch, kept_ranks):
    "The ranks were started before its module could be imported: that is said."
    (tmp_path / "came_later.py").write_text("def attend(q, k, v):\n    return v\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    came_later = importlib.import_module("came_later")
    report = report_of(check_distributed, came_later.attend, worlds=(1,))
    assert report.codes == ["code.raises"] and "No module named 'came_later'" in str(report)


def test_the_command_tries_ranks(tmp_path: Path, capsys):
    file = tmp_path / "local.py"
    file.write_text(
        "def attend(q, k, v):\n    return (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1) @ v\n"
    )
    target = [f"{file}:attend", "--as", "distributed", "--worlds", "2", "--n-heads", "2"]
    assert main(["check", *target]) == 1
    assert "passing.own_keys" in capsys.readouterr().out
    assert main(["check", f"{file}:attend", "--order", "zigzag"]) == 2
    assert "--order is for distributed" in capsys.readouterr().err
