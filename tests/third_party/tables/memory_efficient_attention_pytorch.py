"""Attention in pieces."""

from tests.third_party.families import listed

SUBJECTS = listed("""
memory_efficient_attention_pytorch.flash_attention.FlashAttention
memory_efficient_attention_pytorch.memory_efficient_attention.Attention
memory_efficient_attention_pytorch.cosine_sim_flash_attention.FlashAttention
""")
