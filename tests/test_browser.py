"""The built site in a browser: every page, and one of each kind in its four forms;
search; and the keyboard alone.

If it fails: The message names the page, its width and its colour scheme. Skipped: no Chromium or
Chrome was found, or the page passed before and has not changed since (`CI=true make test` runs
all).
"""

import re
from collections import Counter
from itertools import combinations, product

import pytest
from axe_playwright_python.sync_playwright import Axe
from browser import DOCS, NARROW, PAGES, WIDE, Visit, no_longer_than, out_of_room
from conftest import by_day, fail_if, is_edited, of_page
from playwright.sync_api import Error, Page, TimeoutError, expect

FORMS = {1280: WIDE, 390: NARROW}  # width of the window, font
WIDTHS = (*FORMS, 360)  # at which nothing may stick out
# One page of each kind, read in all forms. The others are read wide and light, and then narrowed:
# does something stick out?
KINDS = [
    "index.html",
    "02_softmax.html",
    "05_multi_head_attention.html",
    "checks/proof.html",
    "lookup/notation.html",
    "lookup/glossary.html",
    "CONTRIBUTING.html",
    "genindex.html",
    "search.html",
    "404.html",
]
# Pages of the figures and tools are for few and made as the others are: they are looked at quickly.
QUICK = [path for path in PAGES if re.match(r"figures/|tools/", path)]
OTHERS = [path for path in PAGES if path not in {*QUICK, *KINDS}]
VISITS = [
    *product(KINDS, [1280]),
    *by_day(product(KINDS, [390]), len(KINDS), is_edited),
    *by_day(product(OTHERS, [1280]), 30, is_edited),
]
DRAWN = [
    path
    for path in QUICK
    if re.search('data-drawing=|<figure class="chart', (DOCS / path).read_text(encoding="utf-8"))
]
LIBRARY, MODEL = "vega.min.js", "/drawings/weights-"
# Bytes, compressed.
MOST = {"of its own": 187_000, "with all": 450_000, "of trained models": 400_000}
MOST_SHIFT = 0.01  # of layout, as browsers measure it, from the first paint to the end of the page

RULES = {
    "runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
    "rules": {
        "region": {"enabled": False},  # Furo's `Back to top` stands outside the landmarks
        "color-contrast": {"enabled": False},  # comes apart
    },
    "resultTypes": ["violations"],
}
# Whether a link shows in its line is a matter of one style,
# and takes axe as long as all its other rules.
OFTEN = RULES | {"rules": RULES["rules"] | {"link-in-text-block": {"enabled": False}}}
CONTRAST = {"runOnly": ["color-contrast"], "resultTypes": ["violations"]}
# axe looks at every element, and spends nine tenths of its time on the contrast of each word: one
# of each kind is enough, as the style sees it, on one page. The words of code become plain text
# first; the others are also links and headings, for other rules.
ONE_OF_EACH = """([among, plain, known]) => {
  const seen = new Set(known);
  const look = (e) => [
    e.tagName, e.getAttribute("class"), e.getAttribute("fill"), e.style.color, e.style.background];
  for (const e of document.querySelectorAll(among)) {
    const words = [...e.childNodes].filter(
      (node) => node.nodeType === Node.TEXT_NODE && node.data.trim());
    if (!words.length || (plain && e.firstElementChild)) continue;
    let kind = "";
    for (let around = e; around; around = around.parentElement) kind += `/${look(around)}`;
    if (!seen.has(kind)) seen.add(kind);
    else if (plain) e.replaceWith(e.textContent);
    else (e.firstElementChild ? words : [e]).forEach((node) => node.remove());
  }
  return [...seen];
}"""
CODE, ALL = [".highlight pre :is(b, span)", True, []], ["body *", False]
# The kinds of words that were found legible here, by the width and the colours of the page.
LEGIBLE: dict[tuple[int, str], set[str]] = {}
# What is folded nobody sees, and axe says nothing of it; it is half of a chapter all the same.
UNSEEN = """() => document.querySelectorAll("details:not([open]) > :not(summary)")
  .forEach((part) => part.remove())"""


def violations(page: Page, rules: dict[str, object]) -> list[str]:
    "What axe finds: the rule, the number of places, the first of them."
    found = page.evaluate("rules => axe.run(rules).then(result => result.violations)", rules)
    return [
        f"{v['id']}: {v['help']}; {len(v['nodes'])} ×, such as {v['nodes'][0]['html'][:200]}"
        for v in found
    ]


