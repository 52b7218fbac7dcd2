"""Attention by landmarks."""
from wild.families import D, HEAD, H, called
from wild.subjects import layer

SUBJECTS = [layer("nystrom_attention.nystrom_attention.NystromAttention",
                  lambda cls: cls(D, dim_head=HEAD, heads=H, num_landmarks=8), called, d_model=D, n_heads=H)]
