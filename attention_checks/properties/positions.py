"""What a rotation by places, or a bias by distances, must do, and how each property is tried."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from attention_checks.catalogue import known
from attention_checks.catalogue.positions import ALIBI, WAYS, rotary_bugs, turn_pairs
from attention_checks.examine import Broken, NotChecked, first_line
from attention_checks.numbers import (
    first_difference,
    must_be_tensor,
    must_repeat,
    nearly,
)
from attention_checks.pipeline import Bug, Step, Work, run
from attention_checks.properties import (
    Properties,
    Relation,
    listed,
    must_agree,
    must_have_gradients,
    must_hold_in_half,
    must_leave_alone,
    outcome,
)
from attention_checks.search import Case, explain
from attention_nb.positions import (
    RotaryEmbedding,
    alibi_bias,
    alibi_slopes,
    rotary_angles,
)


@dataclass(frozen=True)
class _Rotation:
    "The rotation under test, and what it should be."

    fn: Callable[..., Any]
    d_head: int
    base: float
    scaling: Mapping[str, Any] | None
    interleaved: bool | None

    def __call__(self, x: Tensor, places: Tensor) -> Tensor:
        out = self.fn(x, places)
        must_be_tensor(out)
        if out.shape != x.shape:
            raise Broken(
                f"x {tuple(x.shape)}, positions {tuple(places.shape)}: it gives shape {tuple(out.shape)}",
                known("rotary.shape"),
            )
        return out

    def rows(self, n: int = 5, seed: int = 0) -> Tensor:
        return torch.randn(2, 3, n, self.d_head, generator=torch.Generator().manual_seed(seed))

    @cached_property
    def factor(self) -> float:
        "What YaRN lengthens rows by."
        return RotaryEmbedding(self.d_head, self.base, self.scaling).attention_factor

    def stages(self, way: str) -> dict[str, Step]:
        "Right angles, and pairs turned by them."
        angles = lambda w: w._replace(
            scores=rotary_angles(w.k, self.d_head, self.base, self.scaling)
        )
        return {"angles": angles, "pair": turn_pairs(way)}

    def cases(self, way: str) -> list[Case]:
        places = (torch.arange(5), torch.arange(5) + 3, torch.tensor([4, 0, 9, 2, 7]))
        return [
            Case(
                Work(q=self.rows(), k=p),
                self(self.rows(), p).detach().float() / self.factor,
                1e-4,
                self.stages(way),
            )
            for p in places
        ]

    @cached_property
    def found(self) -> tuple[str, tuple[Bug, ...] | None]:
        "The way its pairs lie, and what is wrong with it: the way with the fewest bugs, the first if none fits."
        bugs: Callable[[str], list[Bug]] = lambda way: rotary_bugs(
            self.d_head, self.base, self.scaling, way
        )
        explained = {way: explain(self.cases(way), bugs(way)) for way in WAYS}
        return min(explained.items(), key=lambda item: 9 if item[1] is None else len(item[1]))

    @cached_property
    def mismatch(self) -> Broken | None:
        "How its numbers differ from the right ones."
        way, bugs = self.found
        if bugs == ():
            return None
        right = run(self.cases(way)[1].work, (), None, self.stages(way))
        shown = first_difference(
            self(self.rows(), torch.arange(5) + 3),
            (right.out if right else self.rows()) * self.factor,
        )
        return Broken(f"rows at places 3 to 7: {shown}", known("rotary.unknown"))

    @property
    def sound(self) -> bool:
        return self.mismatch is None

    def oracle(self, x: Tensor, places: Tensor) -> Tensor:
        "Rows turned rightly, its way."
        made = run(Work(q=x, k=places), (), None, self.stages(self.found[0]))
        return (x if made is None else made.out) * self.factor


def _runs(r: _Rotation) -> None:
    for n in (5, 1):
        r(r.rows(n), torch.arange(n))


def _paired(r: _Rotation) -> str:
    way, bugs = r.found
    if bugs is None:
        raise NotChecked("its numbers fit no pairing")
    if r.interleaved is not None and way.startswith("neighbours") is not r.interleaved:
        raise Broken(f"its pairs are {way}", known("rotary.pairing", found=way))
    return f"its pairs are {way}"


def _keeps_length(r: _Rotation) -> None:
    before, after = r.rows().norm(dim=-1) * r.factor, r(r.rows(), torch.arange(5) + 3).norm(dim=-1)
    if not nearly(after, before, 1e-3):
        raise Broken(
            f"lengths of rows: {first_difference(after, before, 1e-3)}", known("rotary.length")
        )


def _relative(r: _Rotation) -> None:
    scores: Callable[[int], Tensor] = lambda shift: (
        r(r.rows(), torch.arange(5) + shift) @ r(r.rows(seed=1), torch.arange(5) + shift).mT
    )
    for shift in (1, 17):
        if not nearly(scores(shift), scores(0), 1e-3):
            shown = first_difference(scores(shift), scores(0), 1e-3)
            raise Broken(
                f"all places shifted by {shift}, a score: {shown}", known("rotary.absolute")
            )


def _differs(r: _Rotation) -> None:
    if nearly(r(r.rows(), torch.arange(5)), r(r.rows(), torch.arange(5) * 3 + 1), 1e-4):
        raise Broken(
            "rows at places 0 to 4, and at 1, 4, 7, 10 and 13: the same came out",
            known("rotary.identity"),
            symptom=True,
        )


def _gradients(r: _Rotation) -> None:
    places = torch.arange(5) + 3
    must_have_gradients(
        lambda x: r(x, places), lambda x: r.oracle(x, places), {"x": r.rows()}, r.sound
    )


def _half(r: _Rotation) -> None:
    far, atols = torch.tensor([0, 701, 1021, 2043]), {torch.float16: 3e-2, torch.bfloat16: 8e-2}
    must_hold_in_half(lambda x: r(x, far), [r.rows(4)], "x", atols, ("rotary.half", "rotary.half"))


_FAR = (7, 67, 131, 263, 521, 1031, 2053, 4099)  # behind what tables are often made for


def _far(r: _Rotation) -> None:
    places, x = torch.tensor(_FAR), r.rows(len(_FAR))
    try:
        got = r(x, places)
    except Exception as e:
        raise NotChecked(f"places up to {_FAR[-1]}: it raises {first_line(e)}") from None
    want = r.oracle(x, places)
    for i, place in enumerate(_FAR):
        if not nearly(got[..., i, :], want[..., i, :], 1e-2):
            shown = first_difference(got[..., i, :], want[..., i, :], 1e-2)
            raise Broken(f"a row at place {place}: {shown}", known("rotary.far", place=place))


_ROTATION = (
    Relation("it runs, and keeps the shape of x", _runs),
    Relation(
        "the same inputs give the same answer",
        lambda r: must_repeat(
            lambda: r(r.rows(), torch.arange(5)), lambda: r(r.rows(seed=1), torch.arange(5) + 2)
        ),
    ),
    Relation("places make a difference", _differs),
    Relation("each pair is turned by its place, times base^(-2i / d_head)", must_agree),
    Relation("its pairs are those that you said", _paired),
    Relation("no row changes its length", _keeps_length),
    Relation("scores depend on distances alone", _relative),
    Relation("gradients are those of a rotation", _gradients),
    Relation("far places are turned by their angles, too", _far, after=("sound",)),
    Relation(
        "float16 and bfloat16 give nearly equal rows of their type, at far places, too",
        _half,
        after=("sound",),
    ),
    Relation(
        "x and positions are not modified",
        lambda r: must_leave_alone(
            lambda x, positions: r(x, positions), {"x": r.rows(), "positions": torch.arange(5)}
        ),
    ),
)


def rotation_properties(
    fn: Callable[..., Any],  # fn(x, positions), x (b, h, n, d_head)
    d_head: int,  # width of the rows that it is tried with, even
    base: float = 10000.0,  # the base of its angles
    scaling: Mapping[str, Any] | None = None,  # as `rope_scaling` in a config.json
    interleaved: bool | None = None,  # are pairs neighbours? None: find out
) -> tuple[
    Properties, Callable[[], tuple[Bug, ...] | None]
]:  # the properties, and what names the bug if one fails
    "List what every rotation by places must do, in the order of trying."
    r = _Rotation(fn, d_head, base, scaling, interleaved)
    return listed(_ROTATION, lambda: r), lambda: r.found[1]


_BIASED: dict[str, Step] = {
    "slopes": lambda w: w._replace(scores=alibi_slopes(w.d_model)),
    "distances": lambda w: w._replace(weights=w.k.abs()),
    "product": lambda w: w._replace(out=-w.scores[:, None, None] * w.weights),
}


@dataclass(frozen=True)
class _Bias:
    "The bias under test: is it ALiBi, or only some function of distances?"

    fn: Callable[..., Any]
    n_heads: int
    alibi: bool

    def __call__(self, n_q: int, n_k: int) -> Tensor:
        out = self.fn(self.n_heads, n_q, n_k)
        must_be_tensor(out)
        if tuple(out.shape) != (self.n_heads, n_q, n_k):
            shown = f"{self.n_heads} heads, {n_q} queries, {n_k} keys: it gives shape {tuple(out.shape)}"
            raise Broken(
                shown,
                known(
                    "alibi.transposed"
                    if tuple(out.shape) == (self.n_heads, n_k, n_q)
                    else "alibi.shape"
                ),
            )
        return out.detach().float()

    @cached_property
    def cases(self) -> list[Case]:
        relative: Callable[[int, int], Tensor] = lambda n_q, n_k: (
            torch.arange(n_k) - torch.arange(n_k - n_q, n_k)[:, None]
        )
        return [
            Case(Work(k=relative(*n), d_model=self.n_heads), self(*n), 1e-5, _BIASED)
            for n in ((5, 5), (3, 7))
        ]

    @cached_property
    def mismatch(self) -> Broken | None:
        "How its numbers differ from slope times distance."
        return outcome(lambda: _is_alibi(self))

    @property
    def bugs(self) -> tuple[Bug, ...] | None:
        return explain(self.cases, ALIBI) if self.alibi else None


def _is_alibi(b: _Bias) -> None:
    for n in ((2, 2), (5, 5), (3, 7)):
        if not nearly(b(*n), want := alibi_bias(b.n_heads, *n), 1e-5):
            raise Broken(
                f"{n[0]} queries, {n[1]} keys: {first_difference(b(*n), want, 1e-5)}",
                known("alibi.unknown"),
            )


def _fits(b: _Bias) -> None:
    for n in ((5, 5), (3, 7), (1, 4)):
        b(*n)


def _by_distance(b: _Bias) -> None:
    whole = b(7, 7)
    if not nearly(whole[:, 1:, 1:], whole[:, :-1, :-1], 1e-5):
        shown = first_difference(whole[:, 1:, 1:], whole[:, :-1, :-1], 1e-5)
        raise Broken(f"7 words, and each one further on: {shown}", known("alibi.absolute"))


def _last_at_last(b: _Bias) -> None:
    if not nearly(b(3, 7), b(7, 7)[:, -3:], 1e-5):
        raise Broken(
            f"the last 3 of 7 queries: {first_difference(b(3, 7), b(7, 7)[:, -3:], 1e-5)}",
            known("alibi.corner"),
            symptom=True,
        )


def _matters(b: _Bias) -> None:
    if nearly(b(7, 7), b(7, 7)[..., :1].expand(-1, -1, 7), 1e-6):
        raise Broken(
            "7 words: each query has one number for all keys",
            known("alibi.no_difference"),
            symptom=True,
        )


def _far_keys(b: _Bias) -> None:
    want = alibi_bias(b.n_heads, 3, 1031)
    if b.mismatch is None and not nearly(got := b(3, 1031), want, 1e-3):
        first = int(
            (got - want).abs().gt(1e-3).any(1).any(0).nonzero().max()
        )  # the nearest of those that are wrong
        raise Broken(
            f"3 queries, 1031 keys: {first_difference(got, want, 1e-3)}",
            known("alibi.far", distance=1030 - first),
        )


_OF_BIAS = (
    Relation("it runs, and gives (h, n_q, n_k)", _fits),
    Relation(
        "the same numbers give the same bias",
        lambda b: must_repeat(lambda: b(3, 7), lambda: b(5, 5)),
    ),
    Relation("places make a difference", _matters),
    Relation(
        "it is -slope · |distance|",
        must_agree,
        lambda b: "" if b.alibi else "it is not said to be ALiBi",
    ),
    Relation(
        "so it is for far keys",
        _far_keys,
        lambda b: "" if b.alibi else "it is not said to be ALiBi",
    ),
    Relation("it depends on the distance alone", _by_distance),
    Relation("the last query stands at the last key", _last_at_last),
)


def bias_properties(
    fn: Callable[..., Any],  # fn(n_heads, n_q, n_k) → (h, n_q, n_k)
    n_heads: int,  # how many heads it is tried with
    alibi: bool,  # is it ALiBi? If not, any function of distances will do
) -> tuple[
    Properties, Callable[[], tuple[Bug, ...] | None]
]:  # the properties, and what names the bug if one fails
    "List what a bias by distances must do, in the order of trying."
    b = _Bias(fn, n_heads, alibi)
    return listed(_OF_BIAS, lambda: b), lambda: b.bugs
