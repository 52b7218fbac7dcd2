"""`make third-party` on a package made here: its rows, what is kept, and that every refusal has
been read; and the bugs planted in published classes.
"""

import json
import sys
from collections import Counter
from pathlib import Path

import pytest

from attention_checks.catalogue import CATALOGUE
from tests.third_party import edits, planted, run
from tests.third_party.judge import TimedOut, limited
from tests.third_party.subjects import packages

FOLDER = Path(run.__file__).parent
ATTENTION = """
import torch, torch.nn as nn


class Right(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (nn.Linear(d, d) for _ in range(4))
        self.n_heads = h

    def scale(self, d):
        return d ** -0.5

    def forward(self, x):
        projections = self.q_proj, self.k_proj, self.v_proj
        q, k, v = (p(x).unflatten(-1, (self.n_heads, -1)).transpose(1, 2) for p in projections)
        weights = (q @ k.mT * self.scale(q.shape[-1])).softmax(-1)
        return self.out_proj((weights @ v).transpose(1, 2).flatten(2))


class Unscaled(Right):
    def scale(self, d):
        return 1


class Dies(nn.Module):
    def forward(self, x):
        import os
        os._exit(3)
"""
TABLE = """
from tests.third_party.subjects import layer

SUBJECTS = [
    layer("fake.Right", lambda cls: cls(48, 4), d_model=48, n_heads=4),
    layer("fake.Dies", lambda cls: cls(), d_model=48),
    layer("fake.Unscaled", lambda cls: cls(48, 4), d_model=48, n_heads=4),
    layer("fake.Missing", lambda cls: cls(), d_model=48),
]
"""


@pytest.fixture
def fake(tmp_path):
    "A package that is installed already, and its table; what runs it."
    for path, text in (
        ("cache/fake-1.0/fake.py", ATTENTION),
        ("tables/fake.py", TABLE),
        ("packages.txt", "# a comment\nfake==1.0\n"),
    ):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)

    def ran(*more):
        run.main(
            [
                "--cache",
                str(tmp_path / "cache"),
                "--to",
                str(tmp_path / "results.json"),
                "--packages",
                str(tmp_path / "packages.txt"),
                *more,
            ]
        )
        return json.loads((tmp_path / "results.json").read_text())

    return ran


@pytest.mark.nightly
def test_rows_of_a_package(fake, tmp_path):
    """Right and wrong, one that ends the process, one that is not there;
    then nothing is tried again.
    """
    found = fake()
    rows = {row["class"]: row for row in found["rows"]}
    verdicts = {name: row["verdict"] for name, row in rows.items()}
    assert verdicts == {
        "fake.Right": "ok",
        "fake.Dies": "untried",
        "fake.Unscaled": "refused",
        "fake.Missing": "untried",
    }
    assert rows["fake.Right"]["compared"] == "own weights" and rows["fake.Unscaled"]["codes"] == [
        "scale.missing"
    ]
    assert "status 3" in rows["fake.Dies"]["why"]
    assert (
        found["summary"]["ok"] == found["summary"]["own_weights"] == 1
        and found["summary"]["tried"] == 2
    )
    log = tmp_path / "cache" / "rows.jsonl"
    lines = log.read_text().splitlines()
    # as if it had been stopped there
    log.write_text("\n".join(line for line in lines if "Unscaled" not in line) + "\n")
    again = fake("--only", "fake:*Unscaled")
    assert len(log.read_text().splitlines()) == len(lines), "only what was missing is tried"
    assert [row["class"] for row in again["rows"]] == sorted(rows), (
        "rows that were not asked for are kept"
    )


def test_time_is_limited():
    "What takes too long is left, also where every Exception is caught."
    with pytest.raises(TimedOut), limited(1):
        while True:
            try:
                sum(range(1000))
            except Exception:
                pass


