"""Train the small vision transformer of chapter 23 from nothing: `python -m tools.training.images`.

For each seed five models learn: the model of the chapter, the same without positions, one that
takes the mean of all patches in place of a class token, and two that say where a shape stands, with
and without positions. `attention_nb/trained/images.safetensors` gets the weights of the first seed,
`images.json` what was measured for all. Each model is kept in _build/images until all are there, so
that an interrupted run goes on where it was.
"""

import argparse
import json
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor

from attention_nb.images import (
    BOX,
    SHAPES,
    SIDE,
    Pictures,
    VisionTransformer,
    class_attention,
    cover_patches,
    draw_pictures,
    shape_patches,
    small_vit,
)
from attention_nb.tools.quantised import (
    load_checkpoints,
    quantise_checkpoints,
    save_checkpoints,
    write_atomically,
)
from attention_nb.translation import TRAINED, head_weights

WORK = Path(__file__).resolve().parents[2] / "_build" / "images"
STEPS, BATCH, RATE = 1500, 128, 0.003
TESTED = 2000  # pictures that every model is tested on
COVERED = (1, 2, 4, 6, 9)  # patches that are covered
CONFIG: dict[str, Any] = dict(n_blocks=2, d_model=32, n_heads=2, d_ff=64, size=4)
KINDS: dict[str, dict[str, Any]] = {
    "model": {},
    "no positions": dict(positions=False),
    "mean of the patches": dict(class_token=False),
    "where": {},
    "where, no positions": dict(positions=False),
}


def asked(kind: str, pictures: Pictures) -> Tensor:
    "Return what a model should answer: the shape, or the quarter of the picture it begins in."
    if not kind.startswith("where"):
        return pictures.labels
    row, column = (pictures.corners >= (SIDE - BOX + 1) // 2).long().T
    return 2 * row + column


def draw_tests() -> Pictures:
    "Draw the test pictures, which are the same for all seeds."
    return draw_pictures(TESTED, torch.Generator().manual_seed(1_000_000))


@torch.no_grad()
def right(model: VisionTransformer, images: Tensor, labels: Tensor) -> float:
    "Return the fraction of pictures that are named right."
    return (model(images).argmax(-1) == labels).float().mean().item()


def rollout(model: VisionTransformer, images: Tensor) -> Tensor:
    "Return the weights of all blocks multiplied, from the class token to patches, (b, n)."
    weights = torch.stack(head_weights(model, images), 1).mean(2)  # (b, blocks, 1 + n, 1 + n)
    whole = torch.eye(weights.shape[-1])
    for block in weights.unbind(1):
        whole = (block + torch.eye(block.shape[-1])) / 2 @ whole  # half is the residual connection
    return whole[:, 0, 1:]


def orders(model: VisionTransformer, tests: Pictures) -> dict[str, Tensor]:
    "Return in which order patches are covered, a number for each, the largest first."
    looks = class_attention(model, tests.images).mean(2)  # (b, blocks, n)
    own = shape_patches(tests.corners, CONFIG["size"])
    chance = torch.rand(own.shape, generator=torch.Generator().manual_seed(2_000_000))
    return {
        "most attended in the last block": looks[:, -1],
        "most attended in the first block": looks[:, 0],
        "highest rollout": rollout(model, tests.images),
        "random": chance,
        "least attended in the last block": -looks[:, -1],
        "of the shape": own,
        "most attended, outside the shape": looks[:, -1].masked_fill(own > 0, -1),
        "random, outside the shape": chance.masked_fill(own > 0, -1),
    }


@torch.no_grad()
def answers(model: VisionTransformer, tests: Pictures, order: Tensor, k: int) -> Tensor:
    "Return what the model says with the first k patches covered, (b,)."
    hidden = torch.zeros_like(order, dtype=torch.bool)
    hidden.scatter_(1, order.topk(k).indices, True)
    return model(cover_patches(tests.images, hidden, CONFIG["size"])).argmax(-1)


def measure(model: VisionTransformer, tests: Pictures) -> dict[str, Any]:
    "Return where the class token looks, what covering patches does, and what is said then."
    on_shape = (shape_patches(tests.corners, CONFIG["size"]) > 0).float()  # (b, n)
    looks = class_attention(model, tests.images)
    share = (looks * on_shape[:, None, None]).sum(-1) / looks.sum(-1)
    order = orders(model, tests)
    right = {
        name: [(answers(model, tests, by, k) == tests.labels).float() for k in COVERED]
        for name, by in order.items()
    }
    four = right["most attended in the last block"][COVERED.index(4)]
    without = answers(model, tests, order["of the shape"], COVERED[-1])
    kinds = range(len(SHAPES))
    return {
        "share": share.mean(0).tolist(),
        "covered": {name: [r.mean().item() for r in each] for name, each in right.items()},
        "four covered, by shape": [four[tests.labels == kind].mean().item() for kind in kinds],
        "said without the shape": [(without == kind).float().mean().item() for kind in kinds],
    }


def rate(step: int) -> float:
    "Return the factor of the learning rate: up to 1 in 50 steps, down to 0 in the last third."
    return min(1.0, (step + 1) / 50, (STEPS - step) / (0.3 * STEPS))


def learn(model: VisionTransformer, kind: str, seed: int) -> None:
    "Train a model on pictures that are new in each step."
    rng = torch.Generator().manual_seed(seed)
    optimiser = torch.optim.AdamW(model.parameters(), lr=RATE)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, rate)
    for _ in range(STEPS):
        pictures = draw_pictures(BATCH, rng)
        loss = F.cross_entropy(model(pictures.images), asked(kind, pictures))
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        schedule.step()


