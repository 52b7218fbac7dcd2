"""Attention of the Perceivers."""

from tests.third_party.families import M, listed, listed_both

SUBJECTS = listed_both(
    """
perceiver_pytorch.perceiver_io.Attention:cross d_memory=36
perceiver_pytorch.perceiver_pytorch.Attention:cross d_memory=36
""",
    context_dim=M,
) + listed("""
perceiver_pytorch.perceiver_io.Attention
perceiver_pytorch.perceiver_pytorch.Attention
perceiver_pytorch.experimental.LinearAttention
""")
