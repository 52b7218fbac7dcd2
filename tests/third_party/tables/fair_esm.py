"""Attention of the ESM models; words come first in its rows (n, b, d)."""

from typing import Any

from tests.third_party.families import D, H
from tests.third_party.subjects import cross, layer


def first(m: Any, x: Any) -> Any:
    "Words first."
    x = x.transpose(0, 1)
    return m(x, x, x, need_weights=False)[0].transpose(0, 1)


def rows(m: Any, x: Any) -> Any:
    "One aligned sequence: (rows, n, b, d)."
    return m(x.transpose(0, 1)[None])[0][0].transpose(0, 1)


def columns(m: Any, x: Any) -> Any:
    "Words as aligned sequences of one column."
    return m(x.transpose(0, 1)[:, None])[0][:, 0].transpose(0, 1)


def first_of_both(m: Any, x: Any, memory: Any) -> Any:
    "Words first, with a memory."
    x, memory = x.transpose(0, 1), memory.transpose(0, 1)
    return m(x, memory, memory, need_weights=False)[0].transpose(0, 1)


SUBJECTS = [
    cross(
        "esm.multihead_attention.MultiheadAttention:cross",
        lambda cls: cls(D, H, dropout=0.1, encoder_decoder_attention=True),
        first_of_both,
        d_model=D,
        n_heads=H,
    ),
    layer(
        "esm.multihead_attention.MultiheadAttention",
        lambda cls: cls(D, H),
        first,
        d_model=D,
        n_heads=H,
    ),
    layer(
        "esm.axial_attention.RowSelfAttention", lambda cls: cls(D, H), rows, d_model=D, n_heads=H
    ),
    layer(
        "esm.axial_attention.ColumnSelfAttention",
        lambda cls: cls(D, H),
        columns,
        d_model=D,
        n_heads=H,
    ),
]
