"""Training gives what evaluation gives; parameters are registered and get a gradient."""

from contextlib import ExitStack
from typing import Any

import torch
import torch.nn as nn
from torch import Tensor
from torch.overrides import TorchFunctionMode

from attention_checks.catalogue import known
from attention_checks.numbers.autograd import reenters
from attention_checks.numbers.tensors import first_difference, nearly
from attention_checks.numbers.tolerance import LONG_SUMS
from attention_checks.outcomes import Broken, NotChecked, broken_by
from attention_checks.properties import Property
from attention_checks.properties.gradients import gradients_of_mixture
from attention_checks.properties.layers.basics import must_be_vectors, must_not_mix
from attention_checks.subjects.copies import in_training, plain_attributes, tensors_in
from attention_checks.subjects.layer import Layer, no_module, normalises_batch, unregistered
from attention_checks.their_code.conventions import INDEXER, is_dropout, role_of


def _must_agree_in_training(layer: Layer) -> None:
    "Training gives what evaluation gives, on average."
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
    if layer.contract.dropout == "none":
        return
    for m in layer.modules:
        drops = isinstance(m, nn.modules.dropout._DropoutNd)
        for name, p in vars(m).items():
            if isinstance(p, float) and p > 0 and (drops or is_dropout(name)):
                raise Broken(f"{name} = {p}: training runs are equal", known("dropout.never"))


_DROPS = {"scaled_dot_product_attention": 4, "multi_head_attention_forward": 10}  # which argument


class _ChangedDropout(TorchFunctionMode):
    "Multiply what one dropout of a call gives by 1 plus or minus a number, by chance."

    def __init__(self, which: int = -1, by: float = 0.0):
        super().__init__()
        self.which, self.by, self.seen, self.softmax_later = which, by, 0, False
        self.dropped, self.of_scores = torch.Size(), False

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        "Call a function of PyTorch."
        name, out = getattr(func, "__name__", ""), func(*args, **(kwargs or {}))
        i = _DROPS.get(name)
        given = i is not None and i < len(args) and bool(args[i])
        drops = "dropout" in name or (kwargs or {}).get("dropout_p", 0) or given
        self.softmax_later |= self.seen > self.which and (name in _DROPS or "softmax" in name)
        self._look_for_scores(name, out)
        return self.changed(out) if drops else out

    def _look_for_scores(self, name: str, out: Any) -> None:
        "Note whether a softmax follows a dropout of numbers of its shape that were no weights."
        if "dropout" in name:
            self.dropped = out.shape if (out < 0).any() else torch.Size()
        self.of_scores |= "softmax" in name and out.shape == self.dropped

    def changed(self, out: Any, *_: Any) -> Any:
        "Change it, if it is the one."
        self.seen += 1
        if isinstance(out, tuple):
            return (self._times(out[0]), *out[1:])
        return self._times(out)

    def _times(self, t: Tensor) -> Tensor:
        "Multiply numbers, always by the same chance."
        chance = torch.rand(t.shape, generator=torch.Generator().manual_seed(1)) - 0.5
        return t * (1 + self.by * chance.sign().to(t)) if self.seen == self.which + 1 else t


def _own_dropout(m: nn.Module) -> bool:
    "Return whether a part is a dropout that is not PyTorch's."
    return is_dropout(type(m).__name__) and not isinstance(m, nn.modules.dropout._DropoutNd)


def _with_one_dropout_changed(
    layer: Layer, which: int = -1, by: float = 0.0
) -> tuple[Tensor, _ChangedDropout]:
    "Return the output in training with one dropout changed, and what was seen."
    with _ChangedDropout(which, by) as changes, ExitStack() as hooks:
        hook = lambda _, __, out: changes.changed(out)
        for m in filter(_own_dropout, layer.modules[1:]):
            hooks.enter_context(m.register_forward_hook(hook))
        return layer.in_mode(layer.draw(), True, False), changes


