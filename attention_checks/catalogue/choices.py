"""What some attention adds on purpose, with the bugs of adding it: caps, sinks, gates, norms."""

from collections.abc import Callable, Mapping
from functools import partial
from itertools import product
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from attention_checks.catalogue.masks import BIAS
from attention_checks.explaining.pipeline import (
    Bug,
    RightStep,
    Step,
    Work,
    after,
    bugs_of_lines,
    bugs_of_stage,
    capping_by,
    listed,
    unchanged,
)
from attention_nb.grouped_heads import sink_softmax, soft_cap
from attention_nb.multi_head_attention import merge_heads, split_heads
from attention_nb.softmax import masked_softmax

_Norm = Callable[[Tensor], Tensor]

MISSING = Bug("choice.missing", "{what} is declared, and not applied: apply it")
_FITTED: list[Bug] = bugs_of_lines(
    """
choice.late: {what} is applied after the output projection: apply it to the context, before that
scores.capped: scores are squashed to ±{cap} by tanh | softcap={cap}
values.scaled: the context is {found} times what the weights and the values give: leave it as it is
    | value_scale={value}
context.activated: {name} is applied to the context: project it as it is | activation='{name}'
scale.beside: the scores are {found} times what scale= says: multiply q kᵀ by that alone
scores.cosine: queries and keys are normalised to length 1, and their products multiplied by
    {found}: use q kᵀ / √d_k | scale={found}, norms={{'q': 'l2', 'k': 'l2'}}
"""
)
ACTIVATIONS = (
    "relu gelu silu hardswish tanh sigmoid elu leaky_relu softplus relu6 selu mish softsign".split()
)


def right_steps(
    stage: str,  # where it is applied
    what: str,  # what declares it, such as "scale='tau'"
    steps: list[Step],  # each may be meant
) -> list[RightStep]:
    "Pair each way to apply a choice with the bug that it is not applied."
    missing = MISSING.about(what=what)._replace(steps={stage: unchanged})
    return [(step, [missing]) for step in steps]


def chained(
    stage: str,  # of both
    first: list[RightStep],  # what comes first
    second: list[RightStep],  # what follows it
) -> list[RightStep]:  # every pair; a bug of one beside the other as it should be
    "Join two choices that are made at one stage."

    def both(f: Step, g: Step) -> Step:
        return lambda work: g(f(work))

    bugs = [bug for _, some in (*first, *second) for bug in some]
    assert all(bug.steps.keys() == {stage} for bug in bugs), f"not all bugs are of {stage!r}"
    joined = []
    for (f, of_first), (g, of_second) in product(first, second):
        bugs = [bug._replace(steps={stage: both(bug.steps[stage], g)}) for bug in of_first]
        bugs += [bug._replace(steps={stage: both(f, bug.steps[stage])}) for bug in of_second]
        joined.append((both(f, g), bugs))
    return joined


def scaling(scale: Callable[[Work], Tensor]) -> RightStep:  # for the stage after `rotate`
    "Make the steps of a scale that the layer learns, or that its parts make."

    def step(f: Callable[[Tensor], Tensor]) -> Step:
        return lambda work: work._replace(q=work.q * f(scale(work)))

    missing = MISSING.about(what="scale=")._replace(steps={after("rotate"): unchanged})
    wrong = bugs_of_stage(after("rotate"), step, _LEARNED_SCALES)
    return step(lambda times: times), [missing, *wrong]


def mixing_heads(
    field: str,  # "scores" or "weights"
    matrices: list[Tensor],  # each may be meant, (h, h)
    bias: Tensor | None = None,  # of each head, (h,)
) -> list[Step]:
    "List the ways to mix heads before or after the softmax (talking heads)."
    more = torch.zeros(()) if bias is None else bias[:, None, None]

    def step(matrix: Tensor) -> Step:
        def mixed(work: Work) -> Work:
            heads = torch.einsum("hg,...gij->...hij", matrix, getattr(work, field))
            changed: dict[str, Any] = {field: heads + more}
            return work._replace(**changed)

        return mixed

    return [step(matrix) for matrix in matrices]


