(() => {
// A sentence, the weights of one of its tokens, and the steps that make them: each is seen in a plane and read in a table.
function draw({ view, data, el, svg, set, clamp, dot, matmul, softmax, mix, number, listed, said, say, choices, button, player, byItself, tween, motion, plane, expose, keep }) {
  const { table, axes, features, sentences, at_most: atMost } = data, SIZE = 340, d = data.W_q[0].length;
  const steps = [["tokens", "vectors x"], ["query", "q = x · W_q"], ["match", "q · k"], ["scale", "÷ √d"], ["weights", "softmax"], ["sum", "Σ weight · v"], ["context", "before, after"]];
  const WEIGHTS = 4, SUM = 5, LAST = steps.length - 1;
  let tokens = sentences[0].split(" "), chosen = data.chosen, step = LAST, work;

  // ---- What a reader sees: the steps, the sentence under its arcs, then arrows beside numbers; last, a sentence of one's own ----
  const arcs = svg("svg", { style: "position: absolute; inset: 0; width: 100%; height: 100%; pointer-events: none", "aria-hidden": true });
  const line = el("div", { class: "tokens", role: "group", "aria-label": "The tokens of the sentence" });
  const chips = Array.from({ length: atMost }, (_, i) => set(button("", () => choose(i)), { onpointerenter: (e) => { if (e.pointerType === "mouse") { end(); choose(i); } } }));
  line.append(...chips);
  const sky = el("div", { class: "sky" }, arcs, line);
  const marks = steps.map(([name, how], i) => set(button("", () => { play.stop(); go(i); }), {}, el("span", {}, name), el("span", { class: "how" }, how)));
  const play = player({ at: () => step, last: () => LAST, go, ms: () => 2600 });
  const rail = el("div", { class: "row rail", role: "group", "aria-label": "The steps" }, play.node, ...marks);
  const own = el("input", { type: "text", size: 24, maxlength: 120, placeholder: "or type a sentence", "aria-label": "A sentence of your own", ...keep });
  const form = el("form", { class: "row", onsubmit: (e) => { e.preventDefault(); read(own.value); } }, own, el("button", { type: "submit", ...keep }, "Use it"));
  const picker = choices("Sentence", sentences, 0, (i) => read(sentences[i]));
  const yours = el("details", { class: "yours" }, el("summary", {}, "Try yours: other sentences, and your own"), picker, form);

  // The table has a row for each token. Its columns are the steps; each is there from its step on, and on a phone until another.
  const columns = [
    { head: () => (step < 2 ? ["x: ", features.join(", ")] : [hued("k", "key k")]), from: 0, until: 2, cell: (i) => (step < 2 ? vector("", work.x[i]) : vector("k", work.k[i])) },
    { head: () => [hued("q", "q"), " · ", hued("k", "k")], from: 2, until: 3, cell: (i) => [number(work.dots[i])], bar: (i) => work.dots[i] },
    { head: () => [`÷ √${d}`], from: 3, until: 4, cell: (i) => [number(work.scores[i])], bar: (i) => work.scores[i] },
    { head: () => [hued("w", "weight")], from: WEIGHTS, until: LAST, cell: (i) => [hued("w", percent(work.weights[i]))], bar: (i) => work.weights[i], sym: "w" },
    { head: () => [hued("w", "weight"), " · ", hued("v", "value v")], from: SUM, until: LAST, cell: (i) => vector("v", work.v[i].map((n) => n * work.weights[i])) }];
  const heads = columns.map(() => el("th", { scope: "col" }));
  const rows = Array.from({ length: atMost }, () => el("tr", {}, el("th", { scope: "row" }), ...columns.map(() => el("td"))));
  const asks = el("p", { class: "whose" }), result = el("p", { class: "whose" });
  const list = el("div", { class: "numbers", role: "group", "aria-label": "The numbers", ...keep },
    asks, el("table", { class: "tight" }, el("thead", {}, el("tr", {}, el("td", {}), ...heads)), el("tbody", {}, ...rows)), result);
  const picture = el("div", { class: "picture" });
  view.append(el("div", { class: "scene" }, rail, sky, picture, list, said), yours);

  const telling = Object.keys(table).filter((token) => table[token].some((n) => n > 0));
  const known = telling.filter((_, i) => i % Math.ceil(telling.length / 8) === 0).join(", ");

  // ---- The numbers ----
  function compute() {
    const x = tokens.map((token) => table[token] ?? data.unknown);
    const [q, k, v] = [data.W_q, data.W_k, data.W_v].map((matrix) => matmul(x, matrix));
    const dots = k.map((key) => dot(q[chosen], key)), scores = dots.map((s) => s / Math.sqrt(q[0].length));
    const weights = softmax(scores), square = dot(q[chosen], q[chosen]) || 1;
    const projections = dots.map((s) => q[chosen].map((n) => n * s / square));  // of the perpendiculars from the keys to q
    work = { x, q, k, v, dots, projections, scores, weights, context: mix(weights, v) };
  }

  function read(text) {
    const found = text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? [];
    if (!found.length) { say("Type a few words first."); return; }
    tokens = found.slice(0, atMost);
    const ranks = tokens.map((token) => (table[token] ?? data.unknown)).map((row) => 2 * (row[2] > 0) + row.some((n) => n > 0));
    chosen = ranks.indexOf(Math.max(...ranks));  // a token whose sense is open; else one that has a subject
    play.stop();
    lay();
    const unknown = [...new Set(found)].filter((token) => !(token in table)), some = unknown.slice(0, 4).join(", ");
    const notes = [found.length > atMost && `The first ${atMost} tokens are used.`,
      unknown.length && `Not in this small table: ${unknown.length > 4 ? `${some} and ${unknown.length - 4} more` : some}. Their vectors are zeros, so no query finds them. Of ${Object.keys(table).length} tokens it knows ${known}.`];
    if (notes.some(Boolean)) { say(notes.filter(Boolean).join(" ")); fit(); }
  }

  // ---- Drawing ----
  const name = (i) => `“${tokens[i]}”`;
  const percent = (w) => `${Math.round(100 * w)} %`;
  function lay() {
    set(line, { "data-long": tokens.join("").length > 26 });
    chips.forEach((chip, i) => {
      chip.textContent = tokens[i] ?? "";
      set(chip, { title: i < tokens.length ? vectorOf(tokens[i]) : null, style: i < tokens.length ? null : "display: none" });
    });
    choose(chosen);
  }
  const vectorOf = (token) => token in table ? table[token].map((n, i) => `${features[i]} ${number(n)}`).join(", ") : "not in the table";
  function choose(i) {
    chosen = i;
    compute();
    chips.forEach((chip, j) => set(chip, { "aria-pressed": String(j === i) }));
    go(step);
  }

  // ---- Above the tokens: their numbers, then their scores, and arcs once there are weights ----
  const grow = motion();
  function tops() {  // where the tokens end above
    const box = sky.getBoundingClientRect();
    return box.width ? chips.slice(0, tokens.length).map((chip) => { const b = chip.getBoundingClientRect(); return [b.left + b.width / 2 - box.left, b.top - box.top]; }) : [];
  }
  function bend(still) {
    const made = step < WEIGHTS ? tops().flatMap(step < 2 ? barsOf : scoreOf) : tops().map(arcTo);
    arcs.replaceChildren(...made);
    if (step >= WEIGHTS && !still) grow(700, (t) => { for (const path of made) set(path, { "stroke-dashoffset": 1 - t }); });
  }
  function arcTo([x, y], i, all) {  // from the chosen token, as wide as its weight
    const [x0, y0] = all[chosen], up = Math.min(76, 30 + Math.abs(x - x0) * 0.2), top = Math.max(4 - Math.min(y, y0), -up), w = work.weights[i];
    const path = i === chosen ? `M${x - 9} ${y}C${x - 24} ${y - 38},${x + 24} ${y - 38},${x + 9} ${y}` : `M${x0} ${y0}C${x0} ${y0 + top * 1.3},${x} ${y + top * 1.3},${x} ${y}`;
    return svg("path", { "data-sym": "w", d: path, fill: "none", stroke: "var(--w)", "stroke-width": 0.8 + 16 * w, "stroke-linecap": "round", opacity: 0.25 + 0.65 * w, pathLength: 1, "stroke-dasharray": "1 1" });
  }
  const upright = (x, y, height, wide, fill, sym) => svg("rect", { x: x - wide / 2, y: y - 6 - height, width: wide, height, rx: 2, fill, "data-sym": sym });
  const barsOf = ([x, y], i) => work.x[i].map((n, j) => upright(x + 9 * (j - 1), y, Math.max(1.5, 36 * n), 6, "var(--neutral)"));
  function scoreOf([x, y], i) {
    const most = Math.max(1e-9, ...work.dots), length = 36 * clamp((step === 2 ? work.dots : work.scores)[i] / most, 0.04, 1);
    const text = svg("text", { x, y: y - 11 - length, "text-anchor": "middle", style: "font-size: 13px" }, number((step === 2 ? work.dots : work.scores)[i]));
    return [upright(x, y, length, 12, "var(--soft)"), text];
  }

  // ---- One plane for all steps: arrows first, then labels where no line and no label is ----
  let ink, names;  // pixels of the lines; boxes of the labels
  function fresh(title) {
    const p = plane(SIZE, 3.1, -0.3, 1), look = { "text-anchor": "middle", "aria-hidden": true, style: "fill: var(--soft); font-size: 13px" };
    const across = `${axes[0]} →`, up = `↑ ${axes[1]}`, [x0, y0] = p.at([0, 0]);
    ink = [];
    names = [[SIZE - 7 * across.length, SIZE - 30, SIZE, SIZE], [x0, 0, x0 + 7 * up.length, 18]];
    set(p.root, { role: "img", "aria-label": title });
    p.root.append(svg("text", { ...look, x: SIZE - 2, y: SIZE - 10, "text-anchor": "end" }, across), svg("text", { ...look, x: x0 + 6, y: 13, "text-anchor": "start" }, up));
    for (const n of [1, 2]) {
      p.root.append(svg("text", { ...look, x: p.at([n, 0])[0], y: y0 + 16 }, n), svg("text", { ...look, x: x0 - 5, y: p.at([0, n])[1] + 5, "text-anchor": "end" }, n));
    }
    picture.replaceChildren(p.root, el("div", {}, title));
    return p;
  }
  const trace = ([x0, y0], [x, y]) => { for (let t = 0; t <= 1.001; t += 1 / 24) ink.push([x0 + t * (x - x0), y0 + t * (y - y0)]); };
  function arrow(p, sym, to, from = [0, 0], colour = `var(--${sym})`) {
    const made = p.arrow(colour);
    if (sym) set(made.node, { "data-sym": sym });
    made.point(to, from);
    trace(p.at(from), p.at(to));
    return made.node;
  }
  const inside = ([x, y], box) => x > box[0] && x < box[2] && y > box[1] && y < box[3];
  const overlap = (a, b) => a[0] < b[2] && a[2] > b[0] && a[1] < b[3] && a[3] > b[1];
  function labelCost(box) {  // lines that it covers, labels that it covers, how far it sticks out of the plane
    return 8 * ink.filter((point) => inside(point, box)).length + 60 * names.filter((other) => overlap(box, other)).length
      + 8 * Math.max(0, -box[0], -box[1], box[2] - SIZE - 2, box[3] - SIZE);
  }
  function placeLabel(p, sym, text, [x, y], [ax, ay]) {  // near (x, y), rather on the side of (ax, ay) than elsewhere
    const wide = 8.6 * text.length;
    let best, least = Infinity;
    for (const r of [9, 15, 24, 36]) {
      for (const turned of [0, 30, -30, 60, -60, 90, -90, 125, -125, 180]) {
        const a = Math.atan2(ay, ax) + turned * Math.PI / 180, [cx, cy] = [x + Math.cos(a) * (r + wide / 2), y + Math.sin(a) * (r + 7)];
        const box = [cx - wide / 2, cy - 9, cx + wide / 2, cy + 9], cost = r / 4 + Math.abs(turned) / 20 + labelCost(box);
        if (cost < least) [least, best] = [cost, box];
      }
    }
    names.push(best);
    p.root.append(svg("text", { x: (best[0] + best[2]) / 2, y: best[3] - 4, "text-anchor": "middle", class: "halo", "aria-hidden": true, "data-sym": sym || null, style: "font-weight: 600" }, text));
  }
  const seen = (rows) => rows.map((row, i) => [row, i]).filter(([row, i]) => Math.hypot(...row) > 0.01 && tokens.indexOf(tokens[i]) === i);
  const long = (row) => Math.hypot(...row) > 0.01;
  const outward = (p, row) => { const [[x0, y0], [x, y]] = [p.at([0, 0]), p.at(row)]; return [x - x0, y - y0]; };

  const between = (a, b, t) => a.map((n, i) => n + t * (b[i] - n));

  function drawTokens() {
    const p = fresh(`The tokens, by ${axes[0]} and ${axes[1]}`), shown = seen(work.v);
    for (const [v, i] of shown) arrow(p, "", v, [0, 0], i === chosen ? "currentColor" : "var(--neutral)");
    for (const [v, i] of shown) placeLabel(p, "", tokens[i], p.at(v), outward(p, v));
  }
  function drawQuery() {  // the rows of W_q, each as long as a number of x, tip to tail
    const p = fresh(`The rows of W_q, times x, make the query of ${name(chosen)}`), q = work.q[chosen], sum = [0, 0], middles = [];
    const wide = long(q) && p.arrow("var(--q)");
    if (wide) { set(wide.node, { "data-sym": "q", opacity: 0.6 }).firstChild.setAttribute("stroke-width", 8); trace(p.at([0, 0]), p.at(q)); }
    work.x[chosen].forEach((n, i) => {
      const from = [...sum];
      data.W_q[i].forEach((w, j) => { sum[j] += n * w; });
      if (Math.hypot(sum[0] - from[0], sum[1] - from[1]) < 0.01) return;
      arrow(p, "", [...sum], from, "var(--soft)");
      middles.push([features[i], between(sum, from, 0.5), p.at(from), p.at(sum)]);
    });
    if (!wide) return;
    for (const [text, middle, [x0, y0], [x, y]] of middles) placeLabel(p, "", text, p.at(middle), [y0 - y, x - x0]);
    placeLabel(p, "q", "q", p.at(q), outward(p, q));
    tween(900, (t) => wide.point(between(work.v[chosen], q, t)));
  }
  // Where the perpendicular from each key meets q: the dot product is a length along q.
  function drawProjections(scaled) {
    const q = work.q[chosen], shown = seen(work.k);
    const p = fresh(!long(q) ? `${name(chosen)} has no query; the keys` : scaled ? `The same lengths along q, divided by √${d}` : "How far each key reaches along q");
    if (!long(q)) return drawKeys(p, shown);
    set(arrow(p, "q", q), { opacity: scaled ? 0.5 : 1 });
    const drops = shown.map(([k, i]) => dropKey(p, k, i, scaled));
    placeLabel(p, "q", "q", p.at(q), outward(p, q));
    for (const drop of drops) labelDrop(p, drop, scaled);
    tween(900, (t) => { for (const drop of drops) moveDrop(p, drop, scaled, t); });
  }
  function drawKeys(p, shown) {
    for (const [k] of shown) arrow(p, "k", k);
    for (const [k, i] of shown) placeLabel(p, "k", tokens[i], p.at(k), outward(p, k));
  }
  function dropKey(p, k, i, scaled) {  // a key, the line that falls from it, and the dot where that meets q
    const projection = work.projections[i], to = scaled ? projection.map((n) => n / Math.sqrt(k.length)) : projection, opacity = scaled ? 0.3 : 1;
    const key = p.arrow("var(--k)");
    key.point(k);
    set(key.node, { opacity, "data-sym": "k" });
    const line = svg("path", { "data-sym": "k", fill: "none", stroke: "var(--k)", "stroke-width": 1.5, "stroke-dasharray": "4 3", opacity, "aria-hidden": true });
    const dot = svg("circle", { r: 5, fill: "var(--paper)", stroke: "var(--q)", "stroke-width": 2.5, "data-sym": "q", "aria-hidden": true });
    p.root.append(line, dot);
    trace(p.at([0, 0]), p.at(k));
    trace(p.at(k), p.at(projection));
    const [x, y] = p.at(to);
    for (const [a, b] of [[-5, 0], [5, 0], [0, -5], [0, 5], [0, 0]]) ink.push([x + a, y + b]);
    return { k, v: work.v[i], i, projection, to, key, line, dot };
  }
  function labelDrop(p, { k, i, projection, to }, scaled) {  // the key's name on its side of q, the number on the other
    const [[fx, fy], [kx, ky], along] = [p.at(projection), p.at(k), outward(p, work.q[chosen])];
    const away = Math.hypot(fx - kx, fy - ky) > 4 ? [fx - kx, fy - ky] : [along[1], -along[0]], value = number(scaled ? work.scores[i] : work.dots[i]);
    if (!scaled) placeLabel(p, "k", tokens[i], p.at(k), [-away[0], -away[1]]);
    placeLabel(p, "", scaled ? `${tokens[i]} ${value}` : value, p.at(to), away);
  }
  function moveDrop(p, { k, v, projection, to, key, line, dot }, scaled, t) {  // a value grows into its key, and the key drops; or the dot moves along q
    const grown = Math.min(1, 2.5 * t), fallen = scaled ? t : clamp((t - 0.4) / 0.6, 0, 1);
    if (!scaled) key.point(between(v, k, grown));
    const [cx, cy] = p.at(between(scaled ? projection : k, to, fallen));
    set(dot, { cx, cy, visibility: fallen ? "visible" : "hidden" });
    set(line, { d: `M${p.at(k)}L${scaled ? p.at(projection) : [cx, cy]}` });
  }
  function drawWeights() {  // each score is a disc on q whose area is the weight
    const q = work.q[chosen], p = fresh(long(q) ? "Each score becomes a share: the discs add up to 100 %" : "Equal scores become equal shares");
    if (long(q)) set(arrow(p, "q", q), { opacity: 0.35 });
    const discs = equalScores().map((group) => {
      const at = p.at(work.projections[group[0]].map((n) => n / Math.sqrt(d))), share = work.weights[group[0]];
      const node = svg("circle", { cx: at[0], cy: at[1], r: 5, fill: "var(--w)", "fill-opacity": 0.75, "data-sym": "w", "aria-hidden": true });
      return { group, at, share, node, r: Math.max(3, 46 * Math.sqrt(share)) };
    });
    p.root.append(...discs.map((disc) => disc.node));
    for (const { at: [x, y], r } of discs) for (let a = 0; a < 6.28; a += 0.25) ink.push([x + r * Math.cos(a), y + r * Math.sin(a)]);
    for (const { group, at: [x, y], share, r } of discs) {
      const told = [...new Set(group.map((i) => tokens[i]))], some = told.length > 2 ? `${told.length} tokens` : told.join(", ");
      placeLabel(p, "w", `${some} ${percent(share)}${group.length > 1 ? " each" : ""}`, [x + 0.8 * r, y], [1, 0.15]);
    }
    tween(900, (t) => { for (const { node, r } of discs) set(node, { r: 5 + t * (r - 5) }); });
  }
  function equalScores() {  // tokens whose scores are equal stand at one place
    const groups = new Map();
    work.scores.forEach((score, i) => groups.set(number(score), [...(groups.get(number(score)) ?? []), i]));
    return [...groups.values()];
  }
  function drawSum() {  // the values, each times its weight, tip to tail
    const p = fresh("Values times their weights, tip to tail"), sum = [0, 0], pieces = [];
    set(arrow(p, "", work.context, [0, 0], "currentColor"), { opacity: 0.45 });
    for (const i of tokens.keys()) {
      const from = [...sum], piece = work.v[i].map((n) => n * work.weights[i]);
      piece.forEach((n, j) => { sum[j] += n; });
      if (Math.hypot(...piece) > 0.004) pieces.push({ i, from, to: [...sum], whole: work.v[i], length: Math.hypot(...piece), made: p.arrow("var(--v)") });
    }
    for (const { made, from, to } of pieces) { set(made.node, { "data-sym": "v" }); trace(p.at(from), p.at(to)); }
    labelPieces(p, pieces.filter(({ length }) => length > 0.06));
    placeLabel(p, "", "sum", p.at(work.context), outward(p, work.context));
    tween(1100, (t) => { for (const { made, from, to, whole } of pieces) made.point(between(whole, to, t), between([0, 0], from, t)); });
  }
  function labelPieces(p, pieces) {  // on the side where the sum is not
    const [mx, my] = outward(p, work.context), [ox, oy] = p.at([0, 0]);
    for (const { i, from, to } of pieces) {
      const [[x0, y0], [x, y]] = [p.at(from), p.at(to)], middle = [(x0 + x) / 2, (y0 + y) / 2];
      placeLabel(p, "v", tokens[i], middle, mx * (middle[1] - oy) - my * (middle[0] - ox) < 0 ? [y - y0, x0 - x] : [y0 - y, x - x0]);
    }
  }
  function drawOutput() {
    const p = fresh(`Where ${name(chosen)} was, and where it is now`), old = work.v[chosen];
    for (const [v, i] of seen(work.v)) if (i !== chosen) set(arrow(p, "v", v), { opacity: 0.45 });
    arrow(p, "", old, [0, 0], "var(--soft)");
    const now = p.arrow("currentColor");
    trace(p.at([0, 0]), p.at(work.context));
    if (long(old)) placeLabel(p, "", "before", p.at(old), outward(p, old));
    placeLabel(p, "", "after", p.at(work.context), outward(p, work.context));
    for (const [v, i] of seen(work.v)) if (i !== chosen) placeLabel(p, "v", tokens[i], p.at(v), outward(p, v));
    tween(900, (t) => now.point(between(old, work.context, t)));
  }

  // ---- The same as numbers ----
  const row = (numbers) => `(${numbers.map((n) => number(n)).join(", ")})`, hued = (sym, text) => el("span", { "data-sym": sym }, text);
  const bar = (sym, share) => el("span", { class: "bar", style: `width: ${clamp(100 * share, 0, 100)}%; background: var(--${sym || "neutral"})` });
  const vector = (sym, numbers) => [el("span", { class: "vector", "data-sym": sym || null }, ...numbers.map((n) => el("span", {}, number(n), bar(sym, n / 3))))];
  function showNumbers() {
    rows.forEach((line, i) => {
      set(line, { style: i < tokens.length ? `font-weight: ${i === chosen ? 600 : 400}` : "display: none" });
      if (i < tokens.length) line.firstChild.textContent = tokens[i];
    });
    columns.forEach((column, j) => {
      const state = { class: [column.from > step && "later", column.until < step && "past"].filter(Boolean).join(" ") || null };
      set(heads[j], state, ...column.head());
      const most = column.sym ? 1 : Math.max(1e-9, ...work.dots);  // scores shrink beside the products they come from
      tokens.forEach((_, i) => set(rows[i].children[j + 1], state, ...column.cell(i), ...(column.bar ? [bar(column.sym, column.bar(i) / most)] : [])));
    });
    set(asks, { class: step < 1 ? "whose later" : "whose" }, `The query of ${name(chosen)} is`, ...vector("q", work.q[chosen]));
    set(result, { class: step < SUM ? "whose later" : "whose" }, `${name(chosen)} was`, ...vector("", work.v[chosen]), "and is now", ...vector("v", work.context));
  }
  const best = (most) => [...new Set(tokens.filter((_, i) => work.weights[i] > most - 1e-6))];
  function explain() {
    const most = Math.max(...work.weights), [a, b] = axes;
    const was = work.v[chosen].map((n) => number(n)), is = work.context.map((n) => number(n)), none = !long(work.q[chosen]);
    say([
      `${name(chosen)} is ${was[0]} ${a} and ${was[1]} ${b}. Choose a token, or a step.`,
      `The query of ${name(chosen)} says what it looks for: q = x · W_q = ${product()} = ${row(work.q[chosen])}. Every token has a key, k = x · W_k, and a value, v = x · W_v.`,
      none ? `The query of ${name(chosen)} is zero: every dot product is 0.` : `Each key drops onto q. How far along it lands, times the length of q, is the dot product: how well the key fits what ${name(chosen)} looks for.`,
      none ? `Divided by √${d}, 0 stays 0.` : `Divided by √${d} = ${number(Math.sqrt(d))}: every length shrinks alike, so that scores do not grow with the width.`,
      tokens.length === 1 ? `${name(chosen)} stands alone: it gets all the weight, 100 %.` : none ? `${name(chosen)} asks for nothing: every token gets the same weight.`
        : `The weights add up to 100 %. The most, ${percent(most)}${best(most).length > 1 ? " each" : ""}, goes to ${listed(best(most))}.`,
      `Every value times its weight, tip to tail. They end at the context, ${row(work.context)}.`,
      `${name(chosen)} was ${was[0]} ${a}, ${was[1]} ${b}. Now it is ${is[0]} ${a}, ${is[1]} ${b}.`][step]);
  }
  const product = () => work.x[chosen].map((n, i) => `${number(n)} · (${data.W_q[i].map((w) => number(w, 0)).join(", ")})`).join(" + ");
  // A long sentence needs more lines than the room that is kept: its numbers scroll then, and what stands below does not move.
  function fit() {
    if (!view.getBoundingClientRect().width) return;  // nothing is laid out
    list.style.maxHeight = "";  // first: the page may scroll with it
    const over = said.getBoundingClientRect().bottom - view.getBoundingClientRect().top - parseFloat(getComputedStyle(said.parentElement).minHeight);
    if (over > 0) list.style.maxHeight = `${Math.max(84, list.offsetHeight - over)}px`;
    const scrolls = over > 1, mine = rows[chosen];
    set(list, { class: scrolls ? "numbers deep" : "numbers", tabindex: scrolls ? 0 : null });
    if (scrolls) list.scrollTop = mine.offsetTop - (list.clientHeight - mine.offsetHeight) / 2;
  }
  const scenes = [drawTokens, drawQuery, () => drawProjections(false), () => drawProjections(true), drawWeights, drawSum, drawOutput];
  function go(to) {
    const kept = to > WEIGHTS && step >= WEIGHTS && to !== step;  // arcs that are there stay
    step = to;
    marks.forEach((mark, i) => set(mark, { "aria-pressed": String(i === step), class: i < step ? "done" : null }));
    scenes[step]();
    showNumbers();
    explain();
    fit();
    bend(kept);
  }

  const end = byItself(play, () => { step = 0; });
  lay();
  new ResizeObserver(() => { fit(); bend(true); }).observe(sky);
  expose(() => ({ tokens, chosen, step, ...work }));
}
for (const figure of document.querySelectorAll("figure[data-drawing=attend]")) draw(stage(figure));
})();
