"""The built wheel, as someone gets it who has never seen this repository."""
import json
import os
import re
import shutil
import sys
from importlib.metadata import PathDistribution, distribution
from pathlib import Path
from zipfile import Path as ZipPath

import pytest
from conftest import ROOT, python, sh, tree
from packaging.requirements import Requirement

pytestmark = pytest.mark.xdist_group("wheel")  # build it once

SMOKE = """
import json, sys
import attention_nb, fastcore, torch

torch.manual_seed(0)
mha = attention_nb.MultiHeadAttention(d_model=12, n_heads=3)
out, weights = mha(torch.randn(2, 5, 12), causal=True, need_weights=True)
out.square().sum().backward()
print(json.dumps(dict(
    version=attention_nb.__version__, out=out.shape, weights=weights.shape,
    finite=all(p.grad.isfinite().all().item() for p in mha.parameters()),
    files={m.__name__: m.__file__ for m in (attention_nb, fastcore, torch)},
    fastcore=fastcore.__version__)))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    "The wheel, built from the source distribution, built from a copy: so each holds what the next one needs."
    tmp = tmp_path_factory.mktemp("build")
    unwanted = shutil.ignore_patterns(".*", "docs", "build", "dist", "*.egg-info", "__pycache__")
    shutil.copytree(ROOT, tmp / "source", ignore=unwanted)
    python("-m", "build", "--no-isolation", "--outdir", tmp / "dist", tmp / "source", cwd=tmp)
    return next((tmp / "dist").glob("*.whl"))


def test_contents(wheel):
    "The package, its py.typed, the licence; nothing else."
    names = set(wheel_names(wheel))
    package = {f"attention_nb/{name}" for name in tree(ROOT / "attention_nb")}
    rest = {n for n in names if not re.match(r"attention_nb-[^/]+\.dist-info/", n)}
    assert rest == package, f"only in the wheel: {rest - package}; missing there: {package - rest}"
    assert "attention_nb/py.typed" in names
    assert any(n.endswith("/LICENSE") for n in names), "the licence is not in the wheel"


def wheel_names(wheel: Path) -> list[str]:
    "The files in a wheel."
    return [str(f) for f in metadata(wheel).files]


def metadata(wheel: Path) -> PathDistribution:
    "What the wheel says of itself."
    return PathDistribution(next(p for p in ZipPath(wheel).iterdir() if p.name.endswith(".dist-info")))


def test_requirements(wheel):
    "torch and fastcore, nothing more."
    needs = [Requirement(r) for r in metadata(wheel).requires]
    assert {r.name for r in needs if not r.marker} == {"torch", "fastcore"}
    assert set(metadata(wheel).metadata.get_all("Provides-Extra")) == {"plots", "dev"}


def closure(name: str) -> set[str]:
    "The names of an installed distribution and of all that it requires here."
    names, new = set(), {name}
    while new:
        names |= new
        needs = [Requirement(r) for n in new for r in distribution(n).requires or []]
        new = {r.name for r in needs if not r.marker or r.marker.evaluate({"extra": ""})} - names
    return names


def link(name: str, site: Path) -> None:
    "Make an installed distribution visible in another environment, by links to its files."
    dist = distribution(name)
    for top in {f.parts[0] for f in dist.files if f.parts[0] not in ("..", "__pycache__")}:
        source, target = Path(dist.locate_file(top)), site / top
        if source.exists() and not target.exists():  # several distributions may share a folder
            target.symlink_to(source)


def test_works_where_only_its_requirements_are(wheel, tmp_path):
    """Outside the repository, in an environment of its own, with the newest fastcore.

    torch and what torch itself requires are linked from .venv, for they can be gigabytes; all else has to come with
    the wheel. So a requirement that is missing from the wheel is missing here too.
    """
    python("-m", "venv", "--without-pip", tmp_path / "env")
    site = next((tmp_path / "env").glob("lib/python*/site-packages"))
    for name in closure("torch"):
        link(name, site)
    inside = tmp_path / "env/bin/python"
    env = {k: v for k, v in os.environ.items() if k not in ("PIP_CONSTRAINT", "PYTHONPATH")}
    (tmp_path / "torch.txt").write_text(f"torch=={distribution('torch').version}\n")
    python("-m", "pip", "--python", inside, "install", "--quiet", "--disable-pip-version-check",
           "--constraint", tmp_path / "torch.txt", wheel, cwd=tmp_path, env=env)
    said = json.loads(sh(inside, "-I", "-W", "ignore", "-c", SMOKE, cwd=tmp_path, env=env))

    assert said["version"] == metadata(wheel).version
    assert (said["out"], said["weights"]) == ([2, 5, 12], [2, 3, 5, 5])
    assert said["finite"], "a gradient is not finite"
    assert all(file.startswith(str(tmp_path)) for file in said["files"].values()), said["files"]
