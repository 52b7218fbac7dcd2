"""How to call a layer, and where its output is in what it returns."""

import inspect
import math
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import torch
import torch.nn as nn
from torch import Tensor
from torch.utils._pytree import tree_leaves

from attention_checks.outcomes import Misused, NeedsMore
from attention_checks.spec import Contract
from attention_checks.their_code.conventions import (
    CAUSAL,
    MASK,
    MEMORY,
    OUTPUT,
    POSITION_ARGUMENT,
    packing,
)
from attention_checks.their_code.signatures import (
    BY_NAME_TOO,
    POSITIONAL,
    parameters_of,
    required_by,
)

LayerCall = Callable[..., Any]  # of module and x; of cross-attention, and of the memory


def first_tensor(
    result: Any,  # what a layer returned: a tensor, a tuple, an object with an output
) -> tuple[Any, tuple[Any, ...]]:  # the output, and whatever came with it
    "Find the output in what a layer returns."
    if isinstance(result, (tuple, list)) and result:
        return result[0], tuple(result[1:])
    for name in OUTPUT:
        if isinstance(output := getattr(result, name, None), Tensor):
            return output, ()
    return result, ()


def declared_output(result: Any, returns: Any) -> Any:
    "Find the output where returns= declares it, by an index, a name, or a function."
    if callable(returns):
        return returns(result)
    if isinstance(returns, str) and not isinstance(result, dict):
        return getattr(result, returns)
    return result[returns]


def _height_and_width(n: int) -> tuple[int, int]:
    "Of a picture of n pixels, as square as can be."
    height = next(h for h in range(math.isqrt(n), 0, -1) if n % h == 0)
    return height, n // height


def _output_first(call: LayerCall, returns: Any, module: Any, *inputs: Tensor) -> Any:
    "Call a layer, and put the declared output before all that it returns."
    result = call(module, *inputs)
    output, rest = first_tensor(declared_output(result, returns))
    return output, *rest, *tree_leaves(result)


_Layout = Callable[[Tensor], Tensor]
_LAYOUTS: dict[str, tuple[_Layout, _Layout]] = {  # from (b, n, d), and back
    "bnd": (lambda x: x, lambda y: y),
    "nbd": (lambda x: x.transpose(0, 1), lambda y: y.transpose(0, 1)),
    "bhwd": (lambda x: x.unflatten(1, _height_and_width(x.shape[1])), lambda y: y.flatten(1, 2)),
    "bdhw": (
        lambda x: x.mT.contiguous().unflatten(2, _height_and_width(x.shape[1])),
        lambda y: y.flatten(2).mT,
    ),
}


def as_declared(
    call: LayerCall,  # over (b, n, width), in float32 on the CPU
    contract: Contract,  # what was declared
) -> LayerCall:  # takes and gives the same
    "Call a layer in the layout, on the device and in the type that were declared."
    if contract.returns is not None:
        call = partial(_output_first, call, contract.returns)
    if not (contract.layout or contract.device or contract.dtype):
        return call
    to, back = _LAYOUTS[contract.layout or "bnd"]
    place = contract.placement

    def declared(module: Any, *inputs: Tensor) -> Any:
        with place.inputs(*map(to, inputs)) as given:
            output, rest = first_tensor(call(module, *given))
        rest = tuple(map(place.back, rest))
        if isinstance(output, Tensor) and output.ndim == to(inputs[0]).ndim:
            output = back(place.back(output))
        return output, *rest

    return declared


def in_batches(
    call: LayerCall,  # of a module and inputs, (b, …) each
    max_batch: int | None,  # the largest batch that it takes, as declared; None: any
) -> LayerCall:
    "Call a layer for so many sequences at a time, and join the outputs."
    if max_batch is None:
        return call

    def in_parts(module: Any, *inputs: Tensor) -> Any:
        if len(inputs[0]) <= max_batch:
            return call(module, *inputs)
        parts = zip(*(t.split(max_batch) for t in inputs))
        return torch.cat([first_tensor(call(module, *part))[0] for part in parts])

    return in_parts


def whole_call(
    call: LayerCall,  # as the code under test wants it
    contract: Contract,  # what was declared
) -> LayerCall:  # of the module and its inputs; gives the output, and a tuple of all else
    "Call a layer as was declared, once what it keeps of its last call is cut from that graph."
    declared = in_batches(as_declared(call, contract), contract.max_batch)

    def called(module: Any, *inputs: Tensor) -> tuple[Any, tuple[Any, ...]]:
        if not torch.compiler.is_compiling():
            _detach_kept(module)
        return first_tensor(declared(module, *inputs))

    return called


