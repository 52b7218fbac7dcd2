"""A layer must agree with attention computed again from its own queries, keys and values."""

from dataclasses import replace
from itertools import chain

import torch
from torch import Tensor

from attention_checks.catalogue import known
from attention_checks.choice_guards import names_in
from attention_checks.explaining.pipeline import Bug, after, work_of
from attention_checks.numbers.autograd import leaves_of
from attention_checks.numbers.tensors import first_difference, nearly
from attention_checks.outcomes import Broken, Misused, NotChecked, attempt
from attention_checks.properties import Property
from attention_checks.spec import PART_CHOICES
from attention_checks.subjects.diagnosis import fewest_bugs, ignores_order, trace_of
from attention_checks.subjects.layer import BATCH, Layer, no_module
from attention_checks.their_code.conventions import POSITIONS
from attention_checks.trace import Trace
from attention_checks.trace.comparing import compare_with_own_weights, named_end
from attention_checks.trace.guesses import hint_of
from attention_checks.trace.recording import as_float, full_name, must_use, unused, used_between
from attention_checks.trace.rotating import agrees_with_rotation


def _trace_of_usual(layer: Layer) -> Trace:
    "Return the trace of the usual call; raise why there is none."
    if layer.observed.trace is None:
        raise layer.observed.why or NotChecked("it was not observed")
    return layer.observed.trace


def _must_agree_with_own_weights(layer: Layer) -> str | None:
    "It agrees with attention computed from its own weights."
    trace = _trace_of_usual(layer)
    _must_use_all(layer, trace)
    _must_divide(layer, trace)
    if layer.diagnosis.why:
        raise layer.diagnosis.why
    bugs = layer.diagnosis.bugs
    if bugs == ():
        return "; ".join(filter(None, (*layer.diagnosis.remarks, trace.why_fewer_keys))) or None
    without = _without_residual(layer, trace)
    if any(_own_weights_give(layer, each) for each in without):
        return _remark_on_residual(layer, trace.out, trace.out - trace.x)
    bugs = bugs or next(filter(None, (_named_in(layer, each) for each in without)), ())
    if all(bug.code == "layer.step" for bug in bugs):  # no better one is known
        _must_use_declared(layer, trace)
    raise _mismatch(layer, trace, _but_meant_scale(layer, trace, bugs))


def _without_residual(layer: Layer, trace: Trace) -> list[Trace]:
    "List traces without x, which may be added to the output, or before a declared activation."
    contract = layer.contract
    if trace.context is not None or trace.out.shape != trace.x.shape or contract.residual:
        return []
    found = [trace._replace(out=trace.out - trace.x)]
    if contract.activation and trace.memory is None:
        added = replace(layer, contract=replace(contract, residual="x"))
        found += [t for t in [attempt(lambda: trace_of(added, trace.x))] if t]
    return found


def _named_in(layer: Layer, trace: Trace) -> tuple[Bug, ...] | None:
    "Return the one bug that explains a trace, if one does, and no other part may be what it does."
    compare = lambda: compare_with_own_weights(trace, layer.short_window, most=1)
    found = attempt(compare) or ()
    meant = trace.unrecognised and any(bug.declare for bug in found)
    return None if meant else found


def _mismatch(layer: Layer, trace: Trace, bugs: tuple[Bug, ...]) -> Broken | NotChecked:
    "Return what to raise where its own weights give other numbers."
    if layer.positions and _sees_a_window(layer, trace, bugs):
        return NotChecked("it attends to a window: declare window=…")
    shape = f"x {tuple(trace.x.shape)}, {layer.n_heads or '?'} heads"
    shown = f"{shape}: the context is not {layer.contract.gives} of its own q, k and v"
    if found := fewest_bugs(layer, bugs or None):
        return Broken(shown, _but_meant_scale(layer, trace, found))
    if why := _why_no_reference(layer, _with_parts_between(layer, trace)):
        return NotChecked(f"no reference could be built: {why}")
    return Broken(shown, known("layer.attend" if layer.contract.attend else "layer.unknown"))


