"""A function runs, repeats itself, gives the oracle's numbers, and its weights are weights."""

import torch
from torch import Tensor

from attention_checks.catalogue import known
from attention_checks.explaining.pipeline import Bug
from attention_checks.numbers.tensors import first_difference, nearly, sizes_of
from attention_checks.numbers.tolerance import LONG_SUMS, SHORT_SUMS, tolerance_factor
from attention_checks.outcomes import (
    Broken,
    Misused,
    NotChecked,
    attempt,
    code_told_by,
    first_line,
    runs,
)
from attention_checks.properties import Property, must_agree
from attention_checks.properties.functions.recognising import used_weights
from attention_checks.properties.state import must_repeat
from attention_checks.subjects.function import CUBE, EQUAL, SQUARE, Sizes
from attention_checks.subjects.function_facts import ExaminedFunction
from attention_checks.subjects.masks import PLAIN


def _must_give_a_context(subject: ExaminedFunction) -> str | None:
    "It runs, and the context has the shape (b, h, n_q, d_v)."
    q, k, v = subject.usual.draw()
    shown = sizes_of(q=q, k=k, v=v)
    try:
        context = subject(q, k, v)
    except (Misused, NotImplementedError):
        raise
    except (RuntimeError, ValueError, IndexError, AssertionError, TypeError) as e:
        if "numpy" in str(e) or "ArrayType" in str(e):
            why = f"expected a function of torch tensors; given some it raised {first_line(e)}"
            raise Misused(f"fn: {why}") from None
        bug = _why_it_raises(subject, e)
        raise Broken(f"{shown}: it raised {first_line(e, 200)}", bug) from None
    want = (*q.shape[:-1], v.shape[-1])
    if tuple(context.shape) != want:
        shown = f"{shown}: it gives shape {tuple(context.shape)}, expected {want}"
        raise Broken(shown, _shape_bug(subject, context, want))
    if not context.is_floating_point():
        raise Broken(f"it gives {context.dtype}", known("dtype.integer"))
    return _remark(subject)


def _remark(subject: ExaminedFunction) -> str | None:
    "Say how it is called, where that is not the plain way."
    style, remarks = subject.style, []
    if style.flat:
        remarks.append("it takes (b, n, d): heads were given as further sequences")
    if style.form != PLAIN:
        remarks.append(f"its mask was given as {style.form}")
    if style.meaning != subject.declared_meaning:
        remarks.append(f"its mask was taken to mean: {style.entries}")
    return "; ".join(remarks) or None


def _shape_bug(subject: ExaminedFunction, context: Tensor, want: tuple[int, ...]) -> Bug:
    "Say what an output of the wrong shape is."
    q, k, v = subject.usual.draw()
    rest = subject.call_on_copies(q, k, v)[1]
    if rest and isinstance(rest[0], Tensor) and tuple(rest[0].shape) == want:
        return known("shape.weights_first")
    if context.shape == q.shape:
        of_keys = nearly(context, subject.reference(q, k, k))
        return known("shape.keys_wide", used="keys" if of_keys else "keys or queries")
    weights = tuple(context.shape) == (*q.shape[:-1], k.shape[-2])
    return known("shape.weights" if weights else "shape.axes")


_ONLY_AT = (  # the sizes at which code works that silently needs an equality
    ("shape.values_as_wide", Sizes(d_v=17)),
    ("shape.only_square", SQUARE),
    ("shape.only_equal", CUBE),
    ("shape.only_equal", Sizes(n_q=5, n_k=5, d_k=5, d_v=5)),
    ("shape.only_equal", EQUAL),
)


def _why_it_raises(subject: ExaminedFunction, e: Exception) -> Bug:
    "It raised where all sizes differ: find out which equality it silently needs."
    for code, sizes in _ONLY_AT:
        if subject.causal is True:
            sizes = sizes._replace(n_k=sizes.n_q)
        if runs(lambda: subject(*sizes.draw())):
            return known(code)._replace(symptom=True)  # numbers at these sizes may tell more
    return known(code_told_by(e) or "shape.fails", error=type(e).__name__)


def _must_have_weights(subject: ExaminedFunction) -> None:
    "Weights are not negative, and those of each query sum to 1."
    q, k, _ = subject.usual.draw()
    weights = attempt(lambda: used_weights(subject, q, k))
    if weights is None:
        raise NotChecked("it does not take values of width n_k")
    if not weights.isfinite().all():
        bugs = subject.mismatch.bugs if subject.mismatch else known("values.nan")
        raise Broken("with one-hot values it gives NaN or infinity", bugs, symptom=True)
    if (weights < -SHORT_SUMS).any():
        shown = f"the smallest weight is {weights.min():.4g}"
        raise Broken(shown, known("weights.negative"))
    total = weights.sum(-1)
    atol = 2e-5 * tolerance_factor() if weights.dtype == torch.float32 else LONG_SUMS
    if (total - 1).abs().max() > atol:
        columns = (weights.sum(-2) - 1).abs().max() < LONG_SUMS
        shown = f"the weights of a query sum to {total.min():.6g} … {total.max():.6g}"
        raise Broken(shown, known("weights.columns" if columns else "weights.sums"))


def _must_return_used_weights(subject: ExaminedFunction) -> None:
    "The weights that it returns are those that it used."
    q, k, v = subject.usual.draw()
    _, rest = subject.call_on_copies(q, k, v)
    matrix = (q.shape[-2], k.shape[-2])
    returned = [t for t in rest if isinstance(t, Tensor) and t.shape[-2:] == matrix]
    if not returned:
        raise NotChecked("it returns no weights")
    weights = returned[0]
    if subject.style.flat and weights.ndim == 3:
        weights = weights.unflatten(0, q.shape[:2])
    if weights.shape != (*q.shape[:-1], k.shape[-2]):
        shape = tuple(weights.shape)
        raise NotChecked(f"what it returns beside the context has shape {shape}")
    got, context = weights @ v, subject(q, k, v)
    if not nearly(got, context, equal_nan=True):
        sums = weights.sum(-1)
        scores = sums.isfinite().all() and not nearly(sums, torch.ones_like(sums))
        code = "weights.returned_scores" if scores else "weights.returned_other"
        shown = f"returned weights times v: {first_difference(got, context)}"
        sums_shown = f"{sums.min():.4g} … {sums.max():.4g}"
        raise Broken(f"{shown}; the weights of a query sum to {sums_shown}", known(code))


VALUES = (
    Property.of(_must_give_a_context),
    Property("the same inputs give the same answer", must_repeat),
    Property(
        "it agrees with the oracle: softmax(q kᵀ · scale) v", must_agree, compares="the oracle"
    ),
    Property.of(_must_have_weights, applies=lambda subject: not subject.contract.attend),
    Property.of(_must_return_used_weights, symptom_unless=("sound",)),
)
