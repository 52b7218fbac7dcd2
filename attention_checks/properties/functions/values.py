"""An attention function runs, repeats itself, gives the oracle's numbers, and its weights are weights."""

from __future__ import annotations

import torch
from torch import Tensor

from attention_checks.catalogue import known
from attention_checks.examine import Broken, Misused, NotChecked, attempt, first_line
from attention_checks.numbers import first_difference, must_repeat, nearly, sizes_of
from attention_checks.pipeline import Bug, tolerance_factor
from attention_checks.properties import Relation, must_agree
from attention_checks.properties.functions.naming import used_weights
from attention_checks.subjects.facts import Subject
from attention_checks.subjects.function import CUBE, EQUAL, MEANINGS, SQUARE, Sizes


def _runs(a: Subject) -> str | None:
    q, k, v = a.usual.draw()
    try:
        context = a(q, k, v)
    except (Misused, NotImplementedError):
        raise
    except (RuntimeError, ValueError, IndexError, AssertionError, TypeError) as e:
        if "numpy" in str(e) or "ArrayType" in str(e):
            raise Misused(
                f"fn: expected a function of torch tensors; given some it raised {first_line(e)}"
            ) from None
        bug, shown = (
            _why_it_raises(a, e),
            f"{sizes_of(q=q, k=k, v=v)}: it raised {first_line(e, 200)}",
        )
        raise Broken(shown, bug, symptom=bug.code in _ONLY_AT) from None
    want = (*q.shape[:-1], v.shape[-1])
    if tuple(context.shape) != want:
        shown = f"{sizes_of(q=q, k=k, v=v)}: it gives shape {tuple(context.shape)}, expected {want}"
        raise Broken(shown, _shape_bug(a, context, want))
    if not context.is_floating_point():
        raise Broken(f"it gives {context.dtype}", known("dtype.integer"))
    return _remark(a)


def _remark(a: Subject) -> str | None:
    "How it is called, where that is not the plain way."
    m, said = a.style, []
    said += ["it takes (b, n, d): heads were handed to it as further sentences"] if m.flat else []
    said += [f"its mask was given as {m.form}"] if m.form else []
    said += [f"its mask was taken to mean: {MEANINGS[m.meaning]}"] if m.meaning != a.said else []
    return "; ".join(said) or None


def _shape_bug(a: Subject, context: Tensor, want: tuple[int, ...]) -> Bug:
    "Say what an output of the wrong shape is."
    q, k, v = a.usual.draw()
    rest = a.raw(q, k, v)[1]
    if rest and isinstance(rest[0], Tensor) and tuple(rest[0].shape) == want:
        return known("shape.weights_first")
    if context.shape == q.shape:
        return known(
            "shape.keys_wide",
            used="keys" if nearly(context, a.oracle(q, k, k)) else "keys or queries",
        )
    if tuple(context.shape) == (*q.shape[:-1], k.shape[-2]):
        return known("shape.weights")
    return known("shape.axes" if sorted(context.shape) == sorted(want) else "shape.other")


_ONLY_AT = {  # the sizes at which code works that silently needs an equality
    "shape.only_square": SQUARE,
    "shape.only_equal_widths": Sizes(d_v=17),
    "shape.only_cube": CUBE,
    "shape.only_length_width": Sizes(n_q=5, n_k=5, d_k=5, d_v=5),
    "shape.only_heads_length": Sizes(h=5, n_q=5, n_k=5),
    "shape.only_batch_heads": Sizes(h=2, b=2),
    "shape.only_equal": EQUAL,
}


def _why_it_raises(a: Subject, e: Exception) -> Bug:
    "It raised at all-different sizes: find out which equality it silently needs."
    q, k, v = a.usual.draw()
    turned = [t.transpose(1, 2) for t in (q, k, v)]  # heads behind words, (b, n, h, d)
    if attempt(lambda: nearly(a(*turned).transpose(1, 2), a.oracle(q, k, v))):
        return known("heads.layout")
    for code, sizes in _ONLY_AT.items():
        sizes = sizes._replace(n_k=sizes.n_q) if a.causal is True else sizes
        if attempt(lambda: a(*sizes.draw())) is not None:
            return known(code)
    return known("shape.fails", error=type(e).__name__)


