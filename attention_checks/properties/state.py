"""State: calls repeat, inputs stay as they are, strides and tracing change nothing."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from attention_checks.catalogue import known
from attention_checks.numbers.tensors import first_difference, must_be_near
from attention_checks.numbers.tolerance import SAME_CALL
from attention_checks.outcomes import Broken, NotChecked, first_line
from attention_checks.subjects import TensorFunction, UnderTest


def must_repeat(subject: UnderTest) -> None:
    "Raise Broken if the same inputs give another result, also after others."
    first, other = (list(subject.inputs(seed).values()) for seed in (0, 5))
    must_repeat_call(lambda: subject(*first), lambda: subject(*other))


def must_not_modify(subject: UnderTest) -> None:
    "Raise Broken if inputs are changed."
    must_leave_alone(subject.on_these, subject.raw_inputs())


def must_take_any_strides(subject: UnderTest) -> None:
    "Raise Broken if the same numbers, with other strides in memory, give others."
    must_not_mind_strides(subject.on_these, *subject.raw_inputs().values())


def must_only_read(subject: UnderTest) -> None:
    "Raise Broken if inputs are changed, or must be contiguous."
    must_not_modify(subject)
    must_take_any_strides(subject)


_LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "as split_heads makes them": lambda t: t.transpose(0, -2).contiguous().transpose(0, -2),
    "transposed in memory": lambda t: t.mT.contiguous().mT,
    "every second vector of a longer tensor": lambda t: t.repeat_interleave(2, -2)[..., ::2, :],
    "expanded from one": lambda t: t[:1].expand(t.shape),
}


def must_not_mind_strides(f: TensorFunction, *inputs: Tensor) -> None:
    "Raise Broken if the same numbers, with other strides in memory, give others."
    for how, layout in _LAYOUTS.items():
        other = [layout(t) if t.is_floating_point() else t for t in inputs]
        want = f(*(t.contiguous().clone() for t in other))
        try:
            got = f(*other)
        except Exception as e:
            if "written-to tensor" in str(e):
                why = "it writes into its inputs, which must not share memory then"
                raise NotChecked(why) from None
            shown = f"{how}: it raised {first_line(e, 150)}"
            raise Broken(shown, known("memory.contiguous")) from None
        must_be_near(got, want, how, known("memory.strides"), equal_nan=True)


def must_leave_alone(f: TensorFunction, inputs: Mapping[str, Tensor]) -> None:
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


def must_repeat_call(
    f: Callable[[], Tensor],  # one call
    between: Callable[[], Any] = lambda: None,  # calls with other inputs
) -> None:
    "Raise Broken if the same call gives another result: random numbers, or something it keeps."
    first = _seeded(f)
    _must_be_same(_seeded(f), first, "twice, with one random seed too", "state.kept")
    for call in ("twice", "once more"):  # two random numbers may be nearly the same, hardly three
        _must_be_same(f(), first, call, "state.chance")
    between()
    _must_be_same(_seeded(f), first, "again after other inputs", "state.kept")


def _seeded(f: Callable[[], Tensor]) -> Tensor:
    "Call it with a fixed random seed."
    torch.manual_seed(0)
    return f()


def _must_be_same(got: Tensor, first: Tensor, call: str, code: str) -> None:
    "Raise Broken unless another call gave what the first one did."
    must_be_near(got, first, f"called {call}", known(code), SAME_CALL, equal_nan=True, last=True)
