"""The kernels of the chapter on GPUs beside PyTorch's, and what its claims are worth, on this GPU.

    .venv/bin/python -m benchmarks.gpu [--rounds 20] [--name a100] [--n 512 1024] [--to FOLDER]

Ratios of times, measured in turns in one process: a GPU that slows down slows all. What was found
is written to `results/gpu/NAME.json`, beside the machine it was found on. Without a GPU there is
nothing to measure: exit status 2. Most of the time goes into compiling kernels for every tile that
is tried out; Triton keeps them for the next run.
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

Attend = Callable[[Tensor, Tensor, Tensor, bool], Tensor]
RESULTS = Path(__file__).parent / "results/gpu"
REFERENCE = "PyTorch, flash backend"
DTYPE = torch.bfloat16
Row = dict[str, object]
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


def fused(backend: SDPBackend) -> Attend:
    "PyTorch's attention, by one of its backends and no other."

    def attend(q: Tensor, k: Tensor, v: Tensor, causal: bool) -> Tensor:
        with sdpa_kernel(backend):
            return F.scaled_dot_product_attention(q, k, v, is_causal=causal)

    return attend


def naive(q: Tensor, k: Tensor, v: Tensor, causal: bool) -> Tensor:
    "Attention that stores all scores, operation by operation."
    s = q @ k.mT * q.shape[-1] ** -0.5
    if causal:
        future = torch.ones(*s.shape[-2:], dtype=torch.bool, device=s.device).triu(1)
        s = s.masked_fill_(future, float("-inf"))
    return s.softmax(-1) @ v


def ours(q: Tensor, k: Tensor, v: Tensor, causal: bool) -> Tensor:
    "The book's kernels, with the tiles that they find."
    from attention_nb import gpu_attention

    return gpu_attention(q, k, v, causal)


CONTENDERS: dict[str, Attend] = {
    REFERENCE: fused(SDPBackend.FLASH_ATTENTION),
    "PyTorch, cuDNN backend": fused(SDPBackend.CUDNN_ATTENTION),
    "gpu_attention": ours,
    "naive attention": naive,
}
NAIVE_UP_TO = 4096  # tokens: beyond, its matrices take too much time and memory


def able(attend: Attend, qkv: tuple[Tensor, ...]) -> bool:
    "Tell whether this GPU and this PyTorch have what it takes; print why not."
    try:
        attend(qkv[0], qkv[1], qkv[2], False)
    except RuntimeError as error:
        print(f"  left out: {str(error).splitlines()[0]}", file=sys.stderr)
        return False
    return True


def timed(
    attend: Attend,
    qkv: tuple[Tensor, ...],
    causal: bool,
    backward: bool,
    repeats: int,
) -> Run:
    "A run that says itself how long the GPU took, in seconds, for one of `repeats` calls."
    leaves = [t.detach().requires_grad_(backward) for t in qkv]
    do = torch.randn_like(qkv[0])  # the gradient of the context

    def once() -> None:
        context = attend(leaves[0], leaves[1], leaves[2], causal)
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


def drawn(n: int, width: int) -> tuple[Tensor, ...]:
    "Queries, keys and values of as many sequences as have `TOKENS` tokens together."
    torch.manual_seed(0)
    shape = (max(1, TOKENS // n), D_MODEL // width, n, width)
    return tuple(torch.randn(shape, device="cuda", dtype=DTYPE) for _ in range(3))


def compared(n: int, width: int, causal: bool, backward: bool, n_rounds: int) -> list[Row]:
    "A row for each contender, on the same tensors."
    qkv = drawn(n, width)
    b, h = qkv[0].shape[:2]
    work = operations(n, width, b * h, causal, backward)
    repeats = max(4, int(8e12 / work))
    runs = {
        name: timed(attend, qkv, causal, backward, repeats if attend is not naive else 1)
        for name, attend in CONTENDERS.items()
        if (attend is not naive or n <= NAIVE_UP_TO) and able(attend, qkv)
    }
    case: Row = {"shape": [b, h, n, width], "causal": causal, "backward": backward}
    rows = []
    for name, ratio in ratios(list(rounds(runs, n_rounds)), REFERENCE).items():
        rows.append(case | {"name": name, "tflops": round(work / ratio.seconds / 1e12, 1)})
        rows[-1] |= ratio.row()
        print(
            f"width {width:<3} n {n:<5} {'causal' if causal else 'all   '} "
            f"{'with backward' if backward else 'forward      '} "
            f"{ratio.median:5.2f} of the reference's time, {rows[-1]['tflops']:6} TFLOP/s  {name}",
            file=sys.stderr,
        )
    return rows


def measured(lengths: list[int], n_rounds: int) -> Iterator[Row]:
    "The rows of every width and length, causal and not, forward and with backward."
    for width, n, causal, backward in itertools.product(
        WIDTHS, lengths, (False, True), (False, True)
    ):
        q, k, v = drawn(n, width)
        right = CONTENDERS[REFERENCE](q, k, v, causal)
        for attend in (ours, naive) if n <= NAIVE_UP_TO else (ours,):
            torch.testing.assert_close(attend(q, k, v, causal), right, atol=2e-2, rtol=2e-2)
        yield from compared(n, width, causal, backward, n_rounds)


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
    from benchmarks import gpu_claims  # it imports Triton

    name = asked.name or str(about["gpu"])
    found: dict[str, object] = {"machine": about}
    for part, rows in (
        ("rows", measured(asked.n, asked.rounds)),
        ("claims", gpu_claims.measured(asked.rounds)),
    ):
        found[part] = list(rows)
        path = machine.keep(found, asked.to, name)
        print(f"{path}: {part}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
