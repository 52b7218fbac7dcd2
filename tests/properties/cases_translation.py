"""The cases of `translation`: how to draw each function's arguments, and what is right."""

import json

import attention_nb as nb
import torch
from attention_nb.translation import TRAINED, trained_steps
from hypothesis import strategies as st
from safetensors import safe_open
from tests.properties.common import Case, args, refuse, sizes, whole

SMALL = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
    "fifteen sixteen seventeen eighteen nineteen"
).split()
TENS = {
    20: "twenty",
    30: "thirty",
    40: "forty",
    50: "fifty",
    60: "sixty",
    70: "seventy",
    80: "eighty",
    90: "ninety",
}


def right_words(n):
    "Digit by digit, from the left: what is said of hundreds, tens and ones, twice."
    whole(n, least=0)
    refuse(n < 1_000_000)
    thousands, rest = n // 1000, n % 1000
    parts = [
        *three_digits(thousands, False),
        *["thousand"] * bool(thousands),
        *three_digits(rest, bool(thousands)),
    ]
    return " ".join(parts) or "zero"


def three_digits(n, more):
    hundreds, rest = n // 100, n % 100
    said = [SMALL[hundreds], "hundred"] if hundreds else []
    said += ["and"] if rest and (hundreds or more) else []
    if rest >= 20:
        return said + [TENS[rest - rest % 10]] + ([SMALL[rest % 10]] if rest % 10 else [])
    return said + ([SMALL[rest]] if rest else [])


def right_sentences(numbers, short=False):
    refuse(isinstance(short, bool))
    digits = [(right_words(n), " ".join(str(n))) for n in list(numbers)]
    return digits if short else [(f"{w} is {w}", f"{d} la {d}") for w, d in digits]


def right_shift(target):
    refuse(
        target.ndim == 2
        and target.shape[1] > 1
        and target.dtype in (torch.int64, torch.int32, torch.uint8)
    )
    n = target.shape[1] - 1
    return target.narrow(1, 0, n), target.narrow(1, 1, n)


def right_parameters(step=None):
    "By the library of safetensors."
    with safe_open(TRAINED / "translator.safetensors", "pt") as file:
        steps = json.loads(file.metadata()["steps"])
        step = steps[-1] if step is None else step
        whole(step, least=0)
        names = [name for name in file.keys() if not name.endswith(".scale")]  # noqa: SIM118 (it is no dictionary)
        i = steps.index(step)
        return {
            n: file.get_tensor(n)[i].double()
            * file.get_tensor(f"{n}.scale")[i].double().unsqueeze(-1)
            for n in sorted(names)
        }


def right_digits(text):
    said = {right_words(n): str(n) for n in range(1000)}
    return said[text]


CASES = {
    "number_words": Case(nb.number_words, args(n=st.integers(0, 999_999)), right_words),
    "number_sentences": Case(
        nb.number_sentences,
        args(numbers=st.lists(st.integers(0, 999_999), max_size=4), short=st.booleans()),
        right_sentences,
        also={"numbers": "n"},
    ),
    "teacher_forcing": Case(
        nb.teacher_forcing,
        args(
            target=st.tuples(sizes, st.integers(2, 5)).map(
                lambda shape: torch.arange(shape[0] * shape[1]).view(shape) % 14
            )
        ),
        right_shift,
    ),
    "load_translator": Case(
        lambda step: dict(sorted(nb.load_translator(step).named_parameters())),
        args(step=st.sampled_from([None, *trained_steps()])),
        right_parameters,
    ),
    "translate": Case(
        nb.translate,
        args(text=st.integers(0, 999).map(right_words)),
        right_digits,
        also={"text": "unknown words"},
    ),
}