def illegible(page: Page, width: int, schemes: tuple[str, ...]) -> list[str]:
    "What lacks contrast, among the kinds of words that no page before has shown in all schemes."
    known = [LEGIBLE.setdefault((width, scheme), set()) for scheme in schemes]
    seen = page.evaluate(ONE_OF_EACH, [*ALL, list(set.intersection(*known))])
    found = []
    for scheme, kinds in zip(schemes, known):
        page.emulate_media(color_scheme=scheme)
        wrong = [f"{scheme}: {violation}" for violation in violations(page, CONTRAST)]
        kinds.update([] if wrong else seen)
        found += wrong
    return found


def weights(visited: Visit) -> Counter:
    "Bytes that came over the network; what is on its way is waited for."
    size = Counter()
    for request in [r for r in visited.requests if r.response()]:
        n = request.sizes()["responseBodySize"]
        if MODEL in request.url:
            size["of trained models"] += n
            continue
        size["with all"] += n
        size["of its own"] += n * (not request.url.partition("?")[0].endswith(LIBRARY))
    return size


SHIFTS = """() => new Promise((done) => {
  const shifts = (list) => list.getEntries().filter((e) => !e.hadRecentInput).map((e) => e.value);
  new PerformanceObserver((list) => done(shifts(list)))
    .observe({ type: "layout-shift", buffered: true });
  setTimeout(() => done([]), 50);  // nothing moved
})"""
BAD_FIGURES = """() => [...document.querySelectorAll("figure.chart")].filter((figure) => {
  const svg = figure.querySelector(".chart-view svg");
  return !(svg?.closest("[aria-label]") && svg.querySelector(".mark-group path, .mark-text text")
           && svg.clientWidth > 50 && figure.querySelector("details table"));
}).map((figure) => figure.id)"""


WIDTH = """Math.max(...[...document.querySelectorAll("html, .main, .content")]
  .map((box) => box.scrollWidth))"""
AT_ALL_STEPS = f"""async () => {{
  const slider = document.querySelector("figure.drawing input[type=range]"), widths = [];
  const [first, last, step] = ["min", "max", "step"].map((name) => +slider?.[name] || 0);
  const stride = Math.max(step || 1, (last - first) / 12);
  for (let at = first; at <= last && slider; at += stride) {{
    slider.value = at;
    slider.dispatchEvent(new Event("input", {{ bubbles: true }}));
    await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
    widths.push({WIDTH});
  }}
  return widths;
}}"""


def too_wide(page: Page, *widths: int) -> list[str]:
    """For each width of the window, last of all the one that it is to have then:
    does something stick out, and stay so? (A drawing follows the window a frame later.)
    """
    found = []
    for width in widths:
        page.set_viewport_size({"width": width, "height": 900})
        try:
            page.wait_for_function(f"{WIDTH} <= {width}", timeout=2000)
        except TimeoutError:
            found += [f"{page.evaluate(WIDTH)} pixels wide; the window has {width}"]
    return found


def too_wide_at_a_step(page: Page) -> list[str]:
    "The widths, where something sticks out of the window while the first slider goes its way."
    room = page.viewport_size["width"]
    widths = page.evaluate(AT_ALL_STEPS)
    return [f"step {n}: {w} pixels of {room}" for n, w in enumerate(widths) if w > room]


def elsewhere(visited: Visit, site: str) -> list[str]:
    "What was asked of another host."
    return [
        f"not of this site: {r.url}"
        for r in visited.requests
        if not r.url.startswith((site, "data:"))
    ]


def not_drawn(page: Page) -> list[str]:
    "The charts that are not there once one has gone past them."
    return [
        f"not drawn, or without a description: {figure}" for figure in page.evaluate(BAD_FIGURES)
    ]


@pytest.mark.once("path", of_page)
@pytest.mark.parametrize("path", by_day(DRAWN, 5, is_edited))
def test_page_of_a_figure(visit, site, path):
    """Nothing fails, sticks out or comes from elsewhere;
    what is drawn has the space that was kept for it.
    """
    visited = visit(path, 390)
    found = out_of_room(visited.page) + elsewhere(visited.see_all(), site) + not_drawn(visited.page)
    found += too_wide(visited.page, *WIDTHS) + too_wide_at_a_step(visited.page)
    fail_if(found + visited.said, f"{path}:")


