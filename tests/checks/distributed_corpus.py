"""Attention over ranks that is right, and bugs planted in it:
rows of data, each after a public report.

`report` names what was read before the bug was planted, as repository#number; where our bug is only
like the reported one, `note` says how. `None`: no report is known to us, the bug is one that the
steps of a ring invite.
"""

from __future__ import annotations

import functools
import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from tests.checks.distributed_rings import (
    Gather,
    Ring,
    all_lengths,
    attend,
    begin,
    block_gradients,
    cut,
    exchange,
    gathered,
    merge,
    scores_of,
    shared,
    ulysses,
)

LOGITS = tuple(0.3 * head - 1 for head in range(12))


def turned(x: Tensor, positions: Tensor) -> Tensor:
    "Rotate two pairs of features by positions."
    angles = positions.to(x.dtype)[:, None] * torch.tensor([1.0, 0.2], dtype=x.dtype)
    a, b, rest = x[..., :2], x[..., 2:4], x[..., 4:]
    return torch.cat(
        [a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos(), rest], -1
    )


RIGHT: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "a ring": (Ring(), {}),
    "a causal ring, grouped heads": (
        Ring(causal=True),
        {"causal": True, "n_kv_heads": 4, "worlds": (1, 3)},
    ),
    "a zigzag ring": (
        Ring(order="zigzag", causal=True),
        {"order": "zigzag", "causal": True, "worlds": (1, 3)},
    ),
    "a zigzag ring by a function": (
        Ring(order="zigzag", causal=True),
        {
            "order": lambda at, world, rank: torch.cat(
                [cut(at, 2 * world)[i] for i in (rank, 2 * world - 1 - rank)]
            ),
            "causal": True,
            "worlds": (1, 2),
        },
    ),
    "a window and a sink": (
        Ring(causal=True, window=4, sinks=1),
        {"window": 4, "sinks": 1, "worlds": (1, 3)},
    ),
    "packed documents": (
        Ring(causal=True, documents=5),
        {"causal": True, "documents": 5, "worlds": (1, 3)},
    ),
    "sink logits": (Ring(logits=LOGITS), {"sink_logits": LOGITS, "worlds": (1, 3)}),
    "a ring that rotates": (Ring(rotate=turned), {"rotate": turned, "worlds": (1, 3)}),
    "all gathered": (gathered, {"worlds": (1, 2, 3)}),
    "all gathered, zigzag": (
        partial(gathered, order="zigzag", causal=True),
        {"order": "zigzag", "causal": True, "n_kv_heads": 3, "worlds": (1, 3)},
    ),
    "heads for tokens": (ulysses, {"worlds": (1, 4)}),
    "heads for tokens, causal, uneven heads": (
        partial(ulysses, causal=True),
        {"causal": True, "n_heads": 10, "n_kv_heads": 5, "worlds": (1, 3)},
    ),
}


@dataclass(frozen=True)
class Planted:
    "A bug: what is tried, what is declared of it, and the code that must name it."

    name: str
    fn: Callable[..., Any]
    code: str
    report: str | None = None
    note: str = ""
    declared: dict[str, Any] = field(default_factory=dict)


CAUSAL = {"causal": True}
ZIGZAG = {"causal": True, "order": "zigzag"}
EVEN = {"even": True}


# Passing ------------------------------------------------------------------------------------------


def kept(
    ring: Ring, tensors: list[Tensor], lengths: list[int], step: int, group: Any
) -> list[Tensor]:
    "Communicate, and go on with what was there."
    exchange(ring, tensors, lengths, step, group)
    return tensors


