"""Where code under test runs, and in which type; tensors are brought there, and back."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map_only


@dataclass(frozen=True)
class Placement:
    "Hold the device and the type that code runs in; the checks compute on the CPU, in float32."

    device: torch.device
    dtype: torch.dtype | None  # None: float32, and the checks try others

    def wrap(self, f: Callable[..., Tensor]) -> Callable[..., Tensor]:
        "Wrap a declared function of tensors on the CPU, so that it runs where the code does."
        if self.device.type == "cpu":
            return f

        @wraps(f)
        def called(*given: Any, **named: Any) -> Tensor:
            given, named = tree_map_only(Tensor, lambda t: t.to(self.device), (given, named))
            return f(*given, **named).cpu()

        return called

    def around(self, f: Callable[..., Any]) -> Callable[..., Any]:
        "Wrap code under test, so that it runs there, with tensors on the CPU, in float32, outside."
        if self.device.type == "cpu" and self.dtype is None:
            return f

        @wraps(f)
        def called(*given: Any) -> Any:
            with self.inputs(*given) as placed:
                return self.back(f(*placed))

        return called

    def to(self, t: Any) -> Any:
        "Bring a tensor to the device and type that the code runs in; all else stays as it is."
        if not isinstance(t, Tensor):
            return t
        real = self.dtype is not None and t.is_floating_point()
        return t.to(self.device, self.dtype if real else t.dtype)

    @contextmanager
    def inputs(self, *tensors: Any) -> Iterator[list[Any]]:
        "Bring tensors there; what the code writes into them inside stands in the caller's, too."
        copies = [self.to(t) for t in tensors]
        versions = [_version_of(t) for t in copies]
        yield copies
        with torch.no_grad():
            for t, copied, version in zip(tensors, copies, versions):
                if copied is not t and _version_of(copied) != version:
                    t.copy_(copied)

    def back(self, t: Any) -> Any:
        "Bring a tensor back to the CPU and float32; all else stays as it is."
        if not isinstance(t, Tensor):
            return t
        t = t.cpu() if t.device.type != "cpu" else t
        return t.float() if t.dtype == self.dtype else t

    def through(self, part: Callable[..., Any], t: Tensor) -> Any:
        "Return what a part of the code, or a function, makes of a tensor, where the code runs."
        return self.back(part(self.to(t)))


def dtype_of(
    value: Any,  # a type of PyTorch, or its name
) -> Any:  # the type; None if there is none of that name, or it is "any"
    "Return the type of PyTorch that a name stands for."
    if not isinstance(value, str):
        return value
    return None if value == "any" else getattr(torch, value.removeprefix("torch."), None)


def _version_of(t: Any) -> int:
    "Return how often a tensor was written into; 0 of what is no tensor, or does not count."
    return t._version if isinstance(t, Tensor) and not t.is_inference() else 0
