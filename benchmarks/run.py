"""`make bench`: measure, side by side, and keep what was found beside the machine it was found on."""
import argparse
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import torch
from benchmarks import layers, machine
from benchmarks.measure import Run, ratios, rounds

RESULTS = Path(__file__).parent / "results"


def runs(contenders: Mapping[str, layers.Layer], x: torch.Tensor, backward: bool) -> dict[str, Run]:
    "Each contender on the same rows: forward, or forward and backward to the rows and all parameters."
    def one(layer: layers.Layer) -> Run:
        def forward() -> object:
            with torch.no_grad():
                return layer(x)
        return (lambda: layer(x.clone().requires_grad_()).sum().backward()) if backward else forward
    return {name: one(layer) for name, layer in contenders.items()}


def made(weights: bool, n: int, d_model: int, n_heads: int) -> dict[str, layers.Layer]:
    "The contenders whose packages are installed."
    found = {}
    for name, make in layers.CONTENDERS[weights].items():
        try:
            found[name] = make(n, d_model, n_heads)
        except ImportError as error:
            print(f"  {name}: left out, {error}", file=sys.stderr)
    return found


def measured(shapes: list[tuple[int, ...]], n_rounds: int) -> Iterator[dict[str, object]]:
    "A row for every shape, contender, direction, with weights and without."
    for b, n, d_model, n_heads in shapes:
        for weights in (False, True):
            torch.manual_seed(0)
            contenders = made(weights, n, d_model, n_heads)
            for backward in (False, True):
                print(f"b {b}, n {n}, d_model {d_model}, heads {n_heads}, {'with' if weights else 'without'} weights, "
                      f"{'forward and backward' if backward else 'forward'}", file=sys.stderr)
                timed = list(rounds(runs(contenders, torch.randn(b, n, d_model), backward), n_rounds))
                for name, ratio in ratios(timed, layers.REFERENCE).items():
                    print(f"  {ratio.median:6.2f} ×  ({ratio.low:.2f} to {ratio.high:.2f})  {name}", file=sys.stderr)
                    yield {"shape": [b, n, d_model, n_heads], "weights": weights, "backward": backward, "name": name,
                           **{key: float(f"{value:.4g}") for key, value in ratio._asdict().items()}}


def main(argv: list[str] | None = None) -> Path:
    "The command line; where the result was written."
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--rounds", type=int, default=9, help="how often each is timed (default: 9)")
    parser.add_argument("--shape", type=int, nargs=4, action="append", metavar=("B", "N", "D_MODEL", "HEADS"),
                        help="measure this one instead of the three; may be given again")
    parser.add_argument("--name", help="how the machine is called in the name of the file (default: its processor)")
    parser.add_argument("--to", type=Path, default=RESULTS, help="folder to write to (default: benchmarks/results)")
    asked = parser.parse_args(argv)
    about = machine.described() | {"ceiling": machine.ceiling()}
    print(f"{about['processor']}, {about['threads']} threads, matrices at {about['ceiling'] / 1e9:.0f} GFLOP/s", file=sys.stderr)
    rows = list(measured(asked.shape or list(layers.SHAPES), asked.rounds))
    path = machine.keep({"machine": about, "layers": rows}, asked.to, asked.name or str(about["processor"]))
    print(f"{path}: {len(rows)} rows", file=sys.stderr)
    return path


if __name__ == "__main__":
    main()
