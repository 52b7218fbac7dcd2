"""nbdev's own commands, as its users type them: they work, and git stays clean.
`nbdev_test` is what test_notebooks.py runs all notebooks by.

If it fails: The message says which line of which file.
`settings.ini` must stand as nbdev writes it.
"""

import compileall
import importlib
import inspect
import json
import os
import posixpath
import re
import shutil
import sys
import typing

import pytest
from conftest import PACKAGE, ROOT, fail_if, sh

BIN = os.path.dirname(sys.executable)
# What there is to trip over: the home page, folds, charts, links with anchors,
# the faces of the package and of a folder.
FEW = [
    "index",
    "checks/index",
    "figures/charts",
    "lookup/notation",
    "lookup/references",
    "lookup/api",
]
CLEAN = ["export", "clean", "sidebar", "requirements", "contributing", "install_hooks"]


def checkout(top, notebooks):
    "A checkout with some of the notebooks; `quarto` is there, and fails whoever calls it."
    shutil.copytree(
        PACKAGE, top / "book" / PACKAGE.name, ignore=shutil.ignore_patterns("__pycache__")
    )
    # What the other notebooks export is there to be imported, but not as source,
    # which nbdev would look into.
    compileall.compile_dir(top / "book" / PACKAGE.name, legacy=True, quiet=1)
    for source in (top / "book" / PACKAGE.name).rglob("*.py"):
        source.unlink()
    files = ["settings.ini", "README.md", ".gitignore", ".gitattributes"]
    for name in files + [f"nbs/{name}.ipynb" for name in notebooks]:
        (top / "book" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, top / "book" / name)
    (top / "quarto").write_text("#!/bin/sh\nexit 9\n")
    (top / "quarto").chmod(0o755)
    sh("git", "init", "-q", cwd=top / "book")
    nbdev("export", top / "book")
    sh("git", "add", "-A", cwd=top / "book")
    sh("git", "-c", "user.name=n", "-c", "user.email=e", "commit", "-qm", "all", cwd=top / "book")
    return top / "book"


@pytest.fixture(scope="module")
def repo(tmp_path_factory):
    "A checkout that all tests share which leave it as it was."
    return checkout(tmp_path_factory.mktemp("nbdev"), FEW)


def nbdev(command: str, repo) -> str:
    "Run one of nbdev's commands in a checkout."
    path = os.pathsep.join([str(repo.parent), BIN, os.environ["PATH"]])
    return sh(f"{BIN}/nbdev_{command}", cwd=repo, env=os.environ | {"PATH": path})


def changed(repo) -> list[str]:
    "The changed lines, or the files that git does not know; what was changed is put back."
    diff = sh("git", "diff", "-U0", cwd=repo).splitlines()
    found = [line for line in diff if re.match(r"[+-](?!\+\+ |-- )", line)]
    found += [
        line
        for line in sh("git", "status", "--short", cwd=repo).splitlines()
        if line.startswith("??")
    ]
    sh("git", "checkout", "-q", ".", cwd=repo)
    return found


@pytest.mark.nightly
@pytest.mark.parametrize("command", CLEAN)
def test_git_stays_clean(repo, command):
    "Whatever they write beside the sources is ignored."
    nbdev(command, repo)
    fail_if(changed(repo), f"nbdev_{command} leaves:")


@pytest.mark.ci
def test_prepare_leaves_the_home_page(tmp_path):
    "To `make docs`. It runs the notebooks that it finds: here three; test_notebooks.py runs all."
    repo = checkout(tmp_path, ["index", "lookup/api", "lookup/notation"])
    assert "README.md, which make docs writes" in nbdev("prepare", repo)
    fail_if(changed(repo), "nbdev_prepare leaves:")


@pytest.mark.nightly
def test_pages_for_quarto_are_legible(repo):
    """All code of the notebook, charts as pictures, and an anchor for each link;
    and git stays clean.
    """
    nbdev("proc_nbs", repo)
    fail_if(changed(repo), "nbdev_proc_nbs leaves:")
    proc = repo / "_proc"
    pages = {
        p.relative_to(proc).as_posix(): json.loads(p.read_text(encoding="utf-8"))["cells"]
        for p in proc.rglob("*.ipynb")
    }
    text = {
        name: "\n".join("".join(cell["source"]) for cell in cells) for name, cells in pages.items()
    }
    charts = pages["figures/charts.ipynb"]
    outputs = [
        out["data"].keys() for cell in charts for out in cell.get("outputs", ()) if "data" in out
    ]
    assert len(outputs) >= 10 and all(kinds == {"image/svg+xml"} for kinds in outputs), outputs
    assert (
        "def heatmap(" in text["figures/charts.ipynb"]
        and "show_doc" not in text["figures/charts.ipynb"]
    )
    links = {
        (posixpath.normpath(posixpath.join(posixpath.dirname(name), page)), anchor)
        for name, said in text.items()
        for page, anchor in re.findall(r"\]\(([\w./]+)#([^)]+)\)", said)
    }
    assert links
    fail_if(
        [
            f"{page}#{anchor}"
            for page, anchor in links
            if page in text and f'{{id="{anchor}"}}' not in text[page]
        ],
        "Linked to, and not there:",
    )


@pytest.mark.nightly
def test_a_new_version_is_one_line(repo):
    """nbdev writes settings.ini anew, so it must stand there as nbdev writes it:
    all options, no comments.
    """
    nbdev("bump_version", repo)
    version = re.search(
        r"(?m)^version = (.*)\.(\d+)$", (ROOT / "settings.ini").read_text(encoding="utf-8")
    )
    assert changed(repo) == [f"-{version[0]}", f"+version = {version[1]}.{int(version[2]) + 1}"]


@pytest.mark.nightly
def test_an_edit_of_the_package_goes_back(repo):
    """One line, and none of the docstrings', though nbdev would double every option of Quarto's
    that an exported cell has.
    """
    module = repo / "attention_nb/figures/charts.py"
    text = module.read_text(encoding="utf-8")
    # docstrings hold what stands in comments there
    assert "    Args:\n" in text and text.count("SERIES = [") == 1
    module.write_text(text.replace("SERIES = [", 'SERIES = ["new", '), encoding="utf-8")
    nbdev("update", repo)
    sh("git", "checkout", "-q", "attention_nb", cwd=repo)
    found = changed(repo)
    assert len(found) == 2 and '[\\"new\\", ' in found[1], found


def test_annotations_can_be_evaluated(modules):
    "nbdev's `show_doc` does, and so do many tools that read types while a program runs."
    found = []
    for name in modules:
        module = importlib.import_module(f"attention_nb.{name}")
        for part in vars(module).values():
            if (
                inspect.isfunction(part) or inspect.isclass(part)
            ) and part.__module__ == module.__name__:
                try:
                    typing.get_type_hints(part)
                except (NameError, AttributeError) as e:
                    found.append(f"{name}.{part.__name__}: {e}")
    fail_if(found, "Not known while the program runs:")
