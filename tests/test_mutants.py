"""A sample of `make mutants`: the checks accept what is right and refuse what is wrong, and say why."""
import pytest
from mutants import correct, planted
from mutants.run import Verdict, judge
from mutants.zoo import CHECKS

RIGHT = ("textbook", "causal and mask", "the fused function of PyTorch, as it is", "package: SelfAttention", "CausalWithABuffer",
         "nn.MultiheadAttention", "by logsumexp", "nan to num after")
WRONG = ("textbook: no scale", "textbook: softmax over the queries", "causal textbook: sees one ahead",
         "package: scaled_dot_product_attention: the mask is lost", "one head, causal: masked in training only",
         "OneHead: k uses q's projection", "CausalWithABuffer: the buffer cut at the wrong end",
         "MultiHead: view for transpose in split and merge", "FusedQkv: chunks in the order k, q, v",
         "shifted softmax: not shifted", "fill softmax fill: fully masked rows are uniform",
         "package: masked_softmax: the mask is inverted")


@pytest.mark.parametrize("name", RIGHT)
def test_correct_is_accepted(name):
    verdict = judge(correct.REGISTER.animals[name])
    assert verdict.good, verdict.disturbed or verdict.message


@pytest.mark.parametrize("name", WRONG)
def test_planted_is_caught_and_named(name):
    verdict = judge(planted.REGISTER.animals[name])
    assert verdict.caught, verdict.message or "the check passed"
    assert verdict.named, verdict.message


def test_only_a_likely_bug_names():
    "Not the name of a property, nor an example; and that no bug is known is no name."
    animal = planted.REGISTER.animals["textbook: no scale"]
    message = "it agrees with softmax(q kᵀ · scale) v"
    for bugs, named in ((), False), (("its numbers fit no bug known here: is it the scale?",), False), (
            ("the code raises ScaleError here",), False), (("no softmax", "the scores are not scaled"), True):
        assert Verdict(animal, message=message, bugs=bugs).named is named, bugs


def test_every_planted_edit_still_fits():
    "An edit of text that is no longer there would plant nothing."
    for animal in planted.REGISTER.animals.values():
        animal.make()


def test_the_zoo_is_large_enough():
    "At least 12 bugs for each check and 90 in all, 30 correct ones; all of them with words for the message."
    bugs = list(planted.REGISTER.animals.values())
    assert len(bugs) >= 90 and len(correct.REGISTER.animals) >= 30
    assert all(sum(bug.check == check for bug in bugs) >= 12 for check in CHECKS)
    assert all(bug.says for bug in bugs)
