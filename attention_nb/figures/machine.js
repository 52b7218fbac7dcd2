// A whole decoder-only transformer that runs: hidden states travel from part to part, and each part opens to its numbers.
function draw({ figure, view, data, el, svg, set, clamp, softmax, sum, number, grouped, said, say, slider, player, motion, expose }) {
  const { names, n_blocks, parts } = data, wide = view.clientWidth >= 600, [plus, equals] = [10, 11];
  const { start, parts: by } = engine(figure, { data, sum, softmax });
  let a = data.a, b = data.b, at = 4;

  // ---- The steps: every part once, those of a block once in each block ----
  const steps = [0, 1, 2].map((part) => [part, 0]);
  for (let block = 0; block < n_blocks; block++) steps.push(...[3, 4, 5, 6, 7, 8].map((part) => [part, block]));
  steps.push(...[9, 10, 11, 12].map((part) => [part, n_blocks - 1]));
  const stepOf = (part, block) => steps.findIndex(([p, of]) => p === part && (part < 3 || part > 8 || of === block));

  // ---- The numbers: of each step the sheets that it shows, and what comes out ----
  const add = (x, y) => x.map((row, i) => row.map((n, j) => n + y[i][j]));
  function through(run, x, block) {
    const name = `stack.blocks.${block}`, norm1 = by.norm(run, `${name}.attention_norm`, x);
    const attended = by.attention(run, `${name}.attention`, norm1, norm1, true), between = add(x, attended);
    const norm2 = by.norm(run, `${name}.feed_forward_norm`, between);
    const inner = by.linear(run, `${name}.feed_forward.up_proj`, norm2).map((row) => row.map((n) => Math.max(0, n)));
    const fed = by.linear(run, `${name}.feed_forward.down_proj`, inner), end = add(between, fed);
    return [
      { sheets: [["the residual stream", x], ["normalized", norm1]], out: norm1 },
      { weights: run.seen[`${name}.attention`], sheets: [["what attention gives", attended]], out: attended },
      { sheets: [["the residual stream", x], ["+ what attention gives", attended], ["= the residual stream", between]], out: between },
      { sheets: [["the residual stream", between], ["normalized", norm2]], out: norm2 },
      { sheets: [[`${inner[0].length} numbers for each token, after ReLU`, inner], ["what the feed-forward layer gives", fed]], out: fed },
      { sheets: [["the residual stream", between], ["+ what the feed-forward layer gives", fed], ["= the residual stream", end]], out: end }];
  }
  function compute() {
    const ids = [a, plus, b, equals], run = start(data.model.steps.length - 1), table = run.w["embed.table.weight"];
    const picked = ids.map((id) => table[id]), x = by.embed(run, "embed", ids), places = run.w["embed.positions.weight"];
    const found = [{ ids }, { sheets: [["the row of each id", picked]], out: picked },
      { sheets: [["token embedding", picked], ["+ position vectors", places], ["= the residual stream", x]], out: x }];
    for (let block = 0; block < n_blocks; block++) found.push(...through(run, found.at(-1).out, block));
    const last = found.at(-1).out, end = by.norm(run, "stack.norm", last), logits = end.map((row) => table.map((one) => sum(one.map((n, i) => n * row[i]))));
    const chances = logits.map(softmax), next = chances.at(-1).indexOf(Math.max(...chances.at(-1)));
    found.push({ sheets: [["the residual stream", last], ["normalized", end]], out: end }, { bars: logits.at(-1), out: logits },
      { bars: chances.at(-1), percent: true, out: chances }, { bars: chances.at(-1), percent: true, next });
    return { ids, found, next, chance: chances.at(-1)[next] };
  }

  // ---- The sheet: vectors as small bars with their numbers, a row for each token ----
  const text = (x, y, says, more = {}) => svg("text", { x, y, "aria-hidden": true, "pointer-events": "none", ...more }, says);
  const line = (d, more = {}) => svg("path", { d, fill: "none", stroke: "currentColor", "stroke-width": 1.5, ...more });
  const small = (more = "") => ({ style: `font-size: 12px; ${more}` }), room = 320, left = 26, high = 24;
  const board = svg("svg", { width: room, height: 372, viewBox: `0 0 ${room} 372`, role: "img", style: "max-width: 100%; height: auto" });
  function vectors([title, rows], top, now) {
    const cell = (room - left - 2) / rows[0].length, digits = cell > 24;
    const most = Math.max(...rows.flat().map(Math.abs), 1e-9);
    const entry = (value, x, middle) => {
      const tall = 10 * Math.abs(value) / most;
      const bar = svg("rect", { x: x + 1, y: value > 0 ? middle - tall : middle, width: cell - 2, height: tall, fill: "var(--neutral)", "fill-opacity": 0.5 });
      return digits ? [bar, text(x + cell / 2, middle + 4, number(value, 1), { "text-anchor": "middle", ...small() })] : [bar];
    };
    return [text(0, top + 13, title, { style: "font-size: 13px; font-weight: 600" }), ...rows.flatMap((row, i) => {
      const middle = top + 32 + high * i;
      return [text(4, middle + 5, names[now.ids[i]], { style: "font-weight: 600" }), ...(digits ? [] : [line(`M${left} ${middle}H${room - 2}`, { stroke: "var(--faint)", "stroke-width": 1 })]),
        ...row.flatMap((value, j) => entry(value, left + cell * j, middle))];
    })];
  }
  function heads(weights, now) {  // the attention of each head, as a matrix
    const side = 29, broad = 160;
    return weights.flatMap((rows, h) => {
      const [x, top] = [broad * h + left, 34];
      const square = (w, i, j) => [svg("rect", { x: x + side * j, y: top + side * i, width: side - 1, height: side - 1, fill: "var(--w)", "fill-opacity": 0.08 + 0.6 * w, "data-sym": "w" }),
        text(x + side * j + side / 2, top + side * i + 19, Math.round(100 * w), { "text-anchor": "middle", ...small() })];
      return [text(broad * h, 13, `head ${h}: weights, %`, { style: "font-size: 13px; font-weight: 600" }),
        ...rows.flatMap((row, i) => [text(broad * h + 4, top + side * i + 19, names[now.ids[i]], { style: "font-weight: 600" }), text(x + side * i + 14, 29, names[now.ids[i]], { "text-anchor": "middle", ...small() }),
          ...row.flatMap((w, j) => (j <= i ? square(w, i, j) : []))])];
    });
  }
  function tokens(now) {
    return now.ids.flatMap((id, i) => [svg("rect", { x: 4, y: 28 + 42 * i, width: 44, height: 30, rx: 5, fill: "none", stroke: "var(--soft)" }),
      text(26, 49 + 42 * i, names[id], { "text-anchor": "middle", style: "font-weight: 600; font-size: 16px" }), line(`M54 ${43 + 42 * i}H84`, { stroke: "var(--soft)" }), text(94, 48 + 42 * i, `id ${id}`)]);
  }
  function outcomes({ bars, percent, next }) {  // one bar for each token of the vocabulary
    const most = Math.max(...bars.map(Math.abs)), zero = percent ? 34 : 150, reach = percent ? 220 : 105, step = 27;
    return [text(0, 13, percent ? "probability of each next token" : "logit of each next token, at “=”", { style: "font-size: 13px; font-weight: 600" }), ...bars.flatMap((value, i) => {
      const long = reach * Math.abs(value) / most, y = 26 + step * i, chosen = i === next;
      return [text(10, y + 16, names[i], { "text-anchor": "middle", style: "font-weight: 600" }),
        svg("rect", { x: value < 0 ? zero - long : zero, y: y + 2, width: Math.max(1, long), height: step - 6, rx: 2, fill: "var(--neutral)", "fill-opacity": 0.55, stroke: chosen ? "var(--rose)" : "none", "stroke-width": 3 }),
        text(value < 0 ? zero - long - 6 : zero + long + 6, y + 17, percent ? `${number(100 * value, 1)} %` : number(value, 1), { "text-anchor": value < 0 ? "end" : "start", style: "font-size: 13px" })];
    })];
  }
  function contents(now, { ids, weights, sheets, bars, ...more }) {
    if (ids) return [text(0, 13, "each token is a number in the vocabulary", { style: "font-size: 13px; font-weight: 600" }), ...tokens(now)];
    if (bars) return outcomes({ bars, ...more });
    const first = weights ? 164 : 0;
    return [...(weights ? heads(weights, now) : []), ...sheets.flatMap((sheet, i) => vectors(sheet, first + 124 * i, now))];
  }

  // ---- The machine: where each part stands (its middle, its height, its width), drawn as on the map of the book ----
  const width = 356, height = 574, stream = 124, arm = 248;
  const places = [[stream, 18, 28, 172], [stream, 68, 28, 172], [arm, 108, 26, 132], [arm, 186, 24, 132], [arm, 220, 28, 132], [stream, 250],
    [arm, 288, 24, 132], [arm, 322, 30, 132], [stream, 352], [stream, 410, 26, 172], [stream, 456, 28, 172], [stream, 508, 26, 172], [stream, 554, 28, 44]];
  const choose = (part) => ({ style: "cursor: pointer", onclick: () => { play.stop(); show(stepOf(part, steps[at][1])); } });
  function shape([x, y, tall, broad], part) {
    const box = { x: x - broad / 2, y: y - tall / 2, width: broad, height: tall, rx: 5 };
    if (!tall) return svg("circle", { cx: x, cy: y, r: 10, ...choose(part) });
    if (part !== 7) return svg("rect", { ...box, ...choose(part) });
    const [l, r, t, u] = [x - broad / 2, x + broad / 2, y - tall / 2, y + tall / 2];
    return svg("path", { d: `M${l} ${t}H${r}L${r - 14} ${u}H${l + 14}Z`, "stroke-linejoin": "round", ...choose(part) });
  }
  const nodes = places.map(shape), root = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", style: "min-width: 0; max-width: calc(100vw - 3rem); height: auto" });
  const behind = (x, y, broad, tall, by, look) => [2 * by, by, 0].map((far) => svg("rect", { x: x + far, y: y - far, width: broad, height: tall, rx: 6, "stroke-width": 1, ...look }));
  const labels = places.flatMap(([x, y, tall], i) => (i && i < 12 ? [text(x, y + 5, tall ? parts[i].label : "+", { "text-anchor": "middle" })] : []));
  const head = (x, y, way) => {  // of an arrow that ends here: down, left
    const points = { down: [[-4, -8], [4, -8]], left: [[8, -4], [8, 4]] }[way].map(([dx, dy]) => `${x + dx} ${y + dy}`);
    return svg("path", { d: `M${x} ${y}L${points.join("L")}Z`, fill: "currentColor", stroke: "none" });
  };
  const down = (from, to) => [line(`M${stream} ${from}V${to - 4}`), head(stream, to, "down")];
  const aside = (from, top, bottom, to) => [line(`M${stream} ${from}H${arm}V${top - 4}`), head(arm, top, "down"), line(`M${arm} ${bottom}V${to}H${stream + 14}`), head(stream + 10, to, "left")];
  const written = [0, 1, 2, 3].map((i) => text(stream - 66 + 44 * i, 23, "", { "text-anchor": "middle", style: "font-weight: 600" }));
  const chips = [0, 1, 2, 3].map((i) => svg("rect", { x: stream - 83 + 44 * i, y: 7, width: 34, height: 22, rx: 4, fill: "var(--paper)", stroke: "var(--soft)", "pointer-events": "none" }));
  const answer = text(stream, 559, "", { "text-anchor": "middle", style: "font-weight: 600" }), which = text(318, 162, "", { "text-anchor": "end", style: "font-weight: 600" });
  const packet = svg("g", { "pointer-events": "none" });
  root.append(
    ...behind(4, 146, 322, 224, 4, { fill: "var(--paper)", stroke: "var(--faint)" }),
    svg("rect", { x: 4, y: 146, width: 322, height: 224, rx: 8, fill: "var(--paper)", stroke: "var(--soft)" }), which,
    ...behind(arm - 66, 206, 132, 28, 3, { fill: "var(--paper)", stroke: "var(--accent)", "stroke-opacity": 0.6 }),
    ...down(32, 54), ...down(82, 98), line(`M${arm - 66} 108H${stream + 14}`), head(stream + 10, 108, "left"), svg("circle", { cx: stream, cy: 108, r: 10, fill: "var(--paper)", stroke: "currentColor" }), text(stream, 113, "+", { "text-anchor": "middle" }),
    ...down(118, 240), ...aside(166, 174, 234, 250), line(`M${arm} 198V206`), ...down(260, 342), ...aside(268, 276, 337, 352), line(`M${arm} 300V307`),
    ...down(362, 397), ...down(423, 442), ...down(470, 495), ...down(521, 540),
    line(`M${stream + 22} 554H346V18H${stream + 94}`, { "stroke-dasharray": "3 4" }), head(stream + 90, 18, "left"), text(stream + 30, 570, "append, and again", { style: "font-size: 13px; fill: var(--soft)" }),
    ...nodes, ...labels, ...chips, ...written, answer, packet);

  // ---- The hidden states that travel: a row for each token, a column for each number; the darker, the larger ----
  const spots = places.map(([x, y, tall, broad], part) => (part === 2 ? [stream - 46, y] : !tall ? [stream - 46, y] : x === arm ? [157, y] : [x + broad / 2 + 26, y]));
  const move = motion();
  let stands = spots[steps[at][0]];
  const stand = ([x, y]) => { stands = [x, y]; set(packet, { transform: `translate(${x.toFixed(1)} ${y.toFixed(1)})` }); };
  function paint(out) {
    if (!out) { packet.replaceChildren(); return; }
    const [rows, columns] = [out.length, out[0].length], broad = 40 / columns, most = Math.max(...out.flat().map(Math.abs));
    packet.replaceChildren(svg("rect", { x: -22, y: -14, width: 44, height: 28, rx: 3, fill: "var(--paper)", stroke: "var(--rose)", "stroke-width": 1.5 }),
      ...out.flatMap((row, i) => row.map((value, j) => svg("rect", { x: -20 + broad * j, y: -12 + 24 / rows * i, width: broad, height: 24 / rows, fill: "var(--accent)", "fill-opacity": clamp(0.5 + 0.5 * value / most, 0, 1) }))));
  }
  function travel(to, out) {
    const [x, y] = stands;
    if (x === to[0] && y === to[1]) { move(0, () => { }); paint(out); return; }
    move(450, (t) => stand([x + (to[0] - x) * t, y + (to[1] - y) * t])).then((came) => { if (came) paint(out); });
  }

  // ---- What is shown ----
  let state;
  function explain(now) {
    const [part, block] = steps[at], { name, says, parameters, large, shape: sized } = parts[part];
    const where = part > 2 && part < 9 ? `, block ${block + 1} of ${n_blocks}` : "", counted = parameters ? ` Parameters: ${grouped(parameters)} here, ${grouped(large)} in the smallest GPT-2.` : "";
    const end = part > 10 ? ` Here it is “${names[now.next]}”, with ${number(100 * now.chance, 1)} %.` : "";
    say(`${name}${where}. ${says}${end} Shape: ${sized}.${counted}`);
    set(board, { "aria-label": `The numbers of step ${at + 1}, ${name}${where}` });
    set(root, { "aria-label": `A decoder-only transformer from token ids to the next token; marked: ${name}${where}` });
  }
  function show(to = at) {
    at = to;
    const now = compute(), [part, block] = steps[at];
    nodes.forEach((node, i) => set(node, { fill: i === 4 ? "color-mix(in srgb, var(--accent) 14%, transparent)" : "var(--paper)", stroke: i === part ? "var(--rose)" : i === 4 ? "var(--accent)" : "var(--soft)", "stroke-width": i === part ? 3.5 : 1 }));
    which.textContent = `block ${block + 1} of ${n_blocks}`;
    written.forEach((node, i) => { node.textContent = names[now.ids[i]]; });
    answer.textContent = part > 10 ? names[now.next] : "?";
    board.replaceChildren(...contents(now, now.found[at]));
    travel(spots[part], now.found[at].out);
    rail.move(at + 1);
    explain(now);
    state = { step: at, name: parts[part].name, block, a, b, ...now };
  }
  const pick = (which) => (n) => { if (which) b = n; else a = n; show(); };
  const digit = { min: 0, max: 9, step: 1, text: String };
  const one = slider("first digit", { ...digit, value: a, input: pick(0) }), other = slider("second digit", { ...digit, value: b, input: pick(1) });
  const rail = slider("Step", { min: 1, max: steps.length, step: 1, value: at + 1, text: (i) => `${i} of ${steps.length}`, input: (i) => { play.stop(); show(i - 1); } });
  for (const [node, room] of [[one, 9], [other, 9], [rail, 6]]) node.querySelector("input").style.width = `${room}rem`;
  const play = player({ at: () => at, last: () => steps.length - 1, go: show, ms: () => 1400 });
  set(said, { style: "min-height: 8.4em" });
  view.append(el("div", { class: "beside", style: "align-items: flex-start; flex-wrap: nowrap; gap: 1.5rem" + (wide ? "" : "; flex-direction: column") },
    el("div", { style: wide ? "flex: 1 1 14rem; min-width: 0" : "width: 100%" }, el("div", { class: "row", style: "margin-top: 0" }, play.node, rail), board, said, one, other), root));
  stand(stands);
  show();
  expose(() => state);
}
