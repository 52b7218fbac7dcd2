(() => {
// A word between two senses: scores with its neighbours become weights, and its vector moves to the weighted mean.
function draw({ view, data, el, svg, set, dot, softmax, mix, number, listed, said, say, choices, toggle, player, motion, plane, expose }) {
  const { tokens, x: vectors, query, axes } = data;
  const me = tokens.indexOf(query), old = vectors[me];
  const here = tokens.map((token, i) => i === me || data.beside.includes(token));
  const plain = (x) => String(+x.toFixed(2)), pair = (vector, text = number) => `(${vector.map((x) => text(x)).join(", ")})`;
  let step = 2, tip = old;

  // ---- The plane: only its quarter above zero ----
  const { root, at, arrow } = plane(600, 3);
  set(root, { width: 350, height: 350, viewBox: "276 -16 350 350", role: "img", "aria-label": `The words by their ${axes[0]} and ${axes[1]}, and where “${query}” moves`, style: "overflow: hidden" });
  root.querySelectorAll("path").forEach((line) => line.remove());
  for (const i of [0, 1, 2, 3]) root.append(svg("path", { d: `M${at([i, 0])}L${at([i, 3])}M${at([0, i])}L${at([3, i])}`, stroke: i ? "var(--faint)" : "var(--soft)" }));
  const left = at([0, 0]), write = (x, y, text, style, anchor = "start") => svg("text", { x, y, style, "text-anchor": anchor }, text);
  root.append(write(left[0] + 100, left[1] + 22, `${axes[0]} →`, "fill: var(--soft)", "middle"));
  root.append(svg("text", { transform: `translate(${left[0] - 8} ${left[1] - 150}) rotate(-90)`, "text-anchor": "middle", style: "fill: var(--soft)" }, `${axes[1]} →`));
  const strings = tokens.map(() => svg("path", { "data-sym": "w", stroke: "var(--w)", opacity: 0.5, "stroke-linecap": "round" }));
  const dots = tokens.map((word, i) => {
    const [x, y] = at(vectors[i]), below = vectors[i][1] === 0, edge = vectors[i][0] === 3;
    const label = write(x + (below ? (edge ? 12 : 0) : 12), y + (below ? 22 : 5), word, "font-weight: 600", below ? (edge ? "end" : "middle") : "start");
    return { mark: svg("circle", { "data-sym": "k", cx: x, cy: y, r: 6, "stroke-width": 2 }), label: i === me ? "" : label };
  });
  root.append(...strings, ...dots.flatMap(({ mark, label }, i) => (i === me ? [] : [mark, label])));
  const before = arrow("var(--q)", query), after = arrow("var(--v)", "new");
  before.point(old);
  set(before.node, { "data-sym": "q" });

  // ---- The table: which tokens are there, scores, weights ----
  const cell = (style) => el("span", { style });
  const cells = tokens.map((word, i) => ({
    name: i === me ? el("b", { "data-sym": "q", style: "justify-self: start; margin-left: 0.7rem; border-bottom: 3px solid var(--q)" }, word)
      : set(toggle(word, here[i], (on) => { play.stop(); here[i] = on; move(); }), { "aria-label": `${word}, beside ${query}` }),
    vector: el("span", {}, pair(vectors[i], plain)), score: cell("text-align: right"),
    weight: set(cell("text-align: right; font-weight: 600"), { "data-sym": "w" }), bar: set(cell("height: 14px; border-radius: 2px; background: var(--w)"), { "data-sym": "w" }),
  }));
  const head = (text, style = "") => el("span", { style: `font-size: 13px; line-height: 1.2; align-self: end; ${style}` }, text);
  const grid = el("div", { style: "display: grid; grid-template-columns: 5.2rem 3rem 3.4rem 3rem 1fr; gap: 4px 8px; align-items: center; font-variant-numeric: tabular-nums" },
    head("neighbours"), head("vector"), head(`“${query}” · word`, "text-align: right"), head("weight", "text-align: right"), head(""),
    ...cells.flatMap((c) => [c.name, c.vector, c.score, c.weight, c.bar]));
  const steps = choices("Step", ["1 scores", "2 weights", "3 mean"], step, (i) => { play.stop(); step = i; move(); });
  const news = el("div", { style: "margin-top: 0.5rem; font-weight: 600; min-height: 1.5em" });

  // ---- The numbers ----
  function now() {
    const scores = vectors.map((vector) => dot(old, vector));
    const weights = softmax(scores.map((s, i) => (here[i] ? s : -Infinity)));
    return { scores, weights, mean: mix(weights, vectors) };
  }
  function showToken(i, score, weight) {
    const c = cells[i], [fill, stroke, clear, faint] = here[i] ? ["var(--k)", "var(--k)", 1, 1] : ["none", "var(--soft)", 0.55, 0.7];
    c.score.textContent = here[i] ? number(score, 1) : "";
    c.weight.textContent = here[i] && step > 0 ? number(weight) : "";
    c.bar.style.width = step > 0 ? `${100 * weight}%` : "0";
    c.vector.style.opacity = clear;
    set(dots[i].mark, { fill, stroke });
    if (i !== me) dots[i].label.style.opacity = faint;
    set(strings[i], { d: `M${at(vectors[i])}L${at(tip)}`, "stroke-width": step > 0 ? 14 * weight : 0 });
  }
  function show() {
    const { scores, weights } = now();
    for (const i of tokens.keys()) showToken(i, scores[i], weights[i]);
    after.point(tip);
    set(after.node, { visibility: step === 2 ? "visible" : "hidden" });
  }
  function tell({ scores, weights, mean }) {
    const beside = tokens.filter((_, i) => here[i] && i !== me), most = Math.max(...weights), first = tokens.filter((_, i) => weights[i] > most - 1e-6);
    news.replaceChildren(...(step === 2 ? [el("span", { style: "border-bottom: 3px solid var(--v)" }, `new vector of “${query}”`), ` ${pair(mean)}`] : []));
    const gap = mean[0] - mean[1], sense = Math.abs(gap) < 0.005 ? `as much ${axes[0]} as ${axes[1]}` : `more ${axes[gap > 0 ? 0 : 1]} than ${axes[gap > 0 ? 1 : 0]}`;
    say(!beside.length ? `Alone, “${query}” keeps its vector.`
      : step === 0 ? `The score with each neighbour: ${beside.map((w) => `${w} ${plain(scores[tokens.indexOf(w)])}`).join(", ")}.`
      : step === 1 ? `The scores become weights. The largest, ${number(most)}, goes to ${listed(first)}.`
      : `“${query}” moves from ${pair(old, plain)} to ${pair(mean)}: ${sense}.`);
  }
  const glide = motion();
  function move() {
    const numbers = now(), from = tip, to = step === 2 ? numbers.mean : old;
    tell(numbers);
    glide(700, (t) => { tip = from.map((x, i) => x + (to[i] - x) * t); show(); });
  }
  const play = player({ at: () => step, last: () => 2, ms: () => 1600,
    go: (i) => { step = i; steps.querySelectorAll("input")[i].checked = true; move(); } });
  const panel = el("div", { style: "flex: 1 1 300px; min-width: 0" }, el("div", { class: "row", style: "margin-top: 0" }, play.node, steps), grid, news, said);
  set(said, { style: "min-height: 4.2em" });
  view.append(el("div", { class: "beside", style: "gap: 0.5rem 1.5rem; align-items: flex-start; margin: 0" }, root, panel));
  tip = now().mean;
  move();
  expose(() => ({ here: tokens.filter((_, i) => here[i]), ...now(), step, tip }));
}
for (const figure of document.querySelectorAll("figure[data-drawing=senses]")) draw(stage(figure));
})();