def test_every_refusal_has_been_read():
    """Each refused row of tests/third_party/results.json stands in tests/third_party/read.json,
    with a sort and a reason; what stands there is still refused.

    If it fails: Read the row, and say there what it is: a fault with file and line, a contract,
    a choice, or a false alarm of ours.
    """
    rows = json.loads((FOLDER / "results.json").read_text(encoding="utf-8"))["rows"]
    read = json.loads((FOLDER / "read.json").read_text(encoding="utf-8"))["read"]
    sorts = json.loads((FOLDER / "read.json").read_text(encoding="utf-8"))["sorts"]
    refused = {f"{row['package']}:{row['class']}" for row in rows if row["verdict"] == "refused"}
    assert refused == set(read), refused ^ set(read)
    for name, one in read.items():
        assert one["sort"] in sorts and len(one["why"]) > 20, name
        assert one["sort"] != "fault" or one["at"], f"{name}: file and line"


def test_the_table_is_of_the_packages_that_are_listed():
    "Names and versions; every class once."
    rows = json.loads((FOLDER / "results.json").read_text(encoding="utf-8"))["rows"]
    listed = {(p.name, p.version) for p in packages()}
    assert {(row["package"], row["version"]) for row in rows} <= listed
    assert max(Counter((row["package"], row["class"]) for row in rows).values()) == 1


def test_planted_edits_are_a_hundred_lines_with_codes():
    """One line each, another than it was; each has a name of its own, and codes that the catalogue
    knows; each is of a class that is tried.
    """
    every, tried = (
        edits.edits(),
        json.loads((FOLDER / "results.json").read_text(encoding="utf-8"))["rows"],
    )
    assert (
        len(every)
        == len({edit.name for edit in every})
        == len({(edit.file, edit.line, edit.new) for edit in every})
        == 100
    )
    classes = {(row["package"], row["version"], row["class"]) for row in tried}
    for edit in every:
        assert edit.old != edit.new and edit.new.count("\n") <= 1 == edit.old.count("\n"), edit.name
        assert set(edit.expect.split("|")) <= CATALOGUE.keys(), edit.name
        assert (edit.package, edit.version, edit.path) in classes, edit.name


def test_the_table_of_planted_edits_is_of_the_patches():
    """Every edit has its row, with what was expected; each differs from the published class;
    the figures are those of the rows.
    """
    table, every = (
        json.loads((edits.FOLDER / "results.json").read_text(encoding="utf-8")),
        edits.edits(),
    )
    assert [(row["edit"], row["expect"]) for row in table["rows"]] == [
        (edit.name, edit.expect) for edit in every
    ]
    assert table["summary"] == edits.summary(table["rows"])
    for row in table["rows"]:
        assert row["differs"], f"{row['edit']}: it changes nothing"
        assert (
            row["caught"]
            >= row["named"]
            == (row["caught"] and bool(set(row["expect"].split("|")) & set(row["codes"])))
        ), row["edit"]


@pytest.mark.nightly
def test_an_edit_is_planted_and_judged(fake, tmp_path, monkeypatch):
    """A line of the package made here is changed: its class is another, its file is not;
    another line than is meant is refused.
    """
    line = next(i for i, text in enumerate(ATTENTION.splitlines(), 1) if "d ** -0.5" in text)
    patch = tmp_path / "fake.patch"
    patch.write_text(
        "Package: fake==1.0\nClass: fake.Right\n\nEdit: no scale\nExpect: scale.missing\n"
        "--- a/fake.py\n+++ b/fake.py\n"
        f"@@ -{line} +{line} @@\n-        return d ** -0.5\n+        return 1\n"
    )
    [edit] = edits.edits(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path / "cache" / "fake-1.0"))
    monkeypatch.delitem(sys.modules, "fake", raising=False)
    package = packages(tmp_path / "packages.txt")[0]
    subject = next(s for s in package.subjects() if s.path == "fake.Right")
    row = planted.judged(subject, edit)
    assert row["differs"] == ["evaluation", "training", "bfloat16"] and row["codes"] == [
        "scale.missing"
    ]
    judged = edits.judgement(edit, {**row, "checks": ""}, set())
    assert (
        judged["caught"]
        and judged["named"]
        and not edits.judgement(edit, {**row, "checks": ""}, {"scale.missing"})["caught"]
    )
    assert (
        "return 1"
        not in (tmp_path / "cache/fake-1.0/fake.py").read_text().partition("class Unscaled")[0]
    )
    with pytest.raises(ValueError, match="line 1 of fake.py"):
        edits.Edit("", "", "", "", "", "fake.py", 1, "another line\n", "").apply(ATTENTION)
