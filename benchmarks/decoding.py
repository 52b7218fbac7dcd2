"""Decoding per token with what is kept: this book's layer and cache beside a layer of transformers with its own.

    .venv/bin/python benchmarks/decoding.py

Same widths, rotary places, weights of the same shapes; one process, one after the other in turn, medians of paired
ratios with the middle half. A ratio below 1: ours is faster. Nothing here is a test.
"""
import argparse
import statistics
import time

import torch
from transformers import DynamicCache, LlamaConfig, StaticCache
from transformers.models.llama.modeling_llama import LlamaAttention, LlamaRotaryEmbedding

from attention_nb import KVCache, MultiHeadAttention
from attention_nb.positions import RotaryEmbedding

STEPS = 8  # tokens in one measurement


def ours(d_model, h, h_kv, kept):
    layer = MultiHeadAttention(d_model, h, bias=False, n_kv_heads=h_kv, positions=RotaryEmbedding(d_model // h)).eval()
    cache = KVCache(1, h_kv, kept + STEPS, d_model // h)
    cache.append(*torch.randn(2, 1, h_kv, kept, d_model // h))

    def steps(row):
        cache.truncate(kept)
        for _ in range(STEPS):
            layer(row, cache=cache)
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


def seconds(f, row):
    begun = time.perf_counter()
    inside = f(row)
    return (inside or time.perf_counter() - begun) / STEPS


@torch.no_grad()
def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    rounds, threads = vars(parser.parse_args()).values()
    torch.set_num_threads(threads)
    print(f"torch {torch.__version__}, {threads} threads, {rounds} rounds; microseconds per token, and ratios to transformers")
    for d_model, h, h_kv in ((512, 8, 8), (1024, 16, 4)):
        row = torch.randn(1, 1, d_model)
        for kept in (128, 1024, 4096):
            runs = [ours(d_model, h, h_kv, kept), theirs(d_model, h, h_kv, kept, False), theirs(d_model, h, h_kv, kept, True)]
            times = [[seconds(f, row) for f in runs] for _ in range(rounds + 3)][3:]
            medians = [1e6 * statistics.median(t) for t in zip(*times)]
            said = [f"d_model {d_model}, {h} heads, {h_kv} of keys, {kept:>4} kept: ours {medians[0]:6.0f}"]
            for i, name in ((1, "growing"), (2, "static")):
                low, middle, high = statistics.quantiles([t[0] / t[i] for t in times], n=4)
                said.append(f"{name} {medians[i]:6.0f}, ratio {middle:.2f} ({low:.2f}–{high:.2f})")
            print("; ".join(said), flush=True)


if __name__ == "__main__":
    main()
