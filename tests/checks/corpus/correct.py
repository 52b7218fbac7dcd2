"""Correct attention, written in the many ways that people write it. No check may refuse any of it."""
import math
from collections import namedtuple
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.utils.checkpoint

from tests.checks.corpus.entries import Entry, Registry

REGISTRY = Registry()


def right(check: str, name: str = "", build: Callable[[Any], Any] = lambda target: target, **args: Any):
    "Register what follows; `build` makes of it what the check is given, `args` are the check's other arguments."
    def decorate(target):
        REGISTRY.add(Entry(name or target.__name__.replace("_", " "), check, target, build, args))
        return target
    return decorate


# Functions of q, k and v ----------------------------------------------------------------------------------------

@right("attention")
def textbook(q, k, v, mask=None):
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    weights = torch.softmax(scores, dim=-1)
    if mask is not None:
        weights = weights.masked_fill(~mask, 0.0)
    return weights @ v, weights


@right("attention", causal="lower-right")
def causal_textbook(q, k, v):
    n_q, n_k = q.shape[-2], k.shape[-2]
    allowed = torch.ones(n_q, n_k, dtype=torch.bool, device=q.device).tril(diagonal=n_k - n_q)
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    weights = scores.masked_fill(~allowed, float("-inf")).softmax(dim=-1).masked_fill(~allowed, 0)
    return weights @ v


@right("attention", causal=True)
def square_causal(q, k, v):
    n, d = q.shape[-2:]
    future = torch.triu(torch.ones(n, n), diagonal=1).bool()
    att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(d))
    att = att.masked_fill(future, float("-inf"))
    att = F.softmax(att, dim=-1)
    return att @ v


@right("attention", causal="upper-left")
def upper_left_causal(q, k, v):
    rows, cols = torch.arange(q.shape[2]), torch.arange(k.shape[2])
    bias = torch.where(cols <= rows[:, None], 0.0, float("-inf")).to(q.dtype)
    return ((q @ k.mT) / q.shape[-1] ** 0.5 + bias).softmax(-1) @ v


@right("attention")
def loops(q, k, v):
    batch, heads, n_q, width = q.shape
    out = q.new_zeros(batch, heads, n_q, v.shape[-1])
    for b in range(batch):
        for h in range(heads):
            for i in range(n_q):
                scores = torch.stack([(q[b, h, i] * key).sum() for key in k[b, h]]) / width ** 0.5
                top = scores.max()
                parts = [math.e ** (s - top) for s in scores]
                out[b, h, i] = sum(p * value for p, value in zip(parts, v[b, h])) / sum(parts)
    return out


@right("attention")
def einsum_with_mask(query, key, value, mask=None):
    logits = torch.einsum("bhqd,bhkd->bhqk", query, key) * query.size(-1) ** -0.5
    if mask is not None:
        logits = torch.where(mask, logits, torch.finfo(logits.dtype).min)
    attention = logits.softmax(dim=-1)
    if mask is not None:
        attention = attention * mask
    return torch.einsum("bhqk,bhkd->bhqd", attention, value), attention


@right("attention")
def bmm_over_flat_heads(q, k, v, mask=None):
    b, h, n_q, d = q.shape
    n_k = k.size(2)
    q, k, v = q.reshape(b * h, n_q, d), k.reshape(b * h, n_k, d), v.reshape(b * h, n_k, -1)
    scores = torch.bmm(q, k.transpose(1, 2)) / math.sqrt(d)
    if mask is not None:
        mask = mask.expand(b, h, n_q, n_k).reshape(b * h, n_q, n_k)
        scores = scores.masked_fill(mask == 0, float("-inf"))
        weights = F.softmax(scores, dim=2).masked_fill(mask == 0, 0.0)
    else:
        weights = F.softmax(scores, dim=2)
    return torch.bmm(weights, v).view(b, h, n_q, -1)


@right("attention", mask="bias")
def baddbmm_with_a_bias(q, k, v, bias):
    (b, h, n, d), m = q.shape, k.shape[2]
    bias = bias.expand(b, h, n, m).reshape(b * h, n, m)
    scores = torch.baddbmm(bias, q.reshape(-1, n, d), k.reshape(-1, m, d).mT, beta=1, alpha=1 / d ** 0.5)
    dead = (bias == float("-inf")).all(-1, keepdim=True)
    weights = scores.masked_fill(dead, 0).softmax(-1).masked_fill(dead, 0)
    return (weights @ v.reshape(b * h, m, -1)).unflatten(0, (b, h))


@right("attention", mask="blocked")
def true_means_blocked(q, k, v, mask=None):
    attn = torch.matmul(q / q.shape[-1] ** 0.5, k.transpose(2, 3))
    if mask is not None:
        attn = attn.masked_fill(mask, -torch.finfo(attn.dtype).max)
    attn = F.softmax(attn, dim=-1)
    if mask is not None:
        attn = attn.masked_fill(mask, 0)
    return torch.matmul(attn, v), attn


@right("attention", "causal, and refuses a mask", build=lambda f: partial(f, is_causal=True), causal=True)
def causal_or_mask(query, key, value, attn_mask=None, is_causal=False):
    assert attn_mask is None or not is_causal
    return F.scaled_dot_product_attention(query, key, value, attn_mask=attn_mask, is_causal=is_causal)


@right("attention", "PyTorch refuses the mask", causal=True)
def fused_causal(query, key, value, attn_mask=None, is_causal=True):
    return F.scaled_dot_product_attention(query, key, value, attn_mask=attn_mask, is_causal=is_causal)


@right("attention")
def a_mask_for_each_sentence(q, k, v, mask=None):
    mask = None if mask is None else mask.unsqueeze(1)  # (b, n_q, n_k)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


@right("attention")
def a_mask_of_keys(q, k, v, mask=None):
    mask = None if mask is None else mask.view(mask.shape[0], 1, 1, -1)  # (b, n_k)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


@right("attention")
def padding_is_true(q, k, v, key_padding_mask=None):
    mask = None if key_padding_mask is None else ~key_padding_mask[:, None, None]
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


@right("attention")
def a_mask_as_long_as_the_cache(q, k, v, attention_mask=None):
    mask = None if attention_mask is None else attention_mask[:, :, :, : k.shape[-2]]  # (b, 1, n_q, n_k)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


@right("attention", causal=True)
def at_most_sixteen_words(q, k, v):
    n, allowed = q.shape[-2], torch.ones(16, 16, dtype=torch.bool).tril()
    return F.scaled_dot_product_attention(q, k, v, attn_mask=allowed[:n, :n])


@right("attention")
def sum_with_a_tiny_epsilon(q, k, v):
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    e = (scores - scores.amax(-1, keepdim=True)).exp()
    return e / (e.sum(-1, keepdim=True) + 1e-6) @ v


@right("attention")
def float32_zeros(q, k, v):
    return ((q @ k.mT / math.sqrt(q.shape[-1])) + torch.zeros(k.shape[-2])).softmax(-1) @ v


@right("attention", "the fused function of PyTorch, as it is")
@right("attention", "the same with is_causal", build=lambda f: lambda q, k, v: f(q, k, v, is_causal=True), causal="upper-left")
@right("attention", "the same with a mask", build=lambda f: lambda q, k, v, mask: f(q, k, v, attn_mask=mask))
@right("attention", "the same with a bias", build=lambda f: lambda q, k, v, mask: f(q, k, v, mask), mask="bias")
@right("attention", "the same with a keyword fixed", build=lambda f: partial(f, scale=0.125), scale=0.125, mask=False)
class _Fused:  # a builtin has no place for a decorator; `fused` below puts it here
    pass


for _name in [n for n, a in REGISTRY.entries.items() if a.target is _Fused]:
    _old = REGISTRY.entries[_name]
    REGISTRY.entries[_name] = Entry(_name, _old.check, F.scaled_dot_product_attention, _old.build, _old.args)


@right("attention")
def online_softmax_in_tiles(q, k, v, tile=3):
    top = torch.full(q.shape[:-1] + (1,), float("-inf"), dtype=q.dtype)
    total = torch.zeros_like(top)
    acc = q.new_zeros(*q.shape[:-1], v.shape[-1])
    for start in range(0, k.shape[-2], tile):
        s = q @ k[..., start:start + tile, :].transpose(-1, -2) * q.shape[-1] ** -0.5
        new_top = torch.maximum(top, s.amax(-1, keepdim=True))
        p, fix = torch.exp(s - new_top), torch.exp(top - new_top)
        total = total * fix + p.sum(-1, keepdim=True)
        acc = acc * fix + p @ v[..., start:start + tile, :]
        top = new_top
    return acc / total


@right("attention")
def tiles_with_a_mask(q, k, v, mask=None, tile=16):
    n, parts = k.shape[-2], []
    allowed = torch.ones(q.shape[-2], n, dtype=torch.bool) if mask is None else mask
    allowed = allowed.expand(*q.shape[:-1], n)
    for start in range(0, n, tile):
        stop = min(start + tile, n)
        m = allowed[..., start:stop]
        s = (q @ k[..., start:stop, :].mT / q.shape[-1] ** 0.5).masked_fill(~m, torch.finfo(q.dtype).min)
        top = s.amax(-1, keepdim=True)
        e = (s - top).exp() * m
        parts.append((top, e.sum(-1, keepdim=True), e @ v[..., start:stop, :]))
    tops, totals, contexts = (torch.stack(each) for each in zip(*parts))
    fix = (tops - tops.amax(0)).exp()
    return (fix * contexts).sum(0) / (fix * totals).sum(0).clamp(min=1e-7)


@right("attention", mask="bias")
def scores_and_a_bias(query, key, value, attention_mask=None):
    scores = query @ key.transpose(-2, -1) * query.shape[-1] ** -0.5
    scores = scores if attention_mask is None else scores + attention_mask
    dead = scores.isinf().all(-1, keepdim=True)
    return scores.masked_fill(dead, 0).softmax(-1).masked_fill(dead, 0) @ value


@right("attention")
def two_halves(q, k, v):
    half, parts = (k.shape[-2] + 1) // 2, []
    for each, values in zip(k.split(half, -2), v.split(half, -2)):
        s = q @ each.mT / q.shape[-1] ** 0.5
        parts.append((s.logsumexp(-1, keepdim=True), s.softmax(-1) @ values))
    share = torch.stack([total for total, _ in parts]).softmax(0)
    return (share * torch.stack([context for _, context in parts])).sum(0)


@right("attention", causal=True)
def some_queries_at_a_time(q, k, v, size=4):
    parts = []
    for start in range(0, q.shape[-2], size):
        s = q[..., start:start + size, :] @ k.mT / q.shape[-1] ** 0.5
        s = s.masked_fill(torch.ones(s.shape[-2:], dtype=torch.bool).triu(start + 1), float("-inf"))
        parts.append(s.softmax(-1) @ v)
    return torch.cat(parts, -2)


@right("attention", causal=True)
def tiles_that_skip_the_future(q, k, v, tile=4):
    n, out = q.shape[2], []
    for i in range(0, n, tile):
        rows = q[:, :, i:i + tile] * q.shape[-1] ** -0.5
        stop = min(i + tile, n)
        s = rows @ k[:, :, :stop].mT
        s = s.masked_fill(torch.arange(stop) > torch.arange(i, stop)[:, None], float("-inf"))
        out.append(s.softmax(-1) @ v[:, :, :stop])
    return torch.cat(out, dim=2)


@right("attention")
def one_query_at_a_time(q, k, v, mask=None):
    outs = []
    for i in range(q.size(2)):
        s = (q[:, :, i:i + 1] * k).sum(-1) / q.size(-1) ** 0.5
        if mask is not None:
            row = mask.expand(*q.shape[:3], k.size(2))[:, :, i]
            s = s.masked_fill(~row, -1e30 if s.dtype != torch.float16 else -6e4)
            w = s.softmax(-1) * row
        else:
            w = s.softmax(-1)
        outs.append((w.unsqueeze(-1) * v).sum(2))
    return torch.stack(outs, 2)


@right("attention")
def in_log_space(q, k, v):
    s = torch.einsum("...qd,...kd->...qk", q, k).div(q.size(-1) ** 0.5)
    w = (s - s.logsumexp(dim=-1, keepdim=True)).exp()
    return torch.einsum("...qk,...kd->...qd", w, v), w


@right("attention")
def heads_after_the_length(q, k, v, mask=None):
    q, k, v = (t.permute(0, 2, 1, 3) for t in (q, k, v))  # (b, n, h, d), as flash-like libraries want it
    s = torch.einsum("bqhd,bkhd->bhqk", q * q.shape[-1] ** -0.5, k)
    if mask is not None:
        mask = torch.broadcast_to(mask, s.shape)
        s = s.masked_fill(mask.logical_not(), float("-inf"))
        s = s.masked_fill(~mask.any(-1, keepdim=True), 0)
    w = s.softmax(-1)
    if mask is not None:
        w = w * mask.any(-1, keepdim=True)
    return torch.einsum("bhqk,bkhd->bqhd", w, v).permute(0, 2, 1, 3)


@right("attention")
def exponentials_times_mask(q, k, v, mask=None):
    s = (q @ k.mT) / math.sqrt(k.size(-1))
    keep = torch.ones_like(s, dtype=torch.bool) if mask is None else mask.expand_as(s)
    s = s.masked_fill(~keep, torch.finfo(s.dtype).min)
    e = torch.exp(s - s.amax(-1, keepdim=True)) * keep
    w = e / e.sum(-1, keepdim=True).clamp(min=torch.finfo(s.dtype).tiny)
    return w @ v, w


@right("attention")
def scale_shared_between_q_and_k(q, k, v):
    root = q.shape[-1] ** -0.25
    w = F.softmax((q * root) @ (k * root).transpose(-1, -2), dim=-1, dtype=torch.float32).to(q.dtype)
    return w @ v


@right("attention")
def in_double_precision(q, k, v):
    s = q.double() @ k.double().mT / q.shape[-1] ** 0.5
    w = s.softmax(-1)
    return (w @ v.double()).to(v.dtype), w.to(v.dtype)


@right("attention")
def broadcast_products(q, k, v):
    scores = (q.unsqueeze(-2) * k.unsqueeze(-3)).sum(-1) * (1 / math.sqrt(q.shape[-1]))
    weights = scores.softmax(-1)
    return (weights.unsqueeze(-1) * v.unsqueeze(-3)).sum(-2), weights


@right("attention")
def vmapped(q, k, v):
    def one(q_i, keys, values):
        return (keys @ q_i / q_i.shape[0] ** 0.5).softmax(0) @ values
    over_queries = torch.vmap(one, in_dims=(0, None, None))
    return torch.vmap(torch.vmap(over_queries))(q, k, v)


@right("attention", scale=1.0)
def unscaled_on_purpose(q, k, v):
    return (q @ k.mT).softmax(-1) @ v


@right("attention", "a fourth argument that is no mask")
def _extras(q, k, v, scale=None, dropout_p=0.0):
    scale = scale or 1 / math.sqrt(q.size(-1))
    w = F.dropout(torch.softmax(q @ k.mT * scale, -1), dropout_p)
    return w @ v, w


@right("attention", causal="lower-right")
def causal_and_mask(q, k, v, attn_mask=None):
    allowed = torch.arange(k.shape[-2]) <= torch.arange(q.shape[-2])[:, None] + k.shape[-2] - q.shape[-2]
    allowed = allowed if attn_mask is None else allowed & attn_mask
    s = (q @ k.mT * q.shape[-1] ** -0.5).masked_fill(~allowed, float("-inf"))
    return torch.nan_to_num(s.softmax(-1)) @ v


@right("attention", "module with dropout, in eval", build=lambda c: c(0.3).eval())
@right("attention", "module without dropout", build=lambda c: c())
class ScaledDotProduct(nn.Module):
    def __init__(self, dropout=0.0):
        super().__init__()
        self.dropout = nn.Dropout(dropout)

    def forward(self, queries, keys, values):
        scores = torch.matmul(queries, keys.transpose(-2, -1)) / math.sqrt(queries.shape[-1])
        self.attention_weights = F.softmax(scores, dim=-1)
        return torch.matmul(self.dropout(self.attention_weights), values)


@right("attention", "flash with its own backward", build=lambda c: c.apply)
@right("attention", "the same, wrapped", build=lambda c: lambda q, k, v: c.apply(q, k, v))
class Flash(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v):
        s = q @ k.mT * q.shape[-1] ** -0.5
        lse = s.logsumexp(-1, keepdim=True)
        out = (s - lse).exp() @ v
        ctx.save_for_backward(q, k, v, out, lse)
        return out

    @staticmethod
    def backward(ctx, grad):
        q, k, v, out, lse = ctx.saved_tensors
        scale = q.shape[-1] ** -0.5
        p = (q @ k.mT * scale - lse).exp()
        ds = p * (grad @ v.mT - (grad * out).sum(-1, keepdim=True)) * scale
        return ds @ k, ds.mT @ q, p.mT @ grad


def tile_by_tile(causal=False, tile=16):
    "What `check_flash` is given: with its log-sum-exp, its own backward, and no tile in the future."
    def build(c):
        return lambda q, k, v: c.apply(q, k, v, causal, tile)
    return build


@right("flash", "tile by tile", build=tile_by_tile())
@right("flash", "tile by tile, causal", build=tile_by_tile(causal=True), causal="lower-right")
@right("flash", "tile by tile, in large tiles", build=tile_by_tile(tile=1024))
@right("flash", "tile by tile, in tiles of three", build=tile_by_tile(tile=3))
class TileByTile(torch.autograd.Function):
    @staticmethod
    def scores(q, k, first, start, causal):
        s = q @ k.mT * q.shape[-1] ** -0.5
        if causal:
            rows, cols = first + torch.arange(s.shape[-2]), start + torch.arange(s.shape[-1])
            s = s.masked_fill(cols > rows[:, None], float("-inf"))
        return s

    @staticmethod
    def tiles(n_q, n_k, causal, tile):
        for i in range(0, n_q, tile):
            starts = range(0, n_k, tile)
            yield i, [j for j in starts if not causal or j <= i + tile - 1 + n_k - n_q]

    @staticmethod
    def forward(ctx, q, k, v, causal, tile):
        kind, (q, k, v) = q.dtype, (t.to(torch.promote_types(t.dtype, torch.float32)) for t in (q, k, v))
        n_q, n_k = q.shape[-2], k.shape[-2]
        out, lse = q.new_zeros(*q.shape[:-1], v.shape[-1]), q.new_full(q.shape[:-1], float("-inf"))
        for i, starts in TileByTile.tiles(n_q, n_k, causal, tile):
            qi = q[..., i:i + tile, :]
            top = q.new_full((*qi.shape[:-1], 1), -1e30)
            total, acc = torch.zeros_like(top), q.new_zeros(*qi.shape[:-1], v.shape[-1])
            for j in starts:
                s = TileByTile.scores(qi, k[..., j:j + tile, :], i + n_k - n_q, j, causal)
                new_top = torch.maximum(top, s.amax(-1, keepdim=True))
                p, fix = (s - new_top).exp(), (top - new_top).exp()
                total = total * fix + p.sum(-1, keepdim=True)
                acc = acc * fix + p @ v[..., j:j + tile, :]
                top = new_top
            out[..., i:i + tile, :] = acc / total.masked_fill(total == 0, 1)
            lse[..., i:i + tile] = (top + total.log()).squeeze(-1)
        ctx.save_for_backward(q, k, v, out, lse)
        ctx.how = causal, tile, kind
        return out.to(kind), lse

    @staticmethod
    def backward(ctx, grad, grad_lse):
        (q, k, v, out, lse), (causal, tile, kind) = ctx.saved_tensors, ctx.how
        grad, scale = grad.to(q.dtype), q.shape[-1] ** -0.5
        dq, dk, dv = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
        pull = (grad * out).sum(-1, keepdim=True) - grad_lse[..., None]
        norm = lse.masked_fill(lse == float("-inf"), float("inf"))[..., None]
        for i, starts in TileByTile.tiles(q.shape[-2], k.shape[-2], causal, tile):
            for j in starts:
                a, b = slice(i, i + tile), slice(j, j + tile)
                s = TileByTile.scores(q[..., a, :], k[..., b, :], i + k.shape[-2] - q.shape[-2], j, causal)
                p = (s - norm[..., a, :]).exp()
                ds = p * (grad[..., a, :] @ v[..., b, :].mT - pull[..., a, :]) * scale
                dq[..., a, :] += ds @ k[..., b, :]
                dk[..., b, :] += ds.mT @ q[..., a, :]
                dv[..., b, :] += p.mT @ grad[..., a, :]
        return dq.to(kind), dk.to(kind), dv.to(kind), None, None


right("flash", "package: flash_attention")("flash_attention.flash_attention")
right("flash", "package: flash_attention with its log-sum-exp, causal", build=lambda f: partial(f, causal=True, return_lse=True, block_size=64), causal="lower-right")("flash_attention.flash_attention")
right("flash", "PyTorch's fused kernel", mask=False)(lambda q, k, v: F.scaled_dot_product_attention(q, k, v))


@right("attention")
def mask_by_keyword_only(q, k, v, *, mask=None):
    s = torch.einsum("bhid,bhjd->bhij", q, k) / q.shape[-1] ** 0.5
    if mask is None:
        return s.softmax(-1) @ v
    w = s.masked_fill(~mask, torch.finfo(s.dtype).min).softmax(-1)
    return (w * mask.any(-1, keepdim=True)) @ v


@right("attention")
@right("attention", "a flag before the mask, fixed to causal", build=lambda f: partial(f, causal=True), causal="lower-right")
def a_flag_before_the_mask(q, k, v, causal=False, mask=None):
    allowed = torch.ones(q.size(-2), k.size(-2), dtype=torch.bool)
    allowed = allowed.tril(k.size(-2) - q.size(-2)) if causal else allowed
    allowed = allowed if mask is None else allowed & mask
    w = (q @ k.mT / math.sqrt(q.size(-1))).masked_fill(~allowed, float("-inf")).softmax(-1)
    w = torch.where(allowed, w, torch.zeros_like(w))
    return w @ v, w


@right("attention", "a method", build=lambda c: c(0.0).attend)
class Attender:
    def __init__(self, dropout):
        self.dropout = dropout

    def attend(self, q, k, v, mask=None):
        return F.scaled_dot_product_attention(q, k, v, mask, self.dropout)


