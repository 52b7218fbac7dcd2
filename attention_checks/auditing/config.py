"""What a config promises of a layer: its window, the scale of its scores."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import torch.nn as nn

from attention_nb.tools.rotary_scaling import score_factor

_WINDOWS = ("sliding_window", "sliding_window_size", "attention_window_size", "window_size")
_LOCAL = ("sliding_attention", "local", "local_attention", "sliding_window")
_FULL = ("full_attention", "global", "attention")


def config_of(model: nn.Module) -> Any:  # None if there is none
    "Return the config of a model, that of its text if it has several."
    config = getattr(model, "config", None)
    text = getattr(config, "get_text_config", None)
    return text(decoder=True) if callable(text) else config


def number_of(path: str, module: Any) -> int | None:
    "Return the number of a layer: what it says, or the first number in its path."
    index = getattr(module, "layer_idx", None)
    if isinstance(index, int):
        return index
    found = re.search(r"(?:^|\.)(\d+)(?:\.|$)", path)
    return int(found[1]) if found else None


def kinds_in(config: Any) -> Any:  # a list of strings; None if there is none
    "Return the kinds of the layers, as a config lists them."
    return getattr(config, "layer_types", None) or getattr(config, "attention_layers", None)


def _kind(model: nn.Module, path: str, kinds: Any) -> Any:
    "Return the kind of a layer in a list of kinds; None if it has no place there."
    number = number_of(path, model.get_submodule(path))
    return kinds[number] if kinds and number is not None and number < len(kinds) else None


def windows_in(model: nn.Module) -> Iterator[int]:
    "List the windows that config and modules speak of."
    for holder in (config_of(model), *model.modules()):
        for name in (*_WINDOWS, "window", "attention_chunk_size"):
            value = getattr(holder, name, None)
            if isinstance(value, int) and not isinstance(value, bool) and value > 0:
                yield value


def window_of(model: nn.Module, path: str) -> int | None:  # None: no window, or nothing is said
    "Return the window that the config promises a layer."
    config = config_of(model)
    if config is None:
        return None
    windows = [getattr(config, name, None) for name in _WINDOWS]
    window = next(filter(None, windows), None)
    if not isinstance(window, int) or getattr(config, "use_sliding_window", True) is False:
        return None
    kinds = kinds_in(config)
    return window if kinds is None or _kind(model, path, kinds) in _LOCAL else None


def rope_of(model: nn.Module, path: str) -> Mapping[str, Any]:  # empty: nothing is said
    "Return the rotary parameters that the config promises a layer."
    config = config_of(model)
    settings = (
        getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None) or {}
    )
    kind = _kind(model, path, getattr(config, "layer_types", None))
    if kind is not None and kind in settings:
        settings = settings[kind] or {}
    theta = getattr(config, "rope_theta", None)
    if "rope_theta" not in settings and isinstance(theta, (int, float)):
        settings = {**settings, "rope_theta": theta}
    return settings


def is_local(model: nn.Module, path: str) -> bool | None:  # None: nothing is said
    "Return whether the config promises a layer a window, or all tokens."
    config = config_of(model)
    kinds = kinds_in(config)
    kind = _kind(model, path, kinds)
    speaks = any(getattr(config, name, None) for name in (*_WINDOWS, "attention_chunk_size"))
    # a window beside a list of kinds that has no local one: nothing is said of the others
    if kind is not None and (not speaks or any(k in _LOCAL for k in kinds)):
        return kind not in _FULL
    return None if config is None or speaks else False


def attention_scale(
    model: nn.Module,
    path: str,  # of a layer
    d_k: int,
) -> tuple[float, bool]:  # and: does the config say it? Else it is the usual one
    "Return the factor of a layer's scores: 1 / √d_k, unless the config says another."
    config, number = config_of(model), number_of(path, model.get_submodule(path))
    scalar = getattr(config, "query_pre_attn_scalar", None)
    if isinstance(scalar, (int, float)):
        return scalar**-0.5, True
    factor = getattr(config, "attention_multiplier", None)
    if isinstance(factor, (int, float)):
        return float(factor), True
    if getattr(config, "scale_attn_by_inverse_layer_idx", False) and number is not None:
        return d_k**-0.5 / (number + 1), True
    rope = rope_of(model, path)
    latent = getattr(config, "kv_lora_rank", None)
    if latent and rope.get("mscale_all_dim") and rope.get("factor"):
        return d_k**-0.5 * score_factor(rope), True
    return d_k**-0.5, False


def scale_said_by(module: nn.Module) -> float:
    "Return the factor that a module says of itself; 1 if it says none."
    for name in ("scaling", "scale", "softmax_scale", "inv_norm_factor"):
        value = getattr(module, name, None)
        if isinstance(value, float) and 0 < value < 1.5:
            return value
    return 1.0
