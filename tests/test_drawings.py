"""The figures that compute in the page: what their scripts work out is what the package gives,
whatever a reader does.

If it fails: Look at attention_nb/figures/NAME.js, and at drawing.js and drawing.css there.
A drawing that is higher than the space reserved for it needs another `height` in its notebook.
"""

import math
import random
import re
from base64 import b64decode
from functools import partial
from itertools import product

import pytest
import torch
from attention_nb.cost import attention_cost, least_seconds, projection_cost
from attention_nb.embeddings import Vocab, one_hot
from attention_nb.figures.adder import follow_last, small_adder
from attention_nb.figures.attend import small_world
from attention_nb.figures.latent import latent_work
from attention_nb.figures.machine import parts_of, small_model
from attention_nb.figures.translator import generate_tokens
from attention_nb.flash_attention import online_softmax
from attention_nb.gpu_kernels import program_tiles
from attention_nb.grouped_heads import sink_softmax
from attention_nb.hybrid_models import PATTERNS, draw_pairs, load_recall, numbers_said
from attention_nb.many_machines import count_work, split_sequence
from attention_nb.images import cover_patches, load_small_vit
from attention_nb.induction import load_induction
from attention_nb.kv_cache import KVCache, PagedCache
from attention_nb.linear_attention import delta_rule
from attention_nb.local_attention import block_mask, document_mask, sink_mask, window_mask
from attention_nb.masks import causal_mask, padding_mask
from attention_nb.multi_head_attention import MultiHeadAttention, share_heads, split_heads
from attention_nb.naive_attention import naive_attention
from attention_nb.positions import RotaryEmbedding
from attention_nb.self_attention import attention_scores, scaled_dot_product_attention
from attention_nb.softmax import masked_softmax, softmax
from attention_nb.serving import Request, latency, serve
from attention_nb.sparse_attention import select_blocks, top_keys
from attention_nb.tools.testing import assert_close
from attention_nb.transformer import (
    FeedForward,
    LanguageModel,
    TokenEmbedding,
    TransformerBlock,
    TransformerStack,
    _most_probable,
)
from attention_nb.translation import (
    END,
    START,
    TARGET,
    beam_search,
    head_weights,
    load_translator,
    read_text,
)
from browser import DOCS, WIDE, come_near, go_to, out_of_room, unveil
from conftest import ROOT, by_day, fail_if
from playwright.sync_api import Locator, Page, expect
from tools.training.sums import new_model

EXACT = dict(atol=1e-5, rtol=0)


def state(figure: Locator) -> dict:
    "What the figure has computed, as it stands."
    return figure.evaluate("figure => figure.state()")


def numbers(found: list) -> torch.Tensor:
    "What a script holds, as a tensor."
    return torch.tensor(found, dtype=torch.float32)


def drawing(visit, page: str, script: str, **kwargs) -> Locator:
    "The figure of a page that a script draws; a test ends by looking at `visit.said`."
    opened = visit(page, **kwargs).page
    come_near(opened)
    return unveil(opened.locator(f"figure[data-drawing={script}]").first)


def test_arrows_give_their_dot_product(visit):
    "By keys and by the mouse."
    figure = drawing(visit, "01_naive_attention.html", "arrows")
    knob = figure.get_by_role("slider", name="arrow a")
    knob.focus()
    for key in ["ArrowLeft"] * 3 + ["Shift+ArrowDown"] * 2:
        knob.press(key)
    now = state(figure)
    assert_close(numbers(now["arrows"][0]), torch.tensor([0.7, 1.0]), **EXACT)
    knob.hover()
    figure.page.mouse.down()
    box = figure.locator("svg").first.bounding_box()  # now: what is drawn above may have moved it
    figure.page.mouse.move(box["x"] + 290, box["y"] + 10)  # its shadow stays on the plane
    assert_close(numbers(state(figure)["arrows"][0]), torch.tensor([2.1, 2.1]), **EXACT)
    figure.page.mouse.move(box["x"] + 50, box["y"] + 200)
    figure.page.mouse.up()
    a, b = numbers(state(figure)["arrows"])
    assert_close(a, torch.tensor([-2.0, -1.0]), **EXACT)
    assert_close(numbers(state(figure)["product"]), a @ b, **EXACT)
    assert "negative" in figure.locator("output").inner_text()
    inside = """([a, b]) =>
      [...document.querySelectorAll("figure[data-drawing=arrows] svg svg path")].slice(0, 2)
      .map((half) => half.isPointInFill(new DOMPoint(150 + 50 * a, 150 - 50 * b)))"""
    for key in ["Shift+ArrowRight"] * 9:
        knob.press(key)
        now = state(figure)
        side = round(now["product"], 6)
        assert not side or figure.page.evaluate(inside, now["arrows"][0]) == [side > 0, side < 0]
        assert ("alike" if side > 0 else "opposed" if side else "right angle") in figure.locator(
            "output"
        ).inner_text()
    assert side > 0


INSIDE = """(figure) => {  // of the texts in the plane: which leave it, which pairs touch
  const boxes = [...figure.querySelectorAll(".view svg text.halo")].map((text) => text.getBBox());
  const out = boxes.filter(({ x, y, width, height }) =>
    x < 0 || y < 0 || x + width > 300 || y + height > 300);
  const touch = (a, b) => a.x < b.x + b.width && b.x < a.x + a.width
    && a.y + 3 < b.y + b.height && b.y + 3 < a.y + a.height;
  return [boxes.length, out.length, boxes.flatMap((a, i) =>
    boxes.slice(i + 1).filter((b) => touch(a, b))).length];
}"""


def shortened(arrow: tuple[float, float]) -> list[float]:
    "An arrow as the figure holds it: no longer than the plane reaches."
    over = max(1, math.hypot(*arrow) / 3)
    return [int(10 * x / over) / 10 for x in arrow]


@pytest.mark.nightly
def test_names_of_arrows_stay_in_the_plane(visit):
    "Wherever the arrows point: into a corner, along an axis, both one way."
    figure = drawing(visit, "01_naive_attention.html", "arrows")
    box = figure.locator(".view svg").first.bounding_box()
    ends = [(3, 3), (3, 2.8), (-3, 3), (0, -3), (3, 0), (-2.9, -3), (1, 0.5)]
    for a, b in [(a, b) for a in ends for b in ends]:
        for name, (x, y) in {"arrow a": a, "arrow b": b}.items():
            figure.get_by_role("slider", name=name).evaluate(
                """(knob, [x, y]) => {
                  knob.setPointerCapture = () => {};
                  knob.hasPointerCapture = () => true;
                  knob.dispatchEvent(new PointerEvent("pointermove", { clientX: x, clientY: y }));
                }""",
                [box["x"] + 150 + 50 * x, box["y"] + 150 - 50 * y],
            )
        held = numbers([shortened(a), shortened(b)])
        assert_close(numbers(state(figure)["arrows"]), held, atol=1e-3, rtol=0)
        assert figure.evaluate(INSIDE) == [4, 0, 0], (a, b)


def attended(words: list[str], chosen: int) -> dict:
    "What a word of the small world takes from the others, by the package."
    world = small_world()
    x = torch.stack([world.table.get(word, torch.zeros(3)) for word in words])
    q, k, v = x @ world.W_q, x @ world.W_k, x @ world.W_v
    context, weights = scaled_dot_product_attention(q, k, v)
    along = q[chosen] / q[chosen].norm().clamp(min=1e-9)
    return {
        "x": x,
        "q": q,
        "k": k,
        "v": v,
        "projections": (k @ along)[:, None] * along,
        "dots": (q @ k.mT)[chosen],
        "scores": attention_scores(q, k)[chosen],
        "weights": weights[chosen],
        "context": context[chosen],
    }


def test_a_sentence_attends_as_the_layer_does(visit):
    """Those to choose from and one that is typed, with words that are not in the table;
    each word, by mouse and by keys.
    """
    figure = drawing(visit, "index.html", "attend")
    assert state(figure)["step"] == 6  # nothing moves by itself here: the result is seen at once
    figure.get_by_text("Try yours").click()
    figure.get_by_role("radio", name="she put cash in the bank").check()
    assert (
        state(figure)["tokens"] == "she put cash in the bank".split()
        and state(figure)["chosen"] == 5
    )
    own = figure.get_by_role("textbox")
    own.fill("My BANK, a zebra & the lake")
    own.press("Enter")
    assert "Not in this small table: “zebra”." in figure.locator("output").inner_text()
    for i, word in enumerate("my bank a zebra the lake".split()):
        figure.get_by_role("button", name=word, exact=True).first.press("Space")
        now = state(figure)
        assert now["chosen"] == i
        for name, want in attended(now["tokens"], i).items():
            assert_close(numbers(now[name]), want, **EXACT)
    figure.get_by_role("button", name="bank", exact=True).hover()
    arcs, cells = (
        figure.locator("path[stroke-dasharray='1 1']"),
        figure.locator(".view tbody tr:visible").last.locator("td:visible"),
    )
    for step, (says, seen) in {
        "tokens": ("0.40 water and 0.40 money", 1),
        "query": ("0.40 · (2, 0) + 0.40 · (0, 2) + 1.00 · (2, 2) = (2.80, 2.80)", 1),
        "match": ("drops onto q", 2),
        "scale": ("√2 = 1.41", 2),
        "weights": ("goes to “lake”", 2),
        "sum": ("tip to tail", 2),
        "context": ("Now it is 0.7", 2),
    }.items():
        figure.get_by_role("button", name=re.compile(f"^{step}")).click()
        assert says in figure.locator("output").inner_text()
        assert figure.get_by_role("img").count() == 1
        assert cells.count() == seen, step
        assert arcs.count() == (6 if step in ("weights", "sum", "context") else 0), (
            "arcs stand for weights: none before they have been worked out"
        )
    own.fill("?!")
    own.press("Enter")
    assert (
        "Type a few words" in figure.locator("output").inner_text()
        and state(figure)["tokens"][1] == "bank"
    )
    own.fill("my old gnu stood on the muddy bank of the river with a xylophone")
    own.press("Enter")
    said = figure.locator("output").inner_text()
    assert (
        "The first 10 tokens are used." in said
        and "Not in this small table: “gnu” and “xylophone”." in said
    )
    now = state(figure)
    for name, want in attended(now["tokens"], now["chosen"]).items():
        assert_close(numbers(now[name]), want, **EXACT)


def test_the_same_words_give_one_context(visit):
    """Each token, in both sentences: the values that are added in another order on the way,
    and the place where they end.
    """
    figure = drawing(visit, "06_positions.html", "same_words", reduced_motion="reduce")
    table = {"dog": [1.0, 0, 0], "man": [0, 1.0, 0], "bites": [0, 0, 1.0]}
    W_q, W_k = torch.tensor([[2.0, 0], [0, 2], [2, 2]]), torch.tensor([[2.0, 0], [0, 2], [0, 0]])
    spot, ends = figure.locator("svg circle"), set()
    for word in ("dog", "man", "bites"):
        figure.get_by_role("button", name=word, exact=True).last.click()
        now = state(figure)
        assert now["token"] == word and now["step"] == 3
        for sentence, found in zip(("dog bites man", "man bites dog"), now["all"], strict=True):
            x = torch.stack([torch.tensor(table[one]) for one in sentence.split()])
            context, weights = scaled_dot_product_attention(x @ W_q, x @ W_k, x @ W_k / 2)
            at = sentence.split().index(word)
            assert_close(numbers(found["weights"]), weights[at], **EXACT)
            assert_close(numbers(found["context"]), context[at], **EXACT)
        written = f"({context[at, 0]:.2f}, {context[at, 1]:.2f})"
        assert figure.get_by_text(written, exact=True).count() == 2 and written in said(figure)
        ends.add((spot.get_attribute("cx"), spot.get_attribute("cy")))
    assert len(ends) == 3
    play, last = figure.get_by_role("button", name="Play"), figure.locator("b[data-sym=v]")
    play.click()
    assert "0 of 3 values" in said(figure)
    assert last.all_inner_texts() == ["(0.00, 0.00)"] * 2
    expect(figure.locator("output")).to_contain_text("1 of 3 values")
    assert last.all_inner_texts() == ["(0.49, 0.00)", "(0.00, 0.49)"]
    expect(play).to_be_visible()
    assert last.all_inner_texts() == ["(0.49, 0.49)"] * 2


LONG = [
    "fisherman borrowed waterfall deposit children harbour flowed robbed savings interest",
    "my old gnu stood on the muddy bank of the river with a xylophone",
]


@pytest.mark.parametrize("width", by_day([1280, 390]))
def test_a_long_sentence_moves_nothing_below(visit, width):
    "Its numbers scroll in the room that was kept, by keys too; the chosen word is seen."
    figure = drawing(visit, "index.html", "attend", width=width)
    below, numbers_of = figure.locator("> details"), figure.get_by_role("group", name="The numbers")
    figure.get_by_text("Try yours").click()
    at = "node => node.getBoundingClientRect().top + scrollY"
    top = below.evaluate(at)
    for sentence in LONG:
        figure.get_by_role("textbox").fill(sentence)
        figure.get_by_role("textbox").press("Enter")
        steps = figure.get_by_role("group", name="The steps").get_by_role("button").all()[1:]
        assert len(steps) == 7
        for step in steps:
            step.click()
            assert below.evaluate(at) == pytest.approx(top, abs=1), step.inner_text()
        if width == 390:
            assert numbers_of.get_attribute("tabindex") == "0"
            assert numbers_of.evaluate(
                """(list, i) => {
                  const top = list.querySelectorAll('tbody tr')[i].offsetTop;
                  return list.scrollTop <= top
                      && top + 20 <= list.scrollTop + list.clientHeight;
                }""",
                state(figure)["chosen"],
            )


@pytest.mark.parametrize("width, height", [(1280, 720), (390, 844)])
def test_the_first_figure_is_seen_whole(visit, width, height):
    """On the home page of a common screen with its result;
    on a phone, its steps beside the sentence and the picture.
    """
    figure = drawing(visit, "index.html", "attend", width=width, height=height)
    parts = [".rail", ".tokens", ".picture svg"] + [".numbers", "output"] * (width == 1280)
    if width == 390:
        figure.locator(".rail").evaluate(
            "rail => scrollTo(0, rail.getBoundingClientRect().top + scrollY - 64)"
        )
    boxes = [figure.locator(part).bounding_box() for part in parts]
    assert (
        min(box["y"] for box in boxes) >= 0
        and max(box["y"] + box["height"] for box in boxes) <= height
    )
    tall = figure.locator(".tokens button:visible").evaluate_all(
        "chips => chips.map((chip) => parseFloat(getComputedStyle(chip).fontSize))"
    )
    assert tall == [32 if width == 1280 else 20] * 5


@pytest.mark.parametrize(
    "page, script, pairs",
    [
        ("03_self_attention.html", "attend", [(".rail", ".picture svg"), (".tokens", "output")]),
        (
            "14_local_attention.html",
            "window_board",
            [
                ("label:has-text('Window')", "> svg"),
                ("label:has-text('Window')", "output"),
                ("details.more", "> svg"),
            ],
        ),
        ("17_cost.html", "roofline", [("label.row", "svg")]),
    ],
)
def test_on_a_phone_a_control_and_its_picture_are_together_on_the_screen(
    visit, page, script, pairs
):
    "Under the line of the page that stays in sight; with all switches of a board, too."
    figure = drawing(visit, page, script, width=390, height=844)
    for pair in pairs:
        if "details.more" in pair:
            figure.locator("details.more > summary").click()
        boxes = [figure.locator(f".view {part}").first.bounding_box() for part in pair]
        high = max(box["y"] + box["height"] for box in boxes) - min(box["y"] for box in boxes)
        assert high < 844 - 64, (pair, high)


def test_the_first_figure_plays_by_itself_until_it_is_touched(visit):
    """Only in sight; it is not read out meanwhile.

    A key ends it for good, and so does its own button.
    """
    figure = drawing(visit, "index.html", "attend", reduced_motion="no-preference")
    page, play, said_line = (
        figure.page,
        figure.locator(".rail button").first,
        figure.locator("output"),
    )
    expect(play).to_have_text("■ Stop")
    expect(said_line).to_have_attribute("aria-live", "off")
    page.wait_for_function("document.querySelector('figure.drawing').state().step > 0")
    page.evaluate("scrollTo({ top: document.body.scrollHeight, behavior: 'instant' })")
    expect(play).to_have_text("▶ Play")
    page.evaluate("scrollTo({ top: 0, behavior: 'instant' })")
    expect(play).to_have_text("■ Stop")
    play.click()
    expect(play).to_have_text("▶ Play")
    expect(said_line).to_have_attribute("aria-live", "polite")
    for top in ("document.body.scrollHeight", "0"):
        page.evaluate(f"scrollTo({{ top: {top}, behavior: 'instant' }})")
        page.evaluate(
            "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
        )
    expect(play).to_have_text("▶ Play")
    page.reload()
    expect(play).to_have_text("■ Stop")
    figure.get_by_role("button", name="bank").press("Shift")
    expect(play).to_have_text("▶ Play")


def test_every_word_of_the_small_world_has_room():
    "In the plane of queries and keys, which goes to 3.1; values are short, and have a nearer one."
    world = small_world()
    x = torch.stack(list(world.table.values()))
    assert len(world.table) > 200 and all(word.isalpha() and word.islower() for word in world.table)
    assert (
        (x @ world.W_q).max() <= 3.1
        and (x @ world.W_k).max() <= 3.1
        and (x @ world.W_v).max() <= 1
        and x.min() == 0
    )


def styles(nodes: Locator) -> list[str]:
    "The style attribute of each."
    return [one.get_attribute("style") for one in nodes.all()]


def test_senses_move_to_the_weighted_mean(visit):
    """The oracle's numbers for every neighbourhood that one chooses,
    at every step, and what is said of it.
    """
    figure = drawing(visit, "01_naive_attention.html", "senses")
    rows = dict(
        zip(
            "the muddy river bank lends money".split(),
            torch.tensor([[0.0, 0], [2, 0], [3, 0], [1, 1], [0, 2], [0, 3]]),
        )
    )
    assert state(figure)["here"] == ["river", "bank"]
    for chosen in ["money", "river", "the", "lends", "money", "lends", "muddy"]:
        figure.get_by_role("button", name=f"{chosen}, beside bank").press("Enter")
        now = state(figure)
        x = torch.stack([rows[word] for word in now["here"]])
        context, weights = naive_attention(rows["bank"][None], x, x)
        assert_close(
            numbers(now["scores"]), torch.stack(list(rows.values())) @ rows["bank"], **EXACT
        )
        assert_close(
            numbers([w for w, word in zip(now["weights"], rows) if word in now["here"]]),
            weights[0],
            **EXACT,
        )
        assert sum(w > 0 for w in now["weights"]) == len(now["here"])
        assert_close(numbers(now["mean"]), context[0], **EXACT)
        assert_close(numbers(now["tip"]), context[0], **EXACT)
        figure.locator("output", has_text=f"{context[0, 0]:.2f}, {context[0, 1]:.2f}").wait_for()
    steps = figure.get_by_role("radio")
    steps.nth(2).press("ArrowLeft")
    assert state(figure)["step"] == 1 and state(figure)["tip"] == [1, 1]
    assert "largest" in figure.locator("output").inner_text()
    bars = figure.locator(".view span.moves")
    shares = [float(one.split("width: ")[1].split("%")[0]) for one in styles(bars)]
    weights = [100 * w for w in state(figure)["weights"]]
    assert shares == pytest.approx(weights) and "--w" in styles(bars)[0]
    steps.nth(1).press("ArrowLeft")  # scores are as long as a part of the largest, in another hue
    shares = [float(one.split("width: ")[1].split("%")[0]) for one in styles(bars)]
    there = [s * (word in state(figure)["here"]) for s, word in zip(state(figure)["scores"], rows)]
    assert shares == pytest.approx([100 * s / max(3, *there) for s in there])
    assert not any("--w" in one for one in styles(bars))
    feet = figure.locator("svg circle[r='4'][visibility=visible]").evaluate_all(
        "all => all.map((one) => [+one.getAttribute('cx'), +one.getAttribute('cy')])"
    )  # on the line of the query: as far from zero as the score is large
    here, bank = state(figure)["here"], rows["bank"]
    others = torch.tensor([s for s, word in zip(there, rows) if word in here and word != "bank"])
    landed = numbers(feet) * torch.tensor([1, -1]) + torch.tensor([0, 300])
    assert_close(landed, 100 * others[:, None] * bank / bank.dot(bank), **EXACT)
    for _ in range(2):  # a neighbour that comes or goes shows where the word moves
        steps.nth(0).check()
        figure.get_by_role("button", name="muddy, beside bank").press("Enter")
        assert state(figure)["step"] == 2 and steps.nth(2).is_checked()
        assert not figure.locator("svg circle[r='4'][visibility=visible]").count()
    assert played(figure)["step"] == 2
    assert_close(numbers(state(figure)["tip"]), context[0], **EXACT)


CROWDED = """figure => {  // pairs of texts in the plane that touch, and those that leave it
  const texts = [...figure.querySelectorAll(".view svg text")]
    .filter((text) => text.textContent && getComputedStyle(text).visibility === "visible");
  const boxes = texts.map((text) => text.getBoundingClientRect());
  const edge = figure.querySelector(".view svg").getBoundingClientRect();
  const touch = (a, b) => a.left + 1 < b.right && b.left + 1 < a.right
    && a.top + 3 < b.bottom && b.top + 3 < a.bottom;
  const pairs = boxes.flatMap((a, i) => boxes.flatMap((b, j) =>
    (i < j && touch(a, b) ? [`${texts[i].textContent}, ${texts[j].textContent}`] : [])));
  const out = ({ left, right }) => left < edge.left - 1 || right > edge.right + 1;
  return [...pairs, ...texts.filter((_, i) => out(boxes[i])).map((text) => text.textContent)];
}"""


@pytest.mark.nightly
@pytest.mark.parametrize("width", [1280, 390])
def test_names_of_senses_touch_no_other(visit, width):
    "Wherever a dot is dragged: along an axis, below the arrow, up to another."
    figure = drawing(visit, PAGE_OF["senses"], "senses", width=width)
    ways = {"the": "→→→→→→→→→", "muddy": "→→→→→→", "river": "←↑←↑←↑←↑←←←←", "money": "→→→↓↓↓"}
    keys = {"→": "ArrowRight", "←": "ArrowLeft", "↑": "ArrowUp", "↓": "ArrowDown"}
    for word, way in ways.items():
        dot = figure.get_by_role("slider", name=f"vector of {word},")
        for key in way:
            dot.press(keys[key])
            assert figure.evaluate(CROWDED) == [], (word, state(figure)["x"])


def test_a_lookup_is_a_product(visit):
    "Each word's row, by its id and by its one-hot vector."
    figure = drawing(visit, "00_embeddings.html", "lookup")
    vocab_words, framed = (
        given(figure)["known"],
        "rects => rects.map((r) => getComputedStyle(r).visibility)",
    )
    for word in given(figure)["tokens"]:  # pointed at, it lights its row, and is not chosen
        figure.get_by_role("radiogroup", name="Word of the sentence").get_by_text(
            word, exact=True
        ).hover()
        lit = figure.locator("svg > g > rect").evaluate_all(framed)[: len(vocab_words)]
        assert (
            lit[vocab_words.index(word)] == "visible"
            and state(figure)["word"] == given(figure)["tokens"][0]
        )
    figure.locator("figcaption").hover()
    assert state(figure)["near"] == -1
    words = "Life is short eat dessert first".split()
    table = torch.tensor(
        [
            [0.2, 0.9, 0.3],
            [0.9, 0.3, 0.1],
            [0.8, 0.1, 0.9],
            [0.1, 0.7, 0.2],
            [0.1, 0.4, 0.5],
            [0.3, 0.8, 0.1],
        ]
    )
    vocab = Vocab(sorted(words))
    way = figure.get_by_role("radiogroup", name="How").get_by_role("radio")
    for number in range(2):  # look up, multiply
        way.nth(number).check()
        for word in words:
            figure.locator("label", has_text=word).click()
            now, ids = state(figure), vocab.encode([word])
            assert now["word"] == word
            hot = one_hot(ids, 6)
            assert_close(numbers(now["hot"]), hot[0], **EXACT)
            assert_close(numbers(now["products"]), hot.T * table, **EXACT)
            assert_close(numbers(now["row"]), (hot @ table)[0], **EXACT)
            assert_close(numbers(now["row"]), table[ids[0]], **EXACT)
            assert f"“{word}”" in figure.locator("output").inner_text()
            # below the table: the row, or the sum of all
            label = figure.locator("svg > text", has_text=re.compile("^sum$"))
            row = label.locator("xpath=preceding-sibling::*[1]")
            below = row.locator("text").all_text_contents()
            assert_close(numbers([float(x) for x in below]), table[ids[0]], **EXACT)
            digits = (
                figure.locator("svg > g", has_text="one-hot").locator("text").all_text_contents()
            )
            assert digits == [
                "one-hot × the table",
                *(t for x in now["hot"] for t in (str(int(x)), "×")),
            ]
    assert all(state(figure)["filled"])


