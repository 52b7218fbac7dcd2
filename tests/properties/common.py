"""What the cases of several chapters share: how arguments are drawn, and what is right,
worked out by other means.
"""

import copy
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import attention_nb as nb
import torch
import torch.nn as nn
from hypothesis import strategies as st
from torch import Tensor

# How far a result may be from that in float64, beside numbers of about 1
TOLERANCE = {torch.float64: 1e-9, torch.float32: 2e-4, torch.float16: 1e-2, torch.bfloat16: 8e-2}


@dataclass
class Case:
    "A function, how to draw its arguments, and what it must give."

    fn: Callable[..., Any]  # called with the arguments by name
    draw: st.SearchStrategy[dict[str, Any]]
    want: Callable[..., Any]  # the same arguments, in float64 → what is right; raises if nothing is
    like: str | None = None  # the argument whose type the result has; None: float32
    # argument → words that name it as well in a message
    also: dict[str, str] = field(default_factory=dict)
    fixed: tuple[str, ...] = ()  # what is no argument, such as the object of a method
    exact: bool = False  # compare to the last bit
    finite: bool = False  # what becomes of NaN and infinity is PyTorch's affair
    widens: bool = False  # 16-bit numbers are worked out in 32 bits: only the last bit may differ
    single: bool = False  # it turns by angles in float32, whatever it turns


# Where there is a GPU, every public function is tried on it.
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def moved(value: Any, device: str) -> Any:
    "The same on a device: tensors, modules, caches, and what lists and dictionaries hold of them."
    if isinstance(value, Tensor):
        return value.to(device)
    if isinstance(value, nn.Module):
        return copy.deepcopy(value).to(device)
    if type(value) in (list, tuple):
        return type(value)(moved(item, device) for item in value)
    if isinstance(value, dict):
        return {name: moved(item, device) for name, item in value.items()}
    if not type(value).__module__.startswith("attention_nb") or not hasattr(value, "__dict__"):
        return value
    copied = copy.copy(value)
    vars(copied).update(moved(dict(vars(value)), device))
    return copied


sizes = st.integers(1, 4)
dtypes = st.sampled_from(list(TOLERANCE))
layouts = st.sampled_from(["contiguous", "transposed", "sliced", "expanded", "shifted"])


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
    x = torch.randn(tuple(shape), generator=rng, dtype=torch.float64) * draw(
        st.sampled_from(spread)
    )
    return laid_out(x.to(dtype), draw(layouts))


@st.composite
def masks(draw, shape, optional=True):
    """A mask that broadcasts to `shape`: fewer dimensions, some of size 1,
    some rows where nothing is allowed; or None.
    """
    if optional and draw(st.integers(0, 3)) == 0:
        return None
    shape = [1 if draw(st.integers(0, 3)) == 0 else n for n in shape][
        draw(st.integers(0, len(shape))) :
    ]
    rng = torch.Generator().manual_seed(draw(st.integers(0, 999)))
    mask = torch.rand(shape, generator=rng) < draw(st.sampled_from([0.3, 0.7, 1.1]))
    if mask.ndim > 1 and draw(st.booleans()):
        mask[..., 0, :] = False  # a row that may attend to nothing
    return laid_out(mask, draw(layouts))


@st.composite
def scores(draw, spread=(1.0,), rank=4, dim=True):
    x = draw(
        floats(draw(st.lists(sizes, min_size=0 if dim else 1, max_size=rank)), draw(dtypes), spread)
    )
    n = max(x.ndim, 1)
    return {"x": x, "dim": draw(st.integers(-n, n - 1))} if dim else {"x": x}


@st.composite
def qkv(draw, names="q k v", **more):
    """Queries, keys and values that fit, and a mask for them;
    `more` are arguments with strategies of their own.
    """
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
    dtype, h, lead = (
        draw(dtypes),
        draw(st.integers(1, 3)),
        draw(st.lists(st.integers(1, 3), max_size=2)),
    )
    n_q, n_k, d = draw(sizes), draw(sizes), h * draw(st.integers(1, 3))
    torch.manual_seed(draw(st.integers(0, 999)))
    bias = draw(st.booleans())
    shared = draw(divisors(h))
    layer = (
        nb.MultiHeadAttention(d, h, bias, 0.0, shared, draw(sizes_or_none))
        if heads
        else nb.SelfAttention(d, draw(sizes), draw(sizes), bias)
    )
    memory = draw(st.none() | floats((*lead, n_k, d), dtype))
    n_k = n_q if memory is None else n_k
    args = {"self": layer.to(dtype), "x": draw(floats((*lead, n_q, d), dtype)), "memory": memory}
    if not heads:
        return args | {"mask": draw(masks((*lead, n_q, n_k)))}
    return args | draw(ways_of_attending(lead, h, n_q, n_k))


