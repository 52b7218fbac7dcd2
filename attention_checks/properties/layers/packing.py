"""Two documents that are packed into one sequence must come out as each does alone."""

from typing import Any

import torch
from torch import Tensor

from attention_checks.catalogue import known
from attention_checks.numbers.tensors import first_difference, nearly
from attention_checks.outcomes import Broken, NotChecked, first_line
from attention_checks.properties import Property
from attention_checks.subjects import calling
from attention_checks.subjects.layer import Layer, no_module
from attention_checks.their_code.signatures import parameters_of


def _must_keep_documents_apart(layer: Layer) -> str:
    "Documents that are packed into one sequence come out as each does alone."
    name, lengths = _packing_arguments(layer)[0], _lengths(layer)
    x, error = layer.draw()[:1], ""
    needed = calling.packing_names(calling.needed_by(layer.module))
    for flat in (True,) if needed else (False, True):
        try:
            got = _packed(layer, x, lengths, flat)
        except Exception as e:
            error = error or first_line(e, 80)
            continue
        documents = x.split(lengths, 1)
        alone = torch.cat([_packed(layer, d, [d.shape[1]], flat) for d in documents], 1)
        if got.shape == alone.shape and nearly(got, alone):
            return f"{name} was given with x {'(n, d)' if flat else '(1, n, d)'}"
        tokens = " and ".join(map(str, lengths))
        shown = f"documents of {tokens} tokens: {first_difference(got, alone)}, as each alone"
        raise Broken(shown, known(_code_of(layer, x, got, lengths, flat), name=name))
    raise NotChecked(f"{name}: no way that was tried will do; {error}")


def _lengths(layer: Layer) -> list[int]:
    "Return how many tokens two documents have; NotChecked if none can be tried."
    first = layer.n // 2 + 1
    lengths = [first, layer.n - first]
    if layer.contract.call:
        raise NotChecked("call= says how it is called")
    if len(layer.promised(*lengths, layer.n)) < 3:
        tokens = " and ".join(map(str, lengths))
        raise NotChecked(f"lengths= allows no documents of {tokens} tokens")
    return lengths


def _code_of(layer: Layer, x: Tensor, got: Tensor, lengths: list[int], flat: bool) -> str:
    "Return the code: the argument is ignored, one document influences the other, or neither."
    cut = lengths[0]
    if nearly(got, _packed(layer, x, [layer.n], flat)):
        return "documents.ignored"
    first, second = x.split(lengths, 1)
    other_first = torch.cat([3 - 2 * first, second], 1)
    other_second = torch.cat([first, 3 - 2 * second], 1)
    still = nearly(_packed(layer, other_first, lengths, flat)[:, cut:], got[:, cut:])
    still &= nearly(_packed(layer, other_second, lengths, flat)[:, :cut], got[:, :cut])
    return "documents.moved" if still else "documents.leak"


def _packed(layer: Layer, x: Tensor, lengths: list[int], flat: bool) -> Tensor:
    "Return the output of packed documents, (1, n, d); if `flat`, the layer gets (n, d)."

    def call(module: Any, x: Tensor) -> Tensor:
        packed = x[0] if flat else x
        arguments = calling.packing_arguments(parameters_of(module) or {}, lengths, packed)
        output: Tensor = calling.first_tensor(module(packed, **arguments))[0]
        return output[None] if flat else output

    with torch.no_grad():
        return layer.calling(call).output_of(layer.module, x.clone())


def _packing_arguments(layer: Layer) -> list[str]:
    "Its arguments that say where documents end."
    return calling.packing_names(parameters_of(layer.original) or {})


PACKED = (
    Property.of(
        _must_keep_documents_apart, no_module, applies=lambda layer: bool(_packing_arguments(layer))
    ),
)
