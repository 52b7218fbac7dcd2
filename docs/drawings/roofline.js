(() => {
function draw({ view, viewWidth, data, el, svg, set, number, grouped, plural, say, said,
  slider, choices, more, motion, expose }) {
  const { peak, bandwidth, heads, width, model, latent, window, bits, example } = data;
  let { n, kv } = data;
  let b = 1;
  let phase = 0;  // 0: two dots; 1: a layer in prefill; 2: in decode

  function pairs(nq, nk, causal, near) {
    if (!causal && near == null) return nq * nk;
    const w = Math.min(near ?? nk, nk);
    const first = (m) => (m <= w ? (m * (m + 1)) / 2 : (w * (w + 1)) / 2 + (m - w) * w);
    return first(nk) - first(Math.max(0, nk - nq));
  }
  function attention({ dk = width, dv = dk, cached = heads * (dk + dv), causal = true, near = null,
    passes = 0 }) {
    const nq = phase === 2 ? 1 : n;
    const reach = near == null ? n : Math.min(n, nq + near - 1);
    const perQuery = heads * nq * (dk + dv + passes * n);
    const operations = 2 * b * heads * pairs(nq, n, causal, near) * (dk + dv);
    return { operations, moved: (b * (cached * reach + perQuery) * bits) / 8 };
  }
  function projections() {
    const tokens = phase === 2 ? 1 : n;
    const widths = 2 * (heads + kv) * width;
    const parameters = model * widths;
    const vectors = b * tokens * (4 * model + widths);
    return { operations: 2 * b * tokens * parameters, moved: ((parameters + vectors) * bits) / 8 };
  }
  function oneHead(queries) {  // without a mask: each pair takes a score and a part of the context
    const { n, d } = example;
    const numbers = 2 * queries * d + 2 * n * d;
    return { operations: queries * n * 4 * d, moved: (numbers * bits) / 8 };
  }
  function latentAttention() {
    if (phase !== 2) return null;
    const dk = latent[0] + latent[1];
    return attention({ dk, dv: latent[0], cached: dk });
  }
  const least = ({ operations, moved }) => Math.max(operations / peak, moved / bandwidth);
  const keys = (count) => (count === 1 ? "one head of keys" : `${count} heads of keys`);
  const shared = () => 2 * kv * width;  // numbers in the cache for each token
  const ways = [  // `word` stands beside the dot, `name` in the table; `two`: one of the two dots
    { letter: "P", colour: "var(--neutral)", cost: projections,
      word: () => "projections", name: () => "projections" },
    { letter: "M", colour: "var(--soft)", cost: () => attention({ causal: false, passes: 4 }),
      word: () => "naive", name: () => "naive attention" },
    { letter: "A", colour: "#1a9ba3", cost: () => attention({}),
      word: () => "32 key heads", name: () => plural(heads, "key head") },
    { letter: "G", colour: "var(--rose)", cost: () => attention({ cached: shared() }),
      word: () => plural(kv, "key head"), name: () => plural(kv, "key head") },
    { letter: "W", colour: "#94901f", cost: () => attention({ cached: shared(), near: window }),
      word: () => "window", name: () => `window of ${grouped(window)}` },
    { letter: "L", colour: "#a35f4a", cost: latentAttention,
      word: () => "latent", name: () => "latent attention" },
    { letter: "prefill", colour: "#1a9ba3", cost: () => oneHead(example.n), two: true,
      word: () => "prefill", name: () => `prefill: ${inNumbers(oneHead(example.n))}` },
    { letter: "decode", colour: "var(--rose)", cost: () => oneHead(1), two: true,
      word: () => "decode", name: () => `decode: ${inNumbers(oneHead(1))}` },
  ];
  const inNumbers = ({ operations, moved }) =>
    `${grouped(operations)} operations, ${grouped(moved)} bytes`;
  const listed = (way) => Boolean(way.two) === (phase === 0);
  const found = () => ways.map((way) => {
    const cost = listed(way) ? way.cost() : null;
    if (!cost) return cost;
    const { operations, moved } = cost;
    const seconds = least(cost);
    return { ...cost, intensity: operations / moved, seconds, rate: operations / seconds };
  });

  const wide = Math.min(620, viewWidth || 350);
  const high = 300, left = 42;
  const end = wide - 12;
  const low = -3, top = 15;  // doublings of the intensity
  const ridge = peak / bandwidth;
  const line = 18;
  const sky = 5 * line + 14;
  const x = (intensity) => left + ((wide - left - 12) * (Math.log2(intensity) - low)) / (top - low);
  const ceiling = Math.log2(peak);
  const floor = Math.log2(2 ** low * bandwidth) - 3;
  const y = (rate) => sky + ((high - sky) * (ceiling - Math.log2(rate))) / (ceiling - floor);
  const label = (at, up, text, anchor = "middle", style = "") =>
    svg("text", { x: at, y: up, "text-anchor": anchor, style: `font-size: 13px; ${style}` }, text);
  const some = [0.25, 1, 4, 16, 64, 256, 1024, 4096, 16384];
  const marks = some.filter((_, i) => wide > 420 || i % 2 === 0);
  const slope = `M${x(2 ** low)} ${y(2 ** low * bandwidth)}L${x(ridge)} ${y(peak)}`;
  const chart = svg("svg", { width: wide, height: high + 42, viewBox: `0 0 ${wide} ${high + 42}`,
    "aria-hidden": true },
    svg("path", { d: `M${x(ridge)} ${y(peak)}H${end}V${high}H${x(ridge)}Z`,
      fill: "var(--faint)", opacity: 0.6 }),
    ...marks.map((mark) => svg("path", { d: `M${x(mark)} ${high}v-5`, stroke: "var(--soft)" })),
    ...marks.map((mark) => label(x(mark), high + 17, mark < 1 ? "¼" : grouped(mark))),
    svg("path", { d: `M${left} ${high}H${end}`, stroke: "var(--soft)" }),
    svg("path", { d: `${slope}H${end}`, stroke: "currentColor", "stroke-width": 2.5, fill: "none",
      "stroke-linejoin": "round" }),
    label((left + wide - 12) / 2, high + 37, "operations per byte"),
    svg("text", { transform: `translate(14 ${high / 2}) rotate(-90)`, "text-anchor": "middle",
      style: "font-size: 13px" }, "operations per second"),
    label(x(ridge) + 8, high - 10, "compute-bound", "start"),
    label(x(ridge) - 8, high - 10, "memory-bound", "end"));
  const dots = ways.map(({ colour }) => {
    const circle = svg("circle", { r: 6, fill: colour });
    const stem = svg("path", { stroke: colour, "stroke-width": 1.5, opacity: 0.7, fill: "none" });
    const text = label(0, 0, "", "start", "font-weight: 600");
    const node = svg("g", {}, stem, circle, text);
    chart.append(node);
    return { node, circle, stem, text, at: null };
  });
  function counted(queries) {
    const cost = oneHead(queries);
    const cx = x(cost.operations / cost.moved);
    const flat = queries > 1;
    const top = flat ? sky - 14 - 3 * line : y(cost.operations / least(cost)) + 5;
    const says = [
      `${grouped(queries)} · ${grouped(example.n)} pairs`,
      `${4 * example.d} operations each`,
      `${grouped((cost.moved * 8) / bits)} numbers of ${bits / 8} bytes`,
    ];
    const [at, anchor] = flat ? [cx - 8, "end"] : [cx + 15, "start"];
    const soft = "fill: var(--soft)";
    return says.map((text, i) => label(at, top + (i + 1) * line, text, anchor, soft));
  }
  const notes = [...counted(example.n), ...counted(1)];
  chart.append(...notes);
  function place(dot, at, flat) {
    const [cx, cy, up] = dot.at = at;
    set(dot.circle, { cx, cy });
    set(dot.stem, { d: flat ? `M${cx} ${cy}V${up + 4}` : `M${cx} ${cy}V${up}H${cx + 12}` });
    set(dot.text, { x: flat ? cx - (phase ? -2 : 8) : cx + 15, y: up + (flat ? 0 : 5),
      "text-anchor": flat ? "end" : "start" });
  }
  function heights(found) {
    const order = [...found.keys()].filter((i) => found[i])
      .sort((i, j) => found[i].intensity - found[j].intensity || i - j);
    const flat = order.filter((i) => found[i].intensity > ridge);
    const slope = order.filter((i) => found[i].intensity <= ridge).reverse();
    const flag = phase ? 0 : 3;  // lines below its name
    const at = new Map(flat.map((i, k) => [i, sky - 14 - (k + flag) * line]));
    const lowest = (k) => high - 34 - (slope.length - 1 - k) * line;
    slope.reduce((above, i, k) => {
      const own = Math.min(Math.max(y(found[i].rate), above + line), lowest(k));
      at.set(i, own);
      return own;
    }, -Infinity);
    return at;
  }

  const three = { minimumSignificantDigits: 3, maximumSignificantDigits: 3 };
  function clock(s) {  // of the longest time: one unit for all
    if (s >= 1) return [1, "s"];
    return s >= 1e-3 ? [1e3, "ms"] : [1e6, "µs"];
  }
  const size = (i) => number(i, i < 10 ? 1 : 0);
  const cell = (style) => el("span", style ? { style } : {});
  const list = ways.map(({ colour }) => {
    const [name, intensity, time] = ["", "text-align: right", "text-align: right"].map(cell);
    const dot = el("span", { style: "display: inline-block; width: 11px; height: 11px; "
      + `border-radius: 50%; background: ${colour}` });
    const head = el("b", { style: "align-self: start; white-space: nowrap" }, dot);
    return { name, intensity, time, all: [head, name, intensity, time] };
  });
  const heading = (text) => el("span", { style: "text-align: right; align-self: end" }, text);
  const grid = "display: grid; grid-template-columns: max-content auto auto auto; "
    + "gap: 0.15rem 0.7rem; width: fit-content; align-items: start; "
    + "font-variant-numeric: tabular-nums; font-size: 14px";
  const table = el("div", { style: grid },
    cell(), cell(), heading("operations per byte"), heading("minimum time"),
    ...list.flatMap((item) => item.all));

  const glide = motion();
  function move(now) {  // dots and names, from where they are
    const from = dots.map((dot) => dot.at);
    const names = heights(now);
    dots.forEach((dot, i) => { dot.text.textContent = now[i] ? ways[i].word() : ""; });
    glide(350, (f) => dots.forEach((dot, i) => {
      set(dot.node, { visibility: now[i] ? "visible" : "hidden" });
      if (!now[i]) {
        dot.at = null;
        return;
      }
      const to = [x(now[i].intensity), y(now[i].rate), names.get(i)];
      const start = from[i] ?? to;
      const at = to.map((end, k) => start[k] + (end - start[k]) * f);
      place(dot, at, now[i].intensity > ridge);
    }));
  }
  function show() {
    const now = found();
    const longest = Math.max(...now.filter(Boolean).map((cost) => cost.seconds));
    const [per, unit] = clock(longest);
    move(now);
    list.forEach((item, i) => {
      item.all.forEach((cell) => { cell.style.display = listed(ways[i]) ? "" : "none"; });
      item.name.textContent = ways[i].name();
      item.intensity.textContent = now[i] ? size(now[i].intensity) : "–";
      const time = now[i] && `${grouped(now[i].seconds * per, three)} ${unit}`;
      item.time.textContent = time ?? "decode only";
    });
    sliders.style.display = phase ? "" : "none";
    for (const note of notes) set(note, { visibility: phase ? "hidden" : "visible" });
    say(phase ? inALayer(now[3]) : ofTwo(now[6], now[7]));
  }
  const limit = (cost) =>
    (cost.operations / peak < cost.moved / bandwidth ? "memory-bound" : "compute-bound");
  function inALayer(shared) {
    const what = phase === 2 ? "One step of decode after" : "Prefill of";
    const batch = b > 1 ? `, a batch of ${b} sequences` : "";
    return `${what} ${plural(n, "token")}${batch}: attention with ${keys(kv)} `
      + `does ${size(shared.intensity)} operations per byte; it is ${limit(shared)}.`;
  }
  const ofTwo = (first, second) => "One head: " +
    `prefill does ${size(first.intensity)} operations per byte and is ${limit(first)}; ` +
    `decode does ${size(second.intensity)} and is ${limit(second)}.`;
  const power = (log) => grouped(2 ** log);
  function control(name, max, value, input) {
    const moved = (log) => {
      input(2 ** log);
      show();
    };
    return slider(name, { min: 0, max, step: 1, value: Math.log2(value), text: power,
      input: moved });
  }
  const side = { class: "beside", style: "align-items: start; gap: 0 2rem; margin: 0" };
  const sliders = el("div", side,
    control("Tokens", 17, n, (to) => { n = to; }),
    more(
      control("Heads of keys", 5, kv, (to) => { kv = to; }),
      control("Batch size", 8, b, (to) => { b = to; })));
  const room = wide > 420 ? 1.4 : 4.2;
  const modes = ["two dots", "a layer in prefill", "a layer in decode"];
  const picker = choices("What is shown", modes, 0, (i) => {
    phase = i;
    show();
  });
  view.append(
    el("div", { class: "row", style: "margin-top: 0" }, picker),
    chart,
    sliders,
    el("div", { style: `min-height: ${room}em; margin: 0.2rem 0 0.5rem` }, said),
    table);
  show();
  const byLetter = () => {
    const now = found();
    return Object.fromEntries(ways.map((way, i) => [way.letter, now[i]]));
  };
  expose(() => ({ n, kv, b, phase, peak, bandwidth, ridge, ways: byLetter() }));
}
for (const figure of document.querySelectorAll("figure[data-drawing=roofline]")) draw(stage(figure));
})();
