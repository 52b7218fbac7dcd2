(() => {
function draw(stage) {
const { view, viewWidth, data, el, svg, set, sum, grouped, plural, listed, said, say } = stage;
const { button, motion, expose, keep } = stage;
const { n_blocks, size, n_max, prompt, sequences } = data;
const letters = [..."ABCDEF"];
const rows = [...letters.keys()];
const seqs = rows.map((r) => sequences[r] ?? null);
const free = [...data.free];
const room = n_blocks * size;
const upTo = (n) => [...Array(n).keys()];
let chosen = Math.max(0, sequences.length - 1);
let fresh = new Set();

const live = () => rows.filter((r) => seqs[r]);
const users = (block) => live().filter((r) => seqs[r].table.includes(block));
const take = () => free.pop();
function release(block) {
if (!users(block).length) free.push(block);
}
const begun = (seq) => seq.n % size !== 0;
function copied(seq) {
const old = seq.table.at(-1);
if (!begun(seq) || users(old).length < 2) return null;
const copy = take();
seq.table[seq.table.length - 1] = copy;
return [old, copy];
}
const needs = (seq) => (begun(seq) ? +(users(seq.table.at(-1)).length > 1) : 1);
function append(seq) {
const copy = copied(seq);
if (!begun(seq)) seq.table.push(take());
fresh.add(`${seq.table.at(-1)} ${seq.n % size}`);
seq.n += 1;
return copy;
}

const tokens = () => sum(live().map((r) => seqs[r].n));
const within = (r, block) => seqs[r].n - size * seqs[r].table.indexOf(block);
const filled = (block) =>
Math.max(0, ...users(block).map((r) => Math.min(size, within(r, block))));
const inBlocks = () => ({
taken: sum(upTo(n_blocks).map(filled)),
reserved: size * (n_blocks - free.length),
});
const placed = () => live().slice(0, Math.floor(room / n_max));
const inBuffers = () => ({
taken: sum(placed().map((r) => seqs[r].n)),
reserved: n_max * placed().length,
});

const phone = viewWidth < 600;
const between = phone ? 0 : 24;
const pitch = Math.min(30, ((viewWidth + between) / (phone ? 1 : 2) - between) / n_blocks);
const high = phone ? 22 : 26, head = 20, foot = 26;
const across = n_blocks * pitch, base = head + size * high, tall = base + foot;
const centre = (block) => (block + 0.5) * pitch;
const text = (x, y, says, more = {}) =>
svg("text", { x, y, "text-anchor": "middle", style: "font-size: 13px", ...more }, says);
const soft = "font-size: 13px; fill: var(--soft)", bold = "font-size: 13px; font-weight: 700";
const square = (block, slot) => ({ x: (block * pitch + 1).toFixed(1),
y: head + slot * high + 1, width: (pitch - 2).toFixed(1), height: high - 2, rx: 4 });
function cellOf(block, slot) {
const box = svg("rect", { ...square(block, slot), class: "moves" });
return { box, who: text(centre(block), head + slot * high + high / 2 + 5, "") };
}
function boardOf(label) {
const cells = upTo(n_blocks).map((b) => upTo(size).map((slot) => cellOf(b, slot)));
const root = svg("svg", { width: across, height: tall, viewBox: `0 0 ${across} ${tall}`,
role: "img", style: "height: auto", "aria-label": label },
...cells.flat().flatMap(({ box, who }) => [box, who]));
const count = el("b", { style: "font-size: 24px; line-height: 28px" });
const of = el("span", { style: "font-size: 13px" });
return { cells, root, count, of, node: el("div", { style: "min-width: 0" },
el("div", { style: "white-space: nowrap" }, count, of), root) };
}
const paged = boardOf("The memory in blocks; a letter says whose token is in a slot");
const buffered = boardOf("The same memory with a buffer for each sequence");
function paint({ box, who }, of, { reserved, isNew = false }) {
const mine = of.includes(chosen);
const hue = `var(--${mine ? "rose" : "neutral"})`;
const empty = reserved && !of.length;
set(box, {
fill: of.length ? hue : "none",
"fill-opacity": mine ? 0.4 : 0.25,
"stroke-dasharray": empty ? "4 3" : null,
"stroke-width": isNew ? 3 : 1,
stroke: isNew ? "currentColor" : of.length ? hue : empty ? "var(--soft)" : "var(--faint)",
});
who.textContent = of.length > 2 ? `×${of.length}` : of.map((r) => letters[r]).join("");
}
function showCount({ count, of }, { taken, reserved }, where) {
count.textContent = `${grouped(reserved - taken)} empty`;
of.textContent = ` of ${plural(reserved, "slot")} ${where}`;
}

const numbers = upTo(n_blocks).map((b) => text(centre(b), 14, b));
const way = svg("path", { fill: "none", stroke: "var(--rose)", "stroke-width": 2 });
const stops = svg("g", { fill: "var(--rose)" });
const marked = { fill: "none", stroke: "currentColor", "stroke-width": 3 };
const ghost = svg("g", { visibility: "hidden" },
...upTo(size).map((slot) => svg("rect", { ...square(0, slot), ...marked })));
paged.root.append(...numbers, way, stops, ghost);
function showWay(table) {
const y = base + 6, low = base + foot;
const hop = (to, i) => `M${centre(table[i])} ${y}C${centre(table[i])} ${low} `
+ `${centre(to)} ${low} ${centre(to)} ${y + 4}`;
set(way, { d: table.slice(1).map(hop).join("") });
const tip = (b) => svg("path", { d: `M${centre(b) - 5} ${y + 5}h10l-5 -7z` });
stops.replaceChildren(...table.map((b, i) =>
(i ? tip(b) : svg("circle", { cx: centre(b), cy: y, r: 4 }))));
}
function showPaged() {
for (const b of upTo(n_blocks)) {
const of = users(b), mine = of.includes(chosen);
paged.cells[b].forEach((cell, slot) => paint(cell, of.filter((r) => within(r, b) > slot),
{ reserved: of.length > 0, isNew: fresh.has(`${b} ${slot}`) }));
set(numbers[b], { style: mine ? bold : soft });
}
showWay(seqs[chosen]?.table ?? []);
showCount(paged, inBlocks(), "in blocks");
}

const most = Math.floor(room / n_max);
const heads = upTo(most).map((k) => text((k + 0.5) * n_max / size * pitch, 14, ""));
const lacking = text(across / 2, base + 20, "", { style: "font-size: 13px; font-weight: 600" });
const outside = svg("g", {}, svg("rect", { x: 1, y: base + 4, width: across - 2, height: foot - 5,
rx: 4, fill: "none", stroke: "var(--soft)", "stroke-dasharray": "4 3" }), lacking);
buffered.root.append(...heads, outside);
function showBuffered() {
const now = placed(), out = live().slice(now.length);
buffered.cells.flat().forEach((cell, i) => {
const r = now[Math.floor(i / n_max)];
const is = r !== undefined && i % n_max < seqs[r].n;
paint(cell, is ? [r] : [], { reserved: r !== undefined });
});
heads.forEach((one, k) => {
one.textContent = k < now.length ? `buffer of ${letters[now[k]]}` : "";
set(one, { style: now[k] === chosen ? bold : soft });
});
lacking.textContent = out.length ? `no room for ${listed(out, (r) => letters[r])}` : "";
set(outside, { visibility: out.length ? null : "hidden" });
showCount(buffered, inBuffers(), "in buffers");
}

const group = `seat-${Math.random()}`;
function choose(r) {
chosen = r;
fresh = new Set();
show();
tell("");
}
const pickOf = (r) => el("input", {
type: "radio",
name: group,
value: r,
checked: r === chosen,
"aria-label": `sequence ${letters[r]}`,
...keep,
onchange: () => choose(r),
});
const inLine = "white-space: nowrap; font-variant-numeric: tabular-nums; font-size: 13px";
function rowOf(r) {
const pick = pickOf(r);
const table = el("span");
const name = el("label", { class: "choice" }, pick, letters[r]);
const row = el("div", { style: "display: flex; align-items: center; gap: 8px" }, name, table);
return { pick, table, row };
}
const parts = rows.map(rowOf);
const evenly = phone ? "repeat(2, minmax(0, 1fr))"
: `repeat(${rows.length}, minmax(max-content, 1fr))`;
const list = el("div", { role: "group", "aria-label": "The sequences and their block tables",
style: `grid-column: 1 / -1; display: grid; gap: 2px 8px; grid-template-columns: ${evenly}` },
el("span", { style: `grid-column: 1 / -1; ${inLine}; color: var(--soft)` }, "block tables"),
...parts.map(({ row }) => row));
function showRow(r) {
const { table, pick, row } = parts[r];
const seq = seqs[r];
table.textContent = seq ? seq.table.join("\u2009·\u2009") : "";
set(table, { style: `${inLine}${r === chosen && seq ? "; font-weight: 700" : ""}` });
set(pick, { disabled: !seq });
row.style.visibility = seq ? "" : "hidden";
row.style.order = seq ? r : r + rows.length;
pick.checked = r === chosen;
}

const are = (n) => (n === 1 ? "is" : "are");
function tell(what) {
const shared = tokens() - inBlocks().taken;
const both = shared ? `${plural(shared, "token")} ${are(shared)} shared.` : "";
say(what || both);
}
const fly = motion();
function carry(copies) {
if (!copies.length) return;
const [from, to] = copies.at(-1);
set(ghost, { visibility: "visible" });
fly(500, (t) => set(ghost, {
transform: `translate(${(pitch * (from + (to - from) * t)).toFixed(1)} 0)`,
visibility: t < 1 ? "visible" : "hidden",
}));
}
function act(change) {
fresh = new Set();
const what = change();
show();
tell(what);
}
function nextToken() {
const copies = [];
const waiting = [];
const full = [];
for (const r of live()) {
if (seqs[r].n === n_max) full.push(letters[r]);
else if (needs(seqs[r]) > free.length) waiting.push(letters[r]);
else copies.push([letters[r], append(seqs[r])]);
}
const made = copies.filter(([, copy]) => copy);
carry(made.map(([, copy]) => copy));
const who = made.map(([who]) => who).join(", ");
const [from, to] = made[0]?.[1] ?? [];
const written = made.length > 1 ? `${who} get copies of a block that was shared.`
: `Block ${from} was shared: ${who} gets a copy, block ${to}.`;
return [
`${plural(copies.length, "sequence")} got a token.`,
...(made.length ? [written] : []),
...(waiting.length ? [`No block is free: ${waiting.join(", ")} must wait.`] : []),
...(full.length ? [`${full.join(", ")} is at ${n_max} tokens.`] : []),
].join(" ");
}
const place = () => rows.find((r) => !seqs[r]);
const noPlace = "The list has no place for a seventh sequence.";
const noChoice = "Choose a sequence first.";
const freeBlocks = (n) => `${plural(n, "block")} ${are(n)} free`;
const blocksOf = (list) =>
`block${list.length > 1 ? "s" : ""} ${listed([...list].sort((a, b) => a - b), String)}`;
function arrive() {
const r = place();
const blocks = Math.ceil(prompt / size);
if (r === undefined) return noPlace;
if (blocks > free.length) {
const wanted = `A prompt of ${prompt} tokens needs ${blocks} blocks`;
return `${wanted}, and ${freeBlocks(free.length)}: it must wait.`;
}
seqs[r] = { table: [], n: 0 };
for (let i = 0; i < prompt; i++) append(seqs[r]);
chosen = r;
return `${letters[r]} arrives with a prompt of ${prompt} tokens.`;
}
function fork() {
const r = place();
const from = seqs[chosen];
if (!from) return noChoice;
if (r === undefined) return noPlace;
seqs[r] = { table: [...from.table], n: from.n };
const what = `${letters[r]} continues ${letters[chosen]}`;
chosen = r;
return `${what}: nothing is copied, both tables are the same.`;
}
function end() {
const seq = seqs[chosen];
const who = letters[chosen];
if (!seq) return noChoice;
seqs[chosen] = null;
seq.table.forEach(release);
chosen = live()[0] ?? 0;
return `${who} has ended: ${left(seq.table)}.`;
}
function left(table) {
const shared = table.filter((block) => users(block).length);
const freed = table.filter((block) => !users(block).length);
const by = rows.filter((r) => shared.some((block) => users(block).includes(r)));
return [
...(freed.length ? [`${blocksOf(freed)} ${are(freed.length)} free again`] : []),
...(by.length ? [`${listed(by, (r) => letters[r])} still `
+ `${by.length > 1 ? "use" : "uses"} ${blocksOf(shared)}`] : []),
].join("; ");
}

function show() {
showPaged();
showBuffered();
rows.forEach(showRow);
const who = seqs[chosen] ? ` ${letters[chosen]}` : "";
acts[2].textContent = `Fork${who}`;
acts[3].textContent = `End${who}`;
}
const acts = [
button("Next token", () => act(nextToken)),
button("New sequence", () => act(arrive)),
button("Fork", () => act(fork)),
button("End", () => act(end)),
];
const slim = `justify-content: center; white-space: nowrap; font-size: ${phone ? 13 : 14}px; `
+ `padding-inline: ${phone ? 4 : 11}px`;
acts.forEach((one, i) => set(one,
{ style: i < 2 ? `${slim}; flex: 0 1 auto` : `${slim}; width: ${phone ? 56 : 72}px` }));
const pressed = el("div", { class: "row", style: "gap: 6px; margin: 0; flex-wrap: nowrap" },
...acts);
set(said, { style: `min-height: ${phone ? 4.2 : 2.8}em; max-width: none; margin: 0` });
const columns = phone ? "minmax(0, 1fr)" : `${across}px minmax(0, 1fr)`;
const places = `display: grid; gap: 8px ${between}px; grid-template-columns: ${columns}`;
const narrowed = "overflow: clip; overflow-clip-margin: 4px"; // a page that becomes narrow
view.append(el("div", { style: `display: grid; gap: 8px; ${narrowed}` }, pressed,
el("div", { style: places }, paged.node, buffered.node, list), said));
show();
tell("");
expose(() => ({
chosen,
tables: rows.map((r) => seqs[r]?.table ?? null),
lengths: rows.map((r) => seqs[r]?.n ?? null),
free: [...free],
counts: upTo(n_blocks).map((b) => users(b).length),
blocks: inBlocks(),
buffers: inBuffers(),
}));
}
for (const figure of document.querySelectorAll("figure[data-drawing=seat_map]")) begin(figure, draw);
})();
