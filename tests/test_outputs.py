"""tools/outputs.py itself: what it takes for the same, and that it sees what it is there to see.

If it fails: tools/outputs.py judges an output wrongly; the test shows the case.
"""

import asyncio
import re
from xml.etree import ElementTree

import fresh
import places
import nbformat
import outputs
import pictures
import pytest
from outputs import agree, with_data

pytestmark = pytest.mark.nightly


SAME = [
    ("tensor([0.3333, 0.6667])", "tensor([0.3334, 0.6666])"),  # last digit
    ("0.12", "0.13"),  # one in the last place printed
    ("loss 2.0013", "loss 2.0029"),  # a thousandth
    ("[-0.0000,  1.0000]", "[0.0000, 1.0000]"),  # the sign of zero, and the alignment with it
    ("tensor([1., 2.])", "tensor([1.0000, 2.0000])"),  # not exactly whole any more
    ("1.1921e-07", "0."),
    ([{"weight": 0.333}], [{"weight": 0.334}]),
    ({"n": 3.0}, {"n": 3}),
]
OTHER = [
    ("0.3333", "0.3343"),
    ("0.12", "0.14"),
    ("0.7", "0.8"),
    ("0.1.0", "0.1.1"),
    ("1.5", "-1.5"),
    ("torch.Size([2, 3])", "torch.Size([2, 4])"),
    ("10001 steps.", "10002 steps."),
    ("10001.", "10002."),
    ("cat sat", "cats at"),
    ("nan", "0.0"),
    ("inf", "-inf"),
    ("[0.1, 0.2]", "[0.1, 0.2, 0.3]"),
    ("0.10  0.20", "0.10\n0.20"),
    ("a", ["a"]),
    (1, True),
    (None, 0),
    ({"a": 1}, {"b": 1}),
    ([1], [1, 2]),
    ({"n": 3}, {"n": 4}),
]


def test_agree():
    "The tolerance forgives another processor, and nothing else."
    for a, b in SAME:
        assert agree(a, b) and agree(b, a), (a, b)
    for a, b in OTHER:
        assert not agree(a, b) and not agree(b, a), (a, b)


def test_names_of_datasets_do_not_matter_but_their_content_does():
    def chart(name, value):
        return with_data(
            {"layer": [{"data": {"name": name}, "name": name}], "datasets": {name: [{"w": value}]}}
        )

    assert agree(
        chart("data-1f", 0.25)["layer"][0]["data"], chart("data-a0", 0.2501)["layer"][0]["data"]
    )
    assert not agree(
        chart("data-1f", 0.25)["layer"][0]["data"], chart("data-a0", 0.35)["layer"][0]["data"]
    )


def written(path, *sources):
    "A notebook with these cells, saved with their true outputs."
    cells = [nbformat.v4.new_code_cell(s, id=f"cell-{i}") for i, s in enumerate(sources)]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
    asyncio.run(outputs.refresh(path))
    return path


def planted(path, old, new):
    "Replace text in a saved notebook."
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8", newline="\n")


def test_refresh_then_check(tmp_path):
    "What agrees stays byte for byte; what does not is named by check and mended by refresh."
    path = written(
        tmp_path / "a.ipynb", "print('about', 1 / 3)", "2 + 2", "#| eval: false\nprint(undefined)"
    )
    asyncio.run(outputs.check(path))
    planted(path, "0.3333333333333333", "0.3333333333330000")
    before = path.read_bytes()
    assert asyncio.run(outputs.refresh(path)) == "unchanged" and path.read_bytes() == before
    planted(path, '"4"', '"5"')
    with pytest.raises(
        outputs.Failure, match=r"a\.ipynb, cell cell-1: the saved output .*(?s:.*)-5\n.*\+4"
    ):
        asyncio.run(outputs.check(path))
    asyncio.run(outputs.refresh(path))
    assert '"4"' in path.read_text() and "0.3333333333330000" in path.read_text()


CHARTED = (
    "from attention_nb.figures.charts import bars\nimport torch\n"
    "bars(torch.tensor([{}, 1.0]), ['old dogs', 'bark'])"
)


