(() => {
function draw({ view, viewWidth, data, el, svg, set, clamp, number, percent, said, say, slider,
player, onkeys, expose, keep }) {
const { names, numbers, models } = data;
const n = names.length;
const last = n - 1;
let [at, asked] = [data.moment, data.asked];
const times = (count, f) => Array.from({ length: count }, (_, i) => f(i));
const wide = viewWidth >= 600;
const text = (x, y, words, more) => svg("text", { x, y, ...more }, words);
const quiet = { style: "font-size: 13px; fill: var(--soft)" };
const bold = (size) => ({ style: `font-size: ${size}px; font-weight: 600` });
const left = wide ? 92 : 78, right = wide ? 84 : 68;

const thick = wide ? 46 : 26, apart = wide ? 12 : 10, upper = 24;
const longest = Math.max(...models.map(({ bytes }) => bytes[last]));
const scale = (viewWidth - left - right - 8) / longest;
const rest = (model) => model.kinds.filter((kind) => kind === "state").length;
const perPair = Math.max(...models.map(({ bytes }) => (bytes[last] - bytes[0]) / last))
/ models[0].kinds.length;
const stateBytes = models[0].bytes[0] / rest(models[0]);
const slice = perPair * scale, square = stateBytes * scale;
function stateOf(block) {
const [long, high] = [(square - 2) / data.width, thick / 2 / data.width];
const heads = times(2, (h) => times(data.width ** 2, (p) => svg("rect", {
x: (p % data.width) * long, y: h * thick / 2 + Math.floor(p / data.width) * high,
width: long, height: high, class: "moves" })));
const frame = svg("rect", { width: square - 2, height: thick, fill: "none",
stroke: "var(--edge)" });
return { block, heads, slices: [], node: svg("g", {}, ...heads.flat(), frame) };
}
function cacheOf(block) {
const slices = names.map((_, i) => svg("rect", { x: i * slice, width: slice - (wide ? 1 : 0.5),
height: thick, "data-sym": "w", class: "moves" }));
return { block, heads: [], slices, node: svg("g", {}, ...slices) };
}
function keptOf(model, m) {
const y = upper + m * (thick + apart);
const parts = model.kinds.map((kind, block) => (kind === "state" ? stateOf : cacheOf)(block));
const size = text(0, y + thick / 2 + 6, "", { class: "moves", ...bold(wide ? 17 : 14) });
const title = text(0, y + thick / 2 + 5, model.name, bold(wide ? 15 : 13));
return { model, y, parts, size, nodes: [title, ...parts.map(({ node }) => node), size] };
}

const per = wide ? n : Math.ceil(n / 2);
const unit = (viewWidth - left - right) / per;
const bars = wide ? 40 : 24, line = bars + (wide ? 8 : 6);
const lower = upper + models.length * (thick + apart) + 12;
const head = 24, group = head + models.length * line + (wide ? 0 : 8);
const high = lower + Math.ceil(n / per) * group - (wide ? 6 : 12);
const x = (i) => left + (i % per) * unit;
const top = (i) => lower + Math.floor(i / per) * group;
const chips = names.map((name, i) => text(x(i) + unit / 2, top(i) + 16, name,
{ "text-anchor": "middle", class: "moves", ...bold(wide ? 15 : 14) }));
function knownBy(model, m) {
const base = (i) => top(i) + head + m * line + bars;
const all = names.map((_, i) => {
const room = { x: x(i) + 1.5, width: unit - 3 };
return { base: base(i), part: svg("rect", { ...room, class: "moves" }),
whole: svg("rect", { ...room, y: base(i) - bars, height: bars, fill: "var(--faint)" }) };
});
const titles = times(n / per, (k) =>
text(0, base(k * per) - bars / 2 + 5, model.name, bold(wide ? 15 : 13)));
const half = svg("path", { stroke: "currentColor", "stroke-width": 1.5,
"stroke-dasharray": "4 3", class: "moves" });
const count = text(0, 0, "", bold(wide ? 15 : 13));
return { model, all, half, count, nodes: [...titles, count,
...all.flatMap(({ whole, part }) => [whole, part]), half] };
}
const kept = models.map(keptOf), known = models.map(knownBy);
const column = svg("rect", { width: unit, height: group - (wide ? 6 : 12), rx: 4,
fill: "var(--rose)", "fill-opacity": 0.1, stroke: "var(--rose)", class: "moves" });

const knownOf = ({ right }) => right[at].filter((p) => p > 50).length;
function showHead(pixels, digits) {
pixels.forEach((pixel, p) => {
const value = (parseInt(digits[p], 16) - 7) / 7;
set(pixel, { fill: value < 0 ? "var(--rose)" : "var(--neutral)",
"fill-opacity": Math.abs(value) ** 0.5 });
});
}
function showSlices(slices, weights) {
slices.forEach((one, i) => set(one, { opacity: i <= at ? 1 : 0,
fill: weights && i <= at && weights[i] > 4 ? "var(--w)" : "var(--neutral)",
"fill-opacity": weights && i <= at ? 0.3 + 0.007 * weights[i] : 0.3 }));
}
function showKept({ model, y, parts, size }) {
let end = left;
for (const { block, heads, slices, node } of parts) {
set(node, { transform: `translate(${end.toFixed(1)} ${y})` });
heads.forEach((pixels, h) => showHead(pixels, model.states[block][at][h]));
showSlices(slices, model.weights && block === data.blocks - 1 && model.weights[at][asked]);
end += (slices.length ? slice * (at + 1) + 2 : square);
}
set(size, { x: end + 6 }).textContent = `${number(model.bytes[at] / 1000, 1)} kB`;
}
function showHalf({ all, half, count }) {
const y = (i) => all[i].base - bars / 2;
const across = times(Math.floor(at / per) + 1, (k) =>
`M${left} ${y(k * per)}H${x(Math.min(at, (k + 1) * per - 1)) + unit}`);
set(half, { d: across.join("") });
set(count, { x: x(at) + unit + 6, y: y(at) + 5 });
}
function showKnown({ model, all, half, count }) {
all.forEach(({ whole, part, base }, i) => {
const long = i <= at ? (bars * model.right[at][i]) / 100 : 0;
set(whole, { opacity: i <= at ? 1 : 0 });
set(part, { y: base - long, height: long, opacity: i <= at ? 1 : 0,
fill: i === asked ? "var(--rose)" : "var(--neutral)" });
});
showHalf({ all, half, count });
count.textContent = `${knownOf(model)} of ${at + 1}`;
}
function tell() {
const each = models.map(({ name, right }) => `${name} ${percent(right[at][asked] / 100)}`);
say(`${names[asked]} is asked for. How sure is each of its number, ${numbers[asked]}? `
+ `${each.join(", ")}.`);
}
function show() {
chips.forEach((chip, i) => set(chip, { opacity: i <= at ? 1 : 0.25 }));
set(column, { x: x(asked), y: top(asked) });
kept.forEach(showKept);
known.forEach(showKnown);
set(spot, { "aria-valuenow": asked + 1, "aria-valuemax": at + 1,
"aria-valuetext": `${names[asked]}, number ${numbers[asked]}` });
tell();
}
function ask(i) {
asked = clamp(i, 0, at);
show();
}
function go(to) {
at = to;
asked = Math.min(asked, at);
range.move(at + 1);
show();
}

const ways = { ArrowLeft: -1, ArrowRight: 1, ArrowDown: -1, ArrowUp: 1 };
function pressed(e) {
const box = root.getBoundingClientRect();
const [px, py] = [e.clientX - box.left, e.clientY - box.top].map((d) =>
(d * viewWidth) / box.width);
const column = clamp(Math.floor((px - left) / unit), 0, per - 1);
ask(Math.floor((py - lower) / group) * per + column);
}
const spot = svg("rect", { x: left, y: lower, width: per * unit, height: high - lower,
fill: "transparent", role: "slider", tabindex: 0, "aria-label": "Name that is asked for",
"aria-valuemin": 1, style: "cursor: pointer", ...keep, onclick: pressed,
onkeydown: onkeys(ways, (way) => ask(asked + way)) });
const legend = wide ? "a box is a state; a slice, one pair in a cache"
: "boxes: states; slices: pairs";
const root = svg("svg", { width: viewWidth, height: high, viewBox: `0 0 ${viewWidth} ${high}`,
role: "group", style: "height: auto",
"aria-label": "What three models keep, and what they know" },
text(0, 14, "keeps", quiet), text(left, 14, legend, quiet),
text(0, lower + 16, wide ? "knows > 50%" : "over 50%", quiet), column, ...chips,
...[...kept, ...known].flatMap(({ nodes }) => nodes), spot);
const range = slider("Pairs read", { min: 1, max: n, step: 1, value: at + 1,
text: (count) => number(count, 0), input: (count) => { play.stop(); go(count - 1); } });
const play = player({ at: () => at, last: () => last, go, ms: () => 500, first: data.moment });
set(said, { style: `min-height: ${wide ? 1.4 : 4.2}em; margin-top: 0.6rem` });
view.append(el("div", { class: "row steered", style: "margin-top: 0" }, play.node, range), root,
said);
show();
expose(() => ({ pairs: at + 1, asked, known: models.map(knownOf),
right: models.map(({ right }) => right[at]), bytes: models.map(({ bytes }) => bytes[at]) }));
}
for (const figure of document.querySelectorAll("figure[data-drawing=hybrids]")) begin(figure, draw);
})();
