"""What each layer does, beside what config and caller promise of it."""

from typing import Any

from attention_checks.auditing.audit_report import LayerFacts
from attention_checks.auditing.causality import early_token
from attention_checks.auditing.config import config_of, is_local, window_of
from attention_checks.auditing.passes import compare
from attention_checks.auditing.scales import compare_scales, promised_scale, scale_of
from attention_checks.auditing.session import Session
from attention_checks.explaining.cache_steps import first_calls
from attention_nb.tools.watching import watch


def watch_layers(session: Session) -> None:
    "Watch one pass: what attention is computed in which module."
    with watch(session.call.model, keep="copies") as seen:
        changes = compare(
            session.call.model,
            session.call.run,
            session.first,
            session.axes(session.all),
            session.tolerance,
        )
    once_more = session.compared(session.call, session.axes(session.all)) if changes else []
    again = {change.path for change in once_more}
    for change in changes:
        code = "state.kept" if change.path in again else "state.chance"
        session.fault(code, change.path, f"the same inputs again: off by {change.size:.2g}")
    session.calls = first_calls(seen)
    for unseen in seen.unseen:
        session.note(f"what {unseen.layer or 'the model'} computes", unseen.why)


def try_promises(session: Session) -> None:
    "Compare what each layer does with what is promised of it."
    before = len(session.faults)
    for path in session.calls:
        _compare_window(session, path)
    compare_scales(session)
    if len(session.faults) == before and session.calls:
        session.passed.append("windows and scales are as promised")


def facts_of_layers(session: Session) -> tuple[LayerFacts, ...]:
    "List the layers in which tokens see each other."
    paths = dict.fromkeys((*session.calls, *session.reaches))
    return tuple(
        LayerFacts(path, _seen_of(session, path), _promises_of(session, path)) for path in paths
    )


def _seen_of(session: Session, path: str) -> dict[str, Any]:
    "Return what a layer does, as far as it was seen."
    reach, call = session.reaches.get(path), session.calls.get(path)
    does: dict[str, Any] = {"mask": reach.kind, "window": reach.back} if reach else {}
    if call is not None:
        does = does or {"mask": call.mask, "window": call.window}
        does["scale"] = scale_of(session, path)
        does["sinks"] = call.sinks is not None
        does["kv_heads"] = call.kv_heads
        does["bytes_per_token"] = _bytes(session, call)
    return does


def _bytes(session: Session, call: Any) -> int | None:
    "Return what a cache of keys and values takes for a token, in the model's own type."
    if call.d_k is None:
        return None
    return int(call.kv_heads * (call.d_k + call.d_v) * session.itemsize)


def _promises_of(session: Session, path: str) -> dict[str, Any]:
    "Return what is promised of a layer, as far as config or caller say it."
    call, config = session.calls.get(path), config_of(session.call.model)
    if call is None or call.d_k is None:
        return {}
    settings = {
        "window": _promised_window(session, path),
        "scale": promised_scale(session, path)[0],
        "kv_heads": getattr(config, "num_key_value_heads", None),
    }
    return {name: value for name, value in settings.items() if value is not None}


def _promised_window(session: Session, path: str) -> int | None:
    "Return the window that is promised; the caller's word counts more than the config's."
    declared = session.expected.windows or {}
    return declared[path] if path in declared else window_of(session.call.model, path)


def _compare_window(session: Session, path: str) -> None:
    "Compare how far tokens see with the window that is promised."
    reach, promised = session.reaches.get(path), _promised_window(session, path)
    if reach is None or reach.ahead:
        return
    shown = f"token {early_token(session)} is seen by {reach.back} tokens"
    if promised is not None and promised >= session.n - 6:
        session.note(
            f"the window of {path}", f"it is {promised}, and {session.n} tokens were tried: give n"
        )
    elif promised is not None and reach.back is None:
        session.fault(
            "window.ignored", path, f"a token sees all {session.n} tokens; promised are {promised}"
        )
    elif promised is not None and reach.back != promised:
        facts = {"name": "the window", "size": promised, "seen": reach.back}
        session.fault("window.size", path, shown, **facts)
    elif (
        promised is None and reach.back is not None and is_local(session.call.model, path) is False
    ):
        session.fault("mask.window", path, shown, seen=reach.back)
