"""Attention in tiles: what the corpus does not plant."""

from __future__ import annotations

import pytest
from tests.checks.finding import codes_of, report_of

from attention_checks import check_flash
from attention_nb.flash_attention import flash_attention


def larger(q, k, v):
    "A log-sum-exp that is wrong."
    context, lse = flash_attention(q, k, v, return_lse=True, block_size=64)
    return context, lse + 0.3


def test_another_log_sum_exp_is_named():
    assert codes_of(check_flash, larger) == ["lse.wrong"]


def test_right_ones_hold():
    def causal(q, k, v):
        return flash_attention(q, k, v, causal=True, return_lse=True, block_size=64)

    assert check_flash(flash_attention).ok
    assert check_flash(causal, causal="lower-right").ok


@pytest.mark.nightly
def test_memory_is_not_watched_where_tiles_are_tiny():
    report = report_of(check_flash, lambda q, k, v: flash_attention(q, k, v, block_size=1))
    assert report.ok and sum("tiles are so small" in why for _, why, _ in report.notes) == 2
