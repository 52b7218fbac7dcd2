"""Time contenders in one process: each once per round, in random order; compared within it."""

import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple, TypeVar

Run = Callable[[], object]
Made = TypeVar("Made")


class Comparison(NamedTuple):
    "Contenders that do the same work, and which work that is."

    case: dict[str, bool]  # with weights? with backward? …
    runs: Mapping[str, Run]


class Ratio(NamedTuple):
    "The time of a contender as a multiple of the reference: median and quartiles over the rounds."

    median: float
    low: float  # the lower quartile
    high: float  # the upper quartile
    seconds: float  # median time of one run

    def row(self) -> dict[str, float]:
        "Return it as it is stored: four digits."
        return {key: float(f"{value:.4g}") for key, value in self._asdict().items()}


def installed(makers: Mapping[str, Callable[..., Made]], *sizes: object) -> dict[str, Made]:
    "Return what each maker makes of the sizes; print a line for those whose package is missing."
    found = {}
    for name, make in makers.items():
        try:
            found[name] = make(*sizes)
        except ImportError as error:
            print(f"  {name}: left out, {error}", file=sys.stderr)
    return found


def seconds(run: Run, clock: Callable[[], float] = time.perf_counter) -> float:
    "Return the seconds that a run takes; a run that prepares something returns its own time."
    start = clock()
    took = run()
    return took if isinstance(took, float) else clock() - start


def rounds(
    runs: Mapping[str, Run], n: int, clock: Callable[[], float] = time.perf_counter
) -> Iterator[dict[str, float]]:
    "Time every contender once a round, `n` times, after one round that does not count."
    order, rng = list(runs), random.Random(0)
    for i in range(n + 1):
        rng.shuffle(order)
        timed = {name: seconds(runs[name], clock) for name in order}
        if i:
            yield timed


def ratios(timed: list[dict[str, float]], reference: str) -> dict[str, Ratio]:
    """Compare each contender with the reference of the same round:
    what slows the machine slows both.
    """
    found = {}
    for name in timed[0]:
        paired = sorted(one[name] / one[reference] for one in timed)
        low, _, high = statistics.quantiles(paired, n=4) if len(paired) > 1 else paired * 3
        found[name] = Ratio(
            statistics.median(paired), low, high, statistics.median(one[name] for one in timed)
        )
    return found
