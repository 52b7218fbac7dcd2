"""Whole attention layers, causal, as users take them from a package, on the same input."""

from collections.abc import Callable, Iterator, Mapping

import torch
import torch.nn as nn
import torch.nn.functional as F
from attention_nb import MultiHeadAttention, causal_mask
from benchmarks.measure import Comparison, Run, installed
from torch import Tensor

Layer = Callable[[Tensor], Tensor]
SIZES = ("b", "n", "d_model", "heads")
SHAPES = ((8, 256, 512, 8), (1, 1024, 768, 12), (1, 4096, 512, 8))
REFERENCE = "minimal fused layer"


def textbook(q: Tensor, k: Tensor, v: Tensor, causal: bool = False) -> Tensor:
    "Return naive attention: scores, `masked_fill`, softmax."
    scores = q @ k.mT * q.shape[-1] ** -0.5
    if causal:
        scores = scores.masked_fill(~causal_mask(q.shape[-2]), float("-inf"))
    return scores.softmax(-1) @ v


class Minimal(nn.Module):
    """One projection for queries, keys and values, PyTorch's fused kernel, one output projection;
    no part can be left out.
    """

    def __init__(self, d_model: int, n_heads: int):
        super().__init__()
        self.n_heads = n_heads
        self.qkv, self.out = nn.Linear(d_model, 3 * d_model), nn.Linear(d_model, d_model)

    def heads(self, x: Tensor) -> Tensor:
        return self.qkv(x).unflatten(-1, (3, self.n_heads, -1)).movedim(-3, 0).transpose(-3, -2)

    def forward(self, x: Tensor) -> Tensor:
        context = F.scaled_dot_product_attention(*self.heads(x), is_causal=True)
        return self.out(context.transpose(-3, -2).flatten(-2))


class Textbook(Minimal):
    "The same layer with the matrix of weights, so that it can be returned."

    def forward(self, x: Tensor) -> Tensor:
        return self.out(textbook(*self.heads(x), causal=True).transpose(-3, -2).flatten(-2))


def ours(need_weights: bool) -> Callable[[int, int, int], Layer]:
    def make(n: int, d_model: int, n_heads: int) -> Layer:
        layer = MultiHeadAttention(d_model, n_heads)
        return lambda x: layer(x, causal=True, need_weights=need_weights)[0]

    return make


def pytorch(need_weights: bool) -> Callable[[int, int, int], Layer]:
    def make(n: int, d_model: int, n_heads: int) -> Layer:
        layer, future = nn.MultiheadAttention(d_model, n_heads, batch_first=True), ~causal_mask(n)
        return lambda x: layer(
            x, x, x, attn_mask=future, is_causal=True, need_weights=need_weights
        )[0]

    return make


def x_transformers(n: int, d_model: int, n_heads: int) -> Layer:
    from x_transformers.x_transformers import Attention

    return Attention(d_model, dim_head=d_model // n_heads, heads=n_heads, causal=True, flash=True)


def llms_from_scratch(n: int, d_model: int, n_heads: int) -> Layer:
    from llms_from_scratch.ch03 import MultiHeadAttention as Layer

    return Layer(d_model, d_model, n, 0.0, n_heads)


def transformers(kernel: str) -> Callable[[int, int, int], Layer]:
    def make(n: int, d_model: int, n_heads: int) -> Layer:
        from transformers import GPT2Config
        from transformers.models.gpt2.modeling_gpt2 import GPT2Attention

        config = GPT2Config(
            n_embd=d_model,
            n_head=n_heads,
            n_positions=n,
            attn_pdrop=0.0,
            resid_pdrop=0.0,
            attn_implementation=kernel,
        )
        layer, allowed = GPT2Attention(config, layer_idx=0), causal_mask(n)[None, None]
        bias = (
            None
            if kernel == "sdpa"
            else torch.zeros(allowed.shape).masked_fill(~allowed, torch.finfo(torch.float32).min)
        )
        return lambda x: layer(x, attention_mask=bias)[0]

    return make


CONTENDERS = {
    False: {
        "attention_nb": ours(False),
        REFERENCE: lambda n, d, h: Minimal(d, h),
        "nn.MultiheadAttention": pytorch(False),
        "x-transformers": x_transformers,
        "transformers (GPT-2, sdpa)": transformers("sdpa"),
    },
    True: {
        "attention_nb": ours(True),
        REFERENCE: lambda n, d, h: Minimal(d, h),
        "nn.MultiheadAttention": pytorch(True),
        "masked_fill and softmax": lambda n, d, h: Textbook(d, h),
        "llms-from-scratch": llms_from_scratch,
        "transformers (GPT-2, eager)": transformers("eager"),
    },
}


def both_ways(layers: Mapping[str, Layer], x: Tensor, backward: bool) -> dict[str, Run]:
    """Return a run of each layer on the same input:
    forward, or with gradients of the input and all parameters.
    """

    def one(layer: Layer) -> Run:
        def forward() -> object:
            with torch.no_grad():
                return layer(x)

        return (lambda: layer(x.clone().requires_grad_()).sum().backward()) if backward else forward

    return {name: one(layer) for name, layer in layers.items()}


def comparisons(b: int, n: int, d_model: int, n_heads: int) -> Iterator[Comparison]:
    "Yield comparisons: with weights and without, forward and with backward."
    for weights in (False, True):
        contenders = installed(CONTENDERS[weights], n, d_model, n_heads)
        for backward in (False, True):
            runs = both_ways(contenders, torch.randn(b, n, d_model), backward)
            yield Comparison({"weights": weights, "backward": backward}, runs)
