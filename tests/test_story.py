"""The site as a story: folds and their switch, short code, questions before surprises, explanations
of terms, search, and the outline.

If it fails: The message says which chapter and what of it. Of searches: tests/search_questions.py
lists them, website/asked.json has the phrases in which people ask for a section,
website/static/search/synonyms.js the synonyms. tools/chapter.md has the rules.
"""

import ast
import re
from itertools import product
import sys
from copy import copy

import nbformat
import pytest
from browser import out_of_room
from bs4 import BeautifulSoup
from conftest import CHAPTERS, NOTEBOOKS, ROOT, by_day, fail_if, is_edited, of_page, place
from playwright.sync_api import expect
from pygments import highlight
from pygments.lexers import PythonLexer
from search_questions import QUESTIONS, STRANGERS

sys.path.insert(0, str(ROOT / "website"))
from heads import ShortHeads

PAGES = [f"{place(path)}.html" for path in CHAPTERS]
each_chapter = pytest.mark.parametrize("path", CHAPTERS, ids=place)
OPEN = "folds => folds.map(fold => fold.open)"
FOLDS = "details.fold:not(details:not(.fold) details)"


def pressed(page) -> list[str]:
    "Which of the two buttons is pressed: how much is shown."
    return (
        page.get_by_role("group", name="Code").get_by_role("button", pressed=True).all_inner_texts()
    )


def test_one_switch_opens_all_folds_and_is_remembered(visit):
    "From page to page, of every kind; solutions stay shut."
    page = visit("03_self_attention.html").page
    assert not any(page.locator(FOLDS).evaluate_all(OPEN)) and pressed(page) == ["hidden"]
    page.get_by_role("button", name="shown").press("Enter")
    assert all(page.locator(FOLDS).evaluate_all(OPEN))
    first = page.url
    for path in ("04_masks", "checks/gallery", "checks/index", "lookup/speed", "index"):
        page.goto(first.replace("03_self_attention", path))
        assert all(page.locator(FOLDS).evaluate_all(OPEN)) and page.locator(FOLDS).count(), path
        assert pressed(page) == ["shown"]
    page.goto(first)
    assert not any(page.locator("details:not(.fold) details.fold").evaluate_all(OPEN))
    page.get_by_role("button", name="hidden").click()
    assert not any(page.locator(FOLDS).evaluate_all(OPEN)) and pressed(page) == ["hidden"]


def test_every_page_with_folds_has_the_switch(soups):
    "And no other has it: it would do nothing."
    wrong = []
    for path, soup in soups.items():
        other = lambda e: e.name == "details" and "fold" not in e.get("class", [])
        folds = [fold for fold in soup.select("details.fold") if not fold.find_parent(other)]
        switch = soup.select(".depth button")
        wrong += [f"{path}: {len(folds)} folds"] * (bool(folds) != bool(switch))
    fail_if(wrong, "A switch without folds, or folds without a switch:")


REFERENCE = "details.reference"


def test_the_reference_is_a_line_of_a_story(visit):
    """That says how many names there are; a link into it opens it,
    from here or from another page; everything shows it.
    """
    page = visit("02_softmax.html").page
    fold, name = page.locator(REFERENCE), page.locator("[id='attention_nb.softmax.entropy']")
    names = page.locator(f"{REFERENCE} > dl.py > dt").count()
    assert (
        f"All {names} names of attention_nb.softmax" in fold.locator("summary").inner_text()
        and names > 4
    )
    assert not name.is_visible()
    page.evaluate("location.hash = 'attention_nb.softmax.entropy'")
    expect(name).to_be_in_viewport()
    page.get_by_role("button", name="hidden").click()
    assert not name.is_visible()
    page.goto("about:blank")
    page.goto(
        f"{visit('index.html').page.url.removesuffix('index.html')}"
        "02_softmax.html#attention_nb.softmax.entropy"
    )
    expect(name).to_be_in_viewport()
    page.get_by_role("button", name="shown").click()
    page.reload()
    assert fold.evaluate("fold => fold.open")


def test_the_reference_is_open_without_a_script_and_on_paper(visit):
    "It is folded for those who read the story, not for those who cannot unfold it all."
    name = "[id='attention_nb.softmax.entropy']"
    assert visit("02_softmax.html", java_script_enabled=False).page.locator(name).is_visible()
    page = visit("02_softmax.html").page
    page.emulate_media(media="print")
    assert (
        page.locator(name).is_visible()
        and not page.locator(".fold:not(.reference, .veil) pre:visible").count()
    )


