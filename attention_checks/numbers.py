"""Compare tensors, say where they differ, and try what must hold of every function of tensors."""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr
from typing import Any

import torch
from torch import Tensor

from attention_checks.catalogue import known
from attention_checks.examine import Broken, Misused, NotChecked
from attention_checks.pipeline import tolerance_factor
from attention_nb.tools.testing import reset_compiler


def nearly(
    a: Tensor,  # any shape
    b: Tensor,  # what it should be
    atol: float = 2e-4,  # how far apart small numbers may be: float32, sums of a few dozen
    equal_nan: bool = False,  # does NaN in the same place count as the same?
) -> bool:  # True for one shape and nearly the same finite values
    "Compare two tensors."
    return a.shape == b.shape and not _apart(a, b, atol, equal_nan).any()


def _apart(a: Tensor, b: Tensor, atol: float, equal_nan: bool) -> Tensor:
    "Where two tensors of one shape differ by more than the tolerance."
    return ~torch.isclose(
        a.double(),
        b.double(),
        rtol=1e-3 * tolerance_factor(),
        atol=atol * tolerance_factor(),
        equal_nan=equal_nan,
    )


def first_difference(
    got: Tensor,  # what came out
    want: Tensor,  # what should have
    atol: float = 2e-4,  # how far apart small numbers may be, as in `nearly`
) -> str:  # place and both numbers, or both shapes
    "Say where two tensors first differ by more than the tolerance, or that their shapes do."
    if got.shape != want.shape:
        return f"it gives shape {tuple(got.shape)}, expected {tuple(want.shape)}"
    # Not where they differ most: of two places that differ about as much, rounding would choose. NaN beside NaN and
    # what differs less count only where nothing else does.
    degrees = (_apart(got, want, atol, True), _apart(got, want, atol, False), got != want)
    degree = torch.stack(degrees).sum(0)
    place = tuple((degree == degree.max()).nonzero()[0].tolist())  # the first, in reading order
    at = f"at {list(place)} " if place else ""
    return f"{at}it gives {_number(got[place])}, expected {_number(want[place])}"


def _number(x: Tensor) -> str:
    "True or False, or a number to four digits."
    return str(x.item()) if x.dtype == torch.bool else f"{x.item() + 0:.4g}"  # + 0: not -0


def sizes_of(
    **tensors: Tensor,  # name=tensor
) -> str:  # such as "q (2, 3), k (4, 3)"
    "Give names and shapes."
    return ", ".join(f"{name} {tuple(t.shape)}" for name, t in tensors.items())


def numbers_of(
    **tensors: Tensor,  # name=tensor, small ones
) -> str:  # such as "q = [0.5, 1.25]"
    "Write small tensors out."
    return ", ".join(
        f"{name} = {[round(x, 2) for x in t.flatten().tolist()]}" for name, t in tensors.items()
    )


def some_mask(
    n_q: int,  # queries
    n_k: int,  # keys
) -> Tensor:  # boolean, True = may attend, (n_q, n_k); the same for the same sizes
    "Draw a mask that leaves every query and every key something."
    mask = torch.rand(n_q, n_k, generator=torch.Generator().manual_seed(3)) < 0.6
    i = torch.arange(max(n_q, n_k))
    mask[i % n_q, i % n_k] = True
    return mask


def must_return(
    found: Any,  # what the code under test returned
    where: str = "",  # what it was called with, if that helps
) -> None:
    "Raise Broken for None."
    if found is None:
        raise Broken(f"{where}it returned None", known("code.returns_nothing"))


def must_be_tensor(
    found: Any,  # what the code under test returned
) -> None:
    "Raise Misused for an array of another library, and Broken for anything else that is no tensor."
    if isinstance(found, Tensor):
        return
    must_return(found)
    kind = type(found)
    if hasattr(found, "__array__"):
        raise Misused(
            f"expected code that takes and returns torch tensors; got {kind.__module__}.{kind.__name__} from it"
        )
    raise Broken(f"it returned {kind.__name__}", known("code.returns_no_tensor"))


