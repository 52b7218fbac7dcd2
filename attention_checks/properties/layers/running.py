"""What any layer must do: take one word or many, one sentence or a batch, large numbers and sixteen bits, and forget what it saw."""

from __future__ import annotations

from dataclasses import replace

import torch
import torch.nn as nn
from torch import Tensor

from attention_checks.catalogue import known
from attention_checks.conventions import MASK
from attention_checks.examine import Broken, Misused, NotChecked, attempt, first_line
from attention_checks.numbers import (
    first_difference,
    must_be_tensor,
    must_keep_dtype,
    must_trace,
    nearly,
)
from attention_checks.pipeline import Bug
from attention_checks.properties import (
    Relation,
    Widening,
    gradients_of,
    must_leave_alone,
    must_not_mind_strides,
)
from attention_checks.signatures import parameters_of
from attention_checks.subjects.calling import (
    as_torch,
    first_tensor,
    for_memory,
    needed_by,
    told_by,
)
from attention_checks.subjects.copies import deep_copy, softened_copy
from attention_checks.subjects.layer import (
    SENTENCES,
    Layer,
    draw,
    fits,
    no_module,
    unregistered,
)
from attention_checks.trace.comparing import rightly_read

_LIKELY = (
    2,
    3,
    4,
    6,
    8,
    9,
    10,
    12,
    16,
    25,
    32,
    36,
    49,
    50,
    64,
    77,
    81,
    100,
    128,
    144,
    196,
    197,
    256,
)  # fixed lengths


def _runs(a: Layer) -> str | None:
    x = draw(a)
    try:
        y, rest = a.all(x)
    except Exception as e:
        _must_fit(a, e)
        raise Broken(
            f"x {tuple(x.shape)}: it raised {first_line(e)}", _why_it_raises(a, e)
        ) from None
    must_be_tensor(y)
    if y.shape[-1] == a.n_k != a.d_model and any(
        isinstance(t, Tensor) and t.shape == x.shape for t in rest[:1]
    ):
        shapes = f"{tuple(y.shape)} and {tuple(rest[0].shape)}"
        raise Broken(
            f"x {tuple(x.shape)}: it gives shapes {shapes}", known("shape.weights_and_output")
        )
    if y.ndim != 3 or y.shape[:2] != a.rows(x):
        shown = f"x {tuple(x.shape)}: it gives shape {tuple(y.shape)}, expected ({SENTENCES}, {a.n}, d_out)"
        raise Broken(shown, misrouted(a) or known("shape.rows"))
    must_be_rows(a, x, y)
    return _remark(a)


def _remark(a: Layer) -> str | None:
    "How it is called, where that is not the plain way."
    said = []
    if not a.said_call and as_torch(a.given) and not a.given.batch_first:
        said += [
            "batch_first=False, so it takes (n, b, d_model): x was transposed for it. Handed (b, n, d_model), it attends"
            " over the batch"
        ]
    elif (
        not a.said_call
        and a.beside is not None
        and (names := for_memory(a.given)) != list(parameters_of(a.given) or names)[1:2]
    ):
        said += [f"the memory was given as {' and '.join(names)}"]
    elif not a.said_call and (ends := told_by(needed_by(a.given)[1:])):
        said += [
            f"sentences were laid end to end in one row, and {' and '.join(ends)} said where they end"
        ]
    elif (
        not a.said_call and len(needed := needed_by(a.given)) > 1 and any(map(MASK.search, needed))
    ):
        said += [
            f"forward was called with {', '.join(f'{n}=None' if MASK.search(n) else f'{n}=x' for n in needed[1:])}"
        ]
    said += a.found_out
    said += (
        [f"{a.zeros[0]} is all zero: the copy that was tried got small numbers"] if a.zeros else []
    )
    return "; ".join(said) or None


def must_be_rows(a: Layer, x: Tensor, y: Tensor, mode: str = "") -> None:
    "Raise Broken if the output is not finite, or has another number of rows than the input."
    if y.shape[:2] != a.rows(x):
        raise Broken(
            f"x {tuple(x.shape)}{mode}: it gives shape {tuple(y.shape)}", known("length.words")
        )
    if not y.isfinite().all():
        where, bug = _not_finite(a, y) if y.shape[1] == a.n else ("", known("values.nan_row"))
        raise Broken(f"x {tuple(x.shape)}{mode}: NaN or infinity{where}", bug)


