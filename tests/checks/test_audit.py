"""audit: faults planted in a layer are named with it, right models are accepted, and all comes back as it was."""
import json
import logging

import audited
import pytest
import torch
import torch.nn as nn
from attention_checks.audit import Expected, audit
from audited import IDS, PLANTED

logging.getLogger("transformers").setLevel(logging.ERROR)


def inputs_of(model: nn.Module) -> dict[str, torch.Tensor]:
    "Inputs as the model takes them."
    if hasattr(model, "source"):
        return {"source_ids": IDS[:, :6], "target_ids": IDS}
    return {"ids" if hasattr(model, "stack") else "input_ids": IDS}


def made(make) -> nn.Module:
    torch.manual_seed(3)
    return make().eval()


@pytest.mark.parametrize("row", PLANTED, ids=lambda row: row.name)
def test_planted(row):
    "A fault that is planted in one layer is named, with this layer, and no other layer is blamed."
    model = made(row.make)
    row.plant(model)
    report = audit(model, inputs_of(model), **row.arguments)
    assert row.code in report.codes, report
    assert (row.code, row.layer) in [(fault.code, fault.layer) for fault in report.faults], report
