"""Every chapter has exercises: a stub, hints, and a folded solution.

`test_notebooks.py` runs both stubs and solutions.

If it fails: The message says which part is lacking. The end of the template, tools/chapter.ipynb,
shows the form, and tools/chapter.md says it. Between the solutions and the cell `next` only the
section `users` may stand.
"""

import re

import nbformat
from conftest import each_chapter

DOTS = "..."


def cells_of(chapter) -> dict[str, nbformat.NotebookNode]:
    return {cell.id: cell for cell in nbformat.read(chapter, as_version=4).cells}


def numbers(cells) -> list[int]:
    "The exercises, by their stubs."
    return [int(m[1]) for name in cells if (m := re.fullmatch(r"exercise-(\d)-stub", name))]


@each_chapter
def test_each_exercise_is_whole(chapter):
    "Text, hint, stub and solution; three to five of them, numbered in order."
    cells = cells_of(chapter)
    found = numbers(cells)
    assert 3 <= len(found) <= 5 and found == [*range(1, len(found) + 1)], f"exercises {found}"
    for n in found:
        lacks = {f"exercise-{n}", f"exercise-{n}-solution"} - cells.keys()
        assert not lacks, f"no cell has the id {' or '.join(sorted(lacks))}"
        text = cells[f"exercise-{n}"].source
        assert f"**{n}. " in text, (
            f"exercise-{n}: begins with its number and name in bold, `**{n}. Name.**`"
        )
        assert re.search(r"<details><summary>[\w ]*[Hh]int</summary>", text), (
            f"exercise-{n}: <details> with a hint"
        )
        stub, solution = (cells[f"exercise-{n}-{part}"] for part in ("stub", "solution"))
        assert stub.source.startswith("#| eval: false\n"), (
            f"{stub.id}: begins with `#| eval: false`"
        )
        assert stub.metadata.get("tags") == ["raises-exception"], (
            f"{stub.id}: has the tag raises-exception"
        )
        first = f'#| code-summary: "Solution {n}"\n#| code-fold: true\n'
        assert solution.source.startswith(first), f"{solution.id}: begins with\n{first}"
        folded = {"source_hidden": True}  # JupyterLab then shows the first line
        assert solution.metadata.get("jupyter") == folded, (
            f"{solution.id}: has the metadata {{'jupyter': {folded}}}"
        )


@each_chapter
def test_solutions_stand_together_under_a_shut_heading(chapter):
    """JupyterLab shows every output of a cell that it runs, unless the heading above is collapsed:
    all to the next one is.
    """
    found = cells_of(chapter)
    solutions = [name for name in found if name.endswith("-solution")]
    last = list(found)[list(found).index("solutions") :]
    # JupyterLab opens a heading whose cell is active
    assert last[: len(solutions) + 1] == ["solutions", *solutions] and last[-1] == "next"
    assert found["solutions"].source.startswith("## Solutions\n") and found[
        "next"
    ].source.startswith("## ")
    assert found["solutions"].metadata == {"jp-MarkdownHeadingCollapsed": True}
    # between them stands only what is for users of the package, under a shut heading, too
    if users := last[len(solutions) + 1 : -1]:
        assert users[0] == "users" and found["users"].source.startswith(
            "## For users of the package\n"
        )
        assert found["users"].metadata == {"jp-MarkdownHeadingCollapsed": True}
        assert not any(found[name].source.startswith(("# ", "## ")) for name in users[1:])


@each_chapter
def test_solution_fills_in_the_stub(chapter):
    """All lines of a stub but the dots stand in its solution:
    what is asked and how it is checked is the same.
    """
    cells = cells_of(chapter)
    for n in numbers(cells):
        stub, solution = (
            cells[f"exercise-{n}-{part}"].source.splitlines() for part in ("stub", "solution")
        )
        assert any(DOTS in line for line in stub), f"exercise {n}: nothing to fill in"
        rest = iter(solution)
        lost = [line for line in stub[1:] if line and DOTS not in line and line not in rest]
        assert not lost, f"exercise {n}: not in the solution, or in another order: {lost}"
        assert "check_" in "".join(stub), f"exercise {n}: no check"
