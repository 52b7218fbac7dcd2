"""Faults planted in one layer of a tiny model, each a row:
the model, the layer, the code, what is planted.
"""

import copy
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn as nn
import torch.nn.functional as F
from tests.late import Late

import attention_nb as nb

transformers = Late("transformers")
IDS = torch.randint(3, 61, (1, 7), generator=torch.Generator().manual_seed(0))
SMALL = dict(
    vocab_size=61,
    hidden_size=48,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=12,
    intermediate_size=20,
    max_position_embeddings=64,
)
GPT2 = dict(vocab_size=61, n_embd=48, n_layer=2, n_head=4, n_positions=64)
GROUPS = {"num_local_experts": 2, "num_experts_per_tok": 1, "sliding_window": 9}
LATENT = dict(
    vocab_size=61,
    hidden_size=48,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=4,
    intermediate_size=20,
    q_lora_rank=20,
    kv_lora_rank=16,
    qk_nope_head_dim=12,
    qk_rope_head_dim=8,
    v_head_dim=12,
    first_k_dense_replace=2,
    head_dim=8,
    max_position_embeddings=64,
    rope_parameters={
        "rope_type": "yarn",
        "rope_theta": 10000.0,
        "factor": 4.0,
        "mscale": 1.0,
        "mscale_all_dim": 1.0,
        "original_max_position_embeddings": 16,
    },
)


def llama() -> nn.Module:
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**SMALL))


def mistral() -> nn.Module:
    return transformers.MistralForCausalLM(transformers.MistralConfig(**SMALL, sliding_window=9))


def gemma() -> nn.Module:
    kinds = ["sliding_attention", "full_attention"]
    return transformers.Gemma3ForCausalLM(
        transformers.Gemma3TextConfig(**SMALL, sliding_window=9, layer_types=kinds)
    )


def gpt_oss() -> nn.Module:
    return transformers.GptOssForCausalLM(transformers.GptOssConfig(**SMALL, **GROUPS))


def deepseek() -> nn.Module:
    return transformers.DeepseekV3ForCausalLM(transformers.DeepseekV3Config(**LATENT))


def gpt2() -> nn.Module:
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(**GPT2))


def block(positions: Any = None, kv: int = 2, cross: bool = False) -> nn.Module:
    attention = nb.MultiHeadAttention(24, 4, n_kv_heads=kv, positions=positions)
    return nb.TransformerBlock(
        24, attention, nb.FeedForward(24, 40), nb.MultiHeadAttention(24, 4) if cross else None
    )


def book(positions: Any = None) -> nn.Module:
    blocks = [block(positions or nb.RotaryEmbedding(6)) for _ in range(2)]
    return nb.LanguageModel(
        nb.TokenEmbedding(61, 24), nb.TransformerStack(blocks, nn.LayerNorm(24))
    )


def translator() -> nn.Module:
    encoder = nb.TransformerStack([block() for _ in range(2)], nn.LayerNorm(24))
    decoder = nb.TransformerStack([block(cross=True) for _ in range(2)], nn.LayerNorm(24))
    embed = [nb.TokenEmbedding(61, 24, nb.LearnedPositions(64, 24)) for _ in range(2)]
    return nb.EncoderDecoder(*embed, encoder, decoder)


Attend = Callable[..., torch.Tensor]


def right(q: Any, k: Any, v: Any, mask: Any, scale: float, **change: Any) -> torch.Tensor:
    "Attention as it should be, in plain code."
    n_q, n_k, times = q.shape[-2], k.shape[-2], q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(times, 1), v.repeat_interleave(times, 1)
    causal = torch.ones(n_q, n_k, dtype=torch.bool).tril(n_k - n_q)
    return F.scaled_dot_product_attention(q, k, v, causal if mask is None else mask, scale=scale)


def attending(path: str, attend: Attend) -> Callable[[nn.Module], None]:
    """Plant another attention in one layer of a model of transformers:
    attend(layer, q, k, v, mask, scale).
    """

    def plant(model: nn.Module) -> None:
        from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

        layer, name = model.get_submodule(path), f"planted {id(attend)}"

        def run(
            module: Any, q: Any, k: Any, v: Any, mask: Any, scaling: float | None = None, **_: Any
        ) -> Any:
            scale = q.shape[-1] ** -0.5 if scaling is None else scaling
            return attend(module, q, k, v, mask, scale).transpose(1, 2), None

        ALL_ATTENTION_FUNCTIONS[name] = run
        layer.config = copy.copy(layer.config)
        layer.config._attn_implementation = name

    return plant


