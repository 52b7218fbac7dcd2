"""Run the notebooks and keep their saved outputs true.

    python tools/outputs.py refresh [notebook ...]    write the outputs that changed; run only what
                                                      may give others
    python tools/outputs.py refresh --all             run all, whether something has changed or not
    python tools/outputs.py check [notebook ...]      write nothing; fail where an output changed

Another processor rounds the last digits differently. So numbers are compared with a tolerance, and
`refresh` leaves a saved output as it is, byte for byte, when the new one agrees with it: git then
stays clean.
"""

import argparse
import asyncio
import difflib
import json
import os
import re
import socket
import subprocess
import symtable
import sys
import time
from collections.abc import Callable
from decimal import Decimal
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import nbformat
from execnb.nbio import nb2str
from jupyter_client import AsyncKernelManager
from nbclient import NotebookClient
from nbclient.exceptions import CellTimeoutError, DeadKernelError
from nbdev.clean import clean_nb
from nbdev.config import get_config
from nbdev.process import extract_directives
from nbformat import NotebookNode

import fresh
from folds import collapse
from pictures import CHART, PICTURE, add_pictures
from places import ROOT, lacks, notebooks

IN_PARALLEL = 2
CELL_SECONDS = 300  # a cell that runs longer hangs
WARM = str(ROOT / "tools/warm.py")

# One thread, one hash seed, no GPU: what can be the same everywhere is. A book that reads the
# network would one day print something else, so the kernels are pointed at a missing proxy.
NOWHERE = "http://127.0.0.1:9"
KERNEL_ENV = {
    "PYTHONPATH": str(ROOT),
    "PYTHONHASHSEED": "0",
    "CUDA_VISIBLE_DEVICES": "",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "PYDEVD_DISABLE_FILE_VALIDATION": "1",
    **dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), NOWHERE),
    "no_proxy": "",
    "NO_PROXY": "",
    "HF_HUB_OFFLINE": "1",
}
# While a kernel's libraries are imported: the package comes later, and Triton is to work without
# a GPU (see 20_gpu_kernels).
IMPORTING = {"PYTHONPATH": "", "TRITON_INTERPRET": "1"}
# What some notebooks import that takes seconds, by the word that their code says then:
# these share it, too.
LARGE = {"transformers": "transformers.models.llama.modeling_llama"}


class Failure(Exception):
    "What is wrong with one notebook, in words for the person who has to mend it."


# Comparing ----------------------------------------------------------------------------------------

# Part of a word, or of a version such as 0.1.0, is no number.
NUMBER = re.compile(r"(?<![\w.])([-+]?(?:\d+\.\d*|\.\d+|\d+)(?:[eE][-+]?\d+)?)(?![\d.]*\d)")
RTOL, ATOL = Decimal("1e-3"), Decimal("2e-4")


def agree_numbers(a: str, b: str) -> bool:
    """Whole numbers must be equal; others may differ by the tolerance,
    or by one in the last of two or more decimals.
    """
    if a == b or all(re.fullmatch(r"[-+]?\d+\.?", s) for s in (a, b)):
        return a == b
    x, y = Decimal(a), Decimal(b)
    last_place = Decimal(1).scaleb(min(x.as_tuple().exponent, y.as_tuple().exponent))
    allowed = max(
        ATOL, RTOL * max(abs(x), abs(y)), last_place if last_place <= Decimal("0.01") else 0
    )
    return abs(x - y) <= allowed


def agree_text(a: str, b: str) -> bool:
    """The words are the same, the numbers agree, and so does the space between,
    unless a number changed its width.
    """
    if a == b:
        return True
    (words_a, nums_a), (words_b, nums_b) = (
        (s[::2], s[1::2]) for s in (NUMBER.split(a), NUMBER.split(b))
    )
    # `-0.0000` for `0.0000` moves columns and line ends
    if [len(n) for n in nums_a] != [len(n) for n in nums_b]:
        words_a, words_b = ([" ".join(w.split()) for w in words] for words in (words_a, words_b))
    return words_a == words_b and all(map(agree_numbers, nums_a, nums_b))


def agree(a: Any, b: Any) -> bool:
    "Whether two JSON values, such as outputs or charts, say the same."
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(agree(a[k], b[k]) for k in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(agree, a, b))
    if isinstance(a, str) and isinstance(b, str):
        return agree_text(a, b)
    if isinstance(a, float) or isinstance(b, float):
        return agree_text(json.dumps(a), json.dumps(b))
    return type(a) is type(b) and a == b


