"""Caches that are wrong in one way each, and the code that each is named by."""

from __future__ import annotations

import pytest
import torch
import torch.nn as nn
from tests.checks.finding import codes_of, report_of

from attention_checks import check_cache
from attention_nb.kv_cache import KVCache, RollingCache
from attention_nb.local_attention import window_mask
from attention_nb.masks import causal_mask
from attention_nb.multi_head_attention import MultiHeadAttention, merge_heads, split_heads
from attention_nb.positions import RotaryEmbedding


@pytest.fixture(scope="module")
def layer():
    "A layer with grouped heads and positions."
    torch.manual_seed(0)
    return MultiHeadAttention(24, 6, n_kv_heads=2, positions=RotaryEmbedding(4))


class Moves(KVCache):
    "All that is kept is copied into other memory at each step."

    def append(self, k, v):
        self.keys = torch.where(torch.isfinite(self.keys), self.keys, 0.0)
        return super().append(k, v)


class Fades(KVCache):
    "Keys lose a little at each step, in a way that no known bug has."

    def append(self, k, v):
        self.keys *= 0.9
        return super().append(k, v)


def keeps(layer, cache):
    "What is wrong with a cache, by code."
    return codes_of(check_cache, layer, 24, lambda b, n_max: cache(b, 2, n_max, 4))


def test_a_right_cache_holds(layer):
    assert keeps(layer, KVCache) == []


def test_step_and_full_pass_may_be_functions(layer):
    report = check_cache(
        lambda x, cache: layer(x, cache=cache),
        24,
        lambda b, n_max: KVCache(b, 2, n_max, 4),
        full=lambda x: layer(x, causal=True),
    )
    assert report.ok


class Int8(KVCache):
    "Keys and values are kept in eight bits."

    def append(self, k, v):
        return super().append(*map(self.near, (k, v)))

    def near(self, t):
        step = t.abs().amax(-1, keepdim=True) / 127
        return (t / step).round() * step


class Int8Keys(Int8):
    "Keys only are."

    def append(self, k, v):
        return KVCache.append(self, self.near(k), v)


class Empty(KVCache):
    "What torch.empty gives on a bad day."

    def __init__(self, *args):
        super().__init__(*args)
        self.keys.fill_(torch.nan)
        self.values.fill_(torch.nan)


@pytest.mark.parametrize(
    "cache, code",
    [
        (Moves, "cache.copies"),
        (Fades, "cache.stored"),
        (Int8, "cache.rounded"),
        (Int8Keys, "cache.rounded"),
        (Empty, "cache.padding"),
    ],
)
def test_a_wrong_cache_is_named(layer, cache, code):
    assert code in keeps(layer, cache)


@pytest.mark.parametrize(
    "spoiled, code",
    [
        (lambda x: x * torch.nan, "values.nan"),
        (lambda x: x[:, :1], "result.shape"),
        (lambda x: None, "code.returns_nothing"),
    ],
)
def test_a_wrong_full_pass_is_named(layer, spoiled, code):
    step = lambda x, cache: layer(x, cache=cache)
    full = lambda x: spoiled(layer(x, causal=True)[0])
    cache = lambda b, n_max: KVCache(b, 2, n_max, 4)
    assert codes_of(check_cache, step, 24, cache, full=full) == [code]


def test_a_declared_tolerance_takes_few_bits(layer):
    kept = lambda b, n_max: Int8(b, 2, n_max, 4)
    report = report_of(check_cache, layer, 24, kept)
    (declare,) = report.choices
    assert check_cache(layer, 24, kept, tolerance=float(declare.split("=")[1])).ok
    assert check_cache(layer, 24, kept, tolerance=0.02).ok


def test_unused_places_of_nan_are_no_error_of_the_check(layer):
    report = report_of(check_cache, layer, 24, lambda b, n_max: Empty(b, 2, n_max, 4))
    assert report.codes == ["cache.padding"]


