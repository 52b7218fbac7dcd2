"""What the tests share.

A notebook tests its own code; the tests here are for what a notebook cannot test.
"""

import difflib
import gc
import inspect
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

# Before torch is imported: the workers, and what they start, share the cores.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Of parsed pages there are millions of objects: looking through them all again and again takes as
# long as parsing.
gc.set_threshold(100_000)

import fresh
import pytest
from browser import DOCS, GONE, HANGS, browsers, chromium, no_longer_than, site, visit  # noqa: F401 (fixtures)
from bs4 import BeautifulSoup
from hypothesis import HealthCheck, settings
from places import NBS, PACKAGE, ROOT, modules, notebook_of, notebooks, place  # noqa: F401 (tests take them from here)

NOTEBOOKS = notebooks()


# What a copy of the repository leaves out: what is built, and the tests' own scratch.
NOT_SOURCE = shutil.ignore_patterns(
    ".*", "docs", "_build", "_proc", "dist", "build", "__pycache__", "*.egg-info"
)
COSTLY = ("soups", "begun", "epub", "desk", "wheel", "repo", "ranks", "tried")  # fixtures
# Not of one file. The EPUB takes the charts that a build of the site has drawn: it comes after.
OF_ALL = {"soups": "soups", "begun": "begun", "epub": "the scratch of this checkout"}
# One worker imports it for all of these: it takes seconds.
OF_TRANSFORMERS = (
    "test_audit.py",
    "test_corpus_sample.py",
    "test_real_models.py",
    "test_watching.py",
)
# Tests, files and fixtures that take long, the longest first: nobody waits for them at the end.
# Those that mostly wait (for a Lab, for ranks) stand between others, which meanwhile compute.
LONG = (
    "begun",
    "tried",
    "test_every_build_gives_the_same_bytes",
    "test_site_and_readme_come_from_the_notebooks",
    "desk",
    "epub",
    "test_check_distributed.py",
    "soups",
    "ranks",
    *OF_TRANSFORMERS,
    "test_check_flash_holds",
    "test_torchrun_starts_again_after_a_kill",
    "test_killed_at_random_moments_and_resumed",
    "wheel",
    "repo",
    "test_types",
    "test_notebooks.py",
    "test_third_party.py",
)
HOST, REPO = "https://example.org/books/attention/", "somebody/attention"
CHAPTERS = [path for path in NOTEBOOKS if place(path)[0].isdigit()]
NEXT = f"{int(CHAPTERS[-1].stem[:2]) + 1:02}"  # the number of a new chapter
each_chapter = pytest.mark.parametrize("chapter", CHAPTERS, ids=place)
IN_CI = os.environ.get("CI") == "true"
LOOKS = [
    Path(__file__).with_name(name)
    for name in ("browser.py", "conftest.py", "test_browser.py", "test_story.py")
]
# Of the whole book; the page of the search alone reads them.
WORDS = DOCS / "_static/search/sections.js"


def of_page(page: Path) -> list[Path]:
    """What a page of the site shows hangs on itself, on all styles and scripts,
    and on how it is looked at.
    """
    beside = [
        path
        for path in DOCS.rglob("*")
        if path.is_file() and path.suffix not in (".html", ".ipynb")
    ]
    return [
        page,
        *LOOKS,
        ROOT / "constraints.txt",
        *(path for path in beside if path != WORDS or page.stem == "search"),
    ]


def by_day(
    values: Iterable[Any],  # of a parameter; tuples of several
    one_of: int = 2,  # every second one by day
    always: Callable[[Any], bool] = lambda value: False,  # of the first: is it tried by day anyhow?
) -> list[Any]:  # for pytest.mark.parametrize
    "Some of many values of one kind are tried by day; the others at night (`make nightly`)."
    by_night = pytest.mark.nightly
    rows = [_row(value) for value in values]
    return [
        row._replace(marks=[*row.marks, by_night])
        if i % one_of and not always(row.values[0])
        else row
        for i, row in enumerate(rows)
    ]


@cache
def _edited_pages() -> set[str] | None:
    "The pages of docs/ that differ from the last commit; None where git does not tell."
    command = ["git", "status", "--porcelain", "--untracked-files=all", "--", "docs"]
    done = subprocess.run(command, cwd=ROOT, text=True, capture_output=True)
    return None if done.returncode else {line[3:].strip('"') for line in done.stdout.splitlines()}


