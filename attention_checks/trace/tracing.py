"""Trace a layer: find its queries, keys and values, and write down what one call gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from itertools import chain, islice, product
from typing import Any, NamedTuple

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor

from attention_checks.catalogue.layers import untransposed
from attention_checks.conventions import biased_role, heads_of
from attention_checks.pipeline import Bug, RightStep
from attention_checks.reach import Reach
from attention_checks.spec import OF_ANY_FUNCTION, Contract
from attention_checks.trace.own_stages import own_stages
from attention_checks.trace.recording import (
    OneCall,
    as_float,
    as_rows,
    given_parts,
    products_of,
    recorded_call,
    used_of,
    with_streams,
)
from attention_checks.trace.roles import (
    ASKED,
    FoundProjections,
    find_projections,
    sources,
    unrecognised_in,
)
from attention_checks.trace.tables import kept_by, rotations_in, tables_handed_on
from attention_checks.trace.token_order import TokenOrder, in_token_order, order_of_tokens

_Bugs = tuple[Bug, ...]
_Rows = dict[str, list[Tensor]]  # role → what each projection of that role gave, (b, n, width)


class OutputProjection(NamedTuple):
    "What happened to the output projection of a layer in one call; with several, to the last."

    received: Tensor | None  # what went in; None: none was called
    gave: Tensor | None  # what came out; None: none was called
    uncalled: dict[str, nn.Module]  # those that were never called, by name
    matrices: dict[str, Tensor]  # those that are bare parameters, by name
    matrix_bias: Tensor | None  # what is added to those
    last_bias: Tensor | None  # what the last one adds; None: nothing


class _InputProjections(NamedTuple):
    "What happened to the projections of queries, keys and values; fields as in `Trace`."

    projections: _Rows
    untransposed: list[tuple[_Bugs, _Rows]]
    calls: dict[str, int]
    unrecognised: list[str]


class Trace(NamedTuple):
    "What happened to the projections of a layer in one call."

    x: Tensor  # the input, (b, n, d_model)
    out: Tensor  # the output, (b, n, d_out)
    projections: _Rows
    untransposed: list[tuple[_Bugs, _Rows]]  # the same for weights used untransposed, with bugs
    output_projection: OutputProjection
    calls: dict[str, int]  # how often each recognised projection was called
    names: dict[str, list[str]]  # role → names
    unrecognised: list[str]  # modules and parameters that are none of them
    stage_choices: list[dict[str, RightStep]] = [
        {}
    ]  # its own stages, such as a cap: all that may be
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
    def fused_in_thirds(
        self,
    ) -> bool:  # False: fewer heads for keys and values, or a way not known here
        "Return whether a fused projection, if there is one, is three times as wide as the context."
        return self.width("qkv") in (0, 3 * self.context_width)

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


_Options = list[tuple[str, Tensor]]  # what it gave; under its name, what it would untransposed


class _RecordedCall(NamedTuple):
    "One call of a layer, and what went in and out of its parts."

    layer: nn.Module
    x: Tensor
    call: OneCall
    contract: Contract
    memory: Tensor | None
    parts: FoundProjections
    out: Tensor
    ins: Mapping[str, Any]
    outs: Mapping[str, Any]
    products: Mapping[str, Any]  # what bare matrices were multiplied with, and gave
    tables: list[list[Tensor]]  # what modules handed on that has one vector for each token
    order: TokenOrder | None  # of tokens in its projections, if it is another

    def again(self) -> Tensor:
        "Call the layer once more."
        return self.call(self.layer, self.x)

    @property
    def of(self) -> dict[str, Tensor]:
        "Return the input of each role."
        return sources(self.x, self.memory)


def trace_layer(
    layer: nn.Module,  # in evaluation mode
    x: Tensor,  # its input, (b, n, d_model)
    call: OneCall,
    contract: Contract = Contract(),  # what was declared of it
    memory: Tensor | None = None,  # what keys and values are made of, as the call knows
) -> Trace:
    "Call a layer once and write down what goes in and out of its projections."
    seen = _recorded(layer, x, call, contract, memory)
    inputs, names = _input_projections(seen), _names_by_role(seen.parts)
    with_parts = given_parts(layer, x, call, contract)
    return Trace(
        x=x,
        out=seen.out,
        **inputs._asdict(),
        output_projection=_output_projection(seen, names),
        names=names,
        stage_choices=own_stages(layer, x, call, with_parts),
        rotations=rotations_in(seen.tables) or rotations_in(kept_by(layer, x.shape[1])),
        contract=with_parts,
        n_heads=contract.n_heads or heads_of(layer),
        memory=memory,
        order=seen.order,
    )


def _recorded(
    layer: nn.Module, x: Tensor, call: OneCall, contract: Contract, memory: Tensor | None
) -> _RecordedCall:
    "Call a layer and keep what goes in and out of its parts, in the order of the tokens."
    again = lambda: call(layer, x)
    parts = _projections_of(layer, again, contract, memory)
    with tables_handed_on(layer, x.shape[1]) as tables:
        out, ins, outs = recorded_call({n: parts.leaves[n] for n in _names_of(parts)}, again)
    ins, outs = (with_streams(kept, parts.streams) for kept in (ins, outs))
    order = order_of_tokens(parts.leaves, ins, x, partial(call, layer)) if memory is None else None
    if order is not None:
        ins, outs = (in_token_order(kept, order, x) for kept in (ins, outs))
    products = products_of({n: p for n, (_, p) in parts.bare.items()}, again)
    return _RecordedCall(
        layer, x, call, contract, memory, parts, out, ins, outs, products, tables, order
    )


def _input_projections(seen: _RecordedCall) -> _InputProjections:
    "Return what the input projections gave, how often they were called, and what is none of them."
    parts, contract, silent = seen.parts, seen.contract, _uncalled_weights(seen.parts, seen.outs)
    weights = silent | {n: p for n, (_, p) in parts.bare.items()}
    used = used_of(seen.layer, weights, seen.x, seen.call)
    read = [name for name in used if name in silent]
    given = _given_by_projections(seen, read)
    ways = _combinations([(role, options) for _, role, options in given if options])
    as_it_is = {role: [seen.of[role]] for role in contract.unprojected}
    ran = {*seen.outs, *parts.bare} - {name for name, _, options in given if options}
    recognised = _names_with_role(seen) - {name for name, *_ in given if name in ran}
    return _InputProjections(
        projections=(ways[0][1] if contract.projects else {}) | as_it_is,
        untransposed=[(bugs, rows | as_it_is) for bugs, rows in ways[1:]],
        calls=_call_counts(parts, seen.outs, used) | dict.fromkeys(read, 1),
        unrecognised=unrecognised_in(seen.layer, recognised | contract.declared_parts, read),
    )


def _names_with_role(seen: _RecordedCall) -> set[str]:
    "Names of what has a role; beside a declared gate, activation functions are its own."
    declared = any(getattr(seen.contract, name) is not None for name in OF_ANY_FUNCTION)
    own = list(seen.layer.named_modules()) if declared else []
    gating = {name for name, m in own if type(m).__module__ == "torch.nn.modules.activation"}
    return {*_names_of(seen.parts), *seen.parts.bare, *gating}


def _names_of(parts: FoundProjections) -> list[str]:
    "Return the names of all modules that have a role, of each part of the tokens."
    return [*dict.fromkeys([*parts.role_by_name, *chain.from_iterable(parts.streams.values())])]


def _projections_of(
    layer: nn.Module, call: Callable[[], Tensor], contract: Contract, memory: Tensor | None
) -> FoundProjections:
    "Return the projections; with a memory a fused one is called twice, and split in unknown ways."
    declared = {role: name for role, name in (contract.roles or {}).items() if name}
    parts = find_projections(layer, call, declared)
    fused = [n for n, role in parts.role_by_name.items() if role == "qkv" and memory is not None]
    called = recorded_call({n: parts.leaves[n] for n in fused}, call)[1] if fused else {}
    return parts._replace(
        role_by_name={n: role for n, role in parts.role_by_name.items() if n not in called}
    )


def _output_projection(seen: _RecordedCall, named: dict[str, list[str]]) -> OutputProjection:
    "Return what went into the output projection, came out of it and is added; those not called."
    parts = seen.parts
    silent = [n for n in named.get("out", []) if n in parts.role_by_name and n not in seen.ins]
    return OutputProjection(
        received=_at_the_end(named, seen.ins, seen.x),
        gave=_at_the_end(named, seen.outs, seen.x),
        uncalled={name: parts.leaves[name] for name in silent},
        matrices={n: as_float(p) for n, (role, p) in parts.bare.items() if role == "out"},
        matrix_bias=_bare_bias(seen.layer, "out"),
        last_bias=_last_bias(seen.layer, named),
    )


def _last_bias(layer: nn.Module, named: dict[str, list[str]]) -> Tensor | None:
    "Return the bias of the last output projection, a module or bare."
    last = dict(layer.named_modules()).get(next(reversed(named.get("out", [])), ""))
    bias = as_float(getattr(last, "bias", None)) if last else _bare_bias(layer, "out")
    return bias if isinstance(bias, Tensor) else None


def _names_by_role(parts: FoundProjections) -> dict[str, list[str]]:
    "Role → names, of modules and then of bare parameters."
    roles = [*parts.role_by_name.items(), *((n, role) for n, (role, _) in parts.bare.items())]
    named: dict[str, list[str]] = {}
    for role in (*ASKED, "latent", "out"):
        if names := [n for n, r in roles if r == role]:
            named[role] = names
    return named


def _call_counts(
    parts: FoundProjections, outs: Mapping[str, Any], used: list[str]
) -> dict[str, int]:
    "Return how often each projection was called, or each bare matrix used."
    called = {name: len(outs.get(name, ())) for name in parts.role_by_name}
    return called | {name: int(name in used) for name in parts.bare}


def _uncalled_weights(parts: FoundProjections, outs: Mapping[str, Any]) -> dict[str, Any]:
    "Return the weights of input projections that were not called; they may be read all the same."
    inputs = [name for name, role in parts.role_by_name.items() if role != "out"]
    silent = [name for name in inputs if name not in outs]
    weights = {name: getattr(parts.leaves[name], "weight", None) for name in silent}
    return {name: weight for name, weight in weights.items() if weight is not None}


def _given_by_projections(seen: _RecordedCall, read: list[str]) -> list[tuple[str, str, _Options]]:
    "Return what each input projection gave, by name and role: called, a bare matrix, or only read."
    found, parts, of, inside = [], seen.parts, seen.of, _inputs_inside(seen)
    for name, role in parts.role_by_name.items():
        got = seen.outs.get(name)
        given = _given_when_called(of[role], parts.leaves[name], name, got) or _of_other_length(
            role, seen, got
        )
        found.append((name, role, given))
    for name, (role, p) in parts.bare.items():
        source = inside.get(name.rpartition(".")[0], of)
        made = _from_other_vectors(seen, name, source[role])
        by_matrix = made or _given_by_matrix(source, role, p, seen.layer)
        found += [(name, r, given) for r, given in by_matrix]
    for name in read:
        m, role = parts.leaves[name], parts.role_by_name[name]
        apart = role == "qkv" and of["q"] is not of["k"]
        options = [(r, _third_if_read(of[r], m, i)) for i, r in enumerate("qkv")] if apart else []
        more = options or [(role, _given_if_read(of[role], m, name, _bare_bias(seen.layer, role)))]
        found += [(name, *each) for each in more]
    return [row for row in found if row[1] != "out"]


def _from_other_vectors(
    seen: _RecordedCall, name: str, source: Tensor
) -> list[tuple[str, _Options]]:
    "Return what a bare matrix gave if it read other vectors than its source, such as latent ones."
    role, p = seen.parts.bare[name]
    read, gave = (as_rows(t, source) for t in seen.products.get(name, (None, None)))
    if role == "out" or read is None or gave is None or read.shape == source.shape:
        return []
    return [(role, [("", gave)])]


def _inputs_inside(seen: _RecordedCall) -> dict[str, dict[str, Tensor]]:
    "Return the input of each role in the modules that hold bare matrices, as they are given it."
    owners = {name.rpartition(".")[0] for name in seen.parts.bare} - {""}
    given: dict[str, dict[str, Tensor]] = {}

    def note(name: str, _: nn.Module, args: Any, kwargs: Any) -> None:
        "Keep what a module is given, if it is given three inputs."
        of = [seen.of[role] for role in "qkv"]
        rows = [as_rows(as_float(t), s) for t, s in zip([*args, *kwargs.values()], of)]
        if len(found := [t for t in rows if t is not None]) == 3:
            q, k, v = found
            given[name] = dict(q=q, qk=q, qkv=q, k=k, kv=k, latent=k, v=v, out=q)

    with ExitStack() as hooks, torch.no_grad():
        for name, m in seen.layer.named_modules():
            if name in owners:
                hook = m.register_forward_pre_hook(partial(note, name), with_kwargs=True)
                hooks.enter_context(hook)
        if owners:
            seen.again()
    return given


def _at_the_end(named: dict[str, list[str]], kept: Mapping[str, Any], x: Tensor) -> Tensor | None:
    "Return what went into, or came out of, the last output projection that was called."
    called = [name for name in named.get("out", []) if name in kept]
    return as_rows(kept[called[-1]][0], x) if called else None


def _given_when_called(x: Tensor, m: nn.Module, name: str, got: Any) -> _Options:
    "Return what a called projection gave, and what its weight would give untransposed."
    rows = as_rows(got[0] if got else None, x)
    of_pairs = getattr(m, "out_features", 0) == 1  # it makes a score of a pair of tokens
    if rows is None or of_pairs and rows.shape[-1] > 1:
        return []
    return [("", rows), *_given_if_read(x, m, name)[1:2]]


def _of_other_length(role: str, seen: _RecordedCall, got: Any) -> _Options:
    "Return keys or values made of fewer vectors than there are tokens, or of queries as well."
    rows, x = got[0] if got and role in ("k", "v", "kv") else None, seen.of[role]
    if not isinstance(rows, Tensor) or rows.ndim != 3 or len(rows) != len(x):
        return []
    both = 0 if seen.memory is None else seen.x.shape[1] + x.shape[1]
    return [("", rows)] if rows.shape[1] < x.shape[1] or rows.shape[1] == both else []


def _given_if_read(x: Tensor, m: nn.Module, name: str, bare: Tensor | None = None) -> _Options:
    """Return what a projection gives if its weight is read, with its bias or a bare one, and
    untransposed if it is square.
    """
    with torch.no_grad():
        w, b = as_float(getattr(m, "weight", None)), as_float(getattr(m, "bias", None))
        b = bare if b is None and bare is not None and len(bare) == len(w) else b
        if not isinstance(m, nn.Linear) or w.shape[1] != x.shape[-1]:
            return []
        options = [("", F.linear(x, w, b))]
        if w.shape[0] == w.shape[1]:
            options += [(name, F.linear(x, w.T, bias)) for bias in dict.fromkeys((b, None))]
        return options


def _third_if_read(x: Tensor, m: nn.Module, i: int) -> _Options:
    "Return what queries, keys or values are, if they are read from one fused weight."
    w, b = (as_float(getattr(m, name, None)) for name in ("weight", "bias"))
    with torch.no_grad():
        rows = F.linear(x, w.chunk(3)[i], None if b is None else b.chunk(3)[i])
    return [("", rows)]


def _multiplied(x: Tensor, p: Tensor, bias: Tensor | None) -> _Options:
    "Return the input times a bare parameter; for a square one both x @ W and x @ W.T are correct."
    d, products, p = x.shape[-1], [], as_float(p)
    with torch.no_grad():
        if p.ndim == 3 and d in p.shape[:2]:  # one matrix per head
            per_head = "bnd,hde->bnhe" if p.shape[1] == d else "bnd,dhe->bnhe"
            products = [torch.einsum(per_head, x, p).flatten(2)]
        if p.ndim == 2:
            products = [x @ w for w in (p, p.T) if w.shape[0] == d]
        return [("", t if bias is None else t + bias.flatten()) for t in products]


def _given_by_matrix(
    of: Mapping[str, Tensor], role: str, p: Tensor, layer: nn.Module
) -> list[tuple[str, _Options]]:
    "Return what a bare parameter gives; of a fused one that reads two inputs, part by part."
    if role == "out":
        return []
    if role != "qkv" or of["q"] is of["k"]:
        return [(role, _multiplied(of[role], p, _bare_bias(layer, role)))]
    bias = _bare_bias(layer, role)
    found: list[tuple[str, _Options]] = []
    for i, r in enumerate("qkv"):
        thirds = [t.chunk(3, -1)[i] for _, t in _multiplied(of[r], p, bias)]
        found.append((r, [("", third) for third in thirds]))
    return found


def _combinations(found: list[tuple[str, _Options]]) -> list[tuple[tuple[Bug, ...], _Rows]]:
    "Every choice of options, as bugs and vectors by role: all first, all last, mixed."
    ways, several = [], [options for _, options in found]
    most = sum(len(options) > 1 for options in several)
    for chosen in islice(product(*several), 64):
        rows: _Rows = {}
        for (role, _), (_, t) in zip(found, chosen):
            rows.setdefault(role, []).append(t)
        changed = sum(pick is not options[0] for pick, options in zip(chosen, several))
        wrong = [name for name, _ in chosen if name]
        if changed == 0:
            degree = 0
        elif changed == most:
            degree = 1
        else:
            degree = 2
        ways.append((degree, (untransposed(wrong),) if wrong else (), rows))
    return [(bugs, rows) for _, bugs, rows in sorted(ways, key=lambda way: way[0])]


def _bare_bias(layer: nn.Module, role: str) -> Tensor | None:
    "Return the bare bias of a bare projection of this role."
    named = [(biased_role(name), p) for name, p in layer.named_parameters()]
    found = {read_as: as_float(bias) for read_as, bias in reversed(named) if read_as}
    parts = dict(zip("qkv", found["in"].chunk(3))) | {"qkv": found["in"]} if "in" in found else {}
    if {"q", "v"} <= found.keys():  # keys may have none
        q, v = found["q"].flatten(), found["v"].flatten()
        parts["qkv"] = torch.cat([q, found.get("k", torch.zeros_like(v)).flatten(), v])
    return (parts | found).get(role)
