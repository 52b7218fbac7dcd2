"""Record inputs and outputs of a layer's modules in one call; find weights used without a call."""

from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack
from functools import partial
from typing import Any

import torch
import torch.nn as nn
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map

from attention_checks.catalogue import known
from attention_checks.numbers.autograd import gradients_of
from attention_checks.outcomes import Broken, Misused, NotChecked
from attention_checks.spec import Contract

OneCall = Callable[[nn.Module, Tensor], Tensor]  # of a layer and x; gives the output alone
_ByModule = dict[str, list[Any]]  # name → inputs or outputs of a module, one per call
_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d)  # their features come before positions


def recorded_call(
    modules: Mapping[str, nn.Module], call: Callable[[], Tensor]
) -> tuple[Tensor, _ByModule, _ByModule]:  # its result; what went into each, and what came out
    "Record the inputs and outputs of modules in a call."
    ins: _ByModule = {}
    outs: _ByModule = {}

    def write_down(name: str, m: nn.Module, args: tuple[Any, ...], result: Any) -> None:
        ins.setdefault(name, []).append(_copied(args[0] if args else None, m))
        outs.setdefault(name, []).append(_copied(result, m))

    with ExitStack() as hooks, torch.no_grad():
        for name, m in modules.items():
            hooks.enter_context(m.register_forward_hook(partial(write_down, name)))
        out = call()
    for name in outs:
        ins[name], outs[name] = _in_one(ins[name], out), _in_one(outs[name], out)
    return out, ins, outs


def _in_one(found: list[Any], out: Tensor) -> list[Any]:
    "Join what was seen of one sequence at a time, (n, d), or of one token, (b, 1, d) or (b, d)."
    if len(found) > 1 and _take_turns(found, out):
        return [torch.cat(found, 1)]
    shapes = {tuple(t.shape) if isinstance(t, Tensor) else () for t in found}
    several_alike = len(found) > 1 and len(shapes) == 1
    shape = shapes.pop() if several_alike else ()
    if len(shape) == 2 and len(out) == len(found):
        return [torch.stack(found)]
    if len(shape) == 2 and (shape[0], len(found)) == out.shape[:2]:
        return [torch.stack(found, 1)]
    return found


def _take_turns(found: list[Any], out: Tensor) -> bool:
    "Return whether each of some tensors holds a part of the tokens, (b, n, d), and all hold all."
    threefold = all(isinstance(t, Tensor) and t.ndim == 3 for t in found)
    alike = threefold and {(len(t), t.shape[-1]) for t in found} == {(len(out), found[0].shape[-1])}
    return alike and out.ndim == 3 and sum(t.shape[1] for t in found) == out.shape[1]


def with_streams(
    kept: Mapping[str, list[Any]],  # name → inputs or outputs of a module
    streams: Mapping[str, list[str]],  # name → all whose tokens stand together, in their order
) -> dict[str, list[Any]]:  # the same, with one tensor for several modules
    "Join what several modules made of their parts of the tokens."
    joined = dict(kept)
    for first, names in streams.items():
        made = [joined.pop(name, [None])[0] for name in names]
        if all(isinstance(t, Tensor) and t.ndim == 3 for t in made):
            joined[first] = [torch.cat(made, 1)]
    return joined


def _copied(t: Any, m: nn.Module) -> Any:
    "Return a copy, which no in-place operation changes; features last."
    if not isinstance(t, Tensor):
        return t
    if isinstance(m, _CONVOLUTIONS):
        t = t.movedim(1, -1)
    return as_float(t).clone()


def part_of(
    layer: nn.Module,  # any layer
    name: str,  # of a module, a parameter or a buffer, such as "attn.q_norm"
    argument: str,  # the keyword that declares it
) -> Any:
    "Return a part of a layer by its name; raise Misused if it has none of that name."
    parts: dict[str, Any] = {
        **dict(layer.named_buffers()),
        **dict(layer.named_parameters()),
        **dict(layer.named_modules()),
    }
    if name not in parts:
        known = ", ".join(sorted(filter(None, parts)))
        raise Misused(
            f"{argument}: expected the name of a part of the layer ({known}); got {name!r}"
        )
    return parts[name]


def as_float(t: Any) -> Any:
    "Bring a tensor to the CPU, without its history; real numbers to float32."
    if not isinstance(t, Tensor):
        return t
    t = t.detach().cpu()
    return t.float() if t.is_floating_point() else t