@pytest.mark.parametrize(
    "declared", [dict(max_batch=1), dict(max_batch=2), dict(lengths=12), dict(lengths=[9, 14])]
)
def test_what_a_cache_takes_can_be_declared(layer, declared):
    "No other batch and no other length is given then."

    def full(x):
        assert len(x) <= declared.get("max_batch", len(x))
        assert "lengths" not in declared or x.shape[1] in {9, 12, 14}
        return layer(x, causal=True)

    assert check_cache(layer, 24, full=full, **declared).verdict == "sound"


def test_a_cache_that_rolls_is_sound_if_its_window_is_declared():
    "It is never full, and does not give back what has left the window."
    layer = MultiHeadAttention(24, 3)
    rolls = dict(
        new_cache=lambda b, n_max: RollingCache(b, 3, 4, 8),
        full=lambda x: layer(x, mask=window_mask(x.shape[1], x.shape[1], 4)),
        step=lambda x, cache: layer(x, cache=cache),
    )
    assert "cache.full_silent" in codes_of(check_cache, layer, 24, **rolls)
    assert check_cache(layer, 24, **rolls, window=4).verdict == "sound"
    short = {**rolls, "new_cache": lambda b, n_max: RollingCache(b, 3, 3, 8)}
    assert "cache.drops" in codes_of(check_cache, layer, 24, **short, window=4)


class Late(nn.Module):
    "The positions of queries are counted after the cache has grown."

    def __init__(self, late: int, rotates: bool = True):
        super().__init__()
        self.qkv, self.out, self.late = nn.Linear(24, 72), nn.Linear(24, 24), late
        self.rotates = rotates  # the keys of a step?

    def new_cache(self, b, n_max):
        return []

    def forward(self, x, cache=None):
        n, (q, k, v) = x.shape[1], (split_heads(t, 3) for t in self.qkv(x).chunk(3, -1))
        start, turn = cache[0].shape[2] if cache else 0, RotaryEmbedding(8)
        if self.rotates or not cache:
            k = turn(k, torch.arange(start, start + n))
        if cache:
            k, v = torch.cat([cache[0], k], 2), torch.cat([cache[1], v], 2)
        if cache is not None:
            cache[:] = k, v
            start += self.late * n
        q = turn(q, torch.arange(start, start + n))
        scores = (q @ k.mT / 8**0.5).masked_fill(~causal_mask(n, k.shape[2]), -torch.inf)
        return self.out(merge_heads(scores.softmax(-1) @ v))


class Counts(nn.Module):
    "A cache of fixed size; how its length grows, and how the causal mask is lined up, is given."

    def __init__(self, length, corner):
        super().__init__()
        self.qkv, self.out = nn.Linear(24, 72), nn.Linear(24, 24)
        self.length, self.corner = length, corner

    def new_cache(self, b, n_max):
        return {"k": torch.zeros(b, 3, n_max, 8), "v": torch.zeros(b, 3, n_max, 8), "n": 0}

    def forward(self, x, cache=None):
        n, (q, k, v) = x.shape[1], (split_heads(t, 3) for t in self.qkv(x).chunk(3, -1))
        past = cache["n"] if cache else 0
        if cache:
            cache["k"][:, :, past : past + n], cache["v"][:, :, past : past + n] = k, v
            k, v = cache["k"][:, :, : past + n], cache["v"][:, :, : past + n]
            cache["n"] = self.length(past, n)
        allowed = torch.ones(n, past + n, dtype=torch.bool).tril(self.corner(past))
        scores = (q @ k.mT / 8**0.5).masked_fill(~allowed, -torch.inf)
        return self.out(merge_heads(scores.softmax(-1) @ v))


@pytest.mark.parametrize(
    "length, corner, codes",
    [
        (lambda past, n: past + n, lambda past: past, []),
        (lambda past, n: n, lambda past: past, ["cache.drops"]),
        (lambda past, n: past + n, lambda past: 0, ["cache.corner"]),
    ],
)
def test_a_cache_that_does_not_count_on_is_told_from_a_mask_in_the_wrong_corner(
    length, corner, codes
):
    torch.manual_seed(0)
    assert codes_of(check_cache, Counts(length, corner), 24, grows=True) == codes


@pytest.mark.parametrize("late, codes", [(0, set()), (1, {"cache.query_positions"})])
def test_positions_of_queries_are_counted_once(late, codes):
    torch.manual_seed(0)
    assert set(codes_of(check_cache, Late(late), 24, grows=True)) == codes


