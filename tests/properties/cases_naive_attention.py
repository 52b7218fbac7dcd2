"""The cases of `naive_attention`: how to draw each function's arguments, and what is right."""

import attention_nb as nb
import torch
from hypothesis import strategies as st
from tests.properties.common import Case, dtypes, floats, qkv, refuse, right_attention, scales


def right_dot(a, b):
    refuse(a.ndim == b.ndim == 1 and a.dtype != torch.bool)
    whole_or_not = torch.promote_types(a.dtype, b.dtype)
    total = torch.zeros(
        (), dtype=whole_or_not if not whole_or_not.is_floating_point else torch.float64
    )
    for i in range(max(len(a), len(b))):
        total = total + a[i] * b[i]
    return total


@st.composite
def dot_calls(draw):
    d, dtype = draw(st.integers(1, 6)), draw(dtypes)
    return {"a": draw(floats((d,), dtype)), "b": draw(floats((d,), dtype))}


CASES = {
    "dot": Case(nb.dot, dot_calls(), right_dot, like="a"),
    "naive_attention": Case(
        nb.naive_attention,
        qkv(scale=scales.filter(lambda s: s is not None)),
        right_attention,
        "q",
        widens=True,
    ),
}
