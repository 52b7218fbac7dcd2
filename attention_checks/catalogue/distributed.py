"""Sequences spread over ranks: keys that are not passed on, wrong shares, ranks that wait."""

from attention_checks.explaining.pipeline import Bug, bugs_of_lines

BUGS: list[Bug] = bugs_of_lines(
    """
passing.own_keys: each rank attends to its own keys alone: keys and values must visit every rank
passing.own_again: each rank attends to its own keys at every step: it does not take what it
    received
passing.first_shard: every rank attends to the keys of rank 0: every rank was given the same shard
passing.one_short: the keys of one rank are missing: the ring needs as many steps as ranks, and
    sends one time fewer
passing.one_long: each rank attends to its own keys twice: the ring has one step too many
passing.without_own: each rank attends to all keys but its own: attend first, then pass on
passing.direction: keys come from the rank after, and are taken for those of the rank before: with
    two ranks that makes no difference
passing.step_late: after each step keys are taken for those of the rank one further: count the
    steps from 0, the rank's own keys
passing.results_moved: each rank returns the context of another rank's queries
passing.wrong: with several ranks the context is wrong, and no known bug gives its numbers
shards.mask_anew: the mask begins anew with each pair of shards: compare positions in the whole
    sequence
shards.queries_first: the first query of each rank is taken for the first token: is_causal lines up
    the upper left corner, so give a mask of positions
shards.queries_last: the last query of each rank is taken for the last token: the causal mask lines
    up the lower right corner, so give a mask of positions
shards.from_zero: each rank counts its tokens from 0: add where its shard begins
shards.order: tokens are masked as if they were in {found} order, where {declared} was declared
    | order="{found}"
shards.second_piece: the second piece of a rank is taken for number world + rank: in zigzag order it
    is 2 · world - 1 - rank
shards.as_equal: a rank's first position is computed as rank · its own number of tokens, which is
    wrong if shards differ in length
shards.padding: padding is attended to: where shards differ in length, zeros count as keys
shards.last_key: no query attends to the last key of a shard
shards.remainder: keys are lost where the ranks do not share the sequence equally: n // world is
    rounded down
shards.mask_lost: nothing is masked as soon as there are several ranks
shards.own_mask_alone: only a rank's own keys are masked: keys of later ranks are the future
shards.own_mask_lost: a rank's own keys are not masked, only those of other ranks
shards.later_skipped: keys of later ranks are skipped, and they do not all hold the future
shards.window_cut: the window ends at the border of a shard: fetch the keys before it
shards.sinks_each: the first keys of each shard are taken for sinks: only rank 0 holds them
shards.uneven: it fails where ranks hold different numbers of tokens: {how} | even=True
shards.empty: it fails where a rank holds no token: {how} | empty_ranks=False
shares.mean: partial contexts are averaged: weight each by its share of the sum of exponentials
shares.sum: partial contexts are added: weight each by its share of the sum of exponentials
shares.last: the context of the last step replaces what was there: merge them
shares.base_two: log-sum-exps to base 2 are merged as natural ones: multiply them by ln 2
shares.base_e: natural log-sum-exps are merged as logarithms to base 2: divide them by ln 2
shares.larger: the running log-sum-exp is the larger of both: take log(exp(old) + exp(new))
shares.added: log-sum-exps are added: take log(exp(old) + exp(new))
shares.exchanged: each partial context gets the other's share: the sign of lse - new lse is wrong
shares.first: the running log-sum-exp stays that of the first step: take log(exp(old) + exp(new))
shares.overflow: large scores overflow in merging: subtract the larger log-sum-exp, or use
    logsigmoid
shares.empty_nan: where a shard holds nothing that a query may see, merging gives NaN:
    -inf - (-inf); give it no share
shares.sinks_lost: the sink logits are dropped
shares.sinks_each: the sink logits are counted once on each rank: add them once
shares.rounded: its numbers are {off} of the largest apart from the right ones, as if partial
    contexts, log-sum-exps or what is sent were {kept} | tolerance={tolerance}
shares.sixteen_bits: in bfloat16 several ranks lose {times} times as much as one: keep partial
    contexts and log-sum-exps in float32
backward.times_ranks: gradients of {of} are multiplied by the number of ranks
backward.over_ranks: gradients of {of} are divided by the number of ranks
backward.own_queries: keys and values get the gradients of their own rank's queries alone: send
    them round, or gather with a function that differentiates
backward.own_keys: queries get the gradients of their own rank's keys alone
backward.own_alone: no gradient crosses ranks: what is received has no history
backward.others_alone: keys and values get no gradients of their own rank's queries
backward.last_keys: queries get the gradients of the last step alone: add them up
backward.last_queries: keys and values get the gradients of the last rank that they visit: add
    them up
backward.first_keys: every step of the backward pass uses the keys of the first one: use those that
    were received
backward.own_lse: the backward pass makes weights by the log-sum-exp of one step: use that of all
backward.own_context: the backward pass takes the context of one step for the whole one
backward.no_delta: the backward pass forgets the softmax's own term, gradient · context
backward.unmasked: the mask is forgotten in the backward pass
backward.away: gradients of keys and values end on another rank: they must go round with them
backward.wrong: the context is right, its gradients are not, and no known bug gives their numbers
backward.none: {names} get no gradient on several ranks: what is gathered has no history
ranks.stuck: ranks wait for each other in vain: each collective must be called by all ranks of its
    group, and each send needs its receive, posted together with it (batch_isend_irecv)
ranks.died: a rank died: {how}
ranks.one_raises: {some} raised an error, others went on: {error}
ranks.group: in a group that is a part of the world it fails: ranks of the group are not ranks of
    the world (get_global_rank)
ranks.shape: the context has shape {got} on rank {rank}, expected {want}
ranks.differ: a second call gives other numbers: a buffer is used again before it was sent, or
    something is kept
"""
)
