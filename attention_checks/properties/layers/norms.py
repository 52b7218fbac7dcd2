"""A norm must do what every norm does: to each vector alone, whatever its length."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
import torch.nn as nn
from torch import Tensor

from attention_checks.catalogue import known
from attention_checks.choice_guards import names_in
from attention_checks.numbers.tensors import nearly
from attention_checks.outcomes import Broken, NotChecked
from attention_checks.properties import Property
from attention_checks.subjects.layer import Layer, no_module
from attention_checks.trace.guesses import named_choices
from attention_checks.trace.recording import as_float, recorded_call

_ALONE = re.compile(r"^(?!.*(batch|group|instance|weight|spectral)).*norm", re.I)
_SHORTER = 1 / 8  # the length of vectors that tell an epsilon
_MOST = 5e-3  # as much may be added to the mean square of usual vectors


def _must_normalise_each(layer: Layer) -> None:
    "Its norms normalise each vector alone."
    for name, norm, t in _norms_with_inputs(layer):
        if not _ALONE.search(type(norm).__name__) or len(getattr(norm, "normalized_shape", ())) > 1:
            raise NotChecked(f"{name} is taken as it is: it is no norm of one vector alone")
        call = _as_it_runs(layer, norm)
        one, same = (call(each).flatten(0, -2)[-1] for each in (t, _but_last(t)))
        if not nearly(one, same):
            raise Broken(f"{name}, {tuple(t.shape)}", known("norm.mixes", name=name))
        epsilon = _epsilon(call, t)
        if epsilon > _MOST:
            bug = known("norm.epsilon", name=name, found=f"{epsilon:.2g}")
            raise Broken(f"{name} of vectors of 1/8 of the usual length", bug)


def _norms_with_inputs(layer: Layer) -> Iterator[tuple[str, nn.Module, Tensor]]:
    "Yield the norms that are modules, with random vectors of the shape that they are given."
    modules = dict(layer.module.named_modules())
    names = [name for some in _names_of_norms(layer).values() for name in names_in(some)]
    found = {name: modules[name] for name in names if name in modules}
    given = recorded_call(found, lambda: layer(layer.draw()))[1] if found else {}
    generator = torch.Generator().manual_seed(1)
    for name, norm in found.items():
        t = given.get(name, [None])[0]
        if not isinstance(t, Tensor) or t.ndim < 2:
            raise NotChecked(f"no call of {name} with vectors was seen")
        yield name, norm, torch.randn(t.shape, generator=generator)


def _names_of_norms(layer: Layer) -> Mapping[str, Any]:
    "Return the norms of queries, keys and the context, as declared, or as their names tell."
    found = named_choices(layer.module, layer.contract) if layer.modules else {}
    return layer.contract.norms or found.get("norms", {})


def _as_it_runs(layer: Layer, norm: Any) -> Callable[[Tensor], Tensor]:
    "Return what calls a norm where the layer runs."

    def call(t: Tensor) -> Tensor:
        with torch.no_grad():
            made: Tensor = as_float(layer.contract.placement.through(norm, t))
        return made

    return call


def _but_last(t: Tensor) -> Tensor:
    "Return vectors of which the last is the same, and all others have other directions."
    others = t.flatten(0, -2).flip(-1)
    others[-1] = t.flatten(0, -2)[-1]
    return others.view(t.shape)


def _epsilon(call: Callable[[Tensor], Tensor], t: Tensor) -> float:
    "Return what a norm adds to the mean square, told by how it shortens short vectors."
    usual, shorter = (call(s) - call(-s) for s in (t, _SHORTER * t))  # without what is added last
    ratio = float((shorter.square().sum() / usual.square().sum()).clamp(min=_SHORTER**2 + 1e-9))
    return _SHORTER**2 * (1 - ratio) / (ratio - _SHORTER**2)


NORMS = (
    Property.of(
        _must_normalise_each, no_module, applies=lambda layer: bool(_names_of_norms(layer))
    ),
)
