"""Known bugs are recognised by their numbers: each is written out, and `explain` names it."""

from __future__ import annotations

import pytest
import torch
from tests.checks.variants import attention, in_blocks, scores_of

from attention_checks.catalogue import ATTENTION
from attention_checks.catalogue.flash_attention import blocks
from attention_checks.catalogue.windows import reach_bugs
from attention_checks.catalogue.positions import PAIRINGS, rotary_bugs, turn_pairs
from attention_checks.catalogue.scales_and_routes import UNDECLARED_NORMS
from attention_checks.explaining.fitting import fitted_dtype, fitted_epsilon
from attention_checks.explaining.pipeline import STAGES, Work, run, unchanged, with_own, work_of
from attention_checks.explaining.reach import Reach
from attention_checks.explaining.search import Case, alike, explain
from attention_nb.local_attention import document_mask, sink_mask, window_mask
from attention_nb.masks import causal_mask
from attention_nb.positions import rotary_angles
from attention_nb.tools.testing import random_qkv

BUGS = [*ATTENTION, *UNDECLARED_NORMS, *blocks(5)]
SIZES = {"b": 2, "h": 3, "n_q": 5, "n_k": 5, "d_k": 8, "d_v": 8}  # all may be exchanged


def codes(cases, bugs=BUGS, most=1):
    "The codes of the bugs that explain the cases; None if no known bugs do."
    bugs = explain(cases, bugs, most)
    return None if bugs is None else [bug.code for bug in bugs]


def transposed_by_reshape(k):
    return k.reshape(*k.shape[:-2], k.shape[-1], k.shape[-2])


WRONG = [
    (lambda q, k, v: attention(q, v, k), "route.keys_values"),
    (
        lambda q, k, v: (q @ transposed_by_reshape(k) * 8**-0.5).softmax(-1) @ v,
        "route.keys_reshaped",
    ),
    (
        lambda q, k, v: attention(*(t.transpose(1, 2) for t in (q, k, v))).transpose(1, 2),
        "heads.layout",
    ),
]


@pytest.mark.parametrize("wrong, code", WRONG, ids=[code for _, code in WRONG])
def test_a_bug_without_a_mask_is_named(wrong, code):
    q, k, v = random_qkv(**SIZES)
    assert codes([Case(work_of(q, k, v), wrong(q, k, v))]) == [code]


MASKED = [
    (lambda q, k, v, m: attention(q, k, v, m & causal_mask(5).triu(-1)), "mask.window"),
    (lambda q, k, v, m: (scores_of(q, k) + m.float()).softmax(-1) @ v, "mask.added"),
    (lambda q, k, v, m: (scores_of(q, k) + (~m).float()).softmax(-1) @ v, "mask.added_inverted"),
    (lambda q, k, v, m: attention(q, k, v, m, fill=1e-9), "mask.multiplied"),
]


@pytest.mark.parametrize("wrong, code", MASKED, ids=[code for _, code in MASKED])
def test_a_bug_of_the_mask_is_named(wrong, code):
    q, k, v = random_qkv(**SIZES)
    mask = causal_mask(5)
    assert codes([Case(work_of(q, k, v, mask), wrong(q, k, v, mask))]) == [code]


def test_a_causal_mask_in_the_wrong_corner_is_named():
    q, k, v = random_qkv(n_q=5, n_k=7)
    upper_left = torch.ones(5, 7, dtype=torch.bool).tril()
    work = work_of(q, k, v, upper_left)
    assert codes([Case(work, attention(q, k, v, causal_mask(5, 7)))]) == ["mask.lower_right"]


def test_two_bugs_are_named_together():
    q, k, v = random_qkv()
    seen = (q @ k.mT).softmax(-2) @ v
    assert codes([Case(work_of(q, k, v), seen)]) == ["scale.missing", "softmax.over_queries"]


def test_a_stage_that_stands_nowhere_is_refused():
    "A misspelt one would be left out, and its bugs never be found."
    own = {"after merge": (unchanged, []), "merged": (unchanged, [])}
    with pytest.raises(ValueError, match=r"expected stages among .*, project; got merged"):
        with_own(STAGES, own)


def test_right_numbers_have_no_bug_and_random_ones_none_that_is_known():
    q, k, v = random_qkv()
    work = work_of(q, k, v)
    assert codes([Case(work, attention(q, k, v))]) == []
    assert codes([Case(work, torch.randn(2, 3, 5, 13))]) is None
    assert alike(torch.full((3,), torch.nan), torch.full((3,), torch.nan)) == []


