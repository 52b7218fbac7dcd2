"""What an entry of the corpus is: something to check, how to build it, and, if it is planted, the edit that broke it."""
import ast
import inspect
import linecache
import re
import sys
import types
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache, partial
from importlib import import_module
from typing import Any

import torch

from attention_checks.catalogue import CATALOGUE

CHECKS = ("attention", "flash", "self_attention", "multi_head", "softmax", "masked_softmax", "positions", "cache",
          "cross_attention")
PACKAGE = ("softmax", "naive_attention", "masks", "self_attention", "multi_head_attention", "positions", "grouped_heads",
           "latent_attention", "flash_attention", "kv_cache", "local_attention")  # what may be edited


@dataclass(frozen=True)
class Entry:
    "One implementation and the check that it is held against."
    name: str
    check: str  # one of CHECKS
    target: Any  # a function or a class; of the package, "module.Name"
    build: Callable[[Any], Any]  # makes of it what the check is given
    args: dict[str, Any]  # the check's other arguments
    edits: tuple[tuple[str, str], ...] = ()  # what was written, what stands there now
    inside: str = ""  # of the package: the module that is edited, if another than the target's
    expect: str = ""  # the code of the bug that is planted; two that meet are joined by +
    also: str = ""  # codes that are named beside it, and are true as well, joined by +
    unnamed: bool = False  # True: it is known that the check catches it and does not find its code
    missed: bool = False  # True: it is known that the check does not catch it

    @property
    def codes(self) -> set[str]:
        "All codes that are to be named."
        return {code for code in f"{self.expect}+{self.also}".split("+") if code}

    def make(self) -> Any:
        "Build it, from a fixed seed."
        torch.manual_seed(0)
        return self.build(self.resolve())

    def resolve(self) -> Any:
        "The function or class, after the edits."
        if not isinstance(self.target, str):
            return edited(self.target, self.edits, self.name) if self.edits else self.target
        module, _, name = self.target.rpartition(".")
        if not self.edits:
            return getattr(import_module(f"attention_nb.{module}"), name)
        return package_with(self.inside or module, self.edits, self.name)[module][name]


@dataclass
class Registry:
    "The entries by name; a name is taken once."
    entries: dict[str, Entry] = field(default_factory=dict)

    def add(self, entry: Entry) -> None:
        if entry.check not in CHECKS:
            raise ValueError(f"{entry.name}: expected a check among {CHECKS}; got {entry.check!r}")
        if entry.name in self.entries:
            raise ValueError(f"{entry.name!r}: this name is taken")
        self.entries[entry.name] = entry


def planted_in(base: Entry, name: str, edits: Any, expect: str, inside: str = "", **changes: Any) -> Entry:
    "A planted entry: `base` with one or more edits; what else differs is given by name."
    pairs = tuple(edits) if edits and isinstance(edits[0], tuple) else (tuple(edits),) if edits else ()
    planted = replace(base, name=name, edits=pairs, expect=expect, inside=inside, **changes)
    unknown = planted.codes - CATALOGUE.keys()
    if unknown and not planted.missed:  # a bug that no check catches has no code
        raise ValueError(f"{name}: expected codes of attention_checks.catalogue.CATALOGUE; got {', '.join(sorted(unknown))}; a bug that has no row yet is missed=True")
    return planted


# Editing ------------------------------------------------------------------------------------------------------

compiled = cache(partial(compile, mode="exec"))  # a module that is not edited


@cache
def classes_of(module: str) -> dict[str, str]:
    "The source of the classes at the top of a module: `inspect` would read the whole file for each."
    source = inspect.getsource(sys.modules[module])
    lines = source.split("\n")
    found = [node for node in ast.parse(source).body if isinstance(node, ast.ClassDef)]
    return {node.name: "\n".join(lines[node.lineno - 1:node.end_lineno]) + "\n" for node in found}


@cache
def written(part: Any) -> str:
    "The source of a module, class or function."
    of_class = isinstance(part, type) and classes_of(part.__module__).get(part.__qualname__)
    return of_class or inspect.getsource(part)


def apply(source: str, edits: tuple[tuple[str, str], ...], name: str) -> str:
    "Make the edits; each must fit in exactly one place, so that a planted bug cannot vanish unseen."
    for old, new in edits:
        if source.count(old) != 1:
            raise ValueError(f"{name}: expected this text once in the source, found it {source.count(old)} times: {old!r}")
        source = source.replace(old, new)
    return source


def run(source: str, namespace: dict[str, Any], name: str) -> dict[str, Any]:
    "Execute `source`, in such a way that tracebacks and inspect can show it."
    filename = f"<planted: {name}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    exec(compile(source, filename, "exec"), namespace)
    return namespace


def edited(target: Any, edits: tuple[tuple[str, str], ...], name: str) -> Any:
    "A function or class of this folder with its source edited."
    source = written(target)
    source = source[re.search(rf"^(def|class) {target.__name__}\b", source, re.M).start():]  # without its decorators
    return run(apply(source, edits, name), dict(vars(sys.modules[target.__module__])), name)[target.__name__]


def package_with(module: str, edits: tuple[tuple[str, str], ...], name: str) -> dict[str, dict[str, Any]]:
    "The package's modules by name, one of them edited; those that import from it get what it now defines."
    loaded: dict[str, dict[str, Any]] = {}
    swapped: dict[int, Any] = {}  # id of what the package defines → what the edited one has in its place
    for each in PACKAGE:
        original = import_module(f"attention_nb.{each}")
        source = written(original)
        space = types.ModuleType(original.__name__).__dict__ | {"__package__": "attention_nb"}
        if each == module:
            run(apply(source, edits, name), space, f"{name}, {each}.py")
        else:
            exec(compiled(source, original.__file__), space)
        for key, value in list(space.items()):
            space[key] = swapped.get(id(value), value)
        own = {key for key in space if getattr(vars(original).get(key), "__module__", "") == original.__name__}
        swapped |= {id(vars(original)[key]): space[key] for key in own}
        loaded[each] = space
    return loaded
