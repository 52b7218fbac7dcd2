"""Attention of vit-pytorch's models; of classes whose source is the same, one."""

from tests.third_party.families import D, HEAD, H, M, listed, listed_both
from tests.third_party.subjects import function, layer

# With use_flash=False, the other of their two ways.
PLAIN = [
    function(f"vit_pytorch.{name}.Attend:plain", lambda cls: cls(use_flash=False))
    for name in ("simple_flash_attn_vit", "simple_flash_attn_vit_3d")
]
GATED = layer(
    "vit_pytorch.simple_vit_with_sparse_gating.Attention",
    lambda cls: cls(D, heads=H, dim_head=HEAD, num_register_tokens=0),
    d_model=D,
    n_heads=H,
)
CROSS = (
    listed_both("""
vit_pytorch.cross_vit.Attention:cross
vit_pytorch.mp3.Attention:cross
""")
    + listed_both(
        """
vit_pytorch.vat_siglip.Attention:cross d_memory=36
""",
        dim_context=M,
        gate_attn=True,
    )
    + listed_both(
        """
vit_pytorch.look_vit.Attention:cross
""",
        cross_attend=True,
    )
    + listed_both(
        """
vit_pytorch.vat.Attention:cross d_memory=36
""",
        dim_context=M,
        cross_attend=True,
    )
)
SUBJECTS = [*PLAIN, GATED, *CROSS] + listed("""
vit_pytorch.ats_vit.Attention
vit_pytorch.cait.Attention
vit_pytorch.cct.Attention
vit_pytorch.cross_vit.Attention
vit_pytorch.deepvit.Attention
vit_pytorch.jet_vit.Attention
vit_pytorch.jumbo_vit.Attention
vit_pytorch.learnable_memory_vit.Attention
vit_pytorch.local_vit.Attention
vit_pytorch.look_vit.Attention
vit_pytorch.looped_vit.Attention
vit_pytorch.mp3.Attention
vit_pytorch.na_vit.Attention
vit_pytorch.na_vit_nested_tensor.Attention
vit_pytorch.nest.Attention pictured
vit_pytorch.normalized_vit.Attention
vit_pytorch.parallel_vit.Attention
vit_pytorch.pit.Attention
vit_pytorch.regionvit.Attention
vit_pytorch.scalable_vit.ScalableSelfAttention pictured
vit_pytorch.simple_flash_attn_vit.Attention
vit_pytorch.simple_flash_attn_vit_3d.Attention
vit_pytorch.simple_vit.Attention
vit_pytorch.simple_vit_attn_residual.Attention
vit_pytorch.simple_vit_with_qk_norm.Attention
vit_pytorch.simple_vit_with_value_residual.Attention
vit_pytorch.vat.Attention
vit_pytorch.vat_siglip.Attention
vit_pytorch.vit_5.Attention
vit_pytorch.vit_detpool.Attention
vit_pytorch.vit_with_decorr.Attention
vit_pytorch.vit_with_keel_post_ln.Attention
vit_pytorch.vivit.Attention
vit_pytorch.vivit_with_moss.Attention
vit_pytorch.xcit.Attention
vit_pytorch.xcit.XCAttention
""")
