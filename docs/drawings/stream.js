(() => {
function draw(stage) {
const { view, viewWidth, data, el, svg, set, clamp, number, say, said } = stage;
const { slider, player, expose } = stage;
const { runs } = data, n = runs[0].gradients.length, last = 2 * n - 1;
const most = (key) => Math.max(...runs.flatMap((run) => run[key]));
const tops = { lengths: most("lengths"), gradients: most("gradients") };
let moment = data.moment;
const back = () => moment >= n;
const block = () => (back() ? last - moment : moment);
const told = () => (moment === last ? n - 1 : block());
const shown = (i) => ({ length: !back() ? i <= moment : true, gradient: back() && i >= block() });

const wide = viewWidth >= 600;
const up = wide ? 112 : 62;
const down = wide ? 78 : 52;
const full = 344, left = 2, right = 2, inner = full - left - right, unit = inner / n;
const head = 26, base = head + up, under = base + 20, deep = under + down + 28;
const text = (attributes, ...words) =>
svg("text", { "text-anchor": "middle", style: "font-size: 12px", ...attributes }, ...words);
function barsAt(_, i) {
const x = left + i * unit + 1, width = unit - 2;
const bar = (more) => svg("rect", { x, width, class: "moves", ...more });
return { length: bar({}), gradient: bar({ y: under }) };
}
const soft = "font-size: 12px; fill: var(--soft)";
const numberOf = (i) =>
text({ x: inside(left + (i - 0.5) * unit), y: base + 14, style: soft }, i);
const inside = (x) => clamp(x, left + 7, full - 9);
const pictureOf = (name, high, ...nodes) => svg("svg", {
width: full,
height: high,
viewBox: `0 0 ${full} ${high}`,
role: "img",
style: "height: auto",
"aria-label": `${name}: bars up are lengths of hidden states, bars down are gradients`,
}, ...nodes);
function titleOf({ name, formula }) {
const rule = el("span", { style: "color: var(--soft)" }, formula);
return el("div", { style: "font-size: 14px" }, el("b", {}, name), " ", rule);
}
const quiet = "font-size: 13px; fill: var(--soft)";
const noteAt = (y, words) => svg("text", { x: left, y, style: quiet }, words);
const lastOf = ({ gradients }) => gradients[n - 1];
const isFirst = (run) => run === runs[0];
const ratioOf = (run) => number(lastOf(run) / lastOf(runs[0]), 1);
function endOf(run) {
const words = svg("tspan", { style: "font-size: 24px; font-weight: 600" }, `×${ratioOf(run)}`);
return svg("text", { x: full - right - 48, y: deep - 2, "text-anchor": "end" },
...(isFirst(run) ? [] : [words, ` in block ${n}`]));
}
function panelOf(run) {
const bars = run.gradients.map(barsAt);
const here = text({ y: base + 14, style: "font-size: 13px; font-weight: 700" });
const coming = svg("g", {},
svg("rect", { x: left + 1, y: under + 4, width: inner - 2, height: down - 4, rx: 4,
fill: "none", stroke: "var(--rose)", "stroke-opacity": 0.6, "stroke-dasharray": "4 4" }),
text({ x: left + inner / 2, y: under + down / 2 + 6, style: quiet },
"← gradients come backward"));
const texts = { length: text({}), gradient: text({}) };
const numbers = [1, n / 2, n].map((i) => ({ i, node: numberOf(i) }));
const both = bars.flatMap(({ length, gradient }) => [length, gradient]);
const ratio = endOf(run);
const root = pictureOf(run.name, deep, noteAt(base - up - 10, "↑ length of a hidden state"),
noteAt(deep - 8, "↓ length of a gradient"), ...both, ...numbers.map(({ node }) => node), here,
coming, ...Object.values(texts), ratio);
const node = el("div", { style: "min-width: 0; max-width: 100%" }, titleOf(run), root);
return { run, bars, here, coming, numbers, texts, ratio, node };
}
const panels = runs.map(panelOf);
const within = (x) => clamp(x, left + 20, full - 20);
const high = (run, i) => (up * run.lengths[i]) / tops.lengths;
const low = (run, i) => (down * run.gradients[i]) / tops.gradients;
const centre = (i) => left + (i + 0.5) * unit;
const beyond = (run, x, key, long) => Math.max(...run[key].map((_, j) =>
(shown(j)[key.slice(0, -1)] && Math.abs(centre(j) - x) < 30 ? long(run, j) : 0)));
function showBar({ run, bars }, i) {
const on = shown(i);
const strong = (yes) => ({ "fill-opacity": yes ? 1 : 0.45 });
const rise = on.length ? high(run, i) : 1;
const fall = on.gradient ? low(run, i) : 1;
const here = i === told();
set(bars[i].length, {
y: base - rise, height: rise, fill: "var(--neutral)", ...strong(here && !back()) });
set(bars[i].gradient, { height: fall, fill: "var(--rose)", ...strong(here),
visibility: back() ? "visible" : "hidden" });
}
function showPanel(panel) {
const { here, coming, numbers, ratio } = panel;
const i = told();
panel.bars.forEach((_, j) => showBar(panel, j));
set(here, { x: inside(centre(i)) }).textContent = String(i + 1);
set(coming, { visibility: back() ? "hidden" : "visible" });
set(ratio, { visibility: moment === last ? "visible" : "hidden" });
for (const one of numbers) {
set(one.node, { visibility: Math.abs(one.i - i - 1) < 2 ? "hidden" : "visible" });
}
showNumbers(panel, i);
}
function showNumbers({ run, texts }, i) {
const x = within(centre(i));
const look = { x, class: "halo", style: "font-size: 13px; font-weight: 600" };
const seen = (on) => ({ visibility: on ? "visible" : "hidden" });
set(texts.length, { ...look, ...seen(!back()), y: base - beyond(run, x, "lengths", high) - 6 });
set(texts.gradient, { ...look, ...seen(back()),
y: under + beyond(run, x, "gradients", low) + 14 });
texts.length.textContent = number(run.lengths[i], 1);
texts.gradient.textContent = number(run.gradients[i], 3);
}

function tell() {
const i = told();
const each = (key, digits) =>
runs.map((run) => `${number(run[key][i], digits)} with ${run.name}`).join(", ");
const where = moment === last ? `In block ${n}` : `Backward, block ${i + 1}:`;
say(back()
? `${where} the gradient has the length ${each("gradients", 3)}.`
: `Forward, after block ${i + 1}: a hidden state has the length ${each("lengths", 1)}.`);
}
function show() {
panels.forEach(showPanel);
tell();
}
function slide(to) {
play.stop();
moment = to;
show();
}
function go(to) {
moment = to;
range.move(to, last);
show();
}
const backward = (at) => (at < last ? `backward, block ${2 * n - at}` : "backward, all");
const named = (at) => (at < n ? `forward, block ${at + 1}` : backward(at));
const range = slider("Pass", {
min: 0, max: last, step: 1, value: moment, text: named, input: slide });
set(range.lastChild, { style: "min-width: 9.4rem" });
const [, input] = range.children;
if (!wide) {
set(range, { style: "flex: 1; flex-wrap: nowrap; gap: 0.5rem" });
Object.assign(input.style, { flex: "1 1 3.6rem", width: "3.6rem", minWidth: "0" });
range.firstChild.hidden = true;
}
const play = player({ at: () => moment, last: () => last, ms: () => 160, go,
first: data.moment });
const beside = "gap: 0.4rem 1.5rem; align-items: flex-start; margin: 0";
set(said, { style: `min-height: ${wide ? 1.4 : 2.8}em; margin-top: 0.4rem` });
view.append(
el("div", { class: "row", style: "margin-top: 0; gap: 0.4rem 0.6rem" }, play.node, range),
el("div", { class: "beside", style: beside }, ...panels.map((panel) => panel.node)),
said,
);
show();
expose(() => ({
moment,
back: back(),
block: block() + 1,
lengths: runs.map((run) => run.lengths[block()]),
gradients: runs.map((run) => run.gradients[block()]),
}));
}
for (const figure of document.querySelectorAll("figure[data-drawing=stream]")) begin(figure, draw);
})();
