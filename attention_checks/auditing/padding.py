"""Does padding change real tokens, on the left, on the right, in an encoder's sequence?"""

from dataclasses import replace

import torch
from torch import Tensor

from attention_checks.auditing.model_call import ModelCall
from attention_checks.auditing.passes import Axis, Passed
from attention_checks.auditing.session import Session

_LENGTHS = (0, 3, 5)  # of the padding of the sequences in turn


def try_padding(session: Session) -> None:
    "Pad the sequence on both sides, and an encoder's on the right."
    for side in ("right", "left"):
        _pad_one_side(session, session.call, side)
    for name, value in session.call.others.items():
        vocabulary = 0 if value.is_floating_point() else session.call.vocabulary
        _pad_one_side(session, replace(session.call, key=name, vocabulary=vocabulary), "right")


def _pad_one_side(session: Session, call: ModelCall, side: str) -> None:
    "Pad one side: what padding holds must not matter, nor that it is there."
    what = f"padding of {call.key} on the {side}"
    if not call.mask_name:
        session.note(what, "the model takes no mask of padding")
        return
    before = len(session.faults)
    real = _mark_real(call.sequence, side)
    hidden = call.mask(real)
    if call.positions_name:  # those that count real tokens only
        hidden = {**hidden, call.positions_name: _columns(real)}
    one, other = (_padded(call, real, seed) for seed in (11, 12))
    first = session.recorded(one, **hidden)
    _note_nan(session, first, what)
    for change in session.compared(other, _axes(session, call, real), first, **hidden):
        crossed = call.key != session.call.key and change.where.shape != real.shape
        code = "padding.memory" if crossed else f"padding.{side}"
        session.fault(
            code, change.path, f"other ids in the {what}: real tokens change, {change.by}"
        )
    if len(session.faults) == before:
        _compare_without_padding(session, call, one, real, side, hidden)
    if len(session.faults) == before:
        session.passed.append(f"{what} changes no real token")


def _mark_real(sequence: Tensor, side: str) -> Tensor:
    "Mark the tokens that are no padding, (b, n)."
    b, n = sequence.shape[:2]
    lengths = torch.tensor(_LENGTHS[-b:] if b < 3 else [_LENGTHS[i % 3] for i in range(b)])
    place = torch.arange(n)
    place = place if side == "left" else place.flip(0)
    return (place >= lengths[:, None].clamp(max=n - 2)).to(sequence.device)


def _columns(real: Tensor) -> Tensor:
    "Return where each token stands among the real ones."
    return (real.long().cumsum(1) - 1).clamp(min=0)


def _padded(call: ModelCall, real: Tensor, seed: int) -> ModelCall:
    "Put drawn tokens where padding is, and the sequence's own, in their order, elsewhere."
    sequence = call.sequence
    rows = torch.arange(len(sequence), device=sequence.device)[:, None]
    moved = sequence[rows, _columns(real)]
    size = (len(sequence), sequence.shape[1])
    drawn = call.drawn(size, seed, moved if call.vocabulary else None)
    where = real if sequence.ndim == 2 else real[..., None]
    return call.of(torch.where(where, moved, drawn))


def _axes(
    session: Session, call: ModelCall, real: Tensor, columns: Tensor | None = None
) -> list[Axis]:
    "Return the axis of what is padded, and those of other sequences, which are kept."
    if call.key == session.call.key:
        return session.axes(real, columns)
    whole = torch.ones(session.call.sequence.shape[:2], dtype=torch.bool)
    return [Axis(real, columns), Axis(whole)]


def _compare_without_padding(
    session: Session,
    call: ModelCall,
    one: ModelCall,
    real: Tensor,
    side: str,
    hidden: dict[str, Tensor],
) -> None:
    "Compare with the sequence without padding: the real tokens must be as they are there."
    plain = session.expected.causal and not session.expected.spans and call.key == session.call.key
    if not plain or any(f.code.startswith(("mask.", "mode.")) for f in session.faults):
        return
    if side == "left" and not call.positions_name and not _counts_by_mask(call):
        session.note("padding on the left beside none", "the model takes no positions")
        return
    axes = _axes(session, call, real, _columns(real))
    first = session.first
    if name := call.positions_name:  # some models count from another number where none are given
        first = session.recorded(
            call, **{name: torch.arange(session.n).expand(real.shape).to(real.device)}
        )
    for change in session.compared(one, axes, first, **hidden):
        example = f"{max(_LENGTHS)} ids of padding: real tokens change, {change.by}"
        session.fault("padding.counted", change.path, example, side=side)


def _counts_by_mask(call: ModelCall) -> bool:
    "Return whether the model counts positions by the mask itself, as the book's does."
    return call.mask_name in ("mask", "source_mask")


def _note_nan(session: Session, passed: Passed, what: str) -> None:
    "Find the first module that makes a NaN from none."
    for (path, _), (taken, given) in passed.tensors.items():
        if any(map(_nan, given.values())) and not any(map(_nan, taken.values())):
            if not any(map(_nan, session.first.given(path))):
                session.fault("padding.nan", path, f"{what}: it gives NaN")


def _nan(t: Tensor) -> bool:
    "Return whether a tensor holds a NaN."
    return t.is_floating_point() and bool(t.isnan().any())
