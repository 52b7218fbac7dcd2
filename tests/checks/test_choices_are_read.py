"""Each choice that a check takes changes something: what is called, what is right, or the verdict;
and what declares a bug is taken by a check that can name it.
"""

import functools
import inspect
import re
from contextlib import nullcontext

import pytest
import torch
import torch.nn as nn

import attention_checks
from attention_checks import Contract, check_attention, check_flash
from attention_checks.catalogue import CATALOGUE
from attention_checks.catalogue import whole_models
from attention_checks.distributed.running import rank_starter
from attention_checks.distributed.shards import Sharding, trial_of
from attention_checks.spec import READ_BY, declared
from attention_nb.multi_head_attention import merge_heads, split_heads
from attention_nb.positions import RotaryEmbedding, alibi_bias
from attention_nb.softmax import masked_softmax
from conftest import by_day
from tests.checks.finding import report_of

SEEN = set()  # shapes and types of what the code under test was given


def attend(q, k, v, mask=None):
    "Attention with a scale a little too large."
    SEEN.add((q.shape, q.dtype))
    return masked_softmax(1.1 * q @ k.mT / q.shape[-1] ** 0.5, mask) @ v


class Layer(nn.Module):
    "The same, with heads that share keys, and a dropout that is never applied."

    def __init__(self):
        super().__init__()
        self.q_proj, self.out_proj = nn.Linear(24, 24), nn.Linear(24, 24)
        self.k_proj, self.v_proj = nn.Linear(24, 12), nn.Linear(24, 12)
        self.dropout = 0.1

    def forward(self, x, memory=None, mask=None, causal=False):
        y = x if memory is None else memory
        q = split_heads(self.q_proj(x), 4)
        k, v = (split_heads(f(y), 2).repeat_interleave(2, 1) for f in (self.k_proj, self.v_proj))
        n_q, n_k = q.shape[-2], k.shape[-2]
        seen = torch.ones(n_q, n_k, dtype=torch.bool, device=x.device).tril(n_k - n_q)
        context = attend(q, k, v, seen if causal else None if mask is None else mask[:, None, None])
        return self.out_proj(merge_heads(context))


class Decoder(nn.Module):
    "A layer whose cache grows."

    def __init__(self):
        super().__init__()
        self.layer = Layer()

    def new_cache(self, b, n_max):
        return {}

    def forward(self, x, cache=None):
        old = (cache or {}).get("x")
        y = x if old is None else torch.cat([old, x], 1)
        if cache is not None:
            cache["x"] = y
        return self.layer(x, y, causal=True)


def twice(x, positions):
    "A rotation by angles a little too large."
    return RotaryEmbedding(8)(x, 1.002 * positions)


torch.manual_seed(0)
LAYER = Layer()
COARSE = lambda x, dim: 1.01 * x.softmax(dim)
SUBJECTS = {
    "check_attention": (attend,),
    "check_flash": (attend,),
    "check_self_attention": (LAYER, 24),
    "check_multi_head": (LAYER, 24),
    "check_cross_attention": (LAYER, 24, 24),
    "check_softmax": (COARSE,),
    "check_masked_softmax": (lambda s, m: 1.01 * masked_softmax(s, m),),
    "check_positions": (twice,),
    "check_agrees": (
        lambda x, dim: 1.0005 * x.softmax(dim).detach(),
        torch.softmax,
        (torch.randn(3, 5), -1),
    ),
    "check_cache": (Decoder(), 24),
    "check_distributed": (attend, "contiguous", False, 12, None, (1,)),
}
LAYERS = ("check_self_attention", "check_multi_head", "check_cross_attention")
VALUES = dict(
    causal=True,
    n_heads=2,
    n_kv_heads=1,
    positions=True,
    call=lambda module, *inputs: 2 * module(*inputs),
    only_attention=True,
    scale=0.5,
    softcap=2.0,
    roles={"q": "nothing"},
    norms={"q": "nothing", "k": "nothing"},
    mixing={"scores": "nothing"},
    prefix={"kv": "nothing"},
    projects=False,
    shortened={"kv": "nothing"},
    rotate=lambda x, positions: 2 * x,
    residual="nothing",
    value_scale=0.5,
    attend=lambda q, k, v: 2 * v[..., :1, :].expand(*q.shape[:-1], -1),
    activation="relu",
    gate="nothing",
    mask=False,
    window=3,
    ahead=1,
    documents=3,
    lengths=12,
    max_batch=2,
    group_order="tiled",
    fused_order="heads",
    dropout="none",
    empty="any",
    returns=1,
    gradients=False,
    device="meta",
    dtype="float64",
    tolerance=0.3,
)


