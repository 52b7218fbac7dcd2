"""Attention over ranks in one process, in steps that a bug can replace: what would it give?"""

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from attention_checks.distributed.shards import Trial
from attention_checks.explaining.reach import Reach
from attention_nb.grouped_heads import soft_cap


class Keys(NamedTuple):
    "The keys and values of one visit, and where the rank believes that they stand."

    k: Tensor  # (b, h_kv, n, d)
    v: Tensor  # (b, h_kv, n, d)
    at: Tensor  # positions, (n,)


class PartialContext(NamedTuple):
    "Attention to the keys of one visit alone."

    context: Tensor  # (b, h, n_q, d)
    lse: Tensor  # log of the sum of exponentials, (b, h, n_q); -inf where nothing is visible


class Visit(NamedTuple):
    "Which queries meet which keys."

    trial: Trial
    rank: int  # of the queries
    taken_for: int  # whose keys they are believed to be
    i: Tensor  # positions of the queries as believed, (n_q, 1)
    j: Tensor  # positions of the keys as believed, (1, n_k)


Visits = list[tuple[int, int]]  # whose keys are there, and whose they are taken for


def all_in_turn(trial: Trial, rank: int) -> Visits:
    "Visit every rank's keys, the rank's own first."
    return [(of, of) for of in trial.ring_order(rank)]


def by_reach(visit: Visit, reach: Reach | None = None) -> Tensor:
    "Mark what was declared, or another reach: past, window, sinks, documents."
    declared = visit.trial.sharding.reach
    return (reach or declared).sees(visit.i, visit.j)


def by_share(partials: list[PartialContext]) -> Tensor:
    "Weight each partial context by its share of the sum of exponentials."
    lse = torch.stack([partial.lse for partial in partials])
    shares = (lse - _total(partials)).exp()
    return (shares[..., None] * torch.stack([p.context for p in partials])).sum(0)


def _total(partials: list[PartialContext]) -> Tensor:
    "Return the log-sum-exp of queries over all keys; 0 where nothing is visible."
    lse = torch.stack([partial.lse for partial in partials]).logsumexp(0)
    return lse.masked_fill(lse == -math.inf, 0)


class ForwardSteps(NamedTuple):
    "The steps of attention over ranks, each as it should be."

    visits: Callable[[Trial, int], Visits] = all_in_turn  # of a rank
    positions: Callable[[Trial, int], Tensor] = lambda trial, rank: trial.held[rank]
    keys: Callable[[Trial, Keys], Keys] = lambda trial, keys: keys  # of a shard: which count?
    allowed: Callable[[Visit], Tensor] = by_reach
    merge: Callable[[list[PartialContext]], Tensor] = by_share
    group: Callable[[int, int, int], int] = lambda head, n_heads, n_kv: head // (n_heads // n_kv)
    sinks: Callable[[Trial], int] = lambda trial: 1  # how often their logits count
    returned: Callable[[list[Tensor]], list[Tensor]] = lambda contexts: contexts


def simulated(trial: Trial, steps: ForwardSteps) -> list[Tensor]:  # the context of each rank
    "Go through all ranks."
    partials = (_partials(trial, steps, rank) for rank in range(trial.world))
    return steps.returned([*map(steps.merge, partials)])


def _partials(trial: Trial, steps: ForwardSteps, rank: int) -> list[PartialContext]:
    "Attend on one rank to the keys of each visit."
    q, at = trial.part(trial.q, rank), steps.positions(trial, rank)
    q = _rotated(trial, q, at)
    partials = [_sinks(trial, q, steps.sinks(trial))] if trial.sharding.sink_logits else []
    for keys_of, taken_for in steps.visits(trial, rank):
        keys = _fetched(trial, steps, keys_of, taken_for)
        visit = Visit(trial, rank, taken_for, at[:, None], keys.at[None])
        partials.append(partial_of(trial, steps, q, keys, steps.allowed(visit)))
    return partials


def _fetched(trial: Trial, steps: ForwardSteps, keys_of: int, taken_for: int) -> Keys:
    "Return the keys of one rank at the positions where another's are believed."
    k, v = (trial.part(x, keys_of) for x in (trial.k, trial.v))
    own, at = steps.positions(trial, keys_of), steps.positions(trial, taken_for)
    return steps.keys(trial, Keys(_rotated(trial, k, own), v, _as_many(at, k.shape[-2])))


def _as_many(at: Tensor, n: int) -> Tensor:
    "Return as many positions as there are keys."
    more = at[-1:] if len(at) else torch.zeros(1, dtype=torch.long)
    return torch.cat([at, more.expand(max(0, n - len(at)))])[:n]


def _rotated(trial: Trial, x: Tensor, at: Tensor) -> Tensor:
    "Rotate, if the function under test rotates."
    return trial.sharding.contract.rotated(x, at)


def scores_of(trial: Trial, steps: ForwardSteps, q: Tensor, k: Tensor) -> Tensor:
    "Multiply queries by the keys of their group, scale and cap."
    declared = trial.sharding.contract
    scores = q @ of_group(steps, k, q.shape[1]).mT * declared.scale_of(q.shape[-1])
    return scores if declared.softcap is None else soft_cap(scores, declared.softcap)