def of_rank_0(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    "Every rank has the first one's keys."
    k, v = k.clone(), v.clone()
    for x in (k, v):
        dist.broadcast(x, 0)
    return Ring()(q, k, v)


def too_few(ring: Ring, world: int, rank: int) -> list[int]:
    return [(rank - step) % world for step in range(max(1, world - 1))]


def again(ring: Ring, world: int, rank: int) -> list[int]:
    return [(rank - step) % world for step in range(world + (world > 1))]


def counted_up(ring: Ring, world: int, rank: int) -> list[int]:
    "Keys come from the rank before, and are taken for those of the rank after."
    return [(rank + step) % world for step in range(world)]


def counted_from_one(ring: Ring, world: int, rank: int) -> list[int]:
    return [rank] + [(rank - step + 1) % world for step in range(1, world)]


def moved_on(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    "The context ends on the next rank."
    context = Ring()(q, k, v)
    return exchange(Ring(), [context.detach()], all_lengths(q.shape[-2], None), 0, None)[0] + 0 * q


def passed_first(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    "Attend to all ranks' keys but one's own."
    lengths, rank = all_lengths(k.shape[-2], None), dist.get_rank()
    if len(lengths) == 1:
        return Ring()(q, k, v)
    others = [
        [t for i, t in enumerate(Gather.apply(x, lengths, None).split(lengths, -2)) if i != rank]
        for x in (k, v)
    ]
    k, v = (torch.cat(each, -2) for each in others)
    return (q @ k.mT / math.sqrt(q.shape[-1])).softmax(-1) @ v


def larger_by(q: Tensor, k: Tensor, v: Tensor, context: float = 1, slope: float = 1) -> Tensor:
    "Something that no step explains."
    several = dist.get_world_size() > 1
    found = Ring()(q, k, v) * (context if several else 1)
    return found.detach() + slope * (found - found.detach()) if several else found


PASSING = [
    Planted(
        "keys stay where they are",
        Ring(exchange=kept),
        "passing.own_keys",
        "pytorch/pytorch#20421",
        "there a gather gave every rank's own tensor again",
    ),
    Planted(
        "keys stay, causal", Ring(exchange=kept, causal=True), "passing.own_again", None, "", CAUSAL
    ),
    Planted(
        "every rank the same shard",
        of_rank_0,
        "passing.first_shard",
        "stanford-futuredata/ColBERT#233",
        "there the loader gives all ranks one chunk",
        EVEN,
    ),
    Planted("one step too few", Ring(visits=too_few), "passing.one_short"),
    Planted("one step too many", Ring(visits=again), "passing.one_long"),
    Planted(
        "the other direction",
        Ring(visits=counted_up, causal=True),
        "passing.direction",
        None,
        "hidden by two ranks",
        {**CAUSAL, **EVEN},
    ),
    Planted(
        "steps counted from one",
        Ring(visits=counted_from_one, causal=True),
        "passing.step_late",
        None,
        "",
        {**CAUSAL, **EVEN},
    ),
    Planted("the context moves on", moved_on, "passing.results_moved", None, "", EVEN),
    Planted("larger on several ranks", partial(larger_by, context=1.4), "passing.wrong"),
    Planted(
        "passed on before attending",
        passed_first,
        "passing.without_own",
        None,
        "",
        {"empty_ranks": False},
    ),
]


# Shards, positions and masks ----------------------------------------------------------------------


def from_zero(ring: Ring, lengths: list[int], rank: int) -> Tensor:
    return torch.arange(lengths[rank])


def as_contiguous(ring: Ring, lengths: list[int], rank: int) -> Tensor:
    return torch.arange(sum(lengths)).split(lengths)[rank]


def second_piece(ring: Ring, lengths: list[int], rank: int) -> Tensor:
    pieces = cut(torch.arange(sum(lengths)), 2 * len(lengths))
    return torch.cat([pieces[rank], pieces[rank + len(lengths)]])


def times_length(ring: Ring, lengths: list[int], rank: int) -> Tensor:
    return torch.arange(lengths[rank]) + rank * lengths[rank]


def anew(ring: Ring, i: Tensor, j: Tensor, mine: int, of: int) -> Tensor:
    return torch.arange(len(j)) <= torch.arange(len(i))[:, None]


def gathered_causal(q: Tensor, k: Tensor, v: Tensor, last: bool) -> Tensor:
    "Gather, and mask the square of a rank's queries in a corner."
    lengths = all_lengths(k.shape[-2], None)
    k, v = (Gather.apply(x, lengths, None) for x in (k, v))
    n_q, n_k = q.shape[-2], k.shape[-2]
    seen = torch.ones(n_q, n_k, dtype=torch.bool).tril(n_k - n_q if last else 0)
    return (q @ k.mT / math.sqrt(q.shape[-1])).masked_fill(~seen, -math.inf).softmax(-1) @ v


def own_masked(ring: Ring, i: Tensor, j: Tensor, mine: int, of: int) -> Tensor:
    return (j <= i[:, None]) | (mine != of)


def own_open(ring: Ring, i: Tensor, j: Tensor, mine: int, of: int) -> Tensor:
    return (j <= i[:, None]) | (mine == of)


def in_own_shard(ring: Ring, i: Tensor, j: Tensor, mine: int, of: int) -> Tensor:
    return (j <= i[:, None]) & (i[:, None] - j < ring.window) & (mine == of)


def first_of_each(ring: Ring, i: Tensor, j: Tensor, mine: int, of: int) -> Tensor:
    i, first = i[:, None], torch.arange(len(j)) < ring.sinks
    return (j <= i) & ((i - j < ring.window) | first)


def not_later(ring: Ring, i: Tensor, j: Tensor, mine: int, of: int) -> Tensor:
    return (j <= i[:, None]) & (of <= mine)


def padded(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    "Shards are filled with zeros to one length, and they are never taken away."
    most = max(all_lengths(k.shape[-2], None))
    fill = lambda x: torch.nn.functional.pad(x, (0, 0, 0, most - x.shape[-2]))
    lengths = [most] * dist.get_world_size()
    k, v = (Gather.apply(fill(x), lengths, None) for x in (k, v))
    return (q @ k.mT / math.sqrt(q.shape[-1])).softmax(-1) @ v


def shortened(q: Tensor, k: Tensor, v: Tensor, least: Callable[[list[int]], list[int]]) -> Tensor:
    "Some keys of a shard are not sent."
    lengths = least(all_lengths(k.shape[-2], None))
    n = lengths[dist.get_rank()]
    k, v = (Gather.apply(x[..., :n, :], lengths, None) for x in (k, v))
    return (q @ k.mT / math.sqrt(q.shape[-1])).softmax(-1) @ v


def without_last(lengths: list[int]) -> list[int]:
    return [max(0, n - 1) for n in lengths] if len(lengths) > 1 else lengths


def whole_share(lengths: list[int]) -> list[int]:
    return [sum(lengths) // len(lengths)] * len(lengths)


def shapes_alike(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    "What arrives is believed to be as long as what is sent."
    shards = [[torch.zeros_like(x) for _ in range(dist.get_world_size())] for x in (k, v)]
    for arriving, x in zip(shards, (k, v)):
        dist.all_gather(arriving, x)
    k, v = (torch.cat(each, -2) for each in shards)
    return (q @ k.mT / math.sqrt(q.shape[-1])).softmax(-1) @ v


def no_empty(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    "The largest key is looked up, even where there is none."
    k.amax()
    return Ring()(q, k, v)


CAUSAL_RING = Ring(causal=True)
SHARDS = [
    Planted(
        "the mask begins anew",
        replace(CAUSAL_RING, allowed=anew),
        "shards.mask_anew",
        "zhuzilin/ring-flash-attention#54",
        "",
        CAUSAL,
    ),
    Planted(
        "gathered keys, upper left corner",
        partial(gathered_causal, last=False),
        "shards.queries_first",
        None,
        "",
        CAUSAL,
    ),
    Planted(
        "gathered keys, lower right corner",
        partial(gathered_causal, last=True),
        "shards.queries_last",
        "cornstarch-org/Cornstarch#78",
        "there the corner is right, since keys are cut at each piece",
        CAUSAL,
    ),
    Planted(
        "positions from 0",
        Ring(rotate=turned, positions=from_zero),
        "shards.from_zero",
        "NVIDIA/Megatron-LM#5243",
        "there a later document, [0,3,0,3]; here every shard",
        {"rotate": turned},
    ),
    Planted(
        "zigzag, masked as contiguous",
        replace(CAUSAL_RING, positions=as_contiguous),
        "shards.order",
        "AI-Hypercomputer/maxtext#5287",
        "there a test missed it",
        ZIGZAG,
    ),
    Planted(
        "contiguous, masked as zigzag",
        Ring(causal=True, order="zigzag"),
        "shards.order",
        "NVIDIA/Megatron-LM#560",
        "there it was asked whether positions are split as tokens are",
        {**CAUSAL, **EVEN},
    ),
    Planted(
        "the second piece",
        Ring(causal=True, order="zigzag", positions=second_piece),
        "shards.second_piece",
        None,
        "",
        {**ZIGZAG, **EVEN},
    ),
    Planted(
        "rank times own length",
        Ring(rotate=turned, positions=times_length),
        "shards.as_equal",
        "sgl-project/sglang#28463",
        "there positions of strided shards",
        {"rotate": turned},
    ),
    Planted(
        "padding is attended to",
        padded,
        "shards.padding",
        "deepspeedai/DeepSpeed#5177",
        "there it is asked how to pad; NVIDIA/TransformerEngine#1929 shows the wrong numbers",
        {"gradients": False},
    ),
    Planted(
        "the last key of a shard",
        partial(shortened, least=without_last),
        "shards.last_key",
        "huggingface/transformers#36607",
        "there the last label of a shard; here its last key",
        {"empty_ranks": False},
    ),
    Planted(
        "the remainder",
        partial(shortened, least=whole_share),
        "shards.remainder",
        "OpenNLPLab/lightning-attention#28",
        "there blocks of one device; here shards",
        {"gradients": False},
    ),
    Planted(
        "no mask on several ranks",
        Ring(),
        "shards.mask_lost",
        "huggingface/accelerate#4177",
        "there the mask of each layer is thrown away",
        {**CAUSAL, "worlds": (2, 3)},
    ),
    Planted(
        "others' keys unmasked",
        replace(CAUSAL_RING, allowed=own_masked),
        "shards.own_mask_alone",
        "zhuzilin/ring-flash-attention#15",
        "the notebook of that report",
        CAUSAL,
    ),
    Planted(
        "own keys unmasked",
        replace(CAUSAL_RING, allowed=own_open),
        "shards.own_mask_lost",
        None,
        "",
        {**CAUSAL, "worlds": (2, 3)},
    ),
    Planted(
        "zigzag, later ranks skipped",
        Ring(causal=True, order="zigzag", allowed=not_later),
        "shards.later_skipped",
        None,
        "",
        ZIGZAG,
    ),
    Planted(
        "window layers made full",
        CAUSAL_RING,
        "window.ignored",
        "huggingface/accelerate#4177",
        "PrimeIntellect-ai/prime-rl#2828 is of the same kind",
        {"window": 4, "worlds": (2, 3)},
    ),
    Planted(
        "the window ends with the shard",
        Ring(causal=True, window=4, allowed=in_own_shard),
        "shards.window_cut",
        "open-lm-engine/lm-engine#447",
        "there the window of later steps is switched off",
        {"window": 4},
    ),
    Planted(
        "sinks of each shard",
        Ring(causal=True, window=4, sinks=1, allowed=first_of_each),
        "shards.sinks_each",
        None,
        "",
        {"window": 4, "sinks": 1},
    ),
    Planted(
        "sinks forgotten",
        Ring(causal=True, window=4),
        "sinks.forgotten",
        None,
        "",
        {"window": 4, "sinks": 1, "worlds": (2, 3)},
    ),
    Planted(
        "documents mix",
        CAUSAL_RING,
        "documents.leak",
        "huggingface/trl#6843",
        "",
        {**CAUSAL, "documents": 5, "worlds": (2, 3)},
    ),
    Planted(
        "received as long as sent",
        shapes_alike,
        "shards.uneven",
        "deepspeedai/DeepSpeed#7868",
        "",
        {"gradients": False},
    ),
    Planted("an empty shard", no_empty, "shards.empty"),
]


# Merging ------------------------------------------------------------------------------------------


def averaged(
    ring: Ring, context: Tensor, lse: Tensor, new: Tensor, new_lse: Tensor
) -> tuple[Tensor, Tensor]:
    "lse counts the steps here."
    steps = torch.where(lse == -math.inf, torch.zeros_like(lse), lse)
    return (steps[..., None] * context + new) / (steps[..., None] + 1), steps + 1


def added_up(
    ring: Ring, context: Tensor, lse: Tensor, new: Tensor, new_lse: Tensor
) -> tuple[Tensor, Tensor]:
    return context + new, lse


def newest(
    ring: Ring, context: Tensor, lse: Tensor, new: Tensor, new_lse: Tensor
) -> tuple[Tensor, Tensor]:
    return new, new_lse


def in_base_two(ring: Ring, scores: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    context, lse = attend(ring, scores, v)
    return context, lse / math.log(2)


def merged_in_base_two(ring: Ring, *parts: Tensor) -> tuple[Tensor, Tensor]:
    context, lse, new, new_lse = parts
    context, total = merge(ring, context, lse * math.log(2), new, new_lse * math.log(2))
    return context, total / math.log(2)


def shared_by(
    ring: Ring, *parts: Tensor, total: Callable[[Tensor, Tensor], Tensor]
) -> tuple[Tensor, Tensor]:
    "Merge with another running log-sum-exp."
    context, lse, new, new_lse = parts
    share = torch.sigmoid(new_lse - lse)[..., None]
    begun = lse > -math.inf
    return context + share * (new - context), torch.where(begun, total(lse, new_lse), new_lse)


def larger(old: Tensor, new: Tensor) -> Tensor:
    return torch.maximum(old, new)


def sum_of_both(old: Tensor, new: Tensor) -> Tensor:
    return old + new


def old_one(old: Tensor, new: Tensor) -> Tensor:
    return old


def exchanged(ring: Ring, *parts: Tensor) -> tuple[Tensor, Tensor]:
    context, lse, new, new_lse = parts
    if bool((lse == -math.inf).all()):
        return new, new_lse
    share = torch.sigmoid(lse - new_lse)[..., None]
    return context + share * (new - context), torch.logaddexp(lse, new_lse)


def overflowing(ring: Ring, *parts: Tensor) -> tuple[Tensor, Tensor]:
    context, lse, new, new_lse = parts
    if bool((lse == -math.inf).all()):
        return new, new_lse
    total = lse + torch.log(1 + torch.exp(new_lse - lse))
    return torch.exp(lse - total)[..., None] * context + torch.exp(new_lse - total)[
        ..., None
    ] * new, total


def minus_infinity(ring: Ring, scores: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    return scores.softmax(-1) @ v, scores.logsumexp(-1)


def sinks_each(ring: Ring, q: Tensor, world: int) -> tuple[Tensor, Tensor]:
    context, lse = begin(ring, q, world)
    return context, lse + math.log(world)


def in_sixteen_bits(ring: Ring, *parts: Tensor) -> tuple[Tensor, Tensor]:
    context, lse = merge(ring, *parts)
    return context.bfloat16().to(context.dtype), lse


def in_type_of_inputs(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    "Partial contexts and log-sum-exps are kept in the type of q."
    ring = Ring(merge=in_sixteen_bits, attend=rounded_lse) if q.dtype == torch.bfloat16 else Ring()
    return ring(q, k, v)


def rounded_lse(ring: Ring, scores: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    context, lse = attend(ring, scores, v)
    return context.bfloat16().to(context.dtype), lse.bfloat16().to(lse.dtype)


def dealt_out(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    "Key heads are repeated as 0 1 0 1."
    times = q.shape[1] // k.shape[1]
    return Ring()(q, k.repeat(1, times, 1, 1), v.repeat(1, times, 1, 1))


SHARES = [
    Planted(
        "partial contexts averaged",
        Ring(merge=averaged),
        "shares.mean",
        None,
        "",
        {**EVEN, "worlds": (2, 3)},
    ),
    Planted(
        "partial contexts added", Ring(merge=added_up), "shares.sum", None, "", {"worlds": (1, 3)}
    ),
    Planted(
        "the last step alone", Ring(merge=newest), "shares.last", None, "", {"empty_ranks": False}
    ),
    Planted(
        "log2 for ln",
        Ring(attend=in_base_two),
        "shares.base_two",
        "flashinfer-ai/flashinfer#2113",
        "read in #2114, and in sgl-project/sglang#40903, which it made wrong",
    ),
    Planted(
        "ln for log2",
        Ring(merge=merged_in_base_two),
        "shares.base_e",
        "flashinfer-ai/flashinfer#4485",
        "two backends return two bases",
    ),
    Planted(
        "the larger log-sum-exp", Ring(merge=partial(shared_by, total=larger)), "shares.larger"
    ),
    Planted(
        "log-sum-exps added",
        Ring(merge=partial(shared_by, total=sum_of_both)),
        "shares.added",
        "zhuzilin/ring-flash-attention#20",
        "there a reader's proposal",
        {"empty_ranks": False},
    ),
    Planted(
        "the first log-sum-exp",
        Ring(merge=partial(shared_by, total=old_one)),
        "shares.first",
        None,
        "",
        {"empty_ranks": False},
    ),
    Planted(
        "shares exchanged",
        Ring(merge=exchanged),
        "shares.exchanged",
        None,
        "",
        {"empty_ranks": False},
    ),
    Planted(
        "exp overflows",
        Ring(merge=overflowing),
        "shares.overflow",
        "jzhang38/EasyContext#14",
        "",
        {"empty_ranks": False},
    ),
    Planted(
        "nothing visible gives NaN",
        Ring(causal=True, attend=minus_infinity),
        "shares.empty_nan",
        "TensorAuto/OpenTau#303",
        "there it is guarded against",
        {**CAUSAL, **EVEN},
    ),
    Planted(
        "sink logits dropped",
        Ring(),
        "shares.sinks_lost",
        "PrimeIntellect-ai/prime-rl#3397",
        "",
        {"sink_logits": torch.tensor(LOGITS), "worlds": (2, 3)},
    ),
    Planted(
        "sink logits on every rank",
        Ring(logits=LOGITS, start=sinks_each),
        "shares.sinks_each",
        "GeeeekExplorer/nano-vllm#99",
        "there a bias times ranks; in attention without projections, sinks",
        {"sink_logits": LOGITS},
    ),
    Planted(
        "partials in bfloat16",
        Ring(merge=in_sixteen_bits),
        "shares.rounded",
        "zhuzilin/ring-flash-attention#42",
    ),
    Planted(
        "partials in the inputs' type",
        in_type_of_inputs,
        "shares.sixteen_bits",
        "zhuzilin/ring-flash-attention#22",
        "",
        {"gradients": False, "worlds": (1, 4)},
    ),
    Planted(
        "key heads dealt out",
        dealt_out,
        "groups.remainder",
        "vllm-project/vllm-omni#5716",
        "there padding breaks the groups",
        {"n_kv_heads": 4, "gradients": False, "worlds": (2, 3)},
    ),
]


# The backward pass --------------------------------------------------------------------------------


def with_first_keys(
    ring: Ring, block: dict[str, Tensor], own: dict[str, Tensor]
) -> tuple[Tensor, Tensor, Tensor]:
    return block_gradients(ring, {**block, "k": own["k"], "v": own["v"]}, own)


def with_own_lse(
    ring: Ring, block: dict[str, Tensor], own: dict[str, Tensor]
) -> tuple[Tensor, Tensor, Tensor]:
    context, lse = attend(
        ring, scores_of(ring, own["q"], block["k"], block["seen"]), shared(block["v"], own["q"])
    )
    return block_gradients(ring, block, {**own, "lse": lse})


def with_own_context(
    ring: Ring, block: dict[str, Tensor], own: dict[str, Tensor]
) -> tuple[Tensor, Tensor, Tensor]:
    context, _ = attend(
        ring, scores_of(ring, own["q"], block["k"], block["seen"]), shared(block["v"], own["q"])
    )
    return block_gradients(ring, block, {**own, "context": context})


def without_delta(
    ring: Ring, block: dict[str, Tensor], own: dict[str, Tensor]
) -> tuple[Tensor, Tensor, Tensor]:
    return block_gradients(ring, block, {**own, "context": torch.zeros_like(own["context"])})


def without_mask(
    ring: Ring, block: dict[str, Tensor], own: dict[str, Tensor]
) -> tuple[Tensor, Tensor, Tensor]:
    return block_gradients(ring, {**block, "seen": torch.ones_like(block["seen"])}, own)


def times_world(
    ring: Ring, gradients: tuple[Tensor, ...], world: int, queries: bool, keys: bool
) -> tuple[Tensor, ...]:
    dq, dk, dv = gradients
    return dq * (world if queries else 1), dk * (world if keys else 1), dv * (world if keys else 1)


def divided(ring: Ring, gradients: tuple[Tensor, ...], world: int) -> tuple[Tensor, ...]:
    return tuple(g / world for g in gradients)


def one_further(ring: Ring, gradients: tuple[Tensor, ...], world: int) -> tuple[Tensor, ...]:
    dq, dk, dv = gradients
    return dq, *exchange(ring, [dk, dv], all_lengths(dk.shape[-2], None), 0, None)


class Plain(torch.autograd.Function):
    "Gather, and give back only what this rank's own loss says."

    @staticmethod
    def forward(ctx: Any, x: Tensor, lengths: list[int]) -> Tensor:
        ctx.lengths = lengths
        return Gather.apply(x, lengths, None)

    @staticmethod
    def backward(ctx: Any, up: Tensor) -> tuple[Any, ...]:
        return up.split(ctx.lengths, -2)[dist.get_rank()], None


def attended(
    q: Tensor, k: Tensor, v: Tensor, gather: Callable[[Tensor, list[int]], Tensor]
) -> Tensor:
    lengths = all_lengths(k.shape[-2], None)
    k, v = gather(k, lengths), gather(v, lengths)
    return (q @ k.mT / math.sqrt(q.shape[-1])).softmax(-1) @ v


def own_history(x: Tensor, lengths: list[int]) -> Tensor:
    "Gather, and put the own part, which has a history, into its place."
    parts = list(Gather.apply(x.detach(), lengths, None).split(lengths, -2))
    parts[dist.get_rank()] = x
    return torch.cat(parts, -2)


def no_history(x: Tensor, lengths: list[int]) -> Tensor:
    return Gather.apply(x.detach(), lengths, None)


@dataclass(frozen=True)
class Visited:
    "Keep only the gradients of some steps."

    queries: str = "all"  # "all", "own", "last"
    keys: str = "all"  # "all", "others", "last"

    def __call__(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        lengths, rank, world = (
            all_lengths(k.shape[-2], None),
            dist.get_rank(),
            dist.get_world_size(),
        )
        parts = [[*Gather.apply(x, lengths, None).split(lengths, -2)] for x in (k, v)]
        last = (rank + 1) % world  # the keys that a rank visits last
        counts = {
            "all": range(world),
            "others": {*range(world)} - {rank},
            "last": [last],
            "own": [rank],
        }
        k, v = (
            torch.cat([t if of in counts[self.keys] else t.detach() for of, t in enumerate(x)], -2)
            for x in parts
        )
        if self.queries == "all":
            return (q @ k.mT / math.sqrt(q.shape[-1])).softmax(-1) @ v
        return OwnSlope.apply(q, k, v, [lengths, rank if self.queries == "own" else last])


class OwnSlope(torch.autograd.Function):
    "Attention whose queries get the gradients of one rank's keys."

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, which: list[Any]) -> Tensor:
        ctx.save_for_backward(q, k, v)
        ctx.which = which
        return (q @ k.mT / math.sqrt(q.shape[-1])).softmax(-1) @ v

    @staticmethod
    def backward(ctx: Any, up: Tensor) -> tuple[Any, ...]:
        (q, k, v), (lengths, of) = ctx.saved_tensors, ctx.which
        weights = (q @ k.mT / math.sqrt(q.shape[-1])).softmax(-1)
        slope = (
            weights
            * (up @ v.mT - (up * (weights @ v)).sum(-1, keepdim=True))
            / math.sqrt(q.shape[-1])
        )
        dq = slope.split(lengths, -1)[of] @ k.split(lengths, -2)[of]
        return dq, slope.mT @ q, weights.mT @ up, None


BACKWARD = [
    Planted(
        "the first step's keys",
        Ring(block_gradients=with_first_keys),
        "backward.first_keys",
        "huggingface/diffusers#14265",
        "",
        EVEN,
    ),
    Planted(
        "gradients times ranks",
        Ring(returned=partial(times_world, queries=True, keys=True)),
        "backward.times_ranks",
        "deepspeedai/DeepSpeed#5248",
        "ByteDance-Seed/VeOmni#1079, which is of the same kind, was not found",
    ),
    Planted(
        "keys' gradients times ranks",
        Ring(returned=partial(times_world, queries=False, keys=True)),
        "backward.times_ranks",
        "mlfoundations/open_clip#616",
    ),
    Planted(
        "queries' gradients times ranks",
        Ring(returned=partial(times_world, queries=True, keys=False)),
        "backward.times_ranks",
    ),
    Planted(
        "gradients over ranks",
        Ring(returned=divided),
        "backward.over_ranks",
        "ByteDance-Seed/VeOmni#1120",
    ),
    Planted(
        "nothing summed over ranks",
        partial(attended, gather=Plain.apply),
        "backward.own_queries",
        "pytorch/xla#5784",
        "ByteDance-Seed/VeOmni#681 adds the sum",
        {"empty_ranks": False},
    ),
    Planted(
        "only own keys have a history",
        partial(attended, gather=own_history),
        "backward.own_queries",
        "huggingface/accelerate#76",
        "there the gather has none",
        {"empty_ranks": False},
    ),
    Planted(
        "what is gathered has no history",
        partial(attended, gather=no_history),
        "backward.none",
        "huggingface/accelerate#76",
        "",
        {"empty_ranks": False, "worlds": (2, 3)},
    ),
    Planted(
        "queries, own keys alone",
        Visited(queries="own"),
        "backward.own_keys",
        None,
        "",
        {"empty_ranks": False},
    ),
    Planted(
        "queries, last step alone",
        Visited(queries="last"),
        "backward.last_keys",
        None,
        "",
        {"empty_ranks": False},
    ),
    Planted(
        "keys, last rank alone",
        Visited(keys="last"),
        "backward.last_queries",
        None,
        "",
        {"empty_ranks": False},
    ),
    Planted(
        "keys, others alone",
        Visited(keys="others"),
        "backward.others_alone",
        None,
        "",
        {"empty_ranks": False, "worlds": (2, 3)},
    ),
    Planted(
        "no gradient crosses ranks",
        Visited(keys="own", queries="own"),
        "backward.own_alone",
        "pytorch/pytorch#120582",
        "there the gradient is thrown away",
        {"empty_ranks": False},
    ),
    Planted(
        "one step's log-sum-exp",
        Ring(block_gradients=with_own_lse),
        "backward.own_lse",
        "tenstorrent/tt-metal#53216",
    ),
    Planted(
        "one step's context",
        Ring(block_gradients=with_own_context),
        "backward.own_context",
        "tenstorrent/tt-metal#53216",
    ),
    Planted(
        "the softmax's own term",
        Ring(block_gradients=without_delta),
        "backward.no_delta",
        None,
        "",
        {"worlds": (2, 3)},
    ),
    Planted(
        "no mask on the way back",
        Ring(causal=True, block_gradients=without_mask),
        "backward.unmasked",
        None,
        "",
        {**CAUSAL, "worlds": (2, 3)},
    ),
    Planted("gradients larger on several ranks", partial(larger_by, slope=1.4), "backward.wrong"),
    Planted("one hop too many", Ring(returned=one_further), "backward.away", None, "", EVEN),
]


# Ranks --------------------------------------------------------------------------------------------


def sends_first(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    world, rank = dist.get_world_size(), dist.get_rank()
    if world > 1:
        arriving = torch.zeros_like(k)
        dist.send(k, (rank + 1) % world)
        dist.recv(arriving, (rank - 1) % world)
    return Ring()(q, k, v)


def to_itself(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    "The ring has no case of its own for one rank."
    world, rank = dist.get_world_size(), dist.get_rank()
    arriving = torch.zeros_like(k)
    sent = [
        dist.P2POp(dist.isend, k, (rank + 1) % world),
        dist.P2POp(dist.irecv, arriving, (rank - 1) % world),
    ]
    for work in dist.batch_isend_irecv(sent):
        work.wait()
    return Ring()(q, k, v)


def skips(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    "The last rank leaves out a collective."
    if dist.get_world_size() == 1 or dist.get_rank() < dist.get_world_size() - 1:
        dist.all_reduce(k.clone())
    return Ring()(q, k, v)


def dies(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    if dist.get_rank() == 2:
        os._exit(7)
    return Ring()(q, k, v)


def raises(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    if dist.get_rank() == 1:
        raise ValueError("the second rank has no mask")
    return Ring()(q, k, v)


def sleeps(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    if dist.get_rank() == 1:
        time.sleep(60)
    return Ring()(q, k, v)


def group_rank(group: Any, rank: int) -> int:
    "Take a rank of the group for one of the world."
    return rank


def four_heads_each(h: int, world: int) -> list[int]:
    "12 heads over 4 ranks as if there were three."
    share = -(-h // max(1, world - 1))
    return [min(share, max(0, h - share * rank)) for rank in range(world)]


def lost_heads(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    "Heads are divided downwards, and those of the remainder come back as zeros."
    world, h = dist.get_world_size(), q.shape[1]
    context = ulysses(
        q[:, : h // world * world], k[:, : h // world * world], v[:, : h // world * world]
    )
    return torch.cat([context, q[:, h // world * world :] * 0], 1)


def last_in_first_out(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    "The parts of the heads are joined in the reverse order."
    context = ulysses(q, k, v)
    parts = context.tensor_split(dist.get_world_size(), 1)
    return torch.cat(parts[::-1], 1)


def whole_context(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return Gather.apply(gathered(q, k, v), all_lengths(q.shape[-2], None), None)


def into_keys(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    "Receive into the keys themselves."
    context = gathered(q, k, v)
    arriving = exchange(Ring(), [k.detach()], all_lengths(k.shape[-2], None), 0, None)[0]
    with torch.no_grad():
        k.detach().copy_(arriving)
    return context


@functools.cache
def place(shape: tuple[int, ...]) -> Tensor:
    return torch.zeros(shape, dtype=torch.float64)


def buffered(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    "What an earlier call left in a buffer is added."
    context, buffer = gathered(q, k, v), place(tuple(q.shape))
    found = context + buffer
    buffer += 1
    return found


def unpacked(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    "Keys are looked at as one row of numbers."
    k.view(-1)
    return gathered(q, k, v)


SHORT = {"timeout": 3.0, "worlds": (1, 2, 3)}
RANKS = [
    Planted(
        "all send first",
        sends_first,
        "ranks.stuck",
        "pytorch/pytorch#109401",
        "NVIDIA/nccl#479 is the same",
        SHORT,
    ),
    Planted(
        "one rank sends to itself",
        to_itself,
        "code.raises",
        "pytorch/gloo#344",
        "there it is asked for",
        {"worlds": (1, 2)},
    ),
    Planted(
        "a collective is left out",
        skips,
        "ranks.stuck",
        "NVIDIA/apex#18",
        "there collectives in another order",
        SHORT,
    ),
    Planted("a rank sleeps", sleeps, "ranks.stuck", None, "", SHORT),
    Planted("a rank dies", dies, "ranks.died", None, "", SHORT),
    Planted("one rank raises", raises, "ranks.one_raises", None, "", SHORT),
    Planted(
        "ranks of a group",
        Ring(peer=group_rank),
        "ranks.group",
        "pytorch/pytorch#60356",
        "meta-pytorch/torchrec#4601 is of the same kind",
        {"timeout": 3.0},
    ),
    Planted(
        "heads [4, 4, 4, 0]",
        lost_heads,
        "passing.wrong",
        "deepspeedai/DeepSpeed#8316",
        "the repair of #8291; there the last rank has no head, and the backward pass hangs",
        {"n_heads": 10, "gradients": False},
    ),
    Planted("heads in another order", last_in_first_out, "passing.wrong"),
    Planted(
        "the whole context on each rank",
        whole_context,
        "ranks.shape",
        "deepspeedai/DeepSpeed#7868",
        "there the shape of the context is wrong in another way",
    ),
    Planted(
        "received into the keys",
        into_keys,
        "input.modified",
        "ByteDance-Seed/VeOmni#1159",
        "there a gradient is summed in place",
        EVEN,
    ),
    Planted("a buffer is kept", buffered, "ranks.differ"),
    Planted(
        "keys as one row",
        unpacked,
        "memory.contiguous",
        "pytorch/pytorch#62283",
        "there a transposed tensor is sent",
    ),
]

PLANTED = [*PASSING, *SHARDS, *SHARES, *BACKWARD, *RANKS]
