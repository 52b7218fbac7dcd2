(() => {
function draw({ view, viewWidth, data, el, svg, set, sum, clamp, plural, said, say, choices,
toggle, more, legendOf, hatch, wash, slider, motion, expose }) {
const { tokens, documents, sinks, block } = data;
const n = tokens.length;
const all = [...tokens.keys()];
const on = { window: true, sinks: false, documents: false, blocks: false, causal: false };
let width = data.window;
let either = true;
let query = n - 1;
let layers = 2;
let aim = null;

const masks = {
causal: (i, j) => j <= i,
window: (i, j) => j <= i && j > i - width,
sinks: (i, j) => j < sinks,
documents: (i, j) => documents[i] === documents[j],
blocks: (i, j) => Math.floor(i / block) === Math.floor(j / block),
};
const pair = () => ["window", "sinks"].filter((name) => on[name]);
const others = () => ["causal", "documents", "blocks"].filter((name) => on[name]);
function may(i, j) {
const two = pair().map((name) => masks[name](i, j));
const first = !two.length || (either ? two.some(Boolean) : two.every(Boolean));
return first && others().every((name) => masks[name](i, j));
}
function formula() {
const written = {
causal: "causal",
window: `window ${width}`,
sinks: `sinks ${sinks}`,
documents: "documents",
blocks: `blocks ${block}`,
};
const two = pair().map((name) => written[name]).join(either ? " | " : " & ");
const first = two.includes("|") && others().length ? `(${two})` : two;
const parts = [first, ...others().map((name) => written[name])];
return parts.filter(Boolean).join(" & ") || "no mask";
}
const hidden = () => on.window && !(on.sinks && either);
const board = () => all.map((i) => all.map((j) => may(i, j)));
function levels(mask, i) {
const found = [[i]];
for (let l = 0; l < layers; l++) {
found.push(all.filter((j) => found[l].some((m) => mask[m][j])));
}
return found;
}

function farthest(reached) {
const far = reached.reduce((a, b) => (Math.abs(b - query) > Math.abs(a - query) ? b : a),
query);
return far === query ? null : far;
}
function pathsTo(mask, found, token) {
const back = [token === null ? [] : [token]];
for (let l = 0; l < layers; l++) {
back.unshift(all.filter((i) => back[0].some((j) => mask[i][j])));
}
return found.map((level, down) => level.filter((i) => back[down].includes(i)));
}
function farthestPath(mask, path) {
const token = path.at(-1)[0];
const nearest = (a, b) => (Math.abs(b - token) < Math.abs(a - token) ? b : a);
const next = (at, level) => level.filter((j) => mask[at][j]).reduce(nearest);
return path[0].length
? path.slice(1).reduce((taken, level) => [...taken, next(taken.at(-1), level)], [query])
: [];
}
function countOf(mask, path) {
const next = (was, level, down) =>
level.map((j) => sum(path[down].map((i, at) => (mask[i][j] ? was[at] : 0))));
return path[0].length ? path.slice(1).reduce(next, [1])[0] : 0;
}

const phone = viewWidth < 600;
const left = 62, broad = Math.min(720, viewWidth || 350);
const longest = Math.max(...tokens.map((token) => token.length));
const slants = phone || 8 * longest * n > broad - left;
const side = (broad - left - (slants ? 18 : 2)) / n, tall = phone ? 17 : 20;
const high = phone ? 66 : 116;
const names = 24 + high;
const top = names + (slants ? 48 : 22);
const x = (j) => left + side * (j + 0.5);
const label = (x, y, text, style, anchor = "middle") =>
svg("text", { x, y, "text-anchor": anchor, style: `font-size: 13px; ${style}` }, text);
const slanted = (j) => svg("text", { transform: `translate(${x(j) + 4} ${top - 6}) rotate(-55)`,
style: "font-size: 13px" }, tokens[j]);
function cellAt(i, j) {
const box = svg("rect", { x: left + side * j, y: top + tall * i, width: side, height: tall,
stroke: "var(--faint)", class: "moves" });
const ring = svg("circle", { cx: x(j), cy: top + tall * (i + 0.5), r: 5, class: "moves",
fill: "none", stroke: "var(--neutral)", "stroke-width": 2 });
const looks = { style: "cursor: pointer", onclick: () => choose(i) };
return { node: svg("g", looks, box, ring), box, ring };
}
const cells = all.map((i) => all.map((j) => cellAt(i, j)));
const ahead = hatch("board-future", "var(--neutral)", 2.5, wash("neutral", 30));
const ofFuture = svg("rect", { x: 1, y: 2, width: 16, height: 14, fill: ahead.fill });
const sides = all.map((i) =>
set(label(left - 8, top + tall * i + tall / 2 + 5, tokens[i], "", "end"), { "data-sym": "q" }));
const tops = all.map((j) => set(slants ? slanted(j) : label(x(j), top - 8, tokens[j], ""),
{ "data-sym": "k" }));
const row = svg("rect", { "data-sym": "q", x: left, width: side * n, height: tall,
fill: "none", stroke: "var(--q)", "stroke-width": 2.5, class: "moves" });
const begins = all.slice(1).filter((i) => documents[i] !== documents[i - 1]);
const breaks = begins.map((i) => svg("path", {
d: `M${left} ${top + tall * i}h${side * n}M${left + side * i} ${top}v${tall * n}`,
stroke: "var(--soft)", "stroke-width": 1.5 }));
const ways = svg("g"), dots = svg("g"), appear = motion();
const deep = top + tall * n + 4;
const picture = svg("svg", { width: broad, height: deep, viewBox: `0 0 ${broad} ${deep}`,
"aria-hidden": true, style: "cursor: pointer" }, ahead.node, ways, dots,
...cells.flat().map((c) => c.node), ...breaks, ...sides, ...tops, row);

const icon = (mark) => svg("svg", { width: 18, height: 18, viewBox: "0 0 18 18" }, mark);
const circled = { cx: 9, cy: 9, r: 5, fill: "none", stroke: "var(--neutral)", "stroke-width": 2 };
const legend = legendOf([wash("neutral", 40), el("span")],
[icon(svg("circle", circled)), "via layers"], [icon(ofFuture), "future"]);
const [count, , future] = legend.children;

const y = (l) => 12 + high - (high * l) / layers;
function runsOf(level) {
const ends = (by) => level.filter((j) => !level.includes(j + by));
return ends(-1).map((from, at) => [from, ends(1)[at]]);
}
function wedge(mask, found) {
const attends = ([a, b], [from, to]) =>
all.slice(a, b + 1).some((i) => mask[i].slice(from, to + 1).some(Boolean));
return found.slice(1).flatMap((level, down) => {
const [top, foot] = [layers - down, layers - down - 1].map(y);
return runsOf(found[down]).flatMap((upper) => runsOf(level)
.filter((lower) => attends(upper, lower))
.map((lower) => `M${x(upper[0])} ${top}H${x(upper[1])}L${x(lower[1])} ${foot}`
+ `H${x(lower[0])}Z`));
}).join("");
}
const area = (d, ink, opacity) => svg("path", { d, opacity, fill: ink, stroke: ink,
"stroke-width": 8, "stroke-linejoin": "round" });
const lineOf = (one) =>
one.map((j, down) => `${down ? "L" : "M"}${x(j)} ${y(layers - down)}`).join("");
function drawPaths(mask, found, path, one) {
return [area(wedge(mask, found), "var(--neutral)", 0.16),
area(wedge(mask, path), "var(--rose)", 0.3),
svg("path", { d: lineOf(one), stroke: "var(--rose)", "stroke-width": 4,
"stroke-linecap": "round", "stroke-linejoin": "round", fill: "none" })];
}
function drawLayer(level, down, path, one) {
const l = layers - down;
const cy = y(l);
const spots = all.map((j) => {
const here = level.includes(j);
const mine = !down && j === query;
const marked = j === one[down];
const hue = mine ? "var(--q)" : marked ? "var(--rose)"
: here && wash(path[down].includes(j) ? "rose" : "neutral", 45);
const size = mine || marked ? 7 : 5;
return svg("circle", { "data-sym": mine ? "q" : null, cx: x(j), cy, r: here ? size : 2.5,
fill: hue || "var(--faint)" });
});
const says = l ? `layer ${l}` : "tokens";
return [label(left - 8, cy + 5, says, "fill: var(--soft)", "end"), ...spots];
}
function build(mask, found, path, one) {
ways.replaceChildren(...drawPaths(mask, found, path, one));
dots.replaceChildren(...found.flatMap((level, down) => drawLayer(level, down, path, one)));
}

const code = el("code", { style: "font-size: 14px; background: none; border: none; padding: 0; "
+ "color: inherit" });
function showRow(mask, i, end, one) {
const far = levels(mask, i).at(-1);
const taken = (j) => one.some((at, down) => at === i && one[down + 1] === j);
cells[i].forEach((cell, j) => {
showCell(cell, mask[i][j], far.includes(j), j > i, i === query);
if (taken(j)) set(cell.box, { fill: "var(--rose)" });
const marked = i === query && j === end;
set(cell.ring, marked ? { stroke: "var(--rose)", "stroke-width": 3 }
: { stroke: "var(--neutral)", "stroke-width": 2 });
});
set(sides[i], { "font-weight": i === query ? 700 : 400 });
}
function showCell({ box, ring }, allowed, reached, future, mine) {
const fill = future ? ahead.fill : wash("neutral", mine ? 85 : 40);
set(box, { fill: allowed ? fill : "transparent" });
const shown = mine ? 1 : 0.5;
set(ring, { opacity: !allowed && reached ? shown : 0 });
}
const leaks = (mask) => all.filter((i) => mask[i].some((m, j) => m && j > i)).length;
function tell(mask, through, path) {
const sees = mask[query].filter(Boolean).length;
const who = `Token ${query}, “${tokens[query]}”, attends to ${sees}`;
const far = path.at(-1)[0];
const depths = `through ${plural(layers, "layer")}`;
if (aim !== null) {
const count = countOf(mask, path);
const how = count ? `reaches it on ${plural(count, "path")} (rose)` : "does not reach it";
say(`${who}; ${depths} “${tokens[aim]}” ${how}.`);
return;
}
if (leaks(mask)) {
say(`${who}. The mask allows ${plural(leaks(mask), "token")} to attend to the future.`);
return;
}
say(`${who}; ${depths} ${through.length} of ${n} tokens reach it`
+ (far === undefined ? "." : `, up to “${tokens[far]}” (rose).`));
}
function show() {
const mask = board();
const found = levels(mask, query);
const scores = mask.flat().filter(Boolean).length;
const path = pathsTo(mask, found, aim ?? farthest(found.at(-1)));
const end = aim ?? path.at(-1)[0];
const one = farthestPath(mask, path);
build(mask, found, path, one);
for (const i of all) showRow(mask, i, end, one);
tops.forEach((name, j) => set(name, { "font-weight": j === end ? 700 : 400 }));
aimed.move(end ?? query);
set(row, { y: top + tall * query });
code.textContent = formula();
for (const line of breaks) set(line, { visibility: on.documents ? "visible" : "hidden" });
joined.style.visibility = on.window && on.sinks ? "" : "hidden";
needless.style.visibility = on.window && !on.sinks ? "" : "hidden";
disable(buttons.causal, buttons.causal, hidden());
disable(widths, widths.querySelector("input"), !on.window);
count.lastChild.textContent = `${scores} of ${n * n} pairs`;
future.style.visibility = leaks(mask) ? "" : "hidden";
tell(mask, found.at(-1), path);
}

function disable(node, control, disabled) {
set(control, { disabled });
node.style.opacity = disabled ? 0.45 : 1;
}
const after = (change) => (to) => {
aim = null;
change(to);
show();
appear(300, (t) => set(ways, { opacity: t }));
};
const chosen = slider("Query", { min: 0, max: n - 1, step: 1, value: query,
input: after((i) => { query = i; }), text: (i) => `${i} ${tokens[i]}` });
function choose(i) {
const range = chosen.querySelector("input");
range.value = i;
range.dispatchEvent(new Event("input"));
}
const aimed = slider("Paths from", { min: 0, max: n - 1, step: 1, value: 0, input: point,
text: (i) => `${i} ${tokens[i]}` });
function point(j) {
if (j === aim) return;
aim = j;
show();
}
function pointed({ clientX }) {
const box = picture.getBoundingClientRect();
point(clamp(Math.floor(((clientX - box.left) * broad / box.width - left) / side), 0, n - 1));
}
for (const kind of ["pointermove", "pointerdown"]) picture.addEventListener(kind, pointed);
picture.addEventListener("pointerleave", ({ pointerType }) => {
if (pointerType !== "touch") point(null);
});
const turn = (name) => toggle(name, on[name], after((value) => { on[name] = value; }));
const buttons = Object.fromEntries(Object.keys(on).map((name) => [name, turn(name)]));
const whole = (i) => `${i}`;
const joining = choices("A key in the window, in the sinks, or in both", ["either |", "both &"],
0, after((i) => { either = !i; }));
const inPlace = "grid-area: 1 / 1; margin: 0; align-content: center";
const joined = set(joining, { class: "row joined", style: inPlace });
const needless = el("span", { style: `${inPlace}; font-size: 13px; color: var(--soft)` },
"The window hides the future: causal adds nothing.");
const widths = slider("Window", { min: 1, max: n, step: 1, value: width,
input: after((i) => { width = i; }), text: whole });
const depth = slider("Layers", { min: 1, max: 4, step: 1, value: layers,
input: after((i) => { layers = i; }), text: whole });

const five = Object.values(buttons);
for (const one of five) one.style.paddingInline = phone ? "4px" : "5px";
const switches = el("div", { class: "row", style: "gap: 4px" }, ...five);
const below = el("div", { style: "display: grid; margin-block: 0.4rem" }, joined, needless);
set(said, { style: `min-height: ${phone ? 2.8 : 1.4}em; margin-top: 4px` });
for (const one of [widths, depth]) one.firstChild.style.minWidth = phone ? "3.6rem" : null;
const close = phone ? [widths, depth, chosen, aimed, switches, below] : [];
for (const one of close) one.style.marginBlock = 0;
view.append(
el("div", { class: "beside", style: "gap: 0 2rem; margin: 0 0 8px" }, widths, depth),
picture, legend, said,
more(switches, el("div", { style: "min-height: 1.5em" }, code), below, chosen, aimed));
show();
const reachedBy = (mask, i) => {
const far = levels(mask, i).at(-1);
return all.map((j) => far.includes(j));
};
expose(() => {
const mask = board();
const found = levels(mask, query);
const paths = countOf(mask, pathsTo(mask, found, aim ?? farthest(found.at(-1))));
return { mask, scores: mask.flat().filter(Boolean).length, formula: formula(), layers, query,
aim, paths,
reached: all.map((i) => reachedBy(mask, i)) };
});
}
for (const figure of document.querySelectorAll("figure[data-drawing=window_board]")) begin(figure, draw);
})();