def _must_be_linear(layer: Layer) -> None:
    "Raise NotChecked if what follows a dropout, but of scores, is not linear in what it gives."
    if normalises_batch(layer):
        raise NotChecked("it has batch normalisation, which differs in training")
    as_it_is, changes = _with_one_dropout_changed(layer)
    if changes.of_scores:
        shown = "in training scores are dropped, and go on to a softmax"
        raise Broken(shown, known("dropout.biased"))
    for which in range(changes.seen):
        # beyond 1, so that signs change: a ReLU of other sizes alone is linear
        (more, seen), (less, _) = (
            _with_one_dropout_changed(layer, which, by) for by in (3.0, -3.0)
        )
        if not seen.softmax_later and not nearly(more + less, 2 * as_it_is, LONG_SUMS, True):
            raise NotChecked("what follows dropout is not linear: no mean is kept")


def _must_keep_mean(layer: Layer) -> None:
    "Raise Broken if chance in training changes the mean."
    if layer.contract.dropout in ("none", "scores"):
        raise NotChecked(f"dropout={layer.contract.dropout!r} was declared: no mean is kept")
    _must_be_linear(layer)
    if broken_by(lambda: must_not_mix(layer)):
        raise NotChecked("sequences of a batch mix")
    want, got = _runs_of_training(layer)
    if not got.isfinite().all():
        raise Broken("NaN or infinity in training", known("dropout.biased"))
    mean = got.mean(0)
    off, standard_error = (mean - want).abs(), got.std(0) / len(got) ** 0.5
    if (off / (standard_error + 1e-6)).max() > 8 and off.max() > 1e-3:
        ratio = float((mean * want).sum() / want.square().sum())
        shown = f"the mean of {len(got)} training runs is {ratio:.3f} times the evaluation output"
        raise Broken(shown, known("dropout.biased"))


def _runs_of_training(layer: Layer) -> tuple[Tensor, Tensor]:
    "Return the output in evaluation, (n, d), and those of many runs in training, (runs, n, d)."
    x = layer.draw(1)
    with torch.no_grad():
        want = layer(x)[0]
        with in_training(layer.module):
            return want, layer.output_of_batch(layer.module, x.expand(4096, -1, -1).contiguous())


def _must_train(layer: Layer) -> str | None:
    "Every parameter is registered and receives a gradient."
    _must_be_registered(layer)
    parameters = dict(layer.module.named_parameters())
    asking = {name: p for name, p in parameters.items() if p.requires_grad}
    wanted = {name: p for name, p in asking.items() if not INDEXER.search(name)}
    if not parameters:
        raise NotChecked("it has no parameters")
    if not wanted:
        raise NotChecked("it is frozen: no parameter asks for a gradient")
    _must_be_reached(layer, wanted)
    left = [name for name in asking if name not in wanted]
    return f"{left[0]} was left out: what chooses keys has a loss of its own" if left else None


def _must_be_reached(layer: Layer, wanted: dict[str, nn.Parameter]) -> None:
    "Raise Broken for a parameter, or a part of one, that receives no gradient."
    # where scores are large a softmax is flat: a gradient must be 0 for small inputs, too
    outputs = (_traceable(layer, x) for x in (layer.draw(), layer.draw() / 30))
    both = [dict(zip(wanted, gradients_of_mixture(y, list(wanted.values())))) for y in outputs]
    if unused := [name for name in wanted if both[0][name] is None]:
        both[0] |= _reached_in_training(layer, {name: wanted[name] for name in unused})
    modules = dict(layer.module.named_modules())
    for name, p in wanted.items():
        found = [grads[name] for grads in both]
        grad = torch.stack([g.abs() for g in found if g is not None]).sum(0)
        if (grad == 0).all() and not name.endswith("bias"):
            raise Broken(f"the gradient of {name} is zero", known("parameter.silent", name=name))
        if isinstance(modules.get(name.rpartition(".")[0]), nn.Embedding):
            continue  # not all of it is read
        projects = role_of(name) in ("q", "k", "v", "kv", "qkv") and layer.d_model in p.shape
        if projects and (zeros := _zero_part(grad)):
            shown = f"the gradient of {name} is zero {zeros}"
            raise Broken(shown, known("parameter.part", name=name))


