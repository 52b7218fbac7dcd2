"""The versions that the project promises: of Python, of torch, of all that the book is built with."""
import re
from configparser import ConfigParser

import pytest
import yaml
from conftest import ROOT, fail_if, python
from packaging.requirements import Requirement

config = ConfigParser(delimiters=["="], interpolation=None)
config.read(ROOT / "settings.ini", encoding="utf-8")
CFG = config["DEFAULT"]
VERSIONS = CFG["python_versions"].split()
CUDA = re.compile(r"nvidia|cuda|triton|torch$")  # torch names its own


def pins(text: str) -> dict[str, Requirement]:
    "Pinned requirements by name."
    return {r.name: r for line in text.splitlines() if line and not line.startswith("#") for r in [Requirement(line)]}


@pytest.mark.parametrize("version", VERSIONS)
def test_pins_can_be_installed(version, tmp_path):
    "On each Python, constraints.txt leaves a version with a wheel of all that the set-up asks for, and chooses every one."
    (tmp_path / "asked.txt").write_text("\n".join(f"{CFG['requirements']} {CFG['dev_requirements']}".split()))
    said = python("-m", "uv", "pip", "compile", tmp_path / "asked.txt", "--constraint=constraints.txt",
                  f"--python-version={version}", "--python-platform=linux", "--only-binary=:all:",
                  "--no-python-downloads", "--quiet", "--no-header", "--no-annotate")
    pinned = pins((ROOT / "constraints.txt").read_text(encoding="utf-8"))
    fail_if([name for name in pins(said) if name not in pinned and not CUDA.match(name)],
            "Not in constraints.txt, so a later set-up may get another version: `make constraints`")


NEWER = r"Python (\d[.\d]*) (?:or|and) newer"
OLDEST = {
    "settings.ini": [r"min_python = (\S+)"],
    "pyproject.toml": [r'python_version = "(\S+)"'],
    "Makefile": [NEWER, r"version_info < \((\d+, \d+)\)"],
    "nbs/index.ipynb": [NEWER], "CONTRIBUTING.md": [NEWER], "constraints.txt": [NEWER],
}


def test_one_list_of_pythons():
    "`python_versions` in settings.ini; what cannot read it says the same."
    texts = {name: (ROOT / name).read_text(encoding="utf-8") for name in OLDEST}
    said = {f"{name}: {pattern}": re.findall(pattern, texts[name]) for name, patterns in OLDEST.items() for pattern in patterns}
    fail_if([f"{what} finds {found}" for what, found in said.items() if [f.replace(", ", ".") for f in found] != VERSIONS[:1]],
            f"The oldest Python is {VERSIONS[0]}, but")
    workflow = yaml.safe_load((ROOT / ".github/workflows/test.yml").read_text(encoding="utf-8"))
    assert workflow["jobs"]["test"]["strategy"]["matrix"]["python"] == VERSIONS, "the matrix of test.yml"


def test_the_citation_is_of_this_version():
    "GitHub shows it as it stands."
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == CFG["version"], "nbdev_bump_version does not know CITATION.cff"
