(() => {
function draw(stage) {
  const { view, data, el, svg, set, dot, mix, matmul, number, plural, vector } = stage;
  const { said, say, slider, player, expose } = stage;
  const { tokens, q, k, v } = data;
  const n = tokens.length;
  const all = [...tokens.keys()];
  const width = k[0].length;
  const columns = [...v[0].keys(), v[0].length];
  const ones = v.map((row) => [...row, 1]);  // each value, and a 1 that adds up the weights
  let t = Math.min(1, n - 1);

  const product = (key, value) => key.map((a) => value.map((b) => a * b));
  const plus = (a, b) => a.map((row, i) => row.map((x, j) => x + b[i][j]));
  const state = (to) => k.slice(0, to + 1).map((key, j) => product(key, ones[j])).reduce(plus);
  function compute() {
    const scores = k.slice(0, t + 1).map((key) => dot(q[t], key));
    const S = state(t);
    const sums = { cache: mix(scores, ones.slice(0, t + 1)), state: matmul([q[t]], S)[0] };
    const total = sums.state.at(-1);
    const context = sums.state.slice(0, -1).map((x) => x / total);
    const kept = { cache: (t + 1) * (width + v[0].length), state: width * columns.length };
    return { scores, S, added: product(k[t], ones[t]), sums, context, kept };
  }
  const whole = (x) => number(x, 0);
  const isWhole = (x) => Math.abs(x - Math.round(x)) < 1e-9;
  const short = (x) => number(x, isWhole(x) ? 0 : 2);  // 5 and 4.38, as the prose writes them

  const plain = "padding: 2px 4px; font-size: 13px; text-align: center; "
    + "height: 22px; line-height: 18px";
  const cell = (sym, style = plain) => el("td", { "data-sym": sym, style });
  const faint = `${plain}; font-weight: 400; color: var(--soft)`;
  const label = (scope, text) => el("th", { scope, style: faint }, text);
  const column = (text) => (text ? label("col", text) : el("td", {}));
  const head = (texts) => el("tr", {}, ...texts.map(column));
  const table = (name, top, rows) =>
    el("table", { "aria-label": name, style: "margin: 0; width: auto" },
      el("thead", {}, head(top)), el("tbody", {}, ...rows));
  const names = all.map((i) => el("th", { scope: "row", style: plain }, tokens[i]));
  const kept = all.map(() => ["k", "v", "w"].map((sym) => cell(sym)));
  const cache = table("The cache", ["token", "key", "value", "q · k"],
    all.map((i) => el("tr", {}, names[i], ...kept[i])));
  const grid = () => k[0].map(() => columns.map(() => cell(null)));
  const added = grid(), held = grid();
  const top = ["", ...columns.map((j) => (j < v[0].length ? `value ${j}` : "1"))];
  const square = (name, cells) => table(name, top,
    cells.map((row, i) => el("tr", {}, label("row", `key ${i}`), ...row)));
  const digits = "min-height: 1.5em; font-variant-numeric: tabular-nums";
  const line = (above) => el("div", { style: `margin-top: ${above}; ${digits}` });
  const result = { cache: line("0.6rem"), state: line("0.6rem") };
  const count = { cache: line("0.2rem"), state: line("0.2rem") };
  const box = { y: 1, width: 9, height: 9, rx: 1.5 };
  const own = k[0].length + v[0].length;
  const inCache = (i) => [11 * i + 4 * Math.floor(i / own), i % own < k[0].length ? "k" : "v"];
  const inState = (i) => [11 * i, "neutral"];
  const inline = "display: inline-block; vertical-align: -1px; margin-right: 8px";
  function squares(many, place) {  // one for each number that is held
    const parts = Array.from({ length: many }, (_, i) => place(i)).map(([x, hue]) =>
      svg("rect", { ...box, x, fill: `var(--${hue})` }));
    const size = { width: place(many - 1)[0] + 9, height: 11 };
    return svg("svg", { ...size, "aria-hidden": true, style: inline }, ...parts);
  }
  const title = (text) => el("div", { style: "font-weight: 600; margin-bottom: 0.4rem" }, text);
  const small = (text, above = "0.8rem") =>
    el("div", { style: `font-size: 13px; margin: ${above} 0 0.2rem` }, text);
  const panel = (...parts) => el("div", { style: "flex: 1 1 290px; max-width: 340px" }, ...parts);

  function showToken(i, scores) {
    const here = i <= t;
    const texts = here ? [vector(k[i], short), vector(v[i], short), whole(scores[i])]
      : ["", "", ""];
    set(names[i], {
      style: `${plain}; font-weight: ${i === t ? 700 : 400}; opacity: ${here ? 1 : 0.55}` });
    kept[i].forEach((node, c) => { node.textContent = texts[c]; });
  }
  const share = (x) => (x ? 45 : 0);  // what is 0 adds nothing
  const tint = (hue, x) => `color-mix(in srgb, var(--${hue}) ${share(x)}%, transparent)`;
  function showGrid(cells, numbers, hue) {
    cells.forEach((row, r) => row.forEach((node, c) => {
      const look = "box-shadow: inset 0 0 0 1px var(--soft); "
        + `background: ${tint(hue, numbers[r][c])}`;
      node.textContent = whole(numbers[r][c]);
      set(node, { style: `${plain}; min-width: 3.2rem; ${look}` });
    }));
  }
  function show() {
    const { scores, S, added: more, sums, context, kept: numbers } = compute();
    for (const i of all) showToken(i, scores);
    showGrid(added, more, "rose");
    showGrid(held, S, "neutral");
    for (const [name, first] of [["cache", "Σ (q · k) [v, 1]"], ["state", "q S"]]) {
      result[name].textContent = `${first} = ${vector(sums[name], short)}`;
      const told = `${plural(numbers[name], "number")} in the ${name}`;
      set(count[name], {}, squares(numbers[name], name === "cache" ? inCache : inState), told);
    }
    const values = vector(sums.state.slice(0, -1), short);
    const total = whole(sums.state.at(-1));
    say(`“${tokens[t]}” has the query ${vector(q[t], short)}. Both ways give ${values}. `
      + `Divided by the sum of the weights, ${total}, `
      + `this is the context ${vector(context, short)}.`);
  }
  function move(x) {
    play.stop();
    t = x - 1;
    show();
  }
  const range = slider("Tokens so far", {
    min: 1, max: n, step: 1, value: t + 1, text: whole, input: move });
  function go(i) {
    t = i;
    range.move(t + 1);
    show();
  }
  const play = player({ at: () => t, last: () => n - 1, go });
  set(said, { style: "min-height: 4.2em; margin-top: 0.8rem" });
  function beside(range) {  // on a phone, too, it stands in the row of the button
    range.querySelector("input").style.width = "min(14rem, 26vw)";
    return range;
  }
  view.append(
    el("div", { class: "row", style: "margin-top: 0" }, play.node, beside(range)),
    el("div", { style: "display: flex; flex-wrap: wrap; gap: 1.2rem 1.5rem; margin-top: 0.8rem" },
      panel(title("Scores first: (q kᵀ) v"), cache, result.cache, count.cache),
      panel(title("Values first: q (kᵀ v)"),
        small("added in this step: key times [value, 1]", "0"), square("Added in this step", added),
        small("the state S, the sum of all so far"), square("The state", held),
        result.state, count.state)),
    said);
  show();
  expose(() => ({ step: t, ...compute() }));
}
for (const figure of document.querySelectorAll("figure[data-drawing=state_steps]")) draw(stage(figure));
})();
