"""Chapter 19 on 1 to 5 processes against one, and what happens when a process dies,
hangs or has another shape.
"""

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from attention_nb.flash_attention import flash_attention
from attention_nb.grouped_heads import sink_attention
from attention_nb.many_machines import (
    ENGINE,
    Sent,
    ShardedAttention,
    Trainer,
    dropout_factors,
    join_sequence,
    load_sharded,
    merge_tree,
    new_mesh,
    ring_attention,
    save_sharded,
    sent_bytes,
    split_layer,
    split_sequence,
    tree_attention,
    ulysses_attention,
)
from attention_nb.multi_head_attention import MultiHeadAttention, share_heads
from attention_nb.tools.ranks import RankError, Ranks, run_ranks
from attention_nb.transformer import FeedForward, TransformerBlock
from attention_nb.translation import (
    Engine,
    Settings,
    encode_pairs,
    fit,
    new_translator,
    number_sentences,
)
from torch.testing import assert_close

# 12 key heads are shared evenly by 1, 2, 3 and 4 ranks.
HEADS = {"ring": (6, 3), "ulysses": (12, 12)}
ATTEND = {"ring": ring_attention, "ulysses": ulysses_attention}
WAYS = [
    {},
    {"causal": True},
    {"causal": True, "window": 3},
    {"documents": True},
    {"causal": True, "documents": True},
    {"causal": True, "sinks": True},
    {"dropout_p": 0.3},
    {"causal": True, "window": 2, "documents": True, "sinks": True, "dropout_p": 0.25},
]
SEED = 11


@pytest.fixture(scope="module")
def ranks():
    late = ("torch._dynamo", "torch.distributed.checkpoint.state_dict")
    with Ranks(*late, "torch.distributed.tensor.experimental", __name__) as ranks:
        yield ranks


def drawn(n, heads):
    """Queries, keys, values and a gradient; labels of documents; sinks.

    All widths and lengths differ.
    """
    g = torch.Generator().manual_seed(n)
    draw = lambda *shape: torch.randn(shape, generator=g, dtype=torch.float64)
    h, h_kv = heads
    labels = torch.randint(0, 3, (2, n), generator=g).sort().values
    return (
        (draw(2, h, n, 5), draw(2, h_kv, n, 5), draw(2, h_kv, n, 7), draw(2, h, n, 7)),
        labels,
        draw(h),
    )


def expected(n, heads, way):
    "Contexts and gradients of one process, by the matrix of weights."
    (*qkv, do), labels, sinks = drawn(n, heads)
    q, k, v, sinks = (t.requires_grad_() for t in (*qkv, sinks))
    i = torch.arange(n)
    mask = (i[:, None] >= i) if way.get("causal") else torch.ones(n, n, dtype=torch.bool)
    mask = mask & (i[:, None] - i < way.get("window", n))
    mask = mask.expand(2, 1, n, n)
    if way.get("documents"):
        mask = mask & (labels[:, None, :, None] == labels[:, None, None, :])
    k_all, v_all = share_heads(k, heads[0]), share_heads(v, heads[0])
    none = torch.full_like(sinks, -torch.inf)
    _, weights = sink_attention(q, k_all, v_all, sinks if way.get("sinks") else none, mask)
    if p := way.get("dropout_p"):
        weights = weights * dropout_factors(SEED, p, torch.arange(2 * heads[0]).view(2, -1), i, i)
    context = weights @ v_all
    context.backward(do)
    return [context.detach(), q.grad, k.grad, v.grad, *([sinks.grad] if way.get("sinks") else [])]


