"""What a check refuses: mistakes in its call, no bugs; and that it leaves all as it was."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F
from tests.checks.variants import attention

import attention_checks as checks
from attention_nb.multi_head_attention import MultiHeadAttention
from attention_nb.positions import RotaryEmbedding

LAYER = MultiHeadAttention(24, 3)


class NoForward(nn.Module):
    "Nothing to call."


async def later(q, k, v):
    return q


def yields(q, k, v):
    yield q


def from_numpy(x):
    return torch.softmax(x, -1).numpy()


REFUSED = [
    *[("attention", (fn,), {}) for fn in (3, MultiHeadAttention, NoForward(), later, yields)],
    ("attention", (np.exp,), {}),
    ("attention", (nn.Linear(24, 24),), {}),
    ("attention", (lambda q, k, v, mask, other: q,), {}),
    ("attention", (lambda q, k, v, *, bias, table: q,), {}),
    ("attention", (lambda q, k, v: q,), {"mask": "allowed"}),
    *[("attention", (attention,), {"causal": causal}) for causal in ("left", 1, None)],
    ("attention", (attention,), {"mask": "inverted"}),
    ("attention", (attention,), {"scale": "1/8"}),
    ("attention", (attention,), {"scales": 1.0}),
    *[("attention", (attention,), {"window": window}) for window in (0, 2.0, 129)],
    ("flash", (3,), {}),
    ("softmax", (lambda: 0,), {}),
    ("softmax", (nn.Softmax,), {}),
    ("softmax", (lambda x, dim, other: x,), {}),
    ("softmax", (from_numpy,), {}),
    ("masked_softmax", (lambda x: x,), {}),
    ("self_attention", ("layer", 24), {}),
    ("self_attention", (MultiHeadAttention, 24), {}),
    ("self_attention", (nn.ModuleList([LAYER]), 24), {}),
    ("self_attention", (nn.Linear(24, 24, device="meta"), 24), {}),
    ("self_attention", (LAYER, 32), {}),
    ("self_attention", (LAYER, 24.0), {}),
    ("self_attention", (LAYER, 24), {"n_heads": 0}),
    ("self_attention", (LAYER, 24), {"causal": "yes"}),
    ("self_attention", (LAYER, 24), {"positions": "rope"}),
    ("self_attention", (LAYER, 24), {"window": 0}),
    ("self_attention", (LAYER, 24), {"call": 3}),
    ("self_attention", (LAYER, 24), {"call": lambda m: m}),
    ("self_attention", (LAYER, 24), {"lengths": 0}),
    ("multi_head", (LAYER, 24, 5), {}),
    ("multi_head", (LAYER, 24, None), {}),
    ("cross_attention", (nn.Linear(24, 24), 24), {}),
    ("cross_attention", (LAYER, 24), {"call": lambda m, x: x}),
    ("cache", (nn.Linear(24, 24), 24), {}),
    ("positions", (RotaryEmbedding,), {}),
    ("positions", (lambda x, positions: x,), {"d_head": 7}),
    ("agrees", (attention, attention), {}),
    ("agrees", (attention, attention, 5), {}),
    ("agrees", (5, attention, (1,)), {}),
    ("agrees", (attention, 5, (1,)), {}),
    ("agrees", (attention, attention, (1,)), {"wrong": {"inverted": 5}}),
]


@pytest.mark.parametrize("check, args, settings", REFUSED)
def test_what_cannot_be_checked_is_refused_in_one_line(check, args, settings):
    with pytest.raises((TypeError, ValueError)) as refused:
        getattr(checks, f"check_{check}")(*args, **settings)
    assert not isinstance(refused.value, checks.CheckFailed)
    assert "expected" in str(refused.value) and "\n" not in str(refused.value)


def test_a_check_leaves_all_as_it_was():
    layer = MultiHeadAttention(24, 3).train()
    state, before = torch.get_rng_state(), {k: t.clone() for k, t in layer.state_dict().items()}
    checks.check_self_attention(layer, 24)
    assert layer.training and torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(t, before[k]) for k, t in layer.state_dict().items())
    assert all(p.grad is None for p in layer.parameters())


def test_functions_of_three_dimensions_are_taken():
    def batched(q, k, v):
        weights = torch.softmax(torch.bmm(q, k.mT) / q.shape[-1] ** 0.5, -1)
        return torch.bmm(weights, v)

    assert checks.check_attention(batched).ok
    assert checks.check_attention(F.scaled_dot_product_attention, mask="allowed").ok
