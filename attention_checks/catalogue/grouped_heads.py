"""Heads that share the wrong keys, norms on one side, caps and sinks left out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from attention_checks.catalogue.layers import splitting
from attention_checks.pipeline import Bug, Step, Work, bugs_of
from attention_nb.grouped_heads import sink_softmax, soft_cap
from attention_nb.softmax import masked_softmax


def _taken(which: Callable[[int, int, int], int]) -> Callable[[Tensor, int], Tensor]:
    "Share heads out by a rule: query head i of h, with g heads of keys, reads head `which(i, h, g)`."
    return lambda t, h: t[..., [which(i, h, t.shape[-3]) for i in range(h)], :, :]


_READS = "query head i reads head {} of the keys and values, not i // (n_heads // n_kv_heads)"
GROUPS: list[Bug] = bugs_of(
    "split",
    lambda share: splitting(share_k=share, share_v=share),
    {
        "groups.divisor": (_READS.format("i // n_kv_heads"), _taken(lambda i, h, g: i // g)),
        "groups.remainder": (
            _READS.format("i % (n_heads // n_kv_heads)"),
            _taken(lambda i, h, g: i % (h // g)),
        ),
        "groups.averaged": (
            "all query heads read the mean of all heads of keys and values",
            lambda t, h: t.mean(-3, keepdim=True).expand(*t.shape[:-3], h, *t.shape[-2:]),
        ),
    },
)


AFTER_SPLIT, AFTER_SCORE, AFTER_MERGE = (
    "split, its own",
    "score, its own",
    "merge, its own",
)  # stages behind those of every layer
_Norm = Callable[[Tensor], Tensor]
_NORMS: dict[str, tuple[str, Callable[[Work, _Norm, _Norm], Work]]] = {
    "norm.queries_only": (
        "only the queries are normed: norm the keys too",
        lambda w, q, k: w._replace(q=q(w.q)),
    ),
    "norm.keys_only": (
        "only the keys are normed: norm the queries too",
        lambda w, q, k: w._replace(k=k(w.k)),
    ),
    "norm.values": (
        "keys and values change places before the norm: it is values that are normed",
        lambda w, q, k: w._replace(q=q(w.q), v=k(w.v)),
    ),
}
_CAPS: dict[str, tuple[str, Callable[[Tensor, float], Tensor]]] = {
    "cap.missing": ("scores are not capped, though a cap is kept", lambda s, cap: s),
    "cap.not_multiplied": (
        "scores are capped at ±1: tanh(scores / cap) must be multiplied by the cap",
        lambda s, cap: (s / cap).tanh(),
    ),
    "cap.not_divided": (
        "scores are multiplied by the cap before they are bent: cap · tanh(scores / cap)",
        lambda s, cap: cap * s.tanh(),
    ),
    "cap.cut": (
        "scores are cut off at the cap, where tanh should bend them",
        lambda s, cap: s.clamp(-cap, cap),
    ),
}
_SINKS: dict[str, tuple[str, Callable[[Work, Tensor], Tensor]]] = {
    "sink.missing": (
        "the sinks take no share: rows sum to 1",
        lambda w, sinks: masked_softmax(w.scores, w.allowed),
    ),
    "sink.zero": (
        "every sink counts as one of 0 (softmax off by one): what is learned is not used",
        lambda w, sinks: sink_softmax(w.scores, 0 * sinks, w.allowed),
    ),
    "sink.first": (
        "all heads have the sink of the first",
        lambda w, sinks: sink_softmax(w.scores, sinks[:1].expand_as(sinks), w.allowed),
    ),
    "sink.scaled": (
        "the sinks are scaled with the scores",
        lambda w, sinks: _with_sum(w, (w.scale * sinks[:, None, None]).exp()),
    ),
    "sink.no_exp": (
        "the sinks are added to the sum as they are, not their exponentials",
        lambda w, sinks: _with_sum(w, sinks[:, None, None]),
    ),
}

_GATES: dict[str, tuple[str, Callable[[Tensor, Tensor], Tensor]]] = {
    "gate.missing": ("the context is not multiplied by its gate", lambda out, rows: out),
    "gate.no_sigmoid": (
        "the gate is used as it is: a sigmoid should bring it between 0 and 1",
        lambda out, rows: out * rows,
    ),
}


def _with_sum(w: Work, more: Tensor) -> Tensor:
    "Weights with something added to the sum of exponentials."
    e = w.scores.exp() * w.allowed
    return e / (e.sum(-1, keepdim=True) + more)


def norming(
    norm_q: Callable[[Tensor], Tensor],  # what brings queries to one length
    norm_k: Callable[[Tensor], Tensor],  # and keys
) -> tuple[Step, list[Bug]]:  # for the stage behind `split`: what is right, and what is not
    "Make steps of a layer's own norms."
    right = lambda w: w._replace(q=norm_q(w.q), k=norm_k(w.k))
    return right, bugs_of(AFTER_SPLIT, lambda f: lambda w: f(w, norm_q, norm_k), _NORMS)


def capping(
    cap: float,  # what no score should reach
) -> tuple[Step, list[Bug]]:  # for the stage behind `score`: what is right, and what is not
    "Make steps of a layer's own cap."

    def step(f: Callable[[Tensor, float], Tensor]) -> Step:
        return lambda w: w._replace(scores=f(w.scores, cap))

    return step(soft_cap), bugs_of(AFTER_SCORE, step, _CAPS)


def sinking(
    sinks: Tensor,  # a score for each head that belongs to no word, (h,)
) -> tuple[Step, list[Bug]]:  # for the stage `weigh`: what is right, and what is not
    "Make steps of a layer's own sinks."

    def step(f: Callable[[Work, Tensor], Tensor]) -> Step:
        return lambda w: w._replace(weights=f(w, sinks))

    return step(lambda w, sinks: sink_softmax(w.scores, sinks, w.allowed)), bugs_of(
        "weigh", step, _SINKS
    )


def gating(
    rows: Tensor,  # of each word what its context is gated by, (b, n, width); one number a head, or one a feature
) -> tuple[Step, list[Bug]]:  # for the stage behind `merge`: what is right, and what is not
    "Make steps of a layer's own gate."

    def step(f: Callable[[Tensor, Tensor], Tensor]) -> Step:
        return lambda w: w._replace(
            out=f(w.out, rows.repeat_interleave(w.out.shape[-1] // rows.shape[-1], -1))
        )

    return step(lambda out, rows: out * rows.sigmoid()), bugs_of(AFTER_MERGE, step, _GATES)


_SAME: Any = torch.nn.Identity()
GROUPED_ALL: list[Bug] = [
    *GROUPS,
    *norming(_SAME, _SAME)[1],
    *capping(1.0)[1],
    *sinking(torch.zeros(1))[1],
    *gating(torch.zeros(1))[1],
]
