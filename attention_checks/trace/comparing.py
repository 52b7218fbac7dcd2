"""Compute attention from a layer's own projections, and find the bugs that explain a difference."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import chain, islice, product

import torch
from torch import Tensor

from attention_checks.catalogue import ATTENTION, known, layers
from attention_checks.catalogue.scales_and_routes import SCALE
from attention_checks.choice_guards import scales_by_parts
from attention_checks.explaining import fitting
from attention_checks.explaining.changed_step import changed_step, declared_at
from attention_checks.explaining.pipeline import Bug, Step, Work, after, with_own
from attention_checks.explaining.search import Case, explain
from attention_checks.numbers.tensors import nearly, sizes_of
from attention_checks.numbers.tolerance import NO_FACTOR
from attention_checks.outcomes import Broken, Misused, NotChecked, attempt, bugs_in, first_line
from attention_checks.trace.readings import Start, starts_of
from attention_checks.trace.tracing import Trace
from attention_nb.multi_head_attention import merge_heads, split_heads

_FREQUENT = [
    bug
    for bug in (*layers.SPLITS, *layers.MERGES)
    if bug.code in ("split.viewed", "merge.viewed", "merge.features_first", "merge.heads_first")
]


def compare_with_own_weights(
    trace: Trace,
    window: int | None = None,  # how many tokens a token may attend to, itself included; None: all
    most: int = 2,  # how many bugs at once, beside a wrong scale, are tried
) -> tuple[Bug, ...] | None:  # what is wrong; () for nothing, None if nothing known fits
    "Compare a layer with attention computed from its own projections, and name the bugs."
    if not trace.out.isfinite().any():
        return None  # any bug may explain it
    heads, mask = trace.heads, trace.allowed(window)
    starts = _starts_by_bugs(trace, heads, mask)
    if most:
        starts += _starts_of_other_heads(trace, heads, mask)
    with torch.no_grad():
        tried = starts if most else [start for start in starts if not start.bugs]
        for start in tried:
            if explain([start.case], [], 0) is not None:  # it gives what was seen
                return _changed_instead(trace, starts, start.bugs) or start.bugs
        _must_run(trace, [start.case for start in starts if not start.bugs])
        found = _fewest_explanation(trace, starts, heads, most) if most else None
        return _beside_parts(trace, starts[0].case.work, found) if found else found


def _beside_parts(trace: Trace, work: Work, bugs: tuple[Bug, ...]) -> tuple[Bug, ...]:
    "Say of a wrong scale how it stands to that which parts of the layer make, if they do."
    if not scales_by_parts(trace.contract.scale):
        return bugs
    beside = (b.factor and known("scale.beside", found=f"{b.factor(work):.4g}") for b in bugs)
    return tuple(about or bug for about, bug in zip(beside, bugs))


def _changed_instead(trace: Trace, starts: list[Start], bugs: tuple[Bug, ...]) -> tuple[Bug, ...]:
    "Return what differs from attend= and gives the same numbers as another number of heads."
    if not trace.contract.attend or not any(bug.code == "heads.number" for bug in bugs):
        return ()
    right = next(start for start in starts if not start.bugs)
    return changed_step(trace.contract, right.case)


def _must_run(trace: Trace, cases: list[Case]) -> None:
    "Raise Broken with what a declared function raises, if no reading of the layer runs with it."
    contract = trace.contract
    declared = contract.asked or contract.shortened
    if not declared or not cases or any(case.run() for case in cases):
        return
    work = cases[0].work
    for stage, step in cases[0].stages.items():
        try:
            work = step(work)
        except (Misused, NotChecked):
            raise
        except Exception as e:
            what = f"the function that {declared_at(contract, stage)}= declares"
            bug = known("code.raises", what=what, error=first_line(e, 80, where=False))
            shown = sizes_of(q=work.q, k=work.k, v=work.v)
            raise Broken(f"{what}, given {shown}: it raised {first_line(e)}", bug) from e


def _starts_by_bugs(trace: Trace, heads: list[int], mask: Tensor | None) -> list[Start]:
    "Every way to read the projections, transposed as they should be or not; correct ones first."
    found: list[Start] = []
    for bugs, rows in [((), trace.projections), *trace.untransposed]:
        for h in heads:
            found += starts_of(trace._replace(projections=rows), h, mask, bugs)
    return sorted(found, key=lambda start: len(start.bugs))


def _fewest_explanation(
    trace: Trace, starts: list[Start], heads: list[int], most: int
) -> tuple[Bug, ...] | None:
    "Return the fewest bugs that explain the layer's output: a scale comes first."
    right, wrong = _first_right_ones(starts, heads), [start for start in starts if start.bugs]
    for start in starts:
        bugs = () if start.bugs else explain([start.case], SCALE, 0)
        if bugs:
            return bugs
    masking = (s for s in right if s.case.work.masked and "weigh" in s.case.stages)
    filled = map(with_fill, masking)
    found = _fewest_from(right + wrong[:7]) or _fewest_from(filled, bugs_of_masks)
    if found is not None:
        return found
    if (bugs := _fitted_or_changed(trace, right, most)) or most == 1:
        return bugs or None
    return _fewest_from(  # one bug is taken as given, to find a second one
        _with_stages(start, {**start.case.stages, **bug.steps}, bug)
        for start in right[:1]
        for bug in (*start.more, *_FREQUENT)
    )


def _fitted_or_changed(trace: Trace, right: list[Start], most: int) -> tuple[Bug, ...]:
    "Return what is fitted, or the changed steps of a declared function; () if nothing is."
    fits: list[Callable[[Case], Bug | None]] = [fitting.fitted_cap, partial(_bug_of_end, trace)]
    fitted = (fit(start.case) for fit, start in product([*fits, *more_fits(trace)], right))
    several = (most, 1, 1, 1)  # changes at once, most of the likeliest start
    changed = (changed_step(trace.contract, s.case, n) for s, n in zip(right, several))
    found: Iterator[Bug | tuple[Bug, ...] | None] = chain(fitted, changed)
    return next((bugs_in(bugs) for bugs in found if bugs), ())


def more_fits(trace: Trace) -> list[Callable[[Case], Bug | None]]:
    "List what is fitted where no known bug gives the numbers: each may be meant."
    value_scale = trace.contract.value_scale
    declared = value_scale if isinstance(value_scale, (int, float)) else 1.0
    factor = partial(fitting.fitted_factor, declared=declared)
    normed = trace.contract.norms or trace.unrecognised
    return [factor, fitting.fitted_activation, *([] if normed else [fitting.fitted_cosine])]


def _bug_of_end(trace: Trace, case: Case) -> Bug | None:
    "Return what is wrong with the end, if the output projection is used without a call."
    end = trace.output_projection
    made = case.run() if end.uncalled or end.matrices else None
    return named_end(trace, case.seen, made.out) if made and trace.context is None else None


def named_end(
    trace: Trace,
    out: Tensor,  # the layer's output, (b, n, d_out)
    projected: Tensor,  # what its output projection gives, (b, n, d_out)
) -> Bug | None:  # None for what may be meant, or is not known
    "Name what is wrong with that which follows the output projection."
    name = next(reversed(trace.names.get("out", [])), "")
    if trace.context is not None and nearly(out, trace.context):
        return known("project.never", name=name)
    if out.shape != projected.shape:
        return None
    if late := applied_late(trace):
        return late
    if nearly(out, projected.mean(1, keepdim=True).expand_as(projected)):
        return known("project.pooled")
    if times := _factor_between(out - projected, trace.output_projection.last_bias):
        return known("project.bias", name=name, times=f"{1 + times:.3g}")
    others = [part for part in trace.unrecognised if ", whose weight is read" not in part]
    factor = None if others else _factor_between(out, projected)
    return known("project.scaled", factor=f"{factor:.3g}") if factor else None


_MISSING = ("choice.missing", "gate.missing")
_OF_CONTEXT = ("gate", "norms", "activation", "value_scale")


def told_late(trace: Trace, bugs: tuple[Bug, ...]) -> tuple[Bug, ...]:
    "Say of what is not applied to the context that it is applied to the output, if it is."
    late = applied_late(trace) if any(bug.code in _MISSING for bug in bugs) else None
    return (late, *(bug for bug in bugs if bug.code not in _MISSING)) if late else bugs


def applied_late(trace: Trace) -> Bug | None:
    "Return the bug that what is declared of the context is applied to what was projected."
    gave, h = trace.output_projection.gave, trace.n_heads or 1
    if gave is None or gave.shape != trace.out.shape or gave.shape[-1] % h:
        return None
    given = {after("mix"): split_heads(gave, h), after("merge"): gave}
    ways = [(own, stage) for own in trace.stage_choices for stage in given if stage in own]
    made = [attempt(partial(own[stage][0], Work(out=given[stage]))) for own, stage in ways]
    late = [merge_heads(t) if t.ndim > 3 else t for t in (work.out for work in made if work)]
    seen = [trace.out] + [trace.out - trace.x] * (trace.x.shape == trace.out.shape)
    if not any(nearly(out, t) for out in seen for t in late):
        return None
    names = [f"{name}=" for name in _OF_CONTEXT if getattr(trace.contract, name)]
    return known("choice.late", what=" or ".join(names))


def _factor_between(t: Tensor, of: Tensor | None) -> float | None:
    "By which number something is multiplied to give t; None by no number."
    if of is None or not of.any():
        return None
    of = of.expand_as(t)
    factor = float((t * of).sum() / (of * of).sum())
    return factor if abs(factor) > NO_FACTOR and nearly(t / factor, of) else None


def _first_right_ones(starts: list[Start], heads: list[int]) -> list[Start]:
    "Return the first starts without bugs of each number of heads."
    few, first = 12 if len(heads) == 1 else 2, []
    for h in heads:
        of_h = [s for s in starts if not s.bugs and s.case.work.q.shape[-3] == h]
        first += of_h[:few]
    return first


def _fewest_from(
    starts: Iterable[Start], chosen_of: Callable[[list[Bug]], list[Bug]] = list
) -> tuple[Bug, ...] | None:
    "Return the fewest bugs that explain the output from some start: one and a scale at most."
    found: list[tuple[Bug, ...]] = []
    for start in starts:
        bugs = chosen_of([*start.more, *layers.LAYER_BUGS, *layers.GROUP_BUGS, *ATTENTION])
        if (agreeing := explain([start.case], bugs, 1)) is not None:
            found.append((*agreeing, *start.bugs))
            if len(found[-1]) < 2:
                break
    return min(found, key=len, default=None)


def _with_stages(start: Start, stages: Mapping[str, Step], *bugs: Bug) -> Start:
    "Return the start with other stages, and more bugs."
    return start._replace(case=start.case._replace(stages=stages), bugs=(*start.bugs, *bugs))


def with_fill(start: Start) -> Start:
    "Put a finite number for minus infinity: it matters where all keys of a query are masked."
    fill: Step = lambda work: work._replace(
        scores=work.scores.masked_fill(~work.allowed, torch.finfo(work.scores.dtype).min),
        allowed=torch.ones_like(work.allowed),
    )
    stages = start.case.stages
    if "mask" not in stages:  # a declared attend= masks
        return start
    return _with_stages(start, with_own(stages, {after("mask"): (fill, [])}))


def bugs_of_masks(bugs: Iterable[Bug]) -> list[Bug]:  # that can show beside `with_fill` alone
    "Return the bugs of masks and of weights."
    return [bug for bug in bugs if bug.needs == "mask" or bug.steps.keys() & {"mask", "weigh"}]


def _starts_of_other_heads(trace: Trace, heads: list[int], mask: Tensor | None) -> Iterator[Start]:
    "Starts with another number of heads, or one repeated head, if the number of heads is known."
    if len(heads) != 1:
        return
    width, h = trace.query_width, heads[0]
    for other in trace._replace(n_heads=None).heads:
        if other == h:
            continue
        found = f"{other} heads of width {width // other}"
        bug = known("heads.number", found=found, declared=f"{h} of width {width // h}")
        others = starts_of(trace, other, mask, (bug,))
        yield from (start for start in others if len(start.bugs) == 1)
    if h == 1:
        return
    repeat = layers.merging(lambda c: merge_heads(c).repeat(*[1] * (c.ndim - 2), h))
    for start in starts_of(trace, 1, mask, (known("heads.one_repeated", times=h),)):
        yield _with_stages(start, {**start.case.stages, "merge": repeat})


def name_other_scale(
    trace: Trace,
    window: int | None = None,  # how many tokens a token may attend to, itself included; None: all
) -> tuple[Bug, ...] | None:  # the bug; None if no constant fits
    "Find the factor of the scores, if all else is correct."
    mask = trace.allowed(window)
    starts = [s for h in trace.heads[:8] for s in islice(starts_of(trace, h, mask), 2)]
    with torch.no_grad():
        for start in starts:
            if bug := fitting.fitted_scale(start.case, scales_by_parts(trace.contract.scale)):
                return (bug,)
    return None
