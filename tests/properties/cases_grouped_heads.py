"""The cases of `grouped_heads`: how to draw each function's arguments, and what is right."""

import math
from typing import Any

import attention_nb as nb
import torch
import torch.nn as nn
from hypothesis import strategies as st
from torch import Tensor
from tests.properties.common import (
    Case,
    args,
    divisors,
    dtypes,
    floats,
    masks,
    number_in,
    qkv,
    refuse,
    right_softmax,
    scales,
    shapes_of,
    shares,
    sizes,
    whole,
)


@st.composite
def grouped_layers(draw):
    h = draw(st.sampled_from([1, 2, 4, 6]))
    g, d = draw(divisors(h)), draw(sizes)
    torch.manual_seed(draw(st.integers(0, 99)))
    layer = nb.MultiHeadAttention(h * draw(sizes), h, draw(st.booleans()), draw(shares), g, d)
    dtype = draw(st.sampled_from([torch.float32, torch.float64]))
    return {"layer": layer.to(dtype).train(draw(st.booleans())), "n_kv_heads": draw(divisors(g))}


def grouped_facts(layer: nn.Module) -> tuple[Any, ...]:
    state = {n: t.detach().float() for n, t in layer.state_dict().items()}
    return (
        state,
        {str(p.dtype) for p in layer.parameters()},
        layer.n_heads,
        layer.n_kv_heads,
        layer.dropout,
        layer.training,
    )


def right_pooling(layer, n_kv_heads):
    "Row by row: the mean of the rows that stand at its place in the heads of its group."
    refuse(isinstance(layer, nb.MultiHeadAttention))
    whole(n_kv_heads)
    refuse(layer.n_kv_heads % n_kv_heads == 0)
    state, *facts = grouped_facts(layer)
    d, size = layer.q_proj.out_features // layer.n_heads, layer.n_kv_heads // n_kv_heads
    for name in [name for name in state if name[0] in "kv"]:
        rows = [
            [state[name][(g * size + i) * d + j] for i in range(size)]
            for g in range(n_kv_heads)
            for j in range(d)
        ]
        state[name] = torch.stack([sum(group) / size for group in rows])
    facts[2] = n_kv_heads
    return state, *facts


def right_cap(scores, cap):
    refuse(isinstance(scores, Tensor) and scores.is_floating_point())
    refuse(isinstance(cap, (int, float)) and 0 < number_in(cap) < math.inf)
    return cap - 2 * cap / ((2 * scores / cap).exp() + 1)


@st.composite
def sunk_scores(draw):
    lead, (h, n_q, n_k), dtype = (
        draw(st.lists(sizes, max_size=1)),
        [draw(sizes) for _ in range(3)],
        draw(dtypes),
    )
    shape = (*lead, h, n_q, n_k)
    return {
        "scores": draw(floats(shape, dtype)),
        "sinks": draw(floats((h,), dtype)),
        "mask": draw(masks(shape)),
    }


def right_sink(scores, sinks, mask=None):
    refuse(
        isinstance(scores, Tensor)
        and scores.is_floating_point()
        and scores.ndim >= 3
        and scores.shape[-1] > 0
    )
    refuse(
        isinstance(sinks, Tensor)
        and sinks.is_floating_point()
        and sinks.shape == scores.shape[-3:-2]
    )
    mask = torch.ones_like(scores, dtype=torch.bool) if mask is None else mask
    refuse(mask.dtype == torch.bool)
    e = scores.exp() * mask.expand(scores.shape)
    return e / (e.sum(-1, keepdim=True) + sinks.exp()[:, None, None])


def with_sinks(a):
    layer = nb.SinkAttention(len(a["sinks"]))
    layer.sinks.data = a.pop("sinks")
    return {"self": layer.to(a["q"].dtype)} | a


def right_with_sinks(self, **a):
    return right_other(**a, sinks=self.sinks.detach().double())


@st.composite
def normed_heads(draw):
    (h, d), dtype = (draw(sizes), draw(sizes)), draw(dtypes)
    return {
        # with a small eps the gradient of two nearly equal numbers is a difference of large ones
        "self": nb.WholeWidth(nn.LayerNorm(h * d, eps=0.1)).to(dtype),
        "x": draw(floats((*draw(st.lists(sizes, max_size=1)), h, draw(sizes), d), dtype)),
    }


