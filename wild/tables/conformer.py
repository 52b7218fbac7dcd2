"""Conformer's attention, with relative positions."""
from wild.families import listed

SUBJECTS = listed("""
conformer.conformer.Attention positions
""")
