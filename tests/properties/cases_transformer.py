"""The cases of `transformer`: how to draw each function's arguments, and what is right."""

import copy
import math
from typing import Any

import attention_nb as nb
import torch
import torch.nn as nn
import torch.nn.functional as F
from hypothesis import strategies as st
from torch import Tensor
from tests.properties.common import (
    Case,
    a_block,
    a_model,
    args,
    dtypes,
    floats,
    masks,
    number_in,
    refuse,
    right_layer,
    right_norm,
    shapes_of,
    shares,
    sizes,
    sizes_or_none,
    whole,
)


@st.composite
def normed_rows(draw):
    lead, d, dtype = draw(st.lists(sizes, max_size=3)), draw(sizes), draw(dtypes)
    weight = draw(st.none() | floats((d,), dtype))
    return {
        "x": draw(floats((*lead, d), dtype, (1.0, 100.0))),
        "weight": weight,
        "eps": draw(st.sampled_from([1e-6, 0.1])),
    }


def sized_feed_forward(d_model, d_ff=None, activation=F.gelu, gated=False, bias=True, dropout=0.0):
    whole(d_model, *[] if d_ff is None else [d_ff])
    refuse(
        callable(activation)
        and isinstance(gated, bool)
        and isinstance(bias, bool)
        and 0 <= number_in(dropout) <= 1
    )
    d_ff = 4 * d_model if d_ff is None else d_ff
    shapes = {"up_proj.weight": (d_ff, d_model), "down_proj.weight": (d_model, d_ff)} | (
        {"gate_proj.weight": (d_ff, d_model)} if gated else {}
    )
    return shapes | {f"{name[:-7]}.bias": shape[:1] for name, shape in shapes.items() if bias}


@st.composite
def feed_forward_calls(draw):
    dtype, d = draw(dtypes), draw(sizes)
    torch.manual_seed(draw(st.integers(0, 999)))
    layer = nb.FeedForward(
        d,
        draw(sizes_or_none),
        draw(st.sampled_from([F.gelu, F.silu])),
        draw(st.booleans()),
        draw(st.booleans()),
    )
    return {
        "self": layer.to(dtype),
        "x": draw(floats((*draw(st.lists(sizes, max_size=3)), d), dtype)),
    }


def right_feed_forward(self, x):
    refuse(isinstance(x, Tensor) and x.dtype == torch.float64 and 0 not in x.shape)
    own = copy.deepcopy(self).double()
    wide = F.linear(x, own.up_proj.weight, own.up_proj.bias)
    wide = (
        self.activation(wide)
        if own.gate_proj is None
        else self.activation(F.linear(x, own.gate_proj.weight, own.gate_proj.bias)) * wide
    )
    return F.linear(wide, own.down_proj.weight, own.down_proj.bias)


@st.composite
def transformer_calls(draw, n_blocks=0):
    "A block, or a stack of several, with hidden states, masks and, perhaps, a memory."
    h, dtype = draw(st.integers(1, 2)), draw(st.sampled_from([torch.float32, torch.float64]))
    b, n, n_k, d, cross, first = (
        draw(sizes),
        draw(sizes),
        draw(sizes),
        h * draw(st.integers(2, 3)),
        draw(st.booleans()),
        draw(st.booleans()),
    )
    torch.manual_seed(draw(st.integers(0, 999)))
    out_norm = draw(st.sampled_from([None, nn.LayerNorm]))
    made = [a_block(d, h, cross, first, out_norm=out_norm) for _ in range(max(n_blocks, 1))]
    layer = nb.TransformerStack(made, nn.LayerNorm(d) if first else None) if n_blocks else made[0]
    args = {
        "self": layer.to(dtype),
        "x": draw(floats((b, n, d), dtype)),
        "mask": draw(masks((b, h, n, n))) if draw(st.booleans()) else None,
        "causal": draw(st.booleans()),
    }
    if args["mask"] is not None and args["mask"].ndim == 3:
        args["mask"] = args["mask"][None]
    return args | (
        {"memory": draw(floats((b, n_k, d), dtype)), "memory_mask": None}
        if cross
        else {"memory": None}
    )


