"""Who may import whom: subjects and traces know nothing of the properties that try them."""

import ast
from pathlib import Path

import pytest

import attention_checks

ROOT = Path(attention_checks.__file__).parent


def imported(path):
    "The modules of this package that a file imports."
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            yield node.module or ""
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


@pytest.mark.parametrize(
    "part, never",
    [
        ("subjects", "properties"),
        ("trace", "subjects"),
        ("trace", "properties"),
        ("catalogue", "trace"),
        ("catalogue", "search"),
    ],
)
def test_a_lower_part_imports_no_higher_one(part, never):
    files = sorted((ROOT / part).rglob("*.py"))
    assert files
    for path in files:
        wrong = [name for name in imported(path) if f"attention_checks.{never}" in name]
        assert not wrong, f"{path.name} imports {wrong}"
