(() => {
function draw(stage) {
const { view, viewWidth, data, el, svg, set, sum, number, percent, listed } = stage;
const { plural, said, say, choices, slider, player, hatch, hatched, wash } = stage;
const { legendOf, expose } = stage;
const { letters, slots, arrivals, ways } = data;
let way = 0;
let at = ways[way].steps.length - 1;

const endOf = ({ start, seconds }) => start + seconds;
const spanOf = ({ steps }) => endOf(steps.at(-1));
const gapsOf = (times) => times.slice(1).map((time, i) => [times[i], time]);
function pauseOf({ times }) {
const all = times.flatMap((of, r) => gapsOf(of).map(([from, to]) => ({ r, from, to })));
return all.reduce((a, b) => (b.to - b.from > a.to - a.from + 1e-9 ? b : a));
}
function costOf(one) {
const { from, to } = pauseOf(one);
const taken = sum(one.steps.map(({ seconds, cells }) => seconds * cells.length));
return {
time: spanOf(one),
empty: 1 - taken / (slots * spanOf(one)),
first: sum(one.times.map((of, r) => of[0] - arrivals[r])) / letters.length,
pause: to - from,
};
}
const costs = ways.map(costOf);
const longest = Math.max(...ways.map(spanOf));

const wide = viewWidth >= 600;
const high = wide ? 46 : 40, foot = 44;
const tall = slots * high + foot;
const unit = (viewWidth - 2) / longest;
const x = (time) => 1 + time * unit;
const hue = (r) => `hsl(${(205 + 137 * r) % 360} 60% 50%)`;
const small = "font-size: 13px";
const text = (x, y, says, more = {}) => svg("text", { x, y, style: small, ...more }, says);
const prompt = hatch("serving-prompt", "var(--soft)", 1.5);
const isPrompt = ({ start }, r, { times }) => start < times[r][0] - 1e-9;
const gives = (step, r, { times }) =>
times[r].some((time) => Math.abs(time - endOf(step)) < 1e-9);
function blockOf(step, [r, slot, n], one) {
const box = { x: x(step.start) + 0.5, y: slot * high + 4, rx: 3,
width: Math.max(1, step.seconds * unit - 1), height: high - 8 };
const fill = svg("rect", { ...box, fill: hue(r), stroke: hue(r),
"fill-opacity": n ? 0.38 : 0.08 });
const lines = isPrompt(step, r, one) && n
? [svg("rect", { ...box, fill: prompt.fill, opacity: 0.75 })] : [];
const dot = svg("circle", { cx: x(endOf(step)) - Math.min(6, unit / 2), cy: box.y + high - 16,
r: 2.5, fill: "currentColor" });
return [fill, ...lines, ...(gives(step, r, one) ? [dot] : [])];
}
function gapsIn({ start, seconds, cells }) {
const taken = new Set(cells.map(([, slot]) => slot));
const free = [...Array(slots).keys()].filter((slot) => !taken.has(slot));
return free.map((slot) => svg("rect", { x: x(start), y: slot * high + 4, height: high - 8,
width: seconds * unit, fill: "var(--faint)", "shape-rendering": "crispEdges" }));
}
const begins = (steps, i, r) => !i || !steps[i - 1].cells.some(([other]) => other === r);
function nameOf({ steps }, i, [r, slot]) {
return begins(steps, i, r) ? [text(x(steps[i].start) + 4, slot * high + 18, letters[r],
{ style: "font-size: 14px; font-weight: 700", class: "halo" })] : [];
}
function markOf(one) {
const { r, from, to } = pauseOf(one);
const { cells } = one.steps.find((step) => endOf(step) > from + 1e-9);
const slot = cells.find(([other]) => other === r)?.[1] ?? 0;
const y = slot * high + 3;
return svg("path", { d: `M${x(from) - 3} ${y}H${x(to) - 3}`, stroke: "var(--rose)",
"stroke-width": 4 });
}
const layers = ways.map((one) => {
const blocks = one.steps.map((step, i) => svg("g", { class: "moves" }, ...gapsIn(step),
...step.cells.flatMap((cell) => [...blockOf(step, cell, one), ...nameOf(one, i, cell)])));
const mark = markOf(one);
return { blocks, mark, node: svg("g", {}, ...blocks, mark) };
});
const rows = [...Array(slots).keys()].map((slot) => svg("rect", { x: 1, y: slot * high + 4,
width: viewWidth - 2, height: high - 8, rx: 3, fill: "none", stroke: "var(--faint)" }));
const ticks = [...Array(Math.floor(longest / 5) + 1).keys()].map((i) => text(
x(5 * i), slots * high + 16, i ? 5 * i : "time 0", { fill: "var(--soft)",
"text-anchor": i ? "middle" : "start" }));
const end = svg("path", { stroke: "currentColor", "stroke-width": 2 });
const queue = text(1, tall - 10, "");
const stall = text(viewWidth - 1, tall - 10, "", { "text-anchor": "end" });
const root = svg("svg", { width: viewWidth, height: tall, viewBox: `0 0 ${viewWidth} ${tall}`,
role: "img", style: "height: auto" }, prompt.node, ...rows, ...ticks,
...layers.map(({ node }) => node), end, queue, stall);

const dot = svg("svg", { width: 8, height: 14, "aria-hidden": true },
svg("circle", { cx: 4, cy: 7, r: 2.5, fill: "currentColor" }));
const legend = legendOf([hatched, "reads its prompt"], [dot, "gives a token"],
["var(--faint)", "empty slot"], [wash("neutral", 8), "keeps its slot, and waits"]);
const waits = legend.lastChild;

const toFirst = wide ? "mean time to first token" : "mean\u00a0time to\u00a0first\u00a0token";
const heads = ["time", "empty slots", toFirst, "longest pause"];
const tight = `padding: 1px ${wide ? 6 : 3}px`;
const inCell = wide ? "display: flex; align-items: center; gap: 8px" : "min-width: 36px";
function cell(what, of, write) {
const part = of[what] / Math.max(...costs.map((one) => one[what]));
const [most, high] = wide ? [64, 12] : [36, 6];
const bar = el("div", { style: `width: ${(100 * part).toFixed(1)}%; height: ${high}px; `
+ "border-radius: 2px; background: var(--neutral)" });
const track = el("div", { style: `flex: 1 1 0; max-width: ${most}px` }, bar);
const parts = [track, write(of[what])];
return el("td", { style: `${tight}; text-align: left` },
el("div", { style: inCell }, ...(wide ? parts : parts.reverse())));
}
const short = (x) => number(x, 1);
const lines = costs.map((cost, i) => el("tr", {},
el("th", { scope: "row", style: `${tight}; text-align: left; white-space: nowrap` },
ways[i].name),
cell("time", cost, short), cell("empty", cost, percent), cell("first", cost, short),
cell("pause", cost, short)));
const shares = [18, 18, 27, 19];
const head = (says, i) => el("th", { scope: "col", style: `${tight}; text-align: left; `
+ `vertical-align: bottom; width: ${wide ? `${shares[i]}%` : "auto"}` }, says);
const board = el("table", { style: `margin: 0.2rem 0; width: 100%; ${small}` },
el("thead", {}, el("tr", {}, el("td", {}), ...heads.map(head))), el("tbody", {}, ...lines));

function waiting({ steps, times }, now) {
const begun = new Set(steps.slice(0, at + 1).flatMap(({ cells }) => cells.map(([r]) => r)));
return letters.filter((_, r) => arrivals[r] <= now && !begun.has(r) && times[r].length);
}
function sentence(one, step) {
const reading = step.cells.filter(([r, , n]) => n && isPrompt(step, r, one));
const computed = sum(step.cells.map(([, , n]) => n));
const given = step.cells.filter(([r]) => gives(step, r, one)).length;
const read = reading.length
? `, ${listed(reading, ([r, , n]) => `${n} of ${letters[r]}’s prompt`)}` : "";
return `Step ${at + 1} takes ${number(step.seconds, 1)}: ${plural(computed, "token")} `
+ `computed${read}; ${plural(given, "new token")}.`;
}
function showPause(one, now) {
const { r, from, to } = pauseOf(one);
const over = to - from > 1 + 1e-9 && to <= now + 1e-9;
layers.forEach(({ mark }, i) =>
set(mark, { visibility: over && i === way ? "visible" : "hidden" }));
set(stall, { visibility: over ? "visible" : "hidden" }, svg("tspan", { style: "fill: "
+ "var(--rose)" }, "━ "), `${letters[r]} waits ${number(to - from, 1)} for a token`);
}
function show() {
const one = ways[way], step = one.steps[at];
layers.forEach(({ node, blocks }, i) => {
set(node, { visibility: i === way ? "visible" : "hidden" });
blocks.forEach((block, j) => set(block, { opacity: j <= at ? 1 : 0 }));
});
const idle = one.steps.some(({ cells }) => cells.some(([, , n]) => !n));
waits.style.visibility = idle ? null : "hidden";
showPause(one, endOf(step));
const now = x(endOf(step));
set(end, { d: `M${now} 0V${slots * high + 2}` });
const left = waiting(one, endOf(step));
queue.textContent = left.length ? `waiting: ${left.join(" ")}` : "";
lines.forEach((line, i) => set(line, { style: i === way
? "font-weight: 600; background: var(--faint)" : "" }));
set(root, { "aria-label": `${one.name}: ${at + 1} of ${one.steps.length} steps; each row is `
+ "a slot, each block a step of one request" });
say(sentence(one, step));
}

function go(to) {
at = to;
range.move(at + 1, ways[way].steps.length);
show();
}
const range = slider("Step", { min: 1, max: ways[way].steps.length, step: 1, value: at + 1,
text: (x) => number(x, 0), input: (x) => { play.stop(); go(x - 1); } });
const play = player({ at: () => at, last: () => ways[way].steps.length - 1, go,
ms: () => 120 + 180 * ways[way].steps[at].seconds });
const ofWay = choices("How requests are scheduled", ways.map(({ name }) => name), way, (i) => {
play.stop();
way = i;
go(ways[i].steps.length - 1);
});
const inTwo = "display: grid; grid-template-columns: 1fr 1fr; width: 100%";
if (!wide) set(ofWay, { style: inTwo });
set(said, { style: `min-height: ${wide ? 1.4 : 4.2}em; margin-top: 0.2rem` });
view.append(el("div", { class: "row", style: "margin-top: 0" }, ofWay,
el("div", { class: "row steered" }, play.node, range)), root, legend, said, board);
show();
expose(() => ({ way: ways[way].name, step: at, waiting: waiting(ways[way],
endOf(ways[way].steps[at])), cost: costs[way], pause: pauseOf(ways[way]) }));
}
for (const figure of document.querySelectorAll("figure[data-drawing=serving]")) begin(figure, draw);
})();
