"""What a layer does on purpose: norms, a soft cap, sinks, a gate, a bias, rotations."""

import math
from collections.abc import Callable, Mapping
from functools import partial
from itertools import islice, product
from typing import Any

import torch
import torch.nn as nn
from torch import Tensor

from attention_checks.catalogue import choices, known
from attention_checks.catalogue.layer_rotations import backwards, declared_rotation
from attention_checks.catalogue.masks import BIAS
from attention_checks.catalogue.scales_and_routes import changing, routing
from attention_checks.choice_guards import names_in, scales_by_parts
from attention_checks.explaining.pipeline import RightStep, StageChoices, Step, Work, after
from attention_checks.outcomes import NotChecked, attempt
from attention_checks.spec import Contract
from attention_checks.their_code.conventions import heads_of
from attention_checks.trace import own_norms
from attention_checks.trace.recording import OneCall, as_float, as_rows, part_of, recorded_call
from attention_nb.multi_head_attention import merge_heads, split_heads

_Own = dict[str, RightStep]  # stage → its step, and its bugs
_MIXED, _ROTATED, _PROJECTED = after("mix"), after("rotate"), after("project")


def own_stages(
    layer: nn.Module, x: Tensor, call: OneCall, contract: Contract = Contract()
) -> list[_Own]:  # stage → its step, and its bugs; several where what was declared leaves a choice
    "Make the stages that a layer adds on purpose, as declared."
    ways: dict[str, list[RightStep]] = {}
    for stage, more in _declared_stages(layer, x, call, contract):
        ways[stage] = choices.chained(stage, ways[stage], more) if stage in ways else more
    return [dict(zip(ways, chosen)) for chosen in islice(product(*ways.values()), 128)]


def _declared_stages(
    layer: nn.Module, x: Tensor, call: OneCall, contract: Contract
) -> StageChoices:
    "Yield what each choice declares, in the order in which a layer goes through it."
    called = lambda: call(layer, x)
    norms = own_norms.norms_of(layer, contract, _tokens_of_streams(layer, contract, called))
    yield from own_norms.stages_of_norms(norms, contract)
    yield from _changed_scores(layer, contract)
    yield from _by_functions(contract)
    yield from _mixed_heads(layer, contract)
    if scales_by_parts(contract.scale):
        yield _ROTATED, [choices.scaling(lambda work: contract.learned_scale(work.q, work.k))]
    yield from _fewer_keys(layer, contract, called)
    yield from _learned_keys(layer, norms, contract)
    scaled = [*_scaled_values(contract)]  # before a norm it would have no influence
    yield from () if "out" in norms else scaled
    yield from _residual(layer, contract, x, called)
    yield from _activation(layer, contract)
    yield from own_norms.norm_of_context(norms, contract)
    yield from scaled if "out" in norms else ()
    yield from _gated(layer, x, contract)


def _changed_scores(layer: nn.Module, contract: Contract) -> StageChoices:
    "Yield what changes scores on their way to the weights: a soft cap, sinks, a bias."
    if contract.softcap:
        yield "cap", [choices.capping(contract.softcap)]
    if isinstance(contract.sinks, str):
        sinks = as_float(part_of(layer, contract.sinks, "sinks"))
        yield "weigh", [choices.sinking(sinks.flatten())]
    if contract.bias is not None:
        yield after("route"), _own_bias(contract)


def _by_functions(contract: Contract) -> StageChoices:
    "Yield the stages that are declared as functions of the heads."
    if contract.rotate:
        step, bugs = declared_rotation(contract.rotated)
        turned_back = routing(changing("qk", partial(backwards, contract.rotated)))
        back = known("rotation.backwards")._replace(steps={"rotate": turned_back})
        yield "rotate", [(step, [*bugs, back])]
    if contract.attend:
        yield "mix", [(contract.attended, [])]


