"""Dropout that is off in evaluation and keeps the mean; parameters that are registered, saved, and reached by the right gradient."""

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
from attention_checks.conventions import CHOOSER, PLACES, is_share, role_of
from attention_checks.examine import Broken, NotChecked, attempt, first_line
from attention_checks.numbers import first_difference, nearly
from attention_checks.pipeline import Bug
from attention_checks.properties import Relation, gradients_of, reenters
from attention_checks.properties.layers.running import must_be_rows
from attention_checks.subjects.copies import deep_copy, in_training, tensors_in
from attention_checks.subjects.layer import (
    Layer,
    draw,
    in_mode,
    no_module,
    normalises_batch,
    unregistered,
)


def _drops(module: nn.Module) -> list[tuple[dict[str, Any], str, float]]:
    "Where shares of dropout above 0 are kept, in modules or in a config of theirs: the place, the name, the share."
    found = []
    for m in module.modules():
        owned = [
            v for n, v in vars(m).items() if n[:1] != "_" and not isinstance(v, (Tensor, type))
        ]
        for kept in (
            vars(m),
            *(v if isinstance(v, dict) else getattr(v, "__dict__", {}) for v in owned),
        ):
            surely = kept is vars(m) and isinstance(m, nn.modules.dropout._DropoutNd)
            found += [
                (kept, n, v)
                for n, v in kept.items()
                if isinstance(v, float) and v > 0 and (surely or is_share(n))
            ]
    return found


class _Undropped(TorchFunctionMode):
    "Functions of dropout drop nothing inside, wherever their share is written; `shares` are those above 0."

    def __init__(self) -> None:
        super().__init__()
        self.shares: list[float] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs, name = dict(kwargs or {}), getattr(func, "__name__", "")
        if name == "scaled_dot_product_attention":
            self.shares += [p for p in (*args[4:5], kwargs.get("dropout_p", 0)) if p > 0]
            return func(
                *args[:4],
                *(0.0 for _ in args[4:5]),
                *args[5:],
                **{k: v for k, v in kwargs.items() if k != "dropout_p"},
            )
        if "dropout" not in name:
            return func(*args, **kwargs)
        share, on = (
            (dict(zip(("input", "p", "training"), args)) | kwargs).get("p", 0.5),
            kwargs.get("training", (*args, True, True, True)[2]),
        )
        self.shares += [share] if on and share > 0 else []
        return args[0] if args else kwargs["input"]


@contextmanager
def _without_dropout(a: Layer) -> Iterator[_Undropped]:
    "All shares are 0 inside."
    drops = _drops(a.module)
    try:
        for kept, name, _ in drops:
            kept[name] = 0.0
        with _Undropped() as watch:
            yield watch
    finally:
        for kept, name, p in drops:
            kept[name] = p


def _modes(a: Layer) -> None:
    x = draw(a)
    want = a(x)
    with _without_dropout(a):
        got, again = in_mode(a, x, True), in_mode(a, x, True, seed=1)
    must_be_rows(a, x, got, ", in training")
    if nearly(got, want):
        return
    if normalises_batch(a.module):
        raise NotChecked("it has batch normalisation, which differs in training")
    if not nearly(got, again):
        raise NotChecked("chance remains in training, though dropout is 0")
    raise Broken(f"with dropout 0: {first_difference(got, want)}", known("mode.differs"))


def _dropout(a: Layer) -> None:
    said, share = _said_share(a)
    if not said or a.contract.dropout == "none":
        raise NotChecked("it has no dropout")
    if a.contract.dropout != "scores" and _drops_scores(a):
        raise Broken(
            f"{said}: some scores are dropped, and then go into the softmax",
            known("dropout.before_softmax"),
        )
    linear = (
        nn.Linear,
        nn.Dropout,
        nn.Identity,
        nn.ModuleList,
        nn.ModuleDict,
        nn.Sequential,
        nn.Softmax,
        nn.MultiheadAttention,
    )
    leaves = [m for m in a.module.modules() if not list(m.children()) and m is not a.module]
    if strange := [type(m).__name__ for m in leaves if not isinstance(m, linear)]:
        raise NotChecked(f"{strange[0]} is not linear, so the mean need not be kept")
    x, copies = draw(a, 1), 4096
    with torch.no_grad():
        want = a(x)
        with in_training(a.module):
            got = a(x.expand(copies, -1, -1).contiguous())
    if not got.isfinite().all():
        raise Broken(f"{said}: NaN or infinity in training", known("dropout.nan"))
    if (got.std(0) == 0).all():
        raise Broken(f"{said}: all training runs are equal", known("dropout.never"))
    if a.contract.dropout == "scores":
        return  # the mean is not kept
    off, error = (got.mean(0) - want[0]).abs(), got.std(0) / copies**0.5
    if (off / (error + 1e-6)).max() > 8 and off.max() > 1e-3:
        ratio = float((got.mean(0) * want[0]).sum() / want[0].square().sum())
        raise Broken(
            f"the mean of {copies} training runs is {ratio:.3f} times the evaluation output",
            _biased(a, ratio, share),
        )


