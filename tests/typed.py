"""What mypy must see in a user's code: test_package.py::test_types hands it over. Nobody runs it."""
import torch
from attention_nb import MultiHeadAttention, SelfAttention
from torch import Tensor
from typing_extensions import assert_type

x = torch.ones(2, 3, 4)
one, many = SelfAttention(d_in=4, d_k=2), MultiHeadAttention(d_model=4, n_heads=2)
assert_type(one(x), tuple[Tensor, Tensor])
assert_type(many(x, causal=True), tuple[Tensor, Tensor | None])
many(x, masks=x)  # type: ignore[arg-type]
