(() => {
// The programs of a grid: each takes a block of queries through its tiles; the chip has slots for so many at once.
function draw({ view, data, el, svg, set, sum, number, plural, said, say, choices, toggle, more,
  slider, player, expose }) {
  const { tokens, sizes, slots: offered } = data, n = tokens.length, all = [...tokens.keys()];
  let size = sizes[data.size], slots = offered[data.slot], causal = false, longest = false, step = 2;

  // ---- What is computed ----
  const within = (start, k) => k >= start && k < start + size;
  function programs() {  // the first key of each tile, for each block of queries
    return all.filter((i) => i % size === 0).map((i) => all.filter((j) => j % size === 0 && !(causal && j > Math.min(i + size, n) - 1)));
  }
  function plan() {  // when each program starts: as soon as a slot is free
    const tiles = programs(), free = Array(slots).fill(0), starts = [];
    const order = [...tiles.keys()];
    if (longest) order.reverse();
    for (const p of order) {
      const slot = free.indexOf(Math.min(...free));
      starts[p] = free[slot];
      free[slot] += tiles[p].length;
    }
    return { tiles, starts, last: Math.max(...free), count: sum(tiles.map((own) => own.length)) };
  }
  const doing = (now, p) => (step > now.starts[p] && step <= now.starts[p] + now.tiles[p].length ? step - now.starts[p] - 1 : -1);
  const busy = (now) => [...now.tiles.keys()].filter((p) => doing(now, p) >= 0);

  // ---- The grid ----
  const unit = 32, left = 70, high = 58;
  const [w, h] = [left + n * unit + 4, high + n * unit + 4];
  const root = svg("svg", { width: w, height: h, viewBox: `0 0 ${w} ${h}`, role: "img", "aria-label": "A grid of queries and keys; each program owns a block of queries" });
  const small = "font-size: 13px";
  const names = all.map((i) => svg("text", { x: left - 22, y: high + i * unit + 21, "text-anchor": "end", "data-sym": "q", style: small }, tokens[i]));
  const tops = all.map((j) => svg("text", { transform: `translate(${left + j * unit + 20} ${high - 7}) rotate(-90)`, "data-sym": "k", style: small }, tokens[j]));
  const cells = all.map((i) => all.map((j) => svg("g", {},
    svg("rect", { x: left + j * unit, y: high + i * unit, width: unit, height: unit, stroke: "var(--faint)", fill: "none" }),
    svg("path", { d: `M${left + j * unit + 9} ${high + i * unit + 9}l14 14m0 -14l-14 14`, stroke: "var(--soft)", visibility: "hidden" }))));
  const bands = svg("g", {}), lit = svg("g", {});
  const heads = [svg("text", { x: left - 8, y: high - 7, "text-anchor": "end", style: `${small}; fill: var(--soft)` }, "program")];
  root.append(...heads, ...names, ...tops, ...cells.flat(), bands, lit);

  // ---- Controls ----
  const last = () => plan().last;
  const time = slider("Time step", { min: 1, max: last(), step: 1, value: step, text: (x) => `${number(x, 0)} of ${last()}`,
    input: (to) => { play.stop(); step = to; show(); } });
  function go(to) { step = to; time.move(to, last()); show(); }  // the slider is as long as the work lasts
  function again(change) { play.stop(); change(); go(1); }
  const play = player({ at: () => step, last, ms: () => (last() > 12 ? 250 : 650), first: 1, go });

  // ---- What changes: the squares, the bands of the programs, the tiles at work, the line that is read out ----
  function showCell(now, i, j) {
    const [square, cross] = cells[i][j].children, p = Math.floor(i / size);
    const tile = now.tiles[p].findIndex((start) => within(start, j)), here = tile >= 0 && tile === doing(now, p);
    const done = tile >= 0 && step > now.starts[p] + tile;
    set(square, { fill: here ? "color-mix(in srgb, var(--neutral) 45%, transparent)" : done ? "var(--faint)" : "none" });
    set(cross, { visibility: causal && j > i && (tile < 0 || here) ? "visible" : "hidden" });
  }
  const band = (p) => ({ y: high + p * size * unit, tall: Math.min(size, n - p * size) * unit });
  function drawBand(now, p) {
    const { y, tall } = band(p), [weight, fill] = doing(now, p) >= 0 ? [700, "currentColor"] : [400, "var(--soft)"];
    return [svg("line", { x1: 2, x2: left + n * unit, y1: y, y2: y, stroke: "var(--soft)", "stroke-width": 1.5 }),
      svg("text", { x: left - 8, y: y + tall / 2 + 5, "text-anchor": "middle", style: `${small}; font-weight: ${weight}; fill: ${fill}` }, String(p))];
  }
  function drawTile(now, p) {
    const { y, tall } = band(p), start = now.tiles[p][doing(now, p)];
    return svg("rect", { x: left + start * unit, y, width: unit * Math.min(size, n - start), height: tall, fill: "none", stroke: "var(--rose)", "stroke-width": 4, rx: 2 });
  }
  function tell(now) {
    const skipped = Math.ceil(n / size) ** 2 - now.count, tiles = `${now.count} tiles${skipped ? `, ${skipped} skipped` : ""}`;
    const ran = busy(now), idle = slots - ran.length, empty = plural(idle, "slot is", "slots are") + " idle.";
    say(step === now.last ? `Done after ${plural(now.last, "time step")}: ${tiles}.${idle ? ` In the last one ${empty}` : ""}`
      : `${plural(now.tiles.length, "program")}, ${tiles}. Running: ${ran.length === 1 ? "program" : "programs"} ${ran.join(", ")}.${idle > 0 ? ` ${empty}` : ""}`);
  }
  function show() {
    const now = plan();
    for (const i of all) for (const j of all) showCell(now, i, j);
    bands.replaceChildren(...now.tiles.flatMap((_, p) => drawBand(now, p)));
    lit.replaceChildren(...busy(now).map((p) => drawTile(now, p)));
    tell(now);
  }

  function beside(range) {  // on a phone, too, it stands in the row of the button
    range.querySelector("input").style.width = "min(14rem, 24vw)";
    return range;
  }
  const row = (...parts) => el("div", { class: "row" }, ...parts);
  const ofSize = choices("Queries of a program", sizes.map(String), data.size,
    (i) => again(() => { size = sizes[i]; }));
  const ofSlots = choices("Programs at once", offered.map(String), data.slot,
    (i) => again(() => { slots = offered[i]; }));
  const panel = el("div", { style: "flex: 1 1 300px; min-width: 0" },
    set(row(play.node, beside(time)), { style: "margin-top: 0" }),
    row(toggle("causal mask", false, (on) => again(() => { causal = on; })),
      toggle("last block first", false, (on) => again(() => { longest = on; }))),
    set(said, { style: "min-height: 4.2em" }),
    more(row(el("span", {}, "Queries of a program"), ofSize),
      row(el("span", {}, "Programs at once"), ofSlots)));
  view.append(el("div", { class: "beside", style: "gap: 0.5rem 1.5rem; align-items: flex-start; margin: 0" }, root, panel));
  show();
  expose(() => ({ ...plan(), size, slots, causal, longest, step, busy: busy(plan()) }));
}
for (const figure of document.querySelectorAll("figure[data-drawing=programs]")) draw(stage(figure));
})();
