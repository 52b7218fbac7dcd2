"""Windows that are off by one or look both ways, sinks that are forgotten, packed texts that leak."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from attention_checks.catalogue.masks import allowing
from attention_checks.pipeline import Bug, bugs_of


class Reach(NamedTuple):
    "How far a query sees, as it was declared."

    window: int = 0  # itself and those before it; 0: all
    sinks: int = 0  # keys at the beginning that are seen besides
    documents: int = 0  # words of each packed text; 0: one text
    causal: bool = True  # is the future hidden?
    upper_left: bool = (
        False  # does the first query stand at the first key? else the last at the last
    )

    def past(
        self,
        i: Tensor,  # places of queries, (n_q, 1)
        j: Tensor,  # places of keys, (1, n_k)
    ) -> Tensor:  # boolean, (n_q, n_k)
        "What is not the future."
        return (j <= i) | (not self.causal)

    def near(
        self,
        i: Tensor,  # places of queries, (n_q, 1)
        j: Tensor,  # places of keys, (1, n_k)
    ) -> Tensor:  # boolean, (n_q, n_k)
        "What lies in the window."
        return (j <= i) & (i - j < self.window) if self.window else self.past(i, j)

    def kept(
        self,
        i: Tensor,  # places of queries, (n_q, 1)
        j: Tensor,  # places of keys, (1, n_k)
    ) -> Tensor:  # boolean, (n_q, n_k)
        "What are sinks."
        return self.past(i, j) & (j < self.sinks)

    def own(
        self,
        i: Tensor,  # places of queries, (n_q, 1)
        j: Tensor,  # places of keys, (1, n_k)
    ) -> Tensor:  # boolean, (n_q, n_k)
        "What is of the same text."
        return i // self.documents == j // self.documents if self.documents else j <= j

    def places(
        self,
        n_q: int,  # queries
        n_k: int,  # keys
    ) -> tuple[Tensor, Tensor]:  # (n_q, 1) and (1, n_k)
        "The places of queries and of keys."
        start = 0 if self.upper_left else n_k - n_q
        return torch.arange(start, start + n_q)[:, None], torch.arange(n_k)[None]

    def mask(
        self,
        n_q: int,  # queries
        n_k: int,  # keys
    ) -> Tensor:  # boolean, True = may attend, (n_q, n_k)
        "Who may look at whom."
        i, j = self.places(n_q, n_k)
        return (self.near(i, j) | self.kept(i, j)) & self.own(i, j)


_Rule = Callable[[Reach, Tensor, Tensor], Tensor]
_OFF = "the window is off by one"
_NEAR: dict[str, tuple[str, _Rule]] = {
    "window.ignored": (
        "the window is not applied: all words before are seen",
        lambda s, i, j: j <= i,
    ),
    "window.one_short": (
        f"{_OFF}: a query sees one word too few; it counts itself, so its window ends at i - window + 1",
        lambda s, i, j: (j <= i) & (i - j < s.window - 1),
    ),
    "window.one_long": (
        f"{_OFF}: a query sees one word too many; it counts itself, so its window ends at i - window + 1",
        lambda s, i, j: (j <= i) & (i - j <= s.window),
    ),
    "window.shifted": (
        f"{_OFF}: a query does not see itself, and the whole window lies before it",
        lambda s, i, j: (j < i) & (i - j <= s.window),
    ),
    "window.sees_next": (
        f"{_OFF}: it begins with the next word, which lies in the future",
        lambda s, i, j: (j <= i + 1) & (i - j < s.window - 1),
    ),
    "window.both_sides": (
        "the window reaches as far ahead as back: the future is seen",
        lambda s, i, j: (i - j).abs() < s.window,
    ),
    "window.centred": (
        "half of the window lies ahead: the future is seen",
        lambda s, i, j: (i - j).abs() <= s.window // 2,
    ),
    "window.ahead": (
        "the window looks ahead, not back: tril and triu have changed places",
        lambda s, i, j: (j >= i) & (j - i < s.window),
    ),
    "window.blocks": (
        "words see their own block only: the window does not slide",
        lambda s, i, j: (j <= i) & (i // s.window == j // s.window),
    ),
    "window.blocks_open": (
        "words see their own block only, and the future in it: the window does not slide",
        lambda s, i, j: i // s.window == j // s.window,
    ),
    "window.two_blocks": (
        "words see their own block and all of the one before: mask within the blocks, too",
        lambda s, i, j: (j <= i) & (i // s.window - j // s.window <= 1),
    ),
    "window.inverted": (
        "the window hides what it should show, and shows what lies before it",
        lambda s, i, j: (j <= i) & (i - j >= s.window),
    ),
    "window.twice": (
        "the window is twice as wide as it should be",
        lambda s, i, j: (j <= i) & (i - j < 2 * s.window),
    ),
    "window.half": (
        "the window is half as wide as it should be",
        lambda s, i, j: (j <= i) & (i - j < s.window // 2),
    ),
    "window.last_keys": (
        "every query gets the window of the last one: the last keys, whatever its own place",
        lambda s, i, j: (j <= i) & (j > j.max() - s.window),
    ),
}
_KEPT: dict[str, tuple[str, _Rule]] = {
    "sinks.forgotten": ("the sinks are forgotten: only the window is seen", lambda s, i, j: j < 0),
    "sinks.ahead": (
        "the sinks are seen before they come: the first words see the future; causal & (window | sinks)",
        lambda s, i, j: j < s.sinks,
    ),
    "sinks.one_short": (
        "one sink too few is kept",
        lambda s, i, j: s.past(i, j) & (j < s.sinks - 1),
    ),
    "sinks.one_long": ("one sink too many is kept", lambda s, i, j: s.past(i, j) & (j <= s.sinks)),
}
_OWN: dict[str, tuple[str, _Rule]] = {
    "documents.leak": (
        "the texts of a packed row are not kept apart: one sees another",
        lambda s, i, j: j <= j,
    ),
    "documents.shifted": (
        "the border between packed texts is off by one: a word is counted to its neighbour's text",
        lambda s, i, j: (i + 1) // s.documents == (j + 1) // s.documents,
    ),
    "documents.before": (
        "a packed text sees the one before it",
        lambda s, i, j: (i // s.documents - j // s.documents).abs() <= 1,
    ),
    "documents.inverted": (
        "packed texts see the others, and not themselves",
        lambda s, i, j: i // s.documents != j // s.documents,
    ),
}


def reach_bugs(
    reach: Reach,  # what was declared
) -> list[Bug]:  # those that can show, for the stage `mask`
    "List what goes wrong with windows, sinks and packed texts."
    anew = {
        "near": _NEAR if reach.window else {},
        "kept": _KEPT if reach.sinks else {},
        "own": _OWN if reach.documents else {},
    }
    bugs = [
        (part, code, says, rule)
        for part, table in anew.items()
        for code, (says, rule) in table.items()
    ]
    both = [("both", *_BOTH)] if reach.window and reach.sinks else []
    future = [("all", *_FUTURE)] if reach.documents and reach.causal else []
    return [
        bug
        for part, code, says, rule in [*bugs, *both, *future]
        for bug in bugs_of("mask", allowing, {code: (says, _with(reach, part, rule))}, "mask")
    ]


def _with(reach: Reach, part: str, rule: _Rule) -> Callable[[Tensor], Tensor]:
    "The mask with one rule in the place of another."

    def mask(allowed: Tensor) -> Tensor:
        i, j = reach.places(*allowed.shape[-2:])
        near, kept, own = (
            rule(reach, i, j) if part == name else getattr(reach, name)(i, j)
            for name in ("near", "kept", "own")
        )
        seen = rule(reach, i, j) if part in ("both", "all") else near | kept
        return (seen & own).expand_as(allowed)

    return mask


_BOTH = (
    "sinks.joined_by_and",
    "window and sinks are joined by &: only sinks within the window are seen; join them by |",
    lambda s, i, j: s.near(i, j) & s.kept(i, j),
)
_FUTURE = (
    "documents.future",
    "within a packed text the future is seen: causal & documents",
    lambda s, i, j: j <= j,
)
