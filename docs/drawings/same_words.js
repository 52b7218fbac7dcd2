(() => {
function draw(stage) {
const { view, viewWidth, data, el, svg, set, clamp, dot, matmul, softmax, mix } = stage;
const { between, number, quoted, listed, vector, said, say, button, player, byItself } = stage;
const { motion, plane, expose } = stage;
const { sentences, table, axes } = data;
const wide = viewWidth >= 600;
const n = sentences[0].length;
let chosen = data.chosen;
let step = n;
let now;
let drawn = { step };

const [gap, tall, most] = wide ? [8, 60, 84] : [4, 50, 68];
const least = wide ? 0 : 0.2;
const broad = Math.min(most, Math.floor((viewWidth - 146) / n));
const room = n * broad + (n - 1) * gap;
const center = (i) => broad / 2 + i * (broad + gap);
const chipsOf = (tokens) => tokens.map((token) => {
const chip = button(token, () => choose(token));
return set(chip, { style: "justify-content: center; min-width: 0; padding-inline: 0; "
+ `font-size: ${wide ? 20 : 16}px` });
});
const inks = [1, 0.55];
const sample = (opacity) =>
svg("svg", { width: 24, height: 14, style: "flex: none", "aria-hidden": true },
svg("path", { d: "M1 7H21m-6 -5l6 5l-6 5", fill: "none", stroke: "var(--v)",
"stroke-width": 3, opacity }));
const lines = sentences.map((tokens, s) => {
const bows = tokens.map(() => svg("path", { "data-sym": "w", fill: "none",
stroke: "var(--w)", "stroke-linecap": "round" }));
const shares = tokens.map(() => svg("text", { "data-sym": "w", class: "halo",
"text-anchor": "middle", style: "font-weight: 600" }));
const arcs = svg("svg", { width: room, height: tall, viewBox: `0 0 ${room} ${tall}`,
"aria-hidden": true, style: "max-width: 100%" }, ...bows, ...shares);
const chips = chipsOf(tokens);
const sum = el("b", { "data-sym": "v", style: "white-space: nowrap" });
const row = el("div", { role: "group", "aria-label": `The tokens of “${tokens.join(" ")}”`,
style: `display: grid; grid-template-columns: repeat(${n}, minmax(0, ${broad}px)); gap: ${gap}px` },
...chips);
const end = el("div", { style: "display: flex; align-items: center; gap: 6px" },
sample(inks[s]), sum);
const node = el("div", { style: "display: grid; align-items: center; "
+ `grid-template-columns: minmax(0, ${room}px) auto; gap: 0 ${wide ? 14 : 6}px` },
arcs, el("span"), row, end);
return { node, bows, shares, chips, sum };
});

const size = wide ? 256 : viewWidth < 345 ? 212 : 236;
const { root, at, arrow } = plane(size, 1.1, -0.25, 0.5);
set(root, { role: "img", style: `flex: none; margin-inline: auto ${wide ? 0 : "auto"}`,
"aria-label": "The weighted values of both sentences, added: both end at one place" });
const note = (x, y, says, more = {}) => {
const node = svg("text", { x, y, "aria-hidden": true, ...more }, says);
root.append(node);
return node;
};
const [x0, y0] = at([0, 0]);
const soft = "fill: var(--soft); font-size: 13px";
note(size - 2, y0 + 31, `${axes[0]} →`, { "text-anchor": "end", style: soft });
note(x0 + 6, 13, `↑ ${axes[1]}`, { style: soft });
const paths = sentences.map((tokens, s) => tokens.map((token) => {
const made = arrow("var(--v)");
set(made.node, { "data-sym": "v", opacity: inks[s] });
return { ...made, name: note(0, 0, token, { "data-sym": "v", class: "halo" }) };
}));
const [bold, middle] = ["font-weight: 600", "middle"];
const spot = svg("circle", { r: 7, fill: "var(--v)", stroke: "var(--paper)", "stroke-width": 2,
"data-sym": "v" });
root.append(spot);
const spotName = note(0, 0, "context", { "data-sym": "v", class: "halo",
"text-anchor": middle, style: bold });

const who = sentences[0];
const told = () => who[chosen];
function compute() {
now = sentences.map((tokens) => {
const x = tokens.map((token) => table[token]);
const [q, k, v] = [data.W_q, data.W_k, data.W_v].map((matrix) => matmul(x, matrix));
const query = q[tokens.indexOf(told())];
const weights = softmax(k.map((key) => dot(query, key) / Math.sqrt(query.length)));
const terms = v.map((value, i) => value.map((number) => number * weights[i]));
return { weights, terms, context: mix(weights, v) };
});
}

function arcOf(from, to) {
if (from !== to) {
const high = 16 + 0.13 * Math.abs(to - from);
const up = tall - high;
return [`M${from} ${tall}C${from} ${up},${to} ${up},${to} ${tall}`, (from + to) / 2,
tall - 0.75 * high];
}
const low = tall - 30;
return [`M${to - 12} ${tall}C${to - 30} ${low},${to + 30} ${low},${to + 12} ${tall}`, to,
tall - 22];
}
function bow({ bows, shares }, tokens, i, weight, done) {
const [d, x, top] = arcOf(center(tokens.indexOf(told())), center(i));
set(bows[i], { d, "stroke-width": 0.8 + 12 * weight,
opacity: done ? 0.25 + 0.65 * weight : 0.15 });
set(shares[i], { x, y: top - 6 * weight - 7 }, weight < least ? "" : number(weight));
}
function piece({ node, point, name }, s, from, to) {
const [[ax, ay], [bx, by]] = [at(from), at(to)];
const long = Math.hypot(bx - ax, by - ay);
point(to, from);
set(node, { visibility: long > 1 ? "visible" : "hidden" });
const flat = Math.abs(bx - ax) >= Math.abs(by - ay);
const [mx, my] = [(ax + bx) / 2, (ay + by) / 2];
const side = s ? -1 : 1;
set(name, { visibility: long > 30 ? "visible" : "hidden",
x: flat ? mx : mx + 9 * side, y: flat ? my + (s ? -9 : 19) : my + 5,
"text-anchor": flat ? middle : ["start", "end"][s] });
}
function paint() {
sentences.forEach((tokens, s) => {
let from = [0, 0];
tokens.forEach((_, i) => {
const part = clamp(drawn.step - i, 0, 1);
const to = from.map((x, axis) => x + part * drawn.terms[s][i][axis]);
piece(paths[s][i], s, from, to);
bow(lines[s], tokens, i, drawn.weights[s][i], part > 0);
from = to;
});
lines[s].sum.textContent = vector(from, number);
});
const [cx, cy] = at(drawn.contexts[0]);
const visibility = drawn.step === n ? "visible" : "hidden";
set(spot, { cx, cy, visibility });
set(spotName, { x: clamp(cx + 42, 30, size - 30), y: Math.max(36, cy - 12), visibility });
}
function tell() {
const { weights, context } = now[0];
const parts = listed(who, (token) => `${number(weights[who.indexOf(token)])} of `
+ quoted(token));
say(step < n ? `${step} of ${n} values are added, in the order of each sentence.`
: `${quoted(told())} takes ${parts}. In either order: ${vector(context, number)}.`);
}
const glide = motion();
function show(ms) {
const was = drawn;
const to = { step, weights: now.map((one) => one.weights), terms: now.map((one) => one.terms),
contexts: now.map((one) => one.context) };
lines.forEach(({ chips }, s) => chips.forEach((chip, i) =>
set(chip, { "aria-pressed": String(sentences[s][i] === told()) })));
glide(ms, (t) => {
drawn = Object.fromEntries(Object.keys(to).map((key) =>
[key, was[key] === undefined ? to[key] : between(was[key], to[key], t)]));
paint();
});
tell();
}
function go(i) {
step = i;
show(i ? 800 : 0);
}
function choose(token) {
chosen = who.indexOf(token);
play.stop();
step = n;
compute();
show(500);
}
const play = player({ at: () => step, last: () => n, ms: () => 1200, go });
const stacked = "display: flex; flex-direction: column; gap: 8px; min-width: 0";
view.append(
el("div", { class: "beside", style: "margin: 0; gap: 8px 24px; align-items: flex-start" },
el("div", { style: stacked }, el("div", { class: "row", style: "margin: 0" }, play.node),
...lines.map(({ node }) => node)),
root),
said);
set(said, { style: `min-height: ${wide ? 1.4 : 2.8}em; max-width: none; `
+ "margin-top: 8px" });
compute();
show(0);
byItself(play, () => go(0));
expose(() => ({ step, token: told(), all: now }));
}
for (const figure of document.querySelectorAll("figure[data-drawing=same_words]")) begin(figure, draw);
})();