@pytest.mark.nightly
@pytest.mark.parametrize("width", [430, 667, 768, 1024])
def test_drawings_have_room_on_larger_phones_and_tablets(visit, site, width):
    "What is below a drawing stays where it is; an upright phone of 390 pixels is tried by day."
    page, found = visit(DRAWN[0], width).page, []
    for path in DRAWN:
        page.goto(site + path)
        found += [f"{path}: {what}" for what in out_of_room(page)]
    fail_if(found, f"{width} pixels wide:")


def test_pages_of_tools(visit, site):
    "The same of those where nothing is drawn, one after the other."
    paths, found = sorted({*QUICK} - {*DRAWN}), []
    visited = visit(paths[0])
    for path in paths:
        visited.page.goto(site + path)
        found += [f"{path}: {what}" for what in too_wide(visited.page, *WIDTHS) + visited.said]
        visited.said.clear()
    fail_if(found + elsewhere(visited, site), "Pages of the figures and tools:")


@pytest.mark.once("path", of_page)
@pytest.mark.parametrize("path, width", VISITS)
def test_page(visit, site, path, width):
    """Read to its end, the page logs no error, asks no other host, is not too wide or too heavy,
    does not move, and breaks no WCAG rule (axe's name of the rule is in the message).

    If it fails: The message names the page, its width and its colour scheme.
    """
    visited = visit(
        path, width, font=FORMS[width], slowly=True, reduced_motion="no-preference"
    ).see_all()
    page, found = visited.page, elsewhere(visited, site)
    found += [
        f"{n} bytes {what}; at most {MOST[what]}"
        for what, n in weights(visited).items()
        if n > MOST[what]
    ]
    found += [
        f"layout shift {shift:.3f}" for shift in [sum(page.evaluate(SHIFTS))] if shift >= MOST_SHIFT
    ]
    found += not_drawn(page) + too_wide(page, *WIDTHS, width)
    page.evaluate(Axe().axe_script)
    page.evaluate(UNSEEN)
    page.evaluate(ONE_OF_EACH, CODE)
    found += violations(page, RULES if path in KINDS else OFTEN)
    found += illegible(page, width, ("light", "dark") if path in KINDS else ("light",))
    fail_if(found + visited.said, f"{path}, {width} pixels wide:")


MOVING = """() => {
  const moves = (style) => style.scrollBehavior !== "auto" || style.animationName !== "none"
    || /[1-9]/.test(style.transitionDuration);
  return [...document.querySelectorAll("*")].flatMap((element) =>
    [null, "::before", "::after"].filter((part) => moves(getComputedStyle(element, part)))
      .map((part) => `${element.tagName} ${element.className} ${part ?? ""}`));
}"""


@pytest.mark.parametrize("path", ["03_self_attention.html", "search.html"])
def test_nothing_glides_for_those_who_want_no_motion(visit, path):
    """Not the page where a link of the contents leads, nor a drawer,
    nor a button; for others, they do.
    """
    page = visit(path).page
    fail_if(page.evaluate(MOVING)[:9], "This moves:")
    page.emulate_media(reduced_motion="no-preference")
    assert any(element.startswith("HTML") for element in page.evaluate(MOVING))


# all are made by one script
@pytest.mark.parametrize("path", ["02_softmax.html", "11_grouped_heads.html"])
def test_figures_wait_for_the_reader(visit, path):
    """The library is large: it comes when a figure nears the window.

    Until then, and without it, a table stands there.
    """
    visited = visit(path, height=200)
    page, first = visited.page, visited.page.locator("figure.chart").first
    assert first.bounding_box()["y"] > 1000
    assert not any(LIBRARY in request.url for request in visited.requests), (
        "fetched while no figure was near"
    )
    assert first.locator("td").first.is_visible()
    first.scroll_into_view_if_needed()
    page.wait_for_selector("figure.drawn")
    plain = visit(path, java_script_enabled=False).page
    for question in plain.locator("details.veil > summary").all():
        question.click()
    for figure in plain.locator("figure.chart").all():
        assert figure.locator("figcaption").is_visible() and figure.locator("td").first.is_visible()


