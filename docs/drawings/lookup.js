(() => {
function draw(stage) {
const { view, viewWidth, data, el, svg, set, mix, between, number } = stage;
const { said, say, choices, player, byItself, motion, expose } = stage;
const { tokens, ids, known, table } = data;
const roomy = viewWidth >= 600;
const wide = table[0].length, [cell, high] = roomy ? [72, 34] : [30, 30];
const gap = 4, whole = roomy ? 716 : 356;
const [ofId, ofName, begin, thin, moved] = roomy ? [15, 33, 103, 26, 42] : [8, 17, 80, 18, 22];
const from = () => begin + (way ? moved : 0);
const to = whole - wide * cell - 1;
const line = (i) => 30 + i * (high + gap);
let chosen = 0;
let way = 0;
let multiplied = known.length;
const filled = tokens.map(() => false);
const top = Math.max(...table.flat().map(Math.abs));
const shade = (x) => Math.round(75 * Math.abs(x) / top);
const paint = (x) => `color-mix(in srgb, var(--neutral) ${shade(x)}%, transparent)`;
const text = (x, y, says, style = "", anchor = "middle") =>
svg("text", { x, y: y + high / 2 + 5, "text-anchor": anchor, style }, says);

function block(x, y) {
const size = { width: cell - 2, height: high, rx: 3 };
const boxes = table[0].map((_, j) =>
svg("rect", { x: x + j * cell, y, ...size, stroke: "var(--faint)" }));
const texts = table[0].map((_, j) => text(x + j * cell + cell / 2 - 1, y, ""));
const put = (j, fill, dashes, says) => {
set(boxes[j], { style: `fill: ${fill}`, "stroke-dasharray": dashes });
texts[j].textContent = says;
};
const digits = (n) => (n === 0 ? "0" : number(n, 1));
return {
node: svg("g", {}, ...boxes, ...texts),
write: (numbers) => numbers.forEach((n, j) => put(j, paint(n), null, digits(n))),
clear: () => boxes.forEach((_, j) => put(j, "none", "3 3", "")),
};
}
const foot = line(known.length) + 11;
const tall = foot + high + 3;
const apart = (foot - line(known.length - 1)) / (known.length - 1);
const rowAt = (i) => line(i) + (way ? 0 : i * apart);
const root = svg("svg", {
width: whole, height: tall, viewBox: `0 0 ${whole} ${tall}`, role: "img",
"aria-label": "The table, and the sentence that is made of its rows",
style: "font-variant-numeric: tabular-nums" });
const middle = wide * cell / 2;
const bold = "font-weight: 600";
const the = roomy ? "the " : "";
const head = [
text(ofId, 0, "id"),
text(begin + middle, 0, `${the}table`, bold),
text(to + middle, 0, `${the}sentence`, bold)];
const outline = { rx: 5, fill: "none", stroke: "var(--rose)", "stroke-width": 2 };
const around = { height: high + 4, ...outline };
const frames = known.map((_, i) => svg("rect", { x: 1, y: line(i) - 2, ...around }));
const marks = known.map((_, i) => text(ofId, line(i), i));
const word = (x, y, says, anchor) => text(x, y, says, roomy ? "" : "font-size: 13px", anchor);
const names = known.map((token, i) => word(ofName, line(i), token, "start"));
const chip = roomy ? 30 : 0;
const badges = (roomy ? tokens : []).map((_, i) => svg("g", {},
svg("rect", { x: to - 30, y: line(i) + 7, width: 22, height: high - 14, rx: 4, fill: "none",
stroke: "var(--soft)" }), text(to - 19, line(i), ids[i], "font-size: 13px")));
const spoken = tokens.map((token, i) => word(to - 8 - chip, line(i), token, "end"));
const left = known.map((_, i) => block(begin, line(i)));
const right = tokens.map((_, i) => block(to, line(i)));
const frame = svg("rect", { width: wide * cell + 2, height: high + 4, ...outline });
const copy = block(0, 0);
const ground = svg("rect", { x: -3, y: -2, width: wide * cell + 4, height: high + 4, rx: 4,
fill: "var(--paper)" });
const flying = svg("g", { visibility: "hidden" }, ground, copy.node);
const picked = block(begin + moved, foot);
const whose = text(begin + moved - 8, foot, "sum", bold, "end");
const under = svg("path", { stroke: "var(--soft)",
d: `M2 ${foot - 7}H${begin + moved + wide * cell}` });
const cells = known.map((_, i) => ({
box: svg("rect", { x: begin + 2, y: line(i), width: thin, height: high, rx: 3,
stroke: "var(--faint)" }),
digit: text(begin + 2 + thin / 2, line(i), ""),
times: text(begin + thin + 9, line(i), roomy ? "×" : ""),
}));
const hotName = text(begin + 2, 0, `one-hot × ${the}table`, bold, "start");
const oneHot = svg("g", {}, hotName,
...cells.flatMap(({ box, digit, times }) => [box, digit, times]));
const trail = svg("path", { fill: "none", stroke: "var(--rose)", "stroke-width": 2 });
const spreads = [];
function spread(node, i) {
const group = svg("g", { class: "moves" }, node);
spreads.push([group, i]);
return group;
}
const slides = svg("g", { class: "moves" }, head[1],
...left.map((row) => row.node).map(spread));
const rows = right.map((row) => row.node);
root.append(head[0], head[2], ...frames.map(spread), ...marks.map(spread), ...names.map(spread),
...spoken.map(spread), ...badges.map(spread), oneHot, slides, ...rows.map(spread),
picked.node, whose, under, frame,
...(roomy ? [trail] : []), flying);
const start = () => (way ? foot : rowAt(ids[chosen]));
function lead() {
const [x0, y0] = [from() + wide * cell + 6, start() + high / 2];
const word = spoken[chosen].getComputedTextLength();
const [x, y] = [to - 8 - chip - word - 8, rowAt(chosen) + high / 2];
const middle = (x0 + x) / 2;
set(trail, { d: `M${x0} ${y0}C${middle} ${y0},${middle} ${y},${x} ${y}m-8 -5l8 5l-8 5` });
}

let near = -1;
function light() {
const id = ids[chosen];
known.forEach((_, i) => {
const lit = i === id || i === near;
marks[i].style.fontWeight = names[i].style.fontWeight = lit ? 700 : 400;
set(frames[i], {
width: from() + wide * cell - 2,
visibility: lit ? "visible" : "hidden",
"stroke-dasharray": i === id ? null : "5 3" });
});
tokens.forEach((_, i) => {
spoken[i].style.fontWeight = i === chosen || ids[i] === near ? 700 : 400;
});
}
function lights(id, ...nodes) {
for (const node of nodes) {
node.addEventListener("pointerenter", (e) => {
if (e.pointerType !== "mouse") return;
near = id;
light();
});
node.addEventListener("pointerleave", () => {
near = -1;
light();
});
}
}

function now() {
const hot = known.map((_, i) => +(i === ids[chosen]));
const products = table.map((row, i) => row.map((x) => x * hot[i]));
return { hot, products, row: way ? mix(hot, table) : table[ids[chosen]] };
}
function show() {
const { hot, products } = now();
picked.write(mix(hot.map((x, i) => (i < multiplied ? x : 0)), table));
for (const node of [picked.node, whose, under, oneHot]) {
set(node, { visibility: way ? "visible" : "hidden" });
}
set(head[1], { opacity: way ? 0 : 1 });
set(slides, { style: `transform: translate(${from() - begin}px)` });
for (const [group, i] of spreads) {
set(group, { style: `transform: translate(0, ${(rowAt(i) - line(i)).toFixed(1)}px)` });
}
known.forEach((_, i) => {
cells[i].digit.textContent = hot[i];
set(cells[i].box, { style: `fill: ${hot[i] ? paint(top) : "none"}` });
left[i].write(way && i < multiplied ? products[i] : table[i]);
});
light();
if (roomy) lead();
tokens.forEach((_, i) => {
if (filled[i]) right[i].write(table[ids[i]]);
else right[i].clear();
});
set(frame, { x: to - 2, y: rowAt(chosen) - 2 });
}
function tell(id, word, row) {
const list = `(${row.map((x) => number(x, 1)).join(", ")})`;
say(way
? `1 × row ${id} + 0 × the others: only the row of “${word}”, ${list}, is left.`
: `“${word}” has the id ${id}: row ${id}, ${list}, is copied to its position.`);
}
const fly = motion();
async function look() {
const { row } = now();
const position = chosen;
const id = ids[position];
tell(id, tokens[position], row);
filled[position] = false;
multiplied = known.length;
show();
copy.write(row);
set(trail, { visibility: "hidden" });
set(flying, { visibility: "visible" });
const arrived = await fly(650, (t) => {
const x = between(from(), to, t), y = between(start(), rowAt(position), t);
set(flying, { transform: `translate(${x} ${y})` });
});
filled[position] = true;
if (!arrived) return;
set(flying, { visibility: "hidden" });
set(trail, { visibility: "visible" });
show();
}
async function multiply() {
way = 1;
ways.querySelectorAll("input")[way].checked = true;
filled[chosen] = false;
for (const node of [flying, trail]) set(node, { visibility: "hidden" });
say("Each row × its number of the one-hot vector …");
const arrived = await fly(400 * known.length, (t) => {
multiplied = Math.floor(t * known.length);
show();
});
if (arrived) look();
}
function choose(change) {
all.stop();
step = tokens.length;
change();
}
const picks = choices("Word of the sentence", tokens, chosen,
(i) => choose(() => { chosen = i; look(); }));
if (viewWidth < 345) for (const label of picks.children) label.style.paddingInline = "6px";
const ways = choices("How", ["look up", "multiply"], way,
(i) => choose(() => { way = i; (way ? multiply : look)(); }));
function go(i) {
step = i;
if (i === tokens.length) return multiply();
if (!i) filled.fill(false);
chosen = i;
picks.querySelectorAll("input")[i].checked = true;
way = 0;
ways.querySelectorAll("input")[way].checked = true;
look();
}
let step = 0;
const all = player({ at: () => step, last: () => tokens.length, ms: () => 900, go });
known.forEach((_, i) => lights(i, marks[i], names[i], left[i].node));
tokens.forEach((_, i) => {
lights(ids[i], spoken[i], right[i].node, picks.children[i]);
});
set(said, { style: `min-height: ${roomy ? 1.4 : 2.8}em; margin-top: 0.5rem` });
view.append(
el("div", { class: "row", style: "margin-top: 0" }, picks,
el("div", { class: "row" }, ways, all.node)),
root, said);
look();
byItself(all);
expose(() => ({ near, word: tokens[chosen], filled: [...filled], ...now() }));
}
for (const figure of document.querySelectorAll("figure[data-drawing=lookup]")) begin(figure, draw);
})();
