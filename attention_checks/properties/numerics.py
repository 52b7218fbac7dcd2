"""Numbers: finite where scores are large, and nearly equal in sixteen bits."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from attention_checks.catalogue import known
from attention_checks.explaining.pipeline import Bug
from attention_checks.numbers.autograd import gradients_of
from attention_checks.numbers.tensors import must_be_near
from attention_checks.outcomes import Broken, NotChecked, attempt, first_line
from attention_checks.subjects import TensorFunction


def must_be_finite(
    f: TensorFunction,  # the code under test
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


_SIXTEEN = (torch.float16, torch.bfloat16)


def must_hold_in_half(
    f: TensorFunction,  # the code under test; what is boolean stays so
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
        must_be_as_in_32(got, want, dtype, like, atol, codes)


def must_be_as_in_32(
    got: Tensor,  # what 16 bits gave
    want: Tensor,  # what 32 bits give
    dtype: torch.dtype,  # of 16 bits: what it was given
    like: str,  # the input that has it, such as "v"
    atol: float,  # how close is the same
    codes: tuple[str, str] = ("dtype.overflows", "dtype.loses"),  # infinite and inexact outputs
) -> None:
    "Raise Broken if 16 bits come back in another type, or are infinite or inexact."
    if got.dtype != dtype:
        given, returned = (str(t).removeprefix("torch.") for t in (dtype, got.dtype))
        bug = known("dtype.other", found=returned, like=like, given=given)
        raise Broken(f"{like} is {given}: it returns {returned}", bug)
    if not want.isfinite().all():
        return  # so it is with 32 bits: other properties tell
    if not got.isfinite().all():
        raise Broken(f"{dtype}: the output is NaN or infinite", known(codes[0], dtype=dtype))
    must_be_near(got.float(), want.float(), f"{dtype}", known(codes[1], dtype=dtype), atol)


def run_in_half(
    call: Callable[[], Tensor],  # runs the code under test in `dtype`
    dtype: torch.dtype,  # of sixteen bits
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
        raise NotChecked(f"{dtype} raises {first_line(e, 90)}") from None


def _widens(call: Callable[[], Tensor]) -> bool:
    "Return whether it raises where something that it widened meets sixteen bits."
    with Widening() as widening:
        attempt(call)
    return widening.to_blame


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
