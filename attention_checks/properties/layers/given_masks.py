"""Masks that a layer is given: what they hide moves nothing, and they mean what was declared."""

from collections.abc import Collection, Iterator
from functools import partial
from itertools import islice, product
from typing import Any, NamedTuple

import torch
from torch import Tensor

from attention_checks.catalogue import known, masks
from attention_checks.explaining.pipeline import Bug
from attention_checks.explaining.search import explain
from attention_checks.numbers.tensors import first_difference, nearly, rounding
from attention_checks.numbers.tolerance import tolerance_factor
from attention_checks.outcomes import Broken, NotChecked, attempt, first_line, runs
from attention_checks.properties.equivariance import first_leak
from attention_checks.properties.layers.edges import must_stand_sixteen_bits
from attention_checks.properties.state import must_leave_alone
from attention_checks.subjects.calling import call_under
from attention_checks.subjects.diagnosis import ignores_order, trace_of
from attention_checks.subjects.layer import BATCH, Layer
from attention_checks.subjects.masks import MEANINGS, SHAPES, TRANSPOSED, Form, other_meaning
from attention_checks.their_code.conventions import (
    MASK,
    MEMORY_MASKS,
    hides_padding,
    is_mask,
    is_plain_mask,
)
from attention_checks.their_code.signatures import parameters_of
from attention_checks.trace import Trace, trace_layer
from attention_checks.trace.readings import starts_of


def _declared_meaning(layer: Layer) -> str:
    "Return what its mask means, as declared; empty where it was not."
    meaning = layer.contract.mask_meaning
    return meaning if isinstance(meaning, str) else ""


class _MaskForm(NamedTuple):
    "A way of giving a mask."

    how: str  # its shape and meaning in words
    meaning: str  # one of MEANINGS
    form: Form  # its shape
    made: Form  # its entries

    def padding(self, layer: Layer) -> list[Tensor]:
        "Mark what it should keep of some sequences, boolean (b, n), by the padding that is tried."
        at, hidden = torch.arange(layer.n), torch.arange(BATCH)[:, None]
        several = [at < layer.n - hidden]
        if layer.causal:  # later tokens are hidden anyway; the second leaves each query a token
            several = [at >= hidden, (at == 0) | (at > hidden)]
        if self.how.startswith("(b"):
            return several
        return [kept[1:2].expand_as(kept) for kept in several]  # one for all

    def mask(self, layer: Layer, kept: Tensor) -> Tensor:
        "Make a mask, which hides the future too where it may."
        whole = kept[:, None, None].expand(-1, 1, layer.output_length(layer.n), -1)
        return self.made(self.form(whole.tril() if layer.causal else whole))


class _TriedMasks(NamedTuple):
    "What became of all the masks that were tried."

    taken: list[_MaskForm]  # those that it takes
    hiding: list[_MaskForm]  # those under which the hidden tokens have no influence
    open: list[_MaskForm]  # those under which the future has some, though it is to have none
    outputs: list[Tensor]  # of all masks that it takes
    error: str  # the first one; empty if there is none


def _ways(
    layer: Layer, name: str, shapes: dict[str, Form], meanings: Collection[str]
) -> Iterator[_MaskForm]:
    "Every shape and every meaning of a mask."
    for (shape, form), meaning in product(shapes.items(), meanings):
        if shape.startswith("(b") or not layer.of_memory or "padding" not in name:
            # no padding is the same for all sequences
            for says, made in MEANINGS[meaning].made.items():
                yield _MaskForm(f"{shape}, {says}", meaning, form, made)


def must_hide_padding(layer: Layer) -> str | None:
    "Raise Broken if a mask that it takes does not hide what it should."
    remarks, reasons, undecided = [], [], False
    for name in _masks_to_try(layer):
        try:
            remarks.append(_must_hide(layer, name))
        except NotChecked as e:
            reasons.append(str(e))
            undecided = undecided or e.undecided
    if undecided or not remarks:
        raise NotChecked("; ".join(reasons), undecided)
    return "; ".join(remarks + reasons)