@right("attention", build=lambda c: c(), causal=True)
class MaskKept:
    "The mask of the longest call so far is kept; shorter calls take a corner of it."

    def __init__(self):
        self.future = torch.ones(0, 0, dtype=torch.bool)

    def __call__(self, q, k, v):
        n = q.shape[-2]
        if n > len(self.future):
            self.future = torch.ones(n, n, dtype=torch.bool).triu(1)
        scores = (q @ k.mT / math.sqrt(q.shape[-1])).masked_fill(self.future[:n, :n], float("-inf"))
        return scores.softmax(-1) @ v


@right("attention")
def mask_turned_on_a_copy(q, k, v, mask=None):
    blocked = torch.zeros(q.shape[-2], k.shape[-2], dtype=torch.bool) if mask is None else mask.clone().logical_not_()
    scores = (q @ k.mT / math.sqrt(q.shape[-1])).masked_fill_(blocked, torch.finfo(q.dtype).min)
    return scores.float().softmax(-1).to(v.dtype).masked_fill(blocked, 0) @ v


AttentionOutput = namedtuple("AttentionOutput", "context weights")


@right("attention")
def named_tuple_back(q, k, v, mask=None):
    scores = q @ k.mT / q.size(-1) ** 0.5
    if mask is None:
        weights = scores.softmax(-1)
    else:
        lowest = torch.finfo(scores.dtype).min
        weights = torch.softmax(scores.masked_fill(~mask, lowest), -1).where(mask, 0)
    return AttentionOutput(weights @ v, weights)


# Through windows, beside sinks, in packed texts ------------------------------------------------------------------

@right("attention", window=4)
@right("attention", "through a window, last query at the last key", window=5, causal="lower-right")
@right("attention", "through a window of one", window=1)
def through_a_window(q, k, v, mask=None, window=None):
    n_q, n_k = q.shape[-2], k.shape[-2]
    back = torch.arange(n_k - n_q, n_k)[:, None] - torch.arange(n_k)
    allowed = (back >= 0) & (back < window)
    allowed = allowed if mask is None else allowed & mask
    return F.scaled_dot_product_attention(q, k, v, attn_mask=allowed)


for _name in [n for n, a in REGISTRY.entries.items() if a.target is through_a_window]:
    _window = REGISTRY.entries[_name].args["window"]
    REGISTRY.entries[_name] = replace(REGISTRY.entries[_name], build=lambda f, w=_window: partial(f, window=w))


@right("attention", window=3, causal="lower-right")
def band_of_a_bias(q, k, v):
    n_q, n_k = q.shape[-2], k.shape[-2]
    ones = torch.ones(n_q, n_k, dtype=torch.bool)
    hidden = ones.triu(n_k - n_q + 1) | ones.tril(n_k - n_q - 3)
    bias = torch.zeros(n_q, n_k, dtype=q.dtype).masked_fill(hidden, float("-inf"))
    weights = (q @ k.mT * q.shape[-1] ** -0.5 + bias).softmax(-1).masked_fill(hidden, 0)
    return weights.nan_to_num() @ v, weights


@right("attention", window=3)
def window_by_gathering(q, k, v):
    n, d = q.shape[-2:]
    k, v = (F.pad(t, (0, 0, 2, 0)).unfold(-2, 3, 1) for t in (k, v))  # (b, h, n, d, 3)
    scores = torch.einsum("bhnd,bhndw->bhnw", q, k) * d ** -0.5
    missing = torch.arange(n)[:, None] + torch.arange(3) < 2
    weights = scores.masked_fill(missing, float("-inf")).softmax(-1)
    return torch.einsum("bhnw,bhndw->bhnd", weights, v)


@right("attention", window=4, sinks=2)
@right("attention", "window and sinks, last query at the last key", window=4, sinks=2, causal="lower-right")
def window_and_sinks(q, k, v):
    n_q, n_k = q.shape[-2], k.shape[-2]
    back = torch.arange(n_k - n_q, n_k)[:, None] - torch.arange(n_k)
    near, kept = back < 4, torch.arange(n_k) < 2
    allowed = (back >= 0) & (near | kept)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=allowed)


@right("attention", documents=4, causal=True)
def packed(q, k, v):
    n = q.shape[-2]
    ids = torch.arange(n) // 4
    allowed = (ids[:, None] == ids) & torch.ones(n, n, dtype=torch.bool).tril()
    return F.scaled_dot_product_attention(q, k, v, attn_mask=allowed)


@right("attention", "packed, both ways", documents=3)
def packed_open(q, k, v):
    n_q, n_k = q.shape[-2], k.shape[-2]
    mine, ids = torch.arange(n_k - n_q, n_k) // 3, torch.arange(n_k) // 3
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mine[:, None] == ids)


