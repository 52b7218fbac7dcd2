"""The attention that all models of curated-transformers share."""

from typing import Any

import torch
from tests.third_party.families import D, H
from tests.third_party.subjects import layer


def made(cls: Any) -> Any:
    "Heads of one projection each."
    from curated_transformers.layers.attention import (
        AttentionHeads,
        QkvMode,
        QkvSplitGroupedByKVHeads,
        ScaledDotProductAttention,
    )

    scorer = ScaledDotProductAttention(dropout_prob=0.1, linear_biases=None)
    return cls(
        attention_heads=AttentionHeads.uniform(H, QkvSplitGroupedByKVHeads()),
        attention_scorer=scorer,
        hidden_width=D,
        qkv_mode=QkvMode.SEPARATE,
        rotary_embeds=None,
        use_bias=True,
    )


def call(m: Any, x: Any, causal: bool = False) -> Any:
    "Every word is a word."
    from curated_transformers.layers.attention import AttentionMask

    return m(x, AttentionMask(torch.ones(x.shape[:2], dtype=torch.bool)), use_causal_mask=causal)[0]


SUBJECTS = [
    layer("curated_transformers.layers.attention.SelfAttention", made, call, d_model=D, n_heads=H)
]
