"""Layers that are wrong in one way, and the code that each property gives them."""

import threading
from functools import partial

import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F

from attention_checks import Misused, check_self_attention
from attention_checks.properties.layers.masking import MASKING
from attention_checks.properties.layers.own_weights import OWN_WEIGHTS
from attention_checks.properties.layers.basics import CALLS, RUNS
from attention_checks.properties.layers.edges import EDGES
from attention_checks.properties.layers.training import TRAINING
from attention_checks.spec import Contract
from attention_checks.subjects.layer import adapt
from attention_nb.masks import causal_mask
from tests.checks.finding import codes_of, report_of
from tests.checks.heads import (
    NO_PROJECTIONS,
    Head,
    all_tokens,
    fails,
    masked,
    verdict,
    when,
    window,
)

ALL = [*RUNS, *OWN_WEIGHTS, *CALLS, *MASKING, *TRAINING, *EDGES]
RUN, FUTURE, LONGER = "it runs", "the future", "longer"


def table(*rows):
    "Rows (name, layer, expected code, declared) as cases with the name as id."
    return [
        pytest.param(make, code, dict(*declared), id=name) for name, make, code, *declared in rows
    ]


@pytest.fixture(autouse=True)
def seeded():
    "The same weights each time."
    torch.manual_seed(0)


def holds_of(name, make, code, declared):
    "Hold a property against the code expected."
    assert verdict(make(), ALL, name, **declared) == code


HEADS = {"n_heads": 4}
ITS_OUTPUT = "its output is what"


def ending(end, **more):
    "A head whose output projection is followed by something, of what it gave and x."
    return Head(lambda m, x: end(m.out(m.attend(x)), x), out=nn.Linear(6, 12), **more)


@pytest.mark.parametrize(
    "make, code, declared",
    table(
        ("nothing", lambda: Head(lambda m, x: None), "code.returns_nothing"),
        ("a string", lambda: Head(lambda m, x: "context"), "code.returns_no_tensor"),
        ("batch second", lambda: Head(lambda m, x: m.attend(x).transpose(0, 1)), "shape.rows"),
        ("inverted mask", lambda: masked(lambda n: ~causal_mask(n)), "mask.inverted_last"),
        ("no token itself", lambda: masked(window(9, -1)), "mask.not_itself_first"),
        (
            "softmax over the batch",
            lambda: Head(lambda m, x: m.scores(x).softmax(0) @ m.to_v(x)),
            "softmax.over_heads_or_batch",
        ),
        ("divided by 0", lambda: Head(lambda m, x: m.attend(x) / 0), "values.nan"),
        ("no such name", lambda: Head(lambda m, x: m.to_o(x)), "code.error"),
        ("at most 3", lambda: Head(when(lambda b, n: n < 4, fails)), "shape.only_length", HEADS),
        ("only 32", lambda: Head(when(lambda b, n: n == 32, fails)), "shape.only_length", HEADS),
        ("never", lambda: Head(fails), "shape.input", HEADS),
        ("another input", lambda: lambda x, other: other.no_such, "shape.arguments"),
        ("keyword only", lambda: lambda x, *, language: x, "shape.call"),
    ),
)
def test_runs(make, code, declared):
    holds_of(RUN, make, code, declared)


@pytest.mark.parametrize("pool", [lambda y: y.mean(1), lambda y: y[:, :1]])
def test_a_layer_that_pools_is_refused_in_words(pool):
    with pytest.raises(Misused, match="one vector for each token; got .* one for each sequence"):
        check_self_attention(Head(lambda m, x: pool(m.attend(x))), 12)


def test_what_follows_the_output_projection_is_told():
    report = report_of(
        check_self_attention, ending(lambda y, x: F.layer_norm(y + x, (12,))), 12, causal=True
    )
    assert "what follows the output projection was compared with nothing" in str(report)
    assert report.verdict == "sound" and ITS_OUTPUT not in "".join(report.passed)


