"""Attention of diffusers' models."""

from typing import Any

from tests.third_party.families import D, HEAD, H, M, called
from tests.third_party.subjects import cross, layer

MODELS = "diffusers.models."
OURS = {"d_model": D, "n_heads": H}
HEADS = {"heads": H, "dim_head": HEAD}


def swapped(m: Any, x: Any, memory: Any) -> Any:
    "What is seen comes first."
    return m(memory, x)


def wan(cls: Any) -> Any:
    "With what computes it, which it asks for."
    from diffusers.models.transformers.transformer_wan import WanAttnProcessor

    return cls(D, dropout=0.1, cross_attention_dim_head=HEAD, processor=WanAttnProcessor(), **HEADS)


CROSS = [
    cross(
        MODELS + "attention_processor.Attention:cross",
        lambda cls: cls(D, M, dropout=0.1, **HEADS),
        d_memory=M,
        **OURS,
    ),
    cross(
        MODELS + "condition_embedders.condition_embedder_anima.AnimaTextConditionerAttention",
        lambda cls: cls(D, M, H, HEAD),
        lambda m, x, memory: m(x, encoder_hidden_states=memory),
        d_memory=M,
        **OURS,
    ),
    cross(
        MODELS + "transformers.ace_step_transformer.AceStepAttention",
        lambda cls: cls(D, H, 2, HEAD, is_cross_attention=True),
        n_kv_heads=2,
        **OURS,
    ),
    cross(
        MODELS + "transformers.consisid_transformer_3d.PerceiverCrossAttention",
        lambda cls: cls(D, kv_dim=M, **HEADS),
        swapped,
        d_memory=M,
        **OURS,
    ),
    cross(
        MODELS + "transformers.transformer_motif_video.MotifVideoCrossAttention",
        lambda cls: cls(D, dropout=0.1, **HEADS),
        **OURS,
    ),
    cross(
        MODELS + "transformers.transformer_sana_wm.MultiHeadCrossAttention",
        lambda cls: cls(D, H),
        **OURS,
    ),
    cross(
        MODELS + "transformers.transformer_stable_audio3.StableAudio3CrossAttention:plain",
        lambda cls: cls(D, M, HEAD, use_differential=False),
        d_memory=M,
        **OURS,
    ),
    cross(MODELS + "transformers.transformer_wan.WanAttention:cross", wan, **OURS),
]
SUBJECTS = CROSS + [
    layer(
        MODELS + "attention_processor.Attention",
        lambda cls: cls(D, dropout=0.1, **HEADS),
        called,
        **OURS,
    )
]
