"""Change the package in every small way that mutmut knows,
and see whether the notebooks' own checks notice.

    make mutation                                   every module, the largest by a sample; resumes
    python -m tests.mutation.run softmax masks      these modules
    python -m tests.mutation.run --sample 80        80 mutants of each of the others, drawn at
                                                    random, always the same ones
    python -m tests.mutation.run --list softmax     what would be changed
    python -m tests.mutation.run --again            only earlier survivors, while cells are written
                                                    to kill them
    python -m tests.mutation.run --fresh            forget earlier results

What was tried before is tried again when the module or its notebook has changed.

A mutant is killed when a cell of the module's own notebook, or of a later one that imports it,
raises, hangs or gives another output than the saved one: `make test` asks the same of every
notebook. The chapters are judged by each other. The corpus of right and wrong attention judges the
checks, attention_checks/. mutmut writes the mutants. Its runner is not used: it needs pytest and
swaps functions at run time, while the checks here are cells that define those functions themselves.
A forked process with torch already imported takes a second.
"""

import argparse
import ast
import difflib
import hashlib
import importlib.util
import json
import multiprocessing
import os
import random
import re
import signal
import sys
import time
import types
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib.abc import Loader, MetaPathFinder
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.append(str(ROOT / "tools"))  # outputs.py and places.py, as the tests import them
from places import lacks, modules, notebook_of, place  # noqa: E402

FILES = modules()

# Before Triton is imported, as in tools/outputs.py: its kernels run without a GPU.
os.environ["TRITON_INTERPRET"] = "1"
RESULTS = ROOT / "_build" / "mutants.jsonl"  # scratch, for resuming
# Published; `why` and `equivalent` are written by hand and kept.
SURVIVORS = HERE / "survivors.json"
SAMPLED = ("figures/",)  # thousands of mutants each
# Of the processor; a mutant that takes longer than this and three times the usual time loops.
CPU_SECONDS = 60
# By the clock, which says little on a busy machine; what takes longer waits for ever.
CLOCK_SECONDS = 900


@dataclass(frozen=True)
class Mutant:
    "One change of one module."

    module: str
    function: str  # where it is
    before: str  # the lines that changed
    after: str
    source: str  # the whole module, changed

    @property
    def key(self) -> str:
        return f"{self.module}-{hashlib.sha256(self.source.encode()).hexdigest()[:12]}"


# Making them --------------------------------------------------------------------------------------


def mutants_of(module: str, sample: int | None = None) -> tuple[list[Mutant], int]:
    """What mutmut would change in a module, or a sample of it,
    and how many changes there are in all.
    """
    import libcst
    from libcst.metadata import MetadataWrapper
    from mutmut.mutation.file_mutation import MutationVisitor
    from mutmut.mutation.mutators import mutation_operators, operator_string
    from mutmut.mutation.pragma_handling import IgnoredCode

    source = FILES[module].read_text(encoding="utf-8")
    # words say the same in capitals
    operators = [o for o in mutation_operators if o[1] is not operator_string]
    visitor = MutationVisitor(operators, IgnoredCode(set(), set(), set()))
    tree = MetadataWrapper(libcst.parse_module(source)).visit(visitor)
    # no imports and constants
    changes = [m for m in visitor.mutations if m.contained_by_top_level_function]
    if sample:
        changes = random.Random(module).sample(changes, len(changes))
    found: dict[str, Mutant] = {}
    for m in changes:
        if len(found) == sample:
            break
        if mutant := compared(
            module, source, tree.deep_replace(m.original_node, m.mutated_node).code
        ):
            found.setdefault(mutant.key, mutant)
    return list(found.values()), len(changes) if sample else len(found)


def compared(module: str, source: str, changed: str) -> Mutant | None:
    "The mutant that a changed source is, or None where nothing differs or it is no Python."
    old, new = source.splitlines(), changed.splitlines()
    blocks = [
        b
        for b in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
        if b[0] != "equal"
    ]
    if not blocks or not parses(changed):
        return None
    before = "\n".join(line for _, i, j, _, _ in blocks for line in old[i:j])
    after = "\n".join(line for _, _, _, i, j in blocks for line in new[i:j])
    return Mutant(module, function_at(source, blocks[0][1] + 1), before, after, changed)


def parses(source: str) -> bool:
    try:
        ast.parse(source)
        return True
    except SyntaxError:
        return False


def function_at(source: str, line: int) -> str:
    "The function or method that a line belongs to."
    names: list[str] = []
    nodes: list[ast.AST] = list(ast.parse(source).body)
    while nodes:
        node = nodes.pop()
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.lineno <= line <= (
            node.end_lineno or 0
        ):
            names.append(node.name)
            nodes = list(node.body)
    return ".".join(names)


