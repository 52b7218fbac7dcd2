"""The cases of `cost`: how to draw each function's arguments, and what is right."""

import math

import attention_nb as nb
import torch
from hypothesis import strategies as st
from tests.properties.common import Case, args, refuse, sizes, whole


def right_pairs(n_q, n_k, causal=False, window=None):
    whole(n_q, n_k, *([] if window is None else [window]))
    refuse(isinstance(causal, bool))
    near = n_k if window is None else window
    seen = [(i, j) for i in range(n_k - n_q, n_k) for j in range(n_k)]
    return (
        len([1 for i, j in seen if i - near < j <= i])
        if causal or window is not None
        else len(seen)
    )


def right_attention_cost(
    n_q, n_k, n_heads, d_k, d_v=None, cached=None, b=1, bits=16, causal=False, window=None, passes=0
):
    d_v = d_k if d_v is None else d_v
    whole(n_heads, d_k, d_v, b, bits, *([] if cached is None else [cached]))
    whole(passes, least=0)
    reached = n_k if window is None else min(n_k, n_q + window - 1)
    numbers = (
        reached * (n_heads * (d_k + d_v) if cached is None else cached)
        + n_heads * n_q * (d_k + d_v)
        + passes * n_heads * n_q * n_k
    )
    pairs = right_pairs(n_q, n_k, causal, window)
    return 2 * b * n_heads * pairs * (d_k + d_v), math.ceil(b * numbers * bits / 8)


def right_projection_cost(n, d_model, n_heads, d_head=None, n_kv_heads=None, b=1, bits=16):
    whole(
        n, d_model, n_heads, b, bits, *(size for size in (d_head, n_kv_heads) if size is not None)
    )
    refuse(d_head is not None or d_model % n_heads == 0)
    d_head, n_kv_heads = d_head or d_model // n_heads, n_kv_heads or n_heads
    refuse(n_heads % n_kv_heads == 0)
    shapes = [
        (d_model, n_heads * d_head),
        (d_model, n_kv_heads * d_head),
        (d_model, n_kv_heads * d_head),
        (n_heads * d_head, d_model),
    ]
    numbers = sum(i * o + b * n * (i + o) for i, o in shapes)
    return sum(2 * b * n * i * o for i, o in shapes), math.ceil(numbers * bits / 8)


def right_exponent(sizes, counts):
    x, y = (torch.as_tensor(row, dtype=torch.float64) for row in (sizes, counts))
    refuse(
        x.ndim == y.ndim == 1
        and len(x) == len(y)
        and bool((x > 0).all() and (y > 0).all() and x.isfinite().all() and y.isfinite().all())
    )
    refuse(len(x.unique()) > 1)
    a = torch.stack([x.log(), torch.ones_like(x)], -1)
    return round(float(torch.linalg.lstsq(a, y.log()[:, None]).solution[0]), 3)


def right_seconds(operations, moved, peak, bandwidth):
    for number in (operations, moved, peak, bandwidth):
        refuse(
            isinstance(number, (int, float))
            and not isinstance(number, bool)
            and 0 <= number < math.inf
        )
    return max(operations / peak, moved / bandwidth)


CASES = {
    "count_pairs": Case(
        nb.count_pairs,
        args(n_q=sizes, n_k=sizes, causal=st.booleans(), window=st.none() | sizes),
        right_pairs,
    ),
    "attention_cost": Case(
        lambda **a: tuple(nb.attention_cost(**a)),
        args(
            n_q=sizes,
            n_k=sizes,
            n_heads=sizes,
            d_k=sizes,
            d_v=st.none() | sizes,
            cached=st.none() | sizes,
            b=sizes,
            bits=sizes,
            causal=st.booleans(),
            window=st.none() | sizes,
            passes=st.integers(0, 3),
        ),
        right_attention_cost,
    ),
    "projection_cost": Case(
        lambda **a: tuple(nb.projection_cost(**a)),
        args(
            n=sizes,
            d_model=st.sampled_from([4, 8, 12]),
            n_heads=st.sampled_from([2, 4]),
            d_head=st.none() | sizes,
            n_kv_heads=st.none() | st.sampled_from([1, 2]),
            b=sizes,
            bits=sizes,
        ),
        right_projection_cost,
    ),
    "exponent": Case(
        lambda **a: round(nb.exponent(**a), 3),
        args(
            sizes=st.sampled_from([[1, 2, 4], [3.0, 5.0, 50.0]]),
            counts=st.sampled_from([[1, 2, 3], [9.0, 4.0, 1.0]]),
        ),
        right_exponent,
    ),
    "least_seconds": Case(
        nb.least_seconds,
        args(
            operations=st.integers(0, 9),
            moved=st.floats(0, 9),
            peak=sizes,
            bandwidth=st.floats(0.5, 9),
        ),
        right_seconds,
    ),
    "count_cost": Case(
        lambda f: tuple(nb.count_cost(f, torch.ones(2, 3))),
        args(f=st.just(torch.exp)),
        lambda f: (0, 48),
        fixed=("f", "args"),
    ),
    "peak_bytes": Case(
        lambda f: nb.peak_bytes(f, torch.ones(2, 3)),
        args(f=st.just(torch.exp)),
        lambda f: 24,
        fixed=("f", "args"),
    ),
    "saved_bytes": Case(
        lambda f: nb.saved_bytes(f, torch.ones(2, 3)),
        args(f=st.just(torch.exp)),
        lambda f: 24,
        fixed=("f", "args"),
    ),
}
