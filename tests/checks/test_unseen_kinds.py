"""Kinds of layers that code from other fields showed: what their authors declare is compared, and
a bug beside it is named.
"""

import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F

from attention_checks import check_attention, check_cache, check_self_attention
from attention_nb.kv_cache import KVCache
from attention_nb.multi_head_attention import MultiHeadAttention, merge_heads, split_heads
from tests.checks.finding import codes_of, report_of
from tests.checks.test_attend import (
    OWN,
    SCALE,
    D,
    H,
    Layer,
    of_layer,
    over_features,
    over_rows,
    softmaxed,
)
from tests.checks.test_declared_parts import flat


@pytest.fixture(autouse=True)
def seeded():
    "The same weights each time."
    torch.manual_seed(0)


class Near(Layer):
    "Learned keys of distances, which attend= asks for by the name of the parameter."

    def __init__(self, dim=-1):
        super().__init__(near=nn.Parameter(torch.randn(41, D // H)))
        self.core = lambda q, k, v: self.attend(q, k, v, self.near, dim)

    def attend(self, q, k, v, near, dim=-1):
        at = torch.arange(q.shape[-2])
        rows = near[(at[:, None] - at).clamp(-20, 20) + 20]
        scores = q @ k.mT + torch.einsum("bhid,ijd->bhij", q, rows)
        return (scores * SCALE).softmax(dim) @ v


@pytest.mark.parametrize("dim, codes", [(-1, OWN), (-2, ["softmax.over_queries"])])
def test_a_declared_function_may_ask_for_a_parameter(dim, codes):
    layer = Near(dim)
    declared = lambda q, k, v, near: layer.attend(q, k, v, near)
    assert of_layer(layer, attend=declared) == codes


SHIFT = torch.sin(1.3 * torch.arange(64))


def shifted(q, k, v):
    return (q @ k.mT * SCALE + SHIFT[: k.shape[-2]]).softmax(-1) @ v


def shifted_back(q, k, v):
    return (q @ k.mT * SCALE - SHIFT[: k.shape[-2]]).softmax(-1) @ v


@pytest.mark.parametrize(
    "attend, core, code",
    [
        (over_features, over_rows, "softmax.dim"),
        (shifted, softmaxed, "bias.ignored"),
        (shifted, shifted_back, "bias.subtracted"),
    ],
)
def test_a_step_of_attend_that_is_a_known_bug_has_its_code(attend, core, code):
    assert of_layer(Layer(core), attend=attend, positions=True) == [code]


class Pairs(Layer):
    "Every pair of tokens of a sequence gives a number for each head."

    def __init__(self, sign=1):
        super().__init__(to_pairs=nn.Linear(D, H))
        self.sign = sign

    def forward(self, x):
        q, k, v = self.heads(x)
        pairs = self.to_pairs(torch.sin(3 * (x[:, :, None] - 2 * x[:, None])))
        scores = q @ k.mT * SCALE + self.sign * pairs.movedim(-1, 1)
        return self.out_proj(merge_heads(scores.softmax(-1) @ v))


@pytest.mark.parametrize("sign, codes", [(1, OWN), (-1, ["bias.subtracted"])])
def test_a_bias_may_be_of_each_sequence(sign, codes):
    bias = lambda q, k, to_pairs: to_pairs.movedim(-1, 1)
    assert of_layer(Pairs(sign), bias=bias) == codes


def test_what_is_declared_may_tell_positions():
    bias = lambda h, n, m: torch.sin(torch.arange(h * n * m) * 1.7).view(h, n, m)
    core = lambda q, k, v: (q @ k.mT * SCALE + bias(H, *q.shape[-2:-1] * 2)).softmax(-1) @ v
    assert of_layer(Layer(core), bias=bias) == OWN
    assert of_layer(Layer(core), bias=bias, positions=False) == ["order.matters"]


class OneForEach(Layer):
    "Each head has projections of its own, in lists."

    def __init__(self, core):
        super().__init__(core)
        for name in ("first", "second", "third"):
            setattr(self, name, nn.ModuleList(nn.Linear(D, D // H) for _ in range(H)))
        del self.q_proj, self.k_proj, self.v_proj

    def heads(self, x):
        parts = (self.first, self.second, self.third)
        return [torch.stack([project(x) for project in part], 1) for part in parts]


@pytest.mark.parametrize("core, codes", [(softmaxed, OWN), (flat, ["scale.missing"])])
def test_a_role_may_be_a_list_of_projections(core, codes):
    roles = {"q": "first", "k": "second", "v": "third", "out": "out_proj"}
    assert of_layer(OneForEach(core), roles=roles) == codes


class OnAGrid(Layer):
    "Keys and values are made of a picture that a convolution makes smaller."

    def forward(self, x):
        side = int(x.shape[1] ** 0.5)
        fewer = self.smaller(x.mT.unflatten(2, (side, side))).flatten(2).mT
        q, k, v = (split_heads(p(t), H) for p, t in self.given(x, fewer))
        return self.out_proj(merge_heads(self.core(q, k, v)))

    def given(self, x, fewer):
        return (self.q_proj, x), (self.k_proj, fewer), (self.v_proj, fewer)


@pytest.mark.parametrize("core, codes", [(softmaxed, OWN), (flat, ["scale.missing"])])
@pytest.mark.parametrize("wrap", [False, True])
def test_tokens_may_be_shortened_before_they_are_projected(wrap, core, codes):
    convolution = nn.Conv2d(D, D, 2, stride=2)
    layer = OnAGrid(core, smaller=nn.Sequential(convolution) if wrap else convolution)
    assert of_layer(layer, lengths=(4, 16, 36), shortened={"kv": "smaller"}) == codes


def turned(x, at, sign=-1):
    angles = at[:, None] * torch.tensor([1.0, 0.3, 0.1, 0.02])
    a, b = x[..., 1::2], x[..., ::2]
    cos, sin = angles.cos(), angles.sin()
    return torch.stack([b * cos + sign * a * sin, a * cos + b * sin], -1).flatten(-2)


@pytest.mark.parametrize("sign, codes", [(-1, OWN), (1, ["rotation.sign"])])
def test_a_declared_rotation_without_its_minus_sign_is_named(sign, codes):
    def core(q, k, v):
        at = torch.arange(q.shape[-2])
        return softmaxed(turned(q, at, sign), turned(k, at, sign), v)

    assert of_layer(Layer(core), rotate=turned) == codes


@pytest.mark.parametrize("factor, codes", [(0.3, OWN), (1.0, ["choice.missing"])])
def test_a_factor_of_the_context_may_follow_its_norm(factor, codes):
    core = lambda q, k, v: factor * layer.normed(softmaxed(q, k, v))
    layer = Layer(core, normed=nn.RMSNorm(D // H))
    assert of_layer(layer, norms={"out": "normed"}, value_scale=0.3) == codes


@pytest.mark.parametrize("activation", ["gelu", "out_proj.0"])
@pytest.mark.parametrize("core, codes", [(softmaxed, OWN), (flat, ["scale.missing"])])
def test_an_activation_may_be_a_part_of_the_output_projection(activation, core, codes):
    layer = Layer(core, out_proj=nn.Sequential(nn.GELU(), nn.Linear(D, D)))
    roles = {"q": "q_proj", "k": "k_proj", "v": "v_proj", "out": "out_proj"}
    assert of_layer(layer, roles=roles, activation=activation) == codes


def test_a_mask_of_queries_is_not_taken_for_one_of_keys():
    def attention(q, k, v, q_mask=None, kv_mask=None):
        hidden = None if kv_mask is None else q_mask[..., None] & kv_mask[:, :, None]
        return F.scaled_dot_product_attention(q, k, v, attn_mask=hidden)

    assert codes_of(check_attention, attention) == []


def test_a_cache_that_takes_few_tokens_is_not_asked_for_more():
    layer = MultiHeadAttention(D, H)

    def step(x, cache):
        if cache.longest + x.shape[1] > 50:
            raise RuntimeError("the mask has 50 rows")
        return layer(x, cache=cache)

    cache = lambda b, n_max: KVCache(b, H, n_max, D // H)
    full = lambda x: layer(x, causal=True)
    assert codes_of(check_cache, step, D, cache, full=full) == []


class OfChannels(Layer):
    "Features stand before positions, as convolutions give them."

    def __init__(self, views=(), merge=lambda c: c.mT.flatten(1, 2)):
        super().__init__()
        self.views, self.merge = views, merge

    def forward(self, x):
        q, k, v = (self.split(role, x) for role in "qkv")
        return self.out_proj(self.merge(softmaxed(q, k, v)).mT)

    def split(self, role, x):
        t = getattr(self, f"{role}_proj")(x).mT.contiguous()
        b, _, n = t.shape
        return t.view(b, H, n, -1) if role in self.views else t.view(b, H, -1, n).mT


@pytest.mark.parametrize(
    "layer, codes",
    [
        (OfChannels(), OWN),
        (OfChannels("v"), ["split.viewed_v"]),
        (OfChannels("qkv"), ["split.viewed"]),
        (OfChannels(merge=lambda c: c.reshape(len(c), D, -1)), ["merge.viewed"]),
    ],
)
def test_heads_of_channels_are_split_and_merged_before_positions(layer, codes):
    assert of_layer(layer) == codes


@pytest.mark.parametrize("seen, codes", [(5, []), (4, ["window.size"]), (6, ["window.size"])])
def test_a_window_as_long_as_the_usual_trial_is_exceeded(seen, codes):
    def core(q, k, v):
        at = torch.arange(q.shape[-2])
        back = at[:, None] - at
        hidden = (back < 0) | (back >= seen)
        scores = turned(q, at) @ turned(k, at).mT * SCALE
        return scores.masked_fill(hidden, -torch.inf).softmax(-1) @ v

    declared = {"n_heads": H, "causal": True, "window": 5, "rotate": turned}
    assert codes_of(check_self_attention, Layer(core), D, **declared) == codes


def test_a_mask_that_only_attend_has_is_said_to_be_left_out():
    def attend(q, k, v):
        past = torch.ones(q.shape[-2], q.shape[-2]).tril()
        past[:, 6::7] = 0
        return (q @ k.mT * SCALE).masked_fill(past == 0, -torch.inf).softmax(-1) @ v

    def leaks(q, k, v):
        every = torch.ones(q.shape[-2], q.shape[-2])
        every[:, 6::7] = 0
        return (q @ k.mT * SCALE).masked_fill(every == 0, -torch.inf).softmax(-1) @ v

    declared = {"n_heads": H, "causal": True, "attend": attend}
    assert codes_of(check_self_attention, Layer(attend), D, **declared) == []
    report = report_of(check_self_attention, Layer(leaks), D, **declared)
    assert report.codes == ["layer.step", "mask.leaks"]
    assert "if tril is left out" in report.bugs[0]


def test_a_part_that_is_named_project_is_the_output_projection():
    class Projects(nn.Module):
        def __init__(self, core):
            super().__init__()
            self.pre = nn.Sequential(nn.Linear(D, 3 * D))
            self.project = nn.Sequential(nn.Linear(D, D))
            self.core = core

        def forward(self, x):
            q, k, v = self.pre(x).unflatten(-1, (3, H, -1)).permute(2, 0, 3, 1, 4)
            return self.project(merge_heads(self.core(q, k, v)))

    assert of_layer(Projects(softmaxed)) == OWN
    assert of_layer(Projects(flat)) == ["scale.missing"]


ROWS = torch.randn(128, 32)


def two_terms(content=SCALE, position=SCALE):
    "Attend by what keys hold and by how far they are, each with a scale."

    def attend(q, k, v):
        apart = torch.arange(q.shape[-2])[:, None] - torch.arange(k.shape[-2])
        far = torch.einsum("bhid,ijd->bhij", q, ROWS[apart + 64, : q.shape[-1]])
        return (q @ k.mT * content + far * position).softmax(-1) @ v

    return attend


@pytest.mark.parametrize("content, position", [(3 * SCALE, SCALE), (SCALE, 3 * SCALE)])
def test_a_term_of_the_scores_with_another_scale_is_named(content, position):
    layer = Layer(two_terms(content, position))
    report = report_of(check_self_attention, layer, D, n_heads=H, attend=two_terms())
    assert report.codes == ["scale.term"] and "3 times" in report.failed[0].bug
    assert of_layer(Layer(two_terms()), attend=two_terms()) == OWN
    declared = {"mask": False, "attend": two_terms()}
    assert codes_of(check_attention, two_terms(content, position), **declared)[0] == "scale.term"


def in_two_parts(position=SCALE):
    "The scores of the last two features, which are rotated, have a scale of their own."

    def attend(q, k, v):
        of_content = q[..., :-2] @ k[..., :-2].mT * SCALE
        return (of_content + q[..., -2:] @ k[..., -2:].mT * position).softmax(-1) @ v

    return attend


def last_turned(x, at):
    a, b = x[..., -2], x[..., -1]
    cos, sin = at.cos(), at.sin()
    return torch.cat([x[..., :-2], torch.stack([a * cos - b * sin, b * cos + a * sin], -1)], -1)


class Latent(Layer):
    "Keys and values are made of a narrow vector; beside it lies the rotated key of all heads."

    def __init__(self, core=in_two_parts(), share=lambda t: t[:, None].expand(-1, H, -1, -1)):
        super().__init__(core, down=nn.Linear(D, 7), up=nn.Linear(5, H * 14))
        del self.k_proj, self.v_proj
        self.share = share

    def heads(self, x):
        latent, shared = self.down(x).split((5, 2), -1)
        k, v = split_heads(self.up(latent), H).split((6, 8), -1)
        q, at = split_heads(self.q_proj(x), H), torch.arange(x.shape[1])
        return last_turned(q, at), last_turned(torch.cat([k, self.share(shared)], -1), at), v


def shared_by_view(t):
    return t.repeat(1, 1, H).view(len(t), H, -1, 2)


@pytest.mark.parametrize(
    "layer, codes",
    [
        (Latent(), OWN),
        (Latent(in_two_parts(2 * SCALE)), ["scale.term"]),
        (Latent(share=shared_by_view), ["split.shared_viewed"]),
    ],
)
def test_what_is_declared_of_latent_attention_reads_its_parts_as_the_layer_joins_them(layer, codes):
    roles = {"q": "q_proj", "latent": "down", "kv": "up", "out": "out_proj"}
    assert of_layer(layer, roles=roles, rotate=last_turned, attend=in_two_parts()) == codes
