(() => {
function draw(stage) {
const { view, viewWidth, data, el, svg, set, sum, clamp, softmax, number, percent } = stage;
const { late, said, say, slider, choices, player, more, legendOf, expose } = stage;
const { tokens, scores, ways, block, sizes } = data;
const n = tokens.length, queries = scores.length, first = n - queries;
const all = [...tokens.keys()];
const blocks = all.filter((j) => j % block === 0);
let query = data.query;
let way = data.way;
let size = 0;
let state;

function worked(i) {
const seen = scores[i].slice(0, first + i + 1);
const kept = all.map((j) => j < seen.length && ways[way].kept[size][i][j] > 0);
const full = softmax(seen);
const weights = softmax(seen.map((s, j) => (kept[j] ? s : -Infinity)));
return { seen, kept, full, weights, share: sum(full.filter((_, j) => kept[j])) };
}
const perBlock = () => ways[way].per === "block";
const own = () => Math.floor((first + query) / block);
const meaning = {
mean: "A mean stands for all keys of its block.",
bound: "No key exceeds the bound of its block.",
score: "Each key has its own score.",
nearness: "Those are kept that are nearest.",
};
const quoted = (j) => `“${tokens[j]}”`;

const wide = viewWidth >= 600;
const width = Math.min(viewWidth, 720), gap = wide ? 10 : 4;
const unit = (width - gap * (blocks.length - 1)) / n, span = block * unit;
const left = (j) => j * unit + gap * Math.floor(j / block);
const middle = (j) => left(j) + unit / 2;
const row = { top: 24, deep: wide ? 122 : 110 };
const cells = row.top + row.deep + 20, tall = 28;
const under = cells + tall + 44, high = wide ? 70 : 60, base = under + high;
const end = base + 2, bar = 36;
const reach = data.reach, room = row.deep / (reach[1] - reach[0]);
const at = (score) => row.top + (reach[1] - score) * room;
const root = svg("svg", { width, height: end, viewBox: `0 0 ${width} ${end}`, role: "img",
style: "height: auto; touch-action: manipulation" });
const text = (x, y, says, more = {}) =>
svg("text", { x, y, "text-anchor": "middle", "aria-hidden": true, ...more }, says);
const soft = { style: "font-size: 13px; fill: var(--soft)" };
const start = { "text-anchor": "start" };
const rect = (more) => svg("rect", { class: "moves", ...more });
const second = { class: "moves second" }, third = { class: "moves third" };

const bands = all.map((j) => rect({ x: left(j), y: row.top, width: unit,
height: base - row.top, "shape-rendering": "crispEdges", ...second }));
const zero = svg("path", { d: `M0 ${at(0)}H${width}`, stroke: "var(--soft)" });
const ofBlocks = blocks.map((j) => ({
fill: rect({ x: left(j) + 2, width: span - 4, fill: "var(--neutral)", "fill-opacity": 0.35 }),
level: rect({ x: left(j), width: span, height: 5, rx: 2.5, fill: "var(--neutral)" }),
}));
const told = { class: "halo", style: "font-size: 13px; font-weight: 600" };
const ends = blocks.map(() => text(0, 0, "", told));
const circle = (more) => svg("circle", { stroke: "currentColor", "stroke-width": 1.5, ...more });
const dots = all.map((j) => circle({ cx: middle(j), r: wide ? 4 : 3, class: "moves" }));
const ring = circle({ r: wide ? 9 : 8, fill: "none", "stroke-width": 2.5, class: "moves" });
const best = text(0, 0, "", told);
const boxes = all.map((j) =>
rect({ x: left(j) + 0.5, y: cells, width: unit - 1, height: tall, rx: 3, ...second }));
const narrowed = (j) => (!wide && "MW".includes(tokens[j])
? { textLength: unit - 3, lengthAdjust: "spacingAndGlyphs" } : {});
const letters = all.map((j) => text(middle(j), cells + 19, tokens[j], narrowed(j)));
const floor = svg("path", { d: `M0 ${base}H${width}`, stroke: "var(--soft)" });
const missing = { rx: 2, fill: "none", stroke: "var(--rose)", "stroke-width": 1.5,
"stroke-dasharray": "4 3" };
const bars = all.map((j) => ({
kept: rect({ x: left(j) + 1, width: unit - 2, rx: 2, fill: "var(--w)", "fill-opacity": 0.8,
"data-sym": "w", ...third }),
lost: rect({ x: left(j) + 1.5, width: unit - 3, ...missing, ...third }),
says: text(middle(j), 0, "", { class: "halo", style: "font-size: 14px; font-weight: 600" }),
}));
const shares = scores.map((_, i) => {
const x = left(first + i) + 1;
const center = middle(first + i);
return {
track: rect({ x: x + 0.5, y: 0.5, width: unit - 3, height: bar - 1, ...missing }),
fill: rect({ x, width: unit - 2, rx: 2, fill: "var(--w)", "fill-opacity": 0.8,
"data-sym": "w" }),
name: text(center, bar + 17, tokens[first + i], { "data-sym": "q" }),
mark: rect({ x: x - 1, y: bar + 3, width: unit, height: 19, rx: 3, fill: "none" }),
says: text(center, 22, "", { style: "font-size: 12px" }),
};
});
const asker = el("span", { "data-sym": "q", style: "font-weight: 600" });
const large = el("b", { "data-sym": "w", style: "font-size: 28px" });
const result = el("span", { style: "color: var(--soft); line-height: 34px" },
large, " of the weight of ", asker, " is kept");
const sign = (shape) =>
svg("svg", { width: 16, height: 16, viewBox: "-8 -8 16 16", "aria-hidden": true }, shape);
function meterOf(name) {
const fill = el("span", { class: "moves", style: "display: block; height: 100%; "
+ "border-radius: 2px; background: var(--neutral)" });
const track = el("span", { style: "width: 90px; height: 10px; border-radius: 2px; "
+ "background: var(--rest)" }, fill);
const says = el("b", { style: "min-width: 4rem" });
function show(many, most) {
fill.style.width = percent(Math.min(1, many / most));
says.textContent = `${many} of ${most}`;
}
return { show, parts: [el("span", { style: "color: var(--soft)" }, name), track, says] };
}
const meters = { scores: meterOf("scores computed"), keys: meterOf("keys read") };
const meter = el("div", { style: "display: grid; grid-template-columns: auto 90px auto; "
+ "gap: 2px 8px; align-items: center; font-size: 13px; line-height: 20px" },
...meters.scores.parts, ...meters.keys.parts);
const plate = sign(svg("rect", { x: -8, y: -2.5, width: 16, height: 5, rx: 2.5,
fill: "var(--neutral)" }));
const plateSays = el("span");
const legend = set(legendOf([sign(circle({ r: 4, fill: "currentColor" })), "score of a key"],
[sign(circle({ r: 6, fill: "none", stroke: "var(--rose)", "stroke-width": 2.5 })), "needed"],
[plate, plateSays]), { style: "font-size: 13px; gap: 0 0.9rem; margin: 0; min-height: 20px" });
const [, , legendOfBlocks] = legend.children;
const hitsOf = (y, height) => scores.map((_, i) => svg("rect", { x: left(first + i), y, height,
width: unit, fill: "transparent", style: "cursor: pointer", onclick: () => pick(i) }));
root.append(...bands, zero, ...ofBlocks.flatMap(({ fill, level }) => [fill, level]), ...dots,
ring, ...ends, best, ...boxes, ...letters, floor,
...bars.flatMap(({ kept, lost, says }) => [kept, lost, says]),
text(0, cells + tall + 19, "weight in full attention",
{ style: "font-size: 13px", ...start, class: "halo", "data-sym": "w" }),
...hitsOf(cells, base - cells));
const average = text(0, 52, "", { ...soft, ...start });
const strip = svg("svg", { width, height: bar + 24, viewBox: `0 0 ${width} ${bar + 24}`,
role: "img", style: "height: auto", "aria-label": "The share of its weight each query keeps" },
text(0, 16, "the share of its full", { ...soft, ...start }),
text(0, 34, `weight each query keeps${wide ? ", %" : ""}`, { ...soft, ...start }), average,
...shares.flatMap(({ track, fill, mark, name, says }) => [track, fill, mark, name, says]),
...hitsOf(0, bar + 24));

function upright(node, from, to, more = {}) {
set(node, { y: Math.min(from, to), height: Math.max(0.5, Math.abs(to - from)), ...more });
}
const estimates = () => (perBlock() ? ways[way].estimates[query].slice(0, own()) : []);
function showBlock(b) {
const score = estimates()[b] ?? 0;
const seen = { visibility: b < estimates().length ? "visible" : "hidden" };
upright(ofBlocks[b].fill, at(0), at(score), seen);
set(ofBlocks[b].level, { y: at(score) - 2.5, ...seen });
}
function roomiest(places, taken) {
const far = ([x, y]) =>
Math.min(20, ...taken.map(([tx, ty]) => Math.hypot((tx - x) / 1.5, ty - y)));
return places.reduce((best, one) => (far(one) > far(best) ? one : best));
}
const dotsIn = (b, seen) =>
all.slice(blocks[b], blocks[b] + block).map((j) => [middle(j), at(seen[j])]);
function placeOfEnd(b, score, seen) {
const y = at(score) + (score < 0 ? 12 : -12);
const [from, to] = [left(blocks[b]) + 15, left(blocks[b]) + span - 15];
return roomiest([(from + to) / 2, from, to].map((x) => [x, y]), dotsIn(b, seen));
}
function showEnds({ kept, seen }, needed) {
const scores = estimates();
ends.forEach((node, b) => {
const shown = b < scores.length && (kept[blocks[b]] || b === Math.floor(needed / block));
node.textContent = shown ? number(scores[b], 1) : "";
if (!shown) return;
const [x, y] = placeOfEnd(b, scores[b], seen);
set(node, { x, y: y + 5 });
});
legendOfBlocks.style.visibility = perBlock() ? null : "hidden";
plateSays.textContent = `${ways[way].title} of a block`;
}
function showScore(j, { seen, kept, full }) {
const there = j < seen.length;
set(dots[j], { cy: at(there ? seen[j] : 0), visibility: there ? "visible" : "hidden",
fill: kept[j] ? "currentColor" : "var(--paper)", opacity: kept[j] ? 1 : 0.5 });
const lost = there && !kept[j] && full[j] > 0.3;
set(bands[j], { opacity: kept[j] || lost ? 1 : 0, "fill-opacity": 0.11,
fill: `var(--${lost ? "rose" : j === first + query ? "q" : "k"})` });
}
function showToken(j, { seen, kept }) {
const asks = j === first + query;
const hue = asks ? "q" : "k";
const on = asks || kept[j];
const opacity = asks ? 0.3 : 0.2;
set(boxes[j], { fill: on ? `var(--${hue})` : "none", "fill-opacity": opacity,
stroke: on ? `var(--${hue})` : "var(--faint)", "stroke-width": asks ? 2.5 : 1 });
const style = `font-size: ${wide ? 15 : 12}px; font-weight: ${on ? 700 : 400}`;
set(letters[j], { style, "data-sym": on ? hue : null,
opacity: on ? 1 : j < seen.length ? 0.7 : 0.25 });
}
function showWeight(j, { seen, kept, full }) {
const lost = j < seen.length && !kept[j] && full[j] > 0.005;
upright(bars[j].kept, base, base - high * (kept[j] ? full[j] : 0),
{ opacity: kept[j] ? 1 : 0 });
upright(bars[j].lost, base, base - high * (lost ? full[j] : 0), { opacity: lost ? 1 : 0 });
}
function showPercent({ kept, full }, needed) {
const [more, room] = kept[needed] ? ["", 18] : [" lost", 44];
bars.forEach(({ says }, j) => {
set(says, { x: clamp(middle(j), room, width - room), y: base - high * full[needed] - 5 });
says.textContent = j === needed ? `${percent(full[j])}${more}` : "";
});
for (const says of [best, ...ends]) late(says, 250);
late(bars[needed].says, 750);
}
function showBest({ seen, kept }, j) {
const [cx, cy] = [middle(j), at(seen[j])];
set(ring, { cx, cy, stroke: `var(--${kept[j] ? "w" : "rose"})` });
const others = dotsIn(Math.floor(j / block), seen).filter(([x]) => x !== cx);
const sides = [cx + 28, cx - 28].filter((x) => x > 16 && x < width - 16);
const [x, y] = roomiest(sides.map((x) => [x, cy]), others);
set(best, { x, y: y + 5 }).textContent = number(seen[j], 1);
}
function showShare({ track, fill, mark, name, says }, i, { share }) {
const chosen = i === query;
upright(fill, bar, bar * (1 - share));
set(track, { opacity: share < 0.97 ? 1 : 0 });
set(mark, { fill: chosen ? "var(--q)" : "none", "fill-opacity": 0.3,
stroke: chosen ? "var(--q)" : "none", "stroke-width": 2.5 });
says.textContent = wide && share < 0.5 ? number(100 * share, 0) : "";
set(name, { style: `font-size: ${wide ? 14 : 12}px; font-weight: ${chosen ? 700 : 400}` });
}
function explain({ seen, kept, full, share }, j) {
const many = kept.filter(Boolean).length;
const scored = { block: own() + many, key: seen.length, none: many }[ways[way].per];
const asks = tokens[first + query];
const why = tokens[j - 1] === asks ? `, which followed ${quoted(j - 1)} before` : "";
const end = kept[j] ? "kept" : "lost";
meters.scores.show(scored, seen.length);
meters.keys.show(many, seen.length);
large.textContent = percent(share);
asker.textContent = quoted(first + query);
say(`${quoted(first + query)} needs ${quoted(j)}${why}: it is ${end}. `
+ `${meaning[ways[way].title] ?? ""}`);
}
function show() {
const every = scores.map((_, i) => worked(i));
const now = every[query];
const needed = now.full.indexOf(Math.max(...now.full));
blocks.forEach((_, b) => showBlock(b));
showEnds(now, needed);
for (const j of all) {
showScore(j, now);
showToken(j, now);
showWeight(j, now);
}
shares.forEach((share, i) => showShare(share, i, every[i]));
const mean = sum(every.map(({ share }) => share)) / queries;
average.textContent = `on average ${percent(mean)}`;
showBest(now, needed);
showPercent(now, needed);
explain(now, needed);
set(root, { "aria-label": `Keys of ${quoted(first + query)}, chosen by ${ways[way].title}` });
state = { query, way: ways[way].name, size: sizes[size], average: mean, ...now };
}

function go(to) {
query = to;
range.move(to + 1);
show();
}
function pick(i) {
play.stop();
go(i);
}
const range = slider("Query", { min: 1, max: queries, step: 1, value: query + 1,
text: (x) => quoted(first + x - 1), input: (x) => pick(x - 1) });
const play = player({ at: () => query, last: () => queries - 1, go, ms: () => 1300 });
const ofWay = choices("How keys are chosen", ways.map(({ name }) => name), way,
(i) => { way = i; show(); });
const ofSize = choices("Blocks that are kept", sizes.map(String), size,
(i) => { size = i; show(); });
const close = wide ? {} : { paddingInline: "4px", fontSize: "13px", whiteSpace: "nowrap" };
for (const label of ofWay.children) Object.assign(label.style, close);
set(said, { style: `min-height: ${wide ? 1.4 : 2.8}em; margin-top: 0.3rem` });
const steered = el("div", { class: "row steered",
style: "margin: 0; flex-basis: 14rem; min-width: 0" }, play.node, range);
if (queries === 1) steered.style.display = "none";
const line = "margin: 0; justify-content: space-between; gap: ";
view.append(
el("div", { class: "row", style: `${line}0.4rem 1rem` }, set(ofWay, { style: "margin: 0" }),
steered),
el("div", { class: "beside", style: `${line}0 2rem; margin-top: 0.3rem` },
el("div", {}, result, legend), meter),
root, said,
more(el("div", { class: "row" },
el("span", {}, "Blocks that are kept, its own among them"), ofSize), strip));
show();
expose(() => state);
}
for (const figure of document.querySelectorAll("figure[data-drawing=few_keys]")) begin(figure, draw);
})();
