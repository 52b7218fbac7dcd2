"""Attention over a mixture of keys."""
from wild.families import D, H, called
from wild.subjects import layer

SUBJECTS = [layer("linformer.linformer.LinformerSelfAttention", lambda cls: cls(D, seq_len=64, k=8, heads=H), called, d_model=D, n_heads=H, positions=True)]
