"""Bugs of layers: splitting and merging heads, shapes, modes, dropout, parameters."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from attention_checks.catalogue.layer_rotations import OFFSET, rotating
from attention_checks.catalogue.multi_head_attention import HEAD_BUGS
from attention_checks.catalogue.self_attention import changing, routing
from attention_checks.pipeline import Bug, Step, Work, bugs_of, codes_of_table, scoring
from attention_nb.multi_head_attention import merge_heads, split_heads
from attention_nb.softmax import softmax


def split_features_first(
    x: Tensor,  # (..., n, width)
    n_heads: int,
) -> Tensor:  # (..., h, n, width / h)
    "Split vectors into heads whose features alternate: feature 0 of all heads, then feature 1."
    return x.unflatten(-1, (-1, n_heads)).movedim(-1, -3)


def merge_features_first(
    heads: Tensor,  # (..., h, n, d_head)
) -> Tensor:  # (..., n, d_head * h)
    "Merge heads so that their features alternate: the inverse of `split_features_first`."
    return heads.movedim(-3, -1).flatten(-2)


def merging(
    merge: Callable[[Tensor], Tensor],  # contexts (..., h, n, d_head) → (..., n, width)
) -> Step:  # for the stage `merge`
    "Make a step of a function that merges heads."
    return lambda work: work._replace(out=merge(work.out))


ORDERS: dict[str, tuple[Callable[[Tensor, int], Tensor], Step]] = {  # split and its inverse
    "heads first": (split_heads, merging(merge_heads)),
    "features first": (split_features_first, merging(merge_features_first)),
}


_Heads = tuple[Tensor, Tensor, Tensor]
_Share = Callable[[Tensor, int], Tensor]
_Change = Callable[[Tensor, Tensor, Tensor], _Heads]


def _in_blocks(heads: Tensor, n_heads: int) -> Tensor:
    "Repeat key or value heads as 0 0 1 1."
    return heads.repeat_interleave(n_heads // heads.shape[-3], -3)


def _tiled(heads: Tensor, n_heads: int) -> Tensor:
    "Repeat key or value heads as 0 1 0 1."
    return heads.repeat(1, n_heads // heads.shape[-3], 1, 1)


SHARES: dict[str, _Share] = {"blocks": _in_blocks, "tiled": _tiled}


def splitting(
    change: _Change = lambda q, k, v: (q, k, v),  # what is done to correctly split heads
    share_k: _Share = _in_blocks,  # how key heads are repeated for groups of query heads
    share_v: _Share = _in_blocks,  # how value heads are repeated
) -> Step:  # for the stage `split`
    "Make a step that splits queries, keys and values into heads in its own way."

    def split(work: Work) -> Work:
        q, k, v = change(work.q, work.k, work.v)
        n_heads = q.shape[-3]
        return work._replace(q=q, k=share_k(k, n_heads), v=share_v(v, n_heads))

    return split


def _viewed(heads: Tensor) -> Tensor:
    "Heads as view(b, h, n, d_head) gives them, without a transpose."
    return merge_heads(heads).reshape(heads.shape)


def _viewed_columns(heads: Tensor) -> Tensor:
    "Heads as view(b, h, d_head, n) gives them, transposed."
    return merge_heads(heads).reshape(*heads.shape[:-2], heads.shape[-1], heads.shape[-2]).mT


def _features_first(heads: Tensor) -> Tensor:
    "Split the same vectors again, features first."
    return split_features_first(merge_heads(heads), heads.shape[-3])


def _heads_first(heads: Tensor) -> Tensor:
    "Split the same vectors again, heads first."
    return split_heads(merge_features_first(heads), heads.shape[-3])


def _regrouped(heads: Tensor, first: int) -> Tensor:
    "Read heads that stand as (first, second) as (second, first)."
    return heads.unflatten(-3, (first, -1)).transpose(-4, -3).flatten(-4, -3)


_WITHOUT = (
    "split with view(b, h, n, d_head), which mixes positions:"
    " use view(b, n, h, d_head).transpose(1, 2)"
)
_GROUPED = (
    "query heads are grouped in the wrong order: {} heads are repeated as 0 1 0 1 (repeat);"
    " repeat them as 0 0 1 1 (repeat_interleave)"
)
_APART = "are split into heads in different orders ({}): split all with view(b, n, h, d_head)"
SPLITS: list[Bug] = bugs_of(
    "split",
    splitting,
    {
        "split.viewed": (f"heads are {_WITHOUT}", changing("qkv", _viewed)),
        **{
            f"split.viewed_{roles}": (f"heads of {what} are {_WITHOUT}", changing(roles, _viewed))
            for roles, what in {
                "v": "values",
                "k": "keys",
                "q": "queries",
                "kv": "keys and values",
            }.items()
        },
        "split.viewed_columns_k": (
            "heads of keys are split with view(b, h, d_head, n), which mixes positions and"
            " features: use view(b, n, h, d_head).permute(0, 2, 3, 1)",
            changing("k", _viewed_columns),
        ),
        "split.values_apart": (
            "queries and keys, and values, " + _APART.format("queries and keys: d_head, h"),
            changing("qk", _features_first),
        ),
        "split.values_apart_last": (
            "queries and keys, and values, " + _APART.format("queries and keys: h, d_head"),
            changing("qk", _heads_first),
        ),
        "split.keys_apart": (
            "queries and keys " + _APART.format("keys: d_head, h"),
            changing("k", _features_first),
        ),
        "split.queries_apart": (
            "queries and keys " + _APART.format("queries: d_head, h"),
            changing("q", _features_first),
        ),
    },
) + [
    Bug(
        "split.groups",
        _GROUPED.format("key and value"),
        {"split": splitting(share_k=_tiled, share_v=_tiled)},
        declare='group_order="tiled"',
    ),
    Bug(
        "split.groups_of_keys",
        _GROUPED.format("key") + "; value heads are repeated correctly",
        {"split": splitting(share_k=_tiled)},
    ),
    Bug("split.groups_of_values", _GROUPED.format("value"), {"split": splitting(share_v=_tiled)}),
    Bug(
        "split.query_groups",
        "query heads are split as (heads of a group, groups), and merged as (groups, heads of a"
        " group): split them as they are merged",
        {"split": splitting(lambda q, k, v: (_regrouped(q, q.shape[-3] // k.shape[-3]), k, v))},
    ),
    Bug(
        "merge.query_groups",
        "query heads are split as (groups, heads of a group), and merged as (heads of a group,"
        " groups): merge them as they were split",
        {"split": splitting(lambda q, k, v: (_regrouped(q, k.shape[-3]), k, v), _tiled, _tiled)},
    ),
]


def fused_orders(
    name: str,  # of a projection that gives queries, keys and values at once
    expected: str,  # their order, as "qkv"
) -> list[Bug]:  # of the stage `split`, one for each other order
    "List the wrong orders in which a fused projection may be split."

    def taken(order: str) -> Step:
        first, second, third = ("qkv".index(expected[order.index(role)]) for role in "qkv")
        return splitting(lambda *qkv: (qkv[first], qkv[second], qkv[third]))

    return [
        FUSED.about(name=name, found=order, told=expected)._replace(steps={"split": taken(order)})
        for order in ("qvk", "kqv", "kvq", "vqk", "vkq", "qkv")
        if order != expected
    ]


FUSED = Bug(
    "split.fused_order",
    "the fused projection {name} is split in the wrong order: as {found}, not as {told}",
    declare='skip=["split.fused_order"]',
)


def _flattened(axes: str) -> Callable[[Tensor], Tensor]:
    "Merge with reshape while heads, positions and features stand in another order."
    order = ["hnd".index(axis) - 3 for axis in axes]

    def merge(heads: Tensor) -> Tensor:
        batch = heads.shape[:-3]
        return heads.permute(*range(len(batch)), *order).reshape(*batch, heads.shape[-2], -1)

    return merge


_CONCATENATE = "instead of being concatenated: use transpose(1, 2).flatten(-2)"
_TRANSPOSED = (
    "heads are merged from the axes ({}), which mixes positions and features:"
    " transpose to (b, n, h, d_head) first"
)
MERGES: list[Bug] = bugs_of(
    "merge",
    merging,
    {
        "merge.features_first": (
            "heads are merged as (d_head, h), but split as (h, d_head): transpose to"
            " (b, n, h, d_head) before flatten",
            merge_features_first,
        ),
        "merge.heads_first": (
            "heads are merged as (h, d_head), but split as (d_head, h): split and merge them"
            " in one order",
            merge_heads,
        ),
        "merge.viewed": (
            "heads are merged with view or reshape without a transpose back, which mixes positions"
            " and heads: call transpose(1, 2) first",
            _flattened("hnd"),
        ),
        "merge.averaged": (f"heads are averaged {_CONCATENATE}", lambda c: c.mean(-3)),
        "merge.added_all": (
            f"heads are summed and repeated {_CONCATENATE}",
            lambda c: merge_heads(c.sum(-3, keepdim=True).expand_as(c)),
        ),
        "merge.first_copied": (
            "the first head is repeated in the place of all others: concatenate all heads",
            lambda c: merge_heads(c[..., :1, :, :].expand_as(c)),
        ),
        "merge.flipped": (
            "heads are merged in reverse order: concatenate them as they were split",
            lambda c: merge_heads(c.flip(-3)),
        ),
        "merge.batch": (
            "heads of all sequences are merged with view or reshape without a transpose, which"
            " mixes sequences and positions: from (b · h, n, d_head), transpose to"
            " (n, b · h, d_head) first",
            lambda c: c.reshape(*c.shape[:-4], c.shape[-2], c.shape[-4], -1).transpose(-3, -2),
        ),
        "merge.hdn": (_TRANSPOSED.format("h, d_head, n"), _flattened("hdn")),
    },
)
REPEATED = Bug(
    "heads.one_repeated",
    "one head is computed and repeated {times} times: split the projections into {times} heads",
)


def _added(work: Work) -> Work:
    "Add 1 to forbidden scores before they are scaled."
    return work._replace(weights=softmax(work.scores + ~work.allowed * work.scale))


_ADDED_MASK = (
    "the mask is added to the scores as 0 and 1, with 1 where forbidden, so the future leaks:"
    " use masked_fill(~mask, -inf)"
)
OTHER_LAYER_BUGS: list[Bug] = [
    *bugs_of(
        "route",
        routing,
        {
            "route.relu": (
                "a ReLU is applied to queries, keys and values: use the projections as they are",
                lambda q, k, v: (q.relu(), k.relu(), v.relu()),
            ),
            "norm.over_positions": (
                "queries and keys are normalised over positions, not over features: use dim=-1",
                lambda q, k, v: (F.normalize(q, dim=-2), F.normalize(k, dim=-2), v),
            ),
        },
    ),
    Bug(
        "scores.tanh",
        "tanh is applied to the scores before the softmax",
        {"score": scoring(lambda scores, bias, scale: torch.tanh(scores * scale) + bias)},
    ),
    Bug("mask.added_forbidden", _ADDED_MASK, {"weigh": _added}, "mask"),
    Bug(
        "heads.among",
        "each token attends over its own heads, not over tokens: call transpose(1, 2)",
        next(bug.steps for bug in HEAD_BUGS if bug.code == "heads.layout"),
    ),
]


NEVER = Bug("project.never", "the output projection {name} is never applied: apply it last")
UNTRANSPOSED = Bug(
    "project.untransposed",
    "{which} used untransposed, x @ weight: nn.Linear means x @ weight.T (call {name}(x))",
)


def untransposed(
    names: list[str],  # of projections
    steps: dict[str, Step] = {},  # what they replace, as in `Bug`
) -> Bug:  # one for all of them
    "Name the weights that are used untransposed."
    verb = " is" if len(names) == 1 else " are"
    which = " and ".join(f"{name}.weight" for name in names) + verb
    return UNTRANSPOSED.about(which=which, name=names[0])._replace(steps=steps)


LAYER_CODES: list[Bug] = codes_of_table(
    """
