"""What flash attention must do beyond every attention: no matrix, no work in the future, a right log-sum-exp."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, wraps
from typing import Any

import torch
import torch.nn as nn
from torch import Tensor

from attention_checks.catalogue import known
from attention_checks.catalogue.flash_attention import LSE
from attention_checks.examine import Broken, NotChecked, attempt, first_line
from attention_checks.numbers import first_difference, nearly
from attention_checks.pipeline import Bug
from attention_checks.properties import (
    Properties,
    Relation,
    gradients_of,
    listed,
    must_have_gradients,
    outcome,
)
from attention_checks.properties.functions import attention_properties
from attention_checks.spec import Contract
from attention_checks.subjects.facts import Subject
from attention_nb.masks import causal_mask
from attention_nb.self_attention import attention_scores
from attention_nb.tools.testing import allocated, operations, random_qkv


@dataclass(frozen=True)
class _Tiled:
    "The function under test, and what was said of it."

    fn: Callable[..., Any]
    causal: bool | str = False
    scale: float | None = None

    def __call__(self, *qkv: Tensor) -> tuple[Tensor, ...]:
        "Context and whatever else is returned, as (b, h, n, d) or, if that does not work, (b, n, d)."
        out = attempt(lambda: self.fn(*qkv))
        if out is None:
            try:
                out = self.fn(*(t.flatten(0, 1) for t in qkv))
            except TypeError as e:
                raise NotChecked(f"with q, k and v alone it raises {first_line(e, 100)}") from None
        return tuple(out) if isinstance(out, (tuple, list)) else (out,)

    def step(self, *qkv: Tensor) -> Any:
        "Context and gradients."
        leaves = [t.detach().requires_grad_() for t in qkv]
        context = self(*leaves)[0]
        return (
            torch.autograd.grad(context.sum(), leaves, allow_unused=True)
            if context.requires_grad
            else None
        )

    @cached_property
    def operations(self) -> int:
        "How many it takes for 96 words: many, where tiles are small."
        return operations(self, *_drawn(96))

    @property
    def lengths(self) -> tuple[int, int]:
        "Words of two trials: few are enough for small tiles, and quick."
        return (600, 1200) if self.operations < 100 else (100, 200)

    @property
    def too_slow(self) -> str:
        "Why it cannot be watched; empty if it can."
        return (
            "its tiles are so small that many words take too long"
            if self.operations > 96 * 96 / 4
            else ""
        )

    @cached_property
    def lse(self) -> Tensor | None:
        "What it returns as log-sum-exp of seven queries; None if nothing of that shape."
        rest = [
            t
            for t in self(*_drawn(7))[1:]
            if isinstance(t, Tensor) and t.numel() == 7 and t.is_floating_point()
        ]
        return rest[0].flatten() if rest else None


def _drawn(n: int, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    "Queries, keys and values of one sentence and one head."
    return random_qkv(b=1, h=1, n_q=n, n_k=n, d_k=8, d_v=8, seed=seed)


_GROWTH = 3.3  # a tile of 1024 × 1024 grows by 2.9 from 600 to 1200 words, a matrix by 4


def _must_stay_linear(t: _Tiled, call: Callable[..., Any], code: str) -> None:
    "Raise Broken if memory grows as the square of the length."
    short, long = (allocated(call, *_drawn(n)).peak for n in t.lengths)
    if long > _GROWTH * short:
        few, many = t.lengths
        raise Broken(
            f"{few} words take {short} bytes, {many} words {long}: {long / short:.1f} times as many",
            known(code),
        )


def _linear(t: _Tiled) -> None:
    _must_stay_linear(t, t.__call__, "flash.matrix")


def _linear_backward(t: _Tiled) -> None:
    if t.step(*_drawn(7)) is None:
        raise NotChecked("it has no gradient")
    if outcome(lambda: _linear(t)):
        raise NotChecked("its forward already holds the matrix")
    _must_stay_linear(t, t.step, "flash.matrix_backward")


def _right_backward(t: _Tiled) -> None:
    if t.step(*_drawn(7)) is None:
        raise NotChecked("it has no gradient")
    right = lambda q, k, v: _true_scores(t, q, k)[0].softmax(-1) @ v
    must_have_gradients(lambda *qkv: t(*qkv)[0], right, dict(zip("qkv", _drawn(t.lengths[1]))))


def _skips(t: _Tiled) -> None:
    from torch.utils.flop_counter import (
        FlopCounterMode,  # it imports Triton where that is installed
    )

    n = 2 * t.lengths[1]
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        t(*_drawn(n))
    counts = counter.get_flop_counts().get("Global", {})
    done = sum(
        count
        for op, count in counts.items()
        if str(op).split(".")[-1] in ("mm", "bmm", "addmm", "baddbmm")
    )
    if not done:
        raise NotChecked("its products cannot be seen: they are in one operation")
    if done > 0.95 * 4 * n * n * 8:  # two products, multiply and add
        raise Broken(
            f"{n} words, no look into the future: all products are computed",
            known("flash.not_skipped"),
        )


def _true_scores(t: _Tiled, q: Tensor, k: Tensor) -> tuple[Tensor, float]:
    "The scores that count, and their scale."
    scale = q.shape[-1] ** -0.5 if t.scale is None else t.scale
    scores = attention_scores(q, k, scale)
    return (scores.masked_fill(~causal_mask(q.shape[-2]), -math.inf) if t.causal else scores), scale


def _right_lse(t: _Tiled) -> None:
    q, k, v = _drawn(7)
    scores, scale = _true_scores(t, q, k)
    got, want = t.lse, scores.logsumexp(-1).flatten()
    if got is None or nearly(got.float(), want, 1e-4):
        return
    found = [
        code
        for code, (_, wrong) in LSE.items()
        if nearly(got.float(), wrong(scores, scale).flatten(), 1e-4)
    ]
    raise Broken(
        first_difference(got.float(), want, 1e-4), known(found[0] if found else "lse.unknown")
    )


def _lse_gradient(t: _Tiled) -> None:
    q, k, v = (x.requires_grad_() for x in _drawn(7))
    rest = [x for x in t(q, k, v)[1:] if isinstance(x, Tensor) and x.numel() == 7]
    if not rest[0].requires_grad:
        raise NotChecked("no gradient goes through its log-sum-exp")
    upstream = torch.linspace(-1, 1, 7)
    got = gradients_of(rest[0].flatten(), (q, k), upstream)
    want = torch.autograd.grad(
        (_true_scores(t, q, k)[0].logsumexp(-1).flatten() * upstream).sum(), (q, k)
    )
    for name, g, w in zip("qk", got, want):
        if g is None or not nearly(g, w, 1e-3):
            shown = "is none" if g is None else first_difference(g, w, 1e-3)
            raise Broken(
                f"gradient of {name} through the log-sum-exp: {shown}", known("lse.gradient")
            )


def _no_lse(t: _Tiled) -> str:
    return "it returns no log-sum-exp" if t.lse is None else ""


def _no_right_lse(t: _Tiled) -> str:
    "Why its gradient cannot be judged."
    return _no_lse(t) or (
        "the log-sum-exp itself is wrong" if outcome(lambda: _right_lse(t)) else ""
    )


_RELATIONS = (
    Relation("memory grows with the length, not with its square", _linear, lambda t: t.too_slow),
    Relation("so does the memory of the gradient", _linear_backward, lambda t: t.too_slow),
    Relation("the gradient is right for many words, too", _right_backward, lambda t: t.too_slow),
    Relation(
        "tiles that lie in the future are not computed",
        _skips,
        lambda t: t.too_slow if t.causal else "it does not hide the future",
    ),
    Relation("the log-sum-exp that it returns is that of its scores", _right_lse, _no_lse),
    Relation("the gradient of the log-sum-exp is right", _lse_gradient, _no_right_lse),
)


def flash_properties(
    fn: Callable[
        ..., Any
    ],  # fn(q, k, v) or fn(q, k, v, mask), over (b, h, n, d) → context, or (context, lse)
    causal: bool
    | str = False,  # hides the future? True: if n_q = n_k; "lower-right", "upper-left": always
    mask: str
    | bool
    | None = None,  # "allowed" (True = may attend), "blocked" or "bias"; False: none; None: look
    scale: float | None = None,  # what it multiplies scores with; default 1 / √d_k
    compiles: bool = False,  # is it tried under torch.compile and torch.export, too?
) -> tuple[
    Properties, Callable[[], tuple[Bug, ...] | None]
]:  # the properties, and what names the bug if one fails
    "List what flash attention must do: what every attention must, and its own."
    contract = Contract(scale=scale, compiles=compiles)
    properties, recognise = attention_properties(Subject(_first_only(fn), causal, mask, contract))
    subject = _Tiled(fn, causal, scale)
    return [*properties, *listed(_RELATIONS, lambda: subject)], recognise


def _first_only(fn: Callable[..., Any]) -> Callable[..., Any]:
    "The same without what comes after the context: a log-sum-exp is no matrix of weights."

    @wraps(fn.forward if isinstance(fn, nn.Module) else fn)
    def context(*args: Any, **kwargs: Any) -> Any:
        out = fn(*args, **kwargs)
        return out[0] if isinstance(out, (tuple, list)) and out else out

    return context