def _tokens_of_streams(
    layer: nn.Module, contract: Contract, call: Callable[[], Tensor]
) -> list[int]:
    "Return of how many tokens each of several declared projections is; [] if none is declared so."
    for names in map(names_in, (contract.roles or {}).values()):
        if len(names) > 1:
            parts = {name: part_of(layer, name, "roles") for name in names}
            made = recorded_call(parts, call)[2]
            return [made[name][0].shape[1] for name in names]
    return []


def _matrix_of(part: Any) -> tuple[Any, Any]:
    "Return the weight and the bias of a linear layer; a bare matrix has no bias."
    return as_float(getattr(part, "weight", part)), as_float(getattr(part, "bias", None))


def _mixed_heads(layer: nn.Module, contract: Contract) -> StageChoices:
    "Yield how heads are mixed: by a layer of width h, or a matrix, which may be transposed."
    for field, name in (contract.mixing or {}).items():
        stage, what = after("score" if field == "scores" else "weigh"), f"mixing[{field!r}]"
        part = part_of(layer, name, what)
        matrix, bias = _matrix_of(part)
        matrix = matrix.squeeze()
        matrices = [matrix] if isinstance(part, nn.Module) else [matrix, matrix.T]
        yield stage, choices.right_steps(stage, what, choices.mixing_heads(field, matrices, bias))


def _fewer_keys(layer: nn.Module, contract: Contract, call: Callable[[], Tensor]) -> StageChoices:
    "Yield what makes fewer keys and values along the sequence."
    if not (names := contract.shortened):
        return
    by = {r: part_of(layer, name, "shortened") for r, name in names.items()}
    made = {roles: _shorter(part, contract, call) for roles, part in by.items()}
    each = {role: f for roles, f in made.items() for role in roles}
    steps = [choices.shortened_by(each)]
    yield _ROTATED, choices.right_steps(_ROTATED, f"shortened={dict(names)}", steps)


def _learned_keys(
    layer: nn.Module, norms: Mapping[str, nn.Module], contract: Contract
) -> StageChoices:
    "Yield learned keys and values, which stand before those of tokens: normed, or as they are."
    if not (names := contract.prefix):
        return
    parts = {role: as_float(part_of(layer, name, "prefix")) for role, name in names.items()}
    keys, values = parts["kv"] if "kv" in parts else (parts["k"], parts["v"])
    some = [each["k"] for each in (norms, own_norms.factors_of(norms)) if "k" in each]
    over: list[Callable[[Tensor], Tensor]] = [nn.Identity()]
    over += [own_norms.over_each_head(norm, contract) for norm in some]
    steps = [choices.prefixing(keys, values, norm) for norm in over]
    yield _ROTATED, choices.right_steps(_ROTATED, f"prefix={dict(names)}", steps)


def _shorter(
    part: Any, contract: Contract, call: Callable[[], Tensor]
) -> Callable[[Tensor], Tensor]:
    "Return what makes fewer vectors: a matrix along the sequence, or a module over merged heads."
    matrix, bias = _matrix_of(part)
    if isinstance(matrix, Tensor) and matrix.ndim == 2:
        return partial(choices.joined_by, matrix, bias)
    given, made = (_lengths(kept.get("", [])) for kept in recorded_call({"": part}, call)[1:])

    def shorter(t: Tensor) -> Tensor:
        if (n := t.shape[-2]) not in given and n in made:  # it shortens what is projected
            return t
        if given and n not in given:
            why = f"what shortens {n} vectors is given {given[0]}: declare lengths=…"
            raise NotChecked(f"no reference could be built: {why} that need no padding")
        return split_heads(contract.placement.through(part, merge_heads(t)), t.shape[-3])

    return shorter


def _lengths(kept: list[Any]) -> list[int]:
    "Return of how many vectors tensors (b, …, d) are, or (b, d, height, width)."
    shapes = [t.shape for t in kept if isinstance(t, Tensor)]
    grids = [shape[2:] for shape in shapes if len(shape) == 4]
    return [*map(math.prod, [*(shape[1:-1] for shape in shapes), *grids])]


