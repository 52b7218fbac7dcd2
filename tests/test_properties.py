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
    layer = nb.MultiHeadAttention(d, h, bias) if heads else nb.SelfAttention(d, draw(sizes), draw(sizes), bias)
    memory = draw(st.none() | floats((*lead, n_k, d), dtype))
    n_k = n_q if memory is None else n_k
    args = {"self": layer.to(dtype), "x": draw(floats((*lead, n_q, d), dtype)), "memory": memory}
    if not heads:
        return args | {"mask": draw(masks((*lead, n_q, n_k)))}
    shape = draw(st.sampled_from([(*lead, h, n_q, n_k), (*lead, 1, n_q, n_k), (n_q, n_k)]))
    mask = draw(masks(shape))
    if mask is not None and mask.ndim == len(lead) + 2:  # it would be read as one without the axis of heads
        mask = mask.reshape((1,) * (len(lead) + 3 - mask.ndim) + mask.shape)
    if draw(st.integers(0, 3)) == 0:
        mask = torch.ones(*lead, n_q, n_k, dtype=torch.bool).tril()  # without that axis: meant for every head
    return args | {"mask": mask, "causal": draw(st.booleans()), "need_weights": draw(st.booleans())}


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
    parts = [right_attention(*(t.chunk(h, -1)[i] for t in (q, k, v)), None if mask is None else mask[..., i, :, :],
                             causal=causal) for i in range(h)]
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


def right_words(words, specials=()):
    for given_words in (words, specials):
        refuse(not isinstance(given_words, str) and all(isinstance(w, str) for w in given_words))
    return list(dict.fromkeys([*specials, *words]))


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


def sized_heads(d_model, n_heads, bias=True, dropout=0.0):
    whole(d_model, n_heads)
    refuse(d_model % n_heads == 0 and isinstance(bias, bool) and 0 <= number_in(dropout) <= 1)
    return {f"{n}_proj.weight": (d_model, d_model) for n in ("q", "k", "v", "out")} | {
        f"{n}_proj.bias": (d_model,) for n in ("q", "k", "v", "out") if bias}


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
        words = draw(st.lists(st.sampled_from(vocab.words), min_size=1, max_size=5))
        return {"self": vocab, "words": " ".join(words) if draw(st.booleans()) else words}
    numbers = draw(st.lists(st.integers(0, len(vocab) - 1), max_size=5))
    return {"self": vocab, "ids": torch.tensor(numbers) if draw(st.booleans()) else numbers}


def right_ids(self, words):
    words = re.findall(r"\w+", words) if isinstance(words, str) else list(words)
    refuse(bool(words))
    return torch.tensor([self.words.index(w) for w in words])


def right_decoded(self, ids):
    ids = ids.tolist() if isinstance(ids, Tensor) else list(ids)
    whole(*ids, least=0)
    return [self.words[i] for i in ids]


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


