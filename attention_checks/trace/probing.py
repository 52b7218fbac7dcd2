"""Projections that give rows of our own show bugs in layers that know places: values misrouted, sums that are not 1, a wrong scale."""

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
    "A layer whose projections give other rows, and what then reaches its output projection, or comes out without one."

    t: Trace
    layer: nn.Module
    call: OneCall

    @cached_property
    def role(self) -> dict[str, str]:
        "Name → role of what is asked for rows."
        return {name: role for role in ASKED for name in self.t.names.get(role, [])}

    @cached_property
    def rows(self) -> Tensor:
        "They all side by side, as they were, (b, n, width)."
        return torch.cat([r for role in ASKED for r in self.t.rows.get(role, [])], -1)

    @cached_property
    def widths(self) -> list[int]:
        return [r.shape[-1] for role in ASKED for r in self.t.rows.get(role, [])]

    @cached_property
    def routes(self) -> Tensor:
        "Where one feature of all words comes out, (width, n, inner)."
        return self.context(
            torch.eye(self.rows.shape[-1])[:, None].expand(-1, self.t.x.shape[1], -1)
        )

    @cached_property
    def values(self) -> Tensor:
        "Which features are values: scores were 0, so only values came out; if nothing did, names must tell, (width,)."
        came = self.routes.abs().amax((1, 2)) > 1e-6
        named = [torch.full((w,), r == "v") for r, w in zip(self.role.values(), self.widths)]
        return came if came.any() else torch.cat(named)

    @cached_property
    def keys(self) -> Tensor:
        "Which features are keys, (width,): of a fused projection, the second half of what stands before values."
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
        x = self.t.x if len(rows) == len(self.t.x) else self.t.x[:1].expand(len(rows), -1, -1)
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
            for name in self.t.names.get("out", []):
                hooks.callback(
                    leaves[name]
                    .register_forward_pre_hook(lambda _, args: seen.append(args[0].clone()))
                    .remove
                )
            seen.append(self.call(self.layer, x))
        found = as_rows(seen[0], x)
        assert found is not None
        return found

    def at(self, word: int) -> Tensor:
        "1 at a word, 0 elsewhere, (n, 1)."
        return (torch.arange(self.t.x.shape[1]) == word).float()[:, None]

    def with_values(self, values: Tensor, rows: Tensor | None = None) -> Tensor:
        "The context if all values are these, (n, 1), while queries and keys are as they were, or as in `rows`."
        return self.context(torch.where(self.values, values, self.rows if rows is None else rows))


def name_by_probes(
    t: Trace,  # from `trace_layer`
    layer: nn.Module,  # the layer
    call: Callable[[nn.Module, Tensor], Any],  # how to call it
    n_heads: int | None,  # if known
    causal: bool,  # is the future hidden?
) -> tuple[Bug, ...] | None:  # the bugs; None if the probes find none, or cannot be used
    "Find bugs that show whatever is done to the scores, such as adding places: with values and keys of our own."
    own = [name for name, _ in layer.named_parameters()]
    learned = [
        s for s in t.unrecognised if any(name == s or name.startswith(s + ".") for name in own)
    ]
    if not _can_be_probed(t, layer, learned):
        return None
    probe, heads = _Probe(t, layer, call), t.heads(n_heads)
    if (
        probe.context(0 * probe.rows).any()
        or not probe.values.any()
        or not probe.routes.isfinite().all()
    ):
        return None  # something is added, such as a residual
    sinks = ["sink" in name.lower() for name in learned]
    bugs = _misrouted(probe, heads)
    if (
        [bug.code for bug in bugs] in ([], ["split.viewed"])
        and not any(sinks)
        and t.across == t.inner
    ):
        bugs = _unequal_sums(probe, causal) or bugs
    return bugs or (_scaled(probe, heads) if all(sinks) else None)


def _can_be_probed(t: Trace, layer: nn.Module, learned: list[str]) -> bool:
    "Whether each projection is called once, and nothing learned may touch values or contexts."
    modules = dict(layer.named_modules())
    once = all(t.calls.get(n) == 1 and n in modules for names in t.names.values() for n in names)
    small = t.width(*t.rows) < 2000  # each feature is a sentence
    turned = any(
        isinstance(m, (nn.Conv1d, nn.Conv2d)) for m in layer.modules()
    )  # its rows lie the other way round
    plain = (
        t.memory is None
        and not turned
        and len(t.names.get("out", [])) <= 1
        and not t.matrices
        and t.width("v") <= t.inner
    )  # no gate
    return (
        once
        and small
        and plain
        and bool({"v", "kv", "qkv"} & t.rows.keys())
        and all(map(ON_SCORES.search, learned))
    )


def _misrouted(probe: _Probe, heads: list[int]) -> tuple[Bug, ...]:
    "The bug, if values do not come out where they went in."
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
    for word in (1, n - 1):
        rows = torch.eye(len(probe.values))[probe.values][:, None] * probe.at(word)
        reached.append((probe.context(rows).abs() > 1e-6).any(1))
    named = [bugs for bugs in found if bugs]
    if reached[0].equal(reached[1]):
        return named[0] if named else (known("rotation.values"),)
    return (known("merge.viewed" if (known("merge.viewed"),) in named else "split.viewed"),)


def _unequal_sums(probe: _Probe, causal: bool) -> tuple[Bug, ...]:
    "The bug, if weights do not sum to 1: values that are 1 everywhere must come out as 1."
    n, sums = probe.t.x.shape[1], probe.with_values(torch.ones(1))
    if nearly(sums, torch.ones_like(sums), 1e-4):
        return ()
    weights = torch.stack(
        [probe.with_values(probe.at(j)) for j in range(n)], 2
    )  # (b, n_q, n_k, inner)
    if (weights < -1e-5).any():
        return (known("weights.negative"),)
    if nearly(over := weights.sum(1), torch.ones_like(over)):
        return (known("softmax.over_queries"),)
    late = (
        causal
        and nearly(sums[:, -1], torch.ones_like(sums[:, -1]))
        and bool((sums < 1 + 1e-4).all())
    )
    return (known("mask.after_softmax" if late else "weights.sums"),)


def _scaled(probe: _Probe, heads: list[int]) -> tuple[Bug, ...] | None:
    "The wrong scale: of what a key adds to the score of its own word, where places do not differ."
    last, keys, logits = probe.t.x.shape[1] - 1, probe.keys, []
    for factor in (probe.at(last), torch.zeros(1)):  # the last word's key alone; none
        rows = torch.where(keys, probe.rows * factor, probe.rows)
        logits.append(probe.with_values(probe.at(last), rows)[:, last].clamp(0, 1).logit())
    more, sure = (
        logits[0] - logits[1],
        logits[0].abs() < 8,
    )  # (b, inner); where the weight is not almost 0 or 1
    for case in (
        start.case for h in heads for start in starts_of(probe.t, h, None) if not start.bugs
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
