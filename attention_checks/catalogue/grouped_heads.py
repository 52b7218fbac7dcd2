"""Bugs of grouped heads, and of parts that some layers have: norms, soft caps, sinks, gates."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from attention_checks.catalogue.layers import splitting
from attention_checks.catalogue.masks import BIAS
from attention_checks.pipeline import Bug, Step, Way, Work, after, bugs_of, capping_by
from attention_nb.grouped_heads import sink_softmax, soft_cap
from attention_nb.softmax import masked_softmax

_Norm = Callable[[Tensor], Tensor]
_HeadOf = Callable[[int, int, int], int]  # query head, n_heads, n_kv_heads → key and value head


def _reading(head_of: _HeadOf) -> Callable[[Tensor, int], Tensor]:
    "Give each query head the key or value head that a rule names."
    return lambda kv, h: kv[..., [head_of(i, h, kv.shape[-3]) for i in range(h)], :, :]


def _averaged(kv: Tensor, n_heads: int) -> Tensor:
    "Give every query head the mean of all key or value heads."
    return kv.mean(-3, keepdim=True).expand(*kv.shape[:-3], n_heads, *kv.shape[-2:])


_READS = "query head i reads key and value head {}: read head i // (n_heads // n_kv_heads)"
GROUP_BUGS: list[Bug] = bugs_of(
    "split",
    lambda share: splitting(share_k=share, share_v=share),
    {
        "groups.divisor": (_READS.format("i // n_kv_heads"), _reading(lambda i, h, g: i // g)),
        "groups.remainder": (
            _READS.format("i % (n_heads // n_kv_heads)"),
            _reading(lambda i, h, g: i % (h // g)),
        ),
        "groups.averaged": (
            "query heads read the mean of all key and value heads:"
            " repeat each for its group (repeat_interleave)",
            _averaged,
        ),
    },
)


CAPPED = Bug("scores.capped", "scores are squashed to ±{cap} by tanh", declare="softcap={cap}")

_NORMS: dict[str, tuple[str, Callable[[Work, _Norm, _Norm], Work]]] = {
    "norm.queries_only": (
        "only the queries are normalised: normalise the keys too",
        lambda work, q, k: work._replace(q=q(work.q)),
    ),
    "norm.keys_only": (
        "only the keys are normalised: normalise the queries too",
        lambda work, q, k: work._replace(k=k(work.k)),
    ),
}
_CAPS: dict[str, tuple[str, Callable[[Tensor, float], Tensor]]] = {
    "cap.missing": ("the scores are not capped: use cap * tanh(scores / cap)", lambda s, cap: s),
    "cap.not_multiplied": (
        "the scores are capped at ±1: multiply tanh(scores / cap) by the cap",
        lambda s, cap: (s / cap).tanh(),
    ),
    "cap.not_divided": (
        "the scores are not divided by the cap: use cap * tanh(scores / cap)",
        lambda s, cap: cap * s.tanh(),
    ),
    "cap.cut": (
        "the scores are clamped at the cap: use cap * tanh(scores / cap)",
        lambda s, cap: s.clamp(-cap, cap),
    ),
}
_BIAS_SAYS = {bug.code: bug.says for bug in BIAS}
_LATE: dict[str, tuple[str, Callable[[Tensor, Tensor], Tensor]]] = {
    "bias.ignored": (_BIAS_SAYS["bias.ignored"], lambda scores, bias: scores),
    "bias.subtracted": (_BIAS_SAYS["bias.subtracted"], torch.sub),
}
_SINKS: dict[str, tuple[str, Callable[[Work, Tensor], Tensor]]] = {
    "sink.missing": (
        "the sinks get no probability: append them to the scores before the softmax",
        lambda work, sinks: masked_softmax(work.scores, work.allowed),
    ),
    "sink.zero": (
        "each sink counts as a logit of 0 (softmax off by one): use the learned logits",
        lambda work, sinks: sink_softmax(work.scores, 0 * sinks, work.allowed),
    ),
    "sink.first": (
        "all heads use the sink of the first: give each head its own logit",
        lambda work, sinks: sink_softmax(work.scores, sinks[:1].expand_as(sinks), work.allowed),
    ),
    "sink.scaled": (
        "the sinks are scaled with the scores: append them after scaling",
        lambda work, sinks: _with_sum(work, (work.scale * sinks[:, None, None]).exp()),
    ),
    "sink.no_exp": (
        "the sinks are added to the sum of the softmax without exp: add exp(sink)",
        lambda work, sinks: _with_sum(work, sinks[:, None, None]),
    ),
}

_GATES: dict[str, tuple[str, Callable[[Tensor, Tensor], Tensor]]] = {
    "gate.missing": (
        "the gate is not applied: multiply the context by sigmoid(gate)",
        lambda out, gate: out,
    ),
    "gate.no_sigmoid": (
        "the gate is applied without a sigmoid: multiply the context by sigmoid(gate)",
        lambda out, gate: out * gate,
    ),
}


def _with_sum(work: Work, more: Tensor) -> Tensor:
    "Return weights with a number added to the sum of the exponentials."
    e = work.scores.exp() * work.allowed
    return e / (e.sum(-1, keepdim=True) + more)


def norming(
    norm_q: Callable[[Tensor], Tensor],  # the norm of the queries
    norm_k: Callable[[Tensor], Tensor],  # the norm of the keys
    stage: str = after("split"),  # where they are applied
) -> Way:
    "Make the steps of norms of queries and keys."
    right = lambda work: work._replace(q=norm_q(work.q), k=norm_k(work.k))
    return right, bugs_of(stage, lambda f: lambda work: f(work, norm_q, norm_k), _NORMS)


def capping(
    cap: float,  # no score reaches it
) -> Way:  # for the stage `cap`
    "Make the steps of a soft cap, and of a bias that is added after it."

    def step(f: Callable[[Tensor, float], Tensor]) -> Step:
        return capping_by(lambda scores: f(scores, cap))

    late = partial(capping_by, lambda scores: soft_cap(scores, cap))
    bugs = [*bugs_of("cap", step, _CAPS), *bugs_of("cap", late, _LATE)]
    return step(soft_cap), bugs


def sinking(
    sinks: Tensor,  # one logit per head, (h,)
) -> Way:  # for the stage `weigh`
    "Make the steps of sinks."

    def step(f: Callable[[Work, Tensor], Tensor]) -> Step:
        return lambda work: work._replace(weights=f(work, sinks))

    return step(lambda work, sinks: sink_softmax(work.scores, sinks, work.allowed)), bugs_of(
        "weigh", step, _SINKS
    )


GATES: list[Callable[[Tensor], Tensor]] = [  # its activation functions
    torch.sigmoid,
    lambda gate: 2 * gate.sigmoid(),
    torch.tanh,
    torch.nn.functional.silu,
]


def gating(
    gate: Tensor,  # before its activation function, (b, n, h) or (b, n, width)
    function: Callable[[Tensor], Tensor] = torch.sigmoid,  # one of GATES
) -> Way:  # for the stage after `merge`
    "Make the steps of a gate."

    def step(f: Callable[[Tensor, Tensor], Tensor]) -> Step:
        return lambda work: work._replace(
            out=f(work.out, gate.repeat_interleave(work.out.shape[-1] // gate.shape[-1], -1))
        )

    return step(lambda out, gate: out * function(gate)), bugs_of(after("merge"), step, _GATES)


_SAME: Any = torch.nn.Identity()
GROUPED_ALL: list[Bug] = [
    *GROUP_BUGS,
    CAPPED,
    *norming(_SAME, _SAME)[1],
    *capping(1.0)[1],
    *sinking(torch.zeros(1))[1],
    *gating(torch.zeros(1))[1],
]
