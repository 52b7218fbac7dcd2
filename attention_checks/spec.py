"""The contract of attention, as its author declares it: one value that every check reads."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, fields
from typing import Any

import torch
from torch import Tensor

from attention_checks.catalogue import CATALOGUE
from attention_checks.pipeline import with_tolerance
from attention_nb.tools.guards import expect_flags, expect_scale, expect_sizes

Expect = Callable[[str, Any], None]  # name and value; raises TypeError or ValueError


def _one_of(*words: str) -> Expect:
    "One of some words."

    def expect(name: str, value: Any) -> None:
        if value not in words:
            raise ValueError(f"{name}: expected {' or '.join(map(repr, words))}; got {value!r}")

    return expect


def _scale(name: str, value: Any) -> None:
    "A number, or a function of the width of a head that gives one."
    expect_scale(value(16) if callable(value) else value)


def _lengths(name: str, value: Any) -> None:
    "A size, or several."
    several = value if isinstance(value, Collection) and not isinstance(value, str) else [value]
    if not several:
        raise ValueError(f"{name}: expected at least one; got none")
    for n in several:
        expect_sizes(**{name: n})


def _codes(name: str, value: Any) -> None:
    "Codes of the catalogue, in a list or the like."
    if isinstance(value, str) or not isinstance(value, Collection):
        raise TypeError(f"{name}: expected a list of codes; got {value!r}")
    if unknown := [code for code in value if code not in CATALOGUE]:
        raise ValueError(
            f"{name}: expected codes of the catalogue, such as 'scale.missing'; got {unknown[0]!r}"
        )


def _device(name: str, value: Any) -> None:
    "What torch.device takes."
    try:
        torch.device(value)
    except (RuntimeError, TypeError):
        raise ValueError(f"{name}: expected a device, such as 'cuda'; got {value!r}") from None


def _dtype(name: str, value: Any) -> None:
    "A floating type, or its name."
    if not getattr(dtype_of(value), "is_floating_point", False):
        raise ValueError(
            f"{name}: expected a floating type, such as torch.bfloat16 or 'bfloat16'; got {value!r}"
        )


def _flag(name: str, value: Any) -> None:
    "True or False."
    expect_flags(**{name: value})


def _far(name: str, value: Any) -> None:
    "How far apart numbers may be."
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < math.inf:
        raise ValueError(f"{name}: expected a number above 0; got {value!r}")


def dtype_of(
    said: Any,  # a type, or its name
) -> Any:  # the type; None if there is none of that name
    "Find a type of PyTorch by its name."
    return getattr(torch, said.removeprefix("torch."), None) if isinstance(said, str) else said


def _choice(default: Any, expect: Expect, says: str, **option: Any) -> Any:
    "A row of the table: what is expected, in words, and how the command line reads it."
    return field(default=default, metadata={"expect": expect, "says": says, "option": option})


@dataclass(frozen=True)
class Contract:
    "What a correct design may choose, as its author declares it."

    scale: float | Callable[[int], float] | None = _choice(
        None,
        _scale,
        "what scores are multiplied with (default: 1/√d_k; none: 1)",
        type=float,
        metavar="NUMBER",
    )
    lengths: int | Collection[int] | None = _choice(
        None,
        _lengths,
        "a number of words that it takes; may be repeated (default: any)",
        type=int,
        action="append",
        metavar="NUMBER",
    )
    group_order: str | None = _choice(
        None,
        _one_of("blocks", "turns"),
        "queries share keys as 0 0 1 1 (blocks, the default) or 0 1 0 1 (turns)",
        choices=("blocks", "turns"),
    )
    dropout: str | None = _choice(
        None,
        _one_of("weights", "scores", "none"),
        "where it drops: weights or rows (the default), scores, or nowhere",
        choices=("weights", "scores", "none"),
    )
    empty: str = _choice(
        "zero",
        _one_of("zero", "nan", "any"),
        "what a query gets that may attend to nothing (default: zero)",
        choices=("zero", "nan", "any"),
    )
    layout: str | None = _choice(
        None,
        _one_of("bnd", "nbd", "bhwd", "bdhw", "bhnd", "bnhd"),
        "the order of its axes: nbd, bhwd or bdhw for bnd; for a function bnhd for bhnd",
        metavar="AXES",
    )
    device: str | torch.device | None = _choice(
        None, _device, "where it runs (default: cpu)", metavar="NAME"
    )
    dtype: str | torch.dtype | None = _choice(
        None, _dtype, "the type it runs in (default: float32)", metavar="NAME"
    )
    tolerance: float | None = _choice(
        None, _far, "how far apart numbers may be (default: 0.0002)", type=float, metavar="NUMBER"
    )
    compiles: bool = _choice(
        False,
        _flag,
        "torch.compile and torch.export change nothing (default: not tried, for loading them takes seconds)",
        action="store_true",
    )
    skip: Collection[str] = _choice(
        (),
        _codes,
        "the code of a bug that is no failure here; may be repeated",
        action="append",
        metavar="CODE",
    )

    def __post_init__(self) -> None:
        for row in fields(self):
            if (value := getattr(self, row.name)) is not row.default:
                row.metadata["expect"](row.name, value)

    def scale_of(
        self,
        d: int,  # width of a head
    ) -> float:  # what scores should be multiplied with
        "Give the right scale."
        said = self.scale(d) if callable(self.scale) else self.scale
        return d**-0.5 if said is None else float(said)

    def takes(
        self,
        n: int,  # words
    ) -> bool:  # True if nothing was said of lengths
        "Say whether it promises to take so many words."
        return self.lengths is None or n in self.allowed

    @property
    def allowed(self) -> list[int]:  # sorted; none if any
        "List the lengths that it takes."
        said = (
            []
            if self.lengths is None
            else [self.lengths]
            if isinstance(self.lengths, int)
            else self.lengths
        )
        return sorted(said)

    def usual(
        self,
        n: int,  # words
    ) -> int:  # as many, or the next that it takes
        "Choose a number of words that it takes."
        return next((m for m in self.allowed if m >= n), self.allowed[-1]) if self.allowed else n

    @property
    def as_dtype(self) -> torch.dtype:  # float32 if nothing was said
        "Give the type that it runs in."
        found: torch.dtype = dtype_of(self.dtype) or torch.float32
        return found

    @property
    def as_device(self) -> torch.device:  # the CPU if nothing was said
        "Give the device that it runs on."
        return torch.device(self.device or "cpu")

    @property
    def apart(self) -> float:  # 1 for the usual tolerance
        "Give how many times as far apart as usually numbers may be."
        usual = {torch.float16: 1e-2, torch.bfloat16: 5e-2}.get(self.as_dtype, 2e-4)
        return (self.tolerance or usual) / 2e-4

    def there(
        self,
        t: Any,  # a tensor; anything else stays as it is
    ) -> Any:  # on its device, in its type if it is of real numbers
        "Bring a tensor to where the code runs."
        if not isinstance(t, Tensor):
            return t
        return t.to(
            self.as_device, self.as_dtype if self.dtype and t.is_floating_point() else t.dtype
        )

    def here(
        self,
        t: Any,  # a tensor; anything else stays as it is
    ) -> Any:  # on the CPU, in float32 if it is of the contract's type
        "Bring a tensor back."
        if not isinstance(t, Tensor):
            return t
        t = t.cpu() if t.device.type != "cpu" else t
        return t.float() if self.dtype and t.dtype == self.as_dtype else t

    def applied(self) -> AbstractContextManager[None]:
        "Let numbers inside count as equal if they are as near as was declared."
        return with_tolerance(self.apart)


def declared(
    **said: Any,  # name=value, as in `Contract`
) -> Contract:  # TypeError or ValueError for what no contract holds
    "Make a contract of what a caller says."
    names = [row.name for row in fields(Contract)]
    if unknown := [name for name in said if name not in names]:
        raise TypeError(
            f"{unknown[0]}: expected an argument of the check, or one of {', '.join(names)}; got {said[unknown[0]]!r}"
        )
    return Contract(**said)


def contract_options() -> dict[str, dict[str, Any]]:  # name → what argparse is told of it
    "List the choices as options of a command."
    return {
        row.name: {"help": row.metadata["says"], "default": None, **row.metadata["option"]}
        for row in fields(Contract)
    }


def choices_of(
    said: Any,  # with an attribute for each choice; None: not said
) -> dict[str, Any]:  # name → value, as `declared` takes them
    "List what was said to a command."
    return {
        name: value
        for name in contract_options()
        if (value := getattr(said, name, None)) is not None
    }
