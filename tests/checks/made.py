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


D, H = 24, 3  # width and heads of a `Layer`
SCALE = (D // H) ** -0.5


def softmaxed(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    "Attend, with the usual scale."
    return (q @ k.mT * SCALE).softmax(-1) @ v


class Layer(Made):
    "Self-attention; what a test is about is handed in, all else is usual."

    def __init__(
        self,
        core: Callable[..., Tensor] = softmaxed,  # of heads q, k, v → their contexts
        use: Callable[..., Tensor] | None = None,  # of the layer, x and heads → merged context
        fused: str = "",  # the name of one projection of all three; "": q_proj, k_proj, v_proj
        out: str = "out_proj",  # the name of the output projection; "": none
        **parts: Any,  # as in `Made`
    ) -> None:
        super().__init__(use or (lambda m, x, *heads: merge_heads(m.core(*heads))), core=core)
        self.names, self.end = (fused,) if fused else ("q_proj", "k_proj", "v_proj"), out
        for name in self.names:
            setattr(self, name, nn.Linear(D, 3 * D if fused else D))
        for name, part in (({out: nn.Linear(D, D)} if out else {}) | parts).items():
            setattr(self, name, part)

    def heads(
        self,
        x: Tensor,  # (b, n, d_model)
    ) -> list[Tensor]:  # queries, keys and values, (b, h, n, d_head)
        "Project and split into heads."
        rows = torch.cat([getattr(self, name)(x) for name in self.names], -1).chunk(3, -1)
        return [split_heads(t, H) for t in rows]

    def forward(self, x: Tensor) -> Any:
        "Attend, and project the context."
        context = self.use(self, x, *self.heads(x))
        return getattr(self, self.end)(context) if self.end else context


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
