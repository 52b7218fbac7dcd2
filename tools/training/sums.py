"""Train the small model in the first figure of chapter 7: `python -m tools.training.sums`.

It says the last digit of a sum of two digits. `attention_nb/trained/sums.safetensors` gets its
weights, if all hundred sums are right with weights of 8 bits.
"""

import sys
from typing import Any

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor

from attention_nb.multi_head_attention import MultiHeadAttention
from attention_nb.positions import LearnedPositions
from attention_nb.tools.quantised import Checkpoints, quantise_checkpoints, save_checkpoints
from attention_nb.transformer import (
    FeedForward,
    LanguageModel,
    TokenEmbedding,
    TransformerBlock,
    TransformerStack,
)
from attention_nb.translation import TRAINED

CONFIG = dict(n_blocks=2, vocabulary=12, d_model=8, n_heads=2, d_ff=32, n_max=4)
STEPS = 400


def new_model(
    n_blocks: int, vocabulary: int, d_model: int, n_heads: int, d_ff: int, n_max: int
) -> LanguageModel:
    "Make a small model of GPT-2's kind, with ReLU."
    blocks = []
    for _ in range(n_blocks):
        attention = MultiHeadAttention(d_model, n_heads)
        blocks.append(TransformerBlock(d_model, attention, FeedForward(d_model, d_ff, F.relu)))
    embed = TokenEmbedding(vocabulary, d_model, LearnedPositions(n_max, d_model))
    return LanguageModel(embed, TransformerStack(blocks, norm=nn.LayerNorm(d_model)), tied=True)


def all_sums() -> tuple[Tensor, Tensor]:
    "Return the token ids of all hundred sums, (100, 4), and the last digit of each, (100,)."
    first, second = torch.cartesian_prod(torch.arange(10), torch.arange(10)).T
    plus, equals = torch.full_like(first, 10), torch.full_like(first, 11)
    return torch.stack([first, plus, second, equals], dim=1), (first + second) % 10


def train(seed: int = 0, steps: int = STEPS) -> Checkpoints:
    "Train a model on all sums, and return its weights at the end."
    torch.manual_seed(seed)
    model, (sums, digits) = new_model(**CONFIG), all_sums()
    optimiser = torch.optim.AdamW(model.parameters(), lr=0.01, eps=1e-4)
    for _ in range(steps):
        loss = F.cross_entropy(model(sums)[:, -1], digits)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    about: dict[str, Any] = {"config": CONFIG, "tokens": [*"0123456789+="]}
    return quantise_checkpoints({steps: model.state_dict()}, about)


@torch.no_grad()
def right(trained: Checkpoints) -> Tensor:
    "Return the probability of the right digit for each sum, (100,)."
    model, (sums, digits) = new_model(**CONFIG), all_sums()
    model.load_state_dict(trained.state(trained.steps[-1]))
    return model(sums)[:, -1].softmax(-1).gather(-1, digits[:, None])[:, 0]


if __name__ == "__main__":
    trained = train()
    if right(trained).min() < 0.5:
        sys.exit("Not all sums are right; nothing was written.")
    save_checkpoints(TRAINED / "sums.safetensors", trained)