def _with_parts_between(layer: Layer, trace: Trace) -> Trace:
    """Return the trace with fewer unknown parts: those that compute between the projections and the
    output. Only they explain other numbers.
    """
    modules = dict(layer.module.named_modules())
    named = {role: [n for n in names if n in modules] for role, names in trace.names.items()}
    ends = named.pop("out", []) if trace.context is not None else []
    end = modules[ends[-1]] if ends else None
    more_parts = [names_in(some)[1:] for some in (layer.contract.roles or {}).values()]
    read = chain(*named.values(), *layer.contract.asked.values(), *more_parts)
    inward = [modules[name] for name in read if name in modules]
    one = layer if trace.memory is None else layer.beside(trace.memory)
    silent = {n: m for n, m in modules.items() if n in trace.unrecognised and not [*m.parameters()]}
    find = lambda: used_between(layer.module, inward, end, trace.x, one.output_of, silent)
    used = attempt(find)
    if used is None:
        return trace
    used -= _read_by_functions(layer, trace)
    kept = [part for part in trace.unrecognised if _explains(layer, part, used, part in silent)]
    return trace._replace(unrecognised=kept)


def _explains(layer: Layer, part: str, used: set[str], silent: bool) -> bool:
    "Return whether a part of which some are used may explain numbers; silent: it learns nothing."
    learned = {name for name, p in layer.module.named_parameters() if p.requires_grad}
    own = {name for name in learned if f"{name}.".startswith(f"{part}.")}
    if own:
        return bool(own & used)
    return layer.contract.attend is None and (part in used or not silent)


