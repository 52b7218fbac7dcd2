"""The figures that compute in the page: what their scripts work out is what the package gives, whatever a reader does."""
import pytest
import torch
from attention_nb.masks import causal_mask, padding_mask
from attention_nb.multi_head_attention import split_heads
from attention_nb.softmax import masked_softmax, softmax
from attention_nb.tools.testing import assert_close
from browser import DOCS, PAGES
from playwright.sync_api import Locator

DRAWN = [page for page in PAGES if '<figure class="drawing"' in (DOCS / page).read_text(encoding="utf-8")]
EXACT = dict(atol=1e-5, rtol=0)


def state(figure: Locator) -> dict:
    "What the figure has computed, as it stands."
    return figure.evaluate("figure => figure.state()")


def numbers(found: list) -> torch.Tensor:
    "What a script holds, as a tensor."
    return torch.tensor(found, dtype=torch.float32)


def drawing(visit, page: str, script: str, **kwargs) -> Locator:
    "The figure of a page that a script draws; a test ends by looking at `visit.said`."
    return visit(page, **kwargs).page.locator(f"figure[data-drawing={script}]").first


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("page", DRAWN)
def test_it_draws_in_the_room_that_was_kept(visit, page, width):
    "Without a complaint, no wider than the page, and no higher than it said, or what is below would move."
    seen = visit(page, width=width)
    for figure in seen.page.locator("figure.drawing").all():
        name, view = figure.get_attribute("data-drawing"), figure.locator(".view")
        assert state(figure), name
        kept = view.evaluate("view => parseFloat(getComputedStyle(view).minHeight)")
        high, wide, room = view.evaluate("view => [view.scrollHeight, view.scrollWidth, view.clientWidth]")
        assert high <= kept + 1, f"{name} is {high} pixels high at {width}; it kept {kept}"
        assert wide <= room, f"{name} is {wide} pixels wide in {room} at {width}"
    assert seen.said == []


def test_arrows_give_their_dot_product(visit):
    "By keys and by the mouse."
    figure = drawing(visit, "01_naive_attention.html", "arrows")
    knob = figure.get_by_role("slider", name="arrow a")
    knob.focus()
    for key in ["ArrowLeft"] * 3 + ["Shift+ArrowDown"] * 2:
        knob.press(key)
    now = state(figure)
    assert_close(numbers(now["arrows"][0]), torch.tensor([0.7, 1.0]), **EXACT)
    box = figure.locator("svg").bounding_box()
    knob.hover()
    figure.page.mouse.down()
    figure.page.mouse.move(box["x"] + 50, box["y"] + 200)
    figure.page.mouse.up()
    a, b = numbers(state(figure)["arrows"])
    assert_close(a, torch.tensor([-2.0, -1.0]), **EXACT)
    assert_close(numbers(state(figure)["product"]), a @ b, **EXACT)
    assert "negative" in figure.locator("output").inner_text()


def given(figure: Locator) -> dict:
    "The numbers that a script was given."
    return figure.evaluate("figure => JSON.parse(figure.querySelector('script[type=\"application/json\"]').textContent)")


def assert_board(figure: Locator, mask: torch.Tensor, after: bool = False) -> None:
    "The board holds this mask, the weights that the package gives, and what they depend on."
    now, scores = state(figure), numbers(given(figure)["scores"])[-len(mask):]
    weigh = lambda s: softmax(s) * mask if after else masked_softmax(s, mask)
    weights = weigh(scores)
    assert torch.equal(torch.tensor(now["mask"]), mask)
    assert_close(numbers(now["weights"]), weights, **EXACT)
    assert_close(numbers(now["sums"]), weights.sum(-1), **EXACT)
    poked = [(weigh(scores + torch.eye(5)[j]) - weights).abs().amax(-1) > 1e-6 for j in range(5)]
    assert torch.equal(torch.tensor(now["reached"]), torch.stack(poked, dim=-1) | (weights > 0))


