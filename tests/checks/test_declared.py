"""What a layer's author declares is what it is compared with:
with its names meaningless, each planted bug is named.
"""

import math

import pytest
import torch
import torch.nn as nn

import attention_checks
from attention_checks import (
    CheckFailed,
    Misused,
    NotCompared,
    check_attention,
    check_flash,
    check_multi_head,
    check_self_attention,
)
from attention_checks.spec import READ_BY
from attention_nb.flash_attention import flash_attention
from attention_nb.local_attention import window_mask
from attention_nb.multi_head_attention import MultiHeadAttention, merge_heads, split_heads
from attention_nb.positions import RotaryEmbedding
from attention_nb.softmax import masked_softmax, softmax
from conftest import by_day
from tests.checks.finding import report_of
from tests.checks.made import D, H, Made, attend
from tests.checks.made import Layer as Usual
from tests.checks.variants import attention


class Layer(nn.Module):
    """Attention with norms, a bias, a soft cap, sinks and a gate, under names that say nothing;
    each step is a method.
    """

    def __init__(self):
        super().__init__()
        self.p1, self.p2, self.p3, self.p4, self.p5 = (nn.Linear(D, D) for _ in range(5))
        self.p6, self.p7 = nn.RMSNorm(D // H), nn.RMSNorm(D // H)
        self.p8, self.p9 = nn.Parameter(torch.randn(H)), nn.Parameter(torch.randn(H, 64, 64))

    def normalize(self, q, k):
        return self.p6(q), self.p7(k)

    def score(self, q, k):
        return 0.7 * q @ k.mT + self.p9[:, : q.shape[-2], : k.shape[-2]]

    def cap(self, scores):
        return 2 * torch.tanh(scores / 2)

    def weigh(self, scores):
        sinks = self.p8[:, None, None].expand(*scores.shape[:-1], 1)
        return torch.cat([scores, sinks], -1).softmax(-1)[..., :-1]

    def gate(self, context, x):
        return context * self.p5(x).sigmoid()

    def forward(self, x):
        q, k, v = (split_heads(project(x), H) for project in (self.p1, self.p2, self.p3))
        weights = self.weigh(self.cap(self.score(*self.normalize(q, k))))
        return self.p4(self.gate(merge_heads(weights @ v), x))


DESIGN = dict(
    n_heads=H,
    positions=True,
    scale=0.7,
    softcap=2.0,
    sinks="p8",
    bias=lambda q, k, p9: p9[:, : q.shape[-2], : k.shape[-2]],
    gate="p5",
    norms={"q": "p6", "k": "p7"},
    roles={"q": "p1", "k": "p2", "v": "p3", "out": "p4"},
)


def layer_with(**methods) -> Layer:
    "A layer from a fixed seed, with some methods replaced."
    torch.manual_seed(0)
    layer = type("Layer", (Layer,), methods)()
    with torch.no_grad():
        layer.p6.weight.normal_(), layer.p7.weight.normal_()
    return layer


def test_a_declared_layer_is_compared():
    "Without its design nothing can be compared; with it all is, though no name tells anything."
    with pytest.raises(NotCompared) as undeclared:
        check_self_attention(layer_with(), D, n_heads=H, positions=True)
    assert undeclared.value.report.verdict == "not compared" and not undeclared.value.report.failed
    accepted = check_self_attention(layer_with(), D, n_heads=H, positions=True, strict=False)
    assert accepted.ok and accepted.verdict == "not compared"
    report = check_self_attention(layer_with(), D, **DESIGN)
    assert report.verdict == "sound" and report.compared == "its own weights"


def first_sink(self, scores):
    sinks = self.p8[:1, None, None].expand(*scores.shape[:-1], 1)
    return torch.cat([scores, sinks], -1).softmax(-1)[..., :-1]


def added_sinks(self, scores):
    e = scores.exp()
    return e / (e.sum(-1, keepdim=True) + self.p8[:, None, None])


def columns(first, order):
    "Keep as many columns as there are scores, from some on."

    def weigh(self, scores):
        sinks = self.p8[:, None, None].expand(*scores.shape[:-1], 1)
        joined = torch.cat([(scores, sinks)[i] for i in order], -1)
        return joined.softmax(-1)[..., first:][..., : scores.shape[-1]]

    return weigh


WRONG = {  # the code that names it → the method that is wrong
    "scale.missing": dict(
        score=lambda self, q, k: q @ k.mT + self.p9[:, : q.shape[-2], : k.shape[-2]]
    ),
    "norm.queries_only": dict(normalize=lambda self, q, k: (self.p6(q), k)),
    "norm.keys_only": dict(normalize=lambda self, q, k: (q, self.p7(k))),
    "cap.missing": dict(cap=lambda self, scores: scores),
    "cap.not_multiplied": dict(cap=lambda self, scores: torch.tanh(scores / 2)),
    "cap.not_divided": dict(cap=lambda self, scores: 2 * torch.tanh(scores)),
    "cap.cut": dict(cap=lambda self, scores: scores.clamp(-2, 2)),
    "sink.missing": dict(weigh=lambda self, scores: scores.softmax(-1)),
    "sink.first": dict(weigh=first_sink),
    "sink.no_exp": dict(weigh=added_sinks),
    "sink.first_column": dict(weigh=columns(1, [0, 1])),
    "sink.last_column": dict(weigh=columns(0, [1, 0])),
    "gate.missing": dict(gate=lambda self, context, x: context + 0 * self.p5(x)),
    "gate.no_sigmoid": dict(gate=lambda self, context, x: context * self.p5(x)),
}


@pytest.mark.parametrize("code", by_day(WRONG))
def test_a_bug_beside_declared_parts_is_named(code):
    with pytest.raises(CheckFailed) as failed:
        check_self_attention(layer_with(**WRONG[code]), D, **DESIGN)
    assert code in failed.value.report.codes, failed.value


def test_exchanged_roles_are_named():
    "The layer takes its keys for queries; norms, which belong to the parts, stay."
    roles = {**DESIGN["roles"], "q": "p2", "k": "p1"}
    with pytest.raises(CheckFailed) as failed:
        check_self_attention(
            layer_with(normalize=lambda self, q, k: (q, k)),
            D,
            **{**DESIGN, "norms": None, "roles": roles},
        )
    assert "route.queries_keys" in failed.value.report.codes, failed.value


@pytest.mark.parametrize(
    "keyword, value, says",
    [
        ("roles", {"q": "query"}, r"roles\['q'\]: expected the name of a part of the layer"),
        ("roles", {"queries": "p1"}, "roles: expected keys among q, k, v"),
        (
            "norms",
            {"q": "p0", "k": "p7"},
            r"norms\['q'\]: expected the name of a part of the layer",
        ),
        ("gate", "gate", "gate: expected the name of a part of the layer"),
        ("sinks", "sink", "sinks: expected the name of a part of the layer"),
        ("bias", "p6", "bias: expected .h, n_q, n_k. = .* bias=lambda q, k, table"),
        ("softcap", 0.0, "softcap: expected a number above 0; got 0.0"),
        ("max_batch", 0, "max_batch: expected"),
        ("mask", "inverted", "mask: expected 'allowed', 'blocked', 'bias'"),
        ("returns", 1.5, "returns: expected an index, a name or a function"),
        ("capped", 2.0, "capped: expected an argument of the check"),
    ],
)
def test_a_declaration_that_cannot_be_is_refused(keyword, value, says):
    with pytest.raises((Misused, TypeError, ValueError), match=says):
        check_self_attention(layer_with(), D, **{**DESIGN, keyword: value})


def test_the_check_of_attention_alone_does_not_take_its_own_question_again():
    with pytest.raises(Misused, match="only_attention: expected for check_self_attention only"):
        check_multi_head(MultiHeadAttention(D, 3), D, 3, only_attention=True)


class FewSequences(Layer):
    "It has a buffer for two sequences, as a layer with a cache inside has."

    def forward(self, x):
        if len(x) > 2:
            raise RuntimeError(
                f"The size of tensor a ({len(x)}) must match the size of tensor b (2)"
            )
        return super().forward(x)


def test_a_declared_largest_batch_is_kept():
    "Otherwise an error of the code, since a limit looks like a mistake."
    torch.manual_seed(0)
    layer = FewSequences()
    with pytest.raises(CheckFailed):
        check_self_attention(layer, D, **DESIGN)
    assert check_self_attention(layer, D, **DESIGN, max_batch=2).verdict == "sound"


def test_functions_are_told_nothing_of_layers():
    """A keyword that would be ignored is refused;
    a function without a backward pass is sound if that is declared.
    """
    with pytest.raises(TypeError, match="gate: expected for check_self_attention"):
        check_attention(attention, gate="gate")
    inference = torch.no_grad()(attention)
    with pytest.raises(CheckFailed) as failed:
        check_attention(lambda q, k, v: inference(q, k, v))
    assert failed.value.report.codes == ["grad.none"]
    assert check_attention(lambda q, k, v: inference(q, k, v), gradients=False).verdict == "sound"


def capped(cap):
    "Attention whose scores go through `cap`."
    return lambda q, k, v: cap(q @ k.mT / q.shape[-1] ** 0.5).softmax(-1) @ v


@pytest.mark.parametrize(
    "code, cap",
    {
        "": lambda s: 1.5 * torch.tanh(s / 1.5),
        "cap.missing": lambda s: s,
        "cap.not_multiplied": lambda s: torch.tanh(s / 1.5),
        "cap.cut": lambda s: s.clamp(-1.5, 1.5),
        "scores.capped": lambda s: 1.6 * torch.tanh(s / 1.6),
    }.items(),
)
def test_a_soft_cap_of_a_function(code, cap):
    if not code:
        assert check_attention(capped(cap), softcap=1.5).verdict == "sound"
        return
    with pytest.raises(CheckFailed) as failed:
        check_attention(capped(cap), softcap=1.5)
    assert code in failed.value.report.codes, failed.value


def added(h, n_q, n_k):
    "A bias for each query and key."
    return 2 * torch.randn(h, n_q, n_k, generator=torch.Generator().manual_seed(3))


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("sign, codes", [(1, []), (0, ["bias.ignored"])])
def test_a_bias_may_be_added_before_a_soft_cap_or_after_it(last, sign, codes):
    "Either order is a choice of a function; the bias must be added."

    def fn(q, k, v):
        more, cap = sign * added(*q.shape[1:3], k.shape[2]), lambda s: 2 * torch.tanh(s / 2)
        scores = q @ k.mT / q.shape[-1] ** 0.5
        return (cap(scores) + more if last else cap(scores + more)).softmax(-1) @ v

    assert report_of(check_attention, fn, softcap=2.0, bias=added).codes == codes


@pytest.mark.parametrize("order", ["first", "last"])
def test_a_bias_that_hides_keys_may_be_added_on_either_side_of_a_soft_cap(order):
    "After the cap, minus infinity hides them; before it they would keep a score of minus the cap."

    def hiding(h, n_q, n_k):
        far = torch.arange(n_q)[:, None] - torch.arange(n_k)
        return torch.zeros(h, n_q, n_k).masked_fill(far.abs() > 2, -math.inf)

    def fn(q, k, v):
        more, cap = hiding(*q.shape[1:3], k.shape[2]), lambda s: 2 * torch.tanh(s / 2)
        scores = q @ k.mT / q.shape[-1] ** 0.5
        return (cap(scores) + more if order == "last" else cap(scores + more)).softmax(-1) @ v

    report = report_of(check_attention, fn, softcap=2.0, bias=hiding)
    assert "the oracle" in report.compared and not report.codes, report


@pytest.mark.parametrize("sign, code", [(1, ""), (-1, "bias.subtracted"), (0, "bias.ignored")])
def test_a_bias_of_a_layer_may_follow_its_soft_cap(sign, code):
    def score(self, q, k):
        self.more = sign * self.p9[:, : q.shape[-2], : k.shape[-2]]
        return 0.7 * q @ k.mT

    capped_first = lambda self, scores: 2 * torch.tanh(scores / 2) + self.more
    layer = layer_with(score=score, cap=capped_first)
    codes = report_of(check_self_attention, layer, D, **DESIGN).codes
    assert codes[:1] == ([code] if code else []), codes


@pytest.mark.parametrize("found", [0, 50, 36])
def test_a_large_soft_cap_is_tried_on_large_scores(found):
    """Without large scores, caps of 30 and 36 give the same numbers to four digits."""
    cap = (lambda s: found * torch.tanh(s / found)) if found else (lambda s: s)
    code = "scores.capped" if found else "cap.missing"
    assert report_of(check_attention, capped(cap), softcap=30.0).codes == [code]


def without_gradients(fn):
    "The same, with no backward pass."
    return lambda *args: _detached(fn(*args))


LAYER = MultiHeadAttention(24, 3)
CALLS = {  # check → what it is called with, and by name
    "check_attention": ((attention,), {}),
    "check_flash": ((flash_attention,), {}),
    "check_self_attention": ((LAYER, 24), {}),
    "check_multi_head": ((LAYER, 24, 3), {}),
    "check_cross_attention": ((nn.MultiheadAttention(24, 3, batch_first=True), 24), {}),
    "check_softmax": ((softmax,), {}),
    "check_masked_softmax": ((masked_softmax,), {}),
    "check_positions": ((RotaryEmbedding(8),), {}),
    "check_agrees": ((softmax, torch.softmax, (torch.randn(3, 5), -1)), {}),
    "check_cache": ((LAYER, 24), {}),
}
GIVEN = dict(
    window=3,
    ahead=1,
    documents=3,
    roles={"q": "q_proj"},
    norms={"q": "q_proj"},
    gate="q_proj",
    bias="q_proj",
    returns=0,
    max_batch=2,
    scale=0.5,
    softcap=2.0,
    lengths=9,
    group_order="blocks",
    fused_order="roles",
    dropout="none",
    mask="allowed",
    sinks=1,
    empty="any",
    layout="nbd",
    device="meta",
    dtype="float64",
)


@pytest.mark.parametrize("check", CALLS)
def test_each_check_reads_its_choices_and_refuses_all_others(check):
    """A keyword that a check would ignore is refused in one line,
    which names the checks that read it.
    """
    args, settings = CALLS[check]
    for name in GIVEN.keys() - set(READ_BY[check]):
        if name in ("scale", "documents", "window", "mask", "sinks"):
            continue  # some are arguments of a check
        with pytest.raises(TypeError, match=f"{name}: expected for check_"):
            getattr(attention_checks, check)(*args, **settings, **{name: GIVEN[name]})
    with pytest.raises(TypeError, match="tolerances: expected an argument"):
        getattr(attention_checks, check)(*args, **settings, tolerances=0.1)
    with pytest.raises(ValueError, match="tolerance: expected a number above 0"):
        getattr(attention_checks, check)(*args, **settings, tolerance=0)


@pytest.mark.parametrize("check", ["softmax", "masked_softmax", "positions", "agrees", "flash"])
def test_gradients_need_not_be_promised(check):
    (fn, *others), settings = CALLS[f"check_{check}"]
    check = getattr(attention_checks, f"check_{check}")
    with pytest.raises(CheckFailed):
        check(without_gradients(fn), *others, **settings)
    assert check(without_gradients(fn), *others, **settings, gradients=False).verdict == "sound"


def _scaled(out):
    "The first result a little too large."
    return (out[0] * 1.004, *out[1:]) if isinstance(out, tuple) else out * 1.004


def _detached(out):
    return tuple(t.detach() for t in out) if isinstance(out, tuple) else out.detach()


@pytest.mark.parametrize("check", ["softmax", "masked_softmax", "positions", "agrees", "flash"])
def test_a_tolerance_is_read_by_every_check(check):
    (fn, *others), settings = CALLS[f"check_{check}"]
    check = getattr(attention_checks, f"check_{check}")
    coarse = lambda *args: _scaled(fn(*args))
    with pytest.raises(CheckFailed):
        check(coarse, *others, **settings)
    assert check(coarse, *others, **settings, tolerance=0.2).verdict == "sound"


def test_flash_reads_a_soft_cap_and_a_window():
    "Its memory, its log-sum-exp and its gradients are those of what was declared."

    def capped(q, k, v):
        n = q.shape[-2]
        scores = 2 * torch.tanh(q @ k.mT / q.shape[-1] ** 0.5 / 2)
        return scores.masked_fill(~window_mask(n, n, 4), -torch.inf).softmax(-1) @ v

    report = report_of(check_flash, capped, softcap=2.0, window=4)
    assert set(report.codes) <= {"flash.matrix", "flash.matrix_backward"}
    assert "scale.missing" not in report.codes and len(report.passed) > 10


def normed(scale):
    "Queries and keys are normalised, and the scores have a scale."
    norms = {"q_norm": nn.RMSNorm(8), "k_norm": nn.RMSNorm(8)}
    use = lambda m, x, q, k, v: attend(m.q_norm(q), m.k_norm(k), v, scale)
    return Usual(use=use, fused="qkv", out="proj", **norms)


NORMS = {"q": "q_norm", "k": "k_norm"}


@pytest.mark.parametrize("declared", [dict(norms=NORMS), dict(scale=8**-0.5)])
@pytest.mark.parametrize(
    "scale, code",
    [
        (8**-0.5, ""),
        (1 / 8, "scale.by_width"),
        (24**-0.5, "scale.d_model_root"),
        (1.0, "scale.missing"),
        (0.3, "scale.head_constant"),
    ],
)
def test_a_scale_beside_declared_norms_is_compared(scale, code, declared):
    "What is declared is not guessed: beside norms that were not declared, the scale may be meant."
    report = report_of(check_self_attention, normed(scale), 24, n_heads=3, **declared)
    assert report.codes == [code][: len(code)], report
    assert code or report.verdict == "sound"
    undeclared = report_of(check_self_attention, normed(scale), 24, n_heads=3)
    assert not undeclared.codes and (undeclared.verdict == "sound") == (scale in (1.0, 8**-0.5))
    assert undeclared.verdict == "sound" or "declare scale=" in undeclared.missing


def beside(part, use):
    "Make attention with a part that is not declared, under a name that says nothing."
    return Usual(use=lambda m, *given: use(m.p, *given), p=part)


def plain(q, k, v, more=0):
    return merge_heads((q @ k.mT / 8**0.5 + more).softmax(-1) @ v)


@pytest.mark.parametrize(
    "part, use, hint",
    [
        (nn.Linear(D, D), lambda p, x, *qkv: plain(*qkv) * p(x), "gate='p' or residual='p'"),
        (nn.RMSNorm(8), lambda p, x, q, k, v: plain(p(q) * 2, k, v), "norms={'q': 'p'}"),
        (
            nn.Linear(H, H),
            lambda p, x, *qkv: plain(*qkv) * p(x[..., :H]).sum(-1, keepdim=True),
            "mixing={'scores': 'p'}",
        ),
        (
            nn.Embedding(9, H),
            lambda p, x, *qkv: plain(
                *qkv, 2 * p.weight[0, :, None, None] * torch.arange(x.shape[1])
            ),
            "bias=lambda q, k, p: …",
        ),
        (
            nn.Parameter(torch.ones(H, 64, 64).tril()),
            lambda p, x, *qkv: plain(*qkv, 2 * p[:, : x.shape[1], : x.shape[1]]),
            "bias=lambda q, k, p: …",
        ),
        (
            nn.Parameter(torch.ones(H)),
            lambda p, x, *qkv: plain(*qkv, p[:, None, None] * torch.arange(x.shape[1])),
            "scale='p', scale=lambda p: …, sinks='p', gate='p' or bias=lambda q, k, p: … (it has"
            " one for each head)",
        ),
        (
            nn.Parameter(torch.tensor(0.3)),
            lambda p, x, q, k, v: plain(q, k, v, p * (q @ k.mT) ** 2),
            "scale='p', scale=lambda p: … or value_scale='p' (it is one number)",
        ),
        (
            nn.Parameter(torch.ones(2, 5, 8)),
            lambda p, x, *qkv: plain(*qkv) * (x[..., :8] @ p[0].mT).sum(-1, keepdim=True),
            "prefix={'kv': 'p'}, shortened={'k': 'p'}",
        ),
    ],
)
def test_what_was_not_compared_names_the_part_and_what_may_declare_it(part, use, hint):
    "What it does is not guessed from its shape: the report says what it may be."
    torch.manual_seed(0)
    ordered = "bias" in hint
    report = report_of(check_self_attention, beside(part, use), D, n_heads=H, positions=ordered)
    assert report.verdict == "not compared" and "it also has p: " in report.missing, report
    assert f"such as {hint}; " in report.missing, report.missing
    assert all(f"{name}=…" in report.missing for name in ("norms", "sinks", "gate", "bias"))


@pytest.mark.nightly
def test_a_wide_window_of_a_function_is_compared():
    def banded(q, k, v, size=64):
        past = window_mask(q.shape[-2], k.shape[-2], size)
        return masked_softmax(q @ k.mT / q.shape[-1] ** 0.5, past) @ v

    assert report_of(check_attention, banded, causal=True, window=64).verdict == "sound"
    report = report_of(check_attention, lambda *a: banded(*a, size=65), causal=True, window=64)
    assert report.codes == ["window.size"]


def test_projections_that_were_not_recognised_are_declared_as_roles():
    report = report_of(check_self_attention, layer_with(), D, n_heads=H, positions=True)
    assert "declare roles={'q': …" in report.missing


@pytest.mark.parametrize(
    "codes, takes",
    [
        (["shape.only_square"], lambda q, k, v: q.shape[-2] == k.shape[-2]),
        (["shape.values_as_wide"], lambda q, k, v: q.shape[-1] == v.shape[-1]),
        (["shape.only_equal"], lambda q, k, v: q.shape == v.shape),
    ],
)
def test_sizes_that_a_function_does_not_take_are_not_tried_once_declared(codes, takes):
    "It is compared at the others, and its bugs are found."

    def limited(q, k, v, scale=1.0):
        assert takes(q, k, v)
        return attention(scale * q, k, v)

    assert report_of(check_attention, limited).codes == codes
    assert report_of(check_attention, limited, skip=codes).verdict == "sound"
    wrong = report_of(check_attention, lambda q, k, v: limited(q, k, v, 0.5), skip=codes)
    assert wrong.codes == ["scale.halved"], wrong


def test_nothing_is_sound_by_skipping():
    "Where the first property is skipped, none follows."
    report = report_of(check_attention, lambda q, k, v: None, skip=["code.returns_nothing"])
    assert report.verdict == "not compared" and "nothing was tried after" in report.missing


def test_a_skipped_projection_that_is_unused_does_not_make_wrong_numbers_sound():
    def unused(m, x):
        q, k = (split_heads(f(x), H) for f in (m.q_proj, m.k_proj))
        return m.out_proj(plain(3 * q, k, k))

    names = ("q_proj", "k_proj", "v_proj", "out_proj")
    parts = {name: nn.Linear(D, D) for name in names}
    report = report_of(check_self_attention, Made(unused, **parts), D, skip=["project.unused"])
    assert report.verdict != "sound", report


def test_a_bias_of_queries_and_keys_is_added():
    table = torch.randn(200, 17, generator=torch.Generator().manual_seed(0))

    def far(q, k):
        at = torch.arange(q.shape[-2])[:, None] - torch.arange(k.shape[-2]) + 150
        return torch.einsum("bhid,ijd->bhij", q, table[at.clamp(0, 199), : q.shape[-1]])

    def fn(q, k, v, more=far):
        return (q @ k.mT * q.shape[-1] ** -0.5 + more(q, k)).softmax(-1) @ v

    assert report_of(check_attention, fn, bias=far).verdict == "sound"
    report = report_of(check_attention, lambda q, k, v: fn(q, k, v, lambda q, k: 0), bias=far)
    assert report.codes == ["bias.ignored"]


class HandedBiases(nn.Module):
    "It takes a list of what is added to the scores, as AlphaFold's attention does."

    def __init__(self, used=True):
        super().__init__()
        self.used = used
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (nn.Linear(D, D) for _ in range(4))

    def forward(self, x, biases, scale=8**-0.5):
        q, k, v = (split_heads(f(x), H) for f in (self.q_proj, self.k_proj, self.v_proj))
        scores = q @ k.mT * scale
        for bias in biases if self.used else ():
            scores = scores + bias
        return self.out_proj(merge_heads(scores.softmax(-1) @ v))


def test_a_mask_is_given_through_the_call():
    "The call says under which name, and what it becomes."

    def call(layer, x, mask=None):
        return layer(x, [] if mask is None else [mask])

    declared = dict(n_heads=H, mask=("mask", "bias"), call=call)
    report = report_of(check_self_attention, HandedBiases(), D, **declared)
    assert report.verdict == "sound" and any("mask was given" in r for r in report.remarks), report
    assert report_of(check_self_attention, HandedBiases(False), D, **declared).codes == [
        "mask.ignored"
    ]


def test_a_mask_takes_the_place_of_one_that_the_call_gives_by_position():
    class Masked(HandedBiases):
        def forward(self, x, mask):
            return super().forward(x, [mask])

    call = lambda layer, x: layer(x, torch.zeros(len(x), 1, 1, x.shape[1]))
    report = report_of(
        check_self_attention, Masked(), D, n_heads=H, mask=("mask", "bias"), call=call
    )
    assert report.verdict == "sound" and any("mask was given" in r for r in report.remarks), report


@pytest.mark.nightly
def test_a_gate_by_a_module_is_compared():
    "Its activation function is no part of an unknown use: a wrong one is a bug."

    def gated(times):
        def use(m, x, *qkv):
            gate = m.act(m.p(x)) if times == 1 else m.act(m.act(m.p(x)))
            return plain(*qkv) * gate

        return Usual(use=use, fused="qkv", act=nn.Sigmoid(), p=nn.Linear(D, D))

    declared = dict(n_heads=H, gate="p")
    assert report_of(check_self_attention, gated(1), D, **declared).verdict == "sound"
    assert report_of(check_self_attention, gated(2), D, **declared).verdict == "bug"


class BetweenNorms(nn.Module):
    "Attention with a norm before its projections, and one after its output."

    def __init__(self, power=1, inside=False):
        super().__init__()
        self.power, self.inside = power, inside
        self.pre, self.post = nn.LayerNorm(D), nn.LayerNorm(D)
        self.between = nn.LayerNorm(D) if inside else nn.Identity()
        self.qkv, self.out_proj = nn.Linear(D, 3 * D), nn.Linear(D, D)

    def forward(self, x):
        q, k, v = (split_heads(t, H) for t in self.qkv(self.pre(x)).chunk(3, -1))
        weights = (q @ k.mT / 8**0.5).softmax(-1) ** self.power
        context = merge_heads(weights @ v)
        if self.inside:
            context = self.between(context.sin())
        return self.post(self.out_proj(context))


@pytest.mark.parametrize(
    "layer, verdict",
    [((), "sound"), ((1.5,), "bug"), ((1.0, True), "not compared")],
)
def test_only_parts_between_projections_and_context_leave_it_open(layer, verdict):
    "A norm before the projections cannot explain numbers that follow them."
    torch.manual_seed(0)
    report = report_of(check_self_attention, BetweenNorms(*layer), D, n_heads=H)
    assert report.verdict == verdict, report
    assert "norm" not in report.missing or "between" in report.missing


class TablesOfHeads(nn.Module):
    "It is handed cosines and sines, (1, n, 1, d / 2)."

    def __init__(self, power=1):
        super().__init__()
        self.power, self.qkv, self.proj = power, nn.Linear(D, 3 * D), nn.Linear(D, D)

    def forward(self, x, cos, sin):
        q, k, v = self.qkv(x).unflatten(-1, (3, H, -1)).unbind(2)
        turned = []
        for a, b in (q.chunk(2, -1), k.chunk(2, -1)):
            turned.append(torch.cat([a * cos - b * sin, a * sin + b * cos], -1).transpose(1, 2))
        weights = (turned[0] @ turned[1].mT / 8**0.5).softmax(-1) ** self.power
        return self.proj(merge_heads(weights @ v.transpose(1, 2)))


@pytest.mark.nightly
@pytest.mark.parametrize("power, verdict", [(1, "sound"), (1.5, "bug")])
def test_tables_that_broadcast_over_heads_are_seen(power, verdict):
    "Once its rotation is known, other numbers are a bug."
    angles = torch.arange(64.0)[:, None] * 7.0 ** -torch.arange(4)
    angles = angles[None, :, None]

    def call(layer, x):
        return layer(x, *(t[:, : x.shape[1]].to(x) for t in (angles.cos(), angles.sin())))

    declared = dict(n_heads=H, positions=True, call=call)
    assert report_of(check_self_attention, TablesOfHeads(power), D, **declared).verdict == verdict


class Distances(nn.Module):
    "Queries also ask for distances, by a projection of their own."

    def __init__(self, power=1):
        super().__init__()
        self.power, self.qkv, self.proj = power, nn.Linear(D, 3 * D), nn.Linear(D, D)
        self.p, self.table = nn.Linear(8, 8), torch.randn(127, 8)

    def far(self, q, k):
        at = torch.arange(q.shape[-2])
        return torch.einsum("bhid,ijd->bhij", q, self.p(self.table)[at[:, None] - at + 63])

    def forward(self, x):
        q, k, v = (split_heads(t, H) for t in self.qkv(x).chunk(3, -1))
        weights = (q @ k.mT / 8**0.5 + self.far(q, k)).softmax(-1) ** self.power
        return self.proj(merge_heads(weights @ v))


@pytest.mark.parametrize("power, verdict", [(1, "sound"), (1.5, "bug")])
def test_what_a_declared_function_reads_needs_no_declaration(power, verdict):
    torch.manual_seed(0)
    layer = Distances(power)
    declared = dict(n_heads=H, positions=True, bias=layer.far)
    assert report_of(check_self_attention, layer, D, **declared).verdict == verdict


class PerHead(nn.Module):
    "A norm with weights of its own for each head, over (b, n, h, d)."

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(H, D // H))

    def forward(self, t):
        return nn.functional.rms_norm(t, t.shape[-1:]) * self.weight


def one_matrix(end=lambda context: context, norm=None):
    "Make attention through one matrix, with a step of its own at the queries and at the end."

    def use(m, x, q, k, v):
        if norm is not None:
            q = m.norm(q.transpose(1, 2)).transpose(1, 2)
        return end(plain(q, k, v))

    return Usual(use=use, fused="one", **({} if norm is None else {"norm": norm}))


TWO = {"value_scale": 0.5, "activation": "gelu"}


@pytest.mark.parametrize(
    "make, more, codes",
    [
        (one_matrix, {}, []),
        (lambda: one_matrix(norm=PerHead()), {"norms": {"q": "norm"}}, []),
        (lambda: one_matrix(lambda t: nn.functional.gelu(t / 2)), TWO, []),
        (lambda: one_matrix(lambda t: t / 2), TWO, ["choice.missing"]),
    ],
)
def test_what_is_declared_of_one_matrix_and_of_two_choices_at_one_stage(make, more, codes):
    torch.manual_seed(0)
    report = report_of(
        check_self_attention, make(), D, n_heads=H, roles=dict.fromkeys("qkv", "one"), **more
    )
    assert report.codes == codes and (codes or report.compared == "its own weights"), report


def band(q, k, v, back=2, ahead=1):
    "A window to both sides, of the upper left corner."
    apart = torch.arange(q.shape[-2])[:, None] - torch.arange(k.shape[-2])
    scores = q @ k.mT * q.shape[-1] ** -0.5
    weights = scores.masked_fill((apart > back) | (apart < -ahead), -torch.inf).softmax(-1)
    return weights.nan_to_num(0) @ v


@pytest.mark.parametrize("ahead, bug", [(1, False), (2, True)])
def test_a_window_to_both_sides_may_stand_in_the_upper_left_corner(ahead, bug):
    code = lambda q, k, v: band(q, k, v, 2, ahead)
    declared = dict(window=3, ahead=1, causal="upper-left")
    report = report_of(check_attention, code, **declared)
    assert report.codes == (["window.band"] if bug else [])
