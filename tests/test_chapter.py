"""`make chapter`: what it begins passes every test that concerns a chapter,
and it refuses what it cannot begin.

If it fails: Adapt the template, tools/chapter.ipynb, to the present rules for chapters
(tools/chapter.md); or tools/chapter.py, if it accepts what it should refuse.
"""

import os
import re
import runpy
import subprocess
import sys

import pytest
from conftest import NEXT, ROOT, python, sh, tree

# Of what is tried on each chapter, page or name apart, that of the new one;
# and whatever looks at all of them together.
CONCERNS_IT = (
    "new_idea or test_exercises or test_pages or test_repository or test_site or test_questions "
    "or test_imports_point or test_notebooks_are_clean or test_each_chart or test_each_chapter_has "
    "or test_every_public or test_each_name or test_no_chapter"
)
# Not those of the checks.
BOOK = [f"tests/{path.name}" for path in sorted((ROOT / "tests").glob("test_*.py"))]
# `begun` is built; minutes of mypy; what needs git or .ci; what a page of another chapter says.
LEFT_OUT = (
    "test_site_and_readme or test_types or test_calls_of_modules or test_no_address "
    "or test_continuous or test_the_night or test_keys_of_configs or test_names_in_libraries"
)


@pytest.mark.nightly
def test_a_new_chapter_is_green_as_it_is(begun):
    "Tested as its author would, before a word of it is changed; the map of the book lists it."
    said = python(
        "-m",
        "pytest",
        *BOOK,
        "-n",
        "0",
        "-p",
        "no:cacheprovider",
        "-m",
        "not ci and not nightly",
        "-k",
        f"({CONCERNS_IT}) and not ({LEFT_OUT})",
        cwd=begun,
        env=os.environ | {"PYTHONPATH": str(begun), "CI": ""},
    )
    for test in (
        "test_page[{}.html-1280]",
        "test_a_reader_predicts[{}]",
        "test_a_page_at_first_sight[{}.html-1280-900]",
    ):
        assert f"{test.format(f'{NEXT}_new_idea')} PASSED" in said, said
    assert f"{int(NEXT)}. [New idea]({NEXT}_new_idea.ipynb)" in (
        begun / "nbs/index.ipynb"
    ).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "number, name, complaint",
    [
        ("", "", "make chapter N=06 NAME=positions"),
        (NEXT, "", "make chapter N=06 NAME=positions"),
        (NEXT[1:], "new_idea", f"N: expected two digits, such as {NEXT}"),
        ("02", "new_idea", f"N: 02 is taken by 02_softmax; the next free number is {NEXT}"),
        (NEXT, "New-Idea", "NAME: expected words in small letters"),
        (NEXT, "lambda", "NAME: expected words in small letters"),
        (NEXT, "softmax", "NAME: softmax is taken by another notebook"),
        (NEXT, "entropy", "NAME: entropy is taken by a public name"),
    ],
)
def test_what_cannot_be_begun_is_refused(number, name, complaint):
    "In a line, and nothing is written."
    before = tree(ROOT / "nbs")
    done = subprocess.run(
        [sys.executable, "tools/chapter.py", number, name], cwd=ROOT, text=True, capture_output=True
    )
    assert done.returncode and complaint in done.stderr and len(done.stderr.splitlines()) == 1, (
        done.stderr
    )
    assert tree(ROOT / "nbs") == before


def test_a_chapter_takes_its_place_on_the_map():
    "Behind the one before it, or where the map says that it is being written."
    chapter = runpy.run_path(str(ROOT / "tools/chapter.py"))
    begun = (
        "## The map\n\n11. [Old](11_old.ipynb)\\\n    It is about.\n"
        "12. New\\\n    A promise.\n\nThe end"
    )
    for number, others in ((12, ["11", "12"]), (13, ["11", "12", "13"])):
        edited = chapter["mapped"](number, "Far", f"{number}_far")(begun)
        assert re.findall(r"^(\d+)\. ", edited, re.M) == others
        assert (
            f"\n{number}. [Far]({number}_far.ipynb)\\\n    What it is about, in a line.\n\nThe end"
            in edited
        )
        assert ("A promise." in edited) == (number == 13)


def test_make_hands_over_what_is_named():
    "Spaces included, which are then refused."
    said = sh("make", "--no-print-directory", "--dry-run", "chapter", "N=06", "NAME=new idea")
    assert said.splitlines()[-1] == '.venv/bin/python tools/chapter.py "06" "new idea"'
