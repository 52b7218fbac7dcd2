"""Attention in windows."""

from tests.third_party.families import D, HEAD, H, called
from tests.third_party.subjects import layer

PATH = "local_attention.transformer.LocalMHA"
SUBJECTS = [
    layer(
        PATH,
        lambda cls: cls(
            dim=D,
            window_size=8,
            dim_head=HEAD,
            heads=H,
            causal=True,
            exact_windowsize=True,
            use_xpos=False,
        ),
        called,
        d_model=D,
        n_heads=H,
        causal=True,
        positions=True,
    )
]
