"""`watch` on models that know nothing of it: the same bits, the same kernels,
the weights that the model itself would give.

If it fails: nbs/tools/watching.ipynb says what each part is for, and which notebook has it.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F
from attention_nb.tools import calls, reading, watching
from attention_nb.tools.calls import Call
from attention_nb.tools.steps import Step, keys_of
from attention_nb.tools.testing import assert_close
from attention_nb.tools.watching import watch
from conftest import fail_if
from late import Late
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.utils._python_dispatch import TorchDispatchMode

transformers = Late("transformers")

TEXT = dict(
    hidden_size=32,
    num_attention_heads=4,
    num_hidden_layers=2,
    intermediate_size=40,
    vocab_size=60,
    max_position_embeddings=64,
    pad_token_id=0,
    bos_token_id=1,
    eos_token_id=2,
)
GROUPED = TEXT | dict(num_key_value_heads=2)
IMAGE = dict(
    hidden_size=32,
    num_attention_heads=4,
    num_hidden_layers=2,
    intermediate_size=40,
    image_size=32,
    patch_size=8,
)
BOTH = dict(
    d_model=32,
    encoder_layers=2,
    decoder_layers=2,
    encoder_attention_heads=4,
    decoder_attention_heads=4,
    encoder_ffn_dim=40,
    decoder_ffn_dim=40,
    vocab_size=60,
    pad_token_id=0,
    bos_token_id=1,
    eos_token_id=2,
    decoder_start_token_id=1,
)
IDS = torch.tensor([[3, 4, 5, 6, 7, 8, 9], [0, 0, 5, 6, 7, 8, 9]])
LEFT = dict(input_ids=IDS, attention_mask=(IDS > 0).long())
RIGHT = {name: x.flip(1) for name, x in LEFT.items()}
TWO = RIGHT | dict(decoder_input_ids=IDS[:, 2:6])
PIXELS = dict(pixel_values=torch.linspace(-1, 1, 2 * 3 * 32 * 32).sin().reshape(2, 3, 32, 32))
SOUND = dict(
    input_features=torch.linspace(-1, 1, 2 * 8 * 20).sin().reshape(2, 8, 20),
    decoder_input_ids=IDS[:, 2:6],
)

# model → class, its config, its inputs, what all layers' masks are, and facts of one call
MODELS: dict[str, tuple[str, dict, dict, list[str], dict]] = {
    "Llama": (
        "LlamaForCausalLM",
        GROUPED,
        LEFT,
        ["causal"] * 2,
        dict(kv_heads=2, scale=8**-0.5, padding=True, causal=True, offset=0),
    ),
    "Mistral": (
        "MistralForCausalLM",
        GROUPED | dict(sliding_window=3),
        LEFT,
        ["window"] * 2,
        dict(window=3, causal=True),
    ),
    "Gemma2": (
        "Gemma2ForCausalLM",
        GROUPED | dict(head_dim=8, sliding_window=3),
        LEFT,
        ["window", "causal"],
        dict(scale=256**-0.5),
    ),
    "GptOss": (
        "GptOssForCausalLM",
        GROUPED | dict(head_dim=8, sliding_window=3, num_local_experts=2, num_experts_per_tok=1),
        LEFT,
        ["window", "causal"],
        dict(window=3),
    ),
    "GPT2": (
        "GPT2LMHeadModel",
        dict(n_embd=32, n_head=4, n_layer=2, vocab_size=60, n_positions=64),
        LEFT,
        ["causal"] * 2,
        dict(kv_heads=4),
    ),
    "Bloom": (
        "BloomForCausalLM",
        dict(hidden_size=32, n_head=4, n_layer=2, vocab_size=60),
        LEFT,
        ["bias"] * 2,
        dict(causal=True),
    ),
    "Falcon": (
        "FalconForCausalLM",
        TEXT | dict(new_decoder_architecture=False, multi_query=True),
        LEFT,
        ["causal"] * 2,
        dict(kv_heads=1),
    ),
    "Bert": ("BertModel", TEXT, RIGHT, ["padding"] * 2, dict(causal=False, padding=True)),
    "Deberta": (
        "DebertaModel",
        TEXT | dict(relative_attention=True, pos_att_type=["c2p", "p2c"]),
        RIGHT,
        ["bias"] * 2,
        dict(causal=False),
    ),
    "ModernBert": (
        "ModernBertModel",
        TEXT | dict(local_attention=4, global_attn_every_n_layers=2),
        RIGHT,
        ["padding", "window"],
        {},
    ),
    "T5": (
        "T5Model",
        dict(d_model=32, d_kv=8, num_heads=4, num_layers=2, d_ff=40, vocab_size=60),
        TWO,
        ["bias"] * 3 + ["padding", "bias", "padding"],
        dict(scale=1.0),
    ),
    "Bart": (
        "BartModel",
        BOTH | dict(max_position_embeddings=64),
        TWO,
        ["padding"] * 2 + ["causal", "padding"] * 2,
        dict(n_q=7),
    ),
    "Whisper": (
        "WhisperModel",
        BOTH | dict(num_mel_bins=8, max_source_positions=10, max_target_positions=20),
        SOUND,
        ["none"] * 2 + ["causal", "none"] * 2,
        dict(scale=1.0),
    ),
    "ViT": ("ViTModel", IMAGE, PIXELS, ["none"] * 2, dict(n_k=17, causal=False)),
    "Swin": (
        "SwinModel",
        dict(
            embed_dim=8, depths=[1, 2], num_heads=[2, 4], image_size=32, patch_size=2, window_size=4
        ),
        PIXELS,
        ["none"] * 2 + ["bias"],
        dict(b=32, n_q=16),
    ),
    "CLIP": (
        "CLIPModel",
        dict(text_config=TEXT, vision_config=IMAGE),
        RIGHT | PIXELS,
        ["none"] * 2 + ["causal"] * 2,
        {},
    ),
}


@pytest.fixture(autouse=True)
def quiet():
    "Random models warn that they are not trained."
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        yield
    logging.disable(before)


class Kernels(TorchDispatchMode):
    "The kernels of attention that run."

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if "attention" in str(func) or "transformer" in str(func):
            self.names.append(str(func))
        return func(*args, **(kwargs or {}))


def kernels(run: Callable[[], object]) -> list[str]:
    "The kernels of attention that a function runs."
    with Kernels() as seen:
        run()
    return seen.names


def made(name: str, implementation: str) -> nn.Module:
    "A tiny random model."
    cls, config, *_ = MODELS[name]
    config = getattr(transformers, f"{name}Config")(**config)
    config._attn_implementation = implementation
    torch.manual_seed(0)
    return getattr(transformers, cls)(config).eval()


def tensors(out: Any) -> list[torch.Tensor]:
    "The tensors that a model returns."
    return [x for x in out.to_tuple() if isinstance(x, torch.Tensor)]


EAGER_ALONE = {"GptOss", "Bloom", "Deberta"}  # the library has no other for them
WAYS = [
    (name, way)
    for name in MODELS
    for way in ("sdpa", "eager")
    if way == "eager" or name not in EAGER_ALONE
]


@pytest.mark.parametrize("name, implementation", WAYS)
def test_architectures(name, implementation):
    """Bit for bit the same output from the same kernels; each layer is seen; the weights are those
    that the model returns itself.
    """
    _, _, inputs, masks, facts = MODELS[name]
    model = made(name, implementation)
    before = tensors(model(**inputs))
    with watch(model) as seen:
        after = tensors(model(**inputs))
    assert len(before) == len(after) and all(map(torch.equal, before, after))
    assert not seen.unseen, "\n".join(map(str, seen.unseen))
    assert [call.mask for call in seen.calls] == masks
    assert all(call.error is not None and call.error < 1e-5 for call in seen.calls)
    found = {name: getattr(seen.calls[0], name) for name in facts}
    assert found == pytest.approx(facts)

    def watched() -> None:
        with watch(model):
            model(**inputs)

    assert kernels(watched) == kernels(lambda: model(**inputs))


@pytest.mark.parametrize(
    "name",
    [
        "Llama",
        "Mistral",
        "Gemma2",
        "GptOss",
        "Falcon",
        "Bert",
        "Bart",
        "Whisper",
        "ViT",
        "GPT2",
        "T5",
    ],
)
def test_weights_are_those_that_the_model_returns(name):
    "From eager code that returns them; of fused attention, too, where both give the same output."
    _, _, inputs, *_ = MODELS[name]
    with watch(made(name, "eager")) as seen:
        out = seen.model(**inputs, output_attentions=True)
    theirs = [
        w
        for part in ("encoder_attentions", "decoder_attentions", "cross_attentions", "attentions")
        for w in out.get(part) or ()
    ]
    calls = [
        call
        for call in seen.calls
        if "encoder_attn" not in call.layer and "EncDec" not in call.layer
    ]
    cross = [call for call in seen.calls if call not in calls]
    assert len(theirs) == len(seen.calls)
    for call, weights in zip(calls + cross, theirs):
        assert_close(call.weights(), weights, atol=1e-6, rtol=1e-4)
        assert_close(
            call.weights([1, -1], slice(2, 4)), weights[:, [1, -1], 2:4], atol=1e-6, rtol=1e-4
        )


def test_generation_with_a_cache():
    "A call per layer and step; a cache that is written again is refused, unless copies are kept."
    model = made("Llama", "sdpa")
    ids = IDS[:1]
    how = dict(max_new_tokens=4, do_sample=False, eos_token_id=None)
    plain = model.generate(ids, **how)
    with watch(model) as seen:
        assert torch.equal(model.generate(ids, **how), plain)
    assert [(call.turn, call.n_q, call.n_k) for call in seen.of("model.layers.1")] == [
        (0, 7, 7),
        (1, 1, 8),
        (2, 1, 9),
        (3, 1, 10),
    ]
    assert_close(seen.calls[-1].weights().sum(-1), torch.ones(1, 4, 1))
    static = how | dict(cache_implementation="static", disable_compile=True)
    with watch(model) as seen, watch(model, keep="copies") as kept:
        model.generate(ids, **static)
    with pytest.raises(ValueError, match="has written over"):
        seen.calls[0].weights()
    assert [call.mask for call in seen.calls[:2]] == ["causal"] * 2
    assert_close(kept.calls[2].weights().sum(-1), torch.ones(1, 4, 1))


def test_training_with_checkpoints():
    "The same loss and gradients; what the backward pass computes again is no call."
    model = made("Llama", "sdpa").train()
    model.gradient_checkpointing_enable()

    def step() -> list[torch.Tensor]:
        model.zero_grad()
        with torch.enable_grad():
            loss = model(IDS, labels=IDS).loss
            loss.backward()
        return [loss.detach(), *(p.grad.clone() for p in model.parameters())]

    before = step()
    with watch(model) as seen:
        after = step()
    assert all(map(torch.equal, before, after)) and [call.turn for call in seen.calls] == [0, 0]


class Home(nn.Module):
    "Attention by hand, in the way that its name says."

    def __init__(self, way: str):
        super().__init__()
        self.n_heads, self.way = 3, way
        self.q_proj, self.k_proj, self.v_proj = (nn.Linear(12, 12) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (
            p(x).unflatten(-1, (3, 4)).transpose(1, 2)
            for p in (self.q_proj, self.k_proj, self.v_proj)
        )
        return getattr(self, self.way)(
            q, k, v, torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril()
        )

    def fused(self, q, k, v, mask):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    def given_mask(self, q, k, v, mask):
        return F.scaled_dot_product_attention(q, k, v, mask)

    def matmul(self, q, k, v, mask):
        return F.softmax((q @ k.mT / 2).masked_fill(~mask, -torch.inf), dim=-1) @ v

    def in_place(self, q, k, v, mask):
        scores = torch.matmul(q, k.transpose(-1, -2)).mul_(0.5)
        scores += torch.where(mask, 0.0, -1e9)
        return torch.matmul(scores.softmax(-1), v)

    def by_hand(self, q, k, v, mask):
        scores = torch.where(mask, q @ k.mT * 0.5, -1e9)
        powers = (scores - scores.amax(-1, keepdim=True)).exp()
        return powers / powers.sum(-1, keepdim=True) @ v

    def einsum(self, q, k, v, mask):
        q, k, v = (t.transpose(1, 2) for t in (q, k, v))
        scores = torch.einsum("bihd,bjhd->bhij", q, k) * 0.5
        return torch.einsum(
            "bhij,bjhd->bihd", scores.masked_fill(~mask, -1e9).softmax(-1), v
        ).transpose(1, 2)

    def keys_last(self, q, k, v, mask):  # as diffusion models have it: (b h) channels tokens
        q, k, v = (t.flatten(0, 1).mT for t in (q, k, v))
        scores = torch.einsum("bct,bcs->bts", q * 0.5**0.5, k * 0.5**0.5).masked_fill(~mask, -1e9)
        return torch.einsum("bts,bcs->bct", scores.softmax(-1), v).mT.unflatten(0, (-1, 3))

    def baddbmm(self, q, k, v, mask):
        b, h, n, d = q.shape
        q, k, v = (t.reshape(b * h, n, d) for t in (q, k, v))
        scores = torch.baddbmm(torch.where(mask, 0.0, -1e9)[None], q, k.mT, alpha=0.5).view(
            b, h, n, n
        )
        return torch.bmm(scores.softmax(-1).view(b * h, n, n), v).view(b, h, n, d)

    # sums of queries that no layout of ours knows: the weights themselves are kept
    def cut(self, q, k, v, mask):
        scores = torch.stack([(q[:, :, i, None] * k).sum(-1) for i in range(q.shape[2])], 2) * 0.5
        return scores.masked_fill(~mask, -1e9).softmax(-1) @ v


@pytest.mark.parametrize(
    "way",
    [
        name
        for name in vars(Home)
        if name not in ("__init__", "forward", "fused") and not name.startswith("_")
    ],
)
def test_by_hand(way):
    "The weights of the fused function, from each way to write them down."
    x, outs, weights = torch.linspace(-3, 3, 2 * 7 * 12).sin().reshape(2, 7, 12), [], []
    for name in ("fused", way):
        torch.manual_seed(0)
        model = Home(name)
        with watch(model) as seen:
            outs.append(model(x))
        assert not seen.unseen and len(seen.calls) == 1
        call = seen.calls[0]
        weights.append(call.weights())
        assert (call.b, call.heads, call.mask, call.causal) == (2, 3, "causal", True)
        assert (
            way == "cut"
            and call.scale is None
            or call.scale == pytest.approx(1.0 if name == "keys_last" else 0.5)
        )
    assert_close(*outs, atol=1e-5, rtol=1e-4)
    assert_close(*weights, atol=1e-5, rtol=1e-4)


def test_flex():
    "Compiled and not; what its functions do to a pair is done again."

    def window(b, h, i, j):
        return (i >= j) & (i - j < 3)

    class Flex(nn.Module):
        def __init__(self, f):
            super().__init__()
            self.f, self.q_proj, self.k_proj = f, nn.Linear(32, 32), nn.Linear(32, 32)

        def forward(self, x):
            q, k = (p(x).unflatten(-1, (2, 16)).transpose(1, 2) for p in (self.q_proj, self.k_proj))
            return self.f(
                q,
                k,
                k,
                block_mask=create_block_mask(window, None, None, 9, 9, device="cpu"),
                score_mod=lambda s, b, h, i, j: s - 0.1 * h * j,
            )

    x = torch.linspace(-3, 3, 2 * 9 * 32).sin().reshape(2, 9, 32)
    for f in (flex_attention, torch.compile(flex_attention, backend="eager")):
        model = Flex(f)
        before = model(x)
        with watch(model) as seen:
            assert torch.equal(model(x), before)
        assert [(call.via, call.mask, call.window, call.agrees) for call in seen.calls] == [
            ("flex_attention", "bias", 3, True)
        ] and not seen.unseen


def test_fast_paths():
    "Of PyTorch's own layers, with padding, too, as nested tensors; both stay on their fast path."
    layer = nn.TransformerEncoderLayer(12, 2, 24, batch_first=True)
    stack, attention = (
        nn.TransformerEncoder(layer, 2).eval(),
        nn.MultiheadAttention(12, 2, batch_first=True).eval(),
    )
    x, padding = torch.randn(3, 7, 12), torch.arange(7) >= torch.tensor([[7], [4], [6]])
    for model, run in {
        stack: lambda: stack(x, src_key_padding_mask=padding),
        attention: lambda: attention(x, x, x, key_padding_mask=padding)[0],
    }.items():
        before = run()
        with watch(model) as seen:
            assert torch.equal(run(), before)
        assert all(
            call.mask == "padding"
            and call.via in ("transformer_encoder_layer_fwd", "native_multi_head_attention")
            for call in seen.calls
        )
        assert not seen.unseen and len(seen.calls) in (1, 2)
        assert not seen.calls[0].weights()[1, :, :, 4:].any()
        names = kernels(run)
        assert names and kernels(lambda: watched(model, run)) == names
    assert_close(
        seen.calls[0].weights(),
        attention(x, x, x, key_padding_mask=padding, average_attn_weights=False)[1],
        atol=1e-5,
        rtol=1e-4,
    )


def watched(model: nn.Module, run: Callable[[], object]) -> object:
    "What a function returns while a model is watched."
    with watch(model):
        return run()


def test_a_compiled_model_is_left_alone():
    "No graph is compiled anew; what is not seen is said, with the layers."
    graphs, x = [], torch.linspace(-3, 3, 7 * 12).sin().reshape(1, 7, 12)

    def backend(graph: Any, inputs: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    class Flat(Home):
        def forward(self, x):
            return super().forward(x).transpose(1, 2).flatten(2)

    whole = torch.compile(nn.Sequential(Flat("fused"), Flat("matmul")), backend=backend)
    half = nn.Sequential(Flat("fused"), torch.compile(Flat("matmul"), backend=backend))
    for model, missing in {whole: ["0", "1"], half: ["1"]}.items():
        before, n = model(x), len(graphs)
        with watch(model) as seen:
            assert torch.equal(model(x), before)
        assert len(graphs) == n
        assert [one.layer for one in seen.unseen] == missing and all(
            "a compiled graph" in one.why for one in seen.unseen
        )
        assert [call.layer for call in seen.calls] == ["0"][: 2 - len(missing)]


def test_scripted_models_are_named():
    "Nothing is seen in them, and that is said."

    class Small(nn.Module):
        def __init__(self):
            super().__init__()
            self.q_proj, self.k_proj = nn.Linear(8, 8), nn.Linear(8, 8)

        def forward(self, x):
            return F.scaled_dot_product_attention(self.q_proj(x), self.k_proj(x), x)

    scripted = torch.jit.script(Small())
    with watch(scripted) as seen:
        scripted(torch.ones(1, 3, 8))
    assert [one.why for one in seen.unseen] == ["a scripted graph, not seen"] and not seen.calls


class Largest(TorchDispatchMode):
    "The bytes of the largest new tensor."

    most = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for x in out if isinstance(out, (list, tuple)) else [out]:
            if isinstance(x, torch.Tensor):
                self.most = max(self.most, x.untyped_storage().nbytes())
        return out


def test_long_sequences_stay_within_a_block():
    """32,768 tokens: a whole matrix would take 4 GB.

    No tensor that is made is larger than a block of 8 MB.
    """
    q, k, v = torch.randn(3, 1, 2, 32_768, 8)
    steps = reading._sdpa(2, v, q, k, v, is_causal=True).steps
    call = Call("", "scaled_dot_product_attention", (1, 2, 32_768, 32_768), 8, q, k, steps)
    with Largest() as largest:
        part, weights = next(call.blocks(heads=1))
        last = call.weights(1, slice(-5, None))
    assert (part, weights.shape, last.shape) == (
        slice(0, 64),
        (1, 1, 64, 32_768),
        (1, 1, 5, 32_768),
    )
    assert largest.most <= 4 * calls.BLOCK
    assert_close(
        last[0, 0],
        torch.softmax(
            (q[0, 1, -5:] @ k[0, 1].T / 8**0.5).masked_fill(
                ~torch.ones(5, 32_768).tril(32_763).bool(), -torch.inf
            ),
            -1,
        ),
    )


# ---- Each check fails on the bug that it is for ----

BUGS: dict[str, tuple[Any, str, Any]] = {  # → module, function, and a wrong one in its place
    "the scale is that of another width": (
        reading,
        "scaled",
        lambda scale: Step("mul", lambda s, at: s * scale * 2, (scale * 2,)),
    ),
    "is_causal ends at the last key": (
        reading,
        "up_to_own_key",
        lambda: Step(
            "causal", lambda s, at: s.masked_fill(keys_of(s) > at.rows[:, None] + 1, -torch.inf)
        ),
    ),
    "a mask is read the wrong way round": (
        reading,
        "barred",
        lambda operand: Step(
            "mask", lambda s, at: s.masked_fill(operand.block(at), -torch.inf), (operand,)
        ),
    ),
    "groups of heads are dealt out in turn": (
        calls,
        "_scores",
        lambda call, at: (call.q[:, at.head, at.rows] @ call.k[:, at.head % call.k.shape[1]].mT)[
            :, None
        ],
    ),
}


@pytest.mark.parametrize("bug", BUGS)
def test_a_wrong_reading_is_noticed(bug, monkeypatch):
    "weights @ v is compared with the output, so the layer is named in `unseen`."
    monkeypatch.setattr(*BUGS[bug])
    found = []
    for model, inputs in (
        (made("Llama", "sdpa"), LEFT),
        (made("Llama", "sdpa"), dict(input_ids=IDS)),
        (Home("fused"), dict(x=torch.randn(2, 7, 12))),
    ):
        with watch(model) as seen:
            model(**inputs)
        found += [one.why for one in seen.unseen]
    assert any("weights @ v differs from the output" in why for why in found), found


@pytest.mark.parametrize("patch", ["_ignored_by_fast_paths", "_off_in_compiled_code"])
def test_a_watcher_without_its_care_is_noticed(patch, monkeypatch):
    "Without it a fast path is given up, or a graph compiled anew: the tests above would see it."
    monkeypatch.setattr(watching, patch, lambda mode: lambda: None)
    attention, x = nn.MultiheadAttention(12, 2, batch_first=True).eval(), torch.randn(3, 7, 12)
    graphs = []

    def backend(graph, inputs):
        graphs.append(graph)
        return graph.forward

    compiled = torch.compile(Home("fused"), backend=backend)
    compiled(x)
    before, run = len(graphs), lambda: attention(x, x, x)[0]
    noticed = kernels(lambda: watched(attention, run)) != kernels(run)
    watched(compiled, lambda: compiled(x))
    assert noticed if patch == "_ignored_by_fast_paths" else len(graphs) > before


def test_a_module_is_named_only_if_nothing_was_seen_in_it():
    "An attention that does nothing, and one without softmax, among others that do."

    class NoSoftmax(Home):
        def forward(self, x):
            return self.q_proj(x) @ (self.k_proj(x).mT @ x)

    model = nn.ModuleDict(
        dict(good=Home("matmul"), linear=NoSoftmax("matmul"), idle=Home("matmul"))
    )
    with watch(model) as seen:
        x = torch.randn(1, 5, 12)
        model["good"](x), model["linear"](x)
    assert {one.layer: one.ran for one in seen.unseen} == {"linear": True, "idle": False}
    fail_if([str(one) for one in seen.unseen if one.layer == "good"], "It was seen:")
