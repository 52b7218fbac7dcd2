"""Change what goes in, and say what must come out: what holds for any function of tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from attention_checks.catalogue import known
from attention_checks.examine import Broken, NotChecked, Property, first_line
from attention_checks.numbers import first_difference, must_keep_dtype, nearly
from attention_checks.pipeline import Bug


class Relation(NamedTuple):
    "One thing that must hold, for a subject under test."

    name: str  # what must hold, in one sentence
    holds: Callable[
        [Any], str | None
    ]  # raises Broken or NotChecked; may return a remark on how it was tried
    needs: Callable[[Any], str] = lambda subject: (
        ""
    )  # why it does not apply to a subject; empty if it does
    after: tuple[
        str, ...
    ] = ()  # facts of the subject; where one is not true, a failure is only a symptom
    compares: str = ""  # what the subject's numbers are compared with, if they are
    asked: Callable[[Any], bool] = lambda subject: (
        True
    )  # False: its author did not promise it, so it is not listed


Properties = list[Property]


def listed(
    relations: Sequence[Relation],  # in the order of trying
    subject: Callable[[], Any],  # gives what is under test
) -> Properties:  # names, and what tries them
    "Tie relations to a subject."
    return [Property(row.name, partial(_tried, row, subject), row.compares) for row in relations]


def _tried(row: Relation, of: Callable[[], Any]) -> str | None:
    "Try one relation."
    subject = of()
    if why := row.needs(subject):
        raise NotChecked(why)
    try:
        return row.holds(subject)
    except Broken as e:
        if all(getattr(subject, fact) for fact in row.after):
            raise
        raise Broken(e.example, e.bugs, symptom=True, last=e.last) from None


def outcome(
    holds: Callable[[], Any],  # raises Broken if something does not hold
) -> Broken | None:  # what does not hold, as a value
    "Tell what a relation finds, without raising it."
    try:
        holds()
    except Broken as e:
        return e
    return None


def must_agree(
    subject: Any,  # with a fact `mismatch`: how its numbers differ from the right ones, None if they do not
) -> None:
    "Raise Broken if the subject's numbers are not right."
    if subject.mismatch:
        raise subject.mismatch


_Call = Callable[..., Tensor]


def must_have_gradients(
    f: _Call,  # the code under test
    oracle: _Call,  # slow code that is right
    inputs: Mapping[str, Tensor],  # its arguments by name
    compare: bool = True,  # are its values right, so that gradients must be, too?
    atol: float = 1e-3,  # how close is the same
) -> None:
    "Raise Broken unless gradients reach every input, and are those of the oracle."
    grads = [_gradients(g, inputs) for g in (f, oracle)]
    for name, got, want in zip(inputs, *grads):
        if got is None or (got == 0).all():
            raise Broken(
                f"the gradient of {name} is zero",
                known("grad.unreached", name=name),
                symptom=not compare,
            )
        if compare and not nearly(got, want, atol):
            raise Broken(
                f"gradient of {name}: {first_difference(got, want, atol)}", known("grad.wrong")
            )


def gradients_of(
    out: Tensor,  # what was computed
    leaves: Sequence[Tensor],  # from what
    up: Tensor | None = None,  # the gradient of `out`; None: of a single number
) -> tuple[Tensor | None, ...]:  # one for each, None where nothing depends on it
    "Differentiate, also what only `backward()` can, as reentrant checkpoints."
    out = (
        out if up is None else (out * up).sum()
    )  # handed to PyTorch as it is, `up` would make it import its compiler
    if not reenters(out):
        return torch.autograd.grad(out, leaves, allow_unused=True)
    kept = [t.grad for t in leaves]
    try:
        for t in leaves:
            t.grad = None
        out.backward()
        return tuple(t.grad for t in leaves)
    finally:
        for t, grad in zip(leaves, kept):
            t.grad = grad


def reenters(
    out: Tensor,  # what was computed
) -> bool:  # True: only `backward()` reaches what lies inside
    "Say whether a checkpoint lies on the way back whose inside is hidden until then."
    seen, steps = set(), [out.grad_fn]
    while steps:
        step = steps.pop()
        if step is None or step in seen:
            continue
        if step.name() == "CheckpointFunctionBackward":
            return True
        seen.add(step)
        steps += [before for before, _ in step.next_functions]
    return False


def _gradients(f: _Call, inputs: Mapping[str, Tensor]) -> tuple[Tensor | None, ...]:
    "The gradients of a mixture of all outputs."
    leaves = [t.clone().requires_grad_() for t in inputs.values()]
    out = f(*leaves)
    if not out.requires_grad:
        raise Broken("the output does not require a gradient", known("grad.none"))
    upstream = torch.randn(out.shape, generator=torch.Generator().manual_seed(4))
    return gradients_of(out, leaves, upstream.to(out))


def must_be_finite(
    f: _Call,  # the code under test
    inputs: Mapping[str, Tensor],  # large numbers
    shown: str,  # what they are, in words
    bug: Callable[[], Bug],  # what is wrong if the output is not
) -> Tensor:  # the output, detached
    "Raise Broken unless values and gradients are finite."
    leaves = [t.clone().requires_grad_() for t in inputs.values()]
    out = f(*leaves)
    if not out.isfinite().all():
        raise Broken(f"{shown}: the output is NaN or infinite", bug())
    if out.requires_grad:
        grads = gradients_of(out.sum() + out.square().sum(), leaves)
        for name, g in zip(inputs, grads):
            if g is not None and not g.isfinite().all():
                raise Broken(
                    f"{shown}: the gradient of {name} is NaN or infinite", known("grad.infinite")
                )
    return out.detach()


_LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "as split_heads makes them": lambda t: t.transpose(0, -2).contiguous().transpose(0, -2),
    "transposed in memory": lambda t: t.mT.contiguous().mT,
    "every second row of a longer tensor": lambda t: t.repeat_interleave(2, -2)[..., ::2, :],
    "expanded from one": lambda t: t[:1].expand(t.shape),
}


def must_not_mind_strides(
    f: _Call,  # the code under test
    *inputs: Tensor,  # its arguments
) -> None:
    "Raise Broken if the same numbers, laid out in another order, give others."
    for how, layout in _LAYOUTS.items():
        other = [layout(t) for t in inputs]
        want = f(*(t.contiguous().clone() for t in other))
        try:
            got = f(*other)
        except Exception as e:
            if "written-to tensor" in str(e):
                raise NotChecked(
                    "it writes into its inputs, which those that share memory do not allow"
                ) from None
            raise Broken(
                f"{how}: it raised {first_line(e, 150)}", known("memory.contiguous")
            ) from None
        if not nearly(got, want, equal_nan=True):
            raise Broken(f"{how}: {first_difference(got, want)}", known("memory.strides"))


def must_leave_alone(
    f: _Call,  # the code under test
    inputs: Mapping[str, Tensor],  # its arguments by name
) -> None:
    "Raise Broken if an input has changed after the call."
    copies = {name: t.clone() for name, t in inputs.items()}
    f(*inputs.values())
    for name, t in inputs.items():
        if not torch.equal(t, copies[name]):
            now = (
                f"shape {tuple(t.shape)}"
                if t.shape != copies[name].shape
                else first_difference(t, copies[name], 0)
            )
            bug = (
                known("input.mask_modified")
                if name == "mask"
                else known("input.modified", name=name)
            )
            raise Broken(f"after the call {name} has changed: {now}", bug)


def must_hold_in_half(
    f: _Call,  # the code under test; what is boolean stays so
    inputs: Sequence[Tensor],  # its arguments
    like: str,  # the input whose type must come back
    atols: Mapping[torch.dtype, float],  # how close is the same
    codes: tuple[str, str] = (
        "dtype.overflows",
        "dtype.loses",
    ),  # what to call infinite and inexact outputs
) -> None:
    "Raise Broken unless sixteen bits give finite, nearly equal values of their type."
    for dtype, atol in atols.items():
        got = _sixteen(f, [t.to(dtype) if t.is_floating_point() else t for t in inputs], dtype)
        must_keep_dtype(got, dtype, like)
        want = f(*(t.to(dtype).float() if t.is_floating_point() else t for t in inputs))
        if not want.isfinite().all():
            continue  # so it is with 32 bits: other relations tell
        if not got.isfinite().all():
            raise Broken(f"{dtype}: the output is NaN or infinite", known(codes[0], dtype=dtype))
        if not nearly(got.float(), want.float(), atol):
            shown = first_difference(got.float(), want.float(), atol)
            raise Broken(f"{dtype}: {shown}", known(codes[1], dtype=dtype))


def _sixteen(f: _Call, inputs: Sequence[Tensor], dtype: torch.dtype) -> Tensor:
    "The output in sixteen bits, with an error read for what it tells."
    with Widening() as watch:
        try:
            return f(*inputs)
        except RuntimeError as e:
            shown = f"{dtype}: it raised {first_line(e)}"
            if "overflow" in str(e):
                raise Broken(shown, known("dtype.no_infinity")) from None
            if watch.to_blame:
                raise Broken(shown, known("dtype.widens")) from None
            raise NotChecked(f"{dtype} raises {first_line(e, 100)}") from None


class Widening(TorchFunctionMode):
    "Watch what comes of numbers of 16 bits that were made float32 alone, as by .float(), and not by meeting float32."

    to_blame = False  # did it then meet 16 bits, which raised?

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = [t for t in tree_leaves((args, kwargs)) if isinstance(t, Tensor)]
        try:
            out = func(*args, **(kwargs or {}))
        except RuntimeError as e:
            wide, said = (
                [t for t in given if hasattr(t, "_widened")],
                str(e).replace("scalar type", "dtype"),
            )
            self.to_blame = (
                bool(wide) and "dtype" in said and any(t.dtype in _SIXTEEN for t in given)
            )
            raise
        kinds = {t.dtype for t in given if t.is_floating_point()}
        alone = kinds and (
            kinds <= set(_SIXTEEN)
            or all(hasattr(t, "_widened") for t in given if t.is_floating_point())
        )
        if alone and isinstance(out, Tensor) and out.dtype == torch.float32:
            out._widened = True  # type: ignore[attr-defined]
        return out


_SIXTEEN = (torch.float16, torch.bfloat16)
