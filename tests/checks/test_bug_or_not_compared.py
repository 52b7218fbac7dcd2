"""A layer that differs from a reference is a bug; one that has no reference is not compared."""

from itertools import product

import pytest
import torch
import torch.nn as nn

from attention_checks import check_self_attention
from attention_checks.subjects.diagnosis import examined
from attention_checks.outcomes import Broken, NotChecked
from attention_checks.properties.layers.own_weights import OWN_WEIGHTS
from attention_checks.spec import Contract
from attention_checks.subjects.layer import adapt
from conftest import by_day
from attention_nb.multi_head_attention import merge_heads, split_heads
from attention_nb.softmax import softmax
from tests.checks.finding import report_of
from tests.checks.made import Made, heads_of

D, H, H_KV, D_HEAD = 24, 6, 2, 4
NORMS = {"q": "q_norm", "k": "k_norm"}


class Rotary(nn.Module):
    "Cosines and sines of a base that nobody guesses."

    def __init__(self, base: float = 700.0):
        super().__init__()
        self.register_buffer("inv_freq", base ** -torch.tensor([0.0, 0.5]))

    def forward(self, n: int):
        angles = torch.arange(n)[:, None] * self.inv_freq
        return angles.cos(), angles.sin()


class Grouped(nn.Module):
    "Grouped heads; each step is a method, to be replaced."

    def __init__(self, rotary=None):
        super().__init__()
        width = H_KV * D_HEAD
        self.q_proj, self.out_proj = nn.Linear(D, D), nn.Linear(D, D)
        self.k_proj, self.v_proj = nn.Linear(D, width), nn.Linear(D, width)
        self.rotary_emb = rotary

    def split(self, x):
        return (split_heads(p(x), p.out_features // D_HEAD) for p in self.projections)

    @property
    def projections(self):
        return self.q_proj, self.k_proj, self.v_proj

    def rotate(self, t):
        a, b = t.chunk(2, -1)
        cos, sin = self.rotary_emb(t.shape[-2])
        return torch.cat([a * cos - b * sin, a * sin + b * cos], -1)

    def turn(self, q, k):
        return self.rotate(q), self.rotate(k)

    def values(self, v):
        return v

    def bias(self, n):
        return 0.0

    def cap(self, scores):
        return scores

    def gated(self, context):
        return context

    def forward(self, x):
        q, k, v = self.split(x)
        q, k = self.turn(q, k)
        k, v = (t.repeat_interleave(H // H_KV, 1) for t in (k, self.values(v)))
        past = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril()
        scores = self.cap(q @ k.mT / D_HEAD**0.5 + self.bias(x.shape[1]))
        weights = softmax(scores.masked_fill(~past, -torch.inf), -1)
        return self.out_proj(self.gated(merge_heads(weights @ v)))


def layer_with(rotary=True, base=Grouped, **methods):
    "A layer from a fixed seed, with some methods replaced."
    torch.manual_seed(0)
    return type("Layer", (base,), methods)(Rotary() if rotary else None)


def said(layer, positions=True, **choices):
    "What the comparison with its own weights says: sound, a code, or why there is none."
    contract = Contract(causal=True, n_heads=H, positions=positions, **choices)
    try:
        OWN_WEIGHTS[1].holds(examined(adapt(layer, D, contract)))
    except NotChecked as e:
        return f"not compared: {e}"
    except Broken as e:
        return "+".join(bug.code for bug in e.bugs)
    return "sound"


WRONG = {
    "heads.values_in_other_order": dict(values=lambda self, v: v.flip(1)),
    "rotation.queries_only": dict(turn=lambda self, q, k: (self.rotate(q), k)),
    "layer.unknown": dict(cap=lambda self, scores: scores**3),
}


@pytest.mark.parametrize("code", ["sound", *WRONG])
def test_a_mismatch_beside_a_rotation_that_was_seen_is_a_bug(code):
    "The layer's own table is no reason to compare nothing."
    assert said(layer_with(**WRONG.get(code, {}))) == code


def test_the_verdict_is_a_bug():
    'The report of such a layer is no "not compared" with exit status 2.'
    layer = layer_with(values=lambda self, v: v.flip(1))
    report = report_of(check_self_attention, layer, D, n_heads=H, causal=True, positions=True)
    assert report.verdict == "bug" and report.codes == ["heads.values_in_other_order"], report


def far(self, n):
    "A penalty that nothing in the layer tells."
    distance = torch.arange(n)[:, None] - torch.arange(n)
    return -distance.abs().sqrt()


@pytest.mark.nightly
@pytest.mark.parametrize(
    "values, verdict",
    [
        (lambda self, v: v, "not compared"),
        (lambda self, v: v.flip(1), "layer.unknown"),
        (lambda self, v: v - v.mean(-1, keepdim=True), "layer.unknown"),
    ],
)
def test_one_token_gets_its_value_however_positions_are_told(values, verdict):
    "Scores of an unknown design have no reference, but a single token has."
    layer = layer_with(False, turn=lambda self, q, k: (q, k), bias=far, values=values)
    assert said(layer).startswith(verdict)


@pytest.mark.nightly
def test_a_part_that_learns_is_compared_if_it_is_declared():
    "It is not guessed: the report says what it may be."

    class Learned(Grouped):
        def __init__(self, rotary):
            super().__init__(rotary)
            self.rel_pos = nn.Parameter(torch.randn(H, 64, 64))

        def bias(self, n):
            return self.rel_pos[:, :n, :n]

    none = dict(base=Learned, turn=lambda self, q, k: (q, k))
    found = said(layer_with(False, **none))
    assert found.startswith("not compared") and "such as bias=lambda q, k, rel_pos: …" in found
    bias = lambda q, k, rel_pos: rel_pos[:, : q.shape[-2], : k.shape[-2]]
    assert said(layer_with(False, **none), bias=bias) == "sound"
    cubed = layer_with(False, **none, cap=lambda self, scores: scores**3)
    assert said(cubed, bias=bias) == "layer.unknown"


def sees_back(size):
    "The bias of a window."

    def bias(self, n):
        distance = torch.arange(n)[:, None] - torch.arange(n)
        return torch.zeros(n, n).masked_fill(distance >= size, -torch.inf)

    return bias


@pytest.mark.nightly
@pytest.mark.parametrize("size", [3, 4])
def test_a_window_that_was_not_declared_is_no_bug(size):
    "It may be meant, and the report says what declares it; declared, it is compared."
    found = said(layer_with(bias=sees_back(size)))
    assert found.startswith("not compared") and "declare window=" in found
    assert said(layer_with(bias=sees_back(size)), window=size) == "sound"


@pytest.mark.nightly
@pytest.mark.parametrize(
    "code, cap",
    {
        "scale.head_constant": lambda self, scores: 0.37 * scores,
        "scores.capped": lambda self, scores: 2 * torch.tanh(scores / 2),
    }.items(),
)
def test_a_number_beside_a_rotation_is_named(code, cap):
    assert said(layer_with(cap=cap)) == code


class Capped(Grouped):
    "Its scores are capped, and a setting says so."

    logit_softcap = 3.0

    def cap(self, scores):
        return 3 * torch.tanh(scores / 3)


@pytest.mark.parametrize(
    "cap, verdict",
    [
        (Capped.cap, "sound"),
        (lambda self, scores: 3 * torch.tanh(scores / 3) ** 3, "layer.unknown"),
    ],
)
def test_a_mismatch_beside_a_declared_cap_is_a_bug(cap, verdict):
    layer = layer_with(base=Capped, cap=cap)
    layer.logit_softcap = 3.0
    assert said(layer, softcap=3.0) == verdict


class Normed(Grouped):
    "Queries and keys have a norm over all of their heads, as in OLMo 2."

    def __init__(self, rotary):
        super().__init__(rotary)
        self.q_norm, self.k_norm = nn.RMSNorm(D), nn.RMSNorm(H_KV * D_HEAD)
        for norm in (self.q_norm, self.k_norm):
            nn.init.uniform_(norm.weight, 0.5, 1.5)

    def normed(self, q, k):
        return self.q_norm(q), self.k_norm(k)

    def split(self, x):
        q, k = self.normed(self.q_proj(x), self.k_proj(x))
        return (split_heads(t, t.shape[-1] // D_HEAD) for t in (q, k, self.v_proj(x)))


class PerHead(nn.Module):
    "A norm with weights for each head, (h, 1, d) for heads before positions, or (h, d)."

    def __init__(self, *shape):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(shape) + 0.5)

    def forward(self, t):
        return nn.functional.rms_norm(t, t.shape[-1:]) * self.weight


class NormedHeads(Grouped):
    "Each head has weights of its own in one norm."

    def __init__(self, rotary):
        super().__init__(rotary)
        self.q_norm, self.k_norm = PerHead(H, 1, D_HEAD), PerHead(H_KV, 1, D_HEAD)

    def turn(self, q, k):
        return super().turn(self.q_norm(q), self.k_norm(k))


class NormedHeadsLast(NormedHeads):
    "The same, where heads stand beside features."

    def __init__(self, rotary):
        super().__init__(rotary)
        self.q_norm, self.k_norm = PerHead(H, D_HEAD), PerHead(H_KV, D_HEAD)

    def turn(self, q, k):
        q, k = self.q_norm(q.transpose(1, 2)), self.k_norm(k.transpose(1, 2))
        return Grouped.turn(self, q.transpose(1, 2), k.transpose(1, 2))


@pytest.mark.parametrize(
    "code, normed",
    {
        "sound": Normed.normed,
        "norm.queries_only": lambda self, q, k: (self.q_norm(q), k),
        "norm.keys_only": lambda self, q, k: (q, self.k_norm(k)),
    }.items(),
)
@pytest.mark.parametrize("rotary", [True, False])
def test_norms_over_all_heads_are_compared_beside_grouped_heads(code, normed, rotary):
    "The norm of the keys has as many weights as the keys have features, before heads are repeated."
    methods = {} if rotary else {"turn": lambda self, q, k: (q, k)}
    layer = layer_with(rotary, Normed, normed=normed, **methods)
    assert said(layer, rotary, norms=NORMS) == code


@pytest.mark.parametrize("base", [NormedHeads, NormedHeadsLast])
def test_norms_with_weights_for_each_head_are_compared_beside_grouped_heads(base):
    assert said(layer_with(base=base), norms=NORMS) == "sound"


class NormedLast(Grouped):
    "Queries and keys are normalised after the rotation, as in HunYuan."

    def __init__(self, rotary):
        super().__init__(rotary)
        self.q_norm, self.k_norm = nn.RMSNorm(D_HEAD), nn.RMSNorm(D_HEAD)
        for norm in (self.q_norm, self.k_norm):
            nn.init.uniform_(norm.weight, 0.5, 1.5)

    def turn(self, q, k):
        q, k = super().turn(q, k)
        return self.q_norm(q), self.k_norm(k)


@pytest.mark.nightly
@pytest.mark.parametrize(
    "values, verdict", [(lambda self, v: v, "sound"), (lambda self, v: v.flip(1), "layer.unknown")]
)
def test_norms_may_follow_the_rotation(values, verdict):
    "Both orders are designs; a difference from both is a bug."
    assert said(layer_with(base=NormedLast, values=values), norms=NORMS) == verdict


def test_one_scale_comes_before_two_bugs():
    "0.1 is nearly ln 2 / √48: a softmax of powers of 2 over scores divided by √d_model fits, too."

    def use(layer, x):
        q, k, v = heads_of(layer, x)
        return layer.out_proj(merge_heads(softmax(0.1 * q @ k.mT, -1) @ v))

    parts = {name: nn.Linear(48, 48) for name in ("q_proj", "k_proj", "v_proj", "out_proj")}
    torch.manual_seed(0)
    report = report_of(check_self_attention, Made(use, **parts), 48, n_heads=4, positions=False)
    assert report.codes == ["scale.head_constant"], report


class GateInQueries(Grouped):
    "The projection of queries also gates the context: a number for each head, or each feature."

    groups, each = H, D_HEAD

    def __init__(self, rotary):
        super().__init__(rotary)
        self.q_proj = nn.Linear(D, D + H * self.each)

    def split(self, x):
        parts = self.q_proj(x).unflatten(-1, (self.groups, -1))
        q, gate = (t.flatten(-2) for t in parts.tensor_split([D // self.groups], -1))
        self.gate = gate.repeat_interleave(D_HEAD // self.each, -1)
        return (split_heads(t, t.shape[-1] // D_HEAD) for t in (q, self.k_proj(x), self.v_proj(x)))

    def gated(self, context):
        return context * self.gate.sigmoid()


@pytest.mark.parametrize("groups, each", by_day(product([H, H_KV, 1], [1, D_HEAD]), 3))
def test_a_projection_of_queries_may_gate_the_context(groups, each):
    "Its numbers stand beside the queries of a head, of those that share keys, or of all heads."
    places = dict(groups=groups, each=each)
    assert said(layer_with(base=GateInQueries, **places), n_kv_heads=H_KV) == "sound"
    no_sigmoid = lambda self, context: context * self.gate
    assert said(layer_with(base=GateInQueries, gated=no_sigmoid, **places)) == "gate.no_sigmoid"


def test_a_gate_of_heads_in_queries_is_no_sign_of_other_heads_of_keys():
    layer = layer_with(base=GateInQueries, each=1)
    design = dict(causal=True, n_heads=H, positions=True)
    assert report_of(check_self_attention, layer, D, n_kv_heads=H_KV, **design).ok
    other = report_of(check_self_attention, layer, D, n_kv_heads=3, **design)
    assert "heads.shared" in other.codes


class Fused(Grouped):
    "One projection makes queries, then keys, then values; each number is at its own place."

    def __init__(self, rotary):
        super().__init__(rotary)
        self.qkv_proj = nn.Linear(D, D + 2 * H_KV * D_HEAD)
        del self.q_proj, self.k_proj, self.v_proj

    def parts(self, rows):
        return rows.chunk(2, -1)

    def split(self, x):
        q, rows = self.qkv_proj(x).tensor_split([D], -1)
        return (split_heads(t, t.shape[-1] // D_HEAD) for t in (q, *self.parts(rows)))


def head_by_head(self, rows):
    "Take keys and values of each head, one after the other."
    return (t.flatten(-2) for t in rows.unflatten(-1, (H_KV, 2, -1)).unbind(-2))


@pytest.mark.parametrize("rotary", [True, False])
@pytest.mark.parametrize(
    "code, parts", [("sound", Fused.parts), ("split.fused_order", head_by_head)]
)
def test_heads_of_a_fused_projection_are_taken_in_its_order(code, parts, rotary):
    "Also beside a rotation."
    methods = {} if rotary else {"turn": lambda self, q, k: (q, k)}
    assert said(layer_with(rotary, Fused, parts=parts, **methods), rotary) == code


class NormedFused(nn.Module):
    "Norms over all heads of queries and keys that one projection makes."

    def __init__(self, order):
        super().__init__()
        self.qkv, self.out_proj, self.order = nn.Linear(D, 3 * D), nn.Linear(D, D), order
        self.q_norm, self.k_norm = (nn.LayerNorm(D) for _ in range(2))
        for norm in (self.q_norm, self.k_norm):
            nn.init.uniform_(norm.weight, 0.5, 1.5)

    def forward(self, x):
        parts = dict(zip(self.order, self.qkv(x).chunk(3, -1)))
        normed = self.q_norm(parts["q"]), self.k_norm(parts["k"]), parts["v"]
        q, k, v = (split_heads(t, H) for t in normed)
        return self.out_proj(merge_heads(softmax(q @ k.mT / D_HEAD**0.5, -1) @ v))


@pytest.mark.parametrize("order, code", [("qkv", "sound"), ("qvk", "split.fused_order")])
def test_the_order_of_a_fused_projection_is_named_before_norms_over_all_heads(order, code):
    torch.manual_seed(0)
    report = report_of(check_self_attention, NormedFused(order), D, n_heads=H, norms=NORMS)
    assert [*report.codes[:1], "sound"][0] == code


class Matrices(Rotary):
    "Cosines and sines as matrices that rotate pairs of neighbours, as in Flux."

    def forward(self, n):
        cos, sin = super().forward(n)
        return torch.stack([cos, -sin, sin, cos], -1).unflatten(-1, (2, 2))


class TurnedByMatrices(Grouped):
    "They are multiplied with the pairs."

    def __init__(self, rotary):
        super().__init__(Matrices())

    def rotate(self, t):
        pairs = t.unflatten(-1, (-1, 2))[..., None]
        return (self.rotary_emb(t.shape[-2]) @ pairs).flatten(-3)


@pytest.mark.nightly
@pytest.mark.parametrize("code", ["sound", *WRONG])
def test_a_mismatch_beside_matrices_that_rotate_is_a_bug(code):
    assert said(layer_with(base=TurnedByMatrices, **WRONG.get(code, {}))) == code


class FirstNormed(Grouped):
    "A norm without weights comes before the projections; what it does explains nothing behind."

    def __init__(self, rotary):
        super().__init__(rotary)
        self.first = nn.LayerNorm(D, elementwise_affine=False)

    def forward(self, x):
        return super().forward(self.first(x) * 2 + 0.5)


@pytest.mark.nightly
@pytest.mark.parametrize("code", ["sound", *WRONG])
def test_a_part_that_learns_nothing_explains_nothing_before_the_projections(code):
    assert said(layer_with(base=FirstNormed, **WRONG.get(code, {}))) == code
