"""What must hold of any function of tensors, written once for functions and layers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
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

Properties = list[Property]
_Call = Callable[..., Tensor]


class Relation(NamedTuple):
    "One thing that must hold, for a subject under test."

    # what must hold, in one sentence
    name: str
    # raises Broken or NotChecked; may return a remark on how it was tried
    holds: Callable[[Any], str | None]
    # why it does not apply to a subject; empty if it does
    needs: Callable[[Any], str] = lambda subject: ""
    # facts of the subject; where one is not true, a failure is only a symptom
    after: tuple[str, ...] = ()
    # what the subject's numbers are compared with, if they are
    compares: str = ""
    # False: its author did not promise it, so it is not listed
    asked: Callable[[Any], bool] = lambda subject: True
    # is it of gradients alone, which gradients=False does not promise?
    differentiates: bool = False


def listed(
    relations: Sequence[Relation],  # in the order of trying
    subject: Callable[[], Any],  # gives what is under test
) -> Properties:  # names, and what tries them
    "Tie relations to a subject."
    return [
        Property(row.name, partial(_tried, row, subject), row.compares, row.differentiates)
        for row in relations
    ]


def _tried(relation: Relation, subject_of: Callable[[], Any]) -> str | None:
    "Try one relation."
    subject = subject_of()
    if why := relation.needs(subject):
        raise NotChecked(why)
    try:
        return relation.holds(subject)
    except Broken as e:
        if all(getattr(subject, fact) for fact in relation.after):
            raise
        raise Broken(e.example, e.bugs, symptom=True, last=e.last) from None


def outcome(
    holds: Callable[[], Any],  # raises Broken if something does not hold
) -> Broken | None:  # what does not hold, as a value
    "Try something, and return what it raises as Broken."
    try:
        holds()
    except Broken as e:
        return e
    return None


def must_agree(
    subject: Any,  # with a fact `mismatch`: how its numbers differ from the right ones, or None
) -> None:
    "Raise Broken if the subject's numbers are wrong."
    if subject.mismatch:
        raise subject.mismatch


# Shapes and mixing -----------------------------------------------------------------------------


def must_give(
    f: _Call,  # the code under test
    inputs: Sequence[Tensor],  # its arguments
    shape: tuple[int, ...],  # what it should return
    shown: str,  # what the inputs are, in words
    bug: Callable[[], Bug],  # what is wrong if it raises, or gives another shape
) -> Tensor:  # the output
    "Raise Broken unless the output has the expected shape."
    try:
        out = f(*inputs)
    except Exception as e:
        raise Broken(f"{shown}: it raised {first_line(e, 150)}", bug()) from None
    if tuple(out.shape) != tuple(shape):
        raise Broken(f"{shown}: it gives shape {tuple(out.shape)}, expected {shape}", bug())
    return out


def must_not_mix_along(
    f: _Call,  # the code under test
    inputs: Sequence[Tensor],  # its arguments
    axis: int,  # of inputs and output, with at least two entries
    name: str,  # of one entry, such as "head"
    bug: Callable[[], Bug],  # what is wrong if entries mix
    alone: bool = False,  # try also that each entry comes out alone as with the others?
) -> None:
    "Raise Broken if an entry of an axis changes the output of another."
    together = f(*inputs)
    for i in range(inputs[0].shape[axis] if alone else 0):
        got, want = f(*(t.narrow(axis, i, 1) for t in inputs)), together.narrow(axis, i, 1)
        if not nearly(got, want, equal_nan=True):
            raise Broken(f"{name} {i} alone: {first_difference(got, want)}", bug())
    changed = [t.clone() for t in inputs]
    for t in changed:
        t.select(axis, 1).mul_(-2).add_(1)
    before, after = together.select(axis, 0), f(*changed).select(axis, 0)
    if not nearly(after, before, equal_nan=True):
        shown = f"changing {name} 1 changes {name} 0"
        raise Broken(f"{shown}: {first_difference(after, before)}", bug())


# Gradients and large numbers -------------------------------------------------------------------


def must_have_gradients(
    f: _Call,  # the code under test
    oracle: _Call,  # slow code that is right
    inputs: Mapping[str, Tensor],  # its arguments by name
    compare: bool = True,  # are its values right, so that gradients must be, too?
    atol: float = 1e-3,  # how close is the same
) -> None:
    "Raise Broken unless gradients reach every input, and are those of the oracle."
    for name, got, want in zip(inputs, _gradients(f, inputs), _gradients(oracle, inputs)):
        if got is None or (got == 0).all():
            bug = known("grad.unreached", name=name)
            raise Broken(f"the gradient of {name} is zero", bug, symptom=not compare)
        if compare and not nearly(got, want, atol):
            shown = first_difference(got, want, atol)
            raise Broken(f"gradient of {name}: {shown}", known("grad.wrong"))


def _gradients(f: _Call, inputs: Mapping[str, Tensor]) -> Sequence[Any]:
    "Give the gradients of a random mixture of all outputs."
    leaves = [t.clone().requires_grad_() for t in inputs.values()]
    out = f(*leaves)
    if not out.requires_grad:
        raise Broken("the output does not require a gradient", known("grad.none"))
    upstream = torch.randn(out.shape, generator=torch.Generator().manual_seed(4))
    return gradients_of(out, leaves, upstream.to(out))


def gradients_of(
    out: Tensor,  # what was computed
    leaves: Sequence[Tensor],  # from what
    up: Tensor | None = None,  # the gradient of `out`; None: of a single number
) -> tuple[Tensor | None, ...]:  # one for each, None where nothing depends on it
    "Differentiate, also through reentrant checkpoints, which only `backward()` can."
    if up is not None:  # given to PyTorch as it is, `up` would make it import its compiler
        out = (out * up).sum()
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
    "Tell whether a reentrant checkpoint lies in the backward pass."
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


def must_be_finite(
    f: _Call,  # the code under test
    inputs: Mapping[str, Tensor],  # large numbers
    shown: str,  # what they are, in words
    bug: Callable[[], Bug],  # what is wrong if the output is not finite
    gradient: str = "grad.infinite",  # the code for a gradient that is not finite
) -> Tensor:  # the output, detached
    "Raise Broken unless values and gradients are finite."
    leaves = [t.clone().requires_grad_() for t in inputs.values()]
    out = f(*leaves)
    if not out.isfinite().all():
        raise Broken(f"{shown}: the output is NaN or infinite", bug())
    if out.requires_grad:
        for name, grad in zip(inputs, gradients_of(out.sum() + out.square().sum(), leaves)):
            if grad is not None and not grad.isfinite().all():
                shown = f"{shown}: the gradient of {name} is NaN or infinite"
                raise Broken(shown, known(gradient))
    return out.detach()


# Memory ----------------------------------------------------------------------------------------

_LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "as split_heads makes them": lambda t: t.transpose(0, -2).contiguous().transpose(0, -2),
    "transposed in memory": lambda t: t.mT.contiguous().mT,
    "every second vector of a longer tensor": lambda t: t.repeat_interleave(2, -2)[..., ::2, :],
    "expanded from one": lambda t: t[:1].expand(t.shape),
}


def must_not_mind_strides(
    f: _Call,  # the code under test
    *inputs: Tensor,  # its arguments
) -> None:
    "Raise Broken if the same numbers, with other strides in memory, give others."
    for how, layout in _LAYOUTS.items():
        other = [layout(t) for t in inputs]
        want = f(*(t.contiguous().clone() for t in other))
        try:
            got = f(*other)
        except Exception as e:
            if "written-to tensor" in str(e):
                why = "it writes into its inputs, which must not share memory then"
                raise NotChecked(why) from None
            shown = f"{how}: it raised {first_line(e, 150)}"
            raise Broken(shown, known("memory.contiguous")) from None
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
        if torch.equal(t, copies[name]):
            continue
        now = f"it has shape {tuple(t.shape)}"
        if t.shape == copies[name].shape:
            now = first_difference(t, copies[name], 0)
        bug = known("input.modified", name=name)
        if name == "mask":
            bug = known("input.mask_modified")
        raise Broken(f"after the call {name} has changed: {now}", bug)


# Sixteen bits ----------------------------------------------------------------------------------

_SIXTEEN = (torch.float16, torch.bfloat16)


def must_hold_in_half(
    f: _Call,  # the code under test; what is boolean stays so
    inputs: Sequence[Tensor],  # its arguments
    like: str,  # the input whose type must come back
    atols: Mapping[torch.dtype, float],  # how close is the same
    codes: tuple[str, str] = ("dtype.overflows", "dtype.loses"),  # infinite and inexact outputs
) -> None:
    "Raise Broken unless sixteen bits give finite, nearly equal values of their type."

    def converted(dtype: torch.dtype) -> list[Tensor]:
        return [t.to(dtype) if t.is_floating_point() else t for t in inputs]

    for dtype, atol in atols.items():
        want = f(*(t.float() if t.is_floating_point() else t for t in converted(dtype)))
        got = run_in_half(lambda: f(*converted(dtype)), dtype)
        must_keep_dtype(got, dtype, like)
        if not want.isfinite().all():
            continue  # so it is with 32 bits: other relations tell
        if not got.isfinite().all():
            raise Broken(f"{dtype}: the output is NaN or infinite", known(codes[0], dtype=dtype))
        if not nearly(got.float(), want.float(), atol):
            shown = first_difference(got.float(), want.float(), atol)
            raise Broken(f"{dtype}: {shown}", known(codes[1], dtype=dtype))


def run_in_half(
    call: Callable[[], Tensor],  # runs the code under test in `dtype`
    dtype: torch.dtype,  # of sixteen bits
    hint: Callable[[Exception], str] = lambda e: "",  # more to say of an error nobody is blamed for
) -> Tensor:  # the output
    "Run in sixteen bits; raise Broken for errors that are the code's, NotChecked for others."
    try:
        return call()
    except Exception as e:
        shown = f"{dtype}: it raised {first_line(e)}"
        if isinstance(e, RuntimeError) and "overflow" in str(e):
            raise Broken(shown, known("dtype.no_infinity")) from None
        if _widens(call):
            raise Broken(shown, known("dtype.widens")) from None
        raise NotChecked(f"{dtype} raises {first_line(e, 90)}{hint(e)}") from None


def _widens(call: Callable[[], Tensor]) -> bool:
    "Tell whether it raises where something that it widened meets sixteen bits."
    with Widening() as watch, suppress(Exception):
        call()
    return watch.to_blame


class Widening(TorchFunctionMode):
    "Mark what was widened to float32, as by .float(), and notice an error where it meets 16 bits."

    to_blame = False  # did that raise?

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = [t for t in tree_leaves((args, kwargs)) if isinstance(t, Tensor)]
        numbers = [t for t in given if t.is_floating_point()]
        widened = [t for t in numbers if hasattr(t, "_widened")]
        sixteen = [t for t in numbers if t.dtype in _SIXTEEN]
        try:
            out = func(*args, **(kwargs or {}))
        except RuntimeError as e:
            of_types = "dtype" in str(e) or "scalar type" in str(e)
            self.to_blame = bool(widened and sixteen) and of_types
            raise
        # float32 that meets ordinary float32 may be meant
        alone = numbers and len(numbers) in (len(widened), len(sixteen))
        if alone and isinstance(out, Tensor) and out.dtype == torch.float32:
            out._widened = True  # type: ignore[attr-defined]
        return out
