"""Trace a layer: find its queries, keys and values, and write down what one call gives."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import torch.nn as nn
from torch import Tensor

from attention_checks.explaining.pipeline import Bug, RightStep
from attention_checks.explaining.reach import Reach
from attention_checks.numbers.tensors import nearly
from attention_checks.outcomes import Misused
from attention_checks.spec import Contract
from attention_checks.their_code.conventions import heads_of
from attention_checks.trace import recording
from attention_checks.trace.input_projections import (
    RecordedCall,
    Rows,
    bare_bias,
    names_of_projections,
    read_input_projections,
)
from attention_checks.trace.own_stages import own_stages
from attention_checks.trace.roles import ASKED, FoundProjections, find_projections
from attention_checks.trace.tables import kept_by, rotations_in, tables_handed_on
from attention_checks.trace.token_order import TokenOrder, in_token_order, order_of_tokens


class OutputProjection(NamedTuple):
    "What happened to the output projection of a layer in one call; with several, to the last."

    received: Tensor | None  # what went in; None: none was called
    gave: Tensor | None  # what came out; None: none was called
    uncalled: dict[str, nn.Module]  # those that were never called, by name
    matrices: dict[str, Tensor]  # those that are bare parameters, by name
    matrix_bias: Tensor | None  # what is added to those
    last_bias: Tensor | None  # what the last one adds; None: nothing


class Trace(NamedTuple):
    "What happened to the projections of a layer in one call."

    x: Tensor  # the input, (b, n, d_model)
    out: Tensor  # the output, (b, n, d_out)
    projections: Rows
    untransposed: list[tuple[tuple[Bug, ...], Rows]]  # the same of untransposed weights, with bugs
    output_projection: OutputProjection
    calls: dict[str, int]  # how often each recognised projection was called
    names: dict[str, list[str]]  # role → names
    unrecognised: list[str]  # modules and parameters that are none of them
    stage_choices: list[dict[str, RightStep]] = [{}]  # its own stages, such as a cap: all ways
    rotations: list[Tensor] = []  # complex numbers that may rotate pairs of features, (n, pairs)
    contract: Contract = Contract()  # what was declared of it
    n_heads: int | None = None  # as declared, or as an attribute of the layer tells
    memory: Tensor | None = None  # what keys and values are made of; None: the input
    order: TokenOrder | None = None  # of tokens in its projections, if it is another

    @property
    def context(self) -> Tensor | None:
        "Return what went into the output projection; None: none was called."
        return self.output_projection.received

    @property
    def stages(self) -> dict[str, RightStep]:
        "Return its own stages in the way that is tried first."
        return self.stage_choices[0]

    def __repr__(self) -> str:
        widths = {role: [r.shape[-1] for r in rows] for role, rows in self.projections.items()}
        return f"Trace(x {tuple(self.x.shape)}, names {self.names}, widths {widths})"

    def width(self, *roles: str) -> int:  # 0 if there are none
        "Return the width of all projections of some roles together."
        return sum(r.shape[-1] for role in roles for r in self.projections.get(role, []))

    @property
    def fused_in_thirds(self) -> bool:  # False: grouped heads, or a way not known here
        "Return whether a fused projection, if there is one, is three times as wide as all heads."
        thirds = 3 * self.context_width
        # a context is as wide as one head where heads are averaged
        return self.width("qkv") in (0, thirds, thirds * (self.n_heads or 1))

    @property
    def context_width(self) -> int:
        "Return the width of the context, all heads together."
        if self.context is not None:
            return self.context.shape[-1]
        end = self.output_projection
        widths = [m.weight.shape[-1] for m in end.uncalled.values() if isinstance(m, nn.Linear)]
        widths += [m.numel() // self.out.shape[-1] for m in end.matrices.values()]
        return (widths or [self.out.shape[-1]])[0]

    @property
    def gate_width(self) -> int:  # 0: there is none in it
        "Return how many numbers of the one projection of queries gate the context, or its heads."
        queries = self.projections.get("q", [])
        keys = self.width("k") or self.width("kv") // 2
        if len(queries) != 1 or self.context is None or keys > self.context_width:
            return 0
        if "latent" in self.projections:
            return 0
        more = queries[0].shape[-1] - self.context_width
        return more if more in (self.context_width, self.n_heads) else 0

    @property
    def query_width(self) -> int:  # 0 if there are none
        "Return the width of all queries together."
        if "qkv" in self.projections and not self.fused_in_thirds:
            return self.context_width
        return self.width("q") - self.gate_width or self.width("qk") // 2 or self.width("qkv") // 3

    def shared_width(self, h: int) -> int:  # 0: there is none
        "Return the width of the rotated key that all of h heads share (MLA)."
        if "latent" not in self.projections:
            return 0
        of_heads = self.width("k") or self.width("kv") - self.context_width
        return (self.width("q") - of_heads) // h

    @property
    def heads(self) -> list[int]:
        "List the numbers of heads that fit, or the one that is known."
        stack = len(self.projections.get("q", []))  # several: single heads
        number = stack if stack > 1 else self.n_heads
        if number:
            return [number]
        return [h for h in range(1, min(self.query_width, 64) + 1) if self.query_width % h == 0]

    @property
    def why_fewer_keys(self) -> str:
        "Say that keys and values are fewer than tokens; empty if they are not."
        n, rows = len(self.x[0]), [*self.projections.get("kv", []), *self.projections.get("k", [])]
        m = rows[0].shape[1] if rows else n
        of = n if self.memory is None else self.memory.shape[1]
        both = of if self.memory is None else n + of  # queries may be keys as well
        why = f"keys and values are made of {m} vectors, not of {of} tokens: what makes them"
        return "" if m in (of, both) else f"{why} was not compared"

    def allowed(
        self,
        window: int | None = None,  # tokens that a token may attend to, itself included; None: all
    ) -> Tensor | None:  # boolean, True = may attend, (n, n); None: everything
        "Return the mask that should be in force."
        n, ahead = self.x.shape[1], self.contract.ahead or 0
        bounded = self.contract.hides_future or ahead
        return Reach(window or 0, ahead=ahead).mask(n, n) if bounded else None


def trace_layer(
    layer: nn.Module,  # in evaluation mode
    x: Tensor,  # its input, (b, n, d_model)
    call: recording.OneCall,
    contract: Contract = Contract(),  # what was declared of it
    memory: Tensor | None = None,  # what keys and values are made of, as the call knows
) -> Trace:
    "Call a layer once and write down what goes in and out of its projections."
    recorded = _recorded(layer, x, call, contract, memory)
    inputs, names = read_input_projections(recorded), _names_by_role(recorded.parts)
    _must_be_fused(contract, names)
    knowing = recording.given_parts(layer, x, call, contract)
    return Trace(
        x=x,
        out=recorded.out,
        **inputs._asdict(),
        output_projection=_output_projection(recorded, names),
        names=names,
        stage_choices=[own for each in knowing for own in own_stages(layer, x, call, each)],
        rotations=rotations_in(recorded.tables) or rotations_in(kept_by(layer, x.shape[1])),
        contract=knowing[0],
        n_heads=contract.n_heads or heads_of(layer),
        memory=memory,
        order=recorded.order,
    )


def _must_be_fused(contract: Contract, names: Mapping[str, list[str]]) -> None:
    "Raise Misused if an order is declared of a fused projection, and there is none."
    if contract.fused_order and not {"qkv", "kv"} & names.keys():
        raise Misused(f"fused_order: expected a fused projection; it has {', '.join(names)}")


def _recorded(
    layer: nn.Module, x: Tensor, call: recording.OneCall, contract: Contract, memory: Tensor | None
) -> RecordedCall:
    "Call a layer and keep what goes in and out of its parts, in the order of the tokens."
    again = lambda: call(layer, x)
    parts = _projections_of(layer, again, contract, memory)
    with tables_handed_on(layer, x.shape[1]) as tables:
        out, ins, outs = recording.recorded_call(
            {n: parts.leaves[n] for n in names_of_projections(parts)}, again
        )
    ins, outs = (recording.with_streams(kept, parts.streams) for kept in (ins, outs))
    order = order_of_tokens(parts.leaves, ins, x, partial(call, layer)) if memory is None else None
    if order is not None:
        apart = _giving_output(parts, outs, out, x)
        ins, outs = (in_token_order(kept, order, x, apart) for kept in (ins, outs))
    products = recording.products_of({n: p for n, (_, p) in parts.bare.items()}, again)
    return RecordedCall(
        layer, x, call, contract, memory, parts, out, ins, outs, products, tables, order
    )


def _giving_output(
    parts: FoundProjections, outs: Mapping[str, Any], out: Tensor, x: Tensor
) -> set[str]:
    "Return the output projections that give the output, perhaps without x, token by token."
    ends = [n for n, role in parts.role_by_name.items() if role == "out" and n in outs]
    rows = {n: recording.as_rows(outs[n][0], x) for n in ends}
    wanted = [out, out - x] if out.shape == x.shape else [out]
    return {n for n, t in rows.items() if t is not None and any(nearly(t, w) for w in wanted)}


def _projections_of(
    layer: nn.Module, call: Callable[[], Tensor], contract: Contract, memory: Tensor | None
) -> FoundProjections:
    "Return the projections; with a memory a fused one is called twice, and split in unknown ways."
    declared = {role: name for role, name in (contract.roles or {}).items() if name}
    if contract.keys_are_queries and memory is None:
        declared.pop("k")
    parts = find_projections(layer, call, declared)
    fused = [n for n, role in parts.role_by_name.items() if role == "qkv" and memory is not None]
    called = recording.recorded_call({n: parts.leaves[n] for n in fused}, call)[1] if fused else {}
    return parts._replace(
        role_by_name={n: role for n, role in parts.role_by_name.items() if n not in called}
    )


def _output_projection(recorded: RecordedCall, named: dict[str, list[str]]) -> OutputProjection:
    "Return what went into the output projection, came out of it and is added; those not called."
    parts = recorded.parts
    silent = [n for n in named.get("out", []) if n in parts.role_by_name and n not in recorded.ins]
    return OutputProjection(
        received=_at_the_end(named, recorded.ins, recorded.x),
        gave=_at_the_end(named, recorded.outs, recorded.x),
        uncalled={name: parts.leaves[name] for name in silent},
        matrices={n: recording.as_float(p) for n, (role, p) in parts.bare.items() if role == "out"},
        matrix_bias=bare_bias(recorded.layer, "out"),
        last_bias=_last_bias(recorded.layer, named),
    )


def _last_bias(layer: nn.Module, named: dict[str, list[str]]) -> Tensor | None:
    "Return the bias of the last output projection, a module or bare."
    last = dict(layer.named_modules()).get(next(reversed(named.get("out", [])), ""))
    bias = recording.as_float(getattr(last, "bias", None)) if last else bare_bias(layer, "out")
    return bias if isinstance(bias, Tensor) else None


def _names_by_role(parts: FoundProjections) -> dict[str, list[str]]:
    "Role → names, of modules and then of bare parameters."
    roles = [*parts.role_by_name.items(), *((n, role) for n, (role, _) in parts.bare.items())]
    named: dict[str, list[str]] = {}
    for role in (*ASKED, "latent", "out"):
        if names := [n for n, r in roles if r == role]:
            named[role] = names
    return named


def _at_the_end(named: dict[str, list[str]], kept: Mapping[str, Any], x: Tensor) -> Tensor | None:
    "Return what went into, or came out of, the last output projection that was called."
    called = [name for name in named.get("out", []) if name in kept]
    return recording.as_rows(kept[called[-1]][0], x) if called else None
