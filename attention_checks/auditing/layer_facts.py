"""What each layer does, beside what config and caller promise of it."""

from __future__ import annotations

from typing import Any

from attention_checks.auditing.audit_report import LayerFacts
from attention_checks.auditing.causality import early_token
from attention_checks.auditing.config import config_of, is_local, window_of
from attention_checks.auditing.passes import compare
from attention_checks.auditing.scales import compare_scales, promised_scale, scale_of
from attention_checks.auditing.session import Session
from attention_checks.cache_steps import first_calls
from attention_nb.tools.watching import watch


def watch_layers(s: Session) -> None:
    "Watch one pass: what attention is computed in which module."
    with watch(s.call.model, keep="copies") as seen:
        changes = compare(s.call.model, s.call.run, s.first, s.axes(s.all), s.tolerance)
    again = {c.path for c in s.compared(s.call, s.axes(s.all))} if changes else set()
    for change in changes:
        code = "state.kept" if change.path in again else "state.chance"
        s.fault(code, change.path, f"the same inputs again: off by {change.size:.2g}")
    s.calls = first_calls(seen)
    for unseen in seen.unseen:
        s.note(f"what {unseen.layer or 'the model'} computes", unseen.why)


def try_promises(s: Session) -> None:
    "Compare what each layer does with what is promised of it."
    before = len(s.faults)
    for path in s.calls:
        _compare_window(s, path)
    compare_scales(s)
    if len(s.faults) == before and s.calls:
        s.passed.append("windows and scales are as promised")


def facts_of_layers(s: Session) -> tuple[LayerFacts, ...]:
    "List the layers in which tokens see each other."
    paths = dict.fromkeys((*s.calls, *s.reaches))
    return tuple(LayerFacts(path, _seen_of(s, path), _promises_of(s, path)) for path in paths)


def _seen_of(s: Session, path: str) -> dict[str, Any]:
    "Return what a layer does, as far as it was seen."
    reach, call = s.reaches.get(path), s.calls.get(path)
    does: dict[str, Any] = {"mask": reach.kind, "window": reach.back} if reach else {}
    if call is not None:
        does = does or {"mask": call.mask, "window": call.window}
        does["scale"] = scale_of(s, path)
        does["sinks"] = call.sinks is not None
        does["kv_heads"] = call.kv_heads
        does["bytes_per_token"] = _bytes(s, call)
    return does


def _bytes(s: Session, call: Any) -> int | None:
    "Return what a cache of keys and values takes for a token, in the model's own type."
    if call.d_k is None:
        return None
    return int(call.kv_heads * (call.d_k + call.d_v) * s.itemsize)


def _promises_of(s: Session, path: str) -> dict[str, Any]:
    "Return what is promised of a layer, as far as config or caller say it."
    call, config = s.calls.get(path), config_of(s.call.model)
    if call is None or call.d_k is None:
        return {}
    settings = {
        "window": _promised_window(s, path),
        "scale": promised_scale(s, path)[0],
        "kv_heads": getattr(config, "num_key_value_heads", None),
    }
    return {name: value for name, value in settings.items() if value is not None}


def _promised_window(s: Session, path: str) -> int | None:
    "Return the window that is promised; the caller's word counts more than the config's."
    declared = s.expected.windows or {}
    return declared[path] if path in declared else window_of(s.call.model, path)


def _compare_window(s: Session, path: str) -> None:
    "Compare how far tokens see with the window that is promised."
    reach, promised = s.reaches.get(path), _promised_window(s, path)
    if reach is None or reach.ahead:
        return
    shown = f"token {early_token(s)} is seen by {reach.back} tokens"
    if promised is not None and promised >= s.n - 6:
        s.note(f"the window of {path}", f"it is {promised}, and {s.n} tokens were tried: give n")
    elif promised is not None and reach.back is None:
        s.fault("window.ignored", path, f"a token sees all {s.n} tokens; promised are {promised}")
    elif promised is not None and reach.back != promised:
        facts = {"name": "the window", "size": promised, "seen": reach.back}
        s.fault("window.size", path, shown, **facts)
    elif promised is None and reach.back is not None and is_local(s.call.model, path) is False:
        s.fault("mask.window", path, shown, seen=reach.back)
