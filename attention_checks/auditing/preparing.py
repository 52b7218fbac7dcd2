"""Inputs become sequences that show faults: several, long enough, of a length that is no width."""

from dataclasses import replace
from typing import Any

import torch
import torch.nn as nn
from torch import Tensor

from attention_checks.auditing.borrowing import cast
from attention_checks.auditing.config import windows_in
from attention_checks.auditing.model_call import (
    ModelCall,
    named,
    parameters_of_call,
    sequence_in,
    weights_dtype,
)
from attention_checks.auditing.passes import record

B = 3  # sequences
LEAST = 24  # tokens
LONGEST_WINDOW = 512  # one that is longer is not exceeded, and that is said
_DROPPED = set("labels cache_position past_key_values use_cache return_dict position_ids".split())
_LONGEST = "max_position_embeddings n_positions max_seq_len block_size n_ctx".split()  # in a config
_PIXELS = ("pixel", "image", "video", "patch")


def prepared(
    model: nn.Module,
    inputs: Any,  # as the model takes them
    n: int | None = None,  # tokens of each sequence; default: enough to exceed the windows
) -> ModelCall:  # with sequences of its own
    "Make a call that shows faults from one that a user gave."
    given = _cast(model, _kept_inputs(named(model, inputs)))
    call = _with_vocabulary(ModelCall(model, given, sequence_in(given)))
    if any(part in name for name in given for part in _PIXELS):
        return call
    return _stretched(call, n)


def _kept_inputs(given: dict[str, Any]) -> dict[str, Any]:
    "Drop labels, caches, positions and masks of padding: the audit makes its own."
    flat = {name for name, v in given.items() if isinstance(v, Tensor) and v.ndim == 2}
    masks = {name for name in flat if name.endswith("mask")}
    return {name: v for name, v in given.items() if name not in _DROPPED | masks}


def _cast(model: nn.Module, given: dict[str, Any]) -> dict[str, Any]:
    "Cast vectors to the type of the model's weights, without gradients."
    made = {name: cast(value, weights_dtype(model)) for name, value in given.items()}
    return made | ({"use_cache": False} if "use_cache" in parameters_of_call(model) else {})


def _with_vocabulary(call: ModelCall) -> ModelCall:
    "Find how many tokens there are: as many as the embedding holds that takes the ids."
    ids = call.sequence
    if ids.is_floating_point():
        return call
    passed, sizes = record(call.model, call.run), []
    for path, m in call.model.named_modules():
        takes_ids = any(t.shape == ids.shape and bool((t == ids).all()) for t in passed.taken(path))
        if isinstance(m, nn.Embedding) and takes_ids:
            sizes.append(m.num_embeddings)
    promised = getattr(getattr(call.model, "config", None), "vocab_size", None)
    return replace(call, vocabulary=min(sizes, default=promised or int(ids.max()) + 1))


def _stretched(call: ModelCall, n: int | None) -> ModelCall:
    "Make the sequences several and long, if the model takes that."
    for length in dict.fromkeys((n or _chosen_length(call), call.sequence.shape[1])):
        made = _extended(call, length)
        try:
            made.run()
            return made
        except (RuntimeError, ValueError, IndexError, TypeError, AssertionError):
            continue
    return call


def _chosen_length(call: ModelCall) -> int:
    "Choose a length over the windows that is no width, within the positions that there are."
    windows = [w for w in windows_in(call.model) if w <= LONGEST_WINDOW]
    n = max([LEAST, call.sequence.shape[1], *(w + 9 for w in windows)])
    limits = (getattr(getattr(call.model, "config", None), name, None) for name in _LONGEST)
    most = min([size for size in limits if isinstance(size, int) and size > 3], default=n)
    taken = {size for p in call.model.parameters() for size in p.shape}
    taken |= {t.shape[1] for t in call.others.values()}
    step = 1 if n < most else -1
    n = min(n, most)
    while n in taken and 8 < n:
        n += step
    return n


def _extended(call: ModelCall, n: int) -> ModelCall:
    "Make as many sequences as are tried, each of n tokens, the first as it was given."
    sequence = call.sequence
    drawn = call.drawn((B, n), seed=1)
    shared = min(n, sequence.shape[1])
    drawn[:1, :shared] = sequence[:1, :shared]
    given = {k: _widened(call, k, v, n) for k, v in call.given.items()}
    return replace(call, given={**given, call.key: drawn})


def _widened(call: ModelCall, name: str, value: Any, n: int) -> Any:
    "Expand an argument to as many sequences, and tokens if it has one for each."
    b, given_n = call.sequence.shape[:2]
    if not isinstance(value, Tensor) or not value.ndim or value.shape[0] != b:
        return value
    rows = torch.arange(B, device=value.device) % b
    value = value[rows].clone()
    if name in call.others and not value.is_floating_point():
        value[1:] = value[1:].roll(1, 1)
    elif value.shape[1:2] == (given_n,) and name not in call.others:
        value = value[:, torch.arange(n, device=value.device).clamp(max=given_n - 1)]
    return value