@pytest.mark.nightly
def test_play_ends_with_the_product_row_by_row(visit):
    "Each row but that of the last word becomes zeros, and the sum of all is its row."
    figure = drawing(visit, "00_embeddings.html", "lookup", reduced_motion="no-preference")
    figure.evaluate("""figure => {
      window.seen = [];
      const cells = (row) => [...row.querySelectorAll("text")].map((cell) => cell.textContent);
      const rows = [...figure.querySelectorAll("svg > g.moves > g.moves > g")];
      const zeros = () => rows.filter((row) => cells(row).every((cell) => cell === "0")).length;
      const tell = () => window.seen.push(zeros());
      const parts = { subtree: true, childList: true };
      for (const row of rows) new MutationObserver(tell).observe(row, parts);
    }""")
    figure.locator(".view").evaluate(
        "view => view.scrollIntoView({ block: 'center', behavior: 'instant' })"
    )
    expect(figure.get_by_role("radio", name="multiply")).to_be_checked()
    expect(figure.locator("output")).to_contain_text("only the row of “first”")
    seen = figure.page.evaluate("seen")
    assert set(seen) == {*range(6)} and seen == sorted(seen)
    figure.page.wait_for_function(
        "document.querySelector('figure[data-drawing=lookup]').state().filled.every(Boolean)"
    )


def test_scores_give_the_weights_of_float32(visit):
    """As they are, ten higher, overflowing at a hundred, repaired;
    by keys, by the mouse, at any temperature.
    """
    figure = drawing(visit, "02_softmax.html", "scores")

    def check(repaired: bool = False) -> dict:
        now = state(figure)
        scores = torch.tensor(now["scores"], dtype=torch.float32) / now["temperature"]
        expected = softmax(scores) if repaired else scores.exp() / scores.exp().sum()
        assert_close(numbers([float(w) for w in now["weights"]]), expected, equal_nan=True, **EXACT)
        return now

    knob = figure.get_by_role("slider", name="score of cat")
    knob.focus()
    for key in ["ArrowLeft"] * 3 + ["Shift+ArrowDown", "PageUp"]:
        knob.press(key)
    assert_close(numbers(check()["scores"]), torch.tensor([2.7, 1.0, 2.0]), **EXACT)
    box = figure.locator("svg").bounding_box()
    figure.get_by_role("slider", name="score of sat").hover()
    figure.page.mouse.down()
    figure.page.mouse.move(box["x"] + 152 - 2 * 20, box["y"] + 80)
    figure.page.mouse.up()
    before = check()
    assert_close(numbers(before["scores"]), torch.tensor([2.7, -2.0, 2.0]), **EXACT)
    figure.get_by_text("+10 to all").click()
    assert_close(
        numbers([float(w) for w in check()["weights"]]),
        numbers([float(w) for w in before["weights"]]),
        **EXACT,
    )
    figure.get_by_text("+100 to all").click()
    assert check()["weights"] == ["NaN"] * 3
    assert "infinite" in figure.locator("output").inner_text()
    figure.get_by_role("button", name="subtract the maximum first").click()
    assert_close(
        numbers([float(w) for w in check(repaired=True)["weights"]]),
        numbers([float(w) for w in before["weights"]]),
        **EXACT,
    )
    given_to_cat = state(figure)["scores"][0]
    for key, end in (("End", 5), ("Home", -5)):
        knob.press(key)
        assert state(figure)["scores"][0] - given_to_cat == pytest.approx(end - 2.7)
    for key in ["PageUp"] * 7 + ["PageUp"] + ["ArrowLeft"] * 3:  # 2.7 again
        knob.press(key)
    # the bar of a score is as long as what the temperature leaves of it; its knob stays
    cat, bar, knob = 2.7 * 20, figure.locator("svg rect").first, knob.get_attribute("cx")
    for power, long in (("0", cat), ("0.3", cat / 2), ("-1", 5 * 20)):  # or to the edge
        figure.get_by_role("slider", name="temperature").fill(power)
        assert check(repaired=True)["temperature"] == pytest.approx(10 ** float(power))
        assert float(bar.get_attribute("width")) == pytest.approx(long, rel=0.01)
        assert figure.get_by_role("slider", name="score of cat").get_attribute("cx") == knob


def test_sums_divide_by_what_pytorch_divides_by(visit):
    "With each dimension, and without keepdim, for a symmetric matrix and for another."
    figure = drawing(visit, "02_softmax.html", "sums")
    sums = [lambda e: e.sum(1, keepdim=True), lambda e: e.sum(0, keepdim=True), lambda e: e.sum(1)]
    assert "Every row sums to 1: rows 1.00 and 1.00" in said(figure)
    for matrix in ("symmetric", "not symmetric"):
        figure.get_by_role("radio", name=matrix, exact=True).check()
        for i, way in enumerate(["along rows", "along columns", "no keepdim"]):
            figure.get_by_role("radio", name=way).check()
            now = state(figure)
            exps = numbers(now["exps"])
            assert now["way"] == i
            assert torch.equal(exps, exps.T) == (matrix == "symmetric")
            assert_close(numbers(now["weights"]), exps / sums[i](exps), **EXACT)
            told = said(figure)
            assert ("Every row" in told) == (i == 0) and ("Neither" in told) == (
                i == 2 and matrix == "not symmetric"
            )
            frames = figure.locator("svg[role=img] > rect[rx='7']").all()
            wide = [box["width"] > box["height"] for box in map(Locator.bounding_box, frames)]
            assert wide == [i != 1] * 2 + [i == 0] * 2, "what is summed, and what a sum divides"
            written = figure.locator("svg[role=img] > text[style*='600']").all_text_contents()
            signed = [f"{sign} {total:.0f}" for sign in "=÷" for total in now["sums"]]
            assert [text for text in written if text[0] in "=÷"] == signed


@pytest.mark.nightly
def test_a_verb_finds_its_subject(visit):
    "Each word, with the hand-made matrices, with the identity, and with one number changed."
    figure = drawing(visit, "03_self_attention.html", "subject")
    x = torch.tensor([[1.0, 0], [2, 0], [0, 2], [0, 1]])

    def check() -> dict:
        now = state(figure)
        q, k = x[now["chosen"]] @ numbers(now["W_q"]), x @ numbers(now["W_k"])
        context, weights = naive_attention(q[None], k, x)
        for name, value in {
            "q": q,
            "k": k,
            "weights": weights[0],
            "context": context[0],
            "scores": k @ q,
        }.items():
            assert_close(numbers(now[name]), value, **EXACT)
        return now

    assert check()["chosen"] == 2 and "finds “dogs”: 0.85" in figure.locator("output").inner_text()
    assert not figure.get_by_role("radio", name="identity").is_visible()
    figure.get_by_text("The eight numbers").click()
    figure.get_by_role("radio", name="identity").check()
    assert (
        check()["W_q"] == [[1, 0], [0, 1]]
        and "finds itself: 0.85" in figure.locator("output").inner_text()
    )
    figure.get_by_role("radio", name="hand-made").check()
    figure.get_by_role("radio", name="dogs").focus()
    figure.get_by_role("radio", name="dogs").press("Space")
    assert (
        check()["weights"] == [0.25] * 4
        and "looks for nothing" in figure.locator("output").inner_text()
    )
    arcs = figure.locator("svg[aria-hidden] text[data-sym=w]")
    assert [text for text in arcs.all_text_contents() if text] == ["0.25 each"]
    figure.get_by_role("radio", name="bark").check()
    tip = figure.get_by_role("slider", name="query, move it")  # at (2, 0)

    def turn_to(degrees: int) -> None:
        while state(figure)["turned"] != degrees:
            tip.press("ArrowLeft")

    for degrees, says in {
        45: "finds “dogs” and “bark”: 0.40 each",
        90: "finds itself: 0.85",
        180: "No key fits: “bark” and “loudly” get 0.46 each",
        0: "finds “dogs”: 0.85",
    }.items():
        turn_to(degrees)
        check()
        assert says in figure.locator("output").inner_text()
        assert figure.get_by_text(f"turned by {degrees}°").count() == bool(degrees)
    tip.press("ArrowLeft")
    assert check()["turned"] == 15
    box = figure.locator("svg[role=group]").first.bounding_box()
    tip.hover()
    figure.page.mouse.down()
    figure.page.mouse.move(box["x"] + box["width"] * 0.4, box["y"] + box["height"] * 0.1)
    figure.page.mouse.up()
    assert check()["turned"] == 90 and tip.get_attribute("aria-valuetext") == "turned by 90°"
    turn_to(195)
    cells = figure.locator("span[style*=inline-grid] > span").all_inner_texts()
    x0, x1, *W_q, q0, q1 = (float(cell.replace("−", "-")) for cell in cells)
    shown = [x0 * W_q[0] + x1 * W_q[2], x0 * W_q[1] + x1 * W_q[3]]
    assert [q0, q1] == pytest.approx(shown, abs=1e-9) and q0 == -1.94  # the factors that one reads
    figure.get_by_role("radio", name="identity").check()
    figure.get_by_role("radio", name="hand-made").check()
    assert check()["turned"] == 0
    assert check()["q"] == [2, 0] and "finds “dogs”: 0.85" in figure.locator("output").inner_text()
    figure.get_by_role("radio", name="dogs").check()
    number = figure.get_by_role("spinbutton", name="W_q, from thing to looks for action")
    number.fill("1.5")
    assert (
        check()["W_q"] == [[0, 1.5], [1, 0]]
        and "finds “bark”" in figure.locator("output").inner_text()
    )
    assert not figure.get_by_role("radiogroup", name="Matrices").locator(":checked").count()
    assert figure.get_by_text("1.5", exact=True).is_visible()  # in its cell of the product


def played(figure: Locator) -> dict:
    """What the figure holds when its button has played to the end; pressed meanwhile,
    it stops where it stands. No time is lost.
    """
    clock, play, stop = (
        figure.page.clock,
        figure.get_by_role("button", name="Play"),
        figure.get_by_role("button", name="Stop"),
    )
    clock.install(time=0)
    clock.pause_at(1000)
    play.click()
    stop.click()
    here = state(figure)
    clock.run_for(10_000)
    assert state(figure) == here
    play.click()
    clock.run_for(60_000)
    expect(stop).to_be_hidden()
    clock.resume()
    return state(figure)


def given(figure: Locator) -> dict:
    "The numbers that a script was given."
    return figure.evaluate(
        """figure =>
          JSON.parse(figure.querySelector('script[type="application/json"]').textContent)"""
    )


def assert_board(figure: Locator, mask: torch.Tensor, after: bool = False) -> None:
    "The board holds this mask, the weights that the package gives, and what they depend on."
    now, scores = state(figure), numbers(given(figure)["scores"])[-len(mask) :]
    weigh = lambda s: softmax(s) * mask if after else masked_softmax(s, mask)
    weights = weigh(scores)
    assert torch.equal(torch.tensor(now["mask"]), mask)
    assert_close(numbers(now["weights"]), weights, **EXACT)
    assert_close(numbers(now["sums"]), weights.sum(-1), **EXACT)
    poked = [(weigh(scores + torch.eye(5)[j]) - weights).abs().amax(-1) > 1e-6 for j in range(5)]
    assert torch.equal(torch.tensor(now["reached"]), torch.stack(poked, dim=-1) | (weights > 0))


@pytest.mark.nightly
def test_what_a_mask_takes_goes_to_the_rest_of_the_row(visit):
    "On the way the sum of the first row grows from its own weight, 0.21, to 1."
    figure = drawing(visit, "04_masks.html", "mask_board", reduced_motion="no-preference")
    figure.evaluate("""figure => {
      window.seen = [];
      const sum = figure.querySelector("tbody td:last-child");
      const tell = () => window.seen.push(sum.textContent);
      new MutationObserver(tell).observe(sum, { childList: true });
    }""")
    figure.get_by_role("button", name="causal mask").click()
    figure.page.wait_for_function("window.seen.length > 1 && window.seen.at(-1) === '1.00 ✓'")
    seen = [float(text.split()[0]) for text in figure.page.evaluate("seen")]
    seen = seen[seen.index(0.21) :]
    assert seen == sorted(seen) and len({*seen}) > 3 and seen[-1] == 1


def test_mask_board_masks_as_the_package_does(visit):
    "By keys, by the mouse, and with every switch."
    seen = visit("04_masks.html")
    figure = seen.page.locator("figure[data-drawing=mask_board]").first
    said, causal = figure.locator("output"), causal_mask(5)
    assert_board(figure, torch.ones(5, 5, dtype=torch.bool))  # it begins without a mask
    figure.get_by_role("button", name="causal mask").click()
    assert_board(figure, causal)
    assert said.inner_text() == "The context of “drank” depends on: the, cat, drank."
    own = figure.get_by_role("button", name="own mask")
    assert not own.count()  # hidden, until there is one
    figure.get_by_role("button", name="cat must not attend to milk").click()
    assert own.inner_text() == "own: 1" and own.get_attribute("aria-pressed") == "true"
    own.click()  # the mask that was chosen is back
    assert_board(figure, causal)
    figure.get_by_role("button", name="drank attends to the").hover()
    cell = figure.locator("td button[tabindex='0']")
    cell.focus()
    for key in ("ArrowRight", "ArrowUp", "Enter"):
        seen.page.keyboard.press(key)
    by_hand = causal.clone()
    by_hand[1, 1] = False
    assert_board(figure, by_hand)
    before = figure.locator("td button span[style*='line-through']")  # for a moment
    assert before.all_inner_texts() == ["0.50"]
    expect(before).to_have_count(0)
    # one weight alone is 1, whatever the query
    assert said.inner_text() == "The context of “cat” depends on: the."
    by_hand[0, 1] = True
    figure.get_by_role("button", name="the must not attend to cat").click()
    figure.get_by_role("button", name="the attends to the").click()
    figure.get_by_role("button", name="the must not attend to drank").click()
    by_hand[0, 0], by_hand[0, 2] = False, True
    assert_board(figure, by_hand)
    assert (
        said.inner_text()
        == "The context of “the” depends on: cat, drank, and through its query on itself."
    )
    for name in ("the attends to cat", "the attends to drank", "the must not attend to the"):
        figure.get_by_role("button", name=name).click()
    by_hand[0] = causal[0]
    figure.get_by_role("button", name="the attends to the").click()
    by_hand[0, 0] = False
    assert_board(figure, by_hand)
    assert "attend to nothing" in said.inner_text()
    figure.get_by_role("button", name="padding mask").click()
    assert_board(figure, causal & padding_mask([4], 5)[0, 0])
    figure.get_by_role("button", name="causal mask").click()
    assert_board(figure, padding_mask([4], 5)[0, 0].expand(5, 5))
    figure.get_by_role("button", name="causal mask").click()
    figure.get_by_role("button", name="padding mask").click()
    figure.locator("details.more > summary").click()
    figure.get_by_text("after the softmax").click()
    assert_board(figure, causal, after=True)
    figure.get_by_role("button", name="drank attends to cat").hover()
    assert said.inner_text().endswith("depends on: the, cat, drank. A leak: milk, today.")
    figure.get_by_text("before the softmax").click()
    figure.get_by_text("blocked", exact=True).click()
    assert_board(figure, ~causal)
    figure.get_by_text("may attend", exact=True).click()
    kept = figure.get_by_role("slider", name="Tokens in a cache")
    for _ in range(3):
        kept.press("ArrowRight")
    assert_board(figure, causal_mask(2, 5))
    figure.get_by_text("first query, first key").click()
    assert_board(figure, torch.ones(2, 5, dtype=torch.bool).tril())


def assert_windows(figure: Locator, mask: torch.Tensor, layers: int) -> None:
    "The board allows these pairs, counts them, and carries information through so many layers."
    now = state(figure)
    assert torch.equal(numbers(now["mask"]).bool(), mask)
    assert now["scores"] == mask.sum()
    assert torch.equal(
        numbers(now["reached"]).bool(), torch.linalg.matrix_power(mask.double(), layers) > 0
    )


# Where the tokens stand that are marked, and where an area begins and ends.
REACHED = """all => all.filter((dot) => +dot.getAttribute("r") >= 5
  && dot.getAttribute("fill") !== "none").map((dot) => +dot.getAttribute("cx"))"""
ENDS = "area => [area.getBBox().x, area.getBBox().x + area.getBBox().width]"


@pytest.mark.nightly
def test_window_board_combines_masks_as_the_package_does(visit):
    "By keys, by the mouse, with every mask, and joined either way."
    seen = visit("14_local_attention.html")
    figure = seen.page.locator("figure[data-drawing=window_board]").first
    said, press = (
        figure.locator("output"),
        lambda name: figure.get_by_role("button", name=name, exact=True).click(),
    )
    window, sinks, causal = window_mask(12, 12, 3), sink_mask(12, 12, 2), causal_mask(12)
    apart, blocks = document_mask([0] * 5 + [1] * 4 + [2] * 3), block_mask(12, 12, 4)
    assert_windows(figure, window, 2)
    assert (
        said.inner_text()
        == "Token 11, “one”, attends to 3; through 2 layers 5 of 12 tokens reach it, "
        "up to “bark” (rose)."
    )
    ring = figure.locator("circle[r='5'][stroke='var(--rose)']")
    cone, ways = (  # of all that reaches it; of all paths to that token
        figure.locator(f"path[fill='var(--{hue})'][stroke-width='8']")
        for hue in ("neutral", "rose")
    )
    one = figure.locator("path[stroke='var(--rose)'][stroke-width='4']")  # from layer to layer
    assert ring.count() == 1 == ways.count() == one.count()
    assert one.get_attribute("d").count("L") == 2
    assert [one.get_attribute("aria-label") for one in figure.get_by_role("slider").all()] == [
        "Window",
        "Layers",
    ] and not figure.get_by_role("button").count()
    figure.locator("details.more > summary").click()
    needless = figure.get_by_role("button", name="causal", exact=True)
    told = figure.get_by_text("The window hides the future: causal adds nothing.")
    borders = figure.locator("svg path[stroke-width='1.5']")  # of documents
    assert needless.is_disabled() and told.is_visible()
    assert (
        borders.evaluate_all("all => all.map(one => one.getAttribute('visibility'))")
        == ["hidden"] * 2
    )
    press("sinks")
    assert needless.is_enabled() and told.is_hidden()
    assert_windows(figure, window | sinks, 2)
    assert "The mask allows 1 token to attend to the future." in said.inner_text()
    ahead = figure.locator("g > rect[fill='url(#board-future)']")
    assert ahead.count() == 1 and figure.get_by_text("future", exact=True).is_visible()
    press("causal")
    assert not ahead.count()
    assert_windows(figure, causal & (window | sinks), 2)
    press("documents")
    assert_windows(figure, causal & (window | sinks) & apart, 2)
    assert figure.locator("code").inner_text() == "(window 3 | sinks 2) & causal & documents"
    figure.get_by_role("radio", name="both &").check()
    assert_windows(figure, causal & window & sinks & apart, 2)
    for name in ("sinks", "documents", "window"):
        press(name)
    press("blocks")
    assert_windows(figure, causal & blocks, 2)
    width = figure.get_by_role("slider", name="Window")
    assert width.is_disabled()  # without a window it would change nothing
    for name in ("causal", "blocks", "window"):
        press(name)
    assert width.is_enabled()
    figure.get_by_role("slider", name="Layers").press("ArrowRight")
    paths = torch.linalg.matrix_power(window.double(), 3)[11]  # of each token to the query
    figure.page.mouse.move(0, 0)  # it points at nothing
    for token in range(12):
        figure.get_by_role("slider", name="Paths from").fill(str(token))
        assert (state(figure)["aim"], state(figure)["paths"]) == (token, paths[token])
        assert ("does not reach it" in said.inner_text()) == (paths[token] == 0)
    board = figure.locator("svg:has(#board-future)")
    names = board.locator("> text[data-sym=k]")
    for token, reaches in ((5, True), (6, True), (3, False)):
        names.nth(token).hover()
        assert bool(ways.get_attribute("d")) == reaches and state(figure)["aim"] == token
        assert one.get_attribute("d").count("L") == 3 * reaches
        steps = board.locator("g > rect[fill='var(--rose)']")  # the pairs of that path
        assert steps.count() == len(set(one.get_attribute("d").split("L")[1:]))
        assert names.nth(token).get_attribute("font-weight") == "700"
    for layers in (2, 4, 3):  # the wedge is as broad as the tokens that reach the query
        figure.get_by_role("slider", name="Layers").fill(str(layers))
        reached = board.locator("g > circle").evaluate_all(REACHED)
        assert cone.evaluate(ENDS) == pytest.approx([min(reached), max(reached)], abs=0.1)
    figure.get_by_role("slider", name="Layers").press("ArrowLeft")
    assert state(figure)["aim"] is None
    for _ in range(2):
        figure.get_by_role("slider", name="Window").press("ArrowRight")
    figure.get_by_role("slider", name="Layers").press("ArrowLeft")
    assert_windows(figure, window_mask(12, 12, 5), 1)
    figure.get_by_role("slider", name="Query").press("ArrowLeft")
    assert said.inner_text().startswith("Token 10, “is”, attends to 5; through 1 layer 5 of 12")
    figure.locator("svg g rect").first.click()
    assert said.inner_text().startswith("Token 0, “the”, attends to 1")
    assert seen.said == []


def test_the_state_gives_what_the_cache_gives(visit):
    "By the slider, and played: at each step both ways give what a masked matrix of weights gives."
    figure = drawing(visit, "15_linear_attention.html", "state_steps")
    q, k, v = (numbers(given(figure)[name]) for name in "qkv")
    n, slider, weights = len(q), figure.get_by_role("slider"), (q @ k.mT).tril()
    ones = torch.cat([v, torch.ones(n, 1)], dim=-1)
    slider.press("Home")
    for t in range(n):
        now = state(figure)
        assert now["step"] == t and now["kept"] == {"cache": 4 * (t + 1), "state": 6}
        assert_close(numbers(now["scores"]), weights[t, : t + 1], **EXACT)
        assert_close(numbers(now["S"]), k[: t + 1].mT @ ones[: t + 1], **EXACT)
        assert_close(numbers(now["added"]), torch.outer(k[t], ones[t]), **EXACT)
        for way in ("cache", "state"):
            assert_close(numbers(now["sums"][way]), weights[t] @ ones, **EXACT)
        assert_close(numbers(now["context"]), weights[t] @ v / weights[t].sum(), **EXACT)
        assert (
            figure.locator("output").inner_text().startswith(f"“{given(figure)['tokens'][t]}”: (")
        )
        board = figure.get_by_role("img", name="The state")
        news, wholes = (
            board.locator(f":scope > rect{of}").evaluate_all(
                "all => all.map((one) => +one.getAttribute('width'))"
            )
            for of in ("[fill-opacity='0.5']", "[fill=none]")
        )  # the dark part of a cell is what the newest token adds
        shares = torch.outer(k[t], ones[t]) / (k[: t + 1].mT @ ones[: t + 1]).clamp(min=1)
        assert_close(numbers(news) / numbers(wholes), shares.flatten(), atol=1e-3, rtol=0)
        # in each cell: the two numbers of the newest token whose product is added
        added = board.locator("g.added:not([visibility])").all_text_contents()
        factors = [f"{'+' * bool(t)}{a:.0f}·{b:.0f}" for a, b in product(k[t], ones[t]) if a * b]
        assert added == factors
        # below the cells: each number of the query times that of the state, and their sum
        terms = board.locator(":scope > text:has(tspan)").all_text_contents()
        for column, total in enumerate(weights[t] @ ones):
            parts = [f"{a:.0f}·{b:.0f}" for a, b in zip(q[t], numbers(now["S"])[:, column])]
            assert terms[column] == " + ".join(parts)
            for picture in (board, figure.get_by_role("img", name="The cache")):
                sums = picture.locator("text[style*='600'][data-sym]").all_text_contents()
                assert sums[column - 3] == f"{total:.0f}"
        slider.press("ArrowRight")
    slider.press("Home")
    assert played(figure)["step"] == n - 1


@pytest.mark.nightly
def test_a_memory_gives_what_the_delta_rule_and_the_sum_give(visit):
    """After each pair: the state, what is added, and what each key reads; by the running sum in the
    first figure, by the delta rule in the second one, which has the errors of both.
    """
    figure = drawing(visit, "15_linear_attention.html", "memory")
    assert (
        state(figure)["t"] == 4
        and not figure.get_by_role("radio").count()
        and figure.get_by_text("4 of 4 exact").is_visible()
    )
    figures = figure.page.locator("figure[data-drawing=memory]")
    k, v = (numbers(given(figure)[name]) for name in "kv")
    n = len(k)
    for figure, rule in zip((figures.nth(0), figures.nth(1)), ("running sum", "delta rule")):
        slider, output = figure.get_by_role("slider").first, figure.locator("output")
        slider.press("Home")
        before = torch.zeros(4, 3)
        for t in range(1, n + 1):
            now = state(figure)
            S = (
                delta_rule(k[:t], k[:t], v[:t], torch.ones(t))[1]
                if rule == "delta rule"
                else k[:t].mT @ v[:t]
            )
            assert (now["t"], now["rule"]) == (t, rule)
            assert_close(numbers(now["S"]), S, **EXACT)
            assert_close(numbers(now["added"]), S - before, **EXACT)
            assert_close(numbers(now["found"]), k[:t] @ S, **EXACT)
            errors = (k[:t] @ S - v[:t]).norm(dim=-1)
            assert_close(numbers(now["errors"]), errors, **EXACT)
            assert f"mean error is {errors.mean():.1f}" in output.inner_text()
            expect(figure.get_by_text(f"{(errors < 1e-5).sum()} of {t} exact")).to_be_visible()
            before = S
            slider.press("ArrowRight")
    summed = (k @ (k.mT @ v) - v).norm(dim=-1)
    bars = figure.get_by_role("group", name="are read back exactly").locator("rect.moves")
    wide = numbers(bars.evaluate_all("all => all.map((one) => +one.getAttribute('width'))"))
    both = torch.stack([errors, summed], dim=1).flatten()  # of the delta rule, and of the sum
    assert_close(wide, both * wide.max() / both.max(), atol=0.1, rtol=0)
    slider.press("Home")
    for _ in range(n - 4):
        slider.press("ArrowRight")
    assert played(figure)["t"] == n and state(figure)["asked"] == n - 1
    level = lambda text: figure.locator("text", has_text=re.compile(text)).last.get_attribute("y")
    assert level("^0 ✓$") == level("^Hal$")  # in one line
    names = figure.get_by_role("slider", name="Pair that is read back")
    names.click(position={"x": 10, "y": 30})  # the second one, as the delta rule reads it
    expect(output).to_contain_text("Bob’s key reads (0.5, 3.5, −2); the value is (−3, 5, 1).")
    names.press("ArrowUp")
    names.press("ArrowUp")
    assert state(figure)["asked"] == 0
    read = figure.get_by_role("img", name="The state after").locator("text.moves")
    assert_close(
        numbers([float(x.replace("−", "-")) for x in read.all_text_contents()]),
        numbers(state(figure)["found"][0]),
        atol=0.05,
        rtol=0,
    )


