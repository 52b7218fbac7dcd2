"""The command line: what it finds, how it writes it, and its exit status."""

from __future__ import annotations

import json
import sys
import types
from pathlib import Path

import pytest
import torch
import torch.nn as nn

from attention_checks.command.check_command import main
from attention_nb.masks import causal_mask
from attention_nb.multi_head_attention import MultiHeadAttention
from attention_nb.positions import RotaryEmbedding, alibi_bias
from attention_nb.softmax import masked_softmax, softmax


class Indexed(MultiHeadAttention):
    "It needs more than x."

    def forward(self, x, *, layer_idx):
        return super().forward(x)


class Configured(MultiHeadAttention):
    "It is made from an object of settings."

    def __init__(self, cfg):
        super().__init__(cfg["width"], 3)


class Exchanged(nn.MultiheadAttention):
    "Cross-attention that takes queries from the memory."

    def forward(self, x, context):
        return super().forward(context, x, x)


class NoLayer:
    "It cannot be called."

    def __init__(self, d_model):
        pass


def unscaled(q, k, v):
    return softmax(q @ k.mT) @ v


def near(q, k, v):
    n_q, n_k = q.shape[-2], k.shape[-2]
    distance = torch.arange(n_k) - torch.arange(n_k - n_q, n_k)[:, None]
    return masked_softmax(q @ k.mT / q.shape[-1] ** 0.5, distance.abs() <= 2) @ v


def early(q, k, v):
    return (
        masked_softmax(
            q @ k.mT / q.shape[-1] ** 0.5, torch.ones(q.shape[-2], k.shape[-2]).tril() > 0
        )
        @ v
    )


def hides(q, k, v, src_mask=None):
    allowed = None if src_mask is None else ~src_mask
    return masked_softmax(q @ k.mT / q.shape[-1] ** 0.5, allowed) @ v


def biased(q, k, v):
    n_q, n_k = q.shape[-2], k.shape[-2]
    scores = q @ k.mT / q.shape[-1] ** 0.5 + alibi_bias(q.shape[1], n_q, n_k).to(q.dtype)
    return masked_softmax(scores, causal_mask(n_q, n_k)) @ v


class Grown(MultiHeadAttention):
    "Its cache is a dictionary that grows."

    def new_cache(self, b, n_max):
        return {}

    def forward(self, x, cache=None):
        cache = {} if cache is None else cache
        cache["x"] = torch.cat([cache.get("x", x[:, :0]), x], 1)
        return super().forward(cache["x"], causal=True)[0][:, -x.shape[1] :]


@pytest.fixture(autouse=True)
def mine(monkeypatch):
    "A module that holds all of these."
    module = types.ModuleType("mine")
    for thing in (Indexed, Configured, Exchanged, NoLayer, unscaled, near, early, hides, biased):
        setattr(module, thing.__name__, thing)
    module.turns, module.grown = RotaryEmbedding(8), Grown(24, 3)
    scaling = {"rope_type": "linear", "factor": 4.0}
    module.far = RotaryEmbedding(8, 500000.0, scaling)
    module.layer = MultiHeadAttention(24, 3)
    module.make = lambda d_model: MultiHeadAttention(d_model, 3)
    module.make_two = lambda d, h: MultiHeadAttention(d, h)
    module.ends = lambda: sys.exit(3)
    module.indexed = lambda layer, x: layer(x, layer_idx=0)
    module.memory_first = lambda layer, x, memory: layer(memory, x)
    monkeypatch.setitem(sys.modules, "mine", module)


def run(capsys, *words, command="check", prog="attention-nb"):
    "The exit status, what it prints, and what it says of errors."
    try:
        status = main([command, *words], prog=prog)
    except SystemExit as e:
        status = e.code
    return status, *capsys.readouterr()


