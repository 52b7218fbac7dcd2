(() => {
function draw({ view, viewWidth, data, el, svg, set, dot, matmul, softmax, mix, number, clamp,
between, said, say, toggle, motion, onkeys, tabulate, expose, keep }) {
const { tokens: names, features } = data;
const [plus, equals] = [10, 11];
const wide = viewWidth >= 600;
const roomy = wide ? "wide" : "narrow";
const size = viewWidth >= 900 ? "poster" : roomy;
const inset = size === "poster" ? 112 : 0;
const left = 2;
const [named, entry] = {
poster: [[106, 56], 36],
wide: [[102, 54], 23],
narrow: [[62, 40], 24],
}[size];
const widths = [...named, ...Array(10).fill(entry)];
const lefts = widths.map((_, i) => widths.slice(0, i).reduce((a, b) => a + b, inset + 0.5));
const width = lefts.at(-1) + widths.at(-1) + 0.5;
let { a, b } = data;
let attends = true;
let feeds = true;

const add = (x, y) => x.map((n, i) => n + y[i]);
function answerOf(vector) {
const probabilities = softmax(matmul([vector], data.lm_head)[0]);
const top = Math.max(...probabilities);
const best = probabilities.flatMap((p, i) => (p > top - 1e-6 ? [i] : []));
return { probabilities, answer: best.length === 1 ? best[0] : null };
}
function attended(x) {
const last = x.at(-1);
const [[q], k, v] = [matmul([last], data.W_q), matmul(x, data.W_k), matmul(x, data.W_v)];
const weights = softmax(k.map((key) => dot(q, key) / Math.sqrt(q.length)));
return { weights, context: matmul([mix(weights, v)], data.W_o)[0] };
}
function fed(vector) {
const ramps = add(matmul([vector], data.W_up)[0], data.b_up).map((n) => Math.max(0, n));
return matmul([ramps], data.W_down)[0];
}
function compute(a, b) {
const x = [a, plus, b, equals].map((id) => data.table[id]);
const last = x[3];
const none = last.map(() => 0);
const { weights, context } = attended(x);
const byAttention = attends ? context : none;
const middle = add(last, byAttention);
const byFeedForward = feeds ? fed(middle) : none;
const end = add(middle, byFeedForward);
const vectors = [last, byAttention, byFeedForward, end];
return { weights, mean: middle[3], vectors, ...answerOf(end) };
}
const digits = [...Array(10).keys()];
const right = () => digits.map((a) => digits.map((b) => compute(a, b).answer === (a + b) % 10));

const text = (x, y, says, more = {}) =>
svg("text", { x, y, "text-anchor": "middle", "aria-hidden": true, ...more }, says);
const top = wide ? 46 : 34;
const [first, apart] = { poster: [128, 36], wide: [120, 42], narrow: [102, 34] }[size];
const table = wide ? 56 : 48;
const thick = wide ? 22 : 17;
const heads = inset ? first : first + (wide ? 22 : 30);
const topOf = (r) => heads + 8 + apart * r + (r > 1 ? table : 0);
const nameOf = (r) => (inset ? topOf(r) + 16
: r ? topOf(r) - 5 : first);
const below = topOf(3) + thick;
const height = below + 4;
const root = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img" });
const step = { poster: 96, wide: 72, narrow: 62 }[size];
const box = 40;
const at = (i) => 24 + step * i;
function arcFrom(i) {
const high = top - (wide ? 20 : 14) - (wide ? 12 : 10) * (3 - i);
return `M${at(3)} ${top - 2}C${at(3)} ${high},${at(i)} ${high},${at(i)} ${top - 2}`;
}
function boxOf(i) {
const edge = i < 4 ? { stroke: "var(--soft)", "stroke-width": 1, "stroke-dasharray": null }
: { stroke: "var(--rose)", "stroke-width": 3, "stroke-dasharray": "5 3" };
return svg("rect", { x: at(i) - box / 2, y: top, width: box, height: 32, rx: 5, fill: "none",
...edge });
}
const tokens = [0, 1, 2, 3, 4].map((i) => ({
box: boxOf(i),
word: text(at(i), top + (i < 4 ? 22 : 24), "",
{ style: `font-size: ${i < 4 ? 17 : 22}px; font-weight: 600` }),
weight: text(at(i), top + 50, "", { "data-sym": "w" }),
arc: svg("path", { "data-sym": "w", fill: "none", stroke: "var(--w)", "stroke-linecap": "round",
d: arcFrom(i) }),
}));
root.append(...tokens.slice(0, 3).flatMap((t) => [t.arc, t.weight]),
...tokens.flatMap((t) => [t.box, t.word]),
text(at(4) - box / 2, top + 50, "last digit", { "text-anchor": "start" }));

const heading = { style: `font-size: ${wide ? 13 : 12}px; fill: var(--soft)` };
const title = (i, y, says) => text(lefts[i] + widths[i] / 2, y, says, heading);
const titles = features.slice(left).flatMap((name, i) => {
const cut = wide ? -1 : name.lastIndexOf(" ");
const last = title(i, heads, name.slice(cut + 1));
return cut < 0 ? [last] : [title(i, heads - 14, name.slice(0, cut)), last];
});
const owner = inset ? "state of “=”" : "";
root.append(...titles, text(0, heads, owner, { ...heading, "text-anchor": "start" }));
const begins = inset ? "begins with" : "the state of “=” begins with";
const labels = [begins, "+ attention", "+ feed-forward", "= at the end"];
const cellAt = (i, y) => ({
rect: svg("rect", { x: lefts[i], y, width: widths[i], height: thick,
class: "moves" }),
word: text(lefts[i] + widths[i] / 2, y + (wide ? 16 : 13), ""),
});
const strips = labels.map((name, r) => {
const style = r === 3 ? "font-weight: 600" : "";
const label = text(0, nameOf(r), name, { "text-anchor": "start", style });
const cells = widths.map((_, i) => cellAt(i, topOf(r)));
root.append(label, ...cells.flatMap((c) => [c.rect, c.word]));
return { label, cells };
});

const high = topOf(2) - table - (inset ? 0 : 14);
const line = wide ? 21 : 19;
const rowAt = (sum) => high + line * (sum < 10 ? 0.5 : 1.5) + (inset ? 2 : 0);
const columnAt = (sum) => lefts[2 + sum % 10];
const fine = { style: "font-size: 12px; fill: var(--soft)" };
const stops = Array.from({ length: 19 }, (_, sum) =>
text(columnAt(sum) + entry / 2, rowAt(sum) + 5, number(sum / 2, sum % 2), { class: "moves" }));
const lineName = (sum, says) =>
text(0, rowAt(sum) + 5, says, { ...fine, "text-anchor": "start" });
const known = svg("g", { class: "moves" }, lineName(0, "the digit of"), lineName(10, "each mean"),
...stops);
const fall = { width: entry - 2, fill: "var(--rose)", "fill-opacity": 0.14, class: "moves" };
const column = svg("rect", { ...fall, y: high, height: table });
const spare = inset ? 0 : 2;
const frame = svg("rect", { width: entry - 2 + 2 * spare, height: line - 2, rx: 4,
fill: "var(--paper)", stroke: "var(--rose)", "stroke-width": 2.5 });
const link = svg("path", { stroke: "var(--rose)", "stroke-width": 2, fill: "none" });
const struck = [0, 10].map((sum) => `M${lefts[2]} ${rowAt(sum)}H${width}`).join("");
const strikes = svg("path", { d: struck, stroke: "currentColor" });
root.append(column, link, frame, known, strikes);
const slide = motion();
let stands = [columnAt(a + b), rowAt(a + b)];
function point([x, y]) {
stands = [x, y];
const from = lefts[1] + widths[1] / 2;
set(frame, { x: x + 1 - spare, y: y - line / 2 + 1 });
set(column, { x: x + 1, y, height: topOf(2) - y });
set(link, { d: `M${from} ${topOf(1) + thick}V${y}H${lefts[2] - 5}m-6 -4l6 4l-6 4` });
}
function showStop(node, is) {
set(node, { style: `font-size: ${wide ? 13 : 12}px; `
+ (is ? "font-weight: 700" : "fill: var(--soft)") });
}
function showLookup({ mean }) {
const sum = Math.round(2 * mean);
const [from, to] = [stands, [columnAt(sum), rowAt(sum)]];
stops.forEach((stop, i) => showStop(stop, feeds && i === sum));
set(known, { opacity: feeds ? 1 : 0.65 });
for (const node of [frame, column, link]) {
set(node, { visibility: feeds ? "visible" : "hidden" });
}
set(strikes, { visibility: feeds ? "hidden" : "visible" });
slide(String(from) === String(to) ? 0 : 300, (t) => point(between(from, to, t)));
}

const side = wide ? 28 : viewWidth < 345 ? 17 : 18, edge = 20;
const whole = edge + 10 * side + 2;
const grid = svg("svg", { width: whole, height: whole, viewBox: `0 0 ${whole} ${whole}`,
role: "group" });
function choose(i, j) {
[a, b] = [i, j].map((digit) => clamp(digit, 0, 9));
show();
}
const ways = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
const cursor = svg("rect", { width: side, height: side, fill: "none", "pointer-events": "none",
class: "handle", style: "outline-offset: 1px", tabindex: 0, role: "slider",
"aria-valuemin": 0, "aria-valuemax": 99, ...keep,
"aria-label": "The sum, arrow keys change its digits",
onkeydown: onkeys(ways, ([down, right]) => choose(a + down, b + right)) });
const squares = digits.map((i) => digits.map((j) =>
svg("rect", { fill: "var(--neutral)", rx: 3, style: "cursor: pointer",
onclick: () => {
choose(i, j);
cursor.focus();
} })));
const small = { style: "font-size: 13px" };
const marks = digits.flatMap((i) => {
const middle = edge + side * i + side / 2;
return [text(middle, 14, i, small), text(10, middle + 5, i, small)];
});
grid.append(...marks, ...squares.flat(), cursor);
const count = el("b", { "aria-live": "polite",
style: `display: block; font-size: ${wide ? 22 : 34}px; line-height: 1.2` });

const even = (n) => Math.abs(n - Math.round(n)) < 0.005;
const short = (n) => (Math.abs(n) < 0.005 ? "" : number(n, even(n) ? 0 : 1));
function showTokens(now) {
const words = [a, plus, b, equals].map((id) => names[id]);
const answer = now.answer === null ? "?" : names[now.answer];
[...words, answer].forEach((word, i) => { tokens[i].word.textContent = word; });
tokens.slice(0, 3).forEach((t, i) => {
const w = attends ? now.weights[i] : 0;
set(t.arc, { "stroke-width": 0.8 + 10 * w, opacity: attends ? 0.25 + 0.6 * w : 0 });
t.weight.textContent = attends ? `${Math.round(100 * w)}%` : "";
});
}
function showVectors(now) {
now.vectors.forEach((vector, r) => {
const off = r === 1 && !attends || r === 2 && !feeds;
set(strips[r].label, { opacity: off ? 0.65 : 1,
"text-decoration": off ? "line-through" : null });
vector.slice(left).forEach((n, i) => {
set(strips[r].cells[i].rect, { height: off ? 4 : thick });
showCell(strips[r].cells[i], short(n), r === 3 && i - 2 === now.answer);
});
});
}
function showCell({ rect, word }, says, isAnswer) {
word.textContent = says;
set(rect, { fill: says ? "var(--neutral)" : "none", "fill-opacity": 0.28,
stroke: `var(--${isAnswer ? "rose" : says ? "soft" : "rest"})`,
"stroke-width": isAnswer ? 3 : 1 });
}
function place(i, j, filled, flip) {
const gap = 2 + side / 4 * Math.sin(Math.PI * flip);
const long = side - 2 * gap;
const chosen = i === a && j === b;
set(squares[i][j], { x: edge + side * j + gap, y: edge + side * i + gap,
width: long, height: long, "fill-opacity": filled,
stroke: chosen ? "var(--rose)" : "var(--neutral)", "stroke-width": chosen ? 3.5 : 1 });
}
const wave = motion();
const far = 13;
let before = null;
function showSums(found) {
const from = before ?? found;
const changes = from.flat().some((was, n) => was !== found.flat()[n]);
before = found;
const showSquare = (i, j, t) => {
const [was, is] = [+from[i][j], found[i][j]];
const away = Math.hypot(i - a, j - b);
const flip = from[i][j] === is ? 1 : clamp(t * (far + 3) - away, 0, 3) / 3;
place(i, j, is ? Math.max(flip, was) : Math.min(1 - flip, was), flip);
};
wave(changes ? 900 : 0, (t) =>
digits.forEach((i) => digits.forEach((j) => showSquare(i, j, t))));
}
function mark({ node, tick }, on) {
tick.textContent = on ? "✓" : "✗";
set(node, { style: on ? null : "text-decoration: line-through" });
}
function verdict(answer) {
if (answer === null) return "No answer";
const digit = (a + b) % 10;
return `${names[answer]} is ${answer === digit ? "right" : `wrong, it should be ${digit}`}`;
}
function why() {
if (attends && feeds) {
return `attention brings the mean, ${short((a + b) / 2) || "0"}; `
+ "the feed-forward layer finds the digit.";
}
if (attends) return "the mean is there, but no part turns it into a digit.";
if (feeds) return "no digit has come to “=”, so the mean stays 0.";
return "nothing was added to the hidden state.";
}
let state;
function show() {
const now = compute(a, b);
const found = right();
const n = found.flat().filter(Boolean).length;
showTokens(now);
showVectors(now);
showLookup(now);
showSums(found);
set(cursor, { x: edge + side * b, y: edge + side * a, "aria-valuenow": 10 * a + b,
"aria-valuetext": `${a} + ${b}` });
mark(attention, attends);
mark(feedForward, feeds);
count.textContent = wide ? `${n} of 100 right` : n;
say(`${verdict(now.answer)}: ${why()}`);
set(root, { "aria-label": `The tokens ${a} + ${b} =, and the hidden state of “=”` });
set(grid, { "aria-label": `All hundred sums of two digits, ${n} right` });
state = { a, b, attends, feeds, ...now, right: found, count: n };
}
const after = (change) => (to) => {
change(to);
show();
};
function part(name, change) {
const tick = el("span", { "aria-hidden": true, style: "width: 1.2em; text-align: left" });
const node = toggle(name, true, after(change));
node.replaceChildren(tick, name);
return { node, tick };
}
const attention = part("Attention", (on) => { attends = on; });
const feedForward = part("Feed-forward layer", (on) => { feeds = on; });
const row = (style, ...nodes) => el("div", { class: "row", style }, ...nodes);
const parts = row("margin: 0 0 8px", attention.node, feedForward.node);
const sides = el("div", { style: "font-size: 13px; line-height: 1.3; color: var(--soft)" },
...["press a sum:", "first digit ↓", "second digit →"].map((says) =>
el(wide ? "span" : "div", { style: wide ? "margin-right: 10px" : null }, says)));
if (wide) {
set(said, { style: "min-height: 4.2em; margin-top: 8px" });
const model = el("div", { style: `flex: 0 1 ${width}px` }, parts, root);
const aside = el("div", { style: "flex: 1 1 302px; max-width: 302px" }, count, sides, grid,
said);
const apart = "align-items: flex-start; gap: 8px 24px; justify-content: space-between; "
+ "margin: 0";
view.append(el("div", { class: "beside", style: apart }, model, aside));
} else {
set(said, { style: "min-height: 2.8em; margin-top: 4px" });
const aside = el("div", { style: "flex: 1; display: grid; gap: 12px; align-content: "
+ "space-between; min-width: 0" }, el("div", {}, count, el("b", {}, "of 100 right")), sides);
const sums = el("div", { style: "display: flex; gap: 12px; margin-bottom: 6px" }, grid, aside);
view.append(parts, sums, root, said);
}
show();
const told = ["it begins with", "attention adds", "the feed-forward layer adds", "it ends with"];
tabulate(() => ({ caption: `The hidden state of “=” in ${state.a} + ${state.b} =`,
columns: features, digits: 1, rows: told.map((part, i) => [part, state.vectors[i]]) }));
expose(() => state);
}
for (const figure of document.querySelectorAll("figure[data-drawing=adder]")) begin(figure, draw);
})();