def train(kind: str, seed: int) -> dict[str, Any]:
    "Train one model, unless it is kept, with weights rounded to 8 bits; measure it."
    torch.set_num_threads(1)
    kept = WORK / f"{kind.replace(', ', '_').replace(' ', '_')}_{seed}.safetensors"
    torch.manual_seed(seed)
    model = small_vit(**CONFIG | KINDS[kind])
    if not kept.exists():
        learn(model, kind, seed)
        kept.parent.mkdir(parents=True, exist_ok=True)
        about = {"config": CONFIG | KINDS[kind], "seed": seed}
        save_checkpoints(kept, quantise_checkpoints({STEPS: model.state_dict()}, about))
    model.load_state_dict(load_checkpoints(kept).state(STEPS))
    tests = draw_tests()
    found = {"seed": seed, "right": right(model, tests.images, asked(kind, tests))}
    return found | (measure(model, tests) if kind == "model" else {})


def rounded(x: Any) -> Any:
    "Return the same with four decimals."
    if isinstance(x, dict):
        return {name: rounded(value) for name, value in x.items()}
    if isinstance(x, list):
        return [rounded(value) for value in x]
    return round(x, 4) if isinstance(x, float) else x


def complaints(measured: dict[str, list[dict[str, Any]]]) -> list[str]:
    "Return what misses the promises of the chapter."
    four = COVERED.index(4)
    found = []
    for run in measured["model"]:
        left = {how: rights[four] for how, rights in run["covered"].items()}
        shares = [share for block in run["share"] for share in block]
        outside = left["most attended, outside the shape"]
        promises = {
            "98% right": run["right"] >= 0.98,
            "70% of the weight of a head on the shape": max(shares) >= 0.7,
            "40% at most without the 4 patches of the highest rollout": left["highest rollout"]
            <= 0.4,
            "90% at least without 4 random patches": left["random"] >= 0.9,
            "no loss without the 4 attended to most outside the shape": outside
            >= run["right"] - 0.005,
        }
        found += [
            f"seed {run['seed']}: expected {promise}"
            for promise, kept in promises.items()
            if not kept
        ]
    return found


def ship(measured: dict[str, list[dict[str, Any]]]) -> None:
    "Write both files: the weights of the first seed, and what was measured for all."
    name = f"model_{measured['model'][0]['seed']}.safetensors"
    TRAINED.mkdir(exist_ok=True)
    save_checkpoints(TRAINED / "images.safetensors", load_checkpoints(WORK / name))
    told = {"config": CONFIG, "steps": STEPS, "tested": TESTED, "covered": COVERED}
    text = json.dumps(rounded(told | {"trainings": measured}), separators=(",", ":"))
    text = text.replace('{"seed"', '\n{"seed"')
    write_atomically(TRAINED / "images.json", f"{text}\n".encode())


def main() -> int:
    "The command line."
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3, help="how many, from 0")
    parser.add_argument("--jobs", type=int, default=2, help="how many processes")
    given = parser.parse_args()
    jobs = [(kind, seed) for kind in KINDS for seed in range(given.seeds)]
    measured: dict[str, list[dict[str, Any]]] = {kind: [] for kind in KINDS}
    with ProcessPoolExecutor(given.jobs) as pool:
        for (kind, seed), result in zip(jobs, pool.map(train, *zip(*jobs))):
            measured[kind].append(result)
            print(f"{kind}, seed {seed}: {result['right']:.4f} named right", flush=True)
    if found := complaints(measured):
        print("Nothing is written.", *found, sep="\n", file=sys.stderr)
        return 1
    ship(measured)
    return 0


if __name__ == "__main__":
    sys.exit(main())
