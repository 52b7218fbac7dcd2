(() => {
function draw(stage) {
const { view, viewWidth, data, el, svg, set, dot, mix, matmul, sum, number } = stage;
const { vector, between, said, say, legendOf, wash, slider, player, motion, expose } = stage;
const { tokens, q, k, v } = data;
const n = tokens.length;
const all = [...tokens.keys()];
const width = k[0].length;
const columns = [...v[0].keys(), v[0].length];
const ones = v.map((row) => [...row, 1]);
let t = Math.min(1, n - 1);

const product = (key, value) => key.map((a) => value.map((b) => a * b));
const products = all.map((i) => product(k[i], ones[i]));
const plus = (a, b) => a.map((row, i) => row.map((x, j) => x + b[i][j]));
const state = (to) => products.slice(0, to + 1).reduce(plus);
function compute() {
const scores = k.slice(0, t + 1).map((key) => dot(q[t], key));
const S = state(t);
const sums = { cache: mix(scores, ones.slice(0, t + 1)), state: matmul([q[t]], S)[0] };
const total = sums.state.at(-1);
const context = sums.state.slice(0, -1).map((x) => x / total);
const kept = { cache: (t + 1) * (width + v[0].length), state: width * columns.length };
return { scores, S, added: products[t], sums, context, kept };
}
const whole = (x) => number(x, 0);
const isWhole = (x) => Math.abs(x - Math.round(x)) < 1e-9;
const short = (x) => number(x, isWhole(x) ? 0 : 2);

const wide = viewWidth >= 600;
const room = wide ? 340 : Math.floor((viewWidth - 12) / 2);
const text = (x, y, says, more = {}) =>
svg("text", { x, y, "text-anchor": "middle", ...more }, says);
const tag = { style: "font-size: 13px" };
const small = { style: `${tag.style}; fill: var(--soft)` };
const picture = (high, label) => svg("svg", { width: room, height: high, role: "img",
viewBox: `0 0 ${room} ${high}`, style: "height: auto", "aria-label": label });
const name = wide ? 62 : 53, below = wide ? 48 : 62;
const high = wide ? 74 : 62, head = 22, gap = 24;
const tallest = head + (high + gap) * width;
const under = 54, tall = (tallest - under - 4) / n, thick = Math.min(tall - 6, 34);
const own = width + v[0].length, apart = wide ? 10 : 5;
const cell = Math.min(44, (room - name - apart - (wide ? 70 : 30)) / own);
const cache = picture(tallest + below + 8,
"The cache: a key and a value of each token so far");
const leftOf = (c) => name + cell * c + (c < width ? 0 : apart);
const scoreAt = leftOf(own) + (wide ? 34 : 16);
const looksOf = (sym) =>
({ rx: 2, fill: `var(--${sym})`, "fill-opacity": 0.22, stroke: `var(--${sym})` });
function queryCell(x, y, broad) {
const box = { x, y, width: broad, height: 26, ...looksOf("q"), "data-sym": "q" };
const node = text(x + broad / 2, y + 18, "", { "data-sym": "q" });
return { box: svg("rect", box), node };
}
const query = k[0].map((_, c) => queryCell(leftOf(c), 1, cell - 2));
cache.append(text(name - 10, 19, "query", { "data-sym": "q", "text-anchor": "end", ...tag }),
...query.flatMap(({ box, node }) => [box, node]),
text(leftOf(0) + cell * width / 2, 46, "key", { "data-sym": "k", ...tag }),
text(leftOf(width) + cell * (own - width) / 2, 46, "value", { "data-sym": "v", ...tag }),
text(scoreAt, 46, wide ? "q · k" : "q·k", { "data-sym": "w", ...tag }));
function stored(x, c, i) {
const [sym, y] = [c < width ? "k" : "v", under + tall * i];
return [svg("rect", { x: leftOf(c), y: y + (tall - thick) / 2,
width: cell - 2, height: thick, ...looksOf(sym) }),
text(leftOf(c) + cell / 2 - 1, y + tall / 2 + 5, short(x), { "data-sym": sym })];
}
const rows = all.map((i) => {
const y = under + tall * i;
const score = text(scoreAt, y + tall / 2 + 5, "", { "data-sym": "w" });
const numbers = [...k[i], ...v[i]].flatMap((x, c) => stored(x, c, i));
const token = text(name - (wide ? 10 : 6), y + tall / 2 + 5, tokens[i],
{ "text-anchor": "end" });
return { token, score, row: svg("g", {}, ...numbers, score) };
});
cache.append(...rows.flatMap(({ token, row }) => [token, row]));

function sumsOf(root, y, middles, broad) {
return middles.map((x, c) => {
const sym = c < v[0].length ? "v" : "w";
const across = { x: x - broad / 2, width: broad };
const box = { ...across, y: y + below - 31, height: 27, ...looksOf(sym), "data-sym": sym };
const close = wide ? "" : "; word-spacing: -3px; letter-spacing: -0.3px";
const terms = text(x, y + 13, "", { style: `font-size: 12px${close}` });
const total = text(x, y + below - 12, "", { "data-sym": sym,
style: `font-weight: 600; font-size: ${wide ? 17 : 12}px` });
root.append(svg("rect", box), terms, total);
return { terms, total, x };
});
}
const valueAt = v[0].map((_, c) => leftOf(width + c) + cell / 2 - 1);
cache.append(svg("path", { d: `M2 ${tallest + 2}H${Math.min(room, scoreAt + 44)}`,
stroke: "var(--soft)" }));
cache.append(text(name - 10, tallest + below - 14, "sum", { ...small, "text-anchor": "end" }));
function bracket(root, from, to) {
const y = tallest + below + 1;
root.append(svg("path", { d: `M${from} ${y}v6H${to}v-6`, fill: "none", stroke: "var(--soft)",
"stroke-width": 1.5 }));
}
bracket(cache, valueAt[0] - cell / 2 + 1, scoreAt + cell / 2 - 1);
const fromCache = sumsOf(cache, tallest, [...valueAt, scoreAt], cell - 2);

const piles = k[0].flatMap((_, r) => columns.map((c) => products.map((one) => one[r][c])));
const aside = wide ? name : 44;
const step = Math.min(88, (room - aside) / columns.length);
const board = picture(tallest + below + 8,
"The state: what all tokens so far have added");
const topOf = (r) => head + (high + gap) * r + 4;
const middleOf = (c) => aside + step * (c + 0.5);
columns.forEach((c) => board.append(c < v[0].length
? text(middleOf(c), 14, `${wide ? "value " : "v"}${c}`, { "data-sym": "v", ...tag })
: text(middleOf(c), 14, "1", small)));
const asked = k[0].map((_, r) => queryCell(aside - 42, topOf(r) + high / 2 - 24, 30));
k[0].forEach((_, r) => board.append(asked[r].box, asked[r].node,
text(aside - 10, topOf(r) + high / 2 + 20, `key ${r}`,
{ ...tag, "text-anchor": "end", "data-sym": "k" })));
const broad = step - (wide ? 8 : 3);
function numberOf(r, c) {
const box = { y: topOf(r), height: high };
const x = middleOf(c);
const [old, fresh] = [0.2, 0.5].map((shade) =>
svg("rect", { ...box, fill: "var(--neutral)", "fill-opacity": shade }));
const edge = svg("rect", { ...box, x: x - broad / 2, width: broad, rx: 2, fill: "none",
stroke: "var(--neutral)" });
const total = text(x, topOf(r) + high / 2 + 1, "",
{ style: `font-weight: 600; font-size: ${wide ? 20 : 17}px` });
board.append(old, fresh, edge, total);
return { old, fresh, total };
}
const cells = k[0].map((_, r) => columns.map((c) => numberOf(r, c)));
board.append(text(wide ? 20 : 12, tallest + below - 12, "=",
{ style: `font-size: ${wide ? 20 : 17}px; font-weight: 600` }));
const each = Math.min(42, step - 4);
const fromState = sumsOf(board, tallest, columns.map(middleOf), each);
bracket(board, middleOf(0) - each / 2, middleOf(columns.length - 1) + each / 2);

const times = (r, c) => [[k[t][r], "k"], [ones[t][c], "v"]].flatMap(([x, hue], i) => [
...(i ? ["·"] : []), svg("tspan", { style: `fill: var(--ink-${hue})` }, short(x))]);
const underOf = (r) => topOf(r) + high / 2 + 16;
const pills = cells.map((row) => row.map(() => {
const factors = svg("text", { "text-anchor": "middle", y: 5, style: "font-size: 13px" });
const ground = svg("rect", { y: -9, height: 18, rx: 9, fill: "var(--paper)",
stroke: "var(--faint)" });
const node = svg("g", { class: "added" }, ground, factors);
board.append(node);
return { node, ground, factors };
}));
function load() {
pills.forEach((row, r) => row.forEach(({ ground, factors }, c) => {
set(factors, {}, t ? "+" : "", ...times(r, c));
const long = 7 + 7.5 * factors.textContent.length;
set(ground, { x: -long / 2, width: long });
}));
}
function carry(part) {
const y = under + tall * (t + 0.5);
pills.forEach((row, r) => row.forEach(({ node }, c) => {
const from = [leftOf(width) - apart / 2 - viewWidth + room, y];
const at = between(from, [middleOf(c), underOf(r)], part);
set(node, { transform: `translate(${at.map((x) => x.toFixed(1)).join(" ")})`,
visibility: part > 0 && products[t][r][c] ? null : "hidden" });
}));
}

const edge = wide ? 14 : 12, pitch = edge + 1.5;
const deep = wide ? 2 * pitch : 2 * pitch + 20;
const line = () => el("div", { style: `height: ${deep}px; margin-bottom: 4px; display: flex; `
+ "flex-wrap: wrap; align-items: center; gap: 0 8px; font-size: 13px; line-height: 20px; "
+ "white-space: nowrap; font-variant-numeric: tabular-nums" });
const count = { cache: line(), state: line() };
const inCache = (i) => {
const [token, c] = [Math.floor(i / own), i % own];
const [row, at] = c < width ? [0, c] : [1, c - width];
return [pitch * (at + token * Math.max(width, own - width)) + 3 * token, row, "kv"[row]];
};
const inState = (i) =>
[pitch * (i % columns.length), Math.floor(i / columns.length), "neutral"];
function squares(many, place) {
const parts = Array.from({ length: many }, (_, i) => place(i));
const across = Math.max(...parts.map(([x]) => x)) + edge;
const size = { width: across, height: pitch * Math.max(2, ...parts.map(([, r]) => r + 1)) };
return svg("svg", { ...size, "aria-hidden": true }, ...parts.map(([x, r, hue]) =>
svg("rect", { x, y: pitch * r, width: edge, height: edge, rx: 2, fill: `var(--${hue})` })));
}
const title = (says, more) => el("div", {}, el("b", {}, says), ` ${more}`);
const legend = set(legendOf([wash("neutral", 50), "new"], [wash("neutral", 20), "before"]),
{ style: "display: flex; gap: 12px; margin: 0; font-size: 13px" });
const named = (...parts) => el("div", { style: "display: flex; flex-wrap: wrap; "
+ `align-items: center; align-content: flex-start; `
+ `justify-content: space-between; height: ${wide ? 28 : 48}px` }, ...parts);
const panel = (...parts) => el("div", { style: `flex: 0 1 ${room}px; min-width: 0` }, ...parts);

const ends = [[valueAt[0], scoreAt], [middleOf(0), middleOf(columns.length - 1)]]
.map((across) => sum(across) / 2);
const bothSums = () => el("div", { "aria-hidden": true, style: "height: 9px; "
+ "border: 1.5px solid var(--soft); border-top: none; "
+ `margin: 0 ${room - ends[1]}px 0 ${ends[0]}px` });

const move = motion();
function showNumber(r, c, grown) {
const pile = piles[r * columns.length + c];
const [before, added] = [sum(pile.slice(0, t)), pile[t]];
const [a, b] = [Math.abs(before), grown * Math.abs(added)];
const part = a + b ? broad * a / (a + b) : broad;
const { old, fresh, total } = cells[r][c];
const x = middleOf(c) - broad / 2;
set(old, { x, width: part, visibility: a ? null : "hidden" });
set(fresh, { x: x + part, width: broad - part });
total.textContent = t || grown === 1 ? whole(before + (grown < 1 ? 0 : added)) : "";
}
function place(come, carried, grown) {
all.forEach((i) => {
const [here, late] = [i <= t, i === t ? 1 - come : 0];
set(rows[i].row, { visibility: here ? null : "hidden",
transform: `translate(${(24 * late).toFixed(1)} 0)`, opacity: 1 - late });
});
cells.forEach((row, r) => row.forEach((_, c) => showNumber(r, c, grown)));
carry(carried);
for (const { terms, total } of [...fromCache, ...fromState]) {
for (const node of [terms, total]) set(node, { opacity: grown < 1 ? 0 : 1 });
}
}
function come(now) {
say(`“${tokens[t]}”: a row for the cache, products for the state.`);
move(300, (part) => place(part, 0, 0))
.then((on) => on && move(700, (part) => place(1, part, 0)))
.then((on) => on && move(300, (part) => place(1, 1, part)))
.then((on) => on && finish(now));
}
function paint(now) {
all.forEach((i) => {
const style = i === t ? "font-weight: 600" : i > t ? "opacity: 0.55" : "";
set(rows[i].token, { style: `font-size: ${wide ? 14 : 12.5}px; ${style}` });
const frame = { "stroke-width": i === t ? 2.5 : 1 };
for (const box of rows[i].row.querySelectorAll("rect")) set(box, frame);
rows[i].score.textContent = i > t ? "" : whole(now.scores[i]);
});
for (const numbers of [query, asked]) {
numbers.forEach(({ node }, r) => { node.textContent = short(q[t][r]); });
}
}
const weighed = (x, y) => [svg("tspan", { "data-sym": "q", style: "fill: var(--ink-q); "
+ "font-weight: 600" }, short(x)), `·${whole(y)}`];
function showSums({ sums, S }) {
fromCache.forEach(({ total }, c) => { total.textContent = whole(sums.cache[c]); });
fromState.forEach(({ terms, total, x: middle }, c) => {
const next = wide ? " + " : svg("tspan", { x: middle, dy: 14 }, " + ");
const parts = q[t].flatMap((x, r) => [...(r ? [next] : []), ...weighed(x, S[r][c])]);
set(terms, {}, ...parts);
total.textContent = whole(sums.state[c]);
});
}
function showCounts({ kept }) {
for (const name of ["cache", "state"]) {
const many = el("b", { style: "font-size: 24px" }, whole(kept[name]));
const held = squares(kept[name], name === "cache" ? inCache : inState);
const says = el("span", { style: wide ? "" : "order: 1" }, `numbers in the ${name}`);
set(count[name], {}, many, says, held);
}
}
function finish(now) {
const { sums, context } = now;
showSums(now);
const values = vector(sums.state.slice(0, -1), short);
say(`“${tokens[t]}”: ${values} ÷ ${whole(sums.state.at(-1))} = ${vector(context, short)}, `
+ "the\u00a0context,\u00a0both\u00a0ways");
}
function show(moves) {
const now = compute();
paint(now);
load();
showCounts(now);
if (moves) return come(now);
move(0, () => place(1, 1, 1));
finish(now);
}
function go(i) {
const further = i > t;
t = i;
range.move(t + 1);
show(further);
}
const range = slider("Tokens so far", { min: 1, max: n, step: 1, value: t + 1, text: whole,
input: (x) => { play.stop(); go(x - 1); } });
const play = player({ at: () => t, last: () => n - 1, go, ms: () => 2600 });
range.querySelector("input").style.width = "min(11rem, 0.26 * var(--window))";
const steered = el("div", { class: "row", style: "margin: 0" }, play.node, range);
set(said, { style: `min-height: ${wide ? 1.4 : 2.8}em; margin: 4px 0 8px; max-width: none; `
+ "text-align: center; font-weight: 600; "
+ `padding-left: ${wide ? sum(ends) - room : 0}px` });
view.append(
set(steered, { style: "margin: 0 0 8px" }),
el("div", { style: "display: flex; gap: 12px; justify-content: space-between" },
panel(count.cache, named(title("Scores first", "(q kᵀ) v")), cache),
panel(count.state, named(title("Values first", "q (kᵀ v)"), legend), board)),
bothSums(), said);
show(false);
expose(() => ({ step: t, ...compute() }));
}
for (const figure of document.querySelectorAll("figure[data-drawing=state_steps]")) begin(figure, draw);
})();
