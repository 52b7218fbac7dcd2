"""The figures that respond: what they hold is what the package computes,
and what they show is what was chosen.

The numbers are worked out here again, by the definitions and not by the functions that draw.

If it fails: If the chapter changed on purpose, change the test; else the chart,
or website/static/book.js, is wrong.
"""

import csv
import json
import math
import re
import sys
from decimal import ROUND_HALF_UP, Decimal
from functools import cache
from io import StringIO
from itertools import product
from typing import NamedTuple

import pytest
import torch
import torch.nn as nn
import vl_convert
from attention_nb.embeddings import Vocab, journey
from attention_nb.figures import machine
from attention_nb.figures.attend import small_world
from attention_nb.figures.charts import attention_explorer, bars
from attention_nb.masks import causal_mask
from attention_nb.multi_head_attention import merge_heads, split_heads
from attention_nb.naive_attention import naive_attention
from attention_nb.self_attention import SelfAttention, scaled_dot_product_attention
from attention_nb.softmax import softmax
from attention_nb.tools.testing import assert_close
from attention_nb.translation import head_weights
from browser import DOCS, go_to
from bs4 import BeautifulSoup, SoupStrainer, Tag
from conftest import NOTEBOOKS, ROOT, by_day, fail_if
from playwright.sync_api import Locator, Page, expect
from tools.training.sums import new_model

sys.path.insert(0, str(ROOT / "website"))
from charts import tables

EXACT = dict(atol=6e-5, rtol=0)  # numbers are stored with four decimals


class Figure(NamedTuple):
    """Where a figure is, and its controls in their order: the role and name of each,
    and how many positions it has.
    """

    page: str
    id: str
    controls: dict[tuple[str, str], int]


FIGURES = {
    "temperature": Figure("02_softmax.html", "fig-entropy-show", {("slider", "temperature"): 13}),
    "dim": Figure("02_softmax.html", "fig-dim-see-show", {("radio", "softmax"): 2}),
    "steps": Figure(
        "03_self_attention.html",
        "fig-explore-show",
        {("radio", "sentence"): 2, ("slider", "query"): 6},
    ),
    "mask": Figure("04_masks.html", "fig-empty-show", {("radio", "mask"): 4}),
    "head": Figure("05_multi_head_attention.html", "fig-heads-four-show", {("radio", "head"): 4}),
}
each_figure = pytest.mark.parametrize("name", FIGURES)


@cache
def figures(page: str) -> BeautifulSoup:
    "The figures of a built page."
    return BeautifulSoup(
        (DOCS / page).read_text(encoding="utf-8"), "html.parser", parse_only=SoupStrainer("figure")
    )


def element(name: str) -> Tag:
    "The figure on the built page."
    return figures(FIGURES[name].page).find("figure", id=FIGURES[name].id)


def records(data: dict) -> list[dict]:
    "The records of a set, as Vega reads them: of most there are lines with commas."
    if isinstance(data["values"], list):
        return data["values"]
    return [
        {
            field: json.loads(value) if field in data["format"]["parse"] else value
            for field, value in row.items()
        }
        for row in csv.DictReader(StringIO(data["values"]))
    ]


@cache
def sets(name: str) -> dict[str, list[dict]]:
    "The data in the figure on the built page."
    return {
        data["name"]: records(data)
        for data in json.loads(element(name).script.string)["data"]
        if "values" in data
    }


def column(records: list[dict], field: str, *shape: int) -> torch.Tensor:
    "A field of all records, as a tensor of that shape."
    return torch.tensor([record[field] for record in records], dtype=torch.float64).reshape(shape)


def notes(name: str) -> list[list[str]]:
    "The lines of words of each state."
    return [note["text"].split("\n") for note in sets(name)["notes"]]


def numbers(lines: list[str]) -> list[float]:
    "The numbers in some lines of words, those of names such as `head 0` left out."
    return [
        float(number)
        for number in re.findall(r"(?<![\w.])-?\d+(?:\.\d+)?", "\n".join(lines).replace("−", "-"))
    ]


# ---- What they hold ----


