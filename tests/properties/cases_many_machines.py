"""The cases of `many_machines`: how to draw each function's arguments, and what is right."""

import attention_nb as nb
import torch
import torch.distributed as dist
from hypothesis import strategies as st
from torch import Tensor
from tests.properties.common import (
    Case,
    dtypes,
    floats,
    qkv,
    refuse,
    right_flash,
    scales,
    sizes,
    whole,
)


def segments(n, world, order):
    "The tokens of each rank, counted one by one."
    refuse(order in ("contiguous", "zigzag"))
    pieces = world if order == "contiguous" else 2 * world
    of = [next(i for i in range(pieces) if t < n * (i + 1) // pieces) for t in range(n)]
    rank_of = [i if i < world else pieces - 1 - i for i in of]
    return [[t for t in range(n) if rank_of[t] == rank] for rank in range(world)]


def right_part(x, world, rank, order="contiguous", dim=-2):
    whole(world)
    refuse(
        isinstance(x, Tensor)
        and type(rank) is int
        and 0 <= rank < world
        and type(dim) is int
        and -x.ndim <= dim < x.ndim
    )
    return x.index_select(
        dim, torch.tensor(segments(x.shape[dim], world, order)[rank], dtype=torch.long)
    )


def right_whole(parts, order="contiguous", dim=-2):
    refuse(isinstance(parts, (list, tuple)) and parts and all(isinstance(p, Tensor) for p in parts))
    refuse(type(dim) is int and all(-p.ndim <= dim < p.ndim for p in parts))
    owned = segments(sum(p.shape[dim] for p in parts), len(parts), order)
    refuse([p.shape[dim] for p in parts] == [len(own) for own in owned])
    return torch.cat(list(parts), dim).index_select(
        dim, torch.tensor(sum(owned, []), dtype=torch.long).argsort()
    )


orders = st.sampled_from(["contiguous", "zigzag"])


@st.composite
def sequences(draw, types=dtypes):
    x = draw(floats(draw(st.lists(sizes, min_size=2, max_size=4)), draw(types)))
    world = draw(sizes)
    return {"x": x, "world": world, "rank": draw(st.integers(0, world - 1)), "order": draw(orders)}


@st.composite
def all_parts(draw):
    a = draw(sequences(st.just(torch.float32)))
    return {
        "parts": [right_part(a["x"], a["world"], rank, a["order"]) for rank in range(a["world"])],
        "order": a["order"],
    }


def alone(**a):
    "A ring of one rank, in this process."
    if not dist.is_initialized():
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    return nb.ring_attention(**a)


@st.composite
def of_one_rank(draw):
    "As many queries as keys, in heads."
    a = draw(
        qkv(scale=scales, causal=st.booleans()).filter(
            lambda a: a["q"].ndim > 2 and a["q"].shape[-2] == a["k"].shape[-2]
        )
    )
    return {name: value for name, value in a.items() if name != "mask"} | {"order": draw(orders)}


def right_ring(q, k, v, causal=False, order="contiguous", scale=None):
    refuse(order in ("contiguous", "zigzag") and q.ndim > 2 and q.shape[-2] == k.shape[-2])
    return right_flash(q, k, v, causal=causal, scale=scale)


CASES = {
    "split_sequence": Case(nb.split_sequence, sequences(), right_part, "x", exact=True),
    "join_sequence": Case(nb.join_sequence, all_parts(), right_whole, exact=True),
    "ring_attention": Case(
        alone,
        of_one_rank(),
        right_ring,
        "q",
        finite=True,
        also={
            "q": "n_heads|n_kv_heads|k, v|q, k, v",
            "k": "n_heads|n_kv_heads|k, v|q, k, v",
            "v": "k, v|q, k, v",
        },
    ),
}
