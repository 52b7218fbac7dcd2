"""What queries, keys and values a layer made in one recorded call, by the parts that made them."""

from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial
from itertools import chain, islice, product
from typing import Any, NamedTuple

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor

from attention_checks.catalogue.layers import untransposed
from attention_checks.explaining.pipeline import Bug
from attention_checks.spec import Contract
from attention_checks.their_code.conventions import biased_role
from attention_checks.trace.recording import OneCall, as_float, as_rows, full_name, used_of
from attention_checks.trace.roles import FoundProjections, sources, unrecognised_in
from attention_checks.trace.token_order import TokenOrder

Rows = dict[str, list[Tensor]]  # role → what each projection of that role gave, (b, n, width)
_Options = list[tuple[str, Tensor]]  # what it gave; under its name, what it would untransposed


class RecordedCall(NamedTuple):
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


class InputProjections(NamedTuple):
    "What happened to the projections of queries, keys and values; fields as in `Trace`."

    projections: Rows
    untransposed: list[tuple[tuple[Bug, ...], Rows]]
    calls: dict[str, int]
    unrecognised: list[str]


def read_input_projections(recorded: RecordedCall) -> InputProjections:
    "Return what the input projections gave, how often they were called, and what is none of them."
    parts, contract = recorded.parts, recorded.contract
    silent = _uncalled_weights(parts, recorded.outs)
    weights = silent | {n: p for n, (_, p) in parts.bare.items()}
    used = used_of(recorded.layer, weights, recorded.x, recorded.call)
    read = [name for name in used if name in silent]
    given = _given_by_projections(recorded, read)
    ways = _combinations([(role, options) for _, role, options in given if options])
    if contract.keys_are_queries and recorded.memory is None:
        ways = [(bugs, rows | {"k": rows.get("q", [])}) for bugs, rows in ways]
    as_it_is = {role: [recorded.of[role]] for role in contract.unprojected}
    ran = {*recorded.outs, *parts.bare} - {name for name, _, options in given if options}
    recognised = _names_with_role(recorded) - {name for name, *_ in given if name in ran}
    unsure = [] if contract.roles else read
    declared = {full_name(recorded.layer, name) for name in contract.declared_parts}
    return InputProjections(
        projections=(ways[0][1] if contract.projects else {}) | as_it_is,
        untransposed=[(bugs, rows | as_it_is) for bugs, rows in ways[1:]],
        calls=_call_counts(parts, recorded.outs, used) | dict.fromkeys(read, 1),
        unrecognised=unrecognised_in(recorded.layer, recognised | declared, unsure),
    )


def _names_with_role(recorded: RecordedCall) -> set[str]:
    "Names of what has a role; beside a declared gate, activation functions are its own."
    own = list(recorded.layer.named_modules()) if recorded.contract.gate is not None else []
    gating = {name for name, m in own if type(m).__module__ == "torch.nn.modules.activation"}
    return {*names_of_projections(recorded.parts), *recorded.parts.bare, *gating}


def names_of_projections(parts: FoundProjections) -> list[str]:
    "Return the names of all modules that have a role, of each part of the tokens."
    return [*dict.fromkeys([*parts.role_by_name, *chain.from_iterable(parts.streams.values())])]


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


def _given_by_projections(
    recorded: RecordedCall, read: list[str]
) -> list[tuple[str, str, _Options]]:
    "Return what each input projection gave, by name and role: called, a bare matrix, or only read."
    found, parts, of, inside = [], recorded.parts, recorded.of, _inputs_inside(recorded)
    for name, role in parts.role_by_name.items():
        got = recorded.outs.get(name)
        given = _given_when_called(of[role], parts.leaves[name], name, got) or _of_other_length(
            role, recorded, got
        )
        found.append((name, role, given))
    for name, (role, p) in parts.bare.items():
        source = inside.get(name.rpartition(".")[0], of)
        made = _from_other_vectors(recorded, name, source[role])
        by_matrix = made or _given_by_matrix(source, role, p, recorded.layer)
        found += [(name, r, given) for r, given in by_matrix]
    for name in read:
        m, role = parts.leaves[name], parts.role_by_name[name]
        apart = role == "qkv" and of["q"] is not of["k"]
        options = [(r, _third_if_read(of[r], m, i)) for i, r in enumerate("qkv")] if apart else []
        more = options or [
            (role, _given_if_read(of[role], m, name, bare_bias(recorded.layer, role)))
        ]
        found += [(name, *each) for each in more]
    return [row for row in found if row[1] != "out"]


