(() => {
function draw({ figure, view, viewWidth, data, el, svg, set, number, grouped, listed, plural,
said, say, softmax, sum, tween, slider, choices, player, more, expose, keep }) {
const { source, target, exact, examples } = data;
const { steps, parts, heads } = data.model;
const { start, encode, decode } = engine(figure, { data, sum, softmax });
const [begin, end] = ["<start>", "<end>"].map((token) => target.indexOf(token));
const bare = (token) => token.replace(/[<>]/g, "");
let words = examples[0].split(" ");
let note = "";
let refused = "";
let step = Math.max(0, exact.findIndex((part) => part > 0));
let layer = 0, head = 0, chosen = 0;
let picked = 0;
let shown, found;

const values = new Map(data.values);
const named = [...values].filter(([, value]) => value < 100).reverse();
function below100(n) {
const [word, value] = named.find(([, value]) => value <= n);
return n === value ? [word] : [word, ...below100(n - value)];
}
function below1000(n) {
const hundreds = Math.floor(n / 100);
const rest = n % 100;
if (!hundreds) return below100(n);
return [...below100(hundreds), "hundred", ...(rest ? ["and", ...below100(rest)] : [])];
}
function spelled(n) {
const thousands = Math.floor(n / 1000);
const rest = n % 1000;
if (!thousands) return below1000(n);
const and = rest && rest < 100 ? ["and"] : [];
return [...below1000(thousands), "thousand", ...and, ...(rest ? below1000(rest) : [])];
}
const without = (list) => list.filter((word) => word !== "and");
function meant(typed) {
let thousands = 0, n = 0;
for (const word of without(typed)) {
if (word === "thousand") [thousands, n] = [1000 * n, 0];
else n = word === "hundred" ? 100 * n : n + (values.get(word) ?? NaN);
}
const value = thousands + n;
if (!(value < 1e6)) return null;
return without(spelled(value)).join() === without(typed).join() ? value : null;
}

const knows = (word) => source.indexOf(word) > source.indexOf("<pad>");
const [atMost, longest] = data.most;
function edits(a, b) {
let row = [...b, ""].map((_, j) => j);
for (const [i, letter] of [...a].entries()) {
const next = [i + 1];
for (let j = 0; j < b.length; j++) {
next.push(Math.min(next[j] + 1, row[j + 1] + 1, row[j] + (letter !== b[j])));
}
row = next;
}
return row[b.length];
}
function refusal(typed) {
if (!typed.length) return "Type a number in words, such as “forty two”.";
const unknown = typed.filter((word) => !knows(word));
if (!unknown.length) return "";
return `The model has no token for ${listed(unknown.slice(0, 3))}.${ideaFor(unknown[0])} `
+ "It translates whole numbers below a million.";
}
function ideaFor(word) {
const near = source.filter(knows).map((one) => [edits(word, one), one]);
const [far, nearest] = near.sort(([a], [b]) => a - b)[0];
return far <= 2 && far < word.length - 1 ? ` Did you mean “${nearest}”?` : "";
}
function wordsOf(text) {
const digits = text.replace(/[\s,]/g, "");
if (/^\d{1,6}$/.test(digits)) return spelled(+digits);
return text.toLowerCase().match(/[\p{L}\d]+/gu) ?? [];
}
function read(text) {
const typed = wordsOf(text);
refused = refusal(typed);
play.stop();
if (!refused) accept(typed);
picker.querySelectorAll("input").forEach((radio, i) => {
radio.checked = examples[i] === own.value;
});
if (refused) stop();
else translate(true);
}
function accept(typed) {
const value = meant(typed);
const usual = value === null ? typed : spelled(value);
note = noteOn(typed, usual);
words = usual.slice(0, atMost);
own.value = words.join(" ");
}
function noteOn(typed, usual) {
if (usual.join() !== typed.join()) return "Spelled as in the corpus. ";
return typed.length > atMost ? `The first ${atMost} words are used. ` : "";
}

function written() {
const run = start(step);
const memory = encode(run, words.map((word) => source.indexOf(word)));
const ids = [begin], shares = [];
let logits;
while (ids.at(-1) !== end && ids.length < longest) {
logits = decode(run, memory, ids);
const p = softmax(logits.at(-1));
const best = p.indexOf(Math.max(...p));
ids.push(best);
shares.push(p[best]);
}
return { out: ids.slice(1).map((id) => bare(target[id])), shares, logits, seen: run.seen };
}
function stop() {
turn++;
shown = found.out.length;
show();
}
let turn = 0;
async function translate(slowly) {
const mine = ++turn;
found = written();
if (slowly) picked = 0;
for (shown = slowly ? 1 : found.out.length; shown < found.out.length; shown++) {
show();
await tween(450, () => { });
if (mine !== turn) return;
}
show();
}

const kinds = [
{ kind: "decoder cross", title: "Cross-attention", keys: "words", queries: "out" },
{ kind: "encoder attention", title: "Encoder", keys: "words", queries: "words" },
{ kind: "decoder attention", title: "Decoder", keys: "past", queries: "out" },
];
const attentions = parts
.map(([name]) => name.match(/^(\w+)\.blocks\.(\d+)\.(\w+)\.q_proj\.weight$/))
.filter(Boolean);
function layersOf({ kind, title, keys, queries }) {
const mine = attentions.filter(([, stack, , part]) => `${stack} ${part}` === kind);
return mine.map(([name, , i]) => ({
name: name.replace(".q_proj.weight", ""),
title: +i ? `${title}, block ${i}` : title,
keys,
queries,
}));
}
const layers = kinds.flatMap(layersOf);
function attended() {
const { name, keys, queries } = layers[layer];
const out = found.out.slice(0, shown);
const lists = { words, out, past: ["start", ...found.out].slice(0, shown) };
const all = found.seen[name];
const meanAt = (i, j) => sum(all.map((one) => one[i][j])) / heads;
const mean = all[0].map((row, i) => row.map((_, j) => meanAt(i, j)));
const weights = (head ? all[head - 1] : mean).slice(0, lists[queries].length);
return { keys: lists[keys], queries: lists[queries], weights };
}

const wide = viewWidth >= 600;
const [width, height, left, right] = wide ? [540, 352, 112, 400] : [352, 256, 98, 256];
const above = 18;
const most = Math.max(atMost, longest);
const root = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img" });
const lines = svg("g");
const text = (x, anchor, sym) => svg("text", { x, "text-anchor": anchor, "data-sym": sym,
"aria-hidden": true, "pointer-events": "none" });
const rows = Array.from({ length: most }, (_, i) => ({
key: text(left - 10, "end", "k"),
share: text(left + 8, "start", "w"),
query: text(right + 10, "start"),
verdict: text(right + (wide ? 52 : 36), "start"),
frame: svg("rect", { x: right + 5, rx: 4, fill: "none", stroke: "none" }),
sure: text(width - 6, "end"),
area: svg("rect", { x: right, width: width - right, fill: "transparent",
style: "cursor: pointer", onclick: () => choose(chosen === i + 1 ? 0 : i + 1) }),
}));
const heading = svg("text", { x: width - 6, "text-anchor": "end", "aria-hidden": true,
style: "font-size: 13px; fill: var(--soft)" }, "probability");
root.append(lines, heading, ...rows.map(({ area }) => area),
...rows.flatMap((row) => [row.key, row.share, row.verdict, row.sure, asked(row)]));
function asked({ frame, query }) {
return svg("g", { "data-sym": "q", "pointer-events": "none" }, frame, query);
}
const gapOf = (n) => Math.min(88, (height - above) / n);
const large = (gap, size) => `font-size: ${gap < 26 ? 14 : size}px`;
const heights = (n) =>
Array.from({ length: n }, (_, i) => (height + above) / 2 + (i - (n - 1) / 2) * gapOf(n));
const middle = (left + right) / 2;
const curve = (y, z) => `M${left} ${y}C${middle} ${y},${middle} ${z},${right} ${z}`;
function opacityOf(w, i) {
if (!chosen) return 0.15 + 0.7 * w;
return chosen === i + 1 ? 0.9 : 0.08;
}
function drawLines({ keys, queries, weights }) {
const [from, to] = [heights(keys.length), heights(queries.length)];
const lineOf = (w, i, j) => svg("path", { d: curve(from[j], to[i]), fill: "none",
stroke: "var(--w)", "data-sym": "w", "stroke-linecap": "round",
"stroke-width": 0.6 + (wide ? 9 : 7) * w, opacity: opacityOf(w, i) });
const drawn = weights.flatMap((row, i) =>
row.flatMap((w, j) => (w > 0.02 ? [lineOf(w, i, j)] : [])));
lines.replaceChildren(...drawn);
const named = layers[layer].queries === "out" && gapOf(queries.length) > 32;
set(heading, { y: to[0] - 24, visibility: named ? "visible" : "hidden" });
rows.forEach((row, i) => {
set(row.key, { style: large(gapOf(keys.length), wide ? 17 : 14) });
showKey(row, keys[i], from[i] ?? 0, i < keys.length && chosen ? weights[chosen - 1][i] : 0);
showQuery(row, queries[i], to[i] ?? 0, i, queries.length);
});
}
function showKey({ key, share }, token, y, weight) {
key.textContent = token ?? "";
share.textContent = weight >= 0.005 ? `${number(100 * weight, 0)}%` : "";
set(key, { y: y + 5 });
set(share, { y: y - 8, class: "halo" });
}
const inWords = wide ? ["wrong", "right"] : ["✗", "✓"];
function showVerdict({ verdict }, token, y, i, written) {
const room = wide || token?.length === 1;
const right = written && room && !refused && wanted();
verdict.textContent = right ? inWords[+(token === (right[i] ?? "end"))] : "";
set(verdict, { y: y + 5, style: "font-size: 13px" });
}
function showQuery({ query, frame, area, sure, verdict }, token, y, i, count) {
const gap = Math.min(40, gapOf(count));
const here = i < count;
const mine = chosen === i + 1;
const written = here && layers[layer].queries === "out";
const size = token?.length > 1 ? 14 : 22;
query.textContent = token ?? "";
set(query, { y: y + (size === 22 && gap >= 26 ? 8 : 5),
style: `${large(gap, size)}; font-weight: ${mine || written ? 700 : 400}; stroke: none` });
const high = Math.min(28, gap - 2);
set(frame, { y: y - high / 2, height: here ? high : 0,
width: here ? 10 + (size === 22 ? 14 : 9.4 * token.length) : 0 });
showVerdict({ verdict }, token, y, i, written);
sure.textContent = written ? `${number(100 * found.shares[i], 0)}%` : "";
set(sure, { y: y + 5, style: "font-size: 13px; fill: var(--soft)" });
set(area, { y: y - gap / 2, height: here ? gap : 0,
stroke: here && mine ? "var(--rose)" : "none", "stroke-width": 2, rx: 5 });
}

function reads({ keys, queries, weights }) {
if (!chosen) return "";
const order = weights[chosen - 1].map((w, j) => [w, j]).sort(([a], [b]) => b - a);
const best = order.filter(([w], i) => i < 2 && (!i || w >= 0.1));
const twice = (j) => keys.filter((key) => key === keys[j]).length > 1;
const position = (j) => (twice(j) ? `, position ${j}` : "");
const list = best.map(([w, j]) => `“${keys[j]}” (${number(100 * w, 0)}%${position(j)})`);
const who = head ? `head ${head - 1} attends to` : "the heads on average attend to";
return `${asker(queries[chosen - 1])}, ${who} ${list.join(" and ")}.`;
}
function asker(query) {
if (layers[layer].queries !== "out") return `At “${query}”`;
return `For “${query}” (probability ${number(100 * found.shares[chosen - 1], 0)}%)`;
}
function wanted() {
const numbers = words.join(" ").split(" is ").map((one) => meant(one.split(" ")));
if (numbers.includes(null)) return null;
return numbers.flatMap((value, i) => [...(i ? ["la"] : []), ...String(value)]);
}
const joined = (tokens) => tokens.join(tokens.length > 7 ? "\u200a" : " ") || "nothing";
function verdict(answer, ended) {
const right = wanted();
if (right === null) return "These words are not a number.";
const same = answer.join() === right.join() && ended;
return same ? "That is right." : `That is wrong: it should be ${joined(right)}.`;
}
function explain(now) {
if (refused) return say(refused);
const out = found.out.slice(0, shown);
const answer = out.filter((token) => token !== "end");
const done = shown === found.out.length;
const then = done ? `. ${verdict(answer, out.at(-1) === "end")}` : " …";
say(`${note}After ${plural(steps[step], "step")} `
+ `the model generates ${joined(answer)}${then} ${reads(now)}`);
}
function show() {
const now = attended();
chosen = Math.min(picked, now.queries.length);
token.move(chosen, now.queries.length);
drawLines(now);
root.style.opacity = refused ? 0.3 : "";
share.textContent = `${number(100 * exact[step], 1)}%`;
bars.forEach((bar, i) => { bar.style.opacity = i === step ? 1 : 0.4; });
const which = head ? `head ${head - 1}` : "mean of all heads";
set(root, { "aria-label": `${layers[layer].title}, ${which}: ${now.queries.join(" ")} `
+ `on the right attend to ${now.keys.join(" ")} on the left` });
explain(now);
}

function choose(i) {
picked = i;
if (i === chosen) return;
show();
}
const own = el("input", { type: "text", value: words.join(" "),
"aria-label": "A number in words", autocomplete: "off", autocapitalize: "none",
spellcheck: "false", style: "flex: 1 1 12rem; min-width: 0", ...keep });
function submitted(e) {
e.preventDefault();
read(own.value);
}
const inLine = { class: "row", style: "align-items: stretch" };
const form = el("form", { ...inLine, onsubmit: submitted }, own,
el("button", { type: "submit", ...keep }, "Translate"));
const inDigits = (text) => {
const value = meant(text.split(" "));
return value === null ? text : grouped(value);
};
const picker = choices("Examples", examples.map(inDigits), 0, (i) => read(examples[i]));
function go(i) {
step = i;
translate(false);
}
const long = (node) => {
Object.assign(node.children[1].style, { flex: "1 1 4rem", width: "auto", minWidth: "4rem" });
return set(node, { style: "flex-wrap: nowrap" });
};
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
const token = long(slider("Token", { min: 0, max: 1, step: 1, value: 0,
text: (i) => (i ? `${i}: ${attended().queries[i - 1]}` : "all"), input: choose }));
const pick = (name, options, go) => choices(name, options, 0, (i) => {
go(i);
show();
});
const attention = pick("Attention", layers.map(({ title }) => title), (i) => {
layer = i;
picked = 0;
});
const single = Array.from({ length: heads }, (_, i) => i);
const headOf = pick("Head", ["all heads", ...single], (i) => { head = i; });

const share = el("b", { style: "display: block; font-size: 17px" });
const rightOnes = el("span", { style: "font-size: 13px; line-height: 1.3" },
share, "of unseen numbers right");
const learned = el("div", { "aria-hidden": true, style: "display: flex; align-items: flex-end; "
+ (wide ? "margin-top: 10px; height: 112px" : "height: 58px") });
const apart = `flex: 1; margin-inline: ${wide ? 2 : 1}px; background: var(--neutral)`;
const bars = exact.map((part) =>
el("span", { style: `${apart}; height: ${Math.max(1, 100 * part)}%` }));
function press(i) {
play.stop();
at.move(i);
go(i);
}
learned.replaceChildren(...bars.map((bar, i) => el("span", { onclick: () => press(i),
style: "flex: 1; height: 100%; display: flex; align-items: flex-end; cursor: pointer" }, bar)));

const [title, range] = at.children;
const inset = `max(0px, ${50 / exact.length}% - 8px)`;
Object.assign(range.style,
{ order: wide ? -1 : 1, marginInline: inset, flex: `0 0 calc(100% - 2 * ${inset})` });
set(title, { style: "flex: 1" });
set(at, { style: "gap: 0 8px; margin: 0" });
const starts = el("div", { class: "row", style: "margin: 0" }, play.node);
const begins = el("div", { style: wide ? "display: flex; gap: 16px; align-items: center"
: "display: grid; gap: 4px" }, ...(wide ? [starts, rightOnes] : [rightOnes, starts]));
const training = el("div", { style: wide ? "" : "display: grid; gap: 8px 16px; align-items: end; "
+ "grid-template-columns: max-content minmax(0, 1fr)" }, begins,
el("div", { style: "min-width: 0" }, learned, at));
const switches = more(attention, headOf, token);
const controls = el("div", { style: `display: grid; gap: ${wide ? 16 : 8}px; min-width: 0; `
+ "align-content: start" }, el("div", {}, set(form, { style: "margin: 0 0 8px" }),
set(picker, { style: "margin: 0" })), training, ...(wide ? [switches] : []));
const columns = "display: grid; gap: 0 24px; grid-template-columns: minmax(20.5rem, 1fr) "
+ `minmax(0, ${width}px)`;
set(root, { style: "max-width: 100%; height: auto; margin: 0 auto" });
set(said, { style: `min-height: ${wide ? 2.8 : 7}em; max-width: none; margin-top: 8px` });
view.append(el("div", wide ? { style: columns } : {}, controls, root),
...(wide ? [] : [switches]), said);
translate(false);
choose(found.out.length - 1);
expose(() => ({ words, step: steps[step], ...found, chosen, attended: attended() }));
}
for (const figure of document.querySelectorAll("figure[data-drawing=translator]")) begin(figure, draw);
})();
