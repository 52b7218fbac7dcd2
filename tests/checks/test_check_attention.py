"""Attention functions that are wrong in one way each, and the code that each is named by."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from tests.checks import variants
from tests.checks.finding import codes_of, report_of
from tests.checks.variants import attention, causal, filled, masked, raising, scores_of, with_mask

from attention_checks import check_attention
from attention_checks.outcomes import Misused
from attention_checks.spec import Contract
from attention_checks.subjects.function_facts import ExaminedFunction
from attention_checks.subjects.function import AttentionFunction, CallStyle, Sizes, find_call_style
from attention_checks.subjects.masks import PLAIN, SHAPES
from attention_nb.naive_attention import naive_attention


def where(fits, changed=lambda context: 2 * context):
    "Give something else for some inputs."
    return lambda q, k, v: changed(attention(q, k, v)) if fits(q, k, v) else attention(q, k, v)


def only_for(fits):
    "Raise for other inputs, and forget the scale."

    def fn(q, k, v):
        if not fits(q, k, v):
            raise ValueError("another shape was expected")
        return attention(q, k, v, scale=1.0) + 0.1 * v.mean()

    return fn


def biased(join):
    "Take a bias and join it with the scores."

    def fn(q, k, v, bias=None):
        if bias is None:
            return attention(q, k, v)
        scores = join(q @ k.mT, bias, q.shape[-1] ** -0.5)
        return scores.masked_fill(bias.isinf(), -math.inf).softmax(-1).nan_to_num(0) @ v

    return fn


def not_implemented(q, k, v):
    raise NotImplementedError


def reading_python_state():
    "Count calls, which a trace does not."
    calls = []

    def fn(q, k, v):
        calls.append(1)
        tracing = torch.compiler.is_compiling() or torch.compiler.is_exporting()
        return attention(q, k, v) * (2 if tracing else 1)

    return fn


def one_length(q, k, v):
    return attention(q, k, v) + torch.zeros(5)[:, None]


def keeps_first(names):
    "Take some inputs from the first call, if the shapes are the same."
    kept = {}

    def fn(q, k, v):
        given = {"q": q, "k": k, "v": v}
        if [t.shape for t in kept.values()] != [t.shape for t in given.values()]:
            kept.update({name: t.clone() for name, t in given.items()} if not kept else {})
            return attention(q, k, v)
        return attention(*(kept[name] if name in names else t for name, t in given.items()))

    return fn


WRONG = [
    ("not implemented", not_implemented, "code.not_implemented"),
    ("an integer", lambda q, k, v: attention(q, k, v).long(), "dtype.integer"),
    ("a string", lambda q, k, v: "context", "code.returns_no_tensor"),
    (
        "weights first",
        lambda q, k, v: (scores_of(q, k).softmax(-1), attention(q, k, v)),
        "shape.weights_first",
    ),
    ("raises always", lambda q, k, v: raising("no"), "shape.fails"),
    (
        "all sizes equal",
        only_for(lambda q, k, v: q.shape == v.shape and q.shape[1] == q.shape[3]),
        "shape.only_equal",
    ),
    ("d_k = d_v", only_for(lambda q, k, v: q.shape[-1] == v.shape[-1]), "shape.values_as_wide"),
    ("an axis too many", lambda q, k, v: attention(q, k, v)[None], "shape.axes"),
    ("NaN", lambda q, k, v: attention(q, k, v) * math.nan, "values.nan"),
    (
        "no softmax, and more",
        lambda q, k, v: scores_of(q, k) @ v + 0.1 * v[..., :1, :],
        "weights.negative",
    ),
    ("the wrong sign", lambda q, k, v: attention(-q, k, v), "softmax.sign"),
    (
        "a bias of positions",
        lambda q, k, v: attention(q, k + torch.arange(k.shape[-2])[:, None] / 9, v),
        "values.unknown",
    ),
    ("squeezed", lambda q, k, v: attention(q, k, v).squeeze(), "length.size"),
    ("another factor for one head", where(lambda q, k, v: q.shape[:2] == (2, 1)), "length.size"),
    ("one length", one_length, "length.one"),
    ("another factor for more keys", where(lambda q, k, v: k.shape[2] > 100), "blocks.length"),
    (
        "another factor for one query of seven keys",
        where(lambda q, k, v: (q.shape[2], k.shape[2]) == (1, 7)),
        "length.size",
    ),
    ("keys of the first call", keeps_first("k"), "state.first_call"),
    ("beyond float16", lambda q, k, v: (attention(q, k, v) * 1e5) * 1e-5, "dtype.overflows"),
    ("a large detour", lambda q, k, v: (attention(q, k, v) + 1000) - 1000, "dtype.loses"),
    ("a root of zero", lambda q, k, v: attention(q, k, v + (v * 0).abs().sqrt()), "grad.wrong"),
]


@pytest.mark.parametrize("wrong, code", [row[1:] for row in WRONG], ids=[row[0] for row in WRONG])
def test_a_wrong_function_is_named(wrong, code):
    codes = codes_of(check_attention, wrong, dtype="any")
    assert code in codes


MASKED = [
    (
        "transposed if square",
        with_mask(lambda m, q, k: m.mT if m.shape[-1] == m.shape[-2] else m),
        {},
        "mask.axis",
    ),
    (
        "of the last sequence",
        with_mask(lambda m, q, k: m[-1:] if m.ndim == 4 else m),
        {},
        "mask.axis",
    ),
    (
        "one shape only",
        with_mask(lambda m, q, k: m.view(q.shape[2], k.shape[2])),
        {},
        "mask.broadcast",
    ),
    ("-1e4", filled(-1e4), {}, "mask.leaks_if_low"),
    ("inverted", with_mask(lambda m, q, k: ~m), {}, "mask.meaning"),
    (
        "one more where anything is hidden",
        lambda q, k, v, mask=None: (
            masked(q, k, v, mask) + (0 if mask is None else 1.0 * (~mask).any(-1, True))
        ),
        {},
        "mask.wrong",
    ),
    (
        "a bias, twice",
        biased(lambda s, b, scale: s * scale + 2 * b),
        {"mask": "bias"},
        "bias.wrong",
    ),
    (
        "a bias, subtracted",
        biased(lambda s, b, scale: s * scale - b),
        {"mask": "bias"},
        "bias.subtracted",
    ),
    ("it sees the future", lambda q, k, v: causal(q, k, v, 1), {"causal": True}, "mask.sees_next"),
    ("upper left", causal, {"causal": "lower-right"}, "mask.upper_left"),
    ("a declared scale", lambda q, k, v: attention(q, k, v), {"scale": 0.3}, "scale.usual"),
    (
        "another than declared",
        lambda q, k, v: attention(q, k, v, scale=0.22),
        {"scale": 0.3},
        "scale.constant",
    ),
]


@pytest.mark.parametrize(
    "wrong, declared, code", [row[1:] for row in MASKED], ids=[row[0] for row in MASKED]
)
def test_a_wrong_mask_or_declaration_is_named(wrong, declared, code):
    assert code in codes_of(check_attention, wrong, **declared)


@pytest.mark.parametrize("fn", [lambda q, k, v: q.numpy(), lambda q, k, v: raising("numpy")])
def test_numpy_is_a_misuse(fn):
    with pytest.raises(Misused):
        check_attention(fn)


STYLES = [
    ("no mask", variants.no_mask, None, {}),
    ("no mask, promised", variants.no_mask, "bias", {"takes_mask": True, "meaning": "bias"}),
    ("a mask", masked, None, {"parameter": "mask", "takes_mask": True}),
    ("a mask, denied", masked, False, {}),
    (
        "needed",
        variants.needs_mask,
        None,
        {"parameter": "key_padding_mask", "takes_mask": True, "needs_mask": True},
    ),
    ("square", variants.square_masks_only, None, {"parameter": "mask", "takes_mask": True}),
]


@pytest.mark.parametrize(
    "fn, said, style", [row[1:] for row in STYLES], ids=[row[0] for row in STYLES]
)
def test_the_style_of_calling_is_found_out(fn, said, style):
    assert find_call_style(AttentionFunction(fn, Contract(mask=said))).style == CallStyle(**style)


def test_masks_of_ones_and_zeros_are_found_out():
    "As of BERT: 1 = may attend, which becomes a number that is added to the scores."

    def far(q, k, v, attention_mask):
        hidden = (1.0 - attention_mask) * -1e30
        return masked(q, k, v, hidden == 0)

    report = check_attention(far)
    assert report.ok and find_call_style(AttentionFunction(far)).style.entries == "1 = may attend"


def test_a_function_that_refuses_masks_is_tried_without():
    style = find_call_style(AttentionFunction(variants.refuses_masks)).style
    assert "no masks, please" in style.refuses
    report = report_of(check_attention, variants.refuses_masks)
    assert report.ok and len(report.notes) == 4


@pytest.mark.parametrize("form", [form for form in SHAPES if form != PLAIN])
@pytest.mark.parametrize("flat", [False, True])
def test_masks_of_any_shape_are_found_out(form, flat):
    "A function that takes one shape of mask only, over (b, h, n, d) or (b, n, d)."

    def fn(q, k, v, mask=None):
        if flat and q.ndim == 4:
            raising("(b, n, d) only")
        if mask is None:
            return masked(q, k, v)
        shapes = {
            "(b, 1, n_q, n_k)": (len(q), 1, q.shape[-2], k.shape[-2]),
            "(b, n_q, n_k)": (len(q), q.shape[-2], k.shape[-2]),
            "(b, n_k)": (len(q), k.shape[-2]),
        }
        if mask.shape != shapes[form]:
            raising("another shape of mask")
        mask = mask.view(len(q), 1, -1, k.shape[-2])
        return masked(q, k, v, mask[:, 0] if flat else mask)

    assert not codes_of(check_attention, fn)


@pytest.mark.parametrize("corner", [False, True, "upper-left", "lower-right"])
def test_the_oracle_gives_the_numbers_of_the_loops(corner):
    q, k, v = Sizes(2, 3, 2, 4, 5, 6).draw()
    some = torch.tensor([[True, False, True, True], [False, True, True, False]])
    subject = AttentionFunction(masked, Contract(causal=corner))
    for mask in (None, some, some & False):
        loops = naive_attention(q, k, v, subject.allowed(q, k, mask), subject.right_scale(q))[0]
        torch.testing.assert_close(subject.reference(q, k, v, mask), loops)


FACTS = [
    ("right", masked, {"finite", "sound", "right_at_near_lengths", "right_for_many_keys"}),
    (
        "64 keys",
        lambda q, k, v: attention(q, k[..., :64, :], v[..., :64, :]),
        {"finite", "sound", "right_at_near_lengths"},
    ),
    ("no scale", lambda q, k, v: attention(q, k, v, scale=1.0), {"finite"}),
    ("NaN", lambda q, k, v: attention(q, k, v) * math.nan, set()),
]


@pytest.mark.parametrize("fn, true", [row[1:] for row in FACTS], ids=[row[0] for row in FACTS])
def test_facts_are_found_out(fn, true):
    subject = ExaminedFunction(fn).with_call_style
    assert {
        name
        for name in ("finite", "sound", "right_at_near_lengths", "right_for_many_keys")
        if getattr(subject, name)
    } == true


RIGHT = [
    ("weights beside it", lambda q, k, v: (attention(q, k, v), scores_of(q, k).softmax(-1)), {}),
    ("a list", lambda q, k, v: [attention(q, k, v), None], {}),
    ("in blocks", lambda q, k, v: variants.in_blocks(q, k, v, 3), {}),
    ("of another scale", lambda q, k, v: attention(q, k, v, scale=0.3), {"scale": 0.3}),
    ("lower right", variants.lower_right, {"causal": "lower-right"}),
    (
        "one length",
        lambda q, k, v: attention(q, k, v) + torch.zeros(5, dtype=q.dtype)[:, None],
        {"lengths": 5},
    ),
]


@pytest.mark.parametrize("fn, declared", [row[1:] for row in RIGHT], ids=[row[0] for row in RIGHT])
def test_a_right_function_is_accepted(fn, declared):
    assert not codes_of(check_attention, fn, **declared)


def banded(back, ahead):
    "Attention to `back` keys before the query, to itself, and to `ahead` after."

    def attend(q, k, v):
        n_q, n_k = q.shape[-2], k.shape[-2]
        distance = torch.arange(n_k) - torch.arange(n_k - n_q, n_k)[:, None]
        allowed = (distance >= -back) & (distance <= ahead)
        return F.scaled_dot_product_attention(q, k, v, allowed)

    return attend


@pytest.mark.parametrize(
    "declared, seen, codes",
    [
        (dict(window=4, ahead=2), (3, 2), set()),
        (dict(ahead=2), (9999, 2), set()),
        (dict(window=4, ahead=2), (3, 3), {"window.band"}),
        (dict(window=4, ahead=2), (2, 2), {"window.band"}),
        (dict(window=4, ahead=2), (9999, 2), {"window.band"}),
        (dict(window=4), (3, 1), {"window.band"}),
        (dict(window=4), (6, 0), {"window.size"}),
        ({}, (15, 4), {"window.band"}),
    ],
)
def test_a_window_is_measured_back_and_ahead(declared, seen, codes):
    report = report_of(check_attention, banded(*seen), **declared)
    assert set(report.codes) == codes, report
    if not declared:
        assert report.choices == ["window=16, ahead=4"]


def test_a_soft_cap_that_is_not_declared_is_fitted():
    capped = lambda q, k, v: (7 * torch.tanh(q @ k.mT / q.shape[-1] ** 0.5 / 7)).softmax(-1) @ v
    report = report_of(check_attention, capped)
    assert report.codes == ["scores.capped"] and report.choices == ["softcap=7"]
