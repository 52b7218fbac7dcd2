"""Fit what explains the numbers that were seen: a scale, a soft cap, a type, a band of keys."""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from attention_checks.catalogue import known
from attention_checks.catalogue.choices import ACTIVATIONS
from attention_checks.explaining.pipeline import Bug, Work
from attention_checks.explaining.reach import Reach
from attention_checks.explaining.search import Case, alike
from attention_checks.numbers.tensors import nearly
from attention_checks.numbers.tolerance import FLOAT32, NO_FACTOR, ONE_NUMBER
from attention_nb.softmax import softmax

_LEAST_CAP = 1e-3  # a search for a cap may go below 0


def nearest_number(
    case: Case,  # what was seen
    make: Callable[[Tensor], tuple[Work, tuple[Bug, ...]]],  # what stages begin with, of numbers
    centre: float,  # where the search begins
    width: float,  # how far to both sides
) -> float:
    "Fit a number: with which one the stages come nearest to the output."
    best = centre
    for step in range(40):
        numbers = best + width * torch.linspace(-1, 1, 33)
        work, bugs = make(numbers.view(-1, 1, 1, 1, 1))
        made = case.run(work, bugs)
        if made is None or made.out.shape[1:] != case.seen.shape:
            break
        off = (made.out - case.seen).flatten(1).norm(dim=1)
        best, width = float(numbers[off.argmin()]), 0.6 * width
        if step == 8 and off.min() > 0.2 * case.seen.norm():
            break  # no number comes near
    return best


def fitted_cap(case: Case) -> Bug | None:  # None: no soft cap gives it
    "Find the soft cap that gives the numbers that were seen, if none or another was declared."

    def capped(number: Tensor) -> tuple[Work, tuple[Bug, ...]]:
        cap = number.abs() + _LEAST_CAP
        step = lambda work: work._replace(scores=cap * torch.tanh(work.scores / cap))
        return case.work, (Bug("", "", {"cap": step}),)

    if "cap" not in case.stages or case.given_by(case.run()):
        return None
    number = nearest_number(case, capped, 32.0, 31.0)
    if not case.given_by(case.run(*capped(torch.tensor(number)))):
        return None
    return known("scores.capped", cap=f"{abs(number) + _LEAST_CAP:.3g}")


def fitted_factor(case: Case, declared: float = 1.0) -> Bug | None:  # None: no factor gives it
    "Find the one factor of the context, beside a declared one, that gives what was seen."
    none, once = _with_end(case, torch.zeros_like), _with_end(case, lambda out: out)
    if none is None or once is None or once.out.shape != case.seen.shape:
        return None
    given, seen = (once.out - none.out).flatten(), (case.seen - none.out).flatten()
    factor = float(seen @ given / (given @ given).clamp(min=1e-9))
    wrong = abs(factor) > NO_FACTOR and not math.isclose(factor, 1, rel_tol=ONE_NUMBER)
    if not wrong or not case.given_by(_with_end(case, lambda out: factor * out)):
        return None
    return known("values.scaled", found=f"{factor:.4g}", value=f"{declared * factor:.4g}")


def fitted_activation(case: Case) -> Bug | None:  # None: no usual function gives it
    "Find the function of the context that gives the numbers that were seen."
    for name in ACTIVATIONS:
        if case.given_by(_with_end(case, getattr(F, name))):
            return known("context.activated", name=name)
    return None


def _with_end(case: Case, f: Callable[[Tensor], Tensor]) -> Work | None:
    "Return what a context that is changed before heads are merged gives; None if it does not fit."
    mix = case.stages["mix"]

    def changed(work: Work) -> Work:
        made = mix(work)
        return made._replace(out=f(made.out))

    return case.run(case.work, [Bug("", "", {"mix": changed})])


