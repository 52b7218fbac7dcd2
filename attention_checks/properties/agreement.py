"""What must hold of two functions that should do the same: values, types, gradients, inputs."""

import copy
import math
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

from attention_checks.catalogue import known
from attention_checks.numbers.tensors import first_difference, must_be_near, must_return, nearly
from attention_checks.numbers.tolerance import FLOAT32, SHORT_SUMS
from attention_checks.outcomes import Broken, NotChecked
from attention_checks.properties import Property
from attention_checks.properties.gradients import gradients_of_mixture
from attention_checks.their_code.signatures import name_of, parameters_of

_Fn = Callable[..., Any]
_Example = tuple[Any, ...]  # the arguments of one call


def agreement_properties(
    fn: _Fn,  # the function to check
    reference: _Fn,  # one that is right, if slow
    examples: tuple[_Example, ...],  # the arguments of one call each
    wrong: Mapping[str, _Fn],  # likely wrong answers, by what is wrong with them
) -> Iterator[Property]:
    "Yield what must hold of two functions that should do the same, in the order of trying."
    for i, example in enumerate(examples, 1):
        yield Property(
            f"example {i}: the result is right",
            partial(_must_agree, fn, reference, example, examples, wrong),
            compares="your reference",
        )
    yield Property("inputs are not modified", lambda: _must_not_modify(fn, examples))
    if _has_gradients(reference, examples):
        must_agree = partial(_must_agree_in_gradients, fn, reference, examples)
        yield Property("gradients are right", must_agree, differentiates=True)


# Arguments and results in words -------------------------------------------------------------------


def _copied(example: _Example, grad: bool = False) -> _Example:
    "Copy the arguments; floating tensors require a gradient if `grad`."
    copies = []
    for x in example:
        x = x.detach().clone() if isinstance(x, Tensor) else copy.deepcopy(x)
        copies.append(x.requires_grad_() if grad and _floats(x) else x)
    return tuple(copies)


def _floats(x: Any) -> bool:
    "Return whether something is a floating tensor."
    return isinstance(x, Tensor) and x.is_floating_point()


def _parts(result: Any) -> dict[str, Any]:
    "Return the results, each by what it is called; one alone by nothing."
    if isinstance(result, Mapping):
        return {repr(key): each for key, each in result.items()}
    if not isinstance(result, (tuple, list)):
        return {"": result}
    return {f"{i} of {len(result)}, counted from 0": each for i, each in enumerate(result)}


def _shown(fn: _Fn, example: _Example) -> str:
    "Return the call in a few words, such as `called with n = 3, x = [1.0, 2.5]`."
    names = [f"{name} = " for name in parameters_of(fn) or {}] + [""] * len(example)
    return "called with " + ", ".join(name + _in_words(x) for name, x in zip(names, example))


def _in_words(x: Any) -> str:
    "Return an argument or a result: numbers if they are few, else a shape."
    if isinstance(x, Tensor):
        if x.numel() >= 10:
            return f"{tuple(x.shape)}"
        return str(x.detach().double().round(decimals=2).tolist() if _floats(x) else x.tolist())
    text = name_of(x) if callable(x) else repr(x)
    return text if len(text) < 60 else text[:57] + "…"


def _with_type(x: Any) -> str:
    "Return a result in words, tensors told from lists and numbers of the same values."
    if isinstance(x, Tensor) and x.numel() < 10:
        return f"tensor({_in_words(x)})"
    return _in_words(x)


def _kind(x: Any) -> str:
    "Return the type of a result, with its article, and how many a tuple or list holds."
    name = type(x).__name__
    article = "an" if name[0].lower() in "aeiou" else "a"
    number = f" of {len(x)}" if isinstance(x, (tuple, list)) else ""
    return f"{article} {name}{number}"


# Values -------------------------------------------------------------------------------------------


def _must_agree(
    fn: _Fn,
    reference: _Fn,
    example: _Example,
    examples: tuple[_Example, ...],
    wrong: Mapping[str, _Fn],
) -> None:
    "Raise Broken unless the results of one example are the same, with the likely bug."
    want, got = reference(*_copied(example)), fn(*_copied(example))
    try:
        _must_be_same(got, want, f"{_shown(fn, example)}: ")
    except Broken as e:
        for name, other in wrong.items():
            if all(_agrees(fn, other, each) for each in examples):
                raise Broken(e.example, known("result.named", found=name)) from None
        raise


def _agrees(fn: _Fn, reference: _Fn, example: _Example) -> bool:
    "Return whether two functions give the same, and neither raises."
    try:
        _must_be_same(fn(*_copied(example)), reference(*_copied(example)), "")
    except Exception:
        return False
    return True


