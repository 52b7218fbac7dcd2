"""torchtune's attention, put together from projections as its model builders do."""

from typing import Any

import torch.nn as nn
from tests.third_party.families import D, HEAD, H, called
from tests.third_party.subjects import layer


def made(cls: Any, n_kv_heads: int = H, causal: bool = True, turned: bool = False) -> Any:
    "One of its layers, with or without rotation."
    from torchtune.modules import RotaryPositionalEmbeddings

    widths = {"q_proj": H, "k_proj": n_kv_heads, "v_proj": n_kv_heads}
    projections = {name: nn.Linear(D, h * HEAD, bias=False) for name, h in widths.items()}
    turn = RotaryPositionalEmbeddings(HEAD, max_seq_len=64) if turned else None
    return cls(
        embed_dim=D,
        num_heads=H,
        num_kv_heads=n_kv_heads,
        head_dim=HEAD,
        **projections,
        output_proj=nn.Linear(D, D, bias=False),
        pos_embeddings=turn,
        is_causal=causal,
        max_seq_len=64,
    )


SUBJECTS = [
    layer(
        "torchtune.modules.attention.MultiHeadAttention",
        lambda cls: made(cls, 2, True, True),
        called,
        d_model=D,
        n_heads=H,
        n_kv_heads=2,
        causal=True,
        positions=True,
    )
]
