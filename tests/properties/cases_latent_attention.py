"""The cases of `latent_attention`: how to draw each function's arguments, and what is right."""

import copy
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
    number_in,
    refuse,
    right_attention,
    right_norm,
    shapes_of,
    shares,
    sizes,
    sizes_or_none,
    ways_of_attending,
    whole,
)


def sized_latent(
    d_model,
    n_heads,
    d_latent,
    d_rope,
    d_head=None,
    d_v=None,
    d_latent_q=None,
    bias=False,
    dropout=0.0,
):
    whole(d_model, n_heads, d_latent, d_rope)
    refuse(
        (d_head is not None or d_model % n_heads == 0)
        and isinstance(bias, bool)
        and 0 <= number_in(dropout) <= 1
    )
    refuse(d_rope % 2 == 0)
    d_head = d_model // n_heads if d_head is None else d_head
    d_v = d_head if d_v is None else d_v
    whole(d_head, d_v, *[] if d_latent_q is None else [d_latent_q])
    shapes = {
        "q_proj.weight": (
            n_heads * (d_head + d_rope),
            d_model if d_latent_q is None else d_latent_q,
        ),
        "kv_down.weight": (d_latent + d_rope, d_model),
        "kv_norm": (d_latent,),
        "k_proj.weight": (n_heads * d_head, d_latent),
        "v_proj.weight": (n_heads * d_v, d_latent),
        "out_proj.weight": (d_model, n_heads * d_v),
    }
    if d_latent_q is not None:
        shapes |= {"q_down.weight": (d_latent_q, d_model), "q_norm": (d_latent_q,)}
    return shapes | {
        f"{n[:-7]}.bias": shapes[n][:1]
        for n in shapes
        if bias and n[:-7] in ("kv_down", "q_down", "out_proj")
    }


@st.composite
def latent_calls(draw):
    """A latent layer with random weights, in float32, which its angles have,
    and rows, memory and mask for it.
    """
    dtype, h, lead = torch.float32, draw(sizes), draw(st.lists(st.integers(1, 3), max_size=2))
    n_q, n_k, d = draw(sizes), draw(sizes), draw(st.integers(3, 6))
    torch.manual_seed(draw(st.integers(0, 999)))
    layer = nb.LatentAttention(
        d,
        h,
        draw(st.integers(3, 5)),
        2 * draw(st.integers(1, 2)),
        draw(sizes),
        draw(sizes),
        draw(st.none() | st.integers(3, 5)),
        draw(st.booleans()),
        interleaved=draw(st.booleans()),
    )
    memory = draw(st.none() | floats((*lead, n_k, d), dtype))
    n_k = n_q if memory is None else n_k
    args = {"self": layer.to(dtype), "x": draw(floats((*lead, n_q, d), dtype)), "memory": memory}
    return (
        args
        | draw(ways_of_attending(lead, h, n_q, n_k))
        | {"absorbed": draw(st.sampled_from([None, True, False]))}
    )


def right_latent(self, x, memory=None, mask=None, causal=False, need_weights=False, absorbed=None):
    "One head after the other, every key and value made."
    refuse(
        isinstance(need_weights, bool)
        and x.is_floating_point()
        and (absorbed is None or isinstance(absorbed, bool))
    )
    memory, own = x if memory is None else memory, copy.deepcopy(self).double()
    q = own.q_proj(x if own.q_down is None else right_norm(own.q_down(x), own.q_norm))
    latent, turned = own.kv_down(memory).tensor_split([self.d_latent], -1)
    latent = right_norm(latent, own.kv_norm)
    places = torch.arange(memory.shape[-2])
    if mask is not None:
        refuse(mask.dtype == torch.bool)
        mask = mask.unsqueeze(-3) if mask.ndim == x.ndim else mask
        mask = mask.expand(*x.shape[:-2], self.n_heads, x.shape[-2], memory.shape[-2])
    parts = []
    for i in range(self.n_heads):
        W_k, W_v = (p.weight.chunk(self.n_heads)[i] for p in (own.k_proj, own.v_proj))
        plain, end = q.chunk(self.n_heads, -1)[i].tensor_split([self.d_head], -1)
        turn = lambda t, at: right_turn(t, at, self.positions.interleaved)
        asks = torch.cat([plain, turn(end, places[-1] + 1 + torch.arange(-x.shape[-2], 0))], -1)
        keys = torch.cat([latent @ W_k.T, turn(turned, places)], -1)
        parts.append(
            right_attention(
                asks,
                keys,
                latent @ W_v.T,
                None if mask is None else mask[..., i, :, :],
                causal=causal,
            )
        )
    out = own.out_proj(torch.cat([c for c, _ in parts], -1))
    return out, torch.stack([w for _, w in parts], -3) if need_weights else None


