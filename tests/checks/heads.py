"""Small heads of attention, each wrong in one way, or odd and right."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn as nn
from torch import Tensor

from attention_checks.subjects.diagnosis import examined
from attention_checks.outcomes import Broken, NotChecked
from attention_checks.properties import Property, bound
from attention_checks.spec import Contract
from attention_checks.subjects.layer import adapt
from attention_nb.masks import causal_mask
from tests.checks.made import Made

NO_PROJECTIONS: dict[str, Any] = dict.fromkeys(("to_q", "to_k", "to_v"))
_Mask = Callable[[int], Tensor]  # of a number of tokens, (n, n), True = may attend


class Head(Made):
    "A causal head whose forward is given."

    to_q: nn.Module
    to_k: nn.Module
    to_v: nn.Module

    def __init__(
        self,
        way: Callable[..., Any] = lambda m, x: m.attend(x),  # its output, of itself and x
        **more: Any,  # more attributes; or other ones, under the names of its projections
    ) -> None:
        super().__init__(way)
        usual = {name: nn.Linear(12, 6) for name in NO_PROJECTIONS}
        for name, thing in (usual | more).items():
            setattr(self, name, thing)

    def scores(self, x: Tensor, mask: _Mask = causal_mask, scale: float = 6**-0.5) -> Tensor:
        "Scores, (b, n, n), minus infinity where the mask forbids."
        scores = self.to_q(x) @ self.to_k(x).mT * scale
        return scores.masked_fill(~mask(x.shape[1]), -math.inf)

    def attend(self, x: Tensor, mask: _Mask = causal_mask, scale: float = 6**-0.5) -> Tensor:
        "Attention, (b, n, 6)."
        return self.scores(x, mask, scale).softmax(-1) @ self.to_v(x)


def all_tokens(n: int) -> Tensor:
    "A mask that hides nothing."
    return torch.ones(n, n, dtype=torch.bool)


def window(size: int, ahead: int = 0) -> _Mask:
    "A mask of so many tokens back, itself included, and so many ahead."
    return lambda n: all_tokens(n).tril(ahead).triu(1 - size)


def masked(mask: _Mask, scale: float = 6**-0.5, **more: Any) -> Head:
    "A head with another mask."
    return Head(lambda m, x: m.attend(x, mask, scale), **more)


def when(fits: Callable[[int, int], bool], other: Callable[..., Any]) -> Callable[..., Any]:
    "The right way for sizes b, n that fit, another one for others."
    return lambda m, x: (Head.attend if fits(*x.shape[:2]) else other)(m, x)


def fails(m: Any, x: Tensor) -> Any:
    "Raise an error."
    return 1 / 0


def verdict(
    layer: Any, relations: Sequence[Property], name: str, causal: bool = True, **declared: Any
) -> str:
    "The code of the bug that a property finds, its name beginning so; or holds, or not tried."
    d_model = declared.pop("d_model", 12)
    subject = adapt(layer, d_model, Contract(causal=causal, **declared))
    asked = [row for row in relations if row.name.startswith(name) and row.applies(subject)]
    seen = subject if name == "it runs" else examined(subject)
    tried = [p.holds for p in bound(asked, lambda: seen)]
    assert len(tried) == 1, f"{len(tried)} properties begin with {name!r}"
    try:
        tried[0]()
    except Broken as e:
        return "+".join(bug.code for bug in e.bugs)
    except NotChecked:
        return "not tried"
    return "holds"
