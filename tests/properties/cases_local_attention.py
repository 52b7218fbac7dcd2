"""The cases of `local_attention`: how to draw each function's arguments, and what is right."""

import math

import attention_nb as nb
import torch
from hypothesis import strategies as st
from tests.properties.common import (
    Case,
    args,
    masks,
    refuse,
    right_attention,
    sizes,
    unmasked,
    whole,
)


def right_window(n_q, n_k, window, device=None):
    whole(window)
    return torch.tensor(
        [[i - window < j <= i for j in range(n_k)] for i in right_places(n_q, n_k, device)]
    )


def right_sinks(n_q, n_k, n_sinks, device=None):
    whole(n_sinks)
    return torch.tensor([[j < n_sinks for j in range(n_k)] for _ in right_places(n_q, n_k, device)])


def right_blocks(n_q, n_k, block, pattern=None, device=None):
    whole(block)
    m = math.ceil(n_k / block)
    pattern = torch.eye(m).bool() if pattern is None else pattern
    refuse(pattern.dtype == torch.bool and pattern.shape == (m, m))
    return torch.tensor(
        [
            [i >= 0 and bool(pattern[i // block, j // block]) for j in range(n_k)]
            for i in right_places(n_q, n_k, device)
        ]
    )


def right_places(n_q, n_k, device):
    "The places of queries, of which the last stands at the last key."
    whole(n_q, n_k)
    refuse(device is None or torch.device(device).type == "cpu")
    return range(n_k - n_q, n_k)


def right_documents(ids, device=None):
    ids = torch.as_tensor(ids)
    refuse(
        ids.numel() == 0
        or ids.dtype != torch.bool
        and not ids.is_floating_point()
        and not ids.is_complex()
    )
    refuse(ids.ndim > 0 and (device is None or torch.device(device).type == "cpu"))
    return ids.unsqueeze(-1).sub(ids.unsqueeze(-2)).eq(0)


def right_local(q, k, v, window):
    whole(window)
    if (
        q.ndim == k.ndim == v.ndim > 2
        and k.shape[-3] == v.shape[-3]
        and q.shape[-3] % k.shape[-3] == 0
    ):
        k, v = (t.repeat_interleave(q.shape[-3] // t.shape[-3], -3) for t in (k, v))
    return right_attention(q, k, v, right_window(q.shape[-2], k.shape[-2], window))[0]


@st.composite
def block_calls(draw):
    n_q, n_k, block = draw(sizes), draw(sizes), draw(sizes)
    m = math.ceil(n_k / block)
    pattern = draw(st.none() | masks((m, m), optional=False).map(lambda p: p.expand(m, m)))
    return {
        "n_q": n_q,
        "n_k": n_k,
        "block": block,
        "pattern": pattern,
        "device": draw(st.sampled_from([None, "cpu"])),
    }


CASES = {
    "window_mask": Case(
        nb.window_mask,
        args(n_q=sizes, n_k=sizes, window=sizes, device=st.sampled_from([None, "cpu"])),
        right_window,
    ),
    "sink_mask": Case(
        nb.sink_mask,
        args(n_q=sizes, n_k=sizes, n_sinks=sizes, device=st.sampled_from([None, "cpu"])),
        right_sinks,
    ),
    "block_mask": Case(
        nb.block_mask, block_calls(), right_blocks, also={"n_k": "pattern", "block": "pattern"}
    ),
    "document_mask": Case(
        nb.document_mask,
        args(
            ids=st.lists(sizes, min_size=1, max_size=6).flatmap(
                lambda n: st.sampled_from([n, [n, n], torch.tensor(n), torch.tensor([n, n[::-1]])])
            ),
            device=st.sampled_from([None, "cpu"]),
        ),
        right_documents,
    ),
    "local_attention": Case(
        nb.local_attention, unmasked(window=sizes), right_local, "q", finite=True
    ),
}
