"""What does a layer multiply its scores by, and is that what was promised?"""

from collections import Counter
from typing import Any

import torch
from torch import Tensor

from attention_checks.auditing.config import attention_scale, config_of, scale_said_by
from attention_checks.auditing.session import Session
from attention_checks.catalogue import known
from attention_checks.explaining.pipeline import work_of
from attention_checks.numbers.tolerance import FLOAT32, SAME_CALL

_NAMED = (  # wrong scales of whole models that have a name, in the order of trying
    "scale.missing",
    "scale.by_width",
    "scale.d_model_root",
    "scale.multiplied",
    "scale.value_width",
    "scale.heads_root",
    "scale.halved",
)


def compare_scales(session: Session) -> None:
    "Compare scales with what is promised, and those of layers of one class with each other."
    scored = [path for path, call in session.calls.items() if call.d_k is not None]
    found = {path: scale_of(session, path) for path in scored}
    for path, scale in found.items():
        promised, firm = promised_scale(session, path)
        if scale is None or promised is None or _near(scale, promised):
            continue
        alike = [found.get(p) for p in session.same_class(path)]
        kin = Counter(round(v, 9) for v in alike if v)
        odd = len(kin) > 1 and any(_near(v, promised) for v in kin)
        code = _code(session, path, scale)
        if firm or odd or code == "scale.d_model_root":
            example = f"scores are multiplied by {scale:.4g}; promised is {promised:.4g}"
            right = f"{promised:.4g}"
            facts = {"found": f"{scale:.4g}", "promised": right, "scale": right}
            session.fault(code, path, example, **facts)


def scale_of(session: Session, path: str) -> float | None:  # None: not one number
    "Return what q · k is multiplied by; what the layer says of itself where it scaled q before."
    scale = session.calls[path].scale
    if isinstance(scale, Tensor):
        same = bool((scale == scale.flatten()[0]).all())
        scale = scale.flatten()[0].item() if same else None
    if scale is not None and all(_is_one(session.calls[p].scale) for p in session.same_class(path)):
        return scale_said_by(session.call.model.get_submodule(path))
    return scale


def promised_scale(session: Session, path: str) -> tuple[float | None, bool]:
    "Return the scale that is promised; and whether caller or config say it, or it is only usual."
    declared = (session.expected.scales or {}).get(path)
    if declared is not None:
        return declared, True
    return attention_scale(session.call.model, path, session.calls[path].d_k)


def _is_one(scale: Any) -> bool:
    "Return whether a scale is 1: perhaps the layer scaled its queries before."
    return isinstance(scale, float) and abs(scale - 1) < SAME_CALL


def _near(a: float, b: float) -> bool:
    "Return whether two numbers are the same but for rounding."
    return abs(a - b) <= FLOAT32 * max(abs(a), abs(b))


def _code(session: Session, path: str, scale: float) -> str:
    "Return the code of a wrong scale."
    call = session.calls[path]
    q, v = (torch.empty(1, call.heads, 0, d) for d in (call.d_k, call.d_v))
    work = work_of(q, q, v, d_model=getattr(config_of(session.call.model), "hidden_size", None))
    for code in _NAMED:
        factor = known(code).factor
        wrong = factor(work) if factor else work.scale
        if wrong != work.scale and _near(float(wrong), scale):
            return code
    return "promise.scale"