@pytest.mark.parametrize(
    "name, make, code, declared",
    [
        pytest.param(name, make, code, dict(*declared), id=case)
        for case, name, make, code, *declared in (
            (
                "over the batch",
                "sequences of a batch",
                lambda: Head(lambda m, x: m.attend(x.transpose(0, 1)).transpose(0, 1)),
                "batch.axes",
            ),
            (
                "squeezed",
                "one token, one",
                lambda: Head(lambda m, x: m.attend(x).squeeze()),
                "length.size",
            ),
            (
                "as_strided",
                "inputs are",
                lambda: Head(
                    lambda m, x: m.attend(x.as_strided(x.shape, (x.shape[1] * 12, 12, 1)))
                ),
                "memory.strides",
            ),
            (
                "view",
                "inputs are",
                lambda: Head(lambda m, x: m.attend(x.view(-1).view(x.shape))),
                "memory.contiguous",
            ),
            (
                "exponential overflows",
                "large inputs",
                lambda: Head(lambda m, x: m.attend(x) + (x / 6).exp().amax(-1, True)),
                "softmax.overflows",
            ),
            (
                "beyond 65504",
                "float16",
                lambda: Head(lambda m, x: m.attend(x) * 1e6 / 1e6),
                "dtype.overflows",
            ),
            (
                "loses precision",
                "float16",
                lambda: Head(lambda m, x: (m.attend(x) + 300) - 300),
                "dtype.loses",
            ),
            (
                "float32 comes back",
                "float16",
                lambda: Head(lambda m, x: m.attend(x).float()),
                "dtype.other",
            ),
            (
                "sums of returned weights",
                "weights that",
                lambda: Head(
                    lambda m, x: (
                        m.attend(x),
                        m.scores(x).softmax(-1) * (torch.arange(5) != 1) / 0.8,
                    )
                ),
                "weights.returned_sums",
            ),
            (
                "nothing in common with a softmax",
                "it agrees",
                lambda: Head(
                    lambda m, x: m.a(x).mean(1, True).expand(-1, x.shape[1], -1),
                    **NO_PROJECTIONS | {"a": nn.Linear(12, 6)},
                ),
                "values.linear",
            ),
            ("doubled", ITS_OUTPUT, lambda: ending(lambda y, x: 2 * y), "project.scaled"),
            ("a residual", ITS_OUTPUT, lambda: ending(lambda y, x: y + x), "holds"),
            ("a ReLU", ITS_OUTPUT, lambda: ending(lambda y, x: y.relu()), "not tried"),
            (
                "a ReLU in attention alone",
                ITS_OUTPUT,
                lambda: ending(lambda y, x: y.relu()),
                "project.more",
                {"only_attention": True},
            ),
            (
                "a gain of its own",
                ITS_OUTPUT,
                lambda: ending(lambda y, x: 2 * y, gain=nn.Parameter(torch.ones(1))),
                "not tried",
            ),
            (
                "a gain of its own in attention alone",
                ITS_OUTPUT,
                lambda: ending(lambda y, x: y * 2.5, gain=nn.Parameter(torch.ones(1))),
                "project.more",
                {"only_attention": True},
            ),
            ("nothing is projected", ITS_OUTPUT, Head, "holds"),
            ("three tokens, undeclared", "it agrees", lambda: masked(window(3)), "mask.window"),
        )
    ],
)
def test_properties(name, make, code, declared):
    holds_of(name, make, code, declared)


@pytest.mark.parametrize(
    "make, code, declared",
    table(
        ("no mask", lambda: masked(all_tokens), "mask.leaks"),
        (
            "-80 for minus infinity",
            lambda: Head(lambda m, x: m.scores(x).clamp(min=-80).softmax(-1) @ m.to_v(x)),
            "mask.leaks_if_large",
        ),
        (
            "batch normalisation",
            lambda: Head(lambda m, x: m.attend(m.norm(x.mT).mT), norm=nn.BatchNorm1d(12)),
            "mode.batch_norm",
        ),
    ),
)
def test_future(make, code, declared):
    holds_of(FUTURE, make, code, declared)


@pytest.mark.parametrize(
    "size, seen, code",
    [
        (7, 7, "not tried"),
        (7, 8, "window.size"),
        (7, 6, "window.size"),
        (7, 99, "window.ignored"),
        (7, 3, "window.size"),
        (4, 4, "not tried"),
        (4, 5, "window.size"),
        (4, 99, "window.ignored"),
        (500, 500, "holds"),
    ],
)
def test_a_declared_window_is_measured_also_where_the_usual_trial_is_too_short(size, seen, code):
    assert verdict(masked(window(seen)), MASKING, "every token", window=size) == code


def longer(mask, **more):
    "Causal for five tokens; beyond, another mask."
    return masked(lambda n: causal_mask(n) if n < 6 else mask(n), **more)


