"""Every public function against PyTorch or plain Python, on inputs that nobody thought of.

A `Case` says how to draw arguments and what the right answer is. The right answer is worked out in
float64, and refuses (by any exception) arguments that have none; so one table serves both tests, of
good arguments and of bad ones.

If it fails: The message holds the arguments; `HYPOTHESIS_PROFILE=thorough` tries more.
Either the function or its `Case` in tests/properties/cases_<chapter>.py is wrong.
"""

import inspect
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import attention_nb as nb
import pytest
import torch
import torch.nn as nn
from attention_nb import multi_head_attention
from attention_nb.tools.testing import allocated
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close
from tests.properties import CASES
from tests.properties.common import DEVICE, TOLERANCE, Case, moved


def clear(a: dict[str, Any]) -> bool:
    """Whether a mask can be read in one way only: (n, n) for n sequences of n tokens is refused
    where it looks like padding.
    """
    mask, x = a.get("mask"), a.get("x", a.get("ids"))
    drawn = isinstance(mask, Tensor) and isinstance(x, Tensor)
    return not (
        drawn and mask.ndim == 2 and x.ndim > 1 and len(mask) == x.shape[0] == x.shape[1] > 1
    )


each_case = pytest.mark.parametrize("name", CASES)


# They have tests of their own.
OTHERS = ("attention_checks", "attention_nb.tools", "attention_nb.figures")


def test_every_public_function_has_its_properties():
    """Each public function, and each public method of a public class, has a `Case`.

    If it fails: Add one to `CASES` in tests/properties/cases_<chapter>.py:
    how to draw its arguments, and what is right.
    """
    public = {n for n in nb.__all__ if not getattr(nb, n).__module__.startswith(OTHERS)}
    for name in list(public):
        if inspect.isclass(getattr(nb, name)):
            # PyTorch's hook for repr
            public |= {
                f"{name}.{m}"
                for m in vars(getattr(nb, name))
                if not m.startswith("_") and m != "extra_repr"
            }
    lacking, extra = sorted(public - set(CASES)), sorted(set(CASES) - public)
    assert not lacking, (
        f"public, and without a Case in tests/properties/cases_<chapter>.py: {lacking}; "
        "say how to draw its arguments, and what is right"
    )
    assert not extra, f"in CASES, and not among the names of nbs/lookup/api.ipynb: {extra}"
    for name, case in CASES.items():
        for word in filter(None, [case.like, *case.also, *case.fixed]):
            assert word in (*parameters(name), *inspect.signature(case.fn).parameters), (
                f"{name} has no argument {word}"
            )


def parameters(name: str) -> list[str]:
    "The arguments of a function, method, property or class."
    value = nb
    for part in name.split("."):
        value = getattr(value, part)
    return list(inspect.signature(getattr(value, "fget", value)).parameters)


# Comparing


def in_double(value: Any) -> Any:
    return value.double() if isinstance(value, Tensor) and value.is_floating_point() else value


def tolerance(case: Case, dtype: torch.dtype) -> dict[str, float]:
    "How far from right a number of this type may be."
    dtype = torch.float32 if case.single and dtype == torch.float64 else dtype
    if case.widens and dtype in (torch.float16, torch.bfloat16):
        return {"rtol": torch.finfo(dtype).eps, "atol": 1e-6}
    return dict.fromkeys(("rtol", "atol"), 0 if case.exact else TOLERANCE.get(dtype, 0))


def as_precise_as(case: Case, a: dict[str, Any]) -> Case:
    "Angles of less than 64 bits are turned by in float32, as released models do."
    angles = a.get("angles")
    narrow = isinstance(angles, Tensor) and angles.dtype != torch.float64
    return replace(case, single=case.single or narrow)


