(() => {
function draw(stage) {
const { view, viewWidth, data, svg, set, clamp, between, el, grouped } = stage;
const { said, say, choices, toggle, motion, onkeys, expose, keep } = stage;
const { heads, options, bytes: perHead, full: most, what } = data;
const wide = viewWidth >= 600;
const width = Math.min(720, viewWidth || 346);
const side = wide ? 40 : 30;
const top = 24, bottom = 164;
const gap = width / heads;
let n = data.n_kv_heads;
let wrong = false;
let chosen = 0;
const high = bottom + side + 108;
const [one, unit] = most >= 2 ** 30 ? [2 ** 30, "GiB"] : [2 ** 20, "MiB"];
const size = (b) => `${grouped(b / one)} ${unit}`;
const root = svg("svg", {
width, height: high, viewBox: `0 0 ${width} ${high}`, role: "group", style: "height: auto",
"aria-label": "Query heads, the key heads that they read, and the size of the cache" });
const text = (x, y, says, more = {}) =>
svg("text", { x, y, "text-anchor": "middle", "aria-hidden": true, ...more }, says);
const plain = { style: "stroke: none" };
const queryAt = (i) => gap * (i + 0.5);
const keyAt = (j, of = n) => (width / of) * (j + 0.5);
const right = (i) => Math.floor(i / (heads / n));
const repeated = (i) => i % n;
const reads = () => [...Array(heads).keys()].map((i) => (wrong ? repeated : right)(i));
const lost = () => reads().map((j, i) => j !== right(i));

const bold = { "text-anchor": "start", style: "font-weight: 600" };
root.append(text(0, 14, "query heads", { "data-sym": "q", ...bold }));
const arrows = { ArrowLeft: -1, ArrowRight: 1 };
const square = { width: side, height: side, rx: 5 };
function queryParts(i) {
const x = queryAt(i);
const start = x - side / 2;
const look = { fill: "var(--q)", "fill-opacity": 0.25, stroke: "var(--q)" };
const [right, up] = [start + side - 2, top + 2];
const cross = { d: `M${right - 3} ${up - 3}l6 6m0 -6l-6 6`, stroke: "var(--paper)" };
return {
line: svg("path", { stroke: "var(--soft)", fill: "none" }),
box: svg("rect", { x: start, y: top, ...square, ...look }),
name: text(x, top + side / 2 + 5, i, plain),
cross: svg("g", {}, svg("circle", { cx: right, cy: up, r: 7.5, fill: "var(--rose)" }),
svg("path", { ...cross, "stroke-width": 2 })),
};
}
const queries = [...Array(heads).keys()].map((i) => {
const part = queryParts(i);
const choose = () => { chosen = i; show(); };
const beside = (by) => queries[clamp(i + by, 0, heads - 1)];
const node = svg("g", {
style: "cursor: pointer", tabindex: 0, role: "button",
"aria-label": `query head ${i}`, ...keep,
onclick: choose, onfocus: choose, onpointerenter: choose,
onkeydown: onkeys(arrows, (by) => beside(by).node.focus()) },
part.box, part.name, part.cross);
return { ...part, node, at: 0 };
});
const behind = wide ? 8 : 6;
const keys = [...Array(heads).keys()].map(() => ({
value: svg("rect", { y: bottom + behind, ...square, fill: "var(--v)", stroke: "var(--v)",
"data-sym": "v" }),
paper: svg("rect", { y: bottom, ...square, fill: "var(--paper)" }),
box: svg("rect", { y: bottom, ...square, fill: "var(--k)", stroke: "var(--k)" }),
name: text(0, bottom + side / 2 + 5, "", plain),
}));
for (const k of keys) {
k.node = svg("g", {}, k.value, k.paper,
svg("g", { "data-sym": "k", style: "color: inherit" }, k.box, k.name));
}
const both = [["k", "key"], [null, " / "], ["v", "value"], [null, " heads"]];
root.append(svg("text", { y: bottom + side + 28, "aria-hidden": true, style: bold.style },
...both.map(([sym, says]) => svg("tspan", { "data-sym": sym, fill: "currentColor" }, says))));
root.append(
...queries.map((q) => q.line),
...keys.map((k) => k.node),
...queries.map((q) => q.node));
const amount = svg("text", { x: 0, y: bottom + side + 56, "aria-hidden": true,
style: "font-size: 17px; font-weight: 600" });
const bar = { y: bottom + side + 66, height: 22 };
const parts = [...Array(heads - 1).keys()].map((j) =>
`M${gap * (j + 1)} ${bar.y}v${bar.height}`).join("");
const used = ["k", "v"].map((sym, i) => svg("rect", { x: 0, y: bar.y + 11 * i, height: 11,
fill: `var(--${sym})`, "fill-opacity": 0.75, "data-sym": sym }));
const outline = { width: width - 1, fill: "none", stroke: "var(--edge)" };
root.append(amount, svg("rect", { x: 0.5, ...bar, ...outline }), ...used,
svg("path", { d: parts, stroke: "var(--paper)", "stroke-width": 2 }),
...options.map(cutAt));

function cutAt(of) {
const share = of * perHead / one;
const says = { 0.5: "½", 0.25: "¼", 0.125: "⅛" }[share] ?? grouped(share);
const last = of === heads;
return text(width * of / heads, bar.y + bar.height + 16, last ? `${says} ${unit}` : says,
{ style: "fill: var(--soft)", "text-anchor": last ? "end" : "middle" });
}

function lines() {
const [from, middle] = [top + side, (top + side + bottom) / 2];
queries.forEach((q, i) => set(q.line, {
d: `M${queryAt(i)} ${from}C${queryAt(i)} ${middle} ${q.at} ${middle} ${q.at} ${bottom}` }));
}
function showQuery(q, i, reads, lit, off) {
set(q.line, {
stroke: off ? "var(--rose)" : lit ? "var(--q)" : "var(--edge)",
"stroke-width": i === chosen ? 4 : lit ? 2.5 : 1.5,
"stroke-dasharray": off ? "5 4" : null });
set(q.box, { "fill-opacity": lit ? 0.55 : 0.15, "stroke-width": i === chosen ? 3 : 1 });
const judged = off ? ", the wrong one" : "";
set(q.node, { "aria-label": `query head ${i}, reads key head ${reads}${judged}` });
set(q.cross, { visibility: off ? "visible" : "hidden" });
}
function showKey(k, j, lit) {
const look = { "fill-opacity": lit ? 0.6 : 0.2, "stroke-width": lit ? 3 : 1 };
for (const part of [k.value, k.box]) set(part, look);
k.name.textContent = j;
}
function placeKey({ value, paper, box, name }, x) {
set(value, { x: x - side / 2 + behind });
for (const part of [paper, box]) set(part, { x: x - side / 2 });
set(name, { x });
}
function tell(off) {
const count = off.filter(Boolean).length;
const untrained = "query heads read keys that they were not trained with.";
const order = count ? `In the wrong order (repeat) ${count} of ${heads} ${untrained}`
: `With ${n} both orders are the same.`;
say(wrong ? order : `${what} take ${size(n * perHead)}.`);
}
function show() {
const now = reads();
const off = lost();
const mine = now[chosen];
queries.forEach((q, i) => showQuery(q, i, now[i], now[i] === mine, off[i]));
keys.forEach((k, j) => showKey(k, j, j === mine));
amount.textContent = `cache: ${size(n * perHead)}`;
tell(off);
}
const glide = motion();
function place(t, from, before) {
const many = t < 1 ? Math.max(before, n) : n;
const joined = (j, of) => keyAt(wrong ? j % of : Math.floor(j / (many / of)), of);
keys.forEach((k, j) => {
set(k.node, { visibility: j < many ? "visible" : "hidden" });
set(k.name, { opacity: t < 1 && before !== n ? 0 : 1 });
if (j < many) placeKey(k, between(joined(j, Math.min(before, many)), joined(j, n), t));
});
queries.forEach((q, i) => { q.at = between(from[i], keyAt(reads()[i]), t); });
lines();
for (const half of used) set(half, { width: (width * between(before, n, t)) / heads });
}
let placed = n;
function move() {
const [from, before] = [queries.map((q) => q.at), placed];
placed = n;
show();
glide(450, (t) => place(t, from, before));
}

const offered = [...options].reverse();
const pick = choices("heads of keys and values", offered.map(String), offered.indexOf(n),
(i) => { n = offered[i]; offer(); move(); });
set(said, { style: `min-height: ${wide ? 1.4 : 2.8}em; margin-top: 0.4rem` });
const label = el("span", { "data-sym": "k", style: "font-weight: 600" }, "key heads");
const order = toggle("wrong order", false, (on) => { wrong = on; move(); });
function offer() {
const same = n === heads || n === 1;
set(order, { disabled: same });
order.style.opacity = same ? 0.45 : 1;
order.style.cursor = same ? "default" : "";
}
const controls = wide ? [] : [order, ...pick.querySelectorAll("label")];
for (const one of controls) one.style.paddingInline = "0.5rem";
view.append(
el("div", { class: "row", style: `margin-top: 0; gap: ${wide ? "1.5rem" : "0.4rem"}` },
el("div", { class: "row", style: wide ? "" : "gap: 0.4rem" }, label, pick), order),
root, said);
offer();
place(1, queries.map((q) => q.at), n);
show();
expose(() => ({
n_kv_heads: n, wrong, chosen, reads: reads(), lost: lost(), bytes: n * perHead }));
}
for (const figure of document.querySelectorAll("figure[data-drawing=sharing]")) begin(figure, draw);
})();
