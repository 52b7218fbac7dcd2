"""Published models in the book's modules: their logits beside those of `transformers`,
wrong tables, damaged files, the command.

`checkpoints.py` has the library write tiny random checkpoints of every family; `plain_models.py` is
a second, plain way to compute each, in float64. If a comparison fails: `nbs/18_real_models.ipynb`
holds the tables, `FAMILIES`.
"""

import json
import shutil
import sys
from collections import ChainMap
from dataclasses import replace
from functools import partial

import attention_nb_command
import pytest
import torch
from attention_nb import hybrid_models, new_caches
from attention_nb import real_models as rm
from attention_nb.hybrid_models import HYBRIDS, PUBLISHED_HYBRIDS
from attention_nb.real_models import FAMILIES, build_model
from attention_nb.tools.quantised import read_safetensors
from conftest import by_day
from checkpoints import (
    LLAMA,
    SETTINGS,
    WITH_PICTURES,
    change,
    as_config,
    library_model,
    make,
    write,
)
from plain_models import plain_logits
from safetensors.torch import save_file

ALL = ChainMap(FAMILIES, HYBRIDS)  # also what a test changes in them
load_model, read_plan, plan_model = (
    partial(given, families=ALL) for given in (rm.load_model, rm.read_plan, rm.plan_model)
)
PUBLISHED = rm.PUBLISHED | PUBLISHED_HYBRIDS
FIRST = [case for case in SETTINGS if "." not in case]  # one for each family
DECODERS = [case for case in FIRST if case != "bert"]


@pytest.fixture(scope="session")
def folders(tmp_path_factory):
    "A function: the folder of a case, written once."
    made = {}

    def folder(case):
        if case not in made:
            made[case] = tmp_path_factory.mktemp(case.replace(".", "_"))
            write(made[case], case)
        return made[case]

    return folder


def ids_of(case, b=2, n=43, seed=0):
    """Random tokens; 43 are more than the windows (9), and more than the lengths
    where a scaling begins (16, 32).
    """
    return torch.randint(3, 50, (b, n), generator=torch.Generator().manual_seed(seed))


@torch.no_grad()
def logits(model, *args, **kwargs):
    out = model(*args, **kwargs)
    return getattr(out, "logits", out)


def error(found, expected):
    "The largest difference, as a part of the largest logit."
    assert found.shape == expected.shape
    return ((found.double() - expected.double()).abs().max() / expected.abs().max()).item()


def config_of(folder):
    return json.loads((folder / "config.json").read_text())


# The logits ---------------------------------------------------------------------------------------

# their gpt-oss has no sdpa, because of its sinks
WAYS = [
    (case, way)
    for case in SETTINGS
    for way in ("eager", "sdpa")
    if way == "eager" or not case.startswith("gpt_oss")
]


@pytest.mark.parametrize("case, attention", WAYS)
def test_logits_are_those_of_transformers(case, attention, folders):
    "Within 1e-5 of the largest logit, in float32."
    ids = ids_of(case)
    assert (
        error(logits(load_model(folders(case)), ids), logits(make(case, attention=attention), ids))
        <= 1e-5
    )


@pytest.mark.parametrize("case", SETTINGS)
def test_logits_in_float64_are_those_of_plain_formulas(case, folders):
    "Within 1e-10 of the largest logit: what float32 hides would show."
    folder, ids = folders(case), ids_of(case)
    expected = plain_logits(
        config_of(folder), read_safetensors(folder / "model.safetensors")[0], ids
    )
    assert error(logits(load_model(folder, torch.float64), ids), expected) <= 1e-10


@pytest.mark.parametrize("case", FIRST)
def test_the_best_token_in_bfloat16(case, folders):
    "The same as in 32 bits, wherever it leads by more than 16 bits round."
    ids = ids_of(case, b=3)
    expected, found = (
        logits(load_model(folders(case), dtype), ids).float()
        for dtype in (torch.float32, torch.bfloat16)
    )
    best = expected.topk(2, -1).values
    clear = best[..., 0] - best[..., 1] > 0.1 * expected.abs().max()
    assert clear.float().mean() > 0.1 and torch.equal(
        found.argmax(-1)[clear], expected.argmax(-1)[clear]
    )


@pytest.mark.parametrize("case", FIRST)
def test_bfloat16_rounds_as_theirs_does(case, folders):
    """What is written in 16 bits is loaded in 16 bits, and is no further from 64 bits than
    theirs, but for a factor of 2.
    """
    folder, ids = folders(case), ids_of(case)
    exact = logits(load_model(folder, torch.float64), ids)
    ours, theirs = load_model(folder, torch.bfloat16), make(case, dtype=torch.bfloat16)
    assert ours.embed.table.weight.dtype == torch.bfloat16
    assert error(logits(ours, ids), exact) <= 2 * error(logits(theirs, ids), exact) + 1e-3


@pytest.mark.parametrize("case", FIRST)
def test_many_files_are_one(case, tmp_path, folders):
    "With an index, in several files; the same weights."
    write(tmp_path, case, shards=True)
    assert len(list(tmp_path.glob("*.safetensors"))) > 2
    one, many = (load_model(path).state_dict() for path in (folders(case), tmp_path))
    assert one.keys() == many.keys() and all(torch.equal(one[name], many[name]) for name in one)


