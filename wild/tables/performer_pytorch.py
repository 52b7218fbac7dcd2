"""Attention by random features."""
from wild.families import listed

SUBJECTS = listed("""
performer_pytorch.performer_pytorch.Attention
""")
