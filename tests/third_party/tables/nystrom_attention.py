"""Attention by landmarks."""

from tests.third_party.families import D, HEAD, H, called
from tests.third_party.subjects import layer

SUBJECTS = [
    layer(
        "nystrom_attention.nystrom_attention.NystromAttention",
        lambda cls: cls(D, dim_head=HEAD, heads=H, num_landmarks=8),
        called,
        d_model=D,
        n_heads=H,
    )
]
