"""Attention of MONAI's networks."""
from wild.families import listed

SUBJECTS = listed("""
monai.networks.blocks.crossattention.CrossAttentionBlock
monai.networks.blocks.selfattention.SABlock
monai.networks.nets.navit._NaViTAttention
monai.networks.nets.vista3d.Attention
""")
