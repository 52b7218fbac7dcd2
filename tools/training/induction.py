"""Train the small models of chapter 9 from nothing.

Run `python -m tools.training.induction --seeds 10`.

For each seed four models learn: the model of the chapter, the same without a penalty on heads, and
one of a single block, once on sequences of all periods and once on those of one.
`attention_nb/trained/induction.safetensors` gets the checkpoints of the first seed,
`induction.json` what was measured for all of them. Each model is kept in _build/induction until all
are there, so that an interrupted run goes on where it was.
"""

import argparse
import json
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from attention_nb.induction import (
    Head,
    ablate,
    along_path,
    attention_only,
    copying,
    copying_loss,
    induction_score,
    patch,
    previous_token_score,
    repeated_sequences,
    train_to_copy,
)
from attention_nb.tools.quantised import quantise_checkpoints, save_checkpoints, write_atomically
from attention_nb.transformer import LanguageModel
from attention_nb.translation import TRAINED, head_weights

ROOT = Path(__file__).resolve().parents[2]
WORK = ROOT / "_build" / "induction"
CONFIG = dict(n_blocks=2, vocabulary=32, d_model=32, n_heads=4, d_head=16)
# Checkpoints that are shipped.
KEPT = (0, 100, 150, 175, 200, 225, 250, 275, 300, 350, 400, 600, 1000)
EVERY = 25  # steps between two points of a curve
PERIOD, TESTED = 16, 128  # of the sequences that models are tested on; how many
KINDS: dict[str, dict[str, Any]] = {
    "model": {},
    "without penalty": dict(penalty=0.0),
    "one block": {},
    "one block, one period": dict(periods=(PERIOD, PERIOD)),
}


class Tests(NamedTuple):
    "The sequences that every model is tested on, and others that say nothing about them."

    ids: Tensor  # (TESTED, 2 * PERIOD)
    others: Tensor  # of the same shape


def draw_tests() -> Tests:
    "Draw the test sequences, which are the same for all seeds."
    rng = torch.Generator().manual_seed(1_000_000)
    return Tests(*(repeated_sequences(TESTED, PERIOD, CONFIG["vocabulary"], rng) for _ in range(2)))


@torch.no_grad()
def measure(model: LanguageModel, ids: Tensor) -> dict[str, Any]:
    "Return a point of the curves: loss, copying, and both scores of all heads."
    weights = head_weights(model, ids)
    scores = {"induction": induction_score, "previous": previous_token_score}
    return {"loss": copying_loss(model, ids).item(), "copying": copied(model, ids)} | {
        name: [score(of_layer).mean(0).tolist() for of_layer in weights]
        for name, score in scores.items()
    }


@torch.no_grad()
def copied(model: LanguageModel, ids: Tensor) -> float:
    "Return the fraction of the second round that is predicted right."
    return copying(model(ids), ids).item()


def without(model: LanguageModel, heads: list[Head], how: str, tests: Tests) -> float:
    "Return how much is copied without some heads."
    with ablate(model, heads, how, tests.others):
        return copied(model, tests.ids)


def along(model: LanguageModel, sender: Head, receiver: Head, part: str, tests: Tests) -> float:
    "Return how much is copied if one path alone carries another sequence."
    seen = along_path(model, sender, [receiver._replace(part=part)], (tests.ids,), (tests.others,))
    with patch(model, seen):
        return copied(model, tests.ids)


def best(scores: list[float]) -> int:
    "Return which head has the highest score."
    return max(range(len(scores)), key=lambda i: scores[i])


def intervene(model: LanguageModel, end: dict[str, Any], tests: Tests) -> dict[str, Any]:
    "Return what all interventions on a trained model of two blocks do to copying."
    h = CONFIG["n_heads"]
    induction = Head(1, best(end["induction"][1]))
    heads = [[Head(layer, i) for i in range(h)] for layer in range(2)]
    rest = [head for head in heads[1] if head != induction]
    ablated = {
        how: [[without(model, [head], how, tests) for head in layer] for layer in heads]
        for how in ("mean", "resample")
    }
    previous = Head(0, best([-right for right in ablated["resample"][0]]))
    both = [head for layer in heads for head in layer if head not in (induction, previous)]
    return {
        "induction_head": induction.head,
        "previous_head": previous.head,
        "ablated": ablated,
        "alone_in_layer": {how: without(model, rest, how, tests) for how in ablated},
        "two_heads": {how: without(model, both, how, tests) for how in ablated},
        "paths": [
            {part: along(model, head, induction, part, tests) for part in "qkv"}
            for head in heads[0]
        ],
    }


