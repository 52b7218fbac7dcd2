"""Heads that copy each other, sentences that mix, and rows put together in the wrong order."""

from __future__ import annotations

import torch
from torch import Tensor

from attention_checks.catalogue.self_attention import mixing, routing
from attention_checks.pipeline import Bug, bugs_of


def _first(t: Tensor) -> Tensor:
    "The first head, in place of all."
    return t[..., :1, :, :].expand_as(t)


HEADS: list[Bug] = (
    bugs_of(
        "route",
        routing,
        {
            "heads.first_queries": (
                "every head uses the queries of the first head",
                lambda q, k, v: (_first(q), k, v),
            ),
            "heads.first_queries_keys": (
                "every head uses the queries and keys of the first head",
                lambda q, k, v: (_first(q), _first(k), v),
            ),
            "heads.first_keys": (
                "every head uses the keys of the first head",
                lambda q, k, v: (q, _first(k), v),
            ),
            "heads.first_values": (
                "every head uses the values of the first head",
                lambda q, k, v: (q, k, _first(v)),
            ),
            "heads.first_keys_values": (
                "every head uses the keys and values of the first head",
                lambda q, k, v: (q, _first(k), _first(v)),
            ),
            "batch.first_keys_values": (
                "every sentence of the batch uses the keys and values of the first",
                lambda q, k, v: (q, k[:1].expand_as(k), v[:1].expand_as(v)),
            ),
            "heads.other_order": (
                "the heads of queries and keys do not match: they are in another order",
                lambda q, k, v: (q, k.flip(-3), v.flip(-3)),
            ),
            "heads.keys_in_other_order": (
                "the heads of keys are in another order than those of queries and values",
                lambda q, k, v: (q, k.flip(-3), v),
            ),
            "heads.next": (
                "keys and values come from another head than the queries",
                lambda q, k, v: (q, k.roll(1, -3), v.roll(1, -3)),
            ),
            "heads.previous": (
                "keys and values come from another head than the queries (the next)",
                lambda q, k, v: (q, k.roll(-1, -3), v.roll(-1, -3)),
            ),
            "batch.rolled": (
                "the sentences of the batch are mixed up: keys and values come from another one",
                lambda q, k, v: (q, k.roll(1, 0), v.roll(1, 0)),
            ),
            "batch.keys_averaged": (
                "the keys are averaged over the batch: sentences are mixed",
                lambda q, k, v: (q, k.mean(0, keepdim=True).expand_as(k), v),
            ),
        },
    )
    + bugs_of(
        "mix",
        mixing,
        {
            "heads.first_context": (
                "every head returns the context of the first head: copies of one head",
                lambda c, w: _first(c),
            ),
            "heads.averaged": (
                "the heads are averaged: every head returns the same",
                lambda c, w: c.mean(-3, keepdim=True).expand_as(c),
            ),
            "heads.reshaped": (
                "the contexts of the heads are mixed up: reshaped where they should be transposed",
                lambda c, w: c.transpose(-3, -2).reshape(c.shape),
            ),
            "heads.and_batch": (
                "sentences and heads are mixed up: merged as (b, h), taken apart as (h, b), or the other way round",
                lambda c, w: c.transpose(-4, -3).reshape(c.shape),
            ),
            "batch.averaged": (
                "the contexts of the batch are averaged",
                lambda c, w: c.mean(-4, keepdim=True).expand_as(c),
            ),
            "heads.back_in_other_order": (
                "the heads come back in another order",
                lambda c, w: c.flip(-3),
            ),
        },
    )
    + [
        Bug(
            "heads.layout",
            "heads attend to each other, not words: it takes (b, n, h, d); transpose(1, 2) what goes in and comes out",
            {
                "route": lambda w: w._replace(
                    q=w.q.transpose(1, 2),
                    k=w.k.transpose(1, 2),
                    v=w.v.transpose(1, 2),
                    allowed=torch.ones(1, 1, 1, 1, dtype=torch.bool),
                ),
                "mix": lambda w: w._replace(out=(w.weights @ w.v).transpose(-3, -2)),
            },
        )
    ]
)
