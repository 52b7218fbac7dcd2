"""Attention of the models in transformers,
each made from the configuration of its model, made small.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping
from types import MappingProxyType, SimpleNamespace
from typing import Any

import torch
from torch import Tensor
from tests.third_party.families import D, H, HEAD, M, required, triangle
from tests.third_party.subjects import Subject, cross, layer

SIZES: dict[str, Any] = {
    **dict.fromkeys(
        (
            "hidden_size",
            "d_model",
            "n_embd",
            "dim",
            "embed_dim",
            "embedding_size",
            "d_embed",
            "output_dim",
        ),
        D,
    ),
    **dict.fromkeys(
        (
            "num_attention_heads",
            "num_key_value_heads",
            "n_head",
            "n_heads",
            "num_heads",
            "encoder_attention_heads",
            "decoder_attention_heads",
            "attention_heads",
        ),
        H,
    ),
    **dict.fromkeys(("head_dim", "d_kv", "attention_head_dim", "global_head_dim"), HEAD),
    **dict.fromkeys(
        (
            "num_hidden_layers",
            "n_layer",
            "n_layers",
            "num_layers",
            "encoder_layers",
            "decoder_layers",
        ),
        2,
    ),
    **dict.fromkeys(
        ("vocab_size", "intermediate_size", "encoder_ffn_dim", "decoder_ffn_dim", "ffn_dim"), 64
    ),
    "rotary_dim": 8,
}


def small(cls: Any, **more: Any) -> Any:
    "A configuration with small sizes, where it has them."
    own = cls().to_dict()
    config = cls(
        **{name: size for name, size in {**SIZES, **more}.items() if isinstance(own.get(name), int)}
    )
    config._attn_implementation = "eager"
    rope = getattr(config, "rope_parameters", None)
    if isinstance(rope, dict) and rope.get("partial_rotary_factor") == 0.25:
        rope["partial_rotary_factor"] = 0.5  # a quarter of 12 numbers makes no pairs
    return config


def configs(module: Any, name: str) -> list[Any]:
    """The configurations that a model's module knows;
    first those whose name is most like that of the class.
    """
    found = importlib.import_module(module.__name__.replace(".modeling_", ".configuration_"))
    mine = [
        c
        for n, c in vars(found).items()
        if n.endswith("Config") and getattr(c, "__module__", "") == found.__name__
    ]
    said = str(inspect.signature(getattr(module, name)))
    alike = lambda c: (c.__name__ in said, len(common(c.__name__, name)), "Text" in c.__name__)
    return sorted(mine, key=alike, reverse=True)


def common(a: str, b: str) -> str:
    "What two names begin with."
    n = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
    return a[:n]


def made(cls: Any, sizes: Mapping[str, int] = MappingProxyType({}), **more: Any) -> Any:
    """The layer, from the first configuration that it can be made from;
    it keeps that one and what rotates.
    """
    module, error = importlib.import_module(cls.__module__), None
    for config_class in configs(module, cls.__name__):
        try:
            config = small(config_class, **sizes)
            m = cls(**{**arguments(cls, config), **more}).eval()
            vars(m)["_turns"] = (
                turning(module, config)
                if "position_embeddings" in inspect.signature(m.forward).parameters
                else None
            )
            return m
        except Exception as e:
            error = error or e
    raise error or TypeError("no configuration was found")


def arguments(cls: Any, config: Any) -> dict[str, Any]:
    "What its constructor asks for, from the configuration."
    known = {
        "config": config,
        "layer_idx": 0,
        "layer_id": 0,
        "embed_dim": D,
        "hidden_size": D,
        "dim": D,
        "num_heads": H,
        "n_heads": H,
        "num_attention_heads": H,
        "dropout": 0.1,
    }
    return {
        name: known[name]
        for name in inspect.signature(cls).parameters
        if name in known and (name != "dropout" or name in required(cls))
    }


def turning(module: Any, config: Any) -> Any:
    "What gives cosines and sines for places."
    for name, cls in vars(module).items():
        if name.endswith("RotaryEmbedding") and "Vision" not in name:
            try:
                return cls(config)
            except Exception:
                continue
    return None


def call(m: Any, x: Tensor, causal: bool = False) -> Any:
    "As its model calls it."
    names = inspect.signature(m.forward).parameters
    given: dict[str, Any] = {}
    places = torch.arange(x.shape[1])[None]
    if "position_embeddings" in names and m._turns is not None:
        given["position_embeddings"] = m._turns(x, places)
    if "position_ids" in names:
        given["position_ids"] = places
    if causal and "attention_mask" in names:
        given["attention_mask"] = triangle(x.shape[1]).expand(len(x), 1, -1, -1)
    for name in required(m.forward):
        given.setdefault(name, None if "mask" in name or "position" in name else x)
    return m(**given)


def causal_call(m: Any, x: Tensor) -> Any:
    "The same with what hides the future."
    return call(m, x, causal=True)


def subject(line: str) -> Subject:
    "Model and class, then what is declared of it."
    name, *said = line.split()
    model, cls = name.split(".")
    declared = {
        name: float(value) if value else True
        for name, _, value in (word.partition("=") for word in said)
    }
    path = f"transformers.models.{model}.modeling_{model}.{cls}"
    return layer(
        path, made, causal_call if "causal" in said else call, d_model=D, n_heads=H, **declared
    )


def both(name: str, call: Any = None, make: Any = made, **declared: Any) -> Subject:
    "Model and class, for cross-attention."
    model, cls = name.split(".")
    return cross(
        f"transformers.models.{model}.modeling_{model}.{cls}",
        make,
        call,
        **{"d_model": D, "n_heads": H, **declared},
    )


def with_memory(**more: Any) -> Any:
    "What makes a layer with more arguments."
    return lambda cls: made(cls, **more)


def t5gemma(cls: Any) -> Any:
    "From the configuration of its decoder, which learns the width of the encoder from its model."
    from transformers import T5GemmaModuleConfig

    config = small(T5GemmaModuleConfig)
    config.cross_attention_hidden_size = M
    return cls(config, 0)


def seen(**sizes: int) -> Any:
    "A configuration of what layers over pictures ask for."
    return SimpleNamespace(vision_config=SimpleNamespace(**sizes))


def words_first(m: Any, x: Tensor, memory: Tensor) -> Tensor:
    "Words first, (n, b, d)."
    return m(x.transpose(0, 1), memory.transpose(0, 1))[0].transpose(0, 1)


def placed(m: Any, x: Tensor, memory: Tensor) -> Tensor:
    "Words first, with places that add nothing."
    x, memory = x.transpose(0, 1), memory.transpose(0, 1)
    return m(
        x,
        position_embeddings=0 * x,
        key_value_states=memory,
        key_value_position_embeddings=0 * memory,
    )[0].transpose(0, 1)


# One a model, and of classes whose source is the same but for its names, one.
LINES = """
afmoe.AfmoeAttention causal positions
aimv2.Aimv2Attention
albert.AlbertAttention
align.AlignTextSelfAttention
altclip.AltRobertaSelfAttention
apertus.ApertusAttention causal positions
autoformer.AutoformerAttention
axk2.AXK2Attention causal positions
bailing_hybrid.BailingHybridAttention causal positions
bark.BarkSelfAttention
beit.BeitAttention
bert.BertSelfAttention
bert_generation.BertGenerationAttention
big_bird.BigBirdSelfAttention
bitnet.BitNetAttention causal positions
blip.BlipAttention
blip_2.Blip2Attention
blt.BltSelfAttention causal positions
bridgetower.BridgeTowerAttention
camembert.CamembertAttention
canary.CanarySelfAttention causal
canine.CanineSelfAttention
chameleon.ChameleonAttention causal positions
chinese_clip.ChineseCLIPTextAttention
clap.ClapTextAttention
clvp.ClvpSelfAttention
codegen.CodeGenAttention
cohere.CohereAttention causal positions
cohere2.Cohere2Attention causal positions
cohere2_moe.Cohere2MoeAttention causal positions
cohere_compass.CohereCompassAttention causal
conditional_detr.ConditionalDetrSelfAttention
convbert.ConvBertSelfAttention positions
ctrl.MultiHeadAttention causal
cwm.CwmAttention causal positions
deepseek_v2.DeepseekV2Attention causal positions
deepseek_v32.DeepseekV32Attention causal positions
dia.DiaSelfAttention positions scale=1
diffllama.DiffLlamaAttention causal positions
distilbert.DistilBertSelfAttention
dpt.DPTSelfAttention
esm.EsmSelfAttention
exaone4.Exaone4Attention causal positions
falcon_h1.FalconH1Attention causal positions
gemma.GemmaAttention causal positions
gemma2.Gemma2Attention causal positions
git.GitSelfAttention
glm.GlmAttention causal positions
glm4_moe.Glm4MoeAttention causal positions
gpt2.GPT2Attention causal
gpt_bigcode.GPTBigCodeAttention causal
gpt_neox.GPTNeoXAttention causal positions
gpt_neox_japanese.GPTNeoXJapaneseAttention positions
gpt_oss.GptOssAttention causal positions
gptj.GPTJAttention causal positions
granite.GraniteAttention causal positions scale=1
granitemoe.GraniteMoeAttention causal positions scale=1
grounding_dino.GroundingDinoMultiheadAttention
helium.HeliumAttention causal positions
hubert.HubertAttention
idefics2.Idefics2VisionAttention
imagegpt.ImageGPTAttention causal
instructblip.InstructBlipQFormerAttention
jamba.JambaAttention causal
kosmos2.Kosmos2VisionAttention
led.LEDDecoderAttention
lfm2.Lfm2Attention causal positions
llama.LlamaAttention causal positions
llama4.Llama4TextAttention causal positions
m2m_100.M2M100Attention
megatron_bert.MegatronBertSelfAttention
mimi.MimiAttention causal positions
minicpm3.MiniCPM3Attention causal positions
ministral3.Ministral3Attention causal positions
mistral.MistralAttention causal positions
mobilevit.MobileViTSelfAttention
moonshine_streaming.MoonshineStreamingEncoderAttention
moshi.MoshiAttention causal
mpnet.MPNetSelfAttention
mpt.MptAttention
musicgen.MusicgenAttention
nanochat.NanoChatAttention causal positions
nllb_moe.NllbMoeAttention
nomic_bert.NomicBertAttention positions
nystromformer.NystromformerSelfAttention positions
olmo.OlmoAttention causal positions
olmo2.Olmo2Attention causal positions
opt.OPTAttention causal
owlv2.Owlv2Attention
persimmon.PersimmonAttention causal positions
phi.PhiAttention causal positions
phi3.Phi3Attention causal positions
qwen2.Qwen2Attention causal positions
qwen2_moe.Qwen2MoeAttention causal positions
qwen3.Qwen3Attention causal positions
qwen3_5.Qwen3_5Attention causal positions
qwen3_moe.Qwen3MoeAttention causal positions
qwen3_next.Qwen3NextAttention causal positions
qwen3_vl.Qwen3VLTextAttention causal positions
recurrent_gemma.RecurrentGemmaAttention causal
roberta.RobertaAttention
roformer.RoFormerSelfAttention
sam3.Sam3Attention
seamless_m4t.SeamlessM4TAttention
seed_oss.SeedOssAttention causal positions
siglip.SiglipAttention
smollm3.SmolLM3Attention causal positions
speecht5.SpeechT5Attention
starcoder2.Starcoder2Attention causal positions
swiftformer.SwiftFormerEfficientAdditiveAttention
t5gemma.T5GemmaSelfAttention positions
timesfm.TimesFmAttention causal
trocr.TrOCRAttention
videomae.VideoMAEAttention
vit.ViTAttention
vitpose_backbone.VitPoseBackboneAttention
vits.VitsAttention
wav2vec2_bert.Wav2Vec2BertSelfAttention
wavlm.WavLMAttention
whisper.WhisperAttention
xglm.XGLMAttention
xlm_roberta.XLMRobertaAttention
zoedepth.ZoeDepthMultiheadAttention
"""
# Of Dia.
CROSS_SIZES = {
    "cross_hidden_size": M,
    "cross_num_attention_heads": H,
    "cross_num_key_value_heads": 2,
    "cross_head_dim": HEAD,
}
CROSS = [
    both(
        "aria.AriaCrossAttention",
        lambda m, x, memory: m(memory, x),
        lambda cls: cls(seen(hidden_size=D, num_attention_heads=H), dropout_rate=0.1),
    ),
    both("bert.BertCrossAttention"),
    both(
        "blip_2.Blip2QFormerMultiHeadAttention",
        make=lambda cls: made(cls, {"encoder_hidden_size": M}, is_cross_attention=True),
        d_memory=M,
    ),
    both("blt.BltCrossAttention"),
    both("canary.CanaryCrossAttention"),
    both("detr.DetrCrossAttention"),
    both(
        "dia.DiaCrossAttention",
        make=lambda cls: made(cls, CROSS_SIZES),
        d_memory=M,
        n_kv_heads=2,
        scale=1,
    ),
    both(
        "efficientloftr.EfficientLoFTRAttention",
        make=lambda cls: made(cls, {"hidden_size": 256, "num_attention_heads": 4}),
        d_model=256,
    ),
    both("fsmt.Attention", words_first, with_memory(encoder_decoder_attention=True)),
    both("grounding_dino.GroundingDinoMultiheadAttention:cross"),
    both("groupvit.GroupViTAttention"),
    both("idefics.IdeficsAttention", make=with_memory(is_cross_attention=True), d_memory=768),
    both("kosmos2.KosmosTextAttention"),
    both("lightglue.LightGlueAttention", make=lambda cls: made(cls, {"descriptor_dim": D})),
    both("lxmert.LxmertAttention", make=with_memory(ctx_dim=M), d_memory=M),
    both("mask2former.Mask2FormerAttention", placed),
    both("mllama.MllamaTextCrossAttention"),
    both("moonshine.MoonshineAttention", make=with_memory(num_key_value_heads=H, is_causal=False)),
    both(
        "moonshine.MoonshineAttention:grouped",
        make=with_memory(num_key_value_heads=2, is_causal=False),
        n_kv_heads=2,
    ),
    both(
        "perceiver.PerceiverSelfAttention",
        lambda m, x, memory: m(x, inputs=memory),
        with_memory(is_cross_attention=True, q_dim=D, kv_dim=M, num_heads=H),
        d_memory=M,
    ),
    both("pix2struct.Pix2StructTextAttention", scale=1),
    both("prophetnet.ProphetNetAttention", make=with_memory(num_attn_heads=H)),
    both(
        "sam.SamAttention",
        lambda m, x, memory: m(x[:, None], memory[:, None], memory[:, None])[0][:, 0],
        with_memory(downsample_rate=2),
    ),
    both("speecht5.SpeechT5Attention:cross"),
    both("superglue.SuperGlueSelfAttention"),
    both("t5.T5Attention", scale=1),
    both("t5gemma.T5GemmaCrossAttention", make=t5gemma, d_memory=M),
    both(
        "table_transformer.TableTransformerAttention",
        lambda m, x, memory: m(
            x, key_value_states=memory, object_queries=0 * x, spatial_position_embeddings=0 * memory
        ),
    ),
    both("umt5.UMT5Attention", lambda m, x, memory: m(x, encoder_hidden_states=memory), scale=1),
    both("vjepa2.VJEPA2PoolerCrossAttention"),
    both("whisper.WhisperAttention:cross"),
    both(
        "x_clip.XCLIPCrossAttention",
        make=lambda cls: made(cls, {"projection_dim": D, "prompt_num_attention_heads": H}),
    ),
]
ALONE = [
    layer(
        "transformers.models.idefics2.modeling_idefics2.Idefics2PerceiverAttention",
        lambda cls: made(cls, {"resampler_n_heads": H, "resampler_head_dim": HEAD}),
        lambda m, x: m(x, x[:, :0]),
        d_model=D,
        n_heads=H,
    )
]
SUBJECTS = [subject(line) for line in LINES.strip().splitlines()] + CROSS + ALONE
