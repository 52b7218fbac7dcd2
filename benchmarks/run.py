"""`make bench`: measure side by side, and store the results with a description of the machine."""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import torch
from benchmarks import decoding, flash, grouped, layers, local_attention, machine, prefill
from benchmarks.measure import ratios, rounds

RESULTS = Path(__file__).parent / "results"
# SIZES names the numbers of a shape, SHAPES lists the shapes to measure,
# REFERENCE is the contender that is 1.
TOPICS: dict[str, ModuleType] = {
    "layers": layers,
    "grouped": grouped,
    "decoding": decoding,
    "prefill": prefill,
    "flash": flash,
    "local": local_attention,
}


def rows(
    topic: ModuleType, shapes: list[tuple[int, ...]], n_rounds: int
) -> Iterator[dict[str, object]]:
    "Yield a row for every shape, case and contender."
    for shape in shapes:
        torch.manual_seed(0)
        for comparison in topic.comparisons(*shape):
            sizes = ", ".join(f"{name} {size}" for name, size in zip(topic.SIZES, shape))
            print(
                "; ".join([sizes, *(name for name, is_so in comparison.case.items() if is_so)]),
                file=sys.stderr,
            )
            timed = list(rounds(comparison.runs, n_rounds))
            for name, ratio in ratios(timed, topic.REFERENCE).items():
                print(
                    f"  {ratio.median:6.2f} ×  ({ratio.low:.2f} to {ratio.high:.2f})  {name}",
                    file=sys.stderr,
                    flush=True,
                )
                yield {"shape": list(shape), **comparison.case, "name": name, **ratio.row()}


def arguments(argv: list[str] | None) -> argparse.Namespace:
    "The command line; SystemExit with a message where a shape does not fit."
    parser = argparse.ArgumentParser(
        prog="make bench",
        description=__doc__,
        epilog="sizes of a shape: "
        + "; ".join(f"{name}: {' '.join(topic.SIZES)}" for name, topic in TOPICS.items()),
    )
    parser.add_argument(
        "topics",
        nargs="*",
        metavar="topic",
        help=f"what to measure (default: all of {', '.join(TOPICS)})",
    )
    parser.add_argument(
        "--rounds", type=int, default=9, help="how often each is timed (default: 9)"
    )
    parser.add_argument(
        "--shape",
        type=int,
        nargs="+",
        action="append",
        metavar="SIZE",
        help="measure this one, and not those of the topic; may be given again",
    )
    parser.add_argument(
        "--threads",
        type=int,
        default=torch.get_num_threads(),
        help="threads of PyTorch (default: %(default)s)",
    )
    parser.add_argument(
        "--name", help="how the machine is called in the name of the file (default: its processor)"
    )
    parser.add_argument(
        "--to", type=Path, default=RESULTS, help="folder to write to (default: benchmarks/results)"
    )
    asked = parser.parse_args(argv)
    if unknown := [name for name in asked.topics if name not in TOPICS]:
        parser.error(f"topic: expected some of {', '.join(TOPICS)}; got {', '.join(unknown)}")
    if asked.shape and len(asked.topics) != 1:
        parser.error(
            "--shape: expected one topic beside it, whose sizes it gives; got "
            + (", ".join(asked.topics) or "none")
        )
    for shape in asked.shape or ():
        if len(shape) != len(sizes := TOPICS[asked.topics[0]].SIZES):
            parser.error(f"--shape: expected {len(sizes)} sizes, {' '.join(sizes)}; got {shape}")
    return asked


def main(argv: list[str] | None = None) -> list[Path]:
    "The command line; where the results were written, a file for each topic."
    asked = arguments(argv)
    torch.set_num_threads(asked.threads)
    paths = []
    for name in asked.topics or TOPICS:
        before = machine.ceiling()
        found = list(rows(TOPICS[name], asked.shape or list(TOPICS[name].SHAPES), asked.rounds))
        ceiling = max(before, machine.ceiling())  # at both ends: a machine is not always as fast
        about = machine.described() | {"ceiling": ceiling}
        print(
            f"{about['processor']}, {about['threads']} threads, "
            f"matrices at {ceiling / 1e9:.0f} GFLOP/s",
            file=sys.stderr,
        )
        kept = {"machine": about, "sizes": list(TOPICS[name].SIZES), "rows": found}
        paths.append(machine.keep(kept, asked.to / name, asked.name or str(about["processor"])))
        print(f"{paths[-1]}: {len(found)} rows", file=sys.stderr)
    return paths


if __name__ == "__main__":
    main()