def on_rank(rank, name, n, order, way):
    "The same of this rank's tokens; the gradients of sinks are summed over the ranks."
    world = dist.get_world_size()
    cut = lambda t, dim=-2: split_sequence(t, world, rank, order, dim)
    (*qkv, do), labels, sinks = drawn(n, HEADS[name])
    qkv = [cut(t).requires_grad_() for t in qkv]
    how = {**way, "seed": SEED}
    if way.get("documents"):
        how["documents"] = cut(labels, -1)
    if way.get("sinks"):
        how["sinks"] = sinks.requires_grad_()
    context = ATTEND[name](*qkv, order=order, **how)
    context.backward(cut(do))
    if way.get("sinks"):
        dist.all_reduce(sinks.grad)
    return [context.detach(), *(t.grad for t in qkv), *([sinks.grad] if way.get("sinks") else [])]


def all_of(rank, cases):
    return [on_rank(rank, *case) for case in cases]


@pytest.mark.parametrize(
    "name, world",
    [
        ("ring", 1),
        ("ring", 2),
        ("ring", 3),
        ("ring", 4),
        ("ring", 5),
        ("ulysses", 2),
        ("ulysses", 3),
        ("ulysses", 4),
    ],
)
def test_equal_to_one_process(ranks, name, world):
    """Contexts and every gradient within 1e-12 in float64, for lengths 1, world - 1,
    world + 1 and a prime, in both orders.
    """
    cases = [(name, 13, order, way) for order in ("contiguous", "zigzag") for way in WAYS]
    cases += [
        (name, n, order, way)
        for n in {1, max(1, world - 1), world + 1}
        for order in ("contiguous", "zigzag")
        for way in (WAYS[1], WAYS[-1])
    ]
    found = ranks.run(all_of, world, cases, timeout=100)
    for case, *parts in zip(cases, *found, strict=True):
        _, n, order, way = case
        for i, want in enumerate(expected(n, HEADS[name], way)):
            got = join_sequence([part[i] for part in parts], order) if i < 4 else parts[0][i]
            assert_close(
                got,
                want,
                rtol=0,
                atol=1e-12,
                msg=lambda m, case=case, i=i: f"{case}, tensor {i}: {m}",
            )


def with_lengths(rank, lengths, causal):
    (*qkv, do), _, _ = drawn(sum(lengths), HEADS["ring"])
    qkv = [t.split(lengths, -2)[rank].clone().requires_grad_() for t in qkv]
    context = ring_attention(*qkv, causal=causal)
    context.backward(do.split(lengths, -2)[rank])
    return [context.detach(), *(t.grad for t in qkv)]


@pytest.mark.parametrize("lengths", [[5, 0, 3], [0, 0, 7], [1, 9, 2]])
def test_any_lengths_in_order(ranks, lengths):
    "A rank may be empty, or have most of the sequence."
    for causal in (True, False):
        found = ranks.run(with_lengths, 3, lengths, causal, timeout=60)
        for i, want in enumerate(expected(sum(lengths), HEADS["ring"], {"causal": causal})):
            assert_close(torch.cat([part[i] for part in found], -2), want, rtol=0, atol=1e-12)


def in_groups(rank):
    """Ranks 0 and 3 share one sequence, 2 and 1 another:
    the number in a group is not the global one.
    """
    groups = [
        dist.new_group([0, 3], use_local_synchronization=False),
        dist.new_group([1, 2], use_local_synchronization=False),
    ]
    at = 0 if rank in (0, 3) else 1
    (q, k, v, _), _, _ = drawn(7 + 4 * at, HEADS["ring"])
    part = lambda t: split_sequence(t, 2, dist.get_rank(groups[at]), "zigzag")
    return at, ring_attention(part(q), part(k), part(v), True, "zigzag", group=groups[at])


def test_ranks_of_a_group(ranks):
    found = ranks.run(in_groups, 4, timeout=60)
    for at, members in enumerate(([0, 3], [1, 2])):
        want = expected(7 + 4 * at, HEADS["ring"], {"causal": True})[0]
        assert_close(
            join_sequence([found[r][1] for r in members], "zigzag"), want, rtol=0, atol=1e-12
        )


