"""The cases of `positions`: how to draw each function's arguments, and what is right."""

import copy
import math

import attention_nb as nb
import torch
import torch.nn as nn
from hypothesis import strategies as st
from torch import Tensor
from tests.properties.common import (
    Case,
    args,
    at_least_two,
    bases,
    dtypes,
    even,
    floats,
    refuse,
    right_speeds,
    scalings,
    shapes_of,
    sizes,
    whole,
)

all_places = st.lists(st.integers(1, 3), max_size=3).flatmap(
    lambda shape: st.integers(-9, 9).map(
        lambda s: (torch.arange(math.prod(shape)) * 3 + s).view(shape)
    )
)


def right_angles(positions, d_head, base=None, scaling=None):
    refuse(
        isinstance(positions, Tensor)
        and positions.dtype != torch.bool
        and not positions.is_complex()
    )
    positions = positions.double()
    longest = positions.max().item() if positions.numel() else 0
    return positions[..., None] * torch.tensor(
        right_speeds(d_head, base, scaling, longest), dtype=torch.float64
    )


def right_waves(n, d_model, base=10000.0):
    whole(n)
    at_least_two(d_model, base)
    return torch.tensor(
        [
            [
                (math.sin, math.cos)[j % 2](place * base ** (-(j - j % 2) / d_model))
                for j in range(d_model)
            ]
            for place in range(n)
        ],
        dtype=torch.float64,
    )


