(() => {
function draw(stage) {
const { view, viewWidth, data, el, set, sum, softmax, number, plural, said, say } = stage;
const { svg, clamp, between, wash, choices, slider, button, more, motion, expose } = stage;
const { tokens, prefixes, logits } = data;
const all = [...tokens.keys()];
const size = tokens.length;
let at = data.start;
let temperature = 1;
let k = size;
let p = 1;
let seed = 1;
let chances = [];
let time = 1;

const highest = (list) => list.indexOf(Math.max(...list));
const ranked = (row) => [...all].sort((i, j) => row[j] - row[i]);
function topK(row) {
const least = [...row].sort((a, b) => b - a)[k - 1];
return row.map((x) => (x < least ? -Infinity : x));
}
function topP(row) {
if (p === 1) return row;
let before = 0;
const kept = ranked(row).filter((i, rank) => {
const keep = rank === 0 || before < p;
before += row[i];
return keep;
});
const total = sum(kept.map((i) => row[i]));
return row.map((x, i) => (kept.includes(i) ? x / total : 0));
}
const plain = () => softmax(logits[at]);
const warmed = (row) => softmax(row.map((x) => x / temperature));
function probabilities() {
if (temperature === 0) return all.map((i) => +(i === highest(logits[at])));
return topP(warmed(topK(logits[at])));
}
function chance() {
seed = (seed + 0x6d2b79f5) | 0;
let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
}
function drawnFrom(row) {
const order = ranked(logits[at]).filter((i) => row[i] > 0);
return chances.map((left) => order.find((i) => (left -= row[i]) < 0) ?? order.at(-1));
}
const counted = (drawn) => all.map((i) => drawn.filter((one) => one === i).length);

const wide = viewWidth >= 600;
const across = wide ? 5 : 4;
const column = viewWidth / size;
const room = Math.min(12, (column - (wide ? 6 : 2)) / across);
const ground = 16 + room * Math.ceil(100 / across);
const foot = wide ? 58 : 88;
const levelOf = (x) => (100 * x / across) * room;
const isLong = (name) => name.length > (wide ? 4 : 2);
const small = "font-size: 12px; text-anchor: middle";
const drawnBold = "font-weight: 700";
const drawnInk = "color-mix(in srgb, var(--rose) 72%, currentColor)";
function nameOf(i) {
const turned = !wide && isLong(tokens[i]);
const place = turned ? { transform: `translate(4 ${ground + 7}) rotate(-90)` }
: { y: ground + 18 };
const anchor = `text-anchor: ${turned ? "end" : "middle"}`;
const looks = `${anchor}; font-size: ${isLong(tokens[i]) ? 11 : 14}px`;
return { name: svg("text", place, tokens[i]), looks };
}
const columns = all.map((i) => {
const { name, looks } = nameOf(i);
const vessel = { x: -across * room / 2 - 1, width: across * room + 2, rx: 3, class: "moves" };
const full = svg("rect", vessel);
const times = svg("text", { y: ground + foot - 22,
style: `${small}; ${drawnBold}; fill: ${drawnInk}` });
const expected = svg("text", { y: ground + foot - 5, style: `${small}; fill: var(--soft)` });
const node = svg("g", { class: "moves" }, full, name, times, expected);
return { node, full, name, looks, times, expected };
});
const dots = Array.from({ length: 100 }, () =>
svg("circle", { r: 0.46 * room, fill: "var(--rose)" }));
const floor = svg("path", { d: `M0 ${ground + 0.5}H${viewWidth}`, stroke: "var(--edge)" });
const dashed = svg("path", { fill: "none", stroke: "var(--soft)", "stroke-dasharray": "3 3" });
function outlines(order) {
const [wide, row] = [across * room + 2, plain()];
const outline = (high, rank) =>
`M${column * (rank + 0.5) - wide / 2} ${ground}v${-high}h${wide}v${high}`;
return order.map((i) => levelOf(row[i])).map(outline).join("");
}
const before = svg("text", { x: viewWidth, y: 12,
style: "font-size: 12px; text-anchor: end" });
const top = ground - 7 * room;
const edge = svg("g", { class: "moves" },
svg("path", { d: `M0 ${ground + 4}V${top}`, stroke: "currentColor", "stroke-width": 1.5 }),
svg("text", { x: 6, y: top + 10, style: "font-size: 13px" }, "cut"));
const board = svg("svg", { width: viewWidth, height: ground + foot, role: "group",
viewBox: `0 0 ${viewWidth} ${ground + foot}`, style: "--pace: 0.45s",
"aria-label": "Of each next token: how often it was drawn, and how often that is expected" },
before, ...columns.map(({ node }) => node), dashed, floor, ...dots, edge);

const ofHundred = (x) => number(100 * x, 0);
const tall = (x) => `y: ${ground - levelOf(x)}px; height: ${levelOf(x)}px`;
const solid = `fill: ${wash("neutral", 30)}; stroke: var(--neutral)`;
function showColumn(i, rank, now) {
const { node, full, name, looks, expected } = columns[i];
set(node, { style: `transform: translateX(${column * (rank + 0.5)}px)` });
set(full, { style: `${tall(now)}; ${solid}; stroke-width: ${now < 0.005 ? 0 : 1.5}` });
set(name, { style: `${looks}; font-weight: ${rank ? 400 : 700}; `
+ `text-decoration: ${now === 0 ? "line-through" : "none"}` });
expected.textContent = now < 0.005 ? "" : ofHundred(now);
}
const falling = 0.2;
const fallen = (t, turn) => clamp((t - (1 - falling) * turn / 100) / falling, 0, 1);
function showDots(drawn, ranks, t) {
const heaps = all.map(() => 0);
drawn.forEach((i, turn) => {
const [layer, place] = [Math.floor(heaps[i] / across), heaps[i] % across];
heaps[i] += 1;
const x = column * (ranks[i] + 0.5) + room * (place - (across - 1) / 2);
const y = between(0, ground - room * (layer + 0.5), fallen(t, turn) ** 2);
set(dots[turn], { class: t === 1 && "moves", style: `transform: translate(${x}px, ${y}px); `
+ `visibility: ${fallen(t, turn) ? "" : "hidden"}` });
});
}
function showEdge(left) {
set(edge, { style: `transform: translateX(${column * left}px); `
+ `visibility: ${left < size ? "" : "hidden"}` });
}

const mark = (style) => el("span", { style: `width: 12px; height: 12px; ${style}` });
const boxed = (style) => mark(`box-sizing: border-box; border-radius: 3px; ${style}`);
const whose = el("span");
const told = [
[boxed(`border: 1.5px solid var(--neutral); background: ${wash("neutral", 30)}`),
"color: var(--soft)", "expected"],
[mark("border-radius: 50%; background: var(--rose)"), `${drawnBold}; color: ${drawnInk}`,
"drawn"],
].map(([shape, looks, says]) =>
({ shape, says, value: el("span", { style: `text-align: right; ${looks}` }) }));
const part = ({ shape, value, says }) => el("span",
{ style: "display: inline-flex; gap: 6px; align-items: center" }, shape, value, says);
const key = el("div", { style: `display: flex; flex-wrap: wrap; gap: 0 ${wide ? 14 : 10}px; `
+ "font-size: 14px; white-space: nowrap; font-variant-numeric: tabular-nums" },
whose, ...told.map(part));
function showKey(best, values) {
whose.textContent = `“${tokens[best]}”, of 100${wide ? " draws" : ""}:`;
told.forEach(({ value }, i) => { value.textContent = values[i]; });
}

function cutting(row) {
if (temperature === 0) return "Temperature 0 takes the most probable.";
const left = row.filter((x) => x > 0).length;
if (left === size) return "Every token can be drawn.";
const lost = number(sum(warmed(logits[at]).filter((_, i) => row[i] === 0)));
const only = `Only ${plural(left, "token")} can be drawn`;
return `${only}; the others lost ${lost}.`;
}
function tell(row, counts) {
const best = highest(logits[at]);
const often = `“${tokens[best]}” has ${number(row[best])}; drawn: ${counts[best]} of 100`;
say(`After “${prefixes[at]}”, ${often}. ${cutting(row)}`);
}
function show() {
const row = probabilities();
const order = ranked(logits[at]);
const drawn = drawnFrom(row);
const landed = counted(drawn.filter((_, turn) => fallen(time, turn) === 1));
order.forEach((i, rank) => showColumn(i, rank, row[i]));
showDots(drawn, all.map((i) => order.indexOf(i)), time);
columns.forEach(({ times }, i) => { times.textContent = landed[i] || ""; });
const one = temperature === 1;
set(dashed, { d: one ? null : outlines(order) });
before.textContent = one ? "" : "dashed: temperature 1";
showEdge(row.filter((x) => x > 0).length);
showKey(order[0], [ofHundred(row[order[0]]), landed[order[0]]]);
if (time === 1) tell(row, landed);
else say(`100 tokens are drawn after “${prefixes[at]}”.`);
}

const fall = motion();
function showAt(t) {
time = t;
show();
}
const changing = (take) => (x) => {
take(x);
fall(0, showAt);
};
function draws(ms) {
chances = Array.from({ length: 100 }, chance);
fall(ms, showAt);
}
function labelled(name, how) {
const node = slider(name, how);
const [label, range, value] = node.children;
set(label, { style: "flex: 0 0 5.6rem" });
Object.assign(range.style, { flex: "1 1 6rem" });
set(value, { style: "min-width: 2.2em; text-align: right" });
return set(node, { style: `gap: 0 0.5rem; margin: 0; width: ${wide ? 310 : viewWidth}px; `
+ "flex-wrap: nowrap" });
}
const off = (x, is, words) => (x === is ? "off" : words);
const after = choices("Tokens so far", prefixes, at, changing((i) => { at = i; }));
const heat = labelled("temperature", {
min: 0, max: 3, step: 0.1, value: temperature,
text: (x) => number(x, 1),
input: changing((x) => { temperature = x; }),
});
const ofK = labelled("top-k", {
min: 1, max: size, step: 1, value: k,
text: (x) => off(x, size, String(x)),
input: changing((x) => { k = x; }),
});
const ofP = labelled("top-p", {
min: 0.05, max: 1, step: 0.05, value: p,
text: (x) => off(x, 1, number(x)),
input: changing((x) => { p = x; }),
});
set(after, { style: "margin: 0" });
const beginning = el("span", { style: "display: inline-flex; gap: 8px; align-items: center" },
"after", after);
const again = set(button("Draw 100 tokens", () => draws(3000)), { class: "play" });
const first = el("div", { class: "row", style: "margin: 0; justify-content: space-between" },
beginning, again);
const warm = el("div", { class: "row", style: "margin: 6px 0; justify-content: space-between" },
heat, key);
const cuts = set(more(ofK, ofP), { style: "margin-top: 4px" });
set(said, { style: `min-height: ${wide ? 1.4 : 2.8}em; margin-top: 6px` });
view.append(first, warm, board, said, cuts);
draws(0);
expose(() => ({ at, temperature, k, p, probabilities: probabilities(), plain: plain(),
drawn: counted(drawnFrom(probabilities())) }));
}
for (const figure of document.querySelectorAll("figure[data-drawing=temperature]")) begin(figure, draw);
})();