def test_what_scrolls_says_so(visit):
    """On a phone a chart may be wider than its place, which is known only when it is drawn;
    then keys reach it, too.
    """
    page = visit("08_translation.html", width=390).see_all().page
    wide = page.locator(".chart-view").evaluate_all(
        "views => views.filter((view) => view.scrollWidth > view.clientWidth).length"
    )
    said = page.locator("figure.chart figcaption b").evaluate_all(
        "lines => lines.filter("
        "(line) => getComputedStyle(line, '::after').visibility === 'visible').length"
    )
    assert 0 < wide == said == page.locator(".chart-view[tabindex='0']").count()
    page = visit("03_self_attention.html", width=390).see_all().page
    # panels stand below each other
    assert page.locator("#fig-explore-show .chart-view:not(.scrolls)").count() == 1


@pytest.mark.parametrize("width", [390, 412])
def test_nothing_moves_when_a_chart_says_that_it_scrolls(visit, width):
    "The words might need a line of their own, which is there from the first."
    page = visit("14_local_attention.html", width=width).page
    high = page.evaluate("""() => [false, true].map((scrolls) => {
      for (const view of document.querySelectorAll(".chart-view")) {
        view.classList.toggle("scrolls", scrolls);
      }
      const lines = [...document.querySelectorAll("figure.chart figcaption")];
      return lines.map((line) => line.offsetHeight);
    })""")
    assert high[0] == high[1] and len(high[0]) > 4


@pytest.mark.parametrize("path", ["17_cost.html", "lookup/speed.html", "checks/third_party.html"])
def test_a_table_that_is_wider_than_a_phone_scrolls_alone(visit, path):
    "And says so, without moving what is below it; keys reach it."
    page = visit(path, width=390).page
    tables = page.locator(".text_html > table")
    found = tables.evaluate_all("""(tables) => tables.map((table) => {
      const box = table.parentElement, said = getComputedStyle(box.parentElement, '::after');
      return {
        wide: table.offsetWidth > box.clientWidth,
        scrolls: getComputedStyle(box).overflowX === 'auto',
        says: said.content.includes('scrolls'),
        high: parseFloat(said.height),
        stop: box.tabIndex === 0,
      };
    })""")
    wide = [table for table in found if table["wide"]]
    assert wide and all(
        t["scrolls"] and t["says"] and t["high"] == 0 and t["stop"] for t in wide
    ), found
    assert not any(t["says"] or t["stop"] for t in found if not t["wide"]), found


def test_tables_stay_when_the_library_does_not_come(visit):
    "Somebody's network lets the page through and nothing more."
    visited = visit("index.html")
    page = visited.page
    page.route(f"**/{LIBRARY}*", lambda route: route.abort())
    with page.expect_console_message(lambda message: "the tables remain" in message.text):
        page.goto(page.url.replace("index", "02_softmax"))
        page.locator("figure.chart").first.scroll_into_view_if_needed()
    assert page.locator("figure.chart").first.locator("td").first.is_visible()


MACHINE = """() => [...document.querySelectorAll("#the-map ol > li")].map((part) => {
  const { left, top, right, bottom } = part.getBoundingClientRect();
  const over = part.scrollWidth - part.clientWidth;
  return { box: [left, top, right, bottom], frame: part.matches(".frame"), over };
})"""


@pytest.mark.parametrize("font", [WIDE, NARROW])
def test_the_map_is_a_machine_where_there_is_room(visit, font):
    """Its parts do not overlap, but for the frames, which hold some; on a phone it is a list.

    What a part is about is shown when it has the focus.
    """
    page = visit("index.html", font=font).page
    parts = page.evaluate(MACHINE)
    solid = [part["box"] for part in parts if not part["frame"]]
    assert page.locator("svg.machine").is_visible() and len(parts) - len(solid) == 2
    assert [
        (a, b)
        for a, b in combinations(solid, 2)
        if a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]
    ] == []
    link = page.locator("#the-map li a").nth(3)
    about = link.locator("xpath=../..").locator(".about")
    expect(about).to_have_css("opacity", "0")
    link.focus()
    expect(about).to_have_css("opacity", "1")
    page.set_viewport_size({"width": 390, "height": 844})
    expect(page.locator("svg.machine")).to_be_hidden()
    expect(about).to_have_css("opacity", "1")
    assert page.locator("#the-map li").evaluate_all(
        "cards => cards.every((card, i) => !i || card.getBoundingClientRect().top > "
        "cards[i - 1].getBoundingClientRect().bottom)"
    )


