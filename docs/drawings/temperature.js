(() => {
// The probabilities of the next token: at every temperature, and cut by top-k and top-p as `generate` cuts them.
function draw({ view, data, el, set, sum, softmax, number, plural, said, say, choices, slider, button, expose }) {
  const { tokens, prefixes, logits } = data, all = [...tokens.keys()], size = tokens.length;
  let at = data.start, temperature = 1, k = size, p = 1, drawn = null, seed = 1;

  // ---- What is computed ----
  const highest = (list) => list.indexOf(Math.max(...list));
  function topK(row) {
    const least = [...row].sort((a, b) => b - a)[k - 1];
    return row.map((x) => (x < least ? -Infinity : x));
  }
  function topP(row) {  // as few of the most probable as sum to p
    if (p === 1) return row;
    const order = [...all].sort((i, j) => row[j] - row[i]);
    let before = 0;
    const kept = order.filter((i, rank) => { const keep = rank === 0 || before < p; before += row[i]; return keep; });
    const total = sum(kept.map((i) => row[i]));
    return row.map((x, i) => (kept.includes(i) ? x / total : 0));
  }
  const plain = () => softmax(logits[at]);
  function probabilities() {
    if (temperature === 0) return all.map((i) => +(i === highest(logits[at])));
    return topP(softmax(topK(logits[at]).map((x) => x / temperature)));
  }
  function chance() {  // a number from 0 to 1, the same in every browser: mulberry32
    seed = (seed + 0x6D2B79F5) | 0;
    let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  }
  function drawOne(row) {
    let left = chance();
    return row.findIndex((x) => (left -= x) < 0);
  }

  // ---- A row for each token: its name, a bar, its probability, how often it was drawn ----
  const text = "font-size: 13px; line-height: 17px; white-space: nowrap";
  const rows = all.map((i) => ({
    name: el("span", { style: `${text}; text-align: right` }, tokens[i]), bar: el("div", { class: "moves" }), ghost: el("div", {}),
    value: el("span", { style: `${text}; text-align: right` }), count: el("span", { style: `${text}; text-align: right` }) }));
  const head = (words) => el("span", { style: `${text}; color: var(--soft); text-align: right` }, words);
  const board = el("div", { role: "group", "aria-label": "The probability of each next token", style: "display: grid; grid-template-columns: minmax(3.2rem, max-content) minmax(0, 1fr) max-content minmax(2.4rem, max-content); gap: 2px 8px; max-width: 620px" },
    head("token"), el("span", { style: `${text}; color: var(--soft); overflow: clip` }, "dashed: temperature 1"), head("probability"), head("drawn"),
    ...rows.flatMap(({ name, bar, ghost, value, count }) => [name, el("div", { style: "position: relative; height: 17px" }, bar, ghost), value, count]));
  function showToken(i, now, was) {
    const { name, bar, ghost, value, count } = rows[i], width = (x) => `width: ${(100 * x).toFixed(2)}%; box-sizing: border-box`;
    set(bar, { style: `position: absolute; inset: 1px auto 1px 0; ${width(now)}; background: var(--neutral); border-radius: 0 3px 3px 0` });
    set(ghost, { style: `position: absolute; inset: 0 auto 0 0; ${width(was)}; border: 1px dashed var(--soft); border-left: 0; border-radius: 0 3px 3px 0; visibility: ${was > 0.004 ? "visible" : "hidden"}` });
    value.textContent = now === 0 ? "cut" : number(now);
    set(value, { style: `${text}; text-align: right; color: ${now === 0 ? "var(--soft)" : "inherit"}` });
    set(name, { style: `${text}; text-align: right; font-weight: ${i === highest(logits[at]) ? 700 : 400}; text-decoration: ${now === 0 ? "line-through" : "none"}` });
    count.textContent = drawn ? drawn[i] : "";
  }

  function tell(row, was) {
    const order = [...all].sort((i, j) => row[j] - row[i]), left = row.filter((x) => x > 0).length;
    const lost = sum(was.filter((_, i) => row[i] === 0));
    const best = order.slice(0, Math.min(2, left)).map((i) => `“${tokens[i]}” has ${number(row[i])}`).join(", ");
    const cut = left === size ? "Every token can be drawn." : `Only ${plural(left, "token")} can be drawn; at temperature 1 the others had ${number(lost)} together.`;
    say(`After “${prefixes[at]}”: ${best}. ${temperature === 0 ? "Temperature 0 always takes the most probable token." : cut}`);
  }
  function show() {
    const row = probabilities(), was = plain();
    for (const i of all) showToken(i, row[i], was[i]);
    tell(row, was);
  }
  function change(what) { what(); drawn = null; show(); }
  function draws() {
    const row = probabilities();
    drawn = all.map(() => 0);
    for (let i = 0; i < 100; i++) drawn[Math.max(0, drawOne(row))] += 1;
    show();
  }

  function short(name, how) {
    const node = slider(name, how);
    set(node.children[1], { style: "width: 8.5rem" });
    return node;
  }
  const off = (x, is, words) => (x === is ? "off" : words);
  set(said, { style: `min-height: ${view.clientWidth < 600 ? 5.6 : 2.8}em; margin-top: 0.3rem` });
  view.append(
    el("div", { class: "row", style: "margin-top: 0" }, el("span", {}, "after"), choices("Tokens so far", prefixes, at, (i) => change(() => { at = i; }))),
    slider("temperature", { min: 0, max: 3, step: 0.1, value: temperature, text: (x) => number(x, 1), input: (x) => change(() => { temperature = x; }) }),
    board, said,
    el("div", { class: "row" },
      short("top-k", { min: 1, max: size, step: 1, value: k, text: (x) => off(x, size, String(x)), input: (x) => change(() => { k = x; }) }),
      short("top-p", { min: 0.05, max: 1, step: 0.05, value: p, text: (x) => off(x, 1, number(x)), input: (x) => change(() => { p = x; }) }),
      button("Draw 100 tokens", draws)));
  show();
  expose(() => ({ at, temperature, k, p, probabilities: probabilities(), plain: plain(), drawn }));
}
for (const figure of document.querySelectorAll("figure[data-drawing=temperature]")) draw(stage(figure));
})();