def as_rows(t: Any, x: Tensor) -> Tensor | None:  # (b, n, width); None if it cannot be read so
    "Read something as one vector for each token of the input, (b, n, d)."
    b, n = x.shape[:2]
    if not isinstance(t, Tensor) or t.ndim < 2 or t.numel() % (b * n):
        return None
    if t.ndim > 2 and n != b and t.shape[:2] == (n, b):  # (n, b, width), or (n, b, h, d)
        return t.transpose(0, 1).flatten(2)
    if t.ndim == 4 and len(t) == b and t.shape[1] * t.shape[2] == n:  # (b, height, width, d)
        return t.flatten(1, 2)
    if t.ndim > 2 and t.shape[1] != n and t.flatten(2).shape[::2] == (b, n):  # (b, d, …)
        return t.flatten(2).mT
    return t.reshape(b, n, -1) if t.ndim == 2 or t.shape[:2] == (b, n) else None


def given_parts(
    layer: nn.Module, x: Tensor, call: OneCall, contract: Contract
) -> list[Contract]:  # the same, once its functions know the parts that they ask for by name
    """Give declared functions what they ask for by name: x, parameters and buffers of the layer,
    and what its modules gave, first with a row for each token, then as convolutions give it,
    (b, width, n).
    """
    modules = dict(layer.named_modules())
    tensors = {"x": x, **dict(layer.named_buffers()), **dict(layer.named_parameters())}
    names = _names_asked(layer, contract)
    whole = {name: full_name(layer, name) for name in names}
    held = {name: as_float(tensors[n]) for name, n in whole.items() if n in tensors}
    asked = {name: modules[n] for name, n in whole.items() if n in modules}
    made = recorded_call(asked, lambda: call(layer, x))[2] if asked else {}
    if never := next((name for name in asked if name not in made), ""):
        choice = names[never]
        if isinstance(getattr(contract, choice), str):  # the part alone is declared
            bug = known("choice.missing", what=f"{choice}=")
            raise Broken(f"in one call {never} is never called", bug, explains=False)
        must_use(layer, {whole[name]: m for name, m in asked.items()}, x, call)
        why = f"{choice}= asks for what {never} gives, and that is never called"
        raise NotChecked(f"no reference could be built: {why}")
    rows = {name: _of_tokens(t[0], x) for name, t in made.items()}
    columns = {name: t.mT for name, t in rows.items() if isinstance(asked[name], _CONVOLUTIONS)}
    ways = [rows, rows | columns] if columns else [rows]
    return [contract.knowing(held | way) for way in ways]


def full_name(layer: nn.Module, name: str) -> str:  # as given, unless one part alone ends with it
    "Return the whole name of a part."
    parts = [*layer.named_modules(), *layer.named_parameters(), *layer.named_buffers()]
    ends = {n for n, _ in parts if f".{n}".endswith(f".{name}")}
    return ends.pop() if len(ends) == 1 else name


def _names_asked(layer: nn.Module, contract: Contract) -> dict[str, str]:
    "Return the parts that are asked for, each with its choice; Misused if one alone is no part."
    for choice in contract.asked:
        if isinstance(name := getattr(contract, choice), str):
            part_of(layer, name, choice)
    return {name: choice for choice, some in contract.asked.items() for name in some}


def _of_tokens(t: Any, x: Tensor) -> Any:
    "Return what a part gave: a row for each token, or as it is, such as numbers of each pair."
    n = x.shape[1]
    pairs = isinstance(t, Tensor) and t.ndim == 4 and t.shape[1:3] == (n, n)
    rows = None if pairs else as_rows(t, x)
    return t if rows is None else rows


def used_between(
    layer: nn.Module,  # the layer
    projections: Collection[nn.Module],  # of its input
    end: nn.Module | None,  # its output projection; None: all that follows
    x: Tensor,  # its input
    call: OneCall,  # how it is called
    others: Mapping[str, nn.Module],  # that learn nothing, by name
) -> set[str]:  # names
    "List the parameters and parts on which what goes into the end depends, but by projections."
    contexts: list[Tensor] = []
    with ExitStack() as hooks, torch.enable_grad():
        for m in projections:
            cut = lambda t: t.detach() if isinstance(t, Tensor) else t
            hook = m.register_forward_hook(lambda _, args, given: tree_map(cut, given))
            hooks.enter_context(hook)
        added = _added_to_parts(others, hooks)
        if end is not None:
            note = end.register_forward_pre_hook(lambda _, args: contexts.append(args[0]))
            hooks.enter_context(note)
        contexts.append(call(layer, x))
    asked = {name: p for name, p in layer.named_parameters() if p.requires_grad} | added
    if not contexts[0].requires_grad:
        return set()
    grads = gradients_of(contexts[0].sum(), list(asked.values()))
    return {name for name, grad in zip(asked, grads) if grad is not None}


