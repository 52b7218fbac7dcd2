"""Attention of kornia's models, and its functions over (b, n, h, d)."""

from typing import Any

from tests.third_party.families import D, H, built, called
from tests.third_party.subjects import cross, function, layer


def turned(cls: Any) -> Any:
    "A function of (b, h, n, d)."
    m = cls().eval()
    return lambda q, k, v: m(*(t.transpose(1, 2) for t in (q, k, v))).transpose(1, 2)


OURS = {"d_model": D, "n_heads": H}
SUBJECTS = [
    cross(
        "kornia.models.sam.architecture.transformer.Attention:cross",
        lambda cls: cls(D, H, downsample_rate=2),
        **OURS,
    ),
    function("kornia.feature.lightglue.Attention", lambda cls: cls(False)),
    *(
        layer(path, built, called, **OURS)
        for path in (
            "kornia.feature.dedode.transformer.layers.attention.Attention",
            "kornia.feature.dedode.transformer.layers.attention.MemEffAttention",
            "kornia.models.sam.architecture.transformer.Attention",
            "kornia.models.siglip2.attention.SigLip2Attention",
        )
    ),
    layer("kornia.models.vit.MultiHeadAttention", lambda cls: cls(D, H, 0.1, 0.1), **OURS),
    function("kornia.feature.loftr.loftr_module.linear_attention.FullAttention", turned),
]
