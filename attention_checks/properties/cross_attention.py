"""What a layer must do whose words ask those of another sequence, a memory: all that any layer must, and who reads what."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor

from attention_checks.catalogue import known
from attention_checks.examine import Broken, NotChecked, attempt, first_line
from attention_checks.numbers import first_difference, nearly
from attention_checks.pipeline import Bug
from attention_checks.properties import Properties, Relation, outcome
from attention_checks.properties.layers import tried
from attention_checks.properties.layers.masking import (
    LONG,
    moved_by,
    must_hide_padding,
    reach_of,
)
from attention_checks.properties.layers.own_weights import OWN_WEIGHTS
from attention_checks.properties.layers.running import (
    CALLS,
    EDGES,
    RUNS,
    misrouted,
    must_be_rows,
    must_forget,
    must_leave_inputs,
    must_not_mix,
    must_stay_finite,
    must_take_one,
)
from attention_checks.properties.layers.training import TRAINING, must_match_steps
from attention_checks.subjects.calling import must_be_whole
from attention_checks.subjects.copies import deep_copy
from attention_checks.subjects.layer import Layer, draw, no_module, reordering
from attention_checks.trace.comparing import compare_with_own_weights


def _well_read(a: Layer) -> None:
    if not a.read:
        raise NotChecked("no projection was recognised that reads one of them as it is")
    if bug := misrouted(a):
        raise Broken("what goes into each projection was compared with both inputs", bug)


def _other_memory(a: Layer) -> None:
    t = a.over_memory
    t(draw(t))
    got, fresh = t(other := draw(t, seed=1)), deep_copy(t.fresh)
    if not nearly(got, want := t.first(fresh, other)):
        raise Broken(
            f"right after another memory: {first_difference(got, want)}",
            known("state.kept"),
            last=True,
        )


def _each_alone(a: Layer) -> None:
    moves = moved_by(a, a.n, a.module)[0] & ~torch.eye(a.n, dtype=torch.bool)
    if moves.any():
        i, j = moves.nonzero()[0].tolist()
        raise Broken(
            f"changing word {j} of x moves output {i}", known("order.queries"), symptom=True
        )


def _all_heard(a: Layer) -> None:
    t = a.over_memory
    _must_hear(t, t.n, reach_of(t))


def _must_hear(t: Layer, n: int, reach: Tensor) -> None:
    "Raise Broken unless every output is moved by every word of the memory."
    if reach.all():
        return
    i, j = (~reach).nonzero()[0].tolist()
    cut, triangles = (
        int(reach.any(0).sum()),
        [torch.ones_like(reach).tril(corner) for corner in (0, n - len(reach))],
    )
    bug = known("mask.causal_unasked" if any(map(reach.equal, triangles)) else "mask.narrow")
    if reach[:, :cut].all():
        bug = (
            known("route.memory_unused" if not cut else "mask.drops_last_key")
            if cut in (0, n - 1)
            else known("length.cut", first=cut)
        )
    raise Broken(
        f"changing word {j} of the memory does not move output {i}",
        bug,
        symptom=bug.code == "mask.narrow",
    )


def _any_order(a: Layer) -> None:
    t = a.over_memory
    x, p = draw(t), reordering(t)
    if nearly(got := t(x[:, p]), want := t(x)):
        return
    if a.places or outcome(lambda: _all_heard(a)):
        raise NotChecked(
            f"it seems to know positions ({a.places})"
            if a.places
            else "some of them do not arrive at all"
        )
    raise Broken(
        f"words of the memory reordered: {first_difference(got, want)}", known("order.keys")
    )


def _any_memory(a: Layer) -> None:
    t, right = a.over_memory, isinstance(a.module, nn.Module) and attempt(lambda: a.unrotated) == ()
    for n in a.lengths(a.n - 2, a.n, LONG[0]):
        try:
            y = t(x := draw(t, 2, n))
        except Exception as e:
            raise Broken(
                f"memory {tuple(draw(t, 2, n).shape)}: it raised {first_line(e)}",
                known("length.only"),
            ) from None
        must_be_rows(t, x, y)
        if n > a.n_k:
            _must_hear(t, n, reach_of(replace(t, said_n=n)))
        if right and _redone(a, n) != ():
            raise Broken(
                f"{n} words of memory: the context is not that of its own weights",
                known("length.long", few=a.n_k, many=n),
            )


def _not_padded(a: Layer) -> None:
    t = a.over_memory
    if name := _narrows(t.module):
        raise NotChecked(f"{name} makes one of several words, and zeros may fill up what lacks")
    x = draw(t, n=(n := t.n - 1 + t.n % 2))  # odd, so that something lacks to a multiple
    want, counted = t(x), 0
    while (
        counted <= _FILLED
        and (got := attempt(lambda: t(F.pad(x, (0, 0, 0, counted + 1))))) is not None
    ):
        if not torch.allclose(
            got, want, 1e-5, 1e-6
        ):  # however coarse a type was declared: it is the same sum
            break
        counted += 1
    else:
        return  # it takes no more, or words of zeros never count
    if counted:
        shown = f"memory {tuple(x.shape)}: up to {n + counted} words, the rest zeros, the output is the same, and not for more"
        raise Broken(shown, known("length.padded"))


def _narrows(module: Any) -> str:
    "The class of something in it that steps over words, if there is one."
    steps = (
        [(type(m).__name__, getattr(m, "stride", 1)) for m in module.modules()]
        if isinstance(module, nn.Module)
        else []
    )
    return next((name for name, step in steps if step not in (1, (1,), (1, 1))), "")


def _redone(a: Layer, n: int) -> tuple[Bug, ...] | None:
    "What its own weights tell with so many words of memory."
    return compare_with_own_weights(a.watched(draw(a, 2), a.roles, n), a.n_heads, False, most=0)


_MEMORY = (7, 8, 9)  # words of what is attended to: never as many as ask
_FILLED = 128  # nobody fills up with more words than that


def _of_memory(holds: Callable[[Layer], str | None]) -> Callable[[Layer], str | None]:
    "The same, tried over the memory."
    return lambda a: holds(a.over_memory)


_CROSS = (
    Relation("queries are made from x, keys and values from the memory", _well_read, no_module),
    Relation("another memory gives its own answer", _other_memory, no_module),
    Relation("a word of x moves its own output alone", _each_alone),
    Relation("every word of the memory reaches every output", _all_heard),
    Relation("the order of the memory's words does not matter", _any_order),
    Relation("the memory may be shorter and longer", _any_memory),
    Relation("zeros behind the memory count as words", _not_padded),
    Relation("nothing is kept from memory to memory", _of_memory(must_forget)),
    Relation("memories of a batch do not mix", _of_memory(must_not_mix)),
    Relation(
        "what its masks hide of the memory has no influence",
        _of_memory(must_hide_padding),
        no_module,
    ),
    Relation(
        "gradients reach the memory, and are those of its values", _of_memory(must_match_steps)
    ),
    Relation("one word of memory", _of_memory(must_take_one)),
    Relation(
        "the memory is not modified, and need not be contiguous", _of_memory(must_leave_inputs)
    ),
    Relation("large memories give finite values and gradients", _of_memory(must_stay_finite)),
)


def cross_properties(
    a: Layer,  # the layer under test, and what was said of it
    d_memory: int | None = None,  # width of the rows of the memory; default d_model
) -> tuple[Properties, Callable[[], tuple[Bug, ...] | None]]:  # properties; what names the bug
    "List what every cross-attention layer must do, in the order of trying."
    must_be_whole(a.given)
    n_k = next(n for n in _MEMORY if n not in (a.n_heads, a.d_model // (a.n_heads or 1)))
    a = replace(
        a, beside=draw(replace(a, d_model=d_memory or a.d_model), 1, a.contract.usual(n_k), seed=9)
    )
    return tried(a, [*RUNS, *_CROSS, *OWN_WEIGHTS, *CALLS, *TRAINING, *EDGES])
