"""What stands in the comments beside parameters, as a part of the docstring:
`help()` and editors show docstrings alone.

`documented` adds it to the code of a cell on its way into the package,
`plain` takes it off on the way back.
"""

import ast
import io
import re
import textwrap
import tokenize
from collections.abc import Callable, Iterator

# What follows the one line of a docstring.
ADDED = re.compile(r"\n\n *(?:Args|Returns|Raises):\n.*", re.S)
_DEFINED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def documented(
    code: str,  # of a cell
) -> str:  # with the parameters and the result in each public docstring of one line
    "Add what the comments say."
    said = _comments(code)

    def whole(doc: ast.Constant, node: ast.AST, text: str) -> str:
        found = re.fullmatch(r'(r?)"([^"].*)"', text)
        if not found or not (sections := _sections(node, said)):
            return text
        lines = "\n" + textwrap.indent("\n".join(sections), " " * doc.col_offset)
        prefix, line = found.groups()
        lines = lines if prefix else lines.replace("\\", "\\\\")
        return f'{prefix}"""{line}{lines}\n{" " * doc.col_offset}"""'

    return _edited(code, whole)


def plain(
    code: str,  # of a module or of a part of it
) -> str:  # as its notebook has it
    "Take off what `documented` has added."
    return _edited(
        code,
        lambda doc, node, text: re.sub(
            r'^(r?)"""([^\n]+)' + ADDED.pattern + "$", r'\1"\2"', text, flags=re.S
        ),
    )


def _edited(code: str, edit: Callable[[ast.Constant, ast.AST, str], str]) -> str:
    "The code, each public docstring in it as `edit` wants it."
    lines = code.splitlines(keepends=True)
    for node in reversed(list(_public(ast.parse(code).body))):
        doc = node.body[0].value if isinstance(node.body[0], ast.Expr) else None
        if not isinstance(doc, ast.Constant) or not isinstance(doc.value, str):
            continue
        first, last = doc.lineno - 1, doc.end_lineno
        text = "".join(lines[first:last])
        inner = ast.get_source_segment(code, doc)
        lines[first:last] = [text.replace(inner, edit(doc, node, inner), 1)]
    return "".join(lines)


def _public(body: list[ast.stmt]) -> Iterator[ast.AST]:
    "Public functions, classes and their methods, in their order."
    for node in body:
        if isinstance(node, _DEFINED) and not node.name.startswith("_"):
            yield node
            if isinstance(node, ast.ClassDef):
                yield from _public(node.body)


def _comments(code: str) -> dict[int, str]:
    "The comments of each line."
    tokens = tokenize.generate_tokens(io.StringIO(code).readline)
    return {t.start[0]: t.string.lstrip("# ") for t in tokens if t.type == tokenize.COMMENT}


def _sections(node: ast.AST, said: dict[int, str]) -> list[str]:
    "Parameters and result, in Google's style; none if no comment says anything of them."
    given = {name: said[line] for name, line in _parameters(node).items() if line in said}
    returned = getattr(node, "returns", None)
    result = said.get(returned.lineno, "") if returned else ""
    error = re.fullmatch(r"raises (\w+) (.+)", result)
    sections = {
        "Args": [f"{name}: {text}" for name, text in given.items()],
        "Returns": [result] * bool(result and not error),
        "Raises": [f"{error[1]}: {error[2]}"] if error else [],
    }
    return [
        line
        for name, rows in sections.items()
        if rows
        for line in ("", f"{name}:", *(f"    {row}" for row in rows))
    ]


def _parameters(node: ast.AST) -> dict[str, int]:
    "What a function takes, or a class when it is made: each with its line."
    if isinstance(node, ast.ClassDef):
        made = next((part for part in node.body if getattr(part, "name", "") == "__init__"), None)
        fields = {
            part.target.id: part.lineno for part in node.body if isinstance(part, ast.AnnAssign)
        }
        return _parameters(made) if made else fields
    args, end = node.args, node.returns.lineno if node.returns else 0
    every = [*args.posonlyargs, *args.args, args.vararg, *args.kwonlyargs, args.kwarg]
    return {arg.arg: arg.lineno for arg in every if arg and arg.lineno != end}
