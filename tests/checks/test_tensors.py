"""Comparing tensors, describing where they differ, and what must hold of every function."""

from __future__ import annotations


import pytest
import torch

from attention_checks.their_code.controlled import fixed_chance
from attention_checks.numbers.tensors import first_difference, must_be_tensor, nearly, some_mask
from attention_checks.outcomes import Broken, Misused
from attention_checks.properties.numerics import must_be_as_in_32
from attention_checks.properties.state import must_repeat_call

A = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
NAN = A * torch.tensor([1, float("nan")])


def code_of(must, *args):
    "The code of what is broken; empty if all holds."
    try:
        must(*args)
    except Broken as e:
        return e.bugs[0].code
    return ""


def test_nearly_is_relative_for_large_numbers_and_absolute_for_small_ones():
    small = torch.tensor([1e-3, 1000.0])
    assert nearly(small, small + torch.tensor([1e-4, 0.5])) and not nearly(small, small + 1e-4, 0)
    assert not nearly(small, small + torch.tensor([3e-4, 0]))
    assert not nearly(small, small + torch.tensor([0, 1.5]))
    assert not nearly(A, A[0]) and not nearly(NAN, NAN) and nearly(NAN, NAN, equal_nan=True)


@pytest.mark.parametrize(
    "got, want, index",
    [
        (A, A + torch.tensor([[0, 1], [9, 1]]), [0, 1]),  # the first, not the largest
        (NAN, NAN + torch.tensor([[0, 0], [3, 0]]), [1, 0]),  # two NaN are the same
        (NAN, A, [0, 1]),
        (NAN, NAN + 1e-6, [0, 1]),  # nothing else differs
        (A > 1, A > 0, [0, 0]),
    ],
)
def test_the_first_difference_is_shown(got, want, index):
    assert first_difference(got, want).startswith(f"at {index} ")


@pytest.mark.parametrize("atol, index", [(0.0, 1), (1e-5, 2), (2e-4, 3), (0.1, 4)])
def test_what_is_within_the_tolerance_is_no_difference(atol, index):
    want = torch.tensor([0, 5e-6, 1e-4, 0.01, 0.2])
    assert first_difference(torch.zeros(5), want, atol).startswith(f"at [{index}] ")


@pytest.mark.parametrize("n_q", range(1, 8))
def test_a_mask_leaves_every_query_and_every_key_something(n_q):
    for n_k in range(1, 8):
        mask = some_mask(n_q, n_k)
        assert mask.shape == (n_q, n_k) and mask.any(0).all() and mask.any(1).all()


def test_random_state_and_threads_come_back():
    state, threads = torch.get_rng_state(), torch.get_num_threads()
    torch.set_num_threads(2)
    with pytest.raises(ZeroDivisionError), fixed_chance():
        torch.rand(3), 1 / 0
    assert torch.equal(torch.get_rng_state(), state) and torch.get_num_threads() == 2
    torch.set_num_threads(threads)


def test_a_result_must_repeat():
    calls = []
    counted = lambda: calls.append(0) or A * len(calls) * 1e-5
    assert not code_of(must_repeat_call, lambda: NAN)
    assert code_of(must_repeat_call, lambda: torch.rand(1) * NAN / 9) == "state.chance"
    assert code_of(must_repeat_call, counted) == "state.kept"
    kept = lambda: A * len(calls)
    assert code_of(must_repeat_call, kept, lambda: calls.append(0)) == "state.kept"


def test_a_result_must_be_a_tensor_of_the_same_type():
    assert code_of(must_be_as_in_32, A, A, torch.float16, "x", 0.1) == "dtype.other"
    assert code_of(must_be_tensor, None) == "code.returns_nothing"
    assert code_of(must_be_tensor, [A]) == "code.returns_no_tensor"
    with pytest.raises(Misused):
        must_be_tensor(A.numpy())