def test_a_bug_must_explain_every_case():
    q, k, v = random_qkv(n_k=5)
    works = [work_of(q, k, v, mask) for mask in (None, causal_mask(5))]
    cases = [Case(work, attention(q, k, v)) for work in works]
    assert codes(cases[:1]) == []
    assert codes(cases) == ["mask.ignored"]


def test_blocks_that_are_rescaled_are_right():
    q, k, v = random_qkv()
    for rescale, expected in ((True, []), (False, ["blocks.context_and_sum"])):
        seen = in_blocks(q, k, v, 3, rescale)
        assert codes([Case(work_of(q, k, v), seen)], [*ATTENTION, *blocks(7)]) == expected


def test_bugs_have_different_numbers():
    "Few known bugs give the numbers of another."
    q, k, v = random_qkv(d_k=17)
    work, twins = work_of(q, k, v, d_model=80), []
    right = run(work).out
    for bug in BUGS:
        made = run(work, [bug]) if bug.steps and bug.fits(work) else None
        if made is not None and not alike(made.out, right):
            (named,) = explain([Case(work, made.out)], BUGS, 1)
            twins += [(bug.code, named.code)] if named.code != bug.code else []
    assert dict(twins) == {
        "blocks.own_maximum": "softmax.uniform",  # in blocks of one key
    }


@pytest.mark.parametrize("n_q, n_k", [(9, 9), (4, 9)])
def test_reach_gives_the_masks_of_the_chapter(n_q, n_k):
    documents = document_mask(torch.arange(n_k) // 4)[-n_q:]
    window = window_mask(n_q, n_k, 3)
    with_sinks = causal_mask(n_q, n_k) & (window | sink_mask(n_q, n_k, 2))
    assert torch.equal(Reach(3).mask(n_q, n_k), window)
    assert torch.equal(Reach(3, 2).mask(n_q, n_k), with_sinks)
    assert torch.equal(Reach(3, documents=4).mask(n_q, n_k), window & documents)
    assert torch.equal(Reach(documents=4, causal=False).mask(n_q, n_k), documents)
    upper_left = window_mask(n_k, n_k, 3)[:n_q]
    assert torch.equal(Reach(3, upper_left=True).mask(n_q, n_k), upper_left)


@pytest.mark.parametrize("reach", [Reach(5), Reach(5, 2), Reach(4, 2, 9), Reach(documents=4)])
def test_each_wrong_reach_is_another_mask(reach):
    right, q = reach.mask(31, 31), torch.zeros(1, 1, 31, 1)
    work = work_of(q, q, q, right)
    wrong = [bug.steps["mask"](work).allowed[0, 0] for bug in reach_bugs(reach)]
    masks = {tuple(mask.flatten().tolist()) for mask in (right, *wrong)}
    assert len(masks) == len(wrong) + 1


@pytest.mark.parametrize("way", PAIRINGS)
def test_each_wrong_rotation_is_named(way):
    x = torch.randn(2, 3, 5, 8, generator=torch.Generator().manual_seed(0))

    def angles(work):
        return work._replace(scores=rotary_angles(work.k, 8))

    stages, bugs = {"angles": angles, "pair": turn_pairs(way)}, rotary_bugs(8, way=way)
    works = [Work(q=x, k=torch.tensor(p)) for p in ([0, 1, 2, 3, 4], [4, 0, 9, 2, 7])]
    for bug in bugs:
        outs = [run(work, [bug], stages=stages).out for work in works]
        cases = [Case(work, out, 1e-4, stages) for work, out in zip(works, outs)]
        assert codes(cases, bugs) == [bug.code]


def test_what_is_added_to_the_sum_and_what_is_rounded_is_measured():
    x = torch.randn(3, 5, generator=torch.Generator().manual_seed(2))
    e = (x - x.amax(-1, keepdim=True)).exp()
    for weights in (e / (e.sum(-1, True) + 0.01), x.exp() / (x.exp().sum(-1, True) + 1e-4)):
        assert fitted_epsilon(weights, x).code == "softmax.epsilon"
    assert fitted_epsilon(x.softmax(-1), x) is None
    assert fitted_dtype(x.softmax(-1)) is None
    assert fitted_dtype(x.bfloat16().softmax(-1).float()).code == "dtype.narrow"