# Running notebooks --------------------------------------------------------------------------------


def judges(module: str) -> list[Path]:
    "The module's own notebook, then the others that lean on it."
    texts = {name: notebook_of(path).read_text(encoding="utf-8") for name, path in FILES.items()}
    uses = {
        name: {n for n in FILES if re.search(rf"attention_nb\.{n}\b", text)}
        for name, text in texts.items()
    }
    reached, more = {module}, True
    while more:
        new = {name for name, used in uses.items() if used & reached} - reached
        more, reached = bool(new), reached | new
    others = [notebook_of(FILES[n]) for n in FILES if n in reached and n != module]
    return [
        notebook_of(FILES[module]),
        *(path for path in others if not (place(path).startswith(SAMPLED) or lacks(path))),
    ]


def edition(module: str) -> str:
    """The code of the module's notebook in a few letters:
    when it changes, what was tried must be tried again.
    """
    return hashlib.sha256(repr(list(cells_of(notebook_of(FILES[module])))).encode()).hexdigest()[
        :12
    ]


def cells_of(notebook: Path) -> Iterator[tuple[str, str, list[dict]]]:
    "The cells that run: id, code, saved outputs."
    for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "code" and not re.search(
            r"^#\|\s*(eval:\s*false|notest)", source, re.M
        ):
            yield cell["id"], source, cell["outputs"]


def said(outputs: list[dict]) -> list:
    """What a cell's outputs say, however they are cut up:
    all that it printed, then what it displayed.
    """
    from outputs import with_data

    whole = [
        {mime: "".join(v) if isinstance(v, list) else with_data(v) for mime, v in o["data"].items()}
        for o in outputs
        if "data" in o
    ]
    return [
        "".join(line for o in outputs if o["output_type"] == "stream" for line in o["text"]),
        *whole,
    ]


def exported_cells(mutant: Mutant) -> dict[str, str]:
    "The cells that a module is made of, by id, with the imports that a notebook has."
    parts = re.split(r"^# %% \S+ #(\S+)\n", mutant.source, flags=re.M)
    package = ".".join(FILES[mutant.module].relative_to(ROOT).parent.parts)
    full = lambda m: f"from {importlib.util.resolve_name(m[1], package)}"
    return {
        name: re.sub(r"^from (\.[\w.]*)", full, text, flags=re.M)
        for name, text in zip(parts[1::2], parts[2::2])
    }


class Swap(MetaPathFinder, Loader):
    "Importing one module of the package gives the mutant."

    def __init__(self, mutant: Mutant):
        self.mutant, self.name = mutant, f"attention_nb.{mutant.module}"

    def find_spec(self, name, path=None, target=None):
        if name != self.name:
            return None
        file = FILES[self.mutant.module]
        spec = importlib.util.spec_from_loader(name, self, is_package=file.name == "__init__.py")
        if spec.submodule_search_locations is not None:
            spec.submodule_search_locations.append(str(file.parent))
        return spec

    def exec_module(self, module):
        exec(
            compile(self.mutant.source, f"{self.mutant.module}.py", "exec", dont_inherit=True),
            vars(module),
        )


def first_failure(notebook: Path, mutant: Mutant | None) -> str:
    """Run a notebook's cells;
    the id of the first that raises or says something else than it did, or nothing.
    """
    from execnb.shell import CaptureShell
    from outputs import agree

    own = exported_cells(mutant) if mutant and notebook == notebook_of(FILES[mutant.module]) else {}
    # the shell's own, where torch.compile looks for globals
    sys.modules["__main__"] = types.ModuleType("__main__")
    shell = CaptureShell()
    for name, source, saved in cells_of(notebook):
        # where execnb drops what was printed, too
        quiet = "\nNone" if re.search(r";\s*(#.*)?$", source) else ""
        now = shell.run(own.get(name, source) + quiet)
        if shell.exc:
            return f"{name} ({type(shell.exc).__name__})" + (
                f": {shell.exc}" if mutant is None else ""
            )
        if not agree(said(saved), said(now)):
            return f"{name} (another output)" + (f": {said(now)}" if mutant is None else "")
    return ""