def _repeats(a: Subject) -> None:
    first, other = a.usual.draw(), a.usual.draw(5)
    must_repeat(lambda: a(*first), lambda: a(*other))
    got, want = a(*other), a.oracle(*other)
    if nearly(got, want) or not nearly(a(*first), a.oracle(*first)):
        return
    for kept in ("v", "k", "kv", "q", "qv", "qk", "qkv"):
        mixed = [old if name in kept else new for name, old, new in zip("qkv", first, other)]
        if nearly(got, a.oracle(*mixed)):
            shown = f"right in its first call, and then with other inputs: {first_difference(got, want)}"
            raise Broken(shown, known("state.first_call", kept=" and ".join(kept)), last=True)


def _weights(a: Subject) -> None:
    q, k, _ = a.usual.draw()
    w = attempt(lambda: used_weights(a, q, k))
    if w is None:
        raise NotChecked("it does not take values of width n_k")
    if not w.isfinite().all():
        shown = "with one-hot values it gives NaN or infinity"
        raise Broken(
            shown, a.mismatch.bugs if a.mismatch else known("weights.infinite"), symptom=True
        )
    if (w < -1e-5).any():
        raise Broken(f"the smallest weight is {w.min():.4g}", known("weights.negative"))
    total = w.sum(-1)
    if (total - 1).abs().max() > (2e-5 * tolerance_factor() if w.dtype == torch.float32 else 1e-3):
        columns = (w.sum(-2) - 1).abs().max() < 1e-3
        shown = (
            f"rows sum to {total.min():.6g} … {total.max():.6g}{', columns to 1' * bool(columns)}"
        )
        raise Broken(shown, known("weights.columns" if columns else "weights.sums"))


def _returned(a: Subject) -> None:
    q, k, v = a.usual.draw()
    _, rest = a.raw(q, k, v)
    found = [
        t for t in rest if isinstance(t, Tensor) and t.shape[-2:] == (q.shape[-2], k.shape[-2])
    ]
    if not found:
        raise NotChecked("it returns no weights")
    w = found[0].unflatten(0, q.shape[:2]) if a.style.flat and found[0].ndim == 3 else found[0]
    if w.shape != (*q.shape[:-1], k.shape[-2]):
        raise NotChecked(f"what it returns beside the context has shape {tuple(w.shape)}")
    if a.finite and not w.isfinite().all():
        raise Broken(
            "returned weights are NaN or infinite, and the context is not",
            known("weights.returned_nan"),
        )
    if not nearly(w @ v, context := a(q, k, v), equal_nan=True):
        sums = w.sum(-1)
        kind = "scores" if not nearly(sums, torch.ones_like(sums)) else "other"
        shown = f"returned weights times v: {first_difference(w @ v, context)}"
        raise Broken(
            f"{shown}; their rows sum to {sums.min():.4g} … {sums.max():.4g}",
            known(f"weights.returned_{kind}"),
        )


def _hull(a: Subject) -> None:
    q, k, v = a.usual.draw()
    context = a(q, k, v)
    low, high = (f(v, -2, keepdim=True) for f in (torch.amin, torch.amax))
    if not ((context >= low - 1e-4) & (context <= high + 1e-4)).all():
        bug = known("context.outside" if context.isfinite().all() else "values.nan")
        raise Broken("a context leaves the range of the values", bug)


VALUES = (
    Relation("it runs, and the context has the shape (b, h, n_q, d_v)", _runs),
    Relation("the same inputs give the same answer", _repeats),
    Relation(
        "it agrees with the oracle: softmax(q kᵀ · scale) v", must_agree, compares="the oracle"
    ),
    Relation("weights are not negative, and each row sums to 1", _weights),
    Relation("the weights that it returns are those that it used", _returned, after=("finite",)),
    Relation("contexts lie between the smallest and the largest value", _hull),
)
