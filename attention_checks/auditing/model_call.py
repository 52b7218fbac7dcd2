"""How a model is called: with sequences of other lengths, masks of padding, positions."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn as nn
from torch import Tensor

from attention_checks.outcomes import Misused

# Sequences that a model takes, the last ones first of all: a decoder's stands before its encoder's.
SEQUENCES = tuple(
    "decoder_input_ids decoder_inputs_embeds target_ids tgt input_ids inputs_embeds ids tokens idx"
    " x hidden_states src".split()
)
SOURCES = ("input_ids", "inputs_embeds", "source_ids", "src")  # of an encoder
MASKS = {  # a sequence → the names of the mask that hides its padding
    "decoder_input_ids": ("decoder_attention_mask",),
    "input_ids": ("attention_mask", "src_key_padding_mask", "padding_mask", "mask"),
    "inputs_embeds": ("attention_mask",),
    "source_ids": ("source_mask",),
    "ids": ("mask", "attention_mask"),
    "tokens": ("mask", "attention_mask"),
    "idx": ("mask", "attention_mask"),
    "src": ("src_key_padding_mask",),
    "tgt": ("tgt_key_padding_mask",),
    "x": ("key_padding_mask", "padding_mask", "attention_mask"),
}
BLOCKED = ("src_key_padding_mask", "tgt_key_padding_mask", "key_padding_mask")  # True = padding
PER_KEY = ("mask", "source_mask")  # (b, 1, 1, n), boolean
_STANDINS = ("ima", "vid", "aud")  # how the names of their tokens begin in a config
POSITIONS = {"decoder_input_ids": ("decoder_position_ids",)}


@dataclass(frozen=True)
class ModelCall:
    "Hold the arguments of a model, and the sequence among them that is changed."

    model: nn.Module
    given: Mapping[str, Any]  # arguments by name, all of b sequences
    key: str  # the sequence
    vocabulary: int = 0  # of its tokens; 0: it holds vectors

    @property
    def sequence(self) -> Tensor:
        "Return the sequence, (b, n) or (b, n, d)."
        return self.given[self.key]

    @property
    def others(self) -> dict[str, Tensor]:
        "Return the other sequences, those of an encoder."
        named = {k: v for k, v in self.given.items() if k in SOURCES and k != self.key}
        return {k: v for k, v in named.items() if isinstance(v, Tensor) and v.ndim > 1}

    @property
    def placeholders(self) -> Tensor:
        "Mark tokens that stand for images and the like, which must stay: (b, n) or (b, n, 1)."
        if not self.vocabulary:
            return torch.zeros_like(self.sequence[..., :1], dtype=torch.bool)
        config = _settings_of(self.model)
        ids = [v for k, v in config.items() if k.endswith("_token_id") and k[:3] in _STANDINS]
        return torch.isin(self.sequence, torch.tensor([v for v in ids if v is not None] or [-1]))

    @property
    def mask_name(self) -> str:
        "Return the argument that hides padding of the sequence; empty if there is none."
        return self._taken(MASKS.get(self.key, ()))

    @property
    def positions_name(self) -> str:
        "Return the argument for the positions of the tokens; empty if there is none."
        return self._taken(POSITIONS.get(self.key, ("position_ids",)))

    def _taken(self, names: tuple[str, ...]) -> str:
        "Return the first of some arguments that the model takes."
        parameters = parameters_of_call(self.model)
        return next((name for name in names if name in parameters), "")

    def run(self, **changed: Any) -> Any:
        "Call the model; an argument that is None is left out."
        arguments = {**self.given, **changed}
        return self.model(**{k: v for k, v in arguments.items() if v is not None})

    def mask(self, real: Tensor) -> dict[str, Tensor]:
        "Return the argument that hides padding: what is not marked as real, (b, n)."
        name = self.mask_name
        if name in BLOCKED:
            return {name: ~real}
        return {name: real[:, None, None] if name in PER_KEY else real.long()}

    def drawn(
        self,
        size: tuple[int, int],  # (b, n)
        seed: int,
        avoid: Tensor | None = None,  # (b, n): tokens that must not come out
    ) -> Tensor:  # as the sequence: (b, n), or (b, n, d) large vectors
        "Draw a sequence."
        generator = torch.Generator().manual_seed(seed)
        if not self.vocabulary:
            shape = (*size, self.sequence.shape[-1])
            drawn = 3 * torch.randn(shape, generator=generator, dtype=torch.float64)
            return drawn.to(self.sequence)
        low = min(self._first_ordinary(), self.vocabulary - 2)
        drawn = torch.randint(low, self.vocabulary, size, generator=generator)
        if avoid is not None:
            step = drawn - low + (drawn == avoid.cpu()).long()
            drawn = low + step % (self.vocabulary - low)
        return drawn.to(self.sequence)

    def _first_ordinary(self) -> int:
        "Return the first token id after the special ones, which the config names."
        config = _settings_of(self.model)
        special = [v for k, v in config.items() if k.endswith("token_id") and isinstance(v, int)]
        return max([v for v in special if v < self.vocabulary // 2], default=-1) + 1

    def of(self, sequence: Tensor, **changed: Any) -> ModelCall:
        "Return the same call with another sequence."
        return replace(self, given={**self.given, self.key: sequence, **changed})


def _settings_of(model: nn.Module) -> Mapping[str, Any]:
    "Return what a model's config says; empty if it has none."
    return vars(getattr(model, "config", None) or object)


def weights_dtype(model: nn.Module) -> torch.dtype:
    "Return the floating type of a model's weights."
    floats = (p.dtype for p in model.parameters() if p.is_floating_point())
    return next(floats, torch.float32)


def parameters_of_call(model: nn.Module) -> Mapping[str, inspect.Parameter]:
    "Return the parameters of a model's forward."
    return inspect.signature(model.forward).parameters


def named(model: nn.Module, inputs: Any) -> dict[str, Any]:
    "Return the inputs, in whatever form, by the names of the model's parameters."
    if isinstance(inputs, Mapping):
        return dict(inputs)
    several = inputs if isinstance(inputs, (tuple, list)) else (inputs,)
    if not all(isinstance(each, Tensor) for each in several):
        kind = type(inputs).__name__
        raise Misused(f"inputs: expected a mapping such as {{'input_ids': ids}}; got {kind}")
    return dict(zip(parameters_of_call(model), several))


def sequence_in(given: Mapping[str, Any]) -> str:
    "Return the name of the sequence among the inputs; Misused if there is none."
    for name in SEQUENCES:
        value = given.get(name)
        if isinstance(value, Tensor) and value.ndim in (2, 3):
            return name
    for name, value in given.items():
        if isinstance(value, Tensor) and value.ndim == 2 and not value.is_floating_point():
            return name
    raise Misused(
        f"inputs: expected a sequence, ids (b, n) or vectors (b, n, d), by one of the names"
        f" {', '.join(SEQUENCES)}; got {', '.join(given) or 'nothing'}"
    )
