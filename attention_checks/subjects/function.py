"""How a function of queries, keys and values wants to be called, what it should give, and the sizes at which it is tried."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor

from attention_checks.catalogue import ATTENTION
from attention_checks.catalogue.local_attention import Reach, reach_bugs
from attention_checks.catalogue.self_attention import NORMS
from attention_checks.examine import attempt, first_line
from attention_checks.numbers import must_be_tensor, nearly, some_mask
from attention_checks.pipeline import Bug, Work, rightly, work_of
from attention_checks.signatures import parameters_of
from attention_checks.spec import Contract
from attention_nb.naive_attention import at_least_float32
from attention_nb.tools.testing import random_qkv


class Sizes(NamedTuple):
    "Sizes of one trial; in the ordinary one all differ, so a swapped axis cannot hide."

    b: int = 2
    h: int = 3
    n_q: int = 5
    n_k: int = 7
    d_k: int = 17
    d_v: int = 13

    def longer(
        self,
        n: int,  # how many queries and keys more
    ) -> Sizes:
        "Give the sizes with more words."
        return self._replace(n_q=self.n_q + n, n_k=self.n_k + n)

    def draw(
        self,
        seed: int = 0,  # same seed, same numbers
    ) -> tuple[Tensor, Tensor, Tensor]:  # q, k and v
        "Draw queries, keys and values."
        return random_qkv(*self, seed=seed)


SQUARE, CUBE, EQUAL = Sizes(n_k=5), Sizes(n_k=5, d_v=17), Sizes(5, 5, 5, 5, 5, 5)
ONES = [
    Sizes(b, h, n_q, n_k, *widths)
    for b, h, n_q, n_k, *widths in (
        (2, 3, 1, 1, 17, 13),
        (1, 1, 1, 1, 17, 13),
        (1, 1, 5, 5, 17, 13),
        (1, 3, 5, 5, 17, 13),
        (2, 1, 5, 5, 17, 13),
        (2, 3, 5, 5, 1, 1),
    )
]


OF_KEYS = "(b, n_k)"
FORMS: dict[
    str, Callable[[Tensor], Tensor]
] = {  # of a mask (b, h, n_q, n_k), if (n_q, n_k) will not do
    "": lambda m: m,
    "(b, 1, n_q, n_k)": lambda m: m[:, :1],
    "(b, n_q, n_k)": lambda m: m[:, 0],
    OF_KEYS: lambda m: m[:, 0, 0],
}
MEANINGS = {
    "allowed": "True = may attend",
    "blocked": "True = blocked",
    "bias": "a tensor to add to the scores",
}


class CallStyle(NamedTuple):
    "How a function wants to be called."

    parameter: str | None = None  # that takes a mask; None: the fourth one, whatever it is called
    takes_mask: bool = False
    needs_mask: bool = False
    meaning: str = "allowed"  # of its mask, one of MEANINGS
    form: str = ""  # the shape of mask that it takes, one of FORMS
    numbers: bool = False  # give it 1 and 0 for True and False
    flat: bool = False  # it takes (b, n, d) only
    refuses: str = ""  # what it raises at any mask
    as_is: bool = False  # its inputs keep their layout in memory

    def some_mask(
        self,
        n_q: int,  # queries
        n_k: int,  # keys
    ) -> Tensor:  # boolean, True = may attend, (n_q, n_k)
        "Draw a mask, the same for all queries if that is all it takes."
        mask = some_mask(n_q, n_k)
        return mask[:1].expand(n_q, n_k) if self.form == OF_KEYS else mask

    def as_taken(
        self,
        mask: Tensor,  # boolean, True = may attend; or a bias
        q: Tensor,  # the queries, (b, h, n_q, d_k)
    ) -> Tensor:  # a copy
        "Bring a mask into the form that the function takes."
        if self.form:
            mask = mask.expand(*q.shape[:-1], mask.shape[-1])
            mask = FORMS[self.form](mask.flatten(0, 1)[:, None] if self.flat else mask)
        if self.meaning == "bias" and not mask.is_floating_point():
            return torch.zeros(mask.shape, dtype=q.dtype).masked_fill(~mask, -math.inf)
        mask = ~mask if self.meaning == "blocked" else mask.clone()
        return mask.to(q.dtype) if self.numbers else mask


_BY_ACCIDENT = (
    "mask.only_itself",
    "mask.window_2",
    "mask.window_3",
)  # windows that nobody declared
_A = TypeVar("_A", bound="Attention")


@dataclass(frozen=True)
class Attention:
    "The function under test, what was said of it, and how it is called."

    fn: Callable[..., Any]
    causal: bool | str = False
    mask: str | bool | None = None  # what the caller says of masks
    contract: Contract = Contract()
    reach: Reach | None = None  # how far a query sees; None: everywhere, or all of the past
    style: CallStyle = CallStyle()

    def called(
        self: _A,
        **how: Any,  # parts of the style
    ) -> _A:
        "Give the same function, called in another style."
        return replace(self, style=self.style._replace(**how))

    def raw(
        self,
        q: Tensor,  # (b, h, n_q, d_k)
        k: Tensor,  # (b, h, n_k, d_k)
        v: Tensor,  # (b, h, n_k, d_v)
        mask: Tensor | None = None,  # boolean, True = may attend; or a bias
    ) -> tuple[Any, Any]:  # the context and whatever else is returned
        "Call it on copies, so that code that changes its inputs breaks one property."
        if mask is None and self.style.needs_mask:
            mask = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool)
        mask = None if mask is None else self.style.as_taken(mask, q)
        if not self.style.as_is or q.is_contiguous():
            q, k, v = (t.clone(memory_format=torch.contiguous_format) for t in (q, k, v))
        return self.bare(q, k, v, mask)

    def bare(
        self,
        q: Tensor,  # (b, h, n_q, d_k)
        k: Tensor,  # (b, h, n_k, d_k)
        v: Tensor,  # (b, h, n_k, d_v)
        mask: Tensor | None = None,  # in the form that it takes
    ) -> tuple[Any, Any]:  # the context and whatever else is returned
        "Call it on these very tensors."
        m, there, here = self.style, self.contract.there, self.contract.here
        q, k, v = (there(self._laid(t.flatten(0, 1) if m.flat else t)) for t in (q, k, v))
        named = {m.parameter: there(mask)} if m.parameter and mask is not None else {}
        out = self.fn(q, k, v, **named) if named or mask is None else self.fn(q, k, v, there(mask))
        rest = tuple(map(here, out[1:])) if isinstance(out, (tuple, list)) else ()
        return self._laid(here(out[0] if isinstance(out, (tuple, list)) else out)), rest

    def _laid(self, t: Any) -> Any:
        "Heads and words exchanged, if it wants (b, n, h, d) and gives it."
        return (
            t.transpose(1, 2)
            if self.contract.layout == "bnhd" and isinstance(t, Tensor) and t.ndim == 4
            else t
        )

    def __call__(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
        "The context, (b, h, n_q, d_v)."
        context, _ = self.raw(q, k, v, mask)
        must_be_tensor(context)
        found: Tensor = (
            context.unflatten(0, q.shape[:2]) if self.style.flat and context.ndim == 3 else context
        )
        return found

    @cached_property
    def sees(self) -> Reach | None:
        "How far a query sees, from the corner that was said; None: everywhere."
        near = self.reach or (Reach() if self.causal else None)
        return near and near._replace(upper_left=self.causal == "upper-left")

    def allowed(
        self,
        q: Tensor,  # (b, h, n_q, d_k)
        k: Tensor,  # (b, h, n_k, d_k)
        mask: Tensor | None = None,  # boolean, True = may attend
    ) -> Tensor | None:  # None: everything
        "Give the mask that should be in force."
        if not self.sees:
            return mask
        seen = self.sees.mask(q.shape[-2], k.shape[-2])
        return seen if mask is None else seen & mask

    def work(
        self,
        q: Tensor,  # (b, h, n_q, d_k)
        k: Tensor,  # (b, h, n_k, d_k)
        v: Tensor,  # (b, h, n_k, d_v)
        mask: Tensor | None = None,  # boolean, True = may attend
    ) -> Work:  # before the first stage
        "Set out what it starts from."
        return work_of(q, k, v, self.allowed(q, k, mask), self.right_scale(q))

    def oracle(
        self,
        q: Tensor,  # (b, h, n_q, d_k)
        k: Tensor,  # (b, h, n_k, d_k)
        v: Tensor,  # (b, h, n_k, d_v)
        mask: Tensor | None = None,  # boolean, True = may attend
    ) -> Tensor:
        "Give what the loops of chapter 1 give, stage by stage: loops take long, and numbers are asked for again and again."
        exact = self.work(at_least_float32(q), at_least_float32(k), at_least_float32(v), mask)
        return rightly(exact).to(q.dtype)

    def right_scale(
        self,
        q: Tensor,  # (b, h, n_q, d_k)
    ) -> float:
        "What scores should be multiplied by."
        return self.contract.scale_of(q.shape[-1])

    @cached_property
    def usual(self) -> Sizes:
        "Sizes at which everything is defined: square if causal, and longer than what is seen."
        if self.reach:
            n = 3 * max(self.reach.window, self.reach.documents) + self.reach.sinks + 2
            return Sizes(n_q=n if self.causal is True else n - 2, n_k=n)
        if self.contract.lengths is not None:
            n = self.contract.usual(5)
            return Sizes(n_q=n, n_k=n)
        return SQUARE if self.causal is True else Sizes()

    @property
    def usual_mask(self) -> Tensor:
        "Some mask of the usual sizes, (n_q, n_k)."
        return self.style.some_mask(self.usual.n_q, self.usual.n_k)

    @cached_property
    def bugs(self) -> list[Bug]:
        "What its numbers may tell; first what goes wrong with what was declared."
        if not (self.reach and self.sees):
            return [*ATTENTION, *NORMS]
        return [
            *reach_bugs(self.sees),
            *(bug for bug in ATTENTION if bug.code not in _BY_ACCIDENT),
            *NORMS,
        ]

    @property
    def said(self) -> str:
        "What a mask should mean."
        return (
            self.mask
            if isinstance(self.mask, str)
            else "bias"
            if "bias" in (self.style.parameter or "")
            else "allowed"
        )

    @property
    def no_mask(self) -> str:
        "Why it is given no mask; empty if it takes one."
        return self.style.refuses if self.style.takes_mask else "it takes no mask"


def settle(
    a: _A,  # a function of which nobody has said how it is called
) -> _A:  # the same with its style
    "Find out how a function wants to be called, with (b, n, d) if (b, h, n, d) does not work."
    parameter = None if a.mask is False else _mask_parameter(a.fn)
    takes = parameter is not None or isinstance(a.mask, str)
    a = replace(a, style=CallStyle(parameter, takes, takes and _required(a.fn, parameter)))
    plain = _with_mask(a.called(meaning=a.said))
    if _works(plain):
        return plain
    flat = _with_mask(a.called(meaning=a.said, flat=True))
    return flat if _works(flat) else plain


def _works(a: Attention) -> bool:
    "Whether it runs at all."
    return attempt(lambda: a(*a.usual.draw())) is not None


def _mask_parameter(fn: Callable[..., Any]) -> str | None:
    "The name of the parameter that takes a mask; None if there is none."
    names = (
        n
        for n in parameters_of(fn) or {}
        if "mask" in n or n in ("bias", "attn_bias", "attention_bias")
    )
    return next(names, None)


def _required(fn: Callable[..., Any], name: str | None) -> bool:
    "Whether a parameter has no default."
    parameter = (parameters_of(fn) or {}).get(name or "")
    return parameter is not None and parameter.default is parameter.empty


def _with_mask(a: _A) -> _A:
    "The same with what its mask means, and its shape; what runs at all, if nothing gives the oracle's numbers."
    if not a.style.takes_mask:
        return a
    ways = (
        a.called(form=form, meaning=meaning)
        for form in FORMS
        for meaning in dict.fromkeys((a.said, *MEANINGS))
    )
    runs: str | None = None  # the first form that does
    error = ""
    for way in ways:
        if runs == "" != way.style.form:
            break  # it takes (n_q, n_k), if wrongly
        q, k, v = a.usual.draw()
        mask = way.usual_mask
        try:
            same = nearly(way(q, k, v, mask), way.oracle(q, k, v, mask))
        except Exception as e:
            error = error or first_line(e)
            continue
        if same:
            return way
        runs = way.style.form if runs is None else runs
    return a.called(form=runs) if runs is not None else _where_nothing_runs(a, error)


def _where_nothing_runs(a: _A, error: str) -> _A:
    "How it is called though every mask raises."
    if a.mask is None and not a.style.needs_mask and not _takes_square_masks(a):
        return a.called(
            refuses=f"given one it raises {error}; say mask=False, or wrap it in a function that takes none"
        )
    return a


def _takes_square_masks(a: Attention) -> bool:
    "Whether it runs with a mask if n_q = n_k, or with one of numbers."
    mask = some_mask(SQUARE.n_q, SQUARE.n_k)
    return any(
        attempt(lambda: a.called(numbers=numbers)(*SQUARE.draw(), mask)) is not None
        for numbers in (True, False)
    )
