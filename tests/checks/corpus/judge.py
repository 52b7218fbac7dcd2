"""Hold one entry of the corpus against its check."""
import time
import traceback
import warnings
from dataclasses import asdict, dataclass

import torch

import attention_checks as checks
from tests.checks.corpus.entries import Entry


@dataclass
class Verdict:
    "What a check said of an entry."
    passed: bool = False
    compared: bool = False  # and its numbers were compared with something
    crashed: bool = False  # the check raised something that is not CheckFailed
    by: tuple[str, ...] = ()  # the properties that failed
    codes: tuple[str, ...] = ()  # of the likely bugs
    message: str = ""
    seconds: float = 0.0
    disturbed: str = ""  # what the check left changed in the entry

    @property
    def accepted(self) -> bool:
        return self.passed and not self.disturbed

    @property
    def caught(self) -> bool:
        return not self.passed and not self.crashed

    def names(self, entry: Entry) -> bool:
        "Whether the likely bugs are the planted ones, by their codes, and no others."
        return self.caught and entry.codes == set(self.codes)

    def told(self, entry: Entry) -> dict[str, object]:
        "What the summary needs, as plain values."
        return asdict(self) | {"accepted": self.accepted, "caught": self.caught, "named": self.names(entry)}


def state_of(thing: object) -> dict[str, object]:
    "What a check may not change: mode, parameters, whether they want gradients, and hooks."
    if not isinstance(thing, torch.nn.Module):
        return {}
    tensors = {**dict(thing.named_parameters()), **dict(thing.named_buffers())}
    lazy = torch.nn.parameter.is_lazy
    return {"train or eval": [m.training for m in thing.modules()],
            "values": {n: t.detach().clone() for n, t in tensors.items() if not lazy(t)},
            "types": {n: (t.dtype, t.requires_grad) for n, t in tensors.items() if not lazy(t)},
            "gradients": {n: t.grad is None for n, t in tensors.items() if not lazy(t)}}


def changed(before: dict[str, object], after: dict[str, object]) -> str:
    "The first thing that differs, or nothing."
    for what, was in before.items():
        is_now = after[what]
        if what == "values":
            same = all(torch.equal(value, is_now[name]) for name, value in was.items())
        elif isinstance(was, dict):
            same = all(is_now[name] == value for name, value in was.items())
        else:
            same = was == is_now
        if not same:
            return what
    return ""


def judge(entry: Entry) -> Verdict:
    "Hold one entry against its check."
    verdict, thing = Verdict(), entry.make()
    before = state_of(thing)
    begun = time.process_time()  # of one core: on a busy machine the clock says little
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            report = getattr(checks, f"check_{entry.check}")(thing, **entry.args)
        verdict.passed, verdict.compared = True, report.verdict == "sound"
    except checks.NotCompared as e:
        verdict.passed, verdict.message = True, str(e)
    except checks.CheckFailed as e:
        verdict.message = str(e)
        verdict.by = tuple(failure.property for failure in e.report.failed)
        verdict.codes = tuple(e.report.codes)
    except Exception:
        verdict.crashed, verdict.message = True, traceback.format_exc()
    verdict.seconds = time.process_time() - begun
    if not entry.expect:
        verdict.disturbed = changed(before, state_of(thing))
    return verdict
