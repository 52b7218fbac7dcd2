"""Every notebook runs, its saved outputs are what any machine gives,
and it is stored in nbdev's clean form.
"""

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from subprocess import PIPE, STDOUT

import fresh
import nbformat
import notebook_run
import outputs
import pytest
import torch
from conftest import (
    CHAPTERS,
    NBS,
    NOTEBOOKS,
    ROOT,
    differences,
    fail_if,
    is_passed_over,
    place,
    sh,
    tree,
)
from pictures import CHART, PICTURE, is_fresh

BIN = os.path.dirname(sys.executable)
RUN = notebook_run.__file__

# A processor with another vector unit rounds otherwise. PyTorch, MKL and oneDNN can each be told
# to use the smallest: what holds there and here hangs on no rounding.
SMALLEST = {
    "ATEN_CPU_CAPABILITY": "default",
    "MKL_ENABLE_INSTRUCTIONS": "SSE4_2",
    "ONEDNN_MAX_CPU_ISA": "SSE41",
}
OWN = torch.backends.cpu.get_cpu_capability().lower()
# On other kinds of processors none is smaller. On this machine's own unit,
# `make docs` has run them, and `make nightly` does.
UNIT, SET = ("default", SMALLEST) if OWN in ("avx2", "avx512") else (OWN, {})


def each_run(test):
    "What is no chapter need not run again once `make docs` has run it."
    once = {
        path: pytest.mark.once(
            "notebook", fresh.depends_on, **{} if path in CHAPTERS else {"way": ""}
        )
        for path in NOTEBOOKS
    }
    each = [pytest.param(path, id=f"{place(path)}-{UNIT}", marks=once[path]) for path in NOTEBOOKS]
    return pytest.mark.parametrize("notebook", each)(test)


@pytest.fixture(scope="module")
def tried(request, tmp_path_factory) -> tuple[Path, str]:
    """`nbdev_test`, run once on all notebooks that are to run:
    the folder with what their cells showed, and what it said.
    """
    folder = tmp_path_factory.mktemp("tried")
    own = [item for item in request.session.items if item.path == request.path]
    asked = [item for item in own if "notebook" in item.fixturenames]
    paths = {item.callspec.params["notebook"] for item in asked if not is_passed_over(item)}
    names = "|".join(sorted({path.stem for path in paths if not outputs.passed_over(path)}))
    env = os.environ | outputs.KERNEL_ENV | SET
    command = [sys.executable, RUN, folder, "--n_workers", "2", "--file_re", rf"^({names})\.ipynb$"]
    ran = subprocess.run(command, cwd=ROOT, env=env, text=True, stdout=PIPE, stderr=STDOUT)
    return folder, ran.stdout


def run_of(notebook: Path, shown: dict[str, list]) -> outputs.Run:
    "A notebook as it is saved, beside what its cells showed when they were tried."
    text = notebook.read_text(encoding="utf-8")
    tried = json.loads(text)
    for cell in tried["cells"]:
        if cell["cell_type"] == "code":
            cell["outputs"] = shown.get(cell["id"], [])
    saved, now = (nbformat.reads(t, as_version=4) for t in (text, json.dumps(tried)))
    for stub in [cell for cell in now.cells if cell.id.endswith("-stub")]:
        assert_refused_in_words(stub)
        stub.outputs = []
    wrong = [
        f"{notebook.name}, cell {cell.id}: {fault}"
        for cell in now.cells
        for fault in outputs.faults(cell.get("outputs", []))
    ]
    return outputs.Run(text, saved, now, outputs.changed(saved, now), wrong)


def assert_refused_in_words(stub):
    """A check that lets an empty stub pass would let anything pass;
    and a learner who runs it first must read why.
    """
    said = [f"{out.ename}: {out.evalue}" for out in stub.outputs if out.output_type == "error"]
    assert len(said) == 1 and said[0].startswith("CheckFailed: "), (
        f"{stub.id}: {said or stub.outputs}"
    )
    bugs = re.findall(r"^  (?:undeclared choice, or )?likely bug(?: \[.*?\])?: (.*)", said[0], re.M)
    assert len(bugs) == 1 and bugs[0].startswith("it returns nothing: is a return missing"), (
        f"{stub.id}: {said[0]}"
    )


@each_run
def test_cells_pass_and_saved_outputs_are_fresh(notebook, tried):
    """Every cell runs without an error under `nbdev_test`, and prints what is saved.
    No stub of an exercise passes its check, nor does a likely mistake.

    If it fails: The message names the cell. If the new output is right, run `make prepare`. If not,
    the code has changed its meaning. If it fails here and not in `make page`, the output depends on
    rounding: see tools/chapter.md, What may be printed; or on what another notebook has left in the
    process. Skipped: the notebook passed before and nothing that it depends on has changed
    (`CI=true make test` runs all); or it needs Triton (`make .venv/.gpu`, on Linux).
    """
    if why := outputs.passed_over(notebook):
        pytest.skip(why)
    folder, said = tried
    file = folder / notebook_run.file_of(notebook)
    if not file.exists():
        pytest.fail(f"{place(notebook)} did not come to its end. nbdev_test said:\n{said}", False)
    failed, shown = json.loads(file.read_text(encoding="utf-8"))
    ran = None if failed else run_of(notebook, shown)
    found = [failed] if failed else ran.wrong + outputs.stale(ran, notebook.name)
    fail_if(found, f"{place(notebook)}, with the vector unit {UNIT}:")


