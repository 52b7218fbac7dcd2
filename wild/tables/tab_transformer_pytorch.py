"""Attention over the columns of a table."""
from wild.families import listed

SUBJECTS = listed("""
tab_transformer_pytorch.ft_transformer.Attention
tab_transformer_pytorch.tab_transformer_pytorch.Attention
""")