@pytest.mark.parametrize(
    "make, code, declared",
    table(
        ("any length", Head, "holds"),
        ("cut", lambda: Head(lambda m, x: m.attend(x[:, :23])), "length.tokens"),
        (
            "one more is attended to",
            lambda: longer(lambda n: causal_mask(n) | (torch.arange(n) == 10) & (n > 9)),
            "length.future",
        ),
        ("seven tokens", lambda: longer(window(7)), "window.narrow"),
        (
            "twice as large",
            lambda: Head(lambda m, x: m.attend(x) * (2 if x.shape[1] > 20 else 1)),
            "length.long+values.scaled",
        ),
        ("seven tokens, and a setting", lambda: longer(window(7), chunk=7), "window.narrow"),
        ("n_local_heads is no window", lambda: longer(window(7), n_local_heads=1), "window.narrow"),
        ("eight sequences", lambda: Head(when(lambda b, n: b <= 8, fails)), "holds"),
    ),
)
def test_long_sequences(make, code, declared):
    holds_of(LONGER, make, code, declared)


class Takes(nn.Module):
    "Attention that takes one mask, named as given."

    def __init__(self, name, use):
        super().__init__()
        self.to_q, self.to_k, self.to_v = (nn.Linear(12, 6) for _ in range(3))
        self.use = use
        scope = {}
        exec(f"def forward(self, x, {name}=None): return self.attend(x, {name})", scope)
        self.forward = scope["forward"].__get__(self)

    def attend(self, x, mask):
        scores = self.to_q(x) @ self.to_k(x).mT / 6**0.5
        return (scores if mask is None else self.use(scores, mask)).softmax(-1) @ self.to_v(x)


def hidden(scores, mask):
    return scores.masked_fill(mask[:, None].expand(scores.shape), -torch.inf)


@pytest.mark.parametrize(
    "name, use, code",
    [
        ("src_padding_mask", hidden, "holds"),
        ("src_padding_mask", lambda s, mask: s, "mask.ignored"),
        ("mask", lambda s, m: s.masked_fill(~m.mT, -torch.inf), "mask.transposed"),
        ("mask", lambda s, m: s.masked_fill(~m, -1e9), "dtype.no_infinity"),
        # what is hidden has no influence, but the rest is not as alone: a meaning of its own
        ("mask", lambda s, m: hidden(s, m) / 2, "not tried"),
        ("key_padding_mask", lambda s, m: hidden(s, m) / 2, "mask.padding"),
        ("head_mask", lambda s, m: 1 / 0, "not tried"),
        ("additional_kv_mask", lambda s, m: s, "not tried"),  # for an input that was not given
    ],
)
def test_masks(name, use, code):
    assert verdict(Takes(name, use), MASKING, "what its own", causal=False) == code


def of_queries(scores, mask):
    "The mask hides queries, not keys."
    return scores.masked_fill(~mask[:, :, None], -1e4)


def test_a_mask_of_which_no_meaning_fits_must_be_declared():
    report = report_of(check_self_attention, Takes("mask", of_queries), 12)
    assert report.verdict == "not compared" and "declare mask=('mask', …)" in report.missing


@pytest.mark.parametrize(
    "name, declared",
    [("pad_mask", None), ("src_padding_mask", None), ("mask", ("mask", "allowed"))],
)
def test_a_mask_that_is_applied_to_queries_is_told_as_that(name, declared):
    layer = Takes(name, of_queries)
    assert codes_of(check_self_attention, layer, 12, mask=declared) == ["mask.axis"]


def test_an_argument_that_may_be_a_mask_is_told_by_its_name():
    report = report_of(check_self_attention, Takes("valid_lens", lambda s, mask: s), 12)
    assert any("its argument valid_lens was not tried" in why for _, why, _ in report.notes)


class AtPositions(Takes):
    "It cannot be called without positions."

    def __init__(self, use):
        super().__init__("mask", use)
        self.forward = lambda x, positions, mask=None: self.attend(x, mask)


@pytest.mark.parametrize(
    "use, call, code",
    [
        (hidden, lambda m, x: m(x, 0), "holds"),
        (hidden, lambda m, x: m(x, 0, mask=None), "holds"),
        (lambda s, m: s, lambda m, x: m(x, 0), "mask.ignored"),
        (hidden, lambda m, x: m.attend(x, None), "not tried"),  # not by way of the module
        (hidden, lambda m, x: m(x, 0, None), "holds"),
    ],
)
def test_a_mask_is_tried_also_where_call_says_how(use, call, code):
    layer = AtPositions(use)
    assert verdict(layer, MASKING, "what its own", causal=False, call=call) == code


