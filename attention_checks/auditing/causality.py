"""Does the future reach the past, at any layer, in training and evaluation? Do sequences mix?"""

from __future__ import annotations

import torch
import torch.nn as nn
from torch import Tensor

from attention_checks.auditing.calling import Call
from attention_checks.auditing.report import Reach
from attention_checks.auditing.session import Session
from attention_checks.auditing.tracing import Change
from attention_checks.examine import first_line
from attention_checks.subjects.copies import in_training

_EARLY = 5  # a token near the beginning: a window behind it ends within the sequence


def future(s: Session) -> None:
    "Change tokens, one or all from one on: earlier ones must not notice, in any layer."
    evaluation: dict[str, list[tuple[int, Change]]] = {}
    found: list[tuple[Tensor, Change]] = []
    for token in dict.fromkeys((min(_EARLY, s.n // 2), 0, s.n - 1)):
        changed = (torch.arange(s.n) == token).expand(s.size)
        for change in s.compared(_with_others(s, changed), s.axes(~changed)):
            evaluation.setdefault(change.path, []).append((token, change))
            found.append((changed, change))
    _note_reaches(s, evaluation)
    changed = _from(s, (2, s.n // 3, 2 * s.n // 3))
    late = s.compared(_with_others(s, changed), s.axes(~_may_change(s, changed)))
    leaks = _leaks(s, [*found, *((changed, change) for change in late)])
    training = _in_training(s) if s.expected.causal else {}
    for path in dict.fromkeys((*leaks, *training)):
        _name(s, path, leaks.get(path), training.get(path))
    if not leaks and not training:
        s.passed.append("no token reaches one that may not depend on it, in any layer")


def _from(s: Session, starts: tuple[int, ...]) -> Tensor:
    "Mark all tokens from one on, another one in each sequence, (b, n)."
    first = torch.tensor([starts[i % len(starts)] for i in range(s.size[0])])
    return torch.arange(s.n) >= first[:, None]


def _may_change(s: Session, changed: Tensor) -> Tensor:
    "Mark tokens that may depend on one that is changed, (b, n)."
    return changed.double() @ s.expected.allowed(s.n).double().T > 0


def _with_others(s: Session, changed: Tensor) -> Call:
    "Return the call with other tokens at some places; placeholders of images stay."
    old = s.call.sequence
    drawn = s.call.drawn(s.size, 2 + int(changed.sum()), old)
    where = changed.to(old.device).view(*changed.shape, *[1] * (old.ndim - 2))
    return s.call.of(torch.where(where & ~s.call.placeholders, drawn, old))


_Leak = tuple[str, list[int], float]  # which tokens were changed, those that they reached, how much


def _leaks(s: Session, pairs: list[tuple[Tensor, Change]]) -> dict[str, _Leak]:
    "Return the leak of each module that has one."
    found: dict[str, _Leak] = {}
    for changed, change in pairs:
        wrong = change.where.cpu() & ~_may_change(s, changed)
        row = int(wrong.sum(1).argmax())
        reached = wrong[row].nonzero().flatten().tolist()
        if len(reached) > len(found.get(change.path, ("", [], 0.0))[1]):
            tokens = changed[row].nonzero().flatten().tolist()
            which = f"token {tokens[0]}" + " and all after it" * (len(tokens) > 1)
            found[change.path] = (which, reached, change.size)
    return found


def _in_training(s: Session) -> dict[str, tuple[_Leak, bool]]:
    "The same in training mode, with gradients; also whether the module is a batch norm."
    buffers = [(buffer, buffer.clone()) for buffer in s.call.model.buffers()]
    changed = _from(s, (s.n // 2, 3, s.n - 2))
    try:
        with torch.enable_grad(), in_training(s.call.model):
            first = s.recorded(s.call)
            kept = ~_may_change(s, changed)
            changes = s.compared(_with_others(s, changed), s.axes(kept), first)
            if changes and s.compared(s.call, s.axes(torch.ones_like(kept)), first):
                raise RuntimeError("two passes with the same seed differ")
    except Exception as e:
        s.untrained = True
        s.note("training mode", f"it raised {first_line(e)}")
        return {}
    finally:
        for buffer, before in buffers:  # running means
            buffer.copy_(before)
    norm = {c.path: issubclass(c.kind, nn.modules.batchnorm._BatchNorm) for c in changes}
    leaks = _leaks(s, [(changed, change) for change in changes])
    return {path: (leak, norm[path]) for path, leak in leaks.items()}


def _name(s: Session, path: str, leak: _Leak | None, trained: tuple[_Leak, bool] | None) -> None:
    "Note a leak, by the mode that it appears in and by how far it reaches."
    which, reached, size = leak or (trained or (("", [], 0.0), False))[0]
    tokens = ", ".join(map(str, reached[-4:]))
    example = f"another {which}: tokens {tokens} change, by {size:.2g} of the largest number"
    always = leak and (trained or not s.expected.causal or s.untrained)
    if always:
        nearest = which == f"token {reached[-1] + 1}" and len(reached) == 1
        code = "mask.sees_next" if nearest else "mask.leaks"
    elif leak:
        code = "mode.mask_in_training"
    else:
        code = "mode.batch_norm" if trained and trained[1] else "mode.mask_in_evaluation"
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