@st.composite
def ways_of_attending(draw, lead, h, n_q, n_k):
    "Mask, causal and need_weights for a layer with heads."
    shape = draw(st.sampled_from([(*lead, h, n_q, n_k), (*lead, 1, n_q, n_k), (n_q, n_k)]))
    mask = draw(masks(shape))
    # else it would be read as one without the axis of heads
    if mask is not None and mask.ndim == len(lead) + 2:
        mask = mask.reshape((1,) * (len(lead) + 3 - mask.ndim) + mask.shape)
    if draw(st.integers(0, 3)) == 0:
        # without that axis: meant for every head
        mask = torch.ones(*lead, n_q, n_k, dtype=torch.bool).tril()
    return {"mask": mask, "causal": draw(st.booleans()), "need_weights": draw(st.booleans())}


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
    refuse(
        not isinstance(x, Tensor) or x.ndim == 0 and not x.is_complex() and x.dtype != torch.bool
    )
    return float(x)


def right_softmax(x, dim=-1, mask=None):
    refuse(isinstance(x, Tensor) and x.is_floating_point() and type(dim) is int)
    if mask is None:
        return x.softmax(dim)
    refuse(mask.dtype == torch.bool)
    blocked = ~mask.expand(x.shape)
    # numbers may stand anywhere in what is blocked;
    # rows with nothing allowed end as zeros, with zero gradients
    weights = x.masked_fill(blocked, -1e300).softmax(dim)
    # NaN where one may look: NaN in the whole row
    return weights.masked_fill(blocked & ~weights.isnan(), 0)


