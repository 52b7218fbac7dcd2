"""Parts that a layer's author declares are found where they are: bare matrices, modules that give
features before tokens, one weight for several roles, functions that take heads of one width only.
"""

from functools import partial

import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F

from attention_checks import check_cross_attention, check_self_attention
from attention_nb.multi_head_attention import merge_heads, split_heads
from tests.checks.finding import report_of
from tests.checks.test_attend import OWN, SCALE, D, H, Layer, of_layer, softmaxed


@pytest.fixture(autouse=True)
def seeded():
    "The same weights each time."
    torch.manual_seed(0)


class BothWays(nn.Module):
    "One matrix of scores serves x and the memory; each way has values and an end of its own."

    def __init__(self, swapped=False):
        super().__init__()
        self.to_qk, self.to_v, self.to_out = (nn.Linear(D, D) for _ in range(3))
        self.context_to_qk, self.context_to_v, self.context_to_out = (
            nn.Linear(D, D) for _ in range(3)
        )
        self.swapped = swapped

    def forward(self, x, memory):
        told = x if self.swapped else memory
        qk, v = split_heads(self.to_qk(x), H), split_heads(self.to_v(x), H)
        k, of_memory = (
            split_heads(p(t), H) for p, t in ((self.context_to_qk, told), (self.context_to_v, told))
        )
        scores = qk @ k.mT * SCALE
        there, back = scores.softmax(-1) @ of_memory, scores.softmax(-2).mT @ v
        return self.to_out(merge_heads(there)), self.context_to_out(merge_heads(back))


@pytest.mark.parametrize("swapped, codes", [(False, OWN), (True, ["route.reads_x"])])
def test_parts_of_another_output_are_neither_misrouted_nor_unused(swapped, codes):
    roles = {"q": "to_qk", "k": "context_to_qk", "v": "context_to_v", "out": "to_out"}
    assert of_layer(BothWays(swapped), check_cross_attention, roles=roles) == codes


class Wrapped(nn.Module):
    "A convolution of width 1 and its norm, called as one part."

    def __init__(self, d_out):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(D, d_out, 1), nn.BatchNorm2d(d_out)

    def forward(self, x):
        return self.norm(self.conv(x))


class Own(nn.Module):
    "A convolution of width 1 that makes its weight itself."

    def __init__(self, d_out):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(d_out, D, 1, 1))

    def forward(self, x):
        return F.conv2d(x, self.weight / D**0.5)


class Picture(nn.Module):
    "Attention between the pixels of a picture, (b, d, height, width)."

    def __init__(self, part, factor=SCALE):
        super().__init__()
        self.inward, self.outward, self.factor = part(3 * D), part(D), factor

    def forward(self, x):
        q, k, v = (split_heads(t.mT, H) for t in self.inward(x).flatten(2).chunk(3, 1))
        context = merge_heads((q @ k.mT * self.factor).softmax(-1) @ v)
        return self.outward(context.mT.reshape(x.shape))


@pytest.mark.parametrize("part", [Wrapped, Own])
@pytest.mark.parametrize("factor, codes", [(SCALE, OWN), (1.0, ["scale.missing"])])
def test_a_declared_part_may_give_features_before_pixels(part, factor, codes):
    roles = {"qkv": "inward", "out": "outward"}
    assert of_layer(Picture(part, factor), layout="bdhw", roles=roles) == codes


class OneForAll(nn.Module):
    "Queries, keys and values are one product; scores are a sum, as in a graph."

    def __init__(self, dim=-1):
        super().__init__()
        self.theta, self.a = nn.Parameter(torch.randn(D, D)), nn.Parameter(torch.randn(2, D))
        self.dim = dim

    def attend(self, q, k, v):
        scores = F.leaky_relu(q @ self.a[0][:, None] + (k @ self.a[1][:, None]).mT)
        return scores.softmax(self.dim) @ v

    def forward(self, x):
        t = x @ self.theta
        return self.attend(t, t, t)


@pytest.mark.parametrize("dim, codes", [(-1, OWN), (-2, ["softmax.over_queries"])])
def test_one_bare_matrix_may_make_queries_keys_and_values(dim, codes):
    layer, right = OneForAll(dim), OneForAll()
    right.load_state_dict(layer.state_dict())
    roles = dict.fromkeys("qkv", "theta")
    assert of_layer(layer, n_heads=1, roles=roles, attend=right.attend) == codes


