"""Attention over a mixture of keys."""

from tests.third_party.families import D, H, called
from tests.third_party.subjects import layer

SUBJECTS = [
    layer(
        "linformer.linformer.LinformerSelfAttention",
        lambda cls: cls(D, seq_len=64, k=8, heads=H),
        called,
        d_model=D,
        n_heads=H,
        positions=True,
    )
]
