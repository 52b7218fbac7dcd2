(() => {
function draw(stage) {
const { view, viewWidth, data, el, svg, set, number, grouped, percent, clamp, softmax } = stage;
const { say, said, slider, toggle, button, player, motion, expose } = stage;
const { widths, counts, limits, deviation, scores, gradient } = data;
const kinds = ["plain", "scaled"];
let at = data.start;
let query = data.query;
let scaled = false;
let pressed = false;
let last, before;
const kind = () => kinds[+scaled], root = () => widths[at] ** 0.5;
const wide = viewWidth >= 600;

const full = 350, deep = wide ? 150 : 130, low = deep + 6, high = low + 54;
const middle = full / 2;
let shape = kind();
let stretch = 1;
const area = svg("path", {
fill: "var(--neutral)",
"fill-opacity": 0.55,
stroke: "var(--neutral)",
"stroke-width": 1,
});
const ghost = svg("path", { stroke: "var(--soft)", "stroke-dasharray": "3 3", fill: "none" });
const reach = svg("path", { stroke: "currentColor", "stroke-width": 3, fill: "none" });
const bold = "font-size: 13px; font-weight: 600";
const soft = "font-size: 12px; fill: var(--soft)";
const name = svg("text", { "text-anchor": "middle", style: bold });
const told = el("span", { style: "font-size: 12px; color: var(--soft)" });
const anchors = { "-1": "start", 0: "middle", 1: "end" };
const tick = (side) => svg("text", { x: middle * (1 + side), y: low + 50,
"text-anchor": anchors[side], style: side ? bold : soft }, "0");
const ticks = [-1, 0, 1].map(tick);
const axis = svg("path", { d: `M0 ${low}H${full}M${middle} ${low}v6`, stroke: "var(--soft)" });
const picture = svg("svg", {
width: full,
height: high,
viewBox: `0 0 ${full} ${high}`,
role: "img",
style: "height: auto; flex: none",
"aria-label": "A histogram of the scores of random queries and keys",
}, ghost, area, axis, reach, name, ...ticks);
function areaOf(found, far) {
const now = found.slice(1, -1);
const top = Math.max(...now), half = now.length / 2, reach = (far / limits.plain) * middle;
const end = (i) => clamp(middle + ((i - half) / half) * reach, 0, full).toFixed(1);
const steps = now.map((n, i) => `V${(low - (deep * n) / top).toFixed(1)}H${end(i + 1)}`);
return `M${end(0)} ${low}${steps.join("")}V${low}Z`;
}
function reachOf(far) {
const [from, to] = [middle - far, middle + far];
if (far < 4) return `M${middle} ${low + 11}v8`;
return `M${from} ${low + 11}v8M${to} ${low + 11}v8M${from} ${low + 15}H${to}`;
}
function dashed() {
const were = shape === "scaled" ? counts.plain[at] : before;
return were ? areaOf(were, limits.plain) : null;
}
function showCurve() {
set(area, { d: areaOf(counts[shape][at], limits[shape] * stretch) });
set(reach, { d: reachOf((deviation[shape][at] * stretch / limits.plain) * middle) });
set(ghost, { d: dashed() });
}
const squeeze = motion();
const between = (a, b, t) => a * (b / a) ** t;
function stretchTo(end) {
const from = stretch;
return squeeze(500, (t) => {
stretch = between(from, end, t);
showCurve();
});
}
function rest() {
[shape, stretch] = [kind(), 1];
showCurve();
}
async function divideScores() {
if (shape === "plain") [shape, stretch] = ["scaled", root()];
if (await stretchTo(scaled ? 1 : root())) rest();
}
function showEnd(side, beyond) {
const part = percent(beyond / data.pairs);
const says = !scaled && part !== "0%" ? ` (${part} beyond)` : "";
ticks[1 + side].textContent = `${number(side * limits.plain, 0)}${says}`;
}
function showScores(divided) {
const now = counts[kind()][at];
before = last && last !== now && !divided && !scaled ? last : null;
last = now;
told.textContent = scaled ? "dashed: not divided" : before ? "dashed: before" : "";
for (const node of [area, reach]) set(node, { class: divided ? null : "moves" });
if (divided) divideScores();
else squeeze(0, rest);
set(name, { x: middle, y: low + 35 });
for (const side of [-1, 1]) showEnd(side, now.at(side < 0 ? 0 : -1));
name.textContent = `standard deviation ${number(deviation[kind()][at], 1)}`;
}

const tall = 110;
const small = "font-size: 12px";
const bars = scores[0][0].map(() => ({
bar: el("div", { "data-sym": "w", class: "moves" }),
text: el("span", { style: small }),
key: el("span", { style: `${small}; color: var(--soft)` }),
}));
const upright = "display: flex; flex-direction: column; justify-content: flex-end";
function columnOf({ bar, text, key }, i) {
key.textContent = i + 1;
const track = "background: linear-gradient(rgba(128, 128, 128, 0.12) 0 0) 50% 100% / 100% "
+ `${tall}px no-repeat`;
const stack = el("div", { style: `${upright}; height: ${tall + 16}px; ${track}` }, text, bar);
return el("div", { style: "min-width: 0; line-height: 16px" }, stack, key);
}
const grid = `display: grid; grid-template-columns: repeat(${bars.length}, 1fr)`;
const columns = el("div", {
role: "img",
"aria-label": "The weights that one query gives to its keys",
style: `${grid}; gap: 4px; text-align: center`,
}, ...bars.map(columnOf));
const fill = el("div", {});
const left = el("span", { style: "min-width: 2.6rem; text-align: right; font-weight: 600" });
const inRow = "display: flex; gap: 8px; align-items: center; font-size: 13px; "
+ "margin: 4px 0 16px";
const framed = "box-sizing: border-box; border: 1px solid var(--soft); border-radius: 3px";
const whole = Math.max(...Object.values(gradient).flat());
const mark = el("span", { style: `position: absolute; left: ${100 / whole}%; top: -4px; `
+ "height: 20px; border-left: 2px solid currentColor; margin-left: -1px" },
el("span", { style: `${small}; position: absolute; top: 18px; transform: translateX(-50%)` },
"1"));
const gauge = el("div", { style: inRow },
el("div", { style: `flex: 1; height: 14px; position: relative; ${framed}` }, fill, mark),
left);
const meaning = el("div", { style: "font-size: 13px; line-height: 18px; margin-top: 8px" },
el("b", {}, "gradient"), ": how much a score moves the weights");
const weights = () => softmax(scores[at][query].map((x) => x / (scaled ? root() : 1)));
const edge = "border-radius: 2px 2px 0 0; box-shadow: 0 1px 0 var(--soft)";
function showWeights() {
const now = weights();
const part = gradient[kind()][at];
const share = ((100 * part) / whole).toFixed(1);
bars.forEach(({ bar, text }, i) => {
set(bar, { style: `height: ${(tall * now[i]).toFixed(1)}px; background: var(--w); ${edge}` });
text.textContent = number(now[i]);
});
set(fill, { style: `height: 100%; width: ${share}%; background: var(--neutral)` });
left.textContent = number(part);
}

const moves = (part) => (part < 0.2 ? "hardly moves" : part < 0.8 ? "still moves" : "moves");
function tell() {
const width = `Width ${grouped(widths[at])}${scaled ? ", divided by √d" : ""}`;
const most = Math.max(...weights());
const part = number(gradient[kind()][at]);
const bar = most > 0.95 ? "one bar" : "the largest bar";
say(`${width}: ${bar} has ${number(most)}, and a score ${moves(+part)} the bars: `
+ `gradient ${part}.`);
}
function show(divided = false) {
showScores(divided);
showWeights();
tell();
}
const title = (text, sym) =>
el("div", { "data-sym": sym, style: bold }, text);
const range = slider("width d", {
min: 0, max: widths.length - 1, step: 1, value: at,
text: (i) => grouped(widths[i]),
input: (i) => { play.stop(); pressed = false; at = i; show(); },
});
const divide = toggle("divide by √d", false, (on) => {
pressed = false;
scaled = on;
show(true);
});
const steps = widths.length;
function go(i) {
if (i === steps || pressed) {
divide.click();
pressed = scaled;
}
if (i === steps) return;
at = i;
range.move(i);
show();
}
const play = player({ at: () => (pressed ? steps : at), go,
last: () => (scaled && !pressed ? steps - 1 : steps),
ms: () => (at < steps - 1 ? 1000 : 1800) });
const another = set(button("Another query", () => {
query = (query + 1) % scores[0].length;
show();
}), { style: "flex: none" });
const heading = "display: flex; justify-content: space-between; align-items: center; gap: 8px; "
+ `min-height: ${wide ? 30 : 20}px; margin-bottom: 2px`;
const beside = "align-items: flex-start; gap: 0.5rem 1.6rem; margin: 0";
set(said, { style: `min-height: ${wide ? 1.4 : 2.8}em; margin-top: 0.4rem` });
const top = `margin-top: 0; margin-bottom: ${wide ? 0.4 : 0.6}rem`;
const steering = wide ? [el("div", { class: "row steered" }, play.node, range), divide]
: [play.node, divide, range];
view.append(
el("div", { class: "row", style: top }, ...steering),
el("div", { class: "beside", style: beside },
el("div", { style: "min-width: 0; max-width: 100%" },
el("div", { style: heading }, title(`scores of ${grouped(data.pairs)} random pairs`),
told),
picture),
el("div", { style: `flex: 1 1 240px; max-width: ${full}px` },
el("div", { style: heading },
title(`weights of ${bars.length} keys`, "w"), another),
columns, meaning, gauge)),
said,
);
show();
expose(() => ({
width: widths[at],
query,
scaled,
weights: weights(),
counts: counts[kind()][at],
deviation: deviation[kind()][at],
gradient: gradient[kind()][at],
}));
}
for (const figure of document.querySelectorAll("figure[data-drawing=spread]")) begin(figure, draw);
})();