class Keeps(nn.Module):
    "Keys and values are kept in a list, as a function joins the old and the new ones."

    def __init__(self, join, rotates=True, step_scale=8**-0.5):
        super().__init__()
        self.qkv, self.out = nn.Linear(24, 72), nn.Linear(24, 24)
        self.turn = RotaryEmbedding(8) if rotates else lambda t, at: t
        self.join, self.step_scale = join, step_scale

    def new_cache(self, b, n_max):
        return []

    def forward(self, x, cache=None):
        n, (q, k, v) = x.shape[1], (split_heads(t, 3) for t in self.qkv(x).chunk(3, -1))
        past = cache[0].shape[2] if cache else 0
        q, k = (self.turn(t, torch.arange(past, past + n)) for t in (q, k))
        scale = self.step_scale if cache else 8**-0.5
        if cache:
            k, v = self.join(*cache, k, v)
        if cache is not None:
            cache[:] = k, v
        scores = (q @ k.mT * scale).masked_fill(~causal_mask(n, k.shape[2]), -torch.inf)
        return self.out(merge_heads(scores.softmax(-1) @ v))


def behind(old, new):
    "Old vectors, and new ones."
    return torch.cat([old, new], 2)


JOINED = [  # code, and how old and new keys and values are joined
    ("", lambda k, v, new_k, new_v: (behind(k, new_k), behind(v, new_v))),
    ("cache.stored", lambda k, v, new_k, new_v: (behind(new_k, k), behind(v, new_v))),
    ("cache.stored", lambda k, v, new_k, new_v: (behind(k * 8**-0.5, new_k), behind(v, new_v))),
    ("cache.values", lambda k, v, new_k, new_v: (behind(k, new_k), behind(k, new_v))),
    ("cache.values", lambda k, v, new_k, new_v: (behind(k, new_k), behind(v, 0 * new_v))),
    ("cache.groups", lambda k, v, new_k, new_v: (behind(k.roll(1, 1), new_k), behind(v, new_v))),
    (
        "cache.drops",
        lambda k, v, new_k, new_v: (behind(k[:, :, -2:], new_k), behind(v[:, :, -2:], new_v)),
    ),
]


@pytest.mark.parametrize("rotates", [False, True])
@pytest.mark.parametrize("code, join", JOINED)
def test_what_is_kept_wrongly_is_named_by_what_a_step_reads(code, join, rotates):
    torch.manual_seed(0)
    assert codes_of(check_cache, Keeps(join, rotates), 24, grows=True) == ([code] if code else [])


def test_another_scale_in_steps_is_no_matter_of_queries_keys_or_mask():
    torch.manual_seed(0)
    layer = Keeps(JOINED[0][1], step_scale=1.0)
    assert codes_of(check_cache, layer, 24, grows=True) == ["cache.values"]


def test_a_step_that_is_a_function_is_named_by_the_layer_that_it_calls():
    "Where nothing tells the layer, no bug is named."
    torch.manual_seed(0)
    layer = Keeps(JOINED[2][1])
    step, new = lambda x, cache: layer(x, cache=cache), layer.new_cache
    full = layer.forward
    assert codes_of(check_cache, step, 24, new, full=full, grows=True) == ["cache.stored"]
    hidden = {"step": step}
    step = lambda x, cache: hidden["step"](x, cache)
    assert codes_of(check_cache, step, 24, new, full=full, grows=True) == ["cache.unknown"]


def test_positions_that_are_added_before_the_projections_are_named():
    "They begin anew with each token."

    class Learned(Keeps):
        def forward(self, x, cache=None):
            return super().forward(x + self.places[: x.shape[1]], cache)

    torch.manual_seed(0)
    layer = Learned(JOINED[0][1], rotates=False)
    layer.places = nn.Parameter(torch.randn(9, 24))
    assert codes_of(check_cache, layer, 24, grows=True) == ["cache.positions"]


@pytest.mark.parametrize("rotates, codes", [(True, []), (False, ["cache.positions"])])
def test_a_new_key_must_be_rotated_before_it_is_kept(rotates, codes):
    layer = Late(0, rotates)
    assert codes_of(check_cache, layer, 24, grows=True) == codes


