(() => {
function draw({ view, viewWidth, data, el, svg, set, clamp, number, percent, said, say, slider,
player, byItself, onkeys, expose, keep }) {
const { names, numbers, models } = data;
const n = names.length;
const last = n - 1;
let [at, asked] = [data.moment, data.asked];
const times = (count, f) => Array.from({ length: count }, (_, i) => f(i));

const wide = viewWidth >= 600;
const cell = wide ? 2.75 : 1.25;
const side = data.width * cell;
const [lane, bars, head] = [side + 3, wide ? 46 : 32, wide ? 26 : 38];
const left = wide ? 118 : 74;
const gap = wide ? 14 : 4;
const unit = (viewWidth - left - 1) / n;
const top = wide ? 48 : 26;
const tall = head + data.blocks * lane + bars + (wide ? 20 : 14);
const x = (i) => left + i * unit;
const middle = (i) => x(i) + unit / 2;
const small = `font-size: ${wide ? 13 : 12}px`;
const text = (x, y, words, more = {}) => svg("text", { x, y, style: small, ...more }, words);
const quiet = { style: `${small}; fill: var(--soft)` };

const chips = names.map((name, i) => {
const bold = `font-size: ${wide ? 15 : 13}px; font-weight: 700`;
const centre = { "text-anchor": "middle" };
const number = text(middle(i), 36, String(numbers[i]), { ...centre, ...quiet });
return svg("g", { class: "moves" }, text(middle(i), 17, name, { ...centre, style: bold }),
...(wide ? [number] : []));
});

function headOf(block, h, y) {
const pixels = times(data.width ** 2, (p) => svg("rect", {
x: left - gap - (2 - h) * (side + 3) + (p % data.width) * cell,
y: y + Math.floor(p / data.width) * cell, width: cell, height: cell, class: "moves" }));
return { block, h, pixels };
}
const frameOf = (x, y) => svg("rect", { x, y, width: side, height: side, fill: "none",
stroke: "var(--edge)" });
function stateOf(block, y) {
const heads = [0, 1].map((h) => headOf(block, h, y));
const frames = [0, 1].map((h) => frameOf(left - gap - (2 - h) * (side + 3), y));
const nodes = [...heads.flatMap(({ pixels }) => pixels), ...frames];
return { heads, pairs: [], nodes };
}
function cacheOf(y) {
const pairs = names.map((_, i) => svg("rect", { x: middle(i) - side / 2, y, width: side,
height: side, "data-sym": "w", class: "moves" }));
return { heads: [], pairs, nodes: pairs };
}
function laneOf(kind, block, from) {
const y = from + head + (data.blocks - 1 - block) * lane;
const made = kind === "state" ? stateOf(block, y) : cacheOf(y);
const word = text(0, y + side / 2 + 5, kind === "state" ? "state" : "cache", quiet);
return { ...made, nodes: [word, ...made.nodes] };
}
function barOf(i, base) {
const room = { x: x(i) + 1.5, width: unit - 3 };
const whole = svg("rect", { ...room, y: base - bars, height: bars, fill: "var(--faint)" });
return { whole, part: svg("rect", { ...room, class: "moves" }) };
}
function modelOf(model, m) {
const from = top + m * tall;
const base = from + head + data.blocks * lane + bars + 5;
const lanes = model.kinds.map((kind, block) => laneOf(kind, block, from));
const all = names.map((_, i) => barOf(i, base));
const bold = { style: `font-size: 15px; font-weight: 700` };
const title = text(0, from + 16, model.name, bold);
const cost = text(wide ? viewWidth - 1 : 0, from + (wide ? 16 : 32), "",
wide ? { "text-anchor": "end" } : {});
const sure = text(0, base - bars / 2 + 5, "recall", quiet);
return { model, lanes, bars: all, base, cost, nodes: [title, cost, sure,
...lanes.flatMap(({ nodes }) => nodes), ...all.flatMap(({ whole, part }) => [whole, part])] };
}
const drawn = models.map(modelOf);
const high = top + models.length * tall - (wide ? 10 : 4);
const column = svg("rect", { y: 0, width: unit, height: high, rx: 4, fill: "var(--rose)",
"fill-opacity": 0.1, stroke: "var(--rose)", class: "moves" });

const knownOf = ({ right }) => right[at].filter((p) => p > 50).length;
const kilobytes = (bytes) => `${number(bytes / 1000, 1)} kB`;
function showHead({ block, h, pixels }, model) {
const states = model.states[block][at][h];
pixels.forEach((pixel, p) => {
const value = (parseInt(states[p], 16) - 7) / 7;
set(pixel, { fill: value < 0 ? "var(--rose)" : "var(--neutral)",
"fill-opacity": Math.abs(value) ** 0.5 });
});
}
function showPairs(pairs, weights) {
pairs.forEach((pair, i) => set(pair, { opacity: i <= at ? 1 : 0,
fill: weights && i <= at && weights[i] > 4 ? "var(--w)" : "var(--neutral)",
"fill-opacity": weights && i <= at ? 0.25 + 0.0065 * weights[i] : 0.25 }));
}
function showBars({ bars: all, base, model }) {
all.forEach(({ whole, part }, i) => {
const long = i <= at ? (bars * model.right[at][i]) / 100 : 0;
set(whole, { opacity: i <= at ? 1 : 0 });
set(part, { y: base - long, height: long, opacity: i <= at ? 1 : 0,
fill: i === asked ? "var(--rose)" : "var(--neutral)" });
});
}
function showModel(one) {
const { model, lanes, cost } = one;
lanes.forEach(({ heads, pairs }, block) => {
heads.forEach((each) => showHead(each, model));
const looks = model.weights && block === data.blocks - 1 && model.weights[at][asked];
showPairs(pairs, looks);
});
showBars(one);
cost.textContent = `${kilobytes(model.bytes[at])}, knows ${knownOf(model)} of ${at + 1}`;
}
function tell() {
const each = models.map(({ name, right }) => `${name} ${percent(right[at][asked] / 100)}`);
say(`After ${at + 1} pairs, ${names[asked]} is asked for. How sure of ${numbers[asked]} is each? `
+ `${each.join(", ")}.`);
}
function show() {
chips.forEach((chip, i) => set(chip, { opacity: i <= at ? 1 : 0.25 }));
set(column, { x: x(asked) });
drawn.forEach(showModel);
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
const spot = svg("rect", { x: left, y: 0, width: viewWidth - left, height: high,
fill: "transparent", role: "slider", tabindex: 0, "aria-label": "Name that is asked for",
"aria-valuemin": 1, style: "cursor: pointer", ...keep,
onkeydown: onkeys(ways, (way) => ask(asked + way)),
onclick: (e) => {
const box = root.getBoundingClientRect();
ask(Math.floor(((e.clientX - box.left) * viewWidth / box.width - left) / unit));
} });
const root = svg("svg", { width: viewWidth, height: high, viewBox: `0 0 ${viewWidth} ${high}`,
role: "group", style: "height: auto", "aria-label": "What three models keep of the pairs" },
column, ...chips, text(0, 17, "name", quiet), text(0, 36, wide ? "number" : "", quiet),
...drawn.flatMap(({ nodes }) => nodes), spot);
const range = slider("Pairs read", { min: 1, max: n, step: 1, value: at + 1,
text: (count) => number(count, 0), input: (count) => { play.stop(); go(count - 1); } });
const play = player({ at: () => at, last: () => last, go, ms: () => 650 });
set(said, { style: `min-height: ${wide ? 1.4 : 4.2}em; margin-top: 0.2rem` });
view.append(el("div", { class: "row steered", style: "margin-top: 0" }, play.node, range), root,
said);
show();
byItself(play);
expose(() => ({ pairs: at + 1, asked, known: models.map(knownOf),
right: models.map(({ right }) => right[at]), bytes: models.map(({ bytes }) => bytes[at]) }));
}
for (const figure of document.querySelectorAll("figure[data-drawing=hybrids]")) begin(figure, draw);
})();
