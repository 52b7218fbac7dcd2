"""A mask given to an attention function decides: what it forbids has no influence, whatever its shape, and an empty row is zero."""

from __future__ import annotations

import torch
from torch import Tensor

from attention_checks.catalogue import known
from attention_checks.examine import Broken, NotChecked, attempt, first_line
from attention_checks.numbers import first_difference, nearly, sizes_of
from attention_checks.pipeline import Bug
from attention_checks.properties import Relation, gradients_of
from attention_checks.properties.functions.lengths import any_length, name_empty
from attention_checks.search import alike
from attention_checks.subjects.facts import MANY, Subject, draw_many
from attention_checks.subjects.function import OF_KEYS
from attention_nb.masks import causal_mask


def _masked(a: Subject) -> None:
    if a.hiding:
        raise a.hiding
    _long_masked(a)


def _long_masked(a: Subject) -> None:
    "A mask of many keys; the last query sees none of the first blocks."
    q, k, v = draw_many(a)
    mask = a.style.some_mask(q.shape[-2], MANY).clone()
    if a.style.form != OF_KEYS:
        mask[-1, :64] = False
    got, want = attempt(lambda: a(q, k, v, mask).detach()), a.oracle(q, k, v, mask)
    if got is None or not a.long or got.shape != want.shape or nearly(got, want, 1e-3):
        return  # None: its mask has a length of its own
    shown = f"{sizes_of(q=q, k=k, v=v, mask=mask)}: {first_difference(got, want, 1e-3)}"
    if got[..., -1, :].isnan().any() and not got[..., :-1, :].isnan().any():
        raise Broken(shown, known("blocks.empty_nan"))
    for size in range(1, MANY):
        if alike(a.oracle(q, k, v, mask[:, torch.arange(MANY) % size]), got, 1e-3):
            raise Broken(shown, known("blocks.mask_columns", size=size))
    raise Broken(shown, known("blocks.mask"))


def _mask_shapes(a: Subject) -> None:
    s, rng, sound = a.usual, torch.Generator().manual_seed(6), a.mask_sound
    for shape in (
        (s.n_q, s.n_k),
        (s.n_q, s.n_q),
        (s.b, 1, s.n_q, s.n_k),
        (s.b, s.h, s.n_q, s.n_k),
        (s.b, 1, 1, s.n_k),
    ):
        q, k, v = s._replace(n_k=shape[-1]).draw()
        mask = torch.rand(shape, generator=rng) < 0.6
        mask[..., 0] = True
        m = a.style
        if (
            m.flat
            and len(shape) == 4
            or m.form
            and (s.b, s.h) == shape[:2]
            or m.form == OF_KEYS
            and shape[-2] > 1
        ):
            continue
        try:
            got = a(q, k, v, mask)
        except Exception as e:
            shown = f"a mask of shape {shape} for scores {(s.b, s.h, s.n_q, s.n_k)}: it raised {first_line(e, 100)}"
            raise Broken(
                shown, _unless_hiding(a, "mask.broadcast"), symptom=not a.mask_sound
            ) from None
        want = a.oracle(q, k, v, mask)
        sound = nearly(got, want) if shape == (s.n_q, s.n_k) else sound
        if sound and not nearly(got, want):
            raise Broken(
                f"a mask of shape {shape}: {first_difference(got, want)}",
                _misread(a, (q, k, v), mask, got),
            )


def _misread(a: Subject, qkv: tuple[Tensor, Tensor, Tensor], mask: Tensor, got: Tensor) -> Bug:
    "Name how a mask was taken by mistake."
    misread = (
        {"mask.transposed_if_square": mask.mT}
        if mask.ndim == 2
        else {
            "mask.first_sentence": mask[:1],
            "mask.last_sentence": mask[-1:],
            "mask.first_head": mask[:, :1],
        }
    )
    return known(
        next((code for code, m in misread.items() if nearly(got, a.oracle(*qkv, m))), "mask.axis")
    )


