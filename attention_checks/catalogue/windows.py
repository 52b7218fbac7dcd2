"""Windows that are off by one or reach ahead, sinks that are forgotten, documents that mix."""

from collections.abc import Callable

from torch import Tensor

from attention_checks.catalogue.masks import allowing
from attention_checks.explaining.pipeline import Bug, Step, bugs_of_lines, listed
from attention_checks.explaining.reach import Reach

_Rule = Callable[[Reach, Tensor, Tensor], Tensor]  # reach, i, j → boolean, (n_q, n_k)
_WINDOW: dict[str, tuple[str, _Rule]] = {
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
_SINKS: dict[str, tuple[str, _Rule]] = {
    "sinks.forgotten": ("the sinks are forgotten", lambda reach, i, j: j < 0),
    "sinks.ahead": (
        "queries before the sinks attend to them, in the future: causal & (window|sinks)",
        lambda reach, i, j: j < reach.sinks,
    ),
    "sinks.one_short": (
        "one sink too few is kept",
        lambda reach, i, j: reach.not_future(i, j) & (j < reach.sinks - 1),
    ),
    "sinks.one_long": (
        "one sink too many is kept",
        lambda reach, i, j: reach.not_future(i, j) & (j <= reach.sinks),
    ),
}
_DOCUMENTS: dict[str, tuple[str, _Rule]] = {
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
_WINDOW_AND_SINKS: dict[str, tuple[str, _Rule]] = {
    "sinks.joined_by_and": (
        "window and sinks are joined by &: join them by |",
        lambda reach, i, j: reach.in_window(i, j) & reach.is_sink(i, j),
    )
}
_CAUSAL: dict[str, tuple[str, _Rule]] = {
    "documents.future": (
        "within a packed document the future is seen: causal & documents",
        lambda reach, i, j: j <= j,
    )
}


BUGS = listed(_WINDOW, _SINKS, _DOCUMENTS, _WINDOW_AND_SINKS, _CAUSAL) + bugs_of_lines(
    """
window.band: a query sees {back} keys before itself and {ahead} after, where {declared}
    | window={size}, ahead={ahead}
window.size: the window has the wrong size: {name} = {size}, but a token attends to {seen} tokens,
    itself included
"""
)


def reach_bugs(reach: Reach) -> list[Bug]:  # those that can show, for the stage `mask`
    "List wrong windows, sinks and packed documents."
    tables = [
        ("window", _WINDOW, reach.window),
        ("sinks", _SINKS, reach.sinks),
        ("documents", _DOCUMENTS, reach.documents),
        ("window | sinks", _WINDOW_AND_SINKS, reach.window and reach.sinks),
        ("window | sinks", _CAUSAL, reach.documents and reach.causal),
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
        i, j = reach.positions(*allowed.shape[-2:])
        wrong = rule(reach, i, j)
        near = wrong if part == "window" else reach.in_window(i, j)
        sink = wrong if part == "sinks" else reach.is_sink(i, j)
        own = wrong if part == "documents" else reach.same_document(i, j)
        seen = wrong if part == "window | sinks" else near | sink
        return (seen & own).expand_as(allowed)

    return allowing(mask)
