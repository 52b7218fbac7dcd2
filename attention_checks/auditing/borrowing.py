"""A model is tried in float64 and in both modes, with random numbers; it comes back as it was."""

import random
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
import torch.nn as nn
from torch import Tensor

from attention_checks.subjects.copies import plain_attributes, without_faint_weights
from attention_checks.their_code.controlled import own_chance

_HELD = (list, dict, set)


@contextmanager
def borrowed(
    model: nn.Module,  # in any mode, on any device
    dtype: torch.dtype | None,  # that its weights get inside; None: their own
) -> Iterator[None]:
    "Let a model be changed inside; its weights, buffers, attributes and modes come back after."
    with ExitStack() as back, torch.no_grad():
        for m in model.modules():
            own = dict(plain_attributes(m))
            contents = {name: value.copy() for name, value in own.items() if type(value) in _HELD}
            back.callback(_restore, m, m.training, own, contents)
            for name, buffer in list(m._buffers.items()):
                back.callback(m._buffers.__setitem__, name, buffer)
                m._buffers[name] = cast(buffer, dtype)
            for name, value in list(plain_attributes(m)):
                if isinstance(value, Tensor) and not value.requires_grad:
                    m.__dict__[name] = cast(value, dtype)
        for p in model.parameters():
            back.callback(setattr, p, "data", p.data)
            p.data = cast(p.data, dtype)
        if dtype is not None:
            without_faint_weights(model)
        with torch.enable_grad(), own_chance():
            yield


def cast(value: Any, dtype: torch.dtype | None) -> Any:
    "Copy a tensor, in another floating type if it has one."
    if not isinstance(value, Tensor):
        return value
    to = dtype if dtype is not None and value.is_floating_point() else value.dtype
    return value.detach().to(to, copy=True)


def _restore(
    m: nn.Module, mode: bool, attributes: dict[str, Any], contents: dict[str, Any]
) -> None:
    "Restore the attributes and the mode of a module."
    for name in [name for name, _ in plain_attributes(m) if name not in attributes]:
        del m.__dict__[name]
    m.__dict__.update(attributes)
    for name, before in contents.items():
        held = attributes[name]
        held.clear()
        put_back = held.extend if isinstance(held, list) else held.update
        put_back(before)
    m.training = mode


def seed() -> None:
    "Begin all random numbers anew, so that two passes drop the same."
    random.seed(0)
    torch.manual_seed(0)
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed(0)
