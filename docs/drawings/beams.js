(() => {
function draw(stage) {
const { figure, view, viewWidth, data, el, svg, set, number, grouped, listed } = stage;
const { said, say, choices, slider, player, motion, expose } = stage;
const { tokens, end, next } = data;
const spare = 2;
const wide = viewWidth >= 600;
let width = data.width;
let step = data.step;

const ended = ({ ids }) => ids.at(-1) === end;
function continuations(one, from) {
if (ended(one)) return [{ ...one, from, p: 1 }];
const log_p = next[one.ids.join(" ")];
return log_p.map((x, token) =>
({ ids: [...one.ids, token], from, p: Math.exp(x), total: one.total + x }));
}
function search(width) {
const steps = [{ kept: [{ ids: [], total: 0, p: 1 }], dropped: [], of: 1 }];
while (!steps.at(-1).kept.every(ended)) {
const found = steps.at(-1).kept.flatMap(continuations);
found.sort((a, b) => b.total - a.total);
const kept = found.slice(0, width), dropped = found.slice(width, width + spare);
steps.push({ kept, dropped, of: found.length });
}
return steps;
}
const searched = new Map([1, 2, 3].map((w) => [w, search(w)]));
const steps = () => searched.get(width), last = () => steps().length - 1;
const columns = Math.max(...[...searched.values()].map((of) => of.length));

const full = wide ? viewWidth : 350;
const beside = wide ? 116 : 0;
const gap = (full - beside - 40) / (columns - 1);
const line = 50;
const r = wide ? 15 : 12;
const deep = 3 + spare;
const top = 42;
const foot = wide ? 0 : 26;
const high = top + deep * line - 18 + foot;
const apart = () => ((deep - 1) * line) / (width + spare - 1);
const at = (t, rank) => [17 + t * gap, top + rank * apart()];
const root = svg("svg", {
width: full,
height: high,
viewBox: `0 0 ${full} ${high}`,
role: "img",
style: "height: auto",
"aria-label":
"A tree of hypotheses: each column is a step, and the best hypothesis stands on top",
});
function alive(t, rank) {
let ranks = steps()[step].kept.map((_, i) => i);
for (let i = step; i > t; i--) ranks = ranks.map((j) => steps()[i].kept[j].from);
return ranks.includes(rank);
}
function best(t, rank) {
let j = 0;
for (let i = steps().length - 1; i > t; i--) j = steps()[i].kept[j].from;
return j === rank;
}
function standing(t, rank) {
const kept = rank < steps()[t].kept.length;
const lives = kept && alive(t, rank);
const top = lives && best(t, rank);
const ink = top ? "var(--rose)" : lives ? "var(--neutral)" : "var(--soft)";
return { kept, lives, top, ink, dashes: kept ? null : "3 3" };
}
function wayOf([u, v], [x, y]) {
const middle = (u + x) / 2;
if (wide) return `M${u + r} ${v}C${middle} ${v} ${middle} ${y} ${x - r} ${y}`;
const bend = Math.min(9, Math.abs(y - v) / 2) * Math.sign(y - v);
const before = `M${u + r} ${v}Q${middle} ${v} ${middle} ${v + bend}`;
return `${before}V${y - bend}Q${middle} ${y} ${x - r} ${y}`;
}
function pathOf(one, from, to, { kept, lives, ink, dashes }) {
return svg("path", {
d: wayOf(from, to),
fill: "none",
stroke: ink,
"stroke-width": kept ? 1 + 5 * one.p : 1,
"stroke-dasharray": dashes,
opacity: lives ? 1 : 0.75,
});
}
const shapeAt = ([x, y], half, { lives, top, ink, dashes }) => svg("rect", {
x: x - half,
y: y - r,
width: 2 * half,
height: 2 * r,
rx: r,
fill: lives ? `color-mix(in srgb, ${ink} 35%, var(--paper))` : "var(--paper)",
stroke: ink,
"stroke-width": top ? 2.5 : 1.3,
"stroke-dasharray": dashes,
});
const label = (x, y, text, style) =>
svg("text", { x, y, "text-anchor": "middle", style }, text);
function nameAt([x, y], one, kept) {
const name = one.ids.length ? (ended(one) ? "end" : tokens[one.ids.at(-1)]) : "▸";
const size = name === "end" ? 12 : 14;
const look = kept ? "font-weight: 600" : "fill: var(--soft)";
return label(x, y + 4.5, name, `font-size: ${size}px; ${look}`);
}
function totalAt([x, y], one, kept) {
const style = `font-size: 12px; ${kept ? "" : "fill: var(--soft)"}`;
return set(label(x, y + r + 13, number(one.total), style), { class: "halo" });
}
function nodeOf(t, one, rank, shown) {
const from = at(t - 1, one.from ?? 0), to = at(t, rank);
const how = standing(t, rank);
const fading = shown < 1 && { opacity: shown.toFixed(2) };
const coming = { ...fading, transform: shown < 1 && `translate(${8 * (shown - 1)} 0)` };
const numbered = t > 0 && how.kept;
const marks = [shapeAt(to, ended(one) ? r + 5 : r, how), nameAt(to, one, how.kept),
...(numbered ? [totalAt(to, one, how.kept)] : [])];
const title = t > 0 ? [svg("title", {}, number(one.total))] : [];
return { how, node: svg("g", coming, ...title, ...marks),
path: t > 0 && svg("g", fading, pathOf(one, from, to, how)), band: numbered && bandAt(to) };
}
const bandAt = ([x, y]) =>
svg("rect", { x: x - gap / 2, y: y + r + 2, width: gap, height: 14, fill: "var(--paper)" });
function unitsOf() {
const y = top + r + 13;
const lines = [["log p", y], ["thick:", y + 24], ["likely", y + 38]];
return lines.map(([says, y]) =>
svg("text", { x: 0, y, style: "font-size: 12px; fill: var(--soft)" }, says));
}
function heads() {
const named = Array.from({ length: columns }, (_, t) => {
const look = t === step ? "font-weight: 600" : "fill: var(--soft)";
return label(at(t, 0)[0], 12, t ? `${t}` : "step", `font-size: 13px; ${look}`);
});
const lines = named.slice(1).map((_, i) => svg("path", { stroke: "var(--faint)",
d: `M${at(i + 1, 0)[0]} 18V${high - foot - 18}` }));
return [...lines, ...named, ...unitsOf()];
}
function wholes(shown) {
const left = full - beside + 16;
const place = (rank) => (wide ? { x: left, y: at(step, rank)[1] + 5 }
: { x: 118 * rank, y: high - 6 });
const named = svg("text", { x: left, y: 12, style: "font-size: 13px; fill: var(--soft)" },
"hypothesis");
const numbered = (one, rank) => (wide ? wordsOf(one) : `${rank + 1}: ${wordsOf(one)}`);
const ink = (rank) => (best(step, rank) ? "var(--rose)" : "currentColor");
return [...(wide ? [named] : []), ...steps()[step].kept.map((one, rank) => svg("text", {
...place(rank), opacity: shown.toFixed(2),
style: `font-weight: 600; fill: ${ink(rank)}` }, numbered(one, rank)))];
}
function picture(shown) {
const column = ({ kept, dropped }, t) => [...kept, ...dropped].flatMap((one, rank) =>
nodeOf(t, one, rank, t === step ? shown : 1));
const nodes = steps().slice(0, step + 1).flatMap(column);
const above = ({ how }) => how.kept + how.lives + how.top;
const grown = nodes.filter(({ path }) => path).sort((a, b) => above(a) - above(b));
const linesOf = (kept) =>
grown.filter(({ how }) => how.kept === kept).map(({ path }) => path);
root.replaceChildren(...heads(), ...linesOf(false),
...(wide ? [] : grown.flatMap(({ band }) => band || [])), ...linesOf(true),
...nodes.map(({ node }) => node), ...wholes(shown));
}

function wordsOf({ ids }) {
const words = ids.filter((id) => id !== end).map((id) => tokens[id]);
return words.join("\u00a0");
}
const written = (one) => `“${wordsOf(one)}”`;
const scored = (one) => `${written(one)}\u00a0(${number(one.total)})`;
function tellStep({ kept, of }) {
const stay = kept.length === 1 ? "the best stays" : `the best ${kept.length} stay`;
say(`Step ${step}: of ${grouped(of)} continuations ${stay}: ${listed(kept, scored)}.`);
}
function compared(one) {
const [greedy] = searched.get(1).at(-1).kept;
if (width === 1) return "This is greedy decoding.";
if (written(greedy) === written(one)) return "Greedy decoding finds it, too.";
return `Greedy decoding ends at ${scored(greedy)}.`;
}
function tell() {
if (step < last()) { tellStep(steps()[step]); return; }
const [one] = steps()[step].kept;
const p = number(Math.exp(one.total));
say(`Done: ${scored(one)} is the best, with probability ${p}. ${compared(one)}`);
}

const tables = [...figure.querySelectorAll?.("details table") ?? []];
const grow = motion();
function show(moved) {
tell();
tables.forEach((table, i) => { table.style.display = i + 1 === width ? "" : "none"; });
if (moved) { grow(450, picture); return; }
grow(0, () => { });
picture(1);
}
function slide(x) {
play.stop();
step = x;
show(true);
}
function go(i) {
step = Math.max(1, i);
range.move(step, last());
show(true);
}
function choose(i) {
play.stop();
width = i + 1;
step = Math.min(step, last());
range.move(step, last());
show(false);
}
const range = slider("Step", {
min: 1, max: last(), step: 1, value: step,
text: (x) => number(x, 0),
input: slide,
});
const play = player({ at: () => step, last, ms: () => 1300, go });
const widths = el("div", { class: "row", style: "margin: 0; gap: 0.5rem" },
el("span", {}, "width"),
choices("Width", ["1", "2", "3"], width - 1, choose));
set(said, { style: `min-height: ${wide ? 2.8 : 5.6}em; margin-top: 16px` });
const steered = el("div", { class: "row steered" }, play.node, range);
view.append(
el("div", { class: "row", style: "margin-top: 0" }, steered, widths),
root,
said,
);
show(false);
expose(() => ({
width,
step,
kept: steps()[step].kept.map(({ ids, total }) => ({ ids, total })),
dropped: steps()[step].dropped.map(({ ids }) => ids),
done: step === last(),
}));
}
for (const figure of document.querySelectorAll("figure[data-drawing=beams]")) begin(figure, draw);
})();
