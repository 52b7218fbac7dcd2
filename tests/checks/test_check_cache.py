"""Caches that are wrong in one way each, and the code that each is named by."""

from __future__ import annotations

import pytest
import torch
from tests.checks.finding import codes_of

from attention_checks import check_cache
from attention_nb.kv_cache import KVCache
from attention_nb.multi_head_attention import MultiHeadAttention
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


@pytest.mark.parametrize("cache, code", [(Moves, "cache.copies"), (Fades, "cache.unknown")])
def test_a_wrong_cache_is_named(layer, cache, code):
    assert code in keeps(layer, cache)


@pytest.mark.parametrize(
    "spoiled, code",
    [
        (lambda x: x * torch.nan, "result.nan"),
        (lambda x: x[:, :1], "result.shape"),
        (lambda x: None, "code.returns_nothing"),
    ],
)
def test_a_wrong_full_pass_is_named(layer, spoiled, code):
    step = lambda x, cache: layer(x, cache=cache)
    full = lambda x: spoiled(layer(x, causal=True)[0])
    cache = lambda b, n_max: KVCache(b, 2, n_max, 4)
    assert codes_of(check_cache, step, 24, cache, full=full) == [code]