def in_bfloat16(rank, n):
    (q, k, v, _), _, _ = drawn(n, HEADS["ring"])
    return ring_attention(
        *(split_sequence(t.bfloat16(), dist.get_world_size(), rank) for t in (q, k, v)), causal=True
    )


def test_merging_in_16_bits_rounds_once(ranks):
    """On many ranks the result is that of one within the last bit of bfloat16;
    scores far from zero do not overflow.
    """
    one = ranks.run(in_bfloat16, 1, 40)[0]
    four = join_sequence(ranks.run(in_bfloat16, 4, 40))
    assert four.dtype == torch.bfloat16
    assert_close(four, one, rtol=2**-7, atol=2**-9)


def with_huge_scores(rank):
    q = torch.full((1, 2, 3, 5), 30.0, dtype=torch.float64) * (rank + 1)
    return ring_attention(q, q, q.sign() * rank)


def test_huge_scores_do_not_overflow(ranks):
    for context in ranks.run(with_huge_scores, 3):
        assert_close(context, torch.full_like(context, 2.0))  # the keys of the last rank win


def merged(rank, n):
    (q, k, v, _), _, _ = drawn(n, HEADS["ring"])
    part = [split_sequence(t, dist.get_world_size(), rank) for t in (k, v)]
    with Sent() as sent:
        context = tree_attention(q[..., -3:, :], *part)
    return context, sent.bytes.get("send", 0)


@pytest.mark.parametrize("world", [1, 2, 3, 4, 5])
def test_a_tree_merges_all(ranks, world):
    "Every rank has the same bits; ranks without keys; the bytes are the formula's."
    for n in (3, 13):
        (q, k, v, _), _, _ = drawn(n, HEADS["ring"])
        found = ranks.run(merged, world, n)
        assert_close(found[0][0], flash_attention(q[..., -3:, :], k, v), rtol=0, atol=1e-12)
        assert all(torch.equal(context, found[0][0]) for context, _ in found)
        assert sum(size for _, size in found) == 2 * sent_bytes("tree", 3, world, 6, 3, 7, 8)


def half(rank):
    return merge_tree(
        torch.full((1, 2), float(rank)), torch.full((1,), 0.0 if rank < 2 else -torch.inf)
    )


def test_a_rank_without_keys_has_no_weight(ranks):
    context, lse = ranks.run(half, 3)[2]
    assert_close(context, torch.tensor([[0.5, 0.5]]))
    assert_close(lse, torch.tensor([2.0]).log())


# ---- Heads apart ----


def block(n_kv_heads):
    torch.manual_seed(0)
    layer = MultiHeadAttention(12, 4, n_kv_heads=n_kv_heads, d_head=6)
    return TransformerBlock(
        12, ShardedAttention(layer, flash_attention), FeedForward(12, 20, gated=True)
    ).double()


def run_block(module):
    g = torch.Generator().manual_seed(1)
    x, do = (torch.randn(2, 7, 12, generator=g, dtype=torch.float64) for _ in range(2))
    out = module(x.requires_grad_(), causal=True)
    out.backward(do)
    grads = {
        name: p.grad.full_tensor() if hasattr(p.grad, "full_tensor") else p.grad
        for name, p in module.named_parameters()
    }
    return {"out": out.detach(), "x": x.grad, **grads}


def heads_apart(rank, n_kv_heads):
    return run_block(split_layer(block(n_kv_heads), new_mesh(heads=dist.get_world_size())["heads"]))


@pytest.mark.parametrize("world, n_kv_heads", [(2, 4), (2, 1), (4, 4), (4, 2)])
def test_heads_apart(ranks, world, n_kv_heads):
    "Output and all gradients, also with more ranks than key heads."
    want = run_block(block(n_kv_heads))
    for found in ranks.run(heads_apart, world, n_kv_heads, timeout=60):
        assert found.keys() == want.keys()
        for name in want:
            assert_close(
                found[name], want[name], rtol=0, atol=1e-12, msg=lambda m, name=name: f"{name}: {m}"
            )


