"""The families written down plainly, in float64, from their config and their tensors:
what `load_model` is held against.

No class of the book is used, only the rotation of chapter 6 and its angles;
masks are made by comparing positions.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from attention_nb import rotary_angles, rotate
from torch import Tensor

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "silu": F.silu,
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_new": lambda x: F.gelu(x, approximate="tanh"),
    "gelu_pytorch_tanh": lambda x: F.gelu(x, approximate="tanh"),
}


class Weights:
    "Tensors by name, in float64; `at` goes into a part."

    def __init__(self, tensors: Mapping[str, Tensor], prefix: str = "") -> None:
        self.tensors, self.prefix = tensors, prefix

    def at(self, name: str) -> "Weights":
        return Weights(self.tensors, f"{self.prefix}{name}.")

    def get(self, name: str) -> Tensor | None:
        t = self.tensors.get(self.prefix + name)
        return None if t is None else t.double()

    def __getitem__(self, name: str) -> Tensor:
        return self.tensors[self.prefix + name].double()

    def linear(self, name: str, x: Tensor) -> Tensor:
        bias = self.get(f"{name}.bias")
        out = x @ self[f"{name}.weight"].mT
        return out if bias is None else out + bias


def rms(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    return x / (x.square().mean(-1, keepdim=True) + eps).sqrt() * weight


def layer_norm(x: Tensor, w: Weights, eps: float) -> Tensor:
    centred = x - x.mean(-1, keepdim=True)
    return (
        centred / (centred.square().mean(-1, keepdim=True) + eps).sqrt() * w["weight"] + w["bias"]
    )


def heads(x: Tensor, n: int) -> Tensor:
    return x.unflatten(-1, (n, -1)).transpose(-3, -2)


def mix(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    scale: float,
    window: int | None = None,
    sinks: Tensor | None = None,
    causal: bool = True,
) -> Tensor:
    "Attention with all scores; heads of keys are repeated; the heads' contexts side by side."
    k, v = (t.repeat_interleave(q.shape[-3] // t.shape[-3], dim=-3) for t in (k, v))
    i, j = torch.arange(q.shape[-2])[:, None], torch.arange(k.shape[-2])
    seen = (j <= i) if causal else torch.ones(len(i), len(j), dtype=torch.bool)
    seen = seen if window is None else seen & (i - j < window)
    scores = (q @ k.mT * scale).masked_fill(~seen, -math.inf)
    if sinks is not None:
        scores = torch.cat([scores, sinks[:, None, None].expand(*scores.shape[:-1], 1)], dim=-1)
    return (scores.softmax(-1)[..., : k.shape[-2]] @ v).transpose(-3, -2).flatten(-2)


def rope_of(c: Mapping[str, Any], kind: str | None = None) -> dict[str, Any]:
    rope = dict(c["rope_parameters"][kind] if kind else c["rope_parameters"])
    trained = (
        {"original_max_position_embeddings": c["max_position_embeddings"]}
        if rope["rope_type"] == "dynamic"
        else {}
    )
    return {"max_position_embeddings": c["max_position_embeddings"], **rope, **trained}


def turned(x: Tensor, rope: Mapping[str, Any], interleaved: bool = False) -> Tensor:
    "Rotated by position, and times YaRN's factor of queries and keys."
    s, n = dict(rope), torch.arange(x.shape[-2])
    out = rotate(x, rotary_angles(n, x.shape[-1], scaling=s), interleaved)
    return out * rotary_factor(s)


def rotary_factor(s: Mapping[str, Any]) -> float:
    if s["rope_type"] not in ("yarn", "longrope"):
        return 1.0
    if s.get("attention_factor"):
        return s["attention_factor"]
    if s["rope_type"] == "longrope":
        return math.sqrt(
            1 + math.log(s["factor"]) / math.log(s["original_max_position_embeddings"])
        )
    of = lambda m: 0.1 * m * math.log(s["factor"]) + 1
    both = s.get("mscale") and s.get("mscale_all_dim")
    return of(s["mscale"]) / of(s["mscale_all_dim"]) if both else of(1)


def gated(x: Tensor, w: Weights, act: str) -> Tensor:
    return w.linear(
        "down_proj", ACTIVATIONS[act](w.linear("gate_proj", x)) * w.linear("up_proj", x)
    )


def decoder(c: Mapping[str, Any], tensors: Mapping[str, Tensor], ids: Tensor) -> Tensor:
    "The families that are like Llama: the logits."
    w, kind = Weights(tensors), c["model_type"]
    gemma, hybrid = kind == "gemma3_text", kind in HYBRIDS
    offset = 1 if gemma or hybrid else 0
    norm = lambda w, x: rms(x, w["weight"] + offset, c["rms_norm_eps"])
    attends = {"deepseek_v3": latent, **dict.fromkeys(HYBRIDS, state_or_attention)}
    attend = attends.get(kind, self_attention)
    works = {
        "deepseek_v3": deepseek_experts,
        "gpt_oss": oss_experts,
        "qwen3_next": gated_experts,
        "qwen3_5_moe_text": gated_experts,
    }
    work = works.get(
        kind, lambda c, w, x, i: gated(x, w, c.get("hidden_act") or c["hidden_activation"])
    )
    x = w["model.embed_tokens.weight"][ids] * (c["hidden_size"] ** 0.5 if gemma else 1)
    for i in range(c["num_hidden_layers"]):
        b = w.at(f"model.layers.{i}")
        first, second = (
            ("pre_feedforward_layernorm" if gemma else "post_attention_layernorm"),
            "post_feedforward_layernorm",
        )
        if kind == "olmo2":
            x = x + norm(b.at("post_attention_layernorm"), attend(c, b.at("self_attn"), x, i, norm))
            x = x + norm(b.at(second), work(c, b.at("mlp"), x, i))
            continue
        mine = b if hybrid else b.at("self_attn")
        done = attend(c, mine, norm(b.at("input_layernorm"), x), i, norm)
        x = x + (norm(b.at("post_attention_layernorm"), done) if gemma else done)
        done = work(c, b.at("mlp"), norm(b.at(first), x), i)
        x = x + (norm(b.at(second), done) if gemma else done)
    table = w["model.embed_tokens.weight"] if c["tie_word_embeddings"] else w["lm_head.weight"]
    logits = norm(w.at("model.norm"), x) @ table.mT
    cap = c.get("final_logit_softcapping")
    return logits if cap is None else cap * (logits / cap).tanh()


def self_attention(c: Mapping[str, Any], w: Weights, x: Tensor, i: int, norm: Any) -> Tensor:
    n, n_kv = c["num_attention_heads"], c["num_key_value_heads"]
    q, k, v = (w.linear(f"{name}_proj", x) for name in "qkv")
    kind = (c.get("layer_types") or [""] * (i + 1))[i]
    if c["model_type"] == "olmo2":
        q, k = norm(w.at("q_norm"), q), norm(w.at("k_norm"), k)
    q, k, v = heads(q, n), heads(k, n_kv), heads(v, n_kv)
    if c["model_type"] in ("qwen3", "gemma3_text"):
        q, k = norm(w.at("q_norm"), q), norm(w.at("k_norm"), k)
    if (c.get("no_rope_layers") or [1] * (i + 1))[i]:
        rope = rope_of(c, kind if c["model_type"] == "gemma3_text" else None)
        q, k = turned(q, rope), turned(k, rope)
    local = kind == "sliding_attention" or c["model_type"] == "mistral"
    scale = (c.get("query_pre_attn_scalar") or q.shape[-1]) ** -0.5
    return w.linear(
        "o_proj", mix(q, k, v, scale, c.get("sliding_window") if local else None, w.get("sinks"))
    )


def latent(c: Mapping[str, Any], w: Weights, x: Tensor, i: int, norm: Any) -> Tensor:
    "DeepSeek's attention, with keys and values of every head."
    n, d_rope, d_plain = c["num_attention_heads"], c["qk_rope_head_dim"], c["qk_nope_head_dim"]
    small = lambda name, x: rms(x, w[f"{name}.weight"], 1e-6)
    q = (
        w.linear("q_proj", x)
        if c["q_lora_rank"] is None
        else w.linear("q_b_proj", small("q_a_layernorm", w.linear("q_a_proj", x)))
    )
    down, k_rope = w.linear("kv_a_proj_with_mqa", x).split([c["kv_lora_rank"], d_rope], dim=-1)
    k, v = heads(w.linear("kv_b_proj", small("kv_a_layernorm", down)), n).split(
        [d_plain, c["v_head_dim"]], dim=-1
    )
    q, q_rope = heads(q, n).split([d_plain, d_rope], dim=-1)
    rope = rope_of(c)
    q_rope, k_rope = (turned(t, rope, c["rope_interleave"]) for t in (q_rope, k_rope.unsqueeze(-3)))
    q, k = torch.cat([q, q_rope], -1), torch.cat([k, k_rope.expand(*k.shape[:-1], -1)], -1)
    m = rope.get("mscale_all_dim")
    scale = q.shape[-1] ** -0.5 * ((0.1 * m * math.log(rope["factor"]) + 1) ** 2 if m else 1)
    return w.linear("o_proj", mix(q, k, v, scale))


def deepseek_experts(c: Mapping[str, Any], w: Weights, x: Tensor, i: int) -> Tensor:
    "Token by token: the best experts of the best groups."
    if i < c["first_k_dense_replace"]:
        return gated(x, w, c["hidden_act"])
    out = gated(x, w.at("shared_experts"), c["hidden_act"])
    for b, t in torch.cartesian_prod(torch.arange(x.shape[0]), torch.arange(x.shape[1])).tolist():
        own = w.linear("gate", x[b, t]).sigmoid()
        shown = (own + w["gate.e_score_correction_bias"]).view(c["n_group"], -1)
        groups = shown.topk(2, -1).values.sum(-1).topk(c["topk_group"]).indices.tolist()
        shown = torch.stack(
            [row if g in groups else row - math.inf for g, row in enumerate(shown)]
        ).flatten()
        chosen = shown.topk(c["num_experts_per_tok"]).indices
        weights = own[chosen] / own[chosen].sum() if c["norm_topk_prob"] else own[chosen]
        for e, weight in zip(chosen.tolist(), weights * c["routed_scaling_factor"]):
            out[b, t] = out[b, t] + weight * gated(x[b, t], w.at(f"experts.{e}"), c["hidden_act"])
    return out


def oss_experts(c: Mapping[str, Any], w: Weights, x: Tensor, i: int) -> Tensor:
    "Token by token: a softmax over the scores of the best experts."
    out, alpha, limit = torch.zeros_like(x), c["swiglu_alpha"], c["swiglu_limit"]
    for b, t in torch.cartesian_prod(torch.arange(x.shape[0]), torch.arange(x.shape[1])).tolist():
        top = w.linear("router", x[b, t]).topk(c["num_experts_per_tok"])
        for e, weight in zip(top.indices.tolist(), top.values.softmax(-1)):
            both = x[b, t] @ w["experts.gate_up_proj"][e] + w["experts.gate_up_proj_bias"][e]
            gate, up = both[::2].clamp(max=limit), both[1::2].clamp(-limit, limit)
            done = (up + 1) * gate * (alpha * gate).sigmoid()
            out[b, t] += weight * (
                done @ w["experts.down_proj"][e] + w["experts.down_proj_bias"][e]
            )
    return out


HYBRIDS = ("qwen3_next", "qwen3_5_text", "qwen3_5_moe_text")


def state_or_attention(c: Mapping[str, Any], w: Weights, x: Tensor, i: int, norm: Any) -> Tensor:
    if c["layer_types"][i] == "linear_attention":
        return delta_net(c, w.at("linear_attn"), x)
    return attention_with_gate(c, w.at("self_attn"), x, norm)


def attention_with_gate(c: Mapping[str, Any], w: Weights, x: Tensor, norm: Any) -> Tensor:
    "Each head's rows of queries are followed by those of its gate; a part of a head is rotated."
    n, d = c["num_attention_heads"], c["head_dim"]
    rope = rope_of(c)
    part = int(d * rope.pop("partial_rotary_factor"))
    rope = {name: value for name, value in rope.items() if "mrope" not in name}
    q, gate = heads(w.linear("q_proj", x), n).split(d, dim=-1)
    k, v = (heads(w.linear(f"{name}_proj", x), c["num_key_value_heads"]) for name in "kv")
    q, k = norm(w.at("q_norm"), q), norm(w.at("k_norm"), k)
    q, k = (torch.cat([turned(t[..., :part], rope), t[..., part:]], -1) for t in (q, k))
    out = mix(q, k, v, d**-0.5) * gate.transpose(-3, -2).flatten(-2).sigmoid()
    return w.linear("o_proj", out)


def delta_net(c: Mapping[str, Any], w: Weights, x: Tensor) -> Tensor:
    "Head by head, token by token."
    n_k, n_v = c["linear_num_key_heads"], c["linear_num_value_heads"]
    d_k, d_v, group = c["linear_key_head_dim"], c["linear_value_head_dim"], n_v // n_k
    if w.get("in_proj_qkvz.weight") is None:
        qkv, z, b, a = (w.linear(f"in_proj_{name}", x) for name in ("qkv", "z", "b", "a"))
    else:  # sorted by key head
        by_head = w.linear("in_proj_qkvz", x).unflatten(-1, (n_k, -1))
        *qkv, z = (t.flatten(-2) for t in by_head.split([d_k, d_k, group * d_v, group * d_v], -1))
        qkv = torch.cat(qkv, -1)
        b, a = (
            t.flatten(-2)
            for t in w.linear("in_proj_ba", x).unflatten(-1, (n_k, 2, group)).unbind(-2)
        )
    kernel, n = w["conv1d.weight"][:, 0], x.shape[1]
    back = F.pad(qkv, (0, 0, kernel.shape[1] - 1, 0))
    mixed = F.silu(sum(back[:, j : j + n] * kernel[:, j] for j in range(kernel.shape[1])))
    decay = (-w["A_log"].exp() * F.softplus(a + w["dt_bias"])).exp()
    unit = lambda t: t / (t.square().sum(-1, keepdim=True) + 1e-6).sqrt()
    out = []
    for h in range(n_v):
        q, k = (unit(mixed[..., (h // group + j) * d_k :][..., :d_k]) for j in (0, n_k))
        v = mixed[..., 2 * n_k * d_k + h * d_v :][..., :d_v]
        state, read = x.new_zeros(len(x), d_v, d_k), []
        for t in range(n):
            state = state * decay[:, t, h, None, None]
            missing = v[:, t] - (state @ k[:, t, :, None])[..., 0]
            state = state + b[:, t, h].sigmoid()[:, None, None] * missing[..., None] * k[:, t, None]
            read.append((state @ q[:, t, :, None])[..., 0] * d_k**-0.5)
        done = rms(torch.stack(read, 1), w["norm.weight"], c["rms_norm_eps"])
        out.append(done * F.silu(z[..., h * d_v : (h + 1) * d_v]))
    return w.linear("out_proj", torch.cat(out, -1))


def gated_experts(c: Mapping[str, Any], w: Weights, x: Tensor, i: int) -> Tensor:
    "Token by token: the most probable experts, and one for all tokens behind a gate."
    if i in (c.get("mlp_only_layers") or []):
        return gated(x, w, c["hidden_act"])
    out = w.linear("shared_expert_gate", x).sigmoid() * gated(
        x, w.at("shared_expert"), c["hidden_act"]
    )
    for b, t in torch.cartesian_prod(torch.arange(x.shape[0]), torch.arange(x.shape[1])).tolist():
        top = w.linear("gate", x[b, t]).softmax(-1).topk(c["num_experts_per_tok"])
        for e, weight in zip(top.indices.tolist(), top.values / top.values.sum()):
            out[b, t] = out[b, t] + weight * one_expert(w, e, x[b, t], c["hidden_act"])
    return out


def one_expert(w: Weights, e: int, x: Tensor, act: str) -> Tensor:
    both = w.get("experts.gate_up_proj")
    if both is None:
        return gated(x, w.at(f"experts.{e}"), act)
    gate, up = (both[e] @ x).chunk(2)
    return w["experts.down_proj"][e] @ (ACTIVATIONS[act](gate) * up)


def gpt2(c: Mapping[str, Any], tensors: Mapping[str, Tensor], ids: Tensor) -> Tensor:
    w, n = Weights(tensors).at("transformer"), c["n_head"]
    into = lambda w, x: x @ w["weight"] + w["bias"]  # matrices are (in, out)
    x = w["wte.weight"][ids] + w["wpe.weight"][: ids.shape[1]]
    for i in range(c["n_layer"]):
        b = w.at(f"h.{i}")
        q, k, v = (
            heads(t, n)
            for t in into(
                b.at("attn.c_attn"), layer_norm(x, b.at("ln_1"), c["layer_norm_epsilon"])
            ).chunk(3, -1)
        )
        scale = q.shape[-1] ** -0.5 if c["scale_attn_weights"] else 1.0
        scale = scale / (i + 1) if c["scale_attn_by_inverse_layer_idx"] else scale
        x = x + into(b.at("attn.c_proj"), mix(q, k, v, scale))
        wide = ACTIVATIONS[c["activation_function"]](
            into(b.at("mlp.c_fc"), layer_norm(x, b.at("ln_2"), c["layer_norm_epsilon"]))
        )
        x = x + into(b.at("mlp.c_proj"), wide)
    table = w["wte.weight"] if c["tie_word_embeddings"] else tensors["lm_head.weight"].double()
    return layer_norm(x, w.at("ln_f"), c["layer_norm_epsilon"]) @ table.mT


def bert(
    c: Mapping[str, Any], tensors: Mapping[str, Tensor], ids: Tensor, types: Tensor | None = None
) -> Tensor:
    w, n, eps = Weights(tensors), c["num_attention_heads"], c["layer_norm_eps"]
    e = w.at("bert.embeddings")
    kinds = e["token_type_embeddings.weight"][torch.zeros_like(ids) if types is None else types]
    x = e["word_embeddings.weight"][ids] + e["position_embeddings.weight"][: ids.shape[1]] + kinds
    x = layer_norm(x, e.at("LayerNorm"), eps)
    for i in range(c["num_hidden_layers"]):
        b = w.at(f"bert.encoder.layer.{i}")
        q, k, v = (
            heads(b.linear(f"attention.self.{name}", x), n) for name in ("query", "key", "value")
        )
        done = b.linear("attention.output.dense", mix(q, k, v, q.shape[-1] ** -0.5, causal=False))
        x = layer_norm(x + done, b.at("attention.output.LayerNorm"), eps)
        done = b.linear(
            "output.dense", ACTIVATIONS[c["hidden_act"]](b.linear("intermediate.dense", x))
        )
        x = layer_norm(x + done, b.at("output.LayerNorm"), eps)
    h = w.at("cls.predictions")
    x = layer_norm(
        ACTIVATIONS[c["hidden_act"]](h.linear("transform.dense", x)),
        h.at("transform.LayerNorm"),
        eps,
    )
    table = e["word_embeddings.weight"] if c["tie_word_embeddings"] else h["decoder.weight"]
    return x @ table.mT + h["bias" if c["tie_word_embeddings"] else "decoder.bias"]


def plain_logits(config: Mapping[str, Any], tensors: Mapping[str, Tensor], ids: Tensor) -> Tensor:
    "The logits, (b, n, vocabulary), float64."
    config = {**config, **config.get("text_config", {})}
    tensors = {name.replace(".language_model.", "."): t for name, t in tensors.items()}
    return {"gpt2": gpt2, "bert": bert}.get(config["model_type"], decoder)(config, tensors, ids)