def instead(path: str, change: Callable[..., Any]) -> Callable[[nn.Module], None]:
    "Plant another forward in one module: change(its own forward, *arguments)."

    def plant(model: nn.Module) -> None:
        module = model.get_submodule(path)
        forward = module.forward
        module.forward = lambda *args, **kwargs: change(forward, *args, **kwargs)

    return plant


def with_mask(change: Callable[[Any, torch.Tensor], torch.Tensor]) -> Attend:
    "Change the mask: change(layer, causal) where none is given."

    def attend(layer: Any, q: Any, k: Any, v: Any, mask: Any, scale: float) -> torch.Tensor:
        n_q, n_k = q.shape[-2], k.shape[-2]
        i, j = torch.arange(n_k - n_q, n_k)[:, None], torch.arange(n_k)
        return right(q, k, v, change(layer, i - j), scale)

    return attend


def with_cache(change: Callable[..., tuple[Any, ...]]) -> Attend:
    "Change queries, keys, values and mask where older tokens are cached."

    def attend(layer: Any, q: Any, k: Any, v: Any, mask: Any, scale: float) -> torch.Tensor:
        if q.shape[-2] < k.shape[-2]:
            q, k, v, mask = change(q, k, v, mask)
        return right(q, k, v, mask, scale)

    return attend


def with_prefix(layer: Any, q: Any, k: Any, v: Any, mask: Any, scale: float) -> torch.Tensor:
    "The first four tokens see each other."
    i, j = torch.arange(q.shape[-2])[:, None], torch.arange(k.shape[-2])
    return right(q, k, v, (j <= i) | (i < 4) & (j < 4), scale)


def by_scale(factor: Callable[[Any], float]) -> Attend:
    return lambda layer, q, k, v, mask, scale: right(q, k, v, mask, factor(q))


def as_plain_softmax(layer: Any, q: Any, k: Any, v: Any, mask: Any, scale: float) -> torch.Tensor:
    "Minus infinity is infinite, and a row that sees nothing is 0 / 0."
    causal = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool).tril(k.shape[-2] - q.shape[-2])
    k, v = k.repeat_interleave(2, 1), v.repeat_interleave(2, 1)
    scores = (q @ k.mT * scale).masked_fill(~(causal if mask is None else mask), float("-inf"))
    exponentials = (scores - scores.amax(-1, keepdim=True)).exp()
    return exponentials / exponentials.sum(-1, keepdim=True) @ v


def forgets_padding(layer: Any, q: Any, k: Any, v: Any, mask: Any, scale: float) -> torch.Tensor:
    return right(q, k, v, None, scale)


def mixes_documents(layer: Any, q: Any, k: Any, v: Any, mask: Any, scale: float) -> torch.Tensor:
    packed = mask is not None and mask.shape[0] > 1 and not mask[:, 0, -1, 0].any()
    return right(q, k, v, None if packed else mask, scale)


def tiled(layer: Any, q: Any, k: Any, v: Any, mask: Any, scale: float) -> torch.Tensor:
    return right(q, k.repeat(1, 2, 1, 1), v.repeat(1, 2, 1, 1), mask, scale)


def batch_mean(layer: Any, q: Any, k: Any, v: Any, mask: Any, scale: float) -> torch.Tensor:
    return right(q, k, v + v.mean(0, keepdim=True), mask, scale)


def positions_anew(
    forward: Any,
    hidden_states: Any,
    position_embeddings: Any = None,
    past_key_values: Any = None,
    **more: Any,
) -> Any:
    "Tokens after a cache are rotated as if they were the first."
    if past_key_values is not None and past_key_values.get_seq_length(0) > 0:
        angles = torch.arange(hidden_states.shape[1])[:, None] * 10000.0 ** (
            -torch.arange(6) / 6
        ).to(hidden_states)
        angles = torch.cat([angles, angles], -1)[None]
        position_embeddings = (angles.cos(), angles.sin())
    return forward(
        hidden_states,
        position_embeddings=position_embeddings,
        past_key_values=past_key_values,
        **more,
    )


def other_base(model: nn.Module) -> None:
    "Layers that see all tokens are rotated with a base of 500."
    model.model.rotary_emb.full_attention_inv_freq.copy_(500.0 ** (-torch.arange(6) / 6))


