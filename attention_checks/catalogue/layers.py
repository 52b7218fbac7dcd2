"""Rows cut and laid together wrongly, places turned wrongly, and what no optimizer, no mode and no state dict sees."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from attention_checks.catalogue.masks import scoring
from attention_checks.catalogue.multi_head_attention import HEADS
from attention_checks.catalogue.self_attention import routing
from attention_checks.pipeline import Bug, Step, Work, bugs_of, signs
from attention_nb.multi_head_attention import merge_heads, split_heads
from attention_nb.softmax import softmax


def cut_last(
    rows: Tensor,  # (..., n, width)
    h: int,  # how many heads
) -> Tensor:  # (..., h, n, width / h)
    "Cut rows whose features stand one after the other, each for all heads."
    return rows.unflatten(-1, (-1, h)).movedim(-1, -3)


def laid_last(
    heads: Tensor,  # (..., h, n, d)
) -> Tensor:  # (..., n, d * h)
    "Lay features side by side, each of all heads."
    return heads.movedim(-3, -1).flatten(-2)


def merging(
    f: Callable[[Tensor], Tensor],  # contexts (..., h, n, d) → rows (..., n, width)
) -> Step:  # for the stage `merge`
    "Make a step of a function that lays heads together."
    return lambda w: w._replace(out=f(w.out))


ORDERS: dict[
    str, tuple[Callable[[Tensor, int], Tensor], Step]
] = {  # both right: what cuts, what lays together
    "heads first": (split_heads, merging(merge_heads)),
    "features first": (cut_last, merging(laid_last)),
}


_Heads = tuple[Tensor, Tensor, Tensor]
_Share = Callable[[Tensor, int], Tensor]


def _in_groups(t: Tensor, h: int) -> Tensor:
    return t.repeat_interleave(h // t.shape[-3], -3)


def _in_turn(t: Tensor, h: int) -> Tensor:
    return t.repeat(1, h // t.shape[-3], 1, 1)


SHARES: dict[str, _Share] = {"blocks": _in_groups, "turns": _in_turn}


def splitting(
    f: Callable[[Tensor, Tensor, Tensor], _Heads] = lambda q, k, v: (
        q,
        k,
        v,
    ),  # what is done to heads cut rightly
    share_k: _Share = _in_groups,  # how heads of keys are shared by groups of queries
    share_v: _Share = _in_groups,  # and those of values
) -> Step:  # for the stage `split`
    "Make a step of a function that cuts rows into heads in its own way."

    def split(w: Work) -> Work:
        q, k, v = f(w.q, w.k, w.v)
        return w._replace(q=q, k=share_k(k, q.shape[-3]), v=share_v(v, q.shape[-3]))

    return split


def _viewed(t: Tensor) -> Tensor:
    return merge_heads(t).reshape(t.shape)


def _last(t: Tensor) -> Tensor:
    return cut_last(merge_heads(t), t.shape[-3])


def _first(t: Tensor) -> Tensor:
    return split_heads(laid_last(t), t.shape[-3])


def _only(roles: str, f: Callable[[Tensor], Tensor]) -> Callable[[Tensor, Tensor, Tensor], _Heads]:
    "Do it to some of queries, keys and values."
    return lambda q, k, v: (
        f(q) if "q" in roles else q,
        f(k) if "k" in roles else k,
        f(v) if "v" in roles else v,
    )


_WITHOUT = "split with view(b, h, n, d_head), without a transpose: each head gets a part of the sentence, not a part of every row"
_GROUPED = "query heads are grouped in the wrong order: {} are repeated as 0 1 0 1 (repeat), not 0 0 1 1 (repeat_interleave)"
SPLITS: list[Bug] = bugs_of(
    "split",
    splitting,
    {
        "split.viewed": (f"heads are {_WITHOUT}", _only("qkv", _viewed)),
        **{
            f"split.viewed_{roles}": (f"heads of {what} are {_WITHOUT}", _only(roles, _viewed))
            for roles, what in {
                "v": "values",
                "k": "keys",
                "q": "queries",
                "qk": "queries and keys",
                "kv": "keys and values",
                "qv": "queries and values",
            }.items()
        },
        "split.values_apart": (
            "queries and keys are split into heads in another order than values: features first",
            _only("qk", _last),
        ),
        "split.values_apart_last": (
            "queries and keys are split into heads in another order than values: heads first",
            _only("qk", _first),
        ),
        "split.keys_apart": (
            "queries and keys are split into heads in different orders: keys features first",
            _only("k", _last),
        ),
        "split.keys_apart_last": (
            "queries and keys are split into heads in different orders: keys heads first",
            _only("k", _first),
        ),
        "split.queries_apart": (
            "queries and keys are split into heads in different orders: queries features first",
            _only("q", _last),
        ),
        "split.queries_apart_last": (
            "queries and keys are split into heads in different orders: queries heads first",
            _only("q", _first),
        ),
    },
) + [
    Bug(
        f"split.{code}",
        says,
        {"split": splitting(share_k=share_k, share_v=share_v)},
        declare='group_order="turns"' * (code == "groups"),
    )
    for code, says, share_k, share_v in (
        ("groups", _GROUPED.format("keys and values"), _in_turn, _in_turn),
        (
            "groups_of_keys",
            _GROUPED.format("keys") + "; values are repeated rightly",
            _in_turn,
            _in_groups,
        ),
        ("groups_of_values", _GROUPED.format("values"), _in_groups, _in_turn),
    )
]


def fused_orders(
    name: str,  # of a projection that gives queries, keys and values at once
    told: str,  # in which order, as "qkv"
) -> list[Bug]:  # of the stage `split`, one for each other order
    "List the wrong orders in which a fused projection may be cut."

    def taken(found: str) -> Step:
        i, j, l = ("qkv".index(told[found.index(role)]) for role in "qkv")
        return splitting(lambda *qkv: (qkv[i], qkv[j], qkv[l]))

    others = [order for order in ("qvk", "kqv", "kvq", "vqk", "vkq", "qkv") if order != told]
    return [
        FUSED.about(name=name, found=found, told=told)._replace(steps={"split": taken(found)})
        for found in others
    ]


FUSED = Bug(
    "split.fused_order",
    "the fused projection {name} is cut in the wrong order: as {found}, not as {told}",
    declare='skip=["split.fused_order"]',
)


def _turned(axes: str) -> Callable[[Tensor], Tensor]:
    "Lay numbers together as they lie once heads, words and features stand in another order."
    order = ["hnd".index(axis) - 3 for axis in axes]
    return lambda c: c.permute(*range(c.ndim - 3), *order).reshape(*c.shape[:-3], c.shape[-2], -1)


_BESIDE = "where they should be laid side by side (concatenated)"
_TURNED = "heads are merged after the wrong transpose: words and features are mixed up, as {}"
MERGES: list[Bug] = bugs_of(
    "merge",
    merging,
    {
        "merge.features_first": (
            "heads are merged in another order than they were split in: features and heads are mixed up",
            laid_last,
        ),
        "merge.heads_first": (
            "heads are merged in another order than they were split in: heads and features are mixed up",
            merge_heads,
        ),
        "merge.viewed": (
            "heads are merged with view or reshape without a transpose back: words and heads are mixed up",
            lambda c: c.reshape(*c.shape[:-3], c.shape[-2], -1),
        ),
        "merge.averaged": (f"heads are averaged, {_BESIDE}", lambda c: c.mean(-3)),
        "merge.averaged_all": (
            f"heads are averaged and repeated, {_BESIDE}",
            lambda c: merge_heads(c.mean(-3, keepdim=True).expand_as(c)),
        ),
        "merge.added": (f"heads are added up, {_BESIDE}", lambda c: c.sum(-3)),
        "merge.added_all": (
            f"heads are added up and repeated, {_BESIDE}",
            lambda c: merge_heads(c.sum(-3, keepdim=True).expand_as(c)),
        ),
        "merge.only_first": ("only the first head is used", lambda c: c[..., 0, :, :]),
        "merge.first_copied": (
            "every head gives what the first head gives: copies of one head",
            lambda c: merge_heads(c[..., :1, :, :].expand_as(c)),
        ),
        "merge.flipped": ("heads are merged in the wrong order", lambda c: merge_heads(c.flip(-3))),
        **{
            f"merge.{axes}": (_TURNED.format(f"({', '.join(axes)})"), _turned(axes))
            for axes in ("hdn", "dhn", "dnh")
        },
    },
)
REPEATED = Bug(
    "heads.one_repeated",
    "one head is computed and repeated {times} times: every head is a copy of the first",
)


_NORMED = "queries and keys are normalised over the words, not over their features (dim)"


def _over_words(factor: Callable[[int], float]) -> Callable[[Tensor, Tensor, Tensor], _Heads]:
    "Normalise along the sentence, and scale."
    return lambda q, k, v: (F.normalize(q, dim=-2) * factor(q.shape[-1]), F.normalize(k, dim=-2), v)


def _added(forbidden: bool) -> Step:
    "The mask as numbers, added before the scores are scaled."
    return lambda w: w._replace(
        weights=softmax(w.scores + (~w.allowed if forbidden else w.allowed) * w.scale)
    )


def _capped(cap: float) -> Callable[[Tensor], Tensor]:
    return lambda s: cap * torch.tanh(s / cap)


_CUT: dict[str, tuple[str, Callable[[Tensor], Tensor]]] = {
    "scores.tanh": ("scores are squashed by tanh before the softmax", torch.tanh),
    "scores.cut": ("scores are cut off at ±1 before the softmax", lambda s: s.clamp(-1, 1)),
    "scores.relu": ("negative scores are cut off (ReLU) before the softmax", torch.relu),
    **{
        f"scores.cap_{cap}": (
            f"scores are squashed to ±{cap} by tanh (if that is meant, keep {cap} in an attribute named softcap)",
            _capped(cap),
        )
        for cap in (5, 10, 15, 20, 30, 50)
    },
}
ON_THE_WAY: list[Bug] = (
    bugs_of(
        "route",
        routing,
        {
            "route.keys_values_exchanged": (
                "queries or keys are used as values: v is ignored, and queries and keys change places",
                lambda q, k, v: (k, q, k),
            ),
            "route.queries_values_exchanged": (
                "queries or keys are used as values: v is ignored, and keys are taken for queries",
                lambda q, k, v: (k, q, q),
            ),
            "route.relu": (
                "negative queries, keys and values are cut off (ReLU behind the projections)",
                lambda q, k, v: (q.relu(), k.relu(), v.relu()),
            ),
            "route.relu_queries_keys": (
                "negative queries and keys are cut off (ReLU behind the projections)",
                lambda q, k, v: (q.relu(), k.relu(), v),
            ),
            "norm.over_words": (_NORMED, _over_words(lambda d: 1.0)),
            "norm.over_words_unscaled": (
                f"{_NORMED}, and not scaled",
                _over_words(lambda d: d**0.5),
            ),
            "norm.over_words_10": (
                f"{_NORMED}, and scaled by 10",
                _over_words(lambda d: 10 * d**0.5),
            ),
        },
    )
    + bugs_of(
        "score",
        scoring,
        {
            code: (says, lambda s, bias, scale, f=f: f(s * scale) + bias)
            for code, (says, f) in _CUT.items()
        },
    )
    + [
        Bug(
            f"mask.added_{code}",
            (
                f"the mask is added to the scores as 0 and 1, 1 where {code}, where it should add minus infinity: the future leaks"
            ),
            {"weigh": _added(code == "forbidden")},
            "mask",
        )
        for code in ("forbidden", "allowed")
    ]
    + [
        Bug(
            "heads.among",
            "each word attends to its own heads, not to other words: a transpose(1, 2) is missing",
            next(bug.steps for bug in HEADS if bug.code == "heads.layout"),
        )
    ]
)


def turned(
    x: Tensor,  # (..., n, d)
    angles: Tensor,  # of each pair at each place, (n, pairs)
    halves: bool,  # pairs of one from each half, or neighbours?
) -> Tensor:  # as x; what is beyond the angles stays
    "Turn pairs of features."
    size = 2 * angles.shape[-1]
    a, b = x[..., :size].chunk(2, -1) if halves else (x[..., :size:2], x[..., 1:size:2])
    pair = a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()
    return torch.cat(
        [torch.cat(pair, -1) if halves else torch.stack(pair, -1).flatten(-2), x[..., size:]], -1
    )


def _by_table(x: Tensor, partner: Tensor, table: Tensor) -> Tensor:
    "Rows turned by a table of angles, as long as what turns: cosines for the row, sines for its partner."
    size = table.shape[-1]
    return torch.cat(
        [x[..., :size] * table.cos() + partner[..., :size] * table.sin(), x[..., size:]], -1
    )


def _torn(x: Tensor, angles: Tensor, halves: bool) -> Tensor:
    "Turned by a table of angles that suits the other kind of pairs."
    quarter = turned(x, torch.full_like(angles, torch.pi / 2), halves)
    return _by_table(
        x, quarter, angles.repeat_interleave(2, -1) if halves else torch.cat([angles, angles], -1)
    )


def mirrored(
    x: Tensor,  # (..., n, d)
    angles: Tensor,  # of each pair at each place, (n, pairs)
    halves: bool,  # pairs of one from each half, or neighbours?
) -> Tensor:  # as x; what is beyond the angles stays
    "Do what becomes of a rotation whose minus sign is forgotten."
    size, swapped = 2 * angles.shape[-1], turned(x, torch.full_like(angles, torch.pi / 2), halves)
    first = torch.arange(size) < size // 2 if halves else torch.arange(size) % 2 == 0
    partner = torch.where(first, -swapped[..., :size], swapped[..., :size])
    return _by_table(
        x, partner, torch.cat([angles, angles], -1) if halves else angles.repeat_interleave(2, -1)
    )


_Turn = Callable[[Tensor, Tensor, Tensor, Tensor, bool], _Heads]
_FURTHER = "keys are rotated one place {} than queries (RoPE): one of them counts from 1"
_TURNS: dict[str, tuple[str, _Turn]] = {
    "rotation.queries_only": (
        "places are rotated into the queries only (RoPE): rotate the keys too",
        lambda q, k, v, a, halves: (turned(q, a, halves), k, v),
    ),
    "rotation.keys_only": (
        "places are rotated into the keys only (RoPE): rotate the queries too",
        lambda q, k, v, a, halves: (q, turned(k, a, halves), v),
    ),
    "rotation.sign": (
        "the minus sign of the rotation is missing (RoPE): a pair (a, b) becomes (a cos + b sin, b cos + a sin)",
        lambda q, k, v, a, halves: (mirrored(q, a, halves), mirrored(k, a, halves), v),
    ),
    "rotation.opposite": (
        "queries and keys are rotated in opposite directions (RoPE)",
        lambda q, k, v, a, halves: (turned(q, a, halves), turned(k, -a, halves), v),
    ),
    "rotation.table": (
        "the table of angles is {form}, and the pairs that are rotated are {pairs} (RoPE)",
        lambda q, k, v, a, halves: (_torn(q, a, halves), _torn(k, a, halves), v),
    ),
    "rotation.keys_further": (
        _FURTHER.format("further"),
        lambda q, k, v, a, halves: (turned(q, a, halves), turned(k, a + a[1:2], halves), v),
    ),
    "rotation.keys_less_far": (
        _FURTHER.format("less far"),
        lambda q, k, v, a, halves: (turned(q, a, halves), turned(k, a - a[1:2], halves), v),
    ),
    "rotation.values": (
        "values are rotated by their places, too (RoPE): only queries and keys should be",
        lambda q, k, v, a, halves: (
            turned(q, a, halves),
            turned(k, a, halves),
            turned(v, a, halves),
        ),
    ),
}


def turning(
    angles: Tensor,  # of each pair at each place, (n, pairs)
    halves: bool,  # pairs of one from each half, or neighbours?
    longer: float = 1.0,  # how much longer the pairs become (YaRN)
) -> tuple[Step, list[Bug]]:  # for the stage `turn`: what is right, and what is not
    "Make steps of one table of angles."
    form, pairs = (
        ("0 0 1 1, for neighbours", "halves") if halves else ("0 1 0 1, for halves", "neighbours")
    )

    def stretched(x: Tensor) -> Tensor:
        size = 2 * angles.shape[-1]
        return x if longer == 1 else torch.cat([longer * x[..., :size], x[..., size:]], -1)

    def step(f: _Turn) -> Step:
        return routing(lambda q, k, v: f(stretched(q), stretched(k), v, angles, halves))

    right = step(lambda q, k, v, a, halves: (turned(q, a, halves), turned(k, a, halves), v))
    return right, [bug.about(form=form, pairs=pairs) for bug in bugs_of("rotate", step, _TURNS)]


NEVER = Bug("project.never", "the output projection {name} is never applied")
UNTRANSPOSED = Bug(
    "project.untransposed",
    "{which} used untransposed: x @ weight, where nn.Linear means x @ weight.T (call {name}(x))",
)


def untransposed(
    names: list[str],  # of projections
    steps: dict[str, Step] = {},  # what they replace, as in `Bug`
) -> Bug:  # one for all of them
    "Name weights that are used the wrong way round."
    which = " and ".join(f"{name}.weight" for name in names) + (
        " is" if len(names) == 1 else " are"
    )
    return UNTRANSPOSED.about(which=which, name=names[0])._replace(steps=steps)


_LOOKS = "keep its size in an attribute named window, or say positions=True"
_UNREGISTERED = (
    "its parameters are not registered, so no optimizer trains them and no state dict holds them"
)
_SAY_HOW = "say how, call=lambda module, x: …"
LAYER_SIGNS: list[Bug] = signs(
    {
        "shape.weights_and_output": "it returns (weights, output), where (output, weights) is expected",
        "rotation.backwards": (
            "queries and keys are rotated backwards (RoPE): the sine has the wrong sign, or cosine and sine are exchanged"
        ),
        "shape.rows": "heads, words or sentences end up in the wrong place of the output",
        "shape.call": f"it cannot be called as module(x): {_SAY_HOW}",
        "shape.maximum": (
            "it fails for more than {longest} words: a maximum that is too short to be checked (make it at least {least}), or"
            " a hard-coded length"
        ),
        "shape.arguments": f"forward needs {{needed}}, and was called with x for each: {_SAY_HOW}",
        "shape.one_sentence": "it works only for a single sentence: the batch is mixed up with another axis",
        "shape.sentences_words": (
            "it works only when there are as many sentences as words: the axes of batch and sequence are mixed up"
        ),
        "shape.words_width": (
            "it works only when there are as many words as d_model: .T or a transpose turns the wrong axes"
        ),
        "shape.words_heads": (
            "it works only when there are as many words as heads: the axes of heads and sequence are mixed up"
        ),
        "shape.all_equal": (
            "it works only when batch, words and heads are equal: axes are mixed up, as by .T on three or four dimensions"
        ),
        "shape.one_word": "it works only for one word at a time",
        "shape.only_length": "it works only for {n} words: a length is hard-coded",
        "route.reads_x": "{names} reads x, where keys and values should be made from the memory",
        "route.reads_memory": "{names} reads the memory, where queries should be made from x",
        "route.exchanged": "x and the memory are exchanged: queries are made from the memory, keys and values from x",
        "code.error": "an error of the code, whatever the sizes: it raises {error}",
        "values.linear": (
            "no attention: the output is a linear function of the words, as if no scores went through a softmax"
        ),
        "mask.inverted_last": (
            "the mask is inverted: the last word may attend to nothing, and the others see the future only"
            " (nn.MultiheadAttention hides where its mask is True)"
        ),
        "mask.not_itself_first": (
            "the causal mask is off by one (diagonal): a word does not see itself, so the first sees nothing, and its softmax"
            " is 0 / 0"
        ),
        "softmax.over_heads_or_batch": (
            "the softmax normalises over heads or sentences (dim=1, dim=0), not over keys (dim=-1): where the mask forbids,"
            " all that it sums over is minus infinity, and 0 / 0 is NaN"
        ),
        "scale.head_constant": "wrong scale: the scores are multiplied by {found}, not by {right}, which is 1/√d_head",
        "softmax.epsilon_small": "about {number} is added to the softmax's sum (an epsilon?): rows do not sum to 1",
        "heads.number": "the rows are split into {found}, not into {said}",
        "heads.shared": "it keeps {found} for keys and values, not {said}: every head has keys of its own, or too few share them",
        "split.fused_viewed": (
            "heads are split with view(b, h, n, 3 · d_head), without a transpose: each head gets a part of the sentence"
        ),
        "split.keys_values": "keys and values are taken from the fused projection in the wrong order",
        "project.unused": "{name} is not used{detached}{instead}",
        "project.twice": "{name} is applied more than once",
        "project.residual": (
            "a residual is added: the input comes on top of the output projection (a block adds it, not attention)"
        ),
        "project.constant": "a constant is added after the output projection: give that projection a bias, which is trained",
        "project.more": (
            "the output is not what the output projection gave: something is added, scaled or cut off after it"
        ),
        "window.by_accident": f"{{says}} (if it is meant, {_LOOKS})",
        "window.size": (
            "the window is off: {name} = {size}, but a word sees {seen} words, itself included (if that is meant, say"
            " positions=True)"
        ),
        "window.narrow": f"no word sees one more than {{widest}} places away: a mask is too narrow (a window? if it is meant, {_LOOKS})",
        "length.cut": "words after the first {first} are never seen: keys are cut off (a hard-coded length?)",
        "length.padded": (
            "the memory is padded with zeros that no mask hides: they take a share of every row (as many as lack to a multiple of 8?)"
        ),
        "length.words": "it gives another number of rows than it was given words: a length is hard-coded, or words are cut off",
        "length.long": "it is right for {few} words and wrong for {many}: a length is hard-coded, or counted in",
        "length.future": (
            "the future leaks in longer sentences, from output {first} on: the mask is for shorter ones (a hard-coded size?)"
        ),
        "length.only": (
            "it works for one length only: a mask, a cache or a size is kept from the first call, or hard-coded"
        ),
        "length.breaks": "it breaks for {what}: squeeze() without a dim, a division by n - 1, or a hard-coded size",
        "mode.no_grad": "it behaves differently under no_grad: another path, or no mask there",
        "mode.batch_norm": (
            "the future leaks in training through batch normalisation, whose mean is over all words and sentences (use"
            " LayerNorm)"
        ),
        "mode.mask_in_evaluation": "the future leaks in training, not in evaluation: the mask is applied in evaluation only",
        "mode.mask_in_training": (
            "the future leaks in evaluation, not in training: the mask is applied in training only (is_causal=self.training?)"
        ),
        "mode.mask_without_gradients": "the future leaks with gradients on, not without: the mask is on one path only",
        "mode.differs": (
            "training and evaluation differ though dropout is 0: a mask, a scale or a path is on in one of them only"
        ),
        "dropout.in_evaluation": (
            "dropout, or other chance, is on in evaluation: F.dropout needs training=self.training, nn.Dropout must be an"
            " attribute; or weights are drawn anew in forward{anew}"
        ),
        "dropout.unreached": (
            f"{{name}} is a plain list, dict or tensor: {_UNREGISTERED} (use nn.ModuleList, nn.Parameter); so eval() does not"
            " reach them either, and their dropout stays on"
        ),
        "dropout.nan": (
            "dropout gives NaN: it is applied to masked scores, and 0 times minus infinity is NaN; apply it to the weights"
        ),
        "dropout.never": "dropout is set but never applied in training",
        "dropout.relu": (
            "negative outputs are cut off: a ReLU comes after the output projection, so that dropout does not keep the mean"
        ),
        "dropout.unscaled": "dropout is biased: kept weights are not divided by 1 - p",
        "dropout.before_softmax": (
            "dropout is biased: it is applied before the softmax (to scores, queries or keys), not to the weights"
        ),
        "state.first_length": (
            "something is kept from the first call, such as a mask of its length: longer sentences are not masked to their"
            " end"
        ),
        "state.grows": (
            "forward adds to the state dict (register_buffer without persistent=False?): it does not load into a new layer"
        ),
        "state.lost": "its state dict is not all of it: a tensor or parameter is not registered",
        "parameter.unregistered": (
            f"{{name}} is a plain list, dict or tensor: {_UNREGISTERED} (use nn.ModuleList, nn.Parameter)"
        ),
        "parameter.plain": (
            "{name} is a plain tensor, not a parameter: it is not registered, so no optimizer trains it and no state dict"
            " holds it (use nn.Parameter or nn.Linear)"
        ),
        "parameter.buffer": (
            "it has no parameters: {name} is a buffer, which no optimizer trains (use nn.Parameter or nn.Linear)"
        ),
        "parameter.none": (
            "no parameter is registered: projections are made anew in forward, or held in a plain list or tensor"
        ),
        "parameter.mask": (
            "{name} is a mask, kept as a parameter: a mask is no weight, and no optimizer may touch it (use register_buffer)"
        ),
        "parameter.unused": "{name} is not used in forward, or what it gives is detached: it would never be trained",
        "parameter.silent": "{name} has no influence on the output: it would never be trained",
        "parameter.part": (
            "a part of {name} has no influence on the output, or what it gives is detached: these queries, keys or values"
            " would never be trained"
        ),
        "parameter.tied": (
            "{one} and {other} are tied: they share their memory, so they can never differ ([layer] * n, or the same object"
            " assigned twice?)"
        ),
        "weights.after_dropout": "it returns scores before the softmax, or weights after dropout, not the weights",
    }
) + signs(
    {
        "shape.input": (
            "it fails on an input of shape (b, n, d_model) with {error}: sizes that do not fit, or a wrong d_model"
        ),
        "values.not_finite": "ordinary inputs already give NaN or infinity{hint}",
        "values.nan_row": "a row of the output is NaN or infinite: a word may attend to nothing, and its softmax is 0 / 0",
        "layer.unknown": (
            "its numbers are not softmax(q kᵀ / √d_head) v of its own projections, and they fit no bug known here"
        ),
        "batch.axes": (
            "it attends over the batch, not over the sentence: it expects (n, b, d_model) (batch_first=False?), or axes are"
            " swapped"
        ),
        "batch.mixes": "sentences of a batch mix: a softmax, a mean, a reshape or a view runs over the axis of the batch",
        "length.counted": (
            "an output depends on how long the sentence is: the mask is for another length, or words are counted"
        ),
        "mask.no_word_itself": "a word does not see itself: the causal mask is off by one (diagonal)",
        "route.memory_unused": "the memory makes no difference: keys and values are not made from it",
        "mask.causal_unsaid": (
            "a causal mask is on, though causal=False was said: later words do not reach earlier outputs"
        ),
        "mask.narrow": (
            f"some words are never seen: a mask is too narrow (a window? if it is meant, {_LOOKS}), a slice is off by one, or"
            " the mask is upside down (triu for tril)"
        ),
        "documents.ignored": (
            "whatever {name} says of the texts in a row, the output is the same: each word sees those of the other texts"
        ),
        "documents.moved": (
            "a text comes out otherwise behind another one than alone: {name} keeps them apart, but places go on counting, or it is read wrongly"
        ),
        "order.matters": (
            "the order of the words matters: a mask or positions (then say positions=True), or a reshape that mixes words and"
            " heads"
        ),
        "order.never": (
            "positions=True was said, but the order of the words makes no difference: {told} is never used, or tells places"
            " of heads or sentences"
        ),
        "weights.returned_transposed": (
            "the weights that it returns are transposed, (n_k, n_q), or their softmax normalises over queries"
        ),
        "weights.returned_sums": "it returns scores or weights whose rows do not sum to 1, not the weights that it used",
        "weights.returned_future": "it returns weights that are not those that it used, or the mask is missing",
    },
    guess=True,
)
LAYER: list[Bug] = [*SPLITS, *MERGES, *ON_THE_WAY]  # beside what is in every attention
LAYER_ALL: list[Bug] = [
    *LAYER,
    *turning(torch.zeros(2, 1), True)[1],
    FUSED,
    REPEATED,
    NEVER,
    UNTRANSPOSED,
    *LAYER_SIGNS,
]
