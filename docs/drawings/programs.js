(() => {
// The programs of a grid: each takes a block of queries through its tiles, as many at once as the chip has room for.
function draw({ view, data, el, svg, set, number, said, say, choices, toggle, slider, player, expose }) {
  const { words, sizes, rooms } = data, n = words.length, all = [...words.keys()];
  let size = sizes[data.size], room = rooms[data.room], causal = false, longest = false, moment = 0;

  // ---- What is computed ----
  const within = (start, k) => k >= start && k < start + size;
  function programs() {  // the first key of each tile, for each block of queries
    return all.filter((i) => i % size === 0).map((i) => all.filter((j) => j % size === 0 && !(causal && j > Math.min(i + size, n) - 1)));
  }
  function plan() {  // when each program starts: as soon as a place is free
    const tiles = programs(), free = Array(room).fill(0), starts = [];
    const order = [...tiles.keys()];
    if (longest) order.reverse();
    for (const p of order) {
      const place = free.indexOf(Math.min(...free));
      starts[p] = free[place];
      free[place] += tiles[p].length;
    }
    return { tiles, starts, last: Math.max(...free), count: tiles.reduce((sum, own) => sum + own.length, 0) };
  }
  const doing = (now, p) => (moment > now.starts[p] && moment <= now.starts[p] + now.tiles[p].length ? moment - now.starts[p] - 1 : -1);

  // ---- The grid ----
  const unit = 32, left = 70, high = 58;
  const [w, h] = [left + n * unit + 4, high + n * unit + 4];
  const root = svg("svg", { width: w, height: h, viewBox: `0 0 ${w} ${h}`, role: "img", "aria-label": "A grid of queries and keys; each program has a band of rows" });
  const small = "font-size: 13px";
  const names = all.map((i) => svg("text", { x: left - 22, y: high + i * unit + 21, "text-anchor": "end", "data-sym": "q", style: small }, words[i]));
  const tops = all.map((j) => svg("text", { transform: `translate(${left + j * unit + 20} ${high - 7}) rotate(-90)`, "data-sym": "k", style: small }, words[j]));
  const cells = all.map((i) => all.map((j) => svg("g", {},
    svg("rect", { x: left + j * unit, y: high + i * unit, width: unit, height: unit, stroke: "var(--faint)", fill: "none" }),
    svg("path", { d: `M${left + j * unit + 9} ${high + i * unit + 9}l14 14m0 -14l-14 14`, stroke: "var(--soft)", visibility: "hidden" }))));
  const bands = svg("g", {}), lit = svg("g", {});
  root.append(...names, ...tops, ...cells.flat(), bands, lit);

  // ---- Controls ----
  const steps = el("div", {});
  function span() {  // the slider is as long as the work lasts
    const { last } = plan();
    moment = Math.min(moment, last);
    steps.replaceChildren(slider("Moment", { min: 0, max: last, step: 1, value: moment, input: (to) => { play.stop(); moment = to; show(); }, text: (x) => `${number(x, 0)} of ${last}` }));
  }
  function again(change) { play.stop(); change(); moment = 0; span(); show(); }
  const play = player({ at: () => moment, last: () => plan().last, ms: () => (plan().last > 12 ? 250 : 650),
    go: (to) => { moment = to; steps.firstChild.move(to); show(); } });

  function show() {
    const now = plan(), total = Math.ceil(n / size) ** 2;
    const block = (k) => Math.floor(k / size);
    all.forEach((i) => all.forEach((j) => {
      const [square, cross] = cells[i][j].children, p = block(i), own = now.tiles[p];
      const place = own.findIndex((start) => within(start, j)), at = doing(now, p), here = place >= 0 && place === at;
      const done = place >= 0 && moment > now.starts[p] + place;
      set(square, { fill: here ? "color-mix(in srgb, var(--neutral) 45%, transparent)" : done ? "var(--faint)" : "none" });
      set(cross, { visibility: causal && j > i && (place < 0 || here) ? "visible" : "hidden" });
    }));
    bands.replaceChildren(...now.tiles.flatMap((own, p) => {
      const y = high + p * size * unit, tall = Math.min(size, n - p * size) * unit, busy = doing(now, p) >= 0;
      return [svg("line", { x1: 2, x2: left + n * unit, y1: y, y2: y, stroke: "var(--soft)", "stroke-width": 1.5 }),
        svg("text", { x: left - 8, y: y + tall / 2 + 5, "text-anchor": "middle", style: `${small}; font-weight: ${busy ? 700 : 400}; fill: ${busy ? "currentColor" : "var(--soft)"}` }, String(p))];
    }));
    lit.replaceChildren(...now.tiles.flatMap((own, p) => {
      const at = doing(now, p);
      return at < 0 ? [] : [svg("rect", { x: left + own[at] * unit, y: high + p * size * unit, width: unit * Math.min(size, n - own[at]),
        height: unit * Math.min(size, n - p * size), fill: "none", stroke: "var(--rose)", "stroke-width": 4, rx: 2 })];
    }));
    const busy = now.tiles.map((_, p) => p).filter((p) => doing(now, p) >= 0), skipped = total - now.count;
    const idle = room - busy.length, places = `${idle} ${idle === 1 ? "place stands" : "places stand"} empty`;
    say(!moment ? `${now.tiles.length} ${now.tiles.length === 1 ? "program" : "programs"}, ${now.count} tiles${skipped ? `, ${skipped} left out` : ""}. ${room} ${room === 1 ? "runs" : "run"} at once. Nothing has begun.`
      : moment === now.last ? `Done after ${now.last} moments: ${now.count} tiles${skipped ? `, ${skipped} left out` : ""}.${idle ? ` In the last one ${places}.` : ""}`
      : `At work: ${busy.length === 1 ? "program" : "programs"} ${busy.join(", ")}.${idle > 0 ? ` ${places[0].toUpperCase() + places.slice(1)}.` : ""}`);
  }

  const panel = el("div", { style: "flex: 1 1 300px; min-width: 0" },
    el("div", { class: "row", style: "margin-top: 0" }, play.node, steps),
    el("div", { class: "row" }, el("span", {}, "Queries of a program"), choices("Queries of a program", sizes.map(String), data.size, (i) => again(() => { size = sizes[i]; }))),
    el("div", { class: "row" }, el("span", {}, "Programs at once"), choices("Programs at once", rooms.map(String), data.room, (i) => again(() => { room = rooms[i]; }))),
    el("div", { class: "row" }, toggle("no future", false, (on) => again(() => { causal = on; })), toggle("last block first", false, (on) => again(() => { longest = on; }))),
    set(said, { style: "min-height: 4.2em" }));
  view.append(el("div", { class: "beside", style: "gap: 0.5rem 1.5rem; align-items: flex-start; margin: 0" }, root, panel));
  span();
  show();
  expose(() => ({ ...plan(), size, room, causal, longest, moment, busy: plan().tiles.map((_, p) => p).filter((p) => doing(plan(), p) >= 0) }));
}
for (const figure of document.querySelectorAll("figure[data-drawing=programs]")) draw(stage(figure));
})();
