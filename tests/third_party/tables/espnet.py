"""Attention of ESPnet's encoders."""

from typing import Any

import torch
from tests.third_party.families import D, H
from tests.third_party.subjects import cross, layer

MODULE = "espnet.nets.pytorch_backend.transformer.attention."
OURS = {"d_model": D, "n_heads": H}


def plain(m: Any, x: Any) -> Any:
    "Nothing is hidden."
    return m(x, x, x, None)


def relative(m: Any, x: Any) -> Any:
    "With the places of its encoder, from n - 1 to 1 - n."
    from espnet.nets.pytorch_backend.transformer.embedding import RelPositionalEncoding

    return m(x, x, x, RelPositionalEncoding(D, 0.0)(x)[1], None)


def legacy(m: Any, x: Any) -> Any:
    "With the places of its earlier encoder."
    from espnet.nets.pytorch_backend.transformer.embedding import LegacyRelPositionalEncoding

    return m(x, x, x, LegacyRelPositionalEncoding(D, 0.0)(x)[1], None)


def masked(m: Any, x: Any) -> Any:
    "Every word may be seen."
    return m(x, torch.ones(len(x), 1, x.shape[1], dtype=torch.bool))


SUBJECTS = [
    cross(
        MODULE + "MultiHeadedAttention:cross", lambda cls: cls(H, D, 0.1, cross_attn=True), **OURS
    ),
    cross(
        "espnet2.asr.state_spaces.attention.MultiHeadedAttention",
        lambda cls: cls(D, H, 0.1),
        **OURS,
    ),
    layer(MODULE + "MultiHeadedAttention", lambda cls: cls(H, D, 0.1), plain, **OURS),
    layer(
        MODULE + "RelPositionMultiHeadedAttention",
        lambda cls: cls(H, D, 0.1),
        relative,
        positions=True,
        **OURS,
    ),
    layer(
        MODULE + "LegacyRelPositionMultiHeadedAttention",
        lambda cls: cls(H, D, 0.1),
        legacy,
        positions=True,
        **OURS,
    ),
    layer(
        "espnet2.asr.layers.fastformer.FastSelfAttention",
        lambda cls: cls(D, H, 0.1),
        masked,
        **OURS,
    ),
]