def same(got: Any, want: Any, dtype: torch.dtype, case: Case) -> None:
    "Fail unless `got` is `want`, in numbers, shape and type."
    if isinstance(want, Tensor):
        assert isinstance(got, Tensor) and got.shape == want.shape, (
            f"expected shape {tuple(want.shape)}; got {got}"
        )
        if want.is_complex() and got.is_complex():
            got, want, dtype = (
                torch.view_as_real(got).double(),
                torch.view_as_real(want).double(),
                torch.float64,
            )
            return assert_close(got, want, atol=1e-4, rtol=1e-4, equal_nan=True)
        assert got.dtype == (dtype if want.is_floating_point() else want.dtype), (
            f"it has the type {got.dtype}"
        )
        if not want.is_floating_point():
            return assert_close(got, want, rtol=0, atol=0)
        assert_close(
            got.double(), want.to(dtype).double(), **tolerance(case, dtype), equal_nan=True
        )
    elif isinstance(want, (tuple, list)):
        assert type(got) is type(want) and len(got) == len(want), f"expected {want}; got {got}"
        for g, w in zip(got, want):
            same(g, w, dtype, case)
    elif isinstance(want, dict):
        assert got.keys() == want.keys(), f"expected {list(want)}; got {list(got)}"
        for key in want:
            same(got[key], want[key], dtype, case)
    else:
        both_nan = got != got and want != want
        assert (got == want or both_nan) and type(got) is type(want), (
            f"expected {want!r}; got {got!r}"
        )


def type_of_result(case: Case, a: dict[str, Any]) -> torch.dtype:
    like = a.get(case.like) if case.like else None
    if not isinstance(like, Tensor):
        return like if isinstance(like, torch.dtype) else torch.float32
    dtype = like.dtype
    for name, other in a.items():
        if name in ("positions", "angles", "log_decay"):  # they change rows, and leave their type
            continue
        # where types differ, the wider one is right
        if isinstance(other, Tensor) and other.dtype in TOLERANCE:
            dtype = torch.result_type(like.to(dtype), other)
    return dtype


def gradients(fn: Callable[..., Any], a: dict[str, Any], leaves: list[str]) -> tuple[Tensor, ...]:
    "The gradients of a random mix of all numbers that `fn` returns, for the arguments `leaves`."
    inputs = a | {name: a[name].detach().requires_grad_() for name in leaves}
    out = fn(**inputs)
    rng = torch.Generator().manual_seed(0)
    total = sum(
        (t.double() * torch.randn(t.shape, generator=rng, dtype=torch.float64)).sum()
        for t in (out if isinstance(out, tuple) else (out,))
        if isinstance(t, Tensor)
    )
    return torch.autograd.grad(
        total, [inputs[n] for n in leaves], allow_unused=True, materialize_grads=True
    )


def on_device(fn: Callable[..., Any], a: dict[str, Any]) -> Any:
    "What it gives, on the GPU if there is one; brought back."
    return fn(**a) if DEVICE == "cpu" else moved(fn(**moved(a, DEVICE)), "cpu")


# The tests


@each_case
@given(data=st.data())
def test_right_for_every_shape_dtype_mask_and_stride(name, data):
    """Numbers, types and gradients are those of PyTorch or plain Python;
    what goes in stays as it was.
    """
    case = CASES[name]
    a = data.draw(case.draw.filter(clear))
    before = {n: v.clone() for n, v in a.items() if isinstance(v, Tensor)}
    dtype, precise = type_of_result(case, a), {n: in_double(v) for n, v in a.items()}
    same(on_device(case.fn, a), case.want(**precise), dtype, case)
    for n, v in before.items():
        assert torch.equal(a[n], v), f"{n} was changed"
    leaves = [
        n
        for n, v in a.items()
        if isinstance(v, Tensor) and v.is_floating_point() and v.ndim and n != "bias"
    ]
    if leaves and case.like:
        got, want = gradients(case.fn, a, leaves), gradients(case.want, precise, leaves)
        for n, g, w in zip(leaves, got, want):
            tol = 4 * TOLERANCE[dtype]
            assert_close(
                g.double(), w, atol=tol, rtol=tol, msg=lambda m, n=n: f"the gradient of {n}: {m}"
            )


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", [n for n, case in CASES.items() if case.widens])
def test_sixteen_bits_are_widened(name, dtype):
    "On many numbers at once: one result that was rounded on the way, and one is seen."
    rng = torch.Generator().manual_seed(0)
    x, q, k, v = (
        torch.randn(shape, generator=rng).mul(3).to(dtype)
        for shape in ((2, 37, 41), (2, 37, 11), (2, 41, 11), (2, 41, 13))
    )
    a = {
        "x": x,
        "scores": x,
        "q": q,
        "k": k,
        "v": v,
        "scale": 0.3,
        "dim": -1,
        "mask": x > -3,
        "cap": 5.0,
        "sinks": torch.tensor([0.3, -1.0]).to(dtype),
        "block_size": 16,
    }
    a = {n: value for n, value in a.items() if n in parameters(name)}
    same(
        CASES[name].fn(**a),
        CASES[name].want(**{n: in_double(value) for n, value in a.items()}),
        dtype,
        CASES[name],
    )


