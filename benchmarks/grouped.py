"""A layer as models have it today, with rotary places and 4 heads of keys for 16 of queries, beside the least that does the same.

    .venv/bin/python -m benchmarks.grouped [--rounds 30] [--threads 2] [--shape 1 1024 1024 16 4]

The least is one matrix for queries, keys and values, a rotation by angles that are kept, PyTorch's fused kernel with its
own groups, and one matrix out. Paired ratios, in one process: below 1 ours is faster. Nothing here is a test.
"""
import argparse
import time
from collections.abc import Callable

import torch
import torch.nn as nn
import torch.nn.functional as F
from attention_nb import MultiHeadAttention, RotaryEmbedding, rotary_angles
from benchmarks.measure import ratios, rounds
from benchmarks.run import runs
from torch import Tensor

SHAPES = ((8, 256, 1024, 16, 4), (1, 1024, 1024, 16, 4), (1, 4096, 1024, 16, 4))  # b, n, d_model, heads, those of keys


class Minimal(nn.Module):
    "Nothing could be left away; cosines and sines of all places are kept."

    def __init__(self, n: int, d_model: int, h: int, h_kv: int):
        super().__init__()
        self.d_head = d_model // h
        self.cuts = [h, h_kv, h_kv]
        self.qkv, self.out = nn.Linear(d_model, sum(self.cuts) * self.d_head, bias=False), nn.Linear(d_model, d_model, bias=False)
        angles = rotary_angles(torch.arange(n), self.d_head)
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())

    def turned(self, x: Tensor) -> Tensor:
        a, b = x.chunk(2, dim=-1)
        return torch.cat([a * self.cos - b * self.sin, a * self.sin + b * self.cos], dim=-1)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).unflatten(-1, (-1, self.d_head)).transpose(1, 2).split(self.cuts, dim=1)
        context = F.scaled_dot_product_attention(self.turned(q), self.turned(k), v, is_causal=True, enable_gqa=True)
        return self.out(context.transpose(1, 2).flatten(2))


def contenders(n: int, d_model: int, h: int, h_kv: int) -> dict[str, Callable[[Tensor], Tensor]]:
    "Both layers, with the same weights."
    torch.manual_seed(0)
    least = Minimal(n, d_model, h, h_kv)
    layer = MultiHeadAttention(d_model, h, bias=False, n_kv_heads=h_kv, positions=RotaryEmbedding(d_model // h))
    q, k, v = least.qkv.weight.split([cut * least.d_head for cut in least.cuts])
    layer.load_state_dict({"q_proj.weight": q, "k_proj.weight": k, "v_proj.weight": v, "out_proj.weight": least.out.weight})
    return {"minimal fused layer": least, "attention_nb": lambda x: layer(x, causal=True)[0]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--processor", action="store_true", help="time of the processor, on a machine that is busy with other things")
    parser.add_argument("--shape", type=int, nargs=5, action="append", metavar=("B", "N", "D_MODEL", "HEADS", "KV_HEADS"))
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    print(f"torch {torch.__version__}, {args.threads} threads, {args.rounds} rounds; milliseconds, and ratio to the minimal fused layer")
    for b, *sizes in args.shape or SHAPES:
        layers, x = contenders(*sizes), torch.randn(b, sizes[0], sizes[1])
        torch.testing.assert_close(*(layer(x) for layer in layers.values()), atol=1e-4, rtol=1e-4)
        for backward in (False, True):
            timed = list(rounds(runs(layers, x, backward), args.rounds, time.process_time if args.processor else time.perf_counter))
            found = ratios(timed, "minimal fused layer")
            least, ours = found["minimal fused layer"], found["attention_nb"]
            print(f"b {b}, n {sizes[0]}, d_model {sizes[1]}, {sizes[2]} heads, {sizes[3]} of keys, "
                  f"{'forward and backward' if backward else 'forward'}: {1e3 * least.seconds:.1f}; ours {1e3 * ours.seconds:.1f}, "
                  f"ratio {ours.median:.2f} ({ours.low:.2f}–{ours.high:.2f})", flush=True)


if __name__ == "__main__":
    main()
