"""Compare tensors, describe where they differ, and expect a tensor of code under test."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from attention_checks.catalogue import known
from attention_checks.explaining.pipeline import Bug
from attention_checks.numbers.tolerance import FLOAT32, RELATIVE, USUAL_TOLERANCE, tolerance_factor
from attention_checks.outcomes import Broken, Misused, NotChecked, first_line


def nearly(
    got: Tensor,  # any shape
    want: Tensor,  # what it should be
    atol: float = USUAL_TOLERANCE,  # how far apart small numbers may be: of float32, in short sums
    equal_nan: bool = False,  # are two NaN the same?
) -> bool:  # True for one shape and nearly the same finite values
    "Compare two tensors."
    return got.shape == want.shape and not _apart(got, want, atol, equal_nan).any()


def _apart(got: Tensor, want: Tensor, atol: float, equal_nan: bool) -> Tensor:
    "Mark where two tensors of one shape differ by more than the tolerance."
    factor = tolerance_factor()
    got, want = got.double(), want.double()
    return ~torch.isclose(got, want, RELATIVE * factor, atol * factor, equal_nan)


def first_difference(
    got: Tensor,  # what came out
    want: Tensor,  # what should have
    atol: float = USUAL_TOLERANCE,  # how far apart small numbers may be, as in `nearly`
) -> str:  # index and both numbers, or both shapes
    "Describe where two tensors first differ by more than the tolerance, or that their shapes do."
    if got.shape != want.shape:
        return f"it gives shape {tuple(got.shape)}, expected {tuple(want.shape)}"
    # The first, not the largest difference: of two that are about as large, rounding would choose.
    # Two NaN, and what is within the tolerance, count only where nothing else differs.
    degrees = (_apart(got, want, atol, True), _apart(got, want, atol, False), got != want)
    places = next((where for where in degrees if where.any()), torch.ones_like(degrees[0]))
    index = tuple(places.nonzero()[0].tolist())
    where = f"at {list(index)} " if index else ""
    return f"{where}it gives {_number(got[index])}, expected {_number(want[index])}"


def must_be_near(
    got: Tensor,  # what came out
    want: Tensor,  # what should have
    shown: str,  # what was tried, in words
    bug: Bug | Sequence[Bug] | Callable[[], Bug | Sequence[Bug]],  # what is wrong if they differ
    atol: float = USUAL_TOLERANCE,  # as in `nearly`
    equal_nan: bool = False,  # as in `nearly`
    **more: Any,  # symptom and last, as in `Broken`
) -> None:
    "Raise Broken, with the first difference, unless two tensors are nearly the same."
    if not nearly(got, want, atol, equal_nan):
        found = bug() if callable(bug) else bug
        raise Broken(f"{shown}: {first_difference(got, want, atol)}", found, **more)


def rounding(y: Tensor) -> float:
    "Return how far an output may move by rounding alone."
    return FLOAT32 * tolerance_factor() * max(1.0, y.abs().nan_to_num().max().item())


def must_run(
    call: Callable[[], Tensor],  # of the code under test
    shown: str,  # what was tried, in words
    bug: Callable[[], Bug],  # what is wrong if it raises
) -> Tensor:  # what it gives
    "Raise Broken, with what the code under test raised."
    try:
        return call()
    except (Broken, NotChecked, Misused):
        raise
    except Exception as e:
        raise Broken(f"{shown}: it raised {first_line(e, 150)}", bug()) from None


def _number(x: Tensor) -> str:
    "Write True or False, or a number to four digits."
    if x.dtype == torch.bool:
        return str(x.item())
    return f"{x.item() + 0:.4g}"  # + 0: not -0


def sizes_of(**tensors: Tensor) -> str:  # such as "q (2, 3), k (4, 3)"
    "Write names and shapes."
    return ", ".join(f"{name} {tuple(x.shape)}" for name, x in tensors.items())


def numbers_of(**tensors: Tensor) -> str:  # such as "q = [0.5, 1.25]"
    "Write small tensors out."
    lists = {name: x.flatten().tolist() for name, x in tensors.items()}
    return ", ".join(f"{name} = {[round(x, 2) for x in some]}" for name, some in lists.items())


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
    result: Any,  # what the code under test returned
    where: str = "",  # what it was called with, if that helps
) -> None:
    "Raise Broken for None."
    if result is None:
        raise Broken(f"{where}it returned None", known("code.returns_nothing"))


def must_be_tensor(result: Any) -> None:
    "Raise Misused for an array of another library, and Broken for anything else that is no tensor."
    if isinstance(result, Tensor):
        return
    must_return(result)
    kind = type(result)
    if hasattr(result, "__array__"):
        name = f"{kind.__module__}.{kind.__name__}"
        raise Misused(f"expected code that takes and returns torch tensors; got {name} from it")
    raise Broken(f"it returned {kind.__name__}", known("code.returns_no_tensor"))
