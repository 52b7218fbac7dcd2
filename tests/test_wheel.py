"""The built wheel, as someone gets it who has never seen this repository.

If it fails: The message says which file or requirement; setup.py, MANIFEST.in and settings.ini hold
what goes in. It needs a network, for the newest fastcore.
"""

import json
import os
import re
import shutil
import tarfile
from importlib.metadata import PathDistribution, distribution
from pathlib import Path
from zipfile import Path as ZipPath

import pytest
from conftest import ROOT, fail_if, python, sh, tree
from packaging.requirements import Requirement

pytestmark = pytest.mark.ci


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """The wheel, built from the source distribution, built from a copy:
    so each holds what the next one needs.
    """
    tmp = tmp_path_factory.mktemp("build")
    unwanted = shutil.ignore_patterns(".*", "docs", "build", "dist", "*.egg-info", "__pycache__")
    shutil.copytree(ROOT, tmp / "source", ignore=unwanted)
    python("-m", "build", "--no-isolation", "--outdir", tmp / "dist", tmp / "source", cwd=tmp)
    return next((tmp / "dist").glob("*.whl"))


# They are loaded without the package.
BESIDE = {"attention_nb_command.py", "pytest_attention_nb.py"}


def metadata(wheel: Path) -> PathDistribution:
    "What the wheel says of itself."
    return PathDistribution(
        next(p for p in ZipPath(wheel).iterdir() if p.name.endswith(".dist-info"))
    )


def shipped() -> set[str]:
    "The files of the book's package and of that of the checks."
    return {
        f"{name}/{file}"
        for name in ("attention_nb", "attention_checks")
        for file in tree(ROOT / name)
    }


def test_contents(wheel):
    "Both packages with their py.typed, the plugin for pytest, the licence, and nothing else."
    names = {str(f) for f in metadata(wheel).files if ".dist-info/" not in str(f)}
    package = shipped() | BESIDE
    found = [f"left out: {name}" for name in sorted(package - names)]
    found += [f"too much: {name}" for name in sorted(names - package)]
    found += [
        f"left out: {name}"
        for name in ["LICENSE"]
        if not any(f.name == name for f in metadata(wheel).files)
    ]
    fail_if(
        found,
        "The wheel should hold the files of attention_nb/ and attention_checks/, and the licence:",
    )


def test_source_distribution(wheel):
    """What the wheel is built from, and what says what it is;
    no tests, for they need the notebooks and the site.
    """
    with tarfile.open(next(wheel.parent.glob("*.tar.gz"))) as archive:
        names = {file.name.partition("/")[2] for file in archive if file.isfile()}
    made = {name for name in names if ".egg-info/" in name} | {"PKG-INFO", "setup.cfg"}
    package = shipped()
    beside = BESIDE | {
        "CHANGELOG.md",
        "CITATION.cff",
        "LICENSE",
        "MANIFEST.in",
        "README.md",
        "pyproject.toml",
        "settings.ini",
        "setup.py",
    }
    assert names - made == package | beside


@pytest.mark.parametrize("code", ["", "https://github.com/somebody/attention"])
def test_links_where_no_repository_is_around(code, tmp_path):
    """On PyPI a link of the README is absolute; while the repository has no address,
    it is text and nothing is dead.
    """
    for name in ("LICENSE", "README.md", "pyproject.toml", "setup.py"):
        shutil.copy(ROOT / name, tmp_path)
    ini, count = re.subn(
        r"(?m)^git_url *=.*$",
        f"git_url = {code}",
        (ROOT / "settings.ini").read_text(encoding="utf-8"),
    )
    (tmp_path / "settings.ini").write_text(ini, encoding="utf-8")
    python(
        "-c",
        "from setuptools import build_meta; build_meta.prepare_metadata_for_build_wheel('.')",
        cwd=tmp_path,
    )
    said = PathDistribution(next(tmp_path.glob("*.dist-info"))).metadata
    relative, now = (
        {t for t in re.findall(r"\]\(([^)\s]+)\)", text) if not t.startswith("https://pytorch.org")}
        for text in ((ROOT / "README.md").read_text(encoding="utf-8"), said.json["description"])
    )
    assert count == 1 and relative
    assert now == {
        f"{code}{t}" if t.startswith("#") else f"{code}/blob/main/{t}" for t in relative if code
    }
    assert [url for url in said.get_all("Project-URL", []) if url == f"Source, {code}"] == [
        f"Source, {code}"
    ] * bool(code)


def test_requirements(wheel):
    "torch and fastcore, nothing more."
    needs = [Requirement(r) for r in metadata(wheel).requires]
    assert {r.name for r in needs if not r.marker} == {"torch", "fastcore"}, (
        "what every user has to install"
    )
    assert set(metadata(wheel).metadata.get_all("Provides-Extra")) == {
        "plots",
        "train",
        "models",
        "gpu",
        "dev",
    }, "the extras"


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

    torch and what torch itself requires are linked from .venv, for they can be gigabytes; all else
    has to come with the wheel. So a requirement that is missing from the wheel is missing here too.
    """
    python("-m", "venv", "--without-pip", tmp_path / "env")
    site = next((tmp_path / "env").glob("lib/python*/site-packages"))
    for name in closure("torch"):
        link(name, site)
    inside = tmp_path / "env/bin/python"
    env = {k: v for k, v in os.environ.items() if k not in ("PIP_CONSTRAINT", "PYTHONPATH")}
    (tmp_path / "torch.txt").write_text(f"torch=={distribution('torch').version}\n")
    python(
        "-m",
        "pip",
        "--python",
        inside,
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--constraint",
        tmp_path / "torch.txt",
        wheel,
        cwd=tmp_path,
        env=env,
    )
    said = json.loads(
        sh(inside, "-I", "-W", "ignore", ROOT / "tests/smoke.py", cwd=tmp_path, env=env)
    )
    assert said.pop("version") == metadata(wheel).version
    assert (
        sh(inside, "-I", "-m", "attention_nb", "--version", cwd=tmp_path, env=env).split()[-1]
        == metadata(wheel).version
    )
    fail_if(
        [f for f in said["files"] if not f.startswith(str(tmp_path))],
        "Imported from outside the environment:",
    )
