// The weights of the heads of a layer, at some steps of its training.
function draw(stage) {
  const { view, viewWidth, data, el, svg, set, sum, between, number, grouped, listed } = stage;
  const { said, say, slider, player, motion, expose } = stage;
  const { weights, steps, losses, letters } = data;
  const n = weights[0][0].length;
  let frame = Math.floor((steps.length - 1) / 2);  // in the middle of what happens
  let shows = weights[frame];
  const mean = (list) => sum(list) / list.length;
  const shown = (w) => {  // the mean weights of the first token, and of the previous one
    const rows = w.slice(2);
    return [mean(rows.map((row) => row[0])), mean(rows.map((row, i) => row[i + 1]))];
  };

  // Two heads stand beside each other, on a phone, too; on a wide page they take all its width.
  const wide = viewWidth >= 600;
  const apiece = Math.floor(((viewWidth - 40) / 2 - 84) / n);
  const side = wide ? Math.min(64, apiece) : viewWidth < 345 ? 22 : 24;
  const tall = wide ? 38 : side;
  const across = `min-width: ${side}px; max-width: ${side}px; padding: 0; text-align: center; `
    + `font-size: ${wide ? 13 : 12}px; overflow: hidden`;
  const box = `${across}; height: ${tall}px`;
  // A token: its number and, of one sequence, its letter; on a phone the letter alone.
  const lettered = (i, number) => (letters[i]
    ? [...(wide ? [`${number} `] : []), el("b", {}, letters[i])] : [number]);
  const head = (j) =>
    el("th", { scope: "col", "data-sym": "k", style: across }, ...lettered(j, `${j}`));
  const query = (i) => el("th", { scope: "row", "data-sym": "q",
    style: "padding: 0 6px 0 0; font-size: 13px; min-width: 0; white-space: nowrap" },
  ...lettered(i, wide ? `token ${i}` : `${i}`));
  const named = wide ? 106 : 64;  // room of a name before its bar
  const long = (wide ? 56 : 20) + n * side - named - 40;  // of a bar of 1
  function meanOf(name) {
    const bar = el("span", { class: "moves", "data-sym": "w" });
    const value = el("span", { "data-sym": "w" });
    const line = el("span", { style: "display: flex; align-items: center; gap: 6px" }, bar, value);
    const node = el("div", { style: "display: flex; line-height: 20px; font-size: 13px; "
      + "font-variant-numeric: tabular-nums" },
    el("span", { style: `width: ${named}px` }, name), line);
    return { bar, value, node };
  }
  const heads = weights[0].map((_, k) => {
    const cells = weights[0][k].map((row) =>
      row.map(() => el("td", { "data-sym": "w" }, el("span"))));
    const means = ["first", "previous"].map((name) => meanOf(wide ? `${name} token` : name));
    const table = el("table", {
      "aria-label": `head ${k}: a row for each query, a column for each key`,
      tabindex: 0, style: "margin: 0 0 0.3rem" },
    el("thead", {}, el("tr", {}, el("td", {}), ...cells.map((_, j) => head(j)))),
    el("tbody", {}, ...cells.map((row, i) => el("tr", {}, query(i), ...row))));
    const title = el("b", { style: "font-weight: 600" }, `head ${k}: weights, %`);
    const node = el("div", {}, title, table, ...means.map((mean) => mean.node));
    return { cells, means, node };
  });

  // ---- The loss on a log scale: a dot above each stop of the slider ----
  const high = 70, least = 1e-4;  // a smaller loss is stored as 0
  const digits = { maximumSignificantDigits: 3 };
  const power = (x) => Math.log10(Math.max(x, least));
  const bottom = Math.floor(Math.min(...losses.map(power)));
  const top = Math.max(...losses.map(power), bottom + 1);
  const heightOf = (x) => 5 + (high - 10) * (top - power(x)) / (top - bottom);
  const left = (i) => 100 * (i + 0.5) / steps.length;  // in percent
  const spot = (i, size) => `position: absolute; left: calc(${left(i)}% - ${size / 2}px); `
    + `top: ${(heightOf(losses[i]) - size / 2).toFixed(1)}px; width: ${size}px; `
    + `height: ${size}px; border-radius: 50%; background: var(--neutral)`;
  const spots = losses.map(() => el("span", { class: "moves" }));
  const corner = (loss, i) => `${left(i)} ${heightOf(loss).toFixed(1)}`;
  const curve = (d, stroke, broad) => svg("path", { d, stroke, "stroke-width": broad,
    fill: "none", "vector-effect": "non-scaling-stroke" });
  const powers = Array.from({ length: Math.floor(top) - bottom + 1 }, (_, i) => bottom + i)
    .filter((p) => (p - bottom) % 2 === 0);
  const rules = powers.map((p) => curve(`M0 ${heightOf(10 ** p)}H100`, "var(--faint)", 1));
  const chart = svg("svg", { viewBox: `0 0 100 ${high}`, width: "100%", height: high,
    preserveAspectRatio: "none" },
  ...rules, curve(`M${losses.map(corner).join("L")}`, "var(--neutral)", 2));
  const small = "font-size: 12px; color: var(--soft); line-height: 14px";
  const ticks = powers.map((p) => el("span", { style: `position: absolute; right: 0; ${small}; `
    + `top: ${(heightOf(10 ** p) - 7).toFixed(1)}px` }, grouped(10 ** p, digits)));
  const scale = el("span", { "aria-hidden": true, style: `position: relative; height: ${high}px; `
    + "text-align: right" },
  el("span", { style: `position: absolute; left: 0; ${small}` }, "loss"), ...ticks);
  const loss = el("span", { style: "font-variant-numeric: tabular-nums; align-self: start" });

  // From which step on do all heads attend to something else?
  const apart = steps.findLastIndex((_, i) =>
    new Set(weights[i].map((w) => favourite(w).to)).size < heads.length) + 1;
  const mark = el("span", { style: "position: absolute; padding: 42px 6px 0 0; font-size: 13px; "
    + `inset: 0 ${100 - left(apart)}% 0 0; line-height: 16px; text-align: right; `
    + "white-space: nowrap; border-right: 1px dashed var(--soft)" },
  `heads differ${wide ? ` from step ${steps[apart]} on` : ""}`);

  function showHead({ cells, means }, now) {
    shown(now).forEach((mean, i) => {
      const { bar, value } = means[i];
      set(bar, { style: "height: 14px; background: var(--w); "
        + `width: ${(long * mean).toFixed(1)}px` });
      value.textContent = number(mean);
    });
    cells.forEach((row, i) => row.forEach((cell, j) => {
      const large = wide && now[i][j] > 0.095;  // where there is room it has its digits always
      set(cell.firstChild, { style: large ? "opacity: 1" : null });
      cell.firstChild.textContent = number(100 * now[i][j], 0);
    }));
  }
  function look(weight) {
    const share = `${(60 * weight).toFixed(1)}%`;  // digits stay legible on it
    return `${box}; border: 1px solid var(--faint); color: inherit; `
      + `background: color-mix(in srgb, var(--w) ${share}, transparent)`;
  }
  function paint(now) {
    heads.forEach(({ cells }, k) => cells.forEach((row, i) => row.forEach((cell, j) => {
      set(cell, { style: look(now[k][i][j]) });
    })));
    shows = now;
  }
  const glide = motion();
  function favourite(now) {
    const [first, before] = shown(now);
    const most = Math.max(first, before);
    const to = first > before ? "the first token" : "the previous token";
    return most < 1.5 / n ? { to: "all tokens", most: null } : { to, most };
  }
  function gives(verb, to, mosts) {
    if (mosts.includes(null)) return `${verb}${to} about the same weight`;
    return `${verb}${to}${verb && " the most weight"}, ${listed(mosts, number)}`;
  }
  function told() {
    const found = weights[frame].map(favourite);
    const same = new Set(found.map(({ to }) => to)).size === 1;
    const both = found.length === 2 ? "both heads" : "all heads";
    if (same) return `${both} ${gives("give ", found[0].to, found.map(({ most }) => most))}`;
    const each = ({ to, most }, k) => `head ${k} ${gives(k ? "" : "gives ", to, [most])}`;
    return found.map(each).join("; ");
  }
  function show() {
    const from = shows;
    heads.forEach((head, k) => showHead(head, weights[frame][k]));
    glide(500, (t) => paint(between(from, weights[frame], t)));
    loss.textContent = `loss ${grouped(losses[frame], digits)}`;
    spots.forEach((one, i) => { set(one, { style: spot(i, i === frame ? 12 : 5) }); });
    mark.style.visibility = frame < apart ? "hidden" : "";
    say(`Step ${steps[frame]}: ${told()}.`);
  }
  function go(i) {
    frame = i;
    time.move(i);
    show();
  }
  const time = slider("step", {
    min: 0, max: steps.length - 1, step: 1, value: frame, text: (i) => `step ${steps[i]}`,
    input: (i) => { play.stop(); frame = i; show(); } });
  const play = player({ at: () => frame, last: () => steps.length - 1, ms: () => 900, go });
  const [title, range] = time.children;
  title.hidden = true;  // the words on the right say what it is
  const inset = `max(0px, ${50 / steps.length}% - 8px)`;  // its ends are the middles of two bars
  Object.assign(range.style, { marginInline: inset, width: `calc(100% - 2 * ${inset})` });
  set(time, { style: "display: contents" });
  const path = el("div", { "aria-hidden": true, style: `position: relative; height: ${high}px` },
    chart, ...spots, mark);
  view.append(
    el("div", { style: "display: grid; gap: 6px 12px; align-items: center; margin-bottom: 8px; "
      + `grid-template-columns: max-content minmax(0, 1fr) ${wide ? 6 : 5.2}rem` },
    scale, path, loss, play.node, time),
    el("div", { style: "display: flex; flex-wrap: wrap; gap: 0.4rem 1rem; "
      + (wide ? "justify-content: space-between" : "") },
      ...heads.map((k) => k.node)),
    el("div", { style: `min-height: ${wide ? 1.4 : 2.8}em; margin-top: 0.3rem` }, said));
  show();
  expose(() => ({
    step: steps[frame], loss: losses[frame], weights: weights[frame],
    means: weights[frame].map(shown), playing: play.playing() }));
}
