"""Attention over the columns of a table."""

from tests.third_party.families import listed

SUBJECTS = listed("""
tab_transformer_pytorch.ft_transformer.Attention
tab_transformer_pytorch.tab_transformer_pytorch.Attention
""")
