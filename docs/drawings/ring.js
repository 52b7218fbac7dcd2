(() => {
function draw(stage) {
const { view, viewWidth, data, el, svg, set, sum, grouped, plural, listed } = stage;
const { said, say, choices, toggle, slider, player, motion, hatch, expose } = stage;
const { tokens, world, bytes } = data;
const phone = viewWidth < 600, broad = viewWidth > 900;
const n = tokens.length;
const all = [...tokens.keys()];
const ranks = [...Array(world).keys()];
const orders = ["contiguous", "zig-zag"];
let order = 0;
let causal = false;
let step = 1;
let shown = [];

const bound = (i, pieces) => Math.floor((n * i) / pieces);
function owner(i) {
const pieces = order ? 2 * world : world;
const at = [...Array(pieces).keys()].find((p) => i < bound(p + 1, pieces));
return order ? Math.min(at, pieces - 1 - at) : at;
}
const owned = (rank) => all.filter((i) => owner(i) === rank);
const held = (rank, at = step) => (rank - at + world) % world;
const allowed = (i, j) => !causal || j <= i;
const stepOf = (i, j) => (owner(i) - owner(j) + world) % world;
function runs(list) {
const found = [];
for (const i of list) {
const last = found.at(-1);
if (last && last[1] === i - 1) last[1] = i;
else found.push([i, i]);
}
return found;
}
const computed = (i, at) => all.filter((j) => stepOf(i, j) === at && allowed(i, j)).length;
const pairs = (rank, at) => sum(owned(rank).map((i) => computed(i, at)));
const upTo = (rank) => sum(ranks.slice(0, step + 1).map((at) => pairs(rank, at)));
const count = (rank) => owned(rank).length;
const passed = (rank) => ranks.slice(0, step).map((at) => count(held(rank, at)));
const sent = (rank) => sum(passed(rank));

const unit = phone ? 12 : 21;
const small = "font-size: 12px", bold = "font-size: 13px; font-weight: 600";
const left = 78, high = 24;
const wide = left + n * unit + 2, low = high + n * unit + 3;
const says = "Query–key pairs: a row for each query, a column for each key. "
+ "Each rank’s block is framed.";
const root = svg("svg", { width: wide, height: low, viewBox: `0 0 ${wide} ${low}`, role: "img",
"aria-label": says, style: "flex: none" });
const columnAt = (j) => left + j * unit, rowAt = (i) => high + i * unit;
const cells = all.map((i) => all.map((j) => svg("rect", {
x: columnAt(j), y: rowAt(i), width: unit, height: unit, stroke: "var(--faint)",
class: "moves" })));
const forbidden = hatch("ring-forbidden");
const owners = svg("g", {}), frames = svg("g", {});
root.append(forbidden.node, ...cells.flat(), owners, frames);
function ownersOf(rank) {
return runs(owned(rank)).flatMap(([a, b]) => {
const middle = (a + b + 1) / 2;
const query = svg("text", { x: left - 8, y: rowAt(middle) + 5, "text-anchor": "end",
"data-sym": "q", style: bold }, `queries ${rank}`);
const key = svg("text", { x: columnAt(middle), y: high - 8, "text-anchor": "middle",
"data-sym": "k", style: bold }, order || phone ? `${rank}` : `keys ${rank}`);
const edge = `M${left} ${rowAt(a)}H${columnAt(n)}M${columnAt(a)} ${high}V${rowAt(n)}`;
return [query, key, svg("path", { d: edge, stroke: "var(--soft)", fill: "none" })];
});
}
function showOwners() {
const corner = svg("text", { x: left - 8, y: high - 8, "text-anchor": "end",
"data-sym": "k", style: bold }, order || phone ? "keys" : "");
owners.replaceChildren(corner, ...ranks.flatMap(ownersOf));
}

const size = phone ? 224 : broad ? 300 : 250;
const middle = size / 2, near = phone ? 37 : broad ? 42 : 38, far = middle - near - 2;
const onRing = (a) => [middle + far * Math.cos(a), middle + far * Math.sin(a)];
const angle = (r) => (2 * Math.PI * r) / world - Math.PI / 2;
const circle = svg("svg", {
width: size, height: size, viewBox: `0 0 ${size} ${size}`, role: "img",
"aria-label": "A ring of ranks. Each sends the keys and values that it holds to the next." });
const way = (r) => {
const a = angle(r + 0.5);
const turn = Math.PI / world - (near + 7) / far;
const [x, y] = onRing(a - turn);
const [u, v] = onRing(a + turn);
const back = a + turn + Math.PI / 2 - 0.25;
const tip = (by) => `L${u - 9 * Math.cos(back + by)} ${v - 9 * Math.sin(back + by)}M${u} ${v}`;
const d = `M${x} ${y}A${far} ${far} 0 0 1 ${u} ${v}${tip(0.5)}${tip(-0.5)}`;
return svg("path", { d, fill: "none", stroke: "var(--k)", "stroke-width": 2.5 });
};
const arrows = ranks.map(way);
const grey = "color-mix(in srgb, var(--neutral) 30%, var(--paper))";
const nodes = ranks.map((r) => {
const [x, y] = onRing(angle(r));
const place = svg("circle", { cx: x, cy: y, r: near, stroke: "var(--soft)",
"stroke-width": 1.5, class: "moves" });
const queries = svg("text", { x, y: y + 1, "text-anchor": "middle" });
const node = svg("g", {}, place,
svg("text", { x, y: y - 14, "text-anchor": "middle", style: bold }, `rank ${r}`), queries);
return { node, place, queries };
});
function showNode({ place, queries }, r) {
const works = pairs(r, step) > 0;
set(place, { fill: works ? "var(--paper)" : grey });
set(queries, { "data-sym": works ? "q" : null, style: works ? small : bold });
queries.textContent = works ? `queries ${r}` : "waits";
}
const chipOf = (o) => svg("g", { "data-sym": "k" },
svg("rect", { x: -25, y: -9, width: 50, height: 18, rx: 9, stroke: "var(--k)",
fill: "color-mix(in srgb, var(--k) 22%, var(--paper))", "stroke-width": 1.5 }),
svg("text", { y: 4, "text-anchor": "middle", style: `${small}; font-weight: 600` },
`keys ${o}`));
const chips = ranks.map(chipOf);
circle.append(...arrows, ...nodes.map(({ node }) => node), ...chips);
const moved = motion(), dock = 18;
const docked = (rank) => onRing(angle(rank)).map((z, i) => z + (i ? dock : 0));
function passing(rank) {
const a = angle(rank);
return [Math.cos(a), Math.sin(a)].map((z) => middle + 1.25 * far * z);
}
function placeOf(from, to, t) {
if (t < 0.12) return [docked(from), 1 - t / 0.12];
if (t > 0.88) return [docked(to), 1 - (1 - t) / 0.12];
const along = (t - 0.12) / 0.76;
const rank = (from + to) / 2 + Math.sign(to - from) * 0.16 * (along - 0.5);
return [passing(rank), Math.min(1, 6 * along, 6 - 6 * along)];
}
function carry(from, to) {
moved(from === to ? 0 : 1000, (t) => chips.forEach((chip, o) => {
const [[x, y], seen] = placeOf(o + from, o + to, t);
set(chip, { transform: `translate(${x.toFixed(1)} ${y.toFixed(1)})`,
opacity: t < 1 ? seen.toFixed(2) : null });
}));
}

const room = phone ? viewWidth - size - 8 : broad ? 196 : size;
const tall = broad ? n * unit / world : phone ? 39 : 41, thick = broad ? 24 : 15;
const first = broad ? high + tall / 2 - 21 : 22;
const full = Math.min(150, room - 28);
const foot = broad ? low - 12 : first + tall * world;
const work = svg("svg", { width: room, height: foot + 12,
viewBox: `0 0 ${room} ${foot + 12}`, "aria-hidden": true });
const write = (x, y, text, style = "") =>
svg("text", { x, y, style: `${small}; ${style}` }, text);
const bars = ranks.map((r) => {
const y = first + tall * r;
const bar = { y: y + 18, height: thick, rx: 2, class: "moves" };
const done = svg("rect", { ...bar, x: 0, fill: "var(--faint)" });
const now = svg("rect", { ...bar, fill: "var(--neutral)", "fill-opacity": 0.55,
stroke: "var(--rose)", "stroke-width": 2 });
const count = write(48, y + 13, "");
work.append(write(0, y + 13, `rank ${r}`, "font-weight: 600"), count, done, now);
return { done, now, count };
});
work.append(write(0, 12, "pairs so far", "fill: var(--soft)"));
const goal = svg("path", { stroke: "var(--soft)", "stroke-width": 1.5,
"stroke-dasharray": "4 3" });
const fair = write(0, foot + 8, "", "fill: var(--soft)");
work.append(goal, fair);
function showFair(long) {
const equal = sum(all.map((i) => all.filter((j) => allowed(i, j)).length)) / world;
const across = ranks.map((r) => `M${1 + long(equal)} ${first + 18 + tall * r}v${thick}`);
set(goal, { d: `${across.join("")}V${foot - 6}` });
fair.textContent = `equal work: ${grouped(equal)}`;
const half = 3.7 * fair.textContent.length;
set(fair, { x: Math.max(half, Math.min(room - half, 1 + long(equal))),
"text-anchor": "middle" });
}
function showWork() {
const most = (n * n) / world;
showFair((x) => (full * x) / most);
ranks.forEach((r) => {
const { done, now, count } = bars[r];
const fresh = pairs(r, step);
const all = upTo(r);
const long = (x) => (full * x) / most;
const end = 1 + long(all);
set(done, { x: 1, width: long(all - fresh) });
set(now, { x: end - long(fresh), width: long(fresh), opacity: fresh ? 1 : 0 });
count.textContent = plural(all, "pair");
});
}

const kib = (count) => grouped((count * bytes) / 1024);
const inside = [-2, 14].map((by) => svg("text", { x: middle, y: middle + by,
"text-anchor": "middle", style: small }));
circle.append(...inside);
function showSent() {
const each = ranks.map(sent);
const [least, most] = [Math.min(...each), Math.max(...each)];
inside[0].textContent = "each sent";
inside[1].textContent = `${least < most ? `${kib(least)}–` : ""}${kib(most)} KiB`;
}

const steps = slider("Step", {
min: 1, max: world, step: 1, value: step + 1, text: (x) => `${x} of ${world}`,
input: (to) => { play.stop(); go(to - 1); } });
function go(to) {
const from = step;
step = to;
steps.move(to + 1, world);
show();
carry(from, to);
}
const play = player({ at: () => step, last: () => world - 1, ms: () => 1700, go });
function again(change) {
play.stop();
change();
show();
}

function fillOf(i, j) {
const at = stepOf(i, j);
if (!allowed(i, j)) return forbidden.fill;
if (at > step) return "none";
return at < step ? "var(--faint)" : "color-mix(in srgb, var(--neutral) 55%, transparent)";
}
const showCell = (i, j) => set(cells[i][j], { fill: fillOf(i, j) });
function framesOf(rank) {
const framed = ([a, b], [c, d]) => ({ x: columnAt(c), y: rowAt(a),
width: unit * (d - c + 1), height: unit * (b - a + 1) });
const queries = runs(owned(rank)), keys = runs(owned(held(rank)));
return queries.flatMap((own) =>
keys.filter(([first]) => allowed(own[1], first)).map((theirs) => framed(own, theirs)));
}
const look = { fill: "none", stroke: "var(--rose)", "stroke-width": 2.5, rx: 2 };
const fade = motion();
function change(before, after) {
const [old, now] = [before, after].map((places) =>
svg("g", {}, ...places.map((place) => svg("rect", { ...look, ...place }))));
frames.replaceChildren(old, now);
fade(700, (t) => {
set(old, { opacity: Math.max(0, 1 - 1.6 * t).toFixed(2) });
set(now, { opacity: Math.max(0, 1.6 * t - 0.6).toFixed(2) });
}).then((done) => { if (done) old.remove(); });
}
function tell() {
const now = ranks.map((r) => pairs(r, step)), done = ranks.map(upTo);
const most = Math.max(...now), worst = Math.max(...done);
const idle = ranks.filter((r) => !now[r]);
const equal = now.every((x) => x === most);
const work = equal ? `each rank computes ${plural(most, "pair")}`
: `the ranks compute ${now.join(", ")} pairs`;
const [who, wait] = idle.length === 1 ? ["Rank", "waits"] : ["Ranks", "wait"];
const waits = idle.length ? ` ${who} ${listed(idle, String)} ${wait}.` : "";
const end = ` Done: ${plural(sum(done), "pair")}, at most ${grouped(worst)} on one rank.`;
say(`Step ${step + 1}: ${work}.${step === world - 1 ? end : waits}`);
}
function show() {
for (const i of all) for (const j of all) showCell(i, j);
showOwners();
const before = shown;
shown = ranks.flatMap(framesOf);
change(before, shown);
const opacity = step < world - 1 ? 1 : 0.3;
arrows.forEach((arrow) => set(arrow, { opacity }));
nodes.forEach(showNode);
showWork();
showSent();
tell();
}

steps.querySelector("input").style.width = "min(12rem, 0.3 * var(--window))";
const group = choices("Order", orders, order, (i) => again(() => { order = i; }));
const mask = toggle("causal mask", false, (on) => again(() => { causal = on; }));
const pair = (...parts) => el("div", { class: "row", style: "margin: 0" }, ...parts);
const turning = el("div", { class: phone ? "beside" : "", style: "margin: 0; gap: 8px" }, circle,
...(broad ? [] : [work]));
view.append(
el("div", { class: "row", style: "gap: 0.4rem 2rem; margin-top: 0" },
pair(play.node, steps), pair(group, mask)),
el("div", { class: "beside", style: "gap: 0.5rem 1.5rem; margin: 0; "
+ `align-items: ${broad ? "center" : "flex-start"}` },
turning, root, ...(broad ? [work] : [])),
set(said, { style: `min-height: ${phone ? 2.8 : 1.4}em` }));
show();
carry(step, step);
expose(() => ({
step, order: orders[order], causal, owned: ranks.map(owned), held: ranks.map((r) => held(r)),
pairs: ranks.map((r) => ranks.map((at) => pairs(r, at))),
sent: ranks.map((r) => sent(r) * bytes),
}));
}
for (const figure of document.querySelectorAll("figure[data-drawing=ring]")) begin(figure, draw);
})();