CARDS = """() => [...document.querySelectorAll('table.cards tbody tr')].map((row) => {
  const cells = [...row.cells].map((cell) => cell.getBoundingClientRect());
  return {
    inside: cells.every((box) => box.left >= 0 && box.right <= innerWidth),
    below: cells.at(-1).top > cells[0].top,
    said: [...row.cells].slice(1).map((cell) => getComputedStyle(cell, '::before').content),
  };
})"""


def test_a_drawing_takes_the_margin_where_there_is_room(visit):
    """The contents of the page, which stand there, step aside while it is in sight;
    with the focus they come back.
    """
    page = visit("07_transformer.html").page
    figure, contents = page.locator("figure[data-drawing=adder]"), page.locator(".toc-drawer")
    page.locator("#recap").scroll_into_view_if_needed()
    expect(contents).to_have_css("opacity", "1")
    figure.scroll_into_view_if_needed()
    expect(contents).to_have_css("opacity", "0")
    box, prose = figure.bounding_box(), page.locator("article p").first.bounding_box()
    drawn = figure.locator(".view").bounding_box()["width"]
    assert 900 < drawn <= 970 and box["x"] + box["width"] <= 1280
    assert prose["width"] < 600
    contents.locator("a:visible").nth(3).focus()
    expect(contents).to_have_css("opacity", "1")


def test_a_check_is_a_tick_in_the_margin(visit):
    """Its words are shown when one points at it or goes there; pressed, it shows its code.

    On a narrow page it is a line.
    """
    page = visit("05_multi_head_attention.html").page
    tick = page.locator("div.cell.tag_check > details > summary").first
    column, box = page.locator("article").bounding_box(), tick.bounding_box()
    assert box["width"] == box["height"] == 24 and box["x"] >= column["x"] + column["width"]
    tick.focus()
    page.keyboard.press("Tab")
    page.keyboard.press("Shift+Tab")
    expect(tick).to_be_focused()
    assert tick.bounding_box()["width"] > 100
    tick.press("Enter")
    expect(tick.locator("xpath=..").locator("pre").first).to_be_visible()
    page.set_viewport_size({"width": 390, "height": 844})
    assert (
        page.locator("div.cell.tag_check > details > summary").nth(1).bounding_box()["width"] > 100
    )


def test_on_a_phone_rows_of_a_legend_are_cards(visit):
    """All of a row is seen, each cell below or beside the words of its column;
    for those who hear it, it is a table still.
    """
    page = visit("04_masks.html", width=390).page
    rows = page.evaluate(CARDS)
    assert len(rows) == 7 and all(row["inside"] and row["below"] for row in rows), rows
    assert all("shape" in row["said"][1] and "meaning" in row["said"][2] for row in rows[:4]), rows
    table = page.locator("table.cards").first
    assert table.get_by_role("columnheader").all_inner_texts() == [
        "symbol",
        "name in code",
        "shape",
        "meaning",
    ]
    assert (table.get_by_role("row").count(), table.get_by_role("cell").count()) == (5, 16)
    page.set_viewport_size({"width": 1280, "height": 900})
    assert not any(row["below"] for row in page.evaluate(CARDS))


@pytest.mark.parametrize(
    "path, figure, controls",
    [
        ("03_self_attention.html", "figure.chart:has(.chart-controls)", ".chart-controls"),
        ("07_transformer.html", "[data-drawing=stream]", ".view > div:has(> label.row)"),
    ],
)
def test_on_a_phone_controls_stay_in_sight(visit, path, figure, controls):
    "While one looks at the lower end of a figure that is higher than the screen."
    page = visit(path, width=390, height=700).see_all().page
    top = page.locator(figure).first.evaluate(
        """(figure, controls) => {
      scrollTo({ top: scrollY + figure.getBoundingClientRect().bottom - 420, behavior: "instant" });
      return [figure, figure.querySelector(controls)].map((e) => e.getBoundingClientRect().top);
    }""",
        controls,
    )
    assert top[0] < 0 < top[1] < 100, top


SEARCHES = {
    "softmax": "02_softmax.html",
    "mask": "04_masks.html",
    "MultiHeadAttention": (
        "05_multi_head_attention.html#attention_nb.multi_head_attention.MultiHeadAttention"
    ),
}


