"""Rotations and biases that are wrong in one way each, and the code that each is named by."""

from __future__ import annotations

import pytest
import torch
from tests.checks.finding import codes_of

from attention_checks import check_positions
from attention_nb.positions import (
    RelativePositions,
    RotaryEmbedding,
    alibi_bias,
    alibi_slopes,
    rotary_angles,
    rotate,
)

rotary = RotaryEmbedding(8)
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}


def by_pairs(pair):
    "Rotate halves, each pair made by a function of both numbers, cosine and sine."

    def turned(x, positions):
        angles = rotary_angles(positions, 8)
        return torch.cat(pair(*x.chunk(2, dim=-1), angles.cos(), angles.sin()), dim=-1)

    return turned


def neighbours_as_halves(x, positions):
    "Pair neighbours, and lay the result out as two halves."
    out = rotate(x, rotary_angles(positions, 8), True)
    return torch.cat([out[..., ::2], out[..., 1::2]], dim=-1)


ROTATIONS = [
    ("positions start again", lambda x, p: rotary(x, p % 512), "rotary.far"),
    ("a table too short", lambda x, p: rotary(x, p.clamp(max=2000)), "rotary.far"),
    ("another shape", lambda x, p: rotary(x, p)[..., :4], "rotary.shape"),
    ("no known bug", lambda x, p: rotary(x, 3 * p), "rotary.unknown"),
]


@pytest.mark.parametrize("fn, code", [pytest.param(*row[1:], id=row[0]) for row in ROTATIONS])
def test_a_wrong_rotation_is_named(fn, code):
    assert code in codes_of(check_positions, fn, d_head=8)


def test_two_bugs_that_meet_are_both_named():
    codes = codes_of(check_positions, lambda x, p: x + rotary(x, -p), d_head=8)
    assert codes == ["rotary.backwards", "rotary.residual"]


@pytest.mark.parametrize(
    "fn, settings",
    [
        (rotary, {}),
        (RotaryEmbedding(8, interleaved=True), {"interleaved": True}),
        (neighbours_as_halves, {"d_head": 8}),
        (RotaryEmbedding(8, 500.0, YARN), {"base": 500.0, "scaling": YARN}),
    ],
)
def test_a_right_rotation_holds_and_its_pairs_are_reported(fn, settings):
    report = check_positions(fn, **settings)
    assert report.ok and report.remarks


def with_slopes(slopes):
    "ALiBi with other slopes."

    def bias(n_heads, n_q, n_k):
        return alibi_bias(1, n_q, n_k) / alibi_slopes(1) * slopes(n_heads)[:, None, None]

    return bias


def by_distance(f):
    "ALiBi, of a function of the distance."

    def bias(n_heads, n_q, n_k):
        distance = (torch.arange(n_k) - torch.arange(n_k - n_q, n_k)[:, None]).abs()
        return -alibi_slopes(n_heads)[:, None, None] * f(distance)

    return bias


BIASES = [
    ("one head", lambda h, n_q, n_k: alibi_bias(h, n_q, n_k)[0], "alibi.shape"),
    ("no known bug", lambda h, n_q, n_k: alibi_bias(h, n_q, n_k) * 0.37, "alibi.unknown"),
]


@pytest.mark.parametrize("fn, code", [pytest.param(*row[1:], id=row[0]) for row in BIASES])
def test_a_wrong_bias_is_named(fn, code):
    assert codes_of(check_positions, fn) == [code]


def test_a_learned_bias_need_only_depend_on_the_distance():
    learned = RelativePositions(3)
    torch.nn.init.normal_(learned.weight)

    def bias(n_heads, n_q, n_k):
        return learned.score_bias(torch.arange(n_k - n_q, n_k), torch.arange(n_k))

    def by_position(n_heads, n_q, n_k):
        return torch.arange(n_k).expand(n_heads, n_q, n_k) * torch.arange(n_q)[:, None]

    assert check_positions(bias, n_heads=3, alibi=False).ok
    assert "alibi.absolute" in codes_of(check_positions, by_position, n_heads=3, alibi=False)


@pytest.mark.parametrize(
    "rotate",
    [
        lambda x, cos, sin: torch.cat([x[..., :4] * cos - x[..., 4:] * sin, x[..., 4:]], -1),
        lambda q, k, cos, sin: (q * cos, k * cos),
    ],
)
def test_a_rotation_by_tables_is_refused_with_a_hint(rotate):
    "It is no bias of three numbers; rotated by tables of the positions, it can be checked."
    with pytest.raises(TypeError, match="takes tables: wrap it"):
        check_positions(rotate)


@pytest.mark.parametrize(
    "scaling, d_rotary, expected",
    [
        (None, 5, "an even number from 2 to 8"),
        ({"partial_rotary_factor": 0.5}, 6, "4, as scaling= says"),
    ],
)
def test_a_part_that_cannot_be_rotated_is_refused(scaling, d_rotary, expected):
    with pytest.raises(ValueError, match=f"d_rotary: expected {expected}"):
        check_positions(rotary, scaling=scaling, d_rotary=d_rotary)


def test_far_positions_tell_nothing_of_a_rotation_that_is_wrong_near():
    codes = codes_of(check_positions, lambda x, p: rotary(x, 3 * p), d_head=8)
    assert codes == ["rotary.unknown"]


def test_distances_may_keep_their_sign_where_the_future_is_masked():
    signed = lambda h, n_q, n_k: (
        -alibi_slopes(h)[:, None, None]
        * (torch.arange(n_k - n_q, n_k)[:, None] - torch.arange(n_k))
    )
    raised = lambda h, n_q, n_k: -signed(h, n_q, n_k)
    assert codes_of(check_positions, signed) == ["alibi.signed"]
    assert check_positions(signed, causal=True).ok
    assert codes_of(check_positions, raised, causal=True) == ["alibi.sign"]