def _must_be_same(got: Any, want: Any, where: str) -> None:
    "Raise Broken unless two results are the same."
    if want is not None:
        must_return(got, where)
    if isinstance(want, Tensor) and isinstance(got, Tensor):
        _must_be_same_tensor(got, want, where)
        return
    parts, right_parts = _parts(got), _parts(want)
    alone = right_parts.keys() == {""}
    if not alone and parts.keys() == right_parts.keys():
        for name, right in right_parts.items():
            _must_be_same(parts[name], right, f"{where}result {name}: ")
        return
    shown = f"{where}it gives {_with_type(got)}, expected {_with_type(want)}"
    kinds = (Tensor, Mapping, (tuple, list))
    if any(isinstance(got, kind) != isinstance(want, kind) for kind in kinds):
        raise Broken(shown, known("result.kind", got=_kind(got), want=_kind(want)))
    close = False
    if isinstance(want, float) and isinstance(got, (int, float)):
        close = math.isclose(got, want, rel_tol=FLOAT32) or math.isnan(got) and math.isnan(want)
    if not alone or not close and got != want:
        raise Broken(shown, ())  # the example tells all


def _must_be_same_tensor(got: Tensor, want: Tensor, where: str) -> None:
    "Raise Broken unless two tensors have one shape, type and numbers."
    if got.shape != want.shape:
        transposed = got.ndim >= 2 and got.mT.shape == want.shape
        bug = known("result.transposed" if transposed else "result.shape")
        raise Broken(f"{where}{first_difference(got, want)}", bug)
    if got.dtype != want.dtype:
        bug = known("result.dtype", got=got.dtype, want=want.dtype)
        raise Broken(f"{where}it gives {got.dtype}, expected {want.dtype}", bug)
    same = partial(nearly, atol=SHORT_SUMS, equal_nan=True) if _floats(want) else torch.equal
    if not same(got, want):
        nan = bool(want.isfinite().all()) and not got.isfinite().all()
        bugs = known("values.nan") if nan else ()  # else the example tells all
        raise Broken(where + first_difference(got, want, SHORT_SUMS), bugs)


# Inputs and gradients -----------------------------------------------------------------------------


def _must_not_modify(fn: _Fn, examples: tuple[_Example, ...]) -> None:
    "Raise Broken if an argument is modified."
    for example in examples:
        given = _copied(example)
        fn(*given)
        for i, (now, was) in enumerate(zip(given, example)):
            if not _unchanged(now, was):
                shown = f"{_shown(fn, example)}: argument {i} has changed"
                name = dict(enumerate(parameters_of(fn) or {})).get(i, str(i))
                raise Broken(shown, known("input.modified", name=name))


def _unchanged(now: Any, was: Any) -> bool:
    "Return whether tensors, numbers and strings are the same, also in lists; ignore other objects."
    if isinstance(was, Tensor):
        return torch.equal(now, was)
    if isinstance(was, (tuple, list)):
        return len(now) == len(was) and all(map(_unchanged, now, was))
    return now == was or not isinstance(was, (int, float, str))


def _has_gradients(reference: _Fn, examples: tuple[_Example, ...]) -> bool:
    "Return whether a result of the reference depends on a floating argument."
    try:
        for example in examples:
            given = _copied(example, grad=True)
            if not any(map(_floats, given)):
                continue
            if any(_floats(x) and x.requires_grad for x in _parts(reference(*given)).values()):
                return True
    except Exception:
        return True  # then the property tells what goes wrong
    return False


def _must_agree_in_gradients(fn: _Fn, reference: _Fn, examples: tuple[_Example, ...]) -> None:
    "Raise Broken if a gradient differs."
    if not all(_agrees(fn, reference, example) for example in examples):
        raise NotChecked("gradients are compared when all results are right")
    for i, example in enumerate(examples, 1):
        if not _has_gradients(reference, (example,)):
            continue
        where = f"example {i}, {_shown(fn, example)}"
        pairs = zip(_gradients(reference, example), _gradients(fn, example))
        for j, (want, got) in enumerate(pairs):
            shown = f"{where}: gradient of floating argument {j}"
            bug = known("grad.wrong" if got.isfinite().all() else "grad.infinite")
            must_be_near(got, want, shown, bug, FLOAT32, equal_nan=True)


def _gradients(fn: _Fn, example: _Example) -> list[Tensor]:
    "Return the gradients of a mixture of its results; Broken if they require none."
    given = _copied(example, grad=True)
    leaves = [x for x in given if _floats(x)]
    outs = [x.flatten() for x in _parts(fn(*given)).values() if _floats(x)]
    grads = gradients_of_mixture(torch.cat(outs), leaves)
    return [torch.zeros_like(x) if g is None else g for x, g in zip(leaves, grads)]