def test_heads_that_cannot_be_shared_are_refused(ranks):
    with pytest.raises(RankError, match="layer: expected a number of heads that 3 ranks can share"):
        ranks.run(heads_apart, 3, 2, timeout=60)


# ---- Training ----


def trained(rank, shape, steps, start=None, save=None):
    trainer = Trainer(new_mesh(*shape))
    if start is not None:
        load_sharded(trainer.training, start)
    while len(trainer.losses) < steps:
        trainer.step()
    if save is not None:
        save_sharded(trainer.training, save)
    return trainer.losses


def test_saved_on_four_resumed_on_two(ranks, tmp_path):
    "The losses are those of one process, whichever axis the ranks lie on."
    alone = torch.tensor(ranks.run(trained, 1, (1, 1, 1), 5, timeout=60)[0])
    ranks.run(trained, 4, (1, 2, 2), 3, None, str(tmp_path), timeout=60)
    for shape in ((2, 1, 1), (1, 2, 1), (1, 1, 2)):
        for losses in ranks.run(trained, 2, shape, 5, str(tmp_path), timeout=60):
            assert_close(torch.tensor(losses), alone, rtol=0, atol=1e-12)


def fitted(rank, engine, folder=None, **settings):
    """Train the translator of chapter 8 on sentences of several lengths,
    so that ranks have different numbers of tokens.
    """
    pairs = encode_pairs(number_sentences([2, 9, 402, 19, 73_519], short=False))
    model, settings = (
        new_translator().double(),
        Settings(**{"stops": (2, 4), "batch": 7, "warm_up": 3, **settings}),
    )
    history = fit(model, [pairs], [pairs], settings, folder, progress=False, engine=engine)
    return torch.tensor([row.loss for row in history[1:]]), [p.detach() for p in model.parameters()]


def test_fit_saved_on_four_resumed_on_two(ranks, tmp_path):
    "Losses and parameters are those of chapter 8's own steps on one process."
    alone = ranks.run(fitted, 1, Engine(), timeout=60)[0]
    on_four = ranks.run(fitted, 4, ENGINE, str(tmp_path), timeout=60)
    shutil.rmtree(tmp_path / "step-000004")
    for found in (*on_four, *ranks.run(fitted, 2, ENGINE, str(tmp_path), timeout=60)):
        assert_close(found, alone, rtol=0, atol=1e-11)


def other_settings(rank, folder):
    with pytest.raises(
        ValueError, match=r"settings: expected those of .*step-000004, lr=0.004; got lr=0.1"
    ):
        fitted(rank, ENGINE, folder, lr=0.1)
    with pytest.raises(
        ValueError, match="batch: expected 2 pairs or more, one for each rank; got 1"
    ):
        fitted(rank, ENGINE, batch=1)


def test_fit_refuses_on_every_rank(ranks, tmp_path):
    "A checkpoint of other settings, and a batch with fewer pairs than ranks."
    ranks.run(fitted, 1, ENGINE, str(tmp_path), timeout=60)
    ranks.run(other_settings, 2, str(tmp_path), timeout=60)


# ---- Faults ----


def faulty(rank, kind):
    if rank == 1 and kind == "raise":
        raise KeyError("no such key")
    if rank == 1 and kind == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if rank == 1 and kind == "leave":
        os._exit(7)
    if rank == 1 and kind == "hang":
        threading.Event().wait()
    q = torch.ones(
        1,
        2,
        5,
        7 if rank == 1 and kind == "shape" else 3,
        dtype=torch.half if rank == 1 and kind == "dtype" else torch.float,
    )
    return ring_attention(q, q, q, causal=rank == 1 and kind == "causal")


