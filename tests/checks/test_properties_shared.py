"""Properties that functions and layers share, each tried on small functions of one tensor."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from attention_checks.catalogue import known
from attention_checks.outcomes import Broken, NotChecked, broken_by
from attention_checks.properties import Property, bound
from attention_checks.properties.equivariance import must_give, must_not_mix_along
from attention_checks.properties.gradients import must_have_gradients
from attention_checks.properties.numerics import Widening, must_be_finite, must_hold_in_half
from attention_checks.properties.state import must_leave_alone, must_not_mind_strides

X = torch.randn(3, 5, generator=torch.Generator().manual_seed(1))
ATOLS = {torch.float16: 0.02, torch.bfloat16: 0.12}


def gradients(f):
    must_have_gradients(f, torch.tanh, {"x": X})


def finite(f):
    must_be_finite(f, {"x": 1e4 * X}, "x up to 10⁴", lambda: known("softmax.overflows"))


def strides(f):
    must_not_mind_strides(f, X)


def untouched(f):
    must_leave_alone(f, {"x": X.clone()})


def half(f):
    must_hold_in_half(f, [X], "x", ATOLS)


def unmixed(f):
    must_not_mix_along(f, [X], 0, "sequence", lambda: known("batch.mixes"))


def shaped(f):
    must_give(f, [X], (3, 5), "x", lambda: known("shape.axes"))


WRONG = [
    (gradients, lambda x: torch.tanh(x).detach(), "grad.none"),
    (gradients, lambda x: torch.tanh(x) + x - x.detach(), "grad.wrong"),
    (gradients, lambda x: torch.ones_like(x) + 0 * x, "grad.unreached"),
    (finite, torch.exp, "softmax.overflows"),
    (finite, lambda x: (x * 0).abs().sqrt() + 0 * x, "grad.infinite"),
    (strides, lambda x: x.view(-1).view(x.shape), "memory.contiguous"),
    (strides, lambda x: x.as_strided(x.shape, (x.shape[1], 1)), "memory.strides"),
    (untouched, lambda x: x.mul_(2), "input.modified"),
    (half, lambda x: x.float(), "dtype.other"),
    (half, lambda x: x.mul(1e5).mul(1e-5), "dtype.overflows"),
    (half, lambda x: (x + 1000) - 1000, "dtype.loses"),
    (half, lambda x: x.float() @ x.mT, "dtype.widens"),
    (half, lambda x: x.masked_fill(x < 0, -1e9), "dtype.no_infinity"),
    (unmixed, lambda x: x + x.mean(0), "batch.mixes"),
    (unmixed, lambda x: x * len(x), "batch.mixes"),
    (shaped, lambda x: x.mT, "shape.axes"),
]


@pytest.mark.parametrize("relation, wrong, code", WRONG)
def test_a_wrong_function_breaks_its_property(relation, wrong, code):
    assert broken_by(lambda: relation(torch.tanh)) is None
    assert broken_by(lambda: relation(wrong)).bugs[0].code == code


HALF, SINGLE = torch.ones(2, 2, dtype=torch.float16), torch.ones(2, 2)
MEETINGS = [
    (lambda: HALF.float() @ HALF, True),
    (lambda: HALF.float().softmax(-1) @ HALF, True),
    (lambda: SINGLE @ HALF, False),
    (lambda: (HALF + SINGLE) @ HALF, False),
    (lambda: HALF.float().to(HALF) @ HALF, False),
]


@pytest.mark.parametrize("meet, blamed", MEETINGS)
def test_what_was_widened_alone_is_blamed_where_it_meets_sixteen_bits(meet, blamed):
    with Widening() as widening:
        try:
            meet()
        except RuntimeError:
            pass
    assert widening.to_blame == blamed


def fails(subject):
    raise Broken("3", known("grad.none"))


@pytest.mark.parametrize("sound", [True, False])
def test_a_failure_after_another_is_a_symptom(sound):
    relations = [
        Property("plain", fails),
        Property("later", fails, symptom_unless=("sound",)),
        Property("masked", fails, lambda subject: "it takes no mask"),
    ]
    plain, later, masked = bound(relations, lambda: SimpleNamespace(sound=sound))
    assert not broken_by(plain.holds).symptom
    assert broken_by(later.holds).symptom != sound
    with pytest.raises(NotChecked, match="it takes no mask"):
        masked.holds()
