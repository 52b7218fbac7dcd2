"""Compare a layer that rotates queries and keys by positions (RoPE) with its own projections."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain, islice, product

import torch
from torch import Tensor

from attention_checks.catalogue import ATTENTION
from attention_checks.catalogue.layer_rotations import rotating
from attention_checks.catalogue.layers import GROUP_BUGS, LAYER_BUGS
from attention_checks.catalogue.scales_and_routes import SCALE
from attention_checks.choice_guards import scales_by_parts
from attention_checks.explaining.fitting import fitted_cap, fitted_scale
from attention_checks.explaining.pipeline import Bug, RightStep, Step, adding, after, unchanged
from attention_checks.explaining.search import Case, explain
from attention_checks.trace.comparing import bugs_of_masks, more_fits, with_fill
from attention_checks.trace.readings import Start, starts_of
from attention_checks.trace.tracing import Trace
from attention_nb.positions import alibi_slopes

_LATENT_WAYS = 8  # in which the projections of latent attention (MLA) may be read


def _possible_angles(trace: Trace, d: int, shared: int) -> Iterator[tuple[Tensor, float]]:
    "Angles for d features, (n, pairs), and the factor of rotated pairs: seen, kept, or usual ones."
    fitting = [z for z in trace.rotations if 2 * z.shape[-1] <= d]
    if fitting:
        yield from ((z.angle(), float(z.abs().mean())) for z in fitting)
        return
    positions = torch.arange(trace.x.shape[1])[:, None]
    sizes = [shared] if shared else dict.fromkeys((d, d // 2, d // 4))
    for size in (size for size in sizes if size > 1 and size % 2 == 0):
        for base in (1e4, 5e5, 1e6, 100.0):
            yield positions * base ** -(torch.arange(0, size, 2) / size), 1.0


def _rotations(trace: Trace, h: int, d: int, signs: tuple[int, ...]) -> Iterator[RightStep]:
    "Yield ways to rotate d features of h heads by positions."
    for angles, longer in _possible_angles(trace, d, trace.shared_width(h)):
        for halves, sign in product((True, False), signs):
            yield rotating(sign * angles, halves, longer)


def _penalties(h: int, n: int, capped: bool) -> Iterator[RightStep]:
    "Penalties that grow with the distance (ALiBi), by the usual slopes of h heads."
    distance = torch.arange(n)[:, None] - torch.arange(n)
    orders = (False, True) if capped else (False,)  # after a soft cap, too
    for slopes in (alibi_slopes(h), 0.5 ** torch.arange(1, h + 1)):
        for far, last in product((distance.abs(), distance), orders):
            yield adding(-slopes[:, None, None] * far, last), []


def _rotated_starts(
    trace: Trace, firsts: Iterable[Start], signs: tuple[int, ...] = (1, -1)
) -> Iterator[tuple[int, Start]]:
    "Yield starts with every rotation or penalty, and its number among its kind."
    for start in firsts:
        _, h, n, d = start.case.work.q.shape
        capped = bool(trace.contract.softcap)
        penalties = _penalties(h, n, capped) if trace.memory is None and signs[0] > 0 else ()
        turns = _rotations(trace, h, d, signs)
        for i, (right, bugs) in chain(enumerate(penalties), enumerate(turns)):
            case = start.case._replace(stages={**start.case.stages, "rotate": right})
            yield i, start._replace(case=case, more=(*bugs, *start.more))


def _first_starts(
    trace: Trace, heads: list[int], mask: Tensor | None, few: int, right: bool = True
) -> Iterator[Start]:
    "Return the first starts of each number of heads that are right, or wrong already."
    most = 3 * few if trace.gate_width else few  # as many places for a gate
    for h in heads:
        found = (start for start in starts_of(trace, h, mask) if right is not bool(start.bugs))
        yield from islice(found, most)


def _with_norm_after(start: Start) -> Iterator[Start]:
    "Yield the start, and the same with norms of each head after the rotation, not before."
    yield start
    case = start.case
    norm, rotate = case.stages.get(after("split")), case.stages["rotate"]
    if norm is not None:
        both: Step = lambda work: norm(rotate(work))
        stages = {**case.stages, after("split"): unchanged, "rotate": both}
        yield start._replace(case=case._replace(stages=stages))


def agrees_with_rotation(
    trace: Trace,
    signs: tuple[int, ...] = (1, -1),  # the directions that count: 1 as usual, -1 backwards
    window: int | None = None,  # how many tokens a token may attend to, itself included; None: all
) -> bool:
    "Say whether a layer is attention with queries and keys rotated by positions (RoPE)."
    most = _LATENT_WAYS if "latent" in trace.projections else 4
    firsts = _first_starts(trace, trace.heads, trace.allowed(window), most)
    starts = _rotated_starts(trace, firsts, signs)
    both = (each for _, start in starts for each in _with_norm_after(start))
    return any(explain([start.case], [], 0) is not None for start in both)


def name_rotation_bug(
    trace: Trace,
    window: int | None = None,  # how many tokens a token may attend to, itself included; None: all
) -> tuple[Bug, ...] | None:  # None: no known bug gives its numbers
    "Find the bug of a layer that rotates queries and keys by positions."
    heads, mask, found = trace.heads[:1], trace.allowed(window), []
    for _, start in _rotated_starts(trace, _first_starts(trace, heads, mask, 8, right=False)):
        if explain([start.case], [], 0) is not None:
            return start.bugs
    starts = list(_rotated_starts(trace, _first_starts(trace, heads, mask, 2)))
    every = [*LAYER_BUGS, *GROUP_BUGS, *ATTENTION]
    tried = [(start, [*start.more, *SCALE, *(every if i < 4 else [])]) for i, start in starts]
    tried += [(start, [*start.more, *SCALE]) for start in _other_latent_starts(trace, heads, mask)]
    late = [with_fill(start) for i, start in starts if trace.contract.hides_future and i < 4]
    of_masks = bugs_of_masks(every)
    for start, some in (*tried, *((start, of_masks) for start in late)):
        bugs = explain([start.case], some, 1)
        if bugs and len(bugs) == 1:
            return bugs
        found += [bugs] if bugs else []
    return min(found, key=len, default=None) or _fitted_beside(
        trace, [start for _, start in starts]
    )


def _other_latent_starts(trace: Trace, heads: list[int], mask: Tensor | None) -> Iterator[Start]:
    "Yield the rotated starts of the less usual ways to read latent attention."
    if "latent" in trace.projections:
        others = islice(_first_starts(trace, heads, mask, _LATENT_WAYS), 2, None)
        yield from (start for _, start in _rotated_starts(trace, others))


def _fitted_beside(trace: Trace, starts: list[Start]) -> tuple[Bug, ...] | None:
    "Return the scale or the soft cap that was not declared, beside a rotation that was seen."
    scaled = partial(fitted_scale, by_parts=scales_by_parts(trace.contract.scale))
    fits: list[Callable[[Case], Bug | None]] = [scaled, fitted_cap, *more_fits(trace)]
    if not trace.rotations and "latent" not in trace.projections:
        return None
    with torch.no_grad():
        for start, fit in product(starts, fits):
            if bug := fit(start.case):
                return (bug,)
    return None
