"""Attention of another kind than softmax(q kᵀ) v, and layers that are called or built in unusual
ways, are compared as far as their authors declare them.
"""

import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F

from attention_checks import (
    Misused,
    check_attention,
    check_cross_attention,
    check_self_attention,
)
from attention_nb.multi_head_attention import merge_heads, split_heads
from conftest import by_day
from tests.checks.finding import report_of
from tests.checks.made import SCALE, D, H, Layer, attend, softmaxed


@pytest.fixture(autouse=True)
def seeded():
    "The same weights each time."
    torch.manual_seed(0)


def linear(q, k, v):
    "Linear attention: no weights are made."
    q, k = F.elu(q) + 1, F.elu(k) + 1
    return q @ (k.mT @ v) / (q @ k.sum(-2)[..., None])


def by_weights(q, k, v):
    "The same by its weights, as its author may declare it."
    weights = (F.elu(q) + 1) @ (F.elu(k) + 1).mT
    return weights / weights.sum(-1, keepdim=True) @ v


def past_only(q, k, v, allowed):
    "The same over what a token may attend to."
    weights = (F.elu(q) + 1) @ (F.elu(k) + 1).mT * allowed
    return weights / weights.sum(-1, keepdim=True) @ v


def over_features(q, k, v):
    "Attention between features (XCA), not between tokens."
    return (v @ (q.mT @ k * 0.3).softmax(-1).mT).contiguous()


def added(q, k, v):
    "Queries are added to the context, as in the Set Transformer."
    return q + softmaxed(q, k, v)


def of_layer(layer, check=check_self_attention, n_heads=H, **declared):
    "The report of a layer, by its code or by what it was compared with."
    report = report_of(check, layer, D, n_heads=n_heads, **declared)
    return report.codes[:1] or [report.compared]


OWN = ["its own weights"]


@pytest.mark.parametrize(
    "core, attend",
    [(linear, by_weights), (over_features, over_features), (added, added)],
)
def test_what_a_layer_does_instead_of_a_softmax_is_compared(core, attend):
    assert of_layer(Layer(core), attend=attend) == OWN
    wrong = Layer(lambda q, k, v: core(q, k, v) + k)
    assert of_layer(wrong, attend=attend) == ["layer.attend"]


def elu_of_queries(q, k, v):
    weights = (F.elu(q) + 1) @ (k + 1).mT
    return weights / weights.sum(-1, keepdim=True) @ v


def over_rows(q, k, v):
    return (v @ (q.mT @ k * 0.3).softmax(-2).mT).contiguous()


def rooted(q, k, v):
    return softmaxed(ROOT(q), ROOT(k), v)


def root_of_queries(q, k, v):
    return softmaxed(ROOT(q), k, v)


def beside_ones(q, k, v):
    return softmaxed(q, torch.cat([k, torch.ones_like(k)], -2), torch.cat([v, 2 * v], -2))


def ones_beside(q, k, v):
    return softmaxed(q, torch.cat([torch.ones_like(k), k], -2), torch.cat([v, 2 * v], -2))


def moved(q, k, v, ways=(1, 1, 0)):
    sign, power, which = ways
    return softmaxed(sign * (q - MOVES[which]), k * MOVES[1] ** power, v)


def moved_otherwise(*ways):
    return lambda q, k, v: moved(q, k, v, ways)


def plainly_moved(q, k, v):
    return softmaxed(q - MOVES[0], k * MOVES[1], v)


