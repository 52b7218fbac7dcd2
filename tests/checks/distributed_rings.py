"""Attention over ranks, written plainly, with each step under a name:
a bug is one step that is replaced.

`Ring` passes keys round, `gathered` gathers them, `ulysses` exchanges tokens for heads.
None of it shares code with the checks.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor


# Who holds what -----------------------------------------------------------------------------------


def cut(positions: Tensor, pieces: int) -> list[Tensor]:
    "Pieces of a sequence: their borders are rounded down."
    borders = [len(positions) * i // pieces for i in range(pieces + 1)]
    return [positions[start:stop] for start, stop in zip(borders, borders[1:])]


def contiguous(positions: Tensor, world: int, rank: int) -> Tensor:
    return cut(positions, world)[rank]


def zigzag(positions: Tensor, world: int, rank: int) -> Tensor:
    pieces = cut(positions, 2 * world)
    return torch.cat([pieces[rank], pieces[2 * world - 1 - rank]])


ORDERS = {"contiguous": contiguous, "zigzag": zigzag}


def all_lengths(n: int, group: Any) -> list[int]:
    "How many tokens each rank holds."
    counts = [torch.zeros(1, dtype=torch.long) for _ in range(dist.get_world_size(group))]
    dist.all_gather(counts, torch.tensor([n]), group=group)
    return [int(count) for count in counts]


# The steps of a ring ------------------------------------------------------------------------------


def positions_of(ring: Ring, lengths: list[int], rank: int) -> Tensor:
    return ORDERS[ring.order](torch.arange(sum(lengths)), len(lengths), rank)


def exchange(
    ring: Ring, tensors: list[Tensor], lengths: list[int], step: int, group: Any
) -> list[Tensor]:
    "Send tensors to the next rank and receive those of the previous one, at the same time."
    world, rank = len(lengths), dist.get_rank(group)
    n = lengths[(rank - step - 1) % world]  # whose shard arrives
    arriving = [t.new_empty(*t.shape[:-2], n, t.shape[-1]) for t in tensors]
    to, source = (ring.peer(group, (rank + by) % world) for by in (1, -1))
    sends = [dist.P2POp(dist.isend, t.contiguous(), to, group) for t in tensors]
    receives = [dist.P2POp(dist.irecv, t, source, group) for t in arriving]
    for work in dist.batch_isend_irecv(sends + receives) if world > 1 else []:
        work.wait()
    return arriving if world > 1 else tensors


def peer(group: Any, rank: int) -> int:
    return rank if group is None else dist.get_global_rank(group, rank)


def visits(ring: Ring, world: int, rank: int) -> list[int]:
    "Whose keys are there at each step."
    return [(rank - step) % world for step in range(world)]


def allowed(ring: Ring, i: Tensor, j: Tensor, mine: int, of: int) -> Tensor:
    "Which queries see which keys, by positions."
    i, j = i[:, None], j[None]
    seen = (j <= i) | (not ring.causal)
    if ring.window:
        seen = seen & (i - j < ring.window) | (j < ring.sinks) & (j <= i)
    if ring.documents:
        seen = seen & (i // ring.documents == j // ring.documents)
    return seen


def scores_of(ring: Ring, q: Tensor, k: Tensor, seen: Tensor) -> Tensor:
    return (q @ shared(k, q).mT / math.sqrt(q.shape[-1])).masked_fill(~seen, -math.inf)


def shared(x: Tensor, q: Tensor) -> Tensor:
    "Each key head stands beside the query heads that share it."
    return x.repeat_interleave(q.shape[1] // x.shape[1], 1)


def attend(ring: Ring, scores: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    "The context of one step, and its log-sum-exp."
    padded = torch.cat([scores, scores.new_full((*scores.shape[:-1], 1), -math.inf)], -1)
    lse = padded.logsumexp(-1)
    weights = (scores - finite(lse)[..., None]).exp()
    return weights @ v, lse


def finite(lse: Tensor) -> Tensor:
    return lse.masked_fill(lse == -math.inf, 0)


def merge(
    ring: Ring, context: Tensor, lse: Tensor, new: Tensor, new_lse: Tensor
) -> tuple[Tensor, Tensor]:
    "Weight both by their shares of the sum of exponentials."
    total = torch.logaddexp(lse, new_lse)
    old_share, new_share = ((x - finite(total)).exp()[..., None] for x in (lse, new_lse))
    return old_share * context + new_share * new, total


def block_gradients(
    ring: Ring, block: dict[str, Tensor], own: dict[str, Tensor]
) -> tuple[Tensor, Tensor, Tensor]:
    "Gradients of one step: scores again, weights by the log-sum-exp of all steps."
    q, k, v, up = own["q"], block["k"], block["v"], own["up"]
    weights = (scores_of(ring, q, k, block["seen"]) - finite(own["lse"])[..., None]).exp()
    delta = (up * own["context"]).sum(-1, keepdim=True)
    slope = weights * (up @ shared(v, q).mT - delta) / math.sqrt(q.shape[-1])
    groups = (k.shape[1], -1)
    dk, dv = ((x.mT @ y).unflatten(1, groups).sum(2) for x, y in ((slope, q), (weights, up)))
    return slope @ shared(k, q), dk, dv


def returned(ring: Ring, gradients: tuple[Tensor, ...], world: int) -> tuple[Tensor, ...]:
    return gradients


@dataclass(frozen=True)
class Ring:
    "Ring attention: what is declared, and its steps."

    order: str = "contiguous"
    causal: bool = False
    window: int = 0
    sinks: int = 0
    documents: int = 0
    logits: tuple[float, ...] = ()  # sink logits, one a head
    rotate: Callable[[Tensor, Tensor], Tensor] | None = None
    positions: Callable[..., Tensor] = positions_of
    exchange: Callable[..., list[Tensor]] = exchange
    peer: Callable[..., int] = peer
    visits: Callable[..., list[int]] = visits
    allowed: Callable[..., Tensor] = allowed
    attend: Callable[..., tuple[Tensor, Tensor]] = attend
    merge: Callable[..., tuple[Tensor, Tensor]] = merge
    start: Callable[..., tuple[Tensor, Tensor]] | None = None
    block_gradients: Callable[..., tuple[Tensor, Tensor, Tensor]] = block_gradients
    returned: Callable[..., tuple[Tensor, ...]] = returned

    def __call__(self, q: Tensor, k: Tensor, v: Tensor, group: Any = None) -> Tensor:
        lengths = all_lengths(q.shape[-2], group)
        at = self.positions(self, lengths, dist.get_rank(group))
        if self.rotate is not None:
            q, k = self.rotate(q, at), self.rotate(k, at)
        return _Ring.apply(q, k, v, self, lengths, group)


def begin(ring: Ring, q: Tensor, world: int) -> tuple[Tensor, Tensor]:
    "The context before the first step: nothing, or the sinks' share."
    if not ring.logits:
        return torch.zeros_like(q), q.new_full(q.shape[:-1], -math.inf)
    logits = torch.tensor(ring.logits, dtype=q.dtype)[:, None]
    return torch.zeros_like(q), logits.expand(q.shape[:-1])


class _Ring(torch.autograd.Function):
    "Forward: keys go round. Backward: they go round again, and their gradients with them."

    @staticmethod
    def forward(
        ctx: Any, q: Tensor, k: Tensor, v: Tensor, ring: Ring, lengths: list[int], group: Any
    ) -> Tensor:
        rank = dist.get_rank(group)
        i = ring.positions(ring, lengths, rank)
        context, lse = (ring.start or begin)(
            ring, q.float() if q.dtype == torch.bfloat16 else q, len(lengths)
        )
        held = [k, v]
        visits = ring.visits(ring, len(lengths), rank)
        for step, of in enumerate(visits):
            seen = ring.allowed(ring, i, ring.positions(ring, lengths, of), rank, of)
            scores = scores_of(ring, q, held[0], seen).to(context.dtype)
            new, new_lse = ring.attend(ring, scores, shared(held[1], q).to(context.dtype))
            context, lse = ring.merge(ring, context, lse, new, new_lse)
            if step + 1 < len(visits):
                held = ring.exchange(ring, held, lengths, step, group)
        ctx.save_for_backward(q, k, v, context, lse)
        ctx.ring, ctx.lengths, ctx.group = ring, lengths, group
        return context.to(q.dtype)

    @staticmethod
    def backward(ctx: Any, up: Tensor) -> tuple[Any, ...]:
        q, k, v, context, lse = ctx.saved_tensors
        ring, lengths, group = ctx.ring, ctx.lengths, ctx.group
        world, rank = len(lengths), dist.get_rank(group)
        own = {"q": q, "k": k, "v": v, "up": up, "context": context, "lse": lse}
        i = ring.positions(ring, lengths, rank)
        dq, held = torch.zeros_like(q), [k, v, torch.zeros_like(k), torch.zeros_like(v)]
        for step in range(world):
            of = (rank - step) % world
            seen = ring.allowed(ring, i, ring.positions(ring, lengths, of), rank, of)
            block = {"k": held[0], "v": held[1], "seen": seen}
            new = ring.block_gradients(ring, block, own)
            dq = dq + new[0]
            held = ring.exchange(
                ring, [*held[:2], held[2] + new[1], held[3] + new[2]], lengths, step, group
            )
        return *ring.returned(ring, (dq, *held[2:]), world), None, None, None


# Two other ways -----------------------------------------------------------------------------------


class Gather(torch.autograd.Function):
    """The shards of all ranks, one after the other;
    each gets back the gradients that all ranks have for it.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, lengths: list[int], group: Any) -> Tensor:
        ctx.lengths, ctx.group = lengths, group
        most = max(lengths)
        shards = [x.new_empty(*x.shape[:-2], most, x.shape[-1]) for _ in lengths]
        dist.all_gather(
            shards, torch.nn.functional.pad(x, (0, 0, 0, most - x.shape[-2])), group=group
        )
        return torch.cat([shard[..., :n, :] for shard, n in zip(shards, lengths)], -2)

    @staticmethod
    def backward(ctx: Any, up: Tensor) -> tuple[Any, ...]:
        total = up.contiguous()
        dist.all_reduce(total, group=ctx.group)
        return total.split(ctx.lengths, -2)[dist.get_rank(ctx.group)], None, None


