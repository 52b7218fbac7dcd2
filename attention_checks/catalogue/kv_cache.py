"""Caches whose positions start again, whose padding is seen, or that lose tokens."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator

import torch
from torch import Tensor

from attention_checks.pipeline import STAGES, Bug, Step, Work, signs, unchanged

CACHE_SIGNS: list[Bug] = signs(
    """
cache.full_future: the pass to compare with sees the future: it must be causal; say how to call
    it, as full=lambda x: …
cache.forgets: the newest token attends to no old one: nothing is cached, or not read
cache.corner: the causal mask starts in the upper left corner, and the newest token attends to
    the oldest only: the last query must stand at the last key
cache.counter: the newest token attends to the oldest and to itself: the others are written over
    each other, for the length of the cache does not grow; add what is new to it
cache.drops: old tokens get lost: {words} make no difference to the newest one
cache.late: the newest token does not attend to itself: it is cached after the read, or not at all
cache.positions: positions with a cache are wrong: count on from its length, and rotate each key
    once, before it is cached
cache.mixes_sequences: with a cache, the sequences of a batch are mixed up
cache.query_positions: queries and keys count from different positions: read the length of the
    cache once, before the new keys are appended
cache.exchanged: with a cache, {what}: append keys to keys, and values to values
cache.unwritten: with a cache, {what} of old tokens are zero, or written over each other: write
    each at its own position
cache.order: with a cache, keys and values stand in opposite order: append both at the end
cache.twice: the key and the value of each new token are appended twice
cache.groups: with a cache, heads of keys and values stand in another order than in one pass: query
    heads read those of another group
cache.stored: with a cache, older keys differ from those of one pass: they are changed as they
    are stored or read
cache.values: with a cache, queries, keys and mask are as in one pass; values, or what
    follows, differ
cache.step: with a cache, attention is computed otherwise than in one pass
cache.rounded: its numbers are near those of one pass, {off} of the largest apart: does the
    cache keep fewer bits? | tolerance={tolerance}
cache.unknown: one token at a time gives other numbers than all at once, and no known bug gives
    them
cache.chunk_future: the tokens of a chunk attend to later ones: mask within the chunk
cache.chunk_alone: a chunk of several tokens attends to itself only, not to the cache
cache.chunk_positions: the tokens of a chunk have wrong positions: count on from the length
    before the chunk
cache.not_cleared: a new cache is not empty: tokens of an earlier sequence are in it
cache.reset: after reset() tokens of an earlier sequence are still seen, or counted
cache.truncate: after truncate(n) the tokens behind n are still seen, or counted
cache.padding: unused positions are seen: where a sequence is shorter, hide what lies behind its
    end
cache.sequence_ends: shorter sequences do not continue at their own ends: each must write, count
    and attend from its own length
cache.reorder: after reorder(indices) sequence i does not continue from sequence indices[i]: keys,
    values and lengths must all move