@pytest.mark.parametrize("case", FIRST)
def test_loaded_models_are_modules(case, folders):
    """No parameter is left on meta; tied tables are one;
    what is loaded can be saved, changed and trained.
    """
    model = load_model(folders(case))
    tied = config_of(folders(case))["tie_word_embeddings"]
    assert not any(t.is_meta for t in model.state_dict().values()) and not model.training
    names = {name for name, _ in model.named_parameters()}
    assert tied == (len(model.state_dict()) > len(names))
    logits_ = model(ids_of(case))
    logits_.square().mean().backward()
    assert all(p.grad is not None for p in model.parameters() if p.requires_grad)


def test_token_types(folders):
    "BERT's second sentence."
    ids = ids_of("bert")
    types = (torch.arange(43) // 15).expand(2, -1)
    found = logits(load_model(folders("bert")), ids, types=types)
    assert error(found, logits(make("bert"), ids, token_type_ids=types)) <= 1e-5
    assert error(found, logits(make("bert"), ids)) > 1e-2


# Padding, caches, generation ----------------------------------------------------------------------


@pytest.mark.parametrize("case", FIRST)
def test_batches_of_different_lengths(case, folders):
    """Padding on the left (of an encoder on the right) changes no real token;
    it is the same as theirs.
    """
    lengths, ids = [43, 31, 12], ids_of(case, b=3)
    encoder = case == "bert"
    real = torch.stack(
        [torch.arange(43) < n if encoder else torch.arange(43) >= 43 - n for n in lengths]
    )
    model, theirs = load_model(folders(case)), make(case)
    found = logits(model, ids, mask=real[:, None, None])
    positions = (real.cumsum(-1) - 1).clamp(min=0)
    expected = logits(
        theirs, ids, attention_mask=real.long(), position_ids=None if encoder else positions
    )
    assert error(found[real], expected[real]) <= 1e-5
    for row in range(3):
        alone = logits(model, ids[row, real[row]][None])[0]
        assert error(found[row, real[row]], alone) <= 1e-5


@pytest.mark.parametrize(
    "case",
    [
        case
        for case in SETTINGS
        if not case.startswith("bert") and "dynamic" not in case and "longrope" not in case
    ],
)
def test_caches_in_chunks(case, folders):
    "A prompt longer than the windows in chunks, then token by token, gives the logits of one pass."
    model, ids = load_model(folders(case)), ids_of(case)
    caches = new_caches(model, 2, 43)
    parts = [
        logits(model, part, caches=caches) for part in ids.split([13, 1, 17, *12 * [1]], dim=1)
    ]
    assert error(torch.cat(parts, dim=1), logits(model, ids)) <= 1e-5


@pytest.mark.parametrize("case", by_day(DECODERS))
def test_two_hundred_tokens_with_caches(case, folders):
    "Each token is the best of theirs, but for ties; the prompt is longer than the window."
    model, prompt = load_model(folders(case)), ids_of(case, n=23)
    out = model.generate(prompt, 200, caches=new_caches(model, 2, 223))
    assert out.shape == (2, 223) and torch.equal(out[:, :23], prompt)
    expected = logits(make(case), out[:, :-1])[:, 22:]
    chosen = expected.gather(-1, out[:, 23:, None])[..., 0]
    assert (expected.amax(-1) - chosen).max() <= 1e-4 * expected.abs().max()
    assert torch.equal(model.generate(prompt, 5), out[:, :28])


@pytest.mark.parametrize(
    "case", ["llama", "gemma3_text", "gpt_oss", "deepseek_v3", "gpt2", "qwen3_next", "qwen3_5"]
)
def test_generation_of_different_lengths_with_caches(case, folders):
    "Padded on the left in one batch, each prompt gets what it gets alone."
    model, ids = load_model(folders(case)), ids_of(case, b=3, n=19)
    lengths = [19, 11, 4]
    real = torch.stack([torch.arange(19) >= 19 - n for n in lengths])
    out = model.generate(ids, 30, mask=real[:, None, None], caches=new_caches(model, 3, 49))
    for row, n in enumerate(lengths):
        alone = logits(model, out[row, 19 - n : -1][None])[0, n - 1 :]
        chosen = alone.gather(-1, out[row, 19:, None])[..., 0]
        assert (alone.amax(-1) - chosen).max() <= 1e-4 * alone.abs().max()


# The tables: each entry is needed -----------------------------------------------------------------

ROPE = {"rope_type": "default", "rope_theta": 123.0}
WRONG = {  # case → changes of the plan, each of which must be seen
    "llama.scaled": [
        {"ropes": 3 * (ROPE,)},
        {"eps": 1e-2},
        {"activation": "gelu"},
        {"norm": "rms + 1"},
    ],
    "mistral": [{"windows": 3 * (8,)}, {"windows": 3 * (10,)}, {"windows": ()}],
    "qwen3": [{"qk_norm": None}, {"scales": 3 * (0.1,)}],
    "gpt2": [{"activation": "gelu"}, {"eps": 1e-2}, {"scales": ()}],
    "gpt2.inverse": [{"scales": 3 * (0.25,)}],
    "smollm3": [{"ropes": 5 * (ROPE | {"rope_theta": 3000.0},)}, {"ropes": 5 * (None,)}],
    "olmo2": [{"ropes": 3 * (ROPE,)}, {"eps": 1e-1}],
    "gemma3_text": [
        {"norm": "rms"},
        {"embed_scale": 1.0},
        {"windows": 4 * (9,)},
        {"windows": ()},
        {"scales": ()},
    ],
    "gpt_oss": [
        {"windows": (None, 9, None, 9)},
        {"windows": 4 * (9,)},
        {"windows": (8, None, 8, None)},
    ],
    "bert": [{"eps": 1e-1}, {"causal": True}, {"activation": "relu"}, {"norms": "before"}],
    "deepseek_v3": [{"ropes": 3 * (ROPE,)}],
    "qwen3_next": [{"norm": "rms"}, {"ropes": 4 * (ROPE | {"rope_theta": 900.0},)}],
    "qwen3_5": [{"norm": "rms"}, {"ropes": 4 * (ROPE | {"partial_rotary_factor": 0.25},)}],
}


@pytest.mark.parametrize(
    "case, wrong", [(case, wrong) for case, all_ in WRONG.items() for wrong in all_]
)
def test_a_wrong_table_is_seen(case, wrong, folders, monkeypatch):
    """The comparison fails by a factor of ten at least if one entry of a plan is another;
    GPT-2's default scale is right.
    """
    plan = replace(read_plan(folders(case)), **wrong)
    monkeypatch.setattr(rm, "plan_model", lambda config, families: plan)
    ids = ids_of(case)
    strict = torch.nn.Module.load_state_dict
    # a norm that is missing leaves its weights over
    monkeypatch.setattr(rm, "_expect_used", lambda *args: None)
    monkeypatch.setattr(
        torch.nn.Module,
        "load_state_dict",
        lambda self, state, assign: strict(self, state, strict=False, assign=assign),
    )
    if wrong == {"causal": True} or wrong == {"norms": "before"}:
        return_wrong_structure(case, plan, folders, ids)
        return
    found = error(logits(load_model(folders(case)), ids), logits(make(case), ids))
    assert found <= 1e-5 if wrong == {"scales": ()} and case == "gpt2" else found > 1e-4


def return_wrong_structure(case, plan, folders, ids):
    "A plan of another structure has parameters that are in no file: that is said by name."
    try:
        found = error(logits(load_model(folders(case)), ids), logits(make(case), ids))
    except (KeyError, ValueError):
        return
    assert found > 1e-3


@pytest.mark.parametrize(
    "case, one, other",
    [
        ("llama", "attention_norm", "feed_forward_norm"),
        ("qwen3_next", "attention.q_proj.weight", "attention.gate.0.weight"),
        ("qwen3_next", "attention.beta_proj.weight", "attention.decay_proj.weight"),
        ("qwen3_next", "attention.A_log", "attention.dt_bias"),
        ("qwen3_next", "attention.q_norm", "attention.k_norm"),
        ("qwen3_next", "feed_forward.gate_weight", "feed_forward.up_weight"),
        ("qwen3_5", "attention.beta_proj", "attention.decay_proj"),
        ("qwen3_5_moe", "feed_forward.gate_weight", "feed_forward.up_weight"),
    ],
)
def test_exchanged_names_are_seen(case, one, other, folders, monkeypatch):
    "What is exchanged has the same shape; gates and queries stand side by side in one matrix."
    families = FAMILIES if case in FAMILIES else HYBRIDS
    names = dict(families[case].names)
    names[one], names[other] = names[other], names[one]
    monkeypatch.setitem(families, case, families[case]._replace(names=names))
    ids = ids_of(case)
    assert error(logits(load_model(folders(case)), ids), logits(make(case), ids)) > 1e-3


def test_rows_cut_once_and_not_head_by_head_are_seen(folders, monkeypatch):
    "Each of the matrices that hold several of ours."
    family, ids = HYBRIDS["qwen3_next"], ids_of("qwen3_next")
    expected = logits(make("qwen3_next"), ids)
    for ours, widths, *parts in (
        ("q_proj", hybrid_models._q_and_gate, 0),
        ("gate.0", hybrid_models._q_and_gate, 1),
        ("qkv_proj", hybrid_models._qkvz, 0, 1, 2),
        ("gate_proj", hybrid_models._qkvz, 3),
        ("beta_proj", hybrid_models._ba, 0),
        ("decay_proj", hybrid_models._ba, 1),
    ):

        def as_one_head(plan, widths=widths):
            n_heads, rows = widths(plan)
            return 1, [n_heads * n for n in rows]

        name = f"attention.{ours}.weight"
        once = rm._side_by_side(family.names[name].theirs, as_one_head, *parts)
        changed = family._replace(names={**family.names, name: once})
        monkeypatch.setitem(HYBRIDS, "qwen3_next", changed)
        assert error(logits(load_model(folders("qwen3_next")), ids), expected) > 1e-3, ours


def test_thirds_in_another_order_are_seen(folders, monkeypatch):
    "GPT-2's one matrix has queries first."
    names = dict(FAMILIES["gpt2"].names)
    for kind in ("weight", "bias"):
        q, k = f"attention.q_proj.{kind}", f"attention.k_proj.{kind}"
        names[q], names[k] = names[k], names[q]
        names[k], names[f"attention.v_proj.{kind}"] = names[f"attention.v_proj.{kind}"], names[k]
    monkeypatch.setitem(FAMILIES, "gpt2", FAMILIES["gpt2"]._replace(names=names))
    ids = ids_of("gpt2")
    assert error(logits(load_model(folders("gpt2")), ids), logits(make("gpt2"), ids)) > 1e-3


@pytest.mark.parametrize(
    "case, field, value",
    [
        ("deepseek_v3", "factor", 1.0),
        ("deepseek_v3", "normalised", False),
        ("deepseek_v3", "n_chosen", 2),
        ("deepseek_v3", "groups", (4, 3)),
        ("gpt_oss", "n_chosen", 3),
        ("gpt_oss.odd", "clamp", (1.3, 2.0)),
        ("gpt_oss", "clamp", (1.0, 7.0)),
        ("qwen3_next", "n_chosen", 2),
        ("qwen3_5_moe", "n_chosen", 4),
    ],
)
def test_wrong_experts_are_seen(case, field, value, folders, monkeypatch):
    plan = read_plan(folders(case))
    monkeypatch.setattr(
        rm,
        "plan_model",
        lambda config, families: replace(plan, experts=plan.experts._replace(**{field: value})),
    )
    ids = ids_of(case)
    assert error(logits(load_model(folders(case)), ids), logits(make(case), ids)) > 1e-3


def test_mscale_is_needed(folders, monkeypatch):
    "DeepSeek's factor of the scores, mscale²."
    from attention_nb import latent_attention

    monkeypatch.setattr(latent_attention, "score_factor", lambda scaling: 1.0)
    ids = ids_of("deepseek_v3")
    assert (
        error(logits(load_model(folders("deepseek_v3")), ids), logits(make("deepseek_v3"), ids))
        > 1e-3
    )


# Configs ------------------------------------------------------------------------------------------

OLD = {  # case → settings as they were written before rope_parameters
    "llama.scaled": {
        "rope_theta": 500.0,
        "rope_scaling": {
            k: v
            for k, v in SETTINGS["llama.scaled"]["rope_parameters"].items()
            if k != "rope_theta"
        },
    },
    "llama.linear": {"rope_theta": 800.0, "rope_scaling": {"type": "linear", "factor": 3.0}},
    "llama.dynamic": {"rope_theta": 800.0, "rope_scaling": {"type": "dynamic", "factor": 2.0}},
    "gemma3_text": {
        "rope_theta": 9000.0,
        "rope_local_base_freq": 300.0,
        "rope_scaling": {"rope_type": "linear", "factor": 3.0},
        "layer_types": ...,
        "sliding_window_pattern": 3,
    },
    "gpt_oss": {
        "rope_theta": 150000.0,
        "layer_types": ...,
        "rope_scaling": {
            k: v for k, v in SETTINGS["gpt_oss"]["rope_parameters"].items() if k != "rope_theta"
        },
    },
    "deepseek_v3": {
        "rope_theta": 700.0,
        "rope_scaling": {
            "type": "yarn",
            **{
                k: v
                for k, v in SETTINGS["deepseek_v3"]["rope_parameters"].items()
                if k not in ("rope_theta", "rope_type")
            },
        },
    },
}


@pytest.mark.parametrize("case", OLD)
def test_settings_in_their_old_place(case, folders, tmp_path):
    """`rope_theta` and `rope_scaling` mean what `rope_parameters` means today;
    `torch_dtype` what `dtype` means.
    """
    shutil.copytree(folders(case), tmp_path, dirs_exist_ok=True)
    change(
        tmp_path,
        rope_parameters=...,
        dtype=...,
        torch_dtype="float32",
        transformers_version="4.51.0",
        **OLD[case],
    )
    ids = ids_of(case)
    assert error(logits(load_model(tmp_path), ids), logits(make(case), ids)) <= 1e-5


@pytest.mark.parametrize("case", FIRST)
def test_what_a_config_leaves_out(case, tmp_path):
    "A config of the sizes alone means what it means to transformers."
    sizes = (
        "vocab_size",
        "hidden_size",
        "intermediate_size",
        "moe_intermediate_size",
        "num_hidden_layers",
        "num_attention_heads",
        "n_embd",
        "n_layer",
        "n_head",
        "n_routed_experts",
        "num_local_experts",
        "kv_lora_rank",
        "q_lora_rank",
        "qk_rope_head_dim",
        "v_head_dim",
        "qk_nope_head_dim",
        "num_key_value_heads",
    )
    said = {name: value for name, value in SETTINGS[case].items() if name in sizes}
    said = said | ({"num_attention_heads": 4, "hidden_size": 32} if "hidden_size" in said else {})
    said = said | ({"num_key_value_heads": 4} if "num_key_value_heads" in said else {})
    said = said | (
        {"n_routed_experts": 16, "num_nextn_predict_layers": 0} if case == "deepseek_v3" else {}
    )
    said = said | ({"num_experts": 16} if case in ("qwen3_next", "qwen3_5_moe") else {})
    model = library_model(case, as_config(case, said | {"pad_token_id": None}))
    model.save_pretrained(tmp_path, save_original_format=case not in WITH_PICTURES)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": case, **as_config(case, said)}))
    ids = ids_of(case)
    assert error(logits(load_model(tmp_path), ids), logits(model, ids)) <= 1e-5


# Model → settings that stand in its published config beside its sizes, and say nothing new.
BESIDE = {
    "GPT-2": {
        "architectures": ["GPT2LMHeadModel"],
        "n_ctx": 1024,
        "n_positions": 1024,
        "attn_pdrop": 0.1,
        "bos_token_id": 50256,
        "summary_type": "cls_index",
        "summary_use_proj": True,
        "task_specific_params": {"text-generation": {"do_sample": True}},
        "layer_norm_epsilon": 1e-5,
    },
    "BERT base": {
        "architectures": ["BertForMaskedLM"],
        "gradient_checkpointing": False,
        "position_embedding_type": "absolute",
        "hidden_dropout_prob": 0.1,
        "layer_norm_eps": 1e-12,
        "pad_token_id": 0,
        "type_vocab_size": 2,
        "max_position_embeddings": 512,
        "transformers_version": "4.6.0.dev0",
    },
    "Llama 3 8B": {
        "architectures": ["LlamaForCausalLM"],
        "attention_dropout": 0.0,
        "pretraining_tp": 1,
        "rope_scaling": None,
        "use_cache": True,
        "initializer_range": 0.02,
    },
    "Mistral 7B": {
        "architectures": ["MistralForCausalLM"],
        "rope_theta": 10000.0,
        "tie_word_embeddings": False,
        "max_position_embeddings": 131072,
    },
    "Qwen 3 8B": {
        "architectures": ["Qwen3ForCausalLM"],
        "max_window_layers": 36,
        "rope_scaling": None,
        "sliding_window": None,
        "use_sliding_window": False,
        "attention_bias": False,
    },
    "SmolLM 3 3B": {
        "architectures": ["SmolLM3ForCausalLM"],
        "max_window_layers": 28,
        "no_rope_layers": 9 * [1, 1, 1, 0],
        "no_rope_layer_interval": 4,
        "pretraining_tp": 2,
        "layer_types": 36 * ["full_attention"],
        "sliding_window": None,
        "use_sliding_window": False,
    },
    "Gemma 3 1B": {
        "architectures": ["Gemma3ForCausalLM"],
        "cache_implementation": "hybrid",
        "attn_logit_softcapping": None,
        "final_logit_softcapping": None,
        "rope_local_base_freq": 10000,
        "rope_theta": 1000000,
        "rope_scaling": None,
        "use_bidirectional_attention": False,
        "max_position_embeddings": 131072,
    },
    "gpt-oss 20B": {
        "architectures": ["GptOssForCausalLM"],
        "initial_context_length": 4096,
        "experts_per_token": 4,
        "swiglu_limit": 7.0,
        "output_router_logits": False,
        "router_aux_loss_coef": 0.9,
        "attention_bias": True,
        "layer_types": 12 * ["sliding_attention", "full_attention"],
    },
    "DeepSeek-V3": {
        "architectures": ["DeepseekV3ForCausalLM"],
        "auto_map": {"AutoConfig": "configuration_deepseek.DeepseekV3Config"},
        "ep_size": 1,
        "moe_layer_freq": 1,
        "num_key_value_heads": 128,
        "num_nextn_predict_layers": 1,
        "scoring_func": "sigmoid",
        "topk_method": "noaux_tc",
        "n_group": 8,
        "topk_group": 4,
        "aux_loss_alpha": 0.001,
        "seq_aux": True,
        "first_k_dense_replace": 3,
        "norm_topk_prob": True,
        "routed_scaling_factor": 2.5,
        "n_shared_experts": 1,
    },
    "Qwen3-Next 80B-A3B": {
        "architectures": ["Qwen3NextForCausalLM"],
        "attention_bias": False,
        "bos_token_id": 151643,
        "decoder_sparse_step": 1,
        "hidden_act": "silu",
        "layer_types": 12 * [*3 * ["linear_attention"], "full_attention"],
        "mlp_only_layers": [],
        "norm_topk_prob": True,
        "output_router_logits": False,
        "rms_norm_eps": 1e-6,
        "rope_scaling": None,
        "router_aux_loss_coef": 0.001,
        "tie_word_embeddings": False,
        "use_sliding_window": False,
    },
    "Qwen3.5 27B": {
        "architectures": ["Qwen3_5ForConditionalGeneration"],
        "attn_output_gate": True,
        "full_attention_interval": 4,
        "image_token_id": 248056,
        "language_model_only": False,
        "mamba_ssm_dtype": "float32",
        "mlp_only_layers": [],
        "mtp_num_hidden_layers": 1,
        "mtp_use_dedicated_embeddings": False,
        "output_gate_type": "swish",
        "partial_rotary_factor": 0.25,
        "tie_word_embeddings": False,
        "vision_config": {"depth": 27, "model_type": "qwen3_5"},
    },
    "Qwen3.5 35B-A3B": {
        "architectures": ["Qwen3_5MoeForConditionalGeneration"],
        "head_dim": 256,
        "linear_num_value_heads": 32,
        "moe_intermediate_size": 512,
        "shared_expert_intermediate_size": 512,
        "num_key_value_heads": 2,
    },
}


@pytest.mark.parametrize("name", BESIDE)
def test_settings_of_published_configs(name):
    "What they say beside their sizes is read, and is what our defaults say."
    assert plan_model(PUBLISHED[name] | BESIDE[name]) == plan_model(PUBLISHED[name])


@pytest.mark.parametrize(
    "case, name, value",
    [
        *((case, "new_feature", 0.5) for case in FIRST),
        *((case, "quantization_config", {"quant_method": "mxfp4"}) for case in FIRST),
        ("llama", "partial_rotary_factor", 0.5),
        ("llama", "layer_types", ["full_attention"] * 3),
        ("llama", "sliding_window", 9),
        ("mistral", "layer_types", ["full_attention"] * 3),
        ("gemma3_text", "use_bidirectional_attention", True),
        ("gemma3_text", "attn_logit_softcapping", 50.0),
        ("gpt2", "reorder_and_upcast_attn", True),
        ("gpt2", "add_cross_attention", True),
        ("bert", "is_decoder", True),
        ("bert", "position_embedding_type", "relative_key"),
        ("deepseek_v3", "scoring_func", "softmax"),
        ("deepseek_v3", "topk_method", "greedy"),
        ("deepseek_v3", "moe_layer_freq", 2),
        ("llama", "hidden_act", "quick_gelu"),
        ("qwen3", "layer_types", ["chunked_attention"] * 3),
        ("smollm3", "no_rope_layers", [1, 0]),
        ("llama", "num_hidden_layers", "3"),
        ("llama", "rms_norm_eps", "small"),
        ("mistral", "sliding_window", -1),
        ("llama", "vocab_size", True),
        ("gpt_oss", "num_experts_per_tok", 0),
        ("qwen3_next", "hidden_act", "gelu"),
        ("qwen3_next", "norm_topk_prob", False),
        ("qwen3_next", "decoder_sparse_step", 2),
        ("qwen3_next", "attention_bias", True),
        ("qwen3_next", "mlp_only_layers", [1]),
        ("qwen3_next", "layer_types", ["sliding_attention"] * 4),
        ("qwen3_next", "linear_num_key_heads", 4),
        ("qwen3_next", "linear_conv_kernel_dim", 1),
        ("qwen3_next", "num_experts", 0),
        ("qwen3_next", "sliding_window", 9),
        ("qwen3_5", "attn_output_gate", False),
        ("qwen3_5", "output_gate_type", "sigmoid"),
        ("qwen3_5", "mlp_only_layers", [0]),
        ("qwen3_5", "text_config", None),
    ],
)
def test_what_is_not_implemented_is_refused_by_name(case, name, value, folders, tmp_path):
    shutil.copytree(folders(case), tmp_path, dirs_exist_ok=True)
    change(tmp_path, **{name: value})
    with pytest.raises(ValueError, match=name) as raised:
        load_model(tmp_path)
    assert str(tmp_path / "config.json") in str(raised.value)


@pytest.mark.parametrize(
    "rope, said",
    [
        ({"rope_type": "spiral"}, "rope_type"),
        ({"rope_type": "yarn"}, "factor"),
        ({"rope_type": "linear", "factor": 2.0, "mystery": 1}, "mystery"),
        ({"rope_type": "default", "partial_rotary_factor": 0.5}, "partial_rotary_factor"),
        ("linear", "rope_parameters"),
    ],
)
def test_rotary_settings_that_are_not_known(rope, said, folders, tmp_path):
    shutil.copytree(folders("llama"), tmp_path, dirs_exist_ok=True)
    change(tmp_path, rope_parameters=rope)
    with pytest.raises(ValueError, match=said):
        load_model(tmp_path)


def test_two_rotary_settings_that_differ(folders, tmp_path):
    shutil.copytree(folders("llama"), tmp_path, dirs_exist_ok=True)
    change(tmp_path, rope_scaling={"rope_type": "linear", "factor": 2.0})
    with pytest.raises(ValueError, match="rope_scaling: expected none beside rope_parameters"):
        load_model(tmp_path)


# Names in the file --------------------------------------------------------------------------------


def test_names_of_older_files(folders, tmp_path):
    """GPT-2's without a prefix and with its masks; BERT's with gamma and beta,
    a pooler, and a head for sentences.
    """
    old = {
        "gpt2": lambda name: name.removeprefix("transformer."),
        "bert": lambda name: name.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
            "LayerNorm.bias", "LayerNorm.beta"
        ),
    }
    more = {
        "gpt2": {
            "h.0.attn.bias": torch.ones(1, 1, 5, 5),
            "h.0.attn.masked_bias": torch.tensor(-1e4),
        },
        "bert": {
            "bert.pooler.dense.weight": torch.ones(40, 40),
            "cls.seq_relationship.bias": torch.ones(2),
            "bert.embeddings.position_ids": torch.arange(300)[None],
            "cls.predictions.decoder.weight": torch.ones(59, 40),
        },
    }
    for case, rename in old.items():
        folder = tmp_path / case
        shutil.copytree(folders(case), folder)
        tensors, _ = read_safetensors(folder / "model.safetensors")
        save_file(
            {rename(name): t for name, t in tensors.items()} | more[case],
            folder / "model.safetensors",
        )
        ids = ids_of(case)
        assert error(logits(load_model(folder), ids), logits(make(case), ids)) <= 1e-5


