"""Layers of timm's models: over rows of patches, or over pictures, here one word high."""

from tests.third_party.families import listed

SUBJECTS = listed("""
timm.layers.attention.Attention
timm.layers.attention.AttentionRope
timm.layers.attention2d.MultiQueryAttentionV2 pictured
timm.layers.attention2d.MultiQueryAttention2d pictured
timm.layers.attention2d.Attention2d pictured
timm.layers.diff_attention.DiffAttention
timm.layers.non_local_attn.NonLocalAttn pictured
timm.models.beit.Attention
timm.models.cait.TalkingHeadAttn
timm.models.edgenext.CrossCovarianceAttn
timm.models.fastvit.Attention pictured
timm.models.hiera.MaskUnitAttention
timm.models.maxxvit.Attention2d pictured
timm.models.maxxvit.AttentionCl
timm.models.metaformer.Attention
timm.models.nextvit.EfficientAttention
timm.models.tnt.Attention
timm.models.visformer.Attention pictured
timm.models.vision_transformer_relpos.RelPosAttention
""")
