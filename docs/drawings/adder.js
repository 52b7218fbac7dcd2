(() => {
// A transformer of one block adds two digits: what each part adds to the hidden state of "=", and the answer that it gives.
function draw({ view, viewWidth, data, el, svg, set, dot, matmul, softmax, mix, number, clamp, said, say, slider, toggle, motion, expose }) {
  const { tokens: names, features } = data, [plus, equals] = [10, 11], wide = viewWidth >= 600, size = viewWidth >= 900 ? "poster" : wide ? "wide" : "narrow";
  const [named, entry] = { poster: [[82, 62, 58, 66], 32], wide: [[52, 44, 40, 46], 20], narrow: [[50, 38, 34, 42], 18] }[size];
  const widths = [...named, ...Array(10).fill(entry)];
  const lefts = widths.map((_, i) => widths.slice(0, i).reduce((a, b) => a + b, 0.5)), width = lefts.at(-1) + widths.at(-1) + 0.5;
  let a = data.a, b = data.b, attends = true, feeds = true;

  // ---- The numbers ----
  const add = (x, y) => x.map((n, i) => n + y[i]);
  function answerOf(vector) {
    const probabilities = softmax(matmul([vector], data.lm_head)[0]), top = Math.max(...probabilities), best = probabilities.flatMap((p, i) => (p > top - 1e-6 ? [i] : []));
    return { probabilities, answer: best.length === 1 ? best[0] : null };  // null: several are equally likely
  }
  function compute(a, b) {
    const x = [a, plus, b, equals].map((id) => data.table[id]), last = x[3], none = last.map(() => 0);
    const [[q], k, v] = [matmul([last], data.W_q), matmul(x, data.W_k), matmul(x, data.W_v)];
    const weights = softmax(k.map((key) => dot(q, key) / Math.sqrt(q.length)));
    const byAttention = attends ? matmul([mix(weights, v)], data.W_o)[0] : none;
    const ramps = add(matmul([add(last, byAttention)], data.W_up)[0], data.b_up).map((n) => Math.max(0, n));
    const byFeedForward = feeds ? matmul([ramps], data.W_down)[0] : none, end = add(add(last, byAttention), byFeedForward);
    return { weights, vectors: [last, byAttention, byFeedForward, end], ...answerOf(end) };
  }
  const digits = [...Array(10).keys()];
  const right = () => digits.map((a) => digits.map((b) => compute(a, b).answer === (a + b) % 10));

  // ---- The tokens, and the weight that "=" gives to each ----
  const text = (x, y, says, more = {}) => svg("text", { x, y, "text-anchor": "middle", "aria-hidden": true, ...more }, says);
  const root = svg("svg", { width, height: 330, viewBox: `0 0 ${width} 330`, role: "img" }), step = { poster: 96, wide: 72, narrow: 62 }[size], box = 40, top = 46;
  const at = (i) => 24 + step * i;
  const tokens = [0, 1, 2, 3, 4].map((i) => ({
    box: svg("rect", { x: at(i) - box / 2, y: top, width: box, height: 32, rx: 5, fill: "none", stroke: i < 4 ? "var(--soft)" : "var(--rose)", "stroke-width": i < 4 ? 1 : 3, "stroke-dasharray": i < 4 ? null : "5 3" }),
    word: text(at(i), top + 22, "", { style: "font-size: 18px; font-weight: 600" }),
    weight: text(at(i), top + 50, "", { "data-sym": "w" }),
    arc: svg("path", { "data-sym": "w", fill: "none", stroke: "var(--w)", "stroke-linecap": "round",
      d: `M${at(3)} ${top - 2}C${at(3)} ${top - 20 - 12 * (3 - i)},${at(i)} ${top - 20 - 12 * (3 - i)},${at(i)} ${top - 2}` }),
  }));
  root.append(...tokens.slice(0, 3).flatMap((t) => [t.arc, t.weight]), ...tokens.flatMap((t) => [t.box, t.word]), text(at(4) - box / 2, top + 50, "output", { "text-anchor": "start" }));

  // ---- Its hidden state, entry by entry ----
  const first = 126;
  features.forEach((name, i) => root.append(text(lefts[i] + widths[i] / 2, first, name, { style: "font-size: 13px; fill: var(--soft)" })));
  const labels = ["The hidden state of “=” begins with", "+ what attention adds", "+ what the feed-forward layer adds", "= the hidden state at the end"];
  const strips = labels.map((name, r) => {
    const y = first + 24 + 46 * r, label = text(0, y, name, { "text-anchor": "start", style: r === 3 ? "font-weight: 600" : "" });
    const cells = features.map((_, i) => ({ rect: svg("rect", { x: lefts[i], y: y + 5, width: widths[i], height: 22, stroke: "var(--faint)" }), word: text(lefts[i] + widths[i] / 2, y + 21, "") }));
    root.append(label, ...cells.flatMap((c) => [c.rect, c.word]));
    return { label, cells };
  });

  // ---- All sums ----
  const side = 28, edge = 20, grid = svg("svg", { width: edge + 10 * side + 2, height: edge + 10 * side + 2, viewBox: `0 0 ${edge + 10 * side + 2} ${edge + 10 * side + 2}`, role: "img" });
  const squares = digits.map((i) => digits.map((j) => svg("rect", { fill: "var(--neutral)", rx: 3, style: "cursor: pointer",
    onclick: () => { a = i; b = j; one.move(a); other.move(b); show(); } })));
  const marks = digits.flatMap((i) => [text(edge + side * i + side / 2, 14, i, { style: "font-size: 13px" }), text(10, edge + side * i + side / 2 + 5, i, { style: "font-size: 13px" })]);
  grid.append(...marks, ...squares.flat());
  const count = el("div", { style: "font-weight: 600; font-size: 16px" }), axes = el("div", {
    style: "color: var(--soft); font-size: 13px" }, "first digit ↓, second digit →");
  const sums = el("div", {}, count, axes, grid);
  const sentence = ["Attention fetches.", "The other half thinks."].map((text) => el("span", {}, text));

  // ---- What is shown ----
  const short = (n) => (Math.abs(n) < 0.005 ? "" : number(n, Math.abs(n - Math.round(n)) < 0.005 ? 0 : 1));
  function showTokens(now) {
    [...[a, plus, b, equals].map((id) => names[id]), now.answer === null ? "?" : names[now.answer]].forEach((word, i) => { tokens[i].word.textContent = word; });
    tokens.slice(0, 3).forEach((t, i) => {
      const w = attends ? now.weights[i] : 0;
      set(t.arc, { "stroke-width": 0.8 + 10 * w, opacity: attends ? 0.25 + 0.6 * w : 0 });
      t.weight.textContent = attends ? `${Math.round(100 * w)} %` : "";
    });
  }
  function showVectors(now) {
    now.vectors.forEach((vector, r) => {
      const off = r === 1 && !attends || r === 2 && !feeds;
      set(strips[r].label, { opacity: off ? 0.5 : 1, "text-decoration": off ? "line-through" : null });
      vector.forEach((n, i) => {
        const { rect, word } = strips[r].cells[i], said = r === 3 && i - 4 === now.answer;
        word.textContent = short(n);
        set(rect, { fill: short(n) ? "var(--neutral)" : "none", "fill-opacity": 0.28, stroke: said ? "var(--rose)" : "var(--faint)", "stroke-width": said ? 3 : 1 });
      });
    });
  }
  function place(i, j, filled, flip) {  // a square becomes small while it changes
    const gap = 2 + 7 * Math.sin(Math.PI * flip), chosen = i === a && j === b;
    set(squares[i][j], { x: edge + side * j + gap, y: edge + side * i + gap, width: side - 2 * gap, height: side - 2 * gap, "fill-opacity": filled,
      stroke: chosen ? "var(--rose)" : "var(--neutral)", "stroke-width": chosen ? 3.5 : 1 });
  }
  const wave = motion(), far = 13;  // cells: how far the farthest is from the chosen one, and a little more
  let before = null;
  function showSums(found) {  // what changes does so in a wave, which begins at the chosen sum
    const from = before ?? found, changes = from.flat().some((was, n) => was !== found.flat()[n]);
    before = found;
    wave(changes ? 900 : 0, (t) => digits.forEach((i) => digits.forEach((j) => {
      const flip = from[i][j] === found[i][j] ? 1 : clamp(t * (far + 3) - Math.hypot(i - a, j - b), 0, 3) / 3;
      place(i, j, found[i][j] ? Math.max(flip, +from[i][j]) : Math.min(1 - flip, +from[i][j]), flip);
    })));
  }
  const strike = (node, on) => set(node, { style: on ? null : "text-decoration: line-through; opacity: 0.6" });
  let state;
  function show() {
    const now = compute(a, b), found = right(), n = found.flat().filter(Boolean).length, last = (a + b) % 10;
    showTokens(now);
    showVectors(now);
    showSums(found);
    strike(sentence[0], attends);
    strike(sentence[1], feeds);
    count.textContent = `${n} of 100 sums are right`;
    const says = now.answer === null ? "The model gives no answer: all tokens are equally likely." : `The model answers ${names[now.answer]}: ${now.answer === last ? "right" : "wrong"}.`;
    const why = attends && feeds ? `Attention brings the mean, ${short((a + b) / 2) || "0"}; the feed-forward layer finds the digit.`
      : attends ? "The mean is there, but no part turns it into a digit." : feeds ? "No digit has come to “=”, so the mean stays 0." : "Nothing was added to the hidden state.";
    say(`${a} + ${b} ends with ${last}. ${says} ${why} Of all hundred sums ${n} are right.`);
    set(root, { "aria-label": `The tokens ${a} + ${b} =, and the hidden state of “=”` });
    set(grid, { "aria-label": `All hundred sums of two digits, ${n} right` });
    state = { a, b, attends, feeds, ...now, right: found, count: n };
  }
  const one = slider("first digit", { min: 0, max: 9, step: 1, value: a, text: String, input: (n) => { a = n; show(); } });
  const other = slider("second digit", { min: 0, max: 9, step: 1, value: b, text: String, input: (n) => { b = n; show(); } });
  const attention = toggle("Attention", true, (on) => { attends = on; show(); });
  const feedForward = toggle("Feed-forward layer", true, (on) => { feeds = on; show(); });
  set(said, { style: `min-height: ${wide ? 7 : 5.6}em; margin-top: 0.6rem` });
  const big = "margin: 0; gap: 0 0.6ch; font-size: 20px; font-weight: 600";
  if (wide) for (const { children } of [one, other]) set(children[1], { style: "width: 7rem" });
  const left = el("div", { style: `flex: 0 1 ${width}px` },
    el("div", { class: "beside", style: big }, ...sentence),
    el("div", { class: "row" }, attention, feedForward), el("div", { class: "row" }, one, other),
    root);
  const aside = el("div",
    { style: `flex: 1 1 302px; max-width: ${wide ? 302 : 600}px` }, sums, said);
  const apart = "align-items: flex-start; gap: 0.6rem 1.5rem; justify-content: space-between";
  view.append(el("div", { class: "beside", style: apart }, left, aside));
  show();
  expose(() => state);
}
for (const figure of document.querySelectorAll("figure[data-drawing=adder]")) draw(stage(figure));
})();
