"""How a sequence is spread over ranks, as it is declared, and the trials that follow from it."""

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import NamedTuple

import torch
from torch import Tensor

from attention_checks.explaining.pipeline import Work, right_output, work_of
from attention_checks.explaining.reach import Reach
from attention_checks.numbers.tolerance import FLOAT64, TOLERANCES, USUAL_TOLERANCE
from attention_checks.spec import Contract
from attention_nb.many_machines import split_sequence
from attention_nb.tools.guards import expect_flags, expect_groups, expect_sizes

# positions of all tokens (n,), how many ranks, which one → the positions that it holds
Order = Callable[[Tensor, int, int], Tensor]

BATCH, D_HEAD = 2, 5


contiguous: Order = partial(split_sequence, dim=-1)  # one piece for each rank
zigzag: Order = partial(split_sequence, order="zigzag", dim=-1)  # and one from the other end


def striped(positions: Tensor, world: int, rank: int) -> Tensor:
    "Deal the tokens out, one to each rank in turn."
    return positions[rank::world]


ORDERS: dict[str, Order] = {"contiguous": contiguous, "zigzag": zigzag, "striped": striped}


@dataclass(frozen=True)
class Sharding:
    "What the author of sequence-parallel attention declares."

    order: str | Order = "contiguous"  # which rank holds which tokens
    n_heads: int = 12  # of the queries: 1, 2, 3 and 4 ranks divide it
    n_kv_heads: int = 12  # of keys and values
    worlds: Collection[int] = (1, 2, 3, 4)  # numbers of ranks
    even: bool = False  # does it take only sequences that all ranks share equally?
    empty_ranks: bool = True  # may a rank hold no token?
    sink_logits: Collection[float] | None = None  # one for each head, beside the scores
    timeout: float = 8.0  # seconds after which a rank counts as stuck
    contract: Contract = field(default_factory=Contract)  # what every attention may declare

    def __post_init__(self) -> None:
        "Raise TypeError or ValueError for what cannot be; numbers of ranks are put in order."
        if not callable(self.order) and self.order not in ORDERS:
            names = ", ".join(map(repr, ORDERS))
            raise ValueError(
                f"order: expected {names} or a function that splits; got {self.order!r}"
            )
        expect_groups(self.n_heads, self.n_kv_heads)
        expect_flags(even=self.even, empty_ranks=self.empty_ranks)
        if not self.worlds:
            raise ValueError(f"worlds: expected one number of ranks or more; got {self.worlds!r}")
        for world in self.worlds:
            expect_sizes(worlds=world)
        object.__setattr__(self, "worlds", tuple(sorted(set(self.worlds))))
        if self.sink_logits is None:
            return
        logits = tuple(map(float, self.sink_logits))
        if len(logits) != self.n_heads:
            raise ValueError(f"sink_logits: expected one for each head; got {len(logits)}")
        object.__setattr__(self, "sink_logits", logits)

    @cached_property
    def split(self) -> Order:
        "Return the order as a function."
        return ORDERS[self.order] if isinstance(self.order, str) else self.order

    @property
    def reach(self) -> Reach:
        "Return which keys a query may attend to, by their positions."
        return self.contract.reach

    @property
    def dtype(self) -> torch.dtype:
        "Return the type that it runs in: float64, where every bit counts, unless declared."
        return self.contract.placement.dtype or torch.float64

    @property
    def tolerance(self) -> float:
        "Return how far apart equal numbers may be."
        usual = FLOAT64 if self.dtype == torch.float64 else USUAL_TOLERANCE
        return self.contract.tolerance or TOLERANCES.get(self.dtype, usual)

    def held(self, n: int, world: int) -> tuple[Tensor, ...]:
        "List the positions that each rank holds."
        return tuple(self.split(torch.arange(n), world, rank) for rank in range(world))

    def lengths(self, world: int) -> list[int]:
        "List the lengths that are tried: equal shards first, then uneven ones, then empty ranks."
        far = max(self.reach.window, self.reach.documents) * 3 + self.reach.sinks
        unit = 2 * world if self.order == "zigzag" else world
        equal = [unit * math.ceil(max(12, far) / unit), unit]
        if self.even:
            return equal
        uneven = [n for n in (_prime(max(13, far)), world + 1) if n not in equal]
        few = [n for n in (world - 1, 1) if n > 0 and n not in (*equal, *uneven)]
        tried = [*equal, *uneven, *few]
        return [n for n in tried if self.empty_ranks or not self.leaves_empty(n, world)]

    def leaves_empty(self, n: int, world: int) -> bool:
        "Return whether some rank holds nothing."
        return any(len(part) == 0 for part in self.held(n, world))

    def shares_equally(self, n: int, world: int) -> bool:
        "Return whether all ranks hold the same number of tokens, in equal pieces."
        unit = 2 * world if self.order == "zigzag" else world
        return n % unit == 0 and len({len(part) for part in self.held(n, world)}) == 1