def test_a_chart_is_saved_with_its_picture(tmp_path):
    """Drawn anew when the chart is another; what only lacks one gets it without a run;
    by itself it changes nothing.
    """
    path = written(tmp_path / "chart.ipynb", CHARTED.format(3.0))
    data = nbformat.read(path, as_version=4).cells[0].outputs[0].data
    svg = ElementTree.fromstring(data["image/svg+xml"])
    assert "old dogs" in "".join(svg.itertext()) and pictures.is_fresh(data)
    assert not re.search("currentColor|aria-|class=|<script", data["image/svg+xml"])
    before = path.read_bytes()
    asyncio.run(outputs.check(path))
    assert asyncio.run(outputs.refresh(path)) == "unchanged" and path.read_bytes() == before
    planted(path, "data-chart", "data-other")
    outputs.draw_pictures(path)
    assert path.read_bytes() == before
    asyncio.run(outputs.refresh(with_sources(path, CHARTED.format(4.0))))
    again = nbformat.read(path, as_version=4).cells[0].outputs[0].data
    assert again["image/svg+xml"] != data["image/svg+xml"] and pictures.is_fresh(again)


@pytest.mark.parametrize(
    "source, says",
    [
        ("x = 1\nx / 0", "ZeroDivisionError: division by zero"),
        ("import warnings\nwarnings.warn('careless')", "careless"),
        ("object()", "a memory address"),
        ("print('took 12.5 ms')", "a clock time"),
    ],
)
def test_what_a_cell_may_not_do(tmp_path, source, says):
    "The message names the cell, and the file is left as it was."
    path = written(tmp_path / "b.ipynb", "1")
    nb = nbformat.read(path, as_version=4)
    nb.cells[0].source = source
    nbformat.write(nb, path)
    before = path.read_bytes()
    with pytest.raises(outputs.Failure, match="b.ipynb, cell cell-0") as failure:
        asyncio.run(outputs.refresh(path))
    assert says in str(failure.value)
    assert path.read_bytes() == before


def with_sources(path, *sources):
    "The notebook with other cells, and the outputs that it had."
    nb = nbformat.read(path, as_version=4)
    for cell, source in zip(nb.cells, sources, strict=True):
        cell.source = source
    nbformat.write(nb, path)
    return path


def test_all_failing_cells_come_at_once(tmp_path):
    """With what is stale, in the order of the book; and last those that only lacked a name
    which a failed cell was to define.
    """
    path = with_sources(
        written(tmp_path / "c.ipynb", "1", "2", "3", "4", "5", "6"),
        "import numbers\nx = 1 / 0\ny = x",
        "print(y)",
        "z = x",
        "z",
        "undefined",
        "7",
    )
    with pytest.raises(outputs.Failure) as failure:
        asyncio.run(outputs.check(path))
    said = str(failure.value)
    assert re.findall(r"^c\.ipynb, cell (\S+): (\w+)", said, re.M) == [
        ("cell-0", "ZeroDivisionError"),
        ("cell-4", "NameError"),
        ("cell-5", "the"),
    ]
    assert re.findall(r"^    (cell-\d \(no \w\))$", said, re.M) == [
        "cell-1 (no y)",
        "cell-2 (no x)",
        "cell-3 (no z)",
    ]
    assert said.count("Traceback") == 2


def test_refresh_goes_on_after_a_failure(tmp_path, capfd):
    "The others are written; the end says how many were not."
    bad, good = (
        written(tmp_path / "bad.ipynb", "1"),
        with_sources(written(tmp_path / "good.ipynb", "1"), "2"),
    )
    no_notebook = tmp_path / "conflict.ipynb"
    no_notebook.write_text("<<<<<<< HEAD\n", encoding="utf-8")
    before = with_sources(bad, "1 / 0").read_bytes()
    assert asyncio.run(outputs.each(outputs.refresh, [no_notebook, bad, good])) == 2
    assert bad.read_bytes() == before and '"2"' in good.read_text(encoding="utf-8")
    said = capfd.readouterr().err
    assert (
        "conflict.ipynb: this is no notebook" in said
        and "bad.ipynb, cell cell-0: ZeroDivisionError" in said
    )
    assert "2 of 3 notebooks failed" in said


def test_a_kernel_that_dies_is_told_of(tmp_path):
    "With the cell that ran, and the file left as it was; the next kernel is there."
    path = with_sources(written(tmp_path / "dies.ipynb", "1"), "import os; os.kill(os.getpid(), 9)")
    before = path.read_bytes()
    with pytest.raises(
        outputs.Failure, match="(?s)dies.ipynb, cell cell-0: DeadKernelError.*Kernel died"
    ):
        asyncio.run(outputs.refresh(path))
    assert path.read_bytes() == before
    assert asyncio.run(outputs.refresh(with_sources(path, "2"))) == "1 cells have new outputs"