class Adds(Layer):
    "Something is added to the context before it is projected, or in the place of a projection."

    def added(self, x):
        return self.near(x.mT).mT

    def forward(self, x):
        q, k, v = self.heads(x)
        return self.out_proj(merge_heads(self.core(q, k, v)) + self.added(x))


def flat(q, k, v):
    return (q @ k.mT).softmax(-1) @ v


@pytest.mark.parametrize("core, codes", [(softmaxed, OWN), (flat, ["scale.missing"])])
def test_what_is_added_to_the_context_is_declared_beside_an_output_projection(core, codes):
    layer = Adds(core, near=nn.Conv1d(D, D, 3, padding=1, groups=D))
    assert of_layer(layer, positions=True, residual="near") == codes


@pytest.mark.parametrize("core, codes", [(softmaxed, OWN), (flat, ["scale.missing"])])
def test_what_is_added_may_be_a_bare_matrix_times_x(core, codes):
    class Bare(Adds):
        def added(self, x):
            return x @ self.beside

    layer = Bare(core, beside=nn.Parameter(torch.randn(D, D)), out_proj=nn.Identity())
    assert of_layer(layer, residual="beside") == codes


class DotProductAttention(nn.Module):
    def __init__(self, more):
        super().__init__()
        self.more = more

    def forward(self, q, k, v):
        return softmaxed(q, k, v) + self.more * k


class StableDropout(nn.Module):
    def forward(self, t):
        return t


@pytest.mark.parametrize("more, codes", [(0, OWN), (1, ["layer.unknown"])])
def test_neither_the_attention_itself_nor_dropout_of_one_s_own_is_another_part(more, codes):
    def core(q, k, v):
        return layer.drop(layer.inner(q, k, v))

    layer = Layer(core, inner=DotProductAttention(more), drop=StableDropout())
    assert of_layer(layer) == codes


class Shortens(Layer):
    "A part makes fewer keys and values before heads are split; it takes even lengths only."

    def shorter(self, t):
        return self.join(F.pad(t, (0, 0, t.shape[1] % 2, 0)))

    def forward(self, x):
        k, v = (split_heads(self.shorter(p(x)), H) for p in (self.k_proj, self.v_proj))
        return self.out_proj(merge_heads(self.core(split_heads(self.q_proj(x), H), k, v)))


