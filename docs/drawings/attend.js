(() => {
// A sentence, the shares of one of its words, and the five steps that make them.
function draw({ view, data, el, svg, set, dot, matmul, softmax, mix, number, said, say, choices, button, player, tween, plane, expose, keep }) {
  const { table, axes, sentences, at_most: atMost } = data;
  const steps = ["The words", "Match: q · k", "Scale: ÷ √d", "Shares: softmax", "Mix: shares · v", "The new row"];
  let words = sentences[0].split(" "), chosen = data.chosen, step = 0, work, turn = 0;

  // ---- What a reader sees: the sentence under its arcs, the steps, then arrows beside numbers ----
  const arcs = svg("svg", { style: "position: absolute; inset: 0; width: 100%; height: 100%; pointer-events: none", "aria-hidden": true });
  const line = el("div", { class: "beside", role: "group", "aria-label": "The words of the sentence", style: "position: relative; justify-content: center; gap: 0.5rem 0.4rem; margin: 0" });
  const sky = el("div", { style: "position: relative; padding-top: 78px" }, arcs, line);
  const own = el("input", { type: "text", size: 24, maxlength: 60, placeholder: "or type a sentence", "aria-label": "A sentence of your own", ...keep });
  const form = el("form", { class: "row", onsubmit: (e) => { e.preventDefault(); read(own.value); } }, own, el("button", { type: "submit", ...keep }, "Use it"));
  const picker = choices("Sentence", sentences, 0, (i) => read(sentences[i]));
  const marks = steps.map((name, i) => button(name, () => { play.stop(); go(i); }));
  const play = player({ at: () => step, last: () => steps.length - 1, go, ms: () => 2200 });
  const planes = { keys: plane(230, 3, -0.3), values: plane(230, 1.15, -0.15, 0.5) };
  const stage = el("div", { style: "position: relative; width: 230px; height: 276px" });
  const list = el("div", { style: "flex: 1; min-width: 15rem; font-variant-numeric: tabular-nums" });
  view.append(picker, form, sky, el("div", { class: "row", style: "gap: 0.4rem 0.5rem" }, play.node, ...marks), el("div", { class: "beside", style: "align-items: flex-start; gap: 1rem 1.5rem" }, stage, list), said);

  const known = Object.keys(table).filter((word, i) => table[word].some((n) => n > 0) && i % 2 === 0).slice(0, 14).join(", ") + " and more";

  // ---- The numbers ----
  function compute() {
    const x = words.map((word) => table[word] ?? data.unknown);
    const [q, k, v] = [data.W_q, data.W_k, data.W_v].map((matrix) => matmul(x, matrix));
    const dots = k.map((key) => dot(q[chosen], key)), scores = dots.map((s) => s / Math.sqrt(q[0].length));
    const weights = softmax(scores);
    work = { x, q, k, v, dots, scores, weights, context: mix(weights, v) };
  }

  function read(text) {
    const found = text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? [];
    if (!found.length) { say("Type a few words first."); return; }
    words = found.slice(0, atMost);
    const ranks = words.map((word) => (table[word] ?? data.unknown)).map((row) => 2 * (row[2] > 0) + row.some((n) => n > 0));
    chosen = ranks.indexOf(Math.max(...ranks));  // a word whose sense is open; else one that has a subject
    play.stop();
    step = 0;
    lay();
    const unknown = words.filter((word) => !(word in table));
    if (found.length > atMost) say(`The first ${atMost} words are used.`);
    else if (unknown.length) say(`Not in this small table: ${unknown.join(", ")}. It knows ${known}. A row of zeros asks for nothing and is found by nothing.`);
  }

  // ---- Drawing ----
  const name = (i) => `“${words[i]}”`;
  const percent = (w) => `${Math.round(100 * w)} %`;
  function lay() {
    line.replaceChildren(...words.map((word, i) => button(word, () => choose(i))));
    [...line.children].forEach((chip, i) => {
      chip.addEventListener("pointerenter", (e) => { if (e.pointerType === "mouse") choose(i); });
      set(chip, { title: word_row(words[i]) });
    });
    choose(chosen);
  }
  const word_row = (word) => word in table ? table[word].map((n, i) => `${data.features[i]} ${number(n)}`).join(", ") : "not in the table";
  function choose(i) {
    chosen = i;
    compute();
    [...line.children].forEach((chip, j) => set(chip, { "aria-pressed": String(j === i) }));
    bend();
    go(step);
  }

  function bend() {  // arcs from the chosen word to all, as wide as their weights
    const box = sky.getBoundingClientRect();
    if (!box.width) return;  // nothing is laid out
    const tops = [...line.children].map((chip) => { const b = chip.getBoundingClientRect(); return [b.left + b.width / 2 - box.left, b.top - box.top]; });
    const [x0, y0] = tops[chosen], mine = ++turn;
    const paths = tops.map(([x, y], i) => {
      const up = Math.min(74, 26 + Math.abs(x - x0) * 0.22), top = Math.max(4 - Math.min(y, y0), -up) ;
      const d = i === chosen ? `M${x - 8} ${y}C${x - 22} ${y - 34},${x + 22} ${y - 34},${x + 8} ${y}`
        : `M${x0} ${y0}C${x0} ${y0 + top * 1.3},${x} ${y + top * 1.3},${x} ${y}`;
      const w = work.weights[i];
      return svg("path", { d, fill: "none", stroke: "var(--w)", "stroke-width": 0.8 + 13 * w, "stroke-linecap": "round", opacity: 0.25 + 0.65 * w, pathLength: 1, "stroke-dasharray": "1 1" });
    });
    arcs.replaceChildren(...paths);
    tween(350, (t) => { if (mine === turn) for (const path of paths) set(path, { "stroke-dashoffset": 1 - t }); });
  }

  function label(text, [x, y], taken, colour) {  // beside a tip, below the labels that stand there already
    let low = Math.max(12, Math.min(y + 5, 226));
    while (taken.some(([a, b]) => Math.abs(b - low) < 15 && Math.abs(a - x) < 60)) low -= 15;
    taken.push([x, low]);
    const right = x + 6 + 8 * text.length < 236;
    if (!right && low === Math.max(12, Math.min(y + 5, 226))) low -= 12;  // no room beside the tip: above it
    return svg("text", { x: right ? x + 6 : 234, "text-anchor": right ? "start" : "end", y: low, style: `fill: ${colour}; font-weight: 600`, "aria-hidden": true }, text);
  }
  function fresh(which, title) {
    planes[which] = which === "keys" ? plane(230, 3, -0.3) : plane(230, 1.15, -0.15, 0.5);
    set(planes[which].root, { role: "img", "aria-label": title });
    const [ax, ay] = axes;
    planes[which].root.append(
      svg("text", { x: 228, y: 224, "text-anchor": "end", style: "fill: var(--soft); font-size: 13px" }, `${ax} →`),
      svg("text", { x: 20, y: 13, style: "fill: var(--soft); font-size: 13px" }, `↑ ${ay}`));
    const { at } = planes[which], marked = which === "keys" ? [1, 2] : [0.5, 1];
    for (const n of marked) {
      const [[x, low], [left, y]] = [at([n, 0]), at([0, n])], look = { "text-anchor": "middle", "aria-hidden": true, style: "fill: var(--soft); font-size: 13px" };
      if (x < 170) planes[which].root.append(svg("text", { ...look, x, y: low + 15 }, n));  // to the right stands the name
      planes[which].root.append(svg("text", { ...look, x: left - 3, y: y + 5, "text-anchor": "end" }, n));
    }
    stage.replaceChildren(planes[which].root, el("div", { style: "color: var(--soft); font-size: 13px" }, title));
    return planes[which];
  }
  const seen = (rows) => rows.map((row, i) => [row, i]).filter(([row, i], at) => Math.hypot(...row) > 0.01 && words.indexOf(words[i]) === i);

  function arrowsOfKeys() {
    const taken = [], p = fresh("keys", `The query of ${name(chosen)}, and the keys`);
    for (const [k, i] of seen(work.k)) {
      p.arrow("var(--k)").point(k);
      p.root.append(label(words[i], p.at(k), taken, "var(--k)"));
    }
    p.arrow("var(--q)").point(work.q[chosen]);
    if (Math.hypot(...work.q[chosen]) > 0.01) p.root.append(label("q", p.at(work.q[chosen]), taken, "var(--q)"));
  }
  function rowsOfWords() {
    const taken = [], p = fresh("values", "The words, by two of their numbers");
    for (const [v, i] of seen(work.v)) {
      p.arrow(i === chosen ? "var(--w)" : "var(--v)").point(v);
      p.root.append(label(words[i], p.at(v), taken, i === chosen ? "var(--w)" : "var(--v)"));
    }
  }
  function tipToTail(done) {
    const p = fresh("values", done ? `Where ${name(chosen)} was, and where it is now` : "Shares of the values, tip to tail");
    const order = seen(work.v).map(([, i]) => i), mine = turn;
    const sum = [0, 0], taken = [], pieces = work.weights.map((w, i) => work.v[i].map((n) => n * w));
    const old = p.arrow("var(--soft)", done ? "before" : ""), now = p.arrow("var(--w)", done ? "after" : "");
    old.point(work.v[chosen]);
    if (done) {
      tween(600, (t) => { if (mine === turn) now.point(work.v[chosen].map((n, d) => n + t * (work.context[d] - n))); });
      return;
    }
    now.point(work.context);
    now.node.setAttribute("opacity", 0.35);
    for (const i of words.keys()) {
      const from = [...sum];
      pieces[i].forEach((n, d) => { sum[d] += n; });
      if (Math.hypot(...pieces[i]) > 0.004) p.arrow("var(--v)").point([...sum], from);
      if (Math.hypot(...pieces[i]) > 0.1) p.root.append(label(words[i], p.at(sum.map((n, d) => (n + from[d]) / 2)), taken, "var(--v)"));
    }
  }

  const row = (numbers) => `(${numbers.map((n) => number(n)).join(", ")})`;
  const columns = [
    (i) => row(work.v[i]), (i) => `q · ${row(work.k[i])} = ${number(work.dots[i])}`, (i) => `${number(work.dots[i])} ÷ √${work.q[0].length} = ${number(work.scores[i])}`,
    (i) => percent(work.weights[i]), (i) => `${number(work.weights[i])} · ${row(work.v[i])}`, (i) => percent(work.weights[i])];
  function tell() {
    const bars = step >= 3, most = Math.max(...work.weights);
    list.replaceChildren(...words.map((word, i) => el("div", { style: `display: grid; grid-template-columns: minmax(4rem, 5.5rem) 11.5rem 1fr; align-items: center; min-height: 22px; ${i === chosen ? "font-weight: 600" : ""}` },
      el("span", {}, word), el("span", { style: "white-space: nowrap" }, columns[step](i)),
      el("span", { class: "moves", style: `height: 13px; border-radius: 3px; background: var(--w); width: ${bars ? 100 * work.weights[i] : 0}%` }))));
    const best = work.weights.indexOf(most), even = most - Math.min(...work.weights) < 1e-6, [a, b] = axes;
    const was = work.v[chosen].map((n) => number(n)), is = work.context.map((n) => number(n));
    say([
      `${name(chosen)} is ${was[0]} ${a} and ${was[1]} ${b}. Step on, or choose another word.`,
      `What it looks for is its query, q = ${row(work.q[chosen])}. What each word is found by is its key. Their dot product is the score.`,
      `Divided by √${work.q[0].length}, so that scores do not grow with the width.`,
      even ? `${name(chosen)} asks for nothing: every word gets the same share.` : `Shares that add up to 100 %. The most, ${percent(most)}, goes to ${name(best)}.`,
      `Every value, made as long as its share, laid tip to tail. They end at ${row(work.context)}.`,
      `${name(chosen)} was ${was[0]} ${a}, ${was[1]} ${b}. Now it is ${is[0]} ${a}, ${is[1]} ${b}.`][step]);
  }
  function go(to) {
    step = to;
    marks.forEach((mark, i) => set(mark, { "aria-pressed": String(i === step) }));
    [rowsOfWords, arrowsOfKeys, arrowsOfKeys, arrowsOfKeys, () => tipToTail(false), () => tipToTail(true)][step]();
    tell();
  }

  lay();
  new ResizeObserver(() => bend()).observe(sky);
  expose(() => ({ words, chosen, step, ...work }));
}
for (const figure of document.querySelectorAll("figure[data-drawing=attend]")) draw(stage(figure));
})();
