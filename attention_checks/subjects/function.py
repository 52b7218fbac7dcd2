"""A function of queries, keys and values: how it is called, what is right, at which sizes."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor

from attention_checks.catalogue import ATTENTION
from attention_checks.catalogue.choices import capping
from attention_checks.catalogue.masks import BIAS
from attention_checks.catalogue.scales_and_routes import UNDECLARED_NORMS
from attention_checks.catalogue.windows import reach_bugs
from attention_checks.explaining.pipeline import STAGES, Bug, Work, right_output, work_of
from attention_checks.explaining.reach import Reach
from attention_checks.numbers.tensors import must_be_tensor, nearly, some_mask
from attention_checks.outcomes import attempt, first_line, runs
from attention_checks.spec import Contract
from attention_checks.subjects.calling import first_tensor
from attention_checks.subjects.masks import MEANINGS, OF_KEYS, PLAIN, SHAPES
from attention_checks.their_code.signatures import parameters_of
from attention_nb.naive_attention import at_least_float32
from attention_nb.tools.testing import random_qkv


class Sizes(NamedTuple):
    "Sizes of one trial; by default all differ, so that a swapped axis shows."

    b: int = 2
    h: int = 3
    n_q: int = 5
    n_k: int = 7
    d_k: int = 17
    d_v: int = 13
    query_factor: float = 1.0  # what queries are multiplied by

    def longer(self, n: int) -> Sizes:
        "Return the sizes with so many more queries and keys."
        return self._replace(n_q=self.n_q + n, n_k=self.n_k + n)

    def draw(self, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
        "Draw queries, keys and values."
        q, k, v = random_qkv(*self[:6], seed=seed)
        return q * self.query_factor, k, v


SQUARE, CUBE, EQUAL = Sizes(n_k=5), Sizes(n_k=5, d_v=17), Sizes(5, 5, 5, 5, 5, 5)
ONES = [
    Sizes(2, 3, 1, 1),
    Sizes(1, 1, 1, 1),
    Sizes(1, 1, 5, 5),
    Sizes(1, 3, 5, 5),
    Sizes(2, 1, 5, 5),
    Sizes(2, 3, 5, 5, 1, 1),
]


class CallStyle(NamedTuple):
    "How a function wants to be called."

    parameter: str | None = None  # that takes a mask; None: the fourth one, whatever its name
    takes_mask: bool = False
    needs_mask: bool = False
    meaning: str = "allowed"  # of its mask, one of MEANINGS
    says: str = ""  # what its entries are, one of those of the meaning; "": the usual ones
    form: str = PLAIN  # the shape of its mask, one of SHAPES; PLAIN: as it is
    flat: bool = False  # it takes (b, n, d) only
    refuses: str = ""  # what it raises at any mask

    @property
    def of_keys(self) -> bool:
        "Return whether its mask is the same for all queries."
        return self.form in OF_KEYS

    @property
    def entries(self) -> str:
        "Return what the entries of its mask are."
        return self.says or MEANINGS[self.meaning].says

    def some_mask(self, n_q: int, n_k: int) -> Tensor:
        "Draw a mask, the same for all queries if it takes no other."
        mask = some_mask(n_q, n_k)
        return mask[:1].expand(n_q, n_k) if self.of_keys else mask

    def as_taken(
        self,
        mask: Tensor,  # boolean, True = may attend; or a bias
        q: Tensor,  # the queries, (b, h, n_q, d_k)
    ) -> Tensor:  # a copy
        "Bring a mask into the form that the function takes."
        if self.form != PLAIN:
            mask = mask.expand(*q.shape[:-1], mask.shape[-1])
            mask = SHAPES[self.form](mask.flatten(0, 1)[:, None] if self.flat else mask)
        if mask.is_floating_point():
            return mask.clone()
        made = MEANINGS[self.meaning].made[self.entries](mask)
        return made.to(q.dtype) if made.is_floating_point() else made


_Subject = TypeVar("_Subject", bound="AttentionFunction")


@dataclass(frozen=True)
class AttentionFunction:
    """The function under test, what was declared of it, and how it is called: with q (b, h, n_q,
    d_k), k (b, h, n_k, d_k), v (b, h, n_k, d_v), and a mask that broadcasts to (b, h, n_q, n_k).
    """

    fn: Callable[..., Any]
    contract: Contract = Contract()
    style: CallStyle = CallStyle()

    @property
    def causal(self) -> bool | str:
        "Return whether the future is hidden, and the corner if that was declared."
        return self.contract.hides_future and (self.contract.causal or True)

    @property
    def reach(self) -> Reach | None:
        "Which keys a query may attend to; None: all, or all of the past."
        reach = self.contract.reach
        return reach if reach.window or reach.ahead or reach.documents else None

    def with_style(self: _Subject, **style: Any) -> _Subject:
        "Return the function with another style of calling."
        return replace(self, style=self.style._replace(**style))

    def call_on_copies(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None
    ) -> tuple[Any, Any]:
        """Call it on copies, so that code that changes its inputs breaks one property; the mask is
        boolean, True = may attend, or a bias. Give the context and whatever else is returned.
        """
        if mask is None and self.style.needs_mask:
            mask = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool)
        if mask is not None:
            mask = self.style.as_taken(mask, q)
        q, k, v = (t.clone(memory_format=torch.contiguous_format) for t in (q, k, v))
        return self.call_in_place(q, k, v, mask)

    def call_in_place(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None
    ) -> tuple[Any, Any]:
        "Call it on these very tensors, the mask in the form that it takes; give all as `raw` does."
        style, place = self.style, self.contract.placement
        flat = [t.flatten(0, 1) if style.flat else t for t in (q, k, v)]
        with place.inputs(*map(self._transposed, flat), mask) as (*args, mask):
            if mask is None:
                out = self.fn(*args)
            elif style.parameter:
                out = self.fn(*args, **{style.parameter: mask})
            else:
                out = self.fn(*args, mask)
        context, rest = first_tensor(out)
        return self._transposed(place.back(context)), tuple(map(place.back, rest))

    def _transposed(self, t: Any) -> Any:
        "Exchange heads and tokens, if it wants (b, n, h, d) and gives it."
        of_heads = isinstance(t, Tensor) and t.ndim == 4
        return t.transpose(1, 2) if of_heads and self.contract.layout == "bnhd" else t

    def __call__(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
        "Return the context, (b, h, n_q, d_v)."
        context, _ = self.call_on_copies(q, k, v, mask)
        must_be_tensor(context)
        flat = self.style.flat and context.ndim == 3
        unflattened: Tensor = context.unflatten(0, q.shape[:2]) if flat else context
        return unflattened

    def inputs(self, seed: int = 0) -> dict[str, Tensor]:
        "Draw q, k and v."
        return dict(zip("qkv", self.usual.draw(seed)))

    def raw_inputs(self) -> dict[str, Tensor]:
        "Draw q, k and v, and a mask in the form that it takes, if it takes one."
        inputs, usual = self.inputs(), self.usual_mask
        q, k, v = inputs.values()
        mask = torch.ones_like(usual) if self.style.needs_mask else None
        if not self.no_mask and runs(lambda: self(q, k, v, usual)):
            mask = usual
        if mask is not None:
            inputs["mask"] = self.style.as_taken(mask, q)
        return inputs

    def on_these(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
        "Return the context of these very tensors."
        context: Tensor = self.call_in_place(q, k, v, mask)[0]
        return context

    @property
    def sees(self) -> Reach | None:
        "Which keys a query may attend to, from the declared corner; None: all."
        return self.contract.reach if self.reach or self.causal else None

    def allowed(self, q: Tensor, k: Tensor, mask: Tensor | None = None) -> Tensor | None:
        "Return the mask that should be in force; None for everything."
        if not self.sees:
            return mask
        seen = self.sees.mask(q.shape[-2], k.shape[-2])
        return seen if mask is None else seen & mask

    def work(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Work:
        "Set out what it starts from."
        return self._work(q, k, v, mask)._replace(bias_last=self.adds_bias_last)

    def _work(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Work:
        "Set out what it starts from; a bias comes before a soft cap."
        work = work_of(q, k, v, self.allowed(q, k, mask), self.right_scale(q))
        bias = self.contract.bias_of(q, k).to(q.dtype)
        return work._replace(softcap=self.contract.softcap, bias=bias)

    @cached_property
    def adds_bias_last(self) -> bool:
        "Return whether it adds its declared bias to scores that are capped, which is its choice."
        if self.contract.softcap is None or self.contract.bias is None:
            return False
        inputs = self.near_cap.draw()
        want = right_output(self._work(*inputs)._replace(bias_last=True))
        return attempt(lambda: nearly(self(*inputs), want)) is True

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        "Return the right scores, before any mask."
        return STAGES["cap"](STAGES["score"](self.work(q, k, k))).scores

    def reference(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
        "Return the right context, which is that of the loops of chapter 1, stage by stage."
        exact_q, exact_k, exact_v = (at_least_float32(t) for t in (q, k, v))
        work = self.work(exact_q, exact_k, exact_v, mask)
        if self.contract.attend:
            return self.contract.attended(work).out.to(q.dtype)
        return right_output(work).to(q.dtype)

    def right_scale(self, q: Tensor) -> float:
        "Return what scores should be multiplied by."
        return self.contract.scale_of(q.shape[-1])

    def at(self, sizes: Sizes) -> Sizes:
        "Return these sizes, or equal ones where a skipped code says that it takes no others."
        skip = {*self.contract.skip}
        if skip & {"shape.only_square", "shape.only_equal"}:
            sizes = sizes._replace(n_q=sizes.n_k)
        if skip & {"shape.values_as_wide", "shape.only_equal"}:
            sizes = sizes._replace(d_v=sizes.d_k)
        return sizes

    @cached_property
    def usual(self) -> Sizes:
        "Sizes at which everything is defined, and that it takes."
        return self.at(self._usual)

    @property
    def _usual(self) -> Sizes:
        "Sizes at which everything is defined: square if causal, and longer than any window."
        if self.reach:
            reach = self.reach
            n = 3 * max(reach.window, reach.ahead, reach.documents) + reach.sinks + 2
            return Sizes(n_q=n if self.causal is True else n - 2, n_k=n)
        if self.contract.lengths is not None:
            n = self.contract.nearest_length(5)
            return Sizes(n_q=n, n_k=n)
        return SQUARE if self.causal is True else Sizes()

    @property
    def near_cap(self) -> Sizes:
        "The usual sizes, with scores about as large as a declared soft cap, if there is one."
        cap = self.contract.softcap or 0.0
        return self.usual._replace(query_factor=max(1.0, cap / 3))

    @property
    def usual_mask(self) -> Tensor:
        "A mask of the usual sizes, (n_q, n_k)."
        return self.style.some_mask(self.usual.n_q, self.usual.n_k)

    @cached_property
    def bugs(self) -> list[Bug]:
        "The bugs that its numbers may tell, first those of what was declared."
        cap = self.contract.softcap
        declared = [] if cap is None else capping(cap)[1]
        declared += BIAS if self.contract.bias else []
        if self.reach is None or self.sees is None:
            return [*declared, *ATTENTION, *UNDECLARED_NORMS]
        undeclared = [bug for bug in ATTENTION if not bug.code.startswith("mask.window")]
        return [*reach_bugs(self.sees), *declared, *undeclared, *UNDECLARED_NORMS]

    @property
    def declared_meaning(self) -> str:
        "What a mask should mean: as declared, or as its parameter is named."
        if isinstance(meaning := self.contract.mask_meaning, str):
            return meaning
        return "bias" if "bias" in (self.style.parameter or "") else "allowed"

    @property
    def no_mask(self) -> str:
        "Why it is given no mask; empty if it takes one."
        return self.style.refuses if self.style.takes_mask else "it takes no mask"


def find_call_style(subject: _Subject) -> _Subject:  # the same with its style
    "Find out how a function wants to be called: with (b, h, n, d) or (b, n, d), and which mask."
    mask = subject.contract.mask_meaning
    name = subject.contract.mask_name or _mask_parameter(subject.fn)
    name = None if mask is False else name
    takes = name is not None or isinstance(mask, str)
    style = CallStyle(name, takes, takes and _required(subject.fn, name))
    subject = replace(subject, style=style)
    plain = _with_mask(subject.with_style(meaning=subject.declared_meaning))
    if _works(plain):
        return plain
    flat = _with_mask(subject.with_style(meaning=subject.declared_meaning, flat=True))
    return flat if _works(flat) else plain


def _works(subject: AttentionFunction) -> bool:
    "Return whether it runs at all."
    return runs(lambda: subject(*subject.usual.draw()))


def _mask_parameter(fn: Callable[..., Any]) -> str | None:
    "Return the name of the parameter that takes a mask; None if there is none."
    for name in parameters_of(fn) or {}:
        hides_keys = "mask" in name and not re.match("q(uery|ueries)?_", name)
        if hides_keys or name in ("bias", "attn_bias", "attention_bias"):
            return name
    return None


def _required(fn: Callable[..., Any], name: str | None) -> bool:
    "Return whether a parameter has no default."
    parameter = (parameters_of(fn) or {}).get(name or "")
    return parameter is not None and parameter.default is parameter.empty


def _meanings(declared: str) -> list[tuple[str, str]]:
    "Return what a mask may mean, first as declared; then the same with other entries."
    meanings = dict.fromkeys((declared, *MEANINGS))
    others = [(meaning, says) for meaning in meanings for says in [*MEANINGS[meaning].made][1:]]
    return [*((meaning, "") for meaning in meanings), *others]


def _with_mask(subject: _Subject) -> _Subject:
    "Find the shape and meaning of its mask that are right, or at least a shape that runs."
    if not subject.style.takes_mask:
        return subject
    runnable, error = "", ""  # the first shape that runs, and what others raise
    # the most general shape first
    for form, (meaning, says) in product(reversed(SHAPES), _meanings(subject.declared_meaning)):
        if runnable == PLAIN and form != PLAIN:
            break  # it takes (n_q, n_k), if wrongly
        tried = subject.with_style(form=form, meaning=meaning, says=says)
        inputs = (*tried.usual.draw(), tried.usual_mask)
        try:
            got = tried(*inputs)
        except Exception as e:
            error = error or first_line(e)
            continue
        if nearly(got, tried.reference(*inputs)):
            return tried
        runnable = runnable or form
    return subject.with_style(form=runnable) if runnable else _refusing(subject, error)


def _refusing(subject: _Subject, error: str) -> _Subject:
    "Return the function as it is; without a mask, if it raises an error at any, and needs none."
    optional = subject.contract.mask_meaning is None and not subject.style.needs_mask
    square = (*SQUARE.draw(), some_mask(SQUARE.n_q, SQUARE.n_k))
    if not optional or runs(lambda: subject(*square)):
        return subject
    how = "say mask=False, or wrap it in a function that takes none"
    return subject.with_style(refuses=f"given one it raises {error}; {how}")
