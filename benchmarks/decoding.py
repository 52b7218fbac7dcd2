"""Decoding per token with what is kept: this book's layer and cache beside layers of transformers and x-transformers with theirs.

    .venv/bin/python -m benchmarks.decoding

Same widths, rotary places, weights of the same shapes; one process, one after the other in turn, medians of paired
ratios with the middle half. A ratio below 1: ours is faster. Nothing here is a test.
"""
import argparse
import importlib.util
import time
from functools import partial

import torch
from transformers import DynamicCache, LlamaConfig, StaticCache
from transformers.models.llama.modeling_llama import LlamaAttention, LlamaRotaryEmbedding

from attention_nb import KVCache, MultiHeadAttention
from attention_nb.positions import RotaryEmbedding
from benchmarks.measure import ratios, rounds

STEPS = 8  # tokens in one measurement


def ours(d_model, h, h_kv, kept):
    layer = MultiHeadAttention(d_model, h, bias=False, n_kv_heads=h_kv, positions=RotaryEmbedding(d_model // h)).eval()
    cache = KVCache(1, h_kv, kept + STEPS, d_model // h)
    cache.append(*torch.randn(2, 1, h_kv, kept, d_model // h))

    def steps(row):
        cache.truncate(kept)
        begun = time.perf_counter()  # making room is not counted
        for _ in range(STEPS):
            layer(row, cache=cache)
        return time.perf_counter() - begun
    return steps


def x_transformers(d_model, h, h_kv, kept):
    from x_transformers.attend import Intermediates
    from x_transformers.x_transformers import Attention, RotaryEmbedding as Rotary
    d_head = d_model // h
    layer = Attention(d_model, dim_head=d_head, heads=h, kv_heads=h_kv, causal=True, flash=True).eval()
    turn, past = Rotary(d_head), torch.randn(2, 1, h_kv, kept, d_head).unbind()

    def steps(row):
        cache = Intermediates(cached_kv=past)
        for i in range(STEPS):  # it keeps keys unturned, and turns all of them at each step
            _, cache = layer(row, rotary_pos_emb=turn(torch.arange(kept + i + 1)), cache=cache, return_intermediates=True)
    return steps


def theirs(d_model, h, h_kv, kept, static):
    config = LlamaConfig(hidden_size=d_model, num_attention_heads=h, num_key_value_heads=h_kv, num_hidden_layers=1,
                         max_position_embeddings=kept + STEPS, attn_implementation="sdpa")
    layer, turn = LlamaAttention(config, layer_idx=0).eval(), LlamaRotaryEmbedding(config)
    past = torch.randn(2, 1, h_kv, kept, d_model // h)

    def steps(row):
        cache = StaticCache(config=config, max_cache_len=kept + STEPS) if static else DynamicCache(config=config)
        cache.update(*past, 0)
        begun = time.perf_counter()  # filling it anew is not counted
        for i in range(STEPS):
            mask = torch.arange(kept + STEPS)[None, None, None] <= kept + i if static else None
            layer(row, turn(row, torch.tensor([[kept + i]])), mask, past_key_values=cache)
        return time.perf_counter() - begun
    return steps


@torch.no_grad()
def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--kept", type=int, nargs="+", default=[128, 1024, 4096])
    n_rounds, threads, all_kept = vars(parser.parse_args()).values()
    torch.set_num_threads(threads)
    print(f"torch {torch.__version__}, {threads} threads, {n_rounds} rounds; microseconds per token, and ratios of ours to each")
    for d_model, h, h_kv in ((512, 8, 8), (1024, 16, 4)):
        row = torch.randn(1, 1, d_model)
        for kept in all_kept:
            sizes = d_model, h, h_kv, kept
            layers = {"ours": ours(*sizes), "growing": theirs(*sizes, False), "static": theirs(*sizes, True)}
            if importlib.util.find_spec("x_transformers"):
                layers["x-transformers"] = x_transformers(*sizes)
            timed = list(rounds({name: partial(steps, row) for name, steps in layers.items()}, n_rounds))
            said = [f"d_model {d_model}, {h} heads, {h_kv} of keys, {kept:>4} kept"]
            for name in layers:
                took, ratio = ratios(timed, name)[name].seconds, ratios(timed, name)["ours"]
                said.append(f"{name} {1e6 * took / STEPS:6.0f}, ratio {ratio.median:.2f} ({ratio.low:.2f}–{ratio.high:.2f})")
            print("; ".join(said), flush=True)


if __name__ == "__main__":
    main()
