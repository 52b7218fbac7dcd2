(() => {
function draw(stage) {
const { view, viewWidth, data, el, svg, set, mix, softmax, sum, number, vector, quoted } = stage;
const { percent, between, motion, late, said, say, slider, player, expose } = stage;
const { tokens, v, window, modes } = data;
const n = tokens.length;
const wide = viewWidth >= 600;
let newest = data.newest;
const ms = 700;

const inside = (i, at = newest) => i <= at && i > at - window;
function weigh({ name, first, sink }, at = newest) {
const open = [...tokens.map((_, i) => inside(i, at) || (first && i === 0)), sink];
const scores = [...data.scores, data.sink];
const weights = softmax(scores.map((s, i) => (open[i] ? s : -Infinity)));
const context = mix(weights.slice(0, n), v);
return { name, weights, context, others: sum(weights.slice(1, n)) };
}

const width = viewWidth || 350, column = width / n;
const text = (x, y, says, more = {}) =>
svg("text", { x, y, "text-anchor": "middle", ...more }, says);
const soft = "font-size: 13px; fill: var(--soft)";
const frame = svg("rect", { y: 3, height: 54, rx: 8, class: "moves",
fill: "var(--control)", "fill-opacity": 0.07, stroke: "var(--control)", "stroke-width": 1.5 });
const left = svg("rect", { x: 3, y: 6, width: column - 6, height: 48, rx: 6, fill: "none",
stroke: "var(--soft)", "stroke-width": 1.5, "stroke-dasharray": "4 3" });
const words = tokens.map((token, i) => svg("g", {},
text(column * (i + 0.5), 27, token,
{ style: `font-size: ${wide ? 17 : 15}px; font-weight: 600` }),
text(column * (i + 0.5), 47, `score ${number(data.scores[i], 0)}`, { style: soft })));

const names = [...tokens, "sink"];
const [from, tall, thick] = [78, wide ? 86 : 80, wide ? 46 : 40];
const high = from + modes.length * tall - 12;
function partOf(i, y) {
const hue = i < n ? "w" : "rose";
const rect = svg("rect", { y, height: thick, rx: 2, class: "moves", fill: `var(--${hue})`,
"fill-opacity": i < n ? 0.4 : 0.15, stroke: `var(--${hue})`,
...(i < n ? { "data-sym": "w" } : { "stroke-dasharray": "4 3" }) });
return { rect, word: text(0, y + thick / 2 + 5, "") };
}
const rows = modes.map(({ name }, k) => {
const y = from + k * tall;
const parts = names.map((_, i) => partOf(i, y + 26));
const count = svg("tspan", {
style: "font-size: 20px; font-weight: 600; fill: currentColor" });
const share = text(width, y + 18, "", { "text-anchor": "end", style: soft });
share.append(count, " on other words");
const ghost = svg("tspan", { dx: 12, style: `${soft}; font-weight: 400` });
const title = text(0, y + 18, "", { "text-anchor": "start", style: "font-weight: 600" });
title.append(name, ghost);
const had = percent(weigh(modes[k], window - 1).weights[0]);
return { parts, count, ghost, had, nodes: [title, share, ...parts.map(({ rect }) => rect),
...parts.map(({ word }) => word)] };
});
const root = svg("svg", { width, height: high, viewBox: `0 0 ${width} ${high}`, role: "img",
style: `--pace: ${ms}ms`,
"aria-label": "Words, the window, and the weights in each way" },
frame, left, ...words, ...rows.flatMap(({ nodes }) => nodes));

const grow = motion();
let told;
function tellOthers(now) {
const from = told ?? now;
grow(ms, (t) => {
told = between(from, now, t);
rows.forEach(({ count }, k) => { count.textContent = percent(told[k]); });
});
}
function showRow({ parts, ghost, had }, { weights }) {
let x = 0;
parts.forEach(({ rect, word }, i) => {
const long = weights[i] * width;
set(rect, { x, width: Math.max(0, long - 1), opacity: long > 1 ? 1 : 0 });
set(word, { x: x + long / 2 });
word.textContent = long > 9 * names[i].length ? names[i] : "";
late(word, ms);
x += long;
});
const shared = newest >= window && !weights[0] && !weights[n];
ghost.textContent = shared ? `${quoted(tokens[0])} had ${had}` : "";
}
function explain([plain, repaired]) {
const past = newest >= window;
const mended = past ? `; with the first token, ${repaired}` : "";
say(`At ${quoted(tokens[newest])}, ${quoted(tokens[0])} ${past ? "has left" : "is in"} `
+ `the window. The context is ${plain}${mended}.`);
}
function show() {
const now = modes.map((mode) => weigh(mode));
const first = Math.max(0, newest - window + 1);
set(frame, { x: column * first + 2, width: column * (newest - first + 1) - 4 });
set(left, { visibility: newest < window ? "hidden" : null });
words.forEach((word, i) => set(word, { opacity: inside(i) ? 1 : 0.4 }));
rows.forEach((row, k) => showRow(row, now[k]));
tellOthers(now.map(({ others }) => others));
explain(now.map(({ context }) => vector(context, number)));
}
function go(to) {
newest = to;
range.move(newest + 1);
show();
}
const range = slider(wide ? "Newest token" : "Newest", {
min: 1, max: n, step: 1, value: newest + 1, text: (x) => quoted(tokens[x - 1]),
input: (x) => { play.stop(); newest = x - 1; show(); } });
const play = player({ at: () => newest, last: () => n - 1, go, ms: () => 1200,
first: data.newest });
set(said, { style: `min-height: ${wide ? 1.4 : 4.2}em; margin-top: 10px` });
view.append(el("div", { class: "row steered", style: "margin-top: 0" }, play.node, range), root,
said);
show();
expose(() => ({ newest, ways: modes.map((mode) => weigh(mode)) }));
}
for (const figure of document.querySelectorAll("figure[data-drawing=sinks_window]")) begin(figure, draw);
})();