def test_the_published_form_of_deepseek(folders, tmp_path):
    "A further layer, which predicts several tokens at once, is left out."
    shutil.copytree(folders("deepseek_v3"), tmp_path, dirs_exist_ok=True)
    tensors, _ = read_safetensors(tmp_path / "model.safetensors")
    save_file(
        tensors | {"model.layers.3.eh_proj.weight": torch.ones(3, 3)},
        tmp_path / "model.safetensors",
    )
    change(
        tmp_path,
        num_nextn_predict_layers=1,
        ep_size=1,
        topk_method="noaux_tc",
        scoring_func="sigmoid",
        moe_layer_freq=1,
    )
    ids = ids_of("deepseek_v3")
    assert error(logits(load_model(tmp_path), ids), logits(make("deepseek_v3"), ids)) <= 1e-5


@pytest.mark.parametrize("case", ["qwen3_next", "qwen3_5", "qwen3_5_moe"])
def test_layers_that_predict_further_are_left_out(case, folders, tmp_path):
    "Tensors of `mtp`; a part of another name is refused."
    shutil.copytree(folders(case), tmp_path, dirs_exist_ok=True)
    path = tmp_path / "model.safetensors"
    tensors, _ = read_safetensors(path)
    save_file(tensors | {"mtp.fc.weight": torch.ones(3, 3)}, path)
    ids = ids_of(case)
    assert torch.equal(logits(load_model(tmp_path), ids), logits(load_model(folders(case)), ids))
    save_file(tensors | {"mtq.fc.weight": torch.ones(3, 3)}, path)
    with pytest.raises(ValueError, match="mtq.fc.weight: expected no such tensor"):
        load_model(tmp_path)


