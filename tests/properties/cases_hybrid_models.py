"""The cases of `hybrid_models`: how to draw each function's arguments, and what is right."""

import copy

import attention_nb as nb
import torch
import torch.nn.functional as F
from hypothesis import strategies as st
from tests.properties.cases_linear_attention import with_beta
from tests.properties.common import Case, args, dtypes, floats, refuse, sizes, whole


def right_mask(log_decay):
    "Each product by itself."
    refuse(log_decay.is_floating_point() and log_decay.ndim >= 1)
    n = log_decay.shape[-1]
    if not n:
        return log_decay[..., None]
    one = torch.zeros(log_decay.shape[:-1], dtype=torch.float64)
    rows = [
        [log_decay[..., j + 1 : i + 1].sum(-1).exp() if j <= i else one for j in range(n)]
        for i in range(n)
    ]
    return torch.stack([torch.stack(row, -1) for row in rows], -2)


def right_gated(q, k, v, log_decay, beta, state=None, size=64):
    "Multiply the state by a matrix for each token."
    whole(size)
    refuse(q.shape[:-1] == k.shape[:-1] == v.shape[:-1] == beta.shape == log_decay.shape)
    refuse(q.dtype == k.dtype == v.dtype == beta.dtype == torch.float64)
    refuse(log_decay.is_floating_point() and not (log_decay > 0).any())  # NaN gives NaN
    want = (*k.shape[:-2], k.shape[-1], v.shape[-1])
    state = torch.zeros(want, dtype=q.dtype) if state is None else state
    refuse(state.shape == want and state.is_floating_point())
    read, eye = [], torch.eye(k.shape[-1], dtype=q.dtype)
    for i in range(k.shape[-2]):
        part = beta[..., i, None, None]
        keep = eye - part * torch.einsum("...d,...e->...de", k[..., i, :], k[..., i, :])
        faded = log_decay[..., i, None, None].exp() * state
        new = torch.einsum("...d,...e->...de", k[..., i, :], v[..., i, :])
        state = keep @ faded + part * new
        read.append(torch.einsum("...d,...de->...e", q[..., i, :], state))
    return torch.stack(read, -2)


@st.composite
def with_decay(draw, chunks=False):
    a = draw(with_beta())
    drawn = draw(floats(a["beta"].shape, a["beta"].dtype))
    a["log_decay"] = -F.softplus(drawn)
    return a | {"size": draw(st.integers(1, 5))} if chunks else a


@st.composite
def log_decays(draw):
    shape = draw(st.lists(sizes, min_size=1, max_size=3))
    return {"log_decay": -F.softplus(draw(floats(shape, draw(dtypes))))}