WIDTHS = "all => all.map((one) => +one.getAttribute('width'))"


@pytest.mark.nightly
def test_a_latent_cache_counts_as_the_package_does(visit):
    """What is cached, and for each number of tokens both ways;
    the switch moves the projections, and says so.
    """
    figure = drawing(visit, "12_latent_attention.html", "latent")
    tokens = figure.get_by_role("slider", name="Tokens in the cache")
    output, chosen = figure.locator("output"), given(figure)
    now = state(figure)
    assert now["form"] == "absorbed" and figure.locator("path[pathLength]").first.is_hidden()
    assert now["cached"] == {"MHA": 128 * 256, "GQA": 8 * 256, "MQA": 256, "MLA": 576}
    caches = figure.get_by_role("img", name="Numbers that a layer caches")
    assert caches.get_by_text(f"{128 * 256 / 576:.0f} times fewer than MHA").count() == 1
    bars = numbers(caches.locator("rect").evaluate_all(WIDTHS)).view(4, 2).sum(-1)
    assert_close(bars / bars.max(), numbers([*now["cached"].values()]) / (128 * 256), **EXACT)
    figure.get_by_role("radio", name="expanded").check()
    tokens.press("Home")
    for n in chosen["lengths"]:
        assert (state(figure)["tokens"], state(figure)["work"]) == (n, latent_work(128, n))
        more, less = (latent_work(128, n)[form] for form in ("expanded", "absorbed"))
        longer, shorter = figure.locator("rect.moves").evaluate_all(
            "all => all.map(one => +one.getAttribute('width'))"
        )
        assert longer / shorter == pytest.approx(more / less)  # at true scale
        times = "about the same" if more < 1.05 * less else f"{more / less:.0f} times fewer"
        assert figure.locator("svg text", has_text=times).count() == 1
        tokens.press("ArrowRight")
    assert "each head makes keys and values of 65,536 tokens" in output.inner_text()
    trails, tips = figure.locator("path[pathLength]"), figure.locator("g[fill='var(--rose)']")
    expect(trails.first).to_be_visible()  # the ways that both boxes took, and where they came
    figure.get_by_role("radio", name="absorbed").check()
    expect(tips.last).to_be_visible()
    expect(tips.first).to_be_hidden()
    assert state(figure)["form"] == "absorbed"
    assert "1 query and Wᵥ 1 mixture, instead of 65,536 rows" in output.inner_text()
    matrix = figure.get_by_role("img", name="absorbed").locator("g", has_text="Wk").last
    expect(matrix).to_have_attribute("transform", "translate(236.0 40.0)")
    figure.get_by_role("radio", name="expanded").check()
    expect(
        figure.get_by_role("img", name="expanded").locator("g", has_text="Wk").last
    ).to_have_attribute("transform", "translate(125.0 64.0)")


@pytest.mark.nightly
def test_few_keys_hold_what_the_package_says(visit):
    """Each way to choose, for each query and number of blocks: the keys that `select_blocks` and
    `top_keys` keep, their weights, and the share of the full weight; the picture is pressed, too.
    """
    figure = drawing(visit, "21_sparse_attention.html", "few_keys")
    shown, output = given(figure), figure.locator("output")
    scores, past = numbers(shown["scores"]), causal_mask(12, 24)
    range_of = figure.get_by_role("slider", name="Query")
    # it begins with a miss, and says why the key is needed
    assert "“T” needs “I”, which followed “T” before: it is lost." in output.inner_text()
    for says in ("10 of 21", "5 of 21"):  # scores of 5 blocks and 5 keys; keys that are read
        assert figure.locator(".view").get_by_text(says, exact=True).is_visible()
    figure.get_by_role("radio", name="block bounds").check()  # the higher number stands higher
    high = lambda text: float(figure.locator("text.halo", has_text=text).get_attribute("y"))
    assert high("20.2") < high("15.7") < high("100%")
    marks = figure.locator(".beside > span:visible")
    names = {"mean": "mean", "bound": "bound"}  # of the scores of blocks, where there are any
    figure.get_by_text("More switches").click()
    for way in shown["ways"]:
        figure.get_by_role("radio", name=way["name"], exact=True).check()
        extra = [f"{names[way['title']]} of a block"] if way["per"] == "block" else []
        assert marks.all_inner_texts() == ["score of a key", "needed", *extra]
        for size, blocks in enumerate((2, 3, 4)):
            kept = kept_by_package(way, scores, blocks)
            full, few = masked_softmax(scores, past), masked_softmax(scores, kept)
            share = (full * kept).sum(-1)
            assert way["kept"][size] == kept.int().tolist()
            found = range_of.evaluate(EACH, [way["name"], str(blocks)])
            states, texts = [now for now, _ in found], [text for _, text in found]
            assert [(now["query"], now["way"], now["size"]) for now in states] == [
                (i, way["name"], blocks) for i in range(12)
            ]
            assert [now["kept"] for now in states] == kept.tolist()
            for i, now in enumerate(states):
                assert_close(numbers(now["weights"]), few[i, : 13 + i], **EXACT)
                end = "kept" if kept[i, full[i].argmax()] else "lost"
                assert f": it is {end}. " in texts[i]
            assert_close(numbers([now["share"] for now in states]), share, **EXACT)
            assert_close(numbers([states[-1]["average"]]), share.mean()[None], **EXACT)
    figure.locator("rect[style*=pointer]").nth(3).click()
    assert state(figure)["query"] == 3
    range_of.press("Home")
    assert played(figure)["query"] == 11
    one = drawing(visit, "figures/few_keys.html", "few_keys")  # one query: nothing to go to
    assert not one.get_by_role("slider").count() and not one.get_by_role("button").count()


EIGHT = {  # the prompts of the figure, and how many tokens each generates
    "GO": 12,
    "IN": 3,
    "UP": 2,
    "TRANSLATEQUICKLY": 3,
    "OX": 6,
    "TRANSLATEDOG": 3,
    "HE": 3,
    "WE": 2,
}
SCHEDULES = {
    "static batch": {"static": True},
    "continuous": {},
    "chunked prefill": {"budget": 4},
    "prefix caching": {"budget": 4, "share": True},
}


def served(**how) -> tuple[dict[str, float], list[dict[int, int]]]:
    """What the requests cost when the package serves them: with any model, since no token of it
    ends an answer; and what each step computes.
    """
    block = TransformerBlock(4, MultiHeadAttention(4, 1), FeedForward(4, 4))
    model = LanguageModel(TokenEmbedding(128, 4), TransformerStack([block]), tied=False)
    requests = [Request([*text.encode()], n) for text, n in EIGHT.items()]
    run = serve(
        model, requests, 3, block_size=4, seconds=lambda new, _: max(1.0, sum(new) / 4), **how
    )
    waits = [latency(request, answer) for request, answer in zip(requests, run.answers)]
    time = run.steps[-1].start + run.steps[-1].seconds
    cost = {
        "time": time,
        "empty": 1 - sum(step.seconds * len(step.work) for step in run.steps) / (3 * time),
        "first": sum(wait.first for wait in waits) / len(waits),
        "pause": max(wait.longest for wait in waits),
    }
    return cost, [step.work for step in run.steps]


LENGTHS = "all => all.map((one) => parseFloat(one.style.width))"


@pytest.mark.nightly
def test_a_server_takes_the_time_that_the_package_says(visit):
    """Each way to schedule: time, empty slots and pauses, in the table, too; a request keeps its
    slot, and no slot has two; who waits has not begun.
    """
    figure = drawing(visit, "22_serving.html", "serving")
    slider, letters = figure.get_by_role("slider", name="Step"), [*"ABCDEFGH"]
    costs, bars = [], []
    for way in given(figure)["ways"]:
        cost, works = served(**SCHEDULES[way["name"]])
        figure.get_by_role("radio", name=way["name"]).check()
        now = state(figure)
        assert (now["way"], now["step"], now["waiting"]) == (way["name"], len(works) - 1, [])
        assert now["cost"] == pytest.approx(cost)
        row = figure.locator(".view tr", has_text=way["name"]).locator("td")
        shown = [f"{cost[name]:.1f}" for name in ("time", "first", "pause")]
        assert row.all_text_contents() == [shown[0], f"{100 * cost['empty']:.0f}%", *shown[1:]]
        costs.append(cost)
        long = row.locator("div:empty").evaluate_all(LENGTHS)  # a bar for each, to scale
        bars.append(dict(zip(("time", "empty", "first", "pause"), long, strict=True)))
        drawn = [{number: n for number, _, n in step["cells"]} for step in way["steps"]]
        assert drawn == works
        places = {(number, slot) for step in way["steps"] for number, slot, _ in step["cells"]}
        assert len(places) == 8 and {slot for _, slot in places} == {0, 1, 2}
        assert all(
            len({slot for _, slot, _ in s["cells"]}) == len(s["cells"]) for s in way["steps"]
        )
        slider.press("Home")
        assert state(figure)["waiting"] == [letters[i] for i in range(8) if i not in works[0]]
        assert f"{sum(works[0].values())} tokens computed" in figure.locator("output").inner_text()
        if way["name"] == "continuous":
            slider.press("ArrowRight")
            slider.press("ArrowRight")
            assert "16 of D’s prompt; 3 new tokens" in figure.locator("output").inner_text()
            expect(figure.get_by_text("A waits 4.5 for a token")).to_be_visible()
    for name in costs[0]:
        most = max(cost[name] for cost in costs)
        for cost, bar in zip(costs, bars):
            assert bar[name] == pytest.approx(100 * cost[name] / most, abs=0.06)
    assert played(figure)["step"] == len(works) - 1


# Chooses, and moves a slider to each of its places: what the figure holds there, and what it says.
EACH = """(range, chosen) => {
  const figure = range.closest("figure"), found = [];
  for (const label of figure.querySelectorAll("label.choice")) {
    if (chosen.includes(label.textContent)) label.querySelector("input").click();
  }
  for (let x = +range.min; x <= +range.max; x += +range.step) {
    range.value = x;
    range.dispatchEvent(new Event("input", { bubbles: true }));
    found.push([structuredClone(figure.state()), figure.querySelector("output").textContent]);
  }
  return found;
}"""


def kept_by_package(way: dict, scores: torch.Tensor, blocks: int) -> torch.Tensor:
    "What a query of the second word keeps, (12, 24)."
    if "estimates" in way:
        return select_blocks(numbers(way["estimates"]), 24, 4, blocks)
    nearest = torch.arange(24.0).expand(12, 24)
    return top_keys(nearest if way["per"] == "none" else scores, 4 * blocks, causal_mask(12, 24))


def test_weight_falls_where_the_package_says(visit):
    "In a window, in each way, at each token: bars, the share of other words, and the context."
    figure = drawing(visit, "14_local_attention.html", "sinks_window", reduced_motion="reduce")
    shown, newest = given(figure), figure.get_by_role("slider", name="Newest token")
    v, scores = numbers(shown["v"]), numbers(shown["scores"])
    n, first = len(v), shown["tokens"][0]
    assert state(figure)["newest"] == 2  # the first token is still inside
    newest.press("Home")
    for t in range(n):
        near = window_mask(n, n, 3)
        none, level = torch.tensor([-torch.inf]), torch.tensor([float(shown["sink"])])
        masks, levels = (near, near | sink_mask(n, n, 1), near), (none, none, level)
        now = state(figure)
        assert now["newest"] == t and len(now["ways"]) == 3
        counts = figure.locator("svg tspan:not([dx])").all_text_contents()
        had = "".join(figure.locator("svg tspan[dx]").all_text_contents())  # before it left
        assert had == f"“{first}” had 96%" * (t > 2)
        for way, mask, sink, told in zip(now["ways"], masks, levels, counts):
            weights = sink_softmax(scores[None, None], sink, mask[t])[0, 0]
            assert_close(numbers(way["weights"][:-1]), weights, **EXACT)
            assert_close(numbers(way["context"]), weights @ v, **EXACT)
            assert told == f"{round(100 * float(weights[1:].sum()))}%"
        bars = numbers(figure.locator("svg rect[data-sym=w]").evaluate_all(WIDTHS)).view(3, n)
        widest = figure.locator("svg").evaluate("svg => +svg.getAttribute('width')")
        exact = numbers([way["weights"][:-1] for way in now["ways"]]) * widest
        assert_close(bars, (exact - 1).clamp(min=0), atol=0.01, rtol=0)
        assert (f"“{first}” has left the window" in said(figure)) == (t > 2)
        newest.press("ArrowRight")
    newest.press("Home")
    assert played(figure)["newest"] == n - 1


@pytest.mark.nightly
def test_sinks_take_what_the_package_says(visit):
    "With other scores, by keys and by the mouse; and without the sink."
    figure = drawing(visit, "11_grouped_heads.html", "sinks", reduced_motion="reduce")
    v = numbers(given(figure)["v"])
    assert "The sink takes 79%; 21% is left for tokens." in said(figure)
    assert [figure.locator("svg").get_by_text(name).count() for name in ("dark", "animal")] == [
        1
    ] * 2
    knob = figure.get_by_role("slider", name="score of sink")
    for key, score in (("ArrowUp", 2.5), ("Home", -6), ("End", 6)):
        knob.press(key)
        now = state(figure)
        weights = sink_softmax(torch.zeros(1, 1, 2), torch.tensor([float(score)]))[0, 0]
        assert_close(numbers([now["kept"]]), weights.sum()[None], **EXACT)
        assert_close(numbers(now["context"]), weights @ v, **EXACT)
    # the context is a stack: a share of each token, as high as its weight times its value
    shares = figure.locator("svg rect.moves[data-sym=v]").evaluate_all(
        "all => all.map((one) => +one.getAttribute('height'))"
    )
    adds = (numbers(now["weights"][:-1])[:, None] * v).abs().T.flatten()
    assert_close(numbers(shares), adds * max(shares) / adds.max(), atol=0.01, rtol=0)
    tracks = figure.locator("svg g > rect[opacity='0.45']").last.bounding_box()
    assert knob.bounding_box()["y"] + 16 - tracks["y"] == pytest.approx(12, abs=1)  # head room
    knob.hover()
    figure.page.mouse.down()
    box = figure.locator("svg").bounding_box()
    figure.page.mouse.move(
        box["x"] + 20,
        box["y"] + 112 * box["height"] / int(figure.locator("svg").get_attribute("height")),
    )
    figure.page.mouse.up()
    assert state(figure)["scores"] == [0, 0, 0]
    figure.get_by_role("radio", name="no sink").check()
    assert state(figure)["context"] == [3, 1.5]
    # the line begins at the middle of the first weight, and ends at that of what it adds
    start, *_, end = re.findall(r"[MV]([\d.]+)", figure.locator("path.moves").get_attribute("d"))
    weight, adds = (
        figure.locator(f"svg rect.moves[data-sym={sym}]").first.evaluate(
            f"(one) => one.{side}.baseVal.value + one.{size}.baseVal.value / 2"
        )
        for sym, side, size in (("w", "x", "width"), ("v", "y", "height"))
    )
    assert [float(start), float(end)] == pytest.approx([weight, adds], abs=1)