def _masks_to_try(layer: Layer) -> list[str]:
    "Return the arguments that take its masks; raise NotChecked where none can be tried."
    names = _names_of_masks(layer)
    if layer.contract.mask is False:
        raise NotChecked("mask=False says that it takes none")
    if not names:
        raise NotChecked(_no_mask(layer))
    if layer.causal and not _declared_meaning(layer):
        raise NotChecked(
            f"later tokens are hidden anyway; for padding at the left, {_declare(names[0])}"
        )
    if layer.causal and first_leak(layer, [layer.draw()], (1.0,), layer(layer.draw())):
        raise NotChecked("without a mask, the future is seen already")
    return names


def _names_of_masks(layer: Layer) -> list[str]:
    "Return the argument that is declared, or those that are named as masks of what x is."
    if layer.contract.mask_name:
        return [layer.contract.mask_name]
    taken = [name for name in parameters_of(layer.module) or {} if is_mask(name)]
    of_memory = [name for name in taken if name in MEMORY_MASKS]
    own = [name for name in taken if name not in of_memory]
    return of_memory or own if layer.of_memory else own


def _no_mask(layer: Layer) -> str:
    "Return why no mask is tried: there is nothing to take one, or no name that tells."
    others = [name for name in list(parameters_of(layer.module) or {})[1:] if MASK.search(name)]
    if not others:
        return "it takes no mask, by the names of its arguments; if one is a mask, declare mask=…"
    return f"its argument {others[0]} was not tried: if it is a mask, {_declare(others[0])}"


def _declare(name: str) -> str:
    "Return how the meaning of a mask is declared."
    return f"declare mask=('{name}', …), as 'allowed', 'blocked' or 'bias'"


def _must_hide(layer: Layer, name: str) -> str:
    "Return what a mask means; Broken if it hides too little, NotChecked if its meaning is unclear."
    tried = _try_masks(layer, name, SHAPES)
    if not tried.hiding:
        raise _not_hiding(layer, name, tried)
    right = _as_alone(layer, name, tried.hiding)
    kept = right.padding(layer)[-1]
    given = {"x": layer.draw(), "mask": right.mask(layer, kept)}
    must_leave_alone(lambda x, mask: _under(layer, name, x, mask, copied=False), given)
    if _influences(layer, name, right, 300.0) == "hidden":
        shown = f"{name}, inputs 300 times as large: hidden tokens move the outputs of others"
        raise Broken(shown, known("mask.leaks_if_low"))
    _must_hide_in_sixteen_bits(layer, name, right.mask(layer, kept))
    return f"{name} was given as {right.how}"


def _try_masks(
    layer: Layer, name: str, shapes: dict[str, Form], meanings: Collection[str] = ()
) -> _TriedMasks:
    "Try every shape and meaning of a mask; of the meanings those that were declared, or all."
    declared, tried = _declared_meaning(layer), _TriedMasks([], [], [], [], "")
    shape = layer(layer.draw()).shape
    for way in _ways(layer, name, shapes, meanings or ([declared] if declared else MEANINGS)):
        try:
            mask = way.mask(layer, way.padding(layer)[0])
            tried.outputs.append(_under(layer, name, layer.draw(), mask))
            tried.taken.append(way)
            what = "hidden" if tried.outputs[-1].shape != shape else _influences(layer, name, way)
        except Exception as e:
            tried = tried._replace(error=tried.error or first_line(e, 80))
            continue
        if what != "hidden":
            (tried.open if what else tried.hiding).append(way)
    return tried


