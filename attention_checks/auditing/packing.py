"""Are packed documents kept apart, where positions begin anew?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from attention_checks.auditing.session import Session


def pack(s: Session, inputs: Any) -> None:
    "Change the first of two documents in one sequence: the second must not notice."
    name, what = s.call.positions_name, "packed documents"
    if not name:
        s.note(what, "the model takes no positions of tokens")
        return
    demanded = s.expected.documents or _restarts(inputs, name)
    cut = s.n // 3
    positions = torch.cat([torch.arange(cut), torch.arange(s.n - cut)])
    positions = positions.expand(s.call.sequence.shape[:2]).to(s.call.sequence.device)
    first = s.recorded(s.call, **{name: positions})
    kept = torch.zeros(positions.shape, dtype=torch.bool)
    kept[:, cut:] = True
    changes = s.compared(s.with_others(~kept), s.axes(kept), first, **{name: positions})
    leaking = {change.path: change for change in changes if change.path in s.reaches}
    kinds = {path: type(s.call.model.get_submodule(path)) for path in s.reaches}
    apart = {kind for path, kind in kinds.items() if path not in leaking}
    for path, change in leaking.items():
        if demanded or kinds[path] in apart:  # others of its kind keep them apart
            example = f"another first document: the second changes, by {change.size:.2g}"
            s.fault("documents.leak", path, f"{example} of the largest number")
    if not leaking:
        s.passed.append("packed documents do not see each other, where positions begin anew")
    elif not demanded and not apart & {kinds[path] for path in leaking}:
        s.note(what, "positions that begin anew do not keep all apart here: give a mask")


def _restarts(inputs: Any, name: str) -> bool:
    "Return whether the caller gave positions that begin anew."
    positions = inputs.get(name) if isinstance(inputs, Mapping) else None
    return isinstance(positions, Tensor) and bool((positions.diff(dim=-1) < 0).any())
