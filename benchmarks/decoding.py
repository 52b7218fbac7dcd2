"""Decoding, a token at a time, with what is kept: this book's layer and cache beside layers of transformers and x-transformers with theirs.

Same widths, rotary places, weights of the same shapes. Seconds are those of a token; making room and filling it is not counted.
"""
import time
from collections.abc import Iterator
from functools import partial

import torch
from attention_nb import KVCache, MultiHeadAttention
from attention_nb.positions import RotaryEmbedding
from benchmarks.measure import Comparison, Run, installed
from torch import Tensor

SIZES = ("d_model", "heads", "kv_heads", "kept")
SHAPES = tuple((*sizes, kept) for sizes in ((512, 8, 8), (1024, 16, 4)) for kept in (128, 1024, 4096))
REFERENCE = "attention_nb"
STEPS = 8  # tokens in one measurement


# Each takes the next tokens, x (1, n, d_model), again and again, `n_steps` times, after `kept` others.

def ours(x: Tensor, d_model: int, h: int, h_kv: int, kept: int, n_steps: int = STEPS) -> Run:
    layer = MultiHeadAttention(d_model, h, bias=False, n_kv_heads=h_kv, positions=RotaryEmbedding(d_model // h)).eval()
    past = torch.randn(2, 1, h_kv, kept, d_model // h)

    def steps() -> float:
        cache = KVCache(1, h_kv, kept + n_steps * x.shape[1], d_model // h)  # anew, as the others: what was just written is quick to read
        if kept:
            cache.append(*past)
        begun = time.perf_counter()
        for _ in range(n_steps):
            layer(x, cache=cache)
        return (time.perf_counter() - begun) / n_steps
    return steps


def x_transformers(row: Tensor, d_model: int, h: int, h_kv: int, kept: int) -> Run:
    from x_transformers.attend import Intermediates
    from x_transformers.x_transformers import Attention, RotaryEmbedding as Rotary
    d_head = d_model // h
    layer = Attention(d_model, dim_head=d_head, heads=h, kv_heads=h_kv, causal=True, flash=True).eval()
    turn, past = Rotary(d_head), torch.randn(2, 1, h_kv, kept, d_head).unbind()

    def steps() -> float:
        cache = Intermediates(cached_kv=past)
        begun = time.perf_counter()
        for i in range(STEPS):  # it keeps keys unturned, and turns all of them at each step
            _, cache = layer(row, rotary_pos_emb=turn(torch.arange(kept + i + 1)), cache=cache, return_intermediates=True)
        return (time.perf_counter() - begun) / STEPS
    return steps


def transformers(static: bool, x: Tensor, d_model: int, h: int, h_kv: int, kept: int, n_steps: int = STEPS) -> Run:
    from transformers import DynamicCache, LlamaConfig, StaticCache
    from transformers.models.llama.modeling_llama import LlamaAttention, LlamaRotaryEmbedding
    n = x.shape[1]
    room = kept + n_steps * n
    config = LlamaConfig(hidden_size=d_model, num_attention_heads=h, num_key_value_heads=h_kv, num_hidden_layers=1,
                         max_position_embeddings=room, attn_implementation="sdpa")
    layer, turn = LlamaAttention(config, layer_idx=0).eval(), LlamaRotaryEmbedding(config)
    past = torch.randn(2, 1, h_kv, kept, d_model // h)

    def steps() -> float:
        cache = StaticCache(config=config, max_cache_len=room) if static else DynamicCache(config=config)
        if kept:
            cache.update(*past, 0)
        begun = time.perf_counter()
        for start in range(kept, room, n):
            positions = torch.arange(start, start + n)
            mask = torch.arange(room if static else start + n) <= positions[:, None] if static or kept and n > 1 else None
            layer(x, turn(x, positions[None]), mask if mask is None else mask[None, None], past_key_values=cache)
        return (time.perf_counter() - begun) / n_steps
    return steps


CONTENDERS = {
    REFERENCE: ours,
    "transformers (Llama, growing)": partial(transformers, False),
    "transformers (Llama, static)": partial(transformers, True),
    "x-transformers": x_transformers,
}


def comparisons(d_model: int, h: int, h_kv: int, kept: int) -> Iterator[Comparison]:
    "Each without gradients."
    made = installed(CONTENDERS, torch.randn(1, 1, d_model), d_model, h, h_kv, kept)
    yield Comparison({}, {name: torch.no_grad()(steps) for name, steps in made.items()})