def _influences(layer: Layer, name: str, way: _MaskForm, size: float = 1.0) -> str:
    "Return what moves outputs under a mask that should not: the future, the hidden, or nothing."
    alike = layer.draw(n=1).expand(-1, layer.n, -1)  # all scores of a query are low, or all high
    x, padding = layer.draw() if size == 1 else size * alike, way.padding(layer)
    changed = 3 * size - 2 * x
    for kept in padding:
        run = partial(_under, layer, name, mask=way.mask(layer, kept))
        stays = torch.ones(layer.output_shape(x), dtype=torch.bool) if layer.of_memory else kept
        before = run(x=x)
        if kept is not padding[-1] and not before[stays].isfinite().all():
            continue  # through further layers, NaN of queries that may attend to nothing
        same = partial(nearly, atol=2 * rounding(before) / tolerance_factor())
        late = torch.cat([x[:, :-1], changed[:, -1:]], 1)
        earlier = stays & (torch.arange(stays.shape[1]) < stays.shape[1] - 1)
        if layer.causal and not same(run(x=late)[earlier], before[earlier]):
            return "future"
        if not same(run(x=torch.where(kept[..., None], x, changed))[stays], before[stays]):
            return "hidden"
        if size == 1 and same(run(x=changed)[stays], before[stays]):  # no token is seen
            return "hidden"
    return ""


def _must_hide_in_sixteen_bits(layer: Layer, name: str, mask: Tensor) -> None:
    "Raise Broken if 16 bits do without the mask, and not with it."
    if layer.contract.placement.dtype or not runs(lambda: must_stand_sixteen_bits(layer)):
        return
    if not _under(layer, name, layer.draw(), mask).isfinite().all():
        return
    try:
        must_stand_sixteen_bits(_masked(layer, name, mask))
    except NotChecked:
        return
    except Broken as e:
        raise Broken(f"{name}, {e.example}", e.bugs) from None


def _not_hiding(layer: Layer, name: str, tried: _TriedMasks) -> Broken | NotChecked:
    "Return what to raise if no mask that was tried hides anything."
    declared = _declared_meaning(layer)
    by_numbers = partial(_by_numbers, layer, name, tried)
    if found := by_numbers(masks.MASKS_AFTER_SOFTMAX) or _misread(layer, name, tried):
        return found
    if not tried.outputs:
        why = f"{name}: no mask that was tried will do; {tried.error}"
        return NotChecked(why, undecided=bool(declared))
    plain = layer(layer.draw())
    if all(nearly(got, plain) for got in tried.outputs):
        return _without_effect(name, declared)
    if declared and tried.open:
        return Broken(f"{name}: with it, the future is seen", known("mask.replaces_causal"))
    of_queries = masks.MASKS_ON_QUERIES if declared or hides_padding(name) else []
    found = by_numbers([*masks.MASK_APPLICATIONS, *masks.SHIFTED_MASKS, *of_queries])
    return found or _not_understood(name, declared)


def _without_effect(name: str, declared: str) -> Broken | NotChecked:
    "Return what to raise for a mask that makes no difference; it may be for another input."
    if not is_plain_mask(name) and not declared:
        return NotChecked(f"{name}: it makes no difference; is it for another input?")
    bug = known("mask.ignored")
    if not declared:
        bug = bug._replace(declare="mask=False")
    return Broken(f"{name}: whatever it hides, the output is the same", bug, symptom=True)


def _not_understood(name: str, declared: str) -> Broken | NotChecked:
    "Return what to raise for a mask that changes the output, and hides nothing."
    if declared:
        shown = f"{name}: in no shape that was tried it hides tokens"
        return Broken(shown, known("mask.padding"), symptom=True)
    why = f"{name}: it changes the output, and by no meaning that was tried it hides tokens"
    return NotChecked(f"{why}: {_declare(name)}, or mask=False if it is no mask", undecided=True)


def _by_numbers(layer: Layer, name: str, tried: _TriedMasks, bugs: list[Bug]) -> Broken | None:
    "Return what to raise if its own weights tell which of these bugs the use of a mask is."
    for way in tried.taken:
        kept = way.padding(layer)[-1]
        allowed = kept[:, None, None]
        if layer.causal:
            allowed = allowed.expand(-1, 1, layer.n, -1).tril()
        trace = attempt(lambda: _traced_under(layer, name, way.mask(layer, kept)))
        if trace is None or not trace.projections:
            return None
        starts = (s for h in trace.heads[:8] for s in starts_of(trace, h, allowed))
        for start in islice((start for start in starts if not start.bugs), 8):
            if found := explain([start.case], [bug for bug in bugs if bug.steps], 1):
                return Broken(f"{name}: given as {way.how}, it hides no token", found)
    return None


