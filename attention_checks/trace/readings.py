"""The starts of a search: correct ways to split projections into heads, and a few wrong ones."""

import re
from collections.abc import Iterator
from itertools import islice, permutations, product
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from attention_checks.catalogue import known, layers
from attention_checks.catalogue.choices import gating
from attention_checks.catalogue.latent import latent_step
from attention_checks.explaining.pipeline import (
    LAYER_STAGES,
    Bug,
    RightStep,
    Step,
    after,
    unchanged,
    with_own,
    work_of,
)
from attention_checks.explaining.search import Case
from attention_checks.their_code.signatures import MASKS, parameters_of
from attention_checks.trace.recording import as_float
from attention_checks.trace.tracing import Trace
from attention_nb.multi_head_attention import split_heads


class _Reading(NamedTuple):
    "Queries, keys and values, (b, h, n, d), perhaps of fewer key heads, and what is wrong so far."

    q: Tensor
    k: Tensor
    v: Tensor
    order: str = "heads first"  # one of ORDERS
    bugs: tuple[Bug, ...] = ()
    shared: int = 0  # features of one key that all heads share (MLA)


# bugs; queries, keys and values, (b, n, width)
_Triple = tuple[tuple[Bug, ...], Tensor, Tensor, Tensor]


def _readings(trace: Trace, h: int) -> Iterator[_Reading]:
    "Every correct way to split the projections into h heads, and some wrong ones with their bugs."
    rows = {role: torch.cat(found, -1) for role, found in trace.projections.items()}
    apart = {"q", "k", "v"} <= rows.keys() or {"q", "kv"} <= rows.keys()
    if not apart and "qkv" in rows and trace.fused_in_thirds:
        yield from _fused_layouts(trace, rows["qkv"], h)
        return
    if "latent" in rows:
        yield from _from_latent(rows, h, trace.shared_width(h), trace.contract.rotate is not None)
        return
    for bugs, q, k, v in _queries_keys_values(trace, rows, h):
        h_kv = _key_heads(q, k, v, h)
        if h_kv == 0:
            continue
        for order in islice(layers.ORDERS, min(h, 2)):
            split = layers.ORDERS[order][0]
            yield _Reading(split(q, h), split(k, h_kv), split(v, h_kv), order, bugs)


def _key_heads(q: Tensor, k: Tensor, v: Tensor, h: int) -> int:
    "Return the number of key and value heads beside h of queries; 0 if widths do not fit."
    d, rest = divmod(q.shape[-1], h)
    if rest or not d or k.shape[-1] % d:
        return 0
    h_kv = k.shape[-1] // d
    return h_kv if 0 < h_kv <= h and v.shape[-1] % h_kv == 0 else 0


