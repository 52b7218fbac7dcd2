(() => {
function draw(stage) {
const { figure, view, el, svg, set, number, plural, clamp } = stage;
const { said, say, slider, choices, onkeys, expose, keep } = stage;
const holder = figure.querySelector("script.weights");
const packed = holder.textContent || globalThis.weights[holder.getAttribute("data-name")];
const SMALL = 64, SHOWN = 20;
const LEAST = 12;
const LETTER = 9;
const SIDE = 22;

async function unpack() {
const text = atob(packed);
const bytes = new Uint8Array(text.length);
for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
const all = new Uint8Array(await new Response(stream).arrayBuffer());
const end = all.indexOf(10);
const about = JSON.parse(new TextDecoder().decode(all.subarray(0, end)));
return { ...about, bytes: all.subarray(end + 1) };
}
function placed(about) {
let at = 0;
for (const layer of about.layers) {
const { n_q, n_k, square } = layer;
const [rows, columns] = about.kept
? [Math.ceil(n_q / square[0]), Math.ceil(n_k / square[1])] : [n_q, n_k];
const one = rows * columns + (about.kept ? 3 * about.kept * n_q : 0);
const queries = named(about, layer.queries, n_q);
const keys = named(about, layer.keys, n_k);
Object.assign(layer, { rows, columns, at, one, queries, keys });
at += one * layer.heads;
}
}
const times = (n, f) => Array.from({ length: n }, (_, i) => f(i));
const named = (about, name, n) => (about.tokens[name] ?? times(n, String)).map(visible);
const visible = (token) => token.replace(/\n/g, "⏎").replace(/\t/g, "⇥") || "∅";
const short = (token) => (token.length > 12 ? `${token.slice(0, 11)}…` : token);
const share = (byte) => (byte / 255) ** 2;

const begin = (l, h) => layers[l].at + h * layers[l].one;
const inPicture = (l) => layers[l].rows * layers[l].columns;
const picture = (l, h) => about.bytes.subarray(begin(l, h), begin(l, h) + inPicture(l));
function keptPairs(l, h, i) {
const k = about.kept;
const b = about.bytes;
const from = begin(l, h) + inPicture(l) + k * i;
const far = k * layers[l].n_q;
const key = (j) => b[from + j] + 256 * b[from + far + j];
return times(k, (j) => [key(j), share(b[from + 2 * far + j])]);
}
function allPairs(l, h, i) {
const { n_k } = layers[l];
const from = begin(l, h) + i * n_k;
return times(n_k, (j) => [j, share(about.bytes[from + j])]);
}
function row(l, h, i) {
const pairs = about.kept ? keptPairs(l, h, i) : allPairs(l, h, i);
return pairs.filter(([, w]) => w > 0).sort((x, y) => y[1] - x[1]);
}
function small(l, h) {
const { rows, columns } = layers[l];
const data = picture(l, h);
const [high, wide] = [rows, columns].map((n) => Math.min(n, SMALL));
if (high === rows && wide === columns) return { data, high, wide };
const out = new Uint8Array(high * wide);
for (let i = 0; i < rows; i++) {
for (let j = 0; j < columns; j++) {
const to = Math.floor(i * high / rows) * wide + Math.floor(j * wide / columns);
out[to] = Math.max(out[to], data[i * columns + j]);
}
}
return { data: out, high, wide };
}
function isDark() {
const hues = getComputedStyle(view).color.match(/[\d.]+/g).slice(0, 3);
return hues.reduce((total, x) => total + Number(x), 0) > 380;
}
let purple = [142, 91, 208];
function paint(canvas, { data, high, wide }) {
const image = new ImageData(wide, high);
const [r, g, b] = purple;
for (let i = 0, at = 0; i < data.length; i++, at += 4) {
image.data[at] = r;
image.data[at + 1] = g;
image.data[at + 2] = b;
image.data[at + 3] = data[i];
}
set(canvas, { width: wide, height: high });
canvas.getContext("2d").putImageData(image, 0, 0);
}

let about;
let layers;
let cells = [];
let edge = 0;
let now = { l: 0, h: 0, i: 0, mode: 0, order: 0, way: 0 };
const grid = el("div", {
role: "group", "aria-label": "All heads; arrow keys go from head to head",
style: "overflow: auto; max-height: 34rem; padding: 3px" });
const nameOf = (l, h) => `layer ${l}, head ${h}`;
function scoresOf(l, h) {
const known = Object.entries(layers[l].scores).filter(([, s]) => s[h] !== null);
return known.map(([name, s]) => `${name} ${number(s[h])}`).join(", ");
}
const DOES = 0.5;
function topOf(l, h) {
const known = Object.entries(layers[l].scores).map(([name, s]) => [name, s[h] ?? 0]);
return known.reduce((a, b) => (b[1] > a[1] ? b : a), ["", 0]);
}
function doing(l, h) {
const [name, score] = topOf(l, h);
return score >= DOES ? name.replace(/ token$/, "") : "";
}
function nameBelow(l, h) {
const score = layers[l].scores[about.scores[now.order - 1]]?.[h];
if (!now.order) return doing(l, h) || "mixed";
return score == null ? `${l}.${h}` : `${l}.${h}: ${number(score)}`;
}
const namesFit = () => mostHeads() <= 4;
function cell(l, h) {
const canvas = el("canvas", { "aria-hidden": true,
style: "display: block; width: 100%; aspect-ratio: 1; image-rendering: pixelated; "
+ "box-sizing: border-box; border: 1px solid var(--faint); background: var(--paper)" });
const scores = scoresOf(l, h);
const node = el("button", {
type: "button", ...keep,
"aria-label": `${nameOf(l, h)}${scores && `: ${scores}`}`, title: nameOf(l, h),
onclick: () => choose({ l, h }), onkeydown: onkeys(steps, (by) => go(l, h, by)),
style: "min-height: 0; min-width: 0; padding: 0; border-radius: 0; border: none; "
+ "box-shadow: none; display: block; width: 100%" },
canvas, ...(namesFit() ? [el("span", { "aria-hidden": true, style: "display: block; "
+ "height: 18px; font-size: 12px; line-height: 17px; text-align: center; "
+ "white-space: nowrap" }, nameBelow(l, h))] : []));
const show = () => paint(canvas, small(l, h));
show();
return { l, h, node, canvas, show };
}
const steps = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
function ordered() {
const name = about.scores[now.order - 1];
const scoreOf = ({ l, h }) => layers[l].scores[name]?.[h] ?? -1;
return name ? [...cells].sort((a, b) => scoreOf(b) - scoreOf(a)) : cells;
}
const mostHeads = () => Math.max(...layers.map((layer) => layer.heads));
function below(l, h, down) {
const last = () => layers[l + down].heads - 1;
return cells.find((one) => one.l === l + down && one.h === Math.min(h, last()));
}
function go(l, h, [down, right]) {
const list = ordered();
const at = list.findIndex((one) => one.l === l && one.h === h);
const beside = now.order || right;
const to = beside ? list[at + right + down * mostHeads()] : below(l, h, down);
if (!to) return;
choose({ l: to.l, h: to.h });
to.node.focus();
}
function layerRow(layer, l, most) {
const label = el("span", {
style: "font-size: 12px; align-self: center; white-space: nowrap; color: var(--soft); "
+ "padding-right: 4px; text-align: right" }, namesFit() ? `layer ${l}` : `${l}`);
const own = cells.filter((one) => one.l === l).map((one) => one.node);
return [label, ...own, ...times(most - layer.heads, () => el("span"))];
}
const broad = () => view.clientWidth;
const widest = () => (namesFit() ? (broad() > 960 ? 128 : clamp(Math.floor(broad() / 9), 76, 108))
: clamp(Math.floor(240 / mostHeads()), 34, 56));
const inOneRow = () => !beside && layers.length > 1 && cells.length <= 8;
const above = (says, n) => el("span", { style: "font-size: 12px; line-height: 16px; "
+ `white-space: nowrap; color: var(--soft); grid-column: span ${n}` }, says);
function oneRow(sorted) {
const nodesOf = (l) => cells.filter((one) => one.l === l).map((one) => one.node);
const apart = (lists) => lists.flatMap((list, i) => (i ? [el("span"), ...list] : list));
if (sorted) {
const nodes = ordered().map((one) => one.node);
return [above("the highest score first", nodes.length), ...nodes];
}
return [...apart(layers.map(({ heads }, l) => [above(`layer ${l}`, heads)])),
...apart(layers.map((_, l) => nodesOf(l)))];
}
function arrangeRow(own) {
const sorted = now.order > 0;
const side = cells.length > 4 ? 40 : 70;
const columns = (n) => `repeat(${n}, minmax(14px, ${side}px))`;
const all = sorted ? columns(cells.length)
: layers.map(({ heads }) => columns(heads)).join(" 4px ");
set(grid, { style: `${own}; display: grid; gap: 2px; place-content: start; `
+ `grid-template-columns: ${all}` });
grid.replaceChildren(...oneRow(sorted));
}
function arrange() {
const own = grid.getAttribute("style").split("; display")[0];
const named = inOneRow() && cells.length > 4 ? "none" : "block";
for (const { l, h, node } of namesFit() ? cells : []) {
node.lastChild.style.display = named;
node.lastChild.textContent = nameBelow(l, h);
}
const highest = namesFit() ? "layer.head: score" : "highest first";
const unsorted = namesFit() ? "" : "layers ↓, heads →";
caption.textContent = inOneRow() ? "" : now.order ? highest : unsorted;
if (inOneRow()) arrangeRow(own);
else arrangeRows(own);
}
function arrangeRows(own) {
const most = mostHeads();
const sorted = now.order > 0;
const columns = `minmax(14px, ${widest()}px)`;
set(grid, { style: `${own}; display: grid; gap: ${namesFit() ? "6px 6px" : "2px"}; `
+ "place-content: start; "
+ `grid-template-columns: ${sorted ? "" : "auto "}repeat(${most}, ${columns})` });
const nodes = sorted ? ordered().map((one) => one.node)
: layers.flatMap((layer, l) => layerRow(layer, l, most));
grid.replaceChildren(...nodes);
for (const { l, h, node } of cells) {
const group = layers[l].heads / layers[l].kv_heads;
node.style.marginLeft = !sorted && group > 1 && h % group === 0 && h ? "3px" : "";
}
}

const matrix = el("canvas", {
role: "img",
style: "display: block; width: 100%; height: 100%; image-rendering: pixelated" });
const marker = el("div", {
style: "position: absolute; left: 0; right: 0; pointer-events: none; "
+ "outline: 2px solid var(--rose)" });
const frames = svg("svg", { "aria-hidden": true, preserveAspectRatio: "none",
style: "position: absolute; inset: 0; width: 100%; height: 100%; pointer-events: none" });
const board = el("div", {
style: "position: relative; border: 1px solid var(--soft); touch-action: pan-y; "
+ "cursor: crosshair" }, matrix, frames, marker);
const names = { left: el("div"), top: el("div") };
const HIGH = 30;
const arcs = svg("svg", { "aria-hidden": true, width: "100%", preserveAspectRatio: "none",
style: "overflow: visible" });
const overBoard = el("div", {}, arcs, names.top);
const framed = el("div", { style: "display: grid; justify-content: start" }, el("span"),
overBoard, names.left, board);
function pointed(e) {
const { n_q, rows, columns, square } = layers[now.l];
const box = board.getBoundingClientRect();
const i = clamp(Math.floor((e.clientY - box.top) / box.height * rows), 0, rows - 1);
const j = clamp(Math.floor((e.clientX - box.left) / box.width * columns), 0, columns - 1);
now.j = j;
choose({ i: about.kept ? clamp(i * square[0], 0, n_q - 1) : i }, squareSays(i, j));
}
board.addEventListener("pointerdown", pointed);
board.addEventListener("pointermove", (e) => { if (e.pointerType === "mouse") pointed(e); });
function squareSays(i, j) {
const { n_q, n_k, columns, square, queries, keys } = layers[now.l];
const w = number(share(picture(now.l, now.h)[i * columns + j]));
if (!about.kept) return `“${queries[i]}” (${i}) attends to “${keys[j]}” (${j}): ${w}. `;
const part = (at, size, n) => `${at * size} to ${Math.min(n, (at + 1) * size) - 1}`;
const [from, to] = [part(i, square[0], n_q), part(j, square[1], n_k)];
return `Queries ${from} give keys ${to} ${w} of their weights. `;
}
function sizeOfMatrix() {
const { rows, columns } = layers[now.l];
return inOneRow() ? 256 : clamp(Math.max(rows, columns) * SIDE, 340, 448);
}
function showMatrix() {
const { rows, columns, square } = layers[now.l];
paint(matrix, { data: picture(now.l, now.h), high: rows, wide: columns });
const whose = `Weights of ${nameOf(now.l, now.h)}`;
set(matrix, { "aria-label": `${whose}: a row for each query, a column for each key` });
const aspect = Math.max(columns, rows / 4) / Math.max(rows, columns / 8);
const width = sizeOfMatrix() * Math.min(1, aspect);
framed.style.gridTemplateColumns = `minmax(${edge}px, auto) minmax(0, ${width}px)`;
board.style.aspectRatio = aspect;
const at = about.kept ? Math.floor(now.i / square[0]) : now.i;
Object.assign(marker.style, { top: `${100 * at / rows}%`, height: `${100 / rows}%` });
showNames(Math.min(width, shown.clientWidth - 70));
}
function showArcs(fits) {
const { columns, queries, keys } = layers[now.l];
const alike = fits && queries.join() === keys.join();
const found = row(now.l, now.h, now.i).filter(([, w]) => w >= 0.05);
const d = (j) => {
const [from, to] = [now.i, j].map((at) => at + 0.5);
const wide = j === now.i ? 1 : 0;
return `M${from} ${HIGH}C${from + wide} -8 ${to - wide} -8 ${to} ${HIGH}`;
};
set(arcs, { viewBox: `0 0 ${columns} ${HIGH}`, height: alike ? HIGH : 0 });
arcs.replaceChildren(...(alike ? found : []).map(([j, w], rank) => svg("path", { d: d(j),
fill: "none", stroke: "var(--w)", "stroke-width": 1 + 3 * w, "stroke-linecap": "round",
opacity: rank ? 0.3 : 1, "vector-effect": "non-scaling-stroke" })));
}
function showNames(width) {
const { rows, columns, queries, keys } = layers[now.l];
const fits = !about.kept && width / Math.max(columns, rows) >= LEAST;
const best = row(now.l, now.h, now.i)[0]?.[0];
axis(names.left, fits ? queries : [], "rows", "q", now.i);
axis(names.top, fits ? keys : [], "columns", "k", best);
showArcs(fits);
showFrames(fits);
}

const COUNTED = {
"previous token": ["the token before", (i, j) => j === i - 1],
"first token": ["the first token", (_, j) => j === 0],
"same token": ["the same token, earlier", (i, j, tokens) => j < i && tokens[i] === tokens[j]],
induction: ["what followed the same token",
(i, j, tokens) => j > 0 && j <= i && tokens[i] === tokens[j - 1]],
};
const counting = () => about.scores[now.order - 1]
?? (doing(now.l, now.h) && topOf(now.l, now.h)[0]);
const dashed = { fill: "none", stroke: "var(--soft)", "stroke-width": 0.05,
"stroke-dasharray": "0.15 0.1" };
const squareAt = (j, i) =>
svg("rect", { x: j + 0.06, y: i + 0.06, width: 0.88, height: 0.88, ...dashed });
const sample = svg("svg", { width: 18, height: 18, viewBox: "0 0 1 1", "aria-hidden": true },
squareAt(0, 0));
function showFrames(fits) {
const { n_q, n_k, queries, keys } = layers[now.l];
const name = fits && queries.join() === keys.join() ? counting() : "";
const [says, counts] = COUNTED[name] ?? ["", () => false];
const rowOf = (i) => times(n_k, (j) => j).filter((j) => counts(i, j, keys))
.map((j) => squareAt(j, i));
set(frames, { viewBox: `0 0 ${n_k} ${n_q}` }).replaceChildren(...times(n_q, rowOf).flat());
framedSays.replaceChildren(...(says ? [sample, `${name}: ${says}`] : []));
}

const edgeOf = () => 6 + 7 * Math.max(0, ...layers.flatMap(({ queries, n_q }) =>
(n_q * LEAST <= 448 && !about.kept ? queries.map((token) => brief(token).length) : [])));
function axis(node, words, way, hue, chosen) {
const upright = way === "columns" && words.some((word) => word.length > 2);
const turned = upright ? "writing-mode: vertical-rl; transform: rotate(180deg);" : "";
const bold = (i) => (i === chosen ? "-webkit-text-stroke: 0.5px;" : "");
const [place, line] = way === "rows" ? ["text-align: right; padding-right: 6px", "center"]
: ["justify-self: center; padding-block: 2px", "end"];
node.style.cssText = `display: grid; grid-template-${way}: repeat(${words.length || 1}, `
+ `minmax(0, 1fr)); align-items: ${line}; font-size: 12px; line-height: 1.25; `
+ `height: ${way === "rows" ? "100%" : "auto"}; `
+ `color: color-mix(in srgb, var(--ink-${hue}) 60%, currentColor)`;
node.replaceChildren(...words.map((word, i) => el("span", { "aria-hidden": true,
style: `white-space: nowrap; ${turned}${bold(i)}${place}` }, brief(word))));
}
const brief = (token) => (token.length > 9 ? `${token.slice(0, 8)}…` : token);

const WIDTH = 400;
const fromLine = () => (inOneRow() ? 19 : 22);
const lineAt = (at) => 14 + fromLine() * at;
function around(n) {
const first = clamp(now.i - SHOWN / 2, 0, Math.max(0, n - SHOWN));
return times(Math.min(n, SHOWN), (k) => first + k);
}
function wanted(rows, n_k) {
if (n_k <= SHOWN) return times(n_k, (j) => j);
const total = new Map();
const add = (j, w) => total.set(j, (total.get(j) ?? 0) + w);
rows.forEach(([i, list]) => list.forEach(([j, w]) => add(j, i === now.i ? 100 * w : w)));
const most = [...total].sort((a, b) => b[1] - a[1]).slice(0, SHOWN);
return most.map(([j]) => j).sort((a, b) => a - b);
}
function lineOf(chosen, w, from, to) {
const look = chosen
? { stroke: "var(--rose)", "stroke-width": 1 + 4 * w, opacity: Math.max(0.25, w) }
: { stroke: "var(--w)", "stroke-width": 2, opacity: w * 0.7 };
return svg("line", { x1: 135, x2: WIDTH - 135, y1: lineAt(from), y2: lineAt(to), ...look });
}
const bold = (chosen) => (chosen ? "font-weight: 700;" : "");
const leftText = (token, i, at) => svg("text", {
x: 130, y: lineAt(at) + 5, "text-anchor": "end",
style: `${bold(i === now.i)} cursor: pointer`, onclick: () => choose({ i }) },
`${short(token)} ${i}`);
const rightText = (token, j, at) => svg("text", {
x: WIDTH - 130, y: lineAt(at) + 5, "text-anchor": "start", style: " " },
`${j} ${short(token)}`);
function showLines() {
const { n_q, n_k, queries, keys } = layers[now.l];
const rows = around(n_q).map((i) => [i, row(now.l, now.h, i)]);
const right = wanted(rows, n_k);
const tall = fromLine() * Math.max(rows.length, right.length) + 8;
const seen = (list) => list.filter(([j, w]) => right.includes(j) && w >= 0.01);
const lines = rows.flatMap(([i, list], at) =>
seen(list).map(([j, w]) => lineOf(i === now.i, w, at, right.indexOf(j))));
const says = `Lines from queries to keys of ${nameOf(now.l, now.h)}`;
const size = { viewBox: `0 0 ${WIDTH} ${tall}`, style: `width: min(100%, ${WIDTH}px)` };
lined.replaceChildren(
el("p", { style: "margin: 0; font-size: 13px" }, "queries on the left, keys on the right"),
svg("svg", { ...size, role: "img", "aria-label": says },
...lines,
...rows.map(([i], at) => leftText(queries[i], i, at)),
...right.map((j, at) => rightText(keys[j], j, at))));
}

function alike() {
const mine = layers[now.l];
const fits = (layer) => layer.kind === mine.kind
&& layer.queries.length === mine.queries.length && layer.keys.length === mine.keys.length;
return layers.map((_, l) => l).filter((l) => fits(layers[l]));
}
function through(l, which = now.way === THIS ? [headIn(l)] : headsOf(l)) {
const total = new Float64Array(layers[l].n_k);
for (const h of which) for (const [j, w] of row(l, h, now.i)) total[j] += w / which.length;
return total;
}
const EVERY = 0, THIS = 2;
const headsOf = (l) => times(layers[l].heads, (h) => h);
const headIn = (l) => Math.min(now.h, layers[l].heads - 1);
const rowsOf = (l) => (now.way === EVERY ? headsOf(l).map((h) => through(l, [h])) : [through(l)]);
function highOf(l) {
const all = Math.min(sizeOfMatrix(), view.clientWidth - 16) - 50;
return clamp(Math.floor(all / alike().length) - 6, 16, 40 * layers[l].heads);
}
const roomy = (l) => highOf(l) / layers[l].heads >= 14;
const which = choices("heads", ["every head", "their mean", "this head"], 0,
(way) => choose({ way }));
const strips = [];
const keysAbove = el("div");
const stack = el("div", {
style: "display: grid; gap: 6px 8px; max-height: 27rem; overflow: auto; padding: 2px; "
+ "font-size: 12px" });
function strip(l) {
const canvas = el("canvas", { "aria-hidden": true,
style: "display: block; width: 100%; height: 100%; image-rendering: pixelated" });
const press = el("button", {
type: "button", ...keep, onclick: () => choose({ l }),
style: "min-height: 16px; padding: 0 0.4rem; font-size: 12px; justify-content: center" },
namesFit() ? `layer ${l}` : `${l}`);
const says = el("div", { style: "display: grid; height: 100%; white-space: nowrap; "
+ "align-items: center; line-height: 1.15" });
const framed = el("div", { style: "border: 1px solid var(--faint)" }, canvas);
return { canvas, framed, press, says, all: [press, framed, el("div", {}, says)] };
}
const bestOf = (weights) => weights.reduce((best, w, j) => (w > weights[best] ? j : best), 0);
function mostOf(l, weights) {
const best = bestOf(weights);
const key = brief(layers[l].keys[best]);
return weights[best] > 0 ? `${key} ${number(weights[best])}` : "nothing";
}
function fill(l) {
const { canvas, framed, press, says } = strips[l];
const rows = rowsOf(l);
const data = rows.flatMap((weights) => Array.from(weights, (w) => 255 * Math.sqrt(w)));
paint(canvas, { data, high: rows.length, wide: layers[l].n_k });
framed.style.height = `${highOf(l)}px`;
const most = mostOf(l, through(l));
const each = rows.length > 1 && roomy(l);
const lines = each ? rows.map((one, h) => lineOfHead(l, h, mostOf(l, one))) : [most];
says.replaceChildren(...lines);
set(press, {
"aria-pressed": String(l === now.l), "aria-label": `layer ${l}: most to ${most}` });
}
const lineOfHead = (l, h, most) =>
el("span", { style: bold(l === now.l && h === now.h) }, `head ${h}: ${most}`);
function showThrough() {
const list = alike();
strips.forEach(({ all }, l) => {
for (const node of all) node.style.display = list.includes(l) ? "" : "none";
});
const { n_k, keys } = layers[now.l];
const longest = Math.max(...keys.map((key) => brief(key).length));
stack.style.gridTemplateColumns = `auto minmax(0, 1fr) calc(${longest}ch + 6.25rem)`;
list.forEach(fill);
const least = Math.min(LEAST, LETTER * longest);
const fits = strips[now.l].framed.clientWidth / n_k >= least;
axis(keysAbove, fits && !about.kept ? keys : [], "columns", "k", bestOf(through(now.l)));
}

const heading = el("p", { style: "margin: 0 0 0.3rem; font-weight: 600" });
const lined = el("div");
const modes = ["Matrix", "Lines", "All layers"];
const shows = [showMatrix, showLines, showThrough];
const framedSays = el("div", { style: "display: flex; align-items: center; gap: 6px; "
+ "min-height: 26px; font-size: 13px" });
const panels = [el("div", {}, framed, framedSays), lined, el("div", {}, which, stack)];
const shown = el("div", { style: "min-width: 0; max-width: 36rem" }, ...panels);
const caption = el("div", { style: "font-size: 13px; white-space: nowrap; color: var(--soft)" });
const query = slider("query", {
min: 0, max: 1, step: 1, value: 0, input: (i) => choose({ i }),
text: (i) => (layers ? `${short(layers[now.l].queries[i])} (${i})` : "") });
function choose(change, before = "") {
const moved = "l" in change || "h" in change;
now = { ...now, ...change };
const { n_q, heads, name } = layers[now.l];
now = { ...now, h: Math.min(now.h, heads - 1), i: clamp(now.i, 0, n_q - 1) };
for (const one of cells) mark(one, one.l === now.l && one.h === now.h);
query.move(now.i, n_q - 1);
const does = doing(now.l, now.h);
set(heading, { title: name },
`Layer ${now.l}, head ${now.h}${does && `: ${does}`}${shared()}`);
panels.forEach((panel, mode) => { panel.hidden = mode !== now.mode; });
shows[now.mode]();
const which = `Layer ${now.l}, head ${now.h}${scoreSaid()}. `;
say(`${before}${moved && now.mode < 2 ? which : ""}${told()}`);
}
function scoreSaid() {
const name = about.scores[now.order - 1] ?? topOf(now.l, now.h)[0];
const score = layers[now.l].scores[name]?.[now.h];
return score == null ? "" : `: ${name} ${number(score)}`;
}
function mark({ node, canvas }, on) {
set(node, { tabindex: on ? 0 : -1, "aria-pressed": String(on) });
canvas.style.outline = on ? "3px solid var(--rose)" : "";
node.style.fontWeight = on ? 700 : "";
}
function shared() {
const { heads, kv_heads } = layers[now.l];
const group = heads / kv_heads;
const first = Math.floor(now.h / group) * group;
return group > 1 ? ` (heads ${first} to ${first + group - 1} share keys)` : "";
}
function told() {
return now.mode === 2 ? toldOfLayers() : toldOfHead();
}
function toldOfLayers() {
const most = alike().map((l) => `in layer ${l} most to ${mostOf(l, through(l))}`).slice(0, 4);
const whose = now.way === THIS ? `Head ${now.h}` : "The mean of the heads";
return `“${layers[now.l].queries[now.i]}” (${now.i}) through all layers. `
+ `${whose} attends ${most.join(", ")}${alike().length > 4 ? ", …" : ""}.`;
}
function toldOfHead() {
const { queries, keys } = layers[now.l];
const whole = row(now.l, now.h, now.i);
const list = whole.filter(([, w], at) => w >= 0.005 || at === 0).slice(0, 4);
const each = list.map(([j, w]) => `“${keys[j]}” (${j}) ${number(w)}`).join(", ");
return `“${queries[now.i]}” (${now.i}) attends to ${each || "nothing"}.`;
}
function thinned() {
if (!about.kept) return "";
const squares = new Set(layers.map((one) => one.square.join(" × ")));
const kept = `${plural(about.kept, "largest weight")} ${about.kept === 1 ? "is" : "are"} kept`;
return "There are too many weights for a file: the pictures show squares of "
+ `${[...squares].join(", ")} tokens, and of each query the ${kept}.`;
}
function repaint() {
const colour = isDark() ? [186, 148, 250] : [142, 91, 208];
if (colour[0] === purple[0]) return;
purple = colour;
for (const one of cells) one.show();
if (cells.length) choose({});
}
function sorter() {
const orders = ["as in the model", ...about.scores];
now.order = about.scores.indexOf(about.order) + 1;
const select = el("select", { ...keep, "aria-label": "order of heads",
onchange: () => { now.order = select.selectedIndex; arrange(); choose({ h: now.h }); } },
...orders.map((name, i) => el("option", { selected: i === now.order }, name)));
return el("label", { class: "row", style: "margin-top: 0" }, "order of heads", select);
}
let beside;
const isWide = () => view.clientWidth >= 390 + mostHeads() * (widest() + 2);
function layOut(controls) {
beside = isWide();
set(said, { style: beside ? "width: 0; min-width: 100%; margin-top: 0.6rem; min-height: 5.6em"
: "margin-top: 0.6rem" });
const gap = inOneRow() ? "4px" : "8px";
const two = `display: grid; grid-template-columns: ${beside ? "auto " : ""}minmax(0, 1fr); `
+ `gap: ${beside ? "4px 32px" : gap}`;
const small = { style: "font-size: 13px; margin: 0.3rem 0" };
const [mode, order] = controls;
const left = el("div", { style: "min-width: 0" },
...(beside ? [order, caption, grid, said] : [caption, grid]));
const right = el("div", { style: "min-width: 0" }, heading, query, mode, shown);
view.replaceChildren(el("div", { style: two }, left, right, ...(beside ? [] : [said, order])),
...(about.kept ? [el("p", small, thinned())] : []));
}
function keepLaidOut(controls) {
layOut(controls);
if (typeof ResizeObserver === "undefined") return;
const again = () => {
if (isWide() === beside) return;
layOut(controls);
arrange();
choose({});
};
new ResizeObserver(again).observe(view);
}
function tell() {
expose(() => ({
...now, said: said.textContent, row: row(now.l, now.h, now.i),
order: ordered().map(({ l, h }) => [l, h]), through: Array.from(through(now.l)),
picture: Array.from(picture(now.l, now.h), share),
}));
}
function start(found) {
about = found;
layers = about.layers;
placed(about);
edge = edgeOf();
repaint();
const watched = [document.documentElement, document.body];
for (const node of watched) new MutationObserver(repaint).observe(node, { attributes: true });
matchMedia("(prefers-color-scheme: dark)")
.addEventListener("change", () => requestAnimationFrame(repaint));
cells = layers.flatMap((layer, l) => Array.from({ length: layer.heads }, (_, h) => cell(l, h)));
const mode = choices("show", modes, 0, (chosen) => choose({ mode: chosen }));
strips.push(...layers.map((_, l) => strip(l)));
stack.replaceChildren(el("span"), keysAbove, el("span"), ...strips.flatMap(({ all }) => all));
keepLaidOut([mode, sorter()]);
arrange();
begins();
tell();
}
function begins() {
const clear = ({ l, h }) => (doing(l, h) ? topOf(l, h)[1] : 0);
const best = (list) => list.reduce((a, b) => (clear(b) > clear(a) ? b : a));
const copying = cells.filter(({ l, h }) => doing(l, h) === "induction");
const layer = cells.find(clear)?.l ?? 0;
const { l, h } = best(copying.length ? copying : cells.filter((one) => one.l === layer));
const { n_q } = layers[l];
choose({ l, h, i: copying.length ? Math.floor(n_q * 5 / 6) : Math.min(n_q - 1, 5) });
}
unpack().then(start);
}
for (const figure of document.querySelectorAll("figure[data-drawing=head_view]")) begin(figure, draw);
})();