def no_sinks(layer: Any, q: Any, k: Any, v: Any, mask: Any, scale: float) -> torch.Tensor:
    allowed = mask if mask is None or mask.dtype == torch.bool else mask > -1e9
    return right(q, k, v, allowed, scale)


class Rounding(nb.KVCache):
    def append(self, k: Any, v: Any) -> Any:
        return tuple(t.double() for t in super().append(k.bfloat16(), v.bfloat16()))


def rounds(model: nn.Module, ids: torch.Tensor, caches: Any) -> Any:
    "Keys and values are kept in 16 bits."
    if caches is None:
        caches = [Rounding(len(ids), 2, 64, 6, dtype=torch.bfloat16) for _ in range(2)]
    model(ids, caches=caches)
    return caches


def counts(layer: Any) -> Callable[..., Any]:
    calls = []

    def forward(own: Any, x: Any) -> Any:
        calls.append(1)
        return own(x) * len(calls)

    return forward


def batch_norm(model: nn.Module) -> None:
    class Norm(nn.BatchNorm1d):
        def forward(self, x: Any) -> Any:
            return super().forward(x.transpose(1, 2)).transpose(1, 2)

    model.stack.blocks[1].feed_forward_norm = Norm(24)


def mean_of_all(forward: Any, x: Any) -> Any:
    return forward(x) - x.mean(1, keepdim=True)


def random_weights(forward: Any, x: Any) -> Any:
    return F.dropout(forward(x), 0.5)


def wrong_ids(forward: Any, ids: Any) -> Any:
    return forward(torch.arange(ids.shape[-1])[None] if ids.shape[-1] > 14 else ids)


def no_memory_mask(forward: Any, x: Any, memory: Any = None, mask: Any = None, **more: Any) -> Any:
    return forward(x, memory, **more)


def no_mask(forward: Any, x: Any, *args: Any, mask: Any = None, **more: Any) -> Any:
    return forward(x, *args, **more)


class Planted(NamedTuple):
    name: str
    make: Callable[[], nn.Module]
    layer: str
    code: str
    plant: Callable[[nn.Module], None]
    arguments: dict[str, Any] = {}


L1, G1, S0, D1, B1 = (
    "model.layers.1.self_attn",
    "transformer.h.1.attn",
    "model.layers.0.self_attn",
    "model.layers.0.self_attn",
    "stack.blocks.1.attention",
)


def in_llama(name: str, code: str, attend: Attend, **arguments: Any) -> Planted:
    return Planted(name, llama, L1, code, attending(L1, attend), arguments)