def fitted_cosine(case: Case) -> Bug | None:  # None: no factor gives it
    "Find the factor of queries and keys of length 1 that gives the numbers that were seen."
    if "score" not in case.stages:
        return None
    bug = known("norm.queries_and_keys_length")

    def scaled(number: float | Tensor) -> tuple[Work, tuple[Bug, ...]]:
        return case.work._replace(scale=number), (bug,)

    number = nearest_number(case, scaled, 16.0, 16.0)
    if not case.given_by(case.run(*scaled(number))):
        return None
    return known("scores.cosine", found=f"{number:.4g}")


def fitted_epsilon(
    weights: Tensor,  # what should be the softmax of the scores, (..., n)
    scores: Tensor,  # -inf where nothing may be seen, (..., n)
) -> Bug | None:  # if that explains the weights
    "Find a number that is added to the sum of exponentials, such as an epsilon."
    sums, largest = weights.sum(-1, keepdim=True), scores.amax(-1, keepdim=True)
    if not alike(weights, softmax(scores) * sums):
        return None
    for shift in (largest, 0 * largest):
        added = (scores - shift).exp().sum(-1, keepdim=True) * (1 / sums - 1)
        if added.min() > 0 and added.max() < 1.2 * added.min():
            return known("softmax.epsilon", number=f"{added.mean():.1g}")
    return None


def fitted_dtype(
    weights: Tensor,  # random ones, in a type of 32 bits or more
) -> Bug | None:  # if sixteen bits are enough to hold them all
    "Find a type with fewer bits than the input's, by what it rounds away."
    if len(weights.unique()) <= weights.shape[-1]:
        return None
    for dtype in (torch.bfloat16, torch.float16):
        if torch.equal(weights, weights.to(dtype).to(weights)):
            return known("dtype.narrow", dtype=dtype)
    return None


def fitted_band(
    seen: Tensor,  # boolean, which keys each query attends to, (n_q, n_k); the last stands at last
    declared: Reach | None,  # None: nothing
) -> Bug | None:  # None: it is no band, or the declared one
    "Name the band of keys that queries see, if it is a wrong one."
    declared = declared or Reach(causal=False)
    i, j = declared.positions(*seen.shape)
    inside = seen & ~declared.is_sink(i, j) if declared.window else seen
    if not inside.any():
        return None
    back, ahead = int((i - j)[inside].max()), max(0, int((j - i)[inside].max()))
    found = declared._replace(window=back + 1, ahead=ahead)
    right = declared.mask(*seen.shape)
    if not seen.equal(found.mask(*seen.shape)) or seen.equal(right) or _whole(seen):
        return None
    if declared.window and not ahead and not declared.ahead:
        return known("window.size", name="window", size=declared.window, seen=back + 1)
    limits = {"window": declared.window, "ahead": declared.ahead}
    text = ", ".join(f"{name}={n}" for name, n in limits.items() if n)
    text = f"{text} was declared" if text else "no window was declared"
    return known("window.band", back=back, ahead=ahead, size=back + 1, declared=text)


def _whole(seen: Tensor) -> bool:
    "Return whether every key is seen, or all of the past: then there is no band."
    whole = torch.ones_like(seen)
    return seen.equal(whole) or seen.equal(whole.tril(seen.shape[1] - seen.shape[0]))


def fitted_scale(
    case: Case,  # what was seen
    by_parts: bool = False,  # is it beside a scale that parts of the layer make?
) -> Bug | None:  # None: no factor gives it
    "Find the one wrong factor of the scores that gives the numbers that were seen."
    right = float(case.work.scale)
    scale = nearest_number(case, lambda s: (case.work._replace(scale=s), ()), 0.0, 4 * right)
    made = case.run(case.work._replace(scale=scale))
    wrong = not math.isclose(scale, right, rel_tol=ONE_NUMBER)
    if made is not None and wrong and nearly(made.out, case.seen, FLOAT32):
        if by_parts:
            return known("scale.beside", found=f"{scale:.4g}")
        usual = math.isclose(right, case.work.q.shape[-1] ** -0.5, rel_tol=ONE_NUMBER)
        why = "which is 1/√d_head" if usual else "as declared"
        return known("scale.head_constant", found=f"{scale:.4g}", right=f"{right:.4g}, {why}")
    return None
