(() => {
function draw(stage) {
const { view, viewWidth, data, el, svg, set, dot, softmax, mix, between } = stage;
const { number, listed, said, say, choices, toggle } = stage;
const { player, byItself, motion, plane, tabulate, expose } = stage;
const { tokens, query, axes } = data;
const vectors = data.x.map((row) => [...row]);
const me = tokens.indexOf(query);
const old = vectors[me];
const here = tokens.map((token, i) => i === me || data.beside.includes(token));
const plain = (x) => String(+x.toFixed(2));
const pair = (vector, text = number) => `(${vector.map((x) => text(x)).join(", ")})`;
const MEAN = 2;
let step = MEAN;
let tip = old;
let fallen = 0;
const names = {};

const tight = viewWidth < 345;
const side = viewWidth < 600 ? 172 : 300;
const { root, at, arrow, drag } = plane(side, 3, 0);
const [width, height] = [side + 92, side + 44];
set(root, {
width, height, viewBox: `-72 -12 ${width} ${height}`, role: "group",
"aria-label": `The words by their ${axes[0]} and ${axes[1]}, and where “${query}” moves`,
style: "overflow: hidden" });
const [left, base] = at([0, 0]);
const soft = "fill: var(--soft)";
const write = (x, y, text, style, anchor = "start") =>
svg("text", { x, y, style, "text-anchor": anchor }, text);
root.append(write(left + 0.3 * side, base + 26, `${axes[0]} →`, soft, "middle"));
const upwards = `translate(${left - 12} ${base - side / 3}) rotate(-90)`;
root.append(svg("text", { transform: upwards, "text-anchor": "middle", style: soft },
`${axes[1]} →`));

const square = dot(old, old);
const markOf = (score) => old.map((x) => x * score / square);
const longest = square && 3 * square / Math.max(...old);
const [dx, dy] = old.map((x) => x / Math.sqrt(square || 1));
const besideMark = (score, far) => {
const [x, y] = at(markOf(score));
return [x - far * dy, y - far * dx];
};
const scale = [...Array(Math.ceil(longest)).keys()].slice(1);
const inked = "fill: var(--ink-q); font-size: 12px";
const marks = scale.map((score) => {
const [x, y] = besideMark(score, 13);
return [svg("path", { d: `M${at(markOf(score))}L${besideMark(score, 6)}`, stroke: "var(--q)" }),
score === scale.at(-1) ? write(x + 4, y + 4, `score ${score}`, inked, "end")
: write(x, y + 4, String(score), inked, "middle")];
});
const ruler = svg("g", { "data-sym": "q", "aria-hidden": true }, svg("path", {
d: `M${at([0, 0])}L${at(markOf(longest))}`, stroke: "var(--q)", "stroke-dasharray": "1 3" }),
...marks.flat());
const feet = tokens.map(() => ({
fall: svg("path", { stroke: "var(--soft)", "stroke-dasharray": "4 3" }),
foot: svg("circle", { r: 4, fill: "var(--k)", "data-sym": "k" }) }));
root.append(ruler, ...feet.map(({ fall }) => fall));
function showFoot({ fall, foot }, i) {
const mine = i === me;
const to = between(vectors[i], markOf(dot(old, vectors[i])), fallen);
const [cx, cy] = at(to);
const visibility = fallen && here[i] && !mine ? "visible" : "hidden";
set(fall, { d: `M${at(vectors[i])}L${at(to)}`, visibility });
set(foot, { cx, cy, visibility });
}

const string = { stroke: "var(--w)", opacity: 0.5, "stroke-linecap": "round" };
const strings = tokens.map(() => svg("path", { "data-sym": "w", ...string }));
const dots = tokens.map((word, i) => ({
mark: svg("circle", { "data-sym": "k", r: 6, "stroke-width": 2 }),
label: i === me ? "" : svg("text", { class: "halo", style: "font-weight: 600" }, word),
}));
const others = dots.filter((_, i) => i !== me);
root.append(...strings, ...others.flatMap(({ mark, label }) => [mark, label]),
...feet.map(({ foot }) => foot));
function placeDot({ mark }, i) {
const [cx, cy] = at(vectors[i]);
set(mark, { cx, cy });
}
const boxOf = (x, y, half, tall = 8) => [x - half, y - tall, x + half, y + tall];
const halfOf = (text) => 4.6 * text.length;
const overlap = (a, b) => a[0] < b[2] && a[2] > b[0] && a[1] < b[3] && a[3] > b[1];
const titles = [boxOf(left + 0.3 * side, base + 21, halfOf(`${axes[0]} →`)),
boxOf(left - 16, base - side / 3, 9, halfOf(`${axes[1]} →`))];
function placesOf(i) {
const [x, y] = at(vectors[i]);
const [right, up] = vectors[i];
const far = halfOf(tokens[i]) + 13;
const aslant = [-1, 1].flatMap((v) => [-1, 1].map((h) => [0.8 * h * far, 19 * v]));
const wanted = !up ? 0 : right && right < 2.4 ? 1 : 2;
const near = [[0, 21], [far, 0], [-far, 0], [0, -20], ...aslant];
return [1, 1.8].flatMap((times) => near.map(([dx, dy], k) =>
({ box: boxOf(x + times * dx, y + times * dy, far - 13),
far: 9 * (times - 1) + (k === wanted ? 0 : 2 + k / 4) })));
}
function costOf({ box, far }, taken, points) {
const out = Math.max(0, -70 - box[0]) + Math.max(0, box[2] - side - 23)
+ Math.max(0, -12 - box[1]) + Math.max(0, box[3] - side - 32);
const covered = points.filter(([x, y]) => overlap([x, y, x, y], box)).length;
return far + 20 * out + 2 * covered + 60 * taken.filter((other) => overlap(box, other)).length;
}
function placeLabels(arrows, lines) {
const [zero, right, up] = [[0, 0], [3, 0], [0, 3]].map((point) => at(point));
const points = [...lines, [zero, right], [zero, up]].flatMap(([from, to]) =>
[...Array(41).keys()].map((i) => between(from, to, i / 40)));
const marks = vectors.map((vector) => boxOf(...at(vector), 8, 8));
const taken = [...titles, ...marks, ...arrows];
const named = [...tokens.keys()].filter((i) => i !== me);
for (const i of named.sort((a, b) => here[b] - here[a])) {
const cost = (place) => costOf(place, taken, points);
const { box } = placesOf(i).reduce((a, b) => (cost(b) < cost(a) ? b : a));
taken.push(box);
set(dots[i].label, { x: (box[0] + box[2]) / 2, y: box[3] - 4, "text-anchor": "middle" });
}
}
const before = arrow("var(--q)", query), after = arrow("var(--v)", "new");
before.point(old);
set(before.node, { "data-sym": "q" });
for (const { label } of [before, after]) set(label, { class: "halo", "text-anchor": "middle" });
const around = [...Array(16).keys()].map((i) => (i * Math.PI) / 8)
.map((angle) => [24 * Math.cos(angle), 17 * Math.sin(angle)]);
function aside([x, y], lines) {
const free = ([dx, dy]) => Math.min(...lines.map((line) => away([x + dx, y + dy], line)));
return around.reduce((a, b) => (free(b) > free(a) + 1e-6 ? b : a));
}
function away([x, y], [[x0, y0], [x1, y1]]) {
const [dx, dy] = [x1 - x0, y1 - y0];
const part = ((x - x0) * dx + (y - y0) * dy) / (dx * dx + dy * dy || 1);
const t = Math.max(0, Math.min(1, part));
return Math.hypot(x0 + t * dx - x, y0 + t * dy - y);
}

const cell = (style) => el("span", { style });
const own = (word) => el("b", {
"data-sym": "q",
style: "justify-self: start; margin-left: 0.7rem; border-bottom: 3px solid var(--q)" }, word);
function switched(word, i) {
const node = toggle(word, here[i], (on) => {
play.stop();
here[i] = on;
go(MEAN);
});
return set(node, { class: "close", "aria-label": `${word}, beside ${query}` });
}
const hued = (style) => set(cell(style), { "data-sym": "w" });
const cells = tokens.map((word, i) => ({
name: i === me ? own(word) : switched(word, i),
vector: el("span", { style: "font-size: 13px; white-space: nowrap" }),
score: cell("text-align: right"),
weight: hued("margin-right: -2.6rem; font-weight: 600"),
bar: el("span", { class: "moves" }),
}));
const mean = {
name: el("b", { style: "justify-self: start; margin-left: 0.7rem; "
+ "border-bottom: 3px solid var(--v)" }, "new"),
vector: el("b", {
style: "grid-column: span 2; white-space: nowrap; color: var(--ink-v)" }),
weight: hued("text-align: left; font-weight: 600"),
};
const head = (text, style = "") =>
el("span", { style: `font-size: 13px; line-height: 1.2; align-self: end; ${style}` }, text);
const weighed = ({ bar, weight }) =>
el("div", { style: "display: flex; align-items: center; gap: 6px; padding-right: 2.6rem" },
bar, weight);
const weightHead = head("weight");
const score = viewWidth < 600 ? "3.2rem" : "4.4rem";
const grid = el("div", {
style: `display: grid; grid-template-columns: 5.2rem 4.1rem ${score} 1fr; gap: 4px 10px; `
+ "align-items: center; font-variant-numeric: tabular-nums" },
head("neighbours"), head("vector"), head(`“${query}” · word`, "text-align: right"),
weightHead,
...cells.flatMap((c) => [c.name, c.vector, c.score, weighed(c)]),
mean.name, mean.vector, mean.weight);
const steps = choices("Step", ["1 scores", "2 weights", "3 mean"], step, (i) => {
play.stop();
step = i;
move();
});

for (const label of steps.children) label.style.paddingInline = tight ? "5px" : "0.5rem";
function now() {
const scores = vectors.map((vector) => dot(old, vector));
const weights = softmax(scores.map((s, i) => (here[i] ? s : -Infinity)));
return { scores, weights, mean: mix(weights, vectors) };
}
function showToken(i, { scores, weights }) {
const [score, weight] = [scores[i], weights[i]];
const c = cells[i];
const [fill, stroke, clear, faint] = here[i] ? ["var(--k)", "var(--k)", 1, 1]
: ["none", "var(--soft)", 0.55, 0.7];
c.score.textContent = here[i] ? number(score, 1) : "";
c.weight.textContent = here[i] && step > 0 ? number(weight) : "";
const most = Math.max(3, ...scores.filter((_, j) => here[j]));
showBar(c.bar, here[i] ? score / most : 0, weight);
c.vector.style.opacity = clear;
c.vector.textContent = pair(vectors[i], plain);
placeDot(dots[i], i);
set(dots[i].mark, { fill, stroke });
if (i !== me) dots[i].label.style.opacity = faint;
set(strings[i], {
d: `M${at(vectors[i])}L${at(tip)}`, "stroke-width": step > 0 ? 14 * weight : 0 });
}
function showBar(bar, share, weight) {
const [part, ink] = step ? [weight, "w"] : [share, "neutral"];
set(bar, { "data-sym": step ? "w" : null, style: "--pace: 0.4s; height: 14px; "
+ `border-radius: 2px; width: ${100 * part}%; background: var(--${ink})` });
}
function show() {
const numbers = now();
for (const i of tokens.keys()) showToken(i, numbers);
feet.forEach(showFoot);
set(ruler, { visibility: fallen ? "visible" : "hidden" });
after.point(tip);
showName(before, old, names.before);
showName(after, tip, names.after);
set(after.node, { visibility: step === MEAN ? "visible" : "hidden" });
}
function placeNames(weights, to) {
const [zero, first, second] = [[0, 0], old, to].map((point) => at(point));
const strings = vectors.filter((_, i) => step && weights[i]).map((one) => [at(one), second]);
const dots = vectors.map((one) => [at(one), at(one)]);
const scores = step ? [] : [[zero, at(markOf(longest))], ...scale.map((score) =>
[besideMark(score, 13), besideMark(score, 13)])];
const drawn = [[zero, first], [zero, second], ...strings, ...scores];
const corners = titles.map(([x0, y0, x, y]) => [[x0, y0], [x, y]]);
const lines = [...drawn, ...dots, ...corners];
names.before = aside(first, lines);
const place = first.map((x, axis) => x + names.before[axis]);
names.after = aside(second, [...lines, [place, place]]);
placeLabels([[first, names.before, query], [second, names.after, "new"]]
.map(([[x, y], [dx, dy], text]) => boxOf(x + dx, y + dy, halfOf(text))), drawn);
}
function showName({ label }, point, [dx, dy]) {
const [x, y] = at(point);
set(label, { x: x + dx, y: y + dy + 5 });
}
function leaning(mean) {
const gap = mean[0] - mean[1];
if (Math.abs(gap) < 0.005) return `as much ${axes[0]} as ${axes[1]}`;
return `more ${axes[gap > 0 ? 0 : 1]} than ${axes[gap > 0 ? 1 : 0]}`;
}
function sentence({ scores, weights, mean }) {
const beside = tokens.filter((_, i) => here[i] && i !== me);
if (!beside.length) return `Alone, “${query}” keeps its vector.`;
const scored = (word) => `${word} ${plain(scores[tokens.indexOf(word)])}`;
if (step === 0) {
return `The foot of a neighbour on the line of “${query}” is at its score: `
+ `${beside.map(scored).join(", ")}.`;
}
const most = Math.max(...weights);
const first = tokens.filter((_, i) => weights[i] > most - 1e-6);
if (step === 1) {
return `The scores become weights. The largest, ${number(most)}, goes to ${listed(first)}.`;
}
return `“${query}” moves from ${pair(old, plain)} to ${pair(mean)}: ${leaning(mean)}.`;
}
function tell(numbers) {
weightHead.style.visibility = step ? "visible" : "hidden";
mean.weight.textContent = number(1);
mean.vector.textContent = pair(numbers.mean);
const visible = [step > 1, step > 1, step > 0];
Object.values(mean).forEach((node, i) => {
node.style.visibility = visible[i] ? "visible" : "hidden";
});
say(sentence(numbers));
}
const glide = motion();
function move() {
const numbers = now();
const from = tip;
const to = step === MEAN ? numbers.mean : old;
tell(numbers);
placeNames(numbers.weights, to);
glide(700, (t) => {
tip = between(from, to, t);
fallen = step ? 0 : t;
show();
});
}
function moveTo(i, to) {
vectors[i] = to;
play.stop();
pick(MEAN);
const numbers = now();
tell(numbers);
placeNames(numbers.weights, numbers.mean);
glide(0, () => {
[tip, fallen] = [numbers.mean, 0];
show();
});
}
function pick(i) {
step = i;
steps.querySelectorAll("input")[i].checked = true;
}
function go(i) {
pick(i);
move();
}
const play = player({ at: () => step, last: () => MEAN, ms: () => 1600, go });
const panel = el("div", { style: "flex: 1 1 300px; min-width: 0" },
el("div", { class: "row", style: "margin-top: 0; gap: 0.4rem" }, play.node, steps),
grid, said);
set(said, { style: "min-height: 2.8em; margin-top: 0.5rem" });
view.append(el("div", {
class: "beside", style: "gap: 0.5rem 1.5rem; align-items: flex-start; margin: 0" },
root, panel));
tokens.forEach((token, i) => {
if (i === me) return;
drag(`vector of ${token}`, vectors[i], (to) => moveTo(i, to), axes);
});
tip = now().mean;
move();
byItself(play, () => {
go(0);
tip = old;
});
function inTable({ scores, weights, mean }) {
const beside = tokens.filter((_, i) => here[i] && i !== me).join(", ") || "nothing";
return { caption: `“${query}” beside ${beside}: its new vector is ${pair(mean)}`,
columns: [...axes, `score with ${query}`, "weight"],
rows: tokens.map((token, i) => [token, [...vectors[i], scores[i], weights[i]]]) };
}
tabulate(() => inTable(now()));
expose(() => ({ here: tokens.filter((_, i) => here[i]), ...now(), step, tip, x: vectors }));
}
for (const figure of document.querySelectorAll("figure[data-drawing=senses]")) begin(figure, draw);
})();
