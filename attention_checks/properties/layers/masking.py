"""Masks hide the future and padding, and every other token counts, in long sequences too."""

import math
from itertools import product
from typing import Any

import torch
from torch import Tensor

from attention_checks.catalogue import known
from attention_checks.explaining.fitting import fitted_band
from attention_checks.explaining.pipeline import Bug
from attention_checks.explaining.reach import Reach
from attention_checks.numbers.tensors import rounding
from attention_checks.numbers.tolerance import MOVED
from attention_checks.outcomes import Broken, NotChecked, attempt
from attention_checks.properties import Property
from attention_checks.properties.equivariance import code_of_leak, first_leak
from attention_checks.properties.layers.basics import must_be_vectors
from attention_checks.properties.layers.given_masks import must_hide_padding
from attention_checks.subjects.copies import softened_copy
from attention_checks.subjects.diagnosis import as_declared, ignores_order, trace_of
from attention_checks.subjects.layer import Layer, no_module, normalises_batch
from attention_checks.trace import Trace
from attention_checks.trace.comparing import compare_with_own_weights


def _must_hide_future_in_every_mode(layer: Layer) -> None:
    "The future cannot reach the past, in evaluation and training, with and without gradients."
    # large scores find a number that stands for minus infinity, and is too small
    for training, grad, size in product((False, True), (False, True), (1.0, 300.0)):
        _must_hide_future(layer, layer.draw() * size, training, grad)


def _must_hide_future(layer: Layer, x: Tensor, training: bool, grad: bool) -> None:
    "Raise Broken if changing a token moves an earlier output."
    mode = "training" if training else "evaluation"
    if not grad:
        mode += ", without gradients"
    usual = x.abs().max() < 10
    before = layer.in_mode(x, training, grad)
    if usual:
        must_be_vectors(layer, x, before, f", {mode}")
    atol = rounding(before)
    run = lambda x: layer.in_mode(x, training, grad)
    if leak := first_leak(run, [x], (1.0, 100.0), before, atol):
        j, other = leak.token, leak.inputs[0]
        large = leak.factor != 1 or not usual
        if large and as_declared(layer, x) and as_declared(layer, other):
            return
        shown = f"{mode}: changing token {j} moves output {leak.output}"
        leaks = "mask.leaks"
        if large:
            exact = layer.in_64_bits
            leaks = code_of_leak(lambda x: exact.in_mode(x, training, grad), [x], leak)
        raise Broken(shown, known(_why_leaks(layer, x, other, j, training, atol) or leaks))


def _why_leaks(layer: Layer, x: Tensor, other: Tensor, j: int, training: bool, atol: float) -> str:
    "Return the code if it leaks in one mode and not in the other; evaluation was tried first."

    def moved(seed: int) -> Tensor:
        "Return which earlier outputs move in training, with the same chance."
        runs = (layer.in_mode(t, True, False, seed) for t in (x, other))
        return (next(runs) - next(runs))[:, :j].abs().amax(-1) > atol

    if not training:
        return "mode.mask_in_training" if layer.modules and not moved(0).any() else ""
    if normalises_batch(layer):
        return "mode.batch_norm"
    by_chance = any(not moved(0).equal(moved(seed)) for seed in range(1, 9))
    return "dropout.scores" if by_chance else "mode.mask_in_evaluation"


def _must_reach_outputs(layer: Layer) -> str | None:
    "Every token has an influence on each output that may attend to it."
    if layer.contract.ahead:
        _must_be_band(layer)
        return None
    n, window = layer.n, layer.contract.window or 0
    reach = measured_reach(layer)
    if window >= n and layer.long_n:
        n = layer.long_n
        reach = _reach_under(layer, Reach(window).mask(n, n))
    missing = layer.sees(n) & ~reach
    if missing.any() and as_declared(layer, layer.draw(n=n)):
        choice = "attend" if layer.contract.attend else "bias"
        return f"which tokens move an output is what {choice}= says"
    if missing.any():
        raise _unreached(layer, reach, missing)
    if window and window < n:
        raise Broken("every token moves all outputs after it", known("window.ignored"))
    return f"no sequence longer than the window of {window} was tried" if window else None


def _unreached(layer: Layer, reach: Tensor, missing: Tensor) -> Broken | NotChecked:
    "Return what to raise for outputs that a token does not move: a window may be meant."
    if layer.window:
        name, size = layer.window
        meant = layer.positions and not layer.contract.window
        if meant or _is_window(layer, reach, size):
            return NotChecked(f"it attends to a window ({name} = {size})")
    j, i = (int(at) for at in missing.T.nonzero()[0])
    shown = f"changing token {j} does not move output {i}"
    return Broken(shown, _why_unseen(layer, reach, missing), symptom=True)


def _must_be_band(layer: Layer) -> None:
    "Raise Broken unless a token sees as far back and ahead as was declared."
    window, ahead = layer.contract.window or 0, layer.contract.ahead or 0
    n = layer.long_n or layer.n
    declared = Reach(window, ahead=ahead, causal=False)
    right = declared.mask(n, n)
    reach = _reach_under(layer, right)
    if reach.equal(right):
        return
    bug = fitted_band(reach, declared) or known("window.ignored" if reach.all() else "mask.narrow")
    i, j = (int(at) for at in (reach ^ right).nonzero()[0])
    moves = "moves" if reach[i, j] else "does not move"
    raise Broken(f"{n} tokens: changing token {j} {moves} output {i}", bug)