sizes_or_none = st.none() | sizes
CASES = {
    "tokenize": Case(nb.tokenize, args(text=st.lists(letters, min_size=1, max_size=6).map(", ".join)),
                     lambda text: text.split(", ")),
    "Vocab": Case(lambda **a: nb.Vocab(**a).words,
                  args(words=st.lists(letters, min_size=1, max_size=6), specials=st.lists(letters, max_size=2)),
                  right_words),
    "Vocab.encode": Case(nb.Vocab.encode, in_vocab(ids=False), right_ids, also={"words": "unknown words"}, fixed=("self",)),
    "Vocab.decode": Case(nb.Vocab.decode, in_vocab(ids=True), right_decoded, fixed=("self",)),
    "one_hot": Case(nb.one_hot, args(size=st.just(5), ids=st.lists(sizes, max_size=3).flatmap(
        lambda shape: st.integers(0, 99).map(lambda s: (torch.arange(math.prod(shape)) * 7 + s).view(shape) % 5))),
        right_one_hot, also={"size": "ids"}, exact=True),
    "number_corpus": Case(nb.number_corpus, args(), lambda: [
        (f"{w} is {w}", f"{i + 1} la {i + 1}") for i, w in enumerate(
            ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine"])]),
    "one_hot_vectors": Case(nb.one_hot_vectors, args(vocab=st.lists(letters, min_size=1).map(nb.Vocab)), lambda vocab: {
        w: torch.tensor([float(w == other) for other in vocab.words]).double() for w in vocab.words}),
    "sentence_embed": Case(nb.sentence_embed, words_and_vectors(), right_rows, also={
        "sentence": "unknown words", "vectors": "unknown words"}),
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
        d_model=sizes.map(lambda d: d * h), n_heads=st.just(h), bias=st.booleans(), dropout=shares)), sized_heads),
    "MultiHeadAttention.forward": Case(nb.MultiHeadAttention.forward, layer_calls(heads=True), right_layer, "x",
                                       fixed=("self",), finite=True),
    "MultiHeadAttention.from_torch": Case(lambda layer: layer_facts(nb.MultiHeadAttention.from_torch(layer)),
                                          torch_layers(), only_torch),
    "MultiHeadAttention.to_torch": Case(
        lambda self: layer_facts(self.to_torch()), torch_layers().map(
            lambda a: {"self": nb.MultiHeadAttention.from_torch(a["layer"])}), lambda self: layer_facts(self),
        fixed=("self",)),
    "positions_shares": Case(nb.positions_shares, args(x=dtypes.flatmap(lambda t: floats((2, 3), t))),
                          lambda x: F.normalize(x, p=1, dim=-1), "x", finite=True),
    "grouped_heads_shares": Case(nb.grouped_heads_shares, args(x=dtypes.flatmap(lambda t: floats((2, 3), t))),
                          lambda x: F.normalize(x, p=1, dim=-1), "x", finite=True),
    "online_softmax": Case(nb.online_softmax, scores(dim=False, spread=(1.0, 0.0, 1e4)).map(renamed(x="scores")).flatmap(
        lambda a: sizes.map(lambda n: a | {"block_size": n})), right_online, "scores", finite=True, widens=True),
    "merge_partials": Case(nb.merge_partials, partials(), right_merged, finite=True),
    "flash_attention": Case(nb.flash_attention, qkv(scale=scales, causal=st.booleans(), block_size=sizes, window=sizes_or_none), right_flash, "q", finite=True, widens=True, also={
        "q": "n_heads|n_kv_heads", "k": "n_heads|n_kv_heads"}),
    "kv_cache_shares": Case(nb.kv_cache_shares, args(x=dtypes.flatmap(lambda t: floats((2, 3), t))),
                          lambda x: F.normalize(x, p=1, dim=-1), "x", finite=True),
    "local_attention_shares": Case(nb.local_attention_shares, args(x=dtypes.flatmap(lambda t: floats((2, 3), t))),
                          lambda x: F.normalize(x, p=1, dim=-1), "x", finite=True),
}
each_case = pytest.mark.parametrize("name", CASES)


def test_every_public_function_has_its_properties():
    "A new public function belongs in the table, and so does a new public method of a class."
    public = {n for n in nb.__all__ if not n.startswith("check_") and n not in ("CheckFailed", "Misused")}
    for name in list(public):
        if inspect.isclass(getattr(nb, name)):
            public |= {f"{name}.{m}" for m in vars(getattr(nb, name)) if not m.startswith("_")}
    lacking, extra = sorted(public - set(CASES)), sorted(set(CASES) - public)
    assert not lacking, f"public, and without a Case in CASES: {lacking}; say how to draw its arguments, and what is right"
    assert not extra, f"in CASES, and not among the names of nbs/lookup/api.ipynb: {extra}"
    for name, case in CASES.items():
        for word in filter(None, [case.like, *case.also, *case.fixed]):
            assert word in parameters(name), f"{name} has no argument {word}"


def parameters(name: str) -> list[str]:
    "The arguments of a function, method or class."
    value = nb
    for part in name.split("."):
        value = getattr(value, part)
    return list(inspect.signature(value).parameters)


# Comparing

def in_double(value: Any) -> Any:
    return value.double() if isinstance(value, Tensor) and value.is_floating_point() else value


def tolerance(case: Case, dtype: torch.dtype) -> dict[str, float]:
    "How far from right a number of this type may be."
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
        assert got == want and type(got) is type(want), f"expected {want!r}; got {got!r}"


def type_of_result(case: Case, a: dict[str, Any]) -> torch.dtype:
    like = a.get(case.like) if case.like else None
    if not isinstance(like, Tensor):
        return like if isinstance(like, torch.dtype) else torch.float32
    dtype = like.dtype
    for other in a.values():
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
    a = data.draw(case.draw)
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
    x, q, k, v = (torch.randn(shape, generator=rng).mul(3).to(dtype) for shape in ((37, 41), (37, 11), (41, 11), (41, 13)))
    a = {"x": x, "scores": x, "q": q, "k": k, "v": v, "scale": 0.3, "dim": -1, "mask": x > -3, "block_size": 16}
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
                     lambda: torch.cat([value, value], dim), lambda: value.transpose(dim, -1), lambda: value.sum()]
        try:
            return draw(st.sampled_from(ways))()
        except (RuntimeError, TypeError, IndexError):  # there is no ~ of a float, no first of nothing
            return None
    if isinstance(value, Mapping) and draw(st.booleans()):
        bad = draw(st.sampled_from([*PLAIN, *(torch.ones(s).to(t) for s in ((), (2,), (2, 2)) for t in TYPES)]))
        return {k: bad for k in value}
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
    a = dict(data.draw(CASES[name].draw))
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