def _child(pipe, notebooks: list[Path], mutant: Mutant | None, cpu_seconds: int) -> None:
    import resource

    import torch

    resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds + 5))
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    sink = os.open(os.devnull, os.O_WRONLY)
    os.dup2(sink, 1), os.dup2(sink, 2)
    if mutant:
        sys.meta_path.insert(0, Swap(mutant))
    for notebook in notebooks:
        os.chdir(notebook.parent)
        for name in [n for n in sys.modules if n.partition(".")[0] == "attention_nb"]:
            del sys.modules[name]
        pipe.send(("began", place(notebook)))
        if failed := first_failure(notebook, mutant):
            pipe.send(("failed", f"{place(notebook)} #{failed}"))
            break
    else:
        pipe.send(("passed", (time.process_time(), sorted(sys.modules))))
    os._exit(0)


class Trial:
    "One mutant in a process of its own."

    def __init__(self, notebooks: list[Path], mutant: Mutant | None, usual: dict[str, float]):
        self.mutant, self.notebook = mutant, ""
        limit = int(CPU_SECONDS + 3 * sum(usual.get(place(notebook), 0) for notebook in notebooks))
        self.pipe, theirs = multiprocessing.get_context("fork").Pipe(duplex=False)
        self.process = multiprocessing.get_context("fork").Process(
            target=_child, args=(theirs, notebooks, mutant, limit)
        )
        self.process.start()
        theirs.close()
        self.begun = time.monotonic()

    def result(self, wait: float = 0.05) -> tuple[str, object] | None:
        "What became of it, or None while it runs."
        while self.pipe.poll(wait):
            try:
                what, detail = self.pipe.recv()
            except EOFError:
                return self.end(("failed", f"{self.notebook} (the process died, or looped)"))
            if what != "began":
                return self.end((what, detail))
            self.notebook = detail
        if time.monotonic() - self.begun > CLOCK_SECONDS:
            return self.end(("failed", f"{self.notebook} (hangs)"))
        return None

    def end(self, result: tuple[str, object]) -> tuple[str, object]:
        if self.process.is_alive():
            os.kill(self.process.pid, signal.SIGKILL)
        self.process.join()
        return result


def warm_up(notebooks: list[Path]) -> dict[str, float]:
    """Run each notebook unchanged: it must pass.

    Import here what they import, for the forks to share; their seconds.
    """
    import torch

    torch.set_num_threads(1)
    usual: dict[str, float] = {}
    for notebook in notebooks:
        for _ in range(2):  # the second time without the imports
            trial = Trial([notebook], None, {})
            while (result := trial.result(1)) is None:
                pass
            if result[0] != "passed":
                raise SystemExit(f"{place(notebook)} fails unchanged: {result[1]}")
            usual[place(notebook)], imported = result[1]
            for name in imported:
                if name.partition(".")[0] not in ("attention_nb", "__main__", "__mp_main__"):
                    try:
                        importlib.import_module(name)
                    except Exception:
                        pass
        print(f"{place(notebook):<32}{usual[place(notebook)]:>6.1f} s unchanged", flush=True)
    return usual


# The command line ---------------------------------------------------------------------------------


def earlier() -> dict[str, dict]:
    "Results that are already there, by key."
    if not RESULTS.exists():
        return {}
    lines = RESULTS.read_text(encoding="utf-8").splitlines()
    return {r["key"]: r for r in map(json.loads, lines)}


def try_all(mutants: list[Mutant], jobs: int) -> None:
    "Try them, some at a time; each result is written down at once."
    usual = warm_up(sorted({n for m in {m.module for m in mutants} for n in judges(m)}))
    whom = {module: judges(module) for module in {m.module for m in mutants}}
    editions = {module: edition(module) for module in whom}
    waiting, running, done, begun = list(mutants), [], 0, time.monotonic()
    RESULTS.parent.mkdir(exist_ok=True)
    with RESULTS.open("a", encoding="utf-8") as file:
        while waiting or running:
            while waiting and len(running) < jobs:
                mutant = waiting.pop(0)
                running.append(Trial(whom[mutant.module], mutant, usual))
            for trial in list(running):
                if (result := trial.result()) is None:
                    continue
                running.remove(trial)
                done, m = done + 1, trial.mutant
                killed = result[0] == "failed"
                row = asdict(m) | {
                    "key": m.key,
                    "edition": editions[m.module],
                    "killed": killed,
                    "by": result[1] if killed else "",
                }
                row.pop("source")
                print(json.dumps(row, ensure_ascii=False), file=file, flush=True)
                left = (time.monotonic() - begun) / done * (len(mutants) - done) / 60
                print(
                    f"[{done:>4}/{len(mutants)}, {left:.0f} min left] {m.module}.{m.function}: "
                    + (
                        f"killed by {result[1]}"
                        if killed
                        else f"SURVIVED\n    - {m.before.strip()}\n    + {m.after.strip()}"
                    ),
                    flush=True,
                )


