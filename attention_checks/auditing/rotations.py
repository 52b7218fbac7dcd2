"""By which angles does a layer rotate its vectors, and is that what was promised?"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from attention_checks.auditing.promises import rope_of
from attention_checks.auditing.session import Session
from attention_checks.catalogue.positions import Pair, each_once, halves, neighbours
from attention_nb.longer_texts import rotary_frequencies


def compare_base(
    s: Session,
    path: str,  # of a layer with a call
) -> None:
    "Compare a layer's angles with those that config or caller promise."
    angles, rope = _angles(s, path), dict(rope_of(s.call.model, path))
    if declared := (s.expected.bases or {}).get(path):
        rope["rope_theta"] = declared
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
        base = base_of(s, path)
        found = "others" if base is None else f"base {base:.4g}"
        turn = f"the slowest pair turns by {angles[-1]:.3g}, not {said[-1]:.3g}"
        example = f"from one token to the next {turn}"
        s.fault("promise.base", path, example, found=found, said=f"base {rope['rope_theta']:.4g}")


def base_of(
    s: Session,
    path: str,  # of a layer with a call
) -> float | None:  # None: it is not known
    "Return the base of a layer's rotation, from its slowest pair."
    angles = _angles(s, path)
    if angles is None or len(angles) < 2 or not angles[-1] > 0:
        module = s.call.model.get_submodule(path)
        return getattr(getattr(module, "positions", None), "base", None)
    return round(float(angles[-1] ** (-len(angles) / (len(angles) - 1))), 2)


def _angles(s: Session, path: str) -> Tensor | None:
    "Return by which angles a layer's vectors are rotated from one token to the next, (d / 2,)."
    found = next(_of_keys(s, path), None)
    return found if found is not None else next(_of_tables(s, path), None)


def _of_tables(s: Session, path: str) -> Iterator[Tensor]:
    "List the angles of tables of cosines and sines that a layer takes."
    taken = s.first.taken(path)
    for cos, sin in zip(taken, taken[1:]):
        if cos.shape != sin.shape or not cos.is_floating_point() or cos.shape[-2:-1] != (s.n,):
            continue
        lengths = cos.double() ** 2 + sin.double() ** 2
        if _all_near(lengths, 1e-4) and lengths.flatten()[0] > 0.1:
            turn = torch.atan2(sin.double(), cos.double()).flatten(0, -3)[0]
            yield each_once((turn[1] - turn[0]).cpu())


def _of_keys(s: Session, path: str) -> Iterator[Tensor]:
    "List the angles between a layer's keys and what a part of it gave before rotation."
    k = s.calls[path].k
    if k is None or k.shape[-2] != s.n or k.shape[-1] % 2:
        return
    b, _, n, d = k.shape
    for (name, call), (_, given) in reversed(s.first.tensors.items()):
        if call or not name.startswith(f"{path}."):
            continue
        for t in given.values():
            if t.shape[:2] == (b, n) and t.shape[2:].numel() % d == 0 and t.dtype == k.dtype:
                before = t.reshape(b, n, -1, d)[:, :, 0]
                for pairs in (halves, neighbours):
                    yield from _turns(before, k[:, 0], pairs)


def _turns(before: Tensor, after: Tensor, pairs: Callable[[Tensor], Pair]) -> Iterator[Tensor]:
    "Yield the angles from one token to the next, if vectors (b, n, d) are rotated in these pairs."
    ratio = torch.complex(*pairs(after)) / torch.complex(*pairs(before))
    for_all = torch.allclose(ratio, ratio[:1], 1e-3)
    if for_all and _all_near(ratio.abs(), 1e-3) and not torch.allclose(ratio, ratio[:, :1], 1e-3):
        turn = (ratio[0, 1] / ratio[0, 0]).angle().double()
        turning = turn.abs() > 1e-9  # the others are not rotated at all
        yield turn[: int(turning.sum())].cpu()


def _all_near(x: Tensor, tolerance: float) -> bool:
    "Return whether all numbers are the same but for rounding."
    return torch.allclose(x, x.flatten()[0], tolerance)
