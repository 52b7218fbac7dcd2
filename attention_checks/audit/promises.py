"""What a config promises of a layer: its window, the scale of its scores, the base of its rotation."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import torch.nn as nn

_WINDOWS = ("sliding_window", "sliding_window_size", "attention_window_size", "window_size")
_LOCAL = ("sliding_attention", "local", "local_attention", "sliding_window")


def config_of(
    model: nn.Module,
) -> Any:  # None if there is none
    "Return the config of a model, that of its text if it has several."
    config = getattr(model, "config", None)
    text = getattr(config, "get_text_config", None)
    return text(decoder=True) if callable(text) else config


def number_of(
    path: str,  # of a module
    module: Any,
) -> int | None:
    "Return the number of a layer: what it says, or the first number in its path."
    said = getattr(module, "layer_idx", None)
    if isinstance(said, int):
        return said
    found = re.search(r"(?:^|\.)(\d+)(?:\.|$)", path)
    return int(found[1]) if found else None


def windows_in(model: nn.Module) -> Iterator[int]:
    "List the windows that config and modules speak of."
    for holder in (config_of(model), *model.modules()):
        for name in (*_WINDOWS, "window", "attention_chunk_size"):
            value = getattr(holder, name, None)
            if isinstance(value, int) and not isinstance(value, bool) and value > 0:
                yield value


def window_of(
    model: nn.Module,
    path: str,  # of a layer
) -> int | None:  # None: no window, or nothing is said
    "Return the window that the config promises a layer."
    config, number = config_of(model), number_of(path, model.get_submodule(path))
    if config is None:
        return None
    window = next((w for name in _WINDOWS if (w := getattr(config, name, None))), None)
    kinds = getattr(config, "layer_types", None)
    if not isinstance(window, int) or getattr(config, "use_sliding_window", True) is False:
        return None
    if not kinds or number is None or number >= len(kinds):
        return window if kinds is None else None
    return window if kinds[number] in _LOCAL else None


def rope_of(
    model: nn.Module,
    path: str,  # of a layer
) -> Mapping[str, Any]:  # empty: nothing is said
    "Return the rotary parameters that the config promises a layer."
    config, number = config_of(model), number_of(path, model.get_submodule(path))
    said = getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None) or {}
    kinds = getattr(config, "layer_types", None)
    if kinds and number is not None and number < len(kinds) and kinds[number] in said:
        said = said[kinds[number]] or {}
    if "rope_theta" not in said and isinstance(getattr(config, "rope_theta", None), (int, float)):
        said = {**said, "rope_theta": config.rope_theta}
    return said
