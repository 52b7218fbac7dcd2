"""Heads that are copies of each other, sequences that mix, and heads in the wrong order."""

import torch
from torch import Tensor

from attention_checks.catalogue.scales_and_routes import mixing, routing
from attention_checks.explaining.pipeline import Bug, bugs_of_stage


def _first(t: Tensor) -> Tensor:
    "Use the first head for all heads."
    return t[..., :1, :, :].expand_as(t)


_TRANSPOSED = Bug(
    "heads.layout",
    "heads attend to each other, not tokens: it takes (b, n, h, d), so transpose(1, 2) its inputs",
    {
        "route": lambda work: work._replace(
            q=work.q.transpose(1, 2),
            k=work.k.transpose(1, 2),
            v=work.v.transpose(1, 2),
            allowed=torch.ones(1, 1, 1, 1, dtype=torch.bool),
        ),
        "mix": lambda work: work._replace(out=(work.weights @ work.v).transpose(-3, -2)),
    },
    declare='layout="bnhd"',
)
BUGS: list[Bug] = [
    *bugs_of_stage(
        "route",
        routing,
        {
            "heads.first_keys": (
                "every head uses the keys of the first head",
                lambda q, k, v: (q, _first(k), v),
            ),
            "heads.first_values": (
                "every head uses the values of the first head",
                lambda q, k, v: (q, k, _first(v)),
            ),
            "batch.first_keys_values": (
                "every sequence of the batch uses the keys and values of the first",
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
            "heads.values_in_other_order": (
                "the heads of values are in another order than those of queries and keys",
                lambda q, k, v: (q, k, v.flip(-3)),
            ),
            "heads.next": (
                "keys and values are those of the head before the query's",
                lambda q, k, v: (q, k.roll(1, -3), v.roll(1, -3)),
            ),
        },
    ),
    *bugs_of_stage(
        "mix",
        mixing,
        {
            "heads.and_batch": (
                "batch and heads are mixed up: merged as (b, h), split as (h, b), or the reverse",
                lambda context, work: context.transpose(-4, -3).reshape(context.shape),
            )
        },
    ),
    _TRANSPOSED,
]
