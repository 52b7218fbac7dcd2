(() => {
function draw({ view, viewWidth, data, el, svg, set, dot, matmul, softmax, mix, number, clamp,
said, say, toggle, motion, onkeys, expose, keep }) {
const { tokens: names, features } = data;
const [plus, equals] = [10, 11];
const wide = viewWidth >= 600;
const roomy = wide ? "wide" : "narrow";
const size = viewWidth >= 900 ? "poster" : roomy;
const inset = size === "poster" ? 112 : 0;
const [named, entry] = {
poster: [[64, 44, 74, 52], 29],
wide: [[58, 38, 66, 44], 18],
narrow: [[52, 34, 60, 40], 16],
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
const between = add(last, byAttention);
const byFeedForward = feeds ? fed(between) : none;
const end = add(between, byFeedForward);
const vectors = [last, byAttention, byFeedForward, end];
return { weights, mean: between[3], vectors, ...answerOf(end) };
}
const digits = [...Array(10).keys()];
const right = () => digits.map((a) => digits.map((b) => compute(a, b).answer === (a + b) % 10));

const text = (x, y, says, more = {}) =>
svg("text", { x, y, "text-anchor": "middle", "aria-hidden": true, ...more }, says);
const top = wide ? 46 : 34;
const [first, apart] = { poster: [128, 36], wide: [120, 42], narrow: [102, 34] }[size];
const table = wide ? 64 : 54;
const thick = wide ? 22 : 17;
const heads = inset ? first : first + (wide ? 32 : 30);
const topOf = (r) => heads + 6 + apart * r + (r > 1 ? table : 0);
const nameOf = (r) => (inset ? topOf(r) + 16
: r ? topOf(r) - 5 - (r === 2 ? table : 0) : first);
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
const titles = features.flatMap((name, i) => {
const cut = name.lastIndexOf(" ");
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
const cells = features.map((_, i) => cellAt(i, topOf(r)));
root.append(label, ...cells.flatMap((c) => [c.rect, c.word]));
return { label, cells };
});

const high = topOf(2) - table - 5;
const [meansAt, axis, digitsAt, under] = [20, 27, 45, 52].map((y) => high + y);
const lead = inset || (wide ? 52 : 40);
const pitch = (width - lead) / 19;
const stopAt = (sum) => lead + pitch * (sum + 0.5);
const fine = { style: "font-size: 12px; fill: var(--soft)" };
const strong = "font-weight: 700; fill: currentColor";
const stops = Array.from({ length: 19 }, (_, sum) => ({
mean: text(stopAt(sum), meansAt, ""),
digit: text(stopAt(sum), digitsAt, sum % 10),
}));
const marker = svg("g", {}, svg("circle", { cy: axis, r: 4, fill: "var(--rose)" }),
svg("rect", { x: -9, y: digitsAt - 15, width: 18, height: 20, rx: 4, fill: "none",
stroke: "var(--rose)", "stroke-width": 2.5 }));
const link = svg("path", { stroke: "var(--rose)", "stroke-width": 2, fill: "none" });
const strikes = svg("path", { d: `M${inset} ${axis + 5}H${width}`, stroke: "currentColor" });
const lineName = (y, says) => text(inset ? lead - 8 : 0, y, says,
{ ...fine, "text-anchor": inset ? "end" : "start" });
const known = svg("g", {},
lineName(meansAt, "mean"), lineName(digitsAt, "digit"),
svg("path", { d: `M${lead} ${axis}H${width}`, stroke: "var(--faint)" }),
...stops.flatMap(({ mean, digit }) => [mean, digit]));
root.append(link, known, marker, strikes);
const slide = motion();
let stands = a + b;
function point(sum) {
stands = sum;
const x = stopAt(sum);
const entry = 4 + Math.round(sum) % 10;
const to = lefts[entry] + widths[entry] / 2;
const low = topOf(2);
set(marker, { transform: `translate(${x.toFixed(1)} 0)` });
set(link, { d: `M${x} ${under - 2}C${x} ${low},${to} ${under - 2},${to} ${low}` });
}
function showStop({ mean, digit }, sum, chosen) {
const near = Math.abs(sum - chosen);
const odd = sum % 2;
const there = near === 0 || (size === "poster" || !odd) && (near > 1 || size !== "narrow");
mean.textContent = there ? short(sum / 2) || "0" : "";
const bold = near ? "" : `; ${strong}`;
set(mean, { style: fine.style + bold });
set(digit, { style: `font-size: ${wide ? 14 : 13}px${bold}` });
}
function showLookup({ mean }) {
const sum = Math.round(2 * mean);
const from = stands;
stops.forEach((stop, i) => showStop(stop, i, sum));
set(known, { opacity: feeds ? 1 : 0.65 });
for (const node of [marker, link]) set(node, { visibility: feeds ? "visible" : "hidden" });
set(strikes, { visibility: feeds ? "hidden" : "visible" });
slide(from === sum ? 0 : 300, (t) => point(from + (sum - from) * t));
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
vector.forEach((n, i) => {
set(strips[r].cells[i].rect, { height: off ? 4 : thick });
showCell(strips[r].cells[i], short(n), r === 3 && i - 4 === now.answer);
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
const off = "text-decoration: line-through";
const strike = (node, on) => set(node, { style: on ? null : off });
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
strike(attention, attends);
strike(feedForward, feeds);
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
const attention = toggle("Attention", true, after((on) => { attends = on; }));
const feedForward = toggle("Feed-forward layer", true, after((on) => { feeds = on; }));
const row = (style, ...nodes) => el("div", { class: "row", style }, ...nodes);
const parts = row("margin: 0 0 8px", ...(wide ? ["Switch off:"] : []), attention, feedForward);
const sides = el("div", { style: "font-size: 13px; line-height: 1.3; color: var(--soft)" },
...["first digit ↓", "second digit →"].map((says) =>
el(wide ? "span" : "div", { style: wide ? "margin-right: 12px" : null }, says)));
if (wide) {
set(said, { style: "min-height: 4.2em; margin-top: 8px" });
const left = el("div", { style: `flex: 0 1 ${width}px` }, parts, root);
const aside = el("div", { style: "flex: 1 1 302px; max-width: 302px" }, count, sides, grid,
said);
const apart = "align-items: flex-start; gap: 8px 24px; justify-content: space-between; "
+ "margin: 0";
view.append(el("div", { class: "beside", style: apart }, left, aside));
} else {
set(said, { style: "min-height: 2.8em; margin-top: 4px" });
const aside = el("div", { style: "flex: 1; display: grid; gap: 12px; align-content: "
+ "space-between; min-width: 0" }, el("div", {}, count, el("b", {}, "of 100 right")), sides);
const sums = el("div", { style: "display: flex; gap: 12px; margin-bottom: 6px" }, grid, aside);
view.append(parts, sums, root, said);
}
show();
expose(() => state);
}
for (const figure of document.querySelectorAll("figure[data-drawing=adder]")) begin(figure, draw);
})();
