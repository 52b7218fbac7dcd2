"""Declared functions of the heads: what they are given and believed, and whose error it is."""

import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F

from attention_checks import (
    Misused,
    check_attention,
    check_cross_attention,
    check_multi_head,
    check_self_attention,
)
from attention_nb.multi_head_attention import merge_heads, split_heads
from tests.checks.finding import codes_of, report_of
from tests.checks.test_attend import OWN, SCALE, D, H, Layer, of_layer, softmaxed

ATTENTION = F.scaled_dot_product_attention
HEADS = torch.linspace(-1, 1, H)[:, None, None]


@pytest.fixture(autouse=True)
def seeded():
    "The same weights each time."
    torch.manual_seed(0)


def in_blocks(fill, size=2):
    "Attention to the past of one's own block; `fill` stands for minus infinity."

    def attend(q, k, v):
        at = torch.arange(q.shape[-2])
        seen = (at[:, None] >= at) & (at[:, None] // size == at // size)
        return (q @ k.mT * SCALE).masked_fill(~seen, fill).softmax(-1) @ v

    return attend


@pytest.mark.parametrize(
    "of_layer_, of_attend, codes",
    [
        (in_blocks(-torch.inf), in_blocks(-torch.inf), []),
        (in_blocks(-1e4), in_blocks(-1e4), []),  # it leaks as attend= says
        (in_blocks(-1e4, 99), in_blocks(-torch.inf, 99), ["mask.leaks_if_large"]),
    ],
)
def test_what_a_token_sees_is_what_attend_says_where_they_agree(of_layer_, of_attend, codes):
    report = report_of(
        check_self_attention, Layer(of_layer_), D, n_heads=H, causal=True, attend=of_attend
    )
    assert report.codes == codes


def rounded_by_all(q, k, v):
    "The largest of all scores is subtracted from each, which rounds the scores of other tokens."
    future = torch.ones(q.shape[-2], q.shape[-2], dtype=torch.bool).triu(1)
    scores = (q @ k.mT * q.shape[-1] ** -0.5).masked_fill(future, -torch.inf)
    return (scores - scores.amax()).softmax(-1) @ v


def test_rounding_is_told_from_a_mask_that_leaks():
    assert codes_of(check_attention, rounded_by_all, causal=True) == ["softmax.cut"]
    layer = Layer(rounded_by_all)
    assert codes_of(check_self_attention, layer, D, causal=True) == ["softmax.cut"]


def test_a_mask_that_hides_too_much_says_what_declares_it():
    report = report_of(check_self_attention, Layer(in_blocks(-torch.inf)), D, causal=True)
    declares = {f.declare for f in report.failed if "mask.narrow" in f.codes}
    assert declares == {"window=… or attend=…"}


class Decaying(nn.Module):
    "A convolution chooses how fast attention decays with the distance, (b, h, n)."

    def __init__(self, dim=-1):
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Conv1d(D, D, 1) for _ in range(4))
        self.rate, self.dim = nn.Conv1d(D, H, 1), dim

    def forward(self, x):
        x = x.mT
        q, k, v = (split_heads(f(x).mT, H) for f in (self.q, self.k, self.v))
        return self.o(merge_heads(decayed(q, k, v, self.rate(x), self.dim)).mT).mT


def decayed(q, k, v, rate, dim=-1):
    at = torch.arange(q.shape[-2])
    far = rate.sigmoid()[..., None] * (at[:, None] - at).abs()
    return (q @ k.mT * SCALE - far).softmax(dim) @ v


def of_rows(q, k, v, rate):
    return decayed(q, k, v, rate.mT)


@pytest.mark.parametrize("attend", [decayed, of_rows])
@pytest.mark.parametrize("dim, codes", [(-1, OWN), (-2, ["softmax.over_queries"])])
def test_what_a_convolution_gives_may_be_read_with_channels_first(attend, dim, codes):
    declared = lambda q, k, v, rate: attend(q, k, v, rate)
    assert of_layer(Decaying(dim), attend=declared, positions=True) == codes


def broken(*heads):
    raise IndexError("no such head")


@pytest.mark.parametrize(
    "name, f",
    [
        ("attend", lambda q, k, v: broken(q)),
        ("bias", lambda q, k: broken(q)),
        ("rotate", lambda x, positions: broken(x)),
    ],
)
def test_an_error_in_a_declared_function_is_told_as_its_own(name, f):
    report = report_of(check_self_attention, Layer(softmaxed), D, n_heads=H, **{name: f})
    assert report.codes[0] == "code.raises"
    assert f"the function that {name}= declares raises IndexError" in report.bugs[0]
    assert "given q (3, 3, 5, 8)" in report.failed[0].example


