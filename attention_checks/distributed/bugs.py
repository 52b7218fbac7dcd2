"""Wrong steps of attention over ranks, a row for each bug; its sentence is in the catalogue."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from attention_checks.distributed.shards import Trial, contiguous, zigzag
from attention_checks.distributed.simulated import (
    Block,
    Keys,
    PartialContext,
    Visit,
    all_in_turn,
    by_reach,
    by_share,
)


class Wrong(NamedTuple):
    "A bug of attention over ranks: its code, and the steps that it replaces."

    code: str
    facts: dict[str, str]  # what stands in the braces of its sentence
    steps: dict[str, Any]  # of `ForwardSteps` or `BackwardSteps`, by name


def _wrong(code: str, facts: dict[str, str] = {}, **steps: Callable[..., Any]) -> Wrong:
    "Return a bug that replaces steps."
    return Wrong(code, facts, steps)


# Positions, and which keys of a shard count -------------------------------------------------------


def _in_order(trial: Trial, rank: int) -> Tensor:
    "Shards are taken for pieces that follow each other."
    return torch.arange(trial.n).split([len(part) for part in trial.held])[rank]


def _as_zigzag(trial: Trial, rank: int) -> Tensor:
    "The tokens are taken for those of zigzag order, where it has as many of them."
    return _if_as_many(trial, rank, zigzag(torch.arange(trial.n), trial.world, rank))


def _if_as_many(trial: Trial, rank: int, at: Tensor) -> Tensor:
    "Return positions if there are as many as the rank has tokens, else the right ones."
    return at if len(at) == len(trial.held[rank]) else trial.held[rank]


def _as_equal(trial: Trial, rank: int) -> Tensor:
    "Ranks are believed to hold as many tokens as this one."
    n = len(trial.held[rank])
    return torch.arange(rank * n, rank * n + n)


def _second_piece(trial: Trial, rank: int) -> Tensor:
    "The second piece of a rank is taken for number world + rank."
    pieces = [contiguous(torch.arange(trial.n), 2 * trial.world, i) for i in range(2 * trial.world)]
    return _if_as_many(trial, rank, torch.cat([pieces[rank], pieces[trial.world + rank]]))


def _padded(trial: Trial, keys: Keys) -> Keys:
    "Shards are filled up with zeros, which count as keys."
    more = max(map(len, trial.held)) - len(keys.at)
    k, v = (torch.nn.functional.pad(x, (0, 0, 0, more)) for x in (keys.k, keys.v))
    start = int(keys.at[-1]) + 1 if len(keys.at) else 0
    return Keys(k, v, torch.cat([keys.at, torch.arange(start, start + more)]))


def _first_keys_of(keys: Keys, n: int) -> Keys:
    "Keep only the first keys of a shard."
    return Keys(keys.k[..., :n, :], keys.v[..., :n, :], keys.at[:n])


# Masks --------------------------------------------------------------------------------------------


def _open(visit: Visit) -> Tensor:
    "Nothing is hidden."
    return torch.ones(len(visit.i), visit.j.shape[1], dtype=torch.bool)


def _own_window(visit: Visit) -> Tensor:
    "The window ends at the border of the shard."
    if not visit.trial.sharding.reach.window:
        raise ValueError("no window was declared")
    return by_reach(visit) & (visit.rank == visit.taken_for)


def _without(**fields: Any) -> Callable[[Visit], Tensor]:
    "Forget a part of what was declared."
    return lambda visit: by_reach(visit, visit.trial.sharding.reach._replace(**fields))


def _sinks_of_shard(visit: Visit) -> Tensor:
    "The first keys of each shard are taken for sinks."
    reach, i, j = visit.trial.sharding.reach, visit.i, visit.j
    first = j.argsort(1) < reach.sinks
    return (reach.in_window(i, j) | reach.not_future(i, j) & first) & reach.same_document(i, j)


# Merging ------------------------------------------------------------------------------------------

Merge = Callable[[list[PartialContext]], Tensor]
OfBoth = Callable[[Tensor, Tensor], Tensor]  # a number of two log-sum-exps, the old and the new


def _contexts(partials: list[PartialContext]) -> Tensor:
    "Stack the partial contexts."
    return torch.stack([partial.context for partial in partials])


def _last(partials: list[PartialContext]) -> Tensor:
    "Keep the partial context of the last visit that saw something."
    context = partials[0].context
    for partial in partials[1:]:
        seen = (partial.lse > -math.inf)[..., None]
        context = torch.where(seen, partial.context, context)
    return context


def _with_lse_times(factor: float) -> Merge:
    "Merge by log-sum-exps to another base."
    return lambda partials: by_share([p._replace(lse=p.lse * factor) for p in partials])


def _running(
    total: OfBoth,  # the log-sum-exp that goes on
    share: OfBoth = lambda old, new: torch.sigmoid(new - old),  # of the new context
) -> Merge:
    "Merge one after the other."

    def merge(partials: list[PartialContext]) -> Tensor:
        "Fold the partials."
        context, lse = partials[0]
        for new in partials[1:]:
            part = share(lse, new.lse)[..., None].nan_to_num(0)
            context, lse = context + part * (new.context - context), total(lse, new.lse)
        return context

    return merge


FORWARD: list[Wrong] = [  # likely ones first
    _wrong("shards.window_cut", allowed=_own_window),
    _wrong("passing.own_keys", visits=lambda trial, rank: [(rank, rank)]),
    _wrong("passing.own_again", visits=lambda t, rank: [(rank, of) for of in t.ring_order(rank)]),
    _wrong("passing.first_shard", visits=lambda t, rank: [(0, of) for of in t.ring_order(rank)]),
    _wrong("passing.one_short", visits=lambda trial, rank: all_in_turn(trial, rank)[:-1]),
    _wrong(
        "passing.one_long", visits=lambda trial, rank: [*all_in_turn(trial, rank), (rank, rank)]
    ),
    _wrong("passing.without_own", visits=lambda trial, rank: all_in_turn(trial, rank)[1:]),
    _wrong(
        "passing.direction",
        visits=lambda t, rank: [((2 * rank - of) % t.world, of) for of in t.ring_order(rank)],
    ),
    _wrong(
        "passing.step_late",
        visits=lambda t, rank: [(of, (of + (of != rank)) % t.world) for of in t.ring_order(rank)],
    ),
    _wrong("passing.results_moved", returned=lambda contexts: [contexts[-1], *contexts[:-1]]),
    _wrong(
        "shards.mask_anew",
        allowed=lambda visit: by_reach(visit._replace(i=visit.i.argsort(0), j=visit.j.argsort(1))),
    ),
    _wrong(
        "shards.queries_first", allowed=lambda visit: by_reach(visit._replace(i=visit.i.argsort(0)))
    ),
    _wrong(
        "shards.queries_last",
        allowed=lambda visit: by_reach(
            visit._replace(i=visit.i.argsort(0) + visit.trial.n - len(visit.i))
        ),
    ),
    _wrong("shards.from_zero", positions=lambda trial, rank: torch.arange(len(trial.held[rank]))),
    _wrong("shards.order", {"found": "contiguous"}, positions=_in_order),
    _wrong("shards.order", {"found": "zigzag"}, positions=_as_zigzag),
    _wrong("shards.second_piece", positions=_second_piece),
    _wrong("shards.as_equal", positions=_as_equal),
    _wrong("shards.padding", keys=_padded),
    _wrong("shards.last_key", keys=lambda trial, keys: _first_keys_of(keys, len(keys.at) - 1)),
    _wrong(
        "shards.remainder", keys=lambda trial, keys: _first_keys_of(keys, trial.n // trial.world)
    ),
    _wrong("shards.mask_lost", allowed=_open),
    _wrong(
        "shards.own_mask_alone",
        allowed=lambda visit: by_reach(visit) if visit.rank == visit.taken_for else _open(visit),
    ),
    _wrong(
        "shards.own_mask_lost",
        allowed=lambda visit: _open(visit) if visit.rank == visit.taken_for else by_reach(visit),
    ),
    _wrong(
        "shards.later_skipped",
        visits=lambda trial, rank: [(of, of) for of in trial.ring_order(rank) if of <= rank],
    ),
    _wrong("window.ignored", allowed=_without(window=0, ahead=0)),
    _wrong("sinks.forgotten", allowed=_without(sinks=0)),
    _wrong("shards.sinks_each", allowed=_sinks_of_shard),
    _wrong("documents.leak", allowed=_without(documents=0)),
    _wrong("shares.mean", merge=lambda partials: _contexts(partials).mean(0)),
    _wrong("shares.sum", merge=lambda partials: _contexts(partials).sum(0)),
    _wrong("shares.last", merge=_last),
    _wrong("shares.base_two", merge=_with_lse_times(1 / math.log(2))),
    _wrong("shares.base_e", merge=_with_lse_times(math.log(2))),
    _wrong("shares.larger", merge=_running(torch.maximum)),
    _wrong("shares.added", merge=_running(torch.add)),
    _wrong(
        "shares.exchanged",
        merge=_running(torch.logaddexp, share=lambda old, new: torch.sigmoid(old - new)),
    ),
    _wrong("shares.first", merge=_running(lambda old, new: old)),
    _wrong("shares.sinks_lost", sinks=lambda trial: 0),
    _wrong("shares.sinks_each", sinks=lambda trial: trial.world),
    _wrong("groups.remainder", group=lambda head, n_heads, n_kv_heads: head % n_kv_heads),
]


# The backward pass --------------------------------------------------------------------------------


def _own(trial: Trial, rank: int, of: int) -> bool:
    "Only a rank's own keys count."
    return rank == of


def _first_keys(block: Block) -> Keys:
    "Every step uses the keys of the first one: the rank's own."
    trial, rank = block.trial, block.rank
    own = Keys(trial.part(trial.k, rank), trial.part(trial.v, rank), trial.held[rank])
    return own if own.k.shape == block.keys.k.shape else block.keys


def _of_visit(block: Block, scores: Tensor) -> Tensor:
    "Weights are those of the visit alone."
    return scores.masked_fill(~block.allowed, -math.inf).softmax(-1).nan_to_num(0)


def _visit_delta(block: Block, weights: Tensor, values: Tensor) -> Tensor:
    "The context of the visit stands for the whole context."
    weights = weights / weights.sum(-1, keepdim=True).clamp(min=1e-300)
    return (block.upstream * (weights @ values)).sum(-1, keepdim=True)


def _factors(*, queries: int, keys: int) -> Callable[[Trial], tuple[float, float]]:
    "Multiply gradients by a power of the number of ranks."
    return lambda trial: (float(trial.world) ** queries, float(trial.world) ** keys)


BACKWARD: list[Wrong] = [  # likely ones first
    _wrong("backward.times_ranks", {"of": "all"}, times=_factors(queries=1, keys=1)),
    _wrong("backward.times_ranks", {"of": "k and v"}, times=_factors(queries=0, keys=1)),
    _wrong("backward.times_ranks", {"of": "q"}, times=_factors(queries=1, keys=0)),
    _wrong("backward.over_ranks", {"of": "all"}, times=_factors(queries=-1, keys=-1)),
    _wrong("backward.own_queries", to_kv=_own),
    _wrong("backward.own_keys", to_q=_own),
    _wrong("backward.own_alone", to_q=_own, to_kv=_own),
    _wrong("backward.others_alone", to_kv=lambda trial, rank, of: rank != of),
    _wrong("backward.last_keys", to_q=lambda trial, rank, of: of == trial.ring_order(rank)[-1]),
    _wrong("backward.last_queries", to_kv=lambda t, rank, of: (of - 1) % t.world == rank),
    _wrong("backward.first_keys", keys=_first_keys),
    _wrong("backward.own_lse", weights=_of_visit),
    _wrong("backward.own_context", delta=_visit_delta),
    _wrong(
        "backward.no_delta", delta=lambda block, weights, values: torch.zeros_like(weights[..., :1])
    ),
    _wrong(
        "backward.unmasked", weights=lambda block, scores: (scores - block.lse[..., None]).exp()
    ),
    _wrong("backward.away", home=lambda trial, of: (of + 1) % trial.world),
]