def _per_head(learned: Tensor, h: int, d: int) -> Tensor:
    "Read learned vectors as (h, m, d): of each head, of all heads at once, or shared by them."
    if h > 1 and learned.shape[-1] == h * d:
        return split_heads(learned.reshape(-1, h * d), h)
    rows = learned.reshape(*(size for size in learned.shape[:-1] if size > 1), d)
    if rows.ndim < 3:
        per_head = rows.ndim == 2 and len(rows) == h
        rows = rows.view(-1, 1, d) if per_head else rows.view(1, -1, d)
    return (rows if len(rows) in (1, h) else rows.transpose(0, 1)).expand(h, -1, -1)


def prefixing(
    keys: Tensor,  # learned
    values: Tensor,
    norm: Callable[[Tensor], Tensor],  # of the learned keys
) -> Step:
    "Make a step that puts learned keys and values, which all queries see, before the others."

    def step(work: Work) -> Work:
        b, h, _, d = work.k.shape
        k = norm(_per_head(keys, h, d)).expand(b, -1, -1, -1)
        v = _per_head(values, h, work.v.shape[-1]).expand(b, -1, -1, -1)
        m = k.shape[-2]
        return work._replace(
            k=torch.cat([k, work.k], -2),
            v=torch.cat([v, work.v], -2),
            allowed=F.pad(work.allowed, (m, 0), value=True),
            bias=F.pad(work.bias, (m, 0)) if work.bias.ndim else work.bias,
        )

    return step


def joined_by(
    matrix: Tensor,  # (r, n) or (n, r)
    bias: Tensor | None,  # (r,)
    t: Tensor,  # keys or values, (b, h, n, d)
) -> Tensor:  # (b, h, r, d)
    "Join vectors along the sequence."
    wide = matrix.shape[-1] > matrix.shape[-2]
    shorter = (matrix if wide else matrix.mT)[..., : t.shape[-2]] @ t
    return shorter if bias is None else shorter + bias[:, None]


def shortened_by(by: Mapping[str, Callable[[Tensor], Tensor]]) -> Step:
    "Make a step that makes fewer keys, and values, along the sequence, each by what is given."

    def step(work: Work) -> Work:
        k, v = (by[r](t) if r in by else t for r, t in (("k", work.k), ("v", work.v)))
        allowed = torch.ones(*work.q.shape[:-1], k.shape[-2], dtype=torch.bool)
        return work._replace(k=k, v=v, allowed=allowed)

    return step


def context_step(
    f: Callable[[Tensor], Tensor],  # of the context, (..., n, d)
    merged: bool = False,  # is it applied to all heads together?
) -> Step:
    "Make a step that changes the context before heads are merged."

    def step(work: Work) -> Work:
        if not merged:
            return work._replace(out=f(work.out))
        return work._replace(out=split_heads(f(merge_heads(work.out)), work.out.shape[-3]))

    return step


_NORMS: list[Bug] = bugs_of_lines(
    """
norm.queries_only: only the queries are normalised: normalise the keys too
norm.keys_only: only the keys are normalised: normalise the queries too
norm.mixes: what {name} makes of a vector depends on other vectors: take its mean and its mean
    square over features alone, dim=-1
norm.epsilon: {name} adds {found} to the mean square of vectors, which is about 1, so it does not
    give all one length: add 1e-6
"""
)
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
    "sink.first_column": (
        "the sinks stand after the scores, and the first column of the softmax is dropped: drop the"
        " last, [..., :-1]",
        lambda work, sinks: _with_sink(work, sinks)[..., 1:],
    ),
    "sink.last_column": (
        "the sinks stand before the scores, and the last column of the softmax is dropped: drop the"
        " first, [..., 1:]",
        lambda work, sinks: _with_sink(work, sinks).roll(1, -1)[..., :-1],
    ),
}

