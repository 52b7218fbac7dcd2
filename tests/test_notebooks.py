"""Every notebook runs, its saved outputs are what any machine gives, and it is stored in nbdev's clean form."""
import asyncio
import os
import re
import shutil
import sys
import textwrap
from collections import Counter

import fresh
import outputs
import pytest
import torch
from conftest import CHAPTERS, NBS, NOTEBOOKS, ROOT, differences, fail_if, place, sh, tree

BIN = os.path.dirname(sys.executable)

# A processor with another vector unit rounds otherwise. PyTorch, MKL and oneDNN can each be told to use the smallest: what
# holds there and here hangs on no rounding.
SMALLEST = {"ATEN_CPU_CAPABILITY": "default", "MKL_ENABLE_INSTRUCTIONS": "SSE4_2", "ONEDNN_MAX_CPU_ISA": "SSE41"}
OWN = torch.backends.cpu.get_cpu_capability().lower()
UNITS = ({"default": SMALLEST} if OWN in ("avx2", "avx512") else {}) | {OWN: {}}  # of other kinds of processors none is smaller
# The chapters print and draw numbers, so continuous integration runs them on both. The others are run on the smallest alone:
# what their cells hold on this machine's own, `test_mutants.py` and the exercises of the chapters show.
RUNS = [(path, unit) for path in NOTEBOOKS for unit in UNITS if path in CHAPTERS or unit == next(iter(UNITS))]


def marks(path, unit):
    "Of a run: what is no chapter need not run again once `make docs` has run it; of chapters the smallest unit runs here."
    once = pytest.mark.once("notebook", fresh.depends_on, **{} if path in CHAPTERS else {"way": ""})
    return [once] if unit == next(iter(UNITS)) else [once, pytest.mark.ci]


each_run = pytest.mark.parametrize("notebook, unit", [
    pytest.param(path, unit, id=f"{place(path)}-{unit}", marks=marks(path, unit)) for path, unit in RUNS])


def with_stubs(attempt):
    "`attempt`, with the stubs of the exercises run too, which must change no other cell's output."
    async def run(nb, *args, **kwargs):
        stubs = [cell for cell in nb.cells if cell.id.endswith("-stub")]
        for cell in stubs:
            cell.source = cell.source.partition("\n")[2]  # without `eval: false`
        for cell in nb.cells:
            if cell.id.endswith("-solution"):
                cell.source = mistakes_are_named(cell.source) + cell.source  # whose last value is shown
        result = await attempt(nb, *args, **kwargs)
        for cell in stubs:
            assert_refused_in_words(cell)
            cell.outputs = []
        return result
    return run


def mistakes_are_named(solution: str) -> str:
    "Code that hands each likely mistake of an exercise in as the answer: its check must refuse it, and name it."
    call = re.search(r"check_agrees\((?:(?!check_agrees).)*wrong=(wrong_\d).*\Z", solution, re.S)
    if not call:
        return ""
    checked = re.sub(r"\(\s*\w+", "(mistake_tried", call[0], count=1)
    return f"""\
for name_of_it, mistake_tried in {call[1]}.items():
    try:
{textwrap.indent(checked, " " * 8)}
    except AssertionError as refused:
        assert f": {{name_of_it}}" in str(refused), f"{{name_of_it}}: it is not named\\n{{refused}}"
    else:
        raise AssertionError(f"{{name_of_it}}: the check finds nothing wrong")
"""


def assert_refused_in_words(stub):
    "A check that lets an empty stub pass would let anything pass; and a learner who runs it first must read why."
    said = [f"{out.ename}: {out.evalue}" for out in stub.outputs if out.output_type == "error"]
    assert len(said) == 1 and said[0].startswith("CheckFailed: "), f"{stub.id}: {said or stub.outputs}"
    bugs = re.findall(r"^  (?:undeclared choice, or )?likely bug(?: \[.*?\])?: (.*)", said[0], re.M)
    assert len(bugs) == 1 and bugs[0].startswith("it returns nothing: is a return missing"), f"{stub.id}: {said[0]}"


@each_run
def test_cells_pass_and_saved_outputs_are_fresh(notebook, unit, monkeypatch):
    "The asserts in the cells, in a fresh kernel; and what they print is what is saved, however the machine rounds."
    if why := outputs.passed_over(notebook):
        pytest.skip(why)
    for name, value in UNITS[unit].items():
        monkeypatch.setenv(name, value)  # kernels inherit it
    if unit == next(iter(UNITS)):  # once is enough
        monkeypatch.setattr(outputs, "attempt", with_stubs(outputs.attempt))
    try:
        asyncio.run(outputs.check(notebook))
    except outputs.Failure as failure:
        raise pytest.fail.Exception(f"With the vector unit {unit}:\n{failure}", pytrace=False) from None


@pytest.mark.ci
def test_nbdevs_own_runner_agrees():
    "For those who type `nbdev_test`; one chapter is enough, since its cells and those of all others ran above."
    said = sh(f"{BIN}/nbdev_test", "--path", ROOT / "nbs/01_naive_attention.ipynb", env=os.environ | outputs.KERNEL_ENV)
    assert "Success." in said, f"nbdev_test ran nothing: {said}"


def test_notebooks_are_clean(tmp_path):
    "No execution counts and no metadata of a run: they make every diff and merge noisy."
    shutil.copy(ROOT / "settings.ini", tmp_path)
    shutil.copytree(NBS, tmp_path / "nbs", ignore=shutil.ignore_patterns(".*"))
    sh(f"{BIN}/nbdev_clean", cwd=tmp_path)
    committed = {str(p.relative_to(NBS)): p.read_bytes() for p in NOTEBOOKS}
    fail_if(differences(committed, tree(tmp_path / "nbs")), "Not as nbdev_clean writes it; run `make prepare`:")


def test_each_chapter_has_its_own_number():
    "The number is the place in the book; what is no chapter has none, and lies in a folder."
    top = [p.name for p in NOTEBOOKS if p.parent == NBS and p.stem != "index"]
    fail_if([name for name in top if not re.fullmatch(r"\d\d_[a-z_]+\.ipynb", name)],
            "A chapter's name is two digits, `_`, and words in small letters:")
    numbers = Counter(name[:2] for name in top)
    fail_if([name for name in top if numbers[name[:2]] > 1], "These chapters share a number:")
