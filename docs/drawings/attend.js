(() => {
// A sentence, the weights of one of its tokens, and the steps that make them: each is seen in a plane and read as numbers.
function draw({ view, data, el, svg, set, dot, matmul, softmax, mix, number, listed, said, say, choices, button, player, tween, motion, plane, expose, keep }) {
  const { table, axes, features, sentences, at_most: atMost } = data, SIZE = 250;
  const steps = ["The tokens", "Query: x · W_q", "Match: q · k", "Scale: ÷ √d", "Weights: softmax", "Sum: weights · v", "The context"];
  let tokens = sentences[0].split(" "), chosen = data.chosen, step = 0, work;

  // ---- What a reader sees: the sentence under its arcs, the steps, then arrows beside numbers ----
  const arcs = svg("svg", { style: "position: absolute; inset: 0; width: 100%; height: 100%; pointer-events: none", "aria-hidden": true });
  const line = el("div", { class: "beside", role: "group", "aria-label": "The tokens of the sentence", style: "position: relative; justify-content: center; gap: 0.5rem 0.4rem; margin: 0" });
  const chips = Array.from({ length: atMost }, (_, i) => set(button("", () => choose(i)), { onpointerenter: (e) => { if (e.pointerType === "mouse") choose(i); } }));
  line.append(...chips);
  const sky = el("div", { style: "position: relative; padding-top: 78px" }, arcs, line);
  const own = el("input", { type: "text", size: 24, maxlength: 120, placeholder: "or type a sentence", "aria-label": "A sentence of your own", ...keep });
  const form = el("form", { class: "row", onsubmit: (e) => { e.preventDefault(); read(own.value); } }, own, el("button", { type: "submit", ...keep }, "Use it"));
  const picker = choices("Sentence", sentences, 0, (i) => read(sentences[i]));
  const marks = steps.map((name, i) => button(name, () => { play.stop(); go(i); }));
  const play = player({ at: () => step, last: () => steps.length - 1, go, ms: () => 2600 });
  const stage = el("div", { style: `position: relative; width: ${SIZE}px; height: ${SIZE + 42}px` });
  const list = el("div", { role: "group", "aria-label": "The numbers", ...keep, style: "position: relative; flex: 1; min-width: 15rem; overflow-y: auto; font-variant-numeric: tabular-nums" });
  view.append(picker, form, sky, el("div", { class: "row", style: "gap: 0.4rem 0.5rem" }, play.node, ...marks), el("div", { class: "beside", style: "align-items: flex-start; gap: 1rem 1.5rem" }, stage, list), said);

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
    step = 0;
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
    bend();
    go(step);
  }

  const grow = motion();
  function bend() {  // arcs from the chosen token to all, as wide as their weights
    const box = sky.getBoundingClientRect();
    if (!box.width) return;  // nothing is laid out
    const tops = chips.slice(0, tokens.length).map((chip) => { const b = chip.getBoundingClientRect(); return [b.left + b.width / 2 - box.left, b.top - box.top]; });
    const [x0, y0] = tops[chosen];
    const paths = tops.map(([x, y], i) => {
      const up = Math.min(74, 26 + Math.abs(x - x0) * 0.22), top = Math.max(4 - Math.min(y, y0), -up) ;
      const d = i === chosen ? `M${x - 8} ${y}C${x - 22} ${y - 34},${x + 22} ${y - 34},${x + 8} ${y}`
        : `M${x0} ${y0}C${x0} ${y0 + top * 1.3},${x} ${y + top * 1.3},${x} ${y}`;
      const w = work.weights[i];
      return svg("path", { "data-sym": "w", d, fill: "none", stroke: "var(--w)", "stroke-width": 0.8 + 13 * w, "stroke-linecap": "round", opacity: 0.25 + 0.65 * w, pathLength: 1, "stroke-dasharray": "1 1" });
    });
    arcs.replaceChildren(...paths);
    grow(350, (t) => { for (const path of paths) set(path, { "stroke-dashoffset": 1 - t }); });
  }

  // ---- A plane, and what stands in it: arrows first, then labels where no line and no label is ----
  let ink, names;  // pixels of the lines; boxes of the labels
  function fresh(title, reach, low, step, marked, across = `${axes[0]} →`, up = `↑ ${axes[1]}`) {
    const p = plane(SIZE, reach, low, step), look = { "text-anchor": "middle", "aria-hidden": true, style: "fill: var(--soft); font-size: 13px" };
    ink = [];
    names = [[SIZE - 7 * across.length, SIZE - 22, SIZE, SIZE], [16, 0, 20 + 7 * up.length, 18]];
    set(p.root, { role: "img", "aria-label": title });
    p.root.append(svg("text", { ...look, x: SIZE - 2, y: SIZE - 6, "text-anchor": "end" }, across), svg("text", { ...look, x: 20, y: 13, "text-anchor": "start" }, up));
    for (const n of marked) {
      const [[x, y0], [x0, y]] = [p.at([n, 0]), p.at([0, n])];
      if (x < SIZE - 7 * across.length - 12) p.root.append(svg("text", { ...look, x, y: y0 + 15 }, n));  // to the right stands the name
      if (y > 18) p.root.append(svg("text", { ...look, x: x0 - 3, y: y + 5, "text-anchor": "end" }, n));
    }
    stage.replaceChildren(p.root, el("div", { style: "color: var(--soft); font-size: 13px" }, title));
    return p;
  }
  const ofKeys = (title) => fresh(title, 3.1, -0.35, 1, [1, 2]);
  const ofValues = (title) => fresh(title, 1.2, -0.15, 0.5, [0.5, 1]);
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

  function drawTokens() {
    const p = ofValues("The tokens, by two of their numbers"), shown = seen(work.v);
    for (const [v, i] of shown) arrow(p, "v", v, [0, 0], i === chosen ? "currentColor" : "var(--v)");
    for (const [v, i] of shown) placeLabel(p, "v", tokens[i], p.at(v), outward(p, v));
  }
  function drawQuery() {  // the rows of W_q, each as long as a number of x, tip to tail
    const p = ofKeys(`The rows of W_q, times x, make the query of ${name(chosen)}`), q = work.q[chosen], sum = [0, 0], middles = [];
    if (long(q)) set(arrow(p, "q", q), { opacity: 0.6 }).firstChild.setAttribute("stroke-width", 8);
    work.x[chosen].forEach((n, i) => {
      const from = [...sum];
      data.W_q[i].forEach((w, d) => { sum[d] += n * w; });
      if (Math.hypot(sum[0] - from[0], sum[1] - from[1]) < 0.01) return;
      arrow(p, "", [...sum], from, "var(--soft)");
      middles.push([features[i], sum.map((s, d) => (s + from[d]) / 2), p.at(from), p.at(sum)]);
    });
    if (!long(q)) return;
    for (const [text, middle, [x0, y0], [x, y]] of middles) placeLabel(p, "", text, p.at(middle), [y0 - y, x - x0]);
    placeLabel(p, "q", "q", p.at(q), outward(p, q));
  }
  // Where the perpendicular from each key meets q: the dot product is a length along q.
  function drawProjections(scaled) {
    const q = work.q[chosen], shown = seen(work.k);
    const p = ofKeys(!long(q) ? `${name(chosen)} has no query; the keys` : scaled ? "The same lengths, divided by √d" : "How far each key reaches along q");
    if (!long(q)) return drawKeys(p, shown);
    set(arrow(p, "q", q), { opacity: scaled ? 0.5 : 1 });
    const drops = shown.map(([k, i]) => dropKey(p, k, i, scaled));
    if (!scaled) placeLabel(p, "q", "q", p.at(q), outward(p, q));
    for (const drop of drops) labelDrop(p, drop, scaled);
    tween(650, (t) => { for (const drop of drops) moveDrop(p, drop, scaled, t); });
  }
  function drawKeys(p, shown) {
    for (const [k] of shown) arrow(p, "k", k);
    for (const [k, i] of shown) placeLabel(p, "k", tokens[i], p.at(k), outward(p, k));
  }
  function dropKey(p, k, i, scaled) {  // a key, the line that falls from it, and the dot where that meets q
    const projection = work.projections[i], to = scaled ? projection.map((n) => n / Math.sqrt(k.length)) : projection, opacity = scaled ? 0.3 : 1;
    set(arrow(p, "k", k), { opacity });
    const line = svg("path", { "data-sym": "k", fill: "none", stroke: "var(--k)", "stroke-width": 1.5, "stroke-dasharray": "4 3", opacity, "aria-hidden": true });
    const dot = svg("circle", { r: 5, fill: "var(--paper)", stroke: "var(--q)", "stroke-width": 2.5, "data-sym": "q", "aria-hidden": true });
    p.root.append(line, dot);
    trace(p.at(k), p.at(projection));
    const [x, y] = p.at(to);
    for (const [a, b] of [[-5, 0], [5, 0], [0, -5], [0, 5], [0, 0]]) ink.push([x + a, y + b]);
    return { k, i, projection, to, line, dot };
  }
  function labelDrop(p, { k, i, projection, to }, scaled) {  // the key's name on its side of q, the number on the other
    const [[fx, fy], [kx, ky], along] = [p.at(projection), p.at(k), outward(p, work.q[chosen])];
    const away = Math.hypot(fx - kx, fy - ky) > 4 ? [fx - kx, fy - ky] : [along[1], -along[0]], value = number(scaled ? work.scores[i] : work.dots[i]);
    if (!scaled) placeLabel(p, "k", tokens[i], p.at(k), [-away[0], -away[1]]);
    placeLabel(p, "", scaled ? `${tokens[i]} ${value}` : value, p.at(to), away);
  }
  function moveDrop(p, { k, projection, to, line, dot }, scaled, t) {
    const start = scaled ? projection : k, [cx, cy] = p.at(start.map((n, d) => n + t * (to[d] - n)));
    set(dot, { cx, cy });
    set(line, { d: `M${p.at(k)}L${scaled ? p.at(projection) : [cx, cy]}` });
  }
  function drawWeights() {  // the scores lie on the floor; over each stands its weight, as high as the curve of eˣ
    const top = Math.max(...work.scores), least = Math.min(0, ...work.scores), most = Math.max(...work.weights), reach = Math.max(top - least, 1);
    const p = fresh("Over each score, its weight: as high as eˢ, sum 1", 1.15, -0.12, 0.5, [], "score →", "↑ weight");
    const at = (score, share) => p.at([0.95 * (score - least) / reach, share]);
    const curve = Array.from({ length: 41 }, (_, i) => least + i / 40 * (top - least)).map((s) => at(s, most * Math.exp(s - top)));
    if (top > least) p.root.append(svg("path", { fill: "none", stroke: "var(--soft)", "stroke-width": 1.5, "aria-hidden": true, d: `M${curve.join("L")}` }));
    ink.push(...curve);
    const bars = equalScores().map((group) => ({ group, score: work.scores[group[0]], share: work.weights[group[0]],
      node: svg("path", { stroke: "var(--w)", "stroke-width": 12, "data-sym": "w", "aria-hidden": true }) }));
    p.root.append(...bars.map((bar) => bar.node));
    for (const { score, share } of bars) trace(at(score, 0), at(score, share));
    for (const { group, score, share } of bars) {
      const told = [...new Set(group.map((i) => tokens[i]))];
      placeLabel(p, "w", `${told.length > 2 ? `${told.length} tokens` : told.join(", ")} ${percent(share)}`, at(score, share), [0.4, -1]);
    }
    labelFloor(p, bars.map(({ score }) => [number(score), at(score, 0)]));
    tween(650, (t) => { for (const { node, score, share } of bars) set(node, { d: `M${at(score, 0)}L${at(score, Math.max(0.004, t * share))}` }); });
  }
  function equalScores() {  // tokens whose scores are equal stand at one place
    const groups = new Map();
    work.scores.forEach((score, i) => groups.set(number(score), [...(groups.get(number(score)) ?? []), i]));
    return [...groups.values()];
  }
  function labelFloor(p, scores) {  // below each bar its score, where there is room
    let last = -99;
    for (const [score, [x, y]] of scores.sort((a, b) => a[1][0] - b[1][0])) {
      if (x - last < 30 || x > SIZE - 66) continue;
      p.root.append(svg("text", { x: last = x, y: y + 15, "text-anchor": "middle", "aria-hidden": true, style: "fill: var(--soft); font-size: 13px" }, score));
    }
  }
  function drawSum() {  // the values, each times its weight, tip to tail
    const p = ofValues("Values times their weights, tip to tail"), sum = [0, 0], wanted = [];
    set(arrow(p, "", work.v[chosen], [0, 0], "var(--soft)"), { opacity: 0.5 });
    set(arrow(p, "", work.context, [0, 0], "currentColor"), { opacity: 0.45 });
    for (const i of tokens.keys()) {
      const from = [...sum], piece = work.v[i].map((n) => n * work.weights[i]);
      piece.forEach((n, d) => { sum[d] += n; });
      if (Math.hypot(...piece) > 0.004) arrow(p, "v", [...sum], from);
      if (Math.hypot(...piece) > 0.06) wanted.push([i, p.at(from), p.at(sum)]);
    }
    const [mx, my] = outward(p, work.context), [ox, oy] = p.at([0, 0]);
    for (const [i, [x0, y0], [x, y]] of wanted) {  // on the side where the sum is not
      const middle = [(x0 + x) / 2, (y0 + y) / 2], left = mx * (middle[1] - oy) - my * (middle[0] - ox) < 0;
      placeLabel(p, "v", tokens[i], middle, left ? [y - y0, x0 - x] : [y0 - y, x - x0]);
    }
    placeLabel(p, "", "sum", p.at(work.context), outward(p, work.context));
  }
  function drawOutput() {
    const p = ofValues(`Where ${name(chosen)} was, and where it is now`), old = work.v[chosen];
    arrow(p, "", old, [0, 0], "var(--soft)");
    const now = p.arrow("currentColor");
    trace(p.at([0, 0]), p.at(work.context));
    if (long(old)) placeLabel(p, "", "before", p.at(old), outward(p, old));
    placeLabel(p, "", "after", p.at(work.context), outward(p, work.context));
    tween(600, (t) => now.point(old.map((n, d) => n + t * (work.context[d] - n))));
  }

  // ---- The same as numbers ----
  const row = (numbers) => `(${numbers.map((n) => number(n)).join(", ")})`, hued = (sym, text) => el("span", { "data-sym": sym }, text);
  const d = () => work.q[0].length;
  const columns = [
    (i) => [hued("v", row(work.v[i]))], null, (i) => [hued("q", "q"), " · ", hued("k", row(work.k[i])), ` = ${number(work.dots[i])}`],
    (i) => [`${number(work.dots[i])} ÷ √${d()} = ${number(work.scores[i])}`], (i) => [`score ${number(work.scores[i])} → `, hued("w", percent(work.weights[i]))],
    (i) => [hued("w", number(work.weights[i])), " · ", hued("v", row(work.v[i]))], (i) => [hued("w", percent(work.weights[i]))]];
  function showNumbers() {
    if (step === 1) return list.replaceChildren(product());
    if ([...list.children].map((line) => line.firstChild.textContent).join() !== tokens.join()) list.replaceChildren(...tokens.map(lineOf));
    const highest = Math.max(1e-9, ...work.dots), lengths = step < 4 ? [[], [], work.dots, work.scores][step].map((n) => n / highest) : work.weights;
    [...list.children].forEach((line, i) => {
      const bar = line.children[2];
      line.style.fontWeight = i === chosen ? 600 : 400;
      line.children[1].replaceChildren(...columns[step](i));
      set(bar, { "data-sym": step < 4 ? null : "w" });
      bar.style.width = `${Math.max(0, 100 * (lengths[i] ?? 0))}%`;
      bar.style.background = step < 4 ? "var(--soft)" : "var(--w)";
    });
  }
  const lineOf = (token) => el("div", { style: "display: grid; grid-template-columns: minmax(4rem, 6rem) 1fr; padding-bottom: 2px" },
    el("span", {}, token), el("span", { style: "white-space: nowrap" }), el("span", { class: "moves", style: "grid-column: 1 / -1; height: 5px; border-radius: 3px" }));
  const best = (most) => [...new Set(tokens.filter((_, i) => work.weights[i] > most - 1e-6))];
  function explain() {
    const most = Math.max(...work.weights), [a, b] = axes;
    const was = work.v[chosen].map((n) => number(n)), is = work.context.map((n) => number(n)), none = !long(work.q[chosen]);
    say([
      `${name(chosen)} is ${was[0]} ${a} and ${was[1]} ${b}. Step on, or choose another token.`,
      `The vector of ${name(chosen)} times W_q is its query, q = ${row(work.q[chosen])}: what it looks for. Keys and values are made in the same way, from every token: k = x · W_k, v = x · W_v.`,
      none ? `The query of ${name(chosen)} is zero: every dot product is 0.` : `Each key drops onto q. How far along it lands, times the length of q, is the dot product: how well the key fits what ${name(chosen)} looks for.`,
      none ? `Divided by √${d()}, 0 stays 0.` : `Divided by √${d()} = ${number(Math.sqrt(d()))}: every length shrinks alike, so that scores do not grow with the width.`,
      tokens.length === 1 ? `${name(chosen)} stands alone: it gets all the weight, 100 %.` : none ? `${name(chosen)} asks for nothing: every token gets the same weight.`
        : `The weights add up to 100 %. The most, ${percent(most)}${best(most).length > 1 ? " each" : ""}, goes to ${listed(best(most))}.`,
      `Every value times its weight, tip to tail. They end at the context, ${row(work.context)}.`,
      `${name(chosen)} was ${was[0]} ${a}, ${was[1]} ${b}. Now it is ${is[0]} ${a}, ${is[1]} ${b}.`][step]);
  }
  function product() {  // x · W_q, a row of W_q at a time
    const head = (...texts) => el("tr", {}, ...texts.map((text) => el(text ? "th" : "td", text ? { scope: "col" } : {}, ...(text === "W_q" ? [hued("q", text)] : [text]))));
    return el("table", { class: "tight" }, el("thead", {}, head("", "x", "W_q", "x · W_q")), el("tbody", {},
      ...work.x[chosen].map((n, i) => el("tr", {}, el("th", { scope: "row" }, features[i]), el("td", {}, `${number(n)} ·`),
        el("td", { "data-sym": "q" }, `(${data.W_q[i].map((w) => number(w, 0)).join(", ")}) =`), el("td", {}, row(data.W_q[i].map((w) => n * w))))),
      el("tr", { style: "border-top: 1px solid var(--soft); font-weight: 600" }, el("th", { scope: "row", style: "font-weight: 600" }, hued("q", "q")), el("td", {}), el("td", {}, "sum ="), el("td", { "data-sym": "q" }, row(work.q[chosen])))));
  }
  // A long sentence needs more lines than the room that is kept: its numbers scroll then, and what stands below does not move.
  function fit() {
    if (!view.getBoundingClientRect().width) return;  // nothing is laid out
    list.style.maxHeight = "";  // first: the page may scroll with it
    const over = said.getBoundingClientRect().bottom - view.getBoundingClientRect().top - parseFloat(getComputedStyle(view).minHeight);
    if (over > 0) list.style.maxHeight = `${Math.max(96, list.offsetHeight - over)}px`;
    const scrolls = list.scrollHeight > list.clientHeight + 1, mine = list.children[chosen];
    set(list, { class: scrolls ? "deep" : null, tabindex: scrolls ? 0 : null });
    if (scrolls && step !== 1) list.scrollTop = mine.offsetTop - (list.clientHeight - mine.offsetHeight) / 2;
  }
  const scenes = [drawTokens, drawQuery, () => drawProjections(false), () => drawProjections(true), drawWeights, drawSum, drawOutput];
  function go(to) {
    step = to;
    marks.forEach((mark, i) => set(mark, { "aria-pressed": String(i === step) }));
    scenes[step]();
    showNumbers();
    explain();
    fit();
  }

  lay();
  new ResizeObserver(() => { bend(); fit(); }).observe(sky);
  expose(() => ({ tokens, chosen, step, ...work }));
}
for (const figure of document.querySelectorAll("figure[data-drawing=attend]")) draw(stage(figure));
})();
