"""Find the parts that make queries, keys, values and the output: by names, shapes or inputs."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack, suppress
from functools import partial
from os.path import commonprefix
from typing import Any, NamedTuple

import torch
import torch.nn as nn
from torch import Tensor

from attention_checks.choice_guards import names_in
from attention_checks.numbers.tensors import nearly
from attention_checks.their_code.conventions import biased_role, role_of
from attention_checks.trace.recording import as_float, as_rows, part_of, recorded_call

ASKED = ("q", "k", "v", "kv", "qk", "qkv")  # roles of input projections
_LISTS = (nn.ModuleList, nn.ModuleDict)
_QUIET = (*_LISTS, nn.Sequential, nn.Dropout, nn.Identity, nn.Softmax, nn.Flatten)


class FoundProjections(NamedTuple):
    "The parts of a layer that compute, and what they are for."

    leaves: dict[str, nn.Module]  # by name
    role_by_name: dict[str, str]  # name of a projection → its role
    bare: dict[str, tuple[str, nn.Parameter]]  # name of a matrix used as x @ W → role and matrix
    streams: dict[str, list[str]] = {}  # name → all that make parts of the tokens, it first


def find_projections(
    layer: nn.Module,  # in evaluation mode
    call: Callable[[], Tensor],  # one call of it
    declared: Mapping[str, Any] | None = None,  # role → name, as the caller declares it
) -> FoundProjections:
    "Find the projections of a layer, by their names unless they were declared."
    leaves = _leaves(layer, _wrapping_modules(layer, call))
    if declared:
        q = declared.get("q", "")
        if q and q == declared.get("k") == declared.get("v"):  # one matrix for all three
            declared = {"qkv": q, **{r: n for r, n in declared.items() if r not in ASKED}}
        return _declared_projections(layer, leaves, declared)
    bare = _bare_matrices(layer, leaves)
    inward = [name for name, (role, _) in bare.items() if role != "out"]
    return FoundProjections(leaves, _without_outer_ends(_roles(leaves), inward), bare)


def _declared_projections(
    layer: nn.Module, leaves: dict[str, nn.Module], declared: Mapping[str, Any]
) -> FoundProjections:
    "Return the declared projections: modules that are called, and bare matrices."
    parts = {
        name: (role, part)
        for role, names in declared.items()
        for each in names_in(names)
        for name, part in _members(each, part_of(layer, each, f"roles[{role!r}]")).items()
    }
    modules = {name: m for name, (_, m) in parts.items() if isinstance(m, nn.Module)}
    bare = {name: (role, p) for name, (role, p) in parts.items() if name not in modules}
    streams = {names_in(some)[0]: names_in(some) for some in declared.values()}
    parts_of_tokens = {name for some in streams.values() for name in some[1:]}
    names = {name: parts[name][0] for name in modules if name not in parts_of_tokens}
    if "out" not in declared:
        guessed = _without_outer_ends(
            names | {n: r for n, r in _roles(leaves).items() if r == "out"}, [*bare]
        )
        names |= {name: role for name, role in guessed.items() if role == "out"}
    several = {name: some for name, some in streams.items() if len(some) > 1}
    return FoundProjections({**leaves, **modules}, names, bare, several)


def _members(name: str, part: Any) -> dict[str, Any]:
    "Return a declared part by its name; of a list, a projection for each head, its members."
    members = part.named_children() if isinstance(part, _LISTS) else ()
    return {f"{name}.{each}": m for each, m in members} or {name: part}


def _leaves(layer: nn.Module, wraps: Iterable[str] = ()) -> dict[str, nn.Module]:
    "Return modules that compute, by name: linear layers, others with weights, some that wrap one."
    found: dict[str, nn.Module] = {}
    for name, m in layer.named_modules():
        weighs = any(True for _ in m.parameters(recurse=False)) and not list(m.children())
        computes = weighs or isinstance(m, nn.Linear) or name in wraps
        if name and computes and not _within(name, found):
            found[name] = m
    return found


def _within(name: str, outer: Iterable[str]) -> bool:
    "Return whether something is one of some modules, or a part of one."
    return any(name == each or name.startswith(f"{each}.") for each in outer)


def _wrapping_modules(layer: nn.Module, call: Callable[[], Tensor]) -> list[str]:
    "Return modules with children that are called as one projection, such as one with an adapter."
    whole = {name: m for name, m in layer.named_modules() if name and list(m.children())}
    callable_ones = {name: m for name, m in whole.items() if not isinstance(m, _LISTS)}
    found = {
        name: m for name, m in callable_ones.items() if _of_inputs(name) and _has_one_role(name, m)
    }
    return list(recorded_call(found, call)[1]) if found else []


def _of_inputs(name: str) -> bool:
    "Return whether a module may be one projection of the input; 'attn' names a whole layer."
    role = role_of(name)
    fused = re.search("q.*k.*v", name.rpartition(".")[2])
    return role in ("q", "k", "v", "kv") or role == "qkv" and bool(fused)


def _has_one_role(name: str, m: nn.Module) -> bool:
    "Return whether no part of a module tells another role than the module."
    roles = {
        role_of(f"{name}.{part}")
        for part, inner in m.named_modules()
        if part and not list(inner.children())
    }
    return roles <= {None, "out", role_of(name)}


def _per_token(m: nn.Module) -> bool:
    "Return whether it maps each token by itself: a linear layer, or a convolution of width 1."
    narrow = isinstance(m, (nn.Conv1d, nn.Conv2d)) and set(m.kernel_size) == {1}
    return narrow or bool(list(m.children())) or getattr(m, "weight", torch.empty(0)).ndim == 2


def _roles(leaves: dict[str, nn.Module]) -> dict[str, str | None]:
    "Name → role; four or three unnamed projections in one list are q, k, v (and out), in order."
    roles = {name: role_of(name) if _per_token(m) else None for name, m in leaves.items()}
    if {"q", "k", "qkv"} & set(roles.values()):
        return roles
    for name, m in leaves.items():
        threefold = isinstance(m, nn.Linear) and m.out_features == 3 * m.in_features
        if threefold and roles[name] in (None, "out"):
            roles[name] = "qkv"  # its shape says more than its name
    if "qkv" in roles.values():
        return roles
    lists = Counter(name.rsplit(".", 1)[0] for name in leaves if name.rsplit(".", 1)[-1].isdigit())
    for prefix, count in lists.items():
        numbered = [f"{prefix}.{i}" for i in range(count)]  # else others stand between them
        if count in (3, 4) and leaves.keys() >= {*numbered}:
            roles |= dict(zip(numbered, ("q", "k", "v", "out")))
    return roles


def _without_outer_ends(all_roles: Mapping[str, str | None], bare: list[str]) -> dict[str, str]:
    "Drop output projections of a surrounding block: those further from the queries than others."
    roles = {name: role for name, role in all_roles.items() if role}
    inward = [*bare, *(name for name, role in roles.items() if role != "out")]
    if sum(roles.get(q, "qkv") in ("q", "qkv") for q in inward) != 1:
        return roles  # several heads or layers
    ends = [name for name, role in roles.items() if role == "out"]
    steps = {name: min(_distance(name, q) for q in inward) for name in ends}
    least = min(steps.values(), default=0)
    return {name: role for name, role in roles.items() if steps.get(name, 0) <= least}


def _distance(a: str, b: str) -> int:
    "Return how far two names are apart, up and down the tree of modules."
    one, other = a.split("."), b.split(".")
    return len(one) + len(other) - 2 * len(commonprefix([one, other]))


def _bare_matrices(
    layer: nn.Module, leaves: dict[str, nn.Module]
) -> dict[str, tuple[str, nn.Parameter]]:
    "Matrices that are parameters of their own, used as x @ W, by name: role and matrix."
    own = [(name, p, role_of(name)) for name, p in layer.named_parameters()]
    if "out" in map(role_of, leaves):  # a matrix of that name mixes heads
        own = [row for row in own if row[2] != "out"]
    recognised, found = {"q", "k", "qkv"} & {role for _, _, role in own}, {}
    for name, p, role in own:
        wide = p.ndim == 2 and max(p.shape) == 3 * min(p.shape)
        stacked = p.ndim == 3 and len(p) == 3
        if role == "out" and not recognised and (wide or stacked):
            role = "qkv"  # its shape says more than its name
        if role and p.ndim in (2, 3) and not _within(name, leaves):
            found[name] = (role, p)
    return found


def unrecognised_in(
    layer: nn.Module,  # the layer
    recognised: set[str],  # names of what has a role
    read: list[str],  # names of those whose weight is read without a call
) -> list[str]:
    "List what is no projection: modules, parameters, buffers; and weights read without a call."
    modules = [n for n, m in layer.named_modules() if n and not _needs_no_name(m)]
    parameters = [n for n, _ in layer.named_parameters() if not _within(n, recognised)]
    kept = [
        (n, t) for n, t in layer.named_buffers() if t.numel() > 1 and not _within(n, recognised)
    ]
    buffers = [n for n, t in kept if t.ndim < 2 or t.shape[-1] != t.shape[-2]]  # others are masks
    found = [n for n in modules + parameters if not _within(n, recognised) and not biased_role(n)]
    return found + buffers + [f"{name}, whose weight is read without a call" for name in read]


def _needs_no_name(m: nn.Module) -> bool:
    "Return whether a module is not named beside its parts: a list, dropout, the attention itself."
    learns = any(True for _ in m.parameters())
    usual = not learns and re.search("attention|attend|drop", type(m).__name__, re.I)
    return bool(list(m.children()) or isinstance(m, _QUIET) or usual)


def sources(
    x: Tensor,  # source of the queries, (b, n_q, d_model)
    memory: Tensor | None,  # what is attended to, (b, n_k, d_memory); None: x
) -> dict[str, Tensor]:
    "Return the input of each role."
    of_memory = ("k", "v", "kv", "latent")
    given = dict.fromkeys((*ASKED, "latent", "out"), x)
    return given if memory is None else given | dict.fromkeys(of_memory, memory)


def what_is_read(
    layer: nn.Module,  # the layer, in evaluation mode
    x: Tensor,  # source of the queries, (b, n_q, d_model)
    memory: Tensor,  # what is attended to, (b, n_k, d_memory)
    call: Callable[[nn.Module, Tensor], Tensor],  # how to call it with both
    declared: Mapping[str, Any] | None = None,  # role → name, as the caller declares it
) -> list[tuple[str, str, bool]]:  # name, role, and whether it reads the input of its role
    "Say which projections read which of two inputs, even if the layer fails."
    parts, inputs = dict(layer.named_modules()), (sources(x, memory), sources(memory, x))
    named = [(name, role) for role, some in (declared or {}).items() for name in names_in(some)]
    by_name = {name: role for name, role in named if name in parts}
    roles = by_name or _roles(_leaves(layer))
    found: list[tuple[str, str, bool]] = []
    with ExitStack() as hooks, torch.no_grad(), suppress(Exception):
        for name, role in roles.items():
            if role in ("q", "k", "v", "kv"):
                right, wrong = (of[role] for of in inputs)
                note = partial(_note_what_is_read, found, name, role, right, wrong)
                hooks.enter_context(parts[name].register_forward_pre_hook(note))
        call(layer, x)
    return found


def _note_what_is_read(
    found: list[tuple[str, str, bool]],
    name: str,
    role: str,
    right: Tensor,  # the input of its role
    wrong: Tensor,  # the other one
    _: nn.Module,
    args: tuple[Any, ...],
) -> None:
    "Note which of two inputs a projection is given, if it is one of them."
    for given, well in ((right, True), (wrong, False)):
        rows = as_rows(as_float(args[0]), given) if args else None
        if rows is not None and nearly(rows, given):
            found.append((name, role, well))
