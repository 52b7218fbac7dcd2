(() => {
function draw(stage) {
const { view, viewWidth, data, el, svg, set, dot, softmax, mix, number, plural } = stage;
const { said, say, choices, slider, player, motion, expose } = stage;
const { tokens, q, k, v } = data;
const n = tokens.length;
const all = [...tokens.keys()];
const kinds = [["query", "var(--q)"], ["key", "var(--k)"], ["value", "var(--v)"]];
let t = Math.min(3, n - 1);
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

const narrow = "padding: 0; font-size: 13px; text-align: center";
const tops = all.map((i) => el("th", { scope: "col", style: narrow }, tokens[i]));
const cells = kinds.map(() => all.map(() => el("td", { style: "padding: 2px" })));
const boxes = kinds.map(([name], r) => all.map((i) => {
const box = el("div", {});
cells[r][i].append(box);
return box;
}));
const high = 92;
const written = "font-size: 13px; text-align: center; line-height: 1.2; padding-bottom: 3px";
const bars = all.map(() => ({
at: 0, text: el("div", { style: written }), bar: el("div", { "data-sym": "w" }) }));
const room = `padding: 2px 2px 0; vertical-align: bottom; height: ${high + 22}px; `
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
el("thead", {}, el("tr", {}, el("td", { style: "width: 50px; padding: 0" }), ...tops)),
el("tbody", {},
...kinds.map(([name], r) => el("tr", {}, side(name, name[0]), ...cells[r])),
el("tr", {}, set(side("", "w"), { style: ofWeights }, ...scale), ...columns)));
function box(state, colour) {
const tinted = `color-mix(in srgb, ${colour} 35%, transparent)`;
const looks = {
computed: `border: 2px solid ${colour}; background: ${tinted}; font-weight: 600`,
read: `border: 2px dashed ${colour}`,
};
return "height: 26px; line-height: 24px; box-sizing: border-box; border-radius: 4px; "
+ "text-align: center; font-size: 13px; color: inherit; "
+ (looks[state] ?? "border: 2px solid transparent");
}

const pitch = 12, stair = Math.max(42 + pitch * n, 98);
const across = (viewWidth - 50) / n;
const brick = (i, y) => svg("rect", { x: 52 + across * i, y, width: across - 4, height: 10,
rx: 2, fill: "var(--k)", "data-sym": "k", class: "moves" });
function counted(name, base, y, says, high) {
const piled = (i) => Array.from({ length: high(i) }, (_, j) => brick(i, base - 10 - pitch * j));
const many = svg("tspan", { style: "font-size: 20px; font-weight: 700" });
const rest = svg("tspan");
const title = svg("text", { x: 0, y, "aria-hidden": true }, many, rest);
const tell = (n) => {
many.textContent = String(n);
rest.textContent = ` ${says(n)}`;
};
return { name, bricks: all.map(piled), title, tell };
}
const tally = [
counted("with", 36, 16, (n) => `${n === 1 ? "key" : "keys"} computed with a cache`, () => 1),
counted("without", stair, stair - 44, () => "without", (i) => i + 1)];
const total = svg("svg", { width: viewWidth, height: stair + 4, role: "img",
viewBox: `0 0 ${viewWidth} ${stair + 4}`, style: "height: auto; margin-top: 16px" },
...tally.flatMap(({ bricks, title }) => [...bricks.flat(), title]));

function nameLook(i) {
if (i === t) return "font-weight: 700; box-shadow: inset 0 -3px 0 var(--q)";
return `${i > t ? "opacity: 0.55; " : ""}font-weight: 400`;
}
function showToken(i, weight) {
set(tops[i], { style: `${narrow}; ${nameLook(i)}` });
const read = viewWidth < 480 ? "read" : "cached";
kinds.forEach(([name, colour], r) => {
const state = does(i, name);
set(boxes[r][i], { "data-sym": state ? name[0] : null, style: box(state, colour) });
boxes[r][i].textContent = state === "computed" ? "new" : state && read;
});
bars[i].text.textContent = i > t ? "" : number(weight);
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
for (const { name, bricks, title, tell } of tally) {
bricks.forEach((of, i) => of.forEach((one) => set(one, { opacity: i <= t ? 1 : 0 })));
const weight = cached === (name === "with") ? 600 : 400;
set(title, { style: `font-size: 13px; font-weight: ${weight}` });
tell(computed[name]);
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
for (const i of all) showToken(i, weights[i]);
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
board, total, said);
show();
const having = (wanted) =>
kinds.map(([name]) => all.filter((i) => does(i, name) === wanted).length);
expose(() => ({
step: t, cached, computed: having("computed"), read: having("read"), sofar: sofar(),
...attend() }));
}
for (const figure of document.querySelectorAll("figure[data-drawing=cache_steps]")) begin(figure, draw);
})();