class _Dropped(TorchFunctionMode):
    "Mark what dropout gave, and what is made of it number by number."

    of_scores = False  # did that go into a softmax?

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name, given = (
            getattr(func, "__name__", ""),
            [t for t in tree_leaves((args, kwargs)) if isinstance(t, Tensor)],
        )
        out = func(*args, **(kwargs or {}))
        marked = [t for t in given if hasattr(t, "_was_dropped")]
        if name == "softmax":
            self.of_scores |= bool(marked)
        elif isinstance(out, Tensor):
            drops = (
                "dropout" in name and out.shape == given[0].shape and not torch.equal(out, given[0])
            )
            if drops or any(t.shape == out.shape for t in marked):
                out._was_dropped = True  # type: ignore[attr-defined]
        return out


def _drops_scores(a: Layer) -> bool:
    "Whether dropout comes before the softmax, in training."
    with torch.no_grad(), in_training(a.module), _Dropped() as watch:
        a(draw(a))
    return watch.of_scores


def _said_share(a: Layer) -> tuple[str, float]:
    "What share is dropped, in words and as a number: one that it keeps, or one written in its code."
    x, drops = draw(a), _drops(a.module)
    with _without_dropout(a) as watch:
        chance = not nearly(in_mode(a, x, True), in_mode(a, x, True, seed=1), equal_nan=True)
    own = [vars(m) for m in a.module.modules()]
    mine = [drop for drop in drops if any(drop[0] is kept for kept in own)]
    if drops and (chance or watch.shares or mine):  # a config's may be of other layers
        _, name, share = (mine or drops)[0]
        return f"{name} = {share}", share
    return (
        (f"a share of {watch.shares[0]}", watch.shares[0])
        if watch.shares
        else ("chance" * chance, 0.1)
    )


def _biased(a: Layer, ratio: float, share: float) -> Bug:
    "Why dropout does not keep the mean, which becomes `ratio` times as large, if that share is dropped."
    projected = attempt(lambda: a.trace.projected)
    if projected is not None and nearly(a.trace.out, projected.relu()):
        return known("dropout.relu")
    return known("dropout.unscaled" if abs(ratio - 1) > share / 4 else "dropout.before_softmax")


_PROJECTIONS = ("q", "k", "v", "kv", "qkv")


def _parameters(a: Layer) -> str | None:
    _must_be_registered(a)
    parameters = dict(a.module.named_parameters())
    asking = {n: p for n, p in parameters.items() if p.requires_grad}
    wanted = {n: p for n, p in asking.items() if not CHOOSER.search(n)}
    _must_be_reached(a, parameters, wanted)
    left = next((n for n in asking if n not in wanted), "")
    return f"{left} was left out: what chooses keys has a loss of its own" if left else None


def _must_be_reached(
    a: Layer, parameters: dict[str, nn.Parameter], wanted: dict[str, nn.Parameter]
) -> None:
    "Raise Broken for a parameter, or a part of one, that receives no gradient."
    if not wanted:
        raise NotChecked(
            "it is frozen: no parameter asks for a gradient"
            if parameters
            else "it has no parameters"
        )
    # where scores are large, a softmax is flat: what has no gradient there must have NONE for small inputs either
    both = [_gradients_of(_traceable(a, x), wanted) for x in (draw(a), draw(a) / 30)]
    for name, p in wanted.items():
        if both[0][name] is None:
            code = "mask" if _is_mask(p) else "unused"
            raise Broken(f"{name} gets no gradient", known(f"parameter.{code}", name=name))
    for name, p in wanted.items():
        g = torch.stack([t.abs() for t in (grads[name] for grads in both) if t is not None]).sum(0)
        if (g == 0).all() and not name.endswith("bias"):
            code = "mask" if _is_mask(p) else "silent"
            raise Broken(f"the gradient of {name} is zero", known(f"parameter.{code}", name=name))
        table = isinstance(
            dict(a.module.named_modules()).get(name.rpartition(".")[0]), nn.Embedding
        )  # not all of it is read
        if (
            role_of(name) in _PROJECTIONS
            and a.d_model in p.shape
            and not table
            and (zero := _zero_part(g))
        ):
            raise Broken(
                f"the gradient of {name} is zero {zero}", known("parameter.part", name=name)
            )


