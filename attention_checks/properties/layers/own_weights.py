"""A layer must agree with attention computed again from its own queries, keys and values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from attention_checks.catalogue import known
from attention_checks.catalogue.grouped_heads import AFTER_SCORE, AFTER_SPLIT
from attention_checks.conventions import settings_of
from attention_checks.examine import Broken, Misused, NotChecked, attempt, first_line
from attention_checks.numbers import first_difference, nearly
from attention_checks.pipeline import Bug, Work
from attention_checks.properties import Relation
from attention_checks.subjects.layer import SENTENCES, Layer, draw, no_module
from attention_checks.trace import Trace
from attention_checks.trace.comparing import compare_with_own_weights, name_other_scale
from attention_checks.trace.probing import name_by_probes


def _reference(make: Callable[[], Any]) -> Any:
    "What it is compared with; if that cannot be made, it is not the fault of the layer."
    try:
        return make()
    except (Broken, NotChecked, Misused):
        raise
    except Exception as e:
        raise NotChecked(f"no reference could be built: {first_line(e, 60)}") from None


def _own_weights(a: Layer) -> str | None:
    if isinstance(a.module, torch.jit.ScriptModule):
        raise NotChecked("no reference could be built: PyTorch has no hooks for a ScriptModule")
    t = _reference(lambda: a.trace)
    _all_used(a, t)
    width = t.width("q")
    if a.n_heads and len(t.rows.get("q", [])) == 1 and width % a.n_heads and a.d_model % a.n_heads:
        raise Misused(
            f"n_heads: expected a divisor of the width of its queries, {width}; got {a.n_heads}"
        )
    if (
        found := _reference(lambda: a.verdict if AFTER_SCORE in t.own or not a.cap else None)
    ) == ():
        return _after_projection(a, t)
    if t.context is None and _without_x(a, t):
        return _with_x(a, t.out, t.out - t.x)
    if (
        t.own
        and a.contract.scale is None
        and any(bug.code.startswith("scale.") for bug in found or ())
        and not _sharpened(a, t, found or ())
    ):
        found = None  # where rows are normed or scores capped, any scale may be meant
    if a.cap and not found:
        raise NotChecked(f"its scores are not plain ({a.cap})")
    if found and found[0].code == "window.by_accident" and a.positions:
        raise NotChecked("it attends to a window")
    heads = f"x {tuple(t.x.shape)}, {a.n_heads or '?'} heads"
    where = f"{heads}: the context is not softmax(q kᵀ / √d_head) v of its own q, k and v"
    if found:
        raise Broken(where, found)
    if why := _more_than_projections(a, t):
        if bugs := attempt(lambda: name_by_probes(t, a.module, a.first, a.n_heads, a.causal)):
            raise Broken(f"{heads}: tried with values and keys of our own", bugs)
        raise NotChecked(f"no reference could be built: {why}")
    raise Broken(where, name_other_scale(t, a.n_heads, a.causal, a.reach) or known("layer.unknown"))


def _sharpened(a: Layer, t: Trace, found: tuple[Bug, ...]) -> bool:
    "Whether normed rows that are longer than 1 are multiplied by more than 1: nobody means scores beyond d_head."
    large = any(bug.code in ("scale.multiplied", "scale.multiplied_by_width") for bug in found)
    if not large or AFTER_SPLIT not in t.own or AFTER_SCORE in t.own:
        return False
    rows = torch.randn(
        1,
        a.n_heads or 1,
        8,
        t.inner // (a.n_heads or 1),
        generator=torch.Generator().manual_seed(3),
    )
    normed = t.own[AFTER_SPLIT][0](Work(q=rows, k=rows))
    return float(normed.q.norm(dim=-1).mean() * normed.k.norm(dim=-1).mean()) > 2


def _all_used(a: Layer, t: Trace) -> None:
    "Raise Broken for projections that are not used, or used twice, NotChecked if there are NONE."
    for role in "qkv" if t.rows else "":
        if never := [n for n in t.names.get(role, []) if not t.calls[n]]:
            twice = [n for other in "qkv" for n in t.names.get(other, []) if t.calls[n] > 1]
            bare = never[0] in dict(a.module.named_parameters())
            shown = f"in one call {never[0]} is never {'used' if bare else 'called'}"
            shown += f", and {twice[0]} is called {t.calls[twice[0]]} times" if twice else ""
            facts = {
                "detached": ", or what it gives is detached" * bare,
                "instead": f": {twice[0]} is used in its place" if twice else "",
            }
            raise Broken(shown, known("project.unused", name=never[0], **facts))
    if not t.rows:
        _must_not_be_linear(a)
        raise NotChecked(
            "its projections were not recognised, neither by their names nor by what they do"
        )
    if twice := [n for n in t.names.get("out", []) if t.calls[n] > 1 and len(t.names["out"]) == 1]:
        raise Broken(
            f"in one call {twice[0]} is called {t.calls[twice[0]]} times",
            known("project.twice", name=twice[0]),
        )


def _must_not_be_linear(a: Layer) -> None:
    "A softmax of scores is no linear function of the words, so a layer that is one has NONE."
    x, y = draw(a), draw(a, seed=1)
    if nearly(a(x + y) + a(0 * x), a(x) + a(y)):
        raise Broken("f(x + y) + f(0) = f(x) + f(y)", known("values.linear"))


def _more_than_projections(a: Layer, t: Trace) -> str:
    "Why its numbers need not be those of plain attention; empty if they must be."
    if t.unrecognised:
        return f"it also has {', '.join(t.unrecognised[:3])}"
    if (
        t.context is not None
        and (t.width("q") > t.inner) != (t.width("v") > t.inner)
        and 2 * t.inner in (t.width("q"), t.width("v"))
    ):
        return "queries or values are twice as wide as the context: is there a gate in them?"
    if not t.even:
        return f"{t.names['qkv'][0]} holds queries, keys and values in a way not known here"
    told = any(roles <= t.rows.keys() for roles in ({"q", "k", "v"}, {"q", "kv"}, {"qkv"}))
    return (
        ""
        if told and a.positions is not True and a.order_free
        else "its numbers depend on order, or on more than q, k and v"
    )


def _after_projection(a: Layer, t: Trace) -> str | None:
    "Nothing should come on top of the output projection, unless the layer is more than attention; a constant never."
    if t.unrecognised or t.projected is None or nearly(t.out, t.projected):
        return None
    if t.out.shape != t.projected.shape:
        if a.alone:
            raise Broken("another shape", known("project.more"))
        return None
    if t.out.shape == t.x.shape and nearly(t.out, t.projected + t.x):
        return _with_x(a, t.out, t.projected)
    other = a.traced(draw(a, SENTENCES, a.words, seed=2))
    same = (
        t.bias is None
        and other.projected is not None
        and nearly(other.out - other.projected, t.out - t.projected, 1e-5)
    )
    if a.alone or same:
        raise Broken(
            first_difference(t.out, t.projected),
            known("project.constant" if same else "project.more"),
        )
    return None


def _without_x(a: Layer, t: Trace) -> bool:
    "Whether its own weights give its numbers once x is taken off."
    return (
        t.out.shape == t.x.shape
        and compare_with_own_weights(t._replace(out=t.out - t.x), a.n_heads, a.causal, a.reach, 0)
        == ()
    )


def _with_x(a: Layer, got: Tensor, want: Tensor) -> str:
    "What is said of x that comes on top; Broken where it is not promised. A layer of one sequence may be a block, with a residual."
    name = next((name for name, _ in settings_of(a.module, "residual")), "")
    bug = known("project.residual")
    if a.alone or a.beside is not None and not name:
        raise Broken(
            first_difference(got, want),
            bug if a.alone else bug._replace(declare=f'skip=["{bug.code}"]'),
        )
    return f"a residual is in it{f' ({name})' * bool(name)}: x comes on top"


def _shares(a: Layer) -> None:
    t = _reference(lambda: a.trace)
    if not a.n_heads:
        raise Misused(
            "n_kv_heads: expected n_heads beside it, which nothing tells here; got n_kv_heads alone"
        )
    width = t.width("k") or t.width("kv") // 2 or (t.width("qkv") - t.inner) // 2
    d_head = (t.width("q") or t.inner) // a.n_heads
    if width < 1 or not d_head:
        raise NotChecked("its keys were not recognised")
    if width != a.said_kv_heads * d_head:
        found = (
            f"{width // d_head} of width {d_head}"
            if width % d_head == 0
            else f"{width} numbers, which are no heads of width {d_head}"
        )
        raise Broken(
            f"a word's keys are {width} wide",
            known("heads.shared", found=found, said=a.said_kv_heads),
        )


OWN_WEIGHTS = (
    Relation(
        "it has as many heads of keys and values as was said",
        _shares,
        no_module,
        asked=lambda a: bool(a.said_kv_heads),
    ),
    Relation(
        "it agrees with attention computed from its own weights",
        _own_weights,
        no_module,
        compares="its own weights",
    ),
)