def value_of(check, name):
    "A value that a check reads."
    if name == "skip":
        return outcome(check).codes
    if name == "tolerance" and check in ("check_cache", "check_agrees"):
        return 1e-9  # their numbers are right
    split = {
        "sinks": ("nothing", 1),
        "bias": ("nothing", lambda h, n_q, n_k: torch.arange(1.0 * n_k).expand(h, n_q, n_k)),
        "layout": ("nbd", "bnhd"),
    }
    return split[name][0 if check in LAYERS else 1] if name in split else VALUES[name]


def called(check, **choices):
    "A call of a check: of a layer with four heads, unless another number is chosen."
    usual = {"n_heads": 4} if check in LAYERS else {}
    return functools.partial(
        getattr(attention_checks, check), *SUBJECTS[check], **(usual | choices)
    )


def outcome(check, **choices):
    "The report of a check, or what it raises."
    SEEN.clear()
    try:
        return report_of(called(check, **choices))
    except Exception as e:
        return e


@functools.cache
def told_and_seen(check, **choices):
    "What a check reports, and what it has called the code with."
    return str(outcome(check, **choices)), frozenset(SEEN)


# Without it the choice changes nothing.
BESIDE = {"sinks": {"window": 3}, "only_attention": {"call": lambda module, x: x + module(x)}}
OF_RANKS = ("causal", "rotate", "scale", "softcap", "sinks", "window", "ahead", "documents")


def of_ranks(**choices):
    "What ranks should give."
    sharding = Sharding(contract=declared("check_distributed", **choices))
    return trial_of(sharding, 2, 12).right()[0]


@pytest.mark.parametrize("name", OF_RANKS)
def test_each_choice_of_ranks_changes_what_is_right(name):
    beside = BESIDE.get(name, {})
    other = of_ranks(**beside, **{name: value_of("check_distributed", name)})
    assert not other.equal(of_ranks(**beside))


# Where ranks start, they start from one process for all: each would import PyTorch.
TOGETHER = {"check_distributed": [pytest.mark.xdist_group("ranks of test_choices_are_read")]}
PAIRS = [
    pytest.param(check, name, marks=TOGETHER.get(check, ()))
    for check, names in READ_BY.items()
    for name in names
    if check != "check_distributed" or name not in OF_RANKS
    if (check, name) != ("check_positions", "causal")  # of a bias: test_check_positions.py
]


@pytest.fixture(scope="module")
def ranks():
    with rank_starter() as started:
        yield started


@pytest.mark.parametrize("check, name", by_day(PAIRS, 13))
def test_each_choice_is_read(check, name, request, monkeypatch):
    """With a choice a check calls the code in another way, or reports something else.

    If it fails: Read the choice, or take the check out of its row in attention_checks/spec.py.
    """
    if check == "check_distributed":
        started = nullcontext(request.getfixturevalue("ranks"))
        monkeypatch.setattr("attention_checks.api.rank_starter", lambda: started)
    beside = {key: v for key, v in BESIDE.get(name, {}).items() if key in READ_BY[check]}
    before = told_and_seen(check, **beside)
    chosen = {name: value_of(check, name)}
    assert (str(outcome(check, **beside, **chosen)), SEEN) != before


@pytest.mark.parametrize(
    "check, choice",
    [
        ("check_attention", {"dropout": "none"}),
        ("check_attention", {"group_order": "tiled"}),
        ("check_attention", {"layout": "nbd"}),
        ("check_attention", {"sinks": "nonsense"}),
        ("check_flash", {"bias": "nonsense"}),
        ("check_self_attention", {"empty": "nan"}),
        ("check_self_attention", {"layout": "bnhd"}),
        ("check_multi_head", {"sinks": 2}),
        ("check_attention", {"scale": "tau"}),
        ("check_cross_attention", {"empty": "nan"}),
        ("check_cross_attention", {"sinks": 3}),
    ],
)
def test_a_value_that_a_check_does_not_read_is_refused(check, choice):
    "The message has what was given, and a check that reads it."
    ((name, value),) = choice.items()
    says = rf"{name}: expected for check_\w+.* only; got {re.escape(repr(value))}"
    with pytest.raises(TypeError, match=says):
        called(check, **choice)()


@pytest.mark.parametrize("layout", ["bnd", "bhnd"])
def test_a_layout_that_says_nothing_is_refused(layout):
    for check in ("check_attention", "check_self_attention"):
        with pytest.raises(ValueError, match=f"layout: expected .*; got '{layout}'"):
            called(check, layout=layout)()


