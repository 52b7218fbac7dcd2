"""Attention of the Perceivers."""
from wild.families import listed

SUBJECTS = listed("""
perceiver_pytorch.perceiver_io.Attention
perceiver_pytorch.perceiver_pytorch.Attention
perceiver_pytorch.experimental.LinearAttention
""")
