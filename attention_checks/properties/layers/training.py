"""Training gives what evaluation gives; parameters are registered and get a gradient."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import torch
import torch.nn as nn
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_unflatten

from attention_checks.catalogue import known
from attention_checks.conventions import INDEXER, is_dropout, role_of
from attention_checks.examine import Broken, NotChecked, attempt
from attention_checks.numbers import first_difference, nearly, reenters
from attention_checks.properties import Relation
from attention_checks.properties.gradients import gradients_of_mixture
from attention_checks.properties.layers.running import must_be_vectors
from attention_checks.subjects.calling import first_tensor
from attention_checks.subjects.copies import in_training, plain_attributes, tensors_in
from attention_checks.subjects.layer import Layer, no_module, normalises_batch, unregistered


def _modes_agree(layer: Layer) -> None:
    "Training gives what evaluation gives; with dropout, its mean."
    x = layer.draw()
    want, first, second = layer(x), layer.in_mode(x, True), layer.in_mode(x, True, seed=1)
    if not nearly(first, second, equal_nan=True):
        _must_keep_mean(layer)
        return
    must_be_vectors(layer, x, first, ", in training")
    if nearly(first, want):
        _must_not_set_dropout(layer)
        return
    if normalises_batch(layer):
        raise NotChecked("it has batch normalisation, which differs in training")
    raise Broken(f"in training: {first_difference(first, want)}", known("mode.differs"))


def _must_not_set_dropout(layer: Layer) -> None:
    "Raise Broken if a layer without chance in training has a dropout probability above 0."
    for m in layer.parts if layer.contract.dropout != "none" else ():
        drops = isinstance(m, nn.modules.dropout._DropoutNd)
        for name, p in vars(m).items():
            if isinstance(p, float) and p > 0 and (drops or is_dropout(name)):
                raise Broken(f"{name} = {p}: training runs are equal", known("dropout.never"))


_Call = tuple[nn.Module, list[Any], Any]  # a part, all that it was given, and the form of that


def _calls_in_training(layer: Layer, seed: int) -> list[_Call]:
    "What the parts are called with in training."
    calls: list[_Call] = []

    def note(m: nn.Module, *given: Any) -> None:
        leaves, form = tree_flatten(given)
        calls.append((m, [t.clone() if isinstance(t, Tensor) else t for t in leaves], form))

    with ExitStack() as hooks:
        for m in layer.parts[1:]:
            hooks.callback(m.register_forward_pre_hook(note, with_kwargs=True).remove)
        layer.in_mode(layer.draw(), True, False, seed)
    return calls


def _must_be_linear(layer: Layer) -> None:
    "Raise NotChecked if a part that chance reaches need not keep the mean of its input."
    if normalises_batch(layer):
        raise NotChecked("it has batch normalisation, which differs in training")
    pair = zip(*(_calls_in_training(layer, seed) for seed in (0, 1)))
    for (part, first, form), (_, second, _) in pair:
        reached = [
            isinstance(a, Tensor) and a.is_floating_point() and not nearly(a, b, equal_nan=True)
            for a, b in zip(first, second)
        ]
        scores = isinstance(part, nn.Softmax)  # before it nothing should be dropped
        both = list(zip(first, second, reached))
        if any(reached) and not scores and not attempt(lambda: _is_linear(part, both, form)):
            name = type(part).__name__
            raise NotChecked(f"{name} comes after dropout and is not linear: no mean is kept")


def _is_linear(part: nn.Module, both: list[tuple[Any, Any, bool]], form: Any) -> bool:
    "Whether a part is linear, but for what it adds, in what it is given otherwise by chance."

    def out(i: int, j: int) -> Tensor:
        given = [i * a + j * b if by_chance else a for a, b, by_chance in both]
        args, named = tree_unflatten(given, form)
        result: Tensor = first_tensor(part(*args, **named))[0]
        return result

    with torch.no_grad():
        return nearly(out(1, 1) + out(0, 0), out(1, 0) + out(0, 1), 1e-3)


def _must_keep_mean(layer: Layer) -> None:
    "Raise Broken if chance in training changes the mean."
    if layer.contract.dropout in ("none", "scores"):
        raise NotChecked(f"dropout={layer.contract.dropout!r} was declared: no mean is kept")
    _must_be_linear(layer)
    want, got = _runs_of_training(layer)
    if not got.isfinite().all():
        raise Broken("NaN or infinity in training", known("dropout.biased"))
    mean = got.mean(0)
    off, standard_error = (mean - want).abs(), got.std(0) / len(got) ** 0.5
    if (off / (standard_error + 1e-6)).max() > 8 and off.max() > 1e-3:
        ratio = float((mean * want).sum() / want.square().sum())
        shown = f"the mean of {len(got)} training runs is {ratio:.3f} times the evaluation output"
        raise Broken(shown, known("dropout.biased"))


def _runs_of_training(layer: Layer, runs: int = 4096) -> tuple[Tensor, Tensor]:
    "Give the output in evaluation, (n, d), and those of many runs in training, (runs, n, d)."
    x = layer.draw(1)
    with torch.no_grad():
        want = layer(x)[0]
        with in_training(layer.module):
            return want, layer.many(layer.module, x.expand(runs, -1, -1).contiguous())


def _trained(layer: Layer) -> str | None:
    "Every parameter is registered, and receives a gradient."
    _must_be_registered(layer)
    parameters = dict(layer.module.named_parameters())
    asking = {name: p for name, p in parameters.items() if p.requires_grad}
    wanted = {name: p for name, p in asking.items() if not INDEXER.search(name)}
    if not parameters:
        raise NotChecked("it has no parameters")
    if not wanted:
        raise NotChecked("it is frozen: no parameter asks for a gradient")
    _must_be_reached(layer, wanted)
    for name in asking.keys() - wanted.keys():
        return f"{name} was left out: what chooses keys has a loss of its own"
    return None


def _must_be_reached(layer: Layer, wanted: dict[str, nn.Parameter]) -> None:
    "Raise Broken for a parameter, or a part of one, that receives no gradient."
    # where scores are large a softmax is flat: a gradient must be 0 for small inputs, too
    outputs = (_traceable(layer, x) for x in (layer.draw(), layer.draw() / 30))
    both = [dict(zip(wanted, gradients_of_mixture(y, list(wanted.values())))) for y in outputs]
    if unused := [name for name in wanted if both[0][name] is None]:
        both[0] |= _reached_in_training(layer, {name: wanted[name] for name in unused})
    modules = dict(layer.module.named_modules())
    for name, p in wanted.items():
        grad = torch.stack([g.abs() for grads in both if (g := grads[name]) is not None]).sum(0)
        if (grad == 0).all() and not name.endswith("bias"):
            raise Broken(f"the gradient of {name} is zero", known("parameter.silent", name=name))
        if isinstance(modules.get(name.rpartition(".")[0]), nn.Embedding):
            continue  # not all of it is read
        projects = role_of(name) in ("q", "k", "v", "kv", "qkv") and layer.d_model in p.shape
        if projects and (zeros := _zero_part(grad)):
            shown = f"the gradient of {name} is zero {zeros}"
            raise Broken(shown, known("parameter.part", name=name))


def _reached_in_training(layer: Layer, unused: dict[str, nn.Parameter]) -> dict[str, Tensor]:
    "Gradients of parameters whose part in the output evaluation keeps from call to call."
    with in_training(layer.module):
        grads = gradients_of_mixture(layer(layer.draw()), list(unused.values()))
    for name, grad in zip(unused, grads):
        if grad is None:
            raise Broken(f"{name} gets no gradient", known("parameter.unused", name=name))
    return {name: grad for name, grad in zip(unused, grads) if grad is not None}


def _traceable(layer: Layer, x: Tensor) -> Tensor:
    "The output; for an input that wants a gradient, if a reentrant checkpoint needs one."
    y = layer(x)
    if not y.requires_grad and reenters(other := layer(x.requires_grad_())):
        return other
    return y


def _must_be_registered(layer: Layer) -> None:
    "Raise Broken for weights that no optimizer sees."
    if hidden := unregistered(layer) or _plain_weights(layer):
        shown = f"{hidden} holds weights that module.parameters() does not list"
        raise Broken(shown, known("parameter.unregistered", name=hidden))
    if list(layer.module.parameters()):
        return
    kept = [*layer.module.buffers(), *(v for m in layer.parts for v in vars(m).values())]
    for t in kept:  # no mask, which has few numbers
        weighs = isinstance(t, Tensor) and t.is_floating_point() and len(t.unique()) > 4
        if weighs and layer.d_model in t.shape:
            raise Broken("module.parameters() is empty", known("parameter.none"))


def _zero_part(grad: Tensor, part: int = 8) -> str:
    "Where a matrix has a block of zeros, if one is an eighth of it or more."
    for dim in range(grad.ndim) if grad.ndim > 1 else ():
        zeros = (grad == 0).movedim(dim, 0).flatten(1).all(1)
        if part * int(zeros.sum()) >= len(zeros):
            at = zeros.nonzero().flatten()
            lines = "columns" if dim else "rows"
            return f"in {len(at)} of its {len(zeros)} {lines}, {int(at[0])} to {int(at[-1])}"
    return ""


def _plain_weights(layer: Layer) -> str | None:
    "The name of a projection that is neither parameter nor buffer."
    registered = {id(t) for t in [*layer.fresh.parameters(), *layer.fresh.buffers()]}
    for m in layer.fresh.modules():
        for name, value in plain_attributes(m):
            for t in tensors_in(value) if role_of(name) else ():
                wide = t.is_floating_point() and t.ndim > 1 and layer.d_model in t.shape
                if wide and id(t) not in registered:
                    return name
    return None


def _untied(layer: Layer) -> None:
    "No two parameters share their memory; a list of parameters only registers them once more."
    lists = (nn.ParameterList, nn.ParameterDict)
    listed = [name for name, m in layer.module.named_modules() if isinstance(m, lists)]
    seen: dict[int, str] = {}
    for name, p in layer.module.named_parameters(remove_duplicate=False):
        if not p.numel() or name.rpartition(".")[0] in listed:
            continue
        if (first := seen.setdefault(p.data_ptr(), name)) != name:
            bug = known("parameter.tied", one=first, other=name)
            raise Broken(f"{first} and {name} are one tensor", bug)


def _adds_no_state(layer: Layer) -> None:
    "Calls add nothing to the state dict."
    before, after = (
        {name: getattr(value, "shape", None) for name, value in m.state_dict().items()}
        for m in (layer.fresh, layer.module)
    )
    for name, shape in after.items():
        if before.get(name) != shape:
            shown = f"calls have added {name} to the state dict, or changed its shape there"
            raise Broken(shown, known("state.grows"))


TRAINING = (
    Relation("training gives what evaluation gives, on average", _modes_agree, no_module),
    Relation(
        "every parameter is registered and receives a gradient",
        _trained,
        no_module,
        differentiates=True,
    ),
    Relation("no two parameters are one", _untied, no_module),
    Relation("calls add nothing to the state dict", _adds_no_state, no_module),
)