class OfTwoHeads(KVCache):
    "Called with a batch and a number of tokens, the class gives an empty cache."

    def __init__(self, b, n_max):
        super().__init__(b, 2, n_max, 4)


def test_a_class_may_make_the_caches(layer):
    assert codes_of(check_cache, layer, 24, OfTwoHeads) == []
    with pytest.raises(TypeError, match="new_cache: expected a function; got"):
        check_cache(layer, 24, OfTwoHeads(1, 4))


def test_where_the_step_does_not_tell_the_layer_the_layer_that_is_given_does():
    torch.manual_seed(0)
    layer = Keeps(JOINED[2][1])
    hidden = {"step": lambda x, cache: layer(x, cache=cache)}
    declared = {"step": lambda x, cache: hidden["step"](x, cache), "grows": True}
    assert codes_of(check_cache, layer, 24, layer.new_cache, **declared) == ["cache.stored"]


class Ring(nn.Module):
    "One head of keys for all queries; a cache of a window writes over the oldest."

    def __init__(self, roll_v=0):
        super().__init__()
        self.q, self.kv, self.out = nn.Linear(24, 24), nn.Linear(24, 16), nn.Linear(24, 24)
        self.roll_v = roll_v

    def new_cache(self, b, n_max):
        return {"k": torch.zeros(b, 4, 1, 8), "v": torch.zeros(b, 4, 1, 8), "n": 0}

    def attend(self, q, k, v, allowed):
        scores = torch.einsum("bthd,bshd->bhts", q, k) * 8**-0.5
        weights = torch.where(allowed, scores, -torch.inf).softmax(-1)
        return self.out(torch.einsum("bhts,bshd->bthd", weights, v).flatten(2))

    def forward(self, x, cache=None):
        q, (k, v) = self.q(x).unflatten(-1, (3, 8)), self.kv(x)[:, :, None].chunk(2, -1)
        if cache is None:
            return self.attend(q, k, v, window_mask(x.shape[1], x.shape[1], 4))
        steps = zip(*(t.split(1, 1) for t in (q, k, v)))
        return torch.cat([self.step(*step, cache) for step in steps], 1)

    def step(self, q, k, v, cache):
        at, kept = cache["n"] % 4, torch.arange(4) <= cache["n"]
        cache["k"][:, at], cache["v"][:, at], cache["n"] = k[:, 0], v[:, 0], cache["n"] + 1
        return self.attend(q, cache["k"], cache["v"].roll(self.roll_v, 1), kept)


@pytest.mark.parametrize("roll_v, codes", [(0, []), (1, ["cache.values"])])
def test_keys_may_stand_in_the_order_of_a_ring(roll_v, codes):
    torch.manual_seed(0)
    assert codes_of(check_cache, Ring(roll_v), 24, window=4)[:1] == codes


class Cut(MultiHeadAttention):
    "Its cache is a list of keys and values, cut to a window before a chunk attends, or after it."

    early = True

    def forward(self, x, cache=None):
        q, k, v = (split_heads(f(x), 3) for f in (self.q_proj, self.k_proj, self.v_proj))
        if cache is not None:
            k, v = (torch.cat([*kept, t], 2) for kept, t in zip(cache, (k, v)))
            cache[:] = [[t[:, :, -4:]] for t in (k, v)]
            k, v = (t[0] for t in cache) if self.early else (k, v)
        mask = window_mask(q.shape[2], k.shape[2], 4)
        scores = (q @ k.mT * 8**-0.5).masked_fill(~mask, -torch.inf)
        return self.out_proj(merge_heads(scores.softmax(-1) @ v))


@pytest.mark.parametrize("early, codes", [(False, []), (True, ["cache.drops"])])
def test_a_cache_that_is_cut_before_a_chunk_attends_drops_keys(early, codes):
    torch.manual_seed(0)
    layer = Cut(24, 3)
    layer.early = early
    cached = dict(new_cache=lambda b, n: [[], []], grows=True, window=4)
    assert (
        codes_of(check_cache, layer, 24, step=lambda x, cache: layer(x, cache), **cached) == codes
    )