@pytest.mark.parametrize(
    "kind, said",
    [
        ("raise", "KeyError: 'no such key'"),
        ("die", "killed by SIGKILL"),
        ("leave", "exit code 7"),
        ("hang", "did not finish: it is in wait"),
        ("shape", "rank 1: expected the same on every rank; d_k: got 7, where rank 0 has 3"),
        ("dtype", "rank 1: expected the same on every rank; dtype"),
        ("causal", "rank 1: expected the same on every rank; causal: got 1, where rank 0 has 0"),
    ],
)
def test_a_fault_names_its_rank(ranks, kind, said):
    begun = time.monotonic()
    with pytest.raises(RankError, match="rank ") as error:
        ranks.run(faulty, 3, kind, timeout=6.0)
    assert said in error.value.reason, str(error.value)
    assert error.value.rank == 1 or kind in ("shape", "dtype", "causal"), (
        "those are told on every rank"
    )
    assert time.monotonic() - begun < 20
    assert len(ranks.run(faulty, 2, "", timeout=30)) == 2, "the next run has new ranks"


def die_at_random(rank, seed):
    q = torch.ones(1, 2, 5, 3)
    g = torch.Generator().manual_seed(seed)
    who, when = (int(torch.randint(0, n, (), generator=g)) for n in (4, 6))
    for step in range(6):
        if rank == who and step == when:
            os.kill(os.getpid(), signal.SIGKILL)
        ring_attention(q, q, q)


@pytest.mark.parametrize("seed", range(4))
def test_who_dies_is_named(ranks, seed):
    g = torch.Generator().manual_seed(seed)
    who = int(torch.randint(0, 4, (), generator=g))
    with pytest.raises(RankError) as error:
        ranks.run(die_at_random, 4, seed, timeout=30)
    assert (error.value.rank, error.value.reason.splitlines()[0]) == (
        who,
        "it died: killed by SIGKILL",
    )


def identity(rank):
    return rank, os.getpid(), os.getppid()


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_no_process_is_left():
    found = run_ranks(identity, 3)
    assert [rank for rank, *_ in found] == [0, 1, 2]
    assert not any(alive(pid) for _, *pids in found for pid in pids)


SCRIPT = """
import os, signal, time
from attention_nb.tools.ranks import Ranks
signal.signal(signal.SIGINT, signal.default_int_handler)  # what runs in the background ignores it
def hang(rank):
    open(os.path.join({folder!r}, str(os.getpid())), "w").close()
    time.sleep(600)
with Ranks() as ranks:
    print("ready", ranks.run(lambda rank: rank, 2), flush=True)
    ranks.run(hang, 2, timeout=600)
"""


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_ranks_end_with_who_started_them(tmp_path, how):
    "By a key, or when the process is killed; the functions of the script are no module's."
    script = tmp_path / "script.py"
    pids = tmp_path / "pids"
    pids.mkdir()
    script.write_text(SCRIPT.format(folder=str(pids)))
    env = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(
            [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
        ),
    }
    process = subprocess.Popen(
        [sys.executable, script],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=env,
        text=True,
    )
    assert process.stdout.readline() == "ready [0, 1]\n"
    wait_for(lambda: len(list(pids.iterdir())) == 2)
    process.send_signal(how)
    process.wait(timeout=20)
    wait_for(lambda: not any(alive(int(path.name)) for path in pids.iterdir()))


def wait_for(holds):
    "Wait until something holds, at most 20 s."
    end = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)


def of_its_own_kind(rank):
    raise_it()


def raise_it():
    raise ZeroDivisionError("here")


def test_the_traceback_is_that_of_the_rank(ranks):
    with pytest.raises(RankError) as error:
        ranks.run(of_its_own_kind, 2)
    assert f"rank {error.value.rank} of 2: ZeroDivisionError: here" in str(error.value)
    assert "in of_its_own_kind\n    raise_it()" in str(error.value)


# ---- The command ----


def torchrun(*args, n=2):
    "Run the command; torchrun takes a free port."
    env = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join(
            [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
        ),
    }
    start = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node",
        str(n),
    ]
    return subprocess.run([*start, *args], capture_output=True, text=True, env=env, timeout=300)


