"""Decoding, token by token, with a KV cache:
this book's layer beside layers of transformers and x-transformers.

Same widths, rotary embeddings, weights of the same shapes. Seconds are those of one token;
allocating and filling the cache is not counted.
"""

import time
from collections.abc import Iterator
from functools import partial

import torch
from attention_nb import KVCache, MultiHeadAttention
from attention_nb.positions import RotaryEmbedding
from benchmarks.measure import Comparison, Run, installed
from torch import Tensor

SIZES = ("d_model", "heads", "kv_heads", "cached")
SHAPES = tuple(
    (*sizes, cached) for sizes in ((512, 8, 8), (1024, 16, 4)) for cached in (128, 1024, 4096)
)
REFERENCE = "attention_nb"
STEPS = 8  # tokens in one measurement


# Each takes the next tokens, x (1, n, d_model), `n_steps` times,
# after `cached` tokens in its cache.


def ours(x: Tensor, d_model: int, h: int, h_kv: int, cached: int, n_steps: int = STEPS) -> Run:
    layer = MultiHeadAttention(
        d_model, h, bias=False, n_kv_heads=h_kv, positions=RotaryEmbedding(d_model // h)
    ).eval()
    past = torch.randn(2, 1, h_kv, cached, d_model // h)

    def steps() -> float:
        # a new one, as the others: memory that was just written is read faster
        cache = KVCache(1, h_kv, cached + n_steps * x.shape[1], d_model // h)
        if cached:
            cache.append(*past)
        begun = time.perf_counter()
        for _ in range(n_steps):
            layer(x, cache=cache)
        return (time.perf_counter() - begun) / n_steps

    return steps


def x_transformers(x: Tensor, d_model: int, h: int, h_kv: int, cached: int) -> Run:
    from x_transformers.attend import Intermediates
    from x_transformers.x_transformers import Attention, RotaryEmbedding as Rotary

    d_head = d_model // h
    layer = Attention(
        d_model, dim_head=d_head, heads=h, kv_heads=h_kv, causal=True, flash=True
    ).eval()
    rotary, past = Rotary(d_head), torch.randn(2, 1, h_kv, cached, d_head).unbind()

    def steps() -> float:
        cache = Intermediates(cached_kv=past)
        begun = time.perf_counter()
        # it caches keys before the rotation, and rotates all of them at each step
        for i in range(STEPS):
            _, cache = layer(
                x,
                rotary_pos_emb=rotary(torch.arange(cached + i + 1)),
                cache=cache,
                return_intermediates=True,
            )
        return (time.perf_counter() - begun) / STEPS

    return steps


def transformers(
    static: bool, x: Tensor, d_model: int, h: int, h_kv: int, cached: int, n_steps: int = STEPS
) -> Run:
    from transformers import DynamicCache, LlamaConfig, StaticCache
    from transformers.models.llama.modeling_llama import LlamaAttention, LlamaRotaryEmbedding

    n = x.shape[1]
    n_max = cached + n_steps * n
    config = LlamaConfig(
        hidden_size=d_model,
        num_attention_heads=h,
        num_key_value_heads=h_kv,
        num_hidden_layers=1,
        max_position_embeddings=n_max,
        attn_implementation="sdpa",
    )
    layer, rotary = LlamaAttention(config, layer_idx=0).eval(), LlamaRotaryEmbedding(config)
    past = torch.randn(2, 1, h_kv, cached, d_model // h)

    def steps() -> float:
        cache = (
            StaticCache(config=config, max_cache_len=n_max)
            if static
            else DynamicCache(config=config)
        )
        if cached:
            cache.update(*past, 0)
        begun = time.perf_counter()
        for start in range(cached, n_max, n):
            positions = torch.arange(start, start + n)
            mask = None
            if static or (cached and n > 1):
                keys = torch.arange(n_max if static else start + n)
                mask = (keys <= positions[:, None])[None, None]
            layer(x, rotary(x, positions[None]), mask, past_key_values=cache)
        return (time.perf_counter() - begun) / n_steps

    return steps


CONTENDERS = {
    REFERENCE: ours,
    "transformers (Llama, dynamic)": partial(transformers, False),
    "transformers (Llama, static)": partial(transformers, True),
    "x-transformers": x_transformers,
}


def comparisons(d_model: int, h: int, h_kv: int, cached: int) -> Iterator[Comparison]:
    "Yield one comparison, without gradients."
    made = installed(CONTENDERS, torch.randn(1, 1, d_model), d_model, h, h_kv, cached)
    yield Comparison({}, {name: torch.no_grad()(steps) for name, steps in made.items()})
