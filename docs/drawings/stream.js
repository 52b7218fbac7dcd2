(() => {
function draw(stage) {
const { view, viewWidth, data, el, svg, set, clamp, number, say, said } = stage;
const { slider, player, expose } = stage;
const { runs } = data, n = runs[0].gradients.length, last = 2 * n - 1;
const most = (key) => Math.max(...runs.flatMap((run) => run[key]));
const tops = { lengths: most("lengths"), gradients: most("gradients") };
let moment = last;
const back = () => moment >= n;
const block = () => (back() ? last - moment : moment);
const told = () => (moment === last ? n - 1 : block());
const shown = (i) => ({ length: !back() ? i <= moment : true, gradient: back() && i >= block() });

const wide = viewWidth >= 600;
const up = wide ? 106 : 56;
const down = wide ? 78 : 52;
const full = 344, left = 2, right = 2, inner = full - left - right, unit = inner / n;
const head = 26, base = head + up, under = base + 20, deep = under + down + 34;
const text = (attributes, ...words) =>
svg("text", { "text-anchor": "middle", style: "font-size: 12px", ...attributes }, ...words);
const tenths = (x) => Math.round(10 * x) / 10;
const barAt = (i, y, high) =>
`M${tenths(left + i * unit + 1)} ${y}v${high}h${tenths(unit - 2)}v${-high}`;
const numberOf = (i) =>
text({ x: inside(left + (i - 0.5) * unit), y: base + 14, ...quiet }, i);
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
const high = (run, i) => Math.round((up * run.lengths[i]) / tops.lengths);
const low = (run, i) => Math.round((down * run.gradients[i]) / tops.gradients);
const centre = (i) => left + (i + 0.5) * unit;
const quiet = { style: "font-size: 13px; fill: var(--soft)" };
const notes = () => [
svg("text", { x: left, y: base - up - 10, ...quiet }, "↑ length of a hidden state"),
text({ x: full / 2, y: deep - 6, ...quiet }, "↓ length of a gradient")];
const first = runs[0];
const timesAt = (run, i, size, at) => svg("text", { ...at, y: deep - 2,
style: `font-size: ${size}px; font-weight: 600` },
`×${number(run.gradients[i] / first.gradients[i], 1)}`);
function comparedWith(run) {
const along = first.gradients.map((_, i) =>
`${under + low(first, i)}H${tenths(left + (i + 1) * unit)}`);
const middle = Math.floor(n / 2);
return svg("g", {},
svg("path", { d: `M${left} ${along.join("V")}`, fill: "none", stroke: "currentColor",
"stroke-width": 2 }),
text({ x: centre(middle), y: under + low(first, middle) + 15 }, first.name),
timesAt(run, 0, 17, { x: left }),
timesAt(run, n - 1, 22, { x: full - right, "text-anchor": "end" }));
}
function panelOf(run) {
const pale = (hue) =>
svg("path", { fill: `var(--${hue})`, "fill-opacity": 0.45, class: "moves" });
const [lengths, gradients] = ["neutral", "rose"].map(pale);
const lit = svg("path", { class: "moves" });
const here = text({ y: base + 14, style: "font-size: 13px; font-weight: 700" });
const texts = { length: text({}), gradient: text({}) };
const numbers = [1, n / 2, n].map((i) => ({ i, node: numberOf(i) }));
const compared = run === first ? svg("g") : comparedWith(run);
const root = pictureOf(run.name, deep, ...notes(), lengths, gradients,
lit, ...numbers.map(({ node }) => node), here, compared, ...Object.values(texts));
const node = el("div", { style: "min-width: 0; max-width: 100%" }, titleOf(run), root);
return { run, lengths, gradients, lit, here, numbers, texts, compared, node };
}
const panels = runs.map(panelOf);
const within = (x) => clamp(x, left + 20, full - 20);
const beyond = (run, x, key, long) => Math.max(...run[key].map((_, j) =>
(shown(j)[key.slice(0, -1)] && Math.abs(centre(j) - x) < 30 ? long(run, j) : 0)));
function showBars({ run, lengths, gradients, lit }, i) {
const rise = (j) => barAt(j, base, -(shown(j).length ? high(run, j) : 1));
const fall = (j) => barAt(j, under, shown(j).gradient ? low(run, j) : 1);
const d = (bar) => run.lengths.map((_, j) => bar(j)).join("");
set(lengths, { d: d(rise) });
set(gradients, { d: back() ? d(fall) : null });
set(lit, { d: back() ? fall(i) : rise(i), fill: `var(--${back() ? "rose" : "neutral"})` });
}
function showPanel(panel) {
const { here, numbers, compared } = panel;
const i = told();
showBars(panel, i);
set(here, { x: inside(centre(i)) }).textContent = String(i + 1);
set(compared, { visibility: moment === last ? "visible" : "hidden" });
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
first: 0 });
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
