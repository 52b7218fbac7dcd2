(() => {
function draw({ figure, view, viewWidth, data, el, set, said, say, button, choices, motion, expose,
keep }) {
const { bugs } = data;
const count = bugs.length;
let shown = 0;
let repaired = false;
let id = "";
let sides = [];

const after = (a, b) => Boolean(a.compareDocumentPosition(b) & 4);
function found(i) {
const headings = [...document.querySelectorAll?.("h2, h3") ?? []];
const heading = headings.find((h) => h.textContent.trim().startsWith(`${i + 1}. `));
if (!heading) return {};
const next = headings.find((h) => h !== heading && after(heading, h));
const below = (p) => after(heading, p) && (!next || after(p, next));
const pairs = [...document.querySelectorAll("figure.pair")];
const pair = pairs.find((p) => !figure.contains(p) && below(p));
return { pair, id: heading.closest("section")?.id || heading.id };
}

const phone = (viewWidth || 350) < 600;
const title = el("div", { style: "font-weight: 600; margin-bottom: 0.5rem" });
const place = el("div");
const rowsOf = (table) => [...table.querySelectorAll("tbody tr")]
.map((row) => [...row.querySelectorAll("td")]);
function wrongCells() {
const [wrong, right] = sides.map(rowsOf);
const zero = (cell) => Number(cell.textContent) === 0;
const by = (test) => wrong.map((row, i) => row.map((cell, j) => test(cell, right[i][j])));
const swapped = by((a, b) => zero(a) !== zero(b));
const some = swapped.flat().some(Boolean);
return some ? swapped : by((a, b) => a.textContent !== b.textContent);
}
const edges = [[0, -1, "2px 0"], [0, 1, "-2px 0"], [-1, 0, "0 2px"], [1, 0, "0 -2px"]];
const corners = [[-1, -1, "0 0"], [-1, 1, "100% 0"], [1, -1, "0 100%"], [1, 1, "100% 100%"]];
function frame(rows, marked) {
const at = (i, j) => marked[i]?.[j];
const dot = "linear-gradient(var(--rose), var(--rose))";
rows.forEach((row, i) => row.forEach((cell, j) => {
if (!at(i, j)) return;
const open = edges.filter(([down, right]) => !at(i + down, j + right));
const bent = corners.filter(([down, right]) =>
at(i + down, j) && at(i, j + right) && !at(i + down, j + right));
cell.style.boxShadow = open.map(([, , by]) => `inset ${by} 0 var(--rose)`).join(", ");
cell.style.background = [...bent.map(([, , by]) => `${dot} ${by} / 2px 2px no-repeat`),
cell.style.backgroundColor || "transparent"].join(", ");
}));
}

const turning = motion();
const both = () => sides.map((table) => [table.caption, ...rowsOf(table).flat()]);
const looks = (node) => [node.innerHTML, node.dataset.look];
function turn(ms) {
const here = [place.firstChild.caption, ...rowsOf(place.firstChild).flat()];
const [before, to] = repaired ? both() : both().reverse();
const differ = here.map((_, i) => looks(before[i]).join() !== looks(to[i]).join());
turning(ms, (t) => here.forEach((node, i) => {
if (!differ[i]) return;
const [text, look] = looks((t < 0.5 ? before : to)[i]);
node.innerHTML = text;
set(node, { style: `${look}; transform: rotateX(${180 * (t < 0.5 ? t : 1 - t)}deg)` });
}));
}
function picture(pair) {
title.textContent = pair?.querySelector("figcaption b").textContent ?? "";
sides = [...pair?.querySelectorAll("table") ?? []].map((table) => table.cloneNode(true));
if (sides.length === 2) frame(rowsOf(sides[0]), wrongCells());
for (const node of both().flat()) node.dataset.look = node.getAttribute("style") ?? "";
place.replaceChildren(...sides.slice(repaired ? 1 : 0).slice(0, 1)
.map((table) => table.cloneNode(true)));
}

const pick = el("select", { "aria-label": "Bug", ...keep, onchange: () => go(+pick.value) },
...bugs.map(([name], i) => el("option", { value: i }, `${i + 1}. ${name}`)));
const way = el("a", {}, "See its code, its check and its repair");
const side = choices("What is shown", ["bug", "repair"], 0, (i) => {
repaired = i === 1;
if (sides.length === 2) turn(500);
});
function go(i) {
shown = (i + count) % count;
const [name, story] = bugs[shown];
const { pair, id: anchor } = found(shown);
id = anchor;
pick.value = String(shown);
set(way, { href: `#${id || `${shown + 1}.-${name.replaceAll(" ", "-")}`}` });
picture(pair);
say(`${shown + 1}. ${name}: ${story}`);
}
const step = (text, name, by) => set(button(text, () => go(shown + by)), { "aria-label": name });
const steps = [step("‹", "The bug before", -1), pick, step("›", "The next bug", 1)];
const columns = phone ? "minmax(0, 1fr)" : "minmax(0, 26rem) minmax(0, 1fr)";
view.append(
el("div", { class: "row", style: "gap: 0.5rem; margin-top: 0" }, ...steps, side),
el("div", { style: `display: grid; grid-template-columns: ${columns}; gap: 0.6rem 2rem; `
+ "margin-top: 0.8rem" },
el("figure", { class: "pair", style: "margin: 0" }, title, place),
el("div", {}, set(said, { style: "margin-bottom: 0.5rem; max-width: none" }), way)));
go(0);
expose(() => ({ shown, repaired, title: bugs[shown][0], id, tables: sides.length }));
}
for (const figure of document.querySelectorAll("figure[data-drawing=entrance]")) begin(figure, draw);
})();