def test_families_are_those_that_are_handed_in(folders):
    "Chapter 18 alone knows no hybrids; a family of one's own may have another name."
    with pytest.raises(ValueError, match="model_type: expected one of llama, .* got 'qwen3_next'"):
        rm.load_model(folders("qwen3_next"))
    mine = {"qwen3_next": HYBRIDS["qwen3_next"]._replace(heads=("Mine",))}
    with pytest.raises(ValueError, match="architectures: expected Mine; got Qwen3Next"):
        rm.load_model(folders("qwen3_next"), families=mine)


# Files that are damaged ---------------------------------------------------------------------------

O_PROJ = "model.layers.1.self_attn.o_proj.weight"


@pytest.fixture
def whole(folders, tmp_path):
    "A copy of the Llama, its tensors, and a function that writes others."
    shutil.copytree(folders("llama"), tmp_path, dirs_exist_ok=True)
    path = tmp_path / "model.safetensors"
    tensors, _ = read_safetensors(path)
    return (
        tmp_path,
        tensors,
        lambda changed: save_file({name: t for name, t in changed.items() if t is not None}, path),
    )


@pytest.mark.parametrize(
    "name, changed, said",
    [
        (O_PROJ, lambda t: None, "expected a tensor of shape (30, 84); got none"),
        (
            O_PROJ,
            lambda t: t[:, :-1].contiguous(),
            "model.safetensors: " + O_PROJ + ": expected shape (30, 84); got (30, 83)",
        ),
        (O_PROJ, lambda t: t.T.contiguous(), "expected shape (30, 84); got (84, 30)"),
        (
            O_PROJ,
            lambda t: t.to(torch.int8),
            "expected numbers of a floating type, 16 bits at least; got torch.int8",
        ),
        (
            O_PROJ,
            lambda t: t.to(torch.float8_e4m3fn),
            "expected numbers of a floating type, 16 bits at least; got torch.float8_e4m3fn",
        ),
        (O_PROJ, lambda t: t * float("nan"), "expected finite numbers; got NaN or infinity"),
        (
            "model.layers.1.self_attn.q_proj.bias",
            lambda t: torch.ones(84),
            "expected no such tensor",
        ),
        (
            "model.layers.7.self_attn.o_proj.weight",
            lambda t: torch.ones(30, 84),
            "expected no such tensor",
        ),
        (
            "lm_head.weight",
            lambda t: None,
            "lm_head.weight: expected a tensor of shape (67, 30); got none",
        ),
    ],
)
def test_a_tensor_that_does_not_fit(name, changed, said, whole):
    "File, tensor, expected, got."
    folder, tensors, save = whole
    save(tensors | {name: changed(tensors.get(name))})
    with pytest.raises(ValueError) as raised:
        load_model(folder)
    assert (
        said in str(raised.value) and name in str(raised.value) and str(folder) in str(raised.value)
    )


