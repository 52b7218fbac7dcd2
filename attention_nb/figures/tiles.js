// Attention in tiles: only the highlighted one is in memory, and each query has a running maximum m, sum l and accumulator acc.
function draw({ view, data, el, svg, set, sum, number, plural, said, say, choices, toggle, slider, player, expose }) {
  const { tokens, scores, values, sizes } = data, n = tokens.length, all = [...tokens.keys()];
  const plain = (x) => (x === -Infinity ? "×" : String(x).replace("-", "−"));
  let size = sizes[data.chosen], causal = false, step = 1, query = data.query;

  // ---- What is computed ----
  const hidden = (i, j) => causal && j > i;
  function order() {  // blocks of queries, each with its blocks of keys; tiles in which every pair is masked are skipped
    const tiles = [], skipped = [];
    for (let i = 0; i < n; i += size) for (let j = 0; j < n; j += size) (causal && j > Math.min(i + size, n) - 1 ? skipped : tiles).push([i, j]);
    return { tiles, skipped };
  }
  const many = () => order().tiles.length;
  const within = (start, k) => k >= start && k < start + size;
  function history(i) {  // one entry for each tile of the query until now
    let [m, l, acc] = [-Infinity, 0, 0];
    return order().tiles.slice(0, step).filter(([a]) => within(a, i)).map(([, b]) => {
      const keys = all.filter((j) => within(b, j)), seen = keys.map((j) => (hidden(i, j) ? -Infinity : scores[i][j]));
      const next = Math.max(m, ...seen), rescale = m === -Infinity ? 0 : Math.exp(m - next);
      const p = seen.map((s) => Math.exp(s - next));
      l = l * rescale + sum(p);
      acc = acc * rescale + p.reduce((x, y, at) => x + y * values[keys[at]], 0);
      m = next;
      return { keys, seen, rescale, m, l, acc, context: acc / l };
    });
  }

  const grown = (past) => { const { rescale } = past.at(-1) ?? {}; return rescale > 0 && rescale < 1; };
  while (step < many() && !grown(history(query))) step++;  // begin where something happens
  if (!grown(history(query))) step = Math.ceil(many() / 2);

  // ---- The grid: a square for each pair, with scores in the current tile only; below it the values ----
  const unit = 32, left = 66, high = 58, wide = left + n * unit + 4, low = high + n * unit + 30;
  const root = svg("svg", { width: wide, height: low, viewBox: `0 0 ${wide} ${low}`,
    role: "img", "aria-label": `Query–key pairs: a row for each query, a column for each key. One tile is highlighted. Values: ${tokens.map((token, j) => `${token} ${plain(values[j])}`).join(", ")}` });
  const below = ["value", ...values.map(plain)].map((text, j) => svg("text", { x: j ? left + j * unit - unit / 2 : left - 8, y: low - 8,
    "text-anchor": j ? "middle" : "end", style: "font-size: 13px; font-weight: 600", "data-sym": "v" }, text));
  const names = all.map((i) => svg("text", { x: left - 8, y: high + i * unit + 21, "text-anchor": "end", "data-sym": "q", style: "font-size: 13px" }, tokens[i]));
  const tops = all.map((j) => svg("text", { transform: `translate(${left + j * unit + 20} ${high - 7}) rotate(-90)`, "data-sym": "k", style: "font-size: 13px" }, tokens[j]));
  const cells = all.map((i) => all.map((j) => svg("g", {},
    svg("rect", { x: left + j * unit, y: high + i * unit, width: unit, height: unit, stroke: "var(--faint)", fill: "none" }),
    svg("path", { d: `M${left + j * unit + 7} ${high + i * unit + 7}l18 18m0 -18l-18 18`, stroke: "var(--soft)", visibility: "hidden" }),
    svg("text", { x: left + j * unit + unit / 2, y: high + i * unit + 21, "text-anchor": "middle", style: "font-size: 13px; pointer-events: none" }))));
  const watched = svg("rect", { "data-sym": "q", x: 2, width: left + n * unit, height: unit, fill: "none", stroke: "var(--q)", "stroke-width": 2, rx: 3 });
  const lit = svg("rect", { fill: "none", stroke: "var(--rose)", "stroke-width": 4, rx: 2 });
  root.append(...names, ...tops, ...cells.flat(), ...below, watched, lit);

  // ---- Beside it: maximum, sum and accumulator of the query, after each of its tiles ----
  const body = el("tbody", {});
  const table = el("table", { style: "width: 100%; margin: 0" }, el("thead", {}, el("tr", {},
    ...["keys", "scores", "max m", "rescale", "sum ℓ", "acc a"].map((text) => el("th", { scope: "col", style: "padding: 0.1rem 0.3rem; font-size: 13px" }, text)))), body);
  const td = (text, style = "") => el("td", { style: `padding: 0.1rem 0.3rem; font-size: 13px; ${style}` }, text);
  const head = el("div", { style: "font-weight: 600" });

  // ---- Controls ----
  const steps = slider("Tile", { min: 1, max: many(), step: 1, value: step, text: (x) => `${number(x, 0)} of ${many()}`,
    input: (to) => { play.stop(); step = to; show(); } });
  function go(to) { step = to; steps.move(to, many()); show(); }  // the slider is as long as there are tiles
  function again(change) { play.stop(); change(); go(1); }
  const play = player({ at: () => step, last: many, ms: () => (many() > 20 ? 250 : 700), first: 1, go });

  // ---- What changes: the squares, the frame of the current tile, the table, the line that is read out ----
  const holds = ([a, b], i, j) => within(a, i) && within(b, j);
  function showCell({ now, before, skipped }, i, j) {
    const [square, cross, text] = cells[i][j].children, here = now && holds(now, i, j), done = before.some((tile) => holds(tile, i, j));
    const off = hidden(i, j) && (here || skipped.some((tile) => holds(tile, i, j))), own = here && !off;
    const e = own ? Math.exp(scores[i][j] - history(i).at(-1).m) : 0;
    set(square, { "data-sym": own ? "w" : null, fill: here ? `color-mix(in srgb, var(--w) ${(55 * e).toFixed(1)}%, transparent)` : done ? "var(--faint)" : "none" });
    set(cross, { visibility: off ? "visible" : "hidden" });
    text.textContent = own ? plain(scores[i][j]) : "";
  }
  function showFrames(now) {
    const [i, j] = now ?? [0, 0];
    set(watched, { y: high + query * unit });
    names.forEach((name, i) => set(name, { style: `font-size: 13px; font-weight: ${i === query ? 700 : 400}` }));
    set(lit, { visibility: now ? "visible" : "hidden", x: left + j * unit, y: high + i * unit, width: unit * Math.min(size, n - j), height: unit * Math.min(size, n - i) });
  }
  function tableRow({ keys, seen, rescale, m, l, acc }) {
    const block = keys.length > 1 ? `${keys[0] + 1}–${keys.at(-1) + 1}` : `${keys[0] + 1}`;
    return el("tr", {}, td(block), td(seen.map(plain).join(" "), "color: var(--soft)"), td(plain(m)),
      td(rescale ? number(rescale) : "", rescale && rescale < 1 ? "font-weight: 700" : ""), td(number(l)), td(number(acc), "font-weight: 600"));
  }
  function tell({ now, tiles, skipped, past }) {
    const last = past.at(-1), left = skipped.length ? `, ${skipped.length} skipped` : "";
    say(!last ? `“${tokens[query]}” waits: no tile of its block of queries has been computed.`
      : step === tiles.length ? `Done. ${tiles.length} tiles were computed${left}; never more than ${plural(size * size, "score")} at once, of ${n * n}.`
      : !within(now[0], query) ? `“${tokens[query]}” is done. Its context is acc / ℓ: ${number(last.acc)} divided by ${number(last.l)} is ${number(last.context)}.`
      : grown(past) ? `A larger score, ${plain(last.m)}: sum and acc are multiplied by ${number(last.rescale)}; with the new tile they are ${number(last.l)} and ${number(last.acc)}.`
      : `The largest score is ${plain(last.m)}, the sum is ${number(last.l)}.`);
  }
  function show() {
    const { tiles, skipped } = order(), past = history(query), state = { tiles, skipped, past, now: tiles[step - 1], before: tiles.slice(0, step) };
    for (const i of all) for (const j of all) showCell(state, i, j);
    showFrames(state.now);
    head.textContent = `Query “${tokens[query]}”: its running values`;
    body.replaceChildren(...past.map(tableRow));
    tell(state);
  }

  function beside(range) {  // on a phone, too, it stands in the row of the button
    range.querySelector("input").style.width = "min(14rem, 26vw)";
    return range;
  }
  const panel = el("div", { style: "flex: 1 1 300px; min-width: 0" },
    el("div", { class: "row", style: "margin-top: 0" }, play.node, beside(steps)),
    slider("Query", { min: 0, max: n - 1, step: 1, value: query, input: (i) => { query = i; show(); }, text: (i) => tokens[i] }),
    el("div", { class: "row" }, el("span", {}, "Tile size"), choices("Tile size", sizes.map(String), data.chosen, (i) => again(() => { size = sizes[i]; })),
      toggle("causal mask", false, (on) => again(() => { causal = on; }))),
    head, set(said, { style: "min-height: 2.8em" }), table);
  view.append(el("div", { class: "beside", style: "gap: 0.5rem 1.5rem; align-items: flex-start; margin: 0" }, root, panel));
  show();
  expose(() => {
    const last = history(query).at(-1), { tiles, skipped } = order();
    return { step, size, causal, query, tiles, skipped: skipped.length, m: last?.m ?? null, l: last?.l ?? 0, context: last?.context ?? 0 };
  });
}
