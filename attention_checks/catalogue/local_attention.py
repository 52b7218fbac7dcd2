"""Windows that are off by one or reach ahead, sinks that are forgotten, documents that mix."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from attention_checks.catalogue.masks import allowing
from attention_checks.pipeline import Bug, Step


class Reach(NamedTuple):
    "Which keys a query may attend to, as it was declared."

    window: int = 0  # the query's own position and those before it; 0: all
    sinks: int = 0  # keys at the beginning that every query may attend to besides
    documents: int = 0  # tokens of each packed document; 0: one document
    causal: bool = True  # is the future hidden?
    upper_left: bool = False  # True: the first query stands at the first key; else last at last
    ahead: int = 0  # keys after the query that it sees besides; 0: as `causal` says

    def past(self, i: Tensor, j: Tensor) -> Tensor:
        "Return the keys that are not in the future, or all."
        if self.ahead:
            return j - i <= self.ahead
        return (j <= i) | (not self.causal)

    def near(self, i: Tensor, j: Tensor) -> Tensor:
        "Return the keys in the window."
        if not self.window:
            return self.past(i, j)
        return (j - i <= self.ahead) & (i - j < self.window)

    def kept(self, i: Tensor, j: Tensor) -> Tensor:
        "Return the sinks."
        return self.past(i, j) & (j < self.sinks)

    def own(self, i: Tensor, j: Tensor) -> Tensor:
        "Return the keys of the query's own document."
        return i // self.documents == j // self.documents if self.documents else j <= j

    def places(
        self,
        n_q: int,  # queries
        n_k: int,  # keys
    ) -> tuple[Tensor, Tensor]:  # (n_q, 1) and (1, n_k)
        "Return the positions of queries and of keys."
        start = 0 if self.upper_left else n_k - n_q
        return torch.arange(start, start + n_q)[:, None], torch.arange(n_k)[None]

    def mask(self, n_q: int, n_k: int) -> Tensor:
        "Return the whole mask."
        i, j = self.places(n_q, n_k)
        return (self.near(i, j) | self.kept(i, j)) & self.own(i, j)


_Rule = Callable[[Reach, Tensor, Tensor], Tensor]  # reach, i, j → boolean, (n_q, n_k)
_NEAR: dict[str, tuple[str, _Rule]] = {
    "window.ignored": ("the window is not applied", lambda reach, i, j: j <= i),
    "window.shifted": (
        "the window is off by one: a query does not attend to itself",
        lambda reach, i, j: (j < i) & (i - j <= reach.window),
    ),
    "window.blocks": (
        "tokens attend to their own block only: the window does not slide",
        lambda reach, i, j: (j <= i) & (i // reach.window == j // reach.window),
    ),
    "window.blocks_open": (
        "tokens attend to their own block only, and to the future in it",
        lambda reach, i, j: i // reach.window == j // reach.window,
    ),
    "window.two_blocks": (
        "tokens attend to all of their own block and the one before: mask within blocks too",
        lambda reach, i, j: (j <= i) & (i // reach.window - j // reach.window <= 1),
    ),
    "window.inverted": (
        "the window is inverted: it hides what it should show",
        lambda reach, i, j: (j <= i) & (i - j >= reach.window),
    ),
    "window.last_keys": (
        "every query gets the window of the last one",
        lambda reach, i, j: (j <= i) & (j > j.max() - reach.window),
    ),
}
_KEPT: dict[str, tuple[str, _Rule]] = {
    "sinks.forgotten": ("the sinks are forgotten", lambda reach, i, j: j < 0),
    "sinks.ahead": (
        "queries before the sinks attend to them, in the future: causal & (window | sinks)",
        lambda reach, i, j: j < reach.sinks,
    ),
    "sinks.one_short": (
        "one sink too few is kept",
        lambda reach, i, j: reach.past(i, j) & (j < reach.sinks - 1),
    ),
    "sinks.one_long": (
        "one sink too many is kept",
        lambda reach, i, j: reach.past(i, j) & (j <= reach.sinks),
    ),
}
_OWN: dict[str, tuple[str, _Rule]] = {
    "documents.leak": (
        "the documents of a packed sequence attend to each other",
        lambda reach, i, j: j <= j,
    ),
    "documents.shifted": (
        "the border between packed documents is off by one",
        lambda reach, i, j: (i + 1) // reach.documents == (j + 1) // reach.documents,
    ),
    "documents.before": (
        "a packed document attends to the one before it",
        lambda reach, i, j: (i // reach.documents - j // reach.documents).abs() <= 1,
    ),
    "documents.inverted": (
        "packed documents attend to the others, and not to themselves",
        lambda reach, i, j: i // reach.documents != j // reach.documents,
    ),
}
_NEAR_AND_KEPT: dict[str, tuple[str, _Rule]] = {
    "sinks.joined_by_and": (
        "window and sinks are joined by &: join them by |",
        lambda reach, i, j: reach.near(i, j) & reach.kept(i, j),
    )
}
_CAUSAL: dict[str, tuple[str, _Rule]] = {
    "documents.future": (
        "within a packed document the future is seen: causal & documents",
        lambda reach, i, j: j <= j,
    )
}


BAND = Bug(
    "window.band",
    "a query sees {back} keys before itself and {ahead} after, where {said}",
    declare="window={size}, ahead={ahead}",
)
SIZE = Bug(
    "window.size",
    "the window has the wrong size: {name} = {size}, but a token attends to {seen} tokens,"
    " itself included",
)


def name_band(
    seen: Tensor,  # boolean, which keys each query attends to, (n_q, n_k); the last stands at last
    declared: Reach | None,  # None: nothing
) -> Bug | None:  # None: it is no band, or the declared one
    "Name the band of keys that queries see, if it is a wrong one."
    declared = declared or Reach(causal=False)
    i, j = declared.places(*seen.shape)
    inside = seen & ~declared.kept(i, j) if declared.window else seen
    if not inside.any():
        return None
    back, ahead = int((i - j)[inside].max()), max(0, int((j - i)[inside].max()))
    found = declared._replace(window=back + 1, ahead=ahead)
    right = declared.mask(*seen.shape)
    if not seen.equal(found.mask(*seen.shape)) or seen.equal(right) or _whole(seen):
        return None
    if declared.window and not ahead and not declared.ahead:
        return SIZE.about(name="window", size=declared.window, seen=back + 1)
    limits = {"window": declared.window, "ahead": declared.ahead}
    said = ", ".join(f"{name}={n}" for name, n in limits.items() if n)
    said = f"{said} was declared" if said else "no window was declared"
    return BAND.about(back=back, ahead=ahead, size=back + 1, said=said)


def _whole(seen: Tensor) -> bool:
    "Return whether every key is seen, or all of the past: then there is no band."
    whole = torch.ones_like(seen)
    return seen.equal(whole) or seen.equal(whole.tril(seen.shape[1] - seen.shape[0]))


def reach_bugs(
    reach: Reach,  # what was declared
) -> list[Bug]:  # those that can show, for the stage `mask`
    "List wrong windows, sinks and packed documents."
    tables = [
        ("near", _NEAR, reach.window),
        ("kept", _KEPT, reach.sinks),
        ("own", _OWN, reach.documents),
        ("near | kept", _NEAR_AND_KEPT, reach.window and reach.sinks),
        ("near | kept", _CAUSAL, reach.documents and reach.causal),
    ]
    return [
        Bug(code, says, {"mask": _with(reach, part, rule)}, "mask")
        for part, table, declared in tables
        if declared
        for code, (says, rule) in table.items()
    ]


def _with(reach: Reach, part: str, rule: _Rule) -> Step:
    "Make the mask with one rule in the place of one part."

    def mask(allowed: Tensor) -> Tensor:
        i, j = reach.places(*allowed.shape[-2:])
        wrong = rule(reach, i, j)
        near = wrong if part == "near" else reach.near(i, j)
        kept = wrong if part == "kept" else reach.kept(i, j)
        own = wrong if part == "own" else reach.own(i, j)
        seen = wrong if part == "near | kept" else near | kept
        return (seen & own).expand_as(allowed)

    return allowing(mask)