def test_the_outline_is_seen_on_a_common_screen(visit):
    "And the page needs no scrolling sideways."
    page = visit("03_self_attention.html", width=1280).page
    box = page.locator(".toc-drawer").bounding_box()
    assert box["x"] > 900 and box["x"] + box["width"] <= 1280
    assert page.evaluate("document.documentElement.scrollWidth") <= 1280


def test_a_line_of_the_outline_keeps_its_width(visit):
    "When it becomes the one where one is: else its words would break anew."
    page = visit("14_local_attention.html", width=1280).page
    link = page.locator(".toc-tree li li a.reference").first
    before = link.bounding_box()
    link.evaluate("link => link.parentElement.classList.add('scroll-current')")
    assert link.bounding_box() == before


@pytest.mark.parametrize("touch", [False, True], ids=["keyboard and mouse", "finger"])
def test_terms_and_sources_explain_themselves(visit, touch):
    """Escape closes the explanation;
    by finger, the first touch explains and the second follows the link.
    """
    page = visit("03_self_attention.html", has_touch=touch).page
    shown = page.locator("#explanation")
    for link in (
        page.locator("article a.term").first,
        page.get_by_role("link", name="Vaswani et al. 2017").first,
    ):
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


# ---- Questions before surprises ----


def questions(path) -> dict[str, tuple[str, set[str]]]:
    "The questions of a chapter: the id of the cell, its text, and the ids of all code cells."
    cells = nbformat.read(path, as_version=4).cells
    code = {cell.id for cell in cells if cell.cell_type == "code"}
    return {
        cell.id: (cell.source, code)
        for cell in cells
        if cell.id.startswith("predict-") and cell.cell_type == "markdown"
    }


ANSWERED = r'<div class="predict" data-answer="([^"]+)"( data-within="0\.\d+")?>\n\n'
FOLD = r'<details class="right"><summary>(?:(?!<details).)+</details>\n\n</div>\s*$'


def misasked(text: str) -> list[str]:
    """What is wrong with a question that is answered by a number, an order or a cell: one fold,
    and an answer that fits what is shown.
    """
    answer, shown = re.match(ANSWERED, text)[1], text.partition("<details")[0]
    items, rows = (
        re.findall(r"(?m)^- (.)", shown),
        [line.strip("|").split("|") for line in shown.splitlines() if line.startswith("|")],
    )
    wrong = [] if re.search(FOLD, text, re.S) else ["one fold with the answer, at its end"]
    if items:
        right = answer.split(" ")
        if (
            items != [*"ABCDE"][: len(items)]
            or len(items) < 3
            or sorted(right) != items
            or right == items
        ):
            wrong.append(
                "three to five items, `- A: …`, "
                "and the answer another order of their letters, such as B A C"
            )
        if ", ".join(right) not in text:
            wrong.append(
                f"the fold says the order, {', '.join(right)}: "
                "without scripts it is the only answer"
            )
    elif rows:
        names = {
            f"{row[0].strip()}, {column.strip()}" for row in rows[2:] for column in rows[0][1:]
        }
        if answer not in names:
            wrong.append(f"the answer is a row and a column, one of {sorted(names)}")
    elif not re.fullmatch(r"[\d.]+", answer) or float(answer) == 0:
        wrong.append(
            "the answer is a number, not 0, since how far off is told in parts of it; "
            "or there is a list to order, or a table"
        )
    return wrong


@each_chapter
def test_a_reader_predicts(path):
    """Two to four answers, each with a reason, one of them right; or a number, an order, a cell.

    And a cell asserts it.
    """
    asked, wrong = questions(path), []
    for name, (text, code) in asked.items():
        if f"{name}-test" not in code:
            wrong.append(f"{name}: a cell {name}-test asserts it")
        if re.match(ANSWERED, text):
            wrong += [f"{name}: {fault}" for fault in misasked(text)]
            continue
        answers = re.findall(
            r"<details( class=\"right\")?><summary>(.+?)</summary>\n\n(.+?)\n\n</details>",
            text,
            re.S,
        )
        if not (
            text.startswith('<div class="predict">')
            and 2 <= len(answers) <= 4
            and text.count("<summary>") == len(answers)
        ):
            wrong.append(f"{name}: two to four answers, each a <details> with a reason")
        wrong += [
            f"{name}: Markdown is not read in a <summary>: {answer}"
            for _, answer, _ in answers
            if re.search(r"[$`*]", answer)
        ]
        if sum(bool(right) for right, *_ in answers) != 1:
            wrong.append(f"{name}: one answer is right")
    fail_if(wrong, "Questions to mend:")
    assert len(asked) >= 2