def _prime(least: int) -> int:
    "Return the first prime number that is not smaller."
    while any(least % i == 0 for i in range(2, least)):
        least += 1
    return least


class Trial(NamedTuple):
    "One call on every rank: the whole sequence, and who holds which part of it."

    sharding: Sharding
    world: int
    q: Tensor  # (b, h, n, d)
    k: Tensor  # (b, h_kv, n, d)
    v: Tensor  # (b, h_kv, n, d)
    upstream: Tensor  # gradient that arrives at the context, (b, h, n, d)
    held: tuple[Tensor, ...]  # positions of each rank

    @property
    def n(self) -> int:
        "Return the number of tokens."
        return self.q.shape[-2]

    @property
    def shown(self) -> str:
        "Describe the trial."
        sizes = ", ".join(str(len(part)) for part in self.held)
        return f"{self.world} ranks, {self.n} tokens ({sizes})"

    def ring_order(self, rank: int) -> list[int]:
        "List the ranks whose keys a rank attends to: its own, that before it, and so on."
        return [(rank - step) % self.world for step in range(self.world)]

    def part(self, x: Tensor, rank: int) -> Tensor:
        "Return the part of a tensor that a rank holds."
        return x[..., self.held[rank], :].contiguous()

    def inputs(self, rank: int) -> tuple[Tensor, ...]:
        "Return queries, keys and values of a rank."
        return tuple(self.part(x, rank).to(self.sharding.dtype) for x in (self.q, self.k, self.v))

    def right(self) -> tuple[Tensor, tuple[Tensor, ...]]:
        "Return the right context, and the gradients of q, k and v, of the whole sequence."
        leaves = [t.clone().requires_grad_() for t in (self.q, self.k, self.v)]
        context = right_output(self.work(*leaves))
        # a sum, since given gradients make PyTorch import SymPy, which takes a second
        loss = (context * self.upstream).sum()
        return context.detach(), torch.autograd.grad(loss, leaves, materialize_grads=True)

    def work(self, *leaves: Tensor) -> Work:
        "Set out what attention starts from: rotated, grouped, with a key for each sink."
        sharding, (q, k, v) = self.sharding, leaves or (self.q, self.k, self.v)
        q, k = (sharding.contract.rotated(x, torch.arange(self.n)) for x in (q, k))
        k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
        mask, bias = sharding.reach.mask(self.n, self.n), torch.zeros((), dtype=q.dtype)
        if sharding.sink_logits is not None:
            k, v = (torch.cat([torch.zeros_like(x[..., :1, :]), x], -2) for x in (k, v))
            mask = torch.cat([torch.ones(self.n, 1, dtype=torch.bool), mask], 1)
            bias = q.new_zeros(1, q.shape[1], 1, self.n + 1)
            bias[..., 0] = torch.tensor(sharding.sink_logits, dtype=q.dtype)[:, None]
        work = work_of(q, k, v, mask, sharding.contract.scale_of(q.shape[-1]))
        return work._replace(bias=bias, bias_last=True, softcap=sharding.contract.softcap)


def trial_of(
    sharding: Sharding,  # what was declared
    world: int,  # number of ranks
    n: int,  # tokens of the whole sequence
    times: float = 1.0,  # factor of the queries: large ones make large scores
) -> Trial:
    "Draw a trial, the same for the same sizes; float64."
    draw = torch.Generator().manual_seed(100 * world + n)
    heads = (sharding.n_heads, sharding.n_kv_heads, sharding.n_kv_heads, sharding.n_heads)
    sizes: Sequence[tuple[int, ...]] = [(BATCH, h, n, D_HEAD) for h in heads]
    q, k, v, upstream = (torch.randn(s, generator=draw, dtype=torch.float64) for s in sizes)
    q, k, v, upstream = (x.to(sharding.dtype).double() for x in (1.5 * times * q, k, v, upstream))
    return Trial(sharding, world, q, k, v, upstream, sharding.held(n, world))