def _reached_in_training(layer: Layer, unused: dict[str, nn.Parameter]) -> dict[str, Tensor]:
    "Gradients of parameters that other outputs read, or whose part evaluation keeps."
    with in_training(layer.module):
        first, rest = layer.output_and_rest(layer.draw())
        others = [t for t in rest if isinstance(t, Tensor) and t.requires_grad]
        mixed = torch.cat([t.flatten() for t in (first, *others)])
        grads = gradients_of_mixture(mixed, list(unused.values()))
    for name, grad in zip(unused, grads):
        if grad is None:
            raise Broken(f"{name} gets no gradient", known("parameter.unused", name=name))
    return {name: grad for name, grad in zip(unused, grads) if grad is not None}


def _traceable(layer: Layer, x: Tensor) -> Tensor:
    "Return the output; for an input that wants a gradient, if a reentrant checkpoint needs one."
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
    kept = [*layer.module.buffers(), *(v for m in layer.modules for v in vars(m).values())]
    for t in kept:  # no mask, which has few numbers
        weighs = isinstance(t, Tensor) and t.is_floating_point() and len(t.unique()) > 4
        if weighs and layer.d_model in t.shape:
            raise Broken("module.parameters() is empty", known("parameter.none"))


def _zero_part(grad: Tensor) -> str:
    "Return where a matrix has a block of zeros, if one is an eighth of it or more."
    if grad.ndim == 1:
        return ""
    for dim in range(2 if grad.ndim == 4 else grad.ndim):  # a small image leaves kernels unused
        zeros = (grad == 0).movedim(dim, 0).flatten(1).all(1)
        if 8 * int(zeros.sum()) >= len(zeros):
            at = zeros.nonzero().flatten()
            lines = "columns" if dim else "rows"
            return f"in {len(at)} of its {len(zeros)} {lines}, {int(at[0])} to {int(at[-1])}"
    return ""


def _plain_weights(layer: Layer) -> str | None:
    "Return the name of a projection that is neither parameter nor buffer."
    registered = {id(t) for t in [*layer.uncalled.parameters(), *layer.uncalled.buffers()]}
    for m in layer.uncalled.modules():
        for name, value in plain_attributes(m):
            if not role_of(name):
                continue
            for _, t in tensors_in(value):
                wide = t.is_floating_point() and t.ndim > 1 and layer.d_model in t.shape
                if wide and id(t) not in registered:
                    return name
    return None


def _must_not_tie(layer: Layer) -> None:
    """No two parameters share their memory; a list of parameters only registers them once more,
    and two modules that were given one parameter were given it on purpose.
    """
    lists = (nn.ParameterList, nn.ParameterDict)
    listed = [name for name, m in layer.module.named_modules() if isinstance(m, lists)]
    owners = dict(layer.module.named_modules(remove_duplicate=False))
    seen: dict[int, tuple[str, nn.Parameter, Any]] = {}
    for name, p in layer.module.named_parameters(remove_duplicate=False):
        owner = name.rpartition(".")[0]
        if not p.numel() or owner in listed:
            continue
        first, same, of = seen.setdefault(p.data_ptr(), (name, p, owners[owner]))
        if first != name and not (same is p and of is not owners[owner]):
            bug = known("parameter.tied", one=first, other=name)
            raise Broken(f"{first} and {name} are one tensor", bug)


def _must_not_grow_state(layer: Layer) -> None:
    "Calls add nothing to the state dict."
    before, after = (
        {name: getattr(value, "shape", None) for name, value in m.state_dict().items()}
        for m in (layer.uncalled, layer.module)
    )
    for name, shape in after.items():
        if before.get(name) != shape:
            shown = f"calls have added {name} to the state dict, or changed its shape there"
            raise Broken(shown, known("state.grows"))


TRAINING = (
    Property.of(_must_agree_in_training, no_module),
    Property.of(_must_train, no_module, symptom_unless=("unexplained",), differentiates=True),
    Property(
        "no two parameters are one", _must_not_tie, no_module, symptom_unless=("unexplained",)
    ),
    Property.of(_must_not_grow_state, no_module),
)
