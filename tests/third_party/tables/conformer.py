"""Conformer's attention, with relative positions."""

from tests.third_party.families import listed

SUBJECTS = listed("""
conformer.conformer.Attention positions
""")
