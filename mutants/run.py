"""Prove that the checks bite: every correct attention must pass, every planted bug must be caught and named.

    make mutants                                 all of them; writes mutants/score.json
    python -m mutants.run --only scale           those whose name holds "scale" (a regular expression)
    python -m mutants.run --only 'textbook: no scale' --show    with the check's whole message
"""
import argparse
import json
import multiprocessing
import re
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from attention_nb import checks
from mutants import correct, planted
from mutants.zoo import CHECKS, Animal

HERE = Path(__file__).resolve().parent
SCORE = HERE / "score.json"
SECONDS = 300  # a check that takes longer hangs
NO_NAME = r"fit no bug known|^the code raises|sizes that do not fit|^it fails on inputs"  # what is said if nothing is known


@dataclass
class Verdict:
    "What a check said of an animal."
    animal: Animal
    passed: bool = False
    crashed: bool = False  # the check raised something that is not CheckFailed
    by: tuple[str, ...] = ()  # the properties that failed
    bugs: tuple[str, ...] = ()  # the likely bugs
    message: str = ""
    seconds: float = 0.0
    disturbed: str = ""  # what the check left changed in the animal

    @property
    def caught(self) -> bool:
        return not self.passed and not self.crashed

    @property
    def named(self) -> bool:
        "Whether a likely bug is what a fair reader wants to read; case does not matter. That none is known is no name."
        names = "\n".join(bug for bug in self.bugs if not re.search(NO_NAME, bug))
        return self.caught and re.search(self.animal.says, names, re.I) is not None

    @property
    def good(self) -> bool:
        return not self.disturbed and (self.caught if self.animal.says else self.passed)

    def word(self) -> str:
        "One or two words for the table."
        if self.crashed:
            return "CRASHED"
        if self.disturbed:
            return "DISTURBED"
        if not self.animal.says:
            return "accepted" if self.passed else "REFUSED"
        return "SURVIVED" if self.passed else "named" if self.named else "caught, misnamed"


def state_of(thing: object) -> dict[str, object]:
    "What a check may not change: mode, parameters, whether they want gradients, and hooks."
    if not isinstance(thing, torch.nn.Module):
        return {}
    tensors = {**dict(thing.named_parameters()), **dict(thing.named_buffers())}
    lazy = torch.nn.parameter.is_lazy
    return {"train or eval": [m.training for m in thing.modules()],
            "values": {n: t.detach().clone() for n, t in tensors.items() if not lazy(t)},
            "types": {n: (t.dtype, t.requires_grad) for n, t in tensors.items() if not lazy(t)},
            "gradients": {n: t.grad is None for n, t in tensors.items() if not lazy(t)}}


def changed(before: dict[str, object], after: dict[str, object]) -> str:
    "The first thing that differs, or nothing."
    for what, was in before.items():
        is_now = after[what]
        if what == "values":
            same = all(torch.equal(value, is_now[name]) for name, value in was.items())
        elif isinstance(was, dict):
            same = all(is_now[name] == value for name, value in was.items())
        else:
            same = was == is_now
        if not same:
            return what
    return ""


def judge(animal: Animal) -> Verdict:
    "Hold one animal against its check."
    verdict = Verdict(animal)
    thing = animal.make()
    before = state_of(thing)
    check = getattr(checks, f"check_{animal.check}")
    begun = time.process_time()  # of one core: on a busy machine the clock says little
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            check(thing, **animal.args)
        verdict.passed = True
    except checks.CheckFailed as e:
        verdict.message = str(e)
        verdict.by = tuple(failure.property for failure in e.report.failed)
        verdict.bugs = tuple(e.report.bugs)
    except Exception:
        verdict.crashed, verdict.message = True, traceback.format_exc()
    verdict.seconds = time.process_time() - begun
    if not animal.says:
        verdict.disturbed = changed(before, state_of(thing))
    return verdict


# Two at a time, each in a process of its own --------------------------------------------------------------------

def _child(animal: Animal, pipe) -> None:
    torch.set_num_threads(1)
    try:
        verdict = judge(animal)
    except Exception:
        verdict = Verdict(animal, crashed=True, message=traceback.format_exc())
    pipe.send({name: value for name, value in vars(verdict).items() if name != "animal"})
    pipe.close()


def judge_all(animals: Iterable[Animal], jobs: int = 2) -> Iterator[Verdict]:
    "Judge them in forked processes, so that none can spoil another or hang; in their order."
    fork = multiprocessing.get_context("fork")
    waiting, running = list(animals), []
    while waiting or running:
        while waiting and len(running) < jobs:
            animal, (ours, theirs) = waiting.pop(0), fork.Pipe(duplex=False)
            process = fork.Process(target=_child, args=(animal, theirs), daemon=True)
            process.start()
            theirs.close()
            running.append((animal, process, ours, time.monotonic()))
        animal, process, pipe, begun = running.pop(0)
        if pipe.poll(max(0, begun + SECONDS - time.monotonic())):
            try:
                yield Verdict(animal, **pipe.recv())
            except EOFError:
                yield Verdict(animal, crashed=True, message="the process died")
        else:
            process.kill()
            yield Verdict(animal, crashed=True, message=f"no answer within {SECONDS} s")
        process.join()


