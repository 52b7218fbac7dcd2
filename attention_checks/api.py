"""The checks: each takes your code and what you declare of it, and returns a report or raises."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any, TypeVar

import torch
from torch import Tensor

from attention_checks import arguments
from attention_checks.catalogue import IN_SIXTEEN_BITS
from attention_checks.choice_guards import expect_function
from attention_checks.distributed.properties import Study
from attention_checks.distributed.running import rank_starter
from attention_checks.distributed.shards import Order, Sharding
from attention_checks.examine import examine
from attention_checks.outcomes import Misused
from attention_checks.properties import Properties, Property, Recognise
from attention_checks.properties.agreement import agreement_properties
from attention_checks.properties.cache import CachedLayer, cache_properties
from attention_checks.properties.cross_attention import cross_properties
from attention_checks.properties.flash import flash_properties
from attention_checks.properties.functions import attention_properties
from attention_checks.properties.layers import layer_properties
from attention_checks.properties.positions import Bias, Rotation
from attention_checks.properties.softmax import Softmax
from attention_checks.report import CheckFailed, Report
from attention_checks.spec import HELP, Contract, declared, keywords_of
from attention_checks.subjects.copies import in_mode
from attention_checks.subjects.function_facts import ExaminedFunction
from attention_checks.their_code.controlled import fixed_chance, full_precision
from attention_checks.their_code.signatures import name_of
from attention_nb.tools.guards import expect_flags, expect_sizes

_HELP_OF_ARGUMENTS = {  # arguments of several checks → what they mean
    "d_model": "width of x",
    "strict": "raise NotCompared if its numbers could be compared with nothing?",
    **HELP,
}
_RAISES = """

    Raises:
        CheckFailed: if a property does not hold{}
        TypeError, ValueError: for what the check cannot try; `Misused` is both
    """
__tracebackhide__ = True  # pytest shows the line of your test, not the way through this module


_Check = TypeVar("_Check", bound=Callable[..., Report])


def _with_choices(check: _Check) -> _Check:
    "Show the choices that a check reads, and what it raises, as `help` shows them."
    signature, name = inspect.signature(check), check.__name__
    own = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
    more = [p for p in keywords_of(name) if p.name not in signature.parameters]
    doc = (check.__doc__ or "").rstrip()
    missing = [p.name for p in (*own, *more) if f"        {p.name}: " not in doc]
    lines = "".join(f"\n        {each}: {_HELP_OF_ARGUMENTS[each]}" for each in missing)
    strict = ", or nothing was compared" if "strict" in signature.parameters else ""
    check.__doc__ = doc + lines + _RAISES.format(strict)
    vars(check)["__signature__"] = signature.replace(parameters=[*own, *more])
    return check


@_with_choices
def check_attention(
    fn: Callable[..., Any],
    causal: bool | str = False,
    mask: str | bool | tuple[str, str] | None = None,
    strict: bool = True,
    **design: Any,
) -> Report:
    """Check any attention function against what every attention must do.

    Args:
        fn: fn(q, k, v) or fn(q, k, v, mask), over (b, h, n, d)
    """
    contract = declared("check_attention", causal=causal, mask=mask, **design)
    arguments.expect_attention(fn, contract)
    subject = ExaminedFunction(fn, contract)
    return _run(check_attention, fn, lambda: attention_properties(subject), contract, strict)


@_with_choices
def check_flash(
    fn: Callable[..., Any],
    causal: bool | str = False,
    mask: str | bool | tuple[str, str] | None = None,
    **design: Any,
) -> Report:
    """Check attention in tiles: what every attention must do, without the matrix of scores.

    Args:
        fn: fn(q, k, v) or fn(q, k, v, mask) → context, or (context, log-sum-exp)
    """
    contract = declared("check_flash", causal=causal, mask=mask, **design)
    arguments.expect_attention(fn, contract, named_mask=True)
    subject = ExaminedFunction(fn, contract)
    return _run(check_flash, fn, lambda: flash_properties(subject), contract)


@_with_choices
def check_self_attention(
    module: Any,
    d_model: int,
    causal: bool = False,
    n_heads: int | None = None,
    positions: bool | None = None,
    call: Callable[[Any, Tensor], Any] | None = None,
    strict: bool = True,
    n_kv_heads: int | None = None,
    only_attention: bool = False,
    **design: Any,
) -> Report:
    """Check any self-attention layer, with its own weights.

    Args:
        module: over x (b, n, d_model); returns the output, or a tuple that begins with it
    """
    design |= {"positions": positions, "call": call, "only_attention": only_attention}
    design |= {"causal": causal, "n_heads": n_heads, "n_kv_heads": n_kv_heads}
    contract = declared("check_self_attention", **design)
    return _check_layer(check_self_attention, module, d_model, contract, strict)


@_with_choices
def check_multi_head(
    module: Any,
    d_model: int,
    n_heads: int,
    causal: bool = False,
    positions: bool | None = None,
    call: Callable[[Any, Tensor], Any] | None = None,
    strict: bool = True,
    n_kv_heads: int | None = None,
    **design: Any,
) -> Report:
    """Check a multi-head layer: as `check_self_attention`, and it may do nothing else.

    Args:
        module: over x (b, n, d_model); returns the output, or a tuple that begins with it
        n_heads: number of heads
    """
    expect_sizes(n_heads=n_heads)
    design |= {"positions": positions, "call": call}
    design |= {"causal": causal, "n_heads": n_heads, "n_kv_heads": n_kv_heads}
    contract = replace(declared("check_multi_head", **design), only_attention=True)
    return _check_layer(check_multi_head, module, d_model, contract, strict)


def _check_layer(
    check: Callable[..., Report], module: Any, d_model: int, contract: Contract, strict: bool
) -> Report:
    "Check a self-attention layer."
    arguments.expect_layer(module, d_model, contract)
    properties = lambda: layer_properties(module, d_model, contract)
    return _run(check, module, properties, contract, strict)


@_with_choices
def check_cross_attention(
    module: Any,
    d_model: int,
    d_memory: int | None = None,
    n_heads: int | None = None,
    call: Callable[[Any, Tensor, Tensor], Any] | None = None,
    strict: bool = True,
    n_kv_heads: int | None = None,
    **design: Any,
) -> Report:
    """Check any cross-attention layer: queries from x, keys and values from a memory.

    Args:
        module: over x (b, n_q, d_model) and memory (b, n_k, d_memory); returns the output first
        d_memory: width of the memory; default d_model
    """
    expect_sizes(d_memory=d_model if d_memory is None else d_memory)
    heads = {"n_heads": n_heads, "n_kv_heads": n_kv_heads}
    contract = declared("check_cross_attention", **heads, call=call, **design)
    arguments.expect_layer(module, d_model, contract, memory=True)
    properties = lambda: cross_properties(module, d_model, contract, d_memory)
    return _run(check_cross_attention, module, properties, contract, strict)


@_with_choices
def check_softmax(fn: Callable[..., Any], **design: Any) -> Report:
    """Check any softmax: weights, dimensions, stability, gradients.

    Args:
        fn: fn(x), over the last dimension, or fn(x, dim)
    """
    arguments.expect_callable("fn", fn, "a function of x", 1)
    contract = declared("check_softmax", **design)
    return _run(check_softmax, fn, Softmax(fn, False, contract).properties, contract)


@_with_choices
def check_masked_softmax(fn: Callable[..., Any], **design: Any) -> Report:
    """Check any masked softmax: what is masked gets exactly 0, for scores up to ±10⁴.

    Args:
        fn: fn(scores, mask), over the last dimension; True = may attend
    """
    arguments.expect_callable("fn", fn, "a function of scores and mask", 2)
    contract = declared("check_masked_softmax", **design)
    return _run(check_masked_softmax, fn, Softmax(fn, True, contract).properties, contract)


@_with_choices
def check_cache(
    module: Any,
    d_model: int,
    new_cache: Callable[[int, int], Any] | None = None,
    step: Callable[[Tensor, Any], Any] | None = None,
    full: Callable[[Tensor], Any] | None = None,
    grows: bool = False,
    **design: Any,
) -> Report:
    """Check a layer with a KV cache: however a sequence is cut, it gives what one pass gives.

    Args:
        module: a layer over x (b, n, d_model), called as module(x, cache=cache); or step(x, cache)
        new_cache: new_cache(b, n_max) → an empty cache, perhaps a class; default: the module's own
        step: step(x, cache): the next tokens; it fills the cache; if the layer holds its cache in
            buffers, it first puts this one there
        full: full(x): all tokens at once, the future hidden; default module(x)
        grows: may the cache grow, and be copied, at each step?
    """
    expect_sizes(d_model=d_model)
    expect_flags(grows=grows)
    arguments.expect_callable("module", module, "a layer, or a function of x and cache")
    contract = declared("check_cache", **design)
    layer = CachedLayer(module, d_model, step, full, new_cache, grows, contract)
    expect_function("new_cache", layer.new_cache)
    for name in ("step", "full"):
        arguments.expect_callable(name, getattr(layer, name), "a function")
    with torch.no_grad(), in_mode(module, training=False):
        return _run(check_cache, module, lambda: cache_properties(layer), contract)


@_with_choices
def check_positions(
    fn: Callable[..., Any],
    d_head: int | None = None,
    base: float = 10000.0,
    scaling: Mapping[str, Any] | None = None,
    interleaved: bool | None = None,
    n_heads: int = 8,
    alibi: bool = True,
    d_rotary: int | None = None,
    **design: Any,
) -> Report:
    """Check a rotation by positions, or a bias by distances.

    Args:
        fn: fn(x, positions), over x (b, h, n, d_head); or fn(n_heads, n_q, n_k) → (h, n_q, n_k)
        d_head: of a rotation: the width that it is tried with; default its `d_head`, or 8
        base: of a rotation: the base of its angles
        scaling: of a rotation: as `rope_scaling` in a model's config.json
        interleaved: of a rotation: are pairs neighbours? None: find out
        n_heads: of a bias: number of heads
        alibi: of a bias: is it ALiBi? False: any function of distances
        d_rotary: of a rotation: how many numbers of each vector are rotated, the first ones;
            default as `scaling` says, or all
    """
    expect_sizes(n_heads=n_heads)
    expect_flags(alibi=alibi)
    if interleaved is not None:
        expect_flags(interleaved=interleaved)
    contract = declared("check_positions", **design)
    placed = contract.placement.around(fn)
    if arguments.expect_positions(fn) == 3:
        properties = Bias(placed, n_heads, alibi, bool(contract.causal)).properties
    else:
        d_head = getattr(fn, "d_head", 8) if d_head is None else d_head
        width, of_part = arguments.expect_rotated(d_head, d_rotary, base, scaling)
        properties = Rotation(placed, d_head, width, base, of_part, interleaved).properties
    return _run(check_positions, fn, properties, contract)


@_with_choices
def check_distributed(
    fn: Callable[..., Any],
    order: str | Order = "contiguous",
    causal: bool = False,
    n_heads: int = 12,
    n_kv_heads: int | None = None,
    worlds: Collection[int] = (1, 2, 3, 4),
    even: bool = False,
    empty_ranks: bool = True,
    sink_logits: Collection[float] | None = None,
    timeout: float = 8.0,
    strict: bool = True,
    **design: Any,
) -> Report:
    """Check attention whose sequence is spread over ranks: processes that PyTorch connects (gloo).

    Args:
        fn: fn(q, k, v), called on every rank with its part (b, h, n_local, d) → its context
        order: "contiguous", "zigzag", "striped", or split(positions, world, rank) → its positions
        n_heads: heads of the queries
        n_kv_heads: heads of keys and values; default n_heads
        worlds: the numbers of ranks that it is tried with
        even: does it take only sequences that all ranks share equally?
        empty_ranks: may a rank hold no token, as if a sequence is shorter than the ranks are many?
        sink_logits: a logit for each head that takes a share of its weights
        timeout: seconds after which ranks that do not finish count as stuck
    """
    arguments.expect_callable("fn", fn, "a function of q, k and v", 3)
    expect_flags(causal=causal)
    contract = declared("check_distributed", causal=causal, **design)
    n_kv_heads = n_heads if n_kv_heads is None else n_kv_heads
    sharding = Sharding(
        order, n_heads, n_kv_heads, worlds, even, empty_ranks, sink_logits, timeout, contract
    )
    with rank_starter() as ranks:
        properties = Study(fn, sharding, ranks).properties
        return _run(check_distributed, fn, properties, contract, strict)


@_with_choices
def check_agrees(
    fn: Callable[..., Any],
    reference: Callable[..., Any],
    *examples: tuple[Any, ...],
    wrong: Mapping[str, Callable[..., Any]] | None = None,
    **design: Any,
) -> Report:
    """Check any function against one that is right: values, shapes, types and gradients.

    Args:
        fn: the function to check
        reference: one that is right, if slow
        examples: the arguments of one call each, small ones first
        wrong: likely wrong answers, by what is wrong with them
    """
    arguments.expect_callable("fn", fn, "a function")
    arguments.expect_callable("reference", reference, "a function that is known to be right")
    if not examples or not all(isinstance(e, tuple) for e in examples):
        got = ", ".join(type(e).__name__ for e in examples) or "none"
        raise Misused(
            f"examples: expected a tuple of arguments for each call, such as (x,); got {got}"
        )
    for name, other in (wrong or {}).items():
        arguments.expect_callable(
            f"wrong[{name!r}]", other, "a function that gives this wrong answer"
        )
    properties = lambda: (agreement_properties(fn, reference, examples, wrong or {}), None)
    contract = declared("check_agrees", **design)
    return _run(check_agrees, fn, properties, contract)


def _run(
    check: Callable[..., Report],
    subject: Any,
    properties_of: Callable[[], tuple[Properties, Recognise | None]],
    contract: Contract,
    strict: bool = True,
) -> Report:
    "List the properties and try them, always with the same random numbers."
    expect_flags(strict=strict)
    accepts = inspect.signature(check).parameters
    try:
        with fixed_chance(), full_precision(), contract.applied():
            properties, recognise = properties_of()
            properties = [each for each in properties if _is_promised(each, contract)]
            return examine(
                f"{check.__name__}({name_of(subject)})",
                properties,
                recognise,
                strict=strict,
                skip=_skipped(contract, accepts),
                accepts=accepts,
            )
    except (CheckFailed, Misused) as e:
        raise e.with_traceback(None) from None  # without the way through the properties


def _is_promised(row: Property, contract: Contract) -> bool:
    "Return whether what is declared promises that a property holds."
    typed = contract.placement.dtype is not None
    return (contract.gradients or not row.differentiates) and not (typed and row.sixteen_bits)


def _skipped(contract: Contract, accepts: Collection[str]) -> set[str]:
    "Return the codes that are no failure: as declared, and, where no type is, those of 16 bits."
    untold = contract.dtype is None and "dtype" in accepts
    return {*contract.skip, *(IN_SIXTEEN_BITS if untold else ())}
