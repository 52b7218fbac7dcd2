(() => {
function draw(stage) {
  const { view, viewWidth, data, el, svg, set, number, grouped, plural, said, say } = stage;
  const { slider, choices, motion, expose } = stage;
  const { d_head, d_latent, d_rope, shared, choice, forms } = data;
  const wide = viewWidth >= 600;
  const columns = wide ? 64 : 43;
  const move = motion();
  let heads = data.heads;
  let tokens = data.tokens;
  let form = 0;
  let state;

  const kinds = () => ({ MHA: heads, GQA: Math.min(shared, heads), MQA: 1 });
  function count(n = tokens) {
    const cached = Object.entries(kinds()).map(([kind, h]) => [kind, 2 * h * d_head]);
    const make = 2 * d_latent * d_head;  // between a latent vector and a key, and a value
    const wider = { expanded: 2 * d_head + d_rope, absorbed: 2 * d_latent + d_rope };
    const made = { expanded: n * make, absorbed: make };
    const read = (form) => n * wider[form];
    const total = (form) => heads * (made[form] + read(form));
    const work = Object.fromEntries(forms.map((form) => [form, total(form)]));
    return { cached: Object.fromEntries([...cached, ["MLA", d_latent + d_rope]]), work };
  }

  const text = (x, y, says, more = {}) => svg("text", { x, y, "aria-hidden": true, ...more }, says);
  const bold = { style: "font-weight: 600" };
  const small = { style: "font-size: 13px; fill: var(--soft)" };
  const middle = { "text-anchor": "middle" };
  const step = wide ? 10 : 7;
  const left = wide ? 62 : 56;
  const fig = (width, height) =>
    svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img" });
  const lines = Math.ceil(Math.max(...choice) / columns);
  const first = 24 + 2 * step * lines + 12;
  const lower = wide ? 38 : 36;
  const tops = [24, first, first + lower, first + 2 * lower];
  const board = fig(left + columns * step, tops[3] + 32);
  const names = ["MHA", "GQA", "MQA", "MLA"];
  const totals = names.map((name, i) => {
    const node = text(0, tops[i] + 27, "", small);
    board.append(text(0, tops[i] + 12, name, bold), node);
    return node;
  });
  const square = (i, top, sym) => svg("rect", {
    x: left + step * (i % columns), y: top + step * Math.floor(i / columns),
    width: step - 1, height: step - 1, fill: `var(--${sym})`, "data-sym": sym });
  const most = { MHA: Math.max(...choice), GQA: shared, MQA: 1 };
  const squares = Object.entries(most).map(([kind, n], row) => {
    const top = tops[row];
    const below = top + step * Math.ceil(n / columns) + 3;
    const both = [["k", top], ["v", below]].map(([sym, y]) =>
      Array.from({ length: n }, (_, i) => square(i, y, sym)));
    board.append(...both.flat());
    return { kind, both };
  });
  const beside = (i, x, says) => text(left + x + 10, tops[i] + 14, says, small);
  const bar = (x, width, hue, more = {}) => svg("rect", { x, y: tops[3] + 5, width: width - 1,
    height: step, fill: `var(--${hue})`, ...more });
  const perSquare = step / 128, wideLatent = d_latent * perSquare;
  board.append(bar(left, wideLatent, "neutral"),
    bar(left + wideLatent, d_rope * perSquare, "k", { "data-sym": "k" }),
    text(0, 10, "numbers cached for each token, by one layer", small),
    beside(1, step * shared, `keys and values of ${shared} heads`),
    beside(2, step, "one key and one value for all heads"),
    beside(3, wideLatent + d_rope * perSquare, `latent ${d_latent} + rotated part ${d_rope}`));

  const way = fig(340, 284);
  const at = { k: 44, v: 132, q: 270, mix: 200 };
  const scale = 72 / d_latent;
  const [latent, head, rope] = [d_latent, d_head, d_rope].map((n) => n * scale);
  const block = (x, y, width, rows, hue, more = {}) => Array.from({ length: rows }, (_, i) =>
    svg("rect", { x: x - width / 2, y: y + 8 * i, width, height: 7,
      fill: `var(--${hue})`, ...more }));
  const sym = (name) => ({ "data-sym": name });
  const line = (d, more = {}) => svg("path", { d, fill: "none", stroke: "var(--soft)", ...more });
  const tip = (x, y) => svg("path", { d: `M${x} ${y}l-4 -7h8z`, fill: "var(--soft)" });
  function box(says) {
    const [width, high] = [latent, head + 4];
    const frame = { x: -width / 2, y: 0, width, height: high, rx: 3, fill: "var(--paper)" };
    const shade = { ...frame, fill: "var(--neutral)", "fill-opacity": 0.14 };
    return svg("g", {}, svg("rect", frame),
      svg("rect", { ...shade, stroke: "var(--neutral)", "stroke-width": 2 }),
      text(0, high - 7, says, { ...middle, ...bold }));
  }
  const boxes = { k: box("W_k"), v: box("W_v") };
  const ends = { k: [[at.k, 82], [at.q, 50]], v: [[at.v, 82], [at.mix, 238]] };
  const group = (...parts) => svg("g", {}, ...parts.flat());
  const rotated = { ...sym("k"), "fill-opacity": 0.5 };
  const centred = { ...small, ...middle };
  const made = group(
    block(at.k, 120, head, 5, "k", sym("k")), block(at.v, 120, head, 5, "v", sym("v")),
    block(at.k + head / 2 + rope / 2 + 2, 120, rope, 5, "k", rotated),
    text(at.k - 14, 144, "keys", { ...small, "text-anchor": "end" }),
    text(at.v + 14, 144, "values", small));
  const absorbed = group(
    block(at.q, 92, latent, 1, "q", sym("q")),
    text(at.q, 116, "absorbed query", { ...centred, class: "halo" }),
    block(at.mix, 226, latent, 1, "neutral"), text(at.mix + 44, 234, "mixed latents", small));
  const cells = Array.from({ length: 5 }, (_, i) => svg("rect", { x: at.mix - 30 + 12 * i, y: 172,
    width: 11, height: 12, fill: "var(--w)", "fill-opacity": 0.3 + 0.12 * i, ...sym("w") }));
  way.append(
    line(`M88 62V72M${at.k} 72H${at.v}M${at.k} 72V178H164M${at.v} 72V214H${at.mix - 14}`),
    line(`M${at.q} 37V178H236M${at.mix} 184V272`), tip(at.mix, 272), tip(at.mix, 206),
    svg("circle", { cx: at.mix, cy: 214, r: 9, fill: "var(--paper)", stroke: "var(--soft)" }),
    text(at.mix, 219, "Σ", middle), ...cells, text(at.mix + 68, 198, "scores, weights", centred),
    ...block(88, 22, latent, 5, "neutral"),
    ...block(88 + latent / 2 + rope / 2 + 1, 22, rope, 5, "k", sym("k")),
    text(88, 14, "cache: a row for each token", centred),
    ...block(at.q, 28, head, 1, "q", sym("q")), text(at.q, 14, "query of a head", centred),
    ...block(at.mix, 274, head, 1, "v", sym("v")),
    text(at.mix + 16, 282, "context of a head", small),
    made, absorbed, boxes.k, boxes.v);
  function place(share) {  // 0: expanded, 1: absorbed
    for (const [name, [[x0, y0], [x1, y1]]] of Object.entries(ends)) {
      const [x, y] = [x0 + (x1 - x0) * share, y0 + (y1 - y0) * share];
      set(boxes[name], { transform: `translate(${x.toFixed(1)} ${y.toFixed(1)})` });
    }
    set(made, { opacity: (1 - share).toFixed(2) });
    set(absorbed, { opacity: share.toFixed(2) });
  }

  const [room, plot] = [330, wide ? 92 : 64];
  const ceiling = 62, floor = ceiling + plot, from = 58, reach = 262;
  const sums = fig(room, floor + 20);
  const longest = Math.log2(Math.max(...data.lengths));
  const across = (n) => from + (reach * Math.log2(n)) / longest;
  const up = (x) => floor - (plot * (Math.log10(x) - 6)) / 6;  // from a million to a trillion
  const rule = (x, says) => [line(`M${from} ${up(x)}H${from + reach}`, { stroke: "var(--faint)" }),
    text(from - 6, up(x) + 4, says, { ...small, "text-anchor": "end" })];
  const tick = (n, i) => [line(`M${across(n)} ${floor}v4`),
    text(across(n), floor + 18, i % 2 ? "" : grouped(n), { ...small, ...middle })];
  const between = line("", { stroke: "var(--rose)", "stroke-width": 1.5, class: "moves" });
  const brace = line("M206 20h6V46h-6", { stroke: "var(--rose)", "stroke-width": 1.5 });
  const ratio = text(220, 38, "", bold);
  sums.append(text(0, 10, "multiplications for one new token, all heads", small),
    ...rule(1e6, "million"), ...rule(1e9, "billion"), ...rule(1e12, "trillion"),
    ...data.lengths.flatMap(tick), between);
  const ways = forms.map((name, i) => {
    const like = { stroke: "var(--neutral)", "stroke-width": 2.5, class: "moves",
      "stroke-dasharray": i ? "5 4" : null };
    const way = line("", like);
    const dot = svg("circle", { r: 6, class: "moves", "stroke-width": 2.5 });
    const label = text(30, 29 + 18 * i, name);
    const value = text(106, 29 + 18 * i, "");
    sums.append(line(`M0 ${24 + 18 * i}H22`, like), label, value, way, dot);
    return { way, dot, label, value };
  });
  sums.append(brace, ratio);
  function amount(x) {
    const units = [[1e12, "trillion"], [1e9, "billion"], [1e6, "million"]];
    const [unit, name] = units.find(([unit]) => x >= unit);
    return `${number(x / unit, 1)} ${name}`;
  }

  function showCaches({ cached }) {
    const now = kinds();
    for (const { kind, both } of squares) {
      both.flat().forEach((one, i) => set(one, { opacity: i % most[kind] < now[kind] ? 1 : 0.1 }));
    }
    names.forEach((name, i) => { totals[i].textContent = grouped(cached[name]); });
    const parts = names.map((name) => `${name} ${grouped(cached[name])}`).join(", ");
    set(board, { "aria-label": `Numbers that a layer caches for each token: ${parts}` });
  }
  function showWay({ way, dot, label, value }, i, work) {
    const points = data.lengths.map((n) => `${across(n)} ${up(count(n).work[forms[i]])}`);
    const on = i === form;
    const [fill, stroke] = on ? ["var(--rose)", "var(--rose)"] : ["var(--paper)", "var(--neutral)"];
    set(way, { d: `M${points.join("L")}` });
    set(dot, { cx: across(tokens), cy: up(work), fill, stroke });
    for (const node of [label, value]) set(node, { style: `font-weight: ${on ? 600 : 400}` });
    value.textContent = amount(work);
  }
  function showWork({ work }) {
    ways.forEach((way, i) => showWay(way, i, work[forms[i]]));
    const [more, less] = forms.map((name) => work[name]);
    const apart = more / less;
    set(between, { d: `M${across(tokens)} ${up(more)}V${up(less)}` });
    ratio.textContent = apart < 1.05 ? "about the same" : `${number(apart, 0)} times`;
    const both = forms.map((name) => `${name} ${amount(work[name])}`).join(", ");
    set(sums, { "aria-label": `Multiplications: ${both}` });
  }
  function explain({ cached }) {
    const ratio = number(cached.MHA / cached.MLA, 1);
    const each = `each of ${plural(tokens, "token")}`;
    const how = form ? "Absorbed: W_k is applied to the query, and W_v to the mixture, once each."
      : `Expanded: in every head W_k and W_v make a key and a value of ${each}.`;
    say(`With ${plural(heads, "head")} MHA caches ${ratio} times as much as MLA. ${how}`);
    set(way, { "aria-label": `From the cache to the context of a head, ${forms[form]}` });
  }
  function show() {
    const now = count();
    showCaches(now);
    showWork(now);
    explain(now);
    state = { heads, tokens, form: forms[form], ...now };
  }
  function change(to) {
    const from = form;
    form = to;
    move(700, (share) => place(from + (to - from) * share));
    show();
  }
  const ruled = (list, value, input) => ({ min: 0, max: list.length - 1, step: 1,
    value: list.indexOf(value), text: (i) => grouped(list[i]), input: (i) => input(list[i]) });
  const many = slider("Heads", ruled(choice, heads, (n) => { heads = n; show(); }));
  const longer = ruled(data.lengths, tokens, (n) => { tokens = n; show(); });
  const long = slider("Tokens in the cache", longer);
  for (const one of [many, long]) one.querySelector("input").style.width = "8rem";
  set(said, { style: "min-height: 4.2em" });
  const switches = choices("How the cache is read", forms, form, change);
  const half = { class: "beside", style: "align-items: flex-start; gap: 0 1.5rem; margin: 0" };
  const right = el("div", { style: "flex: 1 1 18rem" }, switches, long, sums, said);
  view.append(board, many, el("div", half, way, right));
  place(form);
  show();
  expose(() => state);
}
for (const figure of document.querySelectorAll("figure[data-drawing=latent]")) begin(figure, draw);
})();
