"""The cases of `real_models`: how to draw each function's arguments, and what is right."""

import atexit
import json
import shutil
import tempfile
from functools import cache
from pathlib import Path

import attention_nb as nb
import torch
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.torch import save_file
from tests.properties.common import Case, args, refuse

SIZES = {
    "vocab_size": 13,
    "hidden_size": 6,
    "intermediate_size": 10,
    "num_attention_heads": 3,
    "num_key_value_heads": 1,
    "head_dim": 4,
}
OURS = {
    "model.embed_tokens": "embed.table",
    "model.layers": "stack.blocks",
    "model.norm": "stack.norm",
    "self_attn.o_proj": "attention.out_proj",
    "self_attn": "attention",
    "input_layernorm": "attention_norm",
    "post_attention_layernorm": "feed_forward_norm",
    "mlp": "feed_forward",
}


def shapes(n_layers):
    "Their names, and the shapes that belong to SIZES."
    layer = {
        "input_layernorm": (6,),
        "post_attention_layernorm": (6,),
        "self_attn.q_proj": (12, 6),
        "self_attn.k_proj": (4, 6),
        "self_attn.v_proj": (4, 6),
        "self_attn.o_proj": (6, 12),
        "mlp.gate_proj": (10, 6),
        "mlp.up_proj": (10, 6),
        "mlp.down_proj": (6, 10),
    }
    named = {
        f"model.layers.{i}.{name}": shape for i in range(n_layers) for name, shape in layer.items()
    }
    return {"model.embed_tokens": (13, 6), "model.norm": (6,), "lm_head": (13, 6), **named}


@cache
def folder(n_layers):
    "A tiny Llama of random weights."
    path = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, path, True)
    rng = torch.Generator().manual_seed(n_layers)
    save_file(
        {
            f"{name}.weight": torch.randn(shape, generator=rng)
            for name, shape in shapes(n_layers).items()
        },
        path / "model.safetensors",
    )
    (path / "config.json").write_text(
        json.dumps({"model_type": "llama", "num_hidden_layers": n_layers, **SIZES})
    )
    return path


def right_weights(directory, dtype=None):
    "By the library of safetensors, renamed word by word."
    refuse(
        isinstance(directory, (str, Path))
        and str(directory)
        and (dtype is None or dtype.is_floating_point)
    )
    found = {}
    with safe_open(Path(directory) / "model.safetensors", "pt") as file:
        for name in file.keys():  # noqa: SIM118 (it is no dictionary)
            ours = name
            for theirs, word in OURS.items():
                ours = ours.replace(theirs, word)
            found[ours] = file.get_tensor(name).double()
    return dict(sorted(found.items()))


def loaded_weights(directory, dtype=None):
    named = sorted(nb.load_model(directory, dtype).named_parameters())
    return {name: p.detach() for name, p in named}


FOLDERS = st.sampled_from([1, 2]).map(folder)
DTYPES = st.sampled_from([None, torch.float32, torch.float64, torch.float16, torch.bfloat16])
CASES = {
    "load_model": Case(
        loaded_weights,
        args(directory=st.one_of(FOLDERS, FOLDERS.map(str)), dtype=DTYPES),
        right_weights,
        "dtype",
    ),
}
