(() => {
function draw(stage) {
const { view, viewWidth, data, el, svg, set, sum, between, number } = stage;
const { said, say, choices, motion, expose } = stage;
const { matrices } = data;
const wide = viewWidth >= 600;
const ways = { "along rows": "dim=-1", "along columns": "dim=0", "no keepdim": "dim=-1" };
let chosen = matrices.length - 1;
let way = 0;
const byRow = () => way !== 1;
const toRow = () => way === 0;
let now = {};
let shown = {};
const n = matrices[0].exps.length;
const cell = wide ? 72 : 54, gap = wide ? 104 : 86;
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
const share = (i, j) => {
const [x, y] = at(i, j, true);
return add(svg("rect", { x: x - cell / 2, y: y - cell / 2, width: cell, height: cell,
fill: "var(--w)", "fill-opacity": 0, stroke: "var(--faint)", "data-sym": "w" }));
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
const shares = grid(share);
const entries = grid((i, j) => add(text(...at(i, j))));
const onShares = (below, style) => grid((i, j) => {
const [x, y] = at(i, j, true);
return add(text(x, y + below, { style: `${style}; pointer-events: none` }));
});
const results = onShares(-9, bold);
const reasons = onShares(11, "font-size: 13px");
const frame = (opacity) => add(svg("rect", { rx: 7, fill: "var(--neutral)",
"fill-opacity": opacity, stroke: "var(--neutral)", "stroke-width": 1.75,
style: "pointer-events: none" }));
const frames = [0.16, 0].map((opacity) => each(() => frame(opacity)));
const sums = ["=", "÷"].map((sign) => each(() => ({ sign, node: add(text(0, 0,
{ style: bold })) })));
function lineOf(m, inRows, right) {
const [x, y] = inRows ? at(m, 0, right) : at(0, m, right);
const [w, h] = inRows ? [n * cell, cell] : [cell, n * cell];
const [left, above] = [x - cell / 2, y - cell / 2];
const side = right ? left - 22 : left + w + 20;
return { frame: [left + 4, above + 4, w - 8, h - 8],
place: inRows ? [side, y + 5] : [x, above + h + 23] };
}
const lines = () => [byRow(), toRow()].map((inRows, k) => each((m) => lineOf(m, inRows, k)));

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
const total = each((m) => sum(each((p) => (byRow() ? exps[m][p] : exps[p][m]))));
const divisor = (i, j) => total[toRow() ? i : j];
const weights = grid((i, j) => exps[i][j] / divisor(i, j));
const rows = weights.map(sum);
const columns = each((j) => sum(weights.map((row) => row[j])));
now = { exps, total, divisor, weights, rows, columns };
}
const one = (x) => number(x) === number(1);

function showBar({ parts, total }, weights) {
let x = left;
weights.forEach((weight, i) => {
const width = unit * weight;
set(parts[i], { x, width: Math.max(0, width - 1) });
x += width;
});
const whole = sum(weights);
total.textContent = `${number(whole)} ${one(whole) ? "✓" : "✗"}`;
set(total, { x: Math.max(x, end) + 8, style: one(whole) ? bold : "" });
}
function paintCell(i, j) {
const { exps, divisor } = now;
const weight = shown.weights[i][j];
entries[i][j].textContent = number(exps[i][j], 0);
results[i][j].textContent = number(weight);
reasons[i][j].textContent = `${number(exps[i][j], 0)} ÷ ${number(divisor(i, j), 0)}`;
set(shares[i][j], { "fill-opacity": 0.5 * weight });
}
function paintLine(k, m) {
const [x, y, width, height] = shown.frames[k][m];
set(frames[k][m], { x, y, width, height });
const [cx, cy] = shown.places[k][m];
const { sign, node } = sums[k][m];
set(node, { x: cx, y: cy }, `${sign} ${number(now.total[m], 0)}`);
}
function paint() {
grid(paintCell);
each((m) => {
for (const k of [0, 1]) paintLine(k, m);
showBar(bars[m], shown.weights[m]);
showBar(bars[n + m], shown.weights.map((row) => row[m]));
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
function laid() {
const [frames, places] = ["frame", "place"].map((part) =>
lines().map((side) => side.map((line) => line[part])));
return { weights: now.weights, frames, places };
}
function change() {
const from = shown;
compute();
const to = laid();
tell(now);
go(600, (t) => {
shown = Object.fromEntries(Object.keys(to).map((key) =>
[key, between(from[key], to[key], t)]));
paint();
});
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
const sumsOver = choices("Which sums", Object.entries(ways).map(inTwo), way,
(i) => { way = i; change(); });
view.append(
el("div", { class: "row", style: "margin: 0 0 12px" }, sumsOver, picked),
root, said);
if (!wide) set(said, { style: "min-height: 2.8em" });
compute();
shown = laid();
paint();
tell(now);
expose(() => ({ exps: now.exps, way, sums: now.total, weights: now.weights }));
}
for (const figure of document.querySelectorAll("figure[data-drawing=sums]")) begin(figure, draw);
})();
