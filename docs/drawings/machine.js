(() => {
function draw(stage) {
const { figure, view, viewWidth, data, el, svg, set, clamp, softmax } = stage;
const { sum, number, grouped } = stage;
const { said, say, legendOf, wash, slider, player, motion, expose, keep } = stage;
const { names, n_blocks, parts } = data;
const wide = viewWidth >= 600;
const roomy = viewWidth >= 900;
const [plus, equals] = [10, 11];
const { start, parts: by } = engine(figure, { data, sum, softmax });
let a = data.a;
let b = data.b;
let at = 4;

const steps = [0, 1, 2].map((part) => [part, 0]);
for (let block = 0; block < n_blocks; block++) {
steps.push(...[3, 4, 5, 6, 7, 8].map((part) => [part, block]));
}
steps.push(...[9, 10, 11, 12].map((part) => [part, n_blocks - 1]));
const inBlock = (part) => part > 2 && part < 9;
const stepOf = (part, block) =>
steps.findIndex(([p, of]) => p === part && (!inBlock(part) || of === block));

const add = (x, y) => x.map((row, i) => row.map((n, j) => n + y[i][j]));
const relu = (row) => row.map((n) => Math.max(0, n));
const tint = (value, most) => ({
fill: `var(--${value < 0 ? "rose" : "neutral"})`,
"fill-opacity": clamp(Math.abs(value) / most, 0, 1).toFixed(3),
});
const largest = (rows) => Math.max(...rows.flat().map(Math.abs), 1e-9);
const dot = (x, y) => sum(x.map((n, i) => n * y[i]));
function through(run, x, block) {
const name = `stack.blocks.${block}`;
const layer = `${name}.feed_forward`;
const first = by.norm(run, `${name}.attention_norm`, x);
const attended = by.attention(run, `${name}.attention`, first, first, true);
const between = add(x, attended);
const second = by.norm(run, `${layer}_norm`, between);
const inner = by.linear(run, `${layer}.up_proj`, second).map(relu);
const fed = by.linear(run, `${layer}.down_proj`, inner);
const end = add(between, fed);
const [before, after] = ["residual stream", "= residual stream"];
const bits = `${inner[0].length} ${wide ? "numbers, " : ""}after ReLU`;
const [attention, feedForward] = ["attention", "feed-forward"].map((part) =>
(wide ? `from ${part}` : part));
return [
{ sheets: [[before, x], ["normalized", first]], out: first },
{ weights: run.seen[`${name}.attention`], sheets: [[attention, attended]], out: attended },
{ sheets: [[before, x], [`+ ${attention}`, attended], [after, between]], out: between },
{ sheets: [[before, between], ["normalized", second]], out: second },
{ sheets: [[bits, inner], [feedForward, fed]], out: fed },
{ sheets: [[before, between], [`+ ${feedForward}`, fed], [after, end]], out: end }];
}
function compute() {
const ids = [a, plus, b, equals];
const run = start(data.model.steps.length - 1);
const table = run.w["embed.table.weight"];
const places = run.w["embed.positions.weight"];
const picked = ids.map((id) => table[id]);
const x = by.embed(run, "embed", ids);
const both = [["token embedding", picked], ["+ position vectors", places]];
const found = [{ ids }, { sheets: [["token embedding", picked]], out: picked },
{ sheets: [...both, ["= residual stream", x]], out: x }];
for (let block = 0; block < n_blocks; block++) {
found.push(...through(run, found.at(-1).out, block));
}
const last = found.at(-1).out;
const end = by.norm(run, "stack.norm", last);
const logits = end.map((row) => table.map((one) => dot(one, row)));
const chances = logits.map(softmax);
const shares = chances.at(-1);
const next = shares.indexOf(Math.max(...shares));
found.push({ sheets: [["residual stream", last], ["normalized", end]], out: end },
{ outcome: { logits: logits.at(-1) }, out: logits },
{ outcome: { logits: logits.at(-1), shares }, out: chances },
{ outcome: { logits: logits.at(-1), shares, next } });
return { ids, found, next, chance: shares[next] };
}

const quiet = { "aria-hidden": true, "pointer-events": "none" };
const text = (x, y, says, more = {}) => svg("text", { x, y, ...quiet, ...more }, says);
const stroke = { fill: "none", stroke: "currentColor", "stroke-width": 1.5 };
const line = (d, more = {}) => svg("path", { d, ...stroke, ...more });
const middle = { "text-anchor": "middle" };
const small = { ...middle, style: "font-size: 12px" };
const bold = { style: "font-weight: 600" };
const heading = { style: "font-size: 13px; font-weight: 600" };
const pick = (large, middling, little) => (roomy ? large : wide ? middling : little);
const [room, left, high, apart] = pick([560, 28, 25, 126], [336, 24, 22, 116], [148, 20, 17, 98]);
const picture = (width, height, style) =>
svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", style });
const board = picture(room, 290, "min-width: 0; max-width: 100%; height: auto");
function shaded(value, most, box, digits) {
const { x, y, width, height } = box;
const said = text(x + width / 2, y + height / 2 + 4.5, number(value, 1), small);
const square = svg("rect", { ...box, ...tint(0.7 * value, most), stroke: "var(--faint)" });
return digits ? [square, said] : [square];
}
const framed = (x, y, width, height) => svg("rect", { x, y, width, height, rx: 3, fill: "none",
stroke: "var(--control)", "stroke-width": 2.5, "pointer-events": "none" });
const noteAt = (x, y) => text(x, y, "the framed row becomes the answer",
{ "text-anchor": "end", style: "font-size: 12px; fill: var(--soft)" });
const here = { room, left, high, digits: wide };
function vectors([title, rows], top, now, { room, left, high, digits } = here) {
const cell = (room - left - 2) / rows[0].length;
const most = largest(rows);
const barred = (value, x, y) => [svg("rect", { x, y: y + high - 4 - 12 * value / most,
width: cell - 1, height: 12 * value / most, fill: "var(--neutral)" })];
const entry = (value, x, y) => (cell < 10 ? barred(value, x, y)
: shaded(value, most, { x, y, width: cell - 1, height: high - 2 }, digits));
return [text(0, top + 13, title, heading), ...rows.flatMap((row, i) => {
const y = top + 20 + high * i;
const base = line(`M${left} ${y + high - 4}H${room - 2}`, { stroke: "var(--faint)" });
const name = text(digits ? 2 : 5, y + high / 2 + 4, names[now.ids[i]], bold);
return [name, ...(cell < 10 ? [base] : []),
...row.flatMap((value, j) => entry(value, left + cell * j, y))];
})];
}
const [side, broad, tall, ground] = pick([34, 270, 0, 34], [29, 168, 0, 34], [28, 0, 172, 34]);
function heads(weights, now) {
const size = { width: side - 1, height: side - 1 };
const look = (w) => ({ fill: "var(--w)", "fill-opacity": 0.08 + 0.6 * w, "data-sym": "w" });
const percent = (w, x, y) => text(x + side / 2, y + side / 2 + 4.5, Math.round(100 * w),
small);
const square = (w, x, y) => [svg("rect", { x, y, ...size, ...look(w) }),
percent(w, x, y)];
return weights.flatMap((rows, h) => {
const x = broad * h + left;
const rowAt = (i) => tall * h + ground + side * i;
const title = `head ${h}${wide ? ": weights" : ""}, %`;
return [text(broad * h, tall * h + 13, title, heading), ...rows.flatMap((row, i) => [
text(broad * h + 4, rowAt(i) + side / 2 + 4.5, names[now.ids[i]], bold),
text(x + side * (i + 0.5), rowAt(0) - 5, names[now.ids[i]], small),
...row.slice(0, i + 1).flatMap((w, j) => square(w, x + side * j, rowAt(i)))])];
});
}
function tokens(now) {
const frame = { width: 44, height: 30, rx: 5, fill: "none", stroke: "var(--soft)" };
const large = { ...middle, style: "font-weight: 600; font-size: 16px" };
return now.ids.flatMap((id, i) => [svg("rect", { x: 4, y: 28 + 42 * i, ...frame }),
text(26, 49 + 42 * i, names[id], large), text(94, 48 + 42 * i, `id ${id}`),
line(`M54 ${43 + 42 * i}H84`, { stroke: "var(--soft)" })]);
}
const [zero, reach, from, whole100] =
pick([130, 92, 290, 240], [88, 56, 188, 120], [50, 24, 92, 54]);
const [rowHigh, begins, chipped] = wide ? [25, 38, 20] : [21, 36, 14];
const smaller = { style: "font-size: 12px" };
const soft = `fill: var(--soft); ${smaller.style}`;
const edgeOfLogit = (value, most) => {
const width = Math.max(1, reach * Math.abs(value) / most);
return { x: value < 0 ? zero - width : zero, width };
};
function axes(logits, shares) {
const foot = begins + rowHigh * logits.length;
const tick = (part, says, anchor) => [
line(`M${from + part * whole100} ${begins - 4}V${foot}`, { stroke: "var(--faint)" }),
text(from + part * whole100, begins - 8, says, { "text-anchor": anchor, style: soft })];
return [text(0, 13, wide ? "next token: logit" : "logit", heading),
text(from + whole100, 13, "probability", { "text-anchor": "end",
style: shares ? heading.style : `${soft}; ${heading.style}` }),
line(`M${zero} ${begins - 4}V${foot}`, { stroke: "var(--faint)" }),
text(zero, begins - 8, "0", { ...middle, style: soft }),
...tick(0, "0", "middle"), ...tick(0.5, wide ? "50" : "", "middle"),
...tick(1, "100%", "end")];
}
function logitOf(value, y, most) {
const side = value < 0 ? { x: zero + 4, "text-anchor": "start" }
: { x: zero - 4, "text-anchor": "end" };
const look = { fill: `var(--${value < 0 ? "rose" : "neutral"})`, "fill-opacity": 0.6, rx: 2 };
return [
svg("rect", { ...edgeOfLogit(value, most), y: y + 3, height: rowHigh - 6, ...look }),
text(side.x, y + rowHigh / 2 + 4.5, number(value, 1), { ...side, ...smaller })];
}
function shareOf(share, y, logit, t) {
const begin = edgeOfLogit(logit, 1);
const [x, width] = [[begin.x, from], [begin.width, Math.max(1, share * whole100)]]
.map(([before, after]) => before + (after - before) * t);
const inside = share * whole100 > 44;
const label = { "text-anchor": inside ? "end" : "start",
style: inside ? "font-size: 12px; font-weight: 600; fill: #fff" : soft };
const says = t < 1 ? "" : `${number(100 * share, 1)}%`;
const box = { x, width, y: y + 3, height: rowHigh - 6, rx: 2 };
return [svg("rect", { ...box, fill: "var(--neutral)" }),
text(from + share * whole100 + (inside ? -5 : 5), y + rowHigh / 2 + 4.5, says, label)];
}
function picked(y) {
const all = { x: 0, y: y + 0.5, width: room - 2, height: rowHigh - 1, rx: 5 };
return [svg("rect", { ...all, fill: "var(--rest)", stroke: "var(--control)",
"stroke-width": 2 }),
svg("rect", { ...all, width: chipped, fill: "var(--control)" })];
}
function outcomes({ logits, shares, next }, t) {
const most = largest(logits);
return [...axes(logits, shares), ...logits.flatMap((value, i) => {
const y = begins + rowHigh * i;
const ink = i === next ? `${bold.style}; fill: var(--paper)` : bold.style;
return [...(i === next ? picked(y) : []),
text(chipped / 2, y + rowHigh / 2 + 5, names[i], { ...middle, style: ink }),
...logitOf(value, y, most),
...(shares ? shareOf(shares[i], y, value / most, t) : [])];
})];
}
const strip = picture(356, 102,
`max-width: 100%; margin-top: 8px; ${wide ? "display: none" : ""}`);
function last(now, { ids, outcome, sheets }) {
if (ids) return [];
if (outcome) return last(now, now.found.at(-4));
const at = { room: 356, left: 28, high: 20, digits: true };
return [...vectors(sheets.at(-1), 0, now, at), noteAt(355, 13),
framed(26.5, 79.5, 329, 20)];
}
const below = (weights) => (weights ? ground + 4 * side + 14 : 0);
function highOf({ ids, weights, sheets, outcome }) {
if (!wide) return 340;
if (ids) return 190;
if (outcome) return begins + 2 + rowHigh * outcome.logits.length;
return below(weights) + apart * sheets.length - 4;
}
function contents(now, { ids, weights, sheets, outcome }, t) {
if (ids) {
const title = text(0, 13, wide ? "ids in the vocabulary" : "token ids", heading);
return [title, ...tokens(now)];
}
if (outcome) return outcomes(outcome, t);
const topOf = (i) => below(weights) + apart * i;
const shown = wide ? sheets : sheets.slice(0, -1);
const rows = shown.flatMap((sheet, i) => vectors(sheet, topOf(i), now));
if (!wide) return [...(weights ? heads(weights, now) : []), ...rows];
const top = topOf(sheets.length - 1);
const y = top + 19 + high * (now.ids.length - 1);
return [...(weights ? heads(weights, now) : []), ...rows, noteAt(room - 1, top + 13),
framed(left - 1.5, y - 0.5, room - left + 1, high)];
}

const [width, height, stream, arm] = wide ? [356, 500, 124, 248] : [208, 372, 62, 134];
const [whole, half, own] = wide ? [172, 132, 44] : [116, 104, 36];
const heights = wide
? [15, 58, 94, 168, 202, 230, 266, 300, 328, 374, 411, 448, 485]
: [12, 45, 73, 124, 149, 173, 199, 225, 249, 278, 303, 328, 357];
const thick = wide ? [28, 28, 26, 24, 28, 0, 24, 30, 0, 26, 28, 26, 28]
: [24, 22, 22, 20, 22, 0, 20, 24, 0, 20, 20, 20, 24];
const besides = [2, 3, 4, 6, 7];
const places = heights.map((y, part) => [besides.includes(part) ? arm : stream, y, thick[part],
besides.includes(part) ? half : part === 12 ? own : whole]);
if (!wide) Object.assign(places[2], { 0: arm + 6, 3: half + 12 });
function choose(part) {
const click = () => { play.stop(); show(stepOf(part, steps[at][1])); };
return { style: "cursor: pointer", onclick: click };
}
function shape([x, y, tall, broad], part) {
const box = { x: x - broad / 2, y: y - tall / 2, width: broad, height: tall, rx: 5 };
if (!tall) return svg("circle", { cx: x, cy: y, r: 10, ...choose(part) });
if (part !== 7) return svg("rect", { ...box, ...choose(part) });
const [l, r, t, u] = [x - broad / 2, x + broad / 2, y - tall / 2, y + tall / 2];
const d = `M${l} ${t}H${r}L${r - 14} ${u}H${l + 14}Z`;
return svg("path", { d, "stroke-linejoin": "round", ...choose(part) });
}
const nodes = places.map(shape);
const root = picture(width, height, "min-width: 0; max-width: 100%; height: auto");
function behind(x, y, width, height, by, look) {
const size = { width, height, rx: 6, "stroke-width": 1, fill: "var(--paper)", ...look };
return [2 * by, by, 0].map((far) => svg("rect", { x: x + far, y: y - far, ...size }));
}
const fine = `font-size: ${wide ? 14 : 12}px`;
const labels = places.slice(1, 12).map(([x, y, tall], i) =>
text(x, y + 5, tall ? parts[i + 1].label : "+", { ...middle, style: fine }));
const head = (x, y, way) => {
const far = { down: [[-4, -8], [4, -8]], left: [[8, -4], [8, 4]] }[way];
const points = far.map(([dx, dy]) => `${x + dx} ${y + dy}`);
return svg("path", { d: `M${x} ${y}L${points.join("L")}Z`, fill: "currentColor" });
};
const edge = (part, side) => heights[part] + side * (thick[part] / 2 || 10);
const down = (from, to) => [line(`M${stream} ${from}V${to - 4}`), head(stream, to, "down")];
const between = (from, to) => down(from === 2 ? heights[2] + 10 : edge(from, 1),
to === 2 ? heights[2] - 10 : edge(to, -1));
const fork = wide ? 20 : 16;
const aside = (norm, layer, plus) => [
line(`M${stream} ${heights[norm] - fork}H${arm}V${edge(norm, -1) - 4}`),
head(arm, edge(norm, -1), "down"), line(`M${arm} ${edge(norm, 1)}V${edge(layer, -1)}`),
line(`M${arm} ${edge(layer, 1)}V${heights[plus]}H${stream + 14}`),
head(stream + 10, heights[plus], "left")];
const step = wide ? 44 : 28;
const tops = [0, 1, 2, 3].map((i) => stream + step * (i - 1.5));
const strong = { ...middle, ...bold };
const written = tops.map((x) => text(x, heights[0] + 5, "", strong));
const chip = { y: heights[0] - 11, height: 22, rx: 4, fill: "var(--paper)",
stroke: "var(--soft)" };
const chips = tops.map((x) =>
svg("rect", { x: x - step / 2 + 5, width: step - 10, ...chip, "pointer-events": "none" }));
const answer = text(stream, heights[12] + 5, "", strong);
const roof = heights[3] - (wide ? 40 : 36);
const frame = [wide ? 4 : 2, roof, wide ? 322 : 192, heights[8] + (wide ? 18 : 15) - roof];
const which = text(frame[0] + frame[2] - 8, roof + 15, "",
{ style: `font-weight: 600; ${fine}`, "text-anchor": "end" });
const packet = svg("g", { "pointer-events": "none" });
const dashed = { "stroke-dasharray": "3 4" };
const tinted = { stroke: "var(--control)", "stroke-opacity": 0.6 };
const far = wide ? 346 : 203;
const note = { style: "font-size: 12px; fill: var(--soft)" };
root.append(
...behind(...frame, wide ? 4 : 3, { stroke: "var(--faint)" }),
...behind(...frame, 0, { stroke: "var(--soft)" }).slice(2), which,
...behind(arm - half / 2, edge(4, -1), half, thick[4], 3, tinted),
...[[0, 1], [1, 2], [2, 5], [5, 8], [8, 9], [9, 10], [10, 11], [11, 12]]
.flatMap(([from, to]) => between(from, to)),
line(`M${arm - half / 2} ${heights[2]}H${stream + 14}`),
head(stream + 10, heights[2], "left"),
svg("circle", { cx: stream, cy: heights[2], r: 10, fill: "var(--paper)",
stroke: "currentColor" }),
text(stream, heights[2] + 5, "+", middle), ...aside(3, 4, 5), ...aside(6, 7, 8),
line(`M${stream + own / 2} ${heights[12]}H${far}V${heights[0]}H${stream + whole / 2 + 8}`,
dashed),
head(stream + whole / 2 + 4, heights[0], "left"),
text(stream + own / 2 + 8, heights[12] + 15, "append, and again", note),
...nodes, ...labels, ...chips, ...written, answer, packet);

const spots = places.map(([x, y, tall, broad], part) => {
if (part === 2 || !tall || x === arm && !wide) return [stream - (wide ? 46 : 34), y];
return x === arm ? [157, y] : [x + broad / 2 + 26, y];
});
const move = motion();
let stands = spots[steps[at][0]];
function stand([x, y]) {
stands = [x, y];
set(packet, { transform: `translate(${x.toFixed(1)} ${y.toFixed(1)})` });
}
const card = { x: -22, y: -14, width: 44, height: 28, rx: 3, fill: "var(--paper)" };
function paint(out) {
if (!out) { packet.replaceChildren(); return; }
const width = 40 / out[0].length, height = 24 / out.length;
const most = largest(out);
const cell = (value, i, j) => svg("rect", {
x: -20 + width * j, y: -12 + height * i, width, height, ...tint(value, most) });
const cells = out.flatMap((row, i) => row.map((value, j) => cell(value, i, j)));
const frame = svg("rect", { ...card, stroke: "var(--control)", "stroke-width": 1.5 });
packet.replaceChildren(frame, ...cells);
}
function travel(to, out) {
const [x, y] = stands;
if (x === to[0] && y === to[1]) { move(0, () => { }); paint(out); return; }
const go = (t) => stand([x + (to[0] - x) * t, y + (to[1] - y) * t]);
move(450, go).then((came) => { if (came) paint(out); });
}

const becoming = motion();
let state;
const facts = el("p", { style: "display: flex; flex-wrap: wrap; gap: 0 16px; margin: 4px 0 0; "
+ "align-content: start; color: var(--soft); font-size: 13px; min-height: 2.8em" });
function lookOf(part, marked) {
const tint = "color-mix(in srgb, var(--control) 14%, var(--paper))";
return { fill: part === 4 || marked ? tint : "var(--paper)", "stroke-width": marked ? 3.5 : 1,
stroke: `var(--${part === 4 || marked ? "control" : "soft"})` };
}
function explain(now) {
const [part, block] = steps[at];
const { name, says, parameters, large, shape: sized } = parts[part];
const where = inBlock(part) ? `, block ${block + 1} of ${n_blocks}` : "";
const chosen = `“${names[now.next]}”, with ${number(100 * now.chance, 1)}%`;
const end = part > 10 ? ` Here it is ${chosen}.` : "";
say(`${name}${where}. ${says}${end}`);
const counted = parameters ? `${grouped(parameters)} parameters (GPT-2: ${grouped(large)})`
: "no parameters";
set(facts, {}, ...[`shape ${sized}`, counted].map((fact) => el("span", {}, fact)));
set(board, { "aria-label": `The numbers of step ${at + 1}, ${name}${where}` });
const whole = "A decoder-only transformer from token ids to the next token";
set(root, { "aria-label": `${whole}; marked: ${name}${where}` });
}
function show(to = at) {
at = to;
const now = compute();
const [part, block] = steps[at];
nodes.forEach((node, i) => set(node, lookOf(i, i === part)));
which.textContent = `block ${block + 1} of ${n_blocks}`;
written.forEach((node, i) => { node.textContent = names[now.ids[i]]; });
for (const node of [answer, given]) node.textContent = part > 10 ? names[now.next] : "?";
const high = highOf(now.found[at]);
set(board, { height: high, viewBox: `0 0 ${room} ${high}` });
becoming(part === 11 ? 900 : 0, (t) => set(board, {}, ...contents(now, now.found[at], t)));
if (!wide) strip.replaceChildren(...last(now, now.found[at]));
travel(spots[part], now.found[at].out);
rail.move(at + 1);
explain(now);
state = { step: at, name: parts[part].name, block, a, b, ...now };
}
const digits = Array.from({ length: 10 }, (_, n) => n);
const asked = (name, value, take) => el("select", { "aria-label": name, ...keep,
onchange: ({ target }) => { take(+target.value); show(); } },
...digits.map((n) => el("option", { value: n, selected: n === value }, n)));
const one = asked("first digit", a, (n) => { a = n; });
const other = asked("second digit", b, (n) => { b = n; });
const rail = slider("Step", { min: 1, max: steps.length, step: 1, value: at + 1,
text: (i) => `${i} of ${steps.length}`, input: (i) => { play.stop(); show(i - 1); } });
const play = player({ at: () => at, last: () => steps.length - 1, go: show, ms: () => 1400 });

const given = el("span", { style: "min-width: 1ch" });
const legend = legendOf([wash("neutral", 70), "> 0"], [wash("rose", 70), "< 0"]);
const row = (more, ...nodes) => el("div", { class: "row", style: more }, ...nodes);
const task = row("margin: 0; gap: 6px; font-size: 18px; font-weight: 600",
one, "+", other, "=", given);
const asks = el("div", { style: "display: flex; flex-wrap: wrap; gap: 4px 12px; "
+ "align-items: center; justify-content: space-between" }, task, legend);
const flex = "display: flex; align-items: flex-start; justify-content: space-between; gap: ";
const top = row(`max-width: none; margin: 0 0 ${wide ? 12 : 6}px`, play.node, rail);
set(top, { class: "row steered" });
set(said, { style: "min-height: 4.2em; margin-top: 4px" });
if (wide) {
const left = el("div", { style: "flex: 1 1 14rem; min-width: 0; display: grid; gap: 8px" },
asks, board, el("div", {}, said, facts));
view.append(top, el("div", { style: `${flex}1.5rem` }, left, root));
} else {
asks.style.marginBottom = "8px";
view.append(top, asks, el("div", { style: `${flex}0` }, root, board), strip, said);
}
stand(stands);
show();
expose(() => state);
}
for (const figure of document.querySelectorAll("figure[data-drawing=machine]")) begin(figure, draw);
})();