def _begins_with(layer: nn.Module, contract: Contract, activation: str) -> bool:
    "Return whether an activation is a part of the output projection, which is taken as it is."
    out = (contract.roles or {}).get("out")
    part = part_of(layer, out, "roles['out']") if isinstance(out, str) else None
    parts = dict(part.named_modules()) if isinstance(part, nn.Module) else {}
    within = {type(m).__name__.lower() for m in parts.values()} | {f"{out}.{n}" for n in parts}
    return activation in within or activation.replace("_", "") in within


def _scaled_values(contract: Contract) -> StageChoices:
    "Yield the factor of the values, which is that of the context."
    if contract.value_scale:
        step = choices.context_step(lambda out: contract.value_factor() * out)
        yield _MIXED, choices.right_steps(_MIXED, "value_scale=", [step])


def _residual(
    layer: nn.Module, contract: Contract, x: Tensor, call: Callable[[], Tensor]
) -> StageChoices:
    "Yield what is added to the merged context."
    if name := contract.residual:
        itself = name == "x" and not hasattr(layer, "x")
        added = [x] if itself else _added_by(part_of(layer, name, "residual"), x, call)
        steps = [choices.context_step(partial(torch.add, t)) for t in added]
        yield _PROJECTED, choices.right_steps(_PROJECTED, f"residual={name!r}", steps)


def _activation(layer: nn.Module, contract: Contract) -> StageChoices:
    "Yield the activation of the context; it comes after a residual."
    if not (name := contract.activation) or _begins_with(layer, contract, name):
        return
    given = getattr(nn.functional, name, None) or part_of(layer, name, "activation")
    f = partial(contract.placement.through, given)
    last: Step = lambda work: work._replace(out=f(work.out))
    stage, step = (_PROJECTED, last) if contract.residual else (_MIXED, choices.context_step(f))
    yield stage, choices.right_steps(stage, f"activation={name!r}", [step])


def _added_by(part: Any, x: Tensor, call: Callable[[], Tensor]) -> list[Tensor]:
    "Return what a part may add to the context: x times a matrix, or what a module gives."
    if isinstance(part, Tensor):
        matrix = as_float(part)
        return [x @ w for w in (matrix, matrix.mT) if len(w) == x.shape[-1]]
    rows = as_rows(_given_once(part, call), x)
    return [] if rows is None else [rows]


def _own_bias(contract: Contract) -> list[RightStep]:
    "Return the steps of the bias of the scores."
    ends = (False, True) if contract.softcap else (False,)
    steps = [partial(_with_bias, contract, *how) for how in product(ends, (False, True))]
    turned = known("bias.transposed")._replace(
        steps={after("route"): partial(_with_turned, contract)}
    )
    return [(step, [*BIAS, turned]) for step in steps]


def _with_bias(contract: Contract, last: bool, scaled: bool, work: Work) -> Work:
    "Add what a declared function gives: after a soft cap, or scaled as the scores are, if wrongly."
    factor = work.scale / contract.scale_of(work.q.shape[-1]) if scaled else 1.0
    made = factor * contract.bias_of(work.q, work.k)
    return work._replace(bias=work.bias + made, bias_last=last)


def _with_turned(contract: Contract, work: Work) -> Work:
    "Add what a declared function gives if distances are counted the other way."
    made = contract.bias_of(work.q.flip(-2), work.k.flip(-2))
    return work._replace(bias=work.bias + made.flip(-1, -2))


def _gated(layer: nn.Module, x: Tensor, contract: Contract) -> StageChoices:
    "Yield the gate of the context, or of each head."
    if contract.gate is not None:
        gate = partial(contract.gates, x)
        made = attempt(gate)
        heads = contract.n_heads or heads_of(layer)
        stage = _MIXED if made is not None and made.shape[-1] == heads else after("merge")
        yield stage, [choices.gating(gate, partial(contract.gates, x, active=False), stage)]


def _given_once(module: nn.Module, call: Callable[[], Tensor]) -> Any:
    "Return the output of a module that was called once; else None."
    given = recorded_call({"": module}, call)[2].get("", ())
    return given[0] if len(given) == 1 else None