def explained(cells, i: int) -> bool:
    "Does a text follow a question, before the next heading or question?"
    after = [cell for cell in cells[i + 1 :] if cell.cell_type == "markdown"][:1]
    return any(not cell.source.startswith(("#", '<div class="predict"')) for cell in after)


@each_chapter
def test_an_answer_is_explained_once(path):
    "In the text below; the fold of the right answer names it in a few words."
    cells, asked = nbformat.read(path, as_version=4).cells, questions(path)
    right = re.compile(
        r'<details class="right"><summary>[^<]*</summary>\n\n(.*?)\n\n</details>', re.S
    )
    told = {
        cell.id: right.search(cell.source)[1]
        for i, cell in enumerate(cells)
        if cell.id in asked and explained(cells, i)
    }
    long = [f"{name}: {said}" for name, said in told.items() if len(said) > 60]
    fail_if(
        long, "Explain these answers in the text alone, and name them in at most 60 characters:"
    )


def test_a_question_that_cannot_be_answered_is_found():
    "One fault each, of an order, a cell and a number that are well."
    fold = (
        '<details class="right"><summary>Show the answer</summary>\n\nB, C, A.\n\n'
        "</details>\n\n</div>"
    )
    begin, items = (
        '<div class="predict" data-answer="{}">\n\nWhich?\n\n',
        "- A: one\n- B: two\n- C: three\n\n",
    )
    table = "| | keys | values |\n|---|---|---|\n| bias | a | b |\n\n"
    for answer, shown in (("B C A", items), ("bias, keys", table), ("192", "")):
        assert not misasked(begin.format(answer) + shown + fold)
    for answer, shown in (
        ("A B C", items),
        ("B C D", items),
        ("B C", items),
        ("C B A", items),
        ("B A", "- A: one\n- B: two\n\n"),
        ("keys, bias", table),
        ("0", ""),
        ("bias", ""),
    ):
        assert misasked(begin.format(answer) + shown + fold), (answer, shown)
    assert misasked(begin.format("B C A") + items + fold.replace(' class="right"', ""))


def test_the_right_answer_is_not_always_at_one_place():
    "Of the questions whose answers are given; most others ask for a number, an order or a cell."
    places = [
        re.findall(r"<details( class=\"right\")?>", text).index(' class="right"')
        for path in CHAPTERS
        for text, _ in questions(path).values()
        if "data-answer=" not in text
    ]
    assert len(places) >= 8 and max(map(places.count, places)) <= 0.6 * len(places)


@pytest.mark.parametrize(
    "opens", ["an answer", "who does not want to guess", "the switch of all folds"]
)
def test_what_gives_the_answer_away_is_veiled(visit, opens):
    """All up to the next heading or question, behind one bar, until one answers or presses it;
    who wants everything is asked nothing.
    """
    page = visit("02_softmax.html").page
    question = page.locator(".predict:has(> details > summary):has(+ .veil)").first
    bar, inside = question.locator("+ .veil > summary"), question.locator("+ .veil > :not(summary)")
    expect(bar).to_be_visible()
    expect(bar).to_have_text("Show what follows")
    assert inside.count() > 1 and not any(one.is_visible() for one in inside.all())
    if opens == "the switch of all folds":
        page.get_by_role("button", name="shown").press("Enter")
    else:
        (question.locator("summary").first if opens == "an answer" else bar).press("Enter")
    expect(inside.locator("visible=true").first).to_be_visible()
    page.get_by_role("button", name="hidden").press("Enter")
    expect(question.locator("+ .veil")).to_have_js_property("open", opens == "an answer")