def right_turn(x, places, interleaved):
    "Each pair as a complex number, times one of length 1."
    pairs = x.unflatten(-1, (-1, 2)) if interleaved else torch.stack(x.chunk(2, -1), -1)
    angles = places[:, None] * 10000.0 ** (-torch.arange(0, x.shape[-1], 2).double() / x.shape[-1])
    z = torch.complex(*pairs.unbind(-1)) * torch.polar(torch.ones_like(angles), angles)
    turned = torch.stack([z.real, z.imag], -1)
    return turned.flatten(-2) if interleaved else torch.cat(turned.unbind(-1), -1)


@st.composite
def deepseek_layers(draw):
    "Small layers of transformers, with random weights."
    from transformers.models.deepseek_v3 import modeling_deepseek_v3 as theirs

    config = theirs.DeepseekV3Config(
        hidden_size=draw(sizes),
        num_attention_heads=2,
        num_key_value_heads=2,
        kv_lora_rank=draw(sizes),
        num_hidden_layers=1,
        q_lora_rank=draw(sizes_or_none),
        qk_rope_head_dim=2,
        qk_nope_head_dim=draw(sizes),
        v_head_dim=draw(sizes),
        attention_bias=draw(st.booleans()),
    )
    torch.manual_seed(draw(st.integers(0, 99)))
    return {
        "layer": theirs.DeepseekV3Attention(config, 0).to(draw(dtypes)).train(draw(st.booleans()))
    }


def shapes_and_sums(layer: nn.Module) -> tuple[Any, ...]:
    "What no renaming may change, and what cutting in two leaves whole."
    found = {n: t.detach().double() for n, t in layer.state_dict().items()}
    return (
        {n: (tuple(t.shape), float(t.sum())) for n, t in found.items()},
        layer.dropout,
        layer.training,
    )


def right_deepseek(layer):
    refuse(type(layer).__name__ == "DeepseekV3Attention")
    names = {
        "kv_a_proj_with_mqa": "kv_down",
        "kv_a_layernorm.weight": "kv_norm",
        "q_a_proj": "q_down",
        "q_a_layernorm.weight": "q_norm",
        "q_b_proj": "q_proj",
        "o_proj": "out_proj",
    }
    found = {n: t.detach().double() for n, t in layer.state_dict().items()}
    both = found.pop("kv_b_proj.weight").chunk(layer.num_heads)
    for old, new in names.items():
        found = {n.replace(old, new) if n.startswith(old) else n: t for n, t in found.items()}
    d = layer.qk_nope_head_dim
    found |= {
        "k_proj.weight": torch.cat([t[:d] for t in both]),
        "v_proj.weight": torch.cat([t[d:] for t in both]),
    }
    return (
        {n: (tuple(t.shape), float(t.sum())) for n, t in found.items()},
        layer.config.attention_dropout,
        layer.training,
    )


CASES = {
    "LatentAttention": Case(
        lambda **a: shapes_of(nb.LatentAttention(**a)),
        args(
            d_model=sizes.map(lambda d: 2 * d),
            n_heads=st.just(2),
            d_latent=sizes,
            d_rope=st.sampled_from([2, 4]),
            d_head=sizes_or_none,
            d_v=sizes_or_none,
            d_latent_q=sizes_or_none,
            bias=st.booleans(),
            dropout=shares,
        ),
        sized_latent,
    ),
    "LatentAttention.forward": Case(
        nb.LatentAttention.forward, latent_calls(), right_latent, "x", fixed=("self",), finite=True
    ),
    "LatentAttention.cache_shape": Case(
        lambda self: self.cache_shape,
        latent_calls().map(lambda a: {"self": a["self"]}),
        lambda self: (1, self.kv_norm.shape[0], self.kv_down.out_features - self.kv_norm.shape[0]),
        fixed=("self",),
    ),
    "LatentAttention.from_transformers": Case(
        lambda layer: shapes_and_sums(nb.LatentAttention.from_transformers(layer)),
        deepseek_layers(),
        right_deepseek,
    ),
}
