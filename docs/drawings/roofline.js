(() => {
function draw({ view, viewWidth, data, el, svg, set, number, grouped, plural, say, said,
slider, choices, more, between, motion, expose }) {
const { peak, bandwidth, heads, width, model, latent, bits, example } = data;
let { n, kv } = data;
let b = 1;
let phase = 2;
let chosen = 0;

const pairs = (nq, nk) => nq * nk - (nq * (nq - 1)) / 2;
function attention({ b, dk = width, dv = dk, cached = heads * (dk + dv) }) {
const nq = phase === 2 ? 1 : n;
const operations = 2 * b * heads * pairs(nq, n) * (dk + dv);
return { operations, moved: (b * (cached * n + heads * nq * (dk + dv)) * bits) / 8 };
}
function projections({ b }) {
const tokens = phase === 2 ? 1 : n;
const widths = 2 * (heads + kv) * width;
const parameters = model * widths;
const vectors = b * tokens * (4 * model + widths);
return { operations: 2 * b * tokens * parameters, moved: ((parameters + vectors) * bits) / 8 };
}
function oneHead(queries) {
const { n, d } = example;
const numbers = 2 * queries * d + 2 * n * d;
return { operations: queries * n * 4 * d, moved: (numbers * bits) / 8 };
}
function latentAttention({ b }) {
if (phase !== 2) return null;
const dk = latent[0] + latent[1];
return attention({ b, dk, dv: latent[0], cached: dk });
}
const least = ({ operations, moved }) => Math.max(operations / peak, moved / bandwidth);
const shared = () => 2 * kv * width;
const ways = [
{ letter: "P", cost: projections, word: () => "projections", name: () => "projections" },
{ letter: "A", cost: attention,
word: () => "multi-head", name: () => "multi-head" },
{ letter: "G", cost: ({ b }) => attention({ b, cached: shared() }),
word: () => plural(kv, "key head"), name: () => plural(kv, "key head") },
{ letter: "L", cost: latentAttention,
word: () => "latent", name: () => "latent attention" },
{ letter: "prefill", cost: () => oneHead(example.n), queries: example.n,
word: () => "prefill" },
{ letter: "decode", cost: () => oneHead(1), queries: 1, word: () => "decode" },
];
const listed = (way) => Boolean(way.queries) === (phase === 0);
const found = (batch = b) => ways.map((way) => {
const cost = listed(way) ? way.cost({ b: batch }) : null;
if (!cost) return cost;
const { operations, moved } = cost;
const seconds = least(cost);
return { ...cost, intensity: operations / moved, seconds, rate: operations / seconds };
});

const beside = viewWidth >= 600;
const wide = beside ? 384 : viewWidth || 350;
const high = beside ? 300 : 184, left = beside ? 36 : 33;
const end = wide - 12;
const low = -4, top = 15;
const ridge = peak / bandwidth;
const sky = 64;
const x = (intensity) => left + ((wide - left - 12) * (Math.log2(intensity) - low)) / (top - low);
const ceiling = Math.log2(peak);
const floor = Math.log2(2 ** low * bandwidth) - 3;
const y = (rate) => sky + ((high - sky) * (ceiling - Math.log2(rate))) / (ceiling - floor);
const label = (at, up, text, anchor = "middle", style = "") =>
svg("text", { x: at, y: up, "text-anchor": anchor, style: `font-size: 13px; ${style}` }, text);
const some = [0.25, 1, 4, 16, 64, 256, 1024, 4096, 16384];
const ticks = some.filter((_, i) => wide > 420 || i % 2 === 0);
const bound = beside ? "" : "font-size: 12px";
const slope = `M${x(2 ** low)} ${y(2 ** low * bandwidth)}L${x(ridge)} ${y(peak)}`;
const hues = { compute: "#1a9ba3", memory: "#a35f4a" };
const along = (d, hue) =>
svg("path", { d, stroke: hue, "stroke-width": 3.5, fill: "none", "stroke-linecap": "round" });
const under = (d, hue) => svg("path", { d, fill: hue, opacity: 0.13 });
const chart = svg("svg", { width: wide, height: high + 42, viewBox: `0 0 ${wide} ${high + 42}`,
"aria-hidden": true },
under(`M${x(ridge)} ${y(peak)}H${end}V${high}H${x(ridge)}Z`, hues.compute),
under(`${slope}V${high}H${x(2 ** low)}Z`, hues.memory),
...ticks.map((mark) => svg("path", { d: `M${x(mark)} ${high}v-5`, stroke: "var(--soft)" })),
...ticks.map((mark) => label(x(mark), high + 17, mark < 1 ? "¼" : grouped(mark))),
svg("path", { d: `M${left} 38V${high}H${end}`, stroke: "var(--soft)", fill: "none" }),
along(slope, hues.memory),
along(`M${x(ridge)} ${y(peak)}H${end}`, hues.compute),
label((left + wide - 12) / 2, high + 37, "operations per byte"),
label(0, 12, beside ? "billion operations" : "billion ops", "start"),
label(0, 30, "per second", "start"),
...[1, 10, 100].flatMap((billions) => [
svg("path", { d: `M${left} ${y(1e9 * billions)}h-4`, stroke: "var(--soft)" }),
label(left - 6, y(1e9 * billions) + 5, billions, "end")]),
label(x(ridge) + 6, high - 8, "compute-bound", "start", bound),
label(x(ridge) - 6, high - 8, "memory-bound", "end", bound));
const [lines, names, marks] = [0, 1, 2].map(() => svg("g"));
const climbed = svg("path", { fill: "none", stroke: "currentColor", "stroke-width": 11,
opacity: 0.18, "stroke-linecap": "round", "stroke-linejoin": "round" });
const ghost = svg("circle", { r: 8, fill: "none", stroke: "currentColor", "stroke-width": 1.5,
"stroke-dasharray": "3 2.5" });
lines.append(climbed, ghost);
const dots = ways.map((way) => {
const circle = svg("circle", { stroke: "var(--paper)", "stroke-width": 1.5 });
const stem = svg("path", { stroke: "var(--soft)", "stroke-width": 1.2, fill: "none" });
const text = label(0, 0, "", "start", "font-size: 14px; font-weight: 600");
lines.append(stem);
marks.append(circle);
names.append(text);
return { circle, stem, text, at: null };
});
chart.append(lines, marks, names);
function measured(queries) {
const cost = oneHead(queries);
const intensity = cost.operations / cost.moved;
const flat = queries > 1;
const rate = cost.operations / least(cost);
const [at, up] = flat ? [x(intensity), sky - 14] : [x(ridge) + 9, y(rate) + 22];
const size = grouped(intensity, { maximumSignificantDigits: 2 });
return label(at, up, `${size} per byte`, flat ? "middle" : "start",
"fill: var(--soft)");
}
const notes = [measured(example.n), measured(1)];
chart.append(...notes);
function place(dot, [cx, cy], way, flat) {
dot.at = [cx, cy];
set(dot.circle, { cx, cy, fill: hues[flat ? "compute" : "memory"] });
const across = flat ? "" : `M${cx} ${cy}H${x(ridge) + 4}`;
set(dot.stem, { d: way.queries ? across : `M${cx} ${cy}V${sky - 10}` });
const half = 4.6 * way.word().length;
const within = Math.min(Math.max(cx, left + 4 + half), end - half);
const above = { x: within, y: sky - (way.queries ? 32 : 16), "text-anchor": "middle" };
const after = { x: x(ridge) + 9, y: cy + 5, "text-anchor": "start" };
set(dot.text, way.queries && !flat ? after : above);
}

const three = { minimumSignificantDigits: 3, maximumSignificantDigits: 3 };
function clock(s) {
if (s >= 1) return [1, "s"];
return s >= 1e-3 ? [1e3, "ms"] : [1e6, "µs"];
}
const size = (i) => number(i, i < 10 ? 1 : 0);
const timesOf = ({ operations, moved }, queries = 1) =>
[operations / peak / queries, moved / bandwidth / queries];
function barOf(hue, high) {
const bar = el("i", { class: "moves" });
const text = el("span", { style: "padding-left: 5px; white-space: nowrap" });
const line = "display: flex; align-items: center; font-size: 13px; line-height: "
+ `${high + 3}px; min-height: ${high + 3}px`;
const look = `flex: 0 1 auto; background: ${hue}; border-radius: 2px`;
return { node: el("div", { style: line }, bar, text), bar, text, look, high };
}
const [thick, thin] = beside ? [36, 17] : [30, 14];
const pairOf = (high) => Object.values(hues).map((hue) => barOf(hue, high));
function showBars(bars, times, [longest, room], write, both = true) {
const most = times.indexOf(Math.max(...times));
bars.forEach(({ node, bar, text, look, high }, i) => {
const long = Math.max(times[i] ? 1 : 0, (room * times[i]) / longest);
set(bar, { style: `${look}; height: ${high}px; width: ${long.toFixed(1)}px` });
node.style.display = both || i === most ? "flex" : "none";
text.textContent = write(times[i], i);
text.style.fontWeight = both && i === most ? 600 : 400;
});
}
const side = beside ? viewWidth - wide - 20 : viewWidth || 350;
const right = (text, style = "") => el("span", { style: `text-align: right; ${style}` }, text);
const soft = "color: var(--soft); font-size: 13px; line-height: 1.25";
function choose(i) {
if (i === chosen || !phase) return;
chosen = i;
show();
}
const list = ways.filter((way) => !way.queries).map(() => {
const bars = pairOf(thin);
const [name, intensity] = [el("span", { style: "white-space: nowrap" }), right("")];
const cell = el("div", { style: `min-height: ${2 * (thin + 3)}px; display: grid; `
+ "align-content: center" }, ...bars.map(({ node }) => node));
return { bars, name, intensity, cell, row: el("div", {}, name, intensity, cell) };
});
list.forEach(({ row }, i) => {
for (const node of [row, dots[i].circle]) set(node, { onpointerenter: () => choose(i) });
set(row, { tabindex: 0, onfocus: () => choose(i) });
});
const apiece = beside ? "102px 64px 1fr; gap: 6px; padding: 5px 6px"
: "107px 66px 1fr; gap: 8px; padding: 2px 4px";
const grid = `display: grid; grid-template-columns: ${apiece}; align-items: center; `
+ "font-size: 13px; border-radius: 8px";
const head = el("div", { style: grid },
el("span"), right("ops/byte", soft), el("span", { style: soft }, "time"));
const table = el("div", { class: "times" }, head, ...list.map(({ row }) => row));
function showRow(row, on) {
const look = on ? "background: var(--rest); box-shadow: inset 0 0 0 1px var(--control); " : "";
set(row, { style: `${grid}; ${look}cursor: pointer; margin-top: ${beside ? 10 : 2}px` });
}
const pair = ways.filter((way) => way.queries).map(({ letter, queries, cost }) => {
const bars = pairOf(thick);
const title = el("div", { style: `font-weight: 600; margin-top: ${beside ? 12 : 8}px` },
`${letter}, ${queries > 1 ? `each of ${grouped(queries)} queries` : "its one query"}`);
const { operations, moved } = cost();
const counts = [`${grouped(operations / queries)} operations`,
`${grouped(moved / queries)} bytes`];
const above = beside ? `${soft}; margin-top: 5px` : soft;
const lines = bars.flatMap(({ node }, i) => [el("div", { style: above }, counts[i]), node]);
const grid = beside ? "" : "display: grid; align-items: center; gap: 4px 8px; "
+ "grid-template-columns: 9.5em minmax(0, 1fr)";
return { bars, queries, node: el("div", {}, title, el("div", { style: grid }, ...lines)) };
});
const two = el("div", {}, ...pair.map(({ node }) => node));
const short = (rate) => `${grouped(rate / 1e9, { maximumSignificantDigits: 3 })} billion`;
const patch = (hue) => el("i", { style: "display: inline-block; width: 11px; height: 11px; "
+ `margin-right: 6px; border-radius: 2px; background: ${hue}` });
const inLine = "font-size: 12px; display: flex; flex-wrap: wrap; gap: 0 10px; margin-bottom: 4px";
const legend = el("div", { style: inLine },
el("div", {}, patch(hues.compute), `${short(peak)} operations/s`),
el("div", {}, patch(hues.memory), `${short(bandwidth)} bytes/s`));
function showTwo(now) {
const all = pair.map(({ queries }, i) => timesOf(now.at(i - 2), queries));
const scale = [Math.max(...all.flat()), side - (beside ? 76 : 212)];
pair.forEach(({ bars }, i) =>
showBars(bars, all[i], scale, (time) => `${grouped(time * 1e6, three)} µs`));
}
function showLayer(now) {
const longest = Math.max(...now.filter(Boolean).map((cost) => cost.seconds));
const [per, unit] = clock(longest);
const scale = [longest, side - (beside ? 258 : 274)];
list.forEach(({ row, name, intensity, bars, cell }, i) => {
showRow(row, i === chosen);
name.textContent = ways[i].name();
intensity.textContent = now[i] ? size(now[i].intensity) : "–";
for (const node of [name, intensity]) node.style.fontWeight = i === chosen ? 600 : 400;
cell.style.color = now[i] ? "" : "var(--soft)";
const write = (time) => (now[i] ? `${grouped(time * per, three)} ${unit}` : "decode only");
const times = now[i] ? timesOf(now[i]) : [0, 0];
showBars(bars, times, scale, write, now[i] && i === chosen);
});
}

const flags = ways.map(() => {
const text = label(0, 0, "", "start", "font-size: 12px; fill: var(--soft)");
const stem = svg("path", { stroke: "var(--soft)", fill: "none" });
lines.append(stem);
names.append(text);
return { text, stem };
});
const near = (a, b) => Math.hypot(a[0] - b[0], a[1] - b[1]) < 4;
function heaps(places) {
const found = [];
for (const i of places.keys()) {
if (!phase || !places[i] || i === chosen) continue;
const heap = found.find(([first]) => near(places[first], places[i]));
if (heap) heap.push(i);
else found.push([i]);
}
return found;
}
function labels(places, many) {
return heaps(places).flatMap((heap) => heap.flatMap((_, k) => {
const word = heap.slice(k, k + many).map((i) => ways[i].word()).join(", ");
return k % many ? [] : [{ at: places[heap[0]], word, long: 8.2 * word.length }];
}));
}
function hang(places) {
let hung = labels(places, 2);
const way = hung.some(({ at, long }) => at[0] + 8 + long > end) ? -1 : 1;
if (way < 0) hung = labels(places, 1);
hung.sort((a, b) => way * (b.at[0] - a.at[0]));
hung.forEach((one, k) => {
const over = hung.slice(0, k).filter(({ at }) => way * (at[0] - one.at[0]) < one.long + 14);
one.foot = Math.max(one.at[1] + 20, ...over.map(({ foot }) => foot + 15));
});
flags.forEach(({ text, stem }, k) => {
const { at: [cx, cy], word, foot } = hung[k] ?? { at: [0, 0], word: "" };
text.textContent = word;
set(text, { x: cx + 8 * way, y: foot, "text-anchor": way > 0 ? "start" : "end" });
set(stem, { d: word && `M${cx} ${cy}V${foot - 4}h${5 * way}` });
});
}
function climb(from, to) {
const far = from && to && Math.hypot(to[0] - from[0], to[1] - from[1]) > 12;
for (const node of [climbed, ghost]) set(node, { visibility: far ? "visible" : "hidden" });
if (!far) return;
const [cx, cy] = from;
const bend = cx < x(ridge) && to[0] > x(ridge) ? `L${x(ridge)} ${y(peak)}` : "";
set(climbed, { d: `M${cx} ${cy}${bend}L${to.join(" ")}` });
set(ghost, { cx, cy });
}
const glide = motion();
function move(now) {
const from = dots.map((dot) => dot.at);
const lit = (i) => !phase || i === chosen;
const one = phase && found(1)[chosen];
const first = one && [x(one.intensity), y(one.rate)];
marks.append(dots[chosen].circle);
dots.forEach(({ text, circle, stem }, i) => {
text.textContent = now[i] && lit(i) ? ways[i].word() : "";
set(circle, { r: lit(i) ? 7 : 4.5, opacity: lit(i) ? 1 : 0.5 });
stem.style.opacity = lit(i) ? 1 : 0;
});
glide(350, (f) => {
dots.forEach((dot, i) => shift(dot, i, now[i], from[i], f));
hang(dots.map(({ at }) => at));
climb(first, dots[chosen].at);
});
}
function shift(dot, i, cost, from, f) {
const visibility = cost ? "visible" : "hidden";
for (const part of [dot.circle, dot.stem, dot.text]) set(part, { visibility });
if (!cost) {
dot.at = null;
return;
}
const to = [x(cost.intensity), y(cost.rate)];
place(dot, between(from ?? to, to, f), ways[i], cost.intensity > ridge);
}
function show() {
const now = found();
move(now);
if (phase) showLayer(now);
else showTwo(now);
table.style.display = phase ? "" : "none";
two.style.display = phase ? "none" : "";
for (const one of sliders) {
set(one.querySelector("input"), { disabled: !phase });
one.style.opacity = phase ? 1 : 0.45;
}
for (const note of notes) set(note, { visibility: phase ? "hidden" : "visible" });
say(phase ? inALayer(now[chosen]) : ofTwo(now.at(-2), now.at(-1)));
}
const limit = (cost) =>
(cost.operations / peak < cost.moved / bandwidth ? "memory-bound" : "compute-bound");
const inALayer = (cost) => `In ${phase === 2 ? "decode" : "prefill"}, `
+ `${ways[chosen].name()}: `
+ (cost ? `${size(cost.intensity)} operations per byte, ${limit(cost)}.` : "decode only.");
const ofTwo = (first, second) =>
`Prefill: ${size(first.intensity)} operations per byte, ${limit(first)}; `
+ `decode: ${size(second.intensity)}, ${limit(second)}.`;
const power = (log) => grouped(2 ** log);
function control(name, max, value, input) {
const moved = (log) => {
input(2 ** log);
show();
};
const node = slider(name, { min: 0, max, step: 1, value: Math.log2(value), text: power,
input: moved });
if (beside) node.querySelector("input").style.width = "16rem";
return node;
}
const sliders = [
control("Batch size", 8, b, (to) => { b = to; }),
control("Tokens", 17, n, (to) => { n = to; }),
control("Heads of keys", 5, kv, (to) => { kv = to; })];
const [batch, ...others] = sliders;
const modes = ["one head", "a layer in prefill", "a layer in decode"];
const picker = choices("What is shown", modes, phase, (i) => {
phase = i;
show();
});
const slim = beside ? {} : { style: `padding-inline: ${wide < 345 ? 2 : 6}px` };
for (const one of picker.querySelectorAll("label")) set(one, slim);
const panel = el("div", { style: `flex: none; width: ${side}px; max-width: 100%; `
+ `min-height: ${beside ? 300 : 220}px; font-variant-numeric: tabular-nums` },
legend, two, table);
set(said, { style: `min-height: ${beside ? 1.4 : 2.8}em` });
view.append(
set(batch, { style: "margin-top: 0" }),
el("div", { class: "beside", style: "gap: 8px 20px; align-items: flex-start; margin: 0" },
chart, panel),
said, more(picker, ...others));
show();
const byLetter = () => {
const now = found();
return Object.fromEntries(ways.map((way, i) => [way.letter, now[i]]));
};
expose(() => ({ n, kv, b, phase, peak, bandwidth, ridge, ways: byLetter() }));
}
for (const figure of document.querySelectorAll("figure[data-drawing=roofline]")) begin(figure, draw);
})();
