"""Tiny random checkpoints of every family, written by `transformers` itself:
all widths differ, all parameters are random.

`SETTINGS` says what is set for each case: the family is the word before the first dot, what is odd
about the case stands after it.
"""

import json
from pathlib import Path
from typing import Any

import torch

LLAMA = {
    "vocab_size": 67,
    "hidden_size": 30,
    "intermediate_size": 44,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 14,
    "max_position_embeddings": 512,
    "rms_norm_eps": 1e-5,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": None,
}
SCALED = {
    "rope_type": "llama3",
    "rope_theta": 500.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}
YARN = {
    "rope_type": "yarn",
    "rope_theta": 700.0,
    "factor": 4.0,
    "beta_fast": 32.0,
    "beta_slow": 1.0,
    "original_max_position_embeddings": 32,
}
GPT2 = {
    "vocab_size": 61,
    "n_positions": 512,
    "n_embd": 36,
    "n_layer": 3,
    "n_head": 4,
    "n_inner": 50,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
BERT = {
    "vocab_size": 59,
    "hidden_size": 40,
    "num_hidden_layers": 3,
    "num_attention_heads": 5,
    "intermediate_size": 52,
    "max_position_embeddings": 300,
    "type_vocab_size": 3,
    "layer_norm_eps": 1e-3,
}
GPT_OSS = LLAMA | {
    "num_local_experts": 5,
    "num_experts_per_tok": 2,
    "sliding_window": 9,
    "num_hidden_layers": 4,
    "rope_parameters": YARN | {"truncate": False, "rope_theta": 150000.0},
}
DEEPSEEK = {
    "vocab_size": 67,
    "hidden_size": 34,
    "intermediate_size": 46,
    "moe_intermediate_size": 22,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "num_key_value_heads": 6,
    "n_shared_experts": 2,
    "n_routed_experts": 8,
    "routed_scaling_factor": 1.7,
    "kv_lora_rank": 24,
    "q_lora_rank": 26,
    "qk_rope_head_dim": 8,
    "v_head_dim": 18,
    "qk_nope_head_dim": 14,
    "n_group": 4,
    "topk_group": 2,
    "num_experts_per_tok": 3,
    "first_k_dense_replace": 1,
    "max_position_embeddings": 512,
    "num_nextn_predict_layers": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "rope_parameters": YARN | {"mscale": 1.0, "mscale_all_dim": 0.8},
}
GEMMA = LLAMA | {
    "num_hidden_layers": 4,
    "sliding_window": 9,
    "query_pre_attn_scalar": 23,
    "pad_token_id": 0,
    "sliding_window_pattern": 3,
    "rope_parameters": {
        "full_attention": {"rope_type": "linear", "factor": 3.0, "rope_theta": 9000.0},
        "sliding_attention": {"rope_type": "default", "rope_theta": 300.0},
    },
}
STATES = LLAMA | {
    "num_hidden_layers": 4,
    "head_dim": 16,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 6,
    "linear_key_head_dim": 10,
    "linear_value_head_dim": 8,
    "rms_norm_eps": 1e-2,  # else what a state returns is small, and its norm enlarges the rounding
    "rope_parameters": {
        "rope_type": "default",
        "rope_theta": 900.0,
        "partial_rotary_factor": 0.25,
    },
}
ROUTED = {
    "num_experts": 7,
    "num_experts_per_tok": 3,
    "moe_intermediate_size": 22,
    "shared_expert_intermediate_size": 26,
}
PICTURES = {  # of models that also read them
    "depth": 1,
    "hidden_size": 8,
    "num_heads": 2,
    "intermediate_size": 12,
    "out_hidden_size": 30,
    "num_position_embeddings": 4,
}
WITH_PICTURES = ("qwen3_5", "qwen3_5_moe")

SETTINGS: dict[str, dict[str, Any]] = {
    "llama": LLAMA,
    "llama.scaled": LLAMA | {"rope_parameters": SCALED, "tie_word_embeddings": True},
    "llama.biases": LLAMA
    | {
        "attention_bias": True,
        "mlp_bias": True,
        "hidden_act": "gelu_pytorch_tanh",
        "rope_parameters": {"rope_type": "default", "rope_theta": 2e4},
    },
    "llama.linear": LLAMA
    | {
        "rope_parameters": {"rope_type": "linear", "factor": 3.0, "rope_theta": 800.0},
        "hidden_act": "relu",
        "num_attention_heads": 5,
        "num_key_value_heads": 5,
        "head_dim": None,
    },
    "llama.dynamic": LLAMA
    | {
        "rope_parameters": {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 800.0},
        "max_position_embeddings": 16,
    },
    "llama.yarn": LLAMA
    | {
        "rope_parameters": YARN | {"attention_factor": 1.3},
        "num_attention_heads": 5,
        "num_key_value_heads": 1,
        "head_dim": None,
    },
    "llama.longrope": LLAMA
    | {
        "head_dim": 10,
        "rope_parameters": {
            "rope_type": "longrope",
            "factor": 4.0,
            "rope_theta": 800.0,
            "original_max_position_embeddings": 16,
            "short_factor": [1.0, 1.1, 1.2, 1.3, 1.5],
            "long_factor": [1.0, 2.0, 3.0, 5.0, 8.0],
        },
    },
    "mistral": LLAMA | {"sliding_window": 9},
    "mistral.no-window": LLAMA
    | {"sliding_window": None, "num_key_value_heads": 1, "hidden_act": "gelu"},
    "qwen3": LLAMA | {"num_key_value_heads": 3},
    "qwen3.window": LLAMA
    | {
        "use_sliding_window": True,
        "sliding_window": 7,
        "max_window_layers": 2,
        "attention_bias": True,
        "tie_word_embeddings": True,
    },
    "qwen3.kinds": LLAMA
    | {
        "use_sliding_window": True,
        "sliding_window": 5,
        "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
    },
    "gpt2": GPT2,
    "gpt2.odd": GPT2
    | {
        "n_inner": None,
        "activation_function": "gelu",
        "layer_norm_epsilon": 1e-3,
        "tie_word_embeddings": False,
    },
    "gpt2.inverse": GPT2 | {"scale_attn_by_inverse_layer_idx": True, "activation_function": "relu"},
    "gpt2.unscaled": GPT2 | {"scale_attn_weights": False},
    "smollm3": LLAMA
    | {
        "num_hidden_layers": 5,
        "head_dim": 14,
        "rope_parameters": {"rope_type": "default", "rope_theta": 3000.0},
    },
    "smollm3.window": LLAMA
    | {
        "no_rope_layers": [0, 1, 0],
        "use_sliding_window": True,
        "sliding_window": 6,
        "attention_bias": True,
        "mlp_bias": True,
        "tie_word_embeddings": False,
    },
    "olmo2": LLAMA,
    "olmo2.odd": LLAMA
    | {"attention_bias": True, "tie_word_embeddings": True, "rope_parameters": YARN},
    "gemma3_text": GEMMA,
    "gemma3_text.odd": GEMMA
    | {
        "final_logit_softcapping": 2.5,
        "attention_bias": True,
        "tie_word_embeddings": False,
        "hidden_activation": "silu",
    },
    "gemma3_text.kinds": GEMMA
    | {
        "layer_types": [
            "full_attention",
            "sliding_attention",
            "full_attention",
            "sliding_attention",
        ],
        "sliding_window_pattern": 6,
    },
    "gpt_oss": GPT_OSS,
    "gpt_oss.odd": GPT_OSS
    | {
        "attention_bias": False,
        "swiglu_alpha": 1.3,
        "swiglu_limit": 1.1,
        "tie_word_embeddings": True,
        "layer_types": [
            "full_attention",
            "sliding_attention",
            "sliding_attention",
            "full_attention",
        ],
    },
    "bert": BERT,
    "bert.odd": BERT | {"hidden_act": "relu", "tie_word_embeddings": False},
    "deepseek_v3": DEEPSEEK,
    "deepseek_v3.plain": DEEPSEEK
    | {
        "q_lora_rank": None,
        "rope_interleave": False,
        "norm_topk_prob": False,
        "attention_bias": True,
        "rope_parameters": {"rope_type": "default", "rope_theta": 900.0},
        "n_shared_experts": 1,
        "n_group": 1,
        "topk_group": 1,
    },
    "deepseek_v3.odd": DEEPSEEK
    | {
        "attention_bias": True,
        "first_k_dense_replace": 0,
        "tie_word_embeddings": True,
        "rope_parameters": YARN,
    },
    "qwen3_next": STATES | ROUTED,
    "qwen3_next.odd": STATES
    | ROUTED
    | {
        "layer_types": [
            "full_attention",
            "linear_attention",
            "full_attention",
            "linear_attention",
        ],
        "linear_num_key_heads": 3,
        "linear_num_value_heads": 3,
        "linear_conv_kernel_dim": 3,
        "mlp_only_layers": [0],
        "tie_word_embeddings": True,
        "rope_parameters": YARN | {"partial_rotary_factor": 0.5},
    },
    "qwen3_5": STATES
    | {
        "tie_word_embeddings": True,
        "rope_parameters": STATES["rope_parameters"]
        | {"partial_rotary_factor": 0.75, "mrope_section": [3, 2, 1], "mrope_interleaved": True},
    },
    "qwen3_5_text": STATES | {"num_hidden_layers": 5, "rope_parameters": None},
    "qwen3_5_moe": {k: v for k, v in (STATES | ROUTED).items() if k != "intermediate_size"},
}


def as_config(kind: str, settings: dict[str, Any]) -> dict[str, Any]:
    "The settings as a config has them: of models that read pictures, text and pictures apart."
    if kind not in WITH_PICTURES:
        return settings
    tied = {"tie_word_embeddings": settings.get("tie_word_embeddings", False)}
    return {"text_config": settings, "vision_config": PICTURES, **tied}


def library_model(kind: str, settings: dict[str, Any], attention: str = "eager") -> Any:
    "A model of `transformers` with these settings."
    import transformers

    config = transformers.AutoConfig.for_model(kind, **settings)
    config._attn_implementation = attention
    makers = {"bert": "MaskedLM", **dict.fromkeys(WITH_PICTURES, "ImageTextToText")}
    maker = getattr(transformers, f"AutoModelFor{makers.get(kind, 'CausalLM')}")
    model = maker.from_config(config, attn_implementation=attention).eval()
    if "expert" in str(model):
        # the other needs widths that are multiples of 16 bytes
        model.set_experts_implementation("eager")
    return model


def make(
    case: str, seed: int = 0, attention: str = "eager", dtype: torch.dtype = torch.float32
) -> Any:
    "A model of `transformers`: every parameter is random, norms and biases, too."
    kind = case.partition(".")[0]
    model = library_model(kind, as_config(kind, json.loads(json.dumps(SETTINGS[case]))), attention)
    chance = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in [*model.named_parameters(), *model.named_buffers()]:
            if p.is_floating_point() and "inv_freq" not in name and "embed_scale" not in name:
                p.copy_(randomly(name, p, chance))
    return model.to(dtype)


def randomly(name: str, p: torch.Tensor, chance: torch.Generator) -> torch.Tensor:
    """Random numbers for a parameter: matrices so large that attention is not uniform,
    norms around their neutral value.
    """
    noise = torch.randn(p.shape, generator=chance)
    if p.ndim == 1:
        return p + 0.5 * noise if "norm" in name.lower() or "ln_" in name else 0.5 * noise
    return noise * (
        0.5 if "embed" in name or "wte" in name or "wpe" in name else 1.3 * p.shape[-1] ** -0.5
    )


def write(
    folder: Path, case: str, seed: int = 0, shards: bool = False, dtype: torch.dtype = torch.float32
) -> Any:
    "Write such a model, in one file or in shards; the model."
    model = make(case, seed, dtype=dtype)
    published = case.partition(".")[0] not in WITH_PICTURES  # else names as the library's modules
    model.save_pretrained(
        folder, max_shard_size="20KB" if shards else "5GB", save_original_format=published
    )
    return model


def change(folder: Path, **settings: Any) -> None:
    "Change settings of a config; `...` removes one."
    path = Path(folder) / "config.json"
    config = json.loads(path.read_text()) | settings
    path.write_text(json.dumps({name: x for name, x in config.items() if x is not ...}))
