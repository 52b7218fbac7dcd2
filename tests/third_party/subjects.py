"""What is tried: a class or a function of a package, how it is made and called,
and what is declared of it.
"""

from __future__ import annotations

import importlib.util
import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

PACKAGES = Path(__file__).parent / "packages.txt"
LIBRARIES: dict[str, torch.library.Library] = {}  # a name holds as long as its library


@dataclass(frozen=True)
class Subject:
    """One thing to try.

    `make` gets it, and gives what is checked; `call`, as in its check, calls that.
    """

    path: str  # module and name, with dots; then a colon and a word, where there are several of it
    make: Callable[[Any], Any]
    call: Callable[..., Any] | None = None
    check: str = "check_self_attention"
    declared: dict[str, Any] = field(default_factory=dict)

    def found(self) -> Any:
        "The class or function itself."
        module, _, name = self.path.partition(":")[0].rpartition(".")
        return getattr(importlib.import_module(module), name)

    def made(self) -> Any:
        """What is checked, with 1 where a class leaves a parameter as it lay in memory:
        its model would set it.
        """
        was = torch.are_deterministic_algorithms_enabled()
        torch.use_deterministic_algorithms(True, warn_only=True)  # torch.empty is NaN then
        try:
            thing = self.make(self.found())
        finally:
            torch.use_deterministic_algorithms(was)
        with torch.no_grad():
            for p in thing.parameters() if isinstance(thing, torch.nn.Module) else ():
                if not torch.nn.parameter.is_lazy(p) and p.is_floating_point():
                    p.masked_fill_(p.isnan(), 1.0)
        return thing

    def written(self) -> tuple[str, int]:
        "Its file, beginning with the package's own folder, and line; no file if it is compiled."
        found = inspect.unwrap(self.found())
        try:
            file, line = inspect.getsourcefile(found), inspect.getsourcelines(found)[1]
        except (OSError, TypeError):
            return "", 0
        parts, top = Path(file or "").parts, self.path.partition(".")[0]
        here = max((i for i, part in enumerate(parts) if part.partition(".")[0] == top), default=0)
        return "/".join(parts[here:]), line


def layer(
    path: str,
    make: Callable[[Any], Any],
    call: Callable[..., Any] | None = None,
    /,
    **declared: Any,
) -> Subject:
    "A layer over rows (b, n, d_model)."
    return Subject(path, make, call, "check_self_attention", declared)


def cross(
    path: str,
    make: Callable[[Any], Any],
    call: Callable[..., Any] | None = None,
    /,
    **declared: Any,
) -> Subject:
    "A layer over rows x (b, n_q, d_model) and a memory (b, n_k, d_memory)."
    return Subject(path, make, call, "check_cross_attention", declared)


def function(path: str, make: Callable[[Any], Any] = lambda f: f, /, **declared: Any) -> Subject:
    "A function of q, k, v."
    return Subject(path, make, None, "check_attention", declared)


@dataclass(frozen=True)
class Package:
    "A line of packages.txt: what is installed, without what it asks for, and its table."

    name: str
    version: str
    needs: tuple[str, ...]  # other packages, pinned, that its attention imports
    tables: Path  # the folder of all tables

    def subjects(self) -> Iterable[Subject]:
        "What is tried of it; the package must be importable."
        name_operators()
        name = self.name.lower().replace("-", "_")
        spec = importlib.util.spec_from_file_location(f"table_{name}", self.tables / f"{name}.py")
        module = importlib.util.module_from_spec(spec)  # type: ignore[arg-type]
        spec.loader.exec_module(module)  # type: ignore[union-attr]
        return module.SUBJECTS


def name_operators() -> None:
    """PyPI's torchvision is compiled for torch with CUDA; its Python half imports without,
    if two operators have names.
    """
    if "torchvision" in LIBRARIES:
        return
    LIBRARIES["torchvision"] = library = torch.library.Library("torchvision", "FRAGMENT")
    for name in ("nms", "qnms"):
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")


def packages(path: Path = PACKAGES) -> list[Package]:
    "Every line: the package, then what it needs, each as name==version."
    lines = [
        line.partition("#")[0].split() for line in path.read_text(encoding="utf-8").splitlines()
    ]
    pinned = [(line[0].partition("=="), tuple(line[1:])) for line in lines if line]
    return [
        Package(name, version, needs, path.parent / "tables")
        for (name, _, version), needs in pinned
    ]
