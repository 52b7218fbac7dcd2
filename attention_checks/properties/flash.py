"""What flash attention must do beyond every attention: no score matrix, a right log-sum-exp."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, wraps
from typing import Any

import torch
import torch.nn as nn
from torch import Tensor

from attention_checks.catalogue import known
from attention_checks.numbers.autograd import gradients_of
from attention_checks.numbers.tensors import first_difference, nearly
from attention_checks.numbers.tolerance import FLOAT32, LONG_SUMS
from attention_checks.outcomes import Broken, NotChecked, broken_by
from attention_checks.properties import Properties, Property, Recognise, bound
from attention_checks.properties.functions import attention_properties
from attention_checks.subjects.calling import first_tensor
from attention_checks.subjects.function_facts import ExaminedFunction
from attention_nb.tools.testing import allocated, operations, random_qkv

_GROWTH = 3.3  # from 600 to 1200 tokens a tile of 1024 × 1024 grows by 2.9, a matrix by 4
_FEW = 7  # tokens of a short sequence


@dataclass(frozen=True)
class _Flash:
    "The function under test, and what was declared of it."

    subject: ExaminedFunction

    def __call__(self, *qkv: Tensor) -> tuple[Tensor, ...]:
        "Context and whatever else is returned."
        context, rest = self.subject.call_in_place(*qkv)
        return context, *rest

    def gradients(self, *qkv: Tensor) -> Any:
        "Return the gradients of the context; None if it has none."
        leaves = [t.detach().requires_grad_() for t in qkv]
        context = self(*leaves)[0]
        if not context.requires_grad:
            return None
        return torch.autograd.grad(context.sum(), leaves, allow_unused=True)

    @cached_property
    def operations(self) -> int:
        "How many operations it takes for 96 tokens: many, where tiles are small."
        return operations(self, *_one_head(96))

    @property
    def sound(self) -> bool:
        "Return whether its contexts are right."
        return self.subject.sound

    @property
    def lengths(self) -> tuple[int, int]:
        "Tokens of a short and a long trial; with small tiles few are enough."
        return (600, 1200) if self.operations < 100 else (100, 200)

    def lse_of(self, *qkv: Tensor) -> Tensor | None:
        "Return its log-sum-exp of a short sequence; None if it returns nothing of that shape."
        for extra in self(*qkv)[1:]:
            if isinstance(extra, Tensor) and extra.numel() == _FEW and extra.is_floating_point():
                return extra.flatten()
        return None

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        "Return the right scores, -inf where a key is hidden."
        scores, allowed = self.subject.scores(q, k), self.subject.allowed(q, k)
        return scores if allowed is None else scores.masked_fill(~allowed, -math.inf)


def _one_head(n: int) -> tuple[Tensor, Tensor, Tensor]:
    "Draw queries, keys and values of one sequence and one head."
    return random_qkv(b=1, h=1, n_q=n, n_k=n, d_k=8, d_v=8, seed=0)


def _peak_bytes(call: Callable[..., Any], device: torch.device, n: int) -> list[int]:
    "List the bytes that n tokens take at once: as operations ask for them, and as a GPU measures."
    counted = allocated(call, *_one_head(n)).peak  # it does not see into a kernel
    if device.type != "cuda":
        return [counted]
    torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device)
    call(*_one_head(n))
    return [counted, torch.cuda.max_memory_allocated(device) - before]


def _must_stay_linear(flash: _Flash, call: Callable[..., Any], code: str) -> None:
    "Raise Broken if memory grows with the square of the length."
    few, many = flash.lengths
    device = flash.subject.contract.placement.device
    for short, long in zip(*(_peak_bytes(call, device, n) for n in (few, many))):
        if long > _GROWTH * short:
            growth = f"{long / short:.1f} times as many"
            shown = f"{few} tokens take {short} bytes, {many} tokens {long}: {growth}"
            raise Broken(shown, known(code))


def _must_grow_linearly(flash: _Flash) -> None:
    "Memory grows with the length, not with its square."
    _must_stay_linear(flash, flash, "flash.matrix")


def _must_grow_linearly_backward(flash: _Flash) -> None:
    "So does the memory of the backward pass."
    if flash.gradients(*_one_head(_FEW)) is None:
        raise NotChecked("it has no gradient")
    if broken_by(lambda: _must_grow_linearly(flash)):
        raise NotChecked("its forward pass already holds the matrix")
    _must_stay_linear(flash, flash.gradients, "flash.matrix_backward")


def _must_give_lse(flash: _Flash) -> None:
    "The log-sum-exp that it returns is that of its scores."
    q, k, v = _one_head(_FEW)
    scores, lse = flash.scores(q, k), flash.lse_of(q, k, v)
    want = scores.logsumexp(-1).flatten()
    if lse is None or nearly(lse.float(), want, FLOAT32):
        return
    raise Broken(first_difference(lse.float(), want, FLOAT32), known("lse.wrong"))


def _must_give_lse_gradient(flash: _Flash) -> None:
    "The gradient of the log-sum-exp is right."
    q, k, v = (t.requires_grad_() for t in _one_head(_FEW))
    lse = flash.lse_of(q, k, v)
    if lse is None or not lse.requires_grad:
        raise NotChecked("no gradient flows through its log-sum-exp")
    upstream = torch.linspace(-1, 1, _FEW)
    total = (flash.scores(q, k).logsumexp(-1).flatten() * upstream).sum()
    wanted = torch.autograd.grad(total, (q, k))
    for name, got, want in zip("qk", gradients_of(lse, (q, k), upstream), wanted):
        if got is None or not nearly(got, want, LONG_SUMS):
            shown = "is none" if got is None else first_difference(got, want, LONG_SUMS)
            shown = f"gradient of {name} through the log-sum-exp: {shown}"
            raise Broken(shown, known("lse.gradient"))


def _too_slow(flash: _Flash) -> str:
    "Return why its memory is not watched."
    slow = flash.operations > 96 * 96 / 4
    return "its tiles are so small that many tokens take too long" if slow else ""


def _no_lse(flash: _Flash) -> str:
    "Return why its log-sum-exp is not tried."
    return "it returns no log-sum-exp" if flash.lse_of(*_one_head(_FEW)) is None else ""


def _no_right_lse(flash: _Flash) -> str:
    "Return why the gradient of its log-sum-exp is not tried."
    wrong = "the log-sum-exp itself is wrong" if broken_by(lambda: _must_give_lse(flash)) else ""
    return _no_lse(flash) or wrong


_PROPERTIES = (
    Property.of(_must_grow_linearly, _too_slow),
    Property.of(_must_grow_linearly_backward, _too_slow, differentiates=True),
    Property.of(_must_give_lse, _no_lse, symptom_unless=("sound",)),
    Property.of(_must_give_lse_gradient, _no_right_lse, differentiates=True),
)


def flash_properties(subject: ExaminedFunction) -> tuple[Properties, Recognise]:
    "List what flash attention must do: what every attention must, and its own."
    flash = _Flash(subject)
    alone = replace(subject, fn=_context_only(subject.fn))
    properties, recognise = attention_properties(alone)
    return [*properties, *bound(_PROPERTIES, lambda: flash)], recognise


def _context_only(fn: Callable[..., Any]) -> Callable[..., Any]:
    "Return the context alone: a log-sum-exp is no matrix of weights."

    @wraps(fn.forward if isinstance(fn, nn.Module) else fn)
    def context(*args: Any, **kwargs: Any) -> Any:
        "Call it, and drop what follows the context."
        return first_tensor(fn(*args, **kwargs))[0]

    return context
