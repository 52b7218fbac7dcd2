"""Bugs of layers that rotate their queries and keys by positions (RoPE)."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from attention_checks.catalogue.positions import HALVES, NEIGHBOURS, PAIRINGS, mixed, turned
from attention_checks.catalogue.scales_and_routes import routing
from attention_checks.explaining.pipeline import RightStep, Step, Work, bugs_of_lines

BUGS = bugs_of_lines(
    """
rotation.queries_only: only the queries are rotated (RoPE): rotate the keys too
rotation.keys_only: only the keys are rotated (RoPE): rotate the queries too
rotation.sign: the rotation lacks its minus sign (RoPE): (a, b) must become (a cos - b sin,
    a sin + b cos)
rotation.opposite: queries and keys are rotated in opposite directions (RoPE): use the same angles
    for both
rotation.pairs: queries and keys are rotated in other pairs of features (RoPE), halves or
    neighbours: use the same pairs for both
rotation.table: queries and keys are rotated in other pairs of features than their cosines and
    sines stand for (RoPE): repeat those as (1 2 1 2) for halves, as (1 1 2 2) for neighbours
rotation.split: pairs of features are split in another way than they are joined, and their cosines
    and sines stand (RoPE): split halves with chunk beside cat, neighbours with [..., ::2] beside
    stack
rotation.joined: pairs of features are joined in another way than they are split, and their cosines
    and sines stand (RoPE): join halves with cat, neighbours with stack and flatten
rotation.values: values are rotated too (RoPE): rotate queries and keys only
rotation.offset: keys are rotated by positions {which} (RoPE): rotate queries and keys by the same
    positions
"""
)
_KNOWN = {bug.code: bug for bug in BUGS}

_Turned = Callable[[Tensor, Tensor, bool], Tensor]  # vectors, angles, halves → rotated vectors
_Rotate = Callable[[Tensor, Tensor], Tensor]  # of x, (b, h, n, d), and positions, (n,)
_Changed = Callable[[Tensor], Tensor]  # of x alone


def rotate_pairs(
    x: Tensor,  # (..., n, d)
    angles: Tensor,  # of each pair at each position, (n, pairs)
    halves: bool,  # True: feature i pairs with feature i + pairs; False: neighbours
) -> Tensor:  # as x; features beyond the pairs stay
    "Rotate pairs of features."
    size = 2 * angles.shape[-1]
    split, join = PAIRINGS[HALVES if halves else NEIGHBOURS]
    rotated = join(*turned(*split(x[..., :size]), angles.cos(), angles.sin()))
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


_ACROSS: dict[str, _Turned] = {
    "rotation.table": _by_other_pairs,
    "rotation.split": _across(1, 0),
    "rotation.joined": _across(0, 1),
}


def _at(t: Tensor) -> Tensor:
    "Return the positions of vectors."
    return torch.arange(t.shape[-2])


def _by_matrix(rotate: _Rotate, changed: Callable[[Tensor], Tensor], t: Tensor) -> Tensor:
    "Rotate by the matrix of a declared function, at each position (d, d), once it is changed."
    basis = torch.eye(t.shape[-1], dtype=t.dtype)[:, None, None].expand(-1, *t.shape[-3:-1], -1)
    columns = rotate(basis.contiguous(), _at(t))
    return torch.einsum("hijk,...hik->...hij", changed(columns.movedim(0, -1)), t)


def backwards(rotate: _Rotate, t: Tensor) -> Tensor:
    "Rotate by the opposite angles."
    return _by_matrix(rotate, lambda matrix: matrix.mT, t)


def _all_plus(rotate: _Rotate, t: Tensor) -> Tensor:
    "Rotate without the minus sign, which stands above the diagonal, whatever makes a pair."
    return _by_matrix(rotate, lambda matrix: matrix.tril() - matrix.triu(1), t)


def _still(t: Tensor) -> Tensor:
    "Rotate nothing."
    return t


def _rotated_by(q: _Changed, k: _Changed, v: _Changed = _still) -> dict[str, Step]:
    "Make the step that changes queries, keys and values."
    return {"rotate": routing(lambda *heads: (q(heads[0]), k(heads[1]), v(heads[2])))}


def declared_rotation(rotate: _Rotate) -> RightStep:  # for the stage `rotate`
    "Make the steps of a rotation: as it should be used, and what may be wrong with that."
    by: Callable[[int], _Changed] = lambda more: lambda t: rotate(t, _at(t) + more)
    rightly, back, plus = by(0), partial(backwards, rotate), partial(_all_plus, rotate)
    wrong: list[tuple[str, tuple[_Changed, ...]]] = [
        ("rotation.queries_only", (rightly, _still)),
        ("rotation.keys_only", (_still, rightly)),
        ("rotation.sign", (plus, plus)),
        ("rotation.opposite", (rightly, back)),
        ("rotation.opposite", (back, rightly)),
        ("rotation.values", (rightly, rightly, rightly)),
    ]
    bugs = [_KNOWN[code]._replace(steps=_rotated_by(*each)) for code, each in wrong]
    for which, more in (("one after their own", 1), ("one before their own", -1)):
        late = _KNOWN["rotation.offset"].about(which=which)
        bugs.append(late._replace(steps=_rotated_by(rightly, by(more))))
    return _rotated_by(rightly, rightly)["rotate"], bugs


def rotating(
    angles: Tensor,  # of each pair at each position, (n, pairs)
    halves: bool,  # as in `rotate_pairs`
    factor: float = 1.0,  # by how much rotated pairs are scaled (YaRN)
) -> RightStep:  # for the stage `rotate`
    "Make the steps of one table of angles, and of pairs that are taken wrongly."

    def by(turn: _Turned, halves: bool = halves) -> _Rotate:
        return lambda x, at: turn(_scaled(x, angles, factor), _angles_at(angles, at), halves)

    here: Callable[[_Rotate], _Changed] = lambda rotate: lambda t: rotate(t, _at(t))
    right, others = here(by(rotate_pairs)), here(by(rotate_pairs, not halves))
    across = {code: 2 * (here(by(turn)),) for code, turn in _ACROSS.items()}
    wrong = {"rotation.pairs": (right, others), **across}
    step, bugs = declared_rotation(by(rotate_pairs))
    pairs = [_KNOWN[code]._replace(steps=_rotated_by(*each)) for code, each in wrong.items()]
    return step, [*bugs, *pairs]


def _scaled(x: Tensor, angles: Tensor, factor: float) -> Tensor:
    "Scale the features that are rotated."
    size = 2 * angles.shape[-1]
    return x if factor == 1 else torch.cat([factor * x[..., :size], x[..., size:]], -1)


def _angles_at(
    angles: Tensor,  # of positions 0, 1, 2 …, (n, pairs)
    at: Tensor,  # positions, the last or the first perhaps one beyond
) -> Tensor:
    "Return the angles of positions."
    return angles + at[0] * angles[:2].diff(dim=0).sum(0)
