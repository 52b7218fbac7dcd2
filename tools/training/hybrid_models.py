"""Train the small models of chapter 24 from nothing: `python -m tools.training.hybrid_models`.

For each seed models learn to look up numbers by names: with a state in each block, with attention
in each, and with both. A model with states may have a head start, and both ways are tried.
`attention_nb/trained/recall_….safetensors` gets the weights of the first seed of the chapter's
three, `recall.json` what was measured for all. Each model is kept in _build/recall until
all are there, so that an interrupted run goes on where it was.
"""

import argparse
import json
import multiprocessing
import sys
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.nn as nn
import torch.nn.functional as F

from attention_nb.hybrid_models import (
    PATTERNS,
    GatedDeltaNet,
    draw_pairs,
    numbers_said,
    small_hybrid,
)
from attention_nb.tools.quantised import (
    load_checkpoints,
    quantise_checkpoints,
    save_checkpoints,
    write_atomically,
)
from attention_nb.transformer import LanguageModel
from attention_nb.translation import TRAINED

WORK = Path(__file__).resolve().parents[2] / "_build" / "recall"
STEPS, RATE, ASKED = 1600, 0.008, 16
FEWEST, MOST = 4, 32  # pairs at first, and in the end
TESTED = 400  # sequences for each number of pairs
PAIRS = (2, 4, 8, 12, 16, 24, 32)
KINDS = {  # name → its pattern, and whether states have a head start
    "state": ("state", True),
    "hybrid": ("hybrid", False),
    "attention": ("attention", False),
    "hybrid, head start": ("hybrid", True),
}


def begin(model: LanguageModel, head_start: bool) -> None:
    "Let queries and keys begin equal; with a head start, keys of a state look one token back."
    with torch.no_grad():
        for block in model.stack.blocks:
            layer: Any = block.attention
            if not isinstance(layer, GatedDeltaNet):
                layer.k_proj.weight.copy_(layer.q_proj.weight)
                continue
            q, k, _ = layer.qkv_proj.weight.split(layer.widths)
            k.copy_(q)
            if head_start:
                look_back(layer)


def look_back(layer: GatedDeltaNet) -> None:
    "Let the convolution of keys begin with the token before, and all else with the token itself."
    layer.conv.mul_(0.25)
    for part, back in zip(layer.conv.split(layer.widths), (1, 2, 1)):
        part[:, -back] += 1


def n_pairs(step: int, generator: torch.Generator) -> int:
    "Draw how many pairs a step has: few at first, and more from 0.3 to 0.7 of all steps."
    grown = min(1.0, max(0.0, (step / STEPS - 0.3) / 0.4))
    most = int(FEWEST * (MOST / FEWEST) ** grown)
    return int(torch.randint(2, most + 1, (), generator=generator))


def rate(step: int) -> float:
    "Return the factor of the learning rate: up to 1 in 50 steps, down to 0 in the last third."
    return min(1.0, (step + 1) / 50, (STEPS - step) / (0.3 * STEPS))


def learn(model: LanguageModel, seed: int, device: str) -> None:
    "Train a model, on a device, on sequences that are new in each step."
    rng = torch.Generator().manual_seed(seed)
    model.to(device)
    optimiser = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, rate)
    for step in range(STEPS):
        pairs = n_pairs(step, rng)
        ids, right = draw_pairs(64 if pairs < 9 else 32, pairs, min(pairs, ASKED), rng)
        said = numbers_said(model, ids.to(device), right.shape[1])
        loss = F.cross_entropy(said.flatten(0, 1), right.flatten().to(device))
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        schedule.step()


@torch.no_grad()
def recall(model: LanguageModel, pairs: int) -> float:
    "Return the fraction of names whose number is right, in new sequences of so many pairs."
    ids, right = draw_pairs(TESTED, pairs, pairs, torch.Generator().manual_seed(1_000_000 + pairs))
    return (numbers_said(model, ids, pairs).argmax(-1) == right).float().mean().item()


