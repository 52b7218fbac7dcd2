"""Masks hide the future and padding, and every other token counts, in long sequences too."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from functools import partial
from itertools import islice, product
from typing import Any, NamedTuple

import torch
from torch import Tensor

from attention_checks.catalogue import known
from attention_checks.catalogue.local_attention import Reach, name_band
from attention_checks.catalogue.masks import AFTER, APPLIED
from attention_checks.conventions import MASK, MEMORY_MASKS, hides_padding, is_mask, must_matter
from attention_checks.diagnosis import ignores_order, trace_of
from attention_checks.examine import Broken, NotChecked, attempt, first_line
from attention_checks.numbers import first_difference, nearly
from attention_checks.pipeline import Bug
from attention_checks.properties import Relation
from attention_checks.properties.equivariance import first_leak
from attention_checks.properties.layers.running import must_be_vectors, must_stand_sixteen_bits
from attention_checks.properties.state import must_leave_alone
from attention_checks.search import explain
from attention_checks.signatures import parameters_of
from attention_checks.subjects.calling import (
    call_torch_mha,
    called_with,
    causal_options,
    how_to_call_both,
    inputs_for,
    is_torch_mha,
    needed_by,
)
from attention_checks.subjects.copies import softened_copy
from attention_checks.subjects.layer import SEQUENCES, Layer, no_module, normalises_batch
from attention_checks.subjects.masks import MEANINGS, SHAPES, TRANSPOSED, Form, other_meaning
from attention_checks.trace import Trace, trace_layer
from attention_checks.trace.comparing import compare_with_own_weights
from attention_checks.trace.readings import starts_of


def _no_future(layer: Layer) -> None:
    "A causal layer hides the future in every mode."
    # large scores find a number that stands for minus infinity, and is too small
    for training, grad, size in product((False, True), (False, True), (1.0, 300.0)):
        _must_hide_future(layer, layer.draw() * size, training, grad)


def _rounding(y: Tensor) -> float:
    "Return how far an output may move by rounding alone."
    return 1e-4 * max(1.0, y.abs().nan_to_num().max().item())


def _must_hide_future(layer: Layer, x: Tensor, training: bool, grad: bool) -> None:
    "Raise Broken if changing a token moves an earlier output."
    mode = "training" if training else "evaluation"
    if not grad:
        mode += ", without gradients"
    usual = x.abs().max() < 10
    before = layer.in_mode(x, training, grad)
    if usual:
        must_be_vectors(layer, x, before, f", {mode}")
    atol = _rounding(before)
    run = lambda x: layer.in_mode(x, training, grad)
    if leak := first_leak(run, [x], (1.0, 100.0), before, atol):
        j, other = leak.token, leak.inputs[0]
        shown = f"{mode}: changing token {j} moves output {leak.output}"
        leaks = "mask.leaks" if leak.factor == 1 and usual else "mask.leaks_if_large"
        raise Broken(shown, known(_why_leaks(layer, x, other, j, training, atol) or leaks))


def _why_leaks(layer: Layer, x: Tensor, other: Tensor, j: int, training: bool, atol: float) -> str:
    "Return the code if it leaks in one mode and not in the other; evaluation was tried first."

    def moved(seed: int) -> Tensor:
        "Return which earlier outputs move in training, with the same chance."
        runs = (layer.in_mode(t, True, False, seed) for t in (x, other))
        return (next(runs) - next(runs))[:, :j].abs().amax(-1) > atol

    if not training:
        return "mode.mask_in_training" if layer.parts and not moved(0).any() else ""
    if normalises_batch(layer):
        return "mode.batch_norm"
    by_chance = any(not moved(0).equal(moved(seed)) for seed in range(1, 9))
    return "dropout.scores" if by_chance else "mode.mask_in_evaluation"


def _reaches(layer: Layer) -> str | None:
    "Every token has an influence on each output that may attend to it."
    n, window = layer.n, layer.contract.window
    if layer.contract.ahead:
        _must_be_band(layer)
        return None
    beyond = bool(window and window >= n)
    reach = measured_reach(layer)
    if beyond and layer.long_n:
        n = layer.long_n
        reach = _reach_under(layer, Reach(window or 0).mask(n, n))
    missing = layer.sees(n) & ~reach
    if not missing.any():
        if window and window < n:
            raise Broken("every token moves all outputs after it", known("window.ignored"))
        if beyond:
            return f"no sequence longer than the window of {window} was tried"
        return None
    if layer.window:
        name, size = layer.window
        if layer.positions and not window or _is_window(layer, reach, size):
            raise NotChecked(f"it attends to a window ({name} = {size})")
    j, i = (int(at) for at in missing.T.nonzero()[0])
    shown = f"changing token {j} does not move output {i}"
    raise Broken(shown, _why_unseen(layer, reach, missing), symptom=True)


def _must_be_band(layer: Layer) -> None:
    "Raise Broken unless a token sees as far back and ahead as was declared."
    window, ahead = layer.contract.window or 0, layer.contract.ahead or 0
    n = layer.long_n or layer.n
    declared = Reach(window, ahead=ahead, causal=False)
    right = declared.mask(n, n)
    reach = _reach_under(layer, right)
    if reach.equal(right):
        return
    bug = name_band(reach, declared) or known("window.ignored" if reach.all() else "mask.narrow")
    i, j = (int(at) for at in (reach ^ right).nonzero()[0])
    moves = "moves" if reach[i, j] else "does not move"
    raise Broken(f"{n} tokens: changing token {j} {moves} output {i}", bug)


def _why_unseen(layer: Layer, reach: Tensor, missing: Tensor) -> Bug:
    "Return what kind of mask hides these tokens."
    seen = int(reach[-1].sum())
    if missing.diagonal().any():
        return known("mask.not_itself")
    if not layer.causal and missing.equal(torch.ones_like(missing).triu(1)):
        return known("mask.causal_unsaid")
    if layer.positions and not layer.contract.window:
        raise NotChecked("it attends to a window")
    if layer.window and layer.causal and _is_window(layer, reach, seen):
        name, size = layer.window
        return known("window.size", name=name, size=size, seen=seen)
    return known("mask.narrow")


def measured_reach(
    layer: Layer,  # the layer under test
) -> Tensor:  # boolean, (outputs, n)
    "Find out which output is moved by which token."
    x, moved = layer.draw(), []
    before = layer(x)
    for j in range(layer.n):
        other = x.clone()
        other[:, j] = -other[:, j] + 1
        moved.append((layer(other) - before).abs().amax((0, 2)) > 1e-6)
    # a peaked softmax hides tokens, a flat one none
    return torch.stack(moved, -1) | moved_by(layer, layer.n, softened_copy(layer.module))[1]


def _reach_under(layer: Layer, allowed: Tensor) -> Tensor:
    "Return the same for as many tokens as a mask has; what it hides must move more than rounding."
    models = (layer.module, softened_copy(layer.module))
    moved = (moved_by(layer, len(allowed), model) for model in models)
    surely, at_all = (a | b for a, b in zip(*moved))
    return surely | at_all & allowed


def _is_window(layer: Layer, reach: Tensor, size: int) -> bool:
    "Return whether outputs depend on a window of this size; both ways, conventions differ."
    windows = [Reach(size)]
    if not layer.causal:
        windows = [Reach(side + 1, ahead=side) for side in (size // 2, size - 1, size)]
    return any(reach.equal(each.mask(*reach.shape)) for each in windows)


LONG = (37, 23, 16, 11, 8)  # tokens of the long trial: the first length that it takes


def _longer(layer: Layer) -> str | None:
    "What holds of short sequences holds of long ones."
    _must_give_vectors(layer)
    n = _long_length(layer)
    must_be_vectors(layer, x := layer.draw(2, n), layer(x))
    if layer.contract.ahead:
        raise NotChecked(f"it sees ahead={layer.contract.ahead} tokens")
    allowed = layer.sees(n)
    surely, reach = moved_by(layer, n, layer.module)
    leaks = surely & ~allowed
    if leaks[: layer.n, : layer.n].any():
        raise NotChecked("in short ones the future leaks already")
    if leaks.any():
        i, j = (int(at) for at in leaks.nonzero()[0])
        shown = f"{n} tokens: changing token {j} moves output {i}"
        raise Broken(shown, known("length.future", first=i))
    if layer.contract.window and layer.contract.window < n:
        raise NotChecked(f"it attends to a window (window = {layer.contract.window})")
    _must_reach_all(layer, n, allowed, reach)
    if layer.contract.lengths is not None or n == LONG[0]:
        return None
    return f"the longest sequence had {n} tokens: it takes no {LONG[0]}"


def _must_give_vectors(layer: Layer) -> None:
    "Raise Broken if a short sequence that it takes does not give one finite vector per token."
    for n in layer.lengths(*range(1, layer.n + 3)):
        x = layer.draw(2, n)
        if (y := attempt(lambda: layer(x))) is not None:
            must_be_vectors(layer, x, y)


def _long_length(layer: Layer) -> int:
    "Return the length of the long trial; NotChecked if it takes no long sequence."
    lengths, why = list(LONG), f"it takes fewer than {LONG[-1]} tokens"
    if layer.contract.lengths is not None:
        lengths = [n for n in layer.contract.allowed[::-1] if layer.n < n <= 64]
        why = "no longer ones were declared"
    n = next((n for n in lengths if layer.fits(2, n)), 0)
    if not n:
        raise NotChecked(why)
    return n


def _must_reach_all(layer: Layer, n: int, allowed: Tensor, reach: Tensor) -> None:
    "Raise Broken if many tokens have no influence, or the numbers are wrong."
    if layer.positions or not ignores_order(layer):
        return
    unseen = _unseen(allowed, reach)
    if layer.parts and layer.diagnosis.unrotated == ():
        windows = [None, layer.window[1]] if layer.window else [None]
        for size, window in product((1.0, 0.1), windows):  # less is rounded for small numbers
            trace = trace_of(layer, size * layer.draw(2, n))
            bugs = compare_with_own_weights(trace, window, most=0)
            if bugs == () and not (unseen and trace.fewer):  # keys that were left out weigh nothing
                return
        shown = f"{n} tokens: the context is not softmax(q kᵀ / √d_head) v of its own q, k and v"
        raise Broken(shown, unseen or known("length.long", few=layer.n, many=n))
    if unseen:
        unseen = _unseen(allowed, moved_by(layer, n, softened_copy(layer.module))[1])
    if unseen:
        shown = f"{n} tokens: many do not move outputs that they should"
        raise Broken(shown, unseen, symptom=layer.diagnosis.bugs != ())


def moved_by(
    layer: Layer,  # the layer under test
    n: int,  # tokens
    module: Any,  # its copy, or a softened one
) -> tuple[Tensor, Tensor]:  # surely, and at all, both boolean, (outputs, n)
    "Find out which output is moved by which of n tokens."
    surely, at_all = torch.zeros(2, layer.output_length(n), n, dtype=torch.bool)
    every = torch.arange(n)
    for size, factor in ((1.0, 1.0), (0.03, 100.0)):  # the softmax of small inputs is flat
        x = size * layer.draw(1, n)
        others = x.repeat(n, 1, 1)
        others[every, every] = size - factor * x[0]  # in sequence j, token j is another one
        with torch.no_grad():
            y = layer.many(module, torch.cat([x, others]))
        difference = (y[1:] - y[:1]).abs().amax(-1).nan_to_num(nan=math.inf).T
        surely |= difference > _rounding(y[0])
        at_all |= difference > 1e-6
    return surely, at_all


def _unseen(allowed: Tensor, reach: Tensor) -> Bug | None:
    "Return the bug if distant or late tokens move nothing; one token alone proves little."
    n = len(allowed)
    i, j = (allowed & reach & ~torch.eye(n, dtype=torch.bool)).nonzero().T
    if not len(i):
        return known("length.cut", first=0)
    if (last := int(j.max())) < n - 4:
        return known("length.cut", first=last + 1)
    widest = int((i - j).abs().max())
    return known("window.narrow", widest=widest) if widest < n - 5 else None


def _declared_meaning(layer: Layer) -> str:
    "Return what its mask means, as declared; empty where it was not."
    meaning = layer.contract.mask_meaning
    return meaning if isinstance(meaning, str) else ""


class _Way(NamedTuple):
    "A way of giving a mask."

    how: str  # its shape and meaning in words
    meaning: str  # one of MEANINGS
    form: Form  # its shape
    made: Form  # its entries

    def padding(self, layer: Layer) -> list[Tensor]:
        "Mark what it should keep of some sequences, boolean (b, n), by the padding that is tried."
        at, hidden = torch.arange(layer.n), torch.arange(SEQUENCES)[:, None]
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

    taken: list[_Way]  # those that it takes
    hiding: list[_Way]  # those under which the hidden tokens have no influence
    open: list[_Way]  # those under which the future has some, though it is to have none
    outputs: list[Tensor]  # of all masks that it takes
    error: str  # the first one; empty if there is none


def _ways(
    layer: Layer, name: str, shapes: dict[str, Form], meanings: Collection[str]
) -> Iterator[_Way]:
    "Every shape and every meaning of a mask."
    for (shape, form), meaning in product(shapes.items(), meanings):
        if shape.startswith("(b") or not layer.of_memory or "padding" not in name:
            # no padding is the same for all sequences
            for says, made in MEANINGS[meaning].made.items():
                yield _Way(f"{shape}, {says}", meaning, form, made)


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
    name, meaning = layer.contract.mask_name, _declared_meaning(layer)
    taken = [name for name in parameters_of(layer.module) or {} if is_mask(name)]
    of_memory = [name for name in taken if name in MEMORY_MASKS]
    own = [name for name in taken if name not in of_memory]
    names = [name] if name else (of_memory or own) if layer.of_memory else own
    if layer.contract.mask is False:
        raise NotChecked("mask=False says that it takes none")
    if not names:
        raise NotChecked(_no_mask(layer))
    if layer.causal and not meaning:
        raise NotChecked(
            f"later tokens are hidden anyway; for padding at the left, {_declare(names[0])}"
        )
    if layer.causal and first_leak(layer, [layer.draw()], (1.0,), layer(layer.draw())):
        raise NotChecked("without a mask, the future is seen already")
    return names


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


def _influences(layer: Layer, name: str, way: _Way, size: float = 1.0) -> str:
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
        same = partial(nearly, atol=2 * _rounding(before))
        late = torch.cat([x[:, :-1], changed[:, -1:]], 1)
        earlier = stays & (torch.arange(stays.shape[1]) < stays.shape[1] - 1)
        if layer.causal and not same(run(x=late)[earlier], before[earlier]):
            return "future"
        if not same(run(x=torch.where(kept[..., None], x, changed))[stays], before[stays]):
            return "hidden"
    return ""


def _must_hide_in_sixteen_bits(layer: Layer, name: str, mask: Tensor) -> None:
    "Raise Broken if 16 bits do without the mask, and not with it."
    if layer.contract.dtype or not attempt(lambda: (must_stand_sixteen_bits(layer), True)):
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
    if found := _by_numbers(layer, name, tried, AFTER) or _misread(layer, name, tried):
        return found
    declared = _declared_meaning(layer)
    if not tried.outputs:
        why = f"{name}: no mask that was tried will do; {tried.error}"
        return NotChecked(why, undecided=bool(declared))
    plain = layer(layer.draw())
    if all(nearly(got, plain) for got in tried.outputs):
        if not must_matter(name) and not declared:
            return NotChecked(f"{name}: it makes no difference; is it for another input?")
        shown = f"{name}: whatever it hides, the output is the same"
        bug = known("mask.ignored")
        return Broken(shown, bug if declared else bug._replace(declare="mask=False"))
    if declared and tried.open:
        return Broken(f"{name}: with it, the future is seen", known("mask.replaces_causal"))
    if found := _by_numbers(layer, name, tried, APPLIED):
        return found
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
    if layer.other is None or not layer.of_memory:
        return trace_of(masked, x)
    queries = layer.other.expand(len(x), -1, -1)
    call = lambda module, q: masked.beside(q).first(module, x)
    return trace_layer(layer.module, queries, call, layer.contract, x)


def _misread(layer: Layer, name: str, tried: _TriedMasks) -> Broken | None:
    "Return what to raise for a mask as long as x (not the memory), transposed, or inverted."
    declared = _declared_meaning(layer)
    if not tried.outputs and layer.of_memory and hides_padding(name):
        of_queries = torch.zeros(SEQUENCES, layer.output_length(layer.n), dtype=torch.bool)
        if attempt(lambda: (_under(layer, name, layer.draw(), of_queries),)):
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
        return masked.first(layer.module, x.clone())


def _masked(layer: Layer, name: str, mask: Tensor) -> Layer:
    "Return the layer, called with a mask; one of numbers gets the type of the hidden states."

    def call(m: Any, x: Tensor, y: Tensor | None = None) -> Any:
        with layer.contract.lent(mask) as (there,):
            of_type = there.to(x.dtype) if there.is_floating_point() else there
            return _called_with_mask(layer, m, {name: of_type}, x, y)

    return layer.calling(call)


def _called_with_mask(
    layer: Layer, m: Any, given: dict[str, Tensor], x: Tensor, y: Tensor | None
) -> Any:
    "Call a layer with x and perhaps a memory, and a mask by its name."
    if layer.contract.call:
        return called_with(layer.contract.call, m, given, x, *(() if y is None else (y,)))
    if is_torch_mha(m):
        return call_torch_mha(m, x, layer.causal, y, **given)
    if y is not None:
        return how_to_call_both(m, **given)(m, x, y)
    options = causal_options(m) if layer.causal else {}
    return m(x, **inputs_for(needed_by(m)[1:], x) | options | given)


def _as_alone(layer: Layer, name: str, ways: list[_Way]) -> _Way:
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


def _unlike_alone(layer: Layer, name: str, way: _Way) -> str:
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


def _ordered(layer: Layer) -> None:
    "Another order of the tokens gives the same outputs in that order, unless it knows positions."
    window = layer.contract.window
    if layer.contract.ahead or window and window < layer.n:
        raise NotChecked("what a token sees depends on order: it attends to a window")
    free = bool(layer.observed.free)
    if layer.positions:
        _must_know_positions(layer, free)
    if not free:
        if layer.positions is None:
            _may_know_positions(layer)
        shown = f"tokens reordered as {layer.reordering().tolist()}: other outputs than before"
        raise Broken(shown, known("order.matters"))
    if layer.positions is None and (name := layer.position_setting):
        raise NotChecked(f"order makes no difference, though there is {name}; say positions=True")


def _may_know_positions(layer: Layer) -> None:
    "Raise NotChecked if there is a reason why order may matter, though none was declared."
    if name := layer.position_setting:
        raise NotChecked(f"it seems to know positions ({name}); say positions=True or False")
    if layer.causal:
        raise NotChecked("the order of the past matters; if it knows no positions: positions=False")
    if layer.window and _is_window(layer, measured_reach(layer), layer.window[1]):
        raise NotChecked("it attends to a window ({} = {})".format(*layer.window))


def _must_know_positions(layer: Layer, free: bool) -> None:
    "With positions=True order must make a difference, unless what tells it is zero, or far away."
    if not free:
        raise NotChecked("it knows positions")
    parameters = layer.module.named_parameters() if layer.parts else ()
    zero = next((name for name, p in parameters if not p.any()), "")
    window = "{} = {}".format(*layer.window) if layer.window else ""
    if reason := zero or window:
        raise NotChecked(
            f"positions=True was declared, but order makes no difference; does {reason} explain it?"
        )
    name = layer.position_setting or "what tells it"
    shown = "tokens reordered: the outputs are the same, in another order"
    raise Broken(shown, known("order.never", told=name))


def _is_causal(layer: Layer) -> bool:
    return layer.causal


def _is_not_causal(layer: Layer) -> bool:
    return not layer.causal


MASKING = (
    Relation(
        "the future cannot reach the past, in evaluation and training, with and without gradients",
        _no_future,
        asked=_is_causal,
    ),
    Relation("every token reaches its own output and all after it", _reaches, asked=_is_causal),
    Relation("every token reaches every output", _reaches, asked=_is_not_causal),
    Relation("longer sequences are treated as short ones", _longer),
    Relation("what its own masks hide has no influence", must_hide_padding, no_module),
    Relation("the order of the past does not matter to the last token", _ordered, asked=_is_causal),
    Relation("reordering the tokens only reorders the outputs", _ordered, asked=_is_not_causal),
)