def _not_finite(a: Layer, y: Tensor) -> tuple[str, Bug]:
    "At which words, if not at all, and the bug."
    finite = y.isfinite().all(-1).all(0)
    if a.causal and len(finite) > 1:
        if finite[:-1].all():
            return " at the last word only", known("mask.inverted_last")
        if finite[1:].all():
            return " at the first word only", known("mask.not_itself_first")
        if finite[-1] and not finite[:-1].any():
            return " at all words but the last", known("softmax.over_heads_or_batch")
    hint = ": is a mask multiplied by -inf? (0 · inf is NaN: masked_fill)" if a.causal else ""
    return "", known("values.not_finite", hint=hint)


def _must_fit(a: Layer, e: Exception) -> None:
    "Raise Misused if it takes rows of another width, or no rows at all."
    if "'indices'" in str(e):
        raise Misused(
            "module: expected a layer over rows (b, n, d_model); got one that begins with an embedding of ids"
        )
    linears = (
        [m for m in a.module.modules() if isinstance(m, nn.Linear)]
        if isinstance(a.module, nn.Module)
        else []
    )
    widths = [getattr(a.module, "embed_dim", None), *(m.in_features for m in linears)]
    for width in dict.fromkeys(w for w in widths if isinstance(w, int) and w != a.d_model):
        if attempt(lambda: (a(torch.randn(SENTENCES, a.n, width)),)):
            raise Misused(
                f"{'d_memory' if a.turned else 'd_model'}: expected {width}, the width of the rows that it takes; got {a.d_model}"
            )
    if a.beside is not None and not a.turned:
        _must_fit(a.over_memory, e)


def _why_it_raises(a: Layer, e: Exception) -> Bug:
    "Which sizes it silently needs."
    called = getattr(
        a.module.forward if isinstance(a.module, nn.Module) else a.module, "__qualname__", ""
    )
    if isinstance(e, TypeError) and "argument" in str(e) and called in str(e):
        return known("shape.call")
    if a.beside is not None and (bug := misrouted(a) or _why_not_together(a)):
        return bug
    if (
        longest := next((n - 1 for n in range(1, a.n) if not fits(a, SENTENCES, n)), a.n - 1)
    ) > 1 and a.contract.lengths is None:
        return known("shape.maximum", longest=longest, least=a.n + 1)
    h = a.n_heads or a.n  # nobody knows: then what was tried anyway
    sizes = (1, a.n), (a.n, a.n), (SENTENCES, a.d_model), (SENTENCES, h), (h, h), (SENTENCES, 1)
    codes = "one_sentence", "sentences_words", "words_width", "words_heads", "all_equal", "one_word"
    fit = [code for code, (b, n) in zip(codes, sizes) if fits(a, b, n)]
    if fit and not {"sentences_words", "words_width"} <= set(
        fit
    ):  # of two that fit equally NONE is told
        return known(f"shape.{fit[0]}")
    if n := next((n for n in _LIKELY if fits(a, SENTENCES, n)), 0):
        return known("shape.only_length", n=n)
    if len(needed := needed_by(a.module)) > 1 and a.beside is None:
        return known("shape.arguments", needed=", ".join(needed))
    at_once = isinstance(
        e, (AttributeError, NameError, ImportError, TypeError, NotImplementedError)
    )
    return known("code.error" if at_once else "shape.input", error=type(e).__name__)


def misrouted(a: Layer) -> Bug | None:  # None without a memory
    "Whether projections read the other input, or the output has as many rows as the memory."
    if a.beside is None or a.turned:
        return None
    wrong = {name: role for name, role, right in a.read if not right}
    turned = (
        not a.read and attempt(lambda: a(draw(a)).shape[1]) == a.n_k != a.n
    )  # as many rows as the memory
    if turned or len({role == "q" for role in wrong.values()}) == 2:
        return known("route.exchanged")
    what = "memory" if "q" in wrong.values() else "x"
    return known(f"route.reads_{what}", names=" and ".join(wrong)) if wrong else None