PLAIN = [
    None,
    True,
    "a",
    b"a",
    "",
    0,
    -1,
    -3,
    1.5,
    math.nan,
    math.inf,
    1j,
    (),
    [],
    {},
    [1.5],
    [-1],
    [None],
    ["a"],
    [["a"]],
    [[1], [2, 3]],
    {"a": None},
    {1},
    [2**70],
    object(),
    len,
    int,
    torch.float32,
    torch.int64,
]
TYPES = [
    torch.int64,
    torch.uint8,
    torch.bool,
    torch.complex64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    torch.float8_e4m3fn,
]


@st.composite
def spoiled(draw, value: Any):
    "Something that does not belong in the place of `value`; now and then it does."
    if isinstance(value, Tensor) and draw(st.integers(0, 2)):
        dim = draw(st.integers(0, value.ndim - 1)) if value.ndim else 0
        ways = [
            lambda: value[None],
            lambda: value.flatten(),
            lambda: value.to(draw(st.sampled_from(TYPES))),
            lambda: value.tolist(),
            lambda: torch.stack([value, value]),
            lambda: value * math.nan,
            lambda: ~value,
        ]
        if value.ndim:
            ways += [
                lambda: value.select(dim, 0),
                lambda: value.narrow(dim, 0, 1),
                lambda: value.narrow(dim, 0, 0),
                lambda: torch.cat([value, value], dim),
                lambda: value.transpose(dim, -1),
                lambda: value.flatten()[0],
            ]
        try:
            return draw(st.sampled_from(ways))()
        # there is no ~ of a float, no first of nothing
        except (RuntimeError, TypeError, IndexError):
            return None
    if isinstance(value, Mapping) and draw(st.booleans()):
        bad = draw(
            st.sampled_from(
                [*PLAIN, *(torch.ones(s).to(t) for s in ((), (2,), (2, 2)) for t in TYPES)]
            )
        )
        return dict.fromkeys(value, bad)
    if type(value) is int and draw(st.integers(0, 2)):
        ways = [
            value + 1,
            value - 1,
            -value,
            float(value),
            str(value),
            torch.tensor(value),
            [value],
        ]
        return draw(st.sampled_from(ways))
    return draw(
        st.sampled_from([*PLAIN, *(torch.ones(s).to(t) for s in ((), (2,), (2, 2)) for t in TYPES)])
    )


def judge(
    name: str, a: dict[str, Any], wrong: list[str], fit: set[str] = frozenset()
) -> str | None:
    """What is wrong with how a function takes these arguments,
    of which `wrong` may be bad; None if nothing is.

    The arguments `fit` must fit each other, so an error may name one where another is bad.
    """
    case = as_precise_as(CASES[name], a)
    try:
        got = case.fn(**a)
    except (TypeError, ValueError) as error:
        words = {*wrong, *(case.also.get(w) for w in wrong), *(fit if fit & set(wrong) else ())} - {
            None
        }
        said = str(error).splitlines()[0] if str(error) else ""
        if re.match(rf"(?:[\w, ]+, )?(?:{'|'.join(words)})\b", said) or any(
            re.match(rf"\w+: .*\b{w}\b", said) for w in wrong
        ):
            return None
        return f"{type(error).__name__}, argument not named: {error}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    try:
        want = case.want(**{n: in_double(v) for n, v in a.items()})
    except Exception:
        return f"it accepts what has no right answer, and returns {got}"
    if case.finite and not all(v.isfinite().all() for v in a.values() if isinstance(v, Tensor)):
        return None
    try:
        same(got, want, type_of_result(case, a), case)
    except AssertionError as error:
        return f"it returns something wrong: {error}"
    return None


