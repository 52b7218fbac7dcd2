"""Checks of attention: they try every property on your own code, and name the likely bug.

The way of one check, from file to file:

    api.py        the checks that a user calls
    spec.py       what an author declares, one frozen value; choice_guards.py: its guards;
                  arguments.py: guards of what else a check is called with
    their_code/   the code under test: what its names and signatures tell, and where it runs
    subjects/     what is checked, a function or a layer, becomes a value that is called in one way,
                  and what is found out about it once: function_facts.py, diagnosis.py
    trace/        of a layer: its queries, keys and values in one call, and the ways to read them
    properties/   what must hold; an idea that functions and layers share is written once
    examine.py    tries the properties one by one, and settles what fails into bugs
    outcomes.py   how a trial ends: it holds, or raises Broken, NotChecked or Misused
    catalogue/    each bug: its code, its sentence, and the stage of attention that it replaces
    explaining/   attention as stages, and which bugs of the catalogue give the numbers seen
    report.py     what was found, as text and as data

What all of these use stands in numbers/: how numbers and gradients are compared.

What its words mean:

    contract    what an author declares of the code: each choice is a keyword of a check
    subject     the code under test, with its contract and the way in which it is called
    property    what must hold of a subject; a function `must_…` tries it
    code        the name of a bug, such as "scale.missing"; users see it, and skip it by it
    stage       a part of attention, such as "score" or "merge"; a step does what it should, or not
    work        what the stages hand on: queries, keys, values, scores, weights, output
    case        work, and what came out of the code under test
    trace       what the projections of a layer took and gave in one call
    reading     one way to split these into heads; with the stages it is the start of a search
    symptom     a failure that may follow from another: it gives way to the bug that the numbers
                tell, and is named only where no cause is

Beside it: auditing/ tries a whole model, distributed/ a sequence that is spread over processes,
and command/ holds the commands. numbers/, their_code/, explaining/ and trace/ say in `__init__.py`
what stands in each of their files.
"""

from attention_checks.api import (
    check_agrees,
    check_attention,
    check_cache,
    check_cross_attention,
    check_distributed,
    check_flash,
    check_masked_softmax,
    check_multi_head,
    check_positions,
    check_self_attention,
    check_softmax,
)
from attention_checks.auditing import AuditReport, Expected, audit
from attention_checks.outcomes import Misused
from attention_checks.report import CheckFailed, NotCompared, Report
from attention_checks.spec import Contract

__all__ = [
    "AuditReport",
    "CheckFailed",
    "Contract",
    "Expected",
    "Misused",
    "NotCompared",
    "Report",
    "audit",
    "check_agrees",
    "check_attention",
    "check_cache",
    "check_cross_attention",
    "check_distributed",
    "check_flash",
    "check_masked_softmax",
    "check_multi_head",
    "check_positions",
    "check_self_attention",
    "check_softmax",
]
