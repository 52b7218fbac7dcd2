"""The first phase: a layer becomes a value that is called in one way."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import chain, product
from typing import Any, NamedTuple

import torch
import torch.nn as nn
from torch import Tensor

from attention_checks.explaining.pipeline import Bug
from attention_checks.explaining.reach import Reach
from attention_checks.outcomes import attempt, runs
from attention_checks.spec import Contract
from attention_checks.subjects.calling import (
    LayerCall,
    call_under,
    first_tensor,
    how_to_call,
    how_to_call_both,
    in_batches,
    must_be_whole,
    whole_call,
)
from attention_checks.subjects.copies import copy_of, deep_copy, in_training
from attention_checks.subjects.masks import MEANINGS, SHAPES, Form
from attention_checks.their_code.conventions import POSITIONS, heads_of, settings_of
from attention_checks.their_code.signatures import name_of, required_by
from attention_checks.trace import Trace

BATCH, TOKENS = 3, 5  # of the usual trial; few, for layers with a small maximum
LONGEST = 160  # tokens of the longest sequence that shows where a window ends


@dataclass(frozen=True)
class Observed:
    "The second phase: what one call of a layer showed."

    trace: Trace | None = None  # what its projections did
    why: Exception | None = None  # why there is no trace
    order_free: bool | None = None  # do outputs follow the order of tokens? None: unknown


@dataclass(frozen=True)
class Diagnosis:
    "The third phase: what its own weights tell of a layer."

    bugs: tuple[Bug, ...] | None = None  # what is wrong; () for nothing, None if nothing known fits
    unrotated: tuple[Bug, ...] | None = None  # the same without rotation
    at_usual_length: tuple[Bug, ...] | None = None  # the same in a call of the usual length
    why: Exception | None = None  # why there is none
    remarks: tuple[str, ...] = ()  # what was not declared, and leaves no doubt


class Window(NamedTuple):
    "How many tokens a token may attend to, itself included, and what says so."

    name: str
    size: int


@dataclass(frozen=True, kw_only=True, repr=False)
class Layer:
    "A layer as it is tried: a copy, in evaluation mode, called in one way whatever it returns."

    original: Any
    d_model: int
    contract: Contract  # what was declared of it
    module: Any  # the copy
    uncalled: Any  # a copy that was never called
    call_both: LayerCall  # of a module and all its inputs
    n: int  # tokens of the usual trial
    n_heads: int | None = None  # as declared, or as an attribute tells
    window: Window | None = None  # how far a token sees
    other_input: Tensor | None = None  # of cross-attention, the other input, (1, n, width)
    of_memory: bool = False  # is x the memory, and the other input what asks?
    observed: Observed = field(default=Observed())
    diagnosis: Diagnosis = field(default=Diagnosis())

    @property
    def causal(self) -> bool:
        "Return whether it hides the future."
        return self.contract.hides_future

    @property
    def positions(self) -> bool | None:
        "Return whether it knows positions, as declared; None: find out."
        return True if self.contract.rotate else self.contract.positions

    def __repr__(self) -> str:
        memory = (
            "" if self.other_input is None else f", memory of {tuple(self.other_input.shape[1:])}"
        )
        found = ""
        if self.diagnosis.bugs is not None:
            codes = "+".join(bug.code for bug in self.diagnosis.bugs)
            found = f", {codes or 'no bug'}"
        name, heads = name_of(self.original), self.n_heads or "?"
        return f"Layer({name}: {self.n} × {self.d_model}, {heads} heads{memory}{found})"

    def draw(self, b: int = BATCH, n: int = 0, seed: int = 0) -> Tensor:
        "Draw hidden states, (b, n, d_model), by default as many tokens as it is tried with."
        generator = torch.Generator().manual_seed(seed)
        return torch.randn(b, n or self.n, self.d_model, generator=generator)

    def inputs(self, seed: int = 0) -> dict[str, Tensor]:
        "Draw what it is called with: hidden states, or a memory."
        return {"memory" if self.of_memory else "x": self.draw(seed=seed)}

    raw_inputs = inputs

    def on_these(self, x: Tensor) -> Tensor:
        "Return the output of this very tensor."
        return self.output_of(self.module, x)

    def __call__(self, x: Tensor) -> Tensor:
        "The output, (b, n, d_out)."
        return self.output_and_rest(x)[0]

    def output_and_rest(self, x: Tensor) -> tuple[Tensor, tuple[Any, ...]]:
        "Return the output and whatever else is returned."
        return self.call(self.module, x.clone(memory_format=torch.contiguous_format))

    def output_of(self, module: Any, x: Tensor) -> Tensor:
        "Return the output alone, of any module of its kind."
        return self.call(module, x)[0]

    def output_of_batch(self, module: Any, x: Tensor) -> Tensor:
        "Return the output of a large batch: at once, or in parts if it takes no batch as large."
        try:
            return self.output_of(module, x)
        except Exception:
            if len(x) <= BATCH:
                raise
            return first_tensor(in_batches(self.call, BATCH)(module, x))[0]

    def call(self, module: Any, x: Tensor) -> tuple[Any, tuple[Any, ...]]:
        "Call it with x, and with the other input if it has one; the output comes first."
        if self.other_input is None:
            return self.call_both(module, x)
        other = self.other_input.expand(len(x), -1, -1).to(x)
        y = other.clone(memory_format=torch.contiguous_format)
        return self.call_both(module, *((y, x) if self.of_memory else (x, y)))

    def beside(self, other: Tensor) -> Layer:
        "Return the layer with another input beside x, (1, n, width) for all, or (b, n, width)."
        return replace(self, other_input=other)

    def calling(self, call: LayerCall) -> Layer:
        "Return the layer, called in another way, with the same contract."
        return replace(self, call_both=whole_call(call, self.contract))

    @property
    def over_memory(self) -> Layer:
        "The layer as a function of its memory."
        assert self.other_input is not None
        n, width = self.other_input.shape[1:]
        usual = self.contract.nearest_length(n)
        return replace(self, d_model=width, other_input=self.draw(1), of_memory=True, n=usual)

    @property
    def n_k(self) -> int:
        "How many tokens are attended to."
        return self.n if self.other_input is None or self.of_memory else self.other_input.shape[1]

    def output_length(self, n: int) -> int:
        "Return how many vectors come out of n tokens."
        return self.other_input.shape[1] if self.other_input is not None and self.of_memory else n

    def output_shape(self, x: Tensor) -> tuple[int, int]:
        "Return how many sequences of how many vectors come out."
        return len(x), self.output_length(x.shape[1])

    def promised(self, *several: int) -> list[int]:
        "Of some numbers of tokens, list those that it promises to take."
        return [n for n in several if n > 0 and self.contract.takes(n)]

    def fits(self, b: int, n: int) -> bool:
        "Say whether it runs for so many sequences of so many tokens."
        return runs(lambda: self(self.draw(b, n)))

    def in_mode(self, x: Tensor, training: bool, grad: bool = True, seed: int = 0) -> Tensor:
        "Return the output in some mode, with the same dropout for the same seed."
        torch.manual_seed(seed)
        mode = in_training(self.module) if training else nullcontext()
        with torch.set_grad_enabled(grad), mode:
            return self(x.clone().requires_grad_(grad)).detach()

    @property
    def unexplained(self) -> bool:
        "Return whether its own weights name no bug, of which what else shows may be a symptom."
        return not self.diagnosis.bugs

    @property
    def in_64_bits(self) -> Layer:
        "The layer with weights in float64."
        return replace(self, module=deep_copy(self.module).double()) if self.modules else self

    def reordering(self) -> Tensor:
        "Return another order of the tokens, (n,); the last stays last if the future is hidden."
        if self.n == TOKENS:
            return torch.tensor([3, 0, 2, 1, 4] if self.causal else [2, 0, 4, 1, 3])
        moved = self.n - self.causal
        order = torch.randperm(moved, generator=torch.Generator().manual_seed(1))
        return torch.cat([order, torch.arange(moved, self.n)])

    @property
    def modules(self) -> list[nn.Module]:
        "The copy and all modules in it; none for a function."
        return list(self.module.modules()) if isinstance(self.module, nn.Module) else []

    @property
    def short_window(self) -> int | None:
        "The window, if it hides something in the usual trial."
        if self.bounded and self.window and self.window.size < self.n:
            return self.window.size
        return None

    @property
    def bounded(self) -> bool:
        "Return whether a token sees no token that comes long after it, as declared."
        return self.causal or self.contract.ahead is not None

    def sees(self, n: int) -> Tensor:
        "Return which of n tokens sees which, as declared, whatever its window; boolean, (n, n)."
        return Reach(causal=self.bounded, ahead=self.contract.ahead or 0).mask(n, n)

    @cached_property
    def long_n(self) -> int:
        "A length that shows where its window ends; 0 if the usual one does, or it has none."
        size, ahead = self.window.size if self.window else 0, self.contract.ahead or 0
        if not self.bounded or not (size or ahead):
            return 0
        if self.short_window and ahead < self.n - 1:
            return 0
        size = max(size, ahead + 1)
        for n in (size + 3, size + 2, size + 1, *self.contract.allowed_lengths):
            if size < n <= LONGEST and self.contract.takes(n) and self.fits(1, n):
                return n
        return 0

    @property
    def position_setting(self) -> str | None:
        "The name of something that tells positions."
        return next(filter(POSITIONS.search, self._names()), None)

    @property
    def positions_told_by(self) -> str | None:
        "What may tell positions: the name of a part of it, or what was declared."
        declared = "what is declared" if self.contract.orders_tokens else None
        return self.position_setting or declared

    def _names(self) -> Iterator[str]:
        "Yield the names of all that it holds."
        if not self.modules:
            return
        for things in (self.module.named_parameters, self.module.named_buffers):
            yield from (name for name, _ in things())
        yield from (name for name, _ in self.module.named_modules())
        for m in self.modules:
            for name, value in vars(m).items():
                if name[:1] != "_" and value is not None and value is not False:
                    yield name


def adapt(
    module: Any,  # a layer, or a function of x
    d_model: int,
    contract: Contract,  # what was declared of it
    d_memory: int = 0,  # width of a memory, if it is called with one
) -> Layer:
    "Copy a layer and find out how it is called; NeedsMore if call= must be declared."
    must_be_whole(module)
    copied, window = copy_of(module, contract), _window(module, contract)
    layer = Layer(
        original=module,
        d_model=d_model,
        contract=contract,
        module=copied,
        uncalled=copied,
        call_both=whole_call(_how(module, contract, bool(d_memory)), contract),
        n=_tokens(contract, window),
        n_heads=contract.n_heads or heads_of(copied),
        window=window,
    )
    if d_memory:
        layer = layer.beside(_memory(layer, d_memory))
    layer = _with_open_mask(layer)
    if any(nn.parameter.is_lazy(p) for m in layer.modules for p in m.parameters()):
        attempt(torch.no_grad()(lambda: layer.call(copied, layer.draw())))
    return replace(layer, uncalled=copy_of(copied, contract))


def _with_open_mask(layer: Layer) -> Layer:
    "Return the layer, with a mask of the declared meaning that hides no past, where it needs one."
    contract, meaning = layer.contract, layer.contract.mask_meaning
    needed = contract.mask_name in required_by(layer.original)
    if not needed or contract.call or contract.layout or not isinstance(meaning, str):
        return layer
    shapes = [*SHAPES.values()][:: -1 if layer.causal else 1]  # first those that hide the future
    ways = product(shapes, MEANINGS[meaning].made.values())
    under = (layer.calling(partial(_call_open, contract, *way)) for way in ways)
    x = layer.draw()
    fits = lambda each: attempt(lambda: each(x).shape[:2]) == layer.output_shape(x)
    return next(filter(fits, chain([layer], under)), layer)  # it may take None


def _call_open(contract: Contract, form: Form, made: Form, m: Any, *inputs: Tensor) -> Any:
    "Call a layer with a mask that hides nothing, or the future alone if that is to be hidden."
    x, n_k = inputs[0], inputs[-1].shape[1]
    allowed = torch.ones(len(x), 1, x.shape[1], n_k, dtype=torch.bool)
    mask = made(form(allowed.tril() if contract.hides_future else allowed)).to(x.device)
    return call_under(contract, m, {contract.mask_name: mask}, *inputs)


def _how(module: Any, contract: Contract, both: bool) -> LayerCall:
    "Return how it is called, as declared or as its parameters demand."
    if contract.call is not None:
        return contract.call
    return how_to_call_both(module) if both else how_to_call(module, contract.hides_future)


def _tokens(contract: Contract, window: Window | None) -> int:
    "Return how many tokens it is tried with: enough to tell a window from one that is longer by 1."
    n = contract.nearest_length(TOKENS)
    near = contract.hides_future and window and n - 1 <= window.size <= n + 1
    return contract.nearest_length(window.size + 2) if near and window else n


def _window(module: Any, contract: Contract) -> Window | None:
    "Return how many tokens a token may attend to, with the name of what says so."
    if contract.window:
        return Window("window", contract.window)
    sizes = settings_of(module, "window")
    return next((Window(name, size) for name, size in sizes if type(size) is int), None)


def _memory(layer: Layer, width: int) -> Tensor:
    "Return a memory: not as many tokens as x has, or heads, or features of a head."
    h = layer.n_heads or 1
    n = next(n for n in (7, 8, 9) if n not in (h, layer.d_model // h))
    return replace(layer, d_model=width).draw(1, layer.contract.nearest_length(n), seed=9)


def no_module(layer: Layer) -> str:
    "Say why it has no weights; empty if it may have some."
    return "" if isinstance(layer.original, nn.Module) else "it is a function, not a module"


def normalises_batch(layer: Layer) -> bool:
    "Say whether it has batch normalisation, which mixes sequences in training."
    return any(isinstance(m, nn.modules.batchnorm._BatchNorm) for m in layer.modules)


def unregistered(layer: Layer) -> str | None:
    "Find the name of a plain attribute that hides parameters."
    registered = {id(p) for m in layer.modules for p in m.parameters(recurse=False)}
    for m in layer.modules:
        for name, value in vars(m).items():
            if name[:1] != "_" and _holds_parameters(value, registered):
                return name
    return None


def _holds_parameters(value: Any, registered: set[int]) -> bool:
    "Return whether a plain attribute hides parameters, or tensors that want a gradient."
    if isinstance(value, Tensor):
        return value.requires_grad and value.is_leaf and id(value) not in registered
    if isinstance(value, nn.Module):
        return any(id(p) not in registered for p in value.parameters())
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return any(_holds_parameters(v, registered) for v in value)
    return False
