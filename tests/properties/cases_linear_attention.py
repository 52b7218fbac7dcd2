"""The cases of `linear_attention`: how to draw each function's arguments, and what is right."""

import attention_nb as nb
import torch
import torch.nn.functional as F
from hypothesis import strategies as st
from tests.properties.common import Case, floats, refuse, scores, unmasked


def right_linear(q, k, v, state=None):
    refuse(
        q.shape[:-1] == k.shape[:-1] == v.shape[:-1]
        and q.dtype == k.dtype == v.dtype == torch.float64
    )
    w = torch.einsum("...id,...jd->...ij", F.elu(q) + 1, F.elu(k) + 1).tril()
    read = torch.einsum("...ij,...jd->...id", w, torch.cat([v, torch.ones_like(v[..., :1])], -1))
    if state is not None:
        refuse(
            state.shape == (*k.shape[:-2], k.shape[-1], v.shape[-1] + 1)
            and state.is_floating_point()
        )
        read = read + torch.einsum("...id,...de->...ie", F.elu(q) + 1, state)
    return read[..., :-1] / read[..., -1:]


def right_delta(q, k, v, beta, state=None):
    refuse(q.shape[:-1] == k.shape[:-1] == v.shape[:-1] == beta.shape)
    refuse(q.dtype == k.dtype == v.dtype == beta.dtype == torch.float64)
    want = (*k.shape[:-2], k.shape[-1], v.shape[-1])
    state = torch.zeros(want, dtype=q.dtype) if state is None else state
    refuse(state.shape == want and state.is_floating_point())
    read, eye = [], torch.eye(k.shape[-1], dtype=q.dtype)
    for i in range(k.shape[-2]):
        part = beta[..., i, None, None]
        keep = eye - part * torch.einsum("...d,...e->...de", k[..., i, :], k[..., i, :])
        state = keep @ state + part * torch.einsum("...d,...e->...de", k[..., i, :], v[..., i, :])
        read.append(torch.einsum("...d,...de->...e", q[..., i, :], state))
    return torch.stack(read, -2)


@st.composite
def with_state(draw):
    a = draw(unmasked(pairs=True))
    if a["q"].dtype in (torch.float32, torch.float64) and draw(st.booleans()):
        shape = (*a["k"].shape[:-2], a["k"].shape[-1], a["v"].shape[-1] + 1)
        a["state"] = draw(floats(shape, a["q"].dtype)).abs() + 0.1  # a sum of positive numbers
    return a


@st.composite
def with_beta(draw):
    a = draw(unmasked(pairs=True))
    a["k"] = a["k"] / a["k"].norm(dim=-1, keepdim=True).clamp(min=1)  # of length 1 at most
    a["beta"] = draw(floats(a["k"].shape[:-1], a["k"].dtype)).sigmoid()
    if a["q"].dtype in (torch.float32, torch.float64) and draw(st.booleans()):
        a["state"] = draw(
            floats((*a["k"].shape[:-2], a["k"].shape[-1], a["v"].shape[-1]), a["q"].dtype)
        )
    return a


CASES = {
    "feature_map": Case(nb.feature_map, scores(dim=False), lambda x: F.elu(x) + 1, "x"),
    "linear_attention": Case(
        nb.linear_attention, unmasked(pairs=True), right_linear, "q", finite=True
    ),
    "recurrent_attention": Case(
        lambda **a: nb.recurrent_attention(**a)[0], with_state(), right_linear, "q", finite=True
    ),
    "delta_rule": Case(
        lambda **a: nb.delta_rule(**a)[0], with_beta(), right_delta, "q", finite=True
    ),
}
