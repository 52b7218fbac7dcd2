"""What a callable is named, which parameters it takes, and which module it calls."""

import inspect
from collections.abc import Callable, Collection, Mapping
from typing import Any

import torch
import torch.nn as nn

from attention_checks.outcomes import Misused

MASKS = ("allowed", "mask", "attn_mask", "attention_mask")  # parameters that say what may be seen


def parameters_of(fn: Any) -> Mapping[str, inspect.Parameter] | None:  # None: it does not tell
    "Return the parameters of a function, or of a module's forward, by name."
    try:
        return inspect.signature(fn.forward if isinstance(fn, nn.Module) else fn).parameters
    except (TypeError, ValueError):
        return None


POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
BY_NAME_TOO = (*POSITIONAL, inspect.Parameter.KEYWORD_ONLY)


def required_by(
    fn: Any,  # a function or a module
    kinds: Collection[Any] = (*BY_NAME_TOO, inspect.Parameter.VAR_POSITIONAL),  # that count
) -> list[str]:
    "Return the names of the arguments that a call must give."
    parameters = (parameters_of(fn) or {}).values()
    return [p.name for p in parameters if p.default is p.empty and p.kind in kinds]


def called_by_name(
    name: str,  # of the choice that declares it
    f: Callable[..., Any],  # a declared function
    known: Mapping[str, Any],  # what it may ask for, by name
    *leads: tuple[str, ...],  # names of what may come first, whatever it calls that
) -> Any:
    "Call a function with what its parameters are called; but for masks, defaults stay."
    parameters = parameters_of(f)
    takes_mask = parameters and parameters.keys() & MASKS
    ignores_mask = not parameters or "is_causal" in parameters and not takes_mask
    if ignores_mask and not known.get("allowed", torch.ones(1)).all():
        call = f"lambda q, k, v, allowed: {name_of(f)}(q, k, v, attn_mask=allowed)"
        raise Misused(f"{name}: expected a function that takes the mask: {name}={call}")
    if parameters is None:
        return f(*(known[word] for word in leads[0]))
    for lead in ((), *leads):
        if given := _given_by_name(f, known, lead):
            return f(*given.args, **given.kwargs)
    raise Misused(
        f"{name}: expected a function of {', '.join(known)}, or of what modules, parameters and"
        f" buffers of the layer are called; got one of {', '.join(required_by(f))}"
    )


def _given_by_name(
    f: Callable[..., Any], known: Mapping[str, Any], lead: tuple[str, ...]
) -> inspect.BoundArguments | None:
    "Bind what comes first, and the others by their names; None if that does not fit."
    signature = inspect.Signature([*(parameters_of(f) or {}).values()])
    try:
        given = signature.bind_partial(*(known[word] for word in lead))
    except TypeError:
        return None
    crossed = any(own in known and own != word for own, word in zip(given.arguments, lead))
    wanted = {*required_by(f), *(signature.parameters.keys() & MASKS)} - given.arguments.keys()
    given.arguments.update((own, known[own]) for own in wanted & known.keys())
    return given if wanted <= known.keys() and not crossed else None


def name_of(thing: Any) -> str:
    "Return the name that something is known by: its own, or that of its class."
    return str(getattr(thing, "__name__", type(thing).__name__))


def module_in(
    f: Any,  # a module, or a function that calls one
    seen: tuple[Any, ...] = (),  # functions that refer to it, and are searched already
) -> nn.Module | None:  # None: nothing tells which
    "Find the module behind a function: what it is bound to, or it or a function of its refers to."
    if isinstance(f, nn.Module) or not inspect.isfunction(f):
        owner = getattr(f, "__self__", f)
        return owner if isinstance(owner, nn.Module) else None
    names = inspect.getclosurevars(f)
    held = [*names.nonlocals.values(), *names.globals.values()]
    for each in held:
        if isinstance(each, nn.Module):
            return each
    others = [each for each in held if inspect.isfunction(each) and each not in (*seen, f)]
    inside = (module_in(each, (*seen, f)) for each in others)
    return next((m for m in inside if m is not None), None)