def test_a_question_without_scripts_shows_what_follows(visit):
    "The bar opens by itself, and a choice says why it is right or wrong."
    page = visit("02_softmax.html", java_script_enabled=False).page
    veil = page.locator(".veil").first
    assert not veil.locator("p:visible").count()
    veil.locator("> summary").click()
    expect(veil.locator("p:visible").first).to_be_visible()


def test_a_number_is_a_guess_that_is_judged(visit):
    "With how far off it is; the right one opens the reason."
    page = visit("02_softmax.html").page
    question = page.locator(".predict[data-answer]").first
    answer = float(question.get_attribute("data-answer"))
    box, said = question.locator("input"), question.locator("output")
    for given, heard in (
        ("much", "A number"),
        (f"{answer * 3:g}", "Too large."),
        (f"{answer / 3:g}", "Too small."),
        (f"{answer:,.6g}", "✓ Right."),
    ):
        assert not question.locator("details[open]").count()
        box.fill(given)
        box.press("Enter")
        expect(said).to_contain_text(heard)
    expect(question.locator("details.right[open]")).to_be_visible()


ORDERS = ["07_transformer.html", "16_longer_texts.html", "17_cost.html"]


@pytest.mark.parametrize("how, path", by_day(product(["mouse", "finger", "keyboard"], ORDERS), 5))
def test_an_order_is_judged(visit, path, how):
    """Items get their numbers as they are pressed, and lose them; a wrong order keeps what is right
    so far; the right one opens the reason.
    """
    page = visit(path, **{"width": 390, "has_touch": True} if how == "finger" else {}).page
    question = page.locator(".predict:has(> ul button)")
    right, said, fold = (
        question.get_attribute("data-answer").split(" "),
        question.locator("output"),
        question.locator("details"),
    )
    press = {
        "mouse": lambda item: item.click(),
        "finger": lambda item: item.tap(),
        "keyboard": lambda item: item.press("Enter"),
    }[how]
    item = {
        name: question.get_by_role("button", name=re.compile(rf"^\d?\s*{name}: ")) for name in right
    }
    expect(said).to_contain_text("Press the items in order")
    # the second press of the first item takes both back
    for name in (right[0], right[1], right[0]):
        press(item[name])
    expect(said).to_have_text(f"0 of {len(right)}")
    assert not question.get_by_role("button", pressed=True).count()
    for name in (right[0], *right[:0:-1]):
        press(item[name])
    expect(said).to_have_text("✗ Not yet. Number 2 is another one.")
    assert question.get_by_role("button", pressed=True).all_inner_texts() == [
        item[right[0]].inner_text()
    ]
    expect(fold).not_to_have_attribute("open", "")
    for i, name in enumerate(right[1:], 2):
        press(item[name])
        expect(item[name]).to_have_accessible_name(re.compile(rf"^{i}\s*{name}: "))
    expect(said).to_have_text("✓ Right.")
    expect(question.locator("details.right[open]")).to_be_visible()


def test_a_cell_is_an_answer_that_is_judged(visit):
    "A wrong one is named; by mouse and by keyboard, and heard with its row and column."
    question = visit("03_self_attention.html").page.locator(".predict:has(table button)")
    cell = lambda name: question.get_by_role("button", name=name)
    cell("bias, queries: q_proj.bias").click()
    expect(question.locator("output")).to_have_text("✗ Not this one (bias, queries).")
    assert not question.locator("details[open]").count()
    cell("bias, keys: k_proj.bias").press("Enter")
    expect(question.locator("output")).to_have_text("✓ Right.")
    expect(question.locator("details.right[open]")).to_be_visible()


def test_a_question_is_text_without_scripts(visit):
    "The items, or the table, and the fold with the answer."
    for path, shown in (
        ("17_cost.html", "> ul li"),
        ("03_self_attention.html", "> .table-wrapper td code"),
    ):
        question = visit(path, java_script_enabled=False).page.locator(
            f".predict[data-answer]:has({shown})"
        )
        expect(question.locator(shown.removeprefix("> ")).first).to_be_visible()
        assert not question.locator("button").count()
        question.locator("summary").click()
        expect(question.locator("details.right > p").first).to_be_visible()