class Gated(nn.Module):
    "A gate for each head, and a bias that differs between heads; grouped heads."

    def __init__(self, merge=merge_heads):
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(32, w) for w in (32, 16, 16, 32))
        self.gate, self.merge = nn.Linear(32, 4), merge

    def forward(self, x):
        q, k, v = (split_heads(f(x), h) for f, h in ((self.q, 4), (self.k, 2), (self.v, 2)))
        k, v = (t.repeat_interleave(2, 1) for t in (k, v))
        scores = q @ k.mT / 8**0.5 + by_head(4, x.shape[1], x.shape[1])
        return self.o(self.merge(scores.softmax(-1) @ v * self.gate(x).sigmoid().mT[..., None]))


def by_head(h, n_q, n_k):
    apart = (torch.arange(n_q)[:, None] - torch.arange(n_k)).abs()
    return -torch.linspace(0.1, 1, h)[:, None, None] * apart


@pytest.mark.parametrize(
    "merge, code",
    [
        (merge_heads, []),
        (lambda c: c.movedim(1, -1).flatten(2), ["merge.features_first"]),
        (lambda c: merge_heads(c[:, [0, 2, 1, 3]]), ["merge.query_groups"]),
        (lambda c: c.reshape(len(c), c.shape[2], -1), ["merge.viewed"]),
    ],
)
def test_heads_merged_otherwise_are_told_beside_a_gate_and_a_bias(merge, code):
    roles = dict(zip(("q", "k", "v", "out"), "qkvo"))
    declared = dict(n_heads=4, roles=roles, gate="gate", bias=by_head, positions=True)
    assert codes_of(check_self_attention, Gated(merge), 32, **declared) == code


def two_terms(first=1.0, second=1.0, dim=-1):
    "Scores of two terms, each times a factor of its own."
    one = lambda t: t * SCALE if first == 1 else t
    other = lambda t: t * 0.3 if second == 1 else second * t

    def attend(q, k, v):
        return (one(q @ k.mT) + other(v @ k.mT)).softmax(dim) @ v

    return attend


@pytest.mark.parametrize(
    "wrong, codes",
    [
        (two_terms(second=-0.3, dim=-2), {"layer.step", "softmax.over_queries"}),
        (two_terms(first=0, second=-0.3), {"layer.step"}),
    ],
)
def test_two_steps_of_attend_that_are_wrong_at_once_are_both_told(wrong, codes):
    report = report_of(check_self_attention, Layer(wrong), D, n_heads=H, attend=two_terms())
    assert set(report.codes) == codes and len(report.failed[0].codes) == 2


def stored(q, k, v, mask=None):
    "A stored causal mask, of which the upper left part is taken."
    seen = torch.ones(256, 256, dtype=torch.bool).tril()[: q.shape[-2], : k.shape[-2]]
    seen = seen if mask is None else seen & mask
    weights = (q @ k.mT * q.shape[-1] ** -0.5).masked_fill(~seen, -torch.inf).softmax(-1)
    return weights.nan_to_num(0) @ v


def test_the_upper_left_of_a_stored_mask_is_the_wrong_corner():
    assert codes_of(check_attention, stored, causal="lower-right") == ["mask.upper_left"]
    assert codes_of(check_attention, stored, causal="upper-left") == []


def billion(q, k, v, mask=None):
    scores = q @ k.mT / q.shape[-1] ** 0.5
    weights = (scores if mask is None else scores.masked_fill(~mask, -1e9)).softmax(-1)
    return weights @ v


def test_what_is_wrong_in_16_bits_alone_is_told_and_no_failure():
    report = check_attention(billion, empty="any")
    assert report.verdict == "sound" and "; right in float32 alone" in str(report)
    wrong = lambda q, k, v, mask=None: 2 * billion(q, k, v, mask)
    report_of_wrong = report_of(check_attention, wrong, empty="any")
    assert any(each.code == "sixteen_bits" for each in report_of_wrong.notes)
    assert "right in float32 alone" not in str(report_of_wrong)
    (note,) = [each for each in report.notes if each.code == "sixteen_bits"]
    assert "[dtype.no_infinity]" in note.why and 'declare dtype="any"' in note.why
    codes = codes_of(check_attention, billion, empty="any", dtype="any")
    assert codes == ["dtype.no_infinity"]
    assert codes_of(check_attention, billion, empty="any", dtype="float32") == []