def publish(tried: dict[str, tuple[list[Mutant], int]]) -> dict:
    "Write the survivors; what a person wrote about one stays, as long as it survives."
    told = json.loads(SURVIVORS.read_text(encoding="utf-8")) if SURVIVORS.exists() else {}
    said = {
        (s["function"], s["before"], s["after"]): s for m in told.values() for s in m["survivors"]
    }
    results = earlier()
    for name, (mutants, of) in tried.items():
        rows = [results[m.key] for m in mutants if m.key in results]
        survivors = []
        for row in (r for r in rows if not r["killed"]):
            old = said.get((row["function"], row["before"], row["after"]), {})
            survivors.append(
                {
                    **{k: row[k] for k in ("function", "before", "after")},
                    "equivalent": old.get("equivalent", False),
                    "why": old.get("why", ""),
                }
            )
        equivalent = sum(s["equivalent"] for s in survivors)
        told[name] = {
            "mutants": len(rows),
            "of": of,
            "killed": sum(r["killed"] for r in rows),
            "equivalent": equivalent,
            "survivors": survivors,
        }
    told = {name: told[name] for name in FILES if name in told}
    SURVIVORS.write_text(json.dumps(told, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return told


def command_line() -> argparse.ArgumentParser:
    "What may be asked."
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutation.run",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "modules", nargs="*", help="default: all but charts and drawings; with --sample these"
    )
    parser.add_argument(
        "--sample",
        type=int,
        metavar="N",
        help="so many mutants of each module, always the same ones",
    )
    parser.add_argument("--list", action="store_true", help="print the mutants and try none")
    parser.add_argument(
        "--again", action="store_true", help="try earlier survivors only; trust what was killed"
    )
    parser.add_argument("--fresh", action="store_true", help="forget earlier results")
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time (2)")
    return parser


def untried(mutants: list[Mutant], again: bool) -> list[Mutant]:
    "Those that have no result of this edition, or, `again`, those that are not known to be killed."
    done = earlier()
    return [
        m
        for m in mutants
        if m.key not in done
        or (not done[m.key]["killed"] if again else done[m.key].get("edition") != edition(m.module))
    ]


def listing(mutants: list[Mutant]) -> str:
    "The mutants, old lines and new."
    shown = [
        f"{m.key}  {m.function}\n    - {m.before.strip()}\n    + {m.after.strip()}" for m in mutants
    ]
    return "\n".join([*shown, f"{len(mutants)} mutants"])


def table(told: dict[str, dict]) -> str:
    "What became of the mutants of each module."
    rows = [
        f"{'module':<24}{'mutants':>8}{'of':>6}{'killed':>8}{'equal':>7}{'open':>6}"
        f"{'of those that differ':>22}"
    ]
    for name, t in told.items():
        differ = t["mutants"] - t["equivalent"]
        rows.append(
            f"{name:<24}{t['mutants']:>8}{t['of']:>6}{t['killed']:>8}{t['equivalent']:>7}"
            f"{differ - t['killed']:>6}{t['killed'] / max(differ, 1):>21.1%}"
        )
    unexplained = sum(not s["why"] for t in told.values() for s in t["survivors"])
    end = f"; {unexplained} survivors without an explanation" if unexplained else ""
    return "\n".join([*rows, "", f"written: {SURVIVORS.relative_to(ROOT)}{end}"])


def main() -> int:
    "The command line."
    parser = command_line()
    args = parser.parse_args()
    large = {name for name in FILES if place(notebook_of(FILES[name])).startswith(SAMPLED)}
    names = args.modules or [name for name in FILES if (name in large) == bool(args.sample)]
    if unknown := set(names) - set(FILES):
        parser.error(
            f"no such module: {', '.join(sorted(unknown))}; expected some of {', '.join(FILES)}"
        )
    try:
        tried = {name: mutants_of(name, args.sample) for name in names}
    except ImportError as e:
        raise SystemExit(
            f"{e.name} is needed here and nowhere else: "
            "pip install -r tests/checks/corpus/requirements.txt"
        ) from e
    mutants = [m for some, _ in tried.values() for m in some]
    if args.list:
        print(listing(mutants))
        return 0
    if args.fresh:
        RESULTS.unlink(missing_ok=True)
    new = untried(mutants, args.again)
    print(f"{len(mutants)} mutants, {len(mutants) - len(new)} of them tried before", flush=True)
    if new:
        try_all(new, args.jobs)
    told = publish(tried)
    print("\n" + table({name: told[name] for name in names}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
