(() => {
function draw(stage) {
const { view, viewWidth, data, el, svg, set, clamp, softmax, number, raised } = stage;
const { said, say, slider, choices, toggle, handle, tabulate, expose } = stage;
const { tokens, scores: given, reach } = data;
const f32 = Math.fround;
const wide = viewWidth >= 600;
const scores = [...given];
const added = [0, 10, 100];
let shift = 0;
let temperature = 1;
let repaired = false;
let exps = [];
let weights = [];
let same = false;
const [width, zero, unit, powers, long, bar, full] = wide ? [720, 152, 20, 342, 110, 534, 142]
: [346, 78, 7, 183, 28, 276, 31];
const quotients = powers - (wide ? 32 : 8);
const high = 40, top = 26, base = top + high * tokens.length;
const root = svg("svg", {
width, height: base + 24, viewBox: `0 0 ${width} ${base + 24}`, role: "group",
style: "height: auto", "aria-label": "Scores to drag, and their weights" });
const text = (x, y, anchor, says = "", more = {}) =>
svg("text", { x, y, "text-anchor": anchor, "aria-hidden": true, ...more }, says);
const bold = { style: "font-weight: 600" };
const divided = text(quotients, 14, "end", "", bold);
const kept = text(bar + full / 2, base + 18, "middle", "the same weights", { "data-sym": "w" });
root.append(
divided, kept,
text(powers, 14, "start", wide ? "exponential" : "exp", bold),
text(bar, 14, "start", "weight", { ...bold, "data-sym": "w" }));
const ticks = [-reach, 0, reach].map((x) => {
const label = text(zero + x * unit, base + 18, "middle");
const line = `M${zero + x * unit} ${top}V${base}`;
root.append(svg("path", { d: line, stroke: x ? "var(--faint)" : "var(--soft)" }), label);
return { x, label };
});

function compute() {
const x = scores.map((s) => f32(f32(s + shift) / f32(temperature)));
const most = repaired ? Math.max(...x) : 0;
exps = x.map((s) => f32(Math.exp(f32(s - most))));
const sum = exps.reduce((a, b) => f32(a + b), 0);
weights = exps.map((e) => f32(e / sum));
const plain = softmax(scores.map((s) => s / temperature));
same = Boolean(shift) && weights.every((w, i) => number(w) === number(plain[i]));
}
function short(x) {
if (x === Infinity) return "∞";
if (x && (x >= 1e4 || x < 0.005)) {
const [m, e] = x.toExponential(1).split("e");
return `${m}·10${raised(+e)}`;
}
return number(x, x >= 100 ? 0 : 2);
}

const keys = {
ArrowLeft: -0.1, ArrowDown: -0.1, ArrowRight: 0.1, ArrowUp: 0.1, PageDown: -1, PageUp: 1,
Home: -Infinity, End: Infinity };
function knobOf(word, i, y) {
const move = (to) => {
scores[i] = Math.round(clamp(to, -reach, reach) * 10) / 10;
show();
};
const place = { cy: y, style: "outline-offset: -5px" };
return handle(root, `score of ${word}`, place, [-reach, reach],
(x) => move((x - zero) / unit), keys,
(by, e) => move(scores[i] + by * (e.shiftKey ? 10 : 1)));
}
const rows = tokens.map((word, i) => {
const y = top + high * (i + 0.5);
const box = { y: y - 9, height: 18 };
const crossed = `M${bar} ${y - 9}l36 18m-36 0l36 -18`;
const part = {
to: svg("path", { stroke: "var(--soft)", "stroke-dasharray": "2 3" }),
value: text(quotients, y + 5, "end"),
raw: text(0, y - 13, "middle", "", { style: "font-size: 13px; fill: var(--soft)" }),
exp: text(0, y + 5, "start"),
weight: text(0, y + 5, "start", "", { "data-sym": "w" }),
score: svg("rect", { ...box, fill: "var(--neutral)", opacity: 0.75 }),
on: svg("path", { fill: "var(--neutral)" }),
dot: svg("circle", { cy: y, r: 6, fill: "currentColor" }),
power: svg("rect", { x: powers, ...box, fill: "var(--neutral)" }),
share: svg("rect", { x: bar, ...box, fill: "var(--w)", "data-sym": "w" }),
cross: svg("path", { d: crossed, stroke: "currentColor", "stroke-width": 2 }),
knob: knobOf(word, i, y),
};
root.append(text(0, y + 5, "start", word, bold), ...Object.values(part));
return { y, ...part };
});

function showScore(part, i) {
const x = zero + scores[i] * unit;
const score = scores[i] / temperature;
const end = zero + clamp(score, -reach, reach) * unit;
const beyond = Math.abs(score) > reach + 1e-9;
const way = scores[i] < 0 ? -1 : 1;
set(part.score, { x: Math.min(end, zero), width: Math.abs(end - zero) });
set(part.on, { visibility: beyond ? "visible" : "hidden",
d: `M${end + 2 * way} ${part.y - 9}l${8 * way} 9l${-8 * way} 9z` });
set(part.dot, { cx: x });
set(part.to, { d: way * (x - end) > 0 ? `M${end} ${part.y}H${x}` : null });
writeScore(part, i, x);
return x;
}
function writeScore({ value, raw }, i, knob) {
const given = (scores[i] + shift) / temperature;
const digits = temperature !== 1 && Math.abs(given) >= 10 ? 0 : 1;
set(value, { style: temperature === 1 ? null : "font-weight: 600" }, number(given, digits));
raw.textContent = temperature === 1 ? "" : number(scores[i] + shift, 1);
const half = 4.5 * raw.textContent.length;
const way = scores[i] < 0 ? -1 : 1;
set(raw, { x: way * Math.max(way * knob, way * zero + half + 4) });
}
function showRow(part, i, broken) {
const x = showScore(part, i);
const w = broken ? 0 : weights[i];
const weight = broken ? "NaN" : number(w);
const spoken = `${number(scores[i] + shift, 1)}, weight ${weight}`;
set(part.knob, { cx: x, "aria-valuenow": scores[i], "aria-valuetext": spoken });
const length = long * Math.min(1, exps[i] / Math.max(...exps) || +(exps[i] > 0));
set(part.power, { width: length });
set(part.exp, { x: powers + length + 6 });
part.exp.textContent = short(exps[i]);
set(part.share, { width: full * w });
set(part.cross, { visibility: broken ? "visible" : "hidden" });
set(part.weight, { x: broken ? bar + 44 : bar + full * w + 6 });
part.weight.textContent = weight;
}
function sentence() {
if (weights.some(Number.isNaN)) {
return exps.includes(Infinity)
? "An exponential is beyond float32, so it is infinite. "
+ "Infinity ÷ infinity is not a number."
: "Every exponential is 0 in float32. 0 ÷ 0 is not a number.";
}
if (!weights.some(Boolean)) {
return "The sum of the exponentials is beyond float32, so it is infinite, "
+ "and every weight is 0.";
}
const [most, all] = [Math.max(...exps), exps.reduce((a, b) => f32(a + b), 0)].map(short);
const first = repaired ? "No exponential is above 1. " : "";
if (temperature !== 1) {
return `${first}A bar is a score ÷ ${number(temperature)}; its knob stays at the score.`;
}
const top = number(Math.max(...weights));
return `${first}Each is divided by their sum: ${most} ÷ ${all} = ${top}.`;
}
const tick = (x) => number(x, Math.abs(x - Math.round(x)) < 0.05 ? 0 : 1);
function show() {
compute();
divided.textContent = temperature === 1 ? "score" : `score ÷ ${number(temperature)}`;
for (const { x, label } of ticks) label.textContent = tick(x + shift / temperature);
const middle = ticks[1].label;
const fits = unit * reach > 9 * middle.textContent.length;
set(middle, { visibility: fits ? "visible" : "hidden" });
set(kept, { visibility: same ? "visible" : "hidden" });
rows.forEach((part, i) => showRow(part, i, Number.isNaN(weights[i])));
say(sentence());
}

const shifts = choices("What is added to every score",
["as they are", "+10 to all", "+100 to all"], 0, (i) => { shift = added[i]; show(); });
const warmth = slider("temperature", {
min: -1, max: 1, step: 0.05, value: 0, text: (x) => number(10 ** x, 2),
input: (x) => { temperature = 10 ** x; show(); } });
view.append(
el("div", { class: "row", style: "margin-top: 0" }, shifts,
toggle("subtract the maximum first", false, (on) => { repaired = on; show(); })),
set(warmth, { style: "margin-bottom: 8px" }), root, said);
if (!wide) set(said, { style: "min-height: 2.8em" });
show();
tabulate(() => ({ caption: "Scores, exponentials, weights", columns: tokens, rows: [
[divided.textContent, scores.map((s) => (s + shift) / temperature)],
["exponential", exps.map(short)],
["weight", weights.map((w) => (Number.isNaN(w) ? "NaN" : w))]] }));
expose(() => ({
scores: scores.map((s) => s + shift), temperature, repaired,
exps: exps.map(String), weights: weights.map(String) }));
}
for (const figure of document.querySelectorAll("figure[data-drawing=scores]")) begin(figure, draw);
})();