def right_attention(q, k, v, mask=None, scale=None, dropout_p=0.0, causal=False):
    refuse(
        q.shape[:-2] == k.shape[:-2] == v.shape[:-2]
        and q.dtype == k.dtype == v.dtype == torch.float64
    )
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
    heads = [
        (q.chunk(h, -1)[i], *(t.chunk(self.n_kv_heads, -1)[i // share] for t in (k, v)))
        for i in range(h)
    ]
    parts = [
        right_attention(*head, None if mask is None else mask[..., i, :, :], causal=causal)
        for i, head in enumerate(heads)
    ]
    out = own.out_proj(torch.cat([c for c, _ in parts], -1))
    return out, torch.stack([w for _, w in parts], -3) if need_weights else None


def shapes_of(layer: nn.Module) -> dict[str, tuple[int, ...]]:
    return {name: tuple(p.shape) for name, p in layer.named_parameters()}


def args(**strategies: Any) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(strategies)


@st.composite
def weights(draw, dim=True, grad=False):
    drawn = draw(scores(dim=dim))
    x = drawn.pop("x")
    drawn["weights"] = x.float().softmax(drawn.get("dim", -1)).to(x.dtype)
    return drawn | ({"grad": draw(floats(x.shape, x.dtype))} if grad else {})


@st.composite
def unmasked(draw, pairs=False, **more):
    "Queries, keys and values, if `pairs` with a query for each key; no mask."
    a = draw(qkv(**more))
    del a["mask"]
    if pairs:
        n = min(a["q"].shape[-2], a["k"].shape[-2])
        a |= {name: a[name][..., :n, :] for name in "qkv"}
    return a


even, bases, lengths = (
    sizes.map(lambda n: 2 * n),
    st.sampled_from([10000.0, 100, 7.5]),
    st.sampled_from([1, 8, 9, 100]),
)
scalings = st.sampled_from(
    [
        None,
        {"rope_type": "default"},
        {"type": "linear", "factor": 4},
        {"rope_type": "ntk", "factor": 2.5},
        {"rope_type": "proportional", "factor": 2.5},
        {"rope_type": "dynamic", "factor": 2.0, "original_max_position_embeddings": 8},
        {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64},
        {
            "rope_type": "llama3",
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "max_position_embeddings": 32,
        },
    ]
)


def at_least_two(d: Any, base: Any) -> None:
    whole(d)
    refuse(
        d % 2 == 0
        and isinstance(base, (int, float))
        and not isinstance(base, bool)
        and 1 < base < math.inf
    )


def right_speeds(d: int, base: float | None, scaling: Any, longest: float) -> list[float]:
    "How far each pair turns in a step, by the formulas of the papers, in Python's numbers."
    base = 10000.0 if base is None else base
    at_least_two(d, base)
    refuse(scaling is None or isinstance(scaling, Mapping))
    s = {"rope_type": "default"} if scaling is None else scaling
    kind = s.get("rope_type", s.get("type", "default"))
    refuse(kind in ("default", "linear", "proportional", "ntk", "dynamic", "yarn", "llama3"))
    factor, trained = (
        s.get("factor", 1),
        s.get("original_max_position_embeddings", s.get("max_position_embeddings")),
    )
    for x in (
        factor,
        1 if kind in ("default", "linear", "proportional", "ntk") else trained,
        s.get("low_freq_factor", 1),
        s.get("high_freq_factor", 1),
    ):
        refuse(isinstance(x, (int, float)) and not isinstance(x, bool) and 0 < x < math.inf)
    refuse(kind in ("default", "proportional") or "factor" in s)
    refuse(kind != "llama3" or {"low_freq_factor", "high_freq_factor"} <= set(s))
    speeds = [base ** (-2 * i / d) for i in range(d // 2)]
    grown = (
        factor * max(longest + 1, trained) / trained - (factor - 1) if kind == "dynamic" else factor
    )
    if kind in ("ntk", "dynamic"):
        return [f * grown ** (-i / max(d / 2 - 1, 1)) for i, f in enumerate(speeds)]
    keep = {"default": 1.0, "linear": 0.0, "proportional": 0.0}.get(kind)
    if kind == "llama3":
        low, high = s["low_freq_factor"], s["high_freq_factor"]
        keeps = [min(max((trained * f / (2 * math.pi) - low) / (high - low), 0), 1) for f in speeds]
    elif kind == "yarn":
        low, high = (
            d * math.log(trained / (beta * 2 * math.pi)) / (2 * math.log(base)) for beta in (32, 1)
        )
        low, high = max(math.floor(low), 0), min(math.ceil(high), d - 1)
        keeps = [1 - min(max((i - low) / (high - low or 0.001), 0), 1) for i in range(d // 2)]
    return [
        f * (k + (1 - k) / factor)
        for f, k in zip(speeds, keeps if keep is None else [keep] * len(speeds))
    ]


def divisors(h: int) -> st.SearchStrategy[int]:
    return st.sampled_from([g for g in range(1, h + 1) if h % g == 0])


def right_norm(x, weight=None, eps=1e-6):
    refuse(isinstance(x, Tensor) and x.is_floating_point() and x.ndim > 0 and x.shape[-1] > 0)
    refuse(isinstance(eps, (int, float)) and 0 < number_in(eps) < math.inf)
    refuse(
        weight is None
        or isinstance(weight, Tensor)
        and weight.is_floating_point()
        and weight.shape == x.shape[-1:]
    )
    normed = x / (x.pow(2).sum(-1, keepdim=True) / x.shape[-1] + eps).sqrt()
    return normed if weight is None else normed * weight


places = dict(dtype=st.none() | dtypes, device=st.sampled_from([None, "cpu"]))


@st.composite
def caches(draw, words=False, rolling=False, **more):
    """A cache of up to three sequences with a few tokens, and keys and values for it;
    what it was given is its `history`.
    """
    b, h, d, dtype = (
        draw(st.integers(1, 3)),
        draw(st.integers(1, 2)),
        draw(st.integers(1, 3)),
        draw(dtypes),
    )
    cache = (
        nb.RollingCache(b, h, draw(st.integers(1, 3)), d, draw(st.integers(0, 2)), dtype)
        if rolling
        else nb.KVCache(b, h, 8, d, dtype)
    )
    given_tokens = [
        draw(floats((2, b, h, n, d), dtype)) for n in draw(st.lists(st.integers(1, 3), max_size=2))
    ]
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


def a_block(
    d: int, h: int, cross: bool = False, norm_first: bool = True, norm=nn.LayerNorm, out_norm=None
) -> nn.Module:
    attention, crossed = nb.MultiHeadAttention(d, h), nb.MultiHeadAttention(d, h) if cross else None
    return nb.TransformerBlock(
        d, attention, nb.FeedForward(d, 5), crossed, norm, norm_first, out_norm=out_norm
    )


def a_model(vocabulary: int = 5, cross: bool = False, seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    embed = lambda: nb.TokenEmbedding(vocabulary, 4, nb.LearnedPositions(9, 4))
    stack = lambda crosses: nb.TransformerStack([a_block(4, 2, crosses)], nn.LayerNorm(4))
    return (
        nb.EncoderDecoder(embed(), embed(), stack(False), stack(True))
        if cross
        else nb.LanguageModel(embed(), stack(False))
    )


sizes_or_none = st.none() | sizes
