(() => {
function draw(stage) {
  const { view, viewWidth, data, el, set, number, clamp, legendOf } = stage;
  const { said, say, choices, onkeys, expose, keep } = stage;
  const { x, heads } = data;
  const n = x.length;
  const width = x[0].length;
  const part = width / heads;
  const hues = ["#2a9d9d", "#b59a1c", "#7d8aa5", "#a8714f"];
  const paint = (h) => `color-mix(in srgb, ${hues[h % hues.length]} 34%, transparent)`;

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
  const [wide, high, margin, between] = phone ? [36, 26, 62, 12] : [42, 28, 62, 14];
  const tall = n * high + between;
  const tokenOf = (m) => Math.floor(m / width);
  const headOf = (m) => Math.floor((m % width) / part);  // to which it belongs
  let step = 1;
  let lit = Math.floor(width / heads) + width * (n - 1);
  const kinds = { right: "Split, then transpose", wrong: "The final shape at once" };
  const stackedAt = { right: 2, wrong: 1 };
  const stacked = (kind) => step >= stackedAt[kind];
  function place(kind, m) {  // left and top of a number
    if (stacked(kind)) {
      const [h, token, j] = where(found[kind], m);
      return [margin + j * wide, h * tall + token * high];
    }
    const moved = step ? headOf(m) * between : 0;
    return [margin + (m % width) * wide + moved, rowOf(tokenOf(m))];
  }
  const all = heads * tall - between;  // vectors that are not yet stacked share the height
  const pitch = Math.min((all - 8) / n, 80);
  const long = clamp(pitch - high, high, 52);
  const rowOf = (i) => Math.round(all / 2 + 8 + (i - (n - 1) / 2) * pitch - long / 2);

  const arrows = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -width, ArrowDown: width };
  function numbers() {
    const cells = flat.map((x, m) => el("div", {
      role: "option", class: "moves", ...keep,
      onclick: () => light(m), onfocus: () => light(m), onpointerenter: () => light(m),
      onkeydown: onkeys(arrows, (by) => cells[m + by]?.focus()) }, number(x, 0)));
    return cells;
  }
  const label = () => el("span", {
    "aria-hidden": true,
    style: "position: absolute; left: 0; font-size: 13px; line-height: 28px; "
      + "white-space: nowrap" });
  const pictures = Object.entries(kinds).map(([kind, title]) => {
    const cells = numbers();
    const names = times(n * heads, label);
    const signs = times(heads, label);
    const shape = el("span", { style: "font-size: 13px; color: var(--soft)" });
    const across = margin + width * wide + between * (heads - 1);
    const says = `${title}; arrow keys go from number to number`;
    const list = el("div", { role: "listbox", "aria-label": says }, ...cells);
    const size = `position: relative; width: ${across}px; height: ${all}px`;
    const box = el("div", { style: size }, list, ...names, ...signs);
    const caption = el("div", { style: "margin-bottom: 0.5rem" },
      el("b", { style: "font-weight: 600" }, title), " ", shape);
    return { kind, cells, names, signs, shape, node: el("div", {}, caption, box) };
  });

  function showNumber(kind, cell, m) {
    const [x, y] = place(kind, m);
    const [h, token] = where(found[kind], m);
    const lands = stacked(kind) ? `, lands in head ${h} as token ${token}` : "";
    const ring = "font-weight: 700; box-shadow: inset 0 0 0 3px currentColor; z-index: 1";
    set(cell, {
      tabindex: m === lit ? 0 : -1, "aria-selected": String(m === lit),
      "aria-label": `${number(flat[m], 0)}, of token ${tokenOf(m)}${lands}`,
      style: `position: absolute; left: ${x}px; top: ${y}px; width: ${wide}px; `
        + `height: ${stacked(kind) ? high : long}px; display: grid; place-items: center; `
        + "box-sizing: border-box; cursor: pointer; transition-property: left, top, height; "
        + "--pace: 0.4s; "
        + `background: ${paint(headOf(m))}; border: 1px solid var(--faint); `
        + (m === lit ? ring : "") });
  }
  function showPicture({ kind, cells, names, signs, shape }) {
    const apart = stacked(kind);
    cells.forEach((cell, m) => showNumber(kind, cell, m));
    names.forEach((name, k) => {
      const [h, i] = [Math.floor(k / n), k % n];
      name.textContent = apart || h === 0 ? `token ${i}` : "";
      name.style.top = `${apart ? h * tall + i * high : rowOf(i) + (long - high) / 2}px`;
    });
    signs.forEach((sign, h) => {
      const whole = found[kind][h].flat().every((m) => headOf(m) === h);
      sign.textContent = step ? `head ${h} ${whole ? "✓" : "✗"}` : "";
      const [left, top] = apart ? [part * wide + 12, h * tall + ((n - 1) * high) / 2]
        : [h * (part * wide + between), rowOf(0) - high];
      Object.assign(sign.style, { left: `${margin + left}px`, top: `${top}px` });
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
  set(said, { style: `max-width: none; margin-top: 0.8rem; min-height: ${phone ? 2.8 : 1.4}em` });
  const steps = choices("step", ["the vectors", "view", "transpose"], step,
    (i) => { step = i; show(); });
  const belongs = times(heads, (h) => [paint(h), `head ${h}`]);
  const legend = legendOf(...belongs);
  set(legend, {}, "belongs to", ...legend.children);
  view.append(
    el("div", { class: "beside", style: "margin: 0; gap: 4px 24px" },
      set(steps, { style: "margin: 0" }), legend),
    el("div", { style: "display: flex; flex-wrap: wrap; gap: 1rem 1.2rem; margin-top: 0.8rem; "
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
