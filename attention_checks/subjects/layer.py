"""A layer that somebody else wrote: how it is called, and what is found out about it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
import torch.nn as nn
from torch import Tensor

from attention_checks.catalogue import known
from attention_checks.conventions import (
    POSITIONS,
    declared_scales,
    heads_of,
    settings_of,
)
from attention_checks.examine import attempt
from attention_checks.numbers import nearly
from attention_checks.pipeline import Bug
from attention_checks.properties import Properties, Relation, listed
from attention_checks.spec import Contract
from attention_checks.subjects.calling import (
    Call,
    as_declared,
    first_tensor,
    how_to_call,
    how_to_call_both,
    in_batches,
)
from attention_checks.subjects.copies import (
    copy_of,
    detach_kept,
    in_training,
    zero_weights,
)
from attention_checks.trace import Trace, trace_layer
from attention_checks.trace.comparing import compare_with_own_weights
from attention_checks.trace.own_stages import norms_of
from attention_checks.trace.roles import guess_roles, what_is_read
from attention_checks.trace.rotating import (
    agrees_with_rotation,
    name_rotation_bug,
    name_window_bug,
)

SEQUENCES, TOKENS = 3, 5  # of the usual trial; few, for layers with a small maximum
LONGEST = 160  # tokens of the longest sequence that shows where a window ends


@dataclass(frozen=True)
class Layer:
    "The layer under test: a copy, in evaluation mode, called in one way whatever it returns."

    given: Any
    d_model: int
    causal: bool = False
    declared_heads: int | None = None
    positions: bool | None = None
    declared_call: Call | None = None
    only_attention: bool = False  # True: no residual, nothing after the output projection
    declared_kv_heads: int | None = None
    contract: Contract = Contract()
    inferred: tuple[str, ...] = ()  # what was not declared, and found out without doubt
    other: Tensor | None = None  # of cross-attention, the other input, (1, n, width)
    of_memory: bool = False  # is x the memory, and the other input what asks?
    usual_n: int = TOKENS

    def __call__(self, x: Tensor) -> Tensor:
        "The output, (b, n, d_out)."
        return self.all(x)[0]

    def all(
        self,
        x: Tensor,  # (b, n, d_model)
    ) -> tuple[Tensor, tuple[Any, ...]]:
        "Give the output and whatever else is returned."
        return first_tensor(self.call(self.module, x.clone(memory_format=torch.contiguous_format)))

    def first(
        self,
        module: Any,  # the copy, or a copy of that
        x: Tensor,  # (b, n, d_model)
    ) -> Tensor:
        "Give the output alone, of any module of its kind."
        return first_tensor(self.call(module, x))[0]

    def many(
        self,
        module: Any,  # the copy, or a copy of that
        x: Tensor,  # (b, n, d_model), a large batch
    ) -> Tensor:
        "Give the output of a large batch: at once, or in parts if it takes no batch as large."
        try:
            return self.first(module, x)
        except Exception:
            if len(x) <= SEQUENCES:
                raise
            return first_tensor(in_batches(self.call, SEQUENCES)(module, x))[0]

    @cached_property
    def n(self) -> int:
        "How many tokens it is tried with: enough to tell a window from one that is longer by 1."
        n = self.contract.usual(self.usual_n)
        if self.causal and self.window and self.window[1] == n - 1:
            return self.contract.usual(n + 1)
        return n

    @property
    def n_k(self) -> int:
        "How many tokens are attended to."
        return self.n if self.other is None or self.of_memory else self.other.shape[1]

    def output_length(
        self,
        n: int,  # tokens of x
    ) -> int:
        "How many vectors come out of so many tokens."
        return self.other.shape[1] if self.other is not None and self.of_memory else n

    def output_shape(
        self,
        x: Tensor,  # (b, n, d_model)
    ) -> tuple[int, int]:
        "How many sequences of how many vectors come out."
        return len(x), self.output_length(x.shape[1])

    def lengths(
        self,
        *several: int,  # numbers of tokens; those below 1 are left out
    ) -> list[int]:
        "Of some lengths, list those that it promises to take."
        return [n for n in several if n > 0 and self.contract.takes(n)]

    @property
    def declared_window(self) -> int | None:
        "How many tokens a token sees, itself and those before it, as declared."
        return self.contract.window

    @cached_property
    def settled(self) -> Layer:
        "The layer, with what leaves no doubt and was not declared."
        return _settle(self)

    @cached_property
    def call(self) -> Call:
        "How it is called: a function of a module and x."
        return self.call_both if self.other is None else self.call_with(self.other)

    @cached_property
    def call_both(self) -> Call:
        "How it is called with all its inputs; NeedsMore if nobody can know."
        call = self.declared_call
        if call is None and self.other is None:
            call = how_to_call(self.given, self.causal)
        elif call is None:
            call = how_to_call_both(self.given)
        declared = in_batches(as_declared(call, self.contract), self.contract.max_batch)

        def called(module: Any, *inputs: Tensor) -> Any:
            if not torch.compiler.is_compiling():
                detach_kept(module)
            return declared(module, *inputs)

        return called

    def call_with(
        self,
        other: Tensor,  # (1, n, width) for all sequences, or (b, n, width)
    ) -> Call:  # of module and x
        "How it is called with another input beside x."

        def call(module: Any, x: Tensor) -> Any:
            y = other.expand(len(x), -1, -1).to(x).clone(memory_format=torch.contiguous_format)
            return self.call_both(module, *((y, x) if self.of_memory else (x, y)))

        return call

    def first_with(
        self,
        memory: Tensor,  # (b, n, d_memory)
    ) -> Callable[[Any, Tensor], Tensor]:  # of module and x
        "How its output alone is computed with another memory."
        call = self.call_with(memory)
        return lambda module, x: first_tensor(call(module, x))[0]

    @cached_property
    def over_memory(self) -> Layer:
        "The layer as a function of its memory."
        assert self.other is not None
        n, width = self.other.shape[1:]
        return replace(self, d_model=width, other=draw(self, 1), of_memory=True, usual_n=n)

    @cached_property
    def module(self) -> Any:
        "A copy; a layer that finds its widths at the first call has been called."
        module = copy_of(self.given, self.contract)
        if _is_lazy(module):
            with torch.no_grad(), suppress(Exception):  # the first property tells what it raises
                self.call(module, draw(self))
        return module

    @cached_property
    def fresh(self) -> Any:
        "A copy that was never called."
        return copy_of(self.module if _is_lazy(self.given) else self.given, self.contract)

    @property
    def parts(self) -> list[nn.Module]:
        "The copy and all modules in it; none for a function."
        return list(self.module.modules()) if isinstance(self.module, nn.Module) else []

    @cached_property
    def n_heads(self) -> int | None:
        "How many heads it has, if that was declared or an attribute tells."
        if self.declared_heads or not self.parts:
            return self.declared_heads
        return heads_of(self.module)

    @cached_property
    def zeros(self) -> list[str]:
        "Weights that were all zero when it was given."
        return [n for n, _ in zero_weights(self.given)] if isinstance(self.given, nn.Module) else []

    @cached_property
    def trace_n(self) -> int:
        "How many tokens it is traced with: not n_heads or d_head, so that √n is told from √d_head."
        h = self.n_heads or 1
        for n in (self.n, self.n - 1, self.n + 1):
            if n not in (h, self.d_model // h) and fits(self, SEQUENCES, n):
                return n
        return self.n

    @cached_property
    def named(self) -> Trace:
        "What its projections did in the usual call, so far as names tell what they are for."
        return self.watched(draw(self, self.contract.batch(SEQUENCES), self.trace_n), None)

    @cached_property
    def roles(self) -> dict[str, str] | None:
        "None if names tell what projections are for; or else the roles that explain the output."
        return None if self.named.projections else _best_roles(self)

    @cached_property
    def trace(self) -> Trace:
        "What its projections did in the usual call, whatever their names."
        return self.named if self.roles is None else self.traced(self.named.x)

    def traced(
        self,
        x: Tensor,  # (b, n, d_model)
    ) -> Trace:
        "What its projections do in another call."
        return self.watched(x, self.roles)

    def watched(
        self,
        x: Tensor,  # (b, n, d_model)
        roles: dict[str, str] | None,  # name → role; None: what the names tell
        n_k: int = 0,  # tokens of the memory, if there is one; 0: as usual
    ) -> Trace:
        "What projections of these roles do, with a memory of its own for each sequence."
        if self.other is None:
            return trace_layer(self.module, x, self.first, roles, self.contract)
        memory = draw(self.over_memory, len(x), n_k or self.n_k, seed=8)
        return trace_layer(self.module, x, self.first_with(memory), roles, self.contract, memory)

    @cached_property
    def read(self) -> list[tuple[str, str, bool]]:
        "Projections that read x or the memory, with their roles, and whether rightly."
        # where lengths are equal, the numbers must not be
        x, memory = draw(self), draw(self.over_memory, seed=9)
        first = self.first_with(memory)
        return attempt(lambda: what_is_read(self.module, x, memory, first)) or []

    @cached_property
    def window(self) -> tuple[str, int] | None:
        "How many tokens a token may attend to, with the name of what says so."
        if self.declared_window:
            return "window", self.declared_window
        sizes = settings_of(self.given, "window")
        return next(((name, size) for name, size in sizes if type(size) is int), None)

    @cached_property
    def short_window(self) -> int | None:
        "The window, if it hides something in the usual trial."
        if self.bounded and self.window and self.window[1] < self.n:
            return self.window[1]
        return None

    @property
    def bounded(self) -> bool:
        "Whether a token sees no token that comes long after it, as declared."
        return self.causal or self.contract.ahead is not None

    def sees(
        self,
        n: int,  # tokens
    ) -> Tensor:  # boolean, (n, n)
        "Which token sees which, as declared, whatever its window."
        every = torch.ones(n, n, dtype=torch.bool)
        return every.tril(self.contract.ahead or 0) if self.bounded else every

    @cached_property
    def long_n(self) -> int:
        "A length that shows where its window ends; 0 if the usual one does, or it has none."
        size, ahead = self.window[1] if self.window else 0, self.contract.ahead or 0
        if not (self.bounded and (size or ahead)) or self.short_window and ahead < self.n - 1:
            return 0
        size = max(size, ahead + 1)
        for n in (size + 3, size + 2, size + 1, *self.contract.allowed):
            if size < n <= LONGEST and self.contract.takes(n) and fits(self, 1, n):
                return n
        return 0

    @cached_property
    def cap(self) -> str | None:
        "The name of a setting that limits the scores on purpose."
        return next((name for name, _ in settings_of(self.module, "cap")), None)

    @cached_property
    def position_setting(self) -> str | None:
        "The name of something that tells positions."
        return next(filter(POSITIONS.search, self._names()), None)

    def _names(self) -> Iterator[str]:
        "The names of all that it holds."
        if not self.parts:
            return
        for things in (self.module.named_parameters, self.module.named_buffers):
            yield from (name for name, _ in things())
        yield from (name for name, _ in self.module.named_modules())
        for m in self.parts:
            for name, value in vars(m).items():
                if name[:1] != "_" and value is not None and value is not False:
                    yield name

    @cached_property
    def ignores_order(self) -> bool:
        "Whether another order of the tokens only gives the same outputs in that order."
        return knows_no_order(self) and not self.positions

    @cached_property
    def bugs_unrotated(self) -> tuple[Bug, ...] | None:
        "What is wrong by its own weights, without rotation: nothing, bugs, or None for neither."
        return _with_window(self) if self.short_window else _compared(self)

    @cached_property
    def bugs(self) -> tuple[Bug, ...] | None:
        "What is wrong by its own weights, rotated or not, and however long its window."
        bugs = _bugs_in_short(self)
        return _bugs_in_long(self) if bugs == () and self.long_n else bugs


def _is_lazy(module: Any) -> bool:
    "Whether it finds widths of its weights at the first call."
    return isinstance(module, nn.Module) and any(map(nn.parameter.is_lazy, module.parameters()))


def no_module(
    layer: Layer,  # the layer under test
) -> str:
    "Say why it has no weights; empty if it may have some."
    return "" if isinstance(layer.given, nn.Module) else "it is a function, not a module"


def draw(
    layer: Layer,  # the layer under test
    b: int = SEQUENCES,  # sequences
    n: int = 0,  # tokens; 0: as many as it is tried with
    seed: int = 0,  # same seed, same numbers
) -> Tensor:  # (b, n, d_model)
    "Draw hidden states for a layer."
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(b, n or layer.n, layer.d_model, generator=generator)


def fits(
    layer: Layer,  # the layer under test
    b: int,  # sequences
    n: int,  # tokens
) -> bool:
    "Say whether it runs for these sizes."
    return attempt(lambda: (layer(draw(layer, b, n)),)) is not None


def in_mode(
    layer: Layer,  # the layer under test
    x: Tensor,  # (b, n, d_model)
    training: bool,  # or in evaluation?
    grad: bool = True,  # with gradients?
    seed: int = 0,  # of dropout
) -> Tensor:  # detached
    "Give the output in some mode, with the same dropout for the same seed."
    torch.manual_seed(seed)
    mode = in_training(layer.module) if training else nullcontext()
    with torch.set_grad_enabled(grad), mode:
        return layer(x.clone().requires_grad_(grad)).detach()


def reordering(
    layer: Layer,  # the layer under test
) -> Tensor:  # (n,), positions
    "Give another order of the tokens; the last stays the last if the future is hidden."
    if layer.n == TOKENS:
        return torch.tensor([3, 0, 2, 1, 4] if layer.causal else [2, 0, 4, 1, 3])
    moved = layer.n - layer.causal
    order = torch.randperm(moved, generator=torch.Generator().manual_seed(1))
    return torch.cat([order, torch.arange(moved, layer.n)])


def knows_no_order(
    layer: Layer,  # the layer under test
) -> bool:
    "Say whether another order of the tokens only gives the same outputs in that order."
    x, order = draw(layer), reordering(layer)
    want, got = layer(x), layer(x[:, order])
    return nearly(got[:, -1], want[:, -1]) if layer.causal else nearly(got, want[:, order])


def properties_of(
    layer: Layer,  # the layer under test
    relations: Sequence[Relation],  # what must hold of it, in the order of trying
) -> Properties:  # names, and what tries them
    "Tie to a layer what it promised; NeedsMore at once if nobody can know how to call it."
    layer.call_both
    return listed([row for row in relations if row.asked(layer)], lambda: layer.settled)


def normalises_batch(
    layer: Layer,  # the layer under test
) -> bool:
    "Say whether it has batch normalisation, which mixes sequences in training."
    return any(isinstance(m, nn.modules.batchnorm._BatchNorm) for m in layer.parts)


def unregistered(
    layer: Layer,  # the layer under test
) -> str | None:
    "Find the name of a plain attribute that hides parameters."
    registered = {id(p) for m in layer.parts for p in m.parameters(recurse=False)}
    for m in layer.parts:
        for name, value in vars(m).items():
            if name[:1] != "_" and _holds_parameters(value, registered):
                return name
    return None


def _holds_parameters(value: Any, registered: set[int]) -> bool:
    "Whether a plain attribute hides parameters, or tensors that want a gradient."
    if isinstance(value, Tensor):
        return value.requires_grad and value.is_leaf and id(value) not in registered
    if isinstance(value, nn.Module):
        return any(id(p) not in registered for p in value.parameters())
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return any(_holds_parameters(v, registered) for v in value)
    return False


def _compared(layer: Layer, window: int | None = None, most: int = 2) -> tuple[Bug, ...] | None:
    "What its own weights tell of the usual call, for a window."
    return compare_with_own_weights(layer.trace, layer.n_heads, layer.causal, window, most)


def _with_window(layer: Layer) -> tuple[Bug, ...] | None:
    "What its own weights tell of a layer whose window hides something in the usual call."
    sized = _bugs_of_window(layer, lambda size: _compared(layer, size, 0) == ())
    if sized is not None:
        return sized
    bugs = _compared(layer, layer.short_window)
    corners = ("mask.lower_right", "mask.upper_left")  # no window: the setting is for another thing
    if bugs and not any(bug.code in corners for bug in bugs):
        return bugs
    return _compared(layer)


def _bugs_of_window(
    layer: Layer, agrees: Callable[[int | None], bool], long: bool = False
) -> tuple[Bug, ...] | None:
    "What is wrong with its window, if some size agrees, or none at all; None if nothing does."
    if not layer.window or not (layer.short_window or long):
        return () if agrees(None) else None
    name, size = layer.window
    if layer.contract.ahead:  # how far it sees to both sides is measured
        return () if agrees(size) else None
    for seen in (size, size + 1, size - 1):
        if seen and agrees(seen):
            # some settings count only the tokens before
            meant = layer.positions and not layer.declared_window
            if seen == size or meant:
                return ()
            return (known("window.size", name=name, size=size, seen=seen),)
    if not agrees(None):
        sizes = range(1, 2 * size + 1) if layer.declared_window else ()
        found = next((n for n in sizes if agrees(n)), 0)
        return (known("window.size", name=name, size=size, seen=found),) if found else None
    # no window: a setting that was not declared is for another thing
    return (known("window.ignored"),) if layer.declared_window else ()


def _bugs_in_short(layer: Layer) -> tuple[Bug, ...] | None:
    "What is wrong in the usual call, rotated or not."
    bugs = layer.bugs_unrotated
    if bugs == () or layer.positions is False or layer.ignores_order:
        return bugs
    trace, heads, causal = layer.trace, layer.n_heads, layer.causal
    for sign in (1, -1):
        sized = _bugs_of_window(
            layer, lambda size: agrees_with_rotation(trace, heads, causal, (sign,), size)
        )
        if sized is not None:
            return (known("rotation.backwards"),) if sign < 0 and layer.positions else sized
    return bugs or name_rotation_bug(trace, heads, causal, layer.short_window)


def _bugs_in_long(layer: Layer) -> tuple[Bug, ...] | None:
    "What is wrong with its window in a sequence that is longer than it."
    trace = layer.traced(draw(layer, 1, layer.long_n))
    heads, causal = layer.n_heads, layer.causal

    def agrees(size: int | None) -> bool:
        if compare_with_own_weights(trace, heads, causal, size, 0) == ():
            return True
        return not layer.ignores_order and agrees_with_rotation(trace, heads, causal, window=size)

    bugs = _bugs_of_window(layer, agrees, long=True)
    if bugs is None and layer.declared_window:
        return name_window_bug(trace, heads, layer.declared_window)
    return bugs or ()  # a window that only a setting tells may be of another kind


def _best_roles(layer: Layer) -> dict[str, str] | None:
    "Of all roles of projections whose names do not tell, those that explain the output best."
    x, memory = layer.named.x, layer.named.memory
    first = layer.first if memory is None else layer.first_with(memory)
    guesses = guess_roles(layer.module, x, first, memory)
    traces = [layer.watched(x, roles) for roles in guesses]
    for most in (0, 1):
        explained = []
        for trace, roles in zip(traces, guesses):
            bugs = compare_with_own_weights(trace, layer.n_heads, layer.causal, most=most)
            if bugs is not None:
                explained.append((_oddness(bugs), roles))
        if explained:
            return min(explained, key=lambda each: each[0])[1]
    return None


def _oddness(bugs: tuple[Bug, ...]) -> tuple[bool, int]:
    "How odd an explanation is: that two projections are exchanged may be our mistake."
    exchanged = any(
        bug.code.startswith("route.") or bug.code.endswith("transposed") for bug in bugs
    )
    return exchanged, len(bugs)


def _settle(layer: Layer) -> Layer:
    "Find out what was not declared and leaves no doubt: a step of lengths, and a scale."
    contract = layer.contract
    if contract.lengths is None and not fits(layer, SEQUENCES, TOKENS) and (step := _step(layer)):
        remark = (
            f"it takes multiples of {step} tokens only, "
            f"so lengths=range({step}, 65, {step}) was taken as declared"
        )
        return _settle(_inferring(layer, remark, lengths=range(step, 65, step)))
    if contract.scale is not None:
        return layer
    scales = declared_scales(layer.module)
    of_norms = contract.norms is None and layer.parts and norms_of(layer.module)
    if of_norms and of_norms.keys() == {"q", "k"}:
        scales.append(
            ("the norms of its queries and keys: scores are not scaled again", lambda d: 1.0)
        )
    if scales and attempt(lambda: layer.bugs) != ():
        for name, scale in scales:
            scaled = _inferring(layer, f"its scale was taken from {name}", scale=scale)
            if attempt(lambda: scaled.bugs) == ():
                return scaled
    return layer


def _inferring(layer: Layer, remark: str, **choice: Any) -> Layer:
    "The layer, with a choice that was found out."
    contract = replace(layer.contract, **choice)
    return replace(layer, contract=contract, inferred=(*layer.inferred, remark))


def _step(layer: Layer) -> int:
    "The number whose multiples it takes, and no other lengths; 0 if it is not so."
    if not any(fits(layer, SEQUENCES, n) for n in (4, 6, 8, 12, 14, 16)):
        return 0
    taken = [n for n in range(2, 33) if fits(layer, SEQUENCES, n)]
    step = taken[0] if taken else 0
    return step if len(taken) > 1 and taken == list(range(step, 33, step)) else 0
