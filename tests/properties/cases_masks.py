"""The cases of `masks`: how to draw each function's arguments, and what is right."""

import math

import attention_nb as nb
import torch
from hypothesis import strategies as st
from torch import Tensor
from tests.properties.common import (
    TOLERANCE,
    Case,
    args,
    dtypes,
    masks,
    refuse,
    sizes,
    sizes_or_none,
    whole,
)


def right_padding(lengths, n=None):
    lengths = lengths.tolist() if isinstance(lengths, Tensor) else list(lengths)
    n = max(lengths) if n is None else n
    whole(n), whole(*lengths, least=0)
    refuse(max(lengths) <= n)
    return torch.tensor([[[[j < length for j in range(n)]]] for length in lengths])


def right_causal(n_q, n_k=None, device=None):
    n_k = n_q if n_k is None else n_k
    whole(n_q, n_k)
    refuse(device is None or torch.device(device).type == "cpu")
    return torch.tensor([[j - n_k <= i - n_q for j in range(n_k)] for i in range(n_q)])


def right_attn_mask(mask, shape):
    whole(*shape)
    b, h, n_q, n_k = shape
    mask = mask[:, None] if mask.ndim == 3 else mask
    refuse(mask.dtype == torch.bool)
    return mask.expand(b, h, n_q, n_k).logical_not().reshape(b * h, n_q, n_k)


def right_padded(mask):
    refuse(mask.ndim == 4 and mask.shape[1:3] == (1, 1) and mask.dtype == torch.bool)
    return mask.logical_not().reshape(mask.shape[0], mask.shape[3])


def right_bias(mask, dtype=torch.float32):
    refuse(mask.dtype == torch.bool and dtype in TOLERANCE)
    return torch.where(mask, 0.0, -math.inf).to(torch.float64)


def right_from_bias(bias):
    lowest = [-math.inf, *(torch.finfo(t).min for t in TOLERANCE)]
    refuse(all(b == 0 or b in lowest for b in bias.flatten().tolist()) and bias.is_floating_point())
    return bias == 0


def right_from_torch(attn_mask=None, key_padding_mask=None, n_heads=1):
    whole(n_heads)
    both = [
        m if m is None else ~m if m.dtype == torch.bool else right_from_bias(m)
        for m in (attn_mask, key_padding_mask)
    ]
    attn, keys = both
    if attn is not None:
        refuse(attn.ndim in (2, 3))
        attn = attn if attn.ndim == 2 else attn.unflatten(0, (len(attn) // n_heads, n_heads))
    if keys is not None:
        b, n_k = keys.shape
        keys = keys.reshape(b, 1, 1, n_k)
        if attn is not None:
            refuse(attn.shape[-1] == n_k and (attn.ndim == 2 or len(attn) == b))
    return attn if keys is None else keys if attn is None else attn.logical_and(keys)


@st.composite
def torch_masks(draw):
    b, h, n_q, n_k = (draw(sizes) for _ in range(4))
    shape = draw(st.sampled_from([(n_q, n_k), (b * h, n_q, n_k)]))
    attn, keys = (
        draw(masks(s, optional=False).map(lambda m, s=s: m.expand(s))) for s in (shape, (b, n_k))
    )
    as_bias = draw(st.booleans())
    attn, keys = (
        torch.zeros(m.shape).masked_fill(m, -math.inf) if as_bias else m for m in (attn, keys)
    )
    return {
        "attn_mask": draw(st.sampled_from([attn, None])),
        "key_padding_mask": draw(st.sampled_from([keys, None])),
        "n_heads": h,
    }


@st.composite
def attn_masks(draw):
    shape = tuple(draw(sizes) for _ in range(4))
    mask = draw(masks(shape, optional=False))
    mask = (
        mask[:, 0]
        if mask.ndim == 4 and draw(st.booleans())
        else mask[None]
        if mask.ndim == 3
        else mask
    )
    return {"mask": mask, "shape": draw(st.sampled_from([tuple, list, torch.Size]))(shape)}


@st.composite
def biases(draw):
    mask, dtype = draw(masks((3, 2), optional=False)), draw(dtypes)
    low = draw(st.sampled_from([-math.inf, torch.finfo(dtype).min]))
    return {"bias": torch.zeros(mask.shape, dtype=dtype).masked_fill(~mask, low)}


CASES = {
    "causal_mask": Case(
        nb.causal_mask,
        args(n_q=sizes, n_k=sizes_or_none, device=st.sampled_from([None, "cpu"])),
        right_causal,
    ),
    "padding_mask": Case(
        nb.padding_mask,
        args(
            lengths=st.lists(sizes, min_size=1, max_size=4).flatmap(
                lambda n: st.sampled_from(
                    [n, torch.tensor(n), torch.tensor(n).repeat_interleave(2)[::2]]
                )
            ),
            n=st.sampled_from([None, 4, 6]),
        ),
        right_padding,
        also={"lengths": "n"},
    ),
    "to_attn_mask": Case(
        nb.to_attn_mask, attn_masks(), right_attn_mask, also={"shape": "b|h|n_q|n_k"}
    ),
    "to_key_padding_mask": Case(
        nb.to_key_padding_mask,
        args(
            mask=sizes.flatmap(
                lambda b: masks((b, 1, 1, 5), optional=False).map(lambda m: m.expand(b, 1, 1, 5))
            )
        ),
        right_padded,
    ),
    "mask_to_bias": Case(
        nb.mask_to_bias,
        args(mask=masks((2, 3, 2), optional=False), dtype=dtypes),
        right_bias,
        like="dtype",
    ),
    "bias_to_mask": Case(nb.bias_to_mask, biases(), right_from_bias),
    "from_torch_masks": Case(
        nb.from_torch_masks,
        torch_masks(),
        right_from_torch,
        also={"n_heads": "attn_mask|key_padding_mask"},
    ),
}