def with_data(spec: Any) -> Any:
    """A chart with its datasets put where it refers to them:
    Altair names them by a hash of their content.
    """
    if not isinstance(spec, dict) or "datasets" not in spec:
        return spec
    sets = spec["datasets"]

    def put(x: Any) -> Any:
        if isinstance(x, list):
            return [put(v) for v in x]
        if not isinstance(x, dict):
            return x
        if x.keys() == {"name"} and x["name"] in sets:
            return {"values": sets[x["name"]]}
        return {k: put(v) for k, v in x.items()}

    return put({k: v for k, v in spec.items() if k != "datasets"})


def meaning(outputs: list[NotebookNode]) -> list[dict]:
    "The outputs without what may differ between two runs that say the same."
    kept = [{k: v for k, v in o.items() if k != "execution_count"} for o in outputs]
    return [
        {**o, "data": {mime: with_data(v) for mime, v in given(o["data"]).items()}}
        if "data" in o
        else o
        for o in kept
    ]


def given(data: dict[str, Any]) -> dict[str, Any]:
    "What a cell gives; the picture of a chart is added when it is saved."
    return {mime: value for mime, value in data.items() if mime != PICTURE or CHART not in data}


# Executing ----------------------------------------------------------------------------------------

FLEETING = {  # what no two runs print alike
    "a memory address": re.compile(r"\b0x[0-9a-f]{6,}", re.I),
    "a clock time": re.compile(r"\b\d+(\.\d+)? ?(ms|[µμ]s|ns)\b|\b(Wall time|CPU times):"),
}


def head(source: str, n: int = 6) -> str:
    "The first lines of a cell, indented."
    lines = source.splitlines()
    return "\n".join(f"    {s}" for s in lines[:n] + ["…"] * (len(lines) > n))


def printed(output: NotebookNode) -> str:
    "What a person reads of an output; of a chart, its JSON."
    if output.output_type == "stream":
        return output.text
    data = meaning([output])[0]["data"]
    return "\n".join(
        v if isinstance(v, str) else json.dumps(v, indent=1, ensure_ascii=False, sort_keys=True)
        for _, v in sorted(data.items())
    )


def faults(outputs: list[NotebookNode]) -> list[str]:
    "What the book's outputs may not hold: warnings, memory addresses, clock times."
    found = [
        f"it printed to stderr; silence the cause, not the message:\n{head(o.text, 20)}"
        for o in outputs
        if o.output_type == "stream" and o.name == "stderr"
    ]
    text = "\n".join(
        o.text if o.output_type == "stream" else str(o.get("data", {}).get("text/plain", ""))
        for o in outputs
    )
    return found + [
        f"it printed {what}, which changes with every run: {m[0]!r}"
        for what, pattern in FLEETING.items()
        if (m := pattern.search(text))
    ]


def plain(traceback: str) -> str:
    "Without the colours of a terminal."
    return re.sub(r"\x1b\[[\d;]*m", "", traceback)


def error(cell: NotebookNode) -> NotebookNode | None:
    "What a cell raised, if it may not."
    may = "raises-exception" in cell.metadata.get("tags", [])
    return (
        None
        if may
        else next((o for o in cell.get("outputs", []) if o.output_type == "error"), None)
    )


def defined(source: str) -> set[str]:
    "The names that a cell gives a value to; all its words, if it cannot be read."
    try:
        names = symtable.symtable(source, "cell", "exec").get_symbols()
    except SyntaxError:
        return set(re.findall(r"\w+", source))
    return {name.get_name() for name in names if name.is_assigned() or name.is_imported()}


def errors(nb: NotebookNode, name: str) -> list[str]:
    """What the cells raised;
    after it, those that only lacked a name which a failed cell was to define.
    """
    found, lacking, lost = [], [], set()
    for cell in nb.cells:
        if not (e := error(cell)):
            continue
        lacks = (
            re.match(r"name '(\w+)' is not defined", e.evalue) if e.ename == "NameError" else None
        )
        if lacks and lacks[1] in lost:
            lacking.append(f"    {cell.id} (no {lacks[1]})")
        else:
            found.append(f"{name}, cell {cell.id}: {e.ename}\n" + plain("\n".join(e.traceback)))
        lost |= defined(cell.source)
    if lacking:
        found += [
            (
                f"{name}: these cells failed only because they use names "
                "that those above should have defined:"
            ),
            *lacking,
        ]
    return found


def is_run(cell: NotebookNode) -> bool:
    "Whether the book runs this code cell; what starts with `#| eval: false` it shows and leaves."
    return extract_directives(cell, remove=False).get("eval:", [""])[0].lower() != "false"


@cache
def warm() -> tuple[str, subprocess.Popen]:
    "A process that forks kernels, as long as this one lives, and the name that it is asked by."
    with socket.socket(socket.AF_UNIX) as door:
        door.bind("")  # Linux chooses a name that nobody has; there is no file
        door.listen()
        env = os.environ | KERNEL_ENV | IMPORTING
        server = subprocess.Popen(
            [sys.executable, WARM, "serve", str(door.fileno())],
            env=env,
            pass_fds=[door.fileno()],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
        )
        return door.getsockname()[1:].decode(), server


