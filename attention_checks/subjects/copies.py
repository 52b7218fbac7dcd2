"""A layer is tried on a copy, in which nothing is hidden by weights that are zero, faint or kept in few bits."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from types import CellType, FunctionType, MethodType
from typing import Any

import torch
import torch.nn as nn
from torch import Tensor

from attention_checks.conventions import role_of
from attention_checks.spec import Contract


def copy_of(
    module: Any,  # a layer; a function comes back as it is
    contract: Contract = Contract(),  # what was declared: its type and device
) -> Any:  # in evaluation mode
    "A copy in float32 on the CPU, or as was declared, so that the caller's layer is not touched."
    if not isinstance(module, nn.Module):
        return module
    copied = _awake(_dequantised(deep_copy(module)).float().cpu())
    if contract.dtype or contract.device:
        copied.to(device=contract.as_device, dtype=contract.as_dtype)
    copied.eval()  # some return nothing
    return copied


def _awake(module: nn.Module) -> nn.Module:
    "The copy with numbers where a weight is all zero, and larger ones in faint projections, which hide as much."
    rng = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for _, p in zero_weights(module):
            p.copy_(0.3 * torch.randn(p.shape, generator=rng))
        for name, p in _matrices(module):
            if role_of(name) and _gain(p) < 0.3:
                p.mul_(0.6 / _gain(p))  # about that of a new nn.Linear
    return module


def softened_copy(
    module: Any,  # a layer; a function comes back as it is
) -> Any:  # the copy
    "A copy with small matrices, so that no softmax is peaked and every word is seen a little."
    softened = deep_copy(module) if isinstance(module, nn.Module) else module
    with torch.no_grad():
        for _, p in _matrices(softened) if isinstance(softened, nn.Module) else ():
            p.mul_(min(1.0, 0.3 / _gain(p)))
    return softened


def _matrices(module: nn.Module) -> list[tuple[str, nn.Parameter]]:
    "The parameters that are more than one row, and not all zero."
    found = [
        (n, p) for n, p in module.named_parameters() if not nn.parameter.is_lazy(p) and p.ndim > 1
    ]
    return [(n, p) for n, p in found if p.is_floating_point() and p.isfinite().all() and p.any()]


def _gain(p: Tensor) -> float:
    "About how many times as large as its input a product with this matrix is."
    return float(p.square().mean().sqrt()) * p.shape[-1] ** 0.5


def zero_weights(
    module: nn.Module,  # any layer
) -> list[tuple[str, nn.Parameter]]:  # with their names
    "The parameters that are trained, no bias, and all zero."
    trained = [
        (n, p)
        for n, p in module.named_parameters()
        if p.requires_grad and not nn.parameter.is_lazy(p)
    ]
    return [(n, p) for n, p in trained if not n.endswith("bias") and not p.any()]


def deep_copy(
    module: nn.Module,  # any layer
) -> nn.Module:  # one that shares nothing with it
    "A copy, also of a layer that keeps tensors of its last call, which cannot be copied with their history."
    kept = [t for m in module.modules() for t in tensors_in(vars(m)) if not t.is_leaf]
    memo: dict[int, Any] = {id(t): t.detach().clone() for t in kept}
    copied = copy.deepcopy(module, memo)
    for m in copied.modules():
        for holder in (vars(m), *(v for v in vars(m).values() if isinstance(v, dict))):
            for name, value in list(holder.items()):
                if (new := _rebound(value, memo)) is not value:
                    holder[name] = new
    return copied


def _rebound(value: Any, memo: dict[int, Any]) -> Any:
    "A function or method that holds what was copied, holding the copy; anything else as it is."
    if isinstance(value, MethodType):
        owner = memo.get(id(value.__self__), value.__self__)
        return value if owner is value.__self__ else MethodType(value.__func__, owner)
    if not isinstance(value, FunctionType) or not value.__closure__:
        return memo.get(id(value), value) if isinstance(value, nn.Module) else value
    try:
        held = [cell.cell_contents for cell in value.__closure__]
    except ValueError:  # a name that is not yet bound
        return value
    new = [_rebound(v, memo) for v in held]
    if all(a is b for a, b in zip(held, new)):
        return value
    made = FunctionType(
        value.__code__,
        value.__globals__,
        value.__name__,
        value.__defaults__,
        tuple(map(CellType, new)),
    )
    made.__kwdefaults__, made.__dict__ = value.__kwdefaults__, dict(value.__dict__)
    return made


def _dequantised(module: nn.Module) -> nn.Module:
    "The same with ordinary projections where weights are kept in few bits, which have no gradients, and round by the batch."
    for name, m in module.named_children():
        weight, bias = (
            f() if callable(f := getattr(m, what, None)) else None for what in ("weight", "bias")
        )
        if weight is None or not weight.is_quantized:
            _dequantised(m)
            continue
        linear = nn.Linear(weight.shape[1], weight.shape[0], bias is not None)
        linear.load_state_dict(
            {"weight": weight.dequantize(), **({} if bias is None else {"bias": bias.detach()})}
        )
        setattr(module, name, linear)
    return module


def tensors_in(
    value: Any,  # anything, nested or not
) -> Iterator[Tensor]:  # in order
    "All that a list, a tuple or a dict holds."
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (list, tuple, dict)):
        for v in value.values() if isinstance(value, dict) else value:
            yield from tensors_in(v)


@contextmanager
def in_training(
    module: Any,  # a copy in evaluation mode, as it is again afterwards; or a function
) -> Iterator[None]:
    "Training mode inside; but spectral norms stay as they are, which move a little at every call in training."
    modules = list(module.modules()) if isinstance(module, nn.Module) else []
    for m in modules:
        hooks = [type(hook).__name__ for hook in m._forward_pre_hooks.values()]
        m.training = type(m).__name__ != "_SpectralNorm" and "SpectralNorm" not in hooks
    try:
        yield
    finally:
        for m in modules:
            m.training = False
