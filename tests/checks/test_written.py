"""How the package is written: subjects and traces know nothing of the properties that try them,
names say what they hold, and functions are short.
"""

import ast
from pathlib import Path

import pytest

import attention_checks

ROOT = Path(attention_checks.__file__).parent
LONGEST = 25  # lines of a function, with its signature and without its docstring; aim at 15


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
        ("catalogue", "explaining.search"),
        ("explaining", "subjects"),
        ("explaining", "trace"),
    ],
)
def test_a_lower_part_imports_no_higher_one(part, never):
    files = sorted((ROOT / part).rglob("*.py"))
    assert files
    for path in files:
        wrong = [name for name in imported(path) if f"attention_checks.{never}" in name]
        assert not wrong, f"{path.name} imports {wrong}"


def nodes(*kinds):
    "Yield the nodes of these kinds in the package, each with the name of its file."
    for path in sorted(ROOT.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, kinds):
                yield path.name, node


def test_functions_are_short():
    "If it fails: Give a part of the function a name of its own."
    long = []
    for file, node in nodes(ast.FunctionDef):
        doc = node.body[0] if ast.get_docstring(node) else None
        lines = node.end_lineno - node.lineno + 1
        if doc:
            lines -= doc.end_lineno - doc.lineno + 1
        if lines > LONGEST:
            long.append(f"{file}: {node.name} has {lines} lines")
    assert not long, long


def test_what_tries_a_property_is_named_must():
    "A guard of arguments expects, a property must, a public verdict checks."
    at = {"Property": 1, "Property.of": 0}  # which argument is the function
    calls = [(file, node, ast.unparse(node.func)) for file, node in nodes(ast.Call)]
    tried = [(file, node.args[at[made]]) for file, node, made in calls if made in at]
    assert len(tried) > 50
    for file, function in tried:
        names = {n.id for n in ast.walk(function) if isinstance(n, ast.Name)}
        assert any("must_" in name for name in names), f"{file}: {ast.unparse(function)}"


def test_no_variable_is_named_as_if_it_held_what_was_said_or_told():
    wrong = []
    for file, node in nodes(ast.Name, ast.arg):
        stored = isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        name = node.id if stored else getattr(node, "arg", "")
        if name in ("said", "told"):
            wrong.append(f"{file}, line {node.lineno}: {name}")
    assert not wrong, wrong
