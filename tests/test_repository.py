"""The files around the book."""

import ast
import os
import re
import subprocess

import pytest
import yaml
from conftest import ROOT, fail_if, python, sh

OF_ONE_MACHINE = re.compile(
    r"(?<![\w.~-])/(?:home|Users|root|work|opt|tmp|private)/\w[\w.-]*"  # somebody's folders
    r"|\bfile:///\w"
    r"|https?://(?!pypi\.org/project/)[\w.-]*(?:artifactory|nexus|mirror|registry|pypi|packages)[\w.-]*"
)


def tracked() -> list[str]:
    "The files of the repository that git knows, or would take."
    said = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        text=True,
        stdout=subprocess.PIPE,
    ).stdout
    return [name for name in said.split("\0") if name and (ROOT / name).is_file()]


def test_no_address_of_one_machine():
    """No file holds a path of somebody's disk or a private host.

    If it fails: Write it relative.
    """
    found = []
    for name in tracked():
        try:
            text = (ROOT / name).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue  # fonts and pictures
        found += [
            f"{name}:{text.count(chr(10), 0, m.start()) + 1}: {m[0]}"
            for m in OF_ONE_MACHINE.finditer(text)
        ]
    fail_if(found, "Addresses that exist on one machine only:")


def test_code_is_clean():
    """The linter ruff finds no fault in notebooks, scripts and tests; pyproject.toml has its rules.

    One of them: outside the notebooks no line of Python is longer than 100 characters.

    If it fails: The message says where. Repair it by hand: `--fix` also rewrites numbers in saved
    outputs.
    """
    python("-m", "ruff", "check", "--no-cache", "--extend-exclude=attention_nb", ".")


def test_code_has_one_format():
    """`ruff format` would change no Python file that is written by hand, but for the corpus.

    If it fails: Run `.venv/bin/ruff format`.
    """
    python("-m", "ruff", "format", "--no-cache", "--check", ".")


def _one_direction(node: ast.Compare) -> bool:
    "Whether a chain of comparisons rises, falls, or says that all are equal."
    kinds = {type(op) for op in node.ops}
    chains = ({ast.Lt, ast.LtE}, {ast.Gt, ast.GtE}, {ast.Eq})
    return len(node.ops) == 1 or any(kinds <= chain for chain in chains)


def test_chains_of_comparisons_go_one_way():
    """In the checks no chain mixes `==`, `!=`, `<` and `>`: `a == b != c` is two thoughts.

    If it fails: Write two comparisons with `and` between them.
    """
    found = []
    for path in sorted((ROOT / "attention_checks").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Compare) and not _one_direction(node):
                found.append(f"{path.relative_to(ROOT)}:{node.lineno}: {ast.unparse(node)}")
    fail_if(found, "Chains that mix comparisons:")


def test_make_help_lists_the_commands():
    "The one thing to remember is `make`."
    said = sh("make", "--no-print-directory", "help")
    commands = ("docs", "page", "test", "book", "lab", "serve", "prepare")
    fail_if([c for c in commands if f"make {c} " not in said], f"Not in:\n{said}")


@pytest.mark.parametrize(
    "number, notebook",
    [("02", "02_softmax"), ("lookup/notation", "lookup/notation"), ("", ""), ("99", "")],
)
def test_make_page_finds_the_notebook(number, notebook):
    "By the number of a chapter, or its place; and says what it asks for."
    done = subprocess.run(
        [
            "make",
            "--no-print-directory",
            "--dry-run",
            "--assume-old=.venv/.ready",
            "page",
            f"N={number}",
        ],
        cwd=ROOT,
        text=True,
        capture_output=True,
    )
    assert (
        f"refresh nbs/{notebook}.ipynb\n" in done.stdout
        if notebook
        else "make page N=02" in done.stderr
    ), done


@pytest.mark.parametrize(
    "ci, target, chosen",
    [
        ("", "test", 'pytest tests -m "not nightly and not ci"\n'),
        ("true", "test", 'pytest tests -m "not nightly"\n'),
        ("", "nightly", "CI=true .venv/bin/python -m pytest tests -m nightly\n"),
    ],
)
def test_continuous_integration_leaves_nothing_out(ci, target, chosen):
    "What waits at the desk runs where CI=true, and what waits there each night."
    done = subprocess.run(
        ["make", "--no-print-directory", "--dry-run", "--assume-old=.venv/.ready", target],
        cwd=ROOT,
        env=os.environ | {"CI": ci},
        text=True,
        capture_output=True,
        check=True,
    )
    assert chosen in done.stdout


def test_the_night_and_a_release_run_what_a_change_does_not():
    "`.ci/run` is for a change, `.ci/run nightly` for each night and before a release."
    script = (ROOT / ".ci/run").read_text(encoding="utf-8")
    assert "target=${1:-test}" in script and 'CI=true make "$target"' in script
    folder = ROOT / ".github/workflows"
    said = {path.stem: yaml.safe_load(path.read_text("utf-8")) for path in folder.glob("*.yml")}
    runs = {
        name: [step.get("run") for job in flow["jobs"].values() for step in job.get("steps", [])]
        for name, flow in said.items()
    }
    assert "bash .ci/run" in runs["test"] and "bash .ci/run nightly" in runs["nightly"]
    # YAML 1.1 reads the word `on` as true
    assert said["nightly"][True].keys() >= {"schedule", "workflow_call"}
    release = said["release"]["jobs"]
    assert release["nightly"]["uses"] == "./.github/workflows/nightly.yml"
    assert "nightly" in release["publish"]["needs"]
