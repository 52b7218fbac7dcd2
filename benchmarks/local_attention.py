"""How many times faster is a window's work alone than all of attention?

    .venv/bin/python -m benchmarks.local_attention [--n 16384] [--window 256] [--heads 1] [--width 64] [--threads 1]

Ratios, measured in one process, one after the other in turns: a machine that slows down slows all of them.
"""
import argparse
from collections.abc import Callable

import torch
import torch.nn.functional as F
from attention_nb import local_attention, window_mask
from benchmarks.measure import ratios, rounds


def subjects(n: int, window: int, heads: int, width: int) -> dict[str, Callable[[], torch.Tensor]]:
    "What is measured, by name; the first is what the others are compared with."
    q, k, v = torch.randn(3, 1, heads, n, width, generator=torch.Generator().manual_seed(0))
    subjects: dict[str, Callable[[], torch.Tensor]] = {
        "local_attention": lambda: local_attention(q, k, v, window),
        "PyTorch, all words": lambda: F.scaled_dot_product_attention(q, k, v),
        "PyTorch, is_causal": lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True),
    }
    mask = window_mask(n, n, window)
    torch.testing.assert_close(subjects["local_attention"](), F.scaled_dot_product_attention(q, k, v, mask))
    return subjects | {"PyTorch, window_mask": lambda: F.scaled_dot_product_attention(q, k, v, mask)}


def main() -> None:
    parser = argparse.ArgumentParser(description="local_attention against all of attention")
    for name, default in (("n", 16384), ("window", 256), ("heads", 1), ("width", 64), ("threads", 1), ("rounds", 5)):
        parser.add_argument(f"--{name}", type=int, default=default)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    measured = subjects(args.n, args.window, args.heads, args.width)
    timed = list(rounds(measured, args.rounds))
    print(f"n = {args.n}, window = {args.window}, {args.heads} heads of {args.width}, {args.threads} threads")
    for name, ratio in ratios(timed, "local_attention").items():
        print(f"{name:<22} {ratio.median:6.1f} times as long as local_attention ({ratio.low:.1f} to {ratio.high:.1f})")


if __name__ == "__main__":
    with torch.no_grad():
        main()
