"""The figure of all heads in a browser: what it shows are the weights, at full size, by mouse,
keys and fingers, without a network.

If it fails: attention_nb/figures/head_view.js draws,
nbs/figures/head_view.ipynb gives it the numbers.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn as nn
from attention_nb.figures.head_view import HeadView, head_view
from attention_nb.tools.calls import Call
from attention_nb.tools.testing import assert_close
from attention_nb.tools.watching import watch
from axe_playwright_python.sync_playwright import Axe
from conftest import ROOT
from playwright.sync_api import Locator, Page, expect

WORDS = [
    "<script>alert(1)</script>",
    "the",
    "cat",
    "sat",
    "on",
    "the",
    "mat",
    "</figure>",
    "\n",
    "the",
    "cat",
]
OTHERS = ["die", "<!--", "Katze", "sass", "auf", "der", "Matte"]
NEAR = dict(atol=0.004, rtol=0)  # a byte holds the root of a weight


def calls(
    layers: int,
    heads: int,
    n_q: int,
    n_k: int,
    kv_heads: int | None = None,
    name: str = "layers.{}.attn",
) -> list[Call]:
    """Calls with known weights: those of layer 0, head 1 go to the token before,
    those of layer 1, head 0 to the first.
    """
    chance, made = torch.Generator().manual_seed(n_q), []
    for layer in range(layers):
        scores = 3 * torch.randn(1, heads, n_q, n_k, generator=chance)
        if n_q == n_k:
            scores.masked_fill_(~torch.ones(n_q, n_k).tril().bool(), -torch.inf)
            scores[:, 1, range(1, n_q), range(n_q - 1)] += 12.0 * (layer == 0)
        scores[:, 0, :, 0] += 12.0 * (layer == 1)
        call = Call(
            name.format(layer), "softmax", (1, heads, n_q, n_k), 4, given=scores.softmax(-1)
        )
        call.kv_heads = kv_heads or heads
        made.append(call)
    return made


@pytest.fixture
def opened(chromium, tmp_path) -> Callable[..., Locator]:
    """Saves a figure and opens the file; whatever it asks of a network,
    and each error, fails the test.
    """
    pages: list[tuple[Page, list[str]]] = []

    def opened(
        view: HeadView, width: int = 1280, scheme: str = "light", touch: bool = False
    ) -> Locator:
        path = tmp_path / f"{len(pages)}.html"
        view.save(path)
        page, said = (
            chromium.new_page(
                viewport=dict(width=width, height=900), color_scheme=scheme, has_touch=touch
            ),
            [],
        )
        pages.append((page, said))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("console", lambda message: said.append(message.text))
        page.on("dialog", lambda dialog: (said.append("a token ran as a script"), dialog.dismiss()))
        page.on(
            "request",
            lambda request: (
                None
                if request.url.startswith(("file:", "data:", "blob:"))
                else said.append(request.url)
            ),
        )
        page.goto(path.as_uri())
        page.wait_for_function("document.querySelector('figure.drawing').state")
        return page.locator("figure.drawing")

    yield opened
    said = [line for page, lines in pages for line in lines]
    for page, _ in pages:
        page.close()
    assert not said


def state(figure: Locator) -> dict:
    "What the figure shows."
    return figure.evaluate("figure => figure.state()")


def row_of(now: dict, n_k: int) -> torch.Tensor:
    "The weights of the chosen query."
    weights = torch.zeros(n_k)
    for key, weight in now["row"]:
        weights[key] = weight
    return weights


def test_it_shows_the_weights(opened):
    "Of each head that one goes to by keys or by mouse, and each query; in every view."
    made = calls(3, 4, 11, 11)
    figure = opened(head_view(made, WORDS))
    figure.get_by_role("button", name="layer 0, head 0").focus()
    for key, want in {
        "ArrowRight": (0, 1),
        "ArrowDown": (1, 1),
        "ArrowLeft": (1, 0),
        "ArrowUp": (0, 0),
    }.items():
        figure.page.keyboard.press(key)
        assert (state(figure)["l"], state(figure)["h"]) == want
    figure.get_by_role("button", name="layer 2, head 3").click()
    query = figure.get_by_role("slider", name="query")
    for i in (0, 7, 10):
        query.fill(str(i))
        now = state(figure)
        assert (now["l"], now["h"], now["i"]) == (2, 3, i)
        assert_close(row_of(now, 11), made[2].weights(3, i)[0, 0, 0], **NEAR)
        assert_close(
            torch.tensor(now["through"], dtype=torch.float32),
            made[2].weights(None, i)[0, :, 0].mean(0),
            **NEAR,
        )
    box = figure.get_by_role("img", name="Weights of layer 2, head 3").bounding_box()
    figure.page.mouse.move(box["x"] + 4.5 / 11 * box["width"], box["y"] + 6.5 / 11 * box["height"])
    assert (
        state(figure)["i"] == 6
        and f"(4): {made[2].weights(3, 6)[0, 0, 0, 4]:.1f}" in state(figure)["said"]
    )
    arcs = figure.locator("svg[aria-hidden] path")  # from the query to its keys, the largest lit
    row = made[2].weights(3)[0, 0, 6]
    assert abs(arcs.count() - int((row >= 0.05).sum())) <= 1
    ends = arcs.evaluate_all("all => all.map((arc) => arc.getAttribute('d').match(/[\\d.]+/g))")
    assert float(ends[0][0]) == 6.5 and float(ends[0][-2]) == int(row.argmax()) + 0.5
    assert [arc.get_attribute("opacity") for arc in arcs.all()] == ["1"] + ["0.3"] * (len(ends) - 1)
    figure.get_by_role("radio", name="Lines").check()
    lines = figure.locator("svg line")
    assert (
        lines.count() == (made[2].weights(3)[0, 0] >= 0.0105).sum()
        or abs(lines.count() - (made[2].weights(3)[0, 0] >= 0.01).sum()) <= 2
    )
    expect(figure.locator("svg[role=img]")).to_contain_text("<script>ale…")
    figure.locator("svg text", has_text="mat 6").click()
    assert state(figure)["i"] == 6
    figure.get_by_role("radio", name="All layers").check()
    assert "“mat” (6) through all layers. The mean of the heads attends" in state(figure)["said"]
    strips = figure.locator("button[aria-label*='most to'] + div > canvas")
    rows, box = "all => all.map((one) => one.height)", strips.last.bounding_box()
    assert strips.evaluate_all(rows) == [4, 4, 4]  # a row for each head
    for h in range(4):
        best = made[2].weights(h, 6)[0, 0, 0].max()
        assert re.search(rf"head {h}: \S+ {best:.2f}", figure.inner_text())
    figure.get_by_role("radio", name="this head").check()
    assert strips.evaluate_all(rows) == [1, 1, 1] and strips.last.bounding_box() == box
    assert_close(
        torch.tensor(state(figure)["through"], dtype=torch.float32),
        made[2].weights(3, 6)[0, 0, 0],
        **NEAR,
    )
    figure.get_by_role("button", name="layer 1: most to").click()
    assert state(figure)["l"] == 1


def test_heads_are_ordered_by_what_they_do(opened):
    """The head that attends to the token before comes first, then the one that attends to the first
    token; keys follow the order.
    """
    figure = opened(head_view(calls(3, 4, 11, 11), WORDS))
    begins = (state(figure)["l"], state(figure)["h"])
    assert begins == (0, 1), "the clearest of the first layer in which heads have a name"
    for name, does in {
        "layer 0, head 1": "previous",
        "layer 1, head 0": "first",
        "layer 2, head 3": "mixed",
    }.items():
        assert figure.get_by_role("button", name=name).inner_text() == does
    order = figure.get_by_role("combobox", name="order of heads")
    assert order.locator("option").all_inner_texts() == [
        "as in the model",
        "previous token",
        "first token",
        "same token",
        "induction",
    ]
    # what is framed: of each query the key that the score counts
    framed = figure.locator("svg[aria-hidden] rect[width='0.88']")
    pairs = {
        "previous token": {(i, i - 1) for i in range(1, 11)},
        "first token": {(i, 0) for i in range(11)},
    }
    for name, head in {"previous token": [0, 1], "first token": [1, 0]}.items():
        order.select_option(name)
        now = state(figure)
        assert now["order"][0] == head and (now["l"], now["h"]) == begins, "the chosen head stays"
        assert f"{name} " in now["said"]
        at = framed.evaluate_all(
            "all => all.map((one) => [one.y, one.x].map((side) => Math.floor(side.baseVal.value)))"
        )
        *squares, sample = at
        assert {*map(tuple, squares)} == pairs[name] and sample == [0, 0]
    figure.get_by_role("button", name="layer 1, head 0").focus()
    figure.page.keyboard.press("ArrowRight")
    assert [state(figure)["l"], state(figure)["h"]] == state(figure)["order"][1]


def test_it_opens_on_a_head_that_copies(opened):
    "Late in the text, where there is something to copy."
    made = calls(2, 2, 8, 8)
    weights = made[1].given.clone()
    weights[0, 1, 4:] = torch.eye(8)[1:5]  # from each letter to the one after the same letter
    made[1] = Call("layers.1.attn", "softmax", (1, 2, 8, 8), 4, given=weights)
    made[1].kv_heads = 2
    for order in (None, "induction"):
        figure = opened(head_view(made, list("abcdabcd"), order=order))
        now = state(figure)
        assert (now["l"], now["h"], now["i"]) == (1, 1, 6)
        chosen = figure.get_by_role("combobox", name="order of heads").locator("option:checked")
        assert chosen.inner_text() == (order or "as in the model")
        assert (now["order"][0] == [1, 1]) == (order == "induction")


def test_letters_stand_above_the_columns_of_all_layers(opened):
    "Also on a phone, where a column is narrower than a long name is high."
    figure = opened(head_view(calls(2, 4, 16, 16), list("MCDSNTOE" * 2)), width=390)
    figure.get_by_role("radio", name="All layers").check()
    above = figure.locator("span:visible", has_text=re.compile("^[MCDSNTOE]$"))
    assert above.all_inner_texts() == list("MCDSNTOE" * 2)


def test_cross_attention_and_shared_keys(opened):
    "Keys have the tokens of the other text; heads that share keys are named."
    made = calls(1, 4, 7, 7, name="encoder.layers.{}.attn") + calls(
        1, 4, 11, 7, 2, "decoder.layers.{}.cross"
    )
    figure = opened(head_view(made, WORDS, memory=OTHERS))
    figure.get_by_role("button", name="layer 1, head 2").click()
    expect(figure).to_contain_text("(heads 2 to 3 share keys)")
    figure.get_by_role("radio", name="Lines").check()
    texts = figure.locator("svg text").all_text_contents()
    assert texts[:2] == ["<script>ale… 0", "the 1"] and "1 <!--" in texts and len(texts) == 11 + 7
    figure.get_by_role("radio", name="All layers").check()
    # the encoder's rows are those of other tokens
    assert figure.get_by_role("button", name="most to").count() == 1


def test_a_generation_is_one_matrix():
    "The rows of each step are put below those of the prompt."

    class Cached(nn.Module):
        def __init__(self):
            super().__init__()
            self.q_proj, self.k_proj = nn.Linear(8, 8), nn.Linear(8, 8)

        def forward(self, x, new):
            return nn.functional.scaled_dot_product_attention(
                self.q_proj(x[:, -new:]), self.k_proj(x), x, is_causal=new > 1
            )

    model, x = Cached(), torch.randn(1, 6, 8)
    with torch.no_grad(), watch(model) as seen:
        for n, new in ((4, 4), (5, 1), (6, 1)):
            model(x[:, :n], new)
    with torch.no_grad(), watch(model) as whole:
        model(x, 6)
    parts = [head_view(one, list("abcdef")).weights for one in (seen, whole)]
    assert len(seen.calls) == 3 and parts[0] == parts[1]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_readers(opened, scheme):
    """axe finds nothing; a phone shows all within its width, and a finger chooses;
    dark pages have a brighter colour.
    """
    figure = opened(head_view(calls(2, 12, 11, 11), WORDS), 390, scheme, touch=True)
    figure.page.evaluate(Axe().axe_script)
    found = figure.page.evaluate(
        "axe.run({ runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa'] })"
        ".then(result => result.violations.map(one => [one.id, one.nodes[0].html]))"
    )
    assert not found
    assert figure.page.evaluate("document.documentElement.scrollWidth") <= 390
    figure.get_by_role("button", name="layer 1, head 7").tap()
    assert (state(figure)["l"], state(figure)["h"]) == (1, 7)
    box = figure.get_by_role("img", name="Weights of").bounding_box()
    figure.page.touchscreen.tap(box["x"] + box["width"] / 2, box["y"] + 9.5 / 11 * box["height"])
    assert state(figure)["i"] == 9
    bright = figure.evaluate(
        "f => { const c = f.querySelector('canvas[role=img]'), "
        "d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data; "
        "return Math.max(...d.filter((_, i) => i % 4 === 0 && d[i + 3] > 200)); }"
    )
    assert bright == pytest.approx(186 if scheme == "dark" else 142, abs=3)


def test_full_size(opened):
    """24 layers of 16 heads over 512 tokens: below 5 MB; it says what was left out;
    pictures and rows are near the weights.
    """
    made = calls(24, 16, 512, 512)
    view = head_view(made, (WORDS * 50)[:512])
    assert len(view.html().encode()) < 5_000_000
    figure = opened(view)
    expect(figure).to_contain_text("squares of 8 × 8 tokens, and of each query the")
    figure.get_by_role("button", name="layer 23, head 15").click()
    figure.get_by_role("slider", name="query").fill("500")
    now, weights = state(figure), made[23].weights(15)[0, 0]
    best = weights[500].topk(len(now["row"]))
    assert len(now["row"]) >= 4
    assert_close(torch.tensor([w for _, w in now["row"]]), best.values, **NEAR)
    squares = weights.reshape(64, 8, 64, 8).sum((1, 3)) / 8
    assert_close(torch.tensor(now["picture"]).reshape(64, 64), squares, **NEAR)


def test_nothing_of_a_network_is_in_the_file(tmp_path: Path):
    "No address but the names of SVG; no token stands in it as it is."
    head_view(calls(1, 2, 11, 11), WORDS).save(tmp_path / "x.html")
    page = (tmp_path / "x.html").read_text(encoding="utf-8")
    assert (
        "//"
        not in page.replace("http://www.w3.org/2000/svg", "").replace("// ", "").split("<style>")[0]
    )
    assert (
        "alert(1)" not in page
        and page.count("<script") == 3
        and (ROOT / "attention_nb/figures/head_view.js").exists()
    )
