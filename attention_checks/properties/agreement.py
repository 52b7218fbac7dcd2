"""What must hold of two functions that should do the same: values, shapes, types, gradients, and untouched inputs."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import torch
from torch import Tensor

from attention_checks.catalogue import known
from attention_checks.examine import Broken, NotChecked, Property
from attention_checks.numbers import first_difference, must_return, nearly
from attention_checks.pipeline import Bug
from attention_checks.signatures import name_of, parameters_of

_Fn = Callable[..., Any]
_Example = tuple[Any, ...]


def _copied(example: _Example, grad: bool = False) -> _Example:
    "Copies of the arguments; tensors of them want a gradient if `grad`."
    found = (t.detach().clone() if isinstance(t, Tensor) else copy.deepcopy(t) for t in example)
    return tuple(t.requires_grad_() if grad and _floats(t) else t for t in found)


def _floats(x: Any) -> bool:
    return isinstance(x, Tensor) and x.is_floating_point()


def _shown(fn: _Fn, example: _Example) -> str:
    "The call in a few words, such as `called with n = 3, x = [1.0, 2.5]`."
    names = [f"{name} = " for name in parameters_of(fn) or {}]
    names += [""] * len(example)
    return "called with " + ", ".join(name + _in_words(x) for name, x in zip(names, example))


def _with_type(x: Any) -> str:
    "A result in words; a tensor is told from a list or a number of the same values."
    return f"tensor({_in_words(x)})" if isinstance(x, Tensor) and x.numel() < 10 else _in_words(x)


def _in_words(x: Any) -> str:
    if isinstance(x, Tensor):
        return (
            str(x.detach().double().round(decimals=2).tolist() if _floats(x) else x.tolist())
            if x.numel() < 10
            else f"{tuple(x.shape)}"
        )
    text = name_of(x) if callable(x) else repr(x)
    return text if len(text) < 60 else text[:57] + "…"


def _same_result(
    fn: _Fn,
    reference: _Fn,
    example: _Example,
    examples: tuple[_Example, ...] = (),
    wrong: Mapping[str, _Fn] | None = None,
) -> None:
    want, got = reference(*_copied(example)), fn(*_copied(example))
    try:
        _same(got, want, f"{_shown(fn, example)}: ")
    except Broken as e:
        if named := _named(fn, wrong or {}, examples):
            raise Broken(e.example, known("result.named", found=named)) from None
        if e.bugs or not (_is_number(got) and _is_number(want)):
            raise
        raise Broken(e.example, _guess_together(fn, reference, examples)) from None


def _named(fn: _Fn, wrong: Mapping[str, _Fn], examples: tuple[_Example, ...]) -> str | None:
    "The first of the wrong answers that gives what `fn` gives, in each example."
    return next(
        (name for name, other in wrong.items() if all(_agrees(fn, other, e) for e in examples)),
        None,
    )


def _same(got: Any, want: Any, where: str) -> None:
    "Raise Broken unless two results are the same."
    if want is not None:
        must_return(got, where)
    if isinstance(want, Tensor) and isinstance(got, Tensor):
        return _same_tensor(got, want, where)
    if isinstance(want, (tuple, list)) and isinstance(got, (tuple, list)) and len(got) == len(want):
        for i, (g, w) in enumerate(zip(got, want)):
            _same(g, w, f"{where}result {i} of {len(want)}, counted from 0: ")
        return
    if isinstance(want, Tensor) != isinstance(got, Tensor) or isinstance(
        want, (tuple, list)
    ) != isinstance(got, (tuple, list)):
        bug: tuple[Bug, ...] = (known("result.kind", got=_kind(got), want=_kind(want)),)
    elif (
        isinstance(want, float)
        and isinstance(got, (int, float))
        and math.isclose(got, want, rel_tol=1e-4)
    ):
        return
    elif got == want:
        return
    else:
        bug = ()  # the example says it all
    raise Broken(f"{where}it gives {_with_type(got)}, expected {_with_type(want)}", bug)


def _kind(x: Any) -> str:
    name = type(x).__name__
    article = "an" if name[0].lower() in "aeiou" else "a"
    return f"{article} {name} of {len(x)}" if isinstance(x, (tuple, list)) else f"{article} {name}"


def _same_tensor(got: Tensor, want: Tensor, where: str) -> None:
    if got.shape != want.shape:
        turned = got.ndim == want.ndim >= 2 and got.mT.shape == want.shape
        raise Broken(
            f"{where}{first_difference(got, want)}",
            known("result.transposed" if turned else "result.shape"),
        )
    if got.dtype != want.dtype:
        bug = known("result.dtype", got=got.dtype, want=want.dtype)
        raise Broken(f"{where}it gives {got.dtype}, expected {want.dtype}", bug)
    if not (nearly(got, want, 1e-5) if _floats(want) else torch.equal(got, want)):
        raise Broken(where + first_difference(got, want, 1e-5), _guess(got, want))


def _guess(got: Tensor, want: Tensor) -> tuple[Bug, ...]:
    "What is probably wrong with the numbers; nothing if nothing known is."
    if want.dtype == torch.bool and torch.equal(got, ~want):
        return (known("result.inverted"),)
    return _related(got.detach().double(), want.detach().double(), _RELATIONS)


def _guess_together(fn: _Fn, reference: _Fn, examples: tuple[_Example, ...]) -> tuple[Bug, ...]:
    "The same of examples that give one number each."
    with suppress(Exception):  # one of them may raise
        got, want = (
            torch.tensor([f(*_copied(e)) for e in examples], dtype=torch.float64)
            for f in (fn, reference)
        )
        found = _related(got, want, _EVERYWHERE)
        return tuple(
            bug._replace(says=f"{bug.says}, in each of the {len(examples)} examples")
            for bug in found
        )
    return ()


def _is_number(x: Any) -> bool:
    return (
        isinstance(x, (int, float))
        and not isinstance(x, bool)
        or isinstance(x, Tensor)
        and x.ndim == 0
    )


_Relation = Callable[
    [Tensor, Tensor], Any
]  # numbers, right numbers (float64) → what was found; None: not so


def _related(got: Tensor, want: Tensor, relations: Mapping[str, _Relation]) -> tuple[Bug, ...]:
    "The first that is true of all numbers; nothing if none is."
    found = ((code, relation(got, want)) for code, relation in relations.items())
    return next(((known(code, found=said),) for code, said in found if said), ())


def _alike(got: Tensor, want: Tensor) -> Tensor:
    "Where numbers agree: nearly, or exactly if all are whole."
    whole = got.equal(got.round()) and want.equal(want.round())
    size = float(want[want.isfinite()].abs().amax()) if want.isfinite().any() else 0.0
    return (
        got == want
        if whole
        else torch.isclose(got, want, rtol=1e-3, atol=min(1e-5, 1e-3 * size), equal_nan=True)
    )


def _factor(got: Tensor, want: Tensor) -> str | None:
    "All is so many times as large; one number is some multiple of any other."
    factor = float((got * want).sum() / want.square().sum().clamp(min=1e-30))
    if (
        want.count_nonzero() > 1
        and factor
        and not math.isclose(factor, 1, rel_tol=1e-3)
        and _alike(got, want * factor).all()
    ):
        return f"{factor:.4g}"
    return None


def _more(got: Tensor, want: Tensor) -> str | None:
    "All is larger or smaller by the same number."
    off = got - want
    more, spread = float(off.mean()), float(want.max() - want.min())
    rounded = 1e-6 * (abs(more) + float(want.abs().max()))  # float32
    if (
        want.numel() > 1
        and abs(more) > 10 * rounded
        and (off - more).abs().max() <= 1e-4 * min(abs(more), spread) + rounded
    ):
        return f"{abs(more):.4g} {'more' if more > 0 else 'less'}"
    return None


def _parts_of(t: Tensor) -> dict[str, int]:
    "What a tensor can be taken apart into, and along which axis."
    if t.ndim < 2:
        return {"number {}": 0} if t.ndim else {}
    return {"row {}": -2, "column {}": -1} | {
        f"part {{}} along axis {axis}": axis for axis in range(t.ndim - 2)
    }


def _reordered(got: Tensor, want: Tensor) -> str | None:
    "The same rows, columns or numbers in another order."
    for part, axis in _parts_of(want).items():
        mine, right = (t.movedim(axis, 0).reshape(t.shape[axis], -1) for t in (got, want))
        order: list[int] = []  # the place where each belongs
        for row in mine if len(mine) <= 64 else ():
            fits = _alike(row.expand_as(right), right).all(1).nonzero().flatten().tolist()
            order += [place for place in fits if place not in order][:1]
        if len(order) == len(right) and 1 < len(set(order)) == len(order):
            i = next(i for i, place in enumerate(order) if place != i)
            return f"{part.format(i)} is what {part.format(order[i])} should be"
    return None


def _alone(got: Tensor, want: Tensor) -> str | None:
    "One number, row or column is wrong, and at least three numbers or two rows are right."
    wrong = ~_alike(got, want)
    if wrong.sum() == 1 and wrong.numel() > 3:
        return f"the number at {wrong.nonzero()[0].tolist()}"
    for part, axis in _parts_of(want).items() if want.ndim > 1 else ():
        found = wrong.movedim(axis, 0).reshape(wrong.shape[axis], -1).any(1)
        if found.sum() == 1 and len(found) > 2:
            return part.format(int(found.nonzero()))
    return None


_EVERYWHERE: dict[str, _Relation] = {
    "result.sign": lambda got, want: bool(_alike(got, -want).all()),
    "result.factor": _factor,
    "result.more": _more,
}
_RELATIONS: dict[str, _Relation] = {
    "result.nan": lambda got, want: bool(want.isfinite().all() and not got.isfinite().all()),
    "result.transposed": (
        lambda got, want: (
            want.ndim > 1 and want.shape == want.mT.shape and bool(_alike(got, want.mT).all())
        )
    ),
    **_EVERYWHERE,
    "result.order": _reordered,
    "result.alone": _alone,
}


def _untouched(fn: _Fn, examples: tuple[_Example, ...]) -> None:
    for example in examples:
        given = _copied(example)
        fn(*given)
        for i, (now, was) in enumerate(zip(given, example)):
            if not _unchanged(now, was):
                raise Broken(
                    f"{_shown(fn, example)}: argument {i} has changed",
                    known("input.modified_argument"),
                )


def _unchanged(now: Any, was: Any) -> bool:
    "Of tensors, numbers and texts, also in lists; other objects are not looked into."
    if isinstance(was, Tensor):
        return torch.equal(now, was)
    if isinstance(was, (tuple, list)):
        return len(now) == len(was) and all(map(_unchanged, now, was))
    return now == was or not isinstance(was, (int, float, str))


def _same_gradients(fn: _Fn, reference: _Fn, examples: tuple[_Example, ...]) -> None:
    if not all(_agrees(fn, reference, example) for example in examples):
        raise NotChecked("gradients are compared when all results are right")
    for i, example in enumerate(examples, 1):
        _compare_gradients(fn, reference, example, f"example {i}, ")


def _has_gradients(reference: _Fn, examples: tuple[_Example, ...]) -> bool:
    "Whether a result of the reference depends on a floating argument; not so for whole numbers and masks."
    try:
        given = [_copied(example, grad=True) for example in examples]
        results = [
            _parts(reference(*arguments)) for arguments in given if any(map(_floats, arguments))
        ]
        return any(_floats(t) and t.requires_grad for parts in results for t in parts)
    except Exception:
        return True  # then the property says what goes wrong


def _agrees(fn: _Fn, reference: _Fn, example: _Example) -> bool:
    try:
        _same_result(fn, reference, example)
    except Exception:
        return False
    return True


def _compare_gradients(fn: _Fn, reference: _Fn, example: _Example, which: str) -> None:
    "Raise Broken if a gradient differs; there may be none to compare."
    grads: list[tuple[Tensor | None, ...]] = []
    for f in (reference, fn):
        given = _copied(example, grad=True)
        leaves = [t for t in given if _floats(t)]
        outs = [t for t in _parts(f(*given)) if _floats(t)]
        if not leaves or not any(t.requires_grad for t in outs):
            if grads:
                raise Broken(
                    f"{which}{_shown(fn, example)}: the result does not require a gradient",
                    known("grad.detached"),
                )
            return
        rng = torch.Generator().manual_seed(0)
        total = sum((t * torch.randn(t.shape, generator=rng).to(t)).sum() for t in outs)
        grads.append(torch.autograd.grad(total, leaves, allow_unused=True))
    for i, (leaf, want, got) in enumerate(zip(leaves, *grads)):
        want, got = (torch.zeros_like(leaf) if g is None else g for g in (want, got))
        if not nearly(got, want, 1e-4):
            shown = f"gradient of floating argument {i}, {first_difference(got, want, 1e-4)}"
            bug = known("grad.partly_detached" if got.isfinite().all() else "grad.nan")
            raise Broken(f"{which}{_shown(fn, example)}: {shown}", bug)


def _parts(result: Any) -> tuple[Any, ...]:
    return tuple(result) if isinstance(result, (tuple, list)) else (result,)


def agreement_properties(
    fn: _Fn,  # the function to check
    reference: _Fn,  # one that is right, if slow
    examples: tuple[_Example, ...],  # the arguments of one call each
    wrong: Mapping[str, _Fn] | None = None,  # likely wrong answers, by what is wrong with them
) -> Iterator[Property]:  # what raises Broken or NotChecked, by name
    "List what must hold of two functions that should do the same."
    for i, example in enumerate(examples):
        yield Property(
            f"example {i + 1}: the result is right",
            partial(_same_result, fn, reference, example, examples, wrong),
            "your reference",
        )
    yield Property("inputs are not modified", lambda: _untouched(fn, examples))
    if _has_gradients(reference, examples):
        yield Property("gradients are right", lambda: _same_gradients(fn, reference, examples))
