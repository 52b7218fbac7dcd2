"""Does the future reach the past, at any layer, in training and evaluation? Do sequences mix?"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn as nn
from torch import Tensor

from attention_checks.audit.calling import Call
from attention_checks.audit.report import Reach
from attention_checks.audit.session import Session
from attention_checks.audit.tracing import Change

_EARLY = 5  # a token near the beginning: a window behind it ends within the sequence


def future(s: Session) -> None:
    "Change tokens, one or all from one on: earlier ones must not notice, in any layer."
    evaluation: dict[str, list[tuple[int, Change]]] = {}
    tokens = dict.fromkeys((min(_EARLY, s.n // 2), 0, s.n - 1))
    for token in tokens:
        for change in _changed(s, token, token + 1):
            evaluation.setdefault(change.path, []).append((token, change))
    _note_reaches(s, evaluation)
    start = 2 * s.n // 3
    late = [(start, change) for change in _changed(s, start, s.n)]
    leaks = _leaks(s, [*late, *(pair for pairs in evaluation.values() for pair in pairs)])
    training = _in_training(s) if s.expected.causal else {}
    for path in dict.fromkeys((*leaks, *training)):
        _name(s, path, leaks.get(path), training.get(path))
    if not leaks and not training:
        s.passed.append("no token reaches one that may not depend on it, in any layer")


def _changed(s: Session, start: int, end: int) -> list[Change]:
    "Change some tokens of all sequences; each module's others must be as they were."
    kept = torch.ones(s.call.sequence.shape[:2], dtype=torch.bool)
    kept[:, start:end] = False
    return s.compared(_with_others(s, start, end), s.axes(_kept(s, kept, start, end)))


def _kept(s: Session, kept: Tensor, start: int, end: int) -> Tensor:
    "Where several tokens change, those that may depend on one of them are free."
    if end - start == 1:
        return kept
    free = s.expected.allowed(s.n)[:, start:end].any(-1)
    return kept & ~free


def _with_others(s: Session, start: int, end: int) -> Call:
    "Return the call with other tokens at some places; placeholders of images stay."
    old = s.call.sequence
    new = old.clone()
    drawn = s.call.drawn(s.size, 2 + start, old)
    new[:, start:end] = drawn[:, start:end]
    return s.call.of(torch.where(s.call.placeholders, old, new))


def _illegal(s: Session, start: int, change: Change) -> Tensor:
    "Return the tokens that changed and may not depend on the changed one."
    allowed = s.expected.allowed(s.n)[:, start]
    return change.where.cpu() & ~allowed


def _leaks(s: Session, pairs: list[tuple[int, Change]]) -> dict[str, tuple[int, list[int], float]]:
    "Return, for each module that leaks: the token changed, those that it reached, by how much."
    found: dict[str, tuple[int, list[int], float]] = {}
    for start, change in pairs:
        reached = _illegal(s, start, change).any(0).nonzero().flatten().tolist()
        if reached and len(reached) > len(found.get(change.path, (0, [], 0.0))[1]):
            found[change.path] = (start, reached, change.size)
    return found


def _in_training(s: Session) -> dict[str, tuple[int, list[int], float, bool]]:
    "The same in training mode, with gradients; also whether the module is a batch norm."
    _train(s.call.model, True)
    buffers = [(buffer, buffer.clone()) for buffer in s.call.model.buffers()]
    try:
        first = s.recorded(s.call)
        start = s.n // 2
        kept = ~s.expected.allowed(s.n)[:, start:].any(-1).expand(s.call.sequence.shape[:2])
        changes = s.compared(_with_others(s, start, s.n), s.axes(kept), first)
        if changes and s.compared(s.call, s.axes(torch.ones_like(kept)), first):
            raise RuntimeError("two passes with the same seed differ")
    except Exception as e:
        s.untrained = True
        s.note("training mode", f"it raised {str(e).splitlines()[0]:.90}")
        return {}
    finally:
        _train(s.call.model, False)
        for buffer, before in buffers:  # running means
            buffer.copy_(before)
    leaks = _leaks(s, [(start, change) for change in changes])
    norm = {c.path: issubclass(c.kind, nn.modules.batchnorm._BatchNorm) for c in changes}
    return {path: (*leak, norm[path]) for path, leak in leaks.items()}


def _train(model: nn.Module, mode: bool) -> None:
    "Set the mode of all modules, but for spectral norms, which change at every call in training."
    for m in model.modules():
        m.training = mode and "SpectralNorm" not in type(m).__name__


def _name(s: Session, path: str, leak: Any, trained: Any) -> None:
    "Note a leak, by the mode that it appears in and by how far it reaches."
    start, reached, size = leak or trained[:3]
    which = f"token {start}" if leak else f"tokens from {start} on"
    tokens = ", ".join(map(str, reached[-4:]))
    example = f"other {which}: tokens {tokens} change, by {size:.2g} of the largest number"
    if leak and trained or not s.expected.causal or leak and s.untrained:
        code = "mask.sees_next" if reached == [start - 1] else "mask.leaks"
    elif leak:
        code = "mode.mask_in_training"
    else:
        code = "mode.batch_norm" if trained[3] else "mode.mask_in_evaluation"
    s.fault(code, path, example)


def _note_reaches(s: Session, found: dict[str, list[tuple[int, Change]]]) -> None:
    "Note how far the tokens of each module see that mixes tokens."
    for path, pairs in found.items():
        columns = {token: change.where.any(0) for token, change in pairs}
        ahead = any(bool(where[:token].any()) for token, where in columns.items())
        early = min(_EARLY, s.n // 2)
        last = {t: int(w.nonzero().max()) for t, w in columns.items() if t < s.n - 1}
        if early not in last:
            s.reaches[path] = Reach(None, ahead)
            continue
        back = None if last[early] == s.n - 1 else max(last[early] - early + 1, 1)
        first = back is not None and last.get(0, 0) >= back
        s.reaches[path] = Reach(back, ahead, first)


def batch(s: Session) -> None:
    "Change all sequences but the first, which must not notice."
    if len(s.call.sequence) < 2:
        s.note(
            "sequences of a batch apart", "the inputs hold one sequence, which was kept as it is"
        )
        return
    kept = torch.zeros(s.call.sequence.shape[:2], dtype=torch.bool)
    kept[0] = True
    others = s.call.drawn(s.size, 7, s.call.sequence)
    others[0] = s.call.sequence[0]
    call = s.call.of(torch.where(s.call.placeholders, s.call.sequence, others))
    axes = s.axes(kept)
    for change in s.compared(call, axes):
        example = (
            f"other sequences beside it: it changes, by {change.size:.2g} of the largest number"
        )
        s.fault("batch.mixes", change.path, example)
    if "batch.mixes" not in [fault.code for fault in s.faults]:
        s.passed.append("sequences of a batch do not mix")
