"""Attention along an axis."""

from tests.third_party.families import listed

SUBJECTS = listed("""
axial_attention.axial_attention.SelfAttention
""")
