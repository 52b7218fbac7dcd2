"""Attention of labml.ai's annotated papers; words come first in their rows (n, b, d)."""
from typing import Any

from wild.families import D, HEAD, H
from wild.subjects import layer


def first(m: Any, x: Any) -> Any:
    "Words first, and everything by name."
    x = x.transpose(0, 1)
    return m(query=x, key=x, value=x).transpose(0, 1)


def made(cls: Any) -> Any:
    "Small, without dropout."
    return cls(H, D, dropout_prob=0.1)


OURS = {"d_model": D, "n_heads": H}
SUBJECTS = [
    layer("labml_nn.transformers.mha.MultiHeadAttention", made, first, **OURS),
    layer("labml_nn.transformers.rope.RotaryPEMultiHeadAttention", made, first, positions=True, **OURS),
    layer("labml_nn.transformers.xl.relative_mha.RelativeMultiHeadAttention", made, first, positions=True, **OURS),
    layer("labml_nn.transformers.primer_ez.MultiDConvHeadAttention", made, first, positions=True, **OURS),
    layer("labml_nn.transformers.retro.model.SelfAttention", lambda cls: cls(D, H, HEAD, True), causal=True, positions=True, **OURS),
    layer("labml_nn.lora.gpt2.MultiHeadAttention", lambda cls: cls(D, H, 4), causal=True, **OURS),
]