_GATES: dict[str, tuple[str, Callable[[Tensor, Tensor, Tensor], Tensor]]] = {
    "gate.missing": (
        "the gate is not applied: multiply the context by sigmoid(gate), or what gate= says",
        lambda out, gate, part: out,
    ),
    "gate.no_sigmoid": (
        "the gate is applied without a sigmoid: multiply the context by sigmoid(gate)",
        lambda out, gate, part: out * part,
    ),
}
_LEARNED_SCALES: dict[str, tuple[str, Callable[[Tensor], Tensor]]] = {
    "scale.divided": (
        "the scores are divided by what scale= says: multiply them by it",
        lambda scale: 1 / scale,
    ),
    "scale.exponential": (
        "the scores are multiplied by exp of what scale= says: multiply them by that alone, or"
        " declare its exp()",
        torch.exp,
    ),
    "scale.first": (
        "the scores of all heads are multiplied by what scale= says of the first: give each its"
        " own",
        lambda scale: scale[..., :1, :, :],
    ),
}


def _with_sink(work: Work, sinks: Tensor) -> Tensor:
    "Return weights, and those of the sinks as the last column."
    weights = sink_softmax(work.scores, sinks, work.allowed)
    return torch.cat([weights, 1 - weights.sum(-1, keepdim=True)], -1)


def _with_sum(work: Work, more: Tensor) -> Tensor:
    "Return weights with a number added to the sum of the exponentials."
    e = work.scores.exp() * work.allowed
    return e / (e.sum(-1, keepdim=True) + more)


def norming(
    norms: Mapping[str, _Norm],  # q, k → its norm
    stage: str = after("split"),  # where they are applied
    factors: Mapping[str, _Norm] = {},  # q, k → what may be left of a norm: its multiplication
) -> RightStep:
    "Make the steps of norms of queries and keys."
    bugs = []
    for rest in (factors, {}) if factors else ({},):
        if norms.keys() == {"q", "k"}:
            some = [{**rest, role: norms[role]} for role in "qk"]
            bugs += [bug._replace(steps={stage: _normed(n)}) for bug, n in zip(_NORMS, some)]
        bugs.append(MISSING.about(what="norms=")._replace(steps={stage: _normed(rest)}))
    return _normed(norms), bugs


def _normed(norms: Mapping[str, _Norm]) -> Step:
    "Make a step that normalises queries, keys, or both."

    def step(work: Work) -> Work:
        normed: dict[str, Any] = {role: f(getattr(work, role)) for role, f in norms.items()}
        return work._replace(**normed)

    return step


def capping(cap: float) -> RightStep:  # for the stage `cap`
    "Make the steps of a soft cap, and of a bias that is added after it."

    def step(f: Callable[[Tensor, float], Tensor]) -> Step:
        return capping_by(lambda scores: f(scores, cap))

    late = partial(capping_by, lambda scores: soft_cap(scores, cap))
    bugs = [*bugs_of_stage("cap", step, _CAPS), *bugs_of_stage("cap", late, _LATE)]
    return step(soft_cap), bugs


def sinking(sinks: Tensor) -> RightStep:  # for the stage `weigh`
    "Make the steps of sinks, one logit per head."

    def step(f: Callable[[Work, Tensor], Tensor]) -> Step:
        return lambda work: work._replace(weights=f(work, sinks))

    return step(lambda work, sinks: sink_softmax(work.scores, sinks, work.allowed)), bugs_of_stage(
        "weigh", step, _SINKS
    )


def gating(
    gate: Callable[[], Tensor],  # (b, n, h) or (b, n, width): what multiplies the context
    part: Callable[[], Tensor],  # the same without its sigmoid, if it is known to have one
    stage: str = after("merge"),  # or after "mix": of each head, in whatever order they are merged
) -> RightStep:  # for that stage
    "Make the steps of a gate."

    def step(f: Callable[[Tensor, Tensor, Tensor], Tensor]) -> Step:
        def gated(work: Work) -> Work:
            both = (_over(work.out, made(), stage) for made in (gate, part))
            return work._replace(out=f(work.out, *both))

        return gated

    return step(lambda out, gate, part: out * gate), bugs_of_stage(stage, step, _GATES)


def _over(out: Tensor, gate: Tensor, stage: str) -> Tensor:
    "Bring a gate into the shape of contexts: those of each head, or merged ones."
    if stage != after("merge"):
        return gate.mT[..., None]
    return gate.repeat_interleave(out.shape[-1] // gate.shape[-1], -1)


BUGS: list[Bug] = [
    *_NORMS,
    *listed(_CAPS, _SINKS, _LEARNED_SCALES, _GATES),
    MISSING,
    *_FITTED,
]
