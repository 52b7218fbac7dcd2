"""Four layers of a hybrid beside four of attention and four with a state, on this GPU.

    .venv/bin/python -m benchmarks.hybrid [--rounds 10] [--name h100] [--to FOLDER]

The widths of Qwen3-Next, in bfloat16. First the next token of eight sequences, after more and more
tokens; then a prompt read by the gated delta rule, token by token and in chunks. What was found is
written to `results/hybrid/NAME.json`, beside the machine it was found on. Without a GPU there is
nothing to measure: exit status 2.
"""

import argparse
import copy
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from attention_nb.hybrid_models import (
    GatedDeltaNet,
    gated_attention,
    gated_delta_chunks,
    gated_delta_rule,
)
from attention_nb.kv_cache import KVCache
from benchmarks import gpu, machine
from benchmarks.measure import Run, ratios, rounds
from torch import Tensor, nn

RESULTS = Path(__file__).parent / "results/hybrid"
KINDS = {
    "attention": ("full",) * 4,
    "hybrid": ("state", "state", "state", "full"),
    "state": ("state",) * 4,
}
SEQUENCES, D_MODEL, DTYPE, DEVICE = 8, 2048, torch.bfloat16, "cuda"
CACHED = (1024, 4096, 16384, 65536, 262144)  # tokens before the one that is timed
PROMPTS, BY_STEPS_UP_TO = (256, 1024, 4096, 16384), 4096
REPEATS = 4  # calls in one measurement
Row = dict[str, object]


def made(kind: str, n: int) -> tuple[nn.Module, Any]:
    "Make a layer, and its cache after n tokens."
    if kind == "state":
        layer: nn.Module = GatedDeltaNet(D_MODEL, 32, d_k=128, n_key_heads=16)
        return layer.to(DEVICE, DTYPE), layer.new_cache(SEQUENCES)  # type: ignore[operator]
    layer = gated_attention(D_MODEL, 16, d_head=256, n_kv_heads=2).to(DEVICE, DTYPE)
    cache = KVCache(SEQUENCES, 2, n + 1, 256, dtype=DTYPE, device=DEVICE)
    past = torch.randn(2, SEQUENCES, 2, n, 256, dtype=DTYPE, device=DEVICE)
    cache.append(*past)
    return layer, cache


def timed(call: Run) -> Run:
    "Measure a call on the GPU: the seconds of one, from events."

    def run() -> float:
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(REPEATS):
            call()
        end.record()
        torch.cuda.synchronize()
        return begin.elapsed_time(end) / 1000 / REPEATS

    return run


def recorded(call: Run) -> Run:
    "Record a call as a CUDA graph, so that its replay waits for no Python."
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            call()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()

    def replay(kept: Run = call) -> None:  # the graph reads what the call holds
        graph.replay()

    return replay


def next_token(kind: str, n: int) -> Run:
    "Return the step that reads one token more, through four layers."
    layers = [made(one, n) for one in KINDS[kind]]
    x = torch.randn(SEQUENCES, 1, D_MODEL, dtype=DTYPE, device=DEVICE)

    @torch.no_grad()
    def step() -> Tensor:
        out = x
        for layer, cache in layers:
            out = out + layer(out, cache=copy.copy(cache))[0]  # the same step each time
        return out

    return step


def decoded(n: int, n_rounds: int) -> Iterator[Row]:
    "Yield how long the next token takes after n tokens, for each kind."
    runs = {kind: timed(recorded(next_token(kind, n))) for kind in KINDS}
    for kind, ratio in ratios(list(rounds(runs, n_rounds)), "attention").items():
        yield {"part": "next token", "n": n, "name": kind, **ratio.row()}


def prompt(n: int, n_rounds: int) -> Iterator[Row]:
    "Yield how long the gated delta rule takes for a prompt of n tokens, 32 heads of width 128."
    q, k, v = torch.randn(3, 1, 32, n, 128, device=DEVICE)
    k, log_decay = F.normalize(k, dim=-1), -torch.rand(1, 32, n, device=DEVICE)
    given = q, k, v, log_decay, torch.rand(1, 32, n, device=DEVICE)
    rules = {"in chunks": gated_delta_chunks}
    if n <= BY_STEPS_UP_TO:
        rules["token by token"] = gated_delta_rule
        torch.testing.assert_close(
            gated_delta_chunks(*given), gated_delta_rule(*given), atol=1e-3, rtol=1e-3
        )
    runs = {name: timed(lambda rule=rule: rule(*given)) for name, rule in rules.items()}
    for name, ratio in ratios(list(rounds(runs, n_rounds)), "in chunks").items():
        yield {"part": "prompt", "n": n, "name": name, **ratio.row()}


def measured(n_rounds: int) -> Iterator[Row]:
    "Yield the rows of all lengths."
    for lengths, part in ((CACHED, decoded), (PROMPTS, prompt)):
        for n in lengths:
            for row in part(n, n_rounds):
                print(f"{row['part']}, {n}: {row['seconds']} s  {row['name']}", file=sys.stderr)
                yield row
            torch.cuda.empty_cache()


def main(argv: list[str] | None = None) -> int:
    "The command line; the exit status."
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.hybrid", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--rounds", type=int, default=10, help="how often each is timed")
    parser.add_argument("--name", help="of the machine, in the file's name (default: its GPU)")
    parser.add_argument("--to", type=Path, default=RESULTS, help="folder to write to")
    asked = parser.parse_args(argv)
    if why := gpu.missing():
        print(why, file=sys.stderr)
        return 2
    about = gpu.described()
    found = {"machine": about, "rows": list(measured(asked.rounds))}
    print(machine.keep(found, asked.to, asked.name or str(about["gpu"])), file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