def look_for(page: Page, word: str) -> None:
    "Search, and find the place among the first."
    page.get_by_role("searchbox").or_(page.get_by_label("Search")).first.fill(word)
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/search.html?q={word}*")
    page.wait_for_function(
        "document.querySelector('.search-summary')?.textContent.includes('found')"
    )
    links = page.locator("#search-results li a").evaluate_all(
        "links => links.map(a => a.getAttribute('href'))"
    )
    places = {
        place for link in links[:5] for place in (link.split("?")[0], re.split(r"[?#]", link)[0])
    }
    assert SEARCHES[word] in places, links


def test_search(visit):
    "Typed into the box of any page, the page of results too."
    visited = visit("index.html")
    for word in SEARCHES:
        look_for(visited.page, word)
        excerpts = visited.page.locator("#search-results p.context")
        excerpts.first.wait_for()
        assert any(word.lower() in text.lower() for text in excerpts.all_inner_texts())
        assert sum(visited.page.evaluate(SHIFTS)) < MOST_SHIFT, (
            f"{word}: what stands below the results jumped"
        )
    assert not visited.said


def test_search_shows_every_section(visit):
    "One that has no text of its own, too: a table, a heading alone."
    visited = visit("search.html?q=mqa memory")
    assert visited.page.locator("#search-results li").count() == 20
    lengths = visited.page.evaluate(
        "sections.map((record) => placeOf({ ...record, match: { memory: [] } }).textContent.length)"
    )
    assert len(lengths) > 1000 and min(lengths) > 0
    assert not visited.said


def test_from_a_disk(visit):
    """A clone needs no server: figures are drawn, words are found,
    and nothing is asked of a network.
    """
    visited = visit((DOCS / "02_softmax.html").as_uri()).see_all()
    look_for(visited.page, "mask")
    fail_if(
        visited.said
        + [r.url for r in visited.requests if not r.url.startswith(("file:", "data:"))],
        "02_softmax.html, opened as a file:",
    )


def test_the_catalogue_of_bugs_is_narrowed(visit):
    """To the lines that hold what is typed, with the keyboard alone;
    where a link leads is shown all the same.
    """
    visited = visit("lookup/codes.html")
    page, every = visited.page, visited.page.locator("article tr[id]").count()
    box, said, shown = (
        page.get_by_label("Find a bug"),
        page.locator("#find-bug output"),
        page.locator("article tr[id]:visible"),
    )
    box.focus()
    page.keyboard.type("Scale.mis")
    assert shown.evaluate_all("rows => rows.map(row => row.id)") == ["scale.missing"]
    assert said.inner_text() == f"1 of {every}" and said.get_attribute("aria-live") == "polite"
    assert page.locator("article :is(h1, h2):visible").count() == 2, (
        "sections in which nothing is left"
    )
    page.evaluate("location.hash = 'mask.empty_nan'")
    page.wait_for_function(
        "(({ top, bottom }) => 0 < top && bottom < innerHeight)"
        "(document.querySelector('tr:target').getBoundingClientRect())"
    )
    assert (shown.count(), box.input_value()) == (every, "")
    box.fill("zebra")
    assert (shown.count(), said.inner_text()) == (0, f"0 of {every}")
    box.press("Escape")
    assert (shown.count(), said.inner_text()) == (every, "") and not visited.said
    silent = visit("lookup/codes.html#scale.missing", java_script_enabled=False).page
    assert (
        silent.locator("article tr[id]:visible").count() == every
        and not silent.locator("#find-bug").is_visible()
    )


# ---- The keyboard alone ----

STOPS = """() => {
  const all = "a[href], button, input:not([type=hidden], [type=radio]:not(:checked)), "
            + "select, textarea, summary, [tabindex='0'], label[role=button]";
  const seen = [...document.querySelectorAll(all)].filter((e) =>
    !e.matches(".headerlink")  // as on the contents list
    && !e.closest("[inert]") && e.checkVisibility({ visibilityProperty: true }));
  seen.forEach((e, n) => { e.dataset.stop = n; });
  return seen.map((e) => e.outerHTML.slice(0, 120));
}"""
HERE = """() => {
  const e = document.activeElement;
  if (e === document.body) return null;
  const style = getComputedStyle(e), { left, top, right, bottom } = e.getClientRects()[0];
  const x = (Math.max(left, 0) + Math.min(right, innerWidth)) / 2;
  const y = (Math.max(top, 0) + Math.min(bottom, innerHeight)) / 2;
  const over = document.elementFromPoint(x, y);
  return {
    stop: e.dataset.stop, html: e.outerHTML.slice(0, 120),
    ring: style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 1
      && style.opacity > 0.5,
    shown: e.contains(over) || Boolean(over?.contains(e)),
  };
}"""


