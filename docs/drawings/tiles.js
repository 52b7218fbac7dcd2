(() => {
function draw({ view, viewWidth, data, el, svg, set, sum, number, plural, listed, raised, said,
say, choices, toggle, more, slider, player, motion, late, hatch, tabulate,
expose }) {
const { tokens, scores, values, sizes } = data;
const n = tokens.length;
const all = [...tokens.keys()];
const plain = (x) => String(x).replace("-", "−");
let size = sizes[data.chosen];
let causal = false;
let step = 1;

const hidden = (i, j) => causal && j > i;
function order() {
const tiles = [], skipped = [];
for (let i = 0; i < n; i += size) {
const last = Math.min(i + size, n) - 1;
for (let j = 0; j < n; j += size) (causal && j > last ? skipped : tiles).push([i, j]);
}
return { tiles, skipped };
}
const many = () => order().tiles.length;
const within = (start, k) => k >= start && k < start + size;
const current = () => order().tiles[step - 1];
const stepsOf = (i) =>
order().tiles.flatMap(([a], at) => (within(a, i) ? [at + 1] : []));
function history(i, until = step) {
let [m, l, acc] = [-Infinity, 0, 0];
const mine = order().tiles.slice(0, until).filter(([a]) => within(a, i));
return mine.map(([, b]) => {
const keys = all.filter((j) => within(b, j));
const seen = keys.map((j) => (hidden(i, j) ? -Infinity : scores[i][j]));
const next = Math.max(m, ...seen);
const rescale = m === -Infinity ? 0 : Math.exp(m - next);
const p = seen.map((s) => Math.exp(s - next));
const was = { m, l, acc };
const kept = { l: l * rescale, acc: acc * rescale };
l = kept.l + sum(p);
acc = kept.acc + p.reduce((x, y, at) => x + y * values[keys[at]], 0);
m = next;
return { rescale, was, kept, m, l, acc, context: acc / l };
});
}
const gap = ({ was, m }) => `${plain(was.m)}−${m < 0 ? `(${plain(m)})` : plain(m)}`;
const grown = ({ rescale }) => rescale > 0 && rescale < 1;
const last = (i) => history(i).at(-1);
const rows = () => all.filter((i) => within(current()[0], i));
const finished = (i) => step >= stepsOf(i).at(-1);
function begin() {
const at = history(data.query, many()).findIndex(grown);
step = stepsOf(data.query).at(at);
}
begin();

const phone = viewWidth < 600, slim = viewWidth < 345;
const unit = slim ? 19 : phone ? 21 : 20, left = phone ? 57 : 58, high = 58;
const wide = left + n * unit + (phone ? 53 : 60), low = high + n * unit + 2;
const x = (j) => left + j * unit;
const y = (i) => high + i * unit;
const small = "font-size: 13px", soft = `${small}; fill: var(--soft)`;
const bold = `${small}; font-weight: 600`;
const listing = tokens.map((token, j) => `${token} ${plain(values[j])}`).join(", ");
const root = svg("svg", { width: wide, height: low, viewBox: `0 0 ${wide} ${low}`, role: "img",
style: "flex: none",
"aria-label": "Query–key pairs: a row for each query, a column for each key. "
+ `One tile is framed. Values: ${listing}` });
const middle = { "text-anchor": "middle" };
const end = { "text-anchor": "end" };
const text = (x, y, says, more = {}) => svg("text", { x, y, style: small, ...more }, says);
const upright = (x, says, more) => svg("text", {
transform: `translate(${x} ${high - 6}) rotate(-90)`, style: small, ...more }, says);
const names = all.map((i) =>
text(left - 7, y(i) + unit / 2 + 5, tokens[i], { ...end, "data-sym": "q" }));
const tops = all.map((j) => upright(x(j) + unit / 2 + 4, tokens[j], { "data-sym": "k" }));
const cellAt = (i, j) => svg("rect", { x: x(j), y: y(i), width: unit, height: unit,
stroke: "var(--faint)", fill: "none", "pointer-events": "all", style: "cursor: pointer",
onclick: () => pick(i, j) });
const cells = all.map((i) => all.map((j) => cellAt(i, j)));
const beside = left + n * unit + (phone ? 27 : 31);
const written = all.map((i) =>
text(beside, y(i) + unit / 2 + 5, "", { ...middle, style: bold }));
const frame = svg("rect", { fill: "none", stroke: "var(--rose)", "stroke-width": 4, rx: 2,
"pointer-events": "none" });
const forbidden = hatch("tiles-forbidden");
root.append(forbidden.node, ...names, ...tops, ...cells.flat(), ...written,
text(beside, high - 6, "context", middle), frame);

const broad = phone ? viewWidth : viewWidth - wide - 16;
const [row, field] = phone ? [32, 60] : [38, 72];
const most = Math.max(...sizes);
const roof = 64, floor = roof + most * row;
const first = phone ? 75 : 78, column = first + field + (phone ? 36 : 52);
const bars = column + (phone ? 44 : 52), room = broad - bars - 62;
const box = svg("svg", { width: broad, height: floor + 32, role: "img",
viewBox: `0 0 ${broad} ${floor + 32}` });
box.append(svg("rect", { x: 1.5, y: 1.5, width: broad - 3, height: floor + 29, rx: 6,
fill: "none", stroke: "var(--rose)", "stroke-width": 3 }),
text(12, 20, "in fast memory", { style: bold }),
text(first - 24, roof - 9, "keys", { ...end, "data-sym": "k" }),
text(first - 24, floor + 20, "values", { ...end, "data-sym": "v" }),
text(column, roof - 25, "largest", { ...middle, style: soft }),
text(column, roof - 9, "score m", { ...middle, style: soft }),
text(bars, roof - 25, "sum of weights ℓ", { "data-sym": "w" }),
text(bars, roof - 9, slim ? "weights · v a" : "weights · values a", { "data-sym": "v" }));
const inside = svg("g", {});
box.append(inside);
const block = (x, y, width, height, hue, more = {}) => svg("rect", { x: x + 1, y: y + 1,
width: width - 2, height: height - 2, fill: `var(--${hue})`, "data-sym": hue, ...more });
function tint(i, j, m) {
const e = hidden(i, j) ? 0 : Math.exp(scores[i][j] - m);
return `color-mix(in srgb, var(--w) ${(55 * e).toFixed(1)}%, var(--paper))`;
}
function scoreAt(i, j, at, [w, h], m) {
const edge = { stroke: "var(--soft)", "stroke-width": 0.7 };
if (hidden(i, j)) return [block(...at, w, h, "w", { fill: forbidden.fill, ...edge })];
return [block(...at, w, h, "w", { fill: tint(i, j, m), ...edge }),
text(at[0] + w / 2, at[1] + h / 2 + 5, plain(scores[i][j]), middle)];
}
const queryAt = (i, keys, top, [w, h]) => [
text(first - 24, top + h / 2 + 5, tokens[i], { ...end, "data-sym": "q" }),
block(first - 20, top, 14, h, "q"),
...keys.flatMap((j, at) => scoreAt(i, j, [first + at * w, top], [w, h], last(i).m))];
function showBox([a, b]) {
const keys = all.filter((j) => within(b, j));
const cell = [field / size, (most * row) / size];
const across = (j) => [first + (j - b) * cell[0], cell[0]];
inside.replaceChildren(
...keys.map((j) => block(across(j)[0], roof - 20, across(j)[1], 14, "k")),
...rows().flatMap((i) => queryAt(i, keys, roof + (i - a) * cell[1], cell)),
...keys.flatMap((j) => [
block(across(j)[0], floor + 6, across(j)[1], 18, "v", { "fill-opacity": 0.25 }),
text(across(j)[0] + across(j)[1] / 2, floor + 20, plain(values[j]), {
...middle, "data-sym": "v", style: bold })]));
const count = rows().length * keys.length;
set(box, { "aria-label": `In fast memory: ${plural(count, "score")} of ${n * n}, and the `
+ "maximum, sum and accumulator of each query" });
}

function barOf(name, hue) {
const looks = { fill: `var(--${hue})`, "data-sym": hue };
const parts = [0.35, 0.85].map((opacity) =>
svg("rect", { ...looks, "fill-opacity": opacity, x: bars }));
const ghost = svg("rect", { fill: "none", stroke: "var(--soft)", "stroke-dasharray": "3 2",
x: bars });
return { name, parts, ghost, says: text(0, 0, "", { class: "sums" }) };
}
const lanes = Array.from({ length: most }, () => {
const m = text(column, 0, "", { ...middle, class: "max" });
const rescale = text(column, 0, "", middle);
const pair = [barOf("l", "w"), barOf("acc", "v")];
const node = svg("g", {}, m, rescale,
...pair.flatMap(({ parts, ghost, says }) => [...parts, ghost, says]));
return { node, m, rescale, pair };
});
box.append(...lanes.map(({ node }) => node));
function longest(name) {
return Math.max(1e-9, ...all.flatMap((i) => history(i, many()).map((one) =>
Math.abs(one[name]))));
}
function paint(bar, one, [top, tall], long, [shrunk, grew]) {
const { name, parts, ghost, says } = bar;
const [was, kept, all] = [one.was[name], one.kept[name], one[name]].map(long);
const pale = was + (kept - was) * shrunk;
set(parts[0], { y: top, height: tall, width: pale });
set(parts[1], { y: top, height: tall, x: bars + pale, width: Math.abs(all - kept) * grew });
set(ghost, { y: top + 0.5, height: tall - 1, width: was,
visibility: grown(one) ? "visible" : "hidden" });
const at = bars + Math.max(was, kept, all) + 6;
set(says, { x: at, y: top + tall / 2 + 5 }, number(one[name]));
}
function showLane({ node, m, rescale, pair }, i, k, f) {
set(node, { visibility: i == null ? "hidden" : "visible" });
if (i == null) return pair.forEach(({ ghost }) => set(ghost, { visibility: "hidden" }));
const one = last(i), high = (most * row) / size;
const top = roof + k * high, tall = Math.min(30, high / 2 - 4);
m.textContent = grown(one) ? `${plain(one.was.m)} → ${plain(one.m)}` : plain(one.m);
rescale.textContent = grown(one) ? `× ${number(one.rescale)}` : "";
const apart = high < 56 ? 8 : 11;
set(m, { y: top + high / 2 + 5 - (grown(one) ? apart : 0) });
set(rescale, { y: top + high / 2 + 6 + apart,
style: `font-size: ${high < 56 ? 14 : 17}px; font-weight: 600` });
pair.forEach((bar, at) => {
const most = longest(bar.name);
paint(bar, one, [top + high / 2 + (at ? 1 : -1 - tall), tall],
(part) => (room * Math.abs(part)) / most, f);
});
}
const signs = [
["before", { fill: "none", stroke: "var(--soft)", "stroke-dasharray": "3 2" }],
["kept", { fill: "var(--neutral)", "fill-opacity": 0.35 }],
["added", { fill: "var(--neutral)", "fill-opacity": 0.85 }]];
const from = phone ? [188, 122, 70] : [212, 138, 78];
const legend = signs.map(([says, look], i) => {
const x = broad - from[i];
return svg("g", {}, svg("rect", { x: x + 0.5, y: 9.5, width: 14, height: 11, ...look }),
text(x + 19, 20, says, { style: soft }));
});
box.append(...legend);
const showLegend = () => set(legend[0],
{ visibility: rows().some((i) => grown(last(i))) ? "visible" : "hidden" });
const shrink = motion();
const showLanes = () => shrink(700, (t) => {
const f = [Math.min(1, 2 * t), Math.max(0, 2 * t - 1)];
lanes.forEach((lane, k) => showLane(lane, rows()[k], k, f));
});
const bide = () => lanes.flatMap(({ pair }) => pair).forEach(({ says }) => late(says, 700));

const steps = slider("Tile", { min: 1, max: many(), step: 1, value: step,
text: (x) => `${number(x, 0)} of ${many()}`,
input: (to) => {
play.stop();
go(to);
} });
function go(to) {
step = to;
steps.move(step, many());
show();
}
function pick(i, j) {
const to = 1 + order().tiles.findIndex((tile) => holds(tile, i, j));
if (!to) return;
play.stop();
go(to);
}
function again(change) {
play.stop();
change();
begin();
go(step);
}
const pace = () => (many() > 20 ? 500 : 1100);
const play = player({ at: () => step, last: many, ms: pace, first: 1, go });

const holds = ([a, b], i, j) => within(a, i) && within(b, j);
function fillOf(i, j, { now, before, skipped }) {
if (holds(now, i, j)) return tint(i, j, last(i).m);
if (before.some((tile) => holds(tile, i, j))) return "var(--faint)";
const never = hidden(i, j) || skipped.some((tile) => holds(tile, i, j));
return never ? forbidden.fill : "none";
}
const glide = motion();
let at = null;
function slide([i, j]) {
const reach = (start) => unit * Math.min(size, n - start);
const to = { x: x(j), y: y(i), width: reach(j), height: reach(i) };
const from = at ?? to;
glide(300, (t) => {
at = Object.fromEntries(Object.keys(to).map((name) =>
[name, from[name] + (to[name] - from[name]) * t]));
set(frame, at);
});
}
function news() {
const more = rows().filter((i) => grown(last(i)));
const one = more.includes(data.query) ? data.query : more[0];
if (more.length) {
return `A larger score, ${plain(last(one).m)}: both sums of ${listed([tokens[one]])} are `
+ `multiplied by e${raised(gap(last(one)))} = ${number(last(one).rescale)}, then grow.`;
}
return stepsOf(rows()[0])[0] === step ? "The first keys of these queries."
: "No larger score: both sums only grow.";
}
function told({ tiles, skipped }) {
if (step === tiles.length) {
const left = skipped.length ? `, ${skipped.length} skipped` : "";
return `Done. ${tiles.length} tiles were computed${left}; `
+ `never more than ${plural(size * size, "score")} at once, of ${n * n}.`;
}
if (!finished(rows()[0])) return news();
const each = listed(rows(), (i) => `“${tokens[i]}” ${number(last(i).context)}`);
const where = rows().length < 3 ? each : "beside the matrix";
return `The last tile of these queries: a ÷ ℓ is the context, ${where}.`;
}
function show() {
const { tiles, skipped } = order();
const now = current();
const before = tiles.slice(0, step);
for (const i of all) {
for (const j of all) set(cells[i][j], { fill: fillOf(i, j, { now, before, skipped }) });
written[i].textContent = finished(i) ? number(last(i).context) : "";
}
const weight = (on) => ({ style: `${small}; font-weight: ${on ? 700 : 400}` });
names.forEach((name, i) => set(name, weight(within(now[0], i))));
tops.forEach((name, j) => set(name, weight(within(now[1], j))));
slide(now);
showBox(now);
showLanes();
bide();
showLegend();
say(told({ tiles, skipped }));
}

if (!phone) steps.querySelector("input").style.width = "9rem";
steps.lastChild.style.minWidth = "4.6em";
const sizing = choices("Tile size", sizes.map(String), data.chosen, (i) =>
again(() => { size = sizes[i]; }));
const masking = toggle("causal mask", false, (on) => again(() => { causal = on; }));
set(said, { style: `min-height: ${phone ? 4.2 : 1.4}em; margin-top: 4px` });
const inRow = (...parts) => el("div", { class: "row" }, ...parts);
const panel = el("div", { style: `flex: none; width: ${broad}px; max-width: 100%` }, box);
const picture = el("div", { class: "beside", style: "margin: 0; align-items: flex-start; "
+ `gap: 8px ${phone ? 0 : 16}px` }, root, panel);
const top = el("div", { class: "row steered", style: "margin-top: 0" }, play.node, steps);
view.append(top, picture, said,
more(inRow(el("span", {}, "Tile size"), sizing, masking)));
show();
const ended = (i) => history(i, many()).at(-1);
tabulate(() => ({ caption: "Each query after its last tile",
columns: ["max m", "sum ℓ", "acc a", "context a / ℓ"],
rows: all.map(ended).map(({ m, l, acc, context }, i) =>
[`${i + 1} ${tokens[i]}`, [m, l, acc, context]]) }));
expose(() => {
const { tiles, skipped } = order();
const each = rows().map((i) => {
const { m, l, context } = last(i);
return { query: i, m, l, context };
});
return { step, size, causal, tiles, skipped: skipped.length, queries: each };
});
}
for (const figure of document.querySelectorAll("figure[data-drawing=tiles]")) begin(figure, draw);
})();
