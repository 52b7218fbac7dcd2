"""Caches whose positions start again, whose padding is seen, or that lose tokens."""

from attention_checks.explaining.pipeline import Bug, bugs_of_lines

BUGS: list[Bug] = bugs_of_lines(
    """
cache.full_future: the pass to compare with sees the future: it must be causal; say how to call
    it, as full=lambda x: …
cache.forgets: the newest token attends to no old one: nothing is cached, or not read
cache.corner: the causal mask starts in the upper left corner, and the newest token attends to
    the oldest only: the last query must stand at the last key
cache.drops: the newest token attends to some of the old ones only: keep all, each at its own
    position, and let the length of the cache grow
cache.late: the newest token does not attend to itself: it is cached after the read, or not at all
cache.positions: positions with a cache are wrong: count on from its length, and rotate each key
    once, before it is cached
cache.mixes_sequences: with a cache, the sequences of a batch are mixed up
cache.query_positions: queries and keys count from different positions: read the length of the
    cache once, before the new keys are appended
cache.groups: with a cache, heads of keys and values stand in another order than in one pass: query
    heads read those of another group
cache.stored: with a cache, keys differ from those of one pass: write each once, as it is, at
    its own position
cache.values: with a cache, queries, keys and mask are as in one pass; values, the scale, or what
    follows differ
cache.rounded: its numbers are near those of one pass, {off} of the largest apart: does the
    cache keep fewer bits? | tolerance={tolerance}
cache.unknown: steps with a cache give other numbers than one pass, and no known bug is seen
cache.chunk_future: the tokens of a chunk attend to later ones: mask within the chunk
cache.chunk_alone: a chunk of several tokens attends to itself only, not to the cache
cache.chunk_positions: the tokens of a chunk have wrong positions: count on from the length
    before the chunk
cache.not_cleared: a new cache is not empty: tokens of an earlier sequence are in it
cache.reset: after reset() tokens of an earlier sequence are still seen, or counted
cache.truncate: after truncate(n) the tokens behind n are still seen, or counted
cache.padding: unused positions are seen: where a sequence is shorter, hide what lies behind its
    end
cache.sequence_ends: shorter sequences do not continue at their own ends: each must write, count
    and attend from its own length
cache.reorder: after reorder(indices) sequence i does not continue from sequence indices[i]: keys,
    values and lengths must all move
cache.full_silent: a full cache takes more tokens, and says nothing | grows=True
cache.full_changed: a full cache refuses more tokens, but something has changed by then
cache.copies: each step copies all that is cached: allocate once, and write into it | grows=True
"""
)
