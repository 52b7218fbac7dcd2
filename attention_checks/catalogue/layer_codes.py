"""Codes of what is found in layers without making the bug: shapes, modes, dropout, parameters."""

from attention_checks.explaining.pipeline import Bug, bugs_of_lines

BUGS: list[Bug] = bugs_of_lines(
    """
rotation.backwards: queries and keys are rotated backwards (RoPE): negate the sines, or exchange
    cosines and sines | skip=["rotation.backwards"]
shape.rows: the axes of the output are in the wrong order: return (b, n, d_model)
shape.call: it cannot be called as module(x): declare how, call=lambda module, x: …
shape.arguments: forward needs {needed}, and was called with x for each: declare how,
    call=lambda module, x: …
shape.only_length: it takes no sequence of {given} tokens, but of {n}: a length is hard-coded
    | lengths={n}
route.reads_x: {names} reads x: compute keys and values from the memory
route.reads_memory: {names} reads the memory: compute queries from x
route.exchanged: x and the memory are exchanged: compute queries from x, keys and values from
    the memory
code.error: the code fails for every shape: it raises {error}
values.linear: the output is linear in the input: no scores go through a softmax, so it is not
    attention
mask.inverted_last: the mask is inverted: each token attends to the future only
    (nn.MultiheadAttention hides keys where its mask is True)
mask.not_itself_first: the causal mask is off by one: the first token attends to nothing, and
    its softmax is 0 / 0 (use tril(diagonal=0))
softmax.over_heads_or_batch: the softmax normalises over heads or the batch (dim=1, dim=0), so
    masked rows are 0 / 0: normalise over keys (dim=-1)
scale.head_constant: wrong scale: the scores are multiplied by {found}; multiply them by {right}
    | scale={found}
heads.number: the vectors are split into {found}, not into {declared}
heads.one_repeated: one head is computed and repeated {times} times: split the projections into
    {times} heads
heads.shared: it has {found} for keys and values, not {declared}: check n_kv_heads
split.keys_values: keys and values are exchanged when the fused projection is split
project.never: the output projection {name} is never applied: apply it last
project.unused: {name} is not used{detached}{instead}
project.twice: {name} is applied more than once
project.residual: the input is added to the output: leave the residual connection to the block
    | skip=["project.residual"]
project.bias: the bias of {name} is added {times} times: add it once
project.pooled: every output is the mean over all tokens: return the vector of each token
project.scaled: what the output projection gave is multiplied by {factor}: return it as it is
    | skip=["project.scaled"]
~project.more: the output is not what the output projection gave: something is added, scaled or
    clamped after it
window.narrow: no token attends to another more than {widest} positions away: the mask hides too
    much | window=…
~length.cut: keys after position {first} are ignored: a slice or a hard-coded length cuts them
    off
length.tokens: the output has another sequence length than the input: a length is hard-coded, or
    tokens are cut off
length.long: it is right for {few} tokens and wrong for {many}: what differs between the two, such
    as a size, a factor or a path of the code?
~length.future: the future leaks in longer sequences, from output {first} on: build the mask for
    the length of the input
mode.no_grad: its output differs under no_grad: another path, or no mask there
mode.batch_norm: the future leaks in training through batch normalisation, whose mean is over
    all positions: use LayerNorm
mode.mask_in_evaluation: the future leaks in training: the mask is applied in evaluation only
mode.mask_in_training: the future leaks in evaluation: the mask is applied in training only
    (is_causal=self.training?)
~mode.differs: training and evaluation differ without dropout: a mask, a scale or a path is
    on in one of them only
dropout.in_evaluation: the output is random in evaluation: give F.dropout
    training=self.training, or keep nn.Dropout as an attribute{anew}
dropout.never: dropout is set but never applied in training
dropout.scores: in training the future leaks by chance: dropout sets masked scores to 0, so drop
    weights, after the softmax
dropout.biased: dropout changes the mean: divide the kept weights by 1 - p, and drop weights, not
    scores before the softmax, and nothing before a ReLU | dropout="scores"
state.first_length: a mask is kept from the first call: longer sequences are not masked to their
    end
state.grows: forward adds to the state dict, which no new layer can load: use register_buffer(…,
    persistent=False) in __init__
parameter.unregistered: {name} is a plain list, dict or tensor, so no optimizer trains its
    weights and no state dict holds them: register them with nn.ModuleList or nn.Parameter
parameter.none: no parameter is registered: weights are buffers, plain tensors, or made in
    forward (register them with nn.Parameter)
~parameter.unused: {name} is not used in forward, or its output is detached: it gets no gradient (a
    mask belongs into a buffer)
parameter.silent: {name} has no influence on the output: it is never trained
parameter.part: a part of {name} has no influence on the output, or its output is detached:
    these queries, keys or values are never trained
parameter.tied: {one} and {other} share their memory, so they can never differ: create two
    ([layer] * n repeats one object)
~shape.input: it fails on an input of shape (b, n, d_model) with {error}: check {what} and the
    sizes of the projections
~values.nan_row: the output of a token is NaN or infinite: it attends to nothing, and its softmax
    is 0 / 0
~layer.attend: its heads do not give what attend= gives, and no bug known here explains it
~layer.step: its heads give what {name}= gives if {what}: take that step as {name}= says
~layer.unknown: its output is not what softmax(q kᵀ / √d_head) v of its own projections and what
    is declared give, and fits no bug known here: declare what it does besides, such as
    value_scale, norms or activation; or what it does instead | attend=…
~batch.axes: it attends over the batch, not over the sequence: it expects (n, b, d_model)
    (batch_first=False?), or axes are swapped | layout="nbd"
~batch.mixes: sequences of a batch influence each other: a softmax, a mean or a reshape runs over
    the batch axis
~split.along_tokens: shared heads of keys and values are repeated along the tokens, not along the
    heads, so a causal mask hides most of the past: repeat along dim=1 of (b, h, n, d_head)
~mask.narrow: some tokens are never attended to: the mask hides too much, a slice is off by one, or
    triu stands for tril | window=… or attend=…
documents.ignored: {name} has no influence: each token attends to other documents of its
    sequence, too
~documents.moved: a document's output depends on those before it: {name} separates them, but
    positions do not start anew, or it is misread
~order.matters: the output depends on the order of tokens: a mask, positions,
    or a reshape that mixes tokens and heads | positions=True
~order.never: positions=True is declared, but the order of tokens has no influence: {name} is
    never used, or is indexed by heads or the batch
~weights.returned_sums: it returns scores, or weights whose rows do not sum to 1 (transposed, or
    after dropout): return the weights that it used
"""
)
