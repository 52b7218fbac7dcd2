(() => {
function draw(stage) {
  const { figure, view, viewWidth, data, el, svg, set, clamp, softmax } = stage;
  const { sum, number, grouped } = stage;
  const { said, say, slider, player, motion, expose } = stage;
  const { names, n_blocks, parts } = data;
  const wide = viewWidth >= 600;
  const [plus, equals] = [10, 11];
  const { start, parts: by } = engine(figure, { data, sum, softmax });
  let a = data.a;
  let b = data.b;
  let at = 4;

  const steps = [0, 1, 2].map((part) => [part, 0]);
  for (let block = 0; block < n_blocks; block++) {
    steps.push(...[3, 4, 5, 6, 7, 8].map((part) => [part, block]));
  }
  steps.push(...[9, 10, 11, 12].map((part) => [part, n_blocks - 1]));
  const inBlock = (part) => part > 2 && part < 9;
  const stepOf = (part, block) =>
    steps.findIndex(([p, of]) => p === part && (!inBlock(part) || of === block));

  const add = (x, y) => x.map((row, i) => row.map((n, j) => n + y[i][j]));
  const relu = (row) => row.map((n) => Math.max(0, n));
  const shade = (value, most) => clamp(0.5 + 0.5 * value / most, 0, 1);
  const dot = (x, y) => sum(x.map((n, i) => n * y[i]));
  function through(run, x, block) {
    const name = `stack.blocks.${block}`;
    const layer = `${name}.feed_forward`;
    const first = by.norm(run, `${name}.attention_norm`, x);
    const attended = by.attention(run, `${name}.attention`, first, first, true);
    const between = add(x, attended);
    const second = by.norm(run, `${layer}_norm`, between);
    const inner = by.linear(run, `${layer}.up_proj`, second).map(relu);
    const fed = by.linear(run, `${layer}.down_proj`, inner);
    const end = add(between, fed);
    const [before, after] = ["the residual stream", "= the residual stream"];
    const bits = `${inner[0].length} numbers for each token, after ReLU`;
    const [attention, feedForward] = ["what attention gives", "what the feed-forward layer gives"];
    return [
      { sheets: [[before, x], ["normalized", first]], out: first },
      { weights: run.seen[`${name}.attention`], sheets: [[attention, attended]], out: attended },
      { sheets: [[before, x], [`+ ${attention}`, attended], [after, between]], out: between },
      { sheets: [[before, between], ["normalized", second]], out: second },
      { sheets: [[bits, inner], [feedForward, fed]], out: fed },
      { sheets: [[before, between], [`+ ${feedForward}`, fed], [after, end]], out: end }];
  }
  function compute() {
    const ids = [a, plus, b, equals];
    const run = start(data.model.steps.length - 1);
    const table = run.w["embed.table.weight"];
    const places = run.w["embed.positions.weight"];
    const picked = ids.map((id) => table[id]);
    const x = by.embed(run, "embed", ids);
    const both = [["token embedding", picked], ["+ position vectors", places]];
    const found = [{ ids }, { sheets: [["the row of each id", picked]], out: picked },
      { sheets: [...both, ["= the residual stream", x]], out: x }];
    for (let block = 0; block < n_blocks; block++) {
      found.push(...through(run, found.at(-1).out, block));
    }
    const last = found.at(-1).out;
    const end = by.norm(run, "stack.norm", last);
    const logits = end.map((row) => table.map((one) => dot(one, row)));
    const chances = logits.map(softmax);
    const shares = chances.at(-1);
    const next = shares.indexOf(Math.max(...shares));
    found.push({ sheets: [["the residual stream", last], ["normalized", end]], out: end },
      { bars: logits.at(-1), out: logits },
      { bars: shares, percent: true, out: chances }, { bars: shares, percent: true, next });
    return { ids, found, next, chance: shares[next] };
  }

  const quiet = { "aria-hidden": true, "pointer-events": "none" };
  const text = (x, y, says, more = {}) => svg("text", { x, y, ...quiet, ...more }, says);
  const stroke = { fill: "none", stroke: "currentColor", "stroke-width": 1.5 };
  const line = (d, more = {}) => svg("path", { d, ...stroke, ...more });
  const middle = { "text-anchor": "middle" };
  const small = { ...middle, style: "font-size: 12px" };
  const bold = { style: "font-weight: 600" };
  const heading = { style: "font-size: 13px; font-weight: 600" };
  const room = 320, left = 26, high = 24;
  const picture = (width, height, style) =>
    svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", style });
  const board = picture(room, 372, "max-width: 100%; height: auto");
  function vectors([title, rows], top, now) {
    const cell = (room - left - 2) / rows[0].length;
    const digits = cell > 24;
    const most = Math.max(...rows.flat().map(Math.abs), 1e-9);
    const size = { width: cell - 1, height: high - 2, fill: "var(--accent)" };
    const shaded = (value, x, zero) => [  // in the shade that it has in the small picture
      svg("rect", { x, y: zero - 11, ...size, "fill-opacity": 0.45 * shade(value, most) }),
      text(x + cell / 2, zero + 4, number(value, 1), small)];
    const barred = (value, x, zero) => [svg("rect", { x, y: zero - 10 * value / most,
      width: cell - 2, height: 10 * value / most, fill: "var(--accent)" })];  // after ReLU
    const entry = digits ? shaded : barred;
    return [text(0, top + 13, title, heading), ...rows.flatMap((row, i) => {
      const zero = top + 32 + high * i;
      const faint = { stroke: "var(--faint)", "stroke-width": 1 };
      return [text(4, zero + 5, names[now.ids[i]], bold),
        ...(digits ? [] : [line(`M${left} ${zero}H${room - 2}`, faint)]),
        ...row.flatMap((value, j) => entry(value, left + cell * j, zero))];
    })];
  }
  function heads(weights, now) {  // the attention of each head, as a matrix
    const side = 29;
    const broad = 160;
    const top = 34;
    const size = { width: side - 1, height: side - 1 };
    const look = (w) => ({ fill: "var(--w)", "fill-opacity": 0.08 + 0.6 * w, "data-sym": "w" });
    const square = (w, x, y) => [svg("rect", { x, y, ...size, ...look(w) }),
      text(x + side / 2, y + 19, Math.round(100 * w), small)];
    return weights.flatMap((rows, h) => {
      const x = broad * h + left;
      const rowAt = (i) => top + side * i;
      return [text(broad * h, 13, `head ${h}: weights, %`, heading), ...rows.flatMap((row, i) => [
        text(broad * h + 4, rowAt(i) + 19, names[now.ids[i]], bold),
        text(x + side * i + 14, 29, names[now.ids[i]], small),
        ...row.slice(0, i + 1).flatMap((w, j) => square(w, x + side * j, rowAt(i)))])];
    });
  }
  function tokens(now) {
    const frame = { width: 44, height: 30, rx: 5, fill: "none", stroke: "var(--soft)" };
    const large = { ...middle, style: "font-weight: 600; font-size: 16px" };
    return now.ids.flatMap((id, i) => [svg("rect", { x: 4, y: 28 + 42 * i, ...frame }),
      text(26, 49 + 42 * i, names[id], large), text(94, 48 + 42 * i, `id ${id}`),
      line(`M54 ${43 + 42 * i}H84`, { stroke: "var(--soft)" })]);
  }
  function outcomes({ bars, percent, next }) {  // one bar for each token of the vocabulary
    const most = Math.max(...bars.map(Math.abs));
    const [zero, reach] = percent ? [34, 220] : [150, 105];
    const title = percent ? "probability of each next token" : "logit of each next token, at “=”";
    const write = (x) => (percent ? `${number(100 * x, 1)} %` : number(x, 1));
    const step = 27;
    const fill = { fill: "var(--neutral)", "fill-opacity": 0.55, "stroke-width": 3 };
    return [text(0, 13, title, heading), ...bars.flatMap((value, i) => {
      const long = reach * Math.abs(value) / most;
      const y = 26 + step * i;
      const below = value < 0;
      const size = { y: y + 2, width: Math.max(1, long), height: step - 6, rx: 2 };
      const look = { ...fill, stroke: i === next ? "var(--rose)" : "none" };
      const side = { "text-anchor": below ? "end" : "start", style: "font-size: 13px" };
      return [text(10, y + 16, names[i], { ...middle, ...bold }),
        svg("rect", { x: below ? zero - long : zero, ...size, ...look }),
        text(below ? zero - long - 6 : zero + long + 6, y + 17, write(value), side)];
    })];
  }
  function contents(now, { ids, weights, sheets, bars, ...more }) {
    if (ids) {
      const title = text(0, 13, "each token is a number in the vocabulary", heading);
      return [title, ...tokens(now)];
    }
    if (bars) return outcomes({ bars, ...more });
    const first = weights ? 164 : 0;
    const below = sheets.flatMap((sheet, i) => vectors(sheet, first + 124 * i, now));
    return [...(weights ? heads(weights, now) : []), ...below];
  }

  const width = 356, height = 574, stream = 124, arm = 248;
  const places = [[stream, 18, 28, 172], [stream, 68, 28, 172], [arm, 108, 26, 132],
    [arm, 186, 24, 132], [arm, 220, 28, 132], [stream, 250],
    [arm, 288, 24, 132], [arm, 322, 30, 132], [stream, 352],
    [stream, 410, 26, 172], [stream, 456, 28, 172], [stream, 508, 26, 172], [stream, 554, 28, 44]];
  function choose(part) {
    const click = () => { play.stop(); show(stepOf(part, steps[at][1])); };
    return { style: "cursor: pointer", onclick: click };
  }
  function shape([x, y, tall, broad], part) {
    const box = { x: x - broad / 2, y: y - tall / 2, width: broad, height: tall, rx: 5 };
    if (!tall) return svg("circle", { cx: x, cy: y, r: 10, ...choose(part) });
    if (part !== 7) return svg("rect", { ...box, ...choose(part) });
    const [l, r, t, u] = [x - broad / 2, x + broad / 2, y - tall / 2, y + tall / 2];
    const d = `M${l} ${t}H${r}L${r - 14} ${u}H${l + 14}Z`;
    return svg("path", { d, "stroke-linejoin": "round", ...choose(part) });
  }
  const nodes = places.map(shape);
  const root = picture(width, height, "min-width: 0; max-width: calc(100vw - 3rem); height: auto");
  function behind(x, y, width, height, by, look) {  // three sheets, one behind the other
    const size = { width, height, rx: 6, "stroke-width": 1, fill: "var(--paper)", ...look };
    return [2 * by, by, 0].map((far) => svg("rect", { x: x + far, y: y - far, ...size }));
  }
  const labels = places.slice(1, 12).map(([x, y, tall], i) =>
    text(x, y + 5, tall ? parts[i + 1].label : "+", middle));
  const head = (x, y, way) => {  // of an arrow that ends here: down, left
    const far = { down: [[-4, -8], [4, -8]], left: [[8, -4], [8, 4]] }[way];
    const points = far.map(([dx, dy]) => `${x + dx} ${y + dy}`);
    return svg("path", { d: `M${x} ${y}L${points.join("L")}Z`, fill: "currentColor" });
  };
  const down = (from, to) => [line(`M${stream} ${from}V${to - 4}`), head(stream, to, "down")];
  const aside = (from, top, bottom, to) => [
    line(`M${stream} ${from}H${arm}V${top - 4}`), head(arm, top, "down"),
    line(`M${arm} ${bottom}V${to}H${stream + 14}`), head(stream + 10, to, "left")];
  const tops = [0, 1, 2, 3].map((i) => stream - 66 + 44 * i);
  const strong = { ...middle, ...bold };
  const written = tops.map((x) => text(x, 23, "", strong));
  const chip = { y: 7, width: 34, height: 22, rx: 4, fill: "var(--paper)", stroke: "var(--soft)" };
  const chips = tops.map((x) => svg("rect", { x: x - 17, ...chip, "pointer-events": "none" }));
  const answer = text(stream, 559, "", strong);
  const which = text(318, 162, "", { ...bold, "text-anchor": "end" });
  const packet = svg("g", { "pointer-events": "none" });
  const dashed = { "stroke-dasharray": "3 4" };
  const tinted = { stroke: "var(--accent)", "stroke-opacity": 0.6 };
  root.append(
    ...behind(4, 146, 322, 224, 4, { stroke: "var(--faint)" }),
    ...behind(4, 146, 322, 224, 0, { stroke: "var(--soft)" }).slice(2), which,
    ...behind(arm - 66, 206, 132, 28, 3, tinted),
    ...down(32, 54), ...down(82, 98), ...down(118, 240), ...down(260, 342), ...down(362, 397),
    ...down(423, 442), ...down(470, 495), ...down(521, 540),
    line(`M${arm - 66} 108H${stream + 14}`), head(stream + 10, 108, "left"),
    svg("circle", { cx: stream, cy: 108, r: 10, fill: "var(--paper)", stroke: "currentColor" }),
    text(stream, 113, "+", middle), line(`M${arm} 198V206M${arm} 300V307`),
    ...aside(166, 174, 234, 250), ...aside(268, 276, 337, 352),
    line(`M${stream + 22} 554H346V18H${stream + 94}`, dashed), head(stream + 90, 18, "left"),
    text(stream + 30, 570, "append, and again", { style: "font-size: 13px; fill: var(--soft)" }),
    ...nodes, ...labels, ...chips, ...written, answer, packet);

  const spots = places.map(([x, y, tall, broad], part) => {
    if (part === 2 || !tall) return [stream - 46, y];
    return x === arm ? [157, y] : [x + broad / 2 + 26, y];
  });
  const move = motion();
  let stands = spots[steps[at][0]];
  function stand([x, y]) {
    stands = [x, y];
    set(packet, { transform: `translate(${x.toFixed(1)} ${y.toFixed(1)})` });
  }
  const card = { x: -22, y: -14, width: 44, height: 28, rx: 3, fill: "var(--paper)" };
  function paint(out) {
    if (!out) { packet.replaceChildren(); return; }
    const width = 40 / out[0].length, height = 24 / out.length;
    const most = Math.max(...out.flat().map(Math.abs));
    const cell = (value, i, j) => svg("rect", {
      x: -20 + width * j, y: -12 + height * i, width, height, fill: "var(--accent)",
      "fill-opacity": shade(value, most) });
    const cells = out.flatMap((row, i) => row.map((value, j) => cell(value, i, j)));
    const frame = svg("rect", { ...card, stroke: "var(--rose)", "stroke-width": 1.5 });
    packet.replaceChildren(frame, ...cells);
  }
  function travel(to, out) {
    const [x, y] = stands;
    if (x === to[0] && y === to[1]) { move(0, () => { }); paint(out); return; }
    const go = (t) => stand([x + (to[0] - x) * t, y + (to[1] - y) * t]);
    move(450, go).then((came) => { if (came) paint(out); });
  }

  let state;
  function lookOf(part, marked) {
    const tint = "color-mix(in srgb, var(--accent) 14%, transparent)";
    const [fill, edge] = part === 4 ? [tint, "accent"] : ["var(--paper)", "soft"];
    return { fill, stroke: `var(--${marked ? "rose" : edge})`, "stroke-width": marked ? 3.5 : 1 };
  }
  function explain(now) {
    const [part, block] = steps[at];
    const { name, says, parameters, large, shape: sized } = parts[part];
    const where = inBlock(part) ? `, block ${block + 1} of ${n_blocks}` : "";
    const sizes = `${grouped(parameters)} here, ${grouped(large)} in the smallest GPT-2`;
    const counted = parameters ? ` Parameters: ${sizes}.` : "";
    const chosen = `“${names[now.next]}”, with ${number(100 * now.chance, 1)} %`;
    const end = part > 10 ? ` Here it is ${chosen}.` : "";
    say(`${name}${where}. ${says}${end} Shape: ${sized}.${counted}`);
    set(board, { "aria-label": `The numbers of step ${at + 1}, ${name}${where}` });
    const whole = "A decoder-only transformer from token ids to the next token";
    set(root, { "aria-label": `${whole}; marked: ${name}${where}` });
  }
  function show(to = at) {
    at = to;
    const now = compute();
    const [part, block] = steps[at];
    nodes.forEach((node, i) => set(node, lookOf(i, i === part)));
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
  const one = slider("first digit", { ...digit, value: a, input: pick(0) });
  const other = slider("second digit", { ...digit, value: b, input: pick(1) });
  const rail = slider("Step", { min: 1, max: steps.length, step: 1, value: at + 1,
    text: (i) => `${i} of ${steps.length}`, input: (i) => { play.stop(); show(i - 1); } });
  for (const [node, room] of [[one, 9], [other, 9], [rail, 6]]) {
    node.querySelector("input").style.width = `${room}rem`;
  }
  const play = player({ at: () => at, last: () => steps.length - 1, go: show, ms: () => 1400 });
  set(said, { style: "min-height: 8.4em; margin-top: 0.4rem" });
  const [flow, side] = wide ? ["", "flex: 1 1 14rem; min-width: 0"]
    : ["; flex-direction: column", "width: 100%"];
  const beside = `align-items: flex-start; flex-wrap: nowrap; gap: ${wide ? 1.5 : 0.4}rem${flow}`;
  const stay = "position: sticky; top: 2.9rem; z-index: 2; width: 100%; padding-block: 0.4rem; "
    + "background: var(--paper)";
  const top = el("div", { class: "row", style: `margin: 0; ${wide ? "" : stay}` }, play.node, rail);
  const panel = [one, other, said, board];
  view.append(el("div", { class: "beside", style: beside }, ...(wide ? [] : [top]),
    el("div", { style: side }, ...(wide ? [top] : []), ...panel), root));
  stand(stands);
  show();
  expose(() => state);
}
for (const figure of document.querySelectorAll("figure[data-drawing=machine]")) draw(stage(figure));
})();
