"""Attention of diffusers' models."""
from wild.families import D, HEAD, H, built, called, listed
from wild.subjects import layer

MODELS = "diffusers.models."
SUBJECTS = [layer(MODELS + "attention_processor.Attention", lambda cls: cls(D, heads=H, dim_head=HEAD, dropout=0.1), called, d_model=D, n_heads=H)]
