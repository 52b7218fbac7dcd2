"""Attention of Segment Anything, with queries, keys and values apart."""
from wild.families import listed

SUBJECTS = listed("""
segment_anything.modeling.transformer.Attention
""")
