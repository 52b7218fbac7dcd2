(() => {
function draw({ figure, view, data, el, set, said, say, button, expose, keep }) {
const { bugs } = data;
const count = bugs.length;
let shown = 0;
let ways = [];

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

const pick = el("select", { "aria-label": "Bug", ...keep, onchange: () => go(+pick.value) },
...bugs.map(([title], i) => el("option", { value: i }, `${i + 1}. ${title}`)));
const place = el("div");
const way = el("a", {}, "See its code, its check and its repair");
function copyOf(pair) {
const says = pair.querySelector("figcaption b").textContent;
const about = el("div", { style: "font-weight: 600; margin-bottom: 0.4rem" }, says);
return [about, pair.querySelector(".both").cloneNode(true)];
}
function mark(picture) {
const [wrong, right] = [...picture.querySelectorAll("table")].map((table) =>
[...table.querySelectorAll("tbody tr")].map((row) => [...row.querySelectorAll("td")]));
const zero = (cell) => Number(cell.textContent) === 0;
const pairs = (wrong ?? []).map((row, i) => row.map((cell, j) => [cell, right?.[i]?.[j]]));
const by = (test) => pairs.map((row) => row.map(([a, b]) => Boolean(b) && test(a, b)));
const swapped = by((a, b) => zero(a) !== zero(b));
const some = swapped.flat().some(Boolean);
frame(pairs, some ? swapped : by((a, b) => a.textContent !== b.textContent));
}
function frame(pairs, marked) {
const edges = [[0, -1, "2px 0"], [0, 1, "-2px 0"], [-1, 0, "0 2px"], [1, 0, "0 -2px"]];
pairs.forEach((row, i) => row.forEach(([cell], j) => {
if (!marked[i][j]) return;
const open = edges.filter(([down, right]) => !marked[i + down]?.[j + right]);
cell.style.boxShadow = open.map(([, , at]) => `inset ${at} 0 var(--rose)`).join(", ");
}));
}
function go(i) {
shown = (i + count) % count;
const [title, story] = bugs[shown];
const { pair, id } = found(shown);
pick.value = String(shown);
set(way, { href: `#${id || `${shown + 1}.-${title.replaceAll(" ", "-")}`}` });
const picture = el("figure", { class: "pair", style: "margin: 0.4rem 0" });
if (pair) picture.append(...copyOf(pair));
mark(picture);
place.replaceChildren(picture);
say(`${shown + 1}. ${title}: ${story}`);
ways = [id, pair?.querySelectorAll("table").length ?? 0];
}
const step = (text, name, by) => set(button(text, () => go(shown + by)), { "aria-label": name });
const steps = [step("‹", "The bug before", -1), pick, step("›", "The next bug", 1)];
view.append(
el("div", { class: "row", style: "margin-top: 0" }, ...steps),
set(said, { style: "min-height: 2.8em" }),
way,
place);
go(0);
expose(() => ({ shown, title: bugs[shown][0], id: ways[0], tables: ways[1] }));
}
for (const figure of document.querySelectorAll("figure[data-drawing=entrance]")) begin(figure, draw);
})();
