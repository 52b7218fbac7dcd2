"""The cases of `longer_texts`: how to draw each function's arguments, and what is right."""

import math

import attention_nb as nb
import torch
from tests.properties.common import Case, args, bases, even, lengths, right_speeds, scalings, whole


def right_frequencies(d_head, base=None, scaling=None, n=1):
    whole(n)
    return torch.tensor(right_speeds(d_head, base, scaling, n - 1), dtype=torch.float64)


CASES = {
    "rotary_frequencies": Case(
        nb.rotary_frequencies,
        args(d_head=even, base=bases, scaling=scalings, n=lengths),
        right_frequencies,
    ),
    "rotary_rounds": Case(
        nb.rotary_rounds,
        args(n=lengths, d_head=even, base=bases, scaling=scalings),
        lambda n, **a: right_frequencies(n=n, **a) * n / (2 * math.pi),
    ),
}
