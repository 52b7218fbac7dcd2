"""Attention of OpenCLIP."""
from wild.families import listed

SUBJECTS = listed("""
open_clip.transformer.Attention
""")
