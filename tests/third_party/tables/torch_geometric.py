"""Attention over the nodes of a graph."""

from tests.third_party.families import D, H, listed
from tests.third_party.subjects import cross

SUBJECTS = [
    cross(
        "torch_geometric.nn.aggr.utils.MultiheadAttentionBlock",
        lambda cls: cls(D, H, dropout=0.1),
        d_model=D,
        n_heads=H,
    )
] + listed("""
torch_geometric.nn.attention.performer.PerformerAttention
torch_geometric.nn.attention.polynormer.PolynormerAttention
torch_geometric.nn.attention.sgformer.SGFormerAttention
""")
