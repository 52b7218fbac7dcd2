"""The norms of queries, keys and the context that a layer declares, as stages of its own."""

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
import torch.nn as nn
from torch import Tensor

from attention_checks.catalogue.choices import context_step, norming, right_steps
from attention_checks.choice_guards import names_in
from attention_checks.explaining.pipeline import StageChoices, after
from attention_checks.outcomes import Misused
from attention_checks.spec import Contract
from attention_checks.trace.recording import part_of
from attention_nb.multi_head_attention import merge_heads, split_heads

_Over = Callable[[nn.Module, Contract], Callable[[Tensor], Tensor]]  # all heads, or each


def norms_of(
    layer: nn.Module,  # any layer
    contract: Contract,  # what was declared of it
    sizes: list[int],  # tokens of each part, where several projections make parts of the tokens
) -> dict[str, nn.Module]:
    "Return the declared norms, by role."
    declared = contract.norms or {}
    return {role: _norm_of(layer, role, name, sizes) for role, name in declared.items()}


def _norm_of(layer: nn.Module, role: str, name: Any, sizes: list[int]) -> nn.Module:
    "Return a norm of a layer: a module, or without weights, or to length 1 times a parameter."
    if len(names_in(name)) > 1:
        return _InTurn([_norm_of(layer, role, each, []) for each in names_in(name)], sizes)
    if name == "rms":
        return _ToMeanSquare1()
    part = None if name == "l2" else part_of(layer, name, f"norms[{role!r}]")
    return part if isinstance(part, nn.Module) else _ToLength1(part)


class _InTurn(nn.Module):
    "Apply several norms, each to its part of the tokens."

    def __init__(self, norms: list[nn.Module], sizes: list[int]):
        super().__init__()
        self.norms, self.sizes = nn.ModuleList(norms), sizes
        if len(norms) != len(sizes):
            raise Misused("norms: expected as many as make parts of the tokens in roles=")

    def forward(self, t: Tensor) -> Tensor:  # (…, n, d)
        return self.joined([*self.norms], t)

    def joined(self, each: list[Callable[[Tensor], Tensor]], t: Tensor) -> Tensor:
        "Apply functions, each to its part of the tokens."
        return torch.cat([f(part) for f, part in zip(each, t.split(self.sizes, -2))], -2)


class _ToMeanSquare1(nn.Module):
    "Normalise to a root mean square of 1."

    def forward(self, t: Tensor) -> Tensor:
        return nn.functional.rms_norm(t, t.shape[-1:])


class _ToLength1(nn.Module):
    "Normalise to length 1, and multiply by a parameter, (d,), or (h, 1, d) of each head."

    def __init__(self, times: Tensor | None, normalises: bool = True):
        super().__init__()
        self.times = None if times is None else times.detach()  # no parameter of this module
        self.normalises = normalises

    def forward(self, t: Tensor) -> Tensor:
        unit = nn.functional.normalize(t, dim=-1) if self.normalises else t
        if self.times is None:
            return unit
        per_head = self.times.numel() > t.shape[-1]
        return unit * self.times.reshape(*([-1, 1] if per_head else []), t.shape[-1])


def stages_of_norms(norms: Mapping[str, nn.Module], contract: Contract) -> StageChoices:
    "Yield the stages of norms: over all heads before key heads are repeated, or over each head."
    own = {role: norm for role, norm in norms.items() if role in ("q", "k")}
    for stage, over in (("before split", _over_all_heads), (after("split"), over_each_head)):
        each = [
            {r: _in_turn(over, n, contract) for r, n in some.items()}
            for some in (own, factors_of(own))
        ]
        if own:
            yield stage, [norming(each[0], stage, each[1])]


def norm_of_context(norms: Mapping[str, nn.Module], contract: Contract) -> StageChoices:
    "Yield the norm of the context: over merged heads, or over each head."
    if "out" in norms:
        stage, normed = after("mix"), partial(contract.placement.through, norms["out"])
        steps = [context_step(normed, merged) for merged in (True, False)]
        yield stage, right_steps(stage, "norms['out']", steps)


def factors_of(norms: Mapping[str, nn.Module]) -> dict[str, nn.Module]:
    "Return what may be left of norms to length 1, if that is not done: to multiply."
    return {
        role: _ToLength1(norm.times, normalises=False)
        for role, norm in norms.items()
        if isinstance(norm, _ToLength1) and norm.times is not None
    }


def _in_turn(over: _Over, norm: nn.Module, contract: Contract) -> Callable[[Tensor], Tensor]:
    "Apply a norm over something; of several norms, each over its part of the tokens."
    if isinstance(norm, _InTurn):
        return partial(norm.joined, [over(each, contract) for each in norm.norms])
    return over(norm, contract)


def _weights_of(norm: nn.Module) -> tuple[int, ...]:
    "Return the shape of a norm's weights; none without weights."
    return next((tuple(p.shape) for p in norm.parameters()), ())


def _over_all_heads(norm: nn.Module, contract: Contract) -> Callable[[Tensor], Tensor]:
    "Apply a norm that has weights for all heads, (h · d,), (h, d) or (h, 1, d); else no norm."
    shape, once = _weights_of(norm), partial(contract.placement.through, norm)

    def normed(t: Tensor) -> Tensor:  # (b, h, n, d), not yet repeated
        h, d = t.shape[-3], t.shape[-1]
        if h == 1 or math.prod(shape) <= d:
            return t
        if len(shape) == 1:
            return split_heads(once(merge_heads(t)), h)
        return once(t) if len(shape) > 2 else once(t.transpose(-3, -2)).transpose(-3, -2)

    return normed


def over_each_head(norm: nn.Module, contract: Contract) -> Callable[[Tensor], Tensor]:
    "Apply a norm to each head, unless it has weights for several."
    size = math.prod(_weights_of(norm))
    return lambda t: t if size > t.shape[-1] else contract.placement.through(norm, t)