def test_help():
    env = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(
            [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
        ),
    }
    said = subprocess.run(
        [sys.executable, "-m", "attention_nb.many_machines", "--help"],
        capture_output=True,
        text=True,
        env=env,
    )
    assert said.returncode == 0 and "{compare,train}" in said.stdout


@pytest.mark.ci
def test_torchrun_compares():
    done = torchrun(
        "-m",
        "attention_nb.many_machines",
        "--timeout",
        "100",
        "compare",
        "--tokens",
        "11",
        "--key-heads",
        "1",
    )
    assert done.returncode == 0, done.stderr
    assert "RuntimeWarning" not in done.stderr
    assert done.stdout.count("equal to one process within 1e-12: True") == 2
    assert "can share evenly; got 1" in done.stdout


@pytest.mark.nightly
def test_torchrun_starts_again_after_a_kill(ranks, tmp_path):
    """It continues from the last checkpoint, with the losses of a run without a fault;
    the killed rank is named.
    """
    done = torchrun(
        "--max-restarts",
        "5",
        "-m",
        "attention_nb.many_machines",
        "--timeout",
        "100",
        "train",
        "--steps",
        "5",
        "--folder",
        str(tmp_path),
        "--kill-at",
        "3",
    )
    assert done.returncode == 0, done.stderr
    assert "exitcode: -9" in done.stderr and "local_rank: 1" in done.stderr
    assert "continue after step 3" in done.stdout
    alone = ranks.run(trained, 1, (1, 1, 1), 5, timeout=60)[0]
    assert [line.split()[-1] for line in done.stdout.splitlines() if line.startswith("step")] == [
        f"{loss:.12f}" for loss in alone
    ]


def with_context_parallel(rank):
    from torch.distributed.tensor.experimental import context_parallel

    q = torch.ones(1, 2, 8, 4)
    with context_parallel(new_mesh(sequence=2)["sequence"], buffers=[q], buffer_seq_dims=[2]):
        torch.nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True)


@pytest.mark.ci
def test_context_parallel_refuses_on_a_cpu(ranks):
    "As the chapter says; if this fails, PyTorch has learned it, and the page has to say so."
    with pytest.raises(RankError, match="does not have a sharding strategy registered"):
        ranks.run(with_context_parallel, 2, timeout=60)


def both_rings(rank, n, causal):
    """Contexts and gradients of the ring inside `context_parallel`, by the CPU's kernel, and ours.

    It makes the lengths of all ranks equal, and knows the zig-zag order for causal attention alone.
    """
    from torch.distributed.tensor.experimental._context_parallel import _attention as theirs

    theirs._cp_options.convert_to_f32 = False
    theirs._cp_options.enable_load_balance = causal
    forward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward
    order = "zigzag" if causal else "contiguous"
    cut = lambda t: split_sequence(t, dist.get_world_size(), rank, order).contiguous()
    g = torch.Generator().manual_seed(n)
    q, k, v, do = (cut(torch.randn(2, 3, n, 8, generator=g).double()) for _ in range(4))
    ring = (dist.group.WORLD, 2)
    context, lse = theirs._templated_ring_attention(*ring, forward, q, k, v, is_causal=causal)
    gradients = theirs._templated_ring_attention_backward(
        *ring, backward, do, "grad_out", q, k, v, context, lse, causal, dropout_p=0.0
    )
    own = [t.clone().requires_grad_() for t in (q, k, v)]
    ours = ring_attention(*own, causal=causal, order=order)
    ours.backward(do)
    return [context, *gradients], [ours.detach(), *(t.grad for t in own)]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("world", [2, 3, 4])
def test_equal_to_the_ring_of_context_parallel(ranks, world, causal):
    "Within 1e-12, on every rank."
    for theirs, ours in ranks.run(both_rings, world, 6 * world, causal, timeout=60):
        for got, want in zip(ours, theirs, strict=True):
            assert_close(got, want, rtol=0, atol=1e-12)
