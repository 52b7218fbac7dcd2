"""The cases of `kv_cache`: how to draw each function's arguments, and what is right."""

import copy
import math
from typing import Any

import attention_nb as nb
import torch
from hypothesis import strategies as st
from torch import Tensor
from tests.properties.common import (
    TOLERANCE,
    Case,
    a_model,
    args,
    caches,
    dtypes,
    floats,
    places,
    refuse,
    rolling,
    sizes,
    whole,
)


def cache_facts(cache: Any) -> tuple[Any, ...]:
    return tuple(cache.keys.shape), tuple(cache.values.shape), str(cache.keys.dtype)


def sized_cache(b, n_kv_heads, n_max, d_head, dtype=None, device=None):
    whole(b, n_kv_heads, n_max, d_head)
    refuse(dtype in (None, *TOLERANCE) and (device is None or torch.device(device).type == "cpu"))
    return (
        (b, n_kv_heads, n_max, d_head),
        (b, n_kv_heads, n_max, d_head),
        str(dtype or torch.float32),
    )


def sized_rolling(b, n_kv_heads, window, d_head, n_sinks=0, dtype=None, device=None):
    whole(window), whole(n_sinks, least=0)
    return sized_cache(b, n_kv_heads, window + n_sinks, d_head, dtype, device)


def sized_pages(n_blocks, block_size, n_kv_heads, d_head, dtype=None, device=None):
    return sized_cache(n_blocks, block_size, n_kv_heads, d_head, dtype, device)


def rows_of(cache: Any, keys: Tensor, values: Tensor) -> tuple[Tensor, ...]:
    "What a cache returned, without what comes after the end of shorter sequences."
    return tuple(t[i, :, :n] for i, n in enumerate(cache.lengths.tolist()) for t in (keys, values))


def appended(self, k, v):
    own = copy.deepcopy(self)
    return rows_of(own, *own.append(k, v))


def right_append(self, k, v):
    rows = [
        (torch.cat([self.keys[i, :, :n], k[i]], 1), torch.cat([self.values[i, :, :n], v[i]], 1))
        for i, n in enumerate(self.lengths.tolist())
    ]
    return tuple(t for row in rows for t in row)


def right_visible(self, n_q):
    whole(n_q)
    lengths, n_k = self.lengths.tolist(), int(self.lengths.max())
    refuse(n_q <= n_k)
    if len({*lengths}) == 1:
        return None
    return torch.tensor(
        [[[[j <= n - n_q + i for j in range(n_k)] for i in range(n_q)]] for n in lengths]
    )


def kept_rows(cache: Any) -> list[tuple[list, list]]:
    return [
        tuple(t[i, :, :n].transpose(0, 1).tolist() for t in (cache.keys, cache.values))
        for i, n in enumerate(cache.lengths.tolist())
    ]


def done(self, method, *arguments):
    own = copy.deepcopy(self)
    getattr(own, method)(*arguments)
    return kept_rows(own)


def whole_row(numbers: Any, b: int, least: int = 0, most: float = math.inf) -> list[int]:
    numbers = torch.as_tensor(numbers)
    refuse(
        numbers.dtype != torch.bool and not numbers.is_floating_point() and not numbers.is_complex()
    )
    refuse(numbers.shape == (b,) and all(least <= n <= most for n in numbers.tolist()))
    return numbers.tolist()


def right_truncate(self, n):
    n = torch.as_tensor(n)
    cuts = whole_row(n.expand(len(self.lengths)) if n.ndim == 0 else n, len(self.lengths))
    return [(keys[:cut], values[:cut]) for cut, (keys, values) in zip(cuts, kept_rows(self))]


def right_reorder(self, indices):
    return [
        kept_rows(self)[i]
        for i in whole_row(indices, len(torch.as_tensor(indices)), most=len(self.lengths) - 1)
    ]


def rolled(self, k, v):
    own = copy.deepcopy(self)
    found = own.append(k, v)
    positions = own.key_positions
    return tuple(t[:, :, positions.argsort()] for t in found)


def right_roll(self, k, v):
    start, n = self.history.shape[3], k.shape[2]
    stay = lambda end: [p for p in range(end) if p < self.n_sinks or p >= end - self.window]
    held = [*stay(start), *range(start, start + n)] if n > 1 else stay(start + 1)
    return tuple(torch.cat([old, new], 2)[:, :, held] for old, new in zip(self.history, (k, v)))


def right_rolling(self, n_q):
    whole(n_q)
    refuse(n_q <= self.n_new)
    sees = lambda i, j: j <= i and (j > i - self.window or j < self.n_sinks)
    if self.n_new == 1 or self.longest <= self.window:
        return None
    keys, queries = self.key_positions.tolist(), range(self.longest - n_q, self.longest)
    mask = [[sees(i, j) for j in keys] for i in queries]
    return torch.tensor([[mask] for _ in self.lengths])