@pytest.mark.parametrize("keep", [0, 5, 200, 20_000, -1])
def test_a_file_that_was_cut(keep, whole):
    folder, _, _ = whole
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(ValueError, match="expected a whole file of safetensors") as raised:
        load_model(folder)
    assert str(path) in str(raised.value)


@pytest.mark.parametrize(
    "text, said",
    [
        ("{", "expected JSON"),
        ("[]", "expected a mapping"),
        ("", "expected JSON"),
        ('{"model_type": "rwkv"}', "model_type"),
        ("{}", "model_type"),
    ],
)
def test_a_config_that_is_none(text, said, whole):
    folder, _, _ = whole
    (folder / "config.json").write_text(text)
    with pytest.raises(ValueError, match=said) as raised:
        load_model(folder)
    assert "config.json" in str(raised.value)


def test_a_folder_without_files(tmp_path, whole):
    "A missing config; pickles, which are never read."
    folder, _, _ = whole
    (folder / "model.safetensors").unlink()
    with pytest.raises(ValueError, match="expected model.safetensors.*got none"):
        load_model(folder)
    (folder / "pytorch_model.bin").write_bytes(b"\x80\x04cos\nsystem\n")
    with pytest.raises(ValueError, match="pytorch_model.bin, which may be a pickle"):
        load_model(folder)
    (folder / "config.json").unlink()
    with pytest.raises(ValueError, match="config.json: expected a file of JSON; got none"):
        load_model(folder)
    with pytest.raises(ValueError, match="directory: expected a folder, or a name"):
        load_model(folder / "missing")