@pytest.mark.parametrize(
    "name", [n for n, case in CASES.items() if set(parameters(n)) - set(case.fixed)]
)
@given(data=st.data())
def test_bad_arguments_are_told_of(name, data):
    """Wrong types, ranks, sizes and values end in a right result,
    or in a ValueError or TypeError that names them.
    """
    a = dict(data.draw(CASES[name].draw.filter(clear)))
    names = sorted(set(a) - set(CASES[name].fixed))
    fit = {n for n in names if isinstance(a[n], Tensor)} | {n for n in names if n == "mask"}
    wrong = data.draw(st.lists(st.sampled_from(names), min_size=1, max_size=2, unique=True))
    for argument in wrong:
        a[argument] = data.draw(spoiled(a[argument]))
    complaint = judge(name, a, wrong, fit)
    if complaint:
        pytest.fail(f"{name}: {complaint}; {wrong} may be bad of {a}", pytrace=False)


@pytest.mark.parametrize("bias", [[["q_proj"]], [None], [], "q_proj", 1])
def test_names_of_projections_are_told(bias):
    "A list cannot be hashed: the error is still about `bias`."
    with pytest.raises(TypeError, match="bias: expected True, False or names of projections"):
        nb.MultiHeadAttention(6, 2, bias=bias)


_X, _B = torch.ones(2, 3, 3), torch.ones(2, 2, 3, 3, dtype=torch.bool)
_QKV = dict.fromkeys("qkv", _X)


@pytest.mark.parametrize(
    "name, a, wrong",
    [
        ("masked_softmax", {"scores": _X, "mask": _B, "dim": -1}, "mask"),
        ("scaled_dot_product_attention", {**_QKV, "mask": _B}, "mask"),
        ("fused_attention", {**_QKV, "mask": _B}, "mask"),
        ("naive_attention", {**_QKV, "mask": _B}, "mask"),
        ("attention_scores", {"q": _X, "k": _X[:1]}, "k"),
        (
            "from_torch_masks",
            {"attn_mask": _B[0], "key_padding_mask": _B[0, :1, 0], "n_heads": 1},
            "key_padding_mask",
        ),
        ("Vocab.decode", {"self": nb.Vocab(["a", "b"]), "ids": [-1]}, "ids"),
    ],
)
def test_nothing_broadcasts_or_wraps_in_silence(name, a, wrong):
    "The bad arguments that are easily drawn too seldom."
    assert judge(name, a, [wrong]) is None


