(() => {
// A small matrix of exponentials, summed along its rows or down its columns, and what dividing by those sums gives.
function draw({ view, viewWidth, data, svg, set, sum, clamp, number, said, say, choices, button, motion, expose }) {
  const { matrices } = data, wide = viewWidth >= 600;
  const ways = ["dim=-1: along each row", "dim=0: down each column", "dim=-1, but keepdim forgotten"];
  let chosen = 0, way = 0, now = {};
  const n = matrices[0].exps.length, cell = wide ? 68 : 50, gap = wide ? 150 : 72, top = 28;
  const width = 2 * n * cell + gap + 74, high = top + n * cell + 40;
  const root = svg("svg", { width, height: high, viewBox: `0 0 ${width} ${high}`, role: "img", style: "height: auto",
    "aria-label": "Left the exponentials and their sums, right each divided by a sum" });
  const at = (i, j, right) => [(right ? n * cell + gap : 0) + (j + 0.5) * cell, top + (i + 0.5) * cell];
  const text = (x, y, more = {}) => svg("text", { x, y: y + 5, "text-anchor": "middle", ...more });
  const each = (f) => Array.from({ length: n }, (_, i) => f(i)), grid = (f) => each((i) => each((j) => f(i, j)));
  const box = (i, j, right) => {
    const [x, y] = at(i, j, right), c = cell / 2;
    const node = svg("rect", { x: x - c, y: y - c, width: cell, height: cell, fill: right ? "var(--w)" : "var(--soft)", "fill-opacity": 0, stroke: "var(--faint)", "data-sym": right ? "w" : null });
    root.append(node);
    return node;
  };
  root.append(set(text(n * cell / 2, 9, { style: "font-weight: 600" }), {}, "exponentials"),
    set(text(n * cell * 1.5 + gap, 9, { "data-sym": "w", style: "font-weight: 600" }), {}, "weights"));
  const boxes = grid((i, j) => box(i, j)), shares = grid((i, j) => box(i, j, true));
  const add = (node) => { root.append(node); return node; };
  const entries = grid((i, j) => add(text(...at(i, j))));
  const results = grid((i, j) => { const [x, y] = at(i, j, true); return add(text(x, y - 9, { style: "font-weight: 600; pointer-events: none" })); });
  const reasons = grid((i, j) => { const [x, y] = at(i, j, true); return add(text(x, y + 11, { style: "font-size: 13px; pointer-events: none" })); });
  const sums = each(() => add(text(0, 0, { style: "font-weight: 600" })));
  const beside = (i, right) => { const [x, y] = at(i, n - 1, right); return [x + cell / 2 + (right ? 38 : 20), y + 5]; };
  const below = (j, right) => { const [x, y] = at(n - 1, j, right); return [x, y + cell / 2 + 25]; };
  const rowSums = each((i) => add(text(beside(i, true)[0], beside(i, true)[1] - 5))), columnSums = each((j) => add(text(below(j, true)[0], below(j, true)[1] - 5)));

  function compute() {
    const { exps } = matrices[chosen], byRow = way !== 1;
    const summed = each((m) => each((p) => byRow ? exps[m][p] : exps[p][m])), total = summed.map(sum);
    const divisor = (i, j) => total[way === 0 ? i : j];  // a forgotten keepdim lays the sums under the columns
    const weights = grid((i, j) => exps[i][j] / divisor(i, j));
    const rows = weights.map(sum), columns = each((j) => sum(weights.map((row) => row[j])));
    now = { exps, byRow, summed, total, divisor, weights, rows, columns };
  }
  const one = (x) => Math.abs(x - 1) < 1e-6;
  const mark = (node, x, shown) => { node.textContent = !shown ? "" : `${number(x)}${one(x) ? " ✓" : ""}`; set(node, { style: one(x) ? "font-weight: 600" : "" }); };
  function paintCell(i, j, counted, done) {
    const { exps, byRow, divisor, weights } = now;
    entries[i][j].textContent = number(exps[i][j], 0);
    set(boxes[i][j], { "fill-opacity": clamp(counted - (byRow ? j : i), 0, 1) * 0.22 });
    results[i][j].textContent = done ? number(weights[i][j]) : "";
    reasons[i][j].textContent = done ? `${number(exps[i][j], 0)} ÷ ${number(divisor(i, j), 0)}` : "";
    set(shares[i][j], { "fill-opacity": done ? 0.5 * weights[i][j] : 0 });
  }
  function paintSum(m, counted, moved) {
    const { byRow, summed, total } = now, whole = Math.floor(counted + 1e-9);
    const from = byRow ? beside(m) : below(m), to = way ? below(m) : beside(m);
    set(sums[m], { x: from[0] + (to[0] - from[0]) * moved, y: from[1] + (to[1] - from[1]) * moved });
    sums[m].textContent = counted >= n ? `= ${number(total[m], 0)}` : whole ? `${number(sum(summed[m].slice(0, whole)), 0)} +` : "";
  }
  function paint(counted, moved, done) {  // counted: 0 → n cells; moved: 0 → 1, the sums on their way under the columns
    grid((i, j) => paintCell(i, j, counted, done));
    each((m) => {
      paintSum(m, counted, moved);
      mark(rowSums[m], now.rows[m], done); mark(columnSums[m], now.columns[m], done);
    });
  }
  const go = motion();
  function tell({ rows, columns }) {
    const found = [rows.every(one) && "Every row sums to 1", columns.every(one) && "Every column sums to 1"].filter(Boolean);
    say(`${found.length ? found.join(". ") : "Neither rows nor columns sum to 1"}: rows ${rows.map((x) => number(x)).join(" and ")}, columns ${columns.map((x) => number(x)).join(" and ")}.`);
  }
  async function count() {
    compute();
    say("Counting …");  // until there is a result, none is told
    const forgotten = way === 2;
    if (!await go(1100, (t) => paint(t * n, 0, false))) return;
    if (forgotten && !await go(700, (t) => paint(n, t, false))) return;
    paint(n, forgotten ? 1 : 0, true);
    tell(now);
  }
  view.append(root, said,
    choices("Which sums", ways, way, (i) => { way = i; count(); }),
    choices("Which matrix", matrices.map(({ name }) => name), chosen, (i) => { chosen = i; count(); }));
  view.lastChild.append(button("Count again", count));
  if (!wide) set(said, { style: "min-height: 2.8em" });
  compute();
  paint(n, 0, true);
  tell(now);
  expose(() => ({ exps: now.exps, way, sums: now.total, weights: now.weights }));
}
for (const figure of document.querySelectorAll("figure[data-drawing=sums]")) draw(stage(figure));
})();