class CachedInside(Head):
    "An inference layer: keys and values are kept in buffers for 8 sequences, with their graph."

    def __init__(self):
        super().__init__()
        for name in ("k", "v"):
            self.register_buffer(name, torch.zeros(8, 64, 6), persistent=False)

    def forward(self, x):
        b, n, _ = x.shape
        self.k[:b, :n], self.v[:b, :n] = self.to_k(x), self.to_v(x)
        k, v = self.k[:b, :n], self.v[:b, :n]
        return F.scaled_dot_product_attention(self.to_q(x), k, v, is_causal=True)


class Registered(Head):
    "As Keras does, each parameter is registered a second time, in a list of the whole layer."

    def __init__(self):
        super().__init__()
        self.all = nn.ParameterList(self.parameters())


@pytest.mark.parametrize(
    "make",
    [
        lambda: Head(lock=threading.Lock()),
        CachedInside,
        Registered,
        lambda: Head(n_local_heads=1, dropout=0.0),
    ],
    ids=["a lock", "a cache inside", "registered twice", "local heads"],
)
def test_right_layers_fail_nothing(make):
    layer = make()
    verdicts = {row.name: verdict(layer, ALL, row.name) for row in ALL if _asked(row)}
    assert set(verdicts.values()) <= {"holds", "not tried"}, verdicts
    assert verdicts["it agrees with attention computed from its own weights"] == "holds"


def _asked(row):
    "Whether a causal layer promises it."
    return row.applies(adapt(Head(), 12, Contract(causal=True)))


def drops(way, **more):
    return Head(lambda m, x: way(m, x) if m.training else m.attend(x), **more)


@pytest.mark.parametrize(
    "make, code, declared",
    table(
        ("set, not applied", lambda: Head(dropout=0.25), "dropout.never"),
        ("another path", lambda: drops(lambda m, x: 2 * m.attend(x)), "mode.differs"),
        (
            "before the softmax",
            lambda: Head(
                lambda m, x: m.drop(m.scores(x)).softmax(-1) @ m.to_v(x), drop=nn.Dropout(0.02)
            ),
            "dropout.biased",
        ),
        (
            "of a few numbers of the input",
            lambda: Head(lambda m, x: m.attend(m.drop(x)), drop=nn.Dropout(0.02)),
            "holds",
        ),
        (
            "of all but dropout's own scores",
            lambda: drops(
                lambda m, x: m.attend(x) * (torch.rand(*x.shape[:2], 1) > m.drop), drop=0.25
            ),
            "dropout.biased",
        ),
        (
            "a ReLU after it",
            lambda: Head(lambda m, x: m.d(m.attend(x)).relu(), d=nn.Dropout(0.2)),
            "not tried",
        ),
        (
            "a ReLU after fused attention that drops",
            lambda: Head(
                lambda m, x: F.scaled_dot_product_attention(
                    *(p(x) for p in (m.to_q, m.to_k, m.to_v)), None, 0.3 * m.training
                ).relu()
            ),
            "not tried",
        ),
        (
            "twice, of weights and of outputs",
            lambda: Head(
                lambda m, x: m.d(m.d(m.scores(x).softmax(-1)) @ m.to_v(x)), d=nn.Dropout(0.2)
            ),
            "holds",
        ),
        (
            "eight sequences",
            lambda: Head(
                lambda m, x: m.d(m.attend(x)) if len(x) <= 8 else 1 / 0, d=nn.Dropout(0.2)
            ),
            "holds",
        ),
    ),
)
def test_dropout(make, code, declared):
    holds_of("training gives", make, code, declared)


class Buffered(nn.Module):
    def __init__(self, weight):
        super().__init__()
        self.register_buffer("W_q", weight)

    def forward(self, x):
        return x.cumsum(1) + 0 * (x @ self.W_q)[..., :1]


