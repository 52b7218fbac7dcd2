"""Lengths: one query, shorter and longer inputs, many keys."""

from itertools import pairwise

import torch
from torch import Tensor

from attention_checks.catalogue import known
from attention_checks.catalogue.flash_attention import blocks
from attention_checks.explaining.pipeline import Bug
from attention_checks.explaining.search import Case, alike, explain
from attention_checks.numbers.tensors import (
    first_difference,
    must_be_near,
    must_run,
    nearly,
    sizes_of,
)
from attention_checks.numbers.tolerance import LONG_SUMS
from attention_checks.outcomes import Broken, NotChecked, attempt, first_line
from attention_checks.properties import Property
from attention_checks.properties.equivariance import must_give
from attention_checks.properties.functions.recognising import measured_band
from attention_checks.subjects.function import ONES, Sizes
from attention_checks.subjects.function_facts import MANY, ExaminedFunction, draw_many


def _must_take_one(subject: ExaminedFunction) -> None:
    "One query and one key: the context is the value."
    ranks = [t.ndim for t in _weights_at(subject, subject.usual)]
    one_of_many = () if subject.causal is True else (Sizes(n_q=1),)
    for sizes in map(subject.at, (*ONES, *one_of_many)):
        if not subject.contract.takes(sizes.n_q):
            continue
        q, k, v = sizes.draw()
        shown, shape = sizes_of(q=q, k=k, v=v), (*q.shape[:-1], v.shape[-1])
        got = must_give(subject, (q, k, v), shape, shown, lambda: _size_bug(sizes))
        for t in _weights_at(subject, sizes):
            if t.ndim < min(ranks, default=0):
                shown = f"{shown}: the returned weights have shape {tuple(t.shape)}"
                raise Broken(shown, _size_bug(sizes))
        if subject.sound:
            want = subject.reference(q, k, v)
            must_be_near(got, want, shown, _size_bug(sizes), symptom=True)


def _weights_at(subject: ExaminedFunction, sizes: Sizes) -> list[Tensor]:
    "Return the tensors that it returns beside the context."
    return [t for t in subject.call_on_copies(*sizes.draw())[1] if isinstance(t, Tensor)]


def _size_bug(sizes: Sizes) -> Bug:
    "Say which of its sizes are 1."
    names = ("sequence", "head", "query", "key")
    ones = [f"one {name}" for name, n in zip(names, sizes) if n == 1]
    return known("length.size", what=" and ".join(ones) or "width 1")


def _must_take_lengths(subject: ExaminedFunction) -> None:
    "Shorter and longer inputs work."
    usual, differences = subject.usual, [-2, 2]
    if subject.contract.lengths is not None:
        differences = [
            n - usual.n_q for n in subject.contract.allowed_lengths[:4] if n != usual.n_q
        ]
        if not differences:
            raise NotChecked("one length was declared")
    for difference in differences:
        q, k, v = usual.longer(difference).draw()
        shown = f"{sizes_of(q=q, k=k, v=v)}, after other sizes"
        got = must_run(lambda: subject(q, k, v), shown, lambda: known("length.one"))
        if subject.sound and not nearly(got, want := subject.reference(q, k, v)):
            bugs = _bug_of_many_keys(subject, got, q, k, v) if difference > 0 else ()
            raise Broken(f"{shown}: {first_difference(got, want)}", bugs or known("length.one"))


def _must_take_many_keys(subject: ExaminedFunction) -> None:
    "So do many keys: blocks fit together, and nothing is cut off."
    if not subject.right_at_near_lengths:
        raise NotChecked("shorter inputs give wrong numbers")
    for right, n in pairwise((subject.usual.n_k + 2, *subject.many)):
        _must_be_right_for(subject, right, n)


def _must_be_right_for(subject: ExaminedFunction, right: int, n: int) -> None:
    "Raise Broken if `n` keys give wrong numbers."
    q, k, v = draw_many(subject, n)
    shown = sizes_of(q=q, k=k, v=v)
    try:
        got = subject(q, k, v)
    except Exception as e:
        raise NotChecked(f"{shown}: it raises {first_line(e)}") from None
    want = subject.reference(q, k, v)
    if got.shape != want.shape:
        raise Broken(f"{shown}: it gives shape {tuple(got.shape)}", known("length.one"))
    if nearly(got, want, LONG_SUMS):
        return
    bugs = _bug_of_many_keys(subject, got, q, k, v) or known("blocks.length", wrong=n, right=right)
    raise Broken(f"{shown}: {first_difference(got, want, LONG_SUMS)}", bugs)


def _bug_of_many_keys(
    subject: ExaminedFunction, got: Tensor, q: Tensor, k: Tensor, v: Tensor
) -> tuple[Bug, ...]:
    "Name what goes wrong with many keys."
    got, n = got.detach(), k.shape[-2]
    if band := attempt(lambda: measured_band(subject, *draw_many(subject)[:2])):
        return (band,)
    case = Case(subject.work(q, k, v), got, LONG_SUMS)
    position = torch.arange(n).expand(q.shape[-2], n)
    for kept in range(1, n, 1 if n <= MANY else 32):
        if alike(subject.reference(q, k, v, position < kept), got, LONG_SUMS):
            return (known("blocks.cut_tail"),)
    other_v = v.clone()
    other_v[..., -1, :] += 100
    changed = (subject(q, k, other_v) - got).abs().amax((0, 1, -1)) > 1
    if subject.causal and changed[:-1].any():
        return (known("mask.length", query=int(changed.nonzero()[0])),)
    return explain([case], blocks(n), 1) or ()


def name_empty(
    context: Tensor,  # of a query that may attend to nothing, (b, h, d_v)
    v: Tensor,  # (b, h, n_k, d_v)
) -> Bug:
    "Say what a query that may attend to nothing gets in the place of zeros."
    if not context.isfinite().all():
        return known("mask.empty_nan")
    return known("mask.empty_mean" if nearly(context, v.mean(-2)) else "mask.empty_something")


def any_length(subject: ExaminedFunction) -> bool:
    "Return whether it was promised to take any number of tokens."
    return subject.contract.lengths is None


LENGTHS = (
    Property.of(_must_take_one, symptom_unless=("finite",)),
    Property.of(_must_take_lengths, symptom_unless=("finite",)),
    Property.of(_must_take_many_keys, applies=any_length),
)
