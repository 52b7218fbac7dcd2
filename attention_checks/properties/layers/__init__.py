"""What every attention layer must do, in training and evaluation, and in 16 bits."""

from __future__ import annotations

from collections.abc import Callable

from attention_checks.pipeline import Bug
from attention_checks.properties import Properties, Relation
from attention_checks.properties.layers.masking import MASKING
from attention_checks.properties.layers.own_weights import OWN_WEIGHTS
from attention_checks.properties.layers.packing import PACKED
from attention_checks.properties.layers.running import CALLS, EDGES, RUNS
from attention_checks.properties.layers.training import TRAINING
from attention_checks.subjects.calling import must_be_whole
from attention_checks.subjects.layer import Layer, properties_of

Diagnosis = Callable[[], tuple[Bug, ...] | None]  # names the bug by the layer's numbers


def layer_properties(
    layer: Layer,  # the layer under test, and what was declared of it
) -> tuple[Properties, Diagnosis]:
    "List what every self-attention layer must do, in the order of trying."
    return promised(layer, [*RUNS, *OWN_WEIGHTS, *PACKED, *CALLS, *MASKING, *TRAINING, *EDGES])


def promised(
    layer: Layer,  # the layer under test, and what was declared of it
    relations: list[Relation],  # what must hold, in the order of trying
) -> tuple[Properties, Diagnosis]:
    "Tie to a layer what it promised; Misused if it is sharded."
    must_be_whole(layer.given)
    return properties_of(layer, relations), lambda: layer.settled.bugs
