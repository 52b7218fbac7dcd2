"""Names of projections, heads, masks, windows and shares of dropout in other people's layers, in one table."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from itertools import accumulate
from typing import Any

import torch
import torch.nn as nn

_AFFIX = "to|w|fc|lin(?:ear)?s?|proj(?:ection|ections)?|layers?|weights?|matrix|mat|net|transform|dense|func|fn"
_WORDS = {"": "out"} | {
    word: role
    for role, words in {
        "q": "q query queries qs cq qb",
        "k": "k key keys ks ck",
        "v": "v value values vs val cv",
        "kv": "kv keyvalue kvs keysvalues kvb",
        "qk": "qk querykey",
        "latent": "kva kvaprojwithmqa kvdown",
        "qkv": "qkv in cattn querykeyvalue querieskeysvalues attn kqv qvk vkq vqk kvq",
        "out": "o out output c unifyheads unify final combine merge concat mix heads",
    }.items()
    for word in words.split()
}
_BIAS = re.compile(
    r"^b_?(q|k|v|o|out)$|^(q|k|v|o|out|in_proj|query|key|value|output)_?(proj_?)?b(ias)?$", re.I
)


def role_of(
    path: str,  # the dotted name of a module or parameter, such as "attn.W_query"
) -> (
    str | None
):  # "q", "k", "v", "kv", "qk", "qkv", "latent" (what keys and values are made of), "out", or None if the name does not tell
    "Read from its name what a projection is for."
    parts = [p for p in path.split(".") if not p.isdigit() and p not in ("weight", "bias")]
    word = parts[-1].lower().replace("_", "") if parts else ""
    bare = word if word in _WORDS else re.sub(rf"^(?:{_AFFIX})+|(?:{_AFFIX})+$", "", word)
    outer = (
        role_of(".".join(parts[:-1])) if word and not bare else None
    )  # query.linear: what stands around it tells
    return outer if outer in ("q", "k", "v", "kv") else _WORDS.get(bare) if word else None


def biased_role(
    path: str,  # the dotted name of a parameter, such as "attn.b_q"
) -> str | None:  # as `role_of`, "in" for one of all three; None if it is no bias that stands alone
    "Read from its name what a bias that is no part of a module is added to."
    found = _BIAS.search(path.rpartition(".")[2])
    word = next(filter(None, found.groups()), "").lower() if found else ""
    return "in" if word == "in_proj" else _WORDS.get(word) if word else None


HEADS = "n_heads num_heads heads n_head nhead nheads num_attention_heads h n_h H head_num num_head".split()
KV_HEADS = (
    "n_kv_heads num_kv_heads num_key_value_heads kv_heads n_kv_head n_groups num_groups".split()
)
WIDTHS = "d_model d_in d_out embed_dim embed_size emb_size emb_dim dim hidden_size hidden_dim n_embd input_dim d".split()
LENGTHS = "context_length block_size max_len max_length max_seq_len seq_len n_positions".split()
_SETTINGS = {
    "window": re.compile(r"^_?((sliding|local|attn|attention)_)*window(_(size|len|length))?$"),
    "part": re.compile(
        "window|local|chunk|block|band|span|radius|neighbo|bucket|segment|dilat|stride|sparse"
    ),
    "residual": re.compile("^(?!.*drop).*(resid|skip_connect|shortcut)"),
    "cap": re.compile(r"^cap$|soft_?cap|logits?_(soft_?)?cap|attn_?cap|add_zero_attn"),
}
_SCALES: dict[
    str, Callable[[float, int], float]
] = {  # what a config says, and the width of a head → the scale
    "attention_multiplier": lambda v, d: v,  # Granite
    "query_pre_attn_scalar": lambda v, d: v**-0.5,  # Gemma
    "attention_scaling": lambda v, d: v * v * d**-0.5,  # YaRN: the factor of a rotation
    "attention_factor": lambda v, d: v * v * d**-0.5,
    "mscale": lambda v, d: v * v * d**-0.5,
}
PLACES = re.compile(  # what has to do with the order of words: "rope", "pos_emb", "alibi"
    r"(?:^|[._])(?:pos|positions?|positional|pe|freqs?|inv_freq|rel|sin|cos|slopes?)(?:$|[._])"
    r"|rope|rotary|alibi|posit|freqs|relative",
    re.I,
)
ON_SCORES = (
    re.compile(  # what has to do with scores, and leaves values alone: "rel_bias", "q_norm", "sink"
        r"rel|bias|pos|emb|rope|rot|alibi|slope|sink|(^|[._])(q|k|query|key|qk)_?(ln|norm)", re.I
    )
)
CHOOSER = re.compile(
    r"(?:^|[._])indexer[._]"
)  # parameters of what chooses keys, trained by a loss of its own (DeepSeek-V3.2)
CAUSAL = ("causal", "is_causal")  # options of a call, or of a class
MASK = re.compile("mask|len|pad")  # arguments that may be None
MEMORY = re.compile(  # arguments that take the other sequence of cross-attention
    r"^(mem(ory)?|(cross_)?(context|ctx|cond)|(enc|encoder|kv|cross|source|src)(_?(out|output|outputs|hidden|states|hidden_states|memory|input|inputs|x|seq))?"
    r"|key_value(_states|s)?|x_?(kv|enc|cross|2)|(k|v|key|value)s?)$",
    re.I,
)
MEMORY_MASKS = (  # and those that hide words of it
    "memory_key_padding_mask",
    "memory_padding_mask",
    "memory_mask",
    "encoder_attention_mask",
    "encoder_mask",
    "context_mask",
    "cross_attention_mask",
    "kv_mask",
    "key_mask",
)
MEMORY_WIDTHS = "d_memory memory_dim d_context context_dim cross_attention_dim d_cross d_encoder encoder_dim d_enc d_kv_in kdim vdim kv_dim".split()
PLACE_ARGUMENT = re.compile("pos|freq|rope")  # arguments that nobody can guess
OUTPUT = ("last_hidden_state", "out", "output")  # fields of what a call returns


def heads_of(
    layer: nn.Module,  # any layer
) -> int | None:  # its number of heads, if an attribute tells
    "Look for an attribute that says how many heads there are."
    values = (getattr(m, name, None) for m in layer.modules() for name in HEADS)
    return next((v for v in values if type(v) is int and v > 0), None)


def settings_of(
    module: object,  # any layer; a function has none
    kind: str,  # "window": how far a word looks, "part": that words see a part only, "residual": that x is added, "cap": what limits scores
) -> Iterator[tuple[str, float]]:  # name and value
    "List numbers above 0 that a layer keeps for a purpose."
    for m in module.modules() if isinstance(module, nn.Module) else ():
        for name, v in vars(m).items():
            if isinstance(v, (int, float)) and v > 0 and _SETTINGS[kind].search(name):
                yield name, v


def told_scales(
    module: object,  # any layer; a function has none
) -> list[
    tuple[str, Callable[[int], float]]
]:  # name and value, and the scale of scores that it tells for a width of heads
    "List settings that a model's config gives scores a scale by, of a layer, or of a config that it keeps."
    found: list[tuple[str, Callable[[int], float]]] = []
    for m in module.modules() if isinstance(module, nn.Module) else ():
        owned = [
            v
            for n, v in vars(m).items()
            if n[:1] != "_" and hasattr(v, "__dict__") and not isinstance(v, type)
        ]
        for kept in (vars(m), *map(vars, owned)):
            for name, v in kept.items():
                if (
                    name in _SCALES
                    and isinstance(v, (int, float))
                    and not isinstance(v, bool)
                    and v > 0
                ):
                    found.append((f"{name} = {v:g}", partial(_SCALES[name], v)))
    return found


def is_share(
    name: object,  # of a number above 0
) -> bool:  # True for "dropout", "attn_pdrop"
    "Say whether a name is that of a share of dropout."
    return "drop" in str(name).lower()


_PACKING: list[tuple[re.Pattern[str], Callable[[list[int]], Any]]] = [
    (
        re.compile("^(doc(ument)?|segment|seq(uence)?|text)_(ids?|idx)$"),
        lambda lengths: torch.arange(len(lengths)).repeat_interleave(torch.tensor(lengths))[None],
    ),
    (
        re.compile("^cu_?seq_?lens?(_[qk])?$"),
        lambda lengths: torch.tensor([0, *accumulate(lengths)], dtype=torch.int32),
    ),
    (re.compile("^max_?seq_?len(_[qk])?$"), max),
]


def packing(
    name: str,  # of an argument, such as "document_ids" or "cu_seqlens"
    lengths: list[int],  # words of each text in the row
) -> Any:  # numbers of texts (1, n), places of ends (texts + 1,), or the longest; None if the name does not tell
    "Say where texts that share a row end, in the way that an argument wants."
    return next((tell(lengths) for called, tell in _PACKING if called.search(name)), None)
