"""The cases of `softmax`: how to draw each function's arguments, and what is right."""

import attention_nb as nb
import torch
from hypothesis import strategies as st
from tests.properties.common import Case, masks, refuse, right_softmax, scores, weights


def right_jacobian(weights):
    refuse(weights.is_floating_point())
    n = weights.shape[-1]
    eye = torch.eye(n, dtype=torch.float64)
    return torch.stack(
        [
            torch.stack([weights[..., i] * (eye[i, j] - weights[..., j]) for j in range(n)], -1)
            for i in range(n)
        ],
        -2,
    )


def right_backward(weights, grad, dim=-1):
    refuse(weights.shape == grad.shape and weights.is_floating_point() and grad.is_floating_point())
    refuse(type(dim) is int)
    # what PyTorch's autograd calls
    return torch._softmax_backward_data(grad, weights, dim, torch.float64)


@st.composite
def masked_scores(draw):
    drawn = draw(scores(spread=(1.0, 0.0, 1e4)))
    return {"scores": drawn["x"], "mask": draw(masks(drawn["x"].shape)), "dim": drawn["dim"]}


CASES = {
    "naive_softmax": Case(nb.naive_softmax, scores(), right_softmax, "x", also={"x": "dim"}),
    "softmax": Case(
        nb.softmax, scores((1.0, 0.0, 1e4)), right_softmax, "x", also={"x": "dim"}, widens=True
    ),
    "entropy": Case(
        nb.entropy,
        weights(),
        lambda weights, dim: torch.special.entr(weights).sum(dim),
        "weights",
        also={"weights": "dim"},
    ),
    "logsumexp": Case(
        nb.logsumexp,
        scores((1.0, 0.0, 1e4)),
        lambda x, dim: x.logsumexp(dim),
        "x",
        also={"x": "dim"},
        widens=True,
    ),
    "masked_softmax": Case(
        nb.masked_softmax,
        masked_scores(),
        lambda scores, mask, dim: right_softmax(scores, dim, mask),
        "scores",
        also={"scores": "dim"},
        widens=True,
    ),
    "softmax_jacobian": Case(nb.softmax_jacobian, weights(dim=False), right_jacobian, "weights"),
    "softmax_backward": Case(
        nb.softmax_backward, weights(grad=True), right_backward, "weights", also={"weights": "dim"}
    ),
}
