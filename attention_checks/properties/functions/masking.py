"""What may influence what: the future does not, nor what a mask forbids, whatever its shape."""

from functools import partial

import torch
from torch import Tensor

from attention_checks.catalogue import known
from attention_checks.explaining.pipeline import Bug
from attention_checks.numbers.autograd import gradients_of
from attention_checks.numbers.tensors import first_difference, must_be_near, nearly, sizes_of
from attention_checks.numbers.tolerance import LONG_SUMS
from attention_checks.outcomes import Broken, NotChecked, attempt, first_line
from attention_checks.properties import Property
from attention_checks.properties.equivariance import code_of_leak, first_leak
from attention_checks.properties.functions.lengths import any_length, name_empty
from attention_checks.properties.gradients import must_match_gradients
from attention_checks.subjects.function import SQUARE, Sizes
from attention_checks.subjects.function_facts import MANY, ExaminedFunction, draw_many
from attention_checks.subjects.masks import PLAIN
from attention_nb.masks import causal_mask


def _must_hide_future(subject: ExaminedFunction) -> None:
    "The future cannot reach the past."
    lengths_declared = subject.contract.lengths is not None
    sizes = subject.usual if subject.causal is True or lengths_declared else subject.at(SQUARE)
    q, k, v = sizes.draw()
    for grad in (False, True):
        with torch.set_grad_enabled(grad):
            run = partial(_context, subject, q)
            if leak := first_leak(run, [k, v], (1.0, 1e3), run(k, v)):
                code = code_of_leak(run, [k, v], leak) if leak.factor > 1 else "mask.leaks"
                mode = "" if grad else ", under no_grad"
                how = f"changing key and value {leak.token} changes context {leak.output}"
                raise Broken(f"n = {sizes.n_q}{mode}: {how}", known(code))


def _context(subject: ExaminedFunction, *qkv: Tensor) -> Tensor:
    "Return the context, in the type of the values; inputs want gradients where those are on."
    wanted = torch.is_grad_enabled()
    return subject(*(t.to(qkv[-1], copy=True).requires_grad_(wanted) for t in qkv)).detach()


def _must_have_gradients(subject: ExaminedFunction) -> None:
    "Gradients are those of the oracle."
    reach = subject.reach
    if reach and reach.window == 1 and not reach.sinks:
        raise NotChecked("through a window of one, nothing depends on queries and keys")
    must_match_gradients()(subject)


INFLUENCE = (
    Property.of(
        _must_hide_future, symptom_unless=("finite",), applies=lambda subject: bool(subject.causal)
    ),
    Property.of(_must_have_gradients, differentiates=True),
)


def _must_hide(subject: ExaminedFunction) -> None:
    "The mask decides: what is forbidden has no influence."
    if subject.hiding:
        raise subject.hiding.with_traceback(None)
    _must_hide_many(subject)


def _must_hide_many(subject: ExaminedFunction) -> None:
    "Raise Broken if a mask of many keys is wrong; the last query may not attend to the first ones."
    q, k, v = draw_many(subject)
    mask = subject.style.some_mask(q.shape[-2], MANY).clone()
    if not subject.style.of_keys:
        mask[-1, :64] = False
    got = attempt(lambda: subject(q, k, v, mask).detach())
    want = subject.reference(q, k, v, mask)
    if got is None or not subject.right_for_many_keys:
        return  # None: its mask has a length of its own
    if got.shape != want.shape or nearly(got, want, LONG_SUMS):
        return
    shown = f"{sizes_of(q=q, k=k, v=v, mask=mask)}: {first_difference(got, want, LONG_SUMS)}"
    raise Broken(shown, known("blocks.mask"))


