"""Bugs of layers that rotate their queries and keys by positions (RoPE)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from attention_checks.catalogue.positions import (
    HALVES,
    NEIGHBOURS,
    PAIRINGS,
    Turn,
    mixed,
    turned,
    without_minus,
)
from attention_checks.catalogue.scales_and_routes import changing, routing
from attention_checks.explaining.pipeline import Bug, RightStep, Step, Work, bugs_of_stage, listed

_Heads = tuple[Tensor, Tensor, Tensor]


def rotate_pairs(
    x: Tensor,  # (..., n, d)
    angles: Tensor,  # of each pair at each position, (n, pairs)
    halves: bool,  # True: feature i pairs with feature i + pairs; False: neighbours
    turn: Turn = turned,  # how one pair is rotated
) -> Tensor:  # as x; features beyond the pairs stay
    "Rotate pairs of features."
    size = 2 * angles.shape[-1]
    split, join = PAIRINGS[HALVES if halves else NEIGHBOURS]
    rotated = join(*turn(*split(x[..., :size]), angles.cos(), angles.sin()))
    return torch.cat([rotated, x[..., size:]], -1)


def _by_other_pairs(x: Tensor, angles: Tensor, halves: bool) -> Tensor:
    "Rotate with cosines and sines that stand for other pairs of features."
    size = 2 * angles.shape[-1]
    rotate = mixed(NEIGHBOURS if halves else HALVES)
    rotated = rotate(Work(x[..., :size], scores=angles)).out
    return torch.cat([rotated, x[..., size:]], -1)


def _across(split_as: int, join_as: int) -> _Turned:
    "Split pairs in one way to turn them and join them in another: 0 is that of the angles, 1 not."

    def turn(x: Tensor, angles: Tensor, halves: bool) -> Tensor:
        size = 2 * angles.shape[-1]
        names = (HALVES, NEIGHBOURS) if halves else (NEIGHBOURS, HALVES)
        splits, joins = zip(*(PAIRINGS[name] for name in names))
        a, b = splits[split_as](x[..., :size])
        cos, sin = (joins[0](t, t) for t in (angles.cos(), angles.sin()))
        rotated = x[..., :size] * cos + joins[join_as](-b, a) * sin
        return torch.cat([rotated, x[..., size:]], -1)

    return turn


_Turned = Callable[[Tensor, Tensor, bool], Tensor]  # vectors, angles, halves → rotated vectors
_Rotation = tuple[_Turned, _Turned, _Turned]  # of queries, keys and values


def _still(x: Tensor, angles: Tensor, halves: bool) -> Tensor:
    "Rotate nothing."
    return x


def _without_sign(x: Tensor, angles: Tensor, halves: bool) -> Tensor:
    "Rotate without the minus sign."
    return rotate_pairs(x, angles, halves, without_minus)


_RIGHTLY: _Rotation = (rotate_pairs, rotate_pairs, _still)
_ROTATIONS: dict[str, tuple[str, _Rotation]] = {
    "rotation.queries_only": (
        "only the queries are rotated (RoPE): rotate the keys too",
        (rotate_pairs, _still, _still),
    ),
    "rotation.keys_only": (
        "only the keys are rotated (RoPE): rotate the queries too",
        (_still, rotate_pairs, _still),
    ),
    "rotation.sign": (
        "the rotation lacks its minus sign (RoPE): (a, b) must become"
        " (a cos - b sin, a sin + b cos)",
        (_without_sign, _without_sign, _still),
    ),
    "rotation.opposite": (
        "queries and keys are rotated in opposite directions (RoPE): use the same angles for both",
        (rotate_pairs, lambda x, angles, halves: rotate_pairs(x, -angles, halves), _still),
    ),
    "rotation.pairs": (
        "queries and keys are rotated in other pairs of features (RoPE), halves or neighbours: use"
        " the same pairs for both",
        (rotate_pairs, lambda x, angles, halves: rotate_pairs(x, angles, not halves), _still),
    ),
    "rotation.table": (
        "queries and keys are rotated in other pairs of features than their cosines and sines stand"
        " for (RoPE): repeat those as (1 2 1 2) for halves, as (1 1 2 2) for neighbours",
        (_by_other_pairs, _by_other_pairs, _still),
    ),
    "rotation.split": (
        "pairs of features are split in another way than they are joined, and their cosines and"
        " sines stand (RoPE): split halves with chunk beside cat, neighbours with [..., ::2] beside"
        " stack",
        (_across(1, 0), _across(1, 0), _still),
    ),
    "rotation.joined": (
        "pairs of features are joined in another way than they are split, and their cosines and"
        " sines stand (RoPE): join halves with cat, neighbours with stack and flatten",
        (_across(0, 1), _across(0, 1), _still),
    ),
    "rotation.values": (
        "values are rotated too (RoPE): rotate queries and keys only",
        (rotate_pairs, rotate_pairs, rotate_pairs),
    ),
}


OFFSET = Bug(
    "rotation.offset",
    "keys are rotated by positions {which} (RoPE): rotate queries and keys by the same positions",
)
BUGS: list[Bug] = [*listed(_ROTATIONS), OFFSET]
_OFFSETS: dict[str, Callable[[Tensor], Tensor]] = {  # in words → the angles of the keys
    "one after their own": lambda a: a + a[1:2] - a[:1],
    "one before their own": lambda a: a - a[1:2] + a[:1],
}


def _keys_by(other: Callable[[Tensor], Tensor]) -> _Rotation:
    "Rotate keys by other angles than queries."
    return rotate_pairs, lambda x, angles, halves: rotate_pairs(x, other(angles), halves), _still


def rotating(
    angles: Tensor,  # of each pair at each position, (n, pairs)
    halves: bool,  # as in `rotate_pairs`
    factor: float = 1.0,  # by how much rotated pairs are scaled (YaRN)
) -> RightStep:  # for the stage `rotate`
    "Make the steps of one table of angles."

    def scaled(x: Tensor) -> Tensor:
        size = 2 * angles.shape[-1]
        return x if factor == 1 else torch.cat([factor * x[..., :size], x[..., size:]], -1)

    def step(rotation: _Rotation) -> Step:
        def rotated(*heads: Tensor) -> _Heads:
            q, k, v = (turn(t, angles, halves) for turn, t in zip(rotation, heads))
            return q, k, v

        return routing(lambda q, k, v: rotated(scaled(q), scaled(k), v))

    offsets = [
        OFFSET.about(which=which)._replace(steps={"rotate": step(_keys_by(other))})
        for which, other in _OFFSETS.items()
    ]
    return step(_RIGHTLY), [*bugs_of_stage("rotate", step, _ROTATIONS), *offsets]


_Rotate = Callable[[Tensor, Tensor], Tensor]  # of x, (b, h, n, d), and positions, (n,)


def _at(t: Tensor) -> Tensor:
    "Return the positions of vectors."
    return torch.arange(t.shape[-2])


def _by_matrix(rotate: _Rotate, changed: Callable[[Tensor], Tensor], t: Tensor) -> Tensor:
    "Rotate by the matrix of a declared function, at each position (d, d), once it is changed."
    basis = torch.eye(t.shape[-1])[:, None, None].expand(-1, *t.shape[-3:-1], -1)
    columns = rotate(basis.contiguous(), _at(t))
    return torch.einsum("hijk,...hik->...hij", changed(columns.movedim(0, -1)), t)


def backwards(
    rotate: _Rotate,
    t: Tensor,  # (b, h, n, d)
) -> Tensor:  # as t
    "Rotate by the opposite angles."
    return _by_matrix(rotate, lambda matrix: matrix.mT, t)


def _all_plus(rotate: _Rotate, t: Tensor) -> Tensor:
    "Rotate without the minus sign, which stands above the diagonal, whatever makes a pair."
    return _by_matrix(rotate, lambda matrix: matrix.tril() - matrix.triu(1), t)


def declared_rotation(
    rotate: _Rotate,
) -> RightStep:  # for the stage `rotate`
    "Make the steps of a rotation that was declared."
    rightly: Callable[[Tensor], Tensor] = lambda t: rotate(t, _at(t))
    back: Callable[[Tensor], Tensor] = partial(backwards, rotate)
    plus: Callable[[Tensor], Tensor] = partial(_all_plus, rotate)
    still: Callable[[Tensor], Tensor] = lambda t: t

    def step(*changes: Callable[[Tensor], Tensor]) -> dict[str, Step]:
        return {"rotate": routing(lambda *qkv: tuple(f(t) for f, t in zip(changes, qkv)))}

    wrong = [
        ("rotation.queries_only", (rightly, still, still)),
        ("rotation.keys_only", (still, rightly, still)),
        ("rotation.values", (rightly, rightly, rightly)),
        ("rotation.opposite", (rightly, back, still)),
        ("rotation.opposite", (back, rightly, still)),
        ("rotation.sign", (plus, plus, still)),
    ]
    bugs = [Bug(code, _ROTATIONS[code][0], step(*each)) for code, each in wrong]
    for which, more in (("one after their own", 1), ("one before their own", -1)):
        late = partial(lambda more, t: rotate(t, _at(t) + more), more)
        bugs.append(OFFSET.about(which=which)._replace(steps=step(rightly, late, still)))
    return step(rightly, rightly, still)["rotate"], bugs


def turned_back(
    rotate: _Rotate,
) -> dict[str, Step]:
    "Make the step that rotates queries and keys backwards, by a function that was declared."
    return {"rotate": routing(changing("qk", lambda t: backwards(rotate, t)))}
