"""The versions that the project promises: of Python, of torch, of all that the book is built with.

If it fails: Run `make constraints`, never set a pin by hand.
The list of Pythons is `python_versions` in settings.ini; other files repeat it. It needs a network.
"""

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
    return {
        r.name: r
        for line in text.splitlines()
        if line and not line.startswith("#")
        for r in [Requirement(line)]
    }


@pytest.mark.nightly
@pytest.mark.parametrize("version", VERSIONS)
def test_pins_can_be_installed(version, tmp_path):
    """On each Python, constraints.txt leaves a version with a wheel of all that the set-up
    asks for, and chooses every one.
    """
    (tmp_path / "asked.txt").write_text(
        "\n".join(f"{CFG['requirements']} {CFG['dev_requirements']}".split())
    )
    said = python(
        "-m",
        "uv",
        "pip",
        "compile",
        tmp_path / "asked.txt",
        "--constraint=constraints.txt",
        f"--python-version={version}",
        "--python-platform=linux",
        "--only-binary=:all:",
        "--no-python-downloads",
        "--quiet",
        "--no-header",
        "--no-annotate",
    )
    pinned = pins((ROOT / "constraints.txt").read_text(encoding="utf-8"))
    fail_if(
        [name for name in pins(said) if name not in pinned and not CUDA.match(name)],
        "Not in constraints.txt, so a later set-up may get another version: `make constraints`",
    )


SPAN = (r"Python (\d+\.\d+ to \d+\.\d+)", "{} to {}")
SAID = [
    ("settings.ini", r"min_python = (\S+)", "{}"),
    ("pyproject.toml", r'python_version = "(\S+)"', "{}"),
    ("constraints.txt", *SPAN),
    ("CONTRIBUTING.md", *SPAN),
    ("nbs/index.ipynb", *SPAN),
]


def test_one_list_of_pythons():
    "`python_versions` in settings.ini; what cannot read it says the same."
    for name, pattern, form in SAID:
        said = re.findall(pattern, (ROOT / name).read_text(encoding="utf-8"))
        assert said == [form.format(VERSIONS[0], VERSIONS[-1])], f"{name}: {pattern}"
    workflow = yaml.safe_load((ROOT / ".github/workflows/test.yml").read_text(encoding="utf-8"))
    assert workflow["jobs"]["test"]["strategy"]["matrix"]["python"] == VERSIONS, (
        "the matrix of test.yml"
    )


def test_the_citation_is_of_this_version():
    "GitHub shows it as it stands."
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == CFG["version"], "nbdev_bump_version does not know CITATION.cff"
