"""Does the future reach the past, at any layer and in any mode? Do sequences or documents mix?"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
import torch.nn as nn
from torch import Tensor

from attention_checks.auditing.audit_report import MeasuredReach
from attention_checks.auditing.passes import Change, Passed
from attention_checks.auditing.session import Session
from attention_checks.outcomes import first_line
from attention_checks.subjects.copies import in_training

_EARLY = 5  # a token near the beginning: a window behind it ends within the sequence


def early_token(session: Session) -> int:  # its number
    "Choose the token that is changed to find how far others see."
    return min(_EARLY, session.n // 2)


class ModuleLeak(NamedTuple):
    "Hold what reaches tokens of a module that may not depend on it."

    changed: list[int]  # tokens that were changed
    reached: list[int]  # tokens that changed though they may not
    size: float  # of the change
    kind: type  # of the module

    @property
    def nearest(self) -> bool:
        "Return whether it is the next token alone that is seen."
        return self.changed == [self.reached[0] + 1] and len(self.reached) == 1

    def __str__(self) -> str:
        rest = " and all after it" if len(self.changed) > 1 else ""
        tokens = ", ".join(map(str, self.reached[-4:]))
        size = f"{self.size:.2g} of the largest number"
        return f"another token {self.changed[0]}{rest}: tokens {tokens} change, by {size}"


def try_future(session: Session) -> None:
    "Change tokens, one or all from one on: earlier ones must not notice, in any layer."
    pairs: list[tuple[Tensor, Change]] = []
    for token in dict.fromkeys((early_token(session), 0, session.n - 1)):
        changed = (torch.arange(session.n) == token).expand(session.size)
        pairs += _run_with_others(session, changed, ~changed)
    _note_reaches(session, pairs)
    changed = _mark_from(session, (2, session.n // 3, 2 * session.n // 3))
    leaks = _leaks(
        session, [*pairs, *_run_with_others(session, changed, ~_may_change(session, changed))]
    )
    training = _in_training(session) if session.expected.causal else {}
    for path in dict.fromkeys((*leaks, *training)):
        _note_leak(session, path, leaks.get(path), training.get(path))
    if not leaks and not training:
        session.passed.append("no token reaches one that may not depend on it, in any layer")


def _run_with_others(
    session: Session, changed: Tensor, kept: Tensor, first: Passed | None = None
) -> list[tuple[Tensor, Change]]:
    "Run with other tokens at some places; pair these with what changes elsewhere."
    found = session.compared(session.with_others(changed), session.axes(kept), first)
    return [(changed, change) for change in found]


def _mark_from(session: Session, starts: tuple[int, ...]) -> Tensor:
    "Mark all tokens from one on, another one in each sequence, (b, n)."
    first = torch.tensor([starts[i % len(starts)] for i in range(session.size[0])])
    return torch.arange(session.n) >= first[:, None]


def _may_change(session: Session, changed: Tensor) -> Tensor:
    "Mark tokens that may depend on one that is changed, (b, n)."
    return changed.double() @ session.expected.allowed(session.n).double().T > 0


def _leaks(session: Session, pairs: list[tuple[Tensor, Change]]) -> dict[str, ModuleLeak]:
    "Return the leak of each module that has one: that which reaches most tokens."
    found: dict[str, ModuleLeak] = {}
    for changed, change in pairs:
        wrong = change.where.cpu() & ~_may_change(session, changed)
        row = int(wrong.sum(1).argmax())
        tokens, reached = (mask[row].nonzero().flatten().tolist() for mask in (changed, wrong))
        before = found.get(change.path)
        if len(reached) > (len(before.reached) if before else 0):
            found[change.path] = ModuleLeak(tokens, reached, change.size, change.kind)
    return found


def _in_training(session: Session) -> dict[str, ModuleLeak]:
    "Return the leaks in training mode, with gradients."
    buffers = [(buffer, buffer.clone()) for buffer in session.call.model.buffers()]
    changed = _mark_from(session, (session.n // 2, 3, session.n - 2))
    try:
        with torch.enable_grad(), in_training(session.call.model):
            first = session.recorded(session.call)
            pairs = _run_with_others(session, changed, ~_may_change(session, changed), first)
            if pairs and session.compared(session.call, session.axes(session.all), first):
                raise RuntimeError("two passes with the same seed differ")
    except Exception as e:
        session.untrained = True
        session.note("training mode", f"it raised {first_line(e)}")
        return {}
    finally:
        for buffer, before in buffers:  # running means
            buffer.copy_(before)
    return _leaks(session, pairs)


def _note_leak(
    session: Session, path: str, leak: ModuleLeak | None, trained: ModuleLeak | None
) -> None:
    "Note a leak, by the mode that it appears in and by how far it reaches."
    if leak is None:
        assert trained is not None
        norm = issubclass(trained.kind, nn.modules.batchnorm._BatchNorm)
        session.fault("mode.batch_norm" if norm else "mode.mask_in_evaluation", path, str(trained))
    elif trained is None and session.expected.causal and not session.untrained:
        session.fault("mode.mask_in_training", path, str(leak))
    else:
        session.fault("mask.sees_next" if leak.nearest else "mask.leaks", path, str(leak))


def _note_reaches(session: Session, pairs: list[tuple[Tensor, Change]]) -> None:
    "Note how far the tokens of each module see that mixes tokens, by one token that changed."
    found: dict[str, dict[int, Tensor]] = {}
    for changed, change in pairs:
        token = int(changed[0].nonzero())
        found.setdefault(change.path, {})[token] = change.where.any(0)
    early = early_token(session)
    for path, columns in found.items():
        ahead = any(bool(where[:token].any()) for token, where in columns.items())
        last = {t: int(w.nonzero().max()) for t, w in columns.items() if t < session.n - 1}
        if early not in last:
            session.reaches[path] = MeasuredReach(None, ahead)
            continue
        back = None if last[early] == session.n - 1 else max(last[early] - early + 1, 1)
        first = back is not None and last.get(0, 0) >= back
        session.reaches[path] = MeasuredReach(back, ahead, first)


def try_batch(session: Session) -> None:
    "Change all sequences but the first, which must not notice."
    if len(session.call.sequence) < 2:
        why = "the inputs hold one sequence, which was kept as it is"
        session.note("sequences of a batch apart", why)
        return
    kept = torch.zeros(session.size, dtype=torch.bool)
    kept[0] = True
    changes = session.compared(session.with_others(~kept), session.axes(kept))
    for change in changes:
        session.fault(
            "batch.mixes", change.path, f"other sequences beside it: it changes, {change.by}"
        )
    if not changes:
        session.passed.append("sequences of a batch do not mix")


def try_packing(session: Session, inputs: Any) -> None:
    "Change the first of two documents in one sequence: the second must not notice."
    name, what = session.call.positions_name, "packed documents"
    if not name:
        session.note(what, "the model takes no positions of tokens")
        return
    demanded = session.expected.documents or _restarts(inputs, name)
    leaking = _leaking_documents(session, name)
    kinds = {path: type(session.call.model.get_submodule(path)) for path in session.reaches}
    apart = {kind for path, kind in kinds.items() if path not in leaking}
    for path, change in leaking.items():
        if demanded or kinds[path] in apart:  # others of its kind keep them apart
            example = f"another first document: the second changes, {change.by}"
            session.fault("documents.leak", path, example)
    if not leaking:
        session.passed.append("packed documents do not see each other, where positions begin anew")
    elif not demanded and not apart & {kinds[path] for path in leaking}:
        session.note(what, "positions that begin anew do not keep all apart here: give a mask")


def _leaking_documents(session: Session, positions_name: str) -> dict[str, Change]:
    "Return what changes in the second document, by the module that mixes tokens."
    cut, tokens = session.n // 3, session.call.sequence
    positions = torch.cat([torch.arange(cut), torch.arange(session.n - cut)])
    given = {positions_name: positions.expand(session.size).to(tokens.device)}
    kept = (torch.arange(session.n) >= cut).expand(session.size)
    first = session.recorded(session.call, **given)
    changes = session.compared(session.with_others(~kept), session.axes(kept), first, **given)
    return {change.path: change for change in changes if change.path in session.reaches}


def _restarts(inputs: Any, name: str) -> bool:
    "Return whether the caller gave positions that begin anew."
    positions = inputs.get(name) if isinstance(inputs, Mapping) else None
    return isinstance(positions, Tensor) and bool((positions.diff(dim=-1) < 0).any())
