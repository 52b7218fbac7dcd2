"""What every attention layer must do, in training and evaluation, saved, compiled and in sixteen bits."""

from __future__ import annotations

from collections.abc import Callable

from attention_checks.pipeline import Bug
from attention_checks.properties import Properties, Relation
from attention_checks.properties.layers.masking import SEEING
from attention_checks.properties.layers.own_weights import OWN_WEIGHTS
from attention_checks.properties.layers.packing import PACKED
from attention_checks.properties.layers.running import CALLS, EDGES, RUNS
from attention_checks.properties.layers.training import TRAINING
from attention_checks.subjects.calling import must_be_whole
from attention_checks.subjects.layer import Layer, properties_of


def layer_properties(
    a: Layer,  # the layer under test, and what was said of it
) -> tuple[Properties, Callable[[], tuple[Bug, ...] | None]]:  # properties; what names the bug
    "List what every self-attention layer must do, in the order of trying."
    must_be_whole(a.given)
    return tried(a, [*RUNS, *OWN_WEIGHTS, *PACKED, *CALLS, *SEEING, *TRAINING, *EDGES])


def tried(
    a: Layer,  # the layer under test
    rows: list[Relation],  # what must hold of it, in the order of trying
) -> tuple[Properties, Callable[[], tuple[Bug, ...] | None]]:  # properties; what names the bug
    "Tie relations to a layer, without those that were not promised."
    return properties_of(a, rows), lambda: a.settled.verdict
