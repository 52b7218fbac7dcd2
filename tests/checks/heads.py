"""Small heads of attention to try the checks of layers on, each wrong in one way or odd and right."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn as nn
from torch import Tensor

from attention_checks.properties import Properties
from attention_checks.examine import Broken
from attention_nb.masks import causal_mask

NONE: dict[str, Any] = dict.fromkeys(
    ("to_q", "to_k", "to_v")
)  # for a head that has other projections, or none
_Sees = Callable[[int], Tensor]  # of so many words, which may see which: (n, n), True = may attend


class Head(nn.Module):
    "A causal head that goes its own way."

    to_q: nn.Module
    to_k: nn.Module
    to_v: nn.Module

    def __init__(
        self,
        way: Callable[..., Any] = lambda m, x: m.attend(x),  # what it gives, of itself and x
        **more: Any,  # more attributes; or other ones, under the names of its projections
    ) -> None:
        super().__init__()
        self.way = way
        usual = {name: nn.Linear(12, 6) for name in NONE}
        for name, thing in (usual | more).items():
            setattr(self, name, thing)

    def scores(
        self,
        x: Tensor,  # (b, n, 12)
        sees: _Sees = causal_mask,  # which word sees which
        scale: float = 6**-0.5,  # what scores are multiplied by
    ) -> Tensor:  # (b, n, n)
        "Compare queries and keys; what is not seen is minus infinity."
        return (self.to_q(x) @ self.to_k(x).mT * scale).masked_fill(~sees(x.shape[1]), -math.inf)

    def attend(
        self,
        x: Tensor,  # (b, n, 12)
        sees: _Sees = causal_mask,  # which word sees which
        scale: float = 6**-0.5,  # what scores are multiplied by
    ) -> Tensor:  # (b, n, 6)
        "Mix values by the softmax of the scores."
        return self.scores(x, sees, scale).softmax(-1) @ self.to_v(x)

    def forward(
        self,
        x: Tensor,  # (b, n, 12)
    ) -> Any:
        "Go its own way."
        return self.way(self, x)


all_words: _Sees = lambda n: torch.ones(n, n, dtype=torch.bool)
back: Callable[..., _Sees] = lambda size, ahead=0: (
    lambda n: all_words(n).tril(ahead).triu(1 - size)
)  # words back, itself included; and ahead
when: Callable[..., Any] = lambda fits, other: (
    lambda m, x: (Head.attend if fits(*x.shape[:2]) else other)(m, x)
)  # fits(b, n)? If not, another way


def looks(
    sees: _Sees,  # which word sees which
    scale: float = 6**-0.5,  # what scores are multiplied by
    **more: Any,  # attributes
) -> Head:
    "Make a head with another mask."
    return Head(lambda m, x: m.attend(x, sees, scale), **more)


def keeps(
    m: Head,  # writes it down, also where it lies deep
    x: Tensor,  # (b, n, 12)
) -> Tensor:  # the same
    "Keep what was given last, with its history."
    m.last = m.attend(x)
    vars(m)["all"] = {"it": [(m.last, 1)]}
    return m.last


class Stack(nn.Module):
    "Layers one after the other, said to take rows of width 24."

    def __init__(
        self,
        *parts: nn.Module,  # in order
    ) -> None:
        super().__init__()
        self.parts, self.embed_dim = nn.ModuleList(parts), 24

    def forward(
        self,
        x: Tensor,  # what the first part takes
    ) -> Tensor:
        "Go through all."
        for part in self.parts:
            x = part(x)
        return x


def saying(
    listing: Callable[..., Properties],  # of a layer, its width, causal= and other settings
) -> Callable[..., None]:  # says(what, layer, words, d_model=12, causal=True, **settings)
    "Make the function that prints what the properties say whose names hold some words."

    def says(
        what: str, layer: Any, words: str, d_model: int = 12, causal: bool = True, **settings: Any
    ) -> None:
        print(what)
        try:
            listed = listing(layer, d_model, causal=causal, **settings)
        except TypeError as e:
            print("    TypeError:", e)
            return
        for each in listed:
            if words in each.name:
                print("   ", _said(each.tried))

    return says


def _said(tried: Callable[[], str | None]) -> str:
    "What a property says."
    try:
        remark = tried()
        return f"holds{remark and f' ({remark})' or ''}"
    except Broken as e:
        flags = "".join(f" ({f})" for f in ("symptom", "last", "unknown") if getattr(e, f))
        return f"{e}\n    {e.bug}{flags}"
    except Exception as e:
        return f"{type(e).__name__}: {e}"
