(() => {
function draw(stage) {
const { view, viewWidth, data, el, svg, set, number } = stage;
const { said, say, button, legendOf, late, onkeys, expose, keep } = stage;
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
function where(split, m) {
for (let h = 0; h < heads; h++) {
for (let i = 0; i < n; i++) {
const j = split[h][i].indexOf(m);
if (j >= 0) return [h, i, j];
}
}
}
const order = [...flat.keys()];
const splits = (list) => ({
right: swapped(shaped(list, n, heads, part)),
wrong: shaped(list, heads, n, part),
});
const found = splits(order);
const tokenOf = (m) => Math.floor(m / width);
const headOf = (m) => Math.floor((m % width) / part);
function strays(kind, m) {
const [h, token] = where(found[kind], m);
return h !== headOf(m) || token !== tokenOf(m);
}

const phone = viewWidth < 600;
const kinds = { right: "Split, then transpose", wrong: "Final shape at once" };
const named = 58, seam = 8, tab = 22;
const row = named + seam * (heads - 1);
const each = phone ? viewWidth : (viewWidth - 44) / 2;
const wide = Math.min(phone ? 44 : 52, Math.floor((each - row) / width));
const high = phone ? 30 : 40;
const tall = tab + n * high, words = 48;
const broad = named + width * wide;
const result = broad + seam * (heads - 1);
const lower = tall + (phone ? 16 : 26) + words;
const origins = {
given: [phone ? 0 : (viewWidth - broad) / 2, 0],
right: [0, lower],
wrong: phone ? [0, lower + tall + 14 + words] : [viewWidth - result, lower],
};
const deep = origins.wrong[1] + tall;
let split = false;
let lit = part + width * (n - 1);
const given = (m) => [named + (m % width) * wide, tab + tokenOf(m) * high];
function landed(kind, m) {
const [h, token, j] = where(found[kind], m);
return [named + (h * part + j) * wide + h * seam, tab + token * high];
}
const placed = ([x, y], [left, top]) => `left: ${left + x}px; top: ${top + y}px`;

const box = `position: absolute; width: ${wide}px; height: ${high}px; box-sizing: border-box`;
const small = "position: absolute; font-size: 13px; white-space: nowrap";
const piece = (style, ...says) => el("span", { "aria-hidden": true, style }, ...says);
const arrows = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -width, ArrowDown: width };
const touched = (m) => ({ onclick: () => light(m), onpointerenter: () => light(m) });
const source = order.map((m) => el("div", { role: "option", ...touched(m), ...keep,
onfocus: () => light(m), onkeydown: onkeys(arrows, (by) => source[m + by]?.focus()) },
number(flat[m], 0)));
const copies = Object.keys(kinds).flatMap((kind) => order.map((m) => ({ kind, m,
node: el("div", { class: "moves", "aria-hidden": true, ...touched(m) },
number(flat[m], 0)) })));
function namesOf(kind, between) {
const tokens = times(n, (i) => piece(`${small}; line-height: ${high}px; `
+ placed([0, tab + i * high], origins[kind]), `token ${i}`));
const signs = times(heads, (h) => piece(`${small}; line-height: ${tab}px; padding: 0 6px; `
+ `border-radius: 4px 4px 0 0; background: ${paint(h)}; `
+ placed([named + h * (part * wide + between), 0], origins[kind])));
return { kind, tokens, signs };
}
const pictures = [namesOf("given", 0), namesOf("right", seam), namesOf("wrong", seam)];
const slots = Object.keys(kinds).flatMap((kind) => order.map((m) => piece(
`${box}; border: 1px dashed var(--faint); ${placed(landed(kind, m), origins[kind])}`)));
const filled = { right: "", wrong: ", filled in the order in memory" };
const titles = Object.entries(kinds).map(([kind, title]) => {
const astray = order.filter((m) => strays(kind, m)).length;
const count = el("b", { style: astray ? "color: var(--rose)" : "" },
`${astray} of ${order.length} astray`);
const [left, top] = origins[kind];
const line = "display: flex; justify-content: space-between; font-size: 15px";
const shape = el("span", { style: "font-size: 13px; color: var(--soft)" },
`shape (${heads}, ${n}, ${part})${filled[kind]}`);
return { count, node: el("div", { style: `position: absolute; left: ${left}px; `
+ `top: ${top - words}px; width: ${result}px` },
el("div", { style: line }, el("b", { style: "font-weight: 600" }, title), count), shape) };
});

const [first, last] = [origins.given[0] + named, origins.given[0] + broad];
const lineAt = (i) => tab + (i + 0.9) * high;
const back = (i) => `H${last}V${tab + (i + 1) * high}H${first}V${lineAt(i + 1)}`;
const runs = times(n, (i) => `H${last - 8}${i < n - 1 ? back(i) : ""}`).join("");
const ofThread = { fill: "none", stroke: "var(--accent)", "stroke-width": 2 };
const tip = "m-5 -4l5 4l-5 4";
const thread = svg("path", { d: `M${first + 6} ${lineAt(0)}${runs}${tip}`, ...ofThread });
const sample = svg("svg", { width: 26, height: 10, "aria-hidden": true },
svg("path", { d: `M1 5H24${tip}`, ...ofThread }));

function look(m, astray) {
const edges = [astray && "inset 0 0 0 2px var(--rose)",
m === lit && `inset 0 0 0 ${astray ? 4 : 3}px var(--control)`].filter(Boolean);
return `${box}; display: grid; place-items: center; cursor: pointer; `
+ `font-size: ${phone ? 14 : 16}px; background: ${paint(headOf(m))}; `
+ `border: 1px solid var(--faint); box-shadow: ${edges.join(", ") || "none"}; `
+ `font-weight: ${m === lit ? 700 : 400}`;
}
function lands(m) {
if (!strays("wrong", m)) return "Both ways put it there.";
const [h, token] = where(found.wrong, m);
return `The final shape at once puts it into head ${h}, token ${token}.`;
}
function showSource(node, m) {
set(node, { tabindex: m === lit ? 0 : -1, "aria-selected": String(m === lit),
"aria-label": `${number(flat[m], 0)}, of token ${tokenOf(m)}${split ? `. ${lands(m)}` : ""}`,
style: `${look(m, false)}; ${placed(given(m), origins.given)}; z-index: 1` });
}
function showCopy({ kind, m, node }) {
const at = split ? placed(landed(kind, m), origins[kind]) : placed(given(m), origins.given);
const pace = split ? `0.7s ${(m * 0.05).toFixed(2)}s` : "0.4s";
set(node, { style: `${look(m, split && strays(kind, m))}; ${at}; --pace: ${pace}; `
+ "transition-property: left, top, box-shadow" });
}
function showSigns({ kind, signs }) {
signs.forEach((sign, h) => {
const whole = kind === "given"
|| found[kind][h].every((row, i) => row.every((m) => headOf(m) === h && tokenOf(m) === i));
sign.textContent = `head ${h}${split && kind !== "given" ? (whole ? " ✓" : " ✗") : ""}`;
});
}
function light(m) {
lit = m;
show();
}
function show() {
source.forEach(showSource);
copies.forEach(showCopy);
pictures.forEach(showSigns);
for (const { count } of titles) count.style.visibility = split ? "visible" : "hidden";
press.textContent = split ? "Back" : "Split";
const from = `${number(flat[lit], 0)} belongs to head ${headOf(lit)}, token ${tokenOf(lit)}.`;
say(split ? `${from} ${lands(lit)}` : from);
}
const press = set(button("", () => {
split = !split;
show();
for (const { count } of titles) late(count, 1600);
}), { class: "play flips", style: "min-width: 5.5rem" });
const list = el("div", { role: "listbox",
"aria-label": "The vectors; arrow keys go from number to number" }, ...source);
const board = el("div", { style: `position: relative; height: ${deep}px; `
+ "overflow: clip; overflow-clip-margin: 4px" },
...slots, list, ...pictures.flatMap(({ tokens, signs }) => [...tokens, ...signs]),
...titles.map(({ node }) => node), ...copies.map(({ node }) => node),
svg("svg", { width: viewWidth, height: deep, "aria-hidden": true,
style: "position: absolute; inset: 0; z-index: 2; pointer-events: none" }, thread));
set(said, { style: `max-width: none; margin-top: 12px; min-height: ${phone ? 2.8 : 1.4}em` });
view.append(el("div", { class: "row", style: "margin: 0 0 12px" }, press,
legendOf([sample, "the order in memory"])), board, said);
show();
expose(() => ({ split, lit: flat[lit], ...splits(flat),
lands: { right: where(found.right, lit), wrong: where(found.wrong, lit) } }));
}
for (const figure of document.querySelectorAll("figure[data-drawing=head_cut]")) begin(figure, draw);
})();
