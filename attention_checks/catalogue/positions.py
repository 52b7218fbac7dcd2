"""Rotations by the wrong angle or of the wrong pairs, and biases whose slopes or distances are not what they should be."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from attention_checks.pipeline import Bug, Step, bugs_of, signs
from attention_nb.positions import alibi_slopes, rotary_angles

_Right = Callable[[Tensor], Tensor]
_Angles = Callable[[Tensor, _Right, int, float], Tensor]


def _powers(p: Tensor, exponents: Tensor, base: float) -> Tensor:
    "Places times powers of the base."
    return p[..., None] * base**exponents


def _slower(n: int) -> _Angles:
    "A fraction of the right angles."
    return lambda p, a, d, base: a(p) / n


_ANGLES: dict[str, tuple[str, _Angles]] = {
    "rotary.identity": (
        "places make no difference: every row comes back as it was",
        lambda p, a, d, base: 0 * a(p),
    ),
    "rotary.place_ignored": (
        "the places that it is given are ignored: rows are counted 0, 1, 2 … in every text",
        lambda p, a, d, base: a(torch.arange(len(p), device=p.device)),
    ),
    "rotary.from_one": (
        "places are one too large: they should be counted from 0",
        lambda p, a, d, base: a(p + 1),
    ),
    "rotary.one_short": ("places are one too small", lambda p, a, d, base: a(p - 1)),
    "rotary.backwards": (
        "rows are turned the other way round: the sine has the wrong sign",
        lambda p, a, d, base: -a(p),
    ),
    "rotary.exponent": (
        "the exponent of the base is half of what it should be: 2i / d, where i counts pairs, or arange(0, d, 2) / d",
        lambda p, a, d, base: _powers(p, -torch.arange(d // 2) / d, base),
    ),
    "rotary.exponent_twice": (
        "the exponent of the base is twice what it should be: 2i / d, where i counts pairs, or arange(0, d, 2) / d",
        lambda p, a, d, base: _powers(p, -4 * torch.arange(d // 2) / d, base),
    ),
    "rotary.exponent_ends": (
        "the exponents run to 1, both ends counted (linspace): the last should be 1 - 2 / d",
        lambda p, a, d, base: _powers(p, -torch.linspace(0, 1, d // 2), base),
    ),
    "rotary.growing": (
        "the exponent of the base lacks its minus: later pairs turn faster, not more slowly",
        lambda p, a, d, base: _powers(p, 2 * torch.arange(d // 2) / d, base),
    ),
    "rotary.reversed": (
        "the slowest pair comes first: frequencies are in the wrong order",
        lambda p, a, d, base: a(p).flip(-1),
    ),
    "rotary.one_speed": (
        "all pairs turn equally fast",
        lambda p, a, d, base: a(p)[..., :1].expand(*p.shape, d // 2),
    ),
    "rotary.degrees": (
        "angles are taken for degrees, and made radians",
        lambda p, a, d, base: a(p) * math.pi / 180,
    ),
    "rotary.rounds": (
        "angles are multiplied by 2π: one radian a step is meant, not one round",
        lambda p, a, d, base: a(p) * 2 * math.pi,
    ),
    **{
        f"rotary.slower_{n}": (
            f"places are divided by {n}: linear scaling that nobody asked for",
            _slower(n),
        )
        for n in (2, 4, 8)
    },
}


_Pair = tuple[Tensor, Tensor]
_TURNS: dict[str, tuple[str, Callable[[Tensor, Tensor, Tensor, Tensor], _Pair]]] = {
    "rotary.no_minus": (
        "a minus is missing: (a cos + b sin, a sin + b cos) is no rotation, and lengths change",
        lambda a, b, c, s: (a * c + b * s, a * s + b * c),
    ),
    "rotary.swapped": (
        "sine and cosine change places",
        lambda a, b, c, s: (a * s - b * c, a * c + b * s),
    ),
    "rotary.half_only": (
        "only one number of each pair is turned, the other stays",
        lambda a, b, c, s: (a * c - b * s, b),
    ),
    "rotary.cosine_only": (
        "the half with the sine is missing: rows shrink",
        lambda a, b, c, s: (a * c, b * c),
    ),
    "rotary.sine_only": ("the half with the cosine is missing", lambda a, b, c, s: (-b * s, a * s)),
    "rotary.in_place": (
        "the first number of a pair is overwritten before the second is made from it",
        lambda a, b, c, s: (a * c - b * s, (a * c - b * s) * s + b * c),
    ),
    "rotary.added": (
        "waves are added to the rows, which should be turned",
        lambda a, b, c, s: (a + s, b + c),
    ),
    "rotary.residual": (
        "the turned row is added to the row itself",
        lambda a, b, c, s: (a + a * c - b * s, b + a * s + b * c),
    ),
    "rotary.scaled": (
        "rows are divided by √d after the turn: lengths change",
        lambda a, b, c, s: tuple(
            t / (2 * a.shape[-1]) ** 0.5 for t in (a * c - b * s, a * s + b * c)
        ),
    ),
}


def _neighbours(x: Tensor) -> _Pair:
    return x[..., ::2], x[..., 1::2]


def _halves(x: Tensor) -> _Pair:
    return x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :]


def _woven(a: Tensor, b: Tensor) -> Tensor:
    return torch.stack([a, b], -1).flatten(-2)


def _joined(a: Tensor, b: Tensor) -> Tensor:
    return torch.cat([a, b], -1)


WAYS: dict[str, tuple[Callable[[Tensor], _Pair], Callable[[Tensor, Tensor], Tensor]]] = {
    "number i of either half, as in Llama": (_halves, _joined),
    "neighbours, as in the paper": (_neighbours, _woven),
    "neighbours, laid out as halves": (_neighbours, _joined),
}


def turn_pairs(
    way: str,  # one of WAYS
    f: Callable[[Tensor, Tensor, Tensor, Tensor], Any] = lambda a, b, c, s: (
        a * c - b * s,
        a * s + b * c,
    ),  # numbers of a pair, cosine, sine → the two turned
) -> Step:  # for the stage `pair`
    "Make a step of a function of pairs, cosine and sine."
    apart, together = WAYS[way]
    return lambda w: w._replace(out=together(*f(*apart(w.q), w.scores.cos(), w.scores.sin())))


def mixed(
    way: str,  # one of WAYS
) -> Step:  # for the stage `pair`
    "Take pairs one way, with angles that were repeated for the other."
    apart, together = WAYS[way]
    repeat = _woven if apart is _halves else _joined
    both: Callable[[Tensor], _Pair] = lambda t: apart(repeat(t, t))

    def step(w: Any) -> Any:
        (a, b), (c, d), (s, t) = apart(w.q), both(w.scores.cos()), both(w.scores.sin())
        return w._replace(out=together(a * c - b * s, b * d + a * t))

    return step


BASE = Bug("rotary.base", "its angles are made with the base {found}, not {base}")
MIXED = Bug(
    "rotary.mixed",
    "pairs are taken one way, and their angles are repeated for the other (repeat_interleave and cat)",
)
_BASES = (100.0, 500.0, 1000.0, 10_000.0, 50_000.0, 100_000.0, 500_000.0, 1_000_000.0)


def rotary_bugs(
    d_head: int,  # width of the rows
    base: float = 10000.0,  # the right one
    scaling: Mapping[str, Any] | None = None,  # the right one
    way: str = "number i of either half, as in Llama",  # one of WAYS
) -> list[Bug]:  # all that numbers tell
    "List what goes wrong with a rotation."
    right: _Right = lambda p: rotary_angles(p, d_head, base, scaling)
    angled: Callable[[_Angles], Step] = lambda f: (
        lambda w: w._replace(scores=f(w.k, right, d_head, base))
    )
    with_base: Callable[[float], _Angles] = lambda b: lambda p, a, d, base: rotary_angles(p, d, b)
    bases = [
        BASE.about(found=f"{b:g}", base=f"{base:g}")._replace(
            steps={"angles": angled(with_base(b))}
        )
        for b in _BASES
        if b not in (base, base**0.5, base**2)
    ]  # those are wrong exponents
    more = (
        {}
        if scaling is None
        else {"rotary.unscaled": (UNSCALED["rotary.unscaled"], with_base(base))}
    )
    return [
        *bugs_of("angles", angled, {**_ANGLES, **more}),
        *bases,
        *bugs_of("pair", lambda f: turn_pairs(way, f), _TURNS),
        MIXED._replace(steps={"pair": mixed(way)}),
    ]


UNSCALED = {"rotary.unscaled": "the scaling is ignored: angles are those of the length of training"}
ROTARY_SIGNS = signs(
    {
        **UNSCALED,
        "rotary.pairing": "its pairs are {found}, and you said otherwise: convert the projections, or the pairing",
        "rotary.far": "from place {place} on, at the latest, rows are turned by other angles: places start anew, stop, or a table is too short",
        "rotary.shape": "it gives another shape than it was given",
        "rotary.half": "angles are worked out in 16 bits, where far places fall together: make them in float32",
    }
) + signs(
    {
        "rotary.length": "rows change their length, which no rotation does",
        "rotary.absolute": "scores change when all places are shifted: they should depend on distances alone",
        "rotary.unknown": "its rows are turned neither by the right angles nor by any that are known to be wrong",
    },
    guess=True,
)


_SLOPES: dict[str, tuple[str, Callable[[int], Tensor]]] = {
    "alibi.slopes_from_one": (
        "slopes are one step too steep: the first is 1, and should be 2^(-8 / h)",
        lambda h: alibi_slopes(h) / alibi_slopes(h)[0],
    ),
    "alibi.one_slope": (
        "every head has the slope of the first",
        lambda h: alibi_slopes(h)[:1].expand(h),
    ),
    "alibi.slopes_reversed": (
        "slopes are in the wrong order: the first head must be the steepest",
        lambda h: alibi_slopes(h).flip(0),
    ),
    "alibi.slopes_even": (
        "slopes are evenly spaced, and should be powers",
        lambda h: 1 - torch.arange(h) / h,
    ),
    "alibi.not_a_power": (
        "a number of heads that is no power of two gets slopes by the formula for those: the paper takes every second of twice as many",
        lambda h: 2 ** (-8 * torch.arange(1, h + 1) / h),
    ),
    "alibi.no_slope": (
        "the slopes are missing: distances are taken off as they are",
        lambda h: torch.ones(h),
    ),
}
_DISTANCES: dict[str, tuple[str, Callable[[Tensor], Tensor]]] = {
    "alibi.corner": (
        "the first query stands at the first key: with more keys than queries the last stands at the last",
        lambda r: (r - r[0, 0]).abs(),
    ),
    "alibi.squared": ("distances are squared", lambda r: r**2),
    "alibi.from_one": (
        "distances are one too large: a word is 0 away from itself",
        lambda r: r.abs() + 1,
    ),
    "alibi.signed": (
        "distances keep their sign: one side is lowered, the other raised",
        lambda r: -r,
    ),
    "alibi.no_difference": ("places make no difference: the bias is zero", lambda r: 0 * r),
    "alibi.log": (
        "the logarithm of the distance stands in its place",
        lambda r: (r.abs() + 1.0).log(),
    ),
    "alibi.by_length": (
        "distances are divided by the number of keys: they mean another thing in each text",
        lambda r: r.abs() / r.shape[-1],
    ),
}
ALIBI: list[Bug] = [
    *bugs_of("slopes", lambda f: lambda w: w._replace(scores=f(w.d_model)), _SLOPES),
    *bugs_of("distances", lambda f: lambda w: w._replace(weights=f(w.k)), _DISTANCES),
    *bugs_of(
        "product",
        lambda f: lambda w: w._replace(out=f(w.scores[:, None, None] * w.weights)),
        {
            "alibi.sign": (
                "the sign is wrong: far words are raised, and should be lowered",
                lambda t: t,
            ),
            "alibi.transposed": ("queries and keys change places", lambda t: -t.mT),
            "alibi.exponential": (
                "exponentials are given, which would be multiplied: a bias is added to the scores",
                lambda t: (-t).exp(),
            ),
        },
    ),
]
BIAS_SIGNS = signs(
    {
        "alibi.far": "the bias is right for near keys alone: at a distance of {distance}, at the latest, it is another",
        "alibi.shape": "it gives another shape than (h, n_q, n_k)",
    }
) + signs(
    {
        "alibi.absolute": "the bias is not the same for the same distance: it depends on where words stand",
        "alibi.unknown": "its bias is neither slope times distance nor anything that is known to be wrong",
    },
    guess=True,
)