def gathered(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    order: str = "contiguous",
    causal: bool = False,
    group: Any = None,
) -> Tensor:
    "Gather all keys and values on every rank."
    lengths, rank = all_lengths(q.shape[-2], group), dist.get_rank(group)
    places = [
        ORDERS[order](torch.arange(sum(lengths)), len(lengths), r) for r in range(len(lengths))
    ]
    k, v = (shared(Gather.apply(x, lengths, group), q) for x in (k, v))
    seen = (torch.cat(places)[None] <= places[rank][:, None]) | (not causal)
    return (q @ k.mT / math.sqrt(q.shape[-1])).masked_fill(~seen, -math.inf).softmax(-1) @ v


class Exchange(torch.autograd.Function):
    """Give each rank the parts along one axis that are meant for it;
    what arrives is joined along another.
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, cut: int, cuts: list[int], join: int, joins: list[int], group: Any
    ) -> Tensor:
        ctx.how = join, joins, cut, cuts, group
        own = dist.get_rank(group)
        shapes = [list(x.shape) for _ in joins]
        for shape, n in zip(shapes, joins):
            shape[join], shape[cut] = n, cuts[own]
        sent = [part.flatten() for part in x.split(cuts, cut)]
        sizes = [math.prod(shape) for shape in shapes]
        arriving = x.new_empty(sum(sizes))
        dist.all_to_all_single(
            arriving, torch.cat(sent), sizes, [len(part) for part in sent], group
        )
        return torch.cat(
            [part.view(shape) for part, shape in zip(arriving.split(sizes), shapes)], join
        )

    @staticmethod
    def backward(ctx: Any, up: Tensor) -> tuple[Any, ...]:
        return Exchange.apply(up, *ctx.how), None, None, None, None, None


def ulysses(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    order: str = "contiguous",
    causal: bool = False,
    group: Any = None,
    heads: Callable[[int, int], list[int]] = lambda h, world: [
        len(part) for part in torch.arange(h).tensor_split(world)
    ],
) -> Tensor:
    "Exchange tokens for heads, attend, and exchange back."
    lengths = all_lengths(q.shape[-2], group)
    world = len(lengths)
    places = torch.cat([ORDERS[order](torch.arange(sum(lengths)), world, r) for r in range(world)])
    share = heads(q.shape[1], world)
    q, k, v = (
        Exchange.apply(x, 1, share, 2, lengths, group) for x in (q, shared(k, q), shared(v, q))
    )
    seen = (places[None] <= places[:, None]) | (not causal)
    context = (q @ k.mT / math.sqrt(q.shape[-1])).masked_fill(~seen, -math.inf).softmax(-1) @ v
    return Exchange.apply(context, 2, lengths, 1, share, group)
