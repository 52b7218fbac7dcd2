"""What some layers add on purpose: mixed heads, learned keys, a temperature, an end of its own."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from itertools import product
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from attention_checks.pipeline import Bug, Step, Way, Work, codes_of_table, unchanged
from attention_checks.signatures import parameters_of
from attention_nb.multi_head_attention import merge_heads, split_heads

MISSING = Bug("choice.missing", "{what} is declared, and not applied: apply it")
FAMILIES: list[Bug] = [
    MISSING,
    *codes_of_table(
        """
values.scaled: the context is {found} times what the weights and the values give: leave it as it is
    | value_scale={value}
context.activated: {name} is applied to the context: project it as it is | activation='{name}'
scores.cosine: queries and keys are normalised to length 1, and their products multiplied by
    {found}: use q kᵀ / √d_k | scale={found}, norms={{'q': 'l2', 'k': 'l2'}}
"""
    ),
]
ACTIVATIONS = (
    "relu gelu silu hardswish tanh sigmoid elu leaky_relu softplus relu6 selu mish softsign".split()
)


def ways_of(
    stage: str,  # where it is applied
    what: str,  # what declares it, such as "scale='tau'"
    steps: list[Step],  # each may be meant
) -> list[Way]:
    "Pair each way to apply a choice with the bug that it is not applied."
    missing = MISSING.about(what=what)._replace(steps={stage: unchanged})
    return [(step, [missing]) for step in steps]


def then(
    stage: str,  # of both
    first: list[Way],  # what comes first
    second: list[Way],  # what follows it
) -> list[Way]:  # every pair; a bug of one beside the other as it should be
    "Join two choices that are made at one stage."

    def both(f: Step, g: Step) -> Step:
        return lambda work: g(f(work))

    joined = []
    for (f, of_first), (g, of_second) in product(first, second):
        bugs = [bug._replace(steps={stage: both(bug.steps[stage], g)}) for bug in of_first]
        bugs += [bug._replace(steps={stage: both(f, bug.steps[stage])}) for bug in of_second]
        joined.append((both(f, g), bugs))
    return joined


def temperature_steps(
    temperature: Tensor,  # a parameter: one number, or one for each head
    name: str,  # of it: a logarithm says so, and a temperature, which may divide
) -> list[Step]:  # times it, through it, times its exponential; also beside 1/√d_k
    "List the ways to multiply scores by a learned temperature."
    t = temperature.flatten()[:, None, None]
    factors = [t.exp(), t.clamp(max=math.log(100)).exp()]
    if "log" not in name:
        divided = [1 / t] if re.search("temp|tau", name) else []
        factors = [t, *divided, *factors]

    def step(factor: Tensor, power: float) -> Step:
        return lambda work: work._replace(q=work.q * factor * work.q.shape[-1] ** power)

    return [step(factor, power) for power in (0.0, -0.5) for factor in factors]


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
    if learned.shape[-1] == h * d != d:
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


def shortened_by(
    by: Mapping[str, Callable[[Tensor], Tensor]],  # k, v → what makes fewer vectors of theirs
) -> Step:
    "Make a step that makes fewer keys, and values, along the sequence."

    def step(work: Work) -> Work:
        k, v = (by[r](t) if r in by else t for r, t in (("k", work.k), ("v", work.v)))
        allowed = torch.ones(*work.q.shape[:-1], k.shape[-2], dtype=torch.bool)
        return work._replace(k=k, v=v, allowed=allowed)

    return step


def told_allowed(
    f: Callable[..., Tensor],  # as declared
) -> bool:
    "Return whether a declared function of heads is told which keys it may attend to."
    return len(parameters_of(f) or ()) == 4


def attending(
    f: Callable[..., Tensor],  # heads (b, h, n, d) → contexts, as declared
    right: Callable[[int], float] = lambda d: d**-0.5,  # width of a head → the right scale
) -> Step:  # for the stage `mix`
    "Make a step that attends in another way than by a softmax; it may be told what is allowed."
    told = told_allowed(f)

    def step(work: Work) -> Work:
        more = (work.allowed,) if told else ()
        wrong = torch.as_tensor(work.scale).flatten() / right(work.q.shape[-1])
        outs = [f(q, work.k, work.v, *more) for q in (times * work.q for times in wrong)]
        return work._replace(out=torch.stack(outs) if len(outs) > 1 else outs[0])

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