class Asks(nn.Module):
    "Cross-attention over normed vectors."

    def __init__(self):
        super().__init__()
        self.to_q, self.to_k, self.to_v, self.to_out = (nn.Linear(D, D) for _ in range(4))
        self.norm = nn.LayerNorm(D)

    def forward(self, x, memory):
        x, memory = self.norm(x), self.norm(memory)
        q, k, v = (
            split_heads(f(t), H)
            for f, t in ((self.to_q, x), (self.to_k, memory), (self.to_v, memory))
        )
        return self.to_out(merge_heads((q @ k.mT * D**-0.5 * H**0.5).softmax(-1) @ v))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_rounding_in_16_bits_is_no_influence_of_other_queries(dtype):
    codes = codes_of(check_cross_attention, Asks(), D, n_heads=H, dtype=dtype)
    assert "order.queries" not in codes and "mask.narrow" not in codes


def of_keys(q, k, v, mask=None):
    "Scores are divided by the width of a head, and masked by key."
    scores = q @ k.mT / q.shape[-1]
    if mask is not None:
        b, n = mask.shape
        scores = scores.masked_fill(~mask.view(b, 1, 1, n), -1e30)
    return scores.softmax(-1) @ v


def test_a_wrong_scale_is_no_wrong_axis_of_a_mask_besides():
    assert codes_of(check_attention, of_keys, mask="allowed", empty="any") == ["scale.by_width"]


def future_only(q, k, v):
    seen = torch.ones(q.shape[-2], q.shape[-2], dtype=torch.bool).triu(1)
    weights = (q @ k.mT * SCALE).masked_fill(~seen, -torch.inf).softmax(-1)
    return weights.nan_to_num(0.0) @ v


def viewed(q, k, v):
    future = torch.ones(q.shape[-2], q.shape[-2], dtype=torch.bool).triu(1)
    weights = (q @ k.mT * SCALE).masked_fill(future, -torch.inf).softmax(-1)
    return weights @ merge_heads(v).reshape(v.shape)


@pytest.mark.parametrize("core, code", [(future_only, "mask.inverted"), (viewed, "split.viewed_v")])
def test_one_cause_is_told_once(core, code):
    "What large inputs and long ones show besides comes from it."
    assert codes_of(check_self_attention, Layer(core), D, n_heads=H, causal=True) == [code]


def test_what_differs_in_long_sequences_is_named_there():
    core = lambda q, k, v: softmaxed(*((q, k, v) if q.shape[-2] < 9 else (k, q, v)))
    report = report_of(check_self_attention, Layer(core), D, n_heads=H)
    assert report.codes == ["length.long", "route.queries_keys"]
    assert "right for 5 tokens and wrong for 37: what differs" in report.failed[0].bug


def each_feature(q, k, v):
    "A softmax for each feature: only the scale tells the number of heads."
    scores = q[..., None, :] * k[..., None, :, :] * q.shape[-1] ** -0.5
    return (scores.softmax(-2) * v[..., None, :, :]).sum(-2)


def test_a_scale_in_attend_is_no_other_number_of_heads():
    layer = Layer(lambda q, k, v: each_feature(q * H**-0.5, k, v))
    report = report_of(check_self_attention, layer, D, n_heads=H, attend=each_feature)
    assert report.codes == ["layer.step"] and "multiplied by 0.5774" in report.failed[0].bug


class NeedsMask(nn.Module):
    "No call without a mask: True where a key may be seen, of each sequence or for each query."

    def __init__(self, of_queries, inverted=False):
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(D, D) for _ in range(4))
        self.of_queries, self.inverted = of_queries, inverted

    def forward(self, x, seen):
        hidden = seen if self.inverted else ~seen
        q, k, v = (split_heads(p(x), H) for p in (self.q, self.k, self.v))
        hidden = hidden if self.of_queries else hidden[:, None, None]
        scores = (q @ k.mT * SCALE).masked_fill(hidden, -1e30)
        return self.out(merge_heads(scores.softmax(-1) @ v))


@pytest.mark.parametrize("of_queries", [True, False])
def test_a_mask_that_is_needed_is_given(of_queries):
    declared = {"mask": ("seen", "allowed"), "causal": of_queries}
    assert of_layer(NeedsMask(of_queries), **declared) == OWN
    assert of_layer(NeedsMask(of_queries, True), **declared) != OWN
    assert of_layer(NeedsMask(of_queries), causal=of_queries) == ["shape.arguments"]


