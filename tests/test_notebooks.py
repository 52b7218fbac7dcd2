"""Every notebook runs, its saved outputs are what it gives now, and it is stored in nbdev's clean form."""
import asyncio
import os
import re
import shutil
import sys
from collections import Counter

import outputs
import pytest
from conftest import NOTEBOOKS, ROOT, differences, each_notebook, fail_if, sh, tree

BIN = os.path.dirname(sys.executable)


@each_notebook
def test_cells_pass_and_saved_outputs_are_fresh(notebook):
    "The asserts in the cells, run in a fresh kernel; and what they print is what is saved, which nbdev_test never looks at."
    try:
        asyncio.run(outputs.check(notebook))
    except outputs.Failure as failure:
        raise pytest.fail.Exception(str(failure), pytrace=False) from None


def test_nbdevs_own_runner_agrees():
    "For those who type `nbdev_test`; one chapter is enough, since its cells and those of all others ran above."
    said = sh(f"{BIN}/nbdev_test", "--path", ROOT / "nbs/01_naive_attention.ipynb", env=os.environ | outputs.KERNEL_ENV)
    assert "Success." in said, f"nbdev_test ran nothing: {said}"


def test_notebooks_are_clean(tmp_path):
    "No execution counts and no metadata of a run: they make every diff and merge noisy."
    shutil.copy(ROOT / "settings.ini", tmp_path)
    (tmp_path / "nbs").mkdir()
    for notebook in NOTEBOOKS:
        shutil.copy(notebook, tmp_path / "nbs")
    sh(f"{BIN}/nbdev_clean", cwd=tmp_path)
    committed = {p.name: p.read_bytes() for p in NOTEBOOKS}
    fail_if(differences(committed, tree(tmp_path / "nbs")), "Not as nbdev_clean writes it; run `make prepare`:")


def test_each_chapter_has_its_own_number():
    "The number is the place in the book."
    unnumbered = [p.name for p in NOTEBOOKS if p.stem != "index" and not re.match(r"\d\d_[a-z]", p.name)]
    fail_if(unnumbered, "A chapter's name is two digits, `_`, and a word in small letters:")
    numbers = Counter(p.name[:2] for p in NOTEBOOKS)
    fail_if([p.name for p in NOTEBOOKS if numbers[p.name[:2]] > 1], "These chapters share a number:")