def train(kind: str, seed: int) -> dict[str, Any]:
    "Train one model; return what was measured, and keep it with its checkpoints."
    kept = WORK / f"{kind.replace(', ', '_').replace(' ', '_')}_{seed}.pt"
    if kept.exists():
        return torch.load(kept)["measured"]
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    tests, curve, states = draw_tests(), {}, {}
    model = attention_only(**CONFIG | ({"n_blocks": 1} if kind.startswith("one block") else {}))
    for step, _ in train_to_copy(model, KEPT[-1], seed, **KINDS[kind]):
        if step % EVERY == 0:
            curve[step] = measure(model, tests.ids)
        if step in KEPT:
            states[step] = {name: t.clone() for name, t in model.state_dict().items()}
    measured = {"seed": seed, "curve": curve}
    if not kind.startswith("one block"):
        measured |= intervene(model, curve[KEPT[-1]], tests)
    kept.parent.mkdir(parents=True, exist_ok=True)
    torch.save({"measured": measured, "states": states}, kept)
    return measured


def rounded(x: Any) -> Any:
    "Return the same with four decimals, which is more than another processor agrees on."
    if isinstance(x, dict):
        return {str(key): rounded(value) for key, value in x.items()}
    if isinstance(x, list):
        return [rounded(value) for value in x]
    return round(x, 4) if isinstance(x, float) else x


def complaints(measured: dict[str, list[dict[str, Any]]]) -> list[str]:
    "Return what misses the promises of the chapter."
    found = []
    for run in measured["model"]:
        induction, previous, end = (
            run["induction_head"],
            run["previous_head"],
            run["curve"][KEPT[-1]],
        )
        rest = [
            right
            for layer, mine in ((0, previous), (1, induction))
            for how in run["ablated"].values()
            for head, right in enumerate(how[layer])
            if head != mine
        ]
        promises = {
            "an induction score over 0.9": end["induction"][1][induction] > 0.9,
            "99% copied": end["copying"] >= 0.99,
            "5% at most without the induction head": all(
                h[1][induction] <= 0.05 for h in run["ablated"].values()
            ),
            "10% at most without the previous-token head": all(
                h[0][previous] <= 0.1 for h in run["ablated"].values()
            ),
            "98% at least without another head": min(rest) >= 0.98,
            "99% by one head of its layer": min(run["alone_in_layer"].values()) >= 0.99,
        }
        found += [
            f"seed {run['seed']}: expected {promise}"
            for promise, kept in promises.items()
            if not kept
        ]
    return found


def ship(measured: dict[str, list[dict[str, Any]]], seed: int) -> None:
    "Write both files; of the models beside that of the chapter only the last point of each curve."
    TRAINED.mkdir(exist_ok=True)
    states = torch.load(WORK / f"model_{seed}.pt")["states"]
    about = {"config": CONFIG, "seed": seed}
    save_checkpoints(TRAINED / "induction.safetensors", quantise_checkpoints(states, about))
    last = KEPT[-1]
    short = {
        kind: [run | {"curve": {last: run["curve"][last]}} for run in runs]
        for kind, runs in measured.items()
    }
    told = {"config": CONFIG, "period": PERIOD, "trainings": short | {"model": measured["model"]}}
    text = json.dumps(rounded(told), separators=(",", ":")).replace('{"seed"', '\n{"seed"')
    write_atomically(TRAINED / "induction.json", f"{text}\n".encode())


def say(kind: str, seed: int, measured: dict[str, Any]) -> None:
    "Print one line on a trained model."
    end = measured["curve"][KEPT[-1]]
    line = f"{kind}, seed {seed}: copying {end['copying']:.3f}, loss {end['loss']:.3f}"
    if "ablated" in measured:
        head = measured["induction_head"]
        line += (
            f", induction score {end['induction'][1][head]:.3f}, without its head "
            f"{measured['ablated']['resample'][1][head]:.3f}"
        )
    print(line, flush=True)


def main() -> int:
    "The command line."
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=10, help="how many, from 0")
    parser.add_argument("--jobs", type=int, default=2, help="how many processes")
    asked = parser.parse_args()
    jobs = [(kind, seed) for kind in KINDS for seed in range(asked.seeds)]
    measured: dict[str, list[dict[str, Any]]] = {kind: [] for kind in KINDS}
    with ProcessPoolExecutor(asked.jobs) as pool:
        for (kind, seed), result in zip(jobs, pool.map(train, *zip(*jobs))):
            measured[kind].append(result)
            say(kind, seed, result)
    if found := complaints(measured):
        print("Nothing is written.", *found, sep="\n", file=sys.stderr)
        return 1
    ship(measured, seed=0)
    return 0


if __name__ == "__main__":
    sys.exit(main())
