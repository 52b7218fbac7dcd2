"""Softmaxes that are wrong in one way each, and the code that each is named by."""

from __future__ import annotations

import math

import pytest
import torch
from tests.checks.finding import codes_of, report_of

from attention_checks import check_masked_softmax, check_softmax
from attention_checks.properties.softmax import takes_dim
from attention_nb.softmax import masked_softmax, softmax


def shifted(x, dim=-1):
    "Exponentials, shifted by the largest number."
    return (x - x.amax(dim, keepdim=True)).exp()


def total(x):
    "Sums that keep their dimension."
    return x.sum(-1, keepdim=True)


def largest(x, n):
    "Only the n largest numbers count; the others, if there are as many, count nothing."
    least = x.topk(min(n, x.shape[-1])).values[..., -1:]
    return x.masked_fill(x < least, -math.inf).softmax(-1)


def no_sixteen_bits(x):
    "Raise for 16 bits, as some functions on a CPU do."
    if x.dtype in (torch.float16, torch.bfloat16):
        raise RuntimeError("not implemented for 'Half'")
    return x.softmax(-1)


PLAIN = [
    ("over the whole tensor", lambda x: x.flatten().softmax(0).view_as(x), "softmax.over_all"),
    ("not divided", lambda x: x.exp(), "softmax.no_sum"),
    ("the wrong sign", lambda x: (-x).softmax(-1), "softmax.sign"),
    ("the two largest", lambda x: largest(x, 2), "softmax.top_k"),
    ("the four largest", lambda x: largest(x, 4), "softmax.top_k"),
    ("no known bug", lambda x: x.softmax(-1).flip(-1), "softmax.unknown"),
    ("negative", lambda x: x.softmax(-1) * 1.5 - 0.5 / x.shape[-1], "weights.negative"),
    ("a little too small", lambda x: x.softmax(-1) * (1 - 1e-4), "weights.sums"),
    (
        "the first of three dims",
        lambda x, dim=-1: x.softmax(0 if x.ndim == 3 else dim),
        "softmax.dim",
    ),
    (
        "wrong in one dim",
        lambda x, dim=-1: x.softmax(dim) * (1.1 if dim == 0 else 1),
        "weights.sums",
    ),
    ("NaN", lambda x: x.log().softmax(-1), "values.nan"),
    (
        "coarse in 16 bits",
        lambda x: x.softmax(-1) * (1.2 if x.dtype == torch.bfloat16 else 1),
        "dtype.loses",
    ),
    ("by chance", lambda x: x.softmax(-1) * torch.rand(()), "state.chance"),
    ("a list", lambda x: x.softmax(-1).tolist(), "code.returns_no_tensor"),
    (
        "strides",
        lambda x: x.as_strided(x.shape, x.contiguous().stride()).softmax(-1),
        "memory.strides",
    ),
    ("raises", lambda x: x.softmax(-1) if x.ndim < 3 else x.softmax(3), "code.raises"),
]


@pytest.mark.parametrize("fn, code", [pytest.param(*row[1:], id=row[0]) for row in PLAIN])
def test_a_wrong_softmax_is_named(fn, code):
    torch.manual_seed(0)
    assert code in codes_of(check_softmax, fn, dtype="any")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_a_right_softmax_holds_in_the_one_type_that_is_declared(dtype):
    seen = set()

    def right(scores, mask):
        seen.add(scores.dtype)
        return masked_softmax(scores, mask)

    assert check_masked_softmax(right, dtype=dtype).compared
    assert check_softmax(torch.softmax, dtype=dtype).compared
    assert seen == {getattr(torch, dtype)}


def test_what_goes_wrong_in_16_bits_alone_is_told():
    billion = lambda scores, mask: scores.masked_fill(~mask, -1e9).softmax(-1) * mask
    assert "right in float32 alone" in str(check_masked_softmax(billion))
    assert codes_of(check_masked_softmax, billion, dtype="any") == ["dtype.no_infinity"]
    assert check_masked_softmax(billion, dtype="float32").verdict == "sound"


@pytest.mark.parametrize(
    "fn", [softmax, torch.softmax, torch.nn.Softmax(dim=-1), lambda x: torch.softmax(x, -1)]
)
def test_a_right_softmax_holds(fn):
    report = check_softmax(fn)
    assert report.ok and report.compared and not report.notes


def test_what_raises_in_16_bits_is_not_tried():
    report = report_of(check_softmax, no_sixteen_bits)
    assert report.ok and len(report.notes) == 1


def test_a_second_parameter_that_is_a_dimension_is_passed():
    takes = [torch.softmax, lambda x, dim: x, lambda x, axis=-1: x, lambda scores, along: scores]
    leaves = [torch.exp, lambda x: x, lambda x, temperature=1.0: x, lambda x, *, dim=-1: x]
    assert all(map(takes_dim, takes)) and not any(map(takes_dim, leaves))


def filled(value):
    "Forbidden scores become a number."
    return lambda s, m: s.masked_fill(~m, value).softmax(-1)


def emptied(weigh):
    "Weights as `weigh` gives them, but zero where nothing is allowed."
    return lambda s, m: weigh(s, m) * m.any(-1, keepdim=True)


def chosen(s, m):
    "Exponentials that were shifted by the largest score of all, allowed or not."
    return shifted(s) * m


MASKED = [
    ("added", emptied(lambda s, m: (s + m.float()).softmax(-1)), "mask.added"),
    ("added inverted", emptied(lambda s, m: (s + (~m).float()).softmax(-1)), "mask.added_inverted"),
    ("-20", emptied(filled(-20.0)), "mask.some_weight"),
    ("no known bug", lambda s, m: masked_softmax(s, m) * 1.1, "mask.unknown"),
    ("NaN", lambda s, m: masked_softmax(s, m) * math.nan, "values.nan"),
    ("a little too small", lambda s, m: masked_softmax(s, m) * (1 - 1e-4), "mask.sums"),
    (
        "no maximum",
        lambda s, m: s.exp() * m / total(s.exp() * m).clamp(min=1e-30),
        "mask.influence",
    ),
    (
        "a maximum of all",
        lambda s, m: chosen(s, m) / total(chosen(s, m)).clamp(min=1e-30),
        "mask.influence",
    ),
    (
        "the first two keys in an empty row",
        lambda s, m: masked_softmax(s, m | ~m.any(-1, True) & (torch.arange(s.shape[-1]) < 2)),
        "mask.empty_something",
    ),
    ("clamped", lambda s, m: masked_softmax(s.clamp(-1e3, 1e3), m), "softmax.cut"),
    ("a tuple", lambda s, m: (masked_softmax(s, m), m), "code.returns_no_tensor"),
]


@pytest.mark.parametrize("fn, code", [pytest.param(*row[1:], id=row[0]) for row in MASKED])
def test_a_wrong_masked_softmax_is_named(fn, code):
    assert code in codes_of(check_masked_softmax, fn)


def test_an_inverted_mask_is_one_bug():
    assert codes_of(check_masked_softmax, lambda s, m: masked_softmax(s, ~m)) == ["mask.inverted"]


def test_nan_that_is_replaced_reaches_the_gradient():
    "`masked_fill` stops it on the way back; an added mask lets it through."

    def added(s, m):
        return (s + torch.zeros_like(s).masked_fill(~m, -math.inf)).softmax(-1).nan_to_num(0)

    assert codes_of(check_masked_softmax, added) == ["mask.empty_gradient"]
    assert not codes_of(check_masked_softmax, lambda s, m: filled(-math.inf)(s, m).nan_to_num(0))
