"""The node cases of ONNX's Attention operator, written by others: the layer's one path gives what
they expect, plain, fused and flash.

ONNX's contract differs in three things, which `asked` says in ours. Without a cache its causal mask
is aligned at the first key, ours at the last. A mask of three dimensions is (heads, queries, keys),
ours (batch, queries, keys). It has windows to both sides, ours looks back.
"""

from functools import lru_cache, partial
from typing import Any

import attention_nb as nb
import numpy as np
import pytest
import torch
import torch.nn as nn
from torch import Tensor

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")

WAYS = {"plain": nb.scaled_dot_product_attention, "fused": None, "flash": nb.flash_attention}


@lru_cache
def cases() -> dict[str, Any]:
    """The cases of the operator itself, by name.

    (The expanded ones are graphs of smaller operators.)
    """
    # `collect_testcases` would make those of all operators, in every process that reads this file
    from onnx.backend.test.case import node
    from onnx.backend.test.case.node import attention  # noqa: F401 (makes its cases)

    return {
        case.name: case
        for case in node._NodeTestCases
        if [one.op_type for one in case.model.graph.node] == ["Attention"]
    }


def tensor(x: np.ndarray) -> Tensor:
    return (
        torch.tensor(x.astype(np.float32)).bfloat16()
        if x.dtype.name == "bfloat16"
        else torch.from_numpy(x.copy())
    )


class Take(nn.Module):
    "A projection that takes some columns: so q, k and v are given, and the layer does the rest."

    def __init__(self, start: int, stop: int):
        super().__init__()
        self.columns = slice(start, stop)

    def forward(self, x: Tensor) -> Tensor:
        return x[..., self.columns]


class Added:
    "A bias of the scores, as the `positions` of a layer."

    def __init__(self, bias: Tensor):
        self.bias = bias

    def __call__(self, x: Tensor, positions: Tensor) -> Tensor:
        return x

    def score_bias(self, q_positions: Tensor, k_positions: Tensor) -> Tensor:
        return self.bias


def read(case: Any) -> tuple[dict[str, Tensor], dict[str, Any], dict[str, Tensor]]:
    "The inputs of a case by their names in the operator, its attributes, its outputs."
    node = case.model.graph.node[0]
    schema = onnx.defs.get_schema("Attention", case.model.opset_import[0].version)
    given, wanted = case.data_sets[0]
    named = lambda formal, used, arrays: dict(
        zip([f.name for f, name in zip(formal, used) if name], map(tensor, arrays))
    )
    attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    return (
        named(schema.inputs, node.input, given),
        attributes,
        named(schema.outputs, node.output, wanted),
    )


def by_head(x: Tensor, n_heads: int | None) -> Tensor:
    return x if x.ndim == 4 else nb.split_heads(x, n_heads)


def asked(x: dict[str, Tensor], how: dict[str, Any]) -> tuple[list[Tensor], dict[str, Any]]:
    "q, k and v by head, and what is asked for, in our words: mask, bias, causal, window."
    heads = how.get("q_num_heads"), how.get("kv_num_heads"), how.get("kv_num_heads")
    q, k, v = (by_head(x[name], h) for name, h in zip("QKV", heads))
    past = x["past_key"].shape[2] if "past_key" in x else 0
    if past:
        k, v = torch.cat([x["past_key"], k], 2), torch.cat([x["past_value"], v], 2)
    n_q, n_k = q.shape[2], k.shape[2]
    says: dict[str, Any] = {"mask": None, "bias": None, "causal": False, "window": None}
    if (mask := x.get("attn_mask")) is not None:
        missing = n_k - mask.shape[-1]
        says["mask" if mask.dtype == torch.bool else "bias"] = four(
            nn.functional.pad(
                mask, (0, missing), value=False if mask.dtype == torch.bool else -torch.inf
            )
        )
    real = x.get("nonpad_kv_seqlen")
    # the key of the first query, for each sequence
    first = torch.tensor([past]) if real is None else real - n_q
    ahead = torch.arange(n_k) - torch.arange(n_q)[:, None] - first[:, None, None, None]
    left, right = how.get("left_window_size", -1), how.get("right_window_size", -1)
    right = 0 if how.get("is_causal") else right
    if right == 0 and real is None and past == n_k - n_q:  # what our causal mask and window mean
        return [q, k, v], says | {"causal": True, "window": None if left < 0 else left + 1}
    near = ((ahead <= right) | (right < 0)) & ((ahead >= -left) | (left < 0))
    if real is not None:
        near = near & nb.padding_mask(real, n_k)
    says["mask"] = near if says["mask"] is None else says["mask"] & near
    return [q, k, v], says


