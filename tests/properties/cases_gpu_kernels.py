"""The cases of `gpu_kernels`: how to draw each function's arguments, and what is right."""

import attention_nb as nb
import torch
from hypothesis import strategies as st
from torch import Tensor
from tests.properties.common import Case, args, qkv, refuse, right_flash, scales, sizes, whole


@st.composite
def unmasked_qkv(draw):
    "Of 32 or 16 bits, which the kernels know."
    a = draw(
        qkv(scale=scales, causal=st.booleans()).filter(lambda a: a["q"].dtype != torch.float64)
    )
    return {name: value for name, value in a.items() if name != "mask"}


def where_it_runs(**a):
    """On a GPU, if there is one.

    Elsewhere it refuses last of all, and chapter 13's answer stands in for its own.
    """
    gpu = torch.cuda.is_available()
    a = {
        name: value.cuda() if gpu and isinstance(value, Tensor) else value
        for name, value in a.items()
    }
    try:
        return nb.gpu_attention(**a).cpu()
    except ValueError as error:
        if not str(error).startswith("q: expected a tensor on a GPU"):
            raise
        return nb.flash_attention(**a)


def right_programs(n_q, n_k, block_q, block_k, causal=False):
    whole(n_q, n_k, block_q, block_k)
    refuse(isinstance(causal, bool))
    seen = [{j for j in range(n_k) if not causal or j <= i + n_k - n_q} for i in range(n_q)]
    blocks = [set().union(*seen[first : first + block_q]) for first in range(0, n_q, block_q)]
    return [
        [j for j in range(0, n_k, block_k) if any(key >= j for key in block)] for block in blocks
    ]


CASES = {
    "gpu_attention": Case(
        where_it_runs,
        unmasked_qkv(),
        right_flash,
        "q",
        finite=True,
        also={"q": "n_heads|n_kv_heads", "k": "n_heads|n_kv_heads"},
    ),
    "program_tiles": Case(
        nb.program_tiles,
        args(n_q=sizes, n_k=sizes, block_q=sizes, block_k=sizes, causal=st.booleans()),
        right_programs,
    ),
}