def _why_not_together(a: Layer) -> Bug | None:
    "Whether it takes words first, or as many words of both only."
    turned = replace(a, contract=replace(a.contract, layout=a.contract.layout or "nbd"))
    square = replace(a, beside=draw(a.over_memory, 1, a.n))
    return next(
        (
            known(code)
            for code, b in (("batch.axes", turned), ("shape.only_square", square))
            if fits(b, SENTENCES, a.n)
        ),
        None,
    )


def _repeats(a: Layer) -> None:
    x = draw(a)
    with torch.no_grad():
        first, second = a(x), a(x)
    if not nearly(first, second, 1e-5, equal_nan=True):
        shown = f"called twice in evaluation: {first_difference(second, first, 1e-5)}"
        raise Broken(shown, _chance_or_state(a, x), last=True)
    must_be_rows(a, x, first, ", without gradients")
    y = a(x)
    if not nearly(y.detach(), first, 1e-4):
        raise Broken(
            f"with and without gradients: {first_difference(y, first, 1e-4)}", known("mode.no_grad")
        )


def _chance_or_state(a: Layer, x: Tensor) -> Bug:
    "Why two calls differ: modules that eval() does not reach, something kept, or chance."
    if isinstance(a.module, nn.Module) and (hidden := unregistered(a.module)):
        return known("dropout.unreached", name=hidden)
    outs = [attempt(lambda: (torch.manual_seed(0), a(x).detach())[1]) for _ in range(2)]
    if outs[1] is None or not nearly(outs[0], outs[1], 1e-5):
        return known("state.kept")
    bare = isinstance(a.module, nn.Module) and not any(True for _ in a.module.parameters())
    return known("dropout.in_evaluation", anew=" (it has no parameters of its own)" * bare)


def must_forget(a: Layer) -> None:
    "Raise Broken if something is kept from call to call, so that other inputs before change what it gives."
    x = draw(a)
    first = a(x)
    _short_then_long(a, x, first)
    others = (
        a.lengths(a.n - 2, a.n, a.n + 1, a.n - 1)
        if a.contract.lengths is None
        else a.contract.allowed[:4]
    )
    for b, n in ((SENTENCES - (n == a.n), n) for n in others):
        try:
            a(draw(a, b, n, seed=n))
        except Exception as e:
            if n > a.n:
                continue  # a layer may have a maximum
            shown = f"after a call with n = {a.n}, one with b = {b}, n = {n} raised {first_line(e)}"
            raise Broken(shown, known("length.only")) from None
    if not nearly(a(x), first, 1e-5):
        raise Broken(
            "called again after other inputs, it gives another answer", known("state.kept")
        )


def _short_then_long(a: Layer, x: Tensor, want: Tensor) -> None:
    "A layer that has seen a short sentence first must do as well on a longer one."
    if not isinstance(a.fresh, nn.Module):
        return
    short = next(iter(a.lengths(a.n - 3) or a.contract.allowed), a.n)
    fresh, shown = deep_copy(a.fresh), f"first n = {short}, then n = {a.n}: "
    a.call(fresh, draw(a, SENTENCES, short, seed=7))
    try:
        got = a.first(fresh, x)
    except Exception as e:
        raise Broken(f"{shown}it raised {first_line(e)}", known("state.first_length")) from None
    if not nearly(got, want):
        raise Broken(f"{shown}{first_difference(got, want)}", known("state.first_length"))


def must_not_mix(a: Layer) -> None:
    "Raise Broken if a sentence of a batch comes out other than alone."
    x = draw(a)
    together = a(x)
    for i in range(SENTENCES):
        if not nearly(alone := a(x[i : i + 1]), together[i : i + 1]):
            shown = f"sentence {i} alone and in a batch of {SENTENCES}: {first_difference(alone, together[i : i + 1])}"
            raise Broken(shown, _mixed(a, x))
    moved = x.clone()
    moved[1] = -2 * moved[1] + 1
    if not nearly(a(moved)[0], together[0]):
        raise Broken("changing sentence 1 moves sentence 0", _mixed(a, x))