def right_rotation(x, angles, interleaved=False):
    "By complex numbers."
    refuse(isinstance(interleaved, bool) and x.is_floating_point() and angles.is_floating_point())
    refuse(
        x.ndim >= 1
        and 0 not in x.shape
        and x.shape[-1] % 2 == 0
        and angles.ndim
        and angles.shape[-1] == x.shape[-1] // 2
    )
    angles = angles.unsqueeze(-3) if 2 < angles.ndim == x.ndim - 1 else angles  # for every head
    angles = angles.expand(*x.shape[:-1], x.shape[-1] // 2)
    pairs = x.unflatten(-1, (-1, 2)) if interleaved else x.unflatten(-1, (2, -1)).mT
    z = torch.complex(*pairs.unbind(-1)) * torch.polar(torch.ones_like(angles), angles)
    turned = torch.stack([z.real, z.imag], -1)
    return (turned if interleaved else turned.mT).flatten(-2)


def right_factor(d_head, base=10000.0, scaling=None, interleaved=False):
    right_speeds(d_head, base, scaling, 0)
    refuse(isinstance(interleaved, bool))
    yarn = scaling is not None and scaling.get("rope_type") == "yarn"
    return 0.1 * math.log(scaling["factor"]) + 1 if yarn else 1.0


def right_turned(self, x, positions=None):
    refuse(x.ndim >= 2 and x.shape[-1] == self.d_head)
    positions = torch.arange(x.shape[-2]) if positions is None else positions
    refuse(
        isinstance(positions, Tensor) and positions.ndim >= 1 and positions.shape[-1] == x.shape[-2]
    )
    # for every head
    positions = positions.unsqueeze(-2) if 1 < positions.ndim == x.ndim - 2 else positions
    angles = right_angles(positions, self.d_head, self.base, self.scaling)
    refuse(torch.broadcast_shapes(angles.shape[:-1], x.shape[:-1]) == x.shape[:-1])
    return right_rotation(x, angles, self.interleaved) * right_factor(
        self.d_head, self.base, self.scaling
    )


def right_learned(self, x, positions=None):
    table = copy.deepcopy(self).double().weight
    refuse(x.is_floating_point() and x.ndim >= 2)
    positions = torch.arange(x.shape[-2]) if positions is None else torch.as_tensor(positions)
    refuse(
        not positions.is_floating_point()
        and not positions.is_complex()
        and positions.dtype != torch.bool
        or not positions.numel()
    )
    positions = positions.long()
    refuse(
        positions.ndim >= 1 and x.shape[-1] == table.shape[1] and positions.shape[-1] == x.shape[-2]
    )
    refuse(torch.broadcast_shapes(positions.shape, x.shape[:-1]) == x.shape[:-1])
    refuse(all(0 <= p < len(table) for p in positions.flatten().tolist()))
    return x + table[positions]


def right_pairing(weight, n_heads, interleaved):
    whole(n_heads)
    refuse(
        isinstance(interleaved, bool)
        and weight.ndim in (1, 2)
        and weight.is_floating_point()
        and len(weight)
    )
    refuse(len(weight) % (2 * n_heads) == 0)
    d = len(weight) // n_heads
    order = [
        i // 2 + i % 2 * (d // 2) if interleaved else 2 * i if i < d // 2 else 2 * (i - d // 2) + 1
        for i in range(d)
    ]
    return torch.stack([weight[h * d + i] for h in range(n_heads) for i in order])


def right_slopes(n_heads):
    whole(n_heads)
    power = 2 ** math.floor(math.log2(n_heads))
    own = [2.0 ** (-8 * (i + 1) / power) for i in range(power)]
    doubled = [2.0 ** (-8 * (i + 1) / (2 * power)) for i in range(2 * power)]
    return torch.tensor((own + doubled[::2])[:n_heads], dtype=torch.float64)


def right_alibi(n_heads, n_q, n_k):
    whole(n_q, n_k)
    distances = torch.tensor([[abs(i + n_k - n_q - j) for j in range(n_k)] for i in range(n_q)])
    return -right_slopes(n_heads)[:, None, None] * distances


def right_buckets(relative, bidirectional=True, n_buckets=32, max_distance=128):
    whole(n_buckets, max_distance)
    relative = torch.as_tensor(relative)
    refuse(
        isinstance(bidirectional, bool) and (not relative.numel() or relative.dtype != torch.bool)
    )
    refuse(not relative.numel() or not relative.is_floating_point() and not relative.is_complex())
    half = n_buckets // 2 if bidirectional else n_buckets
    refuse(half >= 2 and max_distance > half // 2)

    def bucket(relative):
        far = abs(relative) if bidirectional else max(-relative, 0)
        side = half if bidirectional and relative > 0 else 0
        if far < half // 2:
            return side + far
        octaves = math.log(far / (half // 2)) / math.log(max_distance / (half // 2))
        return side + min(half // 2 + int(octaves * (half - half // 2)), half - 1)

    found = [bucket(r) for r in relative.flatten().tolist()]
    return torch.tensor(found, dtype=torch.int64).view(relative.shape)


def sized_buckets(n_heads, bidirectional=True, n_buckets=32, max_distance=128):
    right_buckets(torch.zeros(1, dtype=torch.long), bidirectional, n_buckets, max_distance)
    whole(n_heads)
    return {"weight": (n_buckets, n_heads)}


def learned_distances(n_heads):
    layer = nb.RelativePositions(n_heads)
    nn.init.normal_(layer.weight)
    return layer


def right_score_bias(self, q_positions, k_positions):
    q_positions, k_positions = (torch.as_tensor(t) for t in (q_positions, k_positions))
    # for every head
    q_positions, k_positions = (
        t.unsqueeze(-2) if t.ndim == 2 else t for t in (q_positions, k_positions)
    )
    for t in (q_positions, k_positions):
        refuse(t.ndim >= 1 and (t.ndim == 1 or t.shape[-2] == 1))
        refuse(
            not t.numel()
            or not t.is_floating_point()
            and not t.is_complex()
            and t.dtype != torch.bool
        )
    refuse(
        () in (q_positions.shape[:-1], k_positions.shape[:-1])
        or q_positions.shape[:-1] == k_positions.shape[:-1]
    )
    relative = k_positions.long()[..., None, :] - q_positions.long()[..., :, None]
    if isinstance(self, nb.AlibiPositions):
        return -right_slopes(self.n_heads)[:, None, None] * relative.abs()
    found = self.weight.double()[right_buckets(relative)]  # (..., n_q, n_k, h)
    return (
        found.movedim(-1, -3)
        if relative.ndim == 2
        else torch.cat([part[..., None, :, :] for part in found.squeeze(-4).unbind(-1)], -3)
    )


@st.composite
def learned_calls(draw):
    n, d, lead = draw(sizes), draw(sizes), draw(st.lists(sizes, max_size=2))
    layer = nb.LearnedPositions(9, d)
    own = torch.arange(n) + draw(st.integers(0, 5))
    return {
        "self": layer,
        "x": draw(floats((*lead, n, d), draw(dtypes))),
        "positions": draw(st.sampled_from([None, own])),
    }


@st.composite
def rotations(draw):
    x_shape = (*draw(st.lists(sizes, max_size=3)), draw(even))
    full = tuple(1 if draw(st.integers(0, 3)) == 0 else n for n in x_shape[:-1])
    angles = full[draw(st.integers(0, len(full))) :]
    if 1 < len(angles) == len(full) - 1:  # meant for every head
        angles = (*full[:-2], full[-1])
    dtype = draw(dtypes)
    return {
        "x": draw(floats(x_shape, dtype)),
        "angles": draw(floats((*angles, x_shape[-1] // 2), dtype)),
        "interleaved": draw(st.booleans()),
    }


@st.composite
def rotary_calls(draw):
    n, lead, d = draw(sizes), draw(st.lists(sizes, max_size=2)), draw(even)
    layer = nb.RotaryEmbedding(d, draw(bases), draw(scalings), draw(st.booleans()))
    own = torch.arange(n) + draw(st.integers(-5, 20))
    x = draw(floats((*lead, n, d), draw(dtypes.filter(lambda t: t != torch.float64))))
    return {"self": layer, "x": x, "positions": draw(st.sampled_from([None, own]))}


@st.composite
def projections(draw):
    h, d = draw(sizes), draw(even)
    return {
        "weight": draw(floats((h * d, draw(sizes))[: draw(st.integers(1, 2))], draw(dtypes))),
        "n_heads": h,
        "interleaved": draw(st.booleans()),
    }


@st.composite
def two_places(draw, kind):
    n_q, n_k, b = draw(sizes), draw(sizes), draw(sizes)
    q, k = torch.arange(n_k - n_q, n_k), torch.arange(n_k)
    q, k = (q + torch.arange(b)[:, None, None], k) if draw(st.booleans()) else (q, k)
    return {"self": kind(draw(sizes)), "q_positions": q, "k_positions": k}


CASES = {
    "sinusoidal_positions": Case(
        nb.sinusoidal_positions, args(n=sizes, d_model=even, base=bases), right_waves
    ),
    "LearnedPositions": Case(
        lambda **a: shapes_of(nb.LearnedPositions(**a)),
        args(n_max=sizes, d_model=sizes),
        lambda n_max, d_model: (whole(n_max, d_model), {"weight": (n_max, d_model)})[1],
    ),
    "LearnedPositions.forward": Case(
        nb.LearnedPositions.forward, learned_calls(), right_learned, "x", fixed=("self",)
    ),
    "rotary_angles": Case(
        nb.rotary_angles,
        args(positions=all_places, d_head=even, base=bases, scaling=scalings),
        right_angles,
    ),
    "rotate": Case(nb.rotate, rotations(), right_rotation, "x"),
    "convert_pairing": Case(nb.convert_pairing, projections(), right_pairing, "weight", exact=True),
    "RotaryEmbedding": Case(
        lambda **a: nb.RotaryEmbedding(**a).attention_factor,
        args(d_head=even, base=bases, scaling=scalings, interleaved=st.booleans()),
        right_factor,
    ),
    "RotaryEmbedding.forward": Case(
        nb.RotaryEmbedding.forward, rotary_calls(), right_turned, "x", fixed=("self",), single=True
    ),
    "alibi_slopes": Case(nb.alibi_slopes, args(n_heads=st.integers(1, 20)), right_slopes),
    "alibi_bias": Case(nb.alibi_bias, args(n_heads=sizes, n_q=sizes, n_k=sizes), right_alibi),
    "AlibiPositions": Case(
        lambda n_heads: nb.AlibiPositions(n_heads).n_heads,
        args(n_heads=sizes),
        lambda n_heads: (whole(n_heads), n_heads)[1],
    ),
    "AlibiPositions.score_bias": Case(
        nb.AlibiPositions.score_bias,
        two_places(nb.AlibiPositions),
        right_score_bias,
        also={"q_positions": "k_positions", "k_positions": "q_positions"},
        fixed=("self",),
    ),
    "relative_buckets": Case(
        nb.relative_buckets,
        args(
            relative=all_places,
            bidirectional=st.booleans(),
            n_buckets=st.integers(4, 32),
            max_distance=st.sampled_from([23, 61, 97]),
        ),
        right_buckets,
        also={"n_buckets": "max_distance|n_buckets"},
    ),
    "RelativePositions": Case(
        lambda **a: shapes_of(nb.RelativePositions(**a)),
        args(
            n_heads=sizes,
            bidirectional=st.booleans(),
            n_buckets=st.integers(4, 32),
            max_distance=st.sampled_from([23, 61, 97]),
        ),
        sized_buckets,
        also={"n_buckets": "max_distance|n_buckets"},
    ),
    "RelativePositions.score_bias": Case(
        nb.RelativePositions.score_bias,
        two_places(learned_distances),
        right_score_bias,
        also={"q_positions": "k_positions", "k_positions": "q_positions"},
        fixed=("self",),
    ),
}