def test_an_index_that_is_wrong(tmp_path):
    """A file or a tensor that the index names and that is not there;
    an index that leads out of the folder.
    """
    write(tmp_path, "llama", shards=True)
    path = tmp_path / "model.safetensors.index.json"
    index = json.loads(path.read_text())
    names = index["weight_map"]
    for changed, said in (
        (
            {**names, "model.norm.weight": "model-00077-of-00077.safetensors"},
            "model-00077-of-00077.safetensors: expected a file",
        ),
        (
            {**names, "model.extra.weight": names["model.norm.weight"]},
            "model.extra.weight: expected a tensor",
        ),
        ({**names, "model.norm.weight": "../model.safetensors"}, "weight_map"),
        ([], "weight_map"),
        (None, "weight_map"),
    ):
        path.write_text(json.dumps({"weight_map": changed}))
        with pytest.raises(ValueError, match=said):
            load_model(tmp_path)
    path.write_text(json.dumps({"weight_map": names}))
    next(tmp_path.glob("model-00002*")).unlink()
    with pytest.raises(ValueError, match="model-00002-of-.*expected a file"):
        load_model(tmp_path)


# Sizes --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameters_of_published_sizes(name):
    "As many as the library's model has, on meta, without what reads pictures."
    settings = dict(PUBLISHED[name])
    kind = settings.pop("model_type")
    more = {"num_nextn_predict_layers": 0} if kind == "deepseek_v3" else {}
    with torch.device("meta"):
        theirs = library_model(kind, settings | more)
    numbers = {n: p.numel() for n, p in theirs.named_parameters() if "visual." not in n}
    corrections = {n: b.numel() for n, b in theirs.named_buffers() if n.endswith("correction_bias")}
    expected = sum(numbers.values()) + sum(corrections.values())
    assert rm.count_parameters(plan_model(PUBLISHED[name])) == expected


