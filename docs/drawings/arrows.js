(() => {
function draw({ view, data, el, svg, set, dot, number, said, say, plane, wash,
tabulate, expose }) {
const [a, b] = data.arrows.map((arrow) => [...arrow]);
const size = 300, reach = 3;
const { root, arrow, drag, at } = plane(size, reach);
set(root, { "aria-label": "Two arrows from the middle" });

const halves = [0.18, 0].map((part) =>
svg("path", { fill: "var(--neutral)", "fill-opacity": part }));
const words = ["alike", "opposed"].map((word) =>
svg("text", { class: "halo", "text-anchor": "middle", "aria-hidden": true,
style: "font-size: 13px" }, word));
const edge = svg("path", { stroke: "var(--soft)", "stroke-width": 1.5 });
const shadow = svg("path", { stroke: "var(--neutral)", "stroke-width": 12, opacity: 0.5,
"stroke-linecap": "round" });
const drop = svg("path", { stroke: "var(--soft)", "stroke-dasharray": "4 4" });
root.append(svg("svg", { width: size, height: size, style: "overflow: hidden",
"aria-hidden": true }, ...halves, edge, shadow, drop));
root.append(...words);
const far = 9;
function divide() {
const long = Math.hypot(...b);
const [x, y] = b.map((n) => n / long);
const visibility = long ? "visible" : "hidden";
for (const node of [...halves, edge, ...words]) set(node, { visibility });
if (!long) return;
const ends = [[-y * far, x * far], [y * far, -x * far]];
const line = ends.map(at).join("L");
set(edge, { d: `M${line}` });
[1, -1].forEach((way, i) => {
const outer = ends.map(([u, v]) => at([u + way * x * far, v + way * y * far])).reverse();
set(halves[i], { d: `M${line}L${outer.join("L")}Z` });
});
}

let taken;
const trace = (from, to) => Array.from({ length: 41 }, (_, i) =>
at(from.map((x, axis) => x + (to[axis] - x) * i / 40)));
const boxAt = ([x, y], half) => Array.from({ length: 7 }, (_, i) => [x + half * (i - 3) / 3, y]);
function placeText(node, half, places) {
const inside = ([x, y]) => [Math.max(half + 4, Math.min(size - half - 4, x)),
Math.max(11, Math.min(size - 11, y))];
const room = (place) => Math.min(18, ...boxAt(inside(place), half).flatMap(([x, y]) =>
taken.map(([u, v]) => Math.hypot(u - x, v - y))));
const [x, y] = inside(places.reduce((one, other) =>
(room(other) > room(one) + 0.5 ? other : one)));
taken.push(...boxAt([x, y], half));
set(node, { x, y: y + 5 });
}
function placeTexts(foot) {
taken = [[a, [0, 0]], [b, [0, 0]], [foot, [0, 0]], [a, foot]]
.flatMap(([to, from]) => trace(from, to));
[a, b].forEach((to, i) => {
arrows[i].point(to);
set(arrows[i].label, { "text-anchor": "middle", class: "halo" });
placeText(arrows[i].label, 5, around(to));
});
[1, -1].forEach((way, i) => placeText(words[i], [18, 30][i], onLine(way)));
}
function around(to) {
const [x, y] = at(to);
const way = Math.atan2(-to[1], to[0]);
const place = ([turned, far]) =>
[x + far * Math.cos(way + turned), y + far * Math.sin(way + turned)];
const sides = [0.5, 1, 1.5, 2.1].map((turned) => [turned, 23]);
return [[0, 23], ...[...sides, [2.5, 32]].flatMap(([turned, far]) =>
[[turned, far], [-turned, far]])].map(place);
}
function onLine(way) {
const long = Math.hypot(...b) || 1;
const [x, y] = b.map((n) => way * n / long);
const far = reach / Math.max(Math.abs(x), Math.abs(y)) - 40 * 2 * reach / size;
const side = way * (b[0] * a[1] - b[1] * a[0]) > 0 ? -1 : 1;
return [0, 0.5, 0.7, 0.9, -0.5, -0.7, -0.9].map((off) => off * side).map((off) =>
at([x * far - y * off, y * far + x * off]));
}
const arrows = [arrow("var(--q)", "a"), arrow("var(--k)", "b")];
for (const i of [0, 1]) set(arrows[i].node, { "data-sym": "qk"[i] });

const line17 = "font-size: 17px; font-variant-numeric: tabular-nums";
const sum = el("div", { style: line17 });
const lengths = el("div", { style: `margin-top: 4px; ${line17}` });
const total = el("div", { style: "margin: 0.2rem 0 0.4rem; font-size: 32px; font-weight: 600" });
const most = reach ** 2;
const bar = el("div");
const track = "position: relative; height: 14px; margin-bottom: 0.8rem; "
+ `background: linear-gradient(90deg, var(--rest) 50%, ${wash("neutral", 22)} 50%)`;
const zero = el("div", { style: "position: absolute; left: 50%; top: -4px; bottom: -4px; "
+ "border-left: 1.5px solid var(--soft)" });
const coloured = (sym, text) => el("span", { "data-sym": sym, style: "font-weight: 600" }, text);
function measure(product) {
const side = product < 0 ? "right" : "left";
set(bar, { style: `position: absolute; ${side}: 50%; top: 0; bottom: 0; `
+ `width: ${(50 * Math.abs(product) / most).toFixed(2)}%; background: var(--neutral)` });
}
function told(product) {
const long = [a, b].every((arrow) => arrow.some(Boolean));
if (!long) return "An arrow of length 0 has no direction: the product is 0.";
if (Math.abs(product) < 0.005) return "A right angle: the product is 0.";
return product > 0 ? "They are alike: the product is positive."
: "They are opposed: the product is negative.";
}

function show() {
const product = dot(a, b);
const share = product / Math.max(dot(b, b), 1e-9);
const foot = b.map((x) => x * share);
divide();
placeTexts(foot);
set(shadow, { d: `M${at([0, 0])}L${at(foot)}` });
set(drop, { d: `M${at(a)}L${at(foot)}` });
const parts = a.flatMap((x, i) => [i ? " + " : " = ", coloured("q", number(x, 1)), " · ",
coloured("k", number(b[i], 1))]);
sum.replaceChildren(coloured("q", "a"), " · ", coloured("k", "b"), ...parts);
const long = Math.hypot(...b);
const shade = el("span", { style: `border-bottom: 5px solid ${wash("neutral", 50)}` },
`shadow ${number(share * long)}`);
lengths.replaceChildren("= ", shade, " × ", coloured("k", `length of b ${number(long)}`));
total.textContent = `= ${number(product)}`;
measure(product);
say(told(product));
}
const knobs = [];
const moves = (arrow, i) => (to) => {
const over = Math.hypot(...to) / reach;
if (over > 1 + 1e-9) {
knobs[i].move(to.map((x) => Math.trunc(10 * x / over) / 10));
return;
}
[arrow[0], arrow[1]] = to;
show();
};
const right = el("div", { style: "flex: 1 1 15rem; max-width: 22rem" }, sum, lengths, total,
el("div", { "aria-hidden": true, style: track }, bar, zero), said);
view.append(el("div", { class: "beside", style: "gap: 0.75rem 2rem; margin: 0" }, root, right));
[a, b].forEach((arrow, i) => {
knobs[i] = drag(`arrow ${"ab"[i]}`, arrow, moves(arrow, i));
set(knobs[i].node, { "data-sym": "qk"[i], r: 12, stroke: `var(--${"qk"[i]})`,
"stroke-width": 2, "stroke-dasharray": "3 3" });
});
tabulate(() => ({ caption: "Two arrows", columns: ["right", "up"], digits: 1,
rows: [["a", a], ["b", b], ["a times b", a.map((x, i) => x * b[i])]] }));
expose(() => ({ arrows: [a, b], product: dot(a, b) }));
}
for (const figure of document.querySelectorAll("figure[data-drawing=arrows]")) begin(figure, draw);
})();