def own_exp(q, k, v, eps=1e-9):
    e = (q @ k.mT * q.shape[-1] ** -0.5).exp()
    return e / (e.sum(-1, keepdim=True) + eps) @ v


def near_vectors(q, k, size=0.1):
    return -size * (q[..., :, None, :] - k[..., None, :, :]).norm(dim=-1)


def near_places(h, n_q, n_k, size=0.1):
    return -size * (torch.arange(n_q)[:, None] - torch.arange(n_k)).abs().expand(h, n_q, n_k)


@pytest.mark.parametrize("bias", [near_vectors, near_places])
def test_what_a_declared_function_sets_by_default_stays(bias):
    given = lambda q, k: (q, k) if bias is near_vectors else (q.shape[1], q.shape[2], k.shape[2])
    biased = lambda q, k, v, sign=1: (
        (q @ k.mT * q.shape[-1] ** -0.5 + sign * bias(*given(q, k))).softmax(-1) @ v
    )
    assert codes_of(check_attention, lambda q, k, v: biased(q, k, v), bias=bias) == []
    wrong = lambda q, k, v: biased(q, k, v, -1)
    assert codes_of(check_attention, wrong, bias=bias) == ["bias.subtracted"]
    skip = ["softmax.overflows"]
    assert (
        codes_of(check_attention, lambda q, k, v: own_exp(q, k, v), attend=own_exp, skip=skip) == []
    )