@right("multi_head", "Band", build=lambda c: c(24, 3, 4), d_model=24, n_heads=3, window=4)
@right("self_attention", "Band, one head", build=lambda c: c(24, 1, 2), d_model=24, window=2)
@right("multi_head", "Band, as wide as the trial", build=lambda c: c(24, 3, 5), d_model=24, n_heads=3, window=5)
@right("self_attention", "Band, wide", build=lambda c: c(24, 3, 16), d_model=24, n_heads=3, window=16)
@right("multi_head", "Band, as wide as in gpt-oss", build=lambda c: c(24, 3, 128), d_model=24, n_heads=3, window=128)
class Band(nn.Module):
    "A layer that does not tell how far it looks; the caller says it."
    def __init__(self, d_model, n_heads, far):
        super().__init__()
        self.n_heads, self.far = n_heads, far
        self.qkv, self.proj = nn.Linear(d_model, 3 * d_model), nn.Linear(d_model, d_model)

    def forward(self, x):
        q, k, v = (t.unflatten(-1, (self.n_heads, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        back = torch.arange(x.shape[1])[:, None] - torch.arange(x.shape[1])
        allowed = (back >= 0) & (back < self.far)
        return self.proj(F.scaled_dot_product_attention(q, k, v, attn_mask=allowed).transpose(1, 2).flatten(2))


# The package's own ----------------------------------------------------------------------------------------------

def ours(check: str, name: str, target: str, build: Callable[[Any], Any] = lambda target: target, **args: Any) -> None:
    REGISTRY.add(Entry(name, check, target, build, args))


ours("attention", "package: scaled_dot_product_attention", "self_attention.scaled_dot_product_attention")
ours("attention", "package: scaled_dot_product_attention, causal", "self_attention.scaled_dot_product_attention",
     lambda f: lambda q, k, v: f(q, k, v, torch.ones(q.shape[-2], k.shape[-2]).tril(k.shape[-2] - q.shape[-2]).bool()),
     causal="lower-right")
ours("attention", "package: naive_attention", "naive_attention.naive_attention", scale=1.0)
ours("attention", "package: fused_attention", "multi_head_attention.fused_attention")
ours("attention", "package: fused_attention, causal", "multi_head_attention.fused_attention",
     lambda f: partial(f, causal=True), causal="lower-right")
ours("attention", "package: local_attention", "local_attention.local_attention", lambda f: partial(f, window=3), window=3)
ours("attention", "package: local_attention, last query at the last key", "local_attention.local_attention",
     lambda f: partial(f, window=6), window=6, causal="lower-right")
ours("self_attention", "package: SelfAttention", "self_attention.SelfAttention", lambda c: c(13, 7, 5), d_model=13)
ours("self_attention", "package: SelfAttention with bias", "self_attention.SelfAttention",
     lambda c: c(12, 8, bias=True), d_model=12)
ours("multi_head", "package: MultiHeadAttention", "multi_head_attention.MultiHeadAttention",
     lambda c: c(24, 3), d_model=24, n_heads=3)
ours("multi_head", "package: MultiHeadAttention, causal", "multi_head_attention.MultiHeadAttention",
     lambda c: c(24, 3, dropout=0.2), d_model=24, n_heads=3, causal=True, call=lambda m, x: m(x, causal=True))
ours("multi_head", "package: MultiHeadAttention, weights", "multi_head_attention.MultiHeadAttention",
     lambda c: c(20, 4, bias=False), d_model=20, n_heads=4, causal=True,
     call=lambda m, x: m(x, causal=True, need_weights=True))
ours("multi_head", "package: MultiHeadAttention, grouped", "multi_head_attention.MultiHeadAttention",
     lambda c: c(24, 6, n_kv_heads=2), d_model=24, n_heads=6, n_kv_heads=2)
ours("multi_head", "package: MultiHeadAttention, one key head", "multi_head_attention.MultiHeadAttention",
     lambda c: c(24, 6, n_kv_heads=1, d_head=5), d_model=24, n_heads=6, n_kv_heads=1)
ours("self_attention", "package: LatentAttention", "latent_attention.LatentAttention", lambda c: c(24, 3, d_latent=10, d_rope=4),
     d_model=24, n_heads=3, causal=True, positions=True, call=lambda m, x: m(x, causal=True))
ours("self_attention", "package: LatentAttention, absorbed", "latent_attention.LatentAttention",
     lambda c: c(24, 3, d_latent=10, d_rope=4, d_latent_q=7, dropout=0.1), d_model=24, n_heads=3, causal=True, positions=True,
     call=lambda m, x: m(x, causal=True, need_weights=True, absorbed=True))
ours("softmax", "package: softmax", "softmax.softmax")
ours("masked_softmax", "package: masked_softmax", "softmax.masked_softmax")


# Layers with one head -------------------------------------------------------------------------------------------

def _times(layer, factor):
    with torch.no_grad():
        for p in layer.parameters():
            p.mul_(factor)
    return layer


@right("self_attention", build=lambda c: c(14, 10), d_model=14)
@right("self_attention", "one head, causal", build=lambda c: c(14, 14, causal=True), d_model=14, causal=True)
@right("self_attention", "one head, dropout", build=lambda c: c(15, 9, dropout=0.5), d_model=15)
@right("self_attention", "one head, frozen", build=lambda c: c(14, 10).requires_grad_(False), d_model=14)
@right("self_attention", "one head with faint weights", build=lambda c: _times(c(14, 10), 0.01), d_model=14)
@right("self_attention", "one head with huge weights", build=lambda c: _times(c(64, 16), 12), d_model=64)
@right("self_attention", "one head in double precision", build=lambda c: c(14, 10).double(), d_model=14)
class OneHead(nn.Module):
    def __init__(self, d_model, d_k, causal=False, dropout=0.0):
        super().__init__()
        self.q_proj = nn.Linear(d_model, d_k)
        self.k_proj = nn.Linear(d_model, d_k)
        self.v_proj = nn.Linear(d_model, d_k)
        self.dropout = nn.Dropout(dropout)
        self.causal = causal

    def forward(self, x):
        q, k, v = self.q_proj(x), self.k_proj(x), self.v_proj(x)
        scores = q @ k.transpose(-2, -1) / math.sqrt(k.shape[-1])
        if self.causal:
            n = x.shape[1]
            future = torch.ones(n, n, dtype=torch.bool, device=x.device).triu(1)
            scores = scores.masked_fill(future, float("-inf"))
        weights = torch.softmax(scores, dim=-1)
        return self.dropout(weights) @ v


@right("self_attention", build=lambda c: c(11, 6), d_model=11)
class BareParameters(nn.Module):
    def __init__(self, d_in, d_out):
        super().__init__()
        self.W_query = nn.Parameter(torch.rand(d_in, d_out))
        self.W_key = nn.Parameter(torch.rand(d_in, d_out))
        self.W_value = nn.Parameter(torch.rand(d_in, d_out))

    def forward(self, x):
        keys, queries, values = x @ self.W_key, x @ self.W_query, x @ self.W_value
        attn_scores = queries @ keys.mT
        attn_weights = torch.softmax(attn_scores / keys.shape[-1] ** 0.5, dim=-1)
        return attn_weights @ values


@right("self_attention", build=lambda c: c(12, 8, 64, 0.1), d_model=12, causal=True)
@right("self_attention", "CausalWithABuffer for at most nine words", build=lambda c: c(12, 8, 9, 0.1), d_model=12, causal=True)
class CausalWithABuffer(nn.Module):
    def __init__(self, d_in, d_out, context_length, dropout, qkv_bias=False):
        super().__init__()
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.dropout = nn.Dropout(dropout)
        self.register_buffer("mask", torch.triu(torch.ones(context_length, context_length), diagonal=1))

    def forward(self, x):
        b, n, _ = x.shape
        keys, queries, values = self.W_key(x), self.W_query(x), self.W_value(x)
        scores = queries @ keys.transpose(1, 2)
        scores.masked_fill_(self.mask.bool()[:n, :n], -torch.inf)
        weights = self.dropout(torch.softmax(scores / keys.shape[-1] ** 0.5, dim=-1))
        return weights @ values


@right("self_attention", build=lambda c: c(32, 8), d_model=32, causal=True)
class TinyHead(nn.Module):
    def __init__(self, n_embd, head_size, block_size=48):
        super().__init__()
        self.key = nn.Linear(n_embd, head_size, bias=False)
        self.query = nn.Linear(n_embd, head_size, bias=False)
        self.value = nn.Linear(n_embd, head_size, bias=False)
        self.register_buffer("tril", torch.tril(torch.ones(block_size, block_size)))

    def forward(self, x):
        T = x.shape[1]
        wei = self.query(x) @ self.key(x).transpose(-2, -1) * self.key.out_features ** -0.5
        wei = F.softmax(wei.masked_fill(self.tril[:T, :T] == 0, float("-inf")), dim=-1)
        return wei @ self.value(x)


@right("self_attention", build=lambda c: c(), d_model=6, projects=False)
class NothingToLearn(nn.Module):
    def forward(self, x):
        return F.softmax(x @ x.transpose(1, 2) / x.shape[-1] ** 0.5, dim=-1) @ x


@right("self_attention", build=lambda c: c(10, 6), d_model=10)
class ProjectedLater(nn.Module):
    "Widths that are found at the first call."
    def __init__(self, d_in, d_k):
        super().__init__()
        self.to_q, self.to_k, self.to_v = (nn.LazyLinear(d_k, bias=False) for _ in range(3))

    def forward(self, x):
        out = F.scaled_dot_product_attention(self.to_q(x), self.to_k(x), self.to_v(x))
        return out, None


# Layers with many heads -----------------------------------------------------------------------------------------

@right("multi_head", build=lambda c: c(24, 3), d_model=24, n_heads=3)
@right("multi_head", "MultiHead, causal", build=lambda c: c(20, 4, causal=True), d_model=20, n_heads=4, causal=True)
@right("multi_head", "MultiHead, dropout", build=lambda c: c(24, 3, dropout=0.5), d_model=24, n_heads=3)
@right("self_attention", "MultiHead as self-attention", build=lambda c: c(21, 3, causal=True), d_model=21, causal=True, n_heads=3)
class MultiHead(nn.Module):
    def __init__(self, d_model, n_heads, causal=False, dropout=0.0):
        super().__init__()
        self.n_heads, self.d_head = n_heads, d_model // n_heads
        self.q_proj = nn.Linear(d_model, d_model)
        self.k_proj = nn.Linear(d_model, d_model)
        self.v_proj = nn.Linear(d_model, d_model)
        self.out_proj = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(dropout)
        self.causal = causal

    def forward(self, x):
        b, n, d_model = x.shape
        q = self.q_proj(x).view(b, n, self.n_heads, self.d_head).transpose(1, 2)
        k = self.k_proj(x).view(b, n, self.n_heads, self.d_head).transpose(1, 2)
        v = self.v_proj(x).view(b, n, self.n_heads, self.d_head).transpose(1, 2)
        scores = q @ k.transpose(-2, -1) / math.sqrt(self.d_head)
        if self.causal:
            future = torch.triu(torch.ones(n, n, dtype=torch.bool, device=x.device), diagonal=1)
            scores = scores.masked_fill(future, float("-inf"))
        weights = self.dropout(torch.softmax(scores, dim=-1))
        context = (weights @ v).transpose(1, 2).reshape(b, n, d_model)
        return self.out_proj(context)


@right("multi_head", build=lambda c: c(24, 3), d_model=24, n_heads=3)
class ReadsItsWeights(MultiHead):
    "Projections that are never called: their weights are read, two of them at once."
    def forward(self, x):
        q = x @ self.q_proj.weight.T + self.q_proj.bias
        k, v = F.linear(x, torch.cat([self.k_proj.weight, self.v_proj.weight]), torch.cat([self.k_proj.bias, self.v_proj.bias])).chunk(2, -1)
        q, k, v = (t.unflatten(-1, (self.n_heads, -1)).transpose(1, 2) for t in (q, k, v))
        context = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        return F.linear(context, self.out_proj.weight, self.out_proj.bias)


@right("multi_head", build=lambda c: c(24, 3), d_model=24, n_heads=3)
class SquareParameters(nn.Module):
    "Bare square matrices, used in either direction."
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Parameter(torch.randn(d_model, d_model) / d_model ** 0.5) for _ in range(4))

    def forward(self, x):
        q, k, v = (t.unflatten(-1, (self.n_heads, -1)).transpose(1, 2) for t in (x @ self.W_q, x @ self.W_k.T, x @ self.W_v.T))
        weights = (q @ k.mT / math.sqrt(q.shape[-1])).softmax(-1)
        return (weights @ v).transpose(1, 2).flatten(2) @ self.W_o.T


@right("multi_head", build=lambda c: c(24, 3), d_model=24, n_heads=3)
class BiasForQueriesAndValues(nn.Module):
    "A fused weight that is read together with biases of its own; keys have none, as in BEiT."
    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.qkv, self.proj = nn.Linear(dim, 3 * dim, bias=False), nn.Linear(dim, dim)
        self.q_bias, self.v_bias = nn.Parameter(torch.randn(dim)), nn.Parameter(torch.randn(dim))

    def forward(self, x):
        bias = torch.cat([self.q_bias, torch.zeros_like(self.v_bias), self.v_bias])
        q, k, v = F.linear(x, self.qkv.weight, bias).unflatten(-1, (3, self.num_heads, -1)).permute(2, 0, 3, 1, 4)
        return self.proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


right("multi_head", "MultiHead, compiled", build=lambda c: torch.compile(c(24, 3), backend="eager"), d_model=24, n_heads=3)(MultiHead)
right("self_attention", "MultiHead behind a norm, in a Sequential", d_model=24,
      build=lambda c: nn.Sequential(nn.LayerNorm(24), c(24, 4), nn.Dropout(0.1)))(MultiHead)


def _call(**kwargs):
    return lambda m, x: m(x, x, x, **kwargs)


def _causal_blocked(n):
    return torch.ones(n, n, dtype=torch.bool).triu(1)


def _length_first(m, x):
    out, _ = m(*[x.transpose(0, 1)] * 3, need_weights=False)
    return out.transpose(0, 1)


@right("multi_head", "nn.MultiheadAttention", build=lambda c: c(24, 3, batch_first=True), d_model=24, n_heads=3, call=_call())
@right("multi_head", "nn.MultiheadAttention, dropout, no weights", build=lambda c: c(24, 3, dropout=0.3, batch_first=True),
       d_model=24, n_heads=3, call=_call(need_weights=False))
@right("multi_head", "nn.MultiheadAttention, a weight per head", build=lambda c: c(24, 4, bias=False, batch_first=True),
       d_model=24, n_heads=4, call=_call(average_attn_weights=False))
@right("multi_head", "nn.MultiheadAttention, length first", build=lambda c: c(20, 5), d_model=20, n_heads=5, call=_length_first)
@right("multi_head", "nn.MultiheadAttention, causal by attn_mask", build=lambda c: c(24, 3, batch_first=True),
       d_model=24, n_heads=3, causal=True, call=lambda m, x: m(x, x, x, attn_mask=_causal_blocked(x.shape[1])))
@right("multi_head", "nn.MultiheadAttention, causal by is_causal", build=lambda c: c(24, 3, dropout=0.1, batch_first=True),
       d_model=24, n_heads=3, causal=True,
       call=lambda m, x: m(x, x, x, attn_mask=_causal_blocked(x.shape[1]), is_causal=True, need_weights=False)[0])
@right("self_attention", "nn.MultiheadAttention as self-attention", build=lambda c: c(18, 3, batch_first=True), d_model=18,
       call=_call())
@right("multi_head", "nn.MultiheadAttention, widths of their own for k and v", d_model=24, n_heads=3, call=_call(),
       build=lambda c: c(24, 3, kdim=24, vdim=24, batch_first=True))
@right("self_attention", "nn.MultiheadAttention, a learned key more", build=lambda c: c(18, 3, add_bias_kv=True, batch_first=True),
       d_model=18, call=_call(), prefix={"k": "bias_k", "v": "bias_v"})
class _Torch:
    pass


for _name in [n for n, a in REGISTRY.entries.items() if a.target is _Torch]:
    _old = REGISTRY.entries[_name]
    REGISTRY.entries[_name] = Entry(_name, _old.check, nn.MultiheadAttention, _old.build, _old.args)


@right("multi_head", build=lambda c: c(24, 3), d_model=24, n_heads=3)
@right("multi_head", "FusedQkv with bias", build=lambda c: c(30, 5, True), d_model=30, n_heads=5)
class FusedQkv(nn.Module):
    "One projection; all of q, then all of k, then all of v, as in vision transformers."
    def __init__(self, dim, num_heads=8, qkv_bias=False, attn_drop=0.0, proj_drop=0.0):
        super().__init__()
        self.num_heads = num_heads
        self.scale = (dim // num_heads) ** -0.5
        self.qkv = nn.Linear(dim, dim * 3, bias=qkv_bias)
        self.attn_drop = nn.Dropout(attn_drop)
        self.proj = nn.Linear(dim, dim)
        self.proj_drop = nn.Dropout(proj_drop)

    def forward(self, x):
        B, N, C = x.shape
        qkv = self.qkv(x).reshape(B, N, 3, self.num_heads, C // self.num_heads).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        attn = (q * self.scale) @ k.transpose(-2, -1)
        attn = self.attn_drop(attn.softmax(dim=-1))
        x = (attn @ v).transpose(1, 2).reshape(B, N, C)
        return self.proj_drop(self.proj(x))


@right("multi_head", build=lambda c: c(24, 4), d_model=24, n_heads=4, fused_order="heads")
class FusedPerHead(nn.Module):
    "One projection; each head's q, k and v beside each other."
    def __init__(self, embed_dim, num_heads):
        super().__init__()
        self.embed_dim, self.num_heads = embed_dim, num_heads
        self.qkv_proj = nn.Linear(embed_dim, 3 * embed_dim)
        self.o_proj = nn.Linear(embed_dim, embed_dim)
        nn.init.xavier_uniform_(self.qkv_proj.weight)

    def forward(self, x):
        b, n, _ = x.shape
        qkv = self.qkv_proj(x).reshape(b, n, self.num_heads, -1).permute(0, 2, 1, 3)
        q, k, v = qkv.chunk(3, dim=-1)
        attention = F.softmax(q @ k.transpose(-2, -1) / math.sqrt(q.size(-1)), dim=-1)
        values = (attention @ v).permute(0, 2, 1, 3).reshape(b, n, self.embed_dim)
        return self.o_proj(values), attention


@right("multi_head", build=lambda c: c(24, 3, 5), d_model=24, n_heads=3)
@right("multi_head", "ToQkv, causal", build=lambda c: c(20, 4, 7, causal=True), d_model=20, n_heads=4, causal=True)
class ToQkv(nn.Module):
    "Heads whose width is not d_model / h."
    def __init__(self, dim, heads=8, dim_head=64, causal=False):
        super().__init__()
        self.heads, self.scale, self.causal = heads, dim_head ** -0.5, causal
        self.to_qkv = nn.Linear(dim, dim_head * heads * 3, bias=False)
        self.to_out = nn.Sequential(nn.Linear(dim_head * heads, dim), nn.Dropout(0.1))

    def forward(self, x):
        q, k, v = (t.unflatten(-1, (self.heads, -1)).movedim(2, 1) for t in self.to_qkv(x).chunk(3, dim=-1))
        dots = torch.einsum("b h i d, b h j d -> b h i j", q, k) * self.scale
        if self.causal:
            i, j = dots.shape[-2:]
            dots = dots.masked_fill(torch.ones((i, j), dtype=torch.bool).triu(j - i + 1), -torch.finfo(dots.dtype).max)
        out = torch.einsum("b h i j, b h j d -> b h i d", dots.softmax(dim=-1), v)
        return self.to_out(out.movedim(1, 2).flatten(2))


@right("multi_head", build=lambda c: c(24, 3, 64), d_model=24, n_heads=3, causal=True)
@right("multi_head", "GptLike without the fused kernel", build=lambda c: c(24, 3, 64, flash=False), d_model=24, n_heads=3, causal=True)
@right("multi_head", "GptLike, dropout", build=lambda c: c(24, 3, 64, flash=False, dropout=0.2), d_model=24, n_heads=3, causal=True)
class GptLike(nn.Module):
    def __init__(self, n_embd, n_head, block_size, dropout=0.0, bias=True, flash=True):
        super().__init__()
        self.c_attn = nn.Linear(n_embd, 3 * n_embd, bias=bias)
        self.c_proj = nn.Linear(n_embd, n_embd, bias=bias)
        self.attn_dropout, self.resid_dropout = nn.Dropout(dropout), nn.Dropout(dropout)
        self.n_head, self.n_embd, self.dropout, self.flash = n_head, n_embd, dropout, flash
        self.register_buffer("bias", torch.ones(block_size, block_size).tril().view(1, 1, block_size, block_size))

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(self.n_embd, dim=2)
        k = k.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        q = q.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        v = v.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        if self.flash:
            y = F.scaled_dot_product_attention(q, k, v, dropout_p=self.dropout if self.training else 0, is_causal=True)
        else:
            att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
            att = att.masked_fill(self.bias[:, :, :T, :T] == 0, float("-inf"))
            att = self.attn_dropout(F.softmax(att, dim=-1))
            y = att @ v
        y = y.transpose(1, 2).contiguous().view(B, T, C)
        return self.resid_dropout(self.c_proj(y))


@right("multi_head", build=lambda c: c(18, 24, 64, 0.0, 4), d_model=18, n_heads=4, causal=True)
class WidthsOfItsOwn(nn.Module):
    "d_out is not d_in, and the mask is a buffer."
    def __init__(self, d_in, d_out, context_length, dropout, num_heads, qkv_bias=False):
        super().__init__()
        self.d_out, self.num_heads, self.head_dim = d_out, num_heads, d_out // num_heads
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.out_proj = nn.Linear(d_out, d_out)
        self.dropout = nn.Dropout(dropout)
        self.register_buffer("mask", torch.triu(torch.ones(context_length, context_length), diagonal=1), persistent=False)

    def forward(self, x):
        b, n, _ = x.shape
        keys, queries, values = (w(x).view(b, n, self.num_heads, self.head_dim).transpose(1, 2)
                                 for w in (self.W_key, self.W_query, self.W_value))
        scores = queries @ keys.transpose(2, 3)
        scores.masked_fill_(self.mask.bool()[:n, :n], -torch.inf)
        weights = self.dropout(torch.softmax(scores / self.head_dim ** 0.5, dim=-1))
        context = (weights @ values).transpose(1, 2)
        return self.out_proj(context.contiguous().view(b, n, self.d_out))


@right("multi_head", build=lambda c: c(24, 4, 0.25), d_model=24, n_heads=4, call=lambda m, x: m(x, x, x, None))
class HeadsInTheBatch(nn.Module):
    "Heads join the batch: (b·h, n, d)."
    def __init__(self, num_hiddens, num_heads, dropout, bias=False):
        super().__init__()
        self.num_heads = num_heads
        self.W_q = nn.Linear(num_hiddens, num_hiddens, bias=bias)
        self.W_k = nn.Linear(num_hiddens, num_hiddens, bias=bias)
        self.W_v = nn.Linear(num_hiddens, num_hiddens, bias=bias)
        self.W_o = nn.Linear(num_hiddens, num_hiddens, bias=bias)
        self.dropout = nn.Dropout(dropout)

    def forward(self, queries, keys, values, valid_lens=None):
        q, k, v = self.split(self.W_q(queries)), self.split(self.W_k(keys)), self.split(self.W_v(values))
        scores = torch.bmm(q, k.transpose(1, 2)) / math.sqrt(q.shape[-1])
        output = torch.bmm(self.dropout(F.softmax(scores, dim=-1)), v)
        output = output.reshape(-1, self.num_heads, *output.shape[1:]).permute(0, 2, 1, 3)
        return self.W_o(output.reshape(*output.shape[:2], -1))

    def split(self, x):
        x = x.reshape(*x.shape[:2], self.num_heads, -1).permute(0, 2, 1, 3)
        return x.reshape(-1, *x.shape[2:])


@right("multi_head", build=lambda c: c(3, 24), d_model=24, n_heads=3, call=lambda m, x: m(x, x, x))
@right("multi_head", "FourLinears, causal", build=lambda c: c(3, 24), d_model=24, n_heads=3, causal=True,
       call=lambda m, x: m(x, x, x, torch.ones(1, x.shape[1], x.shape[1]).tril().bool()))
class FourLinears(nn.Module):
    def __init__(self, h, d_model, dropout=0.1):
        super().__init__()
        self.d_k, self.h = d_model // h, h
        self.linears = nn.ModuleList(nn.Linear(d_model, d_model) for _ in range(4))
        self.attn, self.dropout = None, nn.Dropout(p=dropout)

    def forward(self, query, key, value, mask=None):
        b = query.size(0)
        query, key, value = [lin(x).view(b, -1, self.h, self.d_k).transpose(1, 2)
                             for lin, x in zip(self.linears, (query, key, value))]
        scores = torch.matmul(query, key.transpose(-2, -1)) / math.sqrt(self.d_k)
        if mask is not None:
            scores = scores.masked_fill(mask.unsqueeze(1) == 0, torch.finfo(scores.dtype).min)
        self.attn = scores.softmax(dim=-1)
        x = torch.matmul(self.dropout(self.attn), value)
        return self.linears[-1](x.transpose(1, 2).contiguous().view(b, -1, self.h * self.d_k))


@right("multi_head", build=lambda c: c(24, 3), d_model=24, n_heads=3)
@right("self_attention", "StackOfHeads, causal", build=lambda c: c(24, 3, True), d_model=24, n_heads=3, causal=True)
class StackOfHeads(nn.Module):
    def __init__(self, d_model, n_heads, causal=False):
        super().__init__()
        self.heads = nn.ModuleList(OneHead(d_model, d_model // n_heads, causal) for _ in range(n_heads))
        self.proj = nn.Linear(d_model, d_model)

    def forward(self, x):
        return self.proj(torch.cat([head(x) for head in self.heads], dim=-1))


@right("multi_head", build=lambda c: c(24, 4), d_model=24, n_heads=4)
class WeightPerHead(nn.Module):
    "A parameter with the heads as its first dimension, as in interpretability work."
    def __init__(self, d_model, n_heads):
        super().__init__()
        d_head = d_model // n_heads
        self.W_Q = nn.Parameter(torch.randn(n_heads, d_model, d_head) * d_model ** -0.5)
        self.W_K = nn.Parameter(torch.randn(n_heads, d_model, d_head) * d_model ** -0.5)
        self.W_V = nn.Parameter(torch.randn(n_heads, d_model, d_head) * d_model ** -0.5)
        self.W_O = nn.Parameter(torch.randn(n_heads, d_head, d_model) * d_model ** -0.5)
        self.b_O = nn.Parameter(torch.zeros(d_model))

    def forward(self, x):
        q, k, v = (torch.einsum("bnm,hmd->bnhd", x, w) for w in (self.W_Q, self.W_K, self.W_V))
        pattern = (torch.einsum("bqhd,bkhd->bhqk", q, k) / q.shape[-1] ** 0.5).softmax(-1)
        z = torch.einsum("bhqk,bkhd->bqhd", pattern, v)
        return torch.einsum("bqhd,hdm->bqm", z, self.W_O) + self.b_O


@right("multi_head", build=lambda c: c(24, 4, 2), d_model=24, n_heads=4)
@right("multi_head", "GroupedQueries, one for all", build=lambda c: c(24, 4, 1), d_model=24, n_heads=4)
@right("self_attention", "GroupedQueries, causal", build=lambda c: c(24, 4, 2, True), d_model=24, causal=True)
class GroupedQueries(nn.Module):
    def __init__(self, dim, n_heads, n_kv_heads, causal=False):
        super().__init__()
        self.n_heads, self.n_kv_heads, self.head_dim, self.causal = n_heads, n_kv_heads, dim // n_heads, causal
        self.wq = nn.Linear(dim, n_heads * self.head_dim, bias=False)
        self.wk = nn.Linear(dim, n_kv_heads * self.head_dim, bias=False)
        self.wv = nn.Linear(dim, n_kv_heads * self.head_dim, bias=False)
        self.wo = nn.Linear(n_heads * self.head_dim, dim, bias=False)

    def forward(self, x):
        b, n, _ = x.shape
        q = self.wq(x).view(b, n, self.n_heads, -1).transpose(1, 2)
        k = self.wk(x).view(b, n, self.n_kv_heads, -1).transpose(1, 2)
        v = self.wv(x).view(b, n, self.n_kv_heads, -1).transpose(1, 2)
        k = k.repeat_interleave(self.n_heads // self.n_kv_heads, dim=1)
        v = v.repeat_interleave(self.n_heads // self.n_kv_heads, dim=1)
        out = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return self.wo(out.transpose(1, 2).reshape(b, n, -1))


@right("multi_head", build=lambda c: c(24, 4, 1), d_model=24, n_heads=4, causal=True)
@right("multi_head", "FusedGroups, two for four", build=lambda c: c(24, 4, 2), d_model=24, n_heads=4, causal=True)
@right("self_attention", "FusedGroups, side by side", build=lambda c: c(24, 6, 3, together=True), d_model=24, causal=True)
class FusedGroups(nn.Module):
    "One projection for all queries and fewer keys and values; they stand behind the queries, or behind those of their group."
    def __init__(self, d_model, n_heads, n_groups, together=False):
        super().__init__()
        self.n_heads, self.n_groups, self.together = n_heads, n_groups, together
        self.d_head = d_model // n_heads
        self.qkv_proj = nn.Linear(d_model, (n_heads + 2 * n_groups) * self.d_head)
        self.o_proj = nn.Linear(d_model, d_model)

    def forward(self, x):
        b, n, c = x.shape
        rows = self.qkv_proj(x)
        if self.together:
            rows = rows.view(b, n, self.n_groups, -1, self.d_head)
            q, k, v = rows[:, :, :, :-2].flatten(2, 3), rows[:, :, :, -2], rows[:, :, :, -1]
        else:
            q, k, v = rows.unflatten(-1, (-1, self.d_head)).split((self.n_heads, self.n_groups, self.n_groups), dim=2)
        q, k, v = (t.transpose(1, 2) for t in (q, k, v))
        k, v = (t.repeat_interleave(self.n_heads // self.n_groups, dim=1) for t in (k, v))
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o_proj(out.transpose(1, 2).reshape(b, n, c))


@right("multi_head", build=lambda c: c(24, 6, 2), d_model=24, n_heads=6, causal=True, n_kv_heads=2)
@right("self_attention", "GroupsByIndex, three for twelve", build=lambda c: c(24, 12, 3), d_model=24, n_heads=12, causal=True)
class GroupsByIndex(nn.Module):
    "Each query head takes its keys by number."
    def __init__(self, dim, n_heads, n_kv_heads):
        super().__init__()
        self.n_heads, self.n_kv_heads, self.d_head = n_heads, n_kv_heads, dim // n_heads
        self.q_proj = nn.Linear(dim, n_heads * self.d_head)
        self.k_proj = nn.Linear(dim, n_kv_heads * self.d_head)
        self.v_proj = nn.Linear(dim, n_kv_heads * self.d_head)
        self.o_proj = nn.Linear(n_heads * self.d_head, dim)

    def forward(self, x):
        q, k, v = (p(x).unflatten(-1, (-1, self.d_head)).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj))
        heads = []
        for i in range(self.n_heads):
            j = i // (self.n_heads // self.n_kv_heads)
            heads.append(F.scaled_dot_product_attention(q[:, i], k[:, j], v[:, j], is_causal=True))
        return self.o_proj(torch.cat(heads, dim=-1))


@right("multi_head", build=lambda c: c(24, 4, 2), d_model=24, n_heads=4, causal=True, n_kv_heads=2)
class NormedGroups(nn.Module):
    "As Qwen 3 has it, without places: each head of queries and of keys is normed, with one set of factors for all."
    class Norm(nn.Module):
        def __init__(self, d, eps=1e-6):
            super().__init__()
            self.weight, self.eps = nn.Parameter(torch.rand(d) + 0.5), eps

        def forward(self, x):
            return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight

    def __init__(self, dim, n_heads, n_kv_heads):
        super().__init__()
        self.n_heads, self.n_kv_heads, self.d_head = n_heads, n_kv_heads, dim // n_heads
        self.q_proj = nn.Linear(dim, n_heads * self.d_head, bias=False)
        self.k_proj = nn.Linear(dim, n_kv_heads * self.d_head, bias=False)
        self.v_proj = nn.Linear(dim, n_kv_heads * self.d_head, bias=False)
        self.o_proj = nn.Linear(dim, dim, bias=False)
        self.q_norm, self.k_norm = self.Norm(self.d_head), self.Norm(self.d_head)

    def forward(self, x):
        b, n, _ = x.shape
        q = self.q_norm(self.q_proj(x).view(b, n, -1, self.d_head)).transpose(1, 2)
        k = self.k_norm(self.k_proj(x).view(b, n, -1, self.d_head)).transpose(1, 2)
        v = self.v_proj(x).view(b, n, -1, self.d_head).transpose(1, 2)
        k, v = (t.repeat_interleave(self.n_heads // self.n_kv_heads, dim=1) for t in (k, v))
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o_proj(out.transpose(1, 2).reshape(b, n, -1))


@right("multi_head", build=lambda c: c(24, 4, 2), d_model=24, n_heads=4, causal=True, n_kv_heads=2, norms={"q": "q_norm", "k": "k_norm"},
       strict=True)
@right("multi_head", "NormedRows, found by their names", build=lambda c: c(24, 4, 2), d_model=24, n_heads=4, causal=True, strict=True)
class NormedRows(NormedGroups):
    "As OLMo 2 has it, without places: one norm for all heads of queries together, and one for all heads of keys."
    def __init__(self, dim, n_heads, n_kv_heads):
        super().__init__(dim, n_heads, n_kv_heads)
        self.q_norm, self.k_norm = self.Norm(dim), self.Norm(n_kv_heads * self.d_head)

    def forward(self, x):
        rows = self.q_norm(self.q_proj(x)), self.k_norm(self.k_proj(x)), self.v_proj(x)
        q, k, v = (t.unflatten(-1, (-1, self.d_head)).transpose(1, 2) for t in rows)
        k, v = (t.repeat_interleave(self.n_heads // self.n_kv_heads, dim=1) for t in (k, v))
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o_proj(out.transpose(1, 2).flatten(2))


@right("multi_head", build=lambda c: c(24, 4, 2), d_model=24, n_heads=4, causal=True, n_kv_heads=2)
class CappedGroups(nn.Module):
    "As Gemma 2 has it, without places: scores are bent so that none reaches the cap."
    def __init__(self, dim, n_heads, n_kv_heads, softcap=1.0):
        super().__init__()
        self.n_heads, self.n_kv_heads, self.d_head, self.softcap = n_heads, n_kv_heads, dim // n_heads, softcap
        self.q_proj = nn.Linear(dim, n_heads * self.d_head)
        self.k_proj = nn.Linear(dim, n_kv_heads * self.d_head)
        self.v_proj = nn.Linear(dim, n_kv_heads * self.d_head)
        self.o_proj = nn.Linear(dim, dim)
        for p in self.q_proj.parameters():
            nn.init.normal_(p)

    def forward(self, x):
        q, k, v = (p(x).unflatten(-1, (-1, self.d_head)).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj))
        k, v = (t.repeat_interleave(self.n_heads // self.n_kv_heads, dim=1) for t in (k, v))
        scores = q @ k.mT * self.d_head ** -0.5
        scores = self.softcap * torch.tanh(scores / self.softcap)
        future = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1)
        weights = scores.masked_fill(future, float("-inf")).softmax(-1)
        return self.o_proj((weights @ v).transpose(1, 2).flatten(2))


@right("multi_head", build=lambda c: c(24, 4, 2), d_model=24, n_heads=4, causal=True, n_kv_heads=2, sinks="sinks")
class SunkGroups(nn.Module):
    "As gpt-oss has it, without places: one more score in each row, learned, which hands over nothing."
    def __init__(self, dim, n_heads, n_kv_heads):
        super().__init__()
        self.n_heads, self.n_kv_heads, self.d_head = n_heads, n_kv_heads, dim // n_heads
        self.q_proj = nn.Linear(dim, n_heads * self.d_head)
        self.k_proj = nn.Linear(dim, n_kv_heads * self.d_head)
        self.v_proj = nn.Linear(dim, n_kv_heads * self.d_head)
        self.o_proj = nn.Linear(dim, dim)
        self.sinks = nn.Parameter(torch.randn(n_heads))

    def forward(self, x):
        b, n, _ = x.shape
        q, k, v = (p(x).unflatten(-1, (-1, self.d_head)).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj))
        k, v = (t.repeat_interleave(self.n_heads // self.n_kv_heads, dim=1) for t in (k, v))
        scores = q @ k.mT * self.d_head ** -0.5
        scores = scores.masked_fill(torch.ones(n, n, dtype=torch.bool, device=x.device).triu(1), float("-inf"))
        sinks = self.sinks.view(1, -1, 1, 1).expand(b, -1, n, 1)
        weights = torch.cat([scores, sinks], dim=-1).softmax(-1)[..., :-1]
        return self.o_proj((weights @ v).transpose(1, 2).flatten(2))


@right("multi_head", build=lambda c: c(24, 3), d_model=24, n_heads=3)
class InTwoParts(nn.Module):
    "The attention and its output are modules of their own, as in BERT."
    class Inner(nn.Module):
        def __init__(self, d_model, n_heads):
            super().__init__()
            self.num_attention_heads, self.attention_head_size = n_heads, d_model // n_heads
            self.query, self.key, self.value = (nn.Linear(d_model, d_model) for _ in range(3))
            self.dropout = nn.Dropout(0.1)

        def forward(self, x):
            q, k, v = (p(x).view(*x.shape[:2], self.num_attention_heads, -1).permute(0, 2, 1, 3)
                       for p in (self.query, self.key, self.value))
            probs = nn.Softmax(dim=-1)(q @ k.transpose(-1, -2) / math.sqrt(self.attention_head_size))
            return (self.dropout(probs) @ v).permute(0, 2, 1, 3).flatten(2), probs

    def __init__(self, d_model, n_heads):
        super().__init__()
        self.self = InTwoParts.Inner(d_model, n_heads)
        self.output = nn.ModuleDict({"dense": nn.Linear(d_model, d_model)})

    def forward(self, x):
        context, probs = self.self(x)
        return self.output["dense"](context), probs


@right("multi_head", build=lambda c: c(24, 4), d_model=24, n_heads=4)
class HalfTheScaleEach(nn.Module):
    "As in speech models: keys without bias, the scale's root on both sides."
    def __init__(self, n_state, n_head):
        super().__init__()
        self.n_head = n_head
        self.query, self.value, self.out = (nn.Linear(n_state, n_state) for _ in range(3))
        self.key = nn.Linear(n_state, n_state, bias=False)

    def forward(self, x, xa=None):
        xa = x if xa is None else xa
        scale = (x.shape[-1] // self.n_head) ** -0.25
        q = self.query(x).unflatten(-1, (self.n_head, -1)).permute(0, 2, 1, 3) * scale
        k = self.key(xa).unflatten(-1, (self.n_head, -1)).permute(0, 2, 3, 1) * scale
        v = self.value(xa).unflatten(-1, (self.n_head, -1)).permute(0, 2, 1, 3)
        w = F.softmax((q @ k).float(), dim=-1).to(q.dtype)
        return self.out((w @ v).permute(0, 2, 1, 3).flatten(start_dim=2)), None


@right("multi_head", build=lambda c: c(20, 4), d_model=20, n_heads=4)
class NoOutputProjection(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.q_proj, self.k_proj, self.v_proj = (nn.Linear(d_model, d_model, bias=False) for _ in range(3))

    def forward(self, x):
        q, k, v = (p(x).unflatten(-1, (self.n_heads, -1)).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj))
        return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)


@right("multi_head", build=lambda c: c(24, 3), d_model=24, n_heads=3, causal=True)
class WeightsTheOtherWay(nn.Module):
    "Projections as x @ W + b with W of shape (in, out), fused, as in the first GPT-2."
    def __init__(self, nx, n_head):
        super().__init__()
        self.n_head = n_head
        self.weight = nn.Parameter(torch.randn(nx, 3 * nx) * nx ** -0.5)
        self.bias = nn.Parameter(torch.zeros(3 * nx))
        self.out_weight = nn.Parameter(torch.randn(nx, nx) * nx ** -0.5)

    def forward(self, x):
        q, k, v = torch.addmm(self.bias, x.reshape(-1, x.size(-1)), self.weight).view(*x.shape[:2], -1).split(x.size(-1), 2)
        q, k, v = (t.view(*t.shape[:2], self.n_head, -1).transpose(1, 2) for t in (q, k, v))
        w = q @ k.mT / v.size(-1) ** 0.5
        w = w + torch.full_like(w[0, 0], float("-inf")).triu(1)
        return (w.softmax(-1) @ v).transpose(1, 2).flatten(2) @ self.out_weight


# Blocks, positions and other liberties --------------------------------------------------------------------------

@right("self_attention", build=lambda c: c(24, 3), d_model=24, causal=True)
@right("self_attention", "Block, dropout, looks both ways", build=lambda c: c(24, 3, causal=False, dropout=0.1), d_model=24)
class Block(nn.Module):
    def __init__(self, d_model, n_heads, causal=True, dropout=0.0):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.attn = MultiHead(d_model, n_heads, causal, dropout)
        self.mlp = nn.Sequential(nn.Linear(d_model, 4 * d_model), nn.GELU(), nn.Linear(4 * d_model, d_model), nn.Dropout(dropout))

    def forward(self, x):
        x = x + self.attn(self.ln1(x))
        return x + self.mlp(self.ln2(x))


@right("self_attention", "nn.TransformerEncoderLayer", d_model=24,
       build=lambda c: nn.TransformerEncoderLayer(24, 3, 48, batch_first=True))
@right("self_attention", "nn.TransformerEncoderLayer, causal", d_model=24, causal=True,
       build=lambda c: nn.TransformerEncoderLayer(24, 3, 48, norm_first=True, batch_first=True),
       call=lambda m, x: m(x, src_mask=_causal_blocked(x.shape[1])))
@right("self_attention", "nn.TransformerEncoder, two layers", d_model=16,
       build=lambda c: nn.TransformerEncoder(
           nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True), 2, enable_nested_tensor=False))
class _Layers:
    pass


@right("self_attention", build=lambda c: c(24, 3), d_model=24)
class AttentionWithResidual(nn.Module):
    def __init__(self, d_model, n_heads, dropout=0.2):
        super().__init__()
        self.qkv = nn.Linear(d_model, 3 * d_model)
        self.out_proj = nn.Linear(d_model, d_model)
        self.norm, self.dropout, self.n_heads = nn.LayerNorm(d_model), nn.Dropout(dropout), n_heads

    def forward(self, x):
        q, k, v = (t.unflatten(-1, (self.n_heads, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        out = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(-2)
        return self.norm(x + self.dropout(self.out_proj(out)))


def rotate(x, base=10000.0):
    "Turn pairs (i, i + d/2) of every row by an angle that grows with its place."
    n, half = x.shape[-2], x.shape[-1] // 2
    angle = torch.arange(n)[:, None] * base ** (-torch.arange(half) / half)
    cos, sin = angle.cos().to(x), angle.sin().to(x)
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)


@right("self_attention", build=lambda c: c(32, 4, 2, True), d_model=32, causal=True, positions=True)
@right("self_attention", "LlamaLike, looks both ways", build=lambda c: c(32, 4, 4, False), d_model=32, positions=True)
@right("multi_head", "LlamaLike, alone", build=lambda c: c(32, 4, 2, False), d_model=32, n_heads=4, positions=True, strict=True)
class LlamaLike(GroupedQueries):
    def forward(self, x):
        b, n, _ = x.shape
        xq, xk, xv = (w(x).view(b, n, -1, self.head_dim).transpose(1, 2) for w in (self.wq, self.wk, self.wv))
        xq, xk = rotate(xq), rotate(xk)
        out = F.scaled_dot_product_attention(xq, xk, xv, is_causal=self.causal, enable_gqa=True)
        return self.wo(out.transpose(1, 2).contiguous().view(b, n, -1))


@right("multi_head", build=lambda c: c(24, 6, 2, True), d_model=24, n_heads=6, causal=True, strict=True)
@right("multi_head", "Turns, through a window", build=lambda c: c(24, 6, 2, True, 7), d_model=24, n_heads=6, window=7, strict=True)
class Turns(GroupedQueries):
    "Rotated by place, and no name and no argument says so."
    def __init__(self, dim, n_heads, n_kv_heads, causal=False, far=99):
        super().__init__(dim, n_heads, n_kv_heads, causal)
        self.far = far

    def forward(self, x):
        q, k, v = (w(x).unflatten(-1, (-1, self.head_dim)).transpose(1, 2) for w in (self.wq, self.wk, self.wv))
        q, k = rotate(q), rotate(k)
        times = self.n_heads // self.n_kv_heads
        k, v = k.repeat_interleave(times, dim=1), v.repeat_interleave(times, dim=1)
        back = torch.arange(x.shape[1])[:, None] - torch.arange(x.shape[1])
        seen = (back >= 0) & (back < self.far)
        return self.wo(F.scaled_dot_product_attention(q, k, v, attn_mask=seen).transpose(1, 2).flatten(2))


@right("self_attention", build=lambda c: c(24, 6, 2), d_model=24, n_heads=6, causal=True, positions=True, strict=True)
class TurnsByOthers(nn.Module):
    "Cosines and sines are made outside of the attention and handed to it; half of each head is rotated, as in Nemotron."
    class Attention(GroupedQueries):
        def forward(self, x, cos, sin):
            q, k, v = (w(x).unflatten(-1, (-1, self.head_dim)).transpose(1, 2) for w in (self.wq, self.wk, self.wv))
            q, k = self.turned(q, cos, sin), self.turned(k, cos, sin)
            k, v = (t.repeat_interleave(self.n_heads // self.n_kv_heads, dim=1) for t in (k, v))
            return self.wo(F.scaled_dot_product_attention(q, k, v, is_causal=self.causal).transpose(1, 2).flatten(2))

        def turned(self, x, cos, sin):
            size = cos.shape[-1]
            a, b, rest = x[..., :size], x[..., size:2 * size], x[..., 2 * size:]
            return torch.cat([a * cos - b * sin, a * sin + b * cos, rest], dim=-1)

    def __init__(self, dim, n_heads, n_kv_heads):
        super().__init__()
        self.attention, self.d_turned = self.Attention(dim, n_heads, n_kv_heads, True), dim // n_heads // 2

    def forward(self, x):
        angles = torch.arange(x.shape[1])[:, None] * 500.0 ** -(torch.arange(0, self.d_turned, 2) / self.d_turned)
        return self.attention(x, angles.cos().to(x), angles.sin().to(x))


@right("self_attention", build=lambda c: c(24, 3), d_model=24, n_heads=3, causal=True, positions=True)
class FarCosts(NoOutputProjection):
    "A penalty that grows with the root of the distance: nothing that a layer holds tells it, so the scores have no reference."
    def forward(self, x):
        n = x.shape[1]
        q, k, v = (p(x).unflatten(-1, (self.n_heads, -1)).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj))
        distance = torch.arange(n)[:, None] - torch.arange(n)
        bias = (-distance.abs().sqrt()).masked_fill(distance < 0, float("-inf")).to(x.dtype)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=bias).transpose(1, 2).flatten(2)


@right("self_attention", build=lambda c: c(24, 4), d_model=24, causal=True, positions=True)
class LinearBias(NoOutputProjection):
    "A penalty that grows with distance (ALiBi)."
    def forward(self, x):
        n = x.shape[1]
        q, k, v = (p(x).unflatten(-1, (self.n_heads, -1)).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj))
        slopes = 2.0 ** -torch.arange(1, self.n_heads + 1)
        distance = torch.arange(n)[:, None] - torch.arange(n)
        bias = (-slopes[:, None, None] * distance).masked_fill(distance < 0, float("-inf")).to(x.dtype)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=bias).transpose(1, 2).flatten(2)


@right("self_attention", build=lambda c: c(24, 3), d_model=24, positions=True)
class LearnedPlaces(nn.Module):
    def __init__(self, d_model, n_heads, longest=64):
        super().__init__()
        self.places = nn.Parameter(torch.randn(longest, d_model) * 0.1)
        self.attn = nn.MultiheadAttention(d_model, n_heads, batch_first=True)

    def forward(self, x):
        x = x + self.places[:x.shape[1]]
        return self.attn(x, x, x, need_weights=False)[0]


@right("self_attention", build=lambda c: c(24, 3, 4), d_model=24, causal=True, positions=True)
@right("self_attention", "SlidingWindow, not announced", build=lambda c: c(24, 3, 3), d_model=24, causal=True)
class SlidingWindow(nn.Module):
    def __init__(self, d_model, n_heads, window):
        super().__init__()
        self.n_heads, self.window = n_heads, window
        self.to_q, self.to_k, self.to_v, self.to_out = (nn.Linear(d_model, d_model, bias=False) for _ in range(4))

    def forward(self, x):
        q, k, v = (p(x).unflatten(-1, (self.n_heads, -1)).transpose(1, 2) for p in (self.to_q, self.to_k, self.to_v))
        distance = torch.arange(x.shape[1])[:, None] - torch.arange(x.shape[1])
        allowed = (distance >= 0) & (distance < self.window)
        return self.to_out(F.scaled_dot_product_attention(q, k, v, attn_mask=allowed).transpose(1, 2).flatten(2))


@right("self_attention", build=lambda c: c(24, 3), d_model=24)
@right("self_attention", "NormedQueries, causal", build=lambda c: c(24, 3, True), d_model=24, causal=True)
class NormedQueries(nn.Module):
    "Queries and keys pass a norm of their own (qk-norm)."
    def __init__(self, dim, num_heads, causal=False):
        super().__init__()
        self.num_heads, self.causal = num_heads, causal
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.q_norm, self.k_norm = nn.LayerNorm(dim // num_heads), nn.LayerNorm(dim // num_heads)

    def forward(self, x):
        b, n, c = x.shape
        q, k, v = self.qkv(x).reshape(b, n, 3, self.num_heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        out = F.scaled_dot_product_attention(self.q_norm(q), self.k_norm(k), v, is_causal=self.causal)
        return self.proj(out.transpose(1, 2).reshape(b, n, c))


@right("self_attention", build=lambda c: c(24, 3), d_model=24, causal=True)
class CappedScores(nn.Module):
    "Scores pass a tanh that keeps them small (soft-capping)."
    def __init__(self, d_model, n_heads, softcap=5.0):
        super().__init__()
        self.n_heads, self.softcap = n_heads, softcap
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = (nn.Linear(d_model, d_model, bias=False) for _ in range(4))

    def forward(self, x):
        n = x.shape[1]
        q, k, v = (p(x).unflatten(-1, (self.n_heads, -1)).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj))
        s = self.softcap * torch.tanh(q @ k.mT * q.shape[-1] ** -0.5 / self.softcap)
        s = s.masked_fill(_causal_blocked(n), float("-inf"))
        return self.o_proj((s.softmax(-1) @ v).transpose(1, 2).flatten(2))


class ByHand(nn.Module):
    "Queries from every word; each class below makes keys and values in its own way."
    def __init__(self, d_model=24, n_heads=3):
        super().__init__()
        self.n_heads = n_heads
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = (nn.Linear(d_model, d_model) for _ in range(4))

    def heads(self, x):
        return x.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)

    def attend(self, q, k, v):
        q, k, v = self.heads(q), self.heads(k), self.heads(v)
        return ((q @ k.mT * q.shape[-1] ** -0.5).softmax(-1) @ v).transpose(1, 2).flatten(2)


@right("self_attention", build=lambda c: c(), d_model=24, lengths=[16, 36], positions=True)
class PoolsKeys(ByHand):
    "Four patches of a picture make one key (PVT)."
    def __init__(self):
        super().__init__()
        self.sr, self.norm = nn.Conv2d(24, 24, 2, 2), nn.LayerNorm(24)

    def forward(self, x):
        b, n, d = x.shape
        side = int(n ** 0.5)
        fewer = self.norm(self.sr(x.mT.reshape(b, d, side, side)).flatten(2).mT)
        return self.o_proj(self.attend(self.q_proj(x), self.k_proj(fewer), self.v_proj(fewer)))


@right("self_attention", "JoinsKeys, declared", build=lambda c: c(), d_model=24, lengths=12, positions=True, shortened={"k": "proj_k", "v": "proj_v"})
@right("self_attention", build=lambda c: c(), d_model=24, lengths=12, positions=True)
class JoinsKeys(ByHand):
    "Four keys are sums of all twelve (Linformer)."
    def __init__(self):
        super().__init__()
        self.proj_k, self.proj_v = (nn.Parameter(torch.randn(12, 4) / 4) for _ in range(2))

    def forward(self, x):
        k, v = self.proj_k.T @ self.k_proj(x), self.proj_v.T @ self.v_proj(x)
        return self.o_proj(self.attend(self.q_proj(x), k, v))


@right("self_attention", "AsItIs, not declared", build=lambda c: c(), d_model=24, n_heads=3)
@right("self_attention", build=lambda c: c(), d_model=24, n_heads=3, projects=False)
class AsItIs(nn.Module):
    "What goes in is query, key and value."
    heads, attend = ByHand.heads, ByHand.attend

    def __init__(self):
        super().__init__()
        self.n_heads = 3

    def forward(self, x):
        return self.attend(x, x, x)


def _by_its_own_angles(x, places):
    a, b = x.chunk(2, -1)
    angles = places[:, None] * torch.linspace(0.1, 1.3, a.shape[-1]) ** 2
    return torch.cat([a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()], -1)


@right("self_attention", build=lambda c: c(), d_model=24, rotate=_by_its_own_angles)
class TurnsItsWay(ByHand):
    "Angles that are no powers of a base."
    def heads(self, x, turned=False):
        heads = super().heads(x)
        return _by_its_own_angles(heads, torch.arange(x.shape[1])) if turned else heads

    def forward(self, x):
        q, k, v = self.heads(self.q_proj(x), True), self.heads(self.k_proj(x), True), self.heads(self.v_proj(x))
        return self.o_proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


@right("self_attention", build=lambda c: c(), d_model=24)
@right("self_attention", "AddsInside, declared", build=lambda c: c(), d_model=24, residual="W_res", activation="relu")
class AddsInside(ByHand):
    "What comes out has another projection added, and goes through a ReLU (AutoInt)."
    def __init__(self):
        super().__init__()
        self.W_res, self.o_proj = nn.Linear(24, 24, bias=False), None

    def forward(self, x):
        return F.relu(self.attend(self.q_proj(x), self.k_proj(x), self.v_proj(x)) + self.W_res(x))


@right("self_attention", build=lambda c: c(24, 3), d_model=24, causal=True, positions=True, softcap=2.0,
       bias=lambda q, k, table: table[:, :q.shape[-2], :k.shape[-2]])
class CapsBeforeBias(CappedScores):
    "What is learned of each distance is added to scores that are already small."
    def __init__(self, d_model, n_heads):
        super().__init__(d_model, n_heads, 2.0)
        self.table = nn.Parameter(torch.randn(n_heads, 64, 64))

    def forward(self, x):
        n = x.shape[1]
        q, k, v = (p(x).unflatten(-1, (self.n_heads, -1)).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj))
        s = self.softcap * torch.tanh(q @ k.mT * q.shape[-1] ** -0.5 / self.softcap) + self.table[:, :n, :n]
        s = s.masked_fill(_causal_blocked(n), float("-inf"))
        return self.o_proj((s.softmax(-1) @ v).transpose(1, 2).flatten(2))


def heads_first(q, k, relative_attention_bias):
    "What is looked up for each distance stands first for the queries."
    return relative_attention_bias.permute(2, 0, 1)


@right("self_attention", build=lambda c: c(24, 3), d_model=24, positions=True)
@right("self_attention", "RelativeBias, declared", build=lambda c: c(24, 3), d_model=24, positions=True, scale=1.0,
       bias=heads_first, strict=True)
class RelativeBias(nn.Module):
    "A learned bias for every distance, and no scale, as in T5."
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.q, self.k, self.v, self.o = (nn.Linear(d_model, d_model, bias=False) for _ in range(4))
        self.relative_attention_bias = nn.Embedding(15, n_heads)

    def forward(self, x):
        place = torch.arange(x.shape[1])
        bias = self.relative_attention_bias((place[None] - place[:, None]).clamp(-7, 7) + 7).permute(2, 0, 1)
        q, k, v = (p(x).unflatten(-1, (self.n_heads, -1)).transpose(1, 2) for p in (self.q, self.k, self.v))
        return self.o(((q @ k.mT + bias).softmax(-1) @ v).transpose(1, 2).flatten(2))


@right("self_attention", build=lambda c: c(24, 3), d_model=24, norms={"q": "l2", "k": "l2"},
       scale=lambda logit_scale: logit_scale.clamp(max=math.log(100.0)).exp())
class CosineScores(nn.Module):
    "Cosines instead of dot products, with a learned scale for each head."
    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.qkv, self.proj = nn.Linear(dim, 3 * dim, bias=False), nn.Linear(dim, dim)
        self.logit_scale = nn.Parameter(torch.full((num_heads, 1, 1), math.log(10.0)))

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, self.num_heads, -1)).permute(2, 0, 3, 1, 4)
        attn = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1)
        attn = (attn * self.logit_scale.clamp(max=math.log(100.0)).exp()).softmax(dim=-1)
        return self.proj((attn @ v).transpose(1, 2).flatten(2))


# As layers are before and around training -----------------------------------------------------------------------

@right("multi_head", build=lambda c: c(24, 3), d_model=24, n_heads=3, causal=True)
@right("self_attention", "StartsAtZero, nothing said", build=lambda c: c(24, 3), d_model=24, causal=True)
class StartsAtZero(nn.Module):
    "The output projection is zero before training, so that a block begins as the identity."
    def __init__(self, width, n_head):
        super().__init__()
        self.n_head = n_head
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(width, width, bias=False) for _ in range(4))
        nn.init.zeros_(self.wo.weight)

    def forward(self, x):
        q, k, v = (w(x).unflatten(-1, (self.n_head, -1)).transpose(1, 2) for w in (self.wq, self.wk, self.wv))
        return self.wo(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))


class LowRank(nn.Linear):
    "A frozen projection and a trained difference of low rank, zero at first (LoRA)."
    def __init__(self, d_in, d_out, rank=3):
        super().__init__(d_in, d_out)
        self.weight.requires_grad_(False)
        self.down, self.up = nn.Parameter(torch.randn(rank, d_in) / d_in), nn.Parameter(torch.zeros(d_out, rank))

    def forward(self, x):
        return super().forward(x) + F.linear(F.linear(x, self.down), self.up)


@right("multi_head", build=lambda c: c(24, 4), d_model=24, n_heads=4)
class FineTuned(NoOutputProjection):
    def __init__(self, d_model, n_heads):
        super().__init__(d_model, n_heads)
        self.q_proj, self.v_proj = LowRank(d_model, d_model), LowRank(d_model, d_model)


@right("multi_head", build=lambda c: c(24, 3), d_model=24, n_heads=3, causal=True)
class BoundedProjections(StartsAtZero):
    "Spectral norm, new and old; every call in training moves it a little."
    def __init__(self, width, n_head):
        super().__init__(width, n_head)
        nn.init.normal_(self.wo.weight)
        for w in (self.wq, self.wk):
            nn.utils.parametrizations.spectral_norm(w)
        for w in (self.wv, self.wo):
            nn.utils.spectral_norm(w)


@right("multi_head", build=lambda c: torch.jit.script(c(24, 4)), d_model=24, n_heads=4)
class Scripted(nn.Module):
    def __init__(self, d_model: int, n_heads: int):
        super().__init__()
        self.n_heads = n_heads
        self.q, self.k, self.v, self.out = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, n, c = x.shape
        q = self.q(x).view(b, n, self.n_heads, -1).transpose(1, 2)
        k = self.k(x).view(b, n, self.n_heads, -1).transpose(1, 2)
        v = self.v(x).view(b, n, self.n_heads, -1).transpose(1, 2)
        scores = torch.matmul(q, k.transpose(-2, -1)) / (c // self.n_heads) ** 0.5
        return self.out(torch.matmul(scores.softmax(-1), v).transpose(1, 2).reshape(b, n, c))


@right("self_attention", build=lambda c: c(24, 3, batch_first=True), d_model=24, causal=True)
class OneArgument(nn.MultiheadAttention):
    "PyTorch's layer with a forward of its own."
    def forward(self, rows):
        return super().forward(rows, rows, rows, attn_mask=_causal_blocked(rows.shape[1]), need_weights=False)[0]


def with_a_zero(q, k, v):
    "Attend to a key and a value of zero, too."
    return F.scaled_dot_product_attention(q, F.pad(k, (0, 0, 0, 1)), F.pad(v, (0, 0, 0, 1)))


right("self_attention", "nn.MultiheadAttention, a zero as one more key", build=lambda _: nn.MultiheadAttention(
    24, 3, add_zero_attn=True, batch_first=True), d_model=24, attend=with_a_zero)(_Layers)


@right("multi_head", build=lambda c: c(24, 3, p=0.2), d_model=24, n_heads=3)
@right("multi_head", "a rate of dropout", build=lambda c: c(24, 3, rate=0.5, std=0.02), d_model=24, n_heads=3)
@right("multi_head", "dropout in a dict", build=lambda c: c(24, 3, cfg={"attn": 0.1, "base": 1e4}), d_model=24, n_heads=3)
class DropsUnderAnotherName(nn.Module):
    "The share of dropout is an attribute whose name does not hold the word, or stands in a config."
    def __init__(self, d_model, n_heads, **settings):
        super().__init__()
        self.n_heads = n_heads
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (nn.Linear(d_model, d_model) for _ in range(4))
        vars(self).update(settings)

    def share(self):
        return next(s["attn"] if n == "cfg" else s for n, s in vars(self).items() if n in ("p", "rate", "cfg"))

    def forward(self, x):
        q, k, v = (w(x).unflatten(-1, (self.n_heads, -1)).transpose(1, 2) for w in (self.q_proj, self.k_proj, self.v_proj))
        context = F.scaled_dot_product_attention(q, k, v, dropout_p=self.share() if self.training else 0.0)
        return self.out_proj(context.transpose(1, 2).flatten(2))


def _sentence_by_sentence(m, x):
    return torch.stack([m(sentence) for sentence in x])


@right("self_attention", build=lambda c: c(8), d_model=8, call=_sentence_by_sentence)
class OneSentence(nn.Module):
    "Knows no batch: (n, d_model) in, (n, d_model) out."
    def __init__(self, d_model):
        super().__init__()
        self.W_q, self.W_k, self.W_v = (nn.Linear(d_model, d_model, bias=False) for _ in range(3))

    def forward(self, x):
        q, k, v = self.W_q(x), self.W_k(x), self.W_v(x)
        return F.softmax(q @ k.T / k.size(1) ** 0.5, dim=1) @ v


@right("self_attention", build=lambda c: c(12, 3), d_model=12, n_heads=3, call=lambda m, x: m(x.mT).mT)
class Convolutions(nn.Module):
    "Projections as convolutions of width 1, over (b, d_model, n)."
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.q, self.k, self.v, self.proj = (nn.Conv1d(d_model, d_model, 1) for _ in range(4))

    def forward(self, x):
        q, k, v = (w(x).unflatten(1, (self.n_heads, -1)) for w in (self.q, self.k, self.v))
        weights = (q.mT @ k * (x.shape[1] // self.n_heads) ** -0.5).softmax(-1)
        return self.proj((weights @ v.mT).mT.flatten(1, 2))


@right("self_attention", build=lambda c: c(24, 4), d_model=24, causal=True, positions=True)
class FixedSlopes(nn.Module):
    "A penalty that grows with distance (ALiBi), its slopes in a buffer; keys stand first in the fused projection."
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.kqv, self.out = nn.Linear(d_model, 3 * d_model, bias=False), nn.Linear(d_model, d_model)
        self.register_buffer("m", 2.0 ** -torch.arange(1, n_heads + 1)[:, None, None])

    def forward(self, x):
        n = x.shape[1]
        k, q, v = (t.unflatten(-1, (self.n_heads, -1)).transpose(1, 2) for t in self.kqv(x).chunk(3, -1))
        distance = torch.arange(n)[:, None] - torch.arange(n)
        scores = q @ k.mT / q.shape[-1] ** 0.5 - (self.m * distance).to(x.dtype)
        weights = scores.masked_fill(distance < 0, float("-inf")).softmax(-1)
        return self.out((weights @ v).transpose(1, 2).flatten(2))


@right("self_attention", build=lambda c: c(24, 3), d_model=24, causal=True)
class GptBlock(nn.Module):
    "A block whose second half has a projection of its own."
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.ln_1, self.ln_2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.attn = nn.ModuleDict({n: nn.Linear(d_model, d_model) for n in ("query", "key", "value", "proj")})
        self.mlp = nn.ModuleDict({"c_fc": nn.Linear(d_model, 4 * d_model), "c_proj": nn.Linear(4 * d_model, d_model)})

    def forward(self, x):
        y, n = self.ln_1(x), x.shape[1]
        q, k, v = (self.attn[w](y).unflatten(-1, (self.n_heads, -1)).transpose(1, 2) for w in ("query", "key", "value"))
        scores = (q @ k.mT / k.shape[-1] ** 0.5).masked_fill(_causal_blocked(n), float("-inf"))
        context = scores.softmax(-1) @ v
        x = x + self.attn["proj"](context.transpose(1, 2).flatten(2))
        return x + self.mlp["c_proj"](F.gelu(self.mlp["c_fc"](self.ln_2(x))))


@right("self_attention", build=lambda c: c(10, 7), d_model=10)
class StackedMatrices(nn.Module):
    "Three matrices in one parameter."
    def __init__(self, d_in, d_k):
        super().__init__()
        self.W = nn.Parameter(torch.randn(3, d_in, d_k) / d_in**0.5)

    def forward(self, x):
        q, k, v = (x @ w for w in self.W)
        return (q @ k.mT / k.shape[-1] ** 0.5).softmax(-1) @ v


@right("self_attention", build=lambda c: c(9, 11), d_model=9, call=lambda m, x: m(x, x, x))
class Additive(nn.Module):
    "Scores from a small network, whose last layer is called w_v (Bahdanau)."
    def __init__(self, d_model, hidden):
        super().__init__()
        self.W_q, self.W_k = nn.Linear(d_model, hidden, bias=False), nn.Linear(d_model, hidden, bias=False)
        self.w_v = nn.Linear(hidden, 1, bias=False)

    def forward(self, queries, keys, values):
        pairs = torch.tanh(self.W_q(queries).unsqueeze(2) + self.W_k(keys).unsqueeze(1))
        return torch.bmm(F.softmax(self.w_v(pairs).squeeze(-1), dim=-1), values)


@right("self_attention", build=lambda c: c(24, 3), d_model=24)
class WeightsToo(StartsAtZero):
    "Returns the weights beside the output."
    def forward(self, x):
        q, k, v = (w(x).unflatten(-1, (self.n_head, -1)).transpose(1, 2) for w in (self.wq, self.wk, self.wv))
        weights = (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1)
        return self.wo((weights @ v).transpose(1, 2).flatten(2)), weights


@right("self_attention", build=lambda c: c(24, 3), d_model=24, causal=True)
class RawScoresToo(StartsAtZero):
    "Returns the scores before the softmax beside the output, for those who want to align words with sounds."
    def forward(self, x):
        q, k, v = (w(x).unflatten(-1, (self.n_head, -1)).transpose(1, 2) for w in (self.wq, self.wk, self.wv))
        scores = q @ k.mT / q.shape[-1] ** 0.5
        weights = scores.masked_fill(_causal_blocked(x.shape[1]), float("-inf")).softmax(-1)
        return self.wo((weights @ v).transpose(1, 2).flatten(2)), scores.detach()


@right("self_attention", build=lambda c: c(24, 3), d_model=24, positions=True)
class RelativeBiasToo(RelativeBias):
    "Returns its bias for the next layer."
    def forward(self, x):
        place = torch.arange(x.shape[1])
        bias = self.relative_attention_bias((place[None] - place[:, None]).clamp(-7, 7) + 7).permute(2, 0, 1)
        return super().forward(x), bias.expand(len(x), -1, -1, -1)


@right("multi_head", build=lambda c: c(24, 3, 10000.0), d_model=24, n_heads=3)
@right("self_attention", "RotatesNeighbours, another base", build=lambda c: c(24, 3, 30.0), d_model=24)
class RotatesNeighbours(nn.Module):
    "Rotary positions by complex numbers."
    def __init__(self, dim, n_heads, theta):
        super().__init__()
        self.n_heads = n_heads
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        width = dim // n_heads
        angles = torch.outer(torch.arange(64.0), theta ** -(torch.arange(0, width, 2) / width))
        self.register_buffer("rope", angles, persistent=False)

    def rotate(self, x):
        angles = self.rope[:x.shape[-2]].float()
        pairs = torch.view_as_complex(x.float().unflatten(-1, (-1, 2)).contiguous())
        return torch.view_as_real(pairs * torch.polar(torch.ones_like(angles), angles)).flatten(-2).to(x.dtype)

    def forward(self, x):
        q, k, v = (t.unflatten(-1, (self.n_heads, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        scores = self.rotate(q) @ self.rotate(k).mT * q.shape[-1] ** -0.5
        return self.proj((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


# What a design chooses, and the ten causes of false alarms --------------------------------------------------------

def heads_of_rows(x, h):
    return x.unflatten(-1, (h, -1)).transpose(1, 2)


@right("multi_head", build=lambda c: c(24, 4), d_model=24, n_heads=4)
class Attends(nn.Module):
    "Four projections and one line for everything that a design may choose, so that a subclass changes just that."
    def __init__(self, d_model, n_heads, n_kv_heads=None):
        super().__init__()
        self.n_heads, self.n_kv_heads = n_heads, n_kv_heads or n_heads
        width = d_model // n_heads * self.n_kv_heads
        self.q_proj, self.k_proj = nn.Linear(d_model, d_model), nn.Linear(d_model, width)
        self.v_proj, self.out_proj = nn.Linear(d_model, width), nn.Linear(d_model, d_model)

    def shared(self, t):
        return t.repeat_interleave(self.n_heads // self.n_kv_heads, 1)

    def rotated(self, q, k):
        return q, k

    def scale(self, d):
        return d ** -0.5

    def dropped(self, weights):
        return weights

    def forward(self, x):
        q, k = self.rotated(heads_of_rows(self.q_proj(x), self.n_heads), heads_of_rows(self.k_proj(x), self.n_kv_heads))
        k, v = self.shared(k), self.shared(heads_of_rows(self.v_proj(x), self.n_kv_heads))
        weights = self.dropped((q @ k.mT * self.scale(q.shape[-1])).softmax(-1))
        return self.out_proj((weights @ v).transpose(1, 2).flatten(2))


@right("multi_head", build=lambda c: c(24, 4), d_model=24, n_heads=4)
class ConfigWithDropout(Attends):
    "The model's config holds shares for other layers."
    def __init__(self, d_model, n_heads):
        super().__init__(d_model, n_heads)
        self.config = SimpleNamespace(hidden_dropout_prob=0.1, classifier_dropout=0.2, num_attention_heads=n_heads)


@right("multi_head", build=lambda c: c(24, 4), d_model=24, n_heads=4, scale=1.0)
class Unscaled(Attends):
    "T5 does not scale."
    def scale(self, d):
        return 1.0


@right("multi_head", build=lambda c: c(24, 4), d_model=24, n_heads=4, scale=lambda d: 1 / d)
class ByTheWidth(Attends):
    "µP divides by d."
    def scale(self, d):
        return 1 / d


@right("multi_head", build=lambda c: c(24, 4), d_model=24, n_heads=4, scale=0.7)
class ScaledByItsConfig(Attends):
    "Granite's config holds a multiplier."
    def __init__(self, d_model, n_heads):
        super().__init__(d_model, n_heads)
        self.config = SimpleNamespace(attention_multiplier=0.7)

    def scale(self, d):
        return self.config.attention_multiplier


@right("attention", scale=lambda d: 1 / d)
def by_the_width(q, k, v):
    return (q @ k.mT / q.shape[-1]).softmax(-1) @ v


@right("self_attention", build=lambda c: c(24, 4), d_model=24, n_heads=4, positions=True, scale=1.44 * 6 ** -0.5)
class Yarn(Attends):
    "Cosines and sines of a rotation carry YaRN's factor, so that scores carry its square."
    def __init__(self, d_model, n_heads, attention_scaling=1.2):
        super().__init__(d_model, n_heads)
        self.attention_scaling = attention_scaling

    def rotated(self, q, k):
        return self.attention_scaling * rotate(q), self.attention_scaling * rotate(k)


@right("multi_head", build=lambda c: c(24, 4), d_model=24, n_heads=4)
class TrainsSilently(Attends):
    def __init__(self, d_model, n_heads):
        super().__init__(d_model, n_heads)
        self.drop = nn.Dropout(0.2)

    def train(self, mode=True):
        super().train(mode)

    def eval(self):
        self.train(False)

    def dropped(self, weights):
        return self.drop(weights)


@right("multi_head", "Checkpointed, reentrant", build=lambda c: c(24, 4, True), d_model=24, n_heads=4)
@right("multi_head", build=lambda c: c(24, 4, False), d_model=24, n_heads=4)
class Checkpointed(Attends):
    "The reentrant kind has gradients by backward() alone."
    def __init__(self, d_model, n_heads, reentrant):
        super().__init__(d_model, n_heads)
        self.reentrant = reentrant

    def forward(self, x):
        return torch.utils.checkpoint.checkpoint(super().forward, x, use_reentrant=self.reentrant)


@right("multi_head", build=lambda c: c(24, 4), d_model=24, n_heads=4)
class ClosesOverItself(Attends):
    "Functions made in the constructor hold the module itself, which a copy still calls."
    def __init__(self, d_model, n_heads):
        super().__init__(d_model, n_heads)
        self.drop = nn.Dropout(0.2)
        plain = super().forward
        self.projected = lambda x: plain(x)
        self.passes = {"rows": lambda x: self.projected(x)}

    def dropped(self, weights):
        return self.drop(weights)

    def forward(self, x):
        return self.passes["rows"](x)


def wrapped_forward(layer):
    "As libraries do that move weights before each call."
    inner = layer.forward

    def forward(*args, **kwargs):
        return inner(*args, **kwargs)

    layer.forward = forward
    return layer


right("multi_head", "wrapped forward", build=lambda c: wrapped_forward(c(24, 4)), d_model=24, n_heads=4)(Attends)
right("multi_head", "wrapped forward, with dropout", build=lambda c: wrapped_forward(c(24, 4)), d_model=24, n_heads=4)(TrainsSilently)


@right("self_attention", build=lambda c: c(24, 4), d_model=24, n_heads=4, causal=True, skip=["memory.contiguous"])
class ViewsItsRows(Attends):
    "It takes contiguous rows alone, which is said in its documentation."
    def forward(self, x):
        b, n, d = x.shape
        rows = x.view(b * n, d)
        q, k, v = (heads_of_rows(p(rows).view(b, n, -1), 4) for p in (self.q_proj, self.k_proj, self.v_proj))
        return self.out_proj(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, n, -1))


@right("multi_head", build=lambda c: c(24, 4, 9), d_model=24, n_heads=4, lengths=9)
class OneLength(Attends):
    "A picture of so many patches, no more and no less."
    def __init__(self, d_model, n_heads, length):
        super().__init__(d_model, n_heads)
        self.length = length

    def forward(self, x):
        assert x.shape[1] == self.length, f"expected {self.length} patches, got {x.shape[1]}"
        return super().forward(x)


@right("multi_head", build=lambda c: c(24, 4), d_model=24, n_heads=4, lengths=range(4, 33, 4))
@right("multi_head", "MultiplesOfFour, up to 64", build=lambda c: c(24, 4), d_model=24, n_heads=4, lengths=range(4, 65, 4))
class MultiplesOfFour(Attends):
    "Queries in blocks of four; 24, its width, happens to be a multiple, too."
    def forward(self, x):
        q, k, v = (heads_of_rows(p(x), self.n_heads) for p in (self.q_proj, self.k_proj, self.v_proj))
        blocks = q.view(*q.shape[:2], x.shape[1] // 4, 4, -1)
        context = torch.cat([F.scaled_dot_product_attention(block, k, v) for block in blocks.unbind(2)], 2)
        return self.out_proj(context.transpose(1, 2).flatten(2))


class NoBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v):
        return F.scaled_dot_product_attention(q, k, v)

    @staticmethod
    def backward(ctx, grad):
        raise RuntimeError("the backward kernel is not implemented for 'CPU'")


@right("attention")
def no_backward_on_the_cpu(q, k, v):
    return NoBackward.apply(q, k, v)


@right("multi_head", build=lambda c: c(24, 4), d_model=24, n_heads=4)
class NoBackwardOnTheCpu(Attends):
    def forward(self, x):
        q, k, v = (heads_of_rows(p(x), self.n_heads) for p in (self.q_proj, self.k_proj, self.v_proj))
        return self.out_proj(NoBackward.apply(q, k, v).transpose(1, 2).flatten(2))


@right("multi_head", build=lambda c: c(24, 4, 2), d_model=24, n_heads=4, n_kv_heads=2, group_order="tiled")
class SharesInTurns(Attends):
    "Heads share keys as 0 1 0 1; trained so, it is right."
    def shared(self, t):
        return t.repeat(1, self.n_heads // self.n_kv_heads, 1, 1)


@right("self_attention", build=lambda c: c(24, 4), d_model=24, n_heads=4, dropout="scores")
class DropsScores(Attends):
    "Scores that are dropped become 0, as a kind of noise."
    def forward(self, x):
        q, k, v = (heads_of_rows(p(x), self.n_heads) for p in (self.q_proj, self.k_proj, self.v_proj))
        scores = F.dropout(q @ k.mT * q.shape[-1] ** -0.5, 0.3, self.training)
        return self.out_proj((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


@right("attention", empty="nan")
def empty_rows_are_nan(q, k, v, mask=None):
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    return (scores if mask is None else scores.masked_fill(~mask, -math.inf)).softmax(-1) @ v


@right("attention", empty="any")
def empty_rows_are_means(q, k, v, mask=None):
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    return (scores if mask is None else scores.masked_fill(~mask, torch.finfo(scores.dtype).min)).softmax(-1) @ v


@right("attention", layout="bnhd")
def words_before_heads(q, k, v, causal=False):
    weights = torch.einsum("bihd,bjhd->bhij", q, k).mul(q.shape[-1] ** -0.5).softmax(-1)
    return torch.einsum("bhij,bjhd->bihd", weights, v)


@right("multi_head", build=lambda c: c(24, 4), d_model=24, n_heads=4, layout="nbd")
class LengthFirst(Attends):
    def forward(self, x):
        return super().forward(x.transpose(0, 1)).transpose(0, 1)


@right("multi_head", build=lambda c: c(24, 4), d_model=24, n_heads=4, layout="bdhw")
class OverPictures(nn.Module):
    "1 × 1 convolutions over (b, d, height, width)."
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.to_qkv, self.to_out = nn.Conv2d(dim, 3 * dim, 1, bias=False), nn.Conv2d(dim, dim, 1)

    def forward(self, x):
        b, _, h, w = x.shape
        q, k, v = (t.flatten(2).unflatten(1, (self.heads, -1)).mT for t in self.to_qkv(x).chunk(3, dim=1))
        weights = (q @ k.mT * q.shape[-1] ** -0.5).softmax(dim=-1)
        return self.to_out((weights @ v).mT.reshape(b, -1, h, w))


@right("multi_head", build=lambda c: c(24, 4), d_model=24, n_heads=4, layout="bhwd")
class OverGrids(Attends):
    "Rows of a picture, (b, height, width, d)."
    def forward(self, x):
        return super().forward(x.flatten(1, 2)).view(x.shape)


@right("self_attention", build=lambda c: c(24, 4), d_model=24, n_heads=4, dtype="bfloat16")
@right("self_attention", "HalfAlone, float64", build=lambda c: c(24, 4, torch.float64), d_model=24, n_heads=4, dtype="float64")
class HalfAlone(Attends):
    "It runs in one type alone, as some kernels do."
    def __init__(self, d_model, n_heads, dtype=torch.bfloat16):
        super().__init__(d_model, n_heads)
        self.to(dtype)
        self.dtype = dtype

    def forward(self, x):
        assert x.dtype == self.q_proj.weight.dtype == self.dtype, f"expected {self.dtype}, got {x.dtype}"
        return super().forward(x)


@right("attention", dtype="float16")
def only_float16(q, k, v):
    assert q.dtype == torch.float16
    return F.scaled_dot_product_attention(q, k, v)


@right("multi_head", build=lambda c: c(24, 4), d_model=24, n_heads=4)
class TakesPadding(Attends):
    "True where there is no word, as in PyTorch."
    def forward(self, x, key_padding_mask=None):
        q, k, v = (heads_of_rows(p(x), self.n_heads) for p in (self.q_proj, self.k_proj, self.v_proj))
        scores = q @ k.mT * self.scale(q.shape[-1])
        if key_padding_mask is not None:
            hidden = key_padding_mask[:, None, None]
            scores = scores.masked_fill(hidden, torch.finfo(scores.dtype).min)
        return self.out_proj((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


@right("multi_head", build=lambda c: c(24, 4), d_model=24, n_heads=4)
class TakesAnExtendedMask(Attends):
    "Numbers to add, (b, 1, 1, n), as in BERT."
    def forward(self, hidden_states, attention_mask=None):
        q, k, v = (heads_of_rows(p(hidden_states), self.n_heads) for p in (self.q_proj, self.k_proj, self.v_proj))
        scores = q @ k.mT * self.scale(q.shape[-1])
        scores = scores if attention_mask is None else scores + attention_mask
        return self.out_proj((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


@right("self_attention", build=lambda c: c(24, 4), d_model=24, n_heads=4, causal=True, positions=False, mask=("pad", "blocked"), strict=True)
class DecodesWithPadding(Attends):
    "The future is hidden, and so is padding, which may be at the left."
    def forward(self, x, pad=None):
        q, k, v = (heads_of_rows(p(x), self.n_heads) for p in (self.q_proj, self.k_proj, self.v_proj))
        allowed = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril()
        if pad is not None:
            allowed = allowed & ~pad[:, None, None]
        scores = (q @ k.mT * self.scale(q.shape[-1])).masked_fill(~allowed, -math.inf)
        return self.out_proj((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


@right("self_attention", build=lambda c: c(24, 4), d_model=24, n_heads=4, causal=True, positions=False, mask=("attention_mask", "allowed"))
class DecodesUnderAMask(Attends):
    "It cannot be called without a mask, which may be None; the future is hidden by the fused kernel, or by the mask."
    def forward(self, x, attention_mask):
        q, k, v = (heads_of_rows(p(x), self.n_heads) for p in (self.q_proj, self.k_proj, self.v_proj))
        given = attention_mask is not None
        out = F.scaled_dot_product_attention(q, k, v, attention_mask if given else None, is_causal=not given)
        return self.out_proj(out.transpose(1, 2).flatten(2))


@right("multi_head", build=lambda c: c(24, 4), d_model=24, n_heads=4)
class TakesBoth(Attends):
    "A mask for pairs and one for words."
    def forward(self, x, mask=None, padding_mask=None):
        q, k, v = (heads_of_rows(p(x), self.n_heads) for p in (self.q_proj, self.k_proj, self.v_proj))
        allowed = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool) if mask is None else mask
        allowed = allowed if padding_mask is None else allowed & padding_mask[:, None, None]
        return self.out_proj(F.scaled_dot_product_attention(q, k, v, allowed).transpose(1, 2).flatten(2))


@right("multi_head", build=lambda c: c(24, 4), d_model=24, n_heads=4)
class TakesTexts(Attends):
    "The number of each word's text, in a row that several share."
    def forward(self, x, document_ids=None):
        q, k, v = (heads_of_rows(p(x), self.n_heads) for p in (self.q_proj, self.k_proj, self.v_proj))
        mask = None if document_ids is None else (document_ids[:, :, None] == document_ids[:, None, :])[:, None]
        return self.out_proj(F.scaled_dot_product_attention(q, k, v, mask).transpose(1, 2).flatten(2))


@right("multi_head", build=lambda c: c(24, 4), d_model=24, n_heads=4)
class TakesEnds(Attends):
    "One row for all texts, and where each ends, as kernels want it; text by text."
    def forward(self, x, cu_seqlens):
        q, k, v = (p(x).unflatten(-1, (self.n_heads, -1)).transpose(0, 1) for p in (self.q_proj, self.k_proj, self.v_proj))
        lengths = cu_seqlens.diff().tolist()
        mixed = [F.scaled_dot_product_attention(*one) for one in zip(*(t.split(lengths, 1) for t in (q, k, v)))]
        return self.out_proj(torch.cat(mixed, 1).transpose(0, 1).flatten(1))


def _audio(_):
    "The attention of Qwen 2.5 Omni's encoder of sounds: rows (n, d), and where each text ends."
    qwen = import_module("transformers.models.qwen2_5_omni")
    config = qwen.configuration_qwen2_5_omni.Qwen2_5OmniAudioEncoderConfig(d_model=24, encoder_attention_heads=4, attn_implementation="eager")
    return qwen.modeling_qwen2_5_omni.Qwen2_5OmniAudioAttention(config)


right("multi_head", "transformers: Qwen 2.5 Omni, texts end to end", build=_audio, d_model=24, n_heads=4, strict=True)(_Layers)


# Wrappers, hooks, parametrisations, quantised weights

class Wrap(nn.Module):
    "A projection in a module of its own."
    def __init__(self, linear):
        super().__init__()
        self.linear = linear

    def forward(self, x):
        return self.linear(x)


class Adapted(nn.Module):
    "A frozen projection, and a trained difference beside it."
    def __init__(self, linear, rank=2):
        super().__init__()
        self.base_layer = linear.requires_grad_(False)
        self.lora_A, self.lora_B = nn.Linear(linear.in_features, rank, bias=False), nn.Linear(rank, linear.out_features, bias=False)

    def forward(self, x):
        return self.base_layer(x) + self.lora_B(self.lora_A(x))


def each(layer, make, names=("q_proj", "k_proj", "v_proj", "out_proj")):
    for name in names:
        setattr(layer, name, make(getattr(layer, name)))
    return layer


def hooked(layer):
    "Hooks that watch, and one that changes nothing."
    layer.seen = []
    layer.q_proj.register_forward_hook(lambda m, args, out: layer.seen.append(tuple(out.shape)))
    layer.register_forward_pre_hook(lambda m, args: (args[0] * 1,))
    layer.register_full_backward_hook(lambda m, grads, outs: None)
    return layer


def doubled(layer):
    "A weight that is twice its parameter."
    class Twice(nn.Module):
        def forward(self, w):
            return 2 * w
    nn.utils.parametrize.register_parametrization(layer.q_proj, "weight", Twice())
    return layer


def quantised(layer):
    return torch.ao.quantization.quantize_dynamic(layer.eval(), {nn.Linear}, dtype=torch.qint8)


WRAPPED = {
    "projections in wrappers": lambda c: each(c(24, 4), Wrap),
    "with adapters": lambda c: each(c(24, 4), Adapted, ("q_proj", "v_proj")),
    "weight norm": lambda c: each(c(24, 4), nn.utils.parametrizations.weight_norm),
    "weight norm, the old one": lambda c: each(c(24, 4), nn.utils.weight_norm),
    "spectral norm": lambda c: each(c(24, 4), nn.utils.parametrizations.spectral_norm),
    "orthogonal": lambda c: each(c(24, 4), nn.utils.parametrizations.orthogonal, ("q_proj", "k_proj")),
    "a parametrisation": lambda c: doubled(c(24, 4)),
    "hooks": lambda c: hooked(c(24, 4)),
    "in a wrapper": lambda c: Wrap(c(24, 4)),
    "compiled": lambda c: torch.compile(c(24, 4), backend="eager"),
    "quantised": lambda c: quantised(c(24, 4)),
}
for _name, _build in WRAPPED.items():
    right("multi_head", f"Attends, {_name}", build=_build, d_model=24, n_heads=4)(Attends)


# Layouts that once were refused ----------------------------------------------------------------------------------

@right("self_attention", build=lambda c: c(20, 4), d_model=20)
class SequenceFirstInside(nn.Module):
    "(b, n, d) outside, (n, b, d) inside, heads beside sentences, one bare matrix."
    def __init__(self, embed_dim, num_heads):
        super().__init__()
        self.num_heads, self.head_dim = num_heads, embed_dim // num_heads
        self.in_proj_weight = nn.Parameter(torch.randn(3 * embed_dim, embed_dim) * 0.2)
        self.out_proj = nn.Linear(embed_dim, embed_dim)

    def forward(self, x):
        x = x.transpose(0, 1)
        n, b, width = x.shape
        rows = F.linear(x, self.in_proj_weight).chunk(3, dim=-1)
        q, k, v = (t.contiguous().view(n, b * self.num_heads, self.head_dim).transpose(0, 1) for t in rows)
        weights = torch.bmm(q * self.head_dim ** -0.5, k.transpose(1, 2)).softmax(-1)
        out = torch.bmm(weights, v).transpose(0, 1).contiguous().view(n, b, width)
        return self.out_proj(out).transpose(0, 1)


@right("self_attention", build=lambda c: c(20, 4), d_model=20, causal=True)
class GateInQueries(nn.Module):
    "Half of the query projection is a gate on the context."
    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.q_proj = nn.Linear(dim, 2 * dim)
        self.k_proj, self.v_proj, self.o_proj = (nn.Linear(dim, dim) for _ in range(3))

    def forward(self, x):
        q, gate = self.q_proj(x).chunk(2, dim=-1)
        parts = (t.unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for t in (q, self.k_proj(x), self.v_proj(x)))
        out = F.scaled_dot_product_attention(*parts, is_causal=True).transpose(1, 2).flatten(2)
        return self.o_proj(out * gate.sigmoid())


@right("self_attention", "talks between heads", build=lambda c: c(24, 3), d_model=24, causal=True)
class TalkingHeads(nn.Module):
    "Weights of the heads are mixed by a learned matrix, and places lower the scores."
    def __init__(self, dim, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.talk = nn.Parameter(torch.eye(n_heads) + 0.1 * torch.randn(n_heads, n_heads))

    def forward(self, x):
        q, k, v = (t.unflatten(-1, (self.n_heads, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        places = torch.arange(x.shape[1], dtype=x.dtype, device=x.device)
        scores = q @ k.mT * q.shape[-1] ** -0.5 - 0.3 * (places[:, None] - places).abs()
        future = torch.ones(scores.shape[-2:], dtype=torch.bool, device=x.device).triu(1)
        weights = torch.einsum("gh,bhij->bgij", self.talk, scores.masked_fill(future, float("-inf")).softmax(-1))
        return self.out((weights @ v).transpose(1, 2).flatten(2))


class Experts(nn.Module):
    "A feed-forward network of experts; a router named gate weighs them."
    def __init__(self, dim, inner):
        super().__init__()
        self.gate = nn.Linear(dim, 3, bias=False)
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(dim, inner), nn.SiLU(), nn.Linear(inner, dim)) for _ in range(3))

    def forward(self, x):
        shares = self.gate(x).softmax(-1)
        return sum(shares[..., i, None] * expert(x) for i, expert in enumerate(self.experts))


class SwiGLU(nn.Module):
    "The feed-forward network of Llama; its gate is none of the attention's."
    def __init__(self, dim, inner):
        super().__init__()
        self.gate_proj, self.up_proj, self.down_proj = nn.Linear(dim, inner), nn.Linear(dim, inner), nn.Linear(inner, dim)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


@right("self_attention", "LlamaBlock, as wide inside", build=lambda c: c(20, 4, 20), d_model=20, n_heads=4, causal=True, strict=True)
@right("self_attention", "LlamaBlock of experts", build=lambda c: c(20, 4, 36, Experts), d_model=20, n_heads=4, causal=True, strict=True)
@right("self_attention", build=lambda c: c(20, 4, 36), d_model=20, n_heads=4, causal=True, strict=True)
class LlamaBlock(nn.Module):
    "Attention, and a feed-forward network whose gate has the usual name; each behind a norm, beside a residual."
    class Attention(nn.Module):
        def __init__(self, dim, n_heads):
            super().__init__()
            self.n_heads = n_heads
            self.q_proj, self.k_proj, self.v_proj, self.o_proj = (nn.Linear(dim, dim, bias=False) for _ in range(4))

        def forward(self, x):
            parts = (p(x).unflatten(-1, (self.n_heads, -1)).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj))
            return self.o_proj(F.scaled_dot_product_attention(*parts, is_causal=True).transpose(1, 2).flatten(2))

    def __init__(self, dim, n_heads, inner, kind=SwiGLU):
        super().__init__()
        self.input_layernorm, self.post_attention_layernorm = nn.RMSNorm(dim), nn.RMSNorm(dim)
        self.self_attn, self.mlp = self.Attention(dim, n_heads), kind(dim, inner)

    def forward(self, x):
        x = x + self.self_attn(self.input_layernorm(x))
        return x + self.mlp(self.post_attention_layernorm(x))


@right("self_attention", "OneGatePerHead, not declared", build=lambda c: c(20, 4), d_model=20, n_heads=4, strict=True)
@right("self_attention", "OneGatePerHead, up to 2", build=lambda c: c(20, 4, 2), d_model=20, n_heads=4,
       gate=lambda head_gate: 2 * head_gate.sigmoid(), strict=True)
@right("self_attention", build=lambda c: c(20, 4), d_model=20, n_heads=4, gate="head_gate", strict=True)
class OneGatePerHead(nn.Module):
    "A learned number for each head gates its context."
    def __init__(self, dim, n_heads, most=1):
        super().__init__()
        self.n_heads, self.most = n_heads, most
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.head_gate = nn.Parameter(torch.randn(n_heads))

    def forward(self, x):
        q, k, v = (t.unflatten(-1, (self.n_heads, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        context = F.scaled_dot_product_attention(q, k, v)
        context = context * (self.most * self.head_gate.sigmoid())[:, None, None]
        return self.out(context.transpose(1, 2).flatten(2))


def by_distance(way):
    "Look up the distances from keys to queries, or the other way."
    def bias(q, k, table):
        place = torch.arange(q.shape[-2])
        return table[way * (place[:, None] - place) + len(table) // 2].permute(2, 0, 1)
    return bias


@right("self_attention", "TableByDistance, keys first", build=lambda c: c(20, 4, -1), d_model=20, n_heads=4, positions=True,
       lengths=[5, 8, 16], bias=by_distance(-1), strict=True)
@right("self_attention", build=lambda c: c(20, 4), d_model=20, n_heads=4, positions=True, lengths=[5, 8, 16], bias=by_distance(1), strict=True)
class TableByDistance(nn.Module):
    "Each head has a learned number for each distance, as in a Swin of one dimension."
    def __init__(self, dim, n_heads, way=1, longest=16):
        super().__init__()
        self.n_heads, self.way, self.longest = n_heads, way, longest
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.table = nn.Parameter(torch.randn(2 * longest - 1, n_heads))

    def forward(self, x):
        q, k, v = (t.unflatten(-1, (self.n_heads, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        place = torch.arange(x.shape[1])
        bias = self.table[self.way * (place[:, None] - place) + self.longest - 1].permute(2, 0, 1)
        scores = q @ k.mT * q.shape[-1] ** -0.5 + bias
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


@right("self_attention", build=lambda c: c(20, 4), d_model=20, n_heads=4, positions=True, strict=True,
       bias=lambda q, k, slopes: -slopes[:, None, None] * (torch.arange(q.shape[-2])[:, None] - torch.arange(k.shape[-2])).abs())
class LearnedSlopes(nn.Module):
    "A penalty by distance (ALiBi), whose slopes are learned."
    def __init__(self, dim, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.slopes = nn.Parameter(torch.rand(n_heads))

    def forward(self, x):
        q, k, v = (t.unflatten(-1, (self.n_heads, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        place = torch.arange(x.shape[1])
        penalty = self.slopes[:, None, None] * (place[:, None] - place).abs()
        scores = q @ k.mT * q.shape[-1] ** -0.5 - penalty
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


@right("self_attention", build=lambda c: c(20, 4), d_model=20, n_heads=4, strict=True)
class SettingsForOtherThings(nn.Module):
    "Attributes that are called as choices of attention often are, and mean something else."
    def __init__(self, dim, n_heads):
        super().__init__()
        self.n_heads, self.cap, self.stride, self.local_rank, self.window_size = n_heads, 5, 12, 3, 4
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x):
        q, k, v = (t.unflatten(-1, (self.n_heads, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        return self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


@right("self_attention", build=lambda c: c(20, 4), d_model=20)
class OwnCall(nn.Module):
    "A __call__ of its own, as in Flax."
    def __init__(self, dim, n_heads):
        super().__init__()
        self.attention = nn.MultiheadAttention(dim, n_heads, batch_first=True)

    def __call__(self, x):
        return self.attention(x, x, x)[0]


# Someone else's library -----------------------------------------------------------------------------------------

def library(module: str) -> Any:
    "A development dependency of this folder, imported when an entry needs it."
    try:
        return __import__(module)
    except ImportError as e:
        raise ImportError(f"{module} is needed here and nowhere else: pip install -r tests/checks/corpus/requirements.txt") from e


def _x_attention(**kwargs):
    return lambda _: library("x_transformers").Attention(dim=24, heads=3, dim_head=8, **kwargs)


class Published(nn.Module):
    "A layer of transformers, wrapped so that it takes rows alone: their places and a causal mask are made here."
    def __init__(self, layer, d_turned, half=False):
        super().__init__()
        self.self_attn, self.d_turned, self.half = layer, d_turned, half

    def forward(self, x):
        n, pairs = x.shape[1], torch.arange(0, self.d_turned, 2, device=x.device) / self.d_turned
        angles = torch.arange(n, device=x.device)[None, :, None] * 10000.0 ** -pairs
        angles = angles if self.half else torch.cat([angles, angles], dim=-1)
        future = torch.ones(n, n, dtype=torch.bool, device=x.device).triu(1)
        mask = torch.zeros(1, 1, n, n, dtype=x.dtype, device=x.device).masked_fill(future, float("-inf"))
        turns = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        out = self.self_attn(x, position_embeddings=turns, attention_mask=mask)
        return out if isinstance(out, torch.Tensor) else out[0]


def _published(name, d_turned=8, part="Attention", **settings):
    "Build a small layer of a published model, with random weights."
    def build(wrap):
        import importlib

        found = library("transformers")
        config = getattr(found, name + ("TextConfig" if name == "Gemma3" else "Config"))(
            **dict(hidden_size=24, num_attention_heads=6, num_key_value_heads=2, head_dim=8, num_hidden_layers=1,
                   attn_implementation="eager") | settings)
        model = config.model_type.removesuffix("_text")
        layer = getattr(importlib.import_module(f"transformers.models.{model}.modeling_{model}"), f"{name}{part}")(config, layer_idx=0)
        for p in layer.parameters():
            nn.init.normal_(p, std=0.3)
        return wrap(layer, d_turned, half=name == "GptOss")

    return build


for _name, _settings in {
    "Llama": {}, "Qwen3": {}, "Gemma2": dict(query_pre_attn_scalar=8, attn_logit_softcapping=2.0),
    "Gemma3": dict(query_pre_attn_scalar=8), "GptOss": dict(rope_parameters={"rope_type": "default", "rope_theta": 1e4}),
}.items():
    _declared = {"sinks": "self_attn.sinks"} if _name == "GptOss" else {}
    right("self_attention", f"transformers: {_name}", build=_published(_name, **_settings),
          d_model=24, n_heads=6, causal=True, positions=True, n_kv_heads=2, **_declared)(Published)


right("self_attention", "transformers: Llama, a whole block", build=_published("Llama", part="DecoderLayer"), d_model=24, n_heads=6,
      causal=True, positions=True, n_kv_heads=2, strict=True)(Published)
right("self_attention", "transformers: Nemotron", build=_published("Nemotron", 4), d_model=24, n_heads=6, causal=True, positions=True,
      n_kv_heads=2, strict=True)(Published)
right("self_attention", "transformers: Olmo3", build=_published("Olmo3"), d_model=24, n_heads=6, causal=True, positions=True,
      n_kv_heads=2, norms={"q": "self_attn.q_norm", "k": "self_attn.k_norm"}, strict=True)(Published)


class Slides(nn.Module):
    "Sliding attention of gpt-oss with a rotation of its own, made for longer contexts (YaRN) unless another is said."
    def __init__(self, window, rope=None):
        super().__init__()
        library("transformers")
        made = import_module("transformers.models.gpt_oss.modeling_gpt_oss")
        config = made.GptOssConfig(hidden_size=24, num_attention_heads=3, num_key_value_heads=1, head_dim=8, sliding_window=window,
                                   attn_implementation="eager", **({"rope_parameters": rope} if rope else {}))
        self.attention, self.rotation = made.GptOssAttention(config, layer_idx=0), made.GptOssRotaryEmbedding(config)
        for p in self.attention.parameters():
            nn.init.normal_(p, std=0.3)

    def forward(self, x):
        n = x.shape[1]
        back = torch.arange(n)[:, None] - torch.arange(n)
        mask = torch.zeros(n, n, dtype=x.dtype).masked_fill((back < 0) | (back >= self.attention.sliding_window), float("-inf"))
        places = torch.arange(n)[None]
        return self.attention(x, position_embeddings=self.rotation(x, places), attention_mask=mask[None, None])[0]


for _window, _rope in ((2, None), (4, None), (3, {"rope_type": "default", "rope_theta": 1e4}), (16, None)):
    right("multi_head", f"transformers: GptOss, a window of {_window}", build=lambda c, w=_window, r=_rope: c(w, r), d_model=24, n_heads=3,
          window=_window, sinks="attention.sinks", strict=True)(Slides)
right("self_attention", "transformers: DeepseekV3", d_model=24, n_heads=3, causal=True, positions=True,
      build=_published("DeepseekV3", 4, num_attention_heads=3, num_key_value_heads=3, kv_lora_rank=10, q_lora_rank=9,
                       qk_rope_head_dim=4, v_head_dim=8, qk_nope_head_dim=8))(Published)
right("self_attention", "transformers: GPTNeoX", d_model=24, n_heads=3, causal=True, positions=True, strict=True,
      build=_published("GPTNeoX", 2, num_attention_heads=3))(Published)  # it turns a quarter of each head


def _t5(has_table):
    "Build the first layer of a small T5, which has the table of biases, or one of those behind it."
    def build(_):
        config = library("transformers").T5Config(d_model=24, d_kv=8, num_heads=3, attn_implementation="eager")
        layer = import_module("transformers.models.t5.modeling_t5").T5Attention(config, has_relative_attention_bias=has_table)
        for p in layer.parameters():
            nn.init.normal_(p, std=0.3)
        return layer
    return build


right("self_attention", "transformers: T5", build=_t5(True), d_model=24, n_heads=3, scale=1.0, positions=True,
      bias=heads_first, strict=True)(_Layers)
right("self_attention", "transformers: T5, nothing said", build=_t5(True), d_model=24)(_Layers)
right("self_attention", "transformers: T5, without the table", build=_t5(False), d_model=24, scale=1.0, strict=True)(_Layers)
right("multi_head", "transformers: T5, several heads", build=_t5(True), d_model=24, n_heads=3, scale=1.0,
      bias=heads_first, strict=True)(_Layers)
# Under a mask, x-transformers 2.31.10 gives float32 for sixteen bits, and its Encoder in bfloat16 then raises: declared.
_WIDENED = {"skip": ["dtype.other"]}
right("multi_head", "x-transformers: Attention", build=_x_attention(), d_model=24, n_heads=3, **_WIDENED)(_Layers)
right("self_attention", "x-transformers: Attention, causal", build=_x_attention(causal=True), d_model=24, n_heads=3, causal=True)(_Layers)
right("self_attention", "x-transformers: Attention, flash", build=_x_attention(causal=True, flash=True), d_model=24, causal=True)(_Layers)
right("self_attention", "x-transformers: Attention, qk-norm", build=_x_attention(qk_norm=True), d_model=24, **_WIDENED)(_Layers)
right("self_attention", "x-transformers: Attention, one key head", build=_x_attention(kv_heads=1), d_model=24, **_WIDENED)(_Layers)
right("self_attention", "x-transformers: Attention, memory keys", build=_x_attention(num_mem_kv=2), d_model=24,
      prefix={"k": "mem_k", "v": "mem_v"}, **_WIDENED)(_Layers)
right("self_attention", "x-transformers: Encoder", d_model=24,
      build=lambda _: library("x_transformers").Encoder(dim=24, depth=1, heads=3, attn_dim_head=8))(_Layers)
right("self_attention", "x-transformers: Decoder, rotary", d_model=24, causal=True, positions=True,
      build=lambda _: library("x_transformers").Decoder(dim=24, depth=1, heads=3, attn_dim_head=64, rotary_pos_emb=True))(_Layers)


# Positions ------------------------------------------------------------------------------------------------------

@right("positions", interleaved=False)
@right("positions", "rotates halves, found out")
@right("positions", "rotates halves, wide, another base", d_head=64, base=500_000.0)
def rotates_halves(x, positions, base=10000.0):
    base = 500_000.0 if x.shape[-1] == 64 else base
    speeds = 1.0 / base ** (torch.arange(0, x.shape[-1], 2).float() / x.shape[-1])
    angles = positions.float()[:, None] * speeds
    cos, sin = torch.cat((angles, angles), dim=-1).cos(), torch.cat((angles, angles), dim=-1).sin()
    x1, x2 = x.chunk(2, dim=-1)
    rotated = torch.cat((-x2, x1), dim=-1)
    return (x * cos + rotated * sin).to(x.dtype)


@right("positions", interleaved=True)
@right("positions", "rotates by complex numbers, found out", d_head=12)
def rotates_by_complex_numbers(x, positions):
    angles = torch.outer(positions.float(), 10000.0 ** (-torch.arange(0, x.shape[-1], 2) / x.shape[-1]))
    pairs = torch.view_as_complex(x.float().unflatten(-1, (-1, 2)).contiguous())
    return torch.view_as_real(pairs * torch.polar(torch.ones_like(angles), angles)).flatten(-2).to(x.dtype)


@right("positions", interleaved=True)
def lays_neighbours_out_as_halves(x, positions):
    x = x.unflatten(-1, (-1, 2)).transpose(-1, -2).flatten(-2)
    return rotates_halves(x, positions)


@right("positions", d_head=12, d_rotary=4)
@right("positions", "rotates a part, as a config says", d_head=16, scaling={"partial_rotary_factor": 0.25})
def rotates_a_part(x, positions):
    return torch.cat([rotates_halves(x[..., :4], positions), x[..., 4:]], -1)


@right("positions", d_head=4)
def rotates_in_loops(x, positions):
    rows, half = [], x.shape[-1] // 2
    for i, place in enumerate(positions.tolist()):
        first, second = [], []
        for pair in range(half):
            angle = place / 10000 ** (2 * pair / x.shape[-1])
            a, b = x[..., i, pair], x[..., i, pair + half]
            first.append(a * math.cos(angle) - b * math.sin(angle))
            second.append(b * math.cos(angle) + a * math.sin(angle))
        rows.append(torch.stack(first + second, -1))
    return torch.stack(rows, -2)


def _llama_rotation(scaling):
    def build(_):
        library("transformers")
        llama = import_module("transformers.models.llama.modeling_llama")
        config = library("transformers").LlamaConfig(head_dim=16, max_position_embeddings=4096, rope_parameters={"rope_theta": 10000.0, **scaling})
        rotary = llama.LlamaRotaryEmbedding(config)
        return lambda x, positions: llama.apply_rotary_pos_emb(x, x, *rotary(x, positions[None]))[0]
    return build


_LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 64}
_YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}
right("positions", "transformers: Llama's rotation", build=_llama_rotation({"rope_type": "default"}), d_head=16, interleaved=False)(_Layers)
right("positions", "transformers: Llama 3's rotation", build=_llama_rotation(_LLAMA3), d_head=16, scaling=_LLAMA3)(_Layers)
right("positions", "transformers: YaRN", build=_llama_rotation(_YARN), d_head=16, scaling=_YARN)(_Layers)


@right("positions")
@right("positions", "ALiBi, 12 heads", n_heads=12)
def alibi(n_heads, n_q, n_k):
    def slopes(n):
        start = 2 ** (-(2 ** -(math.log2(n) - 3)))
        return [start ** (i + 1) for i in range(n)]
    near = 2 ** math.floor(math.log2(n_heads))
    all_slopes = torch.tensor(slopes(near) + slopes(2 * near)[0::2][:n_heads - near])
    distance = torch.arange(n_k)[None, :] - torch.arange(n_k - n_q, n_k)[:, None]
    return -all_slopes[:, None, None] * distance.abs()


@right("positions", "ALiBi as in Bloom", n_heads=4)
@right("positions", "ALiBi as in Bloom, any function of distances", n_heads=4, alibi=False)
def alibi_of_keys(n_heads, n_q, n_k):
    slopes = 2.0 ** (-8 * torch.arange(1, n_heads + 1) / n_heads)
    return (slopes[:, None, None] * torch.arange(n_k)).expand(n_heads, n_q, n_k)


@right("positions", causal=True)
def alibi_of_past_keys(n_heads, n_q, n_k):
    slopes = 2.0 ** (-8 * torch.arange(1, n_heads + 1) / n_heads)
    return slopes[:, None, None] * (torch.arange(n_k) - torch.arange(n_k - n_q, n_k)[:, None])


@right("positions", alibi=False, n_heads=3)
def learned_by_distance(n_heads, n_q, n_k):
    table = torch.randn(n_heads, 15, generator=torch.Generator().manual_seed(0))
    relative = torch.arange(n_k)[None, :] - torch.arange(n_k - n_q, n_k)[:, None]
    return table[:, relative.clamp(-7, 7) + 7]


def _t5_bias(_):
    config = library("transformers").T5Config(num_heads=3)
    layer = import_module("transformers.models.t5.modeling_t5").T5Attention(config, has_relative_attention_bias=True)
    return lambda n_heads, n_q, n_k: layer.compute_bias(n_q, n_k, past_seen_tokens=n_k - n_q)[0]


right("positions", "transformers: T5's bias", build=_t5_bias, n_heads=3, alibi=False)(_Layers)


# Softmax --------------------------------------------------------------------------------------------------------

@right("softmax")
def shifted_softmax(x, dim=-1):
    e = torch.exp(x - x.max(dim=dim, keepdim=True).values)
    return e / e.sum(dim=dim, keepdim=True)


@right("softmax")
def over_the_last(x):
    x = x - x.amax(-1, keepdim=True)
    exps = x.exp()
    return exps / exps.sum(-1, keepdim=True)


@right("softmax")
def by_logsumexp(x, dim=-1):
    return (x - torch.logsumexp(x, dim, keepdim=True)).exp()


@right("softmax")
def by_log_softmax(scores, axis=-1):
    return F.log_softmax(scores, dim=axis).exp()


@right("softmax")
def softmax_row_by_row(x):
    rows = []
    for row in x.reshape(-1, x.shape[-1]):
        top = max(row.tolist())
        parts = [(value - top).exp() for value in row]
        rows.append(torch.stack(parts) / sum(parts))
    return torch.stack(rows).reshape(x.shape)


@right("softmax")
def online_softmax(x):
    top, total = torch.full_like(x[..., :1], float("-inf")), torch.zeros_like(x[..., :1])
    for i in range(x.shape[-1]):
        new = torch.maximum(top, x[..., i:i + 1])
        total = total * (top - new).exp() + (x[..., i:i + 1] - new).exp()
        top = new
    return (x - top).exp() / total


@right("softmax")
def softmax_in_parts(x, part=4):
    top = torch.stack([each.amax(-1) for each in x.split(part, -1)], -1).amax(-1, keepdim=True)
    exps = [(each - top).exp() for each in x.split(part, -1)]
    return torch.cat(exps, -1) / sum(each.sum(-1, keepdim=True) for each in exps)


@right("softmax")
def from_a_running_sum(x):
    return torch.exp(x - x.logcumsumexp(-1)[..., -1:])


@right("softmax")
def wide_softmax(x, dim=-1, temperature=1.0):
    z = x.double() / temperature
    z = (z - z.amax(dim, keepdim=True)).exp()
    return (z / z.sum(dim, keepdim=True)).to(x.dtype)


@right("softmax")
def softmax_on_a_copy(x, dim=-1):
    x = x.clone()
    x -= x.detach().max(dim, keepdim=True)[0]
    return x.exp_().div(x.sum(dim, keepdim=True)) if not x.requires_grad else torch.softmax(x, dim)


@right("softmax", "softmax with its own backward", build=lambda c: c.apply)
class OwnBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = (x - x.amax(-1, keepdim=True)).exp()
        y = y / y.sum(-1, keepdim=True)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad):
        y, = ctx.saved_tensors
        return y * (grad - (y * grad).sum(-1, keepdim=True))


REGISTRY.add(Entry("torch.softmax", "softmax", torch.softmax, lambda f: f, {}))
REGISTRY.add(Entry("F.softmax", "softmax", F.softmax, lambda f: f, {}))
REGISTRY.add(Entry("nn.Softmax", "softmax", nn.Softmax, lambda c: c(dim=-1), {}))
REGISTRY.add(Entry("torch.softmax by partial", "softmax", torch.softmax, lambda f: partial(f, dim=-1), {}))
REGISTRY.add(Entry("torch.softmax by a lambda", "softmax", torch.softmax, lambda f: lambda x: f(x, -1), {}))


# Masked softmax -------------------------------------------------------------------------------------------------

@right("masked_softmax")
def fill_softmax_fill(scores, mask):
    weights = scores.masked_fill(~mask, float("-inf")).softmax(dim=-1)
    return weights.masked_fill(~mask, 0)


@right("masked_softmax")
def lowest_number_then_mask(scores, mask):
    filled = torch.where(mask, scores, torch.finfo(scores.dtype).min)
    return torch.softmax(filled, dim=-1) * mask


@right("masked_softmax")
def nan_to_num_after(scores, mask, dim=-1):
    scores = torch.where(mask, scores, float("-inf"))
    return torch.softmax(scores, dim).nan_to_num(0.0)


@right("masked_softmax")
def sums_of_the_allowed(scores, mask):
    mask = mask.expand_as(scores)
    low = torch.finfo(scores.dtype).min
    top = scores.masked_fill(~mask, low).max(-1, keepdim=True)[0].detach()
    e = (scores.masked_fill(~mask, low) - top).exp().masked_fill(~mask, 0)
    total = e.sum(-1, keepdim=True)
    return e / torch.where(total == 0, torch.ones_like(total), total)


@right("masked_softmax")
def only_the_allowed_numbers(scores, mask):
    mask = mask.broadcast_to(scores.shape)
    rows = []
    for row, keep in zip(scores.reshape(-1, scores.shape[-1]), mask.reshape(-1, mask.shape[-1])):
        out = torch.zeros_like(row)
        if keep.any():
            out = out.masked_scatter(keep, torch.softmax(row[keep], 0))
        rows.append(out)
    return torch.stack(rows).reshape(scores.shape)


@right("masked_softmax")
def masked_softmax_in_parts(scores, mask, part=16):
    filled = scores.masked_fill(~mask, torch.finfo(scores.dtype).min).split(part, -1)
    top = torch.stack([each.amax(-1) for each in filled], -1).amax(-1, keepdim=True)
    exps = torch.cat([(each - top).exp() for each in filled], -1) * mask
    return exps / exps.sum(-1, keepdim=True).clamp(min=1e-6)


@right("masked_softmax")
def masked_in_log_space(scores, mask):
    dead = ~mask.any(-1, keepdim=True)
    s = scores.masked_fill(~mask, float("-inf")).masked_fill(dead, 0)
    return (s - s.logsumexp(-1, keepdim=True)).exp().masked_fill(dead, 0)


@right("masked_softmax")
def bias_where_something_is_allowed(scores, mask):
    any_key = mask.any(dim=-1, keepdim=True)
    bias = torch.zeros_like(mask, dtype=scores.dtype).masked_fill(~mask & any_key, float("-inf"))
    return F.softmax(scores.float() + bias.float(), dim=-1).to(scores.dtype) * any_key


# Layers with a cache ----------------------------------------------------------------------------------------------

def _turned(x, places):
    "Pairs of numbers turned by their places, (b, n)."
    half = x.shape[-1] // 2
    angles = places[:, None, :, None] * 100.0 ** (-torch.arange(half) / half)
    a, b = x.chunk(2, dim=-1)
    return torch.cat([a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()], dim=-1)


@right("cache", build=lambda c: c(), d_model=24)
class Writes(nn.Module):
    "A buffer made once, sequences of different lengths, positions; all in one class, so that one can break it anywhere."

    class Cache:
        def __init__(self, b, h, n_max, d):
            self.k, self.v = torch.zeros(b, h, n_max, d), torch.zeros(b, h, n_max, d)
            self.lengths = torch.zeros(b, dtype=torch.long)

        def append(self, k, v):
            n = k.shape[2]
            if int(self.lengths.max()) + n > self.k.shape[2]:
                raise ValueError("the cache is full")
            for row, start in enumerate(self.lengths.tolist()):
                self.k[row, :, start:start + n] = k[row]
                self.v[row, :, start:start + n] = v[row]
            self.lengths = self.lengths + n
            longest = int(self.lengths.max())
            return self.k[:, :, :longest], self.v[:, :, :longest]

        def reset(self):
            self.lengths = torch.zeros_like(self.lengths)

        def truncate(self, n):
            self.lengths = self.lengths.clamp(max=n) if isinstance(n, int) else torch.minimum(self.lengths, n)

        def reorder(self, rows):
            self.k, self.v = self.k[rows], self.v[rows]
            self.lengths = self.lengths[rows]

    def __init__(self):
        super().__init__()
        self.qkv_proj, self.out_proj = nn.Linear(24, 72), nn.Linear(24, 24)

    def new_cache(self, b, n_max):
        return self.Cache(b, 3, n_max, 8)

    def forward(self, x, cache=None):
        b, n = x.shape[:2]
        q, k, v = (t.unflatten(-1, (3, 8)).transpose(1, 2) for t in self.qkv_proj(x).chunk(3, dim=-1))
        start = torch.zeros(b, dtype=torch.long) if cache is None else cache.lengths
        places = start[:, None] + torch.arange(n)
        q, k = _turned(q, places), _turned(k, places)
        if cache is not None:
            k, v = cache.append(k, v)
        allowed = torch.arange(k.shape[2]) <= places[..., None]
        out = F.scaled_dot_product_attention(q, k, v, allowed[:, None])
        return self.out_proj(out.transpose(1, 2).flatten(2))


@right("cache", build=lambda c: c(), d_model=24, grows=True)
class Grows(nn.Module):
    "Keys and values in a dictionary, laid behind each other; the keys are kept as they are, and turned when they are read."

    def __init__(self):
        super().__init__()
        self.qkv_proj, self.out_proj = nn.Linear(24, 72), nn.Linear(24, 24)

    def new_cache(self, b, n_max):
        return {}

    def forward(self, x, cache=None):
        q, k, v = (t.unflatten(-1, (3, 8)).transpose(1, 2) for t in self.qkv_proj(x).chunk(3, dim=-1))
        if cache:
            k, v = torch.cat([cache["k"], k], dim=2), torch.cat([cache["v"], v], dim=2)
        if cache is not None:
            cache.update(k=k, v=v)
        places = torch.arange(k.shape[2])[None]
        q, k = _turned(q, places[:, -q.shape[2]:]), _turned(k, places)
        allowed = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool).tril(k.shape[2] - q.shape[2])
        out = F.scaled_dot_product_attention(q, k, v, allowed)
        return self.out_proj(out.transpose(1, 2).flatten(2))


def _faint(layer):
    "Weights as small as those that models begin with."
    with torch.no_grad():
        for p in layer.parameters():
            p.mul_(0.1)
    return layer


def _cached(layer, cache):
    "A layer of the book with a cache of its own."
    layer.new_cache = lambda b, n_max: cache(b, layer.n_kv_heads, n_max, 4)
    return layer


def _book_layer(**how):
    from attention_nb import MultiHeadAttention
    return MultiHeadAttention(24, 6, d_head=4, **how)


REGISTRY.add(Entry("package: MultiHeadAttention, cached", "cache", "multi_head_attention.MultiHeadAttention", lambda c: c(24, 6), {"d_model": 24}))
REGISTRY.add(Entry("package: MultiHeadAttention, cached, grouped, small weights", "cache", "multi_head_attention.MultiHeadAttention",
                    lambda c: _faint(c(24, 6, n_kv_heads=2)), {"d_model": 24}))
REGISTRY.add(Entry("package: MultiHeadAttention, cached, with places", "cache", "positions.RotaryEmbedding",
                    lambda c: _book_layer(n_kv_heads=2, positions=c(4)), {"d_model": 24}))
REGISTRY.add(Entry("package: KVCache", "cache", "kv_cache.KVCache", lambda c: _cached(_book_layer(n_kv_heads=3), c), {"d_model": 24}))
REGISTRY.add(Entry("package: RollingCache, as long as the text", "cache", "kv_cache.RollingCache",
                    lambda c: _cached(_book_layer(), lambda b, h, n, d: c(b, h, max(n, 12), d)), {"d_model": 24, "grows": True}))
REGISTRY.add(Entry("package: PagedCache", "cache", "kv_cache.PagedCache", lambda c: _cached(_book_layer(), lambda b, h, n, d: (
    pages := c(b * n, 3, h, d)).batch([pages.new() for _ in range(b)])), {"d_model": 24, "grows": True}))


# Families: what a layer adds to attention on purpose ---------------------------------------------------------------

class InSteps(nn.Module):
    "Attention in steps; each class below has one of its own."
    def __init__(self, d_model=24, n_heads=3):
        super().__init__()
        self.h, self.d = n_heads, d_model // n_heads
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (nn.Linear(d_model, d_model) for _ in range(4))

    def heads(self, x):
        return [p(x).unflatten(-1, (self.h, self.d)).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj)]

    def merged(self, context):
        return context.transpose(1, 2).flatten(2)


FAMILY = {"build": lambda c: c(), "d_model": 24, "n_heads": 3}
UNIT = {"q": "l2", "k": "l2"}


@right("self_attention", **FAMILY, value_scale=0.707, strict=True)
class WeakerValues(InSteps):
    "A constant of the config makes all values smaller, as in MiMo."
    def forward(self, x):
        q, k, v = self.heads(x)
        v = 0.707 * v
        return self.out_proj(self.merged((q @ k.mT * self.d ** -0.5).softmax(-1) @ v))


@right("self_attention", **FAMILY, norms=UNIT, scale=5.0, strict=True)
class Cosines(InSteps):
    "Scores are cosines, times a constant."
    def forward(self, x):
        q, k, v = self.heads(x)
        q, k = F.normalize(q, dim=-1), F.normalize(k, dim=-1)
        return self.out_proj(self.merged((q @ k.mT * 5.0).softmax(-1) @ v))


@right("self_attention", "LearnsTemperature, not declared", **FAMILY, strict=True)
@right("self_attention", **FAMILY, norms=UNIT, scale=lambda logit_scale: logit_scale.clamp(max=4.6052).exp(), strict=True)
class LearnsTemperature(InSteps):
    "Cosines times the exponential of a number that each head learns, as in Swin V2."
    def __init__(self):
        super().__init__()
        self.logit_scale = nn.Parameter(torch.tensor([8.0, 10.0, 12.0]).log().view(3, 1, 1))

    def forward(self, x):
        q, k, v = self.heads(x)
        scores = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).mT * self.logit_scale.clamp(max=4.6052).exp()
        return self.out_proj(self.merged(scores.softmax(-1) @ v))


@right("self_attention", **FAMILY, scale=8.0, norms={"q": "q_scale", "k": "k_scale"}, strict=True)
class ScalesAfterNorms(InSteps):
    "Queries and keys of length 1, each times what it learns for every feature."
    def __init__(self):
        super().__init__()
        self.q_scale, self.k_scale = (nn.Parameter(torch.rand(8) + 0.5) for _ in range(2))

    def forward(self, x):
        q, k, v = self.heads(x)
        q, k = F.normalize(q, dim=-1) * self.q_scale, F.normalize(k, dim=-1) * self.k_scale
        return self.out_proj(self.merged((q @ k.mT * 8.0).softmax(-1) @ v))


@right("self_attention", "MixesHeads, not declared", **FAMILY, strict=True)
@right("self_attention", **FAMILY, mixing={"scores": "pre", "weights": "post"}, strict=True)
class MixesHeads(InSteps):
    "Heads are mixed before the softmax, and after it."
    def __init__(self):
        super().__init__()
        self.pre, self.post = nn.Parameter(torch.randn(3, 3)), nn.Linear(3, 3)

    def forward(self, x):
        q, k, v = self.heads(x)
        scores = torch.einsum("bhij,hg->bgij", q @ k.mT * self.d ** -0.5, self.pre)
        weights = self.post(scores.softmax(-1).movedim(1, -1)).movedim(-1, 1)
        return self.out_proj(self.merged(weights @ v))


@right("self_attention", **FAMILY, prefix={"kv": "mem_kv"}, strict=True)
class LearnsKeys(InSteps):
    "Two keys and values of each head are learned, and stand before those of the words."
    def __init__(self):
        super().__init__()
        self.mem_kv = nn.Parameter(torch.randn(2, 3, 2, 8))

    def forward(self, x):
        q, k, v = self.heads(x)
        k, v = (torch.cat([m.expand(len(x), -1, -1, -1), t], 2) for m, t in zip(self.mem_kv, (k, v)))
        return self.out_proj(self.merged((q @ k.mT * self.d ** -0.5).softmax(-1) @ v))


right("self_attention", "nn.MultiheadAttention, a learned key", d_model=24, n_heads=3, strict=True,
      prefix={"k": "bias_k", "v": "bias_v"}, build=lambda c: c(24, 3, add_bias_kv=True, batch_first=True))(nn.MultiheadAttention)


@right("self_attention", **FAMILY, norms={"out": "inner_norm"}, strict=True)
class NormsTheContext(InSteps):
    "The context is normalised before it is projected."
    def __init__(self):
        super().__init__()
        self.inner_norm = nn.LayerNorm(24)

    def forward(self, x):
        q, k, v = self.heads(x)
        return self.out_proj(self.inner_norm(self.merged((q @ k.mT * self.d ** -0.5).softmax(-1) @ v)))


@right("self_attention", **FAMILY, activation="hardswish", strict=True)
class BendsTheContext(InSteps):
    "A function is applied to the context before it is projected, as in LeViT."
    def forward(self, x):
        q, k, v = self.heads(x)
        return self.out_proj(F.hardswish(self.merged((q @ k.mT * self.d ** -0.5).softmax(-1) @ v)))


@right("self_attention", "IndexesATable, not declared", **FAMILY, positions=True, lengths=9, strict=True)
@right("self_attention", **FAMILY, positions=True, lengths=9, bias=lambda q, k, table, index: table[index].permute(2, 0, 1), strict=True)
class IndexesATable(InSteps):
    "A bias of each distance on a grid of 3 by 3, by a buffer of indices, as in Swin."
    def __init__(self):
        super().__init__()
        self.table, at = nn.Parameter(torch.randn(25, 3)), torch.arange(9)
        down, across = (t[:, None] - t + 2 for t in (at // 3, at % 3))
        self.register_buffer("index", 5 * down + across)

    def forward(self, x):
        q, k, v = self.heads(x)
        scores = q @ k.mT * self.d ** -0.5 + self.table[self.index].permute(2, 0, 1)
        return self.out_proj(self.merged(scores.softmax(-1) @ v))


def on_a_grid(q, k, table):
    "A table of the distances between rows and between columns, 4 in each row."
    at = torch.arange(q.shape[-2])
    down, across = (t[:, None] - t for t in (at // 4, at % 4))
    return table[:, down + 2, across + 3]


@right("self_attention", **FAMILY, positions=True, lengths=12, bias=on_a_grid, strict=True)
class LooksUpAGrid(InSteps):
    "The same of a grid of 3 by 4, without a buffer, as in SCUNet."
    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.randn(3, 5, 7))

    def forward(self, x):
        q, k, v = self.heads(x)
        at = torch.arange(12)
        down, across = (t[:, None] - t for t in (at // 4, at % 4))
        scores = q @ k.mT * self.d ** -0.5 + self.table[:, down + 2, across + 3]
        return self.out_proj(self.merged(scores.softmax(-1) @ v))


def far_is_low(h, n_q, n_k):
    "A penalty of the root of the distance."
    return -(torch.arange(n_q)[:, None] - torch.arange(n_k)).abs().sqrt().expand(h, -1, -1)


@right("self_attention", **FAMILY, positions=True, bias=far_is_low, strict=True)
class BiasOfAFunction(InSteps):
    "What is added to the scores is no part of the layer."
    def forward(self, x):
        q, k, v = self.heads(x)
        scores = q @ k.mT * self.d ** -0.5 + far_is_low(3, x.shape[1], x.shape[1])
        return self.out_proj(self.merged(scores.softmax(-1) @ v))


DISTANCES = torch.randn(127, 8, generator=torch.Generator().manual_seed(0))


def asks_for_distances(q, k):
    "What each query makes of the distance to each key, and what each key is worth at any distance."
    at = torch.arange(q.shape[-2])
    apart = DISTANCES[at[:, None] - at + 63]
    return (torch.einsum("bhid,ijd->bhij", q, apart) + (k @ DISTANCES[0])[..., None, :]) * 8 ** -0.5


@right("self_attention", **FAMILY, positions=True, bias=asks_for_distances, strict=True)
class AsksForDistances(InSteps):
    "Scores of words and of distances, as in Transformer-XL: what is added depends on queries and keys."
    def forward(self, x):
        q, k, v = self.heads(x)
        at = torch.arange(x.shape[1])
        far = torch.einsum("bhid,ijd->bhij", q, DISTANCES[at[:, None] - at + 63])
        scores = (q @ k.mT + far + (k @ DISTANCES[0])[..., None, :]) * self.d ** -0.5
        return self.out_proj(self.merged(scores.softmax(-1) @ v))


@right("self_attention", **FAMILY, positions=True, lengths=9, strict=True)
class RotatesOnAGrid(InSteps):
    "Half of the pairs are rotated by the row, half by the column, with complex numbers that it keeps."
    def __init__(self):
        super().__init__()
        at, speed = torch.arange(9), 100.0 ** -torch.tensor([0.0, 0.5])
        angles = torch.cat([(at // 3)[:, None] * speed, (at % 3)[:, None] * speed], -1)
        self.turns = torch.polar(torch.ones_like(angles), angles)

    def rotated(self, t):
        return torch.view_as_real(torch.view_as_complex(t.unflatten(-1, (-1, 2)).contiguous()) * self.turns).flatten(-2)

    def forward(self, x):
        q, k, v = self.heads(x)
        q, k = self.rotated(q), self.rotated(k)
        return self.out_proj(self.merged((q @ k.mT * self.d ** -0.5).softmax(-1) @ v))


@right("self_attention", **FAMILY, scale="sharpness", strict=True)
class LearnsScale(InSteps):
    "The factor of the scores is learned."
    def __init__(self):
        super().__init__()
        self.sharpness = nn.Parameter(torch.tensor(0.4))

    def forward(self, x):
        q, k, v = self.heads(x)
        return self.out_proj(self.merged((q @ k.mT * self.sharpness).softmax(-1) @ v))


@right("self_attention", **FAMILY, scale=lambda tau, d: tau.exp() / d ** 0.5, strict=True)
class LearnsTemperatures(InSteps):
    "Each head learns the logarithm of a factor beside 1/√d."
    def __init__(self):
        super().__init__()
        self.tau = nn.Parameter(torch.tensor([-0.7, 0.3, 0.9])[:, None, None])

    def forward(self, x):
        q, k, v = self.heads(x)
        return self.out_proj(self.merged((q @ k.mT * self.tau.exp() * self.d ** -0.5).softmax(-1) @ v))


@right("self_attention", **FAMILY, value_scale="gamma", strict=True)
class LearnsItsShare(InSteps):
    "A learned factor, small at first, multiplies the context (LayerScale)."
    def __init__(self):
        super().__init__()
        self.gamma = nn.Parameter(torch.tensor([0.2]))

    def forward(self, x):
        q, k, v = self.heads(x)
        return self.out_proj(self.gamma * self.merged((q @ k.mT * self.d ** -0.5).softmax(-1) @ v))


def by_features(q, k, v):
    "Weights between features, not between tokens."
    return v @ (q.mT @ k * 0.3).softmax(-1).mT


def by_two_softmaxes(q, k, v):
    "Weights that no softmax of scores makes."
    return q.softmax(-1) @ k.softmax(-2).mT @ v


@right("self_attention", **FAMILY, attend=by_features, strict=True)
class AttendsOverFeatures(InSteps):
    "Features attend to features, as in XCiT and Restormer."
    def forward(self, x):
        q, k, v = self.heads(x)
        return self.out_proj(self.merged(v @ (0.3 * q.mT @ k).softmax(-1).mT))


@right("self_attention", **FAMILY, attend=by_two_softmaxes, strict=True)
class SumsFirst(InSteps):
    "Linear attention: keys and values are summed before any query is read."
    def forward(self, x):
        q, k, v = self.heads(x)
        return self.out_proj(self.merged(q.softmax(-1) @ (k.softmax(-2).mT @ v)))


@right("self_attention", build=lambda c: c(), d_model=24, n_heads=3, strict=True)
class SharesOneMatrix(InSteps):
    "Queries and keys are made by two layers that are given one matrix."
    def __init__(self):
        super().__init__()
        self.k_proj.weight = self.q_proj.weight

    def forward(self, x):
        q, k, v = self.heads(x)
        return self.out_proj(self.merged((q @ k.mT * self.d ** -0.5).softmax(-1) @ v))


@right("multi_head", build=lambda c: c(), d_model=24, n_heads=3, layout="bdhw", strict=True)
class LiesAsImages(nn.Module):
    "Pixels of an image, whose channels are features; memory is read as images have it."
    def __init__(self):
        super().__init__()
        self.qkv, self.proj = nn.Conv2d(24, 72, 1), nn.Conv2d(24, 24, 1)

    def forward(self, x):
        x = x.view(-1).view(x.shape)
        q, k, v = self.qkv(x).flatten(2).unflatten(1, (3, 3, 8)).mT.unbind(1)
        return self.proj(((q @ k.mT * 8 ** -0.5).softmax(-1) @ v).mT.reshape(x.shape))


@right("cross_attention", build=lambda c: c(), d_model=24, d_memory=20, n_heads=3, fused_order="heads", strict=True)
class KeysBesideValues(nn.Module):
    "One projection of the memory gives the key and the value of each head beside each other."
    def __init__(self):
        super().__init__()
        self.q_proj, self.kv_proj, self.out_proj = nn.Linear(24, 24), nn.Linear(20, 48), nn.Linear(24, 24)

    def forward(self, x, memory):
        q = self.q_proj(x).unflatten(-1, (3, 8)).transpose(1, 2)
        k, v = self.kv_proj(memory).unflatten(-1, (3, 16)).transpose(1, 2).chunk(2, -1)
        return self.out_proj(((q @ k.mT * 8 ** -0.5).softmax(-1) @ v).transpose(1, 2).flatten(2))


@right("self_attention", build=lambda c: c(), d_model=24, n_heads=3, roles={"qkv": "to_qvk"}, strict=True)
class FusedUnderAnotherName(nn.Module):
    "The name of its projection tells another order than that in which it is used."
    def __init__(self):
        super().__init__()
        self.to_qvk, self.proj = nn.Linear(24, 72), nn.Linear(24, 24)

    def forward(self, x):
        q, k, v = self.to_qvk(x).unflatten(-1, (3, 3, 8)).movedim(2, 0).transpose(2, 3)
        return self.proj(((q @ k.mT * 8 ** -0.5).softmax(-1) @ v).transpose(1, 2).flatten(2))


LATENT = {"q": "query", "latent": "down", "kv": "up", "out": "proj"}


@right("self_attention", build=lambda c: c(), d_model=24, n_heads=3, positions=True, roles=LATENT, strict=True)
class LatentUnderOtherNames(nn.Module):
    "Keys and values are made of a narrow vector; beside it lies the one rotated key of all heads."
    def __init__(self):
        super().__init__()
        self.query, self.down, self.proj = nn.Linear(24, 30), nn.Linear(24, 14), nn.Linear(15, 24)
        self.norm, self.up = nn.RMSNorm(10), nn.Linear(10, 33)
        angles = torch.arange(64)[:, None] * torch.tensor([1.0, 0.01])
        self.turns = torch.polar(torch.ones_like(angles), angles)

    def rotated(self, t):
        pairs = torch.view_as_complex(t.float().unflatten(-1, (-1, 2)).contiguous())
        return torch.view_as_real(pairs * self.turns[:t.shape[-2]]).flatten(-2).to(t)

    def forward(self, x):
        q, (latent, turned) = self.query(x).unflatten(-1, (3, 10)).transpose(1, 2), self.down(x).split((10, 4), -1)
        k, v = self.up(self.norm(latent)).unflatten(-1, (3, 11)).transpose(1, 2).split((6, 5), -1)
        q = torch.cat([q[..., :6], self.rotated(q[..., 6:])], -1)
        k = torch.cat([k, self.rotated(turned[:, None]).expand(-1, 3, -1, -1)], -1)
        return self.proj(((q @ k.mT * 10 ** -0.5).softmax(-1) @ v).transpose(1, 2).flatten(2))


@right("self_attention", build=lambda c: c(), d_model=24, n_heads=3, positions=True, roles=LATENT, strict=True)
class LatentRotatedFirst(LatentUnderOtherNames):
    "What is rotated comes first, and values come before keys."
    def forward(self, x):
        q, (turned, latent) = self.query(x).unflatten(-1, (3, 10)).transpose(1, 2), self.down(x).split((4, 10), -1)
        v, k = self.up(self.norm(latent)).unflatten(-1, (3, 11)).transpose(1, 2).split((5, 6), -1)
        q = torch.cat([self.rotated(q[..., :4]), q[..., 4:]], -1)
        k = torch.cat([self.rotated(turned[:, None]).expand(-1, 3, -1, -1), k], -1)
        return self.proj(((q @ k.mT * 10 ** -0.5).softmax(-1) @ v).transpose(1, 2).flatten(2))


@right("self_attention", **FAMILY, strict=True)
class WideValues(nn.Module):
    "Values are twice as wide as keys, from one projection, head by head."
    def __init__(self):
        super().__init__()
        self.qkv, self.proj = nn.Linear(24, 3 * (8 + 8 + 16)), nn.Linear(48, 24)

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, 32)).transpose(1, 2).split((8, 8, 16), -1)
        return self.proj(((q @ k.mT * 8 ** -0.5).softmax(-1) @ v).transpose(1, 2).flatten(2))


@right("self_attention", **FAMILY, strict=True)
class ByConvolutions(nn.Module):
    "Projections are convolutions of width 1, and say so."
    def __init__(self):
        super().__init__()
        self.conv_q, self.conv_k, self.conv_v, self.conv_o = (nn.Conv1d(24, 24, 1) for _ in range(4))

    def forward(self, x):
        q, k, v = (c(x.mT).unflatten(1, (3, 8)).mT for c in (self.conv_q, self.conv_k, self.conv_v))
        context = (q @ k.mT * 8 ** -0.5).softmax(-1) @ v
        return self.conv_o(context.mT.flatten(1, 2)).mT


@right("self_attention", **FAMILY, layout="nbd", strict=True)
class GivesItsMatrices(nn.Module):
    "Its own parameters, under its own names, go into PyTorch's function."
    def __init__(self):
        super().__init__()
        self.in_w, self.in_b = nn.Parameter(torch.randn(72, 24) / 5), nn.Parameter(torch.randn(72) / 5)
        self.out = nn.Linear(24, 24)

    def forward(self, x):
        return F.multi_head_attention_forward(
            x, x, x, 24, 3, self.in_w, self.in_b, None, None, False, 0.0, self.out.weight, self.out.bias,
            training=self.training, need_weights=False)[0]


@right("cross_attention", **FAMILY, d_memory=20, strict=True)
class NormedBlock(nn.Module):
    "A block: what asks is normalised, PyTorch's layer attends, and the input comes on top."
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(24)
        self.attn = nn.MultiheadAttention(24, 3, kdim=20, vdim=20, batch_first=True)

    def forward(self, x, memory):
        return x + self.attn(self.norm(x), memory, memory, need_weights=False)[0]


# Cross-attention ----------------------------------------------------------------------------------------------------

@right("cross_attention", build=lambda c: c(24, 3), d_model=24, n_heads=3)
@right("cross_attention", "Translates, another width", build=lambda c: c(24, 3, 20), d_model=24, d_memory=20)
class Translates(nn.Module):
    def __init__(self, d_model, n_heads, d_memory=None):
        super().__init__()
        self.h, self.d_k = n_heads, d_model // n_heads
        self.query = nn.Linear(d_model, d_model)
        self.key, self.value = (nn.Linear(d_memory or d_model, d_model) for _ in range(2))
        self.out = nn.Linear(d_model, d_model)

    def heads(self, t):
        return t.view(len(t), -1, self.h, self.d_k).transpose(1, 2)

    def forward(self, x, memory):
        q, k, v = self.heads(self.query(x)), self.heads(self.key(memory)), self.heads(self.value(memory))
        scores = q @ k.transpose(-2, -1) / math.sqrt(self.d_k)
        weights = scores.softmax(dim=-1)
        return self.out((weights @ v).transpose(1, 2).reshape(len(x), x.shape[1], -1))


@right("cross_attention", build=lambda c: c(24, 3), d_model=24, n_heads=3, skip=["project.residual"])
class AddsX(Translates):
    "A block without a norm: what asks comes on top."
    def forward(self, x, memory):
        return x + super().forward(x, memory)


@right("cross_attention", build=lambda c: c(24, 3), d_model=24, n_heads=3)
class FillsUp(Translates):
    "The memory gets zeros up to a multiple of 8, which are masked, and a mask of its own."
    def forward(self, x, memory, mask=None):
        n = memory.shape[1]
        there = torch.ones(len(x), n, dtype=torch.bool) if mask is None else mask
        memory, there = F.pad(memory, (0, 0, 0, -n % 8)), F.pad(there, (0, -n % 8))
        q, k, v = self.heads(self.query(x)), self.heads(self.key(memory)), self.heads(self.value(memory))
        context = F.scaled_dot_product_attention(q, k, v, there[:, None, None])
        return self.out(context.transpose(1, 2).flatten(2))


@right("cross_attention", build=lambda c: c(24, 3), d_model=24, n_heads=3)
class ForgetsZeros(Translates):
    "Words of the memory that are all zero count as missing."
    def forward(self, x, memory):
        q, k, v = self.heads(self.query(x)), self.heads(self.key(memory)), self.heads(self.value(memory))
        there = memory.abs().amax(-1) > 0
        context = F.scaled_dot_product_attention(q, k, v, there[:, None, None])
        return self.out(context.transpose(1, 2).flatten(2))


@right("cross_attention", build=lambda c: c(24, 3), d_model=24)
class ThreeArguments(nn.Module):
    "As in the Annotated Transformer: four projections in a list, which of them is which only their order tells."
    def __init__(self, d_model, h, dropout=0.1):
        super().__init__()
        self.d_k, self.h = d_model // h, h
        self.linears = nn.ModuleList(nn.Linear(d_model, d_model) for _ in range(4))
        self.dropout = nn.Dropout(p=dropout)

    def forward(self, query, key, value, mask=None):
        n = query.size(0)
        query, key, value = (lin(x).view(n, -1, self.h, self.d_k).transpose(1, 2)
                             for lin, x in zip(self.linears, (query, key, value)))
        scores = torch.matmul(query, key.transpose(-2, -1)) / math.sqrt(self.d_k)
        if mask is not None:
            scores = scores.masked_fill(mask.unsqueeze(1) == 0, torch.finfo(scores.dtype).min)
        x = torch.matmul(self.dropout(scores.softmax(dim=-1)), value)
        return self.linears[-1](x.transpose(1, 2).contiguous().view(n, -1, self.h * self.d_k))


@right("cross_attention", build=lambda c: c(24, 18, 4), d_model=24, d_memory=18)
class Conditioned(nn.Module):
    "As in a diffusion model: a context that may be missing, heads of their own width, no biases."
    def __init__(self, query_dim, context_dim=None, heads=8, dim_head=5):
        super().__init__()
        inner, context_dim = dim_head * heads, query_dim if context_dim is None else context_dim
        self.scale, self.heads = dim_head ** -0.5, heads
        self.to_q = nn.Linear(query_dim, inner, bias=False)
        self.to_k = nn.Linear(context_dim, inner, bias=False)
        self.to_v = nn.Linear(context_dim, inner, bias=False)
        self.to_out = nn.Sequential(nn.Linear(inner, query_dim), nn.Dropout(0.1))

    def forward(self, x, context=None):
        context = x if context is None else context
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in (self.to_q(x), self.to_k(context), self.to_v(context)))
        sim = torch.einsum("bhid,bhjd->bhij", q, k) * self.scale
        return self.to_out(torch.einsum("bhij,bhjd->bhid", sim.softmax(dim=-1), v).transpose(1, 2).flatten(2))


@right("cross_attention", build=lambda c: c(24, 6, 2, 30), d_model=24, d_memory=30, n_kv_heads=2, strict=True)
@right("cross_attention", "SharesKeys, one width", build=lambda c: c(24, 6, 3, 24), d_model=24, n_heads=6)
class SharesKeys(nn.Module):
    "Fewer heads of keys and values, from one projection; a mask of padding; it returns weights."
    def __init__(self, d_model, n_heads, n_kv_heads, d_memory):
        super().__init__()
        self.n_heads, self.n_kv_heads, d = n_heads, n_kv_heads, d_model // n_heads
        self.q_proj, self.kv_proj = nn.Linear(d_model, d_model), nn.Linear(d_memory, 2 * n_kv_heads * d)
        self.o_proj = nn.Linear(d_model, d_model)
        self.drop = 0.2

    def forward(self, hidden_states, encoder_hidden_states, memory_key_padding_mask=None):
        q = self.q_proj(hidden_states).unflatten(-1, (self.n_heads, -1)).transpose(1, 2)
        k, v = (t.unflatten(-1, (self.n_kv_heads, -1)).transpose(1, 2) for t in self.kv_proj(encoder_hidden_states).chunk(2, -1))
        k, v = (t.repeat_interleave(self.n_heads // self.n_kv_heads, 1) for t in (k, v))
        scores = q @ k.mT * q.shape[-1] ** -0.5
        if memory_key_padding_mask is not None:
            scores = scores.masked_fill(memory_key_padding_mask[:, None, None], -math.inf)
        weights = scores.softmax(-1)
        context = F.dropout(weights, self.drop, self.training) @ v
        return self.o_proj(context.transpose(1, 2).flatten(2)), weights


@right("cross_attention", build=lambda c: c(24), d_model=24, call=lambda m, x, memory: m(memory, x))
class MemoryFirst(nn.Module):
    "One head; the memory is the first argument."
    def __init__(self, d):
        super().__init__()
        self.wq, self.wk, self.wv = (nn.Linear(d, 16) for _ in range(3))

    def forward(self, encoded, decoded):
        return F.scaled_dot_product_attention(self.wq(decoded), self.wk(encoded), self.wv(encoded))


for _name, _module, _build in (
    ("MultiHeadAttention", "multi_head_attention", lambda c: c(24, 6)),
    ("MultiHeadAttention, grouped, dropout", "multi_head_attention", lambda c: c(24, 6, n_kv_heads=2, dropout=0.1)),
    ("SelfAttention", "self_attention", lambda c: c(24, 10)),
):
    REGISTRY.add(Entry(f"package: {_name}, with a memory", "cross_attention", f"{_module}.{_name.partition(',')[0]}", _build, {"d_model": 24}))
right("cross_attention", "nn.MultiheadAttention, with a memory", build=lambda c: c(24, 3, batch_first=True), d_model=24, n_heads=3, strict=True)(nn.MultiheadAttention)
right("cross_attention", "nn.MultiheadAttention, another width", d_model=24, d_memory=20, strict=True,
      build=lambda c: c(24, 4, kdim=20, vdim=20, dropout=0.1))(nn.MultiheadAttention)


def _t5_cross(_):
    "The second attention of a small T5's decoder."
    config = library("transformers").T5Config(d_model=24, d_kv=8, num_heads=3, is_decoder=True, attn_implementation="eager")
    return import_module("transformers.models.t5.modeling_t5").T5Attention(config, has_relative_attention_bias=False)


def _bart_cross(_):
    "That of BART's."
    config = library("transformers").BartConfig(d_model=24, decoder_attention_heads=3, attn_implementation="eager")
    return import_module("transformers.models.bart.modeling_bart").BartAttention(24, 3, is_decoder=True, config=config, layer_idx=0)


right("cross_attention", "transformers: T5, with a memory", build=_t5_cross, d_model=24, n_heads=3, scale=1.0, strict=True)(_Layers)
right("cross_attention", "transformers: BART, with a memory", build=_bart_cross, d_model=24, strict=True)(_Layers)
right("cross_attention", "x-transformers: Attention, with a memory", build=_x_attention(dim_context=20), d_model=24, d_memory=20)(_Layers)
