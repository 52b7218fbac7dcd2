"""The catalogue of bugs: each code is planted somewhere, and each sentence has one code."""

import ast
from pathlib import Path

from attention_checks.catalogue import CATALOGUE

HERE = Path(__file__).resolve().parent


def expected_codes() -> set[str]:
    "Every code that a test or an entry of the corpus expects."
    found = set()
    for path in HERE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found |= set(node.value.split("+"))
    return found


def test_every_code_is_planted():
    """Each code of attention_checks/catalogue is expected by a test or by the corpus:
    one that nothing plants may be dead.

    If it fails: Plant its bug in tests/checks/corpus/planted.py, or delete the code.
    """
    assert not sorted(CATALOGUE.keys() - expected_codes())


def test_each_sentence_has_one_code():
    assert len({bug.says for bug in CATALOGUE.values()}) == len(CATALOGUE)
