"""Audit the decoders of transformers: tiny ones, with random weights. No false alarm is wanted.

    .venv/bin/python -m tests.third_party.decoders                 # all, a line for each
    .venv/bin/python -m tests.third_party.decoders Llama GPT2      # some, prints their reports

Another release is tried by its folder: PYTHONPATH=folder .venv/bin/python -m …
"""

import inspect
import json
import logging
import os
import signal
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")
import torch
import transformers
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

from attention_checks.auditing import AuditReport, audit

LARGEST = 40_000_000  # parameters of a model that is tried
SECONDS = 120
# Of a tiny model, by the names that configs have for them; widths all differ.
SIZES: dict[str, Any] = {
    "vocab_size": 131,
    "hidden_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 40,
    "head_dim": 12,
    "max_position_embeddings": 64,
    "is_decoder": True,
    "n_embd": 48,
    "n_layer": 2,
    "n_head": 4,
    "n_positions": 64,
    "n_ctx": 64,
    "n_inner": 40,
    "dff": 40,
    "d_model": 48,
    "n_heads": 4,
    "n_layers": 2,
    "num_layers": 2,
    "num_heads": 4,
    "d_ff": 40,
    "d_kv": 12,
    "ffn_dim": 40,
    "ffn_hidden_size": 40,
    "decoder_layers": 2,
    "decoder_attention_heads": 4,
    "decoder_ffn_dim": 40,
    "encoder_layers": 1,
    "encoder_attention_heads": 4,
    "encoder_ffn_dim": 40,
    "moe_intermediate_size": 20,
    "num_experts": 4,
    "num_local_experts": 4,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "n_group": 1,
    "topk_group": 1,
    "q_lora_rank": 20,
    "kv_lora_rank": 16,
    "qk_nope_head_dim": 12,
    "qk_rope_head_dim": 8,
    "v_head_dim": 12,
    "qk_head_dim": 20,
    "sliding_window": 9,
    "embedding_size": 48,
    "expert_ffn_hidden_size": 20,
    "shared_expert_intermediate_size": 20,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "rotary_dim": 8,
    "ffn_hidden_size_": 40,
    "input_embedding_size": 48,
    "output_embedding_size": 48,
    "n_shared_experts": 1,
    "first_k_dense_replace": 1,
    "state_size": 8,
    "time_step_rank": 8,
    "mamba_d_state": 8,
    "mamba_n_heads": 8,
    "mamba_d_head": 12,
    "mamba_n_groups": 1,
    "attention_hidden_size": 48,
    "num_kv_heads": 2,
    "multi_query_group_num": 2,
    "kv_channels": 12,
    "max_seq_len": 64,
}

SETTINGS: dict[str, dict[str, Any]] = {  # where these do not fit
    "gpt_neo": {"attention_types": [[["global", "local"], 1]], "window_size": 9, "num_layers": 2},
    "stablelm": {"partial_rotary_factor": 0.5},
    "gpt_neox": {
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": 10000.0,
            "partial_rotary_factor": 0.5,
        }
    },
    "xmod": {"default_language": "en_XX", "languages": ["en_XX"]},
    "xlm": {"causal": True},
    "reformer": {
        "axial_pos_embds": False,
        "attn_layers": ["local", "local"],
        "local_attn_chunk_length": 64,
    },
    "prophetnet": {"num_encoder_layers": 1, "num_decoder_layers": 2},
    "granitemoehybrid": {"layer_types": ["attention", "mamba"]},
}
# Which of the sizes a kind has in another way.
UNFIT = {
    "falcon": ("head_dim",),
    "prophetnet": ("num_hidden_layers",),
    "xlstm": ("v_head_dim", "qk_head_dim"),
    "reformer": ("num_hidden_layers",),
    "dbrx": ("rope_theta",),
}