# The hub, the tokenizer, the command --------------------------------------------------------------


def test_a_name_on_the_hub(folders, monkeypatch):
    """It is downloaded by huggingface_hub, without pickles; without that package,
    the error says what to install.
    """
    import huggingface_hub

    asked = []
    monkeypatch.setattr(
        huggingface_hub,
        "snapshot_download",
        lambda name, **given: asked.append((name, given)) or str(folders("llama")),
    )
    assert load_model("someone/tiny-llama").embed.table.num_embeddings == 67
    assert asked[0][0] == "someone/tiny-llama" and not any(
        "bin" in pattern or pattern == "*" for pattern in asked[0][1]["allow_patterns"]
    )
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(ImportError, match="pip install huggingface_hub"):
        load_model("someone/tiny-llama")


@pytest.fixture
def spoken(tmp_path):
    "A tiny Llama with a tokenizer of bytes: 'ä' is two tokens."
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    signs = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({sign: i for i, sign in enumerate(signs)}, []))
    tokenizer.pre_tokenizer, tokenizer.decoder = (
        pre_tokenizers.ByteLevel(add_prefix_space=False),
        decoders.ByteLevel(),
    )
    from transformers import AutoConfig, AutoModelForCausalLM

    torch.manual_seed(3)
    AutoModelForCausalLM.from_config(
        AutoConfig.for_model("llama", **LLAMA | {"vocab_size": 256, "eos_token_id": None})
    ).save_pretrained(tmp_path)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    return tmp_path, tokenizer


