"""Replace the outputs of a layer's projections, and read its weights off its contexts.

It works whatever positions do to the scores: it shows misrouted values, sums that are not 1,
a wrong scale.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
import torch.nn as nn
from torch import Tensor

from attention_checks.catalogue import known
from attention_checks.catalogue.grouped_heads import AFTER_MERGE, AFTER_SCORE, AFTER_SPLIT
from attention_checks.catalogue.layers import MERGES, ORDERS, SPLITS, splitting
from attention_checks.catalogue.self_attention import SCALE
from attention_checks.conventions import ON_SCORES
from attention_checks.numbers import nearly
from attention_checks.pipeline import STAGES, Bug, Work, run, work_of
from attention_checks.search import Case, explain
from attention_checks.trace import Trace
from attention_checks.trace.comparing import other_scale
from attention_checks.trace.readings import starts_of
from attention_checks.trace.roles import ASKED
from attention_checks.trace.watching import OneCall, as_rows


@dataclass(frozen=True)
class _Probe:
    "A layer whose projections give our vectors; read is the input of its output projection."

    trace: Trace
    layer: nn.Module
    call: OneCall

    @cached_property
    def role(self) -> dict[str, str]:
        "Name → role of the projections that give queries, keys and values."
        return {name: role for role in ASKED for name in self.trace.names.get(role, [])}

    @cached_property
    def rows(self) -> Tensor:
        "What all projections gave, concatenated, (b, n, width)."
        return torch.cat([r for role in ASKED for r in self.trace.projections.get(role, [])], -1)

    @cached_property
    def widths(self) -> list[int]:
        "How many features each projection gives."
        return [r.shape[-1] for role in ASKED for r in self.trace.projections.get(role, [])]

    @cached_property
    def routes(self) -> Tensor:
        "The context if one feature of all tokens is 1, and all others 0, (width, n, inner)."
        return self.context(
            torch.eye(self.rows.shape[-1])[:, None].expand(-1, self.trace.x.shape[1], -1)
        )

    @cached_property
    def values(self) -> Tensor:
        "Which features are values, (width,): those that reach the context; if none, by names."
        came = self.routes.abs().amax((1, 2)) > 1e-6
        named = [torch.full((w,), r == "v") for r, w in zip(self.role.values(), self.widths)]
        return came if came.any() else torch.cat(named)

    @cached_property
    def keys(self) -> Tensor:
        "Which features are keys, (width,); fused: the second half of what is no value."
        found = []
        for (name, role), values in zip(self.role.items(), self.values.split(self.widths)):
            first = re.search("k.*q", name.rpartition(".")[2].lower()) is not None  # as in kqv
            keys = ~values if role == "kv" else torch.full_like(values, role == "k")
            others = (~values).nonzero().flatten()
            gaps = (others.diff() > 1).nonzero().flatten() + 1
            for part in others.tensor_split(gaps) if role == "qkv" and len(others) else ():
                keys[part.chunk(2)[0 if first else 1]] = True
            found.append(keys)
        return torch.cat(found)

    def context(self, rows: Tensor) -> Tensor:
        "What the output projection gets, (b, n, inner), if the others give `rows`, (b, n, width)."
        x = (
            self.trace.x
            if len(rows) == len(self.trace.x)
            else self.trace.x[:1].expand(len(rows), -1, -1)
        )
        leaves, seen = dict(self.layer.named_modules()), []

        def instead(new: Tensor) -> Callable[..., Tensor]:
            def give(_: nn.Module, __: Any, usual: Tensor) -> Tensor:
                turned = (
                    usual.ndim > 2 and usual.shape[:2] != x.shape[:2]
                )  # (n, b, width), or (n, b, h, d)
                return (new.transpose(0, 1) if turned else new).contiguous().view(usual.shape)

            return give

        with ExitStack() as hooks, torch.no_grad():
            for name, part in zip(self.role, rows.split(self.widths, -1)):
                hooks.callback(leaves[name].register_forward_hook(instead(part)).remove)
            for name in self.trace.names.get("out", []):
                hooks.callback(
                    leaves[name]
                    .register_forward_pre_hook(lambda _, args: seen.append(args[0].clone()))
                    .remove
                )
            seen.append(self.call(self.layer, x))
        found = as_rows(seen[0], x)
        assert found is not None
        return found

    def at(self, token: int) -> Tensor:
        "1 at a token, 0 elsewhere, (n, 1)."
        return (torch.arange(self.trace.x.shape[1]) == token).float()[:, None]

    def with_values(self, values: Tensor, rows: Tensor | None = None) -> Tensor:
        "The context for these values, (n, 1); queries and keys are as they were, or as in `rows`."
        return self.context(torch.where(self.values, values, self.rows if rows is None else rows))


def name_by_probes(
    trace: Trace,
    layer: nn.Module,  # the layer
    call: Callable[[nn.Module, Tensor], Any],  # how to call it
    n_heads: int | None,  # if known
    causal: bool,  # is the future hidden?
) -> tuple[Bug, ...] | None:  # the bugs; None if the probes find none, or cannot be used
    "Find bugs that show whatever positions do to the scores, by values and keys of our own."
    own = [name for name, _ in layer.named_parameters()]
    learned = [
        s for s in trace.unrecognised if any(name == s or name.startswith(s + ".") for name in own)
    ]
    if not _can_be_probed(trace, layer, learned):
        return None
    probe, heads = _Probe(trace, layer, call), trace.heads(n_heads)
    if (
        probe.context(0 * probe.rows).any()
        or not probe.values.any()
        or not probe.routes.isfinite().all()
    ):
        return None  # something is added, such as a residual
    sinks = ["sink" in name.lower() for name in learned]
    bugs = _misrouted(probe, heads)
    gated = AFTER_MERGE in trace.own
    sums_to_one = not gated and not any(sinks) and "weigh" not in trace.own
    if [bug.code for bug in bugs] in ([], ["split.viewed"]) and trace.across == trace.inner:
        if sums_to_one:
            bugs = _unequal_sums(probe, causal) or bugs
        elif not gated:
            bugs = _negative(probe) or bugs
    if bugs or gated or not all(sinks) or {AFTER_SPLIT, AFTER_SCORE} & trace.own.keys():
        return bugs or None  # scores that are normalised or capped tell no scale
    return _scaled(probe, heads)


def _weights(probe: _Probe) -> Tensor:
    "The weights, (b, n_q, n_k, inner): the context if only one token's values are 1."
    tokens = range(probe.trace.x.shape[1])
    return torch.stack([probe.with_values(probe.at(token)) for token in tokens], 2)


def _negative(probe: _Probe) -> tuple[Bug, ...]:
    "The bug, if weights are negative."
    return (known("weights.negative"),) if (_weights(probe) < -1e-5).any() else ()


def _can_be_probed(trace: Trace, layer: nn.Module, learned: list[str]) -> bool:
    "Whether each projection is called once, and nothing else that is learned may change contexts."
    modules = dict(layer.named_modules())
    once = all(
        trace.calls.get(n) == 1 and n in modules for names in trace.names.values() for n in names
    )
    small = trace.width(*trace.projections) < 2000  # each feature is a sequence of the batch
    turned = any(
        isinstance(m, (nn.Conv1d, nn.Conv2d)) for m in layer.modules()
    )  # its features are not the last axis
    plain = (
        trace.memory is None
        and not turned
        and len(trace.names.get("out", [])) <= 1
        and not trace.matrices
        and trace.width("v") <= trace.inner
    )  # no gate
    return (
        once
        and small
        and plain
        and bool({"v", "kv", "qkv"} & trace.projections.keys())
        and all(map(ON_SCORES.search, learned))
    )


def _misrouted(probe: _Probe, heads: list[int]) -> tuple[Bug, ...]:
    "The bug, if values do not come out at their own token and feature."
    routes, n = (probe.routes[probe.values].abs() > 1e-4).float(), probe.routes.shape[1]
    width, found = len(routes), []
    for h, g in (
        (of, g) for of in heads for g in range(1, of + 1) if of % g == 0 and width % g == 0
    ):
        for split, merge in ORDERS.values():
            v = split(torch.eye(width)[:, None].expand(-1, n, -1), g)
            work = work_of(torch.zeros(width, h, n, 1), torch.zeros(width, g, n, 1), v)
            stages = {
                "split": splitting(),
                **STAGES,
                "merge": merge,
                "project": lambda w: w._replace(out=(w.out > 0).float()),
            }
            known_ones = [bug for bug in SPLITS + MERGES if not bug.code.startswith("split.viewed")]
            found.append(explain([Case(work, routes, stages=stages)], known_ones, 1))
    if () in found or not routes.any():
        return ()
    reached = []
    for token in (1, n - 1):
        rows = torch.eye(len(probe.values))[probe.values][:, None] * probe.at(token)
        reached.append((probe.context(rows).abs() > 1e-6).any(1))
    named = [bugs for bugs in found if bugs]
    if reached[0].equal(reached[1]):
        return named[0] if named else (known("rotation.values"),)
    return (known("merge.viewed" if (known("merge.viewed"),) in named else "split.viewed"),)


def _unequal_sums(probe: _Probe, causal: bool) -> tuple[Bug, ...]:
    "The bug, if weights do not sum to 1: values of 1 must give contexts of 1."
    sums = probe.with_values(torch.ones(1))
    if nearly(sums, torch.ones_like(sums), 1e-4):
        return ()
    weights = _weights(probe)
    if (weights < -1e-5).any():
        return (known("weights.negative"),)
    over_queries = weights.sum(1)
    if nearly(over_queries, torch.ones_like(over_queries)):
        return (known("softmax.over_queries"),)
    late = (
        causal
        and nearly(sums[:, -1], torch.ones_like(sums[:, -1]))
        and bool((sums < 1 + 1e-4).all())
    )
    return (known("mask.after_softmax" if late else "weights.sums"),)


def _scaled(probe: _Probe, heads: list[int]) -> tuple[Bug, ...] | None:
    "The wrong scale: by how much a key changes the logit of its own token, where positions cancel."
    last, keys, logits = probe.trace.x.shape[1] - 1, probe.keys, []
    for factor in (probe.at(last), torch.zeros(1)):  # the last token's key alone; none
        rows = torch.where(keys, probe.rows * factor, probe.rows)
        logits.append(probe.with_values(probe.at(last), rows)[:, last].clamp(0, 1).logit())
    more = logits[0] - logits[1]  # (b, inner)
    sure = logits[0].abs() < 8  # where the weight is not almost 0 or 1
    for case in (
        start.case for h in heads for start in starts_of(probe.trace, h, None) if not start.bugs
    ):
        w = splitting()(case.work)
        dots = (w.q * w.k).sum(-1)[..., last, None, None].expand(-1, -1, 1, w.v.shape[-1])
        dot, right = case.stages["merge"](Work(out=dots)).out[:, 0], float(w.scale)
        if dot.shape != more.shape or not (sure & (more.abs() > 0.05)).any():
            continue
        scale = float((dot * more)[sure].sum() / dot[sure].square().sum())
        if nearly(dot[sure] * scale, more[sure], 5e-3):
            if abs(scale - right) < 0.01 * right:
                return None
            made = run(w._replace(scale=scale))
            return (explain([Case(w, made.out)], SCALE, 0) if made else None) or (
                other_scale(scale, right),
            )
    return None
