"""The second and third phase: observe one call of a layer, and diagnose it by its own weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from attention_checks.catalogue import known
from attention_checks.outcomes import (
    Broken,
    Misused,
    NotChecked,
    attempt,
    first_line,
    raise_own_error,
)
from attention_checks.pipeline import Bug
from attention_checks.spec import OF_ANY_FUNCTION, Contract
from attention_checks.subjects.layer import BATCH, Diagnosis, Layer, Observed, no_module
from attention_checks.tensors import nearly
from attention_checks.trace import Trace, trace_layer
from attention_checks.trace.comparing import compare_with_own_weights, name_other_scale
from attention_checks.trace.guesses import (
    Choices,
    as_keywords,
    joined_choices,
    named_choices,
    owners_of,
    possible_choices,
)
from attention_checks.trace.rotating import agrees_with_rotation, name_rotation_bug

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
    "Return the layer with what its own weights tell: as declared, else with what it suggests."
    plain = _agreement(layer)
    if layer.observed.trace is None or plain.bugs == ():
        return replace(layer, diagnosis=plain)
    to_name = None
    for guess in _guesses(layer):
        found = _agreement(guess.layer, usual=guess.usual)
        if found.bugs == ():
            return replace(guess.layer, diagnosis=replace(found, remarks=(guess.remark,)))
        to_name = (guess.layer, found) if guess.names_bugs else to_name
    named = _with_bugs_named(layer, plain)
    if named.bugs is None and to_name is not None:
        guessed, found = to_name
        again = _with_bugs_named(guessed, found)
        if bugs := fewest_bugs(guessed, again.bugs):
            return replace(guessed, diagnosis=replace(again, bugs=bugs, guessed=True))
    return replace(layer, diagnosis=named)


def trace_of(layer: Layer, x: Tensor, n_k: int = 0) -> Trace:
    "Return what its projections do in a call, with a memory of n_k tokens if it has one."
    if layer.other_input is None:
        return trace_layer(layer.module, x, layer.output_of, layer.contract)
    memory = layer.over_memory.draw(len(x), n_k or layer.n_k, seed=8)
    return trace_layer(layer.module, x, layer.beside(memory).output_of, layer.contract, memory)


def as_attend_says(layer: Layer, x: Tensor) -> bool:
    "Return whether the output is what a declared attend= gives, which says what a token sees."
    if layer.contract.attend is None:
        return False
    agrees = lambda: compare_with_own_weights(trace_of(layer, x), most=0) == ()
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


class _Guess(NamedTuple):
    "What was not declared, as if it were."

    remark: str  # what is said of it
    layer: Layer  # as if it were declared
    names_bugs: bool = False  # may a bug be named beside it?
    usual: bool = True  # are usual rotations tried beside those that were seen?


def _guesses(layer: Layer) -> Iterator[_Guess]:
    "Return what the layer suggests: names of settings and of parts, and shapes of other parts."
    choices = {} if layer.contract.attend else named_choices(layer.module, layer.contract)
    for as_it_is in _choices_without_projection(layer):
        yield _Guess(_remark_on(as_it_is), _as_if_declared(layer, **as_it_is), names_bugs=True)
    parts = _as_if_declared(layer, **choices) if choices else layer
    if choices:
        yield _Guess(_remark_on(choices), parts, names_bugs=True)
        if "norms" in choices and layer.contract.scale is None:
            remark = f"{_remark_on(choices)}; its norms scale: scores are not scaled again"
            yield _Guess(remark, _as_if_declared(parts, scale=1.0))
    for more, alone in _choices_of_parts(layer, choices):
        yield _Guess(
            _remark_on(more), _as_if_declared(layer, **more), names_bugs=alone, usual=alone
        )


def _choices_without_projection(layer: Layer) -> Iterator[Choices]:
    "Yield what declares that queries, or all three, go in as they are, if no projection was found."
    trace = layer.observed.trace
    if trace is None:
        return
    found = trace.projections.keys()
    if not found and set(trace.names) <= {"out"}:
        yield {"projects": False}
    keys_alone = found in ({"kv"}, {"k", "v"})
    if keys_alone and not trace.unrecognised:
        yield {"roles": {**(layer.contract.roles or {}), "q": None}}


def _choices_of_parts(
    layer: Layer, choices: dict[str, Any]
) -> Iterator[tuple[dict[str, Any], bool]]:
    "Return what its other parts may be declared as, beside what names suggest; is it the only way?"
    trace, contract = layer.observed.trace, layer.contract
    if trace is None or contract.attend:  # which says all
        return
    named = Contract(**choices).declared_parts
    h, width = layer.n_heads or 0, trace.context_width
    projections = [name for names in trace.names.values() for name in names]
    owners = [name for name in owners_of(trace.unrecognised, projections) if name not in named]
    found: list[list[Choices]] = []
    for name in owners:
        possible = possible_choices(layer.module, name, h, width)
        found.append([_but_declared(contract, each) for each in possible])
    only_way = all(len(each) == 1 for each in found)
    for i, more in enumerate(joined_choices([[choices], *found] if choices else found)):
        if more.keys() - choices.keys():
            yield more, only_way and i == 0 and not any(name in more for name in OF_ANY_FUNCTION)


def _but_declared(contract: Contract, choices: dict[str, Any]) -> dict[str, Any]:
    "Choices but for those that were declared."
    return {key: value for key, value in choices.items() if not getattr(contract, key)}


def fewest_bugs(
    layer: Layer,  # as it was observed
    bugs: Bugs,  # that were found
) -> Bugs:
    "Return the bugs found; one scale that no bug gives comes before two bugs, or none known."
    trace = layer.observed.trace
    if trace is None or bugs is not None and len(bugs) < 2:
        return bugs
    return name_other_scale(trace, layer.short_window) or bugs


def _remark_on(choices: dict[str, Any]) -> str:
    "Say what was found out, as it may be declared."
    return f"not declared, and found by trying: {as_keywords(choices)}"


def _as_if_declared(layer: Layer, **choices: Any) -> Layer:
    "Return the layer observed again, with choices as if they were declared."
    return observe(replace(layer, contract=replace(layer.contract, **choices)))


def _agreement(layer: Layer, usual: bool = True) -> Diagnosis:
    "Return whether its numbers are those of its own weights, rotated or not, in any window."
    return _diagnosed(
        layer, lambda trace, bugs: _bugs_if_rotated(layer, trace, bugs, usual), most=0
    )


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
        return Diagnosis(bugs, unrotated, short)
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


def _bugs_if_rotated(layer: Layer, trace: Trace, bugs: Bugs, usual: bool) -> Bugs:
    "Return what is wrong in the usual call if it rotates; else what was found before."
    seen = usual or trace.rotations  # else no usual rotation is tried
    if not seen or not _may_rotate(layer):
        return bugs
    for sign in (1, -1):
        sized = _bugs_of_window(layer, lambda size: agrees_with_rotation(trace, (sign,), size))
        if sized is not None:
            return (known("rotation.backwards"),) if sign < 0 and layer.positions else sized
    return bugs
