"""Attention of RecBole's recommenders; each is a block with its residual and norm."""

from tests.third_party.families import D, H
from tests.third_party.subjects import layer

SUBJECTS = [
    layer(
        "recbole.model.layers.MultiHeadAttention",
        lambda cls: cls(H, D, 0.1, 0.1, 1e-12),
        lambda m, x: m(x, 0.0),
        d_model=D,
        n_heads=H,
    ),
    layer(
        "recbole.model.layers.LightMultiHeadAttention",
        lambda cls: cls(H, 3, D, 64, 0.1, 0.1, 1e-12),
        lambda m, x: m(x, 0 * x[0]),
        d_model=D,
        n_heads=H,
    ),
]
