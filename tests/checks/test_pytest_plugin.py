"""What people read whose own pytest file holds a failing check: the report, and not the way to it.

If it fails: If a line of ours is shown, its function lacks `__tracebackhide__`. The plugin is
pytest_attention_nb.py.
"""

import os
import re
import subprocess
import sys

import pytest
from conftest import ROOT

FILE = """
import torch
from attention_nb import MultiHeadAttention, softmax
from attention_nb import check_agrees, check_attention, check_self_attention


def unscaled(q, k, v):
    return torch.softmax(q @ k.mT, -1) @ v


def test_bug():
    check_attention(unscaled)


def test_wrong_width():
    check_self_attention(MultiHeadAttention(24, 3), d_model=32)


def test_wrong_argument():
    check_self_attention(MultiHeadAttention(24, 3), d_model="24")


def test_no_example():
    check_agrees(softmax, torch.softmax)
"""


MARKED = """
import pytest
import torch
from attention_nb import MultiHeadAttention, check_attention, check_multi_head


def unscaled(q, k, v):
    return torch.softmax(q @ k.mT, -1) @ v


@pytest.mark.attention(check_multi_head, MultiHeadAttention(24, 3), d_model=24, n_heads=3)
@pytest.mark.attention(check_attention, unscaled)
def test_mine(attention_property):
    attention_property()
"""


def run_marked(tmp_path, *options: str, text: str = MARKED) -> str:
    "What pytest says of a file of somebody else's, with the plugin and nothing of this project."
    (tmp_path / "test_marked.py").write_text(text, encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        "-p",
        "pytest_attention_nb",
        "--color=no",
        "--strict-markers",
        "-rs",
        *options,
        "test_marked.py",
    ]
    env = {**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return subprocess.run(command, cwd=tmp_path, env=env, text=True, capture_output=True).stdout


SCALED = """

def scaled(q, k, v):
    return unscaled(q / q.shape[-1] ** 0.5, k, v)


test_mine = pytest.mark.attention(check_attention, scaled)(test_mine)
"""


def test_the_plugin_makes_a_test_of_each_property(tmp_path):
    """Those that hold pass, those that do not fail with their report, what was not tried is skipped
    with the reason. Names do not change with the verdict: a run is compared with the last one, and
    tests are deselected, by their names."""
    said = run_marked(tmp_path, "-v", text=MARKED + SCALED)
    tried = re.findall(
        r"^test_marked.py::test_mine\[(.+)\] (PASSED|FAILED|SKIPPED)", said, flags=re.M
    )
    passed, failed, skipped = (
        [name for name, verdict in tried if verdict == wanted]
        for wanted in ("PASSED", "FAILED", "SKIPPED")
    )
    wrong = "check_attention(unscaled)-it agrees with the oracle: "
    assert any(name.startswith(wrong) for name in failed), said
    assert not any("MultiHeadAttention" in name for name in failed)
    assert sum("MultiHeadAttention" in name for name in passed) > 15
    assert skipped and "it takes no mask" in said and "likely bug: " in said
    names = {
        subject: {name.partition(")-")[2] for name, _ in tried if f"({subject})-" in name}
        for subject in ("scaled", "unscaled")
    }
    assert len(names["scaled"]) > 15 and names["scaled"] == names["unscaled"], names


@pytest.mark.ci
def test_a_code_chooses_a_test(tmp_path):
    "By `-k`, as every name of a test does."
    said = run_marked(tmp_path, "-k", "scale.missing")
    failed, deselected = (
        int(re.search(rf"(\d+) {word}", said)[1]) for word in ("failed", "deselected")
    )
    assert failed >= 1 and deselected > 30 and "passed" not in said.splitlines()[-1]


def test_the_plugin_is_off_until_asked_for(tmp_path):
    "It loads nothing of ours, and a fixture without a mark is explained."
    said = run_marked(
        tmp_path,
        text=(
            "import sys\n\ndef test_one():\n"
            "    assert not {'torch', 'attention_nb'} & set(sys.modules)\n"
        ),
    )
    assert "1 passed" in said, said
    said = run_marked(
        tmp_path, text="def test_one(attention_property):\n    attention_property()\n"
    )
    assert (
        "test_one: attention_property needs a mark, @pytest.mark.attention(check, layer, …)" in said
    ), said


@pytest.mark.ci
def test_a_failing_check_shows_its_report_only(tmp_path):
    (tmp_path / "test_mine.py").write_text(FILE, encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        "--color=no",
        "test_mine.py",
    ]
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_ADDOPTS": ""},
        text=True,
        capture_output=True,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    _, *tests = re.split(
        r"^_+ (test_\w+) _+$", done.stdout.partition("short test summary")[0], flags=re.M
    )
    said = {name: text.rstrip("= \n").splitlines() for name, text in zip(tests[::2], tests[1::2])}
    assert list(said) == re.findall(r"def (test_\w+)", FILE)
    for name, lines in said.items():
        finding = [line for line in lines if line.startswith("E ")]
        # the test's own lines, and its place
        rest = [line for line in lines if line.strip() and line not in finding]
        assert len(rest) == 3 and "attention_nb" not in rest[-1], (name, rest)
        assert (len(finding) > 15) == (name == "test_bug") and (len(finding) == 1) == (
            name != "test_bug"
        ), finding
    assert "likely bug [scale.missing]: " in "".join(said["test_bug"])
