(() => {
function draw({ view, viewWidth, data, el, svg, set, clamp, dot, matmul, softmax, mix, number,
listed, vector, said, say, choices, motion, handle, plane, wash, tabulate, expose,
keep }) {
const { tokens, x, kinds } = data;
const eye = [[1, 0], [0, 1]];
const W = { W_q: data.W_q.map((r) => [...r]), W_k: data.W_k.map((r) => [...r]) };
let upright = data.W_q;
let turned = 0;
let chosen = data.start;
let now = {};
const wide = viewWidth >= 600;

const low = -2, high = 3;
const across = wide ? 340 : viewWidth < 350 ? 220 : 236;
const { root, at, arrow } = plane(across, high, low);
const unit = across / (high - low);
set(root, { style: "flex: none", "aria-label": "The query and the keys as arrows" });
root.style.overflow = "hidden";
function note(more, says) {
const node = svg("text", { "aria-hidden": true, ...more }, says);
root.append(node);
return node;
}
const ofAxes = { "text-anchor": "end", style: "font-size: 13px; fill: var(--soft)" };
const [x0, y0] = at([0, 0]);
note({ x: across - 3, y: y0 + 32, ...ofAxes }, `${kinds[0]} →`);
note({ x: x0 - 5, y: 14, ...ofAxes }, `↑ ${kinds[1]}`);
const query = arrow("var(--q)");
const keys = tokens.map(() => arrow("var(--k)"));
set(query.node, { "data-sym": "q" });
set(query.node.firstChild, { "stroke-width": 9, opacity: 0.75 });
for (const { node } of keys) set(node, { "data-sym": "k" });
const nothing = svg("circle", { cx: x0, cy: y0, r: 8, fill: "none", stroke: "var(--q)",
"stroke-width": 3, "data-sym": "q", "aria-hidden": true });
root.append(nothing);
const angle = note({ x: across - 8, y: 20, "text-anchor": "end", style: "font-weight: 600" }, "");
const mark = note({ "data-sym": "q", class: "halo", "text-anchor": "middle",
style: "font-weight: 600" }, "");
const by = 15;
const ofTip = ([u, v]) => {
const long = matmul([x[chosen]], upright)[0];
const angle = (Math.atan2(v, u) - Math.atan2(long[1], long[0])) * 180 / Math.PI;
turnTo(Math.round(angle / by) * by);
};
const pulled = (px, py) => ofTip([px / unit + low, high - py / unit]);
const ways = { ArrowLeft: by, ArrowUp: by, ArrowRight: -by, ArrowDown: -by };
const knob = handle(root, "query", {}, [0, 360], pulled, ways, (far) => turnTo(turned + far));
const bead = 11;
set(knob, { r: bead, fill: "var(--paper)", stroke: "var(--q)", "stroke-width": 3 });
root.append(knob);
const names = tokens.map((token) => note({ "data-sym": "k" }, token));

const exact = (n, digits) => Math.abs(n - +n.toFixed(digits)) < 1e-9;
const plain = (n) => number(n, [0, 1].find((digits) => exact(n, digits)) ?? 2);
const short = (row) => vector(row, plain);
const hue = (which, ...text) => el("b", { "data-sym": which }, ...text);
const cells = tokens.map(() => ({
key: el("td", { "data-sym": "k" }),
score: el("td", { style: "min-width: 44px" }),
bar: el("div", { "data-sym": "w", style: "height: 14px; background: var(--w)" }),
weight: el("span", { "data-sym": "w" }),
}));
const heads = tokens.map((token) =>
el("th", { scope: "row", style: "text-align: left" }, token));
const columns = [hue("k", "key"), "q · k"].map((says) =>
el("th", { scope: "col" }, says));
const last = el("th", { scope: "col", style: "text-align: left" }, hue("w", "weight"));
const inLine = "display: flex; align-items: center; gap: 0.3rem; "
+ `width: ${wide ? "min(11rem, 30vw)" : "8.2rem"}`;
const tall = `height: ${wide ? 33 : 25}px`;
function rowOf({ key, score, bar, weight }, i) {
const weighed = el("td", { style: "text-align: left" },
el("div", { style: inLine }, bar, weight));
return el("tr", { style: tall }, heads[i], key, score, weighed);
}
const context = el("td", { "data-sym": "v", colspan: 2 });
const sum = { style: `${tall}; border-top: 1px solid var(--soft); font-weight: 600` };
const table = el("table", { class: "tight", style: "white-space: nowrap; margin-block: 0" },
el("thead", {}, el("tr", { style: tall }, el("td"), ...columns, last)),
el("tbody", {}, ...cells.map(rowOf)),
el("tfoot", {}, el("tr", sum,
el("th", { scope: "row", style: "font-weight: 600" }, hue("v", "context")), context,
el("td", { style: "text-align: left" }, hue("w", "1.00")))));

const broad = 84;
const center = (i) => 2 + broad / 2 + i * (broad + 2);
const breadth = 2 * center(0) + (tokens.length - 1) * (broad + 2);
const arcs = svg("svg", { viewBox: `0 0 ${breadth} 52`, style: "width: 100%; height: auto",
"aria-hidden": true });
const bows = tokens.map(() => svg("path", { "data-sym": "w", fill: "none", stroke: "var(--w)",
"stroke-linecap": "round" }));
const shares = tokens.map(() => svg("text", { "data-sym": "w", class: "halo",
"text-anchor": "middle", style: "font-weight: 600" }));
arcs.append(...bows, ...shares);
function bow(i, weight) {
const [from, to] = [center(chosen), center(i)];
const high = 18 + 8 * Math.abs(i - chosen);
const loop = `M${to - 14} 50C${to - 34} 18,${to + 34} 18,${to + 14} 50`;
set(bows[i], {
d: i === chosen ? loop : `M${from} 50C${from} ${50 - high},${to} ${50 - high},${to} 50`,
"stroke-width": 0.8 + 10 * weight, opacity: 0.25 + 0.65 * weight });
const top = 50 - 0.75 * (i === chosen ? 32 : high);
set(shares[i], { x: (from + to) / 2, y: top - 5 * weight - 4 });
}
function showShares(weights) {
const far = chosen < tokens.length / 2 ? tokens.length - 1 : 0;
const equal = weights.every((w) => Math.abs(w - weights[0]) < 1e-6);
const large = (w) => (w < 0.2 ? "" : number(w));
const each = (i) => (i === far ? `${number(weights[i])} each` : "");
weights.forEach((w, i) => { shares[i].textContent = equal ? each(i) : large(w); });
}

const cellOf = (sym, wide = 24) => el("span", { "data-sym": sym, style: `min-width: ${wide}px; `
+ "padding: 2px; text-align: center; box-shadow: 0 0 0 0.5px var(--edge)" });
const gridOf = (...inside) => el("span", { style: "display: inline-grid; "
+ "grid-template-columns: auto auto; font-variant-numeric: tabular-nums" }, ...inside);
const factors = { x: [0, 1].map(() => cellOf(null)), q: [0, 1].map(() => cellOf("q", 44)),
W: [0, 1].map(() => [0, 1].map(() => cellOf(null, 44))) };
const of = el("span");
const terms = [of, el("span", {}, "· ", hue("q", "W", el("sub", {}, "q"))),
el("span", {}, "= ", hue("q", "query"))];
const sets = [factors.x, factors.W.flat(), factors.q].map((cells) => gridOf(...cells));
const working = el("div", { style: "display: grid; align-items: center; justify-content: start; "
+ "grid: auto 46px / 88px 104px auto; gap: 4px 8px; margin-block: 12px" }, ...terms, ...sets);

const puts = [];
const named = (name) => hue(name[2], "W", el("sub", {}, name[2]));
const room = wide ? "width: 4.4rem" : "width: 2.6rem; padding-inline: 0.1rem";
const thin = "padding: 2px 3px";
function entry(name, verb, i, j) {
const input = el("input", { type: "number", min: -high, max: high, step: 0.5,
value: W[name][i][j], style: room,
"aria-label": `${name}, from ${kinds[i]} to ${verb} ${kinds[j]}`, ...keep,
oninput: () => {
const n = +input.value;
W[name][i][j] = clamp(Number.isFinite(n) ? n : 0, -high, high);
if (name === "W_q") begin(W.W_q);
show();
} });
return input;
}
function matrix(name, verb) {
const inputs = [0, 1].map((i) => [0, 1].map((j) => entry(name, verb, i, j)));
puts.push((rows) => rows.forEach((row, i) => row.forEach((n, j) => {
W[name][i][j] = n;
inputs[i][j].value = +n.toFixed(2);
})));
const head = (text) => el("th", { scope: "col", style: thin }, text);
const cell = (input) => el("td", { style: thin }, input);
const rowOf = (kind, i) => el("tr", {}, el("th", { scope: "row", style: thin }, kind),
...inputs[i].map(cell));
return el("div", {}, named(name), ` ${verb} …`,
el("table", {},
el("thead", {}, el("tr", {}, el("td"), ...kinds.map(head))),
el("tbody", {}, ...kinds.map(rowOf))));
}
const presets = { "hand-made": [data.W_q, data.W_k], "identity": [eye, eye] };
const picked = choices("Matrices", Object.keys(presets), 0, (i) => {
Object.values(presets)[i].forEach((rows, m) => puts[m](rows));
begin(W.W_q);
show();
});
function begin(rows) {
upright = rows.map((row) => [...row]);
turned = 0;
}
function turnTo(degrees) {
turned = (degrees % 360 + 360) % 360;
const angle = (turned * Math.PI) / 180;
const [cos, sin] = [Math.cos(angle), Math.sin(angle)];
const rows = matmul(upright, [[cos, sin], [-sin, cos]]);
puts[0](rows.map((row) => row.map((n) => +n.toFixed(2) + 0)));
show();
}
const radios = picked.querySelectorAll("input");

function compute() {
const [q, k] = [W.W_q, W.W_k].map((matrix) => matmul(x, matrix));
const scores = q.map((query) => k.map((key) => dot(query, key)));
const all = scores.map(softmax);
const weights = all[chosen];
now = { q: q[chosen], k, scores: scores[chosen], weights, context: mix(weights, x), all };
}
function inside(v) {
const most = Math.max(1, ...v.map((n) => n / (n < 0 ? low : high)));
return v.map((n) => n / most);
}
const zero = (v) => v.every((n) => n === 0);
const flat = (v) => Math.abs(v[0]) >= Math.abs(v[1]);
const side = (v) => (flat(v) ? [-8, -13, "middle"] : [9, 5, "start"]);
const glide = motion();
let tip = [0, 0];
let drawn = tokens.map(() => 0);
function sideways([a, b]) {
const long = Math.hypot(a, b) || 1;
const way = flat([a, b]) ? Math.sign(a) : -Math.sign(b);
return [way * b / long, way * a / long];
}
function showQuery({ q, weights }) {
const [from, before] = [tip, drawn];
mark.textContent = zero(q) ? "q = 0" : "q";
set(nothing, { visibility: zero(q) ? "visible" : "hidden" });
glide(450, (t) => {
drawn = weights.map((w, i) => before[i] + (w - before[i]) * t);
drawn.forEach((w, i) => bow(i, w));
showShares(drawn);
tip = from.map((n, i) => n + (q[i] - n) * t);
const [x, y] = at(inside(tip).map((n) => 0.75 * n));
const [u, v] = zero(q) ? [-2, 1.3] : sideways(tip);
query.point(tip);
showKnob();
set(mark, { x: x + 20 * u, y: y + 20 * v + 5 });
});
angle.textContent = turned ? `turned by ${turned}°` : "";
}
function showKnob() {
const long = Math.hypot(...tip) || 1;
const [u, v] = tip.map((n) => (bead + 3) * n / long);
const [x, y] = at(inside(tip));
const [cx, cy] = [x + u, y - v].map((n) => clamp(n, bead + 2, across - bead - 2));
set(knob, { cx, cy, visibility: zero(now.q) ? "hidden" : "visible",
"aria-valuenow": turned, "aria-valuetext": `turned by ${turned}°` });
}
function showToken(i, k, score, weight) {
const [px, py] = at(inside(k));
const [dx, dy, anchor] = side(inside(k));
const cell = cells[i];
keys[i].point(k);
set(names[i], { x: px + dx, y: py + dy, "text-anchor": anchor,
visibility: zero(k) ? "hidden" : "visible" });
cell.key.textContent = short(k);
cell.score.textContent = plain(score);
cell.weight.textContent = number(weight);
const long = (weight * (wide ? 8.5 : 5.8)).toFixed(3);
set(cell.bar, { style: `height: 14px; background: var(--w); width: ${long}rem` });
set(heads[i], { style: `text-align: left; font-weight: ${i === chosen ? 700 : 400}` });
}
function showProduct({ q, context: mean }) {
of.textContent = `“${tokens[chosen]}”`;
[0, 1].forEach((i) => {
factors.x[i].textContent = plain(x[chosen][i]);
factors.q[i].textContent = plain(q[i]);
for (const j of [0, 1]) {
const used = x[chosen][i] && W.W_q[i][j];
factors.W[i][j].textContent = plain(W.W_q[i][j]);
factors.W[i][j].style.background = used ? wash("q", 30) : "none";
}
});
context.textContent = vector(mean, number);
}
function found({ q, scores, weights }) {
const most = Math.max(...weights);
const best = tokens.filter((_, i) => weights[i] > most - 1e-6);
const token = `“${tokens[chosen]}”`;
if (zero(q)) return `${token} looks for nothing: all weights are equal.`;
if (Math.max(...scores) < 1e-6 && best.length < tokens.length) {
const each = best.length > 1 ? " each" : "";
return `No key fits: ${listed(best)} get${each ? "" : "s"} ${number(most)}${each}.`;
}
if (best.length > 1) return `${token} finds ${listed(best)}: ${number(most)} each.`;
const which = best[0] === tokens[chosen] ? "itself" : `“${best[0]}”`;
return `${token} finds ${which}: ${number(most)}.`;
}
function show() {
compute();
showQuery(now);
const name = String([upright, W.W_k]);
Object.values(presets).forEach((rows, i) => { radios[i].checked = String(rows) === name; });
tokens.forEach((_, i) => showToken(i, now.k[i], now.scores[i], now.weights[i]));
showProduct(now);
say(found(now));
}
const around = (gap, ...parts) =>
el("div", { class: "beside", style: `gap: ${gap}; align-items: flex-start` }, ...parts);
const picker = choices("Query", tokens, chosen, (i) => {
chosen = i;
show();
});
picker.style.cssText = "margin: 0; display: grid; width: auto; "
+ `grid-template-columns: repeat(${tokens.length}, minmax(0, 1fr))`;
for (const choice of picker.children) choice.style.paddingInline = "0";
const sentence = el("div", { style: `max-width: ${breadth}px` }, arcs, picker);
const rest = `flex: 1 1 17rem; min-width: 0; min-height: ${across}px; display: flex; `
+ "flex-direction: column; justify-content: space-between";
const parts = wide
? [around("1rem", root, el("div", { style: rest }, sentence, said, table))]
: [sentence, said, root, table];
view.append(...parts,
el("details", { class: "more" },
el("summary", {}, "The eight numbers"),
picked,
around("0.5rem 3rem", matrix("W_q", "looks for"), matrix("W_k", "is found as")),
working));
const [size, lines] = wide ? [17, 2.8] : [14, viewWidth < 350 ? 2.8 : 1.4];
set(said, { style: `margin: ${wide ? 4 : 8}px 0; font-size: ${size}px; font-weight: 600; `
+ `max-width: none; min-height: ${lines}em` });
if (!wide) root.style.marginInline = "auto";
show();
tabulate(() => ({ caption: "Weights: a row for each query", columns: tokens,
rows: tokens.map((token, i) => [`weights of ${token}`, now.all[i]]) }));
expose(() => ({ chosen, turned, ...W, ...now }));
}
for (const figure of document.querySelectorAll("figure[data-drawing=subject]")) begin(figure, draw);
})();
