"""Attention of OpenCLIP."""

from tests.third_party.families import listed

SUBJECTS = listed("""
open_clip.transformer.Attention
""")
