"""Who may import whom: subjects and traces know nothing of the properties that try them. Variables
say what they hold.
"""

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


def test_no_variable_is_named_as_if_it_held_what_was_said_or_told():
    wrong = []
    for path in sorted(ROOT.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            stored = isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
            name = node.id if stored else getattr(node, "arg", "")
            if name in ("said", "told"):
                wrong.append(f"{path.name}, line {node.lineno}: {name}")
    assert not wrong, wrong
