"""Guards of what an author declares: each takes the name of a choice and its value."""

import math
from collections.abc import Callable, Collection, Mapping
from typing import Any

import torch

from attention_checks.catalogue import CATALOGUE
from attention_checks.their_code.placement import dtype_of
from attention_checks.their_code.signatures import parameters_of
from attention_nb.tools.guards import expect_flags, expect_scale, expect_sizes

Expect = Callable[[str, Any], None]  # of a name and a value; raises TypeError or ValueError

_CORNERS = ("lower-right", "upper-left")


def expect_one_of(*choices: str) -> Expect:
    "Expect one of some strings."

    def expect(name: str, value: Any) -> None:
        if value not in choices:
            wanted = " or ".join(map(repr, choices))
            raise ValueError(f"{name}: expected {wanted}; got {value!r}")

    return expect


def expect_causal(name: str, value: Any) -> None:
    "Expect True, False, or the corner at which queries and keys are lined up."
    if not isinstance(value, (bool, str)) or value not in (True, False, *_CORNERS):
        corners = " or ".join(f'"{corner}"' for corner in _CORNERS)
        raise ValueError(f"{name}: expected True, False, {corners}; got {value!r}")


def expect_positive(name: str, value: Any) -> None:
    "Expect a number above 0."
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not number or not 0 < value < math.inf:
        raise ValueError(f"{name}: expected a number above 0; got {value!r}")


def expect_number(name: str, value: Any) -> None:
    "Expect a number other than 0."
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value:
        raise ValueError(f"{name}: expected a number other than 0; got {value!r}")


expect_size: Expect = lambda name, value: expect_sizes(**{name: value})  # a whole one, at least 1
expect_flag: Expect = lambda name, value: expect_flags(**{name: value})


def expect_lengths(name: str, value: Any) -> None:
    "Expect a size, or several."
    several = [value]
    if isinstance(value, Collection) and not isinstance(value, str):
        several = list(value)
    if not several:
        raise ValueError(f"{name}: expected at least one; got none")
    for n in several:
        expect_sizes(**{name: n})


def expect_codes(name: str, value: Any) -> None:
    "Expect codes of the catalogue, in a list or the like."
    if isinstance(value, str) or not isinstance(value, Collection):
        raise TypeError(f"{name}: expected a list of codes; got {value!r}")
    for code in value:
        if code not in CATALOGUE:
            raise ValueError(
                f"{name}: expected codes of the catalogue, such as 'scale.missing'; got {code!r}"
            )


def expect_device(name: str, value: Any) -> None:
    "Expect what torch.device takes."
    try:
        torch.device(value)
    except (RuntimeError, TypeError):
        raise ValueError(f"{name}: expected a device, such as 'cuda'; got {value!r}") from None


def expect_dtype(name: str, value: Any) -> None:
    "Expect a floating type, its name, or any."
    if value != "any" and not getattr(dtype_of(value), "is_floating_point", False):
        raise ValueError(
            f"{name}: expected a floating type, such as torch.bfloat16 or 'bfloat16', or 'any'; got"
            f" {value!r}"
        )


def expect_attribute(name: str, value: Any) -> None:
    "Expect the name of a module or a parameter of the layer, such as 'attn.q_norm'."
    if not isinstance(value, str) or not value:
        raise TypeError(f"{name}: expected the name of a part of the layer; got {value!r}")


def expect_function(name: str, value: Any) -> None:
    "Expect a function."
    if not callable(value):
        raise TypeError(f"{name}: expected a function; got {value!r}")


def _or_attribute(expect: Expect) -> Expect:
    "Expect the name of a part of the layer, or something else."

    def expect_either(name: str, value: Any) -> None:
        chosen = expect_attribute if isinstance(value, str) else expect
        chosen(name, value)

    return expect_either


def scales_by_parts(scale: Any) -> bool:
    "Return whether a scale is a part of the layer, or a function of more than the width of a head."
    asked = (parameters_of(scale) or {}).keys() if callable(scale) else ()
    return isinstance(scale, str) or any(name != "d" for name in asked)


def _expect_scale(name: str, value: Any) -> None:
    "Expect a number, or a function that gives one of the width of a head, or of more."
    if not scales_by_parts(value):
        expect_scale(value(16) if callable(value) else value)


def expect_attribute_or_function(name: str, value: Any) -> None:
    "Expect the name of a part of the layer, or a function of parts."
    if not callable(value):
        expect_attribute(name, value)


expect_scale_or_part = _or_attribute(_expect_scale)
expect_factor = _or_attribute(
    lambda name, value: None if callable(value) else expect_number(name, value)
)
expect_sinks = _or_attribute(lambda name, value: expect_size(name, value) if value else None)


def expect_mask_meaning(name: str, value: Any) -> None:
    "Expect what a mask means, whether there is one, or its parameter and its meaning."
    meanings = ("allowed", "blocked", "bias")
    if isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], str):
        value = value[1]
    if not isinstance(value, bool) and value not in meanings:
        raise ValueError(
            f"{name}: expected 'allowed', 'blocked', 'bias', True, False, or a parameter"
            f" and one of these, such as ('src_mask', 'blocked'); got {value!r}"
        )


def names_in(value: Any) -> list[Any]:
    "Return the names of parts where one stands, or several for parts of the tokens in turn."
    return [*value] if isinstance(value, (tuple, list)) else [value]


def expect_parts(*keys: str, or_none: bool = False, several: bool = False) -> Expect:
    "Expect a mapping from some of these keys to names of parts of the layer: one, several or None."

    def expect(name: str, value: Any) -> None:
        if not isinstance(value, Mapping) or not value:
            raise TypeError(f"{name}: expected a mapping such as {{'q': 'name'}}; got {value!r}")
        for key, part in value.items():
            if key not in keys:
                raise ValueError(f"{name}: expected keys among {', '.join(keys)}; got {key!r}")
            names = names_in(part) if several and part else [part]
            for each in names if part is not None or not or_none else []:
                expect_attribute(f"{name}[{key!r}]", each)

    return expect


def expect_returns(name: str, value: Any) -> None:
    "Expect an index, a name, or a function that picks the output."
    if isinstance(value, bool) or not (isinstance(value, (int, str)) or callable(value)):
        raise TypeError(f"{name}: expected an index, a name or a function; got {value!r}")
