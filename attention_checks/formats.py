"""JSON, SARIF, JUnit, GitHub's annotations and a page of HTML: the same findings, with the same codes."""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Callable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree as xml

from attention_checks.report import Failure, Report


class Finding(NamedTuple):
    "A report, and where its subject is written."

    report: Report  # what was found
    file: str = ""  # as seen from the folder where the command runs; empty if there is none
    line: int = 1  # where it begins


def written_at(
    thing: Any,  # a function, a class, or an object of one
) -> tuple[
    str, int
]:  # file, relative to the working folder if it lies below, and line; ("", 1) if there is none
    "Find the file and the line where something is defined."
    source = (
        inspect.unwrap(thing) if inspect.isroutine(thing) or inspect.isclass(thing) else type(thing)
    )
    try:
        file, line = inspect.getsourcefile(source), inspect.getsourcelines(source)[1]
    except (OSError, TypeError):
        return "", 1
    path = Path(file or "").resolve()
    within = path.is_relative_to(Path.cwd())
    return (os.path.relpath(path) if within else str(path)).replace(os.sep, "/"), max(line, 1)


def as_json(
    findings: Sequence[Finding],  # what was checked
) -> str:  # an object with one entry for each
    "Write reports as JSON."
    return json.dumps(
        {"checks": [_plain(finding) for finding in findings]}, indent=2, ensure_ascii=False
    )


def _plain(finding: Finding) -> dict[str, Any]:
    "A finding in lists, dictionaries and strings."
    report = finding.report
    return {
        "subject": report.subject,
        "ok": report.ok,
        "file": finding.file,
        "line": finding.line,
        "codes": report.codes,
        "bugs": [{"code": code, "sentence": bug} for code, bug in report.named],
        "failed": [
            {
                "property": f.property,
                "example": f.example,
                "codes": list(f.codes),
                "declare": f.declare,
            }
            for f in report.failed
        ],
        "not_tried": [{"property": name, "why": why} for name, why in report.notes],
        "passed": report.passed,
        "notes": report.remarks,
    }


def as_sarif(
    findings: Sequence[Finding],  # what was checked
) -> str:  # a log of one run
    "Write reports as SARIF 2.1.0."
    results = [result for finding in findings for result in _results(finding)]
    rules = {
        _rule(f): f.bug or f"does not hold: {f.property}"
        for finding in findings
        for f in finding.report.failed
    }
    driver = {
        "name": "attention-nb",
        "rules": [{"id": rule, "shortDescription": {"text": text}} for rule, text in rules.items()],
    }
    log = {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": results}],
    }
    return json.dumps(log, indent=2, ensure_ascii=False)


def _results(finding: Finding) -> list[dict[str, Any]]:
    "One result for each property that fails."
    place = {
        "physicalLocation": {
            "artifactLocation": {"uri": finding.file},
            "region": {"startLine": finding.line},
        }
    }
    return [
        {
            "ruleId": _rule(f),
            "level": "error",
            "message": {"text": f"{finding.report.subject}: {_said(f.property, f.example, f.bug)}"},
            **({"locations": [place]} if finding.file else {}),
        }
        for f in finding.report.failed
    ]


def _rule(failure: Failure) -> str:
    "The codes of a failure, as one."
    return "+".join(failure.codes) or "unknown"


def _said(name: str, example: str, bug: str) -> str:
    "A failure in a line or two."
    return "\n".join(
        filter(None, [f"does not hold: {name}", example, bug and f"likely bug: {bug}"])
    )


def as_junit(
    findings: Sequence[Finding],  # what was checked
) -> str:  # one suite for each
    "Write reports as JUnit's XML."
    root = xml.Element("testsuites")
    for finding in findings:
        root.append(_suite(finding))
    xml.indent(root)
    return xml.tostring(root, encoding="unicode", xml_declaration=True)


def _suite(finding: Finding) -> xml.Element:
    "One test for each property."
    report = finding.report
    numbers = {
        "tests": len(report.failed) + len(report.notes) + len(report.passed),
        "failures": len(report.failed),
        "skipped": len(report.notes),
    }
    suite = xml.Element(
        "testsuite", {"name": report.subject} | {key: str(n) for key, n in numbers.items()}
    )
    test: Callable[[str], xml.Element] = lambda name: xml.SubElement(
        suite, "testcase", classname=report.subject, name=name
    )
    for f in report.failed:
        failure = xml.SubElement(
            test(f.property), "failure", message=f.bug or f.property, type=_rule(f)
        )
        failure.text = _said(f.property, f.example, f.bug)
    for name, why in report.notes:
        xml.SubElement(test(name), "skipped", message=why)
    for name in report.passed:
        test(name)
    return suite


def as_github(
    findings: Sequence[Finding],  # what was checked
) -> str:  # a line for each failure; empty if there is none
    "Write reports as workflow commands of GitHub."
    return "\n".join(
        _command(finding, _rule(f), _said(f.property, f.example, f.bug))
        for finding in findings
        for f in finding.report.failed
    )


def _command(finding: Finding, code: str, text: str) -> str:
    "One annotation; what separates its parts is written as a number."
    whole = (
        f"{finding.report.subject}: {text}".replace("%", "%25")
        .replace("\r", "%0D")
        .replace("\n", "%0A")
    )
    place = (
        f"file={finding.file.replace(':', '%3A').replace(',', '%2C')},line={finding.line},"
        if finding.file
        else ""
    )
    return f"::error {place}title={code}::{whole}"


def as_html(
    findings: Sequence[Finding],  # what was checked
) -> str:  # a page that needs nothing else
    "Write reports as a page."
    style = (
        "body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }"
        " td, th { text-align: left; vertical-align: top; padding: .2rem .6rem; } :root { color-scheme: light dark; }"
    )
    body = "\n".join(f"<section>{finding.report._repr_html_()}</section>" for finding in findings)
    title = escape(", ".join(finding.report.subject for finding in findings))
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f"<style>{style}</style></head>\n<body>{body}</body></html>"
    )


def as_text(
    findings: Sequence[Finding],  # what was checked
) -> str:  # as people read it
    "Write reports as they are printed."
    return "\n\n".join(str(finding.report) for finding in findings)


FORMATS: Mapping[str, Callable[[Sequence[Finding]], str]] = {
    "text": as_text,
    "json": as_json,
    "sarif": as_sarif,
    "junit": as_junit,
    "github": as_github,
    "html": as_html,
}
