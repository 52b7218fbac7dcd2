"""The roof of a machine, and some ways to attend below it: `.venv/bin/python -m benchmarks.roofline`.

Two ceilings: a product of large matrices, operations a second; a sum and a copy of large rows, bytes a second. Then ways
of this book, whose operations and bytes are counted and not clocked. Each reads other numbers every time, more than a
processor's own memory holds. What is found is kept beside the machine it was found on. Whatever else runs there can only
slow it down, so a second run keeps the best of both. Nothing here is a test.
"""
import argparse
import itertools
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from attention_nb import count_cost, fused_attention, local_attention
from benchmarks import machine
from benchmarks.layers import textbook
from benchmarks.measure import seconds

RESULTS = Path(__file__).parent / "results" / "roofline"
Way = tuple[Callable[..., object], Callable[[], tuple[torch.Tensor, ...]]]


def bandwidth(numbers: int = 2**27, tries: int = 9) -> float:
    "The most bytes a second that go between memory and processor: read for a sum, or read and written for a copy."
    x, y = torch.ones(numbers), torch.empty(numbers)
    read = min(seconds(lambda: x.sum()) for _ in range(tries))
    copied = min(seconds(lambda: y.copy_(x)) for _ in range(tries))
    return max(x.nbytes / read, 2 * x.nbytes / copied)


def ways(n: int, cached: int, heads: int, width: int) -> dict[str, Way]:
    "What is clocked, and how its arguments are made."
    d_model = heads * width

    def draw(h: int, n: int) -> torch.Tensor:
        return torch.randn(1, h, n, width)

    def read() -> tuple[torch.Tensor, ...]:
        return draw(heads, n), draw(heads, n), draw(heads, n)

    def write(kv: int) -> Callable[[], tuple[torch.Tensor, ...]]:
        return lambda: (draw(kv, heads // kv), draw(kv, cached), draw(kv, cached))  # heads of one word: queries of one head

    def project(words: int) -> Callable[[], tuple[torch.Tensor, ...]]:
        return lambda: (torch.randn(words, d_model), torch.randn(4 * d_model, d_model))

    local = lambda q, k, v: local_attention(q, k, v, max(1, n // 8))
    found: dict[str, Way] = {
        f"read {n} words: naive": (textbook, read), f"read {n} words: fused": (fused_attention, read),
        f"read {n} words: window of {max(1, n // 8)}": (local, read),
        f"read {n} words: projections": (torch.nn.functional.linear, project(n))}
    for kv in (heads, max(1, heads // 4), 1):
        found[f"write after {cached} words: {kv} heads of keys" if kv > 1 else f"write after {cached} words: one head of keys"] = (fused_attention, write(kv))
    return found | {f"write for {b}: projections": (torch.nn.functional.linear, project(b)) for b in (1, 64)}


def clocked(way: Way, tries: int, fresh: int) -> dict[str, float]:
    "Operations and bytes, counted; seconds, the least of some tries on arguments that lie far from the processor."
    attend, make = way
    size = sum(t.nbytes for t in make())
    given = [make() for _ in range(max(1, min(64, -(-fresh // size))))]
    cost = count_cost(attend, *given[0])
    turn = itertools.cycle(given)
    return {"operations": cost.operations, "moved": cost.moved, "seconds": min(seconds(lambda: attend(*next(turn))) for _ in range(tries + len(given)))}


def best(found: dict[str, Any], path: Path) -> dict[str, Any]:
    "The same, where an earlier run on this machine was faster with what that run reached."
    if not path.exists():
        return found
    old = json.loads(path.read_text(encoding="utf-8"))
    for key in ("ceiling", "bandwidth"):
        found["machine"][key] = max(found["machine"][key], old["machine"][key])
    took = {row["name"]: row["seconds"] for row in old["ways"]}
    for row in found["ways"]:
        row["seconds"] = min(row["seconds"], took.get(row["name"], row["seconds"]))
    return found


@torch.no_grad()
def main(argv: list[str] | None = None) -> Path:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.roofline", description=__doc__.splitlines()[0])
    for name, default in (("words", 2048), ("cached", 8192), ("heads", 16), ("width", 128), ("tries", 9), ("fresh", 2**29), ("memory", 2**27), ("product", 1536)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--name", help="name of the file (default: the processor)")
    parser.add_argument("--to", type=Path, default=RESULTS, help="folder to write to")
    asked = parser.parse_args(argv)
    rows, ceilings, bandwidths = [], [], []
    for name, way in ways(asked.words, asked.cached, asked.heads, asked.width).items():
        ceilings.append(machine.ceiling(asked.product, 3 * asked.tries))  # again and again: something else may be running
        bandwidths.append(bandwidth(asked.memory, asked.tries))
        rows.append({"name": name} | clocked(way, asked.tries, asked.fresh))
        row = rows[-1]
        print(f"  {name}: {row['operations'] / row['moved']:.1f} operations for each byte, "
              f"{row['operations'] / row['seconds'] / 1e9:.1f} GFLOP/s", file=sys.stderr)
    about = machine.described() | {"ceiling": max(ceilings), "bandwidth": max(bandwidths)}
    print(f"{about['processor']}: {max(ceilings) / 1e9:.0f} GFLOP/s, {max(bandwidths) / 1e9:.1f} GB/s", file=sys.stderr)
    name = asked.name or str(about["processor"])
    return machine.keep(best({"machine": about, "ways": rows}, machine.file(asked.to, name)), asked.to, name)


if __name__ == "__main__":
    main()