# Telling ---------------------------------------------------------------------------------------------------------

def table(verdicts: list[Verdict]) -> str:
    "One line per check: how many were there, and what became of them."
    lines = [f"{'check':<16}{'correct':>8}{'refused':>9}{'planted':>9}{'caught':>8}{'named':>7}{'s, mean':>9}{'s, most':>9}"]
    for check in (*CHECKS, "all"):
        of = [v for v in verdicts if check in (v.animal.check, "all")]
        if not of:
            continue
        right, wrong = [v for v in of if not v.animal.says], [v for v in of if v.animal.says]
        seconds = [v.seconds for v in of]
        lines.append(f"{check:<16}{len(right):>8}{sum(not v.good for v in right):>9}{len(wrong):>9}"
                     f"{sum(v.caught for v in wrong):>8}{sum(v.named for v in wrong):>7}"
                     f"{sum(seconds) / len(seconds):>9.2f}{max(seconds):>9.2f}")
    by = Counter(prop for v in verdicts if v.animal.says for prop in v.by)
    if by:
        lines += ["", "planted bugs caught, by property:", *(f"{n:>6}  {prop}" for prop, n in by.most_common())]
    return "\n".join(lines)


def score(verdicts: list[Verdict]) -> dict:
    "What is published: no clock times, so that two runs give the same bytes."
    def counts(of: list[Verdict]) -> dict[str, int]:
        right, wrong = [v for v in of if not v.animal.says], [v for v in of if v.animal.says]
        return {"correct": len(right), "refused": sum(not v.good for v in right), "planted": len(wrong),
                "caught": sum(v.caught for v in wrong), "named": sum(v.named for v in wrong)}
    return {
        "checks": {c: counts([v for v in verdicts if v.animal.check == c]) for c in CHECKS},
        "all": counts(verdicts),
        "correct": [{"name": v.animal.name, "check": v.animal.check, "accepted": v.good}
                    for v in verdicts if not v.animal.says],
        "planted": [{"name": v.animal.name, "check": v.animal.check, "caught": v.caught, "named": v.named, "by": list(v.by)}
                    for v in verdicts if v.animal.says],
    }


def main() -> int:
    "The command line."
    parser = argparse.ArgumentParser(prog="python -m mutants.run", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", metavar="REGEX", default="", help="those whose name matches")
    parser.add_argument("--check", choices=CHECKS, help="those of one check")
    parser.add_argument("--correct", action="store_true", help="only the correct ones")
    parser.add_argument("--planted", action="store_true", help="only the planted ones")
    parser.add_argument("--show", action="store_true", help="print the check's message, and the edit")
    parser.add_argument("--list", action="store_true", help="print the names and judge nothing")
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time (2)")
    args = parser.parse_args()
    registers = [r.REGISTER for r, left_out in ((correct, args.planted), (planted, args.correct)) if not left_out]
    animals = [a for r in registers for a in r.animals.values()
               if re.search(args.only, a.name, re.I) and args.check in (None, a.check)]
    if args.list or not animals:
        print("\n".join(f"{a.check:<16}{a.name}" for a in animals) or f"no name matches {args.only!r}")
        return 0 if animals else 2
    verdicts = []
    for i, v in enumerate(judge_all(animals, args.jobs), start=1):
        verdicts.append(v)
        print(f"[{i:>3}/{len(animals)}] {v.word():<17}{v.seconds:>6.2f} s  {v.animal.check:<15} {v.animal.name}"
              + (f"   ({', '.join(v.by)})" if v.by else ""), flush=True)
        if args.show or v.crashed or v.disturbed or not v.good:
            edits = [f"    - {old}\n    + {new}" for old, new in v.animal.edits] if args.show else []
            print("\n".join([*edits, *("      " + line for line in (v.disturbed or v.message).splitlines())]), flush=True)
    print("\n" + table(verdicts))
    if missed := [v for v in verdicts if not v.good]:
        print("\nNot as they should be:\n" + "\n".join(f"  {v.word():<17}{v.animal.check:<15} {v.animal.name}" for v in missed))
    if misnamed := [v for v in verdicts if v.good and v.animal.says and not v.named]:
        print("\nCaught, but no likely bug is the right one:\n" + "\n".join(f"  {v.animal.check:<15} {v.animal.name}" for v in misnamed))
    if len(animals) == sum(len(r.REGISTER.animals) for r in (correct, planted)):
        SCORE.write_text(json.dumps(score(verdicts), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        print(f"\nwritten: {SCORE.relative_to(HERE.parent)}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
