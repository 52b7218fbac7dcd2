"""What every attention layer must do, in training and evaluation, and in 16 bits."""

from functools import cache
from typing import Any

from attention_checks.explaining.pipeline import Bug
from attention_checks.properties import Properties, Property, Recognise, bound
from attention_checks.properties.layers.basics import CALLS, RUNS
from attention_checks.properties.layers.edges import EDGES
from attention_checks.properties.layers.masking import MASKING
from attention_checks.properties.layers.norms import NORMS
from attention_checks.properties.layers.own_weights import OWN_WEIGHTS
from attention_checks.properties.layers.packing import PACKED
from attention_checks.properties.layers.training import TRAINING
from attention_checks.spec import Contract
from attention_checks.subjects.diagnosis import examined
from attention_checks.subjects.layer import Layer, adapt


def layer_properties(module: Any, d_model: int, contract: Contract) -> tuple[Properties, Recognise]:
    "List what every self-attention layer must do, in the order of trying."
    rows = [*OWN_WEIGHTS, *NORMS, *PACKED, *CALLS, *MASKING, *TRAINING, *EDGES]
    return in_phases(adapt(module, d_model, contract), rows)


def in_phases(
    layer: Layer,  # adapted
    rows: list[Property],  # what must hold of it, in the order of trying
) -> tuple[Properties, Recognise]:
    "Tie to a layer what it promised: that it runs, and, once it is observed, all else."
    seen = cache(lambda: examined(layer))
    asked = [row for row in rows if row.applies(layer)]
    return bound(RUNS, lambda: layer) + bound(asked, seen), lambda: _named_in(seen())


def _named_in(layer: Layer) -> tuple[Bug, ...]:
    "Return the bugs that explain symptoms: steps that differ, and nothing else, explain none."
    bugs = layer.diagnosis.bugs or ()
    return bugs if any(bug.code != "layer.step" for bug in bugs) else ()
