"""The cases of `embeddings`: how to draw each function's arguments, and what is right."""

import math
import re
from collections.abc import Mapping

import attention_nb as nb
import torch
import torch.nn.functional as F
from hypothesis import strategies as st
from torch import Tensor
from tests.properties.common import Case, args, dtypes, floats, refuse, sizes, whole


letters = st.text("abcdefgXYZäß_0", min_size=1, max_size=4)


def right_one_hot(ids, size):
    whole(size)
    ids = torch.as_tensor(ids)
    refuse(
        ids.numel() == 0
        or ids.dtype != torch.bool
        and not ids.is_floating_point()
        and not ids.is_complex()
    )
    return F.one_hot(ids.long(), size).float()


def right_tokens(tokens, specials=()):
    for given_tokens in (tokens, specials):
        refuse(
            not isinstance(given_tokens, str)
            and all(isinstance(token, str) for token in given_tokens)
        )
    return list(dict.fromkeys([*specials, *tokens]))


def right_rows(text, vectors):
    refuse(isinstance(text, str) and isinstance(vectors, Mapping))
    rows = [torch.as_tensor(vectors[w]) for w in re.findall(r"\w+", text)]
    refuse(all(r.ndim == 1 and not r.is_complex() for r in rows))
    return torch.stack([r.double() for r in rows])


@st.composite
def text_and_vectors(draw):
    tokens, d, dtype = draw(st.lists(letters, min_size=1, max_size=5)), draw(sizes), draw(dtypes)
    vectors = {w: draw(floats((d,), dtype)) for w in tokens}
    vectors = {w: v.tolist() for w, v in vectors.items()} if draw(st.booleans()) else vectors
    return {"text": draw(st.sampled_from([" ", ", ", " - "])).join(tokens), "vectors": vectors}


@st.composite
def in_vocab(draw, ids: bool):
    vocab = nb.Vocab(draw(st.lists(letters, min_size=1, max_size=5)))
    if not ids:
        tokens = draw(st.lists(st.sampled_from(vocab.tokens), min_size=1, max_size=5))
        return {"self": vocab, "tokens": " ".join(tokens) if draw(st.booleans()) else tokens}
    numbers = draw(st.lists(st.integers(0, len(vocab) - 1), max_size=5))
    return {"self": vocab, "ids": torch.tensor(numbers) if draw(st.booleans()) else numbers}


def right_ids(self, tokens):
    tokens = re.findall(r"\w+", tokens) if isinstance(tokens, str) else list(tokens)
    refuse(bool(tokens))
    return torch.tensor([self.tokens.index(token) for token in tokens])


def right_decoded(self, ids):
    ids = ids.tolist() if isinstance(ids, Tensor) else list(ids)
    whole(*ids, least=0)
    return [self.tokens[i] for i in ids]


CASES = {
    "tokenize": Case(
        nb.tokenize,
        args(text=st.lists(letters, min_size=1, max_size=6).map(", ".join)),
        lambda text: text.split(", "),
    ),
    "Vocab": Case(
        lambda **a: nb.Vocab(**a).tokens,
        args(
            tokens=st.lists(letters, min_size=1, max_size=6), specials=st.lists(letters, max_size=2)
        ),
        right_tokens,
    ),
    "Vocab.encode": Case(nb.Vocab.encode, in_vocab(ids=False), right_ids, fixed=("self",)),
    "Vocab.decode": Case(nb.Vocab.decode, in_vocab(ids=True), right_decoded, fixed=("self",)),
    "one_hot": Case(
        nb.one_hot,
        args(
            size=st.just(5),
            ids=st.lists(sizes, max_size=3).flatmap(
                lambda shape: st.integers(0, 99).map(
                    lambda s: (torch.arange(math.prod(shape)) * 7 + s).view(shape) % 5
                )
            ),
        ),
        right_one_hot,
        also={"size": "ids"},
        exact=True,
    ),
    "number_corpus": Case(
        nb.number_corpus,
        args(),
        lambda: [
            (f"{w} is {w}", f"{i + 1} la {i + 1}")
            for i, w in enumerate(
                ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
            )
        ],
    ),
    "one_hot_vectors": Case(
        nb.one_hot_vectors,
        args(vocab=st.lists(letters, min_size=1).map(nb.Vocab)),
        lambda vocab: {
            w: torch.tensor([float(w == other) for other in vocab.tokens]).double()
            for w in vocab.tokens
        },
    ),
    "embed_tokens": Case(nb.embed_tokens, text_and_vectors(), right_rows, also={"vectors": "text"}),
    "journey": Case(
        nb.journey,
        args(),
        lambda: (
            "Your journey starts with one step".split(),
            torch.tensor(
                [
                    [0.43, 0.15, 0.89],
                    [0.55, 0.87, 0.66],
                    [0.57, 0.85, 0.64],
                    [0.22, 0.58, 0.33],
                    [0.77, 0.25, 0.10],
                    [0.05, 0.80, 0.55],
                ]
            ).double(),
        ),
    ),
}
