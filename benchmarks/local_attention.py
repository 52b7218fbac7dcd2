"""A sliding window: only its scores computed, beside full attention and the window as a mask."""

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from attention_nb import local_attention, window_mask
from benchmarks.measure import Comparison

SIZES = ("n", "window", "heads", "width")
SHAPES = ((16384, 256, 1, 64),)
REFERENCE = "local_attention"


def comparisons(n: int, window: int, heads: int, width: int) -> Iterator[Comparison]:
    "Yield one comparison, forward; the window as a mask gives the same result."
    q, k, v = torch.randn(3, 1, heads, n, width)
    mask = window_mask(n, n, window)
    runs = {
        REFERENCE: lambda: local_attention(q, k, v, window),
        "PyTorch, window_mask": lambda: F.scaled_dot_product_attention(q, k, v, mask),
        "PyTorch, all tokens": lambda: F.scaled_dot_product_attention(q, k, v),
        "PyTorch, is_causal": lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True),
    }
    torch.testing.assert_close(runs[REFERENCE](), runs["PyTorch, window_mask"]())
    yield Comparison({}, runs)
