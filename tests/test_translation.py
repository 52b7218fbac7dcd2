"""Training that is interrupted, files that cannot be written, and `attention-nb translate`:
what a notebook cannot test.

If it fails: `nbs/08_translation.ipynb` holds the functions; `make train` writes the shipped files.
"""

import errno
import json
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest
import torch
from attention_nb import translation
from attention_nb.translation import (
    Settings,
    begin,
    encode_pairs,
    fit,
    new_translator,
    number_sentences,
    read_safetensors,
    resume,
    save_checkpoint,
    split_numbers,
    translate,
    write_atomically,
)
from conftest import ROOT

SETTINGS = Settings(stops=tuple(range(3, 37, 3)), batch=8, warm_up=7, patience=99, seed=5)
TRAIN = f"""
import sys, torch
torch.set_num_threads(1)
from attention_nb.translation import *
pairs = lambda numbers: [encode_pairs(number_sentences(numbers, short)) for short in (True, False)]
train, held = pairs(range(1, 50)), pairs(range(50, 57))
fit(new_translator(seed=3), train, held, {SETTINGS}, sys.argv[1], progress=False)
"""


def pairs(numbers):
    return [encode_pairs(number_sentences(numbers, short)) for short in (True, False)]


def train_here(folder=None, settings=SETTINGS, seed=3):
    model = new_translator(seed=seed)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return model, fit(
            model, pairs(range(1, 50)), pairs(range(50, 57)), settings, folder, progress=False
        )
    finally:
        torch.set_num_threads(threads)


@pytest.mark.nightly
def test_killed_at_random_moments_and_resumed(tmp_path):
    """It ends with the numbers of a training that nobody interrupted, to the last bit;
    every file left is whole.
    """
    env = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    chance, kills = random.Random(), 0
    for _ in range(3):
        before = len(list(tmp_path.glob("step-*")))
        process = subprocess.Popen([sys.executable, "-c", TRAIN, str(tmp_path)], env=env)
        while process.poll() is None and len(list(tmp_path.glob("step-*"))) <= before:
            time.sleep(0.005)  # it has begun to write
        time.sleep(chance.uniform(0, 0.3))
        kills += process.poll() is None
        process.send_signal(signal.SIGKILL)
        process.wait()
        for path in tmp_path.glob("step-*"):
            read_safetensors(path)
    assert kills
    resumed, history = train_here(tmp_path)
    whole, expected = train_here()
    assert str(history) == str(expected)  # the first loss is NaN, which equals nothing
    for ours, theirs in zip(resumed.parameters(), whole.parameters()):
        assert torch.equal(ours, theirs)


def test_the_library_reads_what_we_read(tmp_path):
    "Our reader of ten lines and safetensors agree, on a checkpoint and on the shipped file."
    from safetensors import safe_open
    from safetensors.torch import load_file

    path = save_checkpoint(begin(new_translator()), tmp_path)
    for file in (path, translation.TRAINED / "translator.safetensors"):
        ours, said = read_safetensors(file)
        theirs = load_file(file)
        assert ours.keys() == theirs.keys() and all(
            torch.equal(ours[name], theirs[name]) for name in ours
        )
        with safe_open(file, "pt") as opened:
            assert opened.metadata() == said


@pytest.mark.parametrize(
    "change, said",
    [
        (
            {"lr": 0.5},
            (
                r"settings: expected those of .*, lr=0.004; got lr=0.5. Use the same settings, "
                r"or another folder"
            ),
        ),
        ({"seed": 1}, "settings: expected those of .*, seed=5; got seed=1"),
    ],
)
def test_a_checkpoint_of_other_settings(change, said, tmp_path):
    "Is refused, and the message says what differs."
    save_checkpoint(begin(new_translator(), SETTINGS), tmp_path)
    with pytest.raises(ValueError, match=said):
        train_here(tmp_path, replace(SETTINGS, **change))


def test_a_checkpoint_of_another_model(tmp_path):
    "Is refused with the name of the first tensor that differs; the model stays as it was."
    save_checkpoint(begin(new_translator(), SETTINGS), tmp_path)
    other = new_translator(translation.TranslatorConfig(d_ff=48))
    before = [p.clone() for p in other.parameters()]
    with pytest.raises(
        ValueError,
        match=r"model: expected that of .*up_proj.weight is \(64, 32\) there, and \(48, 32\) here",
    ):
        resume(begin(other, SETTINGS), tmp_path)
    assert all(torch.equal(p, q) for p, q in zip(other.parameters(), before))


