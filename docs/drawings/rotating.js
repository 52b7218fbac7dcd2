(() => {
function draw({ view, viewWidth, data, el, svg, set, sum, clamp, dot, between, number, grouped,
said, say, slider, choices, more, motion, wash, handle, expose }) {
const { token, vector, trained, factor } = data;
const half = vector.length / 2;
const all = [...Array(half).keys()];
const pairs = all.map((i) => [vector[i], vector[i + half]]);
const top = dot(vector, vector);
const longest = 64;
const fine = 8;
const samples = [...Array(longest * fine + 1).keys()].map((i) => i / fine);
let { position, distance, base } = data;
const seen = all.filter((i) => longest * base ** (-i / half) > 0.1);
let scaling = trained ? 1 : 0;

const frequencies = (b) => all.map((i) => b ** (-i / half));
function yarn() {
const pairOf = (beta) => half * Math.log(trained / (beta * 2 * Math.PI)) / Math.log(base);
const first = Math.max(Math.floor(pairOf(32)), 0);
const last = Math.min(Math.ceil(pairOf(1)), 2 * half - 1);
const keep = all.map((i) => 1 - clamp((i - first) / (last - first || 0.001), 0, 1));
return frequencies(base).map((f, i) => f * (keep[i] + (1 - keep[i]) / factor));
}
const scalings = {
"as trained": () => frequencies(base),
"linear": () => frequencies(base).map((f) => f / factor),
"NTK": () => frequencies(base * factor ** (half / (half - 1))),
"YaRN": yarn,
};
const names = Object.keys(scalings);
function rotate([x, y], angle) {
const [cos, sin] = [Math.cos(angle), Math.sin(angle)];
return [x * cos - y * sin, x * sin + y * cos];
}
const rotated = (at) => chosen().map((f, i) => rotate(pairs[i], at * f));
const part = (i, d, f) => dot(rotate(pairs[i], d * f), pairs[i]);
const score = (d, now) => sum(now.map((f, i) => part(i, d, f)));
const chosen = () => scalings[names[scaling]]();

const wide = Math.min(720, viewWidth || 350);
const phone = wide < 600;
const tall = phone ? 66 : 86;
const radius = tall / 2 - 3;
const begin = trained ? 22 : 2;
const centre = phone ? 98 : 166;
const [left, right] = [centre + radius + 16, wide - 10];
const x = (d) => left + ((right - left) * d) / longest;
const high = begin + tall * seen.length + 12;
const low = high + (phone ? 116 : 138);
const y = (s) => high + ((low - high) * (top - s)) / (top - lowest);
function through(at, end = longest) {
const passed = samples.filter((d) => d <= end);
return `M${passed.map((d) => `${x(d).toFixed(1)} ${at(d).toFixed(1)}`).join("L")}`;
}
const path = (stroke, width, more) => svg("path", { fill: "none", stroke, "stroke-width": width,
"stroke-linejoin": "round", ...more });
const small = "font-size: 13px";
const text = (x, y, says, style, anchor = "start") =>
svg("text", { x, y, "text-anchor": anchor, style, "aria-hidden": true }, says);
const dotOf = (r, fill = "var(--neutral)") =>
svg("circle", { r, fill, stroke: "var(--paper)", "stroke-width": 2 });
const dashes = { "stroke-dasharray": "4 3", opacity: 0.7 };

const reach = Math.max(...pairs.map(([x, y]) => Math.hypot(x, y)));
const largest = Math.max(...pairs.map((pair) => dot(pair, pair)));
const hand = (pair) => `M0 0L${pair.map((n, i) =>
((i ? -1 : 1) * n * (radius - 2)) / reach).join(" ")}`;
function arc(from, to) {
const gap = Math.atan2(Math.sin(to - from), Math.cos(to - from));
const far = radius / 2;
const at = (a) => `${far * Math.cos(a)} ${-far * Math.sin(a)}`;
return `M${at(from)}A${far} ${far} 0 0 ${gap > 0 ? 0 : 1} ${at(from + gap)}`;
}
function dialOf(i, cy) {
const hands = { "stroke-linecap": "round" };
const [turned, key, query] = [path("var(--neutral)", 3),
path("var(--k)", 5, { "data-sym": "k", ...hands }),
path("var(--q)", 3, { "data-sym": "q", ...hands })];
const node = svg("g", { transform: `translate(${centre} ${cy})` },
svg("circle", { r: radius, fill: "none", stroke: "var(--faint)" }),
path("var(--faint)", 1, { d: `M0 0H${radius}` }), turned, key, query);
const start = Math.atan2(pairs[i][1], pairs[i][0]);
function show(f) {
const [from, to] = [position, position + distance].map((at) => at * f);
set(key, { d: hand(rotate(pairs[i], from)) });
set(query, { d: hand(rotate(pairs[i], to)) });
set(turned, { d: arc(start + from, start + to) });
}
return { node, show };
}
function angle(degrees) {
if (degrees >= 1) return number(degrees, degrees < 10 ? 1 : 0);
const digits = phone && degrees < 0.01 ? 1 : 2;
return grouped(degrees, { maximumSignificantDigits: digits });
}
function nameOf(i, cy) {
const lines = phone ? [-13, 4, 20] : [-3, 14];
const [name, ...below] = lines.map((y, k) =>
text(0, cy + y, ["", "", "position"][k], k ? `${small}; fill: var(--soft)` : small));
return [set(name, {}, `pair ${i}`), ...below];
}
function rowOf(i) {
const cy = begin + tall * (i + 0.5);
const dial = dialOf(i, cy);
const words = nameOf(i, cy);
const wave = path("var(--neutral)", 1.25, { opacity: trained ? 0.8 : 0.5 });
const passed = path("var(--neutral)", 2.25);
const unscaled = path("var(--soft)", 1, { ...dashes, opacity: 0.4 });
const mark = dotOf(phone ? 5 : 6);
const node = svg("g", {}, ...words, dial.node,
path("var(--faint)", 1, { d: `M${x(0)} ${cy}H${x(longest)}` }), unscaled, wave, passed,
mark);
const most = ((tall / 2 - 6) * dot(pairs[i], pairs[i])) / largest;
const at = (d, f) => cy - most * Math.cos(d * f);
function show(f, trainedAt) {
dial.show(f);
set(wave, { d: through((d) => at(d, f)) });
set(passed, { d: through((d) => at(d, f), distance) });
if (trained) set(unscaled, { d: through((d) => at(d, trainedAt)) });
set(mark, { cx: x(distance), cy: at(distance, f) });
words[1].textContent = `${angle((f * 180) / Math.PI)}° per${phone ? "" : " position"}`;
}
return { node, show };
}
const rows = seen.map(rowOf);

let lowest;
const [area, axis] = [path("none", 0, { style: `fill: ${wash("neutral", 16)}` }),
path("var(--soft)", 1)];
const [curve, before] = [path("var(--neutral)", 3.5), path("var(--soft)", 1.5, dashes)];
const drop = path("var(--soft)", 1, { "stroke-dasharray": "4 4" });
const mark = svg("g", {}, dotOf(12, "var(--control)"),
path("var(--paper)", 2, { d: "M-3 -4L-7 0L-3 4M3 -4L7 0L3 4" }));
const far = set(text(0, high - 2, "", `${small}; font-weight: 600`), { class: "halo" });
const value = text(0, high + 54, "", "font-size: 24px; font-weight: 600");
const slow = all.slice(seen.length);
const others = text(0, high + 76, "", `${small}; fill: var(--soft)`);
const zero = text(x(0) - 6, 0, "0", small, "end");
const beyond = trained ? [
svg("rect", { x: x(trained), y: 0, width: right - x(trained), height: low + 4,
fill: "var(--faint)", opacity: 0.5 }),
text(right - 6, 15, "beyond the trained length", small, "end"),
text(x(trained), low + 20, trained, `${small}; font-weight: 600`, "middle"),
text((x(trained) + right) / 2, low + 20, "distance", small, "middle"),
...["dashed:", "as trained"].map((says, i) =>
text(0, high + 98 + 16 * i, says, `${small}; fill: var(--soft)`)),
] : [];
const deep = low + 24;
const frame = { width: wide, height: deep, viewBox: `0 0 ${wide} ${deep}` };
const chart = svg("svg", { ...frame, role: "group", "aria-label": "The score at each distance" },
...beyond, drop, ...rows.map(({ node }) => node),
text(0, high + 26, "score", "font-size: 14px"), value, others, zero, area, axis,
before, curve, far, mark,
text(x(0), low + 20, trained ? "0" : "distance 0", small),
text(right, low + 20, `${longest}`, small, "end"));
function goTo(to) {
distance = Math.round(clamp(to, 0, longest));
show();
}
const keys = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1 };
const knob = handle(chart, "point on the curve", {}, [0, longest],
(px) => goTo((longest * (px - left)) / (right - left)), keys, (by) => goTo(distance + by));
set(knob, { r: 14 });
chart.append(knob);
const places = el("span", {
style: "white-space: pre-wrap; line-height: 2; font-variant-numeric: tabular-nums" });

function showCurve(now, unscaled) {
const s = score(distance, now);
const line = through((d) => y(score(d, now)));
set(curve, { d: line });
set(area, { d: `${line}L${right} ${y(0)}H${left}Z` });
if (trained) set(before, { d: through((d) => y(score(d, unscaled))) });
set(axis, { d: `M${left} ${y(0)}H${right}` });
set(zero, { y: y(0) + 5 });
const at = { cx: x(distance), cy: y(s) };
set(drop, { d: `M${at.cx} ${begin}V${low}` });
set(mark, { transform: `translate(${at.cx} ${at.cy})` });
const side = at.cx > right - 110 ? -1 : 1;
set(far, { x: at.cx + 16 * side, "text-anchor": side < 0 ? "end" : "start" },
`distance ${distance}`);
value.textContent = number(s);
const more = sum(slow.map((i) => part(i, distance, now[i])));
others.textContent = slow.length ? `pair ${slow.join(", ")} adds ${number(more)}` : "";
set(knob, { ...at, "aria-valuenow": distance,
"aria-valuetext": `distance ${distance}, score ${number(s)}` });
}
const underlined = (sym, text) =>
el("b", { "data-sym": sym, style: `border-bottom: 3px solid var(--${sym})` }, text);
function showPlaces() {
places.replaceChildren(
underlined("k", `key at ${position}`), "  ",
underlined("q", `query at ${position + distance}`));
}
function picture(now) {
const unscaled = frequencies(base);
const drawn = trained ? Object.values(scalings).map((f) => f()) : [unscaled];
lowest = Math.min(0, ...drawn.flatMap((f) => samples.map((d) => score(d, f))));
rows.forEach((row, i) => row.show(now[i], unscaled[i]));
showCurve(now, unscaled);
}
const appear = motion();
let shown;
function show(moved, ms = 0) {
const [from, to] = [shown ?? chosen(), chosen()];
appear(ms, (t) => picture(shown = between(from, to, t)));
const s = score(distance, to);
showPlaces();
say(moved
? `Both positions have changed, the distance is still ${distance}: `
+ `the score is still ${number(s)}.`
: `“${token}” at positions ${position} and ${position + distance}, distance ${distance}: `
+ `the score is ${number(s)}.`);
}

const after = (change, ...how) => (to) => {
change(to);
show(...how);
};
const whole = (n) => number(n, 0);
const tens = (n) => grouped(Math.round(10 ** n));
const shift = slider("Shift both", { min: 0, max: 32, step: 1, value: position, text: whole,
input: after((to) => { position = to; }, true) });
const slower = slider("Base", { min: 3, max: 6, step: 0.5, value: Math.log10(base), text: tens,
input: after((to) => { base = 10 ** to; }) });
const scaled = () => el("div", { class: "row" },
el("span", {}, `For sequences ${factor} times as long`),
choices("Scaling", names, scaling, after((i) => { scaling = i; }, false, 400)));
const [first, rest] = trained ? [scaled(), [shift, slower]] : [shift, [slower]];
view.append(
el("div", { class: "row", style: "gap: 0 2rem" }, first, places),
chart,
el("div", { style: `min-height: ${phone ? 2.8 : 1.4}em` }, said),
more(el("div", { class: "row", style: "gap: 0 2rem" }, ...rest)));
show();
expose(() => ({
position,
distance,
base,
scaling: names[scaling],
key: rotated(position),
query: rotated(position + distance),
score: score(distance, chosen()),
}));
}
for (const figure of document.querySelectorAll("figure[data-drawing=rotating]")) begin(figure, draw);
})();