def test_mask_board_masks_as_the_package_does(visit):
    "By keys, by the mouse, and with every switch."
    seen = visit("04_masks.html")
    figure = seen.page.locator("figure[data-drawing=mask_board]").first
    said, causal = figure.locator("output"), causal_mask(5)
    assert_board(figure, causal)
    assert said.inner_text() == "The new row of “drank” depends on: the, cat, drank."
    cell = figure.locator("td button[tabindex='0']")
    cell.focus()
    for key in ("ArrowRight", "ArrowUp", "Enter"):
        seen.page.keyboard.press(key)
    by_hand = causal.clone()
    by_hand[1, 1] = False
    assert_board(figure, by_hand)
    assert said.inner_text() == "The new row of “cat” depends on: the."
    figure.get_by_role("button", name="the looks at the").click()
    by_hand[0, 0] = False
    assert_board(figure, by_hand)
    assert "nobody" in said.inner_text()
    figure.get_by_role("button", name="last word is padding").click()
    assert_board(figure, causal & padding_mask([4], 5)[0, 0])
    figure.get_by_role("button", name="no future").click()
    assert_board(figure, padding_mask([4], 5)[0, 0].expand(5, 5))
    figure.get_by_role("button", name="no future").click()
    figure.get_by_role("button", name="last word is padding").click()
    figure.get_by_text("More switches").click()
    figure.get_by_text("after it").click()
    assert_board(figure, causal, after=True)
    figure.get_by_role("button", name="drank looks at cat").hover()
    assert said.inner_text().endswith("depends on: the, cat, drank. A leak: milk, today.")
    figure.get_by_text("before the softmax").click()
    figure.get_by_text("blocked", exact=True).click()
    assert_board(figure, ~causal)
    figure.get_by_text("may attend", exact=True).click()
    kept = figure.get_by_role("slider", name="Words kept in a cache")
    for _ in range(3):
        kept.press("ArrowRight")
    assert_board(figure, causal_mask(2, 5))
    figure.get_by_text("first query, first key").click()
    assert_board(figure, torch.ones(2, 5, dtype=torch.bool).tril())


def test_head_cut_lands_where_split_heads_puts_it(visit):
    "At each step, in both pictures; pointed at and reached by keys."
    figure = drawing(visit, "05_multi_head_attention.html", "head_cut")
    rows = numbers(given(figure)["rows"])
    n, width, heads = *rows.shape, given(figure)["heads"]
    right, wrong = split_heads(rows, heads), rows.view(heads, n, width // heads)
    for step, left in {"the rows": rows, "view": rows.view(n, heads, -1), "transpose": right}.items():
        figure.get_by_text(step, exact=True).click()
        now = state(figure)
        assert torch.equal(numbers(now["right"]), left)
        assert torch.equal(numbers(now["wrong"]), rows if step == "the rows" else wrong)
    figure.get_by_role("option", name="10, of word 1").first.hover()
    for lit, key in ((10, None), (11, "ArrowRight"), (1, "ArrowUp")):
        if key:
            figure.locator("[role=option][tabindex='0']").first.press(key)
        now = state(figure)
        assert now["lit"] == lit == right[tuple(now["lands"]["right"])] == wrong[tuple(now["lands"]["wrong"])]
        assert figure.locator("output").inner_text().startswith(f"{lit} belongs to word {lit // 10}. Left: head 0")


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
    expected = torch.stack([weights[:, 2:, 0].mean(-1), weights[:, range(2, 6), range(1, 5)].mean(-1)], dim=-1)
    assert_close(numbers(now["looks"]), expected, **EXACT)
    figure.get_by_role("button", name="play").click()
    figure.page.wait_for_function("figure => !figure.state().playing", arg=figure.element_handle())
    assert state(figure)["step"] == film["steps"][-1]
    assert figure.locator("output").inner_text() == "Step 299: head 0 looks at the first word, head 1 looks at the word before."