def _traceable(a: Layer, x: Tensor) -> Tensor:
    "The output, for rows that want a gradient if a checkpoint has NONE without."
    y = a(x)
    return other if not y.requires_grad and reenters(other := a(x.requires_grad_())) else y


def _gradients_of(y: Tensor, wanted: dict[str, nn.Parameter]) -> dict[str, Tensor | None]:
    "Of a mixture of all outputs, by name."
    if not y.requires_grad:
        raise Broken("the output does not require a gradient", known("grad.none"))
    up = torch.randn(y.shape, generator=torch.Generator().manual_seed(4))
    return dict(zip(wanted, gradients_of(y, list(wanted.values()), up)))


def _must_be_registered(a: Layer) -> None:
    "Raise Broken for weights that no optimizer sees."
    if hidden := unregistered(a.module):
        shown = f"{hidden} holds parameters that module.parameters() does not list"
        raise Broken(shown, known("parameter.unregistered", name=hidden))
    if plain := _plain_weights(a):
        shown = (
            f"{plain} is a plain tensor with a dimension of d_model = {a.d_model}, and no parameter"
        )
        raise Broken(shown, known("parameter.plain", name=plain))
    if any(True for _ in a.module.parameters()):
        return
    if buffer := _weights_in_buffers(a):
        raise Broken(
            f"it has no parameters; {buffer} is a buffer", known("parameter.buffer", name=buffer)
        )
    kept = [
        v
        for m in a.module.modules()
        for v in vars(m).values()
        if isinstance(v, Tensor) and v.is_floating_point()
    ]
    if kept:
        raise Broken("module.parameters() is empty", known("parameter.none"))


def _is_mask(p: Tensor) -> bool:
    "Whether it is a triangle of two values."
    triangle = p.ndim > 1 and p.shape[-1] == p.shape[-2] > 1 and len(p.unique()) == 2
    return triangle and bool((p[..., 0, -1] == p[..., 0, 1]).all())


def _zero_part(g: Tensor, part: int = 8) -> str:
    "Where a matrix has a block of zeros, if an eighth of it or more is one."
    for dim in range(g.ndim) if g.ndim > 1 else ():
        zeros = (g == 0).movedim(dim, 0).flatten(1).all(1)
        if part * int(zeros.sum()) >= len(zeros):
            at = zeros.nonzero().flatten()
            return f"in {len(at)} of its {len(zeros)} {'rows' if dim == 0 else 'columns'}, {int(at[0])} to {int(at[-1])}"
    return ""


def _plain_weights(a: Layer) -> str | None:
    "The name of an attribute with a matrix that is neither parameter nor buffer: called like a projection, or used in all its parts."
    module = deep_copy(a.fresh)
    registered = {id(t) for t in [*module.parameters(), *module.buffers()]}
    held = [
        (n, t)
        for m in module.modules()
        for n, v in vars(m).items()
        for t in tensors_in(v)
        if id(t) not in registered
    ]
    held = [
        (n, t)
        for n, t in held
        if t.is_floating_point() and t.ndim > 1 and a.d_model in t.shape and not PLACES.search(n)
    ]
    if called := [n for n, t in held if role_of(n)]:
        return called[0]
    tensors = [t.detach_().requires_grad_() for _, t in held]
    y = attempt(lambda: a.first(module, draw(a))) if held else None
    if y is None or not y.requires_grad:
        return None
    grads = gradients_of(y.square().sum(), tensors)
    return next(
        (
            n
            for (n, _), g in zip(held, grads)
            if g is not None and not _zero_part(g, len(g) * g.shape[-1])
        ),
        None,
    )


def _weights_in_buffers(a: Layer) -> str | None:
    "The name of a buffer that is a matrix of weights: not a mask, which has few numbers, nor a table of positions."
    for name, t in a.module.named_buffers():
        if t.is_floating_point() and t.ndim > 1 and a.d_model in t.shape and len(t.unique()) > 4:
            if role_of(name) or not PLACES.search(name):
                return name
    return None


