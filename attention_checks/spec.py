"""What a design chooses, as its author declares it: one frozen value that every check reads."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, fields, replace
from functools import partial
from inspect import Parameter
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map_only

from attention_checks import choice_guards as guards
from attention_checks.explaining.pipeline import Work
from attention_checks.explaining.reach import Reach
from attention_checks.numbers.tolerance import TOLERANCES, USUAL_TOLERANCE, with_tolerance
from attention_checks.outcomes import Misused
from attention_checks.their_code.placement import Placement, dtype_of
from attention_checks.their_code.signatures import MASKS, called_by_name, required_by

ROLES = ("q", "k", "v", "kv", "qk", "qkv", "latent", "out")

_FUNCTIONS = ("check_attention", "check_flash")
_SELF = ("check_self_attention", "check_multi_head")
_LAYERS = (*_SELF, "check_cross_attention")
_ATTENTION = (*_FUNCTIONS, *_LAYERS)
_WEIGHTS = ("check_softmax", "check_masked_softmax", "check_positions")
_SOFTMAX = (*_WEIGHTS, "check_agrees")
_RANKS, _CACHE = ("check_distributed",), ("check_cache",)
_LEADS: dict[str, list[tuple[str, ...]]] = {  # declared function → what may come first
    "attend": [("q", "k", "v")],
    "bias": [("q", "k"), ("n_heads", "n_q", "n_k")],
    "rotate": [("x", "positions")],
    "scale": [()],
    "gate": [()],
    "value_scale": [()],
}
_BY_NAME: dict[str, Callable[..., Tensor]] = {  # choice → what the name of a part alone declares
    "scale": lambda part: part,
    "gate": lambda part: part.sigmoid(),
    "bias": lambda q, k, part: part,
    "value_scale": lambda part: part,
}


def _choice(
    checks: tuple[str, ...],  # which read it
    expect: guards.Expect,
    help: str,
    default: Any = None,
    of_functions: Callable[[Any], bool | None] | None = None,  # is it theirs? None: all take it
    part: bool = False,  # may it name a part of the layer beside its projections?
) -> Any:
    "Return a field of the contract: who reads it, its guard, and its help."
    named = {"expect": expect, "help": help, "checks": checks, "of_functions": of_functions}
    return field(default=default, metadata={**named, "part": part})


@dataclass(frozen=True)
class Contract:
    "Hold what a design may choose, as its author declares it; each field is a keyword of a check."

    causal: bool | str = _choice(
        (*_FUNCTIONS, *_SELF, "check_positions", *_RANKS),
        guards.expect_causal,
        'does it hide the future? Of a function, if n_q ≠ n_k: "lower-right", "upper-left"',
        default=False,
        of_functions=lambda value: isinstance(value, str) or None,
    )
    n_heads: int | None = _choice(
        _LAYERS, guards.expect_size, "number of heads; default: what an attribute of the layer says"
    )
    n_kv_heads: int | None = _choice(
        _LAYERS,
        guards.expect_size,
        "number of heads of keys and values; default: what their widths tell",
    )
    positions: bool | None = _choice(
        _SELF, guards.expect_flag, "does it know positions (RoPE, …)? None: find out"
    )
    call: Callable[..., Any] | None = _choice(
        _LAYERS,
        guards.expect_function,
        "call(module, x), or call(module, x, memory), with all else that it needs, such as a mask"
        " that hides nothing; default: as its parameters demand",
    )
    only_attention: bool = _choice(
        ("check_self_attention",),
        guards.expect_flag,
        "may it do nothing else, as a residual? So `check_multi_head` asks",
        default=False,
    )
    scale: float | str | Callable[..., Any] | None = _choice(
        _ATTENTION + _RANKS,
        guards.expect_scale_or_part,
        "factor of the scores (default: 1/√d_k), or a function of d; of a layer also the parameter"
        " that is the factor, one number or one for each head, or a function of parts by their"
        " names: scale=lambda tau, d: tau.exp() / d**0.5",
        of_functions=lambda value: False if guards.scales_by_parts(value) else None,
        part=True,
    )
    softcap: float | None = _choice(
        _ATTENTION + _RANKS,
        guards.expect_positive,
        "scores become softcap · tanh(scores / softcap)",
    )
    roles: Mapping[str, str | tuple[str, ...] | None] | None = _choice(
        _LAYERS,
        guards.expect_parts(*ROLES, or_none=True, several=True),
        'the layer\'s part in each role: {"q": "W_query"}, or a list of one for each head; None for'
        " what goes in as it is; several, in their order, where each makes a part of the tokens"
        ' (joint attention): {"qkv": ("text", "image")}; latent: what makes the short vectors of'
        " kv; without an output projection, no out",
    )
    projects: bool = _choice(
        _LAYERS,
        guards.expect_flag,
        "it projects what goes in to queries, keys and values (default: it does)",
        default=True,
    )
    norms: Mapping[str, str | tuple[str, ...]] | None = _choice(
        _LAYERS,
        guards.expect_parts("q", "k", "out", several=True),
        'the norms of queries (q), keys (k) and the context (out): {"q": "q_norm"}, or several as'
        ' in roles; "rms": F.rms_norm without weights; "l2": to length 1; a parameter: to length 1,'
        " and times the parameter",
        part=True,
    )
    mixing: Mapping[str, str] | None = _choice(
        _LAYERS,
        guards.expect_parts("scores", "weights"),
        'what mixes heads before the softmax (scores) or after it (weights): {"scores": "mix"}',
        part=True,
    )
    prefix: Mapping[str, str] | None = _choice(
        _LAYERS,
        guards.expect_parts("k", "v", "kv"),
        'learned keys and values beside those of tokens: {"kv": "mem_kv"}',
        part=True,
    )
    shortened: Mapping[str, str] | None = _choice(
        _LAYERS,
        guards.expect_parts("k", "v", "kv"),
        'what makes fewer keys and values along the sequence (Linformer): {"k": "E"}',
        part=True,
    )
    rotate: Callable[[Tensor, Tensor], Tensor] | None = _choice(
        _LAYERS + _RANKS,
        guards.expect_function,
        "how it rotates queries and keys: rotate(x, positions), over x (b, h, n, d); of latent"
        " attention (MLA) the features that all heads share are the last of them",
    )
    residual: str | None = _choice(
        _LAYERS,
        guards.expect_attribute,
        "what is added to the context, before the activation: what a module gives, a matrix · x, or"
        ' the input itself ("x")',
        part=True,
    )
    value_scale: float | str | Callable[..., Tensor] | None = _choice(
        _LAYERS,
        guards.expect_factor,
        "factor of the values, or of the context (default: 1); also the parameter that is the"
        " factor, or a function of parts by their names",
        part=True,
    )
    attend: Callable[..., Tensor] | None = _choice(
        ("check_attention", *_LAYERS),
        guards.expect_function,
        "what it makes of its heads where that is not softmax(q kᵀ) v: attend(q, k, v) →"
        " (b, h, n_q, d_v); by name it may ask for allowed (what the masks leave), n_heads, n_q,"
        " n_k, positions, scale, x, and for a part of the layer, or what it gives:"
        " attend(q, k, v, allowed, decay)",
    )
    activation: str | None = _choice(
        _LAYERS,
        guards.expect_attribute,
        "what is applied to the context before its projection: a module, or gelu, silu, …",
        part=True,
    )
    sinks: int | str = _choice(
        _ATTENTION + _RANKS,
        guards.expect_sinks,
        "of a function: keys at the start that all see; of a layer: the parameter of one sink"
        " logit per head",
        default=0,
        of_functions=lambda value: not isinstance(value, str),
        part=True,
    )
    gate: str | Callable[..., Tensor] | None = _choice(
        _LAYERS,
        guards.expect_attribute_or_function,
        "what multiplies the context, (b, n, h) or (b, n, h · d): the module or parameter whose"
        " sigmoid does, or a function of parts by their names: gate=lambda g: 2 * g.sigmoid()",
        part=True,
    )
    bias: str | Callable[..., Tensor] | None = _choice(
        _ATTENTION,
        guards.expect_attribute_or_function,
        "what is added to the scores: of a layer the part that gives (h, n_q, n_k); or a function"
        " bias(n_heads, n_q, n_k) → (h, n_q, n_k), or bias(q, k) → (b, h, n_q, n_k), which may ask"
        " for more by name, as attend= may: bias=lambda q, k, table: table[:, : q.shape[-2]]",
        of_functions=lambda value: None if callable(value) else False,
        part=True,
    )
    mask: str | bool | tuple[str, str] | None = _choice(
        _ATTENTION,
        guards.expect_mask_meaning,
        "what its mask means: allowed (True = may attend), blocked, bias;"
        ' with its name: ("src_mask", "blocked"); False: it takes none',
    )
    window: int | None = _choice(
        _FUNCTIONS + _SELF + _RANKS + _CACHE,
        guards.expect_size,
        "keys that a query sees, itself included: it and those before it",
    )
    ahead: int | None = _choice(
        _FUNCTIONS + _SELF + _RANKS, guards.expect_size, "keys after the query that it sees besides"
    )
    documents: int | None = _choice(
        ("check_attention",) + _RANKS,
        guards.expect_size,
        "of a function: tokens of each packed document",
    )
    lengths: int | Collection[int] | None = _choice(
        _ATTENTION + _CACHE,
        guards.expect_lengths,
        "a sequence length that it takes, or several (default: any)",
    )
    max_batch: int | None = _choice(
        _LAYERS + _CACHE, guards.expect_size, "the largest batch that it takes (default: any)"
    )
    group_order: str | None = _choice(
        _LAYERS,
        guards.expect_one_of("blocks", "tiled"),
        "query heads share keys as 0 0 1 1 (blocks, the default) or 0 1 0 1 (tiled)",
    )
    fused_order: str | None = _choice(
        _LAYERS,
        guards.expect_one_of("roles", "heads", "features"),
        "what lies side by side in a fused projection: each role, all queries first (roles); q, k"
        " and v of each head (heads), or of each feature (features); default: any of them",
    )
    dropout: str | None = _choice(
        _LAYERS,
        guards.expect_one_of("weights", "scores", "none"),
        "what dropout drops: weights or outputs (weights, the default), scores, or none",
    )
    empty: str = _choice(
        _FUNCTIONS,
        guards.expect_one_of("zero", "nan", "any"),
        "the context of a fully masked query: zero (the default), nan or any",
        default="zero",
    )
    layout: str | None = _choice(
        _ATTENTION,
        guards.expect_one_of("bnhd", "nbd", "bhwd", "bdhw"),
        "the order of its axes: of a function bnhd for bhnd; of a layer nbd, bhwd or bdhw for bnd",
        of_functions=lambda value: value == "bnhd",
    )
    returns: int | str | Callable[[Any], Tensor] | None = _choice(
        _LAYERS + _CACHE,
        guards.expect_returns,
        "the output in what a layer returns: an index or a name (default: the first tensor); what"
        " makes the others is trained, too",
    )
    gradients: bool = _choice(
        _ATTENTION + _SOFTMAX + _RANKS,
        guards.expect_flag,
        "it is differentiable (default: it is, and gradients are tried)",
        default=True,
    )
    device: str | torch.device | None = _choice(
        _ATTENTION + _CACHE, guards.expect_device, "where it runs (default: cpu)"
    )
    dtype: str | torch.dtype | None = _choice(
        _ATTENTION + _WEIGHTS + _RANKS + _CACHE,
        guards.expect_dtype,
        'the only type it is tried in; "any": float32, float16 and bfloat16 (default: float32; what'
        " goes wrong in 16 bits alone is told, and is no failure)",
    )
    tolerance: float | None = _choice(
        _ATTENTION + _SOFTMAX + _RANKS + _CACHE,
        guards.expect_positive,
        "how far apart equal numbers may be (default: 0.0002)",
    )
    skip: Collection[str] = _choice(
        _ATTENTION + _SOFTMAX + _RANKS + _CACHE,
        guards.expect_codes,
        "codes of bugs that are no failure here",
        default=(),
    )

    def __post_init__(self) -> None:
        for row in fields(self):
            value = getattr(self, row.name)
            if value is not row.default:
                row.metadata["expect"](row.name, value)

    def scale_of(self, d: int) -> float:
        "Return the right factor of the scores of heads of this width."
        if guards.scales_by_parts(self.scale):  # a stage of its own multiplies by it
            return 1.0
        declared_scale = self.scale(d) if callable(self.scale) else self.scale
        return d**-0.5 if declared_scale is None else float(declared_scale)

    @property
    def gives(self) -> str:
        "Return what its heads must give, in words."
        if self.attend:
            return "what attend= gives"
        names = [f"{name}=" for name in ("softcap", "rotate", *PART_CHOICES) if getattr(self, name)]
        return f"attention with {', '.join(names)}" if names else "softmax(q kᵀ / √d_head) v"

    def bias_of(
        self,
        q: Tensor,  # (b, h, n_q, d)
        k: Tensor,  # (b, h, n_k, d)
    ) -> Tensor:  # 0 if no function of them was declared; Misused for another shape
        "Return what its declared function adds to the scores of queries and keys."
        if not callable(self.bias):
            return torch.zeros(())
        bias, sizes = self._of_heads("bias", q, k), (*q.shape[-3:-1], k.shape[-2])
        if not isinstance(bias, Tensor) or bias.shape not in (sizes, (len(q), *sizes)):
            got = getattr(bias, "shape", type(bias).__name__)
            way = "or a function that makes them: bias=lambda q, k, table: …"
            raise Misused(
                f"bias: expected (h, n_q, n_k) = {sizes} of these numbers, {way}; got {got}"
            )
        return bias

    def learned_scale(
        self,
        q: Tensor,  # (b, h, n_q, d)
        k: Tensor,  # (b, h, n_k, d)
    ) -> Tensor:  # broadcasts with queries; Misused for another shape
        "Return what its scale makes of parts of the layer."
        made = torch.as_tensor(self._of_heads("scale", q, k))
        if made.ndim > 1 and made.shape[-2:] == (q.shape[-2], 1):
            return made
        if made.numel() not in (1, q.shape[-3]):
            wanted = "a number, one for each head, or (h, n_q, 1)"
            raise Misused(f"scale: expected {wanted}; got {tuple(made.shape)}")
        return made.flatten()[:, None, None]

    def gates(
        self,
        x: Tensor,  # (b, n, d_model)
        active: bool = True,  # False: a part that is declared by its name, without its sigmoid
    ) -> Tensor:  # (b, n, h), (b, n, width) or (b, n, 1)
        "Return what its gate makes of parts of the layer."
        part = None if active else getattr(self.gate, "keywords", {}).get("part")
        made = torch.as_tensor(self._made_by("gate", x=x) if part is None else part)
        by_token = made.ndim == 3 and made.shape[:2] == x.shape[:2]
        return made if by_token else made.flatten().expand(*x.shape[:2], -1)

    def value_factor(self) -> Any:
        "Return the factor of the values, as it was declared, or of parts of the layer."
        return self._made_by("value_scale") if callable(self.value_scale) else self.value_scale

    def attended(self, work: Work) -> Work:
        "Attend with heads as its declared function does, and not by a softmax."
        more = {"v": work.v, **dict.fromkeys(MASKS, work.allowed)}
        wrong = torch.as_tensor(work.scale).flatten() / self.scale_of(work.q.shape[-1])
        outs = [self._of_heads("attend", times * work.q, work.k, **more) for times in wrong]
        return work._replace(out=torch.stack(outs) if len(outs) > 1 else outs[0])

    def rotated(
        self,
        x: Tensor,  # (b, h, n, d)
        positions: Tensor,  # (n,)
    ) -> Tensor:
        "Return vectors as its declared function rotates them; as they are if none is declared."
        return x if self.rotate is None else self._made_by("rotate", x=x, positions=positions)

    def _of_heads(self, name: str, q: Tensor, k: Tensor, **more: Tensor) -> Tensor:
        "Return what a declared function makes of heads."
        (h, n_q, d), n_k = q.shape[-3:], k.shape[-2]
        at, scale = torch.arange(n_k), self.scale_of(d)
        sizes = {"n_heads": h, "n_q": n_q, "n_k": n_k, "d": d, "positions": at, "scale": scale}
        return self._made_by(name, q=q, k=k, **more, **sizes)

    def _made_by(self, name: str, **known: Any) -> Tensor:
        "Return what a declared function gives where the code runs."
        f = self.placement.wrap(getattr(self, name))
        made: Tensor = called_by_name(name, f, known, *_LEADS[name])
        return made

    @property
    def hides_future(self) -> bool:
        "Return whether it hides the future: causal= or window= says so, and it sees nothing ahead."
        return self.ahead is None and (bool(self.causal) or self.window is not None)

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
    def unprojected(self) -> list[str]:
        "Return the roles of what goes in as it is."
        without = [role for role, name in (self.roles or {}).items() if name is None]
        return without if self.projects else [*"qkv"]

    @property
    def keys_are_queries(self) -> bool:
        "Return whether one part is declared for queries and for keys, and not for values."
        q, k, v = ((self.roles or {}).get(role) for role in "qkv")
        return bool(q) and q == k and q != v

    @property
    def asked(self) -> dict[str, list[str]]:
        "Declared function, or name of a part in its place → the parts of the layer that it needs."
        declared = {name: getattr(self, name) for name in _LEADS}
        named = {name: [f] for name, f in declared.items() if isinstance(f, str)}
        asking = {name: f for name, f in declared.items() if callable(f)}
        return named | {name: required_by(f)[len(_LEADS[name][0]) :] for name, f in asking.items()}

    def knowing(self, parts: Mapping[str, Any]) -> Contract:
        "Return the contract whose functions are given those parts of the layer that they ask for."
        there = partial(tree_map_only, Tensor, lambda t: t.to(self.placement.device))
        bound: dict[str, Any] = {}
        for name, asked in self.asked.items():
            own = there({part: parts[part] for part in asked if part in parts})
            f = getattr(self, name)
            if isinstance(f, str):
                bound[name] = partial(_BY_NAME[name], part=own[f])
            elif own:
                bound[name] = partial(f, **own)
        return replace(self, **bound)

    @property
    def declared_parts(self) -> set[str]:
        "Return the names of parts of the layer that are declared beside its projections."
        named: list[Any] = [name for names in self.asked.values() for name in names]
        for value in (getattr(self, name) for name in PART_CHOICES):
            each = value.values() if isinstance(value, Mapping) else [value]
            named += [name for names in each for name in guards.names_in(names)]
        return {name for name in named if isinstance(name, str)}

    @property
    def orders_tokens(self) -> bool:
        "Return whether something is declared that may tell positions."
        parts = [some for some in (self.roles or {}).values() if len(guards.names_in(some)) > 1]
        return any(map(bool, (self.bias, self.rotate, self.shortened, self.attend, parts)))

    @property
    def settles_scale(self) -> bool:
        "Return whether something is declared beside which a scale is not meant: all but a gate."
        names = {"softcap", "rotate", "attend", *PART_CHOICES} - {"gate"}
        return any(getattr(self, name) for name in names)

    @property
    def allowed_lengths(self) -> list[int]:
        "Return the lengths that it takes, sorted; none if it takes any."
        if self.lengths is None:
            return []
        return [self.lengths] if isinstance(self.lengths, int) else sorted(self.lengths)

    def takes(self, n: int) -> bool:
        "Return whether it promises to take sequences of this length."
        return self.lengths is None or n in self.allowed_lengths

    def nearest_length(self, n: int) -> int:
        "Return this length, or the next one that it takes."
        if not self.allowed_lengths:
            return n
        return next((m for m in self.allowed_lengths if m >= n), self.allowed_lengths[-1])

    def batch(self, b: int) -> int:
        "Return this number of sequences, or as many as it takes."
        return b if self.max_batch is None else min(b, self.max_batch)

    @property
    def placement(self) -> Placement:
        "Return where it runs, and in which type."
        return Placement(torch.device(self.device or "cpu"), dtype_of(self.dtype))

    def applied(self) -> AbstractContextManager[None]:
        "Let numbers inside count as equal if they are as near as was declared."
        dtype = self.placement.dtype or torch.float32
        tolerance = self.tolerance or TOLERANCES.get(dtype, USUAL_TOLERANCE)
        return with_tolerance(tolerance / USUAL_TOLERANCE)


_ROWS = {row.name: row for row in fields(Contract)}


PART_CHOICES = [name for name, row in _ROWS.items() if row.metadata["part"]]
HELP = {name: row.metadata["help"] for name, row in _ROWS.items()}  # choice → what it says
_CHECKS = dict.fromkeys(check for row in _ROWS.values() for check in row.metadata["checks"])
READ_BY: dict[str, tuple[str, ...]] = {  # check → the choices that it reads
    check: tuple(name for name, row in _ROWS.items() if check in row.metadata["checks"])
    for check in _CHECKS
}
Contract.__doc__ = f"{Contract.__doc__}\n\nArgs:\n" + "\n".join(
    f"    {name}: {row.metadata['help']} [{', '.join(row.metadata['checks'])}]"
    for name, row in _ROWS.items()
)


def readers_of(name: str, value: Any) -> list[str]:
    "Return the checks that read this value of a choice."
    checks, of_functions = (_ROWS[name].metadata[key] for key in ("checks", "of_functions"))
    theirs = None if of_functions is None else of_functions(value)
    if theirs is None:
        return list(checks)
    return [check for check in checks if (check not in _LAYERS) == theirs]


def declared(check: str, **choices: Any) -> Contract:
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
            meant = f"; {name}: {HELP[name]}" if name in READ_BY[check] else ""
            raise Misused(f"{name}: expected for {', '.join(readers)} only; got {value!r}{meant}")
    return contract


def keywords_of(check: str) -> list[Parameter]:
    "Return the choices that a check reads, as parameters."
    rows = (_ROWS[name] for name in READ_BY[check])
    return [
        Parameter(row.name, Parameter.KEYWORD_ONLY, default=row.default, annotation=row.type)
        for row in rows
    ]
