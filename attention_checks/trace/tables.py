"""Tables that a layer keeps, and those of cosines and sines, which rotate pairs of features."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
import torch.nn as nn
from torch import Tensor
from torch.utils._pytree import tree_leaves

from attention_checks.catalogue.positions import each_once
from attention_checks.numbers.tolerance import LONG_SUMS


def tensors_kept(module: nn.Module) -> list[Tensor]:
    "Return the tensors that one module keeps beside its parameters, buffers first."
    kept = (*module._buffers.values(), *vars(module).values())
    return [t.detach().cpu() for t in kept if isinstance(t, Tensor)]


def kept_by(layer: nn.Module, n: int) -> list[list[Tensor]]:
    "List the tables that each module of a layer keeps, for the first positions."
    tables = []
    for m in layer.modules():
        long_enough = [t for t in tensors_kept(m) if t.ndim == 2 and len(t) >= n]
        tables.append([t[:n] for t in long_enough])
    return tables


@contextmanager
def tables_handed_on(
    layer: nn.Module,  # to be called inside
    n: int,  # sequence length
) -> Iterator[list[list[Tensor]]]:  # a list for each call of a module
    "Record all inputs and outputs of modules that have one vector for each token."
    seen: list[list[Tensor]] = []

    def keep(_: nn.Module, *what: Any) -> None:
        tensors = [t for t in tree_leaves(what) if isinstance(t, Tensor) and t.ndim > 1]
        tables = [_as_table(t.cpu()) for t in tensors]
        seen.append([t for t in tables if t.shape[-2] == n])

    with ExitStack() as hooks:
        for m in layer.modules():
            hooks.enter_context(m.register_forward_hook(keep, with_kwargs=True))
        yield seen


def _as_table(t: Tensor) -> Tensor:
    "Read a table without its axis of heads, (…, n, 1, d); matrices of pairs as complex numbers."
    if t.ndim > 3 and t.shape[-2:] == (2, 2):
        t = torch.complex(t[..., 0, 0].float(), t[..., 1, 0].float())
    return t.squeeze(-2) if t.ndim > 2 else t


def rotations_in(seen: list[list[Tensor]]) -> list[Tensor]:
    "List complex numbers that may rotate pairs of features, also from adjacent cosines and sines."
    found: list[Tensor] = []
    for some in seen:
        pairs = [(a, b) for a, b in zip(some, some[1:]) if _are_pair(a, b)]
        found += [_turning(a.float(), b.float()) for a, b in pairs]
    for some in seen:
        found += [t for t in some if t.is_complex()]
    rotations: list[Tensor] = []
    for z in filter(_rotates, found):
        of_one = each_once(z.flatten(0, -3)[0] if z.ndim > 2 else z)
        if not any(torch.equal(of_one, other) for other in rotations):
            rotations.append(of_one)
    return rotations


def _are_pair(a: Tensor, b: Tensor) -> bool:
    "Return whether two tensors may be cosines and sines."
    return a.shape == b.shape and a.is_floating_point() and b.is_floating_point()


def _turning(a: Tensor, b: Tensor) -> Tensor:
    "Cosines and sines as complex numbers; the sines are those that are 0 at the first position."
    return torch.complex(a, b) if a[..., 0, :].any() else torch.complex(b, a)


def _rotates(z: Tensor) -> bool:
    "Return whether complex numbers have one modulus, as cosines and sines have."
    least, most = z.abs().aminmax()
    return bool(z.imag.any() and least > 0.1 and most - least < LONG_SUMS)