@pytest.mark.parametrize(
    "make, code, declared",
    table(
        ("in a dict", lambda: Head(more={"a": (nn.Linear(2, 2),)}), "parameter.unregistered"),
        ("in a buffer", lambda: Buffered(torch.randn(12, 6)), "parameter.none"),
        ("not used", lambda: Head(gate=nn.Linear(12, 6)), "parameter.unused"),
        ("detached", lambda: Head(lambda m, x: m.attend(x).detach()), "grad.none"),
        ("frozen", lambda: Head().requires_grad_(False), "not tried"),
    ),
)
def test_parameters(make, code, declared):
    holds_of("every parameter", make, code, declared)


def with_edges(m, x, of=lambda m, edges: m.edges(edges)):
    "Give back, besides the output, what a parameter makes of something for each two tokens."
    made = of(m, (x[:, :, None] - x[:, None])[..., :4])
    return (m.attend(x), made) if m.first else (made, m.attend(x))


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize(
    "of, code",
    [
        (lambda m, edges: m.edges(edges), "holds"),
        (lambda m, edges: m.edges(edges).mean((1, 2)), "holds"),
        (lambda m, edges: m.edges(edges).detach(), "parameter.unused"),
    ],
)
def test_what_makes_another_output_is_trained(of, code, first):
    layer = Head(partial(with_edges, of=of), edges=nn.Linear(4, 3), first=first)
    returns = None if first else 1
    assert verdict(layer, TRAINING, "every parameter", returns=returns) == code


def test_the_same_layer_twice_is_tied():
    one = nn.Linear(12, 6)
    assert verdict(Head(to_q=one, to_k=one), TRAINING, "no two") == "parameter.tied"


def grows(m, x):
    m.register_buffer("mask", causal_mask(x.shape[1]))
    return m.attend(x)


@pytest.mark.parametrize(
    "make, code, declared",
    table(
        ("all is there", Head, "holds"),
        ("a buffer comes in forward", lambda: Head(grows), "state.grows"),
    ),
)
def test_state(make, code, declared):
    holds_of("calls add nothing", make, code, declared)


def positions(m, x):
    return m.attend(x, all_tokens) + m.pos[: x.shape[1]]


@pytest.mark.parametrize(
    "positions_declared, code", [(None, "not tried"), (True, "not tried"), (False, "order.matters")]
)
def test_order(positions_declared, code):
    layer = Head(positions, pos=nn.Parameter(torch.randn(64, 6)))
    declared = {"positions": positions_declared, "causal": False}
    assert verdict(layer, MASKING, "reordering", **declared) == code


def test_order_makes_no_difference_though_positions_were_declared():
    layer = Head(pos=nn.Parameter(torch.randn(64, 6)))
    assert verdict(layer, MASKING, "the order of", positions=True) == "order.never"


@pytest.mark.parametrize(
    "use, mask, code",
    [
        (hidden, "blocked", "holds"),
        (hidden, ("mask", "blocked"), "holds"),
        (hidden, False, "not tried"),
    ],
)
def test_a_declared_mask_is_not_guessed(use, mask, code):
    layer = Takes("mask", use)
    assert verdict(layer, MASKING, "what its own", causal=False, mask=mask) == code


def test_a_mask_that_means_the_opposite_of_what_was_declared_does_not_hold():
    declared = {"causal": False, "mask": "allowed"}
    assert verdict(Takes("mask", hidden), MASKING, "what its own", **declared) != "holds"


class OverTheBatch(nn.Module):
    "batch_first was forgotten."

    def __init__(self):
        super().__init__()
        self.attn = nn.MultiheadAttention(12, 2)

    def forward(self, x):
        return self.attn(x, x, x, need_weights=False)[0]


def test_a_named_cause_has_no_symptoms_beside_it():
    assert codes_of(check_self_attention, OverTheBatch(), 12, positions=False) == ["batch.axes"]


def test_a_mask_that_is_not_declared_is_not_tried_where_the_future_is_hidden():
    declared = {"causal": True}
    use = lambda scores, mask: scores
    assert verdict(Takes("mask", use), MASKING, "what its own", **declared) == "not tried"


@pytest.mark.parametrize("returns", [1, lambda result: result[1]])
def test_the_output_is_where_it_was_declared(returns):
    layer = Head(lambda m, x: (m.scores(x), m.attend(x)))
    assert verdict(layer, OWN_WEIGHTS, "it agrees", returns=returns) == "holds"


