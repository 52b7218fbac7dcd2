"""Two texts in one row must come out as each does alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from attention_checks.catalogue import known
from attention_checks.examine import Broken, NotChecked, first_line
from attention_checks.numbers import first_difference, nearly
from attention_checks.properties import Relation
from attention_checks.signatures import parameters_of
from attention_checks.subjects.calling import ends_of, first_tensor, needed_by, told_by
from attention_checks.subjects.layer import Layer, draw, no_module


def _apart(a: Layer) -> str:
    "Raise Broken if texts that share a row do not come out as each does alone; else, how they were given."
    names, cut = _told_by(a), a.n // 2 + 1
    if a.said_call:
        raise NotChecked("call= says how it is called")
    if len(a.lengths(cut, a.n - cut, a.n)) < 3:
        raise NotChecked(f"lengths= allows no texts of {cut} and {a.n - cut} words")
    x, error = draw(a)[:1], ""
    for flat in (True,) if told_by(needed_by(a.module)) else (False, True):
        try:
            got = _packed(a, x, [cut, a.n - cut], flat)
        except Exception as e:
            error = error or first_line(e, 80)
            continue
        alone = torch.cat(
            [_packed(a, x[:, :cut], [cut], flat), _packed(a, x[:, cut:], [a.n - cut], flat)], 1
        )
        if got.shape == alone.shape and nearly(got, alone):
            return f"{names[0]} was given with rows {'(n, d)' if flat else '(1, n, d)'}"
        raise Broken(
            f"texts of {cut} and {a.n - cut} words: {first_difference(got, alone)}, as each alone",
            known(f"documents.{_why(a, x, got, cut, flat)}", name=names[0]),
        )
    raise NotChecked(f"{names[0]}: no way that was tried will do; {error}")


def _why(a: Layer, x: Tensor, got: Tensor, cut: int, flat: bool) -> str:
    "What is wrong with two texts: what tells them apart is ignored, one moves the other, or neither."
    lengths = [cut, a.n - cut]
    if nearly(got, _packed(a, x, [a.n], flat)):
        return "ignored"
    first, second = (
        torch.cat(pair, 1)
        for pair in ((3 - 2 * x[:, :cut], x[:, cut:]), (x[:, :cut], 3 - 2 * x[:, cut:]))
    )
    still = nearly(_packed(a, first, lengths, flat)[:, cut:], got[:, cut:]) and nearly(
        _packed(a, second, lengths, flat)[:, :cut], got[:, :cut]
    )
    return "moved" if still else "leak"


def _packed(a: Layer, x: Tensor, lengths: list[int], flat: bool) -> Tensor:
    "The output of texts of these lengths in one row, (1, n, d); if `flat`, the layer gets the row without a batch."

    def call(m: Any, x: Tensor) -> Tensor:
        row = x[0] if flat else x
        out: Tensor = first_tensor(m(row, **ends_of(parameters_of(m) or {}, lengths, row)))[0]
        return out[None] if flat else out

    with torch.no_grad():
        return replace(a, said_call=call).first(a.module, x.clone())


def _told_by(a: Layer) -> list[str]:
    "Its arguments that say where texts end."
    return told_by(parameters_of(a.given) or {})


PACKED = (
    Relation(
        "texts that share a row come out as each does alone",
        _apart,
        no_module,
        asked=lambda a: bool(_told_by(a)),
    ),
)
