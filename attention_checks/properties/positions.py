"""What a rotation by positions, or a bias by distances, must do, and how each property is tried."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from attention_checks.catalogue import known
from attention_checks.catalogue.positions import ALIBI, PAIRINGS, rotary_bugs, turn_pairs
from attention_checks.explaining.pipeline import Bug, Step, Work, run
from attention_checks.explaining.search import Case, explain
from attention_checks.numbers.tensors import first_difference, must_be_near, must_be_tensor, nearly
from attention_checks.numbers.tolerance import FLOAT32, LARGE_SCORES, SHORT_SUMS
from attention_checks.outcomes import Broken, NotChecked, broken_by, first_line
from attention_checks.properties import Properties, Property, Recognise, bound, must_agree
from attention_checks.properties.gradients import must_match_gradients
from attention_checks.properties.numerics import must_hold_in_half
from attention_checks.properties.state import must_not_modify, must_repeat, must_repeat_call
from attention_nb.positions import RotaryEmbedding, alibi_bias, alibi_slopes, rotary_angles

_SHIFTED = torch.arange(5) + 3


@dataclass(frozen=True)
class Rotation:
    "The rotation under test, and what it should be."

    fn: Callable[..., Any]  # fn(x, positions), x (b, h, n, d_head)
    d_head: int  # width of the vectors that it is tried with
    d_rotary: int  # how many of their numbers are rotated, the first ones
    base: float  # of its angles
    scaling: Mapping[str, Any] | None  # of those, as `rope_scaling` in a config.json
    interleaved: bool | None  # are pairs neighbours? None: find out

    def properties(self) -> tuple[Properties, Recognise]:
        "List what every rotation by positions must do, and what names the bug if one fails."
        return bound(_OF_ROTATION, lambda: self), self.recognise

    def __call__(self, x: Tensor, positions: Tensor) -> Tensor:
        "Rotate vectors; Broken unless they keep their shape."
        out = self.fn(x, positions)
        must_be_tensor(out)
        if out.shape != x.shape:
            given = f"x {tuple(x.shape)}, positions {tuple(positions.shape)}"
            shown = f"{given}: it gives shape {tuple(out.shape)}"
            raise Broken(shown, known("rotary.shape"))
        return out

    def inputs(self, seed: int = 0) -> dict[str, Tensor]:
        "Draw vectors, and positions further on."
        return {"x": self.vectors(seed=seed), "positions": _SHIFTED - seed % 3}

    raw_inputs = inputs

    def on_these(self, x: Tensor, positions: Tensor) -> Tensor:
        "Rotate these very tensors."
        return self(x, positions)

    def vectors(self, n: int = 5, seed: int = 0) -> Tensor:
        "Draw vectors, (b, h, n, d_head)."
        return torch.randn(2, 3, n, self.d_head, generator=torch.Generator().manual_seed(seed))

    @cached_property
    def factor(self) -> float:
        "The factor of YaRN by which vectors become longer."
        return RotaryEmbedding(self.d_rotary, self.base, self.scaling).attention_factor

    def part(self, x: Tensor) -> Tensor:
        "Return the numbers of vectors that are rotated."
        return x[..., : self.d_rotary]

    def stages(self, way: str) -> dict[str, Step]:
        "Return the right angles, and pairs, taken in one of the ways, rotated by them."

        def angles(work: Work) -> Work:
            "Replace positions by angles."
            right = rotary_angles(work.k, self.d_rotary, self.base, self.scaling)
            return work._replace(scores=right)

        return {"angles": angles, "pair": turn_pairs(way)}

    def cases(self, way: str) -> list[Case]:
        "Return what it gives for positions in order, further on, and in no order."
        cases = []
        for positions in (torch.arange(5), _SHIFTED, torch.tensor([4, 0, 9, 2, 7])):
            got = self.part(self(self.vectors(), positions)).detach().float() / self.factor
            work = Work(q=self.part(self.vectors()), k=positions)
            cases.append(Case(work, got, FLOAT32, self.stages(way)))
        return cases

    @cached_property
    def explained(self) -> tuple[str, tuple[Bug, ...] | None]:
        "The way its pairs lie and what is wrong with it: the way that needs the fewest bugs."
        best: tuple[str, tuple[Bug, ...] | None] = (next(iter(PAIRINGS)), None)
        for way in PAIRINGS:
            wrong = rotary_bugs(self.d_rotary, self.base, self.scaling, way, self._bases(way))
            bugs = explain(self.cases(way), wrong)
            if bugs is not None and (best[1] is None or len(bugs) < len(best[1])):
                best = way, bugs
        return best

    def _bases(self, way: str) -> list[float]:
        "Return the base that the angle of the second pair tells, at position 1."
        split, x = PAIRINGS[way][0], self.vectors(1)
        turned = self(x, torch.ones(1).long())
        given, got = (torch.complex(*split(self.part(t).float())) for t in (x, turned))
        angles = (got / given).detach()[..., 1:2].angle()
        angle = float(angles.median()) if angles.numel() else 0.0
        return [angle ** (-self.d_rotary / 2)] if 1e-3 < angle < 1 else []

    def recognise(self) -> tuple[Bug, ...] | None:
        "Name the bugs by its numbers; one is that another part of each vector is rotated."
        bugs, width = self.explained[1], self._changed_width()
        if bugs is None and width and width % 2 == 0:
            if replace(self, d_rotary=width).explained[1] == ():
                return (known("rotary.partial", found=width, width=self.d_rotary),)
        return self.mismatch.bugs if bugs == () and self.mismatch else bugs

    def _changed_width(self) -> int:
        "Return how many numbers of a vector there are up to the last that changes."
        x = self.vectors()
        changed = (self(x, _SHIFTED) != x).flatten(0, -2).any(0)
        return int(changed.nonzero().max()) + 1 if changed.any() else 0

    @cached_property
    def mismatch(self) -> Broken | None:
        "How its numbers differ from the right ones."
        x, explained = self.vectors(), self.explained[1] == ()
        got, want = self(x, _SHIFTED), self.reference(x, _SHIFTED)
        if explained and nearly(got, want, FLOAT32):
            return None
        shown = f"vectors at positions 3 to 7: {first_difference(got, want)}"
        return Broken(shown, known("rotary.rest" if explained else "rotary.unknown"))

    @property
    def sound(self) -> bool:
        "Return whether its numbers are right."
        return self.mismatch is None

    def reference(self, x: Tensor, positions: Tensor) -> Tensor:
        "Return vectors rotated by the right angles, with pairs as it takes them."
        made = run(Work(q=self.part(x), k=positions), (), None, self.stages(self.explained[0]))
        rotated = (self.part(x) if made is None else made.out) * self.factor
        return torch.cat([rotated, x[..., self.d_rotary :]], -1)


def _must_keep_shape(rotation: Rotation) -> None:
    "It runs, and keeps the shape of x."
    for n in (5, 1):
        rotation(rotation.vectors(n), torch.arange(n))


def _must_pair_as_declared(rotation: Rotation) -> str:
    "Its pairs are the declared ones."
    way, bugs = rotation.explained
    if bugs is None:
        raise NotChecked("its numbers fit no pairing")
    if rotation.interleaved not in (None, way.startswith("neighbours")):
        raise Broken(f"its pairs are {way}", known("rotary.pairing", found=way))
    return f"its pairs are {way}"


def _must_rotate_far(rotation: Rotation) -> None:
    "Far positions are rotated by their angles."
    positions = torch.tensor([67, 131, 263, 521, 1031, 2053, 4099])
    x = rotation.vectors(len(positions))
    try:
        got = rotation(x, positions)
    except Exception as e:
        raise NotChecked(f"positions up to 4099: it raises {first_line(e)}") from None
    shown = f"vectors at positions {positions.tolist()}"
    must_be_near(got, rotation.reference(x, positions), shown, known("rotary.far"), LARGE_SCORES)


def _must_stand_sixteen_bits(rotation: Rotation) -> None:
    "Float16 and bfloat16 are nearly equal at far positions."
    far, atols = torch.tensor([0, 701, 1021, 2043]), {torch.float16: 3e-2, torch.bfloat16: 8e-2}
    codes = ("rotary.half", "rotary.half")
    must_hold_in_half(lambda x: rotation(x, far), [rotation.vectors(4)], "x", atols, codes)


_OF_ROTATION = (
    Property.of(_must_keep_shape),
    Property("the same inputs give the same result", must_repeat),
    Property(
        "each pair is rotated by its position times base^(-2i / d_rotary)",
        must_agree,
        compares="the definition",
    ),
    Property.of(_must_pair_as_declared),
    Property("gradients are those of a rotation", must_match_gradients(), differentiates=True),
    Property.of(_must_rotate_far, lambda rotation: "" if rotation.sound else "near ones are not"),
    Property.of(_must_stand_sixteen_bits, symptom_unless=("sound",), sixteen_bits=True),
    Property("x and positions are not modified", must_not_modify),
)


_BIASED: dict[str, Step] = {
    "slopes": lambda work: work._replace(scores=alibi_slopes(work.d_model)),
    "distances": lambda work: work._replace(weights=work.k.abs()),
    "product": lambda work: work._replace(out=-work.scores[:, None, None] * work.weights),
}


@dataclass(frozen=True)
class Bias:
    "The bias under test: is it ALiBi, or only some function of distances?"

    fn: Callable[..., Any]  # fn(n_heads, n_q, n_k) → (h, n_q, n_k)
    n_heads: int  # how many heads it is tried with
    alibi: bool  # is it ALiBi? If not, any function of distances will do
    causal: bool  # are keys beyond a query masked?

    def properties(self) -> tuple[Properties, Recognise]:
        "List what a bias by distances must do, and what names the bug if one fails."
        return bound(_OF_BIAS, lambda: self), self.recognise

    def __call__(self, n_q: int, n_k: int) -> Tensor:
        "The bias of so many queries and keys; Broken unless it is (h, n_q, n_k)."
        out = self.fn(self.n_heads, n_q, n_k)
        must_be_tensor(out)
        shape = tuple(out.shape)
        if shape != (self.n_heads, n_q, n_k):
            given = f"{self.n_heads} heads, {n_q} queries, {n_k} keys"
            raise Broken(f"{given}: it gives shape {shape}", known("alibi.shape"))
        return out.detach().float()

    @cached_property
    def hides_future(self) -> bool:
        "Whether later keys are masked: so declared, or it is the same for all queries, as Bloom's."
        got = self(3, 7)
        return self.causal or torch.equal(got, got[:, :1].expand_as(got))

    def counted(self, bias: Tensor) -> Tensor:
        "Return what softmax makes use of: not what all keys of a query share, nor masked ones."
        if not self.hides_future:
            return bias
        own = bias.shape[2] - bias.shape[1]
        return (bias - bias.diagonal(own, 1, 2)[..., None]).tril(own)

    @cached_property
    def mismatch(self) -> Broken | None:
        "How its numbers differ from slope times distance."
        return broken_by(lambda: _must_be_alibi(self))

    def recognise(self) -> tuple[Bug, ...] | None:
        "Name the bug by its numbers."
        if not self.alibi:
            return None
        counts: Step = lambda work: work._replace(out=self.counted(work.out))
        cases, stages = [], {**_BIASED, "counts": counts}
        for n_q, n_k in ((5, 5), (3, 7)):
            distances = torch.arange(n_k) - torch.arange(n_k - n_q, n_k)[:, None]
            work = Work(k=distances, d_model=self.n_heads)
            cases.append(Case(work, self.counted(self(n_q, n_k)), SHORT_SUMS, stages))
        return explain(cases, ALIBI)


def _must_have_shape(bias: Bias) -> None:
    "It runs, and gives (h, n_q, n_k)."
    for n_q, n_k in ((5, 5), (3, 7), (1, 4)):
        bias(n_q, n_k)


def _must_be_alibi(bias: Bias) -> None:
    "Raise Broken unless it is slope times distance."
    for n_q, n_k in ((2, 2), (5, 5), (3, 7)):
        pair = bias(n_q, n_k), alibi_bias(bias.n_heads, n_q, n_k)
        got, want = map(bias.counted, pair)
        less = ", less the bias of each query's own key" * bias.hides_future
        shown = f"{n_q} queries, {n_k} keys{less}"
        must_be_near(got, want, shown, known("alibi.unknown"), SHORT_SUMS)


def _must_depend_on_distance(bias: Bias) -> None:
    "It depends on the distance alone."
    now, before = bias(7, 7)[:, 1:, 1:], bias(7, 7)[:, :-1, :-1]
    before = before + (now - before).mean(-1, keepdim=True)
    shown = "7 tokens, and each one further on"
    must_be_near(now, before, shown, known("alibi.absolute"), SHORT_SUMS)


_OF_BIAS = (
    Property.of(_must_have_shape),
    Property(
        "the same sizes give the same bias",
        lambda bias: must_repeat_call(lambda: bias(3, 7), lambda: bias(5, 5)),
    ),
    Property(
        "it is -slope · |distance|",
        must_agree,
        lambda bias: "" if bias.alibi else "it is not declared to be ALiBi",
    ),
    Property.of(_must_depend_on_distance),
)
