"""Functions that try every property on your own code, and name the likely bug."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
import torch.nn as nn
from torch import Tensor

from attention_checks.catalogue.local_attention import Reach
from attention_checks.properties.agreement import agreement_properties
from attention_checks.properties.cache import Writer, cache_properties
from attention_checks.properties.cross_attention import cross_properties
from attention_checks.properties.flash import flash_properties
from attention_checks.properties.functions import attention_properties
from attention_checks.properties.layers import layer_properties
from attention_checks.properties.positions import bias_properties, rotation_properties
from attention_checks.properties.softmax import masked_softmax_properties, softmax_properties
from attention_checks.report import (
    CheckFailed,
    Misused,
    Report,
    examine,
    fixed_chance,
    name_of,
    parameters_of,
)
from attention_checks.spec import Contract, declared
from attention_checks.subjects.facts import Subject
from attention_checks.subjects.layer import Layer
from attention_nb.kv_cache import KVCache
from attention_nb.multi_head_attention import MultiHeadAttention
from attention_nb.positions import RotaryEmbedding
from attention_nb.tools.guards import expect_flags, expect_groups, expect_scale, expect_sizes

_Call = Callable[[Any, Tensor], Any]
__tracebackhide__ = True  # pytest shows the line of your test, not the way through this module


def _callable(name: str, thing: Any, what: str, n: int = 0, more: int = 1) -> None:
    "Raise TypeError unless `thing` can be called, with `n` arguments if that is said, and `more` if it likes."
    if inspect.isclass(thing):
        raise TypeError(
            f"{name}: expected {what}, such as {thing.__name__}(…); got the class {thing.__name__} itself"
        )
    if not callable(thing):
        raise TypeError(f"{name}: expected {what}; got {type(thing).__name__}")
    ordinary = (
        isinstance(thing, nn.Module) and type(thing).__call__ is nn.Module.__call__
    )  # some have a __call__ of their own
    body = thing.forward if ordinary else thing
    if ordinary and getattr(body, "__func__", None) is nn.Module.forward:
        raise TypeError(
            f"{name}: expected {what}; got {type(thing).__name__}, which has no forward"
        )
    if inspect.isgeneratorfunction(body) or inspect.iscoroutinefunction(body):
        raise TypeError(
            f"{name}: expected {what} that returns; got one that yields, {name_of(thing)}"
        )
    if type(thing).__module__.startswith("numpy"):
        raise TypeError(
            f"{name}: expected {what} over torch tensors; got {name_of(thing)} of NumPy"
        )
    if n:
        _takes(name, thing, what, n, more)


def _takes(name: str, fn: Any, what: str, n: int, more: int) -> None:
    "Raise TypeError if a function tells its parameters, and takes fewer than `n` or needs more beside a mask."
    parameters = list((parameters_of(fn) or {}).values())
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if parameters_of(fn) is None or any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return
    if len(positional) < n:
        raise TypeError(
            f"{name}: expected {what}; got {name_of(fn)}, which takes {len(positional)} arguments, not {n}"
        )
    rest = [
        p for p in parameters if p not in positional[: n + more] and p.kind is not p.VAR_KEYWORD
    ]
    if needed := [
        p.name
        for p in rest
        if p.default is p.empty and "mask" not in p.name and "bias" not in p.name
    ]:
        named = any("mask" in p.name or "bias" in p.name for p in parameters)
        how = "fix it with partial" + ("" if more or named else ", or say mask=… if it is one")
        raise TypeError(
            f"{name}: expected {what}; got {name_of(fn)}, which also needs {needed[0]}: {how}"
        )


def _options(causal: bool | str, mask: str | bool | None, scale: Any = None) -> None:
    "Raise TypeError or ValueError for what `check_attention` cannot be told."
    if scale is not None and not callable(scale):
        expect_scale(scale)
    if not isinstance(causal, (bool, str)) or causal not in (
        True,
        False,
        "lower-right",
        "upper-left",
    ):
        raise ValueError(
            f'causal: expected True, False, "lower-right" or "upper-left"; got {causal!r}'
        )
    if mask not in (None, True, False, "allowed", "blocked", "bias"):
        raise ValueError(
            f'mask: expected "allowed", "blocked", "bias", True, False or None; got {mask!r}'
        )


def _run(
    check: str,
    thing: Any,
    listed: Callable[[], Any],
    strict: bool = False,
    contract: Contract = Contract(),
) -> Report:
    "List the properties and try them, always with the same random numbers."
    expect_flags(strict=strict)
    try:
        with fixed_chance(), contract.applied():
            properties, recognise = (*listed(), None)[:2]
            return examine(
                f"{check}({name_of(thing)})", properties, recognise, strict, contract.skip
            )
    except (CheckFailed, Misused) as e:
        raise e.with_traceback(None) from None  # the way through the properties helps nobody


def _run_layer(
    check: str, a: Layer, listed: Callable[[Layer], Any], strict: bool, of: str = "module and x"
) -> Report:
    "The same for a layer; TypeError or ValueError for what no layer check can be told."
    sizes = {"n_heads": a.declared_heads, "n_kv_heads": a.declared_kv_heads, "window": a.declared_window}
    expect_sizes(d_model=a.d_model, **{name: n for name, n in sizes.items() if n is not None})
    if a.declared_heads is not None and a.declared_kv_heads is not None:
        expect_groups(a.declared_heads, a.declared_kv_heads)
    expect_flags(causal=a.causal, **({} if a.positions is None else {"positions": a.positions}))
    _callable("module", a.given, "a layer")
    if a.declared_call is not None:
        _callable("call", a.declared_call, f"a function of {of}", 3 if "memory" in of else 2)
    if isinstance(a.given, nn.Module) and any(t.is_meta for t in a.given.parameters()):
        raise TypeError(
            "module: expected parameters with numbers; got some on the device meta, which holds none"
        )
    a = replace(a, causal=a.causal or a.declared_window is not None)
    return _run(check, a.given, lambda: listed(a), strict, a.contract)


def _step_of(module: Any, full: Any) -> Callable[[Tensor, Any], Any]:
    "A function is called as it is; a layer gets its cache by name."
    return (
        module
        if full is not None and not isinstance(module, nn.Module)
        else lambda x, cache: module(x, cache=cache)
    )


def _full_of(module: Any) -> Callable[[Tensor], Any]:
    "The causal pass over all words."
    return (
        (lambda x: module(x, causal=True)) if "causal" in (parameters_of(module) or {}) else module
    )


def _cache_of(module: Any) -> Callable[[int, int], Any]:
    "What makes an empty cache for a layer."
    if callable(own := getattr(module, "new_cache", None)):
        return own
    if isinstance(module, MultiHeadAttention):
        rows, like = module.n_kv_heads, module.k_proj.weight
        return lambda b, n_max: KVCache(b, rows, n_max, len(like) // rows, like.dtype, like.device)
    raise TypeError(
        f"new_cache: expected a function of b and n_max, since {name_of(module)} has none of its own; got None"
    )


@contextmanager
def _in_evaluation(module: Any) -> Iterator[None]:
    "No dropout inside; every part of the layer is as it was afterwards."
    modes = [(m, m.training) for m in module.modules()] if isinstance(module, nn.Module) else []
    try:
        for m, _ in modes:
            m.training = False
        yield
    finally:
        for m, mode in modes:
            m.training = mode


def _reach(
    causal: bool | str, window: int | None, sinks: int, documents: int | None
) -> Reach | None:
    "What was declared of how far a query sees; TypeError or ValueError for what is no such thing."
    told = {"window": window, "sinks": sinks or None, "documents": documents}
    expect_sizes(**{name: size for name, size in told.items() if size is not None})
    for name, size in told.items():
        if size is not None and size > 32:
            raise ValueError(
                f"{name}: expected at most 32, for the texts that are tried are short; got {size}"
            )
    if sinks and window is None:
        raise ValueError(f"sinks: expected none without a window; got {sinks}")
    return Reach(window or 0, sinks, documents or 0, bool(causal)) if window or documents else None


def check_attention(
    fn: Callable[..., Any],  # fn(q, k, v) or fn(q, k, v, mask), over (b, h, n, d)
    causal: bool | str = False,  # hides the future? if n_q ≠ n_k: "lower-right", "upper-left"
    mask: str | bool | None = None,  # "allowed" (True = may attend), "blocked", "bias"; False: none
    scale: float
    | Callable[[int], float]
    | None = None,  # what scores are multiplied with, or a function of d_k; default 1 / √d_k
    window: int
    | None = None,  # a query sees itself and the `window` - 1 before it; it is causal then
    sinks: int = 0,  # keys at the beginning that are seen besides the window
    documents: int | None = None,  # words of each text, if several are packed into one row
    strict: bool = False,  # is it a failure, too, if its numbers are compared with nothing?
    **choices: Any,  # what else a design may choose: lengths, empty, layout, device, dtype, tolerance, skip, as in `Contract`
) -> Report:  # raises CheckFailed if a property does not hold
    "Check any attention function against what every attention must do."
    named = any("mask" in name or "bias" in name for name in parameters_of(fn) or {})
    fourth = isinstance(mask, str) and not named  # the mask, whatever it is called
    _callable(
        "fn",
        fn,
        "a function of q, k, v and mask" if fourth else "a function of q, k and v",
        3 + fourth,
        more=0,
    )
    _options(causal, mask)
    causal = causal or window is not None
    reach = _reach(causal, window, sinks, documents)
    a = Subject(fn, causal, mask, declared(scale=scale, **choices), reach)
    return _run("check_attention", fn, lambda: attention_properties(a), strict, a.contract)


def check_flash(
    fn: Callable[
        ..., Any
    ],  # fn(q, k, v) or fn(q, k, v, mask), over (b, h, n, d) → context, or (context, log-sum-exp)
    causal: bool | str = False,  # hides the future? if n_q ≠ n_k: "lower-right", "upper-left"
    mask: str | bool | None = None,  # "allowed" (True = may attend), "blocked", "bias"; False: none
    scale: float | None = None,  # what it multiplies scores with; default 1 / √d_k
    compiles: bool = False,  # is it tried under torch.compile and torch.export, too? Loading them takes seconds
) -> Report:  # raises CheckFailed if a property does not hold
    "Check attention in tiles: what every attention must do, without its matrix."
    _callable("fn", fn, "a function of q, k and v", 3, more=0)
    _options(causal, mask, scale)
    expect_flags(compiles=compiles)
    return _run("check_flash", fn, lambda: flash_properties(fn, causal, mask, scale, compiles))


def check_self_attention(
    module: Any,  # over x (b, n, d_model); returns the output, or a tuple that begins with it
    d_model: int,  # width of the rows of x
    causal: bool = False,  # does it hide the future?
    n_heads: int | None = None,  # how many heads; default: look for an attribute that says
    positions: bool | None = None,  # does it know the order of words (RoPE, …)? None: find out
    call: _Call | None = None,  # call(module, x); default: module(x), or module(x, x, x)
    strict: bool = False,  # is it a failure, too, if its projections are not recognised?
    window: int
    | None = None,  # a word sees itself and the `window` - 1 before it; it is causal then
    n_kv_heads: int
    | None = None,  # how many heads of keys and values; default: what their widths tell
    **choices: Any,  # what else a design may choose: scale, lengths, group_order, dropout, layout, …, as in `Contract`
) -> Report:  # raises CheckFailed if a property does not hold
    "Check any self-attention layer, with its own weights where its projections are recognised."
    a = Layer(
        module,
        d_model,
        causal,
        n_heads,
        positions,
        call,
        False,
        window,
        n_kv_heads,
        declared(**choices),
    )
    return _run_layer("check_self_attention", a, layer_properties, strict)


def check_multi_head(
    module: Any,  # over x (b, n, d_model); returns the output, or a tuple that begins with it
    d_model: int,  # width of the rows of x
    n_heads: int,  # how many heads share it
    causal: bool = False,  # does it hide the future?
    call: _Call | None = None,  # call(module, x); default: module(x), or module(x, x, x)
    strict: bool = False,  # is it a failure, too, if its projections are not recognised?
    window: int
    | None = None,  # a word sees itself and the `window` - 1 before it; it is causal then
    n_kv_heads: int
    | None = None,  # how many heads of keys and values; default: what their widths tell
    positions: bool | None = None,  # does it know the order of words (RoPE, …)? None: find out
    **choices: Any,  # what else a design may choose: scale, lengths, group_order, dropout, layout, …, as in `Contract`
) -> Report:  # raises CheckFailed if a property does not hold
    "Check any multi-head layer: as `check_self_attention`, with this number of heads."
    expect_sizes(n_heads=n_heads)  # here it must be said
    a = Layer(
        module,
        d_model,
        causal,
        n_heads,
        positions,
        call,
        True,
        window,
        n_kv_heads,
        declared(**choices),
    )
    return _run_layer("check_multi_head", a, layer_properties, strict)


def check_cross_attention(
    module: Any,  # over x (b, n_q, d_model) and memory (b, n_k, d_memory); returns the output, or a tuple that begins with it
    d_model: int,  # width of the rows of x
    d_memory: int | None = None,  # width of the rows of the memory; default d_model
    n_heads: int | None = None,  # how many heads; default: look for an attribute that says
    call: Callable[[Any, Tensor, Tensor], Any]
    | None = None,  # call(module, x, memory); default: module(x, memory), or what its parameters demand
    strict: bool = False,  # is it a failure, too, if its projections are not recognised?
    n_kv_heads: int
    | None = None,  # how many heads of keys and values; default: what their widths tell
    **choices: Any,  # what else a design may choose: scale, lengths, group_order, dropout, layout, …, as in `Contract`
) -> Report:  # raises CheckFailed if a property does not hold
    "Check any cross-attention layer: queries from x, keys and values from a memory of another length."
    expect_sizes(d_model=d_model, d_memory=d_model if d_memory is None else d_memory)
    a = Layer(
        module,
        d_model,
        declared_heads=n_heads,
        declared_call=call,
        declared_kv_heads=n_kv_heads,
        contract=declared(**choices),
    )
    return _run_layer(
        "check_cross_attention",
        a,
        lambda a: cross_properties(a, d_memory),
        strict,
        "module, x and memory",
    )


def check_softmax(
    fn: Callable[..., Any],  # fn(x), over the last dimension, or fn(x, dim)
) -> Report:  # raises CheckFailed if a property does not hold
    "Check any softmax: weights, dimensions, stability, gradients."
    _callable("fn", fn, "a function of x", 1)
    return _run("check_softmax", fn, lambda: softmax_properties(fn))


def check_masked_softmax(
    fn: Callable[..., Any],  # fn(scores, mask), over the last dimension; True = may attend
) -> Report:  # raises CheckFailed if a property does not hold
    "Check any masked softmax: what is forbidden gets exactly 0, for scores up to ±10⁴."
    _callable("fn", fn, "a function of scores and mask", 2)
    return _run("check_masked_softmax", fn, lambda: masked_softmax_properties(fn))


def check_cache(
    module: Any,  # a layer over x (b, n, d_model), called as module(x, cache=cache); or a function, step(x, cache)
    d_model: int,  # width of the rows of x
    new_cache: Callable[[int, int], Any]
    | None = None,  # new_cache(b, n_max) → an empty cache; default: the module's own
    step: Callable[[Tensor, Any], Any]
    | None = None,  # step(x, cache): the next words; it fills the cache
    full: Callable[[Tensor], Any]
    | None = None,  # full(x): all words at once, the future hidden; default module(x)
    grows: bool = False,  # may the cache grow, and be copied, at each step?
) -> Report:  # raises CheckFailed if a property does not hold
    "Check any layer with a cache: however a text is cut, the same rows come out as in one causal pass."
    expect_sizes(d_model=d_model)
    expect_flags(grows=grows)
    _callable("module", module, "a layer, or a function of x and cache")
    writer = Writer(
        step or _step_of(module, full),
        full or _full_of(module),
        new_cache or _cache_of(module),
        d_model,
        grows,
    )
    for name in ("new_cache", "step", "full"):
        _callable(name, getattr(writer, name), "a function")
    with torch.no_grad(), _in_evaluation(module):
        return _run("check_cache", module, lambda: cache_properties(writer))


def check_positions(
    fn: Callable[
        ..., Any
    ],  # fn(x, positions), over x (b, h, n, d_head); or fn(n_heads, n_q, n_k), which gives (h, n_q, n_k)
    d_head: int
    | None = None,  # of a rotation: the width that it is tried with; default its attribute `d_head`, or 8
    base: float = 10000.0,  # of a rotation: the base of its angles
    scaling: Mapping[str, Any]
    | None = None,  # of a rotation: as `rope_scaling` in a model's config.json
    interleaved: bool | None = None,  # of a rotation: are pairs neighbours? None: find out
    n_heads: int = 8,  # of a bias: how many heads
    alibi: bool = True,  # of a bias: is it ALiBi? False: any function of distances
) -> Report:  # raises CheckFailed if a property does not hold
    "Check a rotation by places, or a bias by distances."
    _callable("fn", fn, "a function of rows and places, or of three numbers", 2)
    expect_sizes(n_heads=n_heads)
    expect_flags(alibi=alibi, **({} if interleaved is None else {"interleaved": interleaved}))
    needed = [
        p
        for p in (parameters_of(fn) or {}).values()
        if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD
    ]
    if len(needed) == 3:
        return _run("check_positions", fn, lambda: bias_properties(fn, n_heads, alibi))
    d_head = getattr(fn, "d_head", 8) if d_head is None else d_head
    RotaryEmbedding(d_head, base, scaling)  # refuses what is no rotation
    return _run(
        "check_positions", fn, lambda: rotation_properties(fn, d_head, base, scaling, interleaved)
    )


def check_agrees(
    fn: Callable[..., Any],  # the function to check
    reference: Callable[..., Any],  # one that is right, if slow
    *examples: tuple[Any, ...],  # the arguments of one call each, small ones first
    wrong: Mapping[str, Callable[..., Any]]
    | None = None,  # likely wrong answers, by what is wrong with them
) -> Report:  # raises CheckFailed if a property does not hold
    "Check any function against one that is right: values, shapes, types and gradients."
    _callable("fn", fn, "a function")
    _callable("reference", reference, "a function that is known to be right")
    if not examples or not all(isinstance(e, tuple) for e in examples):
        raise TypeError(
            "examples: expected a tuple of arguments for each call, such as (x,); got "
            + (", ".join(type(e).__name__ for e in examples) or "none")
        )
    for name, other in (wrong or {}).items():
        _callable(f"wrong[{name!r}]", other, "a function that gives this wrong answer")
    return _run("check_agrees", fn, lambda: [agreement_properties(fn, reference, examples, wrong)])