shape.weights_and_output: it returns (weights, output): return (output, weights)
rotation.backwards: queries and keys are rotated backwards (RoPE): negate the sines, or exchange
    cosines and sines | skip=["rotation.backwards"]
shape.rows: the axes of the output are in the wrong order: return (b, n, d_model)
shape.call: it cannot be called as module(x): declare how, call=lambda module, x: …
shape.arguments: forward needs {needed}, and was called with x for each: declare how,
    call=lambda module, x: …
shape.only_length: it takes no sequence of {given} tokens, but of {n}: a length is hard-coded
    | lengths={n}
route.reads_x: {names} reads x: compute keys and values from the memory
route.reads_memory: {names} reads the memory: compute queries from x
route.exchanged: x and the memory are exchanged: compute queries from x, keys and values from
    the memory
code.error: the code fails for every shape: it raises {error}
values.linear: the output is linear in the input: no scores go through a softmax, so it is not
    attention
mask.inverted_last: the mask is inverted: each token attends to the future only
    (nn.MultiheadAttention hides keys where its mask is True)
mask.not_itself_first: the causal mask is off by one: the first token attends to nothing, and
    its softmax is 0 / 0 (use tril(diagonal=0))
softmax.over_heads_or_batch: the softmax normalises over heads or the batch (dim=1, dim=0), so
    masked rows are 0 / 0: normalise over keys (dim=-1)
