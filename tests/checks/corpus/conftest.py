"""Which entries are tried, and the table at the end."""
import json
import re
from collections import Counter
from pathlib import Path

import pytest
from tests.checks.corpus import correct, planted
from tests.checks.corpus.entries import CHECKS

SUMMARY = Path(__file__).resolve().parent / "summary.json"
ENTRIES = {"correct": correct.REGISTRY.entries, "planted": planted.REGISTRY.entries}


def pytest_addoption(parser):
    parser.addoption("--only", metavar="REGEX", default="", help="entries whose name matches")
    parser.addoption("--check", choices=CHECKS, help="entries of one check")
    parser.addoption("--show", action="store_true", help="print what the check says of each")


def pytest_generate_tests(metafunc):
    for kind in ENTRIES.keys() & set(metafunc.fixturenames):
        only, check = metafunc.config.getoption("--only"), metafunc.config.getoption("--check")
        some = [entry for entry in ENTRIES[kind].values()
                if re.search(only, entry.name, re.I) and check in (None, entry.check)]
        metafunc.parametrize(kind, [pytest.param(entry, id=entry.name) for entry in some])


def pytest_terminal_summary(terminalreporter, config):
    "One line for each check; the published score, if all were tried."
    reports = (r for some in terminalreporter.stats.values() for r in some if getattr(r, "when", "") == "call")
    told = [dict(r.user_properties) for r in reports if r.user_properties]
    verdicts = {each["entry"]: each["verdict"] for each in told}
    for name, verdict in verdicts.items() if config.getoption("--show") else ():
        terminalreporter.write_line(f"{name}\n{verdict['message'] or 'passed'}\n")
    terminalreporter.write_line("\n".join(table(verdicts)))
    if verdicts.keys() == ENTRIES["correct"].keys() | ENTRIES["planted"].keys():
        SUMMARY.write_text(json.dumps(summary(verdicts), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        terminalreporter.write_line(f"written: tests/checks/corpus/{SUMMARY.name}")


def counts(verdicts, check):
    "How many entries of a check there are, and what became of them."
    right, wrong = ([verdicts[entry.name] for entry in ENTRIES[kind].values()
                     if entry.name in verdicts and check in (entry.check, "all")]
                    for kind in ("correct", "planted"))
    return {"correct": len(right), "refused": sum(not v["accepted"] for v in right),
            "compared": sum(v["compared"] for v in right),
            "planted": len(wrong), "caught": sum(v["caught"] for v in wrong),
            "named": sum(v["named"] for v in wrong)}


def table(verdicts):
    "The numbers, and the seconds of processor time."
    yield f"{'check':<16}" + "".join(f"{key:>9}" for key in counts({}, "all")) + f"{'s, mean':>9}{'s, most':>9}"
    entries = ENTRIES["correct"] | ENTRIES["planted"]
    for check in (*CHECKS, "all"):
        seconds = [v["seconds"] for name, v in verdicts.items() if check in (entries[name].check, "all")]
        if seconds:
            numbers = "".join(f"{n:>9}" for n in counts(verdicts, check).values())
            yield f"{check:<16}{numbers}{sum(seconds) / len(seconds):>9.2f}{max(seconds):>9.2f}"
    by = Counter(prop for name, v in verdicts.items() if name in ENTRIES["planted"] for prop in v["by"])
    yield from (f"{n:>6}  {prop}" for prop, n in by.most_common())


def summary(verdicts):
    "What is published: figures, no clock times, so that two runs give the same bytes."
    planted_ones = {entry.name: verdicts[entry.name] for entry in ENTRIES["planted"].values()}
    by = Counter(prop for v in planted_ones.values() for prop in v["by"])
    return {"checks": {check: counts(verdicts, check) for check in CHECKS}, "all": counts(verdicts, "all"),
            "by": dict(sorted(by.items(), key=lambda each: (-each[1], each[0]))[:12]),
            "missed": sorted(name for name, v in planted_ones.items() if not v["caught"]),
            "unnamed": sorted(name for name, v in planted_ones.items() if v["caught"] and not v["named"])}