def _from_other_vectors(
    recorded: RecordedCall, name: str, source: Tensor
) -> list[tuple[str, _Options]]:
    "Return what a bare matrix gave if it read other vectors than its source, such as latent ones."
    role, p = recorded.parts.bare[name]
    read, gave = (as_rows(t, source) for t in recorded.products.get(name, (None, None)))
    if role == "out" or read is None or gave is None or read.shape == source.shape:
        return []
    return [(role, [("", gave)])]


def _inputs_inside(recorded: RecordedCall) -> dict[str, dict[str, Tensor]]:
    "Return the input of each role in the modules that hold bare matrices, as they are given it."
    owners = {name.rpartition(".")[0] for name in recorded.parts.bare} - {""}
    given: dict[str, dict[str, Tensor]] = {}

    def note(name: str, _: nn.Module, args: Any, kwargs: Any) -> None:
        "Keep what a module is given, if it is given three inputs."
        of = [recorded.of[role] for role in "qkv"]
        rows = [as_rows(as_float(t), s) for t, s in zip([*args, *kwargs.values()], of)]
        if len(found := [t for t in rows if t is not None]) == 3:
            q, k, v = found
            given[name] = dict(q=q, qk=q, qkv=q, k=k, kv=k, latent=k, v=v, out=q)

    with ExitStack() as hooks, torch.no_grad():
        for name, m in recorded.layer.named_modules():
            if name in owners:
                hook = m.register_forward_pre_hook(partial(note, name), with_kwargs=True)
                hooks.enter_context(hook)
        if owners:
            recorded.again()
    return given


def _given_when_called(x: Tensor, m: nn.Module, name: str, got: Any) -> _Options:
    "Return what a called projection gave, and what its weight would give untransposed."
    rows = as_rows(got[0] if got else None, x)
    of_pairs = getattr(m, "out_features", 0) == 1  # it makes a score of a pair of tokens
    if rows is None or of_pairs and rows.shape[-1] > 1:
        return []
    return [("", rows), *_given_if_read(x, m, name)[1:2]]


def _of_other_length(role: str, recorded: RecordedCall, got: Any) -> _Options:
    "Return keys or values made of fewer vectors than there are tokens, or of queries as well."
    rows, x = got[0] if got and role in ("k", "v", "kv") else None, recorded.of[role]
    if not isinstance(rows, Tensor) or rows.ndim != 3 or len(rows) != len(x):
        return []
    both = 0 if recorded.memory is None else recorded.x.shape[1] + x.shape[1]
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
        return [(role, _multiplied(of[role], p, bare_bias(layer, role)))]
    bias = bare_bias(layer, role)
    found: list[tuple[str, _Options]] = []
    for i, r in enumerate("qkv"):
        thirds = [t.chunk(3, -1)[i] for _, t in _multiplied(of[r], p, bias)]
        found.append((r, [("", third) for third in thirds]))
    return found


def _combinations(found: list[tuple[str, _Options]]) -> list[tuple[tuple[Bug, ...], Rows]]:
    "Every choice of options, as bugs and vectors by role: all first, all last, mixed."
    ways, several = [], [options for _, options in found]
    most = sum(len(options) > 1 for options in several)
    for chosen in islice(product(*several), 64):
        rows: Rows = {}
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


def bare_bias(layer: nn.Module, role: str) -> Tensor | None:
    "Return the bare bias of a bare projection of this role."
    named = [(biased_role(name), p) for name, p in layer.named_parameters()]
    found = {read_as: as_float(bias) for read_as, bias in reversed(named) if read_as}
    parts = dict(zip("qkv", found["in"].chunk(3))) | {"qkv": found["in"]} if "in" in found else {}
    if {"q", "v"} <= found.keys():  # keys may have none
        q, v = found["q"].flatten(), found["v"].flatten()
        parts["qkv"] = torch.cat([q, found.get("k", torch.zeros_like(v)).flatten(), v])
    return (parts | found).get(role)