def test_questions_are_printed_for_class_without_their_answers(visit):
    "Room is left where the answers stood; on other paper they stand."
    page = visit("02_softmax.html").page
    page.evaluate("window.print = () => {}")
    page.emulate_media(media="print")
    reason, veil = page.locator(".predict details.right > p").first, page.locator(".veil").first
    prose = veil.locator("p").first
    expect(reason).to_be_visible()
    expect(prose).to_be_visible()
    page.locator("#print-for-class").dispatch_event("click")
    expect(reason).not_to_be_visible()
    expect(prose).not_to_be_visible()
    assert veil.bounding_box()["height"] > 50
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    expect(reason).to_be_visible()


# ---- More to read and to see than code ----

HEIGHTS = """() => {
  const article = document.querySelector("article"), found = { story: 0, other: 0 };
  const stop = document.getElementById("exercises") ?? document.getElementById("reference");
  const other = "div.cell_input, details.fold:not(.veil), div.cell_output:not(:has(figure)), "
              + "dl.py, .notebook-links";
  const story = "p, ul, ol, table, blockquote, h1, h2, h3, h4, div.math, figure, .predict, "
              + "section > details";
  for (const part of article.querySelectorAll(`${story}, ${other}`)) {
    if (part.parentElement.closest(`${story}, ${other}`) || stop?.contains(part)) continue;
    found[part.matches(other) ? "other" : "story"] += part.getBoundingClientRect().height;
  }
  return found;
}"""
MISVEILED = """() => [...document.querySelectorAll(".predict")].flatMap((question) => {
  const next = question.nextElementSibling;
  const plain = !next || next.matches(".predict, section, .veil");
  const veil = next?.matches(".veil") ? next : null, after = veil?.nextElementSibling;
  const hidden = veil?.querySelector(".predict, h2, h3, h4");
  const said = (what, part) => `${what}: ${part.outerHTML.slice(0, 120)}`;
  return [!plain && said("in sight behind a question", next),
          after && !after.matches(".predict, section") && said("in sight behind a veil", after),
          hidden && said("veiled", hidden)].filter(Boolean);
})"""
UNVEIL = "() => { for (const veil of document.querySelectorAll('.veil')) veil.open = true; }"
LONG = """most => [...document.querySelectorAll("article div.cell_input pre")]
  .filter((pre) => !pre.closest("details:not([open]), #exercises, #solutions, #reference"))
  .map((pre) => pre.innerText.trim().split("\\n")).filter((lines) => lines.length > most)
  .map((lines) => `${lines.length} lines: ${lines[0]}`)"""
WHOLE = """most => [...document.querySelectorAll("article *")]
  .filter((e) => getComputedStyle(e).breakInside === "avoid" && e.offsetHeight > most)
  .map((e) => `${e.offsetHeight} pixels that do not break on paper: ${e.outerHTML.slice(0, 80)}`)"""
PAPER = {"width": 680, "height": 1009}  # A4 without its margins
LIVE = "figure.drawing, figure.chart:has(.chart-controls)"


SIGHTS = [(path, *size) for path in ["index.html", *PAGES] for size in [(1280, 900), (390, 844)]]


@pytest.mark.parametrize("path, width, high", by_day(SIGHTS, 9, is_edited))
@pytest.mark.once("path", of_page)
def test_a_page_at_first_sight(visit, path, width, high):
    """Drawn in the room that was kept; half of a figure that responds is on the first two screens.

    Of a chapter half is a story, a cell in sight has a dozen lines of code at most,
    and all that follows a question is veiled. On paper nothing leaves most of a page empty.
    """
    visited = visit(path, width=width, height=high)
    found, box = out_of_room(visited.page), visited.page.locator(LIVE).first.bounding_box()
    if box["y"] + min(box["height"] / 2, 300) >= 2 * high:
        found.append(f"the first figure that responds: {box}")
    if path in PAGES and width == 1280:
        found += visited.page.evaluate(MISVEILED)
        visited.page.evaluate(UNVEIL)
        found += visited.page.evaluate(LONG, 12)
        height = visited.see_all().page.evaluate(HEIGHTS)  # up to the exercises
        found += [f"prose and figures are less than half: {height}"] * (
            height["story"] < height["other"]
        )
        visited.page.emulate_media(media="print")
        visited.page.set_viewport_size(PAPER)
        # else most of a page may stay empty before it
        found += visited.page.evaluate(WHOLE, PAPER["height"] * 2 / 3)
    fail_if(found + visited.said, f"{path}, {width} pixels wide:")


