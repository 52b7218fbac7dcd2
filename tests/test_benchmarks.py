"""The benchmarks: what they compute from the clock, and that every contender does the same work.

No test looks at a clock.

If it fails: Look in benchmarks/:
a ratio is wrong, or a contender computes something else than the others.
"""

import json

import pytest
import torch
from attention_nb.tools.testing import assert_close
from benchmarks import layers, roofline
from benchmarks.measure import installed, ratios, rounds, seconds
from benchmarks.run import TOPICS, main


def test_ratios_are_of_one_round():
    "A machine that becomes ten times slower changes no ratio; the first round does not count."
    now, slower = [0.0], [1.0]
    costs = {"reference": 2.0, "twice": 4.0, "half": 1.0}

    def run(name):
        def spend():
            now[0] += costs[name] * slower[0]

        return spend

    timed = []
    for one in rounds({name: run(name) for name in costs}, 5, clock=lambda: now[0]):
        timed.append(one)
        slower[0] *= 10
    assert len(timed) == 5
    found = ratios(timed, "reference")
    for name, cost in costs.items():
        assert found[name][:3] == pytest.approx([cost / 2] * 3)
    assert found["twice"].seconds == pytest.approx(4.0 * 100)


def test_a_run_may_say_itself_how_long_it_took():
    "What it prepared before does not count."
    assert seconds(lambda: 0.25, clock=iter([0.0, 9.0]).__next__) == 0.25
    assert seconds(lambda: torch.ones(1), clock=iter([0.0, 9.0]).__next__) == 9.0


@pytest.mark.nightly
@pytest.mark.parametrize("weights", [False, True])
def test_contenders_are_causal_layers(weights):
    "Each gives rows of the right shape, and none that know of the words behind them."
    torch.manual_seed(0)
    b, n, d_model, n_heads = 2, 7, 24, 3
    x = torch.randn(b, n, d_model)
    other = torch.cat([x[:, :4], torch.randn(b, 3, d_model)], dim=1)
    contenders = installed(layers.CONTENDERS[weights], n, d_model, n_heads)
    assert {"attention_nb", layers.REFERENCE} < set(contenders)
    for name, layer in contenders.items():
        out, changed = layer(x), layer(other)
        assert out.shape == x.shape, name
        assert_close(out[:, :4], changed[:, :4], msg=f"{name} looks ahead")
        assert (out[:, 4:] - changed[:, 4:]).abs().max() > 1e-3, name


def test_textbook_and_minimal_agree():
    "With the same weights the slow form and the fused one give the same."
    torch.manual_seed(0)
    minimal, textbook = layers.Minimal(24, 3), layers.Textbook(24, 3)
    textbook.load_state_dict(minimal.state_dict())
    x = torch.randn(2, 7, 24)
    assert_close(textbook(x), minimal(x))


SMALL = {
    "layers": (1, 5, 12, 3),
    "grouped": (2, 5, 24, 6, 3),
    "decoding": (24, 6, 3, 7),
    "prefill": (24, 6, 3, 7, 5),
    "flash": (9, 2, 8),
    "local": (24, 3, 2, 8),
}


@pytest.mark.nightly
@pytest.mark.parametrize("topic", TOPICS)
def test_make_bench_writes_what_the_page_reads(topic, tmp_path, capsys):
    """One small shape; the file is named after the machine.

    Where contenders must give the same, that is compared on the way.
    """
    sizes = [str(size) for size in SMALL[topic]]
    (path,) = main(
        [
            topic,
            "--shape",
            *sizes,
            "--rounds",
            "2",
            "--to",
            str(tmp_path),
            "--name",
            "My machine, 2!",
        ]
    )
    assert path == tmp_path / topic / "my-machine-2.json"
    found = json.loads(path.read_text(encoding="utf-8"))
    assert {"processor", "threads", "versions", "date", "ceiling"} <= set(found["machine"])
    cases = [dict(comparison.case) for comparison in TOPICS[topic].comparisons(*SMALL[topic])]
    for case in cases:
        rows = {row["name"]: row for row in found["rows"] if case.items() <= row.items()}
        assert len(rows) > 1 and rows[TOPICS[topic].REFERENCE]["median"] == 1
        assert all(
            row["shape"] == list(SMALL[topic]) and row["low"] <= row["median"] <= row["high"]
            for row in rows.values()
        )
    assert "GFLOP/s" in capsys.readouterr().err


@pytest.mark.parametrize(
    "argv, said",
    [
        (["speed"], "expected some of layers, grouped"),
        (["--shape", "3"], "expected one topic beside it"),
        (["flash", "--shape", "3", "5"], "expected 3 sizes, n heads width; got [3, 5]"),
    ],
)
def test_make_bench_says_what_it_cannot_measure(argv, said, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(argv)
    assert stopped.value.code == 2 and said in capsys.readouterr().err


def test_the_roof_is_written_for_the_page_and_a_second_run_keeps_the_best(tmp_path):
    "Of small sizes; operations and bytes are counted, so they are the same in every run."
    asked = [
        f"--{name}={number}"
        for name, number in dict(
            tokens=16, cached=32, heads=8, width=8, tries=2, fresh=1, memory=1024, product=64
        ).items()
    ]
    path = roofline.main([*asked, "--to", str(tmp_path), "--name", "Mine"])
    first = json.loads(path.read_text(encoding="utf-8"))
    assert {"processor", "threads", "versions", "date", "ceiling", "bandwidth"} <= set(
        first["machine"]
    )
    again = json.loads(
        roofline.main([*asked, "--to", str(tmp_path), "--name", "Mine"]).read_text(encoding="utf-8")
    )
    assert (
        again["machine"]["ceiling"] >= first["machine"]["ceiling"]
        and len(first["ways"]) == len(again["ways"]) == 9
    )
    for old, new in zip(first["ways"], again["ways"]):
        assert old["name"] == new["name"] and new["seconds"] <= old["seconds"]
        assert (old["operations"], old["moved"]) == (new["operations"], new["moved"])
    assert first["ways"][1]["operations"] == 4 * 16 * 16 * 8 * 8
