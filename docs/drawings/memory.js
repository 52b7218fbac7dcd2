(() => {
function draw(stage) {
const { view, viewWidth, data, el, svg, set, matmul, sum, number, plural, between } = stage;
const { said, say, slider, choices, player, motion, expose } = stage;
const { names, k, v, rules } = data;
const n = names.length;
const [d, e] = [k[0].length, v[0].length];
const wide = viewWidth >= 600;
const all = [...names.keys()];
const move = motion();
let t = data.written;
let rule = 0;
let state;

const product = (key, value) => key.map((a) => value.map((b) => a * b));
const plus = (a, b) => a.map((row, i) => row.map((x, j) => x + b[i][j]));
const read = (key, S) => matmul([key], S)[0];
const minus = (a, b) => a.map((x, i) => x - b[i]);
function write(S, i, by = rule) {
const known = rules[by] === "delta rule" ? read(k[i], S) : v[i].map(() => 0);
return product(k[i], minus(v[i], known));
}
function compute(t, by) {
let S = k[0].map(() => v[0].map(() => 0));
let before = S;
let added = S;
for (let i = 0; i < t; i++) {
[before, added] = [S, write(S, i, by)];
S = plus(S, added);
}
const found = k.slice(0, t).map((key) => read(key, S));
const errors = found.map((row, i) => Math.sqrt(sum(minus(row, v[i]).map((x) => x * x))));
return { S, before, added, found, errors, mean: sum(errors) / Math.max(1, t) };
}
const whole = (x) => Math.abs(x - Math.round(x)) < 1e-9;
const alike = (rows) => (x) => number(x, rows.flat().every(whole) ? 0 : 1);
const short = (x) => number(x, whole(x) ? 0 : 1);

const text = (x, y, says, more = {}) =>
svg("text", { x, y, "aria-hidden": true, "text-anchor": "middle", ...more }, says);
const soft = "font-size: 13px; fill: var(--soft)";
const room = Math.min(viewWidth, 358);
const high = wide ? 42 : 22;
const top = 40, left = 52;
const broad = wide ? 330 : room;
const side = Math.floor((broad - left - 2) / e);
const foot = top + d * high + 8;
const tall = foot + 44;
const fig = (width, height) =>
svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img" });
const board = fig(broad, tall);
function cellAt(i, j) {
const [x, y] = [left + side * j, top + high * i];
const size = { x, y, width: side - 1, height: high - 1 };
const tint = svg("rect", { ...size, stroke: "var(--faint)", fill: "var(--neutral)" });
const more = { "text-anchor": "end", style: `font-size: ${wide ? 14 : 13}px` };
return { tint, word: text(x + side - 8, y + high / 2 + 5, "", more) };
}
const cells = k[0].flatMap((_, i) => v[0].map((_, j) => cellAt(i, j)));
function fill(numbers, write = alike(numbers)) {
numbers.flat().forEach((x, i) => {
set(cells[i].tint, { "fill-opacity": Math.min(0.5, Math.abs(x) / 12) });
cells[i].word.textContent = write(x);
});
}
function showAdded(added, write) {
added.flat().forEach((x, i) => {
const term = `${x < 0 ? " − " : " + "}${write(Math.abs(x))}`;
if (x) cells[i].word.append(svg("tspan", { style: "font-weight: 600" }, term));
});
}
const heading = { style: "font-weight: 600", "text-anchor": "start" };
const right = (j) => left + side * j + side - 8;
const columns = v[0].map((_, j) =>
text(right(j), 33, `v${j}`, { style: soft, "text-anchor": "end" }));
const who = text(0, 14, "", heading);
const tint = { fill: "var(--k)", "fill-opacity": 0.2, stroke: "var(--k)" };
const asked = k[0].map((_, i) => {
const size = { x: 1, y: top + high * i, width: left - 16, height: high - 1, rx: 2 };
const word = text(left - 17, top + high * i + high / 2 + 5, "",
{ "text-anchor": "end", "data-sym": "k", style: "font-size: 13px" });
const times = text(left - 8, top + high * i + high / 2 + 4, "×", { style: soft });
return { word, parts: [svg("rect", { ...size, ...tint, "data-sym": "k" }), times, word] };
});
const below = (y, more) => v[0].map((_, j) => text(right(j), y, "",
{ "text-anchor": "end", style: "font-weight: 600", ...more }));
const got = below(foot + 16, { class: "moves" });
const stored = below(foot + 36, { "data-sym": "v" });
board.append(text(left, 14, "the state S", heading), ...columns,
...cells.flatMap(({ tint, word }) => [tint, word]), who,
text(left - 17, 33, "key", { style: soft, "text-anchor": "end" }),
...asked.flatMap(({ parts }) => parts),
text(0, foot + 16, "read", heading), ...got,
text(0, foot + 36, "value", { ...heading, "data-sym": "v" }), ...stored);
function showReading({ found }) {
const write = alike([found[t - 1]]);
got.forEach((one, j) => {
set(one, { opacity: 1 }).textContent = write(found[t - 1][j]);
});
}
function showAsked() {
const i = t - 1;
who.textContent = names[i];
asked.forEach(({ word }, row) => { word.textContent = short(k[i][row]); });
stored.forEach((one, j) => { one.textContent = short(v[i][j]); });
}

const [row, thick] = wide ? [28, 20] : [22, 16];
const above = 48;
const [atKey, atValue, gap] = [40, 82, 14];
const list = fig(room, above + row * n);
const every = rules.flatMap((_, by) => all.map((i) => compute(i + 1, by)));
const reads = every.flatMap(({ found }) => found);
const spans = v[0].map((_, j) => {
const reached = [0, ...[...v, ...reads].map((row) => row[j])];
return [Math.min(...reached), Math.max(...reached)];
});
const unit = (room - 40 - gap * e - atValue) / sum(spans.map(([a, b]) => b - a));
let next = atValue;
const zeros = spans.map(([least, most]) => {
const zero = next - least * unit;
next = zero + most * unit + gap;
return zero;
});
const end = { "text-anchor": "end" }, start = { "text-anchor": "start" };
const looks = {
value: { height: thick, rx: 2, fill: "var(--v)", "fill-opacity": 0.55, "data-sym": "v" },
found: { r: wide ? 6 : 5, fill: "currentColor", stroke: "var(--paper)", "stroke-width": 1.5 },
off: { height: 5, fill: "var(--rose)" },
};
const exactly = svg("tspan", { style: `font-size: ${wide ? 22 : 20}px; font-weight: 600` });
const count = set(text(0, 20, "", start), {}, exactly, " exact");
const named = (x, says, more) => text(room - x, 19, says, { style: "font-size: 13px", ...more });
const legend = [
svg("rect", { x: room - 214, y: 14 - thick / 2, width: 16, ...looks.value }),
named(193, "value", { ...start, "data-sym": "v" }),
svg("circle", { cx: room - 142, cy: 14, ...looks.found }), named(68, "read back", end),
svg("rect", { x: room - 58, y: 12, width: 14, ...looks.off }), named(4, "error", end)];
list.append(count, ...legend, text(atKey + 15, 41, "key", { style: soft }));
v[0].forEach((_, j) => list.append(text(zeros[j], 41, `v${j}`, { style: soft }),
svg("path", { d: `M${zeros[j]} ${above}v${row * n}`, stroke: "var(--faint)" })));
function keyBars(key, middle) {
return key.map((x, j) => svg("rect", {
x: atKey + 8 * j, width: 6, y: x > 0 ? middle - 11 * x : middle,
height: Math.max(1, 11 * Math.abs(x)), fill: "var(--k)", "data-sym": "k" }));
}
const from = (j, x) => ({ x: (zeros[j] + unit * Math.min(0, x)).toFixed(1),
width: (unit * Math.abs(x)).toFixed(1) });
const pairs = all.map((i) => {
const y = above + row * i, middle = y + row / 2;
const bold = { style: "font-weight: 600", ...start };
const name = text(4, middle + 5, names[i], bold);
const error = text(room - 4, middle + 5, "", { style: "font-size: 13px", ...end });
const values = v[i].map((x, j) =>
svg("rect", { ...from(j, x), y: middle - thick / 2, ...looks.value }));
const offs = v[i].map(() =>
svg("rect", { y: middle - 2.5, ...looks.off, class: "moves" }));
const founds = v[i].map(() => svg("circle", { cy: middle, ...looks.found, class: "moves" }));
const mark = svg("rect", { y, width: room, height: row, rx: 4, fill: "var(--rest)" });
const parts = [...keyBars(k[i], middle), ...values, ...offs, ...founds, error];
const node = svg("g", {}, mark, name, ...parts);
list.append(node);
return { node, founds, offs, error, mark };
});
function showPair({ node, founds, offs, error }, i, now) {
const here = i < t;
const found = here ? now.found[i] : v[i];
const far = here ? now.errors[i] : 0;
const at = (j, x) => zeros[j] + unit * x;
set(node, { opacity: here ? 1 : 0.35 });
founds.forEach((dot, j) => {
set(dot, { cx: at(j, found[j]).toFixed(1), opacity: here ? 1 : 0 });
const [from, to] = [found[j], v[i][j]].map((x) => at(j, x));
set(offs[j], { x: Math.min(from, to).toFixed(1), width: Math.abs(to - from).toFixed(1) });
});
const exact = far < 1e-6;
error.textContent = here ? number(far, exact ? 0 : 1) : "";
set(error, { style: exact ? soft : "font-size: 13px; font-weight: 600" });
}
function showPairs(now) {
pairs.forEach((pair, i) => showPair(pair, i, now));
exactly.textContent = `${now.errors.filter((x) => x < 1e-6).length} of ${t}`;
const told = now.errors.map((x, i) => `${names[i]} ${number(x, 1)}`).join(", ");
set(list, { "aria-label": `${exactly.textContent} are read back exactly. Errors: ${told}` });
}

const meansOf = rules.map((_, by) => all.map((i) => compute(i + 1, by).mean));
const most = Math.max(...meansOf.flat());
const [reach, over, margin] = [wide ? 72 : 50, 30, 30];
const floor = over + reach;
const plot = fig(room, floor + 20);
const spot = (i, mean) => [margin + (room - margin - 8) * (i + 0.5) / n,
floor - reach * mean / most];
const hues = ["var(--rose)", "var(--neutral)"];
function lineOf(means, by) {
const spots = means.map((mean, i) => spot(i, mean));
const pieces = spots.slice(1).map(([x, y], i) => svg("path", {
d: `M${spots[i]}L${x} ${y}`, pathLength: 1, stroke: hues[by], class: "moves" }));
const dots = spots.map(([cx, cy]) =>
svg("circle", { cx, cy, r: 4.5, fill: hues[by], class: "moves" }));
const value = svg("tspan", { style: "font-weight: 700" });
return { pieces, dots, value };
}
const lines = meansOf.map(lineOf);
const told = lines.flatMap(({ value }, by) => [
svg("circle", { cx: 92 + 134 * by, cy: 10, r: 4.5, fill: hues[by] }),
set(text(101 + 134 * by, 15, "", { ...start, style: "font-size: 13px" }),
{}, `${rules[by]} `, value)]);
const ticks = all.map((i) => text(spot(i, 0)[0], floor + 16, i + 1));
const level = (mean) => [
svg("path", { d: `M${margin} ${spot(0, mean)[1]}H${room - 4}`, stroke: "var(--faint)" }),
text(margin - 8, spot(0, mean)[1] + 5, number(mean, 0), { ...end, style: soft })];
plot.append(text(0, 15, "mean error", { ...start, style: "font-size: 13px; font-weight: 600" }),
...told, ...[0, Math.floor(most)].flatMap(level),
text(0, floor + 16, "pairs", { ...start, style: soft }), ...ticks,
...lines.flatMap(({ pieces, dots }) => [...pieces, ...dots]));
function showLine({ pieces, dots, value }, by) {
const broad = by === rule ? 3.5 : 2;
pieces.forEach((piece, i) => set(piece, { "stroke-width": broad,
style: `stroke-dasharray: 1 1; stroke-dashoffset: ${i + 1 < t ? 0 : 1}` }));
dots.forEach((dot, i) => set(dot, { opacity: i < t ? 1 : 0 }));
value.textContent = number(meansOf[by][t - 1], 1);
}
function showPlot() {
lines.forEach(showLine);
const now = "font-weight: 700; font-size: 13px";
ticks.forEach((tick, i) => set(tick, { style: i === t - 1 ? now : soft }));
const means = rules.map((name, by) =>
`${name} ${meansOf[by].slice(0, t).map((x) => number(x, 1)).join(", ")}`);
set(plot, { "aria-label": `Mean error by pairs written: ${means.join("; ")}` });
}

function writing(now) {
const form = alike([...now.before, ...now.S]);
const change = (share) => fill(between(now.before, now.S, share), form);
fill(now.before, form);
showAdded(now.added, form);
got.forEach((one) => set(one, { opacity: 0 }));
const what = rules[rule] === "delta rule" ? "key × (value − read)" : "key × value";
say(`${names[t - 1]}: ${what} is added to the state.`);
move(800, () => { }).then((on) => on && move(300, change))
.then((on) => on && settle(now));
}
function settle(now) {
fill(now.S);
showReading(now);
showPairs(now);
showPlot();
explain(now);
}
function explain(now) {
say(`${plural(t, "pair")} in ${d * e} numbers: the mean error is ${number(now.mean, 1)}.`);
const after = `The state after ${plural(t, "pair")}, by the ${rules[rule]}, and what the last `
+ "one added";
set(board, { "aria-label": after });
}
function show(moves = false) {
const now = compute(t);
showAsked();
pairs.forEach(({ mark }, i) => set(mark, { visibility: i === t - 1 ? null : "hidden" }));
if (moves) writing(now);
else move(0, () => settle(now));
state = { t, rule: rules[rule], ...now };
}
function go(to, moves) {
t = to;
range.move(t);
show(moves);
}
function moved(x) {
const on = x === t + 1;
play.stop();
t = x;
show(on);
}
const range = slider("Pairs written", { min: 1, max: n, step: 1, value: t,
text: (x) => `${x} of ${n}`, input: moved });
const steps = { at: () => t - 1, last: () => n - 1, go: (i) => go(i + 1, true) };
const play = player({ ...steps, ms: () => 2400 });
const ruled = choices("How a pair is written", rules, 0, (i) => { rule = i; show(); });
set(said, { style: `min-height: ${wide ? 2.8 : 1.4}em; margin-top: ${wide ? 12 : 0}px` });
const beside = "display: flex; flex-wrap: wrap; gap: 8px 24px; margin: 0 0 8px";
const steered = set(el("div", { class: "row steered" }, play.node, range),
{ style: "flex: none; margin: 8px 0 0" });
const written = el("div", { style: `width: ${broad}px; max-width: 100%` }, board, steered,
...(rules.length > 1 ? [set(ruled, { style: "margin: 8px 0 0" })] : []),
...(wide ? [said] : []));
const kept = el("div", { style: "display: grid; gap: 8px" }, list, plot);
view.append(el("div", { style: beside }, written, kept), ...(wide ? [] : [said]));
show();
expose(() => state);
}
for (const figure of document.querySelectorAll("figure[data-drawing=memory]")) begin(figure, draw);
})();