def _queries_keys_values(trace: Trace, rows: dict[str, Tensor], h: int) -> Iterator[_Triple]:
    "Bugs; queries, keys and values, from one projection each or from a fused one."
    if {"q", "k", "v"} <= rows.keys():
        yield (), rows["q"], rows["k"], rows["v"]
    elif {"q", "kv"} <= rows.keys() and rows["kv"].shape[-1] % 2 == 0:
        first, second = rows["kv"].chunk(2, -1)
        h_kv = _key_heads(rows["q"], first, second, h)
        for order, (first, second) in _keys_and_values(rows["kv"], h_kv).items():
            bugs = _unless_declared(trace, "kv", order) if h_kv > 1 else ()
            yield bugs, rows["q"], first, second
            yield (*bugs, known("split.keys_values")), rows["q"], second, first
    elif {"qk", "v"} <= rows.keys() and rows["qk"].shape[-1] % 2 == 0:
        first, second = rows["qk"].chunk(2, -1)
        yield (), first, second, rows["v"]
    elif "qkv" in rows and trace.width("qkv") == trace.context_width:  # all three are one
        yield (), rows["qkv"], rows["qkv"], rows["qkv"]
    elif "qkv" in rows:
        for d in dict.fromkeys((trace.context_width // h, trace.context_width)):  # one if averaged
            yield from _fused_groups(trace, rows["qkv"], h, d)


def _keys_and_values(rows: Tensor, h: int) -> dict[str, tuple[Tensor, Tensor]]:
    "Return keys and values of one projection: all keys come first, or those of each head."
    first, second = rows.chunk(2, -1)
    if h < 2:
        return {"roles": (first, second)}
    own_first, own_second = rows.unflatten(-1, (h, 2, -1)).unbind(-2)
    return {"roles": (first, second), "heads": (own_first.flatten(-2), own_second.flatten(-2))}


_FUSED_ORDERS = {
    order: f"one {order[:-1]} after the other" for order in ("roles", "heads", "features")
}


def _unless_declared(
    trace: Trace,
    role: str,  # of a fused projection
    order: str,  # what lies side by side in it
) -> tuple[Bug, ...]:
    "Return the bug that another order was declared, if one was."
    declared = trace.contract.fused_order
    if declared in (None, order):
        return ()
    orders = {"found": _FUSED_ORDERS[order], "expected": _FUSED_ORDERS[declared]}
    bug = layers.FUSED.about(name=trace.names[role][0], **orders)
    return (bug._replace(declare=f'fused_order="{order}"'),)


def _from_latent(
    rows: dict[str, Tensor],
    h: int,
    shared: int,  # features of one key that all heads share
    last: bool,  # should they stand last? Else first
) -> Iterator[_Reading]:
    "Latent attention (MLA): what is rotated stands last or first; keys before values or behind."
    complete = "q" in rows and ("kv" in rows or {"k", "v"} <= rows.keys())
    if not complete or any(t.shape[-1] % h for role, t in rows.items() if role != "latent"):
        return
    q, *kv = (split_heads(rows[role], h) for role in ("q", "kv", "k", "v") if role in rows)
    d = q.shape[-1] - shared
    if not 0 < shared < min(q.shape[-1], rows["latent"].shape[-1] + 1):
        return
    pairs = [kv] if len(kv) == 2 else [_cut(kv[0], d), _cut(kv[0], -d)[::-1]]
    for (k, v), of_latent, of_q in product(pairs, (-shared, shared), (-shared, shared)):
        one = _cut(rows["latent"], of_latent)[of_latent < 0][:, None].expand(-1, h, -1, -1)
        keys, queries = torch.cat([one, k], -1), q if of_q > 0 else q.roll(shared, -1)
        if last:
            keys, queries = (t.roll(-shared, -1) for t in (keys, queries))
        yield _Reading(queries, keys, v, shared=shared)


def _cut(t: Tensor, at: int) -> tuple[Tensor, Tensor]:
    "Cut features in two: so many come first, or last if it is negative."
    first, second = t.tensor_split([at], -1)
    return first, second


def _fused_order(trace: Trace) -> str:
    "Return the order of a fused projection, by its name, unless its role was declared."
    name = "" if trace.contract.roles else trace.names["qkv"][0]
    letters = re.sub(r"[^qkv]", "", name.split(".")[-1].lower())
    return letters if sorted(letters) == ["k", "q", "v"] else "qkv"


_SIDE_BY_SIDE = {"3hd": "roles", "3dh": "roles", "h3d": "heads"}  # other layouts: features


def _fused_layouts(trace: Trace, rows: Tensor, h: int) -> Iterator[_Reading]:
    "Every layout of a fused projection of as many key heads as query heads."
    (b, n, width), roles = rows.shape, _fused_order(trace)
    if width % (3 * h):
        return
    sizes, usual = {"3": 3, "h": h, "d": width // 3 // h}, ("3hd", "h3d")
    for layout in dict.fromkeys([*usual, *map("".join, permutations("3hd"))]):
        parts = rows.view(b, n, *(sizes[a] for a in layout))
        parts = parts.permute(
            2 + layout.index("3"), 0, 2 + layout.index("h"), 1, 2 + layout.index("d")
        )
        q, k, v = (parts[roles.index(role)] for role in "qkv")
        for order in islice(layers.ORDERS, 1 if layout in usual else min(h, 2)):
            bugs = _unless_declared(trace, "qkv", _SIDE_BY_SIDE.get(layout, "features"))
            yield _Reading(q, k, v, order, bugs)


def _fused_groups(trace: Trace, rows: Tensor, h: int, d: int) -> Iterator[_Triple]:
    "Layouts of a fused projection of grouped heads, as wide as the values or not."
    width = rows.shape[-1]
    for groups in range(1, h + 1):
        if h % groups == 0 and width == (h + 2 * groups) * d:
            yield from _in_groups(trace, rows, (h, groups, d))
    d_k, rest = divmod(width - h * d, 2 * h)
    if d_k > 0 and d_k != d and not rest:  # values of another width, as in LeViT
        heads = rows.unflatten(-1, (h, -1)).split((d_k, d_k, d), -1)
        q, k, v = (t.flatten(2) for t in heads)
        yield _unless_declared(trace, "qkv", "heads"), q, k, v
        q, k, v = rows.split((h * d_k, h * d_k, h * d), -1)
        yield _unless_declared(trace, "qkv", "roles"), q, k, v


def _in_groups(trace: Trace, rows: Tensor, sizes: tuple[int, int, int]) -> Iterator[_Triple]:
    "Layouts of a fused projection of h heads in some groups: by role, or group by group."
    (h, groups, d), name = sizes, trace.names["qkv"][0]
    by_role, by_head = (_unless_declared(trace, "qkv", order) for order in ("roles", "heads"))

    def split_as(found: str) -> tuple[Bug, ...]:
        return (layers.FUSED.about(name=name, found=found, expected="qkv"),)

    q, k, v = rows.split((h * d, groups * d, groups * d), -1)
    yield by_role if groups > 1 else (), q, k, v
    if groups > 1:
        *queries, own_k, own_v = rows.unflatten(-1, (groups, -1, d)).unbind(3)
        yield by_head, torch.stack(queries, 3).flatten(2), own_k.flatten(2), own_v.flatten(2)
    yield split_as("qvk"), q, v, k
    if groups > 1:  # keys and values of one head after the other
        k, v = _keys_and_values(rows[..., h * d :], groups)["heads"]
        yield split_as("q, kv of each head"), q, k, v
    k, v, q = rows.split((groups * d, groups * d, h * d), -1)
    yield split_as("kvq"), q, k, v


class Start(NamedTuple):
    "One reading of a layer: what it computed, and the bugs that this reading assumes."

    case: Case
    bugs: tuple[Bug, ...] = ()  # what is wrong with it already
    more: tuple[Bug, ...] = ()  # bugs of this layer alone


def starts_of(
    trace: Trace,
    h: int,  # heads
    mask: Tensor | None,  # boolean, True = may attend
    bugs: tuple[Bug, ...] = (),  # of its projections
) -> Iterator[Start]:
    "Yield every way to read the projections as h heads."
    for own in trace.stage_choices:
        for ungated in _ungated(trace._replace(stage_choices=[own]), h):
            yield from _starts_read(ungated, h, mask, bugs)


def _starts_read(
    trace: Trace, h: int, mask: Tensor | None, bugs: tuple[Bug, ...]
) -> Iterator[Start]:
    "Yield every way to read the projections, once a fused gate is split off."
    mine = _bugs_of_layer(trace)
    share = layers.SHARES[trace.contract.group_order or "blocks"]
    split = {"split": layers.splitting(share_k=share, share_v=share)}
    inside = {stage: way for stage, way in trace.stages.items() if stage != after("project")}
    with_last = trace.context is None or inside == trace.stages
    owns = [trace.stages] if with_last else [inside, trace.stages]
    for own, (seen, project, ends) in product(owns, _possible_ends(trace)):
        for reading in _readings(trace, h):
            if mask is not None and mask.shape[-1] != reading.k.shape[-2]:
                continue
            last = {"merge": layers.ORDERS[reading.order][1], "project": project}
            joined, of_parts = _joined_parts(trace, reading)
            groups = reading.k.shape[-3]
            grouped = [layers.regrouped(groups, last["merge"])] if 1 < groups < h else []
            stages = with_own({**LAYER_STAGES, **split, **last}, joined | own)
            case = _case_of(trace, reading, mask, seen)._replace(
                stages=_but_attended(trace, stages)
            )
            yield Start(
                case, bugs + reading.bugs, (*mine.fused, *ends, *mine.own, *of_parts, *grouped)
            )


def _case_of(trace: Trace, reading: _Reading, mask: Tensor | None, seen: Tensor) -> Case:
    "Return the queries, keys and values of a reading, with what was seen."
    scale = trace.contract.scale_of(reading.q.shape[-1])
    return Case(work_of(reading.q, reading.k, reading.v, mask, scale, trace.x.shape[-1]), seen)


def _joined_parts(trace: Trace, reading: _Reading) -> tuple[dict[str, RightStep], list[Bug]]:
    "Return the stage that joins the parts of latent attention (MLA), if they are, and its bugs."
    if not reading.shared:
        return {}, []
    step = latent_step(reading.shared, first=trace.contract.rotate is None)
    return {after("rotate"): step}, step[1]


class _BugsOfLayer(NamedTuple):
    "Bugs that one layer alone may have."

    fused: list[Bug]  # orders of a fused projection
    own: list[Bug]  # of its windows, and of the stages that were declared


def _bugs_of_layer(trace: Trace) -> _BugsOfLayer:
    "List the bugs of a layer's fused projection, and those of its own stages."
    own = [*_in_windows(trace), *(bug for _, wrong in trace.stages.values() for bug in wrong)]
    if "qkv" not in trace.projections or not trace.fused_in_thirds:
        return _BugsOfLayer([], own)
    orders = layers.fused_orders(trace.names["qkv"][0], _fused_order(trace))
    return _BugsOfLayer([_before_norms(bug, trace.stages) for bug in orders], own)


def _in_windows(trace: Trace) -> Iterator[Bug]:
    "Yield the bugs that mix positions as they are in each of a layer's windows."
    order = trace.order
    if order is None or order.window == len(order.places):
        return
    mixing = [bug for bug in (*layers.SPLITS, *layers.MERGES) if "mixes positions" in bug.says]
    for bug in mixing:
        steps = {stage: order.in_windows(step) for stage, step in bug.steps.items()}
        yield bug._replace(steps=steps)


def _before_norms(bug: Bug, own: dict[str, RightStep]) -> Bug:
    "Exchange what a fused projection gives before norms over all heads, if there are any."
    stage, exchange = "before split", bug.steps["split"]
    if stage not in own:
        return bug
    norm = own[stage][0]
    return bug._replace(steps={stage: lambda work: norm(exchange(work))})


def _but_attended(trace: Trace, stages: dict[str, Step]) -> dict[str, Step]:
    "Leave out the stages for which a declared attend= stands: no bug of theirs can show."
    if (f := trace.contract.attend) is None:
        return stages
    masked = MASKS & (parameters_of(f) or {}).keys()
    gone = ("score", "cap", "weigh", *(() if masked else ("mask",)))
    return {name: step for name, step in stages.items() if name not in gone}


def _ungated(trace: Trace, h: int) -> Iterator[Trace]:
    "Yield the trace; first without the gate in the projection of queries (as in Qwen3-Next)."
    if trace.gate_width and trace.context_width % h == 0 == trace.gate_width % h:
        for groups in dict.fromkeys((h, _key_groups(trace, h), 1)):
            parts = trace.projections["q"][0].unflatten(-1, (groups, -1))
            q, gate = parts.tensor_split([trace.context_width // groups], -1)
            projections = {**trace.projections, "q": [q.flatten(-2)]}
            gate = gate.flatten(-2)
            own = {**trace.stages, after("merge"): gating(gate.sigmoid, gate.clone)}
            yield trace._replace(projections=projections, stage_choices=[own])
    yield trace


def _key_groups(trace: Trace, h: int) -> int:
    "Return how many of h heads of queries have keys of their own; h where the widths do not tell."
    width = trace.width("k") or trace.width("kv") // 2
    groups = width * h // trace.context_width
    return groups if groups and h % groups == 0 else h


def _possible_ends(trace: Trace) -> Iterator[tuple[Tensor, Step, tuple[Bug, ...]]]:
    "Return what merged heads are compared with: the tensor, the step before it, and its bugs."
    end = trace.output_projection
    called = not end.uncalled and not end.matrices
    if trace.context is not None or called:
        yield trace.out if trace.context is None else trace.context, unchanged, ()
        return
    for name, m in end.uncalled.items():
        w, b = as_float(m.weight), as_float(getattr(m, "bias", None))
        never = _not_projected(name, 0)
        turned = layers.untransposed([name], {"project": _projection_step(w.T, b)})
        bugs = (never, turned) if len(w) == w.shape[1] else (never,)
        yield trace.out, _projection_step(w, b), bugs
    for name, matrix in end.matrices.items():
        bias, flat = 0 if end.matrix_bias is None else end.matrix_bias, matrix.flatten(0, -2)
        for way in (flat.T, flat):
            yield trace.out - bias, _projection_step(way, None), (_not_projected(name, bias),)


def _projection_step(w: Tensor, b: Tensor | None) -> Step:
    "Make a step of an output projection."
    return layers.merging(lambda c: F.linear(c, w, b))


def _not_projected(name: str, bias: Tensor | int) -> Bug:
    "Return the bug that an output projection and its bias are not applied."
    without: Step = layers.merging(lambda c: c - bias)
    return known("project.never", name=name)._replace(steps={"project": without})