def kept_at(kind: str, seed: int) -> Path:
    "Return where a model is kept until all are trained."
    return WORK / f"{kind.replace(', ', '_').replace(' ', '_')}_{seed}.safetensors"


def switch_off(block: Any) -> None:
    "Let the attention of a block add nothing."
    with torch.no_grad():
        block.attention.out_proj.weight.zero_()


def train(kind: str, seed: int, device: str = "cpu") -> dict[str, Any]:
    "Train one model, unless it is kept, with weights rounded to 8 bits; measure it on the CPU."
    torch.set_num_threads(1)
    kept = kept_at(kind, seed)
    pattern, head_start = KINDS[kind]
    torch.manual_seed(seed)
    model = small_hybrid(PATTERNS[pattern])
    begin(model, head_start)
    if not kept.exists():
        learn(model, seed, device)
        kept.parent.mkdir(parents=True, exist_ok=True)
        save_checkpoints(kept, quantise_checkpoints({STEPS: model.state_dict()}, {"seed": seed}))
    model.cpu().load_state_dict(load_checkpoints(kept).state(STEPS))
    found = {"seed": seed, "right": [round(recall(model, pairs), 4) for pairs in PAIRS]}
    if pattern != "hybrid":
        return found
    switch_off(model.stack.blocks[-1])
    return found | {"without attention": [round(recall(model, pairs), 4) for pairs in PAIRS]}


def complaints(measured: dict[str, list[dict[str, Any]]]) -> list[str]:
    "Return what misses the promises of the chapter."
    promises = {  # of 4 pairs at least; of 32 pairs at least, and at most
        "state": (0.98, 0.0, 0.8),
        "hybrid": (0.98, 0.98, 1.0),
        "attention": (0.98, 0.98, 1.0),
    }
    found = []
    for kind, (four, least, most) in promises.items():
        for run in measured[kind][: 1 if kind == "attention" else None]:  # others may not be done
            few, many = (run["right"][PAIRS.index(pairs)] for pairs in (4, 32))
            if few < four or not least <= many <= most:
                found.append(
                    f"{kind}, seed {run['seed']}: expected {four:.0%} of 4 pairs, "
                    f"{least:.0%} to {most:.0%} of 32; got {few:.1%} and {many:.1%}"
                )
    return found


def ship(measured: dict[str, list[dict[str, Any]]]) -> None:
    "Write the weights of the first seed, and what was measured for all."
    TRAINED.mkdir(exist_ok=True)
    for kind in PATTERNS:
        own = load_checkpoints(kept_at(kind, measured[kind][0]["seed"]))
        save_checkpoints(TRAINED / f"recall_{kind}.safetensors", own)
    told = {"steps": STEPS, "tested": TESTED, "pairs": PAIRS, "trainings": measured}
    text = json.dumps(told, separators=(",", ":")).replace('{"seed"', '\n{"seed"')
    write_atomically(TRAINED / "recall.json", f"{text}\n".encode())


def main() -> int:
    "The command line."
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=10, help="how many, from 0")
    parser.add_argument("--jobs", type=int, default=2, help="how many processes")
    parser.add_argument("--device", default="cpu", help="where they learn, such as cuda")
    given = parser.parse_args()
    jobs = [(kind, seed) for seed in range(given.seeds) for kind in KINDS]
    measured: dict[str, list[dict[str, Any]]] = {kind: [] for kind in KINDS}
    context = multiprocessing.get_context("spawn")  # CUDA cannot be forked
    run = partial(train, device=given.device)
    with ProcessPoolExecutor(given.jobs, mp_context=context) as pool:
        for (kind, seed), result in zip(jobs, pool.map(run, *zip(*jobs))):
            measured[kind].append(result)
            print(f"{kind}, seed {seed}: {result['right']}", flush=True)
    if found := complaints(measured):
        print("Nothing is written.", *found, sep="\n", file=sys.stderr)
        return 1
    ship(measured)
    return 0


if __name__ == "__main__":
    sys.exit(main())
