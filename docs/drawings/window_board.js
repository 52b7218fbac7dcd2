(() => {
// Masks combined with & and |: who may look at whom, how many scores that is, and which words reach one through layers.
function draw({ view, data, el, svg, set, said, say, choices, toggle, slider, expose }) {
  const { words, documents, sinks, block } = data, n = words.length, all = [...words.keys()];
  const on = { window: true, sinks: false, documents: false, blocks: false, causal: false };
  let width = data.window, either = true, asks = n - 1, layers = 2;

  // ---- What is computed ----
  const masks = {
    causal: (i, j) => j <= i,
    window: (i, j) => j <= i && j > i - width,
    sinks: (i, j) => j < sinks,
    documents: (i, j) => documents[i] === documents[j],
    blocks: (i, j) => Math.floor(i / block) === Math.floor(j / block),
  };
  const pair = () => ["window", "sinks"].filter((name) => on[name]);
  const others = () => ["causal", "documents", "blocks"].filter((name) => on[name]);
  function may(i, j) {
    const two = pair().map((name) => masks[name](i, j));
    return (!two.length || (either ? two.some(Boolean) : two.every(Boolean))) && others().every((name) => masks[name](i, j));
  }
  function formula() {
    const written = { causal: "causal", window: `window ${width}`, sinks: `sinks ${sinks}`, documents: "documents", blocks: `blocks ${block}` };
    const two = pair().map((name) => written[name]).join(either ? " | " : " & ");
    const first = two.includes("|") && others().length ? `(${two})` : two;
    return [first, ...others().map((name) => written[name])].filter(Boolean).join(" & ") || "no mask";
  }
  const board = () => all.map((i) => all.map((j) => may(i, j)));
  function levels(mask, i) {  // which words matter, from the last layer down to the words themselves
    const found = [[i]];
    for (let l = 0; l < layers; l++) found.push(all.filter((j) => found[l].some((m) => mask[m][j])));
    return found;
  }

  // ---- The board: rows ask, columns are asked ----
  const side = 24, left = 54, top = 56, label = (x, y, text, style, anchor = "middle") => svg("text", { x, y, "text-anchor": anchor, style: `font-size: 13px; ${style}` }, text);
  const slanted = (x, y, text) => svg("text", { "data-sym": "k", transform: `translate(${x} ${y}) rotate(-55)`, style: "font-size: 13px" }, text);
  const cells = all.map((i) => all.map((j) => {
    const [x, y] = [left + side * j, top + side * i];
    const box = svg("rect", { x, y, width: side, height: side, stroke: "var(--faint)" });
    const cross = svg("path", { d: `M${x + 8} ${y + 8}l8 8m0 -8l-8 8`, stroke: "var(--soft)", "stroke-width": 1, opacity: 0.55 });
    const ring = svg("circle", { cx: x + 12, cy: y + 12, r: 5 });
    const node = svg("g", { style: "cursor: pointer", onclick: () => choose(i) }, box, cross, ring);
    return { node, box, cross, ring };
  }));
  const sides = all.map((i) => set(label(left - 6, top + side * i + 17, words[i], "", "end"), { "data-sym": "q" }));
  const row = svg("rect", { "data-sym": "q", x: left, width: side * n, height: side, fill: "none", stroke: "var(--q)", "stroke-width": 2.5 });
  const breaks = all.slice(1).filter((i) => documents[i] !== documents[i - 1]).map((i) =>
    svg("path", { d: `M${left} ${top + side * i}h${side * n}M${left + side * i} ${top}v${side * n}`, stroke: "var(--soft)", "stroke-dasharray": "2 3" }));
  const grid = svg("svg", { width: 346, height: top + side * n + 4, viewBox: `0 0 346 ${top + side * n + 4}`, "aria-hidden": true, style: "flex: none" },
    ...cells.flat().map((c) => c.node), ...breaks, ...sides, ...all.map((j) => slanted(left + side * j + 14, top - 6, words[j])), row);

  // ---- The layers: what a word is made of ----
  const x = (j) => 34 + 27 * j, y = (l) => 226 - 50 * l;
  const tower = svg("svg", { width: 346, height: 290, viewBox: "0 0 346 290", "aria-hidden": true, style: "flex: none" });
  function build(mask) {
    const found = levels(mask, asks), shapes = [];
    found.slice(0, -1).forEach((level, down) => level.forEach((i) => all.forEach((j) => {
      if (mask[i][j]) shapes.push(svg("path", { d: `M${x(i)} ${y(layers - down)}L${x(j)} ${y(layers - down - 1)}`, stroke: "var(--neutral)", "stroke-width": 2, opacity: 0.55 }));
    })));
    found.forEach((level, down) => {
      const l = layers - down;
      shapes.push(label(0, y(l) + 5, l ? `${l}` : "", "fill: var(--soft)", "start"));
      all.forEach((j) => {
        const here = level.includes(j), mine = !down && j === asks;
        shapes.push(svg("circle", { "data-sym": mine ? "q" : null, cx: x(j), cy: y(l), r: here ? 7 : 4, fill: mine ? "var(--q)" : here ? "var(--neutral)" : "none", stroke: mine ? "var(--q)" : here ? "var(--neutral)" : "var(--faint)", "stroke-width": 1.5 }));
      });
    });
    all.forEach((j) => shapes.push(svg("text", { transform: `translate(${x(j) + 5} ${y(0) + 20}) rotate(-55)`, "text-anchor": "end",
      style: `font-size: 13px; font-weight: ${found.at(-1).includes(j) ? 700 : 400}`, opacity: found.at(-1).includes(j) ? 1 : 0.6 }, words[j])));
    shapes.push(label(0, y(layers) - 12, "layer", "fill: var(--soft)", "start"));
    set(tower, {}, ...shapes);
    return found.at(-1);
  }

  // ---- Below: the formula, the count, the line that is read out ----
  const code = el("code", { style: "font-size: 14px; background: none; border: none; padding: 0; color: inherit" });
  const bar = el("div", { style: "height: 10px; background: var(--neutral); border-radius: 2px" });
  const count = el("span", { "aria-live": "polite", style: "font-variant-numeric: tabular-nums; font-weight: 600" });
  function show() {
    const mask = board(), through = build(mask), scores = mask.flat().filter(Boolean).length;
    cells.forEach((line, i) => {
      const far = levels(mask, i).at(-1);
      line.forEach(({ box, cross, ring }, j) => {
        set(box, { fill: !mask[i][j] ? "transparent" : `color-mix(in srgb, var(--${j > i ? "rose" : "neutral"}) 65%, transparent)` });
        set(cross, { visibility: mask[i][j] || far.includes(j) ? "hidden" : "visible" });
        set(ring, { visibility: !mask[i][j] && far.includes(j) ? "visible" : "hidden", fill: "none", stroke: "var(--neutral)", "stroke-width": 2 });
      });
      set(sides[i], { "font-weight": i === asks ? 700 : 400 });
    });
    set(row, { y: top + side * asks });
    code.textContent = formula();
    count.textContent = `${scores} of ${n * n} scores`;
    bar.style.width = `${(100 * scores) / (n * n)}%`;
    const sees = mask[asks].filter(Boolean).length, leaks = all.filter((i) => mask[i].some((m, j) => m && j > i)).length;
    say(`Word ${asks}, “${words[asks]}”, looks at ${sees}; through ${layers} layer${layers > 1 ? "s" : ""} ${through.length} of ${n} words reach it.${leaks ? ` The future is seen: by ${leaks} word${leaks > 1 ? "s" : ""}.` : ""}`);
  }
  const asking = slider("Who asks", { min: 0, max: n - 1, step: 1, value: asks, input: (i) => { asks = i; show(); }, text: (i) => `${i} ${words[i]}` });
  function choose(i) { const range = asking.querySelector("input"); range.value = i; range.dispatchEvent(new Event("input")); }
  const turn = (name) => toggle(name, on[name], (value) => { on[name] = value; show(); });
  const whole = (i) => `${i}`;
  view.append(
    el("div", { class: "row", style: "margin-top: 0; gap: 0.4rem" }, ...Object.keys(on).map(turn)),
    el("div", { class: "row" }, el("span", {}, "window and sinks join by"), choices("Window and sinks join by", ["|", "&"], 0, (i) => { either = !i; show(); })),
    el("div", { style: "display: flex; flex-wrap: wrap; gap: 0 1.5rem" },
      slider("Window", { min: 1, max: n, step: 1, value: width, input: (i) => { width = i; show(); }, text: whole }),
      slider("Layers", { min: 1, max: 4, step: 1, value: layers, input: (i) => { layers = i; show(); }, text: whole }), asking),
    el("div", { style: "min-height: 1.5em" }, code),
    el("div", { style: "display: grid; grid-template-columns: 1fr 9rem; gap: 0.8rem; align-items: center; max-width: 500px; margin-bottom: 0.3rem" },
      el("div", { style: "background: var(--faint); border-radius: 2px" }, bar), count),
    el("div", { style: "display: flex; flex-wrap: wrap; gap: 0.3rem 1.5rem; align-items: flex-end" }, grid, tower),
    el("div", { style: "min-height: 4.2em" }, said));
  show();
  expose(() => {
    const mask = board();
    return { mask, scores: mask.flat().filter(Boolean).length, formula: formula(), layers, asks,
      reached: all.map((i) => all.map((j) => levels(mask, i).at(-1).includes(j))) };
  });
}
for (const figure of document.querySelectorAll("figure[data-drawing=window_board]")) draw(stage(figure));
})();
