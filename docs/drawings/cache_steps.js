(() => {
function draw(stage) {
const { view, viewWidth, data, el, svg, set, dot, softmax, mix, number, plural } = stage;
const { said, say, choices, legendOf, slider, player, motion, expose } = stage;
const { tokens, q, k, v } = data;
const n = tokens.length;
const all = [...tokens.keys()];
const kinds = [["query", "var(--q)"], ["key", "var(--k)"], ["value", "var(--v)"]];
let t = n - 1;
let cached = true;

function does(i, kind) {
if (i > t) return "";
if (!cached || i === t) return "computed";
return kind === "query" ? "" : "read";
}
function attend() {
const scores = k.slice(0, t + 1).map((key) => dot(q[t], key) / Math.sqrt(key.length));
const weights = softmax(scores);
return { weights, context: mix(weights, v.slice(0, t + 1)) };
}
const sofar = () => ({ with: t + 1, without: (t + 1) * (t + 2) / 2 });

const margin = 54;
const upright = (viewWidth - margin) / n < 34;
const narrow = `padding: 0; font-size: 12px; height: ${upright ? 44 : 18}px; `
+ `${upright ? "writing-mode: vertical-rl; transform: rotate(180deg)" : "text-align: center"}`;
const tops = all.map((i) => el("th", { scope: "col", style: narrow }, tokens[i]));
const cells = kinds.map(() => all.map(() => el("td", { style: "padding: 2px 1.5px" })));
const boxes = kinds.map(([name], r) => all.map((i) => {
const box = el("div", {});
cells[r][i].append(box);
return box;
}));
const high = 58;
const written = "font-size: 12px; line-height: 1.2; width: max-content; padding-inline: 2px; "
+ "margin-bottom: 3px; position: relative; left: 50%; transform: translateX(-50%); "
+ "background: var(--paper)";
const bars = all.map(() => ({
at: 0, text: el("div", { style: written }), bar: el("div", { "data-sym": "w" }) }));
const room = `padding: 2px 1.5px 0; vertical-align: bottom; height: ${high + 22}px; `
+ "border-bottom: 1px solid var(--soft); background: linear-gradient(var(--faint), "
+ "var(--faint)) 0 23px / 100% 1px no-repeat";
const columns = bars.map(({ text, bar }) => el("td", { style: room }, text, bar));
const side = (text, sym) => el("th", {
scope: "row", "data-sym": sym,
style: "padding: 0 4px 0 0; font-size: 13px; text-align: left" }, text);
const ofWeights = "position: relative; padding: 0; font-size: 13px; text-align: left; "
+ "vertical-align: bottom";
const scale = ["weight", el("span", { style: "position: absolute; right: 6px; top: 12px; "
+ "color: var(--soft)" }, "1")];
const board = el("table", {
"aria-label": "Each column is a token; computed in this step, or read from the cache",
style: "margin: 0; width: 100%; table-layout: fixed" },
el("thead", {}, el("tr", {}, el("td", { style: `width: ${margin}px; padding: 0` }), ...tops)),
el("tbody", {},
...kinds.map(([name], r) => el("tr", {}, side(name, name[0]), ...cells[r])),
el("tr", {}, set(side("", "w"), { style: ofWeights }, ...scale), ...columns)));
function box(state, colour) {
const tinted = (part) => `background: color-mix(in srgb, ${colour} ${part}%, transparent)`;
const looks = { computed: `border: 2px solid ${colour}; ${tinted(60)}`, read: tinted(20) };
return "height: 22px; box-sizing: border-box; border-radius: 4px; "
+ (looks[state] ?? "border: 2px solid transparent");
}

const marked = (state) => el("span", { style: `flex: none; width: 18px; `
+ box(state, "var(--neutral)") });
const legend = legendOf([marked("computed"), "computed now"],
[marked("read"), "read from the cache"]);
legend.style.marginTop = "8px";

const gap = viewWidth < 600 ? 14 : 32;
const half = (viewWidth - gap) / 2;
const base = viewWidth < 600 ? 160 : 176;
const [across, pitch] = [half / n, base / n];
const [w, h] = [across, pitch].map((x) => (x - 3.5).toFixed(1));
const pale = "color-mix(in srgb, var(--k) 20%, var(--paper))";
function stair(name, says, x, isNew) {
function brick(i, j) {
const [left, top] = [x + across * i + 1, base - pitch * (j + 1) + 1];
return `M${left.toFixed(1)} ${top.toFixed(1)}h${w}v${h}h-${w}z`;
}
const kept = (i, now) => all.slice(0, i + 1).filter((j) => isNew(i, j) === now);
const pile = (i, ink, now) => svg("path", { fill: ink, stroke: ink, "stroke-width": 2,
"stroke-linejoin": "round", class: "moves", "data-sym": "k",
d: kept(i, now).map((j) => brick(i, j)).join("") });
const bricks = all.map((i) => [pile(i, pale, false), pile(i, "var(--k)", true)]);
const many = svg("text", { x, y: 27, style: "font-size: 34px; font-weight: 700" });
const line = (y, text) => svg("text", { x, y, "aria-hidden": true,
style: `font-size: ${viewWidth < 600 ? 12 : 13}px` }, text);
const title = svg("g", {}, many, line(46, "keys computed"), line(62, says));
const under = svg("rect", { y: base + 2, width: across - 1.5, height: 3, fill: "var(--q)" });
const stand = () => set(under, { x: x + across * t });
return { name, bricks, title, many, under, stand };
}
const tally = [stair("with", "with a cache", 0, (i, j) => i === j),
stair("without", "without", half + gap, () => true)];
const total = svg("svg", { width: viewWidth, height: base + 6, role: "img",
viewBox: `0 0 ${viewWidth} ${base + 6}`, style: "height: auto; margin-top: 14px" },
...tally.flatMap(({ bricks, title, under }) => [...bricks.flat(), title, under]));

function nameLook(i) {
if (i === t) return `font-weight: 700; box-shadow: inset 0 ${upright ? 3 : -3}px 0 var(--q)`;
return `${i > t ? "opacity: 0.55; " : ""}font-weight: 400`;
}
function showToken(i, weight, most) {
set(tops[i], { style: `${narrow}; ${nameLook(i)}` });
kinds.forEach(([name, colour], r) => {
const state = does(i, name);
set(boxes[r][i], { "data-sym": state ? name[0] : null, style: box(state, colour) });
});
bars[i].text.textContent = !upright && i <= t || weight === most ? number(weight) : "";
}
function rise(i, weight) {
bars[i].at = weight;
const height = `${(high * weight).toFixed(1)}px`;
set(bars[i].bar, {
style: `height: ${height}; background: var(--w); border-radius: 2px` });
}
const glide = motion();
function slide(weights, before) {
const from = bars.map(({ at }) => at);
const news = before < t ? [boxes[1][t], boxes[2][t]] : [];
glide(450, (f) => {
for (const i of all) rise(i, from[i] + ((weights[i] ?? 0) - from[i]) * f);
for (const box of news) box.style.opacity = f < 1 ? f.toFixed(2) : "";
});
}
function showTally(computed) {
for (const { name, bricks, title, many, stand } of tally) {
bricks.forEach((of, i) => of.forEach((one) => set(one, { opacity: i <= t ? 1 : 0 })));
set(title, { style: `font-weight: ${cached === (name === "with") ? 600 : 400}` });
many.textContent = computed[name];
stand();
}
set(total, { "aria-label": "Keys computed so far: "
+ tally.map(({ name }) => `${computed[name]} ${name} a cache`).join(", ") });
}
function sentence() {
const word = `“${tokens[t]}”`;
if (cached) {
const old = `${plural(t, "old key")} and value${t === 1 ? "" : "s"} read.`;
return `${word}: one query, key and value are computed, ${old}`;
}
if (t) return `${word}: queries, keys and values of all ${t + 1} tokens are computed again.`;
return `${word}: its query, key and value are computed.`;
}
let shown = t;
function show() {
const { weights } = attend();
for (const i of all) showToken(i, weights[i], Math.max(...weights));
slide(weights, shown);
shown = t;
showTally(sofar());
say(sentence());
}

const range = slider("Tokens so far", {
min: 1, max: n, step: 1, value: t + 1, text: (x) => number(x, 0),
input: (x) => { play.stop(); t = x - 1; show(); } });
function go(i) {
t = i;
range.move(t + 1);
show();
}
const play = player({ at: () => t, last: () => n - 1, go });
set(said, { style: `min-height: ${viewWidth < 600 ? 2.8 : 1.4}em; margin-top: 12px` });
view.append(
el("div", { class: "row", style: "margin-top: 0" },
el("div", { class: "row steered" }, play.node, range),
choices("Cache", ["with a cache", "without"], 0, (i) => { cached = i === 0; show(); })),
board, legend, total, said);
show();
const having = (wanted) =>
kinds.map(([name]) => all.filter((i) => does(i, name) === wanted).length);
expose(() => ({
step: t, cached, computed: having("computed"), read: having("read"), sofar: sofar(),
...attend() }));
}
for (const figure of document.querySelectorAll("figure[data-drawing=cache_steps]")) begin(figure, draw);
})();
