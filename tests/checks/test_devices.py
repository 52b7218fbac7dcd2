"""Code that runs in another type or on another device than the tensors it is checked with.

If it fails: The code under test gets copies of what was drawn, brought to its device and type.
"""

import pytest
import torch
import torch.nn as nn
from attention_checks import (
    check_attention,
    check_cross_attention,
    check_multi_head,
    check_self_attention,
)
from attention_checks.their_code.controlled import full_precision
from tests.checks.corpus import planted
from tests.checks.finding import codes_of


def scaled_in_place(q, k, v, mask=None):
    q *= q.shape[-1] ** -0.5
    scores = q @ k.mT
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    return scores.softmax(-1).nan_to_num() @ v


def mask_in_place(q, k, v, mask=None):
    scores = q @ k.mT * q.shape[-1] ** -0.5
    if mask is not None:
        scores = scores.masked_fill(mask.logical_not_(), float("-inf"))
    return scores.softmax(-1).nan_to_num() @ v


@pytest.mark.parametrize(
    "fn, code", [(scaled_in_place, "input.modified"), (mask_in_place, "input.mask_modified")]
)
@pytest.mark.parametrize("dtype", [None, "float64"])
def test_what_is_written_into_a_copy_counts(fn, code, dtype):
    assert codes_of(check_attention, fn, dtype=dtype) == [code]


class Doubled(nn.Linear):
    "Changes its input."

    def forward(self, x):
        return super().forward(x.mul_(2).softmax(-1))


def test_a_layer_that_changes_a_copy_of_its_input_is_told():
    assert "input.modified" in codes_of(check_self_attention, Doubled(12, 12), 12, dtype="float64")


def test_a_layer_that_changes_a_copy_of_its_mask_is_told():
    entry = planted.REGISTRY.entries["TakesAnExtendedMask: cut off in place"]
    assert codes_of(check_multi_head, entry.make(), **entry.args, dtype="float64") == [entry.expect]


@pytest.mark.parametrize("name", ["keys from x", "queries from the memory"])
def test_which_input_is_read_is_known_in_another_type(name):
    entry = planted.REGISTRY.entries[f"Translates: {name}"]
    found = codes_of(check_cross_attention, entry.make(), **entry.args, dtype="bfloat16")
    assert found == [entry.expect]


def test_float32_is_multiplied_as_float32():
    conv, matmul = torch.backends.cudnn.conv, torch.backends.cuda.matmul
    before = conv.fp32_precision, matmul.fp32_precision
    with pytest.raises(ZeroDivisionError), full_precision():
        assert (conv.fp32_precision, matmul.fp32_precision) == ("ieee", "ieee")
        1 / 0
    assert (conv.fp32_precision, matmul.fp32_precision) == before
