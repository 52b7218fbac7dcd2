function engine(figure, { data, sum, softmax }) {
const { parts, steps, heads, rotary } = data.model;
function dot(a, b) {
let total = 0;
for (let i = 0; i < a.length; i++) total += a[i] * b[i];
return total;
}
function mix(weights, values) {
const total = values[0].map(() => 0);
values.forEach((value, j) => value.forEach((n, i) => { total[i] += weights[j] * n; }));
return total;
}

const product = (sizes) => sizes.reduce((a, b) => a * b, 1);
const rowsOf = (shape) => product(shape.slice(0, -1));
const ofAll = (count) => sum(parts.map(([, shape]) => count(shape)));
const [rows, size] = [ofAll(rowsOf), ofAll(product)];
const holder = figure.querySelector("script.weights");
const packed = holder.textContent || globalThis.weights[holder.getAttribute("data-name")];
const bytes = Uint8Array.from(atob(packed), (letter) => letter.charCodeAt(0));
const scales = new Float32Array(bytes.buffer, 0, steps.length * rows);
const whole = new Int8Array(bytes.buffer, scales.byteLength);
function weightsAt(step) {
let row = step * rows;
let at = step * size;
function nextRow(width) {
const scale = scales[row++];
const numbers = whole.subarray(at, at += width);
return Array.from(numbers, (n) => Math.fround(n * scale));
}
return Object.fromEntries(parts.map(([name, shape]) => {
const matrix = Array.from({ length: rowsOf(shape) }, () => nextRow(shape.at(-1)));
return [name, shape.length > 1 ? matrix : matrix[0]];
}));
}

const plus = (x, y) => x.map((vector, i) => vector.map((n, j) => n + y[i][j]));
function linear({ w }, name, x) {
const matrix = w[`${name}.weight`];
const bias = w[`${name}.bias`];
return x.map((vector) => matrix.map((row, i) => dot(row, vector) + (bias ? bias[i] : 0)));
}
function norm({ w }, name, x) {
const gain = w[`${name}.weight`];
const shift = w[`${name}.bias`];
if (!gain) return x;
return x.map((vector) => {
const mean = sum(vector) / vector.length;
const around = vector.map((n) => n - mean);
const deviation = Math.sqrt(dot(around, around) / vector.length + 1e-5);
return around.map((n, i) => n / deviation * gain[i] + shift[i]);
});
}
function split(x) {
const width = x[0].length / heads;
const part = (vector, h) => vector.slice(h * width, (h + 1) * width);
return Array.from({ length: heads }, (_, h) => x.map((vector) => part(vector, h)));
}
const turns = new Map();
function turnsAt(position, pairs) {
const turn = (_, i) => {
const angle = position * rotary ** (-i / pairs);
return [Math.cos(angle), Math.sin(angle)];
};
if (!turns.has(position)) turns.set(position, Array.from({ length: pairs }, turn));
return turns.get(position);
}
function rotated(vector, position) {
const half = vector.length / 2;
const by = turnsAt(position, half);
const [a, b] = [vector.slice(0, half), vector.slice(half)];
return [
...by.map(([cos, sin], i) => a[i] * cos - b[i] * sin),
...by.map(([cos, sin], i) => a[i] * sin + b[i] * cos),
];
}
const placed = (head) => (rotary ? head.map(rotated) : head);
function attention(run, name, x, memory, causal) {
const project = (kind, from) => split(linear(run, `${name}.${kind}_proj`, from));
const [q, k, v] = [project("q", x).map(placed), project("k", memory).map(placed),
project("v", memory)];
const score = (query, key) => dot(query, key) / Math.sqrt(key.length);
const scores = (query, i, keys) =>
keys.map((key, j) => (causal && j > i ? -Infinity : score(query, key)));
const weights = q.map((queries, h) =>
queries.map((query, i) => softmax(scores(query, i, k[h]))));
const contexts = weights.map((head, h) =>
head.map((row) => run.off.get(`${name} ${h}`) ?? mix(row, v[h])));
run.seen[name] = weights;
run.passed[name] = contexts;
return linear(run, `${name}.out_proj`, x.map((_, i) => contexts.flatMap((head) => head[i])));
}
function feedForward(run, name, x) {
const wide = linear(run, `${name}.up_proj`, x);
const ramps = wide.map((vector) => vector.map((n) => Math.max(0, n)));
return linear(run, `${name}.down_proj`, ramps);
}

function block(run, name, x, memory, causal) {
const has = (part) => `${name}.${part}.weight` in run.w;
const normed = (part) => norm(run, `${name}.${part}_norm`, x);
const own = normed("attention");
x = plus(x, attention(run, `${name}.attention`, own, own, causal));
if (has("cross.q_proj")) {
x = plus(x, attention(run, `${name}.cross`, normed("cross"), memory, false));
}
if (has("feed_forward.up_proj")) {
x = plus(x, feedForward(run, `${name}.feed_forward`, normed("feed_forward")));
}
return x;
}
function stack(run, name, x, memory, causal) {
const has = (i) => `${name}.blocks.${i}.attention.q_proj.weight` in run.w;
for (let i = 0; has(i); i++) x = block(run, `${name}.blocks.${i}`, x, memory, causal);
return norm(run, `${name}.norm`, x);
}
function embed({ w }, name, ids) {
const x = ids.map((id) => w[`${name}.table.weight`][id]);
const positions = w[`${name}.positions.weight`];
return positions ? plus(x, positions) : x;
}

const known = new Map();
function start(step, off = new Map()) {
if (!known.has(step)) known.set(step, weightsAt(step));
return { w: known.get(step), seen: {}, passed: {}, off };
}
const encode = (run, ids) => stack(run, "encoder", embed(run, "source", ids), null, false);
function decode(run, memory, ids) {
const x = stack(run, "decoder", embed(run, "target", ids), memory, true);
return x.map((vector) => run.w["target.table.weight"].map((row) => dot(row, vector)));
}
function read(run, ids) {
return linear(run, "lm_head", stack(run, "stack", embed(run, "embed", ids), null, true));
}
return { start, encode, decode, read, parts: { linear, norm, attention, embed, stack } };
}