LAYER = "--d-model 24 --n-heads 3"
MEMORY = f"{LAYER} --set batch_first=True --d-memory 24"
BUGS = [
    ("attention_nb.softmax:naive_softmax", ["softmax.overflows"]),
    ("mine:unscaled", ["scale.missing"]),
    (f"mine:Exchanged {MEMORY}", ["route.exchanged"]),
    (f"torch.nn:MultiheadAttention {LAYER} --set batch_first=True --scale 1", ["scale.usual"]),
]
SOUND = [
    "attention_nb.softmax:softmax",
    "attention_nb.softmax:masked_softmax",
    "attention_nb.self_attention:scaled_dot_product_attention",
    f"attention_nb.multi_head_attention:MultiHeadAttention {LAYER} --causal",
    "attention_nb.self_attention:SelfAttention --d-model 24 --set d_k=5",
    "mine:make --d-model 24",
    f"mine:make_two {LAYER}",
    "mine:layer --d-model 24",
    "mine:Configured --d-model 24 --set cfg={'width':24}",
    f"mine:Indexed {LAYER} --call mine:indexed",
    f"mine:Exchanged {MEMORY} --call mine:memory_first",
    "mine:unscaled --scale 1",
    "mine:near --window 3 --ahead 2",
    "attention_nb.flash_attention:flash_attention --as flash --no-gradients",
    "torch:softmax --as softmax --tolerance 0.001",
    "mine:layer --as cache --d-model 24 --tolerance 0.001 --max-batch 2",
    "mine:turns --as positions --no-gradients",
    "mine:far --as positions --base 500000 --scaling rope_type=linear --scaling factor=4",
    "attention_nb.positions:alibi_bias --as positions --n-heads 4 --alibi",
    "mine:grown --as cache --d-model 24 --grows",
    "mine:hides --mask src_mask=blocked --no-strict",
    "mine:hides --no-mask",
    "mine:hides --mask False",
    "--causal=upper-left mine:early",
    "--no-causal attention_nb.flash_attention:flash_attention --as flash --no-gradients",
    "mine:biased --bias attention_nb.positions:alibi_bias --causal",
    f"mine:Exchanged {MEMORY} --call mine:memory_first --as cross",
    "mine:layer --d-model 24 --roles q=q_proj --roles k=k_proj --roles v=v_proj",
]


@pytest.mark.parametrize("words, codes", BUGS)
def test_a_bug_is_named_in_json_and_its_status_is_1(capsys, words, codes):
    status, out, _ = run(capsys, *words.split(), "--format", "json")
    (check,) = json.loads(out)["checks"]
    assert status == 1 and not check["ok"] and set(codes) <= set(check["codes"])
    assert check["failed"] and check["subject"] and check["verdict"] == "bug"


@pytest.mark.parametrize("words", SOUND)
def test_what_is_sound_has_the_status_0(capsys, words):
    status, out, errors = run(capsys, *words.split())
    assert status == 0 and out.startswith("check_") and not errors


UNUSABLE = [
    ("attention_nb.masks", "expected package.module:name"),
    ("attention_nb.no_such:X", "cannot import attention_nb.no_such"),
    ("attention_nb.masks:no_such", "causal_mask"),
    ("attention_nb.softmax:Softmax", "did you mean softmax"),
    ("attention_nb.softmax:softmax.no_such", "no_such"),
    ("attention_nb.self_attention:SelfAttention --d-model 24", "--set d_k=…"),
    ("torch.nn:MultiheadAttention --d-model 24", "--n-heads"),
    ("torch.nn:MultiheadAttention --n-heads 3", "--d-model"),
    ("torch.nn:MultiheadAttention --d-model 24 --n-heads 5", "raised AssertionError"),
    ("torch:softmax --as softmax --scale 1", "--scale is for layer, cross"),
    ("attention_nb.softmax:softmax --d-model 24", "--as layer"),
    ("numpy:matmul --as attention", "NumPy"),
    (f"mine:Indexed {LAYER}", "--call"),
    ("mine:Configured --d-model 24", "def make_layer"),
    ("mine:NoLayer --d-model 24", "cannot be called"),
    ("mine:ends", "SystemExit: 3"),
    (
        f"mine:layer {LAYER} --documents 4",
        "--documents is for attention, distributed; mine:layer is taken for layer",
    ),
    (f"mine:Exchanged {MEMORY} --window 3", "--window is for layer"),
    ("mine:layer --as cache", "--d-model"),
    (f"mine:Exchanged {MEMORY} --causal", "--causal"),
    ("mine:unscaled --call mine:indexed", "--call"),
    (
        "torch:softmax --as softmax --causal",
        "--causal is for layer, attention, flash, positions, distributed",
    ),
    ("torch:softmax --as softmax --n-heads 4", "--n-heads is for layer, cross, positions"),
    ("torch:softmax --as softmax --no-strict", "--strict is for layer, cross, attention"),
    ("mine:hides --mask mask=blocked", "mask: expected a parameter of hides; got 'mask'"),
    ("mine:hides --layout nbd", "layout: expected for check_self_attention"),
    (f"mine:layer {LAYER} --sinks 2", "sinks: expected for check_attention"),
    ("mine:layer --d-model 24 --roles q_proj", "expected name=value; got 'q_proj'"),
    (f"mine:layer {LAYER} --rotate nowhere:f", "cannot import nowhere"),
]


