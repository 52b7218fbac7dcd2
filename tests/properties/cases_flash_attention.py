"""The cases of `flash_attention`: how to draw each function's arguments, and what is right."""

from collections.abc import Callable
from typing import Any

import attention_nb as nb
import torch
from hypothesis import strategies as st
from torch import Tensor
from tests.properties.common import (
    Case,
    floats,
    qkv,
    refuse,
    right_flash,
    scales,
    scores,
    sizes,
    sizes_or_none,
    whole,
)


def renamed(**names: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda drawn: {names.get(name, name): value for name, value in drawn.items()}


def right_online(scores, block_size=1):
    whole(block_size)
    refuse(isinstance(scores, Tensor) and scores.is_floating_point() and scores.ndim > 0)
    top = scores.detach().amax(-1)
    return top, (scores - top[..., None]).exp().sum(-1)


@st.composite
def partials(draw):
    shape = draw(st.lists(sizes, min_size=2, max_size=4))
    return {"parts": [(draw(floats(shape)), draw(floats(shape[:-1]))) for _ in range(draw(sizes))]}


def right_merged(parts):
    refuse(len(parts) > 0)
    contexts, lses = (torch.stack([part[i].double() for part in parts]) for i in (0, 1))
    refuse(
        contexts.shape[:-1] == lses.shape
        and all(t.is_floating_point() for part in parts for t in part)
    )
    return (lses.softmax(0)[..., None] * contexts).sum(0), lses.logsumexp(0)


CASES = {
    "online_softmax": Case(
        nb.online_softmax,
        scores(dim=False, spread=(1.0, 0.0, 1e4))
        .map(renamed(x="scores"))
        .flatmap(lambda a: sizes.map(lambda n: a | {"block_size": n})),
        right_online,
        "scores",
        finite=True,
        widens=True,
    ),
    "merge_partials": Case(nb.merge_partials, partials(), right_merged, finite=True),
    "flash_attention": Case(
        nb.flash_attention,
        qkv(scale=scales, causal=st.booleans(), block_size=sizes, window=sizes_or_none),
        right_flash,
        "q",
        finite=True,
        widens=True,
        also={"q": "n_heads|n_kv_heads", "k": "n_heads|n_kv_heads"},
    ),
}