MOVES = torch.randn(D // H), torch.randn(D // H)
ROOT = nn.RMSNorm(D // H)
STEPS = [
    (by_weights, elu_of_queries, "elu is left out"),
    (rooted, root_of_queries, "rms_norm is left out"),
    (added, softmaxed, "add is left out"),
    (plainly_moved, moved_otherwise(-1, 1, 0), "sub has the other sign"),
    (plainly_moved, moved_otherwise(1, -1, 0), "div stands for mul"),
    (plainly_moved, moved_otherwise(1, 1, 1), "sub is given another tensor of that shape"),
    (beside_ones, ones_beside, "cat joins in the other order"),
]


@pytest.mark.parametrize("attend, core, what", by_day(STEPS, 3))
def test_the_step_in_which_a_layer_differs_from_attend_is_told(attend, core, what):
    report = report_of(check_self_attention, Layer(core), D, n_heads=H, attend=attend)
    assert report.codes == ["layer.step"]
    assert what in report.failed[0].bug


@pytest.mark.parametrize("attend, core, what", [STEPS[0], STEPS[-1]])
def test_the_step_in_which_a_function_differs_from_attend_is_told(attend, core, what):
    report = report_of(check_attention, core, mask=False, attend=attend)
    assert report.codes[0] == "layer.step"
    assert what in report.failed[0].bug


def test_the_step_in_which_a_layer_differs_from_its_bias_is_told():
    def bias(h, n_q, n_k):
        at = torch.arange(n_k)
        return (at[:, None] - at).abs().float().sqrt().neg().expand(h, -1, -1)

    def unrooted(q, k, v):
        at = torch.arange(k.shape[-2])
        return (q @ k.mT * SCALE - (at[:, None] - at).abs()).softmax(-1) @ v

    assert of_layer(Layer(unrooted), positions=True, bias=bias) == ["layer.step"]


def test_a_declared_function_that_is_not_what_the_layer_does_is_not_run_too_often():
    calls = []

    def attend(q, k, v):
        calls.append(1)
        return by_weights(q, k, v)

    unlike = Layer(lambda q, k, v: linear(q, k, v).flip(-2))
    assert of_layer(unlike, positions=True, attend=attend) == ["layer.attend"]
    assert len(calls) < 4000


def test_what_it_does_instead_may_be_told_what_is_allowed():
    def causal(q, k, v):
        return past_only(q, k, v, torch.ones(q.shape[-2], k.shape[-2]).tril())

    assert of_layer(Layer(causal), causal=True, attend=past_only) == OWN


def test_bugs_beside_it_are_named():
    class Viewed(Layer):
        def forward(self, x):
            return self.out_proj(self.core(*self.heads(x)).reshape(x.shape))

    assert of_layer(Viewed(linear), attend=by_weights) == ["merge.viewed"]


def test_without_it_the_report_asks_for_it():
    report = report_of(check_self_attention, Layer(linear), D, n_heads=H)
    assert report.codes == ["layer.unknown"] and report.choices == ["attend=…"]


def test_a_function_that_is_no_softmax_attention_is_compared():
    report = report_of(check_attention, linear, mask=False, attend=by_weights)
    assert report.verdict == "sound" and report.compared
    assert report_of(check_attention, linear, mask=False, attend=softmaxed).codes
    sines = lambda q, k, v: (q @ k.mT).sin().softmax(-1) @ v
    report = report_of(check_attention, sines, mask=False)
    assert {f.declare for f in report.failed if "values.unknown" in f.codes} == {"attend=…"}


def off_by_one(q, k, v):
    scores = q @ k.mT * q.shape[-1] ** -0.5
    largest = scores.amax(-1, keepdim=True).clamp(min=0)
    e = (scores - largest).exp()
    return e / (e.sum(-1, keepdim=True) + (-largest).exp()) @ v


def by_definition(q, k, v):
    "The same, which overflows."
    e = (q @ k.mT * q.shape[-1] ** -0.5).exp()
    return e / (1 + e.sum(-1, keepdim=True)) @ v


@pytest.mark.parametrize("cut, codes", [(1e9, []), (60, ["softmax.cut"])])
def test_a_definition_may_overflow_where_the_code_does_not(cut, codes):
    code = lambda q, k, v: off_by_one((q * (cut / q.abs().max()).clamp(max=1)), k, v)
    assert report_of(check_attention, code, attend=by_definition).codes == []
    assert report_of(check_attention, code, attend=off_by_one).codes == codes


def test_what_attend_says_is_not_guessed_at():
    layer = Layer(lambda q, k, v: (q @ k.mT * layer.tau).softmax(-1) @ v)
    layer.tau = nn.Parameter(torch.rand(H, 1, 1) + 0.5)
    unscaled = lambda q, k, v: (q @ k.mT).softmax(-1) @ v
    declared = dict(n_heads=H, strict=False)
    report = report_of(check_self_attention, layer, D, attend=unscaled, **declared)
    assert report.verdict == "not compared"
    warm = lambda q, k, v, tau: (q @ k.mT * tau).softmax(-1) @ v
    assert of_layer(layer, attend=warm) == OWN


def test_what_stands_for_a_softmax_need_not_make_weights():
    far = lambda q, k, v: v.mean(-2, keepdim=True) - 0.1 * (q @ (k.mT @ v))
    assert report_of(check_attention, far, mask=False, attend=far).verdict == "sound"


def test_a_parameter_may_scale_the_context():
    class Faint(Layer):
        def forward(self, x):
            return self.out_proj(self.gamma * merge_heads(self.core(*self.heads(x))))

    layer = Faint(gamma=nn.Parameter(torch.tensor([0.3])))
    assert of_layer(layer, value_scale="gamma") == OWN
    forgets = Layer(gamma=nn.Parameter(torch.tensor([0.3])))
    assert of_layer(forgets, value_scale="gamma") == ["choice.missing"]


def turned(x, sin, cos):
    a, b = x[..., ::2], x[..., 1::2]
    return torch.stack([a * cos - b * sin, b * cos + a * sin], -1).flatten(-2)


@pytest.mark.parametrize("sign, codes", [(1, OWN), (-1, ["rotation.backwards"])])
def test_sines_may_be_handed_over_before_cosines(sign, codes):
    class Turns(Layer):
        def forward(self, x, sin, cos):
            q, k, v = self.heads(x)
            q, k = turned(q, sign * sin, cos), turned(k, sign * sin, cos)
            return self.out_proj(merge_heads(softmaxed(q, k, v)))

    def call(m, x):
        angles = torch.arange(x.shape[1])[:, None] * 10000.0 ** -(torch.arange(4) / 4)
        return m(x, angles.sin(), angles.cos())

    assert of_layer(Turns(), positions=True, call=call) == codes


class Steps(Layer):
    "It decodes: each call takes one token, and keeps its key and value."

    def forward(self, x, kept, turned=False):
        q, k, v = self.heads(x)
        kept.append((k, v))
        k, v = (torch.cat(t, -2) for t in zip(*(kept[::-1] if turned else kept)))
        return self.out_proj(merge_heads(softmaxed(q, k.flip(-2) if turned else k, v)))


@pytest.mark.nightly
@pytest.mark.parametrize("wrong", [False, True])
def test_a_layer_that_takes_one_token_at_a_time_is_compared(wrong):
    def call(m, x):
        kept = []
        return torch.cat([m(x[:, i : i + 1], kept, wrong) for i in range(x.shape[1])], 1)

    found = of_layer(Steps(), causal=True, call=call)
    assert (found == OWN) != wrong and found != ["project.twice"]


def test_a_layer_that_attends_both_ways_does_not_project_twice():
    class Both(nn.Module):
        def __init__(self):
            super().__init__()
            self.q_proj, self.k_proj, self.v_proj, self.out_proj = (
                nn.Linear(D, D) for _ in range(4)
            )
            self.ffn = nn.Sequential(nn.Linear(D, D), nn.LayerNorm(D), nn.GELU(), nn.Linear(D, D))

        def one(self, x, y):
            q, k, v = (split_heads(p, H) for p in (self.q_proj(x), self.k_proj(y), self.v_proj(y)))
            return x + self.ffn(self.out_proj(merge_heads(softmaxed(q, k, v))))

        def forward(self, x, y):
            return self.one(x, y), self.one(y, x)

    report = report_of(check_cross_attention, Both(), D, n_heads=H, strict=False)
    assert report.verdict != "bug" and "Error" not in str(report), report


def test_two_modules_may_be_given_one_parameter():
    layer = Layer()
    layer.k_proj.weight = layer.q_proj.weight
    assert of_layer(layer) == OWN
    layer.v_proj = layer.k_proj
    assert "parameter.tied" in report_of(check_self_attention, layer, D, n_heads=H).codes


def test_a_mask_that_is_switched_off_can_be_declared():
    class Masked(Layer):
        def forward(self, x, attn_mask=None):
            return super().forward(x)

    report = report_of(check_self_attention, Masked(), D, n_heads=H)
    assert report.codes == ["mask.ignored"] and report.choices == ["mask=False"]
    assert of_layer(Masked(), mask=False) == OWN
    told = report_of(check_self_attention, Masked(), D, n_heads=H, mask=("attn_mask", "blocked"))
    assert told.codes == ["mask.ignored"] and not told.choices


def test_a_norm_that_refuses_one_value_is_not_the_layer_s_fault():
    class Image(Layer):
        def forward(self, x):
            return super().forward(self.norm(x.mT).mT)

    assert of_layer(Image(norm=nn.GroupNorm(D, D))) == OWN


def test_weights_too_faint_to_square_are_tried():
    layer = Layer()
    layer.q_proj.weight.data *= 1e-30
    assert of_layer(layer) == OWN


@pytest.mark.parametrize("factor, codes", [(SCALE, OWN), (1.0, ["scale.missing"])])
def test_a_scale_that_a_declared_bias_lacks_as_well_is_named(factor, codes):
    table = torch.randn(H, 64, 64)

    def core(q, k, v):
        n = q.shape[-2]
        return ((q @ k.mT + table[:, :n, :n]) * factor).softmax(-1) @ v

    bias = lambda h, n_q, n_k: SCALE * table[:, :n_q, :n_k]
    assert of_layer(Layer(core), positions=True, bias=bias) == codes


def test_averaged_heads_can_be_declared():
    def core(q, k, v):
        return (q @ k.mT * SCALE).softmax(-1).mean(1, keepdim=True) @ v

    code = "heads.weights_averaged"
    report = report_of(check_self_attention, Layer(core), D, n_heads=H)
    assert report.codes == [code] and report.choices == [f'skip=["{code}"]']
    assert of_layer(Layer(core), skip=[code]) == OWN


def test_heads_of_keys_are_named_beside_a_soft_cap_and_a_rotation():
    class Grouped(nn.Module):
        def __init__(self):
            super().__init__()
            self.q_proj, self.out_proj = nn.Linear(32, 32), nn.Linear(32, 32)
            self.k_proj, self.v_proj = nn.Linear(32, 16), nn.Linear(32, 16)

        def forward(self, x, sin, cos):
            q, k, v = self.q_proj(x), self.k_proj(x), self.v_proj(x)
            q, k, v = split_heads(q, 4), split_heads(k, 2), split_heads(v, 2)
            q, k = turned(q, sin, cos), turned(k, sin, cos)
            k, v = k.repeat(1, 2, 1, 1), v.repeat_interleave(2, 1)
            scores = 5 * torch.tanh(q @ k.mT * SCALE / 5)
            future = torch.ones(x.shape[1], x.shape[1]).triu(1).bool()
            return self.out_proj(
                merge_heads(scores.masked_fill(future, -torch.inf).softmax(-1) @ v)
            )

    def call(m, x):
        angles = torch.arange(x.shape[1])[:, None] * 10000.0 ** -(torch.arange(4) / 4)
        return m(x, angles.sin(), angles.cos())

    declared = {"n_heads": 4, "n_kv_heads": 2, "causal": True, "positions": True, "softcap": 5.0}
    report = report_of(check_self_attention, Grouped(), 32, call=call, **declared)
    assert report.codes == ["split.groups_of_keys"]


class Masked(Layer):
    "A mask of keys, (b, n), which may be of another axis, or a bias that may be subtracted."

    def __init__(self, hide, empty):
        super().__init__()
        self.hide, self.empty = hide, empty

    def forward(self, x, mask=None):
        q, k, v = self.heads(x)
        scores = q @ k.mT * SCALE
        scores = scores if mask is None else self.hide(scores, mask)
        weights = scores.softmax(-1).nan_to_num(self.empty)
        return self.out_proj(merge_heads(weights @ v))


@pytest.mark.parametrize("empty", [0.0, torch.nan])
@pytest.mark.parametrize(
    "hide, meaning, codes",
    [
        (lambda s, m: s.masked_fill(m[:, None, None], -torch.inf), "blocked", OWN),
        (lambda s, m: s.masked_fill(m[:, None, :, None], -torch.inf), "blocked", ["mask.axis"]),
        (lambda s, m: s + m, "bias", OWN),
        (lambda s, m: s - m, "bias", ["mask.padding"]),
    ],
)
def test_what_is_wrong_with_a_declared_mask_is_named(hide, meaning, codes, empty):
    assert of_layer(Masked(hide, empty), mask=("mask", meaning)) == codes


def test_a_layer_without_projections_is_compared():
    class Bare(nn.Module):
        def forward(self, x):
            heads = split_heads(x, H)
            return merge_heads(softmaxed(heads, heads, heads))

    assert of_layer(Bare(), projects=False) == OWN


@pytest.mark.parametrize("of_keys, codes", [(True, OWN), (False, ["norm.queries_only"])])
def test_a_norm_without_weights_is_declared(of_keys, codes):
    def core(q, k, v):
        q, k = (
            F.rms_norm(t, t.shape[-1:]) if normed else t for t, normed in ((q, 1), (k, of_keys))
        )
        return softmaxed(q, k, v)

    assert of_layer(Layer(core), norms={"q": "rms", "k": "rms"}) == codes


def test_what_attend_reads_is_told_and_a_bug_in_it_is_found():
    class Mixed(Layer):
        def __init__(self, factor):
            super().__init__(
                self.mixed, pool=nn.AvgPool1d(1), share=nn.Parameter(torch.rand(D // H))
            )
            self.factor = factor

        def mixed(self, q, k, v):
            context = softmaxed(q, k, v) + self.factor * self.share * v
            return self.pool(context.flatten(0, 1)).view_as(context)

    right, wrong = Mixed(1), Mixed(2)
    attend = lambda q, k, v: softmaxed(q, k, v) + right.share * v
    wrong.load_state_dict(right.state_dict())
    assert of_layer(right, attend=attend) == OWN
    assert of_layer(wrong, attend=attend) == ["layer.step"]


@pytest.mark.parametrize("scale, codes", [(SCALE, OWN), (1.0, ["scale.missing"])])
def test_a_bug_before_a_residual_is_named_without_an_output_projection(scale, codes):
    use = lambda m, x, q, k, v: x + attend(q, k, v, scale)
    assert of_layer(Layer(use=use, out="")) == codes


@pytest.mark.parametrize("scale, codes", [(SCALE, OWN), (1.0, ["scale.missing"])])
@pytest.mark.parametrize(
    "end, declared",
    [
        (lambda x, context: (x + context).relu(), {}),
        (lambda x, context: (x + context).relu(), {"residual": "x"}),
        (lambda x, context: x + context.relu(), {}),
    ],
)
def test_an_activation_may_stand_beside_a_residual_without_a_projection(
    end, declared, scale, codes
):
    use = lambda m, x, q, k, v: end(x, attend(q, k, v, scale))
    assert of_layer(Layer(use=use, out=""), activation="relu", **declared) == codes


def test_a_part_that_may_be_a_choice_is_no_bug_before_a_residual():
    adds = Layer(
        use=lambda m, x, *qkv: x + m.gamma * attend(*qkv, SCALE),
        out="",
        gamma=nn.Parameter(torch.tensor([0.3])),
    )
    assert of_layer(adds, strict=False) == [""]
    assert of_layer(adds, value_scale="gamma") == OWN


class Fused(nn.Module):
    "One projection of all three, and how its output is read and heads are merged."

    def __init__(self, read=None, merge=merge_heads):
        super().__init__()
        self.qkv, self.out_proj = nn.Linear(D, 3 * D), nn.Linear(D, D)
        self.read, self.merge = read or by_roles, merge

    def forward(self, x):
        q, k, v = self.read(self.qkv(x))
        return self.out_proj(self.merge(softmaxed(q, k, v)))


def by_roles(qkv):
    return qkv.unflatten(-1, (3, H, -1)).permute(2, 0, 3, 1, 4)


def over_sequences(heads):
    b, h, n, d = heads.shape
    return heads.flatten(0, 1).reshape(n, b, h * d).transpose(0, 1)


@pytest.mark.parametrize(
    "layer, codes",
    [
        (Fused(), OWN),
        (Fused(merge=over_sequences), ["merge.batch"]),
    ],
)
def test_reshapes_that_mix_positions_are_told_first(layer, codes):
    assert of_layer(layer) == codes


def test_a_fused_weight_may_have_bare_biases_of_queries_and_values():
    class Biased(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv, self.out_proj = nn.Linear(D, 3 * D, bias=False), nn.Linear(D, D)
            self.q_bias, self.v_bias = (nn.Parameter(torch.randn(D)) for _ in range(2))

        def forward(self, x):
            bias = torch.cat([self.q_bias, torch.zeros_like(self.q_bias), self.v_bias])
            q, k, v = by_roles(F.linear(x, self.qkv.weight, bias))
            return self.out_proj(merge_heads(softmaxed(q, k, v)))

    assert of_layer(Biased()) == OWN


@pytest.mark.parametrize("scale, codes", [(SCALE, OWN), (1.0, ["scale.missing"])])
def test_a_wrong_scale_beside_declared_sinks_is_named(scale, codes):
    class Sinks(Layer):
        def __init__(self):
            super().__init__(sinks=nn.Parameter(torch.randn(H)))

        def forward(self, x):
            q, k, v = self.heads(x)
            sinks = self.sinks[:, None, None].expand(*q.shape[:-1], 1)
            weights = torch.cat([q @ k.mT * scale, sinks], -1).softmax(-1)[..., :-1]
            return self.out_proj(merge_heads(weights @ v))

    assert of_layer(Sinks(), sinks="sinks") == codes


class Windows(nn.Module):
    "Attention in windows of four tokens, which are moved; `last`: projected in their places."

    def __init__(self, scale=SCALE, merge=merge_heads, moved=1, last=False, residual=0):
        super().__init__()
        self.norm, self.qkv, self.proj = nn.LayerNorm(D), nn.Linear(D, 3 * D), nn.Linear(D, D)
        self.far = nn.Parameter(torch.randn(H, 4, 4))
        self.scale, self.merge, self.moved = scale, merge, moved
        self.last, self.residual = last, residual

    def forward(self, x):
        b, n, d = x.shape
        first, last = (nn.Identity(), self.proj) if self.last else (self.proj, nn.Identity())
        windows = self.norm(x).roll(-self.moved, 1).reshape(-1, 4, d)
        q, k, v = by_roles(self.qkv(windows))
        weights = (q @ k.mT * self.scale + self.far).softmax(-1)
        tokens = first(self.merge(weights @ v)).reshape(b, n, d).roll(self.moved, 1)
        return last(tokens) + self.residual * x

    def bias(self, h, n_q, n_k):
        at = (torch.arange(n_k) - self.moved) % n_k
        apart = at[:, None] // 4 != at // 4
        table = self.far[:, (at % 4)[:, None], at % 4]
        return table.masked_fill(apart, -torch.inf)


def merged_by_view(heads):
    return heads.reshape(len(heads), heads.shape[2], -1)


@pytest.mark.parametrize(
    "layer, codes",
    [
        (Windows(), OWN),
        (Windows(moved=0), OWN),
        (Windows(1.0), ["scale.missing"]),
        (Windows(merge=merged_by_view), ["merge.viewed"]),
        (Windows(merge=merged_by_view, moved=0), ["merge.viewed"]),
        (Windows(last=True), OWN),
        (Windows(last=True, residual=1), OWN),
        (Windows(1.0, last=True), ["scale.missing"]),
        (Windows(merge=merged_by_view, last=True), ["merge.viewed"]),
    ],
)
def test_a_bias_in_the_order_of_tokens_fits_a_layer_that_cuts_windows(layer, codes):
    assert of_layer(layer, positions=True, lengths=8, bias=layer.bias) == codes


def test_a_bias_of_minus_infinity_tells_what_is_seen():
    layer, other = Windows(), Windows()
    assert of_layer(layer, lengths=8, bias=layer.bias) == OWN
    assert of_layer(layer, lengths=8, bias=other.bias) == ["mask.narrow"]
    unscaled = Windows(1.0)
    assert of_layer(unscaled, lengths=8, bias=unscaled.bias) == ["scale.missing"]


@pytest.mark.parametrize("hides, codes", [(True, OWN), (False, ["bias.ignored"])])
def test_a_bias_of_minus_infinity_tells_what_is_seen_within_a_window(hides, codes):
    "Odd tokens are seen by themselves alone."

    def odd(h, n_q, n_k):
        others = (torch.arange(n_k) % 2 == 1) & ~torch.eye(n_q, n_k, dtype=torch.bool)
        return torch.zeros(h, n_q, n_k).masked_fill(others, -torch.inf)

    def core(q, k, v):
        n = k.shape[-2]
        scores = q @ k.mT * SCALE + (odd(H, n, n) if hides else 0)
        near = torch.ones(n, n, dtype=torch.bool).tril().triu(-2)
        return scores.masked_fill(~near, -torch.inf).softmax(-1) @ v

    assert of_layer(Layer(core), causal=True, window=3, bias=odd) == codes


def test_a_small_image_may_leave_kernels_of_a_convolution_unused():
    class OfImages(nn.Module):
        def __init__(self):
            super().__init__()
            self.to_qkv = nn.Conv2d(D, 3 * D, 3, padding=1)
            self.to_out = nn.Conv2d(D, D, 1)

        def forward(self, x):
            q, k, v = (t.flatten(2).unflatten(1, (H, -1)).mT for t in self.to_qkv(x).chunk(3, 1))
            return self.to_out(softmaxed(q, k, v).mT.flatten(1, 2).view_as(x))

    report = report_of(
        check_self_attention, OfImages(), D, n_heads=H, layout="bdhw", positions=True, strict=False
    )
    assert "parameter.part" not in report.codes


def of_length(q, k, v, power=0.2):
    "Scores grow with the number of keys."
    return softmaxed(q * k.shape[-2] ** power, k, v)


def test_a_scale_that_differs_between_lengths_is_no_constant():
    report = report_of(check_attention, lambda q, k, v: of_length(q, k, v))
    assert "scale.constant" not in report.codes and "values.unknown" in report.codes
    assert report_of(check_attention, lambda q, k, v: of_length(q, k, v), attend=of_length).ok
    half = report_of(check_attention, lambda q, k, v: of_length(q, k, v, 0))
    assert half.codes == ["scale.constant"]


class Latent(Layer):
    "Learned vectors ask, as many at any length."

    def __init__(self):
        super().__init__(softmaxed)
        self.latents = nn.Parameter(torch.randn(1, 6, D))

    def forward(self, x):
        q, _, _ = self.heads(self.latents.expand(len(x), -1, -1))
        _, k, v = self.heads(x)
        return self.out_proj(merge_heads(self.core(q, k, v)))


def test_learned_queries_are_no_axes_in_the_wrong_order():
    with pytest.raises(Misused, match="as many at any length"):
        check_self_attention(Latent(), D, n_heads=H)
