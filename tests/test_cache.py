"""Random scripts: whatever is appended, forked, freed, cut back and reordered,
caches hold what plain lists hold.
"""

import attention_nb as nb
import pytest
import torch
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from torch import Tensor

HEADS, WIDTH = 2, 3
counts, seeds = st.integers(1, 5), st.integers(0, 999)


def new_tokens(b: int, n: int, seed: int) -> tuple[Tensor, Tensor]:
    "Keys and values of some tokens, (b, h, n, d)."
    k, v = torch.randn(2, b, HEADS, n, WIDTH, generator=torch.Generator().manual_seed(seed))
    return k, v


class Pages(RuleBasedStateMachine):
    "Sequences that share blocks, against one that keeps all its tokens to itself."

    @initialize(n_blocks=st.integers(1, 12), block_size=st.integers(1, 4))
    def begin(self, n_blocks, block_size):
        self.cache, self.kept = nb.PagedCache(n_blocks, block_size, HEADS, WIDTH), {}

    def some(self, data, least=1):
        return data.draw(
            st.lists(st.sampled_from(sorted(self.kept)), min_size=least, max_size=4, unique=True)
        )

    @rule()
    def new(self):
        seq = self.cache.new()
        assert seq not in self.kept
        self.kept[seq] = [torch.zeros(HEADS, 0, WIDTH)] * 2

    @precondition(lambda self: self.kept)
    @rule(data=st.data())
    def fork(self, data):
        seq = self.some(data)[0]
        child, before = self.cache.fork(seq), len(self.cache.free_blocks)
        assert child not in self.kept and before == len(self.cache.free_blocks)
        self.kept[child] = self.kept[seq]

    @precondition(lambda self: self.kept)
    @rule(data=st.data())
    def free(self, data):
        seq = self.some(data)[0]
        self.cache.free(seq)
        del self.kept[seq]

    @precondition(lambda self: self.kept)
    @rule(data=st.data(), n=counts, seed=seeds)
    def append(self, data, n, seed):
        seqs = self.some(data)
        new, size, ref_counts = (
            new_tokens(len(seqs), n, seed),
            self.cache.keys.shape[1],
            list(self.cache.ref_counts),
        )
        before = repr(
            (
                self.cache.block_tables,
                self.cache.lengths,
                self.cache.ref_counts,
                self.cache.free_blocks,
            )
        )
        needed = 0  # block after block, as they are taken
        for seq in seqs:
            table, begun = self.cache.block_tables[seq], self.cache.lengths[seq] % size
            if begun and ref_counts[table[-1]] > 1:
                ref_counts[table[-1]] -= 1
                needed += 1
            needed += -(-(self.cache.lengths[seq] + n) // size) - len(table)
        if needed > len(self.cache.free_blocks):
            with pytest.raises(ValueError, match="k: expected tokens for at most"):
                self.cache.append(seqs, *new)
            assert before == repr(
                (
                    self.cache.block_tables,
                    self.cache.lengths,
                    self.cache.ref_counts,
                    self.cache.free_blocks,
                )
            )
            return
        free = len(self.cache.free_blocks)
        self.cache.append(seqs, *new)
        assert free - len(self.cache.free_blocks) == needed  # not a block more than must be
        for i, seq in enumerate(seqs):
            self.kept[seq] = [torch.cat([old, t[i]], dim=1) for old, t in zip(self.kept[seq], new)]

    @invariant()
    def nothing_is_lost_and_nothing_given_out_twice(self):
        cache = self.cache
        held = [block for table in cache.block_tables.values() for block in table]
        assert cache.ref_counts == [held.count(block) for block in range(len(cache.ref_counts))]
        assert sorted([*{*held}, *cache.free_blocks]) == list(range(len(cache.ref_counts)))
        assert all(len({*table}) == len(table) for table in cache.block_tables.values())

    @invariant()
    def each_reads_its_own_tokens(self):
        assert self.cache.lengths == {seq: k.shape[1] for seq, (k, _) in self.kept.items()}
        if self.kept:
            found = self.cache.read(list(self.kept))
            for i, wanted in enumerate(self.kept.values()):
                for t, want in zip(found, wanted):
                    assert torch.equal(t[i, :, : want.shape[1]], want)


class Sequences(RuleBasedStateMachine):
    "The plain cache, against a list for each sequence."

    @initialize(b=st.integers(1, 3), n_max=st.integers(1, 12))
    def begin(self, b, n_max):
        self.cache = nb.KVCache(b, HEADS, n_max, WIDTH)
        self.buffers = self.cache.keys.data_ptr(), self.cache.values.data_ptr()
        self.kept = [[torch.zeros(HEADS, 0, WIDTH)] * 2 for _ in range(b)]

    @rule(n=counts, seed=seeds)
    def append(self, n, seed):
        new, longest = new_tokens(len(self.kept), n, seed), max(k.shape[1] for k, _ in self.kept)
        if longest + n > self.cache.keys.shape[2]:
            with pytest.raises(ValueError, match="k: expected at most"):
                self.cache.append(*new)
            return
        found = self.cache.append(*new)
        assert found[0].shape[2] == found[1].shape[2] == longest + n
        assert (found[0].data_ptr(), found[1].data_ptr()) == self.buffers
        self.kept = [
            [torch.cat([old, t[i]], dim=1) for old, t in zip(row, new)]
            for i, row in enumerate(self.kept)
        ]
        seen, lengths = self.cache.visible(n), [k.shape[1] for k, _ in self.kept]
        want = torch.tensor(
            [
                [[[j <= length - n + i for j in range(longest + n)] for i in range(n)]]
                for length in lengths
            ]
        )
        only_future = nb.causal_mask(n, longest + n).expand_as(want)
        assert torch.equal(only_future if seen is None else seen, want)

    @rule(data=st.data())
    def truncate(self, data):
        cuts = data.draw(
            st.integers(0, 12)
            | st.lists(st.integers(0, 12), min_size=len(self.kept), max_size=len(self.kept))
        )
        self.cache.truncate(cuts)
        each = [cuts] * len(self.kept) if isinstance(cuts, int) else cuts
        self.kept = [[t[:, :cut] for t in row] for cut, row in zip(each, self.kept)]

    @rule(data=st.data())
    def reorder(self, data):
        indices = data.draw(st.lists(st.integers(0, len(self.kept) - 1), min_size=1, max_size=4))
        self.cache.reorder(indices)
        if len(indices) != len(self.kept):  # there must be other buffers
            self.buffers = self.cache.keys.data_ptr(), self.cache.values.data_ptr()
        self.kept = [self.kept[i] for i in indices]

    @rule()
    def reset(self):
        self.cache.reset()
        self.kept = [[t[:, :0] for t in row] for row in self.kept]

    @invariant()
    def each_sequence_keeps_its_own_tokens(self):
        assert self.cache.lengths.tolist() == [k.shape[1] for k, _ in self.kept]
        for i, row in enumerate(self.kept):
            for buffer, want in zip((self.cache.keys, self.cache.values), row):
                assert torch.equal(buffer[i, :, : want.shape[1]], want)
                # nothing is left of what was dropped
                assert not buffer[i, :, want.shape[1] :].any()


TestPages, TestSequences = Pages.TestCase, Sequences.TestCase


# Published layers ---------------------------------------------------------------------------------

SIZES = dict(
    hidden_size=24,
    num_attention_heads=6,
    num_key_value_heads=2,
    head_dim=8,
    num_hidden_layers=1,
    vocab_size=32,
    attn_implementation="eager",
    max_position_embeddings=512,
)


def published(name: str):
    "A layer of `transformers` with random weights, what turns its rows, and its cache."
    transformers = pytest.importorskip("transformers")
    from importlib import import_module

    folder = {
        "Llama": "llama",
        "Qwen3": "qwen3",
        "Gemma3": "gemma3",
        "GptOss": "gpt_oss",
        "DeepseekV3": "deepseek_v3",
        "GPTNeoX": "gpt_neox",
    }[name]
    module = import_module(f"transformers.models.{folder}.modeling_{folder}")
    sizes = dict(SIZES)
    config_name = "Gemma3TextConfig" if name == "Gemma3" else f"{name}Config"
    if name == "DeepseekV3":
        sizes |= dict(
            num_key_value_heads=6,
            q_lora_rank=12,
            kv_lora_rank=16,
            qk_rope_head_dim=4,
            qk_nope_head_dim=8,
            v_head_dim=8,
        )
        del sizes["head_dim"]
    if name in ("Gemma3", "GptOss"):
        sizes |= dict(layer_types=["full_attention"])
    config = getattr(transformers, config_name)(**sizes)
    torch.manual_seed(0)
    layer = getattr(module, f"{name}Attention")(config, layer_idx=0).eval()
    with torch.no_grad():
        for parameter in layer.parameters():  # some are left as they lie in memory
            parameter.normal_(0, 0.3)
    turn = getattr(module, f"{name}RotaryEmbedding")(config)
    return layer, turn, lambda b, n_max: transformers.DynamicCache(config=config)


@pytest.mark.parametrize("name", ["Llama", "Qwen3", "Gemma3", "GptOss", "DeepseekV3", "GPTNeoX"])
def test_published_layers_are_accepted(name):
    "With their own cache, which grows; and refused where one forgets the places."
    layer, turn, new_cache = published(name)

    def step(x, cache, start=None):
        start, n = cache.get_seq_length() if start is None else start, x.shape[1]
        places, kept = torch.arange(start, start + n)[None], cache.get_seq_length()
        hidden = torch.zeros(n, kept + n).masked_fill(~nb.causal_mask(n, kept + n), float("-inf"))[
            None, None
        ]
        where = turn(x, places, "full_attention") if name == "Gemma3" else turn(x, places)
        past = {"layer_past": cache} if name == "GPTNeoX" else {"past_key_values": cache}
        return layer(x, attention_mask=hidden, position_embeddings=where, **past)

    full = lambda x: step(x, new_cache(len(x), 0))
    report = nb.check_cache(step, 24, new_cache, full=full, grows=True)
    assert report.ok and len(report.passed) >= 5
    with pytest.raises(nb.CheckFailed) as failed:
        nb.check_cache(
            lambda x, cache: step(x, cache, start=0), 24, new_cache, full=full, grows=True
        )
    assert failed.value.report.codes[0] == "cache.positions"
    with pytest.raises(nb.CheckFailed) as failed:
        nb.check_cache(step, 24, new_cache, full=full)
    assert (
        failed.value.report.codes == ["cache.copies"]
        or "cache.full_silent" in failed.value.report.codes
    )


# Models -------------------------------------------------------------------------------------------


def a_model(positions=None, added=None) -> nb.LanguageModel:
    "A small model with random weights, in evaluation mode."
    torch.manual_seed(0)
    blocks = [
        nb.TransformerBlock(
            16, nb.MultiHeadAttention(16, 2, positions=positions), nb.FeedForward(16)
        )
        for _ in range(2)
    ]
    return nb.LanguageModel(nb.TokenEmbedding(20, 16, added), nb.TransformerStack(blocks)).eval()


@pytest.mark.parametrize(
    "positions, added",
    [
        (None, nb.LearnedPositions(16, 16)),
        (nb.RotaryEmbedding(8), None),
        (nb.AlibiPositions(2), None),
    ],
)
def test_padded_prompts_in_a_cache_of_one_shape(positions, added):
    "The mask may have a column for each token so far, or one for each position of the buffer."
    model, ids = a_model(positions, added), torch.randint(20, (2, 6))
    if added is not None:
        torch.nn.init.normal_(added.weight)
    new = lambda: [nb.StaticCache(2, 2, 16, 8) for _ in range(2)]
    mask = nb.padding_mask([4, 6]).flip(-1)
    expected = model.generate(ids, 5, mask=mask)
    assert torch.equal(model.generate(ids, 5, mask=mask, caches=new()), expected)
    caches, wide = new(), torch.nn.functional.pad(mask, (0, 10), value=True)
    with torch.no_grad():
        logits = torch.cat([model(ids[:, :5], wide, caches), model(ids[:, 5:], wide, caches)], 1)
        torch.testing.assert_close(logits[:, 2:], model(ids, mask)[:, 2:], atol=1e-4, rtol=1e-4)
    with pytest.raises(ValueError, match="mask: expected a shape"):
        model(ids[:, :1], mask, caches)  # seven tokens, six columns


def test_a_cache_of_one_shape_attends_to_no_unused_position():
    "Unless the lengths are not known, as in a compiled program: then the shape stays the same."
    layer, x, lengths = nb.MultiHeadAttention(8, 2), torch.randn(1, 12, 8), []
    cache = nb.StaticCache(1, 2, 500, 4)
    own = torch.nn.functional.scaled_dot_product_attention

    def watched(q, k, *more, **options):
        lengths.append(k.shape[-2])
        return own(q, k, *more, **options)

    with torch.no_grad(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.nn.functional, "scaled_dot_product_attention", watched)
        out = torch.cat([layer(part, cache=cache)[0] for part in x.split([9, 1, 2], 1)], 1)
    assert lengths == [9, 10, 12]
    torch.testing.assert_close(out, layer(x, causal=True)[0])


def test_one_cache_for_several_blocks_is_refused():
    "As `[cache] * 2` makes it: each block would read the keys of the others."
    model, ids = a_model(), torch.randint(20, (2, 3))
    with pytest.raises(ValueError, match="caches: expected a cache of its own for each of 2"):
        model(ids, caches=[nb.KVCache(2, 2, 9, 8)] * 2)