class Strided(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(D, D, 2, stride=2)

    def forward(self, x):
        return self.conv(x.mT).mT


@pytest.mark.parametrize("core, codes", [(softmaxed, OWN), (flat, ["scale.missing"])])
def test_keys_and_values_may_be_shortened_by_a_module(core, codes):
    layer = Shortens(core, join=Strided())
    declared = {"positions": True, "shortened": {"kv": "join"}}
    assert of_layer(layer, lengths=[6, 8], **declared) == codes
    report = report_of(check_self_attention, layer, D, n_heads=H, **declared)
    assert report.verdict == "not compared" and "declare lengths=" in report.missing


class ByParts(nn.Module):
    "One weight makes queries of x, and keys and values of the memory, without a call."

    def __init__(self, order="kv"):
        super().__init__()
        self.qkv_proj, self.out_proj, self.order = nn.Linear(D, 3 * D), nn.Linear(D, D), order

    def forward(self, x, memory):
        w, b = self.qkv_proj.weight, self.qkv_proj.bias
        q, both = F.linear(x, w[:D], b[:D]), F.linear(memory, w[D:], b[D:])
        kv = dict(zip(self.order, both.chunk(2, -1)))
        q, k, v = (split_heads(t, H) for t in (q, kv["k"], kv["v"]))
        return self.out_proj(merge_heads(softmaxed(q, k, v)))


@pytest.mark.parametrize("order, codes", [("kv", OWN), ("vk", ["route.keys_values"])])
def test_a_fused_weight_may_be_read_part_by_part_beside_a_memory(order, codes):
    assert of_layer(ByParts(order), check_cross_attention) == codes


class BareByParts(nn.Module):
    "The same with a matrix and a bias that are parameters of their own."

    def __init__(self, scale=SCALE):
        super().__init__()
        self.in_proj_weight = nn.Parameter(torch.randn(3 * D, D) * 0.3)
        self.in_proj_bias = nn.Parameter(torch.randn(3 * D))
        self.out_proj, self.scale = nn.Linear(D, D), scale

    def forward(self, x, memory):
        parts = zip((x, memory, memory), self.in_proj_weight.chunk(3), self.in_proj_bias.chunk(3))
        q, k, v = (split_heads(F.linear(*part), H) for part in parts)
        return self.out_proj(merge_heads(softmaxed(q * self.scale / SCALE, k, v)))


@pytest.mark.parametrize("scale, codes", [(SCALE, OWN), (SCALE**2, ["scale.by_width"])])
def test_a_bare_fused_weight_may_have_a_bias_beside_a_memory(scale, codes):
    assert of_layer(BareByParts(scale), check_cross_attention) == codes


class BareLatent(nn.Module):
    "Bare matrices make queries, keys and values of fewer numbers than x has, which are normed."

    def __init__(self, wide=False):
        super().__init__()
        few, self.wide = D // 2, wide
        self.down_q, self.down_kv = (nn.Parameter(torch.randn(D, few) * 0.3) for _ in range(2))
        self.norm_q, self.norm_kv = nn.LayerNorm(few), nn.LayerNorm(few)
        self.up_q, self.up_kv = (nn.Parameter(torch.randn(few, i * D) * 0.3) for i in (1, 2))
        self.end = nn.Parameter(torch.randn(D, D) * 0.3)

    def forward(self, x):
        q = self.norm_q(x @ self.down_q) @ self.up_q
        k, v = (self.norm_kv(x @ self.down_kv) @ self.up_kv).chunk(2, -1)
        q, k, v = (split_heads(t, H) for t in (q, k, v))
        return merge_heads(softmaxed(q * (SCALE if self.wide else 1), k, v)) @ self.end


@pytest.mark.parametrize("wide, codes", [(False, OWN), (True, ["scale.by_width"])])
def test_bare_matrices_may_read_what_others_made_of_the_input(wide, codes):
    roles = {"q": "up_q", "kv": "up_kv", "out": "end"}
    assert of_layer(BareLatent(wide), roles=roles) == codes


@pytest.mark.parametrize("of_keys, codes", [(True, OWN), (False, ["rotation.queries_only"])])
def test_a_declared_function_may_refuse_heads_of_another_width(of_keys, codes):
    def rotate(x, positions):
        assert x.shape[1] == H, "heads are not split yet"
        return x + positions[:, None]

    def core(q, k, v):
        at = torch.arange(q.shape[-2])
        return softmaxed(rotate(q, at), rotate(k, at) if of_keys else k, v)

    assert of_layer(Layer(core), rotate=rotate) == codes


def test_a_declared_gate_that_is_never_called_is_named():
    assert of_layer(Layer(gate=nn.Linear(D, D)), gate="gate") == ["choice.missing"]


class KeysAreQueries(Layer):
    "One projection makes queries and keys."

    def heads(self, x):
        q, v = (split_heads(project(x), H) for project in (self.q_proj, self.v_proj))
        return q, q, v


def by_distance(q, k, v, dim=-1):
    return (-torch.cdist(q, k) * SCALE).softmax(dim) @ v


@pytest.mark.parametrize(
    "core, declared, codes",
    [
        (softmaxed, {}, OWN),
        (flat, {}, ["scale.missing"]),
        (by_distance, {"attend": by_distance}, OWN),
        (partial(by_distance, dim=-2), {"attend": by_distance}, ["softmax.over_queries"]),
    ],
)
def test_one_part_may_make_queries_and_keys(core, declared, codes):
    layer = KeysAreQueries(core)
    del layer.k_proj
    roles = {"q": "q_proj", "k": "q_proj", "v": "v_proj", "out": "out_proj"}
    assert of_layer(layer, roles=roles, **declared) == codes


class Twofold(Layer):
    "Its values are the sum of two projections, which may be one that is called twice."

    def __init__(self, *uses, read=lambda part, x: part(x)):
        super().__init__(more=nn.Linear(D, D), less=nn.Linear(D, D))
        self.uses, self.read = uses, read

    def heads(self, x):
        q, k, v = super().heads(x)
        return q, k, v + sum(split_heads(self.read(getattr(self, n), x), H) for n in self.uses)


def read_without_a_call(part, x):
    return F.linear(x, part.weight, part.bias)


@pytest.mark.parametrize(
    "layer, codes, shown",
    [
        (Twofold("more", "less"), OWN, ""),
        (Twofold("more", "more"), ["project.unused"], "less is never called, and more is called 2"),
        (Twofold("more", "less", read=read_without_a_call), [""], ""),
    ],
)
def test_a_part_that_attend_asks_for_and_that_is_not_used_is_named(layer, codes, shown):
    def attended(q, k, v, more, less):
        return softmaxed(q, k, v + split_heads(more, H) + split_heads(less, H))

    report = report_of(check_self_attention, layer, D, n_heads=H, attend=attended, strict=False)
    assert (report.codes[:1] or [report.compared]) == codes
    assert shown in "".join(f.example for f in report.failed)


@pytest.mark.parametrize(
    "factor, codes",
    [(1, OWN), (SCALE**-1, ["scale.missing"]), (SCALE**-0.5, ["scale.one_side"])],
)
def test_a_wrong_scale_is_named_beside_attention_of_another_kind(factor, codes):
    near = torch.randn(64, D // H)

    def attend(q, k, v):
        return ((q @ k.mT + q @ near[: k.shape[-2]].mT) * SCALE).softmax(-1) @ v

    layer = Layer(lambda q, k, v: attend(factor * q, k, v))
    report = report_of(check_self_attention, layer, D, n_heads=H, positions=True, attend=attend)
    assert (report.codes or [report.compared]) == codes and not report.choices


@pytest.mark.parametrize("sign, codes", [(1, OWN), (-1, ["bias.transposed"])])
def test_distances_that_are_counted_the_other_way_are_named_in_a_bias_of_queries(sign, codes):
    table = torch.randn(127, D // H)

    def bias(q, k, sign=1):
        at = torch.arange(q.shape[-2])
        return torch.einsum("bhid,ijd->bhij", q, table[sign * (at[:, None] - at) + 63])

    def core(q, k, v):
        return (q @ k.mT * SCALE + bias(q, k, sign)).softmax(-1) @ v

    of_vectors = lambda q, k: bias(q, k)
    assert of_layer(Layer(core), positions=True, bias=of_vectors) == codes


class Asks(Layer):
    "A part that reads x decides how fast scores decay, and another what is added to the weights."

    def decayed(self, q, k, decay):
        at = torch.arange(q.shape[-2])
        return q @ k.mT * SCALE - (at[:, None] - at).abs() * decay.mT[..., None].sigmoid()

    def forward(self, x):
        q, k, v = self.heads(x)
        weights = self.core(self.decayed(q, k, self.decay(x)))
        return self.out_proj(merge_heads((weights + self.unary(x).softmax(1).mT[..., None, :]) @ v))


def asking(core):
    return Asks(core, decay=nn.Linear(D, H), unary=nn.Linear(D, H))


@pytest.mark.parametrize("dim, codes", [(-1, OWN), (-2, ["softmax.over_queries"])])
def test_declared_functions_may_be_given_what_parts_give(dim, codes):
    def attend(q, k, v, decay, unary):
        scores = layer.decayed(q, k, decay)
        return (scores.softmax(-1) + unary.softmax(1).mT[..., None, :]) @ v

    layer = asking(lambda scores: scores.softmax(dim))
    assert of_layer(layer, positions=True, attend=attend) == codes


@pytest.mark.parametrize("factor, codes", [(SCALE, OWN), (1.0, ["scale.missing"])])
def test_a_declared_bias_may_be_given_what_a_part_gives(factor, codes):
    class Biased(Layer):
        def forward(self, x):
            q, k, v = self.heads(x)
            scores = q @ k.mT * factor + self.decay(x).mT[:, :, None]
            return self.out_proj(merge_heads(scores.softmax(-1) @ v))

    def bias(q, k, decay):
        return decay.mT[:, :, None].expand(*q.shape[:-1], -1)

    assert of_layer(Biased(decay=nn.Linear(D, H)), bias=bias) == codes


@pytest.mark.parametrize("sign, codes", [(1, OWN), (-1, ["layer.attend"])])
def test_attend_may_start_from_a_part_where_nothing_makes_queries(sign, codes):
    class Single(nn.Module):
        def __init__(self):
            super().__init__()
            self.into, self.out_proj = nn.Linear(D, 2 * D + 1), nn.Linear(D, D)

        def forward(self, x):
            score, k, v = self.into(x).split([1, D, D], -1)
            return self.out_proj(v.relu() * (k * (sign * score).softmax(1)).sum(1, keepdim=True))

    def attend(q, k, v, into):
        score, k, v = into.split([1, D, D], -1)
        return (v.relu() * (k * score.softmax(1)).sum(1, keepdim=True))[:, None]

    declared = {"projects": False, "roles": {"out": "out_proj"}, "attend": attend}
    assert of_layer(Single(), n_heads=1, **declared) == codes


@pytest.mark.parametrize("fill, codes", [(-torch.inf, OWN), (-10.0, ["mask.leaks_if_low"])])
def test_a_faint_number_for_minus_infinity_is_found_beside_a_memory(fill, codes):
    torch.manual_seed(2)

    class Asked(Layer):
        def forward(self, x, memory, mask=None):
            q = split_heads(self.q_proj(x), H)
            k, v = (split_heads(p(memory), H) for p in (self.k_proj, self.v_proj))
            scores = q @ k.mT * SCALE
            scores = scores if mask is None else scores.masked_fill(~mask[:, None, None], fill)
            return self.out_proj(merge_heads(scores.softmax(-1) @ v))

    mask = ("mask", "allowed")
    assert of_layer(Asked(), check_cross_attention, mask=mask) == codes


def test_a_layer_whose_queries_are_keys_as_well_may_be_meant_and_is_compared():
    class Resampler(Layer):
        def forward(self, x, memory):
            both = torch.cat([memory, x], 1)
            q, k, v = (
                split_heads(p(t), H)
                for p, t in ((self.q_proj, x), (self.k_proj, both), (self.v_proj, both))
            )
            return self.out_proj(merge_heads(softmaxed(q, k, v)))

    report = report_of(check_cross_attention, Resampler(), D, n_heads=H, strict=False)
    assert report.choices == ['skip=["order.queries"]']
    skipped = report_of(
        check_cross_attention, Resampler(), D, n_heads=H, strict=False, skip=["order.queries"]
    )
    assert skipped.compared == "its own weights"


class RmsNorm(nn.Module):
    "A norm of one's own, whose statistic may be of another dimension, or its epsilon too large."

    def __init__(self, dim=-1, eps=1e-6):
        super().__init__()
        self.weight, self.dim, self.eps = nn.Parameter(torch.randn(D // H)), dim, eps

    def forward(self, t):
        squares = t.pow(2).mean(self.dim, keepdim=True)
        return t * squares.add(self.eps).rsqrt() * self.weight


class Normed(Layer):
    "Queries and keys pass norms of their own, or what they are given in their place."

    def __init__(self, norm_q=RmsNorm.__call__, norm_k=RmsNorm.__call__, **norm):
        super().__init__(q_norm=RmsNorm(**norm), k_norm=RmsNorm(**norm))
        self.norms = norm_q, norm_k

    def heads(self, x):
        q, k, v = super().heads(x)
        norm_q, norm_k = self.norms
        return norm_q(self.q_norm, q), norm_k(self.k_norm, k), v


NORMS = {"q": "q_norm", "k": "k_norm"}


def left_out(norm, t):
    return t


def without_factors(norm, t):
    return F.rms_norm(t, t.shape[-1:], eps=1e-6)


def by_factors_alone(norm, t):
    return norm.weight * t


@pytest.mark.parametrize(
    "norms, code",
    [
        ((RmsNorm.__call__, left_out), "norm.queries_only"),
        ((left_out, left_out), "choice.missing"),
        ((RmsNorm.__call__, without_factors), "project.unused"),
        ((RmsNorm.__call__, by_factors_alone), "layer.step"),
    ],
)
def test_the_step_of_a_declared_norm_that_is_left_out_is_told(norms, code):
    assert of_layer(Normed(*norms), norms=NORMS)[0] == code


def test_a_declared_norm_in_whose_place_another_one_is_used_is_named():
    layer = Normed()
    layer.norms = RmsNorm.__call__, lambda _, t: layer.q_norm(t)
    assert of_layer(layer, norms=NORMS) == ["project.unused"]


def unit(norm, t):
    return F.normalize(t, dim=-1) * norm.weight


@pytest.mark.parametrize(
    "norms, codes",
    [
        ((unit, unit), OWN),
        ((unit, by_factors_alone), ["norm.queries_only"]),
        ((by_factors_alone, unit), ["norm.keys_only"]),
        ((by_factors_alone, by_factors_alone), ["choice.missing"]),
    ],
)
def test_the_factor_of_a_norm_that_is_left_out_may_stay(norms, codes):
    declared = {"q": "q_norm.weight", "k": "k_norm.weight"}
    assert of_layer(Normed(*norms), norms=declared, scale=SCALE) == codes


@pytest.mark.parametrize(
    "norm, codes",
    [
        (Normed(), []),
        (Normed(dim=-2), ["norm.mixes"]),
        (Normed(eps=0.1), ["norm.epsilon"]),
    ],
)
def test_what_is_inside_a_declared_norm_is_tried(norm, codes):
    assert report_of(check_self_attention, norm, D, n_heads=H, norms=NORMS).codes[:1] == codes


def test_a_norm_of_all_vectors_together_is_taken_as_it_is():
    layer = Normed()
    layer.q_norm = nn.BatchNorm2d(H)
    report = report_of(check_self_attention, layer, D, n_heads=H, norms=NORMS)
    assert "q_norm is taken as it is" in str(report)


class LearnsKeys(Normed):
    "A learned key and value stand beside those of tokens, before the keys are normalised."

    def __init__(self, *norms, pad=(1, 0)):
        super().__init__(*norms)
        self.null_kv, self.pad = nn.Parameter(torch.randn(2, D // H)), pad

    def heads(self, x):
        q, k, v = Layer.heads(self, x)
        learned = (row.expand(len(x), H, 1, -1) for row in self.null_kv)
        k, v = (torch.cat([one, t], -2) for one, t in zip(learned, (k, v)))
        return self.norms[0](self.q_norm, q), self.norms[1](self.k_norm, k), v

    def forward(self, x, mask=None):
        if mask is None:
            return super().forward(x)
        q, k, v = self.heads(x)
        allowed = F.pad(mask, self.pad, value=True)[:, None, None]
        scores = (q @ k.mT * SCALE).masked_fill(~allowed, -torch.inf)
        return self.out_proj(merge_heads(scores.softmax(-1) @ v))


@pytest.mark.parametrize("pad, codes", [((1, 0), OWN), ((0, 1), ["mask.shifted"])])
def test_a_mask_that_is_padded_at_the_wrong_end_is_named(pad, codes):
    declared = {"norms": NORMS, "prefix": {"kv": "null_kv"}, "mask": ("mask", "allowed")}
    assert of_layer(LearnsKeys(pad=pad), **declared) == codes


@pytest.mark.parametrize(
    "norms, codes", [((unit, unit), OWN), ((unit, by_factors_alone), ["norm.queries_only"])]
)
def test_learned_keys_lack_the_norm_that_all_keys_lack(norms, codes):
    declared = {"q": "q_norm.weight", "k": "k_norm.weight"}
    more = {"scale": SCALE, "prefix": {"kv": "null_kv"}}
    assert of_layer(LearnsKeys(*norms), norms=declared, **more) == codes


class AsksAsItIs(nn.Module):
    "The queries go in as they are; keys and values are projected at once."

    def __init__(self, scale=SCALE, swapped=False):
        super().__init__()
        self.to_kv, self.to_out = nn.Linear(D, 2 * D), nn.Linear(D, D)
        self.scale, self.swapped = scale, swapped

    def forward(self, x, memory):
        k, v = (split_heads(t, H) for t in self.to_kv(memory).chunk(2, -1)[:: 1 - 2 * self.swapped])
        return self.to_out(merge_heads((split_heads(x, H) @ k.mT * self.scale).softmax(-1) @ v))


@pytest.mark.parametrize("roles", [{"q": None}, {"q": None, "kv": "to_kv"}])
@pytest.mark.parametrize(
    "layer, codes",
    [
        (AsksAsItIs(), OWN),
        (AsksAsItIs(1.0), ["scale.missing"]),
        (AsksAsItIs(swapped=True), ["split.keys_values"]),
    ],
)
def test_queries_may_go_in_as_they_are(layer, codes, roles):
    assert of_layer(layer, check_cross_attention, roles=roles) == codes
    undeclared = report_of(check_cross_attention, layer, D, n_heads=H)
    assert undeclared.verdict == "not compared" and "roles={'q': …}" in undeclared.missing


class Joint(nn.Module):
    "Text and image have projections and norms of their own, and attend to both."

    def __init__(self):
        super().__init__()
        self.qkv = nn.ModuleList(nn.Linear(D, 3 * D) for _ in range(2))
        self.out = nn.ModuleList(nn.Linear(D, D) for _ in range(2))
        self.q_norm, self.k_norm = (
            nn.ModuleList(OverAllHeads(D // H) for _ in range(2)) for _ in range(2)
        )

    def queries(self, t, i):
        return self.q_norm[i](t)

    def keys(self, t, i):
        return self.k_norm[i](t)

    def forward(self, text, image):
        parts = []
        for i, x in enumerate((text, image)):
            q, k, v = (split_heads(t, H) for t in self.qkv[i](x).chunk(3, -1))
            parts.append((self.queries(q, i), self.keys(k, i), v))
        q, k, v = (torch.cat(both, -2) for both in zip(*parts))
        context = merge_heads(softmaxed(q, k, v))
        return [f(t) for f, t in zip(self.out, context.tensor_split([text.shape[1]], 1))]


def both_streams(layer, x):
    "Give the first two tokens as text, the others as an image."
    return torch.cat(layer(x[:, :2], x[:, 2:]), 1)


JOINT = {
    "roles": {"qkv": ("qkv.0", "qkv.1"), "out": ("out.0", "out.1")},
    "norms": {role: (f"{role}_norm.0", f"{role}_norm.1") for role in "qk"},
}


class OverAllHeads(nn.Module):
    "A norm with a weight for each feature of each head, over one number of them or over two."

    def __init__(self, *sizes):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(sizes) + 0.5)

    def forward(self, t):  # (b, n, h, d)
        over = tuple(range(-self.weight.ndim, 0))
        return t / t.square().mean(over, keepdim=True).sqrt() * self.weight


def by_heads(norms, t, i):
    return norms[i](t.transpose(1, 2)).transpose(1, 2)


@pytest.mark.parametrize(
    "sizes, normed",
    [((D // H,), lambda norms, t, i: norms[i](t)), ((H, D // H), by_heads)],
)
@pytest.mark.parametrize(
    "which, codes", [((0, 1), OWN), ((0, None), ["project.unused"]), ((0, 0), ["project.unused"])]
)
def test_parts_of_the_tokens_may_have_projections_and_norms_of_their_own(
    sizes, normed, which, codes
):
    layer = Joint()
    layer.queries = lambda t, i: normed(layer.q_norm, t, i)
    layer.keys = lambda t, i: t if which[i] is None else normed(layer.k_norm, t, which[i])
    layer.q_norm, layer.k_norm = (
        nn.ModuleList(OverAllHeads(*sizes) for _ in range(2)) for _ in range(2)
    )
    skip = ["parameter.unused"]
    assert of_layer(layer, call=both_streams, lengths=range(3, 20), skip=skip, **JOINT) == codes


def test_one_projection_may_be_called_on_each_part_of_the_tokens():
    layer = Joint()
    for both in (layer.qkv, layer.out, layer.q_norm, layer.k_norm):
        both[1] = both[0]
    roles, norms = {"qkv": "qkv.0", "out": "out.0"}, {r: f"{r}_norm.0" for r in "qk"}
    design = dict(call=both_streams, lengths=range(3, 20), skip=["parameter.tied"])
    assert of_layer(layer, roles=roles, norms=norms, **design) == OWN


def test_norms_of_parts_of_the_tokens_stand_beside_such_projections():
    with pytest.raises(ValueError, match="expected as many as make parts of the tokens"):
        of_layer(Layer(), norms={"q": ("q_proj", "k_proj")})


def in_a_way_of_its_own(x, positions):
    "Rotate the first two features of each head by an angle of its own at each position."
    h = torch.arange(x.shape[1])[:, None]
    angle = (positions + 1.5) ** 0.5 * (h + 1)
    a, b = x[..., 0], x[..., 1]
    both = [a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()]
    return torch.cat([torch.stack(both, -1), x[..., 2:]], -1)


@pytest.mark.parametrize(
    "core, codes",
    [
        (lambda q, k, v: (turned(q), turned(k), v), OWN),
        (lambda q, k, v: (turned(q), k, v), ["rotation.queries_only"]),
    ],
)
def test_a_declared_rotation_tells_the_order_of_a_memory(core, codes):
    layer = Layer(lambda *qkv: softmaxed(*core(*qkv)))
    layer.heads = lambda both: [split_heads(p(t), H) for p, t in zip(layer.children(), both)]
    call = lambda m, x, memory: m((x, memory, memory))
    found = of_layer(layer, check_cross_attention, call=call, rotate=in_a_way_of_its_own)
    assert found == codes


def turned(t):
    return in_a_way_of_its_own(t, torch.arange(t.shape[-2]))


@pytest.mark.parametrize(
    "q, k, more, codes",
    [
        (1, 1, 0, OWN),
        (-1, -1, 0, ["rotation.backwards"]),
        (1, -1, 0, ["rotation.opposite"]),
        (-1, 1, 0, ["rotation.opposite"]),
        (1, 1, 1, ["rotation.offset"]),
    ],
)
def test_what_is_wrong_with_a_declared_rotation_is_named(q, k, more, codes):
    "It need not be one of the usual rotations."

    def turned(t, sign, more=0):
        at = torch.arange(t.shape[-2]) + more
        rotated = in_a_way_of_its_own(t[..., [0, 1] if sign > 0 else [1, 0]], at)
        return torch.cat([rotated if sign > 0 else rotated.flip(-1), t[..., 2:]], -1)

    core = lambda *qkv: softmaxed(turned(qkv[0], q), turned(qkv[1], k, more), qkv[2])
    layer = Layer(core)
    assert of_layer(layer, rotate=in_a_way_of_its_own, positions=True) == codes


@pytest.mark.nightly
@pytest.mark.parametrize("which", [0, 1])
def test_a_step_that_differs_is_told_for_queries_or_for_keys(which):
    def once_wrong(t):
        right = turned(t)
        b = right[..., 1:2] - 2 * t[..., 1:2] * cosine(t)
        return torch.cat([right[..., :1], b, right[..., 2:]], -1)

    def cosine(t):
        h, at = torch.arange(t.shape[1])[:, None], torch.arange(t.shape[-2])
        return ((at + 1.5) ** 0.5 * (h + 1)).cos()[..., None]

    ways = [turned, turned]
    ways[which] = once_wrong
    layer = Layer(lambda q, k, v: softmaxed(ways[0](q), ways[1](k), v))
    report = report_of(check_self_attention, layer, D, n_heads=H, rotate=in_a_way_of_its_own)
    assert report.codes == ["layer.step"]
    assert f"in call {which + 1} of 2: take that step" in report.failed[0].bug


def of_unit(q, k):
    return F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).mT


@pytest.mark.parametrize(
    "factor, code",
    [(torch.exp, OWN), (lambda t: t, ["layer.step"]), (torch.ones_like, ["choice.missing"])],
)
@pytest.mark.parametrize("fused", ["", "qkv"])
def test_the_exponential_of_a_learned_scale_may_be_forgotten(factor, code, fused):
    "The weight of a fused projection may be read, and the projection never called."
    layer = Layer(fused=fused, logit_scale=nn.Parameter(torch.tensor([1.0, 1.5, 2.0])))
    times = lambda: factor(layer.logit_scale)[:, None, None]
    layer.core = lambda q, k, v: (of_unit(q, k) * times()).softmax(-1) @ v
    if fused:
        read = lambda x: F.linear(x, layer.qkv.weight, layer.qkv.bias).chunk(3, -1)
        layer.heads = lambda x: [split_heads(t, H) for t in read(x)]
    norms, roles = {"q": "l2", "k": "l2"}, {"qkv": "qkv", "out": "out_proj"} if fused else None
    declared = dict(norms=norms, scale=lambda logit_scale: logit_scale.exp(), roles=roles)
    assert of_layer(layer, **declared) == code


def test_beside_a_declared_scale_no_usual_one_is_guessed():
    "Half of q kᵀ is 1/√8 rounded up, by chance."
    layer = Layer(lambda q, k, v: softmaxed(0.5 / SCALE * q, k, v))
    report = report_of(check_self_attention, layer, D, n_heads=H, scale=0.7)
    assert report.codes == ["scale.head_constant"]
    assert "not attention with scale= of its own" in report.failed[0].example
