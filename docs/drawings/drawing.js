function stage(figure) {
"use strict";
const view = figure.querySelector(".view");
const data = JSON.parse(figure.querySelector('script[type="application/json"]').textContent);
const calm = matchMedia("(prefers-reduced-motion: reduce)");
const viewWidth = widthOf(view);
view.replaceChildren();

function widthOf(view) {
const widths = stage.widths ??= new WeakMap();
if (!widths.has(view)) {
const views = [view, ...document.querySelectorAll("figure.drawing > .view")];
for (const one of views) widths.set(one, one.clientWidth);
}
return widths.get(view);
}

function fill(node, attributes, children) {
for (const [name, value] of Object.entries(attributes ?? {})) {
if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
else if (value === false || value == null) node.removeAttribute(name);
else node.setAttribute(name, value === true && !name.startsWith("aria-") ? "" : value);
}
if (children.length) node.replaceChildren(...children);
return node;
}
const el = (tag, attributes, ...children) =>
fill(document.createElement(tag), attributes, children);
const svg = (tag, attributes, ...children) =>
fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
const set = (node, attributes, ...children) => fill(node, attributes, children);

const sum = (list) => list.reduce((a, b) => a + b, 0);
const clamp = (x, low, high) => Math.max(low, Math.min(high, x));
const dot = (a, b) => a.reduce((sum, x, i) => sum + x * b[i], 0);
const column = (matrix, j) => matrix.map((row) => row[j]);
const matmul = (rows, matrix) =>
rows.map((row) => matrix[0].map((_, j) => dot(row, column(matrix, j))));
function softmax(scores) {
const top = Math.max(...scores);
if (top === -Infinity) return scores.map(() => 0);
const powers = scores.map((x) => Math.exp(x - top));
const total = sum(powers);
return powers.map((p) => p / total);
}
const between = (a, b, t) =>
(Array.isArray(a) ? a.map((x, i) => between(x, b[i], t)) : a + (b - a) * t);
const mix = (weights, values) => values[0].map((_, j) => dot(weights, column(values, j)));
const grouped = (x, form) => formatOf(form).format(x).replace("-", "−");
function formatOf(form) {
const formats = stage.formats ??= new Map();
const key = JSON.stringify(form ?? {});
if (!formats.has(key)) formats.set(key, new Intl.NumberFormat("en", form));
return formats.get(key);
}
function number(x, digits = 2) {
const shown = Math.abs(x) < 0.5 * 10 ** -digits ? 0 : x;
return grouped(shown, { minimumFractionDigits: digits, maximumFractionDigits: digits });
}
const quoted = (word) => `“${word}”`;
const high = { "−": "⁻", "-": "⁻", "(": "⁽", ")": "⁾", ...[..."⁰¹²³⁴⁵⁶⁷⁸⁹"] };
const raised = (x) => [...String(x)].map((sign) => high[sign] ?? sign).join("");
const listed = (items, write = quoted) =>
items.map((item) => write(item)).join(", ").replace(/, (?=[^,]*$)/, " and ");
const vector = (row, write) => `(${row.map((x) => write(x)).join(", ")})`;
const percent = (part) => `${number(100 * part, 0)}%`;
function rounded(parts, whole) {
const low = parts.map(Math.floor);
const lost = (i) => parts[i] - low[i];
const up = [...parts.keys()].sort((a, b) => lost(b) - lost(a)).slice(0, whole - sum(low));
return low.map((n, i) => n + up.includes(i));
}
const plural = (n, one, more = `${one}s`) => `${grouped(n)} ${n === 1 ? one : more}`;

const said = el("output", { class: "said", "aria-live": "polite" });
const say = (text) => { if (said.textContent !== text) said.textContent = text; };
const keep = { "data-lm-suppress-shortcuts": "true" };

function slider(name, { min, max, step, value, input, text = number }) {
const shown = el("span");
const range = el("input", { type: "range", min, max, step, value, "aria-label": name, ...keep,
oninput: () => { tell(+range.value); input(+range.value); } });
const node = el("label", { class: "row" }, el("span", {}, name), range, shown);
function tell(at) {
shown.textContent = text(at);
set(range, { "aria-valuetext": text(at) });
range.style.setProperty("--part", (at - range.min) / (range.max - range.min || 1));
}
node.move = (to, last = max) => {
set(range, { max: last });
range.value = to;
tell(to);
};
tell(value);
return node;
}
function choices(name, options, chosen, input) {
const group = `${name}-${Math.random()}`;
const radio = (i) => el("input", { type: "radio", name: group, value: i, checked: i === chosen,
onchange: () => input(i), ...keep });
return el("div", { class: "row", role: "radiogroup", "aria-label": name },
...options.map((option, i) => el("label", { class: "choice" }, radio(i), option)));
}
const button = (text, onclick) => el("button", { type: "button", onclick, ...keep }, text);
function toggle(text, on, input) {
const press = () => set(node, { "aria-pressed": String(on) });
const node = button(text, () => {
on = !on;
press();
input(on);
});
return press();
}
const more = (...controls) =>
el("details", { class: "more" }, el("summary", keep, "More switches"), ...controls);
function legendOf(...entries) {
const swatch = (paint) => el("span", { style: "flex: none; width: 16px; height: 14px; "
+ `box-shadow: inset 0 0 0 1px var(--faint); background: ${paint}` });
const entry = ([mark, says]) =>
el("span", { style: "display: inline-flex; align-items: center; gap: 5px" },
typeof mark === "string" ? swatch(mark) : mark, says);
const small = "font-size: 13px; gap: 0.2rem 0.9rem; margin-block: 0.1rem";
return el("div", { class: "beside", style: small }, ...entries.map(entry));
}
function hatch(id, ink = "var(--faint)", broad = 1.5, ground = "none") {
const even = { width: 6, height: 6, patternUnits: "userSpaceOnUse" };
const pattern = svg("pattern", { id, ...even, patternTransform: "rotate(45)" },
svg("rect", { width: 6, height: 6, fill: ground }),
svg("rect", { width: broad, height: 6, fill: ink }));
return { node: svg("defs", {}, pattern), fill: `url(#${id})` };
}
const hatched = "repeating-linear-gradient(135deg, "
+ "color-mix(in srgb, currentColor 34%, transparent) 0 1.5px, transparent 1.5px 6px)";
const wash = (hue, part = 60) => `color-mix(in srgb, var(--${hue}) ${part}%, transparent)`;
function follower(at, last, first) {
let used = false;
for (const kind of ["input", "click"]) view.addEventListener(kind, () => { used = true; });
return () => {
const anew = at() >= last() || (!used && at() > first);
used = true;
return anew ? first : at() + 1;
};
}
function player({ at, last, go, ms = () => 750, first = 0 }) {
let timer = null;
const after = follower(at, last, first);
const node = set(button("", () => (timer === null ? next() : stop())),
{ class: "play", style: "min-width: 5.5rem" });
function wait(more) {
timer = more ? setTimeout(next, ms()) : null;
node.textContent = more ? "■ Stop" : "▶ Play";
}
function next() {
const to = after();
wait(to < last());
go(to);
}
function start() {
if (timer === null && at() < last()) wait(true);
}
function stop() {
clearTimeout(timer);
wait(false);
}
stop();
return { node, stop, playing: () => timer !== null, start };
}
function byItself(play, first) {
const rests = calm.matches || typeof IntersectionObserver === "undefined"
|| document.querySelector("figure.drawing") !== figure;
if (rests) return () => { };
const seen = ([{ isIntersecting }]) => (isIntersecting ? play.start() : play.stop());
const watch = new IntersectionObserver(seen, { threshold: 0.5 });
function end(e) {
watch.disconnect();
if (!play.node.contains(e?.target ?? null)) play.stop();
set(said, { "aria-live": "polite" });
}
for (const kind of ["pointerdown", "keydown", "input"]) {
figure.addEventListener(kind, end, { once: true, capture: true });
}
set(said, { "aria-live": "off" });
first?.();
watch.observe(view);
return end;
}

function tabulate(told) {
if (typeof MutationObserver === "undefined") return;
const fold = figure.querySelector(".view ~ details");
let written = "";
function write() {
const now = fold.open ? JSON.stringify(told()) : written;
if (now !== written) fold.querySelector("table").replaceChildren(...partsOf(told()));
written = now;
}
fold.addEventListener("toggle", write);
const all = { subtree: true, childList: true, attributes: true, characterData: true };
new MutationObserver(write).observe(view, all);
}
function partsOf({ caption, columns, rows, digits = 2 }) {
const head = (scope) => (text) => el("th", { scope }, text);
const cell = (x) => el("td", {}, typeof x === "number" ? number(x, digits) : x);
const line = ([name, row]) => el("tr", {}, head("row")(name), ...row.map(cell));
return [el("caption", {}, caption),
el("thead", {}, el("tr", {}, el("td"), ...columns.map(head("col")))),
el("tbody", {}, ...rows.map(line))];
}

function tween(ms, f) {
if (calm.matches || !ms) {
f(1);
return Promise.resolve();
}
return new Promise((done) => {
const begun = performance.now();
(function step(now) {
const t = Math.min(1, (now - begun) / ms);
f(t * t * (3 - 2 * t));
if (t < 1) requestAnimationFrame(step);
else done();
})(begun);
});
}
const late = (node, ms, how = { opacity: [0, 0, 0, 1] }) =>
calm.matches || node.animate?.(how, ms);
function motion() {
let last = 0;
return (ms, f) => {
const mine = ++last;
const on = () => mine === last;
return tween(ms, (t) => { if (on()) f(t); }).then(on);
};
}

const onkeys = (ways, keyed) => (e) => {
const way = ways[e.key];
if (!way) return;
e.preventDefault();
e.stopPropagation();
keyed(way, e);
};
function handle(root, name, place, [low, high], moved, ways, keyed) {
const looks = { ...place, r: 16, fill: "transparent", class: "handle" };
const node = svg("circle", { ...looks, tabindex: 0, role: "slider",
"aria-label": `${name}, move it with the arrow keys`,
"aria-valuemin": low, "aria-valuemax": high, ...keep, onkeydown: onkeys(ways, keyed) });
node.addEventListener("pointerdown", (e) => {
node.setPointerCapture(e.pointerId);
e.preventDefault();
node.focus();
});
node.addEventListener("touchstart", (e) => e.preventDefault());
node.addEventListener("pointermove", (e) => {
if (!node.hasPointerCapture(e.pointerId)) return;
const box = root.getBoundingClientRect();
const { x, y, width } = root.viewBox.baseVal;
const scale = width / box.width;
moved(x + (e.clientX - box.left) * scale, y + (e.clientY - box.top) * scale);
});
return node;
}

function plane(size, reach, low = -reach, step = 1) {
const unit = size / (reach - low);
const at = ([x, y]) => [(x - low) * unit, (reach - y) * unit];
const viewBox = `0 0 ${size} ${size}`;
const root = svg("svg", { width: size, height: size, viewBox, role: "group" });
for (let i = Math.ceil(low / step) * step; i <= reach + 1e-9; i += step) {
const d = `M${at([i, low])}L${at([i, reach])}M${at([low, i])}L${at([reach, i])}`;
const stroke = Math.abs(i) < 1e-9 ? "var(--soft)" : "var(--faint)";
root.append(svg("path", { d, stroke, fill: "none", "aria-hidden": true }));
}
const p = { root, at, unit, low, reach };
return { root, at, arrow: arrow.bind(null, p), drag: drag.bind(null, p) };
}
function arrow({ root, at }, colour, text = "") {
const line = svg("path", { stroke: colour, "stroke-width": 3, fill: colour,
"stroke-linejoin": "round" });
const label = svg("text", { "aria-hidden": true, style: "font-weight: 600" }, text);
const node = svg("g", {}, line, label);
root.append(node);
function point(to, from = [0, 0]) {
const [x0, y0] = at(from);
const [x, y] = at(to);
const length = Math.hypot(x - x0, y - y0) || 1e-9;
const [ux, uy] = [(x - x0) / length, (y - y0) / length];
const h = Math.min(11, length);
const [bx, by] = [x - ux * h, y - uy * h];
const left = `${bx - uy * h / 2} ${by + ux * h / 2}`;
const right = `${bx + uy * h / 2} ${by - ux * h / 2}`;
set(line, { d: `M${x0} ${y0}L${bx} ${by}M${x} ${y}L${left}L${right}Z` });
set(label, { x: x + ux * 12 + (ux < 0 ? -7 * text.length : 0), y: y + uy * 12 + 5 });
}
return { node, label, point };
}
const ways = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
function drag({ root, at, unit, low, reach }, name, value, moved, kinds = ["right", "up"]) {
const by = 0.1;
function move(to) {
value = to.map((x) => Math.round(clamp(x, low, reach) / by) * by);
const [cx, cy] = at(value);
const said = value.map((n, i) => `${number(n, 1)} ${kinds[i]}`);
set(node, { cx, cy, "aria-valuenow": value[0].toFixed(1),
"aria-valuetext": said.join(", ") });
moved(value);
}
const pulled = (x, y) => move([x / unit + low, reach - y / unit]);
const keyed = (way, e) => move(value.map((n, i) => n + way[i] * by * (e.shiftKey ? 5 : 1)));
const node = handle(root, name, {}, [low, reach], pulled, ways, keyed);
root.append(node);
move(value);
return { node, move };
}

const lit = document.documentElement?.dataset ?? {};
const symbolOf = (node) => node.closest("[data-sym]")?.dataset.sym;
function light({ target }) {
const sym = symbolOf(target);
if (sym) lit.lit = sym;
else delete lit.lit;
}
for (const kind of ["pointerover", "focusin", "click"]) view.addEventListener(kind, light);
view.addEventListener("pointerleave", ({ pointerType }) => {
if (pointerType !== "touch") delete lit.lit;
});
view.addEventListener("focusout", ({ target }) => {
if (symbolOf(target) === lit.lit) delete lit.lit;
});

const expose = (state) => { figure.state = state; };
return { figure, view, viewWidth, data, el, svg, set,
sum, clamp, dot, matmul, softmax, mix, between,
number, grouped, plural, listed, quoted, raised, vector, percent, rounded,
said, say, slider, choices, button, toggle, more, legendOf, hatch, hatched, wash, player,
byItself, tabulate, tween, motion, late, onkeys, handle, plane, expose, keep };
}
function nearing(view, act) {
let watch = null;
let done = false;
function seen(entries) {
if (done || !entries.some((one) => one.isIntersecting)) return;
done = true;
watch.disconnect();
act();
}
function look(rootMargin) {
if (done) return;
watch?.disconnect();
watch = new IntersectionObserver(seen, { rootMargin });
watch.observe(view);
}
function wait() {
look("0px");
addEventListener("scroll", () => look("500px"), { once: true, passive: true });
}
if (document.readyState === "complete") wait();
else addEventListener("load", wait, { once: true });
}

function loadWeights(address, line, start) {
const script = document.createElement("script");
line.textContent = "The weights of the model are on their way.";
line.style.visibility = "visible";
script.onload = start;
script.onerror = () => {
line.textContent = "The weights of the model did not come: load the page again.";
};
script.src = address;
document.head.append(script);
}

function begin(figure, draw) {
const weights = figure.querySelector("script.weights");
const start = () => draw(stage(figure));
if (!weights) {
start();
return;
}
const view = figure.querySelector(".view");
const line = view.querySelector(".unscripted");
const still = view.querySelector("noscript");
nearing(view, () => loadWeights(weights.getAttribute("data-src"), line, start));
addEventListener("beforeprint", () => {
if (!figure.state && still) view.innerHTML = still.textContent;
});
}