def is_edited(page: str) -> bool:
    "Whether a page of docs/ differs from the last commit: then it is tried by day."
    pages = _edited_pages()
    return pages is None or f"docs/{page}" in pages


def _row(value: Any) -> Any:
    "What pytest.param makes of a value, of a tuple of values, or of what it has made itself."
    if isinstance(value, type(pytest.param())):
        return value
    return pytest.param(*value) if type(value) is tuple else pytest.param(value)


# How many examples a property is tried on. In continuous integration they are the same each time;
# `make nightly` tries others, and more of them.
settings.register_profile(
    "quick",
    max_examples=10,
    deadline=None,
    derandomize=IN_CI,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "night", settings.get_profile("quick"), max_examples=200, derandomize=False
)
settings.register_profile(
    "thorough", settings.get_profile("quick"), max_examples=2000, derandomize=False
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))


def sh(*command, cwd=ROOT, env=None) -> str:
    "Run a command and return what it printed; its failure fails the test with just that."
    done = subprocess.run(
        [str(c) for c in command],
        cwd=cwd,
        env=env,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    if done.returncode:
        short = " ".join(Path(c).name if i == 0 else str(c) for i, c in enumerate(command))
        pytest.fail(f"{short[:200]}\n{done.stdout}", pytrace=False)
    return done.stdout


def python(*args, **kwargs) -> str:
    "`sh` with this environment's Python."
    return sh(sys.executable, *args, **kwargs)


def fail_if(found: list[str], why: str) -> None:
    "Fail with `why` and the list, unless it is empty."
    if found:
        pytest.fail("\n".join([why, *(f"  {line}" for line in found)]), pytrace=False)


def copy_of_the_book(into: Path) -> Path:
    """The sources of this checkout, and what a build of it has drawn, which is the same there:
    drawing takes half of a build.
    """
    shutil.copytree(ROOT, into, ignore=NOT_SOURCE)
    (into / "_build").mkdir()
    for name in ("charts", "stills"):
        drawn = ROOT / "_build" / name
        drawn.mkdir(parents=True, exist_ok=True)
        (into / "_build" / name).symlink_to(drawn)
    return into


def tree(folder: Path) -> dict[str, bytes]:
    "The files under a folder, without Python's caches."
    return {
        str(p.relative_to(folder)): p.read_bytes()
        for p in sorted(folder.rglob("*"))
        if p.is_file() and "__pycache__" not in p.parts
    }


def differences(committed: dict[str, bytes], built: dict[str, bytes], n: int = 5) -> list[str]:
    """How two sets of files differ:
    the names, and of the first `n` changed ones the first changed lines.
    """
    found = [f"missing: {name}" for name in sorted(built.keys() - committed.keys())]
    found += [f"left over: {name}" for name in sorted(committed.keys() - built.keys())]
    for name in sorted(committed.keys() & built.keys()):
        if committed[name] == built[name]:
            continue
        found.append(f"differs: {name}")
        if (n := n - 1) >= 0:
            old, new = (
                files[name].decode(errors="replace").splitlines() for files in (committed, built)
            )
            lines = difflib.unified_diff(old, new, lineterm="", n=0)
            found += [f"    {line[:160]}" for line in list(lines)[3:9]]
    return found


@pytest.fixture(scope="session")
def begun(tmp_path_factory) -> Path:
    """A copy of the book in which a chapter was begun, and settings.ini names a host
    and a repository; as its author would make it, up to the site.
    """
    book = copy_of_the_book(tmp_path_factory.mktemp("begun") / "book")
    # not the package of this checkout, which is installed
    env = os.environ | {"PYTHONPATH": str(book)}
    ini, host = book / "settings.ini", urlsplit(HOST)
    text = ini.read_text(encoding="utf-8")
    for name, value in {
        "doc_host": f"{host.scheme}://{host.netloc}",
        "doc_baseurl": host.path,
        "git_url": f"https://github.com/{REPO}",
    }.items():
        text, count = re.subn(rf"(?m)^{name} *=.*$", f"{name} = {value}", text)
        assert count == 1, f"settings.ini has {count} lines `{name} =`"
    ini.write_text(text, encoding="utf-8")
    python("tools/chapter.py", NEXT, "new_idea", cwd=book)
    said = sh(Path(sys.executable).with_name("nbdev_export"), cwd=book)
    assert said == "", said
    python("tools/outputs.py", "refresh", f"nbs/{NEXT}_new_idea.ipynb", cwd=book, env=env)
    python("website/build.py", cwd=book, env=env)
    return book


@pytest.fixture(autouse=True)
def loud(request, monkeypatch):
    """In the tests of the checks an error that a line of the checks raises is an error,
    and never a finding or a note.
    """
    if "checks" in request.path.parts:
        monkeypatch.setattr("attention_checks.outcomes.RAISE_OWN_ERRORS", True)


@pytest.fixture(scope="session", name="modules")
def _modules() -> dict[str, Path]:
    "The exported modules by name, in the order of their notebooks."
    return modules()


def parsed(folder: Path) -> dict[str, BeautifulSoup]:
    "The pages of a built site, by their paths in it; this takes seconds."
    return {
        path.relative_to(folder).as_posix(): BeautifulSoup(path.read_bytes(), "html.parser")
        for path in sorted(folder.rglob("*.html"))
    }


@pytest.fixture(scope="session")
def soups() -> dict[str, BeautifulSoup]:
    "Every page of the built site, parsed."
    return parsed(DOCS)


def place_in(order: tuple[str, ...], item) -> int:
    "The place of a test, its file or a fixture of it in the order; behind all, if it has none."
    names = {item.name.partition("[")[0], item.path.name, *item.fixturenames}
    return next((i for i, name in enumerate(order) if name in names), len(order))


def pytest_make_parametrize_id(val):
    "A function without a name is known by the names that it uses."
    if getattr(val, "__name__", "") == "<lambda>":
        return "lambda " + " ".join(val.__code__.co_names + val.__code__.co_varnames)
    return None


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist looks at the groups
def pytest_collection_modifyitems(items):
    """What takes long begins first: nobody waits for it alone.

    What takes long to make is made once, in one process for all.
    """
    items.sort(key=lambda item: place_in(LONG, item))
    for item in items:
        for fixture in [name for name in COSTLY if name in item.fixturenames]:
            of = OF_ALL.get(fixture, f"{fixture} of {item.path.stem}")
            item.add_marker(pytest.mark.xdist_group(of))
        if item.path.name in OF_TRANSFORMERS:
            item.add_marker(pytest.mark.xdist_group("transformers"))
        if "browsers" in item.fixturenames:
            item.add_marker(pytest.mark.flaky(reruns=1, only_rerun=[GONE]))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    "A browser that answers no more is ended; the test is tried once more in a new one."
    with no_longer_than(HANGS) if "browsers" in item.fixturenames else nullcontext():
        return (yield)


def kept(item) -> tuple[Path, str, fresh.Needs] | None:
    """Of a test that is marked `once`: what it is about, which test it is,
    and the files that it hangs on.
    """
    if not (mark := item.get_closest_marker("once")):
        return None
    parameter, files = mark.args
    # a whole path stays as it is
    return DOCS / item.callspec.params[parameter], mark.kwargs.get("way", item.name), files


def is_passed_over(item) -> bool:
    """What passed here is passed over until something has changed that it hangs on;
    continuous integration runs all.
    """
    return bool(not IN_CI and (run := kept(item)) and fresh.is_fresh(*run))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    "A test is passed over before its fixtures are made."
    if is_passed_over(item):
        pytest.skip(
            "it passed here, and nothing that it depends on has changed since; "
            "CI=true runs it again"
        )


def purpose(item) -> str:
    """What the docstrings of a test and of its module say:
    what must hold, and what to do when it does not.
    """
    found = (inspect.getdoc(getattr(item, name, None)) for name in ("function", "module"))
    return "\n\n".join(doc for doc in found if doc)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """A failed test says what it is for. In continuous integration a skipped test is a failed one,
    for a check that never runs protects nothing."""
    report = yield
    if report.when == "call" and report.passed and (run := kept(item)):
        fresh.keep(*run)
    if report.skipped and IN_CI:
        why = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome, report.longrepr = (
            "failed",
            f"{item.nodeid}: with CI=true nothing may be skipped; {why}",
        )
    if report.failed and (why := purpose(item)):
        report.sections.append(("What this test is for", why))
    return report