class WarmKernel(AsyncKernelManager):
    "A kernel that has PyTorch in memory when it begins."

    def format_kernel_cmd(self, extra_arguments: list[str] | None = None) -> list[str]:
        "In place of `python -m ipykernel_launcher …`."
        return [
            sys.executable,
            "-S",
            "-E",
            WARM,
            "ask",
            warm()[0],
            *super().format_kernel_cmd(extra_arguments)[3:],
        ]


# Elsewhere a fork is not safe.
KERNEL = WarmKernel if sys.platform == "linux" else AsyncKernelManager


async def in_kernel(nb: NotebookNode, cwd: Path, start: Callable[..., None]) -> None:
    """Run the cells in a kernel of their own.

    One that never answers is given up for another: its port may have been taken.
    """
    first = " ".join(
        module
        for word, module in LARGE.items()
        if any(f"from {word}" in c.source for c in nb.cells if c.cell_type == "code")
    )
    for more in (2, 1, 0):
        client = NotebookClient(
            nb,
            kernel_name="python3",
            kernel_manager_class=KERNEL,
            extra_arguments=["--log-level=CRITICAL"],
            timeout=CELL_SECONDS,
            on_cell_start=start,
            allow_errors=True,
            coalesce_streams=True,
            record_timing=False,
            resources={"metadata": {"path": str(cwd)}},
        )
        # start-up files of the person's own IPython must not reach the book
        with TemporaryDirectory() as ipython:
            try:
                await client.async_execute(
                    env=os.environ | KERNEL_ENV | {"IPYTHONDIR": ipython, "IMPORT_FIRST": first}
                )
                return
            except DeadKernelError:
                raise
            except RuntimeError:
                if not more:
                    raise


async def attempt(nb: NotebookNode, name: str, cwd: Path) -> list[str]:
    """Run all cells of `nb` in a fresh kernel and leave their outputs in it;
    what is wrong with them.
    """
    now = None  # the cell that runs, so that a failure can name it

    def start(cell: NotebookNode, cell_index: int) -> None:
        nonlocal now
        now = cell

    for cell in (c for c in nb.cells if c.cell_type == "code"):
        cell.outputs = []
        if not is_run(cell):
            cell.metadata.tags = ["skip-execution"]  # nbclient's own word for it
    try:
        await in_kernel(nb, cwd, start)
    except (CellTimeoutError, DeadKernelError) as e:  # the cells below were not run
        raise Failure(
            "\n".join(
                [*errors(nb, name), f"{name}, cell {now.id}: {type(e).__name__}\n{plain(str(e))}"]
            )
        ) from None
    code = [cell for cell in nb.cells if cell.cell_type == "code"]
    return errors(nb, name) + [
        f"{name}, cell {cell.id}: {fault}" for cell in code for fault in faults(cell.outputs)
    ]


async def execute(nb: NotebookNode, name: str, cwd: Path) -> None:
    """Run all cells of `nb` and leave their outputs in it;
    Failure names each cell that did what it may not.
    """
    if wrong := await attempt(nb, name, cwd):
        raise Failure("\n".join(wrong))


class Run(NamedTuple):
    "A notebook as it is saved, and as it comes out now."

    text: str  # the file
    saved: NotebookNode
    fresh: NotebookNode
    changed: list[int]  # positions of the cells whose outputs differ
    wrong: list[str]  # what its cells did that they may not


async def run(path: Path) -> Run:
    "Execute the notebook at `path` beside its saved form."
    text = path.read_text(encoding="utf-8")
    try:
        saved, now = (nbformat.reads(text, as_version=4) for _ in range(2))
    except ValueError as e:  # an edit by hand, or a conflict that git left in it
        raise Failure(f"{path.name}: this is no notebook: {head(str(e), 2).strip()}") from None
    wrong = await attempt(now, path.name, path.parent)
    return Run(text, saved, now, changed(saved, now), wrong)


def changed(saved: NotebookNode, now: NotebookNode) -> list[int]:
    "The positions of the cells that ran, and whose outputs are not those that are saved."
    pairs = enumerate(zip(saved.cells, now.cells))
    ran = [(i, s, f) for i, (s, f) in pairs if s.cell_type == "code" and not error(f)]
    return [i for i, s, f in ran if not agree(meaning(s.outputs), meaning(f.outputs))]


# The two commands ---------------------------------------------------------------------------------


async def check(path: Path) -> str:
    "Raise Failure where a cell fails, or its saved output is not what it gives now."
    ran = await run(path)
    if found := ran.wrong + stale(ran, path.name):
        raise Failure("\n".join(found))
    return "agrees"


