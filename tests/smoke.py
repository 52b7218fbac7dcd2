"""What a user does first. test_wheel.py runs it with the Python of a fresh environment,
outside the repository.
"""

import json

import attention_nb
import fastcore
import torch

torch.manual_seed(0)
mha = attention_nb.MultiHeadAttention(d_model=12, n_heads=3)
x = torch.randn(2, 5, 12)
out, weights = mha(x, causal=True, need_weights=True)
fused, none = mha(x, causal=True)
assert (out.shape, weights.shape, none) == ((2, 5, 12), (2, 3, 5, 5), None), (
    out.shape,
    weights.shape,
    none,
)
torch.testing.assert_close(fused, out)

fused.square().sum().backward()
assert all(p.grad.isfinite().all() for p in mha.parameters()), "a gradient is not finite"
files = [m.__file__ for m in (attention_nb, fastcore, torch)]
print(json.dumps({"version": attention_nb.__version__, "files": files}))
