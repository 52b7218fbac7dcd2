"""What the chapter on GPU kernels says of tiles, masks and order, measured on the GPU that is here.

Each claim is one change of the forward kernel, with tiles of a given size: nothing is tried out, so
nothing else differs. With fewer than 16 heads a launch takes longer than the kernel.
"""

import sys
from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import patch

import torch
import triton
import triton.language as tl
from attention_nb import gpu_attention, gpu_kernels
from benchmarks.gpu import DTYPE, Row, timed
from benchmarks.measure import Run, ratios, rounds
from torch import Tensor

N, WIDTH, TILE = 4096, 64, (128, 64)


# The next two are compiled by Triton, which reads no types but its own.
def every_tile_masked(  # type: ignore[no-untyped-def]
    first, n_q, n_k, CAUSAL: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr
):
    "In the place of `_keys_of`: no tile counts as one without a masked key."
    last = n_k
    if CAUSAL:
        last = tl.minimum(n_k, first + n_k - n_q + BLOCK_Q)
    return 0 * n_k, last


def first_block_first(CAUSAL: tl.constexpr, BLOCK_Q: tl.constexpr):  # type: ignore[no-untyped-def]
    "In the place of `_block`: the block with the fewest tiles starts first."
    return tl.program_id(1).to(tl.int64), tl.program_id(0) * BLOCK_Q


def forward(
    heads: int, causal: bool, tile: tuple[int, int] = TILE, **other: Callable[..., Any]
) -> Run:
    "Run the forward kernel on random tensors; `other` are functions that it calls instead."
    gpu_kernels._triton()
    kernels = {name: triton.jit(fn) for name, fn in other.items()}
    kernels["_forward_kernel"] = triton.jit(gpu_kernels._KERNELS["_forward_kernel"])
    torch.manual_seed(0)
    qkv = tuple(torch.randn(1, heads, N, WIDTH, device="cuda", dtype=DTYPE) for _ in range(3))

    def attend(q: Tensor, k: Tensor, v: Tensor, causal: bool) -> Tensor:
        return gpu_attention(q, k, v, causal, tile=tile)

    run = timed(attend, qkv, causal, backward=False, repeats=20)

    def swapped_run() -> object:
        with patch.multiple(gpu_kernels, **kernels):
            return run()

    return swapped_run


def claims() -> Iterator[tuple[str, int, dict[str, Run]]]:
    "Each claim, the number of heads, and its contenders; the first is the reference."
    yield (
        "queries of a program",
        128,
        {str(n): forward(128, False, (n, 64)) for n in (16, 32, 64, 128)},
    )
    yield "causal skipping", 128, {"all": forward(128, False), "causal": forward(128, True)}
    for heads in (16, 32, 128):
        runs = {
            "last": forward(heads, True),
            "first": forward(heads, True, _block=first_block_first),
        }
        yield "which block starts first", heads, runs
    for causal in (False, True):
        runs = {
            "where needed": forward(128, causal),
            "everywhere": forward(128, causal, _keys_of=every_tile_masked),
        }
        yield f"masks{', causal' if causal else ''}", 128, runs


def measured(n_rounds: int) -> Iterator[Row]:
    "A row for each contender of each claim."
    for claim, heads, runs in claims():
        for name, ratio in ratios(list(rounds(runs, n_rounds)), next(iter(runs))).items():
            print(f"{claim}, {heads} heads: {name} {ratio.median:.2f}", file=sys.stderr)
            yield {"claim": claim, "heads": heads, "name": name, **ratio.row()}
