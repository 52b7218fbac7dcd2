(() => {
function draw({ figure, view, viewWidth, data, el, svg, set, softmax, sum, clamp, percent, number,
plural, said, say, choices, button, more, hatch, onkeys, expose, keep }) {
const { names, labels, side, size, grey, icons, shapes } = data;
const model = engine(figure, { data, sum, softmax });
const columns = side / size;
const times = (n, f) => Array.from({ length: n }, (_, i) => f(i));
const all = times(columns ** 2, (i) => i);
const [rowOf, columnOf] = [(i) => Math.floor(i / columns), (i) => i % columns];
const pictures = data.pictures.map((hex) =>
hex.match(/../g).map((two) => parseInt(two, 16) / 255));
const heads = times(data.model.heads, (h) => h);
let [picture, block, head, asked, at] = [0, data.blocks - 1, heads.length, null, 0];
let covers = true;
let covered = new Set();
let now;

const pixelsOf = (i) => times(size * size, (p) =>
(rowOf(i) * size + Math.floor(p / size)) * side + columnOf(i) * size + p % size);
const cut = (i) => pixelsOf(i).map((p) => (covered.has(i) ? grey : pictures[picture][p]));
function compute() {
const { linear, stack } = model.parts;
const run = model.start(data.model.steps.length - 1);
const places = run.w["embed.positions.weight"];
const x = [run.w["embed.class_token"][0], ...linear(run, "embed.proj", all.map(cut))];
const placed = x.map((vector, i) => vector.map((a, j) => a + places[i][j]));
const [first] = stack(run, "stack", placed, null, false);
const [logits] = linear(run, "head", [first]);
const seen = times(data.blocks, (b) => run.seen[`stack.blocks.${b}.attention`]);
now = { logits, shares: softmax(logits), seen };
}
const query = () => (asked === null ? 0 : asked + 1);
function looks() {
const some = head < heads.length ? [head] : heads;
const rows = some.map((h) => now.seen[block][h][query()]);
return rows[0].map((_, j) => sum(rows.map((row) => row[j])) / rows.length);
}

const wide = viewWidth >= 600;
const cell = wide ? 52 : 41;
const [length, top] = [cell * columns, cell + 12];
const corner = (i) => [columnOf(i) * cell, top + rowOf(i) * cell];
const square = ([x, y], more) => svg("rect", { x, y, width: cell, height: cell, ...more });
const box = { width: length, height: top + length };
const root = svg("svg", { ...box, viewBox: `-2 -2 ${length + 4} ${top + length + 4}`,
role: "group", style: "flex: none; height: auto",
"aria-label": "The patches of the picture. Arrow keys move, Enter presses." });
const hidden = hatch("covered-patch", "var(--soft)", 1.5, "var(--paper)");
const heat = [null, ...all].map((i) => square(i === null ? [0, 0] : corner(i),
{ fill: "var(--w)", "data-sym": "w", class: "moves" }));
const unit = cell / size;
const drawing = svg("g", { transform: `translate(0 ${top}) scale(${unit})`,
fill: "currentColor", "shape-rendering": "crispEdges", "pointer-events": "none" });
const lids = all.map((i) => square(corner(i), { fill: hidden.fill, "pointer-events": "none" }));
const lines = times(columns - 1, (i) => `M0 ${top + (i + 1) * cell}h${length}`
+ `M${(i + 1) * cell} ${top}v${length}`).join("");
const mark = square([0, 0], { fill: "none", stroke: "var(--rose)", "stroke-width": 3,
"pointer-events": "none" });
const ways = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
const entered = { Enter: true, " ": true };
function key(act, move) {
const [moved, pressed] = [onkeys(ways, move), onkeys(entered, act)];
return (e) => { moved(e); pressed(e); };
}
const spot = (place, act, move) => square(place, { fill: "transparent", role: "button",
...keep, style: "cursor: pointer", onclick: act, onkeydown: key(act, move) });
function step(i, [right, down]) {
const [row, column] = [rowOf(i) + down, clamp(columnOf(i) + right, 0, columns - 1)];
if (row < 0) classSpot.focus();
else go(clamp(row, 0, columns - 1) * columns + column);
}
function go(i) {
at = i;
spots.forEach((node, j) => set(node, { tabindex: j === i ? 0 : -1 }));
spots[i].focus();
}
const classSpot = spot([0, 0], () => ask(null), ([, down]) => { if (down > 0) go(at); });
const spots = all.map((i) => spot(corner(i), () => press(i), (way) => step(i, way)));
set(classSpot, { tabindex: 0 });
const text = (x, y, words, style = "") =>
svg("text", { x, y, style, "aria-hidden": true }, words);
const ofClass = text(cell + 10, cell / 2 + 9, "", "font-size: 13px; fill: var(--soft)");
const presses = set(text(length, top - 6, "", "font-size: 13px"),
{ "text-anchor": "end", class: "row" });
const frame = { fill: "none", stroke: "var(--edge)" };
root.append(hidden.node, ...heat, drawing, ...lids,
svg("path", { d: lines, stroke: "var(--paper)", "stroke-width": 2, fill: "none",
"pointer-events": "none" }),
svg("rect", { x: 0, y: top, width: length, height: length, ...frame }),
square([0, 0], frame),
text(cell + 10, cell / 2 - 8, "class token", "font-weight: 600"), ofClass, presses, mark,
classSpot, ...spots);
const dots = (pixels, level, shown) => pixels.map((v, p) => (
Math.min(19, Math.floor(20 * v)) === level && shown(p)
? `M${p % side} ${Math.floor(p / side)}h1v1h-1z` : "")).join("");
const inked = (pixels, shown = () => true) => times(20, (level) =>
svg("path", { d: dots(pixels, level, shown), "fill-opacity": ((level + 0.5) / 20) ** 2 }));
const patchOf = (p) =>
Math.floor(p / side / size) * columns + Math.floor(p % side / size);

const icon = (shape) => {
const ink = [...shape].flatMap((dot, p) =>
(dot === "#" ? [`M${p % 7} ${Math.floor(p / 7)}h1v1h-1z`] : []));
return svg("svg", { width: 14, height: 14, viewBox: "0 0 7 7", "aria-hidden": true,
style: "flex: none" }, svg("path", { d: ink.join(""), fill: "currentColor" }));
};
const answers = names.map((name, i) => {
const bar = el("span", { class: "moves", style: "height: 14px; background: var(--neutral)" });
const label = el("span", { style: "white-space: nowrap" });
const part = el("span", { style: "text-align: right" });
const row = el("div", { style: "display: grid; align-items: center; gap: 8px; height: "
+ `${wide ? 26 : 23}px; `
+ "grid-template-columns: 14px 8.4rem minmax(0, 1fr) 3.2rem" },
icon(icons[i]), label, bar, part);
return { name, row, bar, label, part };
});
function showAnswers() {
const best = now.shares.indexOf(Math.max(...now.shares));
answers.forEach(({ name, bar, label, part }, i) => {
label.textContent = i === labels[picture] ? `${name} (drawn)` : name;
label.style.fontWeight = part.style.fontWeight = i === best ? "700" : "400";
bar.style.width = `${100 * now.shares[i]}%`;
part.textContent = percent(now.shares[i]);
});
return best;
}

const nameOf = (i) => `row ${rowOf(i)}, column ${columnOf(i)}`;
function showPatches(weights) {
const most = Math.max(...weights.slice(1));
const shade = (w) => 0.9 * Math.min(1, w / most) ** 0.7;
weights.forEach((w, j) => set(heat[j], { "fill-opacity": shade(w) }));
ofClass.textContent = `${number(weights[0])} on itself`;
if (asked !== null) ofClass.textContent = `${number(weights[0])} on it`;
const [x, y] = asked === null ? [0, 0] : corner(asked);
set(mark, { x, y });
set(classSpot, { "aria-label": `class token, weight ${number(weights[0])}`,
"aria-pressed": asked === null });
for (const i of all) {
lids[i].style.display = covered.has(i) ? "" : "none";
set(spots[i], { tabindex: i === at ? 0 : -1,
"aria-pressed": covers ? covered.has(i) : asked === i, "aria-label":
`${nameOf(i)}, weight ${number(weights[i + 1])}${covered.has(i) ? ", covered" : ""}` });
}
}
function show() {
compute();
const weights = looks();
drawing.replaceChildren(...inked(pictures[picture], (p) => !covered.has(patchOf(p))));
showPatches(weights);
presses.textContent = covers ? "press a patch to cover it" : "press a patch to ask it";
flips.textContent = covered.size ? "Uncover" : "Cover the 4 it looks at most";
const best = showAnswers();
const own = sum(shapes[picture].map((i) => weights[i + 1]));
const whose = asked === null ? "the class token’s weight" : `the weight of ${nameOf(asked)}`;
const lost = covered.size ? `${plural(covered.size, "patch", "patches")} covered: the` : "The";
say(`${percent(own)} of ${whose} lies on the shape. `
+ `${lost} model says ${names[best]} (${percent(now.shares[best])}).`);
}
function ask(i) {
asked = i;
show();
}
function press(i) {
at = i;
if (!covers) return ask(asked === i ? null : i);
if (!covered.delete(i)) covered.add(i);
return show();
}
function cover(may) {
covered = new Set();
compute();
const weights = looks();
const ranked = all.filter(may).sort((i, j) => weights[j + 1] - weights[i + 1]);
covered = new Set(ranked.slice(0, 4));
show();
}
function flip() {
if (!covered.size) return cover(() => true);
covered = new Set();
return show();
}

const thumb = wide ? 34 : 32;
const strokes = (pixels) => inked(pixels.map(() => 0.9), (p) => pixels[p] > 0.3);
const thumbs = pictures.map((pixels, i) => svg("svg", { width: thumb, height: thumb,
viewBox: `0 0 ${side} ${side}`, role: "img", fill: "currentColor",
"aria-label": `picture ${i + 1}, ${names[labels[i]]}` }, ...strokes(pixels)));
const chosen = choices("Picture", thumbs, picture, (i) => {
[picture, asked, covered] = [i, null, new Set()];
show();
});
const of = el("div", { class: "row" },
choices("Block", times(data.blocks, (b) => `block ${b}`), block, (i) => {
block = i;
show();
}),
choices("Head", [...heads.map((h) => `head ${h}`), "mean of both"], head, (i) => {
head = i;
show();
}));
const pressing = el("div", { class: "row" }, el("span", {}, "A press"),
choices("A press on a patch", ["covers a patch", "asks it"], 0, (i) => {
covers = i === 0;
show();
}));
const flips = set(button("", flip), { class: "play", style: "min-width: 15rem" });
const doing = el("div", { class: "row" },
flips, button("Cover 4 outside the shape", () => cover((i) => !shapes[picture].includes(i))));
const told = [el("div", { style: "margin-block: 0.5rem" }, ...answers.map(({ row }) => row)),
more(of, pressing)];
const panel = (...parts) =>
el("div", { style: "flex: 1 1 18rem; min-width: 0; max-width: 25rem" }, ...parts);
const parts = wide ? [root, panel(chosen, doing, ...told)]
: [panel(chosen, doing), root, panel(...told)];
view.append(el("div", { class: "beside", style: "gap: 0.6rem 2rem; align-items: flex-start; "
+ "margin: 0" }, ...parts), said);
set(said, { style: `min-height: ${wide ? 2.8 : 4.2}em` });
show();
expose(() => ({ picture, block, head, asked, covered: [...covered].sort((a, b) => a - b),
weights: looks(), logits: now.logits, shares: now.shares }));
}
for (const figure of document.querySelectorAll("figure[data-drawing=patches]")) begin(figure, draw);
})();
