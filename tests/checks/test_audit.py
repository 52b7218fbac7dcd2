"""audit: faults planted in a layer are named with it, right models are accepted,
and all comes back as it was.
"""

import json
import logging

import pytest
import torch
import torch.nn as nn
from attention_checks import Expected, Misused, audit
from attention_checks.command import audit_command as command
from attention_checks.auditing import session as sessions

import attention_nb as nb
from conftest import by_day
from tests.checks import audited
from tests.checks.audited import IDS, MISSED, PLANTED
from tests.late import Late

decoders = Late("tests.third_party.decoders")
logging.getLogger("transformers").setLevel(logging.ERROR)


def inputs_of(model: nn.Module) -> dict[str, torch.Tensor]:
    "Inputs as the model takes them."
    if hasattr(model, "source"):
        return {"source_ids": IDS[:, :6], "target_ids": IDS}
    return {"ids" if hasattr(model, "stack") else "input_ids": IDS}


def made(make) -> nn.Module:
    torch.manual_seed(3)
    return make().eval()


@pytest.mark.parametrize("row", by_day(PLANTED, 5), ids=lambda row: row.name)
def test_planted(row):
    "A fault that is planted in one layer is named, with this layer, and no other layer is blamed."
    model = made(row.make)
    row.plant(model)
    report = audit(model, inputs_of(model), **row.arguments)
    assert row.code in report.codes, report
    assert (row.code, row.layer) in [(fault.code, fault.layer) for fault in report.faults], report


@pytest.mark.parametrize("row", MISSED, ids=lambda row: row.name)
def test_what_is_missed(row):
    "If it fails: the audit has learned to find this fault; move its row to `PLANTED`."
    model = made(row.make)
    row.plant(model)
    report = audit(model, inputs_of(model), **row.arguments)
    assert report.ok, report


RIGHT = [
    audited.llama,
    audited.mistral,
    audited.gemma,
    audited.gpt_oss,
    audited.deepseek,
    audited.gpt2,
    audited.book,
    audited.translator,
]


def state_of(model: nn.Module) -> dict[str, torch.Tensor]:
    "The parameters and buffers themselves."
    return dict([*model.named_parameters(), *model.named_buffers()])


@pytest.mark.parametrize("make", RIGHT, ids=lambda make: make.__name__)
def test_right_models_are_accepted(make):
    """No false alarm; what is not tried is said. Weights, buffers, modes and random numbers are
    those of before, also where the audit fails."""
    model = made(make)
    next(model.children()).train()
    before = {name: (t, t.clone()) for name, t in state_of(model).items()}
    modes, chance = [m.training for m in model.modules()], torch.get_rng_state()
    inputs = inputs_of(model)
    report = audit(model, inputs)
    assert report.ok and report.passed and len(report.layers) > 1, report
    assert json.loads(report.to_json())["ok"] is True
    with pytest.raises(Misused):
        audit(model, {name: 99 + ids for name, ids in inputs.items()})
    for name, now in state_of(model).items():
        assert now is before[name][0]
        torch.testing.assert_close(now, before[name][1], rtol=0, atol=0)
    assert modes == [m.training for m in model.modules()]
    torch.testing.assert_close(torch.get_rng_state(), chance, rtol=0, atol=0)


@pytest.mark.parametrize(
    "wrong, says",
    [
        ({"skip": "mask.leaks"}, "skip: expected a list of codes"),
        ({"skip": ["mask.leak"]}, "skip: expected codes of the catalogue"),
        ({"n": -3}, "n: expected"),
    ],
)
def test_what_an_audit_cannot_take_is_refused(wrong, says):
    model = made(audited.book)
    with pytest.raises((TypeError, ValueError), match=says):
        audit(model, inputs_of(model), **wrong)


def test_a_cache_of_another_kind():
    "How a model is called with it is said by the caller."

    def cached(model, ids, caches):
        caches = caches or [
            nb.RollingCache(len(ids), 2, 64, 6, dtype=torch.float64) for _ in range(2)
        ]
        model(ids, caches=caches)
        return caches

    report = audit(made(audited.book), {"ids": IDS}, cached=cached)
    assert report.ok and any("cache" in line for line in report.passed), report


def test_what_may_be_seen_can_be_declared():
    """An encoder is refused as a decoder, and accepted as what it is;
    so is a prefix whose tokens see each other.
    """
    encoder = nb.TransformerStack([audited.block() for _ in range(2)], nn.LayerNorm(24)).eval()
    x = torch.randn(1, 9, 24)
    assert audit(encoder, {"x": x}).codes == ["mask.leaks"]
    assert audit(encoder, {"x": x}, Expected(causal=False)).ok
    model = made(audited.llama)
    audited.attending(audited.L1, audited.with_prefix)(model)
    assert "mask.leaks" in audit(model, inputs_of(model)).codes
    assert "mask.leaks" not in audit(model, inputs_of(model), Expected(prefix=4)).codes
    assert audit(
        made(audited.gpt2), inputs_of(made(audited.gpt2)), Expected(scales={audited.G1: 0.5})
    ).codes == ["promise.scale"]


def test_causality_takes_eight_passes(monkeypatch):
    "The future and the batch are tried in eight passes at most."
    model, passes = made(audited.book), []
    monkeypatch.setattr(sessions.Session, "recorded", counting(sessions.Session.recorded, passes))
    monkeypatch.setattr(sessions.Session, "compared", counting(sessions.Session.compared, passes))
    for part in ("try_padding", "try_packing", "try_cache", "watch_layers", "try_promises"):
        monkeypatch.setitem(audit.__globals__, part, lambda s, **_: None)
    assert audit(model, {"ids": IDS}).ok
    assert 0 < len(passes) <= 8


def counting(f, passes):
    return lambda *args, **kwargs: passes.append(1) or f(*args, **kwargs)


@pytest.mark.parametrize("kind", by_day(["bart", "bert", "bloom", "falcon", "gpt_neo", "qwen3"]))
def test_decoders_of_transformers(kind):
    "A sample of those that tests/third_party/decoders.py audits: no false alarm."
    report = decoders.audited(kind)
    assert report.ok, report


MADE = """
from tests.checks import audited
def sound():
    return audited.book(), audited.IDS
def planted():
    row = next(row for row in audited.PLANTED if row.name == "a mean over all tokens")
    model = row.make()
    row.plant(model)
    return model, {"ids": audited.IDS}
def nothing():
    return 3
"""


@pytest.mark.parametrize(
    "name, status, said",
    [
        ("sound", 0, "sound"),
        ("planted", 1, "[mask.leaks]"),
        ("nothing", 2, "expected it to return a model"),
    ],
)
def test_the_command(name, status, said, tmp_path, monkeypatch, capsys):
    "It prints the report, and its exit status tells whether there is a fault."
    (tmp_path / "made_models.py").write_text(MADE, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert command.main(["audit", f"made_models:{name}"]) == status
    assert said in "".join(capsys.readouterr())