@pytest.mark.parametrize("fewer", [1, 2])
def test_long_prefills_with_narrow_values_hold_no_scores(fewer):
    "As in latent attention: PyTorch's kernel in tiles takes keys and values of one width alone."
    n, d_k, d_v = 96, 12, 7
    rng = torch.Generator().manual_seed(0)
    shapes = (2, 4, n, d_k), (2, 4 // fewer, n, d_k), (2, 4 // fewer, n, d_v)
    q, k, v = (torch.randn(s, generator=rng, requires_grad=True) for s in shapes)
    rows = k.repeat_interleave(fewer, 1), v.repeat_interleave(fewer, 1)
    got = nb.fused_attention(q, k, v, causal=True)
    want, _ = nb.scaled_dot_product_attention(q, *rows, mask=nb.causal_mask(n))
    assert_close(got, want, atol=1e-5, rtol=1e-5)
    direction = torch.randn(got.shape, generator=rng)
    grads = (torch.autograd.grad(out, (q, k, v), direction) for out in (got, want))
    for one, other in zip(*grads):
        assert_close(one, other, atol=1e-4, rtol=1e-4)
    with torch.no_grad():
        held = allocated(lambda *qkv: nb.fused_attention(*qkv, causal=True), q, k, v)
        assert held.largest < len(q) * q.shape[1] * n * n / 4


def attends(n_q, n_k, **more):
    "Queries, keys and values, and a call with a mask, a bias, a window or a causal mask of them."
    rng = torch.Generator().manual_seed(0)
    q = torch.randn(2, 4, n_q, 6, generator=rng, requires_grad=True)
    k, v = (torch.randn(2, 2, n_k, 6, generator=rng, requires_grad=True) for _ in "kv")
    made = {
        "mask": lambda shape: torch.rand(shape, generator=rng) > 0.3,
        "bias": lambda shape: torch.randn(shape, generator=rng),
    }
    given = {name: made[name](x) if name in made else x for name, x in more.items()}
    return q, k, v, given


@pytest.mark.parametrize(
    "n_q, n_k, given",
    [
        (7, 12, {"causal": True}),
        (7, 7, {"causal": True, "mask": (7,)}),
        (7, 9, {"causal": True, "mask": (2, 1, 1, 9)}),
        (7, 9, {"mask": (2, 4, 7, 9)}),
        (7, 9, {"causal": True, "mask": (7, 1), "scale": 0.3}),
        (7, 12, {"window": 3}),
        (7, 7, {"window": 3, "causal": True, "mask": (7, 7)}),
        (9, 9, {"causal": True, "bias": (4, 9, 9)}),
        (9, 12, {"bias": (2, 1, 9, 1), "window": 4}),
        (9, 5, {"causal": True}),
    ],
)
def test_queries_one_block_after_another_give_the_same(n_q, n_k, given, monkeypatch):
    "Where the mask of all pairs would be large, as of a long chunk after others, or of a window."
    q, k, v, given = attends(n_q, n_k, **given)
    whole = multi_head_attention._by_rows(q, k, v, given)
    direction = torch.randn_like(whole)
    right = torch.autograd.grad(whole, (q, k, v), direction)
    monkeypatch.setattr(multi_head_attention, "_PAIRS", 4)
    monkeypatch.setattr(multi_head_attention, "_ROWS", 3)
    blocks = multi_head_attention._by_rows(q, k, v, given)
    assert_close(blocks, whole, atol=1e-5, rtol=1e-5)
    assert_close(torch.autograd.grad(blocks, (q, k, v), direction), right, atol=1e-5, rtol=1e-5)


def filled(kind: str) -> Any:
    "A cache of two sequences with 8 tokens, or with 5 and 8 if it is uneven."
    pages = nb.PagedCache(20, 4, 1, 4)
    made = {
        "rolling": lambda: nb.RollingCache(2, 1, 5, 4),
        "sinks": lambda: nb.RollingCache(2, 1, 5, 4, n_sinks=2),
        "static": lambda: nb.StaticCache(2, 1, 30, 4),
        "paged": lambda: pages.batch([pages.new(), pages.new()]),
    }
    name, _, uneven = kind.partition(" ")
    cache = made.get(name, lambda: nb.KVCache(2, 1, 30, 4))()
    rng = torch.Generator().manual_seed(1)
    cache.append(*torch.randn(2, 2, 1, 5, 4, generator=rng))
    more = torch.randn(2, 2, 1, 3, 4, generator=rng)
    if name == "paged":
        pages.append([1] if uneven else [0, 1], *(more[:, 1:] if uneven else more))
    elif uneven and name == "rolling":
        cache.truncate([3, 5])
    else:
        cache.append(*more)
        cache.truncate([5, 8] if uneven else 8)
    return cache


def prefilled(kind: str, **parts: Any) -> tuple[Tensor, ...]:
    "What a layer gives for eleven more tokens, and the gradients of them and of its parameters."
    torch.manual_seed(0)
    positions = {"alibi": nb.AlibiPositions(2), "t5": nb.RelativePositions(2, n_buckets=6)}
    parts["positions"] = positions.get(parts.get("positions"))
    layer, cache = nb.MultiHeadAttention(8, 2, n_kv_heads=1, **parts), filled(kind)
    for p in layer.parameters():
        nn.init.normal_(p)
    x = torch.randn(2, 11, 8, requires_grad=True)
    hidden = torch.ones(2, 1, 1, 30 if "static" in kind else 19, dtype=torch.bool)
    hidden[1, ..., 7] = False
    mask = hidden if kind.partition(" ")[0] in ("plain", "static") else None
    out, _ = layer(x, mask=mask, cache=cache)
    direction = torch.randn_like(out)
    return out, *torch.autograd.grad(out, (x, *layer.parameters()), direction)


@pytest.mark.parametrize("parts", [{}, {"window": 4}, {"positions": "alibi"}, {"positions": "t5"}])
@pytest.mark.parametrize(
    "kind",
    ["plain", "plain uneven", "static", "static uneven", "rolling", "rolling uneven", "sinks"]
    + ["paged", "paged uneven"],
)
def test_caches_take_a_long_prompt_block_by_block(kind, parts, monkeypatch):
    "The mask of a cache, and a bias by position, made for some queries at a time."
    whole = prefilled(kind, **parts)
    monkeypatch.setattr(multi_head_attention, "_PAIRS", 4)
    monkeypatch.setattr(multi_head_attention, "_ROWS", 3)
    for got, want in zip(prefilled(kind, **parts), whole):
        assert_close(got, want, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(
    "kind, parts, before",
    [
        ("plain", {}, 1500),
        ("plain", {"window": 64}, 0),
        ("plain", {"window": 64}, 1500),
        ("plain", {"positions": nb.AlibiPositions(2)}, 0),
        ("plain", {"positions": nb.AlibiPositions(2)}, 1500),
        ("uneven", {}, 20),
        ("static", {}, 0),
        ("rolling", {}, 1500),
        ("rolling", {"window": 100}, 20),
        ("paged", {}, 20),
    ],
)
def test_long_inputs_hold_no_mask_of_all_pairs(kind, parts, before):
    "With a cache of each kind; with a window, with a bias for each pair."
    n, layer = 3000, nb.MultiHeadAttention(8, 2, **parts)
    pages = nb.PagedCache(500, 16, 2, 4)
    caches = {
        "static": lambda: nb.StaticCache(2, 2, 4 * n, 4),
        "rolling": lambda: nb.RollingCache(2, 2, 64 + 2 * n * bool(layer.window), 4, n_sinks=2),
        "paged": lambda: pages.batch([pages.new(), pages.new()]),
    }
    x, cache = torch.randn(2, n, 8), caches.get(kind, lambda: nb.KVCache(2, 2, n + before, 4))()
    with torch.no_grad():
        if before:
            layer(torch.randn(2, before, 8), cache=cache)
        if kind == "uneven":
            cache.truncate([10, before])
        if kind == "paged":
            pages.append([1], *torch.randn(2, 1, 2, 3, 4))
        held = allocated(lambda x: layer(x, cache=cache)[0], x)
    # a mask of all pairs has a byte for each, and that twice where it differs by sequence
    assert held.largest < n * (n + before) * (4 if layer.positions else 1)


@pytest.mark.parametrize("lead", [(), (2,), (2, 2)])
def test_unbatched_inputs_and_masks_by_head_hold_no_scores(lead):
    "PyTorch's fused kernels take four dimensions; else it computes all scores."
    n, q = 512, torch.randn(*lead, 4, 512, 16)
    mask, bias = torch.rand(4, n, n) > 0.5, torch.randn(4, n, n)
    for asked in ({"causal": True}, {"mask": mask}, {"bias": bias}):
        hidden = nb.causal_mask(n) if "causal" in asked else asked.get("mask")
        want, _ = nb.scaled_dot_product_attention(q, q, q, hidden, bias=asked.get("bias"))
        assert_close(nb.fused_attention(q, q, q, **asked), want, atol=1e-5, rtol=1e-5)
        with torch.profiler.profile() as ran:
            nb.fused_attention(q, q, q, **asked)
        names = {event.name for event in ran.events()}
        assert "aten::_scaled_dot_product_attention_math" not in names, asked
