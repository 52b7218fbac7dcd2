"""Attention of the book Build a Large Language Model (From Scratch)."""

from typing import Any

import torch
from tests.third_party.families import D, HEAD, H
from tests.third_party.subjects import layer


def turned(module: str) -> Any:
    "What calls a layer with its own cosines and sines."

    def call(m: Any, x: Any) -> Any:
        from importlib import import_module

        cos, sin = import_module(f"llms_from_scratch.{module}").compute_rope_params(
            head_dim=HEAD, context_length=64
        )
        return m(x, torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1), cos, sin)

    return call


CAUSAL = {"d_model": D, "causal": True}
SUBJECTS = [
    layer("llms_from_scratch.ch03.SelfAttention_v1", lambda cls: cls(D, D), d_model=D, n_heads=1),
    layer("llms_from_scratch.ch03.SelfAttention_v2", lambda cls: cls(D, D), d_model=D, n_heads=1),
    layer(
        "llms_from_scratch.ch03.CausalAttention",
        lambda cls: cls(D, D, 64, 0.1),
        n_heads=1,
        **CAUSAL,
    ),
    layer(
        "llms_from_scratch.ch03.MultiHeadAttentionWrapper",
        lambda cls: cls(D, HEAD, 64, 0.1, H),
        n_heads=H,
        **CAUSAL,
    ),
    layer(
        "llms_from_scratch.ch03.MultiHeadAttention",
        lambda cls: cls(D, D, 64, 0.1, H),
        n_heads=H,
        **CAUSAL,
    ),
    layer(
        "llms_from_scratch.qwen3.GroupedQueryAttention",
        lambda cls: cls(D, H, 2, HEAD),
        turned("qwen3"),
        n_heads=H,
        n_kv_heads=2,
        positions=True,
        **CAUSAL,
    ),
    layer(
        "llms_from_scratch.llama3.GroupedQueryAttention",
        lambda cls: cls(D, D, H, 2),
        turned("llama3"),
        n_heads=H,
        n_kv_heads=2,
        positions=True,
        **CAUSAL,
    ),
]
