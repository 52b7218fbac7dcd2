(() => {
function draw(stage) {
const { view, viewWidth, data, el, svg, set, dot, softmax, mix, number, plural } = stage;
const { said, say, legendOf, slider, player, late, expose } = stage;
const { tokens, q, k, v } = data;
const n = tokens.length;
const all = [...tokens.keys()];
const kinds = [["query", "var(--q)"], ["key", "var(--k)"], ["value", "var(--v)"]];
const first = Math.floor(n / 2) - 1;
let t = first;

const ways = [["with", "with a cache"], ["without", "without"]];
function does(way, i, kind) {
if (i > t) return "";
if (way === "without" || i === t) return "computed";
return kind === "query" ? "" : "read";
}
function attend() {
const scores = k.slice(0, t + 1).map((key) => dot(q[t], key) / Math.sqrt(key.length));
const weights = softmax(scores);
return { weights, context: mix(weights, v.slice(0, t + 1)) };
}
const sofar = () => ({ with: t + 1, without: (t + 1) * (t + 2) / 2 });

const margin = 54;
const column = (viewWidth - margin) / n;
const upright = column < 34;
const left = (i) => margin + column * i;
const top = upright ? 50 : 24, tall = 22, high = 48;
const begins = [0, 1].map((way) => top + 18 + way * (3 * tall + 24));
const floor = begins[1] + 3 * tall + 22 + high;
const small = "font-size: 13px", middle = { "text-anchor": "middle" };
const text = (x, y, says, more = {}) => svg("text", { x, y, style: small, ...more }, says);
const tops = all.map((i) => svg("text", upright
? { transform: `translate(${left(i) + column / 2 + 4} ${top - 8}) rotate(-90)` }
: { x: left(i) + column / 2, y: 14, ...middle }, tokens[i]));
const newest = svg("rect", { y: top - 5, width: column - 3, height: 3, fill: "var(--q)" });
const edge = { "stroke-width": 2, "stroke-linejoin": "round" };
const rows = ways.flatMap(([way], at) => kinds.map(([name, hue], r) => {
const mixed = (part) => `color-mix(in srgb, ${hue} ${part}%, var(--paper))`;
const path = (stroke, fill) => svg("path", { stroke, fill, ...edge, "data-sym": name[0] });
return { way, name, y: begins[at] + r * tall, read: path(mixed(20), mixed(20)),
computed: path(hue, mixed(60)) };
}));
const boxAt = (i, y) => `M${(left(i) + 2.5).toFixed(1)} ${y + 3}`
+ `h${(column - 5).toFixed(1)}v${tall - 7}h-${(column - 5).toFixed(1)}z`;
const bars = all.map((i) => svg("rect", { x: left(i) + 1.5, width: column - 3, y: floor,
height: 0, rx: 2, fill: "var(--w)", "data-sym": "w", class: "moves" }));
const weights = all.map((i) =>
text(left(i) + column / 2, 0, "", { ...middle, class: "weight halo" }));
const ofWeights = svg("g", {}, ...weights);
const line = (y, stroke) => svg("path", { d: `M${margin} ${y}H${viewWidth}`, stroke });
const board = svg("svg", { width: viewWidth, height: floor + 2, role: "img",
viewBox: `0 0 ${viewWidth} ${floor + 2}`, style: "height: auto; --pace: 0.45s",
"aria-label": "Each column is a token; computed in this step, or read from the cache" },
...tops, newest, line(floor - high, "var(--faint)"), line(floor, "var(--soft)"),
...rows.flatMap(({ read, computed }) => [read, computed]),
...rows.map(({ name, y }) => text(0, y + tall - 6, name, { "data-sym": name[0] })),
...ways.map(([, says], at) => text(0, begins[at] - 3, says,
{ style: `${small}; font-weight: 600` })),
text(0, floor - 2, "weight", { "data-sym": "w" }),
text(margin - 7, floor - high + 5, "1", { "text-anchor": "end", fill: "var(--soft)" }),
...bars, ofWeights);

const marked = (part, stroke) => svg("svg", { width: 20, height: 20, "aria-hidden": true },
svg("path", { d: "M2 2h16v16h-16z", fill: `color-mix(in srgb, var(--neutral) ${part}%, `
+ "var(--paper))", stroke, ...edge }));
const legend = legendOf([marked(60, "var(--neutral)"), "computed now"],
[marked(20, "none"), "read from the cache"]);
legend.style.marginTop = "8px";

const gap = viewWidth < 600 ? 14 : 32;
const half = (viewWidth - gap) / 2;
const base = viewWidth < 600 ? 150 : 144;
const [across, pitch] = [half / n, base / n];
const [w, h] = [across, pitch].map((x) => (x - 3.5).toFixed(1));
const pale = "color-mix(in srgb, var(--k) 20%, var(--paper))";
const cutOff = (id, shown, ...parts) => svg("g", { "clip-path": `url(#${id})` },
svg("clipPath", { id }, shown), ...parts);
function stair(name, how, x, isNew) {
function brick(i, j) {
const [left, top] = [x + across * i + 1, base - pitch * (j + 1) + 1];
return `M${left.toFixed(1)} ${top.toFixed(1)}h${w}v${h}h-${w}z`;
}
const bricks = (now) => all.flatMap((i) => all.slice(0, i + 1)
.filter((j) => isNew(i, j) === now).map((j) => brick(i, j))).join("");
const pile = (ink, now) => svg("path", { fill: ink, stroke: ink, "stroke-width": 2,
"stroke-linejoin": "round", "data-sym": "k", d: bricks(now) });
const sofar = svg("rect", { x, y: 0, height: base, class: "moves" });
const piles = cutOff(`steps-${name}`, sofar, pile(pale, false), pile("var(--k)", true));
const [size, ...at] = viewWidth < 600 ? [28, 23, 39, 53] : [34, 27, 46, 62];
const many = svg("text", { x, y: at[0], style: `font-size: ${size}px; font-weight: 700` });
const says = (y, text) => svg("text", { x, y, "aria-hidden": true,
style: `font-size: ${viewWidth < 600 ? 12 : 13}px` }, text);
const ratio = says(at[0], "");
const title = svg("g", { style: "font-weight: 600" }, many, ratio,
says(at[1], "keys computed"), says(at[2], how));
const under = svg("rect", { y: base + 2, width: across - 1.5, height: 3, fill: "var(--q)" });
function stand() {
set(under, { x: x + across * t });
set(sofar, { width: across * (t + 1) });
}
return { name, piles, title, many, ratio, under, stand };
}
const tally = [stair("with", "with a cache", 0, (i, j) => i === j),
stair("without", "without", half + gap, () => true)];
const total = svg("svg", { width: viewWidth, height: base + 6, role: "img",
viewBox: `0 0 ${viewWidth} ${base + 6}`, style: "height: auto; margin-top: 14px" },
svg("path", { d: `M0 ${base}H${viewWidth}`, stroke: "var(--faint)" }),
...tally.flatMap(({ piles, title, under }) => [piles, title, under]));

function showName(i) {
const looks = i === t ? "font-weight: 700" : i > t ? "opacity: 0.55" : "";
set(tops[i], { style: `font-size: 12px; ${looks}` });
}
function showRow({ way, name, y, read, computed }) {
for (const [node, state] of [[read, "read"], [computed, "computed"]]) {
const mine = all.filter((i) => does(way, i, name) === state);
set(node, { d: mine.map((i) => boxAt(i, y)).join("") || null });
}
}
function showWeight(i, weight, most) {
const y = floor - high * weight;
set(bars[i], { y, height: high * weight });
weights[i].textContent = weight >= 0.05 && (!upright || weight === most)
? number(weight) : "";
set(weights[i], { y: y - 4 });
}
function showTally(computed) {
for (const { name, many, stand } of tally) {
many.textContent = computed[name];
stand();
}
const again = tally[1];
const times = number(computed.without / computed.with, 1);
again.ratio.textContent = t ? `${times} times${viewWidth < 600 ? "" : " as many"}` : "";
const digit = viewWidth < 600 ? 19.5 : 23.7;
set(again.ratio, { x: half + gap + 8 + digit * `${computed.without}`.length });
set(total, { "aria-label": "Keys computed so far: "
+ tally.map(({ name }) => `${computed[name]} ${name} a cache`).join(", ") });
}
function sentence() {
const word = `“${tokens[t]}”`;
if (!t) return `${word}: one key is computed, either way.`;
const old = `${plural(t, "old one is", "old ones are")} read`;
return `${word}: with a cache one key is computed, ${old}; without, ${t + 1} are computed.`;
}
function show() {
const { weights } = attend();
all.forEach(showName);
set(newest, { x: left(t) + 1.5 });
rows.forEach(showRow);
for (const i of all) showWeight(i, weights[i] ?? 0, Math.max(...weights));
showTally(sofar());
say(sentence());
}

const range = slider("Tokens so far", {
min: 1, max: n, step: 1, value: t + 1, text: (x) => number(x, 0),
input: (x) => { play.stop(); t = x - 1; show(); } });
function go(i) {
t = i;
range.move(t + 1);
show();
late(ofWeights, 450);
}
const play = player({ at: () => t, last: () => n - 1, go, first });
set(said, { style: `min-height: ${viewWidth < 600 ? 2.8 : 1.4}em; margin-top: 12px` });
view.append(
el("div", { class: "row steered", style: "margin-top: 0" }, play.node, range),
board, legend, total, said);
show();
const having = (wanted) => Object.fromEntries(ways.map(([way]) =>
[way, kinds.map(([name]) => all.filter((i) => does(way, i, name) === wanted).length)]));
expose(() => ({
step: t, computed: having("computed"), read: having("read"), sofar: sofar(), ...attend() }));
}
for (const figure of document.querySelectorAll("figure[data-drawing=cache_steps]")) begin(figure, draw);
})();
