(() => {
// A language model of two layers that have attention alone gets letters that come twice. Arcs show what the two heads attend to that
// copy together; each head can be switched off, at each of many steps of training.
function draw({ figure, view, viewWidth, data, el, svg, set, number, grouped, plural, percent, said, say,
  softmax, sum, slider, button, toggle, player, expose }) {
  const { names, others, previous, inducing } = data, { steps, heads } = data.model, period = data.ids.length / 2;
  const { start, read } = engine(figure, { data, sum, softmax });
  const nameOf = ([layer, head]) => `stack.blocks.${layer}.attention ${head}`, layers = [0, 1], wide = viewWidth >= 600;
  let ids = data.ids, step = steps.length - 1, chosen = period + 3, now;
  const off = new Set();

  // ---- The model. A head that is off passes on the same for every token: its mean over other letters ----
  const means = new Map();
  function meansAt(step) {
    if (!means.has(step)) means.set(step, others.map((one) => {
      const run = start(step);
      read(run, one);
      return run.passed;
    }));
    return means.get(step);
  }
  function meanOf(key) {
    const [name, head] = key.split(" "), rows = meansAt(step).flatMap((passed) => passed[name][head]);
    return rows[0].map((_, i) => sum(rows.map((row) => row[i])) / rows.length);
  }
  function compute() {
    const run = start(step, new Map([...off].map((key) => [key, meanOf(key)]))), logits = read(run, ids);
    const shares = logits.map(softmax), best = shares.map((p) => p.indexOf(Math.max(...p)));
    const right = best.map((id, i) => i >= period && i < ids.length - 1 && id === ids[i + 1]);
    const rowsOf = ([layer, head]) => run.seen[`stack.blocks.${layer}.attention`][head];
    now = { logits, shares, best, right, seen: run.seen, reads: rowsOf(inducing), before: rowsOf(previous) };
  }

  // ---- The picture: letters in a row; above them what the induction head attends to, below what the previous-token head attends to ----
  const n = ids.length, cell = (wide ? 720 : 352) / n, width = n * cell, line = 110,
    low = line + 30, height = 246, middle = (i) => (i + 0.5) * cell;
  const root = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img" }), arcs = svg("g", { "pointer-events": "none" });
  const text = (x, y, words, style = "", anchor = "middle") => svg("text", { x, y, "text-anchor": anchor, style, "aria-hidden": true, "pointer-events": "none" }, words);
  const columns = ids.map((_, i) => ({
    letter: text(middle(i), line + 20, "", "font-weight: 600"), next: text(middle(i), height - 8, ""), mark: svg("rect", { x: i * cell + 1, y: height - 26, width: cell - 2, height: 26, rx: 4, fill: "var(--neutral)" }),
    box: svg("rect", { x: i * cell + 1, y: line + 1, width: cell - 2, height: 27, rx: 4 }),
    area: svg("rect", { x: i * cell, y: 0, width: cell, height, fill: "transparent", style: "cursor: pointer", onclick: () => choose(i), onpointerenter: (e) => { if (e.pointerType === "mouse") choose(i); } }),
  }));
  const soft = "fill: var(--soft); font-size: 13px";
  const titled = (head, title, y) =>
    ({ key: nameOf(head), title, node: text(0, y, title, soft, "start") });
  const titles = [titled(inducing, "The induction head attends to", 14),
    titled(previous, "The previous-token head attends to", low + 50)];
  root.append(...titles.map(({ node }) => node),
    text(0, height - 33, "Most probable next letter", soft, "start"),
    ...columns.flatMap(({ mark, next, box, letter }) => [mark, next, box, letter]), arcs, ...columns.map(({ area }) => area));
  function arc(head, from, to, w, way, shown) {  // way −1: above the letters, 1: below
    const y = way < 0 ? line : low, far = way * (from === to ? 22 : Math.min(16 + 0.42 * cell * Math.abs(from - to), way < 0 ? 125 : 42));
    const [a, b] = from === to ? [middle(from) - 6, middle(from) + 6] : [middle(from), middle(to)];
    return svg("path", { d: `M${a} ${y}C${a} ${y + far},${b} ${y + far},${b} ${y}`, fill: "none", stroke: "var(--w)", "data-sym": "w", "stroke-width": 0.8 + 6 * w, opacity: shown, "stroke-dasharray": off.has(nameOf(head)) ? "3 5" : "none" });
  }
  const top = (row) => row.indexOf(Math.max(...row));
  function drawArcs() {
    const found = top(now.reads[chosen]);
    const above = now.reads[chosen].map((w, j) => (w > 0.02 ? [arc(inducing, chosen, j, w, -1, 0.25 + 0.65 * w)] : []));
    const below = now.before.flatMap((row, i) => row.map((w, j) => (w > 0.1 && (i === found || i === chosen) ? [arc(previous, i, j, w, 1, i === found ? 0.25 + 0.65 * w : 0.3)] : [])));
    arcs.replaceChildren(...above.flat(), ...below.flat());
    titles.forEach(({ key, title, node }) => {
      node.textContent = off.has(key) ? `${title}, but it is off` : title;
    });
    columns.forEach(({ letter, next, mark, box }, i) => {
      letter.textContent = names[ids[i]];
      next.textContent = names[now.best[i]];
      set(next, { opacity: i < period ? 0.75 : 1, style: now.right[i] ? "font-weight: 700" : "" });
      const edge = { stroke: i === chosen ? "var(--rose)" : "none", "stroke-width": 2.5 };
      set(mark, { "fill-opacity": now.right[i] ? 0.4 : 0, ...edge });
      const shade = i === found ? ["var(--w)", 0.32] : ["var(--neutral)", i < period ? 0.1 : 0.22];
      set(box, { fill: shade[0], "fill-opacity": shade[1], ...edge });
    });
  }

  // ---- The most probable letters at the one that is chosen ----
  const bars = Array.from({ length: 4 }, () => ({ name: el("span", { style: "font-weight: 600; width: 1.2rem" }), bar: el("span", { class: "moves", style: "height: 12px; border-radius: 3px; background: var(--neutral)" }), share: el("span") }));
  const list = el("div", { "aria-hidden": true, style: "flex: 1 1 12rem" }, ...bars.map(({ name, bar, share }) => el("div", { style: "display: flex; align-items: center; gap: 0.5rem" }, name, bar, share)));
  function drawBars() {
    const order = now.shares[chosen].map((p, id) => [p, id]).sort(([a], [b]) => b - a);
    bars.forEach(({ name, bar, share }, i) => {
      const [p, id] = order[i];
      name.textContent = names[id];
      share.textContent = `${number(100 * p, 0)} %`;
      bar.style.width = `${70 * p}%`;
    });
  }

  // ---- What is said ----
  const quoted = (i) => `“${names[ids[i]]}”`;
  function explain() {
    const found = top(now.reads[chosen]), told = top(now.before[found]), best = now.best[chosen], last = chosen === n - 1, first = chosen < period;
    const off = switched();
    const reads = `At ${quoted(chosen)}, position ${chosen + 1}, the induction head attends to ${quoted(found)}, position ${found + 1} (${percent(now.reads[chosen][found])}); there the previous-token head attends to ${quoted(told)}, position ${told + 1} (${percent(now.before[found][told])}).`;
    const verdict = first ? "It occurs here for the first time: there is nothing to copy." : last ? "The letters end here." : now.right[chosen] ? "That is right." : `The next letter is ${quoted(chosen + 1)}.`;
    const right = sum(now.right.map(Number));
    say(`After ${plural(steps[step], "step")} of training${off}: `
      + `${right} of ${period - 1} letters that repeat are predicted. `
      + `${reads} The prediction is “${names[best]}”. ${verdict}`);
  }
  const switched = () => (off.size ? `, ${off.size === 1 ? "one head" : `${off.size} heads`} off` : "");
  function show() {
    compute();
    look();
  }
  function look() {
    drawArcs();
    drawBars();
    explain();
    set(root, { "aria-label": `The letters ${ids.map((id) => names[id]).join(" ")}; at position ${chosen + 1} arcs show what two heads attend to` });
  }

  // ---- Controls ----
  function choose(i) {
    if (i === chosen) return;
    chosen = i;
    position.move(i);
    look();
  }
  function shuffle() {
    const letters = Array.from({ length: 26 }, (_, id) => [Math.random(), id]).sort(([a], [b]) => a - b).slice(0, period).map(([, id]) => id);
    ids = [...letters, ...letters];
    show();
  }
  const position = slider("Letter", { min: 0, max: n - 1, step: 1, value: chosen, text: (i) => `${i + 1}: ${names[ids[i]]}`, input: choose });
  const go = (i) => { step = i; show(); };
  const at = slider("Training step", { min: 0, max: steps.length - 1, step: 1, value: step, text: (i) => grouped(steps[i]), input: (i) => { play.stop(); go(i); } });
  const play = player({ at: () => step, last: () => steps.length - 1, go: (i) => { at.move(i); go(i); } });
  const roles = new Map([[nameOf(previous), " previous token"], [nameOf(inducing), " induction"]]);
  function switchOf(layer, head) {
    const key = nameOf([layer, head]), node = toggle(`${head + 1}${roles.get(key) ?? ""}`, true, (on) => {
      if (on) off.delete(key); else off.add(key);
      set(node, { style: on ? "" : "text-decoration: line-through" });
      show();
    });
    return set(node, { "aria-label": `Layer ${layer + 1}, head ${head + 1}${roles.get(key) ?? ""}` });
  }
  const rowOf = (layer) => el("div", { class: "row", style: "gap: 0.4rem" }, el("span", { style: "min-width: 3.6rem" }, `Layer ${layer + 1}`), ...Array.from({ length: heads }, (_, head) => switchOf(layer, head)));
  const inLine = (...nodes) => el("div", { class: "row steered" }, ...nodes);
  set(said, { style: `min-height: ${wide ? 4.2 : 8.4}em; margin-block: 0.4rem` });
  const below = { class: "beside",
    style: "gap: 0.6rem 1.5rem; align-items: flex-start; margin: 0" };
  view.append(inLine(play.node, at), root, inLine(position, button("Other letters", shuffle)), said,
    el("div", below, list, el("div", {}, ...layers.map(rowOf))));
  show();
  expose(() => ({ ids, step: steps[step], chosen, off: [...off], ...now }));
}
for (const figure of document.querySelectorAll("figure[data-drawing=induction]")) draw(stage(figure));
})();