def _why_unseen(layer: Layer, reach: Tensor, missing: Tensor) -> Bug:
    "Return what kind of mask hides these tokens."
    seen = int(reach[-1].sum())
    if _is_stretched(reach):
        return known("split.along_tokens")
    if missing.diagonal().any():
        return known("mask.not_itself")
    if not layer.causal and missing.equal(torch.ones_like(missing).triu(1)):
        return known("mask.causal_unasked")
    if layer.positions and not layer.contract.window:
        raise NotChecked("it attends to a window")
    if layer.window and layer.causal and _is_window(layer, reach, seen):
        name, size = layer.window
        return known("window.size", name=name, size=size, seen=seen)
    return known("mask.narrow")


def _is_stretched(reach: Tensor) -> bool:
    "Return whether token i sees token i // g and those before it: as if each key stood g times."
    tokens, own = torch.arange(len(reach)), torch.eye(len(reach), dtype=torch.bool)
    stretched = ((tokens // g)[:, None] >= tokens for g in range(2, len(reach)))
    return any((reach | own).equal(each | own) for each in stretched)  # a query moves its output


def measured_reach(layer: Layer) -> Tensor:  # boolean, (outputs, n)
    "Find out which output is moved by which token."
    x, moved = layer.draw(), []
    before = layer(x)
    for j in range(layer.n):
        other = x.clone()
        other[:, j] = -other[:, j] + 1
        moved.append((layer(other) - before).abs().amax((0, 2)) > MOVED)
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


def _must_treat_long_as_short(layer: Layer) -> str | None:
    "Longer sequences are treated as short ones."
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
    for n in layer.promised(*range(1, layer.n + 3)):
        x = layer.draw(2, n)
        if (y := attempt(lambda: layer(x))) is not None:
            must_be_vectors(layer, x, y)


def _long_length(layer: Layer) -> int:
    "Return the length of the long trial; NotChecked if it takes no long sequence."
    lengths, why = list(LONG), f"it takes fewer than {LONG[-1]} tokens"
    if layer.contract.lengths is not None:
        lengths = [n for n in layer.contract.allowed_lengths[::-1] if layer.n < n <= 64]
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
    if layer.modules and layer.diagnosis.unrotated == ():
        usual = trace_of(layer, layer.draw(2, n))
        if _agrees(layer, usual, unseen):
            return
        if _agrees(layer, trace_of(layer, 0.1 * layer.draw(2, n)), unseen):  # less is rounded
            return
        shown = f"{n} tokens: the context is not {layer.contract.gives} of its own q, k and v"
        if unseen:
            raise Broken(shown, unseen)
        named = attempt(lambda: compare_with_own_weights(usual, most=1))
        raise Broken(shown, (known("length.long", few=layer.n, many=n), *(named or ())))
    if unseen:
        unseen = _unseen(allowed, moved_by(layer, n, softened_copy(layer.module))[1])
    if unseen:
        shown = f"{n} tokens: many do not move outputs that they should"
        raise Broken(shown, unseen, symptom=layer.diagnosis.bugs != ())


def _agrees(layer: Layer, trace: Trace, unseen: Bug | None) -> bool:
    "Return whether a long sequence agrees with its own weights, in its window or without one."
    windows = [None, layer.window.size] if layer.window else [None]
    agrees = any(compare_with_own_weights(trace, size, most=0) == () for size in windows)
    left_out = unseen is not None and trace.why_fewer_keys  # such keys weigh nothing
    return agrees and not left_out


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
            y = layer.output_of_batch(module, torch.cat([x, others]))
        difference = (y[1:] - y[:1]).abs().amax(-1).nan_to_num(nan=math.inf).T
        surely |= difference > rounding(y[0])
        at_all |= difference > MOVED
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


def _must_not_mind_order(layer: Layer) -> None:
    "Another order of the tokens gives the same outputs in that order, unless it knows positions."
    window = layer.contract.window
    if layer.contract.ahead or window and window < layer.n:
        raise NotChecked("what a token sees depends on order: it attends to a window")
    free = bool(layer.observed.order_free)
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
    if name := layer.positions_told_by:
        raise NotChecked(f"{name} may tell positions; say positions=True or False")
    if layer.causal:
        raise NotChecked("the order of the past matters; if it knows no positions: positions=False")
    if layer.window and _is_window(layer, measured_reach(layer), layer.window.size):
        raise NotChecked("it attends to a window ({} = {})".format(*layer.window))


def _must_know_positions(layer: Layer, free: bool) -> None:
    "With positions=True order must make a difference, unless what tells it is zero, or far away."
    if not free:
        raise NotChecked("it knows positions")
    parameters = layer.module.named_parameters() if layer.modules else ()
    zero = next((name for name, p in parameters if not p.any()), "")
    window = "{} = {}".format(*layer.window) if layer.window else ""
    if reason := zero or window:
        raise NotChecked(
            f"positions=True was declared, but order makes no difference; does {reason} explain it?"
        )
    name = layer.position_setting or "what tells it"
    shown = "tokens reordered: the outputs are the same, in another order"
    raise Broken(shown, known("order.never", name=name))


MASKING = (
    Property.of(_must_hide_future_in_every_mode, applies=lambda layer: layer.causal),
    Property(
        "every token reaches its own output and all after it",
        _must_reach_outputs,
        applies=lambda layer: layer.causal,
    ),
    Property(
        "every token reaches every output",
        _must_reach_outputs,
        applies=lambda layer: not layer.causal,
    ),
    Property.of(_must_treat_long_as_short, symptom_unless=("unexplained",)),
    Property("what its own masks hide has no influence", must_hide_padding, no_module),
    Property(
        "the order of the past does not matter to the last token",
        _must_not_mind_order,
        applies=lambda layer: layer.causal,
    ),
    Property(
        "reordering the tokens only reorders the outputs",
        _must_not_mind_order,
        applies=lambda layer: not layer.causal,
    ),
)