def test_what_one_moves_stands_beside_what_it_moves_on_a_phone(visit):
    """In chapter 3 the words, the plane and all buttons are on one screen,
    and the plane is on the first two.
    """
    figure = visit("03_self_attention.html", width=390, height=844).page.locator(
        "figure[data-drawing=subject]"
    )
    boxes = [
        one.bounding_box()
        for one in [
            figure.get_by_role("group", name="The query and the keys"),
            *figure.get_by_role("radio").all(),
            *figure.get_by_role("slider").all(),
            *figure.get_by_role("button").all(),
        ]
    ]
    low = max(box["y"] + box["height"] for box in boxes)
    assert (
        len(boxes) == 6
        and boxes[0]["y"] + boxes[0]["height"] < 2 * 844
        and low - min(box["y"] for box in boxes) < 700
    )


def test_a_story_leaves_guards_out(visit):
    "Not even their line is there; with everything, and without a script, it is."
    page = visit("06_positions.html").page
    guards = page.locator("div.cell.tag_guard")
    assert guards.count() == 1 and guards.locator("summary").text_content() == "Guards"
    expect(guards).not_to_be_visible()
    page.get_by_role("button", name="shown").click()
    expect(guards).to_be_visible()
    assert (
        visit("06_positions.html", java_script_enabled=False)
        .page.locator("div.cell.tag_guard")
        .is_visible()
    )


def test_functions_that_only_refuse_are_left_out_of_every_story(soups):
    """A cell that is shown defines none, so that a reader meets what a function does,
    and not what it refuses.
    """
    wrong = []
    for page in PAGES:
        for code in soups[page].select("div.cell_input pre"):
            hidden = code.find_parent(
                lambda e: e.name == "details" and "veil" not in e.get("class", [])
            ) or code.find_parent("div", class_="tag_guard")
            wrong += [
                f"{page}: {name}"
                for name in re.findall(r"(?m)^def (_?expect_\w+)", code.get_text())
                if not hidden
            ]
    fail_if(
        wrong,
        "Guards in sight: a fold whose words begin with `Guard` or `A guard` leaves them out:",
    )


@pytest.mark.parametrize("width", [360, 412])
def test_nothing_moves_when_the_switch_appears(visit, width):
    "Before a script has run it is not seen, and has its room."
    page = visit("10_kv_cache.html", width=width).page
    switch, text = page.locator(".depth"), page.locator(".switch ~ p").first
    expect(switch).to_be_visible()
    before = text.bounding_box()
    switch.locator("button").evaluate_all(
        "all => all.forEach((button) => button.removeAttribute('aria-pressed'))"
    )
    expect(switch).not_to_be_visible()
    assert text.bounding_box() == before


# ---- Code ----


def refuses(node: ast.stmt) -> bool:
    """Whether all lines of a statement, but those that begin a block, call a guard of arguments
    or raise; or it is for a type checker.
    """
    code = ast.unparse(node)
    lines = [line for line in code.splitlines() if not re.match(r" *if .*:$", line)]
    return code.startswith("if TYPE_CHECKING:") or all(
        re.match(r" *(_?expect_\w+\(|raise )", line) for line in lines
    )


def untyped(code: str) -> str:
    "What code means, types and guards aside."
    tree = ast.parse(code)
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not re.match(
            "_?expect_", node.name
        ):
            rest = [part for part in node.body if not refuses(part)]
            node.body = rest if len(rest) > 1 else node.body
        if isinstance(node, ast.FunctionDef):
            node.returns = None
        if isinstance(node, ast.arg):
            node.annotation = None
    return ast.dump(tree)


def test_short_heads_are_the_same_code(soups):
    """A story hides types, comments, line ends and guards of a cell;
    the whole is there for who wants everything.
    """
    heads = []
    for path, page in zip(CHAPTERS, PAGES):
        sources = [cell.source for cell in nbformat.read(path, as_version=4).cells]
        for found in soups[page].select("div.cell_input pre:has(i)"):
            code = copy(found)
            whole = code.get_text().strip()
            assert any(whole in source for source in sources), whole
            for hidden in code.select("i"):
                hidden.extract()
            assert untyped(code.get_text()) == untyped(whole), whole
            heads += re.findall(r"^ *def .*", code.get_text(), re.M)
    assert len(heads) > 100
    bad = re.compile(r"[(] | [,):]|,[^ )]|,[)]|->")
    found = [head for head in heads if len(head) > 104 or bad.search(head)]
    fail_if(found, "Heads that read badly:")