def settled(page: Page) -> Page:
    "The page with the focus at its beginning."
    page.evaluate(
        "scrollTo(0, 0); document.body.tabIndex = -1; document.body.focus(); "
        "document.body.removeAttribute('tabindex')"
    )
    # what shows or hides by the scroll has done so
    page.evaluate("new Promise((seen) => requestAnimationFrame(() => requestAnimationFrame(seen)))")
    return page


def tab(page: Page) -> dict | None:
    "Press Tab; where the focus is then."
    page.keyboard.press("Tab")
    return page.evaluate(HERE)


@pytest.mark.parametrize(
    "path, width",
    [("index.html", 1280), ("05_multi_head_attention.html", 390), ("search.html", 390)],
)
def test_tab_reaches_everything(visit, path, width):
    """By keyboard alone everything can be reached, and one sees where one is.

    If it fails: Mend the page, most often its CSS in website/static.
    """
    page = settled(visit(path, width).see_all().page)
    wanted, found, reached = page.evaluate(STOPS), [], set()
    while here := tab(page):
        found += [f"focus cannot be seen: {here['html']}"] * (not here["ring"])
        found += [f"focus is hidden: {here['html']}"] * (not here["shown"])
        if here["stop"] in reached:
            found.append(f"a trap: {here['html']}")
            break
        reached.add(here["stop"])
    found += [f"not reached: {html}" for n, html in enumerate(wanted) if str(n) not in reached]
    fail_if(found, f"{path}, {width} pixels wide, {len(reached)} of {len(wanted)} reached:")


def test_skip_link(visit):
    "The first stop: past the list of chapters, into the text."
    page = settled(visit("02_softmax.html").page)
    assert "Skip to content" in tab(page)["html"]
    assert page.locator(":focus").bounding_box()["y"] >= 0
    page.keyboard.press("Enter")
    tab(page)
    assert page.locator("article :focus").count() == 1


@pytest.mark.parametrize(
    "menu, drawer",
    [("Contents of the book", ".sidebar-drawer"), ("Contents of this page", ".toc-drawer")],
)
def test_menus(visit, menu, drawer):
    """On a narrow page: Enter or Space opens and goes in;
    Escape, a choice, or going past the end closes.
    """
    page = settled(visit("02_softmax.html", 390).page)
    button, inside = (
        page.get_by_role("button", name=menu).locator("visible=true"),
        page.locator(f"{drawer} :focus"),
    )
    for key in ("Enter", "Space"):
        assert (
            button.get_attribute("aria-expanded") == "false"
            and not page.locator(drawer).is_visible()
        )
        button.focus()
        page.keyboard.press(key)
        assert button.get_attribute("aria-expanded") == "true" and inside.bounding_box()["x"] >= 0
        page.keyboard.press("Escape")
        assert page.evaluate("document.activeElement.getAttribute('aria-label')") == menu
    page.keyboard.press("Enter")
    page.keyboard.press("Shift+Tab")
    assert button.get_attribute("aria-expanded") == "false", "left, but open"
    button.focus()
    page.keyboard.press("Enter")
    page.locator(f"{drawer} a[href^='#']").last.press("Enter")
    assert not page.locator(drawer).is_visible()
    button.click()  # and still with a mouse
    assert page.locator(drawer).is_visible() and button.get_attribute("aria-expanded") == "true"


def test_copy(visit):
    "The button beside a cell, by keyboard, gives its code and nothing else."
    page = settled(visit("02_softmax.html", permissions=["clipboard-read", "clipboard-write"]).page)
    button = page.locator("button.copybtn").locator("visible=true").nth(1)  # some code is folded
    button.press("Enter")
    page.wait_for_selector("button.copybtn.success")
    code = page.locator("pre:has(+ button.copybtn.success)").text_content()
    assert page.evaluate("navigator.clipboard.readText()").strip() == code.strip() != ""


def test_a_browser_that_never_answers_is_ended(visit):
    "What waits for it is told, and the next page opens in a new one."
    page = visit("404.html").page
    with no_longer_than(1), pytest.raises(Error, match="has been closed"):
        page.evaluate("new Promise(() => {})")
    assert visit("404.html").page.title()
