(() => {
function draw({ view, viewWidth, data, el, svg, set, clamp, dot, matmul, softmax, mix,
between, number, rounded, listed, quoted, said, say, choices, button, player, byItself, tween,
motion, plane, tabulate, expose, keep }) {
const { table, axes, features, sentences, at_most: atMost } = data;
const SIZE = viewWidth < 600 ? 212 : 344;
const CUT = viewWidth < 600 ? 6 : 20;
const d = data.W_q[0].length;
const steps = [
["tokens", "vectors x"],
["query", "q = x · W", "q"],
["match", "q · k"],
["scale", "÷ √d"],
["weights", "softmax"],
["sum", "Σ weight · v"],
["context", "before, after"],
];
const WEIGHTS = 4, SUM = 5, LAST = steps.length - 1;
let tokens = sentences[0].split(" ");
let chosen = data.chosen;
let step = LAST;
let work;

const covering = "position: absolute; inset: 0; width: 100%; height: 100%; pointer-events: none";
const arcs = svg("svg", { style: covering, "aria-hidden": true });
const labelled = (name) => ({ role: "group", "aria-label": name });
const line = el("div", { class: "tokens", ...labelled("The tokens of the sentence") });
const pointed = (i) => (e) => {
if (e.pointerType !== "mouse") return;
end();
choose(i);
};
const chips = Array.from({ length: atMost }, (_, i) =>
set(button("", () => choose(i)), { onpointerenter: pointed(i) }));
line.append(...chips);
const sky = el("div", { class: "sky" }, arcs, line);
const marks = steps.map(([name, how, index = ""], i) => {
const mark = button("", () => {
play.stop();
go(i);
});
const lowered = el("sub", { style: "line-height: 0" }, index);
return set(mark, {}, el("span", {}, name), el("span", { class: "how" }, how, lowered));
});
const ms = () => (step < WEIGHTS ? 1500 : 2600);
const play = player({ at: () => step, last: () => LAST, go, ms });
const rail = el("div", { class: "row rail", ...labelled("The steps") }, play.node, ...marks);
const own = el("input", { type: "text", size: 24, maxlength: 120,
placeholder: "or type a sentence", "aria-label": "A sentence of your own",
style: "flex: 1 1 12rem; min-width: 0; max-width: 26rem", ...keep });
function submitted(e) {
e.preventDefault();
for (const radio of picker.querySelectorAll("input")) radio.checked = false;
read(own.value);
}
const form = el("form", { class: "row", onsubmit: submitted }, own,
el("button", { type: "submit", ...keep }, "Use it"));
const picker = choices("Sentence", sentences, 0, (i) => read(sentences[i]));
const invitation = el("summary", {}, "Try yours: other sentences, and your own");
const telling = Object.keys(table).filter((token) => table[token].some((n) => n > 0));
const every = Math.ceil(telling.length / 8);
const known = listed(telling.filter((_, i) => i % every === 0));
const knows = el("div", {}, `It knows ${Object.keys(table).length} tokens, such as ${known}.`);
const yours = el("details", { class: "yours" }, invitation, picker, form, knows);

const columns = [
{ head: () => (step < 2 ? named("x", "", features) : named("key k", "k")),
cell: (i) => (step < 2 ? vector("", work.x[i]) : vector("k", work.k[i])),
from: 0, until: 2 },
{ head: () => [hued("q", "q"), " · ", hued("k", "k")],
cell: (i) => [beside("", number(work.dots[i]), work.dots[i] / most())],
from: 2, until: 3 },
{ head: () => [`÷ √${d}`],
cell: (i) => [beside("", number(work.scores[i]), work.scores[i] / most())],
from: 3, until: 4 },
{ head: () => [hued("w", "weight")],
cell: (i) => [beside("w", shareText(i), work.weights[i])],
total: () => [hued("w", "100%")],
from: WEIGHTS, until: LAST },
{ head: () => [hued("w", "weight"), " · ", ...named("value v", "v", axes)],
cell: (i) => vector("v", work.terms.map((axis) => axis[i] / 100)),
total: () => vector("v", work.context),
from: SUM, until: LAST },
];
const heads = columns.map(() => el("th", { scope: "col" }));
const rows = Array.from({ length: atMost }, () =>
el("tr", {}, el("th", { scope: "row" }), ...columns.map(() => el("td"))));
const asks = el("p", { class: "whose" });
const sums = el("tr", {}, el("th", { scope: "row" }, "sum"), ...columns.map(() => el("td")));
const list = el("div", { class: "numbers", ...labelled("The numbers"), ...keep },
asks,
el("table", { class: "tight" },
el("thead", {}, el("tr", {}, el("td", {}), ...heads)),
el("tbody", {}, ...rows),
el("tfoot", {}, sums)));
const picture = el("div", { class: "picture" });
const scene = el("div", { class: "scene" }, rail, said, sky, picture, list);
view.append(scene, yours);

const vectorOf = (token) => table[token] ?? data.unknown;
function compute() {
const x = tokens.map((token) => vectorOf(token));
const [q, k, v] = [data.W_q, data.W_k, data.W_v].map((matrix) => matmul(x, matrix));
const dots = k.map((key) => dot(q[chosen], key));
const scores = dots.map((s) => s / Math.sqrt(q[0].length));
const weights = softmax(scores);
const square = dot(q[chosen], q[chosen]) || 1;
const projections = dots.map((s) => q[chosen].map((n) => n * s / square));
work = { x, q, k, v, dots, projections, scores, weights, context: mix(weights, v) };
work.shares = rounded(weights.map((w) => 100 * w), 100);
const shown = (total) => Math.round(100 * number(total).replace("−", "-"));
work.terms = work.context.map((total, j) =>
rounded(weights.map((w, i) => 100 * w * v[i][j]), shown(total)));
}
const shareText = (i) => `${work.shares[i]}%`;
const weighted = (i) => work.v[i].map((n) => n * work.weights[i]);

function read(text) {
const found = text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? [];
if (!found.length) {
say("Type a few words first.");
return;
}
tokens = found.slice(0, atMost);
chosen = mostTelling();
play.stop();
lay();
const unknown = [...new Set(found)].filter((token) => !(token in table));
const notes = [
found.length > atMost && `The first ${atMost} tokens are used.`,
unknown.length && missing(unknown),
];
if (notes.some(Boolean)) {
say(notes.filter(Boolean).join(" "));
fit();
}
}
function mostTelling() {
const rank = (row) => 2 * (row[2] > 0) + row.some((n) => n > 0);
const ranks = tokens.map((token) => rank(vectorOf(token)));
return ranks.indexOf(Math.max(...ranks));
}
function missing(unknown) {
const more = unknown.length - 3;
const some = unknown.slice(0, 3).map(quoted).join(", ");
const named = more > 0 ? `${some} and ${more} more` : listed(unknown);
return `Not in this small table: ${named}. Zeros stand in, so no query finds them.`;
}

const name = (i) => quoted(tokens[i]);
const percent = (w) => `${Math.round(100 * w)}%`;
function lay() {
set(line, { "data-long": tokens.join("").length > 26 });
chips.forEach((chip, i) => {
const used = i < tokens.length;
chip.textContent = tokens[i] ?? "";
const title = used ? described(tokens[i]) : null;
const missing = used && !(tokens[i] in table) && "border-style: dashed";
set(chip, { title, style: used ? missing : "display: none" });
});
choose(chosen);
}
const described = (token) => token in table
? table[token].map((n, i) => `${features[i]} ${number(n)}`).join(", ")
: "not in the table";
function choose(i) {
chosen = i;
compute();
chips.forEach((chip, j) => set(chip, { "aria-pressed": String(j === i) }));
go(step);
}

const grow = motion();
function tops() {
const box = sky.getBoundingClientRect();
if (!box.width) return [];
return chips.slice(0, tokens.length).map((chip) => {
const { left, top, width } = chip.getBoundingClientRect();
return [left + width / 2 - box.left, top - box.top, width];
});
}
function bend(still) {
const made = step < WEIGHTS ? tops().flatMap(step < 2 ? barsOf : scoreOf) : tops().map(arcTo);
arcs.replaceChildren(...made, ...(step < WEIGHTS ? [] : shares()));
if (step < WEIGHTS || still) return;
grow(700, (t) => {
for (const path of made) set(path, { "stroke-dashoffset": 1 - t });
});
}
function besideArcs(all) {
const [x, , width] = all[chosen];
const others = work.weights.map((w, i) => (i === chosen ? 0 : w));
const widest = others.indexOf(Math.max(...others));
if (others[widest] < work.weights[chosen] - 1e-6) return x;
return x + Math.sign(chosen - widest) * clamp(width / 2 - 14, 0, 22);
}
function arcTo([middle, y], i, all) {
const [x0, y0] = all[chosen];
const x = i === chosen ? besideArcs(all) : middle;
const top = heightTo(i, all);
const w = work.weights[i];
const loop = `M${x - 9} ${y}C${x - 24} ${y - 38},${x + 24} ${y - 38},${x + 9} ${y}`;
const bow = `M${x0} ${y0}C${x0} ${y0 + top},${x} ${y + top},${x} ${y}`;
return svg("path", { "data-sym": "w", d: i === chosen ? loop : bow,
fill: "none", stroke: "var(--w)", "stroke-width": 0.8 + 16 * w, "stroke-linecap": "round",
opacity: 0.25 + 0.65 * w, pathLength: 1, "stroke-dasharray": "1 1" });
}
function heightTo(i, all) {
const [[x0, y0], [x, y]] = [all[chosen], all[i]];
const up = Math.min(96, 30 + Math.abs(x - x0) * 0.2);
return 1.3 * Math.max(26 - Math.min(y, y0), -up);
}
function shares() {
const made = [];
for (const one of tops().flatMap(shareOf).sort((a, b) => a.far - b.far)) {
const touched = made.filter(({ x, y, text }) => Math.abs(y - one.y) < 17
&& Math.abs(x - one.x) < 6 * (text.length + one.text.length));
const same = touched.find(({ w }) => Math.abs(w - one.w) < 1e-6);
if (same) Object.assign(same, { ...one, text: `${percent(one.w)} each` });
else made.push({ ...one, y: Math.min(one.y, ...touched.map(({ y }) => y - 17)) });
}
return made.map(({ x, y, text }) => svg("text", { x, y, "text-anchor": "middle",
class: "halo", "data-sym": "w", style: "font-weight: 700; font-size: 15px" }, text));
}
function shareOf([x, y], i, all) {
const w = work.weights[i];
const isMost = work.weights.every((other, j) => j === i || other < w - 1e-6);
if (!isMost && (w < 0.2 || i === chosen)) return [];
const [x0, y0] = all[chosen];
const high = i === chosen ? -28 : 0.75 * heightTo(i, all);
const over = i === chosen ? besideArcs(all) : (x0 + x) / 2;
return [{ x: over, y: (y0 + y) / 2 + high - 8 * w - 5, text: shareText(i), w,
far: Math.abs(x - x0) }];
}
const upright = (x, y, height, width, fill, sym) =>
svg("rect", { x: x - width / 2, y: y - 6 - height, width, height, rx: 2, fill,
"data-sym": sym });
const barsOf = ([x, y], i) => work.x[i].map((n, j) =>
upright(x + 9 * (j - 1), y, Math.max(1.5, 36 * n), 6, "var(--neutral)"));
function scoreOf([x, y], i) {
const most = Math.max(1e-9, ...work.dots);
const score = (step === 2 ? work.dots : work.scores)[i];
const length = 36 * clamp(score / most, 0.04, 1);
return [upright(x, y, length, 12, "var(--soft)")];
}

const FAR = 3.1;
const longest = Math.max(...matmul(Object.values(table), data.W_v).flat());
const NEAR = Math.min(FAR, 1.25 * longest);
const fade = motion();
let ink, names;
let reached = NEAR;
function fresh(title, reach = NEAR) {
const low = -reach / 10;
const unit = reach < FAR / 2 ? 0.5 : 1;
const p = plane(SIZE, reach, low, unit);
const [across, up] = [SIZE < 300 ? axes[0] : `${axes[0]} →`, `↑ ${axes[1]}`];
const [x0] = p.at([0, 0]);
ink = [];
names = [[SIZE - 7 * across.length, SIZE - 30, SIZE, SIZE], [x0, 0, x0 + 7 * up.length, 18]];
trace(p.at([0, low]), p.at([0, reach]));
trace(p.at([low, 0]), p.at([reach, 0]));
set(p.root, { role: "img", "aria-label": title });
const write = (x, y, text, anchor = "middle") =>
p.root.append(svg("text", { "text-anchor": anchor, "aria-hidden": true,
style: "fill: var(--soft); font-size: 13px", x, y }, text));
write(SIZE - 2, SIZE - (SIZE < 300 ? 2 : 10), across, "end");
write(x0 + 6, 13, up, "start");
for (const n of [unit, 2 * unit]) tick(p, write, n, SIZE - 8 * across.length);
if (!long(work.x[chosen])) noteZeros(write);
picture.replaceChildren(p.root);
if (reach !== reached) appear(p.root);
reached = reach;
return p;
}
function tick({ at }, write, n, free) {
const [x0, y0] = at([0, 0]);
const [x, y] = at([n, n]);
if (x + 6 < free) write(x, y0 + 16, n);
write(x0 - 5, y + 5, n, "end");
names.push([x - 6, y0 + 3, x + 6, y0 + 19], [x0 - 15, y - 8, x0 - 2, y + 8]);
}
function appear(root) {
fade(400, (t) => set(root, { opacity: t < 1 ? t.toFixed(2) : null }));
}
function noteZeros(write) {
const known = tokens[chosen] in table;
const lines = known ? [`${name(chosen)} has a vector of zeros:`, "it points nowhere"]
: [`${name(chosen)} has no vector here:`, "zeros stand in for it"];
lines.forEach((text, i) => write(SIZE / 2 + 14, 40 + 18 * i, text));
names.push([60, 24, SIZE - 30, 66]);
}
function trace([x0, y0], [x, y]) {
for (let t = 0; t <= 1.001; t += 1 / 24) ink.push([x0 + t * (x - x0), y0 + t * (y - y0)]);
}
function traceRing([x, y], r) {
for (let a = 0; a < 6.28; a += 0.25) ink.push([x + r * Math.cos(a), y + r * Math.sin(a)]);
}
function arrow(p, sym, to, from = [0, 0], colour = `var(--${sym})`) {
const made = p.arrow(colour);
if (sym) set(made.node, { "data-sym": sym });
made.point(to, from);
trace(p.at(from), p.at(to));
return made.node;
}
const inside = ([x, y], box) => x > box[0] && x < box[2] && y > box[1] && y < box[3];
const overlap = (a, b) => a[0] < b[2] && a[2] > b[0] && a[1] < b[3] && a[3] > b[1];
const outsideOf = (box) => Math.max(0, -box[0], -box[1], box[2] - SIZE - 2, box[3] - SIZE);
function labelCost(box) {
const lines = ink.filter((point) => inside(point, box)).length;
const labels = names.filter((other) => overlap(box, other)).length;
return 8 * lines + 60 * labels + 8 * outsideOf(box);
}
const TURNS = [0, 30, -30, 60, -60, 90, -90, 125, -125, 180];
const placesAround = ([x, y], [ax, ay], wide) => [9, 15, 24, 36, 52].flatMap((r) =>
TURNS.map((turned) => {
const a = Math.atan2(ay, ax) + turned * Math.PI / 180;
const cx = x + Math.cos(a) * (r + wide / 2);
const cy = y + Math.sin(a) * (r + 7);
const box = [cx - wide / 2, cy - 9, cx + wide / 2, cy + 9];
return [r / 4 + Math.abs(turned) / 20, box];
}));
function placeLabel(p, sym, text, point, way) {
let best, least = Infinity;
for (const [far, box] of placesAround(point, way, 8.6 * text.length)) {
const cost = far + labelCost(box);
if (cost < least) [least, best] = [cost, box];
}
const isCut = outsideOf(best) > CUT;
if (!isCut && !names.some((other) => overlap(best, other))) placeText(p, sym, text, best);
}
function placeText(p, sym, text, box) {
names.push(box);
p.root.append(svg("text", { x: (box[0] + box[2]) / 2, y: box[3] - 4,
"text-anchor": "middle", class: "halo", "aria-hidden": true, "data-sym": sym || null,
style: "font-weight: 600" }, text));
}
const long = (row) => Math.hypot(...row) > 0.01;
const first = (i) => tokens.indexOf(tokens[i]) === i;
const seen = (rows) => rows.map((row, i) => [row, i]).filter(([row, i]) => long(row) && first(i));
function outward(p, row) {
const [x0, y0] = p.at([0, 0]);
const [x, y] = p.at(row);
return [x - x0, y - y0];
}

function drawTokens() {
const p = fresh(`The tokens, by ${axes[0]} and ${axes[1]}`);
const shown = seen(work.v);
const colour = (i) => (i === chosen ? "currentColor" : "var(--neutral)");
for (const [v, i] of shown) arrow(p, "", v, [0, 0], colour(i));
for (const [v, i] of shown) placeLabel(p, "", tokens[i], p.at(v), outward(p, v));
}
function drawQuery() {
const p = fresh("The rows of W_q, times x, make the query", FAR);
const q = work.q[chosen];
const wide = long(q) && p.arrow("var(--q)");
if (wide) {
set(wide.node, { "data-sym": "q", opacity: 0.6 }).firstChild.setAttribute("stroke-width", 8);
trace(p.at([0, 0]), p.at(q));
}
const pieces = drawProducts(p);
if (!wide) return;
for (const piece of pieces.filter(told)) labelProduct(p, piece);
placeLabel(p, "q", "q", p.at(q), outward(p, q));
tween(900, (t) => wide.point(between(work.v[chosen], q, t)));
}
const told = ({ from: [x0, y0], to: [x, y] }) => Math.hypot(x - x0, y - y0) > 14;
function labelProduct(p, { feature, middle, from: [x0, y0], to: [x, y] }) {
const half = 4.3 * feature.length;
const [mx, my] = p.at(middle);
if (Math.abs(y - y0) < 1 && x - x0 > half) {
const boxes = [0, -1, 1].map((i) => mx + (i * (x - x0)) / 3)
.map((cx) => [cx - half, y + 2, cx + half, y + 20]);
placeText(p, "", feature, boxes.find((box) => !names.some((one) => overlap(box, one)))
?? boxes[0]);
} else if (Math.abs(x - x0) < 1 && y0 - y > 18) {
placeText(p, "", feature, [x + 8, my - 9, x + 8 + 2 * half, my + 9]);
} else placeLabel(p, "", feature, [mx, my], [y0 - y, x - x0]);
}
function drawProducts(p) {
const sum = [0, 0], pieces = [];
work.x[chosen].forEach((n, i) => {
const from = [...sum];
data.W_q[i].forEach((w, j) => { sum[j] += n * w; });
if (Math.hypot(sum[0] - from[0], sum[1] - from[1]) < 0.01) return;
arrow(p, "", [...sum], from, "var(--soft)");
const middle = between(sum, from, 0.5);
pieces.push({ feature: features[i], middle, from: p.at(from), to: p.at(sum) });
});
return pieces;
}
function drawProjections(scaled) {
const q = work.q[chosen];
const shown = seen(work.k);
const along = scaled ? `The same lengths along q, divided by √${d}`
: "How far each key, x · W_k, reaches along q";
const p = fresh(long(q) ? along : `${name(chosen)} has no query; the keys`, FAR);
if (!long(q)) return drawKeys(p, shown);
set(arrow(p, "q", q), { opacity: scaled ? 0.5 : 1 });
const drops = shown.map(([k, i]) => dropKey(p, k, i, scaled));
placeLabel(p, "q", "q", p.at(q), outward(p, q));
const best = drops.reduce((a, b) => (work.dots[b.i] > work.dots[a.i] ? b : a), drops[0]);
for (const drop of drops) labelDrop(p, drop, scaled, drop === best);
tween(900, (t) => {
for (const drop of drops) moveDrop(p, drop, scaled, t);
});
}
function drawKeys(p, shown) {
for (const [k] of shown) arrow(p, "k", k);
for (const [k, i] of shown) placeLabel(p, "k", tokens[i], p.at(k), outward(p, k));
}
function dropKey(p, k, i, scaled) {
const projection = work.projections[i];
const to = scaled ? projection.map((n) => n / Math.sqrt(k.length)) : projection;
const opacity = scaled ? 0.3 : 1;
const key = p.arrow("var(--k)");
key.point(k);
set(key.node, { opacity, "data-sym": "k" });
const line = svg("path", { "data-sym": "k", fill: "none", stroke: "var(--k)",
"stroke-width": 1.5, "stroke-dasharray": "4 3", opacity, "aria-hidden": true });
const dot = svg("circle", { r: 5, fill: "var(--paper)", stroke: "var(--q)",
"stroke-width": 2.5, "data-sym": "q", "aria-hidden": true });
p.root.append(line, dot);
if (!scaled) {
trace(p.at([0, 0]), p.at(k));
trace(p.at(k), p.at(projection));
}
const [x, y] = p.at(to);
traceRing([x, y], 8);
return { k, v: work.v[i], i, projection, to, key, line, dot };
}
function labelDrop(p, { k, i, projection, to }, scaled, best) {
if (scaled) {
const text = `${tokens[i]} ${number(work.scores[i])}`;
return placeLabel(p, "", text, p.at(to), best ? [1, 0] : [0.5, 1]);
}
const [fx, fy] = p.at(projection);
const [kx, ky] = p.at(k);
const along = outward(p, work.q[chosen]);
const falls = Math.hypot(fx - kx, fy - ky) > 4;
const away = falls ? [fx - kx, fy - ky] : [along[1], -along[0]];
placeLabel(p, "k", tokens[i], p.at(k), [-away[0], -away[1]]);
placeLabel(p, "", number(work.dots[i]), p.at(to), away);
}
function moveDrop(p, { k, v, projection, to, key, line, dot }, scaled, t) {
const grown = Math.min(1, 2.5 * t);
const fallen = scaled ? t : clamp((t - 0.4) / 0.6, 0, 1);
if (!scaled) key.point(between(v, k, grown));
const [cx, cy] = p.at(between(scaled ? projection : k, to, fallen));
set(dot, { cx, cy, visibility: fallen ? "visible" : "hidden" });
set(line, { d: `M${p.at(k)}L${scaled ? p.at(projection) : [cx, cy]}` });
}
function drawWeights() {
const q = work.q[chosen];
const shares = long(q) ? "The discs are shares: 100% in all"
: "Equal scores become equal shares";
const p = fresh(shares, FAR);
if (long(q)) set(arrow(p, "q", q), { opacity: 0.35 });
const discs = equalScores().map((group) => discOf(p, group));
p.root.append(...discs.map((disc) => disc.node));
for (const { at, r } of discs) for (let s = r + 4; s > 0; s -= 8) traceRing(at, s);
for (const disc of [...discs].sort((a, b) => b.share - a.share)) labelDisc(p, disc);
tween(900, (t) => {
for (const { node, r } of discs) set(node, { r: 5 + t * (r - 5) });
});
}
function discOf(p, group) {
const at = p.at(work.projections[group[0]].map((n) => n / Math.sqrt(d)));
const share = work.weights[group[0]];
const node = svg("circle", { cx: at[0], cy: at[1], r: 5, fill: "var(--w)",
"fill-opacity": 0.75, "data-sym": "w", "aria-hidden": true });
return { group, at, share, node, r: Math.max(3, 0.135 * SIZE * Math.sqrt(share)) };
}
function labelDisc(p, { group, at: [x, y], share, r }) {
const told = [...new Set(group.map((i) => tokens[i]))];
const all = told.map(quoted).join(", ");
const many = told.length > 2 || (told.length > 1 && 18 * all.length > SIZE);
const some = many ? `${told.length} tokens` : all;
const each = group.length > 1 ? `${percent(share)} each` : shareText(group[0]);
placeLabel(p, "w", `${some} ${each}`, [x + 0.8 * r, y], [1, 0.15]);
}
function equalScores() {
const groups = new Map();
work.scores.forEach((score, i) => {
const others = groups.get(number(score)) ?? [];
groups.set(number(score), [...others, i]);
});
return [...groups.values()];
}
function drawSum() {
const p = fresh("Values times their weights, tip to tail");
heavy(set(arrow(p, "", work.context, [0, 0], "currentColor"), { opacity: 0.35 }));
const pieces = drawPieces(p);
for (const { made, from, to } of pieces) {
set(made.node, { "data-sym": "v" });
trace(p.at(from), p.at(to));
}
labelPieces(p, pieces.filter(({ length }) => length > 0.06));
placeLabel(p, "", "sum", p.at(work.context), outward(p, work.context));
tween(1100, (t) => {
for (const { made, from, to, whole } of pieces) {
made.point(between(whole, to, t), between([0, 0], from, t));
}
});
}
function drawPieces(p) {
const sum = [0, 0], pieces = [];
for (const i of tokens.keys()) {
const from = [...sum];
const piece = weighted(i);
const length = Math.hypot(...piece);
piece.forEach((n, j) => { sum[j] += n; });
if (length <= 0.004) continue;
pieces.push({ i, from, to: [...sum], whole: work.v[i], length, made: p.arrow("var(--v)") });
}
return pieces;
}
function labelPieces(p, pieces) {
const [mx, my] = outward(p, work.context);
const [ox, oy] = p.at([0, 0]);
for (const { i, from, to } of pieces) {
const [x0, y0] = p.at(from);
const [x, y] = p.at(to);
const middle = [(x0 + x) / 2, (y0 + y) / 2];
const left = mx * (middle[1] - oy) - my * (middle[0] - ox) < 0;
placeLabel(p, "v", tokens[i], middle, left ? [y - y0, x0 - x] : [y0 - y, x - x0]);
}
}
function bendTo(p, old, now) {
const [[x0, y0], [x, y]] = [p.at(old), p.at(now)];
const [cx, cy] = [Math.max(x0, x) + 12, Math.min(y0, y)];
const d = `M${x0} ${y0}Q${cx} ${cy} ${x} ${y}`;
p.root.append(svg("path", { d, fill: "none", stroke: "var(--control)", "stroke-width": 2,
"stroke-dasharray": "2 5", "stroke-linecap": "round", "aria-hidden": true }));
for (let t = 0; t <= 1; t += 1 / 24) {
const at = (from, over, to) => from + t * (2 * (over - from) + t * (from - 2 * over + to));
ink.push([at(x0, cx, x), at(y0, cy, y)]);
}
}
function placeBeyond(p, text, to) {
const [half, tall] = [4.3 * text.length, 9];
const [[x, y], [ax, ay]] = [p.at(to), outward(p, to)];
const turns = [...Array(17).keys()].map((i) => 10 * (i - 8));
const places = [14, 20, 26].flatMap((gap) => turns.map((turned) => [gap, turned]));
const boxes = places.map(([gap, turned]) => {
const a = Math.atan2(ay, ax) + turned * Math.PI / 180;
const [ux, uy] = [Math.cos(a), Math.sin(a)];
const far = gap + Math.min(half / Math.max(1e-9, Math.abs(ux)),
tall / Math.max(1e-9, Math.abs(uy)));
const [cx, cy] = [x + far * ux, y + far * uy];
const box = [cx - half, cy - tall, cx + half, cy + tall];
const roomy = [box[0] - 4, box[1], box[2] + 4, box[3]];
return { box, cost: labelCost(roomy) + Math.abs(turned) / 8 + gap - 14 };
});
placeText(p, "", text, boxes.reduce((a, b) => (b.cost < a.cost ? b : a)).box);
}
function labelValue(p, v, i) {
const [[x0, y0], [x, y]] = [p.at(v), p.at(work.context)];
const near = Math.hypot(x - x0, y - y0) < SIZE / 10;
if (!near) placeLabel(p, "v", tokens[i], [x0, y0], outward(p, v));
}
const heavy = (arrow) => set(arrow.firstChild, { "stroke-width": 7 });
function drawOutput() {
const p = fresh(`Where ${name(chosen)} was, and where it is now`);
const old = work.v[chosen];
const others = seen(work.v).filter(([, i]) => i !== chosen);
for (const [v] of others) set(arrow(p, "v", v), { opacity: 0.6 });
arrow(p, "", old, [0, 0], "var(--soft)");
const now = p.arrow("currentColor");
heavy(now.node);
if (long(old)) bendTo(p, old, work.context);
const to = work.context;
trace(p.at([0, 0]), p.at(to));
if (long(old)) placeLabel(p, "", "before", p.at(old), outward(p, old));
for (const [v, i] of others) labelValue(p, v, i);
if (long(to)) placeBeyond(p, "after", to);
tween(900, (t) => now.point(between(old, work.context, t)));
}

const row = (numbers) => `(${numbers.map((n) => number(n)).join(", ")})`;
const hued = (sym, text) => el("span", { "data-sym": sym }, text);
function vector(sym, numbers) {
return [columned(sym, numbers.map((n) => number(n)))];
}
const columned = (sym, texts) => el("span", { class: "vector", "data-sym": sym || null },
...texts.map((text) => el("span", {}, text)));
const named = (text, sym, kinds = []) => [sym ? hued(sym, text) : text,
...(kinds.length ? [el("div", { class: "kinds" }, columned("", kinds))] : [])];
const most = () => Math.max(1e-9, ...work.dots);
const beside = (sym, text, share) =>
el("span", { class: "weighed", "data-sym": sym || null },
el("span", {}, text),
el("span", { style: `width: ${clamp(100 * share, 0, 100)}%; `
+ `background: var(--${sym || "neutral"})` }));
function showNumbers() {
rows.forEach((line, i) => {
const used = i < tokens.length;
const weight = i === chosen ? 600 : 400;
set(line, { style: used ? `font-weight: ${weight}` : "display: none" });
if (used) line.firstChild.textContent = tokens[i];
});
columns.forEach(showColumn);
set(sums, { class: step < WEIGHTS ? "later" : null });
const when = step < 1 ? "later" : step < WEIGHTS ? "" : "past";
set(asks, { class: `whose ${when}` },
`The query of ${name(chosen)} is`, ...vector("q", work.q[chosen]));
}
function showColumn(column, j) {
const state = { class: place(column) };
set(heads[j], state, ...column.head());
tokens.forEach((_, i) => set(rows[i].children[j + 1], state, ...column.cell(i)));
set(sums.children[j + 1], state, ...(column.total?.() ?? []));
}
function place(column) {
if (column.from > step) return "later";
return column.until < step ? "past" : null;
}
const inWords = (vector, and) => vector.map((n, i) => `${number(n)} ${axes[i]}`).join(and);
const tellings = [
() => `${name(chosen)} is ${inWords(work.v[chosen], " and ")}. Choose a token, or a step.`,
() => `What ${name(chosen)} looks for: q = ${product()} = ${row(work.q[chosen])}.`,
() => (long(work.q[chosen])
? "Each key drops onto q: how far along it lands, times the length of q, "
+ "is the dot product."
: `The query of ${name(chosen)} is zero: every dot product is 0.`),
() => (long(work.q[chosen])
? `Divided by √${d} = ${number(Math.sqrt(d))}: every length shrinks alike.`
: `Divided by √${d}, 0 stays 0.`),
() => ofWeights(),
() => "Every value, v = x · Wᵥ, times its weight: "
+ `tip to tail they end at the context, ${row(work.context)}.`,
() => `${name(chosen)} was ${inWords(work.v[chosen], ", ")}. `
+ `Now it is ${inWords(work.context, ", ")}.`,
];
const explain = () => say(tellings[step]());
function ofWeights() {
if (tokens.length === 1) return `${name(chosen)} stands alone: it gets all the weight, 100%.`;
if (!long(work.q[chosen])) {
return `${name(chosen)} asks for nothing: every token gets the same weight.`;
}
const most = Math.max(...work.weights);
const best = [...new Set(tokens.filter((_, i) => work.weights[i] > most - 1e-6))];
const several = work.weights.filter((w) => w > most - 1e-6).length > 1;
const each = several ? `${percent(most)} each` : shareText(work.weights.indexOf(most));
return "The weights add up to 100%. "
+ `The most, ${each}, goes to ${listed(best)}.`;
}
function product() {
const whole = (row) => row.map((w) => number(w, 0)).join(", ");
const parts = work.x[chosen].map((n, i) => `${number(n)} · (${whole(data.W_q[i])})`);
return parts.join(" + ");
}
function underTokens() {
const boxes = chips.slice(0, tokens.length).map((chip) => chip.getBoundingClientRect());
const left = Math.min(...boxes.map((box) => box.left));
const right = Math.max(...boxes.map((box) => box.right));
const grid = asks.nextSibling;
set(grid, { style: `min-width: ${Math.floor(right - left)}px` });
const room = list.clientWidth - grid.offsetWidth;
const before = clamp(left - list.getBoundingClientRect().left, 0, Math.max(0, room));
for (const node of [asks, grid]) node.style.marginLeft = `${before}px`;
}
function fit() {
if (!view.getBoundingClientRect().width) return;
underTokens();
list.style.maxHeight = "";
asks.style.display = "";
const beyond = () => scene.getBoundingClientRect().height
- parseFloat(getComputedStyle(scene).minHeight);
if (beyond() > 0 && step >= WEIGHTS) asks.style.display = "none";
const over = beyond();
if (over > 0) list.style.maxHeight = `${Math.max(84, list.offsetHeight - over)}px`;
const scrolls = over > 1 && list.scrollHeight > list.clientHeight + 1;
const mine = rows[chosen];
set(list, { class: scrolls ? "numbers deep" : "numbers", tabindex: scrolls ? 0 : null });
if (scrolls) list.scrollTop = mine.offsetTop - (list.clientHeight - mine.offsetHeight) / 2;
}
const scenes = [
drawTokens,
drawQuery,
() => drawProjections(false),
() => drawProjections(true),
drawWeights,
drawSum,
drawOutput,
];
function go(to) {
const kept = to > WEIGHTS && step >= WEIGHTS && to !== step;
step = to;
marks.forEach((mark, i) =>
set(mark, { "aria-pressed": String(i === step), class: i < step ? "done" : null }));
scenes[step]();
showNumbers();
explain();
fit();
bend(kept);
}

const end = byItself(play, () => { step = WEIGHTS; });
lay();
new ResizeObserver(() => {
fit();
bend(true);
}).observe(sky);
tabulate(() => ({ caption: tokens.join(" "), columns: tokens.map((word, i) => `${word} ${i + 1}`),
rows: [[`weights of ${quoted(tokens[chosen])}`, work.weights],
...axes.map((axis, j) => [axis, work.x.map((row) => row[j])])] }));
expose(() => ({ tokens, chosen, step, ...work }));
}
for (const figure of document.querySelectorAll("figure[data-drawing=attend]")) begin(figure, draw);
})();
