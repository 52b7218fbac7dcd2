"""`make wild` on a package made here: its rows, what is kept, and that every refusal has been read."""
import json
from collections import Counter
from pathlib import Path

import pytest
from wild import run
from wild.judge import TimedOut, limited
from wild.subjects import packages

WILD = Path(run.__file__).parent
ATTENTION = '''
import torch, torch.nn as nn


class Right(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (nn.Linear(d, d) for _ in range(4))
        self.n_heads = h

    def scale(self, d):
        return d ** -0.5

    def forward(self, x):
        q, k, v = (p(x).unflatten(-1, (self.n_heads, -1)).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj))
        weights = (q @ k.mT * self.scale(q.shape[-1])).softmax(-1)
        return self.out_proj((weights @ v).transpose(1, 2).flatten(2))


class Unscaled(Right):
    def scale(self, d):
        return 1


class Dies(nn.Module):
    def forward(self, x):
        import os
        os._exit(3)
'''
TABLE = '''
from wild.subjects import layer

SUBJECTS = [layer("fake.Right", lambda cls: cls(48, 4), d_model=48, n_heads=4), layer("fake.Dies", lambda cls: cls(), d_model=48),
            layer("fake.Unscaled", lambda cls: cls(48, 4), d_model=48, n_heads=4), layer("fake.Missing", lambda cls: cls(), d_model=48)]
'''


@pytest.fixture
def fake(tmp_path):
    "A package that is installed already, and its table; what runs it."
    for path, text in (("cache/fake-1.0/fake.py", ATTENTION), ("tables/fake.py", TABLE), ("packages.txt", "# a comment\nfake==1.0\n")):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)

    def ran(*more):
        run.main(["--cache", str(tmp_path / "cache"), "--to", str(tmp_path / "results.json"), "--packages", str(tmp_path / "packages.txt"), *more])
        return json.loads((tmp_path / "results.json").read_text())
    return ran


def test_rows_of_a_package(fake, tmp_path):
    "Right and wrong, one that ends the process, one that is not there; then nothing is tried again."
    found = fake()
    rows = {row["class"]: row for row in found["rows"]}
    verdicts = {name: row["verdict"] for name, row in rows.items()}
    assert verdicts == {"fake.Right": "ok", "fake.Dies": "untried", "fake.Unscaled": "refused", "fake.Missing": "untried"}
    assert rows["fake.Right"]["compared"] == "own weights" and rows["fake.Unscaled"]["codes"] == ["scale.missing"]
    assert "status 3" in rows["fake.Dies"]["said"][0] and rows["fake.Right"]["file"] == "fake.py" and rows["fake.Right"]["line"] > 1
    assert found["summary"]["ok"] == found["summary"]["own_weights"] == 1 and found["summary"]["tried"] == 2
    log = tmp_path / "cache" / "rows.jsonl"
    lines = log.read_text().splitlines()
    log.write_text("\n".join(line for line in lines if "Unscaled" not in line) + "\n")  # as if it had been stopped there
    again = fake("--only", "fake:*Unscaled")
    assert len(log.read_text().splitlines()) == len(lines), "only what was missing is tried"
    assert [row["class"] for row in again["rows"]] == sorted(rows), "rows that were not asked for are kept"


def test_time_is_limited():
    "What takes too long is left, also where every Exception is caught."
    with pytest.raises(TimedOut), limited(1):
        while True:
            try:
                sum(range(1000))
            except Exception:
                pass


def test_every_refusal_has_been_read():
    "Each refused row stands in the reading, with a sort and a reason; what is read is still refused."
    rows = json.loads((WILD / "results.json").read_text(encoding="utf-8"))["rows"]
    read = json.loads((WILD / "read.json").read_text(encoding="utf-8"))["read"]
    sorts = json.loads((WILD / "read.json").read_text(encoding="utf-8"))["sorts"]
    refused = {f"{row['package']}:{row['class']}" for row in rows if row["verdict"] == "refused"}
    assert refused == set(read), refused ^ set(read)
    for name, one in read.items():
        assert one["sort"] in sorts and len(one["why"]) > 20, name
        assert one["sort"] != "fault" or one["at"], f"{name}: file and line"


def test_the_table_is_of_the_packages_that_are_listed():
    "Names and versions; every class once."
    rows = json.loads((WILD / "results.json").read_text(encoding="utf-8"))["rows"]
    listed = {(p.name, p.version) for p in packages()}
    assert {(row["package"], row["version"]) for row in rows} <= listed
    assert max(Counter((row["package"], row["class"]) for row in rows).values()) == 1
