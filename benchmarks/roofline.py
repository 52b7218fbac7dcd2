"""The roofline of a machine, and measured attention below it.

Run `.venv/bin/python -m benchmarks.roofline`.

Two limits: a product of large matrices gives operations per second; a sum and a copy of large
vectors give bytes per second. Then variants of attention in prefill and in decode. Their operations
and bytes are counted, their seconds are measured. Each call reads other numbers, more than the
processor's cache holds. The results are stored with the machine that they belong to. Whatever else
runs there can only slow it down, so a second run keeps the best of both. Nothing here is a test.
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
    """Return the most bytes per second between memory and processor: read for a sum,
    or read and written for a copy.
    """
    x, y = torch.ones(numbers), torch.empty(numbers)
    read = min(seconds(lambda: x.sum()) for _ in range(tries))
    copied = min(seconds(lambda: y.copy_(x)) for _ in range(tries))
    return max(x.nbytes / read, 2 * x.nbytes / copied)


def ways(n: int, cached: int, heads: int, width: int) -> dict[str, Way]:
    "Return what is measured, and how its arguments are made, by name."
    d_model = heads * width

    def draw(h: int, n: int) -> torch.Tensor:
        return torch.randn(1, h, n, width)

    def prefill() -> tuple[torch.Tensor, ...]:
        return draw(heads, n), draw(heads, n), draw(heads, n)

    def decode(kv: int) -> Callable[[], tuple[torch.Tensor, ...]]:
        # the queries of a group are queries of one head
        return lambda: (draw(kv, heads // kv), draw(kv, cached), draw(kv, cached))

    def project(tokens: int) -> Callable[[], tuple[torch.Tensor, ...]]:
        return lambda: (torch.randn(tokens, d_model), torch.randn(4 * d_model, d_model))

    window = max(1, n // 8)
    local = lambda q, k, v: local_attention(q, k, v, window)
    linear = torch.nn.functional.linear
    found: dict[str, Way] = {
        f"prefill of {n} tokens: naive": (textbook, prefill),
        f"prefill of {n} tokens: fused": (fused_attention, prefill),
        f"prefill of {n} tokens: window of {window}": (local, prefill),
        f"prefill of {n} tokens: projections": (linear, project(n)),
    }
    for kv in (heads, max(1, heads // 4), 1):
        shared = f"{kv} heads of keys" if kv > 1 else "one head of keys"
        found[f"decode after {cached} tokens: {shared}"] = (fused_attention, decode(kv))
    return found | {f"decode, batch of {b}: projections": (linear, project(b)) for b in (1, 64)}


def timed(way: Way, tries: int, fresh: int) -> dict[str, float]:
    """Return operations and bytes, counted, and seconds, the least of some tries on arguments
    that are not in the processor's cache.
    """
    attend, make = way
    size = sum(t.nbytes for t in make())
    given = [make() for _ in range(max(1, min(64, -(-fresh // size))))]
    cost = count_cost(attend, *given[0])
    inputs = itertools.cycle(given)
    took = min(seconds(lambda: attend(*next(inputs))) for _ in range(tries + len(given)))
    return {"operations": cost.operations, "moved": cost.moved, "seconds": took}


def best(found: dict[str, Any], path: Path) -> dict[str, Any]:
    "Return the better of this run and an earlier one on the same machine, for each number."
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
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.roofline", description=__doc__.splitlines()[0]
    )
    for name, default in (
        ("tokens", 2048),
        ("cached", 8192),
        ("heads", 16),
        ("width", 128),
        ("tries", 9),
        ("fresh", 2**29),
        ("memory", 2**27),
        ("product", 1536),
    ):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--name", help="name of the file (default: the processor)")
    parser.add_argument("--to", type=Path, default=RESULTS, help="folder to write to")
    options = parser.parse_args(argv)
    rows, ceilings, bandwidths = [], [], []
    for name, way in ways(options.tokens, options.cached, options.heads, options.width).items():
        # again and again: something else may be running
        ceilings.append(machine.ceiling(options.product, 3 * options.tries))
        bandwidths.append(bandwidth(options.memory, options.tries))
        rows.append({"name": name} | timed(way, options.tries, options.fresh))
        row = rows[-1]
        print(
            f"  {name}: {row['operations'] / row['moved']:.1f} operations per byte, "
            f"{row['operations'] / row['seconds'] / 1e9:.1f} GFLOP/s",
            file=sys.stderr,
        )
    about = machine.described() | {"ceiling": max(ceilings), "bandwidth": max(bandwidths)}
    print(
        (
            f"{about['processor']}: {max(ceilings) / 1e9:.0f} GFLOP/s, "
            f"{max(bandwidths) / 1e9:.1f} GB/s"
        ),
        file=sys.stderr,
    )
    name = options.name or str(about["processor"])
    return machine.keep(
        best({"machine": about, "ways": rows}, machine.file(options.to, name)), options.to, name
    )


if __name__ == "__main__":
    main()
