"""Rotations by wrong angles or of wrong pairs, and biases with wrong slopes or distances.

Codes `rotary.*` are of a rotation by itself, `rotation.*` of one inside a layer. A `Work` holds, of

- a rotation: in `k` the positions (n,), in `scores` the angles (n, d / 2), in `q` and `out` vectors
- ALiBi: in `k` the distances (n_q, n_k), in `d_model` the number of heads, in `scores` their
  slopes, in `weights` the distances that are multiplied by those, in `out` the bias
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from attention_checks.explaining.pipeline import (
    Bug,
    Step,
    Work,
    bugs_of_lines,
    bugs_of_stage,
    listed,
)
from attention_nb.positions import alibi_slopes, rotary_angles

_Right = Callable[[Tensor], Tensor]  # positions → the right angles
_Angles = Callable[[Tensor, _Right, int, float], Tensor]  # positions, right, d_head, base → angles


def _powers(positions: Tensor, exponents: Tensor, base: float) -> Tensor:
    "Multiply positions by powers of the base."
    return positions[..., None] * base**exponents


_EXPONENT = "the exponent of the base must be 2i / d, where i counts pairs"
_ANGLES: dict[str, tuple[str, _Angles]] = {
    "rotary.identity": ("nothing is rotated", lambda p, right, d, base: 0 * right(p)),
    "rotary.positions_ignored": (
        "the positions that it is given are ignored: it counts 0, 1, 2 …",
        lambda p, right, d, base: right(torch.arange(len(p), device=p.device)),
    ),
    "rotary.from_one": (
        "positions are one too large: count from 0",
        lambda p, right, d, base: right(p + 1),
    ),
    "rotary.backwards": (
        "it rotates the other way round: the sine has the wrong sign",
        lambda p, right, d, base: -right(p),
    ),
    "rotary.exponent": (
        f"{_EXPONENT}; it is half of that",
        lambda p, right, d, base: _powers(p, -torch.arange(d // 2) / d, base),
    ),
    "rotary.exponent_twice": (
        f"{_EXPONENT}; it is twice that",
        lambda p, right, d, base: _powers(p, -4 * torch.arange(d // 2) / d, base),
    ),
    "rotary.exponent_ends": (
        "the exponents run to 1 (linspace): the last must be 1 - 2 / d",
        lambda p, right, d, base: _powers(p, -torch.linspace(0, 1, d // 2), base),
    ),
    "rotary.growing": (
        "the exponent of the base lacks its minus: later pairs must rotate more slowly",
        lambda p, right, d, base: _powers(p, 2 * torch.arange(d // 2) / d, base),
    ),
    "rotary.one_speed": (
        "all pairs rotate equally fast",
        lambda p, right, d, base: right(p)[..., :1].expand(*p.shape, d // 2),
    ),
    "rotary.degrees": (
        "angles are taken for degrees, and converted to radians",
        lambda p, right, d, base: right(p) * math.pi / 180,
    ),
    "rotary.rounds": (
        "angles are multiplied by 2π: the first pair must rotate by one radian a position",
        lambda p, right, d, base: right(p) * 2 * math.pi,
    ),
}


Pair = tuple[Tensor, Tensor]
Turn = Callable[[Tensor, Tensor, Tensor, Tensor], Pair]  # pair, cos, sin → rotated pair


def turned(a: Tensor, b: Tensor, cos: Tensor, sin: Tensor) -> Pair:
    "Rotate pairs, as it should be."
    return a * cos - b * sin, a * sin + b * cos


_ROTATIONS: dict[str, tuple[str, Turn]] = {
    "rotary.no_minus": (
        "a minus is missing: (a cos + b sin, a sin + b cos) is no rotation",
        lambda a, b, cos, sin: (a * cos + b * sin, a * sin + b * cos),
    ),
    "rotary.swapped": (
        "sine and cosine are exchanged",
        lambda a, b, cos, sin: (a * sin - b * cos, a * cos + b * sin),
    ),
    "rotary.half_only": (
        "only one number of each pair is rotated",
        lambda a, b, cos, sin: (a * cos - b * sin, b),
    ),
    "rotary.cosine_only": (
        "the part with the sine is missing: vectors become shorter",
        lambda a, b, cos, sin: (a * cos, b * cos),
    ),
    "rotary.in_place": (
        "the first number of a pair is overwritten before the second is made from it",
        lambda a, b, cos, sin: (a * cos - b * sin, (a * cos - b * sin) * sin + b * cos),
    ),
    "rotary.residual": (
        "the rotated vector is added to the vector itself",
        lambda a, b, cos, sin: (a + a * cos - b * sin, b + a * sin + b * cos),
    ),
    "rotary.scaled": (
        "vectors are divided by √d after the rotation",
        lambda a, b, cos, sin: (
            (a * cos - b * sin) / (2 * a.shape[-1]) ** 0.5,
            (a * sin + b * cos) / (2 * a.shape[-1]) ** 0.5,
        ),
    ),
}


def neighbours(x: Tensor) -> Pair:
    "Split into numbers 0, 2, 4 … and 1, 3, 5 …"
    return x[..., ::2], x[..., 1::2]


def halves(x: Tensor) -> Pair:
    "Split into the first and the second half."
    return x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :]


def each_once(t: Tensor) -> Tensor:
    "Return one number for each pair: tables hold it twice, as a b a b or a a b b, or once."
    pairs = () if t.shape[-1] % 2 else (halves(t), neighbours(t))
    return next((one for one, other in pairs if torch.allclose(one, other)), t)


def _interleaved(a: Tensor, b: Tensor) -> Tensor:
    "Put pairs side by side."
    return torch.stack([a, b], -1).flatten(-2)


def _joined(a: Tensor, b: Tensor) -> Tensor:
    "Put one half behind the other."
    return torch.cat([a, b], -1)


HALVES, NEIGHBOURS = "number i of either half, as in Llama", "neighbours, as in the paper"
PAIRINGS: dict[str, tuple[Callable[[Tensor], Pair], Callable[[Tensor, Tensor], Tensor]]] = {
    HALVES: (halves, _joined),
    NEIGHBOURS: (neighbours, _interleaved),
    "neighbours, laid out as halves": (neighbours, _joined),
}


def turn_pairs(
    way: str,  # one of PAIRINGS
    f: Turn = turned,  # how one pair is rotated
) -> Step:  # for the stage `pair`
    "Make a step that rotates pairs."
    split, join = PAIRINGS[way]
    return lambda work: work._replace(
        out=join(*f(*split(work.q), work.scores.cos(), work.scores.sin()))
    )


def mixed(way: str) -> Step:
    "Split pairs one way, and repeat angles for the other."
    split, join = PAIRINGS[way]
    repeat = _interleaved if split is halves else _joined

    def step(work: Work) -> Work:
        (a, b), angles = split(work.q), repeat(work.scores, work.scores)
        (cos_a, cos_b), (sin_a, sin_b) = split(angles.cos()), split(angles.sin())
        return work._replace(out=join(a * cos_a - b * sin_a, b * cos_b + a * sin_b))

    return step


BASE = Bug(
    "rotary.base", "its angles are made with the base {found}, not {base}", declare="base={found}"
)
MIXED = Bug(
    "rotary.mixed",
    "pairs are split one way, and angles repeated for the other (cat and repeat_interleave)",
)
UNSCALED = Bug("rotary.unscaled", "the scaling is ignored: angles are those of the training length")
_BASES = (100.0, 500.0, 1000.0, 10_000.0, 50_000.0, 100_000.0, 500_000.0, 1_000_000.0)


def rotary_bugs(
    d_head: int,
    base: float = 10000.0,
    scaling: Mapping[str, Any] | None = None,
    way: str = HALVES,
    measured: Iterable[float] = (),  # other bases that are tried
) -> list[Bug]:
    "List wrong rotations: by wrong angles, and of pairs that are turned wrongly."
    right: _Right = lambda positions: rotary_angles(positions, d_head, base, scaling)
    angled = lambda f: lambda work: work._replace(scores=f(work.k, right, d_head, base))
    bugs = bugs_of_stage("angles", angled, _ANGLES)
    if scaling is not None:
        bugs.append(UNSCALED._replace(steps={"angles": _with_base(d_head, base)}))
    bugs += _wrong_bases(d_head, base, measured)
    bugs += bugs_of_stage("pair", lambda f: turn_pairs(way, f), _ROTATIONS)
    return [*bugs, MIXED._replace(steps={"pair": mixed(way)})]


def _with_base(d_head: int, base: float) -> Step:
    "Make a step of unscaled angles."
    return lambda work: work._replace(scores=rotary_angles(work.k, d_head, base))


def _wrong_bases(d_head: int, base: float, measured: Iterable[float]) -> Iterator[Bug]:
    "List other bases than the right one."
    for other in (*_BASES, *measured):
        if other not in (base, base**0.5, base**2):  # those are wrong exponents
            wrong = BASE.about(found=f"{other:g}", base=f"{base:g}")
            yield wrong._replace(steps={"angles": _with_base(d_head, other)})


_SLOPES: dict[str, tuple[str, Callable[[int], Tensor]]] = {
    "alibi.slopes_from_one": (
        "slopes are one step too steep: the first must be 2^(-8 / h), not 1",
        lambda h: alibi_slopes(h) / alibi_slopes(h)[0],
    ),
    "alibi.one_slope": (
        "every head has the slope of the first",
        lambda h: alibi_slopes(h)[:1].expand(h),
    ),
    "alibi.not_a_power": (
        "for a number of heads that is no power of two, take every second slope of twice as many",
        lambda h: 2 ** (-8 * torch.arange(1, h + 1) / h),
    ),
}
_DISTANCES: dict[str, tuple[str, Callable[[Tensor], Tensor]]] = {
    "alibi.corner": (
        "the first query stands at the first key: the last must stand at the last",
        lambda distance: (distance - distance[0, 0]).abs(),
    ),
    "alibi.from_one": (
        "distances are one too large: a token is 0 away from itself",
        lambda distance: distance.abs() + 1,
    ),
    "alibi.signed": (
        "distances keep their sign: take the absolute value, unless a mask hides the future"
        " | causal=True",
        lambda distance: -distance,
    ),
    "alibi.no_difference": ("the bias is zero", lambda distance: 0 * distance),
}
_PRODUCTS: dict[str, tuple[str, Callable[[Tensor], Tensor]]] = {
    "alibi.sign": ("the sign is wrong: scores of far tokens must become lower", lambda t: t)
}
ALIBI: list[Bug] = [
    *bugs_of_stage("slopes", lambda f: lambda work: work._replace(scores=f(work.d_model)), _SLOPES),
    *bugs_of_stage(
        "distances", lambda f: lambda work: work._replace(weights=f(work.k)), _DISTANCES
    ),
    *bugs_of_stage(
        "product",
        lambda f: lambda work: work._replace(out=f(work.scores[:, None, None] * work.weights)),
        _PRODUCTS,
    ),
]
BUGS: list[Bug] = [
    *listed(_ANGLES, _ROTATIONS),
    BASE,
    MIXED,
    UNSCALED,
    *ALIBI,
    *bugs_of_lines(
        """
rotary.pairing: its pairs are {found}, and you said otherwise: permute projections or change
    pairing
rotary.partial: the first {found} numbers of a vector are rotated, not {width} |
    d_rotary={found}
rotary.rest: numbers behind those that are rotated must stay as they are
rotary.far: angles of far positions are wrong: positions start again or stop, or a table is too
    short
rotary.shape: it gives another shape than it was given
~rotary.unknown: its angles are wrong, and no known bug gives them
alibi.shape: it gives another shape than (h, n_q, n_k)
~alibi.absolute: the bias differs between equal distances: it depends on positions
~alibi.unknown: its bias is not slope times distance, and no known bug gives it
"""
    ),
]
