"""Places that start anew, the wrong corner, padding that is seen, rows that lose their words."""

from __future__ import annotations

from attention_checks.pipeline import Bug, signs

CACHE_SIGNS: list[Bug] = signs(
    {
        "cache.full_future": (
            "the pass to which all is compared sees the future: it must be causal; say how it is called, as full=lambda x: …"
        ),
        "cache.forgets": "the newest word sees none of the old ones: nothing is kept, or what is kept is not read",
        "cache.corner": (
            "with a cache, the causal triangle lies in the upper left corner: the newest word sees the oldest only; the last query"
            " must stand at the last key, and a single one needs no mask"
        ),
        "cache.drops": "old words get lost on the way: {words} make no difference to the newest one",
        "cache.late": "the first word of all is wrong: it is put into the cache after the others were read, or not at all",
        "cache.places": (
            "places do not go on: each new word is turned as if it were the first, so the order of the words makes no difference;"
            " count on from the length of the cache"
        ),
        "cache.turned_late": "keys are kept before they are turned by their places, and read as if they had been",
        "cache.turned_again": "keys that were turned already are turned again when they are read",
        "cache.mixes_rows": "with a cache, the sentences of a batch are mixed up",
        "cache.unknown": "one word at a time, it gives something else than all words at once; no known bug looks like this",
        "cache.chunk_future": "the words of a chunk see those that come after them: a chunk of several words needs a causal mask",
        "cache.chunk_alone": "a chunk of several words sees itself only, and not what is kept",
        "cache.chunk_places": "the words of a chunk have wrong places: they must count on from the length before the chunk",
        "cache.not_cleared": "a new cache is not empty: words of an earlier text are still in it",
        "cache.reset": "after reset() words of an earlier text are still seen, or counted",
        "cache.truncate": "after truncate(n), what was taken back is still seen, or counted",
        "cache.padding": "unused places are seen: where a row is shorter than others, hide what lies behind its end",
        "cache.row_ends": "shorter rows do not go on at their own ends: each must write, count and look from its own length",
        "cache.reorder_nothing": "reorder(rows) moves nothing",
        "cache.reorder_inverse": "reorder(rows) sends row i to rows[i]; row i must go on from what was row rows[i]",
        "cache.reorder": "after reorder(rows), rows do not hold the words of their new beginnings: all of keys, values and lengths must move",
        "cache.full_silent": "a full cache takes more words, and says nothing",
        "cache.full_changed": "a full cache refuses more words, but something has changed by then",
        "cache.copies": "each step copies all that is kept: make the room once, and write into it",
    }
)