def test_gradients_that_were_not_promised_are_not_tried():
    name = "every parameter is registered and receives a gradient"
    for promised in (True, False):
        report = report_of(check_self_attention, Head(), 12, causal=True, gradients=promised)
        assert (name in report.passed) is promised and "no two parameters are one" in report.passed


OWN = "every token reaches"


@pytest.mark.parametrize(
    "mask, code, causal",
    [
        (lambda n: window(9, -1)(n) | (torch.arange(n) == 0), "mask.not_itself", True),
        (lambda n: causal_mask(n).T, "mask.narrow", True),
        (causal_mask, "mask.causal_unasked", False),
    ],
)
def test_tokens_that_a_mask_hides_by_mistake(mask, code, causal):
    assert verdict(masked(mask), MASKING, OWN, causal) == code


def test_a_query_that_may_attend_to_nothing_in_long_sequences():
    def mask(n):
        return causal_mask(n) & ((torch.arange(n) < n - 1) | (n < 7))[:, None]

    assert verdict(masked(mask), MASKING, LONGER) == "values.nan_row"


def test_numbers_that_fit_no_known_bug():
    assert verdict(Head(lambda m, x: m.attend(x) ** 3), OWN_WEIGHTS, "it agrees") == "layer.unknown"


class Shared(nn.Module):
    "One head of keys and values, which three query heads share: repeated along an axis."

    def __init__(self, repeat):
        super().__init__()
        self.q_proj, self.out_proj = nn.Linear(24, 24), nn.Linear(24, 24)
        self.k_proj, self.v_proj, self.repeat = nn.Linear(24, 8), nn.Linear(24, 8), repeat

    def forward(self, x):
        q = self.q_proj(x).unflatten(-1, (3, 8)).transpose(1, 2)
        k, v = (self.repeat(project(x)[:, None]) for project in (self.k_proj, self.v_proj))
        context = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out_proj(context.transpose(1, 2).flatten(2))


@pytest.mark.parametrize("repeat, codes", [(lambda t: t.repeat_interleave(3, 1), [])])
def test_heads_repeated_along_the_tokens_are_named(repeat, codes):
    layer = Shared(repeat)
    assert codes_of(check_self_attention, layer, 24, n_heads=3, causal=True) == codes


def ahead(n, back, more):
    distance = torch.arange(n) - torch.arange(n)[:, None]
    return (distance > -back) & (distance <= more)


@pytest.mark.parametrize(
    "declared, seen, codes",
    [
        ((3, 1), (3, 1), []),
        ((3, 1), (3, 2), ["window.band"]),
        ((3, 1), (2, 1), ["window.band"]),
        ((3, 1), (3, 0), ["window.band"]),
        ((3, 1), (99, 99), ["window.ignored"]),
        ((None, 1), (99, 1), []),
        ((None, 1), (99, 2), ["window.band"]),
        ((9, 5), (9, 5), []),
        ((9, 5), (9, 6), ["window.band"]),
        ((9, 5), (8, 5), ["window.band"]),
    ],
)
def test_a_layer_that_sees_ahead(declared, seen, codes):
    "Its window is compared, and measured: how far it sees back, and how far ahead."
    layer = masked(lambda n: ahead(n, *seen))
    window, more = declared
    how = dict(window=window, ahead=more, positions=False)
    report = report_of(check_self_attention, layer, 12, **how)
    assert set(codes) <= set(report.codes), report
    assert codes or report.verdict == "sound"


@pytest.mark.parametrize("seen", [2, 3])
def test_the_size_of_a_declared_window_is_fitted(seen):
    assert codes_of(check_self_attention, masked(window(4)), 12, window=4, positions=False) == []
    report = report_of(check_self_attention, masked(window(seen)), 12, window=4)
    assert report.codes == ["window.size"] and f"attends to {seen} tokens" in report.bugs[0]


class OneTensor(nn.MultiheadAttention):
    "A subclass that demands all three, and returns the output alone."

    def forward(self, query, key=None, value=None, attn_mask=None):
        if key is None:
            raise ValueError("key and value must be given")
        return super().forward(query, key, value, attn_mask=attn_mask, need_weights=False)[0]


@pytest.mark.parametrize("batch_first", [True, False])
def test_a_subclass_of_torchs_layer_may_return_the_output_alone(batch_first):
    layer = OneTensor(24, 3, batch_first=batch_first)
    report = report_of(check_self_attention, layer, 24, mask=("attn_mask", "blocked"))
    assert report.verdict == "sound", report
