(() => {
function draw({ view, data, el, svg, set, sum, number, plural, said, say, choices, toggle, slider,
  player, expose }) {
  const { tokens, scores, values, sizes } = data;
  const n = tokens.length;
  const all = [...tokens.keys()];
  const plain = (x) => (x === -Infinity ? "×" : String(x).replace("-", "−"));
  let size = sizes[data.chosen];
  let causal = false;
  let step = 1;
  let query = data.query;

  const hidden = (i, j) => causal && j > i;
  function order() {
    const tiles = [], skipped = [];
    for (let i = 0; i < n; i += size) {
      const last = Math.min(i + size, n) - 1;
      for (let j = 0; j < n; j += size) (causal && j > last ? skipped : tiles).push([i, j]);
    }
    return { tiles, skipped };
  }
  const many = () => order().tiles.length;
  const within = (start, k) => k >= start && k < start + size;
  function history(i) {  // one entry for each tile of the query until now
    let [m, l, acc] = [-Infinity, 0, 0];
    const mine = order().tiles.slice(0, step).filter(([a]) => within(a, i));
    return mine.map(([, b]) => {
      const keys = all.filter((j) => within(b, j));
      const seen = keys.map((j) => (hidden(i, j) ? -Infinity : scores[i][j]));
      const next = Math.max(m, ...seen);
      const rescale = m === -Infinity ? 0 : Math.exp(m - next);
      const p = seen.map((s) => Math.exp(s - next));
      l = l * rescale + sum(p);
      acc = acc * rescale + p.reduce((x, y, at) => x + y * values[keys[at]], 0);
      m = next;
      return { keys, seen, rescale, m, l, acc, context: acc / l };
    });
  }

  function grown(past) {
    const { rescale } = past.at(-1) ?? {};
    return rescale > 0 && rescale < 1;
  }
  while (step < many() && !grown(history(query))) step++;  // begin where something happens
  if (!grown(history(query))) step = Math.ceil(many() / 2);

  const unit = 32, left = 66, high = 58;
  const wide = left + n * unit + 4;
  const low = high + n * unit + 30;
  const x = (j) => left + j * unit;
  const y = (i) => high + i * unit;
  const small = "font-size: 13px";
  const listing = tokens.map((token, j) => `${token} ${plain(values[j])}`).join(", ");
  const root = svg("svg", { width: wide, height: low, viewBox: `0 0 ${wide} ${low}`, role: "img",
    "aria-label": "Query–key pairs: a row for each query, a column for each key. "
      + `One tile is highlighted. Values: ${listing}` });
  const below = ["value", ...values.map(plain)].map((text, j) =>
    svg("text", { x: j ? x(j) - unit / 2 : left - 8, y: low - 8,
      "text-anchor": j ? "middle" : "end", style: `${small}; font-weight: 600`,
      "data-sym": "v" }, text));
  const names = all.map((i) => svg("text", { x: left - 8, y: y(i) + 21, "text-anchor": "end",
    "data-sym": "q", style: small }, tokens[i]));
  const tops = all.map((j) => svg("text", {
    transform: `translate(${x(j) + 20} ${high - 7}) rotate(-90)`, "data-sym": "k",
    style: small }, tokens[j]));
  const cellAt = (i, j) => svg("g", {},
    svg("rect", { x: x(j), y: y(i), width: unit, height: unit, stroke: "var(--faint)",
      fill: "none" }),
    svg("path", { d: `M${x(j) + 7} ${y(i) + 7}l18 18m0 -18l-18 18`, stroke: "var(--soft)",
      visibility: "hidden" }),
    svg("text", { x: x(j) + unit / 2, y: y(i) + 21, "text-anchor": "middle",
      style: `${small}; pointer-events: none` }));
  const cells = all.map((i) => all.map((j) => cellAt(i, j)));
  const watched = svg("rect", { "data-sym": "q", x: 2, width: left + n * unit, height: unit,
    fill: "none", stroke: "var(--q)", "stroke-width": 2, rx: 3 });
  const lit = svg("rect", { fill: "none", stroke: "var(--rose)", "stroke-width": 4, rx: 2 });
  root.append(...names, ...tops, ...cells.flat(), ...below, watched, lit);

  const tight = "padding: 0.1rem 0.3rem; font-size: 13px";
  const body = el("tbody", {});
  const columns = ["keys", "scores", "max m", "rescale", "sum ℓ", "acc a"];
  const heads = columns.map((text) => el("th", { scope: "col", style: tight }, text));
  const table = el("table", { style: "width: 100%; margin: 0" },
    el("thead", {}, el("tr", {}, ...heads)), body);
  const td = (text, style = "") => el("td", { style: `${tight}; ${style}` }, text);
  const head = el("div", { style: "font-weight: 600" });

  const steps = slider("Tile", { min: 1, max: many(), step: 1, value: step,
    text: (x) => `${number(x, 0)} of ${many()}`,
    input: (to) => {
      play.stop();
      step = to;
      show();
    } });
  function go(to) {
    step = to;
    steps.move(to, many());  // the slider is as long as there are tiles
    show();
  }
  function again(change) {
    play.stop();
    change();
    go(1);
  }
  const pace = () => (many() > 20 ? 250 : 700);
  const play = player({ at: () => step, last: many, ms: pace, first: 1, go });

  const holds = ([a, b], i, j) => within(a, i) && within(b, j);
  function fillOf(here, done, i, j) {
    if (!here) return done ? "var(--faint)" : "none";
    const e = hidden(i, j) ? 0 : Math.exp(scores[i][j] - history(i).at(-1).m);
    return `color-mix(in srgb, var(--w) ${(55 * e).toFixed(1)}%, transparent)`;
  }
  function showCell({ now, before, skipped }, i, j) {
    const [square, cross, text] = cells[i][j].children;
    const here = now && holds(now, i, j);
    const done = before.some((tile) => holds(tile, i, j));
    const off = hidden(i, j) && (here || skipped.some((tile) => holds(tile, i, j)));
    const own = here && !off;
    set(square, { "data-sym": own ? "w" : null, fill: fillOf(here, done, i, j) });
    set(cross, { visibility: off ? "visible" : "hidden" });
    text.textContent = own ? plain(scores[i][j]) : "";
  }
  function showFrames(now) {
    const [i, j] = now ?? [0, 0];
    set(watched, { y: y(query) });
    names.forEach((name, i) => {
      const weight = i === query ? 700 : 400;
      set(name, { style: `${small}; font-weight: ${weight}` });
    });
    const reach = (start) => unit * Math.min(size, n - start);
    set(lit, { visibility: now ? "visible" : "hidden", x: x(j), y: y(i), width: reach(j),
      height: reach(i) });
  }
  function tableRow({ keys, seen, rescale, m, l, acc }) {
    const first = `${keys[0] + 1}`;
    const shrinks = rescale && rescale < 1;
    return el("tr", {},
      td(keys.length > 1 ? `${first}–${keys.at(-1) + 1}` : first),
      td(seen.map(plain).join(" "), "color: var(--soft)"),
      td(plain(m)),
      td(rescale ? number(rescale) : "", shrinks ? "font-weight: 700" : ""),
      td(number(l)),
      td(number(acc), "font-weight: 600"));
  }
  function told({ now, tiles, skipped, past }) {
    const last = past.at(-1);
    const token = `“${tokens[query]}”`;
    if (!last) return `${token} waits: no tile of its block of queries has been computed.`;
    if (step === tiles.length) {
      const left = skipped.length ? `, ${skipped.length} skipped` : "";
      return `Done. ${tiles.length} tiles were computed${left}; `
        + `never more than ${plural(size * size, "score")} at once, of ${n * n}.`;
    }
    const [l, acc] = [number(last.l), number(last.acc)];
    if (!within(now[0], query)) {
      return `${token} is done. Its context is acc / ℓ: `
        + `${acc} divided by ${l} is ${number(last.context)}.`;
    }
    if (!grown(past)) return `The largest score is ${plain(last.m)}, the sum is ${l}.`;
    return `A larger score, ${plain(last.m)}: sum and acc are multiplied by `
      + `${number(last.rescale)}; with the new tile they are ${l} and ${acc}.`;
  }
  function show() {
    const { tiles, skipped } = order();
    const past = history(query);
    const now = tiles[step - 1];
    const before = tiles.slice(0, step);
    for (const i of all) for (const j of all) showCell({ now, before, skipped }, i, j);
    showFrames(now);
    head.textContent = `Query “${tokens[query]}”: its running values`;
    body.replaceChildren(...past.map(tableRow));
    say(told({ now, tiles, skipped, past }));
  }

  function beside(range) {  // on a phone, too, it stands in the row of the button
    range.querySelector("input").style.width = "min(14rem, 26vw)";
    return range;
  }
  const queries = slider("Query", { min: 0, max: n - 1, step: 1, value: query,
    input: (i) => {
      query = i;
      show();
    },
    text: (i) => tokens[i] });
  const sizing = choices("Tile size", sizes.map(String), data.chosen, (i) =>
    again(() => { size = sizes[i]; }));
  const masking = toggle("causal mask", false, (on) => again(() => { causal = on; }));
  const panel = el("div", { style: "flex: 1 1 300px; min-width: 0" },
    el("div", { class: "row", style: "margin-top: 0" }, play.node, beside(steps)),
    queries,
    el("div", { class: "row" }, el("span", {}, "Tile size"), sizing, masking),
    head,
    set(said, { style: "min-height: 2.8em" }),
    table);
  const whole = "gap: 0.5rem 1.5rem; align-items: flex-start; margin: 0";
  view.append(el("div", { class: "beside", style: whole }, root, panel));
  show();
  expose(() => {
    const { m = null, l = 0, context = 0 } = history(query).at(-1) ?? {};
    const { tiles, skipped } = order();
    return { step, size, causal, query, tiles, skipped: skipped.length, m, l, context };
  });
}
for (const figure of document.querySelectorAll("figure[data-drawing=tiles]")) draw(stage(figure));
})();
