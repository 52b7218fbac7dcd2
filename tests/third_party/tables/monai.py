"""Attention of MONAI's networks."""

from tests.third_party.families import D, H, called, listed, listed_both
from tests.third_party.subjects import layer

FLASH = [
    layer(
        f"monai.networks.blocks.{name}:flash",
        lambda cls: cls(D, H, dropout_rate=0.1, use_flash_attention=True),
        called,
        d_model=D,
        n_heads=H,
    )
    for name in ("selfattention.SABlock", "crossattention.CrossAttentionBlock")
]
CROSS = listed_both("""
monai.networks.blocks.crossattention.CrossAttentionBlock:cross
""")
SUBJECTS = (
    CROSS
    + FLASH
    + listed("""
monai.networks.blocks.crossattention.CrossAttentionBlock
monai.networks.blocks.selfattention.SABlock
monai.networks.nets.navit._NaViTAttention
monai.networks.nets.vista3d.Attention
""")
)
