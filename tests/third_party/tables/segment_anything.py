"""Attention of Segment Anything, with queries, keys and values apart."""

from tests.third_party.families import listed, listed_both

SUBJECTS = listed_both(
    """
segment_anything.modeling.transformer.Attention:cross
""",
    downsample_rate=2,
) + listed("""
segment_anything.modeling.transformer.Attention
""")