def _unless_hiding(a: Subject, code: str) -> tuple[Bug, ...]:
    "What is wrong with all that it hides; or else this."
    return a.hiding.bugs if a.hiding else (known(code),)


def _padding(a: Subject) -> None:
    if a.causal or a.reach:
        raise NotChecked(
            "a causal function sees no padding on the right"
            if a.causal
            else "it sees its own text only"
        )
    q, k, v = a.usual.draw()
    n = k.shape[-2]
    want = a(q, k, v)
    k, v = (torch.cat([t, 50 * torch.ones_like(t[..., :2, :])], -2) for t in (k, v))
    got = a(q, k, v, (torch.arange(n + 2) < n).expand(q.shape[-2], n + 2))
    if not nearly(got, want):
        raise Broken(
            f"two padded keys, masked: {first_difference(got, want)}",
            _unless_hiding(a, "mask.padding"),
        )


def _empty_rows(a: Subject) -> None:
    if a.style.form == OF_KEYS:
        raise NotChecked("its mask is the same for all queries")
    q, k, v = (t.requires_grad_() for t in a.usual.draw())
    mask = causal_mask(q.shape[-2], k.shape[-2]).clone()
    mask[1] = False
    out = a(q, k, v, mask)
    row = out[..., 1, :].detach()
    if a.contract.empty == "nan" and row.isnan().all():
        return
    if not row.isfinite().all() or (row != 0).any():
        expected = ", expected 0" * bool(row.isfinite().all())
        shown = (
            f"query 1 may attend to nothing: its context is {row.flatten()[0].item():.4g}{expected}"
        )
        bugs = _empty_bugs(a, row)
        sure = (
            bugs[0].code in ("mask.empty_mean", "mask.empty_nan", "mask.nan")
            or a.sound
            and a.mask_sound
        )
        raise Broken(shown, bugs, symptom=not sure)
    grads = gradients_of(out.square().sum(), (q, k, v)) if out.requires_grad else ()
    for name, g in zip("qkv", grads):
        if g is not None and not g.isfinite().all():
            raise Broken(
                f"query 1 may attend to nothing: the gradient of {name} is NaN",
                known("mask.empty_gradient"),
            )


def _empty_bugs(a: Subject, row: Tensor) -> tuple[Bug, ...]:
    "Say what a query that may attend to nothing gets in the place of zeros, and whether another bug tells why."
    hiding = a.hiding.bugs if a.hiding else ()
    q, k, v = a.usual.draw()
    empty = name_empty(row, v)
    if empty.code == "mask.empty_nan":
        return hiding if "mask.nan" in [bug.code for bug in hiding] else (empty,)
    mean = empty.code == "mask.empty_mean"
    added = a.mask_sound and nearly(
        row, a(q, k, v)[..., 1, :].detach(), 0.01
    )  # one number for all scores
    if (mean or added) and known("mask.finite") in hiding or added and not mean:
        return (known("mask.finite"),)
    return (empty,)


def _unclear(a: Subject) -> str:
    "Why its masks tell nothing more; empty if they do."
    found = a.mask_mismatch
    if a.no_mask or not found:
        return a.no_mask
    codes = [bug.code for bug in found.bugs]
    if "mask.numbers" in codes:
        return "it takes no boolean mask"
    return found.bug if codes[0].startswith("bias") else ""


HIDING = (
    Relation("the mask decides: what is forbidden has no influence", _masked, lambda a: a.no_mask),
    Relation(
        "a mask may differ between sentences, and broadcast",
        _mask_shapes,
        _unclear,
        asked=any_length,
    ),
    Relation(
        "padding changes nothing", _padding, _unclear, ("sound", "mask_sound"), asked=any_length
    ),
    Relation(
        "fully masked rows are zero, with finite gradients",
        _empty_rows,
        _unclear,
        asked=lambda a: a.contract.empty != "any",
    ),
)
