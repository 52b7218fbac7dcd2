"""Find out how to call somebody's layer, and where its output is in what it returns."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.nn as nn
from torch import Tensor

from attention_checks.conventions import (
    CAUSAL,
    MASK,
    MEMORY,
    OUTPUT,
    PLACE_ARGUMENT,
    packing,
)
from attention_checks.examine import Misused, NeedsMore
from attention_checks.signatures import parameters_of
from attention_checks.spec import Contract

Call = Callable[..., Any]  # of module and x; of cross-attention, and of the memory


def first_tensor(
    result: Any,  # what a layer returned: a tensor, a tuple, an object with an output
) -> tuple[Tensor, tuple[Any, ...]]:  # the output, and whatever came with it
    "Find the output in what a layer returns."
    if isinstance(result, (tuple, list)) and result:
        return result[0], tuple(result[1:])
    return next(
        (t for f in OUTPUT if isinstance(t := getattr(result, f, None), Tensor)), result
    ), ()


_LAID: dict[
    str, tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]
] = {  # rows (b, n, d), there and back
    "nbd": (lambda x: x.transpose(0, 1), lambda y: y.transpose(0, 1)),
    "bhwd": (lambda x: x.unflatten(1, _picture(x.shape[1])), lambda y: y.flatten(1, 2)),
    "bdhw": (lambda x: x.mT.unflatten(2, _picture(x.shape[1])), lambda y: y.flatten(2).mT),
}


def _picture(n: int) -> tuple[int, int]:
    "Height and width of a picture of n points, as square as can be."
    height = next(h for h in range(math.isqrt(n), 0, -1) if n % h == 0)
    return height, n // height


def carrying(
    call: Call,  # of rows (b, n, width), in float32 on the CPU
    contract: Contract,  # what was declared
) -> Call:  # takes and gives the same rows
    "Call it in the layout, on the device and in the type that were declared."
    to, back = _LAID.get(contract.layout or "", (lambda x: x, lambda y: y))
    if not (contract.layout or contract.device or contract.dtype):
        return call

    def carried(m: Any, *given: Tensor) -> Any:
        out, rest = first_tensor(call(m, *(contract.there(to(t)) for t in given)))
        fits = isinstance(out, Tensor) and out.ndim == to(given[0]).ndim
        return (back(contract.here(out)) if fits else out, *map(contract.here, rest))

    return carried


def how_to_call(
    module: Any,  # a layer or a function
    causal: bool,  # should it hide the future? Then it is told so, if it can be
) -> Call:  # of module and x
    "Find out how to call a layer: module(x), or as its parameters demand."
    parameters = parameters_of(module)
    if as_torch(module):
        return lambda m, x: _torch_mha(m, x, causal)
    if parameters is None:
        return lambda m, x: m(x)
    options = {
        n: True for n in CAUSAL if n in parameters and causal and parameters[n].default is False
    }
    needed = needed_by(module)
    if len(needed) > 4 or any(map(PLACE_ARGUMENT.search, needed[1:])):
        raise NeedsMore(
            f"module: forward needs {', '.join(needed)}; say how to call it: call=lambda module, x: module(x, …)"
        )
    if told_by(needed[1:]):
        return _end_to_end(needed[1:])
    return lambda m, x: m(x, *(None if MASK.search(n) else x for n in needed[1:]), **options)


def told_by(
    names: Iterable[str],  # of arguments
) -> list[str]:  # such as "document_ids" or "cu_seqlens"
    "Of some arguments, those that say where the texts of a row end."
    return [name for name in names if isinstance(packing(name, [1]), Tensor)]


def ends_of(
    names: Iterable[str],  # of arguments
    lengths: list[int],  # words of each text in the row
    x: Tensor,  # the row, (n, d), or with a batch of one
) -> dict[str, Any]:  # by name, on the device of x
    "Say where the texts of a row end, by those arguments that ask for it."
    told = {name: value for name in names if (value := packing(name, lengths)) is not None}
    flat = {
        name: value.squeeze(0) if x.ndim == 2 else value
        for name, value in told.items()
        if isinstance(value, Tensor)
    }
    return told | {name: value.to(x.device) for name, value in flat.items()}


def _end_to_end(names: list[str]) -> Call:
    "Call a layer that must be told where texts end, as kernels for packed texts must: sentences are laid into one row, (b * n, d)."

    def call(m: Any, x: Tensor) -> Any:
        row = x.flatten(0, 1)
        out, rest = first_tensor(
            m(row, **dict.fromkeys(names) | ends_of(names, [x.shape[1]] * len(x), row))
        )
        return (
            out.unflatten(0, x.shape[:2])
            if isinstance(out, Tensor) and len(out) == len(row)
            else out,
            *rest,
        )

    return call


def as_torch(
    module: Any,  # a layer or a function
) -> bool:
    "Whether it is called as PyTorch's layer is."
    given = parameters_of(module) or {}
    return isinstance(module, nn.MultiheadAttention) and (
        "attn_mask" in given or {"args", "kwargs"} <= given.keys()
    )


def needed_by(
    module: Any,  # a layer or a function
) -> list[str]:
    "The names of the arguments that it cannot do without."
    return [
        n
        for n, p in (parameters_of(module) or {}).items()
        if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]


def _torch_mha(m: nn.MultiheadAttention, x: Tensor, causal: bool) -> tuple[Tensor, Any]:
    "PyTorch's layer, whatever its layout."
    mask = (
        torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1)
        if causal
        else None
    )
    return _torch_cross(m, x, x, {"attn_mask": mask})


def how_to_call_both(
    module: Any,  # a layer or a function
    **options: Any,  # what it gets besides, such as a mask
) -> Call:  # of module, x and memory
    "Find out how to call cross-attention: module(x, memory), or as its parameters demand. All but x gets the memory, except masks."
    if as_torch(module):
        return lambda m, x, y: _torch_cross(m, x, y, options)
    parameters, told = parameters_of(module) or {}, for_memory(module)
    needed = [
        n
        for n, p in parameters.items()
        if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    ][1:]
    if (
        any(map(PLACE_ARGUMENT.search, needed))
        or parameters
        and not told
        and all(p.kind is not p.VAR_POSITIONAL for p in parameters.values())
    ):
        needs = (
            f"forward needs {', '.join(needed)}"
            if needed
            else "expected a forward of x and a memory"
        )
        raise NeedsMore(
            f"module: {needs}; say how to call it: call=lambda module, x, memory: module(x, …)"
        )
    if not told:
        return lambda m, x, y: m(x, y, **options)
    return lambda m, x, y: m(x, **dict.fromkeys(needed) | dict.fromkeys(told, y) | options)


def for_memory(
    module: Any,  # a layer or a function
) -> list[str]:
    "The names of the arguments that take the memory: what is needed beside x, or else what is called so, or may be left out."
    names = [
        (n, p.default)
        for n, p in list((parameters_of(module) or {}).items())[1:]
        if not MASK.search(n) and p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)
    ]
    needed, free = (
        [n for n, default in names if default is what] for what in (inspect.Parameter.empty, None)
    )
    told = [n for n in free if MEMORY.search(n)]
    pair = [n for n in told if n.rstrip("s") in ("k", "v", "key", "value")]
    return needed or (pair if told[:1] == pair[:1] else told[:1]) or free[:1]


def _torch_cross(
    m: nn.MultiheadAttention, x: Tensor, y: Tensor, options: dict[str, Any]
) -> tuple[Tensor, Any]:
    "PyTorch's layer with a memory, whatever its layout."
    q, kv = (x, y) if m.batch_first else (x.transpose(0, 1), y.transpose(0, 1))
    kv = q if y is x else kv
    out, weights = m(q, kv, kv, **options)
    return out if m.batch_first else out.transpose(0, 1), weights


def must_be_whole(
    module: Any,  # a layer or a function
) -> None:
    "Raise Misused if its weights are parts on several machines: a copy on one does not run."
    parts = (
        [n for n, p in module.named_parameters() if hasattr(p, "full_tensor")]
        if isinstance(module, nn.Module)
        else []
    )
    if parts:
        raise Misused(
            f"module: expected a layer with whole weights, as it is before it is sharded; got shards (DTensor) in {parts[0]}"
        )
