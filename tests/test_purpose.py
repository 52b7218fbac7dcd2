"""A red test says what it is for: its docstring and that of its module stand in the report,
by a hook in conftest.py. Another says which tests one worker runs.
"""

import os
import subprocess
import sys

import pytest
from conftest import COSTLY, ROOT, fail_if

FILE = '''
"""What these tests look at."""
import pytest


def test_red():
    """One is two.

    If not: run `make prepare`.
    """
    assert 1 == 2


@pytest.fixture
def broken():
    raise OSError


def test_error(broken):
    "The fixture is made. If not: mend it."


def test_green():
    "Nobody needs this text."
'''


@pytest.mark.parametrize("workers", [0, 2])
def test_a_failed_test_says_what_to_do(tmp_path, workers):
    """The text comes after a failure and after an error of a fixture, with workers too;
    a test that passes says nothing.

    If not: see `purpose` and `pytest_runtest_makereport` in tests/conftest.py.
    """
    (tmp_path / "test_some.py").write_text(FILE, encoding="utf-8")
    env = os.environ | {
        "PYTHONPATH": os.pathsep.join(str(ROOT / name) for name in ("tests", "tools", "."))
    }
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "conftest", "-n", str(workers), "--color=no", "."],
        cwd=tmp_path,
        env=env,
        text=True,
        capture_output=True,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert done.stdout.count("- What this test is for -") == 2, done.stdout
    assert (
        "One is two.\n\nIf not: run `make prepare`.\n\nWhat these tests look at.\n" in done.stdout
    )
    assert "The fixture is made. If not: mend it." in done.stdout
    assert "Nobody needs this text." not in done.stdout


def test_what_is_costly_is_made_once(request):
    """Tests that share such a fixture go to one worker, and their names say to which group.

    If it fails: The hook that groups them runs after pytest-xdist has looked at the groups.
    """
    in_a_worker = hasattr(request.config, "workerinput")
    items = request.session.items if in_a_worker else []
    costly = [item for item in items if set(COSTLY) & set(item.fixturenames)]
    fail_if([item.nodeid for item in costly if "@" not in item.nodeid], "In no group:")