def _traced_under(layer: Layer, name: str, mask: Tensor) -> Trace:
    "Return what its projections do in a call under a mask."
    masked, x = _masked(layer, name, mask), layer.draw()
    if layer.other_input is None or not layer.of_memory:
        return trace_of(masked, x)
    queries = layer.other_input.expand(len(x), -1, -1)
    call = lambda module, q: masked.beside(q).output_of(module, x)
    return trace_layer(layer.module, queries, call, layer.contract, x)


def _misread(layer: Layer, name: str, tried: _TriedMasks) -> Broken | None:
    "Return what to raise for a mask as long as x (not the memory), transposed, or inverted."
    declared = _declared_meaning(layer)
    if not tried.outputs and layer.of_memory and hides_padding(name):
        of_queries = torch.zeros(BATCH, layer.output_length(layer.n), dtype=torch.bool)
        if runs(lambda: _under(layer, name, layer.draw(), of_queries)):
            return Broken(f"{name}: it must be as long as x", known("mask.axis"))
    shown = f"{name}: only as {{}} it hides tokens"
    if transposed := _try_masks(layer, name, TRANSPOSED).hiding:
        return Broken(shown.format(transposed[0].how), known("mask.transposed"))
    others = [meaning for meaning in MEANINGS if declared and meaning != declared]
    if others and (found := _try_masks(layer, name, SHAPES, others).hiding):
        bug = other_meaning(declared, found[0].meaning)
        return Broken(shown.format(found[0].how), bug)
    return None


def _under(layer: Layer, name: str, x: Tensor, mask: Tensor, copied: bool = True) -> Tensor:
    "Return the output under a mask."
    masked = _masked(layer, name, mask.clone() if copied else mask)
    with torch.no_grad():
        return masked.output_of(layer.module, x.clone())


def _masked(layer: Layer, name: str, mask: Tensor) -> Layer:
    "Return the layer, called with a mask."

    def call(m: Any, *inputs: Tensor) -> Any:
        with layer.contract.placement.inputs(mask) as (placed,):
            return call_under(layer.contract, m, {name: placed}, *inputs)

    return layer.calling(call)


def _as_alone(layer: Layer, name: str, ways: list[_MaskForm]) -> _MaskForm:
    "Return the first way in which each padded sequence comes out as it does without its padding."
    if layer.causal and not ignores_order(layer):
        return ways[0]  # without padding at the left, positions are others
    shown = ""
    for way in ways:
        if not (difference := _unlike_alone(layer, name, way)):
            return way
        shown = shown or f"{name} hides {difference}"
    if hides_padding(name) or _declared_meaning(layer):  # what it means leaves no doubt
        raise Broken(shown, known("mask.padding"), symptom=True)
    why = f"{name}: it hides tokens, and changes more than that"
    raise NotChecked(f"{why}: {_declare(name)}, or mask=False if it is no mask", undecided=True)


def _unlike_alone(layer: Layer, name: str, way: _MaskForm) -> str:
    "Return how a sequence with hidden padding differs from that without; empty if it does not."
    if layer.of_memory and layer.position_setting:
        return ""  # positions may count from the memory's end
    x, padding = layer.draw(), way.padding(layer)[-1]
    got = _under(layer, name, x, way.mask(layer, padding))
    for i, kept in enumerate(padding):
        n = int(kept.sum())
        if not layer.contract.takes(n):
            continue
        own, alone = got[i : i + 1], layer(x[i : i + 1, kept]).detach()
        own = own if layer.of_memory else own[:, kept]
        if not nearly(own, alone):
            shown = first_difference(own, alone)
            return f"{layer.n - n} of {layer.n} tokens: {shown}, as without them"
    return ""
