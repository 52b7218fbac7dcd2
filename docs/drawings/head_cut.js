(() => {
function draw(stage) {
const { view, viewWidth, data, el, svg, set, number, clamp } = stage;
const { said, say, choices, onkeys, expose, keep } = stage;
const { x, heads } = data;
const n = x.length;
const width = x[0].length;
const part = width / heads;
const hues = ["#2a9d9d", "#b59a1c", "#7d8aa5", "#a8714f"];
const paint = (h, share = 34) =>
`color-mix(in srgb, ${hues[h % hues.length]} ${share}%, var(--paper))`;

const flat = x.flat();
const times = (count, f) => Array.from({ length: count }, (_, i) => f(i));
const shaped = (list, a, b, c) =>
times(a, (i) => times(b, (j) => list.slice((i * b + j) * c, (i * b + j + 1) * c)));
const swapped = (t) => t[0].map((_, j) => t.map((_, i) => t[i][j]));
const cut = shaped(flat, n, heads, part);
const right = swapped(cut);
const wrong = shaped(flat, heads, n, part);
function where(split, m) {
for (let h = 0; h < heads; h++) {
for (let i = 0; i < n; i++) {
const j = split[h][i].indexOf(m);
if (j >= 0) return [h, i, j];
}
}
}
const order = [...flat.keys()];
const found = {
right: swapped(shaped(order, n, heads, part)),
wrong: shaped(order, heads, n, part),
};

const phone = viewWidth < 600;
const kinds = { given: "The vectors", right: "Split, then transpose",
wrong: "The final shape at once" };
const tokenOf = (m) => Math.floor(m / width);
const headOf = (m) => Math.floor((m % width) / part);
let step = 2;
let lit = Math.floor(width / heads) + width * (n - 1);
const stackedAt = { given: Infinity, right: 2, wrong: 1 };
const stacked = (kind, at = step) => at >= stackedAt[kind];
const named = { given: 54, right: 54, wrong: phone ? 0 : 54 };
const between = phone ? 4 : 8;
const seams = { given: 0, right: between * (heads - 1), wrong: 0 };
const spare = viewWidth - named.right - named.wrong - seams.right;
const wide = Math.min(30, Math.floor((spare - (phone ? 12 : 32 + named.given)) / width
/ (phone ? 2 : 2.8)));
const wideOf = { given: phone ? 30 : Math.floor(0.8 * wide), right: wide, wrong: wide };
const high = phone ? 26 : 30;
const title = 26;
const tall = title + n * high;
const topOf = (kind) => (kind === "given" && phone ? 0
: Math.floor((heads - 1) / 2) * tall + title);
const rowOf = (kind, i) => topOf(kind) + i * high;
function place(kind, m, at = step) {
const [margin, each] = [named[kind], wideOf[kind]];
if (stacked(kind, at)) {
const [h, token, j] = where(found[kind], m);
return [margin + j * each, h * tall + title + token * high];
}
const moved = at && kind !== "given" ? headOf(m) * between : 0;
return [margin + (m % width) * each + moved, rowOf(kind, tokenOf(m))];
}
const before = (kind) => Math.max(0, Math.min(step, stackedAt[kind]) - 1);

const arrows = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -width, ArrowDown: width };
function numbers() {
const cells = flat.map((x, m) => el("div", {
role: "option", class: "moves", ...keep,
onclick: () => light(m), onfocus: () => light(m), onpointerenter: () => light(m),
onkeydown: onkeys(arrows, (by) => cells[m + by]?.focus()) }, number(x, 0)));
return cells;
}
const ofLabel = "position: absolute; left: 0; font-size: 13px; white-space: nowrap";
const label = () =>
el("span", { "aria-hidden": true, style: `${ofLabel}; line-height: ${high}px` });
const sign = (_, h) => set(label(), { class: "moves", style: `${ofLabel}; --pace: 0.4s; `
+ "transition-property: left, top; line-height: 18px; padding: 0 4px; "
+ `border-radius: 4px 4px 0 0; background: ${paint(h)}` });
const pictures = Object.entries(kinds).map(([kind, title]) => {
const cells = numbers();
const names = times(n * heads, label);
const signs = Array.from({ length: heads }, sign);
const shape = el("div", { style: "font-size: 13px; color: var(--soft); margin-bottom: 4px" });
const word = set(label(), { style: `${ofLabel}; top: ${topOf(kind) - 18}px; `
+ "line-height: 18px" }, "head");
const says = `${title}; arrow keys go from number to number`;
const list = el("div", { role: "listbox", "aria-label": says }, ...cells);
const flatOnly = kind === "given" && phone;
const size = [named[kind] + width * wideOf[kind] + seams[kind],
flatOnly ? n * high : heads * tall];
const traces = flat.map(() => el("div"));
const way = svg("path", { fill: "none", stroke: "var(--soft)", "stroke-width": 1.5 });
const ways = svg("svg", { width: size[0], height: size[1], style: "position: absolute" }, way);
const trail = el("div", { "aria-hidden": true }, ...traces, ways);
const box = el("div", { style: `position: relative; width: ${size[0]}px; `
+ `height: ${size[1]}px` }, trail, list, ...names, word, ...signs);
const node = el("div", {}, el("b", { style: "font-weight: 600" }, title), shape, box);
return { kind, cells, names, signs, shape, word, traces, way, trail, node };
});

function showNumber(kind, cell, m) {
const [x, y] = place(kind, m);
const [h, token] = kind === "given" ? [] : where(found[kind], m);
const lands = stacked(kind) ? `, lands in head ${h} as token ${token}` : "";
const ring = "font-weight: 700; box-shadow: inset 0 0 0 2px currentColor; z-index: 1";
set(cell, {
tabindex: m === lit ? 0 : -1, "aria-selected": String(m === lit),
"aria-label": `${number(flat[m], 0)}, of token ${tokenOf(m)}${lands}`,
style: `position: absolute; left: ${x}px; top: ${y}px; width: ${wideOf[kind]}px; `
+ `height: ${high}px; display: grid; place-items: center; `
+ "box-sizing: border-box; cursor: pointer; transition-property: left, top; "
+ `--pace: 0.4s; font-size: ${wideOf[kind] < 28 ? 13 : 14}px; `
+ `background: ${paint(headOf(m))}; border: 1px solid var(--faint); `
+ (m === lit ? ring : "") });
}
function showTrace(kind, trace, m) {
const [x, y] = place(kind, m, before(kind));
const ring = m === lit ? "1.5px dashed var(--soft)" : "1px dashed var(--faint)";
set(trace, { style: `position: absolute; left: ${x}px; top: ${y}px; width: ${wide}px; `
+ `height: ${high}px; box-sizing: border-box; border: ${ring}; `
+ `background: ${paint(headOf(m), 12)}` });
}
function showPast({ kind, traces, way, trail }) {
trail.style.visibility = stacked(kind) ? "visible" : "hidden";
if (!stacked(kind)) return;
traces.forEach((trace, m) => showTrace(kind, trace, m));
const ends = [place(kind, lit, before(kind)), place(kind, lit)];
set(way, { d: `M${ends.map(([x, y]) => `${x + wide / 2} ${y + high / 2}`).join("L")}` });
}
function showSigns({ kind, signs, word }) {
const apart = stacked(kind);
const seen = step && kind !== "given";
const before = phone && !apart;
word.style.visibility = seen && before ? "visible" : "hidden";
signs.forEach((sign, h) => {
const whole = kind === "given" || found[kind][h].flat().every((m) => headOf(m) === h);
const says = before ? h : `head ${h}`;
sign.textContent = apart ? `${says} ${whole ? "✓" : "✗"}` : says;
const [left, top] = apart ? [0, h * tall + title - 18]
: [h * (part * wide + between), topOf(kind) - 18];
Object.assign(sign.style, { left: `${named[kind] + left}px`, top: `${top}px`,
visibility: seen ? "visible" : "hidden" });
});
}
function showPicture(picture) {
const { kind, cells, names, shape } = picture;
const apart = stacked(kind);
showPast(picture);
showSigns(picture);
cells.forEach((cell, m) => showNumber(kind, cell, m));
names.forEach((name, k) => {
const [h, i] = [Math.floor(k / n), k % n];
name.textContent = named[kind] && (apart || h === 0) ? `token ${i}` : "";
name.style.top = `${apart ? h * tall + title + i * high : rowOf(kind, i)}px`;
});
const size = step === 0 || kind === "given" ? [n, width]
: apart ? [heads, n, part] : [n, heads, part];
shape.textContent = `shape (${size.join(", ")})`;
}

function light(m) {
lit = m;
show();
}
function sentence() {
const name = number(flat[lit], 0);
const from = `${name} belongs to token ${tokenOf(lit)}`;
if (step === 0) return `${from}, and to head ${headOf(lit)}.`;
const [right, wrong] = ["right", "wrong"].map((kind) => {
const [h, i] = where(found[kind], lit);
return stacked(kind) ? `head ${h}, token ${i}` : "no number moves";
});
return `${from}. Split, then transpose: ${right}. At once: ${wrong}.`;
}
function show() {
pictures.forEach(showPicture);
say(sentence());
}
const steps = choices("step", ["the vectors", "view", "transpose"], step,
(i) => { step = i; show(); });
const [given, ...split] = pictures.map(({ node }) => node);
const row = "display: flex; align-items: end; justify-content: space-between; gap: 12px; "
+ "overflow: clip; overflow-clip-margin: 4px";
set(said, { style: `max-width: none; margin-top: 12px; min-height: ${phone ? 4.2 : 1.4}em` });
view.append(set(steps, { style: "margin: 0 0 12px" }));
if (phone) view.append(set(given, { style: "margin-bottom: 12px" }));
else split.unshift(given);
view.append(el("div", { style: row }, ...split), said);
show();
expose(() => ({
step, lit: flat[lit],
right: step === 0 ? x : step === 1 ? cut : right,
wrong: step === 0 ? x : wrong,
lands: { right: where(found.right, lit), wrong: where(found.wrong, lit) },
}));
}
for (const figure of document.querySelectorAll("figure[data-drawing=head_cut]")) begin(figure, draw);
})();