def of_group(steps: ForwardSteps, x: Tensor, n_heads: int) -> Tensor:
    "Give each query head its key head."
    heads = [steps.group(head, n_heads, x.shape[1]) for head in range(n_heads)]
    return x[:, heads]


def partial_of(
    trial: Trial, steps: ForwardSteps, q: Tensor, keys: Keys, allowed: Tensor
) -> PartialContext:
    "Attend to the keys of one visit."
    scores = scores_of(trial, steps, q, keys.k).masked_fill(~allowed, -math.inf)
    none = scores.new_full((*scores.shape[:-1], 1), -math.inf)
    lse = torch.cat([scores, none], -1).logsumexp(-1)
    weights = (scores - lse.masked_fill(lse == -math.inf, 0)[..., None]).exp()
    return PartialContext(weights @ of_group(steps, keys.v, q.shape[1]), lse)


def _sinks(trial: Trial, q: Tensor, times: int) -> PartialContext:
    "Return the partial of the sink logits: a share, and a context of zero."
    logits = torch.tensor(trial.sharding.sink_logits, dtype=q.dtype)[:, None].expand(q.shape[:-1])
    lse = logits + math.log(times) if times else logits - math.inf
    return PartialContext(torch.zeros_like(q), lse)


# The backward pass -------------------------------------------------------------------------------

Gradients = tuple[Tensor, Tensor, Tensor]  # of q, k and v of one rank


class Block(NamedTuple):
    "The queries of one rank at the keys of another, in the backward pass."

    trial: Trial
    rank: int  # of the queries
    of: int  # the rank whose keys should be there
    q: Tensor
    keys: Keys
    allowed: Tensor
    context: Tensor  # of the queries, merged
    lse: Tensor  # of the queries, over all visits
    upstream: Tensor  # gradient of the context


def _weights(block: Block, scores: Tensor) -> Tensor:
    "Make the weights again from scores and log-sum-exp."
    return (scores.masked_fill(~block.allowed, -math.inf) - block.lse[..., None]).exp()


def _taken_off(block: Block, weights: Tensor, values: Tensor) -> Tensor:
    "Return what the softmax takes off: gradient · context."
    return (block.upstream * block.context).sum(-1, keepdim=True)


class BackwardSteps(NamedTuple):
    "The steps of the backward pass, each as it should be."

    keys: Callable[[Block], Keys] = lambda block: block.keys
    weights: Callable[[Block, Tensor], Tensor] = _weights
    delta: Callable[[Block, Tensor, Tensor], Tensor] = _taken_off
    to_q: Callable[[Trial, int, int], bool] = lambda trial, rank, of: True  # which visits count
    to_kv: Callable[[Trial, int, int], bool] = lambda trial, rank, of: True  # and for keys, values
    home: Callable[[Trial, int], int] = lambda trial, of: of  # where gradients of keys end
    times: Callable[[Trial], tuple[float, float]] = lambda trial: (1, 1)  # of q; of k and v


_RIGHT = ForwardSteps()


def blocks_of(trial: Trial) -> Iterator[Block]:
    "List all pairs of ranks, with what the backward pass of the first one knows."
    for rank in range(trial.world):
        q, at = trial.part(trial.q, rank), trial.held[rank]
        partials, upstream = _partials(trial, _RIGHT, rank), trial.part(trial.upstream, rank)
        context, lse = by_share(partials), _total(partials)
        for of in trial.ring_order(rank):
            keys = Keys(trial.part(trial.k, of), trial.part(trial.v, of), trial.held[of])
            visit = Visit(trial, rank, of, at[:, None], keys.at[None])
            yield Block(trial, rank, of, q, keys, by_reach(visit), context, lse, upstream)


def gradients(trial: Trial, back: BackwardSteps) -> list[Gradients]:  # of each rank
    "Add up the gradients of all visits."
    q, k, v = ([torch.zeros_like(trial.part(x, r)) for r in range(trial.world)] for x in trial[2:5])
    factor, factor_kv = back.times(trial)
    for block in blocks_of(trial):
        dq, dk, dv = _of_block(block, back)
        home = back.home(trial, block.of)
        if back.to_q(trial, block.rank, block.of):
            q[block.rank] += factor * dq
        if back.to_kv(trial, block.rank, block.of) and k[home].shape == dk.shape:
            k[home] += factor_kv * dk
            v[home] += factor_kv * dv
    return list(zip(q, k, v))


def _of_block(block: Block, back: BackwardSteps) -> Gradients:
    "Return the gradients of one visit."
    trial, used = block.trial, back.keys(block)
    q, k = (x.clone().requires_grad_() for x in (block.q, used.k))
    turned = (_rotated(trial, q, trial.held[block.rank]), _rotated(trial, k, used.at))
    scores = scores_of(trial, _RIGHT, *turned)
    weights = back.weights(block, scores.detach())
    values = of_group(_RIGHT, used.v, q.shape[1])
    slope = weights * (block.upstream @ values.mT - back.delta(block, weights, values))
    dq, dk = torch.autograd.grad((scores * slope).sum(), (q, k), materialize_grads=True)
    dv = (weights.mT @ block.upstream).unflatten(1, (k.shape[1], -1)).sum(2)
    return dq, dk, dv
