"""No word may see the future, or what a mask hides; every other word must be seen, also in long sentences, in whatever order."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product
from typing import Any, NamedTuple

import torch
import torch.nn as nn
from torch import Tensor

from attention_checks.catalogue import known
from attention_checks.conventions import MASK, MEMORY_MASKS, settings_of
from attention_checks.examine import Broken, NotChecked, attempt, first_line
from attention_checks.numbers import first_difference, nearly
from attention_checks.pipeline import Bug
from attention_checks.properties import Relation, must_leave_alone
from attention_checks.properties.layers.running import (
    must_be_rows,
    must_stand_sixteen_bits,
)
from attention_checks.signatures import parameters_of
from attention_checks.subjects.calling import as_torch, how_to_call_both, needed_by
from attention_checks.subjects.copies import deep_copy, softened_copy
from attention_checks.subjects.layer import (
    SENTENCES,
    Layer,
    draw,
    fits,
    in_mode,
    knows_no_order,
    no_module,
    normalises_batch,
    reordering,
)
from attention_checks.trace.comparing import compare_with_own_weights


def _no_future(a: Layer) -> None:
    for training, grad, size in product((False, True), (False, True), (1.0, 300.0)):
        _must_hide(
            a, draw(a) * size, training, grad
        )  # large scores find a stand-in for minus infinity that is too small
    whole = a(x := draw(a))
    for n in a.lengths(a.n - 2, a.n - 1):
        if not nearly(shorter := a(x[:, :n]), whole[:, :n]):
            shown = f"the first {n} of {a.n} words alone: {first_difference(shorter, whole[:, :n])}"
            raise Broken(shown, known("length.counted"))


def _must_hide(a: Layer, x: Tensor, training: bool, grad: bool) -> None:
    "Raise Broken if changing a word moves an earlier output."
    mode, usual = (
        f"{'training' if training else 'evaluation'}{'' if grad else ', without gradients'}",
        x.abs().max() < 10,
    )
    before = in_mode(a, x, training, grad)
    if usual:
        must_be_rows(a, x, before, f", {mode}")
    atol = 1e-4 * max(1.0, before.abs().nan_to_num().max().item())
    for j, factor in product(range(a.n - 1, 0, -1), (1.0, 100.0)):
        other = x.clone()
        other[:, j] = -factor * other[:, j] + 1
        moved = (
            (in_mode(a, other, training, grad) - before).abs().amax((0, 2)).nan_to_num(nan=math.inf)
            > atol
        )[:j]
        if moved.any():
            held = not (training or grad) and isinstance(a.module, nn.Module)
            held = held and bool(
                (
                    (in_mode(a, x, True, False) - in_mode(a, other, True, False)).abs()[:, :j]
                    <= atol
                ).all()
            )
            shown = f"{mode}: changing word {j} moves output {int(moved.nonzero()[0])}{' in training' * training}"
            raise Broken(
                shown,
                known(
                    _leak(a, training, grad, held)
                    or ("mask.leaks" if factor == 1 and usual else "mask.leaks_if_large")
                ),
            )


def _leak(a: Layer, training: bool, grad: bool, held: bool) -> str:
    "Why the future leaks in one mode and not in others, if so. (Evaluation without gradients is tried first.)"
    if training:
        return "mode.batch_norm" if normalises_batch(a.module) else "mode.mask_in_evaluation"
    return "mode.mask_without_gradients" if grad else "mode.mask_in_training" if held else ""


def _reaches(a: Layer) -> str | None:
    n, beyond = a.n, a.said_window and a.said_window >= a.n
    reach = reach_of(a)
    if beyond and a.far:
        n, reach = a.far, _far_reach(a)
    expected = torch.ones(n, n, dtype=torch.bool)
    expected = expected.tril() if a.causal else expected
    missing = expected & ~reach
    if not missing.any():
        if a.said_window and a.said_window < n:
            raise Broken("every word reaches all that come after it", known("window.ignored"))
        return (
            f"no sentence longer than the window of {a.said_window} was tried: where it ends was not seen"
            if beyond
            else None
        )
    if a.window and (a.positions and not a.said_window or _as_set(a, reach, a.window[1])):
        raise NotChecked(f"it attends to a window ({a.window[0]} = {a.window[1]})")
    j, i = (int(at) for at in missing.T.nonzero()[0])
    raise Broken(
        f"changing word {j} does not move output {i}", _why_unseen(a, reach, missing), symptom=True
    )


def _why_unseen(a: Layer, reach: Tensor, missing: Tensor) -> Bug:
    "What kind of mask leaves these words unseen."
    seen = int(reach[-1].sum())
    if missing.diagonal().any():
        return known("mask.no_word_itself")
    if not a.causal and missing.equal(torch.ones_like(missing).triu(1)):
        return known("mask.causal_unsaid")
    if a.positions and not a.said_window:
        raise NotChecked("it attends to a window")
    if a.window and a.causal and _as_set(a, reach, seen):
        return known("window.size", name=a.window[0], size=a.window[1], seen=seen)
    return known("mask.narrow")


def reach_of(
    a: Layer,  # the layer under test
) -> Tensor:  # (outputs, n)
    "Tell which output is moved by which word."
    x, moved = draw(a), []
    before = a(x)
    for j in range(a.n):
        other = x.clone()
        other[:, j] = -other[:, j] + 1
        moved.append((a(other) - before).abs().amax((0, 2)) > 1e-6)
    return (
        torch.stack(moved, -1) | moved_by(a, a.n, softened_copy(a.module))[1]
    )  # a peaked softmax hides words, a flat one NONE


def _far_reach(a: Layer) -> Tensor:
    "The same where a window begins to hide: what lies beyond it must be moved by more than rounding."
    moved = [moved_by(a, a.far, m) for m in (a.module, softened_copy(a.module))]
    surely, at_all = (some | more for some, more in zip(*moved))
    return surely | at_all & torch.ones_like(surely).tril().triu(1 - (a.said_window or 0))


def _as_set(a: Layer, reach: Tensor, window: int) -> bool:
    "Whether every word reaches just as far as a window of this size says; both ways there are several customs."
    n = len(reach)
    back = torch.arange(n)[:, None] - torch.arange(n)
    if a.causal:
        return reach.equal((back >= 0) & (back < window))
    return any(reach.equal(back.abs() <= side) for side in (window // 2, window - 1, window))


LONG = (37, 23, 16, 11, 8)  # words of the long trial: the first number that it takes


def _longer(a: Layer) -> str | None:
    for n in a.lengths(*range(1, a.n + 3)):
        if (y := attempt(lambda: a(draw(a, 2, n)))) is not None:
            must_be_rows(a, draw(a, 2, n), y)
    long = (
        LONG
        if a.contract.lengths is None
        else [n for n in a.contract.allowed[::-1] if a.n < n <= 64]
    )
    n = next((n for n in long if fits(a, 2, n)), 0)
    if not n:
        raise NotChecked(
            f"it takes fewer than {LONG[-1]} words"
            if a.contract.lengths is None
            else "no longer ones were declared"
        )
    must_be_rows(a, x := draw(a, 2, n), a(x))
    allowed = torch.ones(n, n, dtype=torch.bool)
    allowed = allowed.tril() if a.causal else allowed
    surely, reach = moved_by(a, n, a.module)
    if (surely & ~allowed)[: a.n, : a.n].any():
        raise NotChecked("in short ones the future leaks already")
    if (leaks := surely & ~allowed).any():
        i, j = (int(at) for at in leaks.nonzero()[0])
        raise Broken(
            f"{n} words: changing word {j} moves output {i}", known("length.future", first=i)
        )
    if name := _part_only(a, n):
        raise NotChecked(f"it may attend to a part of them ({name})")
    _must_see_all(a, n, allowed, reach)
    return (
        f"the longest sentence had {n} words: it takes no {LONG[0]}"
        if n != LONG[0] and a.contract.lengths is None
        else None
    )


def _must_see_all(a: Layer, n: int, allowed: Tensor, reach: Tensor) -> None:
    "Raise Broken if many words are out of reach, or the numbers are wrong."
    if a.positions or not a.order_free:
        return
    unseen = _unseen(allowed, reach)
    if isinstance(a.module, nn.Module) and not a.cap and attempt(lambda: a.unrotated) == ():
        traces = (
            a.traced(size * draw(a, 2, n)) for size in (1.0, 0.1)
        )  # small words: less is rounded
        if any(compare_with_own_weights(t, a.n_heads, a.causal, most=0) == () for t in traces):
            return
        shown = f"{n} words: the context is not softmax(q kᵀ / √d_head) v of its own q, k and v"
        raise Broken(shown, unseen or known("length.long", few=a.n, many=n))
    if unseen and (unseen := _unseen(allowed, moved_by(a, n, softened_copy(a.module))[1])):
        raise Broken(f"{n} words: many do not move outputs that they should", unseen)


def moved_by(
    a: Layer,  # the layer under test
    n: int,  # words
    module: Any,  # its copy, or a calmer one
) -> tuple[Tensor, Tensor]:  # surely, and at all, both (outputs, n)
    "Tell which output is moved by which of n words."
    surely, at_all = torch.zeros(2, a.outputs(n), n, dtype=torch.bool)
    every = torch.arange(n)
    for size, factor in ((1.0, 1.0), (0.03, 100.0)):  # small inputs too: their softmax is flat
        x = size * draw(a, 1, n)
        others = x.repeat(n, 1, 1)
        others[every, every] = size - factor * x[0]  # in sentence j, word j is another one
        with torch.no_grad():
            y = a.first(module, torch.cat([x, others]))
        off = (y[1:] - y[:1]).abs().amax(-1).nan_to_num(nan=math.inf).T
        surely |= off > 1e-4 * max(1.0, y[0].abs().nan_to_num().max().item())
        at_all |= off > 1e-6
    return surely, at_all


def _part_only(a: Layer, n: int) -> str | None:
    "The name and value of a setting that says that not every word is seen."
    told = [*settings_of(a.module, "part"), *([("window", a.said_window)] if a.said_window else [])]
    return next((f"{k} = {v}" for k, v in told if type(v) is int and v < n), None)


def _unseen(allowed: Tensor, reach: Tensor) -> Bug | None:
    "The bug, if the far words or the last words of a sentence move nothing; a single silent pair proves little."
    n = len(allowed)
    i, j = (allowed & reach & ~torch.eye(n, dtype=torch.bool)).nonzero().T
    if not len(i) or (last := int(j.max())) < n - 4:
        return known("length.cut", first=last + 1 if len(i) else 0)
    widest = int((i - j).abs().max())
    return known("window.narrow", widest=widest) if widest < n - 5 else None


_MASKS = (
    "key_padding_mask",
    "src_key_padding_mask",
    "padding_mask",
    "attention_mask",
    "attn_mask",
    "mask",
)
_SHAPES: dict[
    str, Callable[[Tensor, int], Tensor]
] = {  # of which words are there, (b, n), and how many ask
    "(b, n)": lambda m, n_q: m,
    "(b, 1, 1, n)": lambda m, n_q: m[:, None, None],
    "(b, n, n)": lambda m, n_q: m[:, None].expand(-1, n_q, -1),
    "(b, 1, n, n)": lambda m, n_q: m[:, None, None].expand(-1, -1, n_q, -1),
    "(n, n)": lambda m, n_q: m[1:2].expand(n_q, -1),  # one for all sentences: the second one's
}
_TURNED: dict[
    str, Callable[[Tensor, int], Tensor]
] = {  # what no mask should be: words that are seen before words that ask
    "(b, n_k, n_q)": lambda m, n_q: m[..., None].expand(-1, -1, n_q),
    "(b, 1, n_k, n_q)": lambda m, n_q: m[:, None, :, None].expand(-1, -1, -1, n_q),
    "(n_k, n_q)": lambda m, n_q: m[1, :, None].expand(-1, n_q),
}
_MEANS: dict[str, Callable[[Tensor], Tensor]] = {
    "True = may attend": lambda m: m,
    "True = hidden": lambda m: ~m,
    "added to the scores": lambda m: torch.zeros(m.shape).masked_fill(~m, -math.inf),
    "1 = may attend": lambda m: m.float(),
}


class _Mask(NamedTuple):
    "A mask that should hide the last words of some sentences."

    how: str  # its shape and meaning
    there: Tensor  # boolean, (b, n), False for what it should hide
    mask: Tensor


def _masks(
    a: Layer, name: str, shapes: dict[str, Callable[[Tensor, int], Tensor]]
) -> Iterator[_Mask]:
    "Every way to give one."
    kept = torch.arange(a.n) < (a.n - torch.arange(SENTENCES))[:, None]
    for (shape, lay), (meaning, means) in product(shapes.items(), _MEANS.items()):
        one = not shape.startswith("(b")
        if not (one and a.turned and "padding" in name):  # no padding is the same for all
            there = kept[1:2].expand(SENTENCES, -1) if one else kept
            yield _Mask(f"{shape}, {meaning}", there, means(lay(kept, a.outputs(a.n))))


def must_hide_padding(a: Layer) -> str | None:  # how its masks are meant
    "Raise Broken if a mask that it takes does not hide what it should."
    taken = parameters_of(a.module) or {}
    names = [name for name in taken if a.turned and name in MEMORY_MASKS] or [
        name for name in taken if name in _MASKS
    ]
    if a.said_call or a.causal or not names:
        raise NotChecked(
            "call= says how it is called"
            if a.said_call
            else "it takes no mask"
            if not names
            else "later words are hidden anyway"
        )
    return "; ".join(filter(None, (_padded(a, name) for name in names))) or None


def _padded(a: Layer, name: str) -> str:
    "How one of its masks is meant; raises Broken if it does not hide what it should."
    ran: list[Tensor] = []
    errors: list[str] = []
    x, found = draw(a), _hiding(a, name, _SHAPES, ran, errors)
    if not found:
        raise _unmasked(a, name, x, ran, (errors or [""])[0])
    _must_be_as_alone(a, name, x, found.there, _under(a, name, x, found.mask))
    must_leave_alone(
        lambda x, mask: _under(a, name, x, mask, False), {"x": x, "mask": found.mask.clone()}
    )
    _must_hide_in_half(a, name, found.mask)
    return f"{name} was given as {found.how}"


def _hiding(
    a: Layer,
    name: str,
    shapes: dict[str, Callable[[Tensor, int], Tensor]],
    ran: list[Tensor],
    errors: list[str],
) -> _Mask | None:
    "The first mask that hides what it should; what those gave that it takes, and the errors of others, are added to the lists."
    x = draw(a)
    plain = a(x)
    for given in _masks(a, name, shapes):
        try:
            got = _under(a, name, x, given.mask)
        except Exception as e:
            errors.append(first_line(e, 80))
            continue
        ran.append(got)
        other = torch.where(given.there[..., None], x, 3 - 2 * x)
        hear = torch.ones(a.rows(x), dtype=torch.bool) if a.turned else given.there
        if got.shape == plain.shape and nearly(_under(a, name, other, given.mask)[hear], got[hear]):
            return given
    return None


def _must_hide_in_half(a: Layer, name: str, mask: Tensor) -> None:
    "Raise Broken if sixteen bits do without the mask, and not with it."
    if a.contract.dtype or not attempt(lambda: (must_stand_sixteen_bits(a), True)):
        return
    try:
        must_stand_sixteen_bits(_masked(a, name, mask))
    except NotChecked:
        return
    except Broken as e:
        raise Broken(f"{name}, {e.example}", e.bugs) from None


def _unmasked(a: Layer, name: str, x: Tensor, ran: list[Tensor], error: str) -> Broken | NotChecked:
    "What to raise if no mask that was tried hides anything; `ran` are the outputs under those that it takes."
    plainly = "key_padding" in name or name in MEMORY_MASKS
    if (
        not ran
        and a.turned
        and plainly
        and attempt(lambda: (_under(a, name, x, torch.zeros(SENTENCES, a.outputs(a.n)).bool()),))
    ):
        return Broken(f"{name}: it must have as many words as ask", known("mask.axis"))
    if turned := _hiding(a, name, _TURNED, [], []):
        return Broken(
            f"{name}: only as {turned.how} it hides the last words", known("mask.transposed")
        )
    if not ran:
        return NotChecked(f"{name}: no mask that was tried will do; {error}")
    if all(nearly(got, a(x)) for got in ran):
        return Broken(f"{name}: whatever it hides, the output is the same", known("mask.ignored"))
    if plainly:  # what it is for leaves no doubt
        return Broken(
            f"{name}: no shape and no meaning that was tried hides the last words",
            known("mask.padding"),
        )
    return NotChecked(f"{name}: no mask that was tried hides padding")


def _under(a: Layer, name: str, x: Tensor, mask: Tensor, copied: bool = True) -> Tensor:
    "The output under a mask."
    with torch.no_grad():
        return _masked(a, name, mask.clone() if copied else mask).first(a.module, x.clone())


def _masked(a: Layer, name: str, mask: Tensor) -> Layer:
    "The layer, called with a mask; one of numbers gets the type of the words."

    def call(m: Any, x: Tensor, y: Tensor | None = None) -> Any:
        given = {name: a.contract.there(mask.to(x.dtype) if mask.is_floating_point() else mask)}
        if y is not None or as_torch(m):
            return how_to_call_both(m, **given)(m, x, x if y is None else y)
        return m(x, **{n: None if MASK.search(n) else x for n in needed_by(m)[1:]} | given)

    return replace(a, said_call=call)


def _must_be_as_alone(a: Layer, name: str, x: Tensor, kept: Tensor, got: Tensor) -> None:
    "Raise Broken if a sentence with padding that is hidden does not come out as it does without."
    for i, n in enumerate(kept.sum(1).tolist()):
        if a.turned and a.places:
            break  # places may count from the memory's end
        own = got[i : i + 1, : a.outputs(n)]
        if a.contract.takes(n) and not nearly(own, alone := a(x[i : i + 1, :n]).detach()):
            shown = f"{name} hides {a.n - n} of {a.n} words: {first_difference(own, alone)}, as without them"
            raise Broken(shown, known("mask.padding"), symptom=True)


def _ordered(a: Layer) -> None:
    _equivariant(a)
    if a.positions is None and a.places:
        raise NotChecked(
            f"it does not, though there is {a.places}; if it should, say positions=True"
        )


def _equivariant(a: Layer) -> None:
    free = knows_no_order(a)
    if a.positions:
        return _must_know_places(a, free)
    if free:
        return
    if a.positions is None:
        _may_know_places(a)
    raise Broken(
        f"words reordered as {reordering(a).tolist()}: the outputs are not the same in another order",
        known("order.matters"),
    )


def _may_know_places(a: Layer) -> None:
    "Raise NotChecked if there is a reason why order may matter, though nobody said so."
    if a.places:
        raise NotChecked(f"it seems to know positions ({a.places}); say positions=True or False")
    if a.causal:
        raise NotChecked(
            "the order of the past matters: if it knows no positions, say positions=False"
        )
    if a.window and _as_set(a, reach_of(a), a.window[1]):
        raise NotChecked(f"it attends to a window ({a.window[0]} = {a.window[1]})")
    if a.zeros:
        other, x, p = deep_copy(a.module), draw(a), reordering(a)
        with torch.no_grad():
            for name, weight in other.named_parameters():
                weight.mul_(name not in a.zeros)
        want, got = (a.first(other, t) for t in (x, x[:, p]))
        if nearly(got, want[:, p]):
            raise NotChecked(f"once {a.zeros[0]} is no longer zero, it seems to know positions")


def _must_know_places(a: Layer, free: bool) -> None:
    "If positions=True was said, what tells them must make a difference, unless it is still zero, or far away."
    if not free:
        raise NotChecked("it knows positions")
    zero = (
        next((n for n, p in a.module.named_parameters() if not p.any()), "")
        if isinstance(a.module, nn.Module)
        else ""
    )
    far = _part_only(a, LONG[0])
    if zero or far:
        raise NotChecked(
            f"positions=True was said, but order makes no difference; does {zero or far} explain it?"
        )
    told = a.places or "what tells it"
    raise Broken(
        "words reordered: the outputs are the same, in another order",
        known("order.never", told=told),
    )


SEEING = (
    Relation(
        "the future cannot reach the past, in evaluation and training, with and without gradients",
        _no_future,
        asked=lambda a: a.causal,
    ),
    Relation(
        "every word reaches itself and what comes after it", _reaches, asked=lambda a: a.causal
    ),
    Relation("every word reaches every output", _reaches, asked=lambda a: not a.causal),
    Relation("longer sentences are treated as short ones", _longer),
    Relation("what its own masks hide has no influence", must_hide_padding, no_module),
    Relation(
        "the order of the past does not matter to the last word", _ordered, asked=lambda a: a.causal
    ),
    Relation(
        "reordering the words only reorders the outputs", _ordered, asked=lambda a: not a.causal
    ),
)
