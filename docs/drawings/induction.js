(() => {
function draw({ figure, view, viewWidth, data, el, svg, set, clamp, grouped, plural, percent,
said, say, softmax, sum, slider, button, toggle, player, more, onkeys, keep, expose }) {
const { names, others, previous, inducing } = data;
const { steps, heads } = data.model;
const period = data.ids.length / 2;
const { start, read } = engine(figure, { data, sum, softmax });
const nameOf = ([block, head]) => `stack.blocks.${block}.attention ${head}`;
const blocks = [0, 1];
const wide = viewWidth >= 600;
let { ids } = data;
let step = steps.length - 1;
let chosen = period + 3;
let now;
const off = new Set();

const means = new Map();
function passedBy(ids) {
const run = start(step);
read(run, ids);
return run.passed;
}
function passedAtThisStep() {
if (!means.has(step)) means.set(step, others.map(passedBy));
return means.get(step);
}
function meanOf(key) {
const [name, head] = key.split(" ");
const rows = passedAtThisStep().flatMap((passed) => passed[name][head]);
return rows[0].map((_, i) => sum(rows.map((row) => row[i])) / rows.length);
}
function compute() {
const run = start(step, new Map([...off].map((key) => [key, meanOf(key)])));
const logits = read(run, ids);
const shares = logits.map(softmax);
const best = shares.map((p) => p.indexOf(Math.max(...p)));
const asked = (i) => i >= period && i < ids.length - 1;
const right = best.map((id, i) => asked(i) && id === ids[i + 1]);
const rowsOf = ([block, head]) => run.seen[`stack.blocks.${block}.attention`][head];
now = { logits, shares, best, right, seen: run.seen,
reads: rowsOf(inducing), before: rowsOf(previous) };
}

const n = ids.length;
const width = Math.min(720, viewWidth || 352);
const cell = width / n;
const line = wide ? 112 : 100, low = line + 30;
const bend = low + 36;
const tall = 40;
const ground = bend + 120;
const height = ground + 26;
const middle = (i) => (i + 0.5) * cell;
const root = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "group" });
const arcs = svg("g", { "pointer-events": "none" });
const text = (x, y, words, style = "", anchor = "middle") =>
svg("text", { x, y, "text-anchor": anchor, style, "aria-hidden": true,
"pointer-events": "none" }, words);
const frame = (i, y, height, more) =>
svg("rect", { x: i * cell + 1, y, width: cell - 2, height, rx: 4, ...more });
const pointed = (i) => (e) => {
if (e.pointerType === "mouse") choose(i);
};
const ways = { ArrowLeft: -1, ArrowRight: 1, Home: -n, End: n };
const row = svg("rect", { y: line, width, height: 28, fill: "none", tabindex: 0, ...keep,
role: "slider", "aria-label": "Letter", "aria-valuemin": 0, "aria-valuemax": n - 1,
onkeydown: onkeys(ways, (by) => choose(clamp(chosen + by, 0, n - 1))) });
const columns = ids.map((_, i) => ({
letter: text(middle(i), line + 20, ""),
next: text(middle(i), ground + 19, ""),
bar: svg("rect", { x: i * cell + 3, width: cell - 6, fill: "var(--neutral)",
class: "moves" }),
share: text(0, 0, "", "font-size: 13px; font-weight: 600"),
mark: frame(i, ground + 2, 23, { fill: "none" }),
box: frame(i, line + 1, 27),
areas: [[line, 36], [ground - tall, tall + 26]].map(([y, height]) =>
svg("rect", { x: i * cell, y, width: cell, height, fill: "transparent",
style: "cursor: pointer", onclick: () => choose(i), onpointerenter: pointed(i) })),
}));
root.append(
text(0, ground - tall - 20, "Most probable next letter", "fill: var(--soft); font-size: 13px",
"start"),
svg("path", { d: `M0 ${ground}H${width}`, stroke: "var(--faint)" }),
...columns.flatMap(({ bar, mark, next, box, letter }) => [bar, mark, next, box, letter]),
...columns.map(({ share }) => share),
arcs,
...columns.flatMap(({ areas }) => areas), row);
function bow(from, to, way) {
const y = way < 0 ? line : low;
const most = way < 0 ? (line - (wide ? 32 : 48)) / 0.75 : 42;
const far = Math.min(16 + 0.42 * cell * Math.abs(from - to), most);
const top = y + way * (from === to ? 22 : far);
const apart = from === to ? 6 : 0;
const [a, b] = [middle(from) - apart, middle(to) + apart];
return `M${a} ${y}C${a} ${top},${b} ${top},${b} ${y}`;
}
const arc = (head, d, w, most) => svg("path", { d, fill: "none", stroke: "var(--w)",
"data-sym": "w", "stroke-width": 0.8 + 6 * w, opacity: most ? 0.4 + 0.6 * w : 0.25,
"stroke-dasharray": off.has(nameOf(head)) ? "3 5" : "none" });
const top = (row) => row.indexOf(Math.max(...row));
function arcsOf(head, rows, from, way) {
const most = top(rows[from]);
return rows[from].flatMap((w, j) =>
(w > 0.02 ? [arc(head, bow(from, j, way), w, j === most)] : []));
}
function copyOf(found) {
const copies = !off.has(nameOf(inducing)) && chosen >= period && now.reads[chosen][found] > 0.3
&& [ids[found], ids[chosen - period + 1]].every((id) => id === now.best[chosen]);
if (!copies) return [];
const [x, y] = [middle(found) + cell * 0.3, low + 1];
const [u, v] = [middle(chosen), ground - tall * Math.max(...now.shares[chosen]) - 21];
const green = { "data-sym": "v", fill: "none", stroke: "var(--v)", "stroke-width": 2.5 };
const d = `M${x} ${y}V${bend - 10}Q${x} ${bend} ${x + 10} ${bend}H${u - 10}`
+ `Q${u} ${bend} ${u} ${bend + 10}V${v}m-5 -8l5 8l5 -8`;
const says = text((x + u) / 2, bend - 6, "copied", "font-size: 13px; font-weight: 600");
return [svg("path", { ...green, d, "stroke-linejoin": "round" }),
set(says, { "data-sym": "v", class: "halo" })];
}
function drawArcs() {
const found = top(now.reads[chosen]);
arcs.replaceChildren(...arcsOf(inducing, now.reads, chosen, -1),
...arcsOf(previous, now.before, found, 1), ...copyOf(found));
const told = matchOf(found);
columns.forEach((column, i) => {
showLetter(column, i, found, told);
showNext(column, i);
});
}
function nameArcs() {
const found = top(now.reads[chosen]);
const ends = [[chosen, found], [found, top(now.before[found])]];
both.forEach((node, i) => {
const half = 4.6 * node.textContent.length + 24;
const x = (middle(ends[i][0]) + middle(ends[i][1])) / 2;
node.style.left = `${clamp(x, half, width - half).toFixed(1)}px`;
});
}
function matchOf(found) {
const told = top(now.before[found]);
const tells = !off.has(nameOf(previous)) && told !== chosen && now.before[found][told] > 0.3;
return tells && ids[told] === ids[chosen] ? told : -1;
}
const rose = (there, width) =>
({ stroke: there ? "var(--rose)" : "none", "stroke-width": width });
const written = (large, bold = large) =>
`font-size: ${large ? 17 : 14}px; font-weight: ${bold ? 700 : 400}`;
function showNext({ bar, share, mark, next }, i) {
const p = Math.max(...now.shares[i]);
const at = clamp(middle(i), 24, width - 24);
const pale = now.right[i] ? 0.5 : 0.2;
set(bar, { y: ground - tall * p, height: tall * p, "fill-opacity": i === chosen ? 1 : pale });
set(share, { x: at, y: ground - tall * p - 4, class: "halo" });
share.textContent = i === chosen ? percent(p) : "";
next.textContent = names[now.best[i]];
set(next, { opacity: i < period && i !== chosen ? 0.75 : 1,
style: written(i === chosen, now.right[i]) });
set(mark, rose(i === chosen, 2.5));
}
function showLetter({ letter, box }, i, found, told) {
letter.textContent = names[ids[i]];
set(letter, { style: written([chosen, found, told].includes(i)) });
const [fill, shade] = i === found ? ["var(--w)", 0.12 + 0.28 * now.reads[chosen][i]]
: ["var(--neutral)", i < period ? 0.1 : 0.22];
set(box, { fill, "fill-opacity": shade,
...(i === chosen ? rose(true, 2.5) : rose(i === told, 1.5)) });
}

const quoted = (i) => `“${names[ids[i]]}”`;
const placed = (i, weight) => `${quoted(i)}, position ${i} (${percent(weight)})`;
function reading() {
const found = top(now.reads[chosen]);
const told = top(now.before[found]);
const parts = [
[inducing, "the induction head", placed(found, now.reads[chosen][found])],
[previous, "there the previous-token head", placed(told, now.before[found][told])],
].map(([head, who, what]) =>
`${who} ${off.has(nameOf(head)) ? "is off" : `attends to ${what}`}`);
return `at ${quoted(chosen)}, position ${chosen}, ${parts.join("; ")}`;
}
function verdict() {
const best = `after ${quoted(chosen)} it expects “${names[now.best[chosen]]}”`;
if (chosen < period) return `${quoted(chosen)} occurs for the first time`;
if (chosen === n - 1) return best;
return `${best}, ${now.right[chosen] ? "which is right" : `not ${quoted(chosen + 1)}`}`;
}
function explain() {
const right = sum(now.right.map(Number));
say(`After ${plural(steps[step], "step")}${switched()}, the model predicts `
+ `${right} of ${period - 1} repeated letters; ${verdict()}.${greek()}`);
}
function greek() {
return now.best.some((id) => id >= 26) ? " The Greek letters are tokens, too." : "";
}
function switched() {
if (!off.size) return "";
return `, with ${off.size === 1 ? "one head" : `${off.size} heads`} off`;
}
function show() {
compute();
look();
}
function look() {
nameArcs();
paint();
}
function paint() {
drawArcs();
explain();
set(row, { "aria-valuenow": chosen, "aria-valuetext": `${chosen}: ${names[ids[chosen]]}` });
set(root, {
"aria-label": `The letters ${ids.map((id) => names[id]).join(" ")}; ${reading()}` });
}

function choose(i) {
if (i === chosen) return;
chosen = i;
look();
}
function shuffle() {
const order = Array.from({ length: 26 }, (_, id) => [Math.random(), id]);
order.sort(([a], [b]) => a - b);
const letters = order.slice(0, period).map(([, id]) => id);
ids = [...letters, ...letters];
show();
}
function go(i) {
step = i;
show();
}
const last = steps.length - 1;
const at = slider("Training step", { min: 0, max: last, step: 1, value: step,
text: (i) => grouped(steps[i]),
input: (i) => {
play.stop();
go(i);
} });
const play = player({ at: () => step, last: () => last, go: (i) => {
at.move(i);
go(i);
} });
function knobOf() {
const dot = el("span", { style: "display: block; width: 6px; height: 6px; "
+ "border-radius: 50%" });
const node = el("span", { "aria-hidden": true, style: "flex: none; width: 22px; "
+ "margin-right: 6px; padding: 2px; border: 1.5px solid var(--control); "
+ "border-radius: 7px; box-sizing: border-box" }, dot);
function turn(on) {
node.style.background = `var(--${on ? "control" : "paper"})`;
dot.style.background = `var(--${on ? "paper" : "control"})`;
dot.style.marginLeft = on ? "10px" : "0";
}
turn(true);
return { node, turn };
}
function switchOf([block, head], text, name = "", looks = "") {
const key = nameOf([block, head]);
const knob = name && knobOf();
const node = toggle(text, true, (on) => {
if (on) off.delete(key);
else off.add(key);
if (knob) knob.turn(on);
node.style.textDecoration = on ? "" : "line-through";
compute();
paint();
});
if (knob) node.replaceChildren(knob.node, text);
const says = `Block ${block}, head ${head}${name}`;
return set(node, { style: looks, class: "moves", "aria-label": says });
}
const small = "position: absolute; font-size: 13px; white-space: nowrap; "
+ "transform: translateX(-50%); ";
const named = (head, name, y) => switchOf(head, name, `: ${name}`, `${small}top: ${y}px; `);
const both = [named(inducing, "Induction head", 0),
named(previous, "Previous-token head", bend + 8)];
const unnamed = ([block, head]) =>
![inducing, previous].some(([l, h]) => l === block && h === head);
function rowOf(block) {
const rest = Array.from({ length: heads }, (_, head) => [block, head]).filter(unnamed);
return el("div", { class: "row", style: "gap: 4px; margin: 0" },
el("span", { style: "margin-right: 4px" }, `Block ${block}`),
...rest.map((head) => switchOf(head, `${head[1]}`)));
}
const steered = (...nodes) =>
el("div", { class: "row steered", style: "min-width: 0" }, ...nodes);
const rows = { class: "beside", style: "gap: 4px 32px" };
set(said, { style: `min-height: ${wide ? 2.8 : 5.6}em; margin-top: 4px` });
view.append(
el("div", { class: "row" }, steered(play.node, at), button("Other letters", shuffle)),
el("div", { style: "position: relative; margin-top: 12px; overflow-x: clip" }, root, ...both),
said,
more(el("div", rows, el("span", {}, "The other heads:"), ...blocks.map(rowOf))));
show();
expose(() => ({ ids, step: steps[step], chosen, off: [...off], ...now }));
}
for (const figure of document.querySelectorAll("figure[data-drawing=induction]")) begin(figure, draw);
})();