PLANTED = [
    in_llama("no mask", "mask.leaks", with_mask(lambda m, back: back > -99)),
    in_llama("the mask is off by one", "mask.sees_next", with_mask(lambda m, back: back >= -1)),
    in_llama(
        "is_causal in training only",
        "mode.mask_in_training",
        with_mask(lambda m, back: (back >= 0) | (not m.training)),
    ),
    in_llama(
        "is_causal in evaluation only",
        "mode.mask_in_evaluation",
        with_mask(lambda m, back: (back >= 0) | m.training),
    ),
    in_llama(
        "a window that is not declared",
        "mask.window",
        with_mask(lambda m, back: (back >= 0) & (back < 7)),
    ),
    in_llama("the scale of the model's width", "scale.d_model_root", by_scale(lambda q: 48**-0.5)),
    in_llama("no scale", "scale.missing", by_scale(lambda q: 1.0)),
    in_llama("the scale without its root", "scale.by_width", by_scale(lambda q: 1 / 12)),
    in_llama("another scale in one layer", "promise.scale", by_scale(lambda q: 0.4)),
    in_llama("padding is not masked", "padding.left", forgets_padding),
    in_llama("NaN where all is masked", "padding.nan", as_plain_softmax),
    in_llama("packed documents see each other", "documents.leak", mixes_documents),
    in_llama("the batch is averaged", "batch.mixes", batch_mean),
    in_llama(
        "groups permuted in the cache",
        "cache.groups",
        with_cache(lambda q, k, v, m: (q, k.flip(1), v.flip(1), m)),
    ),
    in_llama(
        "sequences permuted in the cache",
        "cache.mixes_sequences",
        with_cache(lambda q, k, v, m: (q, k.flip(0), v.flip(0), m)),
    ),
    in_llama(
        "the first token is dropped from the cache",
        "cache.drops",
        with_cache(
            lambda q, k, v, m: (q, k[:, :, 1:], v[:, :, 1:], m if m is None else m[..., 1:])
        ),
    ),
    in_llama(
        "the cache is not read",
        "cache.forgets",
        with_cache(lambda q, k, v, m: (q, k[:, :, -q.shape[2] :], v[:, :, -q.shape[2] :], None)),
    ),
    in_llama(
        "the causal mask starts in the upper left corner",
        "cache.corner",
        with_cache(
            lambda q, k, v, m: (
                q,
                k,
                v,
                torch.ones(q.shape[2], k.shape[2], dtype=torch.bool).tril(),
            )
        ),
    ),
    in_llama(
        "a chunk sees its future",
        "cache.chunk_future",
        with_cache(
            lambda q, k, v, m: (q, k, v, torch.ones(q.shape[2], k.shape[2], dtype=torch.bool))
        ),
    ),
    in_llama(
        "cached keys are changed",
        "cache.stored",
        with_cache(lambda q, k, v, m: (q, torch.cat([k[:, :, :1] * 2, k[:, :, 1:]], 2), v, m)),
    ),
    in_llama(
        "values of the cache are changed",
        "cache.values",
        with_cache(lambda q, k, v, m: (q, k, v.roll(1, 2), m)),
    ),
    Planted(
        "positions start again with a cache",
        llama,
        L1,
        "cache.positions",
        instead(L1, positions_anew),
    ),
    Planted(
        "the window is never on",
        mistral,
        L1,
        "window.ignored",
        attending(L1, with_mask(lambda m, back: back >= 0)),
    ),
    Planted(
        "the window is off by one",
        mistral,
        L1,
        "window.size",
        attending(L1, with_mask(lambda m, back: (back >= 0) & (back <= 9))),
    ),
    Planted(
        "a window in a global layer",
        gemma,
        L1,
        "mask.window",
        attending(L1, with_mask(lambda m, back: (back >= 0) & (back < 9))),
    ),
    Planted(
        "no window in a local layer",
        gemma,
        S0,
        "window.ignored",
        attending(S0, with_mask(lambda m, back: back >= 0)),
    ),
    Planted(
        "mscale² is missing",
        deepseek,
        L1,
        "promise.scale",
        lambda model: setattr(model.model.layers[1].self_attn, "scaling", 20**-0.5),
    ),
    Planted(
        "positions count padding",
        gpt2,
        "transformer.wpe",
        "padding.counted",
        instead("transformer.wpe", wrong_ids),
    ),
    Planted(
        "no mask in a layer of GPT-2",
        gpt2,
        G1,
        "mask.leaks",
        attending(G1, with_mask(lambda m, back: back > -99)),
    ),
    Planted(
        "a mean over all tokens",
        book,
        "stack.blocks.1.feed_forward",
        "mask.leaks",
        instead("stack.blocks.1.feed_forward", mean_of_all),
    ),
    Planted(
        "batch normalisation",
        book,
        "stack.blocks.1.feed_forward_norm",
        "mode.batch_norm",
        batch_norm,
    ),
    Planted(
        "random in evaluation",
        book,
        "stack.blocks.0.feed_forward",
        "state.chance",
        instead("stack.blocks.0.feed_forward", random_weights),
    ),
    Planted(
        "it counts its calls",
        book,
        "stack.blocks.0.feed_forward",
        "state.kept",
        instead("stack.blocks.0.feed_forward", counts(None)),
    ),
    Planted(
        "a cache of 16 bits", book, B1, "cache.rounded", lambda model: None, {"cached": rounds}
    ),
    Planted(
        "padding of the memory is seen",
        translator,
        "decoder.blocks.1.cross",
        "padding.memory",
        instead("decoder.blocks.1.cross", no_memory_mask),
    ),
    Planted(
        "padding of the source is seen",
        translator,
        "encoder.blocks.1.attention",
        "padding.right",
        instead("encoder.blocks.1.attention", no_mask),
    ),
]

MISSED = [  # what an audit does not find: each is one bug, and asks for a way of its own to see it
    in_llama("key heads are tiled", "groups.remainder", tiled),
    Planted("the base of another layer", gemma, L1, "rotary.base", other_base),
    Planted("sinks are dropped", gpt_oss, L1, "sink.missing", attending(L1, no_sinks)),
]
