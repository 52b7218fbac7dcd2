"""Layers of any projections and any forward,
on which tests try how a layer's work is traced and redone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn as nn
from torch import Tensor

from attention_checks.trace import Trace, trace_layer
from attention_nb.multi_head_attention import merge_heads, split_heads
from tests.checks.variants import attention


class Made(nn.Module):
    "A layer of given parts, with a given forward."

    def __init__(
        self,
        use: Callable[..., Any],  # the forward, called with the layer and x
        **parts: Any,  # modules, parameters, tensors and settings, by name
    ) -> None:
        super().__init__()
        self.use = use
        for name, part in parts.items():
            if isinstance(part, Tensor) and not isinstance(part, nn.Parameter):
                self.register_buffer(name, part)
            else:
                setattr(self, name, part)

    def forward(
        self,
        x: Tensor,  # (b, n, d_model)
    ) -> Any:
        "Call the given forward."
        return self.use(self, x)


D, H = 24, 3  # width and heads of what `layer` makes


def layer(
    use: Callable[..., Tensor] | None = None,  # of the layer, x and heads q, k, v → the context
    fused: str = "",  # the name of one projection of all three; "": q_proj, k_proj and v_proj
    out: str = "out_proj",  # the name of the output projection; "": none
    **parts: Any,  # as in `Made`
) -> Made:
    "Make self-attention; what a test is about is handed in, all else is usual."
    names = (fused,) if fused else ("q_proj", "k_proj", "v_proj")
    made = {name: nn.Linear(D, 3 * D if fused else D) for name in names}
    made |= {out: nn.Linear(D, D)} if out else {}

    def forward(m: Made, x: Tensor) -> Tensor:
        rows = torch.cat([getattr(m, name)(x) for name in names], -1).chunk(3, -1)
        q, k, v = (split_heads(t, H) for t in rows)
        context = attend(q, k, v, (D // H) ** -0.5) if use is None else use(m, x, q, k, v)
        return getattr(m, out)(context) if out else context

    return Made(forward, **made | parts)


def attend(
    q: Tensor,  # (b, h, n, d_head)
    k: Tensor,
    v: Tensor,
    scale: float = 3**-0.5,  # for heads of 3 features
    merge: Callable[[Tensor], Tensor] = merge_heads,
    **options: Any,  # as in `attention`
) -> Tensor:  # (b, n, width)
    "Compute attention and merge the heads."
    return merge(attention(q, k, v, scale=scale, **options))


def projections(
    *names: str,  # of those that give queries, keys and values
    width: int = 12,  # of what they give
    out: bool = True,  # is there an output projection?
) -> dict[str, nn.Module]:  # name → module
    "Make projections for a layer of d_model = 12."
    made: dict[str, nn.Module] = {name: nn.Linear(12, width) for name in names}
    return made | ({"out_proj": nn.Linear(width, 12)} if out else {})


def heads_of(
    layer: nn.Module,  # with q_proj, k_proj and v_proj
    x: Tensor,  # (b, n, d_model)
    n_heads: int = 4,
) -> list[Tensor]:  # queries, keys and values, (b, h, n, d_head)
    "Project and split into heads."
    return [
        split_heads(project(x), n_heads) for project in (layer.q_proj, layer.k_proj, layer.v_proj)
    ]


def trace(
    layer: nn.Module,  # of x alone
    x: Tensor,  # (b, n, d_model)
    **options: Any,  # for `trace_layer`
) -> Trace:
    "Trace one call of a layer."
    return trace_layer(layer, x, lambda module, x: module(x), **options)
