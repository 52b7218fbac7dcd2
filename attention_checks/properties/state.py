"""State: calls repeat, inputs stay as they are, strides and tracing change nothing."""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stderr
from typing import Any

import torch
from torch import Tensor

from attention_checks.catalogue import known
from attention_checks.examine import Broken, NotChecked, first_line
from attention_checks.numbers import first_difference, nearly
from attention_checks.subjects import Tried
from attention_nb.tools.testing import reset_compiler

_Call = Callable[..., Tensor]


def repeats(subject: Tried) -> None:
    "Raise Broken if the same inputs give another result, also after others."
    first, other = (list(subject.inputs(seed).values()) for seed in (0, 5))
    must_repeat(lambda: subject(*first), lambda: subject(*other))


def untouched(subject: Tried) -> None:
    "Raise Broken if inputs are changed."
    must_leave_alone(subject.on_these, subject.raw_inputs())


def any_strides(subject: Tried) -> None:
    "Raise Broken if the same numbers, with other strides in memory, give others."
    must_not_mind_strides(subject.on_these, *subject.raw_inputs().values())


def untouched_anyhow(subject: Tried) -> None:
    "Raise Broken if inputs are changed, or must be contiguous."
    untouched(subject)
    any_strides(subject)


_LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "as split_heads makes them": lambda t: t.transpose(0, -2).contiguous().transpose(0, -2),
    "transposed in memory": lambda t: t.mT.contiguous().mT,
    "every second vector of a longer tensor": lambda t: t.repeat_interleave(2, -2)[..., ::2, :],
    "expanded from one": lambda t: t[:1].expand(t.shape),
}


def must_not_mind_strides(f: _Call, *inputs: Tensor) -> None:
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
        if not nearly(got, want, equal_nan=True):
            raise Broken(f"{how}: {first_difference(got, want)}", known("memory.strides"))


def must_leave_alone(f: _Call, inputs: Mapping[str, Tensor]) -> None:
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


def must_repeat(
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
    if not nearly(got, first, 1e-6, equal_nan=True):
        raise Broken(f"called {call}: {first_difference(got, first, 1e-6)}", known(code), last=True)


def must_trace(
    f: Callable[..., Tensor],  # what to trace
    *inputs: Tensor,  # its arguments; small ones, since a trace unrolls loops
) -> None:
    "Raise Broken if a traced function gives other numbers, NotChecked if it cannot be traced."
    reasons = []
    for name, tracer in _TRACERS.items():
        want = f(*inputs)
        try:
            with _quiet():
                reset_compiler()
                got = tracer(f, inputs)(*inputs)
        except Exception as e:
            reasons.append(f"{name} cannot trace it: {type(e).__name__}")
            continue
        finally:
            f(*inputs)  # what it keeps from its last call is an ordinary tensor again
        if not nearly(got, want, equal_nan=True):
            bug = known("trace.other", tracer=name)
            raise Broken(f"{name}: {first_difference(got, want)}", bug)
    if reasons:
        raise NotChecked("; ".join(reasons))


@contextmanager
def _quiet() -> Iterator[None]:
    "Silence warnings and logs inside: tracing warns of much that is no concern of the caller."
    level = logging.root.manager.disable
    trace_log = logging.getLogger("torch.__trace")  # it does not obey `logging.disable`
    was, trace_log.disabled = trace_log.disabled, True
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings(), redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(level)
        trace_log.disabled = was


def _compiled(f: Callable[..., Tensor], inputs: tuple[Tensor, ...]) -> Callable[..., Tensor]:
    "Trace it with torch.compile; run eagerly, it needs no C++ compiler."
    return torch.compile(f, backend="eager", dynamic=False)


def _exported(f: Callable[..., Tensor], inputs: tuple[Tensor, ...]) -> Callable[..., Tensor]:
    "Trace it with torch.export, which wants a module."

    class Module(torch.nn.Module):
        "The function as a module."

        def forward(self, *inputs: Tensor) -> Tensor:
            "Call the function."
            return f(*inputs)

    return torch.export.export(Module(), inputs, strict=False).module()


_TRACERS: dict[str, Callable[..., Callable[..., Tensor]]] = {
    "torch.compile": _compiled,
    "torch.export": _exported,
}
