"""Prefill, at once or in chunks:
this book's layer with its KV cache beside a layer of transformers.

Same widths, rotary embeddings, weights of the same shapes. Seconds are those of one prompt,
or of one chunk after the tokens in the cache.
"""

from collections.abc import Iterator
from functools import partial

import torch
from benchmarks import decoding
from benchmarks.measure import Comparison, installed

SIZES = ("d_model", "heads", "kv_heads", "cached", "new")
SHAPES = tuple((1024, 16, 4, *prompt) for prompt in ((0, 512), (0, 2048), (4096, 16), (4096, 256)))
REFERENCE = decoding.REFERENCE
CONTENDERS = {
    name: partial(make, n_steps=1)
    for name, make in decoding.CONTENDERS.items()
    if not name.startswith("x-")
}


def comparisons(d_model: int, h: int, h_kv: int, cached: int, new: int) -> Iterator[Comparison]:
    "Yield one comparison, without gradients."
    made = installed(CONTENDERS, torch.randn(1, new, d_model), d_model, h, h_kv, cached)
    yield Comparison({}, {name: torch.no_grad()(step) for name, step in made.items()})
