"""What other people call projections, heads, masks, windows and dropout, in one table."""

import re
from collections.abc import Callable, Iterator
from itertools import accumulate
from typing import Any

import torch
import torch.nn as nn

_AFFIX = (
    "to|w|fc|lin(?:ear)?s?|proj(?:ect(?:ions?)?)?|layers?|weights?|matrix|mat|net|transform"
    "|dense|func|fn|conv(?:1d|2d)?"
)
_ROLES = {
    name: role
    for role, names in {
        "q": "q query queries qs cq qb",
        "k": "k key keys ks ck",
        "v": "v value values vs val cv",
        "kv": "kv keyvalue kvs keysvalues kvb",
        "qk": "qk querykey",
        "latent": "kva kvaprojwithmqa kvdown",
        "qkv": "qkv in cattn querykeyvalue querieskeysvalues attn kqv qvk vkq vqk kvq",
        "out": "o out output c unifyheads unify final combine merge concat mix heads",
    }.items()
    for name in names.split()
}
_ROLES[""] = "out"  # a bare "proj"
_BIAS = re.compile(
    r"^b_?(q|k|v|o|out|in)$"
    r"|^(q|k|v|o|out|in|in_proj|query|key|value|output)_?(proj_?)?b(ias)?$",
    re.I,
)


def role_of(
    path: str,  # the dotted name of a module or parameter, such as "attn.W_query"
) -> str | None:  # "q", "k", "v", "kv", "qk", "qkv", "latent", "out"; None: the name does not tell
    "Read from its name what a projection is for; latent is what keys and values are made from."
    parts = [p for p in path.split(".") if not p.isdigit() and p not in ("weight", "bias")]
    if not parts or not (name := parts[-1].lower().replace("_", "")):
        return None
    bare = name if name in _ROLES else re.sub(rf"^(?:{_AFFIX})+|(?:{_AFFIX})+$", "", name)
    if not bare and "conv" in name:
        return None
    if not bare:  # query.linear: the module around it tells
        outer = role_of(".".join(parts[:-1]))
        if outer in ("q", "k", "v", "kv"):
            return outer
    return _ROLES.get(bare)


def biased_role(
    path: str,  # the dotted name of a parameter, such as "attn.b_q"
) -> str | None:  # as `role_of`, "in" for one of all three; None if it is not a bare bias
    "Read from its name what a bias that is part of no module is added to."
    match = _BIAS.search(path.rpartition(".")[2])
    if not match:
        return None
    name = (match[1] or match[2]).lower()
    return "in" if name in ("in", "in_proj") else _ROLES.get(name)


HEADS = (
    "n_heads num_heads heads n_head nhead nheads num_attention_heads h n_h H head_num num_head"
).split()
KV_HEADS = (
    "n_kv_heads num_kv_heads num_key_value_heads kv_heads n_kv_head n_groups num_groups"
).split()
WIDTHS = (
    "d_model d_in d_out embed_dim embed_size emb_size emb_dim dim hidden_size hidden_dim n_embd"
    " input_dim d"
).split()
LENGTHS = "context_length block_size max_len max_length max_seq_len seq_len n_positions".split()
_SETTINGS = {
    "window": re.compile(r"^_?((sliding|local|attn|attention)_)*window(_(size|len|length))?$"),
    "cap": re.compile(r"^cap$|soft_?cap|logits?_(soft_?)?cap|attn_?cap"),
}
POSITIONS = re.compile(  # what depends on positions: "rope", "pos_emb", "alibi"
    r"(?:^|[._])(?:pos|positions?|positional|pe|freqs?|inv_freq|rel|sin|cos|slopes?)(?:$|[._])"
    r"|rope|rotary|alibi|posit|freqs|relative",
    re.I,
)
INDEXER = re.compile(r"(?:^|[._])indexer[._]")  # it chooses keys, with a loss of its own (DeepSeek)
CAUSAL = ("causal", "is_causal")  # options of a call, or of a class
MASK = re.compile("mask|len|pad")  # arguments that may be None
_MASK_ARGUMENT = re.compile("^(?!use_|return_|causal|is_|head|layer|.*(head|type|fn|mod)).*mask$")
_PLAIN_MASK = re.compile("^((src|tgt|self|key|attn|attention|padding)_)*mask$")
MEMORY = re.compile(  # arguments that take the memory of cross-attention
    r"^(mem(ory)?|(cross_)?(context|ctx|cond)"
    r"|(enc|encoder|kv|cross|source|src)"
    r"(_?(out|output|outputs|hidden|states|hidden_states|memory|input|inputs|x|seq))?"
    r"|key_value(_states|s)?|x_?(kv|enc|cross|2)|(k|v|key|value)s?)$",
    re.I,
)
MEMORY_MASKS = (  # arguments that hide tokens of the memory
    "memory_key_padding_mask memory_padding_mask memory_mask encoder_attention_mask encoder_mask"
    " context_mask cross_attention_mask kv_mask key_mask"
).split()
MEMORY_WIDTHS = (
    "d_memory memory_dim d_context context_dim cross_attention_dim d_cross d_encoder encoder_dim"
    " d_enc d_kv_in kdim vdim kv_dim"
).split()
POSITION_ARGUMENT = re.compile("pos|freq|rope")  # arguments that must be declared
OUTPUT = ("last_hidden_state", "out", "output")  # fields of what a call returns


def is_mask(
    name: str,  # of an argument
) -> bool:  # True for "attn_mask" and "src_padding_mask", False for "head_mask" and "use_mask"
    "Say whether an argument takes a mask of tokens."
    return bool(_MASK_ARGUMENT.search(name))


def is_plain_mask(
    name: str,  # of an argument that takes a mask
) -> bool:  # True for "attention_mask", False for "additional_kv_mask"
    "Say whether the name of a mask leaves no doubt that it is for the hidden states that go in."
    return bool(_PLAIN_MASK.search(name)) or name in MEMORY_MASKS


def hides_padding(
    name: str,  # of an argument
) -> bool:  # True for "key_padding_mask", and for a mask of the memory
    "Say whether the name of a mask leaves no doubt that it hides tokens, for all queries alike."
    return "pad" in name or name in MEMORY_MASKS


def heads_of(layer: object) -> int | None:  # its number of heads, if an attribute tells
    "Find an attribute that says how many heads there are."
    values = (getattr(m, name, None) for m in _modules(layer) for name in HEADS)
    return next((v for v in values if type(v) is int and v > 0), None)


def settings_of(
    module: object,  # any layer; a function has none
    kind: str,  # "window", or "cap" of the scores
) -> Iterator[tuple[str, float]]:  # name and value
    "List numbers above 0 that a layer keeps for a purpose."
    for m in _modules(module):
        for name, value in vars(m).items():
            if isinstance(value, (int, float)) and value > 0 and _SETTINGS[kind].search(name):
                yield name, value


def _modules(module: object) -> Iterator[nn.Module]:
    "Return a layer and all that it is made of; nothing for a function."
    return module.modules() if isinstance(module, nn.Module) else iter(())


def is_dropout(name: object) -> bool:  # True for "dropout", "attn_pdrop"
    "Say whether a name is that of a dropout probability."
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
    lengths: list[int],  # tokens of each packed document
) -> Any:  # document ids (1, n), ends (documents + 1,), or the longest; None: it is none of them
    "Say where packed documents end, in the form that an argument asks for."
    return next((make(lengths) for names, make in _PACKING if names.search(name)), None)
