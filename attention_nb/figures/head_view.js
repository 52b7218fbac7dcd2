// All heads of a model: a grid of their weights, one head as a matrix or as lines, one token through all layers.
function draw({ figure, view, el, svg, set, number, plural, said, say, slider, choices, onkeys, expose, keep, clamp }) {
  const holder = figure.querySelector("script.weights");
  const packed = holder.textContent || globalThis.weights[holder.getAttribute("data-name")];
  const SMALL = 64, SHOWN = 20;  // squares of a small picture; tokens beside lines
  const LEAST = 12, SIDE = 22;  // pixels of a square with a name beside it; of any, at most

  // ---- What was packed: a line of JSON, then bytes ----
  async function unpack() {
    const text = atob(packed), bytes = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    const all = new Uint8Array(await new Response(stream).arrayBuffer()), end = all.indexOf(10);
    return { ...JSON.parse(new TextDecoder().decode(all.subarray(0, end))), bytes: all.subarray(end + 1) };
  }
  function placed(about) {  // where the numbers of each head begin
    let at = 0;
    for (const layer of about.layers) {
      const { n_q, n_k } = layer, [rows, columns] = about.kept ? [Math.ceil(n_q / layer.square[0]), Math.ceil(n_k / layer.square[1])] : [n_q, n_k];
      const one = rows * columns + (about.kept ? 3 * about.kept * n_q : 0);
      Object.assign(layer, { rows, columns, at, one, queries: named(about, layer.queries, n_q), keys: named(about, layer.keys, n_k) });
      at += one * layer.heads;
    }
  }
  const named = (about, name, n) => (about.tokens[name] ?? Array.from({ length: n }, (_, i) => `${i}`)).map(visible);
  const visible = (token) => token.replace(/\n/g, "⏎").replace(/\t/g, "⇥") || "∅";
  const short = (token) => (token.length > 12 ? `${token.slice(0, 11)}…` : token);
  const share = (byte) => (byte / 255) ** 2;  // a byte holds the root of a weight: small weights are told apart

  // ---- Weights of a head: its picture, the row of a query ----
  const begin = (l, h) => layers[l].at + h * layers[l].one;
  const picture = (l, h) => about.bytes.subarray(begin(l, h), begin(l, h) + layers[l].rows * layers[l].columns);
  function row(l, h, i) {  // [key, weight], the largest first; of a thinned view those that were kept
    const { n_q, n_k, rows, columns } = layers[l], k = about.kept, b = about.bytes;
    const from = begin(l, h) + rows * columns + k * i, far = k * n_q;
    const pairs = k ? Array.from({ length: k }, (_, j) => [b[from + j] + 256 * b[from + far + j], share(b[from + 2 * far + j])])
      : Array.from({ length: n_k }, (_, j) => [j, share(b[begin(l, h) + i * n_k + j])]);
    return pairs.filter(([, w]) => w > 0).sort((x, y) => y[1] - x[1]);
  }
  function small(l, h) {  // at most 64 × 64 squares: the largest byte of each
    const { rows, columns } = layers[l], data = picture(l, h), [high, wide] = [rows, columns].map((n) => Math.min(n, SMALL));
    if (high === rows && wide === columns) return { data, high, wide };
    const out = new Uint8Array(high * wide);
    for (let i = 0; i < rows; i++) for (let j = 0; j < columns; j++) {
      const to = Math.floor(i * high / rows) * wide + Math.floor(j * wide / columns);
      out[to] = Math.max(out[to], data[i * columns + j]);
    }
    return { data: out, high, wide };
  }
  // The colour of weights, brighter on a dark page; the byte of a weight says how much of it covers the page.
  const isDark = () => getComputedStyle(view).color.match(/[\d.]+/g).slice(0, 3).reduce((total, x) => total + Number(x), 0) > 380;
  let purple = [142, 91, 208];
  function paint(canvas, { data, high, wide }) {
    const image = new ImageData(wide, high), [r, g, b] = purple;
    for (let i = 0, at = 0; i < data.length; i++, at += 4) {
      image.data[at] = r; image.data[at + 1] = g; image.data[at + 2] = b; image.data[at + 3] = data[i];
    }
    set(canvas, { width: wide, height: high });
    canvas.getContext("2d").putImageData(image, 0, 0);
  }

  // ---- The grid: a button for each head ----
  let about, layers, cells = [], now = { l: 0, h: 0, i: 0, mode: 0, order: 0, mean: true };
  const grid = el("div", { role: "group", "aria-label": "All heads; arrow keys go from head to head", style: "overflow: auto; max-height: 34rem; padding: 3px" });
  const nameOf = (l, h) => `layer ${l}, head ${h}`;
  const scoresOf = (l, h) => Object.entries(layers[l].scores).filter(([, s]) => s[h] !== null).map(([name, s]) => `${name} ${number(s[h])}`).join(", ");
  function cell(l, h) {
    const canvas = el("canvas", { "aria-hidden": true,
      style: "display: block; width: 100%; aspect-ratio: 1; "
      + "image-rendering: pixelated; background: var(--paper)" });
    const node = el("button", { type: "button", ...keep, "aria-label": `${nameOf(l, h)}${scoresOf(l, h) && `: ${scoresOf(l, h)}`}`, title: nameOf(l, h),
      onclick: () => choose({ l, h }), onkeydown: onkeys(steps, (by) => go(l, h, by)),
      style: "min-height: 0; min-width: 0; padding: 0; border-radius: 0; border: 1px solid var(--faint); box-shadow: none; display: block; width: 100%" }, canvas);
    const show = () => paint(canvas, small(l, h));
    show();
    return { l, h, node, show };
  }
  const steps = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
  const ordered = () => {
    const name = about.scores[now.order - 1], of = ({ l, h }) => layers[l].scores[name]?.[h] ?? -1;
    return name ? [...cells].sort((a, b) => of(b) - of(a)) : cells;
  };
  function go(l, h, [down, right]) {
    const list = ordered(), most = Math.max(...layers.map((layer) => layer.heads));
    const at = list.findIndex((one) => one.l === l && one.h === h);
    const to = now.order || right ? list[at + right + down * most] : cells.find((one) => one.l === l + down && one.h === Math.min(h, layers[l + down].heads - 1));
    if (to) { choose({ l: to.l, h: to.h }); to.node.focus(); }
  }
  function arrange() {
    const most = Math.max(...layers.map((layer) => layer.heads)), list = ordered(), sorted = now.order > 0;
    const label = (text) => el("span", { style: "font-size: 12px; align-self: center; white-space: nowrap; color: var(--soft); padding-right: 4px; text-align: right" }, text);
    const own = grid.getAttribute("style").split("; display")[0];
    const widest = clamp(Math.floor(240 / most), 34, 56), columns = `minmax(14px, ${widest}px)`;
    set(grid, { style: `${own}; display: grid; gap: 2px; align-content: start; `
      + `grid-template-columns: ${sorted ? "" : "auto "}repeat(${most}, ${columns})` });
    const nodes = sorted ? list.map((one) => one.node) : layers.flatMap((layer, l) => [label(`${l}`), ...cells.filter((one) => one.l === l).map((one) => one.node),
      ...Array.from({ length: most - layer.heads }, () => el("span"))]);
    grid.replaceChildren(...nodes);
    for (const { l, h, node } of cells) {  // heads that share keys stand together
      const group = layers[l].heads / layers[l].kv_heads;
      node.style.marginLeft = !sorted && group > 1 && h % group === 0 && h ? "3px" : "";
    }
  }

  // ---- One head as a matrix: pointed at, a square says what it holds ----
  const matrix = el("canvas", { role: "img", style: "display: block; width: 100%; height: 100%; image-rendering: pixelated" });
  const marker = el("div", { style: "position: absolute; left: 0; right: 0; pointer-events: none; outline: 2px solid var(--rose)" });
  const board = el("div", { style: "position: relative; border: 1px solid var(--soft); touch-action: pan-y; cursor: crosshair" }, matrix, marker);
  const names = { left: el("div"), top: el("div") };
  const framed = el("div", { style: "display: grid; justify-content: start" }, el("span"),
    names.top, names.left, board);
  function pointed(e) {
    const { n_q, rows, columns, square } = layers[now.l], box = board.getBoundingClientRect();
    const i = clamp(Math.floor((e.clientY - box.top) / box.height * rows), 0, rows - 1), j = clamp(Math.floor((e.clientX - box.left) / box.width * columns), 0, columns - 1);
    now.j = j;
    choose({ i: about.kept ? clamp(i * square[0], 0, n_q - 1) : i }, square_says(i, j));
  }
  for (const kind of ["pointerdown", "pointermove"]) board.addEventListener(kind, (e) => { if (kind === "pointerdown" || e.pointerType === "mouse") pointed(e); });
  function square_says(i, j) {
    const { n_q, n_k, columns, square, queries, keys } = layers[now.l], w = share(picture(now.l, now.h)[i * columns + j]);
    if (!about.kept) return `“${queries[i]}” (${i}) attends to “${keys[j]}” (${j}): ${number(w)}. `;
    const part = (at, size, n) => `${at * size} to ${Math.min(n, (at + 1) * size) - 1}`;
    return `Queries ${part(i, square[0], n_q)} give keys ${part(j, square[1], n_k)} ${number(w)} of their weights. `;
  }
  function showMatrix() {
    const { rows, columns, n_q, square } = layers[now.l];
    paint(matrix, { data: picture(now.l, now.h), high: rows, wide: columns });
    set(matrix, { "aria-label": `Weights of ${nameOf(now.l, now.h)}: a row for each query, a column for each key` });
    const aspect = Math.max(columns, rows / 4) / Math.max(rows, columns / 8);
    const width = clamp(Math.max(rows, columns) * SIDE, 160, 448) * Math.min(1, aspect);
    framed.style.gridTemplateColumns = `auto minmax(0, ${width}px)`;
    board.style.aspectRatio = aspect;
    const at = about.kept ? Math.floor(now.i / square[0]) : now.i;
    Object.assign(marker.style, { top: `${100 * at / rows}%`, height: `${100 / rows}%` });
    showNames(Math.min(width, view.clientWidth - 90));
  }
  // The tokens beside the squares, where each has room for its name.
  function showNames(width) {
    const { rows, columns, queries, keys } = layers[now.l];
    const fits = !about.kept && width / Math.max(columns, rows) >= LEAST;
    const best = row(now.l, now.h, now.i)[0]?.[0];
    axis(names.left, fits ? queries : [], "rows", "q", now.i);
    axis(names.top, fits ? keys : [], "columns", "k", best);
  }
  function axis(node, words, way, hue, chosen) {
    const upright = way === "columns" && words.some((word) => word.length > 2);
    const turned = upright ? "writing-mode: vertical-rl; transform: rotate(180deg);" : "";
    const bold = (i) => (i === chosen ? "font-weight: 700;" : "");
    const [place, line] = way === "rows" ? ["text-align: right; padding-right: 6px", "center"]
      : ["justify-self: center; padding-block: 2px", "end"];
    node.style.cssText = `display: grid; grid-template-${way}: repeat(${words.length || 1}, `
      + `minmax(0, 1fr)); align-items: ${line}; font-size: 12px; line-height: 1.25; `
      + `height: ${way === "rows" ? "100%" : "auto"}; `
      + `color: color-mix(in srgb, var(--ink-${hue}) 60%, currentColor)`;
    node.replaceChildren(...words.map((word, i) => el("span", { "aria-hidden": true,
      style: `white-space: nowrap; ${turned}${bold(i)}${place}` }, brief(word))));
  }
  const brief = (token) => (token.length > 9 ? `${token.slice(0, 8)}…` : token);

  // ---- One head as lines: queries around the chosen one, and the keys that they attend to most ----
  function around(n) {
    const first = clamp(now.i - SHOWN / 2, 0, Math.max(0, n - SHOWN));
    return Array.from({ length: Math.min(n, SHOWN) }, (_, k) => first + k);
  }
  function wanted(rows, n_k) {
    if (n_k <= SHOWN) return Array.from({ length: n_k }, (_, j) => j);
    const total = new Map();
    rows.forEach(([i, list]) => list.forEach(([j, w]) => total.set(j, (total.get(j) ?? 0) + (i === now.i ? 100 * w : w))));
    return [...total].sort((a, b) => b[1] - a[1]).slice(0, SHOWN).map(([j]) => j).sort((a, b) => a - b);
  }
  function showLines() {
    const { n_q, n_k, queries, keys } = layers[now.l], rows = around(n_q).map((i) => [i, row(now.l, now.h, i)]), right = wanted(rows, n_k);
    const high = 22, width = 400, y = (at) => 14 + high * at, tall = high * Math.max(rows.length, right.length) + 8;
    const lines = rows.flatMap(([i, list], at) => list.filter(([j, w]) => right.includes(j) && w >= 0.01).map(([j, w]) =>
      svg("line", { x1: 135, x2: width - 135, y1: y(at), y2: y(right.indexOf(j)), stroke: i === now.i ? "var(--rose)" : "var(--w)", "stroke-width": i === now.i ? 1 + 4 * w : 2, opacity: i === now.i ? Math.max(0.25, w) : w * 0.7 })));
    const text = (token, number, at, side, chosen, press) => svg("text", { x: side ? width - 130 : 130, y: y(at) + 5, "text-anchor": side ? "start" : "end",
      style: `${chosen ? "font-weight: 700;" : ""} ${press ? "cursor: pointer" : ""}`, onclick: press }, `${side ? `${number} ` : ""}${short(token)}${side ? "" : ` ${number}`}`);
    lined.replaceChildren(el("p", { style: "margin: 0; font-size: 13px" }, "queries on the left, keys on the right"),
      svg("svg", { viewBox: `0 0 ${width} ${tall}`, style: `width: min(100%, ${width}px)`, role: "img", "aria-label": `Lines from queries to keys of ${nameOf(now.l, now.h)}` }, ...lines,
        ...rows.map(([i], at) => text(queries[i], i, at, false, i === now.i, () => choose({ i }))), ...right.map((j, at) => text(keys[j], j, at, true, false))));
  }

  // ---- One token through all layers: of each layer the row of its query ----
  const alike = () => layers.map((_, l) => l).filter((l) => ["queries", "keys"].every((side) => layers[l][side].length === layers[now.l][side].length) && layers[l].kind === layers[now.l].kind);
  function through(l) {  // the weights of the chosen query in one layer, of the chosen head or the mean of all
    const { heads, n_k } = layers[l], total = new Float64Array(n_k), which = now.mean ? Array.from({ length: heads }, (_, h) => h) : [Math.min(now.h, heads - 1)];
    for (const h of which) for (const [j, w] of row(l, h, now.i)) total[j] += w / which.length;
    return total;
  }
  const which = choices("heads", ["mean of heads", "this head"], 0, (i) => choose({ mean: i === 0 })), strips = [];
  const stack = el("div", { style: "display: grid; grid-template-columns: auto minmax(0, 1fr) 8.5rem; gap: 2px 8px; max-height: 27rem; overflow: auto; padding: 2px" });
  function strip(l) {  // made once for each layer: what is pressed stays
    const canvas = el("canvas", { "aria-hidden": true, style: "display: block; width: 100%; height: 16px; image-rendering: pixelated" });
    const press = el("button", { type: "button", ...keep, onclick: () => choose({ l }), style: "min-height: 22px; padding: 0 0.4rem; font-size: 12px; justify-content: center" }, `${l}`);
    const says = el("span", { style: "font-size: 12px; white-space: nowrap; align-self: center" });
    return { canvas, press, says, all: [press, el("div", { style: "border: 1px solid var(--faint); align-self: center" }, canvas), says] };
  }
  function fill(l) {
    const { canvas, press, says } = strips[l], weights = through(l), best = [...weights.keys()].sort((a, b) => weights[b] - weights[a])[0];
    paint(canvas, { data: weights.map((w) => Math.round(255 * Math.sqrt(w))), high: 1, wide: layers[l].n_k });
    says.textContent = weights[best] > 0 ? `${short(layers[l].keys[best])} ${number(weights[best])}` : "nothing";
    set(press, { "aria-pressed": String(l === now.l), "aria-label": `layer ${l}: most to ${says.textContent}` });
  }
  function showThrough() {
    const list = alike();
    strips.forEach(({ all }, l) => all.forEach((node) => { node.style.display = list.includes(l) ? "" : "none"; }));
    list.forEach(fill);
  }

  // ---- What is shown ----
  const detail = el("div", { style: "min-width: 0; flex: 1 1 20rem; max-width: 36rem" }), heading = el("p", { style: "margin: 0 0 0.3rem; font-weight: 600" });
  const lined = el("div"), modes = ["Matrix", "Lines", "All layers"], shows = [showMatrix, showLines, showThrough];
  const panels = [
    el("div", {}, framed), lined, el("div", {}, which, stack)];
  const query = slider("query", { min: 0, max: 1, step: 1, value: 0, input: (i) => choose({ i }), text: (i) => (layers ? `${short(layers[now.l].queries[i])} (${i})` : "") });
  function choose(change, before = "") {
    const moved = "l" in change || "h" in change;
    now = { ...now, ...change };
    const { n_q, heads, name } = layers[now.l];
    now = { ...now, h: Math.min(now.h, heads - 1), i: clamp(now.i, 0, n_q - 1) };
    for (const { l, h, node } of cells) mark(node, l === now.l && h === now.h);
    query.move(now.i, n_q - 1);
    heading.textContent = `Layer ${now.l}, head ${now.h}${shared()} · ${name}`;
    panels.forEach((panel, mode) => { panel.hidden = mode !== now.mode; });
    shows[now.mode]();
    const which = `Layer ${now.l}, head ${now.h}: ${scoresOf(now.l, now.h)}. `.replace(": .", ".");
    say(`${before}${moved ? which : ""}${told()}`);
  }
  const mark = (node, on) => { set(node, { tabindex: on ? 0 : -1, "aria-pressed": String(on) }); node.style.outline = on ? "3px solid var(--rose)" : ""; };
  function shared() {
    const { heads, kv_heads } = layers[now.l], group = heads / kv_heads, first = Math.floor(now.h / group) * group;
    return group > 1 ? ` (heads ${first} to ${first + group - 1} share keys)` : "";
  }
  function told() {
    const { queries, keys } = layers[now.l], list = row(now.l, now.h, now.i).filter(([, w], at) => w >= 0.005 || at === 0).slice(0, 4);
    return list.length ? `“${queries[now.i]}” (${now.i}) attends to ${list.map(([j, w]) => `“${keys[j]}” (${j}) ${number(w)}`).join(", ")}.` : `“${queries[now.i]}” (${now.i}) attends to nothing.`;
  }
  const thinned = () => (about.kept ? `There are too many weights for a file: the pictures show squares of ${layers.map((one) => one.square.join(" × ")).filter((x, i, all) => all.indexOf(x) === i).join(", ")} tokens, and of each query the ${plural(about.kept, "largest weight")} ${about.kept === 1 ? "is" : "are"} kept.` : "");
  function repaint() {
    const colour = isDark() ? [186, 148, 250] : [142, 91, 208];
    if (colour[0] === purple[0]) return;
    purple = colour;
    for (const one of cells) one.show();
    if (cells.length) choose({});
  }
  function sorter() {
    const orders = ["as in the model", ...about.scores];
    const select = el("select", { ...keep, "aria-label": "order of heads",
      onchange: () => { now.order = select.selectedIndex; arrange(); first(); } },
    ...orders.map((name) => el("option", {}, name)));
    return el("label", { class: "row" }, "order of heads", select);
  }
  function first() {
    const { l, h } = ordered()[0];
    choose({ l, h });
  }
  function layOut() {
    const beside = view.clientWidth >= 600;  // what is said stands below the grid, or below all
    const caption = el("p", { style: "margin: 0; font-size: 13px" }, "layers ↓, heads →");
    const left = el("div", { style: "flex: 0 1 auto; min-width: 0; max-width: 100%" },
      caption, grid, ...(beside ? [said] : []));
    set(said, { style: beside ? "width: 0; min-width: 100%; margin-top: 0.6rem; min-height: 8.4em"
      : "margin-top: 0.6rem" });
    const across = "display: flex; flex-wrap: wrap; gap: 1rem 1.5rem; align-items: flex-start";
    const small = { style: "font-size: 13px; margin: 0.3rem 0" };
    view.replaceChildren(sorter(), el("div", { style: across }, left, detail),
      ...(beside ? [] : [said]), ...(about.kept ? [el("p", small, thinned())] : []));
  }
  function tell() {
    expose(() => ({
      ...now, said: said.textContent, row: row(now.l, now.h, now.i),
      order: ordered().map(({ l, h }) => [l, h]), through: Array.from(through(now.l)),
      picture: Array.from(picture(now.l, now.h), share),
    }));
  }
  function start(found) {
    about = found;
    layers = about.layers;
    placed(about);
    repaint();
    const watched = [document.documentElement, document.body];
    for (const node of watched) new MutationObserver(repaint).observe(node, { attributes: true });
    matchMedia("(prefers-color-scheme: dark)")
      .addEventListener("change", () => requestAnimationFrame(repaint));
    cells = layers.flatMap((layer, l) => Array.from({ length: layer.heads }, (_, h) => cell(l, h)));
    const mode = choices("show", modes, 0, (chosen) => choose({ mode: chosen }));
    detail.replaceChildren(heading, mode, query, ...panels);
    strips.push(...layers.map((_, l) => strip(l)));
    stack.replaceChildren(...strips.flatMap(({ all }) => all));
    layOut();
    arrange();
    choose({ l: 0, h: 0, i: Math.min(layers[0].n_q - 1, 5) });
    tell();
  }
  unpack().then(start);
}
