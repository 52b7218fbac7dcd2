"""Audit a whole model: what may see what, in each layer, in all the ways in which it is run."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import Any

import torch
import torch.nn as nn

from attention_checks.auditing.audit_report import AuditReport, Fault, LayerFacts
from attention_checks.auditing.borrowing import borrowed
from attention_checks.auditing.caching import Cached, try_cache
from attention_checks.auditing.causality import try_batch, try_future, try_packing
from attention_checks.auditing.expected import Expected
from attention_checks.auditing.layer_facts import facts_of_layers, try_promises, watch_layers
from attention_checks.auditing.padding import try_padding
from attention_checks.auditing.preparing import prepared
from attention_checks.auditing.session import Part, Session
from attention_checks.outcomes import Misused, first_line
from attention_checks.spec import Contract
from attention_checks.their_code.signatures import name_of
from attention_nb.tools.guards import expect_sizes

__all__ = ["AuditReport", "Expected", "Fault", "LayerFacts", "audit"]


def audit(
    model: nn.Module,
    inputs: Any,
    expected: Expected = Expected(),
    n: int | None = None,
    cached: Cached | None = None,
    skip: Collection[str] = (),
) -> AuditReport:
    """Find what is wrong with the attention of a model: which fault, and in which layer.

    Args:
        model: any model; it is left as it was
        inputs: as the model takes them, such as {"input_ids": ids}; or its tokens alone
        expected: which tokens may see which; default: no token sees later ones
        n: tokens to try it with; default: enough to exceed its windows
        cached: cached(model, ids, cache) → cache: takes a step; default: as its parameters tell
        skip: codes that are no faults here

    Raises:
        TypeError, ValueError: for what cannot be audited; `Misused` is both
    """
    _expect(model, expected)
    contract = Contract(skip=skip)
    if n is not None:
        expect_sizes(n=n)
    itemsize = min([p.dtype.itemsize for p in model.parameters()], default=4)
    for dtype in (torch.float64, torch.float32, None):
        with borrowed(model, dtype), torch.no_grad():
            session = _first_pass(model, inputs, expected, n, itemsize)
            if isinstance(session, Exception):
                error = session
                continue
            report = _try_everything(session, inputs, cached, contract.skip)
            if dtype != torch.float64 or "padding.nan" not in report.codes:
                return report  # a NaN may come from numbers that only float64 has
    raise Misused(f"the model cannot be called with these inputs: {first_line(error)}")


def _expect(model: Any, expected: Any) -> None:
    "Raise Misused for what is no model, and for what says nothing of tokens."
    if not isinstance(model, nn.Module):
        raise Misused(f"model: expected a torch.nn.Module; got {type(model).__name__}")
    if not isinstance(expected, Expected):
        raise Misused(f"expected: expected an Expected; got {expected!r:.40}")


def _first_pass(
    model: nn.Module, inputs: Any, expected: Expected, n: int | None, itemsize: int
) -> Session | Exception:
    "Record the first pass, or return why the model cannot be called."
    model.eval()
    try:
        session = Session(prepared(model, inputs, n), expected, itemsize=itemsize)
        session.first = session.recorded(session.call)
        return session
    except Misused:
        raise
    except Exception as e:
        return e


def _try_everything(
    session: Session, inputs: Any, cached: Cached | None, skip: Collection[str]
) -> AuditReport:
    "Try everything."
    parts: dict[str, Part] = {
        "what layers compute": watch_layers,
        "the future": try_future,
        "sequences of a batch": try_batch,
        "padding": try_padding,
        "what is promised": try_promises,
        "packed documents": partial(try_packing, inputs=inputs),
        "a cache": partial(try_cache, cached=cached),
    }
    for what, part in parts.items():
        if any(fault.code.startswith("state.") for fault in session.faults):
            session.note(what, "two passes with the same inputs differ")
            continue
        try:
            part(session)
        except Exception as e:
            session.note(what, f"it raised {type(e).__name__}: {first_line(e)}")
    subject, found = f"audit({name_of(session.call.model)})", facts_of_layers(session)
    faults = tuple(fault for fault in _innermost(session.faults) if fault.code not in skip)
    return AuditReport(subject, faults, found, tuple(session.passed), tuple(session.notes))


def _innermost(faults: list[Fault]) -> list[Fault]:
    "Leave out what is wrong with a module because it is wrong with a part of it."
    kept = []
    for fault in faults:
        others = [other for other in faults if other is not fault]
        if not any(_within(fault, other) for other in others):
            kept.append(fault)
    return kept


def _within(outer: Fault, inner: Fault) -> bool:
    "Return whether a fault is the same as another, in a part of its layer."
    part = f"{outer.layer}." if outer.layer else ""
    return outer.code == inner.code and inner.layer.startswith(part)