def test_a_kernel_is_new_though_it_is_forked(tmp_path, monkeypatch):
    """What one leaves, the next does not find;
    and each has its own environment, folder and vector unit.
    """
    written(
        tmp_path / "first.ipynb",
        "import torch; torch.left = 1; torch.set_default_dtype(torch.float64)",
    )
    monkeypatch.setenv("ATEN_CPU_CAPABILITY", "default")
    path = written(
        tmp_path / "second.ipynb",
        "import os, sys, torch; hasattr(torch, 'left'), torch.get_default_dtype()",
        (
            "torch.backends.cpu.get_cpu_capability(), os.path.basename(os.getcwd()), "
            "sys.flags.hash_randomization"
        ),
        "sys.argv[1], [folder for folder in sys.path if folder.endswith('tools')]",
    )
    cells = nbformat.read(path, as_version=4).cells
    assert [outputs.printed(out) for cell in cells for out in cell.outputs] == [
        "(False, torch.float32)",
        f"('DEFAULT', '{tmp_path.name}', 0)",
        "('-f', [])",
    ]


@pytest.fixture
def silent(monkeypatch):
    "Makes the next kernels, as many as asked for, never answer; the list says which ran the cells."
    execute, ran = outputs.NotebookClient.async_execute, []

    def plant(kernels):
        async def planted(client, **options):
            ran.append(len(ran) >= kernels)
            if not ran[-1]:
                # as jupyter_client says it
                raise RuntimeError("Kernel didn't respond in 60 seconds")
            return await execute(client, **options)

        monkeypatch.setattr(outputs.NotebookClient, "async_execute", planted)
        return ran

    return plant


@pytest.mark.parametrize("kernels", [1, 2])
def test_a_kernel_that_never_answers_is_given_up_for_another(tmp_path, silent, kernels):
    "The notebook is run all the same, once."
    path = with_sources(written(tmp_path / "f.ipynb", "1"), "2")
    ran = silent(kernels)
    assert asyncio.run(outputs.refresh(path)) == "1 cells have new outputs"
    assert ran == [False] * kernels + [True] and '"2"' in path.read_text(encoding="utf-8")


def test_where_no_kernel_answers_that_is_said(tmp_path, silent):
    "After the third; the file is left as it was."
    path = with_sources(written(tmp_path / "g.ipynb", "1"), "2")
    ran, before = silent(9), path.read_bytes()
    with pytest.raises(RuntimeError, match="didn't respond"):
        asyncio.run(outputs.refresh(path))
    assert ran == [False] * 3 and path.read_bytes() == before


@pytest.fixture
def keys(tmp_path, monkeypatch):
    "A place of their own for the keys of good runs."
    monkeypatch.setattr(fresh, "KEYS", tmp_path / "keys")


def test_what_has_not_changed_is_not_run_again(tmp_path, keys):
    "Unless a cell has changed since, or failed."
    path = with_sources(written(tmp_path / "d.ipynb", "1"), "2")
    assert asyncio.run(outputs.renew(path)) == "1 cells have new outputs"
    assert asyncio.run(outputs.renew(path)) == "nothing has changed"
    with_sources(path, "1 / 0")
    for _ in range(2):
        with pytest.raises(outputs.Failure, match="ZeroDivisionError"):
            asyncio.run(outputs.renew(path))


def test_a_notebook_hangs_on_what_it_imports_and_reads(tmp_path, keys, monkeypatch):
    "Through other modules too; what it does not import may change."
    package = tmp_path / "book"
    monkeypatch.setattr(places, "ROOT", tmp_path)
    monkeypatch.setattr(places, "PACKAGE", package)
    for name, source in {
        "__init__": "from .other import z",
        "a": "from .sub.b import x",
        "sub/__init__": "",
        "sub/b": "from ..c import x",
        "c": "x = 1",
        "other": "z = 1",
    }.items():
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / f"{name}.py").write_text(source)
    (tmp_path / "numbers.txt").write_text("1")
    code = 'from book.a import x\n%time\nopen("numbers.txt")'
    path = with_sources(written(tmp_path / "e.ipynb", "1"), code)
    changes = {
        "book/c.py": True,
        "book/sub/b.py": True,
        "book/other.py": False,
        "numbers.txt": True,
        "e.ipynb": True,
    }
    for name, matters in changes.items():
        fresh.needed.cache_clear()
        fresh.keep(path, "slow")
        assert fresh.is_fresh(path, "slow") and not fresh.is_fresh(path, "slower")
        with open(tmp_path / name, "a") as file:
            file.write(" ")
        assert fresh.is_fresh(path, "slow") != matters, name
    fresh.needed.cache_clear()
