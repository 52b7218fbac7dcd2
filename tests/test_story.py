"""The site as a story: folds and their switch, questions before surprises, explanations of terms, search, and the outline."""
import re

import nbformat
import pytest
from browser import DOCS
from conftest import CHAPTERS, fail_if, place
from playwright.sync_api import expect

PAGES = [f"{place(path)}.html" for path in CHAPTERS]
each_chapter = pytest.mark.parametrize("path", CHAPTERS, ids=place)
OPEN = "folds => folds.map(fold => fold.open)"
FOLDS = "details.fold:not(details:not(.fold) details)"


def test_one_switch_opens_all_folds_and_is_remembered(visit):
    "From page to page; solutions stay shut."
    page = visit("03_self_attention.html").page
    assert not any(page.locator(FOLDS).evaluate_all(OPEN))
    page.get_by_role("button", name="Open every fold").press("Enter")
    assert all(page.locator(FOLDS).evaluate_all(OPEN))
    page.goto(page.url.replace("03_self_attention", "04_masks"))
    assert all(page.locator(FOLDS).evaluate_all(OPEN))
    assert not any(page.locator("details:not(.fold) details.fold").evaluate_all(OPEN))
    button = page.get_by_role("button", name="Open every fold")
    assert button.get_attribute("aria-pressed") == "true"
    button.click()
    assert not any(page.locator(FOLDS).evaluate_all(OPEN))


def test_the_outline_is_seen_on_a_common_screen(visit):
    "And the page needs no scrolling sideways."
    page = visit("03_self_attention.html", width=1280).page
    box = page.locator(".toc-drawer").bounding_box()
    assert box["x"] > 900 and box["x"] + box["width"] <= 1280
    assert page.evaluate("document.documentElement.scrollWidth") <= 1280


@pytest.mark.parametrize("touch", [False, True], ids=["keyboard and mouse", "finger"])
def test_terms_and_sources_explain_themselves(visit, touch):
    "Escape closes the explanation; by finger, the first touch explains and the second follows the link."
    page = visit("03_self_attention.html", has_touch=touch).page
    shown = page.locator("#explanation")
    for link in (page.locator("article a.term").first, page.get_by_role("link", name="Vaswani et al. 2017").first):
        if touch:
            link.tap()
            expect(link).to_have_attribute("aria-describedby", "explanation")
            expect(shown).to_be_visible()
            assert "03_self_attention" in page.url
            continue
        link.hover()
        assert shown.is_visible() and len(shown.inner_text()) > 20
        page.keyboard.press("Escape")
        assert shown.is_hidden()
        page.keyboard.press("Tab")  # from here on, the focus is one of the keyboard
        link.focus()
        assert shown.is_visible() and link.get_attribute("aria-describedby") == "explanation"
        page.keyboard.press("Escape")
    if touch:
        link.tap()
        page.wait_for_url(re.compile("references.html#"))