def right_block(self, x, memory=None, mask=None, memory_mask=None, causal=False, cache=None):
    "With PyTorch's functions, and its norm."
    refuse(
        x.dtype == torch.float64
        and x.ndim > 1
        and isinstance(causal, bool)
        and (self.cross is None) == (memory is None)
    )
    own = copy.deepcopy(self).double()
    normed = lambda x, n: (
        x if n is None else F.layer_norm(x, n.normalized_shape, n.weight, n.bias, n.eps)
    )
    parts = {
        "attention": lambda x: right_layer(own.attention, x, None, mask, causal, False)[0],
        "cross": own.cross
        and (lambda x: right_layer(own.cross, x, memory, memory_mask, False, False)[0]),
        "feed_forward": lambda x: right_feed_forward(own.feed_forward, x),
    }
    for name, part in parts.items():
        if part:
            norm, out_norm = getattr(own, f"{name}_norm"), getattr(own, f"{name}_out_norm")
            delta = normed(part(normed(x, norm) if self.norm_first else x), out_norm)
            x = x + delta if self.norm_first else normed(x + delta, norm)
    return x


def right_stack(self, x, memory=None, mask=None, memory_mask=None, causal=False, caches=None):
    refuse(caches is None)
    for block in self.blocks:
        x = right_block(block, x, memory, mask, memory_mask, causal)
    return (
        x
        if self.norm is None
        else F.layer_norm(
            x,
            self.norm.normalized_shape,
            self.norm.weight.double(),
            self.norm.bias.double(),
            self.norm.eps,
        )
    )


def right_block_shapes(d_model, attention, feed_forward, norm_first=True, dropout=0.0):
    whole(d_model)
    refuse(isinstance(norm_first, bool) and 0 <= number_in(dropout) <= 1)
    shapes = {
        f"{part}.{n}": tuple(p.shape)
        for part, m in (("attention", attention), ("feed_forward", feed_forward))
        for n, p in m.named_parameters()
    }
    return shapes | {
        f"{part}_norm.{kind}": (d_model,)
        for part in ("attention", "feed_forward")
        for kind in ("weight", "bias")
    }


@st.composite
def torch_blocks(draw):
    torch.manual_seed(draw(st.integers(0, 99)))
    kind = draw(st.sampled_from([nn.TransformerEncoderLayer, nn.TransformerDecoderLayer]))
    layer = kind(
        4,
        draw(st.sampled_from([1, 2])),
        5,
        draw(shares),
        draw(st.sampled_from(["relu", "gelu"])),
        batch_first=draw(st.booleans()),
        norm_first=draw(st.booleans()),
    )
    return {
        "layer": layer.to(draw(st.sampled_from([torch.float32, torch.float64]))).train(
            draw(st.booleans())
        )
    }


def block_facts(block: nn.Module, norm_first: bool, dropout: float) -> tuple[Any, ...]:
    return (
        norm_first,
        dropout,
        block.training,
        sum(p.numel() for p in block.parameters()),
        {str(p.dtype) for p in block.parameters()},
    )


def copied_block(layer):
    new = nb.TransformerBlock.from_torch(layer)
    return block_facts(new, new.norm_first, new.dropout)


def right_block_copy(layer):
    refuse(isinstance(layer, (nn.TransformerEncoderLayer, nn.TransformerDecoderLayer)))
    return block_facts(layer, layer.norm_first, layer.dropout1.p)


@st.composite
def embedding_calls(draw):
    vocabulary, d = draw(st.integers(2, 5)), draw(sizes)
    torch.manual_seed(draw(st.integers(0, 99)))
    embed = nb.TokenEmbedding(
        vocabulary,
        d,
        draw(st.sampled_from([None, nb.LearnedPositions(9, d)])),
        draw(st.sampled_from([1.0, 2])),
    )
    ids = torch.randint(vocabulary, (draw(sizes), draw(sizes)))
    return {
        "self": embed,
        "ids": ids,
        "positions": draw(
            st.sampled_from([None, torch.arange(ids.shape[1]) + 2, torch.randint(9, ids.shape)])
        ),
    }


def right_embeddings(self, ids, positions=None):
    refuse(
        isinstance(ids, Tensor)
        and not ids.is_floating_point()
        and not ids.is_complex()
        and ids.dtype != torch.bool
        and ids.ndim == 2
        and ids.numel() > 0
    )
    where = torch.arange(ids.shape[1]) if positions is None else torch.as_tensor(positions)
    refuse(
        not where.is_floating_point()
        and not where.is_complex()
        and where.dtype != torch.bool
        and where.min() >= 0
        and where.shape in (ids.shape[1:], ids.shape)
    )
    refuse(ids.min() >= 0)
    out = self.table.weight.double()[ids.long()] * self.scale
    if self.positions is None:
        return out
    return out + self.positions.weight.double()[where.long().expand(ids.shape)]


