"""What mypy must see in a user's code: test_package.py::test_types hands it over.

Nobody runs it.
"""

import torch
from attention_nb import (
    AlibiPositions,
    EncoderDecoder,
    FeedForward,
    LanguageModel,
    LatentAttention,
    LearnedPositions,
    MultiHeadAttention,
    RelativePositions,
    RotaryEmbedding,
    SelfAttention,
    TransformerBlock,
    TransformerStack,
    TokenEmbedding,
    flash_attention,
    gpu_attention,
)
from torch import Tensor
from typing_extensions import assert_type

x, ids = torch.ones(2, 3, 4), torch.ones(2, 3, dtype=torch.long)


def layers(one: SelfAttention, many: MultiHeadAttention, latent: LatentAttention) -> None:
    assert_type(one(x), tuple[Tensor, Tensor])
    assert_type(many(x, causal=True), tuple[Tensor, Tensor | None])
    assert_type(latent(x), tuple[Tensor, Tensor | None])
    many(x, masks=x)  # type: ignore[call-arg]


def positions(
    learned: LearnedPositions,
    rotary: RotaryEmbedding,
    alibi: AlibiPositions,
    relative: RelativePositions,
) -> None:
    assert_type(learned(x), Tensor)
    assert_type(rotary(x, positions=ids), Tensor)
    assert_type(alibi(x), Tensor)
    assert_type(relative(x), Tensor)


def models(
    forward: FeedForward,
    block: TransformerBlock,
    stack: TransformerStack,
    embed: TokenEmbedding,
    model: LanguageModel,
    both: EncoderDecoder,
) -> None:
    assert_type(forward(x), Tensor)
    assert_type(block(x), Tensor)
    assert_type(stack(x), Tensor)
    assert_type(embed(ids), Tensor)
    assert_type(model(ids), Tensor)
    assert_type(both(ids, ids), Tensor)


assert_type(flash_attention(x, x, x, causal=True), Tensor)
assert_type(flash_attention(x, x, x, return_lse=True), tuple[Tensor, Tensor])
assert_type(gpu_attention(x, x, x), Tensor)
assert_type(gpu_attention(x, x, x, return_lse=True), tuple[Tensor, Tensor])
