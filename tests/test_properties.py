"""Every public function against PyTorch or plain Python, on inputs that nobody thought of.

A `Case` says how to draw arguments and what the right answer is. The right answer is worked out in float64, and
refuses (by any exception) arguments that have none; so one table serves both tests, of good arguments and of bad ones.
"""
import copy
import inspect
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import attention_nb as nb
import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F
from hypothesis import given, note
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

# How far a result may be from that in float64, beside numbers of about 1
TOLERANCE = {torch.float64: 1e-9, torch.float32: 2e-4, torch.float16: 1e-2, torch.bfloat16: 8e-2}


@dataclass
class Case:
    "A function, how to draw its arguments, and what it must give."

    fn: Callable[..., Any]  # called with the arguments by name
    draw: st.SearchStrategy[dict[str, Any]]
    want: Callable[..., Any]  # the same arguments, in float64 → what is right; raises if nothing is
    like: str | None = None  # the argument whose type the result has; None: float32
    also: dict[str, str] = field(default_factory=dict)  # argument → words that name it as well in a message
    fixed: tuple[str, ...] = ()  # what is no argument, such as the object of a method
    exact: bool = False  # compare to the last bit
    finite: bool = False  # what becomes of NaN and infinity is PyTorch's affair
    widens: bool = False  # 16-bit numbers are worked out in 32 bits: only the last bit may differ
    single: bool = False  # it turns by angles in float32, whatever it turns


# Drawing: sizes, numbers, layouts

sizes = st.integers(1, 4)
dtypes = st.sampled_from(list(TOLERANCE))
layouts = st.sampled_from(["contiguous", "transposed", "sliced", "expanded", "shifted"])
letters = st.text("abcdefgXYZäß_0", min_size=1, max_size=4)


def laid_out(x: Tensor, layout: str) -> Tensor:
    "The same shape, and but for `expanded` the same numbers, with other strides."
    if x.ndim == 0 or x.numel() == 0 or layout == "contiguous":
        return x
    if layout == "transposed":
        return x.permute(*reversed(range(x.ndim))).contiguous().permute(*reversed(range(x.ndim)))
    if layout == "sliced":
        return torch.stack([x, x + 1 if x.is_floating_point() else ~x], -1).flatten(-2)[..., ::2]
    if layout == "shifted":
        return torch.cat([x.flatten()[:1], x.flatten()])[1:].view(x.shape)
    return x[:1].expand(x.shape)


@st.composite
def floats(draw, shape, dtype=torch.float32, spread=(1.0,)):
    "A floating tensor of normally distributed numbers."
    rng = torch.Generator().manual_seed(draw(st.integers(0, 999)))
    x = torch.randn(tuple(shape), generator=rng, dtype=torch.float64) * draw(st.sampled_from(spread))
    return laid_out(x.to(dtype), draw(layouts))


@st.composite
def masks(draw, shape, optional=True):
    "A mask that broadcasts to `shape`: fewer dimensions, some of size 1, some rows where nothing is allowed; or None."
    if optional and draw(st.integers(0, 3)) == 0:
        return None
    shape = [1 if draw(st.integers(0, 3)) == 0 else n for n in shape][draw(st.integers(0, len(shape))):]
    rng = torch.Generator().manual_seed(draw(st.integers(0, 999)))
    mask = torch.rand(shape, generator=rng) < draw(st.sampled_from([0.3, 0.7, 1.1]))
    if mask.ndim > 1 and draw(st.booleans()):
        mask[..., 0, :] = False  # a row that may attend to nothing
    return laid_out(mask, draw(layouts))


@st.composite
def scores(draw, spread=(1.0,), rank=4, dim=True):
    x = draw(floats(draw(st.lists(sizes, min_size=0 if dim else 1, max_size=rank)), draw(dtypes), spread))
    n = max(x.ndim, 1)
    return {"x": x, "dim": draw(st.integers(-n, n - 1))} if dim else {"x": x}


@st.composite
def qkv(draw, names="q k v", **more):
    "Queries, keys and values that fit, and a mask for them; `more` are arguments with strategies of their own."
    lead, dtype = draw(st.lists(st.integers(1, 3), max_size=3)), draw(dtypes)
    n_q, n_k, d_k, d_v = (draw(sizes) for _ in range(4))
    shapes = {"q": (n_q, d_k), "k": (n_k, d_k), "v": (n_k, d_v)}
    args = {name: draw(floats((*lead, *shapes[name]), dtype)) for name in names.split()}
    if "v" in args:
        args["mask"] = draw(masks((*lead, n_q, n_k)))
    return args | {name: draw(strategy) for name, strategy in more.items()}


scales = st.sampled_from([None, 1.0, 0.5, 2, torch.tensor(0.25)])
shares = st.sampled_from([0.0, 0, 1.0])  # the two shares whose outcome is certain


@st.composite
def layer_calls(draw, heads: bool):
    "A layer with random weights, and rows, memory and mask for it."
    dtype, h, lead = draw(dtypes), draw(st.integers(1, 3)), draw(st.lists(st.integers(1, 3), max_size=2))
    n_q, n_k, d = draw(sizes), draw(sizes), h * draw(st.integers(1, 3))
    torch.manual_seed(draw(st.integers(0, 999)))
    bias = draw(st.booleans())
    shared = draw(divisors(h))
    layer = nb.MultiHeadAttention(d, h, bias, 0.0, shared, draw(sizes_or_none)) if heads else nb.SelfAttention(
        d, draw(sizes), draw(sizes), bias)
    memory = draw(st.none() | floats((*lead, n_k, d), dtype))
    n_k = n_q if memory is None else n_k
    args = {"self": layer.to(dtype), "x": draw(floats((*lead, n_q, d), dtype)), "memory": memory}
    if not heads:
        return args | {"mask": draw(masks((*lead, n_q, n_k)))}
    return args | draw(ways_of_attending(lead, h, n_q, n_k))


def clear(a: dict[str, Any]) -> bool:
    "Whether a mask can be read in one way only: (n, n) for n sequences of n tokens is refused where it looks like padding."
    mask, x = a.get("mask"), a.get("x", a.get("ids"))
    drawn = isinstance(mask, Tensor) and isinstance(x, Tensor)
    return not (drawn and mask.ndim == 2 and x.ndim > 1 and len(mask) == x.shape[0] == x.shape[1] > 1)


@st.composite
def ways_of_attending(draw, lead, h, n_q, n_k):
    "Mask, causal and need_weights for a layer with heads."
    shape = draw(st.sampled_from([(*lead, h, n_q, n_k), (*lead, 1, n_q, n_k), (n_q, n_k)]))
    mask = draw(masks(shape))
    if mask is not None and mask.ndim == len(lead) + 2:  # it would be read as one without the axis of heads
        mask = mask.reshape((1,) * (len(lead) + 3 - mask.ndim) + mask.shape)
    if draw(st.integers(0, 3)) == 0:
        mask = torch.ones(*lead, n_q, n_k, dtype=torch.bool).tril()  # without that axis: meant for every head
    return {"mask": mask, "causal": draw(st.booleans()), "need_weights": draw(st.booleans())}


# What is right

def refuse(unless: bool) -> None:
    "These arguments have no right answer."
    if not unless:
        raise ArithmeticError


def whole(*numbers: Any, least: int = 1) -> None:
    for n in numbers:
        refuse(isinstance(n, int) and not isinstance(n, bool) and n >= least)


def number_in(x: Any) -> float:
    "A single real number, also in a tensor."
    refuse(not isinstance(x, (bool, complex, str)))
    refuse(not isinstance(x, Tensor) or x.ndim == 0 and not x.is_complex() and x.dtype != torch.bool)
    return float(x)


def right_softmax(x, dim=-1, mask=None):
    refuse(isinstance(x, Tensor) and x.is_floating_point() and type(dim) is int)
    if mask is None:
        return x.softmax(dim)
    refuse(mask.dtype == torch.bool)
    blocked = ~mask.expand(x.shape)
    # numbers may stand anywhere in what is blocked; rows with nothing allowed end as zeros, with zero gradients
    weights = x.masked_fill(blocked, -1e300).softmax(dim)
    return weights.masked_fill(blocked & ~weights.isnan(), 0)  # NaN where one may look: NaN in the whole row


def right_attention(q, k, v, mask=None, scale=None, dropout_p=0.0, causal=False):
    refuse(q.shape[:-2] == k.shape[:-2] == v.shape[:-2] and q.dtype == k.dtype == v.dtype == torch.float64)
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else number_in(scale)
    refuse(0 <= number_in(dropout_p) <= 1 and isinstance(causal, bool))
    s = torch.einsum("...id,...jd->...ij", q, k) * scale
    if causal:
        n_q, n_k = s.shape[-2:]
        past = torch.tensor([[j - n_k <= i - n_q for j in range(n_k)] for i in range(n_q)])
        mask = past if mask is None else mask & past
    w = right_softmax(s, -1, mask)
    return torch.einsum("...ij,...jd->...id", w, v) * (1 - dropout_p), w