@st.composite
def model_calls(draw, cross=False):
    model, (b, n, m) = (
        a_model(cross=cross, seed=draw(st.integers(0, 99))),
        [draw(sizes) for _ in range(3)],
    )
    ids = torch.randint(5, (b, n))
    if not cross:
        return {
            "self": model,
            "ids": ids,
            "mask": draw(st.sampled_from([None, torch.ones(n, n, dtype=torch.bool)])),
        }
    real = draw(st.sampled_from([None, torch.ones(b, 1, 1, m, dtype=torch.bool)]))
    return {
        "self": model,
        "source_ids": torch.randint(5, (b, m)),
        "target_ids": ids,
        "source_mask": real,
    }


def right_logits(self, ids, mask=None, caches=None):
    refuse(caches is None and (mask is None or mask.dtype == torch.bool))
    x = right_stack(self.stack, right_embeddings(self.embed, ids), mask=mask, causal=True)
    return x @ self.lm_head.weight.double().T


def right_translation(self, source_ids, target_ids, source_mask=None):
    refuse(
        source_mask is None
        or source_mask.dtype == torch.bool
        and source_mask.ndim <= 4
        and bool(source_mask.expand(len(source_ids), 1, 1, source_ids.shape[1]).numel())
    )
    refuse(len(source_ids) == len(target_ids))
    memory = right_stack(self.encoder, right_embeddings(self.source, source_ids), mask=source_mask)
    x = right_stack(
        self.decoder,
        right_embeddings(self.target, target_ids),
        memory,
        memory_mask=source_mask,
        causal=True,
    )
    return x @ self.lm_head.weight.double().T


def generated(self, ids, n, temperature=0.0, top_k=None, generator=None):
    """The whole sequence, if nothing is drawn;
    else whether its beginning is the same, and how long it is.
    """
    out = self.generate(ids, n, temperature, top_k, generator)
    return out if temperature == 0 else (torch.equal(out[:, : ids.shape[1]], ids), out.shape[1])


def right_sequence(self, ids, n, temperature=0.0, top_k=None, generator=None):
    whole(n, *[] if top_k is None else [top_k])
    refuse(
        0 <= number_in(temperature) < math.inf
        and (generator is None or isinstance(generator, torch.Generator))
    )
    right_embeddings(self.embed, ids)
    refuse(ids.shape[1] + n <= 10)
    if temperature:
        return True, ids.shape[1] + n
    sequence = ids
    for _ in range(n):
        sequence = torch.cat([sequence, right_logits(self, sequence)[:, -1:].argmax(-1)], 1)
    return sequence


def right_kinds(kinds, pattern, n_layers=None):
    refuse(isinstance(kinds, dict) and isinstance(pattern, list) and len(pattern) > 0)
    n_layers = len(pattern) if n_layers is None else n_layers
    whole(n_layers)
    return [{"two": 2, "four": 4}[pattern[i % len(pattern)]] for i in range(n_layers)]


def right_target(self, source_ids, n, start, source_mask=None):
    whole(n)
    refuse(type(start) is int and 0 <= start < 5)
    refuse(not source_ids.is_floating_point() and source_ids.dtype != torch.bool)
    sequence = torch.full((len(source_ids), 1), start)
    for _ in range(n):
        sequence = torch.cat(
            [
                sequence,
                right_translation(self, source_ids, sequence, source_mask)[:, -1:].argmax(-1),
            ],
            1,
        )
    return sequence


