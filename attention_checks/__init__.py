"""Checks of attention: they try every property on your own code, and name the likely bug."""

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
from attention_checks.examine import Misused
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
