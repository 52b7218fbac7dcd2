(() => {
function draw({ view, viewWidth, data, el, svg, set, sum, clamp, softmax, between, number, plural,
said, say, choices, button, toggle, more, legendOf, wash, hatched, slider, late, motion, onkeys,
tabulate, expose, keep }) {
const { tokens, filler, scores } = data;
const n = tokens.length;
const all = [...tokens.keys()];
const on = { causal: false, padding: false, after: false, blocked: false, first: false,
cached: 0 };
let clicked = {};
let [row, column] = [Math.floor(n / 2), 0];
const named = (j) => (on.padding && j === n - 1 ? filler : tokens[j]);

const own = (i) => (on.first ? i - on.cached : i);
const switched = (i, j) => (!on.causal || j <= own(i)) && (!on.padding || j < n - 1);
const written = (i, j) => clicked[[i, j]] ?? switched(i, j);
const allowed = (i) => all.map((j) => written(i, j) !== on.blocked);
const weigh = (scores, may) => on.after
? softmax(scores).map((w, j) => (may[j] ? w : 0))
: softmax(scores.map((s, j) => (may[j] ? s : -Infinity)));
function reached(i, weights) {
return all.map((j) => {
const other = weigh(scores[i].map((s, m) => (m === j ? s + 1 : s)), allowed(i));
return weights[j] > 0 || other.some((w, m) => Math.abs(w - weights[m]) > 1e-9);
});
}
const rows = () => all.slice(on.cached).map((i) => {
const weights = weigh(scores[i], allowed(i));
return { i, may: allowed(i), weights, sum: sum(weights), reached: reached(i, weights) };
});

const tight = viewWidth < 345;
const barred = "repeating-linear-gradient(90deg, var(--faint) 0 2px, transparent 2px 8px)";
const plain = "padding: 0.1rem 0.35rem; font-size: 13px; height: 30px";
const tops = all.map(() => el("th", { scope: "col", "data-sym": "k",
style: "padding: 0.1rem; text-align: center; font-size: 13px" }));
const sided = `${plain}; padding-left: 0.7rem`;
const sides = all.map(() => el("th", { scope: "row", "data-sym": "q", style: sided }));
const sums = all.map(() => el("td", { style: `${plain}; min-width: ${tight ? 3.2 : 3.6}rem` }));
const arrows = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
function cellAt(i, j) {
const move = ([down, right]) =>
cells[clamp(i + down, on.cached, n - 1)][clamp(j + right, 0, n - 1)].focus();
const look = () => go(i, j);
return el("button", { type: "button", ...keep, onclick: () => flip(i, j), onfocus: look,
onpointerenter: look, onkeydown: onkeys(arrows, move) },
el("span", { "aria-hidden": true }), el("span"), el("span"));
}
let was = null;
let passes;
function flip(i, j) {
was = { i, j, weights: weigh(scores[i], allowed(i)) };
const may = !written(i, j);
if (may === switched(i, j)) delete clicked[[i, j]];
else clicked[[i, j]] = may;
clearTimeout(passes);
passes = setTimeout(() => {
was = null;
show();
}, 2500);
go(i, j);
if (!allowed(i)[j]) fall(i, j);
}
const cells = all.map((i) => all.map((j) => cellAt(i, j)));
function boardRow(i) {
const inside = cells[i].map((cell) => el("td", { style: "padding: 0" }, cell));
return el("tr", {}, sides[i], ...inside, sums[i]);
}
const board = el("table", { "aria-label": "A row for each query, a column for each key. "
+ "Arrow keys move; Enter allows or forbids.", style: "margin: 0" },
el("thead", {},
el("tr", {}, el("td", {}), ...tops, el("th", { scope: "col", style: plain }, "sum"))),
el("tbody", {}, ...all.map(boardRow)));

const [gap, line, tall] = viewWidth < 600 ? [64, 84, 1] : [68, 150, 1.8];
const place = (j) => gap * (j + 0.5);
const room = { width: gap * n, height: line + 8, viewBox: `0 22 ${gap * n} ${line + 8}` };
const arcs = svg("svg", { ...room, "aria-hidden": true });

function showRow(i, r) {
sides[i].textContent = tops[i].textContent = named(i);
const [stroke, edge] = i === row ? ["0.3px", "inset 4px 0 0 var(--q)"] : ["0", "none"];
set(sides[i], { style: `${sided}; -webkit-text-stroke: ${stroke}; box-shadow: ${edge}` });
const right = r && Math.abs(r.sum - 1) < 1e-6;
sums[i].textContent = r ? `${number(r.sum)} ${right ? "✓" : "✗"}` : "";
cells[i].forEach((cell, j) => showCell(cell, i, j, r));
}
const looks = `display: block; width: ${tight ? 44 : 46}px; height: 34px; padding: 0; `
+ "border: 1px solid var(--faint); border-radius: 0; font-size: 13px; font-weight: 400; "
+ "box-shadow: none; color: inherit";
const past = "display: block; font-size: 12px; line-height: 14px; color: var(--soft); "
+ "text-decoration: line-through";
const dot = "display: inline-block; width: 12px; height: 12px; border-radius: 50%; "
+ "background: var(--k)";
const legend = legendOf([wash("w", 45), "weight"], [hatched, "forbidden"],
[barred, "cached, no query"], [el("span", { style: dot }), "forbidden, but it leaks"]);
const [, , ofCached, ofLeaks] = legend.children;
const entry = ofLeaks.getAttribute("style");
const inLegend = (node, seen) => set(node, { style: seen ? entry : "display: none" });
function showCell(cell, i, j, r) {
const [before, weight, leak] = cell.children;
const { says, paint, sym, mark, leaks } = lookOf(i, j, r);
set(cell, { "data-sym": sym, disabled: !r, tabindex: i === row && j === column ? 0 : -1,
"aria-pressed": r ? String(r.may[j]) : null, "aria-label": says,
style: `${looks}; background: ${paint}` });
weight.textContent = mark ?? "";
const changed = mark && was?.i === i && was.j !== j && number(was.weights[j]) !== mark;
before.textContent = changed ? number(was.weights[j]) : "";
set(before, { style: changed ? past : "display: none" });
set(weight, { style: changed ? "display: block; line-height: 16px; font-weight: 600" : null });
set(leak, { "data-sym": leaks ? "k" : null, style: leaks ? dot : "display: none" });
}
function lookOf(i, j, r) {
if (!r) return { says: `${named(i)} is in the cache and has no query`, paint: barred };
return r.may[j] ? pair(i, j, r.weights[j]) : forbidden(i, j, r.reached[j]);
}
function pair(i, j, weight) {
const paint = `color-mix(in srgb, var(--w) ${(60 * weight).toFixed(1)}%, transparent)`;
const mark = number(weight);
return { says: `${named(i)} attends to ${named(j)}: ${mark}`, sym: "w", mark, paint };
}
function forbidden(i, j, leaks) {
const says = `${named(i)} must not attend to ${named(j)}`;
return { says: leaks ? `${says}, but depends on it` : says, paint: hatched, leaks };
}

function bow(from, to) {
if (from === to) return `M${to - 5} ${line}c-18 -34 28 -34 10 0`;
const high = tall * (26 + 15 * Math.abs(from - to) / gap);
const end = to + 18 * Math.sign(from - to);
return `M${from} ${line}Q${(from + end) / 2} ${line - 1.35 * high} ${end} ${line}`;
}
function arc(j, weight) {
const look = weight > 0
? { "data-sym": "w", stroke: "var(--w)", "stroke-width": 1.5 + 7 * weight }
: { "data-sym": "k", stroke: "var(--k)", "stroke-width": 2.5, "stroke-dasharray": "3 4" };
return svg("path", { d: bow(place(j), place(row)), fill: "none", opacity: 0.85, ...look });
}
function showArcs({ reached, weights }) {
const width = 8.5 * named(row).length + 12;
const frame = svg("rect", { x: place(row) - width / 2, y: line + 3, width, height: 24, rx: 5,
fill: "none", stroke: "var(--q)", "stroke-width": 2 });
const name = (j) => svg("text", { x: place(j), y: line + 20, "text-anchor": "middle",
opacity: reached[j] ? 1 : 0.55,
"text-decoration": reached[j] ? "none" : "line-through" }, named(j));
const drawn = all.filter((j) => reached[j]).map((j) => arc(j, weights[j]));
set(arcs, {}, ...drawn, frame, ...all.map(name));
}
function told({ may, reached }) {
const token = `“${named(row)}”`;
if (!may.some(Boolean)) return `${token} may attend to nothing: its weights are all 0.`;
const who = (test) => all.filter(test).map(named).join(", ");
const asks = !may[row] && (on.after || may.filter(Boolean).length > 1);
const itself = asks ? ", and through its query on itself" : "";
const leaks = who((j) => reached[j] && !may[j]);
return `The context of ${token} depends on: ${who((j) => may[j])}${itself}.`
+ (leaks ? ` A leak: ${leaks}.` : "");
}
function go(i, j) {
[row, column] = [i, j];
show();
}
let from = null, part = 1;
function onTheWay(r) {
if (!r || part === 1) return r;
const weights = r.weights.map((w, j) => (r.may[j] ? between(from[r.i][j], w, part) : w));
return { ...r, weights, sum: sum(weights) };
}
const glide = motion();
const flow = (before) => glide(1400, (t) => {
[from, part] = [before, t && clamp(1.5 * t - 0.5, 0, 1)];
showRows(rows());
});
function showRows(now) {
for (const i of all) showRow(i, onTheWay(now.find((r) => r.i === i)));
}
function show() {
if (row < on.cached) row = on.cached;
const now = rows();
const of = (i) => now.find((r) => r.i === i);
showRows(now);
const leaks = now.some(({ may, reached }) => reached.some((yes, j) => yes && !may[j]));
inLegend(ofLeaks, leaks);
inLegend(ofCached, on.cached > 0);
showArcs(of(row));
showOwn();
say(told(of(row)));
}

const mine = button("", () => change("causal")(on.causal));
function showOwn() {
const count = Object.keys(clicked).length;
mine.textContent = `own: ${count}`;
set(mine, { "aria-pressed": String(count > 0), disabled: !count,
"aria-label": count ? `own mask, ${plural(count, "pair")} changed: take them back`
: "own mask: no pair is changed",
style: `min-width: 4.4rem; justify-content: center; visibility: ${count ? "" : "hidden"}` });
}
const falls = { opacity: [0, 1], transform: ["translateY(-1.2rem)", "none"] };
const fall = (i, j, delay = 0) =>
late(cells[i][j], { duration: 350, delay, fill: "backwards" }, falls);
const change = (key) => (value) => {
const before = all.map(allowed);
const weights = all.map((i) => weigh(scores[i], before[i]));
on[key] = value;
clicked = {};
was = null;
show();
for (const { i, may } of rows()) {
may.forEach((now, j) => { if (before[i][j] && !now) fall(i, j, 60 * Math.max(0, j - i)); });
}
flow(weights);
};
function pick(text, options, key) {
const radios = choices(text, options, 0, (i) => {
on[key] = i === 1;
was = null;
show();
});
const name = el("span", { style: "min-width: 7.5rem" }, text);
return el("div", { class: "row" }, name, radios);
}
const beside = "display: flex; flex-wrap: wrap; gap: 0.3rem 1.5rem; align-items: center";
view.append(
el("div", { class: "row", style: "margin-top: 0; gap: 0.5rem" },
toggle("causal mask", false, change("causal")),
toggle("padding mask", false, change("padding")), mine),
el("div", { style: beside }, board, el("div", {}, arcs, legend)),
el("div", { style: `min-height: ${viewWidth < 600 ? 2.8 : 1.4}em; margin-top: 0.4rem` }, said),
more(
pick("The mask comes", ["before the softmax", "after the softmax"], "after"),
pick("True means", ["may attend", "blocked"], "blocked"),
slider("Tokens in a cache", { min: 0, max: n - 1, step: 1, value: 0,
input: change("cached"), text: (x) => number(x, 0) }),
pick("The triangle ends", ["last query, last key", "first query, first key"], "first")));
show();
tabulate(() => ({ caption: "Weights; a row for each query", columns: all.map(named),
rows: rows().map(({ i, weights }) => [named(i), weights]) }));
expose(() => {
const now = rows();
const each = (key) => now.map((r) => r[key]);
return { ...on, mask: each("may"), weights: each("weights"), sums: each("sum"),
reached: each("reached") };
});
}
for (const figure of document.querySelectorAll("figure[data-drawing=mask_board]")) begin(figure, draw);
})();
