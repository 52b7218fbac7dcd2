(() => {
function draw(stage) {
  const { view, viewWidth, data, el, svg, set, number, clamp } = stage;
  const { said, say, choices, onkeys, expose, keep } = stage;
  const { x, heads } = data;
  const n = x.length;
  const width = x[0].length;
  const part = width / heads;
  const hues = ["#2a9d9d", "#b59a1c", "#7d8aa5", "#a8714f"];
  const paint = (h, share = 34) =>
    `color-mix(in srgb, ${hues[h % hues.length]} ${share}%, var(--paper))`;

  const flat = x.flat();
  const times = (count, f) => Array.from({ length: count }, (_, i) => f(i));
  const shaped = (list, a, b, c) =>
    times(a, (i) => times(b, (j) => list.slice((i * b + j) * c, (i * b + j + 1) * c)));
  const swapped = (t) => t[0].map((_, j) => t.map((_, i) => t[i][j]));
  const cut = shaped(flat, n, heads, part);
  const right = swapped(cut);
  const wrong = shaped(flat, heads, n, part);
  function where(split, m) {
    for (let h = 0; h < heads; h++) {
      for (let i = 0; i < n; i++) {
        const j = split[h][i].indexOf(m);
        if (j >= 0) return [h, i, j];
      }
    }
  }
  const order = [...flat.keys()];
  const found = {
    right: swapped(shaped(order, n, heads, part)),
    wrong: shaped(order, heads, n, part),
  };

  const phone = viewWidth < 600;
  const [wide, high, margin, between] = phone ? [36, 22, 62, 12] : [42, 28, 62, 14];
  const title = phone ? 22 : 30;
  const tall = title + n * high;
  const tokenOf = (m) => Math.floor(m / width);
  const headOf = (m) => Math.floor((m % width) / part);
  let step = 2;
  let lit = Math.floor(width / heads) + width * (n - 1);
  const kinds = { right: "Split, then transpose", wrong: "The final shape at once" };
  const stackedAt = { right: 2, wrong: 1 };
  const stacked = (kind, at = step) => at >= stackedAt[kind];
  function place(kind, m, at = step) {
    if (stacked(kind, at)) {
      const [h, token, j] = where(found[kind], m);
      return [margin + j * wide, h * tall + title + token * high, high];
    }
    const moved = at ? headOf(m) * between : 0;
    return [margin + (m % width) * wide + moved, rowOf(tokenOf(m)), long];
  }
  const before = (kind) => Math.max(0, Math.min(step, stackedAt[kind]) - 1);
  const all = heads * tall;
  const pitch = Math.min((all - 8) / n, 80);
  const long = clamp(pitch - high, high, 52);
  const rowOf = (i) => Math.round(all / 2 + 8 + (i - (n - 1) / 2) * pitch - long / 2);

  const aside = margin + part * wide + (phone ? 20 : 36);
  const narrow = phone ? 22 : 24;

  const arrows = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -width, ArrowDown: width };
  function numbers() {
    const cells = flat.map((x, m) => el("div", {
      role: "option", class: "moves", ...keep,
      onclick: () => light(m), onfocus: () => light(m), onpointerenter: () => light(m),
      onkeydown: onkeys(arrows, (by) => cells[m + by]?.focus()) }, number(x, 0)));
    return cells;
  }
  const ofLabel = "position: absolute; left: 0; font-size: 13px; white-space: nowrap";
  const label = () =>
    el("span", { "aria-hidden": true, style: `${ofLabel}; line-height: 28px` });
  const pictures = Object.entries(kinds).map(([kind, title]) => {
    const cells = numbers();
    const names = times(n * heads, label);
    const signs = times(heads, (h) => set(label(), { class: "moves", style: `${ofLabel}; `
      + "--pace: 0.4s; transition-property: left, top; line-height: 18px; padding: 0 6px; "
      + `border-radius: 4px 4px 0 0; background: ${paint(h)}` }));
    const shape = el("span", { style: "font-size: 13px; color: var(--soft)" });
    const across = margin + width * wide + between * (heads - 1);
    const says = `${title}; arrow keys go from number to number`;
    const list = el("div", { role: "listbox", "aria-label": says }, ...cells);
    const size = `position: relative; width: ${across}px; height: ${all}px`;
    const traces = flat.map(() => el("div", { class: "moves" }));
    const way = svg("path", { fill: "none", stroke: "currentColor", "stroke-width": 1.5 });
    const ways = svg("svg", { width: across, height: all, style: "position: absolute" }, way);
    const past = set(label(), { style: `${ofLabel}; left: ${aside}px; color: var(--soft); `
      + `top: ${rowOf(0) + (long - high) / 2 - 22}px` }, "before");
    const trail = el("div", { "aria-hidden": true }, ...traces, ways);
    const box = el("div", { style: size }, trail, past, list, ...names, ...signs);
    const caption = el("div", { style: "margin-bottom: 4px" },
      el("b", { style: "font-weight: 600" }, title), " ", shape);
    const node = el("div", {}, caption, box);
    return { kind, cells, names, signs, shape, traces, past, way, trail, node };
  });

  function showNumber(kind, cell, m) {
    const [x, y, deep] = place(kind, m);
    const [h, token] = where(found[kind], m);
    const lands = stacked(kind) ? `, lands in head ${h} as token ${token}` : "";
    const ring = "font-weight: 700; box-shadow: inset 0 0 0 3px currentColor; z-index: 1";
    set(cell, {
      tabindex: m === lit ? 0 : -1, "aria-selected": String(m === lit),
      "aria-label": `${number(flat[m], 0)}, of token ${tokenOf(m)}${lands}`,
      style: `position: absolute; left: ${x}px; top: ${y}px; width: ${wide}px; `
        + `height: ${deep}px; display: grid; place-items: center; `
        + "box-sizing: border-box; cursor: pointer; transition-property: left, top, height; "
        + "--pace: 0.4s; "
        + `background: ${paint(headOf(m))}; border: 1px solid var(--faint); `
        + (m === lit ? ring : "") });
  }
  function placeBefore(kind, m) {
    const [x, y, deep] = place(kind, m, before(kind));
    const apart = before(kind) ? headOf(m) * 6 : 0;
    const left = aside + (m % width) * narrow + apart;
    return [left, y + (deep - high) / 2];
  }
  function showTrace(kind, trace, m) {
    const [x, y] = placeBefore(kind, m);
    const ring = m === lit ? "1.5px solid currentColor" : "1px solid var(--faint)";
    trace.textContent = number(flat[m], 0);
    set(trace, { style: `position: absolute; left: ${x}px; top: ${y}px; width: ${narrow}px; `
      + `height: ${high}px; box-sizing: border-box; border: ${ring}; display: grid; `
      + "place-items: center; font-size: 13px; color: var(--soft); --pace: 0.4s; "
      + `background: ${paint(headOf(m), 14)}` });
  }
  function showPast({ kind, traces, past, way, trail }) {
    for (const node of [past, trail]) node.style.visibility = step < 2 ? "hidden" : "visible";
    if (step < 2) return;
    traces.forEach((trace, m) => showTrace(kind, trace, m));
    const [from, to] = [placeBefore(kind, lit)[1], place(kind, lit)[1]].map((y) => y + high / 2);
    set(way, { d: `M${aside - 4} ${from}L${margin + part * wide + 4} ${to}` });
  }
  function showPicture(picture) {
    const { kind, cells, names, signs, shape } = picture;
    const apart = stacked(kind);
    showPast(picture);
    cells.forEach((cell, m) => showNumber(kind, cell, m));
    names.forEach((name, k) => {
      const [h, i] = [Math.floor(k / n), k % n];
      name.textContent = apart || h === 0 ? `token ${i}` : "";
      const middle = apart ? h * tall + title + (i + 0.5) * high : rowOf(i) + long / 2;
      name.style.top = `${middle - 14}px`;
    });
    signs.forEach((sign, h) => {
      const whole = found[kind][h].flat().every((m) => headOf(m) === h);
      sign.textContent = `head ${h} ${whole ? "✓" : "✗"}`;
      const [left, top] = apart ? [0, h * tall + title - 18]
        : [h * (part * wide + between), rowOf(0) - 18];
      Object.assign(sign.style, { left: `${margin + left}px`, top: `${top}px`,
        visibility: step ? "visible" : "hidden" });
    });
    const size = step === 0 ? [n, width] : apart ? [heads, n, part] : [n, heads, part];
    shape.textContent = `shape (${size.join(", ")})`;
  }

  function light(m) {
    lit = m;
    show();
  }
  function sentence() {
    const [h, i] = where(found.right, lit);
    const [wrongHead, wrongToken] = where(found.wrong, lit);
    const name = number(flat[lit], 0);
    const from = `${name} belongs to token ${tokenOf(lit)}`;
    if (step === 0) {
      return `${from}, and to head ${h}. Both pictures are the same.`;
    }
    if (step === 1) {
      return `${from}. First picture: no number moves. `
        + `Second: head ${wrongHead}, token ${wrongToken}.`;
    }
    const same = h === wrongHead && i === wrongToken;
    const second = same ? "by chance the same" : `head ${wrongHead}, token ${wrongToken}`;
    return `${from}. First picture: head ${h}, token ${i}. Second: ${second}.`;
  }
  function show() {
    pictures.forEach(showPicture);
    say(sentence());
  }
  set(said, { style: `max-width: none; margin-top: 12px; min-height: ${phone ? 2.8 : 1.4}em` });
  const steps = choices("step", ["the vectors", "view", "transpose"], step,
    (i) => { step = i; show(); });
  view.append(
    set(steps, { style: "margin: 0" }),
    el("div", { style: "display: flex; flex-wrap: wrap; gap: 12px 1.2rem; margin-top: 12px; "
      + "justify-content: space-between" }, ...pictures.map((p) => p.node)),
    said);
  show();
  expose(() => ({
    step, lit: flat[lit],
    right: step === 0 ? x : step === 1 ? cut : right,
    wrong: step === 0 ? x : wrong,
    lands: { right: where(found.right, lit), wrong: where(found.wrong, lit) },
  }));
}
for (const figure of document.querySelectorAll("figure[data-drawing=head_cut]")) begin(figure, draw);
})();
