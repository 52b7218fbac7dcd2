"""What a report says of a cause and its repair is what helps: advice that was not tried is none."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
import torch.nn as nn
from tests.checks.finding import report_of

from attention_checks import Misused, check_self_attention
from attention_nb.multi_head_attention import merge_heads, split_heads

D, H, N = 24, 3, 9


class Layer(nn.Module):
    "Attention; what is made of the hidden states and of the scores is given."

    def __init__(self, before=lambda m, x: x, score=lambda m, scores: scores, **parts):
        super().__init__()
        torch.manual_seed(0)
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = (nn.Linear(D, D) for _ in range(4))
        self.before, self.score = before, score
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, x):
        x = self.before(self, x)
        q, k, v = (split_heads(p(x), H) for p in (self.q_proj, self.k_proj, self.v_proj))
        return self.o_proj(merge_heads(self.score(self, q @ k.mT / 8**0.5).softmax(-1) @ v))


def told(layer, **declared):
    "The report on a layer."
    return report_of(check_self_attention, layer, D, n_heads=H, **declared)


class Norm32(nn.LayerNorm):
    "A norm that computes in 32 bits, and gives back the type that it got."

    def forward(self, x):
        return super().forward(x.float()).to(x.dtype)


def test_a_norm_may_keep_its_weights_in_32_bits():
    assert told(Layer(lambda m, x: m.norm(x), norm=Norm32(D))).verdict == "sound"
    widened = Layer(lambda m, x: m.norm(x.float()), norm=nn.LayerNorm(D))
    assert told(widened, dtype="any").codes == ["dtype.widens"]


def kept(m, scores):
    "Add a bias, which evaluation computes once."
    if m.training or m.store is None:
        return scores + m.table
    if isinstance(m.store, SimpleNamespace):
        m.store.bias = getattr(m.store, "bias", m.table * 1)
        return scores + m.store.bias
    return scores + m.store.setdefault("bias", m.table * 1)


@pytest.mark.parametrize(
    "store, code",
    [(None, []), ({}, []), (SimpleNamespace(), ["state.graph"])],
)
def test_a_bias_that_evaluation_keeps_is_trained_all_the_same(store, code):
    layer = Layer(score=kept, table=nn.Parameter(torch.randn(H, N, N)), store=store)
    report = told(layer, positions=True, lengths=N, bias="table")
    assert report.codes == code and (code or report.verdict == "sound"), report
    assert not code or report.choices == ["gradients=False"]


class Needs(Layer):
    "It needs a second argument."

    def forward(self, x, cos):
        return super().forward(x) * cos[0, 0, 0, 0]


@pytest.mark.parametrize(
    "call, says",
    [
        (None, "declare how, call="),
        (lambda m, x: m(x), "check what call= hands it"),
        (lambda m, x: m(x, torch.ones(2)), "check what call= hands it"),
    ],
)
def test_who_has_said_how_it_is_called_is_not_told_to_say_it(call, says):
    (bug,) = told(Needs(), call=call).bugs
    assert says in bug


def test_an_error_is_a_likely_bug_with_its_cause():
    def fails(m, x):
        if x.shape[0] == 1:
            raise ValueError("one sequence is too few")
        return x

    report = told(Layer(lambda m, x: fails(m, x)))
    assert "one sequence is too few" in str(report)

    def fails_in_training(m, x):
        if m.training:
            raise ValueError("not here")
        return x

    (bug,) = told(Layer(fails_in_training)).bugs
    assert bug == "the code raises ValueError: not here"


@pytest.mark.parametrize(
    "declared, says",
    [
        (dict(bias=3), "bias: expected the name of a part of the layer; got 3"),
        (dict(empty="nan"), "empty: expected for check_attention, check_flash only"),
        (dict(no_such=1), "no_such: expected an argument of the check"),
        (dict(window=0), "window"),
    ],
)
def test_a_wrong_declaration_is_refused(declared, says):
    with pytest.raises(Misused, match=says.replace("(", r"\(")):
        check_self_attention(Layer(), D, n_heads=H, **declared)
