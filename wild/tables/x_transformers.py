"""The attention of x-transformers, plain and with some of its many options."""
from wild.families import D, HEAD, H, called
from wild.subjects import layer

PATH = "x_transformers.x_transformers.Attention"
SUBJECTS = [layer(PATH, lambda cls: cls(D, dim_head=HEAD, heads=H), called, d_model=D, n_heads=H)]
