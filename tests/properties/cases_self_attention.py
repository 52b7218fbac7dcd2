"""The cases of `self_attention`: how to draw each function's arguments, and what is right."""

import attention_nb as nb
import torch
from hypothesis import strategies as st
from tests.properties.common import (
    Case,
    args,
    layer_calls,
    number_in,
    qkv,
    refuse,
    right_attention,
    right_layer,
    scales,
    shapes_of,
    shares,
    sizes,
    sizes_or_none,
    whole,
)


def sized(d_in, d_k, d_v=None, bias=False):
    whole(d_in, d_k, d_k if d_v is None else d_v)
    refuse(isinstance(bias, bool))
    widths = {"q": d_k, "k": d_k, "v": d_k if d_v is None else d_v}
    return {f"{n}_proj.weight": (d, d_in) for n, d in widths.items()} | {
        f"{n}_proj.bias": (d,) for n, d in widths.items() if bias
    }


CASES = {
    "attention_scores": Case(
        nb.attention_scores,
        qkv("q k", scale=scales),
        lambda q, k, scale=None: (
            torch.einsum("...id,...jd->...ij", q, k)
            * (q.shape[-1] ** -0.5 if scale is None else number_in(scale))
        ),
        "q",
    ),
    "scaled_dot_product_attention": Case(
        nb.scaled_dot_product_attention,
        qkv(scale=scales, dropout_p=shares),
        right_attention,
        "q",
        widens=True,
    ),
    "SelfAttention": Case(
        lambda **a: shapes_of(nb.SelfAttention(**a)),
        args(d_in=sizes, d_k=sizes, d_v=sizes_or_none, bias=st.booleans()),
        sized,
    ),
    "SelfAttention.forward": Case(
        nb.SelfAttention.forward, layer_calls(heads=False), right_layer, "x", fixed=("self",)
    ),
}
