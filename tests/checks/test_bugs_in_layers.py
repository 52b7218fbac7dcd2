"""Bugs planted in one layer, each in one of its steps, and the code that names each of them."""

from __future__ import annotations

import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F
from tests.checks.finding import codes_of, report_of

from attention_checks import check_self_attention
from attention_nb.multi_head_attention import merge_heads, split_heads
from attention_nb.positions import RotaryEmbedding

D, H, G = 48, 6, 2  # width, query heads, and heads of keys and values


class Layer(nn.Module):
    "Grouped attention; each step is a method that a test replaces."

    def __init__(self):
        super().__init__()
        self.norm, self.q_proj, self.o_proj = nn.LayerNorm(D), nn.Linear(D, D), nn.Linear(D, D)
        self.k_proj, self.v_proj = (nn.Linear(D, D // H * G) for _ in range(2))
        self.table = nn.Embedding(19, H)

    def split_queries(self, q):
        return split_heads(q, H)

    def rotate(self, q, k):
        return q, k

    def score(self, q, k):
        return q @ k.mT / (D // H) ** 0.5

    def weigh(self, scores, mask):
        if mask is not None:
            scores = scores.masked_fill(~mask[:, None, None], -torch.inf)
        return scores.softmax(-1)

    def drop(self, weights):
        return weights

    def merge(self, context):
        return merge_heads(context)

    def forward(self, x, mask=None):
        x = self.norm(x)
        q = self.split_queries(self.q_proj(x))
        k, v = (split_heads(p(x), G) for p in (self.k_proj, self.v_proj))
        q, k = self.rotate(q, k)
        k, v = (t.repeat_interleave(H // G, 1) for t in (k, v))
        weights = self.drop(self.weigh(self.score(q, k), mask))
        return self.o_proj(self.merge(weights @ v))


def layer(**steps) -> Layer:
    "A layer from a fixed seed, with some steps replaced; what it does not use is taken out."
    torch.manual_seed(0)
    made = type("Layer", (Layer,), steps)()
    if "score" not in steps:
        del made.table
    return made


def codes(steps, **declared) -> list[str]:
    "What is found in a layer with some steps replaced."
    return codes_of(check_self_attention, layer(**steps), D, n_heads=H, n_kv_heads=G, **declared)


def positions(t):
    "Of as many tokens as there are."
    return torch.arange(t.shape[-2])


NEIGHBOURS, HALVES = (RotaryEmbedding(D // H, interleaved=each) for each in (True, False))


def misread(t, at):
    "Rotate neighbours by cosines and sines that stand for halves."
    angles = (at[:, None] * 1e4 ** -(torch.arange(0, t.shape[-1], 2) / t.shape[-1])).repeat(1, 2)
    other = torch.stack([-t[..., 1::2], t[..., ::2]], -1).flatten(-2)
    return t * angles.cos() + other * angles.sin()


def across(split, join):
    "Turn pairs that are split in one way and joined in another, by angles of halves."

    def rotate(t):
        angles = (positions(t)[:, None] * 1e4 ** -(torch.arange(0, 8, 2) / 8)).repeat(1, 2)
        a, b = split(t)
        return t * angles.cos() + join(-b, a) * angles.sin()

    return {"rotate": lambda self, q, k: (rotate(q), rotate(k))}


def by_halves(t):
    return t.chunk(2, -1)


def by_neighbours(t):
    return t[..., ::2], t[..., 1::2]


def joined_halves(a, b):
    return torch.cat([a, b], -1)


def joined_neighbours(a, b):
    return torch.stack([a, b], -1).flatten(-2)


@pytest.mark.parametrize(
    "split, join, code",
    [
        (by_halves, joined_halves, []),
        (by_neighbours, joined_halves, ["rotation.split"]),
        (by_halves, joined_neighbours, ["rotation.joined"]),
    ],
)
def test_pairs_that_are_split_in_another_way_than_they_are_joined(split, join, code):
    assert codes(across(split, join), positions=True) == code


def turning(of_keys):
    "Rotate queries in halves, and keys in another way."
    return {"rotate": lambda self, q, k: (HALVES(q, positions(q)), of_keys(k, positions(k)))}


@pytest.mark.parametrize(
    "of_keys, code",
    [
        (HALVES, []),
        (NEIGHBOURS, ["rotation.pairs"]),
        (lambda k, at: HALVES(k, at + 1), ["rotation.offset"]),
    ],
)
def test_keys_that_are_rotated_in_another_way_than_queries(of_keys, code):
    assert codes(turning(of_keys), positions=True) == code


def test_cosines_and_sines_that_stand_for_other_pairs():
    both = lambda self, q, k: (misread(q, positions(q)), misread(k, positions(k)))
    assert codes({"rotate": both}, positions=True) == ["rotation.table"]


def other_split(self, q):
    return split_heads(q, H).unflatten(1, (H // G, G)).transpose(1, 2).flatten(1, 2)


def other_merge(self, context):
    return merge_heads(context.unflatten(1, (G, H // G)).transpose(1, 2).flatten(1, 2))


@pytest.mark.parametrize(
    "steps, code",
    [
        ({"split_queries": other_split}, ["split.query_groups"]),
        ({"merge": other_merge}, ["merge.query_groups"]),
        ({"split_queries": other_split, "merge": other_merge}, ["split.groups"]),
    ],
)
def test_groups_of_queries_are_merged_as_they_were_split(steps, code):
    assert codes(steps) == code


def late(use):
    "A mask that is used after the softmax."
    weigh = lambda self, scores, mask: (
        scores.softmax(-1) if mask is None else use(scores.softmax(-1), mask)
    )
    return {"weigh": weigh}


@pytest.mark.parametrize("declared", [{}, {"mask": ("mask", "allowed")}])
@pytest.mark.parametrize(
    "use",
    [
        lambda weights, mask: weights * mask[:, None, None],
        lambda weights, mask: weights.masked_fill(~mask.view(len(mask), 1, 1, -1), 0),
    ],
)
def test_a_mask_after_the_softmax_has_a_name_though_it_is_not_declared(use, declared):
    assert codes(late(use), **declared) == ["mask.after_softmax"]


@pytest.mark.parametrize("declared", [{}, {"mask": ("mask", "bias")}])
def test_a_mask_that_is_added_to_the_weights(declared):
    assert codes(late(lambda weights, mask: weights + mask), **declared) == ["mask.after_softmax"]


def test_a_mask_of_which_no_meaning_fits_leaves_the_verdict_open():
    "It must be declared, or declared to be none."
    reads = {"weigh": lambda self, scores, mask: softer(scores, mask).softmax(-1)}
    softer = lambda scores, mask: scores if mask is None else scores / (1 + mask[:, None, None, :1])
    report = report_of(check_self_attention, layer(**reads), D, n_heads=H, n_kv_heads=G)
    assert report.verdict == "not compared" and "declare mask=('mask', …)" in report.missing
    assert codes(reads, mask=("mask", "allowed")) == ["mask.padding"]
    declared = dict(n_heads=H, n_kv_heads=G, mask=False)
    assert check_self_attention(layer(**reads), D, **declared).verdict == "sound"


def by_distance(self, q, k):
    "Scores and a bias for each distance."
    at = positions(q)
    bias = self.table((at - at[:, None]).clamp(-9, 9) + 9).permute(2, 0, 1)
    return q @ k.mT / (D // H) ** 0.5 + (bias if self.upright else bias.mT)


def heads_first(q, k, table):
    return table.permute(2, 0, 1)


@pytest.mark.parametrize("upright, code", [(True, []), (False, ["bias.transposed"])])
def test_a_declared_bias_that_is_transposed(upright, code):
    steps = {"score": by_distance, "upright": upright}
    assert codes(steps, positions=True, bias=heads_first) == code


def before_softmax(self, scores, mask):
    hidden = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
    scores = scores.masked_fill(hidden, torch.finfo(scores.dtype).min)
    return self.drop(scores).softmax(-1) if self.early else self.drop(scores.softmax(-1))


def unscaled(self, weights):
    return weights * (torch.rand_like(weights) > 0.2) if self.training else weights


@pytest.mark.parametrize(
    "steps, code",
    [
        ({"drop": lambda self, weights: F.dropout(weights, 0.2, self.training)}, []),
        ({"drop": unscaled}, ["dropout.biased"]),  # beside an embedding and a norm
        ({"drop": unscaled, "score": by_distance, "upright": True}, ["dropout.biased"]),
    ],
)
def test_only_what_comes_after_dropout_must_be_linear(steps, code):
    of_bias = {"positions": True, "bias": heads_first} if "score" in steps else {}
    assert codes(steps, mask=False, **of_bias) == code


@pytest.mark.parametrize("p", [0.1, 0.5])
def test_dropout_of_scores_is_told_from_a_mask_that_training_lacks(p):
    steps = {
        "weigh": before_softmax,
        "early": True,
        "drop": lambda self, scores: (
            F.dropout(scores, p, self.training) if scores.min() < 0 else scores
        ),
    }
    assert "dropout.scores" in codes(steps, causal=True, mask=False)
    lacks = {"weigh": lambda self, scores, mask: never_in_training(self, scores)}
    never_in_training = lambda self, scores: (
        scores if self.training else scores + torch.full_like(scores, -torch.inf).triu(1)
    ).softmax(-1)
    assert "mode.mask_in_evaluation" in codes(lacks, causal=True, mask=False)
