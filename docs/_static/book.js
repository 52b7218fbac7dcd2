(() => {
"use strict";


const [story, everything] = document.querySelectorAll(".depth button");
const ANSWERED = ".predict:has(details[open]) + .veil";
if (story) {
const folds = document.querySelectorAll("details.fold:not(details:not(.fold) details)");
const show = (depth) => {
document.documentElement.dataset.depth = depth;
const shown = (fold) => depth === "everything" || fold.matches(ANSWERED);
for (const fold of folds) fold.open = shown(fold);
story.ariaPressed = depth !== "everything";
everything.ariaPressed = depth === "everything";
};
for (const [button, depth] of [[story, "story"], [everything, "everything"]]) {
button.addEventListener("click", () => {
try { localStorage.setItem("depth", depth); } catch { }
show(depth);
});
}
show(document.documentElement.dataset.depth ?? "story");
}


const RIGHT = "✓ Right.";
function tell(question, said, text) {
said.value = text;
if (text === RIGHT) question.querySelector("details.right").open = true;
}
function button(...inside) {
const made = Object.assign(document.createElement("button"), { type: "button" });
made.append(...inside);
return made;
}
function hint(question, text) {
const said = Object.assign(document.createElement("output"), { value: text });
question.querySelector("details").before(said);
return said;
}

function askNumber(question) {
const { answer: right, within: share } = question.dataset;
const [answer, within] = [right, share ?? 0].map(Number);
const form = document.createElement("form");
form.innerHTML = '<label>Your number <input inputmode="decimal" autocomplete="off" size="8">'
+ "</label> <button>Check</button> <output></output>";
question.querySelector("details").before(form);
const judge = (text) => {
const given = Number(text || NaN);
if (Number.isNaN(given)) return "A number, such as 0.5 or 1200.";
if (Math.abs(given - answer) <= within * Math.abs(answer)) return RIGHT;
return given > answer ? "Too large." : "Too small.";
};
form.addEventListener("submit", (event) => {
event.preventDefault();
const given = form.querySelector("input").value.trim().replace(/,(?=\d{3}\b)/g, "");
tell(question, form.querySelector("output"), judge(given));
});
}

function numbered(item, press) {
const name = item.textContent.trim()[0];
const place = document.createElement("b");
const made = button(place, ...(item.querySelector("p") ?? item).childNodes);
item.replaceChildren(made);
made.addEventListener("click", () => press(name));
return { name, place, made };
}
function askOrder(question, list) {
const right = question.dataset.answer.split(" ");
const chosen = [];
const said = hint(question, "Press the items in order. Press one again to take it back.");
const items = [...list.children].map((item) => numbered(item, press));
const show = () => items.forEach(({ name, place, made }) => {
place.textContent = chosen.indexOf(name) + 1 || "";
made.ariaPressed = chosen.includes(name);
});
function press(name) {
if (chosen.includes(name)) chosen.splice(chosen.indexOf(name));
else chosen.push(name);
const wrong = right.findIndex((one, i) => one !== chosen[i]);
const all = chosen.length === right.length;
if (all && wrong >= 0) chosen.splice(wrong);
show();
const verdict = wrong < 0 ? RIGHT : `✗ Not yet. Number ${wrong + 1} is another one.`;
tell(question, said, all ? verdict : `${chosen.length} of ${right.length}`);
}
show();
}

function askOneCell(question, said, cell, name) {
const made = button(...(cell.querySelector("p") ?? cell).childNodes);
made.ariaLabel = `${name}: ${made.textContent.trim()}`;
cell.replaceChildren(made);
made.addEventListener("click", () => {
const isRight = name === question.dataset.answer;
made.dataset.judged = isRight ? "right" : "wrong";
tell(question, said, isRight ? RIGHT : `✗ Not this one (${name}).`);
});
}
function askCell(question, table) {
const said = hint(question, "Press a cell of the table.");
const text = (node) => node.textContent.trim();
const columns = [...table.querySelectorAll("thead th")].map(text);
for (const row of table.querySelectorAll("tbody tr")) {
const [first, ...cells] = row.children;
cells.forEach((cell, i) => {
askOneCell(question, said, cell, `${text(first)}, ${columns[i + 1]}`);
});
}
}
for (const fold of document.querySelectorAll(".predict details")) {
fold.addEventListener("toggle", () => {
const veil = fold.closest(".predict").nextElementSibling;
if (fold.open && veil?.matches(".veil")) veil.open = true;
});
}
for (const question of document.querySelectorAll(".predict[data-answer]")) {
const list = question.querySelector(":scope > ul");
const table = question.querySelector(":scope > .table-wrapper");
if (list) askOrder(question, list);
else if (table) askCell(question, table);
else askNumber(question);
}

document.getElementById("print-for-class")?.addEventListener("click", () => {
document.documentElement.dataset.for = "class";
print();
});
addEventListener("afterprint", () => delete document.documentElement.dataset.for);

function unfold(hash) {
const target = document.getElementById(decodeURIComponent(hash.slice(1)));
const shut = target?.closest("details:not([open])");
if (!shut) return;
for (let fold = shut; fold; fold = fold.parentElement.closest("details")) fold.open = true;
target.scrollIntoView();
}
unfold(location.hash);
addEventListener("hashchange", () => unfold(location.hash));
document.addEventListener("click", ({ target }) => {
const link = target.closest("a[href^='#']");
if (link) unfold(link.hash);
});


const about = document.createElement("div");
about.id = "explanation";
about.role = "tooltip";
about.hidden = true;
document.body.append(about);
let shownFor;
let leaving;
function stand(box) {
const room = document.documentElement.clientWidth - about.offsetWidth - 16;
about.style.left = `${Math.max(16, Math.min(box.left, room)) + scrollX}px`;
const below = box.bottom + about.offsetHeight + 8 < innerHeight;
const top = below ? box.bottom + 4 : box.top - about.offsetHeight - 4;
about.style.top = `${top + scrollY}px`;
}
function explain(link) {
clearTimeout(leaving);
if (shownFor === link) return;
hide();
shownFor = link;
about.textContent = link.dataset.about;
about.hidden = false;
link.setAttribute("aria-describedby", about.id);
stand(link.getBoundingClientRect());
}
function hide() {
clearTimeout(leaving);
shownFor?.removeAttribute("aria-describedby");
shownFor = undefined;
about.hidden = true;
}
function later() {
clearTimeout(leaving);
leaving = setTimeout(() => { if (!shownFor?.matches(":focus-visible")) hide(); }, 200);
}
function explained(link) {
link.dataset.about = link.title;
link.removeAttribute("title");
let touched = false;
link.addEventListener("pointerenter", ({ pointerType }) => {
if (pointerType !== "touch") explain(link);
});
link.addEventListener("pointerleave", later);
link.addEventListener("focus", () => {
if (link.matches(":focus-visible")) explain(link);
});
link.addEventListener("blur", hide);
link.addEventListener("pointerdown", ({ pointerType }) => {
touched = pointerType === "touch" && shownFor !== link;
});
link.addEventListener("click", (event) => {
if (!touched) return;
event.preventDefault();
explain(link);
touched = false;
});
}
const TOLD = "article a[title]:is(.term, [href*='references.html#'])";
document.querySelectorAll(TOLD).forEach(explained);
about.addEventListener("pointerenter", () => clearTimeout(leaving));
about.addEventListener("pointerleave", later);
document.addEventListener("keydown", ({ key }) => { if (key === "Escape") hide(); });
document.addEventListener("pointerdown", ({ target }) => {
if (!shownFor?.contains(target) && !about.contains(target)) hide();
});


const article = document.querySelector("article");
const marked = "[class*='sym-'], [data-sym]";
const symbolOf = (node) =>
node?.dataset.sym ?? /sym-(\w)/.exec(node?.getAttribute("class"))?.[1];
const firsts = [...article?.querySelectorAll("table.docutils td:first-child") ?? []];
const heads = firsts.filter((cell) => cell.querySelector(":is(.katex, code) [class*='sym-']"));
for (const head of heads) head.tabIndex = 0;
function symbolAt(target) {
const hued = getComputedStyle(target).getPropertyValue("--stands-for");
if (hued) return hued;
const inside = () => (target.matches("a, td") ? target.querySelector(marked) : null);
const head = target.closest("tr")?.firstElementChild;
const inHead = () => (heads.includes(head) ? head.querySelector(marked) : null);
return symbolOf(target.closest(marked) ?? inside() ?? inHead());
}
const lights = document.documentElement.dataset;
function focusedSymbol() {
const focused = document.activeElement;
const seen = article.contains(focused) && focused.matches(":focus-visible");
return seen ? symbolAt(focused) : undefined;
}
function light({ target }) {
const symbol = symbolAt(target) ?? focusedSymbol();
if (symbol) lights.lit = symbol;
else delete lights.lit;
}
for (const kind of ["pointerover", "focusin"]) article?.addEventListener(kind, light);
article?.addEventListener("focusout", ({ target }) => {
if (symbolAt(target) === lights.lit) delete lights.lit;
});


const here = document.currentScript.src;
let loading;
const address = new URL("vega/vega.min.js", here);
const library = () => (loading ??= new Promise((resolve, reject) => {
const script = document.createElement("script");
script.src = address;
script.onload = resolve;
script.onerror = () => reject(new Error("vega.min.js did not load; the tables remain"));
document.head.append(script);
}));

const specOf = (figure) => JSON.parse(figure.querySelector("script").textContent);
let look;
const lookOfAll = () => (look ??= specOf(document.querySelector("figure.chart")).config);

async function draw(figure) {
try {
await library();
await paint(figure);
} catch (error) {
console.error(error);
}
}

async function paint(figure) {
if (figure.classList.contains("drawn")) return;
const place = figure.querySelector(".chart-view");
const form = figure.querySelector(".chart-controls");
const data = place.firstElementChild;
try {
const chart = document.createElement("div");
const spec = specOf(figure);
place.replaceChildren(chart);
const view = viewOf(spec, chart, form);
view.run();
describe(chart, spec.description);
place.after(folded(data));
const tell = form && respond(figure, form, view);
figure.classList.add("drawn");
await view.runAsync();
reach(place);
await tell?.();
} catch (error) {
form?.replaceChildren();
place.replaceChildren(data);
throw error;
}
}

function viewOf(spec, chart, form) {
const view = new vega.View(vega.parse(spec, lookOfAll()), { renderer: "svg" });
return view.initialize(chart, form).hover();
}

function describe(chart, text) {
const picture = chart.querySelector("svg");
picture.setAttribute("role", "img");
picture.setAttribute("aria-label", text);
for (const part of picture.children) part.setAttribute("aria-hidden", "true");
for (const name of ["role", "aria-label", "aria-roledescription"]) chart.removeAttribute(name);
}

function folded(table) {
const fold = document.createElement("details");
fold.innerHTML = "<summary>The data as a table</summary>";
fold.append(table);
return fold;
}

function loadAtOnce() {
const request = new XMLHttpRequest();
request.open("GET", address, false);
request.send();
const script = document.createElement("script");
document.head.append(Object.assign(script, { textContent: request.responseText }));
}
addEventListener("beforeprint", () => {
const left = document.querySelectorAll("figure.chart:not(.drawn)");
try {
if (left.length && !window.vega) loadAtOnce();
for (const figure of left) paint(figure).catch(console.error);
} catch { }
});

function respond(figure, form, view) {
const said = document.createElement("output");
form.append(said);
nameChoices(form);
const sliders = [...form.querySelectorAll("[type=range]")].map(withPosition);
async function tell() {
await view.runAsync();
const lines = [...figure.querySelectorAll(".readout_marks tspan")];
const [state, ...rest] = lines.map((line) => line.textContent);
for (const one of sliders) place(one, state);
if (said.value !== rest.join(", ")) said.value = rest.join(", ");
}
const changes = ["input", "change", "click", "pointerover"];
for (const change of changes) figure.addEventListener(change, tell);
form.addEventListener("submit", (event) => event.preventDefault());
return tell;
}
function nameChoices(form) {
const choices = form.querySelectorAll(".vega-bind:has([type=radio])");
form.prepend(...choices);
for (const group of choices) {
group.role = "radiogroup";
group.ariaLabel = group.querySelector(".vega-bind-name").textContent;
}
}
function withPosition(slider) {
const at = document.createElement("span");
slider.closest(".vega-bind").append(at);
return { slider, at };
}
function place({ slider, at }, state) {
const name = slider.closest("label").querySelector(".vega-bind-name").textContent;
at.textContent = state.replace(`${name} `, "");
slider.ariaValueText = state;
slider.style.setProperty("--part", (slider.value - slider.min) / (slider.max - slider.min));
}

const near = new IntersectionObserver((entries) => {
for (const { isIntersecting, target } of entries) {
if (!isIntersecting) continue;
near.unobserve(target);
draw(target);
}
}, { rootMargin: "600px 0px" });
for (const figure of document.querySelectorAll("figure.chart")) near.observe(figure);
if (location.protocol === "file:" && document.querySelector("figure.chart")) {
setTimeout(() => library().catch(console.error), 1000);
}


const contents = document.querySelector(".toc-drawer");
const beside = new Set();
const passing = new IntersectionObserver((entries) => {
for (const { isIntersecting, target } of entries) {
if (isIntersecting) beside.add(target);
else beside.delete(target);
}
contents.classList.toggle("aside", beside.size > 0);
}, { rootMargin: "0px 0px -10% 0px" });
for (const figure of document.querySelectorAll("article figure.drawing")) {
const { offsetWidth } = figure.querySelector(".view");
if (offsetWidth > figure.parentElement.clientWidth + 1) passing.observe(figure);
}


const scrollers = [
"pre", ".table-wrapper", ".text_html:has(> table)", ".text_html > details",
".chart-view", ".chart-data", ".katex-display > .katex"].join(", ");
function reach(...boxes) {
const wide = boxes.map((box) => box.scrollWidth > box.clientWidth);
const scroll = boxes.map((box, i) => wide[i] || box.scrollHeight > box.clientHeight);
boxes.forEach((box, i) => {
box.classList.toggle("scrolls", wide[i] && !box.matches("pre"));
if (scroll[i]) box.tabIndex = 0;
else box.removeAttribute("tabindex");
});
}
const sized = new ResizeObserver((entries) => reach(...entries.map(({ target }) => target)));
for (const box of document.querySelectorAll(scrollers)) sized.observe(box);

function asButton(label, name) {
const button = document.createElement("button");
button.className = label.className;
button.setAttribute("aria-label", name);
button.append(...label.childNodes);
label.replaceWith(button);
return button;
}
function whenLeft(menu, close) {
menu.addEventListener("click", ({ target }) => {
if (target.closest("a")) close();
});
menu.addEventListener("focusout", ({ relatedTarget: next }) => {
if (next && !menu.contains(next)) close();
});
}
function openable(box, menu) {
const labels = [...document.querySelectorAll(`label[for="${box.id}"]:not(.overlay)`)];
const name = menu.getAttribute("aria-label");
const buttons = labels.map((label) => asButton(label, name));
const shown = (element) => element.offsetParent;
const open = (wanted) => {
box.checked = wanted;
for (const button of buttons) button.setAttribute("aria-expanded", wanted);
};
const enter = () => {
open(true);
[...menu.querySelectorAll("a, input")].find(shown).focus();
};
for (const button of buttons) button.addEventListener("click", enter);
whenLeft(menu, () => open(false));
menu.addEventListener("keydown", ({ key }) => {
if (key !== "Escape" || !box.checked) return;
buttons.find(shown).focus();
open(false);
});
box.addEventListener("change", () => open(box.checked));
open(false);
}
const drawers = [["__navigation", ".sidebar-drawer"], ["__toc", ".toc-drawer"]];
for (const [name, drawer] of drawers) {
openable(document.getElementById(name), document.querySelector(drawer));
}
})();
