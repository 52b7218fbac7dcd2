(() => {
function draw(stage) {
const { view, viewWidth, data, el, svg, set, sum, number, grouped, plural, said, say } = stage;
const { slider, choices, clamp, between, motion, expose } = stage;
const { d_head, d_latent, d_rope, shared, heads, forms } = data;
const wide = viewWidth >= 600;
const move = motion();
let tokens = data.tokens;
let form = 1;
let moved = false;
let state;

const kinds = { MHA: heads, GQA: Math.min(shared, heads), MQA: 1 };
function count() {
const n = tokens;
const cached = Object.entries(kinds).map(([kind, h]) => [kind, 2 * h * d_head]);
const make = 2 * d_latent * d_head;
const wider = { expanded: 2 * d_head + d_rope, absorbed: 2 * d_latent + d_rope };
const made = { expanded: n * make, absorbed: make };
const read = (form) => n * wider[form];
const total = (form) => heads * (made[form] + read(form));
const work = Object.fromEntries(forms.map((form) => [form, total(form)]));
return { cached: Object.fromEntries([...cached, ["MLA", d_latent + d_rope]]), work };
}

const text = (x, y, says, more = {}) => svg("text", { x, y, "aria-hidden": true, ...more }, says);
const bold = { style: "font-weight: 600" };
const small = { style: "font-size: 13px; fill: var(--soft)" };
const middle = { "text-anchor": "middle" };
const fig = (width, height) =>
svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img" });
const apart = viewWidth >= 714;
const zoom = apart ? 1.2 : 1;
const room = apart ? viewWidth - 340 * zoom - 16 : Math.min(viewWidth, 342);
const left = apart ? 106 : 112, line = wide ? 21 : 17, deep = wide ? 15 : 13;
const { cached } = count();
const broad = apart ? room : viewWidth;
const unit = (broad - left - 1) / Math.max(...Object.values(cached));
const board = fig(broad, 24 + 4 * line);
const partsOf = { MLA: [[d_latent, "neutral"], [d_rope, "k"]] };
for (const [kind, h] of Object.entries(kinds)) {
partsOf[kind] = ["k", "v"].map((sym) => [h * d_head, sym]);
}
function cacheOf([kind, total], i) {
const y = 24 + i * line;
let x = left;
const bars = partsOf[kind].map(([size, hue]) => {
const bar = svg("rect", { x, y, width: size * unit, height: deep, fill: `var(--${hue})`,
"data-sym": hue === "neutral" ? null : hue });
x += size * unit;
return bar;
});
return [text(0, y + 12, kind, bold),
text(left - 12, y + 12, grouped(total), { "text-anchor": "end" }), ...bars];
}
const fewer = `${number(cached.MHA / cached.MLA, 0)} times fewer than MHA`;
board.append(text(0, 13, "numbers that a layer caches for each token", small),
text(left + cached.MLA * unit + 8, 24 + 3 * line + 12, fewer,
{ style: `font-size: ${apart ? 12 : 14}px; font-weight: 600` }),
...Object.entries(cached).flatMap(cacheOf));
set(board, { "aria-label": "Numbers that a layer caches for each token: "
+ Object.entries(cached).map(([kind, total]) => `${kind} ${grouped(total)}`).join(", ") });

const way = set(fig(340 * zoom, 240 * zoom), { viewBox: "0 0 340 240" });
const fine = { style: `font-size: ${13 / zoom}px; fill: var(--soft)` };
const at = { v: 37, k: 125, q: 236, mix: 193 };
const cache = (at.v + at.k) / 2;
const scale = 72 / d_latent;
const [latent, head, rope] = [d_latent, d_head, d_rope].map((n) => n * scale);
const block = (x, y, width, rows, hue, more = {}) => Array.from({ length: rows }, (_, i) =>
svg("rect", { x: x - width / 2, y: y + 6 * i, width, height: rows > 1 ? 5 : 8,
fill: `var(--${hue})`, ...more }));
const sym = (name) => ({ "data-sym": name });
const centred = { ...fine, ...middle };
const ofKeys = { ...sym("k"), style: `font-size: ${13 / zoom}px` };
const wire = (hue, d) => svg("path", { d, fill: "none", stroke: `var(--${hue})`,
"stroke-width": 2, "stroke-linejoin": "round" });
const tip = (hue, x, y) => svg("path", { d: `M${x} ${y}l-5 -8h10z`, fill: `var(--${hue})` });
function box(index) {
const [width, high] = [latent, head + 4];
const frame = { x: -width / 2, y: 0, width, height: high, rx: 3, fill: "var(--paper)" };
const lowered = svg("tspan", { dy: 4, style: "font-size: 12px" }, index);
const shade = { ...frame, fill: "var(--neutral)", "fill-opacity": 0.14 };
return svg("g", {}, svg("rect", frame),
svg("rect", { ...shade, stroke: "var(--neutral)", "stroke-width": 2 }),
set(text(0, high - 8, "", { ...middle, ...bold }), {}, "W", lowered));
}
const boxes = { k: box("k"), v: box("v") };
function ghost([x, y], index) {
const frame = { x: x - latent / 2, y, width: latent, height: head + 4, rx: 3, fill: "none" };
const lowered = svg("tspan", { dy: 3, style: `font-size: ${12 / zoom}px` }, index);
return svg("g", {}, svg("rect", { ...frame, stroke: "var(--soft)", "stroke-dasharray": "4 3" }),
set(text(x, y + head - 3, "", centred), {}, "W", lowered));
}
const ends = { k: [[at.k, 64], [at.q, 40]], v: [[at.v, 64], [at.mix, 190]] };
const corners = { k: [[at.k, 64], [at.k, 125], [at.q, 125], [at.q, 40]],
v: [[at.v, 64], [at.v, 151], [at.mix, 151], [at.mix, 190]] };
function along(points, share) {
const parts = points.slice(1).map(([x, y], i) => Math.abs(x - points[i][0] + y - points[i][1]));
let rest = share * sum(parts);
const i = parts.findIndex((_, i) => rest <= sum(parts.slice(0, i + 1)) + 1e-9);
rest -= sum(parts.slice(0, i));
return between(points[i], points[i + 1], rest / parts[i]);
}
const glow = { fill: "none", stroke: "var(--rose)", "stroke-opacity": 0.45, "stroke-width": 8,
"stroke-linejoin": "round", pathLength: 1 };
const trails = [`M${at.k} 86V136H${at.q}V62`, `M${at.v} 86V162H${at.mix}V190`]
.map((d) => svg("path", { ...glow, d }));
const arrived = (...ways) => svg("g", { fill: "var(--rose)" }, ...ways.map(([x, y, high]) =>
svg("path", { d: `M${x} ${y}l-7 ${high}h14z` })));
const tips = [arrived([at.k, 86, 8], [at.v, 86, 8]), arrived([at.q, 62, 8], [at.mix, 190, -8])];
const ghosts = Object.entries(ends).map(([index, both]) => both.map((at) => ghost(at, index)));
const group = (...parts) => svg("g", {}, ...parts.flat());
const rotated = { ...sym("k"), "fill-opacity": 0.5 };
const begin = (x) => `M${x} 58V64M${x} 86`;
const toScores = `${begin(at.k)}V136H${at.mix - 30}`;
const toMixture = `${begin(at.v)}V162H${at.mix - 10}`;
const made = group(
wire("k", toScores), wire("v", toMixture), wire("v", `M${at.mix} 172V190M${at.mix} 212V222`),
tip("v", at.mix, 224), block(at.k, 92, head, 5, "k", sym("k")),
block(at.v, 92, head, 5, "v", sym("v")),
block(at.k + head / 2 + rope / 2 + 2, 92, rope, 5, "k", rotated),
text(at.k + 28, 111, "keys", fine), text(at.v + 16, 111, "values", fine));
const absorbed = group(
wire("neutral", toScores), wire("neutral", toMixture), wire("neutral", `M${at.mix} 172V190`),
wire("v", `M${at.mix} 212V222`), tip("v", at.mix, 224),
block(at.q, 76, latent, 1, "q", sym("q")),
text(at.q + 42, 77, "absorbed", fine), text(at.q + 42, 92, "query", fine),
block(at.mix, 176, latent, 1, "neutral"), text(at.mix + 42, 184, "mixed latents", fine));
const cells = Array.from({ length: 5 }, (_, i) => svg("rect", { x: at.mix - 30 + 12 * i, y: 130,
width: 11, height: 12, fill: "var(--w)", "fill-opacity": 0.3 + 0.12 * i, ...sym("w") }));
way.append(
...trails, ...tips, wire("neutral", `M${cache} 50V58M${at.v} 62V58H${at.k}V62`), made, absorbed,
wire("q", `M${at.q} 30V40M${at.q} 62V136H${at.mix + 29}`),
wire("w", `M${at.mix} 142V146`), tip("w", at.mix, 153),
svg("circle", { cx: at.mix, cy: 162, r: 9, fill: "var(--paper)", stroke: "var(--soft)" }),
text(at.mix, 167, "Σ", middle), ...cells, text(at.q + 8, 140, "scores, weights", fine),
...block(cache, 20, latent, 5, "neutral"),
...block(cache + latent / 2 + rope / 2 + 1, 20, rope, 5, "k", sym("k")),
text(cache + rope / 2, 12, "cache: a row per token", centred),
text(cache - latent / 2 - 6, 39, "latent", { ...fine, "text-anchor": "end" }),
text(cache + latent / 2 + rope + 7, 39, "rotated", ofKeys),
...block(at.q, 22, head, 1, "q", sym("q")), text(at.q, 12, "query of a head", centred),
...block(at.mix, 226, head, 1, "v", sym("v")),
text(at.mix + 16, 235, "context of a head", fine), ...ghosts.flat(), boxes.k, boxes.v);
function place(share) {
for (const [name, points] of Object.entries(corners)) {
const [x, y] = along(points, share);
set(boxes[name], { transform: `translate(${x.toFixed(1)} ${y.toFixed(1)})` });
}
for (const [before, after] of ghosts) {
set(before, { opacity: share });
set(after, { opacity: 1 - share });
}
const lit = form ? `${share} 1` : `0 ${share} ${1 - share} 0`;
for (const trail of trails) {
set(trail, { "stroke-dasharray": lit, visibility: moved ? "visible" : "hidden" });
}
tips.forEach((one, i) =>
set(one, { visibility: moved && share === i ? "visible" : "hidden" }));
set(made, { opacity: (1 - share).toFixed(2) });
set(absorbed, { opacity: share.toFixed(2) });
}

const [thick, below] = apart ? [34, 68] : [16, 42];
const under = 42 + below + thick + 24;
const sums = fig(room, under);
const bars = forms.map((name, i) => {
const y = 36 + below * i;
const label = text(0, y, name);
const value = text(92, y, "");
const bar = svg("rect", { y: y + 6, height: thick, fill: "var(--neutral)",
class: "moves" });
sums.append(label, value, bar);
return { bar, label, value };
});
const ratio = text(0, 0, "", { style: "font-size: 17px; font-weight: 600" });
const counted = text(0, 12, `multiplications, one new token, all ${heads} heads`, small);
sums.append(counted, ratio);
function amount(x) {
const units = [[1e12, "trillion"], [1e9, "billion"], [1e6, "million"]];
const [unit, name] = units.find(([unit]) => x >= unit);
return `${number(x / unit, 1)} ${name}`;
}

function showWork({ work }) {
const [more, less] = forms.map((name) => work[name]);
bars.forEach(({ bar, label, value }, i) => {
const [amounts, on] = [work[forms[i]], i === form];
const width = clamp(room * amounts / Math.max(more, less), 1, room);
set(bar, { width, "fill-opacity": on ? 1 : 0.5 });
for (const node of [label, value]) set(node, { style: `font-weight: ${on ? 600 : 400}` });
value.textContent = amount(amounts);
});
const times = more / less;
const alike = times < 1.05;
ratio.textContent = alike ? "about the same" : `${number(times, 0)} times fewer`;
set(ratio, { x: alike ? 0 : room / times + 8,
y: 42 + below + (alike ? thick + 20 : thick / 2 + 6) });
const both = forms.map((name) => `${name} ${amount(work[name])}`).join(", ");
set(sums, { "aria-label": `Multiplications: ${both}` });
}
function explain() {
const rows = plural(tokens, "row");
say(form ? `Absorbed: Wₖ meets 1 query and Wᵥ 1 mixture, instead of ${rows}.`
: `Expanded: each head makes keys and values of ${plural(tokens, "token")}.`);
set(way, { "aria-label": `From the cache to the context of a head, ${forms[form]}` });
}
function show() {
const now = count();
showWork(now);
explain();
state = { heads, tokens, form: forms[form], ...now };
}
function change(to) {
const from = form;
form = to;
moved = true;
move(1200, (share) => place(from + (form - from) * share));
show();
}
const long = slider("Tokens in the cache", { min: 0, max: data.lengths.length - 1, step: 1,
value: data.lengths.indexOf(tokens), text: (i) => grouped(data.lengths[i]),
input: (i) => { tokens = data.lengths[i]; show(); } });
long.querySelector("input").style.width = wide ? "8rem" : "6rem";
const parts = choices("How it is read", forms, form, change);
for (const one of [parts, long]) one.style.margin = "0";
set(said, { style: `min-height: ${wide ? 1.4 : 2.8}em; margin: ${wide ? 8 : 2}px 0` });
view.append(
el("div", { class: "row", style: `gap: ${wide ? 8 : 2}px 32px; `
+ `margin: 0 0 ${wide ? 12 : 6}px` }, parts, long),
el("div", { class: "beside", style: "align-items: flex-start; gap: 4px 16px; margin: 0" },
way, apart ? el("div", {}, sums, board) : sums),
said, ...(apart ? [] : [board]));
place(form);
show();
expose(() => state);
}
for (const figure of document.querySelectorAll("figure[data-drawing=latent]")) begin(figure, draw);
})();