CASES = {
    "rms_norm": Case(
        nb.rms_norm, normed_rows(), right_norm, "x", also={"weight": "x"}, finite=True, widens=True
    ),
    "FeedForward": Case(
        lambda **a: shapes_of(nb.FeedForward(**a)),
        args(
            d_model=sizes,
            d_ff=sizes_or_none,
            activation=st.just(F.relu),
            gated=st.booleans(),
            bias=st.booleans(),
            dropout=shares,
        ),
        sized_feed_forward,
    ),
    "FeedForward.forward": Case(
        nb.FeedForward.forward,
        feed_forward_calls(),
        right_feed_forward,
        "x",
        fixed=("self",),
        finite=True,
    ),
    "TransformerBlock": Case(
        lambda **a: shapes_of(nb.TransformerBlock(**a)),
        args(
            d_model=st.just(4),
            attention=st.just(nb.MultiHeadAttention(4, 2)),
            feed_forward=st.just(nb.FeedForward(4, 5)),
            norm_first=st.booleans(),
            dropout=shares,
        ),
        right_block_shapes,
        fixed=("attention", "feed_forward"),
    ),
    "TransformerBlock.forward": Case(
        nb.TransformerBlock.forward,
        transformer_calls(),
        right_block,
        "x",
        also={"memory_mask": "mask"},
        fixed=("self",),
        finite=True,
    ),
    "TransformerBlock.from_torch": Case(copied_block, torch_blocks(), right_block_copy),
    "TransformerStack": Case(
        lambda blocks: len(nb.TransformerStack(blocks).blocks),
        args(blocks=sizes.map(lambda n: [a_block(2, 1) for _ in range(n)])),
        lambda blocks: (
            len([refuse(isinstance(block, nn.Module)) for block in blocks]) or refuse(False)
        ),
    ),
    "TransformerStack.of_kinds": Case(
        lambda kinds, pattern, n_layers: [
            b.d_model for b in nb.TransformerStack.of_kinds(kinds, pattern, n_layers).blocks
        ],
        args(
            kinds=st.just({"two": lambda: a_block(2, 1), "four": lambda: a_block(4, 1)}),
            pattern=st.lists(st.sampled_from(["two", "four"]), min_size=1, max_size=3),
            n_layers=sizes_or_none,
        ),
        right_kinds,
    ),
    "TransformerStack.forward": Case(
        nb.TransformerStack.forward,
        transformer_calls(2),
        right_stack,
        "x",
        also={"memory_mask": "mask"},
        fixed=("self",),
        finite=True,
    ),
    "TokenEmbedding": Case(
        lambda **a: shapes_of(nb.TokenEmbedding(**a)),
        args(vocabulary=sizes, d_model=sizes, scale=st.sampled_from([1.0, 2])),
        lambda vocabulary, d_model, scale=1.0: (
            whole(vocabulary, d_model),
            refuse(math.isfinite(number_in(scale))),
            {"table.weight": (vocabulary, d_model)},
        )[-1],
    ),
    "TokenEmbedding.forward": Case(
        nb.TokenEmbedding.forward,
        embedding_calls(),
        right_embeddings,
        also={"ids": "positions"},
        fixed=("self",),
    ),
    "LanguageModel": Case(
        lambda embed, stack, tied: (
            (m := nb.LanguageModel(embed, stack, tied)).lm_head.weight is m.embed.table.weight
        ),
        args(embed=st.just(a_model().embed), stack=st.just(a_model().stack), tied=st.booleans()),
        lambda embed, stack, tied: tied if isinstance(tied, bool) else refuse(False),
        fixed=("embed", "stack"),
    ),
    "LanguageModel.forward": Case(
        nb.LanguageModel.forward,
        model_calls(),
        right_logits,
        also={"ids": "positions|mask"},
        fixed=("self",),
    ),
    "LanguageModel.generate": Case(
        generated,
        args(
            self=st.just(a_model()),
            ids=st.tuples(sizes, sizes).map(
                lambda s: torch.randint(5, s, generator=torch.Generator().manual_seed(sum(s)))
            ),
            n=st.integers(1, 3),
            temperature=st.sampled_from([0.0, 0, 1.5]),
            top_k=sizes_or_none,
        ),
        right_sequence,
        also={"ids": "positions", "n": "positions"},
        fixed=("self",),
    ),
    "EncoderDecoder": Case(
        lambda tied, **a: (
            (m := nb.EncoderDecoder(**a, tied=tied)).lm_head.weight is m.target.table.weight
        ),
        st.just(a_model(cross=True)).flatmap(
            lambda m: args(
                source=st.just(m.source),
                target=st.just(m.target),
                encoder=st.just(m.encoder),
                decoder=st.just(m.decoder),
                tied=st.booleans(),
            )
        ),
        lambda tied, **a: tied if isinstance(tied, bool) else refuse(False),
        fixed=("source", "target", "encoder", "decoder"),
    ),
    "EncoderDecoder.generate": Case(
        nb.EncoderDecoder.generate,
        model_calls(cross=True).map(
            lambda a: {
                "self": a["self"],
                "source_ids": a["source_ids"],
                "n": 1 + a["target_ids"].shape[1] % 3,
                "start": int(a["target_ids"][0, 0]),
                "source_mask": a["source_mask"],
            }
        ),
        right_target,
        also={"source_ids": "target_ids|source_mask|positions", "start": "target_ids"},
        fixed=("self",),
    ),
    "EncoderDecoder.forward": Case(
        nb.EncoderDecoder.forward,
        model_calls(cross=True),
        right_translation,
        also={"source_ids": "target_ids|source_mask|positions", "target_ids": "positions"},
        fixed=("self",),
    ),
}