cache.full_silent: a full cache takes more tokens, and says nothing | grows=True
cache.full_changed: a full cache refuses more tokens, but something has changed by then
cache.copies: each step copies all that is cached: allocate once, and write into it | grows=True
"""
)


_FIRST = torch.tensor([0])
_Version = tuple[Tensor, Work]  # pairs (n, n), and what they read
_Kept = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]  # q, k, v → what is read of k, v
_READ: list[tuple[str, str, _Kept]] = [  # code, what is read, and in the place of keys and values
    ("cache.exchanged", "keys stand in the place of values", lambda q, k, v: (k, k)),
    ("cache.exchanged", "values stand in the place of keys", lambda q, k, v: (v, v)),
    ("cache.exchanged", "keys and values are exchanged", lambda q, k, v: (v, k)),
    ("cache.exchanged", "queries stand in the place of keys", lambda q, k, v: (q, v)),
    ("cache.unwritten", "keys", lambda q, k, v: (0 * k, v)),
    ("cache.unwritten", "values", lambda q, k, v: (k, 0 * v)),
    ("cache.groups", "", lambda q, k, v: (k.roll(1, -3), v.roll(1, -3))),
    ("cache.groups", "", lambda q, k, v: (k.roll(1, -3), v)),
    ("cache.stored", "", lambda q, k, v: (k * k.shape[-1] ** -0.5, v)),
]


def _own(t: Tensor) -> Tensor:
    "Say which key is the query's own, (n, n)."
    return torch.eye(t.shape[-1], dtype=torch.bool, device=t.device)


_OFTEN: list[Callable[[Tensor], Tensor]] = [  # age of a key, (n, n) → how often it was changed
    lambda age: age.clamp(max=1),  # once it is old
    lambda age: torch.ones_like(age),
    lambda age: (age - age[:, :1] < 0).long(),  # all but the first
    lambda age: age,  # at each step again
]


def _versions(kept: _Kept, often: Callable[[Tensor], Tensor], work: Work) -> Iterator[_Version]:
    "Return which pairs of query and key read keys and values that were changed once, twice, …"
    at = torch.arange(work.k.shape[-2])
    times = often((at[:, None] - at).clamp(min=0))
    for i in range(1, int(times.max()) + 1):
        k, v = kept(work.q, work.k, work.v)
        work = work._replace(k=k, v=v)
        yield times == i, work


def _reading(kept: _Kept, often: Callable[[Tensor], Tensor]) -> dict[str, Step]:
    "Make the steps of queries that read other keys and values."

    def score(work: Work) -> Work:
        right = STAGES["score"](work)
        for pairs, other in _versions(kept, often, work):
            wrong = STAGES["score"](other).scores
            right = right._replace(scores=wrong.where(pairs, right.scores))
        return right

    def mix(work: Work) -> Work:
        out = work.weights @ work.v
        for pairs, other in _versions(kept, often, work):
            out = out + (work.weights * pairs) @ (other.v - work.v)
        return work._replace(out=out)

    return {"score": score, "mix": mix}


def _first_key(work: Work) -> Work:
    "Write each new key over the first one; the others stay zero."
    scores = STAGES["score"](work).scores
    own = scores.diagonal(dim1=-2, dim2=-1).unsqueeze(-1)
    return work._replace(scores=torch.cat([own, 0 * scores[..., 1:]], -1))


def _first_value(work: Work) -> Work:
    "Write each new value over the first one; the others stay zero."
    return work._replace(out=work.weights[..., :1] * work.v)


def _reversed(work: Work) -> Work:
    "Multiply the weight of the oldest key by the newest value, and so on."
    at = torch.arange(work.weights.shape[-1])
    back = (at[:, None] - at).clamp(min=0).expand(work.weights.shape)
    return work._replace(out=work.weights.gather(-1, back).tril() @ work.v)


def _not_itself(work: Work) -> Work:
    "Hide each key from its own query."
    return work._replace(allowed=work.allowed & ~_own(work.allowed))


def _not_itself_after_one(work: Work) -> Work:
    "Hide each key but the first from its own query."
    return work._replace(allowed=work.allowed & (~_own(work.allowed)).index_fill(0, _FIRST, True))


def _doubled(work: Work) -> Work:
    "Count all keys but the first twice."
    twice = torch.full(work.k.shape[-2:-1], math.log(2)).index_fill(0, _FIRST, 0.0)
    return work._replace(bias=work.bias + twice)


_MOVED = {  # the code of a rotation in one pass → with a cache, where new tokens begin at 0
    "rotation.queries_only": "cache.positions",
    "rotation.keys_only": "cache.query_positions",
    "rotation.offset": "cache.query_positions",
}


def cache_bugs(
    rotate: Step,  # how a full pass rotates queries and keys
    beside: Iterable[Bug],  # the bugs of that rotation
) -> list[Bug]:  # as they show where tokens come one at a time
    "List what a cache may do wrong to the keys and values that it keeps."
    signs_of = {bug.code: bug for bug in CACHE_SIGNS}
    rows: list[tuple[str, str, dict[str, Step]]] = [
        ("cache.late", "", {"mask": _not_itself}),
        ("cache.late", "", {"mask": _not_itself_after_one}),
        ("cache.order", "", {"mix": _reversed}),
        ("cache.twice", "", {"route": _doubled}),
        ("cache.positions", "", {"rotate": unchanged}),
        *((_MOVED[bug.code], "", dict(bug.steps)) for bug in beside if bug.code in _MOVED),
        ("cache.unwritten", "keys", {"score": _first_key}),
        ("cache.unwritten", "values", {"mix": _first_value}),
    ]
    turned: _Kept = lambda q, k, v: (rotate(Work(q, k, v)).k, v)
    read = [*_READ, ("cache.positions", "", turned)]
    rows += [(code, what, _reading(f, often)) for code, what, f in read for often in _OFTEN]
    return [signs_of[code].about(what=what)._replace(steps=steps) for code, what, steps in rows]