def test_data_of_temperature():
    words, x = journey()
    row, data = x[1] @ x.T, sets("temperature")
    at = column(data["curve"], "temperature", 13, 1)
    weights = torch.softmax(row.double() / at, -1)
    entropy = -torch.xlogy(weights, weights).sum(-1)
    assert [w["key"] for w in data["weights"]] == 13 * words and [
        s["key"] for s in data["scores"]
    ] == words
    assert [w["temperature"] for w in data["weights"]] == at.repeat_interleave(6).tolist()
    assert (at.diff(dim=0) > 0).all()
    assert_close(column(data["scores"], "score", 6), row.double(), **EXACT)
    assert_close(column(data["weights"], "weight", 13, 6), weights, **EXACT)
    assert_close(column(data["curve"], "entropy", 13), entropy, **EXACT)
    for lines, T, h in zip(
        notes("temperature"), at.flatten().tolist(), entropy.tolist(), strict=True
    ):
        assert lines == [f"T = {T:g}", f"entropy {h:.2f} nats, of at most ln 6 = {math.log(6):.2f}"]


def test_data_of_dim():
    torch.manual_seed(123)
    y, data = torch.rand(6, 3), sets("dim")
    e = (y @ y.T).exp().double()
    for name, weights in {
        "dim=-1": e / e.sum(1, keepdim=True),
        "dim=0": e / e.sum(0, keepdim=True),
    }.items():
        cells, rows, columns = (
            [r for r in data[kind] if r["softmax"] == name]
            for kind in ("cells", "row_sums", "column_sums")
        )
        assert [(c["query"], c["key"]) for c in cells] == [
            (f"row {i}", f"col {j}") for i, j in product(range(6), repeat=2)
        ]
        assert_close(column(cells, "value", 6, 6), weights, atol=6e-4, rtol=0)
        for sums, dim, label in ((rows, 1, "query"), (columns, 0, "key")):
            assert_close(column(sums, "value", 6), weights.sum(dim), atol=6e-4, rtol=0)
            assert [s[label][-1] for s in sums] == list("012345")
            assert [s["text"] for s in sums] == [
                f"{s:.2f}" + " ✓" * (abs(s - 1) < 1e-3) for s in weights.sum(dim).tolist()
            ]
    assert notes("dim") == [["dim=-1", "every row sums to 1"], ["dim=0", "every column sums to 1"]]


def banks() -> dict[str, tuple[list[str], torch.Tensor]]:
    "The two sentences of chapter 3, in the small world."
    texts, table = (
        ("she put cash in the bank", "her boat crossed to our banks"),
        small_world().table,
    )
    return {
        text: (text.split(), torch.stack([table[word] for word in text.split()])) for text in texts
    }


def test_data_of_steps():
    sentences, data, (_, W_q, W_k, W_v) = banks(), sets("steps"), small_world()
    parts = [f"w·v{i}" for i in "₀₁"]
    assert [(n["sentence"], n["at"]) for n in data["notes"]] == list(product(sentences, range(6)))
    for sentence, (words, x) in sentences.items():
        q, k, v = x @ W_q, x @ W_k, x @ W_v
        context, weights = naive_attention(q, k, v, scale=2**-0.5)
        steps, sums, said = (
            [r for r in data[kind] if r["sentence"] == sentence]
            for kind in ("steps", "sums", "notes")
        )
        assert [(s["at"], s["query"], s["key_at"], s["key"]) for s in steps] == [
            (i, words[i], j, words[j]) for i, j in product(range(6), repeat=2)
        ]
        assert_close(column(steps, "score", 6, 6), (q @ k.T).double(), **EXACT)
        assert_close(column(steps, "÷ √d_k", 6, 6), (q @ k.T).double() / 2**0.5, **EXACT)
        assert_close(column(steps, "weight", 6, 6), weights.double(), **EXACT)
        for c, part in enumerate(parts):
            assert_close(column(steps, part, 6, 6), (weights * v[:, c]).double(), **EXACT)
            assert_close(column(sums, part, 6), context[:, c].double(), **EXACT)
        assert [(s["query"], s["weight"]) for s in sums] == [(word, 1) for word in words]
        for i, note in enumerate(said):
            # of about equal ones, the first
            j = int((weights[i] > weights[i].max() - 5e-4).nonzero()[0])
            first, best, last = note["text"].split("\n")
            assert first == f"query “{words[i]}”" and best.startswith(
                f"best key “{words[j]}”: score "
            )
            assert_close(
                torch.tensor(numbers([best, last])),
                torch.tensor([q[i] @ k[j], q[i] @ k[j] / 2**0.5, weights[i, j], *context[i]]),
                atol=6e-3,
                rtol=0,
            )


