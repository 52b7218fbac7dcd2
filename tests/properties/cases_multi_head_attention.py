"""The cases of `multi_head_attention`: how to draw each function's arguments, and what is right."""

from typing import Any

import attention_nb as nb
import torch
import torch.nn as nn
from hypothesis import strategies as st
from tests.properties.common import (
    Case,
    args,
    dtypes,
    floats,
    layer_calls,
    number_in,
    qkv,
    refuse,
    right_attention,
    right_layer,
    shapes_of,
    shares,
    sizes,
    sizes_or_none,
    whole,
)


def right_split(x, n_heads):
    whole(n_heads)
    refuse(x.ndim >= 2 and x.shape[-1] > 0 and x.shape[-1] % n_heads == 0)
    return torch.stack(x.split(x.shape[-1] // n_heads, -1), -3)


def right_merge(x):
    refuse(x.ndim >= 3)
    return torch.cat(x.unbind(-3), -1) if x.shape[-3] else x.transpose(-3, -2).flatten(-2)


def sized_heads(d_model, n_heads, bias=True, dropout=0.0, n_kv_heads=None, d_head=None):
    n_kv_heads = n_heads if n_kv_heads is None else n_kv_heads
    whole(d_model, n_heads, n_kv_heads)
    refuse((d_head is not None or d_model % n_heads == 0) and n_heads % n_kv_heads == 0)
    refuse(isinstance(bias, bool) and 0 <= number_in(dropout) <= 1)
    d_head = d_model // n_heads if d_head is None else d_head
    whole(d_head)
    widths = {"q": n_heads * d_head, "k": n_kv_heads * d_head, "v": n_kv_heads * d_head}
    return (
        {f"{n}_proj.weight": (width, d_model) for n, width in widths.items()}
        | {"out_proj.weight": (d_model, widths["q"])}
        | {f"{n}_proj.bias": (width,) for n, width in [*widths.items(), ("out", d_model)] if bias}
    )


@st.composite
def split_calls(draw):
    h, d = draw(sizes), draw(sizes)
    lead = draw(st.lists(sizes, max_size=3))
    return {"x": draw(floats((*lead, draw(sizes), h * d), draw(dtypes))), "n_heads": h}


@st.composite
def torch_layers(draw):
    h = draw(st.integers(1, 3))
    torch.manual_seed(draw(st.integers(0, 99)))
    layer = nn.MultiheadAttention(
        h * draw(sizes), h, draw(shares), draw(st.booleans()), batch_first=draw(st.booleans())
    )
    return {"layer": layer.to(draw(dtypes)).train(draw(st.booleans()))}


def layer_facts(layer: nn.Module) -> tuple[Any, ...]:
    "What a copy must keep; the weights as PyTorch stacks them."
    state = dict(layer.state_dict())
    for kind in ("weight", "bias"):
        if f"q_proj.{kind}" in state:
            state[f"in_proj_{kind}"] = torch.cat([state.pop(f"{n}_proj.{kind}") for n in "qkv"])
    heads = layer.num_heads if isinstance(layer, nn.MultiheadAttention) else layer.n_heads
    return (
        {n: (str(t.dtype), t.tolist()) for n, t in state.items()},
        heads,
        layer.dropout,
        layer.training,
    )


def only_torch(layer):
    refuse(isinstance(layer, nn.MultiheadAttention))
    return layer_facts(layer)


@st.composite
def shared_heads(draw):
    lead, g = draw(st.lists(sizes, max_size=2)), draw(sizes)
    return {
        "x": draw(floats((*lead, g, draw(sizes), draw(sizes)), draw(dtypes))),
        "n_heads": g * draw(sizes),
    }


def right_sharing(x, n_heads):
    whole(n_heads)
    refuse(x.ndim >= 3 and x.shape[-3] > 0 and n_heads % x.shape[-3] == 0)
    return torch.stack([x[..., i * x.shape[-3] // n_heads, :, :] for i in range(n_heads)], -3)


CASES = {
    "split_heads": Case(
        nb.split_heads, split_calls(), right_split, "x", also={"x": "d_model"}, exact=True
    ),
    "merge_heads": Case(
        nb.merge_heads,
        args(
            x=st.lists(sizes, min_size=3, max_size=5).flatmap(
                lambda s: dtypes.flatmap(lambda t: floats(s, t))
            )
        ),
        right_merge,
        "x",
        exact=True,
    ),
    "fused_attention": Case(
        nb.fused_attention,
        qkv(causal=st.booleans(), dropout_p=shares),
        lambda **a: right_attention(**a)[0],
        "q",
        finite=True,
    ),
    "MultiHeadAttention": Case(
        lambda **a: shapes_of(nb.MultiHeadAttention(**a)),
        sizes.flatmap(
            lambda h: args(
                d_model=sizes.map(lambda d: d * h),
                n_heads=st.just(h),
                bias=st.booleans(),
                dropout=shares,
                n_kv_heads=st.sampled_from([None, 1, h]),
                d_head=sizes_or_none,
            )
        ),
        sized_heads,
        also={"n_kv_heads": "n_heads"},
    ),
    "MultiHeadAttention.forward": Case(
        nb.MultiHeadAttention.forward,
        layer_calls(heads=True),
        right_layer,
        "x",
        fixed=("self",),
        finite=True,
    ),
    "MultiHeadAttention.cache_shape": Case(
        lambda self: self.cache_shape,
        layer_calls(heads=True).map(lambda a: {"self": a["self"]}),
        lambda self: (self.n_kv_heads, self.d_head, self.v_proj.out_features // self.n_kv_heads),
        fixed=("self",),
    ),
    "MultiHeadAttention.from_torch": Case(
        lambda layer: layer_facts(nb.MultiHeadAttention.from_torch(layer)),
        torch_layers(),
        only_torch,
    ),
    "MultiHeadAttention.to_torch": Case(
        lambda self: layer_facts(self.to_torch()),
        torch_layers().map(lambda a: {"self": nb.MultiHeadAttention.from_torch(a["layer"])}),
        lambda self: layer_facts(self),
        fixed=("self",),
    ),
    "share_heads": Case(
        nb.share_heads, shared_heads(), right_sharing, "x", also={"x": "n_heads"}, exact=True
    ),
}
