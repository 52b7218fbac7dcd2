"""A Sphinx extension: a story shows the plain version of a function,
until a reader asks for everything.

In the package a head has a line with a comment for each parameter, and the reference says it all
once more. So types, comments and line ends of heads are marked, and in a story the book's style
hides them: names and defaults are left, `def softmax(x, dim=-1):`, and below them the shapes that
the comments give. Guards of arguments are hidden, too. Nothing is there twice, and what is copied
is the whole.
"""

import ast
import re
import tokenize
from collections.abc import Iterable, Iterator
from io import StringIO
from typing import Any, NamedTuple

from docutils import nodes
from pygments.formatters import HtmlFormatter
from pygments.token import Text
from sphinx.application import Sphinx

from notebooks import is_chapter

WIDE = 88  # characters; a longer head goes on in the next line
# No code holds them.
HIDE, SHOW, INDENT, SHAPES, END = "\ue000", "\ue001", "\ue002", "\ue003", "\ue004"
# In a story, book.css hides the first, indents by the third, and shows the shapes.
ELEMENTS = {HIDE: "<i>", SHOW: "</i>", INDENT: "<b></b>", SHAPES: '<b data-shapes="', END: '"></b>'}
GUARD = re.compile(r"_?expect_\w+$")  # the name of a function that refuses arguments
SIZE = r"(?:\.\.\.|\w+(?: [*/+-] \w+)*)"
SHAPE = re.compile(rf"\((?:{SIZE}(?:, {SIZE})+|{SIZE},)?\)")
IDLE = {tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.COMMENT}


class Piece(NamedTuple):
    "A stretch of the code."

    start: int
    end: int
    text: str = ""


class Source:
    "Code, its tokens, and its functions."

    def __init__(self, code: str) -> None:
        self.code, self.lines = code, code.splitlines(keepends=True)
        self.starts = [sum(map(len, self.lines[:i])) for i in range(len(self.lines) + 1)]
        every = list(tokenize.generate_tokens(StringIO(code).readline))
        self.tokens = [
            Piece(*(self.starts[row - 1] + col for row, col in (t.start, t.end)), t.string)
            for t in every
            if t.type not in IDLE and t.string
        ]
        self.comments = {t.start[0]: t.string for t in every if t.type == tokenize.COMMENT}
        tree = list(ast.walk(ast.parse(code)))
        self.functions = [node for node in tree if isinstance(node, ast.FunctionDef)]
        bodies = [
            node.body
            for node in tree
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not GUARD.match(node.name)
        ]
        self.hidden = [guard for body in bodies for guard in self.guards(body)]

    def place(self, row: int, col: int) -> int:
        "The place in the code that ast means, which counts bytes."
        return self.starts[row - 1] + len(self.lines[row - 1].encode()[:col].decode())

    def types(self, function: ast.FunctionDef) -> list[Piece]:
        """The types of parameters, from their colon on, and of the result,
        from behind the parameters on.
        """
        a = function.args
        named = [*a.posonlyargs, *a.args, *a.kwonlyargs, *filter(None, (a.vararg, a.kwarg))]
        found = [
            (self.place(arg.lineno, arg.col_offset) + len(arg.arg), arg.annotation)
            for arg in named
            if arg.annotation
        ]
        if to := function.returns:
            found.append((self.code.rindex("->", 0, self.place(to.lineno, to.col_offset)), to))
        return [
            Piece(start, self.place(kind.end_lineno, kind.end_col_offset)) for start, kind in found
        ]

    def head(self, function: ast.FunctionDef, types: list[Piece]) -> list[Piece]:
        """The tokens of a head that a story shows:
        neither types nor the comma behind the last parameter.
        """
        start = self.place(function.lineno, function.col_offset)
        body = self.place(function.body[0].lineno, function.body[0].col_offset)
        shown = [
            t
            for t in self.tokens
            if start <= t.start < body and not any(p.start <= t.start < p.end for p in types)
        ]
        return [
            t
            for t, after in zip(shown, [*shown[1:], None])
            if not (t.text == "," and after and after.text == ")")
        ]

    def shapes(self, function: ast.FunctionDef) -> list[str]:
        """What the comments of a head say of shapes: `q (n, d)` for a parameter;
        behind an arrow, those of the result.
        """
        given = [
            (arg.arg, SHAPE.search(self.comments.get(arg.lineno, ""))) for arg in function.args.args
        ]
        found = [f"{name} {shape[0]}" for name, shape in given if shape]
        rows = [row for row in self.comments if function.lineno <= row < function.body[0].lineno]
        # the comment behind the type of the result
        ends = rows and "->" in self.lines[rows[-1] - 1]
        result = SHAPE.findall(self.comments[rows[-1]]) if ends else []
        return found + [f"→ {result[0]}", *result[1:]] if result else found

    def guards(self, body: list[ast.stmt]) -> list[Piece]:
        """The lines of a function or class that do nothing but refuse arguments,
        or are for a type checker.
        """
        found = [node for node in body if is_guard(node)]
        if len(found) + 1 >= len(body):
            return []  # a docstring and guards: refusing is what it is for
        return [Piece(self.starts[node.lineno - 1], self.starts[node.end_lineno]) for node in found]


