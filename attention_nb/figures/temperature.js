// The probabilities of the next token: at every temperature, and cut by top-k and top-p as
// `generate` cuts them.
function draw(stage) {
  const { view, viewWidth, data, el, set, sum, softmax, number, plural, said, say } = stage;
  const { choices, slider, button, expose } = stage;
  const { tokens, prefixes, logits } = data;
  const all = [...tokens.keys()];
  const size = tokens.length;
  let at = data.start;
  let temperature = 1;
  let k = size;
  let p = 1;
  let drawn = null;
  let seed = 1;

  // ---- What is computed ----
  const highest = (list) => list.indexOf(Math.max(...list));
  const ranked = (row) => [...all].sort((i, j) => row[j] - row[i]);
  function topK(row) {
    const least = [...row].sort((a, b) => b - a)[k - 1];
    return row.map((x) => (x < least ? -Infinity : x));
  }
  function topP(row) {  // as few of the most probable as sum to p
    if (p === 1) return row;
    let before = 0;
    const kept = ranked(row).filter((i, rank) => {
      const keep = rank === 0 || before < p;
      before += row[i];
      return keep;
    });
    const total = sum(kept.map((i) => row[i]));
    return row.map((x, i) => (kept.includes(i) ? x / total : 0));
  }
  const plain = () => softmax(logits[at]);
  function probabilities() {
    if (temperature === 0) return all.map((i) => +(i === highest(logits[at])));
    return topP(softmax(topK(logits[at]).map((x) => x / temperature)));
  }
  function chance() {  // a number from 0 to 1, the same in every browser: mulberry32
    seed = (seed + 0x6d2b79f5) | 0;
    let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  }
  function drawOne(row) {
    let left = chance();
    return row.findIndex((x) => (left -= x) < 0);
  }

  // ---- A row for each token: its name, and a bar that ends with its probability and with how
  // often it was drawn; below the bar, thin: the probability at temperature 1, and the draws ----
  const text = "font-size: 13px; line-height: 15px; white-space: nowrap";
  const right = `${text}; text-align: right`;
  const soft = `${text}; color: var(--soft)`;
  const rows = all.map((i) => ({
    name: el("span", { style: right }, tokens[i]),
    bar: el("div", { class: "moves" }),
    plainly: el("div", {}),
    share: el("div", { class: "moves" }),
    value: el("div", { class: "moves" }),
    chance: el("span"),
    count: el("span"),
  }));
  for (const { value, chance, count } of rows) value.append(chance, count);
  function cellsOf({ name, bar, plainly, share, value }) {
    const room = "position: relative; height: 20px; margin-right: 4.6rem";  // the last numbers'
    return [name, el("div", { style: room }, bar, plainly, share, value)];
  }
  const grid = "display: grid; grid-template-columns: minmax(3.2rem, max-content) minmax(0, 1fr); "
    + "gap: 2px 8px";
  const dashes = "1.5px dashed currentColor";
  const marked = (mark, words) => el("span", { style: "display: inline-flex; gap: 5px; "
    + "align-items: center" }, el("span", { style: `width: 18px; ${mark}` }), words);
  const legend = [
    el("span", {}, "probability"),
    marked(`border-top: ${dashes}`, "at temperature 1"),
    marked("height: 4px; background: var(--rose)", "drawn"),
  ];
  const board = el("div", {
    role: "group",
    "aria-label": "The probability of each next token",
    style: grid,
  },
    el("span", { style: `${soft}; text-align: right` }, "token"),
    el("div", { style: `${soft}; display: flex; gap: 0.7rem; overflow: clip` }, ...legend),
    ...rows.flatMap(cellsOf));
  const reaching = (x) => `width: ${(100 * x).toFixed(2)}%; box-sizing: border-box`;
  const rounded = "border-radius: 0 3px 3px 0";
  const differs = (now, was) => Math.abs(now - was) > 1e-9;  // else one bar hides the other
  function showBars({ bar, plainly, share, value }, now, was, part) {
    const from = (top, high) => `position: absolute; left: 0; top: ${top}px; height: ${high}px`;
    const seen = was > 0.004 && differs(now, was) ? "visible" : "hidden";
    set(bar, { style: `${from(1, 11)}; ${reaching(now)}; background: var(--neutral); ${rounded}` });
    set(plainly, { style: `${from(13, 2)}; ${reaching(was)}; border-top: ${dashes}; `
      + `visibility: ${seen}` });
    set(share, { style: `${from(16, 4)}; ${reaching(part)}; background: var(--rose); ${rounded}` });
    const ink = now ? "inherit" : "var(--soft)";
    set(value, { style: `${text}; position: absolute; top: -1px; margin-left: 7px; color: ${ink}; `
      + `left: ${(100 * now).toFixed(2)}%` });
  }
  function showToken(i, now, was) {
    const { name, chance, count } = rows[i];
    const cut = now === 0;
    const part = drawn ? drawn[i] / 100 : 0;
    const weight = i === highest(logits[at]) ? 700 : 400;
    const through = cut ? "line-through" : "none";
    showBars(rows[i], now, was, part);
    chance.textContent = cut ? "cut" : number(now);
    set(name, { style: `${right}; font-weight: ${weight}; text-decoration: ${through}` });
    const mark = "margin-left: 8px; padding-left: 5px; border-left: 4px solid var(--rose)";
    set(count, { style: drawn ? mark : null });
    count.textContent = drawn ? drawn[i] : "";
  }

  // ---- What is said ----
  function cutting(row, was) {
    if (temperature === 0) return "Temperature 0 always takes the most probable token.";
    const left = row.filter((x) => x > 0).length;
    if (left === size) return "Every token can be drawn.";
    const lost = number(sum(was.filter((_, i) => row[i] === 0)));
    const only = `Only ${plural(left, "token")} can be drawn`;
    return `${only}; the others lost ${lost}.`;
  }
  function tell(row, was) {
    const left = row.filter((x) => x > 0).length;
    const first = ranked(row).slice(0, Math.min(2, left));
    const best = first.map((i) => `“${tokens[i]}” has ${number(row[i])}`).join(", ");
    say(`After “${prefixes[at]}”: ${best}. ${cutting(row, was)}`);
  }
  function show() {
    const row = probabilities();
    const was = plain();
    for (const i of all) showToken(i, row[i], was[i]);
    const changed = all.some((i) => differs(row[i], was[i]));
    [changed, drawn].forEach((seen, i) => {
      legend[i + 1].style.visibility = seen ? "visible" : "hidden";
    });
    tell(row, was);
  }

  // ---- What a reader does ----
  const changing = (take) => (x) => {
    take(x);
    drawn = null;
    show();
  };
  function draws() {
    const row = probabilities();
    drawn = all.map(() => 0);
    for (let i = 0; i < 100; i++) drawn[Math.max(0, drawOne(row))] += 1;
    show();
  }
  function short(name, how) {
    const node = slider(name, how);
    node.children[1].style.width = `${viewWidth < 600 ? 6 : 8.5}rem`;
    set(node.children[2], { style: "min-width: 2.2em" });
    node.style.gap = "0.5rem";
    return node;
  }
  const off = (x, is, words) => (x === is ? "off" : words);
  const after = choices("Tokens so far", prefixes, at, changing((i) => { at = i; }));
  const heat = slider("temperature", {
    min: 0, max: 3, step: 0.1, value: temperature,
    text: (x) => number(x, 1),
    input: changing((x) => { temperature = x; }),
  });
  const ofK = short("top-k", {
    min: 1, max: size, step: 1, value: k,
    text: (x) => off(x, size, String(x)),
    input: changing((x) => { k = x; }),
  });
  const ofP = short("top-p", {
    min: 0.05, max: 1, step: 0.05, value: p,
    text: (x) => off(x, 1, number(x)),
    input: changing((x) => { p = x; }),
  });
  set(said, { style: `min-height: ${viewWidth < 600 ? 4.2 : 1.4}em; margin-top: 0.3rem` });
  view.append(
    el("div", { class: "row", style: "margin-top: 0" }, el("span", {}, "after"), after),
    heat,
    board,
    said,
    el("div", { class: "row", style: "gap: 0.4rem 0.6rem" },
      ofK, ofP, button("Draw 100 tokens", draws)),
  );
  show();
  expose(() => ({ at, temperature, k, p, probabilities: probabilities(), plain: plain(), drawn }));
}
