"""What a layer must do whose queries come from x, keys and values from a memory."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from attention_checks.catalogue import known
from attention_checks.numbers.tensors import first_difference, must_be_near, nearly
from attention_checks.outcomes import Broken, NotChecked
from attention_checks.properties import Properties, Property, Recognise
from attention_checks.properties.gradients import gradients_of_mixture
from attention_checks.properties.layers import in_phases
from attention_checks.properties.layers.basics import CALLS, must_be_vectors, must_not_mix
from attention_checks.properties.layers.edges import EDGES
from attention_checks.properties.layers.given_masks import must_hide_padding
from attention_checks.properties.layers.masking import LONG, measured_reach, moved_by
from attention_checks.properties.layers.norms import NORMS
from attention_checks.properties.layers.own_weights import OWN_WEIGHTS
from attention_checks.properties.layers.raising import misrouted, reads_of
from attention_checks.properties.layers.training import TRAINING
from attention_checks.properties.state import must_only_read
from attention_checks.spec import Contract
from attention_checks.subjects.copies import deep_copy
from attention_checks.subjects.layer import Layer, adapt, no_module


def _must_read_rightly(layer: Layer) -> None:
    "Queries are made from x, keys and values from the memory."
    if not reads_of(layer):
        raise NotChecked("no projection was recognised that reads one of them as it is")
    if bug := misrouted(layer):
        raise Broken("what goes into each projection was compared with both inputs", bug)


def _must_forget_memory(layer: Layer) -> None:
    "Another memory gives its own answer."
    over = layer.over_memory
    over(over.draw())
    other, fresh = over.draw(seed=1), deep_copy(over.uncalled)
    got, want = over(other), over.output_of(fresh, other)
    must_be_near(got, want, "right after another memory", known("state.kept"), last=True)


def _must_keep_queries_apart(layer: Layer) -> None:
    "A token of x moves its own output alone."
    moves = moved_by(layer, layer.n, layer.module)[0] & ~torch.eye(layer.n, dtype=torch.bool)
    if moves.any():
        i, j = moves.nonzero()[0].tolist()
        shown = f"changing token {j} of x moves output {i}"
        raise Broken(shown, known("order.queries"), symptom=True)


def _must_take_any_order(layer: Layer) -> None:
    "The order of the memory's tokens does not matter."
    over = layer.over_memory
    x, order = over.draw(), over.reordering()
    got, want = over(x[:, order]), over(x)
    if nearly(got, want):
        return
    if name := layer.positions_told_by:
        raise NotChecked(f"{name} may tell positions")
    if not measured_reach(over).all():
        raise NotChecked("some of them do not move every output")
    shown = f"tokens of the memory reordered: {first_difference(got, want)}"
    raise Broken(shown, known("order.keys"))


def _must_take_any_length(layer: Layer) -> None:
    "The memory may be shorter and longer."
    over = layer.over_memory
    for n in layer.promised(layer.n - 2, layer.n, LONG[0]):
        x = over.draw(2, n)
        must_be_vectors(over, x, over(x))
        if n > layer.n_k:
            _must_be_reached(measured_reach(replace(over, n=over.contract.nearest_length(n))))


def _must_be_reached(reach: Tensor) -> None:
    "Raise Broken unless every output is moved by every token of the memory."
    if reach.all():
        return
    n_q, n = reach.shape
    i, j = (~reach).nonzero()[0].tolist()
    shown = f"changing token {j} of the memory does not move output {i}"
    cut = int(reach.any(0).sum())
    if reach[:, :cut].all():
        last = known("mask.drops_last_key")
        raise Broken(shown, last if cut == n - 1 else known("length.cut", first=cut))
    if any(reach.equal(torch.ones_like(reach).tril(corner)) for corner in (0, n - n_q)):
        raise Broken(shown, known("mask.causal_unasked"))
    raise Broken(shown, known("mask.narrow"))


def _must_have_memory_gradient(layer: Layer) -> None:
    "Gradients reach the memory."
    memory = layer.over_memory.draw().requires_grad_()
    (grad,) = gradients_of_mixture(layer.over_memory(memory), [memory])
    if grad is None or (grad == 0).all():
        bug = known("grad.unreached", name="the memory")
        raise Broken("its gradient is zero", bug, symptom=True)


def _over_memory(holds: Callable[[Any], str | None]) -> Callable[[Layer], str | None]:
    "Try a property over the memory."
    return lambda layer: holds(layer.over_memory)


_CROSS = (
    Property.of(_must_read_rightly, no_module),
    Property.of(_must_forget_memory, no_module),
    Property.of(_must_keep_queries_apart),
    Property.of(_must_take_any_order),
    Property.of(_must_take_any_length, symptom_unless=("unexplained",)),
    Property("memories of a batch do not mix", _over_memory(must_not_mix)),
    Property(
        "what its masks hide of the memory has no influence",
        _over_memory(must_hide_padding),
        no_module,
    ),
    Property.of(_must_have_memory_gradient, differentiates=True),
    Property(
        "the memory is not modified, and need not be contiguous", _over_memory(must_only_read)
    ),
)


def cross_properties(
    module: Any,  # the layer under test
    d_model: int,  # width of x
    contract: Contract,  # what was declared of it
    d_memory: int | None = None,  # width of the memory's vectors; default d_model
) -> tuple[Properties, Recognise]:
    "List what every cross-attention layer must do, in the order of trying."
    layer = adapt(module, d_model, contract, d_memory or d_model)
    return in_phases(layer, [*_CROSS, *OWN_WEIGHTS, *NORMS, *CALLS, *TRAINING, *EDGES])