def test_head_cut_lands_where_split_heads_puts_it(visit):
    "Every copy flies to its place, in both results, and back; pointed at and reached by keys."
    figure = drawing(visit, "05_multi_head_attention.html", "head_cut", reduced_motion="reduce")
    rows = numbers(given(figure)["x"])
    n, width, heads = *rows.shape, given(figure)["heads"]
    right, wrong = split_heads(rows, heads), rows.view(heads, n, width // heads)
    options, copies = figure.get_by_role("option"), figure.locator(".moves")
    at = lambda nodes: numbers(nodes.evaluate_all(CENTRES))
    assert torch.equal(at(copies), at(options).repeat(2, 1))  # at first all lie on the vectors
    figure.get_by_role("button", name="Split", exact=True).click()
    for order, places in zip((right, wrong), at(copies).view(2, -1, 2)):
        by_column = (1e4 * places[:, 0].round() + places[:, 1]).argsort()
        assert torch.equal(rows.flatten()[by_column], order.transpose(1, 2).flatten())
    told = figure.get_by_text(re.compile("of 12 astray")).all_inner_texts()
    belongs = rows.view(n, heads, -1).transpose(0, 1)
    assert told == [f"{int((belongs != one).sum())} of 12 astray" for one in (right, wrong)]
    assert figure.locator("[role=option][aria-selected=true]").all_inner_texts() == ["12"]
    figure.get_by_role("option", name="10, of token 1").first.hover()
    for lit, key in ((10, None), (11, "ArrowRight"), (1, "ArrowUp")):
        if key:
            figure.locator("[role=option][tabindex='0']").first.press(key)
        now = state(figure)
        lands = now["lands"]
        assert now["lit"] == lit == right[tuple(lands["right"])] == wrong[tuple(lands["wrong"])]
        head, token, _ = lands["wrong"]
        elsewhere = f"puts it into head {head}, token {token}."
        told = said(figure)
        assert told.startswith(f"{lit} belongs to head 0, token {lit // 10}.")
        assert told.endswith("Both ways put it there." if lit == 1 else elsewhere)
    figure.get_by_role("button", name="Back", exact=True).click()
    assert torch.equal(at(copies), at(options).repeat(2, 1))


@pytest.mark.nightly
def test_head_film_shows_what_was_stored(visit):
    "By the slider, and played to its end."
    figure = drawing(visit, "05_multi_head_attention.html", "head_film")
    film = given(figure)
    slider = figure.get_by_role("slider")
    slider.press("End")
    slider.press("ArrowLeft")
    now, weights = state(figure), numbers(film["weights"])[-2]
    assert (now["step"], now["loss"]) == (film["steps"][-2], film["losses"][-2])
    assert_close(numbers(now["weights"]), weights, **EXACT)
    expected = torch.stack(
        [weights[:, 2:, 0].mean(-1), weights[:, range(2, 6), range(1, 5)].mean(-1)], dim=-1
    )
    assert_close(numbers(now["means"]), expected, **EXACT)
    places = numbers(figure.locator("svg ~ span[style*=radius]").evaluate_all(CENTRES))
    heights = places[:, 1]
    powers = numbers(film["losses"]).log10()  # a dot is as high as the power of ten of its loss
    scale = (heights[0] - heights[-1]) / (powers[0] - powers[-1])
    assert_close(heights - heights[0], scale * (powers - powers[0]), atol=0.1, rtol=0)
    assert float(heights.max() - heights.min()) == pytest.approx(60, abs=0.5)
    mark = figure.get_by_text("heads differ from step")
    for i, heads in enumerate(numbers(film["weights"])):  # from where they prefer other tokens
        slider.fill(str(i))
        assert mark.is_visible() == ("; head 1" in told_of(heads))
    first = film["steps"].index(int(mark.inner_text().split()[-2]))  # the line stands at its dot
    line = mark.evaluate("mark => mark.getBoundingClientRect().right")
    assert line == pytest.approx(float(places[first, 0]), abs=1.5)
    slider.press("Home")
    assert played(figure)["step"] == film["steps"][-1]
    assert (
        figure.locator("output").inner_text()
        == f"Step 299: {told_of(numbers(film['weights'])[-1])}."
    )


@pytest.mark.parametrize(
    "page, script, begins, ends",
    by_day(
        [
            ("00_embeddings.html", "lookup", "Life", "first"),
            ("01_naive_attention.html", "senses", 0, 2),
            ("05_multi_head_attention.html", "head_film", None, None),
            ("24_hybrid_models.html", "hybrids", None, None),
        ]
    ),
)
def test_the_figure_that_stands_first_plays_by_itself_once(visit, page, script, begins, ends):
    """When it comes into sight; a figure whose question asks to press Play rests until it is
    pressed.
    """
    figure = drawing(visit, page, script, reduced_motion="no-preference")
    key = {"lookup": "word", "hybrids": "pairs"}.get(script, "step")
    middle, play = state(figure)[key], figure.locator("button.play")
    assert begins is None or middle == begins
    figure.locator(".view").evaluate(
        "view => view.scrollIntoView({ block: 'center', behavior: 'instant' })"
    )
    if ends is None:
        figure.page.wait_for_timeout(1500)
        assert state(figure)[key] == middle
    else:
        expect(play).to_have_text("■ Stop")
        figure.page.wait_for_function(
            "([script, key, ends]) => document.querySelector("
            "`figure[data-drawing=${script}]`).state()[key] === ends",
            arg=[script, key, ends],
        )
    expect(play).to_have_text("▶ Play")


def test_what_plays_by_itself_does_not_ask_for_play():
    "Its question would be answered before it is read."
    for script in sorted((ROOT / "attention_nb/figures").glob("*.js")):
        if "byItself(" in script.read_text(encoding="utf-8") and script.stem != "drawing":
            page = (DOCS / PAGE_OF[script.stem]).read_text(encoding="utf-8")
            caption = re.search(
                rf'data-drawing="{script.stem}".*?<figcaption>(.*?)</figcaption>', page, re.S
            )
            assert "Play" not in caption[1], script.stem


@pytest.mark.nightly
def test_the_film_has_digits_for_those_who_point(visit):
    """On a phone a head that is pointed at or focused shows its digits, the other does not;
    on a wide page both show those of weights of a tenth or more.
    """
    figure = drawing(visit, "05_multi_head_attention.html", "head_film", width=390)
    assert state(figure)["step"] == given(figure)["steps"][4]  # in the middle of what happens
    heads, seen = (
        figure.locator(".view table"),
        "table => getComputedStyle(table.querySelector('td > span')).opacity",
    )
    for look in (heads.nth(0).hover, heads.nth(0).focus):
        figure.page.mouse.move(0, 0)
        assert heads.evaluate_all(f"tables => tables.map({seen})") == ["0", "0"]
        look()
        assert heads.evaluate_all(f"tables => tables.map({seen})") == ["1", "0"]
    wide = drawing(visit, "05_multi_head_attention.html", "head_film").locator(".view table")
    assert wide.evaluate_all(f"tables => tables.map({seen})") == ["1", "1"]
    cells = wide.locator("td > span").evaluate_all(
        "cells => cells.map((cell) => [+cell.textContent, getComputedStyle(cell).opacity])"
    )
    assert len(cells) == 72 and all(opacity == str(int(w >= 10)) for w, opacity in cells)


def test_a_token_rotates_as_the_rotary_embedding_rotates_it(visit):
    "Both vectors and the score, by keys and by mouse; shifted, the score stays."
    figure = drawing(visit, "16_longer_texts.html", "rotating")
    vector = torch.tensor([1.0, 1, 1, 1, 0, 0, 0, 0])

    def agrees() -> dict:
        now = state(figure)
        kind = {"as trained": "default", "linear": "linear", "NTK": "ntk", "YaRN": "yarn"}[
            now["scaling"]
        ]
        rotary = RotaryEmbedding(
            8,
            now["base"],
            {"rope_type": kind, "factor": 4.0, "original_max_position_embeddings": 16},
        )
        positions = torch.tensor([now["position"], now["position"] + now["distance"]])
        key, query = rotary(vector.expand(2, 8), positions) / rotary.attention_factor
        for name, want in {"key": key, "query": query}.items():
            assert_close(numbers(now[name]), want.view(2, 4).T, **EXACT)
        assert_close(numbers(now["score"]), query @ key, **EXACT)
        assert f"{now['score']:.2f}".replace("-", "−") in figure.locator("output").inner_text()
        return now

    before = agrees()
    assert figure.get_by_role("slider").count() == 1 and figure.get_by_role("radio").count() == 4
    assert before["distance"] == 40  # beyond the trained length
    speeds = figure.locator("svg text", has_text="° per position")  # however slow, none is 0
    shown = [float(text.split("°")[0]) for text in speeds.all_text_contents()]
    turned = [b ** (-i / 4) / 4 * 180 / math.pi for b in [before["base"]] for i in range(3)]
    assert shown == pytest.approx(turned, rel=0.05)
    point = figure.locator(".handle")  # on the curve
    point.press("ArrowRight")
    assert agrees()["distance"] == before["distance"] + 1
    point.hover()
    figure.page.mouse.down()
    box = figure.locator("svg:has(.handle) > rect").bounding_box()  # from distance 16 to 64
    figure.page.mouse.move(box["x"] + box["width"] / 3, box["y"] + 5)
    figure.page.mouse.up()
    assert agrees()["distance"] == 32
    point.press("ArrowLeft")
    assert agrees()["distance"] == 31
    figure.locator("details.more > summary").click()
    shift, base = (figure.get_by_role("slider", name=name) for name in ("Shift both", "Base"))
    before = agrees()
    for _ in range(3):
        shift.press("ArrowRight")
    now = agrees()
    assert now["position"] == before["position"] + 3 and now["key"] != before["key"]
    assert_close(now["score"], before["score"], **EXACT)
    assert "still" in figure.locator("output").inner_text()
    base.press("ArrowLeft")
    scalings = figure.get_by_role("radio")
    for i, name in enumerate(["as trained", "linear", "NTK", "YaRN"]):
        scalings.nth(i).check()
        assert agrees()["scaling"] == name


@pytest.mark.nightly
def test_before_longer_texts_the_rotation_offers_no_scaling(visit):
    figure = drawing(visit, "06_positions.html", "rotating")
    assert state(figure)["scaling"] == "as trained" and not figure.get_by_role("radio").count()
    assert [one.get_attribute("aria-label") for one in figure.get_by_role("slider").all()] == [
        "Shift both",
        "point on the curve, move it with the arrow keys",
    ]
    figure.locator("details.more > summary").click()
    for key in ("Home", "End"):  # a base of 1,000, and of a million
        figure.get_by_role("slider", name="Base").press(key)
        *others, curve = figure.evaluate("""figure => {
          const chart = figure.querySelector("svg:has(.handle)");
          const boxOf = (node) => {
            const { x, y, width, height } = node.getBBox();
            return [x + width, y, y + height, x];
          };
          const curve = chart.querySelector("path[stroke-width='3.5']");
          const plain = chart.querySelectorAll("text:not(.halo)");  // a halo keeps a line off
          return [...[...plain].map(boxOf), boxOf(curve)]; }""")
        assert len(others) == 12 and all(
            low < curve[1] or high > curve[2] or right < curve[3] or left > curve[0]
            for right, high, low, left in others
        ), "the curve runs through a label"
    for key in ("ArrowLeft", "ArrowRight"):  # the score is the sum of what the pairs add
        for _ in range(7):
            figure.locator(".handle").press(key)
        rows = figure.locator("svg:has(.handle) > g:has(text)")
        parts = rows.evaluate_all("""rows => rows.map((row) => {
          const [line, , wave] = row.querySelectorAll(":scope > path");
          const [zero, top] = [line.getBBox().y, wave.getPointAtLength(0).y];
          const dot = row.querySelector(":scope > circle");
          return (zero - dot.cy.baseVal.value) / (zero - top); })""")
        rest = figure.locator("svg text", has_text="adds").text_content()
        parts.append(float(rest.split()[-1]))
        assert len(parts) == 4 and sum(parts) == pytest.approx(state(figure)["score"], abs=6e-3)


def test_heads_share_as_the_package_shares(visit):
    "Every number of key heads, in the right order and in the wrong one; by keys and by the mouse."
    figure = drawing(visit, "11_grouped_heads.html", "sharing")
    pick, wrong = (
        figure.get_by_role("radiogroup", name="heads of keys"),
        figure.get_by_role("button", name="wrong order"),
    )
    assert (
        pick.locator("label").all_inner_texts() == ["8", "4", "2", "1"]
        and figure.locator(".view input, .view button").first.get_attribute("type") == "radio"
    )
    row, other = pick.bounding_box(), wrong.bounding_box()  # one line, above the drawing
    assert abs(row["y"] - other["y"]) < 4 and other["y"] < figure.locator("svg").bounding_box()["y"]
    assert state(figure)["n_kv_heads"] == 4 and wrong.is_enabled()
    for n in (8, 4, 2, 1):
        pick.get_by_role("radio", name=str(n)).check()
        keys = torch.arange(n)[:, None, None]
        right, turns = share_heads(keys, 8).flatten(), keys.repeat(8 // n, 1, 1).flatten()
        now = state(figure)
        assert (now["n_kv_heads"], now["bytes"]) == (n, 2**30 * n // 8)
        assert now["reads"] == right.tolist() and not any(now["lost"])
        # nothing is offered where both orders are the same
        assert wrong.is_enabled() == (right != turns).any()
        if not wrong.is_enabled():
            continue
        wrong.click()
        now = state(figure)
        assert now["reads"] == turns.tolist() and now["lost"] == (right != turns).tolist()
        assert f"{sum(now['lost'])} of 8" in figure.locator("output").inner_text()
        wrong.press("Enter")
    figure.get_by_role("button", name="query head 6").hover()
    assert state(figure)["chosen"] == 6
    figure.get_by_role("button", name="query head 6").press("ArrowLeft")
    assert state(figure)["chosen"] == 5
    pick.get_by_role("radio", name="1").press("ArrowLeft")  # to the button before it, 2
    assert figure.get_by_role("button", name="query head 5, reads key head 1").is_visible()
    assert "take 0.25 GiB" in figure.locator("output").inner_text()


def test_cache_steps_make_what_the_layer_makes(visit):
    """By the slider, played: with a cache and without, the counts of a layer that decodes,
    and the oracle's weights.
    """
    figure = drawing(visit, "10_kv_cache.html", "cache_steps")
    given_rows = given(figure)
    q, k, v = (numbers(given_rows[name]) for name in "qkv")
    n, slider, layer, counted = len(q), figure.get_by_role("slider"), MultiHeadAttention(4, 2), []
    for projection in (layer.q_proj, layer.k_proj, layer.v_proj):
        projection.register_forward_hook(lambda module, x, made: counted.append(made.shape[1]))
    cache, x, totals = KVCache(1, 2, n, 2), torch.randn(1, n, 4), {"with": 0, "without": 0}
    slider.press("Home")
    for t in range(n):
        with torch.no_grad():
            layer(x[:, t : t + 1], cache=cache), layer(x[:, : t + 1], causal=True)
        made = {"with": counted[:3], "without": counted[3:]}
        counted.clear()
        totals = {name: totals[name] + made[name][1] for name in totals}
        now = state(figure)
        assert (now["step"], now["computed"], now["sofar"]) == (t, made, totals)
        assert now["read"] == {"with": [0, t, t], "without": [0, 0, 0]}
        context, weights = scaled_dot_product_attention(q[t : t + 1], k[: t + 1], v[: t + 1])
        assert_close(numbers(now["weights"]), weights[0], **EXACT)
        assert_close(numbers(now["context"]), context[0], **EXACT)
        without = f"without, {t + 1} are computed." if t else "one key is computed, either way."
        assert said(figure).startswith(f"“{given_rows['tokens'][t]}”: ")
        assert said(figure).endswith(without)
        ratio = figure.get_by_text(f"{totals['without'] / totals['with']:.1f} times as many")
        assert ratio.count() == (t > 0)
        slider.press("ArrowRight")
    slider.press("Home")
    assert played(figure)["step"] == n - 1
    slider.press("Home")  # back at the first word: the bars of the later ones are gone
    assert figure.locator("svg text.weight").all_text_contents() == ["1.00"] + [""] * (n - 1)


def test_tiles_compute_what_online_softmax_computes(visit):
    """Every query after every tile, of every size, causal and not;
    by the slider's keys, by buttons, by Play.
    """
    figure = drawing(visit, "figures/tiles.html", "tiles")
    scores = torch.tensor(
        [
            [1.0, 0, 0, 0, 1, 0, 0, 0],
            [0, 2, 1, 0, 0, 1, 0, 3],
            [0, 2, 1, 0, 0, 4, 0, 1],
            [0, 0, 1, 1, 0, 2, 0, 0],
            [1, 0, 0, 0, 1, 2, 0, 0],
            [0, 1, 3, 2, 1, 1, 0, 0],
            [0, 0, 2, 0, 0, 0, 1, 2],
            [0, 5, 1, 0, 0, 1, 0, 2],
        ]
    )
    values = torch.tensor([0.0, 8, 2, 0, 0, 4, 0, 6])
    tile = figure.get_by_role("slider", name="Tile", exact=True)
    highest, sums = (figure.locator(f"svg text.{name}") for name in ("max", "sums"))

    def check() -> dict:
        now = state(figure)
        size, (a, b) = now["size"], now["tiles"][now["step"] - 1]
        assert [one["query"] for one in now["queries"]] == list(range(a, a + size))
        done = [key for query, key in now["tiles"][: now["step"]] if query == a]
        for at, one in enumerate(now["queries"]):
            i = one["query"]
            keys = [j for k in done for j in range(k, k + size) if not now["causal"] or j <= i]
            m, l = online_softmax(scores[i, keys], size)
            assert_close(numbers([one["m"], one["l"]]), torch.stack([m, l]), **EXACT)
            context = scores[i, keys].softmax(-1) @ values[keys]
            assert_close(numbers([one["context"]])[0], context, **EXACT)
            acc = ((scores[i, keys] - m).exp() @ values[keys]).item()
            assert highest.nth(at).text_content().split()[-1] == f"{m.item():.0f}"
            shown = sums.all_text_contents()[2 * at : 2 * at + 2]
            assert shown == [f"{l.item():.2f}", f"{acc:.2f}"]
        held = figure.get_by_role("img", name="In fast memory").get_attribute("aria-label")
        assert f"{min(size, 8 - a) * min(size, 8 - b)} score" in held
        return now

    figure.get_by_text("More switches").click()
    assert check()["tiles"][:2] == [[0, 0], [0, 2]]
    # begins where “mat” comes, and the sum is rescaled
    assert state(figure)["tiles"][state(figure)["step"] - 1] == [2, 4]
    assert "multiplied by e²⁻⁴ = 0.14" in figure.locator("output").inner_text()
    figure.locator("rect[width='20']").nth(8 * 5 + 3).click()  # query 5, key 3
    now = check()
    assert now["tiles"][now["step"] - 1] == [4, 2]
    for number, size in enumerate([1, 2, 4]):
        figure.get_by_role("radiogroup", name="Tile size").get_by_role("radio").nth(number).check()
        assert check()["size"] == size
        for causal in (False, True):
            if causal:
                figure.get_by_role("button", name="causal mask").press("Enter")
                assert check()["causal"]
            tile.press("Home")
            count = 8 // size
            assert len(state(figure)["tiles"]) == (count * (count + 1) // 2 if causal else count**2)
            assert len(state(figure)["tiles"]) + state(figure)["skipped"] == count**2
            for step in range(1, min(len(state(figure)["tiles"]), 16) + 1):
                assert check()["step"] == step
                tile.press("ArrowRight")
            tile.press("End")
            assert "Done" in figure.locator("output").inner_text()
        figure.get_by_role("button", name="causal mask").press("Enter")
    tile.press("Home")
    tile.press("ArrowRight")
    assert_close(
        numbers([one["l"] for one in state(figure)["queries"]])[2],
        online_softmax(scores[2])[1],
        **EXACT,
    )
    assert played(figure)["step"] == len(check()["tiles"])


def foreseen(now: dict) -> dict[str, tuple[int, int] | None]:
    "Operations and bytes of each part of the layer, by the package."
    if now["phase"] == 0:
        return {
            "prefill": attention_cost(1000, 1000, 1, 100, bits=32),
            "decode": attention_cost(1, 1000, 1, 100, bits=32),
        } | dict.fromkeys("PAGL")
    n_q, n, kv = 1 if now["phase"] == 2 else now["n"], now["n"], now["kv"]
    attention = dict(b=now["b"], bits=32)
    shared = attention | dict(cached=2 * kv * 128, causal=True)
    return {
        "P": projection_cost(n_q, 4096, 32, 128, kv, now["b"], 32),
        "A": attention_cost(n_q, n, 32, 128, **attention, causal=True),
        "G": attention_cost(n_q, n, 32, 128, **shared),
        "L": attention_cost(1, n, 32, 576, 512, cached=576, **attention)
        if now["phase"] == 2
        else None,
        "prefill": None,
        "decode": None,
    }


@pytest.mark.nightly
def test_parts_of_a_layer_cost_what_the_package_foresees(visit):
    "A layer in decode; one head; every slider, by keys; the dots are on the roofline."
    figure = drawing(visit, "17_cost.html", "roofline")
    tokens, keys, batch = (
        figure.get_by_role("slider", name=name)
        for name in ("Tokens", "Heads of keys", "Batch size")
    )

    def agrees() -> dict:
        now = state(figure)
        for letter, cost in foreseen(now).items():
            shown = now["ways"][letter]
            if cost is None:
                assert shown is None
                continue
            seconds = least_seconds(*cost, now["peak"], now["bandwidth"])
            expected = {
                "operations": cost.operations,
                "moved": cost.moved,
                "intensity": cost.intensity,
                "seconds": seconds,
                "rate": cost.operations / seconds,
            }
            assert shown == pytest.approx(expected, rel=1e-9, abs=1e-5), letter
        return now

    rows = figure.locator(".times > [tabindex]")
    bold = "all => all.map(one => +(one.firstElementChild.style.fontWeight >= 600))"
    large = "all => all.filter(one => one.getAttribute('r') === '7').length"
    named = lambda: [text for text in names.all_text_contents() if text]
    names = figure.locator("svg g text[style*='font-weight']")  # not the small ones
    assert agrees()["phase"] == 2 and not tokens.count() and batch.is_visible()
    assert named() == ["projections"] and rows.evaluate_all(bold) == [1, 0, 0, 0]
    heights = []
    for _ in range(5):  # what the figure asks: this dot climbs
        heights.append(float(figure.locator("svg circle[r='7']").get_attribute("cy")))
        batch.press("ArrowRight")
    assert heights == sorted(heights, reverse=True) and heights[0] - heights[-1] > 80
    ghost = figure.locator("svg circle[r='8']")  # where it was at batch size 1
    assert float(ghost.get_attribute("cy")) == heights[0] and ghost.is_visible()
    batch.press("Home")
    expect(ghost).to_be_hidden()
    figure.locator("details.more > summary").click()
    figure.get_by_role("radio", name="one head").check()
    assert agrees()["phase"] == 0 and batch.is_disabled() and not rows.first.is_visible()
    assert [text for text in figure.locator("svg g text").all_text_contents() if text] == [
        "prefill",
        "decode",
    ]
    assert figure.locator("output").inner_text() == (
        "Prefill: 250 operations per byte, compute-bound; decode: 0.5, memory-bound."
    )
    figure.get_by_role("radio", name="prefill").check()
    prefill = agrees()
    assert prefill["phase"] == 1 and (prefill["n"], prefill["kv"], prefill["b"]) == (4096, 8, 1)
    figure.get_by_role("radio", name="decode").check()
    decode = agrees()
    assert decode["phase"] == 2 and "memory-bound" in figure.locator("output").inner_text()
    rows.nth(2).hover()
    assert named() == ["8 key heads"] and rows.evaluate_all(bold) == [0, 0, 1, 0]
    small = figure.locator("svg g text:not([style*='font-weight'])").all_text_contents()
    assert [text for text in small if text] == [  # of every other dot, from the right to the left
        "latent",
        "projections, multi-head",
    ]
    rows.nth(0).focus()  # a row is chosen, and its dot, or a dot, and its row
    assert named() == ["projections"] and rows.evaluate_all(bold) == [1, 0, 0, 0]
    assert figure.locator("svg circle").evaluate_all(large) == 1
    assert figure.locator("output").inner_text() == (
        "In decode, projections: 0.5 operations per byte, memory-bound."
    )
    figure.locator("svg circle[fill='#1a9ba3'][visibility=visible]").hover()
    assert named() == ["latent"] and rows.evaluate_all(bold) == [0, 0, 0, 1]
    rows.nth(2).hover()
    assert named() == ["8 key heads"]
    for slider, key in (
        (tokens, "ArrowRight"),
        (keys, "ArrowLeft"),
        (batch, "ArrowRight"),
        (tokens, "Home"),
        (keys, "End"),
        (batch, "End"),
        (tokens, "End"),
        (keys, "Home"),
    ):
        slider.press(key)
        agrees()
    many = agrees()
    assert (many["n"], many["kv"], many["b"]) == (2**17, 1, 256)
    assert many["ways"]["P"]["intensity"] > 50 * decode["ways"]["P"]["intensity"]
    assert abs(many["ways"]["A"]["intensity"] - decode["ways"]["A"]["intensity"]) < 1e-3
    figure.get_by_role("radio", name="prefill").check()
    agrees()
    tokens.press("Home")
    agrees()


TOUCHING = """texts => {
  const seen = (text) => text.textContent && getComputedStyle(text).visibility === "visible";
  const boxes = texts.filter(seen).map((text) => [text.textContent, text.getBoundingClientRect()]);
  const meet = (p, q) =>
    p.left < q.right && q.left < p.right && p.top < q.bottom && q.top < p.bottom;
  return boxes.flatMap(([a, p], i) =>
    boxes.slice(i + 1).filter(([, q]) => meet(p, q)).map(([b]) => `${a} and ${b}`));
}"""
# Each choice of the first control with each of these places of the others;
# in the page, since there are so many.
IN_EVERY_STATE = f"""(figure, places) => {{
  const touching = {TOUCHING};
  const ranges = [...figure.querySelectorAll("input[type=range]")], found = [];
  const put = (range, value) => {{
    range.value = value;
    range.dispatchEvent(new Event("input"));
  }};
  for (const mode of [0, 1, 2]) {{
    figure.querySelectorAll("input[type=radio]")[mode].click();
    for (const values of places) {{
      ranges.forEach((range, i) => put(range, values[i]));
      const texts = [...figure.querySelectorAll("svg text:not([transform])")];
      found.push(touching(texts).map((names) => `${{mode}}, ${{values}}: ${{names}}`));
    }}
  }}
  return found;
}}"""


@pytest.mark.nightly
@pytest.mark.parametrize("width, font", [(390, ""), (390, WIDE), (1280, WIDE)])
def test_names_of_dots_on_the_roofline_do_not_touch(visit, width, font):
    "Wherever the dots are; and those of the measured speeds, which do not move."
    figure = drawing(visit, "17_cost.html", "roofline", width=width, font=font)
    layers = figure.locator(".view > .beside > svg > g")  # lines, dots above them, names above both
    kinds = "all => all.map(one => one.firstElementChild?.localName).filter(Boolean)"
    assert layers.evaluate_all(kinds) == ["path", "circle", "text"]
    before = figure.locator("svg").inner_html()
    found = figure.evaluate(IN_EVERY_STATE, list(product((0, 4, 8), (0, 6, 12, 17), (0, 3, 5))))
    assert (
        sum(found, []) == [] and len(found) == 108 and figure.locator("svg").inner_html() != before
    )
    chart = figure.page.locator("figure.chart", has_text="Measured speeds below the roofline")
    names = go_to(chart).locator(".mark-text.role-mark text")
    assert names.count() == 9 and names.evaluate_all(TOUCHING) == []


# Each choice of both, and some time steps after it; in the page, since there are so many.
EVERY_CHOICE = """figure => {
  const [sizes, at_once] = [...figure.querySelectorAll("[role=radiogroup]")].map(
    (group) => [...group.querySelectorAll("input")]);
  const time = figure.querySelector("input[type=range]"), found = [];
  const keep = () => found.push([figure.state(), figure.querySelector("output").textContent]);
  for (const size of sizes) for (const one of at_once) {
    size.click(); one.click();
    keep();
    for (const to of [1, 2, time.max]) {
      time.value = to;
      time.dispatchEvent(new Event("input"));
      keep();
    }
  }
  return found;
}"""


@pytest.mark.nightly
def test_programs_share_the_tiles(visit):
    """Which tiles each computes, as the package says; and when each runs,
    as a plain count of time steps does.
    """
    figure = drawing(visit, "figures/programs.html", "programs")

    def check(now: dict, said: str) -> None:
        assert now["tiles"] == program_tiles(8, 8, now["size"], now["size"], now["causal"])
        waiting, at_work, t = list(range(len(now["tiles"])))[:: -1 if now["longest"] else 1], {}, 0
        while waiting or at_work:
            assert now["step"] != t or now["busy"] == sorted(at_work) or t == 0
            at_work = {p: left - 1 for p, left in at_work.items() if left > 1}
            while waiting and len(at_work) < now["slots"]:
                p = waiting.pop(0)
                assert now["starts"][p] == t
                at_work[p] = len(now["tiles"][p])
            t += 1
        assert now["last"] == t - 1 and now["count"] == sum(map(len, now["tiles"]))
        assert (f"Done after {now['last']} time steps" in said) == (now["step"] == now["last"])
        named = re.findall(r"\d+", said.split(" run")[0])
        assert now["step"] == now["last"] or named == [
            str(one) for one in (now["step"], *now["busy"])
        ]

    assert (state(figure)["last"], state(figure)["step"]) == (6, 3)  # programs are at work
    hatched = figure.get_by_role("img", name="A grid").locator("rect[visibility=visible]")
    for mode in ("", "last block first", "causal mask"):
        assert hatched.count() == 28
        if mode:
            figure.get_by_role("button", name=mode).press("Enter")
        found = figure.evaluate(EVERY_CHOICE)
        for now, said in found:
            check(now, said)
        assert len(found) == 48 and sum(now["step"] == now["last"] for now, _ in found) >= 12
    figure.locator("details.more > summary").click()
    sizes, at_once = (
        figure.get_by_role("radiogroup", name=name).get_by_role("radio")
        for name in ("Queries of a program", "Programs at once")
    )
    sizes.nth(1).check()
    at_once.nth(1).check()
    assert (state(figure)["last"], hatched.count()) == (8, 0)
    figure.get_by_role("button", name="causal mask").press("Enter")
    assert state(figure)["last"] == 5
    step = figure.get_by_role("slider", name="Time step")
    assert figure.get_by_text("6 → ? time steps").is_visible()  # until the work is done
    assert step.get_attribute("aria-valuetext") == "1 of ?"
    step.press("End")
    expect(figure.get_by_text("6 → 5 time steps, 1 saved")).to_be_visible()
    figure.get_by_role("button", name="last block first").press("Enter")
    assert state(figure)["last"] == 6
    step.press("End")
    now = state(figure)
    line = figure.get_by_role("img", name="Time line of 2 slots, at time step 6 of 6: running")
    blocks, idle = (line.locator(f"rect{of}") for of in ("[fill-opacity]", "[stroke-dasharray]"))
    ends = [start + len(own) for start, own in zip(now["starts"], now["tiles"])]
    lasts = [max(end for end, at in zip(ends, now["where"]) if at == slot) for slot in range(2)]
    assert blocks.count() == now["count"]
    assert idle.count() == sum(last < now["last"] for last in lasts)
    for slot in range(2):  # what one slot runs does not overlap
        mine = [p for p, where in enumerate(now["where"]) if where == slot]
        spans = sorted((now["starts"][p], ends[p]) for p in mine)
        assert all(end <= start for (_, end), (start, _) in zip(spans, spans[1:]))
    step.press("ArrowLeft")
    check(state(figure), figure.locator("output").inner_text())
    assert state(figure)["step"] == 5
    step.press("Home")
    assert played(figure)["step"] == 6


def test_the_adder_adds_what_its_matrices_give(visit):
    """Both parts on and off, for sums that are chosen by keys and by the mouse;
    the same hidden states, and how many sums are right.
    """
    figure, m = drawing(visit, "07_transformer.html", "adder"), small_adder()
    for button, on, count in (
        ("", (True, True), 100),
        ("Attention", (False, True), 10),
        ("Feed-forward layer", (False, False), 0),
        ("Attention", (True, False), 0),
    ):
        if button:
            figure.get_by_role("button", name=button).press("Enter")
        figure.get_by_role("slider", name="The sum").press("ArrowUp")
        now = state(figure)
        start, by_attention, *_ = follow_last(m, [now["a"], 10, now["b"], 11]).values()
        by_attention = by_attention * on[0]
        by_feed_forward = (((start + by_attention) @ m.W_up + m.b_up).relu() @ m.W_down) * on[1]
        end = start + by_attention + by_feed_forward
        assert_close(
            numbers(now["vectors"]),
            torch.stack([start, by_attention, by_feed_forward, end]),
            **EXACT,
        )
        assert_close(numbers(now["weights"]), torch.tensor([0.5, 0, 0.5, 0]), **EXACT)
        assert (now["attends"], now["feeds"], now["count"]) == (*on, count)
        assert now["mean"] == pytest.approx((now["a"] + now["b"]) / 2 * on[0])
        assert figure.get_by_text(f"{count} of 100 right").count() == 1
        assert ("No answer" in said(figure)) == (not on[1])
    figure.get_by_role("button", name="Feed-forward layer").click()
    squares = figure.get_by_role("group", name="All hundred sums").locator("rect")
    squares.nth(46).click()
    now = state(figure)
    assert (now["a"], now["b"], now["answer"], now["count"]) == (4, 6, 0, 100)
    figure.page.keyboard.press("ArrowRight")  # keys go on from the square that was clicked
    assert (state(figure)["a"], state(figure)["b"], state(figure)["answer"]) == (4, 7, 1)


@pytest.mark.nightly
def test_a_ring_computes_what_the_package_counts(visit):
    """Who holds what, how many pairs each rank computes in each step, and the bytes;
    the figure starts in the second step.
    """
    figure = drawing(visit, "figures/ring.html", "ring")
    step = figure.get_by_role("slider", name="Step")
    assert state(figure)["step"] == 1 and state(figure)["held"] == [3, 0, 1, 2]
    for order, name in (("contiguous", "contiguous"), ("zigzag", "zig-zag")):
        figure.get_by_role("radio", name=name).check()
        for causal in (False, True):
            button = figure.get_by_role("button", name="causal mask")
            if button.get_attribute("aria-pressed") != str(causal).lower():
                button.press("Enter")
            now = state(figure)
            assert now["owned"] == [
                split_sequence(torch.arange(16), 4, rank, order, dim=-1).tolist()
                for rank in range(4)
            ]
            assert now["pairs"] == count_work(16, 4, order, causal)
            for at, key in enumerate(("Home", "ArrowRight", "ArrowRight", "ArrowRight")):
                step.press(key)
                assert state(figure)["sent"] == [at * 4 * 4096] * 4
            assert (
                f"Done: {sum(map(sum, now['pairs']))} pairs"
                in figure.locator("output").inner_text()
            )
    figure.get_by_role("radio", name="contiguous").check()
    step.press("Home")
    step.press("ArrowRight")
    assert "Rank 0 waits." in figure.locator("output").inner_text()
    assert figure.get_by_role("img", name="A ring of ranks").get_by_text("waits").count() == 1
    chips, nodes = (
        figure.get_by_role("img", name="A ring of ranks").locator(one)
        for one in ("g[data-sym=k]", "circle")
    )
    for key, step_now in (("ArrowRight", 2), ("ArrowRight", 3)):  # each chip is in its rank
        step.press(key)
        for rank, owner in enumerate(state(figure)["held"]):
            chip, node = chips.nth(owner).bounding_box(), nodes.nth(rank).bounding_box()
            far = abs(chip["x"] + chip["width"] / 2 - node["x"] - node["width"] / 2)
            assert far < 2 and node["y"] < chip["y"] < node["y"] + node["height"]
        ways = figure.get_by_role("img", name="A ring of ranks").locator("path")
        seen = ways.evaluate_all("all => all.map(one => one.getAttribute('opacity'))")
        assert seen == ["1" if step_now < 3 else "0.3"] * 4
    assert played(figure)["step"] == 3


# The dashed line of equal work goes through bars alone: texts that it meets, from its own path.
CROSSED = """figure => {
  const line = figure.querySelector("path[stroke-dasharray]");
  const edge = line.ownerSVGElement.getBoundingClientRect();
  const spans = [...line.getAttribute("d").matchAll(/M([\\d.]+) ([\\d.]+)v([\\d.]+)/g)]
    .map(([, ...place]) => place.map(Number));
  const meets = ({ left, right, top, bottom }) => spans.some(([x, y, long]) =>
    left - edge.left < x + 1 && x - 1 < right - edge.left
    && top < edge.top + y + long + 1 && edge.top + y - 1 < bottom);
  const texts = [...line.ownerSVGElement.querySelectorAll("text")];
  const met = texts.filter((one) => meets(one.getBoundingClientRect()));
  return [spans.length, ...met.map((one) => one.textContent)];
}"""


@pytest.mark.nightly
@pytest.mark.parametrize("width", [390, 1280])
def test_equal_work_is_marked_clear_of_what_is_written(visit, width):
    "With and without a mask, at each step: the counts of pairs stand beside the line."
    figure = drawing(visit, "figures/ring.html", "ring", width=width, reduced_motion="reduce")
    for _ in range(2):
        for step in "1234":
            figure.get_by_role("slider", name="Step").fill(step)
            assert figure.evaluate(CROSSED) == [4]
        figure.get_by_role("button", name="causal mask").click()


SEVEN = "seven hundred and nine thousand and fifty"


@torch.no_grad()
def early_logits(ids: list[int]) -> torch.Tensor:
    """What the translator gives after 200 steps of training,
    when it has generated some tokens of this number.
    """
    return load_translator(200)(read_text(SEVEN), torch.tensor([[START, *ids]]))[0, -1]


# How many dots lie in each column, and of how many each vessel has the room.
HEAPS = """figure => {
  const svg = figure.querySelector(".view svg"), broad = svg.viewBox.baseVal.width / 14;
  const places = [...svg.querySelectorAll("circle")].map((dot) =>
    dot.style.transform.match(/[-\\d.]+/g).map(Number));
  const heaps = Array(14).fill(0);
  for (const [x] of places) heaps[Math.floor(x / broad)] += 1;
  const row = places.filter(([, y]) => y === Math.max(...places.map(([, y]) => y)));
  const xs = row.map(([x]) => x).sort((a, b) => a - b), room = xs[1] - xs[0];
  const full = [...svg.querySelectorAll("g > rect:first-child")];
  return [heaps, full.map((one) => 5 * parseFloat(one.style.height) / room)];
}"""


@pytest.mark.nightly
def test_the_temperature_draws_as_generate_does(visit):
    """At each beginning, with every temperature, top-k and top-p:
    the probabilities that a token is drawn with.
    """
    figure, rng = drawing(visit, "07_transformer.html", "temperature"), random.Random(0)
    figure.get_by_text("More switches").click()
    sliders = {
        name: figure.get_by_role("slider", name=name) for name in ("temperature", "top-k", "top-p")
    }
    assert (sum(state(figure)["drawn"]), state(figure)["temperature"]) == (100, 1)
    assert state(figure)["plain"] == state(figure)["probabilities"]
    tried = [
        (1, 14, 1.0),
        (0, 14, 1.0),
        (0.1, 14, 1.0),
        (3, 1, 1.0),
        (1, 2, 1.0),
        (2, 14, 0.5),
        (3, 5, 0.05),
    ]
    tried += [
        (rng.randrange(1, 31) / 10, rng.randrange(1, 15), rng.randrange(1, 20) / 20)
        for _ in range(9)
    ]
    for i, prefix in enumerate(["", "7", "709"]):
        figure.get_by_role("radio").nth(i).check()
        logits = early_logits([TARGET.ids[digit] for digit in prefix])
        for heat, k, p in tried:
            for name, value in {"temperature": heat, "top-k": k, "top-p": p}.items():
                sliders[name].fill(str(value))
            cut = logits.masked_fill(logits < logits.topk(k).values[-1], float("-inf"))
            want = (
                torch.zeros(14).index_fill(0, logits.argmax()[None], 1)
                if heat == 0
                else (cut / heat).softmax(-1)
            )
            if p < 1:
                want = _most_probable(want[None], p)[0]
            assert_close(
                numbers(state(figure)["probabilities"]), want / want.sum(), atol=1e-4, rtol=0
            )
            cuts = figure.locator(".view text[style*=line-through]").count()
            assert cuts == int((want == 0).sum()), (heat, k, p)
    sliders["top-k"].fill("2"), sliders["top-p"].fill("1"), sliders["temperature"].fill("1")
    figure.get_by_role("button", name="Draw 100 tokens").click()
    now = state(figure)
    assert sum(now["drawn"]) == 100 and all(
        bool(n) <= (p > 0) for n, p in zip(now["drawn"], now["probabilities"])
    )
    best = now["probabilities"].index(max(now["probabilities"]))
    assert abs(now["drawn"][best] / 100 - now["probabilities"][best]) < 0.15
    sliders["temperature"].press("ArrowRight")
    assert sum(state(figure)["drawn"]) == 100 and "Only 2 tokens can be drawn" in said(figure)
    sliders["temperature"].press("ArrowLeft")  # the same hundred numbers draw the same tokens
    assert state(figure)["drawn"] == now["drawn"]
    heaps, vessels = figure.evaluate(HEAPS)
    order = logits.argsort(descending=True).tolist()
    assert heaps == [now["drawn"][i] for i in order]
    assert vessels == pytest.approx([100 * p for p in now["probabilities"]], abs=0.01)
    dashed = figure.locator(".view svg path[stroke-dasharray]")
    assert dashed.get_attribute("d") is None
    sliders["temperature"].fill("2")  # what is lost was theirs at this temperature
    lost = 1 - float((logits / 2).softmax(-1).topk(2).values.sum())
    assert f"the others lost {lost:.2f}." in said(figure)
    before = [float(high) for high in re.findall(r"v-([\d.e-]+)h", dashed.get_attribute("d"))]
    want = [now["plain"][i] for i in order]  # at temperature 1, of all
    assert [high / before[0] for high in before] == pytest.approx([p / want[0] for p in want])


@pytest.mark.nightly
def test_the_tree_keeps_what_beam_search_keeps(visit):
    "Every width, at every step, by keys and by Play; in the end, its log-probability."
    figure = drawing(visit, "08_translation.html", "beams")
    model, source, slider = (
        load_translator(200),
        read_text(SEVEN),
        figure.get_by_role("slider", name="Step"),
    )
    assert (state(figure)["width"], state(figure)["step"]) == (2, 3)
    for width in (1, 2, 3):
        figure.get_by_role("radio", name=str(width), exact=True).check()
        slider.press("Home")
        for n in range(1, 9):
            ids, log_p = beam_search(model, source, width, n)
            now = state(figure)
            assert [one["ids"] for one in now["kept"]] == [
                [i for i in row if i] for row in ids[0].tolist()
            ]
            assert_close(
                numbers([one["total"] for one in now["kept"]]), log_p[0], atol=1e-3, rtol=0
            )
            if now["done"]:
                break
            assert len(now["dropped"]) == 2 and all(
                one not in now["kept"] for one in now["dropped"]
            )
            assert f"Step {n}: of " in said(figure)
            slider.press("ArrowRight")
        assert now["done"] and all(END in one["ids"] for one in now["kept"])
        best, *_ = now["kept"]
        whole = "\u00a0".join(TARGET.tokens[i] for i in best["ids"] if i != END)
        assert figure.locator("svg text", has_text=re.compile(f"^{whole}$")).count() == 1
        told = said(figure)  # in which no sequence breaks
        assert ("“7 0 9 0 5 0” (−2.23)".replace(" ", "\u00a0") in told) == (width > 1) and (
            "“7 9 0 0 5 0” (−2.90)".replace(" ", "\u00a0") in told
        )
    slider.press("Home")
    assert played(figure)["done"]
    figure = drawing(visit, "08_translation.html", "beams", width=390)
    rows = figure.locator("svg text").filter(has_text=re.compile(r"^\d: "))
    kept = [" ".join(TARGET.tokens[i] for i in one["ids"]) for one in state(figure)["kept"]]
    written = [row.replace("\u00a0", " ") for row in rows.all_text_contents()]
    assert written == [f"{i}: {one}" for i, one in enumerate(kept, 1)] and len(kept) == 2


STRUCK = """figure => {  // the numbers through which a line of the tree runs
  const [radios, range] = ["radio", "range"].map((kind) =>
    [...figure.querySelectorAll(`input[type=${kind}]`)]);
  const found = [];
  for (const one of radios) for (let step = 1; step <= 7; step++) {
    one.click();
    range[0].value = step;
    range[0].dispatchEvent(new Event("input"));
    const boxes = [...figure.querySelectorAll("text.halo")].map((text) => text.getBBox());
    for (const line of figure.querySelectorAll("svg path[stroke-width]")) {
      for (let far = 0; far < line.getTotalLength(); far += 2) {
        const { x, y } = line.getPointAtLength(far);
        const hit = boxes.some((box) => x > box.x - 3 && x < box.x + box.width + 3
          && y > box.y + 2 && y < box.y + box.height - 2);
        if (hit) found.push(`width ${one.value}, step ${step}: ${x}, ${y}`);
      }
    }
  }
  return found;
}"""


@pytest.mark.nightly
@pytest.mark.parametrize("width", [390, 1280])
def test_no_line_of_the_tree_runs_through_a_number(visit, width):
    figure = drawing(visit, "08_translation.html", "beams", width=width, reduced_motion="reduce")
    assert figure.locator("svg path[stroke-width]").count() > 3
    assert figure.evaluate(STRUCK) == []
    now = state(figure)  # only hypotheses that are kept have their number
    texts = figure.locator("svg text", has_text=re.compile(r"^−\d\.\d\d$")).count()
    assert texts == now["width"] * now["step"]


@pytest.mark.nightly
def test_scores_spread_as_the_formula_says(visit):
    """At every width, plain and divided: counts, standard deviation, weights of one query,
    and what the softmax lets through.
    """
    figure, rng = (
        drawing(visit, "03_self_attention.html", "spread"),
        torch.Generator().manual_seed(11),
    )
    q, k = torch.randn(512, 1, 1024, generator=rng), torch.randn(512, 8, 1024, generator=rng)
    upstream, first = torch.randn(512, 1, 8, generator=rng)[:, 0].double(), None
    slider = figure.get_by_role("slider", name="width d")
    assert (state(figure)["width"], state(figure)["query"]) == (16, 5)
    for scaled in (False, True):
        slider.press("Home")
        for d in (2**i for i in range(11)):
            scores = (q[..., :d].double() * k[..., :d].double()).sum(-1) * (
                d**-0.5 if scaled else 1
            )
            weights, now = scores.softmax(-1), state(figure)
            # through a softmax, by hand
            arrived = weights * (upstream - (weights * upstream).sum(-1, keepdim=True))
            left = arrived.norm(dim=-1).mean()
            first = left if first is None else first
            assert (now["width"], now["scaled"]) == (d, scaled)
            assert_close(numbers(now["weights"]), weights[now["query"]].float(), atol=1e-3, rtol=0)
            assert now["gradient"] == pytest.approx((left / first).item(), abs=1e-3)
            assert now["deviation"] == pytest.approx(scores.std().item(), abs=1e-3)
            limit, bins = (4.2, 42) if scaled else (41, 82)  # a bin on either side is of all beyond
            want = torch.histc(scores.clamp(-limit, limit), bins, -limit, limit)
            ends = figure.locator("svg text", has_text="beyond").all_text_contents()
            part = [round(100 * beyond / 4096) for beyond in (want[0].item(), want[-1].item())]
            shown = [n for n in part if n and not scaled]
            assert [int(end.split("(")[1].split("%")[0]) for end in ends] == shown
            # at an edge one may round
            assert (
                sum(now["counts"]) == 4096
                and (numbers(now["counts"]) - want.float()).abs().sum() <= 8
            )
            assert f"Width {d:,}" in said(figure)
            slider.press("ArrowRight")
        figure.get_by_role("button", name="divide by √d").press("Enter")
        figure.get_by_role("button", name="Another query").click()
    assert state(figure)["query"] == 7 and not state(figure)["scaled"]


@pytest.mark.nightly
def test_play_divides_the_scores_at_its_end(visit):
    "And begins anew with scores that are not divided; what a reader divides stays divided."
    figure = drawing(visit, "03_self_attention.html", "spread", reduced_motion="reduce")
    slider, play = figure.get_by_role("slider", name="width d"), figure.locator("button.play")
    divide = figure.get_by_role("button", name="divide by √d")
    for divided in (False, True):
        slider.fill("9")
        if divided:
            divide.click()
        play.click()
        assert (state(figure)["width"], state(figure)["scaled"]) == (1024, divided)
        expect(divide).to_have_attribute("aria-pressed", "true")
        expect(play).to_have_text("▶ Play")
        play.click()
        assert (state(figure)["width"], state(figure)["scaled"]) == (1, divided)
        play.click()


@pytest.mark.nightly
def test_the_stream_goes_forward_and_back(visit):
    """Each moment shows the lengths of its block, and says them;
    on the way back, those of the gradients, and at the end those where gradients began.
    """
    figure = drawing(visit, "07_transformer.html", "stream")
    pre, post = given(figure)["runs"]
    slider, n = figure.get_by_role("slider", name="Pass"), len(pre["lengths"])
    assert n == 24 and (state(figure)["moment"], state(figure)["block"]) == (47, 1)  # all is drawn
    ratios = [
        figure.locator("svg").get_by_text(f"×{post['gradients'][i] / pre['gradients'][i]:.1f}")
        for i in (0, -1)
    ]
    for ratio in ratios:
        expect(ratio).to_be_visible()
    slider.press("ArrowLeft")
    for ratio in ratios:
        expect(ratio).to_be_hidden()  # until the backward pass has ended
    slider.press("Home")
    written = figure.locator("svg text.halo:not([visibility=hidden])")
    for moment in range(2 * n):
        now, back = state(figure), moment >= n
        i = 2 * n - 1 - moment if back else moment
        assert (now["moment"], now["back"], now["block"]) == (moment, back, i + 1)
        told = n - 1 if moment == 2 * n - 1 else i
        shown = [run["gradients" if back else "lengths"][told] for run in (pre, post)]
        spoken = re.findall(r"(\d+\.\d+) with", said(figure))
        near = pytest.approx(shown, abs=6e-4 if back else 0.06)
        assert written.all_text_contents() == spoken and [float(x) for x in spoken] == near
        assert f"block {told + 1}" in said(figure)
        bars = figure.locator("svg").first.locator("path").nth(int(back)).get_attribute("d")
        heights = [abs(int(high)) for high in re.findall(r"v(-?\d+)h", bars)]
        assert len(heights) == n
        assert heights.count(1) == (i if back else n - 1 - i), moment  # to which no pass has come
        slider.press("ArrowRight")
    slider.press("Home")
    assert played(figure)["moment"] == 2 * n - 1


def tokens_of(n: int) -> torch.Tensor:
    "Keys and values of some tokens, for one sequence of a paged cache."
    return torch.zeros(2, 1, 1, n, 1)


def step(pool: PagedCache, rows: list, chosen: int, name: str) -> int:
    "Do with a paged cache what a button of the seat map does; the row that is chosen then."
    free_row, sequences = (
        rows.index(None) if None in rows else None,
        [seq for seq in rows if seq is not None],
    )
    if name == "Next token":
        for seq in sequences:
            try:
                if pool.lengths[seq] < 16:
                    pool.append([seq], *tokens_of(1))
            except ValueError:  # no block is free: it waits
                pass
    elif name == "End" and rows[chosen] is not None:
        pool.free(rows[chosen])
        rows[chosen] = None
        return next((r for r, seq in enumerate(rows) if seq is not None), 0)
    elif name == "New sequence" and free_row is not None and len(pool.free_blocks) >= 2:
        rows[free_row] = pool.new()
        pool.append([rows[free_row]], *tokens_of(6))
        return free_row
    elif name == "Fork" and free_row is not None and rows[chosen] is not None:
        rows[free_row] = pool.fork(rows[chosen])
        return free_row
    return chosen


# Presses one button after the other, or chooses a sequence: what the figure holds,
# who finds no room in buffers, and what it says.
PRESSED = """(figure, names) => {
  const parts = (kind) => [...figure.querySelectorAll(kind)];
  const out = () => parts(".view div:not(:has(*))").map((node) => node.textContent)
    .find((text) => text.startsWith("no room for ")) ?? "";
  return names.map((name) => {
    const pressed = parts(".view button").find((one) => one.textContent.startsWith(name))
      ?? figure.querySelector(`input[aria-label="${name}"]`);
    pressed.click();
    const said = figure.querySelector("output").textContent;
    return [structuredClone(figure.state()), out(), said];
  });
}"""


def pool_state(pool: PagedCache, rows: list, chosen: int) -> dict:
    "What the seat map holds of a paged cache of twelve blocks of four slots."
    used = {
        (block, i)
        for seq, table in pool.block_tables.items()
        for at, block in enumerate(table)
        for i in range(min(4, pool.lengths[seq] - 4 * at))
    }
    fits = [pool.lengths[seq] for seq in rows if seq is not None][:3]  # 48 slots, buffers of 16
    return {
        "chosen": chosen,
        "tables": [None if seq is None else [*pool.block_tables[seq]] for seq in rows],
        "lengths": [None if seq is None else pool.lengths[seq] for seq in rows],
        "free": [*pool.free_blocks],
        "counts": [*pool.ref_counts],
        "blocks": {"taken": len(used), "reserved": 4 * (12 - len(pool.free_blocks))},
        "buffers": {"taken": sum(fits), "reserved": 16 * len(fits)},
    }


def test_the_seat_map_allocates_as_the_paged_cache_does(visit):
    """Any order of buttons, with full memory, full lists and full sequences: tables, lengths,
    free blocks and counts; and what stays empty.
    """
    figure = drawing(visit, "figures/seat_map.html", "seat_map")
    pool, rng = PagedCache(12, 4, 1, 1), random.Random(0)
    first, second, third = pool.new(), pool.new(), pool.new()
    for seq, n in {first: 6, second: 9, third: 3}.items():
        pool.append([seq], *tokens_of(n))
    pool.free(second)
    fourth, fifth = pool.fork(first), pool.new()
    pool.append([fifth], *tokens_of(10))
    rows, chosen, pressed, wanted = [first, third, fourth, fifth, None, None], 2, [], []
    names = ["Next token", "New sequence", "Fork", "End"] * 40
    for name in ["Next token"] * 2 + rng.sample(names, len(names)):
        chosen = step(pool, rows, chosen, name)
        pressed.append(name)
        wanted.append(pool_state(pool, rows, chosen))
        if rng.random() < 0.3 and pool.lengths:
            chosen = rng.choice([r for r, seq in enumerate(rows) if seq is not None])
            pressed.append(f"sequence {'ABCDEF'[chosen]}")
            wanted.append(pool_state(pool, rows, chosen))
    found = figure.evaluate(PRESSED, pressed)
    assert [now for now, *_ in found] == wanted
    buffers = figure.get_by_role("img", name="The same memory in buffers")
    assert buffers.locator("rect").count() == 48  # as many slots, and as many taken, as are counted
    taken = buffers.locator("rect:not([fill=none])").count()
    assert taken == wanted[-1]["buffers"]["taken"] > 0
    for now, (_, out, _) in zip(wanted, found):
        lacking = [who for who, n in zip("ABCDEF", now["lengths"]) if n is not None][3:]
        assert re.findall("[A-F]", out) == lacking
    told = " ".join(text for *_, text in found)
    assert all(part in told for part in ("must wait", "was shared", "no place", "still use"))


@pytest.mark.nightly
def test_a_write_to_a_shared_block_copies_it_first(visit):
    "The block loses its frame, an arrow says whose copy went where, and the token lands in it."
    figure = drawing(visit, "10_kv_cache.html", "seat_map", reduced_motion="reduce")
    board = figure.get_by_role("img", name="The memory in blocks")
    framed, copied = board.locator("g[fill=none] > rect"), board.get_by_text("copy for A")
    sides = [framed.nth(i).bounding_box()["x"] for i in range(framed.count())]
    assert len(sides) == 2 and copied.count() == 0
    figure.get_by_role("button", name="Next token").click()
    assert [framed.nth(i).bounding_box()["x"] for i in range(framed.count())] == sides[:1]
    assert copied.count() == 1 and state(figure)["tables"][:3] == [[0, 6], [5], [0, 1]]
    place = board.get_by_text("6", exact=True).bounding_box()
    held = board.get_by_text("A", exact=True).evaluate_all(
        "(all) => all.map((one) => one.getBoundingClientRect().x)"
    )
    assert len([x for x in held if abs(x - place["x"]) < 6]) == 3
    figure.get_by_role("button", name="Next token").click()
    assert copied.count() == 0  # nothing is shared by those who write


def machine_in_the_chapter() -> LanguageModel:
    "The small model of the figure, with the weights that the package has."
    trained = small_model()
    model = new_model(**trained.about["config"])
    model.load_state_dict(trained.state(trained.steps[-1]))
    return model.eval()


def follow_in_the_chapter(model: LanguageModel, ids: torch.Tensor) -> list[torch.Tensor]:
    """What comes out of each part, by the classes of the chapter,
    in the order of the figure's steps.
    """
    x = model.embed(ids)
    found = [model.embed.table(ids), x]
    for block in model.stack.blocks:
        normed = block.attention_norm(x)
        by_attention = block.attention(normed, causal=True)[0]
        between = x + by_attention
        normed_again = block.feed_forward_norm(between)
        by_feed_forward = block.feed_forward(normed_again)
        x = between + by_feed_forward
        found += [normed, by_attention, between, normed_again, by_feed_forward, x]
    logits = model(ids)
    return [*found, model.stack.norm(x), logits, logits.softmax(-1)]


def test_the_machine_computes_what_the_chapter_computes(visit):
    """Each step by the slider, for other digits, too; what attention attends to;
    its parts say what they do and are clicked.
    """
    figure, model = drawing(visit, "07_transformer.html", "machine"), machine_in_the_chapter()
    parts, large = parts_of(8, 32, 12, 4), parts_of(768, 3072, 50257, 1024)
    assert state(figure)["name"] == "Causal self-attention"
    slider, output = figure.get_by_role("slider", name="Step"), figure.locator("output")
    long, room = slider.bounding_box()["width"], figure.locator(".view").bounding_box()["width"]
    assert long > 0.6 * room
    slider.press("Home")
    order = [0, 1, 2, *2 * [3, 4, 5, 6, 7, 8], 9, 10, 11, 12]
    for i, part in enumerate(order):
        now, said = state(figure), output.inner_text()
        assert (now["step"], now["name"], now["next"]) == (i, parts[part].name, 7)
        assert said.startswith(parts[part].name) and parts[part].says in said
        here, there = (one[part].parameters for one in (parts, large))
        counted = f"{here:,} parameters (GPT-2: {there:,})" if here else "no parameters"
        for fact in (f"shape {parts[part].shape}", counted):
            assert figure.get_by_text(fact, exact=True).count() == 1
        assert bool(figure.get_by_text("=7").count()) == (part > 10)
        slider.press("ArrowRight")
    figure.get_by_role("combobox", name="first digit").select_option("0")
    figure.get_by_role("combobox", name="second digit").select_option("8")
    now = state(figure)
    assert (now["a"], now["b"], now["next"]) == (0, 8, 8) and "“8”" in output.inner_text()
    with torch.no_grad():
        want = follow_in_the_chapter(model, torch.tensor([now["ids"]]))
        weights = model.stack.blocks[1].attention(want[8], causal=True, need_weights=True)[1][0]
    for found, expected in zip(now["found"][1:-1], want, strict=True):
        assert_close(numbers(found["out"]), expected[0], atol=1e-4, rtol=0)
    assert_close(numbers(now["found"][10]["weights"]), weights, **EXACT)
    boxes = figure.get_by_role("img", name="A decoder-only transformer").locator("[style*=pointer]")
    assert boxes.count() == len(parts)
    boxes.nth(4).click()
    assert state(figure)["step"] == 10 and slider.input_value() == "11"
    slider.press("End")
    for _ in range(4):  # it does not play the whole way in the time that `played` gives it
        slider.press("ArrowLeft")
    assert played(figure)["step"] == 18
    bars = figure.locator("rect[fill='var(--neutral)']:not([fill-opacity])")  # of probabilities
    long = bars.evaluate_all("all => all.map(one => one.width.baseVal.value)")
    shares = want[-1][0, -1]
    assert len(long) == 12 and [i for i, one in enumerate(long) if one > 1] == [now["next"]]
    axis = figure.locator("path[stroke='var(--faint)']").evaluate_all(
        "all => all.map(one => one.getBBox().x)"
    )
    assert long[8] / (max(axis) - sorted(axis)[-3]) == pytest.approx(shares[8].item(), abs=1e-3)
    slider.fill("3")
    out = numbers(state(figure)["found"][2]["out"]).flatten()
    numbers_of = figure.get_by_role("img", name="The numbers of step")
    squares = numbers_of.locator("rect[fill-opacity]")
    looks = squares.evaluate_all(
        "all => all.map(one => [one.getAttribute('fill'), +one.getAttribute('fill-opacity')])"
    )[-len(out) :]
    for x, (fill, shade) in zip(out.tolist(), looks, strict=True):
        assert fill == f"var(--{'rose' if x < 0 else 'neutral'})"
        assert shade == pytest.approx(0.7 * abs(x) / out.abs().max().item(), abs=2e-3)


# ---- Trained models ----


def heads_of(
    model: torch.nn.Module, *inputs: torch.Tensor
) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    "What a model gives, without the batch, and what every head of every layer attends to."
    found = {}

    def keep(layer, args, kwargs, out, name):
        found[name] = layer.forward(*args, **kwargs, need_weights=True)[1][0]

    layers = {
        name: layer
        for name, layer in model.named_modules()
        if isinstance(layer, MultiHeadAttention)
    }
    hooks = [
        layer.register_forward_hook(partial(keep, name=name), with_kwargs=True)
        for name, layer in layers.items()
    ]
    with torch.no_grad():
        out = model(*inputs)[0]
    for hook in hooks:
        hook.remove()
    return out, found


def type_in(figure: Locator, text: str) -> dict:
    "What the figure holds when somebody has typed this."
    box = figure.get_by_role("textbox", name="A number in words")
    box.fill(text)
    box.press("Enter")
    return state(figure)


def answer_of(model: torch.nn.Module, words: list[str], data: dict) -> list[str]:
    "What Python generates for these words."
    source, target = data["source"], data["target"]
    ids = generate_tokens(
        model,
        [source.index(word) for word in words],
        target.index("<start>"),
        target.index("<end>"),
        data["most"][1],
    )
    return [target[i].strip("<>") for i in ids]


def test_a_translator_computes_what_python_computes(visit):
    """At the first, a middle and the last step: logits and the weights of every head,
    for numbers of all lengths.
    """
    figure = drawing(visit, "figures/translator.html", "translator")
    data = given(figure)
    steps = data["model"]["steps"]
    assert len(steps) >= 12 and steps[0] == 0
    slider = figure.get_by_role("slider", name="Training step")
    for step in (steps[-1], steps[4], steps[0]):
        slider.fill(str(steps.index(step)))
        model = load_translator(step).eval()
        for text in [
            "seven",
            "four hundred and two",
            "nine hundred and ninety nine thousand nine hundred and ninety nine",
        ]:
            now = type_in(figure, text)
            assert (now["words"], now["step"]) == (text.split(), step)
            ids = [
                data["target"].index("<start>"),
                *(
                    data["target"].index(f"<{one}>" if one.isalpha() and one != "la" else one)
                    for one in now["out"][:-1]
                ),
            ]
            logits, weights = heads_of(
                model,
                torch.tensor([[data["source"].index(word) for word in now["words"]]]),
                torch.tensor([ids]),
            )
            assert now["out"] == answer_of(model, now["words"], data)
            assert_close(numbers(now["logits"]), logits, **EXACT)
            assert_close(numbers(now["shares"]), logits.softmax(-1).amax(-1), **EXACT)
            assert now["seen"].keys() == weights.keys() and len(weights) == 3
            for name, found in weights.items():
                assert_close(numbers(now["seen"][name]), found, **EXACT)


def in_words(n: int, small: list[str], tens: list[str]) -> list[str]:
    "A number below a million as the corpus spells it."
    if n < 100:
        return (
            [small[n]]
            if n < 20
            else [tens[n // 10 - 2], *(in_words(n % 10, small, tens) if n % 10 else [])]
        )
    if n < 1000:
        return [
            small[n // 100],
            "hundred",
            *(["and", *in_words(n % 100, small, tens)] if n % 100 else []),
        ]
    rest = n % 1000
    return [
        *in_words(n // 1000, small, tens),
        "thousand",
        *["and"] * (0 < rest < 100),
        *(in_words(rest, small, tens) if rest else []),
    ]


@pytest.mark.nightly
def test_eighty_numbers_become_the_same_digits(visit):
    "In the page as in Python, typed in words, and of every length; nearly all are right."
    figure = drawing(visit, "figures/translator.html", "translator")
    figure.get_by_role("slider", name="Training step").press("End")
    data, chance, model = given(figure), random.Random(0), load_translator().eval()
    words = [word for word, _ in data["values"]]
    right = 0
    for n in [chance.randrange(10 ** chance.randint(1, 6)) for _ in range(80)]:
        now = type_in(figure, " ".join(in_words(n, words[:20], words[20:28])))
        assert now["out"] == answer_of(model, now["words"], data), n
        right += now["out"] == [*str(n), "end"]
    assert right >= 76


TYPED = {
    "Four-Hundred and TWO": "four hundred and two",
    "four hundred two": "four hundred and two",
    "402": "four hundred and two",
    " 60,008 ": "sixty thousand and eight",
    "one thousand, one hundred.": "one thousand one hundred",
    "0": "zero",
    "999 999": "nine hundred and ninety nine thousand nine hundred and ninety nine",
    "two two": "two two",
}


@pytest.mark.nightly
def test_a_translator_reads_what_people_type(visit):
    "With hyphens, commas, capitals, digits, and without “and”."
    figure = drawing(visit, "figures/translator.html", "translator")
    for typed, words in TYPED.items():
        now = type_in(figure, typed)
        assert now["words"] == words.split(), typed
        assert figure.get_by_role("textbox").input_value() == words, typed
        assert ("not a number" in said(figure)) == (typed == "two two"), typed


@pytest.mark.nightly
def test_a_translator_says_what_it_does_not_know(visit):
    "And what it shows stays, without a verdict."
    figure = drawing(visit, "figures/translator.html", "translator")
    before = state(figure)
    for typed, says in {
        "fourty two": "“fourty”. Did you mean “forty”?",
        "a dozen": "“a” and “dozen”",
        "one million": "below a million",
        "1000000": "below a million",
        "": "Type a number in words",
        "<pad>": "“pad”",
        "zwölf": "“zwölf”",
    }.items():
        assert type_in(figure, typed) == before and says in said(figure), typed
        assert figure.locator("svg text", has_text=re.compile("^(right|wrong)$")).count() == 0, (
            typed
        )
    type_in(figure, "forty two")
    assert figure.locator("svg text", has_text=re.compile("^(right|wrong)$")).count() > 0


@pytest.mark.nightly
def test_a_translator_is_moved_by_keys_and_by_pointing(visit):
    """Step, play, kind of attention, head and token; what is said names the answer,
    and what is attended to for it.
    """
    figure = drawing(visit, "figures/translator.html", "translator")
    steps = given(figure)["model"]["steps"]
    exact = given(figure)["exact"]  # it begins where a few answers are right, and this one is not
    first = next(i for i, part in enumerate(exact) if part > 0)
    assert state(figure)["step"] == steps[first] and "it should be 4 0 2" in said(figure)
    verdicts = figure.locator("svg text").filter(has_text=re.compile("^(right|wrong)$"))
    assert verdicts.all_text_contents() == ["right", "wrong", "wrong", "right"]  # 4 2 4, not 4 0 2
    figure.locator("span[style*='cursor: pointer']").last.click()  # the bar of the last step
    assert state(figure)["step"] == steps[-1]
    assert verdicts.all_text_contents() == ["right"] * 4
    figure.get_by_role("slider", name="Training step").press("Home")
    assert (
        state(figure)["step"] == 0
        and "After 0 steps" in said(figure)
        and "it should be 4 0 2" in said(figure)
    )
    assert played(figure)["step"] == steps[-1]
    assert "the model generates 4 0 2. That is right." in said(figure)
    figure.locator("svg rect").nth(1).click()
    now = state(figure)
    best = now["attended"]["keys"][max(range(4), key=lambda j: now["attended"]["weights"][1][j])]
    assert now[
        "chosen"
    ] == 2 and f"For “0” (probability 100%), the heads on average attend to “{best}”" in said(
        figure
    )
    figure.get_by_role("slider", name="Training step").press("ArrowLeft")
    assert state(figure)["chosen"] == 2  # still: one sees how it learns what to attend to
    figure.locator("svg rect").nth(1).click()
    assert state(figure)["chosen"] == 0
    figure.get_by_text("More switches").click()
    for kind, keys, queries in [
        ("Encoder", "four hundred and two", "four hundred and two"),
        ("Decoder", "start 4 0 2", "4 0 2 end"),
        ("Cross-attention", "four hundred and two", "4 0 2 end"),
    ]:
        figure.get_by_role("radio", name=kind).check()
        figure.get_by_role("radio", name="2", exact=True).check()
        figure.get_by_role("slider", name="Token").press("ArrowRight")
        now = state(figure)
        assert (now["attended"]["keys"], now["attended"]["queries"], now["chosen"]) == (
            keys.split(),
            queries.split(),
            1,
        )
        seen = now["seen"][
            {
                "E": "encoder.blocks.0.attention",
                "D": "decoder.blocks.0.attention",
                "C": "decoder.blocks.0.cross",
            }[kind[0]]
        ]
        assert_close(numbers(now["attended"]["weights"]), numbers(seen[2]), **EXACT)
        assert "head 2 attends to" in said(figure)
        assert (
            figure.locator("svg text[data-sym=k]").all_text_contents()[: len(keys.split())]
            == keys.split()
        )


@pytest.mark.parametrize("width", by_day([1280, 390]))
def test_a_long_number_moves_nothing_below(visit, width):
    """Nor a whole sentence:
    also when the model generates as much as it may, and one token is chosen.
    """
    figure = drawing(visit, "figures/translator.html", "translator", width=width, font=WIDE)
    below, at = figure.locator("> details"), "node => node.getBoundingClientRect().top + scrollY"
    top = below.evaluate(at)
    largest = "nine hundred and ninety nine thousand nine hundred ninety nine"
    for text in (largest, f"{largest} is {largest}"):
        type_in(figure, text)
        figure.get_by_role("slider", name="Training step").press("Home")
        figure.locator("svg rect").nth(given(figure)["most"][1] - 2).click()  # the last token
        assert len(state(figure)["out"]) == given(figure)["most"][1] - 1 == state(figure)["chosen"]
        assert below.evaluate(at) == pytest.approx(top, abs=1)
        assert out_of_room(figure.page) == []


def test_a_translator_generates_token_by_token(visit):
    "Where motion is wanted; what is drawn and said meanwhile is what was written so far."
    figure = drawing(visit, "figures/translator.html", "translator", reduced_motion="no-preference")
    figure.get_by_role("slider", name="Training step").press("End")
    clock = figure.page.clock
    clock.install(time=0)
    clock.pause_at(1000)
    type_in(figure, "twelve")
    assert "the model generates 1 …" in said(figure) and state(figure)["attended"]["queries"] == [
        "1"
    ]
    clock.run_for(600)
    assert "the model generates 1 2 …" in said(figure)
    clock.run_for(600)
    assert "the model generates 1 2. That is right." in said(figure) and state(figure)["attended"][
        "queries"
    ] == ["1", "2", "end"]


def test_weights_lie_beside_the_pages_that_need_them(visit):
    """At most 400 kB for all steps of a model; another page loads none.

    A page that is opened from a disk runs its model, too.
    """
    needs = {
        page: {
            *re.findall(r'src="[./]*(drawings/weights-\w+\.js)"', page.read_text(encoding="utf-8"))
        }
        for page in DOCS.rglob("*.html")
    }
    assert {DOCS / name for name in ("figures/translator.html", "figures/induction.html")} <= {
        page for page, files in needs.items() if files
    }
    assert not needs[DOCS / "index.html"] and not any(
        'class="weights">' in page.read_text(encoding="utf-8") for page in needs
    )
    assert set().union(*needs.values()) == {
        f"drawings/{path.name}" for path in (DOCS / "drawings").glob("weights-*.js")
    }
    # all others hold a few matrices
    models = needs[DOCS / "figures/translator.html"] | needs[DOCS / "figures/induction.html"]
    for path in (DOCS / "drawings").glob("weights-*.js"):
        size = len(b64decode(path.read_text(encoding="utf-8").rsplit('"', 2)[1]))
        assert (100_000 if f"drawings/{path.name}" in models else 0) < size <= 400_000, path.name
    figure = drawing(visit, (DOCS / "figures/translator.html").as_uri(), "translator")
    assert state(figure)["out"] == ["4", "2", "4", "end"]


FRAMES = "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"


def test_weights_are_loaded_when_their_figure_comes_near(visit):
    "Not by a page that is only opened; on paper stands the still picture until then."
    visited = visit("08_translation.html", width=390, height=700)
    page, figure = visited.page, visited.page.locator("figure[data-drawing=translator]")
    loaded = lambda: [one.url for one in visited.requests if "/drawings/weights-" in one.url]
    page.evaluate(FRAMES)
    assert not loaded() and not figure.evaluate("figure => figure.state")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert figure.locator(".view .still svg").count() == 1
    page.evaluate("scrollTo({ top: 200, behavior: 'instant' })")
    page.wait_for_function("document.querySelector('figure[data-drawing=translator]').state")
    assert len(loaded()) == 1 and state(figure)["out"] == ["4", "2", "4", "end"]
    assert figure.locator(".view .still").count() == 0


def passed_on(model: torch.nn.Module, ids: torch.Tensor) -> dict[str, torch.Tensor]:
    "What the heads of each layer pass on, (b, n, h * d_head)."
    found = {}
    layers = {
        name: layer
        for name, layer in model.named_modules()
        if isinstance(layer, MultiHeadAttention)
    }
    hooks = [
        layer.out_proj.register_forward_pre_hook(
            lambda _, args, name=name: found.update({name: args[0]})
        )
        for name, layer in layers.items()
    ]
    with torch.no_grad():
        model(ids)
    for hook in hooks:
        hook.remove()
    return found


def switched_off(model: torch.nn.Module, off: list[str], others: torch.Tensor) -> torch.nn.Module:
    "The model with heads that pass on their mean over other sequences."
    means = {
        name: context.flatten(0, 1).mean(0) for name, context in passed_on(model, others).items()
    }
    for name in means:
        layer, heads = (
            model.get_submodule(name),
            [int(one.split()[1]) for one in off if one.split()[0] == name],
        )

        def replace(_, args, name=name, heads=heads, width=layer.d_head):
            x = args[0].clone()
            for head in heads:
                x[..., head * width : (head + 1) * width] = means[name][
                    head * width : (head + 1) * width
                ]
            return (x,)

        layer.out_proj.register_forward_pre_hook(replace)
    return model


@pytest.mark.nightly
def test_the_copying_model_computes_what_python_computes(visit):
    "At the first, a middle and the last step, with all heads and with some switched off."
    figure = drawing(visit, "figures/induction.html", "induction")
    data = given(figure)
    steps, others = data["model"]["steps"], torch.tensor(data["others"])
    assert len(steps) >= 12 and steps[0] == 0
    slider = figure.get_by_role("slider", name="Training step")
    figure.locator("details.more > summary").click()
    for i in (len(steps) - 1, 6, 0):
        slider.fill(str(i))
        for pressed in (["Block 0, head 0"], ["Block 1, head 1", "Block 0, head 2"], []):
            for name in pressed:
                figure.get_by_role("button", name=name).click()
            now = state(figure)
            assert now["step"] == steps[i] and len(now["off"]) == len(pressed)
            model = switched_off(load_induction(steps[i]).eval(), now["off"], others)
            logits, weights = heads_of(model, torch.tensor([now["ids"]]))
            assert_close(numbers(now["logits"]), logits, **EXACT)
            for name, found in weights.items():
                assert_close(numbers(now["seen"][name]), found, **EXACT)
            for name in pressed:
                figure.get_by_role("button", name=name).click()
    figure.get_by_role("button", name="Other letters").click()
    ids = state(figure)["ids"]
    assert len({*ids}) == 8 and ids[:8] == ids[8:] and ids != data["ids"]
    logits, _ = heads_of(load_induction(0).eval(), torch.tensor([ids]))
    assert_close(numbers(state(figure)["logits"]), logits, **EXACT)


def model_of(now: dict, data: dict) -> tuple[torch.Tensor, torch.Tensor]:
    "The logits of the picture that a figure shows, and all weights, (blocks, h, 37, 37)."
    pixels = [int(data["pictures"][now["picture"]][i : i + 2], 16) for i in range(0, 1152, 2)]
    image = torch.tensor(pixels).float().view(1, 1, 24, 24) / 255
    hidden = torch.zeros(36, dtype=torch.bool)
    hidden[now["covered"]] = True
    image, model = cover_patches(image, hidden, 4), load_small_vit()
    with torch.no_grad():
        return model(image)[0], torch.stack(head_weights(model, image))[:, 0]


def assert_looks(figure: Locator) -> dict:
    "The figure holds the weights and the answer of the package, and says them."
    now, data = state(figure), given(figure)
    logits, weights = model_of(now, data)
    assert_close(numbers(now["logits"]), logits, **EXACT)
    of_block = weights[now["block"]]
    of_heads = of_block.mean(0) if now["head"] == 2 else of_block[now["head"]]
    row = of_heads[0 if now["asked"] is None else now["asked"] + 1]
    assert_close(numbers(now["weights"]), row, **EXACT)
    own = row[1:][data["shapes"][now["picture"]]].sum()
    share = logits.softmax(-1).max()
    assert said(figure).startswith(f"{100 * own:.0f}% of the ")
    assert f"says {data['names'][logits.argmax()]} ({100 * share:.0f}%)" in said(figure)
    return now


@pytest.mark.nightly
def test_the_class_token_looks_where_python_says(visit):
    "For every picture, block and head, and for patches; covered by finger, keys and buttons."
    figure = drawing(visit, "23_images.html", "patches")
    patch = lambda row, column: figure.get_by_role("button", name=f"row {row}, column {column},")
    press = lambda name: figure.get_by_role("button", name=name, exact=True).click()
    assert [*"012345"] == [str(i) for i in range(len(given(figure)["pictures"]))]
    for picture in range(6):
        figure.get_by_role("radio", name=f"picture {picture + 1},").check()
        assert assert_looks(figure)["picture"] == picture and state(figure)["covered"] == []
        press("Cover the 4 it looks at most")
        _, weights = model_of(state(figure) | {"covered": []}, given(figure))
        most = weights[1].mean(0)[0, 1:].topk(4).indices
        assert assert_looks(figure)["covered"] == sorted(most.tolist())
    figure.locator("details.more > summary").click()
    press("Uncover")
    press("Cover 4 outside the shape")
    covered = assert_looks(figure)["covered"]
    assert len(covered) == 4 and not {*covered} & {*given(figure)["shapes"][5]}
    for block in (0, 1):
        figure.get_by_role("radio", name=f"block {block}").check()
        for head in ("head 0", "head 1", "mean of both"):
            figure.get_by_role("radio", name=head).check()
            assert_looks(figure)
    press("Uncover")
    patch(1, 4).click()
    patch(1, 4).press("ArrowDown")
    figure.page.keyboard.press("Enter")
    assert assert_looks(figure)["covered"] == [10, 16]
    patch(2, 4).press(" ")
    assert patch(1, 4).get_attribute("aria-pressed") == "true"
    assert "covered" in patch(1, 4).get_attribute("aria-label")
    figure.get_by_role("radio", name="asks it").check()
    patch(5, 0).click()
    now = assert_looks(figure)
    assert (now["asked"], now["covered"]) == (30, [10]) and "row 5, column 0" in said(figure)
    patch(0, 3).press("ArrowUp")
    figure.page.keyboard.press("Enter")
    assert assert_looks(figure)["asked"] is None and "class token" in said(figure)


def known_by(kind: str, ids: torch.Tensor, pairs: int) -> torch.Tensor:
    "How surely a trained model of chapter 24 knows each number, asked after some pairs."
    names, right = ids[0, : 2 * pairs : 2], ids[0, 1 : 2 * pairs : 2]
    asked = torch.cat([ids[:, : 2 * pairs].expand(pairs, -1), names[:, None]], 1)
    with torch.no_grad():
        chances = numbers_said(load_recall(kind), asked, 1)[:, 0].softmax(-1)
    return chances.gather(1, right[:, None] - 64)[:, 0]


@pytest.mark.nightly
def test_hybrids_know_what_the_models_know(visit):
    "After some pairs, by slider, keys and a press: recall, bytes, and what is asked for."
    figure = drawing(visit, "24_hybrid_models.html", "hybrids", reduced_motion="reduce")
    ids = draw_pairs(1, 26, 1, torch.Generator().manual_seed(5))[0]
    slider = figure.get_by_label("Pairs read")
    for pairs in (26, 9):
        slider.fill(str(pairs))
        now = state(figure)
        assert now["pairs"] == pairs
        per_pair = 2 * 32 * 4  # keys and values of two tokens, 4 bytes each
        state_bytes = 4352 // 4
        assert now["bytes"] == [
            4 * state_bytes,
            3 * state_bytes + pairs * per_pair,
            4 * pairs * per_pair,
        ]
        sizes = figure.locator("svg text", has_text="kB").all_text_contents()
        assert sizes == [f"{size / 1000:.1f} kB" for size in now["bytes"]]
        counts = figure.locator("svg text", has_text=f"of {pairs}").all_text_contents()
        assert counts == [f"{sum(p > 50 for p in row)} of {pairs}" for row in now["right"]]
        for kind, shown in zip(PATTERNS, now["right"]):
            exact = known_by(kind, ids, pairs)
            assert_close(numbers(shown) / 100, exact, atol=0.011, rtol=0)
    spot = figure.get_by_role("slider", name="Name that is asked for")
    spot.press("ArrowRight")
    assert state(figure)["asked"] == 3 and "D is asked for" in said(figure)
    box = spot.bounding_box()
    spot.click(position={"x": box["width"] * 7.5 / 26, "y": 30})
    assert state(figure)["asked"] == 7
    slider.fill("4")
    assert state(figure)["asked"] == 3
    figure = drawing(visit, "24_hybrid_models.html", "hybrids", width=390)
    figure.get_by_label("Pairs read").fill("26")
    spot = figure.get_by_role("slider", name="Name that is asked for")
    box = spot.bounding_box()
    spot.click(position={"x": box["width"] * 7.5 / 13, "y": box["height"] * 0.8})
    assert state(figure)["asked"] == 13 + 7  # in the lower line of names


@pytest.mark.nightly
def test_a_head_is_switched_off_by_a_click(visit):
    """Without either of the two heads nothing is copied; without another everything is.

    Letters are chosen by pointing and by keys.
    """
    figure = drawing(visit, "figures/induction.html", "induction")
    assert "7 of 7 repeated letters" in said(figure) and "which is right." in said(figure)
    copied = figure.locator("svg text", has_text="copied")
    assert copied.count() == 1
    figure.locator("details.more > summary").click()
    for name, right in {
        "Previous-token head": range(3),
        "Induction head": range(3),
        "Block 0, head 3": [7],
    }.items():
        head = figure.get_by_role("button", name=name)
        head.press("Enter")
        assert (
            head.get_attribute("aria-pressed") == "false"
            and sum(state(figure)["right"]) in right
            and "one head off" in said(figure)
        ), name
        assert copied.count() == ("head 3" in name)
        dashed = figure.locator("svg path[stroke-dasharray='3 5']").count()
        assert bool(dashed) == ("head 3" not in name)
        head.click()
    figure.get_by_role("slider", name="Training step").press("Home")
    assert (
        sum(state(figure)["right"]) <= 2
        and played(figure)["step"] == given(figure)["model"]["steps"][-1]
    )
    figure.get_by_role("slider", name="Letter").press("Home")
    assert state(figure)["chosen"] == 0 and "for the first time" in said(figure)
    figure.locator("svg").hover(
        position={"x": figure.locator("svg").bounding_box()["width"] * 12.5 / 16, "y": 130}
    )
    now = state(figure)
    letters = [given(figure)["names"][i] for i in now["ids"]]
    name = figure.locator("svg").get_attribute("aria-label")
    assert now["chosen"] == 12 and f"at “{letters[12]}”, position 12" in name
    assert f"the induction head attends to “{letters[13]}”, position 5" in name
    assert f"the previous-token head attends to “{letters[12]}”, position 4" in name
    figure.get_by_role("button", name="Induction head").click()
    assert "the induction head is off" in figure.locator("svg").get_attribute("aria-label")


@pytest.mark.nightly
def test_only_a_right_letter_is_called_copied(visit):
    "Without the previous-token head, of several draws of letters and each of them."
    figure = drawing(visit, "figures/induction.html", "induction")
    figure.page.evaluate(
        "let seed = 1; Math.random = () => (seed = seed * 16807 % 2147483647) / 2147483647"
    )
    figure.get_by_role("button", name="Previous-token head").click()
    copied, letter = (
        figure.locator("svg text", has_text="copied"),
        figure.get_by_role("slider", name="Letter"),
    )
    for _ in range(5):
        figure.get_by_role("button", name="Other letters").click()
        letter.press("End")
        for _ in range(7):
            letter.press("ArrowLeft")
            now = state(figure)
            assert copied.count() <= now["right"][now["chosen"]]


# The fill of each cell.
COLOURS = "cells => cells.map((cell) => getComputedStyle(cell).backgroundColor)"


@pytest.mark.nightly
def test_the_entrance_shows_every_bug(visit):
    "By the list and by the buttons: each has both its tables, its story and the way to it."
    figure = drawing(visit, "checks/gallery.html", "entrance", reduced_motion="reduce")
    page, bugs = figure.page, given(figure)["bugs"]
    pairs = page.locator("article figure.pair:not(.drawing *)")
    assert len(bugs) == 16 == pairs.count()
    for i, (title, story) in enumerate(bugs):
        figure.get_by_role("combobox").select_option(str(i))
        now = state(figure)
        assert (now["shown"], now["title"], now["tables"]) == (i, title, 2)
        for side, table in zip(("bug", "repair"), pairs.nth(i).locator("table").all()):
            figure.get_by_role("radio", name=side, exact=True).check()
            assert figure.locator(".view table").inner_text() == table.inner_text()
            shown = figure.locator(".view td").evaluate_all(COLOURS)
            assert side == "bug" or shown == table.locator("td").evaluate_all(COLOURS)
        assert figure.locator("output").inner_text() == f"{i + 1}. {title}: {story}"
        assert (
            page.locator(f"section[id='{now['id']}'] > h3")
            .inner_text()
            .startswith(f"{i + 1}. {title}")
        )
    figure.get_by_role("button", name="The next bug").press("Enter")
    assert state(figure)["shown"] == 0
    figure.get_by_role("button", name="The bug before").click()
    assert state(figure)["shown"] == 15
    figure.get_by_role("link").click()
    assert page.url.endswith("#an-option-without-a-test")


# ---- One hue for each symbol ----

# What a drawing shows at first sight, or when a button is pressed: queries, keys, values, weights.
SHOWN = {
    ("adder", ""): "w",
    ("arrows", ""): "kq",
    ("attend", ""): "kqvw",
    ("attend", "match"): "kqvw",
    ("attend", "weights"): "kqvw",
    ("cache_steps", ""): "kqvw",
    ("few_keys", ""): "kqw",
    ("head_film", ""): "kqw",
    ("induction", ""): "vw",
    ("latent", ""): "kqvw",
    ("machine", ""): "w",
    ("mask_board", ""): "kqw",
    ("hybrids", ""): "w",
    ("memory", ""): "kv",
    ("patches", ""): "w",
    ("programs", ""): "kq",
    ("ring", ""): "kq",
    ("same_words", ""): "vw",
    ("scores", ""): "w",
    ("senses", ""): "kqw",
    ("sharing", ""): "kqv",
    ("sinks", ""): "vw",
    ("sinks_window", ""): "w",
    ("spread", ""): "w",
    ("state_steps", ""): "kqvw",
    ("subject", ""): "kqvw",
    ("sums", ""): "w",
    ("tiles", ""): "kqvw",
    ("translator", ""): "kqw",
    ("rotating", ""): "kq",
    ("window_board", ""): "kq",
}
ON_CANVAS = {"head_view"}  # which forced colours leave as it is
LIBRARIES = {"drawing", "engine"}  # on which drawings build
ALL = sorted(
    path.stem for path in (ROOT / "attention_nb/figures").glob("*.js") if path.stem not in LIBRARIES
)
# Rows, costs, and pictures; head_view paints weights.
NONE_OF_THEM = {
    "entrance",
    "head_cut",
    "head_view",
    "beams",
    "lookup",
    "roofline",
    "seat_map",
    "serving",
    "stream",
    "temperature",
}
LOOKS = """(view) => {
  const look = (node) => {
    const shape = node.localName === "g" ? node.firstElementChild : node;
    const { backgroundColor, outline, stroke, filter } = getComputedStyle(shape);
    return [backgroundColor, outline, stroke, filter].join();
  };
  const looks = (sym) => [...view.querySelectorAll(`[data-sym=${sym}]`)].map(look);
  return Object.fromEntries([..."kqvw"].map((sym) => [sym, looks(sym)])
    .filter(([, found]) => found.length));
}"""
HUE = (
    "(node, sym) => [getComputedStyle(node).getPropertyValue('--ink'), "
    "getComputedStyle(document.body).getPropertyValue(`--sym-${sym}`)]"
)


def test_every_drawing_says_what_it_shows():
    "A new one belongs into the list above."
    assert sorted({script for script, _ in SHOWN} | NONE_OF_THEM) == ALL


# Every control is used as far as it goes, there and back: what of it, or of the others,
# is new then, and does it stand elsewhere?
USED = """figure => {
  const view = figure.querySelector(".view"), control = "button, input, select, [tabindex]";
  const found = new Set(), first = new Set(view.querySelectorAll("*"));
  const parts = () => [...view.querySelectorAll(`${control}, button *, label *`)];
  const text = (node) => node.ariaLabel ?? node.closest("label")?.textContent ?? node.textContent;
  const named = (node) => `${node.localName} “${text(node)}”`;
  const at = (node) => {
    const { x, y } = node.getBoundingClientRect();
    return `${Math.round(x)}, ${Math.round(y + scrollY)}`;
  };
  const put = (value, kind) => (node) => {
    node.value = value;
    node.dispatchEvent(new Event(kind));
  };
  const key = (key) => (node) => {
    node.focus({ preventScroll: true });
    node.dispatchEvent(new KeyboardEvent("keydown", { key }));
  };
  const click = (node) => node.click(), to_end = (node) => put(node.max, "input")(node);
  const send = (node) => {
    put("a bank by the river", "input")(node);
    node.form.requestSubmit();
  };
  const uses = {
    button: [click, click], submit: [click], radio: [click], range: [to_end, put(0, "input")],
    number: [put(1, "input")], text: [send], "select-one": [put("2", "change")],
  };
  for (const node of [...first].filter((node) => node.matches(control))) {
    for (const use of uses[node.type] ?? [key("ArrowRight"), key("ArrowLeft")]) {
      if (!node.checkVisibility() || node.disabled) continue;
      const before = at(node);
      use(node);
      if (!node.matches(".handle") && at(node) !== before) {
        found.add(`${named(node)} goes from ${before} to ${at(node)}`);
      }
      for (const part of parts()) {
        if (!first.has(part)) found.add(`${named(node)} makes anew ${named(part)}`);
      }
    }
  }
  return [first.size, ...found];
}"""


@pytest.mark.parametrize("script, width", by_day(product(ALL, [1280, 390]), 13))
def test_a_control_stays_under_the_finger(visit, script, width):
    """It is made once, and stands still while it is used:
    else a click would be lost, or would hit another.
    """
    count, *found = drawing(visit, PAGE_OF[script], script, width=width).evaluate(USED)
    fail_if(found, f"{script}, {width} pixels wide:")
    assert count > 1


@pytest.mark.parametrize("script, pressed", by_day(SHOWN, 6))
def test_symbols_of_a_drawing_light_up_together(visit, script, pressed):
    """They have the hues of the words in the prose;
    one that is pointed at lights up all that are the same, and no others.
    """
    figure = drawing(visit, PAGE_OF[script], script)
    if pressed:
        figure.get_by_role("button", name=pressed).click()
        figure.page.mouse.move(0, 0)
    view = figure.locator(".view")
    dark = view.evaluate(LOOKS)
    assert "".join(dark) == SHOWN[script, pressed]
    for sym in dark:
        node = view.locator(f"[data-sym={sym}]").first
        assert len({*node.evaluate(HUE, sym)}) == 1
        node.dispatch_event("pointerover")
        assert figure.page.evaluate("document.documentElement.dataset.lit") == sym
        for other, looks in view.evaluate(LOOKS).items():
            assert [a != b for a, b in zip(looks, dark[other], strict=True)] == [
                other == sym
            ] * len(looks), (sym, other)


def test_a_cell_lights_up_by_mouse_finger_and_keys(visit):
    "It stands for a weight; what is forbidden has none. A finger that is lifted leaves it lit."
    figure = drawing(visit, "figures/mask_board.html", "mask_board", has_touch=True)
    page, cells, root = figure.page, figure.locator("td button"), figure.page.locator("html")
    cells.nth(0).hover()
    expect(root).to_have_attribute("data-lit", "w")
    cells.nth(1).hover()
    expect(root).not_to_have_attribute("data-lit", re.compile(""))
    cells.nth(0).tap()
    # it was allowed, and is forbidden now
    expect(root).not_to_have_attribute("data-lit", re.compile(""))
    cells.nth(3).hover()
    cells.nth(3).focus()
    page.keyboard.press("ArrowRight")
    expect(root).to_have_attribute("data-lit", "w")
    page.keyboard.press("Enter")
    expect(root).not_to_have_attribute("data-lit", re.compile(""))
    figure.locator("thead th").first.tap()
    expect(root).to_have_attribute("data-lit", "k")


# ---- By finger ----

SCRIPTS = ALL
PAGE_OF = {script: f"figures/{script}.html" for script in SCRIPTS} | {
    "entrance": "checks/gallery.html",
    "sinks_window": "figures/sinks.html",
}
FINGER = {
    "width": 390,
    "height": 844,
    "has_touch": True,
    "is_mobile": True,
    "reduced_motion": "reduce",
}
CENTRES = """nodes => nodes.map((node) => {
  const { left, top, width, height } = node.getBoundingClientRect();
  return [left + width / 2, top + height / 2];
})"""
CENTRE = (
    "node => { const { left, top, width, height } = node.getBoundingClientRect(); "
    "return [left + width / 2, top + height / 2]; }"
)

BESIDE = """svg => {  // a place in the picture that is far from all handles
  const { left, top, width, height } = svg.getBoundingClientRect();
  const knobs = [...svg.querySelectorAll(".handle")].map((node) => node.getBoundingClientRect())
    .map((box) => [box.left + 16, box.top + 16]);
  const far = ([x, y]) => Math.min(...knobs.map(([a, b]) => Math.hypot(x - a, y - b)));
  const parts = [0.1, 0.3, 0.5, 0.7, 0.9];
  return parts.flatMap((i) => parts.map((j) => [left + i * width, top + j * height]))
    .sort((a, b) => far(b) - far(a))[0];
}"""


def swipe(page: Page, start: list[float], by: tuple[float, float], steps: int = 8) -> None:
    "A finger goes from one place of the screen to another."
    cdp = page.context.new_cdp_session(page)
    for i in range(steps + 1):
        at = {"x": start[0] + by[0] * i / steps, "y": start[1] + by[1] * i / steps}
        cdp.send(
            "Input.dispatchTouchEvent",
            {"type": "touchMove" if i else "touchStart", "touchPoints": [at]},
        )
    cdp.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})


@pytest.mark.parametrize(
    "script, scales", [("arrows", (1, 1)), ("scores", (1, 0)), ("sinks", (0, 1))]
)
def test_a_finger_moves_a_handle_and_not_the_page(visit, script, scales):
    "Up, down and aslant; beside the handle it moves the page, and nothing else."
    figure = drawing(visit, PAGE_OF[script], script, **FINGER)
    page, handle = figure.page, figure.locator(".handle").first
    page.evaluate("document.body.style.paddingBottom = '2000px'")
    figure.locator("svg").first.evaluate(
        "svg => scrollTo({ top: svg.getBoundingClientRect().top + scrollY - 250, "
        "behavior: 'instant' })"
    )
    page.evaluate("addEventListener('pointercancel', () => { window.cancelled = true; })")
    top = page.evaluate("scrollY")
    for by in ((-20, 60), (10, -40), (0, 50)):
        start = handle.evaluate(CENTRE)
        swipe(page, start, by)
        moved = [b - a for a, b in zip(start, handle.evaluate(CENTRE))]
        assert moved == pytest.approx([d * scale for d, scale in zip(by, scales)], abs=4)
    now, cancelled = page.evaluate("[scrollY, window.cancelled]")
    # a pixel may be rounded; the finger went forty and more
    assert abs(now - top) <= 1 and cancelled is None
    before = state(figure)
    swipe(page, figure.locator("svg").first.evaluate(BESIDE), (0, -60))
    page.wait_for_function("top => scrollY > top + 10", arg=top)
    assert state(figure) == before


# What one presses is 40 px high, but for tokens and what lies close in a list or a picture; what
# is lower, and by how much the drawing is higher than its place.
FINGERS = """figure => {
  const view = figure.querySelector(".view");
  const own = ".rail *, .tokens *, .close, [style*='min-height']";
  const pressed = `button:not(${own}), [role=radiogroup], select, input[type=range]`;
  const high = (node) => node.getBoundingClientRect().height;
  const low = [...view.querySelectorAll(pressed)]
    .filter((node) => node.checkVisibility() && high(node) < 39.5)
    .map((node) => `${node.ariaLabel ?? node.textContent}: ${high(node)}`);
  return [low, view.scrollHeight - parseFloat(getComputedStyle(view).minHeight)];
}"""


@pytest.mark.parametrize("script", by_day(SCRIPTS, 9))
def test_a_finger_has_room_to_press(visit, script):
    "And the larger buttons move nothing below the drawing."
    low, over = drawing(visit, PAGE_OF[script], script, **FINGER).evaluate(FINGERS)
    assert low == [] and over <= 0


@pytest.mark.nightly
def test_a_finger_follows_the_curve_and_does_not_move_the_page(visit):
    "The point stays on the curve, whatever the finger does beside it."
    figure = drawing(visit, PAGE_OF["rotating"], "rotating", **FINGER)
    page, point = figure.page, figure.locator(".handle")
    chart = figure.locator("svg:has(.handle)")
    chart.evaluate(
        "svg => scrollTo({ top: svg.getBoundingClientRect().top + scrollY - 250, "
        "behavior: 'instant' })"
    )
    top, before = page.evaluate("scrollY"), state(figure)["distance"]
    per_pixel = 64 / chart.locator(":scope > g > path").first.bounding_box()["width"]
    for by in ((-100, 40), (50, -40)):
        swipe(page, point.evaluate(CENTRE), by)
        now = state(figure)["distance"]
        assert now - before == pytest.approx(by[0] * per_pixel, abs=1)
        before = now
    assert abs(page.evaluate("scrollY") - top) <= 1


@pytest.mark.nightly
def test_a_finger_turns_the_query_and_does_not_move_the_page(visit):
    "It turns by as much as the finger goes round the origin, by steps of 15 degrees."
    figure = drawing(visit, PAGE_OF["subject"], "subject", **FINGER)
    page, tip = figure.page, figure.locator(".handle")
    tip.evaluate(
        "tip => scrollTo({ top: tip.getBoundingClientRect().top + scrollY - 250, "
        "behavior: 'instant' })"
    )
    top = page.evaluate("scrollY")
    unit = figure.locator("svg:has(.handle)").bounding_box()["width"] / 5  # of the plane
    swipe(page, tip.evaluate(CENTRE), (-2.3 * unit, -2.3 * unit))  # its bead is beyond its tip
    assert state(figure)["turned"] == 90 and abs(page.evaluate("scrollY") - top) <= 1


def test_a_finger_drags_a_neighbour_and_the_word_follows(visit):
    "Also one that is not beside the word; the arrow keys move it, too."
    figure = drawing(visit, PAGE_OF["senses"], "senses", **FINGER)
    page, muddy = figure.page, figure.get_by_role("slider", name="vector of muddy")
    page.evaluate("document.body.style.paddingBottom = '2000px'")
    figure.locator("svg").evaluate(
        "svg => scrollTo({ top: svg.getBoundingClientRect().top + scrollY - 250, "
        "behavior: 'instant' })"
    )
    top, unit = page.evaluate("scrollY"), 172 / 3  # the plane of a phone shows three units
    for beside in (False, True):
        before = numbers(state(figure)["x"])
        swipe(page, muddy.evaluate(CENTRE), (-40, -60))
        now, x = state(figure), numbers(state(figure)["x"])
        assert_close(x[1], before[1] + torch.tensor([-40, 60]) / unit, atol=0.06, rtol=0)
        seen = torch.tensor([token in now["here"] for token in given(figure)["tokens"]])
        assert seen[1] == beside
        context, _ = naive_attention(x[3][None], x[seen], x[seen])
        assert_close(numbers(now["tip"]), context[0], **EXACT)
        assert page.evaluate("scrollY") == pytest.approx(top, abs=1)
        figure.get_by_role("button", name="muddy, beside bank").press("Enter")
    muddy.press("Shift+ArrowDown")
    assert_close(numbers(state(figure)["x"])[1], x[1] - torch.tensor([0, 0.5]), **EXACT)


@pytest.mark.nightly
def test_models_are_used_by_finger(visit):
    """A tap chooses a token, a letter, a step, or a head;
    a finger that only scrolls the page chooses nothing.
    """
    figure = drawing(visit, PAGE_OF["translator"], "translator", **FINGER)
    figure.get_by_role("textbox").fill("nineteen")
    figure.get_by_role("button", name="Translate").tap()
    figure.locator("svg rect").nth(1).tap()
    figure.get_by_text("More switches").tap()
    figure.get_by_role("radio", name="3", exact=True).tap()
    assert (state(figure)["out"], state(figure)["chosen"]) == (
        ["1", "9", "end"],
        2,
    ) and "head 3 attends to “nineteen” (100%)" in said(figure)
    figure.get_by_role("slider", name="Training step").tap(position={"x": 2, "y": 14})
    assert state(figure)["step"] == 0
    figure = drawing(visit, PAGE_OF["induction"], "induction", **FINGER)
    picture = figure.locator("svg")
    box = picture.bounding_box()
    picture.tap(position={"x": box["width"] * 13.5 / 16, "y": 130})
    figure.get_by_role("button", name="induction").tap()
    now = state(figure)
    assert now["chosen"] == 13 and len(now["off"]) == 1 and sum(now["right"]) < 3
    figure.page.evaluate("document.body.style.paddingBottom = '2000px'")
    swipe(figure.page, [100, 500], (0, -200))
    assert state(figure)["chosen"] == 13


def test_what_is_dragged_is_tried_by_finger():
    "A new drawing with a handle belongs into the list above."
    texts = {
        script: (ROOT / f"attention_nb/figures/{script}.js").read_text(encoding="utf-8")
        for script in SCRIPTS
    }
    assert {script for script, text in texts.items() if re.search(r"\b(handle|drag)\(", text)} == {
        "arrows",
        "rotating",
        "scores",
        "senses",
        "sinks",
        "subject",
    }


# ---- Forced colours, and paper ----

SEEN = """  // what a colour is, as (r, g, b), on the paper of the page or of the reader
  const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const probe = document.createElement("i"), known = new Map();
  const forced = matchMedia("(forced-colors: active)").matches;
  const below = forced ? "Canvas" : "var(--color-background-primary)";
  probe.style.cssText = `forced-color-adjust: none; background: ${below}`;
  document.body.append(probe);
  const paper = getComputedStyle(probe).backgroundColor;
  probe.remove();
  function seen(colour) {
    if (known.has(colour)) return known.get(colour);
    for (const one of [paper, colour]) { canvas.fillStyle = one; canvas.fillRect(0, 0, 1, 1); }
    known.set(colour, [...canvas.getImageData(0, 0, 1, 1).data.slice(0, 3)]);
    return known.get(colour);
  }
"""
# Of all controls, pressed and not: their text and what it stands on.
LOOKS_OF_CONTROLS = f"""(figure) => {{
  {SEEN}
  const looks = {{ true: [], false: [] }};
  const controls = () => [...figure.querySelectorAll("button[aria-pressed], label.choice")]
    .filter((node) => !node.closest("td"));
  const read = () => controls().forEach((node) => {{
    const {{ color, backgroundColor }} = getComputedStyle(node);
    const on = node.matches("[aria-pressed=true], :has(:checked)");
    looks[on].push([seen(color), seen(backgroundColor)]);
  }});
  read();
  for (const node of controls()) {{ (node.querySelector("input") ?? node).click(); read(); }}
  return [looks.true, looks.false];
}}"""
# Of each element what is painted of it: its background, or the fill and the stroke of a shape.
PAINTED = f"""(figure) => {{
  {SEEN}
  return [seen(paper), [...figure.querySelectorAll(".view *, .pair td")].map((node) => {{
    const look = getComputedStyle(node), shape = /^(path|rect|circle|line)$/.test(node.localName);
    const fill = node.hasAttribute("fill") || node.style.fill ? look.fill : "none";
    const stroke = parseFloat(look.strokeWidth) ? look.stroke : "none";
    const paints = shape ? [fill, stroke] : [look.backgroundColor];
    const style = node.getAttribute("style") ?? node.getAttribute("fill") ?? "";
    const name = `${{node.localName}} ${{style}} ${{node.textContent.slice(0, 20)}}`;
    const shown = look.visibility === "visible" && !/^(input|select|option)$/.test(node.localName);
    const colours = shown ? paints.filter((paint) => paint !== "none").map(seen) : [];
    return [name, colours, look.backgroundImage !== "none", look.printColorAdjust];
  }})];
}}"""


def lightness(colour: list[int]) -> float:
    "The relative luminance of WCAG."
    linear = [
        c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4
        for c in (value / 255 for value in colour)
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a: list[int], b: list[int]) -> float:
    "The contrast of two colours, 1 to 21."
    low, high = sorted((lightness(a), lightness(b)))
    return (high + 0.05) / (low + 0.05)


def seen_on_paper(figure: Locator) -> list[tuple[str, bool, bool]]:
    """Of each element its name, whether one sees its fill or line,
    and whether it has a picture in its background.
    """
    paper, found = figure.evaluate(PAINTED)
    return [
        (name, max((contrast(paint, paper) for paint in paints), default=1) > 1.1, picture)
        for name, paints, picture, _ in found
    ]


@pytest.mark.parametrize("script", by_day(SCRIPTS, 9))
def test_what_is_painted_is_seen_in_forced_colours_and_on_paper(visit, script):
    """Bars, cells and crosses keep their fill, and what is pressed stands out; and all is printed,
    which no browser does of its own accord.
    """
    figure = drawing(visit, PAGE_OF[script], script, reduced_motion="reduce")
    for scheme in ("light", "dark"):
        figure.page.emulate_media(forced_colors="none", color_scheme=scheme)
        before = seen_on_paper(figure)
        figure.page.emulate_media(forced_colors="active", color_scheme=scheme)
        after = seen_on_paper(figure)
        lost = [
            name
            for (name, *own), (_, *forced) in zip(before, after, strict=True)
            if any(a and not b for a, b in zip(own, forced))
        ]
        assert lost == [] and (script in ON_CANVAS or sum(own for _, own, _ in before) > 5)
        pressed, plain = figure.evaluate(LOOKS_OF_CONTROLS)
        assert all(contrast(ink, ground) > 4.5 for ink, ground in pressed + plain)
        assert all(contrast(ground, other) > 3 for _, ground in pressed for _, other in plain)
    figure.page.emulate_media(forced_colors="none", media="print")
    paper, found = figure.evaluate(PAINTED)
    assert [
        name
        for name, paints, picture, adjust in found
        if adjust != "exact" and (picture or paints != [paper])
    ] == []


def test_pairs_and_buttons_of_a_page_in_forced_colours_and_on_paper(visit):
    "They are no drawings, and have styles of their own."
    page = visit("checks/gallery.html").page
    pair, cells = page.locator("figure.pair:not(.drawing *)").first, ".both [style*=background]"
    own = pair.evaluate(f"{PAINTED}".replace(".view *, .pair td", cells))[1]
    page.emulate_media(forced_colors="active")
    paper, forced = pair.evaluate(f"{PAINTED}".replace(".view *, .pair td", cells))
    assert len(forced) > 20 and all(
        contrast(a, paper) > 1.1
        for (_, [a], *_), (_, [b], *_) in zip(forced, own)
        if contrast(b, [255] * 3) > 1.1
    )
    pressed, plain = page.locator(".depth").evaluate(LOOKS_OF_CONTROLS)
    assert pressed and all(
        contrast(ground, other) > 3 for _, ground in pressed for _, other in plain
    )
    page.emulate_media(forced_colors="none", media="print")
    assert {
        adjust for *_, adjust in pair.evaluate(f"{PAINTED}".replace(".view *, .pair td", cells))[1]
    } == {"exact"}


def test_a_dark_page_is_printed_in_dark_ink(visit):
    "Paper is white: the hues of symbols, in prose and in drawings, are those of the day."
    page = visit("03_self_attention.html", scheme="dark").page
    for theme in ("auto", "dark"):
        page.evaluate("theme => { document.body.dataset.theme = theme; }", theme)
        page.emulate_media(media="print")
        symbols = page.locator("article [class*=sym-], figure.drawing [data-sym]")
        inks = symbols.evaluate_all(f"""(nodes) => {{
          {SEEN}
          return [...new Set(nodes.map((node) => getComputedStyle(node).color))].map(seen);
        }}""")
        assert len(inks) >= 4 and all(contrast(ink, [255] * 3) > 4.5 for ink in inks), theme


# ---- The table below a drawing ----

# What changes the numbers of those whose table is that of what is drawn: a button, or a handle.
FOLLOWED = {
    "adder": "Attention",
    "arrows": "arrow a, move it with the arrow keys",
    "attend": "river",
    "mask_board": "causal mask",
    "scores": "+10 to all",
    "senses": "money, beside bank",
    "subject": "query, move it with the arrow keys",
    "tiles": "causal mask",
}
CELLS = """figure => [...figure.querySelectorAll(".view ~ details table :is(caption, th, td)")]
  .map((one) => one.textContent)"""
CHANGED = """(figure, name) => {
  const named = (one) => (one.ariaLabel ?? one.closest("label")?.textContent ?? one.textContent);
  const used = [...figure.querySelectorAll(".view :is(button, input, .handle)")]
    .find((one) => named(one).includes(name));
  if (!used.matches(".handle")) used.click();
  else used.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowLeft" }));
}"""


@pytest.mark.parametrize("script", by_day(FOLLOWED, 3))
def test_the_table_is_that_of_what_is_drawn(visit, script):
    "Opened, it says what the package has written; then it follows what a reader changes."
    figure = drawing(visit, PAGE_OF[script], script, reduced_motion="reduce")
    built = figure.evaluate(CELLS)
    figure.locator(".view ~ details > summary").click()
    figure.page.wait_for_timeout(100)
    assert figure.evaluate(CELLS) == built
    figure.evaluate(CHANGED, FOLLOWED[script])
    figure.page.wait_for_function(
        f"([was, script]) => String(({CELLS})(document.querySelector("
        "`figure[data-drawing=${script}]`))) !== String(was)",
        arg=[built, script],
    )


# ---- Every state ----

MOVING = {
    "adder",
    "attend",
    "beams",
    "cache_steps",
    "entrance",
    "few_keys",
    "head_cut",
    "head_film",
    "hybrids",
    "induction",
    "latent",
    "lookup",
    "machine",
    "mask_board",
    "memory",
    "patches",
    "programs",
    "ring",
    "roofline",
    "rotating",
    "same_words",
    "seat_map",
    "senses",
    "serving",
    "sharing",
    "sinks",
    "sinks_window",
    "spread",
    "state_steps",
    "stream",
    "subject",
    "sums",
    "temperature",
    "tiles",
    "translator",
    "window_board",
}
# Presses everything, and moves each slider at every choice; gives all texts that were seen,
# by how many pixels the drawing was wider and higher at most than its place,
# and whether anything moved by itself.
SWEEP = """(figure) => {
  const texts = new Set(), real = requestAnimationFrame, over = [0, 0];
  const all = (kind) => [...figure.querySelectorAll(kind)];
  const view = figure.querySelector(".view"), kept = parseFloat(getComputedStyle(view).minHeight);
  let moved = false;
  window.requestAnimationFrame = (f) => {
    moved ||= /drawings\\//.test(new Error().stack);
    return real(f);
  };
  function note() {
    const walk = document.createTreeWalker(view, NodeFilter.SHOW_TEXT);
    while (walk.nextNode()) texts.add(walk.currentNode.data);
    over[0] = Math.max(over[0], view.scrollWidth - view.clientWidth);
    over[1] = Math.max(over[1], view.scrollHeight - kept);
    moved ||= document.getAnimations().some((one) => figure.contains(one.effect.target));
  }
  function put(node, value, kind) {
    node.value = value;
    node.dispatchEvent(new Event(kind));
    note();
  }
  function slide() {
    for (let i = 0; i < all("input[type=range]").length; i++) {
      const { min, max, step } = all("input[type=range]")[i];
      const by = Math.max(+step, (max - min) / 12);
      for (let x = +min; x <= +max + 1e-9; x += by) {
        put(all("input[type=range]")[i], x, "input");  // a drawing may make it anew
      }
    }
  }
  note();
  slide();
  for (const kind of ["button[aria-pressed]", "button.flips", "input[type=radio]"]) {
    for (let i = 0; i < Math.min(all(kind).length, 40); i++) {
      if (!all(kind)[i].checkVisibility()) continue;  // a button that waits for a longer sentence
      all(kind)[i].click(); note(); slide();
    }
  }
  for (const one of all("option")) put(one.parentElement, one.value, "change");
  for (const one of all("input[type=number]")) {
    for (const x of ["0.25", "-1", "3"]) put(one, x, "input");
  }
  window.requestAnimationFrame = real;
  return [[...texts], over, moved];
}"""
ILL_WRITTEN = [
    r"(?<![.\d])(?!20\d\d, Table)\d{4,}",  # 4,096, but a source of 2023
    r"(?<![\w=])-\d",  # −1
    r"undefined|null|Infinity|\[object",
    r"\b1 (words|layers|heads|tiles|programs|texts|scores|slots|places|keys|queries|steps) ",
    "MiB.*GiB",
    r"\bW_\w",  # an index is lowered
]


@pytest.mark.parametrize("script", by_day(SCRIPTS, 9))
def test_every_state_has_its_room_its_form_of_numbers_and_its_rest(visit, script):
    """Of every drawing, on a phone: nothing below is moved; thousands, signs and units are written
    one way; where motion is not wanted, there is none.
    """
    figure = drawing(visit, PAGE_OF[script], script, width=390, font=WIDE)
    figure.page.emulate_media(reduced_motion="reduce")
    texts, (wide, high), moved = figure.evaluate(SWEEP)
    assert wide <= 0 and high <= 1
    ill = ILL_WRITTEN + ["NaN"] * (script not in ("scores", "entrance"))
    assert not moved and len(texts) > 5
    assert [text for text in texts for one in ill if re.search(one, text)] == []
    figure.page.emulate_media(reduced_motion="no-preference")
    assert figure.evaluate(SWEEP)[2] == (script in MOVING)


# ---- What is said is what is drawn ----


def said(figure: Locator) -> str:
    "The line that is read out."
    return figure.locator("output").first.inner_text()


def named(text: str) -> set[str]:
    "The words that stand between quotation marks."
    return set(re.findall("“([^”]*)”", text))


@pytest.mark.nightly
def test_an_arrow_without_length_has_no_angle(visit):
    "Its product is 0, and no right angle is drawn; what is read out as a number is one."
    figure = drawing(visit, PAGE_OF["arrows"], "arrows")
    knob = figure.get_by_role("slider", name="arrow a")
    a = state(figure)["arrows"][0]
    for key, steps in (("ArrowLeft", a[0]), ("ArrowDown", a[1])):
        for _ in range(round(steps / 0.1)):
            knob.press(key)
    assert state(figure)["arrows"][0] == [0, 0] and "no direction" in said(figure)
    knob.press("ArrowLeft")
    assert (
        float(knob.get_attribute("aria-valuenow")) == -0.1
        and knob.get_attribute("aria-valuetext") == "−0.1 right, 0.0 up"
    )
    assert "no direction" not in said(figure)


# The numbers of the table that are seen, row by row; the last is their sum.
WRITTEN = """list => [...list.querySelectorAll("tbody tr, tfoot tr")]
  .filter((row) => row.checkVisibility())
  .map((row) => [...row.querySelectorAll("td")].filter((cell) => cell.checkVisibility())
    .flatMap((cell) => [...cell.querySelectorAll(".vector > span, .weighed > span, [data-sym=w]")]
      .filter((one) => !one.children.length && one.textContent)
      .map((one) => one.textContent)))"""


@pytest.mark.parametrize(
    "sentence",
    ["the bank of the river", "bank", "river lake bank", "the of", "she put cash in the bank"],
)
def test_shares_of_a_sentence_go_where_they_are_largest(visit, sentence):
    """To all words that are equal; a word that asks for nothing,
    and one that is alone, are told apart.
    """
    figure = drawing(visit, PAGE_OF["attend"], "attend", reduced_motion="reduce")
    figure.get_by_text("Try yours").click()
    figure.get_by_role("textbox").fill(sentence)
    figure.get_by_role("textbox").press("Enter")
    figure.get_by_role("button", name="weights").click()
    for i, word in enumerate(sentence.split()):
        figure.get_by_role("button", name=word, exact=True).nth(
            sentence.split()[:i].count(word)
        ).press("Enter")
        now, text = state(figure), said(figure)
        if len(now["tokens"]) == 1:
            assert text == f"“{word}” stands alone: it gets all the weight, 100%."
        elif not any(now["q"][i]):
            assert text == f"“{word}” asks for nothing: every token gets the same weight."
        else:
            most = max(now["weights"])
            assert named(text) == {
                one for one, w in zip(now["tokens"], now["weights"]) if w > most - 1e-6
            }
            assert re.search(rf"The most, (\d+)%{' each' * (len(named(text)) > 1)}, goes", text)
        # as they are written, shares and terms sum to what stands below them
        figure.get_by_role("button", name="sum").click()
        rows = figure.get_by_role("group", name="The numbers").evaluate(WRITTEN)
        *parts, total = [[float(x.strip("%")) for x in row] for row in rows]
        assert [sum(column) for column in zip(*parts)] == pytest.approx(total) and total[0] == 100
        shares = [part[0] for part in parts]
        assert all(abs(x - 100 * w) < 1 for x, w in zip(shares, now["weights"]))
        figure.get_by_role("button", name="weights").click()


NAMES_THAT_MEET = """(svg) => {
  const shown = [...svg.querySelectorAll("text")].filter((node) => node.textContent
    && getComputedStyle(node).visibility === "visible");
  const boxes = shown.map((node) => [node.textContent, node.getBoundingClientRect()]);
  const meet = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom - 2
    && b.top < a.bottom - 2;
  return boxes.flatMap(([name, box], i) => boxes.slice(i + 1)
    .filter(([, other]) => meet(box, other)).map(([other]) => `${name}, ${other}`));
}"""


# In the page, since there are so many: what is computed and told, and then told of the senses.
EVERY_NEIGHBOURHOOD = """(figure) => {
  const toggles = [...figure.querySelectorAll("button[aria-pressed]")];
  const steps = [...figure.querySelectorAll("input[type=radio]")];
  const said = () => figure.querySelector("output").innerText;
  return Array.from({ length: 2 ** toggles.length }, (_, code) => {
    toggles.forEach((toggle, i) => {
      if (Boolean(code >> i & 1) !== (toggle.ariaPressed === "true")) toggle.click();
    });
    steps[1].click();
    const before = [figure.state(), said()];
    steps[2].click();
    return [...before, said(), (MEET)(figure.querySelector("svg"))];
  });
}""".replace("MEET", NAMES_THAT_MEET)


@pytest.mark.nightly
def test_every_neighbourhood_is_told_as_it_is(visit):
    """Which weight is the largest, or which are;
    and which sense prevails by the numbers that are printed. No name stands on another.
    """
    figure = drawing(visit, PAGE_OF["senses"], "senses", reduced_motion="reduce")
    tokens, (a, b) = given(figure)["tokens"], given(figure)["axes"]
    found = figure.evaluate(EVERY_NEIGHBOURHOOD)
    assert len(found) == 2 ** figure.locator("button[aria-pressed]").count() > 4
    for code, (now, told, then, meeting) in enumerate(found):
        most = max(now["weights"]) - 1e-6
        largest = {token for token, w in zip(tokens, now["weights"]) if w > most}
        alone = "Alone" in told
        assert alone == (code == 0) and (alone or named(told) == largest)
        assert meeting == [], code
        if not alone:
            x, y = map(float, re.findall(r"to \(([\d.]+), ([\d.]+)\)", then)[0])
            prevails = f"as much {a}" if x == y else f"more {a}" if x > y else f"more {b}"
            assert prevails in then, (code, then)


def told_of(heads: torch.Tensor) -> str:
    "What two heads, (2, n, n), give the most weight to: the larger of two means, from token 2 on."
    names, means = [], []
    for w in heads:
        first, before = w[2:, 0].mean().item(), w[range(2, 6), range(1, 5)].mean().item()
        assert w[2:].mean(0).max() < max(first, before, 0.25) + 1e-6, "no other token has more"
        if max(first, before) < 0.25:
            names.append("all tokens about the same weight")
        else:
            names.append(f"the {'first' if first > before else 'previous'} token")
            means.append(f"{max(first, before):.2f}")
    if names[0] != names[1]:
        return f"head 0 gives {names[0]} the most weight, {means[0]}; head 1 {names[1]}, {means[1]}"
    return f"both heads give {names[0]}" + (
        f" the most weight, {' and '.join(means)}" if means else ""
    )


@pytest.mark.nightly
def test_the_film_says_what_its_frame_shows(visit):
    "Of each frame, by the slider and while it plays."
    figure = drawing(visit, "05_multi_head_attention.html", "head_film")
    film, slider = given(figure), figure.get_by_role("slider")
    for i, (step, heads) in enumerate(zip(film["steps"], numbers(film["weights"]))):
        slider.fill(str(i))
        assert said(figure) == f"Step {step}: {told_of(heads)}."
    figure.evaluate("""figure => {
      window.told = [];
      const text = (kind) => figure.querySelector(kind).textContent;
      const tell = () => window.told.push(
        [figure.state().step, text("output"), text("td[data-sym]")]);
      const whole = { childList: true, characterData: true, subtree: true };
      new MutationObserver(tell).observe(figure.querySelector("output"), whole);
    }""")
    played(figure)
    told = figure.page.evaluate("told")
    assert {step for step, *_ in told} >= {*film["steps"]} and all(
        text.startswith(f"Step {step}: ") for step, text, _ in told
    )


@pytest.mark.parametrize(
    "script, coming, result",
    [
        ("memory", "added to the state", "the mean error is"),
        ("state_steps", "products for the state", "both\u00a0ways"),
    ],
)
def test_a_result_is_told_when_its_step_has_ended(visit, script, coming, result):
    "What is moving is named first; the result, said and drawn, waits until it rests."
    figure = drawing(visit, PAGE_OF[script], script, reduced_motion="no-preference")
    figure.evaluate("""figure => {
      window.told = [];
      const output = figure.querySelector("output");
      const pictures = figure.querySelectorAll(".view svg");
      const drawn = () => [...pictures].map((one) => one.outerHTML).join();
      const tell = () => window.told.push([output.textContent, drawn()]);
      new MutationObserver(tell).observe(output, { childList: true, characterData: true });
    }""")
    range_of = figure.get_by_role("slider").first
    range_of.press("ArrowRight")
    expect(figure.locator("output")).to_contain_text(coming)
    expect(figure.locator("output")).to_contain_text(result)
    (first, moving), (last, _) = figure.page.evaluate("told")
    assert (coming in first, result in first) == (True, False) and result in last
    before = " of 4 exact" if script == "memory" else 'opacity="0"'
    assert before in re.sub("</?tspan[^>]*>", "", moving)


@pytest.mark.nightly
def test_another_dimension_keeps_what_is_drawn(visit):
    "The weights and the bars move to those of the choice; none is empty on the way."
    figure = drawing(visit, "02_softmax.html", "sums", reduced_motion="no-preference")
    figure.get_by_role("radio", name="no keepdim").check()
    figure.get_by_text("1.25 ✗").wait_for()  # the end: another bar passes 0.85
    figure.evaluate("""figure => {
      window.seen = [];
      const row = [...figure.querySelectorAll("text")].find((one) => one.textContent === "0.85 ✗");
      const tell = () => window.seen.push(
        [figure.querySelector("svg[role=img][aria-label^=Left]").textContent, row.textContent]);
      new MutationObserver(tell).observe(row, { childList: true });
    }""")
    figure.get_by_role("radio", name="along rows").check()
    figure.get_by_text("1.00 ✓").nth(1).wait_for()
    seen = figure.page.evaluate("seen")
    assert all("÷" in text and row for text, row in seen)
    sums = [float(row.split()[0]) for _, row in seen]
    assert sums == sorted(sums) and 0.85 <= sums[0] < sums[-1] == 1


SET = """(figure, [mode, values]) => {
  figure.querySelectorAll("input[type=radio]")[mode].click();
  figure.querySelectorAll("input[type=range]").forEach((range, i) => {
    range.value = values[i];
    range.dispatchEvent(new Event("input"));
  });
}"""


@pytest.mark.nightly
@pytest.mark.parametrize("width", [1280, 390])
def test_the_list_below_the_roofline_has_one_unit(visit, width):
    "Three digits of what was computed, all times in one unit, and every dot within the axes."
    figure = drawing(visit, "17_cost.html", "roofline", width=width, reduced_motion="reduce")
    units = {"s": 1, "ms": 1e3, "µs": 1e6}
    for mode, values in product((1, 2), product((0, 8), (0, 1, 7, 12, 17), (0, 5))):
        figure.evaluate(SET, [mode, values])
        now = state(figure)
        cells = figure.locator(".times > * > *").all_inner_texts()[3:]
        shown = dict(zip("PAGL", zip(cells[1::3], cells[2::3])))
        times = {
            letter: [time.split(" ") for time in both.split("\n")]
            for letter, (_, both) in shown.items()
            if now["ways"][letter]
        }
        assert len({unit for both in times.values() for _, unit in both}) == 1
        widths = figure.locator(".times i").evaluate_all(
            "bars => bars.map((bar) => parseFloat(bar.style.width))"
        )
        longest = max(way["seconds"] for way in now["ways"].values() if way)
        for letter, both in times.items():
            way, at = now["ways"][letter], 2 * "PAGL".index(letter)
            foreseen_times = way["operations"] / now["peak"], way["moved"] / now["bandwidth"]
            assert max(foreseen_times) == pytest.approx(way["seconds"])
            assert len(both) == 1 + (letter == "P")  # of the chosen row both times
            written = foreseen_times if letter == "P" else [max(foreseen_times)]
            for (time, unit), seconds in zip(both, written, strict=True):
                assert float(time.replace(",", "")) == pytest.approx(
                    seconds * units[unit], rel=5.01e-3
                )
            for seconds, width in zip(foreseen_times, widths[at : at + 2]):
                assert width == pytest.approx(
                    max(1, max(widths) * seconds / longest), rel=0.01, abs=0.1
                )
            assert float(shown[letter][0].replace(",", "")) == pytest.approx(
                now["ways"][letter]["intensity"], rel=0.05, abs=0.051
            )
        one = now["ways"]["P"]
        assert f": {shown['P'][0]} operations" in said(figure)
        assert ("memory-bound" in said(figure)) == (one["intensity"] < now["ridge"])
        xs = figure.locator("svg circle").evaluate_all(
            "dots => dots.filter((dot) => getComputedStyle(dot).visibility === 'visible')"
            ".map((dot) => +dot.getAttribute('cx'))"
        )
        width = figure.locator("svg").evaluate("svg => svg.viewBox.baseVal.width")
        assert 12 <= min(xs) and max(xs) <= width - 12


def test_each_score_is_drawn_as_it_is(visit):
    """Where one exponential is infinite and others are not;
    and where all are finite, but not their sum.
    """
    figure = drawing(visit, "02_softmax.html", "scores")
    figure.get_by_text("+100 to all").click()
    temperature, kinds = figure.get_by_role("slider", name="temperature"), set()
    for scores in ((3, 1, 2), (-1, -1, -1), (5, -5, 2)):
        for knob, score in zip(figure.locator(".handle").all(), scores, strict=True):
            by = score - round(float(knob.get_attribute("aria-valuenow")))
            for _ in range(abs(by)):
                knob.press("PageUp" if by > 0 else "PageDown")
        for step in range(-4, 5):
            temperature.fill(f"{step / 20:.2f}")
            now, text = state(figure), said(figure)
            assert now["scores"] == [score + 100 for score in scores]
            weights = [float(w) for w in now["weights"]]
            shown = figure.locator("svg text[data-sym=w][text-anchor=start]").all_text_contents()
            assert shown[1:] == ["NaN" if w != w else f"{w:.2f}" for w in weights]
            plain = (torch.tensor(scores) / now["temperature"]).softmax(0).tolist()
            same = shown[1:] == [f"{w:.2f}" for w in plain]
            assert figure.get_by_text("the same weights").is_visible() == same
            kind = (
                "NaN" if any(w != w for w in weights) else "sum" if not any(weights) else "Weights"
            )
            kinds.add((kind, len({*shown[1:]})))
            assert {
                "NaN": "Infinity ÷ infinity",
                "sum": "every weight is 0",
                "Weights": "A bar is a score ÷" if step else "divided by their sum",
            }[kind] in text
    assert kinds == {("NaN", 1), ("NaN", 2), ("sum", 1), ("Weights", 3), ("Weights", 1)}


@pytest.mark.nightly
def test_a_cache_is_written_in_one_unit(visit):
    "The part and the whole, above the bar and below it."
    figure = drawing(visit, "11_grouped_heads.html", "sharing", reduced_motion="reduce")
    cuts = figure.locator("svg > text").filter(has_text=re.compile(r"^([⅛¼½]|1 GiB)$"))
    assert cuts.all_text_contents() == ["⅛", "¼", "½", "1 GiB"]
    for heads, size in {8: "1", 4: "0.5", 2: "0.25", 1: "0.125"}.items():
        figure.get_by_role("radio", name=str(heads)).check()
        assert figure.locator("svg").get_by_text(
            f"cache: {size} GiB", exact=True
        ).is_visible() and said(figure).endswith(f"take {size} GiB.")
        assert figure.locator("svg > rect").last.evaluate(
            "bar => bar.width.baseVal.value / bar.ownerSVGElement.viewBox.baseVal.width"
        ) == pytest.approx(float(size))


@pytest.mark.nightly
def test_tiles_say_what_their_table_says(visit):
    """At every tile: each query's context is acc ÷ sum, said at its last tile and written beside
    the matrix; where a sum shrinks, its row and what is said give the same factor.
    """
    figure = drawing(visit, PAGE_OF["tiles"], "tiles", reduced_motion="reduce")
    tile, box = (
        figure.get_by_role("slider", name="Tile", exact=True),
        figure.get_by_role("img", name="In fast memory"),
    )
    matrix, told = figure.get_by_role("img", name="Query–key pairs"), set()
    for step in range(1, 16):
        tile.fill(str(step))
        now, text = state(figure), said(figure)
        assert now["step"] == step
        sums = [float(one) for one in box.locator("text.sums").all_text_contents()[:4]]
        written = matrix.locator("text").all_text_contents()
        for at, one in enumerate(now["queries"]):
            l, acc = sums[2 * at : 2 * at + 2]
            assert one["context"] == pytest.approx(acc / l, rel=0.01)
            assert (f"” {one['context']:.2f}" in text) == (step % 4 == 0)
            assert f"{one['context']:.2f}" in written or step % 4
        if "multiplied by" in text:
            factor = text.split("multiplied by ")[1].split(",")[0].split(" = ")[1]
            assert f"× {factor}" in box.locator("text").all_text_contents()
        larger = any("→" in one for one in box.locator("text.max").all_text_contents())
        assert box.get_by_text("before").is_visible() == larger  # only where a sum is rescaled
        told.add(("context" in text, "multiplied" in text))
    assert {(True, False), (False, True), (False, False)} <= told


@pytest.mark.nightly
@pytest.mark.parametrize("width, font", [(390, ""), (390, WIDE), (1280, WIDE)])
def test_numbers_in_fast_memory_have_room_in_its_frame(visit, width, font):
    "Of each size of a tile, at each tile: all that is written ends before the frame."
    figure = drawing(visit, PAGE_OF["tiles"], "tiles", width=width, font=font)
    figure.page.emulate_media(reduced_motion="reduce")
    figure.get_by_text("More switches").click()
    for size in range(3):
        figure.get_by_role("radiogroup", name="Tile size").get_by_role("radio").nth(size).check()
        rooms = figure.evaluate(
            """figure => {
              const range = figure.querySelector("input[type=range]"), found = [];
              const box = figure.querySelector("svg[aria-label^='In fast']");
              const right = (node) => node.getBoundingClientRect().right;
              for (let i = 1; i <= +range.max; i++) {
                range.value = i;
                range.dispatchEvent(new Event("input"));
                const texts = [...box.querySelectorAll("text")].filter((one) => one.textContent);
                found.push(right(box) - Math.max(...texts.map(right)));
              }
              return found;
            }"""
        )
        assert len(rooms) == (64, 16, 4)[size] and min(rooms) > 6, size


@pytest.mark.parametrize("width", [390, 1280])
def test_numbers_that_are_typed_are_read_whole(visit, width):
    "Also where they are hovered, and buttons stand beside them."
    figure = drawing(visit, PAGE_OF["subject"], "subject", width=width)
    figure.get_by_text("The eight numbers").click()
    field = figure.locator("input[type=number]").first
    field.hover()
    for number in ("-0.5", "1.25"):
        field.fill(number)
        assert field.evaluate("field => field.scrollWidth <= field.clientWidth"), number


@pytest.mark.nightly
def test_what_leaves_the_plane_keeps_its_direction(visit):
    "A query of (6, 3) is drawn on its way there; and a product of 0.25 is not rounded."
    figure = drawing(visit, PAGE_OF["subject"], "subject")
    figure.get_by_text("The eight numbers").click()
    figure.get_by_role("radio", name=given(figure)["tokens"][1]).check()
    put = lambda name, rows: [
        figure.locator(f"input[aria-label^='{name}']").nth(i).fill(str(n))
        for i, n in enumerate(sum(rows, []))
    ]
    put("W_q", [[3, 1.5], [3, 1.5]])
    q = state(figure)["q"]
    assert q == [6, 3]
    x, y = figure.locator("g[data-sym=q] path").first.evaluate(
        "path => path.getAttribute('d').match(/M[^M]*M([-\\d.]+) ([-\\d.]+)/).slice(1).map(Number)"
    )
    assert [(x - 136) / 68, (204 - y) / 68] == pytest.approx(q)
    label = figure.locator("svg text[data-sym=q]").bounding_box()
    box = figure.locator("svg[role=group]").bounding_box()
    assert (
        box["x"] < label["x"] + label["width"] / 2 < box["x"] + box["width"]
        and box["y"] < label["y"] + label["height"] / 2 < box["y"] + box["height"]
    )
    figure.get_by_role("radio", name=given(figure)["tokens"][0]).check()
    put("W_q", [[0.5, 0], [0, 0]])
    put("W_k", [[0.5, 0], [0, 0]])
    scores = figure.locator(".view tbody tr").first.locator("td").nth(1)
    assert state(figure)["scores"][0] == 0.25 and scores.inner_text() == "0.25"
    put("W_k", [[0, 0], [0, 0]])
    assert named(said(figure)) == {*given(figure)["tokens"]}
    assert said(figure).endswith(": 0.25 each.")
