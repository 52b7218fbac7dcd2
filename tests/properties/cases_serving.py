"""The cases of `serving`: how to draw each function's arguments, and what is right."""

import math
import struct
from hashlib import sha256

import attention_nb as nb
import torch
from hypothesis import strategies as st
from tests.properties.common import Case, args, refuse, sizes, whole

VOCABULARY = 7


def a_model():
    "Two layers of random weights, whose answers differ."
    torch.manual_seed(1)
    blocks = [
        nb.TransformerBlock(
            8,
            nb.MultiHeadAttention(8, 2, n_kv_heads=1, positions=nb.RotaryEmbedding(4)),
            nb.FeedForward(8, 8),
        )
        for _ in range(2)
    ]
    return nb.LanguageModel(
        nb.TokenEmbedding(VOCABULARY, 8), nb.TransformerStack(blocks), tied=False
    )


def real(x):
    refuse(type(x) in (int, float) and 0 <= x < math.inf)
    return x


def ids_in(tokens, least=0):
    "A list of token ids."
    tokens = torch.as_tensor(tokens)
    refuse(tokens.ndim == 1 and len(tokens) >= least)
    refuse(not len(tokens) or not (tokens.is_floating_point() or tokens.is_complex()))
    refuse(tokens.dtype != torch.bool)
    return tokens.tolist()


def right_request(prompt, n, arrival=0.0, salt=""):
    whole(n)
    refuse(isinstance(salt, str))
    ids = ids_in(prompt, least=1)
    refuse(min(ids) >= 0)
    return (tuple(ids), n, real(arrival), salt)


def right_answer(model, prompt, n, stop):
    "Each token from all before it, without a cache."
    ids = list(prompt)
    while len(ids) < len(prompt) + n:
        with torch.no_grad():
            ids.append(int(model.eval()(torch.tensor([ids]))[0, -1].argmax()))
        if ids[-1] == stop:
            break
    return ids[len(prompt) :]


def right_answers(model, requests, slots, static, budget, block_size, share, stop):
    whole(slots, block_size)
    refuse(isinstance(static, bool) and isinstance(share, bool))
    refuse(stop is None or type(stop) is int)
    refuse(type(requests) in (list, tuple))
    if budget is not None:
        whole(budget)
    return [right_answer(model, r.prompt, r.n, stop) for r in requests]


def right_keys(tokens, block_size, salt=""):
    "The chain of hashes, block by block."
    whole(block_size)
    names, name, ids = [], sha256(salt.encode()).digest(), ids_in(tokens)
    for i in range(len(ids) // block_size):
        block = ids[i * block_size : (i + 1) * block_size]
        name = sha256(name + b"".join(struct.pack("=q", token) for token in block)).digest()
        names.append(name)
    return names


def right_seconds(new, held, parameters, token_bytes, peak, bandwidth, bits=16):
    whole(bits)
    new, held = ids_in(new), ids_in(held)
    refuse(len(new) == len(held) and min([*new, *held], default=0) >= 0)
    computed = 2 * real(parameters) * sum(new) / real(peak)
    read = parameters * bits / 8 + real(token_bytes) * (sum(new) + sum(held))
    return max(computed, read / real(bandwidth))


ids = st.lists(st.integers(0, VOCABULARY - 1), min_size=1, max_size=6)
asked = args(
    prompt=ids, n=sizes, arrival=st.sampled_from([0, 0.5, 2.0]), salt=st.sampled_from(["", "x"])
)
counts = st.lists(st.integers(0, 9), min_size=2, max_size=2)


def as_tuple(**a):
    request = nb.Request(**a)
    return (request.prompt, request.n, request.arrival, request.salt)


CASES = {
    "Request": Case(as_tuple, asked, right_request),
    "serve": Case(
        lambda **a: [answer.tokens for answer in nb.serve(**a).answers],
        args(
            model=st.just(a_model()),
            requests=st.lists(asked.map(lambda a: nb.Request(**a)), max_size=4),
            slots=sizes,
            static=st.booleans(),
            budget=st.none() | sizes,
            block_size=sizes,
            share=st.booleans(),
            stop=st.none() | st.integers(0, VOCABULARY - 1),
        ),
        right_answers,
        fixed=("model",),
    ),
    "block_keys": Case(
        nb.block_keys,
        args(tokens=ids, block_size=sizes, salt=st.sampled_from(["", "x"])),
        right_keys,
    ),
    "step_seconds": Case(
        nb.step_seconds,
        args(
            new=counts,
            held=counts,
            parameters=st.integers(0, 9),
            token_bytes=st.integers(0, 9),
            peak=sizes,
            bandwidth=sizes,
            bits=st.sampled_from([8, 16, 32]),
        ),
        right_seconds,
    ),
}