def right_held_positions(self):
    start = self.longest - self.n_new if self.n_new > 1 else self.longest
    kept = [p for p in range(start) if p < self.n_sinks or p >= start - self.window]
    return torch.tensor([*kept, *range(start, self.longest)], dtype=torch.long)


def lengths_after(self, n):
    own = copy.deepcopy(self)
    own.truncate(n)
    return own.lengths


def right_cut(self, n):
    n = torch.as_tensor(n)
    cuts = whole_row(n.expand(len(self.lengths)) if n.ndim == 0 else n, len(self.lengths))
    refuse(
        all(held <= max(cut, self.keys.shape[2]) for held, cut in zip(self.lengths.tolist(), cuts))
    )
    return torch.minimum(self.lengths, torch.tensor(cuts))


@st.composite
def paged(draw, words=False, **more):
    "Two sequences in pages; the second goes on from the first."
    h, d, dtype = draw(st.integers(1, 2)), draw(st.integers(1, 3)), draw(dtypes)
    cache = nb.PagedCache(draw(st.integers(8, 10)), draw(st.integers(1, 3)), h, d, dtype)
    cache.new()
    for seq in (0, 1):
        k, v = draw(floats((2, 1, h, draw(st.integers(1, 2)), d), dtype))
        cache.append([seq], k, v)
        seq or cache.fork(0)
    cache.begun = 2
    seqs = draw(st.sampled_from([[0], [1], [0, 1], [1, 0]]))
    new = (
        {"seqs": seqs} | {name: draw(floats((len(seqs), h, 2, d), dtype)) for name in "kv"}
        if words
        else {}
    )
    return {"self": cache} | new | {name: draw(strategy) for name, strategy in more.items()}