def _detach_kept(module: Any) -> None:
    "Cut what a layer keeps of its last call, in a buffer or an attribute, from that call's graph."
    if not isinstance(module, nn.Module):
        return
    for m in module.modules():
        for kept in (vars(m), *(v for v in vars(m).values() if isinstance(v, dict))):
            for name, value in kept.items():
                if isinstance(value, Tensor) and value.grad_fn is not None:
                    kept[name] = value.detach().clone()


class _WithArguments:
    "A module that is called with arguments of ours, besides those of the caller."

    def __init__(self, module: Any, given: dict[str, Any]):
        self._module, self._given, self._called = module, given, False

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        "Call the module."
        self._called = True
        by_position = dict(zip(parameters_of(self._module) or {}, args))
        first = [self._given.get(name, value) for name, value in by_position.items()]
        named = {n: v for n, v in {**kwargs, **self._given}.items() if n not in by_position}
        return self._module(*first, *args[len(first) :], **named)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)


def called_with(
    call: LayerCall,  # how it is called, as declared
    module: Any,  # a layer or a function
    given: dict[str, Any],  # arguments that it gets besides
    *inputs: Tensor,  # x, and of cross-attention the memory
) -> Any:  # what the call returns
    """Call a layer as declared, with further arguments, by the call if it takes those, else by the
    module; TypeError if the call does not pass them.
    """
    if given.keys() <= (parameters_of(call) or {}).keys():
        return call(module, *inputs, **given)
    wrapped = _WithArguments(module, given)
    result = call(wrapped, *inputs)
    if not wrapped._called:
        raise TypeError(
            f"call= does not call the module itself, so {', '.join(given)} is not given"
        )
    return result


def how_to_call(
    module: Any,  # a layer or a function
    causal: bool,  # should it hide the future? Then an argument says so, if there is one
) -> LayerCall:  # of module and x
    "Find out how to call a layer: module(x), or as its parameters demand."
    parameters = parameters_of(module)
    if is_torch_mha(module):
        return lambda m, x: call_torch_mha(m, x, causal)
    if parameters is None:
        return lambda m, x: m(x)
    needed = needed_by(module)
    others = needed[1:]
    if len(needed) > 4 or any(map(POSITION_ARGUMENT.search, others)):
        names = ", ".join(needed)
        raise NeedsMore(
            f"module: forward needs {names}; say how to call it: "
            "call=lambda module, x: module(x, …)"
        )
    if packing_names(others):
        return _packed_call(others)
    options = causal_options(module) if causal else {}
    return lambda m, x: m(x, *inputs_for(others, x).values(), **options)


def causal_options(module: Any) -> dict[str, bool]:
    "Return the options of a call that hide the future, by name."
    parameters = parameters_of(module) or {}
    return {n: True for n in CAUSAL if n in parameters and parameters[n].default is False}


def inputs_for(names: list[str], x: Tensor) -> dict[str, Tensor | None]:
    "Return x for each argument that a call needs, by name, and None for masks."
    return {name: None if MASK.search(name) else x for name in names}


def packing_names(names: Iterable[str]) -> list[str]:  # such as "document_ids" or "cu_seqlens"
    "Of some arguments, list those that say where packed documents end."
    return [name for name in names if isinstance(packing(name, [1]), Tensor)]


def packing_arguments(
    names: Iterable[str],  # of arguments
    lengths: list[int],  # tokens of each document
    x: Tensor,  # what they are packed into, (n, d) or (1, n, d)
) -> dict[str, Any]:  # by name, on the device of x
    "Say where packed documents end, by those arguments that ask for it."
    given: dict[str, Any] = {}
    for name in names:
        value = packing(name, lengths)
        if isinstance(value, Tensor):
            value = (value.squeeze(0) if x.ndim == 2 else value).to(x.device)
        if value is not None:
            given[name] = value
    return given


def _packed_call(names: list[str]) -> LayerCall:
    "Pack the sequences of a batch into (b * n, d), as kernels for packed documents demand."

    def call(module: Any, x: Tensor) -> Any:
        packed = x.flatten(0, 1)
        arguments = packing_arguments(names, [x.shape[1]] * len(x), packed)
        output, rest = first_tensor(module(packed, **dict.fromkeys(names) | arguments))
        if isinstance(output, Tensor) and len(output) == len(packed):
            output = output.unflatten(0, x.shape[:2])
        return output, *rest

    return call


