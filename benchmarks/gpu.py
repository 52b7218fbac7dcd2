"""The kernels of the chapter on GPUs beside PyTorch's flash backend, on the GPU that is here.

    .venv/bin/python -m benchmarks.gpu [--rounds 20] [--name a100] [--n 512 1024] [--to FOLDER]

Ratios of times, measured in turns in one process: a GPU that slows down slows both. What was found
is written to `results/gpu/NAME.json`, beside the machine it was found on. Without a GPU there is
nothing to measure: exit status 2.
"""

import argparse
import importlib.metadata
import importlib.util
import itertools
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
import torch.nn.functional as F
from benchmarks import machine
from benchmarks.measure import Run, ratios, rounds
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

RESULTS = Path(__file__).parent / "results/gpu"
REFERENCE, OURS = "PyTorch, flash backend", "gpu_attention"
TYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16}
WIDTHS, LENGTHS = (64, 128), (512, 1024, 2048, 4096, 8192, 16384)
# Tokens in all sequences together, and width of all heads: the same memory for all.
TOKENS, D_MODEL = 16384, 2048


def missing() -> str:
    "Why nothing can be measured here; empty if it can."
    if not torch.cuda.is_available():
        return (
            "PyTorch sees no CUDA GPU here, so there is nothing to measure; "
            "the kernels' values are proven by nbs/20_gpu_kernels.ipynb"
        )
    return "" if importlib.util.find_spec("triton") else "Triton is not installed: make .venv/.gpu"


def fused(q: Tensor, k: Tensor, v: Tensor, causal: bool) -> Tensor:
    "PyTorch's attention, by its flash backend and no other."
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal)


def ours(q: Tensor, k: Tensor, v: Tensor, causal: bool) -> Tensor:
    "The book's kernels, with the tiles that they find."
    from attention_nb import gpu_attention

    context = gpu_attention(q, k, v, causal)
    assert isinstance(context, Tensor)
    return context


def timed(
    attend: Callable[..., Tensor],
    qkv: tuple[Tensor, ...],
    causal: bool,
    backward: bool,
    repeats: int,
) -> Run:
    "A run that says itself how long the GPU took, in seconds, for one of `repeats` calls."
    leaves = [t.detach().requires_grad_(backward) for t in qkv]
    do = torch.randn_like(qkv[0])  # the gradient of the context

    def once() -> None:
        context = attend(*leaves, causal)
        if backward:
            torch.autograd.grad(context, leaves, do)

    def run() -> float:
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        start.record()
        for _ in range(repeats):
            once()
        end.record()
        torch.cuda.synchronize()
        return start.elapsed_time(end) / 1000 / repeats

    return run


def operations(n: int, width: int, heads: int, causal: bool, backward: bool) -> float:
    """Multiplications and additions of two products, and of five more with the gradients;
    half of them where half is hidden.
    """
    return 4.0 * n * n * width * heads * (3.5 if backward else 1) * (0.5 if causal else 1)


def measured(lengths: list[int], n_rounds: int) -> Iterator[dict[str, object]]:
    "A row for every type, width, length and contender, causal and not, forward and with backward."
    for (dtype, width), n, causal, backward in itertools.product(
        itertools.product(TYPES, WIDTHS), lengths, (False, True), (False, True)
    ):
        b, h = max(1, TOKENS // n), D_MODEL // width
        torch.manual_seed(0)
        q, k, v = (torch.randn(b, h, n, width, device="cuda", dtype=TYPES[dtype]) for _ in range(3))
        torch.testing.assert_close(
            ours(q, k, v, causal), fused(q, k, v, causal), atol=2e-2, rtol=2e-2
        )
        work = operations(n, width, b * h, causal, backward)
        repeats = max(1, int(2e12 / work))
        runs = {
            name: timed(f, (q, k, v), causal, backward, repeats)
            for name, f in ((REFERENCE, fused), (OURS, ours))
        }
        for name, ratio in ratios(list(rounds(runs, n_rounds)), REFERENCE).items():
            print(
                f"{dtype:<9} width {width:<3} n {n:<5} {'causal' if causal else 'all   '} "
                f"{'with backward' if backward else 'forward      '} "
                f"{1 / ratio.median:5.0%} of the reference's speed, "
                f"{work / ratio.seconds / 1e12:6.1f} TFLOP/s  {name}",
                file=sys.stderr,
            )
            yield {
                "dtype": dtype,
                "shape": [b, h, n, width],
                "causal": causal,
                "backward": backward,
                "name": name,
                **ratio.row(),
            }


def described() -> dict[str, object]:
    "The machine, with its GPU."
    about = torch.cuda.get_device_properties(0)
    return machine.described() | {
        "gpu": about.name,
        "memory": about.total_memory,
        "capability": [about.major, about.minor],
        "cuda": torch.version.cuda,
        "triton": importlib.metadata.version("triton"),
    }


def main(argv: list[str] | None = None) -> int:
    "The command line; the exit status."
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gpu", description="Our kernels beside PyTorch's flash backend"
    )
    parser.add_argument(
        "--rounds", type=int, default=20, help="how often each is timed (default: 20)"
    )
    parser.add_argument(
        "--n", type=int, nargs="+", default=list(LENGTHS), help="lengths to measure"
    )
    parser.add_argument(
        "--name", help="how the machine is called in the name of the file (default: its GPU)"
    )
    parser.add_argument(
        "--to",
        type=Path,
        default=RESULTS,
        help="folder to write to (default: benchmarks/results/gpu)",
    )
    asked = parser.parse_args(argv)
    if why := missing():
        print(why, file=sys.stderr)
        return 2
    about = described()
    rows = list(measured(asked.n, asked.rounds))
    path = machine.keep(
        {"machine": about, "kernels": rows}, asked.to, asked.name or str(about["gpu"])
    )
    print(f"{path}: {len(rows)} rows", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