def _mixed(a: Layer, x: Tensor) -> Bug:
    "Sentences mix; is it because the axes are the other way round?"
    moved = x.clone()
    moved[:, 0] = -2 * moved[:, 0] + 1  # the first word: all others see it, in a causal layer too
    return known(
        "batch.axes" if attempt(lambda: nearly(a(moved)[:, 1:], a(x)[:, 1:])) else "batch.mixes"
    )


def _traces(a: Layer) -> None:
    must_trace(lambda t: a.first(a.module, t), draw(a, 2, a.contract.usual(3)))


def must_take_one(a: Layer) -> None:
    "Raise Broken if it cannot do with one word, or with one sentence."
    for b, n in ((1, a.n), (SENTENCES, 1), (1, 1), (SENTENCES, 2)):
        if not a.contract.takes(n):
            continue
        x = draw(a, b, n)
        bug = known(
            "length.breaks",
            what="one word" if n == 1 else "one sentence" if b == 1 else "two words",
        )
        try:
            y = a(x)
        except Exception as e:
            raise Broken(f"x {tuple(x.shape)}: it raised {first_line(e)}", bug) from None
        if y.shape[:2] != a.rows(x) or y.ndim != 3:
            raise Broken(f"x {tuple(x.shape)}: it gives shape {tuple(y.shape)}", bug)
        if not y.isfinite().all():
            raise Broken(f"x {tuple(x.shape)}: NaN or infinity", bug, symptom=True)


def must_leave_inputs(a: Layer) -> None:
    "Raise Broken if it changes its input, or minds how that lies in memory."
    must_leave_alone(lambda x: a.first(a.module, x), {"memory" if a.turned else "x": draw(a)})
    must_not_mind_strides(lambda x: a.first(a.module, x), draw(a))


def _finite(gradient: Tensor | None) -> bool:
    return gradient is None or bool(gradient.isfinite().all())


def must_stay_finite(a: Layer) -> None:
    "Raise Broken if large inputs give values or gradients that are not finite."
    for factor in (30.0, 300.0):
        x = (draw(a) * factor).requires_grad_()
        y, shown = a(x), f"inputs {factor:g} times as large: the "
        if not y.isfinite().all():
            raise Broken(f"{shown}output is NaN or infinite", known("softmax.overflows"))
        if y.requires_grad and not _finite(gradients_of(y.sum(), [x])[0]):
            raise Broken(f"{shown}gradient is NaN or infinite", known("softmax.overflows"))


def must_stand_sixteen_bits(a: Layer) -> str | None:  # how it was tried
    "Raise Broken unless sixteen bits give finite, nearly equal values of their type."
    x, softened = draw(a), []
    want = a(x).detach()
    for dtype, tolerance in ((torch.bfloat16, 0.06), (torch.float16, 0.02)):
        y = _sixteen(a, x, dtype)
        if not y.isfinite().all():
            raise Broken(
                f"{dtype}: the output is NaN or infinite", known("dtype.overflows", dtype=dtype)
            )
        must_keep_dtype(y, dtype, "x")
        atol = tolerance * max(1.0, want.abs().max().item())
        if nearly(y.float(), want, atol):
            continue
        softened += [str(dtype)]
        if not _close_if_calm(a, x, dtype, tolerance):
            raise Broken(
                f"{dtype}: {first_difference(y.float(), want, atol)}",
                known("dtype.loses", dtype=dtype),
            )
    return (
        f"in {' and '.join(softened)} small weights were tried: with its own, scores are so large that rounding chooses"
        if softened
        else None
    )


def _sixteen(a: Layer, x: Tensor, dtype: torch.dtype) -> Tensor:
    "The output in sixteen bits, with an error read for what it tells. Layers made for autocast are right too."
    watch = Widening()
    try:
        with watch:
            return a.first(deep_copy(a.module).to(dtype), x.to(dtype)).detach()
    except Exception as e:
        if isinstance(e, RuntimeError) and "overflow" in str(e):
            raise Broken(
                f"{dtype}: it raised {first_line(e)}", known("dtype.no_infinity")
            ) from None
        if watch.to_blame:
            raise Broken(f"{dtype}: it raised {first_line(e)}", known("dtype.widens")) from None
        why, mixed = (
            f"{dtype} raises {first_line(e, 90)}",
            "dtype" in str(e) or "scalar type" in str(e),
        )
        with torch.autocast("cpu", torch.bfloat16):
            helps = (
                "under torch.autocast it runs"
                if fits(a, SENTENCES, a.n)
                else "torch.autocast does not help"
            )
        raise NotChecked(
            why
            + f": something in forward stays float32, such as a mask or a table; {helps}" * mixed
        ) from None