def test_data_of_mask():
    data, vocab = sets("mask"), Vocab("Life is short eat dessert first".split(), specials=["<pad>"])
    torch.manual_seed(0)
    embedding, layer = nn.Embedding(len(vocab), 7), SelfAttention(d_in=7, d_k=5, d_v=3)
    x = embedding(vocab.encode(["<pad>", "<pad>", "eat", "dessert", "first"])).detach()
    scores = (layer.q_proj(x) @ layer.k_proj(x).T / 5**0.5).detach().double()
    real = torch.arange(5) > 1
    allowed = {
        "none": real | True,
        "causal": torch.ones(5, 5).bool().tril(),
        "padding": real,
        "both": causal_mask(5) & real,
    }
    labels = ["pad 1", "pad 2", "eat", "dessert", "first"]
    for (name, mask), said in zip(allowed.items(), notes("mask"), strict=True):
        mask = mask.expand(5, 5)
        cells, sums = ([r for r in data[kind] if r["mask"] == name] for kind in ("cells", "sums"))
        e = scores.exp() * mask
        weights = e / e.sum(-1, keepdim=True).clamp(min=1e-9)
        assert [(c["query"], c["key"]) for c in cells] == list(product(labels, repeat=2))
        assert [c["allowed"] for c in cells] == mask.flatten().tolist()
        assert_close(column(cells, "score", 5, 5), scores, atol=6e-4, rtol=0)
        assert_close(column(cells, "weight", 5, 5), weights, atol=6e-4, rtol=0)
        full = mask.any(-1).tolist()
        assert [(s["query"], s["text"]) for s in sums] == [
            (q, "1.00 ✓" if any_ else "0.00") for q, any_ in zip(labels, full)
        ]
        assert said == [
            name,
            f"{mask.sum()} of 25 query–key pairs allowed",
            f"fully masked rows: {full.count(False)}",
        ]
    assert full == [False, False, True, True, True]


def test_data_of_head():
    "Trained again, by the chapter's own cells; what heads look at is worked out here."
    cells = {
        c["id"]: "".join(c["source"])
        for c in json.loads((ROOT / "nbs/05_multi_head_attention.ipynb").read_text())["cells"]
    }
    book = dict(
        torch=torch,
        nn=nn,
        F=torch.nn.functional,
        split_heads=split_heads,
        merge_heads=merge_heads,
        scaled_dot_product_attention=scaled_dot_product_attention,
    )
    for name in ("layer-plain", "heads-task", "heads-train-fn"):
        exec(cells[name], book)
    torch.set_num_threads(1)  # more are slower for so small a layer
    layer, _ = book["train"](4)
    x, _ = book["task"](64)
    q, k = (proj(x).unflatten(-1, (4, 4)).transpose(1, 2) for proj in (layer.q_proj, layer.k_proj))
    looks = softmax(q @ k.mT / 4**0.5).mean(0).detach()
    data = sets("head")
    labels = [f"token {i}" for i in range(6)]
    assert [(c["head"], c["query"], c["key"]) for c in data["cells"]] == list(
        product((f"head {h}" for h in range(4)), labels, labels)
    )
    assert_close(column(data["cells"], "value", 4, 6, 6), looks, atol=2e-3, rtol=0)
    for h, said in enumerate(notes("head")):
        start, before = (
            looks[h, range(2, 6), 0].mean().item(),
            looks[h, range(2, 6), range(1, 5)].mean().item(),
        )
        assert said[0] == f"head {h}" and numbers(said[1:]) == pytest.approx(
            [start, before], abs=0.011
        )


def test_heads_of_the_trained_model_are_those_of_the_saved_one():
    """The chapter works the weights out by hand; the classes of later chapters, with the saved
    parameters, give the same: in block 1 and in no other.
    """
    cells = {
        c["id"]: c
        for c in json.loads((ROOT / "nbs/05_multi_head_attention.ipynb").read_text())["cells"]
    }
    saved = machine.small_model()
    model = new_model(**saved.about["config"])
    model.load_state_dict(saved.state(saved.steps[-1]))
    first, second = head_weights(model.eval(), torch.tensor([[8, 10, 9, 11]]))
    spec = cells["trained-show"]["outputs"][0]["data"]["application/vnd.vegalite.v5+json"]
    shown = [cell["value"] or 0 for cell in spec["data"]["values"]]  # None where it is masked
    drawn = torch.tensor(shown).view(2, 4, 4)
    assert_close(drawn, first[0], atol=6e-4, rtol=0)
    assert not torch.allclose(drawn, second[0], atol=0.1)


