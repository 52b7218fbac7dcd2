"""Writing word by word, in chunks, in rows of different lengths: each against the full pass, and the likely bug by what makes a difference."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from attention_checks.catalogue import known
from attention_checks.examine import Broken, NotChecked, first_line
from attention_checks.numbers import first_difference, must_be_tensor, nearly
from attention_checks.pipeline import Bug
from attention_checks.properties import Properties, Relation, listed
from attention_nb.tools.testing import Watch

_N = 9  # words of a text
_ONES = [1] * _N
_CHUNKS = [4, 3, 2]


class Writer:
    "A layer that writes with a cache, called in one way only."

    def __init__(
        self,
        step: Callable[
            [Tensor, Any], Any
        ],  # rows of the next words and the cache, which it fills → their new rows
        full: Callable[[Tensor], Any],  # all rows at once, the future hidden → their new rows
        new_cache: Callable[[int, int], Any],  # sentences, words → an empty cache
        d_model: int,  # width of the rows
        grows: bool = False,  # may the cache grow, and be copied, at each step?
    ):
        self.step, self.full, self.new_cache, self.d_model, self.grows = (
            step,
            full,
            new_cache,
            d_model,
            grows,
        )

    @cached_property
    def x(self) -> Tensor:
        "Three sentences."
        return torch.randn(3, _N, self.d_model, generator=torch.Generator().manual_seed(0))

    @cached_property
    def other(self) -> Tensor:
        "Three others."
        return torch.randn(3, _N, self.d_model, generator=torch.Generator().manual_seed(1))

    @cached_property
    def want(self) -> Tensor:
        "What the full pass makes of the three."
        return self.read(self.x)

    @cached_property
    def steps_right(self) -> bool:
        "Whether words one at a time come out right: if not, all that follows is a symptom."
        return _same(self.write(self.x, _ONES), self.want)

    @cached_property
    def chunks_right(self) -> bool:
        "Whether chunks come out right."
        return _same(self.write(self.x, _CHUNKS), self.want)

    def read(
        self,
        x: Tensor,  # sentences, (b, n, d_model)
    ) -> Tensor:  # their rows
        "The full pass."
        return _rows(self.full(x), x)

    def call(
        self,
        x: Tensor,  # the next words, (b, n, d_model)
        cache: Any,  # holds the words before, and is filled
    ) -> Tensor:  # their rows
        "One chunk."
        return _rows(self.step(x, cache), x)

    def write(
        self,
        x: Tensor,  # sentences, (b, n, d_model)
        sizes: Sequence[int],  # words in each chunk
        cache: Any = None,  # default: a new one
    ) -> Tensor:  # their rows
        "A text in chunks."
        cache = self.new_cache(len(x), _N + 3) if cache is None else cache
        return torch.cat([self.call(chunk, cache) for chunk in x.split(list(sizes), dim=1)], dim=1)

    def mixes(
        self,
        sizes: Sequence[int],  # words in each chunk
    ) -> bool:  # True: rows are mixed up
        "Whether the output of a sentence changes with another sentence."
        before = self.write(self.x, sizes)
        for row in range(3):
            changed, others = self.x.clone(), [i for i in range(3) if i != row]
            changed[row] = self.other[row]
            if not _equal(self.write(changed, sizes)[others], before[others]):
                return True
        return False

    def depends(
        self,
        sizes: Sequence[int],  # words in each chunk
        at: int,  # place of the output
        word: int,  # place of the word
    ) -> bool:  # True: it does
        "Whether the output of sentence 0 at a place changes with a word."
        changed = self.x.clone()
        changed[0, word] = self.other[0, word]
        return not _equal(self.write(changed, sizes)[0, at], self.write(self.x, sizes)[0, at])

    def old_seen(
        self,
        sizes: Sequence[int],  # words in each chunk
        at: int,  # place of the output
    ) -> list[int]:  # places of words
        "The earlier words on which the output at a place depends."
        return [word for word in range(at) if self.depends(sizes, at, word)]

    def without_order(
        self,
        sizes: Sequence[int],  # words in each chunk
    ) -> bool:  # True: the order of old words makes no difference
        "Whether two old words may be exchanged, though in the full pass they may not."
        swapped = self.x[:, [0, 2, 1, *range(3, _N)]]
        read, written = (
            _equal(f(swapped)[:, -1], f(self.x)[:, -1])
            for f in (self.read, lambda x: self.write(x, sizes))
        )
        return written and not read


def _same(got: Tensor, want: Tensor) -> bool:
    "Whether numbers are right, however small the layer makes them."
    size = want.abs().amax().clamp(min=1e-30)
    return nearly(got / size, want / size)


def _equal(got: Tensor, want: Tensor) -> bool:
    "Whether numbers are the same but for rounding, so that what was changed made no difference."
    return got.shape == want.shape and torch.allclose(
        got, want, rtol=1e-5, atol=1e-5 * float(want.abs().max()), equal_nan=True
    )


def _rows(found: Any, x: Tensor) -> Tensor:
    "The output, which may be the first of several, as rows for the words."
    out = found[0] if isinstance(found, (tuple, list)) and found else found
    must_be_tensor(out)
    if out.shape != x.shape:
        raise Broken(
            f"x {tuple(x.shape)}: it gives shape {tuple(out.shape)}", known("result.shape")
        )
    return out.detach()


def _differs(got: Tensor, want: Tensor, how: str, why: Callable[[], Bug]) -> None:
    "Raise Broken with the reason, unless the numbers are right."
    if not _same(got, want):
        raise Broken(f"{how}: {first_difference(got, want)}", why())


def _runs(w: Writer) -> None:
    if not w.want.isfinite().all():
        raise Broken("the full pass gives NaN or infinity", known("result.nan"))
    changed = torch.cat([w.x[:, :-1], w.other[:, -1:]], dim=1)
    if not _equal(w.read(changed)[:, :-1], w.want[:, :-1]):
        raise Broken(
            "the last word changes: so do rows before it, in the full pass",
            known("cache.full_future"),
        )
    w.call(w.x[:, :1], w.new_cache(3, _N))


def _steps(w: Writer) -> None:
    got = w.write(w.x, _ONES)
    _differs(got, w.want, "one word at a time", lambda: _why_steps(w, got))


def _why_steps(w: Writer, got: Tensor) -> Bug:
    "What is wrong with steps: who mixes, which old words count, and does their order?"
    wrong = next(i for i in range(_N) if not _same(got[:, i], w.want[:, i]))
    if w.mixes(_ONES):
        return known("cache.mixes_rows")
    if wrong == 0:
        return known("cache.late")
    seen = w.old_seen(_ONES, _N - 1)
    if len(seen) < _N - 1:
        return _lost(seen, _N - 1)
    if w.without_order(_ONES):
        return known("cache.places" if wrong == 1 else "cache.turned_late")
    return known("cache.turned_again" if wrong == 2 else "cache.unknown")


def _lost(seen: list[int], n: int) -> Bug:
    "Some old words, or all, make no difference."
    missing = [i for i in range(n) if i not in seen]
    return (
        known("cache.forgets")
        if not seen
        else known("cache.corner")
        if seen == [0]
        else known("cache.drops", words=f"words {missing}")
    )


def _chunks(sizes: Sequence[int], at: int, how: str) -> Callable[[Writer], None]:
    "A text in chunks, of which one begins at a place, or before it."
    return lambda w: _differs(w.write(w.x, sizes), w.want, how, lambda: _why_chunks(w, sizes, at))


def _why_chunks(w: Writer, sizes: Sequence[int], at: int) -> Bug:
    "What is wrong with chunks, of which one begins at a place, or before it."
    if w.depends(sizes, at, at + 1):
        return known("cache.chunk_future")
    seen = w.old_seen(sizes, at)
    if not seen:
        return known("cache.chunk_alone")
    return known("cache.chunk_places") if len(seen) == at else _lost(seen, at)


def _again(w: Writer) -> None:
    before = w.write(w.x[:, :2], [1, 1])
    w.write(w.other[:, :2], [1, 1])
    if not _same(after := w.write(w.x[:, :2], [1, 1]), before):
        raise Broken(
            f"two words, two others, and the two again, each in a new cache: {first_difference(after, before)}",
            known("cache.not_cleared"),
            last=True,
        )


def _reset(w: Writer) -> None:
    cache = w.new_cache(3, 2 * _N + 3)
    w.write(w.other, _ONES, cache)
    cache.reset()
    _differs(w.write(w.x, _ONES, cache), w.want, "after reset()", lambda: known("cache.reset"))


def _truncate(w: Writer) -> None:
    cache = w.new_cache(3, _N + 3)
    w.write(torch.cat([w.x[:, :4], w.other[:, :3]], dim=1), [1] * 7, cache)
    cache.truncate(4)
    _differs(
        w.write(w.x[:, 4:], [1] * (_N - 4), cache),
        w.want[:, 4:],
        "after truncate(4)",
        lambda: known("cache.truncate"),
    )


_LENGTHS = [4, 7, 5]


def _uneven(w: Writer, x: Tensor, rows: list[int] | None = None) -> Tensor:
    "Three rows of different lengths, perhaps in another order, and two more words for each."
    cache = w.new_cache(3, _N + 3)
    w.write(x[:, :7], [7] if w.chunks_right else [1] * 7, cache)
    try:
        cache.truncate(torch.tensor(_LENGTHS))
    except (TypeError, ValueError, RuntimeError) as e:
        raise NotChecked(
            f"it does not cut each row at a length of its own: {first_line(e, 80)}"
        ) from None
    if rows:
        cache.reorder(torch.tensor(rows))
    return w.write(x[:, 7:], [1, 1], cache)


def _alone(w: Writer, rows: Sequence[int] = (0, 1, 2)) -> Tensor:
    "The same, each row by itself in a full pass."
    texts = [
        torch.cat([w.x[row : row + 1, : _LENGTHS[row]], w.x[i : i + 1, 7:]], dim=1)
        for i, row in enumerate(rows)
    ]
    return torch.cat([w.read(text)[:, -2:] for text in texts])


def _different_lengths(w: Writer) -> None:
    got = _uneven(w, w.x)

    def why() -> Bug:
        padded = w.x.clone()
        padded[0, 4:7] = w.other[0, 4:7]
        return known("cache.row_ends" if _equal(_uneven(w, padded)[0], got[0]) else "cache.padding")

    _differs(got, _alone(w), f"rows of {_LENGTHS} words", why)


def _reordered(w: Writer, rows: list[int]) -> Tensor:
    "Four words, another order, and the rest of the text."
    cache = w.new_cache(3, _N + 3)
    w.write(w.x[:, :4], [1] * 4, cache)
    cache.reorder(torch.tensor(rows))
    return w.write(w.x[:, 4:], [1] * (_N - 4), cache)


def _moved(w: Writer, rows: list[int]) -> Tensor:
    "What should come of it."
    return w.read(torch.cat([w.x[rows, :4], w.x[:, 4:]], dim=1))[:, 4:]


def _reorder(w: Writer) -> None:
    for rows in ([1, 2, 0], [2, 2, 1]):
        got = _reordered(w, rows)
        same, inverse = (_same(got, _moved(w, other)) for other in ([0, 1, 2], [2, 0, 1]))
        code = (
            "cache.reorder_nothing"
            if same
            else "cache.reorder_inverse"
            if inverse
            else "cache.reorder"
        )
        _differs(got, _moved(w, rows), f"after reorder({rows})", lambda: known(code))


def _reorder_lengths(w: Writer) -> None:
    _differs(
        _uneven(w, w.x, [2, 2, 0]),
        _alone(w, [2, 2, 0]),
        f"rows of {_LENGTHS} words, after reorder([2, 2, 0])",
        lambda: known("cache.reorder"),
    )


def _full(w: Writer) -> None:
    x = w.x[:2]
    cache = w.new_cache(2, 4)
    first = w.write(x[:, :3], [1] * 3, cache)
    try:
        w.call(x[:, 3:5], cache)
    except Broken:
        raise
    except Exception:
        try:
            last = w.call(x[:, 3:4], cache)
        except Exception as e:
            raise Broken(
                f"refused two words, then one that fits: {first_line(e)}",
                known("cache.full_changed"),
            ) from None
        _differs(
            torch.cat([first, last], dim=1),
            w.read(x[:, :4]),
            "a word that fits, after two that did not",
            lambda: known("cache.full_changed"),
        )
        return
    raise Broken("room for 4 words: it took 5", known("cache.full_silent"))


class _Copies(Watch):
    "Count the numbers of all tensors that are put together of others."

    made = 0

    def saw(self, func: Any, given: Any, out: Any) -> None:
        if func.__name__.split(".")[0] in ("cat", "stack", "constant_pad_nd", "roll"):
            self.made += sum(t.numel() for t in tree_leaves(out) if isinstance(t, Tensor))


def _memory(thing: Any, deep: int = 5) -> set[int]:
    "Where the large tensors lie that an object holds, in lists and in objects of its own, too."
    if isinstance(thing, Tensor):
        return {thing.untyped_storage().data_ptr()} if thing.numel() > 600 else set()
    inside = (
        thing.values()
        if isinstance(thing, Mapping)
        else thing
        if isinstance(thing, (list, tuple))
        else getattr(thing, "__dict__", {}).values()
    )
    return set().union(*(_memory(part, deep - 1) for part in inside)) if deep else set()


def _stays(w: Writer, x: Tensor, cache: Any) -> None:
    "Raise Broken if what is kept lies in other memory after each of two words: room that doubles now and then is none."
    left = []
    for i in (2, 1):
        before = _memory(cache)
        w.call(x[:, -i : x.shape[1] + 1 - i], cache)
        left.append(bool(before - _memory(cache)))
    if all(left):
        raise Broken(
            "each step leaves what is kept in other memory: all of it was copied",
            known("cache.copies"),
        )


@torch.no_grad()  # where gradients are wanted, what was kept must not be written over
def _no_copy(w: Writer) -> None:
    made = []
    for n, room in ((16, 32), (272, 300)):
        x = torch.randn(1, n + 3, w.d_model, generator=torch.Generator().manual_seed(2))
        cache = w.new_cache(1, room)
        w.write(x[:, :n], [n] if w.chunks_right else [1] * n, cache)
        with _Copies() as copies:
            w.call(x[:, n : n + 1], cache)
        made.append(copies.made)
    if made[1] > made[0]:
        raise Broken(
            f"a step with 16 words kept puts tensors of {made[0]} numbers together, with 272 of {made[1]}",
            known("cache.copies"),
        )
    _stays(w, x, cache)


def _can(method: str) -> Callable[[Writer], str]:
    "Why a relation does not apply to a cache without a method."
    return lambda w: (
        "" if callable(getattr(w.new_cache(1, 2), method, None)) else f"the cache has no {method}()"
    )


def _bounded(w: Writer) -> str:
    return "the cache may grow" if w.grows else ""


_STEPS = ("steps_right",)
_RELATIONS = [
    Relation("it runs, and gives a row for each word", _runs),
    Relation("a new cache is empty", _again),
    Relation("one word at a time gives the full pass", _steps),
    Relation(
        "all words at once, into an empty cache, give the full pass",
        _chunks([_N], 1, "all at once into an empty cache"),
        after=_STEPS,
    ),
    Relation(
        "chunks give the full pass",
        _chunks(_CHUNKS, _CHUNKS[0], f"in chunks of {_CHUNKS}"),
        after=_STEPS,
    ),
    Relation("reset() forgets", _reset, _can("reset"), after=_STEPS),
    Relation("words that are taken back leave no trace", _truncate, _can("truncate"), after=_STEPS),
    Relation(
        "rows of different lengths go on as if each were alone",
        _different_lengths,
        _can("truncate"),
        after=_STEPS,
    ),
    Relation("rows go on from the rows that were chosen", _reorder, _can("reorder"), after=_STEPS),
    Relation(
        "their lengths go with them",
        _reorder_lengths,
        lambda w: _can("truncate")(w) or _can("reorder")(w),
        after=_STEPS,
    ),
    Relation("a full cache refuses more, and keeps what it has", _full, _bounded, after=_STEPS),
    Relation("a step copies nothing that is kept", _no_copy, _bounded),
]


def cache_properties(
    writer: Writer,  # what is under test
) -> tuple[
    Properties, Callable[[], Bug | None]
]:  # the properties, and what names the bug if one is only a symptom
    "List what every layer with a cache must do, in the order of trying."
    return listed(
        _RELATIONS, lambda: writer
    ), lambda: None if writer.steps_right else _why_steps(writer, writer.write(writer.x, _ONES))
