"""The attention of x-transformers, plain and with some of its many options."""

from tests.third_party.families import D, HEAD, H, M, called
from tests.third_party.subjects import cross, layer

PATH = "x_transformers.x_transformers.Attention"
SUBJECTS = [
    cross(
        PATH + ":cross",
        lambda cls: cls(D, dim_head=HEAD, heads=H, dim_context=M),
        lambda m, x, memory: m(x, context=memory),
        d_model=D,
        d_memory=M,
        n_heads=H,
    ),
    layer(PATH, lambda cls: cls(D, dim_head=HEAD, heads=H), called, d_model=D, n_heads=H),
]
