(() => {
function draw({ view, viewWidth, data, el, svg, set, sum, number, plural, listed, said, say,
  choices, toggle, slider, player, motion, expose }) {
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
  const current = () => order().tiles[step - 1];
  const stepsOf = (i) =>
    order().tiles.flatMap(([a], at) => (within(a, i) ? [at + 1] : []));
  function history(i, until = step) {  // one entry for each tile of the query until then
    let [m, l, acc] = [-Infinity, 0, 0];
    const mine = order().tiles.slice(0, until).filter(([a]) => within(a, i));
    return mine.map(([, b]) => {
      const keys = all.filter((j) => within(b, j));
      const seen = keys.map((j) => (hidden(i, j) ? -Infinity : scores[i][j]));
      const next = Math.max(m, ...seen);
      const rescale = m === -Infinity ? 0 : Math.exp(m - next);
      const p = seen.map((s) => Math.exp(s - next));
      const kept = [l * rescale, acc * rescale];
      l = kept[0] + sum(p);
      acc = kept[1] + p.reduce((x, y, at) => x + y * values[keys[at]], 0);
      m = next;
      return { keys, rescale, m, l, acc, kept, context: acc / l };
    });
  }
  const grown = ({ rescale }) => rescale > 0 && rescale < 1;
  function begin() {
    const steps = stepsOf(query);
    const at = history(query, many()).findIndex(grown);
    step = steps.at(at);
  }
  begin();

  const unit = 26, left = 66, high = 54;
  const wide = left + n * unit + 4;
  const x = (j) => left + j * unit;
  const y = (i) => high + i * unit;
  const foot = y(n);
  const phone = viewWidth < 600;
  const air = phone ? 0 : 4;
  const after = { value: 19, m: 39 + air, rescale: 56 + air, l: 100 + 2 * air,
    acc: 144 + 3 * air };
  const lines = Object.fromEntries(Object.entries(after).map(([name, y]) => [name, foot + y]));
  const low = lines.acc + 18 + air;
  const small = "font-size: 13px";
  const listing = tokens.map((token, j) => `${token} ${plain(values[j])}`).join(", ");
  const root = svg("svg", { width: wide, height: low, viewBox: `0 0 ${wide} ${low}`, role: "img",
    "aria-label": "Query–key pairs: a row for each query, a column for each key. "
      + `One tile is framed. Values: ${listing}` });
  const middle = { "text-anchor": "middle" };
  const end = { "text-anchor": "end" };
  const text = (x, y, says, more = {}) => svg("text", { x, y, style: small, ...more }, says);
  const green = { "data-sym": "v", style: `${small}; font-weight: 600` };
  const below = [text(left - 8, lines.value, "value", { ...end, ...green }),
    ...values.map((v, j) =>
      text(x(j) + unit / 2, lines.value, plain(v), { ...middle, ...green }))];
  const names = all.map((i) =>
    text(left - 8, y(i) + 18, tokens[i], { ...end, "data-sym": "q" }));
  const tops = all.map((j) => svg("text", {
    transform: `translate(${x(j) + 17} ${high - 7}) rotate(-90)`, "data-sym": "k",
    style: small }, tokens[j]));
  const cellAt = (i, j) => svg("rect", { x: x(j), y: y(i), width: unit, height: unit,
    stroke: "var(--faint)", fill: "none" });
  const cells = all.map((i) => all.map((j) => cellAt(i, j)));
  const watched = svg("rect", { "data-sym": "q", x: 2, width: left + n * unit, height: unit,
    fill: "none", stroke: "var(--q)", "stroke-width": 2, rx: 3 });
  const frame = svg("rect", { fill: "none", stroke: "var(--rose)", "stroke-width": 4, rx: 2 });
  const stripes = svg("pattern", { id: "tiles-masked", width: 6, height: 6,
    patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
  svg("rect", { width: 1.5, height: 6, fill: "var(--faint)" }));
  root.append(svg("defs", {}, stripes), ...names, ...tops, ...cells.flat(), ...below,
    watched, frame);

  const soft = `${small}; fill: var(--soft)`;
  const labels = { m: "max m", rescale: "rescale", l: "sum ℓ", acc: "acc a" };
  root.append(...Object.entries(labels).map(([name, says]) =>
    text(left - 8, lines[name], says, { ...end, style: soft })),
  ...["l", "acc"].map((name) => svg("path", { d: `M${left} ${lines[name]}H${x(n)}`,
    stroke: "var(--faint)" })),
  text(0, low - 2, "pale: before × rescale; full: added by the tile", {
    style: "font-size: 12px; fill: var(--soft)" }));
  const tall = 26;
  function barAt(name, hue, sym) {
    const look = { fill: `var(--${hue})`, "data-sym": sym, class: "moves", width: 0, height: 0 };
    const parts = [0.35, 0.85].map((opacity) => svg("rect", { ...look, "fill-opacity": opacity }));
    const says = text(0, 0, "", { ...middle, style: "font-size: 12px" });
    root.append(...parts, says);
    return { name, parts, says };
  }
  const marks = all.map(() => ({
    m: text(0, lines.m, "", middle),
    rescale: text(0, lines.rescale, "", middle),
    bars: [barAt("l", "w", "w"), barAt("acc", "v", "v")],
  }));
  root.append(...marks.flatMap(({ m, rescale }) => [m, rescale]));
  const digits = () => (size * unit < 36 ? 1 : 2);
  function showBar({ name, parts, says }, at, one, most) {
    const value = one?.[name] ?? 0;
    const kept = one?.kept[name === "l" ? 0 : 1] ?? 0;
    const long = (part) => Math.abs((tall * part) / most[name]);
    const floor = lines[name];
    const width = Math.min(size * unit - 8, 34);
    const heights = [long(kept), long(value - kept)];
    parts.forEach((part, i) => set(part, { x: at - width / 2, width, height: heights[i],
      y: floor - heights[0] - (i ? heights[1] : 0) }));
    says.textContent = one ? number(value, digits()) : "";
    set(says, { x: at, y: floor - heights[0] - heights[1] - 4 });
  }
  function showMarks(past) {
    const whole = history(query, many());
    const most = {
      l: Math.max(...whole.map(({ l }) => l)),
      acc: Math.max(1e-9, ...whole.map(({ acc }) => Math.abs(acc))),
    };
    marks.forEach(({ m, rescale, bars }, i) => {
      const one = past[i];
      const at = x(Math.min(i * size, n)) + (size * unit) / 2;
      for (const node of [m, rescale]) set(node, { x: at });
      m.textContent = one ? plain(one.m) : "";
      const says = one?.rescale && (size > 1 || grown(one));  // each 1.00 has no room in a tile of 1
      rescale.textContent = says ? number(one.rescale) : "";
      set(rescale, { style: `${small}; font-weight: ${one && grown(one) ? 700 : 400}` });
      bars.forEach((bar) => showBar(bar, at, one, most));
    });
  }

  const broad = phone ? viewWidth : viewWidth - wide - 22;
  const [row, field] = phone ? [19, 118] : [43, 150];
  const most = Math.max(...sizes);
  const roof = 46, floor = roof + most * row;
  const box = svg("svg", { width: broad, height: floor + 32, role: "img",
    viewBox: `0 0 ${broad} ${floor + 32}` });
  const first = 90;
  const columns = [2, 1, 0].map((i) => broad - 12 - i * (phone ? 46 : 58));
  const bold = `${small}; font-weight: 600`;
  const heads = ["max m", "sum ℓ", "acc a"].map((says, i) =>
    text(columns[i], roof - 9, says, { ...end, style: soft }));
  box.append(svg("rect", { x: 1.5, y: 1.5, width: broad - 3, height: floor + 29, rx: 6,
    fill: "none", stroke: "var(--rose)", "stroke-width": 3 }),
  text(12, 20, "in fast memory", { style: bold }), ...heads,
  text(66, roof - 9, "keys", { ...end, "data-sym": "k" }),
  text(66, floor + 20, "values", { ...end, "data-sym": "v" }));
  const held = svg("text", { ...end, x: broad - 12, y: 20, style: soft });
  const inside = svg("g", {});
  box.append(held, inside);
  const block = (x, y, width, height, hue, more = {}) => svg("rect", { x: x + 1, y: y + 1,
    width: width - 2, height: height - 2, fill: `var(--${hue})`, "data-sym": hue, ...more });
  function tint(i, j, m) {  // the exponential of a score, as a shade
    const e = hidden(i, j) ? 0 : Math.exp(scores[i][j] - m);
    return `color-mix(in srgb, var(--w) ${(55 * e).toFixed(1)}%, var(--paper))`;
  }
  function scoreAt(i, j, at, [w, h], m) {
    const edge = { stroke: "var(--soft)", "stroke-width": 0.7 };
    const says = hidden(i, j) ? "×" : plain(scores[i][j]);
    return [block(...at, w, h, "w", { fill: tint(i, j, m), ...edge }),
      text(at[0] + w / 2, at[1] + h / 2 + 5, says, middle)];
  }
  function queryAt(i, keys, top, [w, h]) {
    const { m, l, acc } = history(i).at(-1);
    const mid = top + h / 2 + 5;
    const style = i === query ? bold : small;
    const three = [plain(m), number(l), number(acc)];
    return [text(66, mid, tokens[i], { ...end, style, "data-sym": "q" }),
      block(70, top, 14, h, "q"),
      ...keys.flatMap((j, at) => scoreAt(i, j, [first + at * w, top], [w, h], m)),
      ...three.map((says, at) => text(columns[at], mid, says, { ...end, style,
        class: i === query ? "chosen" : null }))];
  }
  function showBox([a, b]) {
    const rows = all.filter((i) => within(a, i)), keys = all.filter((j) => within(b, j));
    const cell = [field / size, (most * row) / size];
    const across = (j) => [first + (j - b) * cell[0], cell[0]];
    inside.replaceChildren(
      ...keys.map((j) => block(across(j)[0], roof - 18, across(j)[1], 14, "k")),
      ...rows.flatMap((i) => queryAt(i, keys, roof + (i - a) * cell[1], cell)),
      ...keys.flatMap((j) => [
        block(across(j)[0], floor + 6, across(j)[1], 18, "v", { "fill-opacity": 0.25 }),
        text(across(j)[0] + across(j)[1] / 2, floor + 20, plain(values[j]), {
          ...middle, ...green })]));
    const count = rows.length * keys.length;
    held.textContent = `${plural(count, "score")} of ${n * n}`;
    set(box, { "aria-label": `In fast memory: ${plural(count, "score")} of ${n * n}, and the `
      + "maximum, sum and accumulator of each query" });
  }

  const steps = slider("Tile", { min: 1, max: many(), step: 1, value: step,
    text: (x) => `${number(x, 0)} of ${many()}`,
    input: (to) => {
      play.stop();
      go(to);
    } });
  function go(to) {  // the chosen query is one of the tile's
    step = to;
    const [a] = current();
    if (!within(a, query)) query = Math.min(n - 1, a + (query % size));
    settle();
  }
  function choose(i) {  // the tile moves to the block of this query, at the same keys if it can
    const [, b] = current();
    const { tiles } = order();
    query = i;
    const mine = stepsOf(i);
    step = mine.find((at) => tiles[at - 1][1] === b) ?? mine.at(-1);
    settle();
  }
  function settle() {
    steps.move(step, many());  // the slider is as long as there are tiles
    queries.move(query);
    show();
  }
  function again(change) {
    play.stop();
    change();
    begin();
    settle();
  }
  const pace = () => (many() > 20 ? 400 : 900);
  const play = player({ at: () => step, last: many, ms: pace, first: 1, go });

  const holds = ([a, b], i, j) => within(a, i) && within(b, j);
  function fillOf(i, j, { now, before, skipped }) {
    if (holds(now, i, j)) return tint(i, j, history(i).at(-1).m);
    if (before.some((tile) => holds(tile, i, j))) return "var(--faint)";
    const never = hidden(i, j) || skipped.some((tile) => holds(tile, i, j));
    return never ? "url(#tiles-masked)" : "none";
  }
  const glide = motion();
  let at = null;
  function slide([i, j]) {
    const reach = (start) => unit * Math.min(size, n - start);
    const to = { x: x(j), y: y(i), width: reach(j), height: reach(i) };
    const from = at ?? to;
    glide(300, (t) => {
      at = Object.fromEntries(Object.keys(to).map((name) =>
        [name, from[name] + (to[name] - from[name]) * t]));
      set(frame, at);
    });
  }
  function told({ tiles, skipped, past }) {
    const last = past.at(-1);
    const [l, acc] = [number(last.l), number(last.acc)];
    if (step === tiles.length) {
      const left = skipped.length ? `, ${skipped.length} skipped` : "";
      return `Done. ${tiles.length} tiles were computed${left}; `
        + `never more than ${plural(size * size, "score")} at once, of ${n * n}.`;
    }
    const context = step === stepsOf(query).at(-1)
      ? ` Context: ${acc} divided by ${l} is ${number(last.context)}.` : "";
    const who = listed([tokens[query]]);
    const news = grown(last) ? `A larger score, ${plain(last.m)}: sum and acc of ${who} are `
      + `multiplied by ${number(last.rescale)}, then ${l} and ${acc}.`
      : `The largest score of ${who} is ${plain(last.m)}; its sum is ${l}, acc ${acc}.`;
    return news + context;
  }
  function show() {
    const { tiles, skipped } = order();
    const past = history(query);
    const now = current();
    const before = tiles.slice(0, step);
    for (const i of all) {
      for (const j of all) set(cells[i][j], { fill: fillOf(i, j, { now, before, skipped }) });
    }
    const weight = (on) => ({ style: `${small}; font-weight: ${on ? 700 : 400}` });
    names.forEach((name, i) => set(name, weight(i === query)));
    tops.forEach((name, j) => set(name, weight(within(now[1], j))));
    set(watched, { y: y(query) });
    slide(now);
    showMarks(past);
    showBox(now);
    say(told({ tiles, skipped, past }));
  }

  function beside(range) {  // on a phone, too, it stands in the row of the button
    range.querySelector("input").style.width = phone ? "26vw" : "10rem";
    return range;
  }
  const queries = slider("Query", { min: 0, max: n - 1, step: 1, value: query,
    input: (i) => {
      play.stop();
      choose(i);
    },
    text: (i) => listed([tokens[i]]) });
  const sizing = choices("Tile size", sizes.map(String), data.chosen, (i) =>
    again(() => { size = sizes[i]; }));
  const masking = toggle("causal mask", false, (on) => again(() => { causal = on; }));
  set(said, { style: "min-height: 4.2em; margin-top: 0.3rem" });
  const panel = el("div", { style: `flex: none; width: ${broad}px; max-width: 100%` }, box,
    el("div", { class: "row" }, play.node, beside(steps)),
    queries,
    el("div", { class: "row", style: "margin-bottom: 0" }, el("span", {}, "Tile size"), sizing,
      masking),
    said);
  const whole = "gap: 0.5rem 20px; align-items: flex-start; margin: 0";
  view.append(el("div", { class: "beside", style: whole }, root, panel));
  show();
  expose(() => {
    const { m = null, l = 0, context = 0 } = history(query).at(-1) ?? {};
    const { tiles, skipped } = order();
    return { step, size, causal, query, tiles, skipped: skipped.length, m, l, context };
  });
}
for (const figure of document.querySelectorAll("figure[data-drawing=tiles]")) begin(figure, draw);
})();
