(() => {
// The query of a token, the keys of all, and the weights: two small matrices that can be changed.
function draw({ view, viewWidth, data, el, svg, set, clamp, dot, matmul, softmax, mix, number, listed, vector,
  said, say, choices, button, motion, plane, expose, keep }) {
  const { tokens, x, kinds } = data, eye = [[1, 0], [0, 1]];
  const W = { W_q: data.W_q.map((r) => [...r]), W_k: data.W_k.map((r) => [...r]) };
  let chosen = data.start, now = {};
  const low = -1, high = 3, { root, at, arrow } = plane(300, 3);
  const across = viewWidth >= 600 ? 240 : 200;
  // the view box: from low to high
  set(root, { width: across, height: across, viewBox: "100 0 200 200",
    "aria-label": "The query and the keys as arrows" });
  root.style.overflow = "hidden";
  const note = (more, says) => { const node = svg("text", { "aria-hidden": true, ...more }, says); root.append(node); return node; };
  note({ x: 298, y: 166, "text-anchor": "end", style: "font-size: 13px; fill: var(--soft)" }, kinds[0]);
  note({ x: 145, y: 14, "text-anchor": "end", style: "font-size: 13px; fill: var(--soft)" }, kinds[1]);
  const query = arrow("var(--q)"), keys = tokens.map(() => arrow("var(--k)"));
  for (const { node } of [query, ...keys]) set(node, { "data-sym": node === query.node ? "q" : "k" });
  const mark = note({ "data-sym": "q", style: "font-weight: 600" }, ""), names = tokens.map((token) => note({ "data-sym": "k" }, token));

  const plain = (n) => number(n, [0, 1].find((digits) => Math.abs(n - +n.toFixed(digits)) < 1e-9) ?? 2);  // no zeros at its end
  const short = (row) => vector(row, plain);
  const hue = (which, ...text) => el("b", { "data-sym": which }, ...text);
  const cells = tokens.map(() => ({ key: el("td", { "data-sym": "k" }), score: el("td"), bar: el("div", { "data-sym": "w", style: "height: 14px; background: var(--w)" }), weight: el("span", { "data-sym": "w" }) }));
  const heads = tokens.map((token) => el("th", { scope: "row", style: "text-align: left" }, token));
  const wide = viewWidth >= 600;
  const table = el("table", { class: wide ? null : "tight", style: "white-space: nowrap" }, el("thead", {}, el("tr", {}, el("td"), ...["vector", "key", "q · k"].map((text) => el("th", { scope: "col" }, text === "key" ? hue("k", text) : text)),
    el("th", { scope: "col", style: "text-align: left" }, hue("w", "weight")))),
    el("tbody", {}, ...tokens.map((_, i) => el("tr", {}, heads[i], el("td", {}, short(x[i])),
      cells[i].key, cells[i].score,
      el("td", { style: "text-align: left" }, el("div", { style: "display: flex; align-items: center; gap: 0.3rem; width: 6.4rem" }, cells[i].bar, cells[i].weight))))));
  const working = el("div", { style: `min-height: ${wide ? 4.4 : 7.2}em; font-variant-numeric: tabular-nums` });
  const puts = [], named = (name) => hue(name[2], "W", el("sub", {}, name[2]));
  function matrix(name, verb) {
    const thin = "padding: 2px 3px", inputs = [0, 1].map((i) => [0, 1].map((j) => el("input", { type: "number", min: -high, max: high, step: 0.5,
      value: W[name][i][j], style: wide ? "width: 3.8rem" : "width: 2.6rem; padding-inline: 0.1rem", "aria-label": `${name}, from ${kinds[i]} to ${verb} ${kinds[j]}`, ...keep,
      oninput: (e) => { const n = +e.target.value; W[name][i][j] = clamp(Number.isFinite(n) ? n : 0, -high, high); show(); } })));
    puts.push((rows) => (rows ?? data[name]).forEach((row, i) => row.forEach((n, j) => { W[name][i][j] = n; inputs[i][j].value = n; })));
    const head = (text) => el("th", { scope: "col", style: thin }, text);
    return el("div", {}, named(name), ` ${verb} …`,
      el("table", {}, el("thead", {}, el("tr", {}, el("td"), ...kinds.map(head))), el("tbody", {}, ...kinds.map((kind, i) =>
        el("tr", {}, el("th", { scope: "row", style: thin }, kind), ...inputs[i].map((input) => el("td", { style: thin }, input)))))));
  }
  const preset = (text, rows) => button(text, () => { puts.forEach((put) => put(rows)); show(); });
  const quarter = [[0, 1], [-1, 0]], turn = () => { puts[0](matmul(W.W_q, quarter).map((row) => row.map((n) => clamp(n, -high, high) + 0))); show(); };  // + 0: no −0
  // ---- What is computed, and what changes: the arrows, the rows of the table, the sums in text ----
  function compute() {
    const q = matmul([x[chosen]], W.W_q)[0], k = matmul(x, W.W_k), scores = k.map((row) => dot(q, row)), weights = softmax(scores);
    now = { q, k, scores, weights, context: mix(weights, x) };
  }
  const inside = (v) => { const most = Math.max(1, ...v.map((n) => n / (n < 0 ? low : high))); return v.map((n) => n / most); };  // where it leaves the plane
  const zero = (v) => v.every((n) => n === 0), flat = (v) => Math.abs(v[0]) >= Math.abs(v[1]);
  const side = (v) => (flat(v) ? [0, -9, "middle"] : [9, 5, "start"]);  // beside the tip, off the arrow
  const glide = motion();
  let tip = [0, 0];
  function showQuery(q) {  // beside the key that it may fit, and not under it
    const from = tip;
    mark.textContent = zero(q) ? "" : "q";
    glide(450, (t) => {
      tip = from.map((n, i) => n + (q[i] - n) * t);
      const [x, y] = at(inside(tip)), long = Math.hypot(...tip) || 1, [dx, dy] = [9 * -tip[1] / long, 9 * -tip[0] / long].map((n) => -n);
      query.point(tip);
      set(query.node, { transform: `translate(${dx} ${dy})` });
      set(mark, { x: clamp(x + 2.4 * dx - 4, 102, 288), y: clamp(y + 2.4 * dy + 5, 14, 194) });
    });
  }
  function showToken(i, k, score, weight) {
    const v = inside(k), [px, py] = at(v), [dx, dy, anchor] = side(v), cell = cells[i];
    keys[i].point(k);
    set(names[i], { x: px + dx, y: py + dy, "text-anchor": anchor, visibility: zero(k) ? "hidden" : "visible" });
    cell.key.textContent = short(k);
    cell.score.textContent = plain(score);
    cell.weight.textContent = number(weight);
    set(cell.bar, { style: `height: 14px; background: var(--w); width: ${(weight * 4).toFixed(3)}rem` });
    set(heads[i], { style: `text-align: left; font-weight: ${i === chosen ? 700 : 400}` });
  }
  const told = ([a, b]) => {  // what becomes of (a, b): a · 1 + b · −2
    const parts = [[a, "a"], [b, "b"]].filter(([n]) => n).map(([n, letter]) => `${n === 1 ? "" : n === -1 ? "−" : `${plain(n)} `}${letter}`);
    return parts.join(" + ").replace("+ −", "− ") || "0";
  };
  function showSums({ q, context }) {
    working.replaceChildren(
      el("div", {}, named("W_q"), `: a vector (a, b) gives the query (${kinds.map((_, j) => told([W.W_q[0][j], W.W_q[1][j]])).join(", ")})`),
      el("div", {}, hue("q", "query"), ` = vector of “${tokens[chosen]}” × `, named("W_q"), " = ", hue("q", short(q))),
      el("div", {}, hue("v", "context"), " = weighted sum of the vectors = ",
        hue("v", vector(context, number))));
  }
  function tell({ q, weights }) {
    const best = Math.max(...weights), found = tokens.filter((_, i) => weights[i] > best - 1e-9);
    say(zero(q) ? `“${tokens[chosen]}” looks for nothing: a query of zeros, so all weights are equal.` :
      found.length > 1 ? `“${tokens[chosen]}” finds ${listed(found)} alike, ${number(best)} each.` :
      `“${tokens[chosen]}” finds ${found[0] === tokens[chosen] ? "itself" : `“${found[0]}”`}: ${number(best)} of its weight.`);
  }
  function show() {
    compute();
    showQuery(now.q);
    tokens.forEach((_, i) => showToken(i, now.k[i], now.scores[i], now.weights[i]));
    showSums(now);
    tell(now);
  }
  const around = (gap, ...parts) => el("div", { class: "beside", style: `gap: ${gap}; align-items: flex-start` }, ...parts);
  view.append(
    choices("Query", tokens, chosen, (i) => { chosen = i; show(); }),
    around("0.5rem 1.5rem", root, el("div", {}, table, said, working)),
    el("div", { class: "row" }, button("rotate queries by 90°", turn), preset("the identity for both", eye), preset("hand-made matrices")),
    el("details", { class: "more" }, el("summary", {}, "The eight numbers"), around("0.5rem 3rem", matrix("W_q", "looks for"), matrix("W_k", "is found as"))));
  set(said, { style: "min-height: 2.8em; max-width: 22rem" });
  show();
  expose(() => ({ chosen, ...W, ...now }));
}
for (const figure of document.querySelectorAll("figure[data-drawing=subject]")) draw(stage(figure));
})();
