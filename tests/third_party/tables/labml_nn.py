"""Attention of labml.ai's annotated papers; words come first in their rows (n, b, d)."""

from typing import Any

from tests.third_party.families import D, HEAD, H, M
from tests.third_party.subjects import cross, layer


def first(m: Any, x: Any) -> Any:
    "Words first, and everything by name."
    x = x.transpose(0, 1)
    return m(query=x, key=x, value=x).transpose(0, 1)


def made(cls: Any) -> Any:
    "Small, with dropout."
    return cls(H, D, dropout_prob=0.1)


def helped(cls: Any) -> Any:
    "The same, with a function that its labml no longer has."
    from labml import tracker

    vars(tracker).setdefault("debug", lambda *_: None)
    return made(cls)


def filled(cls: Any) -> Any:
    "With numbers, where a checkpoint would put them."
    m = cls(D, H, 4)
    for p in m.parameters():
        p.data.normal_(std=0.14)
    return m


def first_of_both(m: Any, x: Any, memory: Any) -> Any:
    "Words first, with a memory."
    x, memory = x.transpose(0, 1), memory.transpose(0, 1)
    return m(query=x, key=memory, value=memory).transpose(0, 1)


OURS = {"d_model": D, "n_heads": H}
SUBJECTS = [
    cross(
        "labml_nn.diffusion.stable_diffusion.model.unet_attention.CrossAttention",
        lambda cls: cls(D, M, H, HEAD),
        d_memory=M,
        **OURS,
    ),
    layer("labml_nn.transformers.mha.MultiHeadAttention", made, first, **OURS),
    layer(
        "labml_nn.transformers.rope.RotaryPEMultiHeadAttention", made, first, positions=True, **OURS
    ),
    layer(
        "labml_nn.transformers.xl.relative_mha.RelativeMultiHeadAttention",
        made,
        first,
        positions=True,
        **OURS,
    ),
    layer(
        "labml_nn.transformers.primer_ez.MultiDConvHeadAttention",
        made,
        first,
        positions=True,
        **OURS,
    ),
    layer(
        "labml_nn.transformers.retro.model.SelfAttention",
        lambda cls: cls(D, H, HEAD, True),
        causal=True,
        positions=True,
        **OURS,
    ),
    layer("labml_nn.lora.gpt2.MultiHeadAttention", filled, causal=True, **OURS),
    *(
        layer(f"labml_nn.transformers.{name}:helped", helped, first, **(OURS | declared))
        for name, declared in (
            ("mha.MultiHeadAttention", {}),
            ("rope.RotaryPEMultiHeadAttention", {"positions": True}),
            ("xl.relative_mha.RelativeMultiHeadAttention", {"positions": True}),
            ("primer_ez.MultiDConvHeadAttention", {"positions": True}),
        )
    ),
    cross("labml_nn.transformers.mha.MultiHeadAttention:cross", helped, first_of_both, **OURS),
]
