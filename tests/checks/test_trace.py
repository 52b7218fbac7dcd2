"""A layer's work is redone from its own projections; each planted bug gets its code."""

import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F

from attention_checks.catalogue.layer_rotations import rotate_pairs
from attention_checks.catalogue.layers import merge_features_first, split_features_first
from attention_checks.subjects.diagnosis import examined
from attention_checks.spec import Contract
from attention_checks.subjects.layer import adapt
from attention_checks.trace.comparing import compare_with_own_weights, name_other_scale
from attention_checks.trace.rotating import agrees_with_rotation, name_rotation_bug
from attention_nb.masks import causal_mask
from attention_nb.multi_head_attention import merge_heads
from tests.checks.made import Made, attend, heads_of, projections, trace

FOUR = Contract(n_heads=4)
QKV = ("q_proj", "k_proj", "v_proj")
X = torch.randn(3, 5, 12, generator=torch.Generator().manual_seed(0))
WIDE = torch.randn(2, 5, 24, generator=torch.Generator().manual_seed(1))
PAST = causal_mask(5)


def codes(bugs):
    "The codes of some bugs, joined; '' if there are none, 'unknown' if nothing known fits."
    return "unknown" if bugs is None else "+".join(sorted(bug.code for bug in bugs))


def compared(use, n_heads=4, causal=False, window=None, x=X, **parts):
    "What a layer's comparison with its own weights says."
    torch.manual_seed(0)
    layer = Made(use, **(parts or projections(*QKV)))
    seen = trace(layer, x, contract=Contract(n_heads=n_heads, causal=causal))
    return codes(compare_with_own_weights(seen, window))


def changed(change=lambda q, k, v: (q, k, v), **options):
    "A forward in which something is done to the heads."
    return lambda m, x: m.out_proj(attend(*change(*heads_of(m, x)), **options))


def viewed(heads):
    return merge_heads(heads).reshape(heads.shape)


def features_first(heads):
    return split_features_first(merge_heads(heads), heads.shape[1])


def alternating(change):
    "A forward that splits features first, but for a change."

    def use(m, x):
        q, k, v = (split_features_first(getattr(m, name)(x), 4) for name in QKV)
        return m.out_proj(attend(*change(q, k, v), merge=merge_features_first))

    return use


def capped(cap):
    return changed(on_scores=lambda scores: cap * torch.tanh(scores / cap))


WRONG = {
    "split.viewed_q": changed(lambda q, k, v: (viewed(q), k, v)),
    "merge.heads_first": lambda m, x: m.out_proj(
        attend(*(split_features_first(getattr(m, name)(x), 4) for name in QKV))
    ),
    "scores.capped": capped(7.5),
}


@pytest.mark.parametrize("code", WRONG)
def test_a_planted_bug_gets_its_code(code):
    x = 8 * X if code == "scores.capped" else X
    assert compared(WRONG[code], x=x) == code


def test_an_added_mask():
    use = changed(on_scores=lambda s: s + ~PAST * 3**-0.5)
    assert compared(use, causal=True) == "mask.added_inverted"


def test_a_fused_projection():
    def use(m, x):
        heads = m.to_qkv(x).view(3, 5, 4, 9).transpose(1, 2)
        return m.out_proj(attend(*heads.chunk(3, -1)))

    assert compared(use, to_qkv=nn.Linear(12, 36), out_proj=nn.Linear(12, 12)) == ""


@pytest.mark.parametrize(
    "code, use, options",
    [
        ("", changed(), {}),
        ("", changed(), dict(n_heads=None)),
        ("", changed(mask=PAST), dict(causal=True)),
        ("", changed(mask=PAST.triu(-1)), dict(causal=True, window=2)),
        ("", alternating(lambda q, k, v: (q, k, v)), {}),
        (
            "",
            lambda m, x: F.linear(attend(*heads_of(m, x)), m.out_proj.weight, m.out_proj.bias),
            {},
        ),
        ("unknown", changed(lambda q, k, v: (q, k, v.sin())), {}),
        ("heads.number", lambda m, x: m.out_proj(attend(*heads_of(m, x, 2), scale=6**-0.5)), {}),
    ],
)
def test_a_layer_is_read_in_every_way(code, use, options):
    assert compared(use, **options) == code


def test_another_scale_is_found():
    torch.manual_seed(0)
    layer = Made(changed(scale=0.37), **projections(*QKV))
    assert codes(name_other_scale(trace(layer, X, contract=FOUR))) == "scale.head_constant"


ANGLES = torch.arange(5)[:, None] * 1e4 ** -(torch.arange(0, 8, 2) / 8)


def rotated(q, k=None, halves=True, causal=False, **options):
    "A trace of three heads of 8 features; functions rotate queries and keys."

    def use(m, x):
        query, key, value = heads_of(m, x, 3)
        query, key = q(query, ANGLES, halves), (k or q)(key, ANGLES, halves)
        return m.out_proj(attend(query, key, value, **({"scale": 8**-0.5} | options)))

    torch.manual_seed(0)
    layer = Made(use, **{name: nn.Linear(24, 24) for name in [*QKV, "out_proj"]})
    return trace(layer, WIDE, contract=Contract(n_heads=3, causal=causal))


def backwards(t, angles, halves):
    return rotate_pairs(t, -angles, halves)


@pytest.mark.parametrize("halves", [True, False])
@pytest.mark.parametrize(
    "code, q, k", [("", rotate_pairs, rotate_pairs), ("rotation.opposite", rotate_pairs, backwards)]
)
def test_a_rotation_is_compared(code, q, k, halves):
    seen = rotated(q, k, halves)
    assert agrees_with_rotation(seen) == (not code)
    if code:
        assert codes(name_rotation_bug(seen)) == code


def test_a_window_of_a_rotating_layer_is_compared():
    seen = rotated(rotate_pairs, causal=True, mask=PAST.triu(-1))
    assert agrees_with_rotation(seen, window=2)
    assert not agrees_with_rotation(seen, window=3)


@pytest.mark.parametrize("slopes", [0.5 ** torch.arange(1, 5), 0.25 ** torch.arange(1, 5)])
@pytest.mark.parametrize("code, scale", [("", 3**-0.5), ("scale.missing", 1.0)])
def test_a_penalty_by_distance_is_compared(code, scale, slopes):
    "ALiBi, by slopes of either kind for four heads."
    distance = (torch.arange(5)[:, None] - torch.arange(5)).abs()
    penalty = lambda scores: scores - slopes[:, None, None] * distance
    torch.manual_seed(0)
    layer = Made(changed(scale=scale, on_scores=penalty), **projections(*QKV))
    seen = trace(layer, X, contract=FOUR)
    assert agrees_with_rotation(seen) == (not code)
    assert codes(name_rotation_bug(seen)) == (code or "unknown")


def test_a_layer_and_its_trace_are_readable():
    layer = adapt(Made(changed(), **projections(*QKV)), 12, FOUR)
    seen = examined(layer)
    assert (repr(layer), repr(seen)) == (
        "Layer(Made: 5 × 12, 4 heads)",
        "Layer(Made: 5 × 12, 4 heads, no bug)",
    )
    assert repr(seen.observed.trace).startswith("Trace(x (3, 5, 12), names {'q': ['q_proj']")
