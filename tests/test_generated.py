"""Nothing that is generated and committed is stale: the package, README.md and the site."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import catalogue
import nbformat
import pytest
from conftest import (
    CHAPTERS,
    NBS,
    ROOT,
    copy_of_the_book,
    differences,
    fail_if,
    place,
    python,
    sh,
    tree,
)
from filelock import FileLock

sys.path.insert(0, str(ROOT / "website"))
import kept

STALE = "Stale; run `make prepare` and commit:"


def test_package_comes_from_the_notebooks(tmp_path):
    """The package `attention_nb/` is what the notebooks export.

    An edit made by hand there would be lost.

    If it fails: Run `make prepare`.
    A change made by hand in attention_nb/ goes into the notebook first.
    """
    shutil.copy(ROOT / "settings.ini", tmp_path)
    shutil.copytree(ROOT / "nbs", tmp_path / "nbs", ignore=shutil.ignore_patterns(".*"))
    kinds = (
        "py.typed",
        "__main__.py",
        "catalogue.json",
        "trained/*",
        "figures/*.js",
        "figures/*.css",
    )
    by_hand = [path for kind in kinds for path in (ROOT / "attention_nb").glob(kind)]
    for path in by_hand:
        copy = tmp_path / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, copy)
    sh(f"{os.path.dirname(sys.executable)}/nbdev_export", cwd=tmp_path)
    fail_if(differences(tree(ROOT / "attention_nb"), tree(tmp_path / "attention_nb")), STALE)


def test_explanations_come_from_the_catalogue():
    """`attention_nb/catalogue.json`, which `attention-nb explain` reads,
    says what attention_checks/catalogue says.

    If it fails: Run `make export`.
    """
    assert catalogue.CATALOGUE.read_text(encoding="utf-8") == catalogue.text(), STALE
    assert all(kind["about"] for kind in catalogue.kinds().values())
    assert {bug.partition(".")[0] for bug in json.loads(catalogue.text())["bugs"]} == set(
        catalogue.kinds()
    )


def first_entry(page: str, mark: str) -> str:
    "The first heading of a kind on a page of nbs/lookup."
    cells = nbformat.read(NBS / f"lookup/{page}.ipynb", as_version=4).cells
    return next(
        cell.source.partition("\n")[0].removeprefix(mark)
        for cell in cells
        if cell.source.startswith(mark)
    )


def say_more(book: Path, chapter: Path) -> None:
    "Let the chapter use a new word, a term and a source."
    source = first_entry("references", "### ")
    nb = nbformat.read(chapter, as_version=4)
    cell = next(c for c in nb.cells if c.cell_type == "markdown" and not c.source.startswith("#"))
    cell.source += (
        f"\n\nXylophone; {first_entry('glossary', '## ')}; "
        f"[this](lookup/references.ipynb#{source.replace(' ', '-')})."
    )
    nbformat.write(nb, book / chapter.relative_to(ROOT))


def stale(built: Path) -> list[str]:
    "How README.md and docs/ differ from those that were built under another folder."
    was, now = (
        tree(root / "docs") | {"../README.md": (root / "README.md").read_bytes()}
        for root in (ROOT, built)
    )
    return differences(was, now)


@pytest.mark.xdist_group("the scratch of this checkout")
def test_site_and_readme_come_from_the_notebooks(tmp_path):
    """docs/ and README.md are what the notebooks give: built again they are the same bytes.

    If it fails: Run `make prepare`.
    """
    python("website/build.py", "--out", tmp_path / "docs", "--readme", tmp_path / "README.md")
    fail_if(stale(tmp_path), STALE)


@pytest.mark.xdist_group("the scratch of this checkout")
def test_two_builds_do_not_meet(tmp_path):
    "The second says so, and writes nothing."
    (ROOT / "_build").mkdir(exist_ok=True)
    with FileLock(ROOT / "_build/lock"):
        done = subprocess.run(
            [
                sys.executable,
                "website/build.py",
                "--out",
                tmp_path / "docs",
                "--readme",
                tmp_path / "README.md",
            ],
            cwd=ROOT,
            text=True,
            capture_output=True,
        )
    assert (
        done.returncode == 1
        and done.stderr.startswith("Another build of the site is at work")
        and not list(tmp_path.iterdir())
    )


@pytest.mark.nightly
def test_every_build_gives_the_same_bytes(tmp_path):
    """Elsewhere, and after another one: the build is deterministic, and what is committed is fresh.

    It is built twice, the first time with a chapter that says more: so what changes,
    and what others take from it, gets the same bytes as what is built for the first time.

    If it fails: Run `make prepare`. If it still fails, a page depends on another page in a way
    that website/kept.py does not list: add it there.
    """
    book, chapter = copy_of_the_book(tmp_path / "book"), CHAPTERS[0]
    say_more(book, chapter)
    python("website/build.py", cwd=book)
    pages = {
        path.relative_to(book / "docs").as_posix()
        for path in (book / "docs").rglob("*.html")
        if "ylophone" in path.read_text(encoding="utf-8")
    }
    assert pages == {f"{place(chapter)}.html"}
    shutil.copy(chapter, book / chapter.relative_to(ROOT))
    python("website/build.py", cwd=book)
    fail_if(stale(book), STALE)


def page(text: str) -> str:
    "A notebook of one cell."
    return nbformat.writes(
        nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell(text, id="a")])
    )


@pytest.mark.parametrize(
    "name, text, anew",
    [
        ("src/a.ipynb", page("# A\n\nOther words."), False),
        ("src/a.ipynb", page("# B\n\nWords."), True),
        ("src/lookup/glossary.ipynb", page("# G\n\nOther words."), True),
        ("src/b.ipynb", page("# B\n\nWords."), True),
        ("package/m.py", "def f():\n    return 2\n", False),
        ("package/m.py", "def g():\n    return 1\n", True),
    ],
)
def test_what_other_pages_take_is_built_anew(tmp_path, name, text, anew):
    "Titles, terms and names; what stands on a page alone is not."
    files = {
        "src/a.ipynb": page("# A\n\nWords."),
        "src/lookup/glossary.ipynb": page("# G\n\nWords."),
        "src/lookup/references.ipynb": page("# R\n\nWords."),
        "package/m.py": "def f():\n    return 1\n",
        "extra/a.bib": "",
    }
    for content in (files, files | {name: text}):
        shutil.rmtree(tmp_path / "new", ignore_errors=True)
        for path, said in content.items():
            (tmp_path / "new" / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "new" / path).write_text(said, encoding="utf-8")
        kept.end(tmp_path, kept.begin(tmp_path))
        if content is files:
            (tmp_path / "html").mkdir()
    assert (tmp_path / "html").exists() != anew