def stale(ran: Run, name: str) -> list[str]:
    "The cells whose outputs differ, and how; what to do about it."
    found = []
    for i in ran.changed:
        was, now = (
            "\n".join(map(printed, nb.cells[i].outputs)).splitlines()
            for nb in (ran.saved, ran.fresh)
        )
        lines = list(difflib.unified_diff(was, now, "saved", "now", lineterm="", n=1))
        lines = lines or ["(the same text, in another kind of output)"]
        shown = head("\n".join(lines), 20)
        found.append(
            f"{name}, cell {ran.saved.cells[i].id}: "
            f"the saved output is not what the cell gives now\n{shown}"
        )
    end = ["If the new output is right: make outputs, and commit the notebook."]
    return found + end * bool(found)


async def refresh(path: Path) -> str:
    "Write the outputs that changed into the notebook, in the form that nbdev_clean gives it."
    ran = await run(path)
    if ran.wrong:
        raise Failure("\n".join(ran.wrong))
    book = nbformat.reads(ran.text, as_version=4)
    for i in ran.changed:
        book.cells[i].outputs = ran.fresh.cells[i].outputs
        add_pictures(book.cells[i].outputs)
    if not write(path, book, ran.text):
        return "unchanged"
    return f"{len(ran.changed)} cells have new outputs" if ran.changed else "cleaned"


def write(path: Path, book: NotebookNode, before: str) -> bool:
    "Write a notebook in the form that nbdev_clean gives it; whether that is another than `before`."
    nb = json.loads(nbformat.writes(collapse(book)))
    clean_nb(nb, allowed_cell_metadata_keys=get_config().get("allowed_cell_metadata_keys").split())
    if (new := nb2str(nb)) == before:
        return False
    if path.read_text(encoding="utf-8") != before:
        raise Failure(
            f"{path.name}: it was edited while it ran, so nothing was written; run it again"
        )
    part = path.with_suffix(".part")
    part.write_text(new, encoding="utf-8", newline="\n")
    part.replace(path)  # all or nothing: an interrupted run leaves no half notebook
    return True


def draw_pictures(path: Path) -> None:
    "Draw the pictures that saved charts lack, without running anything."
    before = path.read_text(encoding="utf-8")
    try:
        book = nbformat.reads(before, as_version=4)
    except ValueError:  # no notebook: whoever runs it says so
        return
    if sum(add_pictures(cell.outputs) for cell in book.cells if cell.cell_type == "code"):
        write(path, book, before)


async def renew(path: Path) -> str:
    "`refresh`, unless nothing that the outputs depend on has changed since they were last right."
    if fresh.is_fresh(path):
        return "nothing has changed"
    said = await refresh(path)
    fresh.keep(path)
    return said


def passed_over(path: Path) -> str:
    "Why a notebook is not run here, and its saved outputs stay as they are; empty if it is."
    try:
        package = lacks(path)
    except ValueError:  # no notebook: whoever runs it says so
        return ""
    return f"skipped: {package} is not installed" if package else ""


async def each(do: Callable[[Path], Any], paths: list[Path]) -> int:
    "Apply `do` to the notebooks, two at a time, telling how it goes; the number of failures."
    free, done, failures = asyncio.Semaphore(IN_PARALLEL), 0, []

    async def one(path: Path) -> None:
        nonlocal done
        async with free:
            began = time.perf_counter()
            try:
                said = passed_over(path) or await do(path)
            except Failure as e:
                failures.append(e)
                said = "FAILED"
            done += 1
            n = path.read_text(encoding="utf-8").count('"cell_type":')
            seconds = time.perf_counter() - began
            print(
                f"[{done}/{len(paths)}] {path.name:<32}{n:>4} cells {seconds:>6.1f} s  {said}",
                flush=True,
            )

    await asyncio.gather(*map(one, paths))
    for failure in failures:
        print(f"\n{failure}", file=sys.stderr)
    if failures:
        print(
            (
                f"\n{len(failures)} of {len(paths)} notebooks failed; "
                "the messages above name the cells."
            ),
            file=sys.stderr,
        )
    return len(failures)


def main() -> int:
    "The command line."
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("command", choices=["refresh", "check"])
    parser.add_argument(
        "notebooks", nargs="*", type=Path, metavar="notebook", help="default: all in nbs/"
    )
    parser.add_argument(
        "--all", action="store_true", help="refresh also what has not changed since it last ran"
    )
    args = parser.parse_args()
    do = {"refresh": refresh if args.all else renew, "check": check}[args.command]
    paths = args.notebooks or notebooks()
    if missing := [str(p) for p in paths if not p.is_file()]:
        parser.error(f"no such notebook: {', '.join(missing)}")
    if args.command == "refresh":
        for path in paths:
            draw_pictures(path)
    return min(asyncio.run(each(do, paths)), 1)


if __name__ == "__main__":
    sys.exit(main())