LONG_NAMES = [f"{'word' * 3}_{i}" for i in range(9)]


@pytest.mark.parametrize(
    "code, shown",
    [
        (
            (
                "def f(\n    x: Tensor,  # rows, (n, d)\n    dim: int = -1,\n"
                ") -> Tensor:  # (n,)\n    return x"
            ),
            "def f(x, dim=-1):\n    return x",
        ),
        (
            "def f(a: dict[str, int], /, b={1: 2}, *c: int, d=lambda x: x, **e: str): return a",
            "def f(a, /, b={1: 2}, *c, d=lambda x: x, **e): return a",
        ),
        ("def f(x, y):  # rows (n, d), rows (m, d)\n    ...", None),
        ("f(\n    x,  # the rows\n)", None),
        ("%timeit f(x: int)", None),
        (
            (
                f"def f(\n    {': int,  # ä, ö'.join(f'{name}' for name in LONG_NAMES)}: int,\n"
                "): ..."
            ).replace("ö", "ö\n    "),
            f"def f({', '.join(LONG_NAMES[:5])},\n        {', '.join(LONG_NAMES[5:])}): ...",
        ),
        (
            (
                "def f(x):\n    'Double.'\n    expect_numbers(x=x)\n    if x is None:\n"
                "        raise ValueError(x)\n    return 2 * x"
            ),
            "def f(x):\n    'Double.'\n    return 2 * x",
        ),
        ("def f(x):\n    if x is None:\n        return 0\n    y = expect(x)\n    return y", None),
        ("def f(x):\n    'Refuse.'\n    raise ValueError(x)", None),
        (
            (
                "def _expect_even(x):\n    expect_numbers(x=x)\n    for n in x:\n"
                "        raise ValueError(n)"
            ),
            None,
        ),
    ],
    ids=[
        "typed",
        "of every kind",
        "untyped",
        "a call",
        "no Python",
        "long",
        "guarded",
        "early",
        "all guard",
        "a guard",
    ],
)
def test_what_a_story_shows_of_a_head(code, shown):
    "Nothing else of the code is hidden; and the whole is there."
    html = BeautifulSoup(highlight(code, PythonLexer(), ShortHeads(heads=True)), "html.parser")
    assert html.get_text().strip() == code
    for hidden in html.select("i"):
        hidden.extract()
    for indent in html.select("b:not([data-shapes])"):
        indent.replace_with("    ")
    assert html.get_text().strip() == (shown or code)


def test_a_story_shows_the_shapes_below_a_head():
    "Those of the parameters and of the result; what else stands in parentheses is no shape."
    head = (
        "def f(\n    x: Tensor,  # tokens (as in a book), (b, n)\n"
        "    n: int,  # how many (0: all)\n) -> Tensor:  # (b, n, d_model)\n    return x"
    )
    html = BeautifulSoup(highlight(head, PythonLexer(), ShortHeads(heads=True)), "html.parser")
    assert [b["data-shapes"] for b in html.select("b[data-shapes]")] == [
        "\n    # x (b, n) → (b, n, d_model)"
    ]


def test_a_head_is_one_line_until_one_wants_everything(visit):
    "Names and defaults; the button beside it copies the whole."
    page = visit(PAGES[3], permissions=["clipboard-read", "clipboard-write"]).page
    cell = page.locator("div.cell_input#code-scores-fn")
    code = cell.locator("pre")
    whole = next(
        c.source for c in nbformat.read(CHAPTERS[3], as_version=4).cells if c.id == "scores-fn"
    ).partition("\n")[2]
    assert code.inner_text().startswith("def attention_scores(q, k, scale=None):\n")
    shapes = code.locator("b[data-shapes]")
    assert "q (..., n_q, d_k), k (..., n_k, d_k)" in shapes.evaluate(
        "b => getComputedStyle(b, '::before').content"
    )
    cell.locator("button.copybtn").press("Enter")
    cell.locator("button.copybtn.success").wait_for()
    assert page.evaluate("navigator.clipboard.readText()").strip() == whole.strip()
    page.get_by_role("button", name="shown").press("Enter")
    assert code.inner_text().strip() == whole.strip()
    assert shapes.evaluate("b => getComputedStyle(b, '::before').content") == "none"


