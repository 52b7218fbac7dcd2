"""`flash_attention`, in plain PyTorch, beside PyTorch's fused kernel,
and beside naive attention where its matrix fits.
"""

import itertools
from collections.abc import Iterator

import torch
import torch.nn.functional as F
from attention_nb import flash_attention
from benchmarks.layers import textbook
from benchmarks.measure import Comparison, Run
from torch import Tensor

SIZES = ("n", "heads", "width")
SHAPES = ((4096, 8, 64), (8192, 8, 64))
REFERENCE = "PyTorch, fused"
LARGEST = 2**30  # bytes of the largest matrix of weights that is computed

WAYS = {
    REFERENCE: lambda q, k, v, causal: F.scaled_dot_product_attention(q, k, v, is_causal=causal),
    "flash_attention": lambda q, k, v, causal: flash_attention(q, k, v, causal=causal),
    "naive attention": textbook,
}


def run(name: str, qkv: tuple[Tensor, ...], causal: bool, backward: bool) -> Run:
    "Return a forward pass, or one with the gradients of queries, keys and values."

    def once() -> object:
        leaves = [t.detach().requires_grad_(backward) for t in qkv]
        context = WAYS[name](*leaves, causal)
        return torch.autograd.grad(context.sum(), leaves) if backward else context

    return once


def comparisons(n: int, heads: int, width: int) -> Iterator[Comparison]:
    "Yield comparisons: causal and not, forward and with backward."
    q, k, v = torch.randn(3, 1, heads, n, width)
    names = [name for name in WAYS if name != "naive attention" or 4 * heads * n * n <= LARGEST]
    for causal, backward in itertools.product((False, True), repeat=2):
        runs = {name: run(name, (q, k, v), causal, backward) for name in names}
        for made in runs.values():
            torch.testing.assert_close(made(), runs[REFERENCE](), atol=1e-4, rtol=1e-4)
        yield Comparison({"causal": causal, "backward": backward}, runs)
