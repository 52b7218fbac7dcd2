"""Projections may be given the tokens in another order: a layer rolls them, or cuts windows."""

from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

import torch
import torch.nn as nn
from torch import Tensor

from attention_checks.explaining.pipeline import Step, Work
from attention_checks.trace.recording import as_float, as_rows, recorded_call

_MOST_TOKENS = 256  # one call is made for each
_Kept = dict[str, list[Any]]  # name → inputs or outputs of a module, one per call


class TokenOrder(NamedTuple):
    "How a layer orders its tokens."

    places: Tensor  # where each token stands in what projections are given, (n,)
    window: int  # tokens of each sequence that they are given

    def in_windows(self, step: Step) -> Step:
        "Take a step in each window by itself."

        def windowed(work: Work) -> Work:
            names = [name for name in ("q", "k", "v", "out") if getattr(work, name).ndim > 3]
            cut: dict[str, Any] = {name: self._cut(getattr(work, name)) for name in names}
            made = step(work._replace(**cut))
            joined: dict[str, Any] = {name: self._joined(getattr(made, name)) for name in names}
            return made._replace(**joined)

        return windowed

    def _cut(self, t: Tensor) -> Tensor:
        "Cut vectors, (…, n, d), into windows, (windows, …, tokens of each, d)."
        return t[..., self.places.argsort(), :].unflatten(-2, (-1, self.window)).movedim(-3, 0)

    def _joined(self, t: Tensor) -> Tensor:
        "Join the windows again."
        return t.movedim(0, -3).flatten(-3, -2)[..., self.places, :]


def order_of_tokens(
    modules: Mapping[str, nn.Module],  # by name
    ins: Mapping[str, list[Any]],  # what went into some of them
    x: Tensor,  # what the layer was given, (b, n, d)
    call: Callable[[Tensor], Tensor],  # of the layer
) -> TokenOrder | None:  # None: each token is in its place, in one sequence
    "Find out in which order projections are given the tokens, by changing one after the other."
    name = next(iter(ins), "")
    given = _in_rows(ins[name][0], x) if name and len(ins[name]) == 1 else None
    plain = given is None or given.shape == x.shape and given.equal(as_float(x))
    if given is None or plain or x.shape[1] > _MOST_TOKENS:
        return None
    places = []
    for j in range(x.shape[1]):
        now = _given_to(name, modules[name], call, _turned(x, j))
        moved = [] if now is None else (now != given).any(-1)[0].nonzero().flatten().tolist()
        if len(moved) != 1:
            return None
        places += moved
    usual = list(range(len(places)))
    window = len(usual) if as_rows(ins[name][0], x) is not None else ins[name][0].shape[-2]
    if sorted(places) != usual or places == usual and window == len(usual):
        return None
    return TokenOrder(torch.tensor(places), window)


def _turned(x: Tensor, j: int) -> Tensor:
    "Return the same input with one token of the first sequence negated."
    other = x.clone()
    other[0, j] = -other[0, j]
    return other


def _given_to(
    name: str, module: nn.Module, call: Callable[[Tensor], Tensor], x: Tensor
) -> Tensor | None:
    "Return what a module is given in a call, as one vector for each token."
    ins = recorded_call({name: module}, lambda: call(x))[1]
    return _in_rows(ins[name][0], x) if len(ins.get(name, [])) == 1 else None


def _in_rows(t: Any, x: Tensor) -> Tensor | None:
    "Read something as one vector for each token, also where each window is a sequence."
    rows = as_rows(t, x)
    windows = isinstance(t, Tensor) and t.ndim > 2 and t[..., 0].numel() == x[..., 0].numel()
    return t.reshape(*x.shape[:-1], -1) if rows is None and windows else rows


def in_token_order(
    kept: _Kept,  # name → inputs or outputs
    order: TokenOrder,
    x: Tensor,  # the input of the layer, (b, n, d)
    apart: Collection[str],  # names of those that are given each token in its place
) -> _Kept:  # the same, each as (b, n, width), token by token
    "Put what was recorded into the order of the tokens."

    def in_order(t: Any) -> Any:
        rows = _in_rows(t, x)
        return t if rows is None else rows[:, order.places]

    moved = {name: [in_order(t) for t in kept[name]] for name in kept if name not in apart}
    return {**kept, **moved}
