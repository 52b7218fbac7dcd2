(() => {
function draw(stage) {
const { view, viewWidth, data, el, svg, set, sum, clamp, between, number } = stage;
const { said, say, choices, button, toggle, more, motion, expose } = stage;
const { matrices } = data;
const wide = viewWidth >= 600;
const ways = { "along rows": "dim=-1", "along columns": "dim=0" };
let chosen = matrices.length - 1;
let dim = 0;
let forgotten = false;
const way = () => dim || 2 * forgotten;
let now = {};
let shown = {};
const n = matrices[0].exps.length;
const cell = wide ? 72 : 60, gap = wide ? 96 : 62;
const side = 46;
const top = 48, foot = top + n * cell + 34;
const across = side + 2 * n * cell + gap;
const [left, first, unit, pitch] = wide ? [across + 104, top + 18, 92, 36]
: [76, foot + 37, 150, 24];
const width = wide ? 720 : 350, high = wide ? foot + 4 : first + 2 * n * pitch - 4;

const root = svg("svg", {
width, height: high, viewBox: `0 0 ${width} ${high}`, role: "img", style: "height: auto",
"aria-label": "Left the exponentials and their sums, right each divided by a sum" });
const start = n * cell + gap;
const at = (i, j, right) =>
[side + (right ? start : 0) + (j + 0.5) * cell, top + (i + 0.5) * cell];
const text = (x, y, more = {}) => svg("text", { x, y: y + 5, "text-anchor": "middle", ...more });
const each = (f) => Array.from({ length: n }, (_, i) => f(i));
const grid = (f) => each((i) => each((j) => f(i, j)));
const add = (node) => {
root.append(node);
return node;
};
const box = (i, j, right) => {
const [x, y] = at(i, j, right);
const corner = { x: x - cell / 2, y: y - cell / 2, width: cell, height: cell };
const [fill, sym] = right ? ["var(--w)", "w"] : ["var(--soft)", null];
const look = { fill, "fill-opacity": 0, stroke: "var(--faint)", "data-sym": sym };
return add(svg("rect", { ...corner, ...look }));
};
const bold = "font-weight: 600";
root.append(
set(text(side + n * cell / 2, 9, { style: bold }), {}, "exponentials"),
set(text(side + n * cell * 1.5 + gap, 9, { "data-sym": "w", style: bold }), {}, "weights"));
const quiet = "font-size: 13px; fill: var(--soft)";
root.append(...each((m) => set(text(0, at(m, 0)[1], { "text-anchor": "start", style: quiet }),
{}, `row ${m}`)), ...[false, true].flatMap((right) => each((m) =>
set(text(at(0, m, right)[0], top - 12, { style: quiet }),
{}, `${wide ? "column" : "col."} ${m}`))));
const boxes = grid((i, j) => box(i, j));
const shares = grid((i, j) => box(i, j, true));
const entries = grid((i, j) => add(text(...at(i, j))));
const onShares = (below, style) => grid((i, j) => {
const [x, y] = at(i, j, true);
return add(text(x, y + below, { style: `${style}; pointer-events: none` }));
});
const results = onShares(-9, bold);
const reasons = onShares(11, "font-size: 13px");
const sums = each(() => add(text(0, 0, { style: bold })));
const beside = (i) => {
const [x, y] = at(i, n - 1);
return [x + cell / 2 + 20, y + 5];
};
const below = (j, right) => {
const [x, y] = at(n - 1, j, right);
return [x, y + cell / 2 + 23];
};
const before = (i) => {
const [x, y] = at(i, 0, true);
return [x - cell / 2 - 22, y + 5];
};
const places = () => each((m) => (way() ? below(m, true) : before(m)));

const [above, end] = [wide ? 9 : first - 24, left + unit];
const tick = wide ? top - 12 : above;
const heading = text(left, above, { "text-anchor": "start", style: bold });
const bottom = first + (2 * n - 0.5) * pitch;
root.append(
set(heading, {}, wide ? "sums of the weights" : "their sums"),
svg("path", { d: `M${end} ${tick + 10}V${bottom}`, stroke: "var(--soft)" }),
set(text(end, tick), {}, "1"));
const kinds = ["row", "column"];
const bars = kinds.flatMap((kind, k) => each((m) => {
const y = first + (k * n + m) * pitch;
root.append(set(text(left - 8, y, { "text-anchor": "end" }), {}, `${kind} ${m}`));
const look = { y: y - 8, height: 16, fill: "var(--w)", "data-sym": "w" };
return {
parts: each((i) => add(svg("rect", { ...look, "fill-opacity": i % 2 ? 0.65 : 1 }))),
total: add(text(0, y, { "text-anchor": "start" })),
};
}));

function compute() {
const { exps } = matrices[chosen];
const byRow = !dim;
const summed = each((m) => each((p) => (byRow ? exps[m][p] : exps[p][m])));
const total = summed.map(sum);
const divisor = (i, j) => total[way() ? j : i];
const weights = grid((i, j) => exps[i][j] / divisor(i, j));
const rows = weights.map(sum);
const columns = each((j) => sum(weights.map((row) => row[j])));
now = { exps, byRow, summed, total, divisor, weights, rows, columns };
}
const one = (x) => number(x) === number(1);

function showBar({ parts, total }, weights, done) {
const whole = sum(weights);
let x = left, rest = whole * done;
weights.forEach((weight, i) => {
const width = unit * clamp(rest, 0, weight);
set(parts[i], { x, width: Math.max(0, width - 1) });
x += width;
rest -= weight;
});
total.textContent = done === 1 ? `${number(whole)} ${one(whole) ? "✓" : "✗"}` : "";
set(total, { x: Math.max(x, end) + 8, style: one(whole) ? bold : "" });
}
function paintCell(i, j, counted, done) {
const { exps, byRow, divisor } = now;
const { weights } = shown;
entries[i][j].textContent = number(exps[i][j], 0);
set(boxes[i][j], { "fill-opacity": clamp(counted - (byRow ? j : i), 0, 1) * 0.22 });
results[i][j].textContent = done ? number(weights[i][j]) : "";
const reason = `${number(exps[i][j], 0)} ÷ ${number(divisor(i, j), 0)}`;
reasons[i][j].textContent = done ? reason : "";
set(shares[i][j], { "fill-opacity": done ? 0.5 * weights[i][j] : 0 });
}
function paintSum(m, counted, moved) {
const { byRow, summed, total } = now;
const from = byRow ? beside(m) : below(m);
const [x, y] = between(from, shown.places[m], moved);
set(sums[m], { x, y });
const whole = Math.floor(counted + 1e-9);
const soFar = whole ? `${number(sum(summed[m].slice(0, whole)), 0)} +` : "";
const sign = moved < 1 ? "=" : "÷";
sums[m].textContent = counted >= n ? `${sign} ${number(total[m], 0)}` : soFar;
}
function paint(counted, moved, done) {
grid((i, j) => paintCell(i, j, counted, done));
each((m) => {
paintSum(m, counted, moved);
showBar(bars[m], shown.weights[m], done);
showBar(bars[n + m], shown.weights.map((row) => row[m]), done);
});
}
const go = motion();
function tell({ rows, columns }) {
const found = [
rows.every(one) && "Every row sums to 1",
columns.every(one) && "Every column sums to 1",
].filter(Boolean);
const what = found.join(". ") || "Neither rows nor columns sum to 1";
const list = (numbers) => numbers.map((x) => number(x)).join(" and ");
say(`${what}: rows ${list(rows)}, columns ${list(columns)}.`);
}
function change() {
const from = shown;
compute();
const to = { weights: now.weights, places: places() };
tell(now);
go(400, (t) => {
shown = {
weights: between(from.weights, to.weights, t),
places: between(from.places, to.places, t) };
paint(n, 1, 1);
});
}
function settle() {
compute();
shown = { weights: now.weights, places: places() };
}
async function count() {
settle();
say("Counting …");
if (!await go(1100, (t) => paint(t * n, 0, 0))) return;
if (!await go(700, (t) => paint(n, t, 0))) return;
if (!await go(700, (t) => paint(n, 1, t || 1e-3))) return;
tell(now);
}
function small({ name, exps }) {
const box = 16 * n;
const words = exps.flatMap((row, i) => row.map((x, j) => svg("text", { x: 16 * j + 8,
y: 16 * i + 12, "text-anchor": "middle",
style: "font-size: 12px; fill: currentColor" }, number(x, 0))));
const edges = svg("path", { fill: "none", stroke: "currentColor",
d: `M3 .5H.5V${box - 0.5}H3M${box - 3} .5H${box - 0.5}V${box - 0.5}H${box - 3}` });
return svg("svg", { width: box, height: box, viewBox: `0 0 ${box} ${box}`, role: "img",
"aria-label": name }, edges, ...words);
}
const picked = choices("Which matrix", matrices.map(small), chosen,
(i) => { chosen = i; change(); });
const inTwo = ([says, code]) => el("span", { style: "display: grid; text-align: center; "
+ "line-height: 1.25" }, el("span", {}, says), el("code", { style: "font-size: 12px; "
+ "background: none; border: 0; padding: 0; color: inherit" }, code));
const sumsOver = choices("Which sums", Object.entries(ways).map(inTwo), dim,
(i) => { dim = i; change(); });
const forget = toggle("without keepdim", forgotten, (on) => { forgotten = on; change(); });
view.append(
el("div", { class: "row", style: "margin: 0 0 12px" },
set(button("▶ Count", count), { class: "play" }), sumsOver),
root, said, more(el("div", { class: "row" }, forget, picked)));
if (!wide) set(said, { style: "min-height: 2.8em" });
settle();
paint(n, 1, 1);
tell(now);
expose(() => ({ exps: now.exps, way: way(), sums: now.total, weights: now.weights }));
}
for (const figure of document.querySelectorAll("figure[data-drawing=sums]")) begin(figure, draw);
})();