@each_figure
def test_tables_hold_the_numbers(name):
    """For those who do not see the picture: a table for each state,
    and in it the numbers of that state.
    """
    tables = {
        table.caption.text if table.caption else "": table
        for table in element(name).find_all("table")
    }
    cells = lambda table: [cell.text for cell in table.tbody.find_all("td")]
    data, short = (
        sets(name),
        lambda x: "" if x is None else f"{x:.4g}" if isinstance(x, float) else str(x),
    )
    if name == "temperature":
        shown = [cells(table) for table in element(name).find_all("table")][-1]
        assert shown == [short(w["weight"]) for w in data["weights"]]
    elif name == "steps":
        for note in data["notes"]:
            same = lambda r: (r["sentence"], r["at"]) == (note["sentence"], note["at"])
            columns = ["key", "score", "÷ √d_k", "weight", *(f"w·v{i}" for i in "₀₁")]
            lines = [*filter(same, data["steps"]), *filter(same, data["sums"])]
            assert cells(tables[f"{note['sentence']}, {note['query']}"]) == [
                short(line.get(column)) for line in lines for column in columns
            ]
    else:
        kind, value = {
            "dim": ("softmax", "value"),
            "mask": ("mask", "weight"),
            "head": ("head", "value"),
        }[name]
        for note in data["notes"]:
            lines = [
                c
                for part in ("cells", "sums", "row_sums", "column_sums")
                for c in data.get(part, [])
                if c[kind] == note[kind]
            ]
            shown = [
                short(line[value]) if line.get("allowed", True) else "forbidden" for line in lines
            ]
            assert sorted(filter(None, cells(tables[note[kind]]))) == sorted(shown)


NOTICED = [
    path
    for path in NOTEBOOKS
    if path.name[0].isdigit() or path.stem in ("index", "gallery", "speed", "third_party")
]


def test_every_chart_says_what_to_notice():
    "In a sentence, or a few: below its title on the page, and in JupyterLab as its subtitle."
    found, n = [], 0
    for path in NOTICED:
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
            for spec in [
                o["data"][k]
                for o in cell.get("outputs", [])
                for k in o.get("data", {})
                if "vegalite" in k
            ]:
                title = spec["title"] if isinstance(spec["title"], dict) else {}
                said, n = " ".join(title.get("subtitle", [])), n + 1
                if not (
                    25 <= len(said) <= 130
                    and said.endswith(".")
                    and spec["description"].endswith(said)
                ):
                    found.append(f"{path.name}: {cell.id}: {said or 'nothing'}")
    assert n > 70
    fail_if(found, "Charts that do not say what to notice in 25 to 130 characters (`notice=`):")


def asks(caption: Tag) -> str:
    "What a figure asks of its reader: the caption behind the title, in one line."
    return " ".join(" ".join(part.get_text() for part in caption.b.next_siblings).split())


def asked_at_length(soups: dict[str, BeautifulSoup], figures: str) -> list[str]:
    "What above a figure is too short, too long, or more than an imperative and a question."
    found = {(path, asks(one)) for path, soup in soups.items() for one in soup.select(figures)}
    return [
        f"{path}: {text}"
        for path, text in sorted(found)
        if not 25 <= len(text) <= 70 or len(re.findall("[.:?]", text)) > 2 or "?" in text[:-1]
    ]


def test_a_figure_asks_in_one_line(soups):
    "Of its reader one act and one answer: more is read by nobody, and takes the picture's room."
    figures = "figure.drawing > figcaption"
    assert sum(len(soup.select(figures)) for soup in soups.values()) > 70
    fail_if(asked_at_length(soups, figures), "Longer than one act and one question, in 70 letters:")
    long = "Press Play: what is first? What comes then? And what is last?"
    planted = BeautifulSoup(
        f"<figure class='drawing'><figcaption><b>Title</b> {long}</figcaption></figure>",
        "html.parser",
    )
    assert asked_at_length({"page": planted}, figures) == [f"page: {long}"]


