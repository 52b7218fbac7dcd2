"""What people read whose own pytest file holds a failing check: the report, and not the way to it."""
import os
import re
import subprocess
import sys

from conftest import ROOT

FILE = '''
import torch
from attention_nb import MultiHeadAttention, check_agrees, check_attention, check_self_attention, softmax


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
'''


def test_a_failing_check_shows_its_report_only(tmp_path):
    (tmp_path / "test_mine.py").write_text(FILE, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:xdist", "--color=no", "test_mine.py"]
    done = subprocess.run(command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)},
                          text=True, capture_output=True)
    assert done.returncode == 1, done.stdout + done.stderr
    _, *tests = re.split(r"^_+ (test_\w+) _+$", done.stdout.partition("short test summary")[0], flags=re.M)
    said = {name: text.rstrip("= \n").splitlines() for name, text in zip(tests[::2], tests[1::2])}
    assert list(said) == re.findall(r"def (test_\w+)", FILE)
    for name, lines in said.items():
        finding = [line for line in lines if line.startswith("E ")]
        rest = [line for line in lines if line.strip() and line not in finding]  # the test's own lines, and its place
        assert len(rest) == 3 and "attention_nb" not in rest[-1], (name, rest)
        assert (len(finding) > 20) == (name == "test_bug") and (len(finding) == 1) == (name != "test_bug"), finding
    assert "likely bug [scale.missing]: the scores are not scaled at all" in said["test_bug"][5]
