"""The cases of `grouped_heads`: for each public function, how to draw its arguments, and what is right."""
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
    return state, {str(p.dtype) for p in layer.parameters()}, layer.n_heads, layer.n_kv_heads, layer.dropout, layer.training


def right_pooling(layer, n_kv_heads):
    "Row by row: the mean of the rows that stand at its place in the heads of its group."
    refuse(isinstance(layer, nb.MultiHeadAttention))
    whole(n_kv_heads)
    refuse(layer.n_kv_heads % n_kv_heads == 0)
    state, *facts = grouped_facts(layer)
    d, size = layer.q_proj.out_features // layer.n_heads, layer.n_kv_heads // n_kv_heads
    for name in [name for name in state if name[0] in "kv"]:
        rows = [[state[name][(g * size + i) * d + j] for i in range(size)] for g in range(n_kv_heads) for j in range(d)]
        state[name] = torch.stack([sum(group) / size for group in rows])
    facts[2] = n_kv_heads
    return state, *facts


def right_cap(scores, cap):
    refuse(isinstance(scores, Tensor) and scores.is_floating_point())
    refuse(isinstance(cap, (int, float)) and 0 < number_in(cap) < math.inf)
    return cap - 2 * cap / ((2 * scores / cap).exp() + 1)


@st.composite
def sunk_scores(draw):
    lead, (h, n_q, n_k), dtype = draw(st.lists(sizes, max_size=1)), [draw(sizes) for _ in range(3)], draw(dtypes)
    shape = (*lead, h, n_q, n_k)
    return {"scores": draw(floats(shape, dtype)), "sinks": draw(floats((h,), dtype)), "mask": draw(masks(shape))}


def right_sink(scores, sinks, mask=None):
    refuse(isinstance(scores, Tensor) and scores.is_floating_point() and scores.ndim >= 3 and scores.shape[-1] > 0)
    refuse(isinstance(sinks, Tensor) and sinks.is_floating_point() and sinks.shape == scores.shape[-3:-2])
    mask = torch.ones_like(scores, dtype=torch.bool) if mask is None else mask
    refuse(mask.dtype == torch.bool)
    e = scores.exp() * mask.expand(scores.shape)
    return e / (e.sum(-1, keepdim=True) + sinks.exp()[:, None, None])


@st.composite
def sunk_qkv(draw):
    args = draw(qkv(scale=scales).filter(lambda a: a["q"].ndim > 2))
    return args | {"sinks": draw(floats(args["q"].shape[-3:-2], args["q"].dtype))}


def right_other(q, k, v, mask=None, scale=None, cap=None, sinks=None):
    "Attention with a cap or with sinks."
    refuse(q.shape[:-2] == k.shape[:-2] == v.shape[:-2] and q.dtype == k.dtype == v.dtype == torch.float64)
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else number_in(scale)
    s = torch.einsum("...id,...jd->...ij", q, k) * scale
    w = right_softmax(right_cap(s, cap), -1, mask) if sinks is None else right_sink(s, sinks, mask)
    return torch.einsum("...ij,...jd->...id", w, v), w


CASES = {
    "to_grouped": Case(lambda **a: grouped_facts(nb.to_grouped(**a)), grouped_layers(), right_pooling,
                       also={"n_kv_heads": "n_heads"}),
    "soft_cap": Case(nb.soft_cap, dtypes.flatmap(lambda t: args(
        scores=floats((2, 3), t, (1.0, 30.0)), cap=st.sampled_from([1.0, 5, 50.0]))), right_cap, "scores", finite=True),
    "sink_softmax": Case(nb.sink_softmax, sunk_scores(), right_sink, "scores", also={"scores": "sinks"}, finite=True, widens=True),
    "capped_attention": Case(nb.capped_attention, qkv(cap=st.sampled_from([1.0, 5, 50.0]), scale=scales), right_other, "q", finite=True, widens=True),
    "sink_attention": Case(nb.sink_attention, sunk_qkv(), right_other, "q", also=dict.fromkeys("qkv", "sinks"), finite=True, widens=True),
}
