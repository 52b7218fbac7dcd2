"""Bugs of layers: splitting and merging heads, shapes, modes, dropout, parameters."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from attention_checks.catalogue.heads import BUGS as HEAD_BUGS
from attention_checks.catalogue.masks import MASK_APPLICATIONS
from attention_checks.catalogue.scales_and_routes import changing, routing
from attention_checks.explaining.pipeline import Bug, Step, Work, bugs_of_stage, scoring
from attention_nb.multi_head_attention import merge_heads, split_heads
from attention_nb.softmax import softmax


def split_features_first(x: Tensor, n_heads: int) -> Tensor:  # (..., h, n, width / h)
    "Split vectors into heads whose features alternate: feature 0 of all heads, then feature 1."
    return x.unflatten(-1, (-1, n_heads)).movedim(-1, -3)


def merge_features_first(heads: Tensor) -> Tensor:  # (..., h, n, d_head) → (..., n, d_head * h)
    "Merge heads so that their features alternate: the inverse of `split_features_first`."
    return heads.movedim(-3, -1).flatten(-2)


def merging(merge: Callable[[Tensor], Tensor]) -> Step:  # for the stage `merge`
    "Make a step of a function that merges heads."
    return lambda work: work._replace(out=merge(work.out))


ORDERS: dict[str, tuple[Callable[[Tensor, int], Tensor], Step]] = {  # split and its inverse
    "heads first": (split_heads, merging(merge_heads)),
    "features first": (split_features_first, merging(merge_features_first)),
}


_Heads = tuple[Tensor, Tensor, Tensor]
_Share = Callable[[Tensor, int], Tensor]
_Change = Callable[[Tensor, Tensor, Tensor], _Heads]
_HeadOf = Callable[[int, int, int], int]  # query head, n_heads, n_kv_heads → key and value head


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


def _features_first(heads: Tensor) -> Tensor:
    "Split the same vectors again, features first."
    return split_features_first(merge_heads(heads), heads.shape[-3])


def _regrouped(heads: Tensor, first: int) -> Tensor:
    "Read heads that stand as (first, second) as (second, first)."
    return heads.unflatten(-3, (first, -1)).transpose(-4, -3).flatten(-4, -3)


_WITHOUT = (
    "split with view(b, h, n, d_head), which mixes positions:"
    " use view(b, n, h, d_head).transpose(1, 2)"
)
_VIEWED = {"v": "values", "k": "keys", "q": "queries", "kv": "keys and values"}
_GROUPED = (
    "query heads are grouped in the wrong order: {} heads are repeated as 0 1 0 1 (repeat);"
    " repeat them as 0 0 1 1 (repeat_interleave)"
)
_APART = "are split into heads in different orders ({}): split all with view(b, n, h, d_head)"
SPLITS: list[Bug] = bugs_of_stage(
    "split",
    splitting,
    {
        "split.viewed": (f"heads are {_WITHOUT}", changing("qkv", _viewed)),
        **{
            f"split.viewed_{roles}": (f"heads of {what} are {_WITHOUT}", changing(roles, _viewed))
            for roles, what in _VIEWED.items()
        },
        "split.values_apart": (
            "queries and keys, and values, " + _APART.format("queries and keys: d_head, h"),
            changing("qk", _features_first),
        ),
        "split.values_alone": (
            "values are split into heads as (d_head, h), but merged as (h, d_head), as queries and"
            " keys are split: split all with view(b, n, h, d_head)",
            changing("v", _features_first),
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
]


def regrouped(groups: int, merge: Step) -> Bug:
    "Merge query heads in another order than that in which they share groups of keys."
    step: Step = lambda work: merge(work._replace(out=_regrouped(work.out, groups)))
    return Bug(
        "merge.query_groups",
        "query heads are split as (groups, heads of a group), and merged as (heads of a group,"
        " groups): merge them as they were split",
        {"merge": step},
    )


def fused_orders(
    name: str,  # of a projection that gives queries, keys and values at once
    expected: str,  # their order, as "qkv"
) -> list[Bug]:  # of the stage `split`, one for each other order
    "List the wrong orders in which a fused projection may be split."

    def taken(order: str) -> Step:
        first, second, third = ("qkv".index(expected[order.index(role)]) for role in "qkv")
        return splitting(lambda *qkv: (qkv[first], qkv[second], qkv[third]))

    others = [order for order in ("qvk", "kqv", "kvq", "vqk", "vkq", "qkv") if order != expected]
    bugs = (FUSED.about(name=name, found=order, expected=expected) for order in others)
    return [bug._replace(steps={"split": taken(order)}) for bug, order in zip(bugs, others)]


FUSED = Bug(
    "split.fused_order",
    "the fused projection {name} is split in the wrong order: as {found}, not as {expected}",
    declare='skip=["split.fused_order"]',
)


def _flattened(axes: str) -> Callable[[Tensor], Tensor]:
    "Merge with reshape while heads, positions and features stand in another order."
    order = ["hnd".index(axis) - 3 for axis in axes]

    def merge(heads: Tensor) -> Tensor:
        batch = heads.shape[:-3]
        return heads.permute(*range(len(batch)), *order).reshape(*batch, heads.shape[-2], -1)

    return merge


def _repeated(merge: Step) -> Step:
    "Repeat what heads are merged to, as often as there are heads."

    def step(work: Work) -> Work:
        one = merge(work).out
        return work._replace(out=one.repeat(*[1] * (one.ndim - 1), work.out.shape[-3]))

    return step


_CONCATENATE = "instead of being concatenated: use transpose(1, 2).flatten(-2)"
_TRANSPOSED = (
    "heads are merged from the axes ({}), which mixes positions and features:"
    " transpose to (b, n, h, d_head) first"
)
MERGES: list[Bug] = bugs_of_stage(
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
        "merge.added_all": (f"heads are summed {_CONCATENATE}", lambda c: c.sum(-3)),
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
REPEATED_MERGES: list[Bug] = [  # the same bugs where each head's place is filled
    Bug(bug.code, bug.says, {"merge": _repeated(bug.steps["merge"])})
    for bug in MERGES
    if bug.code in ("merge.averaged", "merge.added_all")
]
CHANNELS: list[Bug] = (
    [  # the same bugs where features come before positions, as in convolutions
        Bug(
            f"split.viewed{suffix}",
            f"heads of {what} are split from (b, h · d_head, n) with view(b, h, n, d_head):"
            " use view(b, h, d_head, n)",
            {"split": splitting(changing(roles, lambda heads: heads.mT.reshape(heads.shape)))},
        )
        for roles, suffix, what in (
            ("qkv", "", "all"),
            *((roles, f"_{roles}", what) for roles, what in _VIEWED.items()),
        )
    ]
    + [
        Bug(
            "merge.viewed",
            "heads (b, h, n, d_head) are viewed as (b, h · d_head, n) without a transpose to"
            " (b, h, d_head, n)",
            {"merge": merging(lambda c: c.reshape(*c.shape[:-3], -1, c.shape[-2]).mT)},
        )
    ]
)
_ADDED_MASK = next(bug for bug in MASK_APPLICATIONS if bug.code == "mask.added_inverted")
OTHER_LAYER_BUGS: list[Bug] = [
    *bugs_of_stage(
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
    _ADDED_MASK._replace(  # before the scores are scaled
        steps={
            "weigh": lambda work: work._replace(
                weights=softmax(work.scores + ~work.allowed * work.scale)
            )
        }
    ),
    Bug(
        "heads.among",
        "each token attends over its own heads, not over tokens: call transpose(1, 2)",
        next(bug.steps for bug in HEAD_BUGS if bug.code == "heads.layout"),
    ),
]


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


def _reading(head_of: _HeadOf) -> Callable[[Tensor, int], Tensor]:
    "Give each query head the key or value head that a rule names."
    return lambda kv, h: kv[..., [head_of(i, h, kv.shape[-3]) for i in range(h)], :, :]


def _averaged(kv: Tensor, n_heads: int) -> Tensor:
    "Give every query head the mean of all key or value heads."
    return kv.mean(-3, keepdim=True).expand(*kv.shape[:-3], n_heads, *kv.shape[-2:])


_READS = "query head i reads key and value head {}: read head i // (n_heads // n_kv_heads)"
GROUP_BUGS: list[Bug] = bugs_of_stage(
    "split",
    lambda share: splitting(share_k=share, share_v=share),
    {
        "groups.divisor": (_READS.format("i // n_kv_heads"), _reading(lambda i, h, g: i // g)),
        "groups.remainder": (
            _READS.format("i % (n_heads // n_kv_heads)"),
            _reading(lambda i, h, g: i % (h // g)),
        ),
        "groups.averaged": (
            "query heads read the mean of all key and value heads:"
            " repeat each for its group (repeat_interleave)",
            _averaged,
        ),
    },
)


LAYER_BUGS: list[Bug] = [*SPLITS, *MERGES, *REPEATED_MERGES, *OTHER_LAYER_BUGS, *CHANNELS]
BUGS: list[Bug] = [
    *SPLITS,
    *MERGES,
    *OTHER_LAYER_BUGS,
    *GROUP_BUGS,
    regrouped(1, merging(merge_heads)),
    FUSED,
    UNTRANSPOSED,
]
