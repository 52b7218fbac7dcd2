"""An attention function works for one query, for more keys than queries, for shorter and longer inputs, and for many keys."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import torch
from torch import Tensor

from attention_checks.catalogue import known
from attention_checks.catalogue.flash_attention import blocks
from attention_checks.examine import Broken, NotChecked, attempt, first_line
from attention_checks.numbers import first_difference, nearly, sizes_of
from attention_checks.pipeline import Bug
from attention_checks.properties import Relation
from attention_checks.search import Case, alike, explain
from attention_checks.subjects.facts import MANY, Subject, draw_many, right_for
from attention_checks.subjects.function import ONES, Sizes


def _single(a: Subject) -> None:
    rank = min((t.ndim for t in a.raw(*a.usual.draw())[1] if isinstance(t, Tensor)), default=0)
    for sizes in (s for s in ONES if a.contract.takes(s.n_q)):
        q, k, v = sizes.draw()
        shown, want = sizes_of(q=q, k=k, v=v), (*q.shape[:-1], v.shape[-1])
        try:
            got, rest = a(q, k, v), a.raw(q, k, v)[1]
        except Exception as e:
            raise Broken(f"{shown}: it raised {first_line(e, 150)}", _size_bug(a, sizes)) from None
        if got.shape != want:
            raise Broken(
                f"{shown}: it gives shape {tuple(got.shape)}, expected {want}", _size_bug(a, sizes)
            )
        for t in rest:
            if isinstance(t, Tensor) and t.ndim < rank:
                raise Broken(
                    f"{shown}: the returned weights have shape {tuple(t.shape)}",
                    _size_bug(a, sizes),
                )
        _single_values(a, sizes, got)


def _single_values(a: Subject, sizes: Sizes, got: Tensor) -> None:
    "The numbers for lengths of 1; of code that is wrong anyway, whether one key gives its value."
    q, k, v = sizes.draw()
    want = a.oracle(q, k, v) if a.sound else v.expand(*q.shape[:-1], -1) if sizes.n_k == 1 else got
    if not nearly(got, want):
        bugs = a.mismatch.bugs if a.mismatch else _size_bug(a, sizes)
        raise Broken(
            f"{sizes_of(q=q, k=k, v=v)}: {first_difference(got, want)}", bugs, symptom=True
        )


def _size_bug(a: Subject, sizes: Sizes) -> Bug:
    "Say which of its lengths are 1, if other lengths work."
    if not _takes_other_lengths(a):
        return known("length.one")
    ones = [f"one {what}" for what, n in zip(("sentence", "head", "query", "key"), sizes) if n == 1]
    return known("length.size", what=" and ".join(ones) or "width 1")


def _takes_other_lengths(a: Subject) -> bool:
    "Whether one query and one key more than usual give a context of that length."
    q, k, v = a.usual.longer(1).draw()
    return bool(attempt(lambda: a(q, k, v).shape[:-1] == q.shape[:-1]))


def _lengths(a: Subject) -> None:
    others = [n - a.usual.n_q for n in a.contract.allowed[:4] if n != a.usual.n_q]
    if a.contract.lengths is not None and not others:
        raise NotChecked("one length was declared")
    for n in others or (-2, 2):
        q, k, v = a.usual.longer(n).draw()
        shown = f"{sizes_of(q=q, k=k, v=v)}, after other sizes"
        try:
            got = a(q, k, v)
        except Exception as e:
            raise Broken(f"{shown}: it raised {first_line(e)}", known("length.one")) from None
        if a.sound and not nearly(got, want := a.oracle(q, k, v)):
            bugs = _long_bug(a, got, q, k, v) if n > 0 else None
            raise Broken(f"{shown}: {first_difference(got, want)}", bugs or known("length.one"))


def _long(a: Subject) -> None:
    if not a.lengths:
        raise NotChecked("shorter inputs give wrong numbers")
    for right, n in pairwise((a.usual.n_k + 2, *a.many)):
        _takes_many(a, right, n)


def _takes_many(a: Subject, right: int, wrong: int) -> None:
    "Raise Broken if so many keys give wrong numbers, and name a length at which they begin to."
    q, k, v = draw_many(a, wrong)
    try:
        got = a(q, k, v)
    except Exception as e:
        raise NotChecked(f"{sizes_of(q=q, k=k, v=v)}: it raises {first_line(e)}") from None
    want = a.oracle(q, k, v)
    if got.shape != want.shape:
        raise Broken(
            f"{sizes_of(q=q, k=k, v=v)}: it gives shape {tuple(got.shape)}", known("length.rows")
        )
    if nearly(got, want, 1e-3):
        return
    while wrong - right > 1:  # a length at which it goes wrong, while it does not with one key less
        middle = (right + wrong) // 2
        right, wrong = (middle, wrong) if right_for(a, middle) else (right, middle)
    shown = (
        f"{sizes_of(q=q, k=k, v=v)}, and with {wrong} keys too: {first_difference(got, want, 1e-3)}"
    )
    raise Broken(
        shown, _long_bug(a, got, q, k, v) or known("blocks.length", wrong=wrong, right=right)
    )


def _long_bug(a: Subject, got: Tensor, q: Tensor, k: Tensor, v: Tensor) -> tuple[Bug, ...]:
    "What goes wrong with many keys."
    got, n = got.detach(), k.shape[-2]
    case = Case(a.work(q, k, v), got, 1e-3)
    if a.reach and (found := explain([case], a.bugs, 1)):
        return found
    place = torch.arange(n).expand(q.shape[-2], n)
    if any(
        alike(a.oracle(q, k, v, place < seen), got, 1e-3)
        for seen in range(1, n, 1 if n <= MANY else 32)
    ):
        return (known("blocks.cut_tail"),)
    v2 = v.clone()
    v2[..., -1, :] += 100
    moved = (a(q, k, v2) - got).abs().amax((0, 1, -1)) > 1
    if a.causal and moved[:-1].any():
        return (known("mask.length", query=int(moved.nonzero()[0])),)
    return explain([case], blocks(n), 1) or ()


def _rectangular(a: Subject) -> None:
    for sizes in (Sizes(), Sizes(n_q=7, n_k=5), Sizes(n_q=1, n_k=7), Sizes(n_q=5, n_k=MANY)):
        if sizes.n_q > sizes.n_k and a.causal is True:
            continue  # which corner its mask starts in, nobody said
        q, k, v = sizes.draw()
        shown, want = sizes_of(q=q, k=k, v=v), a.oracle(q, k, v)
        only_square = known("shape.only_square" if _takes_other_lengths(a) else "length.one")
        try:
            got = a(q, k, v)
        except Exception as e:
            if a.causal is True:
                raise NotChecked(
                    f"with n_q ≠ n_k it raises {type(e).__name__}; needed once keys are cached"
                ) from None
            raise Broken(f"{shown}: it raised {first_line(e, 150)}", only_square) from None
        if got.shape != want.shape:
            bug = _size_bug(a, sizes) if sizes.n_q == 1 else known("shape.only_square")
            raise Broken(f"{shown}: {first_difference(got, want)}", bug)
        if a.sound and not nearly(got, want):
            _must_be_undecided(a, q, k, v, got)
            raise Broken(
                f"{shown}: {first_difference(got, want)}", _rectangular_bug(a, q, k, v, got)
            )


def _rectangular_bug(a: Subject, q: Tensor, k: Tensor, v: Tensor, got: Tensor) -> Bug:
    "Say what is wrong, which may be no more than the queries that come before all keys."
    allowed = a.allowed(q, k)
    empty = torch.tensor(False) if allowed is None else ~allowed.any(-1)
    if not empty.any() or not nearly(got[..., ~empty, :], a.oracle(q, k, v)[..., ~empty, :]):
        return known("length.rectangular")
    return name_empty(got[..., 0, :], v)


def name_empty(
    row: Tensor,  # the context of a query that may attend to nothing, (b, h, d_v)
    v: Tensor,  # (b, h, n_k, d_v)
) -> Bug:
    "Say what a query that may attend to nothing gets in the place of zeros."
    if not row.isfinite().all():
        return known("mask.empty_nan")
    return known("mask.empty_mean" if nearly(row, v.mean(-2)) else "mask.empty_something")


def _must_be_undecided(a: Subject, q: Tensor, k: Tensor, v: Tensor, got: Tensor) -> None:
    "Which corner a causal mask starts in, nobody said: causal=True promises square scores only."
    if a.causal is True:
        upper = replace(a, causal="upper-left").oracle(q, k, v)
        how = (
            "lines up the first query with the first key"
            if nearly(got, upper)
            else "gives other numbers"
        )
        raise NotChecked(
            f'with fewer queries than keys it {how}; for cached keys ask for causal="lower-right"'
        )


any_length: Callable[[Subject], bool] = lambda a: (
    a.contract.lengths is None
)  # it was promised to take any number of words


LENGTHS = (
    Relation("one query and one key: the context is the value", _single, after=("finite",)),
    Relation("shorter and longer inputs work", _lengths, after=("finite",)),
    Relation(
        "so do many keys: blocks fit together, and nothing is cut off", _long, asked=any_length
    ),
    Relation(
        "queries and keys may differ in number", _rectangular, after=("finite",), asked=any_length
    ),
)
