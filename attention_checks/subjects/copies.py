"""A layer is tried on a copy, in which no weight is zero, faint or quantized."""

import copy
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from types import CellType, FunctionType, MethodType
from typing import Any

import torch
import torch.nn as nn
from torch import Tensor

from attention_checks.outcomes import Misused, first_line
from attention_checks.spec import Contract
from attention_checks.their_code.conventions import role_of


def copy_of(
    module: Any,  # a layer; a function comes back as it is
    contract: Contract = Contract(),  # what was declared: its type and device
) -> Any:  # in evaluation mode
    "Copy a layer, in float32 on the CPU or as was declared; the caller's layer is not touched."
    if not isinstance(module, nn.Module):
        return module
    copied = without_faint_weights(_dequantized(deep_copy(module)).float().cpu())
    _move_from_one(copied, contract.declared_parts)
    if contract.dtype or contract.device:
        copied.to(device=contract.placement.device, dtype=contract.placement.dtype)
    copied.eval()  # some layers' eval returns nothing
    return copied


def without_faint_weights(module: nn.Module) -> nn.Module:
    "Put random numbers where a weight is all zero, and scale up faint projections."
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for _, p in zero_weights(module):
            p.copy_(0.3 * torch.randn(p.shape, generator=generator))
        for name, p in _matrices(module):
            if role_of(name) and _gain(p) < 0.3:
                p.mul_(0.6 / _gain(p))  # about that of a new nn.Linear
    return module


def _move_from_one(module: nn.Module, names: set[str]) -> None:
    "Put other numbers where a declared parameter is 1, which tells no factor from its inverse."
    generator = torch.Generator().manual_seed(6)
    with torch.no_grad():
        for name, p in module.named_parameters():
            if name in names and not nn.parameter.is_lazy(p) and (p == 1).all():
                p.copy_(0.5 + torch.rand(p.shape, generator=generator))


def softened_copy(module: Any) -> Any:  # a function comes back as it is
    "Copy a layer and scale its matrices down: no softmax is peaked, every token gets some weight."
    if not isinstance(module, nn.Module):
        return module
    softened = deep_copy(module)
    with torch.no_grad():
        for _, p in _matrices(softened):
            p.mul_(min(1.0, 0.3 / _gain(p)))
    return softened


def _matrices(module: nn.Module) -> list[tuple[str, nn.Parameter]]:
    "Parameters with two dimensions or more that are finite and not all zero, with their names."
    known = [(name, p) for name, p in module.named_parameters() if not nn.parameter.is_lazy(p)]
    wide = [(name, p) for name, p in known if p.ndim > 1 and p.is_floating_point()]
    return [(name, p) for name, p in wide if p.isfinite().all() and p.any()]


def _gain(p: Tensor) -> float:
    "About how many times as large as its input a product with this matrix is."
    return float(p.double().square().mean().sqrt()) * p.shape[-1] ** 0.5


def zero_weights(module: nn.Module) -> list[tuple[str, nn.Parameter]]:
    "List the parameters that are trained, are no bias, and are all zero."
    known = [(name, p) for name, p in module.named_parameters() if not nn.parameter.is_lazy(p)]
    trained = [(name, p) for name, p in known if p.requires_grad and not name.endswith("bias")]
    return [(name, p) for name, p in trained if not p.any()]


def deep_copy(module: nn.Module) -> nn.Module:  # shares what cannot be copied, such as a lock
    "Copy a layer, with what it keeps of its last call, and with functions that hold parts of it."
    detached: dict[int, Any] = {}
    for m in module.modules():
        kept = [t for _, t in tensors_in(vars(m)) if not t.is_leaf]
        detached |= {id(t): t.detach().clone() for t in kept}
    memo = dict(detached)
    try:
        copied = copy.deepcopy(module, memo)
    except Exception:
        memo = dict(detached)
        copied = _copied_but(module, memo)
    for m in copied.modules():
        for holder in (vars(m), *(v for v in vars(m).values() if isinstance(v, dict))):
            for name, value in list(holder.items()):
                if (new := _rebound(value, memo)) is not value:
                    holder[name] = new
    return copied


