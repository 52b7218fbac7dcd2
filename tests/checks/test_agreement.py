"""Functions that differ from a reference in one way each, and the code that each is named by."""

from __future__ import annotations

import warnings
from functools import partial

import pytest
import torch
from tests.checks.finding import codes_of, report_of

from attention_checks import check_agrees

X = torch.randn(3, 5, generator=torch.Generator().manual_seed(0))
MASK, IDS = torch.ones(4, 4).tril().bool(), torch.tensor([1000, 1001, 5, 7])


def twice(x):
    "What is right."
    return 2 * x


def with_other(x, *index):
    "A copy with other numbers in one place."
    x = x.clone()
    x[index] += 7 * x[index].abs() + 1
    return x


def in_place(x):
    "It writes into its input, where no gradient forbids it."
    return x * 2 if x.requires_grad else x.mul_(2)


WRONG = [
    ("nothing", lambda x: None, "code.returns_nothing"),
    ("a list", lambda x: (2 * x).tolist(), "result.kind"),
    ("a tuple", lambda x: (2 * x, x), "result.kind"),
    ("transposed", lambda x: (2 * x).mT, "result.transposed"),
    ("another shape", lambda x: 2 * x[:2], "result.shape"),
    ("another type", lambda x: 2 * x.double(), "result.dtype"),
    ("NaN", lambda x: 2 * x / 0 * 0, "values.nan"),
    ("in place", in_place, "input.modified"),
    ("detached", lambda x: 2 * x.detach(), "grad.none"),
    ("partly detached", lambda x: x + x.detach(), "grad.wrong"),
    ("raises", lambda x: 2 * x @ torch.ones(9), "code.raises"),
]


@pytest.mark.parametrize("fn, code", [pytest.param(*row[1:], id=row[0]) for row in WRONG])
def test_a_wrong_function_is_named(fn, code):
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # none may reach the reader
        assert codes_of(check_agrees, fn, twice, (X,)) == [code]


@pytest.mark.parametrize(
    "want, got",
    [
        (X, -X),
        (X, X.exp()),
        (MASK, ~MASK),
        (X, with_other(X, slice(2))),
        (IDS[:1], IDS[1:2]),
        (3, 4),
        ({"a": X}, {"a": -X}),
        ({"a": X}, {"b": X}),
        ((X, X), (X,)),
        (X * torch.nan, X),
    ],
)
def test_wrong_numbers_are_refused_without_a_name(want, got):
    report = report_of(check_agrees, lambda x: got, lambda x: want, (X,))
    assert report.failed and not report.codes


def test_a_declared_wrong_answer_is_named_if_it_explains_every_example():
    mean = {"it takes the mean": lambda x: 2 * x.mean(-1)}
    pair = (torch.ones(1, 2),), (torch.tensor([[1.0, 2, 4]]),)
    named = partial(codes_of, check_agrees, wrong=mean)
    total = lambda x: 2 * x.sum(-1)
    assert "result.named" in named(lambda x: x.mean(-1) + x.mean(-1), total, *pair)
    assert "result.named" not in named(lambda x: torch.ones(len(x)), total, *pair)


def test_gradients_are_compared_when_all_results_are_right():
    report = report_of(check_agrees, lambda x: x.where(x < 0, 4.0), lambda x: x, (-X.abs(),), (X,))
    assert [name for name, *_ in report.notes] == ["gradients are right"]
    root = torch.tensor([-1.0, 4.0])
    rooted = lambda x: torch.where(x > 0, x.sqrt() ** 2, 0)
    assert codes_of(check_agrees, rooted, torch.relu, (root,)) == ["grad.infinite"]
    barely = lambda x: 0.9 * x + 0.1 * x.detach()
    assert codes_of(check_agrees, barely, lambda x: x, (X,)) == ["grad.wrong"]


@pytest.mark.parametrize(
    "fn, reference, example",
    [
        (lambda ids, x: x[ids], lambda ids, x: torch.embedding(x, ids), (IDS[2:] - 5, X)),
        (lambda n: n + 1, lambda n: 1 + n, (3,)),
        (lambda x: x > 0, lambda x: 0 < x, (X,)),
        (lambda n: 1.00001, lambda n: 1.0, (3,)),
        (lambda n: torch.nan, lambda n: torch.nan, (3,)),
        (lambda x: x * torch.nan, lambda x: torch.nan * x, (X,)),
        (lambda x: {"a": 2 * x}, lambda x: {"a": x + x}, (X,)),
        (lambda x, a: x, lambda x, a: x + 0 * a, (X, X)),
        (lambda table, some: some[0] * 2, lambda table, some: some[0] + some[0], ({}, [X, "a"])),
        (twice, lambda x: x + x, (2 * torch.ones(3, requires_grad=True),)),
    ],
)
def test_functions_that_do_the_same_hold(fn, reference, example):
    assert check_agrees(fn, reference, example).compared


@pytest.mark.parametrize(
    "changes", [lambda rows: rows.append(2) or 1, lambda rows: rows[0].append(2) or 1]
)
def test_a_list_that_is_modified_is_named(changes):
    assert codes_of(check_agrees, changes, lambda rows: 1, ([[1]],)) == ["input.modified"]