def test_what_is_forbidden_is_crossed():
    "The numbers of a mask are ones and crosses; in the table stands a word."
    page = figures("04_masks.html").find("figure", id="fig-padding-show")
    cells = [cell.text for cell in page.table.tbody.find_all("td")]
    assert cells == [["forbidden", "1"][k < n] for n, k in product((3, 3, 1, 6), range(6))]
    assert (
        page.figcaption.b.text == "Which keys are real tokens?"
        and "crossed" in page.figcaption.text
    )


# ---- What they show ----


def minus(x: float) -> str:
    "A number as Vega prints it: halves are rounded up, and zero has no sign."
    rounded = Decimal(x).quantize(Decimal("0.01"), ROUND_HALF_UP)
    return f"{rounded or abs(rounded)}".replace("-", "−")


def expected(name: str, at: tuple[int, ...]) -> list[str]:
    "The numbers that a figure must show in a state, one position for each control."
    data = sets(name)
    if name == "temperature":
        weights = [w for w in data["weights"] if w["step"] == at[0]]
        return [minus(s["score"]) for s in data["scores"]] + [minus(w["weight"]) for w in weights]
    if name == "steps":
        sentence = list(dict.fromkeys(n["sentence"] for n in data["notes"]))[at[0]]
        mine = [s for s in data["steps"] if s["sentence"] == sentence]
        lines = [s for s in mine if s["at"] == at[1]]
        total = next(s for s in data["sums"] if (s["sentence"], s["at"]) == (sentence, at[1]))
        groups = [["score", "÷ √d_k"], ["weight"], parts := [f"w·v{i}" for i in "₀₁"]]
        return (
            [minus(s["weight"]) for s in mine]
            + [minus(line[f]) for fields in groups for line in lines for f in fields]
            + [minus(total[f]) for f in ("weight", *parts)]
        )
    kind = {"dim": "softmax", "mask": "mask", "head": "head"}[name]
    state = list(dict.fromkeys(n[kind] for n in data["notes"]))[at[0]]
    part = lambda name: [r for r in data[name] if r[kind] == state]
    if name == "mask":
        panel = lambda field: 25 * ["×"] + [minus(c[field]) for c in part("cells") if c["allowed"]]
        return panel("score") + panel("weight") + [s["text"] for s in part("sums")]
    sums = [
        s["text"] for which in ("row_sums", "column_sums") if which in data for s in part(which)
    ]
    return [minus(c["value"]) for c in part("cells")] + sums


SHOWN = ".mark-text.role-mark:not(.readout_marks) text"


def assert_shows(figure: Locator, name: str, at: tuple[int, ...]) -> None:
    "The words, the numbers, the tables' twin for ears: all of the state that was chosen."
    positions = list(product(*map(range, FIGURES[name].controls.values())))
    lines = notes(name)[positions.index(at)]
    expect(figure.locator(".readout_marks tspan")).to_have_text(lines)
    expect(figure.locator("output")).to_have_text(", ".join(lines[1:]))
    assert figure.locator("output:visible").count()  # beside the controls, and not in the picture
    assert figure.locator(".readout_marks").bounding_box()["height"] < 1
    for slider in figure.get_by_role("slider").all():
        expect(slider).to_have_attribute("aria-valuetext", lines[0])
        written = figure.locator(".vega-bind:has([type=range]) > span").inner_text()
        assert lines[0].endswith(written) and written
    expect(figure.locator(SHOWN)).to_have_text(expected(name, at))
    if name == "steps":
        corner = lambda rect: rect.get_attribute("d").split("h")[0]
        frames = figure.locator(".mark-rect.role-mark path[stroke-width='2.5']").all()
        cells = figure.locator("svg .mark-rect.role-mark").first.locator("path")
        assert sorted(map(corner, frames)) == sorted(
            corner(cells.nth(i)) for i in (6 * at[1], at[1])
        )


@pytest.fixture
def drawn(visit):
    "Opens the page of a figure and waits until it is drawn."

    def drawn(name: str, width: int) -> tuple[Page, Locator]:
        page = visit(FIGURES[name].page, width).page
        return page, go_to(page.locator(f"#{FIGURES[name].id}"))

    return drawn


def first_state(figure: Locator, name: str) -> tuple[int, ...]:
    "Where the controls stand now."
    at = []
    for role, label in FIGURES[name].controls:
        if role == "radio":
            at.append(
                figure.get_by_role("radio").evaluate_all("all => all.findIndex(one => one.checked)")
            )
        else:
            at.append(int(figure.get_by_role(role, name=label, exact=True).input_value()))
    return tuple(at)