def must_match_steps(a: Layer) -> None:
    "Raise Broken if its gradients are not what small steps measure."
    if a.contract.dtype:
        raise NotChecked(
            "it runs in the declared type alone, in which steps are too coarse or not to be taken"
        )
    try:
        _parameters(a) if isinstance(a.module, nn.Module) and not a.turned else None
    except Broken:
        raise NotChecked("some parameters receive none") from None
    except NotChecked:
        pass  # a frozen layer: its input may want one
    for what in ("input", "parameters")[: 1 if a.turned else 2]:
        rough = _rates(a, what, torch.float32, 1e-3)
        if not _apart(*rough):
            continue
        try:
            measured, promised, size = _rates(
                a, what, torch.float64, 1e-6
            )  # within so small a step no ReLU bends
        except RuntimeError as e:
            raise NotChecked(f"it does not run in float64: {first_line(e, 60)}") from None
        if not _apart(measured, promised, size):
            continue
        if not measured or abs(measured - rough[0]) > 0.2 * abs(measured - promised):
            raise NotChecked("its values bend or jump, so that steps measure no gradient")
        what = "memory" if a.turned else what
        shown = f"along one direction of the {what} the output changes at the rate {measured:.2g}; its gradient says {promised:.2g}"
        raise Broken(
            shown, known("grad.wrong") if promised else known("grad.unreached", name=f"the {what}")
        )


def _apart(measured: float, promised: float, size: float) -> bool:
    "Whether two rates differ by more than rounding."
    return abs(measured - promised) > 0.01 * size


def _rates(a: Layer, what: str, dtype: torch.dtype, step: float) -> tuple[float, float, float]:
    "How fast the output changes in one direction, measured and by the gradient; and the size of such numbers."
    module = deep_copy(a.module).to(dtype) if isinstance(a.module, nn.Module) else a.module
    x, rng = draw(a).to(dtype).requires_grad_(), torch.Generator().manual_seed(6)
    parameters = module.parameters() if isinstance(module, nn.Module) else ()
    tensors: list[Tensor] = [x] if what == "input" else [p for p in parameters if p.requires_grad]
    y = a.first(module, x * 1)
    if not y.requires_grad:
        raise Broken("the output does not require a gradient", known("grad.none"))
    up, *moves = (
        torch.randn(t.shape, generator=rng, dtype=torch.float64).to(t.dtype) for t in (y, *tensors)
    )
    found = gradients_of(y, tensors, up) if tensors else ()
    grads = [torch.zeros_like(t) if g is None else g for t, g in zip(tensors, found)]
    parts = torch.cat(
        [torch.zeros(1).double(), *((g * m).double().flatten() for g, m in zip(grads, moves))]
    )
    sums = []
    with torch.no_grad():
        for way in (step, -2 * step):
            for t, m in zip(tensors, moves):
                t.add_(way * m)
            sums.append((a.first(module, x * 1) * up).double().sum())
    measured, promised = float(sums[0] - sums[1]) / (2 * step), float(parts.sum())
    rounding = 5e-2 * float((y * up).detach().double().norm())  # of float32
    return measured, promised, max(abs(measured), float(parts.norm())) + rounding


def _tied(a: Layer) -> None:
    seen: dict[int, str] = {}
    for name, p in a.module.named_parameters(remove_duplicate=False):
        if (first := seen.setdefault(p.data_ptr(), name)) != name and p.numel():
            raise Broken(
                f"{first} and {name} are one tensor", known("parameter.tied", one=first, other=name)
            )


def _state(a: Layer) -> None:
    x = draw(a)
    want = a(x)
    shapes = [
        {k: getattr(v, "shape", None) for k, v in m.state_dict().items()}
        for m in (a.fresh, a.module)
    ]
    if changed := [k for k in shapes[1] if shapes[0].get(k) != shapes[1][k]]:
        shown = f"after some calls {changed[0]} has come into the state dict, or changed its shape there"
        raise Broken(shown, known("state.grows"))
    state = {k: v.clone() for k, v in a.module.state_dict().items()}
    try:
        other = deep_copy(a.module)
    except Exception as e:
        raise NotChecked(f"it cannot be copied: {first_line(e, 60)}") from None
    with torch.no_grad():
        for p in other.parameters():
            p.add_(1)
    other.load_state_dict(state)
    if not nearly(got := a.first(other, x), want, 1e-5):
        raise Broken(f"saved and loaded: {first_difference(got, want, 1e-5)}", known("state.lost"))


TRAINING = (
    Relation("training and evaluation agree when dropout is 0", _modes, no_module),
    Relation("dropout is off in evaluation and unbiased in training", _dropout, no_module),
    Relation("every parameter is registered and receives a gradient", _parameters, no_module),
    Relation("gradients are those of its values", must_match_steps),
    Relation("no two parameters are one", _tied, no_module),
    Relation("a saved state gives the same layer again", _state, no_module),
)