def is_torch_mha(module: Any) -> bool:
    "Say whether it is called as nn.MultiheadAttention is."
    parameters = parameters_of(module) or {}
    takes = "attn_mask" in parameters or {"args", "kwargs"} <= parameters.keys()
    return isinstance(module, nn.MultiheadAttention) and takes


def needed_by(module: Any) -> list[str]:
    "List the names of the arguments that it cannot do without."
    return required_by(module, POSITIONAL)


def call_torch_mha(
    m: nn.MultiheadAttention, x: Tensor, causal: bool, memory: Tensor | None = None, **options: Any
) -> tuple[Any, ...]:
    "nn.MultiheadAttention over x, or over x and a memory, whatever its layout and what it returns."
    if causal:
        n = x.shape[1]
        future = torch.ones(n, n, dtype=torch.bool, device=x.device).triu(1)
        options = {"attn_mask": future, **options}
    q = x if m.batch_first else x.transpose(0, 1)
    kv = q
    if memory is not None:
        kv = memory if m.batch_first else memory.transpose(0, 1)
    output, rest = first_tensor(m(q, kv, kv, **options))
    return output if m.batch_first else output.transpose(0, 1), *rest


def how_to_call_both(
    module: Any,  # a layer or a function
    **options: Any,  # what it gets besides, such as a mask
) -> LayerCall:  # of module, x and memory
    "Find out how to call cross-attention: module(x, memory), or as its parameters demand."
    if is_torch_mha(module):
        return lambda m, x, y: call_torch_mha(m, x, False, None if y is x else y, **options)
    parameters, takers = parameters_of(module) or {}, for_memory(module)
    takes_any = any(p.kind is p.VAR_POSITIONAL for p in parameters.values())
    needed = required_by(module, BY_NAME_TOO)[1:]
    untaken = parameters and not takers and not takes_any
    if untaken or any(map(POSITION_ARGUMENT.search, needed)):
        wanted = "expected a forward of x and a memory"
        if needed:
            wanted = f"forward needs {', '.join(needed)}"
        raise NeedsMore(
            f"module: {wanted}; say how to call it: call=lambda module, x, memory: module(x, …)"
        )
    if not takers:
        return lambda m, x, y: m(x, y, **options)
    return lambda m, x, y: m(x, **dict.fromkeys(needed) | dict.fromkeys(takers, y) | options)


def call_under(
    contract: Contract,  # what was declared
    m: Any,  # a layer or a function
    given: dict[str, Tensor],  # masks, by name; one of numbers gets the type of x
    *inputs: Tensor,  # x, and of cross-attention the memory
) -> Any:  # what the call returns
    "Call a layer with x and perhaps a memory, and masks by their names."
    x = inputs[0]
    given = {n: t.to(x.dtype) if t.is_floating_point() else t for n, t in given.items()}
    if contract.call:
        return called_with(contract.call, m, given, *inputs)
    if is_torch_mha(m):
        return call_torch_mha(m, x, contract.hides_future, *inputs[1:], **given)
    if len(inputs) > 1:
        return how_to_call_both(m, **given)(m, *inputs)
    options = causal_options(m) if contract.hides_future else {}
    return m(x, **inputs_for(needed_by(m)[1:], x) | options | given)


_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def for_memory(module: Any) -> list[str]:
    "List the arguments that take the memory: all that is needed, or what is called so, or is free."
    named = [p for p in list((parameters_of(module) or {}).values())[1:] if p.kind in _BY_NAME]
    others = [p for p in named if not MASK.search(p.name)]
    needed = [p.name for p in others if p.default is p.empty]
    free = [p.name for p in others if p.default is None]
    if needed:
        return needed
    called_so = [name for name in free if MEMORY.search(name)]
    pair = [name for name in called_so if name.rstrip("s") in ("k", "v", "key", "value")]
    if not called_so:
        return free[:1]
    return pair if called_so[0] in pair else called_so[:1]


def must_be_whole(module: Any) -> None:
    "Raise Misused if its weights are sharded over several machines: a copy on one does not run."
    if not isinstance(module, nn.Module):
        return
    for name, p in module.named_parameters():
        if hasattr(p, "full_tensor"):
            raise Misused(
                "module: expected a layer with whole weights, as it is before it is sharded; "
                f"got shards (DTensor) in {name}"
            )