def _copied_but(module: nn.Module, memo: dict[int, Any]) -> nn.Module:
    "Return a copy that shares the attributes that cannot be copied; Misused if that does not help."
    for m in module.modules():
        for name, value in vars(m).items():
            if name in ("_parameters", "_buffers", "_modules"):
                continue
            try:
                copy.deepcopy(value, dict(memo))
            except Exception:
                memo[id(value)] = value
    try:
        return copy.deepcopy(module, memo)
    except Exception as e:
        raise Misused(
            f"module: expected a layer that copy.deepcopy copies; it raised {first_line(e, 90)}"
        ) from None


def _rebound(value: Any, memo: dict[int, Any]) -> Any:
    "Return a function or method with the copy in the place of what it holds; else the same."
    if isinstance(value, MethodType):
        owner = memo.get(id(value.__self__), value.__self__)
        return value if owner is value.__self__ else MethodType(value.__func__, owner)
    if isinstance(value, nn.Module):
        return memo.get(id(value), value)
    if not isinstance(value, FunctionType) or not value.__closure__:
        return value
    try:
        held = [cell.cell_contents for cell in value.__closure__]
    except ValueError:  # a name that is not yet bound
        return value
    new = [_rebound(v, memo) for v in held]
    if all(after is before for before, after in zip(held, new)):
        return value
    cells = tuple(map(CellType, new))
    made = FunctionType(
        value.__code__, value.__globals__, value.__name__, value.__defaults__, cells
    )
    made.__kwdefaults__, made.__dict__ = value.__kwdefaults__, dict(value.__dict__)
    return made


def _dequantized(module: nn.Module) -> nn.Module:
    "Put nn.Linear in the place of quantized ones: those have no gradients, and round by the batch."
    for name, m in module.named_children():
        weight, bias = (getattr(m, what, None) for what in ("weight", "bias"))
        if not callable(weight) or not weight().is_quantized:
            _dequantized(m)
            continue
        weight, bias = weight().dequantize(), bias() if callable(bias) else None
        linear = nn.Linear(weight.shape[1], weight.shape[0], bias is not None)
        state = {"weight": weight} if bias is None else {"weight": weight, "bias": bias.detach()}
        linear.load_state_dict(state)
        setattr(module, name, linear)
    return module


_OF_MODULES = vars(nn.Module()).keys()  # what every module holds


def plain_attributes(m: nn.Module) -> Iterator[tuple[str, Any]]:
    "List what a module holds beside its registered parameters, buffers and modules."
    return ((name, value) for name, value in vars(m).items() if name not in _OF_MODULES)


def tensors_in(
    value: Any,  # a tensor, a list, a tuple, a dict, or anything else
    depth: int = 5,  # how far to look into it
    attributes: bool = False,  # also into the attributes of other objects?
    name: str = "",  # of it
) -> Iterator[tuple[str, Tensor]]:
    "List the tensors that something holds, by where they stand there."
    if isinstance(value, Tensor):
        yield name, value
    elif depth:
        for key, part in _items_of(value, attributes):
            yield from tensors_in(part, depth - 1, attributes, f"{name}.{key}")


def _items_of(value: Any, attributes: bool) -> Iterable[tuple[Any, Any]]:
    "List what something holds, by its keys, its places, or the names of its attributes."
    if isinstance(value, Mapping):
        return value.items()
    if isinstance(value, (list, tuple)):
        return enumerate(value)
    return getattr(value, "__dict__", {}).items() if attributes else ()


@contextmanager
def in_mode(
    module: Any,  # a layer, or a function, which has no mode
    training: bool,
) -> Iterator[None]:
    """Training or evaluation inside, all parts as they were afterwards; but spectral norms, which
    change at every call in training, stay in evaluation.
    """
    modules = list(module.modules()) if isinstance(module, nn.Module) else []
    before = [m.training for m in modules]
    for m in modules:
        hooks = [type(hook).__name__ for hook in m._forward_pre_hooks.values()]
        spectral = type(m).__name__ == "_SpectralNorm" or "SpectralNorm" in hooks
        m.training = training and not spectral
    try:
        yield
    finally:
        for m, mode in zip(modules, before):
            m.training = mode


def in_training(module: Any) -> AbstractContextManager[None]:
    "Training mode inside."
    return in_mode(module, True)