FITS = (
    "figure => { const box = figure.querySelector('.chart-view'); "
    "return box.scrollWidth <= box.clientWidth }"
)
FOCUS_BEFORE = "caption => { caption.tabIndex = -1; caption.focus(); }"


@each_figure
def test_keyboard(drawn, name):
    """With Tab to each control, in order;
    there through every position with the arrow keys, on a phone's width.
    """
    page, figure = drawn(name, 390)
    assert figure.evaluate(FITS) and len(figure.get_by_role("img").get_attribute("aria-label")) > 40
    assert (
        min(control.bounding_box()["height"] for control in figure.locator(".vega-bind").all())
        >= 24
    )
    at = list(first_state(figure, name))
    assert_shows(figure, name, tuple(at))
    figure.locator("figcaption").evaluate(FOCUS_BEFORE)
    for i, ((role, label), n) in enumerate(FIGURES[name].controls.items()):
        page.keyboard.press("Tab")
        if role == "radio":
            expect(
                figure.get_by_role("radiogroup", name=label).get_by_role("radio").nth(at[i])
            ).to_be_focused()
        else:
            expect(figure.get_by_role(role, name=label, exact=True)).to_be_focused()
        while at[i] < n - 1:
            page.keyboard.press("ArrowRight")
            at[i] += 1
            assert_shows(figure, name, tuple(at))
        for _ in range(n - 1):
            page.keyboard.press("ArrowLeft")
            at[i] -= 1
        assert_shows(figure, name, tuple(at))