def _added_to_parts(parts: Mapping[str, nn.Module], hooks: ExitStack) -> dict[str, Tensor]:
    "Add a number to what each part gives; return these numbers, all 0, by name."
    added = {name: torch.zeros((), requires_grad=True) for name in parts}
    for name, m in parts.items():
        plus = partial(tree_map, partial(_add_to_float, added[name]))
        hooks.enter_context(m.register_forward_hook(lambda _, args, given, plus=plus: plus(given)))
    return added


def _add_to_float(more: Tensor, t: Any) -> Any:
    "Add a number to a tensor of numbers that are no integers."
    return t + more if isinstance(t, Tensor) and t.is_floating_point() else t


def used_of(
    layer: nn.Module, weights: dict[str, Any], x: Tensor, call: OneCall
) -> list[str]:  # names
    "List the weights, by name, that the output depends on: all if nothing requires a gradient."
    weights = {name: w for name, w in weights.items() if isinstance(w, nn.Parameter)}
    asked = {name: w for name, w in weights.items() if w.requires_grad}
    with torch.enable_grad():
        out = call(layer, x) if asked else x
        if not out.requires_grad:
            return [name for name in weights if name in dict(layer.named_parameters())]
        grads = gradients_of(out.sum(), list(asked.values()))
    unused = {name for name, g in zip(asked, grads) if g is None}
    return [name for name in weights if name not in unused]


def must_use(layer: nn.Module, parts: Mapping[str, nn.Module], x: Tensor, call: OneCall) -> None:
    "Raise Broken for a part that is never called, and none of whose parameters is read."
    made = recorded_call(parts, lambda: call(layer, x))[2]
    learned = dict(layer.named_parameters())
    read = {id(learned[name]) for name in used_of(layer, learned, x, call)}
    for name, m in parts.items():
        if name not in made and not any(id(p) in read for p in m.parameters()):
            alike = {n: len(found) for n, found in made.items() if type(parts[n]) is type(m)}
            raise unused(layer, name, alike)


def unused(
    layer: nn.Module,  # the layer
    name: str,  # of a module or a parameter of it that is not used
    calls: Mapping[str, int],  # how often those are called that may stand for it
) -> Broken:
    "Return what to raise for a part that is not used, or what it gives is detached."
    shown, detached, instead = f"in one call {name} is never called", "", ""
    if name in dict(layer.named_parameters()):
        shown, detached = f"in one call {name} is never used", ", or what it gives is detached"
    if twice := next((n for n, times in calls.items() if times > 1), ""):
        shown += f", and {twice} is called {calls[twice]} times"
        instead = f": {twice} is used in its place"
    bug = known("project.unused", name=name, detached=detached, instead=instead)
    return Broken(shown, bug, explains=False)


class _Products(TorchFunctionMode):
    "Keep what matrices are multiplied with, and what that gives, by name."

    def __init__(self, matrices: Mapping[str, Tensor]):
        super().__init__()
        self.names = {m.untyped_storage().data_ptr(): name for name, m in matrices.items()}
        self.sizes = {name: m.numel() for name, m in matrices.items()}
        self.kept: dict[str, tuple[Tensor, Tensor]] = {}

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        "Call it; keep the product of something and a matrix as a whole, perhaps transposed."
        out = func(*args, **(kwargs or {}))
        if getattr(func, "__name__", "") in ("matmul", "__matmul__", "linear") and len(args) > 1:
            rows, matrix = args[:2]
            name = self.names.get(matrix.untyped_storage().data_ptr(), "")
            if matrix.numel() == self.sizes.get(name):
                self.kept[name] = as_float(rows), as_float(out)
        return out


def products_of(
    matrices: Mapping[str, Tensor],  # parameters of a layer, by name
    call: Callable[[], Tensor],  # one call of the layer
) -> dict[str, tuple[Tensor, Tensor]]:  # name → what it was multiplied with, and what that gave
    "Record the last product of each matrix that is a parameter of its own."
    with torch.no_grad(), _Products(matrices) as seen:
        if matrices:
            call()
    return seen.kept
