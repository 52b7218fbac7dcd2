"""The second and third phase: observe one call of a layer, and diagnose it by its own weights."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from attention_checks.catalogue import known
from attention_checks.explaining.pipeline import Bug
from attention_checks.numbers.tensors import nearly
from attention_checks.outcomes import (
    Broken,
    Misused,
    NotChecked,
    attempt,
    first_line,
    raise_own_error,
)
from attention_checks.subjects.layer import BATCH, Diagnosis, Layer, Observed, no_module
from attention_checks.trace import Trace, trace_layer
from attention_checks.trace.comparing import compare_with_own_weights, name_other_scale, told_late
from attention_checks.trace.guesses import named_choices
from attention_checks.trace.rotating import agrees_with_rotation, name_rotation_bug

Choices = dict[str, Any]  # keyword → value
Bugs = tuple[Bug, ...] | None  # what is wrong; () for nothing, None if nothing known fits


def examined(layer: Layer) -> Layer:
    "Return the layer with what one call of it showed, and what its own weights tell."
    return diagnose(observe(layer))


def observe(layer: Layer) -> Layer:
    "Return the layer with the trace of one call, and whether the order of tokens matters to it."
    free = attempt(lambda: _knows_no_order(layer))
    try:
        trace = _traced_once(layer)
    except Exception as e:
        return replace(layer, observed=Observed(why=_why_no_reference(e), order_free=free))
    return replace(layer, observed=Observed(trace, order_free=free))


def diagnose(layer: Layer) -> Layer:
    "Return the layer with what its own weights tell: as declared, else as names suggest."
    plain = _agreement(layer)
    if layer.observed.trace is None or plain.bugs == ():
        return replace(layer, diagnosis=plain)
    guess: Layer | None = None
    found = plain
    for choices in _suggested(layer):
        guess = observe(replace(layer, contract=replace(layer.contract, **choices)))
        found = _agreement(guess)
        if found.bugs == ():
            keywords = ", ".join(f"{name}={value!r}" for name, value in choices.items())
            remark = f"not declared, but as its names say: {keywords}"
            return replace(guess, diagnosis=replace(found, remarks=(remark,)))
    named = _with_bugs_named(layer, plain)
    if named.bugs is None and guess is not None:
        beside = _with_bugs_named(guess, found)
        if bugs := fewest_bugs(guess, beside.bugs):
            return replace(layer, observed=guess.observed, diagnosis=replace(beside, bugs=bugs))
    return replace(layer, diagnosis=named)


def trace_of(layer: Layer, x: Tensor, n_k: int = 0) -> Trace:
    "Return what its projections do in a call, with a memory of n_k tokens if it has one."
    if layer.other_input is None:
        return trace_layer(layer.module, x, layer.output_of, layer.contract)
    memory = layer.over_memory.draw(len(x), n_k or layer.n_k, seed=8)
    return trace_layer(layer.module, x, layer.beside(memory).output_of, layer.contract, memory)


def as_declared(layer: Layer, x: Tensor) -> bool:
    "Return whether the output is what a declared attend= or bias= gives: it tells what is seen."
    contract = layer.contract
    if contract.attend is None and contract.bias is None:
        return False
    agrees = lambda: compare_with_own_weights(trace_of(layer, x), contract.window, most=0) == ()
    return attempt(agrees) is True


def _why_no_reference(e: Exception) -> Exception:
    "Return why there is no reference: it is not the fault of the layer."
    if isinstance(e, (Broken, NotChecked, Misused)):
        return e
    raise_own_error(e)
    return NotChecked(f"no reference could be built: {first_line(e, 60)}")


def _knows_no_order(layer: Layer) -> bool:
    "Say whether another order of the tokens only gives the same outputs in that order."
    x, order = layer.draw(), layer.reordering()
    want, got = layer(x), layer(x[:, order])
    return nearly(got[:, -1], want[:, -1]) if layer.causal else nearly(got, want[:, order])


def _traced_once(layer: Layer) -> Trace:
    "Return what its projections did in the usual call."
    if why := no_module(layer):
        raise NotChecked(why)
    if isinstance(layer.module, torch.jit.ScriptModule):
        raise NotChecked("no reference could be built: PyTorch has no hooks for a ScriptModule")
    x = layer.draw(layer.contract.batch(BATCH), _traced_tokens(layer))
    cap = layer.contract.softcap or 0.0  # scores should be about as large
    return trace_of(layer, x * max(1.0, 1.5 * cap) ** 0.5)


def _traced_tokens(layer: Layer) -> int:
    "Return a number of tokens, not that of heads or features of one: √n is told from √d_head."
    h = layer.n_heads or 1
    for n in (layer.n, layer.n - 1, layer.n + 1):
        if n not in (h, layer.d_model // h) and layer.fits(BATCH, n):
            return n
    return layer.n


def _suggested(layer: Layer) -> Iterator[Choices]:
    "Yield what the names of parts and settings suggest; a bug may be named beside the last."
    if layer.contract.attend:  # which says all
        return
    if choices := named_choices(layer.module, layer.contract):
        if "norms" in choices and layer.contract.scale is None:  # its norms scale
            yield {**choices, "scale": 1.0}
        yield choices


def fewest_bugs(layer: Layer, bugs: Bugs) -> Bugs:
    "Return the bugs found; one scale that no bug gives comes before two bugs, or none known."
    trace = layer.observed.trace
    if trace is None or bugs is not None and len(bugs) < 2:
        return bugs
    return name_other_scale(trace, layer.short_window) or bugs


def _agreement(layer: Layer) -> Diagnosis:
    "Return whether its numbers are those of its own weights, rotated or not, in any window."
    return _diagnosed(layer, lambda trace, bugs: _bugs_if_rotated(layer, trace, bugs), most=0)


def _with_bugs_named(layer: Layer, plain: Diagnosis) -> Diagnosis:
    "Return what is wrong with numbers that do not agree, which was found before."

    def in_short(trace: Trace, bugs: Bugs) -> Bugs:
        if plain.at_usual_length is not None:
            return plain.at_usual_length
        if bugs or not _may_rotate(layer):
            return bugs
        return name_rotation_bug(trace, layer.short_window)

    return _diagnosed(layer, in_short, most=2)


def _diagnosed(layer: Layer, in_short: Callable[[Trace, Bugs], Bugs], most: int) -> Diagnosis:
    """Return what its own weights tell, when at most so many bugs are named beside a wrong scale;
    `in_short` says what is wrong in the usual call, if that is not right without a rotation.
    """
    trace = layer.observed.trace
    if trace is None or not trace.projections:
        return Diagnosis(why=layer.observed.why)
    try:
        unrotated = _with_window(layer, trace, most)
        bugs = short = () if unrotated == () else in_short(trace, unrotated)
        return Diagnosis(told_late(trace, bugs) if bugs else bugs, unrotated, short)
    except Exception as e:
        return Diagnosis(why=_why_no_reference(e))


def _with_window(layer: Layer, trace: Trace, most: int) -> Bugs:
    "Return what its own weights tell of the usual call, in which a window may hide something."
    if not layer.short_window:
        return compare_with_own_weights(trace, most=most)
    sized = _bugs_of_window(layer, lambda size: compare_with_own_weights(trace, size, 0) == ())
    if sized is not None or not most:
        return sized
    bugs = compare_with_own_weights(trace, layer.short_window)
    corners = ("mask.lower_right", "mask.upper_left")  # no window: the setting is for another thing
    if bugs and not any(bug.code in corners for bug in bugs):
        return bugs
    return compare_with_own_weights(trace)


def _bugs_of_window(layer: Layer, agrees: Callable[[int | None], bool]) -> Bugs:
    "Return what is wrong with its window, if some size agrees, or none at all; else None."
    if not layer.window or not layer.short_window:
        return () if agrees(None) else None
    name, size = layer.window
    if layer.contract.ahead:  # how far it sees to both sides is measured
        return () if agrees(size) else None
    for seen in (size, size + 1, size - 1):
        if seen and agrees(seen):
            # some settings count only the tokens before
            meant = layer.positions and not layer.contract.window
            if seen == size or meant:
                return ()
            return (known("window.size", name=name, size=size, seen=seen),)
    if not agrees(None):
        sizes = range(1, 2 * size + 1) if layer.contract.window else ()
        found = next((n for n in sizes if agrees(n)), 0)
        return (known("window.size", name=name, size=size, seen=found),) if found else None
    # no window: a setting that was not declared is for another thing
    return (known("window.ignored"),) if layer.contract.window else ()


def ignores_order(layer: Layer) -> bool:
    "Return whether the order of tokens was found to have no influence, and none was declared."
    return bool(layer.observed.order_free) and not layer.positions


def _may_rotate(layer: Layer) -> bool:
    "Say whether a rotation by positions is tried: it may be there, and none was declared."
    contract, trace = layer.contract, layer.observed.trace
    declared = layer.positions is False or contract.rotate is not None
    seen = trace is not None and bool(trace.rotations)
    elsewhere = not seen and contract.orders_tokens
    return not declared and not elsewhere and not ignores_order(layer)


def _bugs_if_rotated(layer: Layer, trace: Trace, bugs: Bugs) -> Bugs:
    "Return what is wrong in the usual call if it rotates; else what was found before."
    if not _may_rotate(layer):
        return bugs
    for sign in (1, -1):
        sized = _bugs_of_window(layer, lambda size: agrees_with_rotation(trace, (sign,), size))
        if sized is not None:
            return (known("rotation.backwards"),) if sign < 0 and layer.positions else sized
    return bugs
