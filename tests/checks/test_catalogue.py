"""The catalogue of bugs: each code is planted somewhere, and each sentence has one code."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from attention_checks.catalogue import CATALOGUE, by_code
from attention_checks.explaining.pipeline import Bug, bugs_of_lines
from tests.checks import audited, distributed_corpus
from tests.checks.corpus import planted

HERE = Path(__file__).resolve().parent


def planted_codes() -> set[str]:
    "Every code that an entry of a corpus is named by."
    entries = planted.REGISTRY.entries.values()
    joined = [e.expect for e in entries if not e.missed and not e.unnamed]
    rows = [*distributed_corpus.PLANTED, *audited.PLANTED]
    return {code for each in joined for code in each.split("+")} | {row.code for row in rows}


def expected_codes(tree: ast.Module) -> set[str]:
    "Every string that a test asserts, or that stands in a table of what it expects."
    tables = [node for node in tree.body if isinstance(node, ast.Assign)]
    tests = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    listed = [each for node in tests for each in node.decorator_list]
    asserted = [node for node in ast.walk(tree) if isinstance(node, ast.Assert)]
    return {text for node in (*tables, *listed, *asserted) for text in strings(node)}


def strings(node: ast.AST) -> Iterator[str]:
    "List the strings in a part of a program, but those of `skip=` and of what must not be."
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.NotIn, ast.NotEq)):
        return
    elif not (isinstance(node, ast.keyword) and node.arg == "skip"):
        for part in ast.iter_child_nodes(node):
            yield from strings(part)


def test_every_code_is_planted():
    """Each code of attention_checks/catalogue is expected by an entry of a corpus or by a test:
    one that nothing plants may be dead.

    If it fails: Plant its bug in tests/checks/corpus/planted.py, or delete the code.
    """
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in HERE.glob("test_*.py")]
    expected = planted_codes().union(*map(expected_codes, trees))
    assert not sorted(CATALOGUE.keys() - expected)


def test_each_sentence_has_one_code():
    assert len({bug.says for bug in CATALOGUE.values()}) == len(CATALOGUE)


def test_a_code_has_the_sentence_with_braces_where_others_are_filled_in():
    found, filled = (Bug("mask.late", f"{n} too late") for n in ("{n}", "2"))
    assert by_code([filled, found, filled])["mask.late"] is found
    assert CATALOGUE["rotary.base"].declare == "base={found}"
    with pytest.raises(ValueError, match="mask.late: expected one sentence; got 2 too late and 3"):
        by_code([filled, Bug("mask.late", "3 too late")])


def test_a_line_of_a_table_without_a_sentence_is_refused():
    "It would become a bug that says nothing."
    assert [bug.code for bug in bugs_of_lines("~mask.late: too late\n  by far")] == ["mask.late"]
    with pytest.raises(ValueError, match="expected `code: sentence`; got 'mask.late too late'"):
        bugs_of_lines("mask.late too late")