READ = {  # rows with faults, as they were read
    "cpmant": "a design: its prompt is seen from both sides; declare Expected(causal=False)",
    "rwkv": "true: it ignores attention_mask, and padding on the left goes into its state",
    "recurrent_gemma": "true: padding on the left goes into its recurrent state",
    "moshi": (
        "true: the full pass has no window, "
        "and its cache drops what is older than the window of the config"
    ),
    "prophetnet": "true: the relative bias of its predicting stream is made in the order token, "
    "n-gram, head and read in the order n-gram, head, token, so a token gets that of a later one; "
    "in the right order the leak is gone",
    "xlm": (
        "true: with causal=True its attention has no other mask, so padding on the left is attended"
    ),
}


@contextmanager
def within(seconds: int) -> Iterator[None]:
    "Raise TimeoutError after so many seconds."

    def ring(*_: Any) -> None:
        raise TimeoutError(f"longer than {seconds} s")

    signal.signal(signal.SIGALRM, ring)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)


def tiny(kind: str, **settings: Any) -> torch.nn.Module:
    "Make the decoder of a kind of model, as transformers names it, with random weights."
    config_class = transformers.CONFIG_MAPPING[kind]
    model_class = getattr(transformers, MODEL_FOR_CAUSAL_LM_MAPPING_NAMES[kind])
    known = (
        set(inspect.signature(config_class.__init__).parameters)
        | set(dir(config_class()))
        | set(getattr(config_class, "attribute_map", {}))
    )
    sizes = {name: size for name, size in SIZES.items() if name in known} | (
        {"head_dim": 8, "num_key_value_heads": 4} if "qk_rope_head_dim" in known else {}
    )
    sizes = {name: size for name, size in sizes.items() if name not in UNFIT.get(kind, ())}
    config = config_class(**sizes | SETTINGS.get(kind, {}) | settings)
    with torch.device("meta"):
        size = sum(p.numel() for p in model_class(config).parameters())
    if size > LARGEST:
        raise ValueError(f"{size:,} parameters")
    torch.manual_seed(0)
    return model_class(config)


def audited(kind: str, **settings: Any) -> AuditReport:
    "Audit a tiny decoder."
    torch.manual_seed(1)
    return audit(tiny(kind, **settings), {"input_ids": torch.randint(3, 131, (1, 12))})


def row(kind: str) -> dict[str, Any]:
    "Return one row of the table."
    start, name = time.perf_counter(), MODEL_FOR_CAUSAL_LM_MAPPING_NAMES[kind]
    try:
        with within(SECONDS):
            model = tiny(kind)
    except BaseException as e:
        return {
            "kind": kind,
            "class": name,
            "verdict": "not made",
            "why": f"{type(e).__name__}: {e}"[:160].splitlines()[0],
        }
    try:
        with within(SECONDS):
            report = audit(model, {"input_ids": torch.randint(3, 131, (1, 12))})
    except BaseException as e:
        return {
            "kind": kind,
            "class": name,
            "verdict": "not audited",
            "why": f"{type(e).__name__}: {e}"[:160].splitlines()[0],
        }
    return {
        "kind": kind,
        "class": name,
        "verdict": "sound" if report.ok else "faults",
        "codes": report.codes,
        "faults": [f"{f.layer} [{f.code}] {f.example}" for f in report.faults],
        "layers": [str(layer) for layer in report.layers],
        "not_tried": [f"{n.property}: {n.why}" for n in report.notes],
        "read": READ.get(kind, "") if not report.ok else "",
        "seconds": round(time.perf_counter() - start, 1),
    }


def main(kinds: list[str]) -> None:
    "Audit all decoders, or those that are named."
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    chosen = [kind for kind in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES if not kinds or kind in kinds]
    for kind in chosen:
        found = row(kind)
        why = found.get("codes") or found.get("why") or ""
        print(kind, found["verdict"], why, found.get("seconds", ""), flush=True)
        if kinds:
            print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main(sys.argv[1:])