def four(mask: Tensor) -> Tensor:
    return mask[(None,) * (4 - mask.ndim)]


def layer_of(
    qkv: list[Tensor], says: dict[str, Any], how: dict[str, Any], attend: Any
) -> tuple[nn.Module, Tensor, Tensor]:
    "A layer whose projections take q, k and v out of its inputs; these inputs."
    (_, h, _, d), (_, h_kv, _, d_v) = qkv[0].shape, qkv[2].shape
    ends = [0, h_kv * d, h_kv * (d + d_v)]
    width = max(h * d, ends[-1])
    layer = nb.MultiHeadAttention(
        width,
        h,
        n_kv_heads=h_kv,
        d_head=d,
        attend=attend,
        scale=how.get("scale"),
        window=says["window"],
        positions=None if says["bias"] is None else Added(says["bias"]),
    )
    layer.q_proj, layer.k_proj, layer.v_proj = Take(0, h * d), Take(*ends[:2]), Take(*ends[1:])
    layer.out_proj = nn.Identity()
    wide = lambda *parts: nn.functional.pad(
        t := torch.cat([nb.merge_heads(p) for p in parts], -1), (0, width - t.shape[-1])
    )
    return layer, wide(qkv[0]), wide(*qkv[1:])


def shown(
    mode: int, qkv: list[Tensor], says: dict[str, Any], how: dict[str, Any], weights: Tensor
) -> Tensor:
    "What the fourth output holds: scores, capped scores, these with the bias, or the weights."
    if mode == 3:
        return weights
    q, k, _ = qkv
    scores = nb.attention_scores(q, nb.share_heads(k, q.shape[1]), how.get("scale"))
    if mode and how.get("softcap"):
        scores = nb.soft_cap(scores, how["softcap"])
    if mode == 2:
        scores = scores if says["bias"] is None else scores + says["bias"]
        mask = says["mask"]
        if says["causal"]:
            own = (
                nb.causal_mask(*scores.shape[-2:])
                if says["window"] is None
                else nb.window_mask(*scores.shape[-2:], says["window"])
            )
            mask = own if mask is None else mask & own
        scores = scores if mask is None else scores.masked_fill(~mask, -torch.inf)
    return scores


def run(case: Any, attend: Any) -> dict[str, tuple[Tensor, Tensor]]:
    "What the layer gives and what the case wants, by output."
    x, how, wanted = read(case)
    qkv, says = asked(x, how)
    layer, inputs, memory = layer_of(qkv, says, how, attend)
    with torch.no_grad():
        out, weights = layer(inputs, memory, says["mask"], says["causal"], need_weights=True)
        alone, _ = layer(inputs, memory, says["mask"], says["causal"])
    found = {
        "Y": out if x["Q"].ndim == 3 else nb.split_heads(out, qkv[0].shape[1]),
        "present_key": qkv[1],
        "present_value": qkv[2],
    }
    if "qk_matmul_output" in wanted:
        found["qk_matmul_output"] = shown(
            how.get("qk_matmul_output_mode", 0), qkv, says, how, weights
        )
    torch.testing.assert_close(
        alone,
        out,
        atol=3e-3 if out.dtype.itemsize == 2 else 1e-5,
        rtol=1e-2 if out.dtype.itemsize == 2 else 1e-5,
    )
    return {name: (found[name], t) for name, t in wanted.items()}


def ways(case: Any) -> dict[str, Any]:
    "The functions that can say what a case asks for: a cap is one of its own."
    cap = read(case)[1].get("softcap")
    return {"capped": partial(nb.capped_attention, cap=cap)} if cap else WAYS


def test_the_suite_is_whole():
    assert len(cases()) >= 93, "the released package has 93 cases of the operator; fewer were found"


@pytest.mark.parametrize("name", sorted(cases()))
def test_case(name):
    case = cases()[name]
    for way, attend in ways(case).items():
        for output, (found, wanted) in run(case, attend).items():
            narrow = wanted.dtype.itemsize == 2
            torch.testing.assert_close(
                found,
                wanted,
                atol=5e-3 if narrow else 1e-5,
                rtol=1e-2 if narrow else 1e-4,
                msg=lambda m: f"{way}, {output}: {m}",
            )
