"""Layers with projections of any kind and a forward of any kind, to try on them how projections are found and work is redone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor

from attention_checks.pipeline import sentence
from attention_checks.trace import Trace, trace_layer
from attention_checks.trace.comparing import compare_with_own_weights


class Made(nn.Module):
    "A layer of given parts, with a given forward."

    def __init__(
        self,
        use: Callable[..., Any],  # what it gives, of itself and x
        **parts: Any,  # modules, parameters, tables and settings, by name
    ) -> None:
        super().__init__()
        self.use = use
        for name, part in parts.items():
            table = isinstance(part, Tensor) and not isinstance(part, nn.Parameter)
            self.register_buffer(name, part) if table else setattr(self, name, part)

    def forward(
        self,
        x: Tensor,  # (b, n, d)
    ) -> Any:
        "Go its way."
        return self.use(self, x)


class Four(nn.Module):
    "Attention whose projections have no names."

    def __init__(
        self,
        d_model: int,  # width of the rows of x
        h: int,  # heads
    ) -> None:
        super().__init__()
        self.h = h
        self.linears = nn.ModuleList(nn.Linear(d_model, d_model) for _ in range(4))

    def forward(
        self,
        x: Tensor,  # (b, n, d_model)
    ) -> Tensor:  # (b, n, d_model)
        "Attend."
        q, k, v = (cut(f(x), self.h) for f in self.linears[:3])
        out: Tensor = self.linears[3](joined(F.scaled_dot_product_attention(q, k, v)))
        return out


def random(
    *names: str,  # of the projections
    width: int = 12,  # of what they give
    back: bool = True,  # is there one that leads back?
) -> dict[str, nn.Module]:  # name → module
    "Make projections of rows of width 12."
    made: dict[str, nn.Module] = {name: nn.Linear(12, width) for name in names}
    return made | ({"out_proj": nn.Linear(width, 12)} if back else {})


_Fn = Callable[..., Any]  # of rows (b, n, h · d), or of heads (b, h, n, d)
cut: _Fn = lambda t, h=4: t.unflatten(-1, (h, -1)).transpose(
    1, 2
)  # rows into heads that lie side by side
last: _Fn = lambda t, h=4: t.unflatten(-1, (-1, h)).permute(
    0, 3, 1, 2
)  # rows into heads that stand in the last place
joined: _Fn = lambda c: c.transpose(1, 2).flatten(2)  # heads side by side
last_laid: _Fn = lambda c: c.permute(0, 2, 3, 1).flatten(2)  # heads in the last place
attended: _Fn = lambda q, k, v, scale=1 / 3**0.5, mask=None: F.scaled_dot_product_attention(
    q, k, v, mask, scale=scale
)
each: _Fn = lambda m, x: (m.q_proj(x), m.k_proj(x), m.v_proj(x))  # queries, keys and values


traced: Callable[..., Trace] = lambda layer, x, **said: trace_layer(
    layer, x, lambda m, x: m(x), **said
)  # of a layer of x alone


def told(
    t: Trace,  # from `trace_layer`
    n_heads: int | None,  # if known
    causal: bool = False,  # is the future hidden?
    window: int | None = None,  # how many words are seen; None: all
    most: int = 2,  # how many bugs at once are looked for
) -> tuple[bool, str | None]:  # does it agree? and if not, why, if that is known
    "Say how a layer compares with its own weights."
    found = compare_with_own_weights(t, n_heads, causal, window, most)
    return found == (), sentence(found) if found else None


def saying_of(
    x: Tensor,  # the usual input, (b, n, d)
) -> Callable[
    ..., None
]:  # says(title, use, h=4, causal=False, window=None, x=x, say=told, **parts)
    "Make the function that prints what is said of layers with given forwards, and projections of the usual names if not told otherwise."

    def says(
        title: str,
        use: Callable[..., Any],
        h: int | None = 4,
        causal: bool = False,
        window: int | None = None,
        x: Tensor = x,
        say: Callable[..., tuple[bool, str | None]] = told,
        **parts: Any,
    ) -> None:
        torch.manual_seed(0)
        agrees, bug = say(
            traced(Made(use, **(parts or random("q_proj", "k_proj", "v_proj"))), x),
            h,
            causal,
            window,
        )
        print(f"{title}: {'right' if agrees else bug}")

    return says