def pages_of(cache: Any) -> dict[int, tuple[list, list]]:
    """The tokens of each sequence, slot by slot;
    fails if reference counts and free blocks do not fit the tables.
    """
    held = [block for table in cache.block_tables.values() for block in table]
    assert cache.ref_counts == [held.count(block) for block in range(len(cache.ref_counts))]
    assert sorted([*{*held}, *cache.free_blocks]) == list(range(len(cache.ref_counts)))
    size = cache.keys.shape[1]
    return {
        seq: tuple(
            [t[table[p // size], p % size].tolist() for p in range(cache.lengths[seq])]
            for t in (cache.keys, cache.values)
        )
        for seq, table in cache.block_tables.items()
    }


def paged_after(self, method, *arguments):
    own = copy.deepcopy(self)
    getattr(own, method)(*arguments)
    return pages_of(own)


def real_seqs(self, seqs):
    refuse(
        len(seqs)
        and all(type(seq) is int and seq in self.block_tables for seq in seqs)
        and len({*seqs}) == len(seqs)
    )
    return seqs


def right_fork(self, seq):
    return (found := pages_of(self)) | {self.begun: found[real_seqs(self, [seq])[0]]}


def right_free(self, seq):
    real_seqs(self, [seq])
    return {other: words for other, words in pages_of(self).items() if other != seq}


def right_page(self, seqs, k, v):
    longer = {
        seq: tuple(
            [*old, *t[i].transpose(0, 1).to(self.keys.dtype).tolist()]
            for old, t in zip(pages_of(self)[seq], (k, v))
        )
        for i, seq in enumerate(real_seqs(self, seqs))
    }
    return pages_of(self) | longer


def read_rows(self, found, seqs):
    return [
        tuple(t[i, :, : self.lengths[seq]].transpose(0, 1).tolist() for t in found)
        for i, seq in enumerate(seqs)
    ]


def right_read(self, seqs):
    return [pages_of(self)[seq] for seq in real_seqs(self, seqs)]


def right_bytes(numbers, n_layers, n=1, bits=16, window=None):
    whole(numbers, n_layers, n, bits, *([] if window is None else [window]))
    return math.ceil(numbers * n_layers * min(n, n if window is None else window) * bits / 8)


def stored_facts(cache: Any) -> tuple[Any, ...]:
    return (
        tuple(cache.keys.shape),
        str(cache.keys.dtype),
        tuple(cache.outside.shape[:2]),
        str(cache.outside.dtype),
    )


def sized_stored(b, n_kv_heads, n_max, d_head, dtype=None, device=None):
    sized_cache(b, n_kv_heads, n_max, d_head, dtype, device)
    return (
        (b, n_kv_heads, n_max, d_head + 4),
        "torch.uint8",
        (b, n_kv_heads),
        str(dtype or torch.float32),
    )


@st.composite
def other_caches(draw, make, words=True, **more):
    """A cache made by `make` with a few tokens, and keys and values for it;
    what it was given is its `history`.
    """
    b, h, d, dtype = (
        draw(st.integers(1, 3)),
        draw(st.integers(1, 2)),
        draw(st.integers(1, 3)),
        draw(dtypes),
    )
    cache = make(b, h, 8, d, dtype)
    cache.before = [
        draw(floats((2, b, h, n, d), dtype)) for n in draw(st.lists(st.integers(1, 3), max_size=2))
    ]
    for k, v in cache.before:
        cache.append(k, v)
    n = draw(st.integers(1, 2))
    new = {name: draw(floats((b, h, n, d), dtype)) for name in "kv"} if words else {}
    return {"self": cache} | new | {name: draw(strategy) for name, strategy in more.items()}


def steps_away(self, k, v):
    """How far what is read back lies from what was given, in steps of the vector's scale:
    half a step at most.
    """
    own = copy.deepcopy(self)
    found = own.append(k, v)
    given = [torch.cat([old[i] for old in own.before] + [new], 2) for i, new in enumerate((k, v))]
    steps = [t.double().abs().amax(-1, keepdim=True) / 127 for t in given]
    rounding = [torch.finfo(k.dtype).eps * t.double().abs() for t in given]
    return [
        bool(((f.double() - t.double()).abs() <= 0.501 * s + r).all())
        for f, t, s, r in zip(found, given, steps, rounding)
    ]


def right_stored(self, k, v):
    cache = self.outside
    refuse(
        k.dtype == torch.float64
        and k.shape == v.shape
        and k.shape[:2] == cache.shape[:2]
        and k.shape[3] == self.widths[0]
    )
    return [True, True]


def in_one_shape(self, k, v):
    own = copy.deepcopy(self)
    found = own.append(k, v)
    return tuple(t[:, :, : int(own.lengths[0])] for t in found)


def right_static(self, k, v):
    cat = [
        torch.cat([old[i].double() for old in self.before] + [new], 2)
        for i, new in enumerate((k, v))
    ]
    refuse(k.dtype == torch.float64 and k.shape == v.shape)
    return tuple(cat)


def right_unused(self, n_q):
    whole(n_q)
    return torch.tensor(
        [
            [[[j <= n - n_q + i for j in range(self.keys.shape[2])] for i in range(n_q)]]
            for n in self.lengths.tolist()
        ]
    )


def emptied(self):
    own = copy.deepcopy(self)
    own.reset()
    return own.lengths, bool(own.keys.any() or own.values.any())


CASES = {
    "KVCache": Case(
        lambda **a: cache_facts(nb.KVCache(**a)),
        args(b=sizes, n_kv_heads=sizes, n_max=sizes, d_head=sizes, **places),
        sized_cache,
    ),
    "KVCache.append": Case(
        lambda self, k, v: appended(self, k, v),
        caches(words=True),
        right_append,
        "k",
        fixed=("self",),
    ),
    "KVCache.visible": Case(
        nb.KVCache.visible,
        caches(n_q=st.integers(1, 3)).filter(lambda a: a["n_q"] <= a["self"].longest),
        right_visible,
        fixed=("self",),
    ),
    "KVCache.truncate": Case(
        lambda self, n: done(self, "truncate", n),
        caches().flatmap(
            lambda a: args(
                self=st.just(a["self"]),
                n=st.integers(0, 5)
                | st.lists(
                    st.integers(0, 5),
                    min_size=len(a["self"].lengths),
                    max_size=len(a["self"].lengths),
                ),
            )
        ),
        right_truncate,
        fixed=("self",),
    ),
    "KVCache.reorder": Case(
        lambda self, indices: done(self, "reorder", indices),
        caches().flatmap(
            lambda a: args(
                self=st.just(a["self"]),
                indices=st.lists(
                    st.integers(0, len(a["self"].lengths) - 1), min_size=1, max_size=5
                ),
            )
        ),
        right_reorder,
        fixed=("self",),
    ),
    "KVCache.reset": Case(
        lambda self: done(self, "reset"),
        caches(),
        lambda self: [([], [])] * len(self.lengths),
        fixed=("self",),
    ),
    "RollingCache": Case(
        lambda **a: cache_facts(nb.RollingCache(**a)),
        args(
            b=sizes,
            n_kv_heads=sizes,
            window=sizes,
            d_head=sizes,
            n_sinks=st.integers(0, 3),
            **places,
        ),
        sized_rolling,
    ),
    "RollingCache.append": Case(rolled, rolling(words=True), right_roll, "k", fixed=("self",)),
    "RollingCache.key_positions": Case(
        lambda self: self.key_positions.sort().values,
        rolling(),
        right_held_positions,
        fixed=("self",),
    ),
    "RollingCache.visible": Case(
        nb.RollingCache.visible,
        rolling(n_q=st.integers(1, 3)).filter(lambda a: a["n_q"] <= a["self"].n_new),
        right_rolling,
        fixed=("self",),
    ),
    "RollingCache.truncate": Case(
        lambda self, n: lengths_after(self, n),
        rolling(n=st.integers(0, 9)).filter(
            lambda a: a["self"].longest <= max(a["n"], a["self"].keys.shape[2])
        ),
        right_cut,
        fixed=("self",),
    ),
    "QuantizedCache": Case(
        lambda **a: stored_facts(nb.QuantizedCache(**a)),
        args(b=sizes, n_kv_heads=sizes, n_max=sizes, d_head=sizes, **places),
        sized_stored,
    ),
    "QuantizedCache.append": Case(
        steps_away, other_caches(nb.QuantizedCache), right_stored, fixed=("self",), finite=True
    ),
    "StaticCache": Case(
        lambda **a: cache_facts(nb.StaticCache(**a)),
        args(b=sizes, n_kv_heads=sizes, n_max=sizes, d_head=sizes, **places),
        sized_cache,
    ),
    "StaticCache.append": Case(
        in_one_shape, other_caches(nb.StaticCache), right_static, "k", fixed=("self",)
    ),
    "StaticCache.visible": Case(
        nb.StaticCache.visible,
        other_caches(nb.StaticCache, words=False, n_q=st.integers(1, 3)),
        right_unused,
        fixed=("self",),
    ),
    "StaticCache.truncate": Case(
        lambda self, n: done(self, "truncate", n),
        other_caches(nb.StaticCache, words=False, n=st.integers(0, 5)),
        right_truncate,
        fixed=("self",),
    ),
    "StaticCache.reorder": Case(
        lambda self, indices: done(self, "reorder", indices),
        other_caches(nb.StaticCache, words=False, indices=st.just([0]) | st.just([0, 0, 0, 0])),
        right_reorder,
        fixed=("self",),
    ),
    "StaticCache.reset": Case(
        emptied,
        other_caches(nb.StaticCache, words=False),
        lambda self: (torch.zeros(len(self.lengths), dtype=torch.long), False),
        fixed=("self",),
    ),
    "PagedCache": Case(
        lambda **a: cache_facts(nb.PagedCache(**a)),
        args(n_blocks=sizes, block_size=sizes, n_kv_heads=sizes, d_head=sizes, **places),
        sized_pages,
    ),
    "PagedCache.new": Case(
        lambda self: copy.deepcopy(self).new(), paged(), lambda self: self.begun, fixed=("self",)
    ),
    "PagedCache.fork": Case(
        lambda self, seq: paged_after(self, "fork", seq),
        paged(seq=st.integers(0, 1)),
        right_fork,
        fixed=("self",),
    ),
    "PagedCache.free": Case(
        lambda self, seq: paged_after(self, "free", seq),
        paged(seq=st.integers(0, 1)),
        right_free,
        fixed=("self",),
    ),
    "PagedCache.append": Case(
        lambda self, seqs, k, v: paged_after(self, "append", seqs, k, v),
        paged(words=True),
        right_page,
        also={"seqs": "k"},
        fixed=("self",),
    ),
    "PagedCache.read": Case(
        lambda self, seqs: read_rows(self, self.read(seqs), seqs),
        paged(seqs=st.sampled_from([[0], [1], [0, 1], [1, 0]])),
        right_read,
        fixed=("self",),
    ),
    "PagedCache.batch": Case(
        lambda self, seqs: self.batch(seqs).lengths,
        paged(seqs=st.sampled_from([[0], [1], [0, 1], [1, 0]])),
        lambda self, seqs: torch.tensor([self.lengths[seq] for seq in real_seqs(self, seqs)]),
        fixed=("self",),
    ),
    "new_caches": Case(
        lambda model, b, n_max: [tuple(c.keys.shape) for c in nb.new_caches(model, b, n_max)],
        args(model=st.just(a_model()), b=sizes, n_max=sizes),
        lambda model, b, n_max: (whole(b, n_max), [(b, 2, n_max, 2)])[1],
        fixed=("model",),
    ),
    "cache_bytes": Case(
        nb.cache_bytes,
        args(numbers=sizes, n_layers=sizes, n=sizes, bits=sizes, window=st.none() | sizes),
        right_bytes,
    ),
}
