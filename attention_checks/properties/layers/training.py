"""Dropout keeps the mean; parameters are registered, saved, and get the right gradient."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn as nn
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from attention_checks.catalogue import known
from attention_checks.conventions import INDEXER, POSITIONS, is_dropout, role_of
from attention_checks.examine import Broken, NotChecked
from attention_checks.numbers import first_difference, nearly
from attention_checks.pipeline import Bug
from attention_checks.properties import Relation
from attention_checks.properties.gradients import (
    gradients_of_mixture,
    reenters,
)
from attention_checks.properties.layers.running import must_be_vectors
from attention_checks.subjects.copies import deep_copy, in_training, plain_attributes, tensors_in
from attention_checks.subjects.layer import Layer, no_module, normalises_batch, unregistered

_Settings = dict[str, Any]  # the attributes of a module, or of a config that it keeps


def _dropouts(layer: Layer) -> list[tuple[_Settings, str, float]]:
    "Where dropout probabilities above 0 are kept, in modules or in a config of theirs."
    dropouts = []
    for m in layer.parts:
        configs = [
            value if isinstance(value, dict) else getattr(value, "__dict__", {})
            for name, value in vars(m).items()
            if name[:1] != "_" and not isinstance(value, (Tensor, type))
        ]
        is_module = isinstance(m, nn.modules.dropout._DropoutNd)
        for kept in (vars(m), *configs):
            for name, value in kept.items():
                if isinstance(value, float) and value > 0:
                    if is_dropout(name) or is_module and kept is vars(m):
                        dropouts.append((kept, name, value))
    return dropouts


class _Undropped(TorchFunctionMode):
    "Functions of dropout drop nothing inside; `probabilities` are those above 0."

    def __init__(self) -> None:
        super().__init__()
        self.probabilities: list[float] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs, name = dict(kwargs or {}), getattr(func, "__name__", "")
        if name == "scaled_dot_product_attention":
            p = args[4] if len(args) > 4 else kwargs.get("dropout_p", 0.0)
            self.probabilities += [p] if p > 0 else []
            if len(args) > 4:
                args = (*args[:4], 0.0, *args[5:])
            kwargs.pop("dropout_p", None)
        if "dropout" not in name:
            return func(*args, **kwargs)
        given = dict(zip(("input", "p", "training"), args)) | kwargs
        p, training = given.get("p", 0.5), given.get("training", True)
        self.probabilities += [p] if training and p > 0 else []
        return given["input"]


@contextmanager
def _without_dropout(layer: Layer) -> Iterator[_Undropped]:
    "All dropout probabilities are 0 inside, wherever they are kept or written."
    dropouts = _dropouts(layer)
    try:
        for kept, name, _ in dropouts:
            kept[name] = 0.0
        with _Undropped() as watch:
            yield watch
    finally:
        for kept, name, p in dropouts:
            kept[name] = p


def _modes_agree(layer: Layer) -> None:
    "Without dropout, training and evaluation give the same."
    x = layer.draw()
    want = layer(x)
    if nearly(layer.in_mode(x, True), want):
        return
    with _without_dropout(layer):
        got, again = layer.in_mode(x, True), layer.in_mode(x, True, seed=1)
    must_be_vectors(layer, x, got, ", in training")
    if nearly(got, want):
        return
    if normalises_batch(layer):
        raise NotChecked("it has batch normalisation, which differs in training")
    if not nearly(got, again):
        raise NotChecked("chance remains in training, though dropout is 0")
    raise Broken(f"with dropout 0: {first_difference(got, want)}", known("mode.differs"))


_LINEAR = (  # what keeps the mean
    *(nn.Linear, nn.Dropout, nn.Identity, nn.ModuleList, nn.ModuleDict, nn.Sequential),
    *(nn.Softmax, nn.MultiheadAttention),
)


def _dropout_keeps_mean(layer: Layer) -> None:
    "Dropout drops something in training, and keeps the mean."
    declared, (shown, p) = layer.contract.dropout, _probability(layer)
    if not shown or declared == "none":
        raise NotChecked("it has no dropout")
    if declared != "scores" and _drops_scores(layer):
        shown += ": some scores are dropped, and then go into the softmax"
        raise Broken(shown, known("dropout.before_softmax"))
    for m in layer.parts:
        if not list(m.children()) and m is not layer.module and not isinstance(m, _LINEAR):
            name = type(m).__name__
            raise NotChecked(f"{name} is not linear, so the mean need not be kept")
    want, got = _runs_of_training(layer)
    if not got.isfinite().all():
        raise Broken(f"{shown}: NaN or infinity in training", known("dropout.nan"))
    if (got.std(0) == 0).all():
        raise Broken(f"{shown}: all training runs are equal", known("dropout.never"))
    if declared == "scores":
        return  # the mean is not kept
    mean = got.mean(0)
    off, standard_error = (mean - want).abs(), got.std(0) / len(got) ** 0.5
    if (off / (standard_error + 1e-6)).max() > 8 and off.max() > 1e-3:
        ratio = float((mean * want).sum() / want.square().sum())
        shown = f"the mean of {len(got)} training runs is {ratio:.3f} times the evaluation output"
        raise Broken(shown, _why_biased(layer, ratio, p))


def _runs_of_training(layer: Layer, runs: int = 4096) -> tuple[Tensor, Tensor]:
    "Give the output in evaluation, (n, d), and those of many runs in training, (runs, n, d)."
    x = layer.draw(1)
    with torch.no_grad():
        want = layer(x)[0]
        with in_training(layer.module):
            return want, layer.many(layer.module, x.expand(runs, -1, -1).contiguous())


class _Dropped(TorchFunctionMode):
    "Mark what dropout gave, and what is made of it number by number."

    of_scores = False  # did that go into a softmax?

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "")
        inputs = [t for t in tree_leaves((args, kwargs)) if isinstance(t, Tensor)]
        marked = [t for t in inputs if hasattr(t, "_was_dropped")]
        out = func(*args, **(kwargs or {}))
        if name == "softmax":
            self.of_scores |= bool(marked)
        elif isinstance(out, Tensor):
            same_shape = "dropout" in name and out.shape == inputs[0].shape
            drops = same_shape and not torch.equal(out, inputs[0])
            if drops or any(t.shape == out.shape for t in marked):
                out._was_dropped = True  # type: ignore[attr-defined]
        return out


def _drops_scores(layer: Layer) -> bool:
    "Whether dropout comes before the softmax, in training."
    with torch.no_grad(), in_training(layer.module), _Dropped() as watch:
        layer(layer.draw())
    return watch.of_scores


def _probability(layer: Layer) -> tuple[str, float]:
    "With what probability it drops, kept or written in its code, with what says so."
    x, kept = layer.draw(), _dropouts(layer)
    with _without_dropout(layer) as watch:
        first, second = layer.in_mode(x, True), layer.in_mode(x, True, seed=1)
    chance = not nearly(first, second, equal_nan=True)
    own = [vars(m) for m in layer.parts]
    mine = [each for each in kept if any(each[0] is settings for settings in own)]
    if kept and (chance or watch.probabilities or mine):  # a config's may be of other layers
        _, name, p = (mine or kept)[0]
        return f"{name} = {p}", p
    if watch.probabilities:
        p = watch.probabilities[0]
        return f"a dropout probability of {p}", p
    return "chance" if chance else "", 0.1


def _why_biased(layer: Layer, ratio: float, p: float) -> Bug:
    "Why dropout of a probability p makes the mean `ratio` times as large."
    trace = layer.observed.trace
    if trace and trace.projected is not None and nearly(trace.out, trace.projected.relu()):
        return known("dropout.relu")
    return known("dropout.unscaled" if abs(ratio - 1) > p / 4 else "dropout.before_softmax")


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
    for name, p in wanted.items():
        if both[0][name] is None:
            code = "parameter.mask" if _is_mask(p) else "parameter.unused"
            raise Broken(f"{name} gets no gradient", known(code, name=name))
    modules = dict(layer.module.named_modules())
    for name, p in wanted.items():
        grad = torch.stack([g.abs() for grads in both if (g := grads[name]) is not None]).sum(0)
        if (grad == 0).all() and not name.endswith("bias"):
            code = "parameter.mask" if _is_mask(p) else "parameter.silent"
            raise Broken(f"the gradient of {name} is zero", known(code, name=name))
        if isinstance(modules.get(name.rpartition(".")[0]), nn.Embedding):
            continue  # not all of it is read
        projects = role_of(name) in ("q", "k", "v", "kv", "qkv") and layer.d_model in p.shape
        if projects and (zeros := _zero_part(grad)):
            shown = f"the gradient of {name} is zero {zeros}"
            raise Broken(shown, known("parameter.part", name=name))


def _traceable(layer: Layer, x: Tensor) -> Tensor:
    "The output; for an input that wants a gradient, if a reentrant checkpoint needs one."
    y = layer(x)
    if not y.requires_grad and reenters(other := layer(x.requires_grad_())):
        return other
    return y


def _must_be_registered(layer: Layer) -> None:
    "Raise Broken for weights that no optimizer sees."
    if hidden := unregistered(layer):
        shown = f"{hidden} holds parameters that module.parameters() does not list"
        raise Broken(shown, known("parameter.unregistered", name=hidden))
    if plain := _plain_weights(layer):
        shown = f"{plain} is no parameter, but a tensor with a dimension of {layer.d_model}"
        raise Broken(shown, known("parameter.plain", name=plain))
    if list(layer.module.parameters()):
        return
    if buffer := _weights_in_buffers(layer):
        shown = f"it has no parameters; {buffer} is a buffer"
        raise Broken(shown, known("parameter.buffer", name=buffer))
    for m in layer.parts:
        for value in vars(m).values():
            if isinstance(value, Tensor) and value.is_floating_point():
                raise Broken("module.parameters() is empty", known("parameter.none"))


def _is_mask(p: Tensor) -> bool:
    "Whether it is a triangle of two values."
    if p.ndim < 2 or not p.shape[-1] == p.shape[-2] > 1 or len(p.unique()) != 2:
        return False
    return bool((p[..., 0, -1] == p[..., 0, 1]).all())


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


def _weights_in_buffers(layer: Layer) -> str | None:
    "The name of a buffer of weights: no mask, which has few numbers, and no table of positions."
    for name, t in layer.module.named_buffers():
        matrix = t.is_floating_point() and t.ndim > 1 and layer.d_model in t.shape
        if matrix and len(t.unique()) > 4 and (role_of(name) or not POSITIONS.search(name)):
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


def _is_saved(layer: Layer) -> None:
    "A saved state gives the same layer again."
    x = layer.draw()
    want = layer(x)
    before, after = (
        {name: getattr(value, "shape", None) for name, value in m.state_dict().items()}
        for m in (layer.fresh, layer.module)
    )
    for name, shape in after.items():
        if before.get(name) != shape:
            shown = f"calls have added {name} to the state dict, or changed its shape there"
            raise Broken(shown, known("state.grows"))
    state = {name: value.clone() for name, value in layer.module.state_dict().items()}
    other = deep_copy(layer.module)
    with torch.no_grad():
        for p in other.parameters():
            p.add_(1)
    other.load_state_dict(state)
    got = layer.first(other, x)
    if not nearly(got, want, 1e-5):
        raise Broken(f"saved and loaded: {first_difference(got, want, 1e-5)}", known("state.lost"))


TRAINING = (
    Relation("training and evaluation agree when dropout is 0", _modes_agree, no_module),
    Relation(
        "dropout is off in evaluation and unbiased in training", _dropout_keeps_mean, no_module
    ),
    Relation(
        "every parameter is registered and receives a gradient",
        _trained,
        no_module,
        asked=lambda layer: layer.contract.gradients,
    ),
    Relation("no two parameters are one", _untied, no_module),
    Relation("a saved state gives the same layer again", _is_saved, no_module),
)
