(() => {
function draw(stage) {
  const { view, data, el, svg, set, sum, number, plural } = stage;
  const { said, say, choices, toggle, more, slider, player, expose } = stage;
  const { tokens, sizes, slots: offered } = data;
  const n = tokens.length;
  const all = [...tokens.keys()];
  let size = sizes[data.size];
  let slots = offered[data.slot];
  let causal = false;
  let longest = false;
  let step = 2;

  const within = (start, k) => k >= start && k < start + size;
  function programs() {  // the first key of each tile, for each block of queries
    const starts = all.filter((i) => i % size === 0);
    const needed = (i, j) => !(causal && j > Math.min(i + size, n) - 1);
    return starts.map((i) => starts.filter((j) => needed(i, j)));
  }
  function plan() {  // when each program starts: as soon as a slot is free
    const tiles = programs();
    const free = Array(slots).fill(0);
    const starts = [];
    const order = [...tiles.keys()];
    if (longest) order.reverse();
    for (const p of order) {
      const slot = free.indexOf(Math.min(...free));
      starts[p] = free[slot];
      free[slot] += tiles[p].length;
    }
    const count = sum(tiles.map((own) => own.length));
    return { tiles, starts, last: Math.max(...free), count };
  }
  function doing(now, p) {  // which of its tiles, or -1
    const since = step - now.starts[p];
    return since > 0 && since <= now.tiles[p].length ? since - 1 : -1;
  }
  const busy = (now) => [...now.tiles.keys()].filter((p) => doing(now, p) >= 0);

  const unit = 32, left = 70, high = 58;
  const [w, h] = [left + n * unit + 4, high + n * unit + 4];
  const says = "A grid of queries and keys; each program owns a block of queries";
  const root = svg("svg", {
    width: w, height: h, viewBox: `0 0 ${w} ${h}`, role: "img", "aria-label": says });
  const small = "font-size: 13px";
  const columnAt = (j) => left + j * unit, rowAt = (i) => high + i * unit;
  const names = all.map((i) => svg("text", {
    x: left - 22, y: rowAt(i) + 21, "text-anchor": "end", "data-sym": "q", style: small },
  tokens[i]));
  const tops = all.map((j) => svg("text", {
    transform: `translate(${columnAt(j) + 20} ${high - 7}) rotate(-90)`,
    "data-sym": "k", style: small }, tokens[j]));
  function cell(x, y) {  // a square, and a cross for a forbidden pair
    const box = { width: unit, height: unit, stroke: "var(--faint)", fill: "none" };
    const cross = `M${x + 9} ${y + 9}l14 14m0 -14l-14 14`;
    return svg("g", {},
      svg("rect", { x, y, ...box }),
      svg("path", { d: cross, stroke: "var(--soft)", visibility: "hidden" }));
  }
  const cells = all.map((i) => all.map((j) => cell(columnAt(j), rowAt(i))));
  const bands = svg("g", {}), lit = svg("g", {});
  const heads = [svg("text", {
    x: left - 8, y: high - 7, "text-anchor": "end", style: `${small}; fill: var(--soft)` },
  "program")];
  root.append(...heads, ...names, ...tops, ...cells.flat(), bands, lit);

  const last = () => plan().last;
  const time = slider("Time step", {
    min: 1, max: last(), step: 1, value: step, text: (x) => `${number(x, 0)} of ${last()}`,
    input: (to) => { play.stop(); step = to; show(); } });
  function go(to) {
    step = to;
    time.move(to, last());  // the slider is as long as the work lasts
    show();
  }
  function again(change) {
    play.stop();
    change();
    go(1);
  }
  const play = player({ at: () => step, last, ms: () => (last() > 12 ? 250 : 650), first: 1, go });

  function showCell(now, i, j) {
    const [square, cross] = cells[i][j].children;
    const p = Math.floor(i / size);
    const tile = now.tiles[p].findIndex((start) => within(start, j));
    const here = tile >= 0 && tile === doing(now, p);
    const done = tile >= 0 && step > now.starts[p] + tile;
    const mixed = "color-mix(in srgb, var(--neutral) 45%, transparent)";
    set(square, { fill: here ? mixed : done ? "var(--faint)" : "none" });
    const crossed = causal && j > i && (tile < 0 || here);
    set(cross, { visibility: crossed ? "visible" : "hidden" });
  }
  const band = (p) => ({
    y: high + p * size * unit,
    tall: Math.min(size, n - p * size) * unit,
  });
  function drawBand(now, p) {
    const { y, tall } = band(p);
    const [weight, fill] = doing(now, p) >= 0 ? [700, "currentColor"] : [400, "var(--soft)"];
    const style = `${small}; font-weight: ${weight}; fill: ${fill}`;
    return [
      svg("line", {
        x1: 2, x2: left + n * unit, y1: y, y2: y, stroke: "var(--soft)", "stroke-width": 1.5 }),
      svg("text", { x: left - 8, y: y + tall / 2 + 5, "text-anchor": "middle", style }, String(p)),
    ];
  }
  function drawTile(now, p) {
    const { y, tall } = band(p);
    const start = now.tiles[p][doing(now, p)];
    const frame = { fill: "none", stroke: "var(--rose)", "stroke-width": 4, rx: 2 };
    const width = unit * Math.min(size, n - start);
    return svg("rect", { x: left + start * unit, y, width, height: tall, ...frame });
  }
  function tell(now) {
    const ran = busy(now);
    const idle = slots - ran.length;
    const skipped = Math.ceil(n / size) ** 2 - now.count;
    const tiles = `${now.count} tiles${skipped ? `, ${skipped} skipped` : ""}`;
    const empty = `${plural(idle, "slot is", "slots are")} idle.`;
    const end = `Done after ${plural(now.last, "time step")}: ${tiles}.`
      + (idle ? ` In the last one ${empty}` : "");
    const running = `${ran.length === 1 ? "program" : "programs"} ${ran.join(", ")}`;
    const midway = `${plural(now.tiles.length, "program")}, ${tiles}. Running: ${running}.`
      + (idle > 0 ? ` ${empty}` : "");
    say(step === now.last ? end : midway);
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
  view.append(el("div", {
    class: "beside", style: "gap: 0.5rem 1.5rem; align-items: flex-start; margin: 0" },
  root, panel));
  show();
  expose(() => ({ ...plan(), size, slots, causal, longest, step, busy: busy(plan()) }));
}
for (const figure of document.querySelectorAll("figure[data-drawing=programs]")) draw(stage(figure));
})();
