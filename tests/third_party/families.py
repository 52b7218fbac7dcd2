"""How classes that are not described one by one are made and called:
by the names of their arguments.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from tests.third_party.subjects import Subject, cross, layer

D, H, HEAD = 48, 4, 12  # width, heads, width of a head
M = 36  # width of a memory, where a class lets it be another
SIZES: dict[str, Any] = {
    **dict.fromkeys(
        (
            "dim",
            "d_model",
            "embed_dim",
            "hidden_size",
            "input_size",
            "n_feat",
            "n_embd",
            "in_channels",
            "channels",
            "query_dim",
            "hidden_dim",
            "model_dim",
            "dim_in",
            "dim_out",
            "in_dim",
            "out_dim",
            "embedding_dim",
            "num_hiddens",
            "num_channels",
            "n_state",
            "features",
            "in_features",
            "out_features",
            "width",
            "idim",
            "inner_dim",
        ),
        D,
    ),
    **dict.fromkeys(
        (
            "heads",
            "num_heads",
            "n_heads",
            "n_head",
            "num_attention_heads",
            "nhead",
            "num_attn_heads",
            "attention_heads",
        ),
        H,
    ),
    **dict.fromkeys(
        ("dim_head", "head_dim", "attention_head_dim", "d_k", "dim_key", "dim_value", "d_head"),
        HEAD,
    ),
    **dict.fromkeys(
        (
            "dropout",
            "dropout_rate",
            "attn_dropout",
            "attention_dropout",
            "dropout_prob",
            "attn_drop",
            "proj_drop",
        ),
        0.1,
    ),
    **dict.fromkeys(("layer_idx", "layer_id"), 0),
}
ROWS = re.compile(
    r"^(x|q|k|v|query|key|value|queries|keys|values|hidden_states?|inputs?|input_tensor|features|embeddings|tokens|context|src|data)$"
)


def required(fn: Callable[..., Any]) -> list[str]:
    "The names of the arguments that a function cannot do without."
    kinds = (
        inspect.Parameter.POSITIONAL_ONLY,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
        inspect.Parameter.KEYWORD_ONLY,
    )
    return [
        name
        for name, p in inspect.signature(fn).parameters.items()
        if p.default is p.empty and p.kind in kinds
    ]


def built(cls: Any, **more: Any) -> Any:
    "An object of small sizes: what its arguments are called says which."
    names = inspect.signature(cls).parameters
    sizes = {
        name: SIZES[name] for name in names if name in SIZES and (names[name].default is not None)
    }
    return cls(**{**sizes, **more})


def called(m: Any, x: Tensor) -> Any:
    "Rows for every argument that takes rows, nothing for a mask."
    return m(**{name: x if ROWS.match(name) else None for name in required(m.forward)})


def pictured(m: Any, x: Tensor) -> Tensor:
    "Words as a picture (b, d, 1, n), as layers over pictures take them."
    out = m(x.transpose(1, 2).unsqueeze(2))
    return (out[0] if isinstance(out, tuple) else out).flatten(2).transpose(1, 2)


def triangle(n: int) -> Tensor:
    "What hides the future when it is added to scores, (1, 1, n, n)."
    return torch.full((1, 1, n, n), torch.finfo(torch.float32).min).triu(1)


def listed(lines: str, heads: int | None = H, **more: Any) -> list[Subject]:
    """A subject for each line: class, then `pictured`, or what is declared:
    a word that is true, or name=number.
    """
    return [_listed(*line.split(), heads=heads, more=more) for line in lines.strip().splitlines()]


def listed_both(lines: str, **more: Any) -> list[Subject]:
    "The same for cross-attention, which its check knows to call."
    return [
        _listed(*line.split(), heads=H, more=more, kind=cross)
        for line in lines.strip().splitlines()
    ]


def _listed(
    path: str,
    *words: str,
    heads: int | None,
    more: dict[str, Any],
    kind: Callable[..., Subject] = layer,
) -> Subject:
    "One line."
    said = {
        name: int(value) if value else True
        for name, _, value in (word.partition("=") for word in words if word != "pictured")
    }
    declared = {"d_model": D, **({"n_heads": heads} if heads else {}), **said}
    call = None if kind is cross else pictured if "pictured" in words else called
    return kind(path, lambda cls: built(cls, **more), call, **declared)
