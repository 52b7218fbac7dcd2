"""A layer as in today's models, rotary embeddings and fewer heads of keys than of queries,
beside the smallest that does the same.

The smallest is one projection for queries, keys and values, a rotation by stored cosines and sines,
PyTorch's fused kernel with grouped heads, and one output projection.
"""

from collections.abc import Callable, Iterator

import torch
import torch.nn as nn
import torch.nn.functional as F
from attention_nb import MultiHeadAttention, RotaryEmbedding, rotary_angles
from benchmarks.layers import both_ways
from benchmarks.measure import Comparison
from torch import Tensor

SIZES = ("b", "n", "d_model", "heads", "kv_heads")
SHAPES = ((8, 256, 1024, 16, 4), (1, 1024, 1024, 16, 4), (1, 4096, 1024, 16, 4))
REFERENCE = "minimal fused layer"


class Minimal(nn.Module):
    "No part can be left out; cosines and sines of all positions are stored."

    def __init__(self, n: int, d_model: int, h: int, h_kv: int):
        super().__init__()
        self.d_head = d_model // h
        self.splits = [h, h_kv, h_kv]
        self.qkv, self.out = (
            nn.Linear(d_model, sum(self.splits) * self.d_head, bias=False),
            nn.Linear(d_model, d_model, bias=False),
        )
        angles = rotary_angles(torch.arange(n), self.d_head)
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())

    def rotated(self, x: Tensor) -> Tensor:
        a, b = x.chunk(2, dim=-1)
        return torch.cat([a * self.cos - b * self.sin, a * self.sin + b * self.cos], dim=-1)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (
            self.qkv(x).unflatten(-1, (-1, self.d_head)).transpose(1, 2).split(self.splits, dim=1)
        )
        context = F.scaled_dot_product_attention(
            self.rotated(q), self.rotated(k), v, is_causal=True, enable_gqa=True
        )
        return self.out(context.transpose(1, 2).flatten(2))


def contenders(n: int, d_model: int, h: int, h_kv: int) -> dict[str, Callable[[Tensor], Tensor]]:
    "Return both layers, with the same weights."
    smallest = Minimal(n, d_model, h, h_kv)
    layer = MultiHeadAttention(
        d_model, h, bias=False, n_kv_heads=h_kv, positions=RotaryEmbedding(d_model // h)
    )
    q, k, v = smallest.qkv.weight.split([h * smallest.d_head for h in smallest.splits])
    layer.load_state_dict(
        {
            "q_proj.weight": q,
            "k_proj.weight": k,
            "v_proj.weight": v,
            "out_proj.weight": smallest.out.weight,
        }
    )
    return {REFERENCE: smallest, "attention_nb": lambda x: layer(x, causal=True)[0]}


def comparisons(b: int, n: int, *sizes: int) -> Iterator[Comparison]:
    "Yield comparisons of layers with equal results: forward, and with backward."
    layers, x = contenders(n, *sizes), torch.randn(b, n, sizes[0])
    torch.testing.assert_close(*(layer(x) for layer in layers.values()), atol=1e-4, rtol=1e-4)
    for backward in (False, True):
        yield Comparison({"backward": backward}, both_ways(layers, x, backward))