scale.head_constant: wrong scale: the scores are multiplied by {found}; multiply them by {right}
    | scale={found}
heads.number: the vectors are split into {found}, not into {said}
heads.shared: it has {found} for keys and values, not {said}: check n_kv_heads
split.fused_viewed: the fused projection is split with view(b, {axes}, d_head), which mixes
    positions: use view(b, n, {right}, d_head) and transpose
split.keys_values: keys and values are exchanged when the fused projection is split
project.unused: {name} is not used{detached}{instead}
project.twice: {name} is applied more than once
project.residual: the input is added to the output: leave the residual connection to the block
    | skip=["project.residual"]
project.bias: the bias of {name} is added {times} times: add it once
project.pooled: every output is the mean over all tokens: return the vector of each token
project.scaled: what the output projection gave is multiplied by {factor}: return it as it is
    | skip=["project.scaled"]
project.more: the output is not what the output projection gave: something is added, scaled or
    clamped after it
window.narrow: no token attends to another more than {widest} positions away: the mask hides too
    much (if a window is intended, declare its size, window=…)
length.cut: keys after position {first} are ignored: a slice or a hard-coded length cuts them
    off
length.tokens: the output has another sequence length than the input: a length is hard-coded, or
    tokens are cut off
length.long: it is right for {few} tokens and wrong for {many}: a length is hard-coded, or a
    factor depends on the length
