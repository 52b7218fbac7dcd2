"""Nothing that is generated and committed is stale: the package, README.md and the site."""
import os
import shutil
import sys

from conftest import ROOT, differences, fail_if, python, sh, tree

STALE = "Stale; run `make prepare` and commit:"


def test_package_comes_from_the_notebooks(tmp_path):
    "An edit in attention_nb/ would be lost at the next export, and one in nbs/ would never reach the user."
    shutil.copy(ROOT / "settings.ini", tmp_path)
    shutil.copytree(ROOT / "nbs", tmp_path / "nbs", ignore=shutil.ignore_patterns(".*"))
    (tmp_path / "attention_nb").mkdir()
    for by_hand in ("py.typed", "__main__.py"):
        shutil.copy(ROOT / "attention_nb" / by_hand, tmp_path / "attention_nb")
    sh(f"{os.path.dirname(sys.executable)}/nbdev_export", cwd=tmp_path)
    fail_if(differences(tree(ROOT / "attention_nb"), tree(tmp_path / "attention_nb")), STALE)


def test_site_and_readme_come_from_the_notebooks(tmp_path):
    "Built again elsewhere, they are the same bytes: so they are fresh, and the build is deterministic."
    python("website/build.py", "--out", tmp_path / "docs", "--readme", tmp_path / "README.md")
    committed = tree(ROOT / "docs") | {"../README.md": (ROOT / "README.md").read_bytes()}
    built = tree(tmp_path / "docs") | {"../README.md": (tmp_path / "README.md").read_bytes()}
    fail_if(differences(committed, built), STALE)
