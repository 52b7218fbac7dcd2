(() => {
// The programs of a grid: each takes a block of queries through its tiles, as many at once as the chip has room for.
function draw({ view, data, el, svg, set, sum, number, plural, said, say, choices, toggle, slider, player, expose }) {
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
    return { tiles, starts, last: Math.max(...free), count: sum(tiles.map((own) => own.length)) };
  }
  const doing = (now, p) => (moment > now.starts[p] && moment <= now.starts[p] + now.tiles[p].length ? moment - now.starts[p] - 1 : -1);
  const busy = (now) => [...now.tiles.keys()].filter((p) => doing(now, p) >= 0);

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
  const last = () => plan().last;
  const time = slider("Moment", { min: 0, max: last(), step: 1, value: moment, text: (x) => `${number(x, 0)} of ${last()}`,
    input: (to) => { play.stop(); moment = to; show(); } });
  function go(to) { moment = to; time.move(to, last()); show(); }  // the slider is as long as the work lasts
  function again(change) { play.stop(); change(); go(0); }
  const play = player({ at: () => moment, last, ms: () => (last() > 12 ? 250 : 650), go });

  // ---- What changes: the squares, the bands of the programs, the tiles at work, the line that is read out ----
  function showCell(now, i, j) {
    const [square, cross] = cells[i][j].children, p = Math.floor(i / size);
    const place = now.tiles[p].findIndex((start) => within(start, j)), here = place >= 0 && place === doing(now, p);
    const done = place >= 0 && moment > now.starts[p] + place;
    set(square, { fill: here ? "color-mix(in srgb, var(--neutral) 45%, transparent)" : done ? "var(--faint)" : "none" });
    set(cross, { visibility: causal && j > i && (place < 0 || here) ? "visible" : "hidden" });
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
    const skipped = Math.ceil(n / size) ** 2 - now.count, tiles = `${now.count} tiles${skipped ? `, ${skipped} left out` : ""}`;
    const ran = busy(now), idle = room - ran.length, places = plural(idle, "place stands", "places stand") + " empty.";
    say(!moment ? `${plural(now.tiles.length, "program")}, ${tiles}. At most ${plural(room, "runs", "run")} at once. Nothing has begun.`
      : moment === now.last ? `Done after ${now.last} moments: ${tiles}.${idle ? ` In the last one ${places}` : ""}`
      : `At work: ${ran.length === 1 ? "program" : "programs"} ${ran.join(", ")}.${idle > 0 ? ` ${places}` : ""}`);
  }
  function show() {
    const now = plan();
    for (const i of all) for (const j of all) showCell(now, i, j);
    bands.replaceChildren(...now.tiles.flatMap((_, p) => drawBand(now, p)));
    lit.replaceChildren(...busy(now).map((p) => drawTile(now, p)));
    tell(now);
  }

  const panel = el("div", { style: "flex: 1 1 300px; min-width: 0" },
    el("div", { class: "row", style: "margin-top: 0" }, play.node, time),
    el("div", { class: "row" }, el("span", {}, "Queries of a program"), choices("Queries of a program", sizes.map(String), data.size, (i) => again(() => { size = sizes[i]; }))),
    el("div", { class: "row" }, el("span", {}, "Programs at once"), choices("Programs at once", rooms.map(String), data.room, (i) => again(() => { room = rooms[i]; }))),
    el("div", { class: "row" }, toggle("no future", false, (on) => again(() => { causal = on; })), toggle("last block first", false, (on) => again(() => { longest = on; }))),
    set(said, { style: "min-height: 4.2em" }));
  view.append(el("div", { class: "beside", style: "gap: 0.5rem 1.5rem; align-items: flex-start; margin: 0" }, root, panel));
  show();
  expose(() => ({ ...plan(), size, room, causal, longest, moment, busy: busy(plan()) }));
}
for (const figure of document.querySelectorAll("figure[data-drawing=programs]")) draw(stage(figure));
})();