@pytest.mark.ci
def test_nbdev_test_passes(tried):
    """On all notebooks, as a user types it: many share a process.

    What is left in a process breaks others: a class that a cell defines,
    and that `torch.compile` remembers, did.

    If it fails: The tests above name the notebook; `.venv/bin/nbdev_test --path` runs it alone.
    """
    assert "Success." in tried[1], tried[1]


def test_what_a_run_keeps(tmp_path):
    """What cells printed, also before a semicolon; a failure, with its cell;
    and what a stub of an exercise said.
    """
    (tmp_path / "nbs").mkdir()
    shutil.copy(NBS.parent / "settings.ini", tmp_path)
    sources = {"a": "print(1);", "b-stub": "#| eval: false\nunknown", "c": "1 / 0", "d": "2"}
    cells = [nbformat.v4.new_code_cell(text, id=name) for name, text in sources.items()]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), tmp_path / "nbs/bad.ipynb")
    command = [sys.executable, RUN, tmp_path, "--n_workers", "1"]
    ran = subprocess.run(command, cwd=tmp_path, text=True, capture_output=True)
    assert ran.returncode == 1 and "bad.ipynb" in ran.stderr
    failed, shown = json.loads((tmp_path / "nbs+bad.json").read_text(encoding="utf-8"))
    assert failed.startswith("cell c\n") and "ZeroDivisionError" in failed
    assert shown["a"][0]["text"] == ["1\n"] and "d" not in shown
    assert [out["ename"] for out in shown["b-stub"] if "ename" in out] == ["NameError"]


@pytest.mark.nightly
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=place)
def test_cells_pass_in_a_fresh_kernel(notebook):
    """Each notebook alone, as JupyterLab and `make docs` run it,
    with the vector unit of this machine.
    """
    if why := outputs.passed_over(notebook):
        pytest.skip(why)
    try:
        asyncio.run(outputs.check(notebook))
    except outputs.Failure as failure:
        raise pytest.fail.Exception(str(failure), pytrace=False) from None


def test_each_chart_has_a_picture():
    """Beside each saved chart lies its picture, which GitHub shows,
    drawn from the chart as it is saved.

    If it fails: Run `make prepare`, which draws it.
    """
    found, sizes = [], {}
    for path in NOTEBOOKS:
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        shown = [
            (cell["id"], out["data"])
            for cell in cells
            for out in cell.get("outputs", [])
            if CHART in out.get("data", {})
        ]
        found += [f"{place(path)}, cell {name}" for name, data in shown if not is_fresh(data)]
        sizes[path] = sum(len("".join(data.get(PICTURE, ""))) for _, data in shown)
    fail_if(found, "No picture, or one of other data; `make prepare` draws it:")
    assert (
        0
        < sum(sizes.values())
        < 0.6 * sum(path.stat().st_size - n for path, n in sizes.items() if n)
    ), "too heavy"


def test_notebooks_are_clean(tmp_path):
    """No notebook stores execution counts or metadata of a run:
    they make every diff and merge noisy.

    If it fails: Run `make prepare`. If you edit in `make lab`, it does not happen.
    """
    shutil.copy(NBS.parent / "settings.ini", tmp_path)
    shutil.copytree(NBS, tmp_path / "nbs", ignore=shutil.ignore_patterns(".*"))
    sh(f"{BIN}/nbdev_clean", cwd=tmp_path)
    committed = {str(p.relative_to(NBS)): p.read_bytes() for p in NOTEBOOKS}
    fail_if(
        differences(committed, tree(tmp_path / "nbs")),
        "Not as nbdev_clean writes it; run `make prepare`:",
    )


def test_each_chapter_has_its_own_number():
    """Each chapter has a number of its own, `NN_name.ipynb`;
    a notebook that is no chapter has none and lies in a folder.

    If it fails: Rename one.
    """
    top = [p.name for p in NOTEBOOKS if p.parent == NBS and p.stem != "index"]
    fail_if(
        [name for name in top if not re.fullmatch(r"\d\d_[a-z_]+\.ipynb", name)],
        "A chapter's name is two digits, `_`, and words in small letters:",
    )
    numbers = Counter(name[:2] for name in top)
    fail_if([name for name in top if numbers[name[:2]] > 1], "These chapters share a number:")
