"""What a layer's author declares is what it is compared with:
with its names meaningless, each planted bug is named.
"""

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
    check_self_attention,
)
from attention_checks.spec import READ_BY
from attention_nb.flash_attention import flash_attention
from attention_nb.local_attention import window_mask
from attention_nb.multi_head_attention import MultiHeadAttention, merge_heads, split_heads
from attention_nb.positions import RotaryEmbedding
from attention_nb.softmax import masked_softmax, softmax
from tests.checks.finding import report_of
from tests.checks.variants import attention

D, H = 24, 3


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
    bias="p9",
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
    "gate.missing": dict(gate=lambda self, context, x: context + 0 * self.p5(x)),
    "gate.no_sigmoid": dict(gate=lambda self, context, x: context * self.p5(x)),
}


@pytest.mark.parametrize("code", WRONG)
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
        ("bias", "p6", "bias: expected a part that gives"),
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


class Normed(nn.Module):
    "Queries and keys are normalised, and the scores have a scale."

    def __init__(self, scale):
        super().__init__()
        self.qkv, self.proj, self.scale = nn.Linear(24, 72), nn.Linear(24, 24), scale
        self.q_norm, self.k_norm = nn.RMSNorm(8), nn.RMSNorm(8)

    def forward(self, x):
        q, k, v = (split_heads(t, 3) for t in self.qkv(x).chunk(3, -1))
        weights = (self.q_norm(q) @ self.k_norm(k).mT * self.scale).softmax(-1)
        return self.proj(merge_heads(weights @ v))


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
    report = report_of(check_self_attention, Normed(scale), 24, n_heads=3, **declared)
    assert report.codes == [code][: len(code)], report
    assert code or report.verdict == "sound"
    undeclared = report_of(check_self_attention, Normed(scale), 24, n_heads=3)
    assert not undeclared.codes and (undeclared.verdict == "sound") == (scale in (1.0, 8**-0.5))
    assert undeclared.verdict == "sound" or "declare scale=" in undeclared.missing


class Beside(nn.Module):
    "Attention with a part that is not declared, under a name that says nothing."

    def __init__(self, part, use):
        super().__init__()
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (nn.Linear(D, D) for _ in range(4))
        self.p, self.use = part, use

    def forward(self, x):
        q, k, v = (split_heads(f(x), H) for f in (self.q_proj, self.k_proj, self.v_proj))
        return self.out_proj(self.use(self.p, x, q, k, v))


def plain(q, k, v, more=0):
    return merge_heads((q @ k.mT / 8**0.5 + more).softmax(-1) @ v)


@pytest.mark.parametrize(
    "part, use",
    [
        (nn.Linear(D, D), lambda p, x, *qkv: plain(*qkv) * p(x)),
        (nn.RMSNorm(8), lambda p, x, q, k, v: plain(p(q) * 2, k, v)),
        (
            nn.Parameter(torch.ones(H, 64, 64).tril()),
            lambda p, x, *qkv: plain(*qkv, 2 * p[:, : x.shape[1], : x.shape[1]]),
        ),
        (
            nn.Parameter(torch.ones(H)),
            lambda p, x, *qkv: plain(*qkv, p[:, None, None] * torch.arange(x.shape[1])),
        ),
        (
            nn.Parameter(torch.tensor(0.3)),
            lambda p, x, q, k, v: plain(q, k, v, p * (q @ k.mT) ** 2),
        ),
    ],
)
def test_what_was_not_compared_names_the_part_and_what_may_declare_it(part, use):
    "What it does is not guessed from its shape."
    torch.manual_seed(0)
    ordered = isinstance(part, nn.Parameter) and part.ndim > 0  # a bias for each position
    report = report_of(check_self_attention, Beside(part, use), D, n_heads=H, positions=ordered)
    assert report.verdict == "not compared" and "it also has p: " in report.missing, report
    assert all(f"{name}=…" in report.missing for name in ("norms", "sinks", "gate", "bias"))
    assert "='p'" not in report.missing


def test_a_gate_is_found_out_whatever_its_name():
    "Numbers confirm it, and the report says what declares it."
    layer = Beside(nn.Linear(D, D), lambda p, x, *qkv: plain(*qkv) * p(x).sigmoid())
    report = report_of(check_self_attention, layer, D, n_heads=H, positions=False)
    assert report.verdict == "sound" and "gate='p'" in str(report), report


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


class PerHead(nn.Module):
    "A norm with weights of its own for each head, over (b, n, h, d)."

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(H, D // H))

    def forward(self, t):
        return nn.functional.rms_norm(t, t.shape[-1:]) * self.weight


class OneMatrix(nn.Module):
    "Attention through one matrix, with a step of its own at the queries and at the end."

    def __init__(self, end=lambda context: context, **parts):
        super().__init__()
        self.end, self.one, self.out_proj = end, nn.Linear(D, 3 * D), nn.Linear(D, D)
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, x):
        q, k, v = (split_heads(t, H) for t in self.one(x).chunk(3, -1))
        if hasattr(self, "norm"):
            q = self.norm(q.transpose(1, 2)).transpose(1, 2)
        weights = (q @ k.mT * (D // H) ** -0.5).softmax(-1)
        return self.out_proj(self.end(merge_heads(weights @ v)))


TWO = {"value_scale": 0.5, "activation": "gelu"}


@pytest.mark.parametrize(
    "layer, more, codes",
    [
        (OneMatrix, {}, []),
        (lambda: OneMatrix(norm=PerHead()), {"norms": {"q": "norm"}}, []),
        (lambda: OneMatrix(lambda t: nn.functional.gelu(t / 2)), TWO, []),
        (lambda: OneMatrix(lambda t: t / 2), TWO, ["choice.missing"]),
    ],
)
def test_what_is_declared_of_one_matrix_and_of_two_choices_at_one_stage(layer, more, codes):
    torch.manual_seed(0)
    report = report_of(
        check_self_attention, layer(), D, n_heads=H, roles=dict.fromkeys("qkv", "one"), **more
    )
    assert report.codes == codes and (codes or report.compared == "its own weights"), report