def _must_take_mask_shapes(subject: ExaminedFunction) -> None:
    "A mask may differ between sequences, and broadcast."
    sizes = subject.usual
    b, h, n_q, n_k, *_ = sizes
    sound, rng = subject.sound and subject.mask_sound, torch.Generator().manual_seed(6)
    for shape in ((n_q, n_k), (n_q, n_q), (b, 1, n_q, n_k), (b, h, n_q, n_k), (b, 1, 1, n_k)):
        mask = torch.rand(shape, generator=rng) < 0.6
        mask[..., 0] = True
        if not _fits(subject, shape, sizes):
            continue
        q, k, v = sizes._replace(n_k=shape[-1]).draw()
        got, want = _masked(subject, q, k, v, mask), subject.reference(q, k, v, mask)
        if shape == (n_q, n_k):
            sound = nearly(got, want)
        elif sound:
            must_be_near(got, want, f"a mask of shape {shape}", known("mask.axis"))


def _masked(subject: ExaminedFunction, q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    "Return the context under a mask; raise Broken if it raises."
    try:
        return subject(q, k, v, mask)
    except Exception as e:
        scores = (*q.shape[:-1], subject.usual.n_k)
        shown = f"a mask of shape {tuple(mask.shape)} for scores {scores}"
        bugs = subject.hiding.bugs if subject.hiding else known("mask.broadcast")
        shown = f"{shown}: it raised {first_line(e, 100)}"
        raise Broken(shown, bugs, symptom=not subject.mask_sound) from None


def _fits(subject: ExaminedFunction, shape: tuple[int, ...], sizes: Sizes) -> bool:
    "Return whether the style of calling has a mask of this shape."
    style = subject.style
    if style.flat and len(shape) == 4:
        return False
    if style.form != PLAIN and shape[:2] == (sizes.b, sizes.h):
        return False
    return not style.of_keys or shape[-2] == 1


def _must_give_zero(subject: ExaminedFunction) -> None:
    "A query that may attend to nothing gets zero, with finite gradients."
    if subject.style.of_keys:
        raise NotChecked("its mask is the same for all queries")
    q, k, v = (t.requires_grad_() for t in subject.usual.draw())
    mask = causal_mask(q.shape[-2], k.shape[-2]).clone()
    mask[1] = False
    out = subject(q, k, v, mask)
    context = out[..., 1, :].detach()
    shown = "query 1 may attend to nothing"
    if subject.contract.empty == "nan" and context.isnan().all():
        return
    if not context.isfinite().all() or (context != 0).any():
        shown = f"{shown}: its context is {context.flatten()[0].item():.4g}, expected 0"
        raise Broken(shown, _empty_bugs(subject, context))
    grads = gradients_of(out.square().sum(), (q, k, v)) if out.requires_grad else ()
    for name, grad in zip("qkv", grads):
        if grad is not None and not grad.isfinite().all():
            raise Broken(f"{shown}: the gradient of {name} is NaN", known("mask.empty_gradient"))


def _empty_bugs(subject: ExaminedFunction, context: Tensor) -> tuple[Bug, ...]:
    "Say what a query that may attend to nothing gets, and whether another bug tells why."
    hiding = subject.hiding.bugs if subject.hiding else ()
    empty = name_empty(context, subject.usual.draw()[2])
    causes = {"mask.empty_nan": "mask.nan", "mask.empty_mean": "mask.leaks_if_low"}
    explained = any(bug.code == causes.get(empty.code) for bug in hiding)
    return hiding if explained else (empty,)


def _why_not_tried(subject: ExaminedFunction) -> str:
    "Say why its masks tell nothing more; empty if they do."
    if subject.no_mask or not (mismatch := subject.mask_mismatch):
        return subject.no_mask
    return mismatch.bug if mismatch.bugs[0].code.startswith(("bias", "mask.ignored")) else ""


HIDING = (
    Property.of(_must_hide, lambda subject: subject.no_mask),
    Property.of(
        _must_take_mask_shapes,
        _why_not_tried,
        symptom_unless=("sound", "mask_sound"),
        applies=any_length,
    ),
    Property.of(
        _must_give_zero,
        _why_not_tried,
        symptom_unless=("sound", "mask_sound"),
        applies=lambda subject: subject.contract.empty != "any",
    ),
)
