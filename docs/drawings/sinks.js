(() => {
function draw(stage) {
const { view, viewWidth, data, svg, set, clamp, mix, softmax, sum, number, listed } = stage;
const { vector, percent, said, say, choices, handle, expose } = stage;
const { tokens, v, columns, modes, reach } = data;
const n = tokens.length;
const scores = [...data.scores, data.sink];
const wide = viewWidth >= 600;
let mode = data.mode;
let state;

function compute() {
const open = [...tokens.map(() => true), modes[mode].sink];
const weights = softmax(scores.map((s, i) => (open[i] ? s : -Infinity)));
const context = mix(weights.slice(0, n), v);
const full = mix(softmax(scores.slice(0, n)), v);
return { open, weights, context, full, kept: sum(weights.slice(0, n)) };
}

const whole = (x) => number(x, 0);

const width = Math.max(342, Math.min(viewWidth, 720)), apart = wide ? 40 : 24;
const tight = Math.min(136, Math.floor((width - apart) / (n + 1 + v[0].length)));
const beside = tight >= 56;
const column = beside ? tight : width / (n + 1), thick = Math.min(104, Math.round(column - 16));
const across = column * (n + 1);
const unit = 10, spare = 12;
const zero = 40 + spare + reach * unit, low = zero + reach * unit + spare;
const roomy = column > 100;
const height = low + (beside ? (roomy ? 130 : 146) : 146 + 20 * v[0].length);
const root = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "group",
"aria-label": "Scores to drag, their weights, and the context" });
const text = (x, y, says, more = {}) =>
svg("text", { x, y, "text-anchor": "middle", "aria-hidden": true, ...more }, says);
const small = { style: "font-size: 13px; fill: var(--soft)" };
const left = { "text-anchor": "start" };
const line = (d, more = {}) => svg("path", { d, fill: "none", stroke: "var(--soft)", ...more });
root.append(line(`M0 ${zero}H${across}`, { stroke: "var(--faint)" }));
const keys = { ArrowUp: 0.5, ArrowRight: 0.5, ArrowDown: -0.5, ArrowLeft: -0.5,
Home: -Infinity, End: Infinity };
const names = [...tokens, "sink"];
const ofValue = { style: `font-size: ${wide ? 13 : 12}px` };
const upright = (x, more) => svg("rect", { x: x - thick / 2, width: thick, rx: 3, ...more });
function gripAt(x) {
const broad = Math.min(44, thick + 6), half = 7;
const [up, down] = [`M${x - 5} -1.5l5 -4l5 4`, `M${x - 5} 1.5l5 4l5 -4`];
const ring = svg("rect", { x: x - broad / 2 - 4, y: -half - 4, width: broad + 8,
height: 2 * half + 8, rx: half + 4, fill: "none", stroke: "var(--accent)",
"stroke-width": 2, visibility: "hidden" });
const node = svg("g", { class: "grip" }, ring,
svg("rect", { x: x - broad / 2, y: -half, width: broad, height: 2 * half, rx: half,
fill: "var(--control)" }),
svg("path", { d: up + down, fill: "none", stroke: "var(--paper)", "stroke-width": 2,
"stroke-linecap": "round", "stroke-linejoin": "round" }));
return { node, ring };
}
function knobOf(i, x) {
const move = (to) => {
scores[i] = Math.round(2 * clamp(to, -reach, reach)) / 2;
show();
};
const at = (_, y) => move((zero - y) / unit);
const knob = handle(root, `score of ${names[i]}`, { cx: x }, [-reach, reach], at, keys,
(by) => move(scores[i] + by));
Object.assign(knob.style, { cursor: "ns-resize", outlineColor: "transparent" });
return knob;
}
function ringed(knob, ring) {
const seen = (on) => () =>
set(ring, { visibility: on && knob.matches(":focus-visible") ? "visible" : "hidden" });
set(knob, { onfocus: seen(true), onblur: seen(false) });
}
const lines = (x, says, look) =>
svg("g", {}, ...says.map((line, i) => text(x, low + 20 + 15 * i, line, look)));
function valueOf(row) {
const says = vector(row, whole);
if (column > 8.5 * (says.length + 6)) return [`value ${says}`];
return n < 4 ? ["value", says] : [says];
}
const bars = names.map((name, i) => {
const x = column * (i + 0.5);
const label = text(x, 22, name, { style: `font-weight: 600; font-size: ${wide ? 14 : 13}px` });
const edge = i < n ? {} : { stroke: "var(--rose)", "stroke-dasharray": "4 3" };
const track = upright(x, { y: 40, height: low - 40, fill: "var(--faint)", opacity: 0.45 });
const bar = upright(x, { fill: "var(--neutral)", "fill-opacity": 0.6, ...edge });
const { node: dot, ring } = gripAt(x);
const value = text(x, 0, "", { class: "halo" });
const under = i < n ? set(lines(x, valueOf(v[i]), ofValue), { "data-sym": "v" })
: lines(x, column > 62 ? ["no value"] : ["no", "value"], small);
const node = svg("g", {}, label, track, bar, dot, value, under);
root.append(node);
const knob = knobOf(i, x);
ringed(knob, ring);
root.append(knob);
return { node, bar, dot, value, knob };
});
const below = low + 28;

const share = below + 34, tall = 44;
const bottom = share + tall + 36;
const most = Math.max(...v.flat().map(Math.abs));
root.append(text(0, share - 7, "weights: 1 in all", { ...small, ...left }));
const parts = names.map((_, i) => {
const token = i < n;
const colour = token ? "w" : "rose";
const rect = svg("rect", { y: share, height: tall, rx: 2, class: "moves",
fill: `var(--${colour})`, "fill-opacity": token ? 0.4 : 0.15,
stroke: `var(--${colour})`,
...(token ? { "data-sym": "w" } : { "stroke-dasharray": "4 3" }) });
const words = [18, 35].map((by) => text(0, share + by, "", { "pointer-events": "none" }));
root.append(rect);
return { rect, words };
});
const rest = text(0, share + tall + 19, "", { ...small, ...left });
root.append(...parts.flatMap(({ words }) => words), ...(beside ? [rest] : []));

const signed = v.flat().some((x) => x < 0);
const end = beside ? share + tall : width - 46;
const start = beside ? 50 : 76;
const half = (end - start) / (signed ? 2 : 1);
const middle = beside && !signed ? end : end - half;
const scale = half / most;
const corner = beside ? across + apart + (column - thick) / 2 : 0;
const without = text(beside ? corner + column * v[0].length - column + thick : 76,
beside ? (roomy ? 22 : height - 4) : bottom - 14,
"dashed: without a sink",
{ ...small, "text-anchor": beside ? "end" : "start" });
const axis = beside ? `M${across + apart} ${middle}H${across + apart + column * v[0].length}`
: `M${middle} ${bottom - 8}V${bottom + 36}`;
root.append(text(corner, beside ? 22 : bottom - 14, "context",
{ ...left, style: "font-weight: 600" }), without, line(axis));
const sums = v[0].map((_, j) => {
const x = across + apart + column * (j + 0.5) - thick / 2, y = bottom - 4 + 20 * j;
const at = beside ? { x, width: thick } : { y, height: 16 };
const look = { class: "moves", fill: "var(--v)", "fill-opacity": 0.45 };
const shares = tokens.map(() => svg("rect", { ...at, ...look, "data-sym": "v" }));
const words = tokens.map((token) => text(x + thick / 2, 0, beside ? token : "",
{ style: "font-size: 12px" }));
const mark = svg("rect", { class: "moves", fill: "currentColor",
...(beside ? { x: x - 4, width: thick + 8, height: 2 }
: { y: y - 1, width: 2, height: 18 }) });
const value = beside ? text(x + thick / 2, start - 6, "", { "data-sym": "v",
style: "font-size: 17px; font-weight: 600" })
: text(width, y + 13, "", { "text-anchor": "end", style: "font-size: 13px" });
const full = svg("rect", { ...at, class: "moves", fill: "none",
stroke: "var(--v)", "stroke-dasharray": "4 3" });
const track = svg("rect", beside ? { ...at, y: start, height: end - start, rx: 3 }
: { ...at, x: start, width: end - start, rx: 3 });
set(track, { fill: "var(--faint)", opacity: 0.45 });
const name = beside ? text(x + thick / 2, end + 19, columns[j], small)
: text(0, y + 13, columns[j], { ...small, ...left });
root.append(track, ...shares, full, ...words, mark, value, name);
return { shares, words, mark, full, value };
});

const wire = svg("path", { fill: "none", stroke: "var(--v)", "stroke-width": 1.5,
"stroke-linejoin": "round", class: "moves" });
const times = text(across + apart / 2 + 4, end + 20, `× ${whole(v[0][0])}`, { "data-sym": "v" });
if (beside) root.append(wire, times);
function showWire({ weights }) {
const [from, y] = [weights[0] * across / 2, middle - weights[0] * v[0][0] * scale / 2];
const [turn, to] = [across + apart / 2, across + apart + (column - thick) / 2];
set(wire, { d: `M${from} ${end}V${end + 6}H${turn}V${y}H${to - 2}m-6 -4l6 4l-6 4` });
}

function showScore({ node, bar, dot, value, knob }, i, open) {
const s = scores[i];
const y = zero - unit * s;
const said = number(s, 1);
const shown = i < n ? (open ? 1 : 0.3) : open ? 1 : 0;
set(node, { opacity: shown });
set(bar, { y: Math.min(y, zero), height: Math.abs(y - zero) });
set(dot, { transform: `translate(0 ${y})` });
const [over, below] = [y - 22, y + 32];
const free = s < 0 ? below < low : over > 48;
set(value, { y: (s < 0) === free ? below : over });
value.textContent = said;
const visibility = shown ? "visible" : "hidden";
set(knob, { cy: y, "aria-valuenow": s, "aria-valuetext": said, visibility });
}
function showWeights({ weights }) {
let x = 0;
const narrow = [];
parts.forEach(({ rect, words }, i) => {
const long = weights[i] * across;
set(rect, { x, width: Math.max(0, long - 1), opacity: long > 1 ? 1 : 0 });
const fits = long > 8.2 * Math.max(names[i].length, 4);
[names[i], percent(weights[i])].forEach((says, j) => {
set(words[j], { x: x + long / 2 });
words[j].textContent = fits ? says : "";
});
if (weights[i] && !fits) narrow.push(i);
x += long;
});
const part = percent(sum(narrow.map((i) => weights[i])));
rest.textContent = narrow.length ? `${listed(narrow, (i) => names[i])}: ${part}` : "";
}
const placed = (from, to) => {
const [low, high] = [Math.min(from, to) * scale, Math.max(from, to) * scale];
return beside ? { y: middle - high, height: high - low }
: { x: middle + low, width: high - low };
};
function stack(weights, j) {
const ends = { up: 0, down: 0 };
return tokens.map((_, i) => {
const adds = weights[i] * v[i][j];
const way = adds < 0 ? "down" : "up";
ends[way] += adds;
return [ends[way] - adds, ends[way]];
});
}
function showSum({ shares, words, mark, full, value }, j, { weights, context, full: all }) {
const end = context[j] * scale;
set(full, placed(0, all[j]));
set(mark, beside ? { y: middle - end - 1 } : { x: middle + end - 1 });
value.textContent = number(context[j]);
const lines = [end, all[j] * scale];
stack(weights, j).forEach(([from, to], i) => {
set(shares[i], { ...placed(from, to), stroke: "var(--paper)" });
const at = scale * (from + to) / 2;
const free = Math.abs(to - from) * scale > 16 && lines.every((y) => Math.abs(y - at) > 9);
set(words[i], { y: middle - at + 4, visibility: free ? "visible" : "hidden" });
});
}
function showContext(now) {
const differs = now.full.some((x, j) => Math.abs(x - now.context[j]) > 0.005);
const visibility = differs ? "visible" : "hidden";
set(without, { visibility });
sums.forEach((one, j) => {
set(one.full, { visibility });
showSum(one, j, now);
});
}
function explain({ open, weights, context, kept }) {
say((open[n] ? `The sink takes ${percent(weights[n])}; ${percent(kept)} is left for tokens.`
: "All the weight falls on tokens.") + ` The context is ${vector(context, number)}.`);
}
function show() {
const now = compute();
bars.forEach((bar, i) => showScore(bar, i, now.open[i]));
showWeights(now);
showContext(now);
showWire(now);
explain(now);
state = { mode: modes[mode].name, scores: [...scores], ...now };
}
const pick = choices("Where spare weight may go", modes.map(({ name }) => name), mode,
(i) => { mode = i; show(); });
set(said, { style: `min-height: ${wide ? 1.4 : 2.8}em; margin-top: ${beside ? 10 : 0}px` });
view.append(pick, root, said);
show();
expose(() => state);
}
for (const figure of document.querySelectorAll("figure[data-drawing=sinks]")) begin(figure, draw);
})();
