"""`make train` refuses to write what is not what the chapters promise.

If it fails: `complaints` in tools/training accepts what it should refuse,
or refuses what is shipped.
"""

import copy
import json

import pytest
from attention_nb.translation import TRAINED
from tools.training import hybrid_models, images, induction, translation


def shipped(name: str) -> dict:
    "What was measured in the trainings that the chapters report."
    return json.loads((TRAINED / f"{name}.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    "path, value, complaint",
    [
        (("whole", "short"), [1, 1, 1, 0.999, 0.999], "short: expected 1.0 for all seeds but one"),
        (("whole", "sentences"), [1, 1, 1, 1, 0.994], "sentences: expected 1.0"),
        (
            ("parts", "no positions"),
            [0.5, 0.6, 0.7],
            "no positions: published 0.0545 to 0.07; the median is now 0.6",
        ),
        (
            ("unseen", "six digits"),
            [0.1, 0.0, 0.1],
            "six digits: published 0.0 to 0.0; the median is now 0.1",
        ),
    ],
)
def test_a_translator_outside_the_spread_is_refused(path, value, complaint):
    "And one within it is not."
    published = shipped("translation")
    new = copy.deepcopy(published)
    assert translation.complaints(new, published) == []
    new[path[0]][path[1]] = value
    found = translation.complaints(new, published)
    assert len(found) == 1 and complaint in found[0], found


def trained() -> dict:
    "The ten shipped trainings of chapter 9, with steps as numbers, as they are measured."
    runs = shipped("induction")["trainings"]["model"]
    return {
        "model": [
            run | {"curve": {int(step): point for step, point in run["curve"].items()}}
            for run in runs
        ]
    }


def test_heads_that_do_not_keep_a_promise_are_refused():
    "Each promise, broken in one of ten seeds; what is shipped keeps all."
    assert len(trained()["model"]) == 10 and induction.complaints(trained()) == []
    head, previous = (trained()["model"][3][f"{name}_head"] for name in ("induction", "previous"))
    other = (head + 1) % 4
    broken = {
        "an induction score over 0.9": lambda run: run["curve"][induction.KEPT[-1]]["induction"][
            1
        ].__setitem__(head, 0.89),
        "99% copied": lambda run: run["curve"][induction.KEPT[-1]].__setitem__("copying", 0.98),
        "5% at most without the induction head": lambda run: run["ablated"]["mean"][1].__setitem__(
            head, 0.06
        ),
        "10% at most without the previous-token head": lambda run: run["ablated"]["resample"][
            0
        ].__setitem__(previous, 0.11),
        "98% at least without another head": lambda run: run["ablated"]["mean"][1].__setitem__(
            other, 0.97
        ),
        "99% by one head of its layer": lambda run: run["alone_in_layer"].__setitem__("mean", 0.98),
    }
    for promise, break_it in broken.items():
        measured = trained()
        break_it(measured["model"][3])
        assert induction.complaints(measured) == [f"seed 3: expected {promise}"]


def test_vision_transformers_that_do_not_keep_a_promise_are_refused():
    "Each promise, broken in one of three seeds; what is shipped keeps all."
    measured = shipped("images")["trainings"]
    assert len(measured["model"]) == 3 and images.complaints(measured) == []
    four = images.COVERED.index(4)
    broken = {
        "98% right": lambda run: run.__setitem__("right", 0.97),
        "70% of the weight": lambda run: run.__setitem__("share", [[0.69, 0.2], [0.1, 0.3]]),
        "40% at most": lambda run: run["covered"]["highest rollout"].__setitem__(four, 0.41),
        "90% at least": lambda run: run["covered"]["random"].__setitem__(four, 0.89),
        "no loss": lambda run: run["covered"]["most attended, outside the shape"].__setitem__(
            four, run["right"] - 0.006
        ),
    }
    for promise, spoil in broken.items():
        new = copy.deepcopy(measured)
        spoil(new["model"][1])
        found = images.complaints(new)
        assert len(found) == 1 and promise in found[0] and found[0].startswith("seed 1"), found


def test_models_that_recall_other_than_the_chapter_says_are_refused():
    "A state that knows too little or too much, and a model with attention that forgets."
    measured = shipped("recall")["trainings"]
    assert hybrid_models.complaints(measured) == []
    four, last = hybrid_models.PAIRS.index(4), hybrid_models.PAIRS.index(32)
    for kind, at, value in (
        ("state", four, 0.97),
        ("state", last, 0.81),
        ("hybrid", last, 0.97),
        ("attention", last, 0.97),
    ):
        new = copy.deepcopy(measured)
        new[kind][0]["right"][at] = value
        found = hybrid_models.complaints(new)
        assert len(found) == 1 and found[0].startswith(f"{kind}, seed 0"), found
