"""What a design chooses, as its author declares it: one frozen value that every check reads."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, fields
from functools import wraps
from inspect import Parameter
from typing import Any

import torch
from torch import Tensor

from attention_checks.catalogue import CATALOGUE
from attention_checks.catalogue.local_attention import Reach
from attention_checks.examine import Misused
from attention_checks.pipeline import with_tolerance
from attention_checks.signatures import parameters_of
from attention_nb.tools.guards import expect_flags, expect_scale, expect_sizes

Expect = Callable[[str, Any], None]  # of a name and a value; raises TypeError or ValueError

ROLES = ("q", "k", "v", "kv", "qk", "qkv", "latent", "out")
USUAL_TOLERANCE = 2e-4
_CORNERS = ("lower-right", "upper-left")
TOLERANCES = {torch.float16: 1e-2, torch.bfloat16: 5e-2}  # of types with fewer bits


def _one_of(*choices: str) -> Expect:
    "Expect one of some strings."

    def expect(name: str, value: Any) -> None:
        if value not in choices:
            wanted = " or ".join(map(repr, choices))
            raise ValueError(f"{name}: expected {wanted}; got {value!r}")

    return expect


def _causal(name: str, value: Any) -> None:
    "Expect True, False, or the corner at which queries and keys are lined up."
    if not isinstance(value, (bool, str)) or value not in (True, False, *_CORNERS):
        corners = " or ".join(f'"{corner}"' for corner in _CORNERS)
        raise ValueError(f"{name}: expected True, False, {corners}; got {value!r}")


def _positive(name: str, value: Any) -> None:
    "Expect a number above 0."
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not number or not 0 < value < math.inf:
        raise ValueError(f"{name}: expected a number above 0; got {value!r}")


def _number(name: str, value: Any) -> None:
    "Expect a number other than 0."
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value:
        raise ValueError(f"{name}: expected a number other than 0; got {value!r}")


_size: Expect = lambda name, value: expect_sizes(**{name: value})  # a whole number, at least 1
_flag: Expect = lambda name, value: expect_flags(**{name: value})


def _lengths(name: str, value: Any) -> None:
    "Expect a size, or several."
    several = [value]
    if isinstance(value, Collection) and not isinstance(value, str):
        several = list(value)
    if not several:
        raise ValueError(f"{name}: expected at least one; got none")
    for n in several:
        expect_sizes(**{name: n})


def _codes(name: str, value: Any) -> None:
    "Expect codes of the catalogue, in a list or the like."
    if isinstance(value, str) or not isinstance(value, Collection):
        raise TypeError(f"{name}: expected a list of codes; got {value!r}")
    for code in value:
        if code not in CATALOGUE:
            raise ValueError(
                f"{name}: expected codes of the catalogue, such as 'scale.missing'; got {code!r}"
            )


def _device(name: str, value: Any) -> None:
    "Expect what torch.device takes."
    try:
        torch.device(value)
    except (RuntimeError, TypeError):
        raise ValueError(f"{name}: expected a device, such as 'cuda'; got {value!r}") from None


def _dtype(name: str, value: Any) -> None:
    "Expect a floating type, or its name."
    if not getattr(dtype_of(value), "is_floating_point", False):
        raise ValueError(
            f"{name}: expected a floating type, such as torch.bfloat16 or 'bfloat16'; got {value!r}"
        )


def _attribute(name: str, value: Any) -> None:
    "Expect the name of a module or a parameter of the layer, such as 'attn.q_norm'."
    if not isinstance(value, str) or not value:
        raise TypeError(f"{name}: expected the name of a part of the layer; got {value!r}")


def _function(name: str, value: Any) -> None:
    "Expect a function."
    if not callable(value):
        raise TypeError(f"{name}: expected a function; got {value!r}")


def _or_attribute(
    expect: Expect,  # of what is no name
) -> Expect:
    "Expect the name of a part of the layer, or something else."
    return lambda name, value: (_attribute if isinstance(value, str) else expect)(name, value)


_scale = _or_attribute(
    lambda name, value: expect_scale(value(16) if callable(value) else value)
)  # a number, a function of the width of a head that gives one, or a parameter's name
_factor = _or_attribute(_number)
_sinks = _or_attribute(lambda name, value: _size(name, value) if value else None)


def _bias(name: str, value: Any) -> None:
    "Expect the name of a part of the layer, or a function that gives what is added."
    if not callable(value):
        _attribute(name, value)


def _mask(name: str, value: Any) -> None:
    "Expect what a mask means, whether there is one, or its parameter and its meaning."
    meanings = ("allowed", "blocked", "bias")
    if isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], str):
        value = value[1]
    if not isinstance(value, bool) and value not in meanings:
        raise ValueError(
            f"{name}: expected 'allowed', 'blocked', 'bias', True, False, or a parameter"
            f" and one of these, such as ('src_mask', 'blocked'); got {value!r}"
        )


def _named(*keys: str) -> Expect:
    "Expect a mapping from some of these keys to names of parts of the layer."

    def expect(name: str, value: Any) -> None:
        if not isinstance(value, Mapping) or not value:
            raise TypeError(f"{name}: expected a mapping such as {{'q': 'name'}}; got {value!r}")
        for key, part in value.items():
            if key not in keys:
                raise ValueError(f"{name}: expected keys among {', '.join(keys)}; got {key!r}")
            _attribute(f"{name}[{key!r}]", part)

    return expect


def _returns(name: str, value: Any) -> None:
    "Expect an index, a name, or a function that picks the output."
    if isinstance(value, bool) or not (isinstance(value, (int, str)) or callable(value)):
        raise TypeError(f"{name}: expected an index, a name or a function; got {value!r}")


def dtype_of(
    value: Any,  # a type of PyTorch, or its name
) -> Any:  # the type; None if there is none of that name
    "Return the type of PyTorch that a name stands for."
    if isinstance(value, str):
        return getattr(torch, value.removeprefix("torch."), None)
    return value


_FUNCTIONS = ("check_attention", "check_flash")
_SELF = ("check_self_attention", "check_multi_head")
_LAYERS = (*_SELF, "check_cross_attention")
_ATTENTION = (*_FUNCTIONS, *_LAYERS)
_SOFTMAX = ("check_softmax", "check_masked_softmax", "check_positions", "check_agrees")
_RANKS, _CACHE = ("check_distributed",), ("check_cache",)


def _choice(
    checks: tuple[str, ...],  # which read it
    expect: Expect,
    help: str,
    default: Any = None,
    of_functions: Callable[[Any], bool | None] | None = None,  # is it theirs? None: all take it
) -> Any:
    "Return a field of the contract: who reads it, its guard, and its help."
    named = {"expect": expect, "help": help, "checks": checks, "of_functions": of_functions}
    return field(default=default, metadata=named)


def _version_of(t: Any) -> int:
    "Return how often a tensor was written into; 0 of what is no tensor, or does not count."
    return t._version if isinstance(t, Tensor) and not t.is_inference() else 0


@dataclass(frozen=True)
class Contract:
    "Hold what a design may choose, as its author declares it; each field is a keyword of a check."

    causal: bool | str = _choice(
        _FUNCTIONS + _SELF + _RANKS,
        _causal,
        'does it hide the future? Of a function, if n_q ≠ n_k: "lower-right", "upper-left"',
        default=False,
        of_functions=lambda value: isinstance(value, str) or None,
    )
    n_heads: int | None = _choice(
        _LAYERS, _size, "number of heads; default: what an attribute of the layer says"
    )
    n_kv_heads: int | None = _choice(
        _LAYERS, _size, "number of heads of keys and values; default: what their widths tell"
    )
    positions: bool | None = _choice(
        _SELF, _flag, "does it know positions (RoPE, …)? None: find out"
    )
    call: Callable[..., Any] | None = _choice(
        _LAYERS,
        _function,
        "call(module, x), or call(module, x, memory); default: as its parameters demand",
    )
    only_attention: bool = _choice(
        ("check_self_attention",),
        _flag,
        "may it do nothing else, as a residual? So `check_multi_head` asks",
        default=False,
    )
    scale: float | str | Callable[[int], float] | None = _choice(
        _ATTENTION + _RANKS,
        _scale,
        "factor of the scores (default: 1/√d_k); of a layer also the parameter that gives it",
        of_functions=lambda value: False if isinstance(value, str) else None,
    )
    softcap: float | None = _choice(
        _ATTENTION + _RANKS, _positive, "scores become softcap · tanh(scores / softcap)"
    )
    roles: Mapping[str, str] | None = _choice(
        _LAYERS, _named(*ROLES), "the layer's part in each role: q=W_query"
    )
    projects: bool = _choice(
        _LAYERS,
        _flag,
        "it projects what goes in to queries, keys and values (default: it does)",
        default=True,
    )
    norms: Mapping[str, str] | None = _choice(
        _LAYERS,
        _named("q", "k", "out"),
        "the norms of queries, keys and the context: q=q_norm, out=norm; rms: F.rms_norm without"
        " weights; l2: to length 1, as a parameter, which multiplies that",
    )
    mixing: Mapping[str, str] | None = _choice(
        _LAYERS,
        _named("scores", "weights"),
        "what mixes heads before or after the softmax: scores=mix",
    )
    prefix: Mapping[str, str] | None = _choice(
        _LAYERS, _named("k", "v", "kv"), "learned keys and values beside those of tokens: kv=mem_kv"
    )
    shortened: Mapping[str, str] | None = _choice(
        _LAYERS,
        _named("k", "v", "kv"),
        "what makes fewer keys and values along the sequence (Linformer): k=E, v=F",
    )
    rotate: Callable[[Tensor, Tensor], Tensor] | None = _choice(
        _LAYERS + _RANKS,
        _function,
        "how it rotates queries and keys: rotate(x, positions), over x (b, h, n, d)",
    )
    residual: str | None = _choice(
        _LAYERS,
        _attribute,
        "what is added to the context, before the activation: what a module gives, or a matrix · x",
    )
    value_scale: float | str | None = _choice(
        _LAYERS,
        _factor,
        "factor of the values, or of the context (default: 1); also the parameter that gives it",
    )
    attend: Callable[..., Tensor] | None = _choice(
        ("check_attention", *_LAYERS),
        _function,
        "what it makes of its heads where that is not softmax(q kᵀ) v: attend(q, k, v) →"
        " (b, h, n_q, d_v); or attend(q, k, v, allowed); it may be given what a part of the layer"
        " gives, by its name: attend(q, k, v, decay)",
    )
    activation: str | None = _choice(
        _LAYERS,
        _attribute,
        "what is applied to the context before its projection: a module, or gelu, silu, …",
    )
    sinks: int | str = _choice(
        _ATTENTION + _RANKS,
        _sinks,
        "of a function: keys at the start that all see; of a layer: the parameter of one sink"
        " logit per head",
        default=0,
        of_functions=lambda value: not isinstance(value, str),
    )
    gate: str | None = _choice(
        _LAYERS, _attribute, "the module or parameter that gates the context"
    )
    bias: str | Callable[..., Tensor] | None = _choice(
        _ATTENTION,
        _bias,
        "what is added to the scores: of a layer the part that gives it; or a function"
        " bias(n_heads, n_q, n_k) → (h, n_q, n_k), or bias(q, k) → (b, h, n_q, n_k), which may be"
        " given what a part of the layer gives, by its name: bias(q, k, decay)",
        of_functions=lambda value: None if callable(value) else False,
    )
    mask: str | bool | tuple[str, str] | None = _choice(
        _ATTENTION,
        _mask,
        "what its mask means: allowed (True = may attend), blocked, bias;"
        " with its name: src_mask=blocked; False: it takes none",
    )
    window: int | None = _choice(
        _FUNCTIONS + _SELF + _RANKS + _CACHE,
        _size,
        "keys that a query sees, itself included: it and those before it",
    )
    ahead: int | None = _choice(
        _FUNCTIONS + _SELF + _RANKS, _size, "keys after the query that it sees besides"
    )
    documents: int | None = _choice(
        ("check_attention",) + _RANKS, _size, "of a function: tokens of each packed document"
    )
    lengths: int | Collection[int] | None = _choice(
        _ATTENTION + _CACHE, _lengths, "a sequence length that it takes, or several (default: any)"
    )
    max_batch: int | None = _choice(
        _LAYERS + _CACHE, _size, "the largest batch that it takes (default: any)"
    )
    group_order: str | None = _choice(
        _LAYERS,
        _one_of("blocks", "tiled"),
        "query heads share keys as 0 0 1 1 (blocks, the default) or 0 1 0 1 (tiled)",
    )
    dropout: str | None = _choice(
        _LAYERS,
        _one_of("weights", "scores", "none"),
        "what dropout drops: weights or outputs (weights, the default), scores, or none",
    )
    empty: str = _choice(
        _FUNCTIONS,
        _one_of("zero", "nan", "any"),
        "the context of a fully masked query: zero (the default), nan or any",
        default="zero",
    )
    layout: str | None = _choice(
        _ATTENTION,
        _one_of("bnhd", "nbd", "bhwd", "bdhw"),
        "the order of its axes: of a function bnhd for bhnd; of a layer nbd, bhwd or bdhw for bnd",
        of_functions=lambda value: value == "bnhd",
    )
    returns: int | str | Callable[[Any], Tensor] | None = _choice(
        _LAYERS + _CACHE,
        _returns,
        "the output in what a layer returns: an index or a name (default: the first tensor)",
    )
    gradients: bool = _choice(
        _ATTENTION + _SOFTMAX + _RANKS,
        _flag,
        "it is differentiable (default: it is, and gradients are tried)",
        default=True,
    )
    device: str | torch.device | None = _choice(
        _ATTENTION + _CACHE, _device, "where it runs (default: cpu)"
    )
    dtype: str | torch.dtype | None = _choice(
        _ATTENTION + _RANKS + _CACHE,
        _dtype,
        "the only type it is tried in (default: float32, and 16 bits)",
    )
    tolerance: float | None = _choice(
        _ATTENTION + _SOFTMAX + _RANKS + _CACHE,
        _positive,
        "how far apart equal numbers may be (default: 0.0002)",
    )
    skip: Collection[str] = _choice(
        _ATTENTION + _SOFTMAX + _RANKS + _CACHE,
        _codes,
        "codes of bugs that are no failure here",
        default=(),
    )

    def __post_init__(self) -> None:
        for row in fields(self):
            value = getattr(self, row.name)
            if value is not row.default:
                row.metadata["expect"](row.name, value)

    def scale_of(
        self,
        d: int,  # width of a head
    ) -> float:
        "Return the right factor of the scores."
        if isinstance(self.scale, str):  # a stage of its own multiplies by the parameter
            return 1.0
        declared_scale = self.scale(d) if callable(self.scale) else self.scale
        return d**-0.5 if declared_scale is None else float(declared_scale)

    def bias_of(
        self,
        q: Tensor,  # (b, h, n_q, d)
        k: Tensor,  # (b, h, n_k, d)
    ) -> Tensor | None:  # None: no function of them was declared
        "Return what its declared function adds to the scores of queries and keys."
        if not callable(self.bias):
            return None
        of_vectors = len(parameters_of(self.bias) or ()) == 2
        bias = self.on_device(self.bias)
        return bias(q, k) if of_vectors else bias(*q.shape[-3:-1], k.shape[-2])

    def on_device(
        self,
        f: Callable[..., Tensor],  # a declared function
    ) -> Callable[..., Tensor]:  # takes tensors on the CPU, and gives one
        "Wrap a function, so that it runs where the code under test does."
        if self.device is None:
            return f

        @wraps(f)
        def called(*given: Any) -> Tensor:
            there = (t.to(self.as_device) if isinstance(t, Tensor) else t for t in given)
            return f(*there).cpu()

        return called

    @property
    def hides_future(self) -> bool:
        "Return whether it hides the future: as it says, or by a window that sees nothing ahead."
        return bool(self.causal) or self.window is not None and self.ahead is None

    @property
    def reach(self) -> Reach:
        "Return which keys a query may attend to."
        sinks = self.sinks if isinstance(self.sinks, int) else 0
        size = (self.window or 0, sinks, self.documents or 0)
        return Reach(*size, self.hides_future, self.causal == "upper-left", self.ahead or 0)

    @property
    def mask_name(self) -> str:
        "Return the parameter that takes its mask, if it is declared."
        return self.mask[0] if isinstance(self.mask, tuple) else ""

    @property
    def mask_meaning(self) -> str | bool | None:
        "Return what its mask means, or whether there is one."
        return self.mask[1] if isinstance(self.mask, tuple) else self.mask

    @property
    def asked(self) -> dict[str, list[str]]:
        "Declared function of heads → what it asks for beside them: parts of the layer may be."
        found = (("attend", self.attend, 3), ("bias", self.bias, 2))
        return {key: [*(parameters_of(f) or ())][n:] for key, f, n in found if callable(f)}

    @property
    def parts(self) -> set[str]:
        "Return the names of parts of the layer that are declared beside its projections."
        several = (self.norms, self.mixing, self.prefix, self.shortened)
        named: list[Any] = [name for some in several for name in (some or {}).values()]
        named += [self.gate, self.bias, self.sinks, self.scale, self.value_scale]
        named += [self.activation, self.residual]
        named += [name for names in self.asked.values() for name in names]
        return {name for name in named if isinstance(name, str)}

    @property
    def parts_or_numbers(self) -> bool:
        "Return whether something is declared beside which a scale is not taken as meant."
        several = (self.norms, self.mixing, self.prefix, self.bias, self.activation, self.rotate)
        others = (self.softcap, self.value_scale, self.shortened, self.residual, self.attend)
        return any((*several, *others))

    @property
    def allowed(self) -> list[int]:
        "Return the lengths that it takes, sorted; none if it takes any."
        if self.lengths is None:
            return []
        return [self.lengths] if isinstance(self.lengths, int) else sorted(self.lengths)

    def takes(
        self,
        n: int,  # length of a sequence
    ) -> bool:
        "Return whether it promises to take sequences of this length."
        return self.lengths is None or n in self.allowed

    def usual(
        self,
        n: int,  # length of a sequence
    ) -> int:
        "Return this length, or the next one that it takes."
        if not self.allowed:
            return n
        return next((m for m in self.allowed if m >= n), self.allowed[-1])

    def batch(
        self,
        b: int,  # sequences
    ) -> int:
        "Return this number of sequences, or as many as it takes."
        return b if self.max_batch is None else min(b, self.max_batch)

    @property
    def as_dtype(self) -> torch.dtype:
        "Return the type that it runs in."
        dtype: torch.dtype = dtype_of(self.dtype) or torch.float32
        return dtype

    @property
    def as_device(self) -> torch.device:
        "Return the device that it runs on."
        return torch.device(self.device or "cpu")

    def there(
        self,
        t: Any,  # a tensor; anything else stays as it is
    ) -> Any:
        "Bring a tensor to the device and type that the code runs in."
        if not isinstance(t, Tensor):
            return t
        real = self.dtype is not None and t.is_floating_point()
        return t.to(self.as_device, self.as_dtype if real else t.dtype)

    @contextmanager
    def lent(
        self,
        *tensors: Any,  # what the code is given; what is no tensor stays as it is
    ) -> Iterator[list[Any]]:
        "Bring tensors there; what the code writes into them inside stands in the caller's, too."
        copies = [self.there(t) for t in tensors]
        versions = [_version_of(t) for t in copies]
        yield copies
        with torch.no_grad():
            for t, copied, version in zip(tensors, copies, versions):
                if copied is not t and _version_of(copied) != version:
                    t.copy_(copied)

    def here(
        self,
        t: Any,  # a tensor; anything else stays as it is
    ) -> Any:
        "Bring a tensor back to the CPU and float32."
        if not isinstance(t, Tensor):
            return t
        t = t.cpu() if t.device.type != "cpu" else t
        return t.float() if self.dtype and t.dtype == self.as_dtype else t

    def applied(self) -> AbstractContextManager[None]:
        "Let numbers inside count as equal if they are as near as was declared."
        tolerance = self.tolerance or TOLERANCES.get(self.as_dtype, USUAL_TOLERANCE)
        return with_tolerance(tolerance / USUAL_TOLERANCE)


_ROWS = {row.name: row for row in fields(Contract)}
MEANINGS = {name: row.metadata["help"] for name, row in _ROWS.items()}  # choice → what it says
_CHECKS = dict.fromkeys(check for row in _ROWS.values() for check in row.metadata["checks"])
READ_BY: dict[str, tuple[str, ...]] = {  # check → the choices that it reads
    check: tuple(name for name, row in _ROWS.items() if check in row.metadata["checks"])
    for check in _CHECKS
}
Contract.__doc__ = f"{Contract.__doc__}\n\nArgs:\n" + "\n".join(
    f"    {name}: {row.metadata['help']} [{', '.join(row.metadata['checks'])}]"
    for name, row in _ROWS.items()
)


def readers_of(
    name: str,  # of a choice
    value: Any,  # what was declared
) -> list[str]:
    "Return the checks that read this value of a choice."
    checks, of_functions = (_ROWS[name].metadata[key] for key in ("checks", "of_functions"))
    theirs = None if of_functions is None else of_functions(value)
    return [check for check in checks if theirs is None or (check not in _LAYERS) is theirs]


def declared(
    check: str,  # its name, such as "check_softmax"
    **choices: Any,  # name=value, as in `Contract`
) -> Contract:
    "Return the contract of some keywords; raise Misused for what it cannot hold."
    for name, value in choices.items():
        if name not in _ROWS:
            raise Misused(
                f"{name}: expected an argument of the check, or one of"
                f" {', '.join(READ_BY[check])}; got {value!r}"
            )
    try:
        contract = Contract(**choices)
    except (TypeError, ValueError) as e:
        raise Misused(str(e)) from None
    for name, value in choices.items():
        if value != _ROWS[name].default and check not in (readers := readers_of(name, value)):
            meant = f"; {name}: {MEANINGS[name]}" if name in READ_BY[check] else ""
            raise Misused(f"{name}: expected for {', '.join(readers)} only; got {value!r}{meant}")
    return contract


def keywords_of(
    check: str,  # its name, such as "check_softmax"
) -> list[Parameter]:
    "Return the choices that a check reads, as parameters."
    rows = (_ROWS[name] for name in READ_BY[check])
    return [
        Parameter(row.name, Parameter.KEYWORD_ONLY, default=row.default, annotation=row.type)
        for row in rows
    ]
