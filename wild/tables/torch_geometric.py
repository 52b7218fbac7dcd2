"""Attention over the nodes of a graph."""
from wild.families import listed

SUBJECTS = listed("""
torch_geometric.nn.attention.performer.PerformerAttention
torch_geometric.nn.attention.polynormer.PolynormerAttention
torch_geometric.nn.attention.sgformer.SGFormerAttention
""")