@each_figure
def test_mouse(drawn, name):
    "By pressing, dragging and choosing; and in the picture itself, where it says so."
    page, figure = drawn(name, 1280)
    at = list(first_state(figure, name))
    for i, ((role, label), n) in enumerate(FIGURES[name].controls.items()):
        for position in (n - 1, 0, n // 2):
            at[i] = position
            if role == "radio":
                figure.get_by_role("radio").nth(position).click()
            else:
                slider = figure.get_by_role("slider", name=label, exact=True)
                box = slider.bounding_box()
                slider.click(
                    position=dict(
                        x=8 + (box["width"] - 16) * position / (n - 1), y=box["height"] / 2
                    )
                )
            assert_shows(figure, name, tuple(at))
    if name == "steps":  # point at a row of the matrix
        for query, key in ((0, 3), (5, 1)):
            figure.locator("svg .mark-rect.role-mark").first.locator("path").nth(
                6 * query + key
            ).hover()
            assert_shows(figure, name, (at[0], query))
            assert figure.get_by_role("slider").input_value() == str(query)
    if name == "head":  # click on one of the small ones
        for head in (3, 1):
            figure.locator("svg path[d$='h18v18h-18Z']").nth(36 * head + 7).click()
            assert_shows(figure, name, (head,))
            expect(figure.get_by_role("radio").nth(head)).to_be_checked()


DRAWN = """async (vega_spec) => {
  window.view = new vega.View(vega.parse(vega_spec), { renderer: 'svg' }).initialize('#chart');
  await view.runAsync();
}"""
CHOOSE = "async (sentence) => { await view.signal('sentence', sentence).runAsync(); }"
AXES = """() => [...document.querySelectorAll(".role-axis-label")].map((axis) =>
  [...axis.querySelectorAll("text")]
  .map((text) => [text.getBoundingClientRect(), text.textContent])
  .sort(([a], [b]) => a.y - b.y || a.x - b.x).map(([, text]) => text))"""


def test_tokens_stand_in_their_order_when_sequences_share_some(chromium):
    """Of a token that both have, Vega remembers where the first one had it;
    the axes are sorted by position.
    """

    def steps(sentence: str) -> tuple:
        words = sentence.split()
        equal, v = torch.full((len(words),) * 2, 1 / len(words)), torch.ones(len(words), 2)
        return words, equal, equal, equal, v, equal @ v

    sentences = ["the bank lends money", "cash in the bank", "a bank a day"]
    chart = attention_explorer({sentence: steps(sentence) for sentence in sentences}).to_dict()
    page = chromium.new_page()
    page.set_content('<div id="chart"></div>')
    page.add_script_tag(path=DOCS / "_static/vega/vega.min.js")
    page.evaluate(DRAWN, vl_convert.vegalite_to_vega(chart))
    for sentence in [*sentences, *sentences]:
        page.evaluate(CHOOSE, sentence)
        tokens = (
            sentence.split() if sentence != "a bank a day" else ["a (0)", "bank", "a (2)", "day"]
        )
        assert [axis for axis in page.evaluate(AXES) if axis[0] != "score"] == [
            tokens,
            tokens,
            [*tokens, "sum"],
        ]
    page.close()


def test_a_table_says_what_its_bars_stand_for():
    "Keys only where they are weights."
    for given, names in (
        ({}, ["key", "weight"]),
        (dict(legend="tiles"), ["name", "tiles"]),
        (dict(legend="tiles", row_title="program"), ["program", "tiles"]),
    ):
        made = BeautifulSoup(
            "".join(tables(bars(torch.ones(2), ["a", "b"], **given).to_dict())), "html.parser"
        )
        assert [cell.text for cell in made.find_all("th", scope="col")] == names


def test_a_cell_of_weights_lights_up_the_word(drawn):
    "Pointed at, it is a weight, and so is the word in the prose; a score is none."
    page, figure = drawn("steps", 1280)
    for hue, lit in (("#8e5bd0", "w"), ("#5f7890", None)):
        box = figure.locator(f"svg .mark-rect.role-mark path[fill='{hue}']").first.bounding_box()
        # where its number stands
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        page.wait_for_function(
            "lit => (document.documentElement.dataset.lit ?? null) === lit", arg=lit
        )


SIZES = """() => [...document.querySelectorAll("figure.chart")].map((figure) => {
  const view = figure.querySelector(".chart-view"), svg = view.querySelector("svg");
  const texts = [...svg.querySelectorAll("text")].filter((text) => text.textContent);
  const sizes = texts.map((text) => parseFloat(getComputedStyle(text).fontSize));
  const print = Math.min(...sizes.filter((size) => size));  // 0: there is no room for digits
  const line = Boolean(svg.querySelector(".mark-line"));
  return { line, svg: svg.clientWidth, place: view.clientWidth, print };
})"""


@pytest.mark.parametrize("width", by_day([390, 1280]))
@pytest.mark.parametrize(
    "page, n_lines",
    [
        ("06_positions", 1),
        ("03_self_attention", 0),
        ("14_local_attention", 1),
        ("15_linear_attention", 3),
    ],
)
def test_charts_fill_their_place(visit, page, n_lines, width):
    """A chart of lines is as wide as the column, and on a phone no wider; its print can be read.

    Cells grow with their place.
    """
    sizes = visit(f"{page}.html", width=width).see_all().page.evaluate(SIZES)
    assert sum(size["line"] for size in sizes) >= n_lines
    for size in sizes:
        assert size["print"] >= 13 and (size["svg"] == size["place"] or not size["line"]), size
        assert size["svg"] >= min(size["place"], 640) / 2, size


# In JupyterLab ------------------------------------------------------------------------------------


def marks(group: dict) -> list[dict]:
    "All marks of a chart in Vega, however deep."
    return [inner for mark in group.get("marks", []) for inner in (mark, *marks(mark))]


def test_print_is_readable_in_a_dark_theme():
    """JupyterLab draws with its theme and then changes it: so it may decide nothing,
    and one constant black would be lost.
    """
    found, kinds, theme = [], set(), vl_convert.get_themes()["dark"]
    for path in NOTEBOOKS:
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
            for spec in [
                o["data"][k]
                for o in cell.get("outputs", [])
                for k in o.get("data", {})
                if "vegalite" in k
            ]:
                light, dark = (
                    vl_convert.vegalite_to_vega(spec, vl_version="5.20", config=c)
                    for c in ({}, theme)
                )
                if light != dark:
                    found.append(f"{path.name}: {cell['id']}: the theme decides")
                for mark in marks(dark):
                    update = mark.get("encode", {}).get("update", {})
                    colours = [update.get(channel) for channel in ("fill", "stroke")]
                    kinds.add(mark["type"])
                    if {"value": "black"} in colours:
                        found.append(f"{path.name}: {cell['id']}: {mark['type']}")
    assert {"text", "rule", "rect"} <= kinds
    fail_if(sorted(set(found)), "Lost in a dark theme:")
