"""Wrong steps of attention over ranks, each under the code of its bug."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from attention_checks.distributed.shards import ORDERS, Trial, contiguous
from attention_checks.distributed.simulated import (
    Back,
    Block,
    Keys,
    Partial,
    Steps,
    Visit,
    Visits,
    all_in_turn,
    by_reach,
    by_share,
)


class Wrong(NamedTuple):
    "A bug of attention over ranks: its code, and the steps that it replaces."

    code: str
    steps: Steps | Back
    facts: dict[str, str] = {}  # what stands in the braces of its sentence


# Visits: whose keys does a rank attend to, and whose does it take them for? ----------------------


def _own_keys(trial: Trial, rank: int) -> Visits:
    "Keys never leave their rank."
    return [(rank, rank)]


def _own_again(trial: Trial, rank: int) -> Visits:
    "At each step it has its own keys."
    return [(rank, of) for _, of in all_in_turn(trial, rank)]


def _first_shard(trial: Trial, rank: int) -> Visits:
    "Every rank got the first rank's keys."
    return [(0, of) for _, of in all_in_turn(trial, rank)]


def _one_short(trial: Trial, rank: int) -> Visits:
    "The loop ends one step too early."
    return all_in_turn(trial, rank)[:-1]


def _one_long(trial: Trial, rank: int) -> Visits:
    "The loop goes on until the rank's own keys are back."
    return [*all_in_turn(trial, rank), (rank, rank)]


def _against(trial: Trial, rank: int) -> Visits:
    "Keys come from the other side than the rank believes."
    return [((rank + s) % trial.world, (rank - s) % trial.world) for s in range(trial.world)]


def _label_late(trial: Trial, rank: int) -> Visits:
    "The number of the step is one behind the keys."
    return [(of, (of + (of != rank)) % trial.world) for of, _ in all_in_turn(trial, rank)]


def _without_own(trial: Trial, rank: int) -> Visits:
    "The rank's own keys are passed on before it attends to them."
    return all_in_turn(trial, rank)[1:]


def _earlier_ranks(trial: Trial, rank: int) -> Visits:
    "Ranks after this one are skipped, as if they held the future."
    return [(of, of) for of, _ in all_in_turn(trial, rank) if of <= rank]


# Positions, and which keys of a shard count -------------------------------------------------------


def _from_zero(trial: Trial, rank: int) -> Tensor:
    "Each rank counts its tokens from 0."
    return torch.arange(len(trial.held[rank]))


def _in_order(trial: Trial, rank: int) -> Tensor:
    "Shards are taken for pieces that follow each other."
    return torch.arange(trial.n).split([len(part) for part in trial.held])[rank]


def _as_order(name: str) -> Callable[[Trial, int], Tensor]:
    "Take the tokens for those of another order, where it has as many of them."

    def positions(trial: Trial, rank: int) -> Tensor:
        "Give them in that order."
        at = ORDERS[name](torch.arange(trial.n), trial.world, rank)
        return at if len(at) == len(trial.held[rank]) else trial.held[rank]

    return positions


def _as_equal(trial: Trial, rank: int) -> Tensor:
    "Ranks are believed to hold as many tokens as this one."
    n = len(trial.held[rank])
    return torch.arange(rank * n, rank * n + n)


def _second_piece(trial: Trial, rank: int) -> Tensor:
    "The second piece of a rank is taken for number world + rank."
    pieces = [contiguous(torch.arange(trial.n), 2 * trial.world, i) for i in range(2 * trial.world)]
    at = torch.cat([pieces[rank], pieces[trial.world + rank]])
    return at if len(at) == len(trial.held[rank]) else trial.held[rank]


def _padded(trial: Trial, keys: Keys) -> Keys:
    "Shards are filled up with zeros, which count as keys."
    more = max(map(len, trial.held)) - len(keys.at)
    k, v = (torch.nn.functional.pad(x, (0, 0, 0, more)) for x in (keys.k, keys.v))
    start = int(keys.at[-1]) + 1 if len(keys.at) else 0
    return Keys(k, v, torch.cat([keys.at, torch.arange(start, start + more)]))


def _cut(n: Callable[[Trial, int], int]) -> Callable[[Trial, Keys], Keys]:
    "Keep only the first keys of a shard."

    def keys(trial: Trial, all_of_them: Keys) -> Keys:
        "Cut the shard."
        kept = n(trial, len(all_of_them.at))
        k, v, at = all_of_them
        return Keys(k[..., :kept, :], v[..., :kept, :], at[:kept])

    return keys


# Masks --------------------------------------------------------------------------------------------


def _local(visit: Visit) -> Visit:
    "Count queries and keys from 0."
    i, j = visit.i.argsort(0), visit.j.argsort(1)
    return visit._replace(i=i, j=j)


def _reach_each(visit: Visit) -> Tensor:
    "The mask begins anew for each pair of shards."
    return by_reach(_local(visit))


def _queries_first(visit: Visit) -> Tensor:
    "The first query of a rank is taken for the first token of all."
    return by_reach(visit._replace(i=visit.i.argsort(0)))


def _queries_last(visit: Visit) -> Tensor:
    "The last query of a rank is taken for the last token of all."
    return by_reach(visit._replace(i=visit.i.argsort(0) + visit.trial.n - len(visit.i)))


def _open(visit: Visit) -> Tensor:
    "Nothing is hidden."
    return torch.ones(len(visit.i), visit.j.shape[1], dtype=torch.bool)


def _own_alone(visit: Visit) -> Tensor:
    "Only a rank's own keys are masked."
    return by_reach(visit) if visit.rank == visit.taken_for else _open(visit)


def _own_open(visit: Visit) -> Tensor:
    "A rank's own keys are not masked."
    return _open(visit) if visit.rank == visit.taken_for else by_reach(visit)


def _without(**fields: Any) -> Callable[[Visit], Tensor]:
    "Forget a part of what was declared."

    def allowed(visit: Visit) -> Tensor:
        "Mark what the rest allows."
        reach, i, j = visit.trial.sharding.reach._replace(**fields), visit.i, visit.j
        return (reach.near(i, j) | reach.kept(i, j)) & reach.own(i, j)

    return allowed


def _own_window(visit: Visit) -> Tensor:
    "The window ends at the border of the shard."
    if not visit.trial.sharding.reach.window:
        raise ValueError("no window was declared")
    return by_reach(visit) & (visit.rank == visit.taken_for)


def _sinks_of_shard(visit: Visit) -> Tensor:
    "The first keys of each shard are taken for sinks."
    reach, i, j = visit.trial.sharding.reach, visit.i, visit.j
    first = j.argsort(1) < reach.sinks
    return (reach.near(i, j) | reach.past(i, j) & first) & reach.own(i, j)


# Merging ------------------------------------------------------------------------------------------


def _mean(partials: list[Partial]) -> Tensor:
    "Average the partial contexts."
    return torch.stack([partial.context for partial in partials]).mean(0)


def _sum(partials: list[Partial]) -> Tensor:
    "Add the partial contexts."
    return torch.stack([partial.context for partial in partials]).sum(0)


def _last(partials: list[Partial]) -> Tensor:
    "Keep the partial context of the last visit that saw something."
    context = partials[0].context
    for partial in partials[1:]:
        seen = (partial.lse > -math.inf)[..., None]
        context = torch.where(seen, partial.context, context)
    return context


def _with_lse(change: Callable[[Tensor], Tensor]) -> Callable[[list[Partial]], Tensor]:
    "Merge by changed log-sum-exps."
    return lambda partials: by_share([p._replace(lse=change(p.lse)) for p in partials])


def _running(
    step: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]],
) -> Callable[[list[Partial]], Tensor]:
    "Merge one after the other: two log-sum-exps → the new one's share, and their sum."

    def merge(partials: list[Partial]) -> Tensor:
        "Fold the partials."
        context, lse = partials[0]
        for new in partials[1:]:
            share, total = step(lse, new.lse)
            share = share[..., None].nan_to_num(0)
            context, lse = context + share * (new.context - context), total
        return context

    return merge


def _larger(old: Tensor, new: Tensor) -> tuple[Tensor, Tensor]:
    "The larger log-sum-exp stands for the sum of both."
    return torch.sigmoid(new - old), torch.maximum(old, new)


def _added(old: Tensor, new: Tensor) -> tuple[Tensor, Tensor]:
    "Log-sum-exps are added like sums."
    return torch.sigmoid(new - old), old + new


def _exchanged(old: Tensor, new: Tensor) -> tuple[Tensor, Tensor]:
    "Each partial gets the other's share."
    return torch.sigmoid(old - new), torch.logaddexp(old, new)


def _stale(old: Tensor, new: Tensor) -> tuple[Tensor, Tensor]:
    "The running log-sum-exp stays that of the first visit."
    return torch.sigmoid(new - old), old


def _remainder(head: int, n_heads: int, n_kv_heads: int) -> int:
    "Heads share keys as 0 1 0 1."
    return head % n_kv_heads


def _next_rank(contexts: list[Tensor]) -> list[Tensor]:
    "Each rank gets the context of the rank after it."
    return [*contexts[1:], contexts[0]]


def _previous_rank(contexts: list[Tensor]) -> list[Tensor]:
    "Each rank gets the context of the rank before it."
    return [contexts[-1], *contexts[:-1]]


_TABLE: list[Wrong] = [
    Wrong("shards.window_cut", Steps(allowed=_own_window)),
    Wrong("passing.own_keys", Steps(visits=_own_keys)),
    Wrong("passing.own_again", Steps(visits=_own_again)),
    Wrong("passing.first_shard", Steps(visits=_first_shard)),
    Wrong("passing.one_short", Steps(visits=_one_short)),
    Wrong("passing.one_long", Steps(visits=_one_long)),
    Wrong("passing.without_own", Steps(visits=_without_own)),
    Wrong("passing.direction", Steps(visits=_against)),
    Wrong("passing.step_late", Steps(visits=_label_late)),
    Wrong("passing.results_moved", Steps(returned=_next_rank)),
    Wrong("passing.results_moved", Steps(returned=_previous_rank)),
    Wrong("shards.mask_anew", Steps(allowed=_reach_each)),
    Wrong("shards.queries_first", Steps(allowed=_queries_first)),
    Wrong("shards.queries_last", Steps(allowed=_queries_last)),
    Wrong("shards.from_zero", Steps(positions=_from_zero)),
    Wrong("shards.order", Steps(positions=_in_order), {"found": "contiguous"}),
    Wrong("shards.order", Steps(positions=_as_order("zigzag")), {"found": "zigzag"}),
    Wrong("shards.order", Steps(positions=_as_order("striped")), {"found": "striped"}),
    Wrong("shards.second_piece", Steps(positions=_second_piece)),
    Wrong("shards.as_equal", Steps(positions=_as_equal)),
    Wrong("shards.padding", Steps(keys=_padded)),
    Wrong("shards.last_key", Steps(keys=_cut(lambda trial, n: n - 1))),
    Wrong("shards.remainder", Steps(keys=_cut(lambda trial, n: trial.n // trial.world))),
    Wrong("shards.mask_lost", Steps(allowed=_open)),
    Wrong("shards.own_mask_alone", Steps(allowed=_own_alone)),
    Wrong("shards.own_mask_lost", Steps(allowed=_own_open)),
    Wrong("shards.later_skipped", Steps(visits=_earlier_ranks)),
    Wrong("window.ignored", Steps(allowed=_without(window=0, ahead=0))),
    Wrong("sinks.forgotten", Steps(allowed=_without(sinks=0))),
    Wrong("shards.sinks_each", Steps(allowed=_sinks_of_shard)),
    Wrong("documents.leak", Steps(allowed=_without(documents=0))),
    Wrong("shares.mean", Steps(merge=_mean)),
    Wrong("shares.sum", Steps(merge=_sum)),
    Wrong("shares.last", Steps(merge=_last)),
    Wrong("shares.base_two", Steps(merge=_with_lse(lambda lse: lse / math.log(2)))),
    Wrong("shares.base_e", Steps(merge=_with_lse(lambda lse: lse * math.log(2)))),
    Wrong("shares.larger", Steps(merge=_running(_larger))),
    Wrong("shares.added", Steps(merge=_running(_added))),
    Wrong("shares.exchanged", Steps(merge=_running(_exchanged))),
    Wrong("shares.first", Steps(merge=_running(_stale))),
    Wrong("shares.sinks_lost", Steps(sinks=lambda trial, rank: 0)),
    Wrong("shares.sinks_each", Steps(sinks=lambda trial, rank: trial.world)),
    Wrong("groups.remainder", Steps(group=_remainder)),
]


# The backward pass --------------------------------------------------------------------------------


def _own(trial: Trial, rank: int, of: int) -> bool:
    "Only a rank's own keys count."
    return rank == of


def _others(trial: Trial, rank: int, of: int) -> bool:
    "Only the other ranks' keys count."
    return rank != of


def _last_visit(trial: Trial, rank: int, of: int) -> bool:
    "Only the last visit of a rank counts."
    return all_in_turn(trial, rank)[-1][0] == of


def _last_guest(trial: Trial, rank: int, of: int) -> bool:
    "Only the last rank that the keys visit counts."
    return (of + trial.world - 1) % trial.world == rank


def _first_keys(block: Block) -> Keys:
    "Every step uses the keys of the first one: the rank's own."
    trial, rank = block.trial, block.rank
    own = Keys(trial.part(trial.k, rank), trial.part(trial.v, rank), trial.held[rank])
    return own if own.k.shape == block.keys.k.shape else block.keys


def _of_visit(block: Block, scores: Tensor) -> Tensor:
    "Weights are those of the visit alone."
    return scores.masked_fill(~block.allowed, -math.inf).softmax(-1).nan_to_num(0)


def _unmasked(block: Block, scores: Tensor) -> Tensor:
    "Hidden keys get weights in the backward pass."
    return (scores - block.lse[..., None]).exp()


def _visit_delta(block: Block, weights: Tensor, values: Tensor) -> Tensor:
    "The context of the visit stands for the whole context."
    context = weights / weights.sum(-1, keepdim=True).clamp(min=1e-300) @ values
    return (block.up * context).sum(-1, keepdim=True)


def _partial_delta(block: Block, weights: Tensor, values: Tensor) -> Tensor:
    "What a visit adds to the context stands for the whole context."
    return (block.up * (weights @ values)).sum(-1, keepdim=True)


def _no_delta(block: Block, weights: Tensor, values: Tensor) -> Tensor:
    "Nothing is taken off."
    return torch.zeros_like(weights[..., :1])


def _away(by: int) -> Callable[[Trial, int], int]:
    "Gradients of keys end on another rank."
    return lambda trial, of: (of + by) % trial.world


def _factors(*, queries: int, keys: int) -> Callable[[Trial], tuple[float, float]]:
    "Multiply gradients by a power of the number of ranks."
    return lambda trial: (float(trial.world) ** queries, float(trial.world) ** keys)


_BACK: list[Wrong] = [
    Wrong("backward.times_ranks", Back(times=_factors(queries=1, keys=1)), {"of": "all"}),
    Wrong("backward.times_ranks", Back(times=_factors(queries=0, keys=1)), {"of": "k and v"}),
    Wrong("backward.times_ranks", Back(times=_factors(queries=1, keys=0)), {"of": "q"}),
    Wrong("backward.over_ranks", Back(times=_factors(queries=-1, keys=-1)), {"of": "all"}),
    Wrong("backward.over_ranks", Back(times=_factors(queries=0, keys=-1)), {"of": "k and v"}),
    Wrong("backward.over_ranks", Back(times=_factors(queries=-1, keys=0)), {"of": "q"}),
    Wrong("backward.own_queries", Back(to_kv=_own)),
    Wrong("backward.own_keys", Back(to_q=_own)),
    Wrong("backward.own_alone", Back(to_q=_own, to_kv=_own)),
    Wrong("backward.others_alone", Back(to_kv=_others)),
    Wrong("backward.last_keys", Back(to_q=_last_visit)),
    Wrong("backward.last_queries", Back(to_kv=_last_guest)),
    Wrong("backward.first_keys", Back(keys=_first_keys)),
    Wrong("backward.own_lse", Back(weights=_of_visit)),
    Wrong("backward.own_lse", Back(weights=_of_visit, delta=_visit_delta)),
    Wrong("backward.own_context", Back(delta=_visit_delta)),
    Wrong("backward.own_context", Back(delta=_partial_delta)),
    Wrong("backward.no_delta", Back(delta=_no_delta)),
    Wrong("backward.unmasked", Back(weights=_unmasked)),
    *(Wrong("backward.away", Back(home=_away(by))) for by in (1, -1)),
]


def forward_bugs() -> Sequence[Wrong]:
    "List what makes contexts wrong, likely ones first."
    return _TABLE


def backward_bugs() -> Sequence[Wrong]:
    "List what makes gradients wrong, likely ones first."
    return _BACK