@pytest.mark.parametrize("left", [0, 5, 300, 20_000])
def test_a_file_that_was_cut(left, tmp_path):
    "Is named, and what is wrong with it."
    path = save_checkpoint(begin(new_translator(), SETTINGS), tmp_path)
    path.write_bytes(path.read_bytes()[:left])
    with pytest.raises(ValueError, match=f"{path.name}: expected a whole file of safetensors"):
        resume(begin(new_translator(), SETTINGS), tmp_path)


FULL = """
import resource, signal, sys
from attention_nb.translation import write_atomically
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    write_atomically(sys.argv[1], bytes(5000))
except OSError as e:
    print(e)
"""


def test_a_file_that_finds_no_room(tmp_path, monkeypatch):
    """The message says which file and how many bytes; the old file stays,
    and nothing unfinished is left.
    """
    path = tmp_path / "kept"
    write_atomically(path, b"old")
    said = subprocess.run(
        [sys.executable, "-c", FULL, str(path)],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        text=True,
        capture_output=True,
    )
    assert (
        "kept could not be written (5,000 bytes): File too large. "
        "What was stored before is untouched"
    ) in said.stdout, said

    def full(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(
        OSError, match="No space left on device. What was stored before is untouched"
    ) as caught:
        write_atomically(path, b"new")
    assert caught.value.errno == errno.ENOSPC
    assert path.read_bytes() == b"old" and list(tmp_path.iterdir()) == [path]


def test_a_loss_that_is_not_finite(tmp_path):
    "Stops the training in its step; the checkpoints before it stay."
    with pytest.raises(
        FloatingPointError, match="loss: expected a finite number; got nan in step .* smaller lr"
    ):
        train_here(tmp_path, replace(SETTINGS, lr=1e20, clip=1e9))
    assert [path.name for path in sorted(tmp_path.iterdir())][:1] == ["step-000000.safetensors"]


@pytest.mark.parametrize(
    "package, call",
    [
        ("tqdm", lambda folder: fit(new_translator(), pairs([1]), pairs([2]), SETTINGS)),
        ("safetensors", lambda folder: save_checkpoint(begin(new_translator()), folder)),
    ],
)
def test_a_package_that_is_not_installed(package, call, monkeypatch, tmp_path):
    "Is named, and how to install it."
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=rf"need.* {package}: pip install {package}"):
        call(tmp_path)


def test_the_bar_shows_steps_and_loss(capsys):
    fit(new_translator(), pairs(range(9)), pairs([12]), replace(SETTINGS, stops=(2, 4)))
    said = capsys.readouterr().err
    assert "4/4" in said and "loss=" in said and "exact=" in said


@pytest.fixture(scope="module")
def command():
    env = os.environ | {"PYTHONPATH": str(ROOT)}

    def call(*words):
        return subprocess.run(
            [sys.executable, "-m", "attention_nb", "translate", *words],
            cwd="/",
            env=env,
            text=True,
            capture_output=True,
        )

    return call


def test_the_command_translates(command):
    """A line for each text; a word that is not known is named,
    the other texts are translated, and the status is 2.
    """
    done = command(
        "four hundred and two", "Ninety-nine", "one is one", "nine hundred thousand and seven"
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "402\n99\n1 la 1\n900007\n", "")
    done = command("fourty two", "seven", "")
    assert (done.returncode, done.stdout) == (2, "7\n")
    assert "'fourty two': unknown words ['fourty']: did you mean forty?" in done.stderr
    assert "'': text: expected at least one word" in done.stderr
    done = command("--help")
    assert done.returncode == 0 and "a number in words" in done.stdout
    assert command().returncode == 2


def test_what_is_shipped():
    "Every held-out number is translated rightly by the dequantised weights; the file is small."
    file = translation.TRAINED / "translator.safetensors"
    published = json.loads((translation.TRAINED / "translation.json").read_text(encoding="utf-8"))
    assert file.stat().st_size <= 400_000 and len(translation.trained_steps()) >= 12
    model, numbers = translation.load_translator(), split_numbers().test
    assert len(numbers) == 2000 and published["whole"]["short"][0] == 1
    for short in (True, False):
        assert translation.exact_match(model, encode_pairs(number_sentences(numbers, short))) == 1
    assert translate("one is one", model) == "1 la 1"
