"""What a check may be called with; everything else is refused in one line."""

import inspect
import re
from collections.abc import Mapping
from typing import Any

import torch.nn as nn

from attention_checks.explaining.reach import Reach
from attention_checks.outcomes import Misused
from attention_checks.spec import Contract
from attention_checks.their_code.signatures import POSITIONAL, name_of, parameters_of, required_by
from attention_nb.positions import RotaryEmbedding
from attention_nb.tools.guards import expect_groups, expect_sizes

__tracebackhide__ = True  # pytest shows the line of your test, not the way through this module

LARGEST_WINDOW = 128  # the sequences that are tried are short


def expect_callable(
    name: str,  # of the argument
    thing: Any,  # its value
    what: str,  # what is expected, in words
    n: int = 0,  # arguments that it takes; 0: any number
    more: int = 1,  # further arguments that it may require, such as a mask
) -> None:
    "Raise Misused unless something can be called, with so many arguments."
    if inspect.isclass(thing):
        cls = thing.__name__
        raise Misused(f"{name}: expected {what}, such as {cls}(…); got the class {cls} itself")
    if not callable(thing):
        raise Misused(f"{name}: expected {what}; got {type(thing).__name__}")
    # some modules have a __call__ of their own
    ordinary = isinstance(thing, nn.Module) and type(thing).__call__ is nn.Module.__call__
    body = thing.forward if ordinary else thing
    if ordinary and getattr(body, "__func__", None) is nn.Module.forward:
        cls = type(thing).__name__
        raise Misused(f"{name}: expected {what}; got {cls}, which has no forward")
    if inspect.isgeneratorfunction(body) or inspect.iscoroutinefunction(body):
        raise Misused(f"{name}: expected {what} that returns; {name_of(thing)} yields")
    if type(thing).__module__.startswith("numpy"):
        raise Misused(f"{name}: expected {what} over torch tensors; got {name_of(thing)} of NumPy")
    if n:
        _expect_parameters(name, thing, what, n, more)


def _expect_parameters(name: str, fn: Any, what: str, n: int, more: int) -> None:
    "Raise Misused if a function takes fewer than `n` arguments, or requires more beside a mask."
    if (known := parameters_of(fn)) is None:
        return
    parameters = list(known.values())
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return
    positional = [p for p in parameters if p.kind in POSITIONAL]
    if len(positional) < n:
        got = f"{name_of(fn)}, which takes {len(positional)} arguments, not {n}"
        raise Misused(f"{name}: expected {what}; got {got}")
    rest = [p for p in parameters if p not in positional[: n + more]]
    required = [p.name for p in rest if p.default is p.empty and p.kind is not p.VAR_KEYWORD]
    if needed := [each for each in required if not _is_mask_or_bias(each)]:
        repair = "fix it with partial"
        if not more and not any(_is_mask_or_bias(p.name) for p in parameters):
            repair += ", or say mask=… if it is one"
        got = f"{name_of(fn)}, which also needs {needed[0]}: {repair}"
        raise Misused(f"{name}: expected {what}; got {got}")


def _is_mask_or_bias(name: str) -> bool:
    "Return whether a parameter is called like a mask or a bias."
    return "mask" in name or "bias" in name


def expect_attention(
    fn: Any,  # an attention function
    contract: Contract,  # what was declared of it
    named_mask: bool = False,  # is its mask given by name alone?
) -> None:
    "Raise Misused for what no check of a function can be called with."
    name, taken = contract.mask_name, parameters_of(fn) or {}
    named = named_mask or name != "" or any(map(_is_mask_or_bias, taken))
    fourth = isinstance(contract.mask_meaning, str) and not named  # the mask, whatever its name
    what = "a function of q, k, v and mask" if fourth else "a function of q, k and v"
    expect_callable("fn", fn, what, 4 if fourth else 3, more=int(name != ""))
    if name and name not in taken:
        raise Misused(f"mask: expected a parameter of {name_of(fn)}; got {name!r}")
    _expect_reach(contract.reach)


def _expect_reach(reach: Reach) -> None:
    "Raise Misused for windows and the like that the sequences that are tried do not exceed."
    for name in ("window", "ahead", "documents", "sinks"):
        if (size := getattr(reach, name)) > LARGEST_WINDOW:
            raise Misused(
                f"{name}: expected at most {LARGEST_WINDOW}, for the sequences that are tried are"
                f" short; got {size}"
            )
    if reach.sinks and not reach.window:
        raise Misused(f"sinks: expected none without a window; got {reach.sinks}")


def expect_layer(module: Any, d_model: int, contract: Contract, memory: bool = False) -> None:
    "Raise Misused for what no check of a layer can be called with."
    expect_sizes(d_model=d_model)
    if contract.n_heads is not None and contract.n_kv_heads is not None:
        expect_groups(contract.n_heads, contract.n_kv_heads)
    expect_callable("module", module, "a layer")
    if contract.call is not None:
        arguments = "module, x and memory" if memory else "module and x"
        expect_callable("call", contract.call, f"a function of {arguments}", 2 + memory)
    if isinstance(module, nn.Module) and any(t.is_meta for t in module.parameters()):
        raise Misused(
            "module: expected parameters with numbers;"
            " got some on the device meta, which holds none"
        )


def expect_positions(fn: Any) -> int:  # 2: fn(x, positions); 3: fn(n_heads, n_q, n_k)
    "Return how many arguments it needs; Misused for a rotation that takes cosines and sines."
    needed = required_by(fn, POSITIONAL)
    tables = [name for name in needed if re.search("cos|sin|freq", name)]
    if tables:
        call = f"{name_of(fn)}({', '.join(needed)})"
        raise Misused(
            f"fn: expected a function of x and positions, or of three numbers; got {call}, which"
            f" takes tables: wrap it, as lambda x, positions: {name_of(fn)}(x, cos[positions], …)"
        )
    expect_callable("fn", fn, "a function of x and positions, or of three numbers", 2)
    return 3 if len(needed) == 3 else 2


def expect_rotated(
    d_head: int,  # width of the vectors
    d_rotary: int | None,  # how many of their numbers are rotated; None: as the scaling says
    base: float,  # of the angles
    scaling: Mapping[str, Any] | None,  # as `rope_scaling` in a config.json
) -> tuple[int, Mapping[str, Any] | None]:  # how many are rotated, and the scaling of those
    "Return what is rotated; Misused, or another error, for what is no rotation."
    usual = RotaryEmbedding(d_head, base, scaling).d_rotary
    width = usual if d_rotary is None else d_rotary
    allowed, wanted = range(2, d_head + 1, 2), f"an even number from 2 to {d_head}"
    if usual < d_head:
        allowed, wanted = range(usual, usual + 1), f"{usual}, as scaling= says"
    if width not in allowed:
        raise Misused(f"d_rotary: expected {wanted}; got {width!r}")
    rest = {k: v for k, v in (scaling or {}).items() if k != "partial_rotary_factor"}
    return width, rest or None