def is_guard(node: ast.stmt) -> bool:
    """Whether a statement only calls a function that expects, or raises, perhaps under a condition;
    or is for a type checker.
    """
    if isinstance(node, ast.If):
        return (
            ast.unparse(node.test) == "TYPE_CHECKING"
            or not node.orelse
            and all(map(is_guard, node.body))
        )
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        return bool(GUARD.match(ast.unparse(node.value.func)))
    return isinstance(node, ast.Raise)


def below(shapes: list[str], indent: int) -> str:
    "Shapes as lines of comments below a head."
    lines = [""]
    for shape in shapes:
        apart = " " if shape.startswith("→") or not lines[-1] else ", "
        if len(lines[-1]) + len(apart) + len(shape) + indent + 1 > WIDE:
            lines.append("")
            apart = " "
        lines[-1] += apart + shape
    return "".join(f"\n{' ' * indent}#{line}" for line in lines)


def hidden(code: str) -> Iterator[tuple[int, str]]:
    "Marks for what a story does not show of the code, each with its place."
    source = Source(code)
    for guard in source.hidden:
        yield from ((guard.start, HIDE), (guard.end, SHOW))
    for function in source.functions:
        start = source.starts[function.lineno - 1]
        if any(guard.start <= start < guard.end for guard in source.hidden):
            continue  # all of it is hidden
        if not (types := source.types(function)):
            continue  # and a comment behind it is all that is said of its parameters
        head = source.head(function, types)
        gaps = [Piece(a.end, b.start, code[a.end : b.start]) for a, b in zip(head, head[1:])]
        between = list(seen_of(head, gaps, types))
        wide = head[0].start - code.rfind("\n", 0, head[0].start) - 1
        for i, (gap, seen) in enumerate(zip(gaps, between)):
            wide += len(head[i].text) + len(seen)
            ends = head[i].text == "," and "\n" in gap.text
            if ends and wide + reach(head, between, gaps, i + 1) > WIDE:
                end = code.rindex("\n", gap.start, gap.end)
                yield from ((gap.start, HIDE), (end, SHOW), (gap.end, INDENT))
                wide = gap.end - end + 3
            elif seen != gap.text:
                yield from ((gap.start, HIDE), (gap.end - len(seen), SHOW))
        behind = code[head[-1].end :].partition("\n")[0]
        if behind.lstrip().startswith("#"):
            yield from ((head[-1].end, HIDE), (head[-1].end + len(behind), SHOW))
        if shapes := source.shapes(function):
            text = below(shapes, function.body[0].col_offset)
            yield head[-1].end + len(behind), f"{SHAPES}{text}{END}"


def seen_of(head: list[Piece], gaps: list[Piece], types: list[Piece]) -> Iterator[str]:
    "What is seen of the gap behind each token of a head."
    typed = [any(gap.start <= kind.start < gap.end for kind in types) for gap in gaps]
    for i, (token, gap, there) in enumerate(zip(head, gaps, typed)):
        if there or token.text == "=" and typed[max(0, i - 1)]:
            yield ""
        elif token.text == ",":
            yield " "
        else:
            yield "" if "\n" in gap.text else gap.text


def reach(head: list[Piece], between: list[str], gaps: list[Piece], first: int) -> int:
    """How much of a head is seen from one of its tokens to the next comma
    that ends a line, or to the end.
    """
    ends = (i for i in range(first, len(gaps)) if head[i].text == "," and "\n" in gaps[i].text)
    last = next(ends, len(head) - 1)
    return sum(len(token.text) for token in head[first : last + 1]) + sum(
        map(len, between[first:last])
    )


def marked(tokens: list[tuple[Any, str]]) -> Iterator[tuple[Any, str]]:
    "The tokens of a highlighter, with the marks between them."
    code = "".join(text for _, text in tokens)
    try:
        # a gap ends before the next begins, or where it begins
        marks = sorted(hidden(code), key=lambda mark: mark[0])
    except (SyntaxError, tokenize.TokenError):  # it is no Python, or not all of it
        marks = []
    place = 0
    for kind, text in tokens:
        start = 0
        while marks and marks[0][0] <= place + len(text):
            at, mark = marks.pop(0)
            yield kind, text[start : at - place]
            yield Text, mark
            start = at - place
        yield kind, text[start:]
        place += len(text)


class ShortHeads(HtmlFormatter):
    "Code with such marks, where a block asks for them."

    def __init__(self, heads: bool = False, **options: Any) -> None:
        super().__init__(**options)
        self.heads = heads

    def format(self, tokens: Iterable[tuple[Any, str]], out: Any) -> None:
        "Write the tokens."
        if not self.heads:
            super().format(tokens, out)
            return
        made = StringIO()
        super().format(marked([token for token in tokens if token[1]]), made)
        out.write(re.sub("|".join(ELEMENTS), lambda mark: ELEMENTS[mark[0]], made.getvalue()))


def ask(app: Sphinx, doctree: nodes.document) -> None:
    "Ask for it in the chapters: not in exercises, where a head says what is to be written."
    if is_chapter(app.env.docname):
        for cell in doctree.findall(nodes.container):
            if cell.get("cell_metadata", {}).get("heads"):
                for block in cell[0].findall(nodes.literal_block):
                    block["highlight_args"] = {"heads": True}


def setup(app: Sphinx) -> dict[str, bool]:
    "Called by Sphinx."
    app.connect("doctree-read", ask)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