def test_the_command_streams(spoken, capsys):
    "The prompt and what follows; piece by piece; whole characters."
    folder, tokenizer = spoken
    model = load_model(folder)
    ids = torch.tensor([tokenizer.encode("Zwölf").ids])
    expected = tokenizer.decode(model.generate(ids, 12)[0].tolist())
    assert attention_nb_command.main(["generate", str(folder), "Zwölf", "--tokens", "12"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("Zwölf") and expected.startswith(out.rstrip("\n")) and len(out) > 8
    pieces = list(rm.stream_text(folder, "Zwölf", 12))
    assert "".join(pieces) == out[5:-1] and len(pieces) > 1


def test_the_command_knows_hybrids(spoken, tmp_path_factory, capsys):
    "It continues a text with a Qwen3-Next."
    spoken_at, tokenizer = spoken
    folder = tmp_path_factory.mktemp("hybrid")
    library_model("qwen3_next", SETTINGS["qwen3_next"] | {"vocab_size": 256}).save_pretrained(
        folder
    )
    shutil.copy(spoken_at / "tokenizer.json", folder)
    ids = torch.tensor([tokenizer.encode("abc").ids])
    expected = tokenizer.decode(load_model(folder).generate(ids, 12)[0].tolist())
    assert attention_nb_command.main(["generate", str(folder), "abc", "--tokens", "12"]) == 0
    out = capsys.readouterr().out.rstrip("\n")
    assert len(out) > 5 and expected.startswith(out)


def test_pieces_wait_for_whole_characters(spoken):
    _, tokenizer = spoken
    ids = tokenizer.encode("ü日").ids
    assert len(ids) == 5
    assert list(rm._pieces(tokenizer, tokenizer.encode("a").ids, iter(ids))) == ["ü", "日"]


def test_a_token_that_ends_the_text(spoken):
    "It is not printed, and nothing follows it."
    folder, tokenizer = spoken
    ids = tokenizer.encode("abc").ids
    third = int(load_model(folder).generate(torch.tensor([ids]), 3)[0, -1])
    change(folder, eos_token_id=[300, third])
    generated = load_model(folder).generate(torch.tensor([ids]), 3)[0, 3:].tolist()
    plan = read_plan(folder)
    assert plan.stop == (300, third)
    assert [*rm._new_tokens(load_model(folder), plan, ids, 9, 0.0, None)] == generated[
        : generated.index(third)
    ]


def test_the_command_refuses(folders, tmp_path, capsys):
    "Status 2, one line: no folder, no tokenizer, an encoder."
    for words, said in (
        (["missing folder", "a"], "directory"),
        ([str(folders("llama")), "a"], "tokenizer.json"),
        ([str(folders("llama")), "a", "--tokens", "0"], "n: expected"),
    ):
        assert attention_nb_command.main(["generate", *words]) == 2
        err = capsys.readouterr().err
        assert said in err and err.count("\n") == 1 and "Traceback" not in err
    shutil.copytree(folders("bert"), tmp_path, dirs_exist_ok=True)
    from tokenizers import Tokenizer, models

    Tokenizer(models.WordLevel({"a": 1, "[UNK]": 0}, unk_token="[UNK]")).save(
        str(tmp_path / "tokenizer.json")
    )
    assert attention_nb_command.main(["generate", str(tmp_path), "a"]) == 2
    assert "holds an encoder" in capsys.readouterr().err


def test_built_models_are_not_loaded_ones():
    "build_model gives random weights, each time others."
    plan = plan_model({"model_type": "llama", **LLAMA})
    one, two = build_model(plan), build_model(plan)
    assert not torch.equal(one.lm_head.weight, two.lm_head.weight)
