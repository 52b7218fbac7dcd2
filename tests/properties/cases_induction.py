"""The cases of `induction`: how to draw each function's arguments, and what is right."""

import copy
from contextlib import contextmanager

import attention_nb as nb
import torch
from hypothesis import strategies as st
from tests.properties.common import Case, a_model, args, dtypes, floats, refuse, right_layer, sizes
from torch import Tensor

WIDTH = 2  # of a head of `a_model`, which has one block with two heads
MODEL = a_model()
ids = st.tuples(sizes, st.integers(1, 5)).map(
    lambda s: torch.randint(5, s, generator=torch.Generator().manual_seed(sum(s)))
)
heads = st.sampled_from([(0, 0), (0, 1), (0, 1, "context")])


@st.composite
def square_weights(draw):
    n = 2 * draw(st.integers(2, 4))
    lead = draw(st.lists(sizes, max_size=2))
    return {"weights": draw(floats((*lead, n, n), draw(dtypes)))}


def mean_at(weights, pairs):
    "The mean of the weights at some pairs of query and key, one by one."
    return torch.stack([weights[..., i, j] for i, j in pairs]).mean(0)


def square(weights):
    refuse(isinstance(weights, Tensor) and weights.dtype == torch.float64 and weights.ndim > 1)
    n = weights.shape[-1]
    refuse(n == weights.shape[-2] and n > 3)
    return n


def right_induction(weights):
    p = square(weights) // 2
    return mean_at(weights, [(i, i - p + 1) for i in range(p, square(weights) // 2 * 2)])


def right_previous(weights):
    return mean_at(weights, [(i, i - 1) for i in range(1, square(weights))])


def token_ids(*given):
    for one in given:
        refuse(isinstance(one, Tensor) and one.ndim == 2 and one.numel() > 0)
        refuse(not one.is_floating_point() and not one.is_complex() and one.dtype != torch.bool)
        refuse(0 <= one.min() and one.max() < 5 and one.shape[1] <= 9)


def normed(model, ids):
    "What the attention layer of the model gets."
    return model.stack.blocks[0].attention_norm(model.embed(ids))


def right_weights(model, ids):
    token_ids(ids)
    own = copy.deepcopy(model).double()
    return [right_layer(own.stack.blocks[0].attention, normed(own, ids), None, None, True, True)[1]]


def three_of(values):
    return tuple(values[0, head, part] for head, part in ((0, "q"), (1, "k"), (1, "v"))), len(
        values
    )


def right_three(model, ids):
    token_ids(ids)
    own = copy.deepcopy(model).double()
    x, layer = normed(own, ids), own.stack.blocks[0].attention
    q, k, v = (project(x) for project in (layer.q_proj, layer.k_proj, layer.v_proj))
    return (q[..., :WIDTH], k[..., WIDTH:], v[..., WIDTH:]), 8


def within(context, model, ids):
    with context:
        return model(ids)


@contextmanager
def replaced(model, values):
    "The vectors of some heads, written over by hand."

    def act(module, given):
        wide = given[0].clone()
        for place, value in values.items():
            wide[..., WIDTH * place[1] : WIDTH * (place[1] + 1)] = value
        return (wide,)

    hook = model.stack.blocks[0].attention.out_proj.register_forward_pre_hook(act)
    yield
    hook.remove()


def known(places):
    for place in places:
        refuse(
            isinstance(place, tuple)
            and len(place) in (2, 3)
            and all(type(i) is int for i in place[:2])
        )
        refuse(place[0] == 0 and place[1] in (0, 1) and place[2:] in ((), ("context",)))


def right_patch(model, values, ids):
    token_ids(ids)
    known(values)
    refuse(
        all(isinstance(value, Tensor) and value.is_floating_point() for value in values.values())
    )
    own = copy.deepcopy(model).double()
    return within(replaced(own, values), own, ids)


def right_ablation(model, heads, how, others, ids):
    token_ids(others, ids)
    refuse(isinstance(heads, (list, tuple, set, frozenset)))
    known(heads)
    own, kept = copy.deepcopy(model).double(), []
    layer = own.stack.blocks[0].attention.out_proj
    hook = layer.register_forward_pre_hook(lambda module, given: kept.append(given[0]))
    own(others)
    hook.remove()
    stands_in = {"zero": kept[0] * 0, "mean": kept[0].flatten(0, 1).mean(0), "resample": kept[0]}[
        how
    ]
    if how != "mean" and heads:
        # else it is no stand-in
        refuse(torch.broadcast_shapes(others.shape, ids.shape) == ids.shape)
    part = {place: stands_in[..., WIDTH * place[1] : WIDTH * (place[1] + 1)] for place in heads}
    return within(replaced(own, part), own, ids)


@st.composite
def ablations(draw):
    mine = draw(ids)
    others = torch.randint(5, mine.shape, generator=torch.Generator().manual_seed(7))
    how = draw(st.sampled_from(["zero", "mean", "resample"]))
    return {
        "model": MODEL,
        "heads": draw(st.lists(heads, max_size=2)),
        "how": how,
        "others": others,
        "ids": mine,
    }


one_vector = floats((WIDTH,))
TOO_LONG = {"ids": "positions"}  # the model has nine of them
CASES = {
    "induction_score": Case(nb.induction_score, square_weights(), right_induction, "weights"),
    "previous_token_score": Case(
        nb.previous_token_score, square_weights(), right_previous, "weights"
    ),
    "head_weights": Case(
        lambda model, ids: nb.head_weights(model, ids),
        args(model=st.just(MODEL), ids=ids),
        right_weights,
        also=TOO_LONG,
        fixed=("model",),
    ),
    "head_values": Case(
        lambda model, ids: three_of(nb.head_values(model, ids)),
        args(model=st.just(MODEL), ids=ids),
        right_three,
        also=TOO_LONG,
        fixed=("model",),
    ),
    "patch": Case(
        lambda model, values, ids: within(nb.patch(model, values), model, ids),
        args(model=st.just(MODEL), values=st.dictionaries(heads, one_vector, max_size=2), ids=ids),
        right_patch,
        also=TOO_LONG,
        fixed=("model",),
        finite=True,
    ),
    "ablate": Case(
        lambda model, heads, how, others, ids: within(
            nb.ablate(model, heads, how, others), model, ids
        ),
        ablations(),
        right_ablation,
        also=dict.fromkeys(("ids", "others"), "ids|values|positions"),
        fixed=("model",),
    ),
}
