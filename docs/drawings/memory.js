(() => {
function draw(stage) {
const { view, viewWidth, data, el, svg, set, matmul, sum, number, plural, between } = stage;
const { clamp, vector, onkeys, keep, said, say, slider, legendOf, player, motion } = stage;
const { expose } = stage;
const { names, k, v, rules } = data;
const n = names.length;
const [d, e] = [k[0].length, v[0].length];
const wide = viewWidth >= 600;
const all = [...names.keys()];
const move = motion();
let t = data.written;
let asked = t - 1;
const rule = rules.length - 1;
let state;

const product = (key, value) => key.map((a) => value.map((b) => a * b));
const plus = (a, b) => a.map((row, i) => row.map((x, j) => x + b[i][j]));
const read = (key, S) => matmul([key], S)[0];
const minus = (a, b) => a.map((x, i) => x - b[i]);
function write(S, i, by) {
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
const high = wide ? 44 : 24;
const top = 26, left = 86;
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
const who = text(0, 16, "", { ...heading, "data-sym": "k" });
const tint = { fill: "var(--k)", "fill-opacity": 0.2, stroke: "var(--k)" };
const factors = k[0].map((_, i) => {
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
board.append(text(left, 16, `the state: ${d * e} numbers`, heading),
...cells.flatMap(({ tint, word }) => [tint, word]), who,
...factors.flatMap(({ parts }) => parts),
text(0, foot + 16, "read back", heading), ...got,
text(0, foot + 36, "value", { ...heading, "data-sym": "v" }), ...stored);
function showReading({ found }) {
const write = alike([found[asked]]);
got.forEach((one, j) => {
set(one, { opacity: 1 }).textContent = write(found[asked][j]);
});
}
function showAsked() {
who.textContent = `${names[asked]}’s key`;
factors.forEach(({ word }, row) => { word.textContent = short(k[asked][row]); });
stored.forEach((one, j) => { one.textContent = short(v[asked][j]); });
pairs.forEach(({ mark }, i) => set(mark, { visibility: i === asked ? null : "hidden" }));
set(spot, { height: line * t, "aria-valuemax": t, "aria-valuenow": asked + 1,
"aria-valuetext": names[asked] });
}

const [line, above] = [wide ? 27 : 22, 48];
const [atKey, atError] = [52, 106];
const list = set(fig(room, above + line * n), { role: "group" });
const ever = rules.flatMap((_, by) => all.flatMap((i) => compute(i + 1, by).errors));
const unit = (room - atError - 46) / Math.max(...ever);
const start = { "text-anchor": "start" };
const exactly = svg("tspan", { style: `font-size: ${wide ? 22 : 20}px; font-weight: 600` });
const named = (x, says, more) => text(x, 41, says, { style: soft, ...start, ...more });
const newest = svg("tspan", {}, ": the newest");
const bracket = svg("path", { fill: "none", stroke: "currentColor", "stroke-width": 1.5 });
list.append(set(text(0, 20, "", start), {}, exactly, " exact", newest), named(0, "pair"),
text(room, 20, "press a name", { class: "row", style: soft, "text-anchor": "end" }), bracket,
named(atKey, "key", { style: "font-size: 13px", "data-sym": "k" }),
named(atError, "how far off when read back"),
svg("path", { d: `M${atError} ${above}v${line * n}`, stroke: "var(--soft)" }));
function keyBars(key, middle) {
return key.map((x, j) => svg("rect", {
x: atKey + 8 * j, width: 6, y: x > 0 ? middle - 11 * x : middle,
height: Math.max(1, 11 * Math.abs(x)), fill: "var(--k)", "data-sym": "k" }));
}
const pairs = all.map((i) => {
const y = above + line * i, middle = y + line / 2;
const [up, thick] = rule ? [9, 11] : [7, 14];
const level = middle - up + thick / 2;
const name = text(4, level + 5, names[i], { style: "font-weight: 600", ...start });
const bar = svg("rect", { x: atError, y: middle - up, height: thick, rx: 2, class: "moves",
fill: "var(--rose)" });
const other = svg("rect", { x: atError, y: middle + 3, height: 5, rx: 1, fill: "var(--soft)",
opacity: 0.6, class: "moves", visibility: rule ? null : "hidden" });
const error = text(0, level + 5, "", start);
const mark = svg("rect", { y, width: room, height: line, rx: 4, fill: "var(--rest)" });
const node = svg("g", {}, mark, name, ...keyBars(k[i], level), bar, other, error);
list.append(node);
return { node, bar, other, error, mark };
});
const ways = { ArrowUp: -1, ArrowLeft: -1, ArrowDown: 1, ArrowRight: 1 };
const spot = svg("rect", { y: above, width: room, fill: "transparent", role: "slider",
tabindex: 0, "aria-label": "Pair that is read back", "aria-valuemin": 1, ...keep,
style: "cursor: pointer", onkeydown: onkeys(ways, (way) => ask(asked + way)),
onclick: (e) => {
const { top, height } = spot.getBoundingClientRect();
ask(Math.floor((e.clientY - top) / height * t));
} });
list.append(spot);
function showPair({ node, bar, other, error }, i, { errors }, besides) {
const here = i < t;
const [width, wide] = [errors, besides].map((of) => (here ? unit * of[i] : 0));
const exact = here && errors[i] < 1e-6;
set(node, { opacity: here ? 1 : 0.35 });
set(bar, { width: width.toFixed(1) });
set(other, { width: wide.toFixed(1) });
error.textContent = exact ? "0 ✓" : here ? number(errors[i], 1) : "";
set(error, { x: (atError + width + (width ? 8 : 4)).toFixed(1),
style: `font-size: ${rule ? 13 : 14}px; font-weight: ${exact ? 400 : 600}` });
}
function showPairs(now) {
const besides = compute(t, 0).errors;
pairs.forEach((pair, i) => showPair(pair, i, now, besides));
const exact = now.errors.filter((x) => x < 1e-6).length;
exactly.textContent = `${exact} of ${t}`;
const some = { visibility: exact && exact < t ? null : "hidden" };
const [from, to] = [t - exact, t].map((i) => above + line * i);
set(bracket, { ...some, d: `M98 ${from + 4}H94V${to - 4}H98` });
set(newest, some);
const told = now.errors.map((x, i) => `${names[i]} ${number(x, 1)}`).join(", ");
set(list, { "aria-label": `${exactly.textContent} are read back exactly. Errors: ${told}` });
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
explain(now);
}
function ask(i) {
play.stop();
asked = clamp(i, 0, t - 1);
const now = compute(t, rule);
showAsked();
move(0, () => settle(now));
const [read, value] = [now.found[asked], v[asked]].map((row) => vector(row, short));
say(`${names[asked]}’s key reads ${read}; the value is ${value}.`);
}
function explain(now) {
const others = rules.map((name, by) => [name, by]).filter(([, by]) => by !== rule)
.map(([name, by]) => `; by the ${name}, ${number(compute(t, by).mean, 1)}`);
say(`${plural(t, "pair")} in ${d * e} numbers: the mean error is ${number(now.mean, 1)}`
+ `${others.join("")}.`);
const after = `The state after ${plural(t, "pair")}, by the ${rules[rule]}, and what the last `
+ "one added";
set(board, { "aria-label": after });
}
function show(moves = false) {
const now = compute(t, rule);
asked = t - 1;
showAsked();
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
const play = player({ ...steps, first: data.written - 1, ms: () => 2400 });
const steered = el("div", { class: "row steered" }, play.node, range);
const grey = "color-mix(in srgb, var(--soft) 60%, transparent)";
const legend = rule ? [legendOf(["var(--rose)", rules[1]], [grey, rules[0]])] : [];
const over = el("div", { class: "row", style: "margin: 0 0 12px" }, steered, ...legend);
const both = el("div", { class: "beside", style: "gap: 8px 24px; align-items: start" },
board, list);
set(said, { style: `min-height: ${wide ? 1.4 : 2.8}em; margin-top: 10px` });
view.append(over, both, said);
show();
expose(() => ({ ...state, asked }));
}
for (const figure of document.querySelectorAll("figure[data-drawing=memory]")) begin(figure, draw);
})();
