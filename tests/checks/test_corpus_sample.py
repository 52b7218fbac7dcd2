"""A sample of `make corpus`: the checks accept what is right and refuse what is wrong, and say why.

If it fails: `.venv/bin/python -m pytest tests/checks/corpus --only NAME --show` shows the report.
Look at the check first, then at the example. If a planted edit no longer fits, adapt it to the
source in tests/checks/corpus/correct.py.
"""

from dataclasses import replace

import pytest

from tests.checks.corpus import correct, planted
from tests.checks.corpus.entries import CHECKS, planted_in
from tests.checks.corpus.judge import Verdict, judge

RIGHT = (
    "textbook",
    "causal and mask",
    "the fused function of PyTorch, as it is",
    "package: SelfAttention",
    "CausalWithABuffer",
    "nn.MultiheadAttention",
    "by logsumexp",
    "nan to num after",
)
WRONG = (
    "textbook: no scale",
    "textbook: softmax over the queries",
    "causal textbook: sees one ahead",
    "package: scaled_dot_product_attention: the mask is lost",
    "one head, causal: masked in training only",
    "OneHead: k uses q's projection",
    "CausalWithABuffer: the buffer cut at the wrong end",
    "MultiHead: view for transpose in split and merge",
    "FusedQkv: chunks in the order k, q, v",
    "shifted softmax: not shifted",
    "fill softmax fill: fully masked rows are uniform",
    "package: masked_softmax: the mask is inverted",
)


@pytest.mark.parametrize("name", RIGHT)
def test_correct_is_accepted(name):
    verdict = judge(correct.REGISTRY.entries[name])
    assert verdict.passed and not verdict.disturbed, verdict.disturbed or verdict.message


@pytest.mark.parametrize("name", WRONG)
def test_planted_is_caught_and_named(name):
    entry = planted.REGISTRY.entries[name]
    verdict = judge(entry)
    assert verdict.caught, verdict.message or "the check passed"
    assert verdict.names(entry), f"{entry.expect} is expected:\n{verdict.message}"


def test_only_the_whole_code_names():
    "Of two bugs that were planted, both, and none beside them; `….unknown` is no name."
    entry = planted.REGISTRY.entries["textbook: no scale"]
    two = replace(entry, expect="scale.missing+mask.ignored")
    beside = replace(entry, also="mask.ignored")
    for codes, one, both in (
        ((), False, False),
        (("values.unknown",), False, False),
        (("scale.missing",), True, False),
        (("mask.ignored", "scale.missing"), False, True),
    ):
        verdict = Verdict(codes=codes)
        assert (verdict.names(entry), verdict.names(two)) == (one, both), codes
        assert verdict.names(beside) == both, codes
    assert not Verdict(passed=True, codes=("scale.missing",)).names(entry)
    with pytest.raises(ValueError, match="scale.forgotten"):
        planted_in(entry, "x", (), "scale.forgotten")


def test_every_planted_edit_still_fits():
    "An edit of text that is no longer there would plant nothing."
    for entry in planted.REGISTRY.entries.values():
        entry.make()
    one = planted.REGISTRY.entries["textbook: no scale"]
    with pytest.raises(ValueError, match="found it 0 times"):
        replace(one, edits=(("what is not written there", ""),)).make()
    with pytest.raises(SyntaxError):
        replace(one, edits=((one.edits[0][0], " / ("),)).make()


def test_the_corpus_is_large_enough():
    """At least 12 bugs for each check and 90 in all, 30 correct ones;
    all bugs with the code that they are to be named by.
    """
    bugs = list(planted.REGISTRY.entries.values())
    assert len(bugs) >= 90 and len(correct.REGISTRY.entries) >= 30
    assert all(sum(bug.check == check for bug in bugs) >= 12 for check in CHECKS)
    assert all(bug.expect for bug in bugs)