def right_net(self, x, mask=None, causal=True, cache=None, positions=None):
    "Token by token, one head after the other."
    own = copy.deepcopy(self).double()
    refuse(x.is_floating_point() and x.ndim == 3 and x.shape[-1] == own.d_model)
    refuse(causal is True and 0 not in x.shape)
    if mask is not None:
        refuse(mask.dtype == torch.bool and mask.shape == (len(x), 1, 1, x.shape[1]))
        x = torch.where(mask[:, 0, 0, :, None], x, 0.0)
    size, wide = own.conv.shape[1], own.qkv_proj(x)
    back = [F.pad(wide, (0, 0, i, 0))[:, : x.shape[1]] for i in range(size)]
    mixed = F.silu(sum(own.conv[:, size - 1 - i] * b for i, b in enumerate(back)))
    q, k, v = mixed.split(own.widths, -1)
    beta, gate = own.beta_proj(x).sigmoid(), own.gate_proj(x)
    fade = -own.A_log.exp() * F.softplus(own.decay_proj(x) + own.dt_bias)
    found, group = [], own.n_heads // own.n_key_heads
    for h in range(own.n_heads):
        of = lambda t, i, d: t[..., i * d : (i + 1) * d]
        unit = lambda t: t / (t.square().sum(-1, keepdim=True) + 1e-6).sqrt()
        one_q, one_k = (unit(of(t, h // group, own.d_k)) for t in (q, k))
        one_v, one_gate = (of(t, h, own.d_v) for t in (v, gate))
        scaled = one_q / own.d_k**0.5
        read = right_gated(scaled, one_k, one_v, fade[..., h], beta[..., h])
        root = (read.square().mean(-1, keepdim=True) + own.norm.eps).sqrt()
        found.append(own.norm.weight * read / root * F.silu(one_gate))
    return own.out_proj(torch.cat(found, -1))


@st.composite
def net_calls(draw):
    torch.manual_seed(draw(st.integers(0, 999)))
    key_heads = draw(st.integers(1, 2))
    heads = key_heads * draw(st.integers(1, 2))
    d, d_k, d_v, size = draw(sizes), draw(sizes), draw(sizes), draw(st.integers(2, 4))
    layer = nb.GatedDeltaNet(d, heads, d_k, d_v, key_heads, size)
    dtype = draw(st.sampled_from([torch.float32, torch.float64]))
    b, n = draw(sizes), draw(sizes)
    first = draw(st.integers(0, n - 1))
    mask = (torch.arange(n) >= first).expand(b, 1, 1, n)
    x = draw(floats((b, n, d), dtype))
    return {"self": layer.to(dtype), "x": x, "mask": draw(st.sampled_from([None, mask]))}


def right_sizes(d_model, n_heads, d_k, d_v=None, n_key_heads=None, conv_size=4, eps=1e-6):
    whole(d_model, n_heads, d_k, conv_size)
    d_v = d_k if d_v is None else d_v
    n_key_heads = n_heads if n_key_heads is None else n_key_heads
    whole(d_v, n_key_heads)
    refuse(n_heads % n_key_heads == 0 and type(eps) in (int, float) and 0 < eps < 1)
    return d_model, n_heads, d_k, d_v, n_key_heads, conv_size


def shapes_of(cache):
    return tuple(cache.state.shape), tuple(cache.recent.shape), cache.lengths.tolist()


def right_cache(b, n_heads, d_k, d_v, width, n_recent, dtype=None, device=None):
    whole(b, n_heads, d_k, d_v, width, n_recent)
    return (b, n_heads, d_k, d_v), (b, n_recent, width), [0] * b


def filled():
    "A cache of three sequences that have tokens."
    cache = nb.StateCache(3, 2, 3, 4, 5, 2)
    cache.state, cache.recent = cache.state + 1.5, cache.recent - 0.5
    cache.lengths = cache.lengths + torch.tensor([4, 2, 7])
    return {"self": cache}


@st.composite
def reordered(draw):
    indices = draw(st.lists(st.integers(0, 2), min_size=1, max_size=4))
    return filled() | {"indices": draw(st.sampled_from([indices, torch.tensor(indices)]))}


def after(method):
    "The numbers of a copy of a cache after a call."

    def call(self, **given):
        own = copy.copy(self)
        getattr(own, method)(**given)
        return own.state, own.recent, own.lengths

    return call


def right_reset(self):
    return tuple(torch.zeros_like(t) for t in (self.state, self.recent, self.lengths))


def right_reorder(self, indices):
    indices = torch.as_tensor(indices)
    refuse(indices.ndim == 1 and len(indices) > 0 and not indices.is_floating_point())
    refuse(indices.dtype != torch.bool and not indices.is_complex())
    refuse(bool((indices >= 0).all()) and bool((indices < len(self.lengths)).all()))
    rows = indices.tolist()
    return tuple(torch.stack([t[i] for i in rows]) for t in (self.state, self.recent, self.lengths))


@st.composite
def cached_nets(draw):
    layer = nb.GatedDeltaNet(4, 2, 3, 5, conv_size=draw(st.integers(2, 4)))
    return {"self": layer, "b": draw(sizes)}


CASES = {
    "decay_mask": Case(nb.decay_mask, log_decays(), right_mask, "log_decay", finite=True),
    "gated_delta_rule": Case(
        lambda **a: nb.gated_delta_rule(**a)[0], with_decay(), right_gated, "q", finite=True
    ),
    "gated_delta_chunks": Case(
        lambda **a: nb.gated_delta_chunks(**a)[0],
        with_decay(chunks=True),
        right_gated,
        "q",
        finite=True,
    ),
    "GatedDeltaNet": Case(
        lambda **a: (
            tuple(
                getattr(nb.GatedDeltaNet(**a), name)
                for name in ("d_model", "n_heads", "d_k", "d_v", "n_key_heads")
            )
            + (nb.GatedDeltaNet(**a).conv.shape[1],)
        ),
        args(d_model=sizes, n_heads=st.sampled_from([2, 4]), d_k=sizes, n_key_heads=st.just(2)),
        right_sizes,
        also={"n_heads": "n_key_heads", "n_key_heads": "n_heads"},
    ),
    "GatedDeltaNet.forward": Case(
        lambda **a: nb.GatedDeltaNet.forward(**a)[0],
        net_calls(),
        right_net,
        "x",
        fixed=("self",),
        finite=True,
    ),
    "GatedDeltaNet.new_cache": Case(
        lambda self, b: shapes_of(self.new_cache(b)),
        cached_nets(),
        lambda self, b: right_cache(b, 2, 3, 5, 22, self.conv.shape[1] - 1),
        fixed=("self",),
    ),
    "StateCache": Case(
        lambda **a: shapes_of(nb.StateCache(**a)),
        args(b=sizes, n_heads=sizes, d_k=sizes, d_v=sizes, width=sizes, n_recent=sizes),
        right_cache,
    ),
    "StateCache.reset": Case(after("reset"), st.builds(filled), right_reset, fixed=("self",)),
    "StateCache.reorder": Case(after("reorder"), reordered(), right_reorder, fixed=("self",)),
}
