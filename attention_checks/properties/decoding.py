"""What a cache does wrong, by trying: each known bug is made from a layer's own projections."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from itertools import chain
from typing import Any, NamedTuple

import torch
import torch.nn as nn
from torch import Tensor

from attention_checks.catalogue import known
from attention_checks.catalogue.kv_cache import cache_bugs
from attention_checks.catalogue.self_attention import SCALE
from attention_checks.catalogue.softmax import WEIGHTS
from attention_checks.numbers import nearly
from attention_checks.pipeline import Bug, unchanged
from attention_checks.search import explain
from attention_checks.spec import Contract
from attention_checks.trace import Trace, trace_layer
from attention_checks.trace.comparing import agreeing_starts
from attention_checks.trace.guesses import named_choices
from attention_checks.trace.readings import Start
from attention_checks.trace.rotating import agreeing_rotated
from attention_checks.trace.watching import as_rows, watch

_Run = Callable[[], Tensor]


def module_in(
    f: Any,  # a module, or a function that calls one
) -> nn.Module | None:  # None: nothing tells which
    "Find the module behind a function: that which it is bound to, or refers to."
    if isinstance(f, nn.Module) or not inspect.isfunction(f):
        owner = getattr(f, "__self__", f)
        return owner if isinstance(owner, nn.Module) else None
    names = inspect.getclosurevars(f)
    held = [*names.nonlocals.values(), *names.globals.values()]
    return next((each for each in held if isinstance(each, nn.Module)), None)


class Tried(NamedTuple):
    "What came of trying."

    bugs: tuple[Bug, ...] = ()  # none if no known bug gives the numbers
    positions: bool = True  # may positions be wrong?


def tried_bugs(
    module: nn.Module,  # the layer
    x: Tensor,  # sequences, (b, n, d_model)
    full: _Run,  # one causal pass over them
    step: _Run,  # the same, one token at a time with a cache
    contract: Contract,
) -> Tried:
    "Name what a cache does wrong: the full pass is read, and each bug is made from its vectors."
    contract = replace(contract, causal=True, **named_choices(module, contract))
    trace = trace_layer(module, x, lambda _, __: full(), contract)
    start = _reading(trace, contract.window)
    if _given_otherwise(module, trace, full, step):
        return Tried((known("cache.positions"),))
    if start is None:
        return Tried()
    case = start.case._replace(seen=_seen(module, trace, start, step))
    rotate = case.stages["rotate"]
    found = explain([case], cache_bugs(rotate, start.more), 1)
    if not found and (other := explain([case], [*SCALE, *WEIGHTS], 1)):
        found = (known("cache.step"), *other)
    return Tried(found or (), rotate is not unchanged)


def _given_otherwise(module: nn.Module, trace: Trace, full: _Run, step: _Run) -> bool:
    "Return whether projections get other hidden states in steps: positions were added to those."
    names = [name for role, some in trace.names.items() if role != "out" for name in some]
    parts = {name: m for name, m in module.named_modules() if name in names}
    once, steps = (watch(parts, run)[1] for run in (full, step))
    for name in once.keys() & steps.keys():
        whole, rows = once[name][0], torch.cat(steps[name], -2)
        if whole.shape == rows.shape and not nearly(rows, whole):
            return True
    return False


def _reading(trace: Trace, window: int | None) -> Start | None:
    "Return the first reading of a full pass that gives its numbers, rotated or not."
    starts = agreeing_starts(trace, trace.heads, trace.past(window))
    rotated = agreeing_rotated(trace, window=window)
    return next(chain(starts, rotated), None)


def _seen(module: nn.Module, trace: Trace, start: Start, step: _Run) -> Tensor:
    "Return what single steps gave where the reading ends: at the output projection, or behind it."
    name = next(reversed(trace.names.get("out", [])), "")
    ends = {name: module.get_submodule(name)} if trace.context is not None else {}
    out, ins, _ = watch(ends, step)
    if not ends:
        return out - (trace.out - start.case.seen)
    read = trace.x if len(ins[name]) == 1 else trace.x[:, :1]  # steps may be joined
    rows = [as_rows(t, read) for t in ins[name]]
    return torch.cat([row for row in rows if row is not None], 1)
