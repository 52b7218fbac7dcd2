"""Why a layer raises: a width, a length or an order of axes that it needs, or inputs exchanged."""

from dataclasses import replace

import torch
import torch.nn as nn

from attention_checks.catalogue import known
from attention_checks.explaining.pipeline import Bug
from attention_checks.outcomes import Misused, attempt, code_told_by, runs
from attention_checks.subjects.calling import needed_by
from attention_checks.subjects.layer import BATCH, Layer, adapt
from attention_checks.trace.roles import what_is_read

_FIXED_LENGTHS = (  # likely ones
    *(2, 3, 4, 6, 8, 9, 10, 12, 16, 25, 32, 36, 49, 50, 64, 77, 81, 100, 128, 144, 196, 197, 256),
)


def must_fit(layer: Layer, e: Exception) -> None:
    "Raise Misused if it takes another width, or ids in the place of hidden states."
    if "'indices'" in str(e):
        raise Misused(
            "module: expected a layer over hidden states (b, n, d_model); "
            "got one that begins with an embedding of ids"
        )
    widths = [getattr(layer.module, "embed_dim", None)]
    widths += [m.in_features for m in layer.modules if isinstance(m, nn.Linear)]
    for width in dict.fromkeys(w for w in widths if isinstance(w, int) and w != layer.d_model):
        if runs(lambda: layer(torch.randn(BATCH, layer.n, width))):
            name = "d_memory" if layer.of_memory else "d_model"
            raise Misused(
                f"{name}: expected {width}, the width of the vectors that it takes; "
                f"got {layer.d_model}"
            )
    if layer.other_input is not None and not layer.of_memory:
        must_fit(layer.over_memory, e)


def why_it_raises(layer: Layer, e: Exception) -> Bug:
    "Return which sizes it silently needs."
    called = layer.module.forward if layer.modules else layer.module
    of_call = getattr(called, "__qualname__", "") in str(e) and "argument" in str(e)
    plain = layer.contract.call is None
    if code_told_by(e) == "code.devices":
        return known("code.devices")
    if plain and isinstance(e, TypeError) and of_call:
        return known("shape.call")
    if layer.other_input is not None and (bug := misrouted(layer) or _why_not_together(layer)):
        return bug
    if lengths := _other_lengths(layer):
        return known("shape.only_length", given=layer.n, n=lengths)
    needed = needed_by(layer.module)
    if plain and len(needed) > 1 and layer.other_input is None:
        return known("shape.arguments", needed=", ".join(needed))
    at_once = (AttributeError, NameError, ImportError, TypeError, NotImplementedError)
    if plain and isinstance(e, at_once):
        return known("code.error", error=type(e).__name__)
    what = "d_model" if plain else "what call= hands it, d_model"
    return known("shape.input", error=type(e).__name__, what=what)


def _other_lengths(layer: Layer) -> list[int]:
    "Return the lengths at which it runs, of likely ones at which no axes can be mixed up."
    mixed = (BATCH, layer.n_heads, layer.d_model)
    return [n for n in _FIXED_LENGTHS if n not in mixed and layer.fits(BATCH, n)]


def misrouted(layer: Layer) -> Bug | None:  # None without a memory
    "Find out whether projections read the other input, or x and the memory are exchanged."
    if layer.other_input is None or layer.of_memory:
        return None
    reads = reads_of(layer)
    well = {name for name, _, right in reads if right}  # a layer of both ways reads both
    wrong = {name: role for name, role, right in reads if not right and name not in well}
    sides = {role == "q" for role in wrong.values()}
    given = attempt(lambda: layer(layer.draw()).shape[1])
    as_memory = given == layer.n_k and layer.n_k != layer.n
    if len(sides) == 2 or not reads and as_memory:
        return known("route.exchanged")
    if not wrong:
        return None
    code = "route.reads_memory" if True in sides else "route.reads_x"
    return known(code, names=" and ".join(wrong))


def reads_of(layer: Layer) -> list[tuple[str, str, bool]]:
    "Projections that read x or the memory, with their roles, and whether rightly."
    # where lengths are equal, the numbers must not be
    x, memory = layer.draw(), layer.over_memory.draw(seed=9)
    call, roles = layer.beside(memory).output_of, layer.contract.roles
    return attempt(lambda: what_is_read(layer.module, x, memory, call, roles)) or []


def _why_not_together(layer: Layer) -> Bug | None:
    "Return whether it takes the sequence before the batch, or equal lengths of x and memory only."
    assert layer.other_input is not None
    contract = replace(layer.contract, layout=layer.contract.layout or "nbd")
    other = adapt(layer.original, layer.d_model, contract, layer.other_input.shape[-1])
    if other.fits(BATCH, layer.n):
        return known("batch.axes")
    square = layer.beside(layer.over_memory.draw(1, layer.n))
    return known("shape.only_square") if square.fits(BATCH, layer.n) else None