OF_FAMILY = {"cache": ["cache"], "rotary": ["positions"], "shares": ["distributed"]}
OF_FAMILY |= {"shards": ["distributed"], "ranks": ["distributed"]}
ANY = ["attention", "self_attention", "multi_head", "cross_attention"]


def test_what_declares_a_bug_is_taken_by_a_check_that_names_it():
    "A row of the catalogue names no keyword that its checks do not take."
    rows = [bug for bug in CATALOGUE.values() if bug.declare and bug not in whole_models.BUGS]
    assert len(rows) > 20
    for bug in rows:
        names = set(re.findall(r"(\w+)=", bug.declare))
        checks = OF_FAMILY.get(bug.code.partition(".")[0], ANY)
        taken = (getattr(attention_checks, f"check_{check}") for check in checks)
        assert any(names <= set(inspect.signature(check).parameters) for check in taken), bug


def test_a_check_names_no_declaration_that_it_does_not_take():
    "A masked softmax with NaN has the code of a function, whose `empty` it does not take."
    nan = lambda s, m: s.masked_fill(~m, -torch.inf).softmax(-1)
    report = report_of(attention_checks.check_masked_softmax, nan)
    assert "mask.empty_nan" in report.codes and not report.choices
    assert report_of(
        check_attention, lambda q, k, v, mask=None: nan_attention(q, k, v, mask)
    ).choices


def nan_attention(q, k, v, mask):
    scores = q @ k.mT / q.shape[-1] ** 0.5
    return (scores if mask is None else scores.masked_fill(~mask, -torch.inf)).softmax(-1) @ v


def alibi(q, k, v, sign=1):
    n_q, n_k = q.shape[-2], k.shape[-2]
    bias = sign * alibi_bias(q.shape[1], n_q, n_k).to(q.dtype)
    past = torch.ones(n_q, n_k, dtype=torch.bool).tril(n_k - n_q)
    scores = q @ k.mT / q.shape[-1] ** 0.5 + bias
    return scores.masked_fill(~past, -torch.inf).softmax(-1) @ v


def test_a_declared_bias_of_a_function_is_compared():
    undeclared = report_of(check_attention, alibi, causal=True)
    assert undeclared.codes == ["bias.undeclared"] and undeclared.choices == ["bias=…"]
    for causal in (True, "lower-right"):
        assert check_attention(alibi, causal=causal, bias=alibi_bias).compared == "the oracle"
    wrong = report_of(
        check_attention, lambda q, k, v: alibi(q, k, v, -1), causal=True, bias=alibi_bias
    )
    assert wrong.codes == ["bias.subtracted"]
    assert report_of(check_flash, alibi, causal=True, bias=alibi_bias).codes == ["flash.matrix"]
    with pytest.raises(attention_checks.Misused, match=r"bias: expected \(h, n_q, n_k\)"):
        check_attention(alibi, causal=True, bias=lambda h, n_q, n_k: torch.zeros(n_q, n_k))


def test_a_declared_name_of_a_mask_is_given_to_a_function():
    def hiding(q, k, v, unseen):
        return masked_softmax(q @ k.mT / q.shape[-1] ** 0.5, ~unseen) @ v

    assert check_attention(hiding, mask=("unseen", "blocked")).verdict == "sound"
    with pytest.raises(ValueError, match="mask: expected a parameter of hiding; got 'mask'"):
        check_attention(hiding, mask=("mask", "blocked"))


def test_growing_caches_another_base_and_minus_a_billion_say_what_declares_them():
    grows = report_of(attention_checks.check_cache, Decoder(), 24)
    assert set(grows.codes) == {"cache.copies", "cache.full_silent"}
    assert grows.choices == ["grows=True"]
    base = report_of(attention_checks.check_positions, RotaryEmbedding(8, 500000.0))
    assert "base=500000" in {failure.declare for failure in base.failed}

    def billion(q, k, v, mask=None):
        scores = q @ k.mT / q.shape[-1] ** 0.5
        return (scores if mask is None else scores.masked_fill(~mask, -1e9)).softmax(-1) @ v

    declared = {
        failure.declare for failure in report_of(check_attention, billion, dtype="any").failed
    }
    assert declared == {'empty="any"', 'dtype="float32"'}
    assert check_attention(billion, empty="any", dtype="float32").verdict == "sound"


@pytest.mark.parametrize("check", READ_BY)
def test_help_shows_each_choice(check):
    "In the signature and in the docstring; the contract's own docstring lists all."
    fn = getattr(attention_checks, check)
    for name in READ_BY[check]:
        assert name in inspect.signature(fn).parameters and f"\n        {name}: " in fn.__doc__
        assert f"\n    {name}: " in Contract.__doc__
    assert "design" not in fn.__doc__ and "design" not in inspect.signature(fn).parameters
