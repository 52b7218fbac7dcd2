"""Attention by random features."""

from tests.third_party.families import listed

SUBJECTS = listed("""
performer_pytorch.performer_pytorch.Attention
""")
