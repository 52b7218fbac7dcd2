"""`make chapter`: what it begins passes every test that concerns a chapter, and it refuses what it cannot begin."""
import os
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import CHAPTERS, NOT_SOURCE, ROOT, sh, tree
from test_notebooks import UNITS

NEXT = f"{int(CHAPTERS[-1].stem[:2]) + 1:02}"
BIN = os.path.dirname(sys.executable)
CONCERN_IT = f"""
    test_notebooks.py::test_cells_pass_and_saved_outputs_are_fresh[{NEXT}_new_idea-{next(iter(UNITS))}]
    test_notebooks.py::test_notebooks_are_clean test_notebooks.py::test_each_chapter_has_its_own_number
    test_exercises.py::test_each_exercise_is_whole[{NEXT}_new_idea]
    test_exercises.py::test_solution_fills_in_the_stub[{NEXT}_new_idea]
    test_exercises.py::test_solutions_stand_together_under_a_shut_heading[{NEXT}_new_idea]
    test_properties.py::test_every_public_function_has_its_properties
    test_properties.py::test_right_for_every_shape_dtype_mask_and_stride[new_idea_normalize]
    test_properties.py::test_bad_arguments_are_told_of[new_idea_normalize]
    test_package.py::test_no_name_that_only_the_notebook_defines test_package.py::test_imports_point_backwards
    test_package.py::test_each_name_has_one_home test_package.py::test_no_chapter_is_forgotten_at_the_top
    test_package.py::test_every_public_function_is_documented_and_short
""".split()

# Its sources, its place in the book and its charts; the other pages are as they were.
ITS_PAGE = f"""
import sys
from pathlib import Path
sys.path[:0] = ["website"]
import citations, notebooks
nbs = notebooks.load_all(Path("nbs"))
by_name = {{nb.metadata.book.name.removesuffix(".ipynb"): nb for nb in nbs}}
citations.link_back(nbs)
assert "{NEXT}_new_idea" in notebooks.parts(list(by_name))["IV In the world"]
notebooks.page(Path(), by_name["{NEXT}_new_idea"], notebooks.settings(Path()), {{}})
"""


@pytest.fixture
def copy(tmp_path) -> Path:
    "The repository's sources, and nothing that was built from them but the package."
    return Path(shutil.copytree(ROOT, tmp_path / "book", ignore=NOT_SOURCE))


@pytest.mark.ci
def test_a_new_chapter_is_green_as_it_is(copy):
    "Begun, exported and tested as its author would, before a word of it is changed; the map of the book lists it."
    sh(sys.executable, "tools/chapter.py", NEXT, "new_idea", cwd=copy)
    said = sh(f"{BIN}/nbdev_export", cwd=copy)
    assert said == "", said
    sh(sys.executable, "-m", "pytest", "-n", "0", "-p", "no:cacheprovider", *(f"tests/{name}" for name in CONCERN_IT), cwd=copy)
    index = (copy / "nbs/index.ipynb").read_text(encoding="utf-8")
    assert f"{int(NEXT)}. [New idea]({NEXT}_new_idea.ipynb)" in index
    sh(sys.executable, "-c", ITS_PAGE, cwd=copy)


@pytest.mark.parametrize("number, name, complaint", [
    ("", "", "make chapter N=06 NAME=positions"),
    (NEXT, "", "make chapter N=06 NAME=positions"),
    (NEXT[1:], "new_idea", f"N: expected two digits, such as {NEXT}"),
    ("02", "new_idea", f"N: 02 is taken by 02_softmax; the next free number is {NEXT}"),
    (NEXT, "New-Idea", "NAME: expected words in small letters"),
    (NEXT, "lambda", "NAME: expected words in small letters"),
    (NEXT, "softmax", "NAME: softmax is taken by another notebook"),
    (NEXT, "entropy", "NAME: entropy is taken by a public name"),
])
def test_what_cannot_be_begun_is_refused(number, name, complaint):
    "In a line, and nothing is written."
    before = tree(ROOT / "nbs")
    done = subprocess.run([sys.executable, "tools/chapter.py", number, name], cwd=ROOT, text=True, capture_output=True)
    assert done.returncode and complaint in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr
    assert tree(ROOT / "nbs") == before


def test_a_chapter_takes_its_place_on_the_map():
    "Behind the one before it, or where the map says that it is being written."
    chapter = runpy.run_path(str(ROOT / "tools/chapter.py"))
    begun = "## The map\n\n11. [Old](11_old.ipynb)\\\n    It is about.\n12. New\\\n    A promise.\n\nThe end"
    for number, others in ((12, ["11", "12"]), (13, ["11", "12", "13"])):
        edited = chapter["mapped"](number, "Far", f"{number}_far")(begun)
        assert re.findall(r"^(\d+)\. ", edited, re.M) == others
        assert f"\n{number}. [Far]({number}_far.ipynb)\\\n    What it is about, in a line.\n\nThe end" in edited
        assert ("A promise." in edited) == (number == 13)


def test_make_hands_over_what_is_named():
    "Spaces included, which are then refused."
    said = sh("make", "--no-print-directory", "--dry-run", "chapter", "N=06", "NAME=new idea")
    assert said.splitlines()[-1] == '.venv/bin/python tools/chapter.py "06" "new idea"'