def test_names_of_parts_of_the_tokens_are_separated_by_a_comma(capsys):
    words = f"mine:layer {LAYER} --roles qkv=no_text,no_image"
    errors = run(capsys, *words.split())[2]
    assert "roles['qkv']: expected the name of a part of the layer" in errors
    assert "no_text" in errors and "no_text," not in errors


@pytest.mark.parametrize("words, says", UNUSABLE)
def test_what_cannot_be_checked_is_one_line_of_error(capsys, words, says):
    status, out, errors = run(capsys, *words.split())
    assert status == 2 and not out and errors.count("\n") == 1 and says in errors


@pytest.mark.parametrize("prog", ["attention-nb", "python -m attention_nb"])
def test_it_is_known_by_how_it_was_called(capsys, prog):
    assert run(capsys, "--help", prog=prog)[1].startswith(f"usage: {prog} check [-h]")
    assert run(capsys, "nowhere", prog=prog)[2].startswith(f"{prog}: ")
    assert run(capsys, command="--version", prog=prog)[0] == 0


def test_the_place_of_the_subject_is_written(capsys):
    _, out, _ = run(capsys, "attention_nb.softmax:softmax", "--format", "json")
    (check,) = json.loads(out)["checks"]
    assert check["file"].endswith("attention_nb/softmax.py") and check["line"] > 1


TABLE = """
[[tool.attention-nb.check]]
target = "attention_nb.softmax:softmax"

[[tool.attention-nb.check]]
target = "attention_nb.self_attention:SelfAttention"
d-model = 24
causal = false
mask = false
set = ["d_k=5", "d_v=7"]
"""


@pytest.mark.parametrize(
    "text, status, checked",
    [
        (TABLE, 0, 2),
        (TABLE.replace(":softmax", ":naive_softmax"), 1, 2),
        (TABLE.replace(":softmax", ":no_such"), 2, 1),
        (TABLE.replace("d-model", "width"), 2, 1),
        (TABLE.replace("causal = false", "causal = 'upper-left'"), 2, 1),
        (TABLE.replace("target", "targets"), 2, 0),
        ("[tool.other]", 2, 0),
        ("[tool", 2, 0),
        (None, 2, 0),
    ],
)
def test_without_a_target_all_of_the_table_is_checked(
    capsys, tmp_path, monkeypatch, text, status, checked
):
    monkeypatch.chdir(tmp_path)
    if text is not None:
        Path("pyproject.toml").write_text(text, encoding="utf-8")
    got, out, errors = run(capsys)
    assert got == status and out.count("check_") == checked and bool(errors) == (status == 2)


GOOD = "from attention_nb.softmax import softmax as good\n"
FILES = {
    "alone.py": GOOD,
    "in/folders/helper.py": GOOD,
    "in/folders/helped.py": "from helper import good\n",
    "pack/__init__.py": "",
    "pack/sub/__init__.py": "",
    "pack/base.py": GOOD,
    "pack/sub/deep.py": "from ..base import good\n",
    "argparse.py": GOOD,
    "ends.py": "import sys\nsys.exit(3)\n",
    "syntax.py": "x = 1\ndef f(q, k, v)\n    return q\n",
    "wrong.py": "x = 1\ny = x / 0\n",
    "lacks.py": "import no_such_library\n",
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    "A folder of files, from which the command runs."
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if name.partition(".")[0] in {Path(file).parts[0].removesuffix(".py") for file in FILES}:
            del sys.modules[name]


def test_files_are_found_as_modules_and_as_paths(capsys, folder):
    targets = ["alone.py", "./alone.py", f"{folder}/alone.py", "alone", "in/folders/helped.py"]
    before = list(sys.path)
    for target in [*targets, "pack/sub/deep.py"]:
        assert run(capsys, f"{target}:good")[0] == 0, target
    assert sys.path == before


@pytest.mark.parametrize(
    "target, says",
    [
        ("alone.py", "expected package.module:name or folder/file.py:name"),
        ("none.py:good", "there is no none.py"),
        ("argparse.py:good", "the name of another module"),
        ("ends.py:good", "SystemExit: 3 (ends.py, line 2: sys.exit(3))"),
        ("syntax.py:f", "(syntax.py, line 2)"),
        ("wrong.py:y", "division by zero (wrong.py, line 2: y = x / 0)"),
        ("lacks:f", "(lacks.py, line 1: import no_such_library)"),
    ],
)
def test_a_file_that_cannot_be_imported_says_where(capsys, folder, target, says):
    status, out, errors = run(capsys, target)
    assert status == 2 and not out and errors.count("\n") == 1 and says in errors