def _read_by_functions(layer: Layer, trace: Trace) -> set[str]:
    "Return the names of the layer's parameters that declared functions of its heads read."
    h, (b, n, _) = layer.n_heads or 1, trace.x.shape
    q, v = (torch.zeros(b, h, n, width // h) for width in (trace.query_width, trace.context_width))
    contract = trace.contract
    with torch.enable_grad():
        bias = attempt(lambda: contract.bias_of(q, q))
        made = contract.attend and attempt(lambda: contract.attended(work_of(q, q, v)).out)
    made_of = [t for t in (bias, made) if t is not None]
    read = [p for t in made_of for p in leaves_of(t)]  # of the layer, of which this one is a copy
    copies = [as_float(t) for t in read]
    learned = {name: as_float(p) for name, p in layer.module.named_parameters()}
    return {name for name, p in learned.items() if any(p.equal(t) for t in copies)}


def _sees_a_window(layer: Layer, trace: Trace, bugs: tuple[Bug, ...]) -> bool:
    "Return whether a window that was not declared explains its numbers."
    if bugs or not layer.causal or layer.window:
        return bool(bugs) and bugs[0].code == "mask.window"
    sizes = range(2, trace.x.shape[1]) if trace.rotations else ()
    return any(agrees_with_rotation(trace, window=n) for n in sizes)


def _must_divide(layer: Layer, trace: Trace) -> None:
    "Raise Misused if the width of its queries is no multiple of the heads that were declared."
    heads, width = layer.n_heads, trace.width("q")
    alone = len(trace.projections.get("q", [])) == 1
    if heads and alone and width % heads and layer.d_model % heads:
        raise Misused(
            f"n_heads: expected a divisor of the width of its queries, {width}; got {heads}"
        )


def _but_meant_scale(layer: Layer, trace: Trace, bugs: tuple[Bug, ...]) -> tuple[Bug, ...]:
    "Return the bugs but for a scale that may be meant; raise NotChecked for it alone."
    contract = layer.contract
    gates = {after("merge"), *([after("mix")] if contract.gate else [])}
    only_gated = trace.stages.keys() <= gates
    scales = [bug for bug in bugs if bug.code.startswith("scale.")]
    if contract.attend:  # its scale is in attend=
        return tuple(bug._replace(declare="") if bug in scales else bug for bug in bugs)
    if contract.settles_scale or only_gated or not scales:
        return bugs
    if others := tuple(bug for bug in bugs if bug not in scales):
        return others
    declare = scales[0].declare or "scale=…"
    why = f"{scales[0].says}; if it is meant, declare {declare}"
    raise NotChecked(f"no reference could be built: {why}")


def _must_use_all(layer: Layer, trace: Trace) -> None:
    "Raise Broken for projections that are unused, or used twice; NotChecked if there are none."
    if not trace.projections:
        _must_not_be_linear(layer)
        raise NotChecked(
            "its projections were not recognised, neither by their names nor by what they do:"
            " declare roles={'q': …, 'k': …, 'v': …, 'out': …} (two names for a role where text and"
            " image have their own), or projects=False if it has none"
        )
    names = {role: trace.names.get(role, []) for role in ("q", "k", "v", "out")}
    qkv = [name for role in "qkv" for name in names[role]]
    for role in "qkv":
        if never := [name for name in names[role] if not trace.calls[name]]:
            raise unused(layer.module, never[0], {n: trace.calls[n] for n in qkv})
    others = [n for role, found in trace.names.items() if role != "out" for n in found]
    passes = max([1, *(trace.calls[name] for name in others)])
    if len(names["out"]) == 1 and trace.calls[names["out"][0]] > passes:
        name = names["out"][0]
        shown = f"in one call {name} is called {trace.calls[name]} times"
        raise Broken(shown, known("project.twice", name=name), explains=False)


def _must_use_declared(layer: Layer, trace: Trace) -> None:
    "Raise Broken for a declared part that learns, and is not used."
    roles = chain.from_iterable(map(names_in, (layer.contract.roles or {}).values()))
    named = filter(None, {*roles, *layer.contract.declared_parts})
    whole = {full_name(layer.module, name) for name in named}
    modules = layer.module.named_modules()
    parts = {n: m for n, m in modules if n in whole and [*m.parameters()]}
    one = layer if trace.memory is None else layer.beside(trace.memory)
    must_use(layer.module, parts, trace.x, one.output_of)


def _must_not_be_linear(layer: Layer) -> None:
    "A softmax of scores is no linear function of the hidden states; a linear layer has none."
    x, y = layer.draw(), layer.draw(seed=1)
    if nearly(layer(x + y) + layer(0 * x), layer(x) + layer(y)):
        raise Broken("f(x + y) + f(0) = f(x) + f(y)", known("values.linear"), explains=False)


def _has_one_twice_as_wide(trace: Trace) -> bool:
    "Return whether queries or values, one of them alone, are twice as wide as the context."
    if trace.context is None or "latent" in trace.projections:
        return False
    q, v = trace.width("q"), trace.width("v")
    one_wider = (q > trace.context_width) != (v > trace.context_width)
    return one_wider and 2 * trace.context_width in (q, v)


def _why_no_reference(layer: Layer, trace: Trace) -> str:
    "Return why its numbers need not be those of plain attention; empty if they must be."
    if trace.why_fewer_keys:
        return trace.why_fewer_keys
    if not all(_tells_positions(layer, name) for name in trace.unrecognised):
        return _also_has(layer, trace)
    if _has_one_twice_as_wide(trace):
        return "queries or values are twice as wide as the context: is there a gate in them?"
    known_roles = ({"q", "k", "v"}, {"q", "kv"}, {"qkv"})
    complete = any(roles <= trace.projections.keys() for roles in known_roles)
    orders = layer.contract.orders_tokens or layer.observed.order_free
    known_order = orders or trace.rotations  # what order means to it
    if complete and (known_order or not _gives_its_value(layer)):
        return ""
    if trace.unrecognised:
        return _also_has(layer, trace)
    if not {"q", "qk", "qkv"} & trace.projections.keys():
        if name := (layer.contract.roles or {}).get("q"):
            return f"what {name} gives is not recognised as queries, which roles= declares it for"
        return (
            "no projection of queries was recognised: declare roles={'q': …}, or None in its place"
        )
    declare = "scale=…, softcap=…, bias=…, rotate=… or norms=…"
    return (
        f"its numbers depend on order, or on more than q, k and v: declare {declare} if it has it"
    )


def _also_has(layer: Layer, trace: Trace) -> str:
    "Name the first parts that a reference lacks, and what may declare the first of them."
    names = [n for n in trace.unrecognised if n.rpartition(".")[0] not in trace.unrecognised]
    hint = hint_of(layer.module, names[0], layer.n_heads or 0)
    hint = hint and f"such as {hint}; or "
    choices = ", ".join(f"{name}=…" for name in (*PART_CHOICES, "rotate"))
    return (
        f"it also has {', '.join(names[:3])}: declare what it is, {hint}with {choices} or attend=…"
    )


def _tells_positions(layer: Layer, name: str) -> bool:
    "Return whether a part is a table of positions, or makes one, and learns nothing."
    modules, buffers = dict(layer.module.named_modules()), dict(layer.module.named_buffers())
    learned = any(f"{p}.".startswith(f"{name}.") for p, _ in layer.module.named_parameters())
    return name in {**modules, **buffers} and bool(POSITIONS.search(name)) and not learned


def _gives_its_value(layer: Layer) -> bool:
    "Return whether one token alone gets its own value at any position; True if untried."
    if not layer.promised(1) or not layer.fits(BATCH, 1):
        return True

    def agrees() -> bool:
        trace = trace_of(layer, layer.draw(layer.contract.batch(BATCH), 1), 1)
        if compare_with_own_weights(trace, most=0) == ():
            return True
        return any(_own_weights_give(layer, each) for each in _without_residual(layer, trace))

    return attempt(agrees) is not False


def _must_end_with_projection(layer: Layer) -> str | None:
    "Its output is what its output projection gave."
    trace, out = layer.observed.trace, None
    if trace is not None and trace.projections:
        out = trace.out if trace.context is None else trace.output_projection.gave
    if trace is None or out is None or trace.context is None and layer.diagnosis.bugs != ():
        raise NotChecked("no call of an output projection was recognised")
    if nearly(trace.out, out):
        return None
    if trace.out.shape == trace.x.shape and nearly(trace.out, out + trace.x):
        return _remark_on_residual(layer, trace.out, out)
    bug = named_end(trace, trace.out, out)
    if not bug and layer.contract.only_attention:
        bug = known("project.more")
    if bug:
        raise Broken(first_difference(trace.out, out), bug)
    raise NotChecked("what follows the output projection was compared with nothing")


def _own_weights_give(layer: Layer, trace: Trace) -> bool:
    "Return whether its own weights give the numbers of a trace."
    if compare_with_own_weights(trace, layer.short_window, 0) == ():
        return True
    return not ignores_order(layer) and agrees_with_rotation(trace, window=layer.short_window)


def _remark_on_residual(layer: Layer, got: Tensor, want: Tensor) -> str:
    "Return what is said of a residual; Broken where none is allowed."
    in_a_block = any("norm" in type(m).__name__.lower() for m in layer.modules)
    usual = layer.other_input is None or in_a_block
    if layer.contract.only_attention or not usual:
        raise Broken(first_difference(got, want), known("project.residual"))
    return "a residual is in it: x is added"


def _must_share_heads(layer: Layer) -> None:
    "It has as many heads of keys and values as was declared."
    trace = _trace_of_usual(layer)
    if not layer.n_heads:
        raise Misused(
            "n_kv_heads: expected n_heads beside it, which nothing tells here; got n_kv_heads alone"
        )
    fused = (trace.width("qkv") - trace.query_width) // 2
    width = trace.width("k") or trace.width("kv") // 2 or fused
    d_head = trace.query_width // layer.n_heads
    if width < 1 or not d_head:
        raise NotChecked("its keys were not recognised")
    if width != (layer.contract.n_kv_heads or 0) * d_head:
        heads = f"{width // d_head} of width {d_head}"
        if width % d_head:
            heads = f"{width} numbers, which are no heads of width {d_head}"
        bug = known("heads.shared", found=heads, declared=layer.contract.n_kv_heads)
        raise Broken(f"a token's keys are {width} wide", bug)


OWN_WEIGHTS = (
    Property.of(
        _must_share_heads, no_module, applies=lambda layer: bool(layer.contract.n_kv_heads)
    ),
    Property.of(_must_agree_with_own_weights, no_module, compares="its own weights"),
    Property.of(
        _must_end_with_projection,
        symptom_unless=("unexplained",),
        applies=lambda layer: bool(layer.modules),
    ),
)