length.future: the future leaks in longer sequences, from output {first} on: build the mask for
    the length of the input
length.breaks: it fails for {what}: look for squeeze() without a dim, a division by n - 1, or a
    hard-coded size
mode.no_grad: its output differs under no_grad: another path, or no mask there
mode.batch_norm: the future leaks in training through batch normalisation, whose mean is over
    all positions: use LayerNorm
mode.mask_in_evaluation: the future leaks in training: the mask is applied in evaluation only
mode.mask_in_training: the future leaks in evaluation: the mask is applied in training only
    (is_causal=self.training?)
mode.differs: training and evaluation differ without dropout: a mask, a scale or a path is
    on in one of them only
dropout.in_evaluation: the output is random in evaluation: give F.dropout
    training=self.training, or keep nn.Dropout as an attribute{anew}
dropout.never: dropout is set but never applied in training
dropout.scores: in training the future leaks by chance: dropout sets masked scores to 0, so drop
    weights, after the softmax
dropout.biased: dropout changes the mean: divide the kept weights by 1 - p, and drop weights, not
    scores before the softmax, and nothing before a ReLU | dropout="scores"
state.first_length: a mask is kept from the first call: longer sequences are not masked to their
    end
state.grows: forward adds to the state dict, which no new layer can load: use register_buffer(…,
    persistent=False) in __init__
parameter.unregistered: {name} is a plain list, dict or tensor, so no optimizer trains its
    weights and no state dict holds them: register them with nn.ModuleList or nn.Parameter
parameter.none: no parameter is registered: weights are buffers, plain tensors, or made in
    forward (register them with nn.Parameter)
parameter.unused: {name} is not used in forward, or its output is detached: it gets no gradient (a
    mask belongs into a buffer)
parameter.silent: {name} has no influence on the output: it is never trained
parameter.part: a part of {name} has no influence on the output, or its output is detached:
    these queries, keys or values are never trained
parameter.tied: {one} and {other} share their memory, so they can never differ: create two
    ([layer] * n repeats one object)
~shape.input: it fails on an input of shape (b, n, d_model) with {error}: check {what} and the
    sizes of the projections
~values.not_finite: ordinary inputs give NaN or infinity{hint}
~values.nan_row: the output of a token is NaN or infinite: it attends to nothing, and its softmax
    is 0 / 0
~layer.attend: its heads do not give what attend= gives, and no bug known here explains it
layer.step: its heads give what {name}= gives if {what}: take that step as {name}= says
~layer.unknown: its output is not softmax(q kᵀ / √d_head) v of its own projections, and fits no
    bug known here: declare what it does besides, such as value_scale, norms or activation; or
    what it does instead | attend=…
~batch.axes: it attends over the batch, not over the sequence: it expects (n, b, d_model)
    (batch_first=False?), or axes are swapped | layout="nbd"
~batch.mixes: sequences of a batch influence each other: a softmax, a mean or a reshape runs over
    the batch axis
~mask.not_itself: a token does not attend to itself: the causal mask is off by one (use
    diagonal=0)
~mask.causal_unsaid: a causal mask is on, though causal=False is declared: later tokens do not
    reach earlier outputs | causal=True
~mask.narrow: some tokens are never attended to: the mask hides too much (if a window is
    intended, declare its size, window=…), a slice is off by one, or triu stands for tril
~documents.ignored: {name} has no influence: each token attends to other documents of its
    sequence, too
~documents.moved: a document's output depends on those before it: {name} separates them, but
    positions do not start anew, or it is misread
~order.matters: the output depends on the order of tokens: a mask, positions,
    or a reshape that mixes tokens and heads | positions=True
~order.never: positions=True is declared, but the order of tokens has no influence: {told} is
    never used, or is indexed by heads or the batch
~weights.returned_sums: it returns scores, or weights whose rows do not sum to 1 (transposed, or
    after dropout): return the weights that it used
"""
)
LAYER_BUGS: list[Bug] = [*SPLITS, *MERGES, *OTHER_LAYER_BUGS]
LAYER_CATALOGUE: list[Bug] = [
    *LAYER_BUGS,
    *{bug.code: bug for bug in [*rotating(torch.zeros(2, 1), True)[1], OFFSET]}.values(),
    FUSED,
    REPEATED,
    NEVER,
    UNTRANSPOSED,
    *LAYER_CODES,
]