class Featured(nn.Module):
    "Attention of random features of queries and keys, which a buffer holds."

    def __init__(self, power=1):
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(D, D) for _ in range(4))
        self.register_buffer("drawn", torch.randn(D // H, 2 * D // H))
        self.power = power

    def forward(self, x):
        q, k, v = (split_heads(f(x), H) for f in (self.q, self.k, self.v))
        return self.o(merge_heads(by_features(q, k, v, self.drawn, self.power)))


def by_features(q, k, v, drawn, power=1):
    q, k = ((t @ drawn).sigmoid() for t in (q, k))
    return q @ (k.mT @ v) / (q * k.sum(-2, keepdim=True)).sum(-1, keepdim=True) ** power


@pytest.mark.parametrize("power, codes", [(1, OWN), (2, ["layer.attend"])])
@pytest.mark.parametrize(
    "attend", [by_features, lambda a, b, c, drawn: by_features(a, b, c, drawn)]
)
def test_a_declared_function_is_given_a_buffer_by_its_name(power, codes, attend):
    assert of_layer(Featured(power), attend=attend) == codes


@pytest.mark.parametrize(
    "declared, told",
    [
        (
            dict(attend=lambda q, k, v, typo: v),
            "attend: expected a function of .*; got .*typo",
        ),
        (dict(bias=lambda q, k, typo: typo), "bias: expected a function of .*; got .*typo"),
        (dict(rotate=lambda x, at, typo: x), "rotate: expected a function of .*; got .*typo"),
        (dict(bias=lambda h, n, m: 3), "bias: expected .h, n_q, n_k. = .*; got int"),
        (dict(bias=lambda h, n, m: torch.ones(n, 1)), "bias: expected .h, n_q, n_k. = "),
        (dict(attend=ATTENTION, causal=True), "attend=lambda q, k, v, allowed"),
    ],
)
def test_what_a_declared_function_cannot_be_given_is_told(declared, told):
    with pytest.raises(Misused, match=told):
        check_self_attention(Layer(softmaxed), D, n_heads=H, **declared)


@pytest.mark.parametrize("name", ["allowed", "mask", "attn_mask"])
def test_a_declared_function_is_given_the_mask_by_its_name(name):
    masked = eval(f"lambda q, k, v, {name}=None: given(q, k, v, {name})", {"given": ATTENTION})
    past = lambda q, k, v: ATTENTION(q, k, v, is_causal=True)
    assert of_layer(Layer(past), causal=True, attend=masked) == OWN
    twice = lambda q, k, v: ATTENTION(q, 2 * k, v, is_causal=True)
    assert of_layer(Layer(twice), causal=True, attend=masked) == ["layer.step"]


SCALES = {  # what a layer makes of a parameter → the same as it is declared
    "times": (lambda tau: tau, "tau"),
    "usual": (lambda tau: tau * SCALE, lambda tau, d: tau / d**0.5),
    "divided": (lambda tau: 1 / tau, lambda tau: 1 / tau),
    "exponential": (lambda tau: tau.exp(), lambda tau: tau.exp()),
}
NAMED = {  # what it does, what is declared → how that is named
    **{(name, name): [] for name in SCALES},
    ("usual", "times"): ["scale.beside"],
    ("divided", "times"): ["scale.divided"],
    ("exponential", "times"): ["scale.exponential"],
    ("times", "usual"): ["scale.beside"],
    ("times", "divided"): ["scale.divided"],
    ("times", "exponential"): ["layer.step"],
}


@pytest.mark.parametrize("start", [[1.0] * H, [0.5, 1.4, 2.0]])
@pytest.mark.parametrize("does, declared", NAMED)
def test_no_formula_of_a_learned_scale_stands_for_another(start, does, declared):
    "Whether all heads begin with 1, as many layers do, or not."
    tau = nn.Parameter(torch.tensor(start)[:, None, None])
    layer = Layer(tau=tau)
    layer.core = lambda q, k, v: (q @ k.mT * SCALES[does][0](layer.tau)).softmax(-1) @ v
    report = report_of(check_self_attention, layer, D, n_heads=H, scale=SCALES[declared][1])
    assert report.codes == NAMED[does, declared], report
    assert (report.verdict == "sound") is (does == declared)


def gated(by):
    "Attention with a gate that a linear layer makes, through some function."
    use = lambda m, x, q, k, v: merge_heads(softmaxed(q, k, v)) * by(m.g(x))
    return Layer(use=use, g=nn.Linear(D, D))


GATES = {
    "sigmoid": (torch.sigmoid, "g"),
    "up to 2": (lambda g: 2 * g.sigmoid(), lambda g: 2 * g.sigmoid()),
    "none": (lambda g: g, lambda g: g),
    "tanh": (torch.tanh, lambda g: g.tanh()),
}


@pytest.mark.parametrize(
    "does, declared",
    [*zip(GATES, GATES), ("none", "sigmoid"), ("tanh", "sigmoid"), ("sigmoid", "none")],
)
def test_no_function_of_a_gate_stands_for_another(does, declared):
    layer = gated(GATES[does][0])
    report = report_of(check_self_attention, layer, D, n_heads=H, gate=GATES[declared][1])
    assert (report.verdict == "sound") is (does == declared), report
    if (does, declared) == ("none", "sigmoid"):
        assert report.codes == ["gate.no_sigmoid"]


def test_a_scale_may_depend_on_the_number_of_keys():
    "As where the logarithm of the length keeps weights as sharp; at one length it is a constant."
    log_n = lambda n: torch.tensor(float(n)).log() / 3
    layer = Layer(lambda q, k, v: softmaxed(log_n(k.shape[-2]) * q, k, v))
    declared = dict(n_heads=H, scale=lambda d, n_k: log_n(n_k) * d**-0.5)
    assert report_of(check_self_attention, layer, D, **declared).verdict == "sound"
    assert report_of(check_self_attention, Layer(softmaxed), D, **declared).codes == [
        "scale.beside"
    ]


class Block(nn.Module):
    "A layer that holds another."

    def __init__(self, attn):
        super().__init__()
        self.attn = attn

    def forward(self, x):
        return self.attn(x)


@pytest.mark.parametrize("factor, codes", [(torch.exp, OWN), (torch.relu, ["layer.step"])])
def test_a_part_of_a_part_is_asked_for_by_the_end_of_its_name(factor, codes):
    layer = Layer(tau=nn.Parameter(torch.tensor([0.3, 0.9, 1.4])))
    times = lambda: factor(layer.tau)[:, None, None]
    layer.core = lambda q, k, v: (q @ k.mT * times()).softmax(-1) @ v
    assert of_layer(Block(layer), scale=lambda tau: tau.exp()) == codes


@pytest.mark.parametrize("check", [check_self_attention, check_multi_head])
@pytest.mark.parametrize("residual", [0, 1])
def test_what_is_applied_to_the_output_is_told_as_late(check, residual):
    "A gate is declared, and multiplies what the output projection gave, perhaps before a residual."

    class Late(Layer):
        def forward(self, x):
            return super().forward(x) * self.g(x).sigmoid() + residual * x

    report = report_of(check, Late(g=nn.Linear(D, D)), D, n_heads=H, gate="g")
    assert report.codes == ["choice.late"] and "gate= is applied after" in report.failed[0].bug
