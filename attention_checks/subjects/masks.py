"""Masks in the forms that code wants: their shapes, and what their entries mean."""

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from attention_checks.catalogue import known
from attention_checks.explaining.pipeline import Bug

Form = Callable[[Tensor], Tensor]  # turns a mask into one that code takes

# of a mask (b, h, n_q, n_k); one of keys takes the last query's row, which may see all of the past
PLAIN, OF_KEYS = "(n_q, n_k)", ("(b, n_k)", "(b, 1, 1, n_k)")
SHAPES: dict[str, Form] = {
    "(b, n_k)": lambda mask: mask[:, 0, -1],
    "(b, 1, 1, n_k)": lambda mask: mask[:, :1, -1:],
    "(b, n_q, n_k)": lambda mask: mask[:, 0],
    "(b, 1, n_q, n_k)": lambda mask: mask[:, :1],
    PLAIN: lambda mask: mask[0, 0],
}
TRANSPOSED: dict[str, Form] = {  # wrong for any mask: keys before queries
    "(b, n_k, n_q)": lambda mask: mask[:, 0].mT,
    "(b, 1, n_k, n_q)": lambda mask: mask[:, :1].mT,
    "(n_k, n_q)": lambda mask: mask[0, 0].mT,
}


class Meaning(NamedTuple):
    "What the entries of a mask mean."

    otherwise: str  # what is said where a mask of another meaning is taken so
    made: Mapping[str, Form]  # in words → of a boolean mask, True = may attend

    @property
    def says(self) -> str:
        "Return the usual form in words."
        return next(iter(self.made))


def _added(mask: Tensor) -> Tensor:
    "Make numbers to add: minus infinity for what is hidden."
    return torch.zeros(mask.shape).masked_fill(~mask, -math.inf)


MEANINGS: dict[str, Meaning] = {  # by what mask= declares
    "allowed": Meaning(
        "inverted: True lets attend",
        {"True = may attend": torch.clone, "1 = may attend": Tensor.float},
    ),
    "blocked": Meaning("inverted: True hides", {"True = blocked": torch.logical_not}),
    "bias": Meaning("added to the scores", {"a tensor to add to the scores": _added}),
}


def other_meaning(declared: str, found: str) -> Bug:
    "Name the bug of a mask that means something else than was declared."
    how = f"boolean, {MEANINGS[found].says}" if declared == "bias" else MEANINGS[found].otherwise
    return known("mask.meaning", how=how, expected=MEANINGS[declared].says, found=found)