# ---- On paper ----


def test_a_chapter_on_paper_is_drawn_and_short(visit):
    """Nobody has scrolled: all charts are drawn all the same.

    Of a story, code and solutions stay folded: 20 pages at most.
    """
    page = visit("02_softmax.html").page
    papers = [page.pdf(prefer_css_page_size=True, format=paper) for paper in ("A4", "Letter")]
    assert page.locator("figure.chart").count() == page.locator("figure.chart.drawn").count() > 5
    assert all(10 < len(re.findall(rb"/Type\s*/Page\b", paper)) <= 20 for paper in papers)


# ---- One hue for each symbol ----


def test_a_symbol_lights_up_wherever_it_stands(visit):
    "In the equation, the table, and the code; the other symbols do not."
    page = visit("03_self_attention.html").page
    hue = "node => getComputedStyle(node).color"
    kinds = [".katex-html .sym-q", "td .sym-q", ".highlight .sym-q"]
    found = [page.locator(f"article {kind}:visible").first for kind in kinds]
    assert (
        len({one.evaluate(hue) for one in found})
        == 1
        != len({page.locator(f"article .sym-{s}").first.evaluate(hue) for s in "qkvw"})
    )
    found[1].hover()
    shade = "node => getComputedStyle(node).backgroundColor"
    lit = {one.evaluate(shade) for one in found}
    assert len(lit) == 1 and page.locator("article .sym-k").first.evaluate(shade) not in lit
    word = page.locator("article p > .sym-q", has_text="query").first
    assert found[1].evaluate(hue) == word.evaluate(hue)
    now = "document.documentElement.dataset.lit"
    for wanted, node in {
        "v": "td[tabindex]:has(.sym-v):not(:has(.sym-q))",
        "k": "figure[data-drawing=subject] td[data-sym=k]",
    }.items():
        # a row of the table by keyboard, a cell of a drawing by the mouse
        one = page.locator(node).first
        one.focus() if wanted == "v" else one.hover()
        page.wait_for_function(f"{now} === '{wanted}'")
        assert page.locator(f"article .sym-{wanted}:visible").first.evaluate(shade) in lit, wanted


# ---- Search ----


def test_questions_find_their_sections(visit):
    """The first of what is found is what was looked for;
    for questions of strangers one of the first three.
    """
    page = visit("search.html?q=word").page
    # a word of the language that the search is written in: it raised
    page.evaluate("findSections('constructor')")
    wrong = []
    for asked, sought in (QUESTIONS | STRANGERS).items():
        urls = page.evaluate(
            "asked => findSections(asked).slice(0, 3).map((record) => record.url)", asked
        )
        places = {sought} if isinstance(sought, str) else {*sought}
        if not places & {*urls[: 1 if asked in QUESTIONS else 3]}:
            wrong.append(f"{asked}: {sought}\n    {urls}")
    fail_if(wrong, "These find something else first:")


# ---- Words ----

# Not the remainder of a division, such as `37 % 2`.
SPACED = re.compile(r".{,20}[\d}]\s%(?! [\d(])")


def test_no_space_stands_before_a_percent_sign():
    "In the texts, checks and code of the notebooks, and in what drawings say."
    texts = {
        f"{path.name}: {cell.id}": cell.source
        for path in NOTEBOOKS
        for cell in nbformat.read(path, as_version=4).cells
    }
    scripts = (ROOT / "attention_nb/figures").glob("*.js")
    texts |= {path.name: path.read_text(encoding="utf-8") for path in scripts}
    found = [f"{where}: {said}" for where, text in texts.items() for said in SPACED.findall(text)]
    fail_if(found, "Write 98%, not 98 %:")


@pytest.mark.parametrize(
    "text, is_found", [("98 %.", 1), ("`${x} %`", 1), ("98%", 0), ("37 % 2", 0)]
)
def test_a_space_before_a_percent_sign_is_found(text, is_found):
    "In prose and in templates; a remainder has one, too."
    assert bool(SPACED.search(text)) == is_found