def _close_if_calm(a: Layer, x: Tensor, dtype: torch.dtype, tolerance: float) -> bool:
    "Whether 16 bits do with small weights: where scores are large, rounding alone may choose another word."
    softened = softened_copy(a.module)
    want = a.first(softened, x).detach()
    got = a.first(softened.to(dtype), x.to(dtype)).detach().float()
    return bool((got - want).abs().max() <= tolerance * want.abs().max())


def _returned(a: Layer) -> None:
    rest, shown = (
        [t for t in a.all(draw(a))[1] if isinstance(t, Tensor)],
        "what it returns beside the output ",
    )
    found = [
        t.detach()
        for t in rest
        if t.is_floating_point()
        and t.ndim in (3, 4)
        and t.shape[-2:] == (a.n, a.n_k)
        and len(t) == SENTENCES
    ]
    if not found:
        raise NotChecked("it returns no weights")
    if "weigh" in (attempt(lambda: a.trace.own) or ()):
        raise NotChecked("a sink takes a share of each row")
    w, total, columns = found[0], found[0].sum(-1), found[0].sum(-2)
    one = torch.ones_like(total)
    if (
        (w >= 0).all()
        and nearly(columns, torch.ones_like(columns))
        and not nearly(total, one, 1e-3)
    ):
        raise Broken(
            f"{shown}has columns that sum to 1, and rows that do not",
            known("weights.returned_transposed"),
        )
    meant = (
        (w >= -1e-6).all()
        and (total > -1e-6).all()
        and (total < 4).all()
        and 0.5 < total.mean() < 2
    )  # no scores, no bias
    if not meant:
        if len(found) == 1 and attempt(lambda: _are_scores(a)):
            raise Broken(f"the softmax of {shown}is its weights", known("weights.returned_scores"))
        raise NotChecked(f"{shown}is not meant as weights: rows sum to {total.min():.4g} …")
    if not nearly(total, one, 1e-3):
        code = "after_dropout" if nearly(total.mean(), torch.tensor(1.0)) else "returned_sums"
        raise Broken(
            f"{shown}has rows that sum to {total.min():.4g} … {total.max():.4g}",
            known(f"weights.{code}"),
        )
    if a.causal and (w.triu(1) > 1e-6).any():
        raise Broken("the returned weights look at the future", known("weights.returned_future"))


def _are_scores(a: Layer) -> bool:
    "Whether what comes with the output becomes the weights of its own queries and keys by a softmax."
    t = a.trace
    if not (work := rightly_read(t, a.n_heads, a.causal)):
        return False
    rest = first_tensor((a.call if t.memory is None else a.calling(t.memory))(a.module, t.x))[1]
    found = [
        s.detach() for s in rest if isinstance(s, Tensor) and s.numel() == work.weights.numel()
    ]  # one head may have no axis
    return any(
        nearly((factor * s).softmax(-1).view_as(work.weights), work.weights)
        for s in found
        for factor in (1.0, work.scale)
    )


RUNS = (
    Relation("it runs, and gives one row per word: (b, n, d_out)", _runs),
    Relation("the same inputs give the same answer in evaluation", _repeats),
)
CALLS = (
    Relation("nothing is kept from call to call", must_forget),
    Relation("sentences of a batch do not mix", must_not_mix),
)
EDGES = (
    Relation("one word, one sentence", must_take_one),
    Relation("inputs are not modified, and need not be contiguous", must_leave_inputs),
    Relation("large inputs give finite values and gradients", must_stay_finite),
    Relation(
        "float16 and bfloat16 give finite, nearly equal values",
        must_stand_sixteen_bits,
        no_module,
        asked=lambda a: a.contract.dtype is None,
    ),
    Relation("weights that it returns are weights", _returned),
    Relation(
        "torch.compile and torch.export change nothing",
        _traces,
        no_module,
        asked=lambda a: a.contract.compiles,
    ),
)
