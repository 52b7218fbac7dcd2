(() => {
function draw(stage) {
const { view, viewWidth, data, el, set, number, clamp } = stage;
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
const kinds = { right: "Split, then transpose", given: "The vectors",
wrong: phone ? "At once" : "Final shape at once" };
const tokenOf = (m) => Math.floor(m / width);
const headOf = (m) => Math.floor((m % width) / part);
let step = 2;
let lit = Math.floor(width / heads) + width * (n - 1);
const stackedAt = { given: Infinity, right: 2, wrong: 1 };
const stacked = (kind) => step >= stackedAt[kind];
const named = { given: 54, right: 54, wrong: phone ? 0 : 54 };
const between = phone ? 4 : 8;
const seams = between * (heads - 1);
const least = phone ? 116 : 180;
const others = named.right + seams + (phone ? 12 : named.given + 64);
const across = phone ? width : 2 * width;
const fits = (count, words) => Math.floor((viewWidth - others - words) / count);
const wide = Math.min(30, fits(across, least), fits(across + part, named.wrong));
const high = phone ? 26 : 30;
const title = 26;
const tall = title + n * high;
const topOfWhole = Math.floor((heads - 1) / 2) * tall + title;
const topOf = (kind) => (kind === "given" ? 0 : topOfWhole);
const rowOf = (kind, i) => topOf(kind) + i * high;
const caption = 46;
const broad = { right: named.right + width * wide + seams, given: named.given + width * wide,
wrong: Math.max(named.wrong + part * wide, least) };
const gap = (viewWidth - broad.right - broad.given - broad.wrong) / 2;
const lower = caption + n * high + 16;
const origins = phone ? { given: [0, caption], right: [0, lower + caption],
wrong: [Math.min(broad.right + 24, viewWidth - broad.wrong), lower + caption] }
: { right: [0, caption], given: [broad.right + gap, caption + topOfWhole],
wrong: [viewWidth - broad.wrong, caption] };
const deep = origins.right[1] + heads * tall;
function place(kind, m) {
const margin = named[kind];
if (stacked(kind)) {
const [h, token, j] = where(found[kind], m);
return [margin + j * wide, h * tall + title + token * high];
}
if (kind !== "given" && !step) {
const [x, y] = place("given", m);
return [x + origins.given[0] - origins[kind][0], y + origins.given[1] - origins[kind][1]];
}
const moved = kind === "given" ? 0 : headOf(m) * between;
return [margin + (m % width) * wide + moved, rowOf(kind, tokenOf(m))];
}

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
const shape = el("div", { style: "font-size: 13px; color: var(--soft); height: 26px; "
+ "white-space: nowrap" });
const word = set(label(), { style: `${ofLabel}; top: ${topOf(kind) - 18}px; `
+ "line-height: 18px" }, "head");
const says = `${title}; arrow keys go from number to number`;
const list = el("div", { role: "listbox", "aria-label": says }, ...cells);
const [left, top] = origins[kind];
const box = el("div", { style: "position: relative" }, list, ...names, word, ...signs);
const node = el("div", { style: `position: absolute; left: ${left}px; `
+ `top: ${top - caption}px; width: ${broad[kind]}px` },
el("b", { style: "display: block; height: 20px; font-weight: 600; white-space: nowrap" },
title), shape, box);
return { kind, cells, names, signs, shape, word, node };
});

function showNumber(kind, cell, m) {
const [x, y] = place(kind, m);
const [h, token] = kind === "given" ? [] : where(found[kind], m);
const lands = stacked(kind) ? `, lands in head ${h} as token ${token}` : "";
const seen = step || kind === "given" ? "visible" : "hidden";
const ring = "font-weight: 700; box-shadow: inset 0 0 0 3px var(--rose); z-index: 1";
set(cell, {
tabindex: m === lit ? 0 : -1, "aria-selected": String(m === lit),
"aria-label": `${number(flat[m], 0)}, of token ${tokenOf(m)}${lands}`,
style: `position: absolute; left: ${x}px; top: ${y}px; width: ${wide}px; `
+ `height: ${high}px; display: grid; place-items: center; `
+ "box-sizing: border-box; cursor: pointer; transition-property: left, top; "
+ `--pace: 0.4s; font-size: ${wide < 28 ? 13 : 14}px; `
+ `visibility: ${seen}; `
+ `background: ${paint(headOf(m))}; border: 1px solid var(--faint); `
+ (m === lit ? ring : "") });
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
const [x, y] = place(kind, h * part);
const [left, top] = apart ? [named[kind], h * tall + title - 18] : [x, y - 18];
Object.assign(sign.style, { left: `${left}px`, top: `${top}px`,
visibility: seen ? "visible" : "hidden" });
});
}
function showPicture(picture) {
const { kind, cells, names, shape } = picture;
const apart = stacked(kind);
const here = step || kind === "given";
showSigns(picture);
cells.forEach((cell, m) => showNumber(kind, cell, m));
names.forEach((name, k) => {
const [h, i] = [Math.floor(k / n), k % n];
name.textContent = named[kind] && here && (apart || h === 0) ? `token ${i}` : "";
name.style.top = `${apart ? h * tall + title + i * high : rowOf(kind, i)}px`;
});
const size = step === 0 || kind === "given" ? [n, width]
: apart ? [heads, n, part] : [n, heads, part];
shape.style.visibility = here ? "visible" : "hidden";
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
const board = el("div", { style: `position: relative; height: ${deep}px; `
+ "overflow: clip; overflow-clip-margin: 4px" },
...pictures.map(({ node }) => node));
set(said, { style: `max-width: none; margin-top: 12px; min-height: ${phone ? 2.8 : 1.4}em` });
view.append(set(steps, { style: "margin: 0 0 12px" }), board, said);
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
