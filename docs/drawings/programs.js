(() => {
function draw(stage) {
const { view, viewWidth, data, el, svg, set, sum, number, plural, listed } = stage;
const { said, say, choices, toggle, more, slider, player, hatch, expose } = stage;
const { tokens, sizes, slots: offered } = data;
const n = tokens.length;
const all = [...tokens.keys()];
let size = sizes[data.size];
let slots = offered[data.slot];
let causal = true;
let longest = false;
let step = 3;

const within = (start, k) => k >= start && k < start + size;
function programs() {
const starts = all.filter((i) => i % size === 0);
const needed = (i, j) => !(causal && j > Math.min(i + size, n) - 1);
return starts.map((i) => starts.filter((j) => needed(i, j)));
}
function plan(reversed = longest) {
const tiles = programs();
const free = Array(slots).fill(0);
const starts = [], where = [];
const order = [...tiles.keys()];
if (reversed) order.reverse();
for (const p of order) {
const slot = free.indexOf(Math.min(...free));
where[p] = slot;
starts[p] = free[slot];
free[slot] += tiles[p].length;
}
const count = sum(tiles.map((own) => own.length));
const last = Math.max(...free);
const before = reversed ? plan(false).last : last;
return { tiles, starts, where, last, before, count };
}
function doing(now, p) {
const since = step - now.starts[p];
return since > 0 && since <= now.tiles[p].length ? since - 1 : -1;
}
const endOf = ({ last }, at) => (longest && at < last ? "?" : last);
const busy = (now) => [...now.tiles.keys()].filter((p) => doing(now, p) >= 0);

const wide = viewWidth >= 600;
const unit = Math.min(30, Math.floor((wide ? 272 : 208) / n));
const left = 58, high = 58;
const [w, h] = [left + n * unit + 4, high + n * unit + 4];
const says = "A grid of queries and keys; each program owns a block of queries";
const root = svg("svg", {
width: w, height: h, viewBox: `0 0 ${w} ${h}`, role: "img", "aria-label": says });
const small = `font-size: ${unit < 15 ? 12 : 13}px`;
const columnAt = (j) => left + j * unit, rowAt = (i) => high + i * unit;
const tops = all.map((j) => svg("text", {
transform: `translate(${columnAt(j) + unit / 2 + 5} ${high - 7}) rotate(-90)`,
"data-sym": "k", style: small }, tokens[j]));
const forbidden = hatch("programs-forbidden");
function cell(x, y) {
const box = { x, y, width: unit, height: unit };
return svg("g", {}, svg("rect", { ...box, stroke: "var(--faint)", fill: "none" }),
svg("rect", { ...box, fill: forbidden.fill, visibility: "hidden" }));
}
const cells = all.map((i) => all.map((j) => cell(columnAt(j), rowAt(i))));
const bands = svg("g", {});
const framed = all.map(() => svg("rect", { fill: "none", stroke: "var(--rose)",
"stroke-width": 4, rx: 2, class: "moves", opacity: 0 }));
const heads = [svg("text", {
x: left / 2, y: high - 7, "text-anchor": "middle",
style: "font-size: 12px; fill: var(--soft)" },
"program")];
root.append(forbidden.node, ...heads, ...tops, ...cells.flat(), bands, ...framed);

const begin = 48, end = wide ? 376 : 350, top = 24, deep = wide ? 190 : 104;
const line = svg("svg", { width: end + 8, height: top + deep + 8, role: "img",
viewBox: `0 0 ${end + 8} ${top + deep + 8}`, style: "height: auto" });
const marks = svg("g");
const now = svg("g", { class: "moves" },
svg("path", { d: `M0 ${top - 5}V${top + deep}`, stroke: "var(--rose)", "stroke-width": 2 }));
line.append(marks, now);
const faint = { "text-anchor": "end", style: "font-size: 12px; fill: var(--soft)" };
const centred = { "text-anchor": "middle", "pointer-events": "none" };
function scale({ last, before }) {
const far = Math.min(82, (end - begin) / Math.max(last, before));
return { tall: Math.min(66, deep / slots), far };
}
function endBefore(plan) {
if (!longest) return [];
const { tall, far } = scale(plan);
return [svg("path", { d: `M${begin + far * plan.before} ${top - 5}v${tall * slots + 5}`,
stroke: "var(--soft)", "stroke-width": 1.5, "stroke-dasharray": "4 3" })];
}
const lasts = el("div", { style: "font-size: 13px; line-height: 28px; white-space: nowrap" });
function showLast(plan) {
const { last, before } = plan;
const big = (says) => el("b", { style: "font-size: 24px" }, says);
const ended = step === last;
set(lasts, {}, ...(longest ? [big(before), " → "] : []), big(endOf(plan, step)),
` time steps${longest && ended ? `, ${before - last} saved` : ""}`);
}
function runOf(plan, p) {
const { tall, far } = scale(plan);
const many = Math.min(Math.max(0, step - plan.starts[p]), plan.tiles[p].length);
const [x, y] = [begin + far * plan.starts[p], top + tall * plan.where[p]];
const size = { y: y + 2, width: far - (far > 8 ? 2 : 0.5), height: tall - 4, rx: 2 };
const at = doing(plan, p);
const block = (i) => svg("rect", { ...size, x: x + far * i, fill: "var(--neutral)",
"fill-opacity": i === at ? 0.75 : 0.3, stroke: i === at ? "var(--rose)" : "none",
"stroke-width": 2 });
const style = `font-size: ${tall > 20 ? 14 : 12}px; font-weight: 600`;
const coming = "font-weight: 400; fill: var(--soft)";
const name = (i) => svg("text", { x: x + far * i, y: y + tall / 2 + 5, ...centred,
style: i < many ? style : `${style}; ${coming}` }, String(p));
const own = [...plan.tiles[p].keys()].map((i) => i + 0.5);
const names = (far > 14 ? own : [own.length / 2]).map(name);
const later = plan.tiles[p].slice(many).map((_, i) => svg("rect", { ...size,
x: x + far * (many + i), fill: "none", stroke: "var(--faint)" }));
if (!many) return [];
return [...Array.from({ length: many }, (_, i) => block(i)), ...later, ...names];
}
function idleAt(plan, slot) {
const mine = plan.tiles.map((own, p) => (plan.where[p] === slot ? own.length : 0));
const { tall, far } = scale(plan);
const long = far * (step - sum(mine));
const size = { y: top + tall * slot + 2, height: tall - 4, rx: 2 };
const look = { fill: "none", stroke: "var(--soft)", "stroke-dasharray": "3 3" };
if (long <= 0) return [];
const x = begin + far * sum(mine);
const says = svg("text", { ...centred, x: x + long / 2, y: size.y + tall / 2 + 2,
style: "font-size: 12px; fill: var(--soft)" }, long > 26 && tall > 20 ? "idle" : "");
return [svg("rect", { ...size, x: x + 1, width: long - 2, ...look }), says];
}
function drawLine(plan) {
const { tall, far } = scale(plan);
const rows = Array.from({ length: slots }, (_, i) => i);
const lit = { style: "font-size: 13px; font-weight: 700; fill: var(--rose)" };
const long = Math.max(plan.last, plan.before);
const tick = (t) => svg("text", { ...faint, x: begin + far * t - 2, y: top - 9,
...(t === step ? lit : {}) }, t);
const every = Array.from({ length: long }, (_, i) => i + 1);
const shown = far > 22 ? every : [...new Set([1, step, long])];
const free = shown.filter((t) => t === step || Math.abs(t - step) * far > 22);
marks.replaceChildren(
svg("text", { ...faint, x: begin - 8, y: top - 9 }, "time"), ...free.map(tick),
...rows.flatMap((slot) => [svg("text",
{ ...faint, x: begin - 8, y: top + tall * (slot + 0.5) + 4 }, `slot ${slot}`),
...idleAt(plan, slot)]),
svg("path", { d: `M${begin} ${top - 3}V${top + tall * slots}`, stroke: "var(--soft)" }),
...plan.tiles.flatMap((_, p) => runOf(plan, p)), ...endBefore(plan));
set(now, { style: `transform: translateX(${(begin + far * step).toFixed(1)}px)` });
const ran = busy(plan).join(", ");
set(line, { "aria-label": `Time line of ${plural(slots, "slot")}, `
+ `at time step ${step} of ${endOf(plan, step)}: running ${ran}` });
}

const last = () => plan().last;
const time = slider("Time step", {
min: 1, max: last(), step: 1, value: step,
text: (x) => `${number(x, 0)} of ${endOf(plan(), x)}`,
input: (to) => { play.stop(); step = to; show(); } });
time.lastChild.style.minWidth = "4.2rem";
function go(to) {
step = to;
time.move(to, last());
show();
}
function again(change) {
play.stop();
change();
go(1);
}
const play = player({ at: () => step, last, ms: () => (last() > 12 ? 250 : 650), first: 1, go });

function showCell(now, i, j) {
const [square, hatched] = cells[i][j].children;
const p = Math.floor(i / size);
const tile = now.tiles[p].findIndex((start) => within(start, j));
const here = tile >= 0 && tile === doing(now, p);
const done = tile >= 0 && step > now.starts[p] + tile;
const mixed = "color-mix(in srgb, var(--neutral) 45%, transparent)";
set(square, { fill: here ? mixed : done ? "var(--faint)" : "none" });
set(hatched, { visibility: causal && j > i ? "visible" : "hidden" });
}
const band = (p) => ({
y: high + p * size * unit,
tall: Math.min(size, n - p * size) * unit,
});
function drawBand(now, p) {
const { y, tall } = band(p);
const on = doing(now, p) >= 0;
const [size, place] = [Math.min(20, tall), left / 2];
return [
svg("line", {
x1: 2, x2: left + n * unit, y1: y, y2: y, stroke: "var(--soft)", "stroke-width": 1.5 }),
svg("text", { x: place, y: y + tall / 2 + 0.36 * size, "text-anchor": "middle",
"data-sym": "q", opacity: on ? 1 : 0.7,
style: `font-size: ${size}px; font-weight: ${on ? 700 : 400}` }, String(p)),
];
}
function frame(node, now, p) {
const start = now.tiles[p]?.[doing(now, p)];
set(node, { opacity: start == null ? 0 : 1 });
if (start == null) return;
const { y, tall } = band(p);
const width = unit * Math.min(size, n - start);
set(node, { x: left + start * unit, y, width, height: tall });
}
function tell(now) {
const ran = busy(now);
const idle = slots - ran.length;
const skipped = Math.ceil(n / size) ** 2 - now.count;
const tiles = `${now.count} tiles${skipped ? `, ${skipped} skipped` : ""}`;
const empty = idle ? ` ${plural(idle, "slot is", "slots are")} idle` : "";
const [who, run] = ran.length === 1 ? ["program", "runs"] : ["programs", "run"];
const midway = `Step ${step}: ${who} ${listed(ran, String)} ${run}${empty && `,${empty}`}.`;
const end = `Done after ${plural(now.last, "time step")}: ${tiles}.`;
say(step === now.last ? end + (empty && ` In the last one${empty}.`) : midway);
}
function show() {
const now = plan();
for (const i of all) for (const j of all) showCell(now, i, j);
bands.replaceChildren(...now.tiles.flatMap((_, p) => drawBand(now, p)));
framed.forEach((node, p) => frame(node, now, p));
showLast(now);
drawLine(now);
tell(now);
}

const row = (...parts) => el("div", { class: "row" }, ...parts);
const ofSize = choices("Queries of a program", sizes.map(String), data.size,
(i) => again(() => { size = sizes[i]; }));
const ofSlots = choices("Programs at once", offered.map(String), data.slot,
(i) => again(() => { slots = offered[i]; }));
const controls = row(el("div", { class: "row steered", style: "min-width: 0" }, play.node, time),
el("div", { class: "row" },
toggle("causal mask", causal, (on) => again(() => { causal = on; })),
toggle("last block first", longest, (on) => again(() => { longest = on; }))));
const panel = el("div", { style: "flex: 1 1 300px; min-width: 0" },
lasts, line,
set(said, { style: "min-height: 2.8em" }),
more(row(el("span", {}, "Queries of a program"), ofSize),
row(el("span", {}, "Programs at once"), ofSlots)));
view.append(controls, el("div", {
class: "beside", style: "gap: 0.3rem 1.2rem; align-items: flex-start; margin: 0" },
root, panel));
show();
expose(() => ({ ...plan(), size, slots, causal, longest, step, busy: busy(plan()) }));
}
for (const figure of document.querySelectorAll("figure[data-drawing=programs]")) begin(figure, draw);
})();
