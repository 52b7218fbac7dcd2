"""What each layer does, beside what config and caller promise of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from attention_checks.auditing.promises import (
    attention_scale,
    config_of,
    is_local,
    rope_of,
    scale_said_by,
    window_of,
)
from attention_checks.auditing.report import Layer
from attention_checks.auditing.session import Session
from attention_checks.auditing.tracing import compare
from attention_nb.longer_texts import rotary_frequencies
from attention_nb.tools.watching import watch


def watched(s: Session) -> None:
    "Watch one pass: what attention is computed in which module."
    kept = torch.ones(s.call.sequence.shape[:2], dtype=torch.bool)
    with torch.no_grad(), watch(s.call.model, keep="copies") as seen:
        changes = compare(s.call.model, s.call.run, s.first, s.axes(kept), s.tolerance)
    again = {c.path for c in s.compared(s.call, s.axes(kept))} if changes else set()
    for change in changes:
        code = "state.kept" if change.path in again else "state.chance"
        s.fault(code, change.path, f"the same inputs again: off by {change.size:.2g}")
    for call in seen.calls:
        s.calls.setdefault(call.layer, call)
    for unseen in seen.unseen:
        s.note(f"what {unseen.layer or 'the model'} computes", unseen.why)


def promised(s: Session) -> None:
    "Compare what each layer does with what is promised of it."
    before = len(s.faults)
    for path, call in s.calls.items():
        _window(s, path)
        _sinks(s, path, call)
        _groups(s, path, call)
        _base(s, path)
    _scales(s)
    if len(s.faults) == before and s.calls:
        s.passed.append("windows, scales, bases, sinks and key heads are as promised")


def described(s: Session) -> tuple[Layer, ...]:
    "List the layers in which tokens see each other."
    paths = dict.fromkeys((*s.calls, *s.reaches))
    return tuple(Layer(path, _does(s, path), _said(s, path)) for path in paths)


def _does(s: Session, path: str) -> dict[str, Any]:
    "Return what a layer does, as far as it was seen."
    reach, call = s.reaches.get(path), s.calls.get(path)
    does: dict[str, Any] = {"mask": reach.kind, "window": reach.back} if reach else {}
    if call is not None:
        does = does or {"mask": call.mask, "window": call.window}
        does["scale"] = scale_of(s, path)
        does["base"] = _found_base(s, path) if _plain(rope_of(s.call.model, path)) else None
        does["sinks"] = call.sinks is not None
        does["kv_heads"] = call.kv_heads
        does["bytes_per_token"] = _bytes(s, call)
    return does


def _plain(rope: Mapping[str, Any]) -> bool:
    "Return whether a rotation has no scaling for longer sequences."
    return rope.get("rope_type", rope.get("type", "default")) == "default"


def _bytes(s: Session, call: Any) -> int | None:
    "Return what a cache of keys and values takes for a token, in the model's own type."
    if call.d_k is None:
        return None
    return int(call.kv_heads * (call.d_k + call.d_v) * s.itemsize)


def _said(s: Session, path: str) -> dict[str, Any]:
    "Return what is promised of a layer, as far as config or caller say it."
    call, config = s.calls.get(path), config_of(s.call.model)
    if call is None or call.d_k is None:
        return {}
    said = {
        "window": _window_said(s, path),
        "scale": _scale_said(s, path)[0],
        "base": rope_of(s.call.model, path).get("rope_theta"),
        "kv_heads": getattr(config, "num_key_value_heads", None),
    }
    return {name: value for name, value in said.items() if value is not None}


def _window_said(s: Session, path: str) -> int | None:
    "Return the window that is promised; the caller's word counts more than the config's."
    declared: Mapping[str, int | None] = s.expected.windows or {}
    return declared[path] if path in declared else window_of(s.call.model, path)


def _window(s: Session, path: str) -> None:
    "Compare how far tokens see with the window that is promised."
    reach, said = s.reaches.get(path), _window_said(s, path)
    if reach is None or reach.ahead:
        return
    if said is not None and said >= s.n - 6:
        s.note(f"the window of {path}", f"it is {said}, and {s.n} tokens were tried: give n")
    elif said is not None and reach.back is None:
        s.fault("window.ignored", path, f"a token sees all {s.n} tokens; promised are {said}")
    elif said is not None and reach.back != said:
        facts = {"name": "the window", "size": said, "seen": reach.back}
        s.fault("window.size", path, f"token 5 is seen by {reach.back} tokens", **facts)
    elif said is None and reach.back is not None and is_local(s.call.model, path) is False:
        s.fault("mask.window", path, f"token 5 is seen by {reach.back} tokens", seen=reach.back)


def _sinks(s: Session, path: str, call: Any) -> None:
    "Ask whether a layer that has sinks uses them: other sinks must give another output."
    module = s.call.model.get_submodule(path)
    owned = {name: p for name, p in module.named_parameters() if "sink" in name}
    if not owned or call.sinks is not None:
        return
    for p in owned.values():
        p.add_(1)
    kept = torch.ones(s.call.sequence.shape[:2], dtype=torch.bool)
    changes = s.compared(s.call, s.axes(kept))
    for p in owned.values():
        p.sub_(1)
    if not any(change.path.startswith(path) for change in changes):
        s.fault("sink.missing", path, f"other numbers in {' and '.join(owned)} change nothing")


def _alike(s: Session, one: str, other: str) -> bool:
    "Return whether two layers are of one class."
    modules = s.call.model.get_submodule(one), s.call.model.get_submodule(other)
    return type(modules[0]) is type(modules[1])


def _groups(s: Session, path: str, call: Any) -> None:
    "Ask whether neighbouring query heads share a key head, where key heads are repeated."
    if call.k is None:
        return
    kin = [c for p, c in s.calls.items() if c.k is not None and _alike(s, p, path)]
    if (different := _tiled(call.k)) and not all(_tiled(c.k) for c in kin):
        s.fault("groups.remainder", path, f"query heads 0 and {different} read the same keys")


def _tiled(k: Tensor) -> int:
    "Return how many different heads there are if they are repeated as 0 1 0 1, else 0."
    heads = k.shape[1]
    alike = [min(j for j in range(i + 1) if torch.equal(k[:, i], k[:, j])) for i in range(heads)]
    different = len(set(alike))
    tiled = 1 < different < heads and alike == [i % different for i in range(heads)]
    return different if tiled else 0


def scale_of(
    s: Session,
    path: str,  # of a layer with a call
) -> float | None:  # None: not one number
    "Return what q · k is multiplied by; what the layer says of itself where it scaled q before."
    scale = s.calls[path].scale
    if isinstance(scale, Tensor):
        scale = scale.flatten()[0].item() if bool((scale == scale.flatten()[0]).all()) else None
    if scale is not None and all(
        _near_one(c.scale) for p, c in s.calls.items() if _alike(s, p, path)
    ):
        return scale_said_by(s.call.model.get_submodule(path), s.calls[path].d_k)
    return scale


def _near_one(scale: Any) -> bool:
    "Return whether a scale is 1: perhaps the layer scaled its queries before."
    return isinstance(scale, float) and abs(scale - 1) < 1e-6


def _scale_said(s: Session, path: str) -> tuple[float | None, bool]:
    "Return the scale that is promised, and whether a config says it, or it is only usual."
    declared = (s.expected.scales or {}).get(path)
    if declared is not None:
        return declared, True
    return attention_scale(s.call.model, path, s.calls[path].d_k)


def _scales(s: Session) -> None:
    "Compare scales with what is promised, and those of layers of one class with each other."
    found = {path: scale_of(s, path) for path, call in s.calls.items() if call.d_k is not None}
    for path, scale in found.items():
        said, firm = _scale_said(s, path)
        if scale is None or said is None or _near(scale, said):
            continue
        kin = Counter(round(v, 9) for p, v in found.items() if v and _alike(s, p, path))
        odd = len(kin) > 1 and any(_near(v, said) for v in kin)
        code = _scale_code(s, path, scale)
        if firm or odd or code == "scale.d_model_root":
            example = f"scores are multiplied by {scale:.4g}; promised is {said:.4g}"
            facts = {"found": f"{scale:.4g}", "said": f"{said:.4g}", "scale": f"{said:.4g}"}
            s.fault(code, path, example, **facts)


def _near(a: float, b: float) -> bool:
    "Return whether two numbers are the same but for rounding."
    return abs(a - b) <= 1e-4 * max(abs(a), abs(b))


def _scale_code(s: Session, path: str, scale: float) -> str:
    "Return the code of a wrong scale."
    call = s.calls[path]
    width = getattr(config_of(s.call.model), "hidden_size", None) or call.heads * call.d_k
    known = {
        "scale.missing": 1.0,
        "scale.by_width": 1 / call.d_k,
        "scale.d_model_root": width**-0.5,
        "scale.multiplied": call.d_k**0.5,
        "scale.value_width": call.d_v**-0.5,
        "scale.heads_root": call.heads**-0.5,
        "scale.halved": call.d_k**-0.5 / 2,
    }
    usual = {call.d_k**-0.5}
    return next(
        (c for c, v in known.items() if _near(v, scale) and v not in usual), "promise.scale"
    )


def _angles(s: Session, path: str) -> Tensor | None:
    "Return by which angles a layer's vectors are rotated from one token to the next, (d / 2,)."
    if (turned := _turned(s, path)) is not None:
        return turned
    taken = s.first.taken(path)
    for cos, sin in zip(taken, taken[1:]):
        if cos.shape != sin.shape or not cos.is_floating_point() or cos.shape[-2:-1] != (s.n,):
            continue
        lengths = cos.double() ** 2 + sin.double() ** 2
        if torch.allclose(lengths, lengths.flatten()[0], 1e-4) and lengths.flatten()[0] > 0.1:
            turn = torch.atan2(sin.double(), cos.double()).flatten(0, -3)[0]
            return _pairs((turn[1] - turn[0]).cpu())
    return None


def _turned(s: Session, path: str) -> Tensor | None:
    "The same by a layer's keys, before and after: some part of it gives them before rotation."
    k = s.calls[path].k
    if k is None or k.shape[-2] != s.n or k.shape[-1] % 2:
        return None
    b, _, n, d = k.shape
    for (name, call), (_, given) in reversed(s.first.tensors.items()):
        for t in given.values() if name.startswith(f"{path}.") and call == 0 else ():
            if t.shape[:2] != (b, n) or t.shape[2:].numel() % d or t.dtype != k.dtype:
                continue
            for pairs in (_halves, _neighbours):
                ratio = pairs(k[:, 0]) / pairs(t.reshape(b, n, -1, d)[:, :, 0])
                if torch.allclose(ratio, ratio[:1], 1e-3) and _turns(ratio):
                    turn = (ratio[0, 1] / ratio[0, 0]).angle()
                    turning = turn.double().abs() > 1e-9  # the others are not rotated at all
                    return turn.double()[: int(turning.sum())].cpu()
    return None


def _halves(x: Tensor) -> Tensor:
    "Make complex numbers of pairs that are halves."
    return torch.complex(*x.chunk(2, -1))


def _neighbours(x: Tensor) -> Tensor:
    "Make complex numbers of pairs that are neighbours."
    return torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous())


def _turns(ratio: Tensor) -> bool:
    "Return whether numbers have one length, and not all one angle."
    lengths = ratio.abs()
    one = torch.allclose(lengths, lengths.flatten()[0], 1e-3)
    return one and not torch.allclose(ratio, ratio[:, :1], 1e-3)


def _pairs(turn: Tensor) -> Tensor:
    "Return each pair's angle once: tables hold them as a b a b, as a a b b, or as a b."
    half = len(turn) // 2
    if len(turn) % 2 == 0 and torch.allclose(turn[:half], turn[half:]):
        return turn[:half]
    if len(turn) % 2 == 0 and torch.allclose(turn[::2], turn[1::2]):
        return turn[::2]
    return turn


def _found_base(s: Session, path: str) -> float | None:
    "Return the base of a layer's rotation, from its slowest pair."
    module = s.call.model.get_submodule(path)
    angles, own = _angles(s, path), getattr(getattr(module, "positions", None), "base", None)
    if angles is None or len(angles) < 2 or not angles[-1] > 0:
        return own
    return round(float(angles[-1] ** (-len(angles) / (len(angles) - 1))), 2)


def _base(s: Session, path: str) -> None:
    "Compare a layer's angles with those that the config promises."
    angles, rope = _angles(s, path), dict(rope_of(s.call.model, path))
    declared = (s.expected.bases or {}).get(path)
    if declared is not None:
        rope = {**rope, "rope_theta": declared}
    if angles is None or "rope_theta" not in rope or len(angles) < 2:
        return
    width = s.calls[path].d_k
    if rope.get("rope_type") != "proportional":  # that one counts pairs that are not rotated
        width = 2 * len(angles)
        rope.pop("partial_rotary_factor", None)
    try:
        said = rotary_frequencies(width, None, rope, s.n).double()[: len(angles)]
    except (TypeError, ValueError, KeyError):
        s.note(f"the rotation of {path}", f"its scaling is not known: {rope.get('rope_type')}")
        return
    if not torch.allclose(angles, said, 1e-3, 1e-6):
        found = _found_base(s, path)
        other = "others" if found is None else f"base {found:.4g}"
        facts = {"found": other, "said": f"base {rope['rope_theta']:.4g}"}
        example = f"from one token to the next the slowest pair turns by {angles[-1]:.3g}"
        s.fault("promise.base", path, f"{example}, not {said[-1]:.3g}", **facts)