def right_layer(self, x, memory=None, mask=None, causal=False, need_weights=True):
    "One head after the other, each with its own part of the weights."
    h = getattr(self, "n_heads", 1)
    refuse(isinstance(need_weights, bool) and x.is_floating_point())
    memory = x if memory is None else memory
    own = copy.deepcopy(self).double()
    q, k, v = own.q_proj(x), own.k_proj(memory), own.v_proj(memory)
    if mask is not None:
        refuse(mask.dtype == torch.bool)
        if hasattr(self, "n_heads"):
            mask = mask.unsqueeze(-3) if mask.ndim == x.ndim else mask
            mask = mask.expand(*x.shape[:-2], h, x.shape[-2], memory.shape[-2])
        elif mask.ndim > x.ndim:
            mask = mask.squeeze(-3)
    if not hasattr(self, "n_heads"):
        return right_attention(q, k, v, mask)
    share = h // self.n_kv_heads
    heads = [(q.chunk(h, -1)[i], *(t.chunk(self.n_kv_heads, -1)[i // share] for t in (k, v))) for i in range(h)]
    parts = [right_attention(*head, None if mask is None else mask[..., i, :, :], causal=causal) for i, head in enumerate(heads)]
    out = own.out_proj(torch.cat([c for c, _ in parts], -1))
    return out, torch.stack([w for _, w in parts], -3) if need_weights else None


def right_one_hot(ids, size):
    whole(size)
    ids = torch.as_tensor(ids)
    refuse(ids.numel() == 0 or ids.dtype != torch.bool and not ids.is_floating_point() and not ids.is_complex())
    return F.one_hot(ids.long(), size).float()


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


def right_window(n_q, n_k, window, device=None):
    whole(window)
    return torch.tensor([[i - window < j <= i for j in range(n_k)] for i in right_places(n_q, n_k, device)])


def right_sinks(n_q, n_k, n_sinks, device=None):
    whole(n_sinks)
    return torch.tensor([[j < n_sinks for j in range(n_k)] for _ in right_places(n_q, n_k, device)])


def right_blocks(n_q, n_k, block, pattern=None, device=None):
    whole(block)
    m = math.ceil(n_k / block)
    pattern = torch.eye(m).bool() if pattern is None else pattern
    refuse(pattern.dtype == torch.bool and pattern.shape == (m, m))
    return torch.tensor([[i >= 0 and bool(pattern[i // block, j // block]) for j in range(n_k)]
                         for i in right_places(n_q, n_k, device)])


def right_places(n_q, n_k, device):
    "The places of queries, of which the last stands at the last key."
    whole(n_q, n_k)
    refuse(device is None or torch.device(device).type == "cpu")
    return range(n_k - n_q, n_k)


def right_documents(ids, device=None):
    ids = torch.as_tensor(ids)
    refuse(ids.numel() == 0 or ids.dtype != torch.bool and not ids.is_floating_point() and not ids.is_complex())
    refuse(ids.ndim > 0 and (device is None or torch.device(device).type == "cpu"))
    return ids.unsqueeze(-1).sub(ids.unsqueeze(-2)).eq(0)


def right_local(q, k, v, window):
    whole(window)
    if q.ndim == k.ndim == v.ndim > 2 and k.shape[-3] == v.shape[-3] and q.shape[-3] % k.shape[-3] == 0:
        k, v = (t.repeat_interleave(q.shape[-3] // t.shape[-3], -3) for t in (k, v))
    return right_attention(q, k, v, right_window(q.shape[-2], k.shape[-2], window))[0]


def right_linear(q, k, v, state=None):
    refuse(q.shape[:-1] == k.shape[:-1] == v.shape[:-1] and q.dtype == k.dtype == v.dtype == torch.float64)
    w = torch.einsum("...id,...jd->...ij", F.elu(q) + 1, F.elu(k) + 1).tril()
    read = torch.einsum("...ij,...jd->...id", w, torch.cat([v, torch.ones_like(v[..., :1])], -1))
    if state is not None:
        refuse(state.shape == (*k.shape[:-2], k.shape[-1], v.shape[-1] + 1) and state.is_floating_point())
        read = read + torch.einsum("...id,...de->...ie", F.elu(q) + 1, state)
    return read[..., :-1] / read[..., -1:]


def right_delta(q, k, v, beta, state=None):
    refuse(q.shape[:-1] == k.shape[:-1] == v.shape[:-1] == beta.shape)
    refuse(q.dtype == k.dtype == v.dtype == beta.dtype == torch.float64)
    want = (*k.shape[:-2], k.shape[-1], v.shape[-1])
    state = torch.zeros(want, dtype=q.dtype) if state is None else state
    refuse(state.shape == want and state.is_floating_point())
    read, eye = [], torch.eye(k.shape[-1], dtype=q.dtype)
    for i in range(k.shape[-2]):
        part = beta[..., i, None, None]
        keep = eye - part * torch.einsum("...d,...e->...de", k[..., i, :], k[..., i, :])
        state = keep @ state + part * torch.einsum("...d,...e->...de", k[..., i, :], v[..., i, :])
        read.append(torch.einsum("...d,...de->...e", q[..., i, :], state))
    return torch.stack(read, -2)


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
    both = [m if m is None else ~m if m.dtype == torch.bool else right_from_bias(m)
            for m in (attn_mask, key_padding_mask)]
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


def right_split(x, n_heads):
    whole(n_heads)
    refuse(x.ndim >= 2 and x.shape[-1] > 0 and x.shape[-1] % n_heads == 0)
    return torch.stack(x.split(x.shape[-1] // n_heads, -1), -3)


def right_merge(x):
    refuse(x.ndim >= 3)
    return torch.cat(x.unbind(-3), -1) if x.shape[-3] else x.transpose(-3, -2).flatten(-2)


def right_dot(a, b):
    refuse(a.ndim == b.ndim == 1 and a.dtype != torch.bool)
    whole_or_not = torch.promote_types(a.dtype, b.dtype)
    total = torch.zeros((), dtype=whole_or_not if not whole_or_not.is_floating_point else torch.float64)
    for i in range(max(len(a), len(b))):
        total = total + a[i] * b[i]
    return total


def right_tokens(tokens, specials=()):
    for given_tokens in (tokens, specials):
        refuse(not isinstance(given_tokens, str) and all(isinstance(token, str) for token in given_tokens))
    return list(dict.fromkeys([*specials, *tokens]))


def right_rows(sentence, vectors):
    refuse(isinstance(sentence, str) and isinstance(vectors, Mapping))
    rows = [torch.as_tensor(vectors[w]) for w in re.findall(r"\w+", sentence)]
    refuse(all(r.ndim == 1 and not r.is_complex() for r in rows))
    return torch.stack([r.double() for r in rows])


def right_jacobian(weights):
    refuse(weights.is_floating_point())
    n = weights.shape[-1]
    eye = torch.eye(n, dtype=torch.float64)
    return torch.stack([torch.stack([weights[..., i] * (eye[i, j] - weights[..., j]) for j in range(n)], -1)
                        for i in range(n)], -2)


def right_backward(weights, grad, dim=-1):
    refuse(weights.shape == grad.shape and weights.is_floating_point() and grad.is_floating_point())
    refuse(type(dim) is int)
    return torch._softmax_backward_data(grad, weights, dim, torch.float64)  # what PyTorch's autograd calls


def sized(d_in, d_k, d_v=None, bias=False):
    whole(d_in, d_k, d_k if d_v is None else d_v)
    refuse(isinstance(bias, bool))
    widths = {"q": d_k, "k": d_k, "v": d_k if d_v is None else d_v}
    return {f"{n}_proj.weight": (d, d_in) for n, d in widths.items()} | {
        f"{n}_proj.bias": (d,) for n, d in widths.items() if bias}


def sized_heads(d_model, n_heads, bias=True, dropout=0.0, n_kv_heads=None, d_head=None):
    n_kv_heads = n_heads if n_kv_heads is None else n_kv_heads
    whole(d_model, n_heads, n_kv_heads)
    refuse((d_head is not None or d_model % n_heads == 0) and n_heads % n_kv_heads == 0)
    refuse(isinstance(bias, bool) and 0 <= number_in(dropout) <= 1)
    d_head = d_model // n_heads if d_head is None else d_head
    whole(d_head)
    widths = {"q": n_heads * d_head, "k": n_kv_heads * d_head, "v": n_kv_heads * d_head}
    return {f"{n}_proj.weight": (width, d_model) for n, width in widths.items()} | {"out_proj.weight": (d_model, widths["q"])} | {
        f"{n}_proj.bias": (width,) for n, width in [*widths.items(), ("out", d_model)] if bias}


def shapes_of(layer: nn.Module) -> dict[str, tuple[int, ...]]:
    return {name: tuple(p.shape) for name, p in layer.named_parameters()}


# The table

def args(**strategies: Any) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(strategies)


def renamed(**names: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda drawn: {names.get(name, name): value for name, value in drawn.items()}


@st.composite
def masked_scores(draw):
    drawn = draw(scores(spread=(1.0, 0.0, 1e4)))
    return {"scores": drawn["x"], "mask": draw(masks(drawn["x"].shape)), "dim": drawn["dim"]}


@st.composite
def weights(draw, dim=True, grad=False):
    drawn = draw(scores(dim=dim))
    x = drawn.pop("x")
    drawn["weights"] = x.float().softmax(drawn.get("dim", -1)).to(x.dtype)
    return drawn | ({"grad": draw(floats(x.shape, x.dtype))} if grad else {})


@st.composite
def torch_masks(draw):
    b, h, n_q, n_k = (draw(sizes) for _ in range(4))
    shape = draw(st.sampled_from([(n_q, n_k), (b * h, n_q, n_k)]))
    attn, keys = (draw(masks(s, optional=False).map(lambda m, s=s: m.expand(s))) for s in (shape, (b, n_k)))
    as_bias = draw(st.booleans())
    attn, keys = (torch.zeros(m.shape).masked_fill(m, -math.inf) if as_bias else m for m in (attn, keys))
    return {"attn_mask": draw(st.sampled_from([attn, None])), "key_padding_mask": draw(st.sampled_from([keys, None])),
            "n_heads": h}


@st.composite
def words_and_vectors(draw):
    words, d, dtype = draw(st.lists(letters, min_size=1, max_size=5)), draw(sizes), draw(dtypes)
    vectors = {w: draw(floats((d,), dtype)) for w in words}
    vectors = {w: v.tolist() for w, v in vectors.items()} if draw(st.booleans()) else vectors
    return {"sentence": draw(st.sampled_from([" ", ", ", " - "])).join(words), "vectors": vectors}


@st.composite
def in_vocab(draw, ids: bool):
    vocab = nb.Vocab(draw(st.lists(letters, min_size=1, max_size=5)))
    if not ids:
        tokens = draw(st.lists(st.sampled_from(vocab.tokens), min_size=1, max_size=5))
        return {"self": vocab, "tokens": " ".join(tokens) if draw(st.booleans()) else tokens}
    numbers = draw(st.lists(st.integers(0, len(vocab) - 1), max_size=5))
    return {"self": vocab, "ids": torch.tensor(numbers) if draw(st.booleans()) else numbers}


def right_ids(self, tokens):
    tokens = re.findall(r"\w+", tokens) if isinstance(tokens, str) else list(tokens)
    refuse(bool(tokens))
    return torch.tensor([self.tokens.index(token) for token in tokens])


def right_decoded(self, ids):
    ids = ids.tolist() if isinstance(ids, Tensor) else list(ids)
    whole(*ids, least=0)
    return [self.tokens[i] for i in ids]


@st.composite
def split_calls(draw):
    h, d = draw(sizes), draw(sizes)
    lead = draw(st.lists(sizes, max_size=3))
    return {"x": draw(floats((*lead, draw(sizes), h * d), draw(dtypes))), "n_heads": h}


@st.composite
def dot_calls(draw):
    d, dtype = draw(st.integers(1, 6)), draw(dtypes)
    return {"a": draw(floats((d,), dtype)), "b": draw(floats((d,), dtype))}


@st.composite
def unmasked(draw, pairs=False, **more):
    "Queries, keys and values, if `pairs` with a query for each key; no mask."
    a = draw(qkv(**more))
    del a["mask"]
    if pairs:
        n = min(a["q"].shape[-2], a["k"].shape[-2])
        a |= {name: a[name][..., :n, :] for name in "qkv"}
    return a


@st.composite
def with_state(draw):
    a = draw(unmasked(pairs=True))
    if a["q"].dtype in (torch.float32, torch.float64) and draw(st.booleans()):
        shape = (*a["k"].shape[:-2], a["k"].shape[-1], a["v"].shape[-1] + 1)
        a["state"] = draw(floats(shape, a["q"].dtype)).abs() + 0.1  # a sum of positive numbers
    return a


@st.composite
def with_beta(draw):
    a = draw(unmasked(pairs=True))
    a["k"] = a["k"] / a["k"].norm(dim=-1, keepdim=True).clamp(min=1)  # of length 1 at most
    a["beta"] = draw(floats(a["k"].shape[:-1], a["k"].dtype)).sigmoid()
    if a["q"].dtype in (torch.float32, torch.float64) and draw(st.booleans()):
        a["state"] = draw(floats((*a["k"].shape[:-2], a["k"].shape[-1], a["v"].shape[-1]), a["q"].dtype))
    return a


@st.composite
def block_calls(draw):
    n_q, n_k, block = draw(sizes), draw(sizes), draw(sizes)
    m = math.ceil(n_k / block)
    pattern = draw(st.none() | masks((m, m), optional=False).map(lambda p: p.expand(m, m)))
    return {"n_q": n_q, "n_k": n_k, "block": block, "pattern": pattern, "device": draw(st.sampled_from([None, "cpu"]))}


@st.composite
def attn_masks(draw):
    shape = tuple(draw(sizes) for _ in range(4))
    mask = draw(masks(shape, optional=False))
    mask = mask[:, 0] if mask.ndim == 4 and draw(st.booleans()) else mask[None] if mask.ndim == 3 else mask
    return {"mask": mask, "shape": draw(st.sampled_from([tuple, list, torch.Size]))(shape)}


@st.composite
def biases(draw):
    mask, dtype = draw(masks((3, 2), optional=False)), draw(dtypes)
    low = draw(st.sampled_from([-math.inf, torch.finfo(dtype).min]))
    return {"bias": torch.zeros(mask.shape, dtype=dtype).masked_fill(~mask, low)}


@st.composite
def torch_layers(draw):
    h = draw(st.integers(1, 3))
    torch.manual_seed(draw(st.integers(0, 99)))
    layer = nn.MultiheadAttention(h * draw(sizes), h, draw(shares), draw(st.booleans()), batch_first=draw(st.booleans()))
    return {"layer": layer.to(draw(dtypes)).train(draw(st.booleans()))}


def layer_facts(layer: nn.Module) -> tuple[Any, ...]:
    "What a copy must keep; the weights as PyTorch stacks them."
    state = dict(layer.state_dict())
    for kind in ("weight", "bias"):
        if f"q_proj.{kind}" in state:
            state[f"in_proj_{kind}"] = torch.cat([state.pop(f"{n}_proj.{kind}") for n in "qkv"])
    heads = layer.num_heads if isinstance(layer, nn.MultiheadAttention) else layer.n_heads
    return {n: (str(t.dtype), t.tolist()) for n, t in state.items()}, heads, layer.dropout, layer.training


def only_torch(layer):
    refuse(isinstance(layer, nn.MultiheadAttention))
    return layer_facts(layer)


# Places: what is right, worked out by complex numbers and plain loops

even, bases, lengths = sizes.map(lambda n: 2 * n), st.sampled_from([10000.0, 100, 7.5]), st.sampled_from([1, 8, 9, 100])
scalings = st.sampled_from([
    None, {"rope_type": "default"}, {"type": "linear", "factor": 4}, {"rope_type": "ntk", "factor": 2.5},
    {"rope_type": "proportional", "factor": 2.5}, {"rope_type": "dynamic", "factor": 2.0, "original_max_position_embeddings": 8},
    {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64},
    {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "max_position_embeddings": 32}])
all_places = st.lists(st.integers(1, 3), max_size=3).flatmap(lambda shape: st.integers(-9, 9).map(
    lambda s: (torch.arange(math.prod(shape)) * 3 + s).view(shape)))


def at_least_two(d: Any, base: Any) -> None:
    whole(d)
    refuse(d % 2 == 0 and isinstance(base, (int, float)) and not isinstance(base, bool) and 1 < base < math.inf)


def right_speeds(d: int, base: float | None, scaling: Any, longest: float) -> list[float]:
    "How far each pair turns in a step, by the formulas of the papers, in Python's numbers."
    base = 10000.0 if base is None else base
    at_least_two(d, base)
    refuse(scaling is None or isinstance(scaling, Mapping))
    s = {"rope_type": "default"} if scaling is None else scaling
    kind = s.get("rope_type", s.get("type", "default"))
    refuse(kind in ("default", "linear", "proportional", "ntk", "dynamic", "yarn", "llama3"))
    factor, trained = s.get("factor", 1), s.get("original_max_position_embeddings", s.get("max_position_embeddings"))
    for x in (factor, 1 if kind in ("default", "linear", "proportional", "ntk") else trained, s.get("low_freq_factor", 1), s.get("high_freq_factor", 1)):
        refuse(isinstance(x, (int, float)) and not isinstance(x, bool) and 0 < x < math.inf)
    refuse(kind in ("default", "proportional") or "factor" in s)
    refuse(kind != "llama3" or {"low_freq_factor", "high_freq_factor"} <= set(s))
    speeds = [base ** (-2 * i / d) for i in range(d // 2)]
    grown = factor * max(longest + 1, trained) / trained - (factor - 1) if kind == "dynamic" else factor
    if kind in ("ntk", "dynamic"):
        return [f * grown ** (-i / max(d / 2 - 1, 1)) for i, f in enumerate(speeds)]
    keep = {"default": 1.0, "linear": 0.0, "proportional": 0.0}.get(kind)
    if kind == "llama3":
        low, high = s["low_freq_factor"], s["high_freq_factor"]
        keeps = [min(max((trained * f / (2 * math.pi) - low) / (high - low), 0), 1) for f in speeds]
    elif kind == "yarn":
        low, high = (d * math.log(trained / (beta * 2 * math.pi)) / (2 * math.log(base)) for beta in (32, 1))
        low, high = max(math.floor(low), 0), min(math.ceil(high), d - 1)
        keeps = [1 - min(max((i - low) / (high - low or 0.001), 0), 1) for i in range(d // 2)]
    return [f * (k + (1 - k) / factor) for f, k in zip(speeds, keeps if keep is None else [keep] * len(speeds))]


def right_angles(positions, d_head, base=None, scaling=None):
    refuse(isinstance(positions, Tensor) and positions.dtype != torch.bool and not positions.is_complex())
    positions = positions.double()
    longest = positions.max().item() if positions.numel() else 0
    return positions[..., None] * torch.tensor(right_speeds(d_head, base, scaling, longest), dtype=torch.float64)


def right_frequencies(d_head, base=None, scaling=None, n=1):
    whole(n)
    return torch.tensor(right_speeds(d_head, base, scaling, n - 1), dtype=torch.float64)


def right_waves(n, d_model, base=10000.0):
    whole(n)
    at_least_two(d_model, base)
    return torch.tensor([[(math.sin, math.cos)[j % 2](place * base ** (-(j - j % 2) / d_model)) for j in range(d_model)]
                         for place in range(n)], dtype=torch.float64)


def right_rotation(x, angles, interleaved=False):
    "By complex numbers."
    refuse(isinstance(interleaved, bool) and x.is_floating_point() and angles.is_floating_point())
    refuse(x.ndim >= 1 and 0 not in x.shape and x.shape[-1] % 2 == 0 and angles.ndim and angles.shape[-1] == x.shape[-1] // 2)
    angles = angles.unsqueeze(-3) if 2 < angles.ndim == x.ndim - 1 else angles  # for every head
    angles = angles.expand(*x.shape[:-1], x.shape[-1] // 2)
    pairs = x.unflatten(-1, (-1, 2)) if interleaved else x.unflatten(-1, (2, -1)).mT
    z = torch.complex(*pairs.unbind(-1)) * torch.polar(torch.ones_like(angles), angles)
    turned = torch.stack([z.real, z.imag], -1)
    return (turned if interleaved else turned.mT).flatten(-2)


def right_factor(d_head, base=10000.0, scaling=None, interleaved=False):
    right_speeds(d_head, base, scaling, 0)
    refuse(isinstance(interleaved, bool))
    yarn = scaling is not None and scaling.get("rope_type") == "yarn"
    return 0.1 * math.log(scaling["factor"]) + 1 if yarn else 1.0


def right_turned(self, x, positions=None):
    refuse(x.ndim >= 2 and x.shape[-1] == self.d_head)
    positions = torch.arange(x.shape[-2]) if positions is None else positions
    refuse(isinstance(positions, Tensor) and positions.ndim >= 1 and positions.shape[-1] == x.shape[-2])
    positions = positions.unsqueeze(-2) if 1 < positions.ndim == x.ndim - 2 else positions  # for every head
    angles = right_angles(positions, self.d_head, self.base, self.scaling)
    refuse(torch.broadcast_shapes(angles.shape[:-1], x.shape[:-1]) == x.shape[:-1])
    return right_rotation(x, angles, self.interleaved) * right_factor(self.d_head, self.base, self.scaling)


def right_learned(self, x, positions=None):
    table = copy.deepcopy(self).double().weight
    refuse(x.is_floating_point() and x.ndim >= 2)
    positions = torch.arange(x.shape[-2]) if positions is None else torch.as_tensor(positions)
    refuse(not positions.is_floating_point() and not positions.is_complex() and positions.dtype != torch.bool or not positions.numel())
    positions = positions.long()
    refuse(positions.ndim >= 1 and x.shape[-1] == table.shape[1] and positions.shape[-1] == x.shape[-2])
    refuse(torch.broadcast_shapes(positions.shape, x.shape[:-1]) == x.shape[:-1])
    refuse(all(0 <= p < len(table) for p in positions.flatten().tolist()))
    return x + table[positions]


def right_pairing(weight, n_heads, interleaved):
    whole(n_heads)
    refuse(isinstance(interleaved, bool) and weight.ndim in (1, 2) and weight.is_floating_point() and len(weight))
    refuse(len(weight) % (2 * n_heads) == 0)
    d = len(weight) // n_heads
    order = [i // 2 + i % 2 * (d // 2) if interleaved else 2 * i if i < d // 2 else 2 * (i - d // 2) + 1 for i in range(d)]
    return torch.stack([weight[h * d + i] for h in range(n_heads) for i in order])


def right_slopes(n_heads):
    whole(n_heads)
    power = 2 ** math.floor(math.log2(n_heads))
    own = [2.0 ** (-8 * (i + 1) / power) for i in range(power)]
    doubled = [2.0 ** (-8 * (i + 1) / (2 * power)) for i in range(2 * power)]
    return torch.tensor((own + doubled[::2])[:n_heads], dtype=torch.float64)


def right_alibi(n_heads, n_q, n_k):
    whole(n_q, n_k)
    distances = torch.tensor([[abs(i + n_k - n_q - j) for j in range(n_k)] for i in range(n_q)])
    return -right_slopes(n_heads)[:, None, None] * distances


def right_buckets(relative, bidirectional=True, n_buckets=32, max_distance=128):
    whole(n_buckets, max_distance)
    relative = torch.as_tensor(relative)
    refuse(isinstance(bidirectional, bool) and (not relative.numel() or relative.dtype != torch.bool))
    refuse(not relative.numel() or not relative.is_floating_point() and not relative.is_complex())
    half = n_buckets // 2 if bidirectional else n_buckets
    refuse(half >= 2 and max_distance > half // 2)
    def bucket(relative):
        far = abs(relative) if bidirectional else max(-relative, 0)
        side = half if bidirectional and relative > 0 else 0
        if far < half // 2:
            return side + far
        octaves = math.log(far / (half // 2)) / math.log(max_distance / (half // 2))
        return side + min(half // 2 + int(octaves * (half - half // 2)), half - 1)

    found = [bucket(r) for r in relative.flatten().tolist()]
    return torch.tensor(found, dtype=torch.int64).view(relative.shape)


def sized_buckets(n_heads, bidirectional=True, n_buckets=32, max_distance=128):
    right_buckets(torch.zeros(1, dtype=torch.long), bidirectional, n_buckets, max_distance)
    whole(n_heads)
    return {"weight": (n_buckets, n_heads)}


def learned_distances(n_heads):
    layer = nb.RelativePositions(n_heads)
    nn.init.normal_(layer.weight)
    return layer


def right_score_bias(self, q_positions, k_positions):
    q_positions, k_positions = (torch.as_tensor(t) for t in (q_positions, k_positions))
    q_positions, k_positions = (t.unsqueeze(-2) if t.ndim == 2 else t for t in (q_positions, k_positions))  # for every head
    for t in (q_positions, k_positions):
        refuse(t.ndim >= 1 and (t.ndim == 1 or t.shape[-2] == 1))
        refuse(not t.numel() or not t.is_floating_point() and not t.is_complex() and t.dtype != torch.bool)
    refuse(() in (q_positions.shape[:-1], k_positions.shape[:-1]) or q_positions.shape[:-1] == k_positions.shape[:-1])
    relative = k_positions.long()[..., None, :] - q_positions.long()[..., :, None]
    if isinstance(self, nb.AlibiPositions):
        return -right_slopes(self.n_heads)[:, None, None] * relative.abs()
    found = self.weight.double()[right_buckets(relative)]  # (..., n_q, n_k, h)
    return found.movedim(-1, -3) if relative.ndim == 2 else torch.cat([part[..., None, :, :] for part in found.squeeze(-4).unbind(-1)], -3)


@st.composite
def learned_calls(draw):
    n, d, lead = draw(sizes), draw(sizes), draw(st.lists(sizes, max_size=2))
    layer = nb.LearnedPositions(9, d)
    own = torch.arange(n) + draw(st.integers(0, 5))
    return {"self": layer, "x": draw(floats((*lead, n, d), draw(dtypes))), "positions": draw(st.sampled_from([None, own]))}


@st.composite
def rotations(draw):
    x_shape = (*draw(st.lists(sizes, max_size=3)), draw(even))
    full = tuple(1 if draw(st.integers(0, 3)) == 0 else n for n in x_shape[:-1])
    angles = full[draw(st.integers(0, len(full))):]
    if 1 < len(angles) == len(full) - 1:  # meant for every head
        angles = (*full[:-2], full[-1])
    dtype = draw(dtypes)
    return {"x": draw(floats(x_shape, dtype)), "angles": draw(floats((*angles, x_shape[-1] // 2), dtype)),
            "interleaved": draw(st.booleans())}


@st.composite
def rotary_calls(draw):
    n, lead, d = draw(sizes), draw(st.lists(sizes, max_size=2)), draw(even)
    layer = nb.RotaryEmbedding(d, draw(bases), draw(scalings), draw(st.booleans()))
    own = torch.arange(n) + draw(st.integers(-5, 20))
    x = draw(floats((*lead, n, d), draw(dtypes.filter(lambda t: t != torch.float64))))
    return {"self": layer, "x": x, "positions": draw(st.sampled_from([None, own]))}


@st.composite
def projections(draw):
    h, d = draw(sizes), draw(even)
    return {"weight": draw(floats((h * d, draw(sizes))[: draw(st.integers(1, 2))], draw(dtypes))), "n_heads": h,
            "interleaved": draw(st.booleans())}


@st.composite
def two_places(draw, kind):
    n_q, n_k, b = draw(sizes), draw(sizes), draw(sizes)
    q, k = torch.arange(n_k - n_q, n_k), torch.arange(n_k)
    q, k = (q + torch.arange(b)[:, None, None], k) if draw(st.booleans()) else (q, k)
    return {"self": kind(draw(sizes)), "q_positions": q, "k_positions": k}

# Grouped and latent heads, norms, caps and sinks

def divisors(h: int) -> st.SearchStrategy[int]:
    return st.sampled_from([g for g in range(1, h + 1) if h % g == 0])


@st.composite
def shared_heads(draw):
    lead, g = draw(st.lists(sizes, max_size=2)), draw(sizes)
    return {"x": draw(floats((*lead, g, draw(sizes), draw(sizes)), draw(dtypes))), "n_heads": g * draw(sizes)}


def right_sharing(x, n_heads):
    whole(n_heads)
    refuse(x.ndim >= 3 and x.shape[-3] > 0 and n_heads % x.shape[-3] == 0)
    return torch.stack([x[..., i * x.shape[-3] // n_heads, :, :] for i in range(n_heads)], -3)


@st.composite
def grouped_layers(draw):
    h = draw(st.sampled_from([1, 2, 4, 6]))
    g, d = draw(divisors(h)), draw(sizes)
    torch.manual_seed(draw(st.integers(0, 99)))
    layer = nb.MultiHeadAttention(h * draw(sizes), h, draw(st.booleans()), draw(shares), g, d)
    dtype = draw(st.sampled_from([torch.float32, torch.float64]))
    return {"layer": layer.to(dtype).train(draw(st.booleans())), "n_kv_heads": draw(divisors(g))}


def grouped_facts(layer: nn.Module) -> tuple[Any, ...]:
    state = {n: t.detach().float() for n, t in layer.state_dict().items()}
    return state, {str(p.dtype) for p in layer.parameters()}, layer.n_heads, layer.n_kv_heads, layer.dropout, layer.training


def right_pooling(layer, n_kv_heads):
    "Row by row: the mean of the rows that stand at its place in the heads of its group."
    refuse(isinstance(layer, nb.MultiHeadAttention))
    whole(n_kv_heads)
    refuse(layer.n_kv_heads % n_kv_heads == 0)
    state, *facts = grouped_facts(layer)
    d, size = layer.q_proj.out_features // layer.n_heads, layer.n_kv_heads // n_kv_heads
    for name in [name for name in state if name[0] in "kv"]:
        rows = [[state[name][(g * size + i) * d + j] for i in range(size)] for g in range(n_kv_heads) for j in range(d)]
        state[name] = torch.stack([sum(group) / size for group in rows])
    facts[2] = n_kv_heads
    return state, *facts


@st.composite
def normed_rows(draw):
    lead, d, dtype = draw(st.lists(sizes, max_size=3)), draw(sizes), draw(dtypes)
    weight = draw(st.none() | floats((d,), dtype))
    return {"x": draw(floats((*lead, d), dtype, (1.0, 100.0))), "weight": weight, "eps": draw(st.sampled_from([1e-6, 0.1]))}


def right_norm(x, weight=None, eps=1e-6):
    refuse(isinstance(x, Tensor) and x.is_floating_point() and x.ndim > 0 and x.shape[-1] > 0)
    refuse(isinstance(eps, (int, float)) and 0 < number_in(eps) < math.inf)
    refuse(weight is None or isinstance(weight, Tensor) and weight.is_floating_point() and weight.shape == x.shape[-1:])
    normed = x / (x.pow(2).sum(-1, keepdim=True) / x.shape[-1] + eps).sqrt()
    return normed if weight is None else normed * weight


def right_cap(scores, cap):
    refuse(isinstance(scores, Tensor) and scores.is_floating_point())
    refuse(isinstance(cap, (int, float)) and 0 < number_in(cap) < math.inf)
    return cap - 2 * cap / ((2 * scores / cap).exp() + 1)


@st.composite
def sunk_scores(draw):
    lead, (h, n_q, n_k), dtype = draw(st.lists(sizes, max_size=1)), [draw(sizes) for _ in range(3)], draw(dtypes)
    shape = (*lead, h, n_q, n_k)
    return {"scores": draw(floats(shape, dtype)), "sinks": draw(floats((h,), dtype)), "mask": draw(masks(shape))}


def right_sink(scores, sinks, mask=None):
    refuse(isinstance(scores, Tensor) and scores.is_floating_point() and scores.ndim >= 3 and scores.shape[-1] > 0)
    refuse(isinstance(sinks, Tensor) and sinks.is_floating_point() and sinks.shape == scores.shape[-3:-2])
    mask = torch.ones_like(scores, dtype=torch.bool) if mask is None else mask
    refuse(mask.dtype == torch.bool)
    e = scores.exp() * mask.expand(scores.shape)
    return e / (e.sum(-1, keepdim=True) + sinks.exp()[:, None, None])


@st.composite
def sunk_qkv(draw):
    args = draw(qkv(scale=scales).filter(lambda a: a["q"].ndim > 2))
    return args | {"sinks": draw(floats(args["q"].shape[-3:-2], args["q"].dtype))}


def right_other(q, k, v, mask=None, scale=None, cap=None, sinks=None):
    "Attention with a cap or with sinks."
    refuse(q.shape[:-2] == k.shape[:-2] == v.shape[:-2] and q.dtype == k.dtype == v.dtype == torch.float64)
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else number_in(scale)
    s = torch.einsum("...id,...jd->...ij", q, k) * scale
    w = right_softmax(right_cap(s, cap), -1, mask) if sinks is None else right_sink(s, sinks, mask)
    return torch.einsum("...ij,...jd->...id", w, v), w


def sized_latent(d_model, n_heads, d_latent, d_rope, d_head=None, d_v=None, d_latent_q=None, bias=False, dropout=0.0):
    whole(d_model, n_heads, d_latent, d_rope)
    refuse((d_head is not None or d_model % n_heads == 0) and isinstance(bias, bool) and 0 <= number_in(dropout) <= 1)
    refuse(d_rope % 2 == 0)
    d_head = d_model // n_heads if d_head is None else d_head
    d_v = d_head if d_v is None else d_v
    whole(d_head, d_v, *[] if d_latent_q is None else [d_latent_q])
    shapes = {"q_proj.weight": (n_heads * (d_head + d_rope), d_model if d_latent_q is None else d_latent_q),
              "kv_down.weight": (d_latent + d_rope, d_model), "kv_norm": (d_latent,), "k_proj.weight": (n_heads * d_head, d_latent),
              "v_proj.weight": (n_heads * d_v, d_latent), "out_proj.weight": (d_model, n_heads * d_v)}
    if d_latent_q is not None:
        shapes |= {"q_down.weight": (d_latent_q, d_model), "q_norm": (d_latent_q,)}
    return shapes | {f"{n[:-7]}.bias": shapes[n][:1] for n in shapes if bias and n[:-7] in ("kv_down", "q_down", "out_proj")}


@st.composite
def latent_calls(draw):
    "A latent layer with random weights, in float32, which its angles have, and rows, memory and mask for it."
    dtype, h, lead = torch.float32, draw(sizes), draw(st.lists(st.integers(1, 3), max_size=2))
    n_q, n_k, d = draw(sizes), draw(sizes), draw(st.integers(3, 6))
    torch.manual_seed(draw(st.integers(0, 999)))
    layer = nb.LatentAttention(d, h, draw(st.integers(3, 5)), 2 * draw(st.integers(1, 2)), draw(sizes), draw(sizes),
                               draw(st.none() | st.integers(3, 5)), draw(st.booleans()), interleaved=draw(st.booleans()))
    memory = draw(st.none() | floats((*lead, n_k, d), dtype))
    n_k = n_q if memory is None else n_k
    args = {"self": layer.to(dtype), "x": draw(floats((*lead, n_q, d), dtype)), "memory": memory}
    return args | draw(ways_of_attending(lead, h, n_q, n_k)) | {"absorbed": draw(st.sampled_from([None, True, False]))}


def right_latent(self, x, memory=None, mask=None, causal=False, need_weights=False, absorbed=None):
    "One head after the other, every key and value made."
    refuse(isinstance(need_weights, bool) and x.is_floating_point() and (absorbed is None or isinstance(absorbed, bool)))
    memory, own = x if memory is None else memory, copy.deepcopy(self).double()
    q = own.q_proj(x if own.q_down is None else right_norm(own.q_down(x), own.q_norm))
    latent, turned = own.kv_down(memory).tensor_split([self.d_latent], -1)
    latent = right_norm(latent, own.kv_norm)
    places = torch.arange(memory.shape[-2])
    if mask is not None:
        refuse(mask.dtype == torch.bool)
        mask = mask.unsqueeze(-3) if mask.ndim == x.ndim else mask
        mask = mask.expand(*x.shape[:-2], self.n_heads, x.shape[-2], memory.shape[-2])
    parts = []
    for i in range(self.n_heads):
        W_k, W_v = (p.weight.chunk(self.n_heads)[i] for p in (own.k_proj, own.v_proj))
        plain, end = q.chunk(self.n_heads, -1)[i].tensor_split([self.d_head], -1)
        turn = lambda t, at: right_turn(t, at, self.positions.interleaved)
        asks = torch.cat([plain, turn(end, places[-1] + 1 + torch.arange(-x.shape[-2], 0))], -1)
        keys = torch.cat([latent @ W_k.T, turn(turned, places)], -1)
        parts.append(right_attention(asks, keys, latent @ W_v.T, None if mask is None else mask[..., i, :, :], causal=causal))
    out = own.out_proj(torch.cat([c for c, _ in parts], -1))
    return out, torch.stack([w for _, w in parts], -3) if need_weights else None


def right_turn(x, places, interleaved):
    "Each pair as a complex number, times one of length 1."
    pairs = x.unflatten(-1, (-1, 2)) if interleaved else torch.stack(x.chunk(2, -1), -1)
    angles = places[:, None] * 10000.0 ** (-torch.arange(0, x.shape[-1], 2).double() / x.shape[-1])
    z = torch.complex(*pairs.unbind(-1)) * torch.polar(torch.ones_like(angles), angles)
    turned = torch.stack([z.real, z.imag], -1)
    return turned.flatten(-2) if interleaved else torch.cat(turned.unbind(-1), -1)


@st.composite
def deepseek_layers(draw):
    "Small layers of transformers, with random weights."
    from transformers.models.deepseek_v3 import modeling_deepseek_v3 as theirs

    config = theirs.DeepseekV3Config(
        hidden_size=draw(sizes), num_attention_heads=2, num_key_value_heads=2, kv_lora_rank=draw(sizes), num_hidden_layers=1,
        q_lora_rank=draw(sizes_or_none), qk_rope_head_dim=2, qk_nope_head_dim=draw(sizes), v_head_dim=draw(sizes),
        attention_bias=draw(st.booleans()))
    torch.manual_seed(draw(st.integers(0, 99)))
    return {"layer": theirs.DeepseekV3Attention(config, 0).to(draw(dtypes)).train(draw(st.booleans()))}


def shapes_and_sums(layer: nn.Module) -> tuple[Any, ...]:
    "What no renaming may change, and what cutting in two leaves whole."
    found = {n: t.detach().double() for n, t in layer.state_dict().items()}
    return {n: (tuple(t.shape), float(t.sum())) for n, t in found.items()}, layer.dropout, layer.training


def right_deepseek(layer):
    refuse(type(layer).__name__ == "DeepseekV3Attention")
    names = {"kv_a_proj_with_mqa": "kv_down", "kv_a_layernorm.weight": "kv_norm", "q_a_proj": "q_down",
             "q_a_layernorm.weight": "q_norm", "q_b_proj": "q_proj", "o_proj": "out_proj"}
    found = {n: t.detach().double() for n, t in layer.state_dict().items()}
    both = found.pop("kv_b_proj.weight").chunk(layer.num_heads)
    for old, new in names.items():
        found = {n.replace(old, new) if n.startswith(old) else n: t for n, t in found.items()}
    d = layer.qk_nope_head_dim
    found |= {"k_proj.weight": torch.cat([t[:d] for t in both]), "v_proj.weight": torch.cat([t[d:] for t in both])}
    return ({n: (tuple(t.shape), float(t.sum())) for n, t in found.items()}, layer.config.attention_dropout, layer.training)
# Caches: an object that holds some tokens already, of which the right answer is worked out sequence by sequence

places = dict(dtype=st.none() | dtypes, device=st.sampled_from([None, "cpu"]))


def cache_facts(cache: Any) -> tuple[Any, ...]:
    return tuple(cache.keys.shape), tuple(cache.values.shape), str(cache.keys.dtype)


def sized_cache(b, n_kv_heads, n_max, d_head, dtype=None, device=None):
    whole(b, n_kv_heads, n_max, d_head)
    refuse(dtype in (None, *TOLERANCE) and (device is None or torch.device(device).type == "cpu"))
    return (b, n_kv_heads, n_max, d_head), (b, n_kv_heads, n_max, d_head), str(dtype or torch.float32)


def sized_rolling(b, n_kv_heads, window, d_head, n_sinks=0, dtype=None, device=None):
    whole(window), whole(n_sinks, least=0)
    return sized_cache(b, n_kv_heads, window + n_sinks, d_head, dtype, device)


def sized_pages(n_blocks, block_size, n_kv_heads, d_head, dtype=None, device=None):
    return sized_cache(n_blocks, block_size, n_kv_heads, d_head, dtype, device)


@st.composite
def caches(draw, words=False, rolling=False, **more):
    "A cache of up to three sequences with a few tokens, and keys and values for it; what it was given is its `history`."
    b, h, d, dtype = draw(st.integers(1, 3)), draw(st.integers(1, 2)), draw(st.integers(1, 3)), draw(dtypes)
    cache = nb.RollingCache(b, h, draw(st.integers(1, 3)), d, draw(st.integers(0, 2)), dtype) if rolling else nb.KVCache(b, h, 8, d, dtype)
    given_tokens = [draw(floats((2, b, h, n, d), dtype)) for n in draw(st.lists(st.integers(1, 3), max_size=2))]
    cache.n_new = 0
    for k, v in given_tokens:
        cache.append(k, v)
    cache.history = torch.cat([torch.zeros(2, b, h, 0, d, dtype=dtype), *given_tokens], 3)
    if not rolling and draw(st.booleans()):
        cache.truncate([draw(st.integers(0, 6)) for _ in range(b)])
    n = draw(st.integers(1, 2))
    new = {name: draw(floats((b, h, n, d), dtype)) for name in "kv"} if words else {}
    return {"self": cache} | new | {name: draw(strategy) for name, strategy in more.items()}


def rolling(**more):
    return caches(rolling=True, **more)


def rows_of(cache: Any, keys: Tensor, values: Tensor) -> tuple[Tensor, ...]:
    "What a cache returned, without what comes after the end of shorter sequences."
    return tuple(t[i, :, :n] for i, n in enumerate(cache.lengths.tolist()) for t in (keys, values))


def appended(self, k, v):
    own = copy.deepcopy(self)
    return rows_of(own, *own.append(k, v))


def right_append(self, k, v):
    rows = [(torch.cat([self.keys[i, :, :n], k[i]], 1), torch.cat([self.values[i, :, :n], v[i]], 1)) for i, n in enumerate(self.lengths.tolist())]
    return tuple(t for row in rows for t in row)


def right_visible(self, n_q):
    whole(n_q)
    lengths, n_k = self.lengths.tolist(), int(self.lengths.max())
    refuse(n_q <= n_k)
    if len({*lengths}) == 1:
        return None
    return torch.tensor([[[[j <= n - n_q + i for j in range(n_k)] for i in range(n_q)]] for n in lengths])


def kept_rows(cache: Any) -> list[tuple[list, list]]:
    return [tuple(t[i, :, :n].transpose(0, 1).tolist() for t in (cache.keys, cache.values)) for i, n in enumerate(cache.lengths.tolist())]


def done(self, method, *arguments):
    own = copy.deepcopy(self)
    getattr(own, method)(*arguments)
    return kept_rows(own)


def whole_row(numbers: Any, b: int, least: int = 0, most: float = math.inf) -> list[int]:
    numbers = torch.as_tensor(numbers)
    refuse(numbers.dtype != torch.bool and not numbers.is_floating_point() and not numbers.is_complex())
    refuse(numbers.shape == (b,) and all(least <= n <= most for n in numbers.tolist()))
    return numbers.tolist()


def right_truncate(self, n):
    n = torch.as_tensor(n)
    cuts = whole_row(n.expand(len(self.lengths)) if n.ndim == 0 else n, len(self.lengths))
    return [(keys[:cut], values[:cut]) for cut, (keys, values) in zip(cuts, kept_rows(self))]


def right_reorder(self, indices):
    return [kept_rows(self)[i] for i in whole_row(indices, len(torch.as_tensor(indices)), most=len(self.lengths) - 1)]


def rolled(self, k, v):
    own = copy.deepcopy(self)
    found = own.append(k, v)
    positions = torch.tensor(own.chunk_positions if own.n_new > 1 else own.positions[:own.longest])
    return tuple(t[:, :, positions.argsort()] for t in found)


def right_roll(self, k, v):
    start, n = self.history.shape[3], k.shape[2]
    stay = lambda end: [p for p in range(end) if p < self.n_sinks or p >= end - self.window]
    held = [*stay(start), *range(start, start + n)] if n > 1 else stay(start + 1)
    return tuple(torch.cat([old, new], 2)[:, :, held] for old, new in zip(self.history, (k, v)))


def right_rolling(self, n_q):
    whole(n_q)
    refuse(n_q <= self.n_new)
    sees = lambda i, j: j <= i and (j > i - self.window or j < self.n_sinks)
    if self.n_new == 1 or self.longest <= self.window:
        return None
    return torch.tensor([[[[sees(i, j) for j in self.chunk_positions] for i in range(self.longest - n_q, self.longest)]]
                         for _ in self.lengths])


def right_held_positions(self):
    start = self.longest - self.n_new if self.n_new > 1 else self.longest
    kept = [p for p in range(start) if p < self.n_sinks or p >= start - self.window]
    return torch.tensor([*kept, *range(start, self.longest)], dtype=torch.long)


def lengths_after(self, n):
    own = copy.deepcopy(self)
    own.truncate(n)
    return own.lengths


def right_cut(self, n):
    n = torch.as_tensor(n)
    cut = whole_row(n.expand(1), 1)[0] if n.ndim == 0 else refuse(False)
    refuse(self.longest <= max(cut, self.keys.shape[2]))
    return torch.minimum(self.lengths, torch.tensor(cut))


@st.composite
def paged(draw, words=False, **more):
    "Two sequences in pages; the second goes on from the first."
    h, d, dtype = draw(st.integers(1, 2)), draw(st.integers(1, 3)), draw(dtypes)
    cache = nb.PagedCache(draw(st.integers(8, 10)), draw(st.integers(1, 3)), h, d, dtype)
    cache.new()
    for seq in (0, 1):
        k, v = draw(floats((2, 1, h, draw(st.integers(1, 2)), d), dtype))
        cache.append([seq], k, v)
        seq or cache.fork(0)
    cache.begun = 2
    seqs = draw(st.sampled_from([[0], [1], [0, 1], [1, 0]]))
    new = {"seqs": seqs} | {name: draw(floats((len(seqs), h, 2, d), dtype)) for name in "kv"} if words else {}
    return {"self": cache} | new | {name: draw(strategy) for name, strategy in more.items()}


def pages_of(cache: Any) -> dict[int, tuple[list, list]]:
    "The tokens of each sequence, slot by slot; fails if reference counts and free blocks do not fit the tables."
    held = [block for table in cache.block_tables.values() for block in table]
    assert cache.ref_counts == [held.count(block) for block in range(len(cache.ref_counts))]
    assert sorted([*{*held}, *cache.free_blocks]) == list(range(len(cache.ref_counts)))
    size = cache.keys.shape[1]
    return {seq: tuple([t[table[p // size], p % size].tolist() for p in range(cache.lengths[seq])] for t in (cache.keys, cache.values))
            for seq, table in cache.block_tables.items()}


def paged_after(self, method, *arguments):
    own = copy.deepcopy(self)
    getattr(own, method)(*arguments)
    return pages_of(own)


def real_seqs(self, seqs):
    refuse(len(seqs) and all(type(seq) is int and seq in self.block_tables for seq in seqs) and len({*seqs}) == len(seqs))
    return seqs


def right_fork(self, seq):
    return (found := pages_of(self)) | {self.begun: found[real_seqs(self, [seq])[0]]}


def right_free(self, seq):
    real_seqs(self, [seq])
    return {other: words for other, words in pages_of(self).items() if other != seq}


def right_page(self, seqs, k, v):
    longer = {seq: tuple([*old, *t[i].transpose(0, 1).to(self.keys.dtype).tolist()] for old, t in zip(pages_of(self)[seq], (k, v)))
              for i, seq in enumerate(real_seqs(self, seqs))}
    return pages_of(self) | longer


def read_rows(self, found, seqs):
    return [tuple(t[i, :, :self.lengths[seq]].transpose(0, 1).tolist() for t in found) for i, seq in enumerate(seqs)]


def right_read(self, seqs):
    return [pages_of(self)[seq] for seq in real_seqs(self, seqs)]


def right_bytes(numbers, n_layers, n=1, bits=16, window=None):
    whole(numbers, n_layers, n, bits, *([] if window is None else [window]))
    return math.ceil(numbers * n_layers * min(n, n if window is None else window) * bits / 8)
def right_looks(n_q, n_k, causal=False, window=None):
    whole(n_q, n_k, *([] if window is None else [window]))
    refuse(isinstance(causal, bool))
    near = n_k if window is None else window
    seen = [(i, j) for i in range(n_k - n_q, n_k) for j in range(n_k)]
    return len([1 for i, j in seen if i - near < j <= i]) if causal or window is not None else len(seen)


def right_attention_cost(n_q, n_k, n_heads, d_k, d_v=None, kept=None, b=1, bits=16, causal=False, window=None, passes=0):
    d_v = d_k if d_v is None else d_v
    whole(n_heads, d_k, d_v, b, bits, *([] if kept is None else [kept]))
    whole(passes, least=0)
    reach = n_k if window is None else min(n_k, n_q + window - 1)
    numbers = reach * (n_heads * (d_k + d_v) if kept is None else kept) + n_heads * n_q * (d_k + d_v) + passes * n_heads * n_q * n_k
    looks = right_looks(n_q, n_k, causal, window)
    return 2 * b * n_heads * looks * (d_k + d_v), math.ceil(b * numbers * bits / 8)


def right_projection_cost(n, d_model, n_heads, d_head=None, n_kv_heads=None, b=1, bits=16):
    whole(n, d_model, n_heads, b, bits, *(size for size in (d_head, n_kv_heads) if size is not None))
    refuse(d_head is not None or d_model % n_heads == 0)
    d_head, n_kv_heads = d_head or d_model // n_heads, n_kv_heads or n_heads
    refuse(n_heads % n_kv_heads == 0)
    shapes = [(d_model, n_heads * d_head), (d_model, n_kv_heads * d_head), (d_model, n_kv_heads * d_head), (n_heads * d_head, d_model)]
    numbers = sum(i * o + b * n * (i + o) for i, o in shapes)
    return sum(2 * b * n * i * o for i, o in shapes), math.ceil(numbers * bits / 8)


def right_exponent(sizes, counts):
    x, y = (torch.as_tensor(row, dtype=torch.float64) for row in (sizes, counts))
    refuse(x.ndim == y.ndim == 1 and len(x) == len(y) and bool((x > 0).all() and (y > 0).all() and x.isfinite().all() and y.isfinite().all()))
    refuse(len(x.unique()) > 1)
    a = torch.stack([x.log(), torch.ones_like(x)], -1)
    return round(float(torch.linalg.lstsq(a, y.log()[:, None]).solution[0]), 3)


def right_seconds(operations, moved, peak, bandwidth):
    for number in (operations, moved, peak, bandwidth):
        refuse(isinstance(number, (int, float)) and not isinstance(number, bool) and 0 <= number < math.inf)
    return max(operations / peak, moved / bandwidth)


def right_online(scores, block_size=1):
    whole(block_size)
    refuse(isinstance(scores, Tensor) and scores.is_floating_point() and scores.ndim > 0)
    top = scores.detach().amax(-1)
    return top, (scores - top[..., None]).exp().sum(-1)


@st.composite
def partials(draw):
    shape = draw(st.lists(sizes, min_size=2, max_size=4))
    return {"parts": [(draw(floats(shape)), draw(floats(shape[:-1]))) for _ in range(draw(sizes))]}


def right_merged(parts):
    refuse(len(parts) > 0)
    contexts, lses = (torch.stack([part[i].double() for part in parts]) for i in (0, 1))
    refuse(contexts.shape[:-1] == lses.shape and all(t.is_floating_point() for part in parts for t in part))
    return (lses.softmax(0)[..., None] * contexts).sum(0), lses.logsumexp(0)


def right_flash(q, k, v, mask=None, causal=False, window=None, scale=None, block_size=256):
    whole(block_size, 1 if window is None else window)
    refuse(isinstance(causal, bool) and q.dtype == k.dtype == v.dtype == torch.float64)
    if q.ndim > 2 and k.shape[-3] != q.shape[-3]:
        refuse(q.shape[-3] % k.shape[-3] == 0)
        k, v = (t.repeat_interleave(q.shape[-3] // t.shape[-3], -3) for t in (k, v))
    n_q, n_k = q.shape[-2], k.shape[-2]
    place = torch.tensor([[j - n_k - (i - n_q) for j in range(n_k)] for i in range(n_q)])
    seen = torch.ones(n_q, n_k, dtype=torch.bool) if not (causal or window) else place <= 0
    seen = seen if window is None else seen & (place > -window)
    refuse(mask is None or mask.dtype == torch.bool)
    seen = seen if mask is None else seen & mask
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else number_in(scale)
    s = torch.einsum("...id,...jd->...ij", q, k) * scale
    return torch.einsum("...ij,...jd->...id", right_softmax(s, -1, seen.expand(s.shape)), v)


@st.composite
def unmasked_qkv(draw):
    "Of 32 or 16 bits, which the kernels know."
    a = draw(qkv(scale=scales, causal=st.booleans()).filter(lambda a: a["q"].dtype != torch.float64))
    return {name: value for name, value in a.items() if name != "mask"}


def where_it_runs(**a):
    "On a GPU, if there is one. Elsewhere it refuses last of all, and chapter 13's answer stands in for its own."
    gpu = torch.cuda.is_available()
    a = {name: value.cuda() if gpu and isinstance(value, Tensor) else value for name, value in a.items()}
    try:
        return nb.gpu_attention(**a).cpu()
    except ValueError as error:
        if not str(error).startswith("q: expected a tensor on a GPU"):
            raise
        return nb.flash_attention(**a)


def right_programs(n_q, n_k, block_q, block_k, causal=False):
    whole(n_q, n_k, block_q, block_k)
    refuse(isinstance(causal, bool))
    seen = [{j for j in range(n_k) if not causal or j <= i + n_k - n_q} for i in range(n_q)]
    blocks = [set().union(*seen[first:first + block_q]) for first in range(0, n_q, block_q)]
    return [[j for j in range(0, n_k, block_k) if any(key >= j for key in block)] for block in blocks]


# Transformers

def sized_feed_forward(d_model, d_ff=None, activation=F.gelu, gated=False, bias=True, dropout=0.0):
    whole(d_model, *[] if d_ff is None else [d_ff])
    refuse(callable(activation) and isinstance(gated, bool) and isinstance(bias, bool) and 0 <= number_in(dropout) <= 1)
    d_ff = 4 * d_model if d_ff is None else d_ff
    shapes = {"up_proj.weight": (d_ff, d_model), "down_proj.weight": (d_model, d_ff)} | ({"gate_proj.weight": (d_ff, d_model)} if gated else {})
    return shapes | {f"{name[:-7]}.bias": shape[:1] for name, shape in shapes.items() if bias}


@st.composite
def feed_forward_calls(draw):
    dtype, d = draw(dtypes), draw(sizes)
    torch.manual_seed(draw(st.integers(0, 999)))
    layer = nb.FeedForward(d, draw(sizes_or_none), draw(st.sampled_from([F.gelu, F.silu])), draw(st.booleans()), draw(st.booleans()))
    return {"self": layer.to(dtype), "x": draw(floats((*draw(st.lists(sizes, max_size=3)), d), dtype))}


def right_feed_forward(self, x):
    refuse(isinstance(x, Tensor) and x.dtype == torch.float64 and 0 not in x.shape)
    own = copy.deepcopy(self).double()
    wide = F.linear(x, own.up_proj.weight, own.up_proj.bias)
    wide = self.activation(wide) if own.gate_proj is None else self.activation(F.linear(x, own.gate_proj.weight, own.gate_proj.bias)) * wide
    return F.linear(wide, own.down_proj.weight, own.down_proj.bias)


def a_block(d: int, h: int, cross: bool = False, norm_first: bool = True, norm=nn.LayerNorm, out_norm=None) -> nn.Module:
    attention, crossed = nb.MultiHeadAttention(d, h), nb.MultiHeadAttention(d, h) if cross else None
    return nb.TransformerBlock(d, attention, nb.FeedForward(d, 5), crossed, norm, norm_first, out_norm=out_norm)


@st.composite
def transformer_calls(draw, n_blocks=0):
    "A block, or a stack of several, with hidden states, masks and, perhaps, a memory."
    h, dtype = draw(st.integers(1, 2)), draw(st.sampled_from([torch.float32, torch.float64]))
    b, n, n_k, d, cross, first = draw(sizes), draw(sizes), draw(sizes), h * draw(st.integers(2, 3)), draw(st.booleans()), draw(st.booleans())
    torch.manual_seed(draw(st.integers(0, 999)))
    out_norm = draw(st.sampled_from([None, nn.LayerNorm]))
    made = [a_block(d, h, cross, first, out_norm=out_norm) for _ in range(max(n_blocks, 1))]
    layer = nb.TransformerStack(made, nn.LayerNorm(d) if first else None) if n_blocks else made[0]
    args = {"self": layer.to(dtype), "x": draw(floats((b, n, d), dtype)), "mask": draw(masks((b, h, n, n))) if draw(st.booleans()) else None, "causal": draw(st.booleans())}
    if args["mask"] is not None and args["mask"].ndim == 3:
        args["mask"] = args["mask"][None]
    return args | ({"memory": draw(floats((b, n_k, d), dtype)), "memory_mask": None} if cross else {"memory": None})


def right_block(self, x, memory=None, mask=None, memory_mask=None, causal=False, cache=None):
    "With PyTorch's functions, and its norm."
    refuse(x.dtype == torch.float64 and x.ndim > 1 and isinstance(causal, bool) and (self.cross is None) == (memory is None))
    own = copy.deepcopy(self).double()
    normed = lambda x, n: x if n is None else F.layer_norm(x, n.normalized_shape, n.weight, n.bias, n.eps)
    parts = {"attention": lambda x: right_layer(own.attention, x, None, mask, causal, False)[0],
             "cross": own.cross and (lambda x: right_layer(own.cross, x, memory, memory_mask, False, False)[0]),
             "feed_forward": lambda x: right_feed_forward(own.feed_forward, x)}
    for name, part in parts.items():
        if part:
            norm, out_norm = getattr(own, f"{name}_norm"), getattr(own, f"{name}_out_norm")
            delta = normed(part(normed(x, norm) if self.norm_first else x), out_norm)
            x = x + delta if self.norm_first else normed(x + delta, norm)
    return x


def right_stack(self, x, memory=None, mask=None, memory_mask=None, causal=False, caches=None):
    refuse(caches is None)
    for block in self.blocks:
        x = right_block(block, x, memory, mask, memory_mask, causal)
    return x if self.norm is None else F.layer_norm(x, self.norm.normalized_shape, self.norm.weight.double(), self.norm.bias.double(), self.norm.eps)


def right_block_shapes(d_model, attention, feed_forward, norm_first=True, dropout=0.0):
    whole(d_model)
    refuse(isinstance(norm_first, bool) and 0 <= number_in(dropout) <= 1)
    shapes = {f"{part}.{n}": tuple(p.shape) for part, m in (("attention", attention), ("feed_forward", feed_forward)) for n, p in m.named_parameters()}
    return shapes | {f"{part}_norm.{kind}": (d_model,) for part in ("attention", "feed_forward") for kind in ("weight", "bias")}


@st.composite
def torch_blocks(draw):
    torch.manual_seed(draw(st.integers(0, 99)))
    kind = draw(st.sampled_from([nn.TransformerEncoderLayer, nn.TransformerDecoderLayer]))
    layer = kind(4, draw(st.sampled_from([1, 2])), 5, draw(shares), draw(st.sampled_from(["relu", "gelu"])), batch_first=draw(st.booleans()), norm_first=draw(st.booleans()))
    return {"layer": layer.to(draw(st.sampled_from([torch.float32, torch.float64]))).train(draw(st.booleans()))}


def block_facts(block: nn.Module, norm_first: bool, dropout: float) -> tuple[Any, ...]:
    return norm_first, dropout, block.training, sum(p.numel() for p in block.parameters()), {str(p.dtype) for p in block.parameters()}


def copied_block(layer):
    new = nb.TransformerBlock.from_torch(layer)
    return block_facts(new, new.norm_first, new.dropout)


def right_block_copy(layer):
    refuse(isinstance(layer, (nn.TransformerEncoderLayer, nn.TransformerDecoderLayer)))
    return block_facts(layer, layer.norm_first, layer.dropout1.p)


@st.composite
def embedding_calls(draw):
    vocabulary, d = draw(st.integers(2, 5)), draw(sizes)
    torch.manual_seed(draw(st.integers(0, 99)))
    embed = nb.TokenEmbedding(vocabulary, d, draw(st.sampled_from([None, nb.LearnedPositions(9, d)])), draw(st.sampled_from([1.0, 2])))
    ids = torch.randint(vocabulary, (draw(sizes), draw(sizes)))
    return {"self": embed, "ids": ids, "positions": draw(st.sampled_from([None, torch.arange(ids.shape[1]) + 2, torch.randint(9, ids.shape)]))}


def right_embeddings(self, ids, positions=None):
    refuse(isinstance(ids, Tensor) and not ids.is_floating_point() and not ids.is_complex() and ids.dtype != torch.bool and ids.ndim == 2 and ids.numel() > 0)
    where = torch.arange(ids.shape[1]) if positions is None else torch.as_tensor(positions)
    refuse(not where.is_floating_point() and not where.is_complex() and where.dtype != torch.bool and where.min() >= 0 and where.shape in (ids.shape[1:], ids.shape))
    refuse(ids.min() >= 0)
    out = self.table.weight.double()[ids.long()] * self.scale
    if self.positions is None:
        return out
    return out + self.positions.weight.double()[where.long().expand(ids.shape)]


def a_model(vocabulary: int = 5, cross: bool = False, seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    embed = lambda: nb.TokenEmbedding(vocabulary, 4, nb.LearnedPositions(9, 4))
    stack = lambda crosses: nb.TransformerStack([a_block(4, 2, crosses)], nn.LayerNorm(4))
    return nb.EncoderDecoder(embed(), embed(), stack(False), stack(True)) if cross else nb.LanguageModel(embed(), stack(False))


@st.composite
def model_calls(draw, cross=False):
    model, (b, n, m) = a_model(cross=cross, seed=draw(st.integers(0, 99))), [draw(sizes) for _ in range(3)]
    ids = torch.randint(5, (b, n))
    if not cross:
        return {"self": model, "ids": ids, "mask": draw(st.sampled_from([None, torch.ones(n, n, dtype=torch.bool)]))}
    real = draw(st.sampled_from([None, torch.ones(b, 1, 1, m, dtype=torch.bool)]))
    return {"self": model, "source_ids": torch.randint(5, (b, m)), "target_ids": ids, "source_mask": real}


def right_logits(self, ids, mask=None, caches=None):
    refuse(caches is None and (mask is None or mask.dtype == torch.bool))
    x = right_stack(self.stack, right_embeddings(self.embed, ids), mask=mask, causal=True)
    return x @ self.lm_head.weight.double().T


def right_translation(self, source_ids, target_ids, source_mask=None):
    refuse(source_mask is None or source_mask.dtype == torch.bool and source_mask.ndim <= 4 and bool(source_mask.expand(len(source_ids), 1, 1, source_ids.shape[1]).numel()))
    refuse(len(source_ids) == len(target_ids))
    memory = right_stack(self.encoder, right_embeddings(self.source, source_ids), mask=source_mask)
    x = right_stack(self.decoder, right_embeddings(self.target, target_ids), memory, memory_mask=source_mask, causal=True)
    return x @ self.lm_head.weight.double().T


def generated(self, ids, n, temperature=0.0, top_k=None, generator=None):
    "The whole sequence, if nothing is drawn; else whether its beginning is the same, and how long it is."
    out = self.generate(ids, n, temperature, top_k, generator)
    return out if temperature == 0 else (torch.equal(out[:, :ids.shape[1]], ids), out.shape[1])


def right_sequence(self, ids, n, temperature=0.0, top_k=None, generator=None):
    whole(n, *[] if top_k is None else [top_k])
    refuse(0 <= number_in(temperature) < math.inf and (generator is None or isinstance(generator, torch.Generator)))
    right_embeddings(self.embed, ids)
    refuse(ids.shape[1] + n <= 10)
    if temperature:
        return True, ids.shape[1] + n
    sequence = ids
    for _ in range(n):
        sequence = torch.cat([sequence, right_logits(self, sequence)[:, -1:].argmax(-1)], 1)
    return sequence


sizes_or_none = st.none() | sizes
CASES = {
    "tokenize": Case(nb.tokenize, args(text=st.lists(letters, min_size=1, max_size=6).map(", ".join)),
                     lambda text: text.split(", ")),
    "Vocab": Case(lambda **a: nb.Vocab(**a).tokens,
                  args(tokens=st.lists(letters, min_size=1, max_size=6), specials=st.lists(letters, max_size=2)),
                  right_tokens),
    "Vocab.encode": Case(nb.Vocab.encode, in_vocab(ids=False), right_ids, also={"tokens": "unknown tokens"}, fixed=("self",)),
    "Vocab.decode": Case(nb.Vocab.decode, in_vocab(ids=True), right_decoded, fixed=("self",)),
    "one_hot": Case(nb.one_hot, args(size=st.just(5), ids=st.lists(sizes, max_size=3).flatmap(
        lambda shape: st.integers(0, 99).map(lambda s: (torch.arange(math.prod(shape)) * 7 + s).view(shape) % 5))),
        right_one_hot, also={"size": "ids"}, exact=True),
    "number_corpus": Case(nb.number_corpus, args(), lambda: [
        (f"{w} is {w}", f"{i + 1} la {i + 1}") for i, w in enumerate(
            ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine"])]),
    "one_hot_vectors": Case(nb.one_hot_vectors, args(vocab=st.lists(letters, min_size=1).map(nb.Vocab)), lambda vocab: {
        w: torch.tensor([float(w == other) for other in vocab.tokens]).double() for w in vocab.tokens}),
    "sentence_embed": Case(nb.sentence_embed, words_and_vectors(), right_rows, also={
        "sentence": "unknown tokens", "vectors": "unknown tokens"}),
    "journey": Case(nb.journey, args(), lambda: ("Your journey starts with one step".split(), torch.tensor([
        [0.43, 0.15, 0.89], [0.55, 0.87, 0.66], [0.57, 0.85, 0.64], [0.22, 0.58, 0.33], [0.77, 0.25, 0.10],
        [0.05, 0.80, 0.55]]).double())),
    "dot": Case(nb.dot, dot_calls(), right_dot, like="a"),
    "naive_attention": Case(nb.naive_attention, qkv(scale=scales.filter(lambda s: s is not None)), right_attention, "q",
                            widens=True),
    "naive_softmax": Case(nb.naive_softmax, scores(), right_softmax, "x", also={"x": "dim"}),
    "softmax": Case(nb.softmax, scores((1.0, 0.0, 1e4)), right_softmax, "x", also={"x": "dim"}, widens=True),
    "entropy": Case(nb.entropy, weights(), lambda weights, dim: torch.special.entr(weights).sum(dim), "weights",
                    also={"weights": "dim"}),
    "logsumexp": Case(nb.logsumexp, scores((1.0, 0.0, 1e4)), lambda x, dim: x.logsumexp(dim), "x",
                      also={"x": "dim"}, widens=True),
    "masked_softmax": Case(nb.masked_softmax, masked_scores(),
                           lambda scores, mask, dim: right_softmax(scores, dim, mask), "scores",
                           also={"scores": "dim"}, widens=True),
    "softmax_jacobian": Case(nb.softmax_jacobian, weights(dim=False), right_jacobian, "weights"),
    "softmax_backward": Case(nb.softmax_backward, weights(grad=True), right_backward, "weights",
                             also={"weights": "dim"}),
    "attention_scores": Case(nb.attention_scores, qkv("q k", scale=scales), lambda q, k, scale=None: torch.einsum(
        "...id,...jd->...ij", q, k) * (q.shape[-1] ** -0.5 if scale is None else number_in(scale)), "q"),
    "scaled_dot_product_attention": Case(nb.scaled_dot_product_attention, qkv(scale=scales, dropout_p=shares),
                                         right_attention, "q", widens=True),
    "SelfAttention": Case(lambda **a: shapes_of(nb.SelfAttention(**a)), args(
        d_in=sizes, d_k=sizes, d_v=sizes_or_none, bias=st.booleans()), sized),
    "SelfAttention.forward": Case(nb.SelfAttention.forward, layer_calls(heads=False), right_layer, "x", fixed=("self",)),
    "causal_mask": Case(nb.causal_mask, args(n_q=sizes, n_k=sizes_or_none, device=st.sampled_from([None, "cpu"])),
                        right_causal),
    "padding_mask": Case(nb.padding_mask, args(lengths=st.lists(sizes, min_size=1, max_size=4).flatmap(
        lambda n: st.sampled_from([n, torch.tensor(n), torch.tensor(n).repeat_interleave(2)[::2]])),
        n=st.sampled_from([None, 4, 6])), right_padding, also={"lengths": "n"}),
    "to_attn_mask": Case(nb.to_attn_mask, attn_masks(), right_attn_mask, also={"shape": "b|h|n_q|n_k"}),
    "to_key_padding_mask": Case(nb.to_key_padding_mask, args(mask=sizes.flatmap(
        lambda b: masks((b, 1, 1, 5), optional=False).map(lambda m: m.expand(b, 1, 1, 5)))),
        right_padded),
    "mask_to_bias": Case(nb.mask_to_bias, args(mask=masks((2, 3, 2), optional=False), dtype=dtypes), right_bias,
                         like="dtype"),
    "bias_to_mask": Case(nb.bias_to_mask, biases(), right_from_bias),
    "from_torch_masks": Case(nb.from_torch_masks, torch_masks(), right_from_torch, also={"n_heads": "attn_mask"}),
    "split_heads": Case(nb.split_heads, split_calls(), right_split, "x", also={"x": "d_model"}, exact=True),
    "merge_heads": Case(nb.merge_heads, args(x=st.lists(sizes, min_size=3, max_size=5).flatmap(
        lambda s: dtypes.flatmap(lambda t: floats(s, t)))), right_merge, "x", exact=True),
    "fused_attention": Case(nb.fused_attention, qkv(causal=st.booleans(), dropout_p=shares),
                            lambda **a: right_attention(**a)[0], "q", finite=True),
    "MultiHeadAttention": Case(lambda **a: shapes_of(nb.MultiHeadAttention(**a)), sizes.flatmap(lambda h: args(
        d_model=sizes.map(lambda d: d * h), n_heads=st.just(h), bias=st.booleans(), dropout=shares,
        n_kv_heads=st.sampled_from([None, 1, h]), d_head=sizes_or_none)), sized_heads, also={"n_kv_heads": "n_heads"}),
    "MultiHeadAttention.forward": Case(nb.MultiHeadAttention.forward, layer_calls(heads=True), right_layer, "x",
                                       fixed=("self",), finite=True),
    "MultiHeadAttention.from_torch": Case(lambda layer: layer_facts(nb.MultiHeadAttention.from_torch(layer)),
                                          torch_layers(), only_torch),
    "MultiHeadAttention.to_torch": Case(
        lambda self: layer_facts(self.to_torch()), torch_layers().map(
            lambda a: {"self": nb.MultiHeadAttention.from_torch(a["layer"])}), lambda self: layer_facts(self),
        fixed=("self",)),
    "sinusoidal_positions": Case(nb.sinusoidal_positions, args(n=sizes, d_model=even, base=bases), right_waves),
    "LearnedPositions": Case(lambda **a: shapes_of(nb.LearnedPositions(**a)), args(n_max=sizes, d_model=sizes),
                             lambda n_max, d_model: (whole(n_max, d_model), {"weight": (n_max, d_model)})[1]),
    "LearnedPositions.forward": Case(nb.LearnedPositions.forward, learned_calls(), right_learned, "x", fixed=("self",)),
    "rotary_angles": Case(nb.rotary_angles, args(positions=all_places, d_head=even, base=bases, scaling=scalings), right_angles),
    "rotary_frequencies": Case(nb.rotary_frequencies, args(d_head=even, base=bases, scaling=scalings, n=lengths), right_frequencies),
    "rotary_rounds": Case(nb.rotary_rounds, args(n=lengths, d_head=even, base=bases, scaling=scalings),
                          lambda n, **a: right_frequencies(n=n, **a) * n / (2 * math.pi)),
    "rotate": Case(nb.rotate, rotations(), right_rotation, "x"),
    "convert_pairing": Case(nb.convert_pairing, projections(), right_pairing, "weight", exact=True),
    "RotaryEmbedding": Case(lambda **a: nb.RotaryEmbedding(**a).attention_factor, args(
        d_head=even, base=bases, scaling=scalings, interleaved=st.booleans()), right_factor),
    "RotaryEmbedding.forward": Case(nb.RotaryEmbedding.forward, rotary_calls(), right_turned, "x", fixed=("self",), single=True),
    "alibi_slopes": Case(nb.alibi_slopes, args(n_heads=st.integers(1, 20)), right_slopes),
    "alibi_bias": Case(nb.alibi_bias, args(n_heads=sizes, n_q=sizes, n_k=sizes), right_alibi),
    "AlibiPositions": Case(lambda n_heads: nb.AlibiPositions(n_heads).n_heads, args(n_heads=sizes),
                           lambda n_heads: (whole(n_heads), n_heads)[1]),
    "AlibiPositions.score_bias": Case(nb.AlibiPositions.score_bias, two_places(nb.AlibiPositions), right_score_bias,
                                      also={"q_positions": "k_positions", "k_positions": "q_positions"}, fixed=("self",)),
    "relative_buckets": Case(nb.relative_buckets, args(
        relative=all_places, bidirectional=st.booleans(), n_buckets=st.integers(4, 32), max_distance=st.sampled_from([23, 61, 97])),
        right_buckets, also={"n_buckets": "max_distance|n_buckets"}),
    "RelativePositions": Case(lambda **a: shapes_of(nb.RelativePositions(**a)), args(
        n_heads=sizes, bidirectional=st.booleans(), n_buckets=st.integers(4, 32), max_distance=st.sampled_from([23, 61, 97])),
        sized_buckets, also={"n_buckets": "max_distance|n_buckets"}),
    "RelativePositions.score_bias": Case(nb.RelativePositions.score_bias, two_places(learned_distances), right_score_bias,
                                         also={"q_positions": "k_positions", "k_positions": "q_positions"}, fixed=("self",)),
    "share_heads": Case(nb.share_heads, shared_heads(), right_sharing, "x", also={"x": "n_heads"}, exact=True),
    "to_grouped": Case(lambda **a: grouped_facts(nb.to_grouped(**a)), grouped_layers(), right_pooling,
                       also={"n_kv_heads": "n_heads"}),
    "rms_norm": Case(nb.rms_norm, normed_rows(), right_norm, "x", also={"weight": "x"}, finite=True, widens=True),
    "soft_cap": Case(nb.soft_cap, dtypes.flatmap(lambda t: args(
        scores=floats((2, 3), t, (1.0, 30.0)), cap=st.sampled_from([1.0, 5, 50.0]))), right_cap, "scores", finite=True),
    "sink_softmax": Case(nb.sink_softmax, sunk_scores(), right_sink, "scores", also={"scores": "sinks"}, finite=True, widens=True),
    "capped_attention": Case(nb.capped_attention, qkv(cap=st.sampled_from([1.0, 5, 50.0]), scale=scales), right_other, "q", finite=True, widens=True),
    "sink_attention": Case(nb.sink_attention, sunk_qkv(), right_other, "q", also=dict.fromkeys("qkv", "sinks"), finite=True, widens=True),
    "LatentAttention": Case(lambda **a: shapes_of(nb.LatentAttention(**a)), args(
        d_model=sizes.map(lambda d: 2 * d), n_heads=st.just(2), d_latent=sizes, d_rope=st.sampled_from([2, 4]),
        d_head=sizes_or_none, d_v=sizes_or_none, d_latent_q=sizes_or_none, bias=st.booleans(), dropout=shares), sized_latent),
    "LatentAttention.forward": Case(nb.LatentAttention.forward, latent_calls(), right_latent, "x", fixed=("self",), finite=True),
    "LatentAttention.from_transformers": Case(lambda layer: shapes_and_sums(nb.LatentAttention.from_transformers(layer)),
                                              deepseek_layers(), right_deepseek),
    "online_softmax": Case(nb.online_softmax, scores(dim=False, spread=(1.0, 0.0, 1e4)).map(renamed(x="scores")).flatmap(
        lambda a: sizes.map(lambda n: a | {"block_size": n})), right_online, "scores", finite=True, widens=True),
    "merge_partials": Case(nb.merge_partials, partials(), right_merged, finite=True),
    "flash_attention": Case(nb.flash_attention, qkv(scale=scales, causal=st.booleans(), block_size=sizes, window=sizes_or_none), right_flash, "q", finite=True, widens=True, also={
        "q": "n_heads|n_kv_heads", "k": "n_heads|n_kv_heads"}),
    "window_mask": Case(nb.window_mask, args(n_q=sizes, n_k=sizes, window=sizes, device=st.sampled_from([None, "cpu"])),
                        right_window),
    "sink_mask": Case(nb.sink_mask, args(n_q=sizes, n_k=sizes, n_sinks=sizes, device=st.sampled_from([None, "cpu"])),
                      right_sinks),
    "block_mask": Case(nb.block_mask, block_calls(), right_blocks, also={"n_k": "pattern", "block": "pattern"}),
    "document_mask": Case(nb.document_mask, args(ids=st.lists(sizes, min_size=1, max_size=6).flatmap(
        lambda n: st.sampled_from([n, [n, n], torch.tensor(n), torch.tensor([n, n[::-1]])])),
        device=st.sampled_from([None, "cpu"])), right_documents),
    "local_attention": Case(nb.local_attention, unmasked(window=sizes), right_local, "q", finite=True),
    "feature_map": Case(nb.feature_map, scores(dim=False), lambda x: F.elu(x) + 1, "x"),
    "linear_attention": Case(nb.linear_attention, unmasked(pairs=True), right_linear, "q", finite=True),
    "recurrent_attention": Case(lambda **a: nb.recurrent_attention(**a)[0], with_state(), right_linear, "q", finite=True),
    "delta_rule": Case(lambda **a: nb.delta_rule(**a)[0], with_beta(), right_delta, "q", finite=True),
    "KVCache": Case(lambda **a: cache_facts(nb.KVCache(**a)), args(
        b=sizes, n_kv_heads=sizes, n_max=sizes, d_head=sizes, **places), sized_cache),
    "KVCache.append": Case(lambda self, k, v: appended(self, k, v), caches(words=True), right_append, "k", fixed=("self",)),
    "KVCache.visible": Case(nb.KVCache.visible, caches(n_q=st.integers(1, 3)).filter(lambda a: a["n_q"] <= a["self"].longest), right_visible, fixed=("self",)),
    "KVCache.truncate": Case(lambda self, n: done(self, "truncate", n), caches().flatmap(lambda a: args(
        self=st.just(a["self"]), n=st.integers(0, 5) | st.lists(st.integers(0, 5), min_size=len(a["self"].lengths), max_size=len(a["self"].lengths)))),
        right_truncate, fixed=("self",)),
    "KVCache.reorder": Case(lambda self, indices: done(self, "reorder", indices), caches().flatmap(lambda a: args(
        self=st.just(a["self"]), indices=st.lists(st.integers(0, len(a["self"].lengths) - 1), min_size=1, max_size=5))), right_reorder, fixed=("self",)),
    "KVCache.reset": Case(lambda self: done(self, "reset"), caches(), lambda self: [([], [])] * len(self.lengths), fixed=("self",)),
    "RollingCache": Case(lambda **a: cache_facts(nb.RollingCache(**a)), args(
        b=sizes, n_kv_heads=sizes, window=sizes, d_head=sizes, n_sinks=st.integers(0, 3), **places), sized_rolling),
    "RollingCache.append": Case(rolled, rolling(words=True), right_roll, "k", fixed=("self",)),
    "RollingCache.key_positions": Case(lambda self: self.key_positions.sort().values, rolling(), right_held_positions, fixed=("self",)),
    "RollingCache.visible": Case(nb.RollingCache.visible, rolling(n_q=st.integers(1, 3)).filter(lambda a: a["n_q"] <= a["self"].n_new), right_rolling, fixed=("self",)),
    "RollingCache.truncate": Case(lambda self, n: lengths_after(self, n), rolling(n=st.integers(0, 9)).filter(
        lambda a: a["self"].longest <= max(a["n"], a["self"].keys.shape[2])), right_cut, fixed=("self",)),
    "PagedCache": Case(lambda **a: cache_facts(nb.PagedCache(**a)), args(
        n_blocks=sizes, block_size=sizes, n_kv_heads=sizes, d_head=sizes, **places), sized_pages),
    "PagedCache.new": Case(lambda self: copy.deepcopy(self).new(), paged(), lambda self: self.begun, fixed=("self",)),
    "PagedCache.fork": Case(lambda self, seq: paged_after(self, "fork", seq), paged(seq=st.integers(0, 1)), right_fork, fixed=("self",)),
    "PagedCache.free": Case(lambda self, seq: paged_after(self, "free", seq), paged(seq=st.integers(0, 1)), right_free, fixed=("self",)),
    "PagedCache.append": Case(lambda self, seqs, k, v: paged_after(self, "append", seqs, k, v), paged(words=True), right_page,
                              also={"seqs": "k"}, fixed=("self",)),
    "PagedCache.read": Case(lambda self, seqs: read_rows(self, self.read(seqs), seqs), paged(seqs=st.sampled_from([[0], [1], [0, 1], [1, 0]])),
                            right_read, fixed=("self",)),
    "PagedCache.batch": Case(lambda self, seqs: self.batch(seqs).lengths, paged(seqs=st.sampled_from([[0], [1], [0, 1], [1, 0]])),
                            lambda self, seqs: torch.tensor([self.lengths[seq] for seq in real_seqs(self, seqs)]), fixed=("self",)),
    "new_caches": Case(lambda model, b, n_max: [tuple(c.keys.shape) for c in nb.new_caches(model, b, n_max)], args(
        model=st.just(a_model()), b=sizes, n_max=sizes), lambda model, b, n_max: (whole(b, n_max), [(b, 2, n_max, 2)])[1], fixed=("model",)),
    "cache_bytes": Case(nb.cache_bytes, args(numbers=sizes, n_layers=sizes, n=sizes, bits=sizes, window=st.none() | sizes), right_bytes),
    "count_pairs": Case(nb.count_pairs, args(n_q=sizes, n_k=sizes, causal=st.booleans(), window=st.none() | sizes), right_looks),
    "attention_cost": Case(lambda **a: tuple(nb.attention_cost(**a)), args(n_q=sizes, n_k=sizes, n_heads=sizes, d_k=sizes, d_v=st.none() | sizes,
        kept=st.none() | sizes, b=sizes, bits=sizes, causal=st.booleans(), window=st.none() | sizes, passes=st.integers(0, 3)), right_attention_cost),
    "projection_cost": Case(lambda **a: tuple(nb.projection_cost(**a)), args(n=sizes, d_model=st.sampled_from([4, 8, 12]), n_heads=st.sampled_from([2, 4]),
        d_head=st.none() | sizes, n_kv_heads=st.none() | st.sampled_from([1, 2]), b=sizes, bits=sizes), right_projection_cost),
    "exponent": Case(lambda **a: round(nb.exponent(**a), 3), args(sizes=st.sampled_from([[1, 2, 4], [3.0, 5.0, 50.0]]),
                     counts=st.sampled_from([[1, 2, 3], [9.0, 4.0, 1.0]])), right_exponent),
    "least_seconds": Case(nb.least_seconds, args(operations=st.integers(0, 9), moved=st.floats(0, 9), peak=sizes, bandwidth=st.floats(0.5, 9)), right_seconds),
    "count_cost": Case(lambda f: tuple(nb.count_cost(f, torch.ones(2, 3))), args(f=st.just(torch.exp)), lambda f: (0, 48), fixed=("f", "args")),
    "peak_bytes": Case(lambda f: nb.peak_bytes(f, torch.ones(2, 3)), args(f=st.just(torch.exp)), lambda f: 24, fixed=("f", "args")),
    "saved_bytes": Case(lambda f: nb.saved_bytes(f, torch.ones(2, 3)), args(f=st.just(torch.exp)), lambda f: 24, fixed=("f", "args")),
    "FeedForward": Case(lambda **a: shapes_of(nb.FeedForward(**a)), args(d_model=sizes, d_ff=sizes_or_none, activation=st.just(F.relu), gated=st.booleans(),
        bias=st.booleans(), dropout=shares), sized_feed_forward),
    "FeedForward.forward": Case(nb.FeedForward.forward, feed_forward_calls(), right_feed_forward, "x", fixed=("self",), finite=True),
    "TransformerBlock": Case(lambda **a: shapes_of(nb.TransformerBlock(**a)), args(
        d_model=st.just(4), attention=st.just(nb.MultiHeadAttention(4, 2)), feed_forward=st.just(nb.FeedForward(4, 5)), norm_first=st.booleans(), dropout=shares),
        right_block_shapes, fixed=("attention", "feed_forward")),
    "TransformerBlock.forward": Case(nb.TransformerBlock.forward, transformer_calls(), right_block, "x", also={"memory_mask": "mask"}, fixed=("self",), finite=True),
    "TransformerBlock.from_torch": Case(copied_block, torch_blocks(), right_block_copy),
    "TransformerStack": Case(lambda blocks: len(nb.TransformerStack(blocks).blocks), args(blocks=sizes.map(lambda n: [a_block(2, 1) for _ in range(n)])),
                             lambda blocks: len([refuse(isinstance(block, nn.Module)) for block in blocks]) or refuse(False)),
    "TransformerStack.forward": Case(nb.TransformerStack.forward, transformer_calls(2), right_stack, "x", also={"memory_mask": "mask"}, fixed=("self",), finite=True),
    "TokenEmbedding": Case(lambda **a: shapes_of(nb.TokenEmbedding(**a)), args(vocabulary=sizes, d_model=sizes, scale=st.sampled_from([1.0, 2])), lambda vocabulary, d_model, scale=1.0: (
        whole(vocabulary, d_model), refuse(math.isfinite(number_in(scale))), {"table.weight": (vocabulary, d_model)})[-1]),
    "TokenEmbedding.forward": Case(nb.TokenEmbedding.forward, embedding_calls(), right_embeddings, also={"ids": "positions"}, fixed=("self",)),
    "LanguageModel": Case(lambda embed, stack, tied: (m := nb.LanguageModel(embed, stack, tied)).lm_head.weight is m.embed.table.weight, args(
        embed=st.just(a_model().embed), stack=st.just(a_model().stack), tied=st.booleans()), lambda embed, stack, tied: tied if isinstance(tied, bool) else refuse(False),
        fixed=("embed", "stack")),
    "LanguageModel.forward": Case(nb.LanguageModel.forward, model_calls(), right_logits, also={"ids": "positions|mask"}, fixed=("self",)),
    "LanguageModel.generate": Case(generated, args(self=st.just(a_model()), ids=st.tuples(sizes, sizes).map(lambda s: torch.randint(5, s, generator=torch.Generator().manual_seed(sum(s)))),
        n=st.integers(1, 3), temperature=st.sampled_from([0.0, 0, 1.5]), top_k=sizes_or_none), right_sequence, also={"ids": "positions", "n": "positions"}, fixed=("self",)),
    "EncoderDecoder": Case(lambda tied, **a: (m := nb.EncoderDecoder(**a, tied=tied)).lm_head.weight is m.target.table.weight, st.just(a_model(cross=True)).flatmap(lambda m: args(
        source=st.just(m.source), target=st.just(m.target), encoder=st.just(m.encoder), decoder=st.just(m.decoder), tied=st.booleans())),
        lambda tied, **a: tied if isinstance(tied, bool) else refuse(False), fixed=("source", "target", "encoder", "decoder")),
    "EncoderDecoder.forward": Case(nb.EncoderDecoder.forward, model_calls(cross=True), right_translation, also={"source_ids": "target_ids|source_mask|positions",
        "target_ids": "positions"}, fixed=("self",)),
    "gpu_attention": Case(where_it_runs, unmasked_qkv(), right_flash, "q", finite=True, also={
        "q": "n_heads|n_kv_heads", "k": "n_heads|n_kv_heads"}),
    "program_tiles": Case(nb.program_tiles, args(n_q=sizes, n_k=sizes, block_q=sizes, block_k=sizes, causal=st.booleans()), right_programs),
}
each_case = pytest.mark.parametrize("name", CASES)


def test_every_public_function_has_its_properties():
    "A new public function belongs in the table, and so does a new public method of a class."
    public = {n for n in nb.__all__ if not n.startswith("check_") and n not in ("CheckFailed", "Misused")}
    for name in list(public):
        if inspect.isclass(getattr(nb, name)):
            public |= {f"{name}.{m}" for m in vars(getattr(nb, name)) if not m.startswith("_") and m != "extra_repr"}  # PyTorch's hook for repr
    lacking, extra = sorted(public - set(CASES)), sorted(set(CASES) - public)
    assert not lacking, f"public, and without a Case in CASES: {lacking}; say how to draw its arguments, and what is right"
    assert not extra, f"in CASES, and not among the names of nbs/lookup/api.ipynb: {extra}"
    for name, case in CASES.items():
        for word in filter(None, [case.like, *case.also, *case.fixed]):
            assert word in parameters(name), f"{name} has no argument {word}"


def parameters(name: str) -> list[str]:
    "The arguments of a function, method, property or class."
    value = nb
    for part in name.split("."):
        value = getattr(value, part)
    return list(inspect.signature(getattr(value, "fget", value)).parameters)


# Comparing

def in_double(value: Any) -> Any:
    return value.double() if isinstance(value, Tensor) and value.is_floating_point() else value


def tolerance(case: Case, dtype: torch.dtype) -> dict[str, float]:
    "How far from right a number of this type may be."
    dtype = torch.float32 if case.single and dtype == torch.float64 else dtype
    if case.widens and dtype in (torch.float16, torch.bfloat16):
        return {"rtol": torch.finfo(dtype).eps, "atol": 1e-6}
    return dict.fromkeys(("rtol", "atol"), 0 if case.exact else TOLERANCE.get(dtype, 0))


def same(got: Any, want: Any, dtype: torch.dtype, case: Case) -> None:
    "Fail unless `got` is `want`, in numbers, shape and type."
    if isinstance(want, Tensor):
        assert isinstance(got, Tensor) and got.shape == want.shape, f"expected shape {tuple(want.shape)}; got {got}"
        if want.is_complex() and got.is_complex():
            got, want, dtype = torch.view_as_real(got).double(), torch.view_as_real(want).double(), torch.float64
            return assert_close(got, want, atol=1e-4, rtol=1e-4, equal_nan=True)
        assert got.dtype == (dtype if want.is_floating_point() else want.dtype), f"it has the type {got.dtype}"
        if not want.is_floating_point():
            return assert_close(got, want, rtol=0, atol=0)
        assert_close(got.double(), want.to(dtype).double(), **tolerance(case, dtype), equal_nan=True)
    elif isinstance(want, (tuple, list)):
        assert type(got) is type(want) and len(got) == len(want), f"expected {want}; got {got}"
        for g, w in zip(got, want):
            same(g, w, dtype, case)
    elif isinstance(want, dict):
        assert got.keys() == want.keys(), f"expected {list(want)}; got {list(got)}"
        for key in want:
            same(got[key], want[key], dtype, case)
    else:
        both_nan = got != got and want != want
        assert (got == want or both_nan) and type(got) is type(want), f"expected {want!r}; got {got!r}"


def type_of_result(case: Case, a: dict[str, Any]) -> torch.dtype:
    like = a.get(case.like) if case.like else None
    if not isinstance(like, Tensor):
        return like if isinstance(like, torch.dtype) else torch.float32
    dtype = like.dtype
    for name, other in a.items():
        if name in ("positions", "angles"):  # they turn rows, and leave their type
            continue
        if isinstance(other, Tensor) and other.dtype in TOLERANCE:  # where types differ, the wider one is right
            dtype = torch.result_type(like.to(dtype), other)
    return dtype


def gradients(fn: Callable[..., Any], a: dict[str, Any], leaves: list[str]) -> tuple[Tensor, ...]:
    "The gradients of a random mix of all numbers that `fn` returns, for the arguments `leaves`."
    inputs = a | {name: a[name].detach().requires_grad_() for name in leaves}
    out = fn(**inputs)
    rng = torch.Generator().manual_seed(0)
    total = sum((t.double() * torch.randn(t.shape, generator=rng, dtype=torch.float64)).sum()
                for t in (out if isinstance(out, tuple) else (out,)) if isinstance(t, Tensor))
    return torch.autograd.grad(total, [inputs[n] for n in leaves], allow_unused=True, materialize_grads=True)


# The tests

@each_case
@given(data=st.data())
def test_right_for_every_shape_dtype_mask_and_stride(name, data):
    "Numbers, types and gradients are those of PyTorch or plain Python; what goes in stays as it was."
    case = CASES[name]
    a = data.draw(case.draw.filter(clear))
    before = {n: v.clone() for n, v in a.items() if isinstance(v, Tensor)}
    dtype, precise = type_of_result(case, a), {n: in_double(v) for n, v in a.items()}
    same(case.fn(**a), case.want(**precise), dtype, case)
    for n, v in before.items():
        assert torch.equal(a[n], v), f"{n} was changed"
    leaves = [n for n, v in a.items() if isinstance(v, Tensor) and v.is_floating_point() and v.ndim and n != "bias"]
    if leaves and case.like:
        got, want = gradients(case.fn, a, leaves), gradients(case.want, precise, leaves)
        for n, g, w in zip(leaves, got, want):
            tol = 4 * TOLERANCE[dtype]
            assert_close(g.double(), w, atol=tol, rtol=tol, msg=lambda m, n=n: f"the gradient of {n}: {m}")


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", [n for n, case in CASES.items() if case.widens])
def test_sixteen_bits_are_widened(name, dtype):
    "On many numbers at once: one result that was rounded on the way, and one is seen."
    rng = torch.Generator().manual_seed(0)
    x, q, k, v = (torch.randn(shape, generator=rng).mul(3).to(dtype) for shape in ((2, 37, 41), (2, 37, 11), (2, 41, 11), (2, 41, 13)))
    a = {"x": x, "scores": x, "q": q, "k": k, "v": v, "scale": 0.3, "dim": -1, "mask": x > -3, "cap": 5.0,
         "sinks": torch.tensor([0.3, -1.0]).to(dtype), "block_size": 16}
    a = {n: value for n, value in a.items() if n in parameters(name)}
    same(CASES[name].fn(**a), CASES[name].want(**{n: in_double(value) for n, value in a.items()}), dtype, CASES[name])


PLAIN = [None, True, "a", b"a", "", 0, -1, -3, 1.5, math.nan, math.inf, 1j, (), [], {}, [1.5], [-1], [None], ["a"],
         [["a"]], [[1], [2, 3]], {"a": None}, {1}, [2**70], object(), len, int, torch.float32, torch.int64]
TYPES = [torch.int64, torch.uint8, torch.bool, torch.complex64, torch.float16, torch.bfloat16, torch.float32,
         torch.float64, torch.float8_e4m3fn]


@st.composite
def spoiled(draw, value: Any):
    "Something that does not belong in the place of `value`; now and then it does."
    if isinstance(value, Tensor) and draw(st.integers(0, 2)):
        dim = draw(st.integers(0, value.ndim - 1)) if value.ndim else 0
        ways = [lambda: value[None], lambda: value.flatten(), lambda: value.to(draw(st.sampled_from(TYPES))),
                lambda: value.tolist(), lambda: torch.stack([value, value]), lambda: value * math.nan, lambda: ~value]
        if value.ndim:
            ways += [lambda: value.select(dim, 0), lambda: value.narrow(dim, 0, 1), lambda: value.narrow(dim, 0, 0),
                     lambda: torch.cat([value, value], dim), lambda: value.transpose(dim, -1), lambda: value.flatten()[0]]
        try:
            return draw(st.sampled_from(ways))()
        except (RuntimeError, TypeError, IndexError):  # there is no ~ of a float, no first of nothing
            return None
    if isinstance(value, Mapping) and draw(st.booleans()):
        bad = draw(st.sampled_from([*PLAIN, *(torch.ones(s).to(t) for s in ((), (2,), (2, 2)) for t in TYPES)]))
        return dict.fromkeys(value, bad)
    if type(value) is int and draw(st.integers(0, 2)):
        ways = [value + 1, value - 1, -value, float(value), str(value), torch.tensor(value), [value]]
        return draw(st.sampled_from(ways))
    return draw(st.sampled_from([*PLAIN, *(torch.ones(s).to(t) for s in ((), (2,), (2, 2)) for t in TYPES)]))


def judge(name: str, a: dict[str, Any], wrong: list[str], fit: set[str] = frozenset()) -> str | None:
    """What is wrong with how a function takes these arguments, of which `wrong` may be bad; None if nothing is.

    The arguments `fit` must fit each other, so an error may name one where another is bad.
    """
    case = CASES[name]
    try:
        got = case.fn(**a)
    except (TypeError, ValueError) as error:
        words = {*wrong, *(case.also.get(w) for w in wrong), *(fit if fit & set(wrong) else ())} - {None}
        said = str(error).splitlines()[0] if str(error) else ""
        if re.match(rf"(?:[\w, ]+, )?(?:{'|'.join(words)})\b", said) or any(
                re.match(rf"\w+: .*\b{w}\b", said) for w in wrong):
            return None
        return f"{type(error).__name__}, argument not named: {error}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    try:
        want = case.want(**{n: in_double(v) for n, v in a.items()})
    except Exception:
        return f"it accepts what has no right answer, and returns {got}"
    if case.finite and not all(v.isfinite().all() for v in a.values() if isinstance(v, Tensor)):
        return None
    try:
        same(got, want, type_of_result(case, a), case)
    except AssertionError as error:
        return f"it returns something wrong: {error}"
    return None


@pytest.mark.parametrize("name", [n for n, case in CASES.items() if set(parameters(n)) - set(case.fixed)])
@given(data=st.data())
def test_bad_arguments_are_told_of(name, data):
    "Wrong types, ranks, sizes and values end in a right result, or in a ValueError or TypeError that names them."
    a = dict(data.draw(CASES[name].draw.filter(clear)))
    names = sorted(set(a) - set(CASES[name].fixed))
    fit = {n for n in names if isinstance(a[n], Tensor)} | {n for n in names if n == "mask"}
    wrong = data.draw(st.lists(st.sampled_from(names), min_size=1, max_size=2, unique=True))
    for argument in wrong:
        a[argument] = data.draw(spoiled(a[argument]))
    note(f"{name}: {a}, of which {wrong} may be bad")
    complaint = judge(name, a, wrong, fit)
    if complaint:
        pytest.fail(complaint, pytrace=False)


_X, _B = torch.ones(2, 3, 3), torch.ones(2, 2, 3, 3, dtype=torch.bool)
_QKV = dict.fromkeys("qkv", _X)


@pytest.mark.parametrize("name, a, wrong", [
    ("masked_softmax", {"scores": _X, "mask": _B, "dim": -1}, "mask"),
    ("scaled_dot_product_attention", {**_QKV, "mask": _B}, "mask"),
    ("fused_attention", {**_QKV, "mask": _B}, "mask"),
    ("naive_attention", {**_QKV, "mask": _B}, "mask"),
    ("attention_scores", {"q": _X, "k": _X[:1]}, "k"),
    ("from_torch_masks", {"attn_mask": _B[0], "key_padding_mask": _B[0, :1, 0], "n_heads": 1}, "key_padding_mask"),
    ("Vocab.decode", {"self": nb.Vocab(["a", "b"]), "ids": [-1]}, "ids"),
])
def test_nothing_broadcasts_or_wraps_in_silence(name, a, wrong):
    "The bad arguments that are easily drawn too seldom."
    assert judge(name, a, [wrong]) is None
