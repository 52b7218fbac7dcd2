"""One object for a layer that somebody else wrote: how it is called, and what is found out about it, each once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
import torch.nn as nn
from torch import Tensor

from attention_checks.catalogue import known
from attention_checks.conventions import PLACES, heads_of, settings_of, told_scales
from attention_checks.examine import attempt
from attention_checks.numbers import nearly
from attention_checks.pipeline import Bug, sentence
from attention_checks.properties import Properties, Relation, listed
from attention_checks.spec import Contract
from attention_checks.subjects.calling import (
    Call,
    carrying,
    first_tensor,
    how_to_call,
    how_to_call_both,
)
from attention_checks.subjects.copies import copy_of, in_training, zero_weights
from attention_checks.trace import Trace, trace_layer
from attention_checks.trace.comparing import compare_with_own_weights
from attention_checks.trace.own_stages import norms_of
from attention_checks.trace.roles import guess_roles, what_is_read
from attention_checks.trace.rotating import (
    agrees_with_rotation,
    name_rotation_bug,
    name_window_bug,
)

SENTENCES, WORDS = 3, 5  # of the usual trial; few, for layers with a small maximum
LONGEST = 160  # words of the longest sentence that shows where a window ends


@dataclass(frozen=True)
class Layer:
    "The layer under test: a copy, in evaluation mode, called in one way whatever it returns."

    given: Any
    d_model: int
    causal: bool = False
    said_heads: int | None = None
    positions: bool | None = None
    said_call: Call | None = None
    alone: bool = False  # True: it should be multi-head attention and nothing else
    said_window: int | None = (
        None  # how many words a word sees, itself included, if somebody said so
    )
    said_kv_heads: int | None = None  # how many heads of keys and values, if somebody said so
    contract: Contract = Contract()  # what else was declared
    found_out: tuple[str, ...] = ()  # what was not declared, and is plain
    beside: Tensor | None = (
        None  # of cross-attention the other sequence, (1, n, width), the same for all sentences
    )
    turned: bool = False  # is x the memory, and asks what lies beside it?
    said_n: int = WORDS  # how many words it is tried with, if any length will do

    def __call__(self, x: Tensor) -> Tensor:
        "The output, (b, n, d_out)."
        return self.all(x)[0]

    def all(
        self,
        x: Tensor,  # (b, n, d_model)
    ) -> tuple[Tensor, tuple[Any, ...]]:
        "The output and whatever else is returned."
        return first_tensor(self.call(self.module, x.clone(memory_format=torch.contiguous_format)))

    def first(
        self,
        m: Any,  # the copy, or a copy of that
        x: Tensor,  # (b, n, d_model)
    ) -> Tensor:
        "The output alone, of any module of its kind."
        return first_tensor(self.call(m, x))[0]

    @property
    def n(self) -> int:
        "How many words it is tried with."
        return self.contract.usual(self.said_n)

    @property
    def n_k(self) -> int:
        "How many words are attended to."
        return self.n if self.beside is None or self.turned else self.beside.shape[1]

    def rows(
        self,
        x: Tensor,  # (b, n, d_model)
    ) -> tuple[int, int]:
        "How many sentences and words come out."
        return len(x), self.outputs(x.shape[1])

    def outputs(
        self,
        n: int,  # words of x
    ) -> int:
        "How many words come out of so many that go in."
        return self.beside.shape[1] if self.beside is not None and self.turned else n

    def lengths(
        self,
        *several: int,  # numbers of words; those below 1 are left out
    ) -> list[int]:
        "Of some numbers of words, those that it promises to take."
        return [n for n in several if n > 0 and self.contract.takes(n)]

    @cached_property
    def settled(self) -> Layer:
        "The same, with what is plain and was not declared."
        return _settle(self)

    @cached_property
    def call(self) -> Call:
        "How it is called."
        return self.plain if self.beside is None else self.calling(self.beside)

    @cached_property
    def plain(self) -> Call:
        "The same, with both sequences if there are two."
        how = self.said_call or (
            how_to_call(self.given, self.causal)
            if self.beside is None
            else how_to_call_both(self.given)
        )
        return carrying(how, self.contract)

    def calling(
        self,
        other: Tensor,  # (1, n, width) for all sentences, or (b, n, width)
    ) -> Call:  # of module and x
        "How it is called with another sequence beside x."

        def call(m: Any, x: Tensor) -> Any:
            y = other.expand(len(x), -1, -1).to(x).clone(memory_format=torch.contiguous_format)
            return self.plain(m, y, x) if self.turned else self.plain(m, x, y)

        return call

    @cached_property
    def over_memory(self) -> Layer:
        "The same layer as a function of its memory."
        assert self.beside is not None
        n, width = self.beside.shape[1:]
        return replace(self, d_model=width, beside=draw(self, 1), turned=True, said_n=n)

    @cached_property
    def module(self) -> Any:
        "A copy; one that finds its widths at the first call has been called."
        module = copy_of(self.given, self.contract)
        if isinstance(module, nn.Module) and any(map(nn.parameter.is_lazy, module.parameters())):
            with (
                torch.no_grad(),
                suppress(Exception),
            ):  # what it raises is told by the first property
                self.call(module, draw(self))
        return module

    @cached_property
    def fresh(self) -> Any:
        "One that was never called."
        lazy = isinstance(self.given, nn.Module) and any(
            map(nn.parameter.is_lazy, self.given.parameters())
        )
        return copy_of(self.module if lazy else self.given, self.contract)

    @cached_property
    def n_heads(self) -> int | None:
        "How many heads it has, if anybody says."
        return self.said_heads or (
            heads_of(self.module) if isinstance(self.module, nn.Module) else None
        )

    @cached_property
    def zeros(self) -> list[str]:
        "Weights that were all zero when it was given."
        return [n for n, _ in zero_weights(self.given)] if isinstance(self.given, nn.Module) else []

    @cached_property
    def words(self) -> int:
        "How many words it is traced with: not as many as heads, or features of a head, which tells √n from their roots."
        h = self.n_heads or 1
        return next(
            (
                n
                for n in (self.n, self.n - 1, self.n + 1)
                if n not in (h, self.d_model // h) and fits(self, SENTENCES, n)
            ),
            self.n,
        )

    @cached_property
    def named(self) -> Trace:
        "What its projections did in the usual call, so far as their names tell what they are for."
        return self.watched(draw(self, SENTENCES, self.words), None)

    @cached_property
    def roles(self) -> dict[str, str] | None:
        "None if the names of its projections tell what they are for; or else the order that explains the output best."
        return None if self.named.rows else _best_roles(self)

    @cached_property
    def trace(self) -> Trace:
        "What they did, whatever their names."
        return self.named if self.roles is None else self.traced(self.named.x)

    def traced(
        self,
        x: Tensor,  # (b, n, d_model)
    ) -> Trace:
        "What they do in another call."
        return self.watched(x, self.roles)

    def watched(
        self,
        x: Tensor,  # (b, n, d_model)
        roles: dict[str, str] | None,  # name → role; None: what the names tell
        n_k: int = 0,  # words of the memory, if there is one; 0: as usual
    ) -> Trace:
        "The same for some roles, with a memory of its own for each sentence."
        if self.beside is None:
            return trace_layer(self.module, x, self.first, roles, self.contract)
        memory = draw(self.over_memory, len(x), n_k or self.n_k, seed=8)
        return trace_layer(self.module, x, self.with_memory(memory), roles, self.contract, memory)

    def with_memory(
        self,
        memory: Tensor,  # (b, n, d_memory)
    ) -> Callable[[Any, Tensor], Tensor]:  # of module and x
        "How its output alone is had with another memory."
        return lambda m, x: first_tensor(self.calling(memory)(m, x))[0]

    @cached_property
    def read(self) -> list[tuple[str, str, bool]]:
        "Projections that read x or the memory, with their roles, and whether rightly."
        x, memory = (
            draw(self),
            draw(self.over_memory, seed=9),
        )  # where lengths are equal, they must not be
        return attempt(lambda: what_is_read(self.module, x, memory, self.with_memory(memory))) or []

    @cached_property
    def window(self) -> tuple[str, int] | None:
        "How far a word looks: what was said, or the name and value of a setting that says it."
        if self.said_window:
            return "window", self.said_window
        return next(
            ((name, v) for name, v in settings_of(self.module, "window") if type(v) is int), None
        )

    @cached_property
    def reach(self) -> int | None:
        "The same number, if the usual trial has more words; or else None."
        return self.window[1] if self.causal and self.window and self.window[1] < self.n else None

    @cached_property
    def far(self) -> int:
        "How many words it takes to see where its window ends; 0 if the usual trial does, or none that is tried."
        w = self.window[1] if self.causal and self.window and not self.reach else 0
        several = [
            n
            for n in (w + 3, w + 2, w + 1, *self.contract.allowed)
            if 0 < w < n <= LONGEST and self.contract.takes(n)
        ]
        return next((n for n in several if fits(self, 1, n)), 0)

    @cached_property
    def cap(self) -> str | None:
        "The name of a setting that limits the scores on purpose."
        return next((name for name, _ in settings_of(self.module, "cap")), None)

    @cached_property
    def places(self) -> str | None:
        "The name of something that tells the order of words."
        if not isinstance(self.module, nn.Module):
            return None
        names = [
            n
            for n, _ in [
                *self.module.named_parameters(),
                *self.module.named_buffers(),
                *self.module.named_modules(),
            ]
        ]
        names += [
            n
            for m in self.module.modules()
            for n, v in vars(m).items()
            if not n.startswith("_") and v is not None and v is not False
        ]
        return next((n for n in names if PLACES.search(n)), None)

    @cached_property
    def order_free(self) -> bool:
        "Whether it does not know the order of words."
        return knows_no_order(self) and not self.positions

    @cached_property
    def unrotated(self) -> tuple[Bug, ...] | None:
        "What is wrong by its own weights, if places are not rotated: nothing, some bugs; None if that fits nothing known."
        return _with_window(self) if self.reach else _compared(self)

    @cached_property
    def verdict(self) -> tuple[Bug, ...] | None:
        "The same, whatever is rotated, and however far a word looks."
        found = _in_few(self)
        return _in_many(self) if found == () and self.far else found


def no_module(
    a: Layer,  # the layer under test
) -> str:
    "Why it has no weights; empty if it may have some."
    return "" if isinstance(a.given, nn.Module) else "it is a function, not a module"


def draw(
    a: Layer,  # the layer under test
    b: int = SENTENCES,  # sentences
    n: int = 0,  # words; 0: as many as it is tried with
    seed: int = 0,  # same seed, same numbers
) -> Tensor:  # (b, n, d_model)
    "Draw sentences for a layer."
    return torch.randn(b, n or a.n, a.d_model, generator=torch.Generator().manual_seed(seed))


def fits(
    a: Layer,  # the layer under test
    b: int,  # sentences
    n: int,  # words
) -> bool:
    "Whether it runs for so many sentences and words."
    return attempt(lambda: (a(draw(a, b, n)),)) is not None


def in_mode(
    a: Layer,  # the layer under test
    x: Tensor,  # (b, n, d_model)
    training: bool,  # or in evaluation?
    grad: bool = True,  # with gradients?
    seed: int = 0,  # of what drops
) -> Tensor:  # detached
    "The output in some mode, always with the same dropout."
    torch.manual_seed(seed)
    with torch.set_grad_enabled(grad), in_training(a.module) if training else nullcontext():
        return a(x.clone().requires_grad_(grad)).detach()


def reordering(
    a: Layer,  # the layer under test
) -> Tensor:  # the numbers of its words
    "Give another order of the words; the last one stays the last if the future is hidden."
    if a.n == WORDS:
        return torch.tensor([3, 0, 2, 1, 4] if a.causal else [2, 0, 4, 1, 3])
    p = torch.randperm(a.n - a.causal, generator=torch.Generator().manual_seed(1))
    return torch.cat([p, torch.arange(a.n - a.causal, a.n)])


def knows_no_order(
    a: Layer,  # the layer under test
) -> bool:
    "Whether another order of its words only gives the same outputs in that order."
    x, p = draw(a), reordering(a)
    want, got = a(x), a(x[:, p])
    return nearly(got[:, -1], want[:, -1]) if a.causal else nearly(got, want[:, p])


def properties_of(
    a: Layer,  # the layer under test
    rows: Sequence[Relation],  # what must hold of it, in the order of trying
) -> Properties:  # names, and what tries them
    "Tie relations to a layer, without those that were not promised; TypeError now, if nobody can know how to call it."
    a.plain
    return listed([row for row in rows if row.asked(a)], lambda: a.settled)


def normalises_batch(
    module: Any,  # a layer or a function
) -> bool:
    "Whether it has batch normalisation, which mixes sentences in training."
    return isinstance(module, nn.Module) and any(
        isinstance(m, nn.modules.batchnorm._BatchNorm) for m in module.modules()
    )


def unregistered(
    module: nn.Module,  # any layer
) -> str | None:
    "The name of a plain attribute that hides parameters."
    registered = {id(p) for p in module.parameters()}
    attributes = (
        (n, v) for m in module.modules() for n, v in vars(m).items() if not n.startswith("_")
    )
    return next((n for n, v in attributes if _holds_parameters(v, registered)), None)


def _holds_parameters(value: Any, registered: set[int]) -> bool:
    "Whether a plain attribute hides parameters, or tensors that want a gradient."
    if isinstance(value, Tensor):
        return value.requires_grad and value.is_leaf and id(value) not in registered
    if isinstance(value, nn.Module):
        return any(id(p) not in registered for p in value.parameters())
    values = (
        value.values()
        if isinstance(value, dict)
        else value
        if isinstance(value, (list, tuple))
        else ()
    )
    return any(_holds_parameters(v, registered) for v in values)


def _compared(a: Layer, window: int | None = None, most: int = 2) -> tuple[Bug, ...] | None:
    "What its own weights tell if words look so far back."
    return compare_with_own_weights(a.trace, a.n_heads, a.causal, window, most)


def _with_window(a: Layer) -> tuple[Bug, ...] | None:
    "The same for a layer with a window."
    sized = _sized(a, lambda seen: _compared(a, seen, 0) == ())
    if sized is not None:
        return sized
    found = _compared(a, a.reach)
    corners = (
        "mask.lower_right",
        "mask.upper_left",
    )  # no window: the setting is for something else
    return found if found and not any(bug.code in corners for bug in found) else _compared(a)


def _sized(
    a: Layer, agrees: Callable[[int | None], bool], far: bool = False
) -> tuple[Bug, ...] | None:
    "What is wrong with how far it looks, if some window agrees, or none at all; None if that does not either."
    name, size = a.window if a.window and (a.reach or far) else ("", 0)
    for seen in (size, size + 1, size - 1) if size else ():
        if seen and agrees(seen):
            fits = (
                seen == size or a.positions and not a.said_window
            )  # some count only what lies before the word
            return () if fits else (known("window.size", name=name, size=size, seen=seen),)
    if not agrees(None):
        return None
    return (
        (known("window.ignored"),) if size and a.said_window else ()
    )  # the setting is for something else


def _in_few(a: Layer) -> tuple[Bug, ...] | None:
    "What is wrong in the usual trial, whatever is rotated."
    found = a.unrotated
    if any(bug.code in ("mask.window_2", "mask.window_3") for bug in found or ()):
        return (known("window.by_accident", says=sentence(found or ())),)
    if found == () or a.positions is False or a.order_free:
        return found
    for sign in (1, -1):
        sized = _sized(
            a, lambda seen: agrees_with_rotation(a.trace, a.n_heads, a.causal, (sign,), seen)
        )
        if sized is not None:
            return (known("rotation.backwards"),) if sign < 0 and a.positions else sized
    return found or name_rotation_bug(a.trace, a.n_heads, a.causal, a.reach)


def _in_many(a: Layer) -> tuple[Bug, ...] | None:
    "What is wrong where its window ends, in a sentence that is longer; one that only a setting tells may be of another kind."
    t = a.traced(draw(a, 1, a.far))

    def agrees(seen: int | None) -> bool:
        plain = compare_with_own_weights(t, a.n_heads, a.causal, seen, 0) == ()
        return (
            plain or not a.order_free and agrees_with_rotation(t, a.n_heads, a.causal, window=seen)
        )

    found = _sized(a, agrees, True)
    return (
        name_window_bug(t, a.n_heads, a.said_window)
        if found is None and a.said_window
        else found or ()
    )


def _best_roles(a: Layer) -> dict[str, str] | None:
    "Of all orders of projections without telling names, that which explains the output best."
    x, memory = a.named.x, a.named.memory
    guesses = guess_roles(a.module, x, a.first if memory is None else a.with_memory(memory), memory)
    traces = [a.watched(x, roles) for roles in guesses]
    for most in (0, 1):
        found = [compare_with_own_weights(t, a.n_heads, a.causal, most=most) for t in traces]
        said = [(_odd(bugs), roles) for bugs, roles in zip(found, guesses) if bugs is not None]
        if said:
            return min(said, key=lambda each: each[0])[1]
    return None


def _odd(bugs: tuple[Bug, ...]) -> tuple[bool, int]:
    "How odd an explanation is: that two are exchanged may be our mistake."
    return any(
        bug.code.startswith("route.") or bug.code.endswith("transposed") for bug in bugs
    ), len(bugs)


def _settle(a: Layer) -> Layer:
    "Find out what was not declared and leaves no doubt: lengths in steps, and a scale that a setting tells."
    if a.contract.lengths is None and not fits(a, SENTENCES, WORDS) and (step := _step(a)):
        said = f"it takes multiples of {step} words only, so lengths=range({step}, 65, {step}) was taken as declared"
        return _settle(_telling(a, said, lengths=range(step, 65, step)))
    told = [*told_scales(a.module), *_free_scale(a)] if a.contract.scale is None else []
    others = [_telling(a, f"its scale was taken from {name}", scale=scale) for name, scale in told]
    if others and attempt(lambda: a.verdict) != ():
        return next((b for b in others if attempt(lambda: b.verdict) == ()), a)
    return a


def _free_scale(a: Layer) -> list[tuple[str, Callable[[int], float]]]:
    "No scale, where queries and keys are normed: then their norms may hold it."
    normed = isinstance(a.module, nn.Module) and norms_of(a.module).keys() == {"q", "k"}
    return (
        [("the norms of its queries and keys: scores are not scaled again", lambda d: 1.0)]
        if normed
        else []
    )


def _telling(a: Layer, said: str, **choice: Any) -> Layer:
    "The same layer, with a choice that was found out."
    return replace(a, contract=replace(a.contract, **choice), found_out=(*a.found_out, said))


def _step(a: Layer) -> int:
    "The number whose multiples it takes, and no other lengths; 0 if it is not so."
    if not any(fits(a, SENTENCES, n) for n in (4, 6, 8, 12, 14, 16)):
        return 0
    taken = [n for n in range(2, 33) if fits(a, SENTENCES, n)]
    step = taken[0] if taken else 0
    return step if len(taken) > 1 and taken == list(range(step, 33, step)) else 0
