"""Attention along an axis."""
from wild.families import listed

SUBJECTS = listed("""
axial_attention.axial_attention.SelfAttention
""")