def must_keep_dtype(
    found: Tensor,  # what the code under test returned
    dtype: torch.dtype,  # of 16 bits: what it was given
    like: str,  # the input that has it, such as "v"
) -> None:
    "Raise Broken if 16 bits come back in another type."
    if found.dtype != dtype:
        here, there = (str(t).removeprefix("torch.") for t in (dtype, found.dtype))
        bug = known("dtype.other", found=there, like=like, given=here)
        raise Broken(f"{like} is {here}: it returns {there}", bug)


@contextmanager
def fixed_chance() -> Iterator[None]:
    "Seed the random numbers and use one thread inside; the caller's come back afterwards."
    state, threads = torch.get_rng_state(), torch.get_num_threads()
    torch.manual_seed(0)
    torch.set_num_threads(1)  # the tensors are small
    try:
        yield
    finally:
        torch.set_rng_state(state)
        torch.set_num_threads(threads)


def _seeded(f: Callable[[], Tensor]) -> Tensor:
    "One call with a fixed random seed."
    torch.manual_seed(0)
    return f()


def must_repeat(
    f: Callable[[], Tensor],  # one call
    between: Callable[[], Any] = lambda: None,  # calls with other inputs
) -> None:
    "Raise Broken if the same call gives another answer, by chance or by what is kept from other calls."
    first = _seeded(f)
    _must_be_same(first, _seeded(f), "twice, with one random seed too", "state.kept")
    for call in (
        "twice",
        "once more",
    ):  # two numbers drawn at random may be nearly the same, but hardly three
        _must_be_same(first, f(), call, "state.chance")
    between()
    _must_be_same(first, _seeded(f), "again after other inputs", "state.kept")


def _must_be_same(first: Tensor, after: Tensor, call: str, code: str) -> None:
    "Raise Broken unless another call gave the same."
    if not nearly(first, after, 1e-6, equal_nan=True):
        raise Broken(
            f"called {call}: {first_difference(after, first, 1e-6)}", known(code), last=True
        )


@contextmanager
def _quiet() -> Iterator[None]:
    "No warnings: tracing warns of much that is no concern of the caller."
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


def _exported(f: Callable[..., Tensor], inputs: tuple[Tensor, ...]) -> Callable[..., Tensor]:
    "The graph of a function, which must be a module's."

    class Module(torch.nn.Module):
        def forward(self, *inputs: Tensor) -> Tensor:
            return f(*inputs)

    return torch.export.export(Module(), inputs, strict=False).module()


_TRACERS: dict[str, Callable[..., Callable[..., Tensor]]] = {
    "torch.compile": lambda f, inputs: torch.compile(
        f, backend="eager", dynamic=False
    ),  # run eagerly, it needs no C++ compiler
    "torch.export": _exported,
}


def _traced(tracer: str, f: Callable[..., Tensor], *inputs: Tensor) -> Tensor:
    "What the traced function gives; NotChecked if it cannot be traced."
    try:
        with _quiet():
            reset_compiler()
            return _TRACERS[tracer](f, inputs)(*inputs)
    except Exception as e:
        raise NotChecked(f"{tracer} cannot trace it: {type(e).__name__}") from None


def must_trace(
    f: Callable[..., Tensor],  # what to trace
    *inputs: Tensor,  # its arguments; small ones, since a trace unrolls loops
) -> None:
    "Raise Broken if a traced function gives other numbers, NotChecked if it cannot be traced."
    reasons = []
    for name in _TRACERS:
        want = f(*inputs)
        try:
            got = _traced(name, f, *inputs)
        except NotChecked as e:
            reasons.append(str(e))
            continue
        finally:
            f(*inputs)  # what it keeps from its last call is an ordinary tensor again
        if not nearly(got, want, equal_nan=True):
            raise Broken(
                f"{name}: {first_difference(got, want)}", known("trace.other", tracer=name)
            )
    if reasons:
        raise NotChecked("; ".join(reasons))