def right_whole_width(self, x):
    refuse(x.ndim >= 3 and x.shape[-3] * x.shape[-1] == self.norm.normalized_shape[0])
    centred = x - x.mean((-3, -1), keepdim=True)
    return centred / (centred.pow(2).mean((-3, -1), keepdim=True) + self.norm.eps).sqrt()


@st.composite
def sunk_qkv(draw):
    args = draw(qkv(scale=scales).filter(lambda a: a["q"].ndim > 2))
    return args | {"sinks": draw(floats(args["q"].shape[-3:-2], args["q"].dtype))}


def right_other(q, k, v, mask=None, scale=None, cap=None, sinks=None):
    "Attention with a cap or with sinks."
    refuse(
        q.shape[:-2] == k.shape[:-2] == v.shape[:-2]
        and q.dtype == k.dtype == v.dtype == torch.float64
    )
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else number_in(scale)
    s = torch.einsum("...id,...jd->...ij", q, k) * scale
    w = right_softmax(right_cap(s, cap), -1, mask) if sinks is None else right_sink(s, sinks, mask)
    return torch.einsum("...ij,...jd->...id", w, v), w


CASES = {
    "to_grouped": Case(
        lambda **a: grouped_facts(nb.to_grouped(**a)),
        grouped_layers(),
        right_pooling,
        also={"n_kv_heads": "n_heads"},
    ),
    "soft_cap": Case(
        nb.soft_cap,
        dtypes.flatmap(
            lambda t: args(
                scores=floats((2, 3), t, (1.0, 30.0)), cap=st.sampled_from([1.0, 5, 50.0])
            )
        ),
        right_cap,
        "scores",
        finite=True,
    ),
    "sink_softmax": Case(
        nb.sink_softmax,
        sunk_scores(),
        right_sink,
        "scores",
        also={"scores": "sinks"},
        finite=True,
        widens=True,
    ),
    "capped_attention": Case(
        nb.capped_attention,
        qkv(cap=st.sampled_from([1.0, 5, 50.0]), scale=scales),
        right_other,
        "q",
        finite=True,
        widens=True,
    ),
    "SinkAttention": Case(
        lambda n_heads: tuple(nb.SinkAttention(n_heads).sinks.shape),
        args(n_heads=sizes),
        lambda n_heads: (whole(n_heads), (n_heads,))[1],
    ),
    "SinkAttention.forward": Case(
        nb.SinkAttention.forward,
        sunk_qkv().map(with_sinks),
        right_with_sinks,
        "q",
        also=dict.fromkeys("qkv", "sinks"),
        fixed=("self",),
        finite=True,
    ),
    "WholeWidth": Case(
        lambda norm: shapes_of(nb.WholeWidth(norm)),
        args(norm=sizes.map(nn.LayerNorm)),
        lambda norm: (
            refuse(callable(norm) and not isinstance(norm, type))
            or {f"norm.{n}": tuple(p.shape) for n, p in getattr(norm, "named_parameters", list)()}
        ),
    ),
    "WholeWidth.forward": Case(
        nb.WholeWidth.forward, normed_heads(), right_whole_width, "x", fixed=("self",), finite=True
    ),
    "NormAfter": Case(
        lambda positions, q_norm, k_norm: (
            nb.NormAfter(positions, q_norm, k_norm).k_norm is (k_norm or q_norm)
        ),
        args(
            positions=st.just(nb.RotaryEmbedding(2)),
            q_norm=st.just(torch.tanh),
            k_norm=st.sampled_from([None, torch.sin]),
        ),
        lambda positions, q_norm, k_norm=None: (
            refuse(
                all(
                    callable(part) and not isinstance(part, type)
                    for part in (positions, q_norm, q_norm if k_norm is None else k_norm)
                )
            ),
            True,
        )[1],
    ),
    "NormAfter.forward": Case(
        nb.NormAfter.forward,
        args(
            self=st.just(nb.NormAfter(nb.RotaryEmbedding(4), torch.tanh)),
            x=dtypes.flatmap(lambda t: floats((2, 3, 4), t)),
            positions=st.just(torch.arange(3)),
        ),
        lambda self, x, positions: nb.RotaryEmbedding(4)(x, positions).tanh(),
        "x",
        also={"x": "positions"},
        fixed=("self",),
        finite=True,
        single=True,
    ),
    "sink_attention": Case(
        nb.sink_attention,
        sunk_qkv(),
        right_other,
        "q",
        also=dict.fromkeys("qkv", "sinks"),
        finite=True,
        widens=True,
    ),
}
